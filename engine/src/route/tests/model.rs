//! The index and the router against a list of subscriptions that is scanned.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Op {
    Insert { filter: String, session: u64, options: u8, id: u32 },
    Remove { filter: String, session: u64 },
    RemoveSession { session: u64 },
    Flags { session: u64, flags: SessionFlags },
    Route { topic: String, publisher: u64, qos: u8, retain: bool },
}

/// Subscriptions by session and full text, and the flags of sessions.
#[derive(Default)]
struct Model {
    subs: BTreeMap<(u64, String), Subscriber>,
    next_sub: u32,
}

impl Model {
    fn insert(&mut self, filter: &str, n: u64, options: u8, id: u32) -> (Subscriber, Inserted) {
        let known = self.subs.get(&(n, filter.to_owned())).map(|known| known.sub.get());
        self.next_sub += 1;
        let sub = known.unwrap_or(self.next_sub);
        let options = SubscribeOptions::from_byte(options).unwrap();
        let flags = self.flags(n);
        let new = Subscriber { flags, ..subscriber(n, sub, options, id) };
        self.subs.insert((n, filter.to_owned()), new);
        (new, if known.is_some() { Inserted::Replaced } else { Inserted::New })
    }

    fn flags(&self, n: u64) -> SessionFlags {
        let mut own = self.subs.range((n, String::new())..(n + 1, String::new()));
        own.next().map_or(UP, |(_, known)| known.flags)
    }

    fn matching<'a>(
        &'a self,
        publication: Publication<'a>,
    ) -> impl Iterator<Item = (Filter<'a>, Subscriber)> {
        let subs = self.subs.iter().map(|((_, text), sub)| (Filter::new(text).unwrap(), *sub));
        subs.filter(move |(filter, _)| filter.topic_filter().matches(publication.topic))
    }

    /// What goes to sessions for their own subscriptions.
    fn own(&self, publication: Publication<'_>) -> Vec<Got> {
        let mut by_session: BTreeMap<u64, Vec<Subscriber>> = BTreeMap::new();
        for (filter, sub) in self.matching(publication) {
            let echo = sub.options.no_local && publication.publisher == Some(sub.session);
            if filter.group().is_none() && !echo {
                by_session.entry(sub.session.get()).or_default().push(sub);
            }
        }
        let mut got = Vec::new();
        for (session, mut subs) in by_session {
            subs.sort_by_key(|sub| sub.sub);
            let qos = subs.iter().map(|sub| sub.options.qos).max().unwrap().min(publication.qos);
            let retain =
                publication.retain && subs.iter().any(|sub| sub.options.retain_as_published);
            let ids = subs.iter().filter_map(|sub| sub.id).map(SubscriptionId::get).collect();
            got.push((session, qos.bits(), retain, None, ids));
        }
        got
    }

    /// For each group that picks, by name and filter, what may go to a member.
    fn picks(&self, publication: Publication<'_>) -> BTreeMap<(String, String), Vec<Got>> {
        let mut able: BTreeMap<(String, String), Vec<(u8, Got)>> = BTreeMap::new();
        for (filter, sub) in self.matching(publication) {
            let Some(group) = filter.group() else { continue };
            let qos = sub.options.qos.min(publication.qos);
            let held = match sub.flags {
                flags if flags.contains(SessionFlags::FULL) => 2,
                flags if flags.contains(SessionFlags::OVER_HIGH_WATER) => 1,
                flags if flags.contains(SessionFlags::LAGGING) => 1,
                _ => 0,
            };
            let rank = match sub.flags {
                flags if flags.contains(UP) => held,
                flags if flags.contains(KEPT) && qos.is_acknowledged() => 3 + held,
                _ => continue,
            };
            let retain = publication.retain && sub.options.retain_as_published;
            let ids = sub.id.into_iter().map(SubscriptionId::get).collect();
            let got = (sub.session.get(), qos.bits(), retain, Some(sub.sub.get()), ids);
            let key = (group.to_owned(), filter.topic_filter().as_str().to_owned());
            able.entry(key).or_default().push((rank, got));
        }
        let best = |able: Vec<(u8, Got)>| {
            let least = able.iter().map(|(rank, _)| *rank).min();
            able.into_iter().filter(|(rank, _)| Some(*rank) == least).map(|(_, got)| got).collect()
        };
        able.into_iter().map(|(key, able)| (key, best(able))).collect()
    }

    /// The group that a picked subscription belongs to.
    fn group_of(&self, session: u64, pick: u32) -> (String, String) {
        let mut subs = self.subs.iter();
        let found = subs.find(|((n, _), sub)| *n == session && sub.sub.get() == pick);
        let filter = Filter::new(&found.unwrap().0.1).unwrap();
        (filter.group().unwrap().to_owned(), filter.topic_filter().as_str().to_owned())
    }

    fn check(&self, rig: &mut Rig, publication: Publication<'_>) {
        let routed = rig.router.route_same(&mut rig.index, publication, &mut rig.out);
        let got = rig.got();
        let own: Vec<_> = got.iter().filter(|to| to.3.is_none()).cloned().collect();
        assert_eq!(own, self.own(publication), "{publication:?}");
        let mut may = self.picks(publication);
        for to in got.iter().filter(|to| to.3.is_some()) {
            let able = may.remove(&self.group_of(to.0, to.3.unwrap()));
            assert!(able.unwrap().contains(to), "{to:?} of {publication:?}");
        }
        assert!(may.is_empty(), "no pick for {may:?} of {publication:?}");
        assert!(got.is_sorted_by_key(|to| (to.0, to.3)), "{got:?}");
        assert_eq!(routed, self.routed(publication, &got));
    }

    fn routed(&self, publication: Publication<'_>, got: &[Got]) -> Routed {
        let mut routed = Routed { destinations: got.len(), ..Routed::default() };
        for &(n, qos, ..) in got {
            let flags = self.flags(n);
            routed.lanes |= 1 << (n % 64);
            routed.kept |= qos > 0 && flags.contains(KEPT);
            let full = qos > 0 && flags.contains(SessionFlags::FULL);
            let waits = qos == 0 && !flags.contains(SessionFlags::SLOW);
            if publication.publisher == Some(session(n)) {
                routed.own_full |= full;
            } else {
                let full = if full { SessionFlags::FULL } else { SessionFlags::NONE };
                let lags = if qos > 0 { SessionFlags::LAGGING } else { SessionFlags::NONE };
                let over = if waits { SessionFlags::OVER_HIGH_WATER } else { SessionFlags::NONE };
                routed.held = routed.held.with(full).with(flags.only(over.with(lags)));
            }
        }
        routed
    }
}

fn apply(op: &Op, rig: &mut Rig, model: &mut Model) {
    match op {
        Op::Insert { filter, session, options, id } => {
            let (new, inserted) = model.insert(filter, *session, *options, *id);
            assert_eq!(rig.insert(filter, new), inserted);
        }
        Op::Remove { filter, session } => {
            let there = model.subs.remove(&(*session, filter.clone())).is_some();
            assert_eq!(rig.remove(filter, *session), there);
        }
        Op::RemoveSession { session: n } => {
            let before = model.subs.len();
            model.subs.retain(|(session, _), _| session != n);
            assert_eq!(rig.index.remove_session(session(*n)), before - model.subs.len());
        }
        Op::Flags { session: n, flags } => {
            let own = model.subs.iter_mut().filter(|((session, _), _)| session == n);
            let changed = own.map(|(_, sub)| sub.flags = *flags).count();
            assert_eq!(rig.index.set_flags(session(*n), *flags, 0), changed > 0);
        }
        Op::Route { topic, publisher, qos, retain } => {
            let topic = TopicName::new(topic).unwrap();
            let qos = QoS::from_bits(*qos).unwrap();
            let publisher = SessionNumber::new(*publisher);
            let client_hash = u32::try_from(publisher.map_or(0, SessionNumber::get)).unwrap();
            let retain = *retain;
            model.check(rig, Publication { topic, publisher, client_hash, qos, retain });
        }
    }
    let sessions: BTreeSet<_> = model.subs.keys().map(|(session, _)| *session).collect();
    let filters = model.subs.keys().map(|(_, text)| Filter::new(text).unwrap().topic_filter());
    let filters: BTreeSet<_> = filters.collect();
    assert_eq!(rig.index.sessions(), sessions.len());
    assert_eq!(rig.index.subscriptions(), model.subs.len());
    let shared = model.subs.keys().filter(|(_, text)| Filter::new(text).unwrap().group().is_some());
    assert_eq!(rig.index.shared_subscriptions(), shared.count());
    assert_eq!(rig.index.filters(), filters.len());
    rig.index.check();
}

fn topics() -> impl Strategy<Value = String> {
    let level = prop::sample::select(vec!["", "a", "b", "ab", "$s"]);
    prop::collection::vec(level, 1..5)
        .prop_map(|levels| if levels == [""] { "a".to_owned() } else { levels.join("/") })
}

fn filters() -> impl Strategy<Value = String> {
    let level = prop::sample::select(vec!["", "a", "b", "ab", "$s", "+", "+"]);
    let prefix = prop::sample::select(vec!["", "", "", "$share/g/", "$share/h/"]);
    (prefix, prop::collection::vec(level, 0..5), any::<bool>()).prop_map(
        |(prefix, levels, hash)| {
            let levels: Vec<_> = levels.into_iter().chain(hash.then_some("#")).collect();
            let filter = levels.join("/");
            format!("{prefix}{}", if filter.is_empty() { "#" } else { &filter })
        },
    )
}

fn ops() -> impl Strategy<Value = Op> {
    let session = || 1_u64..6;
    let flag_sets = vec![
        UP,
        UP.with(KEPT),
        UP.with(SessionFlags::OVER_HIGH_WATER),
        UP.with(SessionFlags::OVER_HIGH_WATER).with(SessionFlags::SLOW),
        UP.with(SessionFlags::FULL),
        UP.with(SessionFlags::LAGGING),
        KEPT,
        KEPT.with(SessionFlags::FULL),
        SessionFlags::NONE,
    ];
    prop_oneof![
        6 => (filters(), session(), 0_u8..0x10, 0_u32..3)
            .prop_filter("QoS 3 is none", |(_, _, options, _)| options & 3 != 3)
            .prop_map(|(filter, session, options, id)| {
                Op::Insert { filter, session, options, id }
            }),
        3 => (filters(), session()).prop_map(|(filter, session)| Op::Remove { filter, session }),
        1 => session().prop_map(|session| Op::RemoveSession { session }),
        2 => (session(), prop::sample::select(flag_sets))
            .prop_map(|(session, flags)| Op::Flags { session, flags }),
        10 => (topics(), 0_u64..6, 0_u8..3, any::<bool>()).prop_map(
            |(topic, publisher, qos, retain)| Op::Route { topic, publisher, qos, retain }
        ),
    ]
}

const STRATEGIES: [GroupStrategy; 5] = [
    GroupStrategy::RoundRobin,
    GroupStrategy::LeastInflight,
    GroupStrategy::Sticky,
    GroupStrategy::HashClient,
    GroupStrategy::HashTopic,
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Few levels, so that filters branch, merge, overlap and are asked for again and again.
    #[test]
    fn routes_are_those_of_a_scanned_list(
        ops in prop::collection::vec(ops(), 1..120),
        strategy in prop::sample::select(STRATEGIES.to_vec()),
    ) {
        let (mut rig, mut model) = (Rig::new(), Model::default());
        let others = strategy;
        rig.index.set_strategies(GroupStrategies { others, ..GroupStrategies::default() }, 1);
        for op in &ops {
            apply(op, &mut rig, &mut model);
        }
    }
}
