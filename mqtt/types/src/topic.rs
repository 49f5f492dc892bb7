//! Topic names: what a message is published under.

use core::fmt;

use thiserror::Error;

use crate::text::contains_any;

/// A checked topic name: 1 to 65 535 bytes, no wildcard, no U+0000.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicName<'a>(&'a str);

/// Why a string is no topic name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum TopicError {
    /// No character at all.
    #[error("an empty topic name")]
    Empty,
    /// More than 65 535 bytes.
    #[error("a topic name of {0} bytes, at most 65535 are allowed")]
    TooLong(usize),
    /// `+` or `#`.
    #[error("a wildcard in a topic name")]
    Wildcard,
    /// U+0000.
    #[error("U+0000 in a topic name")]
    Nul,
}

impl<'a> TopicName<'a> {
    /// Checks `text`.
    //= MQTT311-3.3.2-2
    //= MQTT311-4.7.1-1
    //= MQTT311-4.7.3-1
    //= MQTT311-4.7.3-2
    //= MQTT311-4.7.3-3
    //= MQTT5-3.3.2-2
    //= MQTT5-4.7.0-1
    //= MQTT5-4.7.3-1
    //= MQTT5-4.7.3-2
    //= MQTT5-4.7.3-3
    #[inline]
    pub fn new(text: &'a str) -> Result<Self, TopicError> {
        if text.is_empty() {
            return Err(TopicError::Empty);
        }
        if text.len() > usize::from(u16::MAX) {
            return Err(TopicError::TooLong(text.len()));
        }
        if contains_any(text.as_bytes(), [0, b'+', b'#']) {
            let nul = contains_any(text.as_bytes(), [0]);
            return Err(if nul { TopicError::Nul } else { TopicError::Wildcard });
        }
        Ok(Self(text))
    }

    /// The text.
    pub const fn as_str(self) -> &'a str {
        self.0
    }

    /// The levels between slashes, empty ones among them.
    pub fn levels(self) -> core::str::Split<'a, char> {
        self.0.split('/')
    }

    /// Whether the name belongs to the server (`$SYS/...`): wildcards in the first level of a
    /// filter do not match it.
    //= MQTT311-4.7.2-1
    //= MQTT5-4.7.2-1
    pub fn is_dollar(self) -> bool {
        self.0.starts_with('$')
    }
}

impl fmt::Display for TopicName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;

    #[test]
    fn names_have_a_character_and_no_wildcard_or_nul() {
        //= MQTT311-3.3.2-2
        //= MQTT311-4.7.1-1
        //= MQTT311-4.7.3-1
        //= MQTT311-4.7.3-2
        //= MQTT5-3.3.2-2
        //= MQTT5-4.7.0-1
        //= MQTT5-4.7.3-1
        //= MQTT5-4.7.3-2
        assert_eq!(TopicName::new(""), Err(TopicError::Empty));
        assert_eq!(TopicName::new("a/+"), Err(TopicError::Wildcard));
        assert_eq!(TopicName::new("a#"), Err(TopicError::Wildcard));
        assert_eq!(TopicName::new("a\0"), Err(TopicError::Nul));
        assert!(TopicName::new("/").is_ok_and(|name| name.levels().count() == 2));
    }

    #[test]
    fn names_end_at_65535_bytes() {
        //= MQTT311-4.7.3-3
        //= MQTT5-4.7.3-3
        let long = "x".repeat(65_536);
        assert_eq!(TopicName::new(&long), Err(TopicError::TooLong(65_536)));
        assert!(TopicName::new(&long[1..]).is_ok());
    }
}
