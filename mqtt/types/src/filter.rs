//! Topic filters: what a subscription asks for, shared ones among them.

use core::fmt;

use thiserror::Error;

use crate::TopicName;

/// A checked topic filter, `+` and `#` where they may stand, without a `$share` prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicFilter<'a>(&'a str);

/// What SUBSCRIBE names: a filter of one's own, or a share of a group's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Filter<'a> {
    /// An ordinary subscription.
    Plain(TopicFilter<'a>),
    /// `$share/<group>/<filter>`.
    Shared {
        /// The share name.
        group: &'a str,
        /// What the group subscribes to.
        filter: TopicFilter<'a>,
    },
}

/// Why a string is no filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum FilterError {
    /// No character at all.
    #[error("an empty topic filter")]
    Empty,
    /// More than 65 535 bytes.
    #[error("a topic filter of {0} bytes, at most 65535 are allowed")]
    TooLong(usize),
    /// `#` that is not alone in the last level.
    #[error("'#' must stand alone in the last level of a filter")]
    MisplacedHash,
    /// `+` that does not fill its level.
    #[error("'+' must fill its level of a filter")]
    MisplacedPlus,
    /// U+0000.
    #[error("U+0000 in a topic filter")]
    Nul,
    /// `$share/` without a group, with a wildcard in its name, or without a filter behind it.
    #[error("a shared filter is $share/<group>/<filter>, the group without '/', '+' and '#'")]
    MalformedShare,
}

impl<'a> TopicFilter<'a> {
    /// Checks `text`, in which `$share` has no meaning of its own.
    //= MQTT311-4.7.1-2
    //= MQTT311-4.7.1-3
    //= MQTT311-4.7.3-1
    //= MQTT311-4.7.3-2
    //= MQTT311-4.7.3-3
    //= MQTT5-4.7.1-1
    //= MQTT5-4.7.1-2
    //= MQTT5-4.7.3-1
    //= MQTT5-4.7.3-2
    //= MQTT5-4.7.3-3
    pub fn new(text: &'a str) -> Result<Self, FilterError> {
        if text.is_empty() {
            return Err(FilterError::Empty);
        }
        if text.len() > usize::from(u16::MAX) {
            return Err(FilterError::TooLong(text.len()));
        }
        let mut levels = text.split('/').peekable();
        while let Some(level) = levels.next() {
            if level.contains('\0') {
                return Err(FilterError::Nul);
            }
            if level.contains('#') && (level != "#" || levels.peek().is_some()) {
                return Err(FilterError::MisplacedHash);
            }
            if level.contains('+') && level != "+" {
                return Err(FilterError::MisplacedPlus);
            }
        }
        Ok(Self(text))
    }

    /// The text.
    pub const fn as_str(self) -> &'a str {
        self.0
    }

    /// The levels between slashes, empty ones and wildcards among them.
    pub fn levels(self) -> core::str::Split<'a, char> {
        self.0.split('/')
    }

    /// Whether the filter has a wildcard.
    pub fn has_wildcard(self) -> bool {
        self.0.bytes().any(|byte| matches!(byte, b'+' | b'#'))
    }

    /// Whether the filter matches `name`: the plain rule, which the index must agree with.
    //= MQTT311-3.3.2-3
    //= MQTT311-4.7.2-1
    //= MQTT311-4.7.3-4
    //= MQTT5-3.3.2-3
    //= MQTT5-4.7.2-1
    //= MQTT5-4.7.3-4
    pub fn matches(self, name: TopicName<'_>) -> bool {
        if name.is_dollar() && self.0.starts_with(['+', '#']) {
            return false;
        }
        let mut wanted = self.levels();
        let mut given = name.levels();
        loop {
            match (wanted.next(), given.next()) {
                (Some("#"), _) | (None, None) => return true,
                (Some("+"), Some(_)) => {}
                (Some(level), Some(actual)) if level == actual => {}
                _ => return false,
            }
        }
    }
}

impl fmt::Display for TopicFilter<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl<'a> Filter<'a> {
    /// Checks what stands in SUBSCRIBE and UNSUBSCRIBE.
    //= MQTT5-4.8.2-1
    //= MQTT5-4.8.2-2
    pub fn new(text: &'a str) -> Result<Self, FilterError> {
        let Some(rest) = text.strip_prefix("$share/") else {
            return TopicFilter::new(text).map(Self::Plain);
        };
        if text.len() > usize::from(u16::MAX) {
            return Err(FilterError::TooLong(text.len()));
        }
        let (group, filter) = rest.split_once('/').ok_or(FilterError::MalformedShare)?;
        if group.is_empty() || group.contains(['+', '#']) {
            return Err(FilterError::MalformedShare);
        }
        if group.contains('\0') {
            return Err(FilterError::Nul);
        }
        match TopicFilter::new(filter) {
            Ok(filter) => Ok(Self::Shared { group, filter }),
            Err(FilterError::Empty) => Err(FilterError::MalformedShare),
            Err(error) => Err(error),
        }
    }

    /// The filter that topics are matched against.
    pub const fn topic_filter(self) -> TopicFilter<'a> {
        match self {
            Self::Plain(filter) | Self::Shared { filter, .. } => filter,
        }
    }

    /// The group, for a shared one.
    pub const fn group(self) -> Option<&'a str> {
        match self {
            Self::Plain(_) => None,
            Self::Shared { group, .. } => Some(group),
        }
    }
}

impl fmt::Display for Filter<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plain(filter) => filter.fmt(f),
            Self::Shared { group, filter } => write!(f, "$share/{group}/{filter}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(filter: &str, name: &str) -> bool {
        TopicFilter::new(filter).unwrap().matches(TopicName::new(name).unwrap())
    }

    #[test]
    fn wildcards_stand_where_they_may() {
        //= MQTT311-4.7.1-2
        //= MQTT311-4.7.1-3
        //= MQTT5-4.7.1-1
        //= MQTT5-4.7.1-2
        for good in ["#", "+", "a/#", "+/b/#", "/+", "a//b", "$SYS/#"] {
            assert!(TopicFilter::new(good).is_ok(), "{good}");
        }
        for bad in ["a#", "#/a", "a/#/b", "##"] {
            assert_eq!(TopicFilter::new(bad), Err(FilterError::MisplacedHash), "{bad}");
        }
        for bad in ["a+", "+a/b", "a/++"] {
            assert_eq!(TopicFilter::new(bad), Err(FilterError::MisplacedPlus), "{bad}");
        }
    }

    #[test]
    fn filters_have_one_to_65535_bytes_and_no_nul() {
        //= MQTT311-4.7.3-1
        //= MQTT311-4.7.3-2
        //= MQTT311-4.7.3-3
        //= MQTT5-4.7.3-1
        //= MQTT5-4.7.3-2
        //= MQTT5-4.7.3-3
        extern crate std;
        assert_eq!(TopicFilter::new(""), Err(FilterError::Empty));
        assert_eq!(TopicFilter::new("a\0"), Err(FilterError::Nul));
        let long = "x".repeat(65_536);
        assert_eq!(TopicFilter::new(&long), Err(FilterError::TooLong(65_536)));
        assert!(TopicFilter::new(&long[1..]).is_ok());
    }

    #[test]
    fn empty_levels_are_levels() {
        //= B31
        //= MQTT311-3.3.2-3
        //= MQTT5-3.3.2-3
        assert!(matches("a/+/b", "a//b") && matches("a/#", "a//b"));
        assert!(matches("a/#", "a") && matches("a/#", "a/") && !matches("a/#", "ab"));
        assert!(!matches("a/+/b", "a/b") && matches("+/+", "a/") && !matches("+/+", "a"));
        assert!(matches("+/+", "/") && !matches("+", "/") && matches("/+", "/"));
    }

    #[test]
    fn dollar_names_hide_from_leading_wildcards() {
        //= MQTT311-4.7.2-1
        //= MQTT5-4.7.2-1
        assert!(!matches("#", "$SYS/x") && !matches("+/x", "$SYS/x"));
        assert!(matches("$SYS/#", "$SYS/x") && matches("$SYS/+", "$SYS/x"));
        assert!(matches("#", "a/$b"));
    }

    #[test]
    fn names_match_byte_for_byte() {
        //= MQTT311-4.7.3-4
        //= MQTT5-4.7.3-4
        assert!(!matches("A", "a") && !matches("a", "\u{FEFF}a"));
        assert!(matches("\u{FEFF}a", "\u{FEFF}a"));
        assert!(!matches("\u{E9}", "e\u{301}"));
    }

    #[test]
    fn shared_filters_name_a_group_and_a_filter() {
        //= MQTT5-4.8.2-1
        //= MQTT5-4.8.2-2
        let shared = Filter::new("$share/g/a/+").unwrap();
        assert_eq!((shared.group(), shared.topic_filter().as_str()), (Some("g"), "a/+"));
        for bad in ["$share/", "$share/g", "$share//a", "$share/g/", "$share/+/a", "$share/g#/a"] {
            assert_eq!(Filter::new(bad), Err(FilterError::MalformedShare), "{bad}");
        }
        assert_eq!(Filter::new("$share/g/a#"), Err(FilterError::MisplacedHash));
        assert!(Filter::new("$shared/g").unwrap().group().is_none());
    }
}
