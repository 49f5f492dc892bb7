//! What is to be held against a broker that was started on a damaged disk.

use std::collections::BTreeMap;

use super::{Expected, Store};

/// What a broker made of a damaged disk.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// It says that the disk is damaged, in these words.
    Refused(String),
    /// It does not start for another reason.
    Fell(String),
    /// It serves.
    Served(Served),
}

/// What a broker has that serves from a damaged disk.
#[derive(Clone, Debug, Default)]
pub struct Served {
    /// What stands for each record of the log that can be read.
    pub records: BTreeMap<u64, u64>,
    /// How its state differs from that on the disk that was not damaged.
    pub differs: Option<String>,
    /// How its state differs from the fold of its own log.
    pub unfolded: Option<String>,
    /// What reading the log through says, where it does not end by itself.
    pub stops: Option<String>,
}

/// What is wrong with it, if anything is.
pub fn judge(expected: &Expected, before: &Store, outcome: &Outcome) -> Result<(), String> {
    match (expected, outcome) {
        (_, Outcome::Fell(how)) => Err(format!("the broker does not start: {how}")),
        (Expected::Exact, Outcome::Refused(said)) => Err(format!("the broker refuses: {said}")),
        (
            Expected::Refused(words) | Expected::ExactOrRefused(words) | Expected::Prefix(_, words),
            Outcome::Refused(said),
        ) => names(words, said),
        (Expected::Refused(words), Outcome::Served(_)) => {
            Err(format!("where {words:?} should be named the broker starts"))
        }
        (Expected::Exact, Outcome::Served(served)) => {
            is_genuine(before, served)?;
            served.stops.clone().map_or(Ok(()), Err)?;
            is_prefix(before, served, 0, u64::MAX)?;
            served.differs.clone().map_or(Ok(()), Err)
        }
        (Expected::ExactOrRefused(words), Outcome::Served(served)) => {
            is_genuine(before, served)?;
            is_prefix(before, served, behind(words, before, served)?, u64::MAX)?;
            served.differs.clone().map_or(Ok(()), Err)
        }
        (Expected::Prefix(least, words), Outcome::Served(served)) => {
            is_genuine(before, served)?;
            is_prefix(before, served, behind(words, before, served)?, *least)
        }
    }
}

/// What an image covers need not be there for who reads it, if that is said: all behind it is.
fn behind(words: &[String], before: &Store, served: &Served) -> Result<u64, String> {
    let Some(said) = &served.stops else { return Ok(0) };
    names(words, said).map(|()| before.covered())
}

fn names(words: &[String], said: &str) -> Result<(), String> {
    let is_named = words.iter().any(|word| said.contains(word));
    if is_named { Ok(()) } else { Err(format!("none of {words:?} is named: {said}")) }
}

/// No record is another one than was written, and the state is that of the records.
fn is_genuine(before: &Store, served: &Served) -> Result<(), String> {
    let end = before.records.keys().next_back().copied().unwrap_or(0);
    let mut common = served.records.range(..=end);
    let same = |lsn: &u64, record: &u64| before.records.get(lsn).is_none_or(|was| was == record);
    // What is lost behind an end that nothing proves gives its place to others.
    let wrong = common.find(|(lsn, record)| !same(lsn, record));
    if let Some((lsn, _)) = wrong
        && let Some((back, _)) =
            common.find(|(lsn, record)| before.records.get(lsn) == Some(record))
    {
        return Err(format!("record {lsn} is another one, and {back} behind it is there"));
    }
    served.unfolded.clone().map_or(Ok(()), Err)
}

/// Behind a record, the log is what it was up to a place, at `least` or behind it, and nothing of
/// the rest.
fn is_prefix(before: &Store, served: &Served, behind: u64, least: u64) -> Result<(), String> {
    // What was trimmed meanwhile is missing in front.
    let Some(first) = served.records.keys().next() else { return Ok(()) };
    let kept = before.records.range((behind + 1).max(*first)..);
    let is_kept = |&(lsn, record): &(&u64, &u64)| served.records.get(lsn) == Some(record);
    let Some((end, _)) = kept.clone().find(|one| !is_kept(one)) else { return Ok(()) };
    if *end < least {
        return Err(format!("record {end} is gone or changed"));
    }
    match kept.skip_while(is_kept).find(is_kept) {
        Some((back, _)) => Err(format!("record {end} is gone, and {back} behind it is there")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn before() -> Store {
        Store { records: [(1, 10), (2, 20), (3, 30)].into(), ..Store::default() }
    }

    fn served(records: &[(u64, u64)]) -> Served {
        Served { records: records.iter().copied().collect(), ..Served::default() }
    }

    fn is_accused(expected: &Expected, outcome: &Outcome) -> bool {
        judge(expected, &before(), outcome).is_err()
    }

    const ALL: [(u64, u64); 4] = [(1, 10), (2, 20), (3, 30), (4, 40)];

    #[test]
    fn damage_that_is_not_refused_by_name_is_held_against_the_broker() {
        let expected = Expected::Refused(vec!["1.log is damaged at byte 4096:".to_owned()]);
        let refused = |said: &str| Outcome::Refused(said.to_owned());
        assert!(is_accused(&expected, &Outcome::Served(served(&ALL))));
        assert!(is_accused(&expected, &refused("1.log is damaged at byte 8192:")));
        assert!(!is_accused(&expected, &refused("1.log is damaged at byte 4096: x")));
        assert!(is_accused(&expected, &Outcome::Fell("no".into())));
        assert!(is_accused(&Expected::Exact, &refused("meta")));
        let either = Expected::ExactOrRefused(vec!["meta".to_owned()]);
        assert!(
            !is_accused(&either, &refused("meta is gone")) && is_accused(&either, &refused("no"))
        );
    }

    #[test]
    fn who_serves_has_all_unless_nothing_proves_it() {
        let either = Expected::ExactOrRefused(vec!["1.log".to_owned()]);
        for exact in [Expected::Exact, either.clone()] {
            let with = |served| is_accused(&exact, &Outcome::Served(served));
            assert!(!with(served(&ALL)));
            assert!(with(served(&ALL[..2])), "lost");
            assert!(with(served(&[(1, 10), (2, 7), (3, 30)])), "forged");
            let why = || Some("retained".to_owned());
            assert!(with(Served { differs: why(), ..served(&ALL) }));
            assert!(with(Served { unfolded: why(), ..served(&ALL) }));
        }
        // What an image covers need not be there, if it is said.
        let before = Store { images: vec![2], ..before() };
        let is_accused = |expected: &Expected, outcome| judge(expected, &before, &outcome).is_err();
        let stops = |said: &str| {
            Outcome::Served(Served { stops: Some(said.to_owned()), ..served(&[(1, 10), (3, 30)]) })
        };
        assert!(!is_accused(&either, stops("1.log is damaged")));
        assert!(is_accused(&either, stops("2.log is damaged")));
    }

    #[test]
    fn a_log_that_ends_early_ends_cleanly_and_behind_what_is_proven() {
        let expected = Expected::Prefix(2, vec!["2.log".to_owned()]);
        let with =
            |records: &[(u64, u64)]| is_accused(&expected, &Outcome::Served(served(records)));
        assert!(!with(&ALL), "all");
        assert!(!with(&[(1, 10), (2, 20), (3, 7)]), "up to 2");
        assert!(!with(&[(1, 10), (2, 7)]), "up to 1");
        assert!(with(&[(1, 7), (2, 8)]), "1 was proven");
        assert!(with(&[(1, 10), (3, 30)]), "a hole");
        assert!(with(&[(1, 10), (2, 7), (3, 30)]), "forged");
        assert!(!with(&[(3, 30), (4, 9)]), "the rest was trimmed");
    }
}
