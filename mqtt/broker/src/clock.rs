//! The clocks of the machine, read once a turn by each lane.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Two readings of one moment, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// Since an arbitrary start; never goes back.
    pub boot_ms: u64,
    /// Since the Unix epoch; may be set.
    pub wall_ms: u64,
}

/// Where a lane reads the time. The simulator has its own.
pub trait Clock: Send {
    /// Both clocks, now.
    fn read(&mut self) -> Reading;
}

/// The clocks of the operating system.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock(Instant);

impl SystemClock {
    /// Starts boot time now.
    pub fn new() -> Self {
        Self(Instant::now())
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn read(&mut self) -> Reading {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let millis =
            |span: std::time::Duration| u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
        Reading { boot_ms: millis(self.0.elapsed()), wall_ms: millis(wall) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boot_time_never_goes_back_and_the_wall_is_after_2024() {
        let mut clock = SystemClock::new();
        let (first, second) = (clock.read(), clock.read());
        assert!(first.boot_ms <= second.boot_ms);
        assert!(first.wall_ms > 1_704_067_200_000);
    }
}
