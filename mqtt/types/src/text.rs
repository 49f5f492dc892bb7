//! The strings of MQTT: strict UTF-8 without U+0000.

use thiserror::Error;

/// Why bytes are no MQTT string.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum TextError {
    /// Ill-formed UTF-8, surrogates among it.
    #[error("ill-formed UTF-8")]
    IllFormed,
    /// The string holds U+0000.
    #[error("U+0000 in a string")]
    Nul,
}

/// Checks the bytes of a string. A byte-order mark is an ordinary character and stays.
//= MQTT311-1.5.3-1
//= MQTT311-1.5.3-2
//= MQTT311-1.5.3-3
//= MQTT5-1.5.4-1
//= MQTT5-1.5.4-2
//= MQTT5-1.5.4-3
#[inline]
pub fn check_text(bytes: &[u8]) -> Result<&str, TextError> {
    let text = core::str::from_utf8(bytes).map_err(|_| TextError::IllFormed)?;
    if contains_any(bytes, [0]) { Err(TextError::Nul) } else { Ok(text) }
}

/// Whether one of `wanted` is among `bytes`. Topics are looked through on every message, and most
/// have no more than a few times eight bytes: eight are compared at a time, the last eight again.
#[inline]
pub(crate) fn contains_any<const N: usize>(bytes: &[u8], wanted: [u8; N]) -> bool {
    let Some(last) = bytes.last_chunk::<8>() else {
        return bytes.iter().any(|byte| wanted.contains(byte));
    };
    let found = |word: &[u8; 8]| {
        let word = u64::from_ne_bytes(*word);
        wanted.iter().fold(0, |all, byte| all | zero_bytes(word ^ u64::from_ne_bytes([*byte; 8])))
    };
    let (words, _) = bytes.as_chunks::<8>();
    words.iter().fold(found(last), |all, word| all | found(word)) != 0
}

/// Not 0 if one of the eight bytes of `word` is 0.
#[inline]
const fn zero_bytes(word: u64) -> u64 {
    const LOW: u64 = u64::from_ne_bytes([0x01; 8]);
    const HIGH: u64 = u64::from_ne_bytes([0x80; 8]);
    word.wrapping_sub(LOW) & !word & HIGH
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn surrogates_and_broken_sequences_are_ill_formed() {
        //= MQTT311-1.5.3-1
        //= MQTT5-1.5.4-1
        for bytes in [&b"\xED\xA0\x80"[..], b"\xFF\xFE", b"a\xC3", b"\xC0\x80", b"\xF5\x80\x80\x80"]
        {
            assert_eq!(check_text(bytes), Err(TextError::IllFormed), "{bytes:?}");
        }
    }

    #[test]
    fn bytes_are_found_at_every_place() {
        for len in 0..20 {
            let mut bytes = [0x80_u8; 20];
            assert!(!contains_any(&bytes[..len], [0, b'+', b'#']), "{len}");
            for at in 0..len {
                for byte in [0, b'+', b'#'] {
                    bytes[at] = byte;
                    assert!(contains_any(&bytes[..len], [0, b'+', b'#']), "{byte} at {at}");
                    assert!(!contains_any(&bytes[..len], [1, byte ^ 0x40]), "{byte} at {at}");
                }
                bytes[at] = 0x80;
            }
        }
    }

    #[test]
    fn nul_is_refused() {
        //= MQTT311-1.5.3-2
        //= MQTT5-1.5.4-2
        assert_eq!(check_text(b"a\0b"), Err(TextError::Nul));
    }

    #[test]
    fn a_byte_order_mark_stays() {
        //= MQTT311-1.5.3-3
        //= MQTT5-1.5.4-3
        assert_eq!(check_text(b"\xEF\xBB\xBFa"), Ok("\u{FEFF}a"));
    }
}
