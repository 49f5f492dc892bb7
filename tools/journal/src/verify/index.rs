//! Whether the index of a closed segment names the groups that are there.
//!
//! Owns: what is told apart of one that does not: bytes that have changed, and a write that was cut
//! off before it was durable. Segments are closed one after the other, each index synced before the
//! next is written: so only the last one of a start can be cut off.

use std::collections::BTreeMap;

use zzq_wal::disk::DiskFile;
use zzq_wal::format::segment::{Closing, GROUPS_AT};
use zzq_wal::format::{checksum, index};
use zzq_wal::io::IoBuffer;

use super::Tallied;
use crate::report::Index;
use crate::survey::{SegmentFile, Survey};

/// Checks the index of each closed segment in which all groups are in order.
pub(super) fn check<F: DiskFile>(survey: &Survey<F>, tallied: &mut Tallied) {
    let mut closed = BTreeMap::new();
    for segment in survey.segments.iter().filter(|segment| segment.closing.is_some()) {
        if let Ok(header) = &segment.header {
            // They come by number.
            closed.insert(header.epoch, segment.number);
        }
    }
    for (nth, segment) in survey.segments.iter().enumerate() {
        let line = &mut tallied.segments[nth];
        let Some(closing) = segment.closing else { continue };
        // A break may have made void what a closing speaks of, and behind a stop nothing is sure.
        if line.groups == 0 || line.groups_behind > 0 || line.offset != Some(closing.end) {
            continue;
        }
        let is_last = closed.get(&line.epoch) == Some(&segment.number);
        match fault(segment, &closing, &tallied.entries[nth]) {
            None => line.index = Index::Good,
            Some(Fault { cut_off: true, .. }) if is_last => {
                line.index = Index::CutOff;
                tallied.cut_indexes.push(segment.name());
            }
            Some(Fault { what, .. }) => {
                line.index = Index::Bad;
                tallied.bad_indexes.push(format!("the index of {} {what}", segment.name()));
            }
        }
    }
}

/// What is wrong with an index.
struct Fault {
    what: &'static str,
    /// It is as a write leaves it that a crash cuts off.
    cut_off: bool,
}

impl From<&'static str> for Fault {
    fn from(what: &'static str) -> Self {
        Self { what, cut_off: false }
    }
}

fn fault<F: DiskFile>(
    segment: &SegmentFile<F>,
    closing: &Closing,
    groups: &[index::Entry],
) -> Option<Fault> {
    let header = segment.header.as_ref().ok()?;
    if closing.groups != groups.len() as u64 {
        return Some("counts other groups than there are".into());
    }
    let mut bytes = IoBuffer::new();
    bytes.resize(index::len(groups.len()));
    let last_block = header.length - GROUPS_AT;
    let Some(at) = last_block.checked_sub(bytes.len() as u64) else {
        return Some("has no room".into());
    };
    match segment.file.read_at(&mut bytes, at) {
        Ok(read) if read == bytes.len() => {}
        _ => return Some("cannot be read".into()),
    }
    if checksum(&bytes) != closing.index_checksum {
        let cut_off = is_cut_off(&bytes, closing, groups);
        return Some(Fault { what: "has changed: its checksum does not match its bytes", cut_off });
    }
    let mut entries = groups.iter().enumerate();
    let same = entries.all(|(nth, group)| index::decode(&bytes, nth).as_ref() == Some(group));
    (!same).then(|| "names other groups than there are".into())
}

/// What a device writes whole or not at all.
const SECTOR: usize = 512;

/// With so many bytes of a sector as they should be, or more, it was written.
const WRITTEN: usize = SECTOR - 16;

/// Whether sectors are missing of what was to be written, and all others are as they should be. A
/// sector that is nearly right was written, and has changed since.
fn is_cut_off(bytes: &[u8], closing: &Closing, groups: &[index::Entry]) -> bool {
    let mut whole = vec![0; bytes.len()];
    index::encode(groups, &mut whole);
    let mut sectors = bytes.chunks(SECTOR).zip(whole.chunks(SECTOR));
    checksum(&whole) == closing.index_checksum
        && sectors.all(|(found, wanted)| {
            let same = found.iter().zip(wanted).filter(|(found, wanted)| found == wanted).count();
            same == found.len() || same < WRITTEN || found.iter().all(|byte| *byte == 0)
        })
}
