//! The disk of a real directory: names and files, and the backend that carries its writes.
//!
//! Owns: the directory, and the file that backends are tried on. Does not know: what the files
//! mean.

mod choice;
mod engine;

use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use rustix::time::{ClockId, clock_gettime};

use self::choice::{Choice, choose};
use self::engine::Engine;
pub use self::engine::{Backend, UnknownBackend};
use crate::disk::{Ahead, BLOCK, Completion, Disk, Write};
use crate::io::directory::{Directory, PROBE};
use crate::io::{IoBuffer, Issuers, OpenFile};

/// A directory of log files on a real file system.
#[derive(Debug)]
pub struct FileDisk {
    directory: Directory,
    engine: Engine,
    choice: String,
}

/// Why a directory cannot be used as a disk.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// It cannot be made, opened or made durable, or takes no file for direct I/O.
    #[error("cannot use {} for the log: {source}", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// No backend that was allowed carried a write to the device.
    #[error("no way to write to {}: {failures}", path.display())]
    Backend {
        /// The directory.
        path: PathBuf,
        /// Each backend that was tried, and how it failed.
        failures: String,
    },
}

impl FileDisk {
    /// Opens `path`, making the directory if its parent exists, and finds a backend that works
    /// there by writing to a file `probe`, which is removed again. Whoever opens it holds a
    /// [`DirectoryLock`](crate::io::DirectoryLock) of it or of a directory above.
    ///
    /// Any thread may issue writes; see [`open_for`](Self::open_for).
    pub fn open(path: &Path, backend: Backend) -> Result<Self, OpenError> {
        Self::open_for(path, backend, Issuers::Any)
    }

    /// As [`open`](Self::open), and says who will issue writes: with one thread alone, the log's
    /// own ([`Log::spawn_driver`](crate::Log::spawn_driver)), `io_uring` has less to do.
    pub fn open_for(path: &Path, backend: Backend, issuers: Issuers) -> Result<Self, OpenError> {
        let failed = |source| OpenError::Directory { path: path.to_owned(), source };
        let directory = Directory::make(path).map_err(failed)?;
        let probe = probe_file(&directory).map_err(failed)?;
        let chosen = choose(backend, issuers, probe.as_ref());
        if probe.is_some() {
            directory.remove(PROBE).map_err(failed)?;
        }
        let Choice { engine, reason } =
            chosen.map_err(|failures| OpenError::Backend { path: path.to_owned(), failures })?;
        Ok(Self { directory, engine, choice: reason })
    }

    /// The backend in use, never [`Backend::Auto`].
    pub fn backend(&self) -> Backend {
        self.engine.backend()
    }

    /// Which backend is in use and why, for people.
    pub fn choice(&self) -> &str {
        &self.choice
    }
}

impl Disk for FileDisk {
    type File = OpenFile;

    fn list(&self) -> io::Result<Vec<(String, u64)>> {
        self.directory.list()
    }

    fn create(&self, name: &str, len: u64) -> io::Result<OpenFile> {
        self.create_ahead(name, len, &|_| Ahead::Briskly).map(|(file, _)| file)
    }

    fn create_ahead(
        &self,
        name: &str,
        len: u64,
        pace: &dyn Fn(u64) -> Ahead,
    ) -> io::Result<(OpenFile, u64)> {
        assert!(len.is_multiple_of(BLOCK as u64), "a size of {len} is no number of blocks");
        // A file system may take all that is left before it finds that it is not enough, and
        // make others fail meanwhile.
        if len > self.free_bytes()? {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.directory.create_ahead(name, len, pace)
    }

    fn open(&self, name: &str) -> io::Result<OpenFile> {
        OpenFile::open(self.directory.as_fd(), name)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.directory.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.directory.remove(name)
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.directory.sync()
    }

    fn failed_syncs(&self) -> u64 {
        self.directory.failed_syncs()
    }

    fn free_bytes(&self) -> io::Result<u64> {
        self.directory.free_bytes()
    }

    fn buffer(&self, bytes: usize) -> IoBuffer {
        self.engine.buffer(bytes)
    }

    fn submit(&self, write: Write<OpenFile>) -> Result<(), (Write<OpenFile>, io::Error)> {
        self.engine.submit(write)
    }

    fn reap(&self, completions: &mut Vec<Completion>) {
        self.engine.reap(completions);
    }

    fn has_completed(&self) -> Option<bool> {
        self.engine.has_completed()
    }

    fn now_us(&self) -> u64 {
        let now = clock_gettime(ClockId::Monotonic);
        let parts = [now.tv_sec, now.tv_nsec].map(|part| u64::try_from(part).unwrap_or(0));
        parts[0].saturating_mul(1_000_000) + parts[1] / 1000
    }
}

/// A fresh file to probe with; none on a full disk, where the log may still live on the space
/// that it has taken before.
fn probe_file(directory: &Directory) -> io::Result<Option<OpenFile>> {
    match directory.remove(PROBE) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    match directory.create(PROBE, BLOCK as u64) {
        Ok(file) => Ok(Some(file)),
        Err(error) if is_full(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

#[cfg(test)]
mod tests;
