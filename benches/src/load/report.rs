//! Figures as text.

use std::fmt::Write as _;

use super::account::Counts;
use super::figures::{Figures, Latency};
use super::versus::Ratio;

/// One run.
pub fn table(figures: &Figures) -> String {
    let mut text = String::new();
    let mut row = |name: &str, value: String| {
        // Writing to a string does not fail.
        let _written = writeln!(text, "{name:<22}{value}");
    };
    let Figures { counts, .. } = figures;
    row("published", format!("{} ({}/s)", figures.published, round(figures.published_per_second)));
    if figures.ack.samples > 0 || figures.unacknowledged > 0 {
        let open = figures.unacknowledged;
        row("acknowledged", format!("{}, {open} never", figures.acknowledged));
    }
    let rate = round(figures.delivered_per_second);
    row("delivered", format!("{} ({rate}/s)", counts.delivered));
    let Counts { lost, dropped, doubled, repeated, reordered, foreign, .. } = counts;
    row("lost, doubled", format!("{lost}, {doubled}"));
    row("reordered, foreign", format!("{reordered}, {foreign}"));
    // What QoS 0 and QoS 1 allow.
    row("dropped, repeated", format!("{dropped}, {repeated}"));
    row("publish->deliver us", latency(figures.deliver));
    if figures.ack.samples > 0 {
        row("publish->ack us", latency(figures.ack));
    }
    if let (Some(used), Some(each)) = (figures.broker, figures.broker_us_per_delivery) {
        row("broker CPU us/delivery", format!(" {each:.3}"));
        row("broker memory KiB", format!("{} (peak {})", used.resident_kib, used.peak_kib));
    }
    row("own CPU us/delivery", format!("{:.3}", figures.own_us_per_delivery));
    text
}

fn round(rate: f64) -> String {
    format!("{rate:.0}")
}

fn latency(latency: Latency) -> String {
    let Latency { p50_us, p90_us, p99_us, p999_us, max_us, .. } = latency;
    format!(
        "p50 {p50_us:.0}  p90 {p90_us:.0}  p99 {p99_us:.0}  p99.9 {p999_us:.0}  max {max_us:.0}"
    )
}

/// Two brokers, the first in proportion to the second.
pub fn versus_table(ratios: &[Ratio]) -> String {
    let mut text = format!(
        "{:<20}{:>14}{:>14}{:>9}   {}\n",
        "median", "first", "second", "ratio", "of the rounds"
    );
    for Ratio { name, first, second, median, spread } in ratios {
        let (least, most) = spread;
        let (first, second) = (figure(*first), figure(*second));
        // Writing to a string does not fail.
        let _written = writeln!(
            text,
            "{name:<20}{first:>14}{second:>14}{median:>9.3}   {least:.3} to {most:.3}"
        );
    }
    text
}

fn figure(value: f64) -> String {
    if value >= 100.0 { format!("{value:.0}") } else { format!("{value:.3}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_in_the_table() {
        let counts = Counts {
            delivered: 10,
            lost: 1,
            doubled: 2,
            reordered: 3,
            foreign: 4,
            dropped: 6,
            repeated: 7,
        };
        let text = table(&Figures { counts, unacknowledged: 5, ..Figures::default() });
        for part in ["1, 2", "3, 4", "6, 7", "5 never"] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }
}
