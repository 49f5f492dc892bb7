//! The power goes at each operation of a log's life, one after the other: making it, writing,
//! rolling, trimming, reusing files, opening it again. Whatever of the unsynced rest survives,
//! the next start finds all that was acknowledged, in order, and nothing that was never written.
//!
//! This is where a create or rename without a synced directory, and a byte used before its sync,
//! comes to light: what is not certain is lost in one of the outcomes tried.

#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail the test")]

mod common;
mod life;

use common::*;
use life::*;
use zzq_wal::disk::Disk;
use zzq_wal::sim_disk::{Op, SimDisk, Survival};
use zzq_wal::{OpenError, segment_number};

/// A life in which the power may go at any moment.
fn live_until_cut(disk: &SimDisk, story: &mut Story) {
    match live(disk, story) {
        Ok(_) => assert!(disk.is_off() || story.acknowledged == RECORDS, "the log goes on"),
        Err(OpenError::Disk { .. }) if disk.is_off() => {}
        Err(error) => panic!("{error}"),
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
        live_until_cut(disk, &mut story);
        for outcome in OUTCOMES {
            let left = disk.crash_with(outcome);
            let mut story = story.clone();
            live_on(&left, &mut story);
            // And once more, now with all that the second life has left behind.
            live_on(&left.crash_with(Survival::Nothing), &mut story);
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
    live_until_cut(&first, &mut story);
    assert!(story.acknowledged > 20 && story.trimmed > 10, "{story:?}");
    for outcome in OUTCOMES {
        let left = first.crash_with(outcome);
        // Opening, and the first segments that it rolls to, on files that it takes over.
        let operations = at_each_operation(&left, 60, |disk| {
            let mut story = story.clone();
            live_until_cut(disk, &mut story);
            for outcome in &OUTCOMES[..3] {
                let mut story = story.clone();
                live_on(&disk.crash_with(*outcome), &mut story);
            }
        });
        assert!(operations > 40, "{operations}");
    }
}

/// The power goes at the same place of each start, again and again: nothing is worn down, and what
/// these starts leave behind (a segment each, one for groups written anew, and an unfinished
/// `meta`, at worst) is gone after one that comes to its end.
#[test]
fn starts_that_are_cut_off_again_and_again_lose_nothing_and_leave_nothing() {
    let first = SimDisk::new();
    let mut story = Story::default();
    first.cut_power(90);
    live_until_cut(&first, &mut story);
    let before = first.crash(0).list().unwrap().len();
    for nth in 1..30 {
        let mut disk = first.crash(nth);
        let mut story = story.clone();
        for seed in 0..8 {
            disk.cut_power(nth);
            match open(disk.clone(), small(100 * nth + seed)) {
                Ok((_, recovery, seen)) => {
                    check(&recovery, &seen, &story);
                    story.acknowledged = story.acknowledged.max(recovery.last_lsn.get());
                }
                Err(OpenError::Disk { .. }) if disk.is_off() => {}
                Err(error) => panic!("{error}"),
            }
            disk = disk.crash(seed);
        }
        let files = disk.list().unwrap();
        assert!(files.len() <= before + 8 + 2, "{files:?}");
        drop(reopen(&disk, 1));
        let files = disk.list().unwrap();
        assert!(files.len() <= before + 4, "{files:?}");
        live_on(&disk, &mut story);
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
