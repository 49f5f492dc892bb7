//! Quality of service: how often a message may arrive.

/// Quality of service of a message or the most that a subscription wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum QoS {
    /// QoS 0: at most once, unacknowledged.
    #[default]
    AtMostOnce = 0,
    /// QoS 1: at least once, acknowledged by PUBACK.
    AtLeastOnce = 1,
    /// QoS 2: exactly once, by PUBREC, PUBREL and PUBCOMP.
    ExactlyOnce = 2,
}

impl QoS {
    /// The level for the two bits of the wire; `None` for 3, which both versions forbid.
    pub const fn from_bits(bits: u8) -> Option<Self> {
        match bits {
            0 => Some(Self::AtMostOnce),
            1 => Some(Self::AtLeastOnce),
            2 => Some(Self::ExactlyOnce),
            _ => None,
        }
    }

    /// The two bits of the wire.
    pub const fn bits(self) -> u8 {
        self as u8
    }

    /// Whether a message at this level carries a packet identifier and is acknowledged.
    pub const fn is_acknowledged(self) -> bool {
        !matches!(self, Self::AtMostOnce)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_round_trip_and_three_is_no_level() {
        for level in [QoS::AtMostOnce, QoS::AtLeastOnce, QoS::ExactlyOnce] {
            assert_eq!(QoS::from_bits(level.bits()), Some(level));
        }
        assert_eq!(QoS::from_bits(3), None);
        assert_eq!(QoS::from_bits(4), None);
    }

    #[test]
    fn levels_order_by_strength() {
        assert_eq!(QoS::AtMostOnce.min(QoS::ExactlyOnce), QoS::AtMostOnce);
        assert!(QoS::AtLeastOnce.is_acknowledged() && !QoS::AtMostOnce.is_acknowledged());
    }
}
