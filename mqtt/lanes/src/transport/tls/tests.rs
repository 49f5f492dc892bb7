//! What takes a peer that breaks the protocol behind its handshake, keys that are used up, or more
//! handshakes than there is time for.
#![allow(clippy::panic, clippy::unwrap_used, reason = "helpers of tests fail loudly")]
use std::{
    io::{self, IoSlice, Read as _},
    path::PathBuf,
    sync::Arc,
};

use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::{
    CipherSuite, CipherSuiteCommon, ClientConfig, ClientConnection, ConnectionTrafficSecrets,
    ContentType, ProtocolVersion, RootCertStore, ServerConfig, SupportedCipherSuite,
    SupportedProtocolVersion, Tls12CipherSuite, Tls13CipherSuite,
    crypto::{
        CryptoProvider,
        cipher::{MessageEncrypter, OutboundChunks, OutboundPlainMessage},
        ring::default_provider,
    },
    pki_types::{PrivateKeyDer, ServerName},
    version::{TLS12, TLS13},
};

use super::{HandshakeFault, Secured, SecuredListener, TlsFiles, TlsServer, session::TlsSession};
use crate::{
    driver::{
        Driver, Event, Read, Ready, Rest, Write,
        mem::{MemDriver, MemPeer},
    },
    id::{ConnId, ListenerId},
    time::Millis,
    transport::layer::{End, Session, Step},
    waker::LaneWaker,
};

const VERSIONS: [&SupportedProtocolVersion; 2] = [&TLS13, &TLS12];

/// The one cipher suite that is used of each version.
fn suite(version: &SupportedProtocolVersion) -> SupportedCipherSuite {
    let name = match version.version {
        ProtocolVersion::TLSv1_2 => CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
        _ => CipherSuite::TLS13_AES_256_GCM_SHA384,
    };
    *default_provider().cipher_suites.iter().find(|suite| suite.suite() == name).unwrap()
}

/// The same, with keys for so many records.
fn limited(suite: SupportedCipherSuite, records: u64) -> SupportedCipherSuite {
    let common = |common: &CipherSuiteCommon| CipherSuiteCommon {
        suite: common.suite,
        hash_provider: common.hash_provider,
        confidentiality_limit: records,
    };
    match suite {
        SupportedCipherSuite::Tls12(suite) => {
            let Tls12CipherSuite { prf_provider, kx, sign, aead_alg, .. } = *suite;
            let common = common(&suite.common);
            let suite = Tls12CipherSuite { common, prf_provider, kx, sign, aead_alg };
            SupportedCipherSuite::Tls12(Box::leak(Box::new(suite)))
        }
        SupportedCipherSuite::Tls13(suite) => {
            let Tls13CipherSuite { hkdf_provider, aead_alg, quic, .. } = *suite;
            let common = common(&suite.common);
            let suite = Tls13CipherSuite { common, hkdf_provider, aead_alg, quic };
            SupportedCipherSuite::Tls13(Box::leak(Box::new(suite)))
        }
    }
}

/// What both sides use. `records`: how many the server's keys are good for.
fn settings(
    version: &'static SupportedProtocolVersion,
    records: u64,
) -> (Arc<TlsServer>, Arc<ClientConfig>) {
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let provider =
        |suite| Arc::new(CryptoProvider { cipher_suites: vec![suite], ..default_provider() });
    let key = PrivateKeyDer::try_from(signing_key.serialize_der()).unwrap();
    let server = ServerConfig::builder_with_provider(provider(limited(suite(version), records)))
        .with_protocol_versions(&[version])
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key)
        .unwrap();
    let files = TlsFiles { cert: PathBuf::new(), key: PathBuf::new(), clients: None };
    let mut roots = RootCertStore::empty();
    roots.add(cert.der().clone()).unwrap();
    let mut client = ClientConfig::builder_with_provider(provider(suite(version)))
        .with_protocol_versions(&[version])
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    client.enable_secret_extraction = true;
    (TlsServer::with(files, Arc::new(server)), Arc::new(client))
}

/// Sends what it has, and takes what has come. Returns the plaintext.
fn exchange(client: &mut ClientConnection, mem: &MemPeer) -> io::Result<Vec<u8>> {
    let came = mem.receive();
    let (mut rest, mut plain) = (came.as_slice(), Vec::new());
    while !rest.is_empty() {
        client.read_tls(&mut rest)?;
        client.process_new_packets().map_err(io::Error::other)?;
        let _ = client.reader().read_to_end(&mut plain);
    }
    let mut out = Vec::new();
    while client.wants_write() {
        client.write_tls(&mut out)?;
    }
    mem.send(&out);
    Ok(plain)
}

/// A session behind its handshake.
struct Served {
    driver: MemDriver,
    mem: MemPeer,
    session: TlsSession,
    scratch: Vec<u8>,
}

impl Served {
    /// With its client.
    fn new(version: &'static SupportedProtocolVersion, records: u64) -> (Self, ClientConnection) {
        let (server, config) = settings(version, records);
        let (mut driver, conn) = (MemDriver::default(), ConnId { index: 0, generation: 0 });
        let mem = driver.connect();
        let mut events = Vec::new();
        driver.wait(Rest::Now, &LaneWaker::flag_only(), &mut events);
        let Some(Event::Accepted(accepted)) = events.pop() else { panic!("{events:?}") };
        driver.add(conn, accepted.socket).unwrap();
        let mut session = TlsSession::new(server);
        session.begin(conn, Millis::default());
        let name = ServerName::try_from("localhost").unwrap();
        let mut client = ClientConnection::new(config, name).unwrap();
        let scratch = vec![0; 64 << 10];
        let mut open = Self { driver, mem, session, scratch };
        loop {
            assert_eq!(exchange(&mut client, &open.mem).unwrap(), b"");
            match open.session.step(&mut open.driver, &mut open.scratch, End::default()) {
                Step::Done(_) => break,
                Step::More | Step::Waits => {}
                failed @ Step::Failed(..) => panic!("{failed:?}"),
            }
        }
        assert_eq!(exchange(&mut client, &open.mem).unwrap(), b"");
        (open, client)
    }

    fn read(&mut self) -> Read {
        self.session.read(&mut self.driver, &mut [0; 4096], &mut self.scratch)
    }

    fn write(&mut self, bytes: &[u8]) -> Write {
        self.session.write(&mut self.driver, &[IoSlice::new(bytes)]).0
    }
}

/// Makes records of any kind with a client's keys.
struct Forger {
    encrypter: Box<dyn MessageEncrypter>,
    sequence: u64,
}

impl Forger {
    fn new(client: ClientConnection) -> Self {
        let suite = client.negotiated_cipher_suite().unwrap();
        let (sequence, keys) = client.dangerous_extract_secrets().unwrap().tx;
        let ConnectionTrafficSecrets::Aes256Gcm { key, iv } = keys else { panic!("other keys") };
        let encrypter = match suite {
            SupportedCipherSuite::Tls13(suite) => suite.aead_alg.encrypter(key, iv),
            SupportedCipherSuite::Tls12(suite) => {
                let (salt, explicit) = iv.as_ref().split_at(4);
                suite.aead_alg.encrypter(key, salt, explicit)
            }
        };
        Self { encrypter, sequence }
    }

    fn record(&mut self, typ: ContentType, payload: &[u8]) -> Vec<u8> {
        let payload = OutboundChunks::Single(payload);
        let plain = OutboundPlainMessage { typ, version: ProtocolVersion::TLSv1_2, payload };
        let record = self.encrypter.encrypt(plain, self.sequence).unwrap();
        self.sequence += 1;
        record.encode()
    }
}

/// The begin of a message of the handshake, whose end may lie behind 16 MiB.
const BEGIN: [u8; 5] = [24, 0, 0xff, 0xff, 0];

#[test]
fn a_message_without_end_behind_the_handshake_takes_bounded_memory() {
    for version in VERSIONS {
        let (mut served, client) = Served::new(version, 1 << 24);
        let mut forger = Forger::new(client);
        served.mem.send(&forger.record(ContentType::Handshake, &BEGIN));
        let mut sent = 0;
        let failed = loop {
            served.mem.send(&forger.record(ContentType::Handshake, &[0; 8000]));
            sent += 8000;
            assert!(sent < 1 << 20, "nobody refuses it");
            assert!(served.session.held() < 128 << 10, "{} bytes are kept", served.session.held());
            match served.read() {
                Read::Bytes(0, _) | Read::Blocked => {}
                read => break read,
            }
        };
        let failed = matches!(failed, Read::Failed(io::ErrorKind::InvalidData));
        assert!(failed && sent < 128 << 10, "{sent} bytes of {:?}", version.version);
    }
}

#[test]
fn keys_that_are_used_up_behind_half_a_message_fail_the_connection() {
    // They end between writes, and within them, which the records before decide.
    for (length, before) in [(1, 0), (16 << 10, 0), ((16 << 10) + 1, 0), ((16 << 10) + 1, 1)] {
        let (mut served, client) = Served::new(&TLS13, 100);
        let mut forger = Forger::new(client);
        served.mem.send(&forger.record(ContentType::Handshake, &BEGIN));
        assert!(!matches!(served.read(), Read::Failed(_)));
        if before > 0 {
            assert!(matches!(served.write(&vec![7; before]), Write::Took(_)));
        }
        let bytes = vec![7; length];
        let failed = (0..200).find_map(|_| match served.write(&bytes) {
            Write::Took(count) => {
                served.mem.receive();
                assert_eq!(count, length);
                None
            }
            Write::Failed(kind) | Write::Refused(kind) => Some(kind),
        });
        assert_eq!(failed, Some(io::ErrorKind::InvalidData));
        // It is over: what comes is not looked at, and nothing more is sent.
        served.mem.send(&forger.record(ContentType::Handshake, &[0; 100]));
        assert!(matches!(served.read(), Read::Failed(io::ErrorKind::InvalidData)));
        assert!(matches!(served.write(&bytes), Write::Failed(_)));
    }
}

#[test]
fn records_without_content_take_one_read_of_a_turn() {
    for version in VERSIONS {
        let (mut served, client) = Served::new(version, 1 << 24);
        let mut forger = Forger::new(client);
        let all: Vec<u8> =
            (0..20_000).flat_map(|_| forger.record(ContentType::ApplicationData, b"")).collect();
        served.mem.send(&all);
        let read =
            served.session.read(&mut served.driver, &mut vec![0; 64 << 10], &mut served.scratch);
        assert!(matches!(read, Read::Bytes(0, true)), "{read:?}");
        let left = served.mem.unread();
        assert_eq!(all.len() - left, served.scratch.len(), "{:?}", version.version);
    }
}

/// In TLS 1.3 others follow. In TLS 1.2 nothing counts as sent that is not.
#[test]
fn keys_that_are_used_up_lose_nothing() {
    for version in VERSIONS {
        let (mut served, mut client) = Served::new(version, 100);
        let (mut sent, mut came, mut failed) = (0, 0, None);
        while sent < 40_000 && failed.is_none() {
            match served.write(&[7; 100]) {
                Write::Took(count) => sent += count,
                Write::Failed(kind) | Write::Refused(kind) => failed = Some(kind),
            }
            came += exchange(&mut client, &served.mem).unwrap().len();
            while !matches!(served.read(), Read::Blocked) {}
        }
        assert_eq!(came, sent, "{:?}", version.version);
        if version.version == ProtocolVersion::TLSv1_2 {
            assert_eq!(failed, Some(io::ErrorKind::QuotaExceeded));
            assert!((5000..10_000).contains(&sent), "{sent} bytes");
        } else {
            assert_eq!((failed, sent), (None, 40_000));
        }
    }
}

#[test]
fn what_comes_behind_the_own_end_is_thrown_away() {
    for version in VERSIONS {
        let (mut served, client) = Served::new(version, 1 << 24);
        let mut record = Forger::new(client).record(ContentType::ApplicationData, b"late");
        served.session.shut(&mut served.driver);
        *record.last_mut().unwrap() ^= 1;
        served.mem.send(&record);
        let read = served.read();
        assert!(matches!(read, Read::Bytes(count, _) if count == record.len()), "{read:?}");
        served.mem.finish();
        assert!(matches!(served.read(), Read::Ended));
    }
}

#[test]
fn an_end_that_cannot_be_sent_is_still_an_end() {
    let (mut served, _) = Served::new(&TLS13, 1 << 24);
    served.mem.set_window(0);
    served.session.shut(&mut served.driver);
    assert!(served.session.waits_for_room() && !served.mem.is_ended());
    served.mem.reset();
    served.session.flush_late(&mut served.driver);
    assert!(!served.session.waits_for_room() && served.mem.is_ended());
}

/// A lane's driver, and its clients by their places.
struct Crowd {
    secured: Secured<MemDriver>,
    server: Arc<TlsServer>,
    config: Arc<ClientConfig>,
    clients: Vec<(MemPeer, ClientConnection)>,
}

impl Crowd {
    fn new() -> Self {
        let (server, config) = settings(&TLS13, 1 << 24);
        let mut secured = Secured::new(MemDriver::default());
        let listener = SecuredListener::through((), ListenerId(0), Arc::clone(&server));
        secured.listen(listener).unwrap();
        Self { secured, server, config, clients: Vec::new() }
    }

    /// So many more have come, and have sent nothing yet.
    fn join(&mut self, count: usize) {
        for _ in 0..count {
            let mem = self.secured.driver_mut().connect();
            let name = ServerName::try_from("localhost").unwrap();
            let client = ClientConnection::new(Arc::clone(&self.config), name).unwrap();
            self.clients.push((mem, client));
        }
        let places = self.clients.len() - count..;
        for (event, place) in self.turn().into_iter().zip(places) {
            let Event::Accepted(accepted) = event else { panic!("nobody came") };
            self.secured.add(id(place), accepted.socket).unwrap();
        }
    }

    fn turn(&mut self) -> Vec<Event<<Secured<MemDriver> as Driver>::Socket>> {
        let mut events = Vec::new();
        self.secured.wait(Rest::Now, &LaneWaker::flag_only(), &mut events);
        events
    }

    /// What a client has to say goes.
    fn speak(&mut self, place: usize) {
        let (mem, client) = &mut self.clients[place];
        exchange(client, mem).unwrap();
    }

    fn is_done(&self, place: usize) -> bool {
        !self.secured.is_handshaking(id(place))
    }
}

fn id(place: usize) -> ConnId {
    ConnId { index: u32::try_from(place).unwrap(), generation: 0 }
}

#[test]
fn a_handshake_that_has_cost_something_ends_before_others_begin() {
    let mut crowd = Crowd::new();
    crowd.join(65);
    crowd.speak(0);
    crowd.turn();
    for place in 1..65 {
        crowd.speak(place);
    }
    crowd.turn();
    crowd.speak(0);
    crowd.turn();
    assert!(crowd.is_done(0));
    // Those that are left get their turns.
    for _ in 0..64 {
        (1..65).for_each(|place| crowd.speak(place));
        crowd.turn();
    }
    assert!((1..65).all(|place| crowd.is_done(place)));
    assert_eq!(crowd.server.stats().done, 65);
}

#[test]
fn handshakes_in_small_pieces_do_not_keep_others_from_beginning() {
    let mut crowd = Crowd::new();
    crowd.join(65);
    for (mem, _) in &crowd.clients[1..] {
        mem.send(&[22]);
    }
    for _ in 0..8 {
        crowd.turn();
    }
    for (mem, _) in &crowd.clients[1..] {
        mem.send(&[3]);
    }
    // All of these are in line, behind all that are there.
    crowd.turn();
    crowd.speak(0);
    crowd.turn();
    crowd.speak(0);
    crowd.turn();
    assert!(!crowd.clients[0].1.is_handshaking());
    assert_eq!(crowd.server.stats().failed(HandshakeFault::NotTls), 0);
}

#[test]
fn a_handshake_whose_socket_breaks_has_failed() {
    let mut crowd = Crowd::new();
    crowd.join(1);
    crowd.clients[0].0.send(&[22]);
    crowd.turn();
    let (conn, ready) = (id(0), Ready { broken: true, ..Ready::default() });
    crowd.secured.driver_mut().inject(Event::Ready { conn, ready });
    let broken = |event: &Event<_>| matches!(event, Event::Ready { ready, .. } if ready.broken);
    assert!(crowd.turn().iter().any(broken));
    assert_eq!(crowd.server.stats().failed(HandshakeFault::Gone), 1);
}
