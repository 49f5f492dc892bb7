//! Copies of a log: all of it, or up to a moment of its past.
//!
//! Owns: `copy` and `restore`, from the new directory to the last word. The directory that is read
//! may be a running broker's: nothing holds still for the copy. What was read is checked on the
//! way, and where something is not as it was found and names have changed meanwhile, a file was
//! let go, and it begins anew ([`attempt`]).
//! Does not know: what records mean. Changes nothing in the directory that is read.

mod attempt;
mod draft;
mod error;
mod source;
mod wish;

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use serde::Serialize;
use zzq_wal::META_NAME;
use zzq_wal::disk::Disk;
use zzq_wal::io::{Backend, DirectoryLock, FileDisk};

pub use self::attempt::Taken;
use self::attempt::attempt;
use self::draft::Draft;
pub use self::error::BackupError;
use self::source::names;
pub use self::wish::Wish;
use crate::Status;
use crate::place::{Place, Trouble};
use crate::report::Out;
use crate::time::Date;
use crate::verify::{VerifyOptions, verify};

/// How often an attempt is made on a log that is being changed: a broker would have to let go, each
/// time, what the newest two of its images need.
const TRIES: usize = 8;

/// How to copy.
#[derive(Clone, Copy, Debug, Default)]
pub struct BackupOptions {
    /// A JSON object instead of text.
    pub json: bool,
    /// Bodies are not the engine's: they are not decoded.
    pub opaque: bool,
    /// Tell of progress on the second writer.
    pub progress: bool,
}

/// Makes a directory `new` with the log of `place` up to where `wish` says, verifies it, and tells
/// what it holds. What is wrong in `place` and was not needed is told to `aside`.
///
/// A broker starts on `new` and has what that of `place` had then. All of it is durable when this
/// returns. After an error there is nothing at `new`.
pub fn backup(
    place: &Place,
    new: &Path,
    wish: Wish,
    options: BackupOptions,
    out: &mut dyn Write,
    aside: &mut dyn Write,
) -> Result<Status, BackupError> {
    let mut home = Home::make(new)?;
    let told = |aside: &mut dyn Write, text: &str| {
        if options.progress {
            // Whoever waits loses nothing if this cannot be shown.
            let _ = write!(aside, "\r\x1b[K{text}");
            let _ = aside.flush();
        }
    };
    let taken = {
        let disk = FileDisk::open(new, Backend::Pwrite).map_err(|error| home.failed(error))?;
        let taken = copy_log(&|| place.disk(), &disk, wish, &mut |text| told(aside, text));
        told(aside, "");
        taken?
    };
    home.unlock();
    told(aside, "verifying");
    let status = check(new, options, aside)?;
    told(aside, "");
    home.keep();
    for passed in &taken.passed {
        let _ = writeln!(aside, "zzq_journal: {passed}");
    }
    let line = Line { what: wish.word(), to: new.to_string_lossy().into_owned(), taken };
    let spoilt = !line.taken.passed.is_empty();
    Out { to: out, json: options.json }.say(&line).map_err(Trouble::from)?;
    // It is not the copy that is damaged, but somebody has to look.
    Ok(if spoilt { Status::Damaged } else { status })
}

/// Copies a log to an empty disk, up to where `wish` says; where it is changed meanwhile, again.
/// `open` gives the disk that is read, `tell` hears what is being done. Nothing is left after an
/// error.
pub fn copy_log<S: Disk, T: Disk>(
    open: &dyn Fn() -> Result<S, Trouble>,
    target: &T,
    wish: Wish,
    tell: &mut dyn FnMut(&str),
) -> Result<Taken, BackupError> {
    let mut draft = Draft::begin(target)?;
    for tries in 1.. {
        let before = names(&open()?)?;
        let outcome = attempt(open, &mut draft, wish, tell);
        let is_whole = outcome.as_ref().is_ok_and(|(taken, _)| taken.passed.is_empty());
        let is_of_target = outcome.as_ref().is_err_and(BackupError::is_of_target);
        if !is_whole && !is_of_target && tries < TRIES && names(&open()?)? != before {
            draft.forget()?;
            continue;
        }
        let finished = outcome.and_then(|(taken, facts)| {
            draft.finish(facts)?;
            Ok(Taken { tries, ..taken })
        });
        if finished.is_err() {
            // What this could not do is not what has to be told.
            let _ = draft.give_up();
        }
        return finished;
    }
    unreachable!("the last try returns")
}

/// What was written is what is there, as a broker would find it.
fn check(new: &Path, options: BackupOptions, aside: &mut dyn Write) -> Result<Status, BackupError> {
    let mut report = Vec::new();
    let verifying = VerifyOptions { opaque: options.opaque, ..VerifyOptions::default() };
    let place = Place::find(new, false)?;
    let status = verify(&place, verifying, &mut report, aside)?;
    if matches!(status, Status::Good | Status::Refused) {
        return Ok(status);
    }
    let report = String::from_utf8_lossy(&report);
    let said = report.lines().last().unwrap_or_default().to_owned();
    Err(BackupError::NotAsWritten { path: new.to_owned(), said })
}

/// The new directory, which goes again unless it is kept.
struct Home<'p> {
    path: &'p Path,
    /// It was not there.
    is_new: bool,
    lock: Option<DirectoryLock>,
    kept: bool,
}

/// What a directory may hold and be empty all the same: of the lock alone nothing depends, and the
/// root of a file system has a place for what was found.
const NOTHING: [&str; 2] = ["lock", "lost+found"];

impl<'p> Home<'p> {
    fn make(path: &'p Path) -> Result<Self, BackupError> {
        let failed = |error| BackupError::Target { what: path.display().to_string(), error };
        let is_new = match fs::read_dir(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => true,
            entries => {
                for entry in entries.map_err(failed)? {
                    let name = entry.map_err(failed)?.file_name();
                    if !NOTHING.iter().any(|nothing| name == *nothing) {
                        let unfinished = is_unfinished(path);
                        return Err(BackupError::NotEmpty { path: path.to_owned(), unfinished });
                    }
                }
                false
            }
        };
        let lock = DirectoryLock::acquire(path).map_err(|error| failed(io::Error::other(error)))?;
        Ok(Self { path, is_new, lock: Some(lock), kept: false })
    }

    fn failed(&self, error: impl std::error::Error + Send + Sync + 'static) -> BackupError {
        let error = io::Error::other(error);
        BackupError::Target { what: self.path.display().to_string(), error }
    }

    fn unlock(&mut self) {
        self.lock = None;
    }

    fn keep(&mut self) {
        self.kept = true;
    }
}

impl Drop for Home<'_> {
    fn drop(&mut self) {
        if self.kept {
            return;
        }
        // Who reads `meta` must not find it without the rest.
        let _ = fs::remove_file(self.path.join(META_NAME));
        // All files were made here.
        for entry in fs::read_dir(self.path).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_file()) {
                let _ = fs::remove_file(entry.path());
            }
        }
        if self.is_new {
            let _ = fs::remove_dir(self.path);
        }
    }
}

/// A copy that was broken off has an empty `meta`.
fn is_unfinished(path: &Path) -> bool {
    fs::metadata(path.join(META_NAME)).is_ok_and(|meta| meta.len() == 0)
}

/// The last word.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename = "backup")]
struct Line {
    what: &'static str,
    to: String,
    #[serde(flatten)]
    taken: Taken,
}

impl std::fmt::Display for Line {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { what, to, taken } = self;
        write!(out, "{what}: @{}..@{}, {}", taken.first_lsn, taken.last_lsn, Date(taken.time_ms))?;
        write!(out, ", {} segments", taken.segments)?;
        for image in &taken.images {
            write!(out, ", image at @{image}")?;
        }
        if taken.cold > 0 {
            write!(out, ", {} cold files", taken.cold)?;
        }
        write!(out, ", {} bytes, verified: {}", taken.bytes, crate::escape::quoted(to))
    }
}
