//! CONNECT with all it may carry, and what the answer says.

use std::net::SocketAddr;

use super::broker::Broker;
use super::client::Client;
use super::wire::{Property, Version, block, bytes, hex, number, packet, read_block, show, text};
use super::wire::{read_varint, values};

/// A CONNECT to be sent.
#[derive(Clone, Debug)]
pub(crate) struct Connect {
    version: Version,
    id: String,
    flags: u8,
    keep_alive: u16,
    properties: Vec<u8>,
    will: Vec<u8>,
    login: Vec<u8>,
}

/// A successful CONNACK.
#[derive(Clone, Debug)]
pub(crate) struct Accepted {
    pub(crate) session_present: bool,
    pub(crate) properties: Vec<Property>,
}

impl Connect {
    /// Clean.
    pub(crate) fn new(version: Version, id: &str) -> Self {
        Self {
            version,
            id: id.to_owned(),
            flags: 0x02,
            // Unless it says so, nobody is ended for being slow on a busy machine.
            keep_alive: 0,
            properties: Vec::new(),
            will: Vec::new(),
            login: Vec::new(),
        }
    }

    /// Goes on with a session that is there, and leaves one behind.
    pub(crate) fn persistent(version: Version, id: &str) -> Self {
        let connect = Self::new(version, id).resume();
        if version == Version::V5 { connect.properties("11 00 00 0E 10") } else { connect }
    }

    /// Clean Start or Clean Session 0.
    pub(crate) fn resume(mut self) -> Self {
        self.flags &= !0x02;
        self
    }

    /// Clean Start or Clean Session 1.
    pub(crate) fn clean(mut self) -> Self {
        self.flags |= 0x02;
        self
    }

    pub(crate) fn keep_alive(mut self, seconds: u16) -> Self {
        self.keep_alive = seconds;
        self
    }

    /// Raw properties in hex; MQTT 5 only.
    pub(crate) fn properties(mut self, digits: &str) -> Self {
        self.properties.extend(hex(digits));
        self
    }

    /// Raw properties; MQTT 5 only.
    pub(crate) fn property_bytes(mut self, bytes: &[u8]) -> Self {
        self.properties.extend_from_slice(bytes);
        self
    }

    /// A will without properties.
    pub(crate) fn will(self, topic: &str, payload: &str, qos: u8, retain: bool) -> Self {
        self.will_with("", topic, payload, qos, retain)
    }

    /// A will with raw properties in hex, which only MQTT 5 sends.
    pub(crate) fn will_with(
        mut self,
        properties: &str,
        topic: &str,
        payload: &str,
        qos: u8,
        retain: bool,
    ) -> Self {
        self.flags |= 0x04 | qos << 3 | u8::from(retain) << 5;
        if self.version == Version::V5 {
            self.will.extend(block(&hex(properties)));
        }
        self.will.extend(text(topic));
        self.will.extend(bytes(payload.as_bytes()));
        self
    }

    /// A user name and a password.
    pub(crate) fn login(mut self, user: &str, password: &str) -> Self {
        self.flags |= 0xC0;
        self.login = [text(user), text(password)].concat();
        self
    }

    /// Connects to somebody who listens here; anything but success fails the test.
    pub(crate) fn open_at(&self, address: SocketAddr) -> (Client, Accepted) {
        let mut client = Client::open_at(address, self.version);
        client.send(&self.encode());
        let answer = client.expect_packet();
        let accepted = Accepted::decode(&answer, self.version);
        (client, accepted)
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let (name, level) = match self.version {
            Version::V3 => ("MQIsdp", 3),
            Version::V4 => ("MQTT", 4),
            Version::V5 => ("MQTT", 5),
        };
        let mut body = text(name);
        body.extend([level, self.flags]);
        body.extend(self.keep_alive.to_be_bytes());
        if self.version == Version::V5 {
            body.extend(block(&self.properties));
        }
        body.extend(text(&self.id));
        body.extend_from_slice(&self.will);
        body.extend_from_slice(&self.login);
        packet(0x10, &body)
    }

    /// Connects; anything but success fails the test.
    pub(crate) fn open(&self, broker: &Broker) -> (Client, Accepted) {
        let mut client = Client::open(broker, self.version);
        client.send(&self.encode());
        let answer = client.expect_packet();
        let accepted = Accepted::decode(&answer, self.version);
        (client, accepted)
    }
}

impl Accepted {
    pub(crate) fn decode(packet: &[u8], version: Version) -> Self {
        assert_eq!(packet[0], 0x20, "expected a CONNACK, got {}", show(packet));
        let (_, size) = read_varint(&packet[1..]).expect("a remaining length");
        let body = &packet[1 + size..];
        assert_eq!(body[1], 0, "refused: {}", show(packet));
        assert_eq!(body[0] & 0xFE, 0, "reserved flags: {}", show(packet));
        let properties = match version {
            Version::V5 => read_block(&body[2..]).0,
            Version::V3 | Version::V4 => Vec::new(),
        };
        Self { session_present: body[0] == 1, properties }
    }

    pub(crate) fn number(&self, id: u8) -> Option<u32> {
        number(&self.properties, id)
    }

    pub(crate) fn all(&self, id: u8) -> Vec<&[u8]> {
        values(&self.properties, id)
    }
}
