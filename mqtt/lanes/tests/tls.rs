//! Lanes over TLS and real sockets, under each driver: what holds for plain connections holds for
//! these, and what is to be seen with TLS only.
#![cfg(feature = "tls")]
#![allow(clippy::panic, clippy::unwrap_used, reason = "helpers of tests fail loudly")]
mod secure;
mod wire;

use std::{
    io::{ErrorKind, Read, Write},
    net::{Shutdown, TcpStream},
    sync::{Arc, mpsc::channel},
    thread,
    time::Duration,
};

use rustls::{ClientConfig, version::TLS13};
use secure::{
    Ca, Identity, Site, Stream, VERSIONS, client, ends_well, finish, hang_up, hello, over, session,
};
use wire::{PATIENCE, Server, Told, Wire, assert_echo, on_each, pattern};
use zzq_lanes::{
    BindError, BindOptions, CloseReason, Context, DriverKind, HandshakeFault, LaneIndex, Limits,
    PeerInfo, TlsError, TlsFiles, TlsPeer, TlsServer, TlsVersion,
};

/// What a server is like where it matters.
#[derive(Clone, Copy)]
struct How {
    driver: DriverKind,
    lanes: usize,
    commands: bool,
    tell_peers: bool,
    handshake: Duration,
}

impl From<DriverKind> for How {
    fn from(driver: DriverKind) -> Self {
        Self { driver, lanes: 1, commands: false, tell_peers: false, handshake: PATIENCE }
    }
}

struct Secure {
    server: Server,
    tls: Arc<TlsServer>,
}

impl Secure {
    fn new(files: TlsFiles, how: impl Into<How>) -> Self {
        let how = how.into();
        let (tell, told) = channel();
        let limits = Limits { handshake: how.handshake, ..Limits::default() };
        let context = Context::builder().lanes(how.lanes).driver(how.driver).limits(limits).build();
        let wire = |_: &mut _| {
            let (commands, tell_peers) = (how.commands, how.tell_peers);
            Ok(Wire { commands, tell_peers, ..Wire::new(tell.clone()) })
        };
        let lanes = context.spawn(wire).unwrap();
        let tls = TlsServer::load(files).unwrap();
        let bound = lanes
            .bind_tls("tls://127.0.0.1:0", BindOptions::default(), Arc::clone(&tls))
            .wait()
            .unwrap();
        Self { server: Server { context, lanes, bound, told }, tls }
    }

    fn connect(&self, config: ClientConfig) -> Stream {
        over(self.server.connect(), config)
    }

    fn failed(&self, why: HandshakeFault) -> u64 {
        self.tls.stats().failed(why)
    }

    /// Waits until so many handshakes have failed for this.
    fn until_failed(&self, why: HandshakeFault, times: u64) {
        let until = std::time::Instant::now() + PATIENCE;
        while self.failed(why) < times {
            assert!(std::time::Instant::now() < until, "{:?}", self.tls.stats());
            thread::yield_now();
        }
        assert_eq!(self.failed(why), times);
    }

    fn peer(&self) -> PeerInfo {
        match self.server.hear() {
            Told::Peer(peer) => peer,
            told => panic!("{told:?} and no peer"),
        }
    }
}

fn echo(stream: &mut Stream, bytes: &[u8]) {
    stream.write_all(bytes).unwrap();
    let mut back = vec![0; bytes.len()];
    stream.read_exact(&mut back).unwrap();
    assert!(back == bytes, "{} bytes came back changed", bytes.len());
}

#[test]
fn bytes_come_back_and_the_handler_knows_the_peer_by_its_handshake() {
    let site = Site::new();
    on_each(|driver| {
        let secure = Secure::new(site.files(), How { tell_peers: true, ..driver.into() });
        assert_eq!(secure.server.lanes.driver(), driver);
        for (version, expected) in VERSIONS.iter().zip([TlsVersion::V13, TlsVersion::V12]) {
            let mut config = site.trusted(version);
            config.alpn_protocols = vec![b"h2".to_vec(), b"mqtt".to_vec()];
            let mut stream = secure.connect(config);
            echo(&mut stream, b"hello");
            let peer = secure.peer();
            assert_eq!(peer.addr, stream.sock.local_addr().unwrap());
            let tls = peer.tls.unwrap();
            let TlsPeer { server_name, certificates, alpn, version, cipher_suite, .. } = &*tls;
            assert_eq!(server_name.as_deref(), Some("localhost"));
            assert_eq!((certificates.len(), alpn.as_deref()), (0, Some(&b"mqtt"[..])));
            assert_eq!((*version, tls.resumed), (expected, false));
            assert!(cipher_suite.starts_with("TLS"), "{cipher_suite}");
            assert_eq!(secure.server.hear(), Told::Accepted(LaneIndex(0)));
            finish(&mut stream);
            assert!(ends_well(&mut stream));
            assert_eq!(secure.server.hear(), Told::Closed(CloseReason::Ended));
        }
        assert_eq!(secure.tls.stats().done, 2);
    });
}

#[test]
fn a_plain_listener_and_one_with_tls_serve_beside_each_other() {
    let site = Site::new();
    on_each(|driver| {
        let secure = Secure::new(site.files(), driver);
        let lanes = &secure.server.lanes;
        let plain = lanes.bind("tcp://127.0.0.1:0", BindOptions::default()).wait().unwrap();
        let mut plain = wire::connect(plain.addr);
        let mut stream = secure.connect(site.trusted(&TLS13));
        for size in [1, 100, 5000, 70_000] {
            echo(&mut stream, &pattern(size));
            assert_echo(&mut plain, &pattern(size));
        }
    });
}

#[test]
fn what_is_bound_with_and_without_a_certificate_is_not_mistaken() {
    let site = Site::new();
    let secure = Secure::new(site.files(), DriverKind::Epoll);
    let lanes = &secure.server.lanes;
    assert!(secure.server.bound.endpoint.to_string().starts_with("tls://127.0.0.1:"));
    let bound = lanes.bind("tls://127.0.0.1:0", BindOptions::default()).wait();
    assert!(matches!(bound, Err(BindError::NoCertificate(_))));
    let tls = Arc::clone(&secure.tls);
    let bound = lanes.bind_tls("tcp://127.0.0.1:0", BindOptions::default(), tls).wait();
    assert!(matches!(bound, Err(BindError::NotTls(_))));
}

#[test]
fn two_hundred_connections_are_served_on_two_lanes() {
    let site = Site::new();
    on_each(|driver| {
        let secure = Secure::new(site.files(), How { lanes: 2, ..driver.into() });
        // All of them wait for their handshake at once.
        let streams: Vec<_> = (0..200).map(|_| secure.server.connect()).collect();
        let mut streams: Vec<_> =
            streams.into_iter().map(|stream| over(stream, site.trusted(&TLS13))).collect();
        for stream in &mut streams {
            let Stream { conn, sock } = stream;
            conn.write_tls(sock).unwrap();
        }
        for _ in 0..3 {
            for (n, stream) in streams.iter_mut().enumerate() {
                echo(stream, format!("client {n} says hello").as_bytes());
            }
        }
        let accepted: Vec<_> = (0..200).map(|_| secure.server.hear()).collect();
        for lane in 0..2 {
            let there = accepted.iter().filter(|told| **told == Told::Accepted(LaneIndex(lane)));
            assert_eq!(there.count(), 100);
        }
    });
}

/// Writes from one thread and reads from another: one session, so by turns on one socket.
fn both_ways(mut stream: Stream, sent: &[u8]) {
    stream.flush().unwrap();
    let Stream { mut conn, sock } = stream;
    sock.set_nonblocking(true).unwrap();
    let (mut at, mut back, mut ended) = (0, Vec::new(), false);
    let mut plain = vec![0; 64 << 10];
    let mut sock = sock;
    while !ended {
        if at < sent.len() && !conn.wants_write() {
            at += conn.writer().write(&sent[at..(at + (64 << 10)).min(sent.len())]).unwrap();
            if at == sent.len() {
                conn.send_close_notify();
            }
        }
        let would = |error: &std::io::Error| error.kind() == ErrorKind::WouldBlock;
        while conn.wants_write() {
            match conn.write_tls(&mut sock) {
                Ok(_) => {}
                Err(error) if would(&error) => break,
                Err(error) => panic!("{error}"),
            }
        }
        match conn.read_tls(&mut sock) {
            Ok(_) => drop(conn.process_new_packets().unwrap()),
            Err(error) if would(&error) => thread::yield_now(),
            Err(error) => panic!("{error}"),
        }
        loop {
            match conn.reader().read(&mut plain) {
                Ok(0) => {
                    ended = true;
                    break;
                }
                Ok(count) => back.extend_from_slice(&plain[..count]),
                Err(error) if would(&error) => break,
                Err(error) => panic!("{error}"),
            }
        }
    }
    assert!(back == *sent, "{} of {} bytes came back", back.len(), sent.len());
}

#[test]
fn large_transfers_go_both_ways_at_once_and_end_well() {
    let site = Site::new();
    on_each(|driver| {
        let secure = Secure::new(site.files(), driver);
        let sent = pattern(10 << 20);
        thread::scope(|scope| {
            for version in VERSIONS {
                let mut stream = secure.connect(site.trusted(version));
                let sent = &sent;
                scope.spawn(move || {
                    echo(&mut stream, b"x");
                    both_ways(stream, sent);
                });
            }
        });
    });
}

/// The handler asserts the bound on each read.
#[test]
fn a_peer_that_does_not_read_is_held_in_bounded_memory_and_loses_nothing() {
    let site = Site::new();
    on_each(|driver| {
        let secure = Secure::new(site.files(), driver);
        let sent = pattern(16 << 20);
        let mut slow = secure.connect(site.trusted(&TLS13));
        echo(&mut slow, b"there");
        // Until the lane reads no more.
        slow.sock.set_nonblocking(true).unwrap();
        let mut at = 0;
        loop {
            let Stream { conn, sock } = &mut slow;
            if !conn.wants_write() {
                at += conn.writer().write(&sent[at..at + (32 << 10)]).unwrap();
            }
            match conn.write_tls(sock) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    match secure.server.told.try_recv() {
                        Ok(Told::Paused) => break,
                        _ => thread::yield_now(),
                    }
                }
                Err(error) => panic!("{error}"),
            }
        }
        echo(&mut secure.connect(site.trusted(&TLS13)), b"others are served");
        both_ways_from(slow, &sent, at);
    });
}

/// What is left to send, and all of it back.
fn both_ways_from(stream: Stream, sent: &[u8], at: usize) {
    let Stream { mut conn, mut sock } = stream;
    sock.set_nonblocking(false).unwrap();
    let writer = sock.try_clone().unwrap();
    let (mut at, mut back) = (at, Vec::new());
    writer.set_nonblocking(true).unwrap();
    let mut plain = vec![0; 64 << 10];
    while back.len() < sent.len() {
        if at < sent.len() && !conn.wants_write() {
            at += conn.writer().write(&sent[at..(at + (64 << 10)).min(sent.len())]).unwrap();
        }
        while conn.wants_write() && conn.write_tls(&mut &writer).is_ok() {}
        match conn.read_tls(&mut sock) {
            Ok(_) => drop(conn.process_new_packets().unwrap()),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}");
                thread::yield_now();
            }
        }
        while let Ok(count) = conn.reader().read(&mut plain) {
            back.extend_from_slice(&plain[..count]);
        }
    }
    assert!(back == *sent);
}

#[test]
fn ends_with_and_without_a_word_and_resets_are_told_apart() {
    let site = Site::new();
    on_each(|driver| {
        let secure = Secure::new(site.files(), driver);
        for version in VERSIONS {
            let connect = || {
                let mut stream = secure.connect(site.trusted(version));
                echo(&mut stream, b"x");
                assert_eq!(secure.server.hear(), Told::Accepted(LaneIndex(0)));
                stream
            };
            let mut stream = connect();
            finish(&mut stream);
            assert!(ends_well(&mut stream));
            assert_eq!(secure.server.hear(), Told::Closed(CloseReason::Ended));
            // Cut off without a close_notify.
            let mut stream = connect();
            hang_up(&mut stream);
            assert!(ends_well(&mut stream));
            assert_eq!(secure.server.hear(), Told::Closed(CloseReason::Ended));
            let stream = connect();
            reset(&stream.sock);
            drop(stream);
            let broken = CloseReason::Failed(ErrorKind::ConnectionReset);
            assert_eq!(secure.server.hear(), Told::Closed(broken));
        }
    });
}

fn reset(socket: &TcpStream) {
    rustix::net::sockopt::set_socket_linger(socket, Some(Duration::ZERO)).unwrap();
}

/// Everything that was sent before an end of either kind is answered.
#[test]
fn bytes_before_an_end_come_first() {
    let site = Site::new();
    on_each(|driver| {
        let secure = Secure::new(site.files(), driver);
        let sent = pattern(100_000);
        for version in VERSIONS {
            for end in [finish, hang_up] {
                let mut stream = secure.connect(site.trusted(version));
                stream.write_all(&sent).unwrap();
                end(&mut stream);
                let mut back = Vec::new();
                stream.read_to_end(&mut back).unwrap();
                assert!(back == sent, "{} bytes came back", back.len());
            }
        }
    });
}

#[test]
fn a_reset_of_a_paused_connection_is_noticed_behind_its_end_too() {
    let site = Site::new();
    on_each(|driver| {
        let secure = Secure::new(site.files(), How { commands: true, ..driver.into() });
        for ends in [false, true] {
            let mut stream = secure.connect(site.trusted(&TLS13));
            stream.write_all(b"P").unwrap();
            secure.server.hear_of(&Told::Paused);
            if ends {
                stream.sock.shutdown(Shutdown::Write).unwrap();
                // The lane has had a turn behind it.
                echo(&mut secure.connect(site.trusted(&TLS13)), b"served");
            }
            reset(&stream.sock);
            drop(stream);
            let broken = CloseReason::Failed(ErrorKind::ConnectionReset);
            secure.server.hear_of(&Told::Closed(broken));
        }
    });
}

#[test]
fn connections_move_between_lanes_with_what_they_sent_ahead() {
    let site = Site::new();
    // A command is only looked for at the start of a read, so the rest must not look like one.
    let bytes: Vec<u8> = pattern(100_000).iter().map(|byte| *byte.min(&b'A')).collect();
    on_each(|driver| {
        let secure = Secure::new(site.files(), How { lanes: 2, commands: true, ..driver.into() });
        for version in VERSIONS {
            for _ in 0..5 {
                let mut stream = secure.connect(site.trusted(version));
                stream.write_all(b"M").unwrap();
                stream.write_all(&bytes).unwrap();
                let mut back = vec![0; bytes.len()];
                stream.read_exact(&mut back).unwrap();
                assert!(back == bytes);
                echo(&mut stream, b"and on");
                finish(&mut stream);
                assert!(ends_well(&mut stream));
            }
        }
    });
}

#[test]
fn a_client_whose_bytes_come_one_by_one_is_served() {
    let site = Site::new();
    on_each(|driver| {
        let secure = Secure::new(site.files(), driver);
        for version in VERSIONS {
            let socket = secure.server.connect();
            socket.set_nodelay(true).unwrap();
            let mut conn = session(&Arc::new(site.trusted(version)));
            conn.writer().write_all(b"hello").unwrap();
            let mut socket = socket;
            let mut back = Vec::new();
            while back.len() < 5 {
                let mut out = Vec::new();
                while conn.wants_write() {
                    conn.write_tls(&mut out).unwrap();
                }
                for byte in out {
                    socket.write_all(&[byte]).unwrap();
                }
                conn.read_tls(&mut socket).unwrap();
                conn.process_new_packets().unwrap();
                let _ = conn.reader().read_to_end(&mut back);
            }
            assert_eq!(back, b"hello");
        }
    });
}

/// All of it, or what there is before a reset.
fn rest(mut stream: &TcpStream) -> Vec<u8> {
    let mut all = Vec::new();
    let _ = stream.read_to_end(&mut all);
    all
}

#[test]
fn what_is_not_tls_is_told_so_and_never_shown_to_the_handler() {
    let site = Site::new();
    on_each(|driver| {
        let secure = Secure::new(site.files(), driver);
        let connect = b"\x10\x0e\x00\x04MQTT\x05\x02\x00\x3c\x00\x00\x01a".to_vec();
        let garbage = [connect, b"GET / HTTP/1.1\r\n\r\n".to_vec(), vec![0xff; 4000]];
        for (times, bytes) in (1..).zip(&garbage) {
            let mut client = secure.server.connect();
            client.write_all(bytes).unwrap();
            let said = rest(&client);
            assert_eq!((said.first(), said.len()), (Some(&21), 7), "an alert: {said:?}");
            secure.until_failed(HandshakeFault::NotTls, times);
        }
        let mut stream = secure.connect(site.trusted(&TLS13));
        echo(&mut stream, b"served");
        assert_eq!(secure.server.hear(), Told::Accepted(LaneIndex(0)));
        assert!(secure.server.told.try_recv().is_err());
    });
}

#[test]
fn a_client_that_does_not_trust_the_certificate_is_counted() {
    let (site, other) = (Site::new(), Ca::new("another"));
    on_each(|driver| {
        let secure = Secure::new(site.files(), driver);
        for (times, version) in (1..).zip(VERSIONS) {
            let mut stream = secure.connect(client(&other, version, None));
            assert_eq!(stream.write_all(b"x").unwrap_err().kind(), ErrorKind::InvalidData);
            secure.until_failed(HandshakeFault::Alert, times);
        }
        assert!(secure.server.told.try_recv().is_err());
    });
}

#[test]
fn a_client_that_goes_in_its_handshake_leaves_nothing_behind() {
    let site = Site::new();
    on_each(|driver| {
        let secure = Secure::new(site.files(), driver);
        let hello = hello(site.trusted(&TLS13));
        let mut times = 0;
        for sent in [0, 1, 5, hello.len() / 2, hello.len()] {
            for resets in [false, true] {
                let mut client = secure.server.connect();
                client.write_all(&hello[..sent]).unwrap();
                if resets {
                    reset(&client);
                }
                drop(client);
                times += 1;
                secure.until_failed(HandshakeFault::Gone, times);
            }
        }
        let until = std::time::Instant::now() + PATIENCE;
        while secure.server.bound.stats.open() > 0 {
            assert!(std::time::Instant::now() < until);
            thread::yield_now();
        }
        assert!(secure.server.told.try_recv().is_err());
    });
}

#[test]
fn a_handshake_that_takes_too_long_is_cut_and_never_shown() {
    let site = Site::new();
    on_each(|driver| {
        let handshake = Duration::from_millis(100);
        let secure = Secure::new(site.files(), How { handshake, ..driver.into() });
        let hello = hello(site.trusted(&TLS13));
        for (times, sent) in (1..).zip([0, 5, hello.len()]) {
            let mut client = secure.server.connect();
            client.write_all(&hello[..sent]).unwrap();
            rest(&client);
            secure.until_failed(HandshakeFault::Timeout, times);
        }
        assert!(secure.server.told.try_recv().is_err());
    });
}

/// Whoever stops the lanes does not wait for them.
#[test]
fn a_stop_ends_handshakes_at_once_and_others_with_a_word() {
    let site = Site::new();
    on_each(|driver| {
        let secure = Secure::new(site.files(), How { lanes: 2, ..driver.into() });
        let mut streams: Vec<_> = (0..4).map(|_| secure.connect(site.trusted(&TLS13))).collect();
        for stream in &mut streams {
            echo(stream, b"there");
        }
        let silent: Vec<_> = (0..4).map(|_| secure.server.connect()).collect();
        let stopped = secure.server.lanes.stop(PATIENCE);
        for stream in &mut streams {
            assert!(ends_well(stream));
        }
        for client in &silent {
            assert_eq!(rest(client), b"");
        }
        drop(streams);
        stopped.wait();
    });
}

/// What came of a client that sends something: an echo, or the end.
fn is_served(secure: &Secure, config: ClientConfig) -> bool {
    let mut stream = secure.connect(config);
    let served = stream.write_all(b"x").and_then(|()| stream.read_exact(&mut [0]));
    served.is_ok()
}

#[test]
fn clients_without_a_certificate_that_holds_are_turned_away() {
    let (site, clients, other) = (Site::new(), Ca::new("the CA of clients"), Ca::new("another"));
    let good = clients.issue("device-7");
    let bad = [other.issue("device-7"), clients.expired("device-7")];
    on_each(|driver| {
        for required in [true, false] {
            let files = site.files_for(&clients, required);
            let secure = Secure::new(files, How { tell_peers: true, ..driver.into() });
            let as_client =
                |identity: Option<&Identity>, version| client(&site.ca, version, identity);
            let mut times = 0;
            for version in VERSIONS {
                assert!(is_served(&secure, as_client(Some(&good), version)));
                let tls = secure.peer().tls.unwrap();
                assert_eq!(tls.certificates, [good.cert.der().to_vec()]);
                secure.server.hear_of(&Told::Closed(CloseReason::Ended));
                for identity in &bad {
                    assert!(!is_served(&secure, as_client(Some(identity), version)));
                    times += 1;
                    secure.until_failed(HandshakeFault::Certificate, times);
                }
                assert_eq!(is_served(&secure, as_client(None, version)), !required);
                if required {
                    times += 1;
                    secure.until_failed(HandshakeFault::Certificate, times);
                } else {
                    assert_eq!(secure.peer().tls.unwrap().certificates.len(), 0);
                    secure.server.hear_of(&Told::Closed(CloseReason::Ended));
                }
            }
            assert!(secure.server.told.try_recv().is_err());
        }
    });
}

#[test]
fn a_reload_serves_new_handshakes_and_leaves_connections_alone() {
    let site = Site::new();
    on_each(|driver| {
        site.install(&site.ca.issue("localhost"));
        let secure = Secure::new(site.files(), driver);
        let mut before = secure.connect(site.trusted(&TLS13));
        echo(&mut before, b"before");
        let shown = |stream: &Stream| stream.conn.peer_certificates().unwrap()[0].to_vec();
        let next = site.ca.issue("localhost");
        site.install(&next);
        let mut same = secure.connect(site.trusted(&TLS13));
        echo(&mut same, b"nobody has said so yet");
        assert_eq!(shown(&same), shown(&before));
        secure.tls.reload().unwrap();
        let mut after = secure.connect(site.trusted(&TLS13));
        echo(&mut after, b"after");
        assert_eq!(shown(&after), next.cert.der().to_vec());
        // A half of the next pair is there.
        site.write("key.pem", &site.ca.issue("localhost").key.serialize_pem());
        assert!(matches!(secure.tls.reload(), Err(TlsError::Mismatch { .. })));
        let mut still = secure.connect(site.trusted(&TLS13));
        echo(&mut still, b"as before");
        assert_eq!(shown(&still), next.cert.der().to_vec());
        echo(&mut before, b"on and on");
        // To ask for certificates of clients is a change like any other.
        site.install(&next);
        let clients = Ca::new("the CA of clients");
        secure.tls.replace(site.files_for(&clients, true)).unwrap();
        assert!(!is_served(&secure, site.trusted(&TLS13)));
        assert!(is_served(&secure, client(&site.ca, &TLS13, Some(&clients.issue("a")))));
        echo(&mut before, b"on and on");
    });
}

/// A ticket would let a certificate in that does not hold any more, and one of before a reload.
#[test]
fn who_comes_back_is_resumed_but_where_its_certificate_is_asked_for() {
    let (site, clients) = (Site::new(), Ca::new("the CA of clients"));
    let identity = clients.issue("a");
    on_each(|driver| {
        for version in VERSIONS {
            site.install(&site.ca.issue("localhost"));
            let secure = Secure::new(site.files(), driver);
            let resumed = |config: &Arc<ClientConfig>, expected: bool| {
                let before = secure.tls.stats().resumed;
                let mut stream = Stream::new(session(config), secure.server.connect());
                echo(&mut stream, b"x");
                finish(&mut stream);
                assert!(ends_well(&mut stream));
                assert_eq!(secure.tls.stats().resumed - before, u64::from(expected));
            };
            let config = Arc::new(site.trusted(version));
            resumed(&config, false);
            resumed(&config, true);
            secure.tls.reload().unwrap();
            resumed(&config, false);
            secure.tls.replace(site.files_for(&clients, false)).unwrap();
            let config = Arc::new(client(&site.ca, version, Some(&identity)));
            resumed(&config, false);
            resumed(&config, false);
        }
    });
}

#[test]
fn keys_are_renewed_while_bytes_go_on() {
    let site = Site::new();
    on_each(|driver| {
        let secure = Secure::new(site.files(), driver);
        let mut stream = secure.connect(site.trusted(&TLS13));
        for size in [1, 20_000, 100] {
            echo(&mut stream, &pattern(size));
            stream.conn.refresh_traffic_keys().unwrap();
        }
        echo(&mut stream, b"and on");
    });
}

/// What a middle box may do to it: the connection fails, and nothing of it is taken for input.
#[test]
fn a_record_that_was_changed_ends_the_connection_and_is_never_input() {
    let site = Site::new();
    on_each(|driver| {
        let secure = Secure::new(site.files(), driver);
        for version in VERSIONS {
            let mut stream = secure.connect(site.trusted(version));
            echo(&mut stream, b"x");
            let Stream { conn, sock } = &mut stream;
            conn.writer().write_all(b"good").unwrap();
            let mut records = Vec::new();
            conn.write_tls(&mut records).unwrap();
            conn.writer().write_all(b"bad").unwrap();
            conn.write_tls(&mut records).unwrap();
            *records.last_mut().unwrap() ^= 1;
            sock.write_all(&records).unwrap();
            let failed = CloseReason::Failed(ErrorKind::InvalidData);
            secure.server.hear_of(&Told::Closed(failed));
            // What was good may be lost with the connection, and nothing else comes back.
            let mut back = Vec::new();
            let _ = stream.read_to_end(&mut back);
            assert!(b"good".starts_with(&back), "{back:?} came back");
        }
    });
}

#[test]
fn a_handshake_of_endless_bytes_is_refused() {
    let site = Site::new();
    on_each(|driver| {
        let secure = Secure::new(site.files(), driver);
        let mut client = secure.server.connect();
        // Good so far: the begin of a hello of 60 000 bytes, in records of one byte.
        let mut hello = vec![1, 0, 0xea, 0x60, 3, 3];
        hello.resize(40_000, 0);
        let records: Vec<u8> = hello.iter().flat_map(|byte| [22, 3, 1, 0, 1, *byte]).collect();
        let _ = client.write_all(&records);
        rest(&client);
        assert_eq!(secure.failed(HandshakeFault::TooLong), 1, "{:?}", secure.tls.stats());
        echo(&mut secure.connect(site.trusted(&TLS13)), b"served");
    });
}
