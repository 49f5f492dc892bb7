//! What a publish is decided to be, statement by statement.

use super::*;
use crate::Destination;
use crate::index::{GroupStrategies, GroupStrategy, HashSeed, Inserted, Subscriber};
use zzq_types::{Filter, RetainHandling, SubscribeOptions};

mod model;

const UP: SessionFlags = SessionFlags::CONNECTED;
const KEPT: SessionFlags = SessionFlags::PERSISTENT;

fn session(n: u64) -> SessionNumber {
    SessionNumber::new(n).unwrap()
}

fn options(qos: u8) -> SubscribeOptions {
    SubscribeOptions::with_qos(QoS::from_bits(qos).unwrap())
}

/// Session `n` on lane `n`, connected.
fn subscriber(n: u64, sub: u32, options: SubscribeOptions, id: u32) -> Subscriber {
    Subscriber {
        session: session(n),
        lane: u16::try_from(n).unwrap() % 64,
        flags: UP,
        since: 0,
        sub: SubNumber::new(sub),
        options,
        id: SubscriptionId::new(id),
    }
}

/// An index with a router on it.
struct Rig {
    index: Index,
    router: Router,
    out: DecisionBuf,
}

/// Session, QoS, RETAIN, pick, identifiers.
type Got = (u64, u8, bool, Option<u32>, Vec<u32>);

impl Rig {
    fn new() -> Self {
        let index = Index::new(HashSeed(1, 2), 1 << 16);
        Self { index, router: Router::new(), out: DecisionBuf::new() }
    }

    fn with(filters: &[(&str, Subscriber)]) -> Self {
        let mut rig = Self::new();
        for (filter, subscriber) in filters {
            assert_eq!(rig.insert(filter, *subscriber), Inserted::New, "{filter}");
        }
        rig
    }

    fn insert(&mut self, filter: &str, subscriber: Subscriber) -> Inserted {
        self.index.insert(Filter::new(filter).unwrap(), subscriber)
    }

    fn remove(&mut self, filter: &str, n: u64) -> bool {
        self.index.remove(Filter::new(filter).unwrap(), session(n))
    }

    fn route(&mut self, publication: Publication<'_>) -> (Routed, Vec<Got>) {
        let routed = self.router.route(&mut self.index, publication, &mut self.out);
        self.router.taken(&mut self.index);
        (routed, self.got())
    }

    fn got(&self) -> Vec<Got> {
        self.out.as_decision().iter().map(got).collect()
    }

    /// Publishes at QoS 2 with RETAIN.
    fn to(&mut self, topic: &str) -> Vec<Got> {
        self.route(publication(topic)).1
    }

    fn sessions(&mut self, topic: &str) -> Vec<u64> {
        self.to(topic).into_iter().map(|(session, ..)| session).collect()
    }
}

fn got(to: Destination<'_>) -> Got {
    let ids = to.ids.into_iter().map(SubscriptionId::get).collect();
    (to.session.get(), to.qos.bits(), to.retain, to.pick.map(SubNumber::get), ids)
}

fn publication(topic: &str) -> Publication<'_> {
    let topic = TopicName::new(topic).unwrap();
    Publication { topic, publisher: None, client_hash: 0, qos: QoS::ExactlyOnce, retain: true }
}

#[test]
fn the_lower_of_published_and_granted_qos_is_delivered() {
    //= MQTT311-3.8.4-6
    //= MQTT5-3.8.4-8
    for published in 0..3 {
        for granted in 0..3 {
            let mut rig = Rig::with(&[("t", subscriber(1, 0, options(granted), 0))]);
            let qos = QoS::from_bits(published).unwrap();
            let (_, got) = rig.route(Publication { qos, ..publication("t") });
            assert_eq!(got, [(1, published.min(granted), false, None, vec![])]);
        }
    }
}

/// B23: overlapping filters were delivered at the lower QoS.
#[test]
fn overlapping_subscriptions_add_up_to_one_delivery_at_the_highest_qos() {
    //= MQTT311-3.3.5-1
    //= MQTT5-3.3.4-2
    let mut rig = Rig::with(&[
        ("a/+", subscriber(1, 0, options(0), 0)),
        ("a/b", subscriber(1, 1, options(1), 0)),
    ]);
    let (_, got) = rig.route(Publication { qos: QoS::AtLeastOnce, ..publication("a/b") });
    assert_eq!(got, [(1, 1, false, None, vec![])]);
}

#[test]
fn one_delivery_carries_the_identifiers_of_all_its_subscriptions_in_their_order() {
    //= MQTT5-3.3.4-3
    //= MQTT5-3.3.4-4
    let mut rig = Rig::with(&[
        ("#", subscriber(1, 3, options(0), 7)),
        ("a/+", subscriber(1, 2, options(2), 0)),
        ("a/b", subscriber(1, 1, options(1), 9)),
        ("+/b", subscriber(1, 0, options(1), 9)),
        ("a/c", subscriber(1, 4, options(1), 1)),
    ]);
    assert_eq!(rig.to("a/b"), [(1, 2, false, None, vec![9, 9, 7])]);
    assert_eq!(rig.to("a/c"), [(1, 2, false, None, vec![7, 1])]);
}

/// B25: a repeated SUBSCRIBE kept the old identifier.
#[test]
fn the_same_filter_again_replaces_the_subscription() {
    //= MQTT311-3.8.4-3
    //= MQTT5-3.8.4-3
    for filter in ["t", "+", "$share/g/t"] {
        let mut rig = Rig::with(&[(filter, subscriber(1, 0, options(0), 1))]);
        assert_eq!(rig.insert(filter, subscriber(1, 0, options(1), 2)), Inserted::Replaced);
        let got = rig.to("t");
        assert_eq!((got.len(), got[0].1, &got[0].4), (1, 1, &vec![2]), "{filter}");
        assert_eq!(rig.index.subscriptions(), 1);
    }
}

#[test]
fn filters_are_removed_by_their_exact_text() {
    //= MQTT311-3.10.4-1
    //= MQTT311-3.10.4-2
    //= MQTT5-3.10.4-1
    //= MQTT5-3.10.4-2
    let filters = ["a/b", "a/+", "a/#", "A/b", "$share/g/a/b", "$share/h/a/b"];
    let mut rig = Rig::new();
    for (sub, filter) in (0..).zip(filters) {
        rig.insert(filter, subscriber(1, sub, options(0), sub + 1));
    }
    for filter in ["a", "a/c", "+/b", "#", "a/b/", "$share/i/a/b", "$share/g/a/+"] {
        assert!(!rig.remove(filter, 1), "{filter}");
    }
    assert!(!rig.remove("a/b", 2));
    assert!(rig.remove("a/b", 1) && !rig.remove("a/b", 1));
    assert_eq!(rig.to("a/b")[0].4, [2, 3]);
    assert_eq!(rig.to("a/b").len(), 3);
    assert!(rig.remove("$share/g/a/b", 1) && rig.remove("a/#", 1) && rig.remove("a/+", 1));
    let got = rig.to("a/b");
    assert_eq!((got.len(), got[0].3), (1, Some(5)));
}

#[test]
fn retain_is_forwarded_where_a_subscription_asks_for_it() {
    //= MQTT311-3.3.1-9
    //= MQTT5-3.3.1-12
    //= MQTT5-3.3.1-13
    let as_published = SubscribeOptions { retain_as_published: true, ..options(0) };
    let mut rig = Rig::with(&[
        ("t", subscriber(1, 0, options(0), 0)),
        ("t", subscriber(2, 0, as_published, 0)),
        ("+", subscriber(3, 0, as_published, 0)),
        ("t", subscriber(3, 1, options(0), 0)),
    ]);
    let retain = |got: Vec<Got>| got.into_iter().map(|to| to.2).collect::<Vec<_>>();
    assert_eq!(retain(rig.to("t")), [false, true, true]);
    let (_, got) = rig.route(Publication { retain: false, ..publication("t") });
    assert_eq!(retain(got), [false; 3]);
}

#[test]
fn own_publications_do_not_come_back_where_no_local_is_set() {
    //= MQTT5-3.8.3-3
    let no_local = SubscribeOptions { no_local: true, ..options(2) };
    let mut rig = Rig::with(&[
        ("t", subscriber(1, 0, no_local, 5)),
        ("t", subscriber(2, 0, no_local, 0)),
        ("+", subscriber(1, 1, options(1), 6)),
        ("u", subscriber(1, 2, no_local, 0)),
    ]);
    let own = |topic| Publication { publisher: Some(session(1)), ..publication(topic) };
    let (_, got) = rig.route(own("t"));
    assert_eq!(got, [(1, 1, false, None, vec![6]), (2, 2, false, None, vec![])]);
    let (_, got) = rig.route(own("u"));
    assert_eq!(got, [(1, 1, false, None, vec![6])]);
    assert_eq!(rig.to("t")[0], (1, 2, false, None, vec![5, 6]));
}

/// B31: `+` did not match an empty level.
#[test]
fn empty_levels_match() {
    let mut rig = Rig::with(&[
        ("a/+/b", subscriber(1, 0, options(0), 0)),
        ("a/#", subscriber(2, 0, options(0), 0)),
        ("+/+", subscriber(3, 0, options(0), 0)),
        ("+", subscriber(4, 0, options(0), 0)),
    ]);
    assert_eq!(rig.sessions("a//b"), [1, 2]);
    assert_eq!(rig.sessions("a"), [2, 4]);
    assert_eq!(rig.sessions("a/"), [2, 3]);
    assert_eq!(rig.sessions("/"), [3]);
}

#[test]
fn dollar_topics_hide_from_leading_wildcards_of_groups_too() {
    //= MQTT311-4.7.2-1
    //= MQTT5-4.7.2-1
    let mut rig = Rig::with(&[
        ("#", subscriber(1, 0, options(0), 0)),
        ("$share/g/+/x", subscriber(2, 0, options(0), 0)),
        ("$SYS/#", subscriber(3, 0, options(0), 0)),
        ("$share/g/$SYS/x", subscriber(4, 0, options(0), 0)),
    ]);
    assert_eq!(rig.sessions("$SYS/x"), [3, 4]);
    assert_eq!(rig.sessions("SYS/x"), [1, 2]);
}

#[test]
fn a_group_gets_one_copy_at_the_qos_of_the_member_picked() {
    //= MQTT5-4.8.2-3
    let mut rig = Rig::with(&[
        ("$share/g/t", subscriber(1, 4, options(0), 0)),
        ("$share/g/t", subscriber(2, 5, options(2), 8)),
    ]);
    assert_eq!(rig.to("t"), [(1, 0, false, Some(4), vec![])]);
    assert_eq!(rig.to("t"), [(2, 2, false, Some(5), vec![8])]);
}

#[test]
fn a_session_gets_its_own_copy_and_one_for_each_group_that_picks_it() {
    let mut rig = Rig::with(&[
        ("$share/g/t", subscriber(1, 0, options(1), 10)),
        ("$share/h/+", subscriber(1, 1, options(1), 11)),
        ("t", subscriber(1, 2, options(1), 12)),
        ("#", subscriber(1, 3, options(2), 13)),
        ("$share/h/t", subscriber(2, 0, options(0), 0)),
    ]);
    let wanted = [
        (1, 2, false, None, vec![12, 13]),
        (1, 1, false, Some(0), vec![10]),
        (1, 1, false, Some(1), vec![11]),
        (2, 0, false, Some(0), vec![]),
    ];
    assert_eq!(rig.to("t"), wanted);
}

#[test]
fn a_strategy_applies_to_groups_that_are_there_and_to_those_that_come() {
    let mut rig = Rig::with(&[
        ("$share/g/t", subscriber(1, 0, options(0), 0)),
        ("$share/g/t", subscriber(2, 0, options(0), 0)),
    ]);
    let others = GroupStrategy::LeastInflight;
    rig.index.set_strategies(GroupStrategies { others, ..GroupStrategies::default() }, 0);
    assert!(rig.index.set_load(session(1), 3) && rig.index.set_load(session(2), 2));
    assert_eq!((rig.sessions("t"), rig.sessions("t")), (vec![2], vec![2]));
    rig.insert("u", subscriber(2, 1, options(0), 0));
    assert!(rig.index.set_load(session(1), 0) && !rig.index.set_load(session(3), 0));
    assert_eq!(rig.sessions("t"), [1]);
}

#[test]
fn a_route_names_the_lanes_and_whether_something_is_kept() {
    let volatile = subscriber(3, 0, options(1), 0);
    let persistent = Subscriber { flags: KEPT, ..subscriber(63, 0, options(1), 0) };
    let mut rig = Rig::with(&[("t", volatile), ("t", persistent), ("u", volatile)]);
    let (routed, _) = rig.route(publication("t"));
    let lanes = 1 << 3 | 1 << 63;
    let held = SessionFlags::NONE;
    assert_eq!(routed, Routed { destinations: 2, lanes, kept: true, held, own_full: false });
    let (routed, _) = rig.route(Publication { qos: QoS::AtMostOnce, ..publication("t") });
    assert!(!routed.kept && routed.lanes == lanes);
    assert!(!rig.route(publication("u")).0.kept);
    assert_eq!(rig.route(publication("v")), (Routed::default(), vec![]));
}

#[test]
fn who_is_full_or_over_high_water_holds_others_and_not_itself() {
    let mut rig = Rig::with(&[
        ("t", subscriber(1, 0, options(0), 0)),
        ("t", subscriber(2, 0, options(1), 0)),
        ("zero", subscriber(2, 0, options(0), 0)),
    ]);
    let held_by = |rig: &mut Rig, publisher| {
        let publisher = Some(session(publisher));
        rig.route(Publication { publisher, ..publication("t") }).0.held
    };
    assert!(rig.index.set_flags(session(1), UP.with(SessionFlags::OVER_HIGH_WATER), 0));
    assert_eq!(held_by(&mut rig, 1), SessionFlags::NONE);
    assert_eq!(held_by(&mut rig, 2), SessionFlags::OVER_HIGH_WATER);
    // What it gets at QoS 1 waits in its queue.
    assert!(rig.index.set_flags(session(2), UP.with(SessionFlags::OVER_HIGH_WATER), 0));
    assert_eq!(held_by(&mut rig, 1), SessionFlags::NONE);
    assert!(rig.index.set_flags(session(2), UP.with(SessionFlags::FULL), 0));
    assert_eq!(held_by(&mut rig, 1), SessionFlags::FULL);
    assert!(rig.index.set_flags(session(2), UP.with(SessionFlags::LAGGING), 0));
    assert_eq!(held_by(&mut rig, 1), SessionFlags::LAGGING);
    assert_eq!(held_by(&mut rig, 2), SessionFlags::OVER_HIGH_WATER, "and not for itself");
    assert_eq!(rig.route(publication("zero")).0.held, SessionFlags::NONE);
    assert!(rig.index.set_flags(session(2), UP.with(SessionFlags::FULL), 0));
    let both = SessionFlags::OVER_HIGH_WATER.with(SessionFlags::FULL);
    assert_eq!(held_by(&mut rig, 3), both);
    let own = Publication { publisher: Some(session(2)), ..publication("t") };
    assert!(rig.route(own).0.own_full && !rig.route(publication("t")).0.own_full);
    // At QoS 0 nothing enters a queue.
    assert_eq!(rig.route(publication("zero")).0.held, SessionFlags::NONE);
    // Nobody is held any more for one that was waited for long enough.
    let slow = UP.with(SessionFlags::OVER_HIGH_WATER).with(SessionFlags::SLOW);
    assert!(rig.index.set_flags(session(1), slow, 0));
    assert!(rig.index.set_flags(session(2), UP, 0));
    assert_eq!(held_by(&mut rig, 3), SessionFlags::NONE);
    assert!(!rig.index.set_flags(session(9), UP, 0));
}

#[test]
fn a_run_reuses_its_decision_until_something_changes() {
    let mut rig = Rig::with(&[("t", subscriber(1, 0, options(1), 0))]);
    let first = rig.route(publication("t")).0;
    let same = |rig: &mut Rig, publication| {
        let routed = rig.router.route_same(&mut rig.index, publication, &mut rig.out);
        (routed, rig.got().len())
    };
    assert_eq!(same(&mut rig, publication("t")), (first, 1));
    assert_eq!(same(&mut rig, publication("u")), (Routed::default(), 0));
    let none = Publication { qos: QoS::AtMostOnce, ..publication("t") };
    assert_eq!(same(&mut rig, none), (Routed { kept: false, ..first }, 1));
    assert_eq!(rig.got()[0].1, 0);
    rig.insert("+", subscriber(2, 0, options(0), 0));
    assert_eq!(same(&mut rig, none).1, 2);
    rig.index.set_flags(session(2), UP.with(SessionFlags::OVER_HIGH_WATER), 0);
    assert_eq!(same(&mut rig, none).0.held, SessionFlags::OVER_HIGH_WATER);
    rig.index.remove_session(session(2));
    assert_eq!(same(&mut rig, none).1, 1);
}

#[test]
fn picks_advance_within_a_run() {
    let mut rig = Rig::with(&[
        ("$share/g/t", subscriber(1, 0, options(0), 0)),
        ("$share/g/t", subscriber(2, 0, options(0), 0)),
    ]);
    let mut picked = rig.sessions("t");
    for _ in 0..3 {
        // One that is not taken at first.
        for _ in 0..2 {
            rig.router.route_same(&mut rig.index, publication("t"), &mut rig.out);
        }
        rig.router.taken(&mut rig.index);
        picked.push(rig.got()[0].0);
    }
    assert_eq!(picked, [1, 2, 1, 2]);
}

#[test]
#[should_panic(expected = "a run keeps its decision")]
fn a_run_with_another_buffer_is_a_fault() {
    let mut rig = Rig::with(&[("t", subscriber(1, 0, options(1), 0))]);
    rig.to("t");
    rig.router.route_same(&mut rig.index, publication("t"), &mut DecisionBuf::new());
}

#[test]
fn retain_handling_is_no_matter_of_routing() {
    let never = SubscribeOptions { retain_handling: RetainHandling::Never, ..options(1) };
    let mut rig = Rig::with(&[("t", subscriber(1, 0, never, 0))]);
    assert_eq!(rig.to("t"), [(1, 1, false, None, vec![])]);
}

#[test]
fn a_great_many_subscribers_come_in_order() {
    let mut rig = Rig::new();
    for n in (1..=6000).rev() {
        rig.insert("t", subscriber(n, 0, options(0), 0));
    }
    rig.insert("#", subscriber(3000, 1, options(1), 0));
    let got = rig.sessions("t");
    assert_eq!(got, (1..=6000).collect::<Vec<_>>());
    for n in (0..2000).rev() {
        rig.insert("+", subscriber(2 * n + 1, 2, options(2), 0));
    }
    let got = rig.to("t");
    assert_eq!(got.iter().map(|to| to.0).collect::<Vec<_>>(), (1..=6000).collect::<Vec<_>>());
    assert!(got.iter().all(|to| (to.1 == 2) == (to.0 < 4000 && to.0 % 2 == 1) || to.0 == 3000));
    assert_eq!(rig.index.remove_session(session(1)), 2);
    assert_eq!(rig.to("t").len(), 5999);
}

#[test]
fn a_group_names_its_members_and_no_others() {
    let away = Subscriber { flags: SessionFlags::PERSISTENT, ..subscriber(2, 0, options(1), 0) };
    let rig = Rig::with(&[
        ("$share/g/t", away),
        ("$share/g/t", subscriber(1, 0, options(1), 0)),
        ("$share/h/t", subscriber(3, 0, options(1), 0)),
        ("t", subscriber(4, 0, options(1), 0)),
    ]);
    let members = |filter| rig.index.members(Filter::new(filter).unwrap()).collect::<Vec<_>>();
    let both = [(session(1), 1, UP), (session(2), 2, SessionFlags::PERSISTENT)];
    assert_eq!(members("$share/g/t"), both);
    assert_eq!(members("$share/g/u"), []);
    assert_eq!(members("t"), []);
}
