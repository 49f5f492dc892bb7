//! What the driver knows of one connection: what came of it, what goes, what the kernel was asked.
//!
//! Assumes: at most one receive or poll for reading is in flight, one poll for writing, one send,
//! one watch for a reset.
use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;

use super::ring::{Received, Slot, Target, What};
use crate::id::ConnId;

#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts of one connection")]
pub(super) struct Link {
    pub(super) conn: ConnId,
    pub(super) socket: OwnedFd,
    pub(super) place: Option<u32>,
    pub(super) input: Input,
    pub(super) output: Output,
    /// It comes as a stream: told when it can be read, rather than received in small buffers.
    pub(super) streams: bool,
    /// The lane waits to be told that it can write.
    pub(super) is_awaited: bool,
    /// Nothing follows what is on its way.
    pub(super) is_shut: bool,
    /// Known to be broken: nothing is asked of the kernel any more.
    pub(super) is_broken: bool,
    /// The lane hears of that behind the receive in flight, which may have brought something.
    pub(super) is_break_due: bool,
    /// It is closed or given away: what is under way is ended.
    pub(super) is_leaving: bool,
    /// It is among those that are looked at before the next wait.
    pub(super) is_listed: bool,
    asked: u8,
}

/// What of its input the lane has not taken.
#[derive(Debug)]
pub(super) enum Input {
    Nothing,
    /// This, and perhaps more in the socket.
    Received(Received, bool),
    /// Something in the socket, perhaps.
    Perhaps,
    Ended,
    Failed(Errno),
}

#[derive(Debug)]
pub(super) enum Output {
    Nothing,
    /// Goes with the next submission.
    Filled(Slot),
    /// With the kernel.
    Away,
    /// Goes when the socket takes more.
    Waiting(Slot),
}

impl Link {
    pub(super) fn new(conn: ConnId, socket: OwnedFd) -> Self {
        Self {
            conn,
            socket,
            place: None,
            input: Input::Nothing,
            output: Output::Nothing,
            streams: false,
            is_awaited: false,
            is_shut: false,
            is_broken: false,
            is_break_due: false,
            is_leaving: false,
            is_listed: false,
            asked: 0,
        }
    }

    pub(super) fn target(&self) -> Target<'_> {
        Target { socket: self.socket.as_fd(), place: self.place }
    }

    /// Notes that the kernel is asked. False: it was already.
    pub(super) fn ask(&mut self, what: What) -> bool {
        let before = self.asked;
        self.asked |= bit(what);
        self.asked != before
    }

    pub(super) fn answered(&mut self, what: What) {
        assert!(self.has_asked(what), "{} did not ask for {what:?}", self.conn);
        self.asked &= !bit(what);
    }

    pub(super) fn has_asked(&self, what: What) -> bool {
        self.asked & bit(what) != 0
    }

    /// Whether something is under way that will tell what can be read.
    pub(super) fn is_reading(&self) -> bool {
        self.has_asked(What::Receive) || self.has_asked(What::Readable)
    }

    /// Whether nothing is under way.
    pub(super) fn is_settled(&self) -> bool {
        self.asked == 0
    }
}

fn bit(what: What) -> u8 {
    1 << what as u8
}
