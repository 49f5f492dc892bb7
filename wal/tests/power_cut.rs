//! The power goes at each operation of a log's life, one after the other: making it, writing,
//! rolling, trimming, reusing files, opening it again. Whatever of the unsynced rest survives,
//! the next start finds all that was acknowledged, in order, and nothing that was never written.
//!
//! This is where a create or rename without a synced directory, and a byte used before its sync,
//! comes to light: what is not certain is lost in one of the outcomes tried.

#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail the test")]

mod common;

use common::*;
use zzq_wal::disk::Disk;
use zzq_wal::sim_disk::{Op, SimDisk, Survival};
use zzq_wal::{Lsn, OpenError, Recovery, segment_number};

/// Ways in which a crash may go, at each place.
const OUTCOMES: [Survival; 6] = [
    Survival::Nothing,
    Survival::Everything,
    Survival::Seeded(11),
    Survival::Seeded(12),
    Survival::Seeded(13),
    Survival::Seeded(14),
];

const RECORDS: u64 = 56;

/// What the writer knows about its log.
#[derive(Clone, Debug, Default)]
struct Story {
    /// Highest LSN that was durable.
    acknowledged: u64,
    /// Everything below may be gone.
    trimmed: u64,
}

/// The body of each record follows from its LSN; every eighth is longer than a part.
fn body(lsn: u64) -> Vec<u8> {
    let len =
        if lsn.is_multiple_of(8) { 20_000 } else { 1000 + usize::try_from(lsn).unwrap() * 90 };
    let mut body = vec![u8::try_from(lsn % 251).unwrap(); len];
    body[..8].copy_from_slice(&lsn.to_le_bytes());
    body
}

/// Writes records until the power goes, or all are there.
fn live(disk: &SimDisk, story: &mut Story) {
    let (log, recovery, seen) = match open(disk.clone(), small(1)) {
        Ok(opened) => opened,
        Err(OpenError::Disk { .. }) if disk.is_off() => return,
        Err(error) => panic!("{error}"),
    };
    check(&recovery, &seen, story);
    // What a start finds is durable from then on.
    story.acknowledged = recovery.last_lsn.get();
    let mut lane = producer(&log).0;
    for lsn in recovery.last_lsn.get() + 1..=RECORDS {
        if stage(&mut lane, &body(lsn)).is_err() {
            assert!(disk.is_off());
            return;
        }
        while log.durable().get() < lsn && !disk.is_off() {
            turn(&log, &mut lane);
            story.acknowledged = story.acknowledged.max(log.durable().get());
        }
        if lsn.is_multiple_of(10) && !disk.is_off() {
            story.trimmed = lsn - 8;
            log.trim(Lsn::new(story.trimmed));
        }
    }
    // Without power it fails, and whatever it has done by then must be true.
    let _ = log.mark_durable();
}

/// A start has found what it must, and nothing that was never written.
fn check(recovery: &Recovery, seen: &[Seen], story: &Story) {
    let last = recovery.last_lsn.get();
    assert!(last >= story.acknowledged, "{last} of {story:?}");
    assert!(last <= RECORDS);
    let first = seen.first().map_or(last + 1, |record| record.lsn);
    assert!(first <= story.trimmed.max(1), "{first} of {story:?}");
    assert_eq!(first + seen.len() as u64, last + 1);
    for (record, lsn) in seen.iter().zip(first..) {
        assert_eq!(record.lsn, lsn);
        assert!(record.body == body(lsn), "record {lsn} is another");
    }
}

/// Calls `case` with a disk whose power goes at the first changing operation, the second, and so
/// on up to `most`, or until it does not go any more. Returns how many there were.
fn at_each_operation(start: &SimDisk, most: u64, mut case: impl FnMut(&SimDisk)) -> u64 {
    for nth in 1..=most {
        let disk = start.restart();
        disk.cut_power(nth);
        case(&disk);
        if !disk.is_off() {
            return nth - 1;
        }
    }
    most
}

#[test]
fn what_was_acknowledged_is_found_wherever_the_power_goes() {
    let operations = at_each_operation(&SimDisk::new(), 1000, |disk| {
        let mut story = Story::default();
        live(disk, &mut story);
        for outcome in OUTCOMES {
            let left = disk.crash_with(outcome);
            let mut story = story.clone();
            live(&left, &mut story);
            assert_eq!(story.acknowledged, RECORDS, "the log goes on after {outcome:?}");
            // And once more, now with all that the second life has left behind.
            live(&left.crash_with(Survival::Nothing), &mut story);
        }
    });
    assert!((120..1000).contains(&operations), "{operations}");
}

#[test]
fn a_second_start_is_as_safe_wherever_the_power_goes() {
    let first = SimDisk::new();
    let mut story = Story::default();
    // In the middle of things: files have been used again, a write is in flight.
    first.cut_power(90);
    live(&first, &mut story);
    assert!(story.acknowledged > 20 && story.trimmed > 10, "{story:?}");
    for outcome in OUTCOMES {
        let left = first.crash_with(outcome);
        // Opening, and the first segments that it rolls to, on files that it takes over.
        let operations = at_each_operation(&left, 60, |disk| {
            let mut story = story.clone();
            live(disk, &mut story);
            for outcome in &OUTCOMES[..3] {
                let mut story = story.clone();
                live(&disk.crash_with(*outcome), &mut story);
                assert_eq!(story.acknowledged, RECORDS);
            }
        });
        assert!(operations > 40, "{operations}");
    }
}

/// A write reaches the disk's cache, and the process is killed before the flush. The next start
/// reads it and counts it as durable: it must be, also when the power goes right after.
#[test]
fn what_a_killed_process_left_in_flight_is_durable_once_it_was_found() {
    let disk = SimDisk::new();
    let (log, ..) = open(disk.clone(), small(1)).unwrap();
    let mut lane = producer(&log).0;
    put(&log, &mut lane, &body(1));
    disk.hold();
    stage(&mut lane, &body(2)).unwrap();
    lane.drive(1000);
    assert_eq!((log.durable().get(), disk.in_flight().len()), (1, 1));
    let restarted = disk.restart();
    let (_log, recovery, _) = reopen(&restarted, 2);
    assert_eq!(recovery.last_lsn.get(), 2);
    let (_, recovery, seen) = reopen(&restarted.crash_with(Survival::Nothing), 3);
    check(&recovery, &seen, &Story { acknowledged: 2, trimmed: 0 });
}

/// Whenever a record becomes durable, the name of the file that holds it is durable already.
#[test]
fn no_segment_is_written_before_its_name_is_durable() {
    let disk = SimDisk::new();
    let (log, ..) = open(disk.clone(), small(1)).unwrap();
    assert!(!disk.unsynced().names, "after the start");
    let mut lane = producer(&log).0;
    for lsn in 1..=RECORDS {
        put(&log, &mut lane, &body(lsn));
        let kept = disk.crash_with(Survival::Nothing);
        for (name, _) in disk.list().unwrap() {
            let durable = kept.bytes(&name).is_ok() || segment_number(&name).is_none();
            assert!(durable, "{name} is used before its name is durable");
        }
    }
    assert!(disk.count(Op::Rename) > 3, "it has rolled");
}
