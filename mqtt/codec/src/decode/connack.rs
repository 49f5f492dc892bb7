//! CONNACK.

use zzq_types::{Properties, PropertyScope, ProtocolVersion, ReasonCode};

use super::Context;
use crate::cursor::Cursor;
use crate::{ConnAck, Fault, Malformed, PacketType, Violation, reasons};

//= MQTT311-3.2.2-4
//= MQTT5-3.2.2-1
//= MQTT5-3.2.2-6
pub(super) fn decode(context: Context, body: &[u8]) -> Result<ConnAck<'_>, Fault> {
    let mut cursor = Cursor::new(body);
    let flags = cursor.byte()?;
    let code = cursor.byte()?;
    // MQTT 3.1 reserves the whole byte and says nothing of sessions.
    let flags = if context.version == ProtocolVersion::V31 { 0 } else { flags };
    if flags > 1 {
        return Err(Malformed::ConnAckFlags(flags).into());
    }
    let (reason, properties) = if context.version.is_v5() {
        let reason = reasons::read(PacketType::ConnAck, context.sender, code)?;
        (reason, cursor.properties(PropertyScope::ConnAck)?)
    } else {
        (reasons::from_return_code(code)?, Properties::EMPTY)
    };
    cursor.finish()?;
    if flags != 0 && reason != ReasonCode::Success {
        return Err(Violation::SessionInRefusal.into());
    }
    Ok(ConnAck { session_present: flags != 0, reason, properties })
}
