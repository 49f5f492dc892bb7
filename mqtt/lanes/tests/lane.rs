//! A lane over memory: every cut of the stream, every partial write, every order of ends.
#![allow(clippy::panic, clippy::unwrap_used, reason = "helpers of tests fail loudly")]
mod support;

use std::{io::ErrorKind, time::Duration};

use proptest::prelude::*;
use support::{Echo, Told, ask, frame};
use zzq_lanes::{
    Close, CloseReason, Lane, LaneIndex, LaneWaker, Limits, Millis, TimerSlot,
    driver::{
        Driver, Event, Ready, Rest,
        mem::{MemDriver, MemPeer},
    },
    group,
};

type TestLane = Lane<Echo, MemDriver>;

fn lanes(count: usize, limits: Limits) -> Vec<TestLane> {
    let wakers: Vec<_> = (0..count).map(|_| LaneWaker::flag_only()).collect();
    let parts = group(&wakers, limits).into_iter();
    parts.map(|parts| Lane::new(parts, Echo::default(), MemDriver::default())).collect()
}

fn lane_with(limits: Limits) -> (TestLane, MemPeer) {
    let mut lane = lanes(1, limits).remove(0);
    let peer = lane.driver_mut().connect();
    settle(&mut lane);
    (lane, peer)
}

fn lane() -> (TestLane, MemPeer) {
    lane_with(Limits::default())
}

/// Turns until the lane would wait.
fn settle(lane: &mut TestLane) {
    for _ in 0..100_000 {
        lane.turn();
        if lane.rest() != Rest::Now && !lane.driver().has_events() {
            return;
        }
    }
    panic!("the lane never comes to rest");
}

fn later(lane: &mut TestLane, millis: u64) {
    let now = lane.driver_mut().now();
    lane.driver_mut().set_now(now + Duration::from_millis(millis));
    settle(lane);
}

fn settle_all(lanes: &mut [TestLane]) {
    for lane in lanes {
        settle(lane);
    }
}

/// Nothing is held for anybody.
fn assert_idle(lane: &mut TestLane) {
    let totals = lane.buffered();
    assert_eq!((totals.input, totals.output), (0, 0));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Any frames, in any cut, with any partial writes: the same bytes come back.
    #[test]
    fn the_same_bytes_come_back_however_the_stream_is_cut(
        sizes in prop::collection::vec(
            prop_oneof![4 => 2usize..40, 2 => 3000usize..6000, 1 => 20_000usize..65_535], 1..12,
        ),
        cuts in prop::collection::vec(
            prop_oneof![3 => 1usize..5, 2 => 1usize..2000, 1 => 10_000usize..90_000], 1..20,
        ),
        write_limit in prop_oneof![1usize..50, 1000usize..100_000],
        window in prop_oneof![200usize..3000, Just(1 << 20)],
    ) {
        let (mut lane, peer) = lane();
        peer.set_write_limit(write_limit.max(window / 16));
        let stream: Vec<u8> = sizes.iter().enumerate().flat_map(|(n, size)| {
            frame(&vec![u8::try_from(n).unwrap(); *size])
        }).collect();
        let (mut rest, mut cuts, mut back) = (&stream[..], cuts.iter().cycle(), Vec::new());
        while !rest.is_empty() {
            let (chunk, more) = rest.split_at(rest.len().min(*cuts.next().unwrap()));
            rest = more;
            peer.send(chunk);
            lane.turn();
            peer.set_window(window);
            back.extend(peer.receive());
        }
        settle(&mut lane);
        while back.len() < stream.len() {
            peer.set_window(window);
            settle(&mut lane);
            let more = peer.receive();
            prop_assert!(!more.is_empty(), "stuck at {} of {}", back.len(), stream.len());
            back.extend(more);
        }
        prop_assert_eq!(back, stream);
        assert_idle(&mut lane);
        prop_assert_eq!(lane.handler().told().len(), sizes.len() + 1);
    }
}

#[test]
fn a_large_frame_in_small_chunks_costs_one_call() {
    let (mut lane, peer) = lane();
    let stream = frame(&vec![7; 60_000]);
    for chunk in stream.chunks(100) {
        peer.send(chunk);
        settle(&mut lane);
    }
    assert_eq!(lane.handler().told(), [Told::Accepted, Told::Frame(60_000)]);
    assert_eq!(peer.receive(), stream);
}

#[test]
fn one_that_floods_does_not_keep_another_waiting() {
    let (mut lane, flood) = lane();
    for _ in 0..50 {
        flood.send(&frame(&vec![1; 60_000]));
    }
    let quiet = lane.driver_mut().connect();
    quiet.send(&frame(b"hi"));
    lane.turn();
    lane.turn();
    assert_eq!(quiet.receive(), frame(b"hi"));
    assert!(flood.unread() >= 48 * 60_002, "{} unread", flood.unread());
}

#[test]
fn reads_of_one_turn_are_bounded_and_everyone_has_a_turn() {
    let mut lane = lanes(1, Limits { reads_per_turn: 3, ..Limits::default() }).remove(0);
    let peers: Vec<_> = (0..10).map(|_| lane.driver_mut().connect()).collect();
    settle(&mut lane);
    for peer in &peers {
        peer.send(&frame(b"x!"));
    }
    for turn in 1..=4 {
        lane.turn();
        let served = peers.iter().filter(|peer| peer.unread() == 0).count();
        assert_eq!(served, (turn * 3).min(10));
    }
}

/// What was kept of it is offered to nobody.
#[test]
fn a_paused_connection_that_is_closed_lets_its_lane_rest() {
    let (mut lane, peer) = lane();
    lane.handler_mut().pause_after = Some(0);
    peer.send(&frame(b"kept"));
    settle(&mut lane);
    let conn = lane.handler().told[0].0;
    lane.with_io(|_, io| io.close(conn, Close::AfterFlush));
    settle(&mut lane);
    assert!(peer.is_ended() && !peer.is_closed(), "it waits for its peer's end");
    assert_idle(&mut lane);
}

#[test]
fn a_paused_connection_is_not_read_and_loses_nothing() {
    let (mut lane, peer) = lane();
    lane.handler_mut().pause_after = Some(1);
    let stream: Vec<u8> = (2..7).flat_map(|n| frame(&vec![9; n])).collect();
    peer.send(&stream);
    peer.send(&frame(b"behind"));
    for n in 2..6 {
        settle(&mut lane);
        assert_eq!(lane.handler().told().last(), Some(&Told::Frame(n)));
        assert_eq!(peer.unread(), 8, "paused: the second chunk stays where it is");
        assert!(lane.buffered().input > 0);
        let conn = lane.handler().told[0].0;
        lane.with_io(|_, io| io.resume(conn));
    }
    settle(&mut lane);
    assert_eq!(peer.receive(), [stream, frame(b"behind")].concat());
    assert_idle(&mut lane);
}

#[test]
fn a_reset_is_noticed_while_paused() {
    let (mut lane, peer) = lane();
    let conn = lane.handler().told[0].0;
    lane.with_io(|_, io| io.pause(conn));
    peer.finish();
    settle(&mut lane);
    assert_eq!(lane.handler().told(), [Told::Accepted], "its end waits behind its input");
    peer.reset();
    settle(&mut lane);
    let reset = Told::Closed(CloseReason::Failed(ErrorKind::ConnectionReset));
    assert_eq!(lane.handler().told(), [Told::Accepted, reset]);
}

#[test]
fn a_blocked_peer_stops_nobody_and_gets_everything_later() {
    let (mut lane, slow) = lane();
    slow.set_window(1000);
    let stream: Vec<u8> = (0..100).flat_map(|n| frame(&vec![n; 60_000])).collect();
    slow.send(&stream);
    settle(&mut lane);
    let other = lane.driver_mut().connect();
    other.send(&frame(b"ok"));
    settle(&mut lane);
    assert_eq!(other.receive(), frame(b"ok"));
    assert_eq!(lane.buffered().output, stream.len() - 1000);
    slow.set_window(usize::MAX);
    settle(&mut lane);
    assert_eq!(slow.receive(), stream);
    assert_idle(&mut lane);
}

#[test]
fn drained_is_told_once_when_little_is_held() {
    let (mut lane, peer) = lane();
    peer.set_window(10);
    peer.send(&[frame(&vec![1; 30_000]), frame(&[ask::NOTIFY])].concat());
    settle(&mut lane);
    peer.set_window(5_000);
    settle(&mut lane);
    assert!(!lane.handler().told().contains(&Told::Drained), "25 000 bytes wait");
    peer.set_window(20_000);
    settle(&mut lane);
    assert!(!lane.handler().told().contains(&Told::Drained), "a buffer of 32 KiB is held");
    peer.set_window(usize::MAX);
    settle(&mut lane);
    assert_eq!(lane.handler().told().last(), Some(&Told::Drained));
    settle(&mut lane);
    let drained = lane.handler().told().iter().filter(|told| **told == Told::Drained).count();
    assert_eq!(drained, 1);
}

#[test]
fn close_after_flush_sends_everything_first_and_then_waits_for_the_peers_end() {
    let (mut lane, peer) = lane();
    peer.set_window(100);
    let last = frame(&[3; 9000]);
    peer.send(&[&last[..], &frame(&[ask::CLOSE_AFTER]), &frame(b"ignored")].concat());
    settle(&mut lane);
    assert!(!peer.is_ended());
    assert_eq!(lane.handler().told().last(), Some(&Told::Frame(7)));
    peer.set_window(usize::MAX);
    settle(&mut lane);
    assert_eq!(peer.receive(), last, "nothing after the close is answered");
    assert!(peer.is_ended() && !peer.is_closed());
    assert_eq!(lane.handler().told().last(), Some(&Told::Closed(CloseReason::Local)));
    peer.send(b"late bytes");
    peer.finish();
    settle(&mut lane);
    assert!(peer.is_closed());
    assert_eq!(lane.counters().dropped_input, 10);
    let told = lane.handler().told();
    assert_eq!(told.iter().filter(|told| matches!(told, Told::Closed(_))).count(), 1);
}

#[test]
fn a_peer_that_takes_nothing_is_cut_after_the_linger_time() {
    let (mut lane, peer) = lane();
    peer.set_window(0);
    peer.send(&[frame(&[3; 500]), frame(&[ask::CLOSE_AFTER])].concat());
    settle(&mut lane);
    later(&mut lane, 1999);
    assert!(!peer.is_closed());
    later(&mut lane, 1);
    assert!(peer.is_closed());
    assert_eq!(lane.handler().told().last(), Some(&Told::Closed(CloseReason::LingerExpired)));
    assert_eq!((lane.counters().linger_expired, lane.counters().dropped_output), (1, 502));
    assert_idle(&mut lane);
}

#[test]
fn close_now_drops_and_counts_what_was_queued() {
    let (mut lane, peer) = lane();
    peer.send(&[frame(b"abc"), frame(&[ask::CLOSE_NOW]), frame(b"never")].concat());
    settle(&mut lane);
    assert!(peer.is_closed());
    assert_eq!(peer.receive(), b"");
    assert_eq!(lane.counters().dropped_output, 5);
    assert_eq!(lane.handler().told().last(), Some(&Told::Closed(CloseReason::Local)));
}

#[test]
fn the_answer_to_the_last_bytes_reaches_a_peer_that_ended_its_side() {
    let (mut lane, peer) = lane();
    peer.send(&[frame(b"bye"), b"par".to_vec()].concat());
    peer.finish();
    settle(&mut lane);
    assert_eq!(peer.receive(), frame(b"bye"));
    let local = Told::Closed(CloseReason::Local);
    assert_eq!(lane.handler().told(), [Told::Accepted, Told::Frame(3), Told::Ended, local]);
    assert!(peer.is_closed());
    assert_eq!(lane.counters().dropped_input, 3);
}

#[test]
fn what_a_peer_said_before_it_went_is_read_though_writing_to_it_fails() {
    let (mut lane, peer) = lane();
    peer.send(&frame(b"publish"));
    peer.send(&frame(b"goodbye"));
    peer.go();
    settle(&mut lane);
    let gone = Told::Closed(CloseReason::Failed(ErrorKind::BrokenPipe));
    let told = lane.handler().told();
    assert_eq!(told, [Told::Accepted, Told::Frame(7), Told::Frame(7), gone]);
    assert_eq!(lane.counters().dropped_output, 18);
    assert_idle(&mut lane);
}

#[test]
fn a_late_event_of_a_closed_connection_never_reaches_its_successor() {
    let (mut lane, first) = lane();
    let old = lane.handler().told[0].0;
    first.reset();
    settle(&mut lane);
    let second = lane.driver_mut().connect();
    settle(&mut lane);
    let new = lane.handler().told.last().unwrap().0;
    assert_eq!((new.index(), new == old), (old.index(), false));
    let broken = Ready { readable: true, writable: true, hangup: true, broken: true };
    lane.driver_mut().inject(Event::Ready { conn: old, ready: broken });
    lane.with_io(|_, io| {
        assert!(!io.write(old, b"to nobody"));
        io.close(old, Close::Now);
        io.set_timer(old, TimerSlot::A, Millis(1));
    });
    settle(&mut lane);
    assert_eq!(lane.counters().stale_events, 1);
    second.send(&frame(b"hello"));
    settle(&mut lane);
    assert_eq!(second.receive(), frame(b"hello"));
    assert_eq!(lane.handler().told.last().unwrap(), &(new, Told::Frame(5)));
}

#[test]
fn unconsumed_input_is_bounded() {
    let (mut lane, peer) = lane_with(Limits { input_bytes: 50_000, ..Limits::default() });
    peer.send(&frame(&vec![0; 49_000]));
    settle(&mut lane);
    assert_eq!(lane.handler().told().last(), Some(&Told::Frame(49_000)));
    // The length alone is too much: nothing of it need be kept.
    peer.send(&50_001u16.to_be_bytes());
    settle(&mut lane);
    assert_eq!(lane.handler().told().last(), Some(&Told::Closed(CloseReason::InputTooLarge)));
    assert_idle(&mut lane);
}

#[test]
fn a_timer_fires_at_its_deadline_and_a_later_one_replaces_it() {
    let (mut lane, peer) = lane();
    peer.send(&frame(&[ask::TIMER]));
    settle(&mut lane);
    assert_eq!(lane.rest(), Rest::Until(Millis(100)));
    later(&mut lane, 60);
    peer.send(&frame(&[ask::TIMER]));
    settle(&mut lane);
    later(&mut lane, 99);
    assert_ne!(lane.handler().told().last(), Some(&Told::Timer(TimerSlot::A)));
    later(&mut lane, 1);
    assert_eq!(lane.handler().told().last(), Some(&Told::Timer(TimerSlot::A)));
    assert_eq!(lane.rest(), Rest::Forever);
}

#[test]
fn a_timer_set_to_the_past_ends_its_turn_all_the_same() {
    let (mut lane, peer) = lane();
    let conn = lane.handler().told[0].0;
    lane.with_io(|_, io| io.set_timer(conn, TimerSlot::B, Millis(0)));
    lane.turn();
    assert_eq!(lane.rest(), Rest::Until(Millis(1)));
    later(&mut lane, 1);
    assert_eq!(lane.handler().told().last(), Some(&Told::Timer(TimerSlot::B)));
    drop(peer);
}

#[test]
fn the_handler_is_called_again_when_it_said() {
    let (mut lane, _peer) = lane();
    lane.handler_mut().due = Some(Millis(5));
    lane.turn();
    assert_eq!(lane.rest(), Rest::Until(Millis(5)));
    lane.driver_mut().set_now(Millis(5));
    lane.turn();
    assert_eq!(lane.rest(), Rest::Now);
}

#[test]
fn what_comes_behind_the_output_finds_it_sent() {
    let (mut lane, peer) = lane();
    peer.send(&frame(b"first"));
    lane.handler_mut().sent.clear();
    lane.turn();
    assert_eq!(lane.handler().told().last(), Some(&Told::Frame(5)));
    assert_eq!(lane.handler().sent, [7], "its answer has left");
    for (due, due_behind, first) in [(20, 10, 10), (10, 20, 10)] {
        lane.handler_mut().due = Some(Millis(due));
        lane.handler_mut().due_behind = Some(Millis(due_behind));
        lane.turn();
        assert_eq!(lane.rest(), Rest::Until(Millis(first)));
    }
}

#[test]
fn accepted_connections_go_round_the_lanes() {
    let mut lanes = lanes(3, Limits::default());
    let peers: Vec<_> = (0..9).map(|_| lanes[0].driver_mut().connect()).collect();
    settle_all(&mut lanes);
    for lane in &mut lanes {
        assert_eq!(lane.counters().accepted, 3);
    }
    for peer in &peers {
        peer.send(&frame(b"me"));
    }
    settle_all(&mut lanes);
    assert!(peers.iter().all(|peer| peer.receive() == frame(b"me")));
}

#[test]
fn messages_reach_the_other_lane_in_order_and_wake_it_once() {
    let mut lanes = lanes(2, Limits { ring: (16, 4), ..Limits::default() });
    let (a, b) = lanes.split_at_mut(1);
    settle(&mut b[0]);
    let given_back = a[0].with_io(|_, io| {
        (0..20).filter(|n| io.send(LaneIndex(1), *n, zzq_lanes::Class::Bulk).is_err()).count()
    });
    assert_eq!(given_back, 8);
    a[0].with_io(|_, io| io.send(LaneIndex(1), 99, zzq_lanes::Class::Receipt)).unwrap();
    settle(&mut a[0]);
    let woken = a[0].handler().woken;
    settle(&mut b[0]);
    let got: Vec<_> = (0..12).chain([99]).map(|n| (LaneIndex(0), n)).collect();
    assert_eq!(b[0].handler().messages, got);
    assert_eq!(b[0].handler().woken, 1);
    settle(&mut a[0]);
    assert_eq!(a[0].handler().woken, woken + 1, "there is room again");
}

#[test]
fn a_moved_connection_takes_its_unread_input_and_its_output_along() {
    let mut lanes = lanes(2, Limits::default());
    let peer = lanes[0].driver_mut().connect();
    settle(&mut lanes[0]);
    peer.set_window(3);
    let stream = [frame(b"before"), frame(&[ask::MOVE]), frame(b"after"), b"\0".to_vec()].concat();
    peer.send(&stream);
    settle(&mut lanes[0]);
    assert_idle(&mut lanes[0]);
    assert!(!peer.is_closed());
    settle(&mut lanes[1]);
    peer.send(b"\x01z");
    peer.set_window(usize::MAX);
    settle(&mut lanes[1]);
    assert_eq!(peer.receive(), [frame(b"before"), frame(b"after"), frame(b"z")].concat());
    let told = lanes[1].handler().told();
    assert_eq!(told, [Told::Adopted(77), Told::Frame(5), Told::Frame(1)]);
    assert!(!lanes[0].handler().told().iter().any(|told| matches!(told, Told::Closed(_))));
    assert_idle(&mut lanes[1]);
}

#[test]
fn more_moves_than_a_ring_holds_all_arrive() {
    let mut lanes = lanes(2, Limits::default());
    let peers: Vec<_> = (0..600).map(|_| lanes[0].driver_mut().connect()).collect();
    settle_all(&mut lanes);
    for peer in &peers {
        peer.send(&[frame(&[ask::MOVE]), frame(b"here")].concat());
    }
    for _ in 0..20 {
        settle_all(&mut lanes);
    }
    assert!(peers.iter().all(|peer| peer.receive() == frame(b"here")));
    let moved: u64 = lanes.iter().map(|lane| lane.counters().departed).sum();
    assert_eq!(moved, 600);
}

#[test]
fn a_lane_that_stops_sends_what_is_queued_and_ends_at_its_deadline() {
    let (mut lane, quick) = lane();
    let slow = lane.driver_mut().connect();
    settle(&mut lane);
    slow.set_window(0);
    slow.send(&frame(&[1; 100]));
    settle(&mut lane);
    quick.send(&frame(b"last words"));
    lane.turn();
    lane.stop(Duration::from_millis(700));
    lane.stop(Duration::from_millis(500));
    lane.stop(Duration::from_millis(900));
    settle(&mut lane);
    assert_eq!(quick.receive(), frame(b"last words"));
    assert!(quick.is_ended());
    quick.finish();
    assert!(lane.turn(), "one is left");
    lane.driver_mut().set_now(Millis(500));
    assert!(!lane.turn());
    lane.finish();
    assert!(quick.is_closed() && slow.is_closed());
    assert_eq!(lane.handler().told().last(), Some(&Told::Closed(CloseReason::Stopped)));
    assert_eq!(lane.counters().dropped_output, 102);
}
