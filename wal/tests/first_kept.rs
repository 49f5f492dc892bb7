//! What a trimmed log begins with: a group that `meta` names. A write that went astray and put
//! another one in its place, intact as it may be, does not hide what was acknowledged in front of
//! that one; and the statement itself may be cut off at any moment.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests panic as tests do")]

mod common;
mod life;

use std::ops::Range;

use common::*;
use life::OUTCOMES;
use zzq_wal::format::group::GroupHeader;
use zzq_wal::format::segment::{Beginning, SegmentHeader};
use zzq_wal::sim_disk::SimDisk;
use zzq_wal::{Damage, Log, Lsn, OpenError, Options, Producer, read_facts, segment_name};

const BLOCK: usize = 4096;

/// The body of each record follows from its LSN; each is a group of one block.
fn body(lsn: u64) -> Vec<u8> {
    let mut body = vec![u8::try_from(lsn % 251).unwrap(); 3000];
    body[..8].copy_from_slice(&lsn.to_le_bytes());
    body
}

/// Writes the next so many records.
fn write(log: &Log<SimDisk>, lane: &mut Producer<SimDisk>, count: u64) {
    for lsn in log.durable().get() + 1..=log.durable().get() + count {
        assert_eq!(put(log, lane, &body(lsn)), Lsn::new(lsn));
    }
}

/// A log whose third segment has just got its first group.
fn written(disk: &SimDisk) -> (Log<SimDisk>, Producer<SimDisk>) {
    let (log, ..) = reopen(disk, 1);
    let mut lane = producer(&log).0;
    while log.segments().len() < 3 {
        write(&log, &mut lane, 1);
    }
    (log, lane)
}

fn trim(log: &Log<SimDisk>, below: Lsn) {
    log.trim(below);
    while log.helper_step(0) {}
}

/// A log killed with `more` groups behind the first one of its third segment, the first that is
/// kept. What was asked to be kept begins with that group, or in the midst of the segment.
struct Trimmed {
    disk: SimDisk,
    first: Lsn,
    last: Lsn,
}

impl Trimmed {
    fn of(more: u64, from_its_midst: bool) -> Self {
        let disk = SimDisk::new();
        let (log, mut lane) = written(&disk);
        let first = log.durable();
        if from_its_midst {
            write(&log, &mut lane, more);
            trim(&log, Lsn::new(first.get() + more / 2));
        } else {
            trim(&log, first);
            write(&log, &mut lane, more);
        }
        let kept = log.segments();
        assert_eq!((kept.len(), kept[0].number, kept[0].first), (1, 3, first));
        let bytes = disk.bytes(&segment_name(3)).unwrap();
        let header = SegmentHeader::decode(bytes.first_chunk().unwrap()).unwrap();
        assert_eq!(header.beginning, Beginning::Roll);
        Self { disk: disk.restart(), first, last: log.durable() }
    }

    /// Whole it is read, and `group` in place of the first one is damage, at this place.
    fn assert_refused(&self, group: &[u8], lost: Option<Range<usize>>, case: &str) {
        let file = segment_name(3);
        let disk = self.disk.restart();
        if let Some(lost) = lost {
            disk.overwrite(&file, lost.start as u64, &vec![0; lost.len()]).unwrap();
        }
        disk.overwrite(&file, BLOCK as u64, group).unwrap();
        let before = disk.image_hash();
        let damage = damage(&disk, small(7), case);
        assert_eq!((damage.file, damage.offset), (file, BLOCK as u64), "{case}");
        assert_eq!(damage.first, self.first, "{case}");
        assert!(damage.last >= self.first && damage.last <= self.last, "{case}: {}", damage.last);
        assert_eq!(disk.image_hash(), before, "{case}: nothing is changed");
    }
}

fn damage(disk: &SimDisk, options: Options, case: &str) -> Damage {
    match open(disk.clone(), options) {
        Err(OpenError::Damage(damage)) => damage,
        Ok((_, recovery, _)) => panic!("{case}: taken: {recovery:?}"),
        Err(error) => panic!("{case}: {error}"),
    }
}

/// Where the groups of a segment are.
fn groups(bytes: &[u8]) -> Vec<Range<usize>> {
    let (mut places, mut at) = (Vec::new(), BLOCK);
    while let Some(header) = bytes.get(at..).and_then(GroupHeader::decode) {
        places.push(at..at + header.length);
        at += header.length;
    }
    places
}

#[test]
fn a_later_group_in_place_of_the_first_kept_one_hides_nothing() {
    for from_its_midst in [false, true] {
        for more in [1, 2, 3, 9] {
            let log = Trimmed::of(more, from_its_midst);
            let bytes = log.disk.bytes(&segment_name(3)).unwrap();
            let places = groups(&bytes);
            assert_eq!(places.len() as u64, more + 1);
            for place in &places[1..] {
                // It went astray, or it was written twice.
                for lost in [None, Some(place.clone())] {
                    let case = format!("{more} {from_its_midst} {place:?} {lost:?}");
                    log.assert_refused(&bytes[place.clone()], lost, &case);
                }
            }
            let (_, recovery, seen) = reopen(&log.disk, 8);
            assert_eq!((seen[0].lsn, recovery.last_lsn), (log.first.get(), log.last));
        }
    }
}

/// It covers whatever else was there: nothing behind it tells of what it hides.
#[test]
fn a_long_last_group_in_its_place_hides_nothing() {
    let disk = SimDisk::new();
    let options = |seed| Options { group_size: 100 * 1024, part_size: 90_000, ..small(seed) };
    let (log, ..) = open(disk.clone(), options(1)).unwrap();
    let mut lane = producer(&log).0;
    while log.segments().len() < 3 {
        write(&log, &mut lane, 1);
    }
    let first = log.durable();
    trim(&log, first);
    write(&log, &mut lane, 4);
    put(&log, &mut lane, &vec![9; 80_000]);
    assert_eq!(log.segments().len(), 1);
    let log = Trimmed { disk: disk.restart(), first, last: log.durable() };
    let bytes = log.disk.bytes(&segment_name(3)).unwrap();
    let place = groups(&bytes).pop().unwrap();
    assert!(place.len() > 80_000 && BLOCK + place.len() > place.start);
    log.assert_refused(&bytes[place.clone()], Some(place), "it went astray");
}

#[test]
fn a_group_of_another_place_or_log_in_its_place_is_damage_there() {
    let other = SimDisk::new();
    let (log, mut lane) = {
        let (log, ..) = reopen(&other, 77);
        let lane = producer(&log).0;
        (log, lane)
    };
    write(&log, &mut lane, 100);
    let others = other.bytes(&segment_name(3)).unwrap();
    let whole = SimDisk::new();
    let (_log, _lane) = written(&whole);
    let earlier = whole.bytes(&segment_name(2)).unwrap();
    for more in [1, 2, 9] {
        let log = Trimmed::of(more, false);
        for (bytes, what) in [(&others, "another log"), (&earlier, "the segment before")] {
            log.assert_refused(&bytes[BLOCK..2 * BLOCK], None, &format!("{what} {more}"));
        }
        log.assert_refused(&[0; BLOCK], None, &format!("nothing {more}"));
    }
}

/// A start that wants nothing of the segment passes over it, and readers rely on what it says.
#[test]
fn a_segment_that_is_passed_over_begins_with_its_first_group_too() {
    let disk = SimDisk::new();
    let (log, mut lane) = written(&disk);
    let first = log.durable();
    trim(&log, first);
    while log.segments().len() < 4 {
        write(&log, &mut lane, 1);
    }
    while log.helper_step(0) {}
    let last = log.durable();
    let wants_the_last = || Options { visit_from: last, ..small(9) };
    drop((log, lane));
    for number in 3..5 {
        let disk = disk.restart();
        let file = segment_name(number);
        let bytes = disk.bytes(&file).unwrap();
        for place in &groups(&bytes)[1..] {
            let disk = disk.restart();
            disk.overwrite(&file, BLOCK as u64, &bytes[place.clone()]).unwrap();
            let damage = damage(&disk, wants_the_last(), "passed over");
            assert_eq!((damage.file, damage.offset), (file.clone(), BLOCK as u64), "{place:?}");
        }
        assert!(open(disk, wants_the_last()).is_ok());
    }
}

/// Either statement is true of what is there when the power goes.
#[test]
fn the_power_may_go_at_each_step_of_a_trim() {
    let mut said = Vec::new();
    for nth in 1.. {
        let disk = SimDisk::new();
        let (log, mut lane) = written(&disk);
        write(&log, &mut lane, 5);
        let last = log.durable();
        log.trim(last);
        disk.cut_power(nth);
        while log.helper_step(0) {}
        for outcome in OUTCOMES {
            let disk = disk.crash_with(outcome);
            let kept = read_facts(&disk).unwrap().segments().unwrap().first;
            said.push(kept);
            let (log, recovery, seen) = reopen(&disk, 5);
            assert_eq!(recovery.last_lsn, last, "{nth} {outcome:?}");
            let first = last.get() + 1 - seen.len() as u64;
            assert!((first..).zip(&seen).all(|(lsn, record)| record.body == body(lsn)));
            assert_eq!(first > 1, kept == 3, "{nth} {outcome:?}");
            // And what it says itself, with what it goes on with.
            let mut lane = producer(&log).0;
            write(&log, &mut lane, 40);
            trim(&log, last);
            write(&log, &mut lane, 40);
            let (_, recovery, _) = reopen(&disk.restart(), 6);
            assert_eq!(recovery.last_lsn.get(), last.get() + 80);
        }
        if !disk.is_off() {
            break;
        }
    }
    assert!(said.contains(&1) && said.contains(&3), "{said:?}");
}
