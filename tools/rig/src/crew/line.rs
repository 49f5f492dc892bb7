//! One connection to the broker: packets in, packets out, without waiting.
//!
//! Owns: the socket, bytes that are no whole packet yet, bytes not yet sent. Does not know: what is
//! said.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use anyhow::{Result, anyhow};
use zzq_codec::{Decoder, Encoder, Limits, Packet};
use zzq_types::ProtocolVersion;

/// Longer than any packet that is sent here.
const PACKET_MAX: u32 = 1 << 20;
/// Taken in at once, so that one connection does not hold up the others.
const READ_MAX: usize = 256 * 1024;
/// A broker that does not take a connection for so long does not run.
const DIAL: Duration = Duration::from_secs(30);

/// See the file.
#[derive(Debug)]
pub(super) struct Line {
    stream: TcpStream,
    decoder: Decoder,
    encoder: Encoder,
    input: Vec<u8>,
    output: Vec<u8>,
}

impl Line {
    /// Connects.
    pub(super) fn dial(address: SocketAddr, version: ProtocolVersion) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&address, DIAL)?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        Ok(Self {
            stream,
            decoder: Decoder::of_servers(version, Limits { max_packet: PACKET_MAX }),
            encoder: Encoder::new(version),
            input: Vec::new(),
            output: Vec::new(),
        })
    }

    /// Puts a packet behind what is to be sent.
    pub(super) fn send(&mut self, packet: &Packet<'_>) -> Result<()> {
        let encoded = self.encoder.encode(packet, &mut self.output);
        encoded.map_err(|error| anyhow!("a packet that cannot be sent: {error}"))
    }

    /// Whether something is to be sent.
    pub(super) fn has_output(&self) -> bool {
        !self.output.is_empty()
    }

    /// Sends what the connection takes. Returns whether it still stands.
    pub(super) fn flush(&mut self) -> bool {
        while !self.output.is_empty() {
            match self.stream.write(&self.output) {
                Ok(0) => return false,
                Ok(sent) => drop(self.output.drain(..sent)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return true,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
        }
        true
    }

    /// Takes in what has come. Returns whether the connection still stands.
    pub(super) fn fill(&mut self) -> bool {
        let mut buffer = [0; 16 * 1024];
        let mut taken = 0;
        while taken < READ_MAX {
            match self.stream.read(&mut buffer) {
                Ok(0) => return false,
                Ok(read) => {
                    self.input.extend_from_slice(&buffer[..read]);
                    taken += read;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return true,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
        }
        true
    }

    /// Hands over each whole packet that has come.
    pub(super) fn packets(
        &mut self,
        mut handle: impl FnMut(&mut Self, Packet<'_>) -> Result<()>,
    ) -> Result<()> {
        let input = std::mem::take(&mut self.input);
        let mut at = 0;
        loop {
            let decoded = self.decoder.decode(&input[at..]);
            let decoded =
                decoded.map_err(|error| anyhow!("the broker sends nonsense: {error:?}"))?;
            let Some((packet, size)) = decoded else { break };
            handle(self, packet)?;
            at += size;
        }
        self.input = input;
        self.input.drain(..at);
        Ok(())
    }
}

impl AsFd for Line {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}
