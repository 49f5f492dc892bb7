//! The groups of one segment, also behind places where there is none.
//!
//! Owns: finding intact groups block by block. Does not know: whether they follow one another.

use std::io;

use zzq_wal::disk::{BLOCK, DiskFile};
use zzq_wal::format::Salt;
use zzq_wal::format::group::GroupHeader;
use zzq_wal::io::IoBuffer;

/// What comes next in a segment.
#[derive(Debug)]
pub(crate) enum Step<'a> {
    /// An intact group: where it begins, and all its bytes.
    Group(u64, GroupHeader, &'a [u8]),
    /// No intact group from here on, up to the next one or to the end.
    Gap(Gap),
    /// The end of what belongs to the segment.
    End,
}

/// Blocks without an intact group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gap {
    pub(crate) from: u64,
    pub(crate) to: u64,
    /// Remains of groups of this segment are in it.
    pub(crate) remains: bool,
    /// The device did not give all of it.
    pub(crate) unreadable: bool,
}

/// Reads groups, passing over what is none.
#[derive(Debug)]
pub(crate) struct Groups<F> {
    file: F,
    /// `None`: the header is lost, and the first group that names the segment tells.
    salt: Option<Salt>,
    number: u64,
    at: u64,
    limit: u64,
    base: u64,
    filled: usize,
    buffer: IoBuffer,
}

const WINDOW: usize = 1024 * 1024;

impl<F: DiskFile> Groups<F> {
    /// From `at` up to `limit`, both at blocks.
    pub(crate) fn new(file: F, number: u64, salt: Option<Salt>, at: u64, limit: u64) -> Self {
        Self { file, salt, number, at, limit, base: 0, filled: 0, buffer: IoBuffer::new() }
    }

    /// The next group, or the gap in front of it.
    pub(crate) fn next(&mut self) -> io::Result<Step<'_>> {
        if self.at >= self.limit {
            return Ok(Step::End);
        }
        let mut gap = Gap { from: self.at, to: self.at, remains: false, unreadable: false };
        while self.at < self.limit {
            match self.read(BLOCK) {
                Ok(()) => {}
                Err(error) if is_bad_place(&error) => gap.unreadable = true,
                Err(error) => return Err(error),
            }
            match self.header() {
                Some(header) if self.holds(&header)? => {
                    if gap.to > gap.from {
                        return Ok(Step::Gap(gap));
                    }
                    return Ok(self.take(header));
                }
                Some(_) => gap.remains = true,
                None => gap.remains |= self.has_salt(),
            }
            self.at += BLOCK as u64;
            gap.to = self.at;
        }
        Ok(Step::Gap(gap))
    }

    fn take(&mut self, header: GroupHeader) -> Step<'_> {
        self.salt = Some(header.salt);
        let at = self.at;
        self.at += header.length as u64;
        let start = index(at - self.base);
        Step::Group(at, header, &self.buffer[start..start + header.length])
    }

    fn header(&self) -> Option<GroupHeader> {
        let header = GroupHeader::decode(self.block())?;
        let ours =
            header.segment == self.number && self.salt.is_none_or(|salt| salt == header.salt);
        ours.then_some(header)
    }

    fn has_salt(&self) -> bool {
        let found = self.block().get(16..32);
        self.salt.is_some_and(|salt| found.is_some_and(|found| *found == salt))
    }

    fn block(&self) -> &[u8] {
        let start = index(self.at.saturating_sub(self.base));
        self.buffer.get(start..self.filled.min(start + BLOCK)).unwrap_or_default()
    }

    /// The whole group is there and intact.
    fn holds(&mut self, header: &GroupHeader) -> io::Result<bool> {
        if header.length as u64 > self.limit - self.at {
            return Ok(false);
        }
        match self.read(header.length) {
            Ok(()) => {}
            Err(error) if is_bad_place(&error) => return Ok(false),
            Err(error) => return Err(error),
        }
        let start = index(self.at - self.base);
        Ok(header.body_is_intact(&self.buffer[start..self.filled]))
    }

    /// Makes the buffer hold `len` bytes from `at` on, as far as the file has them.
    fn read(&mut self, len: usize) -> io::Result<()> {
        let end = self.base + self.filled as u64;
        if self.filled > 0 && self.at >= self.base && self.at + len as u64 <= end {
            return Ok(());
        }
        let left = usize::try_from(self.limit - self.at).unwrap_or(usize::MAX);
        let wide = len.max(WINDOW).min(left).next_multiple_of(BLOCK);
        let outcome = self.fill(wide);
        if wide > len && outcome.as_ref().is_err_and(is_bad_place) {
            // The bad place may lie behind what is wanted.
            return self.fill(len);
        }
        outcome
    }

    fn fill(&mut self, len: usize) -> io::Result<()> {
        (self.base, self.filled) = (self.at, 0);
        self.buffer.resize(len);
        self.filled = self.file.read_at(&mut self.buffer, self.at)?;
        Ok(())
    }
}

/// The device gives no bytes there; elsewhere it may.
fn is_bad_place(error: &io::Error) -> bool {
    const EIO: i32 = 5;
    error.raw_os_error() == Some(EIO)
}

fn index(distance: u64) -> usize {
    usize::try_from(distance).unwrap_or(usize::MAX)
}
