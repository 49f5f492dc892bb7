//! Sockets under epoll, edge-triggered: a connection is registered once, for everything, and never
//! again. A short read or write has used the readiness up; the next edge brings it back.
//!
//! Assumes: sockets are non-blocking streams; one thread.
use std::{
    io::{self, IoSlice},
    mem::MaybeUninit,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    time::Instant,
};

use rustix::{
    event::{
        Timespec,
        epoll::{self, CreateFlags, EventData, EventFlags},
    },
    io::{Errno, read, retry_on_intr},
    net::{Shutdown, shutdown},
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

/// Events taken from the kernel at once.
const EVENTS: usize = 512;

/// Generation 0 names what is no connection; the upper bits of the index say what.
const WAKER: u32 = 0;
const LISTENER: u32 = 1 << 30;
const WATCH: u32 = 1 << 31;

/// The driver of real lanes.
#[derive(Debug)]
pub struct EpollDriver {
    epoll: OwnedFd,
    sockets: Vec<Option<OwnedFd>>,
    doors: Doors,
    /// Kept open for as long as they are watched.
    _watches: Vec<(WatchId, OwnedFd)>,
    spin: Spin,
    start: Instant,
}

impl EpollDriver {
    /// A driver that sleeps on `waker`'s eventfd.
    ///
    /// # Panics
    /// An id of `watches` is 2^30 or more.
    pub fn new(
        waker: &LaneWaker,
        watches: Vec<(WatchId, OwnedFd)>,
        busy_poll: BusyPoll,
    ) -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let edge = EventFlags::IN | EventFlags::ET;
        if let Some(fd) = waker.eventfd() {
            epoll::add(&epoll, fd, special(WAKER), edge)?;
        }
        for (id, fd) in &watches {
            assert!(id.0 < LISTENER, "watch {} is out of range", id.0);
            epoll::add(&epoll, fd, special(WATCH | id.0), edge)?;
        }
        Ok(Self {
            epoll,
            sockets: Vec::new(),
            doors: Doors::default(),
            _watches: watches,
            spin: Spin::new(busy_poll),
            start: Instant::now(),
        })
    }

    fn socket(&self, conn: ConnId) -> Option<BorrowedFd<'_>> {
        self.sockets.get(conn.index())?.as_ref().map(AsFd::as_fd)
    }

    /// Fetches events of the kernel. True: there were some.
    fn poll(&mut self, timeout: Option<&Timespec>, events: &mut Vec<Event<OwnedFd>>) -> bool {
        let mut space = [const { MaybeUninit::uninit() }; EVENTS];
        match epoll::wait(&self.epoll, &mut space, timeout) {
            Ok((kernel, _)) => {
                for event in &*kernel {
                    self.translate(event, events);
                }
                !kernel.is_empty()
            }
            Err(error) => {
                assert!(error == Errno::INTR, "epoll_wait: {error}");
                false
            }
        }
    }

    fn poll_now(&mut self, events: &mut Vec<Event<OwnedFd>>) -> bool {
        self.poll(Some(&Timespec { tv_sec: 0, tv_nsec: 0 }), events)
    }

    /// Looks for events again and again while that is thought to pay. True: there is something.
    fn look(
        &mut self,
        waker: &LaneWaker,
        since: Instant,
        events: &mut Vec<Event<OwnedFd>>,
    ) -> bool {
        spin::look(self.spin.budget(), since, || self.poll_now(events) || waker.is_notified())
    }

    fn block(
        &mut self,
        rest: Rest,
        waker: &LaneWaker,
        now: Millis,
        events: &mut Vec<Event<OwnedFd>>,
    ) {
        if !waker.doze() {
            self.poll_now(events);
            return;
        }
        let timeout = rest.until(self.doors.due()).and_then(|until| {
            let span = until.since(now);
            Timespec::try_from(span).ok()
        });
        self.poll(timeout.as_ref(), events);
    }

    fn translate(&mut self, event: &epoll::Event, events: &mut Vec<Event<OwnedFd>>) {
        let (data, flags) = (event.data, event.flags);
        let (generation, index) = halves(data.u64());
        if generation != 0 {
            let conn = ConnId { index, generation };
            events.push(Event::Ready { conn, ready: readiness(flags) });
        } else if index & WATCH != 0 {
            events.push(Event::Watched(WatchId(index & !WATCH)));
        } else if index & LISTENER != 0 {
            self.doors.note_ready((index & !LISTENER) as usize);
        } else {
            events.push(Event::Signalled);
        }
    }
}

/// The epoll descriptor: readable when the lane has events, for a lane nested in another loop.
impl AsFd for EpollDriver {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

impl Driver for EpollDriver {
    type Socket = OwnedFd;
    type Listener = Listener;

    fn now(&mut self) -> Millis {
        Millis(0) + self.start.elapsed()
    }

    fn wait(&mut self, rest: Rest, waker: &LaneWaker, events: &mut Vec<Event<OwnedFd>>) {
        let now = self.now();
        if rest == Rest::Now || self.doors.can_accept(now) {
            self.poll_now(events);
        } else {
            let since = Instant::now();
            if !self.look(waker, since, events) {
                self.block(rest, waker, now, events);
            }
            self.spin.waited(since);
        }
        let now = self.now();
        self.doors.accept(now, events);
    }

    fn add(&mut self, conn: ConnId, socket: OwnedFd) -> io::Result<()> {
        let all = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        epoll::add(&self.epoll, &socket, EventData::new_u64(conn.to_u64()), all)?;
        if self.sockets.len() <= conn.index() {
            self.sockets.resize_with(conn.index() + 1, || None);
        }
        let place = &mut self.sockets[conn.index()];
        assert!(place.is_none(), "two sockets for {conn}");
        *place = Some(socket);
        Ok(())
    }

    fn read(&mut self, conn: ConnId, into: &mut [u8]) -> Read {
        let Some(socket) = self.socket(conn) else { return Read::Blocked };
        match retry_on_intr(|| read(socket, &mut *into)) {
            Ok(0) => Read::Ended,
            Ok(count) => {
                self.spin.received(count);
                Read::Bytes(count, count == into.len())
            }
            Err(Errno::AGAIN) => Read::Blocked,
            Err(error) => Read::Failed(error.kind()),
        }
    }

    fn unread(&mut self, conn: ConnId) -> usize {
        self.socket(conn).map_or(0, socket::unread)
    }

    fn write(&mut self, conn: ConnId, pieces: &[IoSlice<'_>]) -> Write {
        self.socket(conn).map_or(Write::Took(0), |socket| socket::write(socket, pieces))
    }

    fn shut(&mut self, conn: ConnId) {
        if let Some(socket) = self.socket(conn) {
            // Fails only on a connection that is broken already, which its events tell.
            let _ = shutdown(socket, Shutdown::Write);
        }
    }

    fn close(&mut self, conn: ConnId) {
        if let Some(place) = self.sockets.get_mut(conn.index()) {
            *place = None;
        }
    }

    fn take(&mut self, conn: ConnId) -> Option<Taken<OwnedFd>> {
        let socket = self.sockets.get_mut(conn.index())?.take()?;
        let removed = epoll::delete(&self.epoll, &socket);
        assert!(removed.is_ok(), "{conn} was not registered: {removed:?}");
        Some(Taken::settled(socket))
    }

    fn listen(&mut self, listener: Listener) -> io::Result<()> {
        let index = u32::try_from(self.doors.next()).unwrap_or(WATCH) | LISTENER;
        let edge = EventFlags::IN | EventFlags::ET;
        epoll::add(&self.epoll, listener.as_fd(), special(index), edge)?;
        self.doors.open(listener);
        Ok(())
    }

    fn unlisten(&mut self, id: Option<ListenerId>) {
        for place in self.doors.places(id) {
            self.doors.close(place);
        }
    }
}

fn special(index: u32) -> EventData {
    EventData::new_u64(u64::from(index))
}

fn halves(data: u64) -> (u32, u32) {
    let low = u32::try_from(data & u64::from(u32::MAX)).unwrap_or_default();
    let high = u32::try_from(data >> 32).unwrap_or_default();
    (high, low)
}

fn readiness(flags: EventFlags) -> Ready {
    Ready {
        readable: flags.contains(EventFlags::IN),
        writable: flags.contains(EventFlags::OUT),
        hangup: flags.intersects(EventFlags::RDHUP | EventFlags::HUP),
        broken: flags.contains(EventFlags::ERR),
    }
}
