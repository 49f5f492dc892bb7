//! How far the broker's log time may have gone between two moments.
//!
//! Assumes: from one start to the next it follows boot time and is drawn towards the wall clock by
//! a tenth at most; a start begins at the wall clock, or at the newest time in the log if that is
//! later.

use crate::history::{Event, History};

/// Rounding, and the time between a clock's reading and its use.
const SLACK_MS: u64 = 20;

/// What is known of log time over a history.
#[derive(Debug, Default)]
pub struct LogTime {
    spans: Vec<Span>,
}

/// From one start to the next.
#[derive(Clone, Copy, Debug)]
struct Span {
    start_ms: u64,
    /// Log time at the start is not before this, nor after that.
    low: u64,
    high: u64,
}

impl LogTime {
    /// Of a history.
    pub fn of(history: &History) -> Self {
        let mut time = Self::default();
        for entry in &history.entries {
            if let Event::Started { wall_ms } = entry.event {
                let before = time.spans.last().map_or(0, |span| span.high_at(entry.at_ms));
                // The newest time in the log is not known from outside: only that it lies between.
                let span = Span {
                    start_ms: entry.at_ms,
                    low: wall_ms,
                    high: wall_ms.max(before) + SLACK_MS,
                };
                time.spans.push(span);
            }
        }
        time
    }

    /// The least and the most that log time may have gone on between two moments of true time.
    pub fn between(&self, from_ms: u64, to_ms: u64) -> (u64, u64) {
        let (Some(from), Some(to)) = (self.span(from_ms), self.span(to_ms)) else {
            return (0, u64::MAX);
        };
        if from.start_ms == to.start_ms {
            let passed = to_ms - from_ms;
            return ((passed * 9 / 10).saturating_sub(SLACK_MS), passed * 11 / 10 + SLACK_MS);
        }
        let low = to.low_at(to_ms).saturating_sub(from.high_at(from_ms));
        (low, to.high_at(to_ms).saturating_sub(from.low_at(from_ms)))
    }

    /// The least and the most that log time may be at a moment of true time.
    pub fn at(&self, at_ms: u64) -> (u64, u64) {
        self.span(at_ms).map_or((0, u64::MAX), |span| (span.low_at(at_ms), span.high_at(at_ms)))
    }

    fn span(&self, at_ms: u64) -> Option<&Span> {
        self.spans.iter().rev().find(|span| span.start_ms <= at_ms)
    }
}

impl Span {
    fn low_at(&self, at_ms: u64) -> u64 {
        self.low + ((at_ms - self.start_ms) * 9 / 10).saturating_sub(SLACK_MS)
    }

    fn high_at(&self, at_ms: u64) -> u64 {
        self.high + (at_ms - self.start_ms) * 11 / 10 + SLACK_MS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wall_clock_that_is_set_back_makes_the_time_over_a_start_uncertain() {
        let mut history = History::default();
        history.note(0, Event::Started { wall_ms: 1_000_000 });
        history.note(20_000, Event::Started { wall_ms: 1_020_000 });
        history.note(40_000, Event::Started { wall_ms: 40_000 });
        let time = LogTime::of(&history);
        let (low, high) = time.between(0, 10_000);
        assert!((8900..9000).contains(&low) && (11_000..11_100).contains(&high));
        let (low, high) = time.between(10_000, 30_000);
        assert!((16_000..20_000).contains(&low) && high > 20_000, "{low} {high}");
        let (low, high) = time.between(30_000, 50_000);
        assert!(low == 0 && high > 20_000, "{low} {high}");
    }
}
