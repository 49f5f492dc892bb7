//! Files of a real directory, opened for direct I/O.
//!
//! Owns: opening, blocking reads and writes, and what a file system's refusal means.
//! Assumes: no other process writes these files, and nobody opens them buffered.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{FallocateFlags, Mode, OFlags, fallocate, fdatasync, fstat, fsync, openat};
use rustix::io::{Errno, pread, pwrite};

use crate::disk::{Ahead, BLOCK, DiskFile, assert_blocks};
use crate::io::IoBuffer;

/// An open file of a [`FileDisk`](crate::io::FileDisk). Clones share the descriptor.
#[derive(Clone, Debug)]
pub struct OpenFile {
    fd: Arc<OwnedFd>,
}

/// Zeroes are written in pieces of this many blocks.
const ZEROES: usize = 32;

impl OpenFile {
    /// Opens `name` in `directory` for direct reads and writes.
    pub(super) fn open(directory: BorrowedFd<'_>, name: &str) -> io::Result<Self> {
        Self::open_with(directory, name, OFlags::empty())
    }

    /// Creates `name`, which must not exist, with space for `len` bytes and written zeroes, until
    /// `pace` has enough of them; synced. Returns how many zeroes.
    pub(super) fn create(
        directory: BorrowedFd<'_>,
        name: &str,
        len: u64,
        pace: &dyn Fn(u64) -> Ahead,
    ) -> io::Result<(Self, u64)> {
        let file = Self::open_with(directory, name, OFlags::CREATE | OFlags::EXCL)?;
        // What was not reserved has its space when it is written.
        let all = |_| Ahead::Briskly;
        let zeroed = file.zero(len, if file.reserve(len)? { pace } else { &all })?;
        fsync(&file)?;
        Ok((file, zeroed))
    }

    /// Whether both share one descriptor.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.fd, &other.fd)
    }

    fn open_with(directory: BorrowedFd<'_>, name: &str, flags: OFlags) -> io::Result<Self> {
        let flags = flags | OFlags::RDWR | OFlags::DIRECT | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        match openat(directory, name, flags, Mode::RUSR | Mode::WUSR) {
            Ok(fd) => Ok(fd.into()),
            Err(Errno::INVAL) => Err(io::Error::new(
                io::ErrorKind::Unsupported,
                format!("the file system refuses direct I/O (O_DIRECT) on {name}"),
            )),
            Err(error) => Err(error.into()),
        }
    }

    /// Takes the space at once, so that a full disk shows before any byte is written and the file
    /// lies in one piece. Blocks come out unwritten, which is why zeroes are written behind it.
    /// False where the file system cannot do that.
    fn reserve(&self, len: u64) -> io::Result<bool> {
        if len == 0 {
            return Ok(true);
        }
        match fallocate(self, FallocateFlags::empty(), 0, len) {
            Ok(()) => Ok(true),
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn zero(&self, len: u64, pace: &dyn Fn(u64) -> Ahead) -> io::Result<u64> {
        if len == 0 {
            return Ok(0);
        }
        // Nothing is written to them: in memory they are the one page of zeroes of the system.
        let zeroes = IoBuffer::with_blocks(ZEROES);
        let write = |offset, count| {
            let pace = pace(offset);
            if pace != Ahead::Enough {
                write_whole(self, &zeroes[..count], offset)?;
            }
            Ok(pace)
        };
        in_pieces(len, zeroes.len(), write, Instant::now, thread::sleep)
    }
}

/// Calls `piece` with offset and length of each piece of `len` bytes, until it has had enough and
/// done nothing, and pauses between two of them by how long the last one took: the rest of the
/// device's time is left to writes that somebody waits for. Returns how many bytes were done.
fn in_pieces(
    len: u64,
    most: usize,
    mut piece: impl FnMut(u64, usize) -> io::Result<Ahead>,
    mut clock: impl FnMut() -> Instant,
    mut pause: impl FnMut(Duration),
) -> io::Result<u64> {
    let mut offset = 0;
    while offset < len {
        let count = usize::try_from(len - offset).unwrap_or(usize::MAX).min(most);
        let began = clock();
        let times = match piece(offset, count)? {
            Ahead::Enough => break,
            Ahead::Gently => 7,
            Ahead::Briskly => 1,
        };
        offset += count as u64;
        if offset < len {
            pause((times * clock().duration_since(began)).min(PAUSE_MAX));
        }
    }
    Ok(offset)
}

/// A device that hangs is not waited for twice.
const PAUSE_MAX: Duration = Duration::from_millis(100);

impl DiskFile for OpenFile {
    fn read_at(&self, buffer: &mut IoBuffer, offset: u64) -> io::Result<usize> {
        assert_blocks(buffer.len(), offset);
        let mut filled = 0;
        while filled < buffer.len() {
            match pread(self, &mut buffer[filled..], offset + filled as u64) {
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
                Ok(count) => {
                    filled += count;
                    // A file whose end was cut off within a block ends with such a read; the next
                    // one would start off a block, which direct I/O refuses.
                    if count == 0 || !count.is_multiple_of(BLOCK) {
                        break;
                    }
                }
            }
        }
        Ok(filled)
    }

    fn write_at(&self, buffer: &IoBuffer, offset: u64) -> io::Result<()> {
        assert_blocks(buffer.len(), offset);
        write_whole(self, buffer, offset)
    }

    fn sync(&self) -> io::Result<()> {
        Ok(fdatasync(self)?)
    }

    fn give_back(&self, offset: u64, len: u64) -> io::Result<()> {
        assert_blocks(usize::try_from(len).unwrap_or(usize::MAX), offset);
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match fallocate(self, flags, offset, len) {
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn size(&self) -> io::Result<u64> {
        u64::try_from(fstat(self)?.st_size).map_err(io::Error::other)
    }
}

impl From<OwnedFd> for OpenFile {
    fn from(fd: OwnedFd) -> Self {
        Self { fd: Arc::new(fd) }
    }
}

impl AsFd for OpenFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl AsRawFd for OpenFile {
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

/// Repeats `write(rest, offset)` until all of `bytes` are written or it takes no more; returns
/// how many it took.
pub(super) fn repeat(
    bytes: &[u8],
    offset: u64,
    mut write: impl FnMut(&[u8], u64) -> Result<usize, Errno>,
) -> Result<usize, Errno> {
    let mut written = 0;
    while written < bytes.len() {
        match write(&bytes[written..], offset + written as u64) {
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
            Ok(0) => break,
            Ok(count) => written += count,
        }
    }
    assert!(written <= bytes.len(), "no write writes more than it was given");
    Ok(written)
}

fn write_whole(file: &OpenFile, bytes: &[u8], offset: u64) -> io::Result<()> {
    let written = repeat(bytes, offset, |rest, offset| pwrite(file, rest, offset))?;
    if written == bytes.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_and_interrupted_writes_go_on_where_they_stopped() {
        let mut answers = [Err(Errno::INTR), Ok(4), Err(Errno::INTR), Ok(5), Ok(1)].into_iter();
        let mut seen = Vec::new();
        let written = repeat(b"0123456789", 100, |rest, offset| {
            seen.push((rest.len(), offset));
            answers.next().unwrap()
        });
        assert_eq!(written, Ok(10));
        assert_eq!(seen, [(10, 100), (10, 100), (6, 104), (6, 104), (1, 109)]);
    }

    #[test]
    fn between_pieces_time_is_left_to_others() {
        let (began, passed) = (Instant::now(), std::cell::Cell::new(Duration::ZERO));
        let (mut pieces, mut pauses) = (Vec::new(), Vec::new());
        let piece = |offset, count| {
            pieces.push((offset, count));
            passed.set(passed.get() + Duration::from_millis(5 * pieces.len() as u64));
            Ok(if offset == 0 { Ahead::Briskly } else { Ahead::Gently })
        };
        let ended = in_pieces(35, 10, piece, || began + passed.get(), |time| pauses.push(time));
        assert_eq!(ended.ok(), Some(35));
        assert_eq!(pieces, [(0, 10), (10, 10), (20, 10), (30, 5)]);
        let millis: Vec<_> = pauses.iter().map(Duration::as_millis).collect();
        assert_eq!(millis, [5, 70, 100], "and none behind the last");
    }

    #[test]
    fn zeroes_end_where_somebody_waits() {
        let piece = |offset, _| Ok(if offset < 20 { Ahead::Briskly } else { Ahead::Enough });
        let done = in_pieces(100, 10, piece, Instant::now, |_| {});
        assert_eq!(done.ok(), Some(20));
    }

    #[test]
    fn a_device_that_takes_no_more_ends_the_write_short() {
        let mut answers = [Ok(4), Ok(0)].into_iter();
        assert_eq!(repeat(b"0123456789", 0, |_, _| answers.next().unwrap()), Ok(4));
        let mut answers = [Ok(4), Err(Errno::NOSPC)].into_iter();
        let written = repeat(b"0123456789", 0, |_, _| answers.next().unwrap());
        assert_eq!(written, Err(Errno::NOSPC));
    }
}
