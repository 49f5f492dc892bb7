//! The few shapes that charts are made of.

use std::fmt::Write as _;

/// The colour of a grid.
pub(crate) const LINE: &str = "#cccccc";

/// The head of a file of this size, on white.
pub(crate) fn begin((width, height): (f64, f64)) -> String {
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"sans-serif\" font-size=\"11\">\n"
    );
    rect(&mut svg, (0.0, 0.0), (width, height), "white");
    svg
}

/// The whole file.
pub(crate) fn end(svg: String) -> String {
    svg + "</svg>\n"
}

pub(crate) fn rect(
    svg: &mut String,
    (x, y): (f64, f64),
    (width, height): (f64, f64),
    colour: &str,
) {
    // Writing to a string does not fail.
    let _written = writeln!(
        svg,
        "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" \
         fill=\"{colour}\"/>"
    );
}

pub(crate) fn text(svg: &mut String, (x, y): (f64, f64), anchor: &str, text: &str) {
    let _written = writeln!(
        svg,
        "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{}</text>",
        text.replace('&', "&amp;").replace('<', "&lt;")
    );
}

/// A line through these places, with a dot at each.
pub(crate) fn curve(svg: &mut String, places: &[(f64, f64)], colour: &str) {
    let points: Vec<String> = places.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
    let _written = writeln!(
        svg,
        "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.5\"/>",
        points.join(" ")
    );
    for (x, y) in places {
        let _written =
            writeln!(svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2.5\" fill=\"{colour}\"/>");
    }
}
