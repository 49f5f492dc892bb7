//! The two numbers of a record: its place in the log, and its place among what one producer gave.
//!
//! Owns: `Lsn` and `Handed`. Does not know: where a record lies.

use std::fmt;

/// Log sequence number of a record: dense, from 1, never reused once durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lsn(u64);

impl Lsn {
    /// Before the first record.
    pub const ZERO: Self = Self(0);
    /// The first record of a log.
    pub const FIRST: Self = Self(1);

    /// The sequence number with this value.
    pub const fn new(value: u64) -> Self {
        Self(value)
    }

    /// The value.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The one after.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }

    /// The one `count` further on.
    #[must_use]
    pub const fn plus(self, count: u64) -> Self {
        Self(self.0 + count)
    }
}

impl fmt::Display for Lsn {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "@{}", self.0)
    }
}

/// How many records one producer has handed to the log up to and with this one: 1, 2, 3, ...
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Handed(u64);

impl Handed {
    /// Nothing yet.
    pub const ZERO: Self = Self(0);

    /// The count with this value.
    pub const fn new(value: u64) -> Self {
        Self(value)
    }

    /// The value.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The one after.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}
