//! The disk of a real directory: names and files, and the backend that carries its writes.
//!
//! Owns: the choice of a backend, by real writes. Does not know: what the files mean.

use std::fmt;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use crate::disk::{BLOCK, Completion, Disk, DiskFile, Write, assert_blocks};
use crate::io::aio::Aio;
use crate::io::directory::{Directory, PROBE};
use crate::io::pwrite::Pwrite;
use crate::io::{IoBuffer, OpenFile, event};

/// A directory of log files on a real file system.
#[derive(Debug)]
pub struct FileDisk {
    directory: Directory,
    engine: Engine,
    choice: String,
}

/// How writes reach the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Backend {
    /// The first of the others, in this order, whose probe succeeds.
    #[default]
    Auto,
    /// Linux AIO: the kernel writes while the caller goes on.
    Aio,
    /// One thread that writes and waits.
    Pwrite,
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

/// Writes in flight that the disk takes before it says `WouldBlock`: far more than the log has.
const DEPTH: usize = 128;

/// How long a probe's write may take before the backend counts as unusable.
const PROBE_TIMEOUT: Duration = Duration::from_secs(10);

impl FileDisk {
    /// Opens `path`, making the directory if its parent exists, and finds a backend that works
    /// there by writing to a file `probe`, which is removed again. Whoever opens it holds a
    /// [`DirectoryLock`](crate::io::DirectoryLock) of it or of a directory above.
    pub fn open(path: &Path, backend: Backend) -> Result<Self, OpenError> {
        let failed = |source| OpenError::Directory { path: path.to_owned(), source };
        let directory = Directory::make(path).map_err(failed)?;
        let probe = probe_file(&directory).map_err(failed)?;
        let chosen = choose(backend, probe.as_ref());
        if probe.is_some() {
            directory.remove(PROBE).map_err(failed)?;
        }
        let (engine, choice) =
            chosen.map_err(|failures| OpenError::Backend { path: path.to_owned(), failures })?;
        Ok(Self { directory, engine, choice })
    }

    /// The backend in use, never [`Backend::Auto`].
    pub fn backend(&self) -> Backend {
        match self.engine {
            Engine::Aio(_) => Backend::Aio,
            Engine::Pwrite(_) => Backend::Pwrite,
        }
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
        assert!(len.is_multiple_of(BLOCK as u64), "a size of {len} is no number of blocks");
        // A file system may take all that is left before it finds that it is not enough, and
        // make others fail meanwhile.
        if len > self.free_bytes()? {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.directory.create(name, len)
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

    fn free_bytes(&self) -> io::Result<u64> {
        self.directory.free_bytes()
    }

    fn submit(&self, write: Write<OpenFile>) -> Result<(), (Write<OpenFile>, io::Error)> {
        self.engine.submit(write)
    }

    fn reap(&self, completions: &mut Vec<Completion>) {
        self.engine.reap(completions);
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Auto => "auto",
            Self::Aio => "aio",
            Self::Pwrite => "pwrite",
        })
    }
}

impl FromStr for Backend {
    type Err = UnknownBackend;

    fn from_str(name: &str) -> Result<Self, UnknownBackend> {
        let mut all = [Self::Auto, Self::Aio, Self::Pwrite].into_iter();
        all.find(|backend| backend.to_string() == name).ok_or(UnknownBackend)
    }
}

/// No [`Backend`] has this name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not one of auto, aio, pwrite")]
pub struct UnknownBackend;

/// What carries writes: one variant for each backend but `Auto`.
#[derive(Debug)]
enum Engine {
    Aio(Aio),
    Pwrite(Pwrite),
}

impl Engine {
    fn start(backend: Backend) -> io::Result<Self> {
        match backend {
            Backend::Auto | Backend::Aio => Aio::new(DEPTH).map(Self::Aio),
            Backend::Pwrite => Pwrite::new(DEPTH).map(Self::Pwrite),
        }
    }

    fn submit(&self, write: Write<OpenFile>) -> Result<(), (Write<OpenFile>, io::Error)> {
        assert_blocks(write.buffer.len(), write.offset);
        assert!(!write.buffer.is_empty(), "a write has bytes");
        match self {
            Self::Aio(aio) => aio.submit(write),
            Self::Pwrite(pwrite) => pwrite.submit(write),
        }
    }

    fn reap(&self, completions: &mut Vec<Completion>) {
        match self {
            Self::Aio(aio) => aio.reap(completions),
            Self::Pwrite(pwrite) => pwrite.reap(completions),
        }
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

/// The first allowed backend whose probe succeeds, and why; or how each of them failed.
fn choose(wanted: Backend, file: Option<&OpenFile>) -> Result<(Engine, String), String> {
    let candidates: &[Backend] = match wanted {
        Backend::Auto => &[Backend::Aio, Backend::Pwrite],
        Backend::Aio => &[Backend::Aio],
        Backend::Pwrite => &[Backend::Pwrite],
    };
    let mut failures = Vec::new();
    for backend in candidates {
        match Engine::start(*backend).and_then(|engine| engine.probe(file)) {
            Ok(engine) => return Ok((engine, choice(wanted, *backend, file, &failures))),
            Err(error) => failures.push(format!("{backend} failed ({error})")),
        }
    }
    Err(failures.join(", "))
}

fn choice(wanted: Backend, used: Backend, file: Option<&OpenFile>, failures: &[String]) -> String {
    let why = match wanted {
        Backend::Auto if failures.is_empty() => "the first choice".to_owned(),
        Backend::Auto => failures.join(", "),
        Backend::Aio | Backend::Pwrite => "asked for".to_owned(),
    };
    let proof = if file.is_some() { "a probe was written" } else { "too full for a probe" };
    format!("{used}: {why}, {proof}")
}

impl Engine {
    /// Writes one durable block and reads it back; without a file there is nothing to try.
    fn probe(self, file: Option<&OpenFile>) -> io::Result<Self> {
        let Some(file) = file else { return Ok(self) };
        let mut buffer = IoBuffer::with_blocks(1);
        buffer.fill(0xa5);
        let mut read = IoBuffer::with_blocks(1);
        let completion = self.write_and_wait(file, buffer)?;
        let written = completion.result?;
        let count = file.read_at(&mut read, 0)?;
        if written != BLOCK || count != BLOCK || *read != *completion.buffer {
            return Err(io::Error::other("what was written is not there"));
        }
        Ok(self)
    }

    fn write_and_wait(&self, file: &OpenFile, buffer: IoBuffer) -> io::Result<Completion> {
        let event = event::create()?;
        let notify = Some(Arc::clone(&event));
        let write = Write { file: file.clone(), buffer, offset: 0, sync: true, token: 0, notify };
        self.submit(write).map_err(|(_, error)| error)?;
        event::wait(&event, PROBE_TIMEOUT)?;
        let mut completions = Vec::new();
        self.reap(&mut completions);
        completions.pop().ok_or_else(|| io::ErrorKind::TimedOut.into())
    }
}

#[cfg(test)]
mod tests;
