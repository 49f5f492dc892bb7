//! How a cost grows with the work: its slope, and whether that is more than the structure implies.
//!
//! Owns: the fit, and the bounds of what is implied. A slope is the exponent of a power of the
//! work: 0 where a cost stays, 1 where it grows as the work does. It is fitted to all points, and
//! to the last three alone: what only begins to grow far out would not show in the whole.

/// The points at the end that have a slope of their own.
const LAST: usize = 3;

/// How a cost follows the work.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Growth {
    /// The exponent over all points.
    pub exponent: f64,
    /// The exponent over the last three.
    pub last: f64,
    /// The cost at the largest point, of that at the smallest.
    pub ratio: f64,
    /// The greatest cost of all points, of that at the smallest.
    pub most: f64,
}

impl Growth {
    /// Of points in the order of their work, `(work, cost)`; what is not above zero has no place on
    /// a logarithmic scale and is left out. `None` if fewer than two are left.
    pub fn of(points: &[(f64, f64)]) -> Option<Self> {
        let points: Vec<(f64, f64)> =
            points.iter().copied().filter(|(work, cost)| *work > 0.0 && *cost > 0.0).collect();
        let (first, last) = (points.first()?.1, points.last()?.1);
        let most = points.iter().map(|(_, cost)| *cost).fold(first, f64::max);
        Some(Self {
            exponent: exponent(&points)?,
            last: exponent(&points[points.len().saturating_sub(LAST)..])?,
            ratio: last / first,
            most: most / first,
        })
    }
}

/// The least squares of logarithms; `None` if all points have the same work, or there is one only.
fn exponent(points: &[(f64, f64)]) -> Option<f64> {
    let logs: Vec<(f64, f64)> = points.iter().map(|(x, y)| (x.ln(), y.ln())).collect();
    let count = f64::from(u32::try_from(logs.len()).ok()?);
    let (x, y) = logs.iter().fold((0.0, 0.0), |sum, log| (sum.0 + log.0, sum.1 + log.1));
    let (x, y) = (x / count, y / count);
    let (both, square) = logs.iter().fold((0.0, 0.0), |sum, log| {
        (sum.0 + (log.0 - x) * (log.1 - y), sum.1 + (log.0 - x) * (log.0 - x))
    });
    (square > 0.0).then(|| both / square)
}

/// How a cost may follow the work.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Implied {
    /// It stays. A table that no longer fits into the caches of a processor costs some misses.
    Steady,
    /// It grows by as much with each doubling: a tree.
    Logarithmic,
    /// It grows as the work does.
    Linear,
    /// It stays below a multiple of the smallest point's.
    Times(f64),
    /// It stays below this.
    AtMost(f64),
    /// It stays below the first of these, and the second for each piece of work.
    Within(f64, f64),
}

impl Implied {
    /// How it stands in a table.
    pub fn text(self) -> String {
        match self {
            Self::Steady => "stays".to_owned(),
            Self::Logarithmic => "logarithm".to_owned(),
            Self::Linear => "linear".to_owned(),
            Self::Times(most) => format!("at most x{most}"),
            Self::AtMost(most) => format!("at most {most}"),
            Self::Within(most, each) => format!("at most {most} and {each} for each"),
        }
    }

    /// Whether costs grow by more. A slope has some play, for a machine is never the same twice;
    /// that of the last points has more, for it spans less.
    pub fn is_exceeded(self, growth: Growth, points: &[(f64, f64)]) -> bool {
        let slope = |whole: f64, last: f64| growth.exponent > whole || growth.last > last;
        match self {
            Self::Steady => slope(0.1, 0.25),
            // From 10 to a million a tree needs six times as many comparisons, from ten thousand
            // on half as many again, and they come to cost a miss each.
            Self::Logarithmic => slope(0.2, 0.3),
            Self::Linear => slope(1.1, 1.2),
            Self::Times(most) => growth.most > most,
            Self::AtMost(most) => points.iter().any(|(_, cost)| *cost > most),
            Self::Within(most, each) => {
                points.iter().any(|(work, cost)| *cost > most + each * work)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn growth(cost: impl Fn(f64) -> f64) -> (Growth, Vec<(f64, f64)>) {
        let points: Vec<(f64, f64)> =
            [1.0, 10.0, 1e2, 1e3, 1e4, 1e5, 1e6].map(|work| (work, cost(work))).to_vec();
        (Growth::of(&points).unwrap(), points)
    }

    fn exceeds(implied: Implied, cost: impl Fn(f64) -> f64) -> bool {
        let (growth, points) = growth(cost);
        implied.is_exceeded(growth, &points)
    }

    #[test]
    fn a_power_has_its_exponent_at_all_places() {
        let (growth, _) = growth(|work| 3.0 * work.powf(0.5));
        assert!((growth.exponent - 0.5).abs() < 1e-9 && (growth.last - 0.5).abs() < 1e-9);
        assert!((growth.ratio - 1000.0).abs() < 1e-6 && (growth.most - 1000.0).abs() < 1e-6);
    }

    #[test]
    fn what_has_no_logarithm_is_left_out() {
        let with = [(0.0, 5.0), (1.0, 2.0), (4.0, 0.0), (10.0, 20.0)];
        let growth = Growth::of(&with).unwrap();
        assert!((growth.exponent - 1.0).abs() < 1e-9 && (growth.ratio - 10.0).abs() < 1e-9);
        assert_eq!(Growth::of(&[(0.0, 5.0), (1.0, 2.0)]), None);
        assert_eq!(Growth::of(&[(2.0, 5.0), (2.0, 6.0)]), None);
        assert_eq!(Growth::of(&[]), None);
    }

    #[test]
    fn a_cost_is_held_to_what_is_implied() {
        let noise = |work: f64| 1.0 + 0.2 * (work.log10() * 2.5).sin();
        assert!(!exceeds(Implied::Steady, noise));
        assert!(!exceeds(Implied::Linear, |work| work * noise(work)));
        let tree = |work: f64| noise(work) * (2.0 + work.log2());
        assert!(exceeds(Implied::Steady, tree));
        assert!(!exceeds(Implied::Logarithmic, tree));
        assert!(exceeds(Implied::Logarithmic, |work| 5.0 + work.sqrt()));
        assert!(exceeds(Implied::Linear, |work| work * work.log2().max(1.0)));
    }

    #[test]
    fn what_grows_only_far_out_is_seen() {
        // A term that the first five of seven points hide.
        let hidden = |work: f64| 1.0 + work / 2e5;
        let (all, points) = growth(hidden);
        assert!(all.last > 0.25 && Implied::Steady.is_exceeded(all, &points), "{all:?}");
        assert!(exceeds(Implied::Linear, |work| work + work * work / 1e5));
    }

    #[test]
    fn bounds_are_on_any_point() {
        let bump = |work: f64| if work > 50.0 && work < 500.0 { 7.0 } else { 2.0 };
        assert!(exceeds(Implied::Times(3.0), bump) && !exceeds(Implied::Times(4.0), bump));
        assert!(exceeds(Implied::AtMost(6.0), bump) && !exceeds(Implied::AtMost(7.0), bump));
        let some_for_each = |work: f64| 100.0 + 2.0 * work;
        assert!(!exceeds(Implied::Within(100.0, 2.0), some_for_each));
        assert!(exceeds(Implied::Within(99.0, 2.0), some_for_each));
        assert!(exceeds(Implied::Within(100.0, 1.9), some_for_each));
    }
}
