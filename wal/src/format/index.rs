//! The index of a closed segment: one entry for each group, in front of the last block.
//!
//! Owns: its entries and the space it takes. Does not know: whether the segment is closed.
//!
//! ```text
//!  0   8  first LSN of the group
//!  8   8  log time in ms
//! 16   4  offset of the group in blocks of 4096 bytes
//! 20   4  records that it completes
//! ```

use super::field::{put, u32_at, u64_at};
use crate::disk::BLOCK;
use crate::lsn::Lsn;

/// Bytes of an entry.
pub const ENTRY_LEN: usize = 24;

/// Where a group lies and what it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// As in the group's header.
    pub first_lsn: Lsn,
    /// As in the group's header.
    pub time_ms: u64,
    /// Offset in blocks.
    pub block: u32,
    /// As in the group's header.
    pub records: u32,
}

/// Bytes that an index of `groups` entries and the last block take at the end of a segment.
pub fn reserve(groups: u64) -> u64 {
    let entries = groups * ENTRY_LEN as u64;
    entries.next_multiple_of(BLOCK as u64) + BLOCK as u64
}

/// Bytes of an index, without the last block.
pub fn len(groups: usize) -> usize {
    (groups * ENTRY_LEN).next_multiple_of(BLOCK)
}

/// Writes all entries to the front of `bytes`.
///
/// # Panics
/// If they are longer.
pub fn encode(entries: &[Entry], bytes: &mut [u8]) {
    assert!(entries.len() * ENTRY_LEN <= bytes.len());
    for (entry, bytes) in entries.iter().zip(bytes.chunks_exact_mut(ENTRY_LEN)) {
        put(bytes, 0, &entry.first_lsn.get().to_le_bytes());
        put(bytes, 8, &entry.time_ms.to_le_bytes());
        put(bytes, 16, &entry.block.to_le_bytes());
        put(bytes, 20, &entry.records.to_le_bytes());
    }
}

/// The entry at `position` of an index, if `bytes` reach that far.
pub fn decode(bytes: &[u8], position: usize) -> Option<Entry> {
    let start = position.checked_mul(ENTRY_LEN)?;
    let bytes = bytes.get(start..start.checked_add(ENTRY_LEN)?)?;
    Some(Entry {
        first_lsn: Lsn::new(u64_at(bytes, 0)),
        time_ms: u64_at(bytes, 8),
        block: u32_at(bytes, 16),
        records: u32_at(bytes, 20),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_read_back() {
        let entries: Vec<Entry> = (1..=200_u32)
            .map(|n| Entry {
                first_lsn: Lsn::new(u64::from(n) * 10),
                time_ms: u64::from(n),
                block: n,
                records: 10,
            })
            .collect();
        let mut bytes = vec![0; len(entries.len())];
        encode(&entries, &mut bytes);
        for (position, entry) in entries.iter().enumerate() {
            assert_eq!(decode(&bytes, position), Some(*entry));
        }
        assert_eq!(decode(&bytes, 100_000), None);
        assert_eq!(decode(&bytes, usize::MAX), None);
    }

    #[test]
    fn space_is_counted_in_blocks() {
        assert_eq!(reserve(0), 4096);
        assert_eq!(reserve(1), 8192);
        assert_eq!(reserve(170), 8192);
        assert_eq!(reserve(171), 3 * 4096);
        assert_eq!(len(171), 8192);
    }
}
