//! What can go wrong, for each operation, by who is at fault.

use std::io;

use crate::format::Fault;
use crate::lsn::Lsn;

/// The log did not open. Nothing was changed on disk unless the error says so.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The caller's options contradict one another.
    #[error("log options: {0}")]
    Options(&'static str),
    /// Bytes that were durable are not there.
    #[error(transparent)]
    Damage(#[from] Damage),
    /// A file was made by a newer program.
    #[error("{file}: {fault}")]
    Version {
        /// Its name.
        file: String,
        /// [`Fault::Version`].
        fault: Fault,
    },
    /// The visitor did not take a record.
    #[error("record {lsn} of kind {kind} was refused: {reason}")]
    Refused {
        /// Which.
        lsn: Lsn,
        /// Its kind.
        kind: u8,
        /// In the visitor's words.
        reason: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The disk did not do what was asked.
    #[error("{what}: {error}")]
    Disk {
        /// The step that failed.
        what: String,
        /// The disk's error.
        error: io::Error,
    },
}

/// A place where durable bytes are missing or changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file} is damaged at byte {offset}: {reason}; {}{proof}", lost(*first, *last))]
pub struct Damage {
    /// Name of the file.
    pub file: String,
    /// Byte offset of the first bad group or header.
    pub offset: u64,
    /// The first LSN that is not there.
    pub first: Lsn,
    /// The last LSN known to have been durable. Less than `first` where a file or a group is
    /// missing of which nothing tells the LSNs.
    pub last: Lsn,
    /// What is wrong with the bytes.
    pub reason: String,
    /// What says that they were durable.
    pub proof: String,
}

fn lost(first: Lsn, last: Lsn) -> String {
    if first <= last {
        format!("records {first}..={last} were durable")
    } else {
        format!("what came from record {first} on is not there")
    }
}

impl OpenError {
    pub(crate) fn disk(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |error| Self::Disk { what, error }
    }
}

/// A record was not taken. Nothing of it was kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StageError {
    /// This producer's ring is full: see [`Producer::has_room`](crate::Producer::has_room).
    #[error("the log has no room for the record yet")]
    Full,
    /// The log takes no more records: see `Log::status`.
    #[error("the log is read-only")]
    ReadOnly,
    /// The body is longer than any record may be.
    #[error("a record of {0} bytes is too long")]
    TooLong(usize),
}

/// A record could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// It is below the first record kept.
    #[error("record {wanted} has been trimmed, the first kept is {first}")]
    Trimmed {
        /// What was asked for.
        wanted: Lsn,
        /// The first that is there.
        first: Lsn,
    },
    /// Durable bytes are not what was written.
    #[error(transparent)]
    Damage(#[from] Damage),
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
}

/// All 64 places for producers have been taken since the log was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a log has at most 64 producers from one start to the next")]
pub struct TooManyProducers;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damage_names_the_records_as_far_as_they_are_known() {
        let damage = |last| Damage {
            file: "1.log".to_owned(),
            offset: 8192,
            first: Lsn::new(5),
            last: Lsn::new(last),
            reason: "torn".to_owned(),
            proof: ", says meta".to_owned(),
        };
        let place = "1.log is damaged at byte 8192: torn;";
        let known = format!("{place} records @5..=@7 were durable, says meta");
        assert_eq!(damage(7).to_string(), known);
        let unknown = format!("{place} what came from record @5 on is not there, says meta");
        assert_eq!(damage(4).to_string(), unknown);
    }
}
