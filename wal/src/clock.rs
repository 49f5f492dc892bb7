//! Log time: milliseconds since the Unix epoch that never go back.
//!
//! Owns: how log time follows boot time and is drawn towards the wall clock.
//! Does not know: any clock; both readings come in as arguments.

/// Follows boot time from the moment it is made, slewed towards the wall clock by at most one
/// part in ten: a wall clock that is set back, or jumps, bends log time and never breaks it.
#[derive(Clone, Debug)]
pub struct LogClock {
    log_ms: u64,
    boot_ms: u64,
    /// Tenths of a millisecond by which the wall may still draw; one for each ms passed.
    slack: u64,
}

/// What is left below a whole millisecond; more is not saved up while nothing is to be corrected.
const SLACK_MAX: u64 = 9;

impl LogClock {
    /// Starts at the wall clock, or at `last_ms`, the newest time in the log, if that is later.
    pub fn new(last_ms: u64, boot_ms: u64, wall_ms: u64) -> Self {
        Self { log_ms: last_ms.max(wall_ms), boot_ms, slack: 0 }
    }

    /// Log time at these readings. A boot clock that goes back counts as one that stands still.
    pub fn now(&mut self, boot_ms: u64, wall_ms: u64) -> u64 {
        let passed = boot_ms.saturating_sub(self.boot_ms);
        self.boot_ms = self.boot_ms.max(boot_ms);
        let target = self.log_ms.saturating_add(passed);
        self.slack = self.slack.saturating_add(passed);
        let most = self.slack / 10;
        let ahead = target > wall_ms;
        // Drawn back it stands still at worst: more than what has passed is never taken away.
        let most = if ahead { most.min(passed) } else { most };
        let drawn = target.abs_diff(wall_ms).min(most);
        self.slack = (self.slack - drawn * 10).min(SLACK_MAX);
        self.log_ms = if ahead { target - drawn } else { target.saturating_add(drawn) };
        self.log_ms
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn agrees_with_a_wall_clock_that_agrees_with_boot_time() {
        let mut clock = LogClock::new(0, 500, 1_000_000);
        for ms in 0..1000 {
            assert_eq!(clock.now(500 + ms, 1_000_000 + ms), 1_000_000 + ms);
        }
    }

    #[test]
    fn starts_where_the_log_ended_when_the_wall_was_set_back() {
        let mut clock = LogClock::new(2_000_000, 0, 1_000_000);
        assert_eq!(clock.now(0, 1_000_000), 2_000_000);
        assert_eq!(clock.now(1000, 1_001_000), 2_000_900, "nine tenths of boot time");
    }

    #[test]
    fn reaches_a_wall_clock_ahead_at_one_part_in_ten() {
        let mut clock = LogClock::new(0, 0, 1_000_000);
        assert_eq!(clock.now(1000, 1_050_000), 1_001_100);
        let mut last = 0;
        for step in 2..700 {
            last = clock.now(step * 1000, 1_049_000 + step * 1000);
        }
        assert_eq!(last, 1_049_000 + 699 * 1000);
    }

    proptest! {
        #[test]
        fn never_goes_back_and_bends_by_a_tenth_at_most(
            steps in proptest::collection::vec((0_u64..50, 0_u64..2_000_000), 1..200),
        ) {
            let mut clock = LogClock::new(1_000_000, 0, 1_000_000);
            let (mut boot, mut last) = (0, 1_000_000);
            for (passed, wall) in steps {
                boot += passed;
                let now = clock.now(boot, wall);
                prop_assert!(now >= last);
                last = now;
                let bend = (1_000_000 + boot).abs_diff(now);
                prop_assert!(bend * 10 <= boot, "bent by {} after {} ms", bend, boot);
            }
        }
    }
}
