//! Receivers that do not keep up: publishers on all lanes are held for them, for a while.
//!
//! Assumes: at QoS 0 the only place where messages wait is the receiver's output. At QoS 1 and 2
//! they wait in its queue, which has a limit of its own. When the output is full every lane is
//! told; what is between lanes or in the log by then still comes, and is not dropped.

use std::collections::BTreeSet;

use rustc_hash::FxHashMap;
use zzq_lanes::{ConnId, Millis, TimerSlot};
use zzq_wal::disk::Disk;

use super::{Io, Shell};
use crate::options::Qos0Full;

/// The timer of a publisher that is held.
pub(super) const HOLD: TimerSlot = TimerSlot::B;

/// What the output of each connection may take where all together take too much: with the piece
/// that it gets then [`PIECE`] less than 32 KiB, and no less than twice what a connection has left
/// when it is said to have drained.
pub(super) const LEAST: usize = 28 << 10;

/// The least that a run for many is cut into.
pub(super) const PIECE: usize = 4 << 10;

/// How much memory may wait for a connection as output.
#[derive(Clone, Copy, Debug)]
pub(super) struct OutputMost {
    each: usize,
    /// Of all connections of the lane.
    lane: usize,
}

impl OutputMost {
    /// As things are.
    pub(super) fn now<D: Disk>(self, io: &Io<'_, D>) -> usize {
        if io.output_held_of_all() > self.lane { self.each.min(LEAST) } else { self.each }
    }

    /// How many bytes each of so many may be sent at once, so that the lane keeps to its share as
    /// long as that is possible. Buffers have room for powers of two.
    pub(super) fn at_once<D: Disk>(self, io: &Io<'_, D>, receivers: usize) -> usize {
        let free = self.lane.saturating_sub(io.output_held_of_all()) / receivers.max(1);
        1 << free.max(PIECE).ilog2()
    }
}

/// Receivers whose output is full.
#[derive(Debug, Default)]
pub(super) struct Clogged {
    /// Until when publishers are held for them.
    until: FxHashMap<ConnId, Millis>,
    /// Those for whom they still are.
    due: BTreeSet<(Millis, ConnId)>,
}

impl Clogged {
    pub(super) fn contains(&self, conn: ConnId) -> bool {
        !self.until.is_empty() && self.until.contains_key(&conn)
    }

    /// When somebody has been held for long enough.
    pub(super) fn next(&self) -> Option<Millis> {
        self.due.first().map(|(due, _)| *due)
    }
}

impl<D: Disk> Shell<D> {
    /// Above how much output nothing more is queued for a connection.
    pub(super) fn output_most(&self) -> OutputMost {
        let each = self.shared.options.limits.max_output_bytes;
        // History that was read for clients is on its way into their outputs, and so is what waits
        // for answers about them.
        let coming = self.replaying.memory() + self.receiving.all_bytes();
        let lane = self.shared.output_bytes().saturating_sub(coming);
        OutputMost { each, lane }
    }

    /// Notes that the output of a receiver is full.
    pub(super) fn note_clogged(&mut self, io: &mut Io<'_, D>, conn: ConnId) {
        let most = self.output_most().now(io);
        if self.output_held(io, conn) <= most || self.clogged.contains(conn) {
            return;
        }
        let drops = self.shared.options.qos0_full == Qos0Full::Drop;
        let Some(link) = self.links.get_mut(conn) else { return };
        let until = io.now() + self.shared.options.limits.max_hold;
        self.clogged.until.insert(conn, until);
        link.slow = drops;
        if !drops {
            self.clogged.due.insert((until, conn));
        }
        if let Some(session) = link.session {
            self.announce_flags(io, session);
        }
        self.notify_drained(io, conn);
    }

    /// Has the lane say when a connection has room for output; not before what waits for the
    /// answer of a hook, which says so when it is sent.
    pub(super) fn notify_drained(&self, io: &mut Io<'_, D>, conn: ConnId) {
        if self.receiving.bytes(conn) == 0 {
            io.notify_drained(conn);
        }
    }

    /// Receivers that publishers were held for long enough count as slow until they have drained.
    pub(super) fn tire_of_clogged(&mut self, io: &mut Io<'_, D>) {
        while let Some(&(until, conn)) = self.clogged.due.first()
            && until <= io.now()
        {
            self.clogged.due.pop_first();
            let Some(link) = self.links.get_mut(conn) else { continue };
            tracing::warn!(
                peer = %link.peer,
                client = %link.client,
                "a slow receiver: QoS 0 messages to it are dropped until it has read what waits; \
                 --max-hold says when"
            );
            link.slow = true;
            if let Some(session) = link.session {
                self.announce_flags(io, session);
            }
        }
    }

    /// What waits for a connection as output, or to be that.
    pub(super) fn output_held(&self, io: &Io<'_, D>, conn: ConnId) -> usize {
        io.output_held(conn) + self.receiving.bytes(conn)
    }

    /// A connection has room for output again, or is gone.
    pub(super) fn unclogged(&mut self, io: &mut Io<'_, D>, conn: ConnId) {
        if let Some(link) = self.links.get_mut(conn)
            && std::mem::take(&mut link.stuffed)
        {
            io.resume(conn);
        }
        let waits = self.receiving.bytes(conn) > 0;
        if waits && self.output_held(io, conn) > self.output_most().now(io) {
            // Behind the last of what waits for an answer this is asked for again.
            return;
        }
        let clogged = self.clogged.until.remove(&conn);
        if let Some(until) = clogged {
            self.clogged.due.remove(&(until, conn));
        }
        let Some(link) = self.links.get_mut(conn) else { return };
        link.slow = false;
        if let Some(session) = link.session.filter(|_| clogged.is_some()) {
            self.announce_flags(io, session);
        }
    }

    /// Whether the answers that a client does not read take so much that it is not read either
    /// until it has. What it is sent by others stops earlier: only its own packets bring it here.
    pub(super) fn is_stuffed(&mut self, io: &mut Io<'_, D>, conn: ConnId) -> bool {
        let most_packet = self.shared.options.limits.max_packet_size as usize;
        let most = 2 * self.output_most().now(io) + most_packet;
        if io.output_held(conn) <= most {
            return false;
        }
        if let Some(link) = self.links.get_mut(conn) {
            link.stuffed = true;
        }
        io.pause_for_peers(conn);
        io.notify_drained(conn);
        true
    }
}
