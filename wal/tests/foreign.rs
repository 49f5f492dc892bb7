//! Whose files are in the log's directory: the log uses, renames and removes its own alone. And how
//! much they take.

#![allow(clippy::unwrap_used, reason = "helpers of tests panic as tests do")]

mod common;
mod life;

use common::*;
use life::{Story, live, live_on};
use zzq_wal::disk::Disk;
use zzq_wal::sim_disk::{SimDisk, Survival};
use zzq_wal::{Log, Lsn, OpenError, Options, segment_name, segment_number};

/// Names that are none of the log's.
const OTHERS: [&str; 8] = [
    "notes.txt",
    "17.log",
    "00000000000000000001.log.bak",
    "0000000000000000001a.log",
    "spare",
    "spare-x",
    "spare-007",
    "image-1",
];

fn others(disk: &SimDisk) -> Vec<Vec<u8>> {
    OTHERS.map(|name| disk.bytes(name).unwrap()).to_vec()
}

#[test]
fn files_of_others_are_left_alone() {
    let disk = SimDisk::new();
    for (n, name) in (1..).zip(OTHERS) {
        disk.insert(name, vec![n; 5000 * usize::from(n)]);
    }
    let before = others(&disk);
    let mut story = Story::default();
    // It rolls, trims, uses files again, and is cut off in the middle.
    disk.cut_power(90);
    let _ = live(&disk, &mut story);
    for survival in [Survival::Nothing, Survival::Everything] {
        let disk = disk.crash_with(survival);
        live_on(&disk, &mut story.clone());
        assert_eq!(others(&disk), before);
    }
}

/// The files of a log that has trimmed its first segments and has spares.
fn written(seed: u64) -> SimDisk {
    let disk = SimDisk::new();
    let (log, ..) = reopen(&disk, seed);
    let mut lane = producer(&log).0;
    for n in 0..180_u8 {
        put(&log, &mut lane, &[n; 3000]);
    }
    log.trim(Lsn::new(150));
    while log.helper_step(0) {}
    log.mark_durable().unwrap();
    disk
}

fn first_segment(disk: &SimDisk) -> u64 {
    let files = disk.list().unwrap();
    files.iter().filter_map(|(name, _)| segment_number(name)).min().unwrap()
}

#[test]
fn a_segment_or_spare_of_another_log_is_not_taken_for_ones_own() {
    let other = written(77);
    let foreign = other.bytes(&segment_name(first_segment(&other))).unwrap();
    for (bytes, what) in [(foreign.clone(), "another log's"), (b"a letter".repeat(1000), "none's")]
    {
        let disk = written(1);
        let trimmed = segment_name(1);
        assert!(first_segment(&disk) > 1);
        for name in [&trimmed[..], "spare-900"] {
            disk.insert(name, bytes.clone());
        }
        let (log, recovery, _) = reopen(&disk.restart(), 2);
        assert_eq!(recovery.foreign, [&trimmed[..], "spare-900"], "{what}");
        drop(log);
        let disk = disk.restart();
        let (log, ..) = reopen(&disk, 3);
        let mut lane = producer(&log).0;
        for n in 0..180_u8 {
            put(&log, &mut lane, &[n; 3000]);
            log.trim(log.durable());
            while log.helper_step(0) {}
        }
        for name in [&trimmed[..], "spare-900"] {
            assert!(disk.bytes(name).unwrap() == bytes, "{what}: {name}");
        }
    }
    // Where a segment must be, it is damage, and nothing is changed.
    let disk = written(1);
    disk.insert(&segment_name(first_segment(&disk)), foreign);
    let before = disk.image_hash();
    let opened = open(disk.clone(), small(2));
    let Err(OpenError::Damage(damage)) = opened else { panic!("it was opened, or not refused so") };
    assert!(damage.to_string().contains("another log"), "{damage}");
    assert_eq!(disk.image_hash(), before);
}

#[test]
fn an_empty_log_takes_no_more_than_8_mib() {
    let disk = SimDisk::new();
    let taken = || disk.list().unwrap().iter().map(|(_, size)| size).sum::<u64>();
    for start in 0..20_u64 {
        let options = Options::new(entropy(start));
        let (log, _) = Log::open(disk.clone(), options, 0, &mut |_| Ok(())).unwrap();
        let mut now = 0;
        while log.helper_step(now) {
            now += 200;
        }
        // With the first record comes the segment ahead.
        let mut lane = producer(&log).0;
        put(&log, &mut lane, b"the first");
        put(&log, &mut lane, b"the second");
        while log.helper_step(now) {
            now += 200;
        }
        log.trim(log.durable().next());
        while log.helper_step(now) {
            now += 200;
        }
        assert!(taken() <= 8 << 20, "{:?}", disk.list());
    }
}

/// They are no spares of a log that is made here, which makes its own beside them.
#[test]
fn what_is_called_a_spare_in_a_new_directory_is_left_alone() {
    let names = [
        "spare-0",
        "spare-1",
        "spare-2",
        "spare-9223372036854775806",
        "spare-18446744073709551614",
    ];
    // Of zeroes as spares are, too.
    for (name, byte) in names.into_iter().flat_map(|name| [(name, 7), (name, 0)]) {
        let disk = SimDisk::new();
        disk.insert(name, vec![byte; 128 * 1024]);
        for seed in 1..4 {
            let (log, ..) = reopen(&disk, seed);
            let mut one = producer(&log).0;
            for n in 0..100 {
                put(&log, &mut one, &[n; 3000]);
                log.trim(log.durable());
                while log.helper_step(0) {}
            }
        }
        assert!(disk.bytes(name).unwrap() == vec![byte; 128 * 1024], "{name} of {byte}");
    }
}
