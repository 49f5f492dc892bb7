//! Whether what a broker made of a damage is what has to follow from it.
//!
//! Owns: the judgement. Does not know: how the damage was done.

use super::change::{Expected, Store};
use crate::accounts::Broken;

/// What a broker made of a damaged directory.
#[derive(Clone, Debug)]
pub(super) enum Outcome {
    /// It ended with the status of damage, and logged this.
    Refused(String),
    /// It did something else than serve, in words.
    Fell(String),
    /// It serves; what it then broke, what it logged, and what its log holds.
    Served { broken: Vec<Broken>, log: String, after: Store },
}

/// A promise that was broken, and by what.
pub(super) type Accusation = (&'static str, String);

const REFUSED: &str = "damage is refused";
const PASSED: &str = "what nobody was told of is passed over";
const NAMED: &str = "damage is named";
const PREFIX: &str = "the log ends cleanly";

/// What those may miss whose messages are damaged; anything else is no consequence of that.
const MISSED: [&str; 3] = ["nothing lost", "heals", "retained is the last acknowledged"];

/// What is to be held against the broker.
pub(super) fn judge(expected: &Expected, before: &Store, outcome: &Outcome) -> Option<Accusation> {
    let names = |words: &[String], text: &str| words.iter().any(|word| text.contains(word));
    let strange = |how: &str| Some((PASSED, format!("the broker {how}")));
    match (expected, outcome) {
        (_, Outcome::Fell(how)) => strange(how),
        (Expected::Exact, Outcome::Refused(said)) => strange(&format!("refuses:\n{said}")),
        (
            Expected::Refused(words)
            | Expected::ExactOrRefused(words)
            | Expected::Prefix(_, words)
            | Expected::Named(words),
            Outcome::Refused(said),
        ) => {
            let what = || format!("the broker refuses, but names none of {words:?}:\n{said}");
            (!names(words, said)).then(|| (REFUSED, what()))
        }
        (Expected::Refused(words), Outcome::Served { .. }) => {
            Some((REFUSED, format!("where {words:?} should be named the broker starts")))
        }
        (Expected::Exact | Expected::ExactOrRefused(_), Outcome::Served { broken, .. }) => {
            broken.first().map(|broken| (PASSED, broken.to_string()))
        }
        (Expected::Prefix(lsn, _), Outcome::Served { after, .. }) => {
            not_a_prefix(before, after, *lsn).map(|what| (PREFIX, what))
        }
        (Expected::Named(words), Outcome::Served { broken, log, .. }) => {
            let other = broken.iter().find(|broken| !MISSED.contains(&broken.promise));
            if let Some(other) = other {
                return Some((PASSED, other.to_string()));
            }
            let what = |lost: &Broken| format!("{lost}, and the broker names none of {words:?}");
            let lost = broken.first().filter(|_| !names(words, log));
            lost.map(|lost| (NAMED, what(lost)))
        }
    }
}

/// The log behind a start is what it was up to a place, at this record or behind it, and nothing
/// of the rest.
fn not_a_prefix(before: &Store, after: &Store, least: u64) -> Option<String> {
    // What was trimmed meanwhile is missing in front.
    let first = *after.records.keys().next()?;
    let kept = before.records.range(first..);
    let is_kept = |&(lsn, record): &(&u64, &u64)| after.records.get(lsn) == Some(record);
    let end = kept.clone().find(|one| !is_kept(one)).map(|(lsn, _)| *lsn)?;
    if end < least {
        return Some(format!("record {end} is gone or changed, which others follow to {least}"));
    }
    let back = kept.skip_while(is_kept).find(is_kept).map(|(lsn, _)| *lsn)?;
    Some(format!("record {end} is gone, and {back} behind it is there"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store(records: &[(u64, u64)]) -> Store {
        Store { records: records.iter().copied().collect(), ..Store::default() }
    }

    fn refused(said: &str) -> Outcome {
        Outcome::Refused(said.to_owned())
    }

    fn served(promises: &[&'static str], log: &str) -> Outcome {
        let broken = promises.iter().map(|promise| Broken { promise, what: "3".into() });
        let after = store(&[(1, 10), (2, 20), (3, 30)]);
        Outcome::Served { broken: broken.collect(), log: log.to_owned(), after }
    }

    fn accused(expected: &Expected, outcome: &Outcome) -> Option<&'static str> {
        let before = store(&[(1, 10), (2, 20), (3, 30)]);
        judge(expected, &before, outcome).map(|(promise, _)| promise)
    }

    /// A broker that serves what is damaged as if nothing were is accused, and so is one that
    /// refuses without a word about where.
    #[test]
    fn damage_that_is_not_refused_is_held_against_the_broker() {
        let expected = Expected::Refused(vec!["1.log is damaged at byte 4096:".to_owned()]);
        assert_eq!(accused(&expected, &served(&[], "")), Some(REFUSED));
        assert_eq!(accused(&expected, &served(&["nothing lost"], "1.log")), Some(REFUSED));
        assert_eq!(accused(&expected, &refused("1.log is damaged at byte 8192:")), Some(REFUSED));
        assert_eq!(accused(&expected, &refused("1.log is damaged at byte 4096: x")), None);
        assert_eq!(accused(&expected, &Outcome::Fell("ends with 1".into())), Some(PASSED));
    }

    #[test]
    fn what_says_nothing_that_counts_is_neither_refused_nor_missed() {
        assert_eq!(accused(&Expected::Exact, &served(&[], "")), None);
        assert_eq!(accused(&Expected::Exact, &refused("meta")), Some(PASSED));
        assert_eq!(accused(&Expected::Exact, &served(&["nothing lost"], "")), Some(PASSED));
        let either = Expected::ExactOrRefused(vec!["meta".to_owned()]);
        assert_eq!(accused(&either, &refused("meta is gone")), None);
        assert_eq!(accused(&either, &refused("no")), Some(REFUSED));
        assert_eq!(accused(&either, &served(&["nothing lost"], "")), Some(PASSED));
    }

    /// An acknowledged message that lay in a damaged file may be missing only if that is said, and
    /// nothing else may be wrong for it.
    #[test]
    fn a_damaged_message_that_is_missing_without_a_word_is_held_against_the_broker() {
        let expected = Expected::Named(vec!["5.cold".to_owned()]);
        assert_eq!(accused(&expected, &served(&[], "")), None);
        assert_eq!(accused(&expected, &served(&["nothing lost"], "")), Some(NAMED));
        assert_eq!(accused(&expected, &served(&["nothing lost"], "5.cold is bad")), None);
        for promise in ["at most once", "nothing invented", "whole and unchanged", "order"] {
            assert_eq!(accused(&expected, &served(&[promise], "5.cold is bad")), Some(PASSED));
        }
    }

    #[test]
    fn a_log_that_ends_early_ends_cleanly_and_behind_what_is_proven() {
        let expected = Expected::Prefix(2, vec!["2.log".to_owned()]);
        let with = |records: &[(u64, u64)]| Outcome::Served {
            broken: Vec::new(),
            log: String::new(),
            after: store(records),
        };
        assert_eq!(accused(&expected, &with(&[(1, 10), (2, 20), (3, 30), (4, 9)])), None, "all");
        assert_eq!(accused(&expected, &with(&[(1, 10), (2, 20), (3, 7)])), None, "up to 2");
        assert_eq!(accused(&expected, &with(&[(1, 10), (2, 7)])), None, "up to 1");
        assert_eq!(accused(&expected, &with(&[(1, 7), (2, 8)])), Some(PREFIX), "1 was proven");
        assert_eq!(accused(&expected, &with(&[(1, 10), (3, 30)])), Some(PREFIX), "a hole");
        assert_eq!(accused(&expected, &with(&[(3, 30), (4, 9)])), None, "the rest was trimmed");
        assert_eq!(accused(&expected, &refused("2.log is damaged")), None);
        assert_eq!(accused(&expected, &refused("1.log is damaged")), Some(REFUSED));
    }
}
