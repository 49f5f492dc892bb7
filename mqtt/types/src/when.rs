//! Moments as people write them: `2026-05-01T12:00:00Z`, milliseconds since 1970, `-1h`, or a place
//! in the log, `@17`.
//!
//! Owns: the proleptic calendar, and RFC 3339 to and from milliseconds. Does not know: clocks.

use alloc::format;
use alloc::string::String;

use crate::units::parse_duration;

/// A moment of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// This offset.
    Offset(u64),
    /// This time, in ms since 1970.
    Time(u64),
    /// So many ms ago.
    Ago(u64),
}

impl Moment {
    /// Reads `@OFFSET`, an RFC 3339 time, ms since 1970, or `-SPAN`; `None` if it is none.
    pub fn parse(text: &str) -> Option<Self> {
        let number = |digits: &str| {
            let only = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
            only.then(|| digits.parse().ok()).flatten()
        };
        if let Some(offset) = text.strip_prefix('@') {
            // No offset is beyond what a signed number holds.
            return number(offset).filter(|offset| *offset < 1 << 62).map(Self::Offset);
        }
        if let Some(span) = text.strip_prefix('-') {
            let span = parse_duration(span).ok()?.as_millis();
            return u64::try_from(span).ok().map(Self::Ago);
        }
        number(text).or_else(|| parse_rfc3339(text)).map(Self::Time)
    }
}

const DAY_MS: u64 = 86_400_000;

/// Reads an RFC 3339 time as milliseconds since 1970; `None` if it is none, or before that.
pub fn parse_rfc3339(text: &str) -> Option<u64> {
    let bytes = text.as_bytes();
    let number = |from: usize, to: usize| digits(bytes.get(from..to)?);
    let at = |index: usize, any: &[u8]| bytes.get(index).is_some_and(|byte| any.contains(byte));
    let shaped = at(4, b"-") && at(7, b"-") && at(10, b"Tt ") && at(13, b":") && at(16, b":");
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    let in_range = (1..=12).contains(&month)
        && (1..=days_in(year, month)).contains(&day)
        && hour < 24
        && minute < 60
        // A leap second is the moment behind it.
        && second <= 60;
    if !shaped || !in_range {
        return None;
    }
    let (fraction_ms, zone) = fraction(bytes.get(19..)?)?;
    let offset_minutes = zone_minutes(zone)?;
    let days = days_before(year, month, day)?;
    let of_day = ((hour * 60 + minute) * 60 + second) * 1000 + fraction_ms;
    let local = i64::try_from(days * DAY_MS + of_day).ok()?;
    u64::try_from(local - offset_minutes * 60_000).ok()
}

/// Writes milliseconds since 1970 as RFC 3339, in UTC.
pub fn rfc3339(ms: u64) -> String {
    let (days, of_day) = (ms / DAY_MS, ms % DAY_MS);
    let (year, month, day) = date(days);
    let (seconds, ms) = (of_day / 1000, of_day % 1000);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z")
}

/// A fraction of a second in whole milliseconds, if there is one, and what is behind it.
fn fraction(rest: &[u8]) -> Option<(u64, &[u8])> {
    let Some(rest) = rest.strip_prefix(b".") else { return Some((0, rest)) };
    let len = rest.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(rest.len());
    let (digits, zone) = rest.split_at(len);
    let whole = digits.iter().chain([b'0', b'0'].iter()).take(3);
    let ms = whole.fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0'));
    (len > 0).then_some((ms, zone))
}

fn zone_minutes(zone: &[u8]) -> Option<i64> {
    let sign = match zone.first()? {
        b'Z' | b'z' if zone.len() == 1 => return Some(0),
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    if zone.len() != 6 || zone[3] != b':' {
        return None;
    }
    let (hours, minutes) = (digits(&zone[1..3])?, digits(&zone[4..6])?);
    let minutes = (hours < 24 && minutes < 60).then_some(hours * 60 + minutes)?;
    Some(sign * i64::try_from(minutes).ok()?)
}

fn digits(bytes: &[u8]) -> Option<u64> {
    let all = bytes.iter().all(u8::is_ascii_digit);
    all.then(|| bytes.iter().fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0')))
}

const fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

const fn days_in(year: u64, month: u64) -> u64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Leap days in all years before this one.
const fn leap_days(year: u64) -> u64 {
    let before = year.saturating_sub(1);
    before / 4 - before / 100 + before / 400
}

/// Days from 1970 to a date.
fn days_before(year: u64, month: u64, day: u64) -> Option<u64> {
    let years = year.checked_sub(1970)? * 365 + leap_days(year) - leap_days(1970);
    let months: u64 = (1..month).map(|month| days_in(year, month)).sum();
    Some(years + months + day - 1)
}

/// The date so many days behind the first of 1970.
fn date(days: u64) -> (u64, u64, u64) {
    // No year is longer than 366 days, so the guess is never too late.
    let mut year = 1970 + days / 366;
    let starts = |year| days_before(year, 1, 1).unwrap_or(0);
    while starts(year + 1) <= days {
        year += 1;
    }
    let mut left = days - starts(year);
    let mut month = 1;
    while left >= days_in(year, month) {
        left -= days_in(year, month);
        month += 1;
    }
    (year, month, left + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_a_place_or_a_time() {
        assert_eq!(Moment::parse("@17"), Some(Moment::Offset(17)));
        assert_eq!(Moment::parse("1700000000000"), Some(Moment::Time(1_700_000_000_000)));
        assert_eq!(Moment::parse("2026-05-01T12:00:00Z"), Some(Moment::Time(1_777_636_800_000)));
        assert_eq!(Moment::parse("-1h"), Some(Moment::Ago(3_600_000)));
        for bad in ["now", "@", "@-1", "@9999999999999999999", "-1", "1h", "+5", "", "2026-05-01"] {
            assert_eq!(Moment::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn moments_are_read_and_written() {
        let moments = [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_709_251_199_999, "2024-02-29T23:59:59.999Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        ];
        for (ms, text) in moments {
            assert_eq!((parse_rfc3339(text), &*rfc3339(ms)), (Some(ms), text));
        }
        for day in 0..100_000 {
            assert_eq!(parse_rfc3339(&rfc3339(day * DAY_MS + 1)), Some(day * DAY_MS + 1));
        }
    }

    #[test]
    fn zones_and_fractions_count() {
        let noon = parse_rfc3339("2026-05-01T12:00:00Z");
        assert!(noon.is_some());
        for same in
            ["2026-05-01T14:00:00+02:00", "2026-05-01t06:30:00.0-05:30", "2026-05-01 12:00:00.000z"]
        {
            assert_eq!(parse_rfc3339(same), noon, "{same}");
        }
        let later = parse_rfc3339("2026-05-01T12:00:00.1239Z");
        assert_eq!(later, noon.map(|noon| noon + 123));
    }

    #[test]
    fn what_is_no_moment_is_refused() {
        for bad in [
            "",
            "2026-05-01",
            "2026-05-01T12:00:00",
            "2026-02-29T12:00:00Z",
            "2026-13-01T12:00:00Z",
            "2026-05-01T24:00:00Z",
            "2026-05-01T12:00:00.Z",
            "2026-05-01T12:00:00+2:00",
            "1969-12-31T23:59:59Z",
            "2026-05-01T12:00:00ZZ",
            "20a6-05-01T12:00:00Z",
        ] {
            assert_eq!(parse_rfc3339(bad), None, "{bad}");
        }
    }
}
