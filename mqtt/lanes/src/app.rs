//! What an application of the lanes implements, and what it is told.
//!
//! Assumes: a handler belongs to one lane and is called by that lane alone, one call at a time.
use std::{io, net::SocketAddr, sync::Arc};

use crate::{
    id::{ConnId, LaneIndex, ListenerId, TimerSlot, WatchId},
    io::LaneIo,
    time::Millis,
    transport::TlsPeer,
};

/// The application's half of a lane.
///
/// Every connection is announced once, by [`accepted`](Self::accepted) or
/// [`adopted`](Self::adopted), and ends once, by [`closed`](Self::closed) or by
/// [`LaneIo::move_to`].
pub trait Handler: Sized {
    /// What lanes send each other.
    type Message: Send;
    /// What travels with a connection that moves to another lane.
    type Carried: Send;

    /// The lane starts; nothing else has been called yet.
    fn started(&mut self, _io: &mut LaneIo<'_, Self>) {}

    /// A connection came in through a listener; over TLS, its handshake is done.
    fn accepted(&mut self, io: &mut LaneIo<'_, Self>, conn: ConnId, peer: &PeerInfo);

    /// A connection arrived from another lane. Its unread input follows in
    /// [`bytes`](Self::bytes), before anything newly read.
    fn adopted(
        &mut self,
        io: &mut LaneIo<'_, Self>,
        conn: ConnId,
        peer: &PeerInfo,
        carried: Self::Carried,
    );

    /// Input in order, what was left unconsumed before first. Returns how many bytes are done with;
    /// the rest is kept and offered again, after [`LaneIo::resume`] if the connection was paused in
    /// this call, else together with the next bytes to come ([`LaneIo::want`] says how many it
    /// takes). So all complete packets are to be consumed in one call, or the connection paused.
    fn bytes(&mut self, io: &mut LaneIo<'_, Self>, conn: ConnId, input: &[u8]) -> usize;

    /// The peer will send no more. All input was offered before, but for what waited for room and
    /// will not be complete. Closes after the output is sent, unless overridden.
    fn ended(&mut self, io: &mut LaneIo<'_, Self>, conn: ConnId) {
        io.close_as(conn, CloseReason::Ended);
    }

    /// The packet that this connection has begun has had its room for
    /// [`crate::Limits::input_patience`] and was neither complete nor handled, and others wait for
    /// room. It is closed behind this call.
    fn input_overdue(&mut self, _io: &mut LaneIo<'_, Self>, _conn: ConnId) {}

    /// [`LaneIo::notify_drained`] was asked for, and little output waits now.
    fn drained(&mut self, _io: &mut LaneIo<'_, Self>, _conn: ConnId) {}

    /// The connection is gone, all its output sent if it was closed after flush. `conn` names
    /// nothing any more.
    fn closed(&mut self, io: &mut LaneIo<'_, Self>, conn: ConnId, why: CloseReason);

    /// A timer's deadline has passed. It is not set any more.
    fn timer(&mut self, _io: &mut LaneIo<'_, Self>, _conn: ConnId, _slot: TimerSlot) {}

    /// The lane was woken through its [`crate::LaneWaker`], or a ring that was full has room
    /// again. Once for any number of wakes; may be called without a cause.
    fn woken(&mut self, _io: &mut LaneIo<'_, Self>) {}

    /// A watched descriptor was signalled since the last call.
    fn watched(&mut self, _io: &mut LaneIo<'_, Self>, _watch: WatchId) {}

    /// A message from another lane. Messages of one lane come in the order they were sent.
    fn message(&mut self, io: &mut LaneIo<'_, Self>, from: LaneIndex, message: Self::Message);

    /// All work of this turn is done and output is about to be sent. Returns when another turn is
    /// due even if nothing happens; a time that has passed asks for it at once.
    fn turn_end(&mut self, _io: &mut LaneIo<'_, Self>) -> Option<Millis> {
        None
    }

    /// The driver has taken the output of this turn, as far as sockets take it: the place for work
    /// that none of it waits for. Called after each [`turn_end`](Self::turn_end), and returns as
    /// that does; the earlier of both counts.
    fn sent(&mut self, _io: &mut LaneIo<'_, Self>) -> Option<Millis> {
        None
    }

    /// The lane shall stop: no connection is accepted any more, and what is still open at the
    /// lane's deadline is cut. Closes every connection after its output is sent, unless overridden.
    fn stopping(&mut self, io: &mut LaneIo<'_, Self>) {
        for conn in io.connections() {
            io.close_as(conn, CloseReason::Stopped);
        }
    }

    /// Asked while stopping: whether the lane may end before its deadline, once no connection is
    /// left.
    fn may_stop(&self) -> bool {
        true
    }
}

/// Who connected, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerInfo {
    /// The peer's address; IPv4 as such, also through an IPv6 listener.
    pub addr: SocketAddr,
    /// The listener that accepted it.
    pub listener: ListenerId,
    /// What [`crate::BindOptions::tag`] says.
    pub tag: u32,
    /// What its TLS handshake has shown; `None`: it does not use TLS.
    pub tls: Option<Arc<TlsPeer>>,
}

/// How a connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Close {
    /// At once; queued output is dropped, and counted.
    Now,
    /// When all queued output was sent, or the linger time has passed. Input is read and thrown
    /// away from here on, so that the peer sees the last bytes and not a reset.
    AfterFlush,
}

/// Why a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// The application closed it.
    Local,
    /// The peer said that it sends no more.
    Ended,
    /// The peer or the network broke it.
    Failed(io::ErrorKind),
    /// More unconsumed input than [`crate::Limits::input_bytes`].
    InputTooLarge,
    /// It held the room that others wait for, for longer than [`crate::Limits::input_patience`].
    InputOverdue,
    /// Closed after flush, but the peer did not take the output in time.
    LingerExpired,
    /// The lane stopped.
    Stopped,
}
