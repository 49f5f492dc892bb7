//! PUBACK, PUBREC, PUBREL and PUBCOMP: as short as what they say allows.

use alloc::vec::Vec;

use zzq_types::{PacketId, ReasonCode};

use super::fit::Parts;
use super::{ANYONE, EncodeError, Encoder, check_reason};
use crate::{Ack, AckKind, PacketType};

/// Appends the plain answer, which is the same four bytes in every version.
#[inline]
pub fn encode_ack(kind: AckKind, packet_id: PacketId, out: &mut Vec<u8>) {
    let [high, low] = packet_id.get().to_be_bytes();
    out.extend_from_slice(&[first_byte(kind), 2, high, low]);
}

impl Encoder {
    /// Appends an answer. MQTT 3 writes neither reason nor properties.
    ///
    /// # Errors
    /// [`EncodeError`]; nothing is appended.
    pub fn ack(self, kind: AckKind, ack: &Ack<'_>, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        let packet = kind.packet_type();
        let [high, low] = ack.packet_id.get().to_be_bytes();
        let plain = ack.reason == ReasonCode::Success && ack.properties.is_empty();
        if plain || !self.version.is_v5() {
            self.remaining(packet, 2)?;
            encode_ack(kind, ack.packet_id, out);
            return Ok(());
        }
        check_reason(packet, ack.reason, ANYONE)?;
        let head = [high, low, ack.reason.code()];
        let bare = if ack.reason == ReasonCode::Success { &head[..2] } else { &head };
        let parts = Parts {
            packet,
            first: first_byte(kind),
            head: &head,
            properties: ack.properties,
            bare: Some(bare),
            tail: 0,
        };
        self.put_fitted(&parts, out, |_| {})
    }
}

//= MQTT311-3.6.1-1
//= MQTT5-3.6.1-1
const fn first_byte(kind: AckKind) -> u8 {
    match kind.packet_type() {
        PacketType::PubRel => PacketType::PubRel.bits() | 2,
        packet => packet.bits(),
    }
}
