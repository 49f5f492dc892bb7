//! The broker over TLS, from outside: the flags, what clients are served, what ends do to a will,
//! certificates that are renewed.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![cfg(feature = "tls")]

mod embedded;
mod support;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use embedded::{Embedded, wait};
use rcgen::{CertificateParams, KeyPair};
use rustix::process::{Pid, Signal, kill_process};
use rustls::crypto::ring::default_provider;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use support::{PATIENCE, run};
use tempfile::TempDir;
use zzq_broker::hooks::{
    Answer, Authenticator, Identity, Login, Peer, Refusal, Transport, Verdict,
};
use zzq_broker::{ClientCerts, Hooks, TlsFiles, TlsServer};

const COMMAND: &str = env!("CARGO_BIN_EXE_zzq_broker");

type Stream = StreamOwned<ClientConnection, TcpStream>;

/// A broker with an endpoint over TLS and a plain one. Dropped, it is killed.
struct Secure {
    home: TempDir,
    child: Child,
    tls: String,
    plain: String,
}

/// Puts a new certificate and its key in their places.
fn install(home: &TempDir) -> CertificateDer<'static> {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let cert = params.self_signed(&key).unwrap();
    std::fs::write(home.path().join("cert.pem"), cert.pem()).unwrap();
    std::fs::write(home.path().join("key.pem"), key.serialize_pem()).unwrap();
    cert.der().clone()
}

impl Secure {
    fn start() -> (Self, CertificateDer<'static>) {
        let home = tempfile::tempdir().unwrap();
        let cert = install(&home);
        let mut child = Command::new(COMMAND)
            .args(["--bind", "mqtts://127.0.0.1:0", "--bind", "tcp://127.0.0.1:0"])
            .args(["--cert", "cert.pem", "--key", "key.pem", "--lanes", "2"])
            .current_dir(home.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut bound = |scheme: &str| {
            let line = lines.next().unwrap().unwrap();
            line.strip_prefix(scheme).unwrap().to_owned()
        };
        let (tls, plain) = (bound("tls://"), bound("tcp://"));
        (Self { home, child, tls, plain }, cert)
    }

    fn over_tls(&self, trusted: &CertificateDer<'static>) -> Stream {
        over_tls(&self.tls, trusted, None)
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }
}

impl Drop for Secure {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A client that trusts this certificate, and shows its own.
fn over_tls(
    address: &str,
    trusted: &CertificateDer<'static>,
    shown: Option<(CertificateDer<'static>, PrivateKeyDer<'static>)>,
) -> Stream {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.clone()).unwrap();
    let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let config = match shown {
        Some((cert, key)) => builder.with_client_auth_cert(vec![cert], key).unwrap(),
        None => builder.with_no_client_auth(),
    };
    let name = ServerName::try_from("localhost").unwrap();
    let session = ClientConnection::new(Arc::new(config), name).unwrap();
    Stream::new(session, connect(address))
}

fn connect(address: &str) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Sends and expects, byte by byte.
fn exchange(stream: &mut (impl Read + Write), sent: &[u8], expected: &[u8]) {
    stream.write_all(sent).unwrap();
    let mut answer = vec![0; expected.len()];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(answer, expected);
}

/// CONNECT of MQTT 3.1.1 with Clean Session and a client identifier of one letter.
fn hello(stream: &mut (impl Read + Write), id: u8) {
    let packet = [b"\x10\x0d\x00\x04MQTT\x04\x02\x00\x00\x00\x01".as_slice(), &[id]].concat();
    exchange(stream, &packet, b"\x20\x02\x00\x00");
}

/// The same with the will `w` to the topic `t`.
fn hello_with_will(stream: &mut (impl Read + Write), id: u8) {
    let head = b"\x10\x13\x00\x04MQTT\x04\x06\x00\x00\x00\x01".as_slice();
    let packet = [head, &[id], b"\x00\x01t\x00\x01w"].concat();
    exchange(stream, &packet, b"\x20\x02\x00\x00");
}

#[test]
fn messages_of_each_qos_go_both_ways() {
    let (secure, cert) = Secure::start();
    let mut client = secure.over_tls(&cert);
    hello(&mut client, b'a');
    exchange(&mut client, b"\x82\x06\x00\x01\x00\x01t\x02", b"\x90\x03\x00\x01\x02");
    exchange(&mut client, b"\x30\x04\x00\x01t0", b"\x30\x04\x00\x01t0");
    let mut back = [0; 4 + 8];
    client.write_all(b"\x32\x06\x00\x01t\x00\x071").unwrap();
    client.read_exact(&mut back).unwrap();
    let (ack, message) = (b"\x40\x02\x00\x07", b"\x32\x06\x00\x01t\x00\x011");
    assert!(back == [&ack[..], message].concat()[..] || back == [&message[..], ack].concat()[..]);
    client.write_all(b"\x40\x02\x00\x01").unwrap();
    client.write_all(b"\x34\x06\x00\x01t\x00\x082").unwrap();
    client.read_exact(&mut back).unwrap();
    let (ack, message) = (b"\x50\x02\x00\x08", b"\x34\x06\x00\x01t\x00\x022");
    assert!(back == [&ack[..], message].concat()[..] || back == [&message[..], ack].concat()[..]);
    exchange(&mut client, b"\x62\x02\x00\x08", b"\x70\x02\x00\x08");
    exchange(&mut client, b"\x50\x02\x00\x02", b"\x62\x02\x00\x02");
    exchange(&mut client, b"\x70\x02\x00\x02\xc0\x00", b"\xd0\x00");
}

/// Whatever follows DISCONNECT, in whatever way, is no reason to tell others of a client's loss.
#[test]
fn no_end_of_tls_behind_a_disconnect_publishes_the_will() {
    //= B44, MQTT311-3.14.4-3
    let (secure, cert) = Secure::start();
    let mut watcher = connect(&secure.plain);
    hello(&mut watcher, b'w');
    exchange(&mut watcher, b"\x82\x06\x00\x01\x00\x01t\x00", b"\x90\x03\x00\x01\x00");
    for (word, end) in [(true, "FIN"), (true, "RST"), (false, "FIN"), (false, "RST")] {
        let mut client = secure.over_tls(&cert);
        hello_with_will(&mut client, b'a');
        client.write_all(b"\xe0\x00").unwrap();
        if word {
            client.conn.send_close_notify();
        }
        client.flush().unwrap();
        if end == "FIN" {
            client.sock.shutdown(Shutdown::Both).unwrap();
        } else {
            let now = Some(Duration::ZERO);
            rustix::net::sockopt::set_socket_linger(&client.sock, now).unwrap();
        }
        drop(client);
        // It takes the place of the one before, whose end is complete then.
        let mut next = connect(&secure.plain);
        hello(&mut next, b'a');
        next.write_all(b"\x30\x04\x00\x01t-").unwrap();
        exchange(&mut watcher, b"", b"\x30\x04\x00\x01t-");
    }
    // One that is cut has its will published.
    let mut client = secure.over_tls(&cert);
    hello_with_will(&mut client, b'a');
    drop(client);
    exchange(&mut watcher, b"", b"\x30\x04\x00\x01tw");
}

#[test]
fn sighup_renews_the_certificate_and_connections_go_on() {
    let (secure, cert) = Secure::start();
    let mut before = secure.over_tls(&cert);
    hello(&mut before, b'a');
    // Half of a pair: the one from before stays.
    std::fs::write(secure.home.path().join("key.pem"), "nothing").unwrap();
    kill_process(secure.pid(), Signal::HUP).unwrap();
    exchange(&mut before, b"\xc0\x00", b"\xd0\x00");
    hello(&mut secure.over_tls(&cert), b'b');
    let renewed = install(&secure.home);
    kill_process(secure.pid(), Signal::HUP).unwrap();
    let until = Instant::now() + PATIENCE;
    loop {
        let mut after = secure.over_tls(&renewed);
        if after.write_all(b"\xc0\x00").is_ok() {
            break;
        }
        assert!(Instant::now() < until, "the old one is shown for ever");
    }
    hello(&mut secure.over_tls(&renewed), b'c');
    exchange(&mut before, b"\xc0\x00", b"\xd0\x00");
}

#[test]
fn what_is_wrong_with_the_files_ends_with_78_and_names_its_flag() {
    let home = tempfile::tempdir().unwrap();
    install(&home);
    let path = |name: &str| home.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(path("empty.pem"), "").unwrap();
    let (cert, key, empty) = (path("cert.pem"), path("key.pem"), path("empty.pem"));
    let absent = path("absent.pem");
    let other = tempfile::tempdir().unwrap();
    install(&other);
    let foreign = other.path().join("key.pem").to_str().unwrap().to_owned();
    let tls = ["--bind", "tls://127.0.0.1:0"];
    let cases: [(&[&str], &str); 7] = [
        (&[], "--cert"),
        (&["--cert", &absent, "--key", &key], "--cert"),
        (&["--cert", &empty, "--key", &key], "--cert"),
        (&["--cert", &cert, "--key", &absent], "--key"),
        (&["--cert", &cert, "--key", &cert], "--key"),
        (&["--cert", &cert, "--key", &foreign], "--key"),
        (&["--cert", &cert, "--key", &key, "--client-ca", &empty], "--client-ca"),
    ];
    for (arguments, flag) in cases {
        let (ended, said) = run(&[&tls, arguments].concat());
        assert_eq!(ended.code(), Some(78), "{arguments:?}: {said}");
        assert!(said.contains(flag), "{arguments:?}: {said}");
    }
    let plain = ["--bind", "tcp://127.0.0.1:0", "--cert", &cert, "--key", &key];
    assert_eq!(run(&plain).0.code(), Some(78));
}

/// Notes how each client came, and lets in who has shown a certificate.
#[derive(Default)]
struct Doorman(Mutex<Vec<Peer>>);

impl Authenticator for Doorman {
    fn authenticate(&self, login: &Login<'_>) -> Answer<Verdict> {
        self.0.lock().unwrap().push(login.peer.clone());
        match &login.peer.certificate {
            Some(_) => Verdict::Admit(Identity::default()).into(),
            None => Verdict::Refuse(Refusal::NotAuthorized).into(),
        }
    }
}

#[test]
fn hooks_see_the_certificate_and_the_name_that_was_asked_for() {
    let home = tempfile::tempdir().unwrap();
    let trusted = install(&home);
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["device".to_owned()]).unwrap();
    let own = params.self_signed(&key).unwrap();
    let path = |name| home.path().join(name);
    std::fs::write(path("clients.pem"), own.pem()).unwrap();
    let clients = Some(ClientCerts { ca: path("clients.pem"), required: false });
    let files = TlsFiles { cert: path("cert.pem"), key: path("key.pem"), clients };
    let doorman = Arc::new(Doorman::default());
    let authenticator: Arc<dyn Authenticator> = Arc::<Doorman>::clone(&doorman);
    let hooks = Hooks { authenticator: Some(authenticator), ..Hooks::default() };
    let embedded = Embedded::start(hooks);
    let server = TlsServer::load(files).unwrap();
    let broker = embedded.broker();
    let bound = wait(broker.bind_tls("tls://127.0.0.1:0", Arc::clone(&server))).unwrap();
    // One server may serve several endpoints, and counts once.
    wait(broker.bind_tls("tls://127.0.0.1:0", server)).unwrap();
    let identity = (own.der().clone(), PrivateKeyDer::try_from(key.serialize_der()).unwrap());
    let packet = b"\x10\x0d\x00\x04MQTT\x04\x02\x00\x00\x00\x01c";
    for (shown, code) in [(Some(identity), 0), (None, 5)] {
        let expected = shown.as_ref().map(|(cert, _)| cert.to_vec());
        let mut stream = over_tls(&bound.addr.to_string(), &trusted, shown);
        exchange(&mut stream, packet, &[0x20, 2, 0, code]);
        let Peer { addr, listener, transport, certificate, server_name, .. } =
            doorman.0.lock().unwrap().pop().unwrap();
        assert_eq!(addr, stream.sock.local_addr().unwrap());
        assert_eq!((&*listener, transport), (&*bound.endpoint.to_string(), Transport::Tls));
        assert_eq!(certificate.as_deref(), expected.as_deref());
        assert_eq!(server_name.as_deref(), Some("localhost"));
    }
    exchange(&mut connect(&embedded.address.to_string()), packet, b"\x20\x02\x00\x05");
    let plain = doorman.0.lock().unwrap().pop().unwrap();
    assert_eq!(
        (plain.transport, plain.certificate, plain.server_name),
        (Transport::Tcp, None, None)
    );
    // What is not TLS is counted, as each handshake is.
    let mut stranger = connect(&bound.addr.to_string());
    stranger.write_all(packet).unwrap();
    stranger.read_to_end(&mut Vec::new()).unwrap();
    let counts = broker.counts();
    assert_eq!((counts.handshakes, counts.handshakes_resumed), (2, 0));
    assert_eq!((counts.handshakes_failed, counts.handshakes_not_tls), (1, 1));
}
