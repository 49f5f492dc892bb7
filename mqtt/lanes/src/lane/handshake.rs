//! Connections whose handshake is under way. The driver makes it; the lane gives it its time, and
//! tells the handler of those that are through.
//!
//! Assumes: the driver says of each how it went, once, unless the lane closes it before.
use std::sync::Arc;

use super::Lane;
use crate::{
    app::{CloseReason, Handler},
    core::{Flags, LINGER, Phase},
    driver::Driver,
    id::ConnId,
    time::Millis,
    transport::TlsPeer,
};

impl<H: Handler, D: Driver> Lane<H, D> {
    /// Nobody hears of it before its handshake is done, for which it has so long.
    pub(super) fn await_handshake(&mut self, id: ConnId) {
        let Some(conn) = self.core.conns.get_mut(id) else { return };
        conn.phase = Phase::Handshake;
        // It cannot linger before it was open, so the deadline of that is free.
        let due = self.core.now + self.core.limits.handshake;
        self.core.set_timer(id, LINGER, due);
    }

    pub(super) fn handshake_done(&mut self, id: ConnId, peer: Option<Arc<TlsPeer>>) {
        let Some(conn) = self.core.conns.get_mut(id) else { return };
        if conn.phase != Phase::Handshake || conn.flags.has(Flags::DOOMED) {
            return;
        }
        conn.phase = Phase::Open;
        conn.peer.tls = peer;
        let peer = conn.peer.clone();
        self.core.set_timer(id, LINGER, Millis::NEVER);
        self.call(|handler, io| handler.accepted(io, id, &peer));
    }

    /// What the driver has to say about it goes out, and is not lost by a reset: the connection
    /// ends as one that was closed after flush.
    pub(super) fn handshake_failed(&mut self, id: ConnId) {
        let Some(conn) = self.core.conns.get_mut(id) else { return };
        if conn.phase != Phase::Handshake || conn.flags.has(Flags::DOOMED) {
            return;
        }
        conn.phase = Phase::Draining;
        conn.flags.set(Flags::READABLE);
        self.driver.shut(id);
        self.core.enqueue(id);
        let due = self.core.now + self.core.limits.linger;
        self.core.set_timer(id, LINGER, due);
    }

    pub(super) fn handshake_overdue(&mut self, id: ConnId) {
        self.driver.handshake_overdue(id);
        self.core.doom(id, CloseReason::LingerExpired);
        self.settle();
    }

    /// The lane stops, and no handler would close them.
    pub(super) fn stop_handshakes(&mut self) {
        let all = self.core.conns.iter();
        let left: Vec<_> =
            all.filter(|(_, conn)| conn.phase == Phase::Handshake).map(|(id, _)| id).collect();
        for id in left {
            self.core.doom(id, CloseReason::Stopped);
        }
        self.settle();
    }
}
