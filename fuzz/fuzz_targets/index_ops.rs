//! Lists of operations on the subscription index and the retained store: decisions, and what a
//! filter finds among retained topics, are those of a list that is scanned with the plain rule.
//!
//! Names are made of few levels, so that filters branch, merge and overlap.

#![no_main]

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use zzq_engine::{
    DecisionBuf, HashSeed, Index, Inserted, Publication, Retained, RetainedCursor, RetainedStore,
    Router, SessionFlags, SessionNumber, SubNumber, Subscriber,
};
use zzq_types::{Filter, Lsn, QoS, SubscribeOptions, SubscriptionId, TopicName};

#[derive(Arbitrary, Debug)]
enum Op {
    Insert { group: Option<bool>, filter: Vec<Level>, session: u8, options: u8, id: u8 },
    Remove { group: Option<bool>, filter: Vec<Level>, session: u8 },
    RemoveSession { session: u8 },
    Connected { session: u8, connected: bool },
    Route { topic: Vec<Level>, publisher: u8, qos: u8, retain: bool },
    Retain { topic: Vec<Level> },
    Clear { topic: Vec<Level> },
    Find { filter: Vec<Level>, steps: u8, at_a_time: u8 },
}

#[derive(Arbitrary, Debug)]
enum Level {
    Empty,
    A,
    Ab,
    Before,
    Behind,
    Dollar,
    Plus,
    Hash,
    Byte(u8),
}

fn name(levels: &[Level]) -> String {
    let level = |level: &Level| match level {
        Level::Empty => String::new(),
        Level::A => "a".to_owned(),
        Level::Ab => "ab".to_owned(),
        Level::Before => "a!".to_owned(),
        Level::Behind => "a0".to_owned(),
        Level::Dollar => "$s".to_owned(),
        Level::Plus => "+".to_owned(),
        Level::Hash => "#".to_owned(),
        Level::Byte(byte) => char::from(*byte).to_string(),
    };
    levels.iter().map(level).collect::<Vec<_>>().join("/")
}

fn filter_text(group: Option<bool>, levels: &[Level]) -> String {
    let plain = name(levels);
    group.map_or(plain.clone(), |first| format!("$share/{}/{plain}", if first { "g" } else { "h" }))
}

fn session(n: u8) -> SessionNumber {
    SessionNumber::new(u64::from(n % 6) + 1).unwrap_or(SessionNumber::FIRST)
}

const UP: SessionFlags = SessionFlags::CONNECTED.with(SessionFlags::PERSISTENT);
const AWAY: SessionFlags = SessionFlags::PERSISTENT;

struct World {
    index: Index,
    router: Router,
    out: DecisionBuf,
    subs: BTreeMap<(SessionNumber, String), Subscriber>,
    next_sub: u32,
    store: RetainedStore,
    topics: BTreeSet<String>,
}

fuzz_target!(|ops: Vec<Op>| {
    let mut world = World {
        index: Index::new(HashSeed(5, 6), 2_000),
        router: Router::new(),
        out: DecisionBuf::new(),
        subs: BTreeMap::new(),
        next_sub: 0,
        store: RetainedStore::new(),
        topics: BTreeSet::new(),
    };
    for op in ops.iter().take(200) {
        world.apply(op);
        assert_eq!(world.index.subscriptions(), world.subs.len());
        assert_eq!(world.store.len(), world.topics.len());
    }
});

impl World {
    fn apply(&mut self, op: &Op) {
        match op {
            Op::Insert { group, filter, session: n, options, id } => {
                self.insert(&filter_text(*group, filter), session(*n), *options, *id);
            }
            Op::Remove { group, filter, session: n } => {
                let text = filter_text(*group, filter);
                let Ok(filter) = Filter::new(&text) else { return };
                let there = self.subs.remove(&(session(*n), text.clone())).is_some();
                assert_eq!(self.index.remove(filter, session(*n)), there, "{text}");
            }
            Op::RemoveSession { session: n } => {
                let before = self.subs.len();
                self.subs.retain(|(owner, _), _| *owner != session(*n));
                assert_eq!(self.index.remove_session(session(*n)), before - self.subs.len());
            }
            Op::Connected { session: n, connected } => {
                let flags = if *connected { UP } else { AWAY };
                let own = self.subs.iter_mut().filter(|((owner, _), _)| *owner == session(*n));
                let any = own.map(|(_, sub)| sub.flags = flags).count() > 0;
                assert_eq!(self.index.set_flags(session(*n), flags, 0), any);
            }
            Op::Route { topic, publisher, qos, retain } => {
                let topic = name(topic);
                let Ok(topic) = TopicName::new(&topic) else { return };
                let publisher = (publisher % 7 != 6).then_some(session(*publisher));
                let qos = QoS::from_bits(qos % 3).unwrap_or_default();
                let client_hash = 0;
                let retain = *retain;
                self.route(Publication { topic, publisher, client_hash, qos, retain });
            }
            Op::Retain { topic } => {
                let topic = name(topic);
                let Ok(name) = TopicName::new(&topic) else { return };
                let there = self.store.set(name, retained()).is_some();
                assert_eq!(there, !self.topics.insert(topic.clone()));
            }
            Op::Clear { topic } => {
                let topic = name(topic);
                let Ok(name) = TopicName::new(&topic) else { return };
                assert_eq!(self.store.remove(name).is_some(), self.topics.remove(&topic));
            }
            Op::Find { filter, steps, at_a_time } => {
                self.find(&name(filter), usize::from(*steps) + 1, usize::from(*at_a_time) + 1);
            }
        }
    }

    fn insert(&mut self, text: &str, session: SessionNumber, options: u8, id: u8) {
        let (Ok(filter), Ok(options)) = (Filter::new(text), SubscribeOptions::from_byte(options))
        else {
            return;
        };
        let mut own = self.subs.iter().filter(|((owner, _), _)| *owner == session);
        let flags = own.next().map_or(UP, |(_, sub)| sub.flags);
        let known = self.subs.get(&(session, text.to_owned())).map(|known| known.sub);
        self.next_sub += 1;
        let sub = known.unwrap_or(SubNumber::new(self.next_sub));
        let id = SubscriptionId::new(u32::from(id % 4));
        let new = Subscriber { session, lane: 0, flags, since: 0, sub, options, id };
        let inserted = self.index.insert(filter, new);
        assert_eq!(inserted == Inserted::Replaced, known.is_some(), "{text}");
        self.subs.insert((session, text.to_owned()), new);
    }

    fn route(&mut self, publication: Publication<'_>) {
        self.router.route_same(&mut self.index, publication, &mut self.out);
        let mut own: BTreeMap<SessionNumber, Vec<&Subscriber>> = BTreeMap::new();
        let mut groups: BTreeMap<(&str, &str), Vec<&Subscriber>> = BTreeMap::new();
        for ((_, text), sub) in &self.subs {
            match Filter::new(text) {
                Ok(filter) if !filter.topic_filter().matches(publication.topic) => {}
                Ok(Filter::Shared { group, filter }) => {
                    groups.entry((group, filter.as_str())).or_default().push(sub);
                }
                Ok(Filter::Plain(_)) => {
                    let echo = sub.options.no_local && publication.publisher == Some(sub.session);
                    if !echo {
                        own.entry(sub.session).or_default().push(sub);
                    }
                }
                Err(error) => unreachable!("{text}: {error}"),
            }
        }
        for to in self.out.as_decision() {
            let subs = match to.pick {
                None => own.remove(&to.session),
                Some(pick) => Some(vec![take_pick(&mut groups, to.session, pick, publication.qos)]),
            };
            let mut subs = subs.unwrap_or_else(|| unreachable!("{to:?} is not wanted"));
            subs.sort_by_key(|sub| sub.sub);
            let granted = subs.iter().map(|sub| sub.options.qos).max().unwrap_or_default();
            assert_eq!(to.qos, granted.min(publication.qos));
            let as_published = subs.iter().any(|sub| sub.options.retain_as_published);
            assert_eq!(to.retain, publication.retain && as_published);
            assert!(to.ids.into_iter().eq(subs.iter().filter_map(|sub| sub.id)));
        }
        assert!(own.is_empty(), "{own:?} got nothing");
        let able = |sub: &&Subscriber| rank(sub, publication.qos).is_some();
        assert!(groups.values().flatten().all(|sub| !able(sub)), "{groups:?} did not pick");
    }

    fn find(&self, filter: &str, steps: usize, at_a_time: usize) {
        let Ok(Filter::Plain(filter)) = Filter::new(filter) else { return };
        let (mut found, mut cursor, mut done) = (Vec::new(), RetainedCursor::START, false);
        while !done {
            let mut left = at_a_time;
            done = self.store.matching(filter, &mut cursor, steps, |topic, _| {
                found.push(topic.to_owned());
                left -= 1;
                if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            });
        }
        let wanted = |topic: &&String| TopicName::new(topic).is_ok_and(|name| filter.matches(name));
        assert!(found.iter().eq(self.topics.iter().filter(wanted)), "{filter}: {found:?}");
    }
}

/// How little a member is able to take a message; the least is picked, `None` never.
fn rank(sub: &Subscriber, qos: QoS) -> Option<u8> {
    match sub.flags.contains(SessionFlags::CONNECTED) {
        true => Some(0),
        false => sub.options.qos.min(qos).is_acknowledged().then_some(1),
    }
}

/// The subscription that was picked; its group has no other pick and nobody who is more able.
fn take_pick<'a>(
    groups: &mut BTreeMap<(&str, &str), Vec<&'a Subscriber>>,
    session: SessionNumber,
    pick: SubNumber,
    qos: QoS,
) -> &'a Subscriber {
    let is = |sub: &&Subscriber| sub.session == session && sub.sub == pick;
    let mut all = groups.iter();
    let key = all.find(|(_, members)| members.iter().any(&is)).map(|(key, _)| *key);
    let members = key.and_then(|key| groups.remove(&key)).unwrap_or_default();
    let picked = members.iter().copied().find(is);
    let picked = picked.unwrap_or_else(|| unreachable!("{session} {pick} is not wanted"));
    let least = members.iter().filter_map(|sub| rank(sub, qos)).min();
    assert!(least.is_some() && rank(picked, qos) == least, "{picked:?} of {members:?}");
    picked
}

fn retained() -> Retained {
    Retained { lsn: Lsn::new(1), time_ms: 0, expiry: None, qos: QoS::AtMostOnce, size: 1 }
}
