//! What the log asks of a disk: one directory of files, blocking steps for helper threads and
//! recovery, and asynchronous group writes for whoever leads.
//!
//! Owns: the seam between the log and real or simulated storage. A `Disk` promises nothing about
//! bytes that were written without `sync`, and nothing about names before `sync_dir`.
//! Does not know: segments, groups, records.

use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use crate::io::IoBuffer;

/// Device granularity of everything written or read directly: offsets, lengths, memory.
pub const BLOCK: usize = 4096;

/// A directory of the log on some device. Names are plain file names without a separator.
///
/// Blocking methods may take as long as the device wants: lanes never call them.
pub trait Disk: Send + Sync + 'static {
    /// An open file. Direct and buffered access to one file are never mixed.
    type File: DiskFile;

    /// Names of all files of the log with their sizes in bytes, in no particular order.
    fn list(&self) -> io::Result<Vec<(String, u64)>>;

    /// Creates `name`, which must not exist, with `len` bytes of written zeroes, synced. The
    /// directory is not synced.
    fn create(&self, name: &str, len: u64) -> io::Result<Self::File>;

    /// As [`create`](Self::create), but before each piece of zeroes `pace` is asked, with the
    /// bytes that were written so far, and where it has enough the rest is space that the file has
    /// taken, and no more: it reads as zeroes, is written without asking for space, and takes
    /// longer the first time. Returns how many bytes were written. A disk that takes space only by
    /// writing to it writes all of them.
    fn create_ahead(
        &self,
        name: &str,
        len: u64,
        pace: &dyn Fn(u64) -> Ahead,
    ) -> io::Result<(Self::File, u64)> {
        let _ = pace;
        Ok((self.create(name, len)?, len))
    }

    /// Opens an existing file for direct reads and writes.
    fn open(&self, name: &str) -> io::Result<Self::File>;

    /// Atomically renames; an existing target is replaced.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a name. Open files stay usable.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Makes names durable: every create, rename and remove before it. After an error they may
    /// never become so, though later calls succeed.
    fn sync_dir(&self) -> io::Result<()>;

    /// How many calls of [`sync_dir`](Self::sync_dir) have failed, whoever made them. One that
    /// succeeds behind a failed one is counted behind it: so this may wait for one under way.
    fn failed_syncs(&self) -> u64;

    /// Makes names durable that were changed since there were so many
    /// [`failed_syncs`](Self::failed_syncs). Whoever shares a directory asks so: the system tells
    /// of an error once, and who hears of it may not be the one whose names are lost.
    fn sync_names(&self, failed: u64) -> io::Result<()> {
        self.sync_dir()?;
        if self.failed_syncs() == failed {
            return Ok(());
        }
        Err(io::Error::other("a sync of the directory has failed meanwhile"))
    }

    /// Bytes that an unprivileged writer could still take.
    fn free_bytes(&self) -> io::Result<u64>;

    /// An empty buffer for a write of up to `bytes` bytes, in the memory that suits the disk best.
    fn buffer(&self, bytes: usize) -> IoBuffer {
        IoBuffer::with_capacity(bytes)
    }

    /// Hands one write to the device without waiting for it. `Err` means that nothing was
    /// submitted and gives the write back. The buffer belongs to the disk until its completion.
    fn submit(&self, write: Write<Self::File>) -> Result<(), (Write<Self::File>, io::Error)>;

    /// Takes completions that have arrived, in any order, without waiting. Any thread may call
    /// it; each completion is returned once.
    fn reap(&self, completions: &mut Vec<Completion>);

    /// Whether a completion has arrived, where a look into memory tells. None where it takes more:
    /// who wants to know waits for the write's event, and does not look again and again.
    fn has_completed(&self) -> Option<bool> {
        None
    }

    /// Microseconds on a clock that does not go back: how long writes take is told by it. A disk
    /// without one always says the same.
    fn now_us(&self) -> u64 {
        0
    }
}

/// How fast zeroes are written ahead of what will be written there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ahead {
    /// No more of them.
    Enough,
    /// So that whoever writes meanwhile hardly notices: most of the device's time is left to
    /// others.
    Gently,
    /// Half of it is.
    Briskly,
}

/// An open file of a [`Disk`], shared between the log, readers and helper threads.
pub trait DiskFile: Clone + fmt::Debug + Send + Sync + 'static {
    /// Reads at `offset` until `buffer` is full or the file ends; returns the bytes read.
    /// `offset` and the buffer's length are multiples of [`BLOCK`].
    fn read_at(&self, buffer: &mut IoBuffer, offset: u64) -> io::Result<usize>;

    /// Writes the whole buffer at `offset` (both multiples of [`BLOCK`]), without sync.
    fn write_at(&self, buffer: &IoBuffer, offset: u64) -> io::Result<()>;

    /// Makes all completed writes of this file durable.
    fn sync(&self) -> io::Result<()>;

    /// Gives the space of these bytes, whole blocks, back to the file system, which may not be able
    /// to take it. They read as zeroes then, or as before until a power cut has passed; the size
    /// stays. Not for a file that is written again: a write there would have to find space.
    fn give_back(&self, offset: u64, len: u64) -> io::Result<()>;

    /// Size in bytes.
    fn size(&self) -> io::Result<u64>;
}

/// One asynchronous write of a whole buffer.
#[derive(Debug)]
pub struct Write<F> {
    /// Where to.
    pub file: F,
    /// What; its length is a multiple of [`BLOCK`].
    pub buffer: IoBuffer,
    /// Byte offset in the file, a multiple of [`BLOCK`].
    pub offset: u64,
    /// With DSYNC: the completion means durable, not only written.
    pub sync: bool,
    /// Comes back in the completion; unique among writes in flight.
    pub token: u64,
    /// An eventfd that becomes readable when the completion can be reaped.
    pub notify: Option<Arc<OwnedFd>>,
}

/// The end of one [`Write`].
#[derive(Debug)]
pub struct Completion {
    /// The write's token.
    pub token: u64,
    /// The write's buffer, the caller's again.
    pub buffer: IoBuffer,
    /// Bytes written, possibly fewer than asked, or what the device said.
    pub result: io::Result<usize>,
}

/// A name within the directory, and nothing that leads out of it.
pub(crate) fn assert_name(name: &str) {
    assert!(!name.is_empty() && !name.contains('/') && name != "." && name != "..", "{name:?}");
}

/// Direct I/O takes whole blocks.
pub(crate) fn assert_blocks(len: usize, offset: u64) {
    assert!(len.is_multiple_of(BLOCK), "a length of {len} is no number of blocks");
    assert!(offset.is_multiple_of(BLOCK as u64), "an offset of {offset} is not on a block");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "an offset of 512 is not on a block")]
    fn an_offset_within_a_block_is_a_broken_invariant() {
        assert_blocks(BLOCK, 512);
    }

    #[test]
    fn names_do_not_lead_out_of_the_directory() {
        assert_name("segment-1");
        for name in ["", ".", "..", "a/b", "/"] {
            assert!(std::panic::catch_unwind(|| assert_name(name)).is_err(), "{name:?}");
        }
    }
}
