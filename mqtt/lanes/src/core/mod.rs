//! The lane without descriptors, clock, tasks or async: what it knows of its connections, what is
//! due, what is owed. [`crate::lane`] moves it, over a driver and with a handler.
//!
//! Assumes: one owner. Callbacks of the handler only note what shall happen (closes, moves,
//! flushes); it is carried out when they have returned.
mod conn;
mod counters;
mod line;
mod output;
mod part;
mod pool;
mod room;
mod table;
mod timers;

use std::collections::VecDeque;

pub use self::counters::{BufferTotals, Counters};
pub(crate) use self::{
    conn::{Conn, Flags, Phase},
    output::{MAX_SLICES, Output as Queue, Take},
    pool::Pool,
    room::Room,
    table::Table,
    timers::{LINGER, Timers, slot_index},
};
use crate::{
    app::{CloseReason, Handler},
    id::{ConnId, LaneIndex},
    ring::Mesh,
    time::Millis,
    waker::LaneWaker,
};

/// Bounds of one lane. The defaults suit MQTT.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Unconsumed input kept for one connection, in bytes; more closes it. Default: the largest
    /// MQTT packet, 268 435 460.
    pub input_bytes: usize,
    /// Memory of all unconsumed input together. At this bound whoever has begun a packet of more
    /// than 4 KiB is not read until there is room for all of it, in the order in which they came to
    /// it; one at least always has room, and of shorter ones 8 KiB are kept for each connection.
    /// Default 256 MiB.
    pub input_held: usize,
    /// How much of [`Limits::input_held`] is for connections that the handler has not let in
    /// ([`crate::LaneIo::let_in`]), and for no others: they wait for each other alone, and one of
    /// them always has room as well. Default `None`: there is no difference.
    pub input_strangers: Option<usize>,
    /// How long a connection may have room for a packet and not have it handled while others wait
    /// for room. Then [`Handler::input_overdue`] is called. While it is paused that time does not
    /// run, and it begins anew behind a pause. Default 30 s.
    pub input_patience: std::time::Duration,
    /// How long the peer may take to accept the last output of a connection closed after flush,
    /// and then to close its side. Default 2 s.
    pub linger: std::time::Duration,
    /// How long a handshake may take before its connection is closed. Default 10 s.
    pub handshake: std::time::Duration,
    /// Connections read in one turn; the others stay first in line for the next. Default 1024.
    pub reads_per_turn: usize,
    /// Messages taken from each ring in one turn. Default 256.
    pub messages_per_turn: usize,
    /// Slots of each ring for messages, and how many of them only receipts may use. Default 1024
    /// and 256.
    pub ring: (usize, usize),
    /// Memory of the messages that are under way to one lane, in bytes: each lane that sends to it
    /// has an equal share, and one message at least always has room. As much again is for the input
    /// and output of connections that move to it. Default 4 MiB.
    pub ring_bytes: usize,
    /// Bytes of idle buffers kept for reuse. Default 2 MiB.
    pub pooled_bytes: usize,
    /// Memory of all output together from which on a connection takes no more than it needs, and
    /// fewer messages are taken from other lanes before what they brought is sent. Default 256 MiB.
    pub output_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            input_bytes: 268_435_460,
            input_held: 256 << 20,
            input_strangers: None,
            input_patience: std::time::Duration::from_secs(30),
            linger: std::time::Duration::from_secs(2),
            handshake: std::time::Duration::from_secs(10),
            reads_per_turn: 1024,
            messages_per_turn: 256,
            ring: (1024, 256),
            ring_bytes: 4 << 20,
            pooled_bytes: 2 << 20,
            output_bytes: 256 << 20,
        }
    }
}

/// A connection on its way out, with what the handler sends along.
pub(crate) struct Departure<C> {
    pub(crate) conn: ConnId,
    pub(crate) to: LaneIndex,
    pub(crate) carried: C,
}

pub(crate) struct Core<H: Handler> {
    pub(crate) lane: LaneIndex,
    pub(crate) limits: Limits,
    pub(crate) now: Millis,
    pub(crate) conns: Table<Conn>,
    pub(crate) timers: Timers,
    pub(crate) pool: Pool,
    pub(crate) counters: Counters,
    pub(crate) totals: BufferTotals,
    pub(crate) room: Room,
    pub(crate) mesh: Mesh<H::Message>,
    pub(crate) waker: LaneWaker,
    /// Connections with something to read, in the order of their turns.
    pub(crate) ready: VecDeque<ConnId>,
    /// Connections with output of this turn.
    pub(crate) dirty: Vec<ConnId>,
    /// Those among them that passed the mark in this callback.
    pub(crate) urgent: Vec<ConnId>,
    /// Connections whose handler waits to hear that they drained, and that have.
    pub(crate) drained: Vec<ConnId>,
    pub(crate) closing: Vec<(ConnId, CloseReason)>,
    /// Closed after flush in this callback, perhaps with nothing left to send.
    pub(crate) ending: Vec<ConnId>,
    pub(crate) departing: Vec<Departure<H::Carried>>,
    /// Something is left to do that no event will announce.
    pub(crate) again: bool,
    /// What all output held when this turn began.
    pub(crate) held_before: usize,
}

impl<H: Handler> Core<H> {
    pub(crate) fn new(
        lane: LaneIndex,
        limits: Limits,
        mesh: Mesh<H::Message>,
        waker: LaneWaker,
    ) -> Self {
        Self {
            lane,
            limits,
            now: Millis::default(),
            conns: Table::default(),
            timers: Timers::default(),
            pool: Pool::new(limits.pooled_bytes),
            counters: Counters::default(),
            totals: BufferTotals::default(),
            room: Room::new(&limits),
            mesh,
            waker,
            ready: VecDeque::new(),
            dirty: Vec::new(),
            urgent: Vec::new(),
            drained: Vec::new(),
            closing: Vec::new(),
            ending: Vec::new(),
            departing: Vec::new(),
            again: true,
            held_before: 0,
        }
    }

    /// Whether all output together takes more memory than it should.
    pub(crate) fn is_over(&self) -> bool {
        self.totals.output_held > self.limits.output_bytes
    }

    /// Whether that is so, and this turn has brought so much of it that it is to be sent before
    /// more comes.
    pub(crate) fn is_swollen(&self) -> bool {
        let more = self.totals.output_held.saturating_sub(self.held_before);
        self.is_over() && more > self.limits.output_bytes / 16
    }

    /// The connection, if the handler still has it.
    pub(crate) fn open(&self, id: ConnId) -> Option<&Conn> {
        self.conns.get(id).filter(|conn| conn.phase == Phase::Open)
    }

    pub(crate) fn open_mut(&mut self, id: ConnId) -> Option<&mut Conn> {
        self.conns.get_mut(id).filter(|conn| conn.phase == Phase::Open)
    }

    /// The connection is broken. The peer may have said goodbye before it went, and that is worth
    /// reading, unless nobody would: a connection that is not read could stay for ever.
    pub(crate) fn broken(&mut self, id: ConnId, kind: std::io::ErrorKind) {
        let Some(conn) = self.conns.get_mut(id) else { return };
        let why = CloseReason::Failed(kind);
        if conn.phase != Phase::Open || conn.flags.has(Flags::PAUSED | Flags::SHORT) {
            return self.doom(id, why);
        }
        conn.reason = why;
        conn.flags.set(Flags::BROKEN | Flags::READABLE | Flags::HANGUP);
        self.enqueue(id);
    }

    /// Puts the connection in line for a read, once.
    pub(crate) fn enqueue(&mut self, id: ConnId) {
        if let Some(conn) = self.conns.get_mut(id)
            && !conn.flags.has(Flags::QUEUED)
        {
            conn.flags.set(Flags::QUEUED);
            self.ready.push_back(id);
        }
    }

    pub(crate) fn mark_dirty(&mut self, id: ConnId) {
        if let Some(conn) = self.conns.get_mut(id)
            && !conn.flags.has(Flags::DIRTY)
        {
            conn.flags.set(Flags::DIRTY);
            self.dirty.push(id);
        }
    }

    /// Notes that the connection ends without further output. The first reason counts.
    pub(crate) fn doom(&mut self, id: ConnId, why: CloseReason) {
        if let Some(conn) = self.conns.get_mut(id)
            && !conn.flags.has(Flags::DOOMED)
        {
            conn.flags.set(Flags::DOOMED);
            if conn.phase == Phase::Open {
                conn.phase = Phase::Closing;
            }
            self.closing.push((id, why));
        }
    }

    /// Notes that the connection ends once its output is sent.
    pub(crate) fn end(&mut self, id: ConnId, why: CloseReason) {
        let due = self.now + self.limits.linger;
        let Some(conn) = self.open_mut(id) else { return };
        conn.phase = Phase::Closing;
        conn.reason = why;
        conn.flags.clear(Flags::OFFER);
        self.ending.push(id);
        self.set_timer(id, LINGER, due);
        self.drop_input(id);
        // Whatever it was paused for, it reads on, to see the peer's end.
        self.unpause(id);
    }

    pub(crate) fn unpause(&mut self, id: ConnId) {
        let Some(conn) = self.conns.get_mut(id) else { return };
        let was_ours = conn.flags.take(Flags::PAUSED) & !conn.flags.take(Flags::PEERS);
        let has_room = conn.flags.has(Flags::ROOM);
        if conn.flags.has(Flags::READABLE | Flags::OFFER) {
            self.enqueue(id);
        }
        if was_ours && has_room {
            self.room.renew(id, self.now);
        }
    }

    /// At the next millisecond or later, so that a timer set again and again ends its turn.
    pub(crate) fn set_timer(&mut self, id: ConnId, slot: usize, due: Millis) {
        let due = due.max(Millis(self.now.0.saturating_add(1)));
        if let Some(conn) = self.conns.get_mut(id) {
            self.timers.set(id, &mut conn.timers, slot, due);
        }
    }
}
