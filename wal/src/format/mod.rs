//! What lies on disk, drawn byte by byte in `doc/format.md`.
//!
//! Owns: encoding and checking of segment headers, groups, records, indexes and `meta`. All
//! integers are little-endian. Decoding takes any bytes and never panics.
//! Does not know: files, what follows from a mismatch (that is recovery's to judge).

pub mod field;
#[cfg(test)]
mod golden;
pub mod group;
pub mod index;
pub mod meta;
pub mod record;
pub mod segment;

use self::field::{put, u32_at};

/// The version that this code writes, and the newest that it reads.
pub const VERSION: u32 = 1;

/// Random bytes that tell one use of a file from all others.
pub type Salt = [u8; 16];

/// Why a header or a page of `meta` cannot be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// It does not begin with the magic bytes.
    #[error("it does not begin as one of ours")]
    Magic,
    /// Bytes have changed.
    #[error("its checksum does not match its bytes")]
    Checksum,
    /// Made by a newer program.
    #[error("it has format version {found}, this program knows up to {VERSION}")]
    Version {
        /// The version it names.
        found: u32,
    },
    /// Intact, but no writer makes this.
    #[error("it is intact but says what no writer says: {0}")]
    Senseless(&'static str),
}

/// CRC-32 (IEEE 802.3), as everything here uses it.
pub fn checksum(bytes: &[u8]) -> u32 {
    crc32fast::hash(bytes)
}

/// A [`checksum`] that is made piece by piece.
#[derive(Clone)]
pub(crate) struct Checksum(crc32fast::Hasher);

impl Checksum {
    /// Of nothing. What the processor can do is asked here: a copy is cheaper than another one.
    pub(crate) fn new() -> Self {
        Self(crc32fast::Hasher::new())
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// [`update`](Self::update) by bytes of which only this checksum and their number are known. It
    /// takes as long as some 8 KiB of bytes do.
    pub(crate) fn append(&mut self, checksum: u32, len: usize) {
        self.0.combine(&crc32fast::Hasher::new_with_initial_len(checksum, len as u64));
    }

    pub(crate) fn value(&self) -> u32 {
        self.0.clone().finalize()
    }
}

/// Magic, checksum and version, in the same place in headers and `meta` of every version.
pub(crate) fn check_block(block: &[u8], magic: [u8; 8]) -> Result<(), Fault> {
    if block[..8] != magic {
        return Err(Fault::Magic);
    }
    if checksum(&block[12..]) != u32_at(block, 8) {
        return Err(Fault::Checksum);
    }
    match u32_at(block, 12) {
        VERSION => Ok(()),
        found if found > VERSION => Err(Fault::Version { found }),
        _ => Err(Fault::Senseless("a version before the first")),
    }
}

/// Sets magic, version and, over all that is there already, the checksum.
pub(crate) fn seal_block(block: &mut [u8], magic: [u8; 8]) {
    put(block, 0, &magic);
    put(block, 12, &VERSION.to_le_bytes());
    let sum = checksum(&block[12..]);
    put(block, 8, &sum.to_le_bytes());
}
