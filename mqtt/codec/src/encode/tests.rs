//! What encoders leave out, refuse, and leave behind when they refuse.

use alloc::vec;

use zzq_types::{PacketId, Properties, PropertiesBuf, QoS, SubscribeOptions, TopicName};

use super::*;
use crate::{
    Ack, Auth, ConnAck, Delivery, Disconnect, Publish, ReasonCodes, SubAck, Subscribe,
    SubscriptionsBuf, UnsubAck, Unsubscribe,
};

const V5: ProtocolVersion = ProtocolVersion::V5;
const OLD: [ProtocolVersion; 2] = [ProtocolVersion::V31, ProtocolVersion::V311];

fn id(id: u16) -> PacketId {
    PacketId::new(id).unwrap()
}

fn encode(encoder: Encoder, packet: &Packet<'_>) -> Result<Vec<u8>, EncodeError> {
    let mut out = vec![0xEE];
    let written = encoder.encode(packet, &mut out);
    assert_eq!(out[0], 0xEE);
    match written {
        Ok(()) => Ok(out.split_off(1)),
        Err(error) => {
            assert_eq!(out, [0xEE], "what is refused leaves no trace");
            Err(error)
        }
    }
}

fn within(limit: u32, packet: &Packet<'_>) -> Result<Vec<u8>, EncodeError> {
    let mut encoder = Encoder::new(V5);
    encoder.limit_to(limit);
    encode(encoder, packet)
}

/// A reason string of 4 bytes and user properties of 7 and 7, as each packet may have them.
fn talkative() -> PropertiesBuf {
    let mut buf = PropertiesBuf::new();
    buf.push(Property::UserProperty("k", "1")).unwrap();
    buf.push(Property::ReasonString("r")).unwrap();
    buf.push(Property::UserProperty("k", "2")).unwrap();
    buf
}

fn talkative_packets(properties: Properties<'_>) -> Vec<Packet<'_>> {
    let ack = Ack { properties, ..Ack::success(id(1)) };
    vec![
        Packet::ConnAck(ConnAck::accepted(false, properties)),
        Packet::PubAck(ack),
        Packet::PubRec(ack),
        Packet::PubRel(ack),
        Packet::PubComp(ack),
        Packet::SubAck(SubAck {
            packet_id: id(1),
            properties,
            codes: ReasonCodes::new(&[ReasonCode::Success]),
        }),
        Packet::UnsubAck(UnsubAck {
            packet_id: id(1),
            properties,
            codes: ReasonCodes::new(&[ReasonCode::Success]),
        }),
        Packet::Disconnect(Disconnect { reason: ReasonCode::ServerBusy, properties }),
        Packet::Auth(Auth { reason: ReasonCode::ContinueAuthentication, properties }),
    ]
}

#[test]
fn user_properties_then_the_reason_give_way_to_the_peers_limit() {
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
    let all = talkative();
    for packet in talkative_packets(all.as_properties()) {
        let name = packet.packet_type();
        let full = encode(Encoder::new(V5), &packet).unwrap();
        let size = u32::try_from(full.len()).unwrap();
        assert_eq!(within(size, &packet).unwrap(), full, "{name}");
        let with_reason = within(size - 1, &packet).unwrap();
        assert_eq!(with_reason.len(), full.len() - 14, "{name}");
        assert_eq!(within(size - 14, &packet).unwrap(), with_reason, "{name}");
        let bare = within(size - 15, &packet).unwrap();
        assert!(bare.len() <= full.len() - 18, "{name}");
        let least = u32::try_from(bare.len()).unwrap();
        assert_eq!(within(least, &packet).unwrap(), bare, "{name}");
        let error = within(least - 1, &packet).unwrap_err();
        assert!(matches!(error, EncodeError::TooLarge { limit, .. } if limit == least - 1));
    }
}

#[test]
fn clients_that_ask_for_no_problem_information_get_none() {
    //= MQTT5-3.1.2-29
    let mut asked = PropertiesBuf::new();
    asked.push(Property::RequestProblemInfo(0)).unwrap();
    asked.push(Property::MaximumPacketSize(1000)).unwrap();
    let connect = Connect { properties: asked.as_properties(), ..Connect::new(V5, "c") };
    let encoder = Encoder::for_client(&connect);
    assert_eq!((encoder.problem_info, encoder.limits.max_packet), (false, 1000));
    let all = talkative();
    for packet in talkative_packets(all.as_properties()) {
        let full = encode(Encoder::new(V5), &packet).unwrap();
        let sent = encode(encoder, &packet).unwrap();
        let told = matches!(packet, Packet::ConnAck(_) | Packet::Disconnect(_));
        let left_out = full.len() - sent.len();
        assert_eq!(left_out >= 18, !told, "{}", packet.packet_type());
        assert_eq!(left_out == 0, told, "{}", packet.packet_type());
    }
    let publish = Publish {
        properties: Properties::from_checked(&all.as_properties().as_bytes()[..7]),
        ..Publish::new(TopicName::new("t").unwrap(), Delivery::AtMostOnce, b"")
    };
    let sent = encode(encoder, &Packet::Publish(publish)).unwrap();
    assert_eq!(sent.len(), 2 + 3 + 1 + 7);
}

#[test]
fn what_is_left_out_leaves_the_shortest_form_that_is_a_packet() {
    let all = talkative();
    let ack = Ack { properties: all.as_properties(), ..Ack::success(id(1)) };
    assert_eq!(within(6, &Packet::PubAck(ack)).unwrap(), [0x40, 2, 0, 1]);
    let ack = Ack { reason: ReasonCode::NotAuthorized, ..ack };
    assert_eq!(within(6, &Packet::PubAck(ack)).unwrap(), [0x40, 3, 0, 1, 0x87]);
    let reason = ReasonCode::ServerBusy;
    let bye = Disconnect { reason, properties: all.as_properties() };
    assert_eq!(within(3, &Packet::Disconnect(bye)).unwrap(), [0xE0, 1, 0x89]);
    let bye = Disconnect { reason: ReasonCode::Success, ..bye };
    assert_eq!(within(2, &Packet::Disconnect(bye)).unwrap(), [0xE0, 0]);
}

#[test]
fn publishes_are_dropped_whole_above_the_peers_limit() {
    //= MQTT5-3.1.2-24
    //= MQTT5-3.1.2-25
    //= MQTT5-3.2.2-15
    let payload = [0; 92];
    let publish =
        Publish::new(TopicName::new("a").unwrap(), Delivery::ExactlyOnce(id(1)), &payload);
    let packet = Packet::Publish(publish);
    assert_eq!(within(100, &packet).unwrap().len(), 100);
    let error = within(99, &packet).unwrap_err();
    let packet = PacketType::Publish;
    assert_eq!(error, EncodeError::TooLarge { packet, size: 100, limit: 99 });
}

#[test]
fn one_encoding_serves_many_receivers() {
    let encoder = Encoder::new(V5);
    let mut own = PropertiesBuf::new();
    own.push(Property::SubscriptionId(5)).unwrap();
    let mut sent = PropertiesBuf::new();
    sent.push(Property::ContentType("c")).unwrap();
    let blocks = [own.as_properties(), sent.as_properties()];
    let topic = TopicName::new("a/b").unwrap();
    for qos in [QoS::AtLeastOnce, QoS::ExactlyOnce] {
        let head =
            PublishHead { dup: false, qos, retain: true, topic: Some(topic), properties: &blocks };
        let mut out = vec![1, 2, 3];
        let place = encoder.publish_header(&head, 2, &mut out).unwrap();
        assert_eq!(place.header_len, out.len() - 3);
        out.extend_from_slice(b"hi");
        assert_eq!(place.total_len, out.len() - 3);
        for number in [1, 0xABCD] {
            let mut copy = out[3..].to_vec();
            place.set_packet_id(&mut copy, id(number));
            place.set_dup(&mut copy);
            let block = [0x0B, 5, 0x03, 0, 1, b'c'];
            let whole = Publish {
                dup: true,
                retain: true,
                delivery: match qos {
                    QoS::AtLeastOnce => Delivery::AtLeastOnce(id(number)),
                    _ => Delivery::ExactlyOnce(id(number)),
                },
                topic: Some(topic),
                properties: Properties::from_checked(&block),
                payload: b"hi",
            };
            assert_eq!(copy, encode(encoder, &Packet::Publish(whole)).unwrap());
        }
    }
}

#[test]
fn qos_0_has_no_identifier_and_no_dup() {
    //= MQTT311-2.3.1-5
    //= MQTT311-3.3.1-2
    //= MQTT5-2.2.1-2
    //= MQTT5-3.3.1-2
    let topic = Some(TopicName::new("t").unwrap());
    let mut head =
        PublishHead { dup: false, qos: QoS::AtMostOnce, retain: false, topic, properties: &[] };
    let mut out = Vec::new();
    let place = Encoder::new(OLD[1]).publish_header(&head, 0, &mut out).unwrap();
    assert_eq!((place.packet_id_at, out.as_slice()), (None, &[0x30, 3, 0, 1, b't'][..]));
    place.set_packet_id(&mut out, id(7));
    place.set_dup(&mut out);
    assert_eq!(out, [0x30, 3, 0, 1, b't']);
    head.dup = true;
    let refused = Encoder::new(V5).publish_header(&head, 0, &mut out);
    assert_eq!(refused, Err(EncodeError::DupAtQoS0));
}

#[test]
fn a_publish_has_a_topic_or_an_alias() {
    let mut alias = PropertiesBuf::new();
    alias.push(Property::TopicAlias(1)).unwrap();
    let publish = Publish {
        topic: None,
        properties: alias.as_properties(),
        ..Publish::new(TopicName::new("t").unwrap(), Delivery::AtMostOnce, b"")
    };
    assert!(encode(Encoder::new(V5), &Packet::Publish(publish)).is_ok());
    let refused = encode(Encoder::new(OLD[1]), &Packet::Publish(publish));
    assert_eq!(refused, Err(EncodeError::NoTopic));
    let publish = Publish { properties: Properties::EMPTY, ..publish };
    let refused = encode(Encoder::new(V5), &Packet::Publish(publish));
    assert_eq!(refused, Err(EncodeError::NoTopic));
}

#[test]
fn reasons_stay_in_their_packets() {
    //= MQTT5-3.2.2-8
    //= MQTT5-3.4.2-1
    //= MQTT5-3.9.3-2
    //= MQTT5-3.11.3-2
    //= MQTT5-3.14.2-1
    //= MQTT5-3.15.2-1
    let wrong = ReasonCode::MaximumConnectTime;
    let codes = [wrong];
    let codes = ReasonCodes::new(&codes);
    let properties = Properties::EMPTY;
    let packets = [
        Packet::ConnAck(ConnAck::refused(wrong)),
        Packet::PubAck(Ack::with_reason(id(1), wrong)),
        Packet::SubAck(SubAck { packet_id: id(1), properties, codes }),
        Packet::UnsubAck(UnsubAck { packet_id: id(1), properties, codes }),
        Packet::Disconnect(Disconnect::with_reason(ReasonCode::GrantedQoS1)),
        Packet::Auth(Auth { reason: wrong, properties }),
    ];
    for packet in packets {
        let refused = encode(Encoder::new(V5), &packet);
        assert!(matches!(refused, Err(EncodeError::Reason(..))), "{}", packet.packet_type());
    }
}

#[test]
fn refusals_have_no_session() {
    //= MQTT311-3.2.2-4
    //= MQTT5-3.2.2-6
    let refused = ConnAck { session_present: true, ..ConnAck::refused(ReasonCode::NotAuthorized) };
    let v5 = encode(Encoder::new(V5), &Packet::ConnAck(refused)).unwrap();
    assert_eq!(v5, [0x20, 3, 0, 0x87, 0]);
    let v311 = encode(Encoder::new(OLD[1]), &Packet::ConnAck(refused)).unwrap();
    assert_eq!(v311, [0x20, 2, 0, 5]);
}

#[test]
fn version_3_1_never_speaks_of_sessions_nor_of_failed_subscriptions() {
    let accepted = Packet::ConnAck(ConnAck::accepted(true, Properties::EMPTY));
    assert_eq!(encode(Encoder::new(OLD[0]), &accepted).unwrap(), [0x20, 2, 0, 0]);
    assert_eq!(encode(Encoder::new(OLD[1]), &accepted).unwrap(), [0x20, 2, 1, 0]);
    let codes = [ReasonCode::GrantedQoS1, ReasonCode::NotAuthorized];
    let ack = Packet::SubAck(SubAck {
        packet_id: id(1),
        properties: Properties::EMPTY,
        codes: ReasonCodes::new(&codes),
    });
    assert_eq!(encode(Encoder::new(OLD[0]), &ack).unwrap(), [0x90, 4, 0, 1, 1, 0]);
    //= MQTT311-3.9.3-2
    assert_eq!(encode(Encoder::new(OLD[1]), &ack).unwrap(), [0x90, 4, 0, 1, 1, 0x80]);
}

#[test]
fn older_versions_write_no_properties_and_no_reasons() {
    //= MQTT311-3.8.1-1
    let all = talkative();
    for version in OLD {
        let encoder = Encoder::new(version);
        for packet in talkative_packets(all.as_properties()) {
            match (encode(encoder, &packet), packet) {
                (Err(error), Packet::Auth(_)) => {
                    assert_eq!(error, EncodeError::NotInVersion(PacketType::Auth));
                }
                (Ok(bytes), Packet::SubAck(_)) => assert_eq!(bytes.len(), 5),
                (Ok(bytes), Packet::Disconnect(_)) => assert_eq!(bytes, [0xE0, 0]),
                (Ok(bytes), _) => assert_eq!(bytes.len(), 4),
                (Err(error), _) => panic!("{error}"),
            }
        }
        let mut list = SubscriptionsBuf::new();
        let options =
            SubscribeOptions { no_local: true, ..SubscribeOptions::with_qos(QoS::AtLeastOnce) };
        list.push("a", options).unwrap();
        let (packet_id, properties) = (id(1), all.as_properties());
        let subscribe = Subscribe { packet_id, properties, subscriptions: list.subscriptions() };
        let bytes = encode(encoder, &Packet::Subscribe(subscribe)).unwrap();
        assert_eq!(bytes, [0x82, 6, 0, 1, 0, 1, b'a', 1]);
    }
}

#[test]
fn requests_and_their_answers_list_something() {
    //= MQTT311-3.8.3-3
    //= MQTT311-3.10.3-2
    //= MQTT5-3.8.3-2
    //= MQTT5-3.10.3-2
    let (packet_id, properties) = (id(1), Properties::EMPTY);
    let list = SubscriptionsBuf::new();
    let codes = ReasonCodes::new(&[]);
    let packets = [
        Packet::Subscribe(Subscribe { packet_id, properties, subscriptions: list.subscriptions() }),
        Packet::Unsubscribe(Unsubscribe { packet_id, properties, filters: list.filters() }),
        Packet::SubAck(SubAck { packet_id, properties, codes }),
        Packet::UnsubAck(UnsubAck { packet_id, properties, codes }),
    ];
    for packet in packets {
        let refused = encode(Encoder::new(V5), &packet);
        assert_eq!(refused, Err(EncodeError::NothingListed(packet.packet_type())));
    }
}

#[test]
fn connects_that_would_be_refused_are_not_sent() {
    //= MQTT311-3.1.2-22
    //= MQTT311-3.1.3-7
    let send = |connect: Connect<'_>| encode(Encoder::new(V5), &Packet::Connect(connect));
    for version in OLD {
        let connect = Connect { password: Some(b"p"), ..Connect::new(version, "a") };
        assert_eq!(send(connect), Err(EncodeError::PasswordWithoutUserName));
    }
    let keep = Connect { clean_start: false, ..Connect::new(OLD[1], "") };
    assert_eq!(send(keep), Err(EncodeError::ClientId));
    assert!(send(Connect::new(OLD[1], "")).is_ok());
    assert_eq!(send(Connect::new(OLD[0], "")), Err(EncodeError::ClientId));
    assert_eq!(send(Connect::new(OLD[0], "abcdefghijklmnopqrstuvwx")), Err(EncodeError::ClientId));
    assert!(send(Connect::new(OLD[0], "abcdefghijklmnopqrstuvw")).is_ok());
    let long = vec![0; 65_536];
    let connect = Connect { password: Some(&long), ..Connect::new(V5, "a") };
    assert_eq!(send(connect), Err(EncodeError::TooLong(Field::Password, 65_536)));
}
