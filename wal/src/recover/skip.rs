//! Passing over what the visitor does not want.
//!
//! Owns: which segments need not be read, because their ends are known without it.
//! Does not know: what is in them.

use std::sync::Arc;

use super::files::{FoundSegment, read_block};
use super::report::{End, SegmentReport};
use super::{Fold, note_break};
use crate::disk::{BLOCK, DiskFile};
use crate::error::OpenError;
use crate::format::group::{self, GroupHeader};
use crate::format::meta::FirstGroup;
use crate::format::segment::{Beginning, GROUPS_AT, LastGood};
use crate::segment::Segment;

impl<F: DiskFile> Fold<'_, '_, F> {
    /// Passes over segments of which the visitor wants nothing; returns where to begin.
    pub(super) fn skip(&mut self, live: &[&FoundSegment<F>]) -> Result<usize, OpenError> {
        let Some(start) = self.find_start(live)? else { return Ok(0) };
        for (segment, end) in live.iter().zip(&start.skipped) {
            let kept = Segment::new(segment.header, segment.file.clone());
            kept.note_durable(&end.first, &end.last);
            if let Some(groups) = end.indexed {
                kept.set_indexed(groups);
            }
            note_break(segment, &kept);
            self.segments.push(Arc::new(kept));
            let mut report =
                SegmentReport::new(segment.name(), segment.header.number, End::Skipped);
            report.last_lsn = end.last.lsn;
            self.recovery.segments.push(report);
            self.last = end.last;
        }
        Ok(start.skipped.len())
    }

    /// The term of the last group that was passed over: the newest one, where no group follows. All
    /// that is read is its header: nothing else that was passed over can keep a log from starting.
    pub(super) fn passed_term(&self) -> Result<u64, OpenError> {
        let Some(segment) = self.segments.last() else { return Ok(0) };
        let (end, longest) = (self.last.end, group::LEN_MAX as u64);
        let mut at = end;
        while at > end.saturating_sub(longest).max(GROUPS_AT) {
            at -= BLOCK as u64;
            let failed = OpenError::disk(format!("reading {} at byte {at}", segment.name()));
            let block = read_block(&segment.file, at).map_err(failed)?;
            let header = GroupHeader::decode(&*block);
            let is_last = |header: &GroupHeader| {
                at + header.length as u64 == end && LastGood::of(header, end) == self.last
            };
            if let Some(header) = header.filter(is_last) {
                return Ok(header.term);
            }
        }
        // It is damaged, and who reads it finds that out: whatever follows it now.
        Ok(0)
    }

    /// The longest front of segments that hold nothing the visitor wants, nor parts of it, and
    /// whose ends are known without reading them.
    fn find_start(&self, live: &[&FoundSegment<F>]) -> Result<Option<Start>, OpenError> {
        let mut ends: Vec<KnownEnd> = Vec::new();
        for pair in live.windows(2) {
            let Some(end) = known_end(pair[0], pair[1])? else { break };
            let begins = match ends.last() {
                None => self.begins(pair[0]),
                Some(before) => Some(behind(&before.last)),
            };
            // Another group may be in the place of its first. If so, reading it tells.
            let is_first = begins.is_none_or(|begins| FirstGroup::of(&end.first) == begins);
            if end.last.lsn >= self.options.visit_from || !is_first {
                break;
            }
            ends.push(end);
        }
        // What begins in a segment must not need parts from one that was passed over.
        while !ends.is_empty() {
            let first = first_header(live[ends.len()])?;
            let needed = first.and_then(|header| header.open).map(|place| place.segment);
            if needed.is_none_or(|needed| needed >= live[ends.len()].header.number) {
                return Ok(Some(Start { skipped: ends }));
            }
            ends.pop();
        }
        Ok(None)
    }

    /// What the first segment begins with, if it is known.
    fn begins(&self, first: &FoundSegment<F>) -> Option<FirstGroup> {
        match first.header.beginning {
            Beginning::Break => Some(behind(&first.header.last_good)),
            Beginning::Roll => self.first_group,
        }
    }
}

fn behind(last: &LastGood) -> FirstGroup {
    FirstGroup { number: last.group + 1, first_lsn: last.lsn.next() }
}

/// Segments passed over.
struct Start {
    skipped: Vec<KnownEnd>,
}

/// The end of a segment that was not read.
struct KnownEnd {
    /// The header of its first group.
    first: GroupHeader,
    last: LastGood,
    /// Groups in its index.
    indexed: Option<u64>,
}

/// The end of `segment` as its closing, or a break behind it, tells.
fn known_end<F: DiskFile>(
    segment: &FoundSegment<F>,
    next: &FoundSegment<F>,
) -> Result<Option<KnownEnd>, OpenError> {
    let closing = segment.closing;
    let good = next.header.last_good;
    let last = match (&closing, next.header.beginning) {
        (_, Beginning::Break) if may_end_at(segment, good) => good,
        (Some(closing), Beginning::Roll) => closing.last,
        _ => return Ok(None),
    };
    let Some(first) = first_header(segment)? else { return Ok(None) };
    let indexed = closing.filter(|closing| closing.last == last).map(|closing| closing.groups);
    Ok(Some(KnownEnd { first, last, indexed }))
}

/// Whether a group of the segment may end where the header behind it says so. If not, reading the
/// segment tells what is wrong.
fn may_end_at<F>(segment: &FoundSegment<F>, good: LastGood) -> bool {
    good.segment == segment.header.number
        && (GROUPS_AT + 1..=segment.header.length).contains(&good.end)
        && good.end.is_multiple_of(GROUPS_AT)
}

/// The header of a segment's first group; its body is not looked at.
pub(super) fn first_header<F: DiskFile>(
    segment: &FoundSegment<F>,
) -> Result<Option<GroupHeader>, OpenError> {
    let failed = OpenError::disk(format!("reading {} at byte {GROUPS_AT}", segment.name()));
    let block = read_block(&segment.file, GROUPS_AT).map_err(failed)?;
    let ours = |header: &GroupHeader| {
        header.salt == segment.header.salt && header.segment == segment.header.number
    };
    Ok(GroupHeader::decode(&*block).filter(ours))
}
