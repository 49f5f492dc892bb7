//! The log under load: two threads with a producer each play all writers, as two lanes do.
//!
//! Owns: the turns of a lane, through the log's public interface alone, and trimming, so that
//! segments come round again as they do in a broker that takes snapshots.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use hdrhistogram::Histogram;
use zzq_wal::io::{Backend, FileDisk};
use zzq_wal::{Handed, HelperThread, Log, Options, Writer};

use crate::outstanding::{Outcome, Outstanding, cpu_time};

/// Everything below what is durable is given up each time so many records have become durable.
const TRIM_EVERY: u64 = 1 << 16;
const LANES: u64 = 2;
const KIND: u8 = 1;

pub(crate) struct Writers {
    lanes: Vec<Lane>,
    log: Log<FileDisk>,
    _helper: HelperThread,
}

/// One thread's place at the log.
struct Lane {
    writer: Writer<FileDisk>,
    durable: u64,
}

/// What the lanes of one run share.
struct Run<'a> {
    log: &'a Log<FileDisk>,
    body: &'a [u8],
    until: Instant,
    trimmed: AtomicU64,
}

impl Writers {
    pub(crate) fn open(directory: &Path, backend: Backend) -> Result<Self> {
        let disk = FileDisk::open(directory, backend)?;
        let (log, _) = Log::open(disk, Options::from_os()?, 0, &mut |_| Ok(()))?;
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
        Ok(Self { writer: Writer::new(log)?, durable: 0 })
    }

    fn run(&mut self, run: &Run<'_>, writers: u64) -> Result<Outstanding> {
        let mut outstanding = Outstanding::new()?;
        let mut free = writers;
        loop {
            let now = Instant::now();
            if free > 0 && now < run.until {
                for _ in 0..free {
                    self.writer.stage(KIND, |out| out.extend_from_slice(run.body))?;
                }
                outstanding.begin(now, free);
            }
            if outstanding.is_empty() {
                break;
            }
            free = self.wait()?;
            outstanding.end(free)?;
            run.trim();
        }
        self.writer.leave();
        Ok(outstanding)
    }

    /// Waits until more of its records are durable; returns how many more.
    fn wait(&mut self) -> Result<u64> {
        let durable = self.writer.wait(Handed::new(self.durable + 1))?.get();
        let more = durable - self.durable;
        self.durable = durable;
        Ok(more)
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
