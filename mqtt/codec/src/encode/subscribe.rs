//! SUBSCRIBE and SUBACK.

use alloc::vec::Vec;

use zzq_types::{ProtocolVersion, ReasonCode};

use super::fit::Parts;
use super::{
    EncodeError, Encoder, check_reason, ended, properties_len, put_binary, put_properties,
};
use crate::{PacketType, Sender, SubAck, Subscribe};

impl Encoder {
    /// Appends SUBSCRIBE. MQTT 3 writes the QoS alone of each entry's options.
    ///
    /// # Errors
    /// [`EncodeError`]; nothing is appended.
    //= MQTT311-3.8.1-1
    //= MQTT311-3.8.3-3
    //= MQTT5-3.8.1-1
    //= MQTT5-3.8.3-2
    pub fn subscribe(
        self,
        subscribe: &Subscribe<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), EncodeError> {
        let packet = PacketType::Subscribe;
        if subscribe.subscriptions.is_empty() {
            return Err(EncodeError::NothingListed(packet));
        }
        let block = subscribe.properties.as_bytes();
        let list = subscribe.subscriptions.as_bytes();
        let mut body = 2 + list.len();
        if self.version.is_v5() {
            body += properties_len(block.len()).map_err(|_| self.too_large(packet, block.len()))?;
        }
        let end = self.begin(packet, packet.bits() | 2, body, out)?;
        out.extend_from_slice(&subscribe.packet_id.get().to_be_bytes());
        if self.version.is_v5() {
            put_properties(out, block);
            out.extend_from_slice(list);
        } else {
            for (text, options) in subscribe.subscriptions.raw() {
                put_binary(out, text.as_bytes());
                out.push(options.qos.bits());
            }
        }
        ended(PacketType::Subscribe, end, out);
        Ok(())
    }

    /// Appends SUBACK. MQTT 3.1.1 writes 0x80 for every failure; MQTT 3.1, which has no way to
    /// refuse, grants QoS 0 instead.
    ///
    /// # Errors
    /// [`EncodeError`]; nothing is appended.
    //= MQTT311-3.9.3-1
    //= MQTT311-3.9.3-2
    //= MQTT5-3.9.3-1
    //= MQTT5-3.9.3-2
    pub fn sub_ack(self, ack: &SubAck<'_>, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        let packet = PacketType::SubAck;
        if ack.codes.is_empty() {
            return Err(EncodeError::NothingListed(packet));
        }
        for reason in ack.codes.iter() {
            check_reason(packet, reason, &[Sender::Server])?;
        }
        let version = self.version;
        let put = |out: &mut Vec<u8>| out.extend(ack.codes.iter().map(|code| byte(version, code)));
        let head = ack.packet_id.get().to_be_bytes();
        if version.is_v5() {
            let parts = Parts {
                packet,
                first: packet.bits(),
                head: &head,
                properties: ack.properties,
                bare: None,
                tail: ack.codes.len(),
            };
            return self.put_fitted(&parts, out, put);
        }
        let end = self.begin(packet, packet.bits(), 2 + ack.codes.len(), out)?;
        out.extend_from_slice(&head);
        put(out);
        ended(PacketType::SubAck, end, out);
        Ok(())
    }
}

fn byte(version: ProtocolVersion, reason: ReasonCode) -> u8 {
    match version {
        ProtocolVersion::V311 if reason.is_failure() => 0x80,
        ProtocolVersion::V31 if reason.is_failure() => 0,
        _ => reason.code(),
    }
}
