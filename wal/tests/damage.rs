//! Torn or damaged: an unacknowledged write is void, missing durable bytes refuse the start.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests panic as tests do")]

mod common;

use std::io::ErrorKind;

use common::*;
use zzq_wal::format::group::GroupHeader;
use zzq_wal::sim_disk::{Fault, Op, SimDisk, Survival};
use zzq_wal::{Damage, End, Lsn, META_NAME, OpenError, Options, segment_name};

/// A log of `count` records of `len` bytes, a group each, whose process was killed.
fn killed(count: u8, len: usize) -> SimDisk {
    let disk = SimDisk::new();
    let (log, _, _) = reopen(&disk, 1);
    let (mut one, _) = producer(&log);
    for n in 0..count {
        put(&log, &mut one, &vec![n; len]);
    }
    disk.restart()
}

/// Where each group of a segment begins, and where the last one ends.
fn groups(disk: &SimDisk, file: &str) -> Vec<usize> {
    let bytes = disk.bytes(file).unwrap();
    let mut places = vec![4096];
    while let Some(header) = GroupHeader::decode(&bytes[places[places.len() - 1]..]) {
        places.push(places[places.len() - 1] + header.length);
    }
    places
}

fn damage(disk: &SimDisk) -> Damage {
    match open(disk.clone(), small(77)) {
        Err(OpenError::Damage(damage)) => damage,
        Ok((_, recovery, _)) => panic!("taken: {recovery:?}"),
        Err(error) => panic!("{error}"),
    }
}

fn assert_prefix(disk: &SimDisk, count: u8) {
    let (_, recovery, seen) = reopen(disk, 78);
    assert_eq!(seen.len(), usize::from(count), "{recovery:?}");
    assert!(seen.iter().map(|record| record.body[0]).eq(0..count));
}

#[test]
fn a_last_group_torn_at_any_sector_is_void() {
    let whole = killed(5, 9000);
    let file = segment_name(1);
    let places = groups(&whole, &file);
    let (start, end) = (places[4], places[5]);
    assert_eq!(end - start, 12_288);
    for cut in (start..end).step_by(512) {
        for keeps_front in [true, false] {
            let disk = whole.restart();
            let lost = if keeps_front { cut..end } else { start..cut + 512 };
            disk.overwrite(&file, lost.start as u64, &vec![0; lost.len()]).unwrap();
            let (log, recovery, seen) = reopen(&disk, 2);
            let zeroes = keeps_front && cut > start + 9000 + 140;
            assert_eq!(seen.len(), if zeroes { 5 } else { 4 }, "{cut} {keeps_front}");
            let torn = End::Torn { offset: start as u64 };
            if keeps_front && cut > start && !zeroes {
                assert_eq!(recovery.segments[0].end, torn);
            }
            // What is written now is found behind it, and the torn group never comes back.
            let count = u8::try_from(seen.len()).unwrap();
            let (mut one, _) = producer(&log);
            put(&log, &mut one, &[count; 9000]);
            drop((log, one));
            let disk = disk.restart();
            assert_prefix(&disk, count + 1);
            let (log, _, _) = reopen(&disk, 3);
            let (mut one, _) = producer(&log);
            put(&log, &mut one, &[count + 1; 10]);
            assert_prefix(&disk.restart(), count + 2);
        }
    }
}

#[test]
fn a_bit_flip_in_front_of_later_groups_is_damage_with_file_and_offset() {
    let whole = killed(8, 100);
    let file = segment_name(1);
    let places = groups(&whole, &file);
    for (group, place) in places[..5].iter().enumerate() {
        for at in [0, 5, 20, 60, 130, 300, 4095] {
            let disk = whole.restart();
            disk.flip(&file, (place + at) as u64, 3).unwrap();
            let damage = damage(&disk);
            assert_eq!((damage.file.as_str(), damage.offset), (&*file, *place as u64));
            assert_eq!(damage.first, Lsn::new(group as u64 + 1));
            assert!(damage.last >= Lsn::new(5), "{damage}");
            let mut spoilt = whole.bytes(&file).unwrap();
            spoilt[place + at] ^= 8;
            assert_eq!(disk.bytes(&file).unwrap(), spoilt, "the file is as it was found");
            let hash = disk.image_hash();
            assert!(zzq_wal::inspect(disk.clone(), &small(1), &mut |_| Ok(())).is_err());
            assert_eq!(disk.image_hash(), hash, "looking changes nothing");
        }
    }
}

#[test]
fn the_last_group_is_proven_by_the_mark_of_an_idle_log() {
    let disk = SimDisk::new();
    let (log, _, _) = reopen(&disk, 1);
    let (mut one, _) = producer(&log);
    for n in 0..5_u8 {
        put(&log, &mut one, &[n; 10]);
    }
    let file = segment_name(1);
    let last = groups(&disk, &file)[4] as u64;
    let fresh = disk.restart();
    fresh.flip(&file, last + 200, 0).unwrap();
    assert_prefix(&fresh, 4);

    log.helper_step(1000);
    log.helper_step(1100);
    assert_eq!(log.facts().durable, Lsn::new(5), "it has been idle for long enough");
    assert!(!log.helper_step(1200));
    let idle = disk.restart();
    idle.flip(&file, last + 200, 0).unwrap();
    let damage = damage(&idle);
    assert_eq!((damage.first, damage.last), (Lsn::new(5), Lsn::new(5)));
    assert!(damage.to_string().contains(META_NAME), "{damage}");
}

#[test]
fn a_clean_stop_and_an_image_prove_the_end() {
    let disk = killed(5, 10);
    let file = segment_name(1);
    let last = groups(&disk, &file)[4] as u64;
    let by_image = disk.restart();
    by_image.flip(&file, last, 0).unwrap();
    let options = Options { durable: Lsn::new(5), ..small(5) };
    let refused = open(by_image, options).err().unwrap();
    assert!(refused.to_string().contains("image"), "{refused}");

    let (log, _, _) = reopen(&disk, 2);
    let (mut one, _) = producer(&log);
    put(&log, &mut one, &[5]);
    log.mark_durable().unwrap();
    let (_, recovery, _) = reopen(&disk.restart(), 3);
    let disk = disk.restart();
    disk.flip(&last_file(&recovery), 4096, 0).unwrap();
    assert_eq!(damage(&disk).first, Lsn::new(6));
}

#[test]
fn damage_in_an_older_segment_is_found_at_any_depth() {
    let whole = killed(200, 3000);
    let (_, recovery, _) = reopen(&whole.restart(), 3);
    let used: Vec<_> = recovery.segments.iter().filter(|segment| segment.groups > 0).collect();
    assert!(used.len() > 5);
    for segment in &used[..used.len() - 1] {
        let places = groups(&whole, &segment.file);
        for group in [0, places.len() / 2, places.len() - 2] {
            // In its header, which is all that says that there was a group, and in its body.
            for at in [40, 200] {
                let disk = whole.restart();
                disk.flip(&segment.file, places[group] as u64 + at, 1).unwrap();
                let damage = damage(&disk);
                assert_eq!((&damage.file, damage.offset), (&segment.file, places[group] as u64));
            }
        }
    }
    // A segment that is not there at all.
    for segment in &used {
        let disk = whole.restart();
        disk.delete(&segment.file).unwrap();
        let damage = damage(&disk);
        assert!(damage.reason.contains("missing"), "{damage}");
        assert_eq!(damage.file, segment.file);
    }
    // Two that have changed places.
    let disk = whole.restart();
    disk.swap(&used[1].file, &used[2].file).unwrap();
    assert!(damage(&disk).reason.contains("header is that of segment"));
}

#[test]
fn a_header_or_meta_that_is_gone_is_damage() {
    let whole = killed(5, 10);
    let header = whole.restart();
    header.flip(&segment_name(1), 100, 0).unwrap();
    let found = damage(&header);
    assert_eq!((found.file, found.offset), (segment_name(1), 0));

    let meta = whole.restart();
    meta.delete(META_NAME).unwrap();
    assert_eq!(damage(&meta).file, META_NAME);
    let meta = whole.restart();
    meta.overwrite(META_NAME, 0, &[0; 8192]).unwrap();
    assert_eq!(damage(&meta).file, META_NAME);
    // One page of two is enough.
    let meta = whole.restart();
    meta.overwrite(META_NAME, 0, &[0; 4096]).unwrap();
    assert_prefix(&meta, 5);
}

#[test]
fn files_of_another_log_or_a_newer_program_are_refused() {
    let (disk, other) = (SimDisk::new(), killed(3, 10));
    drop(open(disk.clone(), small(1234)).unwrap());
    disk.insert(&segment_name(1), other.bytes(&segment_name(1)).unwrap());
    assert!(damage(&disk).reason.contains("another log"));

    let newer = killed(3, 10);
    let mut bytes = newer.bytes(META_NAME).unwrap();
    for page in bytes.chunks_mut(4096) {
        page[12] = 9;
        let sum = zzq_wal::format::checksum(&page[12..]);
        page[8..12].copy_from_slice(&sum.to_le_bytes());
    }
    newer.insert(META_NAME, bytes);
    let refused = open(newer, small(1)).err().unwrap().to_string();
    assert!(refused.contains("version 9") && refused.contains("up to 1"), "{refused}");

    let options = Options {
        identity: zzq_wal::format::segment::Identity { node: 7, ..Default::default() },
        ..small(1)
    };
    assert!(matches!(open(killed(1, 1), options), Err(OpenError::Options(_))));
}

/// A byte less or more at the end of a file.
#[test]
fn a_file_that_is_a_byte_short_or_long_loses_nothing_it_held() {
    //= W08
    //= W09
    for name in [segment_name(1), segment_name(2)] {
        let disk = killed(5, 10);
        let Ok(bytes) = disk.bytes(&name) else { continue };
        let mut longer = bytes.clone();
        longer.push(0x5a);
        disk.insert(&name, longer);
        let (log, _, seen) = reopen(&disk, 2);
        assert_eq!(seen.len(), 5);
        let (mut one, _) = producer(&log);
        put(&log, &mut one, &[5]);
        assert_prefix(&disk.restart(), 6);

        let disk = killed(5, 10);
        disk.cut(&name, bytes.len() as u64 - 1).unwrap();
        assert_prefix(&disk, 5);
    }
}

/// The file ends within its last group.
#[test]
fn a_file_cut_within_its_last_group_loses_that_group_only() {
    //= W08
    let whole = killed(5, 5000);
    let places = groups(&whole, &segment_name(1));
    for lost in [1, 512, 4096, 5000, 8191] {
        let disk = whole.restart();
        disk.cut(&segment_name(1), (places[5] - lost) as u64).unwrap();
        assert_prefix(&disk, 4);
        assert_prefix(&disk, 4);
    }
    let disk = whole.restart();
    disk.cut(&segment_name(1), places[3] as u64 + 1).unwrap();
    assert_prefix(&disk, 3);
}

/// The last sector of the last record is zero; and the same in front of a later one.
#[test]
fn a_zeroed_sector_is_torn_at_the_end_and_damage_before_it() {
    //= W10
    let whole = killed(6, 1000);
    let places = groups(&whole, &segment_name(1));
    for (group, torn) in [(5, true), (2, false)] {
        let disk = whole.restart();
        disk.overwrite(&segment_name(1), places[group] as u64 + 1024, &[0; 512]).unwrap();
        if torn {
            assert_prefix(&disk, 5);
        } else {
            assert_eq!(damage(&disk).offset, places[group] as u64);
        }
    }
}

/// Whoever wants to know what was lost has the time of one start to look.
#[test]
fn remains_of_a_torn_write_stay_until_the_start_after_the_next() {
    let disk = killed(6, 1000);
    let file = segment_name(1);
    let torn = groups(&disk, &file)[5];
    disk.overwrite(&file, torn as u64 + 1024, &[0; 512]).unwrap();
    let remains = |disk: &SimDisk| disk.bytes(&file).unwrap()[torn..].to_vec();
    let found = remains(&disk);
    for (seed, kept) in [(2, true), (3, false)] {
        let (log, recovery, seen) = reopen(&disk, seed);
        assert_eq!(seen.len(), 5, "{recovery:?}");
        while log.helper_step(0) {}
        let left = remains(&disk);
        assert_eq!(left.len(), found.len());
        assert!(if kept { left == found } else { left.iter().all(|byte| *byte == 0) });
    }
}

/// The power goes right after a roll.
#[test]
fn a_roll_leaves_no_gap_over_a_power_cut() {
    //= W12
    let disk = SimDisk::new();
    let (log, _, _) = reopen(&disk, 1);
    let (mut one, _) = producer(&log);
    for n in 0..120_u8 {
        put(&log, &mut one, &[n; 3000]);
        assert_prefix(&disk.crash_with(Survival::Nothing), n + 1);
    }
}

/// A payload that is a copy of real groups at every alignment, in a log that is torn there.
#[test]
fn a_payload_shaped_like_groups_is_never_taken_for_one() {
    // Where the body of the second group's only record begins.
    let body_at = 128 + 12;
    for aligned in (0..4096).step_by(512) {
        let shift = (4096 + aligned - body_at) % 4096;
        let ours = torn_over_copies(shift, 1);
        // With the salt of this very segment, the copies count as remains of later groups.
        assert_eq!(matches!(ours, Err(OpenError::Damage(_))), aligned == 0, "{shift}");
        let (_, recovery, seen) = torn_over_copies(shift, 5).unwrap();
        assert_eq!((seen.len(), recovery.last_lsn), (1, Lsn::new(1)), "{shift}");
        assert!(matches!(recovery.segments[0].end, End::Clean { .. }), "they are nothing at all");
    }
}

type Opened = (zzq_wal::Log<SimDisk>, zzq_wal::Recovery, Vec<Seen>);

/// A log whose second group was torn at its front. Its payload, `shift` bytes in, is the third,
/// fourth and fifth group of a log made with `salts`; this one is made with salts 1.
fn torn_over_copies(shift: usize, salts: u64) -> Result<Opened, OpenError> {
    let donor = SimDisk::new();
    let (log, _, _) = reopen(&donor, salts);
    let (mut one, _) = producer(&log);
    for n in 0..5 {
        put(&log, &mut one, &[n; 10]);
    }
    let places = groups(&donor, &segment_name(1));
    let copies = donor.bytes(&segment_name(1)).unwrap()[places[2]..places[5]].to_vec();

    let disk = SimDisk::new();
    let (log, _, _) = open(disk.clone(), Options { part_size: 24_000, ..small(1) }).unwrap();
    let (mut one, _) = producer(&log);
    put(&log, &mut one, &[0; 10]);
    let mut payload = vec![0; shift];
    payload.extend_from_slice(&copies);
    put(&log, &mut one, &payload);
    let disk = disk.restart();
    let start = groups(&disk, &segment_name(1))[1] as u64;
    disk.overwrite(&segment_name(1), start, &[0; 512]).unwrap();
    open(disk, small(2))
}

#[test]
fn groups_of_an_earlier_use_of_the_file_are_not_found() {
    let disk = SimDisk::new();
    let (log, _, _) = reopen(&disk, 1);
    let (mut one, _) = producer(&log);
    for n in 0..200_u8 {
        let lsn = put(&log, &mut one, &[n; 3000]);
        log.trim(lsn);
    }
    let files = zzq_wal::disk::Disk::list(&disk).unwrap();
    assert!(files.len() < 8, "files are used again: {files:?}");
    let (_, recovery, seen) = reopen(&disk.restart(), 2);
    assert_eq!(recovery.last_lsn, Lsn::new(200));
    assert!(seen.iter().all(|record| u64::from(record.body[0]) + 1 == record.lsn));
}

#[test]
fn restart_upon_restart_changes_nothing() {
    let disk = killed(30, 3000);
    let mut sizes = Vec::new();
    for epoch in 2..12 {
        let (log, recovery, seen) = reopen(&disk, epoch);
        assert_eq!((seen.len(), recovery.epoch), (30, epoch));
        drop(log);
        let list = zzq_wal::disk::Disk::list(&disk).unwrap();
        sizes.push(list.iter().map(|(_, size)| size).sum::<u64>());
    }
    assert!(sizes.iter().all(|size| *size <= sizes[0].max(5 * 128 * 1024 + 8192)), "{sizes:?}");
    assert_prefix(&disk, 30);
}

#[test]
fn random_damage_never_panics_and_never_forges() {
    let whole = killed(60, 1500);
    let files: Vec<_> = zzq_wal::disk::Disk::list(&whole).unwrap();
    let mut state = 42_u64;
    let mut random = |below: u64| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let mut refused = 0;
    for _ in 0..300 {
        let disk = whole.restart();
        for _ in 0..=random(3) {
            let (name, size) = &files[usize::try_from(random(files.len() as u64)).unwrap()];
            let at = random(*size);
            let len = usize::try_from(random(600).min(size - at)).unwrap();
            let fill = u8::try_from(random(256)).unwrap();
            disk.overwrite(name, at, &vec![fill; len]).unwrap();
        }
        match open(disk, small(9)) {
            Ok((_, _, seen)) => {
                let in_order = (0_u8..).zip(&seen);
                assert!(in_order.into_iter().all(|(n, record)| record.body == [n; 1500]));
                assert!(seen.len() >= 58, "two groups at the end are unproven, no more");
            }
            Err(_) => refused += 1,
        }
    }
    assert!(refused > 100, "{refused}");
}

/// Where the log goes on was all that told where it had ended: LSNs of what was trimmed would have
/// been given again.
#[test]
fn what_was_trimmed_is_proven_to_have_been_durable() {
    let disk = SimDisk::new();
    let (log, ..) = reopen(&disk, 1);
    let mut one = producer(&log).0;
    let mut count = 0;
    // The third segment has one group, and there is no space for a fourth.
    for segments in [2, 3] {
        while log.segments().len() < segments {
            put(&log, &mut one, &[7; 3000]);
            count += 1;
        }
        while log.helper_step(0) {}
        disk.fail_always(Op::Create, Fault::Fail(ErrorKind::StorageFull));
    }
    let third = log.segments()[2];
    assert_eq!((third.first, third.last), (Lsn::new(count), Lsn::new(count)));
    log.trim(third.first);
    while log.helper_step(0) {}
    assert_eq!(log.segments().len(), 1);
    let disk = disk.restart();
    let file = segment_name(third.number);
    disk.flip(&file, 4096 + 100, 3).unwrap();
    let damage = damage(&disk);
    assert_eq!((damage.file, damage.offset, damage.last), (file, 4096, Lsn::new(count)));
}
