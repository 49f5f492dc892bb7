//! Power cuts and faults at every step of making an image, switching to it, and trimming.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests panic as tests do")]

mod common;

use std::io;

use common::life::{Life, sum_of};
use zzq_wal::disk::Disk;
use zzq_wal::read_facts;
use zzq_wal::sim_disk::{Fault, Op, SimDisk, Survival};

/// A log with two images and records behind them.
fn before(records: u64) -> SimDisk {
    let disk = SimDisk::new();
    let mut life = Life::start(&disk, 1).unwrap();
    for _ in 0..2 {
        life.append(records);
        life.image().unwrap();
    }
    life.append(30);
    life.log.mark_durable().unwrap();
    drop(life);
    disk.crash_with(Survival::Everything)
}

/// What every start must find: all that was durable, and exactly what it adds up to.
fn check(disk: &SimDisk, durable: u64, context: &str) -> Life {
    let life = check_damaged(disk, durable, context);
    assert!(life.verdicts.is_empty(), "{context}: {:?}", life.verdicts);
    life
}

/// The same where an image may have been damaged from outside.
fn check_damaged(disk: &SimDisk, durable: u64, context: &str) -> Life {
    let life = Life::start(disk, 99).unwrap_or_else(|error| panic!("{context}: {error}"));
    let last = life.log.appended().get();
    assert!(last >= durable, "{context}: {last} of {durable}");
    assert!(life.sum == sum_of(last), "{context}: the sum up to {last}");
    let marked = read_facts(disk).unwrap().snapshot;
    assert!(life.read_from > marked, "{context}: an image that was marked is used");
    life
}

#[test]
fn a_power_cut_at_any_step_leaves_one_of_the_two_images() {
    let origin = before(150);
    for nth in 1.. {
        let disk = origin.crash_with(Survival::Everything);
        let mut life = Life::start(&disk, 2).unwrap();
        let durable = life.append(200).get();
        disk.cut_power(nth);
        let outcome = life.image();
        if !disk.is_off() {
            outcome.unwrap();
            assert!(nth > 15, "{nth} steps are all");
            break;
        }
        let seeds = (0..4).map(Survival::Seeded);
        for survival in seeds.chain([Survival::Nothing, Survival::Everything]) {
            let left = disk.crash_with(survival);
            let context = format!("cut {nth}, {survival:?}");
            let marked = read_facts(&left).unwrap().snapshot_number;
            let mut life = check(&left, durable, &context);
            let found = life.shelf.newest().unwrap().heading().number;
            assert_eq!(found, marked, "{context}");
            // And it goes on from there.
            life.append(5);
            life.image().unwrap_or_else(|error| panic!("{context}: {error}"));
            let durable = life.log.durable().get();
            check(&left.restart(), durable, &context);
        }
    }
}

/// Each operation of each kind fails once, in each way: the image is made, or the ones before are
/// as good as ever.
#[test]
fn a_fault_at_any_step_costs_no_image() {
    let origin = before(150);
    let other = Fault::Fail(io::ErrorKind::Other);
    let ways = [
        (
            Op::Write,
            vec![
                other,
                Fault::FailWritten(io::ErrorKind::Other),
                Fault::Short(1024),
                Fault::Lost,
                Fault::Shifted(4096),
                Fault::InOtherFile,
            ],
        ),
        (Op::Create, vec![other, Fault::Short(0)]),
        (Op::Rename, vec![other, Fault::FailWritten(io::ErrorKind::Other)]),
        (Op::Remove, vec![other, Fault::FailWritten(io::ErrorKind::Other)]),
        (Op::Sync, vec![other]),
        (Op::SyncDir, vec![other, Fault::ToldOthers]),
        (Op::Read, vec![other]),
    ];
    for (op, faults) in ways {
        for fault in faults {
            for nth in 1.. {
                let disk = origin.crash_with(Survival::Everything);
                let mut life = Life::start(&disk, 3).unwrap();
                let durable = life.append(200).get();
                let already = disk.count(op);
                // Writes behind the first are those of `meta`: when they go astray, the log finds
                // it, and has its own tests.
                let astray = matches!(fault, Fault::Lost | Fault::Shifted(_) | Fault::InOtherFile);
                if op == Op::Write && astray && nth > 1 {
                    break;
                }
                disk.fail(op, nth, fault);
                let outcome =
                    std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| life.image()));
                disk.heal();
                if disk.count(op) < already + nth {
                    assert!(outcome.is_ok_and(|made| made.is_ok()));
                    break;
                }
                let context = format!("{op:?} {nth} {fault:?}: {outcome:?}");
                drop(life);
                for left in [disk.restart(), disk.crash_with(Survival::Nothing)] {
                    if fault == Fault::InOtherFile {
                        check_damaged(&left, durable, &context);
                    } else {
                        check(&left, durable, &context);
                    }
                }
            }
        }
    }
}

#[test]
fn images_follow_one_another_and_what_nobody_needs_goes() {
    let disk = SimDisk::new();
    let mut life = Life::start(&disk, 1).unwrap();
    for round in 1..=12 {
        life.append(100);
        life.image().unwrap();
        assert!(life.shelf.images().count() <= 2);
        let last = life.log.durable().get();
        let first = life.log.first_whole().get();
        assert!(first <= last.saturating_sub(100) + 1, "the image before has its log: {first}");
        if round % 4 == 0 {
            let durable = life.log.durable().get();
            drop(life);
            check(&disk.restart(), durable, "a start");
            life = Life::start(&disk, round).unwrap();
        }
    }
    let names = life.disk.list().unwrap();
    let images =
        names.iter().filter(|(name, _)| zzq_snapshot::image_number(name).is_some()).count();
    assert_eq!(images, 2, "{names:?}");
    assert!(life.log.first_whole().get() > 100, "the front of the log was trimmed");
}

/// The newest image is damaged afterwards: the one before and a longer log give the same.
#[test]
fn the_image_before_and_the_log_are_as_good() {
    let disk = before(150);
    let newest = Life::start(&disk, 4).unwrap();
    let (name, durable) = (newest.shelf.newest().unwrap().name().to_owned(), newest.log.durable());
    let sum = newest.sum.clone();
    drop(newest);
    disk.flip(&name, 4200, 0).unwrap();
    let life = Life::start(&disk, 5).unwrap();
    assert_eq!(life.verdicts.len(), 1);
    assert_eq!((life.sum, life.log.durable()), (sum, durable));
}

/// Without any image whose log is there the start is refused, whatever the log holds.
#[test]
fn a_log_that_begins_behind_the_image_is_refused() {
    let disk = SimDisk::new();
    let mut life = Life::start(&disk, 1).unwrap();
    for _ in 0..6 {
        life.append(150);
        life.image().unwrap();
    }
    assert!(life.log.first_whole().get() > 1);
    let names: Vec<_> = life.shelf.images().map(|image| image.name().to_owned()).collect();
    drop(life);
    for name in names {
        disk.flip(&name, 4200, 0).unwrap();
    }
    let error = Life::start(&disk, 5).map(drop).unwrap_err();
    assert!(error.contains("@1 is not there any more"), "{error}");
}
