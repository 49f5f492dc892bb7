//! Messages that were read back from the log, queues that were read from an image, and the
//! connections that wait for them.

use std::collections::hash_map::Entry;

use rustc_hash::{FxHashMap, FxHashSet};
use zzq_engine::SessionNumber;
use zzq_engine::image::UntouchedReader;
use zzq_lanes::ConnId;
use zzq_types::{Lsn, ReasonCode};
use zzq_wal::disk::Disk;

use super::journal::Journal;
use super::link::{Phase, Waits};
use super::{Io, Shell};
use crate::fetch::Fetched;
use crate::seldom::Seldom;

/// How long a queue that could not be read is left alone by what has time: no CONNECT.
const RESTS_MS: u64 = 5000;

/// Queues that are read from an image.
#[derive(Debug, Default)]
pub(super) struct QueueReads {
    /// Those that are asked for, with the connections whose CONNECT waits for them.
    open: FxHashMap<SessionNumber, Vec<ConnId>>,
    /// Connections that have waited for one that could not be read, and were not told yet.
    failed: FxHashSet<ConnId>,
    /// Until when those rest that could not be read, in log time.
    rests: FxHashMap<SessionNumber, u64>,
    told: Seldom,
}

impl QueueReads {
    /// Whether what a CONNECT waited for could not be read; it is told now, or is gone.
    pub(super) fn has_failed(&mut self, conn: ConnId) -> bool {
        self.failed.remove(&conn)
    }

    /// A session has ended.
    pub(super) fn forget(&mut self, session: SessionNumber) {
        self.rests.remove(&session);
    }
}

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
        for fetched in seat.take() {
            let (conn, messages, error) = match fetched {
                Fetched::Messages { conn, messages, error } => (conn, messages, error),
                Fetched::Queue { session, read } => {
                    self.take_queue(io, session, read);
                    continue;
                }
            };
            // Who has had them from another's request meanwhile, or has gone, would let them go no
            // more.
            let waits: FxHashSet<Lsn> = self.awaited_by(conn).collect();
            for (lsn, message) in messages {
                if self.wanted.contains(&lsn) {
                    self.fetched.insert(lsn, message);
                } else if waits.contains(&lsn) && self.store.get(lsn).is_none() {
                    self.store.keep(lsn, message, 1);
                }
            }
            if let Some(out) = self.links.up_mut(conn).and_then(|link| link.out.get_mut()) {
                out.asks = false;
            }
            if let Some(error) = error {
                self.unreadable(io, conn, &error);
            } else {
                self.has_come(io, conn, Waits::Message);
                io.turn_again();
            }
        }
    }

    /// The messages that a connection has asked for and not sent yet.
    fn awaited_by(&self, conn: ConnId) -> impl Iterator<Item = Lsn> {
        let link = self.links.get(conn).filter(|link| link.phase == Phase::Up);
        let queue =
            link.and_then(|link| self.state.session(link.session?)).map(zzq_engine::Session::queue);
        let out = link.and_then(|link| link.out.get());
        out.zip(queue).into_iter().flat_map(|(out, queue)| {
            let asked = out.asked;
            let unsent = out.numbers.unsent(queue);
            unsent.take_while(move |next| next.number <= asked).map(|next| next.lsn)
        })
    }

    /// Asks for what stayed in an image of a session's queue, if anything did: then nothing that
    /// touches the queue is done before it has come.
    pub(super) fn asks_for_queue(&mut self, session: SessionNumber) -> bool {
        let rests = self.queue_reads.rests.get(&session).copied();
        let rests = rests.is_some_and(|until_ms| until_ms > self.now_ms);
        self.state.untouched(session).is_some() && (rests || self.reads_queue(session))
    }

    /// The same for a CONNECT, which is parked until then.
    pub(super) fn waits_for_queue(&mut self, session: SessionNumber, conn: ConnId) -> bool {
        if !self.reads_queue(session) {
            return false;
        }
        let waits = self.queue_reads.open.entry(session).or_default();
        if !waits.contains(&conn) {
            waits.push(conn);
        }
        true
    }

    fn reads_queue(&mut self, session: SessionNumber) -> bool {
        let Some(front) = self.state.untouched(session) else { return false };
        assert!(self.fetch.is_some(), "only a log has images");
        if let Some(seat) = &self.fetch
            && let Entry::Vacant(open) = self.queue_reads.open.entry(session)
        {
            open.insert(Vec::new());
            seat.request_queue(session, front);
        }
        true
    }

    fn take_queue(
        &mut self,
        io: &mut Io<'_, D>,
        session: SessionNumber,
        read: Result<UntouchedReader, String>,
    ) {
        let waited = self.queue_reads.open.remove(&session).unwrap_or_default();
        self.queue_reads.rests.remove(&session);
        let given = read.and_then(|read| {
            // Nothing is given to a session that has ended meanwhile.
            self.state.give_back(read).map_err(|error| error.to_string())
        });
        if let Err(error) = given {
            if let Some(untold) = self.queue_reads.told.tell(self.now_ms) {
                tracing::error!(%session, error, untold, "a queue cannot be read from its image");
            }
            let waits = waited.into_iter().filter(|conn| self.links.get(*conn).is_some());
            self.queue_reads.failed.extend(waits);
            if self.state.untouched(session).is_some() {
                self.queue_reads.rests.insert(session, self.now_ms + RESTS_MS);
            }
        }
        self.unpark(io);
        io.turn_again();
    }

    /// Lets go what was asked for by those who are gone: the log is not to be kept for it.
    pub(super) fn forget_unwanted(&mut self) {
        if self.granting.is_empty() && self.going_on.is_empty() {
            self.wanted.clear();
            self.fetched.clear();
        }
    }

    /// A message that is owed cannot be read. Nothing is skipped silently: the client is cut off,
    /// and its session keeps what it is owed.
    fn unreadable(&mut self, io: &mut Io<'_, D>, conn: ConnId, error: &str) {
        tracing::error!(error, "a message cannot be read back from the log");
        self.dismiss(io, conn, ReasonCode::UnspecifiedError, "its messages cannot be read");
    }

    /// Lets go what is kept in memory for a session that nobody is connected to: the log has it.
    pub(super) fn forget_cached(&mut self, session: SessionNumber) {
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
