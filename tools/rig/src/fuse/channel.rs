//! The line between the kernel and a file system: a mount, requests, answers.
//!
//! Owns: the mount. Does not know: what requests ask for.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

/// The kernel's end of a mount.
#[derive(Debug)]
pub(crate) struct Channel(OwnedFd);

impl Channel {
    /// Mounts at `directory` what is answered here.
    pub(crate) fn mount(directory: &Path) -> io::Result<Self> {
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let fd = rustix::fs::open("/dev/fuse", flags, Mode::empty())?;
        let number = fd.as_raw_fd();
        let data = format!("fd={number},rootmode=40000,user_id=0,group_id=0");
        let data = std::ffi::CString::new(data).map_err(io::Error::other)?;
        let safe = MountFlags::NODEV | MountFlags::NOSUID | MountFlags::NOEXEC;
        mount("zzq-rig", directory, "fuse", safe, Some(data.as_c_str()))?;
        Ok(Self(fd))
    }

    /// Waits until there are requests, or the file system is unmounted.
    pub(crate) fn wait(&self) -> io::Result<()> {
        loop {
            match poll(&mut [PollFd::new(&self.0, PollFlags::IN)], None) {
                Err(Errno::INTR) => {}
                waited => return Ok(waited.map(drop)?),
            }
        }
    }

    /// Length of the next request; zero: there will be none any more.
    pub(crate) fn next(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        loop {
            match rustix::io::read(self.0.as_fd(), &mut *buffer) {
                Ok(read) => return Ok(Some(read)),
                Err(Errno::AGAIN) => return Ok(None),
                Err(Errno::NODEV) => return Ok(Some(0)),
                // Whoever asked has gone meanwhile.
                Err(Errno::INTR | Errno::NOENT) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Answers. Returns whether there may be more requests.
    pub(crate) fn answer(&self, answer: &[u8]) -> io::Result<bool> {
        match rustix::io::write(self.0.as_fd(), answer) {
            Ok(_) | Err(Errno::NOENT) => Ok(true),
            Err(Errno::NODEV) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

/// A mount that is served by a thread; dropping it unmounts.
#[derive(Debug)]
pub(crate) struct Served {
    directory: PathBuf,
    server: Option<JoinHandle<io::Result<()>>>,
}

impl Served {
    /// Serves what is mounted at `directory` from a thread.
    pub(crate) fn spawn(
        directory: &Path,
        serve: impl FnOnce() -> io::Result<()> + Send + 'static,
    ) -> io::Result<Self> {
        let server = std::thread::Builder::new().name("fuse".to_owned()).spawn(serve)?;
        Ok(Self { directory: directory.to_owned(), server: Some(server) })
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // Where something still uses it, it goes with the last user; the thread, too.
        let gone = unmount(&self.directory, UnmountFlags::empty());
        if gone.is_err() {
            let _ = unmount(&self.directory, UnmountFlags::DETACH);
        } else if let Some(server) = self.server.take() {
            let _ = server.join();
        }
    }
}
