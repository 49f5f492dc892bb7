//! A record's place in the log, which users see as the offset.

use core::fmt;

/// Log sequence number: dense, from 1, never reused once committed. [`Lsn::ZERO`] is before all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lsn(u64);

impl Lsn {
    /// Before the first record.
    pub const ZERO: Self = Self(0);

    /// The sequence number with this value.
    pub const fn new(value: u64) -> Self {
        Self(value)
    }

    /// The value.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The place behind this one.
    ///
    /// # Panics
    /// At the end of 64 bits: a log that wrote a record each nanosecond gets there in 584 years.
    #[must_use]
    pub const fn next(self) -> Self {
        assert!(self.0 < u64::MAX, "the log is out of numbers");
        Self(self.0 + 1)
    }
}

impl fmt::Display for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "@{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::string::ToString;

    #[test]
    fn numbers_are_dense_from_one_and_print_as_offsets() {
        assert_eq!(Lsn::ZERO.next(), Lsn::new(1));
        assert_eq!(Lsn::new(41).next().to_string(), "@42");
        assert!(Lsn::new(2) > Lsn::new(1));
    }
}
