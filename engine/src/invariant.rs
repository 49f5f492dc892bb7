//! What always holds in a state: checked by tests, the simulator and the journal tool.
//!
//! Never called inside apply, which is total: a log that breaks a promise is counted there, and
//! still leaves a state for which all of this holds.

use std::collections::BTreeSet;

use thiserror::Error;
use zzq_types::{Filter, Lsn};

use crate::deadline::{Deadlines, Due};
use crate::group::Ended;
use crate::number::SessionNumber;
use crate::retained::RetainedCursor;
use crate::session::{Link, Session, Timers, is_shared};
use crate::state::State;
use crate::weight;

/// Something that should always hold, and does not.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{rule}: {place}")]
pub struct Violation {
    /// What should hold.
    pub rule: &'static str,
    /// Where it does not.
    pub place: String,
}

/// How far the log is in each sense.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogMarks {
    /// The bytes of all up to here are gone.
    pub trimmed: Lsn,
    /// All up to here is covered by an image.
    pub imaged: Lsn,
    /// All up to here survives power loss.
    pub durable: Lsn,
    /// All up to here may be acknowledged.
    pub committed: Lsn,
    /// All up to here is in state.
    pub applied: Lsn,
    /// All up to here has a place in the log.
    pub appended: Lsn,
}

impl LogMarks {
    /// Checks their order; a cluster applies only what is committed.
    pub fn check(&self, is_cluster: bool) -> Result<(), Violation> {
        let Self { trimmed, imaged, durable, committed, applied, appended } = *self;
        let place = || format!("{self:?}");
        require(trimmed <= imaged, "what is trimmed is imaged", place)?;
        require(imaged <= durable.min(committed), "an image holds what is durable", place)?;
        let all = durable.max(committed).max(applied);
        require(all <= appended, "nothing is beyond the log", place)?;
        let held = !is_cluster || applied <= committed;
        require(held, "a cluster applies what is committed", place)
    }
}

/// No acknowledgement leaves before its record is committed.
///
/// # Panics
/// If it is not: a promise would be broken that nobody can keep later.
pub fn assert_may_acknowledge(record: Lsn, committed: Lsn) {
    assert!(record <= committed, "{record} is acknowledged, committed is {committed}");
}

/// Checks the whole state.
pub fn check(state: &State) -> Result<(), Violation> {
    for session in state.sessions() {
        check_session(state, session)?;
    }
    require(state.clients.len() == state.sessions.len(), "a client has one session", || {
        format!("{} clients, {} sessions", state.clients.len(), state.sessions.len())
    })?;
    for (&number, ended) in &state.ended {
        check_ended(state, number, ended)?;
    }
    for ((session, lsn), will) in &state.wills {
        require(state.owns_session(&will.client), "a will is in its shard", || {
            format!("{session} {lsn}")
        })?;
    }
    for (topic, _) in state.retained.iter_from(&RetainedCursor::START) {
        require(state.owns_topic(topic), "a topic is in its shard", || topic.to_owned())?;
    }
    let queued: usize = state.sessions().map(|session| session.queue.len()).sum();
    require(queued == state.queued(), "what waits is counted", || {
        format!("{queued} messages are counted as {}", state.queued())
    })?;
    let bytes: u64 = state.sessions().map(|session| session.queue.bytes()).sum();
    require(bytes == state.queued_bytes(), "what waits is weighed", || {
        format!("{bytes} bytes are counted as {}", state.queued_bytes())
    })?;
    let memory: u64 = state.sessions().map(|session| session.queue.load().memory).sum();
    require(memory == state.queue_memory(), "what queues take is counted", || {
        format!("{memory} bytes are counted as {}", state.queue_memory())
    })?;
    let memory: u64 = state.sessions().map(weight::of_all).sum();
    require(memory == state.session_memory(), "what sessions take is counted", || {
        format!("{memory} bytes are counted as {}", state.session_memory())
    })?;
    let deadlines = recompute(state);
    require(deadlines == state.deadlines, "what is due is indexed", || {
        format!("{deadlines:?} is indexed as {:?}", state.deadlines)
    })
}

fn check_session(state: &State, session: &Session) -> Result<(), Violation> {
    let place = || session.number.to_string();
    let known = state.clients.get(&session.client);
    require(known == Some(&session.number), "a session is found by its client", place)?;
    require(state.owns_session(&session.client), "a session is in its shard", place)?;
    let below = session.number.get() < state.next_session;
    require(below, "a session has a number below the next", place)?;
    session.queue.check().or_else(|rule| require(false, rule, place))?;
    let waits = session
        .will()
        .is_none_or(|will| will.due_ms.is_some() == matches!(session.link, Link::Down { .. }));
    require(waits, "a will waits while its session is down", place)?;
    let mut numbers = BTreeSet::new();
    for (filter, sub) in session.subscriptions.iter() {
        require(Filter::new(filter).is_ok(), "filters are well formed", || filter.to_owned())?;
        let own = sub.number < session.next_sub && numbers.insert(sub.number);
        require(own, "a subscription has a number of its own", place)?;
    }
    for (number, _) in session.replays() {
        let known = session.subscriptions.filter_of(number).is_some();
        require(known, "what starts in the past is a subscription", place)?;
    }
    for (number, filter) in session.left() {
        let own = *number < session.next_sub && numbers.insert(*number);
        require(own && is_shared(filter), "what was left was shared", place)?;
    }
    Ok(())
}

fn check_ended(state: &State, number: SessionNumber, ended: &Ended) -> Result<(), Violation> {
    let place = || number.to_string();
    let over = !state.sessions.contains_key(&number);
    require(over, "an ended session has ended", place)?;
    require(state.owns_session(&ended.client), "an ended session is in its shard", place)?;
    require(!ended.shares.is_empty(), "an ended session is kept for its groups", place)?;
    for (&queue_number, orphan) in &ended.orphans {
        let known = ended.shares.contains_key(&orphan.pick) && queue_number <= ended.last;
        require(known, "an orphan has a group", place)?;
    }
    Ok(())
}

fn recompute(state: &State) -> Deadlines {
    let mut deadlines = Deadlines::default();
    for session in state.sessions.values() {
        deadlines.change(session.number, Timers::default(), session.timers());
    }
    for (&(session, lsn), will) in &state.wills {
        deadlines.set(will.due_ms, Due::Will { session, lsn });
    }
    for (topic, retained) in state.retained.iter_from(&RetainedCursor::START) {
        if let Some(at_ms) = retained.expires_ms() {
            deadlines.set(at_ms, Due::Retained { topic: topic.into() });
        }
    }
    deadlines
}

fn require(
    holds: bool,
    rule: &'static str,
    place: impl FnOnce() -> String,
) -> Result<(), Violation> {
    if holds { Ok(()) } else { Err(Violation { rule, place: place() }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All ways to give the six marks one of three values: those that are in order are told
    /// from the rest.
    #[test]
    fn marks_have_one_order() {
        let mut good = 0;
        for case in 0..3_u64.pow(6) {
            let mark = |at: u32| Lsn::new(case / 3_u64.pow(at) % 3);
            let marks = LogMarks {
                trimmed: mark(0),
                imaged: mark(1),
                durable: mark(2),
                committed: mark(3),
                applied: mark(4),
                appended: mark(5),
            };
            let [trimmed, imaged, durable, committed, applied, appended] =
                [0, 1, 2, 3, 4, 5].map(mark);
            let below = trimmed <= imaged
                && imaged <= durable
                && imaged <= committed
                && durable <= appended
                && committed <= appended
                && applied <= appended;
            assert_eq!(marks.check(false).is_ok(), below, "{marks:?}");
            assert_eq!(marks.check(true).is_ok(), below && applied <= committed, "{marks:?}");
            good += u32::from(below);
        }
        assert!(good > 50, "{good}");
    }

    #[test]
    #[should_panic(expected = "@3 is acknowledged, committed is @2")]
    fn an_acknowledgement_waits() {
        assert_may_acknowledge(Lsn::new(2), Lsn::new(2));
        assert_may_acknowledge(Lsn::new(3), Lsn::new(2));
    }
}
