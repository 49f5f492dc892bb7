//! How much members of shared groups are owed, where groups choose by that: their lanes tell all
//! others.
//!
//! Owns: which sessions of this lane are in such groups, and what was told of them. Between two
//! notes other lanes count what they give, so a note may be as late as a turn is.

use std::collections::BTreeMap;
use std::ops::Bound;

use zzq_engine::{GroupStrategy, SessionNumber};
use zzq_types::Filter;
use zzq_wal::disk::Disk;

use super::notes::Note;
use super::{Io, Shell};

/// Sessions looked at in one turn.
const STEPS: usize = 64;

/// See the file.
#[derive(Debug, Default)]
pub(super) struct Owed {
    /// `None`: to be told, whatever it is.
    told: BTreeMap<SessionNumber, Option<u16>>,
    last: Option<SessionNumber>,
}

impl Owed {
    /// The next sessions to look at, and what was told of them.
    fn next_few(&mut self) -> Vec<(SessionNumber, Option<u16>)> {
        let from = self.last.map_or(Bound::Unbounded, Bound::Excluded);
        let after = self.told.range((from, Bound::Unbounded));
        let few: Vec<_> = after.take(STEPS).map(|(session, told)| (*session, *told)).collect();
        self.last = few.last().filter(|_| few.len() == STEPS).map(|(session, _)| *session);
        few
    }

    /// Other lanes hear of this session only now: they have taken nothing that was told of it.
    pub(super) fn tell_again(&mut self, session: SessionNumber) {
        if let Some(told) = self.told.get_mut(&session) {
            *told = None;
        }
    }
}

impl<D: Disk> Shell<D> {
    /// A session of this lane is in a group.
    pub(super) fn note_member(&mut self, session: SessionNumber, filter: Filter<'_>) {
        let strategy = filter.group().map(|group| self.index.strategy(group));
        if strategy == Some(GroupStrategy::LeastInflight) {
            self.owed.told.entry(session).or_insert(None);
        }
    }

    /// Members that were there before this start.
    pub(super) fn note_members(&mut self) {
        let mut members = Vec::new();
        for session in self.state.sessions() {
            let filters = session.subscriptions().iter();
            members.extend(filters.filter_map(|(text, _)| {
                let is_shared = text.starts_with("$share/");
                is_shared.then(|| (session.number(), Box::<str>::from(text)))
            }));
        }
        for (session, text) in members {
            if let Ok(filter) = Filter::new(&text) {
                self.note_member(session, filter);
            }
        }
    }

    /// Tells the lanes what has changed.
    pub(super) fn tell_owed(&mut self, io: &mut Io<'_, D>) {
        if self.owed.told.is_empty() {
            return;
        }
        for (session, told) in self.owed.next_few() {
            let known = self.state.session(session);
            let owed = known.map_or(0, |known| known.queue().len());
            let owed = u16::try_from(owed).unwrap_or(u16::MAX);
            if known.is_none() || !self.index.set_load(session, owed) {
                self.owed.told.remove(&session);
            } else if Some(owed) != told {
                self.owed.told.insert(session, Some(owed));
                self.tell_all(io, &|| Note::Owed { session, owed });
            }
        }
    }
}
