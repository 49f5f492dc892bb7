//! What carries the writes of a disk: one of the backends.
//!
//! Owns: their names, and the calls that all of them answer. Does not know: which is chosen.

use std::fmt;
use std::io;
use std::str::FromStr;

use crate::disk::{Completion, Write, assert_blocks};
use crate::io::aio::Aio;
use crate::io::pwrite::Pwrite;
use crate::io::uring::Uring;
use crate::io::{IoBuffer, Issuers, OpenFile};

/// How writes reach the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Backend {
    /// Linux AIO where it works, unless another is clearly quicker in a probe by real writes.
    #[default]
    Auto,
    /// Linux AIO: the kernel writes while the caller goes on.
    Aio,
    /// `io_uring`: the same through a ring shared with the kernel.
    Uring,
    /// One thread that writes and waits.
    Pwrite,
}

/// Those that a probe tries, the preferred one first.
pub(super) const BACKENDS: [Backend; 3] = [Backend::Aio, Backend::Uring, Backend::Pwrite];

/// Writes in flight that the disk takes before it says `WouldBlock`: far more than the log has.
pub(super) const DEPTH: usize = 128;

impl fmt::Display for Backend {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Auto => "auto",
            Self::Aio => "aio",
            Self::Uring => "uring",
            Self::Pwrite => "pwrite",
        })
    }
}

impl FromStr for Backend {
    type Err = UnknownBackend;

    fn from_str(name: &str) -> Result<Self, UnknownBackend> {
        let mut all = [Self::Auto].into_iter().chain(BACKENDS);
        all.find(|backend| backend.to_string() == name).ok_or(UnknownBackend)
    }
}

/// No [`Backend`] has this name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not one of auto, aio, uring, pwrite")]
pub struct UnknownBackend;

/// A backend that has been started.
#[derive(Debug)]
pub(super) enum Engine {
    Aio(Aio),
    Uring(Box<Uring>),
    Pwrite(Pwrite),
}

impl Engine {
    /// Starts a backend other than `Auto`.
    pub(super) fn start(backend: Backend, issuers: Issuers) -> io::Result<Self> {
        match backend {
            Backend::Auto => unreachable!("a probe starts each of the others"),
            Backend::Aio => Aio::new(DEPTH).map(Self::Aio),
            Backend::Uring => Uring::new(DEPTH, issuers).map(|uring| Self::Uring(Box::new(uring))),
            Backend::Pwrite => Pwrite::new(DEPTH).map(Self::Pwrite),
        }
    }

    pub(super) fn backend(&self) -> Backend {
        match self {
            Self::Aio(_) => Backend::Aio,
            Self::Uring(_) => Backend::Uring,
            Self::Pwrite(_) => Backend::Pwrite,
        }
    }

    /// Its name, and what is to be said about how it works here.
    pub(super) fn describe(&self) -> String {
        match self {
            Self::Uring(uring) => format!("uring ({})", uring.describe()),
            Self::Aio(_) | Self::Pwrite(_) => self.backend().to_string(),
        }
    }

    pub(super) fn buffer(&self, bytes: usize) -> IoBuffer {
        match self {
            Self::Uring(uring) => uring.buffer(bytes),
            Self::Aio(_) | Self::Pwrite(_) => IoBuffer::with_capacity(bytes),
        }
    }

    pub(super) fn submit(
        &self,
        write: Write<OpenFile>,
    ) -> Result<(), (Write<OpenFile>, io::Error)> {
        assert_blocks(write.buffer.len(), write.offset);
        assert!(!write.buffer.is_empty(), "a write has bytes");
        match self {
            Self::Aio(aio) => aio.submit(write),
            Self::Uring(uring) => uring.submit(write),
            Self::Pwrite(pwrite) => pwrite.submit(write),
        }
    }

    pub(super) fn has_completed(&self) -> Option<bool> {
        match self {
            Self::Aio(aio) => aio.has_completed(),
            Self::Uring(_) | Self::Pwrite(_) => None,
        }
    }

    pub(super) fn reap(&self, completions: &mut Vec<Completion>) {
        match self {
            Self::Aio(aio) => aio.reap(completions),
            Self::Uring(uring) => uring.reap(completions),
            Self::Pwrite(pwrite) => pwrite.reap(completions),
        }
    }
}
