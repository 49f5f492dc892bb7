//! Who of a group is picked, and how turns are kept.

use super::super::subs::Terms;
use super::*;
use crate::SubNumber;
use zzq_types::SubscribeOptions;

const UP: SessionFlags = SessionFlags::CONNECTED;
const AWAY: SessionFlags = SessionFlags::PERSISTENT;

fn number(slot: usize) -> SessionNumber {
    SessionNumber::new(slot as u64 + 1).unwrap()
}

/// A group of members with these flags, all with QoS 1.
fn group(flags: &[SessionFlags]) -> (Groups, Vec<Head>) {
    let head = |(slot, &flags)| Head { number: number(slot), load: 0, lane: 0, flags };
    let heads: Vec<_> = flags.iter().enumerate().map(head).collect();
    let mut groups = Groups::default();
    let terms = Terms::new(SubscribeOptions::with_qos(QoS::AtLeastOnce), None);
    for slot in 0..u32::try_from(flags.len()).unwrap() {
        groups.put(&heads, "g", Sub { slot, number: SubNumber::new(slot), terms });
    }
    (groups, heads)
}

fn draw_for(strategy: GroupStrategy) -> Draw {
    Draw { strategy, qos: QoS::ExactlyOnce, publisher: None, topic_hash: 0 }
}

fn picks(groups: &mut Groups, heads: &[Head], draw: Draw, count: usize) -> Vec<u32> {
    let mut picked = Vec::new();
    (0..count).for_each(|_| groups.draw(heads, draw, |sub| picked.push(sub.slot)));
    picked
}

#[test]
fn members_take_turns() {
    let (mut groups, heads) = group(&[UP; 3]);
    assert_eq!(
        picks(&mut groups, &heads, draw_for(GroupStrategy::RoundRobin), 7),
        [0, 1, 2, 0, 1, 2, 0]
    );
}

#[test]
fn a_turn_survives_members_that_come_and_go() {
    let draw = draw_for(GroupStrategy::RoundRobin);
    let (mut groups, heads) = group(&[UP; 4]);
    let first = groups.find(&heads, "g", number(0)).unwrap();
    assert_eq!(picks(&mut groups, &heads, draw, 2), [0, 1]);
    assert!(groups.remove(&heads, "g", number(0)));
    assert_eq!(picks(&mut groups, &heads, draw, 1), [2]);
    assert!(groups.put(&heads, "g", first).is_none());
    assert_eq!(picks(&mut groups, &heads, draw, 2), [3, 0]);
}

#[test]
fn connected_members_with_room_come_first_and_offline_ones_last() {
    let over = UP.with(SessionFlags::OVER_HIGH_WATER);
    let full = UP.with(SessionFlags::FULL);
    let draw = draw_for(GroupStrategy::RoundRobin);
    for (flags, wanted) in [
        (&[AWAY, full, over, UP, UP][..], [3, 4, 3]),
        (&[AWAY, full, over, AWAY, over], [2, 4, 2]),
        (&[AWAY, full, AWAY], [1, 1, 1]),
        (&[AWAY.with(SessionFlags::FULL), AWAY, AWAY], [1, 2, 1]),
    ] {
        let (mut groups, heads) = group(flags);
        assert_eq!(picks(&mut groups, &heads, draw, 3), wanted, "{flags:?}");
    }
}

#[test]
fn nobody_is_picked_who_would_lose_the_message() {
    let (mut groups, heads) = group(&[AWAY, SessionFlags::NONE]);
    let draw = draw_for(GroupStrategy::RoundRobin);
    assert_eq!(picks(&mut groups, &heads, draw, 2), [0, 0]);
    let draw = Draw { qos: QoS::AtMostOnce, ..draw };
    assert!(picks(&mut groups, &heads, draw, 2).is_empty());
}

#[test]
fn the_least_loaded_member_is_picked() {
    let (mut groups, mut heads) = group(&[UP, UP, UP, AWAY]);
    heads[0].load = 5;
    heads[1].load = 3;
    heads[2].load = 3;
    assert_eq!(picks(&mut groups, &heads, draw_for(GroupStrategy::LeastInflight), 3), [1, 2, 1]);
}

#[test]
fn a_sticky_group_stays_until_its_member_leaves() {
    let draw = draw_for(GroupStrategy::Sticky);
    let (mut groups, mut heads) = group(&[AWAY, UP, UP]);
    assert_eq!(picks(&mut groups, &heads, draw, 2), [1, 1]);
    heads[1].flags = AWAY;
    assert_eq!(picks(&mut groups, &heads, draw, 2), [2, 2]);
    heads[1].flags = UP;
    assert_eq!(picks(&mut groups, &heads, draw, 1), [2]);
}

#[test]
fn hashes_choose_by_publisher_or_topic_and_spread() {
    let (mut groups, heads) = group(&[UP; 4]);
    let mut chosen = [std::collections::BTreeSet::new(), std::collections::BTreeSet::new()];
    for n in 0..64 {
        let by_client = Draw { publisher: Some(number(n)), ..draw_for(GroupStrategy::HashClient) };
        let topic_hash = u32::try_from(n).unwrap();
        let by_topic = Draw { topic_hash, ..draw_for(GroupStrategy::HashTopic) };
        for (chosen, draw) in chosen.iter_mut().zip([by_client, by_topic]) {
            let twice = picks(&mut groups, &heads, draw, 2);
            assert_eq!(twice[0], twice[1]);
            chosen.insert(twice[0]);
        }
    }
    assert!(chosen.iter().all(|chosen| chosen.len() == 4), "{chosen:?}");
}

#[test]
fn groups_of_one_filter_pick_apart() {
    let (mut groups, heads) = group(&[UP; 2]);
    let member = groups.find(&heads, "g", number(1)).unwrap();
    groups.put(&heads, "f", member);
    let draw = draw_for(GroupStrategy::RoundRobin);
    assert_eq!(picks(&mut groups, &heads, draw, 2), [1, 0, 1, 1]);
    assert_eq!(groups.remove_everywhere(&heads, number(1)), 2);
    assert_eq!(picks(&mut groups, &heads, draw, 1), [0]);
    assert!(groups.remove(&heads, "g", number(0)) && groups.is_empty());
}
