//! PUBLISH, and how often what it carries may arrive.

use core::num::NonZeroU16;

use zzq_types::{PacketId, Properties, Property, PropertyId, QoS, TopicName};

/// PUBLISH.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Publish<'a> {
    /// Sent before; never at QoS 0.
    pub dup: bool,
    /// To be kept for later subscribers, or kept by the server.
    pub retain: bool,
    /// QoS and packet identifier.
    pub delivery: Delivery,
    /// `None`: the topic that [`Publish::topic_alias`] stands for.
    pub topic: Option<TopicName<'a>>,
    /// Empty before MQTT 5.
    pub properties: Properties<'a>,
    /// May be empty.
    pub payload: &'a [u8],
}

impl<'a> Publish<'a> {
    /// A plain PUBLISH without properties.
    pub const fn new(topic: TopicName<'a>, delivery: Delivery, payload: &'a [u8]) -> Self {
        Self {
            dup: false,
            retain: false,
            delivery,
            topic: Some(topic),
            properties: Properties::EMPTY,
            payload,
        }
    }

    /// The alias that stands for the topic, or is to from now on.
    pub fn topic_alias(&self) -> Option<NonZeroU16> {
        match self.properties.find(PropertyId::TopicAlias) {
            Some(Property::TopicAlias(alias)) => NonZeroU16::new(alias),
            _ => None,
        }
    }
}

/// The QoS of a PUBLISH, with the identifier that all but QoS 0 have.
//= MQTT311-2.3.1-1
//= MQTT311-2.3.1-5
//= MQTT5-2.2.1-2
//= MQTT5-2.2.1-3
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Delivery {
    /// QoS 0.
    AtMostOnce,
    /// QoS 1: answered by PUBACK.
    AtLeastOnce(PacketId),
    /// QoS 2: answered by PUBREC.
    ExactlyOnce(PacketId),
}

impl Delivery {
    /// The QoS alone.
    #[inline]
    pub const fn qos(self) -> QoS {
        match self {
            Self::AtMostOnce => QoS::AtMostOnce,
            Self::AtLeastOnce(_) => QoS::AtLeastOnce,
            Self::ExactlyOnce(_) => QoS::ExactlyOnce,
        }
    }

    /// The identifier, above QoS 0.
    #[inline]
    pub const fn packet_id(self) -> Option<PacketId> {
        match self {
            Self::AtMostOnce => None,
            Self::AtLeastOnce(id) | Self::ExactlyOnce(id) => Some(id),
        }
    }
}
