//! The last block: where the sections are, and checksums that fix every byte before it.
//!
//! ```text
//!   0   8  magic, ASCII "ZQ-IMEND" or "ZQ-COEND"
//!   8   4  checksum: CRC-32 of bytes 12 .. 4096
//!  12   4  format version
//!  16   4  checksum of the first block
//!  20   4  number of sections, at most 84
//!  24   8  length of the file, a multiple of 4096
//!  32   8  offset where the nodes end; zeroes from there to this block
//!  40   8  number of nodes
//!  48   4  chain: 0, and for each node in order the CRC-32 of the chain before and its checksum
//!  52  12  zero
//!  64  48  each: a section
//! ```
//!
//! A section:
//!
//! ```text
//!   0   2  section
//!   2   1  levels of its tree
//!   3   1  zero
//!   4   4  checksum of its root
//!   8   8  offset of its first node
//!  16   8  offset of its root, its last node
//!  24   4  length of its root
//!  28   4  zero
//!  32   8  entries
//!  40   8  bytes of keys and values
//! ```

use zzq_wal::disk::BLOCK;
use zzq_wal::format::checksum;
use zzq_wal::format::field::{put, u16_at, u32_at, u64_at};

use super::heading::Kind;
use super::node::{Child, LEVELS_MAX, NODE_HEADER};
use super::{Fault, OUTER, check_block, seal_block};

const SECTIONS_AT: usize = 64;
const SECTION_LEN: usize = 48;

/// How many sections a file may have.
pub(crate) const SECTIONS_MAX: usize = (BLOCK - SECTIONS_AT) / SECTION_LEN;

const _: () = assert!(SECTIONS_MAX == 84);

/// What the last block says of a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SectionEntry {
    /// Which.
    pub section: u16,
    /// How many entries it has.
    pub entries: u64,
    /// Bytes of their keys and values.
    pub bytes: u64,
    /// Offset of its first node.
    pub(crate) start: u64,
    pub(crate) root: Child,
    /// Levels of its tree; 1: its root is a leaf.
    pub(crate) levels: u8,
}

/// What the last block says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Footer {
    pub(crate) heading_checksum: u32,
    /// Length of the file.
    pub(crate) length: u64,
    /// Where nodes end.
    pub(crate) end: u64,
    pub(crate) nodes: u64,
    pub(crate) chain: u32,
    /// Ascending.
    pub(crate) sections: Vec<SectionEntry>,
}

/// The chain behind one more node.
pub(crate) fn chained(chain: u32, node: u32) -> u32 {
    let mut both = [0; 8];
    put(&mut both, 0, &chain.to_le_bytes());
    put(&mut both, 4, &node.to_le_bytes());
    checksum(&both)
}

impl Footer {
    pub(crate) fn encode(&self, kind: Kind, block: &mut [u8]) {
        assert!(self.sections.len() <= SECTIONS_MAX, "sections fit their block");
        block.fill(0);
        put(block, 16, &self.heading_checksum.to_le_bytes());
        let Ok(count) = u32::try_from(self.sections.len()) else { unreachable!("84 fits") };
        put(block, 20, &count.to_le_bytes());
        put(block, 24, &self.length.to_le_bytes());
        put(block, 32, &self.end.to_le_bytes());
        put(block, 40, &self.nodes.to_le_bytes());
        put(block, 48, &self.chain.to_le_bytes());
        let places = block[SECTIONS_AT..].chunks_exact_mut(SECTION_LEN);
        for (section, bytes) in self.sections.iter().zip(places) {
            put(bytes, 0, &section.section.to_le_bytes());
            put(bytes, 2, &[section.levels]);
            put(bytes, 4, &section.root.checksum.to_le_bytes());
            put(bytes, 8, &section.start.to_le_bytes());
            put(bytes, 16, &section.root.offset.to_le_bytes());
            put(bytes, 24, &section.root.length.to_le_bytes());
            put(bytes, 32, &section.entries.to_le_bytes());
            put(bytes, 40, &section.bytes.to_le_bytes());
        }
        seal_block(block, kind.end_magic());
    }

    pub(crate) fn decode(kind: Kind, block: &[u8; BLOCK]) -> Result<Self, Fault> {
        check_block(block, kind.end_magic())?;
        let count = usize::try_from(u32_at(block, 20)).unwrap_or(usize::MAX);
        if count > SECTIONS_MAX {
            return Err(Fault::Senseless("more sections than fit"));
        }
        let section = |bytes: &[u8]| SectionEntry {
            section: u16_at(bytes, 0),
            levels: bytes[2],
            start: u64_at(bytes, 8),
            root: Child {
                offset: u64_at(bytes, 16),
                length: u32_at(bytes, 24),
                checksum: u32_at(bytes, 4),
            },
            entries: u64_at(bytes, 32),
            bytes: u64_at(bytes, 40),
        };
        let footer = Self {
            heading_checksum: u32_at(block, 16),
            length: u64_at(block, 24),
            end: u64_at(block, 32),
            nodes: u64_at(block, 40),
            chain: u32_at(block, 48),
            sections: block[SECTIONS_AT..]
                .chunks_exact(SECTION_LEN)
                .take(count)
                .map(section)
                .collect(),
        };
        footer.check()?;
        Ok(footer)
    }

    /// Sections ascend and lie one behind another, from the first block to where nodes end.
    fn check(&self) -> Result<(), Fault> {
        if !self.sections.is_sorted_by(|one, next| one.section < next.section) {
            return Err(Fault::Senseless("sections that do not ascend"));
        }
        let length =
            self.end.checked_next_multiple_of(OUTER).and_then(|end| end.checked_add(OUTER));
        if length != Some(self.length) {
            return Err(Fault::Senseless("nodes that do not end in front of it"));
        }
        let mut at = OUTER;
        for section in &self.sections {
            let root = &section.root;
            let fits = section.start == at
                && root.offset >= at
                && usize::try_from(root.length).is_ok_and(|length| length >= NODE_HEADER)
                && (1..=LEVELS_MAX).contains(&section.levels);
            let behind = root.offset.checked_add(u64::from(root.length));
            let Some(behind) = behind.filter(|_| fits) else {
                return Err(Fault::Senseless("a section that lies nowhere"));
            };
            at = behind;
        }
        if at == self.end { Ok(()) } else { Err(Fault::Senseless("nodes of no section")) }
    }

    /// What it says of a section; `None`: it has no entries.
    pub(crate) fn section(&self, section: u16) -> Option<&SectionEntry> {
        let at = self.sections.binary_search_by_key(&section, |entry| entry.section).ok()?;
        self.sections.get(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Footer {
        let root = Child { offset: 5000, length: 60, checksum: 77 };
        let one = SectionEntry { section: 3, entries: 9, bytes: 100, start: 4096, root, levels: 2 };
        let two = SectionEntry {
            section: 9,
            start: 5060,
            root: Child { offset: 5060, ..root },
            levels: 1,
            ..one
        };
        Footer {
            heading_checksum: 12,
            length: 12_288,
            end: 5120,
            nodes: 4,
            chain: 8,
            sections: vec![one, two],
        }
    }

    #[test]
    fn a_footer_is_read_back_and_finds_its_sections() {
        for kind in [Kind::Image, Kind::Cold] {
            let mut block = [0; BLOCK];
            sample().encode(kind, &mut block);
            assert_eq!(Footer::decode(kind, &block), Ok(sample()));
        }
        assert_eq!(sample().section(9).map(|found| found.start), Some(5060));
        assert_eq!(sample().section(4), None);
    }

    #[test]
    fn sections_that_do_not_fit_together_are_refused() {
        let changes: [fn(&mut Footer); 8] = [
            |footer| footer.sections.swap(0, 1),
            |footer| footer.length += 4096,
            |footer| footer.end = u64::MAX,
            |footer| footer.sections[1].start += 1,
            |footer| footer.sections[0].root.length = 39,
            |footer| footer.sections[1].root.offset = u64::MAX,
            |footer| footer.sections[0].levels = 0,
            |footer| footer.sections.truncate(1),
        ];
        for (at, change) in changes.into_iter().enumerate() {
            let mut footer = sample();
            change(&mut footer);
            let mut block = [0; BLOCK];
            footer.encode(Kind::Image, &mut block);
            let outcome = Footer::decode(Kind::Image, &block);
            assert!(matches!(outcome, Err(Fault::Senseless(_))), "{at}: {outcome:?}");
        }
    }
}
