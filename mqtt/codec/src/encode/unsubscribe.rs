//! UNSUBSCRIBE and UNSUBACK.

use alloc::vec::Vec;

use zzq_types::ReasonCode;

use super::{EncodeError, Encoder, ended};
use crate::{PacketType, UnsubAck, Unsubscribe};

impl Encoder {
    /// Appends UNSUBSCRIBE.
    ///
    /// # Errors
    /// [`EncodeError`]; nothing is appended.
    //= MQTT311-3.10.1-1
    //= MQTT311-3.10.3-2
    //= MQTT5-3.10.1-1
    //= MQTT5-3.10.3-2
    pub fn unsubscribe(
        self,
        unsubscribe: &Unsubscribe<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), EncodeError> {
        let packet = PacketType::Unsubscribe;
        let list = unsubscribe.filters.as_bytes();
        let head = (unsubscribe.packet_id, unsubscribe.properties);
        let end = self.begin_request(packet, head, list.len(), out)?;
        out.extend_from_slice(list);
        ended(PacketType::Unsubscribe, end, out);
        Ok(())
    }

    /// Appends UNSUBACK. MQTT 3 writes the identifier alone.
    ///
    /// # Errors
    /// [`EncodeError`]; nothing is appended.
    //= MQTT5-3.11.3-1
    //= MQTT5-3.11.3-2
    pub fn unsub_ack(self, ack: &UnsubAck<'_>, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        let packet = PacketType::UnsubAck;
        if !self.version.is_v5() {
            self.begin(packet, packet.bits(), 2, out)?;
            out.extend_from_slice(&ack.packet_id.get().to_be_bytes());
            return Ok(());
        }
        let head = (ack.packet_id, ack.properties);
        self.answer(packet, head, ack.codes, out, ReasonCode::code)
    }
}
