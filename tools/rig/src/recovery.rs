//! A process that starts after a power cut: mounts what is left, opens the log, says what it finds.
//!
//! Owns: that order, and going on afterwards. Does not know: what was promised.

use std::fmt::Display;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use zzq_wal::io::{Backend, FileDisk};
use zzq_wal::{Log, OpenError};

use crate::body::Body;
use crate::notes::Note;
use crate::workload::{options, owner};

/// Says what the log on this device holds; an error is about the rig itself.
pub fn recover(
    device: &Path,
    directory: &Path,
    say: &mut impl FnMut(Note) -> Result<()>,
) -> Result<()> {
    if let Err(error) = mount_at(device, directory) {
        return say(Note::Wrong(format!("the file system does not mount: {error}")));
    }
    let found = look(&directory.join("log"), say);
    unmount_when_free(directory)?;
    found
}

/// Unmounts, once the kernel has let go of the files that a closed `io_uring` had: it does so after
/// the close, and tells nobody.
pub fn unmount_when_free(directory: &Path) -> rustix::io::Result<()> {
    let end = Instant::now() + PATIENCE;
    loop {
        match unmount(directory, UnmountFlags::empty()) {
            Err(Errno::BUSY) if Instant::now() < end => std::thread::sleep(PAUSE),
            outcome => return outcome,
        }
    }
}

const PATIENCE: Duration = Duration::from_mins(1);
const PAUSE: Duration = Duration::from_millis(2);

/// Mounts the file system on a device.
pub fn mount_at(device: &Path, directory: &Path) -> rustix::io::Result<()> {
    // An error of the file system must not pass for an empty directory.
    let data = c"errors=remount-ro";
    mount(device, directory, "ext4", MountFlags::NOATIME, Some(data))
}

fn look(directory: &Path, say: &mut impl FnMut(Note) -> Result<()>) -> Result<()> {
    let mut records = Vec::new();
    let opened = open(directory, &mut records);
    let (log, last) = match opened {
        Ok(opened) => opened,
        Err(error) => return say(Note::Wrong(format!("the log does not open: {error}"))),
    };
    let term = log.facts().term;
    for (lsn, body) in &records {
        say(Note::Found { lsn: *lsn, body: *body })?;
    }
    say(Note::Term { term })?;
    say(Note::Started { last })?;
    drop(log);
    // What was found is durable from now on: the next start finds the same.
    let mut again = Vec::new();
    match open(directory, &mut again) {
        Ok((_, end)) if end == last && again == records => Ok(()),
        Ok((_, end)) => say(Note::Wrong(format!("a second start ends at {end}, not at {last}"))),
        Err(error) => say(Note::Wrong(format!("the log does not open again: {error}"))),
    }
}

fn open(directory: &Path, records: &mut Vec<(u64, Body)>) -> Result<(Log<FileDisk>, u64), String> {
    let words = |error: &dyn Display| error.to_string();
    let disk = FileDisk::open(directory, Backend::Auto).map_err(|error| words(&error))?;
    let options = options().map_err(|error| words(&error))?;
    let opened: Result<_, OpenError> = Log::open(disk, options, 0, &mut |record| {
        records.push((record.lsn.get(), owner(&record)?));
        Ok(())
    });
    let (log, recovery) = opened.map_err(|error| words(&error))?;
    Ok((log, recovery.last_lsn.get()))
}
