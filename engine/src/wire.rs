//! The bytes under all encodings of this room: little-endian, LEB128 integers, borrowed strings.
//!
//! An integer has one encoding only, the shortest, so that equal values are equal bytes.

use thiserror::Error;
use zzq_types::{PacketId, SubscriptionId, TopicName};

use crate::number::{QueueNumber, SessionNumber};
use crate::record::VERSION;

/// Why bytes are no record, or no section of an image. Whoever reads a log that says so has a
/// damaged or foreign record before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum RecordError {
    /// No record has this kind.
    #[error("unknown record kind {0}")]
    Kind(u8),
    /// A program with another encoding wrote it.
    #[error("records of version {found} begin here, this program knows version {VERSION}")]
    Version {
        /// The one that the record names.
        found: u64,
    },
    /// The bytes end inside a field.
    #[error("a record is cut off")]
    Truncated,
    /// Bytes are left behind the last field.
    #[error("{0} bytes behind the end of a record")]
    Trailing(usize),
    /// An integer is longer than 64 bits or not in its shortest form.
    #[error("a record holds an integer that is not in its one form")]
    Integer,
    /// A string is ill-formed.
    #[error("a record holds ill-formed UTF-8")]
    Text,
    /// A field has a value that is not allowed.
    #[error("a record holds a {0} that is not allowed")]
    Value(&'static str),
}

/// How many bytes a 64-bit integer takes at most.
pub(crate) const INTEGER_MAX_LEN: usize = 10;

/// Appends `value`, seven bits a byte, the lowest first.
pub(crate) fn put(out: &mut Vec<u8>, mut value: u64) {
    loop {
        let low = value.to_le_bytes()[0] & 0x7F;
        value >>= 7;
        if value == 0 {
            out.push(low);
            return;
        }
        out.push(low | 0x80);
    }
}

/// Appends an integer, if there is one.
pub(crate) fn put_some(out: &mut Vec<u8>, value: Option<u64>) {
    if let Some(value) = value {
        put(out, value);
    }
}

/// Appends a length and the bytes.
pub(crate) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_len(out, bytes.len());
    out.extend_from_slice(bytes);
}

/// Appends a length or a count.
///
/// # Panics
/// Never: a length of memory has at most 64 bits.
pub(crate) fn put_len(out: &mut Vec<u8>, len: usize) {
    let len = u64::try_from(len);
    assert!(len.is_ok(), "a length above 64 bits");
    put(out, len.unwrap_or(u64::MAX));
}

/// Bytes that are read from the front.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(crate) const fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    pub(crate) const fn len(self) -> usize {
        self.0.len()
    }

    /// One byte.
    pub(crate) fn byte(&mut self) -> Result<u8, RecordError> {
        let (&first, rest) = self.0.split_first().ok_or(RecordError::Truncated)?;
        self.0 = rest;
        Ok(first)
    }

    /// A byte of flags, of which only `known` may be set.
    pub(crate) fn flags(&mut self, known: u8) -> Result<u8, RecordError> {
        let flags = self.byte()?;
        if flags & !known == 0 { Ok(flags) } else { Err(RecordError::Value("set of flags")) }
    }

    /// An integer in its shortest form.
    pub(crate) fn int(&mut self) -> Result<u64, RecordError> {
        let mut value = 0_u64;
        for i in 0..INTEGER_MAX_LEN {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7F);
            let shifted = bits << (7 * i);
            if shifted >> (7 * i) != bits {
                return Err(RecordError::Integer);
            }
            value |= shifted;
            if byte & 0x80 == 0 {
                return if i > 0 && byte == 0 { Err(RecordError::Integer) } else { Ok(value) };
            }
        }
        Err(RecordError::Integer)
    }

    /// An integer of at most 32 bits.
    pub(crate) fn int32(&mut self) -> Result<u32, RecordError> {
        u32::try_from(self.int()?).map_err(|_| RecordError::Integer)
    }

    /// An integer of at most 16 bits.
    pub(crate) fn int16(&mut self) -> Result<u16, RecordError> {
        u16::try_from(self.int()?).map_err(|_| RecordError::Integer)
    }

    /// A subscription identifier.
    pub(crate) fn subscription_id(&mut self) -> Result<SubscriptionId, RecordError> {
        let id = SubscriptionId::new(self.int32()?);
        id.ok_or(RecordError::Value("subscription identifier"))
    }

    /// So many bytes.
    pub(crate) fn take(&mut self, len: usize) -> Result<&'a [u8], RecordError> {
        let (head, rest) = self.0.split_at_checked(len).ok_or(RecordError::Truncated)?;
        self.0 = rest;
        Ok(head)
    }

    /// Bytes behind their length.
    pub(crate) fn bytes(&mut self) -> Result<&'a [u8], RecordError> {
        let len = usize::try_from(self.int()?).map_err(|_| RecordError::Truncated)?;
        self.take(len)
    }

    /// A string behind its length.
    pub(crate) fn text(&mut self) -> Result<&'a str, RecordError> {
        core::str::from_utf8(self.bytes()?).map_err(|_| RecordError::Text)
    }

    /// All that is left.
    pub(crate) fn rest(&mut self) -> &'a [u8] {
        core::mem::take(&mut self.0)
    }

    /// Checks that nothing is left.
    pub(crate) fn end(self) -> Result<(), RecordError> {
        if self.0.is_empty() { Ok(()) } else { Err(RecordError::Trailing(self.0.len())) }
    }
}

/// The number of a session.
pub(crate) fn read_session(reader: &mut Reader<'_>) -> Result<SessionNumber, RecordError> {
    SessionNumber::new(reader.int()?).ok_or(RecordError::Value("session number"))
}

/// A queue number, [`QueueNumber::ZERO`] among them.
pub(crate) fn read_number(reader: &mut Reader<'_>) -> Result<QueueNumber, RecordError> {
    let number = QueueNumber::new(reader.int()?);
    if number > QueueNumber::MAX {
        return Err(RecordError::Value("queue number"));
    }
    Ok(number)
}

/// A packet identifier.
pub(crate) fn read_packet_id(reader: &mut Reader<'_>) -> Result<PacketId, RecordError> {
    PacketId::new(reader.int16()?).ok_or(RecordError::Value("packet identifier"))
}

/// A topic name.
pub(crate) fn read_topic<'a>(reader: &mut Reader<'a>) -> Result<TopicName<'a>, RecordError> {
    TopicName::new(reader.text()?).map_err(|_| RecordError::Value("topic"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_round_trip_at_every_edge() {
        for bits in 0..=64 {
            let edge = 1_u64.checked_shl(bits).unwrap_or(0);
            for value in [edge.wrapping_sub(1), edge, edge.wrapping_add(1)] {
                let mut out = Vec::new();
                put(&mut out, value);
                assert!(out.len() <= INTEGER_MAX_LEN);
                let mut reader = Reader::new(&out);
                assert_eq!(reader.int(), Ok(value));
                assert_eq!(reader.end(), Ok(()));
                assert_eq!(Reader::new(&out[..out.len() - 1]).int(), Err(RecordError::Truncated));
            }
        }
    }

    #[test]
    fn an_integer_has_one_form() {
        assert_eq!(Reader::new(&[0x80, 0x00]).int(), Err(RecordError::Integer));
        let mut long = [0xFF; 10];
        long[9] = 0x02;
        assert_eq!(Reader::new(&long).int(), Err(RecordError::Integer));
        long[9] = 0x01;
        assert_eq!(Reader::new(&long).int(), Ok(u64::MAX));
        assert_eq!(Reader::new(&[0x80; 11]).int(), Err(RecordError::Integer));
        assert_eq!(Reader::new(&[0xFF, 0xFF, 0x04]).int16(), Err(RecordError::Integer));
        assert_eq!(Reader::new(&[0xFF; 5]).int32(), Err(RecordError::Truncated));
    }

    #[test]
    fn lengths_beyond_the_bytes_are_cut_off() {
        assert_eq!(Reader::new(&[3, 1, 2]).bytes(), Err(RecordError::Truncated));
        let mut huge = Vec::new();
        put(&mut huge, u64::MAX);
        assert_eq!(Reader::new(&huge).bytes(), Err(RecordError::Truncated));
        assert_eq!(Reader::new(&[1, 0xFF]).text(), Err(RecordError::Text));
        assert_eq!(Reader::new(&[1, b'a', 2]).end(), Err(RecordError::Trailing(3)));
    }
}
