//! A file system of one file, whose bytes are a [`Device`]'s: what the kernel writes to it can be
//! recorded, in the order in which it arrives.
//!
//! Owns: the mount and the thread that answers the kernel. Does not know: what the file is for.
//!
//! Whoever waits for the file must be another process than the one that serves it: where both are
//! killed, the kernel frees the one that waits only when the other has closed its descriptors.

pub(crate) mod channel;
mod protocol;
pub(crate) mod wire;

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use self::channel::{Channel, Served};
use self::protocol::{Call, FileFacts, Request};
use self::wire::REQUEST_MAX;

/// What is behind the file.
pub trait Device: Send + 'static {
    /// Fills the buffer with the bytes at `offset`.
    fn read(&mut self, offset: u64, buffer: &mut [u8]);

    /// Changes in their order. None of them had been answered when the last one arrived, so that a
    /// flush among them says nothing about the others.
    fn take(&mut self, changes: Vec<Change>);
}

/// Something that the kernel asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// These bytes at this offset.
    Write {
        /// In bytes.
        offset: u64,
        /// What to write.
        bytes: Vec<u8>,
    },
    /// All writes that have been answered are to be durable.
    Flush,
}

/// The mounted file system; dropping it unmounts.
#[derive(Debug)]
pub struct Fuse {
    _served: Served,
}

impl Fuse {
    /// Mounts the file `name` of `len` bytes at `directory` and serves it from a thread.
    pub fn mount<D: Device>(
        directory: &Path,
        name: &str,
        len: u64,
        device: Arc<Mutex<D>>,
    ) -> io::Result<Self> {
        let channel = Channel::mount(directory)?;
        let facts = FileFacts { name: name.to_owned(), len };
        let server = Server { channel, facts, device };
        Ok(Self { _served: Served::spawn(directory, move || server.run())? })
    }
}

struct Server<D> {
    channel: Channel,
    facts: FileFacts,
    device: Arc<Mutex<D>>,
}

impl<D: Device> Server<D> {
    /// Answers until the file system is unmounted.
    fn run(self) -> io::Result<()> {
        let mut buffer = vec![0; REQUEST_MAX];
        loop {
            self.channel.wait()?;
            let mut requests = Vec::new();
            // All that is there, before any of it is answered: what comes together was together.
            while let Some(read) = self.channel.next(&mut buffer)? {
                if read == 0 {
                    return Ok(());
                }
                requests.push(Request::parse(&buffer[..read])?);
            }
            self.answer(requests)?;
        }
    }

    fn answer(&self, requests: Vec<Request>) -> io::Result<()> {
        let mut changes = Vec::new();
        let mut calls = Vec::new();
        for request in requests {
            let call = match request.call {
                Call::Write { offset, bytes } => {
                    let len = bytes.len();
                    changes.push(Change::Write { offset, bytes });
                    Call::Written(len)
                }
                Call::Fsync => {
                    changes.push(Change::Flush);
                    Call::Fsync
                }
                other => other,
            };
            calls.push(Request { unique: request.unique, call });
        }
        let mut device = self.device.lock().unwrap_or_else(PoisonError::into_inner);
        device.take(changes);
        let answers: Vec<_> = calls
            .iter()
            .filter_map(|request| {
                request.answer(&self.facts, |offset, buffer| device.read(offset, buffer))
            })
            .collect();
        drop(device);
        for answer in answers {
            if !self.channel.answer(&answer)? {
                break;
            }
        }
        Ok(())
    }
}
