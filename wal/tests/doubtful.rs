//! Bytes that were reported as failed and can be read all the same: they lie in a cache, and no
//! later flush need make them durable. A process that finds them cannot know; what it builds on
//! them must not fall with them.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests panic as tests do")]

mod common;
mod life;

use std::io::ErrorKind;

use common::*;
use life::{CHANGES, OUTCOMES, Story, body, check, live, live_on};
use zzq_wal::sim_disk::{Fault, SimDisk, Survival};
use zzq_wal::{Log, Lsn, Producer};

const FAIL_WRITTEN: Fault = Fault::FailWritten(ErrorKind::Other);

/// So many durable records, and the next two in flight, a group each.
fn two_in_flight(disk: &SimDisk, durable: u64) -> (Log<SimDisk>, Producer<SimDisk>) {
    let (log, ..) = reopen(disk, 1);
    let mut lane = producer(&log).0;
    for lsn in 1..=durable {
        put(&log, &mut lane, &body(lsn));
    }
    disk.hold();
    for lsn in durable + 1..=durable + 2 {
        stage(&mut lane, &body(lsn)).unwrap();
        lane.drive(1000);
    }
    assert_eq!(disk.in_flight().len(), 2);
    (log, lane)
}

/// The process is killed, the next one goes on behind what it found, and the power goes.
fn builds_on_what_it_finds(killed: &SimDisk, found: u64) {
    let disk = killed.restart();
    let (log, recovery, seen) = reopen(&disk, 2);
    check(&recovery, &seen, &Story { acknowledged: found, trimmed: 0 });
    assert_eq!(recovery.last_lsn, Lsn::new(found));
    let mut lane = producer(&log).0;
    for more in 0..4 {
        for outcome in OUTCOMES {
            let (_, recovery, seen) = reopen(&disk.crash_with(outcome), 3);
            check(&recovery, &seen, &Story { acknowledged: found + more, trimmed: 0 });
        }
        put(&log, &mut lane, &body(found + more + 1));
    }
}

#[test]
fn what_failed_and_was_found_stays_once_it_was_built_upon() {
    // The group before the last record that is durable is proven by its successor or not.
    for durable in [0, 1, 2, 6] {
        for failing in [[true, false], [false, true], [true, true]] {
            let disk = SimDisk::new();
            let (_log, _lane) = two_in_flight(&disk, durable);
            for (token, fails) in disk.in_flight().into_iter().zip(failing) {
                assert!(if fails {
                    disk.release_with(token, FAIL_WRITTEN)
                } else {
                    disk.release(token)
                });
            }
            builds_on_what_it_finds(&disk, durable + 2);
        }
    }
}

/// A record whose first parts are proven and whose last ones are not.
#[test]
fn parts_of_a_big_record_stay_together() {
    let big: Vec<u8> = (0..150_000_u32).map(|at| u8::try_from(at % 241).unwrap()).collect();
    let disk = SimDisk::new();
    let (log, ..) = reopen(&disk, 1);
    let mut lane = producer(&log).0;
    put(&log, &mut lane, &body(1));
    disk.hold();
    stage(&mut lane, &big).unwrap();
    lane.drive(1000);
    // Group by group, until no more of them are to come but the last two.
    let mut groups = 0;
    while groups < 5 {
        assert!(disk.release_next().is_some());
        lane.drive(1000);
        turn(&log, &mut lane);
        groups += 1;
    }
    for token in disk.in_flight() {
        assert!(disk.release_with(token, FAIL_WRITTEN));
    }
    assert_eq!(log.durable(), Lsn::new(1));
    let disk = disk.restart();
    let (log, recovery, seen) = reopen(&disk, 2);
    assert_eq!(recovery.last_lsn, Lsn::new(2), "{recovery:?}");
    assert_eq!(recovery.renewed.unwrap().groups, 2);
    assert!(seen[1].body == big);
    put(&log, &mut producer(&log).0, &body(3));
    let mut reader = log.reader(Lsn::new(2)).unwrap();
    assert!(reader.next_record().unwrap().unwrap().body == big);
    let (_, recovery, seen) = reopen(&disk.crash_with(Survival::Nothing), 3);
    assert!(seen[1].body == big && seen[2].body == body(3) && seen.len() == 3);
    assert_eq!(recovery.unfinished, 0);
}

/// One step fails and is done all the same, the process is killed, and the power goes while the
/// next one starts: in that of its changes, or the next, and so on.
#[test]
fn any_step_may_have_failed_before_a_kill() {
    let mut count = 0;
    for op in CHANGES {
        for nth in 1.. {
            let disk = SimDisk::new();
            disk.fail(op, nth, FAIL_WRITTEN);
            let mut story = Story::default();
            let _ = live(&disk, &mut story);
            if disk.count(op) < nth {
                break;
            }
            count += 1;
            starts_and_is_cut_off(&disk.restart(), &story, 3);
        }
    }
    assert!(count > 100, "{count}");
}

/// The same with a step of a start, which takes back what the one before has left.
#[test]
fn any_step_of_a_start_may_have_failed_before_a_kill() {
    let first = SimDisk::new();
    let mut story = Story::default();
    // In the middle of things: files have been used again, and one is made ahead.
    first.cut_power(90);
    let _ = live(&first, &mut story);
    let first = first.crash_with(Survival::Everything);
    let mut count = 0;
    for op in CHANGES {
        for nth in 1.. {
            let disk = first.restart();
            disk.fail(op, nth, FAIL_WRITTEN);
            let mut story = story.clone();
            if let Ok((_, recovery, _)) = open(disk.clone(), small(2)) {
                story.acknowledged = recovery.last_lsn.get();
            }
            if disk.count(op) < nth {
                break;
            }
            count += 1;
            starts_and_is_cut_off(&disk.restart(), &story, 1);
        }
    }
    assert!(count > 20, "{count}");
}

/// The power goes in each `step`th change that a start makes.
fn starts_and_is_cut_off(killed: &SimDisk, story: &Story, step: usize) {
    live_on(&killed.restart(), &mut story.clone());
    for cut in (1..).step_by(step) {
        let disk = killed.restart();
        disk.cut_power(cut);
        let mut story = story.clone();
        if let Ok((_, recovery, _)) = open(disk.clone(), small(cut)) {
            story.acknowledged = recovery.last_lsn.get();
        }
        if !disk.is_off() {
            break;
        }
        for outcome in [Survival::Nothing, Survival::Seeded(cut)] {
            live_on(&disk.crash_with(outcome), &mut story.clone());
        }
    }
}
