//! Why there is no copy, by who is at fault.

use std::io;
use std::path::PathBuf;

use crate::Status;
use crate::place::Trouble;

/// Nothing was made, and nothing is left of the attempt.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// The log could not be read.
    #[error(transparent)]
    Source(#[from] Trouble),
    /// Durable bytes that are needed are gone or changed.
    #[error("{0}")]
    Damaged(String),
    /// The log does not have the moment that was asked for.
    #[error("{0}")]
    Reach(String),
    /// There is something where the copy is to go.
    #[error(
        "{} is not empty{}: name a directory that is not there, or an empty one",
        path.display(), unfinished_text(*unfinished)
    )]
    NotEmpty {
        /// The directory.
        path: PathBuf,
        /// It is a copy that was broken off.
        unfinished: bool,
    },
    /// The new directory could not be written.
    #[error("writing {what}: {error}")]
    Target {
        /// The directory or file.
        what: String,
        /// What the system said.
        error: io::Error,
    },
    /// The new directory does not hold what was written.
    #[error(
        "{} does not hold what was written to it ({said}): look at the health of its device, and \
         copy to another one", path.display()
    )]
    NotAsWritten {
        /// The directory.
        path: PathBuf,
        /// What is wrong.
        said: String,
    },
}

fn unfinished_text(unfinished: bool) -> &'static str {
    if unfinished { " (a copy that was broken off: remove it)" } else { "" }
}

impl BackupError {
    /// The exit status.
    pub fn status(&self) -> Status {
        match self {
            Self::Damaged(_) | Self::NotAsWritten { .. } => Status::Damaged,
            Self::Source(_) | Self::Reach(_) | Self::NotEmpty { .. } | Self::Target { .. } => {
                Status::Unreadable
            }
        }
    }

    /// Another attempt would meet the same.
    pub(super) fn is_of_target(&self) -> bool {
        matches!(self, Self::NotEmpty { .. } | Self::Target { .. } | Self::NotAsWritten { .. })
    }

    /// A place in the source that is not as it was written.
    pub(super) fn damage(file: &str, offset: u64, reason: &str) -> Self {
        Self::Damaged(format!(
            "{file} is damaged at byte {offset}: {reason}; `zzq_journal verify` says what is \
             intact, and restore --until @OFFSET makes a log of what comes before"
        ))
    }
}
