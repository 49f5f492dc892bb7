//! The options of one subscription.

use thiserror::Error;

use crate::QoS;

/// When retained messages are sent for a subscription.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum RetainHandling {
    /// At each SUBSCRIBE; what MQTT 3 does.
    #[default]
    Always = 0,
    /// Only if the subscription is new.
    IfNew = 1,
    /// Never.
    Never = 2,
}

/// The options byte of a subscription; MQTT 3 knows only its QoS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SubscribeOptions {
    /// The most that is delivered.
    pub qos: QoS,
    /// Own publications do not come back.
    pub no_local: bool,
    /// RETAIN is forwarded as the publisher set it.
    pub retain_as_published: bool,
    /// When retained messages are sent.
    pub retain_handling: RetainHandling,
}

/// Why an options byte is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SubscribeOptionsError {
    /// QoS 3.
    #[error("QoS 3 in subscription options")]
    QoS,
    /// Retain handling 3.
    #[error("retain handling 3 in subscription options")]
    RetainHandling,
    /// A reserved bit is set.
    #[error("reserved bits set in subscription options")]
    Reserved,
}

impl SubscribeOptions {
    /// Options with this QoS and MQTT 3's behaviour otherwise.
    pub const fn with_qos(qos: QoS) -> Self {
        Self {
            qos,
            no_local: false,
            retain_as_published: false,
            retain_handling: RetainHandling::Always,
        }
    }

    /// Reads the byte of MQTT 5.
    //= MQTT5-3.8.3-5
    pub const fn from_byte(byte: u8) -> Result<Self, SubscribeOptionsError> {
        if byte & 0xC0 != 0 {
            return Err(SubscribeOptionsError::Reserved);
        }
        let Some(qos) = QoS::from_bits(byte & 3) else {
            return Err(SubscribeOptionsError::QoS);
        };
        let retain_handling = match byte >> 4 & 3 {
            0 => RetainHandling::Always,
            1 => RetainHandling::IfNew,
            2 => RetainHandling::Never,
            _ => return Err(SubscribeOptionsError::RetainHandling),
        };
        Ok(Self {
            qos,
            no_local: byte & 4 != 0,
            retain_as_published: byte & 8 != 0,
            retain_handling,
        })
    }

    /// The byte of MQTT 5.
    pub const fn to_byte(self) -> u8 {
        self.qos.bits()
            | (self.no_local as u8) << 2
            | (self.retain_as_published as u8) << 3
            | (self.retain_handling as u8) << 4
    }
}

/// A subscription identifier: 1 to 268 435 455.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SubscriptionId(core::num::NonZeroU32);

impl SubscriptionId {
    /// The identifier, or `None` outside its range.
    pub const fn new(id: u32) -> Option<Self> {
        if id > crate::VARINT_MAX {
            return None;
        }
        match core::num::NonZeroU32::new(id) {
            Some(id) => Some(Self(id)),
            None => None,
        }
    }

    /// The value of the wire.
    pub const fn get(self) -> u32 {
        self.0.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_read_or_refused_for_its_fault() {
        //= MQTT5-3.8.3-5
        for byte in 0..=u8::MAX {
            match SubscribeOptions::from_byte(byte) {
                Ok(options) => assert_eq!(options.to_byte(), byte),
                Err(SubscribeOptionsError::Reserved) => assert!(byte & 0xC0 != 0),
                Err(SubscribeOptionsError::QoS) => assert_eq!(byte & 3, 3),
                Err(SubscribeOptionsError::RetainHandling) => assert_eq!(byte & 0x30, 0x30),
            }
        }
    }

    #[test]
    fn subscription_identifiers_have_a_range() {
        assert!(SubscriptionId::new(0).is_none());
        assert!(SubscriptionId::new(crate::VARINT_MAX + 1).is_none());
        assert_eq!(SubscriptionId::new(crate::VARINT_MAX).unwrap().get(), crate::VARINT_MAX);
    }
}
