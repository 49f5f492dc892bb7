//! Retained messages by example, and their search against the plain rule of filters.

use super::*;
use proptest::prelude::*;

fn name(topic: &str) -> TopicName<'_> {
    TopicName::new(topic).unwrap()
}

fn retained(lsn: u64, size: u32) -> Retained {
    let qos = QoS::AtLeastOnce;
    Retained { lsn: Lsn::new(lsn), time_ms: 5, expiry: Some(10), qos, size }
}

fn store(topics: &[&str]) -> RetainedStore {
    let mut store = RetainedStore::new();
    for (lsn, topic) in (1..).zip(topics) {
        assert!(store.set(name(topic), retained(lsn, 1)).is_none());
    }
    store
}

/// All that a filter finds, so many steps at a time, so many topics at a time.
fn found(store: &RetainedStore, filter: &str, steps: usize, at_a_time: usize) -> Vec<String> {
    let mut topics = Vec::new();
    let mut cursor = RetainedCursor::START;
    let filter = TopicFilter::new(filter).unwrap();
    let mut done = false;
    while !done {
        let mut left = at_a_time;
        done = store.matching(filter, &mut cursor, steps, |topic, _| {
            topics.push(topic.to_owned());
            left -= 1;
            if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
    }
    topics
}

#[test]
fn a_topic_has_one_message_the_last() {
    //= MQTT311-3.3.1-5
    //= MQTT311-3.3.1-7
    //= MQTT5-3.3.1-5
    let mut store = RetainedStore::new();
    assert_eq!(store.set(name("a/b"), retained(1, 10)), None);
    assert_eq!(store.set(name("a/b"), retained(2, 4)), Some(retained(1, 10)));
    assert_eq!((store.len(), store.bytes()), (1, 7));
    assert_eq!(store.get(name("a/b")), Some(&retained(2, 4)));
    assert_eq!(store.remove(name("a/b")), Some(retained(2, 4)));
    assert_eq!((store.remove(name("a/b")), store.get(name("a/b"))), (None, None));
    assert_eq!((store.is_empty(), store.bytes()), (true, 0));
}

/// B29: retained messages were not delivered to wildcard subscribers.
#[test]
fn wildcards_find_retained_messages() {
    //= MQTT311-3.3.1-6
    //= MQTT5-3.3.1-9
    let store = store(&["/e/t1", "/e", "e/t1", "/e/t1/x", "/f/t1"]);
    assert_eq!(found(&store, "/e/#", 100, 100), ["/e", "/e/t1", "/e/t1/x"]);
    assert_eq!(found(&store, "/+/t1", 100, 100), ["/e/t1", "/f/t1"]);
    assert_eq!(found(&store, "/e/t1", 100, 100), ["/e/t1"]);
    assert_eq!(found(&store, "+/t1", 100, 100), ["e/t1"]);
    assert!(found(&store, "/e/t2", 100, 100).is_empty());
}

#[test]
fn leading_wildcards_do_not_find_dollar_topics() {
    //= MQTT311-4.7.2-1
    //= MQTT5-4.7.2-1
    let store = store(&["!/a", "$SYS/a", "$", "%/a"]);
    assert_eq!(found(&store, "#", 100, 100), ["!/a", "%/a"]);
    assert_eq!(found(&store, "+/a", 100, 100), ["!/a", "%/a"]);
    assert_eq!(found(&store, "$SYS/#", 100, 100), ["$SYS/a"]);
    let all: Vec<_> = store.iter_from(&RetainedCursor::START).map(|(topic, _)| topic).collect();
    assert_eq!(all, ["!/a", "$", "$SYS/a", "%/a"]);
}

#[test]
fn a_search_goes_on_where_it_paused_and_sees_what_came_behind() {
    let mut store = store(&["a/1", "a/2", "a/4"]);
    let mut cursor = RetainedCursor::START;
    let filter = TopicFilter::new("a/+").unwrap();
    let mut seen = Vec::new();
    let mut next = |store: &RetainedStore| {
        store.matching(filter, &mut cursor, 10, |topic, _| {
            seen.push(topic.to_owned());
            ControlFlow::Break(())
        })
    };
    assert!(!next(&store) && !next(&store));
    store.remove(name("a/2"));
    store.set(name("a/0"), retained(8, 1));
    store.set(name("a/3"), retained(9, 1));
    assert!(!next(&store) && !next(&store) && next(&store));
    assert_eq!(seen, ["a/1", "a/2", "a/3", "a/4"]);
}

#[test]
fn a_search_skips_what_cannot_match() {
    let mut store = RetainedStore::new();
    for n in 0..1000 {
        for topic in ["a", "b", "zz"].map(|top| format!("{top}/{}/{}", n / 100, n % 100)) {
            store.set(name(&topic), retained(n, 1));
        }
    }
    let steps_of = |filter, steps| {
        let mut cursor = RetainedCursor::START;
        let go_on = |_: &str, _: &Retained| ControlFlow::Continue(());
        store.matching(TopicFilter::new(filter).unwrap(), &mut cursor, steps, go_on)
    };
    assert!(steps_of("b/5/77", 2) && steps_of("b/5/none", 2) && steps_of("c/#", 2));
    // Ten values of `+`, three looks at each.
    assert!(steps_of("b/+/77", 32) && steps_of("b/+", 12));
}

fn topics() -> impl Strategy<Value = String> {
    let level = prop::sample::select(vec!["", "a", "b", "a!", "a0", "ab", "$s"]);
    prop::collection::vec(level, 1..5)
        .prop_map(|levels| if levels == [""] { "a".to_owned() } else { levels.join("/") })
}

fn filters() -> impl Strategy<Value = String> {
    let level = prop::sample::select(vec!["", "a", "b", "a!", "ab", "$s", "+", "+"]);
    (prop::collection::vec(level, 0..5), any::<bool>()).prop_map(|(levels, hash)| {
        let levels: Vec<_> = levels.into_iter().chain(hash.then_some("#")).collect();
        let filter = levels.join("/");
        if filter.is_empty() { "#".to_owned() } else { filter }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn filters_find_what_they_match_in_order_however_paced(
        topics in prop::collection::btree_set(topics(), 0..40),
        filter in filters(),
        steps in 1_usize..5,
        at_a_time in 1_usize..4,
    ) {
        let mut store = RetainedStore::new();
        for topic in &topics {
            store.set(name(topic), retained(1, 1));
        }
        let plain = TopicFilter::new(&filter).unwrap();
        let wanted: Vec<_> = topics.iter().filter(|t| plain.matches(name(t))).cloned().collect();
        prop_assert_eq!(&found(&store, &filter, steps, at_a_time), &wanted);
        prop_assert_eq!(&found(&store, &filter, usize::MAX, usize::MAX), &wanted);
    }
}
