//! The log under load: two threads with a producer each play all writers, as two lanes do.
//!
//! Owns: the turns of a lane, through the log's public interface alone, and trimming, so that
//! segments come round again as they do in a broker that takes snapshots.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use hdrhistogram::Histogram;
use rustix::time::{ClockId, clock_gettime};
use zzq_wal::io::{Backend, FileDisk, event};
use zzq_wal::{Handed, HelperThread, Log, Options, Producer, Staging, Wake};

use crate::outstanding::{Outcome, Outstanding, cpu_time};

/// Everything below what is durable is given up each time so many records have become durable.
const TRIM_EVERY: u64 = 1 << 16;
const LANES: u64 = 2;
const STAGING: Staging = Staging { kind: 1, waits: true, lanes: 0, reserved: false };

pub(crate) struct Writers {
    lanes: Vec<Lane>,
    log: Log<FileDisk>,
    _helper: HelperThread,
}

/// One thread's place at the log.
struct Lane {
    producer: Producer<FileDisk>,
    event: Arc<OwnedFd>,
    durable: u64,
}

/// What the lanes of one run share.
struct Run<'a> {
    log: &'a Log<FileDisk>,
    body: &'a [u8],
    until: Instant,
    /// Lanes with records in flight. One that has no more goes on serving the log for them: it may
    /// be the one that a completion is told to.
    busy: AtomicU64,
    events: Vec<Arc<OwnedFd>>,
    trimmed: AtomicU64,
}

struct Waker(Arc<OwnedFd>);

impl Wake for Waker {
    fn wake(&self) {
        signal(&self.0);
    }
}

impl Writers {
    pub(crate) fn open(directory: &Path, backend: Backend) -> Result<Self> {
        let disk = FileDisk::open(directory, backend)?;
        let (log, _) = Log::open(disk, Options::from_os()?, now_ms(), &mut |_| Ok(()))?;
        let helper = log.spawn_helper()?;
        let lanes = (0..LANES).map(|_| Lane::new(&log)).collect::<Result<_>>()?;
        Ok(Self { lanes, log, _helper: helper })
    }

    /// How writes reach the disk, and why so.
    pub(crate) fn choice(&self) -> String {
        self.log.disk().choice().to_owned()
    }

    /// Keeps `writers` records of `body` in flight for `length`, shared out between the lanes,
    /// and waits for the last.
    pub(crate) fn run(&mut self, writers: u64, body: &[u8], length: Duration) -> Result<Outcome> {
        let (start, cpu) = (Instant::now(), cpu_time());
        let run = Run {
            log: &self.log,
            body,
            until: start + length,
            busy: AtomicU64::new(LANES),
            events: self.lanes.iter().map(|lane| Arc::clone(&lane.event)).collect(),
            trimmed: AtomicU64::new(self.log.durable().get()),
        };
        let parts: Vec<Result<Outstanding>> = thread::scope(|scope| {
            let threads: Vec<_> = (0..)
                .zip(&mut self.lanes)
                .map(|(nth, lane)| {
                    let run = &run;
                    let writers = (writers + nth) / LANES;
                    let named = thread::Builder::new().name(format!("lane-{nth}"));
                    named.spawn_scoped(scope, move || lane.run(run, writers))
                })
                .collect();
            let joined = threads.into_iter().map(|thread| thread.map(ScopedJoinHandle::join));
            joined.map(|part| part?.unwrap_or_else(|_| bail!("a lane panicked"))).collect()
        });
        let (elapsed, cpu) = (start.elapsed(), cpu_time().saturating_sub(cpu));
        let mut outcome = Outcome { records: 0, elapsed, cpu, latency: Histogram::new(3)? };
        for part in parts {
            let (records, latency) = part?.into_parts();
            outcome.records += records;
            outcome.latency.add(latency)?;
        }
        Ok(outcome)
    }
}

impl Lane {
    fn new(log: &Log<FileDisk>) -> Result<Self> {
        let event = event::create()?;
        let waker = Arc::new(Waker(Arc::clone(&event)));
        let producer = log.producer(waker, Some(Arc::clone(&event)))?;
        Ok(Self { producer, event, durable: 0 })
    }

    fn run(&mut self, run: &Run<'_>, writers: u64) -> Result<Outstanding> {
        let mut outstanding = Outstanding::new()?;
        let mut free = writers;
        loop {
            let now = Instant::now();
            if free > 0 && now < run.until {
                for _ in 0..free {
                    self.producer.stage(&STAGING, |out| out.extend_from_slice(run.body))?;
                }
                outstanding.begin(now, free);
            }
            if outstanding.is_empty() {
                break;
            }
            free = self.wait(run)?;
            outstanding.end(free)?;
            run.trim();
        }
        if run.busy.fetch_sub(1, Ordering::AcqRel) == 1 {
            run.events.iter().for_each(|event| signal(event));
        }
        while run.busy.load(Ordering::Acquire) > 0 {
            self.turn(run)?;
        }
        Ok(outstanding)
    }

    /// Turns until more of its records are durable; returns how many more.
    fn wait(&mut self, run: &Run<'_>) -> Result<u64> {
        loop {
            self.turn(run)?;
            let durable = self.producer.durable().get();
            if durable > self.durable {
                let more = durable - self.durable;
                self.durable = durable;
                return Ok(more);
            }
        }
    }

    /// Hands over what is staged, sleeps until there is something to see, and looks.
    fn turn(&mut self, run: &Run<'_>) -> Result<()> {
        let now = now_ms();
        let drive = self.producer.drive(now);
        let owed = self.durable < self.producer.handed().get();
        if owed && self.producer.wants(Handed::new(self.durable + 1)) {
            return Ok(());
        }
        let patience = drive.again_at.map_or(PATIENCE_MS, |at| at.saturating_sub(now));
        let woken = event::wait(&self.event, Duration::from_millis(patience))?;
        ensure!(woken || drive.again_at.is_some(), "the log is silent");
        ensure!(!run.log.is_read_only(), "{:?}", run.log.status());
        event::drain(&self.event);
        self.producer.reap(now_ms());
        Ok(())
    }
}

impl Run<'_> {
    fn trim(&self) {
        let durable = self.log.durable();
        let trimmed = self.trimmed.load(Ordering::Relaxed);
        if durable.get() >= trimmed + TRIM_EVERY {
            self.trimmed.store(durable.get(), Ordering::Relaxed);
            self.log.trim(durable);
        }
    }
}

fn signal(event: &OwnedFd) {
    // Fails only when the counter is full, and then it is readable already.
    let _ = rustix::io::write(event, &1_u64.to_ne_bytes());
}

/// Time that never goes back, as a lane reads it once a turn.
fn now_ms() -> u64 {
    let time = clock_gettime(ClockId::MonotonicCoarse);
    time.tv_sec.unsigned_abs() * 1000 + time.tv_nsec.unsigned_abs() / 1_000_000
}

/// A log that is silent for longer has lost a wake-up.
const PATIENCE_MS: u64 = 10_000;
