//! Nodes: the leaves of a section hold its entries, branches above them say which leaf has which
//! keys.
//!
//! ```text
//!   0   4  magic, ASCII "ZQND"
//!   4   4  checksum: CRC-32 of bytes 8 .. length
//!   8   4  length of the node
//!  12   2  section
//!  14   1  level: 0 a leaf
//!  15   1  zero
//!  16   8  number of the file
//!  24   8  number of the node in its file, from 0
//!  32   4  entries
//!  36   4  zero
//!  40      entries
//! ```
//!
//! An entry is three lengths (LEB128): bytes that its key shares with the key before it in this
//! node, bytes of the key behind these, bytes of the value; then these bytes. The value in a
//! branch is a child: its offset (8), length (4) and checksum (4); the key is the child's first.

use zzq_wal::format::checksum;
use zzq_wal::format::field::{put, u16_at, u32_at, u64_at};

use super::int;

pub(crate) const NODE_HEADER: usize = 40;
const MAGIC: [u8; 4] = *b"ZQND";
const CHILD_LEN: usize = 16;

/// More levels than any file has: a branch but the last of its level has two children or more.
pub(crate) const LEVELS_MAX: u8 = 64;

/// The longest key together with its value: half of what the length of a node can say.
pub(crate) const ENTRY_MAX: usize = 1 << 31;

/// Where a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Child {
    pub(crate) offset: u64,
    pub(crate) length: u32,
    pub(crate) checksum: u32,
}

impl Child {
    pub(crate) fn encode(&self) -> [u8; CHILD_LEN] {
        let mut bytes = [0; CHILD_LEN];
        put(&mut bytes, 0, &self.offset.to_le_bytes());
        put(&mut bytes, 8, &self.length.to_le_bytes());
        put(&mut bytes, 12, &self.checksum.to_le_bytes());
        bytes
    }

    /// Reads the value of an entry of a branch.
    pub(crate) fn decode(value: &[u8]) -> Option<Self> {
        let child = Self {
            offset: u64_at(value.get(..CHILD_LEN)?, 0),
            length: u32_at(value, 8),
            checksum: u32_at(value, 12),
        };
        (value.len() == CHILD_LEN).then_some(child)
    }

    /// The offset behind it, if that is a number.
    pub(crate) fn end(&self) -> Option<u64> {
        self.offset.checked_add(u64::from(self.length))
    }
}

/// The head of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NodeHeader {
    pub(crate) checksum: u32,
    pub(crate) length: u32,
    pub(crate) section: u16,
    pub(crate) level: u8,
    /// Number of the file.
    pub(crate) file: u64,
    /// Number of the node.
    pub(crate) number: u64,
    pub(crate) entries: u32,
}

impl NodeHeader {
    /// Reads the head, whose fields nothing has proved yet.
    pub(crate) fn decode(bytes: &[u8; NODE_HEADER]) -> Result<Self, &'static str> {
        if bytes[..4] != MAGIC {
            return Err("no node begins here");
        }
        let header = Self {
            checksum: u32_at(bytes, 4),
            length: u32_at(bytes, 8),
            section: u16_at(bytes, 12),
            level: bytes[14],
            file: u64_at(bytes, 16),
            number: u64_at(bytes, 24),
            entries: u32_at(bytes, 32),
        };
        let fits = usize::try_from(header.length).is_ok_and(|length| length >= NODE_HEADER);
        if fits { Ok(header) } else { Err("a node that is shorter than its head") }
    }

    /// What a branch says of it.
    pub(crate) const fn as_child(&self, offset: u64) -> Child {
        Child { offset, length: self.length, checksum: self.checksum }
    }
}

/// Whether all bytes of a node are what was written.
pub(crate) fn is_intact(header: &NodeHeader, node: &[u8]) -> bool {
    usize::try_from(header.length) == Ok(node.len()) && checksum(&node[8..]) == header.checksum
}

/// A node that is being filled.
#[derive(Debug)]
pub(crate) struct NodeBuf {
    bytes: Vec<u8>,
    entries: u32,
    first: Vec<u8>,
    last: Vec<u8>,
}

impl NodeBuf {
    pub(crate) fn new() -> Self {
        Self { bytes: vec![0; NODE_HEADER], entries: 0, first: Vec::new(), last: Vec::new() }
    }

    pub(crate) fn entries(&self) -> u32 {
        self.entries
    }

    /// The key of its first entry.
    pub(crate) fn first(&self) -> &[u8] {
        &self.first
    }

    /// How long it would be with this entry in it.
    pub(crate) fn len_with(&self, key: &[u8], value: &[u8]) -> usize {
        let shared = self.shared(key);
        let lengths = [shared, key.len() - shared, value.len()];
        let heads: usize = lengths.into_iter().map(|length| int::len(length_of(length))).sum();
        self.bytes.len() + heads + key.len() - shared + value.len()
    }

    pub(crate) fn push(&mut self, key: &[u8], value: &[u8]) {
        let shared = self.shared(key);
        for length in [shared, key.len() - shared, value.len()] {
            int::put(&mut self.bytes, length_of(length));
        }
        self.bytes.extend_from_slice(&key[shared..]);
        self.bytes.extend_from_slice(value);
        if self.entries == 0 {
            self.first.extend_from_slice(key);
        }
        self.last.truncate(shared);
        self.last.extend_from_slice(&key[shared..]);
        self.entries += 1;
    }

    /// Writes the head over the entries; returns the node's bytes and its checksum.
    pub(crate) fn seal(&mut self, section: u16, level: u8, file: u64, number: u64) -> (&[u8], u32) {
        let length = length_of(self.bytes.len());
        let bytes = &mut self.bytes[..];
        put(bytes, 0, &MAGIC);
        put(bytes, 8, &length.to_le_bytes());
        put(bytes, 12, &section.to_le_bytes());
        put(bytes, 14, &[level, 0]);
        put(bytes, 16, &file.to_le_bytes());
        put(bytes, 24, &number.to_le_bytes());
        put(bytes, 32, &self.entries.to_le_bytes());
        put(bytes, 36, &[0; 4]);
        let sum = checksum(&bytes[8..]);
        put(bytes, 4, &sum.to_le_bytes());
        (&self.bytes, sum)
    }

    /// Empties it; its memory stays, unless one huge entry has stretched it.
    pub(crate) fn clear(&mut self, keep: usize) {
        self.bytes.truncate(NODE_HEADER);
        self.bytes.shrink_to(keep);
        self.entries = 0;
        self.first.clear();
        self.last.clear();
    }

    fn shared(&self, key: &[u8]) -> usize {
        if self.entries == 0 {
            return 0;
        }
        self.last.iter().zip(key).take_while(|(one, other)| one == other).count()
    }
}

fn length_of(length: usize) -> u32 {
    let length = u32::try_from(length);
    assert!(length.is_ok(), "an entry is within its bound");
    length.unwrap_or(u32::MAX)
}

/// Where reading is in the entries of an intact node.
#[derive(Clone, Debug, Default)]
pub(crate) struct Steps {
    at: usize,
    left: u32,
    key: Vec<u8>,
    value: (usize, usize),
}

impl Steps {
    /// In front of the first entry.
    pub(crate) fn begin(&mut self, header: &NodeHeader) {
        self.at = NODE_HEADER;
        self.left = header.entries;
        self.key.clear();
        self.value = (0, 0);
    }

    /// Goes to the next entry; `false` behind the last. Keys within a node ascend.
    pub(crate) fn step(&mut self, node: &[u8]) -> Result<bool, &'static str> {
        const ENTRY: &str = "an entry that does not fit its node";
        if self.left == 0 {
            return if self.at == node.len() { Ok(false) } else { Err("bytes behind its entries") };
        }
        let is_first = self.at == NODE_HEADER;
        let mut rest = node.get(self.at..).ok_or(ENTRY)?;
        let mut length = || int::take(&mut rest).and_then(|length| usize::try_from(length).ok());
        let lengths = (length(), length(), length());
        let (Some(shared), Some(own), Some(value)) = lengths else { return Err(ENTRY) };
        let whole = own.checked_add(value).filter(|whole| *whole <= rest.len());
        if shared > self.key.len() || (is_first && shared > 0) || whole.is_none() {
            return Err(ENTRY);
        }
        let (tail, behind) = rest.split_at(own);
        if !is_first && tail <= &self.key[shared..] {
            return Err("keys that do not ascend");
        }
        self.key.truncate(shared);
        self.key.extend_from_slice(tail);
        let start = node.len() - behind.len();
        self.value = (start, start + value);
        self.at = start + value;
        self.left -= 1;
        Ok(true)
    }

    pub(crate) fn key(&self) -> &[u8] {
        &self.key
    }

    /// The value of the entry in the node that [`step`](Self::step) was called with.
    pub(crate) fn value<'n>(&self, node: &'n [u8]) -> &'n [u8] {
        &node[self.value.0..self.value.1]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

    fn read(node: &[u8]) -> Result<Pairs, &'static str> {
        let header = NodeHeader::decode(node.first_chunk().ok_or("short")?)?;
        let mut steps = Steps::default();
        steps.begin(&header);
        let mut entries = Vec::new();
        while steps.step(node)? {
            entries.push((steps.key().to_vec(), steps.value(node).to_vec()));
        }
        Ok(entries)
    }

    #[test]
    fn a_first_key_may_be_empty_and_none_stands_twice() {
        let mut node = NodeBuf::new();
        node.push(b"", b"x");
        node.push(b"a", b"");
        let (bytes, _) = node.seal(1, 0, 1, 0);
        assert_eq!(read(bytes).unwrap(), [(vec![], vec![b'x']), (vec![b'a'], vec![])]);
        node.push(b"a", b"");
        let (bytes, _) = node.seal(1, 0, 1, 0);
        assert_eq!(read(bytes), Err("keys that do not ascend"));
    }

    proptest! {
        #[test]
        fn entries_are_read_back_and_their_length_is_foreseen(
            entries in prop::collection::btree_map(
                prop::collection::vec(0_u8..3, 0..6), prop::collection::vec(any::<u8>(), 0..200),
                0..20,
            ),
        ) {
            let mut node = NodeBuf::new();
            for (key, value) in &entries {
                let foreseen = node.len_with(key, value);
                node.push(key, value);
                prop_assert_eq!(node.bytes.len(), foreseen);
            }
            let (bytes, sum) = node.seal(3, 1, 5, 9);
            let header = NodeHeader::decode(bytes.first_chunk().unwrap()).unwrap();
            prop_assert!(is_intact(&header, bytes));
            let place = (header.section, header.level, header.file, header.number);
            prop_assert_eq!((place, header.checksum), ((3, 1, 5, 9), sum));
            prop_assert_eq!(read(bytes).unwrap(), entries.into_iter().collect::<Vec<_>>());
        }

        /// Also behind a checksum that was made to fit.
        #[test]
        fn no_bytes_panic(
            bytes in prop::collection::vec(any::<u8>(), 0..120), entries in 0_u32..9,
        ) {
            let mut node = NodeBuf::new();
            node.bytes.extend_from_slice(&bytes);
            node.entries = entries;
            let (bytes, _) = node.seal(1, 0, 1, 0);
            if let Ok(found) = read(bytes) {
                prop_assert!(found.is_sorted_by(|one, next| one.0 < next.0));
            }
        }
    }
}
