//! What lanes over epoll do when a system call fails, whatever the error: those that happen by
//! themselves once in years are brought about by filters. Each has its outcome, and none a panic.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail loudly")]
mod wire;

use std::{
    io::{ErrorKind, Read, Write},
    sync::mpsc::channel,
    thread,
};

use wire::{PATIENCE, Told, Wire, refuse, server_over};
use zzq_lanes::{BindOptions, CloseReason, Context, DriverKind, LaneIndex};

/// A filter stays with its thread.
fn in_a_thread(what: impl FnOnce() + Send) {
    thread::scope(|scope| scope.spawn(what).join().unwrap());
}

/// Reading or answering fails: the connection ends with that error, and the lane goes on.
#[test]
fn a_failed_read_or_write_ends_its_connection_alone() {
    let cases = [
        (libc::SYS_read, libc::ECONNRESET, ErrorKind::ConnectionReset),
        (libc::SYS_read, libc::ETIMEDOUT, ErrorKind::TimedOut),
        (libc::SYS_read, libc::EHOSTUNREACH, ErrorKind::HostUnreachable),
        (libc::SYS_read, libc::ENOMEM, ErrorKind::OutOfMemory),
        (libc::SYS_sendto, libc::EPIPE, ErrorKind::BrokenPipe),
        (libc::SYS_sendto, libc::ECONNRESET, ErrorKind::ConnectionReset),
        (libc::SYS_sendto, libc::ENETUNREACH, ErrorKind::NetworkUnreachable),
        (libc::SYS_sendto, libc::ENOMEM, ErrorKind::OutOfMemory),
    ];
    for (call, error, kind) in cases {
        let (give, server) = channel();
        let (seen, go_on) = channel::<()>();
        thread::scope(|scope| {
            scope.spawn(move || {
                let refused = refuse(call, error);
                let server = server_over(DriverKind::Epoll, 1, false, BindOptions::default());
                give.send(refused.then_some(server)).unwrap();
                // The client is on the other thread, which has no filter.
                let _ = go_on.recv_timeout(PATIENCE);
            });
            let Some(server) = server.recv_timeout(PATIENCE).unwrap() else { return };
            for _ in 0..2 {
                let mut client = server.connect();
                client.write_all(b"x").unwrap();
                let closed = Told::Closed(CloseReason::Failed(kind));
                assert_eq!([server.hear(), server.hear()], [Told::Accepted(LaneIndex(0)), closed]);
                // An end or a reset: what was sent may be unread.
                assert!(matches!(client.read(&mut [0]), Ok(0) | Err(_)));
            }
            drop(seen);
        });
    }
}

#[test]
fn lanes_that_cannot_start_say_so() {
    for call in [libc::SYS_eventfd2, libc::SYS_epoll_create1, libc::SYS_epoll_ctl] {
        for error in [libc::EMFILE, libc::ENFILE, libc::ENOMEM] {
            in_a_thread(|| {
                if !refuse(call, error) {
                    return;
                }
                let context = Context::builder().lanes(2).build();
                let started = context.spawn(|_| Ok(Wire::new(channel().0)));
                assert_eq!(started.err().and_then(|why| why.raw_os_error()), Some(error));
            });
        }
    }
}
