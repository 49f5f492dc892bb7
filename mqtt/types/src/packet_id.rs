//! Packet identifiers: 1 to 65 535.

use core::fmt;
use core::num::NonZeroU16;

/// The identifier of a SUBSCRIBE, UNSUBSCRIBE or QoS 1 and 2 PUBLISH under way; never 0.
//= MQTT311-2.3.1-1
//= MQTT5-2.2.1-3
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PacketId(NonZeroU16);

impl PacketId {
    /// How many identifiers there are.
    pub const COUNT: u16 = u16::MAX;

    /// The identifier, or `None` for 0.
    pub const fn new(id: u16) -> Option<Self> {
        match NonZeroU16::new(id) {
            Some(id) => Some(Self(id)),
            None => None,
        }
    }

    /// The identifier of the `n`-th message (from 1) of a session's queue: 1 + (n-1) mod 65 535.
    ///
    /// # Panics
    /// On queue number 0, which no message has.
    pub const fn of_queue_number(n: u64) -> Self {
        assert!(n > 0, "queue numbers start at 1");
        #[expect(clippy::cast_possible_truncation, reason = "a remainder below 65 535")]
        let below = ((n - 1) % Self::COUNT as u64) as u16;
        match NonZeroU16::new(below + 1) {
            Some(id) => Self(id),
            None => unreachable!(),
        }
    }

    /// The value of the wire.
    pub const fn get(self) -> u16 {
        self.0.get()
    }
}

impl fmt::Display for PacketId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_is_no_identifier() {
        //= MQTT311-2.3.1-1
        //= MQTT5-2.2.1-3
        assert_eq!(PacketId::new(0), None);
        assert_eq!(PacketId::new(7).map(PacketId::get), Some(7));
    }

    #[test]
    fn queue_numbers_wrap_after_65535() {
        assert_eq!(PacketId::of_queue_number(1).get(), 1);
        assert_eq!(PacketId::of_queue_number(65_535).get(), 65_535);
        assert_eq!(PacketId::of_queue_number(65_536).get(), 1);
        assert_eq!(PacketId::of_queue_number(u64::MAX).get(), 65_535);
    }
}
