//! A stream of packets made by a list of operations and read in pieces of any size: the packets
//! that come out are those that went in, in their order, whatever the pieces; what the peer takes
//! bounds what is sent.

#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use zzq_codec::{
    Ack, AckKind, Decoder, Delivery, EncodeError, Encoder, Limits, Packet, Publish, Sender,
    Subscribe, SubscriptionsBuf,
};
use zzq_types::{
    PacketId, Properties, PropertiesBuf, Property, ProtocolVersion, QoS, ReasonCode,
    SubscribeOptions, TopicName,
};

#[derive(Arbitrary, Debug)]
struct Input<'a> {
    version: Version,
    limit: u16,
    ops: Vec<Op<'a>>,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Version {
    V31,
    V311,
    V5,
}

#[derive(Arbitrary, Debug)]
enum Op<'a> {
    Publish {
        topic: &'a str,
        qos: u8,
        id: u16,
        retain: bool,
        alias: u16,
        payload: &'a [u8],
    },
    /// The last PUBLISH again, with another identifier and payload.
    Repeat {
        id: u16,
        payload: &'a [u8],
    },
    Ack {
        kind: u8,
        id: u16,
        reason: u8,
        why: &'a str,
        user: &'a str,
    },
    Subscribe {
        id: u16,
        filters: Vec<(&'a str, u8)>,
    },
    Ping,
    /// The reader gets this many bytes.
    Read(u8),
}

/// The writer, the wire and the reader.
struct Wire {
    encoder: Encoder,
    decoder: Decoder,
    unread: Vec<u8>,
    /// Written and not yet handed to the reader.
    pending: Vec<u8>,
    /// The encoded packets that the reader must find, in their order.
    wanted: std::collections::VecDeque<Vec<u8>>,
}

fuzz_target!(|input: Input<'_>| {
    let version = match input.version {
        Version::V31 => ProtocolVersion::V31,
        Version::V311 => ProtocolVersion::V311,
        Version::V5 => ProtocolVersion::V5,
    };
    let limits = Limits { max_packet: u32::from(input.limit) };
    let mut encoder = Encoder::new(version);
    encoder.limit_to(limits.max_packet);
    let mut decoder = Decoder::of_clients(limits);
    decoder.connected(version);
    let mut wire = Wire {
        encoder,
        decoder,
        unread: Vec::new(),
        pending: Vec::new(),
        wanted: std::collections::VecDeque::new(),
    };
    let mut last = None;
    for op in &input.ops {
        apply(&mut wire, op, &mut last);
    }
    wire.read(usize::MAX);
    assert!(wire.unread.is_empty() && wire.wanted.is_empty(), "all that was sent was read");
});

fn apply<'a>(wire: &mut Wire, op: &Op<'a>, last: &mut Option<(&'a str, QoS, bool)>) {
    match op {
        Op::Publish { topic, qos, id, retain, alias, payload } => {
            let Some(qos) = QoS::from_bits(*qos & 3) else { return };
            *last = Some((topic, qos, *retain));
            publish(wire, (topic, qos, *retain), *id, *alias, payload);
        }
        Op::Repeat { id, payload } => {
            if let Some(head) = *last {
                publish(wire, head, *id, 0, payload);
            }
        }
        Op::Ack { kind, id, reason, why, user } => ack(wire, *kind, *id, *reason, why, user),
        Op::Subscribe { id, filters } => subscribe(wire, *id, filters),
        Op::Ping => wire.write(&Packet::PingReq),
        Op::Read(count) => wire.read(usize::from(*count)),
    }
}

fn publish(
    wire: &mut Wire,
    (topic, qos, retain): (&str, QoS, bool),
    id: u16,
    alias: u16,
    payload: &[u8],
) {
    let (Ok(topic), Some(id)) = (TopicName::new(topic), PacketId::new(id)) else { return };
    let delivery = match qos {
        QoS::AtMostOnce => Delivery::AtMostOnce,
        QoS::AtLeastOnce => Delivery::AtLeastOnce(id),
        QoS::ExactlyOnce => Delivery::ExactlyOnce(id),
    };
    let mut block = PropertiesBuf::new();
    if alias != 0 {
        block.push(Property::TopicAlias(alias)).expect("short");
    }
    let properties = block.as_properties();
    let plain = Publish::new(topic, delivery, payload);
    wire.write(&Packet::Publish(Publish { retain, properties, ..plain }));
}

fn ack(wire: &mut Wire, kind: u8, id: u16, reason: u8, why: &str, user: &str) {
    let (Some(packet_id), Some(reason)) = (PacketId::new(id), ReasonCode::from_code(reason)) else {
        return;
    };
    let mut block = PropertiesBuf::new();
    for property in [Property::ReasonString(why), Property::UserProperty(user, why)] {
        let text = [why, user].iter().all(|text| !text.contains('\0'));
        if !text || block.push(property).is_err() {
            return;
        }
    }
    let kinds = [AckKind::PubAck, AckKind::PubRec, AckKind::PubRel, AckKind::PubComp];
    let ack = Ack { packet_id, reason, properties: block.as_properties() };
    wire.write(&match kinds[usize::from(kind & 3)] {
        AckKind::PubAck => Packet::PubAck(ack),
        AckKind::PubRec => Packet::PubRec(ack),
        AckKind::PubRel => Packet::PubRel(ack),
        AckKind::PubComp => Packet::PubComp(ack),
    });
}

fn subscribe(wire: &mut Wire, id: u16, filters: &[(&str, u8)]) {
    let Some(packet_id) = PacketId::new(id) else { return };
    let mut list = SubscriptionsBuf::new();
    for (filter, options) in filters {
        let Ok(options) = SubscribeOptions::from_byte(*options) else { return };
        let refused = filter.contains('\0') || options.no_local && filter.starts_with("$share/");
        if refused || list.push(filter, options).is_err() {
            return;
        }
    }
    let subscriptions = list.subscriptions();
    wire.write(&Packet::Subscribe(Subscribe {
        packet_id,
        properties: Properties::EMPTY,
        subscriptions,
    }));
}

impl Wire {
    fn write(&mut self, packet: &Packet<'_>) {
        assert!(packet.packet_type().sent_by(Sender::Client));
        let mut bytes = Vec::new();
        match self.encoder.encode(packet, &mut bytes) {
            Ok(()) => {
                assert!(bytes.len() <= self.encoder.limits.max_packet as usize);
                self.pending.extend_from_slice(&bytes);
                self.wanted.push_back(bytes);
            }
            Err(EncodeError::TooLarge { .. } | EncodeError::Reason(..)) => {
                assert!(bytes.is_empty());
            }
            Err(error) => {
                assert!(bytes.is_empty() && matches!(error, EncodeError::NothingListed(_)));
            }
        }
    }

    fn read(&mut self, count: usize) {
        let count = count.min(self.pending.len());
        self.unread.extend(self.pending.drain(..count));
        let mut from = 0;
        let mut previous = None;
        while let Some((packet, size)) =
            self.decoder.decode(&self.unread[from..]).expect("all that was sent is good")
        {
            let bytes = &self.unread[from..];
            if let Some(previous) = &previous {
                let run = self.decoder.decode_run(previous, bytes).expect("all is good");
                if let Some((publish, taken)) = run {
                    assert_eq!((Packet::Publish(publish), taken), (packet, size));
                }
            }
            previous = if let Packet::Publish(publish) = packet { Some(publish) } else { None };
            let wanted = self.wanted.pop_front().expect("nothing is read that was not sent");
            assert_eq!(wanted, bytes[..size]);
            from += size;
        }
        self.unread.drain(..from);
    }
}
