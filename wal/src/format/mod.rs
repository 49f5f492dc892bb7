//! What lies on disk, drawn byte by byte in `doc/format.md`.
//!
//! Owns: encoding and checking of segment headers, groups, records, indexes and `meta`. All
//! integers are little-endian. Decoding takes any bytes and never panics.
//! Does not know: files, what follows from a mismatch (that is recovery's to judge).

#[cfg(test)]
mod golden;
pub mod group;
pub mod index;
pub mod meta;
pub mod record;
pub mod segment;

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

/// Little-endian fields of a block whose length the caller has checked.
pub(crate) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(array_at(bytes, at))
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(array_at(bytes, at))
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(array_at(bytes, at))
}

pub(crate) fn array_at<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut array = [0; N];
    array.copy_from_slice(&bytes[at..at + N]);
    array
}

pub(crate) fn put(bytes: &mut [u8], at: usize, field: &[u8]) {
    bytes[at..at + field.len()].copy_from_slice(field);
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
