//! The simulated disk against a model too simple to be wrong: for each sector the byte that reads
//! show, the byte that is certain after a crash, and the bytes that are possible.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail the test")]

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use proptest::sample::Index;
use zzq_wal::disk::{BLOCK, Disk, DiskFile, Write};
use zzq_wal::io::IoBuffer;
use zzq_wal::sim_disk::{Fault, Op, SimDisk, SimFile, Survival, Unsynced};

const NAMES: [&str; 3] = ["a", "b", "c"];
const BLOCKS: usize = 3;
const SECTORS: usize = BLOCKS * BLOCK / 512;

#[derive(Clone, Debug)]
enum Step {
    Create(usize),
    Rename(usize, usize),
    Remove(usize),
    SyncDir,
    Submit { name: usize, block: usize, blocks: usize, sync: bool },
    Release(Index),
    Write { name: usize, block: usize },
    Sync(usize),
    FailedSync(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let name = || 0..NAMES.len();
    prop_oneof![
        2 => name().prop_map(Step::Create),
        1 => (name(), name()).prop_map(|(from, to)| Step::Rename(from, to)),
        1 => name().prop_map(Step::Remove),
        1 => Just(Step::SyncDir),
        6 => (name(), 0..BLOCKS, 1..=BLOCKS, any::<bool>())
            .prop_map(|(name, block, blocks, sync)| Step::Submit { name, block, blocks, sync }),
        5 => any::<Index>().prop_map(Step::Release),
        2 => (name(), 0..BLOCKS).prop_map(|(name, block)| Step::Write { name, block }),
        2 => name().prop_map(Step::Sync),
        1 => name().prop_map(Step::FailedSync),
    ]
}

/// One sector. A byte stands for its whole content.
#[derive(Clone, Debug, Default)]
struct Sector {
    live: u8,
    durable: u8,
    /// Completed, not durable, and a sync would make it so.
    pending: bool,
    /// What may be found although no sync promises it: failed or superseded writes.
    perhaps: BTreeSet<u8>,
}

type File = Vec<Sector>;

#[derive(Debug, Default)]
struct Model {
    files: Vec<File>,
    live: BTreeMap<&'static str, usize>,
    durable: BTreeMap<&'static str, usize>,
    flight: Vec<Flying>,
}

#[derive(Clone, Debug)]
struct Flying {
    token: u64,
    file: usize,
    sectors: std::ops::Range<usize>,
    byte: u8,
    sync: bool,
}

impl Model {
    fn land(&mut self, flying: &Flying) {
        for sector in &mut self.files[flying.file][flying.sectors.clone()] {
            sector.live = flying.byte;
            sector.pending = !flying.sync;
            if flying.sync {
                sector.durable = flying.byte;
                sector.perhaps.clear();
            } else {
                sector.perhaps.insert(flying.byte);
            }
        }
    }

    fn sync(&mut self, file: usize) {
        for sector in self.files[file].iter_mut().filter(|sector| sector.pending) {
            sector.durable = sector.live;
            sector.pending = false;
            sector.perhaps.clear();
        }
    }

    fn fail_sync(&mut self, file: usize) {
        for sector in &mut self.files[file] {
            sector.pending = false;
        }
    }

    /// Whether `bytes` may be what a crash leaves of `file`.
    fn allows(&self, file: usize, bytes: &[u8]) -> bool {
        bytes.len() == SECTORS * 512
            && bytes.chunks(512).enumerate().all(|(at, sector)| {
                let found = sector[0];
                let whole = sector.iter().all(|byte| *byte == found);
                let model = &self.files[file][at];
                let flying = self.flight.iter().any(|flying| {
                    flying.file == file && flying.sectors.contains(&at) && flying.byte == found
                });
                whole && (found == model.durable || model.perhaps.contains(&found) || flying)
            })
    }
}

/// The disk and the model side by side, with open files by the model's numbers.
struct Pair {
    disk: SimDisk,
    model: Model,
    open: Vec<SimFile>,
    next: u8,
}

impl Pair {
    fn new() -> Self {
        let disk = SimDisk::new();
        disk.hold();
        Self { disk, model: Model::default(), open: Vec::new(), next: 0 }
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Create(name) => self.create(NAMES[name]),
            Step::Rename(from, to) => self.rename(NAMES[from], NAMES[to]),
            Step::Remove(name) => {
                let there = self.model.live.remove(NAMES[name]).is_some();
                assert_eq!(self.disk.remove(NAMES[name]).is_ok(), there);
            }
            Step::SyncDir => {
                self.disk.sync_dir().unwrap();
                self.model.durable = self.model.live.clone();
            }
            Step::Submit { name, block, blocks, sync } => self.submit(name, block, blocks, sync),
            Step::Release(index) => self.release(index),
            Step::Write { name, block } => self.write(name, block),
            Step::Sync(name) => {
                if let Some(file) = self.model.live.get(NAMES[name]).copied() {
                    self.open[file].sync().unwrap();
                    self.model.sync(file);
                }
            }
            Step::FailedSync(name) => {
                if let Some(file) = self.model.live.get(NAMES[name]).copied() {
                    self.disk.fail(Op::Sync, 1, Fault::Fail(std::io::ErrorKind::Other));
                    assert!(self.open[file].sync().is_err());
                    self.model.fail_sync(file);
                }
            }
        }
    }

    fn create(&mut self, name: &'static str) {
        let created = self.disk.create(name, (BLOCKS * BLOCK) as u64);
        assert_eq!(created.is_err(), self.model.live.contains_key(name));
        if let Ok(file) = created {
            self.model.live.insert(name, self.open.len());
            self.model.files.push(vec![Sector::default(); SECTORS]);
            self.open.push(file);
        }
    }

    fn rename(&mut self, from: &'static str, to: &'static str) {
        let file = self.model.live.remove(from);
        assert_eq!(self.disk.rename(from, to).is_ok(), file.is_some());
        if let Some(file) = file {
            self.model.live.insert(to, file);
        }
    }

    fn byte(&mut self) -> u8 {
        self.next = self.next % 250 + 1;
        self.next
    }

    fn submit(&mut self, name: usize, block: usize, blocks: usize, sync: bool) {
        let Some(file) = self.model.live.get(NAMES[name]).copied() else { return };
        let sectors = block * 8..(block + blocks).min(BLOCKS) * 8;
        let overlaps = |other: &Flying| {
            other.file == file
                && other.sectors.start < sectors.end
                && sectors.start < other.sectors.end
        };
        if self.model.flight.iter().any(overlaps) {
            return;
        }
        let byte = self.byte();
        let token = u64::from(byte);
        let mut buffer = IoBuffer::with_blocks(sectors.len() / 8);
        buffer.fill(byte);
        let offset = (block * BLOCK) as u64;
        let handle = self.open[file].clone();
        let write = Write { file: handle, buffer, offset, sync, token, notify: None };
        self.disk.submit(write).unwrap();
        self.model.flight.push(Flying { token, file, sectors, byte, sync });
    }

    fn release(&mut self, index: Index) {
        if self.model.flight.is_empty() {
            return;
        }
        let flying = self.model.flight.remove(index.index(self.model.flight.len()));
        assert!(self.disk.release(flying.token));
        self.model.land(&flying);
        let mut completions = Vec::new();
        self.disk.reap(&mut completions);
        assert_eq!(completions.len(), 1);
        assert_eq!(completions[0].token, flying.token);
        assert_eq!(*completions[0].result.as_ref().unwrap(), flying.sectors.len() * 512);
    }

    fn write(&mut self, name: usize, block: usize) {
        let Some(file) = self.model.live.get(NAMES[name]).copied() else { return };
        let byte = self.byte();
        let mut buffer = IoBuffer::with_blocks(1);
        buffer.fill(byte);
        self.open[file].write_at(&buffer, (block * BLOCK) as u64).unwrap();
        let sectors = block * 8..block * 8 + 8;
        self.model.land(&Flying { token: 0, file, sectors, byte, sync: false });
    }

    fn check_live(&self) {
        let listed: Vec<String> =
            self.disk.list().unwrap().into_iter().map(|(name, _)| name).collect();
        assert_eq!(listed, self.model.live.keys().copied().collect::<Vec<_>>());
        for (name, file) in &self.model.live {
            let bytes = self.disk.bytes(name).unwrap();
            let model = &self.model.files[*file];
            for (sector, model) in bytes.chunks(512).zip(model) {
                assert!(sector.iter().all(|byte| *byte == model.live));
            }
        }
    }

    /// Without any luck, exactly what was synced is there.
    fn check_worst(&self) {
        let crashed = self.disk.crash_with(Survival::Nothing);
        let listed: Vec<String> =
            crashed.list().unwrap().into_iter().map(|(name, _)| name).collect();
        assert_eq!(listed, self.model.durable.keys().copied().collect::<Vec<_>>());
        for (name, file) in &self.model.durable {
            let bytes = crashed.bytes(name).unwrap();
            for (sector, model) in bytes.chunks(512).zip(&self.model.files[*file]) {
                assert!(sector.iter().all(|byte| *byte == model.durable));
            }
        }
    }

    fn check_crash(&self, seed: u64) {
        let crashed = self.disk.crash(seed);
        assert_eq!(crashed.image_hash(), self.disk.crash(seed).image_hash());
        for (name, _) in crashed.list().unwrap() {
            let bytes = crashed.bytes(&name).unwrap();
            let files = 0..self.model.files.len();
            assert!(files.into_iter().any(|file| self.model.allows(file, &bytes)), "{name}");
        }
        if self.model.live == self.model.durable && !self.disk.unsynced().names {
            for (name, file) in &self.model.live {
                assert!(self.model.allows(*file, &crashed.bytes(name).unwrap()), "{name}");
            }
        }
        assert_eq!(crashed.unsynced(), Unsynced::default());
        assert_eq!(crashed.image_hash(), crashed.crash(seed).image_hash());
    }
}

proptest! {
    #[test]
    fn reads_and_crashes_show_what_the_model_allows(
        steps in prop::collection::vec(step(), 0..60),
        seeds in prop::collection::vec(any::<u64>(), 4),
    ) {
        let mut pair = Pair::new();
        for step in &steps {
            pair.step(step);
        }
        pair.check_live();
        pair.check_worst();
        for seed in seeds {
            pair.check_crash(seed);
        }
    }

    #[test]
    fn what_was_synced_survives_every_crash(
        steps in prop::collection::vec(step(), 0..60),
        seed in any::<u64>(),
    ) {
        let mut pair = Pair::new();
        for step in steps.iter().filter(|step| !matches!(step, Step::FailedSync(_))) {
            pair.step(step);
        }
        pair.disk.release_all();
        for file in &pair.open {
            file.sync().unwrap();
        }
        pair.disk.sync_dir().unwrap();
        prop_assert_eq!(pair.disk.crash(seed).image_hash(), pair.disk.image_hash());
    }
}
