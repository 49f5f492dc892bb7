//! AUTH.

use alloc::vec::Vec;

use zzq_types::ReasonCode;

use super::fit::Parts;
use super::{ANYONE, EncodeError, Encoder, check_reason};
use crate::{Auth, PacketType};

impl Encoder {
    /// Appends AUTH.
    ///
    /// # Errors
    /// [`EncodeError`]; nothing is appended. [`EncodeError::NotInVersion`] before MQTT 5.
    //= MQTT5-2.2.2-1
    //= MQTT5-3.15.2-1
    pub fn auth(self, auth: &Auth<'_>, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        let packet = PacketType::Auth;
        if !self.version.is_v5() {
            return Err(EncodeError::NotInVersion(packet));
        }
        check_reason(packet, auth.reason, ANYONE)?;
        let head = [auth.reason.code()];
        let bare = (auth.reason == ReasonCode::Success).then_some(&[][..]);
        let properties = auth.properties;
        let parts = Parts { packet, first: packet.bits(), head: &head, properties, bare, tail: 0 };
        self.put_fitted(&parts, out, |_| {})
    }
}
