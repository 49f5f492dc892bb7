//! Room for unconsumed input, of which all connections of a lane together have a bounded amount.
//!
//! What has begun as a packet of more than [`LEAST`] bytes gets room for all of it before more of
//! it is read, or waits in line. So whoever has room can complete its packet, whatever others do,
//! and nobody waits for one that waits itself. The first always gets room, however little there is.
//! Where room is short, others are read in pieces of [`LEAST`], which lets short packets pass: an
//! acknowledgement waits for nothing but a long packet of its own connection.
//!
//! Owns: who has room, since when, and who waits. A peer that begins a packet and does not go on
//! would keep its room for ever: who has had it for too long ends, once others wait. The time for
//! which a connection is paused by its handler is not its own, unless that waits for clients.
//! Does not know: packets. How long one is the handler says ([`crate::LaneIo::want`]).
use std::{collections::BTreeMap, time::Duration};

use super::{Conn, Core, Flags, line::Line};
use crate::{app::Handler, id::ConnId, time::Millis};

/// A packet of no more than this needs no room; and no read where room is short gives more. A read
/// into less than this a driver may refuse.
const LEAST: usize = 4 << 10;

/// Between looks at who has had room for too long.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// See the file.
#[derive(Debug, Default)]
pub(crate) struct Room {
    /// Those whose flag `ROOM` is set. How much each has is what it is charged.
    granted: BTreeMap<ConnId, Granted>,
    /// Those whose flag `SHORT` is set, the first to be served first.
    line: Line,
    /// When to look next at who has had room for too long.
    look: Millis,
}

#[derive(Clone, Copy, Debug)]
struct Granted {
    since: Millis,
    /// Since when it could have been done with it.
    able: Millis,
    /// It has stood in line.
    waited: bool,
}

impl Room {
    /// Since when a connection has room that it has waited for.
    pub(crate) fn waited(&self, id: ConnId) -> Option<Millis> {
        self.granted.get(&id).filter(|granted| granted.waited).map(|granted| granted.since)
    }

    /// The connection could do nothing for its packet until now.
    pub(crate) fn renew(&mut self, id: ConnId, now: Millis) {
        if let Some(granted) = self.granted.get_mut(&id) {
            granted.able = now;
        }
    }

    /// When somebody may have had room for too long; `None`: nobody waits for it.
    pub(crate) fn due(&self) -> Option<Millis> {
        (!self.line.is_empty()).then_some(self.look)
    }
}

impl<H: Handler> Core<H> {
    /// How much may be read of a connection that has `kept` so many bytes.
    #[inline]
    pub(crate) fn read_most(&self, id: ConnId, kept: usize) -> usize {
        if self.totals.input_held < self.limits.input_held {
            return usize::MAX;
        }
        let conn = self.conns.get(id).filter(|conn| conn.flags.has(Flags::ROOM));
        let granted = conn.map_or(0, |conn| conn.charged as usize);
        granted.saturating_sub(kept).max(LEAST)
    }

    /// The handler was offered a connection's input, or there was too little of it. Counts what is
    /// left, seeks room for what it has begun, gives up what it had for a packet that `is_done`.
    /// Needed only where room is its concern ([`Conn::concerns_room`]).
    pub(crate) fn see_to_room(&mut self, id: ConnId, is_done: bool) {
        if is_done {
            self.give_up_room(id);
        }
        self.charge(id);
        self.seek_room(id);
    }

    /// Counts what the connection takes now.
    pub(crate) fn charge(&mut self, id: ConnId) {
        let Some(conn) = self.conns.get_mut(id) else { return };
        let mut takes = as_u32(conn.input.capacity());
        if conn.flags.has(Flags::ROOM) {
            takes = takes.max(conn.charged);
        }
        self.charge_now(id, takes);
    }

    fn charge_now(&mut self, id: ConnId, takes: u32) {
        let Some(conn) = self.conns.get_mut(id).filter(|conn| conn.charged != takes) else {
            return;
        };
        let before = std::mem::replace(&mut conn.charged, takes);
        self.totals.input_held = self.totals.input_held - before as usize + takes as usize;
        // Whoever waits is served in the next turn.
        self.again |= takes < before && !self.room.line.is_empty();
    }

    /// The handler has left this connection's input as it is: room is sought for what it wants.
    fn seek_room(&mut self, id: ConnId) {
        let Some(conn) = self.open(id).filter(|conn| needed(conn) > LEAST) else { return };
        // One that is paused, or offered again, gets no more than it has.
        let is_at_rest = conn.flags.has(Flags::PAUSED | Flags::OFFER | Flags::SHORT);
        if is_at_rest || needed(conn) > self.limits.input_bytes {
            return;
        }
        if conn.flags.has(Flags::ROOM) || self.room.line.is_empty() && self.fits(conn) {
            return self.grant(id, false);
        }
        let Some(conn) = self.open_mut(id) else { return };
        conn.flags.set(Flags::SHORT);
        self.counters.input_waits += 1;
        if self.room.line.is_empty() {
            self.room.look = self.now;
            self.again = true;
        }
        self.room.line.push(id);
    }

    fn fits(&self, conn: &Conn) -> bool {
        self.room.granted.is_empty() || self.lacks(conn) == 0
    }

    /// How much too little there is for the packet of a connection without room.
    fn lacks(&self, conn: &Conn) -> usize {
        let others = self.totals.input_held - conn.charged as usize;
        (others + memory(conn)).saturating_sub(self.limits.input_held)
    }

    /// Gives room, or more of it.
    fn grant(&mut self, id: ConnId, waited: bool) {
        let since = self.now;
        let Some(conn) = self.open_mut(id) else { return };
        let mut takes = as_u32(memory(conn));
        if conn.flags.has(Flags::ROOM) {
            takes = takes.max(conn.charged);
        } else {
            conn.flags.set(Flags::ROOM);
            self.room.granted.insert(id, Granted { since, able: since, waited });
        }
        self.charge_now(id, takes);
    }

    /// The packet for which it had room is done with, or will not be completed.
    pub(crate) fn give_up_room(&mut self, id: ConnId) {
        if let Some(conn) = self.conns.get_mut(id)
            && conn.flags.take(Flags::ROOM)
        {
            let granted = self.room.granted.remove(&id);
            assert!(granted.is_some(), "{id} has no room to give up");
            self.charge(id);
            // Whoever waits may have room by that alone: one always has.
            self.again |= !self.room.line.is_empty();
        }
    }

    /// The connection, removed from its table, takes nothing any more.
    pub(crate) fn leave_room(&mut self, id: ConnId, conn: &mut Conn) {
        if conn.flags.take(Flags::ROOM) {
            self.room.granted.remove(&id);
        }
        if conn.flags.take(Flags::SHORT) {
            self.room.line.remove(id);
        }
        self.totals.input_held -= std::mem::take(&mut conn.charged) as usize;
        self.again |= !self.room.line.is_empty();
    }

    /// Nobody wants its input any more.
    pub(crate) fn drop_input(&mut self, id: ConnId) {
        self.give_up_room(id);
        let Some(conn) = self.conns.get_mut(id) else { return };
        if conn.flags.take(Flags::SHORT) {
            self.room.line.remove(id);
            self.again |= !self.room.line.is_empty();
        }
        let input = std::mem::take(&mut conn.input);
        self.counters.dropped_input += input.len() as u64;
        self.totals.input -= input.len();
        self.pool.give(input);
        self.charge(id);
    }

    /// Gives room to those in line, as far as there is some.
    pub(crate) fn serve_line(&mut self) {
        while let Some(id) = self.room.line.first() {
            let waits = self.open(id);
            if waits.is_some_and(|conn| !self.fits(conn)) {
                return;
            }
            let is_there = waits.is_some();
            self.room.line.remove(id);
            if is_there {
                self.grant(id, true);
                self.read_on(id);
            }
        }
    }

    /// It has waited for room, and has it.
    fn read_on(&mut self, id: ConnId) {
        let Some(conn) = self.conns.get_mut(id) else { return };
        conn.flags.clear(Flags::SHORT);
        if conn.flags.has(Flags::READABLE) && !conn.flags.has(Flags::PAUSED) {
            self.enqueue(id);
        }
    }

    /// Whether it is up to clients when its packet is done with.
    fn is_able(&self, id: ConnId) -> bool {
        let flags = self.conns.get(id).map(|conn| conn.flags);
        flags.is_some_and(|flags| !flags.has(Flags::PAUSED) || flags.has(Flags::PEERS))
    }

    /// Those who have had room for too long, the first of them first, as many as it takes to have
    /// room for the first in line.
    pub(crate) fn overdue(&mut self) -> Vec<ConnId> {
        if self.room.due().is_none_or(|due| due > self.now) {
            return Vec::new();
        }
        let first = self.room.line.first().and_then(|id| self.open(id));
        let mut lacks = first.map_or(0, |first| self.lacks(first));
        let patience = self.limits.input_patience;
        let granted = self.room.granted.iter().filter(|(id, _)| self.is_able(**id));
        let mut all: Vec<_> =
            granted.map(|(id, granted)| (granted.able + patience, *id)).collect();
        all.sort_unstable();
        let mut overdue = Vec::new();
        for (due, id) in &all {
            if lacks == 0 || *due > self.now {
                break;
            }
            let charged = self.conns.get(*id).map_or(0, |conn| conn.charged as usize);
            lacks = lacks.saturating_sub(charged);
            overdue.push(*id);
        }
        // Without others: who is given room next may be the next to stall.
        let next = all.get(overdue.len()).map_or(self.now, |(due, _)| *due);
        self.room.look = next.max(self.now + LOOK_EVERY);
        overdue
    }
}

impl Conn {
    /// Whether it has room or needs some, or takes more or less than what is counted. What holds
    /// of hardly any connection is asked of each after each read: so without a look elsewhere.
    #[inline]
    pub(crate) fn concerns_room(&self) -> bool {
        self.flags.has(Flags::ROOM)
            || self.charged as usize != self.input.capacity()
            || needed(self) > LEAST
    }
}

/// Bytes of the packet that it has begun, as far as that is known.
fn needed(conn: &Conn) -> usize {
    conn.input.len().max(conn.want as usize)
}

/// What they take: the buffer that is there grows to no more than that.
fn memory(conn: &Conn) -> usize {
    needed(conn).max(conn.input.capacity())
}

fn as_u32(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}
