//! What lies in an image or a cold file, drawn byte by byte in `doc/format.md`.
//!
//! Owns: encoding and checking of the two outer blocks and of nodes. Integers of fixed width are
//! little-endian, lengths within nodes LEB128. Decoding takes any bytes and never panics.
//! Does not know: files, what a section means.

pub(crate) mod footer;
pub(crate) mod heading;
pub(crate) mod int;
pub(crate) mod node;

use zzq_wal::disk::BLOCK;
use zzq_wal::format::checksum;
use zzq_wal::format::field::{put, u32_at};

pub use footer::SectionEntry;
pub use heading::{Heading, Kind};

/// The version that this code writes, and the newest that it reads.
pub const VERSION: u32 = 1;

/// Bytes of each of the two outer blocks: nodes begin behind the first.
pub(crate) const OUTER: u64 = BLOCK as u64;

/// Why an outer block cannot be taken.
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

/// Magic, checksum and version, in the same place in the outer blocks of every version.
pub(crate) fn check_block(block: &[u8; BLOCK], magic: [u8; 8]) -> Result<(), Fault> {
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

/// Sets magic, version and, over all that is there already, the checksum, which it returns.
pub(crate) fn seal_block(block: &mut [u8], magic: [u8; 8]) -> u32 {
    assert_eq!(block.len(), BLOCK, "an outer block is one block");
    put(block, 0, &magic);
    put(block, 12, &VERSION.to_le_bytes());
    let sum = checksum(&block[12..]);
    put(block, 8, &sum.to_le_bytes());
    sum
}
