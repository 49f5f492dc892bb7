//! The broker over WebSocket: however packets are cut into frames, and with an end for whoever is
//! refused.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]
#![cfg(feature = "web")]

mod embedded;
mod support;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use embedded::{Embedded, wait};
use support::{Connect, PATIENCE, Publish, Version, hex, show};
use tungstenite::client::IntoClientRequest;
use tungstenite::http::HeaderValue;
use tungstenite::protocol::frame::coding::{CloseCode, Data, OpCode};
use tungstenite::protocol::frame::{Frame, FrameHeader};
use tungstenite::{Message, WebSocket};
use zzq_broker::Hooks;
use zzq_broker::hooks::{Answer, Authenticator, Identity, Login, Refusal, Transport, Verdict};

/// A client over WebSocket.
struct Client {
    web: WebSocket<TcpStream>,
    /// Bytes of packets that have come.
    came: Vec<u8>,
}

fn dial(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

impl Client {
    fn new(address: SocketAddr) -> Self {
        let mut request = format!("ws://{address}/mqtt").into_client_request().unwrap();
        let protocol = HeaderValue::from_static("mqtt");
        request.headers_mut().insert("Sec-WebSocket-Protocol", protocol);
        let (web, response) = tungstenite::client(request, dial(address)).unwrap();
        assert_eq!(response.headers()["sec-websocket-protocol"], "mqtt");
        Self { web, came: Vec::new() }
    }

    /// One message.
    fn send(&mut self, bytes: &[u8]) {
        self.web.send(Message::binary(bytes.to_vec())).unwrap();
    }

    /// One message, in frames of these bytes.
    fn send_frames(&mut self, frames: &[&[u8]]) {
        for (n, payload) in frames.iter().enumerate() {
            let data = if n == 0 { Data::Binary } else { Data::Continue };
            let frame = Frame::message(payload.to_vec(), OpCode::Data(data), n + 1 == frames.len());
            self.web.send(Message::Frame(frame)).unwrap();
        }
    }

    fn expect(&mut self, bytes: &[u8]) {
        while self.came.len() < bytes.len() {
            match self.web.read().unwrap() {
                Message::Binary(payload) => self.came.extend_from_slice(&payload),
                other => panic!("{other:?}"),
            }
        }
        let rest = self.came.split_off(bytes.len());
        assert_eq!(show(&self.came), show(bytes));
        self.came = rest;
    }

    /// The connection ends, as one that is closed well.
    fn expect_close(&mut self) {
        match self.web.read().unwrap() {
            Message::Close(Some(close)) => assert_eq!(close.code, CloseCode::Normal),
            other => panic!("{other:?}"),
        }
        assert!(matches!(self.web.read(), Err(tungstenite::Error::ConnectionClosed)));
    }
}

struct Site {
    broker: Embedded,
    address: SocketAddr,
}

impl Site {
    fn new(hooks: Hooks) -> Self {
        let broker = Embedded::start(hooks);
        let address = wait(broker.broker().bind("ws://127.0.0.1:0/mqtt")).unwrap().addr;
        Self { broker, address }
    }
}

/// A broker's WebSocket layer gave a protocol error for a packet that it had cut itself.
#[test]
fn packets_may_span_frames_and_share_them() {
    //= B48, MQTT5-6.0.0-1, MQTT5-6.0.0-2, MQTT311-6.0.0-1, MQTT311-6.0.0-2
    for version in [Version::V4, Version::V5] {
        let site = Site::new(Hooks::default());
        let mut reader = site.broker.connect(version, "reader");
        reader.subscribe("t", 0);
        let mut client = Client::new(site.address);
        let connect = Connect::new(version, "over websocket").encode();
        client.send_frames(&[&connect[..7], &connect[7..]]);
        let accepted = client.web.read().unwrap().into_data();
        assert_eq!((accepted[0], accepted[3]), (0x20, 0));
        let texts = ["one", "two", &"three".repeat(2000), "four"];
        let packets = texts.map(|text| Publish::new("t", text).encode(version));
        client.send(&[&packets[0][..], &packets[1]].concat());
        let long = &packets[2];
        client.send_frames(&[&long[..1], &long[1..5000], &long[5000..]]);
        // The end of one and the begin of the next are one message.
        let (begin, end) = packets[3].split_at(3);
        client.send(begin);
        client.send(&[end, &hex("C0 00")].concat());
        client.expect(&hex("D0 00"));
        for text in texts {
            reader.expect("t", text);
        }
        client.send(&hex("E0 00"));
        client.expect_close();
    }
}

/// Admits nobody, and notes how clients come.
#[derive(Default)]
struct Porter {
    seen: std::sync::Mutex<Vec<Transport>>,
}

impl Authenticator for Porter {
    fn authenticate(&self, login: &Login<'_>) -> Answer<Verdict> {
        self.seen.lock().unwrap().push(login.peer.transport);
        if login.user == Some("known") {
            return Verdict::Admit(Identity::default()).into();
        }
        Verdict::Refuse(Refusal::BadUserNameOrPassword).into()
    }
}

/// A broker left a dead socket open behind each of these.
#[test]
fn who_is_refused_is_closed() {
    //= B49, MQTT5-6.0.0-3, MQTT5-6.0.0-4, MQTT311-6.0.0-3, MQTT311-6.0.0-4
    let porter = Arc::new(Porter::default());
    let hooks = Hooks { authenticator: Some(Arc::clone(&porter) as _), ..Hooks::default() };
    let site = Site::new(hooks);
    for protocols in ["", "Sec-WebSocket-Protocol: chat\r\n"] {
        let mut stream = dial(site.address);
        let request = format!(
            "GET /mqtt HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\
             {protocols}\r\n"
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    }
    assert_eq!(site.broker.broker().counts().web_handshakes_subprotocol, 2);
    for (version, told) in [(Version::V4, "20 02 00 04"), (Version::V5, "20 03 00 86 00")] {
        let mut client = Client::new(site.address);
        client.send(&Connect::new(version, "c").login("stranger", "x").encode());
        client.expect(&hex(told));
        client.expect_close();
        let mut client = Client::new(site.address);
        client.send(&Connect::new(version, "c").login("known", "x").encode());
        assert_eq!(client.web.read().unwrap().into_data()[3], 0);
    }
    assert_eq!(*porter.seen.lock().unwrap(), [Transport::WebSocket; 4]);
    assert_eq!(site.broker.broker().counts().web_handshakes, 4);
}

/// What is no packet ends the connection as it does over TCP.
#[test]
fn a_client_without_masks_is_closed() {
    let site = Site::new(Hooks::default());
    let mut client = Client::new(site.address);
    let connect = Connect::new(Version::V4, "c").encode();
    let header = FrameHeader { opcode: OpCode::Data(Data::Binary), ..FrameHeader::default() };
    let mut bytes = Vec::new();
    header.format(connect.len() as u64, &mut bytes).unwrap();
    bytes.extend_from_slice(&connect);
    client.web.get_mut().write_all(&bytes).unwrap();
    match client.web.read().unwrap() {
        Message::Close(Some(close)) => assert_eq!(close.code, CloseCode::Protocol),
        other => panic!("{other:?}"),
    }
    assert!(client.web.read().is_err());
    assert!(matches!(client.web.get_mut().read(&mut [0]), Ok(0) | Err(_)));
}
