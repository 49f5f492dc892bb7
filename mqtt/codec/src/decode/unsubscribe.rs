//! UNSUBSCRIBE and UNSUBACK.

use zzq_types::PropertyScope;

use super::{Context, before_list};
use crate::{
    Fault, Field, Filters, PacketType, ReasonCodes, UnsubAck, Unsubscribe, Violation, reasons,
};

//= MQTT311-3.10.3-1
//= MQTT311-3.10.3-2
//= MQTT5-3.10.3-1
//= MQTT5-3.10.3-2
pub(super) fn decode(context: Context, body: &[u8]) -> Result<Unsubscribe<'_>, Fault> {
    let (packet_id, properties, mut cursor) =
        before_list(context, PropertyScope::Unsubscribe, body)?;
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
    let (packet_id, properties, cursor) = before_list(context, PropertyScope::UnsubAck, body)?;
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
