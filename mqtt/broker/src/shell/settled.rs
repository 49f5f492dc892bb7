//! How far this lane's decisions are behind it: for whoever lets parts of the log go.
//!
//! A decision names records that the state refers to when it is made, and may no more when it is
//! applied. So what was referred to before some record can go only when all that was decided from a
//! state before it is committed.

use zzq_engine::Handed;
use zzq_types::Lsn;
use zzq_wal::disk::Disk;

use super::Shell;

/// A state from which nothing is being decided any more, once so much is committed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Settling {
    followed: Lsn,
    handed: Handed,
}

impl<D: Disk> Shell<D> {
    /// At the end of a turn: what was decided in it is handed over.
    pub(super) fn settle(&mut self) {
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
            self.shared.settle(self.lane, self.settling.followed);
            if !decides {
                self.settling = Settling { followed: self.followed, handed };
            }
        }
    }
}
