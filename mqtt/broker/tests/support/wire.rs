//! The bytes of MQTT, as far as tests write and read them.

use std::fmt::Write as _;

/// The protocol a client speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    V3,
    V4,
    V5,
}

/// The bytes of `"10 0C 00"`; blanks are free.
pub(crate) fn hex(digits: &str) -> Vec<u8> {
    let digits: Vec<u8> = digits.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let digit = |at: usize| char::from(digits[at]).to_digit(16).expect("a hex digit");
    assert!(digits.len().is_multiple_of(2), "an odd number of digits");
    let byte = |at| u8::try_from(digit(at) * 16 + digit(at + 1)).expect("a byte");
    (0..digits.len()).step_by(2).map(byte).collect()
}

/// Bytes as [`hex`] reads them, shortened where long.
pub(crate) fn show(bytes: &[u8]) -> String {
    let mut shown = String::new();
    for byte in bytes.iter().take(64) {
        write!(shown, "{byte:02X} ").expect("memory");
    }
    if bytes.len() > 64 {
        write!(shown, ".. {} bytes", bytes.len()).expect("memory");
    }
    shown.trim_end().to_owned()
}

/// A whole packet: first byte, remaining length, body.
pub(crate) fn packet(first: u8, body: &[u8]) -> Vec<u8> {
    let mut packet = vec![first];
    varint(&mut packet, body.len());
    packet.extend_from_slice(body);
    packet
}

/// Appends a variable byte integer.
pub(crate) fn varint(out: &mut Vec<u8>, mut value: usize) {
    loop {
        let low = u8::try_from(value % 128).expect("seven bits");
        value /= 128;
        if value == 0 {
            return out.push(low);
        }
        out.push(low | 0x80);
    }
}

/// Reads a variable byte integer: its value and its size.
pub(crate) fn read_varint(bytes: &[u8]) -> Option<(usize, usize)> {
    let mut value = 0;
    for (at, byte) in bytes.iter().take(4).enumerate() {
        value |= usize::from(byte & 0x7F) << (7 * at);
        if byte & 0x80 == 0 {
            return Some((value, at + 1));
        }
    }
    None
}

/// Two bytes of length and the text.
pub(crate) fn text(text: &str) -> Vec<u8> {
    bytes(text.as_bytes())
}

/// Two bytes of length and the bytes.
pub(crate) fn bytes(bytes: &[u8]) -> Vec<u8> {
    let len = u16::try_from(bytes.len()).expect("at most 65 535 bytes");
    [&len.to_be_bytes()[..], bytes].concat()
}

/// A property block with its length.
pub(crate) fn block(properties: &[u8]) -> Vec<u8> {
    let mut block = Vec::new();
    varint(&mut block, properties.len());
    block.extend_from_slice(properties);
    block
}

/// An identifier and the raw bytes of the value, without the length of a string.
pub(crate) type Property = (u8, Vec<u8>);

/// The properties of a block that begins at `body`, and the size of it all.
pub(crate) fn read_block(body: &[u8]) -> (Vec<Property>, usize) {
    let (len, size) = read_varint(body).expect("a property length");
    let mut rest = &body[size..size + len];
    let mut properties = Vec::new();
    while let Some((&id, value)) = rest.split_first() {
        let (value, used) = read_value(id, value);
        properties.push((id, value));
        rest = &rest[1 + used..];
    }
    (properties, size + len)
}

fn read_value(id: u8, at: &[u8]) -> (Vec<u8>, usize) {
    let string = |at: &[u8]| usize::from(u16::from_be_bytes([at[0], at[1]]));
    match id {
        0x01 | 0x17 | 0x19 | 0x24 | 0x25 | 0x28..=0x2A => (at[..1].to_vec(), 1),
        0x13 | 0x21..=0x23 => (at[..2].to_vec(), 2),
        0x02 | 0x11 | 0x18 | 0x27 => (at[..4].to_vec(), 4),
        0x0B => {
            let (value, size) = read_varint(at).expect("a subscription identifier");
            (u32::try_from(value).expect("28 bits").to_be_bytes().to_vec(), size)
        }
        0x26 => {
            let name = 2 + string(at);
            let size = name + 2 + string(&at[name..]);
            (at[..size].to_vec(), size)
        }
        _ => {
            let end = 2 + string(at);
            (at[2..end].to_vec(), end)
        }
    }
}

/// A PUBLISH to be sent.
#[derive(Clone, Debug, Default)]
pub(crate) struct Publish {
    topic: Vec<u8>,
    payload: Vec<u8>,
    flags: u8,
    id: u16,
    properties: Vec<u8>,
}

impl Publish {
    pub(crate) fn new(topic: &str, payload: impl AsRef<[u8]>) -> Self {
        let (topic, payload) = (topic.as_bytes().to_vec(), payload.as_ref().to_vec());
        Self { topic, payload, ..Self::default() }
    }

    pub(crate) fn qos(mut self, qos: u8, id: u16) -> Self {
        self.flags |= qos << 1;
        self.id = id;
        self
    }

    pub(crate) fn retain(mut self) -> Self {
        self.flags |= 1;
        self
    }

    pub(crate) fn dup(mut self) -> Self {
        self.flags |= 8;
        self
    }

    /// Raw properties in hex; MQTT 5 only.
    pub(crate) fn properties(mut self, digits: &str) -> Self {
        self.properties.extend(hex(digits));
        self
    }

    pub(crate) fn encode(&self, version: Version) -> Vec<u8> {
        let mut body = bytes(&self.topic);
        if self.flags & 6 != 0 {
            body.extend(self.id.to_be_bytes());
        }
        if version == Version::V5 {
            body.extend(block(&self.properties));
        }
        body.extend_from_slice(&self.payload);
        packet(0x30 | self.flags, &body)
    }
}

/// A PUBLISH that arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) topic: String,
    pub(crate) payload: Vec<u8>,
    pub(crate) qos: u8,
    pub(crate) retain: bool,
    pub(crate) dup: bool,
    /// Zero at QoS 0.
    pub(crate) id: u16,
    pub(crate) properties: Vec<Property>,
}

impl Message {
    /// Reads a whole packet that begins with 0x3x.
    pub(crate) fn decode(packet: &[u8], version: Version) -> Self {
        assert_eq!(packet[0] >> 4, 3, "expected a PUBLISH, got {}", show(packet));
        let (_, size) = read_varint(&packet[1..]).expect("a remaining length");
        let body = &packet[1 + size..];
        let topic_end = 2 + usize::from(u16::from_be_bytes([body[0], body[1]]));
        let topic = String::from_utf8(body[2..topic_end].to_vec()).expect("a topic in UTF-8");
        let (qos, mut at, mut id) = (packet[0] >> 1 & 3, topic_end, 0);
        if qos > 0 {
            id = u16::from_be_bytes([body[at], body[at + 1]]);
            at += 2;
            assert_ne!(id, 0, "a packet identifier of zero");
        }
        let mut properties = Vec::new();
        if version == Version::V5 {
            let (found, size) = read_block(&body[at..]);
            properties = found;
            at += size;
        }
        Self {
            topic,
            payload: body[at..].to_vec(),
            qos,
            retain: packet[0] & 1 != 0,
            dup: packet[0] & 8 != 0,
            id,
            properties,
        }
    }

    /// The values of a property, in the order they came.
    pub(crate) fn all(&self, id: u8) -> Vec<&[u8]> {
        values(&self.properties, id)
    }

    /// A property of two or four bytes, or a subscription identifier.
    pub(crate) fn number(&self, id: u8) -> Option<u32> {
        number(&self.properties, id)
    }

    /// The subscription identifiers, sorted.
    pub(crate) fn subscription_ids(&self) -> Vec<u32> {
        let mut ids: Vec<u32> = self.all(0x0B).into_iter().map(big_endian).collect();
        ids.sort_unstable();
        ids
    }

    pub(crate) fn payload_text(&self) -> &str {
        std::str::from_utf8(&self.payload).expect("a payload of text")
    }
}

pub(crate) fn values(properties: &[Property], id: u8) -> Vec<&[u8]> {
    properties.iter().filter(|property| property.0 == id).map(|property| &property.1[..]).collect()
}

pub(crate) fn number(properties: &[Property], id: u8) -> Option<u32> {
    values(properties, id).first().map(|bytes| big_endian(bytes))
}

fn big_endian(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0, |value, &byte| value << 8 | u32::from(byte))
}
