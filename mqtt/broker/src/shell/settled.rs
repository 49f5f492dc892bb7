//! How far this lane's decisions are behind it, and what it needs of the log besides what images
//! name: for whoever lets parts of the log go.
//!
//! A session that ends with its connection is not in the log, or came into it with messages that
//! the log did not know it had. Whatever waits for it stays where it is, or goes to a cold file, as
//! long as this lane says that it is needed.
//!
//! A decision names records that the state refers to when it is made, and may no more when it is
//! applied. So what was referred to before some record can go only when all that was decided from a
//! state before it is committed.

use zzq_engine::Handed;
use zzq_types::Lsn;
use zzq_wal::disk::Disk;

use super::Shell;
use super::journal::Journal;
use crate::planted::{self, Bug};
use crate::standing::Needed;

/// A state from which nothing is being decided any more, once so much is committed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Settling {
    followed: Lsn,
    handed: Handed,
}

impl<D: Disk> Shell<D> {
    /// At the end of a turn: what was decided in it is handed over.
    pub(crate) fn settle(&mut self) {
        if !self.journal.is_log() {
            return;
        }
        let handed = self.journal.handed();
        // Retained messages that were looked up wait here to be decided about.
        let decides = !self.granting.is_empty()
            || !self.going_on.is_empty()
            || !self.queries.is_empty()
            || !self.wanted.is_empty()
            || !self.fetched.is_empty();
        if !decides && self.journal.is_committed(handed) {
            self.settling = Settling { followed: self.followed, handed };
        }
        if self.journal.is_committed(self.settling.handed) {
            self.shared.standing.settle(self.lane, self.settling.followed);
            if !decides {
                self.settling = Settling { followed: self.followed, handed };
            }
        }
        if let Some(question) = self.shared.standing.asked(self.lane) {
            self.shared.standing.answer(self.lane, question, self.needs_beside_images());
        }
    }

    /// Records that volatile sessions of this lane wait for, or have left to their groups, each
    /// once, ascending.
    fn needs_beside_images(&self) -> Vec<Needed> {
        let mut needed = Vec::new();
        if planted::is(Bug::NeedsUnnamed) {
            return needed;
        }
        let mut add = |lsn: Lsn, size| {
            if !Journal::<D>::is_own(lsn) {
                needed.push((lsn, size));
            }
        };
        for session in self.up.keys().chain(&self.ending) {
            let known = self.state.session(*session).filter(|known| known.is_volatile());
            let waiting = known.into_iter().flat_map(|known| known.queue().held());
            waiting.filter(|one| !one.taken).for_each(|one| add(one.lsn, one.size));
        }
        for (_, ended) in self.state.all_ended() {
            ended.orphans().for_each(|(_, orphan, _)| add(orphan.lsn, orphan.size));
        }
        // On their way from one to another.
        self.given_on.values().for_each(|given| add(given.needed.0, given.needed.1));
        self.going_on.needed().for_each(|(lsn, size)| add(lsn, size));
        needed.sort_unstable();
        needed.dedup_by_key(|(lsn, _)| *lsn);
        needed
    }
}
