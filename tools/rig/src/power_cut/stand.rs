//! The test stand: a recorded disk, and the processes that use it.
//!
//! Owns: serving, mounting and unmounting, the workload's and recovery's processes. All that waits
//! for the disk is a process of its own. Does not know: what is tried, and what is right.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result};
use rustix::event::{PollFd, PollFlags, poll};

use crate::command::run;
use crate::fuse::Fuse;
use crate::image::Image;
use crate::loopdev::LoopDevice;
use crate::notes::Note;
use crate::place::{disk_in, mount_in};
use crate::promise::Found;
use crate::recorder::{Event, Recorder};
use crate::recovery::unmount_when_free;
use crate::workload::Life;

/// Length of the disk in bytes.
const DISK_LEN: u64 = 32 << 20;

/// Number of SIGKILL.
const KILL: i32 = 9;

/// A recorded disk and where it is mounted.
#[derive(Debug)]
pub struct Stand {
    recorder: Arc<Mutex<Recorder>>,
    /// The file that is the disk.
    disk: PathBuf,
    mount: PathBuf,
    _fuse: Fuse,
}

impl Stand {
    /// Serves a disk of zeroes in this place.
    pub fn set_up(place: &Path) -> Result<Self> {
        let recorder = Arc::new(Mutex::new(Recorder::new(Image::zeroes(DISK_LEN))));
        let (directory, name) = disk_in(place);
        let fuse = Fuse::mount(&directory, &name, DISK_LEN, Arc::clone(&recorder))
            .context("mounting a FUSE file system")?;
        let disk = directory.join(name);
        Ok(Self { recorder, disk, mount: mount_in(place), _fuse: fuse })
    }

    fn recorder(&self) -> MutexGuard<'_, Recorder> {
        self.recorder.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts in a disk with these bytes and no history.
    pub fn insert(&mut self, image: Image) {
        self.recorder().reset(image);
    }

    /// What has happened to the disk.
    pub fn events(&self) -> Vec<Event> {
        self.recorder().events().to_vec()
    }

    /// A disk with an empty ext4.
    pub fn make_file_system(&mut self) -> Result<Image> {
        self.insert(Image::zeroes(DISK_LEN));
        let device = LoopDevice::attach(&self.disk)?;
        let lazy = "nodiscard,lazy_itable_init=0,lazy_journal_init=0";
        let small = ["-b", "4096", "-N", "64", "-m", "0", "-J", "size=4"];
        let device = device.path().to_str().context("a path in UTF-8")?;
        run("mkfs.ext4", &[&["-q", "-F", "-E", lazy], &small[..], &[device]].concat())?;
        Ok(self.recorder().image().clone())
    }

    /// Runs lives of the workload, one after the other, on the disk. Returns how any of them has
    /// ended in another way than it should.
    pub fn record(&mut self, lives: impl Iterator<Item = Life>) -> Result<Vec<String>> {
        let device = LoopDevice::attach(&self.disk)?;
        let path = device.path().to_str().context("a path in UTF-8")?;
        let mount = self.mount.to_str().context("a path in UTF-8")?;
        run("mount", &["-t", "ext4", "-o", "noatime", path, mount])?;
        let mut failures = Vec::new();
        for life in lives {
            failures.extend(self.live(&life)?);
        }
        unmount_when_free(&self.mount)?;
        Ok(failures)
    }

    fn live(&self, life: &Life) -> Result<Option<String>> {
        let (voice, theirs) = std::io::pipe()?;
        rustix::io::ioctl_fionbio(&voice, true)?;
        let voice = OwnedFd::from(voice);
        self.recorder().listen(File::from(voice.try_clone()?));
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("workload").arg("--directory").arg(self.mount.join("log"));
        for (name, value) in [("seed", life.seed), ("life", life.life), ("turns", life.turns)] {
            command.arg(format!("--{name}={value}"));
        }
        command.arg(format!("--backend={}", life.backend));
        command.args(life.dies.then_some("--dies"));
        command.args(life.drop_syncs.then_some("--drop-syncs"));
        let mut child = command.stdin(Stdio::null()).stdout(theirs).spawn()?;
        // It holds the other end of the pipe, which is to end with the child.
        drop(command);
        loop {
            poll(&mut [PollFd::new(&voice, PollFlags::IN)], None)?;
            if !self.recorder().hear() {
                break;
            }
        }
        let status = child.wait()?;
        let good = if life.dies { status.signal() == Some(KILL) } else { status.success() };
        Ok((!good).then(|| format!("life {}: {status}", life.life)))
    }

    /// Lets a fresh process mount these bytes and open the log.
    pub fn recover(&mut self, image: Image) -> Result<Found> {
        self.insert(image);
        let device = LoopDevice::attach(&self.disk)?;
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("recover").arg(device.path()).arg(&self.mount);
        let said = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output()?;
        let mut found = Found::default();
        for line in String::from_utf8_lossy(&said.stdout).lines() {
            found.add(line.parse()?);
        }
        if !said.status.success() {
            found.add(Note::Wrong(format!("recovery: {}", said.status)));
        }
        Ok(found)
    }
}
