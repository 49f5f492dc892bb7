//! Messages that were read back from the log, and the connections that wait for them.

use zzq_lanes::ConnId;
use zzq_types::{Lsn, ReasonCode};
use zzq_wal::disk::Disk;

use super::journal::Journal;
use super::link::Waits;
use super::{Io, Shell};
use crate::fetch::Fetched;

impl<D: Disk> Shell<D> {
    /// Asks for messages that are not in memory.
    pub(super) fn request(&mut self, conn: ConnId, lsns: Vec<Lsn>) {
        assert!(self.fetch.is_some(), "only a log has what memory has not");
        if let Some(seat) = &self.fetch {
            seat.request(conn, lsns);
        }
    }

    /// Takes what was read, and goes on with those who wait.
    pub(super) fn take_fetched(&mut self, io: &mut Io<'_, D>) {
        let Some(seat) = &self.fetch else { return };
        for Fetched { conn, messages, error } in seat.take() {
            for (lsn, message) in messages {
                if self.wanted.contains(&lsn) {
                    self.fetched.insert(lsn, message);
                } else if self.store.get(lsn).is_none() {
                    self.store.keep(lsn, message, 1);
                }
            }
            if let Some(error) = error {
                self.unreadable(io, conn, &error);
            } else {
                self.has_come(io, conn, Waits::Message);
                io.turn_again();
            }
        }
    }

    /// A message that is owed cannot be read. Nothing is skipped silently: the client is cut off,
    /// and its session keeps what it is owed.
    fn unreadable(&mut self, io: &mut Io<'_, D>, conn: ConnId, error: &str) {
        tracing::error!(error, "a message cannot be read back from the log");
        self.dismiss(io, conn, ReasonCode::UnspecifiedError, "its messages cannot be read");
    }

    /// Lets go what is kept in memory for a session that nobody is connected to: the log has it.
    pub(super) fn forget_cached(&mut self, session: zzq_engine::SessionNumber) {
        /// As many as may have been under way or read ahead.
        const MOST: usize = 1 << 16;
        let Some(known) = self.state.session(session) else { return };
        for waiting in known.queue().iter().take(MOST) {
            if !Journal::<D>::is_own(waiting.lsn) {
                self.store.forget(waiting.lsn);
            }
        }
    }
}
