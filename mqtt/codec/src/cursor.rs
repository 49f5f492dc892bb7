//! A reader over the body of a packet: every read is checked against what is left.

use zzq_types::{
    Properties, PropertyScope, TextError, TopicName, VarintError, check_text, read_varint,
};

use crate::{Fault, Field, Malformed};

/// What is left of a packet's body.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    #[inline]
    pub(crate) const fn new(body: &'a [u8]) -> Self {
        Self(body)
    }

    #[inline]
    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Everything that is left.
    #[inline]
    pub(crate) const fn rest(self) -> &'a [u8] {
        self.0
    }

    #[inline]
    pub(crate) fn byte(&mut self) -> Result<u8, Malformed> {
        let (&byte, tail) = self.0.split_first().ok_or(Malformed::Truncated)?;
        self.0 = tail;
        Ok(byte)
    }

    #[inline]
    pub(crate) fn u16(&mut self) -> Result<u16, Malformed> {
        let (head, tail) = self.0.split_first_chunk::<2>().ok_or(Malformed::Truncated)?;
        self.0 = tail;
        Ok(u16::from_be_bytes(*head))
    }

    /// Bytes behind a length of two bytes.
    #[inline]
    pub(crate) fn binary(&mut self) -> Result<&'a [u8], Malformed> {
        let len = self.u16()?;
        self.take(usize::from(len))
    }

    /// A string behind a length of two bytes.
    #[inline]
    pub(crate) fn text(&mut self, field: Field) -> Result<&'a str, Malformed> {
        check_text(self.binary()?).map_err(|fault| Malformed::Text(field, fault))
    }

    /// A topic behind a length of two bytes; `None` for an empty one.
    #[inline]
    pub(crate) fn topic(&mut self, field: Field) -> Result<Option<TopicName<'a>>, Malformed> {
        let Ok(text) = core::str::from_utf8(self.binary()?) else {
            return Err(Malformed::Text(field, TextError::IllFormed));
        };
        if text.is_empty() {
            return Ok(None);
        }
        // The check for U+0000 is the topic's own.
        TopicName::new(text).map(Some).map_err(|fault| Malformed::Topic(field, fault))
    }

    /// The block of properties behind its length.
    pub(crate) fn properties(&mut self, scope: PropertyScope) -> Result<Properties<'a>, Fault> {
        Properties::parse(self.properties_block()?, scope).map_err(Fault::from)
    }

    /// The bytes of the properties behind their length, unchecked.
    #[inline]
    pub(crate) fn properties_block(&mut self) -> Result<&'a [u8], Malformed> {
        let (len, taken) = read_varint(self.0).map_err(|fault| match fault {
            VarintError::Truncated => Malformed::Truncated,
            other => Malformed::PropertiesLength(other),
        })?;
        self.take(taken)?;
        self.take(len as usize)
    }

    /// Nothing may be left.
    #[inline]
    pub(crate) fn finish(self) -> Result<(), Malformed> {
        if self.0.is_empty() { Ok(()) } else { Err(Malformed::TrailingBytes(self.0.len())) }
    }

    #[inline]
    fn take(&mut self, len: usize) -> Result<&'a [u8], Malformed> {
        let (head, tail) = self.0.split_at_checked(len).ok_or(Malformed::Truncated)?;
        self.0 = tail;
        Ok(head)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_stop_at_the_end() {
        let mut cursor = Cursor::new(&[7, 0, 2, b'a', b'b', 1]);
        assert_eq!(cursor.byte(), Ok(7));
        assert_eq!(cursor.text(Field::ClientId), Ok("ab"));
        assert_eq!(cursor.u16(), Err(Malformed::Truncated));
        assert_eq!(cursor.finish(), Err(Malformed::TrailingBytes(1)));
        assert_eq!(cursor.byte(), Ok(1));
        assert_eq!(cursor.byte(), Err(Malformed::Truncated));
        assert_eq!(cursor.finish(), Ok(()));
    }

    #[test]
    fn lengths_beyond_the_body_are_cut_off() {
        assert_eq!(Cursor::new(&[0, 2, b'a']).binary(), Err(Malformed::Truncated));
        assert_eq!(Cursor::new(&[2, 1]).properties_block(), Err(Malformed::Truncated));
        assert_eq!(Cursor::new(&[0x80]).properties_block(), Err(Malformed::Truncated));
        let overlong = Malformed::PropertiesLength(VarintError::Overlong);
        assert_eq!(Cursor::new(&[0x80, 0]).properties_block(), Err(overlong));
    }
}
