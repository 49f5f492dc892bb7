//! When an image is due.
//!
//! Owns: the two reasons: the log has grown by its measure, or replaying it at a start would take
//! longer than a start may. Does not know: clocks.

use std::time::Duration;

/// What is assumed of replaying a record and a byte of it, until a start has measured it: guesses,
/// on the slow side.
const NANOS_PER_RECORD: f64 = 2000.0;
const NANOS_PER_BYTE: f64 = 2.0;

/// A measurement of less says nothing.
const TELLING: Duration = Duration::from_millis(200);

/// How long replaying the log takes here, compared with what is assumed of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Replay(f64);

impl Default for Replay {
    fn default() -> Self {
        Self(1.0)
    }
}

impl Replay {
    /// By a start that replayed so much in this time.
    pub(crate) fn measured(records: u64, bytes: u64, took: Duration) -> Self {
        let assumed = Self::default().time(records, bytes);
        if assumed < TELLING && took < TELLING {
            return Self::default();
        }
        // A start that was held up by something else is no measure either.
        Self((took.as_secs_f64() / assumed.as_secs_f64().max(1e-9)).clamp(0.1, 10.0))
    }

    /// How long so much will take.
    #[expect(clippy::cast_precision_loss, reason = "an estimate is no exact number")]
    pub(crate) fn time(self, records: u64, bytes: u64) -> Duration {
        let nanos = records as f64 * NANOS_PER_RECORD + bytes as f64 * NANOS_PER_BYTE;
        Duration::from_secs_f64(nanos * self.0 / 1e9)
    }
}

/// What has come since the newest image, and how big that is.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Growth {
    pub(super) records: u64,
    pub(super) bytes: u64,
    pub(super) image: u64,
}

impl Growth {
    /// Whether the log has grown by `every` and by twice the image, or would take longer than
    /// `budget`. For that it has to have grown by the image at least, so that images make up no
    /// more than half of what is written.
    pub(super) fn is_due(self, every: u64, budget: Duration, replay: Replay) -> bool {
        let has_grown = self.bytes >= every.max(self.image.saturating_mul(2));
        let takes_long = replay.time(self.records, self.bytes) > budget;
        has_grown || takes_long && self.bytes >= self.image
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn is_due(records: u64, mib: u64, image_mib: u64) -> bool {
        let growth = Growth { records, bytes: mib * MIB, image: image_mib * MIB };
        growth.is_due(64 * MIB, Duration::from_secs(3), Replay::default())
    }

    #[test]
    fn an_image_is_due_by_bytes_or_by_the_time_that_replaying_would_take() {
        assert!(!is_due(1000, 63, 0));
        assert!(is_due(1000, 64, 0));
        assert!(!is_due(1000, 150, 80), "twice the image");
        assert!(is_due(1000, 160, 80));
        assert!(is_due(2_000_000, 50, 0), "small records take longer than their bytes");
        assert!(is_due(2_000_000, 90, 80));
        assert!(!is_due(2_000_000, 70, 80), "not more often than the image is worth");
    }

    #[test]
    fn a_start_measures_what_the_next_one_will_take() {
        let second = Duration::from_secs(1);
        assert_eq!(Replay::measured(10, 10, second / 1000), Replay::default(), "too little");
        let replay = Replay::measured(4_000_000, 0, second);
        assert_eq!(replay.time(8_000_000, 0).as_secs(), 2);
        let stuck = Replay::measured(1000, 0, 100 * second);
        assert_eq!(stuck.time(1_000_000, 0).as_secs(), 20, "within bounds");
    }
}
