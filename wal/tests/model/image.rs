//! One disk as a crash may leave it: what opening it must show.
//!
//! Owns: the images of one history, counted by hash, and what each of them is put through.

use std::collections::HashMap;
use std::sync::Arc;

use zzq_wal::disk::Disk;
use zzq_wal::sim_disk::{Op, Random, SimDisk, Survival};
use zzq_wal::{Handed, Limit, Log, Lsn, OpenError, Producer, Staging, Wake};

use super::damage;
use super::expected::{Expected, Record};
use super::operation::History;
use super::replay::{options, part};

/// What is known where an image is taken.
pub struct Setting<'s> {
    pub history: &'s History,
    pub expected: &'s Expected,
    /// How many starts there were: each has a disk of its own.
    pub starts: u64,
    pub crashes: u64,
}

/// The images seen so far.
#[derive(Clone, Debug, Default)]
pub struct Images {
    /// Each image by its hash, with the end of the log that was found in it. What was right before
    /// a truncation may be wrong behind it: so many had ended.
    ends: HashMap<(u64, u64), usize>,
    /// The same for disks that a killed process leaves: what they show, and what they hold for
    /// certain. Many show what a crash may leave, too, and hold less.
    killed: HashMap<(u64, u64, u64), usize>,
    /// Starts that were cut off by another crash.
    pub cut_starts: u64,
    /// Second lives that were lived.
    pub second_lives: u64,
    /// Images with damage on the medium, of which so many were refused. They are not counted above.
    pub damaged: u64,
    pub refused: u64,
    /// What the disk looked like at the last step, and the shortest and longest log that it may
    /// leave.
    state: (u64, u64, Vec<u64>),
    shortest: usize,
    longest: usize,
}

impl Images {
    /// Distinct images.
    pub fn hashes(&self) -> impl Iterator<Item = u64> {
        self.ends.keys().map(|(_, hash)| *hash)
    }

    /// Takes images of the disk as it is, and checks those that are new.
    pub fn check(
        &mut self,
        setting: &Setting<'_>,
        disk: &SimDisk,
        seed: u64,
    ) -> Result<(), String> {
        let state = (setting.starts, changes(disk), disk.in_flight());
        if state != self.state {
            self.state = state;
            (self.shortest, self.longest) = (usize::MAX, 0);
            let seeded = (0..setting.crashes).map(|nth| Survival::Seeded(seed ^ nth));
            for survival in [Survival::Nothing, Survival::Everything].into_iter().chain(seeded) {
                let image = disk.crash_with(survival);
                self.check_one(setting, &image, seed)
                    .map_err(|what| format!("after a crash with {survival:?}, {what}"))?;
            }
            if !disk.is_off() {
                self.check_killed(setting, disk, seed)
                    .map_err(|what| format!("after a kill, {what}"))?;
            }
        }
        // The same disk, and more was acknowledged.
        let (shortest, durable) = (self.shortest, setting.expected.least());
        if shortest < durable {
            return Err(format!("{durable} are acknowledged, a crash may leave {shortest}"));
        }
        // The same disk, and a truncation has ended.
        let (longest, appended) = (self.longest, setting.expected.records.len());
        if longest > appended {
            return Err(format!("{appended} are left, a crash may bring back {longest}"));
        }
        Ok(())
    }

    fn check_one(
        &mut self,
        setting: &Setting<'_>,
        image: &SimDisk,
        seed: u64,
    ) -> Result<(), String> {
        let hash = image.image_hash();
        let cuts = setting.expected.cuts;
        let end = if let Some(end) = self.ends.get(&(cuts, hash)) {
            *end
        } else {
            let (end, later) = self.probe(setting, image, Random::about(seed, hash), 12)?;
            for hash in later.into_iter().chain([hash]) {
                self.ends.entry((cuts, hash)).or_insert(end);
            }
            end
        };
        self.note_end(end);
        Ok(())
    }

    fn note_end(&mut self, end: usize) {
        self.shortest = self.shortest.min(end);
        self.longest = self.longest.max(end);
    }

    fn check_killed(
        &mut self,
        setting: &Setting<'_>,
        disk: &SimDisk,
        seed: u64,
    ) -> Result<(), String> {
        let image = disk.restart();
        let certain = image.crash_with(Survival::Nothing).image_hash();
        let key = (image.image_hash(), certain, setting.expected.cuts);
        let end = match self.killed.get(&key) {
            Some(end) => *end,
            // What it goes on with is what may be lost: most of them do.
            None => self.probe(setting, &image, Random::about(seed, key.0 ^ key.1), 2)?.0,
        };
        self.killed.insert(key, end);
        self.note_end(end);
        Ok(())
    }

    /// Opens an image that was not seen before, perhaps after starts that were cut off, and lives
    /// on with one in `lives`. Returns its end, and the hashes of the images behind such starts.
    fn probe(
        &mut self,
        setting: &Setting<'_>,
        image: &SimDisk,
        mut random: Random,
        lives: u64,
    ) -> Result<(usize, Vec<u64>), String> {
        if random.one_in(16) {
            let refused = damage::check(setting, &image.restart(), &mut random)?;
            self.damaged += 1;
            self.refused += u64::from(refused);
        }
        let mut image = image.restart();
        let mut seen = Vec::new();
        let mut nth = 0;
        while nth < 3 && random.one_in(10) {
            nth += 1;
            image = self.cut_off_start(setting, &image, &mut random)?;
            seen.push(image.image_hash());
        }
        let (log, end) = open(setting, &image, &mut random)?;
        if random.one_in(6) {
            let first = setting.expected.trimmed;
            let from = first + part(end - first, random.below(1025));
            read_from(&log, setting.expected, from, end)?;
        }
        if random.one_in(lives) {
            self.second_lives += 1;
            live_again(setting, &image, log, end, &mut random)?;
        }
        Ok((end, seen))
    }

    fn cut_off_start(
        &mut self,
        setting: &Setting<'_>,
        image: &SimDisk,
        random: &mut Random,
    ) -> Result<SimDisk, String> {
        self.cut_starts += 1;
        image.cut_power(1 + random.below(24));
        let options = options(setting.history, random.number());
        match Log::open(image.clone(), options, 0, &mut |_| Ok(())) {
            Ok(_) => {}
            Err(OpenError::Disk { .. }) if image.is_off() => {}
            Err(error) => return Err(format!("a start without power: {error}")),
        }
        Ok(image.crash(random.number()))
    }
}

/// Opens an image, and compares what it shows with what it must.
fn open(
    setting: &Setting<'_>,
    image: &SimDisk,
    random: &mut Random,
) -> Result<(Log<SimDisk>, usize), String> {
    let expected = setting.expected;
    let mut options = options(setting.history, random.number());
    let from = if random.one_in(4) { random.index(expected.least() + 1) } else { 0 };
    options.visit_from = Lsn::new(from as u64 + 1);
    let mut visited = expected.visit(from);
    let opened = Log::open(image.clone(), options, 0, &mut |record| {
        visited.take(&record);
        Ok(())
    });
    let (log, recovery) = opened.map_err(|error| error.to_string())?;
    let end = usize::try_from(recovery.last_lsn.get()).unwrap();
    visited.finish(end, expected.durable)?;
    Ok((log, end))
}

/// Operations that changed the disk.
fn changes(disk: &SimDisk) -> u64 {
    let ops = [Op::Create, Op::Rename, Op::Remove, Op::SyncDir, Op::Submit, Op::Write, Op::Sync];
    ops.into_iter().chain([Op::GiveBack]).map(|op| disk.count(op)).sum()
}

/// A reader shows the records from `from` (counted from 0) up to `end`, and then none.
pub fn read_from<D: Disk>(
    log: &Log<D>,
    expected: &Expected,
    from: usize,
    end: usize,
) -> Result<(), String> {
    let failed = |error| format!("a reader: {error}");
    let from_lsn = Lsn::new(from as u64 + 1);
    let mut reader = log.reader_to(from_lsn, Limit::Durable).map_err(failed)?;
    for (at, record) in (1..=end).zip(&expected.records).skip(from) {
        let read = reader.next_record().map_err(failed)?;
        let same = read.is_some_and(|read| {
            let expected = (record.kind, record.time_ms, &record.body[..]);
            read.lsn.get() == at as u64 && expected == (read.kind, read.time_ms, read.body)
        });
        if !same {
            return Err(format!("a reader shows another record {at}"));
        }
    }
    match reader.next_record().map_err(failed)? {
        None => Ok(()),
        Some(read) => Err(format!("a reader shows {} behind the end", read.lsn)),
    }
}

struct Nobody;

impl Wake for Nobody {
    fn wake(&self) {}
}

/// A life behind the first one, with records of its own, and a crash at its end. What the first
/// one lost must not come back, and what this one was told is durable is there.
fn live_again(
    setting: &Setting<'_>,
    image: &SimDisk,
    log: Log<SimDisk>,
    end: usize,
    random: &mut Random,
) -> Result<(), String> {
    let mut expected = setting.expected.clone();
    expected.settle(end, log.facts().durable_group);
    let mut lane = log.producer(Arc::new(Nobody), None).map_err(|error| error.to_string())?;
    // One life in six rolls.
    let count = if random.one_in(6) { 30 } else { 3 };
    for nth in 1..=count {
        let body = vec![0xee; 40 + random.index(5000)];
        let record = Record { kind: 9, waits: true, time_ms: TIME_MS, body };
        put(&log, &mut lane, &record, nth)?;
        expected.records.push(record);
        expected.durable += 1;
        if log.durable() != Lsn::new(expected.durable as u64) {
            return Err(format!("a second life gives {} behind {end}", log.durable()));
        }
    }
    drop((lane, log));
    let survival = random.pick(&[Survival::Nothing, Survival::Everything]);
    let left = image.crash_with(survival);
    let options = options(setting.history, random.number());
    let mut visited = expected.visit(0);
    let opened = Log::open(left, options, 0, &mut |record| {
        visited.take(&record);
        Ok(())
    });
    let (_, recovery) = opened.map_err(|error| format!("behind a second life: {error}"))?;
    let found = usize::try_from(recovery.last_lsn.get()).unwrap();
    visited
        .finish(found, expected.durable)
        .map_err(|what| format!("behind a second life of {count}: {what}"))
}

/// Log time in a second life.
const TIME_MS: u64 = 1_000_000;

/// Stages a record as the producer's `nth` and drives until it is durable.
fn put(
    log: &Log<SimDisk>,
    lane: &mut Producer<SimDisk>,
    record: &Record,
    nth: u64,
) -> Result<(), String> {
    let staging = Staging { kind: record.kind, waits: true, ..Staging::default() };
    lane.stage(&staging, |out| out.extend_from_slice(&record.body))
        .map_err(|error| format!("a second life takes no record: {error}"))?;
    for _ in 0..100 {
        if lane.durable() >= Handed::new(nth) {
            return Ok(());
        }
        lane.drive(TIME_MS);
        log.helper_step(TIME_MS);
    }
    Err("a record of a second life does not become durable".to_owned())
}
