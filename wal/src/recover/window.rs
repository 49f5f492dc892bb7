//! One window: a stretch of a segment as it was read, with every group in it found and checked.
//!
//! Owns: all that recovery and readers do with bytes before their order matters, so that any thread
//! can do it for any stretch. Does not know: which group should come next.

use std::io;

use crate::disk::{BLOCK, DiskFile};
use crate::format::group::GroupHeader;
use crate::format::record::{self, RecordFault};
use crate::format::segment::{GROUPS_AT, SegmentHeader};
use crate::io::IoBuffer;

/// Bytes of a window in recovery, which holds one for each thread and one more.
pub(crate) const WINDOW: usize = 1024 * 1024;

const _: () = assert!(WINDOW.is_multiple_of(BLOCK));

/// The part of a segment that may hold groups.
#[derive(Clone, Debug)]
pub(crate) struct Span<F> {
    file: F,
    salt: [u8; 16],
    number: u64,
    /// No group ends behind it.
    limit: u64,
}

/// Bytes of a segment from `base` on.
#[derive(Debug)]
pub(crate) struct Window {
    base: u64,
    /// Bytes that the file had: less than were wanted only where it ends early.
    filled: usize,
    buffer: IoBuffer,
    finds: Vec<Find>,
}

/// An intact header of this use of the file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Find {
    pub(crate) at: u64,
    pub(crate) header: GroupHeader,
    pub(crate) body: Body,
}

/// What follows the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Body {
    /// The bytes that were sealed; a fault in one of their records was sealed with them.
    Intact(Result<(), RecordFault>),
    /// Not what was sealed, or more than the segment can hold.
    Torn,
    /// It goes on in the next window.
    Cut,
}

impl<F: DiskFile> Span<F> {
    /// The groups of the segment in front of `limit`.
    pub(crate) fn new(file: F, header: &SegmentHeader, limit: u64) -> Self {
        Self { file, salt: header.salt, number: header.number, limit: limit.min(header.length) }
    }

    pub(crate) fn limit(&self) -> u64 {
        self.limit
    }

    /// More groups may have become durable than when it was made. A reader that meets a truncation
    /// begins anew.
    pub(crate) fn extend(&mut self, limit: u64) {
        self.limit = self.limit.max(limit);
    }

    /// Bytes that may be groups.
    pub(crate) fn bytes(&self) -> u64 {
        self.limit.saturating_sub(GROUPS_AT)
    }

    /// The window of `len` bytes that begins at `base`, shorter at the limit, in this memory.
    pub(crate) fn read(&self, base: u64, len: usize, mut buffer: IoBuffer) -> io::Result<Window> {
        assert!(base < self.limit && len > 0, "a window has bytes");
        let left = usize::try_from(self.limit - base).unwrap_or(usize::MAX);
        buffer.resize(left.min(len).next_multiple_of(BLOCK));
        let filled = self.file.read_at(&mut buffer, base)?;
        let mut window = Window { base, filled, buffer, finds: Vec::new() };
        window.search(self);
        Ok(window)
    }

    /// The header at the front of `bytes`, which lie at `at`, and what is known of its body.
    pub(crate) fn examine(&self, at: u64, bytes: &[u8], is_cut: bool) -> Option<Find> {
        let header = GroupHeader::decode(bytes)?;
        if header.salt != self.salt || header.segment != self.number {
            return None;
        }
        let body = if header.length as u64 > self.limit.saturating_sub(at) {
            Body::Torn
        } else if header.length > bytes.len() {
            if is_cut { Body::Cut } else { Body::Torn }
        } else if header.body_is_intact(bytes) {
            Body::Intact(check_records(header.records(bytes)))
        } else {
            Body::Torn
        };
        Some(Find { at, header, body })
    }

    /// The block in front is one of a group, if not an intact one: our salt is where it should be.
    pub(crate) fn is_torn_header(&self, bytes: &[u8]) -> bool {
        bytes.get(16..32).is_some_and(|salt| *salt == self.salt)
    }
}

impl Window {
    /// Looks at each block that does not lie within an intact group. Only this use of the file
    /// knows the salt, so that no payload passes for a header.
    fn search<F: DiskFile>(&mut self, span: &Span<F>) {
        let is_cut = self.goes_on(span);
        let mut start = 0;
        while start < self.filled {
            let at = self.base + start as u64;
            let Some(find) = span.examine(at, &self.buffer[start..self.filled], is_cut) else {
                start += BLOCK;
                continue;
            };
            start += match find.body {
                Body::Intact(_) => find.header.length,
                Body::Torn | Body::Cut => BLOCK,
            };
            self.finds.push(find);
        }
    }

    /// More of the segment follows in the next window.
    pub(crate) fn goes_on<F: DiskFile>(&self, span: &Span<F>) -> bool {
        self.filled == self.buffer.len() && self.end() < span.limit
    }

    /// Offset behind its bytes.
    pub(crate) fn end(&self) -> u64 {
        self.base + self.filled as u64
    }

    /// Whether it has the byte at `at`.
    pub(crate) fn holds(&self, at: u64) -> bool {
        self.base <= at && at < self.end()
    }

    /// Its bytes from `at` on.
    pub(crate) fn from(&self, at: u64) -> &[u8] {
        assert!(at >= self.base, "windows are read in order");
        let start = usize::try_from(at - self.base).unwrap_or(usize::MAX);
        self.buffer.get(start..self.filled).unwrap_or_default()
    }

    /// The header found at `at`.
    pub(crate) fn find(&self, at: u64) -> Option<Find> {
        let place = self.finds.binary_search_by_key(&at, |find| find.at).ok()?;
        Some(self.finds[place])
    }

    /// All headers from `at` on.
    pub(crate) fn finds_from(&self, at: u64) -> impl Iterator<Item = &Find> {
        self.finds.iter().filter(move |find| find.at >= at)
    }

    /// Its memory, for another one.
    pub(crate) fn into_buffer(self) -> IoBuffer {
        self.buffer
    }
}

/// Each record is what its producer sealed, and the records fill their place.
pub(crate) fn check_records(mut records: &[u8]) -> Result<(), RecordFault> {
    while !records.is_empty() {
        records = record::split(records)?.1;
    }
    Ok(())
}
