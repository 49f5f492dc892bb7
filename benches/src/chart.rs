//! Ratios as SVG: one group of bars for each cell, one bar for each subject, from zero on.
//!
//! Owns: the drawing. Does not know: what was measured.

use crate::spread::Spread;
use crate::svg::{self, LINE, rect, text};

/// The least width, and what each group of bars needs.
const WIDTH: f64 = 860.0;
const GROUP: f64 = 64.0;
const HEIGHT: f64 = 360.0;
const LEFT: f64 = 50.0;
const RIGHT: f64 = 10.0;
const TOP: f64 = 60.0;
const BOTTOM: f64 = 40.0;
const COLOURS: [&str; 2] = ["#1f6fb4", "#d9822b"];
const BOUND: &str = "#333333";
const TARGET: &str = "#b3261e";

/// What is to be drawn.
#[derive(Debug)]
pub struct Chart<'a> {
    /// What it says.
    pub title: &'a str,
    /// Names of the subjects, at most two.
    pub subjects: &'a [&'a str],
    /// What the ratios are to.
    pub reference: &'a str,
    /// Groups of bars, from left to right.
    pub cells: Vec<Bars>,
}

/// One cell's bars.
#[derive(Debug)]
pub struct Bars {
    /// Stands below them.
    pub name: String,
    /// One for each subject, by the reference's.
    pub ratios: Vec<Spread>,
    /// What is asked of the first.
    pub target: Option<f64>,
}

/// From zero to a multiple of a step.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Scale {
    most: f64,
    step: f64,
}

impl Scale {
    /// The reference's 1 is always on it.
    fn up_to(values: impl Iterator<Item = f64>) -> Self {
        let most = values.filter(|value| value.is_finite()).fold(1.0, f64::max);
        let step = if most > 3.0 { 1.0 } else { 0.25 };
        Self { most: (most / step).ceil() * step, step }
    }

    /// Where a value stands, from the top.
    fn y(self, value: f64) -> f64 {
        let part = (value / self.most).clamp(0.0, 1.0);
        HEIGHT - BOTTOM - part * (HEIGHT - BOTTOM - TOP)
    }
}

impl Chart<'_> {
    /// The whole file.
    ///
    /// # Panics
    /// If there are more subjects than colours.
    pub fn svg(&self) -> String {
        assert!(self.subjects.len() <= COLOURS.len(), "a colour for each subject");
        let bars = self.cells.iter().flat_map(|cell| &cell.ratios);
        let targets = self.cells.iter().filter_map(|cell| cell.target);
        let width = self.width();
        let scale = Scale::up_to(bars.map(|ratio| ratio.most).chain(targets));
        let mut svg = svg::begin((width, HEIGHT));
        text(&mut svg, (LEFT, 22.0), "start", self.title);
        self.legend(&mut svg);
        grid(&mut svg, scale, width);
        self.bars(&mut svg, scale);
        // In front of the bars: it is what they are measured by.
        rect(&mut svg, (LEFT, scale.y(1.0) - 0.75), (width - LEFT - RIGHT, 1.5), BOUND);
        svg::end(svg)
    }

    fn width(&self) -> f64 {
        WIDTH.max(LEFT + RIGHT + GROUP * count(self.cells.len()))
    }

    fn legend(&self, svg: &mut String) {
        let all = self.subjects.iter().zip(COLOURS).map(|(name, colour)| (*name, colour, 10.0));
        let mut x = LEFT;
        for (name, colour, height) in
            all.chain([(self.reference, BOUND, 1.5), ("asked", TARGET, 2.0)])
        {
            rect(svg, (x, 37.0 - height / 2.0), (10.0, height), colour);
            text(svg, (x + 14.0, 41.0), "start", name);
            x += 120.0;
        }
    }

    fn bars(&self, svg: &mut String, scale: Scale) {
        let group = (self.width() - LEFT - RIGHT) / count(self.cells.len());
        let bar = group * 0.86 / count(self.subjects.len());
        for (nth, cell) in (0..).zip(&self.cells) {
            let left = LEFT + group * f64::from(nth) + group * 0.07;
            for ((nth, ratio), colour) in (0..).zip(&cell.ratios).zip(COLOURS) {
                let (x, y) = (left + bar * f64::from(nth), scale.y(ratio.median));
                rect(svg, (x, y), (bar - 2.0, HEIGHT - BOTTOM - y), colour);
                let middle = x + bar / 2.0 - 1.0;
                let (high, low) = (scale.y(ratio.most), scale.y(ratio.least));
                rect(svg, (middle - 0.5, high), (1.0, low - high), BOUND);
                text(svg, (middle, high - 3.0), "middle", &format!("{:.2}", ratio.median));
            }
            if let Some(target) = cell.target {
                rect(svg, (left - 3.0, scale.y(target) - 1.0), (bar + 4.0, 2.0), TARGET);
            }
            let middle = left + group * 0.43;
            text(svg, (middle, HEIGHT - BOTTOM + 16.0), "middle", &cell.name);
        }
    }
}

fn count(all: usize) -> f64 {
    f64::from(u32::try_from(all.max(1)).unwrap_or(u32::MAX))
}

fn grid(svg: &mut String, scale: Scale, width: f64) {
    let mut value = 0.0;
    while value <= scale.most {
        let y = scale.y(value);
        rect(svg, (LEFT, y), (width - LEFT - RIGHT, 0.5), LINE);
        text(svg, (LEFT - 6.0, y + 4.0), "end", &format!("{value:.2}"));
        value += scale.step;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(cells: &[&[f64]]) -> Chart<'static> {
        let bars = |medians: &&[f64]| Bars {
            name: "1 < 2".to_owned(),
            ratios: medians
                .iter()
                .map(|median| Spread { median: *median, least: median / 2.0, most: median * 1.5 })
                .collect(),
            target: Some(0.95),
        };
        Chart {
            title: "rate",
            subjects: &["log", "peer"],
            reference: "the bound",
            cells: cells.iter().map(bars).collect(),
        }
    }

    #[test]
    fn a_scale_begins_at_zero_and_has_the_bound_on_it() {
        assert_eq!(Scale::up_to([0.2, f64::NAN].into_iter()), Scale { most: 1.0, step: 0.25 });
        assert_eq!(Scale::up_to([1.3].into_iter()), Scale { most: 1.5, step: 0.25 });
        let scale = Scale::up_to([3.2].into_iter());
        assert_eq!(scale, Scale { most: 4.0, step: 1.0 });
        assert!((scale.y(0.0) - (HEIGHT - BOTTOM)).abs() < 1e-9);
        assert!((scale.y(4.0) - TOP).abs() < 1e-9);
        assert!((scale.y(2.0) - f64::midpoint(scale.y(0.0), scale.y(4.0))).abs() < 1e-9);
    }

    #[test]
    fn each_ratio_has_a_bar_its_spread_and_its_number() {
        let svg = chart(&[&[0.97, 0.64], &[1.01, 0.43]]).svg();
        for label in [">0.97<", ">0.64<", ">1.01<", ">0.43<", ">1 &lt; 2<"] {
            assert!(svg.contains(label), "{label}");
        }
        // Each of the four bars with its spread, and what is asked in each of the two cells.
        let bars = |colour| svg.matches(colour).count() - 1;
        assert_eq!([bars(COLOURS[0]), bars(COLOURS[1]), bars(TARGET)], [2, 2, 2]);
        assert_eq!(bars(BOUND), 4 + 1, "and the bound");
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
    }

    #[test]
    fn nothing_is_drawn_of_nothing() {
        let svg = chart(&[]).svg();
        assert!(svg.ends_with("</svg>\n") && !svg.contains("NaN") && !svg.contains("inf"));
    }
}
