//! Costs over work as SVG: lines over logarithmic axes, each in proportion to its first point.
//!
//! Owns: the drawing. Does not know: what was measured.

use crate::svg::{self, LINE, curve, rect, text};

const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 380.0;
const LEFT: f64 = 60.0;
const RIGHT: f64 = 290.0;
const TOP: f64 = 50.0;
const BOTTOM: f64 = 40.0;
const COLOURS: [&str; 8] =
    ["#1f6fb4", "#d9822b", "#2e8b57", "#b3261e", "#7b5ea7", "#8c6d31", "#0f8b8d", "#666666"];
const BOUND: &str = "#333333";

/// What is to be drawn.
#[derive(Debug)]
pub struct Curves<'a> {
    /// What it says.
    pub title: &'a str,
    /// Names of the points, from left to right.
    pub points: Vec<String>,
    /// At most eight.
    pub lines: Vec<Line<'a>>,
}

/// One cost.
#[derive(Debug)]
pub struct Line<'a> {
    /// Stands beside it.
    pub name: &'a str,
    /// One for each point where it was measured.
    pub costs: Vec<Option<f64>>,
}

impl Line<'_> {
    /// The points that it has, and their costs in proportion to the first.
    fn proportions(&self) -> impl Iterator<Item = (usize, f64)> {
        let costs = self.costs.iter().enumerate();
        let costs = costs.filter_map(|(at, cost)| Some((at, (*cost)?)));
        let costs = costs.filter(|(_, cost)| *cost > 0.0 && cost.is_finite());
        let first = costs.clone().next().map_or(1.0, |(_, cost)| cost);
        costs.map(move |(at, cost)| (at, cost / first))
    }
}

/// Powers of ten, or halves and doubles where there is less.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Scale {
    step: f64,
    least: f64,
    most: f64,
}

impl Scale {
    /// One and its neighbours are always on it.
    fn over(values: impl Iterator<Item = f64>) -> Self {
        let (least, most) =
            values.fold((1.0_f64, 1.0_f64), |(least, most), one| (least.min(one), most.max(one)));
        let step: f64 = if most / least > 40.0 { 10.0 } else { 2.0 };
        let steps = |value: f64| value.ln() / step.ln();
        Self {
            step,
            least: step.powf((steps(least) + 1e-9).floor().min(-1.0)),
            most: step.powf((steps(most) - 1e-9).ceil().max(1.0)),
        }
    }

    /// Where a value stands, from the top.
    fn y(self, value: f64) -> f64 {
        let part = (value / self.least).ln() / (self.most / self.least).ln();
        HEIGHT - BOTTOM - part * (HEIGHT - BOTTOM - TOP)
    }
}

impl Curves<'_> {
    /// The whole file.
    ///
    /// # Panics
    /// If there are more lines than colours.
    pub fn svg(&self) -> String {
        assert!(self.lines.len() <= COLOURS.len(), "a colour for each line");
        let values = self.lines.iter().flat_map(|line| line.proportions().map(|(_, cost)| cost));
        let scale = Scale::over(values);
        let mut svg = svg::begin((WIDTH, HEIGHT));
        text(&mut svg, (LEFT, 22.0), "start", self.title);
        self.grid(&mut svg, scale);
        let mut y = TOP + 8.0;
        for (line, colour) in self.lines.iter().zip(COLOURS) {
            let places: Vec<(f64, f64)> =
                line.proportions().map(|(at, cost)| (self.x(at), scale.y(cost))).collect();
            if places.is_empty() {
                continue;
            }
            curve(&mut svg, &places, colour);
            rect(&mut svg, (WIDTH - RIGHT + 14.0, y - 9.0), (10.0, 10.0), colour);
            text(&mut svg, (WIDTH - RIGHT + 30.0, y), "start", line.name);
            y += 20.0;
        }
        svg::end(svg)
    }

    /// Points stand evenly.
    fn x(&self, at: usize) -> f64 {
        let number = |count: usize| f64::from(u32::try_from(count).unwrap_or(u32::MAX));
        let gaps = number(self.points.len().saturating_sub(1).max(1));
        LEFT + 20.0 + number(at) / gaps * (WIDTH - LEFT - RIGHT - 40.0)
    }

    fn grid(&self, svg: &mut String, scale: Scale) {
        let mut value = scale.least;
        while value <= scale.most * 1.01 {
            let y = scale.y(value);
            let colour = if (value - 1.0).abs() < 1e-6 { BOUND } else { LINE };
            rect(svg, (LEFT, y), (WIDTH - LEFT - RIGHT, 0.5), colour);
            text(svg, (LEFT - 6.0, y + 4.0), "end", &format!("x{}", short(value)));
            value *= scale.step;
        }
        for (at, point) in self.points.iter().enumerate() {
            text(svg, (self.x(at), HEIGHT - BOTTOM + 18.0), "middle", point);
        }
    }
}

/// Without the noise of a product of floats.
fn short(value: f64) -> String {
    if value >= 1.0 { format!("{value:.0}") } else { format!("{}", (value * 1e6).round() / 1e6) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scale_has_one_on_it_and_all_values() {
        let scale = Scale::over([1.0, 1.4, 0.9].into_iter());
        assert_eq!(scale, Scale { step: 2.0, least: 0.5, most: 2.0 });
        let scale = Scale::over([0.004, 1.0, 900.0].into_iter());
        assert!((scale.least - 0.001).abs() < 1e-9 && (scale.most - 1000.0).abs() < 1e-6);
        assert!((scale.y(scale.least) - (HEIGHT - BOTTOM)).abs() < 1e-9);
        assert!((scale.y(scale.most) - TOP).abs() < 1e-9);
        assert!((scale.y(1.0) - f64::midpoint(HEIGHT - BOTTOM, TOP)).abs() < 1e-6);
    }

    #[test]
    fn each_line_has_a_dot_for_each_point_that_was_measured() {
        let lines = vec![
            Line { name: "a < b", costs: vec![None, Some(2.0), Some(4.0)] },
            Line { name: "c", costs: vec![Some(0.0), Some(f64::NAN), Some(3.0)] },
            Line { name: "never", costs: vec![None, None, None] },
        ];
        let points = ["1", "10", "100"].map(str::to_owned).to_vec();
        let svg = Curves { title: "costs", points, lines }.svg();
        assert_eq!(svg.matches("<circle").count(), 3);
        assert_eq!(svg.matches("<polyline").count(), 2);
        for label in [">a &lt; b<", ">100<", ">x1<", ">x2<", ">x0.5<"] {
            assert!(svg.contains(label), "{label} in {svg}");
        }
        assert!(!svg.contains("never") && !svg.contains("NaN") && !svg.contains("inf"));
    }
}
