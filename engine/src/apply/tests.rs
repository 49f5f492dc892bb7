//! What holds for every log, however senseless; what each kind does is in the files below.

mod fold;
mod groups;
mod history;
mod merge;
mod messages;
mod sessions;
mod wills;

use std::collections::BTreeMap;

use proptest::prelude::*;
use zzq_types::Lsn;

use crate::counters::Ignored;
use crate::effect::{Effect, NoEffects};
use crate::image::{Sections, Select};
use crate::invariant;
use crate::number::QueueNumber;
use crate::shard::Shard;
use crate::state::State;
use crate::testing::{self, Owned};

/// The messages that a lane would hold, by what effects say.
#[derive(Default)]
struct Store(BTreeMap<Lsn, u64>);

impl Store {
    fn note(&mut self, effect: Effect<'_>) {
        match effect {
            Effect::Queued { lsn, .. }
            | Effect::Orphaned { lsn, .. }
            | Effect::RetainedSet { lsn, .. }
            | Effect::WillHeld { lsn, .. } => *self.0.entry(lsn).or_default() += 1,
            Effect::Released { lsn } => {
                let count = self.0.get_mut(&lsn).expect("released what was held");
                *count -= 1;
                if *count == 0 {
                    self.0.remove(&lsn);
                }
            }
            _ => {}
        }
    }
}

fn fold(log: &[(u64, Owned)], from: usize, state: &mut State) {
    for (at, (time_ms, owned)) in log.iter().enumerate().skip(from) {
        let lsn = Lsn::new(u64::try_from(at).unwrap() + 1);
        state.apply(lsn, *time_ms, &owned.record(), &mut NoEffects);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn every_log_leaves_a_consistent_state_and_true_references(log in testing::log()) {
        let mut state = State::new(Shard::WHOLE);
        let mut store = Store::default();
        for (at, (time_ms, owned)) in log.iter().enumerate() {
            let lsn = Lsn::new(u64::try_from(at).unwrap() + 1);
            state.apply(lsn, *time_ms, &owned.record(), &mut |e: Effect<'_>| store.note(e));
            prop_assert_eq!(invariant::check(&state), Ok(()), "after {:?}", owned.record());
            prop_assert_eq!(&store.0, &state.references(), "after {:?}", owned.record());
        }
    }

    #[test]
    fn an_image_and_the_rest_of_the_log_are_the_log(
        log in testing::log(),
        cut in any::<prop::sample::Index>(),
    ) {
        let cut = cut.index(log.len() + 1);
        let mut whole = State::new(Shard::WHOLE);
        fold(&log, 0, &mut whole);
        let mut first = State::new(Shard::WHOLE);
        fold(&log[..cut], 0, &mut first);
        let image = Sections::of(&first, Select::All);
        let mut second = image.load(Shard::WHOLE).unwrap();
        prop_assert_eq!(Sections::of(&second, Select::All), image);
        fold(&log, cut, &mut second);
        prop_assert_eq!(invariant::check(&second), Ok(()));
        prop_assert_eq!(Sections::of(&second, Select::All), Sections::of(&whole, Select::All));
    }

    /// A repeat of an open identifier is left out: only the publisher's part can ignore it, and
    /// the lanes promise that there is none.
    #[test]
    fn parts_together_are_the_whole(log in testing::log(), count in 2_u32..5) {
        let mut whole = State::new(Shard::WHOLE);
        let mut parts: Vec<_> =
            (0..count).map(|index| State::new(Shard::new(index, count))).collect();
        for (at, (time_ms, owned)) in log.iter().enumerate() {
            let lsn = Lsn::new(u64::try_from(at).unwrap() + 1);
            let repeated = whole.counters().get(Ignored::RepeatedPublish);
            whole.apply(lsn, *time_ms, &owned.record(), &mut NoEffects);
            if whole.counters().get(Ignored::RepeatedPublish) == repeated {
                for part in &mut parts {
                    part.apply(lsn, *time_ms, &owned.record(), &mut NoEffects);
                    prop_assert_eq!(invariant::check(part), Ok(()));
                }
            } else {
                let nothing = crate::record::Record::Config(crate::record::Config {
                    key: &[],
                    value: &[],
                });
                for part in &mut parts {
                    part.apply(lsn, 0, &nothing, &mut NoEffects);
                }
            }
        }
        let images: Vec<_> = parts.iter().map(|part| Sections::of(part, Select::All)).collect();
        let merged = Sections::merge(&images).unwrap();
        prop_assert_eq!(&merged, &Sections::of(&whole, Select::All));
        // And the image is split again, among another number of parts.
        let again: Vec<_> = (0..3)
            .map(|index| Sections::of(&merged.load(Shard::new(index, 3)).unwrap(), Select::All))
            .collect();
        prop_assert_eq!(Sections::merge(&again).unwrap(), merged);
    }

    #[test]
    fn what_is_due_goes_away_when_its_record_is_applied(log in testing::log()) {
        let mut state = State::new(Shard::WHOLE);
        fold(&log, 0, &mut state);
        let now_ms = log.last().map_or(0, |(time_ms, _)| time_ms + 10_000);
        let mut lsn = u64::try_from(log.len()).unwrap();
        for _ in 0..200 {
            let Some(due) = state.due(now_ms).next().cloned() else { break };
            lsn += 1;
            settle(&mut state, Lsn::new(lsn), now_ms, &due);
            prop_assert!(state.due(now_ms).next() != Some(&due), "{:?} is still due", due);
        }
        prop_assert_eq!(state.due(now_ms).next(), None);
        prop_assert!(state.next_deadline().is_none_or(|at_ms| at_ms > now_ms));
    }

    #[test]
    fn a_record_is_applied_once(log in testing::log()) {
        let mut state = State::new(Shard::WHOLE);
        fold(&log, 0, &mut state);
        let image = Sections::of(&state, Select::All);
        fold(&log, 0, &mut state);
        prop_assert_eq!(Sections::of(&state, Select::All), image);
        let count = u64::try_from(log.len()).unwrap();
        prop_assert_eq!(state.counters().get(Ignored::Replayed), count);
    }
}

/// Writes the record that something due asks for.
fn settle(state: &mut State, lsn: Lsn, now_ms: u64, due: &crate::deadline::Due) {
    use crate::deadline::Due;
    use crate::record::{
        Closing, Expire, ExpiredTopic, ExpiredTopicsBuf, Publish, RangeSetsBuf, Record, SessionEnd,
    };
    let mut sets = RangeSetsBuf::new();
    let mut topics = ExpiredTopicsBuf::new();
    let record = match due {
        Due::Will { session, .. } => Record::Publish(Publish {
            publisher: None,
            inbound: None,
            will_of: Some(*session),
            qos: zzq_types::QoS::AtMostOnce,
            retain: false,
            decision: crate::decision::Decision::NOBODY,
            topic: testing::topic("w"),
            properties: zzq_types::Properties::EMPTY,
            payload: &[],
        }),
        Due::SessionEnd { session } => {
            Record::SessionEnd(SessionEnd { session: *session, forget: false })
        }
        Due::Messages { session } => {
            let ranges = state.expired(*session, now_ms, QueueNumber::ZERO);
            sets.push_ranges(*session, Closing::Expired, ranges);
            Record::Expire(Expire { sets: sets.as_list(), topics: topics.as_list() })
        }
        Due::Retained { topic } => {
            let topic = testing::topic(topic);
            let lsn = state.retained().get(topic).unwrap().lsn;
            topics.push(&ExpiredTopic { topic, lsn });
            Record::Expire(Expire { sets: sets.as_list(), topics: topics.as_list() })
        }
    };
    state.apply(lsn, now_ms, &record, &mut NoEffects);
}
