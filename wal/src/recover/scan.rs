//! Reading the groups of one segment, one after the other, in a few large reads.
//!
//! Owns: finding groups that are intact and belong to this use of the file.
//! Does not know: whether they follow one another, and what it means when they end.

use std::io;

use crate::disk::{BLOCK, DiskFile};
use crate::format::group::GroupHeader;
use crate::format::segment::{GROUPS_AT, SegmentHeader};
use crate::io::IoBuffer;

const WINDOW: usize = 256 * 1024;

/// What lies at a place where a group may be.
#[derive(Debug)]
pub(crate) enum Found<'a> {
    /// An intact group of this segment: its header and all its bytes.
    Group(GroupHeader, &'a [u8]),
    /// No such group.
    End,
}

/// Reads groups from a place on.
#[derive(Debug)]
pub(crate) struct Scan<F> {
    file: F,
    salt: [u8; 16],
    number: u64,
    limit: u64,
    /// Where the next group may be.
    at: u64,
    /// File offset of the buffer, and how much of it was read.
    base: u64,
    filled: usize,
    buffer: IoBuffer,
}

impl<F: DiskFile> Scan<F> {
    /// From `at` on, never past `limit`.
    pub(crate) fn new(file: F, header: &SegmentHeader, at: u64, limit: u64) -> Self {
        assert!(at >= GROUPS_AT && at.is_multiple_of(GROUPS_AT), "groups begin at blocks");
        let limit = limit.min(header.length);
        let (salt, number) = (header.salt, header.number);
        Self { file, salt, number, limit, at, base: 0, filled: 0, buffer: IoBuffer::new() }
    }

    /// Where the next group may be.
    pub(crate) fn at(&self) -> u64 {
        self.at
    }

    /// Where it ends.
    pub(crate) fn limit(&self) -> u64 {
        self.limit
    }

    /// More may be read than when it was made.
    pub(crate) fn extend(&mut self, limit: u64) {
        if limit > self.limit {
            self.limit = limit;
            // What was read beyond the old limit may have changed since.
            self.filled = 0;
        }
    }

    /// The group at [`at`](Self::at), which then moves behind it.
    pub(crate) fn next(&mut self) -> io::Result<Found<'_>> {
        if self.at >= self.limit {
            return Ok(Found::End);
        }
        self.read(BLOCK)?;
        let left = usize::try_from(self.limit - self.at).unwrap_or(usize::MAX);
        let Some(header) = self.header().filter(|header| header.length <= left) else {
            return Ok(Found::End);
        };
        self.read(header.length)?;
        let start = self.start();
        let available = (self.filled - start).min(header.length);
        let group = &self.buffer[start..start + available];
        if !header.body_is_intact(group) {
            return Ok(Found::End);
        }
        self.at += header.length as u64;
        Ok(Found::Group(header, group))
    }

    fn start(&self) -> usize {
        let Ok(start) = usize::try_from(self.at - self.base) else {
            unreachable!("the window holds it")
        };
        start
    }

    fn header(&self) -> Option<GroupHeader> {
        let bytes = self.buffer.get(self.start()..self.filled)?;
        let header = GroupHeader::decode(bytes)?;
        (header.salt == self.salt && header.segment == self.number).then_some(header)
    }

    /// Makes the buffer hold `len` bytes from `at` on, as far as the file has them.
    fn read(&mut self, len: usize) -> io::Result<()> {
        let end = self.base + self.filled as u64;
        if self.filled > 0 && self.at >= self.base && self.at + len as u64 <= end {
            return Ok(());
        }
        let left = usize::try_from(self.limit - self.at).unwrap_or(usize::MAX);
        let wanted = len.max(WINDOW).min(left).next_multiple_of(BLOCK).max(BLOCK);
        self.buffer.resize(wanted);
        self.filled = self.file.read_at(&mut self.buffer, self.at)?;
        self.base = self.at;
        Ok(())
    }
}
