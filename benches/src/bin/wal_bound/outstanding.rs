//! Records in flight, and how long each was.
//!
//! Owns: latencies of one thread's records. Records become durable in the order in which they
//! were staged, so that a batch needs one clock reading when it begins and one when it ends.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use anyhow::Result;
use hdrhistogram::Histogram;
use rustix::time::{ClockId, clock_gettime};

/// What came of one run.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    pub(crate) records: u64,
    pub(crate) elapsed: Duration,
    /// CPU time of the whole process.
    pub(crate) cpu: Duration,
    /// From before staging to after durable, in nanoseconds.
    pub(crate) latency: Histogram<u64>,
}

#[derive(Debug)]
pub(crate) struct Outstanding {
    batches: VecDeque<(Instant, u64)>,
    latency: Histogram<u64>,
    records: u64,
}

impl Outstanding {
    pub(crate) fn new() -> Result<Self> {
        Ok(Self { batches: VecDeque::new(), latency: Histogram::new(3)?, records: 0 })
    }

    /// From now on `count` more are in flight, since `since`.
    pub(crate) fn begin(&mut self, since: Instant, count: u64) {
        self.batches.push_back((since, count));
    }

    /// The oldest `count` have become durable by now.
    pub(crate) fn end(&mut self, mut count: u64) -> Result<()> {
        let now = Instant::now();
        self.records += count;
        while let Some((since, left)) = self.batches.front_mut()
            && count > 0
        {
            let taken = count.min(*left);
            self.latency.record_n(u64::try_from((now - *since).as_nanos())?, taken)?;
            count -= taken;
            *left -= taken;
            if *left == 0 {
                self.batches.pop_front();
            }
        }
        assert_eq!(count, 0, "no more becomes durable than was staged");
        Ok(())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.batches.is_empty()
    }

    /// How many have become durable, and their latencies.
    pub(crate) fn into_parts(self) -> (u64, Histogram<u64>) {
        (self.records, self.latency)
    }
}

/// CPU time that this process has taken.
pub(crate) fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let (seconds, nanos) = (time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs());
    Duration::from_secs(seconds) + Duration::from_nanos(nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_end_first_across_batches() {
        let mut outstanding = Outstanding::new().unwrap();
        let start = Instant::now();
        outstanding.begin(start.checked_sub(Duration::from_secs(2)).unwrap(), 3);
        outstanding.begin(start, 2);
        outstanding.end(4).unwrap();
        assert!(!outstanding.is_empty());
        outstanding.end(1).unwrap();
        assert!(outstanding.is_empty());
        let (records, latency) = outstanding.into_parts();
        assert_eq!((records, latency.len()), (5, 5));
        assert!(latency.value_at_quantile(0.6) >= 2_000_000_000);
        assert!(latency.value_at_quantile(0.4) < 2_000_000_000);
    }

    #[test]
    #[should_panic(expected = "no more becomes durable than was staged")]
    fn what_was_never_staged_cannot_become_durable() {
        let mut outstanding = Outstanding::new().unwrap();
        outstanding.begin(Instant::now(), 1);
        let _ = outstanding.end(2);
    }
}
