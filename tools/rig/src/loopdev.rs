//! A block device made of a file, which goes when its last user goes.
//!
//! Owns: attaching with direct I/O, so that writes and flushes reach the file as they are made, and
//! detaching. Does not know: what is on the device.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, ensure};

use crate::command::run;

/// An attached device.
#[derive(Debug)]
pub struct LoopDevice {
    path: PathBuf,
    /// Holds the device; the kernel detaches it when this and the last mount are gone, however
    /// the process ends.
    _held: File,
}

/// Those who look for a free device side by side find the same one, and wait for it.
static ONE_BY_ONE: Mutex<()> = Mutex::new(());

impl LoopDevice {
    /// Attaches a free device to `file`.
    pub fn attach(file: &Path) -> Result<Self> {
        let file = file.to_str().context("a path in UTF-8")?;
        let _turn = ONE_BY_ONE.lock().unwrap_or_else(PoisonError::into_inner);
        let path = PathBuf::from(run("losetup", &["--direct-io=on", "--show", "--find", file])?);
        let attached = Self::hold(&path);
        if attached.is_err() {
            let _ = detach(&path);
        }
        attached
    }

    fn hold(path: &Path) -> Result<Self> {
        let held = File::open(path).with_context(|| format!("opening {}", path.display()))?;
        let name = path.file_name().and_then(|name| name.to_str()).context("a device's name")?;
        let direct = std::fs::read_to_string(format!("/sys/block/{name}/loop/dio"))?;
        ensure!(direct.trim() == "1", "the loop device does no direct I/O on a FUSE file");
        // It is in use, by us: so this takes effect when it is not any more.
        detach(path)?;
        Ok(Self { path: path.to_owned(), _held: held })
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

fn detach(path: &Path) -> Result<()> {
    run("losetup", &["--detach", path.to_str().context("a path in UTF-8")?]).map(drop)
}

/// Detaches devices whose file has a name that `is_left` accepts: a process was killed in the
/// moment between attaching and holding.
pub fn detach_left(is_left: impl Fn(&str) -> bool) -> Result<()> {
    let list = run("losetup", &["--list", "--noheadings", "--raw", "--output", "NAME,BACK-FILE"])?;
    for line in list.lines() {
        let Some((device, file)) = line.split_once(' ') else { continue };
        if file.rsplit('/').next().is_some_and(&is_left) {
            // Another run may have seen it, too.
            let _ = detach(Path::new(device));
        }
    }
    Ok(())
}
