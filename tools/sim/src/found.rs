//! Seeds that have once found a defect and lie beyond those that every change runs.
//!
//! A defect has a test of its own in the room where it was. What clients do has changed since, and
//! with it these lives; they are run for what may be left of them, and since they cost nothing.

/// See the file; in their order.
const FOUND: [u64; 7] =
    [4249, 21_625, 22_641, 42_296, 701_470, 1_796_289_241_145, 1_796_304_899_743];

/// Those that are not among so many seeds from 0 on.
pub fn beyond(seeds: u64) -> impl Iterator<Item = u64> {
    FOUND.into_iter().filter(move |seed| *seed >= seeds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_run_is_not_run_again() {
        assert!(FOUND.is_sorted());
        assert_eq!(beyond(0).count(), FOUND.len());
        assert_eq!(beyond(4250).collect::<Vec<_>>(), FOUND[1..]);
    }
}
