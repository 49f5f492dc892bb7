//! Nanoseconds since the start of a run, the same in all threads.

use std::time::{Duration, Instant};

/// The clock of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock(Instant);

impl Clock {
    pub(super) fn start() -> Self {
        Self(Instant::now())
    }

    pub(super) fn now(self) -> u64 {
        nanos(self.0.elapsed())
    }
}

/// A span in nanoseconds; what does not fit lasts for ever.
pub(super) fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}
