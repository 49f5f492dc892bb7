//! PUBACK, PUBREC, PUBREL and PUBCOMP: one layout, which may end early.

use zzq_types::{PropertyScope, ReasonCode};

use super::{Context, packet_id};
use crate::cursor::Cursor;
use crate::{Ack, AckKind, Fault, reasons};

#[inline]
pub(super) fn decode(context: Context, kind: AckKind, body: &[u8]) -> Result<Ack<'_>, Fault> {
    let mut cursor = Cursor::new(body);
    let plain = Ack::success(packet_id(&mut cursor)?);
    // Always so before MQTT 5: the header has held the packet to its identifier.
    if cursor.is_empty() {
        return Ok(plain);
    }
    behind_id(context, kind, plain, cursor)
}

//= MQTT5-3.4.2-1
//= MQTT5-3.5.2-1
//= MQTT5-3.6.2-1
//= MQTT5-3.7.2-1
fn behind_id<'a>(
    context: Context,
    kind: AckKind,
    plain: Ack<'a>,
    mut cursor: Cursor<'a>,
) -> Result<Ack<'a>, Fault> {
    let reason: ReasonCode = reasons::read(kind.packet_type(), context.sender, cursor.byte()?)?;
    let mut properties = plain.properties;
    if !cursor.is_empty() {
        properties = cursor.properties(scope(kind))?;
    }
    cursor.finish()?;
    Ok(Ack { reason, properties, ..plain })
}

const fn scope(kind: AckKind) -> PropertyScope {
    match kind {
        AckKind::PubAck => PropertyScope::PubAck,
        AckKind::PubRec => PropertyScope::PubRec,
        AckKind::PubRel => PropertyScope::PubRel,
        AckKind::PubComp => PropertyScope::PubComp,
    }
}
