//! Writers that each have one record outstanding: the next one is written when the last is
//! durable.
//!
//! Owns: the loop, latencies, CPU time. Does not know: what makes a record durable.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use anyhow::Result;
use hdrhistogram::Histogram;
use rustix::time::{ClockId, clock_gettime};

/// What takes records in order and makes them durable.
pub(crate) trait Subject {
    /// Takes one record.
    fn stage(&mut self, body: &[u8]) -> Result<()>;

    /// Waits until more records are durable; returns how many more.
    fn wait(&mut self) -> Result<u64>;
}

/// What came of one run.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) records: u64,
    pub(crate) elapsed: Duration,
    /// CPU time of the whole process.
    pub(crate) cpu: Duration,
    /// From before staging to after durable, in nanoseconds.
    pub(crate) latency: Histogram<u64>,
}

/// Runs `writers` writers of `body` for `length`, and until all they wrote is durable.
pub(crate) fn run(
    subject: &mut impl Subject,
    writers: u64,
    body: &[u8],
    length: Duration,
) -> Result<Outcome> {
    let mut latency = Histogram::new(3)?;
    let mut outstanding = VecDeque::new();
    let (start, cpu) = (Instant::now(), cpu_time());
    let mut records = 0;
    let mut free = writers;
    loop {
        let now = Instant::now();
        if free > 0 && now - start < length {
            for _ in 0..free {
                subject.stage(body)?;
            }
            outstanding.push_back((now, free));
        }
        if outstanding.is_empty() {
            break;
        }
        free = subject.wait()?;
        records += free;
        retire(&mut outstanding, free, &mut latency)?;
    }
    Ok(Outcome { records, elapsed: start.elapsed(), cpu: cpu_time().saturating_sub(cpu), latency })
}

/// Takes `count` records off the front, and notes how long each was outstanding.
fn retire(
    outstanding: &mut VecDeque<(Instant, u64)>,
    mut count: u64,
    latency: &mut Histogram<u64>,
) -> Result<()> {
    let now = Instant::now();
    while let Some((staged, left)) = outstanding.front_mut()
        && count > 0
    {
        let taken = count.min(*left);
        latency.record_n(u64::try_from((now - *staged).as_nanos())?, taken)?;
        count -= taken;
        *left -= taken;
        if *left == 0 {
            outstanding.pop_front();
        }
    }
    assert_eq!(count, 0, "no more becomes durable than was staged");
    Ok(())
}

fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let (seconds, nanos) = (time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs());
    Duration::from_secs(seconds) + Duration::from_nanos(nanos)
}
