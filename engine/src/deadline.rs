//! What the passing of time asks for: an index over the state, never stored.

use std::collections::BTreeSet;

use zzq_types::Lsn;

use crate::number::SessionNumber;
use crate::session::Timers;

/// Something that is due, for which a lane writes a record.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Due {
    /// A will is to be published.
    Will {
        /// Whose.
        session: SessionNumber,
        /// The record that holds it.
        lsn: Lsn,
    },
    /// Messages in the queue of a session that is down have expired.
    Messages {
        /// Whose.
        session: SessionNumber,
    },
    /// A session has expired.
    SessionEnd {
        /// Which.
        session: SessionNumber,
    },
    /// A retained message has expired.
    Retained {
        /// Its topic.
        topic: Box<str>,
    },
}

/// All that will be due, by time: wills, which may have to wait for others, and what is left.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Deadlines {
    wills: BTreeSet<(u64, Due)>,
    others: BTreeSet<(u64, Due)>,
}

impl Deadlines {
    pub(crate) fn next_ms(&self, wills: bool) -> Option<u64> {
        self.of(wills).first().map(|(at_ms, _)| *at_ms)
    }

    pub(crate) fn due(&self, wills: bool, now_ms: u64) -> impl Iterator<Item = &Due> {
        let all = self.of(wills).iter();
        all.take_while(move |(at_ms, _)| *at_ms <= now_ms).map(|(_, due)| due)
    }

    pub(crate) fn set(&mut self, at_ms: u64, due: Due) {
        self.of_mut(&due).insert((at_ms, due));
    }

    pub(crate) fn unset(&mut self, at_ms: u64, due: Due) {
        self.of_mut(&due).remove(&(at_ms, due));
    }

    const fn of(&self, wills: bool) -> &BTreeSet<(u64, Due)> {
        if wills { &self.wills } else { &self.others }
    }

    const fn of_mut(&mut self, due: &Due) -> &mut BTreeSet<(u64, Due)> {
        if matches!(due, Due::Will { .. }) { &mut self.wills } else { &mut self.others }
    }

    /// A session's timers changed.
    pub(crate) fn change(&mut self, session: SessionNumber, before: Timers, after: Timers) {
        if before == after {
            return;
        }
        for (at_ms, due) in entries(session, before) {
            self.unset(at_ms, due);
        }
        for (at_ms, due) in entries(session, after) {
            self.set(at_ms, due);
        }
    }
}

fn entries(session: SessionNumber, timers: Timers) -> impl Iterator<Item = (u64, Due)> {
    let will = timers.will.map(|(at_ms, lsn)| (at_ms, Due::Will { session, lsn }));
    let messages = timers.messages.map(|at_ms| (at_ms, Due::Messages { session }));
    let end = timers.end.map(|at_ms| (at_ms, Due::SessionEnd { session }));
    [will, messages, end].into_iter().flatten()
}
