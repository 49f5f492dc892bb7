//! One process for a directory.
//!
//! Owns: the lock file. The lock is the kernel's and ends with the process, however it ends; the
//! process id inside only tells people whom to ask.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::io::directory::{Directory, LOCK};

/// A directory held for this process until it is dropped.
#[derive(Debug)]
pub struct DirectoryLock {
    file: File,
}

impl Drop for DirectoryLock {
    fn drop(&mut self) {
        // Said, not left to the close: a process that another thread is about to start has the
        // file too, until it runs its program, and the kernel would keep the lock for it. What
        // fails here is done by the close.
        let _ = flock(&self.file, FlockOperation::Unlock);
    }
}

/// Why a directory could not be locked.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another process has it.
    #[error("{} is in use by {}", path.display(), holder(*pid))]
    Held {
        /// The directory.
        path: PathBuf,
        /// The holder, unless it had no time yet to write that down.
        pid: Option<u32>,
    },
    /// The directory or the lock file cannot be made, locked or written.
    #[error("cannot lock {}: {source}", path.display())]
    Io {
        /// The directory, or the lock file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl DirectoryLock {
    /// Takes the lock of a directory, without waiting. Makes the directory if its parent exists.
    pub fn acquire(directory: &Path) -> Result<Self, LockError> {
        let made = Directory::make(directory);
        made.map_err(|source| LockError::Io { path: directory.to_owned(), source })?;
        let path = directory.join(LOCK);
        let failed = |source| LockError::Io { path: path.clone(), source };
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .map_err(failed)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => {
                let path = directory.to_owned();
                return Err(LockError::Held { path, pid: read_pid(&mut file) });
            }
            Err(error) => return Err(failed(error.into())),
        }
        let written = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
        written.map_err(failed)?;
        Ok(Self { file })
    }
}

/// Whom the file names.
pub(super) fn read_pid(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    // A process id has ten digits at most; whatever else stands there is none.
    file.take(16).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

fn holder(pid: Option<u32>) -> String {
    pid.map_or_else(|| "another process".to_owned(), |pid| format!("process {pid}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_holder_learns_who_has_the_directory() {
        let directory = tempfile::tempdir().unwrap();
        let lock = DirectoryLock::acquire(directory.path()).unwrap();
        // A second open file is another holder to the kernel, as in another process.
        let error = DirectoryLock::acquire(directory.path()).unwrap_err();
        let LockError::Held { pid, .. } = &error else { panic!("{error}") };
        assert_eq!(*pid, Some(std::process::id()));
        assert!(error.to_string().contains(&format!("process {}", std::process::id())));
        drop(lock);
        DirectoryLock::acquire(directory.path()).unwrap();
    }

    #[test]
    fn a_handle_that_outlives_it_does_not_keep_the_directory() {
        let directory = tempfile::tempdir().unwrap();
        let lock = DirectoryLock::acquire(directory.path()).unwrap();
        let _inherited = lock.file.try_clone().unwrap();
        drop(lock);
        DirectoryLock::acquire(directory.path()).unwrap();
    }

    #[test]
    fn a_stale_file_of_a_dead_process_is_no_lock() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join(LOCK), "4000000000 and a longer text\n").unwrap();
        let _lock = DirectoryLock::acquire(directory.path()).unwrap();
        let text = std::fs::read_to_string(directory.path().join(LOCK)).unwrap();
        assert_eq!(text, format!("{}\n", std::process::id()));
    }

    #[test]
    fn a_holder_without_a_pid_is_named_as_another_process() {
        let directory = tempfile::tempdir().unwrap();
        let _lock = DirectoryLock::acquire(directory.path()).unwrap();
        std::fs::write(directory.path().join(LOCK), [0xff, 0xfe]).unwrap();
        let error = DirectoryLock::acquire(directory.path()).unwrap_err();
        assert!(error.to_string().ends_with("in use by another process"), "{error}");
    }

    #[test]
    fn a_missing_directory_is_made_but_not_its_parents() {
        let directory = tempfile::tempdir().unwrap();
        let _lock = DirectoryLock::acquire(&directory.path().join("data")).unwrap();
        assert!(directory.path().join("data").join(LOCK).exists());
        let error = DirectoryLock::acquire(Path::new("/nowhere/at/all")).unwrap_err();
        assert!(error.to_string().starts_with("cannot lock /nowhere/at/all: "), "{error}");
    }

    #[test]
    fn a_file_in_place_of_the_directory_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("data");
        std::fs::write(&path, "").unwrap();
        let error = DirectoryLock::acquire(&path).unwrap_err();
        assert!(matches!(error, LockError::Io { .. }), "{error}");
    }
}
