//! What a connection waits for a hook to answer.
//!
//! Owns: open questions and the time they have. The packet that a question is about is not done
//! with: it is offered again when the answer is there, or when it is overdue. Until then nothing
//! behind it is read. A connection that ends takes its question with it.

use std::collections::VecDeque;
use std::time::Duration;

use zzq_lanes::{ConnId, Millis};
use zzq_wal::disk::Disk;

use super::link::Link;
use super::{Flow, Io, Shell};
use crate::hooks::{Answer, AskSeat, Asked, NoAnswer, Permit, Step, Verdict};

/// Questions that are remembered beside four for each connection, which may all be open.
const DUE_MOST: usize = 64;

/// A question that is answered later.
#[derive(Debug)]
pub(super) struct Pending<T> {
    asked: Asked<T>,
    due: Millis,
}

/// What is open about the packet that is read next, unless that is a PUBLISH.
#[derive(Debug, Default)]
pub(super) enum Question {
    #[default]
    Nothing,
    /// May it connect?
    Login(Box<Pending<Verdict>>),
    /// How does its authentication go on?
    Step(Box<Pending<Step>>),
    /// May it subscribe so? For each filter.
    Subscribe(Box<Pending<Vec<Permit>>>),
    /// It was answered so, and its SUBSCRIBE waits for something else.
    MaySubscribe(Vec<Permit>),
}

/// What is open about the publish, or will, that is next. Publishes may be set aside, so other
/// packets may be asked about meanwhile.
#[derive(Debug, Default)]
pub(super) enum Publishable {
    #[default]
    Unknown,
    /// It is asked.
    Asked(Box<Pending<Permit>>),
    /// It may go, and waits for something else.
    Yes,
}

/// The questions of a lane.
#[derive(Debug)]
pub(super) struct Questions {
    seat: Option<AskSeat>,
    within: Duration,
    /// In the order they become due; those that have their answer are passed over.
    due: VecDeque<(Millis, ConnId)>,
}

impl<T> Pending<T> {
    /// The answer; `Ok(None)`: not yet.
    pub(super) fn poll(&mut self, now: Millis) -> Result<Option<T>, NoAnswer> {
        match self.asked.poll() {
            Ok(None) if self.due <= now => Err(NoAnswer),
            polled => polled,
        }
    }
}

impl<T> Pending<T> {
    /// When it becomes overdue.
    pub(super) const fn due(&self) -> Millis {
        self.due
    }
}

impl Question {
    /// When what is open becomes overdue.
    pub(super) fn due(&self) -> Option<Millis> {
        match self {
            Self::Login(pending) => Some(pending.due),
            Self::Step(pending) => Some(pending.due),
            Self::Subscribe(pending) => Some(pending.due),
            Self::Nothing | Self::MaySubscribe(_) => None,
        }
    }
}

impl Publishable {
    /// See [`Question::due`].
    pub(super) fn due(&self) -> Option<Millis> {
        match self {
            Self::Asked(pending) => Some(pending.due),
            Self::Unknown | Self::Yes => None,
        }
    }
}

impl Questions {
    pub(super) fn new(seat: Option<AskSeat>, within: Duration) -> Self {
        Self { seat, within, due: VecDeque::new() }
    }

    /// When the next becomes overdue.
    pub(super) fn next(&self) -> Option<Millis> {
        self.due.front().map(|(due, _)| *due)
    }
}

impl<D: Disk> Shell<D> {
    /// An answer that is there, or a question that waits for it.
    pub(super) fn settle_answer<T: Send + 'static>(
        &mut self,
        io: &Io<'_, D>,
        conn: ConnId,
        answer: Answer<T>,
    ) -> Result<T, Box<Pending<T>>> {
        let future = match answer {
            Answer::Now(answer) => return Ok(answer),
            Answer::Later(future) => future,
        };
        let due = io.now() + self.questions.within;
        if self.questions.due.len() > DUE_MOST + 4 * self.links.len() {
            // Most have had their answers, behind one that has not.
            let (links, receiving) = (&self.links, &self.receiving);
            let is_open = |&(due, conn): &(Millis, ConnId)| {
                links.get(conn).is_some_and(|link| link.waits_until(due))
                    || receiving.waits_until(conn, due)
            };
            self.questions.due.retain(is_open);
        }
        let seat = self.questions.seat.as_ref();
        assert!(seat.is_some(), "a lane with hooks has a way to ask");
        let asked = seat.map_or_else(Asked::void, |seat| seat.ask(conn, future));
        self.questions.due.push_back((due, conn));
        Err(Box::new(Pending { asked, due }))
    }

    /// The packet at the front is offered again when there is an answer.
    pub(super) fn await_answer(&mut self, io: &mut Io<'_, D>, conn: ConnId) -> Flow {
        io.pause(conn);
        if let Some(link) = self.links.get_mut(conn) {
            link.parked = true;
        }
        Flow::Again
    }

    /// Goes on where answers have come.
    pub(super) fn take_answers(&mut self, io: &mut Io<'_, D>) {
        let Some(seat) = &self.questions.seat else { return };
        for conn in seat.take() {
            self.ask_again(io, conn);
        }
    }

    /// Goes on where they are overdue.
    pub(super) fn tire_of_questions(&mut self, io: &mut Io<'_, D>) {
        while let Some(&(due, conn)) = self.questions.due.front() {
            let is_open = self.links.get(conn).is_some_and(|link| link.waits_until(due))
                || self.receiving.waits_until(conn, due);
            if is_open && due > io.now() {
                return;
            }
            self.questions.due.pop_front();
            if is_open {
                self.ask_again(io, conn);
            }
        }
    }

    fn ask_again(&mut self, io: &mut Io<'_, D>, conn: ConnId) {
        if self.links.get(conn).is_some_and(Link::has_question) {
            io.resume(conn);
            // It may be about a publish that was set aside.
            self.holding.look_again();
            io.turn_again();
        }
        self.go_on_receiving(io, conn);
    }
}
