//! Connections on their way between lanes: what they have counts where it waits.
#![allow(clippy::panic, clippy::unwrap_used, reason = "helpers of tests fail loudly")]
mod support;

use support::{Echo, ask, frame};
use zzq_lanes::{
    Lane, LaneWaker, Limits,
    driver::{Rest, mem::MemDriver},
    group,
};

/// More than the way between two lanes has places for.
const MANY: usize = 400;

/// Turns until the lane would wait.
fn settle(lane: &mut Lane<Echo, MemDriver>) {
    for _ in 0..10_000 {
        lane.turn();
        if lane.rest() != Rest::Now && !lane.driver().has_events() {
            return;
        }
    }
    panic!("the lane never comes to rest");
}

#[test]
fn what_waits_for_a_place_on_the_way_counts_and_arrives() {
    for input_strangers in [None, Some(1 << 20)] {
        let wakers = [LaneWaker::flag_only(), LaneWaker::flag_only()];
        let limits = Limits { input_strangers, ..Limits::default() };
        let parts = group(&wakers, limits).into_iter();
        let mut lanes: Vec<_> =
            parts.map(|parts| Lane::new(parts, Echo::default(), MemDriver::default())).collect();
        let peers: Vec<_> = (0..MANY).map(|_| lanes[0].driver_mut().connect()).collect();
        let said = [frame(b"before"), frame(&[ask::MOVE])].concat();
        let (begin, rest) = (&frame(&[7; 900])[..300], &frame(&[7; 900])[300..]);
        settle(&mut lanes[0]);
        for peer in &peers {
            peer.send(&[&said, begin].concat());
        }
        settle(&mut lanes[0]);
        let held = lanes[0].buffered();
        assert!(held.input_held > 300 && held.output_held > said.len(), "{held:?}");
        for _ in 0..10 {
            settle(&mut lanes[1]);
            settle(&mut lanes[0]);
        }
        for peer in &peers {
            peer.send(rest);
        }
        for lane in [0, 1, 0] {
            settle(&mut lanes[lane]);
        }
        let wanted = [frame(b"before"), frame(&[7; 900])].concat();
        assert!(peers.iter().all(|peer| peer.receive() == wanted));
        for lane in &mut lanes {
            let held = lane.buffered();
            assert_eq!((held.input_held, held.output_held), (0, 0));
        }
    }
}

/// What was under way to a lane that rests was bounded by the number of connections alone.
#[test]
fn what_is_under_way_is_bounded_by_its_memory_and_the_rest_counts() {
    const SHARE: usize = 64 << 10;
    const EACH: usize = 20 << 10;
    const ALL: usize = 40;
    let wakers = [LaneWaker::flag_only(), LaneWaker::flag_only()];
    let limits = Limits { ring_bytes: SHARE, ..Limits::default() };
    let parts = group(&wakers, limits).into_iter();
    let mut lanes: Vec<_> =
        parts.map(|parts| Lane::new(parts, Echo::default(), MemDriver::default())).collect();
    let peers: Vec<_> = (0..ALL).map(|_| lanes[0].driver_mut().connect()).collect();
    settle(&mut lanes[0]);
    let whole = frame(&vec![7; EACH]);
    let (begin, rest) = whole.split_at(EACH - 1);
    for peer in &peers {
        peer.send(&[&frame(&[ask::MOVE]), begin].concat());
    }
    settle(&mut lanes[0]);
    // Every other one was accepted here.
    let held = lanes[0].buffered().input_held;
    assert!(held >= ALL / 2 * EACH - SHARE, "{held}");
    for lane in [1, 0].repeat(ALL) {
        settle(&mut lanes[lane]);
    }
    for peer in &peers {
        peer.send(rest);
    }
    for lane in [0, 1] {
        settle(&mut lanes[lane]);
    }
    assert!(peers.iter().all(|peer| peer.receive() == whole));
    assert!(lanes.iter_mut().all(|lane| lane.buffered().input_held == 0));
}

/// What has little with it took the room again and again that one which has more waited for.
#[test]
fn what_has_little_with_it_overtakes_nothing_that_waits() {
    let wakers = [LaneWaker::flag_only(), LaneWaker::flag_only()];
    let limits = Limits { ring_bytes: 32 << 10, ..Limits::default() };
    let parts = group(&wakers, limits).into_iter();
    let mut lanes: Vec<_> =
        parts.map(|parts| Lane::new(parts, Echo::default(), MemDriver::default())).collect();
    let peers: Vec<_> = (0..6).map(|_| lanes[0].driver_mut().connect()).collect();
    for lane in [0, 1, 0] {
        settle(&mut lanes[lane]);
    }
    // Every other one was accepted here.
    let peers: Vec<_> = peers.iter().step_by(2).collect();
    for (peer, length) in peers.iter().zip([5000, 50_000, 5000]) {
        peer.send(&[frame(&[ask::MOVE]), frame(&vec![7; length])].concat());
        settle(&mut lanes[0]);
    }
    let mut came = Vec::new();
    for _ in &peers {
        settle(&mut lanes[1]);
        let echoed = peers.iter().enumerate().filter(|(_, peer)| !peer.receive().is_empty());
        came.push(echoed.map(|(at, _)| at).collect::<Vec<_>>());
        settle(&mut lanes[0]);
    }
    assert_eq!(came, [[0], [1], [2]]);
}
