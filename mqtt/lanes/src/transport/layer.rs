//! What is the same for each protocol that stands between a socket and the lane: [`Layered`] wraps
//! a driver, and what it wraps does not know.
//!
//! A connection through a listener of the layer gets a session on the lane that serves it. Its
//! handshake is made here, a bounded number of steps in each turn, before the lane's application
//! hears of it. From then on the lane reads and writes through its session. Connections of other
//! listeners are handed to the driver as they are.
//!
//! Owns: which connections have a session, whose handshake goes on next, and what is told.
//! Does not know: any protocol.
//! Assumes: the place of a connection among the lane's is dense.
use std::{
    collections::VecDeque,
    io::{self, IoSlice},
    sync::Arc,
};

use super::TlsPeer;
use crate::{
    admission::Complaints,
    app::PeerInfo,
    driver::{Accepted, Driver, Event, Read, Ready, Rest, Taken, Write},
    id::{ConnId, ListenerId},
    time::Millis,
    waker::LaneWaker,
};

/// Of the steps of one turn, one in so many is for those of which nothing has come yet, if others
/// wait.
const BEGINS: usize = 4;
/// Bytes of one read, where they are not read into the lane's own buffer.
const SCRATCH: usize = 64 << 10;

/// One connection's part of a protocol.
pub trait Session: Sized + Send + 'static {
    /// What its listener serves with.
    type Server: Send + Sync + 'static;
    /// Why a handshake failed.
    type Fault: Copy;

    /// Steps of handshakes in one turn.
    const STEPS: usize;

    /// Of a connection that has just come.
    fn new(server: Arc<Self::Server>) -> Self;

    /// A driver has taken it.
    fn begin(&mut self, conn: ConnId, now: Millis);

    /// The layer below has made its handshake, with this peer.
    fn below_done(&mut self, peer: Option<Arc<TlsPeer>>);

    /// Whether its handshake is under way, and whether something has come of it.
    fn is_handshaking(&self) -> bool;
    /// See [`Session::is_handshaking`].
    fn has_begun(&self) -> bool;

    /// Memory of what waits here, in bytes.
    fn held(&self) -> usize;

    /// Whether there is something for the lane without a further event.
    fn has_input(&self) -> bool;

    /// How much can be read without anything else from the peer, at most, where so much is in the
    /// socket.
    fn unread(&self, below: usize) -> usize;

    /// One step of the handshake: what one read gives. `end`: what has been told of the socket's.
    fn step<D: Driver>(
        &mut self,
        driver: &mut D,
        scratch: &mut [u8],
        end: End,
    ) -> Step<Self::Fault>;

    /// The handshake has failed: what comes from now on is thrown away.
    fn refuse(&mut self);

    /// A read of the lane.
    fn read<D: Driver>(&mut self, driver: &mut D, into: &mut [u8], scratch: &mut [u8]) -> Read;

    /// A write of the lane. `true`: it took less than the socket would, and the lane is to be told
    /// that it can go on.
    fn write<D: Driver>(&mut self, driver: &mut D, pieces: &[IoSlice<'_>]) -> (Write, bool);

    /// Sends what the lane has not asked for. That it fails is told to the lane when it writes.
    fn flush_late<D: Driver>(&mut self, driver: &mut D);

    /// Whether something that counts as sent waits for room.
    fn waits_for_room(&self) -> bool;

    /// Nothing follows: says so, and shuts the socket behind it.
    fn shut<D: Driver>(&mut self, driver: &mut D);

    /// What the driver that gives it away had taken of it.
    fn travel(&mut self, unread: &[u8], unsent: Vec<u8>);

    /// Its handshake is done, in this way.
    fn count_done(&self, peer: Option<&TlsPeer>);

    /// A handshake has failed: counted. Whether who runs it should hear of that.
    fn count_failed(&self, why: Self::Fault) -> bool;

    /// Says that handshakes fail, so many since the last line.
    fn say_failed(why: Self::Fault, what: &str, failed: u64);

    /// The fault of one that has taken too long.
    const OVERDUE: Self::Fault;
}

/// What a driver has told of a socket's end, during a handshake: it is not told again.
#[derive(Clone, Copy, Debug, Default)]
pub struct End {
    /// The peer will send no more.
    pub(super) hangup: bool,
    /// The connection is broken.
    pub(super) broken: bool,
}

impl End {
    /// Whether it is worth reading until it comes.
    pub(super) fn is_in_sight(self) -> bool {
        self.hangup || self.broken
    }
}

/// A session on its way, or at its place.
struct Seated<S> {
    /// Known when a driver takes it.
    conn: ConnId,
    /// It is among the handshakes that go on next.
    is_queued: bool,
    end: End,
    session: S,
}

/// How a handshake stands.
#[derive(Debug)]
pub enum Step<F> {
    /// It can go on without an event.
    More,
    /// It goes on with the next event.
    Waits,
    /// The connection is open, over TLS with this peer.
    Done(Option<Arc<TlsPeer>>),
    /// It has failed; whether the peer is there to be told, and what there is to say.
    Failed(F, bool, String),
}

/// A driver, connections of which may have a session of one more protocol.
pub struct Layered<D: Driver, S: Session> {
    driver: D,
    /// Listeners whose connections do.
    servers: Vec<(ListenerId, Arc<S::Server>)>,
    /// By the place of the connection.
    sessions: Vec<Option<Box<Seated<S>>>>,
    /// Handshakes that can begin, and those that can go on: where there are more than there is time
    /// for, those that have cost something come to their end.
    fresh: VecDeque<ConnId>,
    begun: VecDeque<ConnId>,
    /// What the driver below tells, before it is passed on.
    told: Vec<Event<D::Socket>>,
    /// What is told by nobody below.
    own: Vec<(ConnId, Ready)>,
    /// Empty before the first connection that has a session.
    scratch: Box<[u8]>,
    /// What sessions hold together.
    held: usize,
    complaints: Complaints,
}

/// A socket, and its session if it has one.
pub struct LayeredSocket<T, S> {
    socket: T,
    session: Option<Box<Seated<S>>>,
}

/// A listener, and what its connections are served with if they have sessions.
#[derive(Debug)]
pub struct LayeredListener<L, V> {
    listener: L,
    server: Option<(ListenerId, Arc<V>)>,
}

impl<L, V> LayeredListener<L, V> {
    /// Its connections have none.
    pub fn plain(listener: L) -> Self {
        Self { listener, server: None }
    }

    /// Its connections do. `id` is the listener's.
    pub fn through(listener: L, id: ListenerId, server: Arc<V>) -> Self {
        Self { listener, server: Some((id, server)) }
    }
}

impl<D: Driver, S: Session> Layered<D, S> {
    /// Wraps a driver.
    pub fn new(driver: D) -> Self {
        Self {
            driver,
            servers: Vec::new(),
            sessions: Vec::new(),
            fresh: VecDeque::new(),
            begun: VecDeque::new(),
            told: Vec::new(),
            own: Vec::new(),
            scratch: Box::default(),
            held: 0,
            complaints: Complaints::default(),
        }
    }

    /// The driver that it wraps.
    pub fn driver_mut(&mut self) -> &mut D {
        &mut self.driver
    }

    /// Whether the next turn has work of which the driver that it wraps does not know.
    pub fn has_work(&self) -> bool {
        !self.fresh.is_empty() || !self.begun.is_empty() || !self.own.is_empty()
    }

    /// Whether a connection that is here has a session.
    #[inline]
    fn has_session(&self, conn: ConnId) -> bool {
        matches!(self.sessions.get(conn.index()), Some(Some(_)))
    }

    /// Lets a session do something with its driver, and counts what it holds behind it.
    fn with<R>(
        &mut self,
        conn: ConnId,
        what: impl FnOnce(&mut S, &mut D, &mut [u8]) -> R,
    ) -> Option<R> {
        let Seated { session, .. } = self.sessions.get_mut(conn.index())?.as_deref_mut()?;
        let before = session.held();
        let result = what(session, &mut self.driver, &mut self.scratch);
        self.held = self.held - before + session.held();
        Some(result)
    }

    fn remove(&mut self, conn: ConnId) -> Option<Box<Seated<S>>> {
        let seated = self.sessions.get_mut(conn.index())?.take()?;
        self.held -= seated.session.held();
        Some(seated)
    }

    /// The session of an event, which may be older than who has its place now.
    fn seated(&mut self, conn: ConnId) -> Option<&mut Seated<S>> {
        let seated = self.sessions.get_mut(conn.index())?.as_deref_mut();
        seated.filter(|seated| seated.conn == conn)
    }

    fn pass(
        &mut self,
        event: Event<D::Socket>,
        events: &mut Vec<Event<LayeredSocket<D::Socket, S>>>,
    ) {
        events.push(match event {
            Event::Accepted(Accepted { socket, peer, admission }) => {
                let session = self.session_for(&peer);
                let socket = LayeredSocket { socket, session };
                Event::Accepted(Accepted { socket, peer, admission })
            }
            Event::Ready { conn, ready } => match self.noted(conn, ready) {
                Some(ready) => Event::Ready { conn, ready },
                None => return,
            },
            Event::HandshakeDone { conn, peer } => match self.seated(conn) {
                Some(seated) => {
                    seated.session.below_done(peer);
                    // What came behind it.
                    self.queue(conn);
                    return;
                }
                None => Event::HandshakeDone { conn, peer },
            },
            Event::HandshakeFailed(conn) => {
                if let Some(seated) = self.seated(conn) {
                    seated.session.refuse();
                }
                Event::HandshakeFailed(conn)
            }
            Event::Watched(watch) => Event::Watched(watch),
            Event::Signalled => Event::Signalled,
        });
    }

    fn session_for(&self, peer: &PeerInfo) -> Option<Box<Seated<S>>> {
        let mut servers = self.servers.iter();
        let (_, server) = servers.find(|(id, _)| *id == peer.listener)?;
        let (conn, session) = (ConnId { index: 0, generation: 0 }, S::new(Arc::clone(server)));
        Some(Box::new(Seated { conn, is_queued: false, end: End::default(), session }))
    }

    /// What the lane is told of a socket's readiness.
    fn noted(&mut self, conn: ConnId, ready: Ready) -> Option<Ready> {
        if ready.broken && self.driver.is_handshaking(conn) {
            // The layer below has given it up, and nothing else will be heard of it.
            return Some(ready);
        }
        let Some(Seated { session, end, .. }) = self.seated(conn) else { return Some(ready) };
        end.hangup |= ready.hangup;
        end.broken |= ready.broken;
        let is_handshaking = session.is_handshaking();
        if ready.writable && session.waits_for_room() {
            self.with(conn, |session, driver, _| session.flush_late(driver));
        }
        if !is_handshaking {
            return Some(ready);
        }
        if ready.readable || ready.hangup || ready.broken {
            self.queue(conn);
        }
        None
    }

    fn queue(&mut self, conn: ConnId) {
        let Some(seated) = self.seated(conn) else { return };
        if !std::mem::replace(&mut seated.is_queued, true) {
            let has_begun = seated.session.has_begun();
            let line = if has_begun { &mut self.begun } else { &mut self.fresh };
            line.push_back(conn);
        }
    }

    /// Who is next, of those that have waited for longest.
    fn next_in_line(&mut self, step: usize) -> Option<ConnId> {
        if step % BEGINS == BEGINS - 1 {
            self.fresh.pop_front().or_else(|| self.begun.pop_front())
        } else {
            self.begun.pop_front().or_else(|| self.fresh.pop_front())
        }
    }

    /// Some handshakes go on.
    fn shake_hands(&mut self, events: &mut Vec<Event<LayeredSocket<D::Socket, S>>>) {
        for step in 0..S::STEPS {
            let Some(conn) = self.next_in_line(step) else { return };
            let Some(seated) = self.seated(conn) else { continue };
            seated.is_queued = false;
            if !seated.session.is_handshaking() {
                continue;
            }
            let end = seated.end;
            let step =
                self.with(conn, |session, driver, scratch| session.step(driver, scratch, end));
            match step {
                None | Some(Step::Waits) => {}
                Some(Step::More) => self.queue(conn),
                Some(Step::Done(peer)) => self.done(conn, peer, end, events),
                Some(Step::Failed(why, is_there, what)) => {
                    self.failed(conn, why, &what);
                    if is_there {
                        self.with(conn, |session, _, _| session.refuse());
                        events.push(Event::HandshakeFailed(conn));
                    } else {
                        let ready = Ready { broken: true, ..Ready::default() };
                        events.push(Event::Ready { conn, ready });
                    }
                }
            }
        }
    }

    fn done(
        &mut self,
        conn: ConnId,
        peer: Option<Arc<TlsPeer>>,
        End { hangup, broken }: End,
        events: &mut Vec<Event<LayeredSocket<D::Socket, S>>>,
    ) {
        self.with(conn, |session, _, _| session.count_done(peer.as_deref()));
        events.push(Event::HandshakeDone { conn, peer });
        // What came with the end of the handshake, or behind it: nothing else may tell.
        let ready = Ready { readable: true, hangup, broken, ..Ready::default() };
        events.push(Event::Ready { conn, ready });
    }

    /// Counts a handshake that has failed, and says so if it is time to.
    fn failed(&mut self, conn: ConnId, why: S::Fault, what: &str) {
        let now = self.driver.now();
        let session = self.sessions.get(conn.index()).and_then(Option::as_deref);
        let is_remarkable = session.is_some_and(|Seated { session, .. }| session.count_failed(why));
        if is_remarkable && let Some(failed) = self.complaints.complain(now) {
            S::say_failed(why, what, failed);
        }
    }
}

impl<D: Driver, S: Session> Driver for Layered<D, S> {
    type Socket = LayeredSocket<D::Socket, S>;
    type Listener = LayeredListener<D::Listener, S::Server>;

    fn now(&mut self) -> Millis {
        self.driver.now()
    }

    fn wait(&mut self, rest: Rest, waker: &LaneWaker, events: &mut Vec<Event<Self::Socket>>) {
        let rest = if self.has_work() { Rest::Now } else { rest };
        let mut told = std::mem::take(&mut self.told);
        self.driver.wait(rest, waker, &mut told);
        for event in told.drain(..) {
            self.pass(event, events);
        }
        self.told = told;
        self.shake_hands(events);
        for (conn, ready) in self.own.drain(..) {
            events.push(Event::Ready { conn, ready });
        }
    }

    fn add(&mut self, conn: ConnId, socket: Self::Socket) -> io::Result<()> {
        let LayeredSocket { socket, session } = socket;
        self.driver.add(conn, socket)?;
        let Some(mut seated) = session else { return Ok(()) };
        if self.scratch.is_empty() {
            self.scratch = vec![0; SCRATCH].into_boxed_slice();
        }
        if self.sessions.len() <= conn.index() {
            self.sessions.resize_with(conn.index() + 1, || None);
        }
        seated.conn = conn;
        seated.session.begin(conn, self.driver.now());
        self.held += seated.session.held();
        if seated.session.has_input() {
            self.own.push((conn, Ready { readable: true, ..Ready::default() }));
        }
        let place = &mut self.sessions[conn.index()];
        assert!(place.is_none(), "two sessions for {conn}");
        *place = Some(seated);
        // It may have come with records, which a driver that was told of none does not announce.
        self.with(conn, |session, driver, _| session.flush_late(driver));
        Ok(())
    }

    #[inline]
    fn read(&mut self, conn: ConnId, into: &mut [u8]) -> Read {
        if !self.has_session(conn) {
            return self.driver.read(conn, into);
        }
        let read = self.with(conn, |session, driver, scratch| session.read(driver, into, scratch));
        read.unwrap_or(Read::Blocked)
    }

    fn unread(&mut self, conn: ConnId) -> usize {
        let below = self.driver.unread(conn);
        self.with(conn, |session, _, _| session.unread(below)).unwrap_or(below)
    }

    #[inline]
    fn write(&mut self, conn: ConnId, pieces: &[IoSlice<'_>]) -> Write {
        if !self.has_session(conn) {
            return self.driver.write(conn, pieces);
        }
        let written = self.with(conn, |session, driver, _| session.write(driver, pieces));
        let Some((write, is_cut)) = written else { return Write::Took(0) };
        if is_cut {
            self.own.push((conn, Ready { writable: true, ..Ready::default() }));
        }
        write
    }

    fn shut(&mut self, conn: ConnId) {
        if self.with(conn, |session, driver, _| session.shut(driver)).is_none() {
            self.driver.shut(conn);
        }
    }

    fn is_sending(&self, conn: ConnId) -> bool {
        let seated = self.sessions.get(conn.index()).and_then(Option::as_deref);
        seated.is_some_and(|seated| seated.session.waits_for_room()) || self.driver.is_sending(conn)
    }

    fn close(&mut self, conn: ConnId) {
        self.remove(conn);
        self.driver.close(conn);
    }

    fn take(&mut self, conn: ConnId) -> Option<Taken<Self::Socket>> {
        let session = self.remove(conn);
        let mut taken = self.driver.take(conn)?;
        let Some(mut seated) = session else {
            let Taken { socket, unread, unsent } = taken;
            let socket = LayeredSocket { socket, session: None };
            return Some(Taken { socket, unread, unsent });
        };
        seated.is_queued = false;
        seated.session.travel(&taken.unread, std::mem::take(&mut taken.unsent));
        let socket = LayeredSocket { socket: taken.socket, session: Some(seated) };
        Some(Taken::settled(socket))
    }

    fn is_handshaking(&self, conn: ConnId) -> bool {
        let seated = self.sessions.get(conn.index()).and_then(Option::as_deref);
        seated.is_some_and(|seated| seated.session.is_handshaking())
            || self.driver.is_handshaking(conn)
    }

    fn handshake_overdue(&mut self, conn: ConnId) {
        if self.driver.is_handshaking(conn) {
            self.driver.handshake_overdue(conn);
        } else {
            self.failed(conn, S::OVERDUE, "it takes too long");
        }
    }

    fn held(&self) -> usize {
        self.driver.held() + self.held
    }

    fn listen(&mut self, listener: Self::Listener) -> io::Result<()> {
        let LayeredListener { listener, server } = listener;
        self.driver.listen(listener)?;
        self.servers.extend(server);
        Ok(())
    }

    fn unlisten(&mut self, id: Option<ListenerId>) {
        self.servers.retain(|(served, _)| id.is_some_and(|id| *served != id));
        self.driver.unlisten(id);
    }
}
