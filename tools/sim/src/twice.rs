//! A seed of a run once more: the same seed is the same run, or no failure could be replayed.
//!
//! Owns: which one, and the comparison. Does not know: where runs that differ begin to.

use std::fmt;

use crate::runs::Runs;
use crate::verdict::Verdict;

/// The trace hashes of two runs of a seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Twice {
    /// Which.
    pub seed: u64,
    /// Of the first run and of the second.
    pub hashes: [u64; 2],
}

impl Twice {
    /// Runs the seed in the middle of those that have come to an end once more; `None` if there is
    /// none.
    pub fn of(runs: &Runs, verdicts: &[Verdict]) -> Option<Self> {
        let ended: Vec<&Verdict> = verdicts.iter().filter(|one| one.hash != 0).collect();
        let first = ended.get(ended.len() / 2)?;
        let again = Runs { from: first.seed, seeds: 1, ..*runs }.run(|_| false);
        Some(Self { seed: first.seed, hashes: [first.hash, again.first()?.hash] })
    }

    /// Whether both were the same run.
    pub fn is_same(&self) -> bool {
        let [first, second] = self.hashes;
        first == second
    }
}

impl fmt::Display for Twice {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seed, [first, second]) = (self.seed, self.hashes);
        if self.is_same() {
            return write!(out, "seed {seed} was run twice and was the same run");
        }
        write!(out, "seed {seed} is not the same run twice: {first:016x}, {second:016x}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUNS: Runs = Runs { from: 3, seeds: 1, lanes: Some(1), jobs: Some(1), before: || {} };

    #[test]
    fn a_seed_that_is_another_run_the_second_time_is_told() {
        let mut verdicts = RUNS.run(|_| false);
        let same = Twice::of(&RUNS, &verdicts).unwrap();
        assert!(same.seed == 3 && same.is_same(), "{same}");
        verdicts[0].hash ^= 1;
        let other = Twice::of(&RUNS, &verdicts).unwrap();
        assert!(!other.is_same() && other.to_string().contains("not the same run"), "{other}");
    }

    #[test]
    fn what_had_no_end_is_not_run_again() {
        let verdicts = [Verdict::cut_short(3, "healed", "a step never ends")];
        assert_eq!(Twice::of(&RUNS, &verdicts), None);
    }
}
