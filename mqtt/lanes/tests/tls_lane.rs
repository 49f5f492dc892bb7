//! Two lanes and their TLS over memory, under any order of what peers, time and handlers can do:
//! how the stream is cut, how much can be sent, who moves where.
#![cfg(feature = "tls")]
#![allow(clippy::panic, clippy::unwrap_used, reason = "helpers of tests fail loudly")]
mod secure;
mod support;

use std::{
    io::{Read, Write},
    sync::{Arc, LazyLock},
    time::Duration,
};

use proptest::prelude::*;
use rustls::{ClientConfig, ClientConnection, version::TLS13};
use secure::{Ca, Site, VERSIONS, session};
use support::{Echo, Told, ask, frame};
use zzq_lanes::{
    CloseReason, HandshakeFault, Lane, LaneWaker, Limits, ListenerId, TlsServer,
    driver::{
        Driver, Rest,
        mem::{MemDriver, MemPeer},
    },
    group,
    transport::tls::{Secured, SecuredListener},
};

static SITE: LazyLock<Site> = LazyLock::new(Site::new);

fn config(version: usize) -> Arc<ClientConfig> {
    static CONFIGS: LazyLock<[Arc<ClientConfig>; 2]> =
        LazyLock::new(|| VERSIONS.map(|version| Arc::new(SITE.trusted(version))));
    Arc::clone(&CONFIGS[version])
}

/// A client in memory.
struct Client {
    mem: MemPeer,
    conn: ClientConnection,
    /// Records that are still to be sent.
    out: Vec<u8>,
    /// What shall come back.
    expected: Vec<u8>,
    received: Vec<u8>,
    /// Whether the end of the stream was told.
    told_end: bool,
}

impl Client {
    fn new(mem: MemPeer, config: &Arc<ClientConfig>) -> Self {
        let mut conn = session(config);
        conn.set_buffer_limit(None);
        let (out, expected, received) = (Vec::new(), Vec::new(), Vec::new());
        Self { mem, conn, out, expected, received, told_end: false }
    }

    fn write(&mut self, payload: &[u8]) {
        let bytes = frame(payload);
        self.conn.writer().write_all(&bytes).unwrap();
        match payload {
            [what] if *what >= ask::CLOSE_NOW => {}
            _ => self.expected.extend_from_slice(&bytes),
        }
    }

    /// What it has to send goes in pieces of at most `cut`; what came is taken.
    fn exchange(&mut self, cut: usize) {
        while self.conn.wants_write() {
            self.conn.write_tls(&mut self.out).unwrap();
        }
        for piece in self.out.chunks(cut) {
            self.mem.send(piece);
        }
        self.out.clear();
        let came = self.mem.receive();
        let mut rest = came.as_slice();
        while !rest.is_empty() {
            self.conn.read_tls(&mut rest).unwrap();
            self.told_end |= self.conn.process_new_packets().unwrap().peer_has_closed();
            let _ = self.conn.reader().read_to_end(&mut self.received);
            assert!(!self.told_end || rest.is_empty(), "something behind the end");
        }
        let expected = self.expected.get(..self.received.len());
        assert!(expected == Some(&self.received[..]), "something else came back");
    }
}

struct World {
    lanes: Vec<Lane<Echo, Secured<MemDriver>>>,
    server: Arc<TlsServer>,
    clients: Vec<Client>,
}

impl World {
    fn new() -> Self {
        let wakers = [LaneWaker::flag_only(), LaneWaker::flag_only()];
        let limits = Limits { reads_per_turn: 3, ring: (8, 2), ..Limits::default() };
        let parts = group(&wakers, limits).into_iter();
        let driver = || Secured::new(MemDriver::default());
        let lanes = parts.map(|parts| Lane::new(parts, Echo::default(), driver())).collect();
        let server = TlsServer::load(SITE.files()).unwrap();
        let mut world = Self { lanes, server, clients: Vec::new() };
        let listener = SecuredListener::through((), ListenerId(0), Arc::clone(&world.server));
        world.lanes[0].driver_mut().listen(listener).unwrap();
        world
    }

    fn dial(&mut self) -> MemPeer {
        self.lanes[0].driver_mut().driver_mut().connect()
    }

    fn connect(&mut self, config: &Arc<ClientConfig>) {
        let mem = self.dial();
        self.clients.push(Client::new(mem, config));
    }

    fn settle(&mut self) {
        for _ in 0..100_000 {
            let busy = self.lanes.iter_mut().any(|lane| {
                let busy = lane.rest() == Rest::Now
                    || lane.driver().has_work()
                    || lane.driver_mut().driver_mut().has_events();
                busy && {
                    lane.turn();
                    true
                }
            });
            if !busy {
                return;
            }
        }
        panic!("the lanes never come to rest");
    }

    /// Until nobody has anything to say.
    fn talk(&mut self, cut: usize) {
        for _ in 0..1000 {
            self.settle();
            self.clients.iter_mut().for_each(|client| client.exchange(cut));
            let is_busy = self.lanes.iter_mut().any(|lane| {
                lane.driver_mut().driver_mut().has_events() || lane.rest() == Rest::Now
            });
            if !is_busy && !self.clients.iter().any(|client| client.conn.wants_write()) {
                return;
            }
        }
        panic!("they never come to an end");
    }

    fn pass(&mut self, millis: u64) {
        for lane in &mut self.lanes {
            let now = lane.driver_mut().now();
            lane.driver_mut().driver_mut().set_now(now + Duration::from_millis(millis));
        }
    }

    fn told(&self) -> Vec<Told> {
        self.lanes.iter().flat_map(|lane| lane.handler().told()).collect()
    }
}

#[derive(Clone, Copy, Debug)]
enum Op {
    Send { client: usize, size: usize },
    Ask { client: usize, what: u8 },
    Window { client: usize, bytes: usize },
    WriteLimit { client: usize, bytes: usize },
    Renew(usize),
    Exchange { client: usize, cut: usize },
    Pausing(bool),
    Resume,
    Turn(usize),
    Settle,
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let client = 0usize..3;
    let asks = prop::sample::select(vec![ask::TIMER, ask::MOVE, ask::MOVE, ask::NOTIFY]);
    let size = prop_oneof![2usize..200, 4000usize..5000, 16_370usize..16_400, 30_000usize..65_535];
    let bytes = prop_oneof![Just(0), 1usize..40, 1usize..50_000, Just(usize::MAX)];
    let cut = prop_oneof![1usize..30, 1usize..20_000, Just(usize::MAX)];
    let op = prop_oneof![
        8 => (client.clone(), size).prop_map(|(client, size)| Op::Send { client, size }),
        3 => (client.clone(), asks).prop_map(|(client, what)| Op::Ask { client, what }),
        4 => (client.clone(), bytes).prop_map(|(client, bytes)| Op::Window { client, bytes }),
        1 => (client.clone(), prop_oneof![1usize..3000, Just(usize::MAX)])
            .prop_map(|(client, bytes)| Op::WriteLimit { client, bytes }),
        1 => client.clone().prop_map(Op::Renew),
        8 => (client, cut).prop_map(|(client, cut)| Op::Exchange { client, cut }),
        1 => any::<bool>().prop_map(Op::Pausing),
        1 => Just(Op::Resume),
        3 => (0usize..2).prop_map(Op::Turn),
        4 => Just(Op::Settle),
    ];
    prop::collection::vec(op, 1..60)
}

impl World {
    fn apply(&mut self, op: Op) {
        match op {
            Op::Send { client, size } => self.clients[client].write(&vec![7; size]),
            Op::Ask { client, what } => self.clients[client].write(&[what]),
            Op::Window { client, bytes } => self.clients[client].mem.set_window(bytes),
            Op::WriteLimit { client, bytes } => self.clients[client].mem.set_write_limit(bytes),
            // Before the handshake is done, and in TLS 1.2, there is no such thing.
            Op::Renew(client) => drop(self.clients[client].conn.refresh_traffic_keys()),
            Op::Exchange { client, cut } => self.clients[client].exchange(cut),
            Op::Pausing(on) => {
                for lane in &mut self.lanes {
                    lane.handler_mut().pause_after = on.then_some(2);
                }
            }
            Op::Resume => self.resume_all(),
            Op::Turn(lane) => assert!(self.lanes[lane].turn()),
            Op::Settle => self.settle(),
        }
    }

    fn resume_all(&mut self) {
        for lane in &mut self.lanes {
            lane.with_io(|_, io| io.connections().into_iter().for_each(|conn| io.resume(conn)));
        }
    }

    /// Everybody reads and nobody is paused: what is owed comes, and then each ends in its way.
    fn heal(&mut self) {
        self.apply(Op::Pausing(false));
        for client in &mut self.clients {
            client.mem.set_write_limit(usize::MAX);
            client.mem.set_window(usize::MAX);
        }
        for _ in 0..3 {
            self.resume_all();
            self.talk(usize::MAX);
        }
        for client in &self.clients {
            assert_eq!(client.received.len(), client.expected.len());
        }
        assert_eq!(self.lanes.iter().map(|lane| lane.driver().held()).sum::<usize>(), 0);
        for (n, client) in self.clients.iter_mut().enumerate() {
            match n {
                0 => client.conn.send_close_notify(),
                1 => client.mem.finish(),
                _ => client.write(&[ask::CLOSE_AFTER]),
            }
        }
        self.talk(usize::MAX);
        assert!(self.clients.iter().all(|client| client.told_end && client.mem.is_ended()));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn bytes_come_back_in_order_and_every_stream_ends_with_a_word(ops in ops()) {
        let mut world = World::new();
        for client in 0..3 {
            world.connect(&config(client % 2));
        }
        for op in ops {
            world.apply(op);
        }
        world.heal();
    }

    /// Whatever comes, before a handshake, in it and behind it: nothing panics, others are served.
    #[test]
    fn bytes_that_are_changed_on_their_way_harm_nobody_else(
        at in 0usize..2000,
        bit in 0u8..8,
        version in 0usize..2,
        cut in 1usize..600,
    ) {
        let mut world = World::new();
        let mem = world.dial();
        let mut conn = session(&config(version));
        conn.writer().write_all(&frame(&[7; 300])).unwrap();
        let mut passed = 0;
        for _ in 0..20 {
            let mut out = Vec::new();
            while conn.wants_write() {
                conn.write_tls(&mut out).unwrap();
            }
            if let Some(byte) = at.checked_sub(passed).and_then(|at| out.get_mut(at)) {
                *byte ^= 1 << bit;
            }
            passed += out.len();
            out.chunks(cut).for_each(|piece| mem.send(piece));
            world.settle();
            let came = mem.receive();
            if conn.read_tls(&mut came.as_slice()).is_err() || conn.process_new_packets().is_err() {
                break;
            }
        }
        world.connect(&config(0));
        world.clients[0].write(b"served");
        world.talk(usize::MAX);
        assert_eq!(world.clients[0].received, frame(b"served"));
    }
}

/// A stream that is cut anywhere is the same stream.
#[test]
fn records_and_handshakes_may_be_cut_at_every_byte() {
    for version in 0..2 {
        for cut in (1..80).chain([100, 255, 256, 257, 1000]) {
            let mut world = World::new();
            world.connect(&config(version));
            for size in [2, 100, 20_000] {
                world.clients[0].write(&vec![7; size]);
                world.talk(cut);
            }
            assert_eq!(world.clients[0].received.len(), 2 + 2 + 2 + 100 + 2 + 20_000);
            world.clients[0].conn.send_close_notify();
            world.talk(cut);
            assert!(world.clients[0].told_end);
            let told = world.told();
            assert_eq!(told.first(), Some(&Told::Accepted));
            assert_eq!(told.last(), Some(&Told::Closed(CloseReason::Local)));
        }
    }
}

/// A handshake is nobody's but the lane's until it is done, and has its time. Behind it, who is
/// silent has all the time.
#[test]
fn a_handshake_has_its_time_and_a_connection_behind_it_has_more() {
    let mut world = World::new();
    let silent = world.dial();
    world.connect(&config(0));
    world.talk(usize::MAX);
    assert_eq!(world.told(), [Told::Accepted]);
    let limit = Limits::default().handshake;
    world.pass(u64::try_from(limit.as_millis()).unwrap() - 1);
    world.talk(usize::MAX);
    assert!(!silent.is_closed());
    world.pass(2);
    for lane in &mut world.lanes {
        lane.turn();
    }
    assert!(silent.is_closed());
    assert_eq!(world.server.stats().failed(HandshakeFault::Timeout), 1);
    world.pass(1_000_000);
    world.clients[0].write(b"still there");
    world.talk(usize::MAX);
    assert_eq!(world.clients[0].received, frame(b"still there"));
    assert!(!world.told().iter().any(|told| matches!(told, Told::Closed(_))));
}

/// A turn has time for others, however many begin at once.
#[test]
fn a_flood_of_handshakes_is_work_for_many_turns() {
    let mut world = World::new();
    for _ in 0..100 {
        world.connect(&config(0));
    }
    // They are on their lanes, and all their hellos are there.
    world.settle();
    world.clients.iter_mut().for_each(|client| client.exchange(usize::MAX));
    let answered = |world: &World| {
        let waiting = |client: &Client| client.mem.unread() > 0;
        world.clients.iter().filter(|client| !waiting(client)).count()
    };
    for turns in 1..=5 {
        world.lanes[0].turn();
        assert_eq!(answered(&world), 8 * turns);
        assert!(world.lanes[0].driver().has_work());
    }
    world.talk(usize::MAX);
    assert_eq!(world.server.stats().done, 100);
}

/// What is owed to a peer that said that it sends no more, and does not read yet, is not lost.
#[test]
fn what_waits_for_room_reaches_a_peer_that_has_ended() {
    for size in [1, 100, 2000, 16_384, 40_000] {
        for last in [1, 10, 100] {
            let mut world = World::new();
            world.connect(&config(0));
            world.talk(usize::MAX);
            let client = &mut world.clients[0];
            client.mem.set_window(0);
            client.write(&vec![7; size]);
            client.conn.send_close_notify();
            client.exchange(usize::MAX);
            client.mem.finish();
            world.settle();
            // The lane waits: nothing that it counts as sent is lost by its close.
            while !world.clients[0].mem.is_closed() {
                world.clients[0].mem.set_window(last * 50);
                world.settle();
            }
            world.clients[0].exchange(usize::MAX);
            let client = &world.clients[0];
            assert_eq!(client.received.len(), client.expected.len());
            assert!(client.told_end);
        }
    }
}

#[test]
fn a_wrong_client_certificate_is_told_to_the_client() {
    let clients = Ca::new("the CA of clients");
    let mut world = World::new();
    world.server.replace(SITE.files_for(&clients, true)).unwrap();
    let mem = world.dial();
    let mut conn = session(&Arc::new(SITE.trusted(&TLS13)));
    let error = loop {
        let mut out = Vec::new();
        while conn.wants_write() {
            conn.write_tls(&mut out).unwrap();
        }
        mem.send(&out);
        world.settle();
        let came = mem.receive();
        conn.read_tls(&mut came.as_slice()).unwrap();
        if let Err(error) = conn.process_new_packets() {
            break error;
        }
    };
    assert!(matches!(error, rustls::Error::AlertReceived(_)), "{error}");
    assert!(mem.is_ended() && !mem.is_closed(), "its end is awaited");
    mem.finish();
    world.settle();
    assert!(mem.is_closed());
    assert_eq!(world.told(), []);
}
