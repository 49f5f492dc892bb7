//! Arbitrary records for tests, senseless ones among them: few clients, sessions, topics and
//! numbers, so that records meet each other.

pub(crate) mod lives;

use proptest::prelude::*;
use zzq_types::{
    Lsn, PacketId, Properties, PropertiesBuf, Property, QoS, SubscribeOptions, SubscriptionId,
    TopicName,
};

use crate::decision::{DecisionBuf, SubscriptionIds};
use crate::number::{QueueNumber, SessionNumber, SubNumber};
use crate::record::{
    Closing, Config, Connect, Expire, ExpiredTopic, ExpiredTopicsBuf, Feature, History, Identity,
    LateDecision, LateItem, LateItemsBuf, Membership, NumberRange, Orphan, Publish, RangeSetsBuf,
    Receipt, Record, Release, SessionDown, SessionEnd, SnTopic, Start, Subscribe, SubscribeItem,
    SubscribeItemsBuf, Unsubscribe, UnsubscribeItemsBuf, WillMessage, WillSet,
};
use crate::session::Replay;
use crate::wire::Reader;

pub(crate) const CLIENTS: [&str; 3] = ["ada", "bob", "cyd"];
const TOPICS: [&str; 3] = ["t", "t/1", "u"];
const FILTERS: [&str; 5] = ["t", "t/#", "$share/g/t/#", "$share/h/u", "u"];

/// A record as kind and body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Owned {
    pub(crate) kind: u8,
    pub(crate) body: Vec<u8>,
}

impl Owned {
    pub(crate) fn of(record: &Record<'_>) -> Self {
        let mut body = Vec::new();
        record.encode_body(&mut body);
        Self { kind: record.kind(), body }
    }

    pub(crate) fn record(&self) -> Record<'_> {
        Record::decode(self.kind, &self.body).unwrap()
    }
}

/// The client that a session number belongs to: a number never names sessions of two clients.
pub(crate) fn client_of(session: SessionNumber) -> &'static str {
    CLIENTS[usize::try_from(session.get()).unwrap() % CLIENTS.len()]
}

pub(crate) fn session(n: u64) -> SessionNumber {
    SessionNumber::new(n).unwrap()
}

pub(crate) fn topic(text: &str) -> TopicName<'_> {
    TopicName::new(text).unwrap()
}

/// A log: records with their times, which do not go back.
pub(crate) fn log() -> impl Strategy<Value = Vec<(u64, Owned)>> {
    prop::collection::vec((prop_oneof![4 => Just(0), 1 => 1_u64..2500], record()), 1..90).prop_map(
        |steps| {
            let mut time_ms = 1000;
            let pass = |(step, record)| {
                time_ms += step;
                (time_ms, record)
            };
            steps.into_iter().map(pass).collect()
        },
    )
}

pub(crate) fn record() -> impl Strategy<Value = Owned> {
    prop_oneof![
        12 => connect(),
        24 => publish(),
        6 => late_decision(),
        8 => history(),
        4 => release(),
        8 => session_down(),
        4 => session_end(),
        8 => subscribe(),
        3 => unsubscribe(),
        3 => will_set(),
        8 => receipt(),
        5 => expire(),
        2 => any::<bool>().prop_map(|jump| Owned::of(&Record::Start(Start { jump }))),
        2 => fact(),
    ]
}

fn a_session() -> impl Strategy<Value = SessionNumber> {
    (1_u64..=7).prop_map(session)
}

fn a_topic() -> impl Strategy<Value = &'static str> {
    prop::sample::select(&TOPICS[..])
}

fn a_filter() -> impl Strategy<Value = &'static str> {
    prop::sample::select(&FILTERS[..])
}

fn a_qos() -> impl Strategy<Value = QoS> {
    prop::sample::select(&[QoS::AtMostOnce, QoS::AtLeastOnce, QoS::ExactlyOnce][..])
}

fn seconds() -> impl Strategy<Value = u32> {
    prop_oneof![3 => Just(0), 4 => 1_u32..4, 2 => Just(u32::MAX)]
}

/// Low numbers, and those behind one and two jumps.
fn a_number() -> impl Strategy<Value = u64> {
    prop_oneof![6 => 1_u64..12, 1 => 32_769_u64..32_778, 1 => 65_537_u64..65_546]
}

fn ids() -> impl Strategy<Value = Vec<SubscriptionId>> {
    let id = (1_u32..300).prop_map(|id| SubscriptionId::new(id).unwrap());
    prop_oneof![3 => Just(Vec::new()), 1 => prop::collection::vec(id, 1..3)]
}

fn pick() -> impl Strategy<Value = Option<SubNumber>> {
    prop_oneof![2 => Just(None), 2 => (0_u32..4).prop_map(|n| Some(SubNumber::new(n)))]
}

type WillParts = (&'static str, QoS, bool, u32, Vec<u8>);

fn will() -> impl Strategy<Value = Option<WillParts>> {
    let payload = prop::collection::vec(any::<u8>(), 0..3);
    prop::option::of((a_topic(), a_qos(), any::<bool>(), seconds(), payload))
}

fn will_message(parts: Option<&WillParts>) -> Option<WillMessage<'_>> {
    parts.map(|(text, qos, retain, delay_s, payload)| WillMessage {
        topic: topic(text),
        qos: *qos,
        retain: *retain,
        delay_s: *delay_s,
        properties: Properties::EMPTY,
        payload,
    })
}

fn connect() -> impl Strategy<Value = Owned> {
    let joins = prop::option::weighted(0.2, a_number().prop_map(QueueNumber::new));
    let parts = (a_session(), seconds(), 1_u16..4, joins, will());
    parts.prop_map(|(session, expiry_s, window, joins, will)| {
        Owned::of(&Record::Connect(Connect {
            session,
            client: client_of(session),
            expiry_s,
            window,
            joins,
            will: will_message(will.as_ref()),
        }))
    })
}

fn will_set() -> impl Strategy<Value = Owned> {
    (a_session(), will()).prop_map(|(session, will)| {
        Owned::of(&Record::WillSet(WillSet { session, will: will_message(will.as_ref()) }))
    })
}

fn publish() -> impl Strategy<Value = Owned> {
    let to = (a_session(), a_qos(), any::<bool>(), pick(), ids());
    let origin =
        (prop::option::of(a_session()), 0_u16..4, prop::option::weighted(0.1, a_session()));
    let content = (a_qos(), any::<bool>(), a_topic(), prop::option::weighted(0.3, 0_u32..3));
    let payload = prop::collection::vec(any::<u8>(), 0..3);
    (origin, content, payload, prop::collection::vec(to, 0..4)).prop_map(
        |((publisher, id, will_of), (qos, retain, text, expiry), payload, mut to)| {
            to.sort_by_key(|entry| entry.0);
            let mut decision = DecisionBuf::new();
            for (session, qos, retain, pick, ids) in to {
                decision.push(session, qos, retain, pick, ids);
            }
            let mut properties = PropertiesBuf::new();
            if let Some(expiry_s) = expiry {
                properties.push(Property::MessageExpiry(expiry_s)).unwrap();
            }
            let is_qos2 = qos == QoS::ExactlyOnce && publisher.is_some();
            Owned::of(&Record::Publish(Publish {
                publisher,
                inbound: PacketId::new(id).filter(|_| is_qos2),
                will_of,
                qos,
                retain,
                decision: decision.as_decision(),
                topic: topic(text),
                properties: properties.as_properties(),
                payload: &payload,
            }))
        },
    )
}

fn late_items() -> impl Strategy<Value = LateItemsBuf> {
    let orphan = prop::option::of((a_session(), a_number()));
    let expires_ms = prop::option::of(0_u64..8000);
    let item = (1_u64..60, any::<bool>(), any::<bool>(), 0_u32..100, expires_ms, pick(), orphan);
    prop::collection::vec((item, ids()), 0..4).prop_map(|parts| {
        let mut items = LateItemsBuf::new();
        for ((lsn, exactly, retain, size, expires_ms, pick, orphan), ids) in parts {
            let encoded = encoded_ids(&ids);
            items.push(&LateItem {
                lsn: Lsn::new(lsn),
                qos: match (exactly, orphan) {
                    (true, _) => QoS::ExactlyOnce,
                    (false, Some(_)) if retain => QoS::AtMostOnce,
                    (false, _) => QoS::AtLeastOnce,
                },
                retain,
                size,
                expires_ms,
                pick,
                orphan: orphan
                    .map(|(session, number)| Orphan { session, number: QueueNumber::new(number) }),
                ids: match encoded.len() {
                    0 => SubscriptionIds::NONE,
                    _ => SubscriptionIds::read(&mut Reader::new(&encoded)).unwrap(),
                },
            });
        }
        items
    })
}

fn late_decision() -> impl Strategy<Value = Owned> {
    (a_session(), late_items()).prop_map(|(session, items)| {
        Owned::of(&Record::LateDecision(LateDecision { session, items: items.as_list() }))
    })
}

fn history() -> impl Strategy<Value = Owned> {
    let places = (0_u64..40, 0_u64..60, any::<bool>());
    (a_session(), 0_u32..6, places, late_items()).prop_map(|(session, sub, places, items)| {
        let (from, way, may_be_all) = places;
        Owned::of(&Record::History(History {
            session,
            sub: SubNumber::new(sub),
            from: Lsn::new(from),
            next: Lsn::new(from + way),
            may_be_all,
            items: items.as_list(),
        }))
    })
}

/// A count and the identifiers; nothing for none.
fn encoded_ids(ids: &[SubscriptionId]) -> Vec<u8> {
    let mut bytes = Vec::new();
    if !ids.is_empty() {
        crate::wire::put_len(&mut bytes, ids.len());
        for id in ids {
            crate::wire::put(&mut bytes, u64::from(id.get()));
        }
    }
    bytes
}

fn release() -> impl Strategy<Value = Owned> {
    (a_session(), 1_u16..4).prop_map(|(session, id)| {
        Owned::of(&Record::Release(Release { session, id: PacketId::new(id).unwrap() }))
    })
}

fn session_down() -> impl Strategy<Value = Owned> {
    let sent = prop_oneof![Just(0), a_number()];
    (a_session(), sent, any::<bool>(), prop::option::of(seconds())).prop_map(
        |(session, sent, drop_will, expiry_s)| {
            let sent = QueueNumber::new(sent);
            Owned::of(&Record::SessionDown(SessionDown { session, sent, drop_will, expiry_s }))
        },
    )
}

fn session_end() -> impl Strategy<Value = Owned> {
    (a_session(), prop::bool::weighted(0.3)).prop_map(|(session, forget)| {
        Owned::of(&Record::SessionEnd(SessionEnd { session, forget }))
    })
}

fn subscribe() -> impl Strategy<Value = Owned> {
    let replay = prop::option::weighted(0.3, (0_u64..40, any::<bool>()));
    let item = (a_filter(), 0_u32..6, a_qos(), any::<bool>(), ids(), replay);
    (a_session(), prop::collection::vec(item, 1..4)).prop_map(|(session, parts)| {
        let mut items = SubscribeItemsBuf::new();
        for (filter, number, qos, no_local, ids, replay) in parts {
            let options = SubscribeOptions { no_local, ..SubscribeOptions::with_qos(qos) };
            let number = SubNumber::new(number);
            let replay = replay.map(|(next, is_live)| {
                let next = Lsn::new(next);
                Replay { is_live, ..Replay::new(next, next.get()) }
            });
            let id = ids.first().copied();
            items.push(&SubscribeItem { number, filter, options, id, replay });
        }
        Owned::of(&Record::Subscribe(Subscribe { session, items: items.as_list() }))
    })
}

fn unsubscribe() -> impl Strategy<Value = Owned> {
    (a_session(), prop::collection::vec(a_filter(), 1..3)).prop_map(|(session, parts)| {
        let mut filters = UnsubscribeItemsBuf::new();
        for filter in parts {
            filters.push(&filter);
        }
        Owned::of(&Record::Unsubscribe(Unsubscribe { session, filters: filters.as_list() }))
    })
}

fn sets(closings: [Closing; 2]) -> impl Strategy<Value = RangeSetsBuf> {
    let range = (a_number(), 0_u64..3);
    let set = (a_session(), any::<bool>(), prop::collection::vec(range, 1..3));
    prop::collection::vec(set, 0..3).prop_map(move |parts| {
        let mut sets = RangeSetsBuf::new();
        for (session, second, mut parts) in parts {
            parts.sort_unstable();
            let mut end = 0;
            let ranges = parts.into_iter().filter_map(|(first, more)| {
                let range = NumberRange {
                    first: QueueNumber::new(first),
                    last: QueueNumber::new(first + more),
                };
                let fits = first > end;
                end = end.max(first + more);
                fits.then_some(range)
            });
            sets.push_ranges(session, closings[usize::from(second)], ranges);
        }
        sets
    })
}

fn receipt() -> impl Strategy<Value = Owned> {
    sets([Closing::Taken, Closing::Closed])
        .prop_map(|sets| Owned::of(&Record::Receipt(Receipt { sets: sets.as_list() })))
}

fn expire() -> impl Strategy<Value = Owned> {
    let sets = sets([Closing::Expired, Closing::Dropped]);
    let topics = prop::collection::vec((a_topic(), 1_u64..100), 0..2);
    (sets, topics).prop_map(|(sets, parts)| {
        let mut topics = ExpiredTopicsBuf::new();
        for (text, lsn) in parts {
            topics.push(&ExpiredTopic { topic: topic(text), lsn: Lsn::new(lsn) });
        }
        Owned::of(&Record::Expire(Expire { sets: sets.as_list(), topics: topics.as_list() }))
    })
}

fn fact() -> impl Strategy<Value = Owned> {
    let bytes = prop::collection::vec(any::<u8>(), 0..3);
    (0_u8..5, 0_u16..2, bytes, any::<bool>()).prop_map(|(kind, id, bytes, set)| {
        let client = CLIENTS[usize::from(id)];
        let text = if set { "x" } else { "" };
        let (number, bytes) = (u64::from(id), &bytes[..]);
        Owned::of(&match kind {
            0 => Record::Config(Config { key: client.as_bytes(), value: bytes }),
            1 => Record::SnTopic(SnTopic { client, topic_id: id, topic: text }),
            2 => Record::Identity(Identity { client, user: text }),
            3 => Record::Membership(Membership { id: number, bytes }),
            _ => Record::Feature(Feature { id: number, bytes }),
        })
    })
}
