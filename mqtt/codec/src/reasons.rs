//! Which reason codes each packet of MQTT 5 may carry, and the return codes of MQTT 3.

use zzq_types::ReasonCode;

use crate::{Fault, Malformed, PacketType, Sender, Violation};

/// Reads a reason code that `sender` put into `packet`.
#[inline]
pub(crate) fn read(packet: PacketType, sender: Sender, code: u8) -> Result<ReasonCode, Fault> {
    let reason = ReasonCode::from_code(code).ok_or(Malformed::UnknownReason(code))?;
    if allowed(packet, sender, reason) { Ok(reason) } else { Err(Violation::Reason(reason).into()) }
}

/// Whether `sender` may put `reason` into `packet`.
//= MQTT5-3.2.2-8
//= MQTT5-3.4.2-1
//= MQTT5-3.5.2-1
//= MQTT5-3.6.2-1
//= MQTT5-3.7.2-1
//= MQTT5-3.9.3-2
//= MQTT5-3.11.3-2
//= MQTT5-3.14.2-1
//= MQTT5-3.15.2-1
//= MQTT5-4.12.0-2
//= MQTT5-4.12.0-3
#[inline]
pub(crate) const fn allowed(packet: PacketType, sender: Sender, reason: ReasonCode) -> bool {
    let code = reason.code();
    match packet {
        PacketType::ConnAck => matches!(
            code,
            0x00 | 0x80..=0x8A | 0x8C | 0x90 | 0x95 | 0x97 | 0x99..=0x9D | 0x9F
        ),
        PacketType::PubAck | PacketType::PubRec => {
            matches!(code, 0x00 | 0x10 | 0x80 | 0x83 | 0x87 | 0x90 | 0x91 | 0x97 | 0x99)
        }
        PacketType::PubRel | PacketType::PubComp => matches!(code, 0x00 | 0x92),
        PacketType::SubAck => matches!(
            code,
            0x00..=0x02 | 0x80 | 0x83 | 0x87 | 0x8F | 0x91 | 0x97 | 0x9E | 0xA1 | 0xA2
        ),
        PacketType::UnsubAck => matches!(code, 0x00 | 0x11 | 0x80 | 0x83 | 0x87 | 0x8F | 0x91),
        PacketType::Disconnect => match code {
            0x00 | 0x80..=0x83 | 0x90 | 0x93..=0x99 => true,
            0x04 => matches!(sender, Sender::Client),
            0x87 | 0x89 | 0x8B..=0x8F | 0x9A..=0xA2 => matches!(sender, Sender::Server),
            _ => false,
        },
        PacketType::Auth => match code {
            0x00 => matches!(sender, Sender::Server),
            0x18 => true,
            0x19 => matches!(sender, Sender::Client),
            _ => false,
        },
        _ => false,
    }
}

/// The return code that MQTT 3's CONNACK has for `reason`; `None` where no code fits.
//= MQTT311-3.2.2-6
pub(crate) const fn to_return_code(reason: ReasonCode) -> Option<u8> {
    Some(match reason {
        ReasonCode::Success => 0,
        ReasonCode::UnsupportedProtocolVersion => 1,
        ReasonCode::ClientIdentifierNotValid => 2,
        ReasonCode::ServerUnavailable
        | ReasonCode::ServerBusy
        | ReasonCode::ServerShuttingDown
        | ReasonCode::QuotaExceeded
        | ReasonCode::ConnectionRateExceeded => 3,
        ReasonCode::BadUserNameOrPassword => 4,
        ReasonCode::NotAuthorized | ReasonCode::Banned => 5,
        _ => return None,
    })
}

/// The reason that a return code of MQTT 3's CONNACK states.
pub(crate) fn from_return_code(code: u8) -> Result<ReasonCode, Fault> {
    Ok(match code {
        0 => ReasonCode::Success,
        1 => ReasonCode::UnsupportedProtocolVersion,
        2 => ReasonCode::ClientIdentifierNotValid,
        3 => ReasonCode::ServerUnavailable,
        4 => ReasonCode::BadUserNameOrPassword,
        5 => ReasonCode::NotAuthorized,
        _ => return Err(Malformed::UnknownReason(code).into()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use PacketType as P;

    type Codes = &'static [u8];

    /// The table of the standard: packet, codes of both sides, the client's, the server's.
    const TABLE: [(P, Codes, Codes, Codes); 9] = [
        (
            P::ConnAck,
            &[
                0x00, 0x80, 0x81, 0x82, 0x83, 0x84, 0x85, 0x86, 0x87, 0x88, 0x89, 0x8A, 0x8C, 0x90,
                0x95, 0x97, 0x99, 0x9A, 0x9B, 0x9C, 0x9D, 0x9F,
            ],
            &[],
            &[],
        ),
        (P::PubAck, &[0x00, 0x10, 0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99], &[], &[]),
        (P::PubRec, &[0x00, 0x10, 0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99], &[], &[]),
        (P::PubRel, &[0x00, 0x92], &[], &[]),
        (P::PubComp, &[0x00, 0x92], &[], &[]),
        (
            P::SubAck,
            &[0x00, 0x01, 0x02, 0x80, 0x83, 0x87, 0x8F, 0x91, 0x97, 0x9E, 0xA1, 0xA2],
            &[],
            &[],
        ),
        (P::UnsubAck, &[0x00, 0x11, 0x80, 0x83, 0x87, 0x8F, 0x91], &[], &[]),
        (
            P::Disconnect,
            &[0x00, 0x80, 0x81, 0x82, 0x83, 0x90, 0x93, 0x94, 0x95, 0x96, 0x97, 0x98, 0x99],
            &[0x04],
            &[
                0x87, 0x89, 0x8B, 0x8C, 0x8D, 0x8E, 0x8F, 0x9A, 0x9B, 0x9C, 0x9D, 0x9E, 0x9F, 0xA0,
                0xA1, 0xA2,
            ],
        ),
        (P::Auth, &[0x18], &[0x19], &[0x00]),
    ];

    #[test]
    fn packets_take_the_codes_of_the_table_and_no_others() {
        //= MQTT5-3.2.2-8
        //= MQTT5-3.4.2-1
        //= MQTT5-3.5.2-1
        //= MQTT5-3.6.2-1
        //= MQTT5-3.7.2-1
        //= MQTT5-3.9.3-2
        //= MQTT5-3.11.3-2
        //= MQTT5-3.14.2-1
        //= MQTT5-3.15.2-1
        //= MQTT5-4.12.0-2
        //= MQTT5-4.12.0-3
        for (packet, both, client, server) in TABLE {
            for code in 0..=u8::MAX {
                let from_client = both.contains(&code) || client.contains(&code);
                let from_server = both.contains(&code) || server.contains(&code);
                let read = |sender| read(packet, sender, code);
                assert_eq!(read(Sender::Client).is_ok(), from_client, "{packet} {code:02X}");
                assert_eq!(read(Sender::Server).is_ok(), from_server, "{packet} {code:02X}");
            }
        }
    }

    #[test]
    fn a_code_that_nobody_knows_is_malformed_and_a_misplaced_one_a_violation() {
        let unknown = read(P::PubAck, Sender::Client, 0x03).unwrap_err();
        assert_eq!(unknown.reason_code(), ReasonCode::MalformedPacket);
        let misplaced = read(P::PubAck, Sender::Client, 0x92).unwrap_err();
        assert_eq!(misplaced.reason_code(), ReasonCode::ProtocolError);
    }

    #[test]
    fn return_codes_round_trip() {
        //= MQTT311-3.2.2-6
        for code in 0..=u8::MAX {
            match from_return_code(code) {
                Ok(reason) => assert_eq!(to_return_code(reason), Some(code)),
                Err(fault) => assert_eq!(fault, Malformed::UnknownReason(code).into()),
            }
        }
        assert_eq!(to_return_code(ReasonCode::MalformedPacket), None);
        assert_eq!(to_return_code(ReasonCode::QoSNotSupported), None);
    }
}
