//! At a start: what can be read, and nothing proves to be durable, is written anew.
//!
//! Owns: the move of the last groups of an ended process to a segment of their own. Their write may
//! have been reported as failed to that process, and a flush that succeeds later says nothing of
//! it: whoever goes on behind them must have written them itself.
//! Does not know: which groups are proven.

use std::io;
use std::sync::Arc;

use crate::disk::{Disk, DiskFile};
use crate::error::OpenError;
use crate::format::group::GroupHeader;
use crate::format::segment::{Beginning, GROUPS_AT, LENGTH_MIN, LastGood, SegmentHeader};
use crate::io::IoBuffer;
use crate::log::maker::{Maker, Purpose};
use crate::log::moving::Moves;
use crate::recover::{FoundGroup, Renewed};
use crate::rules::{self, Rule};
use crate::segment::Segment;

type Segments<F> = Vec<Arc<Segment<F>>>;

/// Moves `groups`, the last ones of a log that ends with `last`, to a segment that breaks in front
/// of them, and tells where the log ends then. It is of their own epoch: parts of big records may
/// lie before them. Until it has its name, what is there is as it was.
pub(crate) fn renew<D: Disk>(
    maker: &mut Maker<D>,
    segments: &mut Segments<D::File>,
    groups: &[FoundGroup],
    last: LastGood,
) -> Result<(LastGood, Option<Renewed>), OpenError> {
    let [first, ..] = groups else { return Ok((last, None)) };
    if !rules::holds(Rule::NotInPlace) {
        return write_over(segments, groups).map(|()| (last, None));
    }
    let before = first.before;
    let (bytes, epoch) = read(segments, groups)?;
    let length = (2 * GROUPS_AT + bytes.len() as u64).max(LENGTH_MIN);
    let older = segments.iter().find(|kept| kept.header.number == before.segment);
    let salt = older.map_or_else(Default::default, |kept| kept.header.salt);
    let continues = (before.segment, salt);
    let purpose = Purpose { beginning: Beginning::Break, continues, last_good: before, length };
    let mut placed = Vec::new();
    let made = maker.make_with(&purpose, epoch, |header| seal(header, groups, bytes, &mut placed));
    let made = made.map_err(io::Error::from);
    let made = made.map_err(OpenError::disk("making a segment for the last groups"))?;
    let mut last = before;
    for (header, end) in placed {
        last = LastGood::of(&header, end);
        made.note_durable(&header, &last);
    }
    drop_void(segments, &before);
    let renewed = Renewed {
        file: made.name(),
        groups: groups.len(),
        first: before.lsn.next(),
        last: last.lsn,
    };
    segments.push(made);
    Ok((last, Some(renewed)))
}

/// What the rule forbids: the log is cut where the proven groups end, and what stood behind them is
/// written there again.
fn write_over<F: DiskFile>(segments: &Segments<F>, groups: &[FoundGroup]) -> Result<(), OpenError> {
    let (bytes, _) = read(segments, groups)?;
    for is_cut in [true, false] {
        let mut rest = &bytes[..];
        for group in groups {
            let (own, behind) = rest.split_at(group.header.length);
            let mut buffer = IoBuffer::new();
            buffer.resize(own.len());
            if !is_cut {
                buffer.copy_from_slice(own);
            }
            let segment = segment_of(segments, group);
            let (file, name) = (&segment.file, segment.name());
            let written = file.write_at(&buffer, group.at).and_then(|()| file.sync());
            let failed = OpenError::disk(format!("writing {name} at byte {}", group.at));
            written.map_err(failed)?;
            rest = behind;
        }
    }
    Ok(())
}

/// The bytes of all the groups, one behind the other, and the epoch that they are of.
fn read<F: DiskFile>(
    segments: &Segments<F>,
    groups: &[FoundGroup],
) -> Result<(IoBuffer, u64), OpenError> {
    let (mut bytes, mut epoch) = (IoBuffer::new(), 0);
    for group in groups {
        let FoundGroup { at, header, .. } = group;
        let segment = segment_of(segments, group);
        assert!(epoch == 0 || epoch == segment.header.epoch, "a new epoch proves the one before");
        epoch = segment.header.epoch;
        let mut buffer = IoBuffer::new();
        buffer.resize(header.length);
        let read = segment.file.read_at(&mut buffer, *at);
        let same = |_: &usize| {
            GroupHeader::decode(&buffer) == Some(*header) && header.body_is_intact(&buffer)
        };
        let failed = OpenError::disk(format!("reading {} at byte {at} again", segment.name()));
        let read = read.and_then(|read| same(&read).then_some(read).ok_or_else(other_bytes));
        read.map_err(failed)?;
        bytes.extend_from_slice(&buffer);
    }
    Ok((bytes, epoch))
}

fn segment_of<'s, F>(segments: &'s Segments<F>, group: &FoundGroup) -> &'s Segment<F> {
    let holds = |kept: &&Arc<Segment<F>>| kept.header.number == group.header.segment;
    let Some(segment) = segments.iter().find(holds) else {
        unreachable!("its groups were read from it")
    };
    segment
}

fn other_bytes() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "it shows other bytes than a moment ago")
}

/// Fits the groups to their new places, which `placed` tells with the offsets behind them.
fn seal(
    segment: &SegmentHeader,
    groups: &[FoundGroup],
    mut bytes: IoBuffer,
    placed: &mut Vec<(GroupHeader, u64)>,
) -> IoBuffer {
    let before = groups[0].before;
    let (mut rest, mut at, mut previous) = (&mut bytes[..], GROUPS_AT, before.checksum);
    let mut moves = Moves::to(segment, before.lsn);
    for group in groups {
        let (own, behind) = rest.split_at_mut(group.header.length);
        let mut header = group.header;
        moves.seal(&mut header, (group.at, at), previous, own);
        at += header.length as u64;
        previous = header.checksum;
        placed.push((header, at));
        rest = behind;
    }
    bytes
}

/// What lies behind `before` in older segments is void from now on.
fn drop_void<F>(segments: &mut Segments<F>, before: &LastGood) {
    segments.retain(|kept| kept.header.number <= before.segment);
    if let Some(older) = segments.last()
        && older.header.number == before.segment
        && older.end() > before.end
    {
        older.cut(before.lsn, before.end);
    }
}
