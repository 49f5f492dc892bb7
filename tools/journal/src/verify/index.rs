//! Whether the index of a closed segment names the groups that are there.

use zzq_wal::disk::DiskFile;
use zzq_wal::format::segment::{Closing, GROUPS_AT};
use zzq_wal::format::{checksum, index};
use zzq_wal::io::IoBuffer;

use super::Tallied;
use crate::report::Index;
use crate::survey::{SegmentFile, Survey};

/// Checks the index of each closed segment in which all groups are in order.
pub(super) fn check<F: DiskFile>(survey: &Survey<F>, tallied: &mut Tallied) {
    for (nth, segment) in survey.segments.iter().enumerate() {
        let line = &mut tallied.segments[nth];
        let Some(closing) = segment.closing else { continue };
        // A break may have made void what a closing speaks of, and behind a stop nothing is sure.
        if line.groups == 0 || line.groups_behind > 0 || line.offset != Some(closing.end) {
            continue;
        }
        match fault(segment, &closing, &tallied.entries[nth]) {
            None => line.index = Index::Good,
            Some(fault) => {
                line.index = Index::Bad;
                tallied.bad_indexes.push(format!("the index of {} {fault}", segment.name()));
            }
        }
    }
}

fn fault<F: DiskFile>(
    segment: &SegmentFile<F>,
    closing: &Closing,
    groups: &[index::Entry],
) -> Option<&'static str> {
    let header = segment.header.as_ref().ok()?;
    if closing.groups != groups.len() as u64 {
        return Some("counts other groups than there are");
    }
    let mut bytes = IoBuffer::new();
    bytes.resize(index::len(groups.len()));
    let last_block = header.length - GROUPS_AT;
    let Some(at) = last_block.checked_sub(bytes.len() as u64) else {
        return Some("has no room");
    };
    match segment.file.read_at(&mut bytes, at) {
        Ok(read) if read == bytes.len() => {}
        _ => return Some("cannot be read"),
    }
    if checksum(&bytes) != closing.index_checksum {
        return Some("has changed: its checksum does not match its bytes");
    }
    let mut entries = groups.iter().enumerate();
    let same = entries.all(|(nth, group)| index::decode(&bytes, nth).as_ref() == Some(group));
    (!same).then_some("names other groups than there are")
}
