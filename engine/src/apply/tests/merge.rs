//! The merge: an image before and the log since are the next image, with only the touched in hand.

use std::collections::BTreeMap;

use zzq_types::{Properties, QoS, SubscribeOptions};

use super::fold::{Q0, Q1};
use super::*;
use crate::decision::DecisionBuf;
use crate::image::{Loader, Section, Touched, references};
use crate::number::SubNumber;
use crate::record::{Connect, Publish, Record, Subscribe, SubscribeItem, SubscribeItemsBuf};
use crate::session::Replay;

/// The next image, as whoever has no room for a state makes it: entries that are not touched are
/// copied, a state in which nothing else is takes the records since.
fn merge(base: &Sections, log: &[(u64, Owned)], from: usize) -> Sections {
    let mut touched = Touched::default();
    log[from..].iter().for_each(|(_, owned)| touched.record(&owned.record()));
    let mut loader = Loader::new(Shard::WHOLE);
    let mut entries = BTreeMap::new();
    for section in Section::ALL {
        for entry in base.entries(section) {
            let (key, value) = entry.unwrap();
            if touched.entry(section, key, value).unwrap() {
                loader.entry(section, key, value).unwrap();
            } else {
                entries.insert((section, key.to_vec()), value.to_vec());
            }
        }
    }
    let mut state = loader.finish().unwrap();
    fold(log, from, &mut state);
    crate::image::write(&state, Select::All, |section, key, value| {
        assert!(touched.covers(section, key), "{section:?} {key:?} was changed");
        assert_eq!(entries.insert((section, key.to_vec()), value.to_vec()), None, "copied too");
    });
    let mut sections = Sections::default();
    for ((section, key), value) in entries {
        sections.push(section, &key, &value);
    }
    sections
}

fn image_at(log: &[(u64, Owned)], end: usize) -> Sections {
    let mut state = State::new(Shard::WHOLE);
    fold(&log[..end], 0, &mut state);
    Sections::of(&state, Select::All)
}

/// A record that passes a subscription by leaves its place there, whatever its QoS: without it the
/// subscription would go live before that record was taken.
#[test]
fn what_passes_a_subscription_by_at_qos_0_is_in_the_next_image() {
    for qos in [Q0, Q1] {
        let log = [connects(), replays(), publishes_past(qos)].map(|record| (1000, record));
        let merged = merge(&image_at(&log, 2), &log, 2);
        assert_eq!(merged, image_at(&log, 3), "{qos:?}");
    }
}

fn connects() -> Owned {
    let session = testing::session(1);
    let client = testing::client_of(session);
    let connect = Connect { session, client, expiry_s: 9, window: 9, joins: None, will: None };
    Owned::of(&Record::Connect(connect))
}

fn replays() -> Owned {
    let mut items = SubscribeItemsBuf::new();
    items.push(&SubscribeItem {
        number: SubNumber::new(0),
        filter: "$replay/all/t",
        options: SubscribeOptions::default(),
        id: None,
        replay: Some(Replay::new(Lsn::new(1), 0)),
    });
    let session = testing::session(1);
    Owned::of(&Record::Subscribe(Subscribe { session, items: items.as_list() }))
}

fn publishes_past(qos: QoS) -> Owned {
    let mut decision = DecisionBuf::new();
    decision.push(testing::session(1), qos, false, Some(SubNumber::new(0)), []);
    Owned::of(&Record::Publish(Publish {
        publisher: None,
        inbound: None,
        will_of: None,
        qos: QoS::AtLeastOnce,
        retain: false,
        decision: decision.as_decision(),
        topic: testing::topic("t"),
        properties: Properties::EMPTY,
        payload: b"p",
    }))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn images_made_of_one_another_are_those_of_the_log(
        log in testing::log(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 1..5),
    ) {
        let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(log.len() + 1)).collect();
        cuts.sort_unstable();
        let (mut image, mut from) = (Sections::default(), 0);
        for end in cuts {
            image = merge(&image, &log[..end], from);
            from = end;
            // Without a record there is nothing to make an image of.
            if end > 0 {
                prop_assert_eq!(&image, &image_at(&log, end), "up to {}", end);
            }
        }
    }

    #[test]
    fn an_image_names_what_its_state_refers_to(log in testing::log()) {
        let mut state = State::new(Shard::WHOLE);
        fold(&log, 0, &mut state);
        let mut named = BTreeMap::<Lsn, u64>::new();
        crate::image::write(&state, Select::All, |section, key, value| {
            references(section, key, value, |lsn, _| *named.entry(lsn).or_default() += 1).unwrap();
        });
        prop_assert_eq!(named, state.references());
    }
}
