//! What can be wrong with bytes that were to be a packet, split by fault, and what each fault is
//! answered by.

mod answer;

use core::fmt;

use thiserror::Error;
use zzq_types::{
    PropertyError, PropertyId, ReasonCode, SubscribeOptionsError, TextError, TopicError,
    VarintError,
};

use crate::PacketType;

pub use answer::Answer;

/// A fault in the bytes a peer sent. Every one ends the connection.
//= MQTT311-4.8.0-1
//= MQTT5-4.13.1-1
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodeError {
    packet: Option<PacketType>,
    fault: Fault,
    answer: Answer,
}

/// Whose fault it is, and which.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Fault {
    /// The bytes are no packet.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// The bytes are a packet that may not be sent, or not so.
    #[error(transparent)]
    Violation(#[from] Violation),
    /// A CONNECT that is understood and not accepted.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The packet is larger than was agreed.
    #[error("{size} bytes, at most {limit} are accepted")]
    TooLarge {
        /// The whole packet, header included.
        size: u32,
        /// [`crate::Limits::max_packet`].
        limit: u32,
    },
}

/// The bytes are no packet: reason code 0x81.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Malformed {
    /// Type 0, and 15 before MQTT 5.
    #[error("reserved packet type {0}")]
    ReservedType(u8),
    /// The low four bits of the first byte.
    #[error("header flags {0:04b}")]
    HeaderFlags(u8),
    /// QoS 3 in PUBLISH.
    #[error("QoS 3")]
    QoS3,
    /// DUP in a PUBLISH that is never sent again.
    #[error("DUP at QoS 0")]
    DupAtQoS0,
    /// The remaining length.
    #[error("remaining length: {0}")]
    RemainingLength(VarintError),
    /// The length of the properties.
    #[error("properties length: {0}")]
    PropertiesLength(VarintError),
    /// The packet ends inside a field.
    #[error("cut off")]
    Truncated,
    /// The packet goes on behind its last field.
    #[error("{0} bytes behind the last field")]
    TrailingBytes(usize),
    /// A string is no MQTT string.
    #[error("{0}: {1}")]
    Text(Field, TextError),
    /// A topic is no topic name.
    #[error("{0}: {1}")]
    Topic(Field, TopicError),
    /// The reserved bit of the connect flags.
    #[error("the reserved connect flag is set")]
    ReservedConnectFlag,
    /// QoS 3 for the will.
    #[error("will QoS 3")]
    WillQoS3,
    /// QoS or retain without a will.
    #[error("will QoS or retain without a will")]
    WillFlagsWithoutWill,
    /// MQTT 3 has no password without a user name.
    #[error("a password without a user name")]
    PasswordWithoutUserName,
    /// Reserved bits of CONNACK.
    #[error("acknowledge flags {0:08b}")]
    ConnAckFlags(u8),
    /// No reason has this code, in any packet.
    #[error("unknown reason code 0x{0:02X}")]
    UnknownReason(u8),
    /// Reserved bits of subscription options.
    #[error(transparent)]
    SubscribeOptions(SubscribeOptionsError),
    /// The block of properties.
    #[error(transparent)]
    Property(PropertyError),
}

/// The bytes are a packet that may not be sent, or not so: reason code 0x82 unless said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Violation {
    /// Something else came before CONNECT.
    #[error("before CONNECT")]
    NotConnected,
    /// A second CONNECT.
    #[error("a second time on one connection")]
    ConnectedTwice,
    /// The other side sends this type.
    #[error("from the side that never sends it")]
    WrongSender,
    /// Packet identifier 0.
    #[error("packet identifier 0")]
    ZeroPacketId,
    /// No topic and no alias.
    #[error("no topic and no alias")]
    NoTopic,
    /// Topic alias 0: reason code 0x94.
    #[error("topic alias 0")]
    ZeroTopicAlias,
    /// A request or its answer that lists nothing.
    #[error("an empty list")]
    NothingListed,
    /// QoS 3 or retain handling 3 in subscription options.
    #[error(transparent)]
    SubscribeOptions(SubscribeOptionsError),
    /// No Local in a shared subscription.
    #[error("No Local in a shared subscription")]
    NoLocalShared,
    /// The reason does not belong in this packet, or not from this side.
    #[error("reason '{0}' does not belong here")]
    Reason(ReasonCode),
    /// A property that only the other side sends in this packet.
    #[error("property {0:?} from the side that never sends it")]
    PropertyOfOther(PropertyId),
    /// AUTH goes on without naming its method.
    #[error("no authentication method")]
    NoAuthMethod,
    /// A refused connection has no session.
    #[error("session present in a refusal")]
    SessionInRefusal,
    /// The block of properties.
    #[error(transparent)]
    Property(PropertyError),
}

/// A CONNECT that is understood and not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// Neither `MQTT` nor `MQIsdp`; with the level found behind the name.
    #[error("unknown protocol name, level {0}")]
    ProtocolName(u8),
    /// A known name with a level that is not spoken.
    #[error("protocol level {0} is not spoken")]
    ProtocolLevel(u8),
    /// MQTT 3.1: a client identifier has 1 to 23 characters.
    #[error("a client identifier of {0} characters, MQTT 3.1 has 1 to 23")]
    ClientIdLength(usize),
    /// MQTT 3.1.1: no client identifier and a session to be kept.
    #[error("no client identifier and clean session 0")]
    NoClientId,
}

/// The string or topic that a fault is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "fields by their names in the standard")]
pub enum Field {
    ClientId,
    WillTopic,
    WillPayload,
    UserName,
    Password,
    Topic,
    Filter,
}

impl DecodeError {
    pub(crate) const fn new(packet: Option<PacketType>, fault: Fault, answer: Answer) -> Self {
        Self { packet, fault, answer }
    }

    /// The packet that the fault is in; `None` for the reserved type 0.
    pub const fn packet(&self) -> Option<PacketType> {
        self.packet
    }

    /// The fault.
    pub const fn fault(&self) -> Fault {
        self.fault
    }

    /// What the peer is told before the connection is closed.
    pub const fn answer(&self) -> Answer {
        self.answer
    }

    /// The reason code that MQTT 5 has for the fault.
    pub const fn reason_code(&self) -> ReasonCode {
        self.fault.reason_code()
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.packet {
            Some(packet) => write!(f, "{packet}: {}", self.fault),
            None => self.fault.fmt(f),
        }
    }
}

impl core::error::Error for DecodeError {}

impl Fault {
    /// The reason code that MQTT 5 has for the fault.
    pub const fn reason_code(&self) -> ReasonCode {
        match self {
            Self::Malformed(_) => ReasonCode::MalformedPacket,
            Self::Violation(Violation::ZeroTopicAlias) => ReasonCode::TopicAliasInvalid,
            Self::Violation(_) => ReasonCode::ProtocolError,
            Self::Refused(Refusal::ProtocolName(_) | Refusal::ProtocolLevel(_)) => {
                ReasonCode::UnsupportedProtocolVersion
            }
            Self::Refused(Refusal::ClientIdLength(_) | Refusal::NoClientId) => {
                ReasonCode::ClientIdentifierNotValid
            }
            Self::TooLarge { .. } => ReasonCode::PacketTooLarge,
        }
    }
}

impl From<PropertyError> for Fault {
    fn from(error: PropertyError) -> Self {
        if error.is_protocol_error() {
            Self::Violation(Violation::Property(error))
        } else {
            Self::Malformed(Malformed::Property(error))
        }
    }
}

impl From<SubscribeOptionsError> for Fault {
    fn from(error: SubscribeOptionsError) -> Self {
        match error {
            //= MQTT5-3.8.3-5
            SubscribeOptionsError::Reserved => Self::Malformed(Malformed::SubscribeOptions(error)),
            SubscribeOptionsError::QoS | SubscribeOptionsError::RetainHandling => {
                Self::Violation(Violation::SubscribeOptions(error))
            }
        }
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ClientId => "client identifier",
            Self::WillTopic => "will topic",
            Self::WillPayload => "will payload",
            Self::UserName => "user name",
            Self::Password => "password",
            Self::Topic => "topic",
            Self::Filter => "topic filter",
        })
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::string::ToString;

    #[test]
    fn errors_name_packet_and_fault() {
        let error = DecodeError::new(
            Some(PacketType::Subscribe),
            Violation::ZeroPacketId.into(),
            Answer::Disconnect(ReasonCode::ProtocolError),
        );
        assert_eq!(error.to_string(), "SUBSCRIBE: packet identifier 0");
        let fault = Malformed::Text(Field::ClientId, TextError::Nul).into();
        let error = DecodeError::new(Some(PacketType::Connect), fault, Answer::Close);
        assert_eq!(error.to_string(), "CONNECT: client identifier: U+0000 in a string");
        let error = DecodeError::new(None, Malformed::ReservedType(0).into(), Answer::Close);
        assert_eq!(error.to_string(), "reserved packet type 0");
    }

    #[test]
    fn property_faults_keep_their_side() {
        let repeated = Fault::from(PropertyError::Repeated(PropertyId::TopicAlias));
        assert_eq!(repeated.reason_code(), ReasonCode::ProtocolError);
        let unknown = Fault::from(PropertyError::Unknown(4));
        assert_eq!(unknown.reason_code(), ReasonCode::MalformedPacket);
    }
}
