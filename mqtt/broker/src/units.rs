//! Sizes and durations as people write them, how much of a log to keep, how long to poll.

pub use zzq_types::units::{UnitError, parse_duration, parse_size};

use zzq_lanes::BusyPoll;

use crate::options::Retention;

/// Reads whether lanes look for work before they sleep: `auto`, `off`, or for how long.
pub fn parse_busy_poll(text: &str) -> Result<BusyPoll, UnitError> {
    match text {
        "auto" => Ok(BusyPoll::Adaptive),
        "off" => Ok(BusyPoll::Off),
        _ => parse_duration(text)
            .map(BusyPoll::For)
            .map_err(|_| UnitError::new(text, "way to poll", "auto, off, or a span as in 40us")),
    }
}

/// Reads how much of a log to keep: a size, a duration, or both with a comma between.
pub fn parse_retention(text: &str) -> Result<Retention, UnitError> {
    let example = "1GiB, 7d or 1GiB,7d: at most one size and one duration";
    let failed = || UnitError::new(text, "size or duration of a log", example);
    let mut retention = Retention::default();
    for part in text.split(',') {
        let part = part.trim();
        let twice = match (parse_size(part), parse_duration(part)) {
            (Ok(bytes), _) => retention.bytes.replace(bytes).is_some(),
            (_, Ok(age)) => retention.age.replace(age).is_some(),
            _ => return Err(failed()),
        };
        if twice {
            return Err(failed());
        }
    }
    Ok(retention)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn polling_is_automatic_off_or_timed() {
        assert_eq!(parse_busy_poll("auto"), Ok(BusyPoll::Adaptive));
        assert_eq!(parse_busy_poll("off"), Ok(BusyPoll::Off));
        assert_eq!(parse_busy_poll("40us"), Ok(BusyPoll::For(Duration::from_micros(40))));
        for bad in ["", "on", "40", "1week"] {
            assert!(parse_busy_poll(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_log_is_kept_by_size_by_age_or_by_both() {
        let (bytes, age) = (Some(1 << 30), Some(Duration::from_hours(7 * 24)));
        assert_eq!(parse_retention("1GiB"), Ok(Retention { bytes, age: None }));
        assert_eq!(parse_retention("7d"), Ok(Retention { bytes: None, age }));
        assert_eq!(parse_retention("7d, 1GiB"), Ok(Retention { bytes, age }));
        for bad in ["", ",", "1GiB,", "7d,8d", "1GiB,2GiB", "1week", "1GiB 7d"] {
            let error = parse_retention(bad).unwrap_err().to_string();
            assert!(error.contains("1GiB,7d"), "{error}");
        }
    }
}
