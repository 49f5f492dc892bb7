//! What has been measured: a line of JSON for each cell and peer, so that a run that was ended goes
//! on where it stopped.

use std::collections::BTreeMap;
use std::ops::AddAssign;

use serde::{Deserialize, Serialize};
use zzq_bench::load::Figures;
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
    /// Rounds in which something happened that MQTT rules out at this QoS: ours, the peer's.
    pub(crate) faults: (u32, u32),
    /// What happened in rounds that were not as they should be: ours, the peer's. The oldest lines
    /// have none.
    #[serde(default)]
    pub(crate) went: (Went, Went),
}

/// In how many rounds which kind of thing happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Went {
    /// Acknowledged, and never delivered.
    pub(crate) lost: u32,
    /// Delivered again, not at QoS 1.
    pub(crate) doubled: u32,
    pub(crate) reordered: u32,
    /// Delivered, and never sent.
    pub(crate) foreign: u32,
    /// Not delivered at QoS 0.
    pub(crate) dropped: u32,
    /// Delivered again at QoS 1.
    pub(crate) repeated: u32,
    /// Publishes that were not acknowledged.
    pub(crate) unanswered: u32,
}

impl Went {
    /// How one round went.
    pub(crate) fn of(figures: &Figures) -> Self {
        let some = |count: u64| u32::from(count > 0);
        let counts = figures.counts;
        Self {
            lost: some(counts.lost),
            doubled: some(counts.doubled),
            reordered: some(counts.reordered),
            foreign: some(counts.foreign),
            dropped: some(counts.dropped),
            repeated: some(counts.repeated),
            unanswered: some(figures.unacknowledged),
        }
    }
}

impl AddAssign for Went {
    fn add_assign(&mut self, other: Self) {
        self.lost += other.lost;
        self.doubled += other.doubled;
        self.reordered += other.reordered;
        self.foreign += other.foreign;
        self.dropped += other.dropped;
        self.repeated += other.repeated;
        self.unanswered += other.unanswered;
    }
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
    use zzq_bench::load::Counts;

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
            went: (Went::default(), Went::default()),
        }
    }

    #[test]
    fn lines_that_do_not_say_how_rounds_went_are_read() {
        let record = record("a", "p", &[]);
        let mut line = serde_json::to_value(&record).unwrap();
        line.as_object_mut().unwrap().remove("went").unwrap();
        assert_eq!(serde_json::from_value::<Record>(line).unwrap(), record);
    }

    #[test]
    fn rounds_count_and_not_messages() {
        let counts = Counts { lost: 5, repeated: 3, ..Counts::default() };
        let mut went = Went::of(&Figures { counts, ..Figures::default() });
        went += Went::of(&Figures { unacknowledged: 9, counts, ..Figures::default() });
        assert_eq!(went, Went { lost: 2, repeated: 2, unanswered: 1, ..Went::default() });
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
