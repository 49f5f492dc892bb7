//! A log of settings under a few keys, and the images of what they add up to: the way a broker uses
//! this room, without a broker.

use std::collections::BTreeMap;
use std::sync::Arc;

use zzq_snapshot::{
    Heading, Kind, Listing, Mark, Merge, MergeError, Need, NeededKind, Shelf, Verdict,
    at_full_speed,
};
use zzq_wal::format::Salt;
use zzq_wal::sim_disk::{SimDisk, SimFile};
use zzq_wal::{Log, Lsn, Options, Producer, Staging, Wake, read_facts};

use super::Random;

struct Nobody;

impl Wake for Nobody {
    fn wake(&self) {}
}

/// Sizes at which segments roll soon.
fn options(seed: u64) -> Options {
    let mut state = u128::from(seed) << 64 | 0x9e37_79b9_7f4a_7c15;
    let entropy = move || -> Salt {
        state = state.wrapping_mul(0xda94_2042_e4dd_58b5_da94_2042_e4dd_58b5).wrapping_add(1);
        (state ^ state >> 61).to_le_bytes()
    };
    Options {
        segment_size: 128 * 1024,
        group_size: 32 * 1024,
        chunk_size: 4096,
        part_size: 8192,
        ring_chunks: 16,
        ..Options::new(Box::new(entropy))
    }
}

/// What the records up to one add up to: under each key the last record that set it.
pub type Sum = BTreeMap<u8, u64>;

/// Record n sets this key.
pub fn key_of(n: u64) -> u8 {
    u8::try_from(Random::new(n).below(40)).unwrap()
}

/// The sum of the first `n` records.
pub fn sum_of(n: u64) -> Sum {
    (1..=n).map(|n| (key_of(n), n)).collect()
}

/// A log with its images.
pub struct Life {
    pub disk: SimDisk,
    pub log: Log<SimDisk>,
    pub lane: Producer<SimDisk>,
    pub shelf: Shelf<SimFile>,
    pub sum: Sum,
    /// What the start said about images.
    pub verdicts: Vec<Verdict>,
    /// The first record that the start read.
    pub read_from: Lsn,
}

impl Life {
    /// A start: the newest good image, then the log.
    pub fn start(disk: &SimDisk, seed: u64) -> Result<Self, String> {
        let facts = read_facts(disk).ok();
        let identity = facts.as_ref().map_or_else(Default::default, |facts| facts.identity);
        let mut there = Listing::read(disk).map_err(|error| error.to_string())?;
        if let Some(facts) = &facts {
            there = there.as_stated(facts.snapshot_number, 0);
        }
        let mark = facts.filter(|facts| facts.snapshot_number > 0);
        let mark = mark.map(|facts| Mark { number: facts.snapshot_number, lsn: facts.snapshot });
        let opened = Shelf::open(disk, &there, &identity, mark, at_full_speed());
        let (shelf, verdicts) = opened.map_err(|error| error.to_string())?;
        let mut sum = Sum::new();
        let mut covered = Lsn::ZERO;
        if let Some(image) = shelf.newest() {
            covered = image.heading().lsn;
            let mut entries = image.entries(|section| section == 1, at_full_speed());
            while let Some(entry) = entries.next_entry().map_err(|error| error.to_string())? {
                sum.insert(entry.key[0], u64::from_le_bytes(entry.value.try_into().unwrap()));
            }
        }
        let known = mark.map_or(covered, |mark| covered.max(mark.lsn));
        let options = Options { visit_from: covered.next(), durable: known, ..options(seed) };
        let mut next = covered.next();
        let opened = Log::open(disk.clone(), options, 0, &mut |record| {
            if record.lsn != next {
                return Err(format!("{next} is not there any more").into());
            }
            next = next.next();
            sum.insert(record.body[0], record.lsn.get());
            Ok(())
        });
        let (log, _) = opened.map_err(|error| error.to_string())?;
        let lane = log.producer(Arc::new(Nobody), None).unwrap();
        let read_from = covered.next();
        Ok(Self { disk: disk.clone(), log, lane, shelf, sum, verdicts, read_from })
    }

    /// Adds `count` records; returns the last that is durable.
    pub fn append(&mut self, count: u64) -> Lsn {
        let how = Staging { kind: 1, waits: true, ..Staging::default() };
        let goal = self.log.appended().get() + count;
        for n in self.log.appended().get() + 1..=goal {
            let key = key_of(n);
            self.sum.insert(key, n);
            let staged = self.lane.stage(&how, |out| {
                out.push(key);
                out.resize(600, 0);
            });
            if staged.is_err() {
                break;
            }
            for _ in 0..3 {
                self.lane.drive(1000);
                self.log.helper_step(0);
            }
        }
        for _ in 0..20 {
            if self.log.durable().get() >= goal || self.log.is_read_only() {
                break;
            }
            self.lane.drive(1000);
            self.log.helper_step(0);
        }
        self.log.durable()
    }

    /// Makes an image of all that is durable, as a merge, switches to it and lets go what nothing
    /// needs.
    pub fn image(&mut self) -> Result<(), String> {
        let lsn = self.log.durable();
        let volume = self.merge(lsn).map_err(|error| error.to_string())?;
        let number = volume.heading().number;
        let marked = self.log.update_facts(|facts| {
            facts.snapshot = lsn;
            facts.snapshot_number = number;
        });
        marked.map_err(|error| error.to_string())?;
        self.shelf.admit(volume).map_err(|error| error.to_string())?;
        self.shelf.retire(&self.disk).map_err(|error| error.to_string())?;
        self.log.trim(self.shelf.first_needed());
        while self.log.helper_step(0) {}
        Ok(())
    }

    fn merge(&mut self, lsn: Lsn) -> Result<zzq_snapshot::Volume<SimFile>, MergeError> {
        let base = self.shelf.newest().cloned();
        let covered = base.as_ref().map_or(Lsn::ZERO, |base| base.heading().lsn);
        let mut changed = Sum::new();
        let mut reader = self.log.reader(covered.next()).unwrap();
        while reader.next_lsn() <= lsn {
            let record = reader.next_record().unwrap().unwrap();
            changed.insert(record.body[0], record.lsn.get());
        }
        let number = self.shelf.next_number();
        let before = base.as_ref().map(|base| (base.heading().number, covered));
        let identity = self.log.facts().identity;
        let heading = Heading { number, lsn, before, ..Heading::new(Kind::Image, identity) };
        let writer = self.shelf.begin(&self.disk, heading, at_full_speed())?;
        let entries = base.as_ref().map(|base| base.entries(|_| true, at_full_speed()));
        let keep = |old: zzq_snapshot::Entry<'_>| !changed.contains_key(&old.key[0]);
        let mut merge = Merge::new(entries, writer, keep)?;
        for (key, n) in &changed {
            merge.entry(1, &[*key], &n.to_le_bytes())?;
        }
        // As if the first of the records that count were read when it is sent.
        let first = Lsn::new(self.sum.values().copied().min().unwrap_or(1).min(lsn.get()));
        let need = Need {
            kind: NeededKind::Segment,
            number: 1,
            first,
            last: lsn,
            references: 1,
            bytes: 600,
        };
        Ok(merge.finish()?.0.finish_with(&[need])?)
    }
}
