//! What a lane does for its handler, during a callback.
//!
//! Assumes: nothing asked for here happens inside the handler: closes, moves and flushes follow
//! when the callback has returned. A connection that has ended, or was closed or moved by the
//! handler, is treated as absent.
use std::ops::{Deref, DerefMut};

use bytes::Bytes;

use crate::{
    admission::Excess,
    app::{Close, CloseReason, Handler, PeerInfo},
    core::{BufferTotals, Conn, Core, Counters, Departure, Flags, Phase, Take, slot_index},
    id::{ConnId, LaneIndex, TimerSlot},
    ring::Class,
    time::Millis,
    waker::LaneWaker,
};

/// Queued output that is sent without waiting for the turn's end, in bytes.
const URGENT: usize = 32 << 10;
/// What is appended where nobody says how much it is.
const LITTLE: usize = 64;
/// Payloads below this are copied: a write of many small pieces costs more than the copy.
const REF_MIN: usize = 2048;

/// The lane, as its handler sees it.
pub struct LaneIo<'a, H: Handler> {
    pub(crate) core: &'a mut Core<H>,
}

impl<H: Handler> LaneIo<'_, H> {
    /// The time of this turn.
    pub fn now(&self) -> Millis {
        self.core.now
    }

    /// This lane.
    pub fn lane(&self) -> LaneIndex {
        self.core.lane
    }

    /// How many lanes there are.
    pub fn lanes(&self) -> usize {
        self.core.mesh.outlets.len()
    }

    /// Wakes this lane from elsewhere.
    pub fn waker(&self) -> LaneWaker {
        self.core.waker.clone()
    }

    /// Another turn follows this one without waiting.
    pub fn turn_again(&mut self) {
        self.core.again = true;
    }

    /// Where to append output of `conn`; `None` if it is absent. Sent at the end of the turn, or
    /// after this callback when much is queued.
    pub fn output(&mut self, conn: ConnId) -> Option<Output<'_>> {
        self.output_for(conn, LITTLE)
    }

    /// The same, with room for `bytes` bytes: no less than what is appended, or its buffer grows to
    /// twice its size.
    pub fn output_for(&mut self, conn: ConnId, bytes: usize) -> Option<Output<'_>> {
        let core = &mut *self.core;
        let take = if core.is_over() { Take::Needed } else { Take::Likely };
        let state = core.conns.get_mut(conn).filter(|state| state.phase == Phase::Open)?;
        if !state.flags.has(Flags::DIRTY) {
            state.flags.set(Flags::DIRTY);
            core.dirty.push(conn);
        }
        let held = state.output.held();
        let start = state.output.tail(bytes, take, &mut core.pool).len();
        let Core { totals, counters, urgent, .. } = core;
        Some(Output { id: conn, conn: state, totals, counters, urgent, start, held })
    }

    /// Appends `bytes` to the output of `conn`. False: it is absent.
    pub fn write(&mut self, conn: ConnId, bytes: &[u8]) -> bool {
        let Some(mut output) = self.output_for(conn, bytes.len()) else { return false };
        output.extend_from_slice(bytes);
        true
    }

    /// Appends `bytes` without copying them, unless they are few. False: `conn` is absent.
    pub fn write_ref(&mut self, conn: ConnId, bytes: Bytes) -> bool {
        if bytes.len() < REF_MIN {
            return self.write(conn, &bytes);
        }
        let core = &mut *self.core;
        let Some(state) = core.conns.get_mut(conn).filter(|state| state.phase == Phase::Open)
        else {
            return false;
        };
        let before = state.output.queued();
        state.output.push_shared(bytes, &mut core.pool);
        let after = state.output.queued();
        let urgent = before < URGENT && after >= URGENT && !state.flags.has(Flags::BLOCKED);
        core.totals.output_held += after - before;
        note_queued(&mut core.totals, &mut core.counters, after - before);
        if urgent {
            core.urgent.push(conn);
        }
        core.mark_dirty(conn);
        true
    }

    /// Bytes of output that the peer's socket has not taken yet; 0 if `conn` is absent.
    pub fn queued_bytes(&self, conn: ConnId) -> usize {
        self.core.open(conn).map_or(0, |conn| conn.output.queued())
    }

    /// Memory that this output takes; 0 if `conn` is absent. Not what lies in its buffers but what
    /// they have room for.
    pub fn output_held(&self, conn: ConnId) -> usize {
        self.core.open(conn).map_or(0, |conn| conn.output.held())
    }

    /// The same of all connections of this lane.
    pub fn output_held_of_all(&self) -> usize {
        self.core.totals.output_held
    }

    /// Sets [`crate::Limits::handshake`].
    pub fn limit_handshake(&mut self, most: std::time::Duration) {
        self.core.limits.handshake = most;
    }

    /// Sets [`crate::Limits::output_bytes`].
    pub fn limit_output(&mut self, bytes: usize) {
        self.core.limits.output_bytes = bytes;
    }

    /// Sets [`crate::Limits::input_held`] and [`crate::Limits::input_strangers`].
    ///
    /// # Panics
    /// There are connections already.
    pub fn limit_input(&mut self, bytes: usize, strangers: Option<usize>) {
        self.core.limit_input(bytes, strangers);
    }

    /// The handler knows who `conn` is, if it was a stranger until now: it has room of the part
    /// that those have. See [`crate::Limits::input_strangers`]. One that moves is a stranger again.
    pub fn let_in(&mut self, conn: ConnId) {
        self.core.let_in(conn);
    }

    /// Whether `conn` is not read because there is no room for the packet that it has begun.
    pub fn waits_for_room(&self, conn: ConnId) -> bool {
        self.core.open(conn).is_some_and(|conn| conn.flags.has(Flags::SHORT))
    }

    /// When `conn` was given room for the packet that it has begun, if it has waited for it.
    pub fn waited_for_room(&self, conn: ConnId) -> Option<Millis> {
        self.core.room.waited(conn)
    }

    /// Whether all output together takes more memory than it should, and this turn has brought so
    /// much of it that it is better sent before more comes.
    pub fn is_swollen(&self) -> bool {
        self.core.is_swollen()
    }

    /// Asks for one call of [`Handler::drained`] when the output that waits takes at most 12 KiB
    /// of memory. It comes after the next flush if that is so already.
    pub fn notify_drained(&mut self, conn: ConnId) {
        if let Some(state) = self.core.open_mut(conn) {
            state.flags.set(Flags::NOTIFY);
            self.core.mark_dirty(conn);
        }
    }

    /// Within [`Handler::bytes`]: the next call needs at least `bytes` bytes of input, counted
    /// from the first that this call leaves unconsumed. Saves calls for a large packet.
    pub fn want(&mut self, conn: ConnId, bytes: usize) {
        if let Some(conn) = self.core.open_mut(conn) {
            conn.want = u32::try_from(bytes).unwrap_or(u32::MAX);
        }
    }

    /// Within [`Handler::bytes`]: what this call leaves unconsumed is offered in the next turn,
    /// also if nothing comes behind it.
    pub fn offer_again(&mut self, conn: ConnId) {
        if let Some(conn) = self.core.open_mut(conn) {
            conn.flags.set(Flags::OFFER);
        }
    }

    /// No input of `conn` is read or offered until [`LaneIo::resume`]; at most one read's worth is
    /// kept. Its end is not noticed meanwhile, but a reset is. The room that it may have is not
    /// held against it for as long, unless it waits for clients already: see
    /// [`crate::Limits::input_patience`] and [`LaneIo::pause_for_peers`].
    pub fn pause(&mut self, conn: ConnId) {
        if let Some(conn) = self.core.open_mut(conn) {
            conn.flags.set(Flags::PAUSED);
        }
    }

    /// The same while it waits for what is up to clients: that its own reads its output, or that
    /// others make a place for what it sends. That may be never, or not before one of them is given
    /// the room that this connection has: so the time for which it may have that runs on, whatever
    /// else it is paused for meanwhile.
    pub fn pause_for_peers(&mut self, conn: ConnId) {
        if let Some(conn) = self.core.open_mut(conn) {
            conn.flags.set(Flags::PAUSED | Flags::PEERS);
        }
    }

    /// Takes input again; what was kept is offered in the next turn.
    pub fn resume(&mut self, conn: ConnId) {
        if self.core.open(conn).is_some() {
            self.core.unpause(conn);
        }
    }

    /// Ends `conn`. It is absent from here on; [`Handler::closed`] follows.
    pub fn close(&mut self, conn: ConnId, how: Close) {
        match how {
            Close::Now if self.core.open(conn).is_some() => {
                self.core.doom(conn, CloseReason::Local);
            }
            Close::Now => {}
            Close::AfterFlush => self.core.end(conn, CloseReason::Local),
        }
    }

    pub(crate) fn close_as(&mut self, conn: ConnId, why: CloseReason) {
        self.core.end(conn, why);
    }

    /// Calls [`Handler::timer`] once at or after `due`; replaces the deadline of this slot.
    /// Moving a deadline further away costs next to nothing.
    pub fn set_timer(&mut self, conn: ConnId, slot: TimerSlot, due: Millis) {
        if self.core.open(conn).is_some() {
            self.core.set_timer(conn, slot_index(slot), due);
        }
    }

    /// Takes the deadline of this slot back.
    pub fn clear_timer(&mut self, conn: ConnId, slot: TimerSlot) {
        self.set_timer(conn, slot, Millis::NEVER);
    }

    /// Sends to another lane, which hears of it at the end of this turn. A full ring gives the
    /// message back; [`Handler::woken`] follows when there is room.
    ///
    /// # Panics
    /// `to` is this lane, or none.
    pub fn send(
        &mut self,
        to: LaneIndex,
        message: H::Message,
        class: Class,
    ) -> Result<(), H::Message> {
        self.send_holding(to, message, class, 0)
    }

    /// As [`send`](Self::send), a message that holds so many bytes until it is taken: the ring is
    /// full as well when these are too many together
    /// ([`Limits::ring_bytes`](crate::Limits::ring_bytes)).
    ///
    /// # Panics
    /// `to` is this lane, or none.
    pub fn send_holding(
        &mut self,
        to: LaneIndex,
        message: H::Message,
        class: Class,
        bytes: usize,
    ) -> Result<(), H::Message> {
        let result = self.core.mesh.push(to, message, class, bytes);
        match result {
            Ok(()) => self.core.counters.sent += 1,
            Err(_) => self.core.counters.ring_full += 1,
        }
        result
    }

    /// Moves `conn` with its unread input and queued output to another lane, where
    /// [`Handler::adopted`] takes it over. It is absent here from now on, without a call of
    /// [`Handler::closed`]. False: it was absent before, and `carried` is dropped.
    ///
    /// # Panics
    /// `to` is this lane, or none.
    pub fn move_to(&mut self, to: LaneIndex, conn: ConnId, carried: H::Carried) -> bool {
        assert!(to != self.core.lane && to.index() < self.lanes(), "{conn} cannot move to {to}");
        let Some(state) = self.core.open_mut(conn) else { return false };
        state.phase = Phase::Leaving;
        self.core.departing.push(Departure { conn, to, carried });
        true
    }

    /// Who is at the other end.
    pub fn peer(&self, conn: ConnId) -> Option<&PeerInfo> {
        self.core.open(conn).map(|conn| &conn.peer)
    }

    /// The limit that it is beyond, if it is there only to be told so: see
    /// [`BindOptions::max_excess`](crate::BindOptions::max_excess).
    pub fn excess(&self, conn: ConnId) -> Option<Excess> {
        self.core.open(conn)?.admission.as_ref()?.excess()
    }

    /// The connections of this lane that are not absent.
    pub fn connections(&self) -> Vec<ConnId> {
        let all = self.core.conns.iter();
        all.filter(|(_, conn)| conn.phase == Phase::Open).map(|(id, _)| id).collect()
    }

    /// What this lane has done so far.
    pub fn counters(&self) -> Counters {
        self.core.counters
    }

    /// How many connections have output that is sent at the end of this turn.
    pub fn writers(&self) -> usize {
        self.core.dirty.len()
    }

    /// What it holds now.
    pub fn buffered(&self) -> BufferTotals {
        let Core { pool, room, totals, .. } = &*self.core;
        BufferTotals { pooled: pool.bytes(), input_held: room.held(), ..*totals }
    }
}

/// The growing end of a connection's output: append, and patch what was appended through this
/// value. What lies before [`Output::start`] is not yours.
pub struct Output<'a> {
    id: ConnId,
    conn: &'a mut Conn,
    totals: &'a mut BufferTotals,
    counters: &'a mut Counters,
    urgent: &'a mut Vec<ConnId>,
    start: usize,
    /// What the connection's output held before.
    held: usize,
}

impl Output<'_> {
    /// The length the buffer had when it was borrowed.
    pub fn start(&self) -> usize {
        self.start
    }

    /// Bytes of this connection that wait, without those appended through this value.
    pub fn queued_before(&self) -> usize {
        self.conn.output.queued()
    }
}

impl Deref for Output<'_> {
    type Target = Vec<u8>;

    fn deref(&self) -> &Vec<u8> {
        self.conn.output.tail_ref()
    }
}

impl DerefMut for Output<'_> {
    fn deref_mut(&mut self) -> &mut Vec<u8> {
        self.conn.output.tail_mut()
    }
}

impl Drop for Output<'_> {
    fn drop(&mut self) {
        let before = self.conn.output.queued();
        let length = self.conn.output.tail_ref().len();
        assert!(length >= self.start, "output of {} was cut by its handler", self.id);
        self.conn.output.appended(length - self.start);
        self.totals.output_held += self.conn.output.held() - self.held;
        note_queued(self.totals, self.counters, length - self.start);
        let crossed = before < URGENT && self.conn.output.queued() >= URGENT;
        if crossed && !self.conn.flags.has(Flags::BLOCKED) {
            self.urgent.push(self.id);
        }
    }
}

/// The handler has queued output: the one place where it is counted.
fn note_queued(totals: &mut BufferTotals, counters: &mut Counters, bytes: usize) {
    totals.output += bytes;
    counters.bytes_queued += bytes as u64;
}
