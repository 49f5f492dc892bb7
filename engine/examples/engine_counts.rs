//! Instructions of routing, of changes to the index, of a record's bytes and of the fold:
//! `cargo xtask counts engine`.

#![expect(clippy::unwrap_used, reason = "a count that cannot go on stops")]

#[path = "../../benches/src/counting.rs"]
mod counting;

use std::hint::black_box;

use anyhow::Result;
use zzq_engine::record::{
    Closing, Connect, NumberRange, Publish, RangeSetsBuf, Receipt, Subscribe, SubscribeItem,
    SubscribeItemsBuf,
};
use zzq_engine::{
    DecisionBuf, HashSeed, Index, NoEffects, Publication, QueueNumber, Record, Retained,
    RetainedStore, Router, SessionFlags, SessionNumber, Shard, State, SubNumber, Subscriber,
};
use zzq_types::{Filter, Lsn, Properties, QoS, SubscribeOptions, TopicName};

use crate::counting::{Case, count};

/// Filters beside the one that is asked for.
const OTHERS: u32 = 1000;
const CACHE_BYTES: usize = 1 << 20;
const TOPIC: &str = "plant/7/line/3/temperature";

fn main() -> Result<()> {
    let mut cases = Vec::new();
    for (name, filter) in [("exact", TOPIC), ("plus", "plant/+/line/3/+"), ("hash", "plant/7/#")] {
        for (cached, bytes) in [("", 0), (" cached", CACHE_BYTES)] {
            cases.push(route(&format!("route {name}{cached}"), filter, 1, bytes));
        }
    }
    for receivers in [10, 100, 1000] {
        cases.push(route(&format!("route to {receivers}"), TOPIC, receivers, CACHE_BYTES));
    }
    cases.push(route("route shared of 10", "$share/group/plant/7/#", 10, CACHE_BYTES));
    cases.push(change());
    cases.push(retain());
    for receivers in [1, 100] {
        cases.push(encode(receivers));
        cases.push(decode(receivers));
    }
    for (name, qos) in [("qos1", QoS::AtLeastOnce), ("qos2", QoS::ExactlyOnce)] {
        for receivers in [1, 100] {
            cases.push(fold(
                &format!("fold publish and receipt {name} of {receivers}"),
                qos,
                receivers,
            ));
        }
    }
    count(cases)
}

fn session(n: u32) -> SessionNumber {
    SessionNumber::new(u64::from(n) + 1).unwrap()
}

fn subscriber(n: u32) -> Subscriber {
    Subscriber {
        session: session(n),
        lane: 0,
        flags: SessionFlags::CONNECTED,
        since: 0,
        sub: SubNumber::new(0),
        options: SubscribeOptions::with_qos(QoS::AtLeastOnce),
        id: None,
    }
}

fn filter(text: &str) -> Filter<'_> {
    Filter::new(text).unwrap()
}

/// An index in which many others have filters of their own.
fn index(cache_bytes: usize) -> Index {
    let mut index = Index::new(HashSeed(17, 4), cache_bytes);
    for n in 0..OTHERS {
        let text = match n % 3 {
            0 => format!("site/{n}/line/3/temperature"),
            1 => format!("site/{n}/+/set"),
            _ => format!("site/{n}/#"),
        };
        index.insert(filter(&text), subscriber(1_000_000 + n));
    }
    index
}

/// A decision among subscriptions, of which so many match.
fn route(name: &str, text: &'static str, receivers: u32, cache_bytes: usize) -> Case {
    let mut index = index(cache_bytes);
    for n in 0..receivers {
        index.insert(filter(text), subscriber(n));
    }
    let (mut router, mut out) = (Router::new(), DecisionBuf::new());
    Case::new(name, move || {
        let topic = TopicName::new(TOPIC).unwrap();
        let (publisher, qos) = (None, QoS::AtLeastOnce);
        let publication = Publication { topic, publisher, client_hash: 0, qos, retain: false };
        black_box(router.route(&mut index, black_box(publication), &mut out));
    })
}

fn change() -> Case {
    let mut index = index(CACHE_BYTES);
    Case::new("insert and remove", move || {
        index.insert(filter("plant/7/+/+/temperature"), subscriber(1));
        assert!(index.remove(filter("plant/7/+/+/temperature"), session(1)));
    })
}

fn retain() -> Case {
    let mut store = RetainedStore::new();
    let retained = |n: u32| Retained {
        lsn: Lsn::new(u64::from(n) + 1),
        time_ms: 0,
        expiry: None,
        qos: QoS::AtLeastOnce,
        size: 64,
    };
    for n in 0..OTHERS {
        store.set(TopicName::new(&format!("site/{n}/state")).unwrap(), retained(n));
    }
    Case::new("set retained", move || {
        let topic = TopicName::new("site/500/state").unwrap();
        black_box(store.set(topic, retained(black_box(7))));
    })
}

/// The publish of a client to so many sessions.
fn publish<'a>(decision: &'a DecisionBuf, qos: QoS, payload: &'a [u8]) -> Record<'a> {
    Record::Publish(Publish {
        publisher: None,
        inbound: None,
        will_of: None,
        qos,
        retain: false,
        decision: decision.as_decision(),
        topic: TopicName::new(TOPIC).unwrap(),
        properties: Properties::EMPTY,
        payload,
    })
}

fn decided(receivers: u32, qos: QoS) -> DecisionBuf {
    let mut decision = DecisionBuf::new();
    for n in 0..receivers {
        decision.push_plain(session(n), qos, false);
    }
    decision
}

fn encode(receivers: u32) -> Case {
    let decision = decided(receivers, QoS::AtLeastOnce);
    let mut out = Vec::new();
    Case::new(format!("encode publish to {receivers}"), move || {
        out.clear();
        publish(&decision, QoS::AtLeastOnce, &[7; 64]).encode_body(&mut out);
        black_box(&out);
    })
}

fn decode(receivers: u32) -> Case {
    let decision = decided(receivers, QoS::AtLeastOnce);
    let mut body = Vec::new();
    let record = publish(&decision, QoS::AtLeastOnce, &[7; 64]);
    record.encode_body(&mut body);
    let kind = record.kind();
    Case::new(format!("decode publish to {receivers}"), move || {
        black_box(Record::decode(kind, black_box(&body)).unwrap());
    })
}

/// A message that enters queues and leaves them, which are empty otherwise.
fn fold(name: &str, qos: QoS, receivers: u32) -> Case {
    let mut state = State::new(Shard::WHOLE);
    let mut lsn = Lsn::ZERO;
    for n in 0..receivers {
        let client = format!("client-{n}");
        let connect = Connect {
            session: session(n),
            client: &client,
            expiry_s: u32::MAX,
            window: 100,
            joins: None,
            will: None,
        };
        let mut items = SubscribeItemsBuf::new();
        let options = SubscribeOptions::with_qos(qos);
        let number = SubNumber::new(0);
        items.push(&SubscribeItem { number, filter: "plant/#", options, id: None, replay: None });
        let subscribe = Subscribe { session: session(n), items: items.as_list() };
        for record in [Record::Connect(connect), Record::Subscribe(subscribe)] {
            lsn = lsn.next();
            state.apply(lsn, 0, &record, &mut NoEffects);
        }
    }
    let (decision, mut sets, mut queue) = (decided(receivers, qos), RangeSetsBuf::new(), 0);
    Case::new(name, move || {
        lsn = lsn.next();
        state.apply(lsn, 0, &publish(&decision, qos, &[7; 64]), &mut NoEffects);
        queue += 1;
        sets.clear();
        for n in 0..receivers {
            let taken = NumberRange::one(QueueNumber::new(queue));
            sets.push_ranges(session(n), Closing::Closed, [taken]);
        }
        lsn = lsn.next();
        let receipt = Record::Receipt(Receipt { sets: sets.as_list() });
        state.apply(lsn, 0, &receipt, &mut NoEffects);
        let left = state.session(session(0)).map(|session| session.queue().len());
        assert_eq!(left, Some(0), "what was taken has left");
    })
}
