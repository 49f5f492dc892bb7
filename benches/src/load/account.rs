//! What became of the messages of one publisher at one subscriber.

use std::collections::BTreeMap;
use std::ops::AddAssign;

use zzq_types::QoS;

/// How many of each kind. What MQTT allows at a QoS has a name of its own: nobody is blamed for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Counts {
    /// Deliveries, repeated ones too.
    pub delivered: u64,
    /// Messages that never came, and were acknowledged.
    pub lost: u64,
    /// Messages at QoS 0 that never came: nothing was promised.
    pub dropped: u64,
    /// Deliveries of what had come already, at QoS 0 and 2.
    pub doubled: u64,
    /// The same at QoS 1, which is at least once.
    pub repeated: u64,
    /// Messages that came behind a later one.
    pub reordered: u64,
    /// Deliveries without a mark, or from a publisher that has no business here.
    pub foreign: u64,
}

impl Counts {
    /// Calls what MQTT allows at this QoS by its name.
    pub(super) fn at(self, qos: QoS) -> Self {
        match qos {
            QoS::AtMostOnce => Self { lost: 0, dropped: self.lost, ..self },
            QoS::AtLeastOnce => Self { doubled: 0, repeated: self.doubled, ..self },
            QoS::ExactlyOnce => self,
        }
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.delivered += other.delivered;
        self.lost += other.lost;
        self.dropped += other.dropped;
        self.doubled += other.doubled;
        self.repeated += other.repeated;
        self.reordered += other.reordered;
        self.foreign += other.foreign;
    }
}

/// Follows the sequence numbers of one publisher at one subscriber.
#[derive(Debug, Default)]
pub struct Tracker {
    /// The highest number seen.
    highest: u64,
    /// Numbers below it that have not come: first to last.
    gaps: BTreeMap<u64, u64>,
    doubled: u64,
    reordered: u64,
    delivered: u64,
}

impl Tracker {
    /// A message came; false if it had come before.
    #[inline]
    pub fn arrived(&mut self, sequence: u64) -> bool {
        self.delivered += 1;
        if sequence == self.highest + 1 {
            self.highest = sequence;
            return true;
        }
        self.out_of_turn(sequence)
    }

    #[cold]
    fn out_of_turn(&mut self, sequence: u64) -> bool {
        if sequence > self.highest {
            self.gaps.insert(self.highest + 1, sequence - 1);
            self.highest = sequence;
            return true;
        }
        let fresh = self.close(sequence);
        self.reordered += u64::from(fresh);
        self.doubled += u64::from(!fresh);
        fresh
    }

    /// Takes a number out of the gaps; false if it is in none.
    fn close(&mut self, sequence: u64) -> bool {
        let Some((&first, &last)) = self.gaps.range(..=sequence).next_back() else { return false };
        if sequence > last {
            return false;
        }
        self.gaps.remove(&first);
        if first < sequence {
            self.gaps.insert(first, sequence - 1);
        }
        if sequence < last {
            self.gaps.insert(sequence + 1, last);
        }
        true
    }

    /// Takes over what another subscriber had of the same publisher, where each message goes to
    /// one of several: what both had was doubled.
    pub fn join(&mut self, other: &Self) {
        let both = self.arrivals() + other.arrivals();
        let mut ranges: Vec<_> = self.ranges().chain(other.ranges()).collect();
        ranges.sort_unstable();
        self.gaps.clear();
        self.highest = 0;
        for (first, last) in ranges {
            if first > self.highest + 1 {
                self.gaps.insert(self.highest + 1, first - 1);
            }
            self.highest = self.highest.max(last);
        }
        self.delivered += other.delivered;
        self.reordered += other.reordered;
        self.doubled += other.doubled + (both - self.arrivals());
    }

    /// How many numbers have come.
    fn arrivals(&self) -> u64 {
        self.ranges().map(|(first, last)| last - first + 1).sum()
    }

    /// The numbers that have come, first to last.
    fn ranges(&self) -> impl Iterator<Item = (u64, u64)> {
        let firsts = std::iter::once(1).chain(self.gaps.values().map(|last| last + 1));
        let lasts = self.gaps.keys().map(|first| first - 1).chain([self.highest]);
        firsts.zip(lasts).filter(|(first, last)| first <= last)
    }

    /// The counts, if numbers up to `promised` should have come: all that were sent, or all that
    /// were acknowledged.
    pub fn counts(&self, promised: u64) -> Counts {
        let inside: u64 = self
            .gaps
            .range(..=promised)
            .map(|(&first, &last)| last.min(promised) - first + 1)
            .sum();
        Counts {
            delivered: self.delivered,
            lost: inside + promised.saturating_sub(self.highest),
            doubled: self.doubled,
            reordered: self.reordered,
            ..Counts::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(arrivals: &[u64], promised: u64) -> (u64, u64, u64, u64) {
        let mut tracker = Tracker::default();
        for &sequence in arrivals {
            tracker.arrived(sequence);
        }
        let counts = tracker.counts(promised);
        (counts.delivered, counts.lost, counts.doubled, counts.reordered)
    }

    #[test]
    fn all_in_order_is_no_fault() {
        assert_eq!(counts(&[], 0), (0, 0, 0, 0));
        assert_eq!(counts(&[1, 2, 3], 3), (3, 0, 0, 0));
    }

    #[test]
    fn what_is_missing_is_lost() {
        assert_eq!(counts(&[], 5), (0, 5, 0, 0));
        assert_eq!(counts(&[2, 3, 7], 9), (3, 6, 0, 0));
        assert_eq!(counts(&[1, 2], 4), (2, 2, 0, 0));
    }

    #[test]
    fn only_what_was_promised_can_be_lost() {
        assert_eq!(counts(&[1, 2, 9], 5), (3, 3, 0, 0));
        assert_eq!(counts(&[1, 2, 9], 2), (3, 0, 0, 0));
        assert_eq!(counts(&[1, 2, 3], 1), (3, 0, 0, 0));
    }

    #[test]
    fn what_a_qos_allows_has_another_name() {
        let (lost, doubled, dropped, repeated) = (1, 2, 1, 2);
        let all = Counts { delivered: 9, lost, doubled, reordered: 3, ..Counts::default() };
        let at_most_once = Counts { lost: 0, dropped, ..all };
        assert_eq!(all.at(QoS::AtMostOnce), at_most_once);
        let at_least_once = Counts { doubled: 0, repeated, ..all };
        assert_eq!(all.at(QoS::AtLeastOnce), at_least_once);
        assert_eq!(all.at(QoS::ExactlyOnce), all);
    }

    #[test]
    fn a_late_one_is_reordered_and_not_lost() {
        assert_eq!(counts(&[1, 3, 2, 4], 4), (4, 0, 0, 1));
        assert_eq!(counts(&[5, 4, 3, 2, 1], 5), (5, 0, 0, 4));
        assert_eq!(counts(&[1, 10, 5, 6, 2], 10), (5, 5, 0, 3));
    }

    #[test]
    fn what_comes_again_is_doubled() {
        assert_eq!(counts(&[1, 1, 2, 1], 2), (4, 0, 2, 0));
        assert_eq!(counts(&[1, 4, 2, 2, 4], 4), (5, 1, 2, 1));
    }

    #[test]
    fn what_one_of_several_had_was_delivered_and_what_two_had_was_doubled() {
        // Every division of five messages among two subscribers, who may both have one, or none.
        for division in 0..4_u64.pow(5) {
            let has = |who: u64, n: u32| ((division / 4_u64.pow(n - 1)) >> who) & 1;
            let mut trackers = [Tracker::default(), Tracker::default()];
            for (who, tracker) in (0..).zip(&mut trackers) {
                (1..=5)
                    .filter(|n| has(who, *n) == 1)
                    .for_each(|n| assert!(tracker.arrived(n.into())));
            }
            let [mut joined, other] = trackers;
            joined.join(&other);
            let count = |of: u64| (1..=5).filter(|n| has(0, *n) + has(1, *n) == of).count() as u64;
            let want = Counts {
                delivered: count(1) + 2 * count(2),
                lost: count(0),
                doubled: count(2),
                ..Counts::default()
            };
            assert_eq!(joined.counts(5), want, "{division}");
        }
    }

    /// Against a list of everything that came, over every short history.
    #[test]
    fn every_short_history_is_counted_as_a_list_would() {
        for history in 0..5_u64.pow(5) {
            let arrivals: Vec<u64> = (0..5).map(|n| history / 5_u64.pow(n) % 5 + 1).collect();
            let (mut seen, mut doubled, mut reordered) = (Vec::new(), 0, 0);
            for &sequence in &arrivals {
                if seen.contains(&sequence) {
                    doubled += 1;
                } else if seen.iter().any(|&before| before > sequence) {
                    reordered += 1;
                }
                seen.push(sequence);
            }
            let lost = (1..=5).filter(|sequence| !seen.contains(sequence)).count();
            let want = (5, u64::try_from(lost).unwrap(), doubled, reordered);
            assert_eq!(counts(&arrivals, 5), want, "{arrivals:?}");
        }
    }
}
