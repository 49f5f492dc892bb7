//! Reason codes of MQTT 5, which also name outcomes inside the broker for older versions.

use core::fmt;

/// Why something went as it did; 0x80 and above are failures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum ReasonCode {
    /// Success; in SUBACK: QoS 0 granted; in DISCONNECT: normal.
    Success = 0x00,
    /// QoS 1 granted.
    GrantedQoS1 = 0x01,
    /// QoS 2 granted.
    GrantedQoS2 = 0x02,
    /// The client leaves and wants its will published.
    DisconnectWithWill = 0x04,
    /// Accepted, nobody subscribes.
    NoMatchingSubscribers = 0x10,
    /// UNSUBSCRIBE named no subscription.
    NoSubscriptionExisted = 0x11,
    /// The exchange goes on.
    ContinueAuthentication = 0x18,
    /// The client starts anew.
    ReAuthenticate = 0x19,
    /// No other code fits.
    UnspecifiedError = 0x80,
    /// The bytes are no packet.
    MalformedPacket = 0x81,
    /// The packet is not allowed here.
    ProtocolError = 0x82,
    /// Allowed, but not here.
    ImplementationSpecificError = 0x83,
    /// The version is not spoken.
    UnsupportedProtocolVersion = 0x84,
    /// The client identifier is refused.
    ClientIdentifierNotValid = 0x85,
    /// The credentials are refused.
    BadUserNameOrPassword = 0x86,
    /// The client may not do this.
    NotAuthorized = 0x87,
    /// The server is not available.
    ServerUnavailable = 0x88,
    /// The server is busy.
    ServerBusy = 0x89,
    /// The client is banned.
    Banned = 0x8A,
    /// The server stops.
    ServerShuttingDown = 0x8B,
    /// The method is not supported or changed.
    BadAuthenticationMethod = 0x8C,
    /// Silent for 1.5 times the keep alive.
    KeepAliveTimeout = 0x8D,
    /// Another connection uses the client identifier.
    SessionTakenOver = 0x8E,
    /// The filter is not accepted.
    TopicFilterInvalid = 0x8F,
    /// The topic name is not accepted.
    TopicNameInvalid = 0x90,
    /// The identifier is in use. The broker understands it and never says it: a PUBLISH under the
    /// identifier of an open one at QoS 2 is its repetition (MQTT5-4.3.3-10), and other answers
    /// belong to their requests by their type as well.
    PacketIdentifierInUse = 0x91,
    /// The identifier is not known.
    PacketIdentifierNotFound = 0x92,
    /// More than the receive maximum is under way.
    ReceiveMaximumExceeded = 0x93,
    /// The alias is 0 or above the maximum.
    TopicAliasInvalid = 0x94,
    /// The packet exceeds the maximum.
    PacketTooLarge = 0x95,
    /// Too many messages.
    MessageRateTooHigh = 0x96,
    /// A limit of the server is reached.
    QuotaExceeded = 0x97,
    /// An operator did it.
    AdministrativeAction = 0x98,
    /// The payload is not what its format says.
    PayloadFormatInvalid = 0x99,
    /// Retained messages are not available.
    RetainNotSupported = 0x9A,
    /// The QoS is not available.
    QoSNotSupported = 0x9B,
    /// Use the named server for now.
    UseAnotherServer = 0x9C,
    /// Use the named server for good.
    ServerMoved = 0x9D,
    /// Shared subscriptions are not available.
    SharedSubscriptionsNotSupported = 0x9E,
    /// Too many connections a second.
    ConnectionRateExceeded = 0x9F,
    /// The connection lasted as long as it may.
    MaximumConnectTime = 0xA0,
    /// Subscription identifiers are not available.
    SubscriptionIdentifiersNotSupported = 0xA1,
    /// Wildcard subscriptions are not available.
    WildcardSubscriptionsNotSupported = 0xA2,
}

impl ReasonCode {
    /// All codes, ascending.
    pub const ALL: [Self; 43] = [
        Self::Success,
        Self::GrantedQoS1,
        Self::GrantedQoS2,
        Self::DisconnectWithWill,
        Self::NoMatchingSubscribers,
        Self::NoSubscriptionExisted,
        Self::ContinueAuthentication,
        Self::ReAuthenticate,
        Self::UnspecifiedError,
        Self::MalformedPacket,
        Self::ProtocolError,
        Self::ImplementationSpecificError,
        Self::UnsupportedProtocolVersion,
        Self::ClientIdentifierNotValid,
        Self::BadUserNameOrPassword,
        Self::NotAuthorized,
        Self::ServerUnavailable,
        Self::ServerBusy,
        Self::Banned,
        Self::ServerShuttingDown,
        Self::BadAuthenticationMethod,
        Self::KeepAliveTimeout,
        Self::SessionTakenOver,
        Self::TopicFilterInvalid,
        Self::TopicNameInvalid,
        Self::PacketIdentifierInUse,
        Self::PacketIdentifierNotFound,
        Self::ReceiveMaximumExceeded,
        Self::TopicAliasInvalid,
        Self::PacketTooLarge,
        Self::MessageRateTooHigh,
        Self::QuotaExceeded,
        Self::AdministrativeAction,
        Self::PayloadFormatInvalid,
        Self::RetainNotSupported,
        Self::QoSNotSupported,
        Self::UseAnotherServer,
        Self::ServerMoved,
        Self::SharedSubscriptionsNotSupported,
        Self::ConnectionRateExceeded,
        Self::MaximumConnectTime,
        Self::SubscriptionIdentifiersNotSupported,
        Self::WildcardSubscriptionsNotSupported,
    ];

    /// The byte of the wire.
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// The code with this byte, in whatever packet.
    pub const fn from_code(code: u8) -> Option<Self> {
        Some(match code {
            0x00 => Self::Success,
            0x01 => Self::GrantedQoS1,
            0x02 => Self::GrantedQoS2,
            0x04 => Self::DisconnectWithWill,
            0x10 => Self::NoMatchingSubscribers,
            0x11 => Self::NoSubscriptionExisted,
            0x18 => Self::ContinueAuthentication,
            0x19 => Self::ReAuthenticate,
            0x80 => Self::UnspecifiedError,
            0x81 => Self::MalformedPacket,
            0x82 => Self::ProtocolError,
            0x83 => Self::ImplementationSpecificError,
            0x84 => Self::UnsupportedProtocolVersion,
            0x85 => Self::ClientIdentifierNotValid,
            0x86 => Self::BadUserNameOrPassword,
            0x87 => Self::NotAuthorized,
            0x88 => Self::ServerUnavailable,
            0x89 => Self::ServerBusy,
            0x8A => Self::Banned,
            0x8B => Self::ServerShuttingDown,
            0x8C => Self::BadAuthenticationMethod,
            0x8D => Self::KeepAliveTimeout,
            0x8E => Self::SessionTakenOver,
            0x8F => Self::TopicFilterInvalid,
            0x90 => Self::TopicNameInvalid,
            0x91 => Self::PacketIdentifierInUse,
            0x92 => Self::PacketIdentifierNotFound,
            0x93 => Self::ReceiveMaximumExceeded,
            0x94 => Self::TopicAliasInvalid,
            0x95 => Self::PacketTooLarge,
            0x96 => Self::MessageRateTooHigh,
            0x97 => Self::QuotaExceeded,
            0x98 => Self::AdministrativeAction,
            0x99 => Self::PayloadFormatInvalid,
            0x9A => Self::RetainNotSupported,
            0x9B => Self::QoSNotSupported,
            0x9C => Self::UseAnotherServer,
            0x9D => Self::ServerMoved,
            0x9E => Self::SharedSubscriptionsNotSupported,
            0x9F => Self::ConnectionRateExceeded,
            0xA0 => Self::MaximumConnectTime,
            0xA1 => Self::SubscriptionIdentifiersNotSupported,
            0xA2 => Self::WildcardSubscriptionsNotSupported,
            _ => return None,
        })
    }

    /// Whether the request failed.
    pub const fn is_failure(self) -> bool {
        self.code() >= 0x80
    }

    /// The name in words, lower case.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::GrantedQoS1 => "granted QoS 1",
            Self::GrantedQoS2 => "granted QoS 2",
            Self::DisconnectWithWill => "disconnect with will",
            Self::NoMatchingSubscribers => "no matching subscribers",
            Self::NoSubscriptionExisted => "no subscription existed",
            Self::ContinueAuthentication => "continue authentication",
            Self::ReAuthenticate => "re authenticate",
            Self::UnspecifiedError => "unspecified error",
            Self::MalformedPacket => "malformed packet",
            Self::ProtocolError => "protocol error",
            Self::ImplementationSpecificError => "implementation specific error",
            Self::UnsupportedProtocolVersion => "unsupported protocol version",
            Self::ClientIdentifierNotValid => "client identifier not valid",
            Self::BadUserNameOrPassword => "bad user name or password",
            Self::NotAuthorized => "not authorized",
            Self::ServerUnavailable => "server unavailable",
            Self::ServerBusy => "server busy",
            Self::Banned => "banned",
            Self::ServerShuttingDown => "server shutting down",
            Self::BadAuthenticationMethod => "bad authentication method",
            Self::KeepAliveTimeout => "keep alive timeout",
            Self::SessionTakenOver => "session taken over",
            Self::TopicFilterInvalid => "topic filter invalid",
            Self::TopicNameInvalid => "topic name invalid",
            Self::PacketIdentifierInUse => "packet identifier in use",
            Self::PacketIdentifierNotFound => "packet identifier not found",
            Self::ReceiveMaximumExceeded => "receive maximum exceeded",
            Self::TopicAliasInvalid => "topic alias invalid",
            Self::PacketTooLarge => "packet too large",
            Self::MessageRateTooHigh => "message rate too high",
            Self::QuotaExceeded => "quota exceeded",
            Self::AdministrativeAction => "administrative action",
            Self::PayloadFormatInvalid => "payload format invalid",
            Self::RetainNotSupported => "retain not supported",
            Self::QoSNotSupported => "QoS not supported",
            Self::UseAnotherServer => "use another server",
            Self::ServerMoved => "server moved",
            Self::SharedSubscriptionsNotSupported => "shared subscriptions not supported",
            Self::ConnectionRateExceeded => "connection rate exceeded",
            Self::MaximumConnectTime => "maximum connect time",
            Self::SubscriptionIdentifiersNotSupported => "subscription identifiers not supported",
            Self::WildcardSubscriptionsNotSupported => "wildcard subscriptions not supported",
        }
    }
}

impl fmt::Display for ReasonCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (0x{:02X})", self.name(), self.code())
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::string::ToString;

    #[test]
    fn codes_round_trip_and_ascend() {
        for pair in ReasonCode::ALL.windows(2) {
            assert!(pair[0] < pair[1]);
        }
        for byte in 0..=u8::MAX {
            let known = ReasonCode::ALL.iter().find(|reason| reason.code() == byte).copied();
            assert_eq!(ReasonCode::from_code(byte), known);
        }
    }

    #[test]
    fn failures_start_at_0x80_and_print_with_their_byte() {
        assert!(ReasonCode::UnspecifiedError.is_failure());
        assert!(!ReasonCode::ReAuthenticate.is_failure());
        assert_eq!(ReasonCode::SessionTakenOver.to_string(), "session taken over (0x8E)");
    }
}
