//! Log time for people: RFC 3339 in UTC, to the millisecond.

use std::fmt;

/// Milliseconds since 1970 that print as a date; beyond the year 9999 as a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Date(pub(crate) u64);

/// 10000-01-01.
const YEAR_10000_MS: u64 = 253_402_300_800_000;
const DAY_MS: u64 = 86_400_000;

impl fmt::Display for Date {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 >= YEAR_10000_MS {
            return write!(out, "{}ms", self.0);
        }
        let (year, month, day) = civil(self.0 / DAY_MS);
        let ms = self.0 % DAY_MS;
        let (hour, minute, second) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1000 % 60);
        write!(out, "{year:04}-{month:02}-{day:02}")?;
        write!(out, "T{hour:02}:{minute:02}:{second:02}.{:03}Z", ms % 1000)
    }
}

/// Year, month and day of a day since 1970, by eras of 400 years that begin in March.
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year + era * 400 + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_dates() {
        let dates = [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_700_000_000_123, "2023-11-14T22:13:20.123Z"),
            (4_107_542_399_999, "2100-02-28T23:59:59.999Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
            (YEAR_10000_MS - 1, "9999-12-31T23:59:59.999Z"),
            (YEAR_10000_MS, "253402300800000ms"),
        ];
        for (ms, date) in dates {
            assert_eq!(Date(ms).to_string(), date);
        }
    }
}
