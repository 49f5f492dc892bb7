//! Images that were damaged, or read in the wrong order.

use proptest::prelude::*;
use zzq_types::{Lsn, Properties, QoS, TopicName};

use super::*;
use crate::decision::DecisionBuf;
use crate::effect::NoEffects;
use crate::invariant;
use crate::number::{QueueNumber, SessionNumber};
use crate::record::{Connect, Publish, Record, SessionDown};
use crate::session::Session;
use crate::shard::Shard;
use crate::state::State;
use crate::testing::{self, Owned};

fn fold(log: &[(u64, Owned)]) -> State {
    let mut state = State::new(Shard::WHOLE);
    for (at, (time_ms, owned)) in log.iter().enumerate() {
        let lsn = Lsn::new(u64::try_from(at).unwrap() + 1);
        state.apply(lsn, *time_ms, &owned.record(), &mut NoEffects);
    }
    state
}

/// A state that leaves each queue in the image that may be left.
fn load_leaving(image: &Sections) -> State {
    let mut loader = Loader::leaving_queues(Shard::WHOLE, 0);
    for section in Section::ALL {
        for entry in image.entries(section) {
            let (key, value) = entry.unwrap();
            loader.entry(section, key, value).unwrap();
        }
    }
    loader.finish().unwrap()
}

fn read_front(state: &State, image: &Sections, session: SessionNumber) -> UntouchedReader {
    let mut reader = UntouchedReader::new(session, state.untouched(session).unwrap());
    let from = reader.key();
    for entry in image.entries(Section::Queues) {
        let (key, value) = entry.unwrap();
        if key >= &from[..] && !reader.entry(key, value).unwrap() {
            break;
        }
    }
    reader
}

fn give_back(state: &mut State, image: &Sections, session: SessionNumber) {
    state.give_back(read_front(state, image, session)).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_damaged_image_is_refused_or_consistent(
        log in testing::log(),
        section in any::<prop::sample::Index>(),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
    ) {
        let mut sections = Sections::of(&fold(&log), Select::All);
        let section = Section::ALL[section.index(Section::ALL.len())];
        let found = sections.iter().find(|(found, _)| *found == section);
        let Some(mut bytes) = found.map(|(_, bytes)| bytes.to_vec()) else { return Ok(()) };
        let at = at.index(bytes.len());
        bytes[at] = byte;
        sections.set(section, bytes);
        if let Ok(state) = sections.load(Shard::WHOLE) {
            prop_assert_eq!(invariant::check(&state), Ok(()));
            // What was read is written again: nothing is half understood.
            let again = Sections::of(&state, Select::All);
            let state = again.load(Shard::WHOLE).unwrap();
            prop_assert_eq!(Sections::of(&state, Select::All), again);
        }
    }

    /// What an image holds and the records behind it make the same state, whether queues stay in
    /// the image or not, and from whichever image they come back.
    #[test]
    fn queues_that_stay_in_an_image_come_back_when_they_are_touched(
        log in testing::log(),
        cuts in prop::array::uniform2(any::<prop::sample::Index>()),
    ) {
        let mut cuts = cuts.map(|cut| cut.index(log.len() + 1));
        cuts.sort_unstable();
        let images = cuts.map(|cut| Sections::of(&fold(&log[..cut]), Select::All));
        let mut plain = images[0].load(Shard::WHOLE).unwrap();
        let mut state = load_leaving(&images[0]);
        for (at, (time_ms, owned)) in log.iter().enumerate().skip(cuts[0]) {
            let image = &images[usize::from(at >= cuts[1])];
            let lsn = Lsn::new(u64::try_from(at).unwrap() + 1);
            let mut touched = Vec::new();
            state.touches(&owned.record(), |session| touched.push(session));
            touched.dedup();
            for session in touched {
                give_back(&mut state, image, session);
            }
            state.apply(lsn, *time_ms, &owned.record(), &mut NoEffects);
            plain.apply(lsn, *time_ms, &owned.record(), &mut NoEffects);
            prop_assert_eq!(invariant::check(&state), Ok(()));
            prop_assert_eq!(state.queued(), plain.queued());
            prop_assert_eq!(state.next_deadline(), plain.next_deadline());
        }
        let last = &images[usize::from(log.len() >= cuts[1])];
        let read = |session, _| read_front(&state, last, session);
        let whole = Sections::of_whole(&state, Select::All, read);
        prop_assert_eq!(whole, Sections::of(&plain, Select::All));
        for session in state.session_numbers() {
            if state.untouched(session).is_some() {
                give_back(&mut state, last, session);
            }
        }
        prop_assert_eq!(state.untouched, 0);
        prop_assert_eq!(invariant::check(&state), Ok(()));
        prop_assert_eq!(Sections::of(&state, Select::All), Sections::of(&plain, Select::All));
    }

    #[test]
    fn entries_are_dealt_out_to_the_parts_that_own_them(
        log in testing::log(),
        count in 1_u32..4,
    ) {
        let image = Sections::of(&fold(&log), Select::All);
        let mut owners = Owners::new(count);
        let mut parts: Vec<_> =
            (0..count).map(|index| Loader::new(Shard::new(index, count))).collect();
        for section in Section::ALL {
            for entry in image.entries(section) {
                let (key, value) = entry.unwrap();
                let owner = owners.of(section, key, value).unwrap();
                for (index, part) in (0..).zip(&mut parts) {
                    if owner == Owner::All || owner == Owner::One(index) {
                        part.entry(section, key, value).unwrap();
                    }
                }
            }
        }
        for (index, part) in (0..).zip(parts) {
            let part = Sections::of(&part.finish().unwrap(), Select::All);
            let all = image.load(Shard::new(index, count)).unwrap();
            prop_assert_eq!(part, Sections::of(&all, Select::All));
        }
    }

    #[test]
    fn volatile_sessions_are_left_out_on_demand(log in testing::log()) {
        let state = fold(&log);
        let persistent = Sections::of(&state, Select::Persistent).load(Shard::WHOLE).unwrap();
        prop_assert!(persistent.sessions().all(|session| !session.is_volatile()));
        let kept = state.sessions().filter(|session| !session.is_volatile());
        let kept: Vec<_> = kept.map(Session::number).collect();
        prop_assert!(persistent.sessions().map(Session::number).eq(kept));
    }
}

fn session_1() -> SessionNumber {
    SessionNumber::FIRST
}

/// One session that is away and to which `count` messages have gone.
fn away_with(count: u64) -> State {
    let mut state = State::new(Shard::WHOLE);
    let session = SessionNumber::FIRST;
    let connect = Connect { session, client: "c", expiry_s: 9, window: 9, joins: None, will: None };
    let sent = QueueNumber::ZERO;
    let down = SessionDown { session, sent, expiry_s: None, drop_will: false };
    let mut to = DecisionBuf::new();
    to.push(session, QoS::AtLeastOnce, false, None, None);
    let publish = Record::Publish(Publish {
        publisher: None,
        inbound: None,
        will_of: None,
        retain: false,
        qos: QoS::AtLeastOnce,
        topic: TopicName::new("t").unwrap(),
        properties: Properties::EMPTY,
        payload: b"p",
        decision: to.as_decision(),
    });
    let mut records = vec![Record::Connect(connect), Record::SessionDown(down)];
    records.extend((0..count).map(|_| publish));
    for (lsn, record) in (1..).zip(&records) {
        state.apply(Lsn::new(lsn), 5, record, &mut NoEffects);
    }
    state
}

#[test]
fn a_queue_of_many_blocks_stays_in_the_image_and_comes_back_whole() {
    let whole = away_with(2000);
    let image = Sections::of(&whole, Select::All);
    let mut state = load_leaving(&image);
    let session = session_1();
    let front = state.untouched(session).unwrap();
    assert_eq!((front.first.get(), front.last.get(), front.len), (1, 2000, 2000));
    assert_eq!(state.session(session).unwrap().queue().held().count(), 0);
    give_back(&mut state, &image, session);
    assert_eq!(state.untouched(session), None);
    assert_eq!(Sections::of(&state, Select::All), image);
}

#[test]
fn a_short_queue_does_not_stay_in_the_image() {
    let mut loader = Loader::leaving_queues(Shard::WHOLE, 256);
    let image = Sections::of(&away_with(3), Select::All);
    for section in Section::ALL {
        for entry in image.entries(section) {
            let (key, value) = entry.unwrap();
            loader.entry(section, key, value).unwrap();
        }
    }
    assert_eq!(loader.finish().unwrap().untouched(SessionNumber::FIRST), None);
}

#[test]
fn another_front_than_the_one_that_was_left_is_refused() {
    let image = Sections::of(&away_with(700), Select::All);
    let mut state = load_leaving(&image);
    let reader = read_front(&state, &Sections::of(&away_with(600), Select::All), session_1());
    assert!(state.give_back(reader).is_err());
    assert!(state.untouched(session_1()).is_some(), "and nothing was done");
    give_back(&mut state, &image, session_1());
}

#[test]
#[should_panic(expected = "a queue is read before it is touched")]
fn what_is_in_the_image_only_is_not_taken_for_gone() {
    let state = load_leaving(&Sections::of(&away_with(1), Select::All));
    let _ = state.expired(session_1(), 0, QueueNumber::ZERO);
}

#[test]
fn entries_must_ascend() {
    let mut loader = Loader::new(Shard::WHOLE);
    loader.entry(Section::Facts, &[13, 2], b"x").unwrap();
    let repeated = loader.entry(Section::Facts, &[13, 2], b"y");
    assert_eq!(repeated, Err(ImageError::Order(Section::Facts)));
    let earlier = loader.entry(Section::Retained, b"t", &[]);
    assert_eq!(earlier, Err(ImageError::Order(Section::Retained)));
    loader.entry(Section::Facts, &[13, 3], b"z").unwrap();
    let state = loader.finish().unwrap();
    assert_eq!((state.config(&[2]), state.config(&[3])), (Some(&b"x"[..]), Some(&b"z"[..])));
}

#[test]
fn sections_have_numbers_from_one() {
    for (at, section) in Section::ALL.into_iter().enumerate() {
        assert_eq!(usize::from(section.code()), at + 1);
        assert_eq!(Section::from_code(section.code()), Some(section));
    }
    assert_eq!(Section::from_code(0), None);
}
