//! One bit of a log is inverted, at each place in turn: the outcome follows from what lies there.
//!
//! A durable group or a segment's header stops the start and is named. The last group, which
//! nothing proves, is void, and all before it is there. Everything else (pages of `meta`, closings
//! and indexes, what is unused, spare files, what a break has made void) changes nothing.
//!
//! By default every byte of a small log is tried, and of one with more in it the edges byte by byte
//! and the rest in strides. `ZZQ_FLIPS=bytes` tries every byte of both, `ZZQ_FLIPS=bits` every bit
//! of the small one too.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests panic as tests do")]

mod common;

use std::ops::Range;

use common::*;
use zzq_wal::disk::Disk;
use zzq_wal::format::group::GroupHeader;
use zzq_wal::sim_disk::SimDisk;
use zzq_wal::{End, Lsn, META_NAME, OpenError, Options, inspect, segment_name, segment_number};

const BLOCK: u64 = 4096;

/// What a flipped bit does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// All records are there.
    Exact,
    /// So many are, and the others are void.
    Prefix(usize),
    /// The start is refused, with this offset.
    Stop(u64),
}

/// Bytes of a file with one outcome.
#[derive(Debug)]
struct Region {
    file: String,
    bytes: Range<u64>,
    outcome: Outcome,
}

/// Segments of the shortest length, so that one rolls soon.
fn options(seed: u64) -> Options {
    Options { segment_size: 64 * 1024, ..small(seed) }
}

fn records(disk: &SimDisk) -> Result<Vec<Seen>, OpenError> {
    let mut seen = Vec::new();
    inspect(disk.clone(), &options(0), &mut |record| {
        seen.push(Seen { lsn: record.lsn.get(), kind: record.kind, body: record.body.to_vec() });
        Ok(())
    })?;
    Ok(seen)
}

/// A life of a log: these records, from a body's byte on, a group each.
fn live(disk: &SimDisk, seed: u64, lens: &[usize]) {
    let (log, recovery, _) = open(disk.clone(), options(seed)).unwrap();
    if recovery.last_lsn >= Lsn::new(48) {
        // The second segment's file becomes a spare. What is durable by now is stated with it.
        log.trim(Lsn::new(27));
        while log.helper_step(0) {}
    }
    let (mut lane, _) = producer(&log);
    for (lsn, len) in (recovery.last_lsn.get() + 1..).zip(lens) {
        put(&log, &mut lane, &vec![u8::try_from(lsn % 251).unwrap(); *len]);
        // The first segment's file becomes another's.
        if lsn == 14 {
            log.trim(Lsn::new(14));
        }
    }
    while log.helper_step(0) {}
}

/// All that a log can consist of: closed segments, one on a recycled file, one that ends in a torn
/// write and a break, a big record in parts, spares.
fn eventful() -> SimDisk {
    let disk = SimDisk::new();
    live(&disk, 1, &[3000; 45]);
    live(&disk, 2, &[5000, 20_000, 10, 3000]);
    let disk = disk.restart();
    let (_, torn) = last_group(&disk);
    disk.overwrite(&torn.0, torn.1.start + 512, &[0; 512]).unwrap();
    live(&disk, 3, &[100, 6000, 100]);
    disk.restart()
}

/// One segment with a few groups.
fn short() -> SimDisk {
    let disk = SimDisk::new();
    live(&disk, 1, &[10, 5000, 300]);
    disk.restart()
}

/// The groups of a segment's file, as far as they count.
fn groups(disk: &SimDisk, file: &str, end: u64) -> Vec<(GroupHeader, Range<u64>)> {
    let bytes = disk.bytes(file).unwrap();
    let mut groups = Vec::new();
    let mut at = BLOCK;
    while at < end {
        let header = GroupHeader::decode(&bytes[usize::try_from(at).unwrap()..]).unwrap();
        groups.push((header, at..at + header.length as u64));
        at += header.length as u64;
    }
    groups
}

/// The log's last group: its header, and where it lies.
fn last_group(disk: &SimDisk) -> (GroupHeader, (String, Range<u64>)) {
    let recovery = inspect(disk.clone(), &options(0), &mut |_| Ok(())).unwrap();
    let segment = recovery.segments.iter().rfind(|segment| segment.groups > 0).unwrap();
    let (header, bytes) = groups(disk, &segment.file, end_of(segment.end)).pop().unwrap();
    (header, (segment.file.clone(), bytes))
}

fn end_of(end: End) -> u64 {
    match end {
        End::Continued { offset } | End::Clean { offset } | End::Torn { offset } => offset,
        End::Skipped | End::Void => BLOCK,
    }
}

/// Every byte of every file, and what becomes of the log without it.
fn map(disk: &SimDisk) -> Vec<Region> {
    let recovery = inspect(disk.clone(), &options(0), &mut |_| Ok(())).unwrap();
    let (last, (last_file, last_bytes)) = last_group(disk);
    let count = records(disk).unwrap().len();
    let mut regions = Vec::new();
    for (file, size) in disk.list().unwrap() {
        let mut region = |bytes, outcome| {
            regions.push(Region { file: file.clone(), bytes, outcome });
        };
        let Some(segment) = recovery.segments.iter().find(|segment| segment.file == file) else {
            assert!(segment_number(&file).is_none(), "{file} does not count");
            region(0..size, Outcome::Exact);
            continue;
        };
        region(0..BLOCK, Outcome::Stop(0));
        let mut unused = BLOCK;
        for (_, bytes) in groups(disk, &file, end_of(segment.end)) {
            unused = bytes.end;
            let is_last = file == last_file && bytes == last_bytes;
            let before = count - usize::try_from(last.records).unwrap();
            let stop = Outcome::Stop(bytes.start);
            region(bytes, if is_last { Outcome::Prefix(before) } else { stop });
        }
        region(unused..size, Outcome::Exact);
    }
    regions
}

/// Whether the byte lies at an edge, where fields are: in front or at the end of a group, header,
/// page or closing.
fn is_edge(region: &Region, at: u64) -> bool {
    let from_start = at - region.bytes.start;
    let closing = region.bytes.end.saturating_sub(BLOCK);
    let fields = from_start < 240 || region.bytes.end - at <= 16;
    match region.outcome {
        Outcome::Exact if region.file != META_NAME => (closing..closing + 240).contains(&at),
        _ => fields || (region.file == META_NAME && (BLOCK..BLOCK + 240).contains(&at)),
    }
}

struct Sweep {
    disk: SimDisk,
    whole: Vec<Seen>,
    tried: u64,
    outcomes: [u64; 3],
}

impl Sweep {
    fn new(disk: SimDisk) -> Self {
        let whole = records(&disk).unwrap();
        Self { disk, whole, tried: 0, outcomes: [0; 3] }
    }

    fn flip(&mut self, region: &Region, at: u64, bit: u8) {
        self.tried += 1;
        self.disk.flip(&region.file, at, bit).unwrap();
        let found = records(&self.disk);
        let place = format!("bit {bit} of byte {at} of {}", region.file);
        match (&region.outcome, found) {
            (Outcome::Exact, Ok(found)) => {
                assert!(found == self.whole, "{place} has changed records");
                self.outcomes[0] += 1;
            }
            (Outcome::Prefix(count), Ok(found)) => {
                assert!(found == self.whole[..*count], "{place} is in the unproven tail");
                self.outcomes[1] += 1;
            }
            (Outcome::Stop(offset), Err(OpenError::Damage(damage))) => {
                let named = (damage.file.as_str(), damage.offset);
                assert_eq!(named, (region.file.as_str(), *offset), "{place}: {damage}");
                self.outcomes[2] += 1;
            }
            (wanted, found) => panic!("{place}: {wanted:?} was to be, and it is {found:?}"),
        }
        // Opening for real: nothing that was shown is lost when the log goes on.
        if self.tried.is_multiple_of(211) && !matches!(region.outcome, Outcome::Stop(_)) {
            self.go_on(&place);
        }
        self.disk.flip(&region.file, at, bit).unwrap();
    }

    fn go_on(&self, place: &str) {
        let mut kept = records(&self.disk).unwrap();
        let disk = self.disk.restart();
        live(&disk, 99, &[40]);
        let last = kept.last().unwrap().lsn + 1;
        kept.push(Seen { lsn: last, kind: 1, body: vec![u8::try_from(last).unwrap(); 40] });
        assert!(records(&disk.restart()).unwrap() == kept, "{place}");
    }

    /// Flips one bit of each byte that `wanted` names.
    fn run(&mut self, regions: &[Region], wanted: impl Fn(&Region, u64) -> bool) {
        for region in regions {
            for at in region.bytes.clone().filter(|at| wanted(region, *at)) {
                self.flip(region, at, some_bit(at));
            }
        }
    }
}

/// One of the eight, another one from byte to byte.
fn some_bit(at: u64) -> u8 {
    u8::try_from((at * 5 + at / 8) % 8).unwrap()
}

fn asked_for(what: &str) -> bool {
    std::env::var("ZZQ_FLIPS").is_ok_and(|flips| flips == what || flips == "bits")
}

#[test]
fn a_flipped_byte_has_the_outcome_of_its_place() {
    let disk = eventful();
    let regions = map(&disk);
    let spare = regions.iter().any(|region| region.file.starts_with("spare-"));
    assert!(spare && disk.list().unwrap().len() > 5, "{regions:?}");
    let mut sweep = Sweep::new(disk);
    let every = asked_for("bytes");
    sweep.run(&regions, |region, at| every || is_edge(region, at) || at.is_multiple_of(509));
    assert!(sweep.outcomes.iter().all(|count| *count > 40), "{:?}", sweep.outcomes);
}

#[test]
fn a_flipped_bit_has_the_outcome_of_its_place() {
    let disk = short();
    let regions = map(&disk);
    let every = asked_for("bits");
    let mut sweep = Sweep::new(disk);
    for region in &regions {
        for at in region.bytes.clone() {
            let all = every || (is_edge(region, at) && at.is_multiple_of(4));
            let bits = if all { 0..8 } else { some_bit(at)..some_bit(at) + 1 };
            bits.for_each(|bit| sweep.flip(region, at, bit));
        }
    }
    assert!(sweep.outcomes.iter().all(|count| *count > 40), "{:?}", sweep.outcomes);
}

/// Two flips that hit both pages of `meta` leave no page to go by.
#[test]
fn a_flip_in_each_page_of_meta_stops_the_start() {
    let disk = short();
    for at in (0..BLOCK).step_by(131) {
        disk.flip(META_NAME, at, 1).unwrap();
        disk.flip(META_NAME, BLOCK + at, 6).unwrap();
        let Err(OpenError::Damage(damage)) = records(&disk) else { panic!("byte {at}") };
        assert_eq!((damage.file.as_str(), damage.offset), (META_NAME, 0));
        disk.flip(META_NAME, at, 1).unwrap();
        disk.flip(META_NAME, BLOCK + at, 6).unwrap();
    }
    assert!(disk.list().unwrap().iter().any(|(name, _)| *name == segment_name(1)));
    assert_eq!(records(&disk).unwrap().len(), 3);
}
