//! What all lanes of a broker share: its options, its counters, the values of `$SYS` topics.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use zzq_lanes::LaneIndex;
use zzq_types::Lsn;

use crate::metrics::{ImageMetrics, LaneMetrics};
use crate::options::BrokerOptions;

/// Shared by all lanes of one broker.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) options: BrokerOptions,
    /// One for each lane.
    pub(crate) metrics: Vec<LaneMetrics>,
    pub(crate) images: ImageMetrics,
    pub(crate) started: Instant,
    /// Of each lane: what it has decided from a state before this record is committed.
    settled: Vec<AtomicU64>,
    /// The present values, for new subscriptions. Not on the path of messages.
    sys: Mutex<Vec<(String, String)>>,
}

/// Bytes of messages that all lanes together keep in memory beside their log.
const STORE_BYTES: usize = 64 << 20;

/// Bytes of publishes that all lanes together hold for full queues.
const HELD_BYTES: usize = 64 << 20;

impl Shared {
    /// For a broker with so many lanes.
    pub(crate) fn new(options: BrokerOptions, lanes: u16) -> Self {
        assert!((1..=64).contains(&lanes), "{lanes} lanes");
        Self {
            options,
            metrics: (0..lanes).map(|_| LaneMetrics::default()).collect(),
            images: ImageMetrics::default(),
            started: Instant::now(),
            settled: (0..lanes).map(|_| AtomicU64::new(0)).collect(),
            sys: Mutex::default(),
        }
    }

    pub(crate) fn lanes(&self) -> u16 {
        u16::try_from(self.metrics.len()).unwrap_or(u16::MAX)
    }

    /// What one lane may keep.
    pub(crate) fn store_bytes(&self) -> usize {
        STORE_BYTES / self.metrics.len()
    }

    /// What one lane may hold for full queues.
    pub(crate) fn held_bytes(&self) -> usize {
        HELD_BYTES / self.metrics.len()
    }

    /// A lane has nothing under way that it decided from a state before `lsn`.
    pub(crate) fn settle(&self, lane: LaneIndex, lsn: Lsn) {
        self.settled[lane.index()].store(lsn.get(), Ordering::Release);
    }

    /// No lane has.
    pub(crate) fn settled(&self) -> Lsn {
        let lanes = self.settled.iter().map(|settled| settled.load(Ordering::Acquire));
        Lsn::new(lanes.min().unwrap_or(0))
    }

    pub(crate) fn set_sys(&self, values: Vec<(String, String)>) {
        *self.sys.lock().unwrap_or_else(PoisonError::into_inner) = values;
    }

    pub(crate) fn sys(&self) -> Vec<(String, String)> {
        self.sys.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
