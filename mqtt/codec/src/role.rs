//! Packet types and who may send them.

use core::fmt;

/// Who sent the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sender {
    /// A client, bridges among them; read by a server.
    Client,
    /// A server; read by a client.
    Server,
}

/// The type of a control packet: the high four bits of its first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
#[expect(missing_docs, reason = "the packets by their names")]
pub enum PacketType {
    Connect = 1,
    ConnAck = 2,
    Publish = 3,
    PubAck = 4,
    PubRec = 5,
    PubRel = 6,
    PubComp = 7,
    Subscribe = 8,
    SubAck = 9,
    Unsubscribe = 10,
    UnsubAck = 11,
    PingReq = 12,
    PingResp = 13,
    Disconnect = 14,
    /// MQTT 5 only; reserved before.
    Auth = 15,
}

impl PacketType {
    /// All types, ascending.
    pub const ALL: [Self; 15] = [
        Self::Connect,
        Self::ConnAck,
        Self::Publish,
        Self::PubAck,
        Self::PubRec,
        Self::PubRel,
        Self::PubComp,
        Self::Subscribe,
        Self::SubAck,
        Self::Unsubscribe,
        Self::UnsubAck,
        Self::PingReq,
        Self::PingResp,
        Self::Disconnect,
        Self::Auth,
    ];

    /// The type in the first byte of a packet; `None` for the reserved type 0.
    #[inline]
    pub const fn from_first_byte(byte: u8) -> Option<Self> {
        Some(match byte >> 4 {
            1 => Self::Connect,
            2 => Self::ConnAck,
            3 => Self::Publish,
            4 => Self::PubAck,
            5 => Self::PubRec,
            6 => Self::PubRel,
            7 => Self::PubComp,
            8 => Self::Subscribe,
            9 => Self::SubAck,
            10 => Self::Unsubscribe,
            11 => Self::UnsubAck,
            12 => Self::PingReq,
            13 => Self::PingResp,
            14 => Self::Disconnect,
            15 => Self::Auth,
            _ => return None,
        })
    }

    /// The type in its place in the first byte, flags 0.
    #[inline]
    pub const fn bits(self) -> u8 {
        (self as u8) << 4
    }

    /// Whether `sender` may send the type at all.
    #[inline]
    pub const fn sent_by(self, sender: Sender) -> bool {
        match self {
            Self::Connect | Self::Subscribe | Self::Unsubscribe | Self::PingReq => {
                matches!(sender, Sender::Client)
            }
            Self::ConnAck | Self::SubAck | Self::UnsubAck | Self::PingResp => {
                matches!(sender, Sender::Server)
            }
            // A server's DISCONNECT is MQTT 5's alone: the caller knows the version.
            Self::Publish
            | Self::PubAck
            | Self::PubRec
            | Self::PubRel
            | Self::PubComp
            | Self::Disconnect
            | Self::Auth => true,
        }
    }

    /// The name in capitals, as the standard writes it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Connect => "CONNECT",
            Self::ConnAck => "CONNACK",
            Self::Publish => "PUBLISH",
            Self::PubAck => "PUBACK",
            Self::PubRec => "PUBREC",
            Self::PubRel => "PUBREL",
            Self::PubComp => "PUBCOMP",
            Self::Subscribe => "SUBSCRIBE",
            Self::SubAck => "SUBACK",
            Self::Unsubscribe => "UNSUBSCRIBE",
            Self::UnsubAck => "UNSUBACK",
            Self::PingReq => "PINGREQ",
            Self::PingResp => "PINGRESP",
            Self::Disconnect => "DISCONNECT",
            Self::Auth => "AUTH",
        }
    }
}

impl fmt::Display for PacketType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_round_trip_through_the_first_byte() {
        for byte in 0..=u8::MAX {
            match PacketType::from_first_byte(byte) {
                Some(packet) => assert_eq!(packet.bits(), byte & 0xF0),
                None => assert!(byte < 0x10),
            }
        }
        for packet in PacketType::ALL {
            assert_eq!(PacketType::from_first_byte(packet.bits()), Some(packet));
        }
    }

    #[test]
    fn requests_come_from_clients_and_their_answers_from_servers() {
        use PacketType as P;
        for packet in PacketType::ALL {
            let (client, server) = (packet.sent_by(Sender::Client), packet.sent_by(Sender::Server));
            let only_clients =
                matches!(packet, P::Connect | P::Subscribe | P::Unsubscribe | P::PingReq);
            let only_servers = matches!(packet, P::ConnAck | P::SubAck | P::UnsubAck | P::PingResp);
            assert_eq!((client, server), (!only_servers, !only_clients), "{packet}");
        }
    }
}
