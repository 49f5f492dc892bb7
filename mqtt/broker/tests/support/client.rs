//! A client that does nothing by itself: what it sends and what it expects, the test says.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use super::PATIENCE;
use super::broker::Broker;
use super::connect::Connect;
use super::wire::{Message, Publish, Version, block, hex, packet, read_varint, show, text};

/// One connection.
#[derive(Debug)]
pub(crate) struct Client {
    stream: TcpStream,
    version: Version,
    /// Bytes read, not yet a whole packet.
    buffer: Vec<u8>,
    /// Messages that came while an answer was awaited.
    waiting: VecDeque<Vec<u8>>,
    next_id: u16,
}

/// What came in.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Received {
    Packet(Vec<u8>),
    Closed,
    Nothing,
}

impl Client {
    /// A connection on which nothing was sent.
    pub(crate) fn open(broker: &Broker, version: Version) -> Self {
        let stream = TcpStream::connect(broker.address()).expect("the broker listens");
        stream.set_nodelay(true).expect("a socket option");
        Self::new(stream, version)
    }

    /// A connection, if anybody listens.
    pub(crate) fn try_open(address: SocketAddr, version: Version) -> Option<Self> {
        let stream = TcpStream::connect(address).ok()?;
        stream.set_nodelay(true).ok()?;
        Some(Self::new(stream, version))
    }

    fn new(stream: TcpStream, version: Version) -> Self {
        // However long the broker has reasons not to read.
        stream.set_write_timeout(Some(10 * PATIENCE)).expect("a socket option");
        Self { stream, version, buffer: Vec::new(), waiting: VecDeque::new(), next_id: 100 }
    }

    /// A connection to somebody who listens here.
    pub(crate) fn open_at(address: SocketAddr, version: Version) -> Self {
        Self::try_open(address, version).expect("somebody listens")
    }

    /// A clean session.
    pub(crate) fn connect(broker: &Broker, version: Version, id: &str) -> Self {
        Connect::new(version, id).open(broker).0
    }

    pub(crate) fn version(&self) -> Version {
        self.version
    }

    /// The socket itself, for a test that writes and reads at once.
    pub(crate) fn stream(&self) -> TcpStream {
        self.stream.try_clone().expect("another handle")
    }

    // Sending

    /// A peer that has closed is no failure here: what was expected says so.
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        match self.stream.write_all(bytes) {
            Ok(()) => {}
            Err(error)
                if matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) => {}
            Err(error) => panic!("send: {error}"),
        }
    }

    pub(crate) fn send_hex(&mut self, digits: &str) {
        self.send(&hex(digits));
    }

    pub(crate) fn publish(&mut self, publish: &Publish) {
        let packet = publish.encode(self.version);
        self.send(&packet);
    }

    /// DISCONNECT with code 0, and the close that the broker owes.
    pub(crate) fn disconnect(mut self) {
        self.send_hex("E0 00");
        self.finish();
    }

    /// Says that nothing more will come and waits until the broker has closed as well.
    pub(crate) fn finish(mut self) {
        // The broker may have closed already.
        let _closed = self.stream.shutdown(Shutdown::Write);
        loop {
            match self.receive(PATIENCE) {
                Received::Packet(_) => {}
                Received::Closed => return,
                Received::Nothing => panic!("the broker does not close"),
            }
        }
    }

    /// Ends the connection by a TCP reset.
    pub(crate) fn reset(self) {
        rustix::net::sockopt::set_socket_linger(&self.stream, Some(Duration::ZERO))
            .expect("a socket option");
    }

    // Receiving

    /// The next packet, also one set aside before.
    pub(crate) fn receive(&mut self, patience: Duration) -> Received {
        match self.waiting.pop_front() {
            Some(packet) => Received::Packet(packet),
            None => self.read_packet(patience),
        }
    }

    fn read_packet(&mut self, patience: Duration) -> Received {
        let end = Instant::now() + patience;
        loop {
            if let Some(size) = frame(&self.buffer) {
                return Received::Packet(self.buffer.drain(..size).collect());
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Received::Nothing;
            }
            self.stream.set_read_timeout(Some(left)).expect("a socket option");
            let mut bytes = [0; 16 * 1024];
            match self.stream.read(&mut bytes) {
                Ok(0) => return Received::Closed,
                Ok(len) => self.buffer.extend_from_slice(&bytes[..len]),
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted => {}
                    ErrorKind::ConnectionReset => return Received::Closed,
                    _ => panic!("receive: {error}"),
                },
            }
        }
    }

    #[track_caller]
    pub(crate) fn expect_packet(&mut self) -> Vec<u8> {
        match self.receive(PATIENCE) {
            Received::Packet(packet) => packet,
            other => panic!("expected a packet: {other:?}"),
        }
    }

    #[track_caller]
    pub(crate) fn expect_hex(&mut self, digits: &str) {
        let packet = self.expect_packet();
        assert_eq!(show(&packet), show(&hex(digits)));
    }

    /// The connection ends, and nothing came before.
    #[track_caller]
    pub(crate) fn expect_close(&mut self) {
        match self.receive(PATIENCE) {
            Received::Closed => {}
            Received::Packet(packet) => panic!("expected a close, got {}", show(&packet)),
            Received::Nothing => panic!("expected a close, the connection stays open"),
        }
    }

    /// The connection ends: MQTT 5 may say why, with one of `codes`, the others must not.
    #[track_caller]
    pub(crate) fn expect_end(&mut self, codes: &[u8]) {
        if self.version == Version::V5 {
            let packet = self.expect_packet();
            assert_eq!(packet[0], 0xE0, "expected a DISCONNECT, got {}", show(&packet));
            let code = packet.get(2).copied().unwrap_or(0);
            assert!(codes.contains(&code), "expected one of {codes:02X?}, got {}", show(&packet));
        }
        self.expect_close();
    }

    /// A CONNECT is refused: a close, with a CONNACK of an error before it or without one.
    #[track_caller]
    pub(crate) fn expect_refusal(&mut self) {
        match self.receive(PATIENCE) {
            Received::Closed => return,
            Received::Nothing => panic!("neither an answer nor a close"),
            Received::Packet(packet) => {
                assert_eq!(packet[0], 0x20, "expected a CONNACK, got {}", show(&packet));
                assert_eq!(packet[2], 0, "a refusal with Session Present: {}", show(&packet));
                assert_ne!(packet[3], 0, "a success: {}", show(&packet));
            }
        }
        self.expect_close();
    }

    /// The next packet that is no PUBLISH; messages wait for their own call.
    #[track_caller]
    pub(crate) fn expect_answer(&mut self) -> Vec<u8> {
        loop {
            match self.read_packet(PATIENCE) {
                Received::Packet(packet) if packet[0] >> 4 == 3 => self.waiting.push_back(packet),
                Received::Packet(packet) => return packet,
                other => panic!("expected an answer: {other:?}"),
            }
        }
    }

    /// PUBACK, PUBREC, PUBREL or PUBCOMP with this identifier and a code below 0x80.
    #[track_caller]
    pub(crate) fn expect_ack(&mut self, first: u8, id: u16) {
        let code = self.expect_ack_code(first, id);
        assert!(code < 0x80, "refused with {code:02X}");
    }

    /// Like [`Client::expect_ack`], with any code.
    #[track_caller]
    pub(crate) fn expect_ack_code(&mut self, first: u8, id: u16) -> u8 {
        let packet = self.expect_answer();
        let prefix = [first, id.to_be_bytes()[0], id.to_be_bytes()[1]];
        let got = [packet[0], packet[2], packet[3]];
        assert_eq!(show(&got), show(&prefix), "in {}", show(&packet));
        if self.version != Version::V5 {
            assert_eq!(packet[1], 2, "an acknowledgement with a tail: {}", show(&packet));
        }
        packet.get(4).copied().unwrap_or(0)
    }

    /// PINGREQ and its answer: the broker has handled all that this client sent before.
    #[track_caller]
    pub(crate) fn ping(&mut self) {
        self.send_hex("C0 00");
        let answer = self.expect_answer();
        assert_eq!(show(&answer), "D0 00");
    }

    /// PINGREQ and its answer, and no message up to then.
    #[track_caller]
    pub(crate) fn ping_without_messages(&mut self) {
        self.ping();
        if let Some(packet) = self.waiting.pop_front() {
            panic!("an unexpected message: {}", show(&packet));
        }
    }

    #[track_caller]
    pub(crate) fn expect_message(&mut self) -> Message {
        let packet = self.expect_packet();
        Message::decode(&packet, self.version)
    }

    /// Takes messages until one on this topic says something that is as wanted; what it says.
    #[track_caller]
    pub(crate) fn expect_value(&mut self, topic: &str, is_so: impl Fn(&str) -> bool) -> String {
        let end = Instant::now() + PATIENCE;
        loop {
            let message = self.expect_message();
            let said = message.payload_text();
            if message.topic == topic && is_so(said) {
                return said.to_owned();
            }
            let other = &message.topic;
            assert!(Instant::now() < end, "{topic} is not as wanted: the last is {other}, {said}");
        }
    }

    /// Waits until a topic below `$SYS/broker` says what is wanted.
    #[track_caller]
    pub(crate) fn expect_sys(&mut self, name: &str, is_so: impl Fn(&str) -> bool) {
        let topic = format!("$SYS/broker/{name}");
        self.subscribe(&topic, 0);
        self.expect_value(&topic, is_so);
    }

    /// The next message has this topic and payload; it is acknowledged.
    #[track_caller]
    pub(crate) fn expect(&mut self, topic: &str, payload: &str) -> Message {
        let message = self.expect_message();
        let got = (message.topic.as_str(), String::from_utf8_lossy(&message.payload));
        assert_eq!(got, (topic, payload.into()));
        self.acknowledge(&message);
        message
    }

    /// Answers a message as its QoS asks, to the end.
    #[track_caller]
    pub(crate) fn acknowledge(&mut self, message: &Message) {
        match message.qos {
            0 => {}
            1 => self.send_ack(0x40, message.id),
            _ => {
                self.send_ack(0x50, message.id);
                self.expect_ack(0x62, message.id);
                self.send_ack(0x70, message.id);
            }
        }
    }

    /// PUBACK, PUBREC, PUBREL or PUBCOMP.
    pub(crate) fn send_ack(&mut self, first: u8, id: u16) {
        let [high, low] = id.to_be_bytes();
        self.send(&[first, 2, high, low]);
    }

    // Exchanges

    fn fresh_id(&mut self) -> u16 {
        self.next_id = self.next_id.checked_add(1).unwrap_or(1);
        self.next_id
    }

    /// Publishes and completes the handshake of the QoS.
    #[track_caller]
    pub(crate) fn publish_all(&mut self, publish: Publish, qos: u8) {
        let id = self.fresh_id();
        self.publish(&publish.qos(qos, id));
        match qos {
            0 => {}
            1 => self.expect_ack(0x40, id),
            _ => {
                self.expect_ack(0x50, id);
                self.send_ack(0x62, id);
                self.expect_ack(0x70, id);
            }
        }
    }

    /// Publishes text and completes the handshake of the QoS.
    #[track_caller]
    pub(crate) fn say(&mut self, topic: &str, payload: &str, qos: u8) {
        self.publish_all(Publish::new(topic, payload), qos);
    }

    /// Publishes a retained text and completes the handshake of the QoS.
    #[track_caller]
    pub(crate) fn retain(&mut self, topic: &str, payload: &str, qos: u8) {
        self.publish_all(Publish::new(topic, payload).retain(), qos);
    }

    /// Subscribes to one filter; the options must be granted as asked.
    #[track_caller]
    pub(crate) fn subscribe(&mut self, filter: &str, options: u8) {
        let codes = self.subscribe_with("", &[(filter, options)]);
        assert_eq!(codes, [options & 3], "granted for {filter}");
    }

    /// Subscribes with raw properties in hex (MQTT 5 only) and returns the codes.
    #[track_caller]
    pub(crate) fn subscribe_with(&mut self, properties: &str, filters: &[(&str, u8)]) -> Vec<u8> {
        let id = self.fresh_id();
        let mut body = id.to_be_bytes().to_vec();
        if self.version == Version::V5 {
            body.extend(block(&hex(properties)));
        }
        for (filter, options) in filters {
            body.extend(text(filter));
            body.push(*options);
        }
        self.send(&packet(0x82, &body));
        self.expect_codes(0x90, id)
    }

    /// Removes subscriptions and returns the codes, which only MQTT 5 has.
    #[track_caller]
    pub(crate) fn unsubscribe(&mut self, filters: &[&str]) -> Vec<u8> {
        let id = self.fresh_id();
        let mut body = id.to_be_bytes().to_vec();
        if self.version == Version::V5 {
            body.push(0);
        }
        for filter in filters {
            body.extend(text(filter));
        }
        self.send(&packet(0xA2, &body));
        self.expect_codes(0xB0, id)
    }

    /// The codes of a SUBACK or UNSUBACK with this identifier.
    #[track_caller]
    pub(crate) fn expect_codes(&mut self, first: u8, id: u16) -> Vec<u8> {
        let answer = self.expect_answer();
        let (_, size) = read_varint(&answer[1..]).expect("a remaining length");
        let mut body = &answer[1 + size..];
        assert_eq!(answer[0], first, "got {}", show(&answer));
        assert_eq!(body[..2], id.to_be_bytes(), "got {}", show(&answer));
        body = &body[2..];
        if self.version == Version::V5 {
            let (len, size) = read_varint(body).expect("a property length");
            body = &body[size + len..];
        }
        body.to_vec()
    }
}

/// A publisher and a subscriber.
pub(crate) fn pair(broker: &Broker, version: Version) -> (Client, Client) {
    (Client::connect(broker, version, "publisher"), Client::connect(broker, version, "subscriber"))
}

/// Takes the next PUBLISH without answering.
#[track_caller]
pub(crate) fn next(client: &mut Client, payload: &str) -> Message {
    let message = client.expect_message();
    assert_eq!(message.payload_text(), payload);
    message
}

/// The broker ends the connection of a client that sends this.
#[track_caller]
pub(crate) fn ends(broker: &Broker, version: Version, digits: &str, codes: &[u8]) {
    let mut client = Client::connect(broker, version, "faulty");
    client.send_hex(digits);
    client.expect_end(codes);
}

/// The payloads of the messages that arrive before `end`, which is published behind them.
#[track_caller]
pub(crate) fn payloads_up_to(client: &mut Client, end: &str) -> Vec<String> {
    let mut payloads = Vec::new();
    loop {
        let message = client.expect_message();
        client.acknowledge(&message);
        if message.payload_text() == end {
            return payloads;
        }
        payloads.push(message.payload_text().to_owned());
    }
}

/// What is left of an expiry of so many seconds, `waited` of which have passed for certain, and no
/// more than have passed since a moment before it began: a busy machine only makes it less.
#[track_caller]
pub(crate) fn expect_left(left: u32, expiry: u32, waited: u32, start: Instant) {
    let passed = u32::try_from(start.elapsed().as_secs()).expect("a while") + 2;
    let expected = expiry.saturating_sub(passed)..=expiry - waited;
    assert!(expected.contains(&left), "{left} s left, not {expected:?}");
}

/// The size of the whole packet at the start of `bytes`.
fn frame(bytes: &[u8]) -> Option<usize> {
    let (len, size) = read_varint(bytes.get(1..)?)?;
    let end = 1 + size + len;
    (bytes.len() >= end).then_some(end)
}
