//! A follower's log is truncated under a newer term: what goes never comes back, what is written in
//! its place stays, and a crash leaves one or the other.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests panic as tests do")]

mod common;

use std::io::ErrorKind;

use common::*;
use zzq_wal::sim_disk::{Fault, Op, SimDisk, Survival};
use zzq_wal::{
    Commits, End, Handed, Limit, Log, Lsn, OpenError, Options, Producer, ReadError, StageError,
    Status, TruncateError, segment_name,
};

fn follower(seed: u64) -> Options {
    Options { commits: Commits::ByCaller, ..small(seed) }
}

fn body(term: u64, lsn: u64) -> Vec<u8> {
    let len = if lsn.is_multiple_of(9) { 20_000 } else { 2000 + usize::try_from(lsn).unwrap() };
    let mut body = vec![u8::try_from(term).unwrap(); len];
    body[..8].copy_from_slice(&lsn.to_le_bytes());
    body
}

/// Writes records of a term up to an LSN, a group each, or until the power goes.
fn write(disk: &SimDisk, log: &Log<SimDisk>, lane: &mut Producer<SimDisk>, term: u64, last: u64) {
    for lsn in log.durable().get() + 1..=last {
        if stage(lane, &body(term, lsn)).is_err() {
            assert!(disk.is_off());
            return;
        }
        while log.durable().get() < lsn && !disk.is_off() {
            turn(log, lane);
        }
    }
}

fn finish(log: &Log<SimDisk>) {
    for _ in 0..100 {
        log.drive(1000, None);
        log.helper_step(0);
        if !log.is_truncating() {
            return;
        }
    }
    panic!("the truncation does not end: {log:?}");
}

/// Records up to `last`, by the terms that wrote them: each from its first LSN on.
fn assert_history(seen: &[Seen], last: u64, terms: &[(u64, u64)]) {
    assert_eq!(seen.len() as u64, last, "{terms:?}");
    for record in seen {
        let term = terms.iter().rfind(|(_, from)| *from <= record.lsn).unwrap().0;
        assert!(record.body == body(term, record.lsn), "{} is not of term {term}", record.lsn);
    }
}

fn written(last: u64) -> (SimDisk, Log<SimDisk>, Producer<SimDisk>) {
    let disk = SimDisk::new();
    let (log, ..) = open(disk.clone(), follower(1)).unwrap();
    let mut lane = producer(&log).0;
    write(&disk, &log, &mut lane, 0, last);
    (disk, log, lane)
}

#[test]
fn what_follows_is_written_in_place_of_what_went() {
    for after in [0, 1, 8, 9, 30, 59, 60] {
        let (disk, log, lane) = written(60);
        log.mark_durable().unwrap();
        assert_eq!(log.truncate(Lsn::new(after), 3).unwrap(), 0);
        finish(&log);
        assert_eq!((log.durable(), log.appended()), (Lsn::new(after), Lsn::new(after)));
        assert_eq!(log.facts().term, 3);
        let mut next = producer(&log).0;
        write(&disk, &log, &mut next, 3, after + 70);
        assert!(lane.is_ended() && !next.is_ended());
        drop((lane, next));
        let mut reader = log.reader_to(Lsn::FIRST, Limit::Durable).unwrap();
        for lsn in 1..=after + 70 {
            let term = if lsn > after { 3 } else { 0 };
            assert!(reader.next_record().unwrap().unwrap().body == body(term, lsn), "{lsn}");
        }
        let mut disk = disk.restart();
        for seed in 5..8 {
            let (_, _, seen) = open(disk.clone(), follower(seed)).unwrap();
            assert_history(&seen, after + 70, &[(0, 1), (3, after + 1)]);
            disk = disk.crash_with(Survival::Nothing);
        }
    }
}

#[test]
fn a_log_is_truncated_again_and_again() {
    let (disk, log, _) = written(40);
    let mut terms = vec![(0, 1)];
    for (term, after) in [(1, 30), (2, 44), (3, 12), (4, 12), (5, 30), (6, 0)] {
        log.truncate(Lsn::new(after), term).unwrap();
        finish(&log);
        terms.retain(|(_, from)| *from <= after);
        terms.push((term, after + 1));
        let mut lane = producer(&log).0;
        write(&disk, &log, &mut lane, term, after + 20);
        let (_, _, seen) = open(disk.restart(), follower(9)).unwrap();
        assert_history(&seen, after + 20, &terms);
    }
}

#[test]
fn what_may_not_be_truncated_is_refused_and_nothing_has_changed() {
    let disk = SimDisk::new();
    let (log, ..) = open(disk.clone(), Options { term: 2, ..follower(1) }).unwrap();
    let mut lane = producer(&log).0;
    for _ in 0..5 {
        for _ in 0..3 {
            stage(&mut lane, b"three in a group").unwrap();
        }
        while lane.durable() < lane.handed() {
            turn(&log, &mut lane);
        }
    }
    log.commit(Lsn::new(6));
    log.update_facts(|facts| facts.term = 4).unwrap();
    let hash = disk.image_hash();
    let refused = |after, term| log.truncate(Lsn::new(after), term).unwrap_err();
    for term in [0, 2, 3] {
        let error = refused(9, term);
        assert!(matches!(error, TruncateError::OldTerm { newest: 4, .. }), "{error}");
    }
    assert!(matches!(refused(3, 5), TruncateError::Committed { .. }));
    assert!(matches!(refused(16, 5), TruncateError::Beyond { .. }));
    for (after, before, behind) in [(7, 6, 9), (8, 6, 9), (10, 9, 12), (14, 12, 15)] {
        match refused(after, 5) {
            TruncateError::WithinGroup { before: found, behind: next, .. } => {
                assert_eq!((found, next), (Lsn::new(before), Lsn::new(behind)));
            }
            other => panic!("{other}"),
        }
    }
    assert_eq!(disk.image_hash(), hash);
    assert!(!lane.is_ended() && !log.is_truncating());
    stage(&mut lane, b"it goes on").unwrap();
    turn(&log, &mut lane);
    turn(&log, &mut lane);
    assert_eq!(log.durable(), Lsn::new(16));
    log.truncate(Lsn::new(9), 5).unwrap();
    assert!(matches!(log.truncate(Lsn::new(9), 6), Err(TruncateError::UnderWay)));
    finish(&log);
    assert_eq!(log.durable(), Lsn::new(9));
}

#[test]
fn producers_and_cursors_of_the_former_term_end() {
    let (disk, log, mut lane) = written(5);
    let (mut other, woken) = producer(&log);
    let mut tail = other.tail();
    disk.hold();
    stage(&mut lane, b"in flight").unwrap();
    lane.drive(1000);
    stage(&mut lane, b"in flight, too").unwrap();
    lane.drive(1000);
    stage(&mut other, b"in the ring").unwrap();
    stage(&mut other, b"in the ring").unwrap();
    other.flush(1000);
    stage(&mut lane, b"in the lane's own chunk").unwrap();
    let (appended, durable) = (lane.appended(), lane.durable());
    woken.take();
    assert_eq!(log.truncate(Lsn::new(6), 1).unwrap(), 2);
    assert!(woken.take() > 0 && tail.is_ended());
    assert!(tail.next_group().is_none());
    for old in [&mut lane, &mut other] {
        assert_eq!(stage(old, b"x"), Err(StageError::Ended));
        assert!(!old.wants(Handed::new(100)));
    }
    // The new term's producers may come before the writes of the old one have come back.
    let mut next = producer(&log).0;
    assert_eq!(next.index(), 0);
    stage(&mut next, &body(1, 7)).unwrap();
    next.drive(1000);
    assert!(log.is_truncating());
    assert!(next.drive(1000).again_at.is_some(), "nobody else is called for these writes");
    disk.release_all();
    finish(&log);
    while next.durable() < next.handed() {
        turn(&log, &mut next);
    }
    assert_eq!(log.durable(), Lsn::new(7));
    assert_eq!((lane.appended(), lane.durable()), (appended, durable), "they stand still");
    lane.drive(1000);
    lane.reap(1000);
    assert!(lane.tail().is_ended());
    drop((lane, other, tail));
    assert!(log.is_settled());
    let (_, _, seen) = open(disk.restart(), follower(3)).unwrap();
    assert_eq!((seen.len(), &seen[5].body[..]), (7, &b"in flight"[..]));
    assert!(seen[6].body == body(1, 7));
}

#[test]
fn a_big_record_that_was_under_way_is_void() {
    let (disk, log, mut lane) = written(3);
    disk.hold();
    stage(&mut lane, &vec![7; 200_000]).unwrap();
    lane.drive(1000);
    log.truncate(Lsn::new(3), 1).unwrap();
    disk.release_all();
    finish(&log);
    let mut next = producer(&log).0;
    let big = vec![8; 150_000];
    let handed = stage(&mut next, &big).unwrap();
    for _ in 0..100 {
        turn(&log, &mut next);
    }
    assert_eq!((next.durable(), log.durable()), (handed, Lsn::new(4)));
    let (log, _, seen) = open(disk.restart(), follower(3)).unwrap();
    assert!(seen[3].body == big);
    let mut reader = log.reader_to(Lsn::new(4), Limit::Durable).unwrap();
    assert!(reader.next_record().unwrap().unwrap().body == big);
}

#[test]
fn readers_learn_what_has_gone() {
    let (disk, log, _lane) = written(40);
    let reader_at = |lsn: u64| {
        let mut reader = log.reader_to(Lsn::new(lsn), Limit::Durable).unwrap();
        assert_eq!(reader.next_record().unwrap().unwrap().lsn, Lsn::new(lsn));
        reader
    };
    let (mut beyond, mut at_end, mut before) = (reader_at(25), reader_at(20), reader_at(5));
    log.truncate(Lsn::new(20), 1).unwrap();
    finish(&log);
    let gone = beyond.next_record().unwrap_err();
    assert!(matches!(gone, ReadError::Truncated { last, .. } if last == Lsn::new(20)), "{gone}");
    assert!(beyond.next_record().is_err(), "and it stays so");
    assert!(at_end.next_record().unwrap().is_none());
    let mut lane = producer(&log).0;
    write(&disk, &log, &mut lane, 1, 45);
    for (reader, from) in [(&mut at_end, 21), (&mut before, 6)] {
        for lsn in from..=45 {
            let record = reader.next_record().unwrap().unwrap();
            assert!(record.body == body(u64::from(lsn > 20), lsn), "record {lsn}");
        }
    }
    assert!(beyond.next_record().is_err());
}

#[test]
fn a_write_that_fails_meanwhile_is_moved_before_the_cut() {
    for (after, failing) in [(5, 0), (6, 0), (7, 0), (7, 1), (6, 1)] {
        let (disk, log, mut lane) = written(5);
        disk.hold();
        for lsn in 6..8 {
            stage(&mut lane, &body(0, lsn)).unwrap();
            lane.drive(1000);
        }
        log.truncate(Lsn::new(after), 1).unwrap();
        let token = disk.in_flight()[failing];
        disk.release_with(token, Fault::Fail(ErrorKind::Other));
        disk.release_all();
        finish(&log);
        assert_eq!((log.durable(), log.status()), (Lsn::new(after), Status::Running));
        let mut next = producer(&log).0;
        write(&disk, &log, &mut next, 1, 20);
        let (_, _, seen) = open(disk.restart(), follower(3)).unwrap();
        assert_history(&seen, 20, &[(0, 1), (1, after + 1)]);
    }
}

#[test]
fn a_disk_that_fails_leaves_a_log_that_is_whole_or_truncated() {
    for op in [Op::Create, Op::Write, Op::Sync, Op::Rename, Op::SyncDir, Op::Remove, Op::Read] {
        for nth in 1..5 {
            let (disk, log, _lane) = written(40);
            while log.helper_step(0) {}
            log.truncate(Lsn::new(20), 1).unwrap();
            disk.fail(op, nth, Fault::FailWritten(ErrorKind::Other));
            finish(&log);
            disk.heal();
            let failed = matches!(log.status(), Status::ReadOnly(_));
            let (_, recovery, seen) = open(disk.restart(), follower(3)).unwrap();
            let last = recovery.last_lsn.get();
            assert!(last == 20 || failed && last == 40, "{op:?} {nth}: {last}");
            assert_history(&seen, last, &[(0, 1)]);
        }
    }
}

const OUTCOMES: [Survival; 6] = [
    Survival::Nothing,
    Survival::Everything,
    Survival::Seeded(21),
    Survival::Seeded(22),
    Survival::Seeded(23),
    Survival::Seeded(24),
];

/// What a start finds is durable; each LSN by the term that wrote it.
fn terms_of(seen: &[Seen]) -> Vec<u64> {
    for (record, lsn) in seen.iter().zip(1..) {
        let term = u64::from(*record.body.last().unwrap());
        assert_eq!(record.lsn, lsn);
        assert!(record.body == body(term, lsn), "record {lsn} was never written");
    }
    seen.iter().map(|record| u64::from(*record.body.last().unwrap())).collect()
}

/// Truncates and writes on until the power goes; returns the last LSN of `term` that was durable.
fn cut_and_write(disk: &SimDisk, after: u64, term: u64, last: u64) -> u64 {
    let opened = open(disk.clone(), Options { term: term - 1, ..follower(term) });
    let log = match opened {
        Ok((log, ..)) => log,
        Err(OpenError::Disk { .. }) if disk.is_off() => return 0,
        Err(error) => panic!("{error}"),
    };
    if let Err(error) = log.truncate(Lsn::new(after), term) {
        panic!("{error}");
    }
    for _ in 0..20 {
        log.drive(1000, None);
        log.helper_step(0);
    }
    if log.is_read_only() || log.is_truncating() {
        assert!(disk.is_off());
        return 0;
    }
    let mut lane = producer(&log).0;
    write(disk, &log, &mut lane, term, last);
    log.durable().get()
}

/// After each crash the log is whole, or ends where it was truncated with what was written since.
#[test]
fn the_power_may_go_at_each_operation_of_a_truncation() {
    let (start, log, _) = written(30);
    // A mark that is beyond what stays, too.
    log.mark_durable().unwrap();
    drop(log);
    let after = 13;
    let mut outcomes = [0, 0];
    for nth in 1.. {
        let disk = start.restart();
        disk.cut_power(nth);
        let durable = cut_and_write(&disk, after, 1, 24);
        if !disk.is_off() {
            assert!(nth > 30, "{nth} operations");
            break;
        }
        for outcome in OUTCOMES {
            let left = disk.crash_with(outcome);
            let (_, recovery, seen) = open(left.clone(), follower(50)).unwrap();
            let terms = terms_of(&seen);
            let kept = usize::try_from(after).unwrap();
            let (front, rest) = terms.split_at(kept.min(terms.len()));
            assert!(front.iter().all(|term| *term == 0) && front.len() == kept, "{terms:?}");
            let whole = rest.len() == 17 && rest.iter().all(|term| *term == 0);
            let cut = rest.iter().all(|term| *term == 1);
            assert!(whole && durable <= after || cut, "operation {nth}, {outcome:?}: {terms:?}");
            assert!(recovery.last_lsn.get() >= durable, "{durable} was durable");
            outcomes[usize::from(cut)] += 1;
            // And again, from whatever was left: the same LSNs are given, and stay.
            let disk = left.crash_with(Survival::Nothing);
            assert_eq!(cut_and_write(&disk, after, 2, 20), 20);
            let (_, _, seen) = open(disk.crash_with(outcome), follower(52)).unwrap();
            assert_history(&seen, 20, &[(0, 1), (2, after + 1)]);
        }
    }
    assert!(outcomes.iter().all(|count| *count > 20), "{outcomes:?}");
}

/// Whoever asks learns where, which records, and what is wrong.
#[test]
fn a_group_that_has_changed_at_the_place_is_named() {
    let (disk, log, _lane) = written(40);
    let name = segment_name(1);
    for (after, offset) in [(1, 4096), (3, 3 * 4096), (5, 5 * 4096)] {
        let bit = offset + 200;
        disk.flip(&name, bit, 3).unwrap();
        let Err(TruncateError::Damage(damage)) = log.truncate(Lsn::new(after), 1) else {
            panic!("group {after} is found all the same");
        };
        disk.flip(&name, bit, 3).unwrap();
        assert_eq!((&damage.file, damage.offset), (&name, offset), "{damage}");
        assert_eq!(damage.first, Lsn::new(after), "{damage}");
        assert!(damage.last >= Lsn::new(after) && damage.last < Lsn::new(40), "{damage}");
        assert!(damage.reason.contains("group"), "{damage}");
        assert!(!log.is_truncating());
    }
    log.truncate(Lsn::new(5), 1).unwrap();
    finish(&log);
    assert_eq!(log.durable(), Lsn::new(5));
}

/// The newest group's is the least that a start goes on with, whatever it is told.
#[test]
fn terms_never_go_back() {
    let (disk, log, _) = written(10);
    log.truncate(Lsn::new(8), 7).unwrap();
    finish(&log);
    write(&disk, &log, &mut producer(&log).0, 7, 12);
    drop(log);
    for (told, newest) in [(0, 7), (9, 9), (8, 9)] {
        let (log, ..) = open(disk.clone(), Options { term: told, ..follower(20 + told) }).unwrap();
        let last = log.durable().get();
        let error = log.truncate(Lsn::new(last), newest).unwrap_err();
        assert!(matches!(error, TruncateError::OldTerm { newest: found, .. } if found == newest));
        write(&disk, &log, &mut producer(&log).0, newest, last + 1);
    }
    let (_, recovery, seen) = open(disk, follower(30)).unwrap();
    assert_eq!((recovery.last_lsn, seen.len()), (Lsn::new(15), 15));
}

/// Nor where a start reads none of the groups, because their records are in an image.
#[test]
fn terms_do_not_go_back_where_all_groups_are_passed_over() {
    // What is under way at the crash: one group with a record, or some with parts of one.
    for len in [100, 60_000] {
        let disk = SimDisk::new();
        let (log, ..) = open(disk.clone(), Options { term: 7, ..follower(1) }).unwrap();
        let mut lane = producer(&log).0;
        write(&disk, &log, &mut lane, 7, 40);
        stage(&mut lane, &vec![7; len]).unwrap();
        turn(&log, &mut lane);
        let disk = disk.crash_with(Survival::Everything);
        let none = || Options { visit_from: Lsn::new(1000), ..follower(2) };
        // The first of these starts reads the segment that has no end yet, the others read nothing.
        let last = open(disk.clone(), none()).unwrap().1.last_lsn.get();
        assert_eq!(last, if len == 100 { 41 } else { 40 });
        let (log, recovery, _) = open(disk.clone(), none()).unwrap();
        assert!(recovery.segments.iter().all(|segment| segment.groups == 0), "{recovery:?}");
        write(&disk, &log, &mut producer(&log).0, 1, last + 3);
        drop(log);
        let (_, recovery, _) = open(disk, follower(3)).unwrap();
        assert_eq!(recovery.last_lsn.get(), last + 3, "{recovery:?}");
    }
}

/// What nobody wants to see keeps nothing from starting, whatever has become of it.
#[test]
fn damage_that_is_passed_over_keeps_no_log_from_starting() {
    let (disk, log, _) = written(20);
    log.mark_durable().unwrap();
    drop(log);
    let none = |seed| Options { visit_from: Lsn::new(1000), ..follower(seed) };
    // It reads all, because there is no end yet, and makes a segment in which nothing is written.
    let found = open(disk.clone(), none(2)).unwrap().1;
    let Some(End::Clean { offset: end }) = found.segments.first().map(|segment| segment.end) else {
        panic!("all groups are in one segment: {found:?}");
    };
    // A record of the first group, and the header of the last one.
    for byte in [4096 + 200, end - 4096 + 20] {
        let left = disk.restart();
        left.flip(&segment_name(1), byte, 1).unwrap();
        let (log, recovery, _) = open(left.clone(), none(3)).unwrap();
        assert_eq!((recovery.last_lsn, log.durable()), (Lsn::new(20), Lsn::new(20)), "{byte}");
        drop(log);
        assert!(matches!(open(left, follower(4)), Err(OpenError::Damage(_))), "{byte}");
    }
}

/// What lies in front of it need not be there.
#[test]
fn a_log_that_was_trimmed_is_truncated_as_well() {
    let (_disk, log, _) = written(60);
    log.commit(Lsn::new(50));
    log.trim(Lsn::new(50));
    while log.helper_step(0) {}
    assert!(log.first_whole() > Lsn::FIRST);
    log.truncate(Lsn::new(50), 1).unwrap();
    finish(&log);
    assert_eq!(log.durable(), Lsn::new(50));
    assert!(log.disk().bytes(&segment_name(1)).is_err());
}

/// The index is a hint, as for readers.
#[test]
fn an_index_that_cannot_be_read_is_done_without_and_a_group_is_named() {
    for (unreadable, is_index) in [(122_880..131_072, true), (4096..122_880, false)] {
        let (disk, log, _) = written(60);
        let first = segment_name(1);
        assert!(log.segments()[0].last >= Lsn::new(8));
        disk.break_bytes(&first, unreadable).unwrap();
        match log.truncate(Lsn::new(8), 3) {
            Ok(_) => assert!(is_index),
            Err(error) => {
                assert!(matches!(error, TruncateError::Disk { .. }) && !is_index, "{error}");
                assert!(error.to_string().contains(&format!("{first} near byte ")), "{error}");
                continue;
            }
        }
        finish(&log);
        assert_eq!((log.durable(), log.status()), (Lsn::new(8), Status::Running));
    }
}
