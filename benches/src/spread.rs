//! The middle of some values, and how far they lie apart.

use std::fmt;

use serde::{Deserialize, Serialize};

/// See the file.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "what they are called by")]
pub struct Spread {
    pub median: f64,
    pub least: f64,
    pub most: f64,
}

impl Spread {
    /// Of an even number of values the mean of the two in the middle; of none, not a number.
    pub fn of(values: impl Iterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.collect();
        values.sort_by(f64::total_cmp);
        let at = |nth: usize| values.get(nth).copied().unwrap_or(f64::NAN);
        let upper = values.len() / 2;
        let lower = if values.len().is_multiple_of(2) { upper.saturating_sub(1) } else { upper };
        Self {
            median: f64::midpoint(at(lower), at(upper)),
            least: at(0),
            most: at(values.len().saturating_sub(1)),
        }
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:.2} ({:.2}-{:.2})", self.median, self.least, self.most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        let spread = Spread::of([5.0, 1.0, 3.0].into_iter());
        assert_eq!(spread, Spread { median: 3.0, least: 1.0, most: 5.0 });
        assert_eq!(spread.to_string(), "3.00 (1.00-5.00)");
        assert_eq!(Spread::of([1.0, 2.0, 4.0, 8.0].into_iter()).median.to_string(), "3");
        assert!(Spread::of([].into_iter()).median.is_nan());
    }
}
