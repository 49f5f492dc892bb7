//! Sockets, time and readiness in memory, for tests and the simulator: whoever holds a
//! [`MemPeer`] decides how the stream is cut, how much the lane can send, and when it breaks.
//!
//! Assumes: it never blocks, so its owner calls [`crate::Lane::turn`] when something changed and
//! moves the clock on; events come in the order of connections, so a run repeats.
use std::{
    collections::{BTreeMap, VecDeque},
    io::{self, IoSlice},
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::{Accepted, Driver, Event, Read, Ready, Rest, Taken, Write};
use crate::{
    app::PeerInfo,
    id::{ConnId, ListenerId},
    time::Millis,
    waker::LaneWaker,
};

/// The driver of a lane without a world.
#[derive(Debug, Default)]
pub struct MemDriver {
    now: Millis,
    conns: BTreeMap<ConnId, MemSocket>,
    pending: Vec<Event<MemSocket>>,
    listening: bool,
    connected: u16,
}

/// The lane's end of a connection in memory.
#[derive(Debug)]
pub struct MemSocket(Arc<Mutex<Pipe>>);

/// The peer's end.
#[derive(Debug)]
pub struct MemPeer(Arc<Mutex<Pipe>>);

#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each end closes by itself")]
struct Pipe {
    /// What the lane will read, a chunk at most at once.
    inbound: VecDeque<Vec<u8>>,
    finished: bool,
    /// Why it is broken.
    broken: Option<io::ErrorKind>,
    /// Writes fail, reads do not yet.
    gone: bool,
    /// What the lane has written.
    outbound: Vec<u8>,
    /// Bytes the lane may write yet, and in one call.
    window: usize,
    write_limit: usize,
    /// A write took less than it was given.
    starved: bool,
    shut: bool,
    closed: bool,
    edge: Ready,
}

impl MemDriver {
    /// Sets the clock.
    ///
    /// # Panics
    /// `now` lies before the time it shows.
    pub fn set_now(&mut self, now: Millis) {
        assert!(now >= self.now, "time goes on");
        self.now = now;
    }

    /// A connection that the lane accepts in its next turn.
    pub fn connect(&mut self) -> MemPeer {
        self.connected = self.connected.wrapping_add(1);
        let pipe = Arc::new(Mutex::new(Pipe {
            inbound: VecDeque::new(),
            finished: false,
            broken: None,
            gone: false,
            outbound: Vec::new(),
            window: usize::MAX,
            write_limit: usize::MAX,
            starved: false,
            shut: false,
            closed: false,
            edge: Ready { writable: true, ..Ready::default() },
        }));
        let addr = SocketAddr::from((Ipv4Addr::LOCALHOST, self.connected));
        self.pending.push(Event::Accepted(Accepted {
            socket: MemSocket(Arc::clone(&pipe)),
            peer: PeerInfo { addr, listener: ListenerId(0), tag: 0, tls: None },
            admission: None,
        }));
        MemPeer(pipe)
    }

    /// An event that the lane gets in its next turn, true or not.
    pub fn inject(&mut self, event: Event<MemSocket>) {
        self.pending.push(event);
    }

    /// Whether the next turn has events.
    pub fn has_events(&self) -> bool {
        let changed = |socket: &MemSocket| lock(&socket.0).edge != Ready::default();
        !self.pending.is_empty() || self.conns.values().any(changed)
    }

    /// Whether a listener is open.
    pub fn is_listening(&self) -> bool {
        self.listening
    }
}

impl MemPeer {
    /// Sends one chunk: the lane reads no more than this at once.
    pub fn send(&self, bytes: &[u8]) {
        let mut pipe = lock(&self.0);
        if !bytes.is_empty() {
            pipe.inbound.push_back(bytes.to_vec());
            pipe.edge.readable = true;
        }
    }

    /// Sends no more.
    pub fn finish(&self) {
        let mut pipe = lock(&self.0);
        pipe.finished = true;
        (pipe.edge.readable, pipe.edge.hangup) = (true, true);
    }

    /// Closes: what it sent before can be read, writing to it fails.
    pub fn go(&self) {
        self.finish();
        lock(&self.0).gone = true;
    }

    /// Breaks the connection.
    pub fn reset(&self) {
        self.fail(io::ErrorKind::ConnectionReset);
    }

    /// Does not answer the system any more, which gives it up.
    pub fn vanish(&self) {
        self.fail(io::ErrorKind::TimedOut);
    }

    fn fail(&self, why: io::ErrorKind) {
        let mut pipe = lock(&self.0);
        pipe.broken = Some(why);
        pipe.edge = Ready { readable: true, writable: true, hangup: true, broken: true };
    }

    /// The lane may write `bytes` more until this is called again.
    pub fn set_window(&self, bytes: usize) {
        let mut pipe = lock(&self.0);
        pipe.window = bytes;
        if bytes > 0 && std::mem::take(&mut pipe.starved) {
            pipe.edge.writable = true;
        }
    }

    /// No write takes more than `bytes`.
    pub fn set_write_limit(&self, bytes: usize) {
        lock(&self.0).write_limit = bytes;
    }

    /// What the lane has written since the last call.
    pub fn receive(&self) -> Vec<u8> {
        std::mem::take(&mut lock(&self.0).outbound)
    }

    /// Throws away what the lane has written since the last call and keeps the memory, so that the
    /// next writes allocate nothing; says how many bytes that were.
    pub fn discard(&self) -> usize {
        let outbound = &mut lock(&self.0).outbound;
        let len = outbound.len();
        outbound.clear();
        len
    }

    /// Bytes that the lane has not read.
    pub fn unread(&self) -> usize {
        lock(&self.0).inbound.iter().map(Vec::len).sum()
    }

    /// Whether the lane said that it sends no more, or closed.
    pub fn is_ended(&self) -> bool {
        let pipe = lock(&self.0);
        pipe.shut || pipe.closed
    }

    /// Whether the lane has closed.
    pub fn is_closed(&self) -> bool {
        lock(&self.0).closed
    }
}

impl Driver for MemDriver {
    type Socket = MemSocket;
    type Listener = ();

    fn now(&mut self) -> Millis {
        self.now
    }

    fn wait(&mut self, _: Rest, _: &LaneWaker, events: &mut Vec<Event<MemSocket>>) {
        events.append(&mut self.pending);
        for (conn, socket) in &self.conns {
            let ready = std::mem::take(&mut lock(&socket.0).edge);
            if ready != Ready::default() {
                events.push(Event::Ready { conn: *conn, ready });
            }
        }
    }

    fn add(&mut self, conn: ConnId, socket: MemSocket) -> io::Result<()> {
        let mut pipe = lock(&socket.0);
        // As the kernel does: what it is ready for is told anew.
        pipe.edge.broken = pipe.broken.is_some();
        pipe.edge.hangup = pipe.finished || pipe.edge.broken;
        pipe.edge.readable = !pipe.inbound.is_empty() || pipe.edge.hangup;
        pipe.edge.writable = pipe.window > 0;
        drop(pipe);
        let before = self.conns.insert(conn, socket);
        assert!(before.is_none(), "two sockets for {conn}");
        Ok(())
    }

    fn read(&mut self, conn: ConnId, into: &mut [u8]) -> Read {
        let Some(socket) = self.conns.get(&conn) else { return Read::Blocked };
        let mut pipe = lock(&socket.0);
        if let Some(why) = pipe.broken {
            return Read::Failed(why);
        }
        let Some(chunk) = pipe.inbound.front_mut() else {
            return if pipe.finished { Read::Ended } else { Read::Blocked };
        };
        let count = chunk.len().min(into.len());
        into[..count].copy_from_slice(&chunk[..count]);
        chunk.drain(..count);
        if chunk.is_empty() {
            pipe.inbound.pop_front();
        }
        Read::Bytes(count, !pipe.inbound.is_empty() || pipe.finished)
    }

    fn unread(&mut self, conn: ConnId) -> usize {
        let socket = self.conns.get(&conn);
        socket.map_or(0, |socket| lock(&socket.0).inbound.iter().map(Vec::len).sum())
    }

    fn write(&mut self, conn: ConnId, pieces: &[IoSlice<'_>]) -> Write {
        let Some(socket) = self.conns.get(&conn) else { return Write::Took(0) };
        let mut pipe = lock(&socket.0);
        if pipe.broken.is_some() || pipe.gone {
            return Write::Failed(io::ErrorKind::BrokenPipe);
        }
        let given: usize = pieces.iter().map(|piece| piece.len()).sum();
        let taken = given.min(pipe.window).min(pipe.write_limit);
        let bytes = pieces.iter().flat_map(|piece| piece.iter().copied());
        pipe.outbound.extend(bytes.take(taken));
        pipe.window -= taken;
        if taken < given {
            pipe.starved = pipe.window == 0;
            pipe.edge.writable = pipe.window > 0;
        }
        Write::Took(taken)
    }

    fn shut(&mut self, conn: ConnId) {
        if let Some(socket) = self.conns.get(&conn) {
            lock(&socket.0).shut = true;
        }
    }

    fn close(&mut self, conn: ConnId) {
        self.conns.remove(&conn);
    }

    fn take(&mut self, conn: ConnId) -> Option<Taken<MemSocket>> {
        self.conns.remove(&conn).map(Taken::settled)
    }

    fn listen(&mut self, (): ()) -> io::Result<()> {
        self.listening = true;
        Ok(())
    }

    fn unlisten(&mut self, _: Option<ListenerId>) {
        self.listening = false;
    }
}

impl Drop for MemSocket {
    fn drop(&mut self) {
        lock(&self.0).closed = true;
    }
}

fn lock(pipe: &Mutex<Pipe>) -> MutexGuard<'_, Pipe> {
    pipe.lock().unwrap_or_else(PoisonError::into_inner)
}
