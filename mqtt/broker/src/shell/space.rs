//! A disk that becomes full, as a lane sees it: what is refused, and who is told.
//!
//! Owns: which records are new, and so are refused or held before anything is handed over while the
//! disk has only what is kept for the others: receipts, releases, unsubscriptions, subscriptions,
//! sessions that are resumed or end, wills, and decisions about what was accepted. Does not know:
//! how much is kept, and how space is made.

use zzq_engine::record::Publish as PublishRecord;
use zzq_wal::Space;
use zzq_wal::disk::Disk;

use super::{Io, Shell};
use crate::planted::{self, Bug};
use crate::queue_total::QueueTotal;
use crate::sys::StoreState;

impl<D: Disk> Shell<D> {
    /// Whether a message that the log is to take would take space that is kept for others. One that
    /// takes a retained message away brings more than it takes; a will was accepted long ago.
    pub(super) fn lacks_space_for(&self, record: &PublishRecord<'_>) -> bool {
        let still = planted::is(Bug::FullForGood) && self.store_was == StoreState::Full;
        if !(self.journal.is_short_of_space() || still) || record.will_of.is_some() {
            return false;
        }
        let clears = record.retain && record.payload.is_empty();
        !clears || self.journal.space() == Space::Out
    }

    /// Whether a session that is not there yet would.
    pub(super) fn lacks_space_for_sessions(&self) -> bool {
        self.journal.is_short_of_space()
    }

    /// Whether a client that is not read any more, for what it has published is held, may be what
    /// the disk waits for, or the memory of all queues: it owes answers, each of which lets
    /// something go.
    pub(super) fn may_free_space(&self, session: Option<zzq_engine::SessionNumber>) -> bool {
        let owes = |session| self.state.session(session).is_some_and(|one| !one.queue().is_empty());
        let queues_are_full = self.shared.queue_total.as_ref().is_some_and(QueueTotal::is_reached);
        (self.journal.is_short_of_space() || queues_are_full) && session.is_some_and(owes)
    }

    /// How the store is.
    pub(super) fn store_state(&self) -> StoreState {
        if self.journal.is_read_only() {
            return StoreState::ReadOnly;
        }
        match self.journal.space() {
            Space::Ample => StoreState::Writable,
            Space::Low => StoreState::Low,
            Space::Short | Space::Out => StoreState::Full,
        }
    }

    /// Who was held for space is tried again when there is some; the first lane tells of each
    /// change.
    pub(super) fn heed_space(&mut self, io: &mut Io<'_, D>) {
        let mut state = self.store_state();
        if planted::is(Bug::FullForGood) && self.store_was == StoreState::Full {
            state = self.store_was;
        }
        let was = std::mem::replace(&mut self.store_was, state);
        if state == was {
            return;
        }
        if was == StoreState::Full {
            self.holding.look_again();
            self.unpark(io);
        }
        if self.lane.0 == 0 {
            self.tell_store_state(state, was);
            self.publish_store_state(io, state);
        }
    }

    fn tell_store_state(&self, state: StoreState, was: StoreState) {
        let free = self.journal.free_bytes();
        match state {
            StoreState::Full => tracing::warn!(
                free,
                "the disk of --data-dir is full but for its reserve: publishes, new sessions and \
                 retained messages are refused until there is space; receivers are served"
            ),
            StoreState::Low => tracing::info!(
                free,
                "the disk of --data-dir is getting full: history is let go (--disk-low says when)"
            ),
            StoreState::Writable => {
                tracing::info!(free, was = was.as_str(), "the disk of --data-dir has space again");
            }
            // It is told with its reason.
            StoreState::ReadOnly => {}
        }
    }
}
