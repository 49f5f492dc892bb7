//! The fixed header: what a packet is and how long it will be, known before a byte of its body is
//! kept.

use zzq_types::{ProtocolVersion, VARINT_MAX, VarintError, read_varint};

use crate::{Fault, Malformed, PacketType};

const _: () = assert!(usize::BITS >= 32, "a remaining length is an index");

/// What a peer may send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The largest packet in bytes, header included: MQTT 5's Maximum Packet Size.
    pub max_packet: u32,
}

impl Default for Limits {
    /// What the encoding itself allows.
    fn default() -> Self {
        Self { max_packet: VARINT_MAX + 5 }
    }
}

/// The first two to five bytes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FixedHeader {
    packet: PacketType,
    first: u8,
    len: u8,
    remaining: u32,
}

impl FixedHeader {
    /// Reads the header at the front of `bytes`; `None` if more bytes are needed.
    //= MQTT5-1.5.5-1
    #[inline]
    pub(crate) fn read(
        packet: PacketType,
        bytes: &[u8],
        limits: Limits,
        version: Option<ProtocolVersion>,
    ) -> Result<Option<Self>, Fault> {
        let (&first, rest) = bytes.split_first().ok_or(Malformed::Truncated)?;
        let (remaining, taken) = match read_varint(rest) {
            Ok(read) => read,
            Err(VarintError::Truncated) => return Ok(None),
            Err(fault) => return Err(Malformed::RemainingLength(fault).into()),
        };
        let Ok(len) = u8::try_from(1 + taken) else { return Err(Malformed::Truncated.into()) };
        let size = u32::from(len) + remaining;
        if size > limits.max_packet {
            return Err(Fault::TooLarge { size, limit: limits.max_packet });
        }
        let header = Self { packet, first, len, remaining };
        header.check_body_len(version)?;
        Ok(Some(header))
    }

    /// The packet's type.
    #[inline]
    pub const fn packet(self) -> PacketType {
        self.packet
    }

    /// The first byte: type and flags.
    #[inline]
    pub const fn first_byte(self) -> u8 {
        self.first
    }

    /// The header's own length: 2 to 5.
    #[inline]
    pub const fn header_len(self) -> usize {
        self.len as usize
    }

    /// The length of what follows the header.
    #[inline]
    pub const fn body_len(self) -> usize {
        self.remaining as usize
    }

    /// The whole packet, header included.
    #[inline]
    pub const fn total_len(self) -> usize {
        self.header_len() + self.body_len()
    }

    /// Packets of a fixed size are held to it before they are waited for.
    #[inline]
    fn check_body_len(self, version: Option<ProtocolVersion>) -> Result<(), Malformed> {
        let most = match self.packet {
            PacketType::Publish | PacketType::Connect => return Ok(()),
            PacketType::PingReq | PacketType::PingResp => 0,
            _ if matches!(version, Some(ProtocolVersion::V5)) => return Ok(()),
            PacketType::Disconnect => 0,
            PacketType::ConnAck
            | PacketType::PubAck
            | PacketType::PubRec
            | PacketType::PubRel
            | PacketType::PubComp
            | PacketType::UnsubAck => 2,
            _ => return Ok(()),
        };
        match self.body_len().checked_sub(most) {
            None | Some(0) => Ok(()),
            Some(more) => Err(Malformed::TrailingBytes(more)),
        }
    }
}

/// Checks the low four bits of a first byte.
//= MQTT311-2.2.2-1
//= MQTT311-2.2.2-2
//= MQTT311-3.3.1-2
//= MQTT311-3.3.1-4
//= MQTT311-3.6.1-1
//= MQTT311-3.8.1-1
//= MQTT311-3.10.1-1
//= MQTT311-3.14.1-1
//= MQTT311-4.3.1-1
//= MQTT5-2.1.3-1
//= MQTT5-3.3.1-2
//= MQTT5-3.3.1-4
//= MQTT5-3.6.1-1
//= MQTT5-3.8.1-1
//= MQTT5-3.10.1-1
//= MQTT5-3.14.1-1
//= MQTT5-3.15.1-1
//= MQTT5-4.3.1-1
#[inline]
pub(crate) const fn check_flags(
    packet: PacketType,
    first: u8,
    version: Option<ProtocolVersion>,
) -> Result<(), Malformed> {
    let flags = first & 0x0F;
    let good = match packet {
        PacketType::Publish => {
            return match flags >> 1 & 3 {
                3 => Err(Malformed::QoS3),
                0 if flags & 8 != 0 => Err(Malformed::DupAtQoS0),
                _ => Ok(()),
            };
        }
        // MQTT 3.1 sends these again with DUP.
        PacketType::PubRel | PacketType::Subscribe | PacketType::Unsubscribe => {
            flags == 2 || flags == 0b1010 && matches!(version, Some(ProtocolVersion::V31))
        }
        _ => flags == 0,
    };
    if good { Ok(()) } else { Err(Malformed::HeaderFlags(flags)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use PacketType as P;

    const V31: Option<ProtocolVersion> = Some(ProtocolVersion::V31);
    const V311: Option<ProtocolVersion> = Some(ProtocolVersion::V311);
    const V5: Option<ProtocolVersion> = Some(ProtocolVersion::V5);

    #[test]
    fn flags_have_their_tabulated_values() {
        //= MQTT311-2.2.2-1
        //= MQTT311-2.2.2-2
        //= MQTT311-3.6.1-1
        //= MQTT311-3.8.1-1
        //= MQTT311-3.10.1-1
        //= MQTT311-3.14.1-1
        //= MQTT5-2.1.3-1
        //= MQTT5-3.6.1-1
        //= MQTT5-3.8.1-1
        //= MQTT5-3.10.1-1
        //= MQTT5-3.14.1-1
        //= MQTT5-3.15.1-1
        for packet in PacketType::ALL.into_iter().filter(|packet| *packet != P::Publish) {
            let wanted = matches!(packet, P::PubRel | P::Subscribe | P::Unsubscribe);
            for flags in 0..16_u8 {
                for version in [V31, V311, V5] {
                    let again = wanted && version == V31 && flags == 0b1010;
                    let good = flags == if wanted { 2 } else { 0 } || again;
                    let checked = check_flags(packet, packet.bits() | flags, version);
                    assert_eq!(checked.is_ok(), good, "{packet} {flags:04b} {version:?}");
                }
            }
        }
    }

    #[test]
    fn publish_has_no_qos_3_and_no_dup_at_qos_0() {
        //= MQTT311-3.3.1-2
        //= MQTT311-3.3.1-4
        //= MQTT311-4.3.1-1
        //= MQTT5-3.3.1-2
        //= MQTT5-3.3.1-4
        //= MQTT5-4.3.1-1
        for flags in 0..16_u8 {
            let checked = check_flags(P::Publish, 0x30 | flags, V5);
            match flags {
                0b0110 | 0b0111 | 0b1110 | 0b1111 => assert_eq!(checked, Err(Malformed::QoS3)),
                0b1000 | 0b1001 => assert_eq!(checked, Err(Malformed::DupAtQoS0)),
                _ => assert_eq!(checked, Ok(())),
            }
        }
    }

    #[test]
    fn the_limit_counts_the_header() {
        let limits = Limits { max_packet: 130 };
        let fits = FixedHeader::read(P::Publish, &[0x30, 0x7F], limits, V311).unwrap().unwrap();
        assert_eq!((fits.total_len(), fits.header_len(), fits.body_len()), (129, 2, 127));
        let over = FixedHeader::read(P::Publish, &[0x30, 0x80, 0x01], limits, V311);
        assert_eq!(over, Err(Fault::TooLarge { size: 131, limit: 130 }));
    }

    #[test]
    fn the_longest_packet_is_known_from_five_bytes() {
        let bytes = [0x30, 0xFF, 0xFF, 0xFF, 0x7F];
        let header =
            FixedHeader::read(P::Publish, &bytes, Limits::default(), V311).unwrap().unwrap();
        assert_eq!(header.total_len(), 268_435_460);
        for cut in 1..5 {
            let read = FixedHeader::read(P::Publish, &bytes[..cut], Limits::default(), V311);
            assert_eq!(read, Ok(None));
        }
    }

    #[test]
    fn overlong_lengths_are_malformed() {
        //= MQTT5-1.5.5-1
        for (bytes, fault) in [
            (&[0x30, 0x80, 0x00][..], VarintError::Overlong),
            (&[0x30, 0xFF, 0xFF, 0xFF, 0xFF], VarintError::TooLong),
        ] {
            let read = FixedHeader::read(P::Publish, bytes, Limits::default(), V311);
            assert_eq!(read, Err(Malformed::RemainingLength(fault).into()));
        }
    }

    #[test]
    fn fixed_sizes_are_held_to_at_the_header() {
        let check = |packet: P, len, version| {
            let bytes = [packet.bits(), len];
            FixedHeader::read(packet, &bytes, Limits::default(), version).map(|_| ())
        };
        for version in [V31, V311, V5] {
            assert_eq!(check(P::PingReq, 1, version), Err(Malformed::TrailingBytes(1).into()));
            assert_eq!(check(P::PingReq, 0, version), Ok(()));
        }
        assert_eq!(check(P::PubAck, 9, V311), Err(Malformed::TrailingBytes(7).into()));
        assert_eq!(check(P::PubAck, 9, V5), Ok(()));
        assert_eq!(check(P::Disconnect, 1, V31), Err(Malformed::TrailingBytes(1).into()));
        assert_eq!(check(P::SubAck, 9, V31), Ok(()));
    }
}
