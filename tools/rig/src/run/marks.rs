//! Every moment at which a broker was struck: killed, cut off from power, stopped, refused by its
//! disk; and what it had acknowledged by then against what was there behind it.
//!
//! Owns: that list. Does not know: how it is drawn.

use std::time::Duration;

use crate::accounts::Accounts;

/// What struck.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Hit {
    /// SIGKILL.
    Kill,
    /// The disk is as a loss of power may have left it.
    PowerCut,
    /// An operation of the file system failed.
    Fault,
    /// A copy of its files was changed.
    Damage,
    /// SIGSTOP.
    Pause,
    /// A publish was refused: there was no space for it.
    Refusal,
}

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// From the beginning of the run.
    pub at: Duration,
    /// How many rounds had begun.
    pub round: usize,
    /// What struck.
    pub hit: Hit,
    /// Publishes acknowledged on this data directory until then; of a change to a copy nothing is
    /// counted.
    pub acknowledged: Option<u64>,
    /// How many of these were there when all was settled again.
    pub recovered: Option<u64>,
}

/// All of them, in their order.
#[derive(Clone, Debug, Default)]
pub struct Marks {
    list: Vec<Mark>,
    /// Those from here on have not been followed by a recovery.
    unsettled: usize,
}

impl Hit {
    /// All kinds.
    pub const ALL: [Self; 6] =
        [Self::Kill, Self::PowerCut, Self::Fault, Self::Damage, Self::Pause, Self::Refusal];

    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Self::Kill => "kill",
            Self::PowerCut => "power cut",
            Self::Fault => "failed operation",
            Self::Damage => "damaged copy",
            Self::Pause => "stop",
            Self::Refusal => "refused publish",
        }
    }
}

impl Marks {
    pub(super) fn add(&mut self, mark: Mark) {
        self.list.push(mark);
    }

    /// All accounts of a broker were settled, of those who are away `with_away` only.
    pub(super) fn settle(&mut self, accounts: &Accounts, with_away: bool) {
        let absent = accounts.absent(with_away);
        for mark in &mut self.list[self.unsettled..] {
            if mark.recovered.is_none() {
                mark.recovered = mark.acknowledged.map(|count| count.saturating_sub(absent));
            }
        }
        self.unsettled = self.list.len();
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Mark> + '_ {
        self.list.iter()
    }

    /// How often the broker was struck so, that it is known what it had acknowledged and kept; and
    /// how much that was, over all.
    pub fn recovered(&self) -> (u64, u64, u64) {
        let known = self.iter().filter_map(|mark| mark.acknowledged.zip(mark.recovered));
        known.fold((0, 0, 0), |(times, acknowledged, recovered), (before, behind)| {
            (times + 1, acknowledged + before, recovered + behind)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accounts::Entry;

    fn mark(hit: Hit, acknowledged: Option<u64>) -> Mark {
        Mark { at: Duration::ZERO, round: 1, hit, acknowledged, recovered: None }
    }

    #[test]
    fn what_is_missing_behind_a_hit_was_not_recovered() {
        let mut accounts = Accounts::default();
        accounts.apply(&Entry::Subscribed { who: 0 });
        accounts.apply(&Entry::Sent { by: 0, seq: 1, id: 1 });
        accounts.apply(&Entry::Acked { by: 0, seq: 1 });
        let mut marks = Marks::default();
        marks.add(mark(Hit::Kill, Some(1)));
        marks.add(mark(Hit::Damage, None));
        marks.settle(&accounts, true);
        marks.add(mark(Hit::Kill, Some(1)));
        accounts.apply(&Entry::Took { who: 0, id: 1, qos: 1, by: 0, seq: 1 });
        marks.settle(&accounts, true);
        let recovered: Vec<_> = marks.iter().map(|mark| mark.recovered).collect();
        assert_eq!(recovered, [Some(0), None, Some(1)]);
        assert_eq!(marks.recovered(), (2, 2, 1));
    }
}
