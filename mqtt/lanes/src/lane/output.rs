//! The writing half of a turn, and the end of connections.
use std::io::{ErrorKind, IoSlice};

use super::Lane;
use crate::{
    app::{CloseReason, Handler},
    core::{Conn, Flags, LINGER, MAX_SLICES, Phase},
    driver::{Driver, Write},
    id::ConnId,
    io::LaneIo,
};

/// Bytes that one connection may write in one flush; the rest waits for the next turn.
const FLUSH_MAX: usize = 1 << 20;
/// [`Handler::drained`] is called when the output that waits takes no more than this.
const DRAINED: usize = 12 << 10;

enum Flushed {
    All,
    Blocked,
    TurnOver,
    Broken(ErrorKind),
    Refused(ErrorKind),
}

impl<H: Handler, D: Driver> Lane<H, D> {
    /// Carries out what callbacks asked for, until nothing is left.
    pub(super) fn settle(&mut self) {
        loop {
            if let Some(departure) = self.core.departing.pop() {
                self.depart(departure);
            } else if let Some(id) = self.core.urgent.pop() {
                self.flush(id);
            } else if let Some(id) = self.core.ending.pop() {
                self.flush(id);
            } else if let Some((id, why)) = self.core.closing.pop() {
                self.remove(id, why);
            } else {
                return;
            }
        }
    }

    /// Sends what this turn has queued, then calls those that waited for it.
    pub(super) fn flush_all(&mut self) {
        let mut dirty = std::mem::take(&mut self.core.dirty);
        for id in dirty.drain(..) {
            if let Some(conn) = self.core.conns.get_mut(id) {
                conn.flags.clear(Flags::DIRTY);
            }
            self.flush(id);
            self.settle();
        }
        if self.core.dirty.is_empty() {
            self.core.dirty = dirty;
        }
        let mut drained = std::mem::take(&mut self.core.drained);
        for id in drained.drain(..) {
            if self.core.open(id).is_some() {
                self.call(|handler, io| handler.drained(io, id));
            }
        }
        if self.core.drained.is_empty() {
            self.core.drained = drained;
        }
    }

    fn flush(&mut self, id: ConnId) {
        let Some(conn) = self.core.conns.get_mut(id) else { return };
        if conn.flags.has(Flags::DOOMED) {
            return;
        }
        if conn.flags.has(Flags::BROKEN) {
            return self.drop_output(id);
        }
        let (queued, held) = (conn.output.queued(), conn.output.held());
        let flushed =
            if conn.flags.has(Flags::BLOCKED) { Flushed::Blocked } else { self.write_out(id) };
        let Some(conn) = self.core.conns.get_mut(id) else { return };
        self.core.totals.output -= queued - conn.output.queued();
        self.core.totals.output_held -= held - conn.output.held();
        match flushed {
            Flushed::All if conn.phase == Phase::Closing => return self.end(id),
            Flushed::All => {}
            Flushed::Broken(kind) => {
                self.core.broken(id, kind);
                return self.drop_output(id);
            }
            Flushed::Refused(kind) => return self.refused(id, kind),
            Flushed::Blocked => {
                conn.flags.set(Flags::BLOCKED);
                conn.output.seal_large(&mut self.core.pool);
            }
            Flushed::TurnOver => self.core.mark_dirty(id),
        }
        self.note_drained(id);
    }

    fn write_out(&mut self, id: ConnId) -> Flushed {
        let Some(conn) = self.core.conns.get_mut(id) else { return Flushed::All };
        let mut written = 0;
        while written < FLUSH_MAX {
            let mut slots = [IoSlice::new(&[]); MAX_SLICES];
            let (count, length) = conn.output.slices(&mut slots);
            if length == 0 {
                conn.output.advance(0, &mut self.core.pool);
                return Flushed::All;
            }
            self.core.counters.writes += 1;
            match self.driver.write(id, &slots[..count]) {
                Write::Took(taken) => {
                    conn.output.advance(taken, &mut self.core.pool);
                    self.core.counters.bytes_out += taken as u64;
                    written += taken;
                    if taken < length {
                        self.core.counters.blocked += 1;
                        return Flushed::Blocked;
                    }
                    if conn.output.queued() == 0 {
                        return Flushed::All;
                    }
                }
                Write::Failed(kind) => return Flushed::Broken(kind),
                Write::Refused(kind) => return Flushed::Refused(kind),
            }
        }
        Flushed::TurnOver
    }

    /// The driver has told the peer that it breaks the rules. A reset might overtake that, so the
    /// connection ends as one that was closed after flush. Its output may not follow.
    pub(super) fn refused(&mut self, id: ConnId, kind: ErrorKind) {
        let Some(conn) = self.core.conns.get_mut(id) else { return };
        let why = CloseReason::Failed(kind);
        match conn.phase {
            Phase::Open if !conn.flags.has(Flags::BROKEN) => self.core.end(id, why),
            Phase::Closing if !conn.flags.has(Flags::BROKEN) => self.core.ending.push(id),
            _ => return self.core.doom(id, why),
        }
        self.release_output(id);
        if let Some(conn) = self.core.conns.get_mut(id) {
            conn.flags.clear(Flags::BLOCKED);
        }
    }

    fn release_output(&mut self, id: ConnId) {
        let Some(conn) = self.core.conns.get_mut(id) else { return };
        self.core.counters.dropped_output += conn.output.queued() as u64;
        self.core.totals.output -= conn.output.queued();
        self.core.totals.output_held -= conn.output.held();
        conn.output.release(&mut self.core.pool);
    }

    fn drop_output(&mut self, id: ConnId) {
        self.release_output(id);
        let Some(conn) = self.core.conns.get_mut(id) else { return };
        if conn.phase == Phase::Closing {
            let why = conn.reason;
            self.core.doom(id, why);
        }
        self.note_drained(id);
    }

    fn note_drained(&mut self, id: ConnId) {
        if let Some(conn) = self.core.open_mut(id)
            && conn.output.held() <= DRAINED
            && conn.flags.take(Flags::NOTIFY)
        {
            self.core.drained.push(id);
        }
    }

    /// All output of a closed connection is sent: the handler hears of it, the peer of the end.
    fn end(&mut self, id: ConnId) {
        let Some(conn) = self.core.conns.get_mut(id) else { return };
        let why = conn.reason;
        self.driver.shut(id);
        if conn.flags.has(Flags::ENDED) && !self.driver.is_sending(id) {
            self.core.doom(id, why);
            return;
        }
        conn.phase = Phase::Draining;
        conn.flags.set(Flags::READABLE);
        self.core.enqueue(id);
        let due = self.core.now + self.core.limits.linger;
        self.core.set_timer(id, LINGER, due);
        self.handler.closed(&mut LaneIo { core: &mut self.core }, id, why);
    }

    /// The linger time has passed.
    pub(super) fn linger_over(&mut self, id: ConnId) {
        if let Some(conn) = self.core.conns.get(id) {
            let why = match conn.phase {
                Phase::Handshake => return self.handshake_overdue(id),
                Phase::Draining => conn.reason,
                _ => {
                    self.core.counters.linger_expired += 1;
                    CloseReason::LingerExpired
                }
            };
            self.core.doom(id, why);
            self.settle();
        }
    }

    fn remove(&mut self, id: ConnId, why: CloseReason) {
        let Some(mut conn) = self.core.conns.remove(id) else { return };
        self.driver.close(id);
        self.release(id, &mut conn);
        self.core.counters.closed += 1;
        if !matches!(conn.phase, Phase::Draining | Phase::Handshake) {
            self.handler.closed(&mut LaneIo { core: &mut self.core }, id, why);
        }
    }

    /// Gives back what a connection held, and counts what is lost with it.
    fn release(&mut self, id: ConnId, conn: &mut Conn) {
        self.core.timers.forget(id, &mut conn.timers);
        self.core.counters.dropped_output += conn.output.queued() as u64;
        self.core.totals.output -= conn.output.queued();
        self.core.totals.output_held -= conn.output.held();
        conn.output.release(&mut self.core.pool);
        let input = std::mem::take(&mut conn.input);
        self.core.counters.dropped_input += input.len() as u64;
        self.core.totals.input -= input.len();
        self.core.leave_room(id, conn);
        self.core.pool.give(input);
    }
}
