//! A directory of log files: names, and how they become durable.
//!
//! Owns: the directory's descriptor; all names are resolved against it, so that a change of the
//! process's working directory changes nothing. Does not know: how writes are submitted.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, fstatvfs, fsync, openat, renameat, statat, unlinkat,
};
use rustix::io::Errno;

use crate::disk::{Ahead, assert_name};
use crate::io::OpenFile;

/// Names that are not the log's: [`Directory::list`] leaves them out.
pub(super) const LOCK: &str = "lock";
pub(super) const PROBE: &str = "probe";

#[derive(Debug)]
pub(super) struct Directory {
    fd: OwnedFd,
    /// Syncs that have failed; locked while one runs, so that one that succeeds has not overtaken
    /// one that took its error.
    failed_syncs: Mutex<u64>,
}

impl Directory {
    /// Opens the directory. Makes it if it is not there; its parent must exist. Its name survives
    /// a power cut, also when it was a process before this one that made it and ended there.
    pub(super) fn make(path: &Path) -> io::Result<Self> {
        let made = match std::fs::create_dir(path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => false,
            made => made.map(|()| true)?,
        };
        let synced = Self::open(parent(path)).and_then(|parent| parent.sync());
        match synced {
            // Whoever made the directory for us keeps us from looking at what is around it.
            Err(error) if !made && error.kind() == io::ErrorKind::PermissionDenied => {}
            synced => synced?,
        }
        Self::open(path)
    }

    /// Opens the directory, which must exist.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = openat(CWD, path, flags, Mode::empty())?;
        Ok(Self { fd, failed_syncs: Mutex::default() })
    }

    /// Names and sizes of the regular files. A name that is no UTF-8 is nobody's of ours.
    pub(super) fn list(&self) -> io::Result<Vec<(String, u64)>> {
        let mut files = Vec::new();
        for entry in Dir::read_from(self)? {
            let entry = entry?;
            let Ok(name) = entry.file_name().to_str() else { continue };
            if matches!(name, "." | ".." | LOCK | PROBE) {
                continue;
            }
            let status = match statat(self, name, AtFlags::SYMLINK_NOFOLLOW) {
                Err(Errno::NOENT) => continue,
                status => status?,
            };
            if FileType::from_raw_mode(status.st_mode) == FileType::RegularFile {
                let size = u64::try_from(status.st_size).map_err(io::Error::other)?;
                files.push((name.to_owned(), size));
            }
        }
        Ok(files)
    }

    /// Creates a file of written zeroes, or leaves no name behind.
    pub(super) fn create(&self, name: &str, len: u64) -> io::Result<OpenFile> {
        self.create_ahead(name, len, &|_| Ahead::Briskly).map(|(file, _)| file)
    }

    /// The same as far as `pace` goes; the rest has its space. Returns how far.
    pub(super) fn create_ahead(
        &self,
        name: &str,
        len: u64,
        pace: &dyn Fn(u64) -> Ahead,
    ) -> io::Result<(OpenFile, u64)> {
        assert_name(name);
        let created = OpenFile::create(self.as_fd(), name, len, pace);
        if let Err(error) = &created
            && error.kind() != io::ErrorKind::AlreadyExists
        {
            // The first error is what the caller must see, and the name may never have existed.
            let _ = self.remove(name);
        }
        created
    }

    pub(super) fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        assert_name(from);
        assert_name(to);
        Ok(renameat(self, from, self, to)?)
    }

    pub(super) fn remove(&self, name: &str) -> io::Result<()> {
        assert_name(name);
        Ok(unlinkat(self, name, AtFlags::empty())?)
    }

    pub(super) fn sync(&self) -> io::Result<()> {
        let mut failed = self.locked();
        let synced = fsync(self);
        *failed += u64::from(synced.is_err());
        Ok(synced?)
    }

    pub(super) fn failed_syncs(&self) -> u64 {
        *self.locked()
    }

    fn locked(&self) -> MutexGuard<'_, u64> {
        self.failed_syncs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn free_bytes(&self) -> io::Result<u64> {
        let status = fstatvfs(self)?;
        Ok(status.f_bavail.saturating_mul(status.f_frsize))
    }
}

impl AsFd for Directory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_relative_name_lies_in_the_current_directory() {
        assert_eq!(parent(Path::new("data")), Path::new("."));
        assert_eq!(parent(Path::new("data/log")), Path::new("data"));
        assert_eq!(parent(Path::new("/data")), Path::new("/"));
    }
}
