//! Bytes with checksums that are right and contents that no writer makes: whoever forges them gets
//! no panic, and no reading without end.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests panic as tests do")]

mod common;

use common::*;
use zzq_wal::format::checksum;
use zzq_wal::format::group::GroupHeader;
use zzq_wal::sim_disk::SimDisk;
use zzq_wal::{Lsn, META_NAME, OpenError, Options, inspect, segment_name};

const GROUP: usize = 4096;

/// A log of three groups in its first segment, and those bytes.
fn log() -> (SimDisk, Vec<u8>) {
    let disk = SimDisk::new();
    let (log, _, _) = reopen(&disk, 1);
    let (mut one, _) = producer(&log);
    for n in 0..3 {
        put(&log, &mut one, &[n; 10]);
    }
    let bytes = disk.bytes(&segment_name(1)).unwrap();
    (disk.restart(), bytes)
}

fn put_u64(bytes: &mut [u8], at: usize, value: u64) {
    bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

fn seal(bytes: &mut [u8], field: usize, covered: std::ops::Range<usize>) {
    let sum = checksum(&bytes[covered]);
    bytes[field..field + 4].copy_from_slice(&sum.to_le_bytes());
}

/// Recovery and a start come to an end, whatever they say.
fn ends(disk: &SimDisk) {
    for threads in [0, 2] {
        let options = Options { recovery_threads: threads, ..small(2) };
        let _ = inspect(disk.clone(), &options, &mut |_| Ok(()));
    }
    let _ = open(disk.clone(), small(2));
}

#[test]
fn a_length_beyond_all_files_is_not_read_to_its_end() {
    for length in [1 << 50, 1 << 62, u64::MAX - 4095] {
        let (disk, mut bytes) = log();
        put_u64(&mut bytes, 80, length);
        seal(&mut bytes, 8, 12..4096);
        disk.insert(&segment_name(1), bytes);
        ends(&disk);
    }
}

#[test]
fn an_lsn_at_the_end_of_all_counts_is_no_overflow() {
    for (first, records) in [(u64::MAX, 0), (u64::MAX - 1, 0), (u64::MAX - 1, 1), (0, 0), (1, 0)] {
        let (disk, mut bytes) = log();
        // What is in front of the group says that it is the next.
        put_u64(&mut bytes, 152, first.saturating_sub(1));
        put_u64(&mut bytes, 176, first);
        seal(&mut bytes, 8, 12..4096);
        put_u64(&mut bytes, GROUP + 56, first);
        bytes[GROUP + 80..GROUP + 84].copy_from_slice(&u32::to_le_bytes(records));
        // Two records, of which the second is the first again.
        bytes.copy_within(GROUP + 128..GROUP + 150, GROUP + 150);
        bytes[GROUP + 84] = 44;
        seal(&mut bytes, GROUP + 8, GROUP + 128..GROUP + 4096);
        seal(&mut bytes, GROUP + 4, GROUP + 8..GROUP + 128);
        disk.insert(&segment_name(1), bytes);
        let mut meta = disk.bytes(META_NAME).unwrap();
        for page in meta.chunks_mut(4096) {
            page[88..104].fill(0);
            seal(page, 8, 12..4096);
        }
        disk.insert(META_NAME, meta);
        let mut seen = Vec::new();
        let outcome = inspect(disk.clone(), &small(2), &mut |record| {
            seen.push(record.lsn);
            Ok(())
        });
        assert!(outcome.is_err() || seen.len() <= 3, "{seen:?}");
        assert!(seen.iter().all(|lsn| *lsn < Lsn::new(u64::MAX)), "{seen:?}");
        ends(&disk);
    }
}

/// Segments that the visitor wants nothing of are passed over by what the next one says.
#[test]
fn a_break_behind_a_place_where_no_group_ends_is_refused() {
    let (disk, _) = log();
    let (log, _, _) = reopen(&disk, 2);
    put(&log, &mut producer(&log).0, &[3; 10]);
    drop(log);
    // The second was made ahead, and is void.
    let whole = disk.bytes(&segment_name(3)).unwrap();
    for end in [0, 4096, 8193, 1 << 40, 1 << 63, u64::MAX - 4095] {
        let disk = disk.restart();
        let mut bytes = whole.clone();
        put_u64(&mut bytes, 136, end);
        seal(&mut bytes, 8, 12..4096);
        disk.insert(&segment_name(3), bytes);
        let options = Options { visit_from: Lsn::new(4), ..small(3) };
        assert!(open(disk, options).is_err(), "an end at {end}");
    }
}

/// A start begins with a break: two groups that nothing proves are of one start, or the first is
/// proven.
#[test]
fn a_segment_that_rolls_on_from_another_start_is_refused() {
    let disk = SimDisk::new();
    let (log, _, _) = reopen(&disk, 1);
    let mut one = producer(&log).0;
    for n in 0..28 {
        put(&log, &mut one, &[n; 3000]);
    }
    // The last one of the first segment and the first one of the second, at the same time.
    disk.hold();
    for n in 28..30 {
        stage(&mut one, &[n; 3000]).unwrap();
        one.drive(1000);
    }
    disk.release_all();
    let disk = disk.restart();
    let mut bytes = disk.bytes(&segment_name(2)).unwrap();
    assert!(GroupHeader::decode(&bytes[GROUP..]).is_some());
    bytes[64] += 1;
    seal(&mut bytes, 8, 12..4096);
    disk.insert(&segment_name(2), bytes);
    let Err(OpenError::Damage(damage)) = open(disk, small(2)) else { panic!("it was opened") };
    assert_eq!(damage.file, segment_name(2), "{damage}");
}
