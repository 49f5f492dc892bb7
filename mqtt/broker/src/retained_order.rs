//! The order of what is retained where no log gives it one.
//!
//! Owns: the numbers of such messages, which all lanes draw from one clock, and how many each lane
//! has sent each other. Nobody who retains nothing comes here.
//!
//! Who takes a number has told before that a message is on its way. So whoever holds a number and
//! then looks how many were sent sees all those whose numbers are lower.

use std::sync::atomic::{AtomicU64, Ordering};

use zzq_lanes::LaneIndex;
use zzq_types::Lsn;

/// See the file.
#[derive(Debug)]
pub(crate) struct RetainedOrder {
    clock: Clock,
    /// By sender and receiver; a row is written by its lane alone.
    sent: Vec<Row>,
}

/// On a cache line of its own, for all lanes write it.
#[derive(Debug)]
#[repr(align(128))]
struct Clock(AtomicU64);

#[derive(Debug)]
#[repr(align(128))]
struct Row(Box<[AtomicU64]>);

/// How many messages each lane has sent to one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Marks(Vec<u64>);

impl RetainedOrder {
    /// For so many lanes; their messages are numbered from `first` on.
    pub(crate) fn new(lanes: u16, first: Lsn) -> Self {
        let row = |_| Row((0..lanes).map(|_| AtomicU64::new(0)).collect());
        let clock = Clock(AtomicU64::new(first.get()));
        Self { clock, sent: (0..lanes).map(row).collect() }
    }

    /// The number of a message that `from` retains on lane `to`, where it will send it.
    pub(crate) fn take(&self, from: LaneIndex, to: LaneIndex) -> Lsn {
        if from != to {
            self.sent[from.index()].0[to.index()].fetch_add(1, Ordering::Relaxed);
        }
        Lsn::new(self.clock.0.fetch_add(1, Ordering::AcqRel))
    }

    /// No number that the caller's lane has taken is higher, and none that it will take is lower.
    pub(crate) fn last(&self) -> Lsn {
        Lsn::new(self.clock.0.load(Ordering::Acquire) - 1)
    }

    /// How many were sent to a lane by now.
    pub(crate) fn sent_to(&self, lane: LaneIndex) -> Marks {
        let sent = self.sent.iter().map(|row| row.0[lane.index()].load(Ordering::Relaxed));
        Marks(sent.collect())
    }
}

impl Marks {
    /// None has sent any.
    pub(crate) fn none(lanes: u16) -> Self {
        Self(vec![0; usize::from(lanes)])
    }

    /// One has come from a lane.
    pub(crate) fn count(&mut self, from: LaneIndex) {
        self.0[from.index()] += 1;
    }

    /// Whether all that `sent` counts is counted here.
    pub(crate) fn have(&self, sent: &Self) -> bool {
        self.0.iter().zip(&sent.0).all(|(come, sent)| come >= sent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: LaneIndex = LaneIndex(0);
    const B: LaneIndex = LaneIndex(1);

    #[test]
    fn a_number_that_is_taken_later_is_higher_whoever_takes_it() {
        let order = RetainedOrder::new(2, Lsn::new(7));
        let taken = [order.take(A, B), order.take(B, B), order.take(B, A), order.take(A, A)];
        assert_eq!(taken, [7, 8, 9, 10].map(Lsn::new));
        assert_eq!(order.last(), Lsn::new(10));
    }

    #[test]
    fn what_is_on_its_way_to_another_lane_is_awaited_there() {
        let order = RetainedOrder::new(2, Lsn::new(7));
        let mut come = Marks::none(2);
        let before = order.sent_to(B);
        order.take(B, B);
        assert!(come.have(&order.sent_to(B)), "it is there");
        order.take(A, B);
        let sent = order.sent_to(B);
        assert!(come.have(&before) && !come.have(&sent) && come.have(&order.sent_to(A)));
        come.count(A);
        assert!(come.have(&sent));
    }

    /// Who holds a number knows of all that have lower ones, on threads that race.
    #[test]
    fn nothing_with_a_lower_number_is_unknown() {
        const EACH: u64 = 10_000;
        let order = RetainedOrder::new(2, Lsn::new(0));
        std::thread::scope(|scope| {
            scope.spawn(|| (0..EACH).for_each(|_| _ = order.take(A, B)));
            for own in 1..=EACH {
                // Of the numbers below this one so many are not its own.
                let others = order.take(B, B).get() + 1 - own;
                assert!(order.sent_to(B).0[0] >= others);
            }
        });
        assert_eq!(order.take(A, A), Lsn::new(2 * EACH));
    }
}
