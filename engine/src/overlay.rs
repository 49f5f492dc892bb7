//! What a lane has handed to the log and not yet seen applied.
//!
//! Owns: the facts that State does not show yet, each until its record is applied, and the last
//! record of each session, until it is committed. A lane decides from State plus this. Does not
//! know State: who asks says what State says. Volatile facts that are applied at once never pass
//! through here.

mod pending;

use std::collections::VecDeque;
use std::collections::hash_map::Entry;

use rustc_hash::FxHashMap;
use zzq_types::PacketId;

use self::pending::{Pending, PendingText};
use crate::planted::{self, Bug};
use crate::{Handed, SessionNumber};

/// See the file.
#[derive(Debug, Default)]
pub struct Overlay {
    /// Inbound QoS 2 identifiers that are open, or no longer.
    identifiers: Pending<(SessionNumber, PacketId)>,
    /// Sessions that exist, or no longer.
    sessions: Pending<SessionNumber>,
    /// Filters, `$share` and all, that a session subscribes by, or no longer.
    filters: PendingText,
    /// The last record of each session that has one above the committed mark.
    last: FxHashMap<SessionNumber, Handed>,
    /// Each of these sessions once, by a record that it had handed over.
    order: VecDeque<(Handed, SessionNumber)>,
    handed: Handed,
    applied: Handed,
    committed: Handed,
}

impl Overlay {
    /// Without facts.
    pub fn new() -> Self {
        Self::default()
    }

    /// A record of a session was handed over that says nothing State does not show anyway; the
    /// calls below note theirs themselves.
    ///
    /// # Panics
    /// Here and below: if a later record was noted before.
    pub fn noted(&mut self, session: SessionNumber, handed: Handed) {
        assert!(handed >= self.handed, "records are noted as they are handed over");
        self.handed = handed;
        match self.last.entry(session) {
            Entry::Occupied(mut last) => *last.get_mut() = handed,
            Entry::Vacant(none) => {
                none.insert(handed);
                self.order.push_back((handed, session));
            }
        }
    }

    /// A Publish at QoS 2 opens an identifier.
    pub fn opened(&mut self, session: SessionNumber, id: PacketId, handed: Handed) {
        self.noted(session, handed);
        self.identifiers.set((session, id), true, handed);
    }

    /// A Release frees an identifier.
    pub fn released(&mut self, session: SessionNumber, id: PacketId, handed: Handed) {
        self.noted(session, handed);
        self.identifiers.set((session, id), false, handed);
    }

    /// Whether an inbound identifier is open, State saying `in_state`.
    pub fn is_open(&self, session: SessionNumber, id: PacketId, in_state: bool) -> bool {
        self.identifiers.get(&(session, id)).filter(|_| is_on()).unwrap_or(in_state)
    }

    /// A Subscribe adds or replaces a subscription by `filter`.
    pub fn subscribed(&mut self, session: SessionNumber, filter: &str, handed: Handed) {
        self.noted(session, handed);
        self.filters.set(session, filter, true, handed);
    }

    /// An Unsubscribe removes the subscription by `filter`.
    pub fn unsubscribed(&mut self, session: SessionNumber, filter: &str, handed: Handed) {
        self.noted(session, handed);
        self.filters.set(session, filter, false, handed);
    }

    /// Whether a session subscribes by exactly `filter`, State saying `in_state`.
    pub fn has_filter(&self, session: SessionNumber, filter: &str, in_state: bool) -> bool {
        self.filters.get(session, filter).filter(|_| is_on()).unwrap_or(in_state)
    }

    /// A Connect opens a session.
    pub fn began(&mut self, session: SessionNumber, handed: Handed) {
        self.noted(session, handed);
        self.sessions.set(session, true, handed);
    }

    /// A Connect or `SessionEnd` ends a session.
    pub fn ended(&mut self, session: SessionNumber, handed: Handed) {
        self.noted(session, handed);
        self.sessions.set(session, false, handed);
    }

    /// Whether a session exists, State saying `in_state`.
    pub fn exists(&self, session: SessionNumber, in_state: bool) -> bool {
        self.sessions.get(&session).filter(|_| is_on()).unwrap_or(in_state)
    }

    /// The last record of a session that is not known to be committed: an answer that makes no
    /// record of its own waits for it.
    pub fn last_record(&self, session: SessionNumber) -> Option<Handed> {
        self.last.get(&session).copied().filter(|last| *last > self.committed)
    }

    /// State shows all records up to here.
    ///
    /// # Panics
    /// If it showed more before.
    pub fn seen_applied(&mut self, handed: Handed) {
        assert!(handed >= self.applied, "State is never rolled back");
        self.applied = handed;
        self.identifiers.forget(handed);
        self.sessions.forget(handed);
        self.filters.forget(handed);
    }

    /// All records up to here are committed.
    ///
    /// # Panics
    /// If more were before.
    pub fn seen_committed(&mut self, handed: Handed) {
        assert!(handed >= self.committed, "the committed mark goes back");
        self.committed = handed;
        while let Some((_, session)) = self.order.pop_front_if(|(first, _)| *first <= handed) {
            match self.last.get(&session) {
                // It has handed over more since: it is looked at again then.
                Some(&last) if last > handed => self.requeue(last, session),
                _ => _ = self.last.remove(&session),
            }
        }
    }

    /// Whether nothing is between this lane and State, nor above the committed mark.
    pub fn is_empty(&self) -> bool {
        self.identifiers.is_empty()
            && self.sessions.is_empty()
            && self.filters.is_empty()
            && self.last.is_empty()
    }

    fn requeue(&mut self, last: Handed, session: SessionNumber) {
        let at = self.order.partition_point(|(first, _)| *first <= last);
        self.order.insert(at, (last, session));
    }
}

fn is_on() -> bool {
    !planted::is(Bug::OverlayOff)
}

#[cfg(test)]
mod lives;
#[cfg(test)]
mod tests;
