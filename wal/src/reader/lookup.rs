//! Finding one record in a closed segment by a page or two of its index.
//!
//! Owns: the search. What it finds is a hint: a group counts by its own checksums, and by its LSNs.
//! Does not know: leases, what a record is.
//!
//! LSNs grow nearly evenly along a segment, so the first page that is looked at is a guess from
//! the two ends; every second further one halves what is left, so that no distribution of record
//! sizes makes the search long.

use std::io;

use crate::disk::DiskFile;
use crate::format::index::{self, ENTRY_LEN, Entry};
use crate::format::segment::GROUPS_AT;
use crate::io::IoBuffer;
use crate::lsn::Lsn;
use crate::segment::Segment;

/// Where to begin reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hint {
    /// Offset of a group that is not behind the wanted one.
    pub(crate) at: u64,
    /// Its length, where that is known: then it is the wanted one.
    pub(crate) len: Option<usize>,
}

/// What is left of the index: `low` may be the wanted group, `high` is behind it.
struct Range {
    low: u64,
    high: u64,
    low_lsn: Lsn,
    high_lsn: Lsn,
    /// Blocks in front of the groups `low` and `high`, where known.
    low_block: Option<u32>,
    high_block: Option<u32>,
}

/// Where the group with `wanted`, which the segment holds, is or is near.
pub(crate) fn find<F: DiskFile>(segment: &Segment<F>, wanted: Lsn) -> io::Result<Hint> {
    let groups = segment.indexed_groups();
    let nothing = Hint { at: segment.near(wanted), len: None };
    let (Some(first), Ok(count)) = (segment.first_lsn(), usize::try_from(groups)) else {
        return Ok(nothing);
    };
    let index_at = (segment.header.length - GROUPS_AT).checked_sub(index::len(count) as u64);
    let Some(index_at) = index_at.filter(|at| groups > 0 && *at >= segment.end()) else {
        return Ok(nothing);
    };
    let mut range = Range {
        low: 0,
        high: groups,
        low_lsn: first,
        high_lsn: segment.last_lsn().next(),
        low_block: Some(1),
        high_block: u32::try_from(segment.end() / GROUPS_AT).ok(),
    };
    let mut halve = false;
    while range.high - range.low > 1 {
        let guess = if halve { range.middle() } else { range.guess(wanted) };
        let (page, pages) = pages_of(guess);
        let mut bytes = IoBuffer::with_blocks(pages);
        let read = segment.file.read_at(&mut bytes, index_at + page * GROUPS_AT)?;
        bytes.truncate(read);
        // What was asked for lies between the ends: only an index that was cut short says nothing.
        if !range.narrow(page, &bytes, wanted) {
            break;
        }
        halve = !halve;
    }
    Ok(range.hint(segment.end()).unwrap_or(nothing))
}

impl Range {
    /// Where the wanted entry is if LSNs grow evenly; not `low`, of which all is known.
    fn guess(&self, wanted: Lsn) -> u64 {
        let part = u128::from(wanted.get().saturating_sub(self.low_lsn.get()));
        let whole = u128::from(self.high_lsn.get().saturating_sub(self.low_lsn.get()).max(1));
        let share = part * u128::from(self.high - self.low) / whole;
        let share = u64::try_from(share).unwrap_or(u64::MAX);
        self.low.saturating_add(share).clamp(self.low + 1, self.high - 1)
    }

    fn middle(&self) -> u64 {
        self.low.midpoint(self.high)
    }

    /// Makes it smaller by the entries that lie whole in `bytes`, which begin with a page of the
    /// index; false if it cannot.
    fn narrow(&mut self, page: u64, bytes: &[u8], wanted: Lsn) -> bool {
        let (start, entry_len) = (page * GROUPS_AT, ENTRY_LEN as u64);
        let from = start.div_ceil(entry_len).max(self.low);
        let to = ((start + bytes.len() as u64) / entry_len).min(self.high);
        let (old_low, old_high) = (self.low, self.high);
        for position in from..to {
            let Some(entry) = entry_in(bytes, position * entry_len - start) else { break };
            if entry.first_lsn > wanted {
                (self.high, self.high_lsn) = (position, entry.first_lsn);
                self.high_block = Some(entry.block);
                break;
            }
            // Groups with parts only have the first LSN of the one that completes the record: the
            // last of them is right, as it is the one with the record.
            (self.low, self.low_lsn) = (position, entry.first_lsn);
            self.low_block = Some(entry.block);
        }
        self.low > old_low || self.high < old_high
    }

    fn hint(&self, end: u64) -> Option<Hint> {
        let offset = |block: u32| u64::from(block) * GROUPS_AT;
        let at = self.low_block.map(offset).filter(|at| (GROUPS_AT..end).contains(at))?;
        let found = self.high - self.low <= 1;
        let behind = self.high_block.map(offset).filter(|behind| found && *behind > at);
        let len = behind.and_then(|behind| usize::try_from(behind.min(end) - at).ok());
        Some(Hint { at, len })
    }
}

fn entry_in(bytes: &[u8], at: u64) -> Option<Entry> {
    index::decode(bytes.get(usize::try_from(at).ok()?..)?, 0)
}

/// The page in which an entry begins, and how many pages it lies in.
fn pages_of(position: u64) -> (u64, usize) {
    let start = position * ENTRY_LEN as u64;
    let page = start / GROUPS_AT;
    let is_cut = (start + ENTRY_LEN as u64 - 1) / GROUPS_AT > page;
    (page, if is_cut { 2 } else { 1 })
}
