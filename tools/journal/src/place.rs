//! Where a log lies, and whether somebody has it open.
//!
//! Owns: finding the log, the refusal of one that is in use, the notice that files changed while
//! they were read. Changes nothing, locks nothing.

use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use zzq_snapshot::{cold_number, image_number};
use zzq_wal::io::{LockHolder, ReadOnlyDisk, ReadOnlyFile, lock_holder};
use zzq_wal::{META_NAME, segment_number};

use crate::escape::quoted;
use crate::survey::Survey;

/// How often a moving log is looked at again before what it seems to be is believed.
pub(crate) const LOOKS_MAX: usize = 64;

/// How often names are read anew within one look: a file that has gone by the time it is opened has
/// been trimmed, and that is rare beside an opening.
const SURVEYS_MAX: usize = 8;

/// Why nothing could be said about a log.
#[derive(Debug, thiserror::Error)]
pub enum Trouble {
    /// There is no such directory, or it may not be read.
    #[error("cannot read {}: {error}", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// It holds no log.
    #[error(
        "no log in {}: neither meta nor a segment is there; name the directory that a broker was \
         given with --data-dir", path.display()
    )]
    NoLog {
        /// The directory.
        path: PathBuf,
    },
    /// A process writes it.
    #[error(
        "{} is in use by {}; stop it first, or read a moving log with --live",
        path.display(), named(*pid)
    )]
    InUse {
        /// The directory.
        path: PathBuf,
        /// The process, if it is known.
        pid: Option<u32>,
    },
    /// It was written while it was read.
    #[error(
        "{} was changed while it was read, by a process that this one cannot see; stop it first, \
         or read a moving log with --live", path.display()
    )]
    Changed {
        /// The directory.
        path: PathBuf,
    },
    /// A newer program made it.
    #[error("{file}: {reason}; use the zzq_journal of the program that wrote it")]
    Version {
        /// The file.
        file: String,
        /// Which version, and which are known.
        reason: String,
    },
    /// A file cannot be read.
    #[error("reading {file}: {error}")]
    File {
        /// The file.
        file: String,
        /// What the system said.
        error: io::Error,
    },
    /// The output cannot be written.
    #[error("writing the output: {0}")]
    Output(#[from] io::Error),
}

fn named(pid: Option<u32>) -> String {
    pid.map_or_else(|| "another process".to_owned(), |pid| format!("process {pid}"))
}

/// The directory of a log, open for reading.
#[derive(Debug)]
pub struct Place {
    path: PathBuf,
    live: bool,
    holder: Option<LockHolder>,
    found: Vec<Seen>,
}

/// A file at one moment.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Seen {
    name: String,
    len: u64,
    changed: Option<SystemTime>,
}

impl Place {
    /// Looks at `path`, a broker's data directory. With `live` a log that is in use is taken too.
    pub fn find(path: &Path, live: bool) -> Result<Self, Trouble> {
        let failed = |error| Trouble::Directory { path: path.to_owned(), error };
        let found = look(path).map_err(failed)?;
        let is_log = |seen: &Seen| seen.name == META_NAME || segment_number(&seen.name).is_some();
        if !found.iter().any(is_log) {
            return Err(Trouble::NoLog { path: path.to_owned() });
        }
        let holder = lock_holder(path).map_err(failed)?;
        match holder {
            Some(LockHolder { pid }) if !live => Err(Trouble::InUse { path: path.to_owned(), pid }),
            holder => Ok(Self { path: path.to_owned(), live, holder, found }),
        }
    }

    /// The disk to read from.
    pub fn disk(&self) -> Result<ReadOnlyDisk, Trouble> {
        ReadOnlyDisk::open(&self.path).map_err(|error| Trouble::Directory {
            path: self.path.clone(),
            error: io::Error::other(error),
        })
    }

    /// Whether a moving log was asked for.
    pub fn is_live(&self) -> bool {
        self.live
    }

    /// Its name, safe to print.
    pub fn name(&self) -> String {
        quoted(&self.path.to_string_lossy())
    }

    /// What to tell somebody who reads a log in use.
    pub fn warning(&self) -> Option<String> {
        let path = self.path.display();
        match self.holder {
            Some(LockHolder { pid }) => {
                let who = named(pid);
                Some(format!("{path} is in use by {who}: where it ends moves while it is read"))
            }
            None if self.live => Some(format!("nobody is seen to use {path}; it may move")),
            None => None,
        }
    }

    /// Reads everything but groups. In a log that is in use a file may get another name between
    /// the list of names and its opening.
    pub(crate) fn survey(&self) -> Result<Survey<ReadOnlyFile>, Trouble> {
        let disk = self.disk()?;
        for _ in 1..SURVEYS_MAX {
            match Survey::read(&disk) {
                Err(Trouble::File { error, .. })
                    if self.live && error.kind() == io::ErrorKind::NotFound => {}
                outcome => return outcome,
            }
        }
        Survey::read(&disk)
    }

    /// What was read is what is there, unless a moving log was asked for.
    pub fn check_unchanged(&self) -> Result<(), Trouble> {
        if self.live {
            return Ok(());
        }
        let failed = |error| Trouble::Directory { path: self.path.clone(), error };
        if look(&self.path).map_err(failed)? == self.found {
            return Ok(());
        }
        Err(Trouble::Changed { path: self.path.clone() })
    }
}

fn look(path: &Path) -> io::Result<Vec<Seen>> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(path)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let status = match entry.metadata() {
            // Removed meanwhile: the next look will tell.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            status => status?,
        };
        let is_volume = image_number(&name).is_some() || cold_number(&name).is_some();
        let is_ours = name == META_NAME || segment_number(&name).is_some() || is_volume;
        if status.is_file() && is_ours {
            all.push(Seen { name, len: status.len(), changed: status.modified().ok() });
        }
    }
    all.sort();
    Ok(all)
}
