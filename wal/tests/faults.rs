//! A disk that fails: one move to a fresh segment, then nothing is acknowledged any more.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests panic as tests do")]

mod common;
mod life;

use std::io::ErrorKind;
use std::sync::Arc;

use common::*;
use life::{CHANGES, OUTCOMES, Story, live, live_on};
use zzq_wal::disk::Disk;
use zzq_wal::sim_disk::{Fault, Op, SimDisk};
use zzq_wal::{
    Drive, Handed, Log, Lsn, OpenError, Producer, StageError, Stall, Status, segment_name,
};

const FAIL: Fault = Fault::Fail(ErrorKind::Other);

/// A fresh log with one lane.
fn begin(disk: &SimDisk) -> (Log<SimDisk>, Producer<SimDisk>) {
    let (log, _, _) = reopen(disk, 1);
    let lane = producer(&log).0;
    (log, lane)
}

/// Two groups in flight behind ten durable records.
fn two_in_flight(disk: &SimDisk) -> (Log<SimDisk>, Producer<SimDisk>, Vec<u64>) {
    let (log, mut one) = begin(disk);
    for n in 0..10_u8 {
        put(&log, &mut one, &[n]);
    }
    disk.hold();
    for n in 10..12_u8 {
        stage(&mut one, &[n]).unwrap();
        one.drive(1000);
    }
    let tokens = disk.in_flight();
    assert_eq!((tokens.len(), log.appended(), log.durable()), (2, Lsn::new(12), Lsn::new(10)));
    (log, one, tokens)
}

fn settle(log: &Log<SimDisk>, one: &mut Producer<SimDisk>) {
    for _ in 0..20 {
        turn(log, one);
    }
}

/// Why the log is read-only; the reason names a file.
fn why_read_only(log: &Log<SimDisk>) -> String {
    let Status::ReadOnly(reason) = log.status() else { panic!("it goes on: {log:?}") };
    assert!(names_a_place(&reason), "{reason}");
    reason
}

fn names_a_place(reason: &str) -> bool {
    [".log", "spare-", "meta", "directory"].iter().any(|place| reason.contains(place))
}

fn assert_found(disk: &SimDisk, count: u8) {
    let (_, recovery, seen) = reopen(&disk.restart(), 99);
    assert_eq!(recovery.last_lsn, Lsn::new(u64::from(count)), "{recovery:?}");
    assert!(seen.iter().map(|record| record.body[0]).eq(0..count), "{seen:?}");
}

#[test]
fn what_failed_once_moves_with_its_lsns() {
    // Which of the two fails, in which order they come back, and how.
    for failing in [[true, false], [false, true], [true, true]] {
        for reversed in [false, true] {
            let full = Fault::Fail(ErrorKind::StorageFull);
            for fault in [FAIL, Fault::FailWritten(ErrorKind::Other), Fault::Short(512), full] {
                let disk = SimDisk::new();
                let (log, mut one, tokens) = two_in_flight(&disk);
                let mut ends: Vec<_> = tokens.into_iter().zip(failing).collect();
                if reversed {
                    ends.reverse();
                }
                for (token, fails) in ends {
                    if fails {
                        assert!(disk.release_with(token, fault));
                    } else {
                        assert!(disk.release(token));
                    }
                    one.drive(1000);
                }
                let prefix = if failing[0] { 10 } else { 11 };
                assert_eq!(log.durable(), Lsn::new(prefix), "only what is in front of the failure");
                assert!(log.helper_step(0), "it makes the segment to move to");
                disk.release_all();
                settle(&log, &mut one);
                assert_eq!((log.durable(), log.status()), (Lsn::new(12), Status::Running));
                assert_eq!(one.durable(), Handed::new(12));
                assert!(log.take_failure().is_some_and(|why| why.contains(".log")));
                assert_eq!(log.take_failure(), None);
                assert_found(&disk, 12);
                for outcome in OUTCOMES {
                    assert_found(&disk.crash_with(outcome), 12);
                }
                for n in 12..200_u8 {
                    put(&log, &mut one, &[n; 2000]);
                }
                assert_found(&disk, 200);
            }
        }
    }
}

#[test]
fn a_file_that_failed_is_never_used_again() {
    let disk = SimDisk::new();
    let (log, mut one, tokens) = two_in_flight(&disk);
    for token in tokens {
        disk.release_with(token, FAIL);
    }
    one.drive(1000);
    assert!(log.helper_step(0));
    disk.release_all();
    settle(&log, &mut one);
    assert_eq!(log.durable(), Lsn::new(12));
    log.trim(Lsn::new(11));
    while log.helper_step(0) {}
    let files = disk.list().unwrap();
    assert!(files.iter().all(|(name, _)| *name != segment_name(1)), "{files:?}");
    assert!(files.iter().all(|(name, _)| !name.starts_with("spare")), "{files:?}");
}

#[test]
fn what_failed_twice_is_never_acknowledged() {
    let disk = SimDisk::new();
    let (log, mut one, tokens) = two_in_flight(&disk);
    let (two, woken) = producer(&log);
    for token in tokens {
        disk.release_with(token, FAIL);
    }
    one.drive(1000);
    assert!(log.helper_step(0));
    one.drive(1000);
    let again = disk.in_flight();
    assert_eq!(again.len(), 2, "both are written again");
    disk.release(again[1]);
    woken.take();
    disk.release_with(again[0], FAIL);
    one.drive(1000);
    assert!(matches!(log.status(), Status::ReadOnly(reason) if reason.contains(".log")));
    assert!(woken.take() > 0, "who waits is told");
    assert_eq!(stage(&mut one, b"x"), Err(StageError::ReadOnly));
    disk.release_all();
    settle(&log, &mut one);
    assert_eq!((log.durable(), one.durable()), (Lsn::new(10), Handed::new(10)));
    assert_eq!(one.drive(5000), Drive { led: true, again_at: None, stall: None });
    assert!(!two.wants(Handed::new(1)));
    assert!(log.is_settled());
    // What is there after a restart was promised; the rest may be there.
    let (_, _, seen) = reopen(&disk.restart(), 99);
    assert!(seen.len() >= 10);
}

#[test]
fn a_write_that_cannot_be_submitted_moves_too() {
    let disk = SimDisk::new();
    let (log, mut one) = begin(&disk);
    put(&log, &mut one, &[0]);
    disk.fail(Op::Submit, 1, FAIL);
    stage(&mut one, &[1]).unwrap();
    one.drive(1000);
    settle(&log, &mut one);
    assert_eq!((log.durable(), log.status()), (Lsn::new(2), Status::Running));
    assert_found(&disk, 2);
}

#[test]
fn a_busy_disk_is_asked_again() {
    let disk = SimDisk::new();
    let (log, mut one) = begin(&disk);
    disk.fail(Op::Submit, 1, Fault::Fail(ErrorKind::WouldBlock));
    stage(&mut one, &[0]).unwrap();
    assert_eq!(one.drive(1000).again_at, Some(1001));
    one.drive(1001);
    one.drive(1001);
    assert_eq!(log.durable(), Lsn::new(1));
    let (_, recovery, _) = reopen(&disk.restart(), 9);
    assert_eq!(recovery.segments[0].groups, 1);
}

#[test]
fn a_move_that_finds_no_place_makes_the_log_read_only() {
    for op in [Op::Create, Op::Write, Op::Sync, Op::Rename, Op::SyncDir] {
        let disk = SimDisk::new();
        let (log, mut one, tokens) = two_in_flight(&disk);
        disk.fail_always(op, FAIL);
        for token in tokens {
            disk.release_with(token, FAIL);
        }
        one.drive(1000);
        settle(&log, &mut one);
        let reason = why_read_only(&log);
        let written = format!("writing 4096 bytes at {} of {}", 11 * 4096, segment_name(1));
        assert!(reason.contains(&written), "the failure that it moves from: {reason}");
        let place = match op {
            Op::Create => "making spare-",
            Op::Write => "writing spare-",
            Op::Sync => "syncing spare-",
            Op::Rename => ".log: ",
            _ => "syncing the directory for 0",
        };
        assert!(reason.contains(place), "{op:?}: {reason}");
        assert_eq!(log.durable(), Lsn::new(10), "{op:?}");
        disk.heal();
        assert_found(&disk, 10);
    }
}

#[test]
fn parts_of_a_big_record_move_with_it() {
    let disk = SimDisk::new();
    let (log, mut one) = begin(&disk);
    put(&log, &mut one, &[0]);
    let big: Vec<u8> = (0..90_000_u32).map(|at| u8::try_from(at % 249).unwrap()).collect();
    disk.hold();
    let handed = stage(&mut one, &big).unwrap();
    one.drive(1000);
    let tokens = disk.in_flight();
    assert_eq!(tokens.len(), 2, "it takes more than two groups");
    disk.release_with(tokens[0], FAIL);
    disk.release(tokens[1]);
    one.drive(1000);
    log.helper_step(0);
    disk.release_all();
    settle(&log, &mut one);
    assert_eq!(one.durable(), handed);
    let (log, _, seen) = reopen(&disk.restart(), 2);
    assert!(seen.len() == 2 && seen[1].body == big);
    let mut reader = log.reader(Lsn::new(2)).unwrap();
    assert!(reader.next_record().unwrap().unwrap().body == big);
}

#[test]
fn without_space_the_log_pauses_and_comes_back() {
    //= W07
    // For the file, or for its name.
    for op in [Op::Create, Op::Rename] {
        pauses_and_comes_back(op);
    }
}

fn pauses_and_comes_back(op: Op) {
    let disk = SimDisk::new();
    let (log, mut one) = begin(&disk);
    disk.fail_always(op, Fault::Fail(ErrorKind::StorageFull));
    let mut now = 1000;
    let mut count = 0_u8;
    let stalled = loop {
        stage(&mut one, &[count; 3000]).unwrap();
        count += 1;
        let drive = one.drive(now);
        log.helper_step(0);
        now += 1;
        if drive.stall.is_some() {
            break one.drive(now);
        }
    };
    assert_eq!((stalled.stall, log.status()), (Some(Stall::Space), Status::NoSpace));
    let again_at = stalled.again_at.unwrap();
    assert!(again_at > now);
    disk.heal();
    let asking = one.drive(again_at);
    assert_eq!((asking.stall, asking.again_at), (Some(Stall::Space), None), "the helper calls");
    assert_eq!(one.drive(again_at + 50).again_at, None, "however long it takes");
    settle(&log, &mut one);
    one.drive(again_at);
    one.drive(again_at);
    assert_eq!((log.status(), one.durable()), (Status::Running, Handed::new(u64::from(count))));
    assert_found(&disk, count);
}

/// A log with one record, whose helper is about to make the next segment.
fn about_to_prepare(disk: &SimDisk) -> (Log<SimDisk>, Producer<SimDisk>, Arc<Woken>) {
    let (log, _, _) = reopen(disk, 1);
    let (mut one, woken) = producer(&log);
    stage(&mut one, &[0]).unwrap();
    one.drive(1000);
    one.drive(1000);
    woken.take();
    (log, one, woken)
}

#[test]
fn a_file_that_fails_as_the_next_segment_is_replaced_once() {
    for op in [Op::Create, Op::Write, Op::Sync] {
        let disk = SimDisk::new();
        let (log, mut one, _) = about_to_prepare(&disk);
        disk.fail(op, 1, FAIL);
        log.helper_step(0);
        assert_eq!(log.status(), Status::Running, "{op:?}");
        let failure = log.take_failure().unwrap();
        assert!(failure.contains("next segment") && failure.contains(" spare-"), "{failure}");
        for n in 1..150_u8 {
            put(&log, &mut one, &[n; 3000]);
        }
        assert_found(&disk, 150);

        let disk = SimDisk::new();
        let (log, mut one, woken) = about_to_prepare(&disk);
        disk.fail(op, 1, FAIL);
        disk.fail(op, 2, FAIL);
        log.helper_step(0);
        assert!(woken.take() > 0);
        one.drive(1000);
        let reason = why_read_only(&log);
        assert!(reason.contains("next segment") && reason.contains(" spare-"), "{reason}");
        assert_eq!(log.durable(), Lsn::new(1));
        disk.heal();
        assert_found(&disk, 1);
    }
}

/// Nothing is known of its names any more: no other file could be told from a lost one.
#[test]
fn a_directory_that_fails_makes_the_log_read_only() {
    for (op, fault) in [(Op::Rename, FAIL), (Op::SyncDir, FAIL), (Op::SyncDir, Fault::ToldOthers)] {
        let disk = SimDisk::new();
        let (log, mut one, woken) = about_to_prepare(&disk);
        disk.fail(op, 1, fault);
        log.helper_step(0);
        assert!(woken.take() > 0);
        one.drive(1000);
        let reason = why_read_only(&log);
        assert!(reason.contains(&segment_name(2)), "{op:?}: {reason}");
        assert_eq!(log.durable(), Lsn::new(1));
        disk.heal();
        assert_found(&disk, 1);
    }
}

#[test]
fn a_file_that_cannot_be_removed_is_named() {
    let disk = SimDisk::new();
    let (log, mut one, tokens) = two_in_flight(&disk);
    // What it moves from is not used again.
    for token in tokens {
        disk.release_with(token, FAIL);
    }
    one.drive(1000);
    log.helper_step(0);
    disk.release_all();
    settle(&log, &mut one);
    log.trim(Lsn::new(11));
    disk.fail(Op::Remove, 1, FAIL);
    while log.helper_step(0) && log.status() == Status::Running {}
    let reason = why_read_only(&log);
    assert!(reason.contains(&format!("removing {}", segment_name(1))), "{reason}");
}

/// 40 records, the last ones in a second segment; nobody has closed the first one yet.
fn outgrow(log: &Log<SimDisk>, one: &mut Producer<SimDisk>) {
    for n in 0..28_u8 {
        put(log, one, &[n; 3000]);
    }
    for n in 28..40_u8 {
        stage(one, &[n; 3000]).unwrap();
        one.drive(1000);
        one.drive(1000);
    }
}

#[test]
fn a_segment_whose_index_cannot_be_written_is_read_without() {
    let disk = SimDisk::new();
    let (log, mut one) = begin(&disk);
    turn(&log, &mut one);
    outgrow(&log, &mut one);
    // The next writes of the helper are the header of the next segment, meta, and this index.
    disk.fail(Op::Sync, 3, FAIL);
    while log.helper_step(0) {}
    let failure = log.take_failure();
    assert!(failure.as_ref().is_some_and(|why| why.contains("index")), "{failure:?}");
    assert_eq!(log.status(), Status::Running);
    let mut reader = log.reader(Lsn::new(20)).unwrap();
    assert_eq!(reader.next_record().unwrap().unwrap().body, [19; 3000]);
    assert_found(&disk, 40);
}

#[test]
fn after_a_failed_write_of_meta_the_log_is_read_only() {
    let disk = SimDisk::new();
    let (log, mut one) = begin(&disk);
    put(&log, &mut one, &[0]);
    settle(&log, &mut one);
    log.update_facts(|facts| facts.term = 3).unwrap();
    disk.fail(Op::Sync, 1, FAIL);
    let error = log.update_facts(|facts| facts.term = 4).unwrap_err();
    assert!(error.to_string().contains("syncing meta"), "{error}");
    assert!(why_read_only(&log).contains("syncing meta"));
    assert!(log.update_facts(|facts| facts.term = 5).is_err());
    let (log, _, _) = reopen(&disk.restart(), 2);
    assert!([3, 4].contains(&log.facts().term));
}

#[test]
fn opening_reports_each_failing_step() {
    for op in [Op::List, Op::Open, Op::Read, Op::Sync, Op::SyncDir, Op::Write, Op::Rename] {
        let disk = SimDisk::new();
        let (log, mut one) = begin(&disk);
        put(&log, &mut one, &[0]);
        let disk = disk.restart();
        disk.fail(op, 1, FAIL);
        let error = open(disk.clone(), small(2)).unwrap_err().to_string();
        assert!(names_a_place(&error), "{op:?}: {error}");
        disk.heal();
        assert_found(&disk, 1);
    }
}

/// The first operation of its kind fails, or the second, and so on, once; all later ones succeed,
/// as do flushes of kernels that have told of their failure. The log moves, goes on or is read-only
/// until the next start, and whatever a crash leaves then has all that was acknowledged: nothing
/// that a failed flush was for was ever believed.
#[test]
fn any_operation_may_fail_once_and_nothing_acknowledged_is_lost() {
    let (mut count, mut read_only) = (0, 0);
    for op in CHANGES {
        let fault = match op {
            // Of a write that failed anything may be there.
            Op::Write | Op::Rename | Op::Remove => Fault::FailWritten(ErrorKind::Other),
            _ => FAIL,
        };
        for nth in 1.. {
            let disk = SimDisk::new();
            let before = disk.count(op);
            disk.fail(op, nth, fault);
            let mut story = Story::default();
            let lived = live(&disk, &mut story);
            if disk.count(op) - before < nth {
                break;
            }
            count += 1;
            let goes_on = lived.as_ref().is_ok_and(|log| !log.is_read_only());
            assert!(!goes_on || story.acknowledged == life::RECORDS, "{op:?} {nth}: {story:?}");
            read_only += u64::from(!goes_on);
            match &lived {
                Ok(log) if log.is_read_only() => _ = why_read_only(log),
                Err(error) => assert!(names_a_place(&error.to_string()), "{error}"),
                Ok(_) => {}
            }
            drop(lived);
            for outcome in &OUTCOMES[..4] {
                live_on(&disk.crash_with(*outcome), &mut story.clone());
            }
        }
    }
    assert!(count > 100 && read_only > 20 && read_only < count, "{read_only} of {count}");
}

/// A flush fails in the middle of a start, which is given up. The device says nothing of it any
/// more, and the power goes: what was acknowledged before is there.
#[test]
fn a_start_whose_flush_fails_is_given_up() {
    let disk = SimDisk::new();
    let (log, mut one) = begin(&disk);
    for n in 0..10_u8 {
        put(&log, &mut one, &[n]);
    }
    for op in [Op::Sync, Op::SyncDir] {
        for nth in 1..=6 {
            let disk = disk.restart();
            disk.fail(op, nth, FAIL);
            let before = disk.count(op);
            let opened = open(disk.clone(), small(2));
            assert_eq!(opened.is_err(), disk.count(op) - before == nth, "{op:?} {nth}");
            for outcome in OUTCOMES {
                assert_found(&disk.crash_with(outcome), 10);
            }
        }
    }
}

const READ_ONLY: Fault = Fault::Fail(ErrorKind::ReadOnlyFilesystem);

/// The kernel has remounted the file system after an error of its own.
#[test]
fn on_a_read_only_file_system_the_log_reads_and_promises_nothing() {
    let disk = SimDisk::new();
    let (log, mut one) = begin(&disk);
    for n in 0..10_u8 {
        put(&log, &mut one, &[n]);
    }
    for op in CHANGES {
        disk.fail_always(op, READ_ONLY);
    }
    stage(&mut one, &[10]).unwrap();
    one.drive(1000);
    settle(&log, &mut one);
    assert!(matches!(log.status(), Status::ReadOnly(_)), "{log:?}");
    assert_eq!((log.durable(), one.durable()), (Lsn::new(10), Handed::new(10)));
    let mut reader = log.reader(Lsn::FIRST).unwrap();
    for n in 0..10_u8 {
        assert_eq!(reader.next_record().unwrap().unwrap().body, [n]);
    }
    assert!(log.mark_durable().is_err());

    let disk = disk.restart();
    for op in CHANGES {
        disk.fail_always(op, READ_ONLY);
    }
    let before = disk.image_hash();
    assert!(matches!(open(disk.clone(), small(2)), Err(OpenError::Disk { .. })));
    assert_eq!(disk.image_hash(), before);
    disk.heal();
    assert_found(&disk, 10);
}

/// A start needs a segment of its own.
#[test]
fn without_space_a_start_fails_and_the_next_one_with_space_finds_all() {
    let disk = SimDisk::new();
    let (log, mut one) = begin(&disk);
    for n in 0..60_u8 {
        put(&log, &mut one, &[n; 3000]);
    }
    let disk = disk.restart();
    let taken: u64 = disk.list().unwrap().iter().map(|(_, size)| size).sum();
    disk.set_capacity(taken);
    let before = disk.image_hash();
    for seed in 2..5 {
        match open(disk.clone(), small(seed)) {
            Err(OpenError::Disk { what, error }) => {
                assert!(what.contains("making a segment"), "{what}");
                assert_eq!(error.kind(), ErrorKind::StorageFull);
                assert!(error.to_string().contains("making spare-"), "{error}");
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(disk.image_hash(), before, "nothing is changed");
    }
    disk.set_capacity(2 * taken);
    assert_found(&disk, 60);
}

/// Bytes that a device has reported as not written are not trusted to be written later.
#[test]
fn a_file_whose_index_failed_is_no_spare_when_it_goes() {
    let disk = SimDisk::new();
    let (log, mut one) = begin(&disk);
    turn(&log, &mut one);
    outgrow(&log, &mut one);
    disk.fail(Op::Sync, 3, FAIL);
    while log.helper_step(0) {}
    assert!(log.take_failure().is_some_and(|why| why.contains("index")));
    let renamed = disk.count(Op::Rename);
    log.trim(log.durable());
    while log.helper_step(0) {}
    assert!(disk.bytes(&segment_name(1)).is_err(), "it has gone");
    assert_eq!(disk.count(Op::Rename), renamed, "it was removed");
}

/// Whether its index had failed is not known any more: a crash looks the same.
#[test]
fn a_file_that_is_found_without_its_index_is_no_spare_when_it_goes() {
    let disk = SimDisk::new();
    let (log, mut one) = begin(&disk);
    outgrow(&log, &mut one);
    assert_eq!((log.segments().len(), log.durable()), (2, Lsn::new(40)));
    let disk = disk.restart();
    let (log, ..) = reopen(&disk, 2);
    let mut one = producer(&log).0;
    put(&log, &mut one, b"in the segment of this start");
    while log.helper_step(0) {}
    log.mark_durable().unwrap();
    let renamed = disk.count(Op::Rename);
    log.trim(log.durable());
    while log.helper_step(0) {}
    for number in 1..3 {
        assert!(disk.bytes(&segment_name(number)).is_err(), "it has gone");
    }
    assert_eq!(disk.count(Op::Rename), renamed, "they were removed");
}
