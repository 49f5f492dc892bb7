//! What the queues of all sessions take in memory together, where that is bounded
//! (`--max-queued-total`).
//!
//! Owns: the sum of what lanes have told, whether it has reached the bound and when that changes,
//! with a distance between the two ways so that it does not flicker; and of each lane what the
//! session holds that it would end first. Does not know: what is done about it, or how lanes count.
//!
//! Assumes: a lane tells at the end of each turn, so the sum is late by what lanes take in one.
//! Kept only with a bound.

use std::sync::atomic::{AtomicU64, Ordering};

use zzq_lanes::LaneIndex;

/// See the file.
#[derive(Debug)]
pub(crate) struct QueueTotal {
    most: u64,
    /// There is room again at this much, or less.
    low: u64,
    taken: AtomicU64,
    /// How often it has reached the bound, or left it. It is there if this is odd.
    changes: AtomicU64,
    /// Of each lane.
    firsts: Vec<AtomicU64>,
}

impl QueueTotal {
    /// `None` without a bound.
    pub(crate) fn new(most: u64, lanes: u16) -> Option<Self> {
        // At nothing at all it would be reached for ever.
        let most = most.max(1);
        (most < u64::MAX).then(|| Self {
            most,
            low: most - most.div_ceil(16),
            taken: AtomicU64::new(0),
            changes: AtomicU64::new(0),
            firsts: (0..lanes).map(|_| AtomicU64::new(0)).collect(),
        })
    }

    /// A lane takes so much now, and took so much when it told that last. True: by this the bound
    /// is reached, or left, or both, and all lanes are to look.
    pub(crate) fn tell(&self, was: u64, is: u64) -> bool {
        if was == is {
            return false;
        }
        self.taken.fetch_add(is.wrapping_sub(was), Ordering::SeqCst);
        let mut moved = false;
        // Again behind each change, for another lane may have told meanwhile and not have seen it:
        // either it sees the change, or this sees what it has told.
        loop {
            let changes = self.changes.load(Ordering::SeqCst);
            let taken = self.taken.load(Ordering::SeqCst);
            let is_reached = !changes.is_multiple_of(2);
            let reaches = if is_reached { taken > self.low } else { taken >= self.most };
            if reaches == is_reached {
                return moved;
            }
            let next = changes + 1;
            let (success, failure) = (Ordering::SeqCst, Ordering::SeqCst);
            moved |= self.changes.compare_exchange(changes, next, success, failure).is_ok();
        }
    }

    /// Whether it is at the bound if a lane takes so much more than it has told.
    pub(crate) fn would_reach(&self, more: u64) -> bool {
        self.taken().wrapping_add(more) >= self.most
    }

    pub(crate) fn is_reached(&self) -> bool {
        !self.changes().is_multiple_of(2)
    }

    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Ordering::SeqCst)
    }

    pub(crate) fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    /// What the session holds that a lane would end first; zero: it has none.
    pub(crate) fn set_first(&self, lane: LaneIndex, holds: u64) {
        self.firsts[lane.index()].store(holds, Ordering::SeqCst);
    }

    /// See [`QueueTotal::set_first`].
    pub(crate) fn has_first(&self, lane: LaneIndex) -> bool {
        self.firsts[lane.index()].load(Ordering::SeqCst) > 0
    }

    /// The lane whose turn it is to end a session, if it is another than this: the one whose holds
    /// the most.
    pub(crate) fn goes_before(&self, lane: LaneIndex) -> Option<LaneIndex> {
        // Behind what a lane has told of its end: whoever is the next sees that.
        let holds = |at: u16| self.firsts[usize::from(at)].load(Ordering::SeqCst);
        let mut best = lane.0;
        for at in (0..).take(self.firsts.len()) {
            if holds(at) > holds(best) {
                best = at;
            }
        }
        (best != lane.0).then_some(LaneIndex(best))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_reached_at_the_bound_and_left_a_sixteenth_below() {
        let total = QueueTotal::new(160, 2).unwrap();
        assert!(!total.tell(0, 100) && !total.tell(0, 59) && !total.is_reached());
        assert!(total.would_reach(1) && !total.would_reach(0));
        assert!(total.tell(59, 60) && total.is_reached());
        assert!(!total.tell(100, 91) && total.is_reached());
        assert!(total.tell(60, 59) && !total.is_reached());
        assert!(!total.tell(59, 68) && total.tell(68, 69) && total.is_reached());
        assert_eq!((total.taken(), total.changes()), (160, 3));
    }

    #[test]
    fn the_least_bound_is_left_when_nothing_waits() {
        for most in [0, 1] {
            let total = QueueTotal::new(most, 1).unwrap();
            assert!(!total.is_reached());
            assert!(total.tell(0, 1) && total.is_reached());
            assert!(total.tell(1, 0) && !total.is_reached());
        }
        assert!(QueueTotal::new(u64::MAX, 1).is_none());
    }

    /// Each of two lanes takes and gives back: whoever sees the bound reached, or left, nobody is
    /// left with the wrong one of the two.
    #[test]
    fn what_lanes_tell_at_once_is_not_missed() {
        let total = QueueTotal::new(2, 2).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..20_000 {
                        total.tell(0, 1);
                        total.tell(1, 0);
                    }
                });
            }
        });
        assert_eq!((total.taken(), total.is_reached()), (0, false));
    }

    #[test]
    fn the_lane_goes_first_whose_session_holds_the_most() {
        let total = QueueTotal::new(1, 3).unwrap();
        let lanes = [0, 1, 2].map(LaneIndex);
        assert_eq!(lanes.map(|lane| total.goes_before(lane)), [None; 3]);
        total.set_first(lanes[1], 7);
        total.set_first(lanes[2], 5);
        let one = Some(lanes[1]);
        assert_eq!(lanes.map(|lane| total.goes_before(lane)), [one, None, one]);
        assert!(!total.has_first(lanes[0]) && total.has_first(lanes[2]));
    }
}
