//! DISCONNECT: as short as what it says allows.

use alloc::vec::Vec;

use zzq_types::ReasonCode;

use super::fit::Parts;
use super::{ANYONE, EncodeError, Encoder, check_reason};
use crate::{Disconnect, PacketType};

impl Encoder {
    /// Appends DISCONNECT. MQTT 3 writes neither reason nor properties; only clients send it there.
    ///
    /// # Errors
    /// [`EncodeError`]; nothing is appended.
    //= MQTT5-3.14.2-1
    pub fn disconnect(
        self,
        disconnect: &Disconnect<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), EncodeError> {
        let packet = PacketType::Disconnect;
        if !self.version.is_v5() {
            return self.begin(packet, packet.bits(), 0, out).map(|_| ());
        }
        check_reason(packet, disconnect.reason, ANYONE)?;
        let head = [disconnect.reason.code()];
        let bare = if disconnect.reason == ReasonCode::Success { &[][..] } else { &head };
        let parts = Parts {
            packet,
            first: packet.bits(),
            head: &head,
            properties: disconnect.properties,
            bare: Some(bare),
            tail: 0,
        };
        self.put_fitted(&parts, out, |_| {})
    }
}
