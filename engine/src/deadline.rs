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

/// What is due, by what it may have to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DueKind {
    /// Wills: for queues of others.
    Will,
    /// What is left.
    Other,
}

impl DueKind {
    /// In their order: wills are published before their sessions end.
    pub const ALL: [Self; 2] = [Self::Will, Self::Other];
}

impl Due {
    const fn kind(&self) -> DueKind {
        if matches!(self, Self::Will { .. }) { DueKind::Will } else { DueKind::Other }
    }
}

/// All that will be due, of each kind by time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Deadlines([BTreeSet<(u64, Due)>; 2]);

impl Deadlines {
    pub(crate) fn next_ms(&self, kind: DueKind) -> Option<u64> {
        self.0[kind as usize].first().map(|(at_ms, _)| *at_ms)
    }

    pub(crate) fn due(&self, kind: DueKind, now_ms: u64) -> impl Iterator<Item = &Due> {
        let all = self.0[kind as usize].iter();
        all.take_while(move |(at_ms, _)| *at_ms <= now_ms).map(|(_, due)| due)
    }

    pub(crate) fn set(&mut self, at_ms: u64, due: Due) {
        self.0[due.kind() as usize].insert((at_ms, due));
    }

    pub(crate) fn unset(&mut self, at_ms: u64, due: Due) {
        self.0[due.kind() as usize].remove(&(at_ms, due));
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
