//! Images that were damaged, or read in the wrong order.

use proptest::prelude::*;
use zzq_types::Lsn;

use super::*;
use crate::effect::NoEffects;
use crate::invariant;
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
