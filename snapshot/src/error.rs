//! What can go wrong, for each operation, by who is at fault.

use std::io;

use crate::format::VERSION;

/// A place in a volume whose bytes are not what was written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file} is damaged at byte {offset}: {reason}")]
pub struct Damage {
    /// Name of the file.
    pub file: String,
    /// Byte offset of the block or node.
    pub offset: u64,
    /// What is wrong with it.
    pub reason: String,
}

/// A volume could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The device's fault, or that of whoever changed the file.
    #[error(transparent)]
    Damage(#[from] Damage),
    /// A newer program made it: use that one.
    #[error("{file} has format version {found}, this program knows up to {VERSION}")]
    Version {
        /// Name of the file.
        file: String,
        /// The version it names.
        found: u32,
    },
    /// The disk did not do what was asked.
    #[error("reading {file} near byte {offset}: {error}")]
    Disk {
        /// Name of the file.
        file: String,
        /// Where in it.
        offset: u64,
        /// The disk's error.
        error: io::Error,
    },
    /// The caller's [`Pace`](crate::Pace) broke it off.
    #[error("reading was given up")]
    Stopped,
}

/// A volume was not made. The ones that were there are as they were, and are not to be replaced by
/// it; the file that was written aside is removed by the next attempt.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The disk did not do what was asked.
    #[error("{step} {file}: {error}")]
    Disk {
        /// What was under way.
        step: &'static str,
        /// Name of the file.
        file: String,
        /// The disk's error.
        error: io::Error,
    },
    /// What was read back is not what was written, or could not be read back.
    #[error("reading back what was written: {0}")]
    ReadBack(#[source] ReadError),
    /// The caller's [`Pace`](crate::Pace) broke it off.
    #[error("writing was given up")]
    Stopped,
}

impl WriteError {
    pub(crate) fn disk(step: &'static str, file: &str) -> impl FnOnce(io::Error) -> Self {
        let file = file.to_owned();
        move |error| Self::Disk { step, file, error }
    }

    /// Whether there was no space for it: that may change, and nothing is broken.
    pub fn is_full(&self) -> bool {
        let full = |error: &io::Error| {
            matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
        };
        matches!(self, Self::Disk { error, .. } if full(error))
    }
}
