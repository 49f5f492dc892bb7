//! SUBSCRIBE and SUBACK.

use alloc::vec::Vec;

use zzq_types::{ProtocolVersion, ReasonCode};

use super::{EncodeError, Encoder, ended, put_binary};
use crate::{PacketType, SubAck, Subscribe};

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
        let list = subscribe.subscriptions.as_bytes();
        let head = (subscribe.packet_id, subscribe.properties);
        let end = self.begin_request(packet, head, list.len(), out)?;
        if self.version.is_v5() {
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
        let version = self.version;
        self.answer(PacketType::SubAck, (ack.packet_id, ack.properties), ack.codes, out, |code| {
            byte(version, code)
        })
    }
}

fn byte(version: ProtocolVersion, reason: ReasonCode) -> u8 {
    match version {
        ProtocolVersion::V311 if reason.is_failure() => 0x80,
        ProtocolVersion::V31 if reason.is_failure() => 0,
        _ => reason.code(),
    }
}
