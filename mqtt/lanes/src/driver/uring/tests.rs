//! The ring and its driver against real sockets: what the unsafe code rests on, and what a lane is
//! told where epoll would not have to say it.
use std::{
    io::{Read as _, Write as _, pipe},
    net::{Shutdown as End, TcpListener, TcpStream},
    os::{fd::AsFd, unix::net::UnixStream},
    thread,
    time::Duration,
};

use rustix::net::sockopt::set_socket_linger;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule,
};

use super::{
    ring::{Completion, PIECE, Ring, Target, What},
    *,
};

/// A test that waits this long has failed.
const PATIENCE: Duration = Duration::from_mins(1);
const FIRST: ConnId = ConnId { index: 0, generation: 1 };

/// `None`, with a line that says why, where there is no `io_uring`.
fn ring() -> Option<Ring> {
    match UringDriver::probe() {
        Ok(()) => {
            let mut ring = Ring::new().unwrap();
            ring.enable().unwrap();
            Some(ring)
        }
        Err(error) => {
            eprintln!("skipped: no io_uring ({error})");
            None
        }
    }
}

fn driver(waker: &LaneWaker) -> Option<UringDriver> {
    ring()?;
    let mut driver = UringDriver::new(waker, Vec::new(), BusyPoll::Off).unwrap();
    driver.begin().unwrap();
    Some(driver)
}

/// Our end, and the peer's.
fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (ours, _) = listener.accept().unwrap();
    ours.set_nonblocking(true).unwrap();
    (ours, peer)
}

/// The same of a kind that takes no more by itself once it is full.
fn strict_pair() -> (UnixStream, UnixStream) {
    let (ours, peer) = UnixStream::pair().unwrap();
    ours.set_nonblocking(true).unwrap();
    (ours, peer)
}

fn target(socket: &impl AsFd) -> Target<'_> {
    Target { socket: socket.as_fd(), place: None }
}

fn next(ring: &mut Ring) -> Completion {
    loop {
        if let Some(done) = ring.next() {
            return done;
        }
        ring.wait(None).unwrap();
    }
}

/// The next events of the driver's.
fn events(driver: &mut UringDriver, waker: &LaneWaker) -> Vec<Event<OwnedFd>> {
    let mut events = Vec::new();
    let until = driver.now() + PATIENCE;
    while events.is_empty() {
        assert!(driver.now() < until, "nothing happens");
        driver.wait(Rest::Until(until), waker, &mut events);
        waker.take();
    }
    events
}

/// Waits until the connection is told to be ready for this.
fn wait_for(driver: &mut UringDriver, waker: &LaneWaker, what: impl Fn(&Ready) -> bool) {
    loop {
        for event in events(driver, waker) {
            if matches!(event, Event::Ready { conn: FIRST, ready } if what(&ready)) {
                return;
            }
        }
    }
}

fn read_some(driver: &mut UringDriver) -> Vec<u8> {
    let mut into = vec![0; 64 << 10];
    match driver.read(FIRST, &mut into) {
        Read::Bytes(count, _) => into[..count].to_vec(),
        other => panic!("{other:?}"),
    }
}

/// More often than entries have numbers, so that those come round.
#[test]
fn buffers_come_back_as_often_as_they_are_given_back() {
    let Some(mut ring) = ring() else { return };
    let (ours, mut peer) = pair();
    for round in 0..70_000u32 {
        peer.write_all(&round.to_le_bytes()).unwrap();
        ring.receive(target(&ours), round);
        let done = next(&mut ring);
        assert_eq!((done.what, done.key, done.result), (What::Receive, round, Ok(4)));
        let received = done.received.unwrap();
        assert_eq!(ring.bytes(&received), round.to_le_bytes());
        ring.give_back(received);
    }
    assert_eq!(ring.flight(), 0);
}

#[test]
fn without_a_free_buffer_a_receive_says_so_and_takes_nothing() {
    let Some(mut ring) = ring() else { return };
    let (ours, mut peer) = pair();
    let mut held = Vec::new();
    for _ in 0..256 {
        peer.write_all(b"x").unwrap();
        ring.receive(target(&ours), 0);
        held.push(next(&mut ring).received.unwrap());
    }
    peer.write_all(b"y").unwrap();
    ring.receive(target(&ours), 0);
    let done = next(&mut ring);
    assert_eq!(done.result, Err(Errno::NOBUFS));
    assert!(done.received.is_none());
    assert!(held.iter().all(|received| ring.bytes(received) == b"x"), "each has its own");
    held.drain(..).for_each(|received| ring.give_back(received));
    ring.receive(target(&ours), 0);
    let received = next(&mut ring).received.unwrap();
    assert_eq!(ring.bytes(&received), b"y");
}

#[test]
fn slots_are_sent_in_the_order_of_their_submission_and_come_back() {
    let Some(mut ring) = ring() else { return };
    let (ours, mut peer) = pair();
    let mut expected = Vec::new();
    for round in 0..4u8 {
        // All of them are on their way at once.
        for byte in 0..=255u8 {
            let mut slot = ring.slot().unwrap();
            let bytes = [byte ^ round; 10];
            ring.fill(&mut slot, &bytes[..3]);
            ring.fill(&mut slot, &bytes[3..]);
            assert_eq!(ring.unsent(&slot), bytes);
            ring.send(target(&ours), slot, u32::from(byte));
            expected.extend_from_slice(&bytes);
        }
        assert!(ring.slot().is_none());
        ring.submit().unwrap();
        for key in 0..=255 {
            let done = next(&mut ring);
            assert_eq!((done.what, done.key, done.result), (What::Send, key, Ok(10)));
            ring.free(done.slot.unwrap());
        }
    }
    let mut got = vec![0; expected.len()];
    peer.read_exact(&mut got).unwrap();
    assert!(got == expected);
}

#[test]
fn a_send_that_is_not_taken_is_told_at_once_and_keeps_its_bytes() {
    let Some(mut ring) = ring() else { return };
    let (mut ours, _peer) = strict_pair();
    let block = vec![7; 64 << 10];
    while ours.write(&block).is_ok() {}
    let mut slot = ring.slot().unwrap();
    ring.fill(&mut slot, b"later");
    ring.send(target(&ours), slot, 5);
    ring.submit().unwrap();
    let done = ring.next().unwrap();
    assert_eq!(done.result, Err(Errno::AGAIN));
    assert_eq!(ring.unsent(&done.slot.unwrap()), b"later");
    assert_eq!(ring.flight(), 0);
}

#[test]
fn a_wait_comes_behind_what_is_sent_and_is_ended_by_what_comes() {
    let Some(mut ring) = ring() else { return };
    let (ours, mut peer) = pair();
    ring.receive(target(&ours), 1);
    let mut slot = ring.slot().unwrap();
    ring.fill(&mut slot, b"ping");
    ring.send(target(&ours), slot, 2);
    assert!(ring.has_sends());
    ring.submit().unwrap();
    assert!(!ring.has_sends());
    assert_eq!(ring.next().unwrap().key, 2);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut ping = [0; 4];
            peer.read_exact(&mut ping).unwrap();
            peer.write_all(b"pong").unwrap();
        });
        ring.wait(None).unwrap();
    });
    assert_eq!(ring.next().unwrap().key, 1);
    ring.wait(Some(Duration::from_millis(2))).unwrap();
    assert!(ring.next().is_none(), "the time is over, and nothing has come");
}

/// A filled line is handed over, whatever its length.
#[test]
fn more_is_asked_for_than_a_line_holds() {
    let Some(mut ring) = ring() else { return };
    let (ours, mut peer) = pair();
    for key in 0..5000 {
        ring.poll(target(&ours), PollFlags::IN, false, What::Readable, key);
    }
    ring.submit().unwrap();
    peer.write_all(b"x").unwrap();
    let mut told = vec![false; 5000];
    for _ in 0..5000 {
        let done = next(&mut ring);
        assert!(!std::mem::replace(&mut told[done.key as usize], true));
    }
    assert_eq!(ring.flight(), 0);
}

/// The calling thread gets this error from calls that hand over nothing and wait for nothing.
fn refuse_plain_calls(error: i32) -> Result<(), Box<dyn std::error::Error>> {
    let nothing =
        |argument| SeccompCondition::new(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, 0);
    let rule = SeccompRule::new(vec![nothing(1)?, nothing(2)?])?;
    let rules = [(libc::SYS_io_uring_enter, vec![rule])].into_iter().collect();
    let refusal = SeccompAction::Errno(error.cast_unsigned());
    let arch = std::env::consts::ARCH.try_into()?;
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refusal, arch)?;
    let program: BpfProgram = filter.try_into()?;
    Ok(seccompiler::apply_filter(&program)?)
}

/// More has come than there is room to tell, and the call that fetches the rest is refused.
#[test]
fn a_call_that_is_to_be_made_later_loses_nothing_and_holds_nobody_up() {
    const POLLS: u32 = 9000;
    for error in [libc::EAGAIN, libc::EBUSY, libc::EINTR, libc::ETIME] {
        let confined = || {
            let Some(mut ring) = ring() else { return };
            let (ours, mut peer) = pair();
            for key in 0..POLLS {
                ring.poll(target(&ours), PollFlags::IN, false, What::Readable, key);
            }
            ring.submit().unwrap();
            peer.write_all(b"x").unwrap();
            // A call brings little more than is waited for; what came first is not taken.
            for _ in 0..3 {
                ring.call(4096, None).unwrap();
            }
            if !ring.overflows() {
                eprintln!("skipped: this kernel keeps back what there is no room for");
                return;
            }
            if let Err(why) = refuse_plain_calls(error) {
                eprintln!("skipped: no filter for system calls ({why})");
                return;
            }
            let mut told = vec![false; POLLS as usize];
            for _ in 0..POLLS {
                let done = next(&mut ring);
                assert!(!std::mem::replace(&mut told[done.key as usize], true));
            }
            assert_eq!(ring.flight(), 0);
        };
        thread::scope(|scope| scope.spawn(confined).join().unwrap());
    }
}

/// What a place is tried for before sockets get one.
#[test]
fn a_place_that_is_still_held_is_seen() {
    let Some(mut ring) = ring() else { return };
    for held in [true, false] {
        let (reader, writer) = pipe().unwrap();
        let Some(place) = ring.register(7, writer.as_fd()) else {
            eprintln!("skipped: places are let go late");
            return;
        };
        let target = Target { socket: writer.as_fd(), place: Some(place) };
        if held {
            ring.poll(target, PollFlags::empty(), false, What::Broken, 1);
            ring.submit().unwrap();
        }
        assert_eq!(ring.left(place, writer, &reader), !held);
    }
}

/// In flight at its end: what comes later must not be written to memory that was freed.
#[test]
fn a_ring_that_ends_has_nothing_in_flight() {
    let Some(mut ring) = ring() else { return };
    let (ours, mut peer) = pair();
    ring.receive(target(&ours), 1);
    ring.poll(target(&ours), PollFlags::IN, true, What::Door, 2);
    ring.submit().unwrap();
    assert_eq!(ring.flight(), 2);
    drop(ring);
    peer.write_all(b"x").unwrap();
    assert_eq!((&ours).read(&mut [0; 8]).unwrap(), 1, "nobody else has received it");
}

#[test]
fn a_ring_that_another_thread_ends_keeps_its_memory() {
    let (ours, mut peer) = pair();
    let made = thread::scope(|scope| {
        let first = scope.spawn(|| {
            let mut ring = ring()?;
            ring.receive(target(&ours), 1);
            ring.submit().unwrap();
            Some(ring)
        });
        first.join().unwrap()
    });
    let Some(ring) = made else { return };
    drop(ring);
    peer.write_all(b"x").unwrap();
}

#[test]
fn a_socket_is_given_away_with_what_was_received_and_what_was_not_sent() {
    let waker = LaneWaker::with_eventfd().unwrap();
    let Some(mut driver) = driver(&waker) else { return };
    let (ours, mut peer) = strict_pair();
    driver.add(FIRST, ours.into()).unwrap();
    peer.write_all(b"unread").unwrap();
    wait_for(&mut driver, &waker, |ready| ready.readable);
    let block = vec![1; 64 << 10];
    let mut sent = 0;
    while let Write::Took(taken @ 1..) = driver.write(FIRST, &[IoSlice::new(&block)]) {
        sent += taken;
    }
    assert!(matches!(driver.write(FIRST, &[IoSlice::new(b"unsent")]), Write::Took(6)));
    let Taken { socket, unread, unsent } = driver.take(FIRST).unwrap();
    assert_eq!((&unread[..], &unsent[..]), (&b"unread"[..], &b"unsent"[..]));
    assert!(driver.links.is_empty() && driver.take(FIRST).is_none());
    drop(socket);
    let mut got = Vec::new();
    peer.read_to_end(&mut got).unwrap();
    assert_eq!(got.len(), sent);
}

/// Nothing else happens meanwhile: no timer, no other connection.
#[test]
fn what_a_socket_did_not_take_leaves_while_the_lane_sleeps() {
    let waker = LaneWaker::with_eventfd().unwrap();
    let Some(mut driver) = driver(&waker) else { return };
    let (ours, mut peer) = strict_pair();
    driver.add(FIRST, ours.into()).unwrap();
    let block = vec![1; 64 << 10];
    let mut sent = 0;
    while let Write::Took(taken @ 1..) = driver.write(FIRST, &[IoSlice::new(&block)]) {
        sent += taken;
    }
    assert!(matches!(driver.write(FIRST, &[IoSlice::new(b"a")]), Write::Took(1)));
    driver.wait(Rest::Now, &waker, &mut Vec::new());
    assert!(matches!(driver.write(FIRST, &[IoSlice::new(b"b")]), Write::Took(0)), "a waits");
    let read = thread::spawn(move || {
        let mut got = vec![0; sent + 1];
        peer.read_exact(&mut got).unwrap();
        (got[sent], peer)
    });
    wait_for(&mut driver, &waker, |ready| ready.writable);
    let (last, peer) = read.join().unwrap();
    assert_eq!(last, b'a');
    driver.close(FIRST);
    drop(peer);
}

/// Its close would lose what counts as sent: the lane waits for that.
#[test]
fn what_waits_in_a_slot_is_known_and_its_leaving_is_told() {
    let waker = LaneWaker::with_eventfd().unwrap();
    let Some(mut driver) = driver(&waker) else { return };
    let (ours, mut peer) = strict_pair();
    driver.add(FIRST, ours.into()).unwrap();
    let block = vec![1; 64 << 10];
    while let Write::Took(1..) = driver.write(FIRST, &[IoSlice::new(&block)]) {}
    assert!(!driver.is_sending(FIRST));
    assert!(matches!(driver.write(FIRST, &[IoSlice::new(b"a")]), Write::Took(1)));
    driver.wait(Rest::Now, &waker, &mut Vec::new());
    driver.shut(FIRST);
    assert!(driver.is_sending(FIRST));
    let read = thread::spawn(move || {
        let mut got = Vec::new();
        peer.read_to_end(&mut got).unwrap();
        got.last().copied()
    });
    wait_for(&mut driver, &waker, |ready| ready.writable);
    assert!(!driver.is_sending(FIRST));
    driver.close(FIRST);
    assert_eq!(read.join().unwrap(), Some(b'a'));
}

#[test]
fn what_does_not_fit_a_slot_does_not_overtake_it() {
    let waker = LaneWaker::with_eventfd().unwrap();
    let Some(mut driver) = driver(&waker) else { return };
    let (ours, mut peer) = pair();
    driver.add(FIRST, ours.into()).unwrap();
    let pieces: Vec<Vec<u8>> = [1, PIECE, 1, PIECE + 1, 5, 9]
        .iter()
        .zip(1u8..)
        .map(|(&size, fill)| vec![fill; size])
        .collect();
    for piece in &pieces {
        let taken = driver.write(FIRST, &[IoSlice::new(piece)]);
        assert!(matches!(taken, Write::Took(taken) if taken == piece.len()), "{taken:?}");
    }
    driver.shut(FIRST);
    driver.wait(Rest::Now, &waker, &mut Vec::new());
    let mut got = Vec::new();
    peer.read_to_end(&mut got).unwrap();
    assert!(got == pieces.concat());
}

/// Something came to a connection that its lane has not read.
fn with_unread(waker: &LaneWaker) -> Option<(UringDriver, TcpStream)> {
    let mut driver = driver(waker)?;
    let (ours, mut peer) = pair();
    driver.add(FIRST, ours.into()).unwrap();
    peer.write_all(b"unread").unwrap();
    wait_for(&mut driver, waker, |ready| ready.readable);
    Some((driver, peer))
}

fn hear_of_reset(driver: &mut UringDriver, waker: &LaneWaker, peer: TcpStream) {
    set_socket_linger(&peer, Some(Duration::ZERO)).unwrap();
    drop(peer);
    wait_for(driver, waker, |ready| ready.broken);
    assert_eq!(read_some(driver), b"unread");
    driver.close(FIRST);
}

/// A lane that has paused a connection does not read, but hears of a reset.
#[test]
fn a_reset_is_told_while_something_is_unread() {
    let waker = LaneWaker::with_eventfd().unwrap();
    let Some((mut driver, peer)) = with_unread(&waker) else { return };
    hear_of_reset(&mut driver, &waker, peer);
}

/// The peer's end is told by what tells of a reset, and must not use it up.
#[test]
fn a_reset_behind_an_end_is_told_while_something_is_unread() {
    let waker = LaneWaker::with_eventfd().unwrap();
    let Some((mut driver, peer)) = with_unread(&waker) else { return };
    peer.shutdown(End::Write).unwrap();
    wait_for(&mut driver, &waker, |ready| ready.hangup);
    hear_of_reset(&mut driver, &waker, peer);
    assert!(driver.links.is_empty());
}

#[test]
fn what_came_before_a_reset_is_told_before_it() {
    let waker = LaneWaker::with_eventfd().unwrap();
    let Some(mut driver) = driver(&waker) else { return };
    let (ours, mut peer) = pair();
    driver.add(FIRST, ours.into()).unwrap();
    // The receive is in flight from here on.
    driver.wait(Rest::Now, &waker, &mut Vec::new());
    peer.write_all(b"goodbye").unwrap();
    set_socket_linger(&peer, Some(Duration::ZERO)).unwrap();
    drop(peer);
    wait_for(&mut driver, &waker, |ready| ready.readable);
    assert_eq!(read_some(&mut driver), b"goodbye");
    let mut into = [0; 8];
    loop {
        match driver.read(FIRST, &mut into) {
            Read::Blocked => driver.wait(Rest::Forever, &waker, &mut Vec::new()),
            Read::Ended | Read::Failed(_) | Read::Refused(_) => break,
            Read::Bytes(..) => panic!("nothing else was sent"),
        }
    }
    driver.close(FIRST);
    assert!(driver.links.is_empty());
}

/// The peer sees the end of a connection that was closed while all was asked of it, and of another
/// before it. With places and without them.
#[test]
fn a_closed_connection_is_gone_at_once() {
    for forgone in [false, true] {
        let waker = LaneWaker::with_eventfd().unwrap();
        let Some(mut driver) = driver(&waker) else { return };
        if forgone {
            driver.ring.forgo_places();
        }
        close_one_of_two(&mut driver, &waker);
    }
}

fn close_one_of_two(driver: &mut UringDriver, waker: &LaneWaker) {
    let (idle, _peer_of_idle) = pair();
    driver.add(ConnId { index: 1, generation: 1 }, idle.into()).unwrap();
    let (ours, mut peer) = pair();
    driver.add(FIRST, ours.into()).unwrap();
    driver.wait(Rest::Now, waker, &mut Vec::new());
    let block = vec![1; 64 << 10];
    while let Write::Took(1..) = driver.write(FIRST, &[IoSlice::new(&block)]) {}
    driver.wait(Rest::Now, waker, &mut Vec::new());
    driver.close(FIRST);
    assert_eq!(driver.links.len(), 1);
    peer.read_to_end(&mut Vec::new()).unwrap();
}
