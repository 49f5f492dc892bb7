//! The reading half of a turn: one bounded read for each ready connection, into the lane's hot
//! buffer. What the handler leaves is kept in a buffer of its size, for which there may be no room:
//! see [`crate::core::Room`].
use std::io::ErrorKind;

use super::{CARRY, Lane, READ};
use crate::{
    app::{CloseReason, Handler},
    core::{Conn, Flags, Phase},
    driver::{Driver, Read, Ready},
    id::ConnId,
    io::LaneIo,
};

/// Input that a closed connection may still send before it is cut, in bytes.
const DISCARD_MAX: u32 = 1 << 20;

impl<H: Handler, D: Driver> Lane<H, D> {
    pub(super) fn note_ready(&mut self, id: ConnId, ready: Ready) {
        let Some(conn) = self.core.conns.get_mut(id) else {
            self.core.counters.stale_events += 1;
            return;
        };
        if ready.broken {
            self.core.broken(id, ErrorKind::ConnectionReset);
            return self.settle();
        }
        if ready.hangup {
            conn.flags.set(Flags::HANGUP);
        }
        let unblocked = ready.writable && conn.flags.take(Flags::BLOCKED);
        if ready.readable || ready.hangup {
            conn.flags.set(Flags::READABLE);
            if conn.flags.has(Flags::SHORT) {
                self.waits_in_vain(id);
                self.settle();
            } else if !conn.flags.has(Flags::PAUSED) {
                self.core.enqueue(id);
            }
        }
        if unblocked {
            self.core.mark_dirty(id);
        } else if ready.writable {
            self.close_drained(id);
            self.settle();
        }
    }

    /// Who waits for room for a packet whose end will not come does so no longer: its handler is
    /// told now that its peer has ended, and not when its turn comes.
    fn waits_in_vain(&mut self, id: ConnId) {
        let Some(conn) = self.core.open_mut(id) else { return };
        if !conn.flags.has(Flags::HANGUP) || conn.flags.has(Flags::TOLD) {
            return;
        }
        let all = conn.input.len() + self.driver.unread(id);
        if all >= conn.want as usize {
            return;
        }
        conn.flags.set(Flags::TOLD);
        self.core.leave_line(id);
        self.handler.ended(&mut LaneIo { core: &mut self.core }, id);
    }

    /// One step for each of the first in line.
    pub(super) fn read_ready(&mut self) {
        let turns = self.core.ready.len().min(self.core.limits.reads_per_turn);
        for _ in 0..turns {
            let Some(id) = self.core.ready.pop_front() else { break };
            let Some(conn) = self.core.conns.get_mut(id) else { continue };
            conn.flags.clear(Flags::QUEUED);
            if conn.flags.has(Flags::PAUSED) {
                continue;
            }
            if conn.phase != Phase::Open {
                self.discard(id);
            } else if conn.flags.take(Flags::OFFER) {
                self.offer_kept(id);
            } else if conn.flags.has(Flags::SHORT) {
                continue;
            } else if conn.input.len() <= CARRY {
                self.read_hot(id);
            } else {
                self.read_apart(id);
            }
            self.line_up_again(id);
        }
    }

    fn line_up_again(&mut self, id: ConnId) {
        if let Some(conn) = self.core.conns.get(id)
            && !conn.flags.has(Flags::PAUSED)
            && (conn.flags.has(Flags::OFFER)
                || conn.flags.has(Flags::READABLE) && !conn.flags.has(Flags::SHORT))
        {
            self.core.enqueue(id);
        }
    }

    /// Gives those who wait for room what there is. If that is not enough for the first of them,
    /// whoever has had the most patience of others ends.
    pub(super) fn make_room(&mut self) {
        self.core.serve_lines();
        for id in self.core.overdue() {
            self.core.counters.input_overdue += 1;
            self.call(|handler, io| handler.input_overdue(io, id));
            self.core.end(id, CloseReason::InputOverdue);
            self.settle();
        }
    }

    /// Kept input, a few bytes, and what comes behind it: together in the hot buffer.
    fn read_hot(&mut self, id: ConnId) {
        let Some(conn) = self.core.conns.get_mut(id) else { return };
        let kept = std::mem::take(&mut conn.input);
        self.core.totals.input -= kept.len();
        let start = kept.len();
        self.hot[..start].copy_from_slice(&kept);
        self.core.pool.give(kept);
        let got = self.read(id, start, start).unwrap_or(0);
        let end = start + got;
        let Some(conn) = self.core.conns.get(id) else { return };
        let consumed =
            if got > 0 && end >= conn.want as usize { self.offer_hot(id, end) } else { 0 };
        let rest = std::mem::take(&mut self.hot);
        self.keep(id, &rest[consumed..end]);
        self.hot = rest;
        self.after_input(id, consumed > 0);
    }

    /// Much is kept already: add to it, and call the handler when it has what it wants.
    fn read_apart(&mut self, id: ConnId) {
        let Some(conn) = self.core.conns.get(id) else { return };
        let got = self.read(id, 0, conn.input.len()).unwrap_or(0);
        let Some(conn) = self.core.conns.get_mut(id) else { return };
        append(conn, &self.hot[..got]);
        self.core.totals.input += got;
        if got > 0 && conn.input.len() >= conn.want as usize {
            self.offer_kept(id);
        } else {
            self.after_input(id, false);
        }
    }

    fn offer_kept(&mut self, id: ConnId) {
        let Some(conn) = self.core.conns.get_mut(id) else { return };
        conn.want = 0;
        let mut kept = std::mem::take(&mut conn.input);
        self.core.totals.input -= kept.len();
        let mut io = LaneIo { core: &mut self.core };
        let consumed = self.handler.bytes(&mut io, id, &kept);
        assert!(consumed <= kept.len(), "{consumed} consumed of {}", kept.len());
        if consumed == 0
            && let Some(conn) = self.core.conns.get_mut(id)
            && conn.keeps_input()
        {
            self.core.totals.input += kept.len();
            conn.input = kept;
        } else {
            self.keep(id, &kept[consumed..]);
            kept.clear();
            self.core.pool.give(kept);
        }
        self.after_input(id, consumed > 0);
    }

    fn offer_hot(&mut self, id: ConnId, end: usize) -> usize {
        if let Some(conn) = self.core.conns.get_mut(id) {
            conn.want = 0;
        }
        let mut io = LaneIo { core: &mut self.core };
        let consumed = self.handler.bytes(&mut io, id, &self.hot[..end]);
        assert!(consumed <= end, "{consumed} consumed of {end}");
        consumed
    }

    /// Reads once behind the first `start` bytes of the hot buffer, and notes what the end means.
    /// `kept`: how many bytes are kept of what lies before.
    fn read(&mut self, id: ConnId, start: usize, kept: usize) -> Option<usize> {
        self.core.counters.reads += 1;
        let most = self.core.read_most(id, kept).min(READ);
        let read = self.driver.read(id, &mut self.hot[start..start + most]);
        let conn = self.core.conns.get_mut(id)?;
        match read {
            Read::Blocked | Read::Ended if conn.flags.has(Flags::BROKEN) => {
                let why = conn.reason;
                self.core.doom(id, why);
            }
            Read::Bytes(count, more) => {
                self.core.counters.bytes_in += count as u64;
                if !more && !conn.flags.has(Flags::HANGUP) {
                    conn.flags.clear(Flags::READABLE);
                }
                return Some(count);
            }
            Read::Blocked => conn.flags.clear(Flags::READABLE),
            Read::Ended => {
                conn.flags.clear(Flags::READABLE);
                conn.flags.set(Flags::ENDED);
            }
            Read::Failed(kind) => {
                conn.flags.clear(Flags::READABLE);
                self.core.doom(id, CloseReason::Failed(kind));
            }
            Read::Refused(kind) => {
                conn.flags.clear(Flags::READABLE);
                self.refused(id, kind);
            }
        }
        None
    }

    fn keep(&mut self, id: ConnId, rest: &[u8]) {
        if rest.is_empty() {
            return;
        }
        let Some(conn) = self.core.conns.get_mut(id) else { return };
        if !conn.keeps_input() {
            self.core.counters.dropped_input += rest.len() as u64;
            return;
        }
        assert!(conn.input.is_empty(), "kept input of {id} would be lost");
        let mut buffer = self.core.pool.take(rest.len());
        buffer.extend_from_slice(rest);
        conn.input = buffer;
        self.core.totals.input += rest.len();
    }

    /// The handler has returned, and `is_done` with some of the input: room, bounds, the peer's
    /// end, and all that was asked for.
    fn after_input(&mut self, id: ConnId, is_done: bool) {
        let mut conn = self.core.conns.get_mut(id);
        if conn.as_deref().is_some_and(Conn::concerns_room) {
            self.core.see_to_room(id, is_done);
            conn = self.core.conns.get_mut(id);
        }
        if let Some(conn) = conn
            && conn.phase == Phase::Open
        {
            let needed = conn.input.len().max(conn.want as usize);
            if conn.flags.has(Flags::PAUSED | Flags::SHORT) && conn.flags.has(Flags::BROKEN) {
                let why = conn.reason;
                self.core.doom(id, why);
            } else if conn.flags.has(Flags::SHORT) {
                self.waits_in_vain(id);
            } else if conn.flags.has(Flags::PAUSED) && !conn.input.is_empty() {
                conn.flags.set(Flags::OFFER);
            } else if needed > self.core.limits.input_bytes {
                self.core.doom(id, CloseReason::InputTooLarge);
            } else if conn.flags.has(Flags::ENDED) && !conn.flags.has(Flags::TOLD) {
                conn.flags.set(Flags::TOLD);
                let mut io = LaneIo { core: &mut self.core };
                self.handler.ended(&mut io, id);
            }
        }
        self.settle();
    }

    /// A closed connection's input is read and thrown away: bytes left unread would turn its close
    /// into a reset, and the peer might lose the last output.
    fn discard(&mut self, id: ConnId) {
        let got = self.read(id, 0, 0).unwrap_or(0);
        self.core.counters.dropped_input += got as u64;
        let Some(conn) = self.core.conns.get_mut(id) else { return };
        conn.discarded = conn.discarded.saturating_add(u32::try_from(got).unwrap_or(u32::MAX));
        if conn.phase == Phase::Draining && conn.discarded > DISCARD_MAX {
            let why = conn.reason;
            self.core.doom(id, why);
        }
        self.close_drained(id);
        self.settle();
    }

    /// Closes if both ends have said that nothing follows and all is sent. What the driver still
    /// has would be lost with the connection.
    fn close_drained(&mut self, id: ConnId) {
        if let Some(conn) = self.core.conns.get(id)
            && conn.phase == Phase::Draining
            && conn.flags.has(Flags::ENDED)
            && !self.driver.is_sending(id)
        {
            let why = conn.reason;
            self.core.doom(id, why);
        }
    }
}

/// Adds to kept input. Its buffer doubles, but to no more than the packet takes: what it has room
/// for is what its connection is charged.
fn append(conn: &mut Conn, bytes: &[u8]) {
    let needed = conn.input.len() + bytes.len();
    if needed > conn.input.capacity() {
        let most = needed.max(conn.want as usize);
        let wanted = needed.max(2 * conn.input.capacity()).min(most);
        conn.input.reserve_exact(wanted - conn.input.len());
    }
    conn.input.extend_from_slice(bytes);
}
