//! The broker over TLS, from outside: the flags, what clients are served, what ends do to a will,
//! certificates that are renewed.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![cfg(feature = "tls")]

mod support;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rcgen::{CertificateParams, KeyPair};
use rustix::process::{Pid, Signal, kill_process};
use rustls::crypto::ring::default_provider;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use support::{PATIENCE, run};
use tempfile::TempDir;

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
        let mut roots = RootCertStore::empty();
        roots.add(trusted.clone()).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = ServerName::try_from("localhost").unwrap();
        let session = ClientConnection::new(Arc::new(config), name).unwrap();
        Stream::new(session, connect(&self.tls))
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
