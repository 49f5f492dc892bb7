//! TLS over the sockets of any driver: [`Secured`] wraps it, and what it wraps does not know.
//!
//! A connection through a TLS listener gets a session on the lane that serves it. Its handshake is
//! made here, a bounded number of steps in each turn, before the lane's application hears of it.
//! From then on a read of the lane decrypts, and a write encrypts. Connections of other listeners
//! are handed to the driver as they are.
//!
//! * **Input** is read into one buffer of the lane and decrypted from there. What does not fit the
//!   lane's own buffer, a record at most, waits in the session and is read first.
//! * **Output** is encrypted as far as it can be sent. Of what the socket does not take at once, at
//!   most 32 KiB are records already; the lane keeps the last byte of it until they are sent, so
//!   that its rules for output that waits, for a close after it and for ends hold as they are.
//! * **Ends.** A `close_notify` and the end of the socket are one end to the lane, each behind all
//!   bytes that came before. The lane's own end is a `close_notify` and then the socket's. A
//!   session that breaks the protocol is a connection that has failed, behind what it had sent
//!   well.
//!
//! Assumes: the place of a connection among the lane's is dense.
mod session;
mod settings;
#[cfg(test)]
mod tests;

use std::{
    collections::VecDeque,
    io::{self, IoSlice},
    sync::Arc,
};

use self::session::{Session, Step};
pub use self::settings::{
    ClientCerts, FileFault, HandshakeFault, TlsError, TlsFiles, TlsPart, TlsServer, TlsStats,
};
use crate::{
    admission::Complaints,
    app::PeerInfo,
    driver::{Accepted, Driver, Event, Read, Ready, Rest, Taken, Write},
    id::{ConnId, ListenerId},
    time::Millis,
    transport::TlsPeer,
    waker::LaneWaker,
};

/// Steps of handshakes in one turn: each may take a signature, which takes up to a millisecond.
const STEPS: usize = 8;
/// Of these, one in so many is for those of which nothing has come yet, if others wait.
const BEGINS: usize = 4;
/// Ciphertext read at once.
const SCRATCH: usize = 64 << 10;

/// A driver whose connections may use TLS.
pub struct Secured<D: Driver> {
    driver: D,
    /// Listeners whose connections do.
    servers: Vec<(ListenerId, Arc<TlsServer>)>,
    /// By the place of the connection; those that use TLS.
    sessions: Vec<Option<Box<Session>>>,
    /// Handshakes that can begin, and those that can go on: where there are more than there is time
    /// for, those that have cost something come to their end.
    fresh: VecDeque<ConnId>,
    begun: VecDeque<ConnId>,
    /// What the driver below tells, before it is passed on.
    told: Vec<Event<D::Socket>>,
    /// What is told by nobody below.
    own: Vec<(ConnId, Ready)>,
    /// Empty before the first connection that uses TLS.
    scratch: Box<[u8]>,
    /// What sessions hold together.
    held: usize,
    complaints: Complaints,
}

/// A socket, and its session if it uses TLS.
pub struct SecuredSocket<S> {
    socket: S,
    session: Option<Box<Session>>,
}

/// A listener, and what its connections use TLS with.
#[derive(Debug)]
pub struct SecuredListener<L> {
    listener: L,
    server: Option<(ListenerId, Arc<TlsServer>)>,
}

impl<L> SecuredListener<L> {
    /// Its connections do not use TLS.
    pub fn plain(listener: L) -> Self {
        Self { listener, server: None }
    }

    /// Its connections do. `id` is the listener's.
    pub fn tls(listener: L, id: ListenerId, server: Arc<TlsServer>) -> Self {
        Self { listener, server: Some((id, server)) }
    }
}

impl<D: Driver> Secured<D> {
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

    /// The session of a connection that is here and uses TLS.
    #[inline]
    fn has_session(&self, conn: ConnId) -> bool {
        matches!(self.sessions.get(conn.index()), Some(Some(_)))
    }

    /// Lets a session do something with its driver, and counts what it holds behind it.
    fn with<R>(
        &mut self,
        conn: ConnId,
        what: impl FnOnce(&mut Session, &mut D, &mut [u8]) -> R,
    ) -> Option<R> {
        let session = self.sessions.get_mut(conn.index())?.as_deref_mut()?;
        let before = session.held();
        let result = what(session, &mut self.driver, &mut self.scratch);
        self.held = self.held - before + session.held();
        Some(result)
    }

    fn remove(&mut self, conn: ConnId) -> Option<Box<Session>> {
        let session = self.sessions.get_mut(conn.index())?.take()?;
        self.held -= session.held();
        Some(session)
    }

    fn pass(&mut self, event: Event<D::Socket>, events: &mut Vec<Event<SecuredSocket<D::Socket>>>) {
        events.push(match event {
            Event::Accepted(Accepted { socket, peer, admission }) => {
                let session = self.session_for(&peer);
                let socket = SecuredSocket { socket, session };
                Event::Accepted(Accepted { socket, peer, admission })
            }
            Event::Ready { conn, ready } => match self.noted(conn, ready) {
                Some(ready) => Event::Ready { conn, ready },
                None => return,
            },
            Event::HandshakeDone { conn, peer } => Event::HandshakeDone { conn, peer },
            Event::HandshakeFailed(conn) => Event::HandshakeFailed(conn),
            Event::Watched(watch) => Event::Watched(watch),
            Event::Signalled => Event::Signalled,
        });
    }

    fn session_for(&self, peer: &PeerInfo) -> Option<Box<Session>> {
        let mut servers = self.servers.iter();
        let (_, server) = servers.find(|(id, _)| *id == peer.listener)?;
        Some(Box::new(Session::new(Arc::clone(server))))
    }

    /// What the lane is told of a socket's readiness.
    fn noted(&mut self, conn: ConnId, ready: Ready) -> Option<Ready> {
        let session = self.sessions.get_mut(conn.index()).and_then(Option::as_deref_mut);
        // An event may be older than who has its place now.
        let Some(session) = session.filter(|session| session.conn == conn) else {
            return Some(ready);
        };
        session.note(ready);
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
        let session = self.sessions.get_mut(conn.index()).and_then(Option::as_deref_mut);
        if let Some(session) = session
            && !std::mem::replace(&mut session.is_queued, true)
        {
            let line = if session.has_begun() { &mut self.begun } else { &mut self.fresh };
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
    fn shake_hands(&mut self, events: &mut Vec<Event<SecuredSocket<D::Socket>>>) {
        for step in 0..STEPS {
            let Some(conn) = self.next_in_line(step) else { return };
            let session = self.sessions.get_mut(conn.index()).and_then(Option::as_deref_mut);
            let Some(session) = session.filter(|session| session.conn == conn) else { continue };
            session.is_queued = false;
            let step = self.with(conn, Session::step);
            match step {
                None | Some(Step::Waits) => {}
                Some(Step::More) => self.queue(conn),
                Some(Step::Done(peer)) => self.done(conn, peer, events),
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
        peer: TlsPeer,
        events: &mut Vec<Event<SecuredSocket<D::Socket>>>,
    ) {
        self.with(conn, |session, _, _| session.server().count_done(peer.resumed));
        events.push(Event::HandshakeDone { conn, peer: Arc::new(peer) });
        // What came with the end of the handshake, or behind it: nothing else may tell.
        let ready = self.with(conn, |session, _, _| session.noted()).unwrap_or_default();
        events.push(Event::Ready { conn, ready });
    }

    /// Counts a handshake that has failed, and says so if it is time to.
    fn failed(&mut self, conn: ConnId, why: HandshakeFault, what: &str) {
        self.with(conn, |session, _, _| session.server().count_failed(why));
        let now = self.driver.now();
        if why == HandshakeFault::Gone {
            // Those who look whether the port is open do just that.
            tracing::debug!(fault = why.name(), what, "a client went in its TLS handshake");
        } else if let Some(failed) = self.complaints.complain(now) {
            tracing::warn!(fault = why.name(), what, failed, "TLS handshakes fail");
        }
    }
}

impl<D: Driver> Driver for Secured<D> {
    type Socket = SecuredSocket<D::Socket>;
    type Listener = SecuredListener<D::Listener>;

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
        let SecuredSocket { socket, session } = socket;
        self.driver.add(conn, socket)?;
        let Some(mut session) = session else { return Ok(()) };
        if self.scratch.is_empty() {
            self.scratch = vec![0; SCRATCH].into_boxed_slice();
        }
        if self.sessions.len() <= conn.index() {
            self.sessions.resize_with(conn.index() + 1, || None);
        }
        session.begin(conn, self.driver.now());
        self.held += session.held();
        if session.has_input() {
            self.own.push((conn, Ready { readable: true, ..Ready::default() }));
        }
        let place = &mut self.sessions[conn.index()];
        assert!(place.is_none(), "two sessions for {conn}");
        *place = Some(session);
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
        let session = self.sessions.get(conn.index()).and_then(Option::as_deref);
        session.is_some_and(Session::waits_for_room) || self.driver.is_sending(conn)
    }

    fn close(&mut self, conn: ConnId) {
        self.remove(conn);
        self.driver.close(conn);
    }

    fn take(&mut self, conn: ConnId) -> Option<Taken<Self::Socket>> {
        let session = self.remove(conn);
        let mut taken = self.driver.take(conn)?;
        let Some(mut session) = session else {
            let Taken { socket, unread, unsent } = taken;
            let socket = SecuredSocket { socket, session: None };
            return Some(Taken { socket, unread, unsent });
        };
        session.travel(&taken.unread, std::mem::take(&mut taken.unsent));
        let socket = SecuredSocket { socket: taken.socket, session: Some(session) };
        Some(Taken::settled(socket))
    }

    fn is_handshaking(&self, conn: ConnId) -> bool {
        let session = self.sessions.get(conn.index()).and_then(Option::as_deref);
        session.is_some_and(Session::is_handshaking)
    }

    fn handshake_overdue(&mut self, conn: ConnId) {
        self.failed(conn, HandshakeFault::Timeout, "it takes too long");
    }

    fn held(&self) -> usize {
        self.driver.held() + self.held
    }

    fn listen(&mut self, listener: Self::Listener) -> io::Result<()> {
        let SecuredListener { listener, server } = listener;
        self.driver.listen(listener)?;
        self.servers.extend(server);
        Ok(())
    }

    fn unlisten(&mut self, id: Option<ListenerId>) {
        self.servers.retain(|(served, _)| id.is_some_and(|id| *served != id));
        self.driver.unlisten(id);
    }
}
