//! Queue numbers as ranges: what a connection has answered and the log was not told yet.
//!
//! Assumes: acknowledgements come nearly in order, so that few ranges are held.

use zzq_engine::QueueNumber;
use zzq_engine::record::NumberRange;

/// A set of numbers in ascending, separate, inclusive ranges.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ranges(Vec<(u64, u64)>);

impl Ranges {
    /// Adds `number`; false if it is there already.
    pub(crate) fn insert(&mut self, number: u64) -> bool {
        // The common case: one behind the last.
        if let Some(last) = self.0.last_mut()
            && last.1 + 1 == number
        {
            last.1 = number;
            return true;
        }
        let at = self.0.partition_point(|range| range.1 < number);
        if self.0.get(at).is_some_and(|range| range.0 <= number) {
            return false;
        }
        let joins_next = self.0.get(at).is_some_and(|range| range.0 == number + 1);
        let joins_before = at > 0 && self.0[at - 1].1 + 1 == number;
        match (joins_before, joins_next) {
            (true, true) => {
                self.0[at - 1].1 = self.0[at].1;
                self.0.remove(at);
            }
            (true, false) => self.0[at - 1].1 = number,
            (false, true) => self.0[at].0 = number,
            (false, false) => self.0.insert(at, (number, number)),
        }
        true
    }

    /// Whether `number` is there.
    pub(crate) fn contains(&self, number: u64) -> bool {
        let at = self.0.partition_point(|range| range.1 < number);
        self.0.get(at).is_some_and(|range| range.0 <= number)
    }

    /// Whether nothing is there.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The ranges, ascending.
    pub(crate) fn iter(&self) -> impl Iterator<Item = NumberRange> {
        self.0.iter().map(|&(first, last)| NumberRange {
            first: QueueNumber::new(first),
            last: QueueNumber::new(last),
        })
    }

    /// Forgets everything and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn neighbours_grow_together() {
        let mut ranges = Ranges::default();
        for number in [5, 7, 6, 9, 4] {
            assert!(ranges.insert(number));
        }
        assert_eq!(ranges.0, [(4, 7), (9, 9)]);
        assert!(!ranges.insert(6));
        ranges.clear();
        assert!(ranges.is_empty());
    }

    proptest! {
        #[test]
        fn it_is_a_set(numbers in proptest::collection::vec(1..40_u64, 0..200)) {
            let (mut ranges, mut model) = (Ranges::default(), BTreeSet::new());
            for number in numbers {
                prop_assert_eq!(ranges.contains(number), model.contains(&number));
                prop_assert_eq!(ranges.insert(number), model.insert(number));
                prop_assert!(ranges.contains(number));
                let all: Vec<u64> = ranges.0.iter().flat_map(|r| r.0..=r.1).collect();
                prop_assert_eq!(all, model.iter().copied().collect::<Vec<_>>());
                let apart = ranges.0.windows(2).all(|pair| pair[0].1 + 1 < pair[1].0);
                prop_assert!(apart, "ranges that touch are one");
            }
        }
    }
}
