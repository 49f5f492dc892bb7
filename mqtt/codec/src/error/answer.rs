//! What a peer is told before its connection is closed for a fault.

use alloc::vec::Vec;

use zzq_types::{ProtocolVersion, ReasonCode};

use crate::{ConnAck, Disconnect, Encoder, Fault, Refusal};

/// The last packet for a faulty peer, if it gets one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The connection is closed without a word: MQTT 3 has none, or none is known yet.
    Close,
    /// A CONNACK that refuses, in the form of this version.
    ConnAck(ProtocolVersion, ReasonCode),
    /// A DISCONNECT of MQTT 5. A server that has not yet accepted the connection closes instead.
    Disconnect(ReasonCode),
}

impl Answer {
    /// The answer to a CONNECT whose version was read before the fault, if it was.
    //= MQTT311-3.1.2-2
    //= MQTT311-3.1.3-8
    //= MQTT311-3.1.3-9
    //= MQTT311-3.1.4-1
    //= MQTT5-3.1.2-1
    //= MQTT5-3.1.2-2
    //= MQTT5-3.1.4-1
    pub(crate) const fn to_connect(version: Option<ProtocolVersion>, fault: &Fault) -> Self {
        let reason = fault.reason_code();
        match (fault, version) {
            (Fault::Refused(Refusal::ProtocolName(0..=4)), _) => Self::Close,
            // Levels that a peer of today's or a later standard would name.
            (Fault::Refused(Refusal::ProtocolName(_) | Refusal::ProtocolLevel(5..=0x7F)), _) => {
                Self::ConnAck(ProtocolVersion::V5, reason)
            }
            (Fault::Refused(Refusal::ProtocolLevel(_)), _) => {
                Self::ConnAck(ProtocolVersion::V311, reason)
            }
            (Fault::Refused(_), Some(version)) => Self::ConnAck(version, reason),
            (_, Some(ProtocolVersion::V5)) => Self::ConnAck(ProtocolVersion::V5, reason),
            (_, _) => Self::Close,
        }
    }

    /// The answer to a fault on a connection whose version is agreed.
    pub(crate) const fn on_connection(version: Option<ProtocolVersion>, fault: &Fault) -> Self {
        match version {
            Some(ProtocolVersion::V5) => Self::Disconnect(fault.reason_code()),
            _ => Self::Close,
        }
    }

    /// Appends the answer's packet. Nothing where the version has no word for the reason: the
    /// connection is closed without one then.
    //= MQTT311-3.2.2-6
    pub fn encode(self, out: &mut Vec<u8>) {
        let version = match self {
            Self::ConnAck(version, _) => version,
            Self::Close | Self::Disconnect(_) => ProtocolVersion::V5,
        };
        let encoder = Encoder::new(version);
        // An encoder that refuses has appended nothing.
        let _unsayable = match self {
            Self::Close => Ok(()),
            Self::ConnAck(_, reason) => encoder.conn_ack(&ConnAck::refused(reason), out),
            Self::Disconnect(reason) => encoder.disconnect(&Disconnect::with_reason(reason), out),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Malformed, Violation};

    fn bytes(answer: Answer) -> Vec<u8> {
        let mut out = Vec::new();
        answer.encode(&mut out);
        out
    }

    #[test]
    fn unspoken_levels_are_refused_in_the_form_of_their_time() {
        //= MQTT311-3.1.2-2
        //= MQTT5-3.1.2-2
        let refused = |level| Answer::to_connect(None, &Refusal::ProtocolLevel(level).into());
        assert_eq!(bytes(refused(0)), [0x20, 2, 0, 1]);
        assert_eq!(bytes(refused(3)), [0x20, 2, 0, 1]);
        assert_eq!(bytes(refused(0x84)), [0x20, 2, 0, 1]);
        assert_eq!(bytes(refused(6)), [0x20, 3, 0, 0x84, 0]);
    }

    #[test]
    fn unknown_names_are_told_so_from_level_5_on() {
        //= MQTT311-3.1.2-1
        //= MQTT5-3.1.2-1
        let named = |level| Answer::to_connect(None, &Refusal::ProtocolName(level).into());
        assert_eq!(named(4), Answer::Close);
        assert_eq!(bytes(named(5)), [0x20, 3, 0, 0x84, 0]);
    }

    #[test]
    fn refused_client_identifiers_get_code_2() {
        //= MQTT311-3.1.3-8
        //= MQTT311-3.1.3-9
        let no_id = Refusal::NoClientId.into();
        let answer = Answer::to_connect(Some(ProtocolVersion::V311), &no_id);
        assert_eq!(bytes(answer), [0x20, 2, 0, 2]);
        let long = Refusal::ClientIdLength(24).into();
        let answer = Answer::to_connect(Some(ProtocolVersion::V31), &long);
        assert_eq!(bytes(answer), [0x20, 2, 0, 2]);
    }

    #[test]
    fn what_a_version_cannot_say_is_not_said() {
        //= MQTT311-3.2.2-6
        let reason = ReasonCode::QoSNotSupported;
        assert_eq!(bytes(Answer::ConnAck(ProtocolVersion::V311, reason)), []);
        assert_eq!(bytes(Answer::ConnAck(ProtocolVersion::V5, reason)), [0x20, 3, 0, 0x9B, 0]);
        assert_eq!(bytes(Answer::Close), []);
    }

    #[test]
    fn broken_connects_get_a_word_in_version_5_alone() {
        //= MQTT311-3.1.4-1
        //= MQTT5-3.1.4-1
        let cut = Malformed::Truncated.into();
        assert_eq!(Answer::to_connect(Some(ProtocolVersion::V31), &cut), Answer::Close);
        assert_eq!(Answer::to_connect(Some(ProtocolVersion::V311), &cut), Answer::Close);
        let answer = Answer::to_connect(Some(ProtocolVersion::V5), &cut);
        assert_eq!(bytes(answer), [0x20, 3, 0, 0x81, 0]);
    }

    #[test]
    fn connections_of_version_5_are_told_why_they_end() {
        //= MQTT311-4.8.0-1
        //= MQTT5-4.13.1-1
        let fault = Violation::ZeroPacketId.into();
        let answer = Answer::on_connection(Some(ProtocolVersion::V5), &fault);
        assert_eq!(bytes(answer), [0xE0, 1, 0x82]);
        for version in [None, Some(ProtocolVersion::V31), Some(ProtocolVersion::V311)] {
            assert_eq!(Answer::on_connection(version, &fault), Answer::Close);
        }
    }
}
