//! A handler for real sockets: echoes bytes, bounds what it queues, and tells the test through a
//! channel what happens, so that no test has to sleep.
#![allow(dead_code, reason = "each test binary uses its part")]
#![allow(clippy::print_stderr, reason = "a test says what it leaves out")]
use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    sync::mpsc::{Receiver, Sender, channel},
    time::Duration,
};

use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};
use zzq_lanes::{
    BindOptions, Bound, Class, CloseReason, ConnId, Context, DriverKind, Handler, LaneIndex,
    LaneIo, Lanes, PeerInfo, WatchId, driver::uring::UringDriver,
};

/// A test that waits this long has failed.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);
/// Output that the handler lets one connection queue.
pub(crate) const HIGH_WATER: usize = 256 << 10;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    Accepted(LaneIndex),
    /// Before that, where it is asked for.
    Peer(PeerInfo),
    Adopted(LaneIndex),
    Paused,
    Closed(CloseReason),
    Watched(WatchId),
    Woken,
    /// All numbers up to here came from the other lane, in order.
    Counted(u32),
}

pub(crate) struct Wire {
    pub(crate) tell: Sender<Told>,
    /// The first byte of a connection says what to do with it.
    pub(crate) commands: bool,
    /// Told of each peer.
    pub(crate) tell_peers: bool,
    /// Told of each wake.
    pub(crate) tell_wakes: bool,
    /// Numbers still to be sent to the other lane.
    pub(crate) owed: std::ops::Range<u32>,
    pub(crate) counted: u32,
}

impl Wire {
    pub(crate) fn new(tell: Sender<Told>) -> Self {
        let (tell_peers, tell_wakes) = (false, false);
        Self { tell, commands: false, tell_peers, tell_wakes, owed: 0..0, counted: 0 }
    }

    fn send_owed(&mut self, io: &mut LaneIo<'_, Self>) {
        let other = LaneIndex(1 - io.lane().0);
        while let Some(next) = self.owed.next() {
            if io.send(other, (next, self.owed.end), Class::Bulk).is_err() {
                self.owed.start = next;
                return;
            }
        }
    }

    fn say(&self, what: Told) {
        // The test may have seen enough.
        let _ = self.tell.send(what);
    }
}

impl Handler for Wire {
    type Message = (u32, u32);
    type Carried = ();

    fn accepted(&mut self, io: &mut LaneIo<'_, Self>, _: ConnId, peer: &PeerInfo) {
        if self.tell_peers {
            self.say(Told::Peer(peer.clone()));
        }
        self.say(Told::Accepted(io.lane()));
    }

    fn adopted(&mut self, io: &mut LaneIo<'_, Self>, _: ConnId, _: &PeerInfo, (): ()) {
        self.say(Told::Adopted(io.lane()));
    }

    fn bytes(&mut self, io: &mut LaneIo<'_, Self>, conn: ConnId, input: &[u8]) -> usize {
        if self.commands && input.first() == Some(&b'M') {
            io.move_to(LaneIndex(1 - io.lane().0), conn, ());
            return 1;
        }
        if self.commands && input.first() == Some(&b'P') {
            io.pause(conn);
            self.say(Told::Paused);
            return 1;
        }
        if self.commands && input.first() == Some(&b'C') {
            self.owed = 0..20_000;
            self.send_owed(io);
            return 1;
        }
        io.write(conn, input);
        if io.queued_bytes(conn) > HIGH_WATER {
            io.pause(conn);
            io.notify_drained(conn);
            self.say(Told::Paused);
        }
        let held = io.buffered();
        let bound = io.connections().len() * (HIGH_WATER + (128 << 10));
        assert!(held.output + held.input < bound, "{held:?}");
        input.len()
    }

    fn drained(&mut self, io: &mut LaneIo<'_, Self>, conn: ConnId) {
        io.resume(conn);
    }

    fn closed(&mut self, _: &mut LaneIo<'_, Self>, _: ConnId, why: CloseReason) {
        self.say(Told::Closed(why));
    }

    fn woken(&mut self, io: &mut LaneIo<'_, Self>) {
        self.send_owed(io);
        if self.tell_wakes {
            self.say(Told::Woken);
        }
    }

    fn watched(&mut self, _: &mut LaneIo<'_, Self>, watch: WatchId) {
        self.say(Told::Watched(watch));
    }

    fn message(&mut self, _: &mut LaneIo<'_, Self>, _: LaneIndex, (n, end): (u32, u32)) {
        assert_eq!(n, self.counted);
        self.counted += 1;
        if self.counted == end {
            self.say(Told::Counted(end));
        }
    }
}

pub(crate) struct Server {
    pub(crate) context: Context,
    pub(crate) lanes: Lanes,
    pub(crate) bound: Bound,
    pub(crate) told: Receiver<Told>,
}

/// The tests of `uring.rs` run over `io_uring` if it is there; all others over epoll.
pub(crate) fn driver() -> DriverKind {
    if env!("CARGO_CRATE_NAME") != "uring" {
        return DriverKind::Epoll;
    }
    match UringDriver::probe() {
        Ok(()) => DriverKind::Uring,
        Err(error) => {
            eprintln!("skipped: no io_uring ({error})");
            DriverKind::Epoll
        }
    }
}

/// Under each driver that there is.
pub(crate) fn on_each(test: impl Fn(DriverKind)) {
    test(DriverKind::Epoll);
    match UringDriver::probe() {
        Ok(()) => test(DriverKind::Uring),
        Err(error) => eprintln!("skipped: no io_uring ({error})"),
    }
}

pub(crate) fn server(lanes: usize, commands: bool, options: BindOptions) -> Server {
    let server = server_over(driver(), lanes, commands, options);
    assert_eq!(server.lanes.driver(), driver(), "what was asked for is there");
    server
}

/// A server over this driver, or epoll where that is refused.
pub(crate) fn server_over(
    driver: DriverKind,
    lanes: usize,
    commands: bool,
    options: BindOptions,
) -> Server {
    let (tell, told) = channel();
    let context = Context::builder().lanes(lanes).driver(driver).build();
    let lanes = context.spawn(|_| Ok(Wire { commands, ..Wire::new(tell.clone()) })).unwrap();
    let bound = lanes.bind("tcp://127.0.0.1:0", options).wait().unwrap();
    Server { context, lanes, bound, told }
}

impl Server {
    pub(crate) fn connect(&self) -> TcpStream {
        connect(self.bound.addr)
    }

    pub(crate) fn hear(&self) -> Told {
        self.told.recv_timeout(PATIENCE).unwrap()
    }

    /// Waits until this is told.
    pub(crate) fn hear_of(&self, what: &Told) {
        while self.hear() != *what {}
    }
}

pub(crate) fn connect(addr: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(addr).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream
}

pub(crate) fn assert_echo(stream: &mut TcpStream, bytes: &[u8]) {
    stream.write_all(bytes).unwrap();
    let mut back = vec![0; bytes.len()];
    stream.read_exact(&mut back).unwrap();
    assert!(back == bytes, "{} bytes came back changed", bytes.len());
}

/// The calling thread, and those that it starts, get this error from a system call. False, with a
/// line that says why: there are no such filters here.
pub(crate) fn refuse(call: i64, error: i32) -> bool {
    let refused = try_refuse(call, error);
    if let Err(why) = &refused {
        eprintln!("skipped: no filter for system calls ({why})");
    }
    refused.is_ok()
}

fn try_refuse(call: i64, error: i32) -> Result<(), Box<dyn std::error::Error>> {
    let rules = [(call, Vec::new())].into_iter().collect();
    let refusal = SeccompAction::Errno(error.cast_unsigned());
    let arch = std::env::consts::ARCH.try_into()?;
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refusal, arch)?;
    let program: BpfProgram = filter.try_into()?;
    Ok(seccompiler::apply_filter(&program)?)
}

/// Bytes that differ from place to place.
pub(crate) fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|n| u8::try_from(n % 251).unwrap()).collect()
}
