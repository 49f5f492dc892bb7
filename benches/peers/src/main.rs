//! The published crate `zzq-disk` in the cells of `wal_bound`.
//!
//! Owns: one process with the peer in it, so that its threads and memory are its own. It is told
//! a directory on the command line and a cell on each line of its input, as JSON, and answers
//! each with a line of figures. Two threads with a journal each play the writers: the peer's
//! place for two lanes is a journal for each. Used as its public documentation says.

#![forbid(unsafe_code)]

use std::collections::VecDeque;
use std::io::{Write, stdin, stdout};
use std::path::Path;
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use hdrhistogram::Histogram;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use zzq_disk::{Config, Disk, Journal};

const LANES: u64 = 2;
/// Segments are given back each time so many records have become durable.
const TRIM_EVERY: u64 = 1 << 16;

#[derive(Debug, Deserialize)]
struct Cell {
    writers: u64,
    payload: usize,
    milliseconds: u64,
}

#[derive(Debug, Serialize)]
struct Figures {
    records: u64,
    seconds: f64,
    p50_us: f64,
    p99_us: f64,
    cpu_seconds: f64,
}

fn main() -> Result<()> {
    let directory = std::env::args_os().nth(1).context("usage: peer_disk DIRECTORY")?;
    let disk = Disk::new(Config::default())?;
    let mut lanes = Vec::new();
    for nth in 0..LANES {
        let path = Path::new(&directory).join(format!("lane-{nth}"));
        let journal = disk.open(path, |_| Ok(()))?;
        lanes.push(Lane { journal, durable: 0, trimmed: 0 });
    }
    for line in stdin().lines() {
        let cell = serde_json::from_str(&line?)?;
        let figures = serde_json::to_string(&run(&mut lanes, &cell)?)?;
        writeln!(stdout().lock(), "{figures}")?;
    }
    Ok(())
}

fn run(lanes: &mut [Lane], cell: &Cell) -> Result<Figures> {
    let body = vec![0x5a; cell.payload];
    let (start, cpu) = (Instant::now(), cpu_time());
    let until = start + Duration::from_millis(cell.milliseconds);
    let parts: Vec<Result<(u64, Histogram<u64>)>> = thread::scope(|scope| {
        let threads: Vec<_> = (0..)
            .zip(lanes)
            .map(|(nth, lane)| {
                let (writers, body) = ((cell.writers + nth) / LANES, &body);
                scope.spawn(move || lane.run(writers, body, until))
            })
            .collect();
        let joined = threads.into_iter().map(ScopedJoinHandle::join);
        joined.map(|part| part.unwrap_or_else(|_| bail!("a lane panicked"))).collect()
    });
    let (elapsed, cpu) = (start.elapsed(), cpu_time().saturating_sub(cpu));
    let (mut records, mut latency) = (0, Histogram::new(3)?);
    for part in parts {
        let (count, of_lane) = part?;
        records += count;
        latency.add(of_lane)?;
    }
    let micros = |quantile| latency.value_at_quantile(quantile) as f64 / 1e3;
    Ok(Figures {
        records,
        seconds: elapsed.as_secs_f64(),
        p50_us: micros(0.5),
        p99_us: micros(0.99),
        cpu_seconds: cpu.as_secs_f64(),
    })
}

struct Lane {
    journal: Journal,
    durable: u64,
    trimmed: u64,
}

impl Lane {
    /// Keeps `writers` records in flight until then, and waits for the last.
    fn run(&mut self, writers: u64, body: &[u8], until: Instant) -> Result<(u64, Histogram<u64>)> {
        let (mut records, mut latency) = (0, Histogram::new(3)?);
        let mut batches: VecDeque<(Instant, u64)> = VecDeque::new();
        self.durable = self.journal.durable();
        let mut free = writers;
        loop {
            let now = Instant::now();
            if free > 0 && now < until {
                for _ in 0..free {
                    self.journal.append(1, &[body])?;
                }
                self.journal.flush()?;
                batches.push_back((now, free));
            }
            if batches.is_empty() {
                return Ok((records, latency));
            }
            free = self.wait()?;
            records += free;
            retire(&mut batches, free, &mut latency)?;
            self.trim()?;
        }
    }

    /// Waits until more records are durable; returns how many more.
    fn wait(&mut self) -> Result<u64> {
        loop {
            let durable = self.journal.wait()?;
            if durable > self.durable {
                let more = durable - self.durable;
                self.durable = durable;
                return Ok(more);
            }
        }
    }

    /// Gives segments back, so that they come round again.
    fn trim(&mut self) -> Result<()> {
        if self.durable >= self.trimmed + TRIM_EVERY {
            self.trimmed = self.durable;
            if let Some(segment) = self.journal.roll()? {
                self.journal.trim(segment)?;
            }
        }
        Ok(())
    }
}

/// Takes `count` records off the front, and notes how long each was in flight.
fn retire(
    batches: &mut VecDeque<(Instant, u64)>,
    mut count: u64,
    latency: &mut Histogram<u64>,
) -> Result<()> {
    let now = Instant::now();
    while let Some((since, left)) = batches.front_mut()
        && count > 0
    {
        let taken = count.min(*left);
        latency.record_n(u64::try_from((now - *since).as_nanos())?, taken)?;
        count -= taken;
        *left -= taken;
        if *left == 0 {
            batches.pop_front();
        }
    }
    Ok(())
}

fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let (seconds, nanos) = (time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs());
    Duration::from_secs(seconds) + Duration::from_nanos(nanos)
}
