//! How far the lanes are, and what they need of the log, for whoever lets parts of it go.
//!
//! Owns: what each lane has settled, and one question to all of them at a time: which records do
//! sessions wait for that are not in the log, so that no image names them? Does not know: images,
//! what a lane decides.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use zzq_lanes::{LaneIndex, LaneWaker};
use zzq_types::Lsn;

/// A record that is needed, and how much its message weighs.
pub(crate) type Needed = (Lsn, u32);

/// What all lanes have said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Settled {
    /// Whatever a lane has decided from a state before this record is committed.
    pub(crate) lsn: Lsn,
    /// Records that they need though no image names them, ascending, each once.
    pub(crate) needed: Vec<Needed>,
}

impl From<Lsn> for Settled {
    /// Nothing is needed besides.
    fn from(lsn: Lsn) -> Self {
        Self { lsn, needed: Vec::new() }
    }
}

/// See the file.
#[derive(Debug)]
pub(crate) struct Standing {
    seats: Vec<Seat>,
    /// How often lanes were asked.
    questions: AtomicU64,
}

/// Names what lanes were asked at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Question(u64);

/// One lane.
#[derive(Debug, Default)]
struct Seat {
    settled: AtomicU64,
    /// The question that it has not answered; zero: there is none.
    asked: AtomicU64,
    answer: Mutex<Option<(Question, Settled)>>,
    waker: OnceLock<LaneWaker>,
}

impl Standing {
    /// Of so many lanes.
    pub(crate) fn new(lanes: u16) -> Self {
        let seats = (0..lanes).map(|_| Seat::default()).collect();
        Self { seats, questions: AtomicU64::new(0) }
    }

    /// A lane is there, and woken by this when it is asked.
    pub(crate) fn join(&self, lane: LaneIndex, waker: LaneWaker) {
        let joined = self.seats[lane.index()].waker.set(waker);
        assert!(joined.is_ok(), "each lane joins once");
    }

    /// A lane has nothing under way that it decided from a state before `lsn`.
    pub(crate) fn settle(&self, lane: LaneIndex, lsn: Lsn) {
        self.seats[lane.index()].settled.store(lsn.get(), Ordering::Release);
    }

    /// What a lane has not answered.
    pub(crate) fn asked(&self, lane: LaneIndex) -> Option<Question> {
        let asked = self.seats[lane.index()].asked.load(Ordering::Acquire);
        (asked > 0).then_some(Question(asked))
    }

    /// What a lane needs in its present state, which is not before what it has settled.
    pub(crate) fn answer(&self, lane: LaneIndex, question: Question, needed: Vec<Needed>) {
        let seat = &self.seats[lane.index()];
        let lsn = Lsn::new(seat.settled.load(Ordering::Acquire));
        *seat.lock() = Some((question, Settled { lsn, needed }));
        // Another question may have come meanwhile, which stays.
        let (asked, none) = (question.0, 0);
        let _ = seat.asked.compare_exchange(asked, none, Ordering::AcqRel, Ordering::Acquire);
    }

    /// Asks all lanes for what they need, and forgets earlier answers.
    pub(crate) fn ask(&self) -> Question {
        let question = Question(self.questions.fetch_add(1, Ordering::AcqRel) + 1);
        for seat in &self.seats {
            *seat.lock() = None;
            seat.asked.store(question.0, Ordering::Release);
        }
        question
    }

    /// Has lanes that sleep answer.
    pub(crate) fn wake(&self) {
        self.seats.iter().filter_map(|seat| seat.waker.get()).for_each(LaneWaker::wake);
    }

    /// Takes what all lanes have answered, once they have.
    pub(crate) fn take(&self, question: Question) -> Option<Settled> {
        let has = |seat: &Seat| seat.lock().as_ref().is_some_and(|(of, _)| *of == question);
        if !self.seats.iter().all(has) {
            return None;
        }
        let mut all = Settled { lsn: Lsn::new(u64::MAX), needed: Vec::new() };
        for seat in &self.seats {
            let (_, Settled { lsn, needed }) = seat.lock().take()?;
            all.lsn = all.lsn.min(lsn);
            all.needed.extend(needed);
        }
        all.needed.sort_unstable();
        all.needed.dedup_by_key(|(lsn, _)| *lsn);
        Some(all)
    }
}

impl Seat {
    fn lock(&self) -> MutexGuard<'_, Option<(Question, Settled)>> {
        self.answer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LANES: [LaneIndex; 2] = [LaneIndex(0), LaneIndex(1)];

    #[test]
    fn what_all_have_said_is_taken_once_and_never_from_before_the_question() {
        let standing = Standing::new(2);
        let need = |lsn| (Lsn::new(lsn), 9);
        assert_eq!(standing.asked(LANES[0]), None);
        let first = standing.ask();
        assert_eq!((standing.asked(LANES[1]), standing.take(first)), (Some(first), None));
        standing.settle(LANES[0], Lsn::new(80));
        standing.answer(LANES[0], first, vec![need(3), need(7)]);
        assert_eq!((standing.asked(LANES[0]), standing.take(first)), (None, None), "one is silent");
        standing.settle(LANES[1], Lsn::new(70));
        standing.answer(LANES[1], first, vec![need(5), need(7)]);
        let all = Settled { lsn: Lsn::new(70), needed: [3, 5, 7].map(need).into() };
        assert_eq!((standing.take(first), standing.take(first)), (Some(all), None));
        // A lane that was slow answers the question before.
        let second = standing.ask();
        standing.answer(LANES[0], second, Vec::new());
        standing.answer(LANES[1], first, Vec::new());
        assert_eq!((standing.take(second), standing.asked(LANES[1])), (None, Some(second)));
        standing.answer(LANES[1], second, vec![need(9)]);
        let all = Settled { lsn: Lsn::new(70), needed: vec![need(9)] };
        assert_eq!(standing.take(second), Some(all));
    }
}
