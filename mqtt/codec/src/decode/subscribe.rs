//! SUBSCRIBE and SUBACK.

use zzq_types::{
    Filter, PropertyScope, ProtocolVersion, QoS, SubscribeOptions, SubscribeOptionsError,
};

use super::{Context, before_list};
use crate::cursor::Cursor;
use crate::{
    Fault, Field, Malformed, PacketType, ReasonCodes, SubAck, Subscribe, Subscriptions, Violation,
    reasons,
};

/// Entries are checked here, once: strings and options. Whether a filter is one is said with it.
//= MQTT311-3.8.3-1
//= MQTT311-3.8.3-3
//= MQTT5-3.8.3-1
//= MQTT5-3.8.3-2
pub(super) fn decode(context: Context, body: &[u8]) -> Result<Subscribe<'_>, Fault> {
    let (packet_id, properties, mut cursor) = before_list(context, PropertyScope::Subscribe, body)?;
    let list = cursor.rest();
    if list.is_empty() {
        return Err(Violation::NothingListed.into());
    }
    while !cursor.is_empty() {
        check_entry(&mut cursor, context.version)?;
    }
    Ok(Subscribe { packet_id, properties, subscriptions: Subscriptions::from_checked(list) })
}

//= MQTT311-3.8.3-4
//= MQTT5-3.8.3-4
//= MQTT5-3.8.3-5
fn check_entry(cursor: &mut Cursor<'_>, version: ProtocolVersion) -> Result<(), Fault> {
    let text = cursor.text(Field::Filter)?;
    let byte = cursor.byte()?;
    if !version.is_v5() {
        return match QoS::from_bits(byte) {
            Some(_) => Ok(()),
            None if byte == 3 => {
                Err(Malformed::SubscribeOptions(SubscribeOptionsError::QoS).into())
            }
            None => Err(Malformed::SubscribeOptions(SubscribeOptionsError::Reserved).into()),
        };
    }
    let options = SubscribeOptions::from_byte(byte)?;
    if options.no_local && matches!(Filter::new(text), Ok(Filter::Shared { .. })) {
        return Err(Violation::NoLocalShared.into());
    }
    Ok(())
}

//= MQTT311-3.9.3-2
//= MQTT5-3.9.3-2
pub(super) fn decode_ack(context: Context, body: &[u8]) -> Result<SubAck<'_>, Fault> {
    let (packet_id, properties, cursor) = before_list(context, PropertyScope::SubAck, body)?;
    let codes = cursor.rest();
    if codes.is_empty() {
        return Err(Violation::NothingListed.into());
    }
    for &code in codes {
        let reason = reasons::read(PacketType::SubAck, context.sender, code)?;
        let spoken = match context.version {
            ProtocolVersion::V5 => true,
            ProtocolVersion::V311 => code <= 0x80,
            ProtocolVersion::V31 => !reason.is_failure(),
        };
        if !spoken {
            return Err(Violation::Reason(reason).into());
        }
    }
    Ok(SubAck { packet_id, properties, codes: ReasonCodes::from_checked(codes) })
}
