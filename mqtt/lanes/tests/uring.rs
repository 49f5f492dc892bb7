//! Lanes over `io_uring`: all tests over sockets once more, and what is to be seen here only.
//! Where the system has no `io_uring` they run over epoll, and say so.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail loudly")]
#[path = "sockets.rs"]
mod sockets;

use std::{
    io::{ErrorKind, Read, Write},
    net::Shutdown,
    os::unix::net::UnixStream,
    thread,
    time::Duration,
};

use rustix::{
    net::sockopt::set_socket_linger,
    process::{Resource, Rlimit, getrlimit, setrlimit},
};
use sockets::wire::{PATIENCE, Told, assert_echo, pattern, refuse, server, server_over};
use zzq_lanes::{BindOptions, DriverKind};

/// More than there are buffers and slots, all in one turn or a few.
#[test]
fn many_connections_at_once_are_served_in_any_case() {
    let files = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: files.maximum, ..files }).unwrap();
    let server = server(1, false, BindOptions::default());
    let mut clients: Vec<_> = (0..700).map(|_| server.connect()).collect();
    for round in 0..3 {
        for (n, client) in clients.iter_mut().enumerate() {
            client.write_all(format!("client {n} in round {round}").as_bytes()).unwrap();
        }
        for (n, client) in clients.iter_mut().enumerate() {
            let expected = format!("client {n} in round {round}");
            let mut back = vec![0; expected.len()];
            client.read_exact(&mut back).unwrap();
            assert_eq!(back, expected.as_bytes());
        }
    }
}

#[test]
fn messages_around_the_size_of_a_buffer_come_back() {
    let server = server(1, false, BindOptions::default());
    let mut client = server.connect();
    for size in (1..40).chain(2030..2070).chain(4080..4110).chain([65_535, 65_536, 65_537]) {
        assert_echo(&mut client, &pattern(size));
    }
}

/// Clients that go in the middle of what they are sent, by a reset or an end.
#[test]
fn who_goes_during_a_write_takes_nobody_along() {
    let server = server(1, false, BindOptions::default());
    let mut stays = server.connect();
    thread::scope(|scope| {
        for n in 0..40 {
            let stream = server.connect();
            scope.spawn(move || {
                // Nothing of it is read, so the lane is in the middle of the answer.
                stream.set_nonblocking(true).unwrap();
                while (&stream).write(&pattern(64 << 10)).is_ok() {}
                if n % 2 == 0 {
                    set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
                } else {
                    stream.shutdown(Shutdown::Write).unwrap();
                }
            });
        }
        for _ in 0..20 {
            assert_echo(&mut stays, &pattern(3000));
        }
    });
    let closed = std::iter::repeat_with(|| server.hear())
        .filter(|told| matches!(told, Told::Closed(_)))
        .take(40);
    assert_eq!(closed.count(), 40);
    assert_echo(&mut stays, b"served on");
}

/// What a container, a limit or an old kernel answers, to each of the system calls.
#[test]
fn where_the_system_refuses_io_uring_lanes_use_epoll() {
    let cases = [
        (libc::SYS_io_uring_setup, libc::EPERM),
        (libc::SYS_io_uring_setup, libc::ENOSYS),
        (libc::SYS_io_uring_setup, libc::ENOMEM),
        (libc::SYS_io_uring_setup, libc::EINVAL),
        (libc::SYS_io_uring_register, libc::EPERM),
        (libc::SYS_io_uring_enter, libc::EPERM),
    ];
    for (call, error) in cases {
        let confined = || {
            if !refuse(call, error) {
                return;
            }
            let server = server_over(DriverKind::Uring, 2, false, BindOptions::default());
            assert_eq!(server.lanes.driver(), DriverKind::Epoll, "call {call} gave {error}");
            assert_echo(&mut server.connect(), b"by epoll");
            server.context.shutdown(PATIENCE);
        };
        thread::scope(|scope| scope.spawn(confined).join().unwrap());
    }
}

/// The kernel tells every thread that used a ring when it takes the ring apart, which breaks off a
/// read with a limit of time.
#[test]
fn the_end_of_a_ring_disturbs_no_read_of_who_made_it() {
    let (reader, _writer) = UnixStream::pair().unwrap();
    reader.set_read_timeout(Some(Duration::from_millis(40))).unwrap();
    for round in 0..20 {
        drop(server(1, false, BindOptions::default()));
        let error = (&reader).read(&mut [0]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WouldBlock, "in round {round}: {error}");
    }
}
