//! AUTH.

use zzq_types::{Properties, PropertyId, PropertyScope, ReasonCode};

use super::Context;
use crate::cursor::Cursor;
use crate::{Auth, Fault, PacketType, Violation, reasons};

/// An empty body is success without properties, which only servers send. What goes on names its
/// method, as both sides must know whose turn it is.
//= MQTT5-3.15.2-1
//= MQTT5-4.12.0-5
pub(super) fn decode(context: Context, body: &[u8]) -> Result<Auth<'_>, Fault> {
    let mut cursor = Cursor::new(body);
    let code = if cursor.is_empty() { ReasonCode::Success.code() } else { cursor.byte()? };
    let reason = reasons::read(PacketType::Auth, context.sender, code)?;
    let mut properties = Properties::EMPTY;
    if !body.is_empty() {
        properties = cursor.properties(PropertyScope::Auth)?;
    }
    cursor.finish()?;
    let named = properties.find(PropertyId::AuthMethod).is_some();
    if reason != ReasonCode::Success && !named {
        return Err(Violation::NoAuthMethod.into());
    }
    Ok(Auth { reason, properties })
}
