//! The packets that clients send, and the payloads that say which message they are.

use zzq_codec::{Encoder, Packet};
use zzq_types::{PacketId, ProtocolVersion};

use crate::history::{Message, MessageId};

/// Appends a packet.
///
/// # Panics
/// The codec refuses it: a defect of the client.
pub(super) fn encode(version: ProtocolVersion, packet: &Packet<'_>, out: &mut Vec<u8>) {
    let encoded = Encoder::new(version).encode(packet, out);
    assert!(encoded.is_ok(), "{encoded:?}: {packet:?}");
}

/// # Panics
/// It is 0.
pub(super) fn packet_id(id: u16) -> PacketId {
    let made = PacketId::new(id);
    assert!(made.is_some(), "packet identifiers begin with 1");
    made.unwrap_or(PacketId::of_queue_number(1))
}

/// The payload of a message: its number, then as many bytes as it has.
pub(super) fn payload(id: MessageId, message: &Message) -> Vec<u8> {
    if message.clears {
        return Vec::new();
    }
    let mut bytes = format!("#{:08x}", id.0).into_bytes();
    let fill = (id.0 % 251).to_le_bytes()[0];
    bytes.resize(message.size.max(bytes.len()), fill);
    if let Some(quote) = &message.quote {
        bytes[quote.at..quote.at + quote.bytes.len()].copy_from_slice(&quote.bytes);
    }
    bytes
}

/// The message that a payload belongs to; `Err`: to none, or it is not as it was sent.
pub(super) fn message_of(
    bytes: &[u8],
    known: impl Fn(MessageId) -> Option<Message>,
) -> Result<Option<MessageId>, String> {
    if bytes.is_empty() {
        return Ok(None);
    }
    let digits = bytes.get(1..9).and_then(|digits| std::str::from_utf8(digits).ok());
    let number = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok());
    let id = number.map(MessageId).filter(|_| bytes[0] == b'#');
    let Some((id, message)) = id.and_then(|id| Some((id, known(id)?))) else {
        return Err(format!("a payload that nobody sent: {:x?}", &bytes[..bytes.len().min(20)]));
    };
    if bytes != payload(id, &message) {
        return Err(format!("the payload of {id:?} is not as it was sent"));
    }
    Ok(Some(id))
}

#[cfg(test)]
mod tests {
    use zzq_types::QoS;

    use super::super::quote::Quote;
    use super::*;
    use crate::history::ClientId;

    #[test]
    fn a_payload_says_what_it_belongs_to_and_every_byte_counts() {
        let message = Message {
            client: ClientId(0),
            topic: "t".into(),
            qos: QoS::AtMostOnce,
            retain: false,
            clears: false,
            expiry_s: None,
            is_will: false,
            is_probe: false,
            size: 30,
            quote: None,
        };
        let known = |id: MessageId| (id.0 == 7).then(|| message.clone());
        let mut bytes = payload(MessageId(7), &message);
        assert_eq!(bytes.len(), 30);
        assert_eq!(message_of(&bytes, known), Ok(Some(MessageId(7))));
        assert_eq!(message_of(&[], known), Ok(None));
        let quote = Some(Quote { at: 10, bytes: (*b"a group").into() });
        let quoting = Message { quote, ..message.clone() };
        let quoted = payload(MessageId(7), &quoting);
        assert_eq!((&quoted[10..17], quoted.len()), (&b"a group"[..], 30));
        assert_eq!(message_of(&quoted, |_| Some(quoting.clone())), Ok(Some(MessageId(7))));
        assert!(message_of(&quoted, known).is_err());
        bytes[29] ^= 1;
        assert!(message_of(&bytes, known).is_err());
        assert!(message_of(b"#00000008", known).is_err());
        assert!(message_of(b"hello", known).is_err());
    }
}
