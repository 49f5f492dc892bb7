//! Variable byte integers: seven bits a byte, at most four bytes, the shortest form.

use alloc::vec::Vec;

use thiserror::Error;

/// The largest value that four bytes hold.
pub const VARINT_MAX: u32 = 268_435_455;

/// Why bytes are no variable byte integer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum VarintError {
    /// More bytes are needed.
    #[error("a variable byte integer is cut off")]
    Truncated,
    /// A fifth byte would follow.
    #[error("a variable byte integer is longer than four bytes")]
    TooLong,
    /// The value fits in fewer bytes.
    #[error("a variable byte integer is not in its shortest form")]
    Overlong,
}

/// Reads one integer; returns it with the number of bytes it took.
///
/// `Overlong` is reported for MQTT 5's rule; a caller that speaks an older version, which has no
/// such rule, uses the same: no known client writes longer forms.
//= MQTT5-1.5.5-1
#[inline]
pub fn read_varint(bytes: &[u8]) -> Result<(u32, usize), VarintError> {
    match bytes {
        [byte @ 0..=0x7F, ..] => Ok((u32::from(*byte), 1)),
        _ => read_long(bytes),
    }
}

/// Reads an integer of two bytes or more, or none.
fn read_long(bytes: &[u8]) -> Result<(u32, usize), VarintError> {
    let mut value = 0_u32;
    for (i, &byte) in bytes.iter().take(4).enumerate() {
        value |= u32::from(byte & 0x7F) << (7 * i);
        if byte & 0x80 == 0 {
            let overlong = i > 0 && byte == 0;
            return if overlong { Err(VarintError::Overlong) } else { Ok((value, i + 1)) };
        }
    }
    Err(if bytes.len() < 4 { VarintError::Truncated } else { VarintError::TooLong })
}

/// Appends `value` in its shortest form.
///
/// # Panics
/// Above [`VARINT_MAX`]: callers bound what they encode.
//= MQTT5-1.5.5-1
#[inline]
pub fn write_varint(out: &mut Vec<u8>, mut value: u32) {
    assert!(value <= VARINT_MAX, "{value} does not fit a variable byte integer");
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

/// How many bytes [`write_varint`] takes for `value`.
pub const fn varint_len(value: u32) -> usize {
    match value {
        0..=0x7F => 1,
        0x80..=0x3FFF => 2,
        0x4000..=0x1F_FFFF => 3,
        _ => 4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_round_trip_in_the_shortest_form() {
        //= MQTT5-1.5.5-1
        for (value, len) in [
            (0, 1),
            (127, 1),
            (128, 2),
            (16_383, 2),
            (16_384, 3),
            (2_097_151, 3),
            (2_097_152, 4),
            (VARINT_MAX, 4),
        ] {
            let mut out = Vec::new();
            write_varint(&mut out, value);
            assert_eq!((out.len(), varint_len(value)), (len, len));
            assert_eq!(read_varint(&out), Ok((value, len)));
            assert_eq!(read_varint(&out[..len - 1]), Err(VarintError::Truncated));
        }
    }

    #[test]
    fn overlong_and_fifth_bytes_are_refused() {
        //= MQTT5-1.5.5-1
        assert_eq!(read_varint(&[0x80, 0x00]), Err(VarintError::Overlong));
        assert_eq!(read_varint(&[0xFF, 0xFF, 0xFF, 0xFF, 0x01]), Err(VarintError::TooLong));
        assert_eq!(read_varint(&[0xFF, 0xFF, 0xFF, 0xFF]), Err(VarintError::TooLong));
        assert_eq!(read_varint(&[]), Err(VarintError::Truncated));
    }
}
