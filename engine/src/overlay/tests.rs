//! The overlay by example, and with State against all records that were handed over.

use super::*;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

fn session(n: u64) -> SessionNumber {
    SessionNumber::new(n).unwrap()
}

fn id(n: u16) -> PacketId {
    PacketId::new(n).unwrap()
}

fn handed(n: u64) -> Handed {
    Handed::new(n)
}

#[test]
fn an_identifier_is_open_from_hand_over_until_state_says_so() {
    let mut overlay = Overlay::new();
    overlay.opened(session(1), id(7), handed(1));
    assert!(overlay.is_open(session(1), id(7), false));
    assert!(
        !overlay.is_open(session(1), id(8), false) && !overlay.is_open(session(2), id(7), false)
    );
    overlay.released(session(1), id(7), handed(2));
    assert!(!overlay.is_open(session(1), id(7), false));
    overlay.seen_applied(handed(1));
    assert!(!overlay.is_open(session(1), id(7), true), "state shows the first record only");
    overlay.opened(session(1), id(7), handed(3));
    overlay.seen_applied(handed(2));
    assert!(overlay.is_open(session(1), id(7), false), "opened anew");
    overlay.seen_applied(handed(3));
    assert!(overlay.is_open(session(1), id(7), true));
    assert!(!overlay.is_open(session(1), id(7), false), "state alone has the word");
}

#[test]
fn filters_and_sessions_are_known_before_state_knows_them() {
    let mut overlay = Overlay::new();
    overlay.began(session(1), handed(1));
    overlay.subscribed(session(1), "a/+", handed(2));
    overlay.subscribed(session(1), "$share/g/a", handed(2));
    assert!(overlay.exists(session(1), false) && overlay.has_filter(session(1), "a/+", false));
    overlay.unsubscribed(session(1), "a/+", handed(3));
    assert!(!overlay.has_filter(session(1), "a/+", true));
    assert!(!overlay.has_filter(session(2), "$share/g/a", false));
    // One CONNECT ends the old incarnation and opens the new.
    overlay.ended(session(1), handed(4));
    overlay.began(session(2), handed(4));
    assert!(!overlay.exists(session(1), true) && overlay.exists(session(2), false));
    overlay.seen_applied(handed(3));
    assert!(overlay.has_filter(session(1), "a/+", true) && !overlay.exists(session(1), true));
    overlay.seen_applied(handed(4));
    overlay.seen_committed(handed(4));
    assert!(overlay.exists(session(1), true) && overlay.is_empty());
}

#[test]
fn a_session_waits_for_its_last_record_until_that_is_committed_not_applied() {
    let mut overlay = Overlay::new();
    overlay.opened(session(1), id(1), handed(1));
    overlay.noted(session(2), handed(2));
    overlay.noted(session(1), handed(3));
    overlay.seen_applied(handed(3));
    assert_eq!(overlay.last_record(session(1)), Some(handed(3)));
    overlay.seen_committed(handed(2));
    assert_eq!(overlay.last_record(session(1)), Some(handed(3)));
    assert_eq!((overlay.last_record(session(2)), overlay.last_record(session(3))), (None, None));
    overlay.seen_committed(handed(3));
    assert!(overlay.last_record(session(1)).is_none() && overlay.is_empty());
}

#[test]
#[should_panic(expected = "noted as they are handed over")]
fn records_are_noted_in_order() {
    let mut overlay = Overlay::new();
    overlay.noted(session(1), handed(2));
    overlay.noted(session(2), handed(1));
}

#[derive(Clone, Debug)]
enum Op {
    Open(u64, u16, bool),
    Filter(u64, &'static str, bool),
    Session(u64, bool),
    Note(u64),
    Applied(u64),
    Committed(u64),
}

fn ops() -> impl Strategy<Value = Op> {
    let session = || 1_u64..4;
    prop_oneof![
        3 => (session(), 1_u16..4, any::<bool>()).prop_map(|(n, id, so)| Op::Open(n, id, so)),
        2 => (session(), prop::sample::select(vec!["a", "b", "+"]), any::<bool>())
            .prop_map(|(n, filter, so)| Op::Filter(n, filter, so)),
        1 => (session(), any::<bool>()).prop_map(|(n, so)| Op::Session(n, so)),
        1 => session().prop_map(Op::Note),
        2 => (0_u64..4).prop_map(Op::Applied),
        2 => (0_u64..4).prop_map(Op::Committed),
    ]
}

type Facts = (BTreeSet<(u64, u16)>, BTreeSet<(u64, &'static str)>, BTreeSet<u64>);

/// What a record says, said to a state.
fn tell((ids, filters, sessions): &mut Facts, op: &Op) {
    fn put<K: Ord>(set: &mut BTreeSet<K>, key: K, so: bool) {
        if so {
            set.insert(key);
        } else {
            set.remove(&key);
        }
    }
    match *op {
        Op::Open(n, id, so) => put(ids, (n, id), so),
        Op::Filter(n, filter, so) => put(filters, (n, filter), so),
        Op::Session(n, so) => put(sessions, n, so),
        Op::Note(_) | Op::Applied(_) | Op::Committed(_) => {}
    }
}

fn hand_over(overlay: &mut Overlay, op: &Op, at: Handed) -> Option<u64> {
    match *op {
        Op::Open(n, i, true) => overlay.opened(session(n), id(i), at),
        Op::Open(n, i, false) => overlay.released(session(n), id(i), at),
        Op::Filter(n, filter, true) => overlay.subscribed(session(n), filter, at),
        Op::Filter(n, filter, false) => overlay.unsubscribed(session(n), filter, at),
        Op::Session(n, true) => overlay.began(session(n), at),
        Op::Session(n, false) => overlay.ended(session(n), at),
        Op::Note(n) => overlay.noted(session(n), at),
        Op::Applied(_) | Op::Committed(_) => return None,
    }
    match *op {
        Op::Open(n, ..) | Op::Filter(n, ..) | Op::Session(n, _) | Op::Note(n) => Some(n),
        Op::Applied(_) | Op::Committed(_) => None,
    }
}

proptest! {
    /// State plus overlay is at all times the state that all records handed over will make.
    #[test]
    fn state_and_overlay_say_what_all_records_will(ops in prop::collection::vec(ops(), 1..80)) {
        let mut overlay = Overlay::new();
        let (mut state, mut future) = (Facts::default(), Facts::default());
        let (mut records, mut last) = (Vec::new(), BTreeMap::new());
        let (mut applied, mut committed) = (0, 0);
        for op in &ops {
            let at = records.len() as u64 + 1;
            if let Some(n) = hand_over(&mut overlay, op, handed(at)) {
                tell(&mut future, op);
                records.push(op);
                last.insert(n, at);
            }
            let end = records.len() as u64;
            match op {
                Op::Applied(more) => {
                    let before = applied;
                    applied = end.min(applied + more);
                    let told = usize::try_from(before).unwrap()..usize::try_from(applied).unwrap();
                    records[told].iter().for_each(|op| tell(&mut state, op));
                    overlay.seen_applied(handed(applied));
                }
                Op::Committed(more) => {
                    committed = end.min(committed + more);
                    overlay.seen_committed(handed(committed));
                }
                _ => {}
            }
            for n in 1..4 {
                for i in 1..4 {
                    let open = overlay.is_open(session(n), id(i), state.0.contains(&(n, i)));
                    prop_assert_eq!(open, future.0.contains(&(n, i)));
                }
                for filter in ["a", "b", "+"] {
                    let in_state = state.1.contains(&(n, filter));
                    let has = overlay.has_filter(session(n), filter, in_state);
                    prop_assert_eq!(has, future.1.contains(&(n, filter)));
                }
                let exists = overlay.exists(session(n), state.2.contains(&n));
                prop_assert_eq!(exists, future.2.contains(&n));
                let wanted = last.get(&n).copied().filter(|last| *last > committed);
                prop_assert_eq!(overlay.last_record(session(n)).map(Handed::get), wanted);
            }
            prop_assert!(overlay.is_empty() || applied < end || committed < end);
        }
    }
}
