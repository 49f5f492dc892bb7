//! Results as the text of a page: a table and a chart for each axis, and what grows by more than
//! the structure implies.

use std::fmt::Write as _;

use zzq_bench::curve::{Curves, Line};
use zzq_bench::growth::Growth;
use zzq_bench::page::{distinct, wrap};

use crate::axes::{AXES, Axis, Measure};
use crate::results::{Record, median, points};
use crate::work::SETTINGS;

/// The medians of a measure, point by point.
struct Costs {
    measure: &'static Measure,
    medians: Vec<Option<f64>>,
    /// Of the points that count.
    growth: Option<Growth>,
    exceeds: bool,
}

impl Costs {
    fn of(records: &[Record], axis: &Axis, points: &[u64], measure: &'static Measure) -> Self {
        let cost = |point: &u64| {
            let told = measure.told || *point >= measure.from;
            median(records, axis.name, *point, measure.name).filter(|_| told)
        };
        let medians: Vec<Option<f64>> = points.iter().map(cost).collect();
        let counted: Vec<(f64, f64)> = points
            .iter()
            .zip(&medians)
            .filter(|(point, _)| **point >= measure.from)
            .filter_map(|(point, cost)| Some((float(*point), (*cost)?)))
            .collect();
        let growth = Growth::of(&counted);
        let exceeds = growth.is_some_and(|growth| measure.implied.is_exceeded(growth, &counted));
        Self { measure, medians, growth, exceeds }
    }

    /// A row; what does not count for the slope stands in parentheses.
    fn row(&self, points: &[u64]) -> String {
        let mut row = format!("| {} |", self.measure.name);
        for (point, cost) in points.iter().zip(&self.medians) {
            // Writing to a string does not fail.
            let _written = match cost {
                None => write!(row, " – |"),
                Some(cost) if *point < self.measure.from => write!(row, " ({}) |", amount(*cost)),
                Some(cost) => write!(row, " {} |", amount(*cost)),
            };
        }
        let slope = self.growth.map_or("–".to_owned(), |growth| {
            let bold = if self.exceeds { "**" } else { "" };
            let Growth { exponent, last, ratio, .. } = growth;
            let (exponent, last) = (hundredths(exponent), hundredths(last));
            format!("{bold}{exponent}{bold} ({last}), x{}", amount(ratio))
        });
        let implied = self.measure.implied.text();
        let _written = writeln!(row, " {slope} | {implied}: {} |", self.measure.why);
        row
    }
}

/// The axes that were measured, with their points and costs.
fn measured(records: &[Record]) -> impl Iterator<Item = (&'static Axis, Vec<u64>, Vec<Costs>)> {
    AXES.iter().filter_map(|axis| {
        let points = points(records, axis.name);
        let costs = axis
            .measures
            .iter()
            .map(|measure| Costs::of(records, axis, &points, measure))
            .collect();
        (!points.is_empty()).then_some((axis, points, costs))
    })
}

/// The whole text.
pub(crate) fn text(records: &[Record]) -> String {
    let mut text = head(records);
    exceeding(&mut text, records);
    for (axis, points, costs) in measured(records) {
        let _written = write!(text, "\n### {}\n\n{}\n", axis.title, wrap(axis.says));
        let labels: Vec<String> = points.iter().map(|point| axis.label(*point)).collect();
        let _written = writeln!(text, "| | {} | slope | implied |", labels.join(" | "));
        let _written = writeln!(text, "|---|{}---|---|", "--:|".repeat(points.len()));
        for cost in &costs {
            text.push_str(&cost.row(&points));
        }
        let _written = write!(text, "\n![{}]({}/{})\n", heading(axis), CHARTS, file(axis));
    }
    text
}

/// Where charts lie, seen from the page.
const CHARTS: &str = "doc/charts";

fn file(axis: &Axis) -> String {
    format!("growth_{}.svg", axis.name)
}

fn heading(axis: &Axis) -> String {
    format!("{}: costs, in proportion to the first point", axis.title)
}

/// Charts by their file names.
pub(crate) fn charts(records: &[Record]) -> Vec<(String, String)> {
    let chart = |(axis, points, costs): (&'static Axis, Vec<u64>, Vec<Costs>)| {
        let line = |cost: Costs| Line { name: cost.measure.name, costs: cost.medians };
        let curves = Curves {
            title: &heading(axis),
            points: points.iter().map(|point| axis.label(*point)).collect(),
            lines: costs.into_iter().map(line).collect(),
        };
        (file(axis), curves.svg())
    };
    measured(records).map(chart).collect()
}

fn head(records: &[Record]) -> String {
    let distinct = |of| distinct(records, of);
    let rounds = |record: &Record| {
        let same = |it: &&Record| it.axis == record.axis && it.point == record.point;
        records.iter().filter(same).count()
    };
    wrap(&format!(
        "Measured on {} by `zzq_growth`: {} with one lane where nothing else is said, and \
         `{SETTINGS}`, without storage where nothing else is said; the median of at least {} \
         rounds, streams of {} s with 64-byte payloads, MQTT 3.1.1. Machine: {}, shared with the \
         load. CPU and memory are the broker's. The slope is the exponent of a power of the work \
         (0: the cost stays, 1: it grows as the work does) over all points that are not in \
         parentheses, in parentheses that over the last three, and the cost at the last point of \
         that at the first.",
        distinct(|record| record.date.clone()),
        distinct(|record| record.version.clone()),
        records.iter().map(rounds).min().unwrap_or(0),
        distinct(|record| record.seconds.to_string()),
        distinct(|record| record.machine.clone()),
    ))
}

/// What costs more than the structure implies.
fn exceeding(text: &mut String, records: &[Record]) {
    let mut lines = String::new();
    for (axis, _, costs) in measured(records) {
        for cost in costs.iter().filter(|cost| cost.exceeds) {
            let Some(growth) = cost.growth else { continue };
            lines.push_str(&wrap(&format!(
                "- **{}, {}**: slope {}, {} over the last points, x{}; implied: {}.",
                axis.title,
                cost.measure.name,
                hundredths(growth.exponent),
                hundredths(growth.last),
                amount(growth.ratio),
                cost.measure.implied.text(),
            )));
        }
    }
    if lines.is_empty() {
        text.push_str("\nNothing grows by more than the structure implies.\n");
    } else {
        let _written = write!(text, "\n**Worse than implied:**\n\n{lines}");
    }
}

#[expect(clippy::cast_precision_loss, reason = "points are far below 2^53")]
fn float(point: u64) -> f64 {
    point as f64
}

fn amount(value: f64) -> String {
    match value.abs() {
        100.0.. => format!("{value:.0}"),
        10.0.. => format!("{value:.1}"),
        0.1.. => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

/// Without a sign where there is nothing.
fn hundredths(value: f64) -> String {
    format!("{:.2}", (value * 100.0).round() / 100.0 + 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::axes::name;
    use crate::results::tests::record;

    /// Retained messages whose replacement costs as much as `cost` says.
    fn retained(cost: impl Fn(f64) -> f64) -> Vec<Record> {
        let points = [1, 10, 100, 1000, 10_000, 100_000, 1_000_000];
        let point = |at: u64| {
            let measures = [(name::REPLACE, cost(float(at))), (name::RETAINED, 200.0)];
            record("retained", at, 0, &measures)
        };
        points.map(point).to_vec()
    }

    #[test]
    fn a_row_tells_costs_slope_and_what_is_implied() {
        let text = text(&retained(|work| 2.0 * work.powf(0.05)));
        let row = "| CPU to replace one, us | (2.00) | 2.24 | 2.52 | 2.83 | 3.17 | 3.56 | 3.99 | \
                   0.05 (0.05), x1.78 | logarithm: a tree of topics |\n";
        assert!(text.contains(row), "{text}");
        assert!(text.contains("| | 1 | 10 | 100 | 1 k | 10 k | 100 k | 1 M | slope |"), "{text}");
        let memory = "| – | – | – | – | 200 | 200 | 200 | 0.00 (0.00), x1.00 | stays: ";
        assert!(text.contains(memory), "{text}");
        assert!(text.contains("Nothing grows by more than"), "{text}");
        assert!(!text.contains("### Topics"), "only what was measured: {text}");
    }

    #[test]
    fn what_is_worse_is_marked_and_named() {
        let text = text(&retained(f64::sqrt));
        assert!(text.contains("| **0.50** (0.50), x316 | logarithm"), "{text}");
        let line = "- **Retained messages, CPU to replace one, us**: slope 0.50, 0.50 over the \
                    last points, x316;";
        assert!(text.contains(line), "{text}");
        assert!(text.lines().all(|line| line.starts_with('|') || line.chars().count() <= 100));
    }

    #[test]
    fn each_axis_that_was_measured_has_a_chart() {
        let charts = charts(&retained(|work| work));
        let [(name, svg)] = &charts[..] else { panic!("one chart") };
        assert_eq!(name, "growth_retained.svg");
        assert!(svg.contains(">1 M<") && svg.contains(">CPU to replace one, us<"));
    }
}
