//! A process that uses a log as lanes do, tells what it was promised, and may be killed.
//!
//! Owns: what is done to the log. Does not know: that its disk is watched.

mod careless;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use zzq_wal::disk::Disk;
use zzq_wal::io::{Backend, FileDisk, event};
use zzq_wal::{
    Log, Lsn, Options, Producer, RecoveredRecord, StageError, Staging, TailCursor, Wake,
};

use self::careless::Careless;
use crate::body::Body;
use crate::notes::Note;
use zzq_wal::sim_disk::Random;

/// One life of the workload.
#[derive(Clone, Debug, clap::Args)]
pub struct Life {
    /// What it does follows from this and the number.
    #[arg(long)]
    pub seed: u64,
    /// Which life it is, from 1.
    #[arg(long)]
    pub life: u64,
    /// So many turns.
    #[arg(long)]
    pub turns: u64,
    /// How writes reach the device.
    #[arg(long, default_value_t)]
    pub backend: Backend,
    /// Ends by SIGKILL in the middle of things, instead of a clean stop.
    #[arg(long)]
    pub dies: bool,
    /// Tells the log that bytes are durable without asking the disk.
    #[arg(long)]
    pub drop_syncs: bool,
}

/// How many producers there are.
const LANES: u64 = 2;

/// A log that says nothing for so long has stopped.
const PATIENCE: Duration = Duration::from_mins(1);

/// Sizes at which segments roll soon and bodies are often split.
pub fn options() -> Result<Options> {
    options_with(128 * 1024)
}

/// The same where nothing may be synced: a new segment is, with all that the device holds, so none
/// is to follow the first ones.
fn careless_options() -> Result<Options> {
    options_with(2 * 1024 * 1024)
}

fn options_with(segment_size: u64) -> Result<Options> {
    Ok(Options {
        segment_size,
        group_size: 32 * 1024,
        chunk_size: 4096,
        part_size: 8192,
        ring_chunks: 16,
        ..Options::from_os()?
    })
}

/// Lives in this directory; says what happens through `voice`.
pub fn live(directory: &Path, life: &Life, voice: File) -> Result<()> {
    let disk = FileDisk::open(directory, life.backend)?;
    if life.drop_syncs {
        run(Careless(disk), careless_options()?, life, voice)
    } else {
        run(disk, options()?, life, voice)
    }
}

/// The owner of a record that recovery shows.
pub fn owner(record: &RecoveredRecord<'_>) -> Result<Body> {
    Body::decode(record.body)
        .with_context(|| format!("record {} is not what was staged", record.lsn))
}

struct Worker<D: Disk> {
    log: Log<D>,
    lanes: Vec<Lane<D>>,
    tail: TailCursor,
    event: Arc<OwnedFd>,
    random: Random,
    life: Life,
    voice: File,
    told: u64,
    began: Instant,
}

struct Lane<D: Disk> {
    producer: Producer<D>,
    /// Its records of earlier lives.
    before: u64,
    told: u64,
}

/// Makes the worker's event readable.
struct Waker(Arc<OwnedFd>);

impl Wake for Waker {
    fn wake(&self) {
        // A full counter is readable as it is.
        let _ = rustix::io::write(&*self.0, &1_u64.to_ne_bytes());
    }
}

fn run<D: Disk>(disk: D, options: Options, life: &Life, mut voice: File) -> Result<()> {
    let mut numbers = BTreeMap::new();
    let (log, recovery) = Log::open(disk, options, 0, &mut |record| {
        let body = owner(&record)?;
        numbers.insert(body.lane, body.number);
        Ok(())
    })?;
    writeln!(voice, "{}", Note::Started { last: recovery.last_lsn.get() })?;
    let helper = log.spawn_helper()?;
    let event = event::create()?;
    let lane = |lane: u64| {
        let waker = Arc::new(Waker(Arc::clone(&event)));
        let producer = log.producer(waker, Some(Arc::clone(&event)))?;
        let before = numbers.get(&lane).copied().unwrap_or_default();
        anyhow::Ok(Lane { producer, before, told: 0 })
    };
    let lanes = (0..LANES).map(lane).collect::<Result<Vec<_>>>()?;
    let mut worker = Worker {
        tail: lanes[0].producer.tail(),
        log: log.clone(),
        lanes,
        event,
        random: Random::new(life.seed ^ life.life << 32),
        life: life.clone(),
        voice,
        told: recovery.last_lsn.get(),
        began: Instant::now(),
    };
    worker.work()?;
    worker.log.mark_durable()?;
    drop((worker, helper));
    Ok(())
}

impl<D: Disk> Worker<D> {
    fn work(&mut self) -> Result<()> {
        let death = self.life.turns / 2 + self.random.below(self.life.turns.div_ceil(2));
        for turn in 0..self.life.turns {
            for _ in 0..=self.random.below(3) {
                self.stage()?;
            }
            self.drive()?;
            if self.life.dies && turn == death {
                rustix::process::kill_process(
                    rustix::process::getpid(),
                    rustix::process::Signal::KILL,
                )?;
            }
            match self.random.below(12) {
                0..5 => self.wait()?,
                5 => self.change_term()?,
                6 => self.trim()?,
                7 => self.log.mark_durable()?,
                _ => {}
            }
        }
        self.wait()
    }

    fn stage(&mut self) -> Result<()> {
        let at = self.random.index(self.lanes.len());
        let len = match self.random.below(12) {
            0 => 9000 + self.random.index(12_000),
            1..4 => 3500 + self.random.index(1000),
            _ => self.random.index(1500),
        };
        let staging = Staging { kind: 1, waits: !self.random.one_in(5), lanes: 3, reserved: false };
        loop {
            let lane = &mut self.lanes[at];
            let number = lane.before + lane.producer.handed().get() + 1;
            let body = Body { life: self.life.life, lane: at as u64, number };
            let bytes = body.encode(len);
            match lane.producer.stage(&staging, |out| out.extend_from_slice(&bytes)) {
                Ok(_) => return Ok(()),
                Err(StageError::Full) => {
                    let again_at = self.drive()?;
                    // Who has made room by its own call is not woken for it.
                    if !self.lanes[at].producer.has_room(false) {
                        self.sleep(again_at)?;
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// A turn's end: the log goes on, and what it says is passed on. Returns when it wants to be
    /// called again, at the latest.
    fn drive(&mut self) -> Result<Option<u64>> {
        let now = self.now();
        let mut again_at = None;
        for lane in &mut self.lanes {
            let wanted = lane.producer.drive(now).again_at;
            again_at = again_at.into_iter().chain(wanted).min();
        }
        let durable = self.log.durable().get();
        let counts: Vec<u64> =
            self.lanes.iter().map(|lane| lane.producer.durable().get()).collect();
        let mut notes = Vec::new();
        while let Some(group) = self.tail.next_group() {
            for record in group.records() {
                let body = Body::decode(record.body).context("the tail shows another record")?;
                notes.push(Note::Appended { lsn: record.lsn.get(), body });
            }
        }
        if durable > self.told {
            notes.push(Note::Durable { lsn: durable });
            self.told = durable;
        }
        for ((lane, number), count) in self.lanes.iter_mut().zip(0..).zip(counts) {
            if count > lane.told {
                notes.push(Note::Acknowledged { lane: number, number: lane.before + count });
                lane.told = count;
            }
        }
        notes.iter().try_for_each(|note| self.tell(note))?;
        Ok(again_at)
    }

    /// Until something has happened, or this time has come.
    fn sleep(&mut self, again_at: Option<u64>) -> Result<()> {
        let patience =
            again_at.map_or(PATIENCE, |at| Duration::from_millis(at.saturating_sub(self.now())));
        let woken = event::wait(&self.event, patience)?;
        ensure!(woken || again_at.is_some(), "the log is silent: {:?}", self.log);
        event::drain(&self.event);
        Ok(())
    }

    /// Until all that was staged is durable.
    fn wait(&mut self) -> Result<()> {
        loop {
            let again_at = self.drive()?;
            let is_open = |lane: &Lane<D>| {
                let handed = lane.producer.handed();
                lane.producer.durable() < handed && !lane.producer.wants(handed)
            };
            if !self.lanes.iter().any(is_open) {
                self.drive()?;
                return Ok(());
            }
            ensure!(!self.log.is_read_only(), "{:?}", self.log);
            self.sleep(again_at)?;
        }
    }

    fn tell(&mut self, note: &Note) -> Result<()> {
        Ok(self.voice.write_all(format!("{note}\n").as_bytes())?)
    }

    fn change_term(&mut self) -> Result<()> {
        let term = self.log.facts().term + 1;
        self.tell(&Note::TermBegun { term })?;
        self.log.update_facts(|facts| facts.term = term)?;
        self.tell(&Note::Term { term })
    }

    /// Keeps a few dozen records.
    fn trim(&mut self) -> Result<()> {
        let below = self.told.saturating_sub(self.random.below(60)).max(1);
        self.tell(&Note::Trimming { below })?;
        self.log.trim(Lsn::new(below));
        Ok(())
    }
}
