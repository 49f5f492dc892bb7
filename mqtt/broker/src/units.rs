//! Sizes and durations as people write them: `64MiB`, `10s`.

use std::time::Duration;

/// Why a size or duration cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{given}' is no {what}: write {example}")]
pub struct UnitError {
    given: String,
    what: &'static str,
    example: &'static str,
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

const SPANS: [(&str, u64); 5] =
    [("ms", 1), ("s", 1000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];

/// Reads a number of bytes.
pub fn parse_size(text: &str) -> Result<u64, UnitError> {
    scaled(text, &SIZES).ok_or_else(|| UnitError {
        given: text.to_owned(),
        what: "size",
        example: "a number and B, KiB, MiB or GiB, as in 64MiB",
    })
}

/// Reads a duration.
pub fn parse_duration(text: &str) -> Result<Duration, UnitError> {
    scaled(text, &SPANS).map(Duration::from_millis).ok_or_else(|| UnitError {
        given: text.to_owned(),
        what: "duration",
        example: "a number and ms, s, m, h or d, as in 10s",
    })
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
        assert_eq!(parse_duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(parse_duration("7d"), Ok(Duration::from_hours(7 * 24)));
        assert!(parse_duration("10").is_err(), "10 of what?");
        assert_eq!(parse_duration("10s"), Ok(Duration::from_secs(10)));
    }
}
