//! DISCONNECT.

use zzq_types::{PropertyId, PropertyScope, ReasonCode};

use super::Context;
use crate::cursor::Cursor;
use crate::{Disconnect, Fault, PacketType, Sender, Violation, reasons};

//= MQTT5-3.14.2-1
//= MQTT5-3.14.2-2
pub(super) fn decode(context: Context, body: &[u8]) -> Result<Disconnect<'_>, Fault> {
    let mut cursor = Cursor::new(body);
    let mut disconnect = Disconnect::with_reason(ReasonCode::Success);
    // Always so before MQTT 5: the header has held the packet to no body.
    if cursor.is_empty() {
        return Ok(disconnect);
    }
    disconnect.reason = reasons::read(PacketType::Disconnect, context.sender, cursor.byte()?)?;
    if !cursor.is_empty() {
        disconnect.properties = cursor.properties(PropertyScope::Disconnect)?;
    }
    cursor.finish()?;
    let of_other = match context.sender {
        Sender::Client => PropertyId::ServerReference,
        Sender::Server => PropertyId::SessionExpiry,
    };
    if disconnect.properties.find(of_other).is_some() {
        return Err(Violation::PropertyOfOther(of_other).into());
    }
    Ok(disconnect)
}
