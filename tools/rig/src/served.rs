//! A recorded disk that the kernel uses: served as a file, attached as a block device, with a file
//! system that is mounted.
//!
//! Owns: that chain. Does not know: who works on the file system, and what is recorded for what.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result};

use crate::command::run;
use crate::fuse::Fuse;
use crate::image::Image;
use crate::loopdev::LoopDevice;
use crate::recorder::{Event, Recorder};
use crate::recovery::unmount_when_free;
use crate::sealed::Refused;

/// Length of the disk in bytes.
pub const DISK_LEN: u64 = 64 << 20;

/// See the file.
#[derive(Debug)]
pub struct ServedDisk {
    recorder: Arc<Mutex<Recorder>>,
    /// The file that is the disk.
    disk: PathBuf,
    mount: PathBuf,
    _fuse: Fuse,
}

/// A mounted file system; dropping it unmounts it.
#[derive(Debug)]
pub struct Mounted {
    directory: Option<PathBuf>,
    _device: LoopDevice,
}

impl ServedDisk {
    /// Serves a disk of zeroes as `name` in `directory`, to be mounted at `mount`.
    pub fn set_up(directory: &Path, name: &str, mount: PathBuf) -> Result<Self> {
        let recorder = Arc::new(Mutex::new(Recorder::new(Image::zeroes(DISK_LEN))));
        let fuse = Fuse::mount(directory, name, DISK_LEN, Arc::clone(&recorder))
            .context("mounting a FUSE file system")?;
        Ok(Self { recorder, disk: directory.join(name), mount, _fuse: fuse })
    }

    /// What has happened to the disk, and more of it.
    pub fn recorder(&self) -> MutexGuard<'_, Recorder> {
        self.recorder.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The same, for whoever adds to it.
    pub fn shared_recorder(&self) -> Arc<Mutex<Recorder>> {
        Arc::clone(&self.recorder)
    }

    /// Where the file system is mounted.
    pub fn mount_point(&self) -> &Path {
        &self.mount
    }

    /// Puts in a disk with these bytes and no history.
    pub fn insert(&self, image: Image) {
        self.recorder().reset(image);
    }

    /// What has happened to the disk.
    pub fn events(&self) -> Vec<Event> {
        self.recorder().events().to_vec()
    }

    /// A block device made of the disk.
    pub fn attach(&self) -> Result<LoopDevice> {
        LoopDevice::attach(&self.disk).context("attaching a loop device").context(Refused)
    }

    /// A disk with an empty ext4.
    pub fn make_file_system(&self) -> Result<Image> {
        self.insert(Image::zeroes(DISK_LEN));
        let device = self.attach()?;
        let lazy = "nodiscard,lazy_itable_init=0,lazy_journal_init=0";
        let small = ["-b", "4096", "-N", "64", "-m", "0", "-J", "size=4"];
        let device = device.path().to_str().context("a path in UTF-8")?;
        run("mkfs.ext4", &[&["-q", "-F", "-E", lazy], &small[..], &[device]].concat())?;
        Ok(self.recorder().image().clone())
    }

    /// Mounts the file system on the disk. The kernel replays its journal.
    pub fn mount(&self) -> Result<Mounted> {
        let device = self.attach()?;
        let path = device.path().to_str().context("a path in UTF-8")?;
        let mount = self.mount.to_str().context("a path in UTF-8")?;
        // An error of the file system must not pass for an empty directory.
        run("mount", &["-t", "ext4", "-o", "noatime,errors=remount-ro", path, mount])?;
        Ok(Mounted { directory: Some(self.mount.clone()), _device: device })
    }
}

impl Mounted {
    /// Unmounts, once nobody uses it any more.
    pub fn unmount(mut self) -> Result<()> {
        match self.directory.take() {
            Some(directory) => Ok(unmount_when_free(&directory)?),
            None => Ok(()),
        }
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if let Some(directory) = self.directory.take() {
            // Where it stays, it goes with its namespace.
            let _ = unmount_when_free(&directory);
        }
    }
}
