//! Where a run has its mounts: a directory that tells whether its run still lives.
//!
//! Owns: the directory, its lock, and the removal of what killed runs have left. Does not know:
//! what is mounted there.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rustix::fs::{FlockOperation, flock};

use crate::loopdev;

const PREFIX: &str = "zzq-rig-";

/// The directory of one run; dropping it removes it.
#[derive(Debug)]
pub struct Place {
    path: PathBuf,
    _lock: File,
}

impl Place {
    /// Removes what killed runs have left and makes a new one.
    pub fn make() -> Result<Self> {
        let parent = std::env::temp_dir();
        clear(&parent).context("clearing what earlier runs have left")?;
        let name = format!("{PREFIX}{}", std::process::id());
        // It gets the name by which others know it once it is locked: without, it would pass for
        // one whose run has been killed.
        let begun = tempfile::Builder::new().prefix("new-").suffix(&name).tempdir_in(&parent)?;
        for name in ["disk", "mount"] {
            std::fs::create_dir(begun.path().join(name))?;
        }
        let lock = File::create(begun.path().join("lock"))?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
        let path = parent.join(name);
        std::fs::rename(begun.path(), &path)?;
        let _gone = begun.keep();
        Ok(Self { path, _lock: lock })
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// Where the recorded disk is served: a directory, and the name of its one file, by which a loop
/// device that outlives the run is known.
pub fn disk_in(place: &Path) -> (PathBuf, String) {
    let name = place.file_name().unwrap_or_default().to_string_lossy().into_owned();
    (place.join("disk"), name)
}

/// Where the file system on the disk is mounted.
pub fn mount_in(place: &Path) -> PathBuf {
    place.join("mount")
}

/// Mounts have gone with the processes of their run; directories and, rarely, a loop device stay.
fn clear(parent: &Path) -> Result<()> {
    let mut dead = Vec::new();
    for entry in std::fs::read_dir(parent)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with(PREFIX) && is_dead(&entry.path())? {
            dead.push((name, entry.path()));
        }
    }
    if !dead.is_empty() {
        loopdev::detach_left(|file| dead.iter().any(|(name, _)| name == file))?;
    }
    for (_, path) in dead {
        remove(&path)?;
    }
    Ok(())
}

fn is_dead(path: &Path) -> io::Result<bool> {
    let lock = match File::open(path.join("lock")) {
        // Its run is about to make it, or another one has just removed it.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        lock => lock?,
    };
    Ok(flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok())
}

fn remove(path: &Path) -> io::Result<()> {
    match std::fs::remove_dir_all(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}
