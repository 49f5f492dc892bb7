//! Random histories with power cuts, failing disks and crashes in recovery, against a model.
//!
//! The model knows the records in LSN order as the tail showed them, and how many of them were
//! published as durable. After any crash the log must hold a prefix of the former that is not
//! shorter than the latter: nothing lost, nothing reordered, nothing forged.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests panic as tests do")]

mod common;

use std::io::ErrorKind;

use common::*;
use zzq_wal::sim_disk::{Fault, Op, SimDisk};
use zzq_wal::{Log, Lsn, OpenError, Producer, Staging, Status, TailCursor};

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn index(&mut self, bound: usize) -> usize {
        usize::try_from(self.below(bound as u64)).unwrap()
    }

    fn one_in(&mut self, chances: u64) -> bool {
        self.below(chances) == 0
    }
}

/// All that has happened to one log, over all its lives.
struct History {
    seed: u64,
    random: Random,
    disk: SimDisk,
    /// In LSN order, from LSN 1.
    appended: Vec<Vec<u8>>,
    /// How many were published as durable.
    durable: usize,
    /// Everything below may be gone.
    trimmed: usize,
    made: u64,
    /// Something was reported as failed that can be read: only a power cut decides about it. (A
    /// new process that reads it and is told by a sync that it is durable has to believe that.)
    uncertain: bool,
}

struct Life {
    log: Log<SimDisk>,
    producers: Vec<Producer<SimDisk>>,
    tail: TailCursor,
    now: u64,
}

impl History {
    fn new(seed: u64) -> Self {
        Self {
            seed,
            random: Random(seed),
            disk: SimDisk::new(),
            appended: Vec::new(),
            durable: 0,
            trimmed: 0,
            made: 0,
            uncertain: false,
        }
    }

    fn run(&mut self) {
        for _ in 0..=self.random.below(4) {
            let mut life = self.start();
            for _ in 0..self.random.below(200) {
                self.step(&mut life);
            }
            if self.random.one_in(8) && life.log.mark_durable().is_err() {
                assert!(matches!(life.log.status(), Status::ReadOnly(_)), "seed {}", self.seed);
            }
            self.see(&mut life);
            drop(life);
            self.disk = self.crash();
        }
        self.disk.heal();
        drop(self.start());
    }

    fn crash(&mut self) -> SimDisk {
        let killed = self.random.one_in(4) && !self.uncertain;
        self.uncertain = false;
        if killed { self.disk.restart() } else { self.disk.crash(self.random.next()) }
    }

    /// Opens the log, perhaps after crashes in the middle of opening it.
    fn start(&mut self) -> Life {
        while self.random.one_in(3) {
            if self.random.one_in(2) {
                self.disk.cut_power(1 + self.random.below(40));
            }
            let ops =
                [Op::Create, Op::Rename, Op::SyncDir, Op::Write, Op::Sync, Op::Open, Op::Remove];
            let op = ops[self.random.index(ops.len())];
            let nth = 1 + self.random.below(6);
            self.disk.fail(op, nth, Fault::FailWritten(ErrorKind::Other));
            self.uncertain = true;
            match open(self.disk.clone(), small(self.random.next())) {
                Ok(_) | Err(OpenError::Disk { .. }) => {}
                Err(error) => panic!("seed {}: {error}", self.seed),
            }
            self.disk.heal();
            self.disk = self.crash();
        }
        let (log, recovery, seen) = match open(self.disk.clone(), small(self.random.next())) {
            Ok(opened) => opened,
            Err(error) => panic!("seed {}: {error}", self.seed),
        };
        let end = usize::try_from(recovery.last_lsn.get()).unwrap();
        assert!(end >= self.durable, "seed {}: {end} of {} durable", self.seed, self.durable);
        assert!(end <= self.appended.len(), "seed {}: more than was appended", self.seed);
        // Of what is trimmed some may be there, of the rest all is.
        let mut lsns = self.trimmed..end;
        for record in &seen {
            let at = usize::try_from(record.lsn).unwrap() - 1;
            let wanted = at < self.trimmed || lsns.next() == Some(at);
            assert!(wanted, "seed {}: record {} is not the next", self.seed, record.lsn);
            let same = record.body == self.appended[at];
            assert!(same, "seed {}: record {} is another", self.seed, record.lsn);
        }
        assert!(lsns.is_empty(), "seed {}: {lsns:?} are not there", self.seed);
        assert_eq!(log.durable(), recovery.last_lsn);
        self.appended.truncate(end);
        self.durable = end;
        let count = 1 + self.random.index(3);
        let producers: Vec<_> = (0..count).map(|_| producer(&log).0).collect();
        let tail = producers[0].tail();
        if self.random.one_in(2) {
            self.disk.hold();
        }
        Life { log, producers, tail, now: 1000 }
    }

    fn step(&mut self, life: &mut Life) {
        life.now += self.random.below(3);
        match self.random.below(20) {
            0..7 => self.stage(life),
            7..11 => self.drive(life),
            11..13 => self.release(),
            13..15 => {
                life.log.helper_step(life.now);
            }
            15..17 => self.see(life),
            17 => self.read(life),
            18 if self.random.one_in(4) => self.trim(life),
            // The tail is the first one's. What it had handed over goes on without it.
            18 if self.random.one_in(8) && life.producers.len() > 1 => {
                life.producers.pop();
            }
            19 if self.random.one_in(12) => self.spoil(),
            _ => {}
        }
    }

    fn stage(&mut self, life: &mut Life) {
        let mut body = self.made.to_le_bytes().to_vec();
        self.made += 1;
        let len = match self.random.below(12) {
            0 => 8,
            1 => 8 + self.random.index(40_000),
            3 if self.random.one_in(4) => 8 + self.random.index(200_000),
            2 => 4096 - 140,
            _ => 8 + self.random.index(900),
        };
        // A tenth of the payloads are what lies on disk right now.
        let name = self.some_file();
        let found = if self.random.one_in(10) { self.disk.bytes(&name).ok() } else { None };
        match found {
            Some(bytes) => body.extend(bytes.into_iter().skip(4096).take(len)),
            None => body.resize(len, u8::try_from(self.made % 256).unwrap()),
        }
        let staging = Staging {
            kind: u8::try_from(self.made % 7).unwrap(),
            waits: !self.random.one_in(3),
            lanes: self.random.below(8),
            reserved: self.random.one_in(4),
        };
        let at = self.random.index(life.producers.len());
        // Full and read-only are answers too.
        let _ = life.producers[at].stage(&staging, |out| out.extend_from_slice(&body));
    }

    fn some_file(&mut self) -> String {
        let files = zzq_wal::disk::Disk::list(&self.disk).unwrap_or_default();
        let at = self.random.index(files.len().max(1));
        files.get(at).map_or_else(String::new, |(name, _)| name.clone())
    }

    fn drive(&mut self, life: &mut Life) {
        let at = self.random.index(life.producers.len());
        if self.random.one_in(5) {
            life.producers[at].reap(life.now);
        }
        life.producers[at].drive(life.now);
        self.check_marks(life);
    }

    fn release(&mut self) {
        let tokens = self.disk.in_flight();
        if tokens.is_empty() {
            return;
        }
        let token = tokens[self.random.index(tokens.len())];
        if self.random.one_in(25) {
            let faults = [
                Fault::Fail(ErrorKind::Other),
                Fault::FailWritten(ErrorKind::Other),
                Fault::Short(self.random.index(9000)),
            ];
            self.uncertain = true;
            self.disk.release_with(token, faults[self.random.index(3)]);
        } else {
            self.disk.release(token);
        }
    }

    fn spoil(&mut self) {
        self.uncertain = true;
        if self.random.one_in(3) {
            self.disk.cut_power(1 + self.random.below(20));
            return;
        }
        let ops = [Op::Create, Op::Write, Op::Sync, Op::Submit, Op::Rename];
        let op = ops[self.random.index(ops.len())];
        let kinds = [ErrorKind::Other, ErrorKind::StorageFull, ErrorKind::WouldBlock];
        let kind = kinds[self.random.index(3)];
        self.disk.fail(op, 1 + self.random.below(3), Fault::Fail(kind));
    }

    /// Reads the tail, so that the model knows what has an LSN, and takes note of what is durable.
    fn see(&mut self, life: &mut Life) {
        while let Some(group) = life.tail.next_group() {
            for record in group.records() {
                assert_eq!(record.lsn.get(), self.appended.len() as u64 + 1, "seed {}", self.seed);
                self.appended.push(record.body.to_vec());
            }
        }
        self.check_marks(life);
    }

    fn check_marks(&mut self, life: &Life) {
        let durable = usize::try_from(life.log.durable().get()).unwrap();
        assert!(durable >= self.durable, "seed {}: durable goes back", self.seed);
        self.durable = durable;
        assert!(life.log.durable() <= life.log.appended(), "seed {}", self.seed);
        for producer in &life.producers {
            let counts = [producer.durable(), producer.appended(), producer.handed()];
            assert!(counts.is_sorted(), "seed {}: {counts:?}", self.seed);
        }
    }

    fn read(&mut self, life: &mut Life) {
        self.see(life);
        if self.durable == self.trimmed || self.disk.is_off() {
            return;
        }
        let from = self.trimmed + self.random.index(self.durable - self.trimmed);
        let opened = life.log.reader(Lsn::new(from as u64 + 1));
        let mut reader = opened.unwrap_or_else(|error| panic!("seed {}: {error}", self.seed));
        for body in &self.appended[from..self.durable] {
            let record = reader.next_record();
            let read = record.unwrap_or_else(|error| panic!("seed {}: {error}", self.seed));
            assert!(read.unwrap().body == *body, "seed {}", self.seed);
        }
        assert!(reader.next_record().unwrap().is_none(), "seed {}", self.seed);
    }

    fn trim(&mut self, life: &mut Life) {
        self.see(life);
        self.trimmed += self.random.index(self.durable - self.trimmed + 1);
        life.log.trim(Lsn::new(self.trimmed as u64 + 1));
    }
}

/// One history, by its seed: `ZZQ_SEED=n cargo test -p zzq-wal --test crash`.
fn run(seed: u64) -> History {
    let mut history = History::new(seed);
    history.run();
    history
}

#[test]
fn any_history_keeps_what_was_durable() {
    if let Ok(seed) = std::env::var("ZZQ_SEED") {
        run(seed.parse().unwrap());
        return;
    }
    let (mut records, mut trimmed) = (0, 0);
    for seed in 0..500 {
        let history = run(seed);
        records += history.durable;
        trimmed += history.trimmed;
    }
    assert!(records > 10_000 && trimmed > 1000, "the histories say little: {records} {trimmed}");
}
