//! One connection without waiting: bytes in, bytes out, and whether the socket has more.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;

/// Bytes of one read.
pub(super) const READ: usize = 64 * 1024;
/// Bytes waiting to be written above which no more are made.
pub(super) const FULL: usize = 64 * 1024;

/// One connection.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) stream: TcpStream,
    /// The start of a packet that is not complete.
    rest: Vec<u8>,
    /// What is to be sent.
    pub(super) out: Vec<u8>,
    /// How much of it was.
    sent: usize,
    pub(super) readable: bool,
    pub(super) writable: bool,
}

impl Link {
    /// Takes a connection whose last answer was read in full.
    pub(super) fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self {
            stream,
            rest: Vec::new(),
            out: Vec::new(),
            sent: 0,
            readable: true,
            writable: true,
        })
    }

    /// Bytes that wait to be sent.
    pub(super) fn waiting(&self) -> usize {
        self.out.len() - self.sent
    }

    /// Reads once; `bytes` then holds what was left before and what came. False at the end of the
    /// stream.
    pub(super) fn read(&mut self, bytes: &mut Vec<u8>) -> io::Result<bool> {
        bytes.clear();
        bytes.append(&mut self.rest);
        let start = bytes.len();
        bytes.resize(start + READ, 0);
        let read = loop {
            match self.stream.read(&mut bytes[start..]) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.readable = false;
                    break 0;
                }
                Ok(0) => return Ok(false),
                other => break other?,
            }
        };
        // A short read has emptied the socket: more will be announced.
        self.readable &= read == READ;
        bytes.truncate(start + read);
        Ok(true)
    }

    /// Keeps the start of a packet for the next read.
    pub(super) fn keep(&mut self, rest: &[u8]) {
        self.rest.extend_from_slice(rest);
    }

    /// Sends what the socket takes.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        while self.writable && self.sent < self.out.len() {
            match self.stream.write(&self.out[self.sent..]) {
                Ok(written) => self.sent += written,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.writable = false,
                Err(error) => return Err(error),
            }
        }
        if self.sent == self.out.len() {
            self.out.clear();
            self.sent = 0;
        } else if self.sent >= FULL {
            self.out.drain(..self.sent);
            self.sent = 0;
        }
        Ok(())
    }
}
