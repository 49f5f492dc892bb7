//! The mark at the front of every payload: who sent it, which one it is, and when.

/// Bytes of a mark, and so the least payload: publisher, sequence number and time, little-endian.
pub const STAMP_LEN: usize = 4 + 8 + 8;

/// The mark of one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// The publisher, counted from 0.
    pub publisher: u32,
    /// Its messages, counted from 1.
    pub sequence: u64,
    /// When it was sent or due, in nanoseconds since the start.
    pub time: u64,
}

impl Stamp {
    /// Writes the mark over the front of a payload.
    ///
    /// # Panics
    /// If the payload is shorter than [`STAMP_LEN`].
    #[inline]
    pub fn write(self, payload: &mut [u8]) {
        payload[..4].copy_from_slice(&self.publisher.to_le_bytes());
        payload[4..12].copy_from_slice(&self.sequence.to_le_bytes());
        payload[12..STAMP_LEN].copy_from_slice(&self.time.to_le_bytes());
    }

    /// Reads the mark; `None` if the payload is too short to have one.
    #[inline]
    pub fn read(payload: &[u8]) -> Option<Self> {
        let (publisher, rest) = payload.split_first_chunk()?;
        let (sequence, rest) = rest.split_first_chunk()?;
        let (time, _) = rest.split_first_chunk()?;
        Some(Self {
            publisher: u32::from_le_bytes(*publisher),
            sequence: u64::from_le_bytes(*sequence),
            time: u64::from_le_bytes(*time),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_read_as_it_was_written() {
        let stamp = Stamp { publisher: 7, sequence: u64::MAX - 1, time: 12_345_678_901 };
        let mut payload = [0xAA; STAMP_LEN + 4];
        stamp.write(&mut payload);
        assert_eq!(Stamp::read(&payload), Some(stamp));
        assert_eq!(payload[STAMP_LEN..], [0xAA; 4]);
        assert_eq!(Stamp::read(&payload[..STAMP_LEN]), Some(stamp));
        assert_eq!(Stamp::read(&payload[..STAMP_LEN - 1]), None);
    }
}
