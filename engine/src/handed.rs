//! How many records a lane has handed over: the count that its waiting answers are kept by.

use core::fmt;

/// The n-th record that this lane handed to the log since its start; [`Handed::NONE`] is before
/// the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Handed(u64);

impl Handed {
    /// Nothing was handed over yet.
    pub const NONE: Self = Self(0);

    /// The count with this value.
    pub const fn new(value: u64) -> Self {
        Self(value)
    }

    /// The value.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Handed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "h{}", self.0)
    }
}
