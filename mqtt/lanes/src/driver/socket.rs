//! Calls on one socket that the drivers of real lanes share.
//!
//! Assumes: the socket is a stream that does not block.
use std::{io::IoSlice, os::fd::BorrowedFd};

use rustix::{
    io::{Errno, ioctl_fionread, retry_on_intr},
    net::{SendAncillaryBuffer, SendFlags, send, sendmsg},
};

use super::Write;

/// Sends the pieces in one call, as far as the socket takes them.
pub(super) fn write(socket: BorrowedFd<'_>, pieces: &[IoSlice<'_>]) -> Write {
    let result = retry_on_intr(|| match pieces {
        [piece] => send(socket, piece, SendFlags::NOSIGNAL),
        _ => sendmsg(socket, pieces, &mut SendAncillaryBuffer::default(), SendFlags::NOSIGNAL),
    });
    match result {
        Ok(count) => Write::Took(count),
        Err(Errno::AGAIN) => Write::Took(0),
        Err(error) => Write::Failed(error.kind()),
    }
}

/// How many bytes it has received that were not read.
pub(super) fn unread(socket: BorrowedFd<'_>) -> usize {
    // It fails on no socket that is open.
    ioctl_fionread(socket).map_or(0, |bytes| usize::try_from(bytes).unwrap_or(usize::MAX))
}
