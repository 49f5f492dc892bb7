//! Properties that help nobody but a human give way where the peer takes no more.

use alloc::vec::Vec;

use zzq_types::{Properties, PropertiesBuf, PropertyId};

use super::{EncodeError, Encoder, ended, is_droppable, properties_len, put_properties};
use crate::PacketType;

/// A packet whose body is `head`, properties, `tail`.
pub(super) struct Parts<'a> {
    pub(super) packet: PacketType,
    pub(super) first: u8,
    pub(super) head: &'a [u8],
    pub(super) properties: Properties<'a>,
    /// The whole body where there are no properties, if it is shorter then.
    pub(super) bare: Option<&'a [u8]>,
    /// How many bytes `put_tail` will write.
    pub(super) tail: usize,
}

impl Encoder {
    /// Writes a packet of MQTT 5 whose reason string and user properties may be left out: all of
    /// them where the client asked for none, else user properties first, then the reason string,
    /// as far as the peer's limit demands.
    //= MQTT5-3.1.2-29
    //= MQTT5-3.2.2-19
    //= MQTT5-3.2.2-20
    //= MQTT5-3.4.2-2
    //= MQTT5-3.4.2-3
    //= MQTT5-3.5.2-2
    //= MQTT5-3.5.2-3
    //= MQTT5-3.6.2-2
    //= MQTT5-3.6.2-3
    //= MQTT5-3.7.2-2
    //= MQTT5-3.7.2-3
    //= MQTT5-3.9.2-1
    //= MQTT5-3.9.2-2
    //= MQTT5-3.11.2-1
    //= MQTT5-3.11.2-2
    //= MQTT5-3.14.2-3
    //= MQTT5-3.14.2-4
    //= MQTT5-3.15.2-2
    //= MQTT5-3.15.2-3
    pub(super) fn put_fitted(
        self,
        parts: &Parts<'_>,
        out: &mut Vec<u8>,
        put_tail: impl FnOnce(&mut Vec<u8>),
    ) -> Result<(), EncodeError> {
        let mut kept = PropertiesBuf::new();
        let properties = self.fitted(parts, &mut kept);
        let block = properties.as_bytes();
        let body = self.body_len(parts, block.len())?;
        let end = self.begin(parts.packet, parts.first, body, out)?;
        match parts.bare {
            Some(bare) if block.is_empty() => out.extend_from_slice(bare),
            _ => {
                out.extend_from_slice(parts.head);
                put_properties(out, block);
                put_tail(out);
            }
        }
        ended(parts.packet, end, out);
        Ok(())
    }

    fn fitted<'p>(self, parts: &Parts<'p>, kept: &'p mut PropertiesBuf) -> Properties<'p> {
        let told = matches!(parts.packet, PacketType::ConnAck | PacketType::Disconnect);
        if !self.problem_info && !told {
            keep(parts.properties, kept, |id| !is_droppable(id));
            return kept.as_properties();
        }
        if self.fits(parts, parts.properties) {
            return parts.properties;
        }
        keep(parts.properties, kept, |id| id != PropertyId::UserProperty);
        if !self.fits(parts, kept.as_properties()) {
            keep(parts.properties, kept, |id| !is_droppable(id));
        }
        kept.as_properties()
    }

    fn fits(self, parts: &Parts<'_>, properties: Properties<'_>) -> bool {
        self.body_len(parts, properties.as_bytes().len())
            .and_then(|body| self.remaining(parts.packet, body))
            .is_ok()
    }

    fn body_len(self, parts: &Parts<'_>, block: usize) -> Result<usize, EncodeError> {
        if let Some(bare) = parts.bare.filter(|_| block == 0) {
            return Ok(bare.len());
        }
        let properties = properties_len(block).map_err(|_| self.too_large(parts.packet, block))?;
        Ok(parts.head.len() + properties + parts.tail)
    }

    pub(super) fn too_large(self, packet: PacketType, size: usize) -> EncodeError {
        EncodeError::TooLarge { packet, size, limit: self.limits.max_packet }
    }
}

fn keep(from: Properties<'_>, kept: &mut PropertiesBuf, wanted: impl Fn(PropertyId) -> bool) {
    kept.clear();
    for (property, encoded) in from.iter_encoded() {
        if wanted(property.id()) {
            kept.push_encoded(encoded);
        }
    }
}
