//! CONNACK.

use alloc::vec::Vec;

use zzq_types::{ProtocolVersion, ReasonCode};

use super::fit::Parts;
use super::{EncodeError, Encoder, check_reason};
use crate::{ConnAck, PacketType, Sender, reasons};

impl Encoder {
    /// Appends CONNACK. A refusal never has a session; MQTT 3.1 never says that there is one.
    ///
    /// # Errors
    /// [`EncodeError`]; nothing is appended. [`EncodeError::Reason`] where MQTT 3 has no return
    /// code: the connection is closed without CONNACK then.
    //= MQTT311-3.2.2-4
    //= MQTT311-3.2.2-6
    //= MQTT5-3.2.2-1
    //= MQTT5-3.2.2-6
    //= MQTT5-3.2.2-8
    pub fn conn_ack(self, ack: &ConnAck<'_>, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        let packet = PacketType::ConnAck;
        let present = ack.session_present && ack.reason == ReasonCode::Success;
        if self.version.is_v5() {
            check_reason(packet, ack.reason, &[Sender::Server])?;
            let head = [u8::from(present), ack.reason.code()];
            let parts = Parts {
                packet,
                first: packet.bits(),
                head: &head,
                properties: ack.properties,
                bare: None,
                tail: 0,
            };
            return self.put_fitted(&parts, out, |_| {});
        }
        let code =
            reasons::to_return_code(ack.reason).ok_or(EncodeError::Reason(packet, ack.reason))?;
        let present = present && self.version != ProtocolVersion::V31;
        self.begin(packet, packet.bits(), 2, out)?;
        out.extend_from_slice(&[u8::from(present), code]);
        Ok(())
    }
}
