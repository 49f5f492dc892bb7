//! Golden packets: every kind in every version, as value and as bytes.

#![allow(dead_code, clippy::unwrap_used, reason = "shared by tests, each takes what it needs")]

pub(crate) mod any;

use zzq_codec::{
    Ack, Auth, ConnAck, Connect, DecodeError, Decoder, Delivery, Disconnect, Encoder, Limits,
    Packet, PacketType, Publish, ReasonCodes, Sender, SubAck, Subscribe, SubscriptionsBuf,
    UnsubAck, Unsubscribe, Will,
};
use zzq_types::{
    PacketId, Properties, PropertiesBuf, Property, ProtocolVersion, QoS, ReasonCode,
    RetainHandling, SubscribeOptions, TopicName,
};

pub(crate) use ProtocolVersion::{V5, V31, V311};

pub(crate) const VERSIONS: [ProtocolVersion; 3] = [V31, V311, V5];

/// One packet, both ways.
pub(crate) struct Golden {
    pub(crate) version: ProtocolVersion,
    pub(crate) sender: Sender,
    pub(crate) packet: Packet<'static>,
    pub(crate) bytes: Vec<u8>,
}

/// The decoder that reads `packet` from `sender`.
pub(crate) fn decoder(packet: PacketType, sender: Sender, version: ProtocolVersion) -> Decoder {
    let mut decoder = match sender {
        Sender::Client => Decoder::of_clients(Limits::default()),
        Sender::Server => Decoder::of_servers(version, Limits::default()),
    };
    if packet != PacketType::Connect {
        decoder.connected(version);
    }
    decoder.with_bridges()
}

pub(crate) fn encode(version: ProtocolVersion, packet: &Packet<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    Encoder::new(version).encode(packet, &mut out).unwrap();
    out
}

/// Bytes from hexadecimal words and quoted text: `10 04 'MQTT' 05`.
pub(crate) fn hex(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    for (at, part) in text.split('\'').enumerate() {
        if at % 2 == 1 {
            out.extend_from_slice(part.as_bytes());
        } else {
            let words = part.split_whitespace();
            out.extend(words.map(|word| u8::from_str_radix(word, 16).unwrap()));
        }
    }
    out
}

pub(crate) fn id(id: u16) -> PacketId {
    PacketId::new(id).unwrap()
}

pub(crate) fn topic(text: &str) -> TopicName<'_> {
    TopicName::new(text).unwrap()
}

/// A block that outlives the test.
pub(crate) fn properties(list: &[Property<'_>]) -> Properties<'static> {
    let mut buf = PropertiesBuf::new();
    for property in list {
        buf.push(*property).unwrap();
    }
    Properties::from_checked(buf.as_properties().as_bytes().to_vec().leak())
}

pub(crate) fn entries(list: &[(&str, SubscribeOptions)]) -> &'static SubscriptionsBuf {
    let mut buf = SubscriptionsBuf::new();
    for (filter, options) in list {
        buf.push(filter, *options).unwrap();
    }
    Box::leak(Box::new(buf))
}

fn golden(
    version: ProtocolVersion,
    sender: Sender,
    packet: Packet<'static>,
    bytes: &str,
) -> Golden {
    Golden { version, sender, packet, bytes: hex(bytes) }
}

/// All of them.
pub(crate) fn goldens() -> Vec<Golden> {
    let mut all = connects();
    all.extend(conn_acks());
    all.extend(publishes());
    all.extend(acks());
    all.extend(subscribes());
    all.extend(unsubscribes());
    all.extend(endings());
    all
}

fn will() -> Will<'static> {
    Will {
        qos: QoS::AtLeastOnce,
        retain: true,
        properties: Properties::EMPTY,
        topic: topic("t"),
        payload: b"w",
    }
}

fn connects() -> Vec<Golden> {
    let with = |connect, bytes| golden(V5, Sender::Client, Packet::Connect(connect), bytes);
    let mut list = vec![
        with(Connect::new(V5, ""), "10 0D 00 04 'MQTT' 05 02 00 00 00 00 00"),
        with(
            Connect {
                clean_start: false,
                keep_alive: 60,
                properties: properties(&[
                    Property::SessionExpiry(0x100),
                    Property::ReceiveMaximum(9),
                    Property::MaximumPacketSize(99),
                    Property::TopicAliasMaximum(3),
                    Property::RequestResponseInfo(1),
                    Property::RequestProblemInfo(0),
                    Property::AuthMethod("m"),
                    Property::AuthData(b"d"),
                    Property::UserProperty("k", "v"),
                ]),
                will: Some(Will {
                    properties: properties(&[
                        Property::WillDelay(5),
                        Property::PayloadFormat(1),
                        Property::MessageExpiry(10),
                        Property::ContentType("c"),
                        Property::ResponseTopic("r"),
                        Property::CorrelationData(b"x"),
                        Property::UserProperty("a", "1"),
                        Property::UserProperty("a", "2"),
                    ]),
                    ..will()
                }),
                user_name: None,
                password: Some(b""),
                ..Connect::new(V5, "s")
            },
            "10 60 00 04 'MQTT' 05 6C 00 3C \
             23 11 00 00 01 00 21 00 09 27 00 00 00 63 22 00 03 19 01 17 00 15 00 01 'm' \
             16 00 01 'd' 26 00 01 'k' 00 01 'v' 00 01 's' \
             26 18 00 00 00 05 01 01 02 00 00 00 0A 03 00 01 'c' 08 00 01 'r' 09 00 01 'x' \
             26 00 01 'a' 00 01 '1' 26 00 01 'a' 00 01 '2' 00 01 't' 00 01 'w' 00 00",
        ),
    ];
    for (version, name) in [(V311, "00 04 'MQTT' 04"), (V31, "00 06 'MQIsdp' 03")] {
        let mut with = |connect: Connect<'static>, size: u8, rest: &str| {
            let len = size + if version == V31 { 2 } else { 0 };
            let bytes = format!("10 {len:02X} {name} {rest}");
            list.push(golden(version, Sender::Client, Packet::Connect(connect), &bytes));
        };
        with(Connect::new(version, "a"), 13, "02 00 00 00 01 'a'");
        let full = Connect {
            clean_start: false,
            keep_alive: 0x0102,
            will: Some(will()),
            user_name: Some(""),
            password: Some(b"p\0"),
            ..Connect::new(version, "a\u{E9}")
        };
        with(full, 27, "EC 01 02 00 03 'aé' 00 01 't' 00 01 'w' 00 00 00 02 'p' 00");
    }
    let bridge = Connect { bridge: true, ..Connect::new(V311, "b") };
    let bytes = "10 0D 00 04 'MQTT' 84 02 00 00 00 01 'b'";
    list.push(golden(V311, Sender::Client, Packet::Connect(bridge), bytes));
    list
}

fn conn_acks() -> Vec<Golden> {
    let with = |version, ack, bytes| golden(version, Sender::Server, Packet::ConnAck(ack), bytes);
    let all = properties(&[
        Property::SessionExpiry(1),
        Property::ReceiveMaximum(2),
        Property::MaximumQoS(1),
        Property::RetainAvailable(0),
        Property::MaximumPacketSize(3),
        Property::AssignedClientId("id"),
        Property::TopicAliasMaximum(4),
        Property::ReasonString("r"),
        Property::UserProperty("k", "v"),
        Property::WildcardAvailable(1),
        Property::SubscriptionIdAvailable(0),
        Property::SharedAvailable(1),
        Property::ServerKeepAlive(5),
        Property::ResponseInfo("i"),
        Property::ServerReference("s"),
        Property::AuthMethod("m"),
        Property::AuthData(b"d"),
    ]);
    vec![
        with(V31, ConnAck::accepted(false, Properties::EMPTY), "20 02 00 00"),
        with(V31, ConnAck::refused(ReasonCode::ClientIdentifierNotValid), "20 02 00 02"),
        with(V311, ConnAck::accepted(true, Properties::EMPTY), "20 02 01 00"),
        with(V311, ConnAck::refused(ReasonCode::UnsupportedProtocolVersion), "20 02 00 01"),
        with(V311, ConnAck::refused(ReasonCode::ServerUnavailable), "20 02 00 03"),
        with(V311, ConnAck::refused(ReasonCode::BadUserNameOrPassword), "20 02 00 04"),
        with(V311, ConnAck::refused(ReasonCode::NotAuthorized), "20 02 00 05"),
        with(V5, ConnAck::accepted(false, Properties::EMPTY), "20 03 00 00 00"),
        with(V5, ConnAck::refused(ReasonCode::Banned), "20 03 00 8A 00"),
        with(
            V5,
            ConnAck::accepted(true, all),
            "20 40 01 00 3D 11 00 00 00 01 21 00 02 24 01 25 00 27 00 00 00 03 12 00 02 'id' \
             22 00 04 1F 00 01 'r' 26 00 01 'k' 00 01 'v' 28 01 29 00 2A 01 13 00 05 1A 00 01 'i' \
             1C 00 01 's' 15 00 01 'm' 16 00 01 'd'",
        ),
    ]
}

fn publishes() -> Vec<Golden> {
    let mut list = Vec::new();
    for sender in [Sender::Client, Sender::Server] {
        for version in VERSIONS {
            let none = if version == V5 { "00" } else { "" };
            let extra = u8::from(version == V5);
            let mut with = |publish, first: &str, len: u8, id: &str, payload: &str| {
                let bytes = format!("{first} {:02X} 00 01 't' {id} {none} {payload}", len + extra);
                list.push(golden(version, sender, Packet::Publish(publish), &bytes));
            };
            let plain = Publish::new(topic("t"), Delivery::AtMostOnce, b"");
            with(plain, "30", 3, "", "");
            let retained = Publish { retain: true, payload: b"hi", ..plain };
            with(retained, "31", 5, "", "'hi'");
            let once = Publish { delivery: Delivery::AtLeastOnce(id(1)), ..retained };
            with(Publish { dup: true, ..once }, "3B", 7, "00 01", "'hi'");
            let exactly = Delivery::ExactlyOnce(id(0xFFFF));
            with(Publish { delivery: exactly, payload: b"\0", ..plain }, "34", 6, "FF FF", "00");
        }
        let full = properties(&[
            Property::PayloadFormat(1),
            Property::MessageExpiry(10),
            Property::TopicAlias(7),
            Property::ResponseTopic("r"),
            Property::CorrelationData(b"x"),
            Property::UserProperty("k", "v"),
            Property::ContentType("c"),
        ]);
        let publish =
            Publish { properties: full, ..Publish::new(topic("t"), Delivery::AtMostOnce, b"p") };
        let bytes = "30 22 00 01 't' 1D 01 01 02 00 00 00 0A 23 00 07 08 00 01 'r' 09 00 01 'x' \
                     26 00 01 'k' 00 01 'v' 03 00 01 'c' 'p'";
        list.push(golden(V5, sender, Packet::Publish(publish), bytes));
        let aliased = Publish {
            topic: None,
            properties: properties(&[Property::TopicAlias(3)]),
            ..Publish::new(topic("t"), Delivery::AtLeastOnce(id(2)), b"")
        };
        list.push(golden(V5, sender, Packet::Publish(aliased), "32 08 00 00 00 02 03 23 00 03"));
    }
    let matched = Publish {
        properties: properties(&[Property::SubscriptionId(1), Property::SubscriptionId(300)]),
        ..Publish::new(topic("t"), Delivery::AtMostOnce, b"")
    };
    let bytes = "30 09 00 01 't' 05 0B 01 0B AC 02";
    list.push(golden(V5, Sender::Server, Packet::Publish(matched), bytes));
    list
}

fn acks() -> Vec<Golden> {
    type Make = fn(Ack<'static>) -> Packet<'static>;
    let kinds: [(Make, &str, ReasonCode); 4] = [
        (Packet::PubAck, "40", ReasonCode::NoMatchingSubscribers),
        (Packet::PubRec, "50", ReasonCode::QuotaExceeded),
        (Packet::PubRel, "62", ReasonCode::PacketIdentifierNotFound),
        (Packet::PubComp, "70", ReasonCode::PacketIdentifierNotFound),
    ];
    let mut list = Vec::new();
    for (make, first, reason) in kinds {
        for sender in [Sender::Client, Sender::Server] {
            for version in VERSIONS {
                let plain = Ack::success(id(0x0102));
                let bytes = format!("{first} 02 01 02");
                list.push(golden(version, sender, make(plain), &bytes));
            }
            let short = Ack::with_reason(id(3), reason);
            let code = reason.code();
            let bytes = format!("{first} 03 00 03 {code:02X}");
            list.push(golden(V5, sender, make(short), &bytes));
            let props =
                properties(&[Property::ReasonString("r"), Property::UserProperty("k", "v")]);
            let full = Ack { properties: props, ..Ack::success(id(3)) };
            let bytes = format!("{first} 0F 00 03 00 0B 1F 00 01 'r' 26 00 01 'k' 00 01 'v'");
            list.push(golden(V5, sender, make(full), &bytes));
        }
    }
    list
}

fn subscribe(
    properties: Properties<'static>,
    list: &[(&str, SubscribeOptions)],
) -> Packet<'static> {
    let subscriptions = entries(list).subscriptions();
    Packet::Subscribe(Subscribe { packet_id: id(1), properties, subscriptions })
}

fn subscribes() -> Vec<Golden> {
    let mut list = Vec::new();
    let options = SubscribeOptions {
        qos: QoS::ExactlyOnce,
        no_local: true,
        retain_as_published: true,
        retain_handling: RetainHandling::Never,
    };
    let one = |qos| SubscribeOptions::with_qos(qos);
    for version in [V31, V311] {
        let two = [("a/+", one(QoS::AtMostOnce)), ("#", one(QoS::ExactlyOnce))];
        let bytes = "82 0C 00 01 00 03 'a/+' 00 00 01 '#' 02";
        let packet = subscribe(Properties::EMPTY, &two);
        list.push(golden(version, Sender::Client, packet, bytes));
        let codes = match version {
            V31 => ReasonCodes::new(&[ReasonCode::Success, ReasonCode::GrantedQoS2]),
            _ => ReasonCodes::new(&[ReasonCode::GrantedQoS1, ReasonCode::UnspecifiedError]),
        };
        let bytes = if version == V31 { "90 04 00 01 00 02" } else { "90 04 00 01 01 80" };
        let ack = SubAck { packet_id: id(1), properties: Properties::EMPTY, codes };
        list.push(golden(version, Sender::Server, Packet::SubAck(ack), bytes));
    }
    let props = properties(&[Property::SubscriptionId(300), Property::UserProperty("k", "v")]);
    let two = [("a", options), ("$share/g/t", one(QoS::AtLeastOnce))];
    let bytes = "82 1E 00 01 0A 0B AC 02 26 00 01 'k' 00 01 'v' 00 01 'a' 2E 00 0A '$share/g/t' 01";
    list.push(golden(V5, Sender::Client, subscribe(props, &two), bytes));
    let ack = SubAck {
        packet_id: id(1),
        properties: properties(&[Property::ReasonString("r")]),
        codes: ReasonCodes::new(&[ReasonCode::GrantedQoS2, ReasonCode::TopicFilterInvalid]),
    };
    let bytes = "90 09 00 01 04 1F 00 01 'r' 02 8F";
    list.push(golden(V5, Sender::Server, Packet::SubAck(ack), bytes));
    list
}

fn unsubscribes() -> Vec<Golden> {
    let filters =
        entries(&[("a/b", SubscribeOptions::default()), ("c", SubscribeOptions::default())]);
    let request =
        Unsubscribe { packet_id: id(2), properties: Properties::EMPTY, filters: filters.filters() };
    let ack =
        UnsubAck { packet_id: id(2), properties: Properties::EMPTY, codes: ReasonCodes::new(&[]) };
    let mut list = Vec::new();
    for version in [V31, V311] {
        let bytes = "A2 0A 00 02 00 03 'a/b' 00 01 'c'";
        list.push(golden(version, Sender::Client, Packet::Unsubscribe(request), bytes));
        list.push(golden(version, Sender::Server, Packet::UnsubAck(ack), "B0 02 00 02"));
    }
    let request =
        Unsubscribe { properties: properties(&[Property::UserProperty("k", "v")]), ..request };
    let bytes = "A2 12 00 02 07 26 00 01 'k' 00 01 'v' 00 03 'a/b' 00 01 'c'";
    list.push(golden(V5, Sender::Client, Packet::Unsubscribe(request), bytes));
    let codes = ReasonCodes::new(&[ReasonCode::Success, ReasonCode::NoSubscriptionExisted]);
    let ack = UnsubAck { codes, ..ack };
    list.push(golden(V5, Sender::Server, Packet::UnsubAck(ack), "B0 05 00 02 00 00 11"));
    list
}

fn endings() -> Vec<Golden> {
    let mut list = Vec::new();
    let bye = Disconnect::with_reason(ReasonCode::Success);
    for version in VERSIONS {
        list.push(golden(version, Sender::Client, Packet::PingReq, "C0 00"));
        list.push(golden(version, Sender::Server, Packet::PingResp, "D0 00"));
        list.push(golden(version, Sender::Client, Packet::Disconnect(bye), "E0 00"));
    }
    let will = Disconnect::with_reason(ReasonCode::DisconnectWithWill);
    list.push(golden(V5, Sender::Client, Packet::Disconnect(will), "E0 01 04"));
    let kept = Disconnect { properties: properties(&[Property::SessionExpiry(1)]), ..bye };
    let bytes = "E0 07 00 05 11 00 00 00 01";
    list.push(golden(V5, Sender::Client, Packet::Disconnect(kept), bytes));
    let moved = Disconnect {
        reason: ReasonCode::ServerMoved,
        properties: properties(&[
            Property::ServerReference("s"),
            Property::ReasonString("r"),
            Property::UserProperty("k", "v"),
        ]),
    };
    let bytes = "E0 11 9D 0F 1C 00 01 's' 1F 00 01 'r' 26 00 01 'k' 00 01 'v'";
    list.push(golden(V5, Sender::Server, Packet::Disconnect(moved), bytes));
    let step = properties(&[Property::AuthMethod("m"), Property::AuthData(b"d")]);
    for (sender, reason, bytes) in [
        (
            Sender::Client,
            ReasonCode::ContinueAuthentication,
            "F0 0A 18 08 15 00 01 'm' 16 00 01 'd'",
        ),
        (Sender::Client, ReasonCode::ReAuthenticate, "F0 0A 19 08 15 00 01 'm' 16 00 01 'd'"),
        (Sender::Server, ReasonCode::Success, "F0 0A 00 08 15 00 01 'm' 16 00 01 'd'"),
    ] {
        list.push(golden(V5, sender, Packet::Auth(Auth { reason, properties: step }), bytes));
    }
    let done = Auth { reason: ReasonCode::Success, properties: Properties::EMPTY };
    list.push(golden(V5, Sender::Server, Packet::Auth(done), "F0 00"));
    list
}

/// What a decoder that is past CONNECT, or awaits it where `bytes` start with one, says of them.
pub(crate) fn refused(version: ProtocolVersion, sender: Sender, bytes: &[u8]) -> DecodeError {
    let packet = PacketType::from_first_byte(bytes[0]).unwrap_or(PacketType::PingReq);
    match decoder(packet, sender, version).decode(bytes) {
        Err(error) => error,
        Ok(read) => unreachable!("{bytes:02X?} passed as {read:?}"),
    }
}

/// The bytes that answer a fault.
pub(crate) fn answer(error: &DecodeError) -> Vec<u8> {
    let mut out = Vec::new();
    error.answer().encode(&mut out);
    out
}

/// A packet with its remaining length, which `first` and `body` leave out.
pub(crate) fn packet(first: u8, body: &[u8]) -> Vec<u8> {
    let mut out = vec![first];
    zzq_types::write_varint(&mut out, u32::try_from(body.len()).unwrap());
    out.extend_from_slice(body);
    out
}

/// The packet that the bytes are, whole.
pub(crate) fn read(version: ProtocolVersion, sender: Sender, text: &str) -> Packet<'static> {
    let bytes: &'static [u8] = hex(text).leak();
    let packet = PacketType::from_first_byte(bytes[0]).unwrap();
    let (read, size) = decoder(packet, sender, version).decode(bytes).unwrap().unwrap();
    assert_eq!(size, bytes.len());
    read
}

/// A block of properties behind its length.
pub(crate) fn behind_length(block: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    zzq_types::write_varint(&mut out, u32::try_from(block.len()).unwrap());
    out.extend_from_slice(block);
    out
}

/// Bytes that are refused, and why.
pub(crate) type Row = (ProtocolVersion, Sender, &'static str, ReasonCode);

/// Each row is refused with its reason; version 5 says so, older versions close.
pub(crate) fn check(rows: &[Row]) {
    for &(version, sender, text, reason) in rows {
        let bytes = hex(text);
        let error = refused(version, sender, &bytes);
        assert_eq!(error.reason_code(), reason, "{text}: {error}");
        let code = reason.code();
        let connect = bytes[0] >> 4 == 1;
        let want = match version {
            V5 if connect => vec![0x20, 3, 0, code, 0],
            V5 => vec![0xE0, 1, code],
            _ => vec![],
        };
        assert_eq!(answer(&error), want, "{text}: {error}");
    }
}
