//! The properties of MQTT 5: identifiers, types and where each may stand.

use crate::PropertyScope;

/// How a property's value is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PropertyKind {
    /// One byte.
    Byte,
    /// Two bytes, big-endian.
    U16,
    /// Four bytes, big-endian.
    U32,
    /// A variable byte integer.
    Varint,
    /// A UTF-8 string behind its two-byte length.
    Text,
    /// Bytes behind their two-byte length.
    Binary,
    /// Two strings.
    Pair,
}

/// A property's identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum PropertyId {
    /// Payload Format Indicator.
    PayloadFormat = 0x01,
    /// Message Expiry Interval in seconds.
    MessageExpiry = 0x02,
    /// Content Type.
    ContentType = 0x03,
    /// Response Topic.
    ResponseTopic = 0x08,
    /// Correlation Data.
    CorrelationData = 0x09,
    /// Subscription Identifier.
    SubscriptionId = 0x0B,
    /// Session Expiry Interval in seconds.
    SessionExpiry = 0x11,
    /// Assigned Client Identifier.
    AssignedClientId = 0x12,
    /// Server Keep Alive in seconds.
    ServerKeepAlive = 0x13,
    /// Authentication Method.
    AuthMethod = 0x15,
    /// Authentication Data.
    AuthData = 0x16,
    /// Request Problem Information.
    RequestProblemInfo = 0x17,
    /// Will Delay Interval in seconds.
    WillDelay = 0x18,
    /// Request Response Information.
    RequestResponseInfo = 0x19,
    /// Response Information.
    ResponseInfo = 0x1A,
    /// Server Reference.
    ServerReference = 0x1C,
    /// Reason String.
    ReasonString = 0x1F,
    /// Receive Maximum.
    ReceiveMaximum = 0x21,
    /// Topic Alias Maximum.
    TopicAliasMaximum = 0x22,
    /// Topic Alias.
    TopicAlias = 0x23,
    /// Maximum QoS.
    MaximumQoS = 0x24,
    /// Retain Available.
    RetainAvailable = 0x25,
    /// User Property.
    UserProperty = 0x26,
    /// Maximum Packet Size in bytes.
    MaximumPacketSize = 0x27,
    /// Wildcard Subscription Available.
    WildcardAvailable = 0x28,
    /// Subscription Identifier Available.
    SubscriptionIdAvailable = 0x29,
    /// Shared Subscription Available.
    SharedAvailable = 0x2A,
}

/// A property with its value, borrowed from the block it stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Property<'a> {
    /// Payload Format Indicator.
    PayloadFormat(u8),
    /// Message Expiry Interval in seconds.
    MessageExpiry(u32),
    /// Content Type.
    ContentType(&'a str),
    /// Response Topic.
    ResponseTopic(&'a str),
    /// Correlation Data.
    CorrelationData(&'a [u8]),
    /// Subscription Identifier.
    SubscriptionId(u32),
    /// Session Expiry Interval in seconds.
    SessionExpiry(u32),
    /// Assigned Client Identifier.
    AssignedClientId(&'a str),
    /// Server Keep Alive in seconds.
    ServerKeepAlive(u16),
    /// Authentication Method.
    AuthMethod(&'a str),
    /// Authentication Data.
    AuthData(&'a [u8]),
    /// Request Problem Information.
    RequestProblemInfo(u8),
    /// Will Delay Interval in seconds.
    WillDelay(u32),
    /// Request Response Information.
    RequestResponseInfo(u8),
    /// Response Information.
    ResponseInfo(&'a str),
    /// Server Reference.
    ServerReference(&'a str),
    /// Reason String.
    ReasonString(&'a str),
    /// Receive Maximum.
    ReceiveMaximum(u16),
    /// Topic Alias Maximum.
    TopicAliasMaximum(u16),
    /// Topic Alias.
    TopicAlias(u16),
    /// Maximum QoS.
    MaximumQoS(u8),
    /// Retain Available.
    RetainAvailable(u8),
    /// User Property.
    UserProperty(&'a str, &'a str),
    /// Maximum Packet Size in bytes.
    MaximumPacketSize(u32),
    /// Wildcard Subscription Available.
    WildcardAvailable(u8),
    /// Subscription Identifier Available.
    SubscriptionIdAvailable(u8),
    /// Shared Subscription Available.
    SharedAvailable(u8),
}

impl PropertyId {
    /// All identifiers, ascending.
    pub const ALL: [Self; 27] = [
        Self::PayloadFormat,
        Self::MessageExpiry,
        Self::ContentType,
        Self::ResponseTopic,
        Self::CorrelationData,
        Self::SubscriptionId,
        Self::SessionExpiry,
        Self::AssignedClientId,
        Self::ServerKeepAlive,
        Self::AuthMethod,
        Self::AuthData,
        Self::RequestProblemInfo,
        Self::WillDelay,
        Self::RequestResponseInfo,
        Self::ResponseInfo,
        Self::ServerReference,
        Self::ReasonString,
        Self::ReceiveMaximum,
        Self::TopicAliasMaximum,
        Self::TopicAlias,
        Self::MaximumQoS,
        Self::RetainAvailable,
        Self::UserProperty,
        Self::MaximumPacketSize,
        Self::WildcardAvailable,
        Self::SubscriptionIdAvailable,
        Self::SharedAvailable,
    ];

    /// The property with this identifier.
    pub const fn from_code(code: u32) -> Option<Self> {
        Some(match code {
            0x01 => Self::PayloadFormat,
            0x02 => Self::MessageExpiry,
            0x03 => Self::ContentType,
            0x08 => Self::ResponseTopic,
            0x09 => Self::CorrelationData,
            0x0B => Self::SubscriptionId,
            0x11 => Self::SessionExpiry,
            0x12 => Self::AssignedClientId,
            0x13 => Self::ServerKeepAlive,
            0x15 => Self::AuthMethod,
            0x16 => Self::AuthData,
            0x17 => Self::RequestProblemInfo,
            0x18 => Self::WillDelay,
            0x19 => Self::RequestResponseInfo,
            0x1A => Self::ResponseInfo,
            0x1C => Self::ServerReference,
            0x1F => Self::ReasonString,
            0x21 => Self::ReceiveMaximum,
            0x22 => Self::TopicAliasMaximum,
            0x23 => Self::TopicAlias,
            0x24 => Self::MaximumQoS,
            0x25 => Self::RetainAvailable,
            0x26 => Self::UserProperty,
            0x27 => Self::MaximumPacketSize,
            0x28 => Self::WildcardAvailable,
            0x29 => Self::SubscriptionIdAvailable,
            0x2A => Self::SharedAvailable,
            _ => return None,
        })
    }

    /// The byte of the wire: all identifiers fit in one byte of a variable byte integer.
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// How the value is written.
    pub const fn kind(self) -> PropertyKind {
        match self {
            Self::PayloadFormat
            | Self::RequestProblemInfo
            | Self::RequestResponseInfo
            | Self::MaximumQoS
            | Self::RetainAvailable
            | Self::WildcardAvailable
            | Self::SubscriptionIdAvailable
            | Self::SharedAvailable => PropertyKind::Byte,
            Self::MessageExpiry
            | Self::SessionExpiry
            | Self::WillDelay
            | Self::MaximumPacketSize => PropertyKind::U32,
            Self::ContentType
            | Self::ResponseTopic
            | Self::AssignedClientId
            | Self::AuthMethod
            | Self::ResponseInfo
            | Self::ServerReference
            | Self::ReasonString => PropertyKind::Text,
            Self::CorrelationData | Self::AuthData => PropertyKind::Binary,
            Self::SubscriptionId => PropertyKind::Varint,
            Self::ServerKeepAlive
            | Self::ReceiveMaximum
            | Self::TopicAliasMaximum
            | Self::TopicAlias => PropertyKind::U16,
            Self::UserProperty => PropertyKind::Pair,
        }
    }

    /// Whether the property may stand in `scope`.
    pub const fn allowed_in(self, scope: PropertyScope) -> bool {
        use PropertyScope as S;
        match self {
            Self::PayloadFormat
            | Self::MessageExpiry
            | Self::ContentType
            | Self::ResponseTopic
            | Self::CorrelationData => matches!(scope, S::Publish | S::Will),
            Self::SubscriptionId => matches!(scope, S::Publish | S::Subscribe),
            Self::SessionExpiry => matches!(scope, S::Connect | S::ConnAck | S::Disconnect),
            Self::AssignedClientId
            | Self::ServerKeepAlive
            | Self::ResponseInfo
            | Self::MaximumQoS
            | Self::RetainAvailable
            | Self::WildcardAvailable
            | Self::SubscriptionIdAvailable
            | Self::SharedAvailable => matches!(scope, S::ConnAck),
            Self::AuthMethod | Self::AuthData => matches!(scope, S::Connect | S::ConnAck | S::Auth),
            Self::RequestProblemInfo | Self::RequestResponseInfo => matches!(scope, S::Connect),
            Self::WillDelay => matches!(scope, S::Will),
            Self::ServerReference => matches!(scope, S::ConnAck | S::Disconnect),
            Self::ReasonString => matches!(
                scope,
                S::ConnAck
                    | S::PubAck
                    | S::PubRec
                    | S::PubRel
                    | S::PubComp
                    | S::SubAck
                    | S::UnsubAck
                    | S::Disconnect
                    | S::Auth
            ),
            Self::ReceiveMaximum | Self::TopicAliasMaximum | Self::MaximumPacketSize => {
                matches!(scope, S::Connect | S::ConnAck)
            }
            Self::TopicAlias => matches!(scope, S::Publish),
            Self::UserProperty => true,
        }
    }

    /// Whether the property may stand more than once in `scope`.
    pub const fn repeatable_in(self, scope: PropertyScope) -> bool {
        match self {
            Self::UserProperty => true,
            Self::SubscriptionId => matches!(scope, PropertyScope::Publish),
            _ => false,
        }
    }
}

impl Property<'_> {
    /// Which property this is.
    pub const fn id(&self) -> PropertyId {
        match self {
            Self::PayloadFormat(..) => PropertyId::PayloadFormat,
            Self::MessageExpiry(..) => PropertyId::MessageExpiry,
            Self::ContentType(..) => PropertyId::ContentType,
            Self::ResponseTopic(..) => PropertyId::ResponseTopic,
            Self::CorrelationData(..) => PropertyId::CorrelationData,
            Self::SubscriptionId(..) => PropertyId::SubscriptionId,
            Self::SessionExpiry(..) => PropertyId::SessionExpiry,
            Self::AssignedClientId(..) => PropertyId::AssignedClientId,
            Self::ServerKeepAlive(..) => PropertyId::ServerKeepAlive,
            Self::AuthMethod(..) => PropertyId::AuthMethod,
            Self::AuthData(..) => PropertyId::AuthData,
            Self::RequestProblemInfo(..) => PropertyId::RequestProblemInfo,
            Self::WillDelay(..) => PropertyId::WillDelay,
            Self::RequestResponseInfo(..) => PropertyId::RequestResponseInfo,
            Self::ResponseInfo(..) => PropertyId::ResponseInfo,
            Self::ServerReference(..) => PropertyId::ServerReference,
            Self::ReasonString(..) => PropertyId::ReasonString,
            Self::ReceiveMaximum(..) => PropertyId::ReceiveMaximum,
            Self::TopicAliasMaximum(..) => PropertyId::TopicAliasMaximum,
            Self::TopicAlias(..) => PropertyId::TopicAlias,
            Self::MaximumQoS(..) => PropertyId::MaximumQoS,
            Self::RetainAvailable(..) => PropertyId::RetainAvailable,
            Self::UserProperty(..) => PropertyId::UserProperty,
            Self::MaximumPacketSize(..) => PropertyId::MaximumPacketSize,
            Self::WildcardAvailable(..) => PropertyId::WildcardAvailable,
            Self::SubscriptionIdAvailable(..) => PropertyId::SubscriptionIdAvailable,
            Self::SharedAvailable(..) => PropertyId::SharedAvailable,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_round_trip() {
        for code in 0..=0xFF {
            let known = PropertyId::ALL.iter().find(|id| u32::from(id.code()) == code).copied();
            assert_eq!(PropertyId::from_code(code), known);
        }
    }

    #[test]
    fn only_user_properties_and_identifiers_of_matches_repeat() {
        for id in PropertyId::ALL {
            let repeats = id.repeatable_in(PropertyScope::Publish);
            assert_eq!(
                repeats,
                matches!(id, PropertyId::UserProperty | PropertyId::SubscriptionId)
            );
            assert_eq!(id.repeatable_in(PropertyScope::Subscribe), id == PropertyId::UserProperty);
        }
    }
}
