//! Any packet of any kind: strategies whose values a decoder accepts.

use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use zzq_codec::{
    Ack, Auth, ConnAck, Connect, Delivery, Disconnect, Packet, Publish, ReasonCodes, Sender,
    SubAck, Subscribe, UnsubAck, Unsubscribe, Will,
};
use zzq_types::{
    PacketId, Properties, Property, PropertyId, PropertyKind, PropertyScope, ProtocolVersion, QoS,
    ReasonCode, RetainHandling, SubscribeOptions, VARINT_MAX,
};

use super::{V5, V31, V311, entries, properties, topic};

type Any<T> = BoxedStrategy<T>;

fn leak(text: String) -> &'static str {
    text.leak()
}

fn any_text() -> Any<&'static str> {
    "[^\\x00]{0,12}".prop_map(leak).boxed()
}

fn any_topic() -> Any<&'static str> {
    "[a-z/\u{FEFF}\u{1F980}$ ]{1,12}".prop_map(leak).boxed()
}

fn any_filter() -> Any<&'static str> {
    prop_oneof![any_text(), any_topic(), Just("a/+/#"), Just("$share/g/+")].boxed()
}

fn any_bytes() -> Any<&'static [u8]> {
    proptest::collection::vec(any::<u8>(), 0..40).prop_map(|bytes| &*bytes.leak()).boxed()
}

fn any_id() -> Any<PacketId> {
    (1..=u16::MAX).prop_map(super::id).boxed()
}

fn any_qos() -> Any<QoS> {
    select(vec![QoS::AtMostOnce, QoS::AtLeastOnce, QoS::ExactlyOnce]).boxed()
}

/// Properties that `sender` may put into `scope`; none before MQTT 5.
fn any_properties(
    version: ProtocolVersion,
    scope: PropertyScope,
    sender: Sender,
) -> Any<Properties<'static>> {
    if !version.is_v5() {
        return Just(Properties::EMPTY).boxed();
    }
    // The method comes with an AUTH in any case.
    let left_out = |id: PropertyId| {
        use PropertyId as I;
        use PropertyScope as S;
        matches!(
            (id, scope, sender),
            (I::SubscriptionId, S::Publish, Sender::Client)
                | (I::ServerReference, S::Disconnect, Sender::Client)
                | (I::SessionExpiry, S::Disconnect, Sender::Server)
                | (I::AuthMethod, S::Auth, _)
        )
    };
    let ids: Vec<_> =
        PropertyId::ALL.into_iter().filter(|id| id.allowed_in(scope) && !left_out(*id)).collect();
    let count = ids.len();
    let value = (1..=VARINT_MAX, any_text(), any_topic());
    let values = proptest::collection::vec(value, count);
    let pairs = proptest::collection::vec((any_text(), any_text()), 0..3);
    (subsequence(ids, 0..=count), values, pairs)
        .prop_map(move |(ids, values, pairs)| {
            let mut list = Vec::new();
            if scope == PropertyScope::Auth {
                list.push(Property::AuthMethod("m"));
            }
            for (id, value) in ids.iter().zip(&values) {
                let alone = scope != PropertyScope::Auth && !ids.contains(&PropertyId::AuthMethod);
                if *id != PropertyId::AuthData || !alone {
                    list.push(property(*id, *value));
                }
            }
            list.extend(pairs.iter().map(|(name, value)| Property::UserProperty(name, value)));
            properties(&list)
        })
        .boxed()
}

/// A property with a value from `number`, `text` and `topic`, by what its type can hold.
fn property(
    id: PropertyId,
    (number, text, topic): (u32, &'static str, &'static str),
) -> Property<'static> {
    let [_, _, high, low] = number.to_be_bytes();
    let mut value = match id.kind() {
        PropertyKind::Byte => vec![number.to_le_bytes()[0] & 1],
        PropertyKind::U16 => vec![high, low | 1],
        PropertyKind::U32 => number.to_be_bytes().to_vec(),
        PropertyKind::Varint => Vec::new(),
        PropertyKind::Text | PropertyKind::Binary => {
            prefixed(if id == PropertyId::ResponseTopic { topic } else { text })
        }
        PropertyKind::Pair => [prefixed(text), prefixed(topic)].concat(),
    };
    if id.kind() == PropertyKind::Varint {
        zzq_types::write_varint(&mut value, number);
    }
    value.insert(0, id.code());
    let block: &'static [u8] = value.leak();
    Properties::from_checked(block).iter().next().unwrap()
}

fn prefixed(text: &str) -> Vec<u8> {
    let mut out = u16::try_from(text.len()).unwrap().to_be_bytes().to_vec();
    out.extend_from_slice(text.as_bytes());
    out
}

fn any_connect(version: ProtocolVersion) -> Any<Packet<'static>> {
    let will = (
        any_properties(version, PropertyScope::Will, Sender::Client),
        any_topic(),
        any_bytes(),
        any_qos(),
        any::<bool>(),
    );
    let will = will.prop_map(|(properties, text, payload, qos, retain)| Will {
        qos,
        retain,
        properties,
        topic: topic(text),
        payload,
    });
    let credentials = (proptest::option::of(any_text()), proptest::option::of(any_bytes()));
    (
        any_properties(version, PropertyScope::Connect, Sender::Client),
        "[a-zé]{1,23}".prop_map(leak),
        proptest::option::of(will),
        credentials,
        any::<(bool, bool, u16)>(),
    )
        .prop_map(move |(properties, client_id, will, (user_name, password), flags)| {
            let (bridge, clean_start, keep_alive) = flags;
            // MQTT 3 has no password without a user name.
            let password = password.filter(|_| user_name.is_some() || version.is_v5());
            Packet::Connect(Connect {
                version,
                bridge,
                clean_start,
                keep_alive,
                properties,
                client_id,
                will,
                user_name,
                password,
            })
        })
        .boxed()
}

fn any_conn_ack(version: ProtocolVersion) -> Any<Packet<'static>> {
    let codes: &[u8] = match version {
        V5 => &[0, 0, 0x80, 0x85, 0x8A, 0x9F],
        _ => &[0, 0, 0x84, 0x85, 0x86, 0x87, 0x88],
    };
    let properties = any_properties(version, PropertyScope::ConnAck, Sender::Server);
    (select(codes), any::<bool>(), properties)
        .prop_map(move |(code, present, properties)| {
            let session_present = present && code == 0 && version != V31;
            let reason = ReasonCode::from_code(code).unwrap();
            Packet::ConnAck(ConnAck { session_present, reason, properties })
        })
        .boxed()
}

pub(crate) fn any_publish(version: ProtocolVersion, sender: Sender) -> Any<Publish<'static>> {
    let properties = any_properties(version, PropertyScope::Publish, sender);
    let flags = any::<(bool, bool, bool)>();
    (properties, any_topic(), any_bytes(), any_qos(), any_id(), flags)
        .prop_map(|(properties, text, payload, qos, id, (dup, retain, unnamed))| {
            let delivery = match qos {
                QoS::AtMostOnce => Delivery::AtMostOnce,
                QoS::AtLeastOnce => Delivery::AtLeastOnce(id),
                QoS::ExactlyOnce => Delivery::ExactlyOnce(id),
            };
            let aliased = unnamed && properties.find(PropertyId::TopicAlias).is_some();
            Publish {
                dup: dup && qos.is_acknowledged(),
                retain,
                delivery,
                topic: (!aliased).then(|| topic(text)),
                properties,
                payload,
            }
        })
        .boxed()
}

fn any_ack(version: ProtocolVersion, sender: Sender) -> Any<Packet<'static>> {
    type Make = fn(Ack<'static>) -> Packet<'static>;
    let kinds: [(Make, PropertyScope, &[u8]); 4] = [
        (Packet::PubAck, PropertyScope::PubAck, &[0, 0x10, 0x80, 0x99]),
        (Packet::PubRec, PropertyScope::PubRec, &[0, 0x10, 0x83, 0x97]),
        (Packet::PubRel, PropertyScope::PubRel, &[0, 0x92]),
        (Packet::PubComp, PropertyScope::PubComp, &[0, 0x92]),
    ];
    select(kinds.to_vec())
        .prop_flat_map(move |(make, scope, codes)| {
            let codes = if version.is_v5() { codes } else { &codes[..1] };
            (any_id(), select(codes), any_properties(version, scope, sender)).prop_map(
                move |(packet_id, code, properties)| {
                    let reason = ReasonCode::from_code(code).unwrap();
                    make(Ack { packet_id, reason, properties })
                },
            )
        })
        .boxed()
}

fn any_options(version: ProtocolVersion) -> Any<SubscribeOptions> {
    let handling = [RetainHandling::Always, RetainHandling::IfNew, RetainHandling::Never];
    (any_qos(), any::<(bool, bool)>(), select(handling.to_vec()))
        .prop_map(move |(qos, (no_local, retain_as_published), retain_handling)| {
            if version.is_v5() {
                SubscribeOptions { qos, no_local, retain_as_published, retain_handling }
            } else {
                SubscribeOptions::with_qos(qos)
            }
        })
        .boxed()
}

fn any_request(version: ProtocolVersion) -> Any<Packet<'static>> {
    let entry = (any_filter(), any_options(version)).prop_map(|(filter, options)| {
        let shared = filter.starts_with("$share/");
        (filter, SubscribeOptions { no_local: options.no_local && !shared, ..options })
    });
    let list = proptest::collection::vec(entry, 1..4);
    let subscribe =
        (any_id(), any_properties(version, PropertyScope::Subscribe, Sender::Client), list.clone())
            .prop_map(|(packet_id, properties, list)| {
                let subscriptions = entries(&list).subscriptions();
                Packet::Subscribe(Subscribe { packet_id, properties, subscriptions })
            });
    let unsubscribe =
        (any_id(), any_properties(version, PropertyScope::Unsubscribe, Sender::Client), list)
            .prop_map(|(packet_id, properties, list)| {
                let filters = entries(&list).filters();
                Packet::Unsubscribe(Unsubscribe { packet_id, properties, filters })
            });
    prop_oneof![subscribe, unsubscribe, Just(Packet::PingReq)].boxed()
}

fn any_codes(codes: &'static [u8]) -> Any<ReasonCodes<'static>> {
    let code = select(codes).prop_map(|code| ReasonCode::from_code(code).unwrap());
    proptest::collection::vec(code, 1..4).prop_map(|codes| ReasonCodes::new(codes.leak())).boxed()
}

fn any_response(version: ProtocolVersion) -> Any<Packet<'static>> {
    let codes: &[u8] = match version {
        V5 => &[0, 1, 2, 0x80, 0x8F, 0xA2],
        V311 => &[0, 1, 2, 0x80],
        V31 => &[0, 1, 2],
    };
    let properties = |scope| any_properties(version, scope, Sender::Server);
    let sub_ack = (any_id(), properties(PropertyScope::SubAck), any_codes(codes)).prop_map(
        |(packet_id, properties, codes)| Packet::SubAck(SubAck { packet_id, properties, codes }),
    );
    let codes = match version {
        V5 => any_codes(&[0, 0x11, 0x80, 0x91]),
        _ => Just(ReasonCodes::new(&[])).boxed(),
    };
    let unsub_ack = (any_id(), properties(PropertyScope::UnsubAck), codes).prop_map(
        |(packet_id, properties, codes)| {
            Packet::UnsubAck(UnsubAck { packet_id, properties, codes })
        },
    );
    prop_oneof![sub_ack, unsub_ack, Just(Packet::PingResp), any_conn_ack(version)].boxed()
}

fn any_disconnect(version: ProtocolVersion, sender: Sender) -> Any<Packet<'static>> {
    let codes: &[u8] = match (version, sender) {
        (V5, Sender::Client) => &[0, 4, 0x80, 0x99],
        (V5, Sender::Server) => &[0, 0x8B, 0x8E, 0xA2],
        _ => &[0],
    };
    let properties = any_properties(version, PropertyScope::Disconnect, sender);
    (select(codes), properties)
        .prop_map(|(code, properties)| {
            let reason = ReasonCode::from_code(code).unwrap();
            Packet::Disconnect(Disconnect { reason, properties })
        })
        .boxed()
}

fn any_auth(sender: Sender) -> Any<Packet<'static>> {
    let codes = if sender == Sender::Client { [0x18, 0x19] } else { [0x18, 0] };
    (select(codes.to_vec()), any_properties(V5, PropertyScope::Auth, sender))
        .prop_map(|(code, properties)| {
            let reason = ReasonCode::from_code(code).unwrap();
            Packet::Auth(Auth { reason, properties })
        })
        .boxed()
}

/// Any packet but CONNECT that `sender` may send.
pub(crate) fn any_packet(version: ProtocolVersion, sender: Sender) -> Any<Packet<'static>> {
    let both = prop_oneof![
        any_publish(version, sender).prop_map(Packet::Publish),
        any_ack(version, sender),
    ];
    let mut all = match sender {
        Sender::Client => {
            prop_oneof![both, any_request(version), any_disconnect(version, sender)].boxed()
        }
        Sender::Server => prop_oneof![both, any_response(version)].boxed(),
    };
    if version == V5 {
        all = prop_oneof![4 => all, 1 => any_auth(sender), 1 => any_disconnect(V5, sender)].boxed();
    }
    all
}

/// Who speaks which version.
pub(crate) fn any_side() -> Any<(ProtocolVersion, Sender)> {
    (select(super::VERSIONS.to_vec()), select(vec![Sender::Client, Sender::Server])).boxed()
}

/// Any packet at all.
pub(crate) fn any_case() -> Any<(ProtocolVersion, Sender, Packet<'static>)> {
    any_side()
        .prop_flat_map(|(version, sender)| {
            let packet = match sender {
                Sender::Client => {
                    prop_oneof![4 => any_packet(version, sender), 1 => any_connect(version)].boxed()
                }
                Sender::Server => any_packet(version, sender),
            };
            (Just(version), Just(sender), packet)
        })
        .boxed()
}
