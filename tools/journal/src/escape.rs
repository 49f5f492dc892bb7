//! Text of strangers on a terminal: nothing of it moves the cursor, changes colours or the
//! direction of writing.
//!
//! Owns: which characters are shown as they are. All others stand as escapes.

use std::io::{self, Write};

use serde_json::ser::Formatter;

/// Quoted, with escapes as in Rust for whatever is not plainly visible.
pub(crate) fn quoted(text: &str) -> String {
    format!("\"{}\"", text.escape_debug())
}

/// Shown as it is: what `escape_debug` leaves alone, quotes and backslashes aside.
fn is_plain(character: char) -> bool {
    matches!(character, '"' | '\\' | '\'') || character.escape_debug().count() == 1
}

/// Compact JSON in which the characters that JSON allows and terminals act upon (DEL, C1, marks of
/// direction) are escaped too.
#[derive(Debug)]
pub(crate) struct PlainJson;

impl Formatter for PlainJson {
    fn write_string_fragment<W: ?Sized + Write>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        let mut rest = fragment;
        while let Some((at, character)) = rest.char_indices().find(|(_, found)| !is_plain(*found)) {
            writer.write_all(&rest.as_bytes()[..at])?;
            for unit in character.encode_utf16(&mut [0; 2]) {
                write!(writer, "\\u{unit:04x}")?;
            }
            rest = &rest[at + character.len_utf8()..];
        }
        writer.write_all(rest.as_bytes())
    }
}

/// Bytes in hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use serde::Serialize as _;

    use super::*;

    const NASTY: &str = "a\x1b[31m\x07\u{9b}2J\u{202e}\x7f\r\n\"\\é日\u{10ffff}";

    fn is_safe(text: &str) -> bool {
        let nasty = |c: char| c.is_control() || ('\u{202a}'..='\u{202e}').contains(&c);
        !text.contains(nasty)
    }

    #[test]
    fn nothing_that_a_terminal_acts_upon_is_left() {
        let text = quoted(NASTY);
        assert!(is_safe(&text), "{text:?}");
        assert!(text.contains("\\u{1b}[31m") && text.contains("é日"), "{text}");
        let mut json = Vec::new();
        NASTY.serialize(&mut serde_json::Serializer::with_formatter(&mut json, PlainJson)).unwrap();
        let json = String::from_utf8(json).unwrap();
        assert!(is_safe(&json), "{json:?}");
        assert_eq!(serde_json::from_str::<String>(&json).unwrap(), NASTY);
    }
}
