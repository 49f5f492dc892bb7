//! Golden vectors: the bytes of every kind of record and of an image, kept for each version for
//! ever. A difference means that logs and images already written can no longer be read.

#![expect(clippy::unwrap_used, reason = "a test")]

use std::fmt::Write as _;

use zzq_engine::image::{Section, Sections, Select};
use zzq_engine::record::{
    Closing, Config, Connect, Expire, ExpiredTopic, ExpiredTopicsBuf, Feature, History, Identity,
    LateDecision, LateItem, LateItemsBuf, Membership, NumberRange, Orphan, Publish, RangeSetsBuf,
    Receipt, Release, SessionDown, SessionEnd, SnTopic, Start, Subscribe, SubscribeItem,
    SubscribeItemsBuf, Unsubscribe, UnsubscribeItemsBuf, WillMessage, WillSet,
};
use zzq_engine::session::Replay;
use zzq_engine::{
    Decision, DecisionBuf, NoEffects, QueueNumber, Record, SessionNumber, Shard, State, SubNumber,
    SubscriptionIds,
};
use zzq_types::{
    Lsn, PacketId, Properties, PropertyScope, QoS, RetainHandling, SubscribeOptions,
    SubscriptionId, TopicName,
};

fn session(n: u64) -> SessionNumber {
    SessionNumber::new(n).unwrap()
}

fn number(n: u64) -> QueueNumber {
    QueueNumber::new(n)
}

fn topic(text: &str) -> TopicName<'_> {
    TopicName::new(text).unwrap()
}

fn will() -> WillMessage<'static> {
    WillMessage {
        topic: topic("will/ada"),
        qos: QoS::AtLeastOnce,
        retain: true,
        delay_s: 300,
        properties: Properties::EMPTY,
        payload: b"gone",
    }
}

/// Calls `each` with one record of every kind, all fields in use, in the order of a small log.
fn every_kind(mut each: impl FnMut(&Record<'_>)) {
    let (ada, bob) = (session(300), session(301));
    each(&Record::Start(Start { jump: true }));
    for (session, client) in [(ada, "ada"), (bob, "bob")] {
        let will = (session == ada).then(will);
        let window = if session == ada { 20 } else { u16::MAX };
        each(&Record::Connect(Connect {
            session,
            client,
            expiry_s: 86_400,
            window,
            joins: None,
            will,
        }));
    }
    let (session, client) = (session(302), "cyd");
    let joins = Some(number(40_000));
    each(&Record::Connect(Connect { session, client, expiry_s: 0, window: 1, joins, will: None }));
    subscribe(bob, &mut each);
    publish(ada, bob, &mut each);
    each(&Record::Release(Release { session: ada, id: PacketId::new(513).unwrap() }));
    late_decision(ada, bob, &mut each);
    receipt(ada, bob, &mut each);
    expire(ada, &mut each);
    each(&Record::WillSet(WillSet { session: bob, will: Some(will()) }));
    each(&Record::WillSet(WillSet { session: bob, will: None }));
    let mut filters = UnsubscribeItemsBuf::new();
    filters.push(&"$share/g/t/+");
    each(&Record::Unsubscribe(Unsubscribe { session: bob, filters: filters.as_list() }));
    each(&Record::SessionDown(SessionDown {
        session: ada,
        sent: number(40_000),
        drop_will: false,
        expiry_s: Some(7),
    }));
    each(&Record::SessionEnd(SessionEnd { session: ada, forget: true }));
    each(&Record::Config(Config { key: b"max-queue", value: b"1000" }));
    each(&Record::SnTopic(SnTopic { client: "sensor", topic_id: 258, topic: "t/x" }));
    each(&Record::Identity(Identity { client: "ada", user: "lovelace" }));
    each(&Record::Membership(Membership { id: 2, bytes: b"node" }));
    each(&Record::Feature(Feature { id: 1, bytes: &[7] }));
}

/// Subscriptions that start in the past, and history that one of them takes.
fn history(bob: SessionNumber, mut each: impl FnMut(&Record<'_>)) {
    let mut items = SubscribeItemsBuf::new();
    let options = SubscribeOptions::with_qos(QoS::AtLeastOnce);
    let (filter, id) = ("$replay/all/t/#", SubscriptionId::new(5));
    let replay = Some(Replay::new(Lsn::new(1), 1_700_000_000_000));
    items.push(&SubscribeItem { number: SubNumber::new(131), filter, options, id, replay });
    let replay =
        Some(Replay { passed_by: Lsn::new(300), is_live: true, ..Replay::new(Lsn::new(301), 0) });
    let (filter, id) = ("t/y", None);
    items.push(&SubscribeItem { number: SubNumber::new(132), filter, options, id, replay });
    each(&Record::Subscribe(Subscribe { session: bob, items: items.as_list() }));
    let mut items = LateItemsBuf::new();
    items.push(&LateItem {
        lsn: Lsn::new(6),
        qos: QoS::AtLeastOnce,
        retain: false,
        size: 10,
        expires_ms: None,
        pick: None,
        orphan: None,
        ids: SubscriptionIds::NONE,
    });
    each(&Record::History(History {
        session: bob,
        sub: SubNumber::new(131),
        from: Lsn::new(1),
        next: Lsn::new(200),
        may_be_all: false,
        items: items.as_list(),
    }));
}

fn subscribe(bob: SessionNumber, mut each: impl FnMut(&Record<'_>)) {
    let mut items = SubscribeItemsBuf::new();
    let options = SubscribeOptions {
        qos: QoS::ExactlyOnce,
        no_local: true,
        retain_as_published: true,
        retain_handling: RetainHandling::Never,
    };
    let (filter, id) = ("t/#", SubscriptionId::new(200));
    let replay = None;
    items.push(&SubscribeItem { number: SubNumber::new(0), filter, options, id, replay });
    let options = SubscribeOptions::with_qos(QoS::AtLeastOnce);
    let (filter, id) = ("$share/g/t/+", None);
    items.push(&SubscribeItem { number: SubNumber::new(130), filter, options, id, replay });
    each(&Record::Subscribe(Subscribe { session: bob, items: items.as_list() }));
}

fn publish(ada: SessionNumber, bob: SessionNumber, mut each: impl FnMut(&Record<'_>)) {
    let mut decision = DecisionBuf::new();
    let ids = [200, 5].map(|id| SubscriptionId::new(id).unwrap());
    decision.push_plain(ada, QoS::AtLeastOnce, false);
    decision.push(bob, QoS::ExactlyOnce, true, None, ids);
    decision.push(bob, QoS::AtLeastOnce, false, Some(SubNumber::new(130)), []);
    let properties = [0x02, 0, 0, 0, 60, 0x01, 1];
    each(&Record::Publish(Publish {
        publisher: Some(ada),
        inbound: PacketId::new(513),
        will_of: None,
        qos: QoS::ExactlyOnce,
        retain: true,
        decision: decision.as_decision(),
        topic: topic("t/x"),
        properties: Properties::parse(&properties, PropertyScope::Publish).unwrap(),
        payload: b"payload",
    }));
    each(&Record::Publish(Publish {
        publisher: None,
        inbound: None,
        will_of: Some(session(299)),
        qos: QoS::AtMostOnce,
        retain: false,
        decision: DecisionBuf::new().as_decision(),
        topic: topic("w"),
        properties: Properties::EMPTY,
        payload: b"",
    }));
}

fn late_decision(ada: SessionNumber, bob: SessionNumber, mut each: impl FnMut(&Record<'_>)) {
    let plain = LateItem {
        lsn: Lsn::new(5),
        qos: QoS::AtLeastOnce,
        retain: true,
        size: 17,
        expires_ms: None,
        pick: None,
        orphan: None,
        ids: SubscriptionIds::NONE,
    };
    let mut items = LateItemsBuf::new();
    items.push(&plain);
    items.push(&LateItem {
        qos: QoS::ExactlyOnce,
        retain: false,
        expires_ms: Some(61_000),
        pick: Some(SubNumber::new(130)),
        orphan: Some(Orphan { session: ada, number: number(70_000) }),
        ..plain
    });
    each(&Record::LateDecision(LateDecision { session: bob, items: items.as_list() }));
}

fn receipt(ada: SessionNumber, bob: SessionNumber, mut each: impl FnMut(&Record<'_>)) {
    let mut sets = RangeSetsBuf::new();
    let ranges = [(1, 1), (3, 200)];
    let ranges =
        ranges.map(|(first, last)| NumberRange { first: number(first), last: number(last) });
    sets.push_ranges(ada, Closing::Closed, ranges);
    sets.push_ranges(bob, Closing::Taken, [NumberRange::one(number(1))]);
    each(&Record::Receipt(Receipt { sets: sets.as_list() }));
}

fn expire(ada: SessionNumber, mut each: impl FnMut(&Record<'_>)) {
    let mut sets = RangeSetsBuf::new();
    sets.push_ranges(ada, Closing::Expired, [NumberRange::one(number(2))]);
    sets.push_ranges(ada, Closing::Dropped, [NumberRange::one(number(9))]);
    let mut topics = ExpiredTopicsBuf::new();
    topics.push(&ExpiredTopic { topic: topic("t/y"), lsn: Lsn::new(4) });
    each(&Record::Expire(Expire { sets: sets.as_list(), topics: topics.as_list() }));
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

fn unhex(text: &str) -> Vec<u8> {
    let pairs = text.as_bytes().chunks(2);
    pairs.map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

fn assert_golden(kept: &str, made: &str) {
    assert!(kept == made, "the format changed; kept:\n{kept}\nmade:\n{made}");
}

#[test]
fn records_keep_their_bytes() {
    let kept = include_str!("golden/records-v1.txt");
    let mut made = String::new();
    let mut lines = kept.lines();
    let mut kinds = Vec::new();
    let mut compare = |record: &Record<'_>| {
        let mut body = Vec::new();
        record.encode_body(&mut body);
        let name = Record::kind_name(record.kind()).unwrap();
        writeln!(made, "{} {name} {}", record.kind(), hex(&body)).unwrap();
        let line = lines.next().and_then(|line| line.rsplit_once(' '));
        let bytes = line.map(|(_, bytes)| unhex(bytes)).unwrap_or_default();
        if bytes == body {
            assert_eq!(Record::decode(record.kind(), &bytes).as_ref(), Ok(record));
        }
        kinds.push(record.kind());
    };
    every_kind(&mut compare);
    history(session(301), &mut compare);
    assert_golden(kept, &made);
    kinds.sort_unstable();
    kinds.dedup();
    assert_eq!(kinds, (1..=18).collect::<Vec<u8>>(), "every kind has a vector");
}

/// Three images: with sessions, queues and open identifiers; with what they left; with history that
/// is being taken.
#[test]
fn images_keep_their_bytes() {
    let mut state = State::new(Shard::WHOLE);
    let mut lsn = Lsn::ZERO;
    let mut time_ms = 1000;
    let mut apply = |state: &mut State, record: &Record<'_>| {
        lsn = lsn.next();
        time_ms += 1;
        state.apply(lsn, time_ms, record, &mut NoEffects);
    };
    every_kind(|record| apply(&mut state, record));
    let open = Publish { inbound: PacketId::new(7), qos: QoS::ExactlyOnce, ..of_ada() };
    apply(&mut state, &Record::Publish(open));
    let mut made = golden_image(&state);
    made.push('\n');
    let end = SessionEnd { session: session(301), forget: false };
    apply(&mut state, &Record::SessionEnd(end));
    let (session, client) = (session(303), "ada");
    let again =
        Connect { session, client, expiry_s: 0, window: 1, joins: Some(number(9)), will: None };
    apply(&mut state, &Record::Connect(again));
    made.push_str(&golden_image(&state));
    made.push('\n');
    history(session, |record| apply(&mut state, record));
    made.push_str(&golden_image(&state));
    assert_golden(include_str!("golden/image-v1.txt"), &made);
    for section in Section::ALL {
        assert!(made.contains(&format!("{section:?} ")), "{section:?} has a vector");
    }
}

fn of_ada() -> Publish<'static> {
    Publish {
        publisher: Some(session(300)),
        inbound: None,
        will_of: None,
        qos: QoS::AtLeastOnce,
        retain: false,
        decision: Decision::NOBODY,
        topic: topic("t/x"),
        properties: Properties::EMPTY,
        payload: b"",
    }
}

fn golden_image(state: &State) -> String {
    let sections = Sections::of(state, Select::All);
    let again = sections.load(Shard::WHOLE).map(|state| Sections::of(&state, Select::All));
    assert_eq!(again.as_ref(), Ok(&sections));
    let mut text = String::new();
    for (section, bytes) in sections.iter() {
        writeln!(text, "{} {section:?} {}", section.code(), hex(bytes)).unwrap();
    }
    text
}
