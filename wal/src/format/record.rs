//! A record within a group.
//!
//! Owns: the record header and its checksum, the parts of a big record.
//! Does not know: LSNs (they follow from the place in the group), what kind and body mean.
//!
//! ```text
//!  0       4  checksum: CRC-32 of all that follows in this record, bytes 4 .. 12 + body
//!  4       4  length of the body in bytes
//!  8       1  kind
//!  9       1  flags
//! 10       2  stream: who gave the parts of a big record; 0 in a whole one
//! 12       .  body
//! ```

use super::field::{put, u16_at, u32_at};
use super::{Checksum, checksum};

/// Bytes before the body.
pub const HEADER_LEN: usize = 12;
/// A longer body is written in parts of this length, the last may be shorter.
pub const PART_MAX: usize = 256 * 1024;
/// The longest body of a record, parts taken together.
pub const BODY_MAX: usize = 272 * 1024 * 1024;

const _: () = assert!(PART_MAX <= BODY_MAX && BODY_MAX < u32::MAX as usize);

/// Facts about a record that the log itself heeds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(u8);

impl Flags {
    /// Somebody waits until this record is durable.
    pub const WAITS: Self = Self(1);
    /// A part of the same big record came before.
    pub const CONTINUES: Self = Self(2);
    /// A further part follows; only the last part takes the LSN.
    pub const MORE: Self = Self(4);

    const KNOWN: u8 = 7;

    /// As stored.
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// Both.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// All of `other` are set.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// It is, or completes, a record, so that it takes an LSN.
    pub const fn takes_lsn(self) -> bool {
        !self.has(Self::MORE)
    }
}

/// One record, or one part of a big one, where it lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// What the body is, in the words of whoever wrote it.
    pub kind: u8,
    /// What the log heeds.
    pub flags: Flags,
    /// Tells apart the parts of big records that lie between one another.
    pub stream: u16,
    /// The bytes.
    pub body: &'a [u8],
}

/// Why bytes are not a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordFault {
    /// The header or the body passes the end.
    #[error("a record passes the end of its group")]
    Length,
    /// Bytes have changed since they left their producer.
    #[error("a record's checksum does not match its bytes")]
    Checksum,
    /// A flag of no known version.
    #[error("a record has unknown flags {0:#04x}")]
    Flags(u8),
}

/// Takes the first record from `bytes` and returns what lies behind it.
pub fn split(bytes: &[u8]) -> Result<(Record<'_>, &[u8]), RecordFault> {
    let (record, sum, rest) = split_unchecked(bytes)?;
    let end = HEADER_LEN + record.body.len();
    if checksum(&bytes[4..end]) != sum {
        return Err(RecordFault::Checksum);
    }
    Ok((record, rest))
}

/// As [`split`], for bytes that never left memory: the checksum is returned, not checked.
pub(crate) fn split_unchecked(bytes: &[u8]) -> Result<(Record<'_>, u32, &[u8]), RecordFault> {
    let (header, rest) = bytes.split_at_checked(HEADER_LEN).ok_or(RecordFault::Length)?;
    let length = usize::try_from(u32_at(header, 4)).map_err(|_| RecordFault::Length)?;
    if length > PART_MAX {
        return Err(RecordFault::Length);
    }
    let (body, rest) = rest.split_at_checked(length).ok_or(RecordFault::Length)?;
    if header[9] & !Flags::KNOWN != 0 {
        return Err(RecordFault::Flags(header[9]));
    }
    let record =
        Record { kind: header[8], flags: Flags(header[9]), stream: u16_at(header, 10), body };
    Ok((record, u32_at(header, 0), rest))
}

/// Fills in the header in front of a body that is already in place, but for the checksum: `bytes`
/// is both.
pub(crate) fn put_header(bytes: &mut [u8], kind: u8, flags: Flags, stream: u16) {
    assert!(bytes.len() >= HEADER_LEN, "room for the header was left");
    let length = bytes.len() - HEADER_LEN;
    assert!(length <= PART_MAX, "a longer body goes in parts");
    let Ok(length) = u32::try_from(length) else { unreachable!("PART_MAX fits") };
    put(bytes, 4, &length.to_le_bytes());
    bytes[8] = kind;
    bytes[9] = flags.bits();
    put(bytes, 10, &stream.to_le_bytes());
}

/// Fills in the checksums of records that lie one behind the other.
///
/// All in one pass: as soon as each is encoded, it would wait until the processor has stored what
/// it is about to read.
pub(crate) fn seal(records: &mut [u8]) {
    let none = Checksum::new();
    let mut rest = records;
    while !rest.is_empty() {
        let Ok(length) = usize::try_from(u32_at(rest, 4)) else { unreachable!("PART_MAX fits") };
        let (record, behind) = rest.split_at_mut(HEADER_LEN + length);
        let mut sum = none.clone();
        sum.update(&record[4..]);
        put(record, 0, &sum.value().to_le_bytes());
        rest = behind;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sealed(kind: u8, flags: Flags, stream: u16, body: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; HEADER_LEN];
        bytes.extend_from_slice(body);
        put_header(&mut bytes, kind, flags, stream);
        seal(&mut bytes);
        bytes
    }

    proptest! {
        #[test]
        fn what_is_sealed_is_read_back(
            kind: u8, bits in 0_u8..8, stream: u16,
            body in proptest::collection::vec(any::<u8>(), 0..300),
            behind in proptest::collection::vec(any::<u8>(), 0..30),
        ) {
            let mut bytes = sealed(kind, Flags(bits), stream, &body);
            bytes.extend_from_slice(&behind);
            let (record, rest) = split(&bytes).unwrap();
            prop_assert_eq!(record, Record { kind, flags: Flags(bits), stream, body: &body });
            prop_assert_eq!(rest, &behind[..]);
        }

        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = split(&bytes);
        }

        #[test]
        fn one_changed_bit_is_noticed(
            body in proptest::collection::vec(any::<u8>(), 0..100), at: prop::sample::Index,
            bit in 0_u8..8,
        ) {
            let mut bytes = sealed(3, Flags::WAITS, 0, &body);
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
            prop_assert!(split(&bytes).is_err());
        }
    }
}
