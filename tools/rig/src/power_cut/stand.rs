//! The test stand: a recorded disk, and the processes that use it.
//!
//! Owns: the workload's and recovery's processes. All that waits for the disk is a process of its
//! own. Does not know: what is tried, and what is right.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::Result;
use rustix::event::{PollFd, PollFlags, poll};

use crate::image::Image;
use crate::notes::Note;
use crate::place::{disk_in, mount_in};
use crate::promise::Found;
use crate::recorder::Event;
use crate::served::ServedDisk;
use crate::workload::Life;

/// Number of SIGKILL.
const KILL: i32 = 9;

/// A recorded disk and where it is mounted.
#[derive(Debug)]
pub struct Stand(ServedDisk);

impl Stand {
    /// Serves a disk of zeroes in this place.
    pub fn set_up(place: &Path) -> Result<Self> {
        let (directory, name) = disk_in(place);
        Ok(Self(ServedDisk::set_up(&directory, &name, mount_in(place))?))
    }

    /// Puts in a disk with these bytes and no history.
    pub fn insert(&mut self, image: Image) {
        self.0.insert(image);
    }

    /// What has happened to the disk.
    pub fn events(&self) -> Vec<Event> {
        self.0.events()
    }

    /// A disk with an empty ext4.
    pub fn make_file_system(&mut self) -> Result<Image> {
        self.0.make_file_system()
    }

    /// Runs lives of the workload, one after the other, on the disk. Returns how any of them has
    /// ended in another way than it should.
    pub fn record(&mut self, lives: impl Iterator<Item = Life>) -> Result<Vec<String>> {
        let mounted = self.0.mount()?;
        let mut failures = Vec::new();
        for life in lives {
            failures.extend(self.live(&life)?);
        }
        mounted.unmount()?;
        Ok(failures)
    }

    fn live(&self, life: &Life) -> Result<Option<String>> {
        let (voice, theirs) = std::io::pipe()?;
        rustix::io::ioctl_fionbio(&voice, true)?;
        let voice = OwnedFd::from(voice);
        self.0.recorder().listen(File::from(voice.try_clone()?));
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("workload").arg("--directory").arg(self.0.mount_point().join("log"));
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
            if !self.0.recorder().hear() {
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
        let device = self.0.attach()?;
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("recover").arg(device.path()).arg(self.0.mount_point());
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
