//! A disk in memory that keeps its promises to the letter, and not one more.
//!
//! Owns: a model of a directory on a device, for tests and for the simulator. Three views of it
//! differ until something is synced: what reads show, what a crash leaves at least, and what it
//! may leave. Everything happens on the caller's thread and in the caller's order; chance enters
//! by seeds only, so that the same calls give the same disk.
//! Does not know: what the bytes mean, time.
//!
//! - A write is seen by reads when it completes, and durable when it was a `sync` write, or when
//!   its file is synced later.
//! - A name is seen at once and durable after `sync_dir`.
//! - [`SimDisk::hold`] withholds completions until they are released, in any order.
//! - [`SimDisk::fail`] makes operations go wrong, [`SimDisk::lie`] lets the device pretend to
//!   flush, [`SimDisk::flip`] and its like damage bytes.
//! - [`SimDisk::cut_power`] lets the power go at a chosen operation.
//! - [`SimDisk::crash`] gives the disk as it may be after a power cut, [`SimDisk::restart`] as
//!   it is when only the process ended.
//!
//! ```
//! use zzq_wal::disk::{Disk, DiskFile, Write};
//! use zzq_wal::io::IoBuffer;
//! use zzq_wal::sim_disk::{SimDisk, Survival};
//!
//! let disk = SimDisk::new();
//! let file = disk.create("segment", 8192)?;
//! disk.sync_dir()?;
//! disk.hold();
//! let mut buffer = IoBuffer::with_blocks(1);
//! buffer.fill(7);
//! disk.submit(Write { file, buffer, offset: 0, sync: true, token: 1, notify: None })
//!     .map_err(|(_, error)| error)?;
//! assert_eq!(disk.in_flight(), [1]);
//! // The power goes before the device has said a word: all of it, or nothing, or any part.
//! assert_eq!(disk.crash_with(Survival::Nothing).bytes("segment")?[0], 0);
//! disk.release_next();
//! assert_eq!(disk.crash_with(Survival::Nothing).bytes("segment")?[0], 7);
//! # Ok::<(), std::io::Error>(())
//! ```

mod crash;
mod faults;
mod file;
mod flight;
mod names;
mod power;
mod random;
mod state;
mod tamper;
#[cfg(test)]
mod tests;
mod void;

use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use self::crash::Survival;
pub use self::faults::{Fault, Lie, Op};
use self::names::FileId;
pub use self::random::Random;
use self::state::State;
pub use self::tamper::Unsynced;
pub use self::void::{VoidDisk, VoidFile};
use crate::disk::{Ahead, BLOCK, Completion, Disk, DiskFile, Write, assert_blocks};
use crate::io::IoBuffer;

/// A disk in memory. Clones are the same disk.
#[derive(Clone, Debug)]
pub struct SimDisk {
    shared: Arc<Shared>,
}

/// An open file of a [`SimDisk`].
#[derive(Clone, Debug)]
pub struct SimFile {
    shared: Arc<Shared>,
    file: FileId,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    hook: Mutex<Option<Hook>>,
}

/// What is called for each completion, with its token.
#[derive(Clone)]
struct Hook(Arc<dyn Fn(u64) + Send + Sync>);

impl SimDisk {
    /// An empty disk of 1 TiB.
    pub fn new() -> Self {
        Self::with_capacity(1 << 40)
    }

    /// An empty disk with room for `bytes`.
    pub fn with_capacity(bytes: u64) -> Self {
        Self::from_state(State::new(bytes))
    }

    /// Room for files from now on; those that are there stay.
    pub fn set_capacity(&self, bytes: u64) {
        self.state().capacity = bytes;
    }

    fn from_state(state: State) -> Self {
        let shared = Shared { state: Mutex::new(state), hook: Mutex::default() };
        Self { shared: Arc::new(shared) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state()
    }

    fn file(&self, file: FileId) -> SimFile {
        SimFile { shared: Arc::clone(&self.shared), file }
    }
}

impl Default for SimDisk {
    fn default() -> Self {
        Self::new()
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Hook {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Hook")
    }
}

impl Disk for SimDisk {
    type File = SimFile;

    fn list(&self) -> io::Result<Vec<(String, u64)>> {
        self.state().list()
    }

    fn create(&self, name: &str, len: u64) -> io::Result<SimFile> {
        let file = self.state().create(name, len)?;
        Ok(self.file(file))
    }

    /// What the zeroes do not reach is the same here: space, which reads as zeroes.
    fn create_ahead(
        &self,
        name: &str,
        len: u64,
        pace: &dyn Fn(u64) -> Ahead,
    ) -> io::Result<(SimFile, u64)> {
        let file = self.create(name, len)?;
        let mut zeroed = 0;
        while zeroed < len && pace(zeroed) != Ahead::Enough {
            zeroed = len.min(zeroed + (len / 16).next_multiple_of(BLOCK as u64));
        }
        Ok((file, zeroed))
    }

    fn open(&self, name: &str) -> io::Result<SimFile> {
        let file = self.state().open(name)?;
        Ok(self.file(file))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.state().rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.state().remove(name)
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.state().sync_dir()
    }

    fn failed_syncs(&self) -> u64 {
        self.state().failed_syncs
    }

    fn free_bytes(&self) -> io::Result<u64> {
        Ok(self.state().free_bytes())
    }

    fn submit(&self, write: Write<SimFile>) -> Result<(), (Write<SimFile>, io::Error)> {
        let same = Arc::ptr_eq(&self.shared, &write.file.shared);
        assert!(same, "a file belongs to the disk that opened it");
        let completed = {
            let mut state = self.state();
            state.submit(write)?;
            if state.flight.is_held() { None } else { state.release(None, None) }
        };
        self.tell(completed);
        Ok(())
    }

    fn reap(&self, completions: &mut Vec<Completion>) {
        completions.append(&mut self.state().done);
    }
}

impl DiskFile for SimFile {
    fn read_at(&self, buffer: &mut IoBuffer, offset: u64) -> io::Result<usize> {
        assert_blocks(buffer.len(), offset);
        self.shared.state().read(self.file, buffer, offset)
    }

    fn write_at(&self, buffer: &IoBuffer, offset: u64) -> io::Result<()> {
        assert_blocks(buffer.len(), offset);
        self.shared.state().write(self.file, buffer, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.shared.state().sync(self.file)
    }

    fn give_back(&self, offset: u64, len: u64) -> io::Result<()> {
        assert_blocks(usize::try_from(len).map_err(io::Error::other)?, offset);
        self.shared.state().give_back(self.file, offset, len)
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.shared.state().size(self.file))
    }
}
