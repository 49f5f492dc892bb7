//! How long the writes of groups take: from submission until whoever leads finds that they are
//! durable.
//!
//! Owns: their sums. Does not know: clocks; times come from the disk.

use std::sync::atomic::{AtomicU64, Ordering};

/// How long writes have taken. On a disk without a clock it is no time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteTimes {
    /// Writes that have become durable since the log was opened.
    pub writes: u64,
    /// Microseconds that these took together.
    pub total_us: u64,
    /// The longest since it was asked for last.
    pub longest_us: u64,
}

/// Written by whoever leads, read by whoever asks.
#[derive(Debug, Default)]
pub(crate) struct Stopwatch {
    writes: AtomicU64,
    total_us: AtomicU64,
    longest_us: AtomicU64,
}

impl Stopwatch {
    /// A write that was submitted at one time is durable at another.
    pub(crate) fn note(&self, submitted_us: u64, now_us: u64) {
        let took_us = now_us.saturating_sub(submitted_us);
        self.writes.fetch_add(1, Ordering::Relaxed);
        self.total_us.fetch_add(took_us, Ordering::Relaxed);
        self.longest_us.fetch_max(took_us, Ordering::Relaxed);
    }

    /// What it was so far; the longest begins anew.
    pub(crate) fn take(&self) -> WriteTimes {
        WriteTimes {
            writes: self.writes.load(Ordering::Relaxed),
            total_us: self.total_us.load(Ordering::Relaxed),
            longest_us: self.longest_us.swap(0, Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_go_on_and_the_longest_begins_anew() {
        let watch = Stopwatch::default();
        watch.note(5, 105);
        watch.note(10, 60);
        assert_eq!(watch.take(), WriteTimes { writes: 2, total_us: 150, longest_us: 100 });
        // A clock that went back is no time.
        watch.note(100, 30);
        assert_eq!(watch.take(), WriteTimes { writes: 3, total_us: 150, longest_us: 0 });
    }
}
