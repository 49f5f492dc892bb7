//! Room for input: who has begun a long packet has room for its end, or waits; short ones pass.
#![allow(clippy::panic, clippy::unwrap_used, reason = "helpers of tests fail loudly")]
#![allow(clippy::redundant_closure_for_method_calls, reason = "the methods have one lifetime each")]
mod support;

use std::time::Duration;

use support::{Echo, Told, frame};
use zzq_lanes::{
    Close, CloseReason, ConnId, Lane, LaneIo, LaneWaker, Limits, Millis,
    driver::{
        Rest,
        mem::{MemDriver, MemPeer},
    },
    group,
};

const LONG: usize = 40_000;
/// What a frame of that length takes.
const BUFFER: usize = 2 + LONG;
const PATIENCE: Duration = Duration::from_secs(30);
/// What is kept of each connection that has no room.
const EACH: usize = 8 << 10;
/// For two of those frames and what is kept of some others, and not for a third.
const TOTAL: usize = 2 * BUFFER + 4 * EACH;

struct World {
    lane: Lane<Echo, MemDriver>,
    now: Millis,
}

impl World {
    fn new(input_held: usize) -> Self {
        Self::with_strangers(input_held, None)
    }

    fn with_strangers(input_held: usize, input_strangers: Option<usize>) -> Self {
        let limits =
            Limits { input_held, input_strangers, input_patience: PATIENCE, ..Limits::default() };
        let parts = group(&[LaneWaker::flag_only()], limits).remove(0);
        Self { lane: Lane::new(parts, Echo::default(), MemDriver::default()), now: Millis(0) }
    }

    /// Turns until the lane would wait.
    fn settle(&mut self) {
        for _ in 0..100_000 {
            self.lane.turn();
            if self.lane.rest() != Rest::Now && !self.lane.driver().has_events() {
                return;
            }
        }
        panic!("the lane never comes to rest");
    }

    fn pass(&mut self, span: Duration) {
        self.now = self.now + span;
        self.lane.driver_mut().set_now(self.now);
        self.settle();
    }

    fn connect(&mut self) -> MemPeer {
        let peer = self.lane.driver_mut().connect();
        self.settle();
        peer
    }

    fn held(&mut self) -> usize {
        self.lane.buffered().input_held
    }

    fn conn(&self, peer: usize) -> ConnId {
        let accepted = self.lane.handler().told.iter().filter(|(_, told)| *told == Told::Accepted);
        accepted.map(|(conn, _)| *conn).nth(peer).unwrap()
    }

    fn waits(&mut self, peer: usize) -> bool {
        let conn = self.conn(peer);
        self.lane.with_io(|_, io| io.waits_for_room(conn))
    }

    /// Asks something of the lane about a peer's connection.
    fn with_io(&mut self, peer: usize, what: impl FnOnce(&mut LaneIo<'_, Echo>, ConnId)) {
        let conn = self.conn(peer);
        self.lane.with_io(|_, io| what(io, conn));
        self.settle();
    }

    fn closed(&self) -> Vec<ConnId> {
        let overdue = Told::Closed(CloseReason::InputOverdue);
        let told = self.lane.handler().told.iter().filter(|(_, told)| *told == overdue);
        told.map(|(conn, _)| *conn).collect()
    }
}

/// The beginning of a long frame, and the rest.
fn halves() -> (Vec<u8>, Vec<u8>) {
    let mut all = frame(&vec![1; LONG]);
    let rest = all.split_off(5000);
    (all, rest)
}

#[test]
fn a_long_packet_that_finds_no_room_waits_until_another_is_done() {
    let mut world = World::new(TOTAL);
    let peers: Vec<MemPeer> = (0..3).map(|_| world.connect()).collect();
    let (begin, rest) = halves();
    for peer in &peers {
        peer.send(&begin);
        world.settle();
    }
    assert_eq!([0, 1, 2].map(|peer| world.waits(peer)), [false, false, true]);
    assert_eq!(world.lane.counters().input_waits, 1);
    peers[2].send(&rest);
    world.settle();
    assert_eq!(peers[2].unread(), rest.len(), "it is not read");
    assert!(world.held() <= TOTAL + EACH, "{}", world.held());
    peers[0].send(&rest);
    world.settle();
    for peer in [0, 2] {
        assert_eq!(peers[peer].receive(), frame(&vec![1; LONG]));
    }
    peers[1].send(&rest);
    world.settle();
    assert_eq!(peers[1].receive(), frame(&vec![1; LONG]));
    assert_eq!(world.held(), 0);
    assert_eq!(world.lane.rest(), Rest::Forever);
}

#[test]
fn those_who_wait_are_served_in_their_order_and_nobody_passes_them() {
    let mut world = World::new(TOTAL);
    let peers: Vec<MemPeer> = (0..5).map(|_| world.connect()).collect();
    let (begin, rest) = halves();
    for peer in &peers[..4] {
        peer.send(&begin);
        world.settle();
    }
    // It would fit now, and stands behind the others all the same.
    let short = frame(&vec![2; 5000]);
    peers[4].send(&short[..2000]);
    world.settle();
    assert_eq!([2, 3, 4].map(|peer| world.waits(peer)), [true; 3]);
    for (done, peer) in peers[..4].iter().enumerate() {
        peer.send(&rest);
        world.settle();
        let waits = [2, 3].map(|peer| world.waits(peer));
        assert_eq!(waits, [0, 1].map(|before| before > done), "behind {done}");
    }
    assert!(!world.waits(4));
    peers[4].send(&short[2000..]);
    world.settle();
    assert_eq!(peers[4].receive(), short);
}

#[test]
fn who_waits_is_served_though_what_has_room_leaves_no_less_behind() {
    let mut world = World::new(60_000);
    let (owner, waits) = (world.connect(), world.connect());
    let (short, long) = (frame(&vec![1; 5000]), frame(&vec![2; 60_000]));
    owner.send(&short[..2000]);
    world.settle();
    waits.send(&long[..5000]);
    world.settle();
    assert_eq!([0, 1].map(|peer| world.waits(peer)), [false, true]);
    owner.send(&[&short[2000..], &long[..20_000]].concat());
    world.settle();
    assert_eq!(owner.receive(), short);
    assert_eq!([0, 1].map(|peer| world.waits(peer)), [true, false], "it is last in line now");
}

#[test]
fn short_packets_pass_while_there_is_no_room() {
    let mut world = World::new(100);
    let owner = world.connect();
    let (begin, rest) = halves();
    owner.send(&begin);
    world.settle();
    let others: Vec<MemPeer> = (0..50).map(|_| world.connect()).collect();
    for other in &others {
        other.send(&frame(&vec![3; 4094])[..3000]);
    }
    world.settle();
    assert!(world.held() <= BUFFER + others.len() * EACH, "{}", world.held());
    for other in &others {
        other.send(&frame(&vec![3; 4094])[3000..]);
        other.send(&frame(b"x").repeat(10_000));
    }
    world.settle();
    for other in &others {
        let wanted = [frame(&vec![3; 4094]), frame(b"x").repeat(10_000)].concat();
        assert!(other.receive() == wanted);
    }
    owner.send(&rest);
    world.settle();
    assert_eq!(owner.receive(), frame(&vec![1; LONG]));
}

#[test]
fn one_packet_has_room_however_little_there_is() {
    let mut world = World::new(1);
    let peers: Vec<MemPeer> = (0..20).map(|_| world.connect()).collect();
    for peer in &peers {
        for chunk in frame(&vec![4; 60_000]).chunks(1000) {
            peer.send(chunk);
        }
    }
    world.settle();
    for peer in &peers {
        assert_eq!(peer.receive(), frame(&vec![4; 60_000]));
    }
    assert_eq!((world.held(), world.lane.counters().input_overdue), (0, 0));
}

#[test]
fn who_keeps_room_for_too_long_ends_once_others_wait_and_no_more_than_they_need() {
    let mut world = World::new(TOTAL);
    let peers: Vec<MemPeer> = (0..3).map(|_| world.connect()).collect();
    let (begin, rest) = halves();
    peers[0].send(&begin);
    world.settle();
    world.pass(Duration::from_secs(1));
    peers[1].send(&begin);
    world.settle();
    world.pass(10 * PATIENCE);
    assert_eq!(world.closed(), [], "nobody waits");
    peers[2].send(&begin);
    peers[2].send(&rest);
    world.settle();
    assert_eq!(world.closed(), [world.conn(0)], "the first, and no other");
    assert_eq!(peers[2].receive(), frame(&vec![1; LONG]));
    peers[1].send(&rest);
    world.settle();
    assert_eq!(peers[1].receive(), frame(&vec![1; LONG]));
    assert_eq!(world.lane.counters().input_overdue, 1);
}

#[test]
fn who_waits_is_served_when_the_patience_of_others_ends() {
    let mut world = World::new(1);
    let (stalled, waits) = (world.connect(), world.connect());
    let (begin, rest) = halves();
    stalled.send(&begin);
    world.settle();
    waits.send(&begin);
    waits.send(&rest);
    world.settle();
    world.pass(PATIENCE.saturating_sub(Duration::from_millis(1)));
    assert!(world.waits(1) && world.closed().is_empty());
    assert_eq!(world.lane.rest(), Rest::Until(Millis(30_000)));
    world.pass(Duration::from_millis(1));
    assert_eq!(world.closed(), [world.conn(0)]);
    assert_eq!(waits.receive(), frame(&vec![1; LONG]));
}

/// One that has room for a packet that has not come whole, and one that waits for it.
fn kept() -> (World, [MemPeer; 2]) {
    let mut world = World::new(1);
    let peers = [world.connect(), world.connect()];
    for peer in &peers {
        peer.send(&halves().0);
        world.settle();
    }
    (world, peers)
}

#[test]
fn who_is_paused_loses_no_patience_and_has_all_of_it_behind_that() {
    let (mut world, peers) = kept();
    world.pass(PATIENCE.saturating_sub(Duration::from_millis(1)));
    world.with_io(0, |io, conn| io.pause(conn));
    world.pass(10 * PATIENCE);
    assert_eq!((world.closed(), world.waits(1)), (vec![], true));
    world.with_io(0, |io, conn| io.resume(conn));
    world.pass(PATIENCE.saturating_sub(Duration::from_millis(1)));
    assert_eq!(world.closed(), []);
    // What is over already cannot end again.
    world.with_io(0, |io, conn| io.resume(conn));
    world.pass(Duration::from_secs(1));
    assert_eq!(world.closed(), [world.conn(0)]);
    peers[1].send(&halves().1);
    world.settle();
    assert_eq!(peers[1].receive(), frame(&vec![1; LONG]));
}

#[test]
fn a_packet_that_has_come_whole_is_not_overdue_while_its_handler_waits() {
    let (mut world, peers) = kept();
    world.lane.handler_mut().pause_after = Some(0);
    peers[0].send(&halves().1);
    world.settle();
    world.pass(10 * PATIENCE);
    assert_eq!((world.closed(), world.waits(1)), (vec![], true));
    world.lane.handler_mut().pause_after = None;
    world.with_io(0, |io, conn| io.resume(conn));
    assert_eq!(peers[0].receive(), frame(&vec![1; LONG]));
    assert!(!world.waits(1));
}

/// It ends for the first client, whatever pauses and resumes it.
fn let_patience_end(world: &mut World, peers: &[MemPeer]) {
    world.pass(PATIENCE.saturating_sub(Duration::from_millis(1)));
    world.with_io(0, |io, conn| {
        io.resume(conn);
        io.pause_for_peers(conn);
    });
    assert_eq!(world.closed(), []);
    world.pass(Duration::from_secs(1));
    assert_eq!(world.closed(), [world.conn(0)]);
    assert!(peers[0].is_ended() && !world.waits(1));
}

#[test]
fn who_is_paused_for_clients_loses_patience_all_the_same() {
    let (mut world, peers) = kept();
    world.with_io(0, |io, conn| io.pause_for_peers(conn));
    let_patience_end(&mut world, &peers);
}

#[test]
fn who_is_paused_for_clients_and_for_something_else_waits_for_clients_still() {
    let (mut world, peers) = kept();
    world.with_io(0, |io, conn| {
        io.pause_for_peers(conn);
        io.pause(conn);
    });
    let_patience_end(&mut world, &peers);
}

#[test]
fn patience_ends_with_each_that_stalls() {
    let mut world = World::new(1);
    let peers: Vec<MemPeer> = (0..4).map(|_| world.connect()).collect();
    let (begin, rest) = halves();
    for peer in &peers {
        peer.send(&begin);
        world.settle();
    }
    peers[3].send(&rest);
    for stalled in 0..3 {
        world.settle();
        world.pass(PATIENCE + Duration::from_secs(1));
        assert_eq!(world.closed().len(), stalled + 1);
    }
    assert_eq!(peers[3].receive(), frame(&vec![1; LONG]));
}

#[test]
fn room_is_given_back_by_whoever_leaves_or_is_paused_and_done() {
    let mut world = World::new(1);
    let peers: Vec<MemPeer> = (0..4).map(|_| world.connect()).collect();
    let (begin, rest) = halves();
    for peer in &peers {
        peer.send(&begin);
        world.settle();
    }
    assert_eq!([1, 2, 3].map(|peer| world.waits(peer)), [true; 3]);
    // One that stands in line, and the one that has room.
    peers[1].reset();
    peers[0].reset();
    world.settle();
    assert_eq!([2, 3].map(|peer| world.waits(peer)), [false, true]);
    peers[2].send(&rest);
    peers[3].send(&rest);
    world.settle();
    assert_eq!(peers[3].receive(), frame(&vec![1; LONG]));
    assert_eq!((world.held(), world.lane.buffered().input), (0, 0));
}

#[test]
fn whoever_leaves_the_line_is_out_of_it_wherever_it_stood() {
    let mut world = World::new(1);
    let peers: Vec<MemPeer> = (0..5).map(|_| world.connect()).collect();
    for peer in &peers {
        peer.send(&halves().0);
        world.settle();
    }
    peers[2].reset();
    peers[4].reset();
    world.settle();
    world.with_io(1, |io, conn| io.close(conn, Close::AfterFlush));
    assert_eq!([0, 1, 2, 3, 4].map(|peer| world.waits(peer)), [false, false, false, true, false]);
    // Nobody waits any more: the one that has room may keep it.
    peers[3].reset();
    world.settle();
    assert_eq!(world.lane.rest(), Rest::Until(Millis(2000)), "but for the one that is closed");
    world.pass(10 * PATIENCE);
    assert_eq!((world.closed(), world.lane.rest()), (vec![], Rest::Forever));
}

#[test]
fn who_hangs_up_in_line_ends_at_once_and_nobody_waits_any_more() {
    for is_late in [true, false] {
        let mut world = World::new(1);
        let peers = [world.connect(), world.connect()];
        peers[0].send(&halves().0);
        world.settle();
        peers[1].send(&halves().0);
        if is_late {
            world.settle();
            assert!(world.waits(1));
        }
        // It has sent more than was read, and less than a packet.
        peers[1].send(&halves().1[1..]);
        peers[1].finish();
        world.settle();
        let conn = world.conn(1);
        let told = world.lane.handler().told.iter().filter(|(id, _)| *id == conn);
        let told: Vec<Told> = told.map(|(_, told)| told.clone()).collect();
        assert_eq!(told, [Told::Accepted, Told::Ended, Told::Closed(CloseReason::Local)]);
        assert!(peers[1].is_closed());
        world.pass(10 * PATIENCE);
        assert_eq!((world.closed(), world.lane.rest()), (vec![], Rest::Forever));
    }
}

#[test]
fn who_hangs_up_behind_all_of_its_packet_waits_for_room() {
    for is_late in [true, false] {
        let mut world = World::new(1);
        let peers = [world.connect(), world.connect()];
        let (begin, rest) = halves();
        peers[0].send(&begin);
        world.settle();
        peers[1].send(&begin);
        peers[1].send(&rest);
        if is_late {
            world.settle();
        }
        peers[1].finish();
        world.settle();
        assert!(world.waits(1));
        peers[0].send(&rest);
        world.settle();
        assert_eq!(peers[1].receive(), frame(&vec![1; LONG]));
        assert!(peers[1].is_closed());
    }
}

#[test]
fn what_waits_whole_for_its_handler_counts() {
    let mut world = World::new(TOTAL);
    world.lane.handler_mut().pause_after = Some(0);
    let paused: Vec<MemPeer> = (0..10).map(|_| world.connect()).collect();
    for peer in &paused {
        peer.send(&frame(&vec![5; LONG]));
        peer.send(&frame(&vec![5; LONG]));
    }
    world.settle();
    // One read brings more than there is room for.
    assert!(world.held() <= TOTAL + (64 << 10) + 10 * EACH, "{}", world.held());
    world.lane.handler_mut().pause_after = None;
    for _ in 0..paused.len() {
        let conns: Vec<ConnId> = (0..paused.len()).map(|peer| world.conn(peer)).collect();
        world.lane.with_io(|_, io| conns.iter().for_each(|conn| io.resume(*conn)));
        world.settle();
    }
    for peer in &paused {
        assert_eq!(peer.receive(), frame(&vec![5; LONG]).repeat(2));
    }
    assert_eq!(world.held(), 0);
}

/// Each of these has room for two long frames, and not for a third.
fn two_parts() -> World {
    World::with_strangers(2 * TOTAL, Some(TOTAL))
}

#[test]
fn strangers_wait_for_each_other_and_others_among_themselves() {
    let mut world = two_parts();
    let peers: Vec<MemPeer> = (0..6).map(|_| world.connect()).collect();
    for peer in 3..6 {
        world.with_io(peer, |io, conn| io.let_in(conn));
    }
    let (begin, rest) = halves();
    for peer in &peers {
        peer.send(&begin);
        world.settle();
    }
    let waits: Vec<bool> = (0..6).map(|peer| world.waits(peer)).collect();
    assert_eq!(waits, [false, false, true, false, false, true]);
    assert!(world.held() <= 2 * TOTAL, "{}", world.held());
    // What one of a kind gives up another of its kind gets.
    for (done, waits) in [(0, [false, true]), (3, [false, false])] {
        peers[done].send(&rest);
        world.settle();
        assert_eq!([2, 5].map(|peer| world.waits(peer)), waits, "behind {done}");
    }
    for peer in [1, 2, 4, 5] {
        peers[peer].send(&rest);
    }
    world.settle();
    assert!(peers.iter().all(|peer| peer.receive() == frame(&vec![1; LONG])));
    assert_eq!(world.held(), 0);
}

#[test]
fn who_is_let_in_takes_along_what_it_has_and_waits_for_what_others_have() {
    let mut world = two_parts();
    let peers: Vec<MemPeer> = (0..4).map(|_| world.connect()).collect();
    let (begin, rest) = halves();
    for peer in &peers {
        peer.send(&begin);
        world.settle();
    }
    let held = world.held();
    assert_eq!([0, 1, 2, 3].map(|peer| world.waits(peer)), [false, false, true, true]);
    world.with_io(3, |io, conn| io.let_in(conn));
    assert_eq!([2, 3].map(|peer| world.waits(peer)), [true, false], "it had to wait there alone");
    world.with_io(0, |io, conn| io.let_in(conn));
    world.with_io(0, |io, conn| io.let_in(conn));
    assert!(!world.waits(2), "there is room for it now");
    assert!(world.held() > held);
    for peer in &peers {
        peer.send(&rest);
    }
    world.settle();
    assert!(peers.iter().all(|peer| peer.receive() == frame(&vec![1; LONG])));
    assert_eq!(world.held(), 0);
}

#[test]
fn each_part_has_room_for_one_however_little_there_is_and_an_end_to_patience() {
    let mut world = World::with_strangers(1, Some(0));
    let peers: Vec<MemPeer> = (0..4).map(|_| world.connect()).collect();
    for peer in 2..4 {
        world.with_io(peer, |io, conn| io.let_in(conn));
    }
    for peer in &peers {
        peer.send(&halves().0);
        world.settle();
    }
    assert_eq!([0, 1, 2, 3].map(|peer| world.waits(peer)), [false, true, false, true]);
    world.pass(PATIENCE);
    let mut closed = world.closed();
    closed.sort_unstable();
    assert_eq!(closed, [world.conn(0), world.conn(2)]);
    assert_eq!([1, 3].map(|peer| world.waits(peer)), [false, false]);
}

/// Its buffer grows to what its packet takes, not to twice that.
#[test]
fn a_connection_is_charged_what_its_packet_takes() {
    let mut world = World::new(1 << 20);
    let peer = world.connect();
    let all = frame(&vec![6; 65_535]);
    for chunk in all[..65_000].chunks(900) {
        peer.send(chunk);
        world.settle();
        assert!(world.held() <= all.len(), "{}", world.held());
    }
    peer.send(&all[65_000..]);
    world.settle();
    assert_eq!(peer.receive(), all);
    assert_eq!(world.held(), 0);
}
