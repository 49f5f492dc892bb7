//! Connections between lanes: accepted ones handed round robin, and those that move with their
//! unread input to where their session lives.
use super::Lane;
use crate::{
    admission::Admission,
    app::{CloseReason, Handler, PeerInfo},
    core::{Conn, Departure, Flags, Queue},
    driver::{Accepted, Driver, Taken},
    id::{ConnId, LaneIndex},
    ring::Class,
};

/// Connections taken over from one lane in one turn.
const ADOPT_MAX: usize = 64;

/// What goes through a ring.
pub(crate) enum Transfer<C, S> {
    Fresh(Accepted<S>),
    Moved(Box<Moved<C, S>>),
}

pub(crate) struct Moved<C, S> {
    socket: S,
    peer: PeerInfo,
    admission: Option<Admission>,
    input: Vec<u8>,
    output: Queue,
    carried: C,
}

impl<C, S> Transfer<C, S> {
    /// Memory of the input and the output that it has.
    fn held(&self) -> (usize, usize) {
        match self {
            Self::Fresh(_) => (0, 0),
            Self::Moved(moved) => (moved.input.capacity(), moved.output.held()),
        }
    }
}

impl<H: Handler, D: Driver> Lane<H, D> {
    /// Gives an accepted connection to the next lane whose ring has room, or keeps it.
    pub(super) fn place(&mut self, accepted: Accepted<D::Socket>) {
        let to = LaneIndex(self.placing);
        // Fewer than 2^16 lanes, so the sum does not wrap.
        let lanes = self.transfers.outlets.len();
        self.placing = if to.index() + 1 < lanes { self.placing + 1 } else { 0 };
        if to == self.core.lane {
            return self.accept(accepted);
        }
        let fresh = Transfer::Fresh(accepted);
        if let Err(Transfer::Fresh(accepted)) = self.transfers.push(to, fresh, Class::Bulk, 0) {
            self.accept(accepted);
        }
    }

    fn accept(&mut self, accepted: Accepted<D::Socket>) {
        if self.stop_at.is_some() {
            self.core.counters.refused += 1;
            return;
        }
        let Accepted { socket, peer, admission } = accepted;
        let mut conn = Conn::new(peer.clone(), admission);
        self.core.receive(&mut conn);
        let id = self.core.conns.insert(conn);
        if let Err(error) = self.driver.add(id, socket) {
            tracing::warn!(peer = %peer.addr, %error, "cannot serve an accepted connection");
            self.core.conns.remove(id);
            self.core.counters.add_failed += 1;
            return;
        }
        self.core.counters.accepted += 1;
        if self.driver.is_handshaking(id) {
            return self.await_handshake(id);
        }
        self.call(|handler, io| handler.accepted(io, id, &peer));
    }

    pub(super) fn depart(&mut self, departure: Departure<H::Carried>) {
        let Departure { conn: id, to, carried } = departure;
        let Some(mut conn) = self.core.conns.remove(id) else { return };
        self.core.timers.forget(id, &mut conn.timers);
        self.core.totals.input -= conn.input.len();
        self.core.leave_room(id, &mut conn);
        self.core.totals.output -= conn.output.queued();
        self.core.totals.output_held -= conn.output.held();
        let taken = self.driver.take(id);
        assert!(taken.is_some(), "{id} has no socket to move");
        let Some(Taken { socket, unread, unsent }) = taken else { return };
        conn.input.extend_from_slice(&unread);
        conn.output.put_back(unsent, &mut self.core.pool);
        self.core.counters.departed += 1;
        let moved = Transfer::Moved(Box::new(Moved {
            socket,
            peer: conn.peer,
            admission: conn.admission,
            input: conn.input,
            output: conn.output,
            carried,
        }));
        // It counts here for as long as it waits for a place in the ring, which bounds what it
        // takes.
        let (input, output) = moved.held();
        self.core.hold_leaving(input);
        self.core.totals.output_held += output;
        self.outbox.push_back((to, moved));
        self.post_outbox();
    }

    /// Sends moved connections on, for each lane oldest first: what has little with it would take
    /// the room that one which has much waits for. A full ring's consumer wakes this lane.
    pub(super) fn post_outbox(&mut self) {
        let mut full: Vec<LaneIndex> = Vec::new();
        for _ in 0..self.outbox.len() {
            let Some((to, moved)) = self.outbox.pop_front() else { return };
            let (input, output) = moved.held();
            let held = input + output;
            if full.contains(&to) {
                self.outbox.push_back((to, moved));
            } else if let Err(moved) = self.transfers.push(to, moved, Class::Receipt, held) {
                self.outbox.push_back((to, moved));
                full.push(to);
            } else {
                self.core.let_go_leaving(input);
                self.core.totals.output_held -= output;
            }
        }
    }

    pub(super) fn take_transfers(&mut self) {
        for from in 0..self.transfers.inlets.len() {
            for _ in 0..ADOPT_MAX {
                let inlet = self.transfers.inlets[from].as_mut();
                match inlet.and_then(crate::ring::Inlet::pop) {
                    Some(Transfer::Fresh(accepted)) => self.accept(accepted),
                    Some(Transfer::Moved(moved)) => self.adopt(*moved),
                    None => break,
                }
            }
            if let Some(inlet) = &mut self.transfers.inlets[from] {
                self.core.again |= !inlet.is_empty();
                inlet.freed();
            }
        }
    }

    fn adopt(&mut self, moved: Moved<H::Carried, D::Socket>) {
        let Moved { socket, peer, admission, input, output, carried } = moved;
        let mut conn = Conn::new(peer.clone(), admission);
        self.core.receive(&mut conn);
        self.core.totals.input += input.len();
        self.core.totals.output += output.queued();
        self.core.totals.output_held += output.held();
        if !input.is_empty() {
            conn.flags.set(Flags::OFFER);
        }
        conn.input = input;
        conn.output = output;
        let id = self.core.conns.insert(conn);
        self.core.charge(id);
        let added = self.driver.add(id, socket);
        self.core.counters.adopted += 1;
        self.call(|handler, io| handler.adopted(io, id, &peer, carried));
        if let Err(error) = added {
            self.core.counters.add_failed += 1;
            self.core.doom(id, CloseReason::Failed(error.kind()));
        } else if self.stop_at.is_some() {
            self.core.end(id, CloseReason::Stopped);
        } else {
            self.start_adopted(id);
        }
        self.settle();
    }

    /// Reads what came along before anything new, and sends what was queued.
    fn start_adopted(&mut self, id: ConnId) {
        if let Some(conn) = self.core.open(id)
            && conn.flags.has(Flags::OFFER)
            && !conn.flags.has(Flags::PAUSED)
        {
            self.core.enqueue(id);
        }
        self.core.mark_dirty(id);
    }
}
