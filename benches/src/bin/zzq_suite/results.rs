//! What has been measured: a line of JSON for each cell and peer, so that a run that was ended goes
//! on where it stopped.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use zzq_bench::spread::Spread;

/// A cell with a peer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) cell: String,
    /// The setting of the peer.
    pub(crate) peer: String,
    pub(crate) rounds: u32,
    pub(crate) seconds: f64,
    pub(crate) date: String,
    /// Of the machine: processor, kernel, file system.
    pub(crate) machine: String,
    /// Ours, and a checksum of its program.
    pub(crate) version: String,
    pub(crate) program: u32,
    pub(crate) peer_version: String,
    pub(crate) measures: BTreeMap<String, Compared>,
    /// Rounds in which a message was lost, doubled, out of order or not acknowledged: ours, the
    /// peer's.
    pub(crate) faults: (u32, u32),
}

/// One figure of both.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Compared {
    /// Medians.
    pub(crate) ours: f64,
    pub(crate) theirs: f64,
    /// Ours by theirs, round by round.
    pub(crate) ratio: Spread,
}

impl Compared {
    /// From the values of each round; `None` if there are none, or one is zero.
    pub(crate) fn of(rounds: &[(f64, f64)]) -> Option<Self> {
        if rounds.is_empty() || rounds.iter().any(|(ours, theirs)| *ours <= 0.0 || *theirs <= 0.0) {
            return None;
        }
        Some(Self {
            ours: Spread::of(rounds.iter().map(|pair| pair.0)).median,
            theirs: Spread::of(rounds.iter().map(|pair| pair.1)).median,
            ratio: Spread::of(rounds.iter().map(|(ours, theirs)| ours / theirs)),
        })
    }
}

/// The newest of a cell with a setting of a peer.
pub(crate) fn newest<'a>(records: &'a [Record], cell: &str, peer: &str) -> Option<&'a Record> {
    records.iter().rev().find(|record| record.cell == cell && record.peer == peer)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A record of the best that can be, but for one measure.
    pub(crate) fn record(cell: &str, peer: &str, measures: &[(&str, f64)]) -> Record {
        let compared = |ratio: f64| Compared {
            ours: 10.0 * ratio,
            theirs: 10.0,
            ratio: Spread { median: ratio, least: ratio / 2.0, most: ratio * 2.0 },
        };
        let measures = measures.iter().map(|(name, ratio)| ((*name).into(), compared(*ratio)));
        Record {
            cell: cell.into(),
            peer: peer.into(),
            rounds: 9,
            seconds: 1.0,
            date: "2026-01-02".into(),
            machine: "a machine".into(),
            version: "ours 1".into(),
            program: 7,
            peer_version: "theirs 1".into(),
            measures: measures.collect(),
            faults: (0, 0),
        }
    }

    #[test]
    fn the_last_of_a_cell_with_a_peer_counts() {
        let first = record("a", "p", &[("x", 1.5)]);
        let second = Record { rounds: 11, ..first.clone() };
        let records = [first, second.clone()];
        assert_eq!(newest(&records, "a", "p"), Some(&second));
        assert_eq!(newest(&records, "a", "q"), None);
    }

    #[test]
    fn ratios_are_those_of_the_rounds() {
        let compared = Compared::of(&[(2.0, 1.0), (3.0, 3.0), (8.0, 2.0)]).unwrap();
        assert_eq!((compared.ours, compared.theirs), (3.0, 2.0));
        assert_eq!(compared.ratio, Spread { median: 2.0, least: 1.0, most: 4.0 });
        assert_eq!(Compared::of(&[(1.0, 0.0)]), None);
        assert_eq!(Compared::of(&[]), None);
    }
}
