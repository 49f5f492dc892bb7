//! Lanes over WebSocket and real sockets, under each driver, without TLS and with it, against the
//! library's client.
#![cfg(feature = "web")]
#![allow(clippy::panic, clippy::unwrap_used, reason = "helpers of tests fail loudly")]
#[cfg(feature = "tls")]
mod secure;
mod wire;

use std::{
    io::{self, Read, Write},
    net::TcpStream,
    sync::mpsc::channel,
};

use tungstenite::{
    Message, WebSocket,
    client::IntoClientRequest,
    handshake::client::Response,
    http::HeaderValue,
    protocol::{CloseFrame, frame::coding::CloseCode},
};
use wire::{PATIENCE, Server, Told, Wire, assert_echo, on_each, pattern};
use zzq_lanes::{
    BindOptions, Bound, CloseReason, Context, DriverKind, LaneIndex, Limits, WebFault,
};

fn server(driver: DriverKind, lanes: usize, limits: Limits) -> Server {
    let (tell, told) = channel();
    let context = Context::builder().lanes(lanes).driver(driver).limits(limits).build();
    let commands = lanes > 1;
    let wire = |_: &mut _| Ok(Wire { commands, ..Wire::new(tell.clone()) });
    let lanes = context.spawn(wire).unwrap();
    let bound = lanes.bind("ws://127.0.0.1:0/mqtt", BindOptions::default()).wait().unwrap();
    Server { context, lanes, bound, told }
}

fn failed(bound: &Bound, why: WebFault) -> u64 {
    bound.web.as_ref().unwrap().stats().failed(why)
}

/// Asks for a WebSocket, as an MQTT client does.
fn upgrade<S: Read + Write>(stream: S) -> (WebSocket<S>, Response) {
    let mut request = "ws://127.0.0.1/mqtt".into_client_request().unwrap();
    let protocol = HeaderValue::from_static("mqtt");
    request.headers_mut().insert("Sec-WebSocket-Protocol", protocol);
    match tungstenite::client::client(request, stream) {
        Ok(done) => done,
        Err(error) => panic!("no handshake: {error}"),
    }
}

/// Sends it in messages of this length, and takes it back however it comes.
fn echo<S: Read + Write>(client: &mut WebSocket<S>, bytes: &[u8], each: usize) {
    for piece in bytes.chunks(each) {
        client.send(Message::binary(piece.to_vec())).unwrap();
    }
    let mut back = Vec::new();
    while back.len() < bytes.len() {
        match client.read().unwrap() {
            Message::Binary(piece) => back.extend_from_slice(&piece),
            Message::Pong(_) => {}
            other => panic!("{other:?}"),
        }
    }
    assert!(back == bytes, "{} bytes came back changed", bytes.len());
}

fn close<S: Read + Write>(mut client: WebSocket<S>) {
    let why = CloseFrame { code: CloseCode::Normal, reason: "done".into() };
    client.close(Some(why)).unwrap();
    loop {
        match client.read().unwrap() {
            Message::Pong(_) => {}
            Message::Close(Some(close)) => break assert_eq!(close.code, CloseCode::Normal),
            other => panic!("{other:?}"),
        }
    }
    let end = client.read().unwrap_err();
    assert!(matches!(end, tungstenite::Error::ConnectionClosed), "{end}");
}

#[test]
fn bytes_come_back_however_they_are_cut_and_ends_are_clean() {
    //= MQTT5-6.0.0-2, MQTT5-6.0.0-4, MQTT311-6.0.0-2, MQTT311-6.0.0-4
    on_each(|driver| {
        let server = server(driver, 1, Limits::default());
        assert!(server.bound.endpoint.to_string().starts_with("ws://127.0.0.1:"));
        assert!(server.bound.endpoint.to_string().ends_with("/mqtt"));
        let (mut client, response) = upgrade(server.connect());
        assert_eq!(response.headers()["sec-websocket-protocol"], "mqtt");
        assert_eq!(server.hear(), Told::Accepted(LaneIndex(0)));
        for (size, each) in [(1, 1), (100, 7), (5000, 4097), (70_000, 70_000), (200_000, 3000)] {
            echo(&mut client, &pattern(size), each);
            client.send(Message::Ping("there?".into())).unwrap();
        }
        close(client);
        assert_eq!(server.hear(), Told::Closed(CloseReason::Ended));
        assert_eq!(server.bound.web.as_ref().unwrap().stats().done, 1);
    });
}

#[test]
fn a_plain_listener_and_one_with_websockets_serve_beside_each_other() {
    on_each(|driver| {
        let server = server(driver, 1, Limits::default());
        let plain = server.lanes.bind("tcp://127.0.0.1:0", BindOptions::default()).wait().unwrap();
        let mut plain = wire::connect(plain.addr);
        let (mut client, _) = upgrade(server.connect());
        for size in [1, 100, 5000, 70_000] {
            echo(&mut client, &pattern(size), 1000);
            assert_echo(&mut plain, &pattern(size));
        }
    });
}

/// The handler asserts the bound on each read.
#[test]
fn a_peer_that_does_not_read_is_held_in_bounded_memory_and_loses_nothing() {
    on_each(|driver| {
        let server = server(driver, 1, Limits::default());
        let (mut client, _) = upgrade(server.connect());
        let sent = pattern(8 << 20);
        let Ok(mut reader) = client.get_ref().try_clone() else { panic!("no second handle") };
        std::thread::scope(|scope| {
            let sent = &sent;
            scope.spawn(move || {
                for piece in sent.chunks(100_000) {
                    client.send(Message::binary(piece.to_vec())).unwrap();
                }
                client
            });
            // It begins to read when the handler has had enough.
            while server.hear() != Told::Paused {}
            let mut back = Vec::new();
            let mut frames = WebSocket::from_raw_socket(
                ReadOnly(&mut reader),
                tungstenite::protocol::Role::Client,
                None,
            );
            while back.len() < sent.len() {
                match frames.read().unwrap() {
                    Message::Binary(piece) => back.extend_from_slice(&piece),
                    other => panic!("{other:?}"),
                }
            }
            assert!(back == *sent);
        });
    });
}

struct ReadOnly<'a>(&'a mut TcpStream);

impl Read for ReadOnly<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0.read(into)
    }
}

impl Write for ReadOnly<'_> {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        panic!("another thread writes")
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_connection_moves_between_lanes_within_a_frame() {
    on_each(|driver| {
        let server = server(driver, 2, Limits::default());
        let (mut client, _) = upgrade(server.connect());
        let Told::Accepted(first) = server.hear() else { panic!("nobody came") };
        for n in 1..6 {
            echo_moved(&mut client, &pattern(30_000));
            assert_eq!(server.hear(), Told::Adopted(LaneIndex((first.0 + n) % 2)));
        }
        close(client);
    });
}

/// The first byte moves it; what follows in the same message comes back from the other lane.
fn echo_moved(client: &mut WebSocket<TcpStream>, bytes: &[u8]) {
    // Nothing else of it is a command.
    let bytes: Vec<u8> = bytes.iter().map(|byte| byte & 0x3F).collect();
    client.send(Message::binary([b"M", &bytes[..]].concat())).unwrap();
    let mut back = Vec::new();
    while back.len() < bytes.len() {
        match client.read().unwrap() {
            Message::Binary(piece) => back.extend_from_slice(&piece),
            other => panic!("{other:?}"),
        }
    }
    assert!(back == bytes);
}

#[test]
fn who_is_refused_is_told_why_and_closed() {
    on_each(|driver| {
        let server = server(driver, 1, Limits::default());
        for (request, status, why) in [
            ("GET / HTTP/1.1\r\n\r\n", "HTTP/1.1 404 ", WebFault::Path),
            ("GET /mqtt HTTP/1.1\r\n\r\n", "HTTP/1.1 426 ", WebFault::NotWebSocket),
            ("\u{10}\u{c}", "HTTP/1.1 400 ", WebFault::NotHttp),
        ] {
            let mut stream = server.connect();
            stream.write_all(request.as_bytes()).unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            assert!(answer.starts_with(status), "{answer}");
            assert_eq!(failed(&server.bound, why), 1);
        }
    });
}

/// Each piece comes to `io_uring` by itself, whole.
#[test]
fn a_request_that_never_ends_is_refused_however_it_is_cut() {
    on_each(|driver| {
        let server = server(driver, 1, Limits::default());
        let mut stream = server.connect();
        stream.set_nodelay(true).unwrap();
        stream.write_all(b"GET /mqtt HTTP/1.1\r\nCookie: ").unwrap();
        let mut answer = Vec::new();
        for _ in 0..20 {
            // Its lane has come to the end of what was sent before this is answered.
            assert_echo(&mut probe(&server), b"x");
            if stream.write_all(&[b'a'; 1900]).is_err() {
                break;
            }
        }
        let _ = stream.read_to_end(&mut answer);
        assert_eq!(failed(&server.bound, WebFault::TooLong), 1);
        assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 431 "));
    });
}

/// A plain connection to the same lane.
fn probe(server: &Server) -> TcpStream {
    let plain = server.lanes.bind("tcp://127.0.0.1:0", BindOptions::default()).wait().unwrap();
    wire::connect(plain.addr)
}

#[test]
fn a_handshake_that_does_not_end_in_time_is_cut() {
    on_each(|driver| {
        let limits =
            Limits { handshake: std::time::Duration::from_millis(50), ..Limits::default() };
        let server = server(driver, 1, limits);
        let mut silent = server.connect();
        silent.write_all(b"GET /mqtt HTTP/1.1\r\n").unwrap();
        silent.set_read_timeout(Some(PATIENCE)).unwrap();
        assert_eq!(silent.read(&mut [0]).unwrap(), 0);
        assert_eq!(failed(&server.bound, WebFault::Timeout), 1);
    });
}

#[test]
fn a_text_message_ends_its_connection() {
    //= MQTT5-6.0.0-1, MQTT311-6.0.0-1
    on_each(|driver| {
        let server = server(driver, 1, Limits::default());
        let (mut client, _) = upgrade(server.connect());
        client.send(Message::text("hello")).unwrap();
        match client.read() {
            Ok(Message::Close(Some(close))) => assert_eq!(close.code, CloseCode::Unsupported),
            other => panic!("{other:?}"),
        }
        assert_eq!(server.hear(), Told::Accepted(LaneIndex(0)));
        let failed = CloseReason::Failed(io::ErrorKind::InvalidData);
        assert_eq!(server.hear(), Told::Closed(failed));
    });
}

/// Bytes that nobody had read would turn the end into a reset, and the close frame may be lost.
#[test]
fn who_breaks_the_protocol_and_goes_on_is_told_so_and_sees_an_end() {
    on_each(|driver| {
        let server = server(driver, 1, Limits::default());
        for (frame, code) in [
            // Its mask is missing; what it has is text.
            ([0x82, 0x01, b'x'].as_slice(), CloseCode::Protocol),
            (&[0x81, 0x81, 0, 0, 0, 0, b'x'], CloseCode::Unsupported),
        ] {
            let (client, _) = upgrade(server.connect());
            assert_eq!(server.hear(), Told::Accepted(LaneIndex(0)));
            let mut stream = client.get_ref();
            stream.write_all(frame).unwrap();
            // The handler has heard of it before anything else is sent.
            let failed = CloseReason::Failed(io::ErrorKind::InvalidData);
            assert_eq!(server.hear(), Told::Closed(failed));
            for _ in 0..8 {
                stream.write_all(&[0x55; 1000]).unwrap();
                // Its lane has come to what was sent before this is answered.
                assert_echo(&mut probe(&server), b"x");
                assert_eq!(server.hear(), Told::Accepted(LaneIndex(0)));
                assert_eq!(server.hear(), Told::Closed(CloseReason::Ended));
            }
            let mut told = Vec::new();
            stream.read_to_end(&mut told).unwrap();
            assert_eq!(told, [&[0x88, 2][..], &u16::from(code).to_be_bytes()].concat());
        }
    });
}

/// One that never stops is not read for ever.
#[test]
fn who_breaks_the_protocol_and_never_stops_is_cut() {
    on_each(|driver| {
        let limits = Limits { linger: PATIENCE * 10, ..Limits::default() };
        let server = server(driver, 1, limits);
        let (client, _) = upgrade(server.connect());
        let mut stream = client.get_ref();
        let mut sent = 0;
        while stream.write_all(&[0x55; 10_000]).is_ok() {
            sent += 10_000;
            assert!(sent < 1 << 30, "nobody cuts it");
        }
        let failed = CloseReason::Failed(io::ErrorKind::InvalidData);
        server.hear_of(&Told::Closed(failed));
    });
}

#[cfg(feature = "tls")]
mod over_tls {
    use rustls::version::TLS13;
    use std::sync::Arc;

    use zzq_lanes::{BindError, HandshakeFault, TlsServer};

    use super::*;
    use crate::secure::{Site, over};

    #[test]
    fn websockets_go_over_tls_as_well() {
        let site = Site::new();
        on_each(|driver| {
            let server = server(driver, 2, Limits::default());
            let tls = TlsServer::load(site.files()).unwrap();
            let options = BindOptions::default();
            let refused = server.lanes.bind("wss://127.0.0.1:0", options).wait();
            assert!(matches!(refused, Err(BindError::NoCertificate(_))));
            let bound = server
                .lanes
                .bind_tls("wss://127.0.0.1:0", options, Arc::clone(&tls))
                .wait()
                .unwrap();
            let stream = over(wire::connect(bound.addr), site.trusted(&TLS13));
            let (mut client, _) = upgrade(stream);
            let Told::Accepted(first) = server.hear() else { panic!("nobody came") };
            for (size, each) in [(1, 1), (5000, 4097), (300_000, 70_000)] {
                let bytes: Vec<_> = pattern(size).iter().map(|byte| byte & 0x3F).collect();
                echo(&mut client, &bytes, each);
            }
            client.send(Message::binary(&b"Mmoved"[..])).unwrap();
            assert_eq!(client.read().unwrap(), Message::binary(&b"moved"[..]));
            assert_eq!(server.hear(), Told::Adopted(LaneIndex(1 - first.0)));
            close(client);
            assert_eq!(server.hear(), Told::Closed(CloseReason::Ended));
            // Who goes in its TLS handshake is gone, at once and once.
            drop(wire::connect(bound.addr));
            let until = std::time::Instant::now() + PATIENCE;
            while tls.stats().failed(HandshakeFault::Gone) == 0 || bound.stats.open() > 0 {
                assert!(std::time::Instant::now() < until, "{:?}", tls.stats());
                std::thread::yield_now();
            }
            assert_eq!(tls.stats().failed(HandshakeFault::Timeout), 0);
            // Its handshake is one, and this is no HTTP.
            let mut stream = over(wire::connect(bound.addr), site.trusted(&TLS13));
            stream.write_all(&[0x10, 0x0C]).unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
        });
    }
}
