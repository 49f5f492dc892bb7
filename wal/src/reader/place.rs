//! Reading single records again whose places are known: only the blocks that they lie in.
//!
//! Owns: `Places`. The record's own checksum is checked on each read, and that it lies where
//! records of its segment lie; a lease keeps the segment meanwhile. The group around it is not
//! looked at: it was when the place was learned, and what is durable in a segment is never written
//! again under its number.
//! Does not know: who remembers places.

use std::sync::Arc;

use super::{damage, disk_error};
use crate::disk::{BLOCK, Disk, DiskFile};
use crate::error::ReadError;
use crate::format::field::u32_at;
use crate::format::group;
use crate::format::record::{self, Flags, PART_MAX};
use crate::format::segment::GROUPS_AT;
use crate::io::IoBuffer;
use crate::log::Shared;
use crate::lsn::Lsn;
use crate::segment::{Lease, Segment};

/// Where a record lies that is not in parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RecordPlace {
    /// Number of the segment.
    pub segment: u64,
    /// Byte offset in it.
    pub offset: u64,
}

/// Reads records by their places, as far as they are committed and durable. It keeps the segment
/// that it was in last.
pub struct Places<D: Disk> {
    log: Arc<Shared<D>>,
    lease: Option<Lease<D::File>>,
    blocks: Blocks,
    /// Truncations when it was made.
    cuts: usize,
}

/// The blocks that were read last: near records lie in the same.
#[derive(Default)]
struct Blocks {
    buffer: IoBuffer,
    base: u64,
    /// Bytes read so far.
    read: u64,
}

/// A record, as it was staged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlacedRecord<'a> {
    /// As staged.
    pub kind: u8,
    /// As staged.
    pub flags: Flags,
    /// As staged.
    pub body: &'a [u8],
}

impl<D: Disk> Places<D> {
    pub(crate) fn new(log: Arc<Shared<D>>) -> Self {
        let cuts = log.cuts.count();
        Self { log, lease: None, blocks: Blocks::default(), cuts }
    }

    /// Bytes that were read from the disk so far.
    pub fn bytes_read(&self) -> u64 {
        self.blocks.read
    }

    /// The record `lsn`, which a [`Reader`](super::Reader) has found at this place.
    pub fn read(&mut self, lsn: Lsn, place: RecordPlace) -> Result<PlacedRecord<'_>, ReadError> {
        self.enter(lsn, place)?;
        let Some(lease) = &self.lease else { unreachable!("it was entered") };
        let segment = lease.segment();
        let damaged = |reason: &str| damage(segment, place.offset, lsn, reason.to_owned());
        let is_kept = segment.first_lsn().is_some_and(|first| first <= lsn);
        let last = segment.last_lsn().min(self.log.committed());
        if place.offset < FIRST_RECORD || !is_kept || lsn > last {
            return Err(damaged("this record cannot lie there"));
        }
        self.blocks.fill(segment, lsn, place.offset, record::HEADER_LEN)?;
        let length = index(u64::from(u32_at(self.blocks.at(place.offset), 4)));
        let whole = record::HEADER_LEN + length.min(PART_MAX);
        self.blocks.fill(segment, lsn, place.offset, whole)?;
        let split = record::split(self.blocks.at(place.offset));
        let (found, _) = split.map_err(|fault| damaged(&fault.to_string()))?;
        if found.flags.has(Flags::CONTINUES) || found.flags.has(Flags::MORE) {
            return Err(damaged("a part of a big record lies there"));
        }
        Ok(PlacedRecord { kind: found.kind, flags: found.flags, body: found.body })
    }

    /// Takes the lease of a segment.
    fn enter(&mut self, lsn: Lsn, place: RecordPlace) -> Result<(), ReadError> {
        let least = self.log.cuts.least_since(self.cuts);
        if let Some(last) = least.filter(|last| lsn > *last) {
            return Err(ReadError::Truncated { wanted: lsn, last });
        }
        let is_there = |segment: &Segment<D::File>| segment.header.number == place.segment;
        if self.lease.as_ref().is_some_and(|lease| is_there(lease.segment())) {
            return Ok(());
        }
        self.blocks.buffer.clear();
        self.lease = self.log.table.lease(|segment| is_there(segment));
        if self.lease.is_some() {
            return Ok(());
        }
        Err(ReadError::Trimmed { wanted: lsn, first: self.log.first_whole() })
    }
}

/// No record lies before this offset.
const FIRST_RECORD: u64 = GROUPS_AT + group::HEADER_LEN as u64;

impl Blocks {
    /// Makes the buffer hold so many bytes from an offset on.
    fn fill<F: DiskFile>(
        &mut self,
        segment: &Segment<F>,
        lsn: Lsn,
        offset: u64,
        len: usize,
    ) -> Result<(), ReadError> {
        let end = offset.saturating_add(len as u64);
        let behind = self.base + self.buffer.len() as u64;
        if (self.base..behind).contains(&offset) && end <= behind {
            return Ok(());
        }
        let at = offset / GROUPS_AT * GROUPS_AT;
        let short = |reason: &str| damage(segment, offset, lsn, reason.to_owned());
        if end > segment.end() {
            return Err(short("a record passes the end of its segment"));
        }
        self.base = at;
        self.buffer.resize(index(end - at).next_multiple_of(BLOCK));
        let read = segment.file.read_at(&mut self.buffer, at);
        let wanted = self.buffer.len();
        if !read.as_ref().is_ok_and(|read| *read == wanted) {
            // Nothing is known of what is in it.
            self.buffer.clear();
            read.map_err(|error| disk_error(segment, at, error))?;
            return Err(short("the file has become shorter"));
        }
        self.read += wanted as u64;
        Ok(())
    }

    /// The bytes from an offset on that was filled.
    fn at(&self, offset: u64) -> &[u8] {
        &self.buffer[index(offset - self.base)..]
    }
}

impl<D: Disk> std::fmt::Debug for Places<D> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Places").field("read", &self.blocks.read).finish_non_exhaustive()
    }
}

fn index(distance: u64) -> usize {
    usize::try_from(distance).unwrap_or(usize::MAX)
}
