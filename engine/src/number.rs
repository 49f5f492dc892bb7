//! Numbers that name things in records: incarnations of sessions, places in a queue,
//! subscriptions of a session.

use core::fmt;
use core::num::NonZeroU64;

use zzq_types::PacketId;

/// Names one incarnation of a session: from 1, never reused, chosen by its lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionNumber(NonZeroU64);

/// The n-th message of a session's queue, from 1; [`QueueNumber::ZERO`] is before all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueNumber(u64);

/// Names a subscription within its session; chosen by the lane, kept when it is replaced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SubNumber(u32);

impl SessionNumber {
    /// The first number of an empty log.
    pub const FIRST: Self = Self(NonZeroU64::MIN);

    /// The number with this value, or `None` for 0.
    pub const fn new(value: u64) -> Option<Self> {
        match NonZeroU64::new(value) {
            Some(value) => Some(Self(value)),
            None => None,
        }
    }

    /// The value.
    pub const fn get(self) -> u64 {
        self.0.get()
    }
}

impl QueueNumber {
    /// Before the first message.
    pub const ZERO: Self = Self(0);

    /// The number with this value.
    pub const fn new(value: u64) -> Self {
        Self(value)
    }

    /// The value.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The number behind this one.
    ///
    /// # Panics
    /// At the end of 64 bits, which no queue reaches: decoding refuses numbers above
    /// [`QueueNumber::MAX`].
    #[must_use]
    pub const fn next(self) -> Self {
        assert!(self.0 < u64::MAX, "a queue is out of numbers");
        Self(self.0 + 1)
    }

    /// The largest number that a record may name, so that sums never overflow.
    pub const MAX: Self = Self(u64::MAX >> 1);

    /// The packet identifier of this message; `None` for [`QueueNumber::ZERO`].
    pub const fn packet_id(self) -> Option<PacketId> {
        if self.0 == 0 { None } else { Some(PacketId::of_queue_number(self.0)) }
    }
}

impl SubNumber {
    /// The number with this value.
    pub const fn new(value: u32) -> Self {
        Self(value)
    }

    /// The value.
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl fmt::Display for SessionNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "s{}", self.0)
    }
}

impl fmt::Display for QueueNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "q{}", self.0)
    }
}

impl fmt::Display for SubNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "f{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_count_from_one() {
        assert_eq!(SessionNumber::new(0), None);
        assert_eq!(SessionNumber::new(1), Some(SessionNumber::FIRST));
        assert_eq!(SessionNumber::FIRST.to_string(), "s1");
    }

    #[test]
    fn queue_numbers_name_packet_identifiers() {
        assert_eq!(QueueNumber::ZERO.packet_id(), None);
        assert_eq!(QueueNumber::ZERO.next().packet_id().map(PacketId::get), Some(1));
        assert_eq!(QueueNumber::new(65_536).packet_id().map(PacketId::get), Some(1));
        assert_eq!(QueueNumber::MAX.next().get(), 1 << 63);
    }
}
