//! Carries out a list of operations on a log, and takes note of what it promises.
//!
//! Owns: the log under test, its producers, the checks of a running log. Everything happens in one
//! thread.

use std::io::ErrorKind;
use std::sync::Arc;

use zzq_wal::disk::Disk;
use zzq_wal::sim_disk::{Fault, Lie, Random, SimDisk};
use zzq_wal::{
    Commits, Entropy, Handed, Log, Lsn, OpenError, Options, Producer, Recovery, StageError,
    Staging, Status, TailCursor, TruncateError, Wake, segment_number,
};

use super::expected::{Expected, Record};
use super::generate::LANES;
use super::image;
use super::operation::{
    Body, Cut, Ending, History, KNOWN_SALT, Lies, Operation, Salts, Start, Step,
};
use super::{Plan, Report};

pub struct Replay<'h> {
    history: &'h History,
    plan: Plan,
    at: usize,
    disk: SimDisk,
    expected: Expected,
    life: Option<Life>,
    starts: u64,
    /// The newest under which somebody wanted the log truncated.
    term: u64,
    report: Report,
}

struct Life {
    log: Log<SimDisk>,
    lanes: Vec<Lane>,
    tail: TailCursor,
    now: u64,
}

struct Lane {
    producer: Option<Producer<SimDisk>>,
    /// What it staged.
    staged: Vec<Record>,
    /// LSNs of those that have one.
    lsns: Vec<u64>,
}

struct Nobody;

impl Wake for Nobody {
    fn wake(&self) {}
}

impl<'h> Replay<'h> {
    pub fn new(history: &'h History, plan: &Plan) -> Self {
        let disk = SimDisk::new();
        match history.lies {
            Lies::None => {}
            Lies::Writes => disk.lie(Lie::Writes),
            Lies::Files => disk.lie(Lie::Files),
            Lies::Names => disk.lie(Lie::Names),
        }
        Self {
            history,
            plan: *plan,
            at: 0,
            disk,
            expected: Expected::default(),
            life: None,
            starts: 0,
            term: 0,
            report: Report::default(),
        }
    }

    /// The step that is carried out.
    pub fn at(&self) -> usize {
        self.at
    }

    pub fn into_report(self) -> Report {
        self.report
    }

    /// All steps, and the look at the disk behind each.
    pub fn run(&mut self) -> Result<(), String> {
        self.open(&Start::first(self.history.seed))?;
        let steps = &self.history.steps;
        for (at, step) in steps.iter().enumerate() {
            self.at = at;
            self.carry_out(step)?;
            self.look()?;
            if self.plan.only_at.is_none_or(|seed| seed == step.seed) {
                let setting = image::Setting {
                    history: self.history,
                    expected: &self.expected,
                    starts: self.starts,
                    crashes: self.plan.crashes,
                };
                self.report.images.check(&setting, &self.disk, step.seed)?;
            }
        }
        self.count_rolls();
        self.report.trimmed = self.expected.trimmed as u64;
        self.report.cuts = self.expected.cuts;
        Ok(())
    }

    fn carry_out(&mut self, step: &Step) -> Result<(), String> {
        match &step.operation {
            Operation::Stage { lane, id, body, waits, reserved } => {
                let body = self.body(*id, *body, step.seed);
                self.stage(*lane, body, *waits, *reserved);
            }
            Operation::Drive { lane, ms } => self.drive(*lane, *ms, true),
            Operation::Reap { lane } => self.drive(*lane, 0, false),
            Operation::Complete { nth } => self.complete(*nth, None),
            Operation::Miscomplete { nth, fault } => self.complete(*nth, Some(*fault)),
            Operation::Help { ms } => self.help(*ms),
            Operation::Read { from } => return self.read(*from),
            Operation::Trim { below } => self.trim(*below),
            Operation::Commit { upto } => self.commit(*upto),
            Operation::Truncate { after } => return self.truncate(*after),
            Operation::Leave { lane } => {
                if let Some(life) = &mut self.life {
                    life.lanes[*lane].producer = None;
                }
            }
            Operation::Mark => return self.mark(),
            Operation::Fail { op, nth, fault } => self.disk.fail(*op, *nth, *fault),
            Operation::CutPower { nth } => self.disk.cut_power(*nth),
            Operation::End { ending, start } => {
                self.end(*ending);
                return self.start(start);
            }
        }
        Ok(())
    }

    fn body(&self, id: u32, body: Body, seed: u64) -> Vec<u8> {
        let mut bytes = id.to_le_bytes().to_vec();
        match body {
            Body::Plain(len) => {
                let fill = u8::try_from(seed % 256).unwrap();
                bytes.resize(bytes.len() + len, fill);
            }
            Body::FromDisk(len) => {
                // Without power nothing is found.
                let files = self.disk.list().unwrap_or_default();
                let mut random = Random::new(seed);
                let name = files.get(random.index(files.len().max(1)));
                let found = name.and_then(|(name, _)| self.disk.bytes(name).ok());
                let found = found.unwrap_or_default();
                let skip = 4096 * random.index((found.len() / 4096).max(1));
                // So that groups in it begin at blocks, if the record is the first of its group.
                bytes.resize(4096 - 128 - 12, 0);
                bytes.extend(found.into_iter().skip(skip).take(len));
            }
            Body::Forged => {
                bytes.resize(4096 - 128 - 12, 0);
                let newest = self.newest_segment();
                for ahead in 0..3 {
                    bytes.extend(forged_group(newest + ahead, seed));
                }
            }
        }
        bytes
    }

    fn newest_segment(&self) -> u64 {
        let files = self.disk.list().unwrap_or_default();
        files.iter().filter_map(|(name, _)| segment_number(name)).max().unwrap_or(0)
    }

    fn stage(&mut self, lane: usize, body: Vec<u8>, waits: bool, reserved: bool) {
        let Some(life) = &mut self.life else { return };
        let lane = &mut life.lanes[lane];
        let Some(producer) = &mut lane.producer else { return };
        let kind = body[0] % 7;
        let staging = Staging { kind, waits, lanes: 1, reserved };
        match producer.stage(&staging, |out| out.extend_from_slice(&body)) {
            Ok(handed) => {
                lane.staged.push(Record { kind, waits, time_ms: 0, body });
                assert_eq!(handed, Handed::new(lane.staged.len() as u64));
            }
            Err(StageError::Full | StageError::ReadOnly) => {}
            Err(error @ (StageError::TooLong(_) | StageError::Ended)) => unreachable!("{error}"),
        }
    }

    fn drive(&mut self, lane: usize, ms: u64, packs: bool) {
        let Some(life) = &mut self.life else { return };
        life.now += ms;
        let Some(producer) = &mut life.lanes[lane].producer else { return };
        if packs {
            producer.drive(life.now);
        } else if life.now.is_multiple_of(2) {
            producer.seal(life.now);
        } else {
            producer.reap(life.now);
        }
    }

    fn complete(&mut self, nth: usize, fault: Option<Fault>) {
        let tokens = self.disk.in_flight();
        let Some(token) = tokens.get(nth % tokens.len().max(1)) else { return };
        match fault {
            None => self.disk.release(*token),
            Some(fault) => self.disk.release_with(*token, fault),
        };
    }

    fn help(&mut self, ms: u64) {
        let Some(life) = &mut self.life else { return };
        life.now += ms;
        life.log.helper_step(life.now);
    }

    fn read(&mut self, from: u64) -> Result<(), String> {
        let Some(life) = &self.life else { return Ok(()) };
        if self.disk.is_off() {
            return Ok(());
        }
        let expected = &self.expected;
        // What is being truncated is read or not.
        if expected.cut.is_some() {
            return Ok(());
        }
        let from = expected.trimmed + part(expected.durable - expected.trimmed, from);
        image::read_from(&life.log, expected, from, expected.durable)
    }

    fn trim(&mut self, below: u64) {
        let Some(life) = &self.life else { return };
        let expected = &mut self.expected;
        let most = if self.history.follows { expected.committed } else { expected.durable };
        expected.trimmed += part(most.saturating_sub(expected.trimmed), below);
        life.log.trim(Lsn::new(expected.trimmed as u64 + 1));
    }

    fn commit(&mut self, upto: u64) {
        let Some(life) = &self.life else { return };
        let expected = &mut self.expected;
        expected.committed += part(expected.least() - expected.committed, upto);
        life.log.commit(Lsn::new(expected.committed as u64));
    }

    /// All producers end, and others come at once.
    fn truncate(&mut self, after: u64) -> Result<(), String> {
        let Some(life) = &mut self.life else { return Ok(()) };
        if self.expected.cut.is_some() {
            return Ok(());
        }
        let ends = self.expected.may_end();
        let Some(after) = ends.get(part(ends.len(), after)) else { return Ok(()) };
        self.term += 1;
        match life.log.truncate(Lsn::new(*after as u64), self.term) {
            Ok(_) => {}
            Err(TruncateError::ReadOnly(_)) => return Ok(()),
            Err(TruncateError::Trimmed { .. }) if *after <= self.expected.trimmed => return Ok(()),
            Err(TruncateError::Disk { .. }) if self.disk.is_off() => return Ok(()),
            Err(error) => return Err(error.to_string()),
        }
        self.expected.cut = Some(*after);
        (life.lanes, life.tail) = lanes(&life.log)?;
        Ok(())
    }

    fn mark(&mut self) -> Result<(), String> {
        let Some(life) = &self.life else { return Ok(()) };
        let marked = life.log.mark_durable();
        let read_only = matches!(life.log.status(), Status::ReadOnly(_));
        if marked.is_err() && !read_only {
            return Err("meta failed, and the log goes on".to_owned());
        }
        Ok(())
    }

    /// Reads the tail and all counts: what is promised is written down.
    fn look(&mut self) -> Result<(), String> {
        let Some(life) = &mut self.life else { return Ok(()) };
        if !life.log.is_truncating() && !life.log.is_read_only() {
            self.expected.finish_cut();
        }
        while let Some(group) = life.tail.next_group() {
            // It may be read-only since.
            if self.expected.cut.is_some_and(|cut| group.first_lsn().get() == cut as u64 + 1) {
                self.expected.finish_cut();
            }
            let before = self.expected.records.len();
            for shown in group.records() {
                let lane = &mut life.lanes[usize::from(shown.producer)];
                let at = usize::try_from(shown.handed.get()).unwrap() - 1;
                let expected = &mut self.expected;
                if shown.lsn.get() != expected.records.len() as u64 + 1 || at != lane.lsns.len() {
                    return Err(format!("record {} of the tail is not the next", shown.lsn));
                }
                let record = Record { time_ms: shown.time_ms, ..lane.staged[at].clone() };
                if record.body != shown.body || record.kind != shown.kind {
                    return Err(format!("record {} of the tail was not staged so", shown.lsn));
                }
                self.report.spanning += u64::from(record.body.len() > 8192);
                expected.records.push(record);
                lane.lsns.push(shown.lsn.get());
                self.report.records += 1;
            }
            self.expected.note_group(group.number(), before);
        }
        let used = life.lanes.iter().filter(|lane| !lane.lsns.is_empty()).count();
        self.report.producers = self.report.producers.max(used);
        self.check_counts()
    }

    fn check_counts(&mut self) -> Result<(), String> {
        let Some(life) = &self.life else { return Ok(()) };
        let durable = usize::try_from(life.log.durable().get()).unwrap();
        let appended = usize::try_from(life.log.appended().get()).unwrap();
        if self.expected.cut.is_some_and(|cut| (durable, appended) == (cut, cut)) {
            self.expected.marked = usize::try_from(life.log.facts().durable.get()).unwrap();
            return Ok(());
        }
        if durable < self.expected.durable || appended != self.expected.records.len() {
            return Err(format!("{durable} durable and {appended} appended are not possible"));
        }
        if durable > appended {
            return Err(format!("{durable} are durable, {appended} appended"));
        }
        self.expected.durable = durable;
        self.expected.marked = usize::try_from(life.log.facts().durable.get()).unwrap();
        for lane in &life.lanes {
            let Some(producer) = &lane.producer else { continue };
            let counts = [producer.durable(), producer.appended(), producer.handed()];
            if !counts.is_sorted() {
                return Err(format!("counts of a producer are {counts:?}"));
            }
            let acknowledged = lane.lsns.partition_point(|lsn| *lsn <= durable as u64);
            if counts[0] > Handed::new(acknowledged as u64) {
                return Err(format!("{:?} acknowledged, {acknowledged} durable", counts[0]));
            }
        }
        Ok(())
    }

    fn end(&mut self, ending: Ending) {
        self.life = None;
        self.count_rolls();
        self.disk = self.left_by(ending);
    }

    fn left_by(&self, ending: Ending) -> SimDisk {
        match ending {
            // With the power all went, not the process alone.
            Ending::Killed if self.disk.is_off() => self.disk.crash(self.history.seed),
            Ending::Killed => self.disk.restart(),
            Ending::PowerCut(survival) => self.disk.crash_with(survival),
        }
    }

    /// Each start makes a segment, and one is ahead.
    fn count_rolls(&mut self) {
        let newest = self.newest_segment();
        self.report.rolls = self.report.rolls.max(newest.saturating_sub(self.starts + 1));
    }

    fn start(&mut self, start: &Start) -> Result<(), String> {
        for cut in &start.cut_off {
            let (ending, fault) = match *cut {
                Cut::Power { nth, survival } => {
                    self.disk.cut_power(nth);
                    (Ending::PowerCut(survival), false)
                }
                Cut::Fault { op, nth, ending } => {
                    self.disk.fail(op, nth, Fault::FailWritten(ErrorKind::Other));
                    (ending, true)
                }
            };
            match self.try_open(start) {
                Ok(_) => {}
                Err(OpenError::Disk { .. }) if fault || self.disk.is_off() => {}
                Err(error) => return Err(format!("a start that fails: {error}")),
            }
            self.starts += 1;
            self.disk = self.left_by(ending);
        }
        self.open(start)
    }

    fn try_open(&self, start: &Start) -> Result<(Log<SimDisk>, Recovery), OpenError> {
        let options = options(self.history, start.seed);
        Log::open(self.disk.clone(), options, 0, &mut |_| Ok(()))
    }

    fn open(&mut self, start: &Start) -> Result<(), String> {
        let expected = &self.expected;
        let visit_from = part(expected.least(), start.visit_from);
        let mut options = options(self.history, start.seed);
        options.visit_from = Lsn::new(visit_from as u64 + 1);
        if start.by_image {
            let held = if self.history.follows { expected.committed } else { expected.durable };
            options.durable = Lsn::new(held as u64);
        }
        let mut visited = expected.visit(visit_from);
        let opened = Log::open(self.disk.clone(), options, 0, &mut |record| {
            visited.take(&record);
            Ok(())
        });
        let (log, recovery) = opened.map_err(|error| format!("a start: {error}"))?;
        let end = usize::try_from(recovery.last_lsn.get()).unwrap();
        visited.finish(end, expected.durable)?;
        if log.durable() != recovery.last_lsn {
            return Err(format!("a start found {end}, but {} is durable", log.durable()));
        }
        self.expected.settle(end, log.facts().durable_group);
        self.starts += 1;
        if self.history.follows {
            log.commit(Lsn::new(self.expected.committed as u64));
        }
        let (lanes, tail) = lanes(&log)?;
        if start.held {
            self.disk.hold();
        }
        self.life = Some(Life { log, lanes, tail, now: 1000 });
        Ok(())
    }
}

/// The producers of a life or a term, and the tail that is read.
fn lanes(log: &Log<SimDisk>) -> Result<(Vec<Lane>, TailCursor), String> {
    let mut lanes = Vec::new();
    for _ in 0..LANES {
        let producer = log.producer(Arc::new(Nobody), None).map_err(|error| error.to_string())?;
        lanes.push(Lane { producer: Some(producer), staged: Vec::new(), lsns: Vec::new() });
    }
    let Some(first) = &lanes[0].producer else { unreachable!("it was just made") };
    let tail = first.tail();
    Ok((lanes, tail))
}

impl Start {
    /// The one that makes the log.
    pub fn first(seed: u64) -> Self {
        let held = !Random::about(seed, 2).one_in(4);
        Self { seed, visit_from: 0, by_image: false, held, cut_off: Vec::new() }
    }
}

/// So many 1024ths of `whole`.
pub fn part(whole: usize, of_1024: u64) -> usize {
    whole * usize::try_from(of_1024).unwrap() / 1024
}

/// Sizes at which groups are short and segments roll soon.
pub fn options(history: &History, seed: u64) -> Options {
    let constant = history.salts == Salts::Constant;
    let mut random = Random::about(seed, 3);
    let entropy: Entropy = Box::new(move || {
        let salt = u128::from(random.number()) << 64 | u128::from(random.number());
        if constant { KNOWN_SALT } else { salt.to_le_bytes() }
    });
    let commits = if history.follows { Commits::ByCaller } else { Commits::WithDurable };
    Options {
        commits,
        segment_size: history.segment_size,
        group_size: 32 * 1024,
        chunk_size: 4096,
        part_size: 8192,
        ring_chunks: 16,
        ..Options::new(entropy)
    }
}

/// A block that passes for the front of a group of this segment, far ahead in the log.
fn forged_group(segment: u64, seed: u64) -> [u8; 4096] {
    let mut block = [0; 4096];
    let mut put = |at: usize, field: &[u8]| block[at..at + field.len()].copy_from_slice(field);
    put(0, b"ZQGR");
    put(12, &4096_u32.to_le_bytes());
    put(16, &KNOWN_SALT);
    put(32, &segment.to_le_bytes());
    put(40, &(1_000_000 + seed % 1000).to_le_bytes());
    put(56, &1_000_000_u64.to_le_bytes());
    put(72, &999_999_u64.to_le_bytes());
    let body = zzq_wal::format::checksum(&block[128..]);
    block[8..12].copy_from_slice(&body.to_le_bytes());
    let header = zzq_wal::format::checksum(&block[8..128]);
    block[4..8].copy_from_slice(&header.to_le_bytes());
    assert!(zzq_wal::format::group::GroupHeader::decode(&block).is_some(), "it passes for one");
    block
}
