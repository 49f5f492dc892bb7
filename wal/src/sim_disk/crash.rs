//! What is left of a disk after a power cut.
//!
//! Owns: the choice of what survives. Nothing that was durable is ever lost; of everything else
//! any part may be, in any order: a later write can be there without an earlier one, a write can
//! be torn between any two sectors, a name can be there without the bytes of its file.

use crate::sim_disk::SimDisk;
use crate::sim_disk::file::Part;
use crate::sim_disk::names::Names;
use crate::sim_disk::random::Choice;
use crate::sim_disk::state::State;

/// What becomes of that which was not durable when the power went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Survival {
    /// All of it is lost.
    Nothing,
    /// All of it is there, writes in flight included.
    Everything,
    /// Chance decides, always in the same way for the same seed and the same disk.
    Seeded(u64),
}

/// Each question has a number of its own, so that the answers do not depend on each other.
const WHOLE: u64 = 1;
const WRITES: u64 = 2;
const NAMES: u64 = 3;
const LENGTHS: u64 = 4;

impl Survival {
    /// Settles what chance decides at once for the whole disk: one crash in eight takes
    /// everything, one leaves everything. The cases between are far more, but not more telling.
    pub(super) fn settle(self) -> Self {
        match self {
            Self::Seeded(seed) => match Choice::new(seed).about(WHOLE).below(8) {
                0 => Self::Nothing,
                1 => Self::Everything,
                _ => self,
            },
            settled => settled,
        }
    }

    /// Whether a sector of a write that was not durable has its bytes.
    pub(super) fn keeps(self, part: Part) -> bool {
        self.decide(WRITES, |choice| {
            let write = choice.about(part.write);
            let cut = usize::try_from(write.about(1).below(part.count as u64 + 1));
            let cut = cut.unwrap_or(part.count);
            match write.below(5) {
                0 => false,
                1 => true,
                2 => part.index < cut,
                3 => part.index >= cut,
                _ => write.about(2).about(part.index as u64).coin(),
            }
        })
    }

    /// Whether the n-th change of names that was not durable is there.
    pub(super) fn keeps_name(self, change: u64) -> bool {
        self.decide(NAMES, |choice| choice.about(change).coin())
    }

    /// Whether a file that has grown since its last sync keeps its new length.
    pub(super) fn keeps_length(self, file: usize) -> bool {
        self.decide(LENGTHS, |choice| choice.about(file as u64).coin())
    }

    fn decide(self, question: u64, chance: impl FnOnce(Choice) -> bool) -> bool {
        match self {
            Self::Nothing => false,
            Self::Everything => true,
            Self::Seeded(seed) => chance(Choice::new(seed).about(question)),
        }
    }
}

impl SimDisk {
    /// The disk as it is after a power cut at this moment, chance deciding about everything that
    /// was not durable. This one goes on as if nothing had happened.
    #[must_use]
    pub fn crash(&self, seed: u64) -> Self {
        self.crash_with(Survival::Seeded(seed))
    }

    /// The disk as it is after a power cut at this moment.
    #[must_use]
    pub fn crash_with(&self, survival: Survival) -> Self {
        let survival = survival.settle();
        let state = self.state();
        let names = state.names.after_crash(|change| survival.keeps_name(change));
        let kept = names.into_iter().enumerate();
        let (names, files) = kept
            .map(|(file, (name, old))| {
                let before = state.with_flight(old);
                ((name, file), before.after_crash(survival, old))
            })
            .unzip();
        let mut after = State::with_files(state.capacity, Names::durable(names), files);
        after.lie = state.lie;
        Self::from_state(after)
    }

    /// The disk as a new process finds it when only the old one ended: the writes in flight are
    /// carried out and can be read, but none is durable, as when a process is killed between a
    /// write and its flush. Nothing else is lost or more durable than before, faults are gone.
    #[must_use]
    pub fn restart(&self) -> Self {
        let state = self.state();
        Self::from_state(state.carried_out())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn a_write_meets_every_fate() {
        let mut fates = HashSet::new();
        for seed in 0..200 {
            let part = |index| Part { write: 3, index, count: 4 };
            let fate: Vec<bool> =
                (0..4).map(|index| Survival::Seeded(seed).keeps(part(index))).collect();
            fates.insert(fate);
        }
        for fate in [
            [false; 4],
            [true; 4],
            [true, true, false, false],
            [false, false, false, true],
            [true, false, true, false],
        ] {
            assert!(fates.contains(fate.as_slice()), "{fate:?}");
        }
    }

    #[test]
    fn writes_of_one_crash_have_fates_of_their_own() {
        let kept = |write| Survival::Seeded(1).keeps(Part { write, index: 0, count: 1 });
        let count = (0..100).filter(|write| kept(*write)).count();
        assert!((20..80).contains(&count), "{count}");
    }

    #[test]
    fn some_crashes_are_settled_as_a_whole() {
        let settled: HashSet<_> = (0..100)
            .map(|seed| match Survival::Seeded(seed).settle() {
                Survival::Nothing => 0,
                Survival::Everything => 1,
                Survival::Seeded(_) => 2,
            })
            .collect();
        assert_eq!(settled.len(), 3);
        assert_eq!(Survival::Nothing.settle(), Survival::Nothing);
    }
}
