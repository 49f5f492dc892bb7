//! Sockets under `io_uring`: what a turn sends goes to the kernel in one call, and the next one
//! waits; what arrives is received by then.
//!
//! The lane sees what it sees under epoll: readiness, one read, one write. Behind that:
//!
//! * **Input.** While there is nothing to read, one receive is in flight, into a buffer that the
//!   kernel takes from the ring when something comes. The next is asked for when the lane has read
//!   all of it, so a paused connection holds one buffer at most, and a peer that sends on is held
//!   back by its window. A connection that sends more than a buffer at once is read by the lane
//!   itself, when a poll says so; as all are while no buffer is free.
//! * **Output.** What fits a slot is copied there and goes with the next submission. More is sent
//!   at once, as under epoll, and so is all while no slot is free. What a socket does not take
//!   stays in its slot until it can be written; the lane may not write meanwhile. So the driver
//!   keeps up to a slot of what the lane counts as sent.
//! * **The end.** A connection is closed or given away when nothing of it is in flight any more:
//!   what was asked for is cancelled, and its completion awaited, which a socket never delays.
//!   Memory is the ring's, not the connection's; `ring.rs` says why that is sound.
//!
//! Assumes: as [`super::epoll`]. The thread of the first wait is the one of all.
mod link;
#[expect(unsafe_code, reason = "memory shared with the kernel; each block proves its own")]
mod ring;
#[cfg(test)]
mod tests;

use std::{
    io::{self, IoSlice},
    os::fd::{AsFd, OwnedFd},
    time::{Duration, Instant},
};

use rustix::{
    event::PollFlags,
    io::{Errno, read, retry_on_intr},
    net::{Shutdown, shutdown},
};
use slab::Slab;

use self::{
    link::{Input, Link, Output},
    ring::{Completion, PIECE, Ring, Target, What},
};
use super::{
    BusyPoll, Driver, Event, Read, Ready, Rest, Taken, Write, doors::Doors, socket, spin,
    spin::Spin,
};
use crate::{
    id::{ConnId, ListenerId, WatchId},
    listener::Listener,
    time::Millis,
    waker::LaneWaker,
};

/// The key of the waker among signals; the others are numbers of watches.
const WAKER: u32 = u32::MAX;

type Watches = Vec<(WatchId, OwnedFd)>;

/// The driver of lanes over `io_uring`.
#[derive(Debug)]
pub struct UringDriver {
    ring: Ring,
    /// By the key that the kernel tells.
    links: Slab<Link>,
    /// By the place of the connection.
    keys: Vec<Option<u32>>,
    doors: Doors,
    /// Kept open for as long as they are watched.
    watches: Watches,
    /// Connections of which something may have to be asked.
    listed: Vec<u32>,
    /// Connections with a slot to send.
    filled: Vec<u32>,
    /// For the end of the wait.
    events: Vec<Event<OwnedFd>>,
    waker: LaneWaker,
    spin: Spin,
    start: Instant,
}

impl UringDriver {
    /// A driver that sleeps on `waker`'s eventfd. Descriptors that it watches are given back where
    /// there is no such ring.
    pub fn new(
        waker: &LaneWaker,
        watches: Watches,
        busy_poll: BusyPoll,
    ) -> Result<Self, (io::Error, Watches)> {
        match Ring::new() {
            Ok(ring) => Ok(Self {
                ring,
                links: Slab::new(),
                keys: Vec::new(),
                doors: Doors::default(),
                watches,
                listed: Vec::new(),
                filled: Vec::new(),
                events: Vec::new(),
                waker: waker.clone(),
                spin: Spin::new(busy_poll),
                start: Instant::now(),
            }),
            Err(error) => Err((error, watches)),
        }
    }

    /// Whether a ring of this kind can be made and used by a thread of its own: another one shows
    /// that.
    pub fn probe() -> io::Result<()> {
        Ring::probe()
    }

    /// Binds it to this thread, before anything else.
    ///
    /// # Panics
    /// An id of what it watches is 2^32 - 1.
    pub fn begin(&mut self) -> io::Result<()> {
        self.ring.enable()?;
        for signal in 0..self.watches.len() {
            let key = self.watches[signal].0.0;
            assert!(key != WAKER, "watch {key} is out of range");
            self.ask_signal(key);
        }
        self.ask_signal(WAKER);
        Ok(())
    }

    /// Gives back what it watches.
    pub fn into_watches(self) -> Watches {
        self.watches
    }

    fn ask_signal(&mut self, key: u32) {
        let Self { ring, watches, waker, .. } = self;
        let watch = watches.iter().find(|(watch, _)| watch.0 == key).map(|(_, fd)| fd.as_fd());
        let socket = if key == WAKER { waker.eventfd() } else { watch };
        let Some(socket) = socket else { return };
        let target = Target { socket, place: None };
        ring.poll(target, PollFlags::IN, true, What::Signal, key);
    }

    fn ask_door(&mut self, place: usize) {
        let Self { ring, doors, .. } = self;
        if let Some(listener) = doors.get(place) {
            let target = Target { socket: listener.as_fd(), place: None };
            ring.poll(target, PollFlags::IN, true, What::Door, key_of(place));
        }
    }

    /// The key of a connection that is here.
    fn key(&self, conn: ConnId) -> Option<usize> {
        let key = *self.keys.get(conn.index())?;
        key.map(|key| key as usize)
    }

    /// Puts all in line that is to be asked and sent.
    fn stage(&mut self) {
        let mut listed = std::mem::take(&mut self.listed);
        for key in listed.drain(..) {
            self.ask_input(key);
        }
        self.listed = listed;
        let mut filled = std::mem::take(&mut self.filled);
        for key in filled.drain(..) {
            self.send_filled(key);
        }
        self.filled = filled;
    }

    /// Asks for what comes next, or, while the lane has not taken what there is, for a reset.
    fn ask_input(&mut self, key: u32) {
        let Some(link) = self.links.get_mut(key as usize) else { return };
        link.is_listed = false;
        if link.is_broken {
            return;
        }
        match &link.input {
            Input::Nothing if link.is_reading() => {}
            Input::Nothing if link.streams => {
                link.ask(What::Readable);
                let flags = PollFlags::IN | PollFlags::RDHUP;
                self.ring.poll(link.target(), flags, false, What::Readable, key);
            }
            Input::Nothing => {
                link.ask(What::Receive);
                self.ring.receive(link.target(), key);
            }
            // Told again and again, for the peer's end is told by it as well, and a reset may
            // follow.
            _ => {
                if link.ask(What::Broken) {
                    self.ring.poll(link.target(), PollFlags::empty(), true, What::Broken, key);
                }
            }
        }
    }

    fn send_filled(&mut self, key: u32) {
        let Some(link) = self.links.get_mut(key as usize) else { return };
        match std::mem::replace(&mut link.output, Output::Away) {
            Output::Filled(slot) => {
                link.ask(What::Send);
                self.ring.send(link.target(), slot, key);
            }
            output => link.output = output,
        }
    }

    fn await_room(&mut self, key: u32) {
        let Some(link) = self.links.get_mut(key as usize) else { return };
        if link.ask(What::Writable) {
            self.ring.poll(link.target(), PollFlags::OUT, false, What::Writable, key);
        }
    }

    /// Has the connection looked at before the next wait.
    fn list(&mut self, key: usize) {
        if let Some(link) = self.links.get_mut(key)
            && !std::mem::replace(&mut link.is_listed, true)
        {
            self.listed.push(key_of(key));
        }
    }

    /// Hands over what is in line, if something is. True: there are events.
    fn step(&mut self) -> bool {
        if self.ring.has_work() {
            let submitted = self.ring.submit();
            assert!(submitted.is_ok(), "io_uring_enter: {submitted:?}");
            self.sort();
        }
        !self.events.is_empty()
    }

    /// Looks for events again and again while that is thought to pay. True: there is something.
    fn look(&mut self, waker: &LaneWaker, since: Instant) -> bool {
        spin::look(self.spin.budget(), since, || self.step() || waker.is_notified())
    }

    fn block(&mut self, rest: Rest, waker: &LaneWaker, now: Millis) {
        if !waker.doze() {
            self.step();
            return;
        }
        let timeout = rest.until(self.doors.due()).map(|until| until.since(now));
        self.sleep(timeout);
    }

    /// Sends complete while they are handed over. What a socket has not taken asks for room, and
    /// may be what the lane waits for: so they are looked at before anybody sleeps.
    fn sleep(&mut self, timeout: Option<Duration>) {
        while self.ring.has_sends() {
            let submitted = self.ring.submit();
            assert!(submitted.is_ok(), "io_uring_enter: {submitted:?}");
            self.sort();
        }
        if !self.events.is_empty() {
            return;
        }
        let waited = self.ring.wait(timeout);
        assert!(waited.is_ok(), "io_uring_enter: {waited:?}");
        self.sort();
    }

    /// Acts on what has come.
    fn sort(&mut self) {
        while let Some(done) = self.ring.next() {
            match done.what {
                What::Cancel => {}
                What::Signal => self.signalled(&done),
                What::Door => self.knocked(&done),
                What::Receive => self.received(done),
                What::Send => self.sent(done),
                What::Readable | What::Writable | What::Broken => self.polled(&done),
            }
        }
    }

    fn signalled(&mut self, done: &Completion) {
        // What could not be asked for is looked at as well.
        self.events.push(match done.key {
            WAKER => Event::Signalled,
            watch => Event::Watched(WatchId(watch)),
        });
        if done.is_last {
            self.ask_signal(done.key);
        }
    }

    fn knocked(&mut self, done: &Completion) {
        let place = done.key as usize;
        self.doors.note_ready(place);
        if done.is_last && done.result != Err(Errno::CANCELED) {
            self.ask_door(place);
        }
    }

    fn received(&mut self, done: Completion) {
        let key = done.key as usize;
        let Self { ring, links, events, .. } = self;
        let link = &mut links[key];
        link.answered(What::Receive);
        link.input = match (done.result, done.received) {
            (Ok(len), Some(received)) if len > 0 => {
                Input::Received(received, done.has_more || len as usize == PIECE)
            }
            (result, received) => {
                if let Some(received) = received {
                    ring.give_back(received);
                }
                match result {
                    Ok(_) => Input::Ended,
                    Err(Errno::CANCELED) => Input::Nothing,
                    // No buffer, or no memory: the lane reads by itself.
                    Err(Errno::NOBUFS | Errno::NOMEM | Errno::INTR | Errno::AGAIN) => {
                        Input::Perhaps
                    }
                    Err(error) => {
                        // A paused lane would not read it, and the socket has told it by this.
                        link.is_break_due |= !std::mem::replace(&mut link.is_broken, true);
                        Input::Failed(error)
                    }
                }
            }
        };
        let conn = link.conn;
        if !matches!(link.input, Input::Nothing) {
            let hangup = matches!(link.input, Input::Ended);
            let ready = Ready { readable: true, hangup, ..Ready::default() };
            events.push(Event::Ready { conn, ready });
        }
        if std::mem::take(&mut link.is_break_due) {
            let ready = Ready { broken: true, ..Ready::default() };
            events.push(Event::Ready { conn, ready });
        }
        self.list(key);
    }

    fn sent(&mut self, done: Completion) {
        let key = done.key as usize;
        let Some(mut slot) = done.slot else { unreachable!("a send has its slot") };
        let link = &mut self.links[key];
        link.answered(What::Send);
        let taken = match done.result {
            Ok(taken) => taken as usize,
            Err(Errno::AGAIN | Errno::INTR | Errno::NOMEM) => 0,
            Err(_) => {
                link.output = Output::Nothing;
                self.ring.free(slot);
                return self.breaks(key);
            }
        };
        slot.sent(taken);
        if slot.len() > 0 {
            link.output = Output::Waiting(slot);
            return self.await_room(done.key);
        }
        link.output = Output::Nothing;
        if link.is_shut {
            // Fails only on a connection that is broken already, which the kernel tells.
            let _ = shutdown(&link.socket, Shutdown::Write);
        }
        if std::mem::take(&mut link.is_awaited) {
            let ready = Ready { writable: true, ..Ready::default() };
            self.events.push(Event::Ready { conn: link.conn, ready });
        }
        self.ring.free(slot);
    }

    fn polled(&mut self, done: &Completion) {
        let key = done.key as usize;
        let link = &mut self.links[key];
        if done.is_last {
            link.answered(done.what);
        }
        let bits = match done.result {
            Ok(bits) => bits,
            Err(_) if link.is_leaving => return,
            // What could not be asked for, or is asked no more, is tried.
            Err(_) => 0,
        };
        let flags = PollFlags::from_bits_retain(u16::try_from(bits).unwrap_or(0));
        let hangup = flags.intersects(PollFlags::RDHUP | PollFlags::HUP);
        if done.what == What::Readable {
            link.input = Input::Perhaps;
            let ready = Ready { readable: true, hangup, ..Ready::default() };
            self.events.push(Event::Ready { conn: link.conn, ready });
            self.list(key);
        } else if done.what == What::Writable {
            self.has_room(key);
        } else {
            if hangup && !link.is_reading() {
                let ready = Ready { readable: true, hangup, ..Ready::default() };
                self.events.push(Event::Ready { conn: link.conn, ready });
            }
            if done.is_last {
                self.list(key);
            }
        }
        if flags.contains(PollFlags::ERR) {
            self.breaks(key);
        }
    }

    /// A socket takes more, or will say why not.
    fn has_room(&mut self, key: usize) {
        let link = &mut self.links[key];
        match std::mem::replace(&mut link.output, Output::Nothing) {
            Output::Waiting(slot) => {
                link.output = Output::Filled(slot);
                self.send_filled(key_of(key));
            }
            Output::Nothing if link.is_awaited => {
                link.is_awaited = false;
                let ready = Ready { writable: true, ..Ready::default() };
                self.events.push(Event::Ready { conn: link.conn, ready });
            }
            output => link.output = output,
        }
    }

    /// The connection is broken. What the peer sent before may be on its way here.
    fn breaks(&mut self, key: usize) {
        let link = &mut self.links[key];
        if std::mem::replace(&mut link.is_broken, true) {
            return;
        }
        if link.has_asked(What::Receive) {
            link.is_break_due = true;
            self.ring.cancel(What::Receive, key_of(key));
        } else {
            let ready = Ready { broken: true, ..Ready::default() };
            self.events.push(Event::Ready { conn: link.conn, ready });
        }
    }

    /// Reads from the socket, by a call of its own.
    fn read_apart(&mut self, key: usize, into: &mut [u8]) -> Read {
        let link = &mut self.links[key];
        let (input, read) = match retry_on_intr(|| read(&link.socket, &mut *into)) {
            Ok(0) => (Input::Ended, Read::Ended),
            Ok(count) => {
                self.spin.received(count);
                link.streams = count > PIECE;
                let more = count == into.len();
                let input = if more { Input::Perhaps } else { Input::Nothing };
                (input, Read::Bytes(count, more))
            }
            Err(Errno::AGAIN) => (Input::Nothing, Read::Blocked),
            Err(error) => (Input::Ended, Read::Failed(error.kind())),
        };
        link.input = input;
        if matches!(link.input, Input::Nothing) {
            self.list(key);
        }
        read
    }

    fn write_apart(&mut self, key: usize, pieces: &[IoSlice<'_>], length: usize) -> Write {
        let link = &mut self.links[key];
        let wrote = socket::write(link.socket.as_fd(), pieces);
        if matches!(wrote, Write::Took(taken) if taken < length) {
            link.is_awaited = true;
            self.await_room(key_of(key));
        }
        wrote
    }

    /// Copies what fits a slot. False: it does not, or none is free.
    fn write_to_slot(&mut self, key: usize, pieces: &[IoSlice<'_>], length: usize) -> bool {
        let Self { ring, links, filled, .. } = self;
        let link = &mut links[key];
        let room = match &link.output {
            _ if link.is_broken => 0,
            Output::Nothing => PIECE,
            Output::Filled(slot) => ring.room(slot),
            Output::Away | Output::Waiting(_) => 0,
        };
        if length > room {
            return false;
        }
        let is_new = matches!(link.output, Output::Nothing);
        let slot = if is_new { ring.slot() } else { None };
        if let Some(slot) = slot {
            link.output = Output::Filled(slot);
            filled.push(key_of(key));
        }
        let Output::Filled(slot) = &mut link.output else { return false };
        for piece in pieces {
            ring.fill(slot, piece);
        }
        true
    }

    /// Takes a connection out when nothing of it is in flight any more. What was to be sent is.
    fn settle(&mut self, conn: ConnId) -> Option<Link> {
        let key = self.key(conn)?;
        self.keys[conn.index()] = None;
        self.links[key].is_leaving = true;
        self.send_filled(key_of(key));
        for what in [What::Receive, What::Readable, What::Writable, What::Broken] {
            if self.links[key].has_asked(what) {
                self.ring.cancel(what, key_of(key));
            }
        }
        while !self.links[key].is_settled() {
            // What is cancelled completes in the call that cancels it, or in the next.
            let submitted = self.ring.submit();
            assert!(submitted.is_ok(), "io_uring_enter: {submitted:?}");
            self.sort();
            // A send that was not taken asks for room, which is not wanted any more.
            if self.links[key].has_asked(What::Writable) {
                self.ring.cancel(What::Writable, key_of(key));
            }
        }
        let link = self.links.remove(key);
        if let Some(place) = link.place {
            self.ring.unregister(place);
        }
        Some(link)
    }
}

fn key_of(key: usize) -> u32 {
    let Ok(key) = u32::try_from(key) else { unreachable!("descriptors are fewer") };
    key
}

impl Driver for UringDriver {
    type Socket = OwnedFd;
    type Listener = Listener;

    fn now(&mut self) -> Millis {
        Millis(0) + self.start.elapsed()
    }

    fn wait(&mut self, rest: Rest, waker: &LaneWaker, events: &mut Vec<Event<OwnedFd>>) {
        let now = self.now();
        self.stage();
        // A full line was handed over meanwhile, or a connection closed in the turn.
        self.sort();
        if rest == Rest::Now || self.doors.can_accept(now) || !self.events.is_empty() {
            self.step();
        } else {
            let since = Instant::now();
            if !self.look(waker, since) {
                self.block(rest, waker, now);
            }
            self.spin.waited(since);
        }
        events.append(&mut self.events);
        let now = self.now();
        self.doors.accept(now, events);
    }

    fn add(&mut self, conn: ConnId, socket: OwnedFd) -> io::Result<()> {
        if self.keys.len() <= conn.index() {
            self.keys.resize(conn.index() + 1, None);
        }
        assert!(self.keys[conn.index()].is_none(), "two sockets for {conn}");
        let key = self.links.insert(Link::new(conn, socket));
        self.keys[conn.index()] = Some(key_of(key));
        let link = &mut self.links[key];
        link.place = self.ring.register(key_of(key), link.socket.as_fd());
        self.list(key);
        Ok(())
    }

    fn read(&mut self, conn: ConnId, into: &mut [u8]) -> Read {
        let Some(key) = self.key(conn) else { return Read::Blocked };
        let link = &mut self.links[key];
        match std::mem::replace(&mut link.input, Input::Nothing) {
            Input::Nothing if link.is_reading() => Read::Blocked,
            Input::Nothing | Input::Perhaps => self.read_apart(key, into),
            Input::Received(received, more) => {
                let bytes = self.ring.bytes(&received);
                let count = bytes.len();
                assert!(count <= into.len(), "a read of {} bytes only", into.len());
                into[..count].copy_from_slice(bytes);
                self.spin.received(count);
                self.ring.give_back(received);
                if more {
                    link.input = Input::Perhaps;
                } else {
                    self.list(key);
                }
                Read::Bytes(count, more)
            }
            Input::Ended => {
                link.input = Input::Ended;
                Read::Ended
            }
            Input::Failed(error) => {
                link.input = Input::Ended;
                Read::Failed(error.kind())
            }
        }
    }

    fn unread(&mut self, conn: ConnId) -> usize {
        let Some(key) = self.key(conn) else { return 0 };
        let link = &self.links[key];
        let received = match &link.input {
            Input::Received(received, _) => self.ring.bytes(received).len(),
            _ => 0,
        };
        received + socket::unread(link.socket.as_fd())
    }

    fn write(&mut self, conn: ConnId, pieces: &[IoSlice<'_>]) -> Write {
        let Some(key) = self.key(conn) else { return Write::Took(0) };
        let length = pieces.iter().map(|piece| piece.len()).sum();
        if self.write_to_slot(key, pieces, length) {
            return Write::Took(length);
        }
        if matches!(self.links[key].output, Output::Filled(_)) {
            // More than one slot in a turn: this must not overtake it.
            self.send_filled(key_of(key));
            let submitted = self.ring.submit();
            assert!(submitted.is_ok(), "io_uring_enter: {submitted:?}");
            self.sort();
        }
        let link = &mut self.links[key];
        if matches!(link.output, Output::Nothing) {
            return self.write_apart(key, pieces, length);
        }
        link.is_awaited = true;
        Write::Took(0)
    }

    fn shut(&mut self, conn: ConnId) {
        let Some(key) = self.key(conn) else { return };
        let link = &mut self.links[key];
        link.is_shut = true;
        if matches!(link.output, Output::Nothing) {
            // Fails only on a connection that is broken already, which the kernel tells.
            let _ = shutdown(&link.socket, Shutdown::Write);
        } else {
            link.is_awaited = true;
        }
    }

    fn is_sending(&self, conn: ConnId) -> bool {
        let link = self.key(conn).and_then(|key| self.links.get(key));
        link.is_some_and(|link| !link.is_broken && !matches!(link.output, Output::Nothing))
    }

    fn close(&mut self, conn: ConnId) {
        let Some(link) = self.settle(conn) else { return };
        if let Output::Filled(slot) | Output::Waiting(slot) = link.output {
            self.ring.free(slot);
        }
        if let Input::Received(received, _) = link.input {
            self.ring.give_back(received);
        }
    }

    fn take(&mut self, conn: ConnId) -> Option<Taken<OwnedFd>> {
        let link = self.settle(conn)?;
        let mut taken = Taken::settled(link.socket);
        if let Output::Filled(slot) | Output::Waiting(slot) = link.output {
            taken.unsent.extend_from_slice(self.ring.unsent(&slot));
            self.ring.free(slot);
        }
        if let Input::Received(received, _) = link.input {
            taken.unread.extend_from_slice(self.ring.bytes(&received));
            self.ring.give_back(received);
        }
        Some(taken)
    }

    fn listen(&mut self, listener: Listener) -> io::Result<()> {
        let place = self.doors.next();
        self.doors.open(listener);
        self.ask_door(place);
        Ok(())
    }

    fn unlisten(&mut self, id: Option<ListenerId>) {
        for place in self.doors.places(id) {
            self.ring.cancel(What::Door, key_of(place));
            self.doors.close(place);
        }
        // The kernel lets go of a listener when nothing is asked of it.
        self.step();
    }
}
