//! UNSUBSCRIBE and UNSUBACK.

use alloc::vec::Vec;

use zzq_types::ReasonCode;

use super::fit::Parts;
use super::{EncodeError, Encoder, check_reason, ended, properties_len, put_properties};
use crate::{PacketType, Sender, UnsubAck, Unsubscribe};

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
        if unsubscribe.filters.is_empty() {
            return Err(EncodeError::NothingListed(packet));
        }
        let block = unsubscribe.properties.as_bytes();
        let list = unsubscribe.filters.as_bytes();
        let mut body = 2 + list.len();
        if self.version.is_v5() {
            body += properties_len(block.len()).map_err(|_| self.too_large(packet, block.len()))?;
        }
        let end = self.begin(packet, packet.bits() | 2, body, out)?;
        out.extend_from_slice(&unsubscribe.packet_id.get().to_be_bytes());
        if self.version.is_v5() {
            put_properties(out, block);
        }
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
        let head = ack.packet_id.get().to_be_bytes();
        if !self.version.is_v5() {
            self.begin(packet, packet.bits(), head.len(), out)?;
            out.extend_from_slice(&head);
            return Ok(());
        }
        if ack.codes.is_empty() {
            return Err(EncodeError::NothingListed(packet));
        }
        for reason in ack.codes.iter() {
            check_reason(packet, reason, &[Sender::Server])?;
        }
        let parts = Parts {
            packet,
            first: packet.bits(),
            head: &head,
            properties: ack.properties,
            bare: None,
            tail: ack.codes.len(),
        };
        self.put_fitted(&parts, out, |out| out.extend(ack.codes.iter().map(ReasonCode::code)))
    }
}
