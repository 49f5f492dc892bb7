//! Sizes and durations as people write them: `64MiB`, `10s`.

use alloc::borrow::ToOwned;
use alloc::string::String;
use core::time::Duration;

/// Why something with a unit cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{given}' is no {what}: write {example}")]
pub struct UnitError {
    given: String,
    what: &'static str,
    example: &'static str,
}

impl UnitError {
    /// What was given is not what was wanted; `example` is what to write.
    pub fn new(given: &str, what: &'static str, example: &'static str) -> Self {
        Self { given: given.to_owned(), what, example }
    }
}

const SIZES: [(&str, u64); 10] = [
    ("", 1),
    ("B", 1),
    ("K", 1 << 10),
    ("KiB", 1 << 10),
    ("M", 1 << 20),
    ("MiB", 1 << 20),
    ("G", 1 << 30),
    ("GiB", 1 << 30),
    ("kB", 1000),
    ("MB", 1_000_000),
];

const SPANS: [(&str, u64); 6] = [
    ("us", 1),
    ("ms", 1000),
    ("s", 1_000_000),
    ("m", 60_000_000),
    ("h", 3_600_000_000),
    ("d", 86_400_000_000),
];

/// Reads a number of bytes.
pub fn parse_size(text: &str) -> Result<u64, UnitError> {
    let example = "a number and B, KiB, MiB or GiB, as in 64MiB";
    scaled(text, &SIZES).ok_or_else(|| UnitError::new(text, "size", example))
}

/// Reads a duration.
pub fn parse_duration(text: &str) -> Result<Duration, UnitError> {
    let example = "a number and us, ms, s, m, h or d, as in 10s";
    let span = scaled(text, &SPANS).map(Duration::from_micros);
    span.ok_or_else(|| UnitError::new(text, "duration", example))
}

fn scaled(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let (_, factor) = units.iter().find(|(name, _)| *name == unit.trim_start())?;
    number.parse::<u64>().ok()?.checked_mul(*factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_binary_and_decimal_units() {
        assert_eq!(parse_size("4096"), Ok(4096));
        assert_eq!(parse_size("64MiB"), Ok(64 << 20));
        assert_eq!(parse_size("2 GiB"), Ok(2 << 30));
        assert_eq!(parse_size("1MB"), Ok(1_000_000));
        for bad in ["", "MiB", "-1", "1.5MiB", "9TiB", "99999999999999999999", "20000000000GiB"] {
            assert!(parse_size(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn durations_need_their_unit() {
        assert_eq!(parse_duration("40us"), Ok(Duration::from_micros(40)));
        assert_eq!(parse_duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(parse_duration("7d"), Ok(Duration::from_hours(7 * 24)));
        assert!(parse_duration("10").is_err(), "10 of what?");
        assert_eq!(parse_duration("10s"), Ok(Duration::from_secs(10)));
    }
}
