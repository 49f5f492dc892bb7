//! Room for unconsumed input, of which all connections of a lane together have a bounded amount.
//!
//! What has begun as a packet of more than [`LEAST`] bytes gets room for all of it before more of
//! it is read, or waits in line. So whoever has room can complete its packet, whatever others do,
//! and nobody waits for one that waits itself. The first always gets room, however little there is.
//! Where room is short, others are read in pieces of [`LEAST`], which lets short packets pass: an
//! acknowledgement waits for nothing but a long packet of its own connection.
//!
//! Those whom the handler has not let in, if it makes that difference, have a part of their own:
//! anybody can be one of them, so they are not to take what others need, and whoever is let in has
//! had to come this way.
//!
//! Owns: what connections are charged, and in which order they get room. A peer that begins a
//! packet and does not go on would keep its room for ever: who has had it for too long ends, once
//! others wait. The time for which a connection is paused by its handler is not its own, unless
//! that waits for clients.
//! Does not know: packets. How long one is the handler says ([`crate::LaneIo::want`]).
use super::{Conn, Core, Flags, Limits, part::Part};
use crate::{app::Handler, id::ConnId, time::Millis};

/// A packet of no more than this needs no room; and no read where room is short gives more. A read
/// into less than this a driver may refuse.
const LEAST: usize = 4 << 10;

/// See the file.
#[derive(Debug, Default)]
pub(crate) struct Room {
    known: Part,
    /// Of those whose flag `STRANGER` is set.
    strangers: Part,
}

impl Room {
    pub(crate) fn new(limits: &Limits) -> Self {
        let mut room = Self::default();
        room.limit(limits);
        room
    }

    fn limit(&mut self, limits: &Limits) {
        let strangers = limits.input_strangers;
        self.strangers.most = strangers.unwrap_or(usize::MAX);
        self.known.most = limits.input_held.saturating_sub(strangers.unwrap_or(0));
    }

    fn part(&self, is_strangers: bool) -> &Part {
        if is_strangers { &self.strangers } else { &self.known }
    }

    fn part_mut(&mut self, is_strangers: bool) -> &mut Part {
        if is_strangers { &mut self.strangers } else { &mut self.known }
    }

    /// Memory that is taken.
    pub(crate) fn held(&self) -> usize {
        self.known.held + self.strangers.held
    }

    /// Since when a connection has room that it has waited for.
    pub(crate) fn waited(&self, id: ConnId) -> Option<Millis> {
        self.known.waited(id).or_else(|| self.strangers.waited(id))
    }

    /// The connection could do nothing for its packet until now.
    pub(crate) fn renew(&mut self, id: ConnId, now: Millis) {
        self.known.renew(id, now);
        self.strangers.renew(id, now);
    }

    /// When somebody may have had room for too long; `None`: nobody waits for it.
    pub(crate) fn due(&self) -> Option<Millis> {
        self.known.due().into_iter().chain(self.strangers.due()).min()
    }
}

impl<H: Handler> Core<H> {
    /// Sets [`Limits::input_held`] and [`Limits::input_strangers`].
    pub(crate) fn limit_input(&mut self, all: usize, strangers: Option<usize>) {
        assert_eq!(self.conns.len(), 0, "whose room was counted by other limits");
        (self.limits.input_held, self.limits.input_strangers) = (all, strangers);
        self.room.limit(&self.limits);
    }

    /// Notes on a connection that has just come that it is not let in, where that matters.
    pub(crate) fn receive(&self, conn: &mut Conn) {
        if self.limits.input_strangers.is_some() {
            conn.flags.set(Flags::STRANGER);
        }
    }

    /// What the connection takes, has and waits for goes from one part to the other.
    pub(crate) fn let_in(&mut self, id: ConnId) {
        let Some(conn) = self.conns.get_mut(id) else { return };
        if !conn.flags.take(Flags::STRANGER) {
            return;
        }
        let Room { known, strangers } = &mut self.room;
        strangers.held -= conn.charged as usize;
        known.held += conn.charged as usize;
        if conn.flags.has(Flags::ROOM) {
            known.put(id, strangers.take(id));
        }
        if strangers.line.remove(id) {
            known.stand(id, self.now);
        }
        self.again |= self.room.due().is_some();
    }

    /// How much may be read of a connection that has `kept` so many bytes.
    #[inline]
    pub(crate) fn read_most(&self, id: ConnId, kept: usize) -> usize {
        if self.room.known.is_short() || self.room.strangers.is_short() {
            return self.read_little(id, kept);
        }
        usize::MAX
    }

    fn read_little(&self, id: ConnId, kept: usize) -> usize {
        let Some(conn) = self.conns.get(id) else { return LEAST };
        if !self.room.part(conn.is_stranger()).is_short() {
            return usize::MAX;
        }
        let granted = if conn.flags.has(Flags::ROOM) { conn.charged as usize } else { 0 };
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
        let part = self.room.part_mut(conn.is_stranger());
        part.held = part.held - before as usize + takes as usize;
        // Whoever waits is served in the next turn.
        self.again |= takes < before && !part.line.is_empty();
    }

    /// The handler has left this connection's input as it is: room is sought for what it wants.
    fn seek_room(&mut self, id: ConnId) {
        let Some(conn) = self.open(id).filter(|conn| needed(conn) > LEAST) else { return };
        // One that is paused, or offered again, gets no more than it has.
        let is_at_rest = conn.flags.has(Flags::PAUSED | Flags::OFFER | Flags::SHORT);
        if is_at_rest || needed(conn) > self.limits.input_bytes {
            return;
        }
        let part = self.room.part(conn.is_stranger());
        if conn.flags.has(Flags::ROOM) || part.line.is_empty() && part.has_for(more(conn)) {
            return self.grant(id, false);
        }
        let Some(conn) = self.conns.get_mut(id) else { return };
        conn.flags.set(Flags::SHORT);
        self.counters.input_waits += 1;
        self.again |= self.room.part_mut(conn.is_stranger()).stand(id, self.now);
    }

    /// Gives room, or more of it.
    fn grant(&mut self, id: ConnId, waited: bool) {
        let now = self.now;
        let Some(conn) = self.open_mut(id) else { return };
        let mut takes = as_u32(memory(conn));
        if conn.flags.has(Flags::ROOM) {
            takes = takes.max(conn.charged);
        } else {
            conn.flags.set(Flags::ROOM);
            let is_stranger = conn.is_stranger();
            self.room.part_mut(is_stranger).grant(id, now, waited);
        }
        self.charge_now(id, takes);
    }

    /// The packet for which it had room is done with, or will not be completed.
    pub(crate) fn give_up_room(&mut self, id: ConnId) {
        if let Some(conn) = self.conns.get_mut(id)
            && conn.flags.take(Flags::ROOM)
        {
            let part = self.room.part_mut(conn.is_stranger());
            part.take(id);
            // Whoever waits may have room by that alone: one always has.
            self.again |= !part.line.is_empty();
            self.charge(id);
        }
    }

    /// The connection, removed from its table, takes nothing any more.
    pub(crate) fn leave_room(&mut self, id: ConnId, conn: &mut Conn) {
        let part = self.room.part_mut(conn.is_stranger());
        if conn.flags.take(Flags::ROOM) {
            part.take(id);
        }
        if conn.flags.take(Flags::SHORT) {
            part.line.remove(id);
        }
        part.held -= std::mem::take(&mut conn.charged) as usize;
        self.again |= !part.line.is_empty();
    }

    /// So many bytes of input wait here to be sent to another lane, with a connection that will be
    /// a stranger there.
    pub(crate) fn hold_leaving(&mut self, input: usize) {
        self.room.part_mut(self.limits.input_strangers.is_some()).held += input;
    }

    /// They do so no longer.
    pub(crate) fn let_go_leaving(&mut self, input: usize) {
        let part = self.room.part_mut(self.limits.input_strangers.is_some());
        part.held -= input;
        self.again |= !part.line.is_empty();
    }

    /// It waits for no room any more, and is not read either.
    pub(crate) fn leave_line(&mut self, id: ConnId) {
        let Some(conn) = self.conns.get(id) else { return };
        let part = self.room.part_mut(conn.is_stranger());
        part.line.remove(id);
        self.again |= !part.line.is_empty();
    }

    /// Nobody wants its input any more.
    pub(crate) fn drop_input(&mut self, id: ConnId) {
        self.give_up_room(id);
        self.leave_line(id);
        let Some(conn) = self.conns.get_mut(id) else { return };
        conn.flags.clear(Flags::SHORT);
        let input = std::mem::take(&mut conn.input);
        self.counters.dropped_input += input.len() as u64;
        self.totals.input -= input.len();
        self.pool.give(input);
        self.charge(id);
    }

    /// Gives room to those in line, as far as there is some.
    pub(crate) fn serve_lines(&mut self) {
        self.serve_line(true);
        self.serve_line(false);
    }

    fn serve_line(&mut self, of_strangers: bool) {
        while let Some(id) = self.room.part(of_strangers).line.first() {
            let waits = self.open(id);
            if waits.is_some_and(|conn| !self.room.part(of_strangers).has_for(more(conn))) {
                return;
            }
            let is_there = waits.is_some();
            self.room.part_mut(of_strangers).line.remove(id);
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

    /// Those who have had room for too long: of each part the first of them first, as many as it
    /// takes to have room for the first in line.
    pub(crate) fn overdue(&mut self) -> Vec<ConnId> {
        let mut overdue = Vec::new();
        for is_strangers in [true, false] {
            if self.room.part(is_strangers).due().is_some_and(|due| due <= self.now) {
                self.overdue_of(is_strangers, &mut overdue);
            }
        }
        overdue
    }

    fn overdue_of(&mut self, is_strangers: bool, overdue: &mut Vec<ConnId>) {
        let part = self.room.part(is_strangers);
        let first = part.line.first().and_then(|id| self.open(id));
        let mut lacks = first.map_or(0, |first| part.lacks(more(first)));
        let patience = self.limits.input_patience;
        let able = part.able().filter(|(_, id)| self.is_able(*id));
        let mut all: Vec<_> = able.map(|(since, id)| (since + patience, id)).collect();
        all.sort_unstable();
        let mut next = self.now;
        for (due, id) in all {
            if lacks == 0 || due > self.now {
                // Without others: who is given room next may be the next to stall.
                next = due;
                break;
            }
            let charged = self.conns.get(id).map_or(0, |conn| conn.charged as usize);
            lacks = lacks.saturating_sub(charged);
            overdue.push(id);
        }
        self.room.part_mut(is_strangers).look_again(next, self.now);
    }
}

impl Conn {
    fn is_stranger(&self) -> bool {
        self.flags.has(Flags::STRANGER)
    }

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

/// What that is beyond what one without room takes.
fn more(conn: &Conn) -> usize {
    memory(conn).saturating_sub(conn.charged as usize)
}

fn as_u32(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}
