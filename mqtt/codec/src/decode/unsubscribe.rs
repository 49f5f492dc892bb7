//! UNSUBSCRIBE and UNSUBACK.

use zzq_types::{Properties, PropertyScope};

use super::{Context, packet_id};
use crate::cursor::Cursor;
use crate::{
    Fault, Field, Filters, PacketType, ReasonCodes, UnsubAck, Unsubscribe, Violation, reasons,
};

//= MQTT311-3.10.3-1
//= MQTT311-3.10.3-2
//= MQTT5-3.10.3-1
//= MQTT5-3.10.3-2
pub(super) fn decode(context: Context, body: &[u8]) -> Result<Unsubscribe<'_>, Fault> {
    let mut cursor = Cursor::new(body);
    let packet_id = packet_id(&mut cursor)?;
    let mut properties = Properties::EMPTY;
    if context.version.is_v5() {
        properties = cursor.properties(PropertyScope::Unsubscribe)?;
    }
    let list = cursor.rest();
    if list.is_empty() {
        return Err(Violation::NothingListed.into());
    }
    while !cursor.is_empty() {
        cursor.text(Field::Filter)?;
    }
    Ok(Unsubscribe { packet_id, properties, filters: Filters::from_checked(list) })
}

//= MQTT5-3.11.3-2
pub(super) fn decode_ack(context: Context, body: &[u8]) -> Result<UnsubAck<'_>, Fault> {
    let mut cursor = Cursor::new(body);
    let packet_id = packet_id(&mut cursor)?;
    let mut properties = Properties::EMPTY;
    if context.version.is_v5() {
        properties = cursor.properties(PropertyScope::UnsubAck)?;
    }
    // None before MQTT 5: the header has held the packet to its identifier.
    let codes = cursor.rest();
    if codes.is_empty() && context.version.is_v5() {
        return Err(Violation::NothingListed.into());
    }
    for &code in codes {
        reasons::read(PacketType::UnsubAck, context.sender, code)?;
    }
    Ok(UnsubAck { packet_id, properties, codes: ReasonCodes::from_checked(codes) })
}
