//! The clocks of the simulated machine: true time, which only the simulator knows, and what the
//! broker reads.
//!
//! Owns: drift and steps of the wall clock, a boot clock that begins anew with the machine.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use zzq_broker::clock::{Clock, Reading};

/// When the wall clock begins.
pub const WALL_MS: u64 = 1_700_000_000_000;

/// True time and the clocks that follow it. Clones are the same clocks.
#[derive(Clone, Debug, Default)]
pub struct SimClock(Arc<Times>);

#[derive(Debug, Default)]
struct Times {
    now_ms: AtomicU64,
    booted_ms: AtomicU64,
    /// By how much somebody has set the wall clock.
    set_ms: AtomicI64,
    /// Parts in a million by which the wall clock is fast.
    drift: AtomicI64,
}

impl SimClock {
    /// True time, in ms since the simulation began.
    pub fn now(&self) -> u64 {
        self.0.now_ms.load(Ordering::Relaxed)
    }

    /// True time goes on.
    ///
    /// # Panics
    /// It would go back.
    pub fn advance_to(&self, now_ms: u64) {
        assert!(now_ms >= self.now(), "time goes on");
        self.0.now_ms.store(now_ms, Ordering::Relaxed);
    }

    /// The machine starts: its boot clock is at 0.
    pub fn boot(&self) {
        self.0.booted_ms.store(self.now(), Ordering::Relaxed);
    }

    /// Somebody sets the wall clock.
    pub fn set_wall(&self, by_ms: i64) {
        self.0.set_ms.fetch_add(by_ms, Ordering::Relaxed);
    }

    /// The wall clock is fast by so many parts in a million.
    pub fn set_drift(&self, drift: i64) {
        self.0.drift.store(drift, Ordering::Relaxed);
    }

    /// What the broker reads now.
    pub fn reading(&self) -> Reading {
        let now = self.now();
        let span = i64::try_from(now).unwrap_or(i64::MAX);
        let drifted = span.saturating_mul(self.0.drift.load(Ordering::Relaxed)) / 1_000_000;
        let set = self.0.set_ms.load(Ordering::Relaxed).saturating_add(drifted);
        Reading {
            boot_ms: now - self.0.booted_ms.load(Ordering::Relaxed),
            wall_ms: (WALL_MS + now).saturating_add_signed(set),
        }
    }
}

impl Clock for SimClock {
    fn read(&mut self) -> Reading {
        self.reading()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wall_drifts_and_is_set_and_boot_time_only_begins_anew() {
        let clock = SimClock::default();
        clock.advance_to(1_000_000);
        clock.set_drift(500);
        clock.set_wall(-10_000);
        let wall_ms = WALL_MS + 1_000_000 + 500 - 10_000;
        assert_eq!(clock.reading(), Reading { boot_ms: 1_000_000, wall_ms });
        clock.boot();
        assert_eq!(clock.reading(), Reading { boot_ms: 0, wall_ms });
    }
}
