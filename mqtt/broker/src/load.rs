//! How much goes on: the means of the last minutes of what is counted, as `$SYS` shows them.
//!
//! Owns: the means, each per minute and weighted exponentially, over 1, 5 and 15 minutes as in
//! mosquitto's topics of the same names. They begin at 0, as if nothing had been before.
//! Does not know: clocks.

use std::time::Duration;

use crate::metrics::Counts;

/// The spans of the means, in seconds, and their names.
const SPANS: [(&str, f64); 3] = [("1min", 60.0), ("5min", 300.0), ("15min", 900.0)];

/// What is measured: its name below `$SYS/broker/load`, and where it is counted.
type Measure = (&'static str, fn(&Counts) -> u64);

const MEASURES: [Measure; 9] = [
    ("messages/received", |counts| counts.packets_in),
    ("messages/sent", |counts| counts.packets_out),
    ("bytes/received", |counts| counts.bytes_in),
    ("bytes/sent", |counts| counts.bytes_out),
    ("publish/received", |counts| counts.publishes_in),
    ("publish/sent", |counts| counts.publishes_out),
    ("publish/dropped", Counts::dropped),
    ("connections", |counts| counts.connects),
    ("sockets", |counts| counts.accepted),
];

/// The means of all that is measured.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Loads {
    before: Counts,
    per_minute: [[f64; SPANS.len()]; MEASURES.len()],
}

impl Loads {
    /// Takes in what was counted in `passed`, the time since the call before.
    pub(crate) fn renew(&mut self, counts: &Counts, passed: Duration) {
        let seconds = passed.as_secs_f64();
        if seconds <= 0.0 {
            return;
        }
        for (means, (_, count)) in self.per_minute.iter_mut().zip(MEASURES) {
            let more = count(counts).saturating_sub(count(&self.before));
            let rate = as_f64(more) * 60.0 / seconds;
            for (mean, (_, span)) in means.iter_mut().zip(SPANS) {
                *mean = rate + (*mean - rate) * (-seconds / span).exp();
            }
        }
        self.before = *counts;
    }

    /// Calls `visit` with each name below `$SYS/broker/load` and its value.
    pub(crate) fn each(&self, mut visit: impl FnMut(&str, f64)) {
        for (means, (name, _)) in self.per_minute.iter().zip(MEASURES) {
            for (mean, (span, _)) in means.iter().zip(SPANS) {
                visit(&format!("{name}/{span}"), *mean);
            }
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts of one interval stay far below 2^52")]
fn as_f64(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mean(loads: &Loads, wanted: &str) -> f64 {
        let mut found = None;
        loads.each(|name, value| {
            if name == wanted {
                found = Some(value);
            }
        });
        found.unwrap()
    }

    fn after(minutes: u32, each_second: u64) -> Loads {
        let mut loads = Loads::default();
        let mut counts = Counts::default();
        for _ in 0..minutes * 6 {
            counts.publishes_in += 10 * each_second;
            loads.renew(&counts, Duration::from_secs(10));
        }
        loads
    }

    #[test]
    fn a_steady_load_is_told_per_minute_and_a_longer_span_takes_longer_to_learn_it() {
        let loads = after(10, 7);
        let [short, middle, long] =
            ["1min", "5min", "15min"].map(|span| mean(&loads, &format!("publish/received/{span}")));
        assert!((419.0..=420.0).contains(&short), "{short}");
        assert!(short > middle && middle > long && long > 0.0, "{short} {middle} {long}");
        // After one span, all but 1/e of it is known.
        let one = mean(&after(5, 7), "publish/received/5min");
        assert!((one - 420.0 * (1.0 - (-1.0f64).exp())).abs() < 0.001, "{one}");
    }

    #[test]
    fn what_has_ended_fades() {
        let mut loads = after(10, 7);
        let before = mean(&loads, "publish/received/1min");
        let counts = loads.before;
        loads.renew(&counts, Duration::from_mins(1));
        let after = mean(&loads, "publish/received/1min");
        assert!((after - before * (-1.0f64).exp()).abs() < 0.001, "{before} {after}");
    }

    #[test]
    fn no_time_is_no_load() {
        let mut loads = Loads::default();
        loads.renew(&Counts { bytes_in: 5, ..Counts::default() }, Duration::ZERO);
        assert_eq!(mean(&loads, "bytes/received/1min").to_bits(), 0);
    }
}
