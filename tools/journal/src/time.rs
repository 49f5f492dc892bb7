//! Log time for people: RFC 3339 in UTC, to the millisecond.

use std::fmt;

/// Milliseconds since 1970 that print as a date; beyond the year 9999 as a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Date(pub(crate) u64);

/// 10000-01-01.
const YEAR_10000_MS: u64 = 253_402_300_800_000;

impl fmt::Display for Date {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 >= YEAR_10000_MS {
            return write!(out, "{}ms", self.0);
        }
        out.write_str(&zzq_types::rfc3339(self.0))
    }
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
