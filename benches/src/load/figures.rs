//! What a run is told by.

use hdrhistogram::Histogram;

use super::account::Counts;
use super::process::Usage;

/// The longest latency told apart: an hour.
const LONGEST: u64 = 3_600_000_000_000;

/// Collects latencies; equal ones in a row, as a batch brings them, cost next to nothing.
#[derive(Debug)]
pub(super) struct Recorder {
    histogram: Histogram<u64>,
    /// A value and how often it came last.
    run: (u64, u64),
}

impl Recorder {
    #[expect(clippy::expect_used, reason = "the bounds are constants that the library takes")]
    pub(super) fn new() -> Self {
        let histogram = Histogram::new_with_bounds(1, LONGEST, 3).expect("constant bounds");
        Self { histogram, run: (0, 0) }
    }

    /// Adds a latency in nanoseconds.
    #[inline]
    pub(super) fn record(&mut self, nanos: u64) {
        if nanos == self.run.0 {
            self.run.1 += 1;
        } else {
            self.settle();
            self.run = (nanos, 1);
        }
    }

    fn settle(&mut self) {
        self.histogram.saturating_record_n(self.run.0, self.run.1);
        self.run.1 = 0;
    }

    pub(super) fn merge(&mut self, mut other: Self) {
        self.settle();
        other.settle();
        // Both have the same bounds.
        let _never = self.histogram.add(&other.histogram);
    }

    pub(super) fn latency(&mut self) -> Latency {
        self.settle();
        let at = |quantile| micros(self.histogram.value_at_quantile(quantile));
        Latency {
            samples: self.histogram.len(),
            p50_us: at(0.5),
            p90_us: at(0.9),
            p99_us: at(0.99),
            p999_us: at(0.999),
            max_us: micros(self.histogram.max()),
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "an hour of nanoseconds is below 2^53")]
fn micros(nanos: u64) -> f64 {
    nanos as f64 / 1000.0
}

/// Quantiles in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
#[expect(missing_docs, reason = "quantiles by their names")]
pub struct Latency {
    pub samples: u64,
    pub p50_us: f64,
    pub p90_us: f64,
    pub p99_us: f64,
    pub p999_us: f64,
    pub max_us: f64,
}

/// The result of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct Figures {
    /// Publishes sent.
    pub published: u64,
    /// Handshakes completed: none at QoS 0.
    pub acknowledged: u64,
    /// Publishes that were never answered.
    pub unacknowledged: u64,
    /// What became of them.
    pub counts: Counts,
    /// From the start to the last acknowledgement (last publish at QoS 0), in seconds.
    pub publish_seconds: f64,
    /// From the start to the last delivery, in seconds.
    pub deliver_seconds: f64,
    /// Publishes a second: completed ones above QoS 0.
    pub published_per_second: f64,
    /// Deliveries a second.
    pub delivered_per_second: f64,
    /// From publish (from when it was due, if paced) to delivery.
    pub deliver: Latency,
    /// From publish to PUBACK or PUBCOMP.
    pub ack: Latency,
    /// What the broker used, if its process is known.
    pub broker: Option<Usage>,
    /// CPU of the broker for each delivery, in microseconds.
    pub broker_us_per_delivery: Option<f64>,
    /// CPU of this process for each delivery, in microseconds.
    pub own_us_per_delivery: f64,
}

impl Figures {
    /// Whether the broker kept to what MQTT promises at the QoS of the run.
    pub fn is_sound(&self) -> bool {
        let Counts { lost, doubled, reordered, foreign, .. } = self.counts;
        lost + doubled + reordered + foreign == 0
    }

    /// Whether every message was answered, if it asked for it, and came once and in order: more
    /// than MQTT promises below QoS 2.
    pub fn is_complete(&self) -> bool {
        self.is_sound() && self.counts.dropped + self.counts.repeated + self.unacknowledged == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_equal_latencies_all_count() {
        let mut recorder = Recorder::new();
        for nanos in [1000, 1000, 1000, 5000, 1000, 1_000_000] {
            recorder.record(nanos);
        }
        let mut other = Recorder::new();
        other.record(2000);
        recorder.merge(other);
        let latency = recorder.latency();
        assert_eq!(latency.samples, 7);
        assert!((latency.p50_us - 1.0).abs() < 0.01, "{latency:?}");
        assert!((latency.max_us - 1000.0).abs() < 1.0, "{latency:?}");
    }

    #[test]
    fn a_run_is_sound_as_long_as_it_is_what_mqtt_promises() {
        let none = Counts::default();
        let of = |counts| Figures { counts, ..Figures::default() };
        for faulty in [
            Counts { lost: 1, ..none },
            Counts { doubled: 1, ..none },
            Counts { reordered: 1, ..none },
            Counts { foreign: 1, ..none },
        ] {
            assert!(!of(faulty).is_sound() && !of(faulty).is_complete(), "{faulty:?}");
        }
        for allowed in [
            of(Counts { dropped: 1, ..none }),
            of(Counts { repeated: 1, ..none }),
            Figures { unacknowledged: 1, ..of(none) },
        ] {
            assert!(allowed.is_sound() && !allowed.is_complete(), "{allowed:?}");
        }
        assert!(of(none).is_sound() && of(none).is_complete());
    }
}
