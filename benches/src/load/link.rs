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
        if self.rest.len() > READ {
            // Of a packet of many reads each would copy all of it.
            std::mem::swap(bytes, &mut self.rest);
        } else {
            bytes.append(&mut self.rest);
        }
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

    /// Keeps what was not taken, the start of a packet, for the next read.
    pub(super) fn keep(&mut self, bytes: &mut Vec<u8>, taken: usize) {
        if taken == 0 && bytes.len() > READ {
            std::mem::swap(bytes, &mut self.rest);
        } else {
            self.rest.extend_from_slice(&bytes[taken..]);
        }
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
        } else if self.sent >= FULL && self.sent >= self.waiting() {
            // What stays is moved: at most as much as went.
            self.out.drain(..self.sent);
            self.sent = 0;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::thread;

    #[test]
    fn what_takes_many_reads_and_writes_comes_whole() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let there = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut here, mut there) =
            (Link::new(listener.accept().unwrap().0).unwrap(), Link::new(there).unwrap());
        let all: Vec<u8> = (0..5_000_000_u32).map(|at| at.to_le_bytes()[at as usize % 3]).collect();
        here.out.clone_from(&all);
        let mut bytes = Vec::new();
        while bytes.len() < all.len() {
            (here.writable, there.readable) = (true, true);
            here.flush().unwrap();
            assert!(there.read(&mut bytes).unwrap());
            if bytes.len() < all.len() {
                // As long as it is not complete, nothing of it is taken.
                there.keep(&mut bytes, 0);
            }
            thread::yield_now();
        }
        assert!(bytes == all && here.waiting() == 0);
        there.keep(&mut bytes, all.len() - 2);
        assert_eq!(there.rest, all[all.len() - 2..]);
    }
}
