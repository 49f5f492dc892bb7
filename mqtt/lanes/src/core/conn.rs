//! One connection, as the lane knows it. Small: most of a broker's connections are idle, and an
//! idle one owns no buffer.
use super::{output::Output, timers::ConnTimers};
use crate::{
    admission::Admission,
    app::{CloseReason, PeerInfo},
};

pub(crate) struct Conn {
    pub(crate) phase: Phase,
    pub(crate) flags: Flags,
    /// Why it ends, once its phase is `Closing`.
    pub(crate) reason: CloseReason,
    pub(crate) peer: PeerInfo,
    /// Unconsumed input.
    pub(crate) input: Vec<u8>,
    /// The handler is not called with less than this.
    pub(crate) want: u32,
    /// What it takes of [`crate::Limits::input_held`].
    pub(crate) charged: u32,
    pub(crate) output: Output,
    pub(crate) timers: ConnTimers,
    /// Input thrown away since the connection was closed.
    pub(crate) discarded: u32,
    pub(crate) admission: Option<Admission>,
}

// What an idle connection takes of the lane, beside a timer's entry and 4 bytes of the driver.
const _: () = assert!(size_of::<Conn>() <= 192);

impl Conn {
    pub(crate) fn new(peer: PeerInfo, admission: Option<Admission>) -> Self {
        Self {
            phase: Phase::Open,
            flags: Flags::default(),
            reason: CloseReason::Local,
            peer,
            input: Vec::new(),
            want: 0,
            charged: 0,
            output: Output::default(),
            timers: ConnTimers::default(),
            discarded: 0,
            admission,
        }
    }
}

impl Conn {
    /// Whether anybody will want what it leaves unconsumed: its handler, or another lane.
    pub(crate) fn keeps_input(&self) -> bool {
        matches!(self.phase, Phase::Open | Phase::Leaving)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Its handshake is under way; the handler has not heard of it.
    Handshake,
    /// The handler has it.
    Open,
    /// The handler has closed it, and has not been told of its end.
    Closing,
    /// The handler knows of its end; the lane waits for the peer's.
    Draining,
    /// The handler has sent it to another lane; it goes when the callback has returned.
    Leaving,
}

/// What is true of a connection, a bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Flags(u16);

impl Flags {
    /// The driver may have bytes.
    pub(crate) const READABLE: u16 = 1;
    /// It is in the ready list.
    pub(crate) const QUEUED: u16 = 1 << 1;
    /// The handler wants no input now.
    pub(crate) const PAUSED: u16 = 1 << 2;
    /// Kept input is to be offered without waiting for more.
    pub(crate) const OFFER: u16 = 1 << 3;
    /// It is in the list of connections to flush.
    pub(crate) const DIRTY: u16 = 1 << 4;
    /// The driver took less than it was given, and will say when to go on.
    pub(crate) const BLOCKED: u16 = 1 << 5;
    /// The handler wants to hear when little output waits.
    pub(crate) const NOTIFY: u16 = 1 << 6;
    /// The peer's end is in sight: read until it is reached.
    pub(crate) const HANGUP: u16 = 1 << 7;
    /// The peer's end was read.
    pub(crate) const ENDED: u16 = 1 << 8;
    /// The handler was told of the peer's end.
    pub(crate) const TOLD: u16 = 1 << 10;
    /// It is broken: what is queued is lost, what the peer sent before may still be read.
    pub(crate) const BROKEN: u16 = 1 << 11;
    /// It has room for the packet that it has begun.
    pub(crate) const ROOM: u16 = 1 << 12;
    /// It waits for room, and is not read.
    pub(crate) const SHORT: u16 = 1 << 13;
    /// What it is paused for is up to clients: see [`crate::LaneIo::pause_for_peers`].
    pub(crate) const PEERS: u16 = 1 << 14;
    /// Its handler has not let it in, and makes that difference.
    pub(crate) const STRANGER: u16 = 1 << 15;
    /// It ends as soon as the callback returns.
    pub(crate) const DOOMED: u16 = 1 << 9;

    /// Whether one of these is set.
    pub(crate) fn has(self, flag: u16) -> bool {
        self.0 & flag != 0
    }

    pub(crate) fn set(&mut self, flag: u16) {
        self.0 |= flag;
    }

    pub(crate) fn clear(&mut self, flag: u16) {
        self.0 &= !flag;
    }

    /// Clears `flag` and says whether it was set.
    pub(crate) fn take(&mut self, flag: u16) -> bool {
        let was = self.has(flag);
        self.clear(flag);
        was
    }
}
