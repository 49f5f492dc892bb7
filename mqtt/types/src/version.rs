//! Protocol versions that a connection can speak.

/// The version named by the protocol name and level of CONNECT.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum ProtocolVersion {
    /// MQTT 3.1: name `MQIsdp`, level 3.
    V31 = 3,
    /// MQTT 3.1.1: name `MQTT`, level 4.
    V311 = 4,
    /// MQTT 5.0: name `MQTT`, level 5.
    V5 = 5,
}

impl ProtocolVersion {
    /// The protocol name of CONNECT.
    pub const fn name(self) -> &'static str {
        match self {
            Self::V31 => "MQIsdp",
            Self::V311 | Self::V5 => "MQTT",
        }
    }

    /// The protocol level byte of CONNECT.
    pub const fn level(self) -> u8 {
        self as u8
    }

    /// The version with this protocol level, whatever the name.
    pub const fn from_level(level: u8) -> Option<Self> {
        match level {
            3 => Some(Self::V31),
            4 => Some(Self::V311),
            5 => Some(Self::V5),
            _ => None,
        }
    }

    /// Whether packets carry properties and reason codes.
    pub const fn is_v5(self) -> bool {
        matches!(self, Self::V5)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_round_trip() {
        for level in 0..=u8::MAX {
            match ProtocolVersion::from_level(level) {
                Some(version) => assert_eq!(version.level(), level),
                None => assert!(!(3..=5).contains(&level)),
            }
        }
    }
}
