//! Pictures as inline SVG: marks and lines over axes.
//!
//! Owns: the frame, scales and their labels. Does not know: what is shown.

use std::fmt::Write;

const WIDTH: f64 = 900.0;
const LEFT: f64 = 190.0;
const RIGHT: f64 = 20.0;
const BOTTOM: f64 = 30.0;
const TOP: f64 = 12.0;

/// A picture under construction.
#[derive(Debug)]
pub(super) struct Picture {
    height: f64,
    /// The greatest values.
    x_max: f64,
    y_max: f64,
    body: String,
}

/// Text for HTML and SVG.
pub(super) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

impl Picture {
    /// Of this height, with values from zero to these.
    pub(super) fn new(height: f64, x_max: f64, y_max: f64) -> Self {
        let (x_max, y_max) = (x_max.max(f64::MIN_POSITIVE), y_max.max(f64::MIN_POSITIVE));
        Self { height, x_max, y_max, body: String::new() }
    }

    fn x(&self, value: f64) -> f64 {
        LEFT + value / self.x_max * (WIDTH - LEFT - RIGHT)
    }

    fn y(&self, value: f64) -> f64 {
        self.height - BOTTOM - value / self.y_max * (self.height - BOTTOM - TOP)
    }

    fn add(&mut self, element: std::fmt::Arguments<'_>) {
        // A string takes everything.
        let _ = self.body.write_fmt(element);
        self.body.push('\n');
    }

    /// A line through points.
    pub(super) fn line(&mut self, class: &str, points: impl Iterator<Item = (f64, f64)>) {
        let mut path = String::new();
        for (x, y) in points {
            let _ = write!(path, "{:.1},{:.1} ", self.x(x), self.y(y));
        }
        self.add(format_args!("<polyline class=\"{class}\" points=\"{}\"/>", path.trim_end()));
    }

    /// A point with a text that shows when it is pointed at.
    pub(super) fn point(&mut self, class: &str, x: f64, y: f64, title: &str) {
        let (x, y, title) = (self.x(x), self.y(y), escape(title));
        let place = format!("cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2.5\"");
        self.add(format_args!("<circle class=\"{class}\" {place}><title>{title}</title></circle>"));
    }

    /// A stroke over a row that is 1 high.
    pub(super) fn stroke(&mut self, class: &str, x: f64, row: f64, title: &str) {
        let (x, top, bottom) = (self.x(x), self.y(row + 0.95), self.y(row + 0.05));
        let title = escape(title);
        let path = format!("M{x:.1} {top:.1}V{bottom:.1}");
        self.add(format_args!(
            "<path class=\"{class}\" d=\"{path}\"><title>{title}</title></path>"
        ));
    }

    /// In which column of half a pixel a place lies: marks that would cover each other are one.
    #[expect(clippy::cast_possible_truncation, reason = "some hundred columns")]
    pub(super) fn column(&self, x: f64) -> i64 {
        (self.x(x) * 2.0).round() as i64
    }

    /// A bar from one x to another, on a row that is 1 high.
    pub(super) fn bar(&mut self, class: &str, from: f64, to: f64, row: f64, title: &str) {
        let (x, y) = (self.x(from), self.y(row + 0.8));
        let width = (self.x(to) - x).max(1.5);
        let height = self.y(row + 0.2) - y;
        let title = escape(title);
        let place =
            format!("x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\"");
        self.add(format_args!("<rect class=\"{class}\" {place}><title>{title}</title></rect>"));
    }

    /// A label beside a height.
    pub(super) fn label(&mut self, y: f64, text: &str) {
        let (x, y, text) = (LEFT - 8.0, self.y(y) + 4.0, escape(text));
        self.add(format_args!("<text class=\"left\" x=\"{x}\" y=\"{y:.1}\">{text}</text>"));
    }

    /// A label below a place.
    pub(super) fn mark(&mut self, x: f64, text: &str) {
        let (x, y, text) = (self.x(x), self.height - 10.0, escape(text));
        self.add(format_args!("<text class=\"below\" x=\"{x:.1}\" y=\"{y}\">{text}</text>"));
    }

    /// The element.
    pub(super) fn finish(mut self) -> String {
        let (left, right) = (LEFT, WIDTH - RIGHT);
        let (top, bottom) = (TOP, self.height - BOTTOM);
        self.add(format_args!("<path class=\"axis\" d=\"M{left} {top}V{bottom}H{right}\"/>"));
        let (height, body) = (self.height, self.body);
        format!("<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\">\n{body}</svg>\n")
    }
}

/// Whole numbers in pictures lose nothing that could be seen.
#[expect(clippy::cast_precision_loss, reason = "places in a picture")]
pub(super) fn number(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_lie_within_the_frame_and_text_is_escaped() {
        let mut picture = Picture::new(100.0, 10.0, 5.0);
        picture.point("p", 10.0, 5.0, "a<b>&\"c\"");
        picture.point("p", 0.0, 0.0, "");
        let svg = picture.finish();
        assert!(
            svg.contains("cx=\"880.0\" cy=\"12.0\"") && svg.contains("cx=\"190.0\" cy=\"70.0\"")
        );
        assert!(svg.contains("a&lt;b&gt;&amp;&quot;c&quot;"));
        assert!(Picture::new(10.0, 0.0, 0.0).x(0.0).is_finite(), "nothing to show");
    }
}
