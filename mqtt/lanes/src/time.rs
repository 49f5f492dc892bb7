//! Monotonic time as the lanes pass it around: milliseconds since an arbitrary start.
//!
//! Assumes: the driver reads the clock, once a turn; nothing else here does.
use std::{ops::Add, time::Duration};

/// A point on the monotonic clock, in milliseconds. Points of different clocks do not compare.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Millis(pub u64);

impl Millis {
    /// Later than any deadline.
    pub const NEVER: Self = Self(u64::MAX);

    /// How long ago `earlier` was; zero if it lies ahead.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Millis {
    type Output = Self;

    /// Rounds up, so that a deadline is never early; stops at [`Millis::NEVER`].
    fn add(self, wait: Duration) -> Self {
        let millis = wait.as_nanos().div_ceil(1_000_000);
        Self(self.0.saturating_add(u64::try_from(millis).unwrap_or(u64::MAX)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_is_never_early() {
        assert_eq!(Millis(5) + Duration::from_micros(1), Millis(6));
        assert_eq!(Millis(5) + Duration::from_millis(2), Millis(7));
        assert_eq!(Millis(5) + Duration::MAX, Millis::NEVER);
        assert_eq!(Millis(5).since(Millis(9)), Duration::ZERO);
    }
}
