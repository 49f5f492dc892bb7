//! A disk that becomes full: what is reserved stays free for those whom it is for, everybody is
//! told, nothing that has not found a place is called durable, and all goes on with space.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use std::io::ErrorKind;

use common::*;
use zzq_wal::disk::Disk;
use zzq_wal::sim_disk::{Fault, Op, SimDisk};
use zzq_wal::{
    Commits, Handed, Log, Lsn, Options, Producer, Reserve, Space, Stall, Status, TruncateError,
    segment_name,
};

/// Of segments in these tests, which are all as long.
const SEGMENT: u64 = 128 * 1024;

fn begin(disk: &SimDisk) -> (Log<SimDisk>, Producer<SimDisk>) {
    let (log, ..) = reopen(disk, 1);
    let (one, _) = producer(&log);
    (log, one)
}

fn taken(disk: &SimDisk) -> u64 {
    disk.list().unwrap().iter().map(|(_, size)| size).sum()
}

/// Hands over and drives as long as the log packs; how many records, and the stall.
fn fill(log: &Log<SimDisk>, one: &mut Producer<SimDisk>, until: impl Fn() -> bool) -> u64 {
    let mut count = 0;
    while !until() {
        put(log, one, &[7; 3000]);
        log.helper_step(0);
        count += 1;
        assert!(count < 1000, "space does not end: {log:?}");
    }
    count
}

#[test]
fn ordinary_segments_leave_the_reserve_alone_and_needed_ones_their_part_of_it() {
    let disk = SimDisk::new();
    let (log, mut one) = begin(&disk);
    let (images, own) = (3 * SEGMENT, 2 * SEGMENT);
    log.keep_free(Reserve { images, log: own, low: 2 * SEGMENT });
    disk.set_capacity(taken(&disk) + 12 * SEGMENT);
    put(&log, &mut one, &[0]);
    assert_eq!(log.space(), Space::Ample);
    fill(&log, &mut one, || log.space() == Space::Low);
    fill(&log, &mut one, || log.space() == Space::Short);
    assert!(disk.free_bytes().unwrap() >= images + own);
    // What is handed over all the same has room for a while: a segment was made ahead.
    let handed = loop {
        let handed = stage(&mut one, &[1; 3000]).unwrap();
        let drive = one.drive(1000);
        while log.helper_step(0) {}
        if drive.stall == Some(Stall::Space) {
            break handed;
        }
    };
    let free = disk.free_bytes().unwrap();
    assert!(free >= images && free < images + SEGMENT, "{free}");
    assert_eq!((log.space(), log.status()), (Space::Out, Status::NoSpace));
    assert!(one.durable() < handed, "it waits");
    disk.set_capacity(taken(&disk) + 12 * SEGMENT);
    for now in [1100, 1101, 1102, 1103, 1104] {
        one.drive(now);
        while log.helper_step(0) {}
    }
    assert_eq!((one.durable(), log.status()), (handed, Status::Running));
    assert_eq!(log.space(), Space::Ample);
    let durable = log.durable();
    drop((log, one));
    let (_, _, seen) = reopen(&disk.restart(), 2);
    assert_eq!(seen.len() as u64, durable.get());
}

#[test]
fn everybody_is_called_when_the_level_changes() {
    let disk = SimDisk::new();
    let (log, ..) = reopen(&disk, 1);
    let (_one, woken) = producer(&log);
    log.keep_free(Reserve { images: 0, log: 0, low: 4 * SEGMENT });
    while log.helper_step(0) {}
    woken.take();
    for (left, level) in [
        (3 * SEGMENT, Space::Low),
        (SEGMENT / 2, Space::Short),
        (2 * SEGMENT, Space::Short),
        (3 * SEGMENT, Space::Low),
        (100 * SEGMENT, Space::Ample),
    ] {
        let before = log.space();
        disk.set_capacity(taken(&disk) + left);
        log.helper_step(0);
        assert_eq!(log.space(), level, "{left} left after {before:?}");
        assert_eq!(woken.take() > 0, level != before, "{left}");
    }
}

/// What waits for space when the process ends was never called durable.
#[test]
fn trimming_makes_room_without_a_restart() {
    let disk = SimDisk::new();
    let (log, mut one) = begin(&disk);
    log.keep_free(Reserve { images: SEGMENT, log: SEGMENT, low: SEGMENT });
    disk.set_capacity(taken(&disk) + 8 * SEGMENT);
    put(&log, &mut one, &[0]);
    fill(&log, &mut one, || log.space() == Space::Short);
    log.trim(log.durable());
    while log.helper_step(0) {}
    assert!(log.space() < Space::Short, "{log:?}");
    let spares = disk.list().unwrap().into_iter().filter(|(name, _)| name.starts_with("spare"));
    assert!(spares.count() <= 2);
    put(&log, &mut one, &[1]);
}

/// Some file systems find space for bytes, not for files: a write in a file that is there fails,
/// and so does the file that its group would move to. It moves when there is space.
#[test]
fn a_write_that_finds_no_space_waits_for_some() {
    const FULL: Fault = Fault::Fail(ErrorKind::StorageFull);
    let disk = SimDisk::new();
    let (log, mut one) = begin(&disk);
    put(&log, &mut one, &[0]);
    while log.helper_step(0) {}
    let before = one.handed();
    disk.fail(Op::Write, 1, FULL);
    disk.fail_always(Op::Create, FULL);
    let handed = stage(&mut one, &[1]).unwrap();
    for now in 1000..1150 {
        one.drive(now);
        log.helper_step(0);
    }
    assert_eq!((one.durable(), log.status()), (before, Status::NoSpace));
    assert_eq!((log.space(), log.durable()), (Space::Out, Lsn::new(1)));
    let waits = one.drive(1150).again_at;
    assert!(waits.is_some_and(|at| (1150..=1250).contains(&at)), "{waits:?}");
    disk.heal();
    for now in 1250..1260 {
        one.drive(now);
        log.helper_step(0);
    }
    assert_eq!((one.durable(), log.status()), (handed, Status::Running));
    assert_eq!(handed, Handed::new(2));
    let (_, _, seen) = reopen(&disk.restart(), 2);
    assert_eq!(bodies(&seen), [&[0][..], &[1]]);
}

/// The groups moved to the little space that there was, into a segment shorter than any other; the
/// one behind it was twice as long, and the first long chunk stopped the log.
#[test]
fn behind_a_segment_that_was_all_there_was_space_for_any_chunk_has_room() {
    let disk = SimDisk::new();
    let (log, ..) = open(disk.clone(), Options::new(entropy(1))).unwrap();
    let mut one = producer(&log).0;
    put(&log, &mut one, &[0]);
    while log.helper_step(0) {}
    disk.set_capacity(taken(&disk) + 200 * 1024);
    disk.fail(Op::Write, 1, Fault::Fail(ErrorKind::StorageFull));
    put(&log, &mut one, &[1]);
    let moved = segment_name(log.segments().last().unwrap().number);
    assert!(disk.bytes(&moved).unwrap().len() < 256 * 1024, "no chunk of a big record fits");
    disk.set_capacity(u64::MAX);
    put(&log, &mut one, &vec![2; 700_000]);
    put(&log, &mut one, &vec![3; 60_000]);
    assert_eq!((log.durable(), log.status()), (Lsn::new(4), Status::Running));
}

/// As a move does. It took back the mark by then, and made the log read-only.
#[test]
fn a_truncation_that_finds_no_space_waits_for_some() {
    let disk = SimDisk::new();
    let options = |seed| Options { commits: Commits::ByCaller, ..small(seed) };
    let (log, ..) = open(disk.clone(), options(1)).unwrap();
    let mut one = producer(&log).0;
    for n in 0..4 {
        put(&log, &mut one, &[n]);
    }
    while log.helper_step(0) {}
    disk.fail_always(Op::Create, Fault::Fail(ErrorKind::StorageFull));
    log.truncate(Lsn::new(2), 3).unwrap();
    for now in 1000..1350 {
        log.drive(now, None);
        log.helper_step(0);
    }
    assert_eq!((log.status(), log.is_truncating()), (Status::NoSpace, true));
    assert!(matches!(log.truncate(Lsn::new(1), 4), Err(TruncateError::UnderWay)));
    let waits = log.drive(1350, None).again_at;
    assert!(waits.is_some_and(|at| (1350..=1450).contains(&at)), "{waits:?}");
    // The power may go meanwhile: nothing is void yet.
    assert_eq!(open(disk.restart(), options(2)).unwrap().2.len(), 4);
    disk.heal();
    for now in 1450..1460 {
        log.drive(now, None);
        log.helper_step(0);
    }
    assert_eq!((log.status(), log.is_truncating()), (Status::Running, false));
    let mut next = producer(&log).0;
    put(&log, &mut next, &[9]);
    assert_eq!(bodies(&open(disk.restart(), options(3)).unwrap().2), [&[0][..], &[1], &[9]]);
}
