//! A set of numbers, most of which follow one another.
//!
//! Owns: their ranges. Does not know: what is counted.

use std::collections::BTreeMap;

/// Numbers in ranges.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Runs {
    /// First number of each range, and its last. Ranges neither overlap nor touch.
    ranges: BTreeMap<u64, u64>,
    count: u64,
}

impl Runs {
    /// Adds a number. Returns whether it was not there.
    pub fn insert(&mut self, number: u64) -> bool {
        if self.contains(number) {
            return false;
        }
        self.count += 1;
        let last = self.ranges.remove(&(number + 1)).unwrap_or(number);
        let before = self.ranges.range_mut(..number).next_back();
        match before {
            Some((_, end)) if *end + 1 == number => *end = last,
            _ => {
                self.ranges.insert(number, last);
            }
        }
        true
    }

    /// Whether a number is there.
    pub fn contains(&self, number: u64) -> bool {
        self.ranges.range(..=number).next_back().is_some_and(|(_, last)| number <= *last)
    }

    /// How many there are.
    pub fn len(&self) -> u64 {
        self.count
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// How many are greater than this.
    pub fn count_behind(&self, number: u64) -> u64 {
        let behind =
            |(first, last): (&u64, &u64)| (last + 1).saturating_sub(*first.max(&(number + 1)));
        self.ranges.iter().map(behind).sum()
    }

    /// The greatest.
    pub fn last(&self) -> Option<u64> {
        self.ranges.last_key_value().map(|(_, last)| *last)
    }

    /// Those that `other` has not, in order.
    pub fn without<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = u64> + 'a {
        self.ranges.iter().flat_map(|(first, last)| Self::gaps(*first, *last, other))
    }

    /// The numbers of a range that `other` has not.
    fn gaps(first: u64, last: u64, other: &Self) -> impl Iterator<Item = u64> + '_ {
        let mut next = first;
        std::iter::from_fn(move || {
            while next <= last {
                match other.ranges.range(..=next).next_back() {
                    Some((_, end)) if next <= *end => next = end + 1,
                    _ => {
                        next += 1;
                        return Some(next - 1);
                    }
                }
            }
            None
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(numbers: &[u64]) -> Runs {
        let mut runs = Runs::default();
        for number in numbers {
            runs.insert(*number);
        }
        runs
    }

    #[test]
    fn ranges_grow_together_in_any_order() {
        let mut some = runs(&[5, 1, 3, 2, 9, 4]);
        assert_eq!(some.ranges, BTreeMap::from([(1, 5), (9, 9)]));
        assert!(!some.insert(3) && some.insert(8));
        assert_eq!((some.len(), some.last()), (7, Some(9)));
        assert_eq!([0, 2, 5, 8, 9].map(|n| some.count_behind(n)), [7, 5, 2, 1, 0]);
        assert_eq!(
            [0, 1, 5, 6, 8, 10].map(|n| some.contains(n)),
            [false, true, true, false, true, false]
        );
    }

    #[test]
    fn what_another_lacks_is_listed() {
        let all = runs(&[1, 2, 3, 4, 5, 8, 9]);
        let missing = |other: &[u64]| all.without(&runs(other)).collect::<Vec<_>>();
        assert_eq!(missing(&[2, 3, 8]), [1, 4, 5, 9]);
        assert_eq!(missing(&[1, 2, 3, 4, 5, 6, 7, 8, 9]), [0; 0]);
        assert_eq!(missing(&[]), [1, 2, 3, 4, 5, 8, 9]);
    }
}
