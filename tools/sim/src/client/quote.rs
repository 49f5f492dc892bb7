//! Payloads that a log may take for its own: whole groups that lie in it, byte for byte.
//!
//! Owns: which group, and where in the payload, so that some of them begin on a block of the
//! segment again, where recovery looks for groups.

use std::fmt;
use std::sync::Arc;

use zzq_wal::disk::{BLOCK, Disk};
use zzq_wal::format::group::GroupHeader;
use zzq_wal::segment_number;
use zzq_wal::sim_disk::SimDisk;

use crate::chance::Chance;

/// The longest group that is quoted, in bytes.
const GROUP_MOST: usize = 32 * 1024;

/// Where the first record of a group has its payload at the latest.
const PAYLOAD_WITHIN: usize = 600;

/// What a payload quotes of the log.
#[derive(Clone, PartialEq, Eq)]
pub struct Quote {
    /// How many bytes of the payload stand before it.
    pub at: usize,
    /// The group.
    pub bytes: Arc<[u8]>,
}

impl fmt::Debug for Quote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Quote").field("at", &self.at).field("len", &self.bytes.len()).finish()
    }
}

impl Quote {
    /// One of the groups in the newest segment that has some.
    pub fn of(disk: &SimDisk, chance: &mut Chance) -> Option<Self> {
        let names = disk.list().ok()?;
        let mut segments = names.iter().filter(|(name, _)| segment_number(name).is_some()).rev();
        let (bytes, groups) = segments.find_map(|(name, _)| {
            let bytes = disk.bytes(name).ok()?;
            let groups = groups(&bytes);
            (!groups.is_empty()).then_some((bytes, groups))
        })?;
        let short: Vec<_> = groups.iter().filter(|(_, len)| *len <= GROUP_MOST).collect();
        if short.is_empty() {
            return None;
        }
        let &&(from, len) = chance.pick(&short);
        // If this is the first record of its group as well, the copy begins on a block.
        let payloads: Vec<_> =
            groups.iter().filter_map(|(at, len)| payload_at(&bytes[*at..at + len])).collect();
        let at = match chance.below(4) {
            0 => chance.index(BLOCK),
            _ if payloads.is_empty() => 0,
            _ => BLOCK - chance.pick(&payloads) % BLOCK,
        };
        Some(Self { at: at.max(HEAD), bytes: bytes[from..from + len].into() })
    }
}

/// Bytes of a payload that say which message it is of.
pub(super) const HEAD: usize = 9;

/// Groups of a segment, with their lengths.
fn groups(segment: &[u8]) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    let mut at = BLOCK;
    while let Some(block) = segment.get(at..at + BLOCK) {
        let header = GroupHeader::decode(block);
        let len = header.map_or(0, |header| header.length);
        if len > 0 && at + len <= segment.len() {
            found.push((at, len));
            at += len;
        } else {
            at += BLOCK;
        }
    }
    found
}

/// Where the first payload of a client begins in a group.
fn payload_at(group: &[u8]) -> Option<usize> {
    let front = &group[..group.len().min(PAYLOAD_WITHIN)];
    front
        .windows(HEAD)
        .position(|nine| nine[0] == b'#' && nine[1..].iter().all(u8::is_ascii_hexdigit))
}

/// Whether a group has the header of a group on a block within.
pub(crate) fn is_quoted_on_a_block(group: &[u8]) -> bool {
    let blocks = group.chunks_exact(BLOCK).skip(1);
    blocks.into_iter().any(|block| GroupHeader::decode(block).is_some())
}

#[cfg(test)]
mod tests {
    use zzq_wal::segment_name;

    use super::*;

    #[test]
    fn a_disk_without_groups_has_nothing_to_quote() {
        let disk = SimDisk::new();
        disk.insert(&segment_name(1), vec![0; 8 * BLOCK]);
        assert_eq!(Quote::of(&disk, &mut Chance::new(1, "quotes")), None);
    }

    #[test]
    fn a_payload_is_found_in_front_of_its_group_only() {
        let mut group = vec![0; 2 * BLOCK];
        group[150..159].copy_from_slice(b"#0000001f");
        assert_eq!(payload_at(&group), Some(150));
        assert_eq!(payload_at(&group[200..]), None);
        assert!(!is_quoted_on_a_block(&group));
    }
}
