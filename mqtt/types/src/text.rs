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
pub fn check_text(bytes: &[u8]) -> Result<&str, TextError> {
    let text = core::str::from_utf8(bytes).map_err(|_| TextError::IllFormed)?;
    if bytes.contains(&0) { Err(TextError::Nul) } else { Ok(text) }
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
