//! Who of a group is picked, and how turns are kept.

use std::collections::BTreeSet;

use proptest::prelude::{prop_assert, prop_oneof, proptest};
use proptest::strategy::Strategy as _;
use zzq_types::SubscribeOptions;

use super::super::subs::Terms;
use super::GroupStrategy::{HashClient, HashTopic, LeastInflight, RoundRobin, Sticky};
use super::*;
use crate::SubNumber;

const UP: SessionFlags = SessionFlags::CONNECTED;
const AWAY: SessionFlags = SessionFlags::PERSISTENT;

fn number(slot: usize) -> SessionNumber {
    SessionNumber::new(slot as u64 + 1).unwrap()
}

/// A group of members with these flags, all with QoS 1.
fn group(strategy: GroupStrategy, flags: &[SessionFlags]) -> (Groups, Vec<Head>) {
    let head = |(slot, &flags)| Head { number: number(slot), since: 0, load: 0, lane: 0, flags };
    let heads: Vec<_> = flags.iter().enumerate().map(head).collect();
    let mut groups = Groups::default();
    let terms = Terms::new(SubscribeOptions::with_qos(QoS::AtLeastOnce), None);
    for slot in 0..u32::try_from(flags.len()).unwrap() {
        let sub = Sub { slot, number: SubNumber::new(slot), terms };
        groups.put(&heads, "g", sub, || (strategy, 0));
    }
    (groups, heads)
}

const DRAW: Draw = Draw { qos: QoS::ExactlyOnce, hashes: None };

fn draw_of(client: u32, topic: u32) -> Draw {
    Draw { hashes: Some(Hashes { client, topic }), ..DRAW }
}

/// Who is picked for messages that are taken.
fn picks(groups: &mut Groups, heads: &mut [Head], draw: Draw, count: usize) -> Vec<u32> {
    let mut picked = Vec::new();
    for _ in 0..count {
        groups.draw(heads, draw, |sub| picked.push(sub.slot));
        groups.taken(heads, draw.qos);
    }
    picked
}

#[test]
fn members_take_turns() {
    let (mut groups, mut heads) = group(RoundRobin, &[UP; 3]);
    assert_eq!(picks(&mut groups, &mut heads, DRAW, 7), [0, 1, 2, 0, 1, 2, 0]);
}

#[test]
fn a_message_that_is_offered_again_uses_up_no_turn() {
    let (mut groups, mut heads) = group(RoundRobin, &[UP; 2]);
    for wanted in [0, 1, 0] {
        groups.draw(&heads, DRAW, |sub| assert_eq!(sub.slot, wanted));
        groups.draw(&heads, DRAW, |sub| assert_eq!(sub.slot, wanted));
        groups.taken(&mut heads, DRAW.qos);
    }
}

#[test]
fn lanes_begin_at_different_members() {
    let mut first = Vec::new();
    for lane in 0..4 {
        let (mut groups, mut heads) = group(RoundRobin, &[UP; 3]);
        groups.renew(&GroupStrategies::default(), lane);
        first.extend(picks(&mut groups, &mut heads, DRAW, 1));
    }
    assert_eq!(first, [0, 1, 2, 0]);
}

#[test]
fn a_turn_survives_members_that_come_and_go() {
    let (mut groups, mut heads) = group(RoundRobin, &[UP; 4]);
    let first = groups.find(&heads, "g", number(0)).unwrap();
    assert_eq!(picks(&mut groups, &mut heads, DRAW, 2), [0, 1]);
    assert!(groups.remove(&heads, "g", number(0)));
    assert_eq!(picks(&mut groups, &mut heads, DRAW, 1), [2]);
    assert!(groups.put(&heads, "g", first, || unreachable!("it is there")).is_none());
    assert_eq!(picks(&mut groups, &mut heads, DRAW, 2), [3, 0]);
}

#[test]
fn connected_members_with_room_come_first_and_offline_ones_last() {
    let over = UP.with(SessionFlags::OVER_HIGH_WATER);
    let full = UP.with(SessionFlags::FULL);
    for (flags, wanted) in [
        (&[AWAY, full, over, UP, UP][..], [3, 4, 3]),
        (&[AWAY, full, over, AWAY, over], [2, 4, 2]),
        (&[AWAY, full, UP.with(SessionFlags::LAGGING)], [2, 2, 2]),
        (&[AWAY, full, AWAY], [1, 1, 1]),
        (&[AWAY.with(SessionFlags::FULL), AWAY, AWAY], [1, 2, 1]),
    ] {
        let (mut groups, mut heads) = group(RoundRobin, flags);
        assert_eq!(picks(&mut groups, &mut heads, DRAW, 3), wanted, "{flags:?}");
    }
}

#[test]
fn nobody_is_picked_who_would_lose_the_message() {
    let (mut groups, mut heads) = group(RoundRobin, &[AWAY, SessionFlags::NONE]);
    assert_eq!(picks(&mut groups, &mut heads, DRAW, 2), [0, 0]);
    let draw = Draw { qos: QoS::AtMostOnce, ..DRAW };
    assert!(picks(&mut groups, &mut heads, draw, 2).is_empty());
}

#[test]
fn who_is_owed_least_is_picked_and_picks_count_until_the_truth_is_told() {
    let (mut groups, mut heads) = group(LeastInflight, &[UP, UP, UP, AWAY]);
    (heads[0].load, heads[1].load, heads[2].load) = (5, 3, 3);
    assert_eq!(picks(&mut groups, &mut heads, DRAW, 5), [1, 2, 1, 2, 0]);
    assert_eq!([0, 1, 2].map(|slot: usize| heads[slot].load), [6, 5, 5]);
    let draw = Draw { qos: QoS::AtMostOnce, ..DRAW };
    assert_eq!(picks(&mut groups, &mut heads, draw, 3), [1, 2, 1], "nothing is owed at QoS 0");
    heads[0].load = 0;
    assert_eq!(picks(&mut groups, &mut heads, DRAW, 1), [0]);
}

#[test]
fn a_sticky_group_stays_until_its_member_leaves() {
    let (mut groups, mut heads) = group(Sticky, &[AWAY, UP, UP]);
    (heads[1].since, heads[2].since) = (7, 5);
    assert_eq!(picks(&mut groups, &mut heads, DRAW, 2), [2, 2]);
    heads[2].flags = AWAY;
    assert_eq!(picks(&mut groups, &mut heads, DRAW, 2), [1, 1]);
    // It comes back, and is not the first any more.
    (heads[2].flags, heads[2].since) = (UP, 9);
    assert_eq!(picks(&mut groups, &mut heads, DRAW, 1), [1]);
}

#[test]
fn hashes_choose_by_publisher_or_topic_and_spread() {
    for (strategy, by_client) in [(HashClient, true), (HashTopic, false)] {
        let (mut groups, mut heads) = group(strategy, &[UP; 4]);
        let mut shares = [0; 4];
        for n in 0..400 {
            let draw = if by_client { draw_of(n, 1) } else { draw_of(1, n) };
            let twice = picks(&mut groups, &mut heads, draw, 2);
            assert_eq!(twice[0], twice[1]);
            shares[twice[0] as usize] += 1;
        }
        assert!(shares.iter().all(|share| (70..130).contains(share)), "{shares:?}");
        // What has left its member goes to all.
        assert_eq!(BTreeSet::from_iter(picks(&mut groups, &mut heads, DRAW, 4)).len(), 4);
    }
}

#[test]
fn groups_of_one_filter_pick_apart() {
    let (mut groups, mut heads) = group(RoundRobin, &[UP; 2]);
    let member = groups.find(&heads, "g", number(1)).unwrap();
    groups.put(&heads, "f", member, || (RoundRobin, 0));
    assert_eq!(picks(&mut groups, &mut heads, DRAW, 2), [1, 0, 1, 1]);
    assert_eq!(groups.remove_everywhere(&heads, number(1)).0, 2);
    assert_eq!(picks(&mut groups, &mut heads, DRAW, 1), [0]);
    assert!(groups.remove(&heads, "g", number(0)) && groups.is_empty());
}

#[test]
fn a_group_chooses_by_its_name_or_as_all_others() {
    let named = [("h".into(), Sticky)].into_iter().collect();
    let strategies = GroupStrategies { named, others: LeastInflight };
    assert_eq!((strategies.of("h"), strategies.of("g")), (Sticky, LeastInflight));
}

/// A lane's copy of a group, and what happens to all copies.
#[derive(Clone, Debug)]
enum Op {
    Join(usize),
    Leave(usize),
    Stands { slot: usize, flags: SessionFlags, since: u32 },
    Publish { lane: usize, client: u32, topic: u32 },
}

fn ops() -> impl proptest::strategy::Strategy<Value = Vec<Op>> {
    let flags = proptest::sample::select(vec![UP, UP, UP, AWAY, SessionFlags::NONE]);
    let slot = || 0..MEMBERS;
    let op = prop_oneof![
        2 => slot().prop_map(Op::Join),
        1 => slot().prop_map(Op::Leave),
        1 => (slot(), flags, 0..3_u32)
            .prop_map(|(slot, flags, since)| Op::Stands { slot, flags, since }),
        6 => (0..LANES, 0..4_u32, 0..4_u32)
            .prop_map(|(lane, client, topic)| Op::Publish { lane, client, topic }),
    ];
    proptest::collection::vec(op, 0..120)
}

const MEMBERS: usize = 5;
const LANES: usize = 3;

proptest! {
    /// Whatever members and messages there were: lanes agree on whom a group sticks to and on whom
    /// a hash names, a change moves nothing between those it does not concern, and turns that a
    /// group takes while nothing changes are even.
    #[test]
    fn strategies_keep_their_word(ops in ops()) {
        for strategy in [RoundRobin, LeastInflight, Sticky, HashClient, HashTopic] {
            let mut lanes: Vec<_> = (0..LANES).map(|lane| Lane::new(strategy, lane)).collect();
            for op in &ops {
                let before: Vec<_> = (0..4).map(|key| lanes[0].named(key)).collect();
                for (at, lane) in lanes.iter_mut().enumerate() {
                    lane.apply(op, at);
                }
                if matches!(strategy, Sticky | HashClient | HashTopic) {
                    for key in 0..4 {
                        let named = lanes[0].named(key);
                        prop_assert!(lanes.iter_mut().all(|lane| lane.named(key) == named));
                        let (Some(before), Some(named)) = (before[key as usize], named) else {
                            continue;
                        };
                        // Who is connected and has not changed loses its key only to who has come.
                        let changed = changed(op);
                        let both = [Some(before), Some(named)];
                        prop_assert!(before == named || both.contains(&changed), "{op:?}");
                    }
                }
            }
            if strategy == RoundRobin {
                let lane = &mut lanes[0];
                let able = lane.ups();
                let mut counts = vec![0; MEMBERS];
                for _ in 0..3 * able {
                    counts[lane.publish(0, 0).unwrap() as usize] += 1;
                }
                prop_assert!(counts.iter().all(|count| *count == 0 || *count == 3), "{counts:?}");
            }
        }
    }
}

struct Lane {
    groups: Groups,
    heads: Vec<Head>,
    strategy: GroupStrategy,
    first_turn: usize,
}

impl Lane {
    fn new(strategy: GroupStrategy, first_turn: usize) -> Self {
        let (_, heads) = group(strategy, &[UP; MEMBERS]);
        Self { groups: Groups::default(), heads, strategy, first_turn }
    }

    fn apply(&mut self, op: &Op, lane: usize) {
        match *op {
            Op::Join(slot) => {
                let terms = Terms::new(SubscribeOptions::with_qos(QoS::AtLeastOnce), None);
                let slot = u32::try_from(slot).unwrap();
                let sub = Sub { slot, number: SubNumber::new(slot), terms };
                let (strategy, turn) = (self.strategy, self.first_turn);
                self.groups.put(&self.heads, "g", sub, || (strategy, turn));
            }
            Op::Leave(slot) => {
                self.groups.remove(&self.heads, "g", number(slot));
            }
            Op::Stands { slot, flags, since } => {
                (self.heads[slot].flags, self.heads[slot].since) = (flags, since);
            }
            Op::Publish { lane: publisher, client, topic } if publisher == lane => {
                let picked = self.publish(client, topic);
                assert_eq!(picked.is_some(), self.ables() > 0);
                if let Some(slot) = picked.filter(|_| self.ups() > 0) {
                    assert!(self.heads[slot as usize].flags.contains(UP));
                }
            }
            Op::Publish { .. } => {}
        }
    }

    fn publish(&mut self, client: u32, topic: u32) -> Option<u32> {
        picks(&mut self.groups, &mut self.heads, draw_of(client, topic), 1).first().copied()
    }

    /// Who would be picked for a key.
    fn named(&mut self, key: u32) -> Option<u32> {
        let mut picked = None;
        self.groups.draw(&self.heads, draw_of(key, key), |sub| picked = Some(sub.slot));
        picked
    }

    fn count(&self, is: impl Fn(SessionFlags) -> bool) -> usize {
        let members = self.groups.members("g").iter();
        members.filter(|sub| is(self.heads[sub.slot as usize].flags)).count()
    }

    fn ups(&self) -> usize {
        self.count(|flags| flags == UP)
    }

    fn ables(&self) -> usize {
        self.count(|flags| flags != SessionFlags::NONE)
    }
}

/// Whom an operation concerns.
fn changed(op: &Op) -> Option<u32> {
    match *op {
        Op::Join(slot) | Op::Leave(slot) | Op::Stands { slot, .. } => u32::try_from(slot).ok(),
        Op::Publish { .. } => None,
    }
}
