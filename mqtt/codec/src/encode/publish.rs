//! PUBLISH: encoded once and sent to many, the payload written by reference where it is large.

use alloc::vec::Vec;

use zzq_types::{PacketId, Properties, PropertyId, QoS, TopicName, VARINT_MAX, write_varint};

use super::{EncodeError, Encoder, binary_len, ended, properties_len};
use crate::{Field, PacketType, Publish};

/// A PUBLISH without identifier and payload.
#[derive(Clone, Copy, Debug)]
pub struct PublishHead<'a> {
    /// Sent before; never at QoS 0.
    pub dup: bool,
    /// Of this delivery.
    pub qos: QoS,
    /// As it is forwarded.
    pub retain: bool,
    /// `None`: an alias among the properties stands for it.
    pub topic: Option<TopicName<'a>>,
    /// Blocks that are written one behind the other: what the server adds, then what the publisher
    /// sent. Left out before MQTT 5.
    pub properties: &'a [Properties<'a>],
}

/// Where the parts of an encoded PUBLISH are, from its first byte on: so that copies can be given
/// their own identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PublishPlace {
    /// What was appended: the packet up to its payload.
    pub header_len: usize,
    /// The packet, payload included.
    pub total_len: usize,
    /// The two bytes of the identifier; `None` at QoS 0.
    pub packet_id_at: Option<usize>,
}

impl PublishPlace {
    /// Gives a copy its identifier; `packet` starts at the copy's first byte. Nothing at QoS 0.
    ///
    /// # Panics
    /// If `packet` is shorter than the header this place belongs to.
    #[inline]
    pub fn set_packet_id(self, packet: &mut [u8], id: PacketId) {
        if let Some(at) = self.packet_id_at {
            packet[at..at + 2].copy_from_slice(&id.get().to_be_bytes());
        }
    }

    /// Marks a copy as sent before; `packet` starts at the copy's first byte. Nothing at QoS 0.
    ///
    /// # Panics
    /// If `packet` is empty.
    #[inline]
    pub fn set_dup(self, packet: &mut [u8]) {
        if self.packet_id_at.is_some() {
            packet[0] |= 0x08;
        }
    }
}

impl Encoder {
    /// Appends PUBLISH.
    ///
    /// # Errors
    /// [`EncodeError`]; nothing is appended. [`EncodeError::TooLarge`]: the message is dropped for
    /// this peer as if it had been delivered.
    pub fn publish(self, publish: &Publish<'_>, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        let properties = [publish.properties];
        let head = PublishHead {
            dup: publish.dup,
            qos: publish.delivery.qos(),
            retain: publish.retain,
            topic: publish.topic,
            properties: &properties,
        };
        let start = out.len();
        let place = self.publish_header(&head, publish.payload.len(), out)?;
        if let Some(id) = publish.delivery.packet_id() {
            place.set_packet_id(&mut out[start..], id);
        }
        out.extend_from_slice(publish.payload);
        ended(PacketType::Publish, start + place.total_len, out);
        Ok(())
    }

    /// Appends everything of a PUBLISH in front of its payload, the identifier as 0: it is set in
    /// each copy by [`PublishPlace::set_packet_id`] before the copy is sent.
    ///
    /// # Errors
    /// [`EncodeError`]; nothing is appended.
    //= MQTT311-2.3.1-5
    //= MQTT311-3.3.1-2
    //= MQTT5-2.2.1-2
    //= MQTT5-3.1.2-24
    //= MQTT5-3.1.2-25
    //= MQTT5-3.3.1-2
    #[inline]
    pub fn publish_header(
        self,
        head: &PublishHead<'_>,
        payload_len: usize,
        out: &mut Vec<u8>,
    ) -> Result<PublishPlace, EncodeError> {
        let numbered = head.qos.is_acknowledged();
        if head.dup && !numbered {
            return Err(EncodeError::DupAtQoS0);
        }
        let topic = self.topic(head)?;
        let block = self.block_len(head)?;
        let topic_len = binary_len(Field::Topic, topic.as_bytes())?;
        let behind_topic = usize::from(numbered) * 2 + block.1;
        let fixed = topic_len + behind_topic;
        let body = fixed.saturating_add(payload_len);
        let start = out.len();
        let first = PacketType::Publish.bits()
            | u8::from(head.dup) << 3
            | head.qos.bits() << 1
            | u8::from(head.retain);
        let end = self.begin(PacketType::Publish, first, body, out)?;
        super::put_binary(out, topic.as_bytes());
        let packet_id_at = numbered.then(|| out.len() - start);
        if numbered {
            out.extend_from_slice(&[0, 0]);
        }
        if self.version.is_v5() {
            write_varint(out, block.0);
            for properties in head.properties {
                out.extend_from_slice(properties.as_bytes());
            }
        }
        let header_len = out.len() - start;
        ended(PacketType::Publish, end - payload_len, out);
        Ok(PublishPlace { header_len, total_len: end - start, packet_id_at })
    }

    fn topic<'a>(self, head: &PublishHead<'a>) -> Result<&'a str, EncodeError> {
        let aliased = || {
            let mut blocks = head.properties.iter();
            blocks.any(|block| block.find(PropertyId::TopicAlias).is_some())
        };
        match head.topic {
            Some(topic) => Ok(topic.as_str()),
            None if self.version.is_v5() && aliased() => Ok(""),
            None => Err(EncodeError::NoTopic),
        }
    }

    /// The length of all properties, and what they take with it in front.
    fn block_len(self, head: &PublishHead<'_>) -> Result<(u32, usize), EncodeError> {
        if !self.version.is_v5() {
            return Ok((0, 0));
        }
        let sum: usize = head.properties.iter().map(|block| block.as_bytes().len()).sum();
        let too_large = |_| self.too_large(PacketType::Publish, sum);
        let total = properties_len(sum).map_err(too_large)?;
        let len = u32::try_from(sum).unwrap_or(VARINT_MAX);
        assert_eq!(len as usize, sum, "properties_len has bounded the sum");
        Ok((len, total))
    }
}
