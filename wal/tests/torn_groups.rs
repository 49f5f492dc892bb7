//! A write that the power interrupts: any of its sectors may be there, the others hold what was
//! there before. Unless all of them are there, the group is void, and so is what follows it.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail the test")]

mod common;
mod story;

use std::ops::Range;

use common::*;
use story::Story;
use zzq_wal::Lsn;
use zzq_wal::sim_disk::SimDisk;

const SECTOR: usize = 512;

/// Sets of sectors that arrive, of `count`.
fn arrivals(count: usize) -> Vec<Vec<bool>> {
    let mut sets = Vec::new();
    for at in 0..=count {
        sets.push((0..count).map(|sector| sector < at).collect());
        sets.push((0..count).map(|sector| sector >= at).collect());
    }
    for one in 0..count {
        sets.push((0..count).map(|sector| sector == one).collect());
        sets.push((0..count).map(|sector| sector != one).collect());
    }
    for odd in 0..2 {
        sets.push((0..count).map(|sector| sector % 2 == odd).collect());
    }
    sets
}

/// Bytes as they were before, with the sectors that have arrived.
fn torn(before: &[u8], after: &[u8], arrived: &[bool]) -> Vec<u8> {
    let pairs = before.chunks(SECTOR).zip(after.chunks(SECTOR)).zip(arrived);
    pairs.flat_map(|((old, new), arrived)| if *arrived { new } else { old }).copied().collect()
}

/// A log whose last write or writes are not yet acknowledged: the file before and after them.
struct Interrupted {
    story: Story,
    file: String,
    before: Vec<u8>,
    /// Where each of the writes is.
    writes: Vec<Range<usize>>,
}

impl Interrupted {
    /// Puts one record in flight after the other, then lets all arrive and kills the process.
    fn after(lens: &[usize], in_flight: &[usize]) -> Self {
        let acknowledged = Story::of(lens);
        let disk = acknowledged.disk.clone();
        let (log, _, _) = reopen(&disk, 7);
        let (mut lane, _) = producer(&log);
        let mut bodies = acknowledged.bodies;
        // The segment of this start goes on where one is recycled.
        bodies.push(vec![250; 200]);
        put(&log, &mut lane, &[250; 200]);
        let quiet = disk.restart();
        disk.hold();
        for (nth, len) in (251_u8..).zip(in_flight) {
            bodies.push(vec![nth; *len]);
            stage(&mut lane, &bodies[bodies.len() - 1]).unwrap();
            lane.drive(1000);
        }
        assert_eq!(disk.in_flight().len(), in_flight.len(), "all of them are in flight");
        while !disk.in_flight().is_empty() {
            disk.release_next();
        }
        let story = Story { disk: disk.restart(), bodies };
        let (file, groups) = story.last_groups();
        let writes = groups[groups.len() - in_flight.len()..].to_vec();
        Self { before: quiet.bytes(&file).unwrap(), story, file, writes }
    }

    fn bytes_before(&self, write: usize) -> &[u8] {
        &self.before[self.writes[write].clone()]
    }

    fn bytes_after(&self, write: usize) -> Vec<u8> {
        self.story.disk.bytes(&self.file).unwrap()[self.writes[write].clone()].to_vec()
    }

    /// The log with these bytes in place of the write.
    fn with(&self, write: usize, bytes: &[u8]) -> Self {
        let story = self.story.with(&self.file, self.writes[write].start, bytes);
        let (file, before, writes) = (self.file.clone(), self.before.clone(), self.writes.clone());
        Self { story, file, before, writes }
    }
}

/// Lengths of bodies: nearly all padding; header and body fill their blocks; three blocks, the last
/// of which has padding.
const LENS: [usize; 3] = [60, 4096 - 140, 9000];

/// So many records that the files of the first segments have been used again.
fn long() -> Vec<usize> {
    vec![3950; 180]
}

fn try_every_way(interrupted: &Interrupted, case: &str) {
    let acknowledged = interrupted.story.bodies.len() - 1;
    let (old, new) = (interrupted.bytes_before(0), interrupted.bytes_after(0));
    let mut whole = 0;
    for arrived in arrivals(new.len() / SECTOR) {
        let bytes = torn(old, &new, &arrived);
        let is_whole = bytes == new;
        whole += usize::from(is_whole);
        let case = format!("{case}, {arrived:?}");
        let count = acknowledged + usize::from(is_whole);
        let left = interrupted.with(0, &bytes).story;
        assert_eq!(left.outcome(), Ok(count), "{case}");
        if arrived.len() < 10 || arrived[2] {
            left.assert_goes_on(count, &case);
        }
    }
    assert!((2..60).contains(&whole), "{whole}");
}

#[test]
fn a_group_torn_in_a_fresh_file_is_void() {
    //= W08
    for len in LENS {
        let interrupted = Interrupted::after(&[100, 200], &[len]);
        assert!(interrupted.bytes_before(0).iter().all(|byte| *byte == 0));
        try_every_way(&interrupted, &format!("{len} bytes"));
    }
}

/// What a torn write leaves in place are sectors of groups that were intact once.
#[test]
fn a_group_torn_in_a_recycled_file_is_void() {
    //= W10
    for len in LENS {
        let interrupted = Interrupted::after(&long(), &[len]);
        let old = interrupted.bytes_before(0);
        assert!(old.chunks(SECTOR).all(|sector| sector.iter().any(|byte| *byte != 0)));
        try_every_way(&interrupted, &format!("recycled, {len} bytes"));
    }
}

/// Each of two writes in flight may arrive before the other: the second says nothing about the
/// first, and is void without it.
#[test]
fn the_second_of_two_torn_groups_never_survives_the_first() {
    for lens in [vec![100, 200], long()] {
        let interrupted = Interrupted::after(&lens, &[5000, 3000]);
        let acknowledged = interrupted.story.bodies.len() - 2;
        let (first, second) = (interrupted.bytes_after(0), interrupted.bytes_after(1));
        let ways = arrivals(first.len() / SECTOR);
        let others = arrivals(second.len() / SECTOR);
        for (nth, arrived) in ways.iter().enumerate() {
            let one = torn(interrupted.bytes_before(0), &first, arrived);
            let with_one = interrupted.with(0, &one);
            let torn_second = &others[(5 * nth + 3) % others.len()];
            let absent = vec![false; torn_second.len()];
            let complete = vec![true; torn_second.len()];
            for arrived in [torn_second, &absent, &complete] {
                let other = torn(interrupted.bytes_before(1), &second, arrived);
                let count = match (one == first, other == second) {
                    (false, _) => 0,
                    (true, is_whole) => 1 + usize::from(is_whole),
                };
                let case = format!("{nth}, {arrived:?}");
                let left = with_one.with(1, &other).story;
                assert_eq!(left.outcome(), Ok(acknowledged + count), "{case}");
                if nth.is_multiple_of(7) {
                    left.assert_goes_on(acknowledged + count, &case);
                }
            }
        }
    }
}

/// A big record is void without its last part, wherever that is torn; the parts that were durable
/// stay what they are.
#[test]
fn a_big_record_without_its_last_part_is_void() {
    let disk = SimDisk::new();
    let (log, _, _) = reopen(&disk, 1);
    let (mut lane, _) = producer(&log);
    let bodies = vec![vec![1; 100], vec![2; 60_000]];
    for body in &bodies {
        put(&log, &mut lane, body);
    }
    let story = Story { disk: disk.restart(), bodies };
    let (file, groups) = story.last_groups();
    let last = groups[groups.len() - 1].clone();
    assert!(groups.len() > 2 && log.durable() == Lsn::new(2));
    let new = story.disk.bytes(&file).unwrap()[last.clone()].to_vec();
    for arrived in arrivals(new.len() / SECTOR) {
        let bytes = torn(&vec![0; new.len()], &new, &arrived);
        let count = if bytes == new { 2 } else { 1 };
        let left = story.with(&file, last.start, &bytes);
        assert_eq!(left.outcome(), Ok(count), "{arrived:?}");
        if arrived[0] {
            left.assert_goes_on(count, &format!("{arrived:?}"));
        }
    }
}
