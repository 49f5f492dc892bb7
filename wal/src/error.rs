//! What can go wrong, for each operation, by who is at fault, and what is to be done.

use std::fmt::Display;
use std::io;

use crate::format::Fault;
use crate::format::record::BODY_MAX;
use crate::lsn::Lsn;

/// The log did not open. Nothing was changed on disk unless the error says so.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The caller's fault: its options contradict one another, or the log is another's. Nothing
    /// was touched.
    #[error("log options: {0}")]
    Options(&'static str),
    /// The device's fault, or that of whoever changed the files: bytes that were durable are not
    /// there. Copy the directory before anything else; see what is intact with the journal tool, or
    /// with [`inspect`](crate::inspect) and a visitor; then restore a copy.
    #[error(transparent)]
    Damage(#[from] Damage),
    /// A newer program made a file: use that one.
    #[error("{file}: {fault}")]
    Version {
        /// Its name.
        file: String,
        /// [`Fault::Version`].
        fault: Fault,
    },
    /// The caller's visitor did not take a record, for its own reason. The log is sound.
    #[error("record {lsn} of kind {kind} was refused: {reason}")]
    Refused {
        /// Which.
        lsn: Lsn,
        /// Its kind.
        kind: u8,
        /// In the visitor's words.
        reason: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The disk did not do what was asked: a permission, a full disk, a device that fails. Once
    /// that is mended, open it again; what was found is not lost.
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

/// The same error with the step at which it came, which names the file. Its kind stays: whether the
/// log waits for space or gives up depends on it.
pub(crate) fn during(step: impl Display, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{step}: {error}"))
}

/// [`Producer::stage`](crate::Producer::stage) did not take a record. Nothing of it was kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StageError {
    /// For now: this producer's ring is full. Drive the log and try again when
    /// [`Producer::has_room`](crate::Producer::has_room) says so, or the waker calls.
    #[error("the log has no room for the record yet")]
    Full,
    /// For good: the log takes no more records, for the reason in
    /// [`Log::status`](crate::Log::status). Open it again once the device is sound.
    #[error("the log is read-only")]
    ReadOnly,
    /// The term under which this producer was made has ended: make another one.
    #[error("the log was truncated under a newer term")]
    Ended,
    /// The caller's fault: the body is longer than [`BODY_MAX`].
    #[error("a record of {0} bytes is too long, at most {BODY_MAX} are allowed")]
    TooLong(usize),
}

/// [`Appender`](crate::Appender) could not append, or wait.
#[derive(Debug, thiserror::Error)]
pub enum AppendError {
    /// As [`StageError::TooLong`]: the caller's fault, and nothing of the record was kept.
    #[error("a record of {0} bytes is too long, at most {BODY_MAX} are allowed")]
    TooLong(usize),
    /// The log has failed, for this reason, and acknowledges nothing any more. Whether records that
    /// were being appended are kept is known once it has been opened again.
    #[error("the log is read-only: {0}; what was being appended may or may not be kept")]
    ReadOnly(String),
    /// The log was truncated under a newer term: what was being appended may have gone. Make
    /// another appender.
    #[error("the log was truncated under a newer term; what was being appended may have gone")]
    Ended,
    /// The log has given out all its producers: use one appender for more records.
    #[error(transparent)]
    TooMany(#[from] TooManyProducers),
    /// The system gave no event to wait on.
    #[error("no event to wait for the log: {0}")]
    System(io::Error),
}

/// The log was not truncated, and is as it was.
#[derive(Debug, thiserror::Error)]
pub enum TruncateError {
    /// A term that the log has already, or that is older than one it has heard of.
    #[error("truncation under term {term}, but term {newest} is here: ask its leader")]
    OldTerm {
        /// Of whoever asks.
        term: u64,
        /// The newest here.
        newest: u64,
    },
    /// What may have been acknowledged never goes.
    #[error("truncation after {after}, but records up to {committed} are committed")]
    Committed {
        /// The last record that was to stay.
        after: Lsn,
        /// The last one that is committed.
        committed: Lsn,
    },
    /// The log does not reach that far: there is nothing to truncate.
    #[error("truncation after {after}, but the log ends with {appended}")]
    Beyond {
        /// The last record that was to stay.
        after: Lsn,
        /// The last one that is there.
        appended: Lsn,
    },
    /// Groups stay or go as a whole.
    #[error("no group ends with {after}: truncate after {before} or {behind}")]
    WithinGroup {
        /// The last record that was to stay.
        after: Lsn,
        /// Last record of the group before.
        before: Lsn,
        /// Last record of the group that it lies in.
        behind: Lsn,
    },
    /// The group that was to stay has been trimmed: take an image from the leader.
    #[error("the group that ends with {after} has been trimmed")]
    Trimmed {
        /// The last record that was to stay.
        after: Lsn,
    },
    /// Another truncation has not ended.
    #[error("another truncation is under way")]
    UnderWay,
    /// The log takes no more records: see `Log::status`.
    #[error("the log is read-only: {0}")]
    ReadOnly(String),
    /// A durable group in front of the place is not intact: ask the journal tool.
    #[error(transparent)]
    Damage(#[from] Damage),
    /// The disk did not do what was asked.
    #[error("looking for the end of a group in {file} near byte {offset}: {error}")]
    Disk {
        /// Name of the file.
        file: String,
        /// Where in it.
        offset: u64,
        /// The disk's error.
        error: io::Error,
    },
}

/// A record could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// It is below the first record from which on all are whole: begin there.
    #[error("record {wanted} has been trimmed, the first that is whole is {first}")]
    Trimmed {
        /// What was asked for.
        wanted: Lsn,
        /// The first that can be read: `Log::first_whole`.
        first: Lsn,
    },
    /// It, or the one before, is no part of the log any more: a new leader did not have it.
    #[error("record {wanted} follows what was truncated, the log goes on behind {last}")]
    Truncated {
        /// What would have been read next.
        wanted: Lsn,
        /// The last record that stayed.
        last: Lsn,
    },
    /// Durable bytes are not what was written: as [`OpenError::Damage`]. Other records may be
    /// readable all the same.
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
