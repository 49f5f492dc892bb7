//! Lanes over real sockets on the loopback interface.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail loudly")]
pub(crate) mod wire;

use std::{
    io::{ErrorKind, Read, Write},
    net::Shutdown,
    os::fd::AsFd,
    sync::mpsc::channel,
    thread,
    time::Duration,
};

use rustix::{
    event::{EventfdFlags, eventfd},
    net::sockopt::set_socket_linger,
};
use wire::{Told, Wire, assert_echo, pattern, server};
use zzq_lanes::{BindError, BindOptions, CloseReason, Context, LaneIndex};

#[test]
fn two_hundred_connections_are_served_on_two_lanes() {
    let server = server(2, false, BindOptions::default());
    let mut clients: Vec<_> = (0..200).map(|_| server.connect()).collect();
    for _ in 0..3 {
        for (n, client) in clients.iter_mut().enumerate() {
            assert_echo(client, format!("client {n} says hello").as_bytes());
        }
    }
    let accepted: Vec<_> = (0..200).map(|_| server.hear()).collect();
    for lane in 0..2 {
        let there = accepted.iter().filter(|told| **told == Told::Accepted(LaneIndex(lane)));
        assert_eq!(there.count(), 100);
    }
    assert_eq!(server.bound.stats.open(), 200);
}

#[test]
fn large_transfers_go_both_ways_at_once() {
    let server = server(1, false, BindOptions::default());
    let sent = pattern(20 << 20);
    let streams: Vec<_> = (0..3).map(|_| server.connect()).collect();
    thread::scope(|scope| {
        for mut stream in &streams {
            let sent = &sent;
            scope.spawn(move || {
                stream.write_all(sent).unwrap();
                stream.shutdown(Shutdown::Write).unwrap();
            });
            scope.spawn(move || {
                let mut back = Vec::new();
                stream.read_to_end(&mut back).unwrap();
                assert!(back == *sent, "{} of {} bytes came back", back.len(), sent.len());
            });
        }
    });
}

/// The handler asserts the bound on each read.
#[test]
fn a_peer_that_does_not_read_is_held_in_bounded_memory_and_loses_nothing() {
    let server = server(1, false, BindOptions::default());
    let sent = pattern(32 << 20);
    let slow = server.connect();
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut slow = &slow;
            slow.write_all(&sent).unwrap();
            slow.shutdown(Shutdown::Write).unwrap();
        });
        server.hear_of(&Told::Paused);
        assert_echo(&mut server.connect(), b"others are served");
        let (mut slow, mut back) = (&slow, Vec::new());
        slow.read_to_end(&mut back).unwrap();
        assert!(back == sent, "{} of {} bytes came back", back.len(), sent.len());
    });
}

#[test]
fn a_reset_and_an_end_are_told_apart() {
    let server = server(1, false, BindOptions::default());
    let mut client = server.connect();
    assert_echo(&mut client, b"x");
    set_socket_linger(&client, Some(Duration::ZERO)).unwrap();
    drop(client);
    let reset = Told::Closed(CloseReason::Failed(ErrorKind::ConnectionReset));
    assert_eq!([server.hear(), server.hear()], [Told::Accepted(LaneIndex(0)), reset]);
    drop(server.connect());
    assert_eq!(server.hear(), Told::Accepted(LaneIndex(0)));
    assert_eq!(server.hear(), Told::Closed(CloseReason::Ended));
}

/// Nothing is read of it and nothing is owed to it: no other call would tell.
#[test]
fn a_reset_of_a_paused_connection_is_noticed_behind_its_end_too() {
    let server = server(1, true, BindOptions::default());
    for ends in [false, true] {
        let mut client = server.connect();
        client.write_all(b"P").unwrap();
        server.hear_of(&Told::Paused);
        if ends {
            client.shutdown(Shutdown::Write).unwrap();
            // The lane has had a turn behind it.
            assert_echo(&mut server.connect(), b"served");
        }
        set_socket_linger(&client, Some(Duration::ZERO)).unwrap();
        drop(client);
        server.hear_of(&Told::Closed(CloseReason::Failed(ErrorKind::ConnectionReset)));
    }
}

#[test]
fn connections_move_between_lanes_with_what_they_sent_ahead() {
    let server = server(2, true, BindOptions::default());
    let bytes = pattern(300_000);
    // A command is only looked for at the start of a read, so the rest must not look like one.
    let bytes: Vec<u8> = bytes.iter().map(|byte| byte.min(&b'A')).copied().collect();
    thread::scope(|scope| {
        for _ in 0..20 {
            let stream = server.connect();
            let bytes = &bytes;
            scope.spawn(move || {
                let mut writing = &stream;
                thread::scope(|scope| {
                    scope.spawn(|| {
                        writing.write_all(b"M").unwrap();
                        writing.write_all(bytes).unwrap();
                    });
                    let mut back = vec![0; bytes.len()];
                    (&stream).read_exact(&mut back).unwrap();
                    assert!(back == *bytes);
                });
            });
        }
    });
    let told: Vec<_> = std::iter::repeat_with(|| server.hear())
        .filter(|told| matches!(told, Told::Accepted(_) | Told::Adopted(_)))
        .take(40)
        .collect();
    for lane in [LaneIndex(0), LaneIndex(1)] {
        let moved = told.iter().filter(|told| **told == Told::Adopted(lane)).count();
        let came = told.iter().filter(|told| **told == Told::Accepted(LaneIndex(1 - lane.0)));
        assert_eq!(moved, came.count());
    }
}

#[test]
fn more_messages_than_a_ring_holds_arrive_in_order() {
    let server = server(2, true, BindOptions::default());
    let mut client = server.connect();
    client.write_all(b"C").unwrap();
    server.hear_of(&Told::Counted(20_000));
}

#[test]
fn wakes_and_signals_from_outside_reach_a_sleeping_lane() {
    let (tell, told) = channel();
    let signal = eventfd(0, EventfdFlags::CLOEXEC).unwrap();
    let context = Context::builder().lanes(1).driver(wire::driver()).build();
    let mut watch = None;
    let lanes = context
        .spawn(|seat| {
            watch = Some(seat.watch(signal.as_fd())?);
            Ok(Wire { tell_wakes: true, ..Wire::new(tell.clone()) })
        })
        .unwrap();
    let hear = || told.recv_timeout(wire::PATIENCE).unwrap();
    for _ in 0..100 {
        rustix::io::write(&signal, &1u64.to_ne_bytes()).unwrap();
        assert_eq!(hear(), Told::Watched(watch.unwrap()));
        let waker = lanes.wakers().next().unwrap();
        waker.wake();
        assert_eq!(hear(), Told::Woken);
        // As the kernel does when a write to disk completes.
        rustix::io::write(waker.eventfd().unwrap(), &1u64.to_ne_bytes()).unwrap();
        assert_eq!(hear(), Told::Woken);
    }
}

#[test]
fn a_listener_at_its_limit_closes_what_comes_until_there_is_room() {
    let server = server(1, false, BindOptions { max_connections: 2, ..BindOptions::default() });
    let mut inside: Vec<_> = (0..2).map(|_| server.connect()).collect();
    for client in &mut inside {
        assert_echo(client, b"in");
    }
    assert_eq!(server.connect().read(&mut [0]).unwrap(), 0);
    assert_eq!((server.bound.stats.open(), server.bound.stats.refused()), (2, 1));
    drop(inside.pop());
    server.hear_of(&Told::Closed(CloseReason::Ended));
    assert_echo(&mut server.connect(), b"in again");
}

#[test]
fn an_address_at_its_limit_is_turned_away_until_it_has_room() {
    let how = BindOptions { max_connections_each: 1, ..BindOptions::default() };
    let server = server(1, false, how);
    let mut inside = server.connect();
    assert_echo(&mut inside, b"in");
    assert_eq!(server.connect().read(&mut [0]).unwrap(), 0);
    assert_eq!((server.bound.stats.open(), server.bound.stats.refused_address()), (1, 1));
    drop(inside);
    server.hear_of(&Told::Closed(CloseReason::Ended));
    assert_echo(&mut server.connect(), b"in again");
}

#[test]
fn an_endpoint_in_use_is_refused_by_name_and_free_after_unbind() {
    let server = server(2, false, BindOptions::default());
    let endpoint = server.bound.endpoint.to_string();
    let bind = || server.lanes.bind(&endpoint, BindOptions::default()).wait();
    let error = bind().unwrap_err();
    assert!(
        matches!(&error, BindError::Bind { source, .. } if source.kind() == ErrorKind::AddrInUse)
    );
    assert!(error.to_string().contains(&endpoint), "{error}");
    let mut client = server.connect();
    assert_echo(&mut client, b"before");
    server.lanes.unbind(server.bound.id).wait();
    assert_echo(&mut client, b"connected clients stay");
    drop(client);
    assert_eq!(bind().unwrap().addr, server.bound.addr);
}

#[test]
fn a_stop_sends_what_is_queued_and_joins_the_lanes() {
    let server = server(2, false, BindOptions::default());
    let mut clients: Vec<_> = (0..10).map(|_| server.connect()).collect();
    for client in &mut clients {
        assert_echo(client, b"there");
    }
    let stopped = server.lanes.stop(wire::PATIENCE);
    for mut client in clients {
        let mut rest = Vec::new();
        client.read_to_end(&mut rest).unwrap();
        assert_eq!(rest, b"");
    }
    stopped.wait();
    server.context.shutdown(Duration::ZERO);
    assert!(std::net::TcpStream::connect(server.bound.addr).is_err());
    let bound = server.lanes.bind("tcp://127.0.0.1:0", BindOptions::default()).wait();
    assert!(matches!(bound, Err(BindError::Stopped)));
    server.lanes.stop(Duration::ZERO).wait();
}

#[test]
fn the_last_context_takes_its_lanes_along() {
    let server = server(1, false, BindOptions::default());
    let mut client = server.connect();
    assert_echo(&mut client, b"there");
    drop(server.context);
    assert_eq!(client.read(&mut [0]).unwrap(), 0);
}
