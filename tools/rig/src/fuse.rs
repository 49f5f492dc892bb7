//! A file system of one file, whose bytes are a [`Device`]'s: what the kernel writes to it can be
//! recorded, in the order in which it arrives.
//!
//! Owns: the mount and the thread that answers the kernel. Does not know: what the file is for.
//!
//! Whoever waits for the file must be another process than the one that serves it: where both are
//! killed, the kernel frees the one that waits only when the other has closed its descriptors.

mod protocol;

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use self::protocol::{Call, FileFacts, REQUEST_MAX, Request};

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
    directory: PathBuf,
    server: Option<JoinHandle<io::Result<()>>>,
}

impl Fuse {
    /// Mounts the file `name` of `len` bytes at `directory` and serves it from a thread.
    pub fn mount<D: Device>(
        directory: &Path,
        name: &str,
        len: u64,
        device: Arc<Mutex<D>>,
    ) -> io::Result<Self> {
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let fd = rustix::fs::open("/dev/fuse", flags, Mode::empty())?;
        let number = std::os::fd::AsRawFd::as_raw_fd(&fd);
        let data = format!("fd={number},rootmode=40000,user_id=0,group_id=0");
        let data = std::ffi::CString::new(data).map_err(io::Error::other)?;
        let safe = MountFlags::NODEV | MountFlags::NOSUID | MountFlags::NOEXEC;
        mount("zzq-rig", directory, "fuse", safe, Some(data.as_c_str()))?;
        let facts = FileFacts { name: name.to_owned(), len };
        let server = std::thread::Builder::new()
            .name("fuse".to_owned())
            .spawn(move || Server { fd, facts, device }.run())?;
        Ok(Self { directory: directory.to_owned(), server: Some(server) })
    }
}

impl Drop for Fuse {
    fn drop(&mut self) {
        // Where something still uses it, it goes with the last user; the thread, too.
        let gone = unmount(&self.directory, UnmountFlags::empty());
        if gone.is_err() {
            let _ = unmount(&self.directory, UnmountFlags::DETACH);
        } else if let Some(server) = self.server.take() {
            let _ = server.join();
        }
    }
}

struct Server<D> {
    fd: OwnedFd,
    facts: FileFacts,
    device: Arc<Mutex<D>>,
}

impl<D: Device> Server<D> {
    /// Answers until the file system is unmounted.
    fn run(self) -> io::Result<()> {
        let mut buffer = vec![0; REQUEST_MAX];
        loop {
            let mut wait = [PollFd::new(&self.fd, PollFlags::IN)];
            match poll(&mut wait, None) {
                Err(Errno::INTR) => continue,
                waited => waited?,
            };
            let mut requests = Vec::new();
            // All that is there, before any of it is answered: what comes together was together.
            while let Some(read) = self.next(&mut buffer)? {
                if read == 0 {
                    return Ok(());
                }
                requests.push(Request::parse(&buffer[..read])?);
            }
            self.answer(requests)?;
        }
    }

    /// Length of the next request; zero: there will be none any more.
    fn next(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        loop {
            match rustix::io::read(self.fd.as_fd(), &mut *buffer) {
                Ok(read) => return Ok(Some(read)),
                Err(Errno::AGAIN) => return Ok(None),
                Err(Errno::NODEV) => return Ok(Some(0)),
                // Whoever asked has gone meanwhile.
                Err(Errno::INTR | Errno::NOENT) => {}
                Err(error) => return Err(error.into()),
            }
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
            match rustix::io::write(self.fd.as_fd(), &answer) {
                Ok(_) | Err(Errno::NOENT) => {}
                Err(Errno::NODEV) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}
