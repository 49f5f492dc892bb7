//! What is measured: one operation for each packet kind, both ways. The clock and the instruction
//! counter run the same list.

use std::hint::black_box;

use anyhow::{Context as _, Result, ensure};
use zzq_codec::{
    Ack, AckKind, ConnAck, Connect, Decoder, Delivery, Encoder, Limits, Packet, PacketType,
    Publish, PublishHead, ReasonCodes, RunPlaces, Sender, SubAck, Subscribe, SubscriptionsBuf,
    encode_ack,
};
use zzq_types::{
    PacketId, Properties, PropertiesBuf, Property, ProtocolVersion, QoS, ReasonCode,
    SubscribeOptions, TopicName,
};

use ProtocolVersion::{V5, V311};

/// One operation under a name.
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) run: Box<dyn FnMut()>,
}

const TOPIC: &str = "plant/7/line/3/temperature";
const PAYLOADS: [usize; 2] = [64, 1024];

/// All of them.
pub(crate) fn cases() -> Result<Vec<Case>> {
    let mut list = Vec::new();
    for version in [V311, V5] {
        for (name, sender, packet) in packets(version)? {
            let name = format!("{name} v{}", version.level());
            list.push(decode(&name, version, sender, packet)?);
            list.push(encode(&name, version, packet));
        }
        list.push(run(version)?);
        for qos in [QoS::AtMostOnce, QoS::AtLeastOnce] {
            list.push(whole_run(version, qos)?);
        }
        list.push(header(version)?);
    }
    list.push(plain_ack()?);
    Ok(list)
}

type Sample = (String, Sender, Packet<'static>);

fn packets(version: ProtocolVersion) -> Result<Vec<Sample>> {
    use Sender::{Client, Server};
    let packet_id = id(7)?;
    let mut list = publishes(version)?;
    let ack = Ack::success(packet_id);
    let mut subscriptions = SubscriptionsBuf::new();
    subscriptions.push("plant/+/line/#", SubscribeOptions::with_qos(QoS::AtLeastOnce))?;
    let subscriptions = Box::leak(Box::new(subscriptions)).subscriptions();
    let properties = Properties::EMPTY;
    let codes = ReasonCodes::new(&[ReasonCode::GrantedQoS1]);
    let connect = Connect {
        user_name: Some("user"),
        password: Some(b"password"),
        keep_alive: 60,
        ..Connect::new(version, "sensor-000123")
    };
    list.extend([
        ("connect".to_owned(), Client, Packet::Connect(connect)),
        ("connack".to_owned(), Server, Packet::ConnAck(ConnAck::accepted(true, properties))),
        ("puback".to_owned(), Client, Packet::PubAck(ack)),
        ("pubrel".to_owned(), Client, Packet::PubRel(ack)),
        (
            "subscribe".to_owned(),
            Client,
            Packet::Subscribe(Subscribe { packet_id, properties, subscriptions }),
        ),
        ("suback".to_owned(), Server, Packet::SubAck(SubAck { packet_id, properties, codes })),
        ("pingreq".to_owned(), Client, Packet::PingReq),
    ]);
    Ok(list)
}

fn publishes(version: ProtocolVersion) -> Result<Vec<Sample>> {
    let topic = TopicName::new(TOPIC)?;
    let mut list = Vec::new();
    for len in PAYLOADS {
        let payload: &'static [u8] = vec![0xA5; len].leak();
        for (qos, delivery) in [(0, Delivery::AtMostOnce), (1, Delivery::AtLeastOnce(id(7)?))] {
            let packet = Packet::Publish(Publish::new(topic, delivery, payload));
            list.push((format!("publish qos{qos} {len}B"), Sender::Client, packet));
        }
    }
    if version == V5 {
        let mut block = PropertiesBuf::new();
        block.push(Property::ContentType("application/json"))?;
        block.push(Property::MessageExpiry(3600))?;
        block.push(Property::UserProperty("unit", "celsius"))?;
        let properties = Box::leak(Box::new(block)).as_properties();
        let payload: &'static [u8] = vec![0xA5; PAYLOADS[0]].leak();
        let publish = Publish { properties, ..Publish::new(topic, Delivery::AtMostOnce, payload) };
        let name = "publish qos0 64B properties".to_owned();
        list.push((name, Sender::Client, Packet::Publish(publish)));
    }
    Ok(list)
}

fn id(id: u16) -> Result<PacketId> {
    PacketId::new(id).context("an identifier is not 0")
}

fn decoder(packet: PacketType, sender: Sender, version: ProtocolVersion) -> Decoder {
    let mut decoder = match sender {
        Sender::Client => Decoder::of_clients(Limits::default()),
        Sender::Server => Decoder::of_servers(version, Limits::default()),
    };
    if packet != PacketType::Connect {
        decoder.connected(version);
    }
    decoder
}

fn decode(
    name: &str,
    version: ProtocolVersion,
    sender: Sender,
    packet: Packet<'static>,
) -> Result<Case> {
    let mut bytes = Vec::new();
    Encoder::new(version).encode(&packet, &mut bytes)?;
    let decoder = decoder(packet.packet_type(), sender, version);
    ensure!(decoder.decode(&bytes)? == Some((packet, bytes.len())), "{name} is not what it is");
    let run = Box::new(move || {
        let read = decoder.decode(black_box(&bytes));
        assert!(matches!(black_box(read), Ok(Some(_))));
    });
    Ok(Case { name: format!("decode {name}"), run })
}

fn encode(name: &str, version: ProtocolVersion, packet: Packet<'static>) -> Case {
    let encoder = Encoder::new(version);
    let mut out = Vec::with_capacity(2048);
    let run = Box::new(move || {
        out.clear();
        let written = encoder.encode(black_box(&packet), &mut out);
        assert!(black_box(written).is_ok());
        black_box(&out);
    });
    Case { name: format!("encode {name}"), run }
}

/// The second PUBLISH of a run.
fn run(version: ProtocolVersion) -> Result<Case> {
    let payload = [0xA5; PAYLOADS[0]];
    let publish = Publish::new(TopicName::new(TOPIC)?, Delivery::AtMostOnce, &payload);
    let mut bytes = Vec::new();
    for _ in 0..2 {
        Encoder::new(version).publish(&publish, &mut bytes)?;
    }
    let bytes: &'static [u8] = bytes.leak();
    let decoder = decoder(PacketType::Publish, Sender::Client, version);
    let Some((Packet::Publish(first), size)) = decoder.decode(bytes)? else {
        anyhow::bail!("not what was encoded");
    };
    let run = Box::new(move || {
        let read = decoder.decode_run(black_box(&first), black_box(&bytes[size..]));
        assert!(matches!(black_box(read), Ok(Some(_))));
    });
    Ok(Case { name: format!("decode run qos0 64B v{}", version.level()), run })
}

/// A run of a hundred: found, and copied for one receiver.
fn whole_run(version: ProtocolVersion, qos: QoS) -> Result<Case> {
    let payload = [0xA5; PAYLOADS[0]];
    let ids = || (1..).filter_map(PacketId::new);
    let mut bytes = Vec::new();
    for id in ids().take(100) {
        let acknowledged = qos.is_acknowledged();
        let delivery = if acknowledged { Delivery::AtLeastOnce(id) } else { Delivery::AtMostOnce };
        let publish = Publish::new(TopicName::new(TOPIC)?, delivery, &payload);
        Encoder::new(version).publish(&publish, &mut bytes)?;
    }
    let bytes: &'static [u8] = bytes.leak();
    let decoder = decoder(PacketType::Publish, Sender::Client, version);
    let Some((Packet::Publish(first), _)) = decoder.decode(bytes)? else {
        anyhow::bail!("not what was encoded");
    };
    let (mut places, mut out) = (RunPlaces::default(), Vec::with_capacity(2 * bytes.len()));
    let run = Box::new(move || {
        out.clear();
        let run = decoder.run(black_box(&first), black_box(bytes), &mut places);
        assert!(run.is_some_and(|run| run.len() == 100));
        if let Some(run) = run {
            run.copy_to(&mut out, ids());
        }
        black_box(&out);
    });
    Ok(Case { name: format!("copy run of 100 qos{} 64B v{}", qos.bits(), version.level()), run })
}

/// What is encoded once for many receivers: all but the payload.
fn header(version: ProtocolVersion) -> Result<Case> {
    let topic = Some(TopicName::new(TOPIC)?);
    let encoder = Encoder::new(version);
    let mut out = Vec::with_capacity(2048);
    let packet_id = id(7)?;
    let run = Box::new(move || {
        out.clear();
        let qos = QoS::AtLeastOnce;
        let head = PublishHead { dup: false, qos, retain: false, topic, properties: &[] };
        let place = encoder.publish_header(black_box(&head), 64, &mut out);
        assert!(place.is_ok());
        if let Ok(place) = place {
            place.set_packet_id(&mut out, packet_id);
        }
        black_box(&out);
    });
    Ok(Case { name: format!("encode publish header qos1 v{}", version.level()), run })
}

fn plain_ack() -> Result<Case> {
    let mut out = Vec::with_capacity(16);
    let packet_id = id(7)?;
    let run = Box::new(move || {
        out.clear();
        encode_ack(AckKind::PubAck, black_box(packet_id), &mut out);
        black_box(&out);
    });
    Ok(Case { name: "encode plain puback".to_owned(), run })
}
