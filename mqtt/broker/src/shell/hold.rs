//! Receivers that do not keep up: publishers are held for them, for a while.
//!
//! Assumes: at QoS 0 the only place where messages wait is the receiver's output. At QoS 1 and 2
//! they wait in its queue, which has a limit of its own.

use zzq_engine::{Decision, SessionNumber};
use zzq_lanes::{ConnId, TimerSlot};
use zzq_wal::disk::Disk;

use super::{Flow, Io, Shell};

/// The timer of a publisher that is held.
pub(super) const HOLD: TimerSlot = TimerSlot::B;

impl<D: Disk> Shell<D> {
    /// Notes that the output of a receiver is full.
    pub(super) fn note_clogged(&mut self, io: &mut Io<'_, D>, conn: ConnId) {
        let full = io.queued_bytes(conn) > self.shared.options.limits.max_output_bytes;
        if full && self.clogged.insert(conn) {
            io.notify_drained(conn);
        }
    }

    /// A receiver among `decision` that its publishers are to be held for; never the publisher's
    /// own session.
    pub(super) fn clogged_receiver(
        &self,
        decision: Decision<'_>,
        publisher: Option<SessionNumber>,
    ) -> Option<ConnId> {
        if self.clogged.is_empty() {
            return None;
        }
        decision.iter().filter(|to| Some(to.session) != publisher).find_map(|to| {
            let conn = *self.up.get(&to.session)?;
            let slow = self.links.get(conn).is_none_or(|link| link.slow);
            (!slow && self.clogged.contains(&conn)).then_some(conn)
        })
    }

    /// Holds a publisher until the receiver has room, or for as long as publishers are held.
    pub(super) fn hold(&mut self, io: &mut Io<'_, D>, conn: ConnId, receiver: ConnId) -> Flow {
        if let Some(link) = self.links.up_mut(conn)
            && link.held_for != Some(receiver)
        {
            link.held_for = Some(receiver);
            io.set_timer(conn, HOLD, io.now() + self.shared.options.limits.max_hold);
        }
        self.park(io, conn)
    }

    /// A publisher was held long enough: its receiver counts as slow until it has drained.
    pub(super) fn held_long_enough(&mut self, io: &mut Io<'_, D>, conn: ConnId) {
        let receiver = self.links.up_mut(conn).and_then(|link| link.held_for.take());
        let Some(receiver) = receiver.filter(|receiver| self.clogged.contains(receiver)) else {
            return;
        };
        if let Some(link) = self.links.up_mut(receiver) {
            tracing::warn!(
                peer = %link.peer,
                client = %link.client,
                "a slow receiver: QoS 0 messages to it are dropped until it has read what waits"
            );
            link.slow = true;
        }
        self.unpark(io);
    }

    /// A connection has room for output again, or is gone.
    pub(super) fn unclogged(&mut self, io: &mut Io<'_, D>, conn: ConnId) {
        if let Some(link) = self.links.get_mut(conn) {
            link.slow = false;
        }
        if self.clogged.remove(&conn) {
            self.unpark(io);
        }
    }

    /// Looks whether queues that were full have room again: records that were applied since, and
    /// those alone, have emptied them.
    pub(super) fn check_full_queues(&mut self, io: &mut Io<'_, D>) {
        if self.full.is_empty() {
            return;
        }
        let mut full: Vec<SessionNumber> = self.full.iter().copied().collect();
        full.sort_unstable();
        for session in full {
            self.check_full(io, session);
        }
    }

    /// Tells the lanes when a session's queue has become full, or has room again.
    pub(super) fn check_full(&mut self, io: &mut Io<'_, D>, session: SessionNumber) {
        let Some(known) = self.state.session(session) else { return };
        let limits = &self.shared.options.limits;
        let (len, bytes) = (known.queue().len(), known.queue().bytes());
        let was = self.full.contains(&session);
        let is = if was {
            // Room for a tenth at least, so that the flag does not flicker.
            len > limits.max_queued_messages / 10 * 9 || bytes > limits.max_queued_bytes / 10 * 9
        } else {
            len >= limits.max_queued_messages || bytes >= limits.max_queued_bytes
        };
        if is != was {
            if is {
                tracing::warn!(client = known.client(), messages = len, bytes, "a queue is full");
                self.full.insert(session);
            } else {
                self.full.remove(&session);
            }
            self.announce_flags(io, session);
        }
    }
}
