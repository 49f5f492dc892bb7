//! What a lane asks of the world: bytes of sockets, readiness, the time. One driver for each lane.
//!
//! Assumes of a driver: it names a connection by the id it was added under, reports readiness at
//! least at every change (edges), and never calls back into the lane.
mod chosen;
mod doors;
pub mod epoll;
pub mod mem;
mod socket;
mod spin;
pub mod uring;
mod weigh;

use std::{
    io::{self, IoSlice},
    sync::Arc,
};

pub(crate) use self::chosen::{ChosenDriver, LaneDriver, LaneListener, Layers, wrap};
pub use self::{chosen::DriverKind, spin::BusyPoll};
use crate::{
    admission::Admission,
    app::PeerInfo,
    id::{ConnId, ListenerId, WatchId},
    time::Millis,
    transport::TlsPeer,
    waker::LaneWaker,
};

/// Sockets, readiness and the clock of one lane.
pub trait Driver {
    /// A connection that is not on a lane: just accepted, or on its way between two.
    type Socket: Send;
    /// A bound endpoint.
    type Listener: Send;

    /// Monotonic time.
    fn now(&mut self) -> Millis;

    /// Appends what happened. Blocks as `rest` allows, while nothing has and `waker` was not
    /// used.
    fn wait(&mut self, rest: Rest, waker: &LaneWaker, events: &mut Vec<Event<Self::Socket>>);

    /// Takes a socket over; what it is ready for is reported from now on. On error it is closed.
    fn add(&mut self, conn: ConnId, socket: Self::Socket) -> io::Result<()>;

    /// Reads once, into 4 KiB at least: some get what has come in pieces that they do not cut.
    fn read(&mut self, conn: ConnId, into: &mut [u8]) -> Read;

    /// How many bytes could be read now, without anything else from the peer.
    fn unread(&mut self, conn: ConnId) -> usize;

    /// Writes once, from the front of `pieces`.
    fn write(&mut self, conn: ConnId, pieces: &[IoSlice<'_>]) -> Write;

    /// Tells the peer that nothing follows.
    fn shut(&mut self, conn: ConnId);

    /// Whether it has output of the connection that counts as taken and was not sent. Where it was
    /// shut, an event says that the connection can be written when all of that is.
    fn is_sending(&self, _: ConnId) -> bool {
        false
    }

    /// Closes, whatever is unsent.
    fn close(&mut self, conn: ConnId);

    /// Gives the socket away, open.
    fn take(&mut self, conn: ConnId) -> Option<Taken<Self::Socket>>;

    /// Whether a handshake with this connection is under way: how it goes is told by an event, and
    /// until then the connection is neither read nor written by the lane.
    fn is_handshaking(&self, _: ConnId) -> bool {
        false
    }

    /// The handshake has taken all the time that it may. The lane closes the connection next.
    fn handshake_overdue(&mut self, _: ConnId) {}

    /// Memory that it holds of what connections send and are sent, in bytes, beside the kernel's.
    fn held(&self) -> usize {
        0
    }

    /// Starts to accept.
    fn listen(&mut self, listener: Self::Listener) -> io::Result<()>;

    /// Stops to accept and closes the listener; `None`: all.
    fn unlisten(&mut self, id: Option<ListenerId>);
}

/// How long a driver may wait for events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// Not at all: work is ready.
    Now,
    /// Until then.
    Until(Millis),
    /// Until something happens.
    Forever,
}

impl Rest {
    /// Until when it is, with a listener that accepts again at `due`. `None`: for ever.
    fn until(self, due: Option<Millis>) -> Option<Millis> {
        let until = match (self, due) {
            (Self::Until(until), Some(due)) => until.min(due),
            (Self::Until(until), None) | (_, Some(until)) => until,
            (_, None) => Millis::NEVER,
        };
        (until != Millis::NEVER).then_some(until)
    }
}

/// A socket that a driver gives away.
#[derive(Debug)]
pub struct Taken<S> {
    /// It.
    pub socket: S,
    /// What the driver has received of it and not given to the lane.
    pub unread: Vec<u8>,
    /// What it has taken from the lane and not sent: the first that is to follow.
    pub unsent: Vec<u8>,
}

impl<S> Taken<S> {
    /// One of which the driver holds nothing.
    pub fn settled(socket: S) -> Self {
        Self { socket, unread: Vec::new(), unsent: Vec::new() }
    }
}

/// What happened.
#[derive(Debug)]
pub enum Event<S> {
    /// A connection may be read or written again.
    Ready {
        /// Which one; it may be gone.
        conn: ConnId,
        /// For what.
        ready: Ready,
    },
    /// A listener accepted a connection.
    Accepted(Accepted<S>),
    /// A handshake is done: the connection may be read and written.
    HandshakeDone {
        /// Which one.
        conn: ConnId,
        /// What it has shown, over TLS.
        peer: Option<Arc<TlsPeer>>,
    },
    /// A handshake has failed. The peer may be told why, and its end is awaited.
    HandshakeFailed(ConnId),
    /// A watched descriptor was signalled.
    Watched(WatchId),
    /// The kernel signalled the lane's own eventfd.
    Signalled,
}

/// Readiness of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "four independent facts of one event")]
pub struct Ready {
    /// Bytes or an end can be read.
    pub readable: bool,
    /// Output can be written.
    pub writable: bool,
    /// The peer will send no more: it is worth reading to the end.
    pub hangup: bool,
    /// The connection is broken.
    pub broken: bool,
}

/// A new connection.
#[derive(Debug)]
pub struct Accepted<S> {
    /// Its socket.
    pub socket: S,
    /// Who it is.
    pub peer: PeerInfo,
    /// Its place within its listener's limit.
    pub admission: Option<Admission>,
}

/// What a read gave.
#[derive(Debug)]
pub enum Read {
    /// So many bytes, and whether a further read could give more now. None at all: what came is not
    /// input yet, and there may be more.
    Bytes(usize, bool),
    /// Nothing now; an event follows.
    Blocked,
    /// The peer's end.
    Ended,
    /// The connection is broken.
    Failed(io::ErrorKind),
    /// The peer breaks the rules of its transport, and is told so: there is no more input, and the
    /// connection is to be shut and read until the peer has seen that.
    Refused(io::ErrorKind),
}

/// What a write took.
#[derive(Debug)]
pub enum Write {
    /// So many bytes. If not all, an event follows when there is room.
    Took(usize),
    /// The connection is broken.
    Failed(io::ErrorKind),
    /// Nothing may follow: see [`Read::Refused`].
    Refused(io::ErrorKind),
}
