//! Bars as SVG: one group for each cell, one bar for each subject, on a logarithmic scale.
//!
//! Owns: the drawing. Does not know: what was measured, or in which unit.

use std::fmt::Write;

const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 360.0;
const LEFT: f64 = 70.0;
const TOP: f64 = 60.0;
const BOTTOM: f64 = 40.0;
const COLOURS: [&str; 3] = ["#8c8c8c", "#1f6fb4", "#d9822b"];

/// What is to be drawn.
#[derive(Debug)]
pub(crate) struct Chart<'a> {
    pub(crate) title: &'a str,
    /// Names of the subjects, at most three.
    pub(crate) subjects: &'a [&'a str],
    /// A cell's name and a value above zero for each subject.
    pub(crate) cells: Vec<(String, Vec<f64>)>,
    /// A value as it stands above its bar.
    pub(crate) label: fn(f64) -> String,
}

/// Whole powers of ten around all values.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Scale {
    low: f64,
    high: f64,
}

impl Scale {
    fn around(values: impl Iterator<Item = f64> + Clone) -> Self {
        let low = values.clone().fold(f64::INFINITY, f64::min).log10().floor();
        let high = values.fold(0.0, f64::max).log10().ceil();
        if low.is_finite() && high > low {
            Self { low, high }
        } else {
            Self { low: 0.0, high: 1.0 }
        }
    }

    /// Where a value stands, from the top.
    fn y(self, value: f64) -> f64 {
        let part = (value.log10() - self.low) / (self.high - self.low);
        HEIGHT - BOTTOM - part.clamp(0.0, 1.0) * (HEIGHT - BOTTOM - TOP)
    }
}

impl Chart<'_> {
    /// The whole file.
    pub(crate) fn svg(&self) -> String {
        assert!(self.subjects.len() <= COLOURS.len(), "a colour for each subject");
        let scale = Scale::around(self.cells.iter().flat_map(|(_, values)| values).copied());
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
             font-family=\"sans-serif\" font-size=\"11\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
        );
        text(&mut svg, (LEFT, 22.0), "start", &format!("{} (logarithmic)", self.title));
        self.legend(&mut svg);
        self.grid(&mut svg, scale);
        self.bars(&mut svg, scale);
        svg.push_str("</svg>\n");
        svg
    }

    fn legend(&self, svg: &mut String) {
        let mut x = LEFT;
        for (name, colour) in self.subjects.iter().zip(COLOURS) {
            rect(svg, (x, 32.0), (10.0, 10.0), colour);
            text(svg, (x + 14.0, 41.0), "start", name);
            x += 120.0;
        }
    }

    fn grid(&self, svg: &mut String, scale: Scale) {
        let mut power = scale.low;
        while power <= scale.high {
            let value = 10_f64.powf(power);
            let y = scale.y(value);
            rect(svg, (LEFT, y), (WIDTH - LEFT - 10.0, 0.5), "#cccccc");
            text(svg, (LEFT - 6.0, y + 4.0), "end", &(self.label)(value));
            power += 1.0;
        }
    }

    fn bars(&self, svg: &mut String, scale: Scale) {
        let count = u32::try_from(self.cells.len()).unwrap_or(u32::MAX).max(1);
        let group = (WIDTH - LEFT - 10.0) / f64::from(count);
        let bar = group * 0.86 / f64::from(u32::try_from(self.subjects.len().max(1)).unwrap_or(1));
        for (nth, (name, values)) in (0..).zip(&self.cells) {
            let left = LEFT + group * f64::from(nth) + group * 0.07;
            for ((nth, value), colour) in (0..).zip(values).zip(COLOURS) {
                let (x, y) = (left + bar * f64::from(nth), scale.y(*value));
                rect(svg, (x, y), (bar - 2.0, HEIGHT - BOTTOM - y), colour);
                text(svg, (x + bar / 2.0 - 1.0, y - 3.0), "middle", &(self.label)(*value));
            }
            let middle = left + group * 0.43;
            text(svg, (middle, HEIGHT - BOTTOM + 16.0), "middle", name);
        }
    }
}

fn rect(svg: &mut String, (x, y): (f64, f64), (width, height): (f64, f64), colour: &str) {
    // Writing to a string does not fail.
    let _ = writeln!(
        svg,
        "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" \
         fill=\"{colour}\"/>"
    );
}

fn text(svg: &mut String, (x, y): (f64, f64), anchor: &str, text: &str) {
    let _ = writeln!(
        svg,
        "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{}</text>",
        text.replace('&', "&amp;").replace('<', "&lt;")
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(values: &[Vec<f64>]) -> Chart<'static> {
        let cells = values.iter().map(|values| ("1 < 2".to_owned(), values.clone())).collect();
        Chart { title: "rate", subjects: &["bound", "log"], cells, label: |v| format!("{v:.0}") }
    }

    #[test]
    fn a_power_of_ten_is_the_same_step_everywhere() {
        let scale = Scale::around([30.0, 4000.0].into_iter());
        assert_eq!(scale, Scale { low: 1.0, high: 4.0 });
        let steps = [10.0, 100.0, 1000.0, 10_000.0].map(|value| scale.y(value));
        assert!((steps[0] - (HEIGHT - BOTTOM)).abs() < 1e-9 && (steps[3] - TOP).abs() < 1e-9);
        assert!(((steps[0] - steps[1]) - (steps[1] - steps[2])).abs() < 1e-9);
    }

    #[test]
    fn each_value_has_a_bar_and_its_number() {
        let svg = chart(&[vec![20.0, 40.0], vec![300.0, 700.0]]).svg();
        for label in [">20<", ">40<", ">300<", ">700<", ">1 &lt; 2<"] {
            assert!(svg.contains(label), "{label}");
        }
        // The ground, two of the legend, three lines (10, 100, 1000), four bars.
        assert_eq!(svg.matches("<rect").count(), 1 + 2 + 3 + 4);
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
    }

    #[test]
    fn nothing_is_drawn_of_nothing() {
        let svg = chart(&[]).svg();
        assert!(svg.ends_with("</svg>\n") && !svg.contains("NaN") && !svg.contains("inf"));
    }
}
