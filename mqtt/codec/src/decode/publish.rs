//! PUBLISH: the packet that everything is about, read in one pass and without a copy.

use zzq_types::{Properties, Property, PropertyId, PropertyScope, TopicError, TopicName};

use super::{Context, packet_id};
use crate::cursor::Cursor;
use crate::{Delivery, Fault, Field, Malformed, Publish, Sender, Violation};

//= MQTT311-3.3.2-1
//= MQTT311-3.3.2-2
//= MQTT5-3.3.2-1
//= MQTT5-3.3.2-2
#[inline]
pub(super) fn decode(context: Context, body: &[u8]) -> Result<Publish<'_>, Fault> {
    let mut cursor = Cursor::new(body);
    let topic = cursor.topic(Field::Topic)?;
    // An empty topic may have an alias: the properties say.
    if topic.is_none() && !context.version.is_v5() {
        return Err(Malformed::Topic(Field::Topic, TopicError::Empty).into());
    }
    decode_behind_topic(context, topic, cursor)
}

/// Reads what stands behind a topic that is known to be one.
//= MQTT311-2.3.1-5
//= MQTT5-2.2.1-2
#[inline]
pub(crate) fn decode_behind_topic<'a>(
    context: Context,
    topic: Option<TopicName<'a>>,
    mut cursor: Cursor<'a>,
) -> Result<Publish<'a>, Fault> {
    let delivery = match context.first >> 1 & 3 {
        0 => Delivery::AtMostOnce,
        1 => Delivery::AtLeastOnce(packet_id(&mut cursor)?),
        _ => Delivery::ExactlyOnce(packet_id(&mut cursor)?),
    };
    let mut properties = Properties::EMPTY;
    if context.version.is_v5() {
        let block = cursor.properties_block()?;
        if !block.is_empty() || topic.is_none() {
            properties = self::properties(context.sender, topic, block)?;
        }
    }
    Ok(Publish {
        dup: context.first & 0x08 != 0,
        retain: context.first & 0x01 != 0,
        delivery,
        topic,
        properties,
        payload: cursor.rest(),
    })
}

//= MQTT5-3.3.2-8
//= MQTT5-3.3.2-13
//= MQTT5-3.3.2-14
//= MQTT5-3.3.2-19
//= MQTT5-3.3.4-6
fn properties<'a>(
    sender: Sender,
    topic: Option<TopicName<'_>>,
    block: &'a [u8],
) -> Result<Properties<'a>, Fault> {
    let mut alias = None;
    let mut subscribed = false;
    let properties =
        Properties::parse_each(block, PropertyScope::Publish, |property| match property {
            Property::TopicAlias(value) => alias = Some(value),
            Property::SubscriptionId(_) => subscribed = true,
            _ => {}
        })?;
    if subscribed && sender == Sender::Client {
        return Err(Violation::PropertyOfOther(PropertyId::SubscriptionId).into());
    }
    match alias {
        Some(0) => Err(Violation::ZeroTopicAlias.into()),
        None if topic.is_none() => Err(Violation::NoTopic.into()),
        _ => Ok(properties),
    }
}
