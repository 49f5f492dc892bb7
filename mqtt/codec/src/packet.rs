//! The packets as values: one enum, a struct for each, borrowed from the bytes they stand in.
//!
//! MQTT 3 packets use the same structs: their properties are empty, their return codes are the
//! reason codes that say the same.

mod codes;
mod connect;
mod publish;
mod subscriptions;

use zzq_types::{PacketId, Properties, Property, PropertyId, ReasonCode, SubscriptionId};

use crate::PacketType;

pub use codes::ReasonCodes;
pub use connect::{ConnAck, Connect, Will};
pub use publish::{Delivery, Publish};
pub use subscriptions::{
    Filters, FiltersIter, Subscription, Subscriptions, SubscriptionsBuf, SubscriptionsIter,
};

/// A control packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the packets by their names")]
pub enum Packet<'a> {
    Connect(Connect<'a>),
    ConnAck(ConnAck<'a>),
    Publish(Publish<'a>),
    PubAck(Ack<'a>),
    PubRec(Ack<'a>),
    PubRel(Ack<'a>),
    PubComp(Ack<'a>),
    Subscribe(Subscribe<'a>),
    SubAck(SubAck<'a>),
    Unsubscribe(Unsubscribe<'a>),
    UnsubAck(UnsubAck<'a>),
    PingReq,
    PingResp,
    Disconnect(Disconnect<'a>),
    Auth(Auth<'a>),
}

impl Packet<'_> {
    /// Which packet this is.
    pub const fn packet_type(&self) -> PacketType {
        match self {
            Self::Connect(_) => PacketType::Connect,
            Self::ConnAck(_) => PacketType::ConnAck,
            Self::Publish(_) => PacketType::Publish,
            Self::PubAck(_) => PacketType::PubAck,
            Self::PubRec(_) => PacketType::PubRec,
            Self::PubRel(_) => PacketType::PubRel,
            Self::PubComp(_) => PacketType::PubComp,
            Self::Subscribe(_) => PacketType::Subscribe,
            Self::SubAck(_) => PacketType::SubAck,
            Self::Unsubscribe(_) => PacketType::Unsubscribe,
            Self::UnsubAck(_) => PacketType::UnsubAck,
            Self::PingReq => PacketType::PingReq,
            Self::PingResp => PacketType::PingResp,
            Self::Disconnect(_) => PacketType::Disconnect,
            Self::Auth(_) => PacketType::Auth,
        }
    }
}

/// The four packets that answer a PUBLISH or each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the packets by their names")]
pub enum AckKind {
    PubAck,
    PubRec,
    PubRel,
    PubComp,
}

impl AckKind {
    /// The packet's type.
    #[inline]
    pub const fn packet_type(self) -> PacketType {
        match self {
            Self::PubAck => PacketType::PubAck,
            Self::PubRec => PacketType::PubRec,
            Self::PubRel => PacketType::PubRel,
            Self::PubComp => PacketType::PubComp,
        }
    }
}

/// PUBACK, PUBREC, PUBREL or PUBCOMP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ack<'a> {
    /// Of the PUBLISH it belongs to.
    pub packet_id: PacketId,
    /// Success before MQTT 5.
    pub reason: ReasonCode,
    /// Empty before MQTT 5.
    pub properties: Properties<'a>,
}

impl Ack<'_> {
    /// The plain answer.
    pub const fn success(packet_id: PacketId) -> Self {
        Self::with_reason(packet_id, ReasonCode::Success)
    }

    /// An answer with a reason and no properties.
    pub const fn with_reason(packet_id: PacketId, reason: ReasonCode) -> Self {
        Self { packet_id, reason, properties: Properties::EMPTY }
    }
}

/// SUBSCRIBE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subscribe<'a> {
    /// Repeated by SUBACK.
    pub packet_id: PacketId,
    /// Empty before MQTT 5.
    pub properties: Properties<'a>,
    /// At least one.
    pub subscriptions: Subscriptions<'a>,
}

impl Subscribe<'_> {
    /// The identifier that comes with every message of these subscriptions.
    pub fn subscription_id(&self) -> Option<SubscriptionId> {
        match self.properties.find(PropertyId::SubscriptionId) {
            Some(Property::SubscriptionId(id)) => SubscriptionId::new(id),
            _ => None,
        }
    }
}

/// SUBACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubAck<'a> {
    /// Of the SUBSCRIBE.
    pub packet_id: PacketId,
    /// Empty before MQTT 5.
    pub properties: Properties<'a>,
    /// One for each filter, in their order: the QoS granted, or why not.
    pub codes: ReasonCodes<'a>,
}

/// UNSUBSCRIBE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unsubscribe<'a> {
    /// Repeated by UNSUBACK.
    pub packet_id: PacketId,
    /// Empty before MQTT 5.
    pub properties: Properties<'a>,
    /// At least one.
    pub filters: Filters<'a>,
}

/// UNSUBACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnsubAck<'a> {
    /// Of the UNSUBSCRIBE.
    pub packet_id: PacketId,
    /// Empty before MQTT 5.
    pub properties: Properties<'a>,
    /// One for each filter, in their order; empty before MQTT 5.
    pub codes: ReasonCodes<'a>,
}

/// DISCONNECT; before MQTT 5 only clients send it, and always with success.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Disconnect<'a> {
    /// Why.
    pub reason: ReasonCode,
    /// Empty before MQTT 5.
    pub properties: Properties<'a>,
}

impl Disconnect<'_> {
    /// With a reason and no properties.
    pub const fn with_reason(reason: ReasonCode) -> Self {
        Self { reason, properties: Properties::EMPTY }
    }
}

/// AUTH: MQTT 5 only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Auth<'a> {
    /// How the exchange goes on.
    pub reason: ReasonCode,
    /// The method, and what it has to say.
    pub properties: Properties<'a>,
}
