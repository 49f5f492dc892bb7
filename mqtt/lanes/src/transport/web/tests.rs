//! One session over a socket in memory, against the library's client.
#![allow(clippy::panic, clippy::unwrap_used, reason = "helpers of tests fail loudly")]
use std::{
    io::{self, ErrorKind, IoSlice},
    sync::Arc,
};

use proptest::prelude::*;
use tungstenite::{
    Message,
    protocol::{
        Role, WebSocketContext,
        frame::{
            FrameHeader,
            coding::{CloseCode, Control, Data, OpCode},
        },
    },
};

use super::{WebFault, WebServer, session::WebSession, upgrade::REQUEST_MOST};
use crate::{
    driver::{
        Driver, Event, Read, Rest, Write,
        mem::{MemDriver, MemPeer},
    },
    id::ConnId,
    time::Millis,
    transport::layer::{End, Session, Step},
    waker::LaneWaker,
};

/// The key and its answer are those of RFC 6455, 1.3.
const REQUEST: &str = "GET /mqtt HTTP/1.1\r\nHost: broker.example:8083\r\nUpgrade: WebSocket\r\n\
    Connection: keep-alive, Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
    Origin: http://example.com\r\nSec-WebSocket-Protocol: mqttv3.1, mqtt\r\n\
    Sec-WebSocket-Version: 13\r\n\r\n";
const KEY: &str = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";

/// A session, and its client's socket.
struct Served {
    driver: MemDriver,
    mem: MemPeer,
    session: WebSession,
    scratch: Vec<u8>,
}

impl Served {
    fn new(path: Option<&str>) -> Self {
        let (mut driver, conn) = (MemDriver::default(), ConnId { index: 0, generation: 0 });
        let mem = driver.connect();
        let mut events = Vec::new();
        driver.wait(Rest::Now, &LaneWaker::flag_only(), &mut events);
        let Some(Event::Accepted(accepted)) = events.pop() else { panic!("{events:?}") };
        driver.add(conn, accepted.socket).unwrap();
        let mut session = WebSession::new(Arc::new(WebServer::new(path.map(str::to_owned))));
        session.begin(conn, Millis::default());
        Self { driver, mem, session, scratch: vec![0; 64 << 10] }
    }

    /// Behind its handshake.
    fn open() -> Self {
        let mut served = Self::new(None);
        served.mem.send(REQUEST.as_bytes());
        assert!(matches!(served.step(), Step::Done(None)));
        served.mem.receive();
        served
    }

    fn step(&mut self) -> Step<WebFault> {
        self.session.step(&mut self.driver, &mut self.scratch, End::default())
    }

    /// Reads all there is, so many bytes at a time.
    fn read(&mut self, most: usize) -> (Vec<u8>, Read) {
        let (mut got, mut into) = (Vec::new(), vec![0; most]);
        loop {
            match self.session.read(&mut self.driver, &mut into, &mut self.scratch) {
                Read::Bytes(count, _) => got.extend_from_slice(&into[..count]),
                end => return (got, end),
            }
        }
    }

    fn write(&mut self, pieces: &[&[u8]]) -> Write {
        let pieces: Vec<_> = pieces.iter().map(|piece| IoSlice::new(piece)).collect();
        self.session.write(&mut self.driver, &pieces).0
    }

    /// The answer to a request that came in these pieces.
    fn answer(&mut self, request: &[&str]) -> (Step<WebFault>, String) {
        let mut step = Step::Waits;
        for piece in request {
            self.mem.send(piece.as_bytes());
            step = self.step();
        }
        (step, String::from_utf8(self.mem.receive()).unwrap())
    }
}

/// The client's end of the stream, for the library.
#[derive(Default)]
struct Pipe {
    came: io::Cursor<Vec<u8>>,
    sent: Vec<u8>,
}

impl io::Read for Pipe {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match io::Read::read(&mut self.came, into)? {
            0 => Err(ErrorKind::WouldBlock.into()),
            count => Ok(count),
        }
    }
}

impl io::Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.sent.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What a client gets, as its library reads it.
fn messages(bytes: Vec<u8>) -> Vec<Message> {
    let mut client = WebSocketContext::new(Role::Client, None);
    let mut pipe = Pipe { came: io::Cursor::new(bytes), ..Pipe::default() };
    let mut all = Vec::new();
    loop {
        match client.read(&mut pipe) {
            Ok(message) => all.push(message),
            Err(tungstenite::Error::Io(_) | tungstenite::Error::ConnectionClosed) => return all,
            Err(error) => panic!("{error}"),
        }
    }
}

fn frame(opcode: OpCode, is_final: bool, mask: Option<[u8; 4]>, payload: &[u8]) -> Vec<u8> {
    let header = FrameHeader { is_final, opcode, mask, ..FrameHeader::default() };
    let mut bytes = Vec::new();
    header.format(payload.len() as u64, &mut bytes).unwrap();
    let mask = mask.unwrap_or_default();
    bytes.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    bytes
}

const MASK: Option<[u8; 4]> = Some([0xA1, 0, 0x5F, 0xFF]);

fn binary(payload: &[u8]) -> Vec<u8> {
    frame(OpCode::Data(Data::Binary), true, MASK, payload)
}

#[test]
fn a_request_is_answered_as_the_standard_says() {
    //= MQTT5-6.0.0-3, MQTT5-6.0.0-4, MQTT311-6.0.0-3, MQTT311-6.0.0-4
    for at in [0, 1, 20, REQUEST.len() - 1, REQUEST.len()] {
        let mut served = Served::new(Some("/mqtt"));
        let (begin, end) = REQUEST.split_at(at);
        let pieces: Vec<_> = [begin, end].into_iter().filter(|piece| !piece.is_empty()).collect();
        let (step, answer) = served.answer(&pieces);
        assert!(matches!(step, Step::Done(None)), "{step:?}");
        let (status, headers) = answer.split_once("\r\n").unwrap();
        assert_eq!(status, "HTTP/1.1 101 Switching Protocols");
        let headers = headers.to_ascii_lowercase();
        for header in ["upgrade: websocket", "connection: upgrade", "sec-websocket-protocol: mqtt"]
        {
            assert!(headers.contains(&format!("{header}\r\n")), "{answer}");
        }
        assert!(answer.contains(KEY) && answer.ends_with("\r\n\r\n"), "{answer}");
        assert_eq!(
            served.session.held(),
            served.session.held().min(64),
            "an idle one keeps little"
        );
    }
}

#[test]
fn headers_that_are_a_list_may_be_several() {
    let request = REQUEST.replace(
        "Connection: keep-alive, Upgrade\r\n",
        "Connection: keep-alive\r\nConnection: Upgrade\r\n",
    );
    let request = request.replace(": mqttv3.1, mqtt", ": chat\r\nSec-WebSocket-Protocol: mqttv3.1");
    let (step, answer) = Served::new(None).answer(&[&request]);
    assert!(matches!(step, Step::Done(None)), "{step:?}");
    assert!(answer.to_ascii_lowercase().contains("sec-websocket-protocol: mqttv3.1\r\n"));
}

#[test]
fn what_is_no_request_for_mqtt_is_refused_with_a_word() {
    let without = |header: &str| REQUEST.replace(header, "X-Nothing");
    for (request, why, status) in [
        ("\u{10}\u{c}\0\u{4}MQTT".to_owned(), WebFault::NotHttp, "400"),
        ("GET / HTTP/1.0\r\n\r\n".to_owned(), WebFault::NotHttp, "400"),
        ("GET /mqtt HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(), WebFault::NotWebSocket, "426"),
        (REQUEST.replace("GET", "POST"), WebFault::NotWebSocket, "426"),
        (REQUEST.replace(": 13", ": 8"), WebFault::NotWebSocket, "426"),
        (without("Sec-WebSocket-Key"), WebFault::NotWebSocket, "426"),
        (REQUEST.replace("/mqtt", "/other"), WebFault::Path, "404"),
        (without("Sec-WebSocket-Protocol"), WebFault::Subprotocol, "400"),
        (REQUEST.replace("mqttv3.1, mqtt", "MQTT, chat"), WebFault::Subprotocol, "400"),
        (format!("GET /{} HTTP/1.1\r\n", "a".repeat(REQUEST_MOST)), WebFault::TooLong, "431"),
    ] {
        let mut served = Served::new(Some("/mqtt"));
        let (step, answer) = served.answer(&[&request]);
        assert!(
            matches!(step, Step::Failed(fault, true, _) if fault == why),
            "{step:?}: {request}"
        );
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("Content-Length: {}", body.len())), "{answer}");
        // What follows is thrown away.
        served.session.refuse();
        served.mem.send(b"more");
        assert!(served.read(10).0.ends_with(b"more"));
    }
}

#[test]
fn a_request_that_never_ends_takes_bounded_memory() {
    let mut served = Served::new(None);
    served.mem.send(b"GET / HTTP/1.1\r\nCookie: ");
    assert!(matches!(served.step(), Step::Waits));
    let mut sent = 0;
    loop {
        served.mem.send(&[b'a'; 1900]);
        sent += 1900;
        assert!(sent < 2 * REQUEST_MOST, "nobody refuses it");
        assert!(served.session.held() <= 3 * REQUEST_MOST);
        match served.step() {
            Step::Waits | Step::More => {}
            Step::Failed(why, true, _) => break assert_eq!(why, WebFault::TooLong),
            step => panic!("{step:?}"),
        }
    }
}

#[test]
fn pings_of_a_client_that_does_not_read_take_bounded_memory() {
    let ping = |text: &[u8]| frame(OpCode::Control(Control::Ping), true, MASK, text);
    let mut served = Served::open();
    served.mem.set_window(100);
    for n in 0..10_000_u32 {
        served.mem.send(&ping(&[&n.to_le_bytes()[..], &[7; 121]].concat()));
        served.read(5000);
        assert!(served.session.held() < 1000, "{} bytes are kept", served.session.held());
    }
    served.session.shut(&mut served.driver);
    assert!(!served.mem.is_ended());
    served.mem.set_window(usize::MAX);
    served.session.flush_late(&mut served.driver);
    assert!(served.mem.is_ended());
    let all = messages(served.mem.receive());
    let [Message::Pong(_), .., Message::Pong(last), Message::Close(Some(_))] = all.as_slice()
    else {
        panic!("{} messages", all.len());
    };
    assert_eq!(last[..4], 9999_u32.to_le_bytes());
}

#[test]
fn what_comes_with_the_request_is_read_first() {
    let mut served = Served::new(None);
    let mut bytes = REQUEST.as_bytes().to_vec();
    bytes.extend(binary(b"early"));
    served.mem.send(&bytes);
    served.mem.send(&binary(b" late"));
    assert!(matches!(served.step(), Step::Done(None)));
    assert!(served.session.has_input());
    assert_eq!(served.read(3).0, b"early late");
    assert!(served.session.held() <= 64 && !served.session.has_input());
}

/// What a client sends.
#[derive(Clone, Debug)]
enum Part {
    /// A message, in as many frames.
    Message(Vec<Vec<u8>>),
    Ping(Vec<u8>),
    Pong(Vec<u8>),
}

fn parts() -> impl Strategy<Value = Vec<Part>> {
    let bytes = |most| prop::collection::vec(any::<u8>(), 0..most);
    let payload = prop_oneof![4 => bytes(20), 2 => bytes(300), 1 => bytes(70_000)];
    prop::collection::vec(
        prop_oneof![
            4 => prop::collection::vec(payload, 1..4).prop_map(Part::Message),
            1 => bytes(126).prop_map(Part::Ping),
            1 => bytes(126).prop_map(Part::Pong),
        ],
        1..12,
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    /// However it is cut into messages, frames, pieces and reads.
    #[test]
    fn what_a_client_sends_comes_whole_and_in_order(
        parts in parts(),
        mask: [u8; 4],
        cuts in prop::collection::vec(1..5000_usize, 1..40),
        most in 1..9000_usize,
    ) {
        //= MQTT5-6.0.0-2, MQTT311-6.0.0-2
        let (mut wire, mut expected, mut pings) = (Vec::new(), Vec::new(), Vec::new());
        for part in &parts {
            match part {
                Part::Message(frames) => for (n, payload) in frames.iter().enumerate() {
                    let data = if n == 0 { Data::Binary } else { Data::Continue };
                    let is_final = n + 1 == frames.len();
                    wire.extend(frame(OpCode::Data(data), is_final, Some(mask), payload));
                    // Control frames may come between those of a message.
                    wire.extend(frame(OpCode::Control(Control::Pong), true, Some(mask), b""));
                    expected.extend_from_slice(payload);
                },
                Part::Ping(payload) => {
                    wire.extend(frame(OpCode::Control(Control::Ping), true, Some(mask), payload));
                    pings.push(payload.clone());
                }
                Part::Pong(payload) => {
                    wire.extend(frame(OpCode::Control(Control::Pong), true, Some(mask), payload));
                }
            }
        }
        let mut served = Served::open();
        let (mut rest, mut cuts) = (wire.as_slice(), cuts.into_iter().cycle());
        let mut got = Vec::new();
        while !rest.is_empty() {
            let (piece, behind) = rest.split_at(cuts.next().unwrap().min(rest.len()));
            served.mem.send(piece);
            rest = behind;
            got.extend(served.read(most).0);
        }
        prop_assert!(got == expected, "{} bytes of {}", got.len(), expected.len());
        let pongs: Vec<_> = messages(served.mem.receive());
        let last = pings.last().map(|payload| Message::Pong(payload.clone().into()));
        prop_assert_eq!(pongs.last().cloned(), last);
        prop_assert!(pongs.len() <= pings.len());
    }

    /// However little the socket takes, and whatever goes between.
    #[test]
    fn what_the_lane_writes_comes_whole_and_in_order(
        writes in prop::collection::vec(
            prop::collection::vec(prop::collection::vec(any::<u8>(), 0..400), 1..20), 1..12),
        windows in prop::collection::vec(0..700_usize, 1..40),
        pings in 0..6_usize,
    ) {
        let mut served = Served::open();
        let mut windows = windows.into_iter().chain([usize::MAX]).cycle();
        let (mut wire, mut expected) = (Vec::new(), Vec::new());
        let mut queue: Vec<u8> = Vec::new();
        for (n, pieces) in writes.iter().enumerate() {
            for piece in pieces {
                queue.extend_from_slice(piece);
                expected.extend_from_slice(piece);
            }
            if n < pings {
                served.mem.send(&frame(OpCode::Control(Control::Ping), true, MASK, b"there?"));
                served.read(100);
            }
            for _ in 0..3 {
                served.mem.set_window(windows.next().unwrap());
                let lens: Vec<_> = queue.chunks(100).collect();
                match served.write(&lens) {
                    Write::Took(count) => drop(queue.drain(..count)),
                    Write::Failed(kind) | Write::Refused(kind) => panic!("{kind}"),
                }
                served.session.flush_late(&mut served.driver);
                wire.extend(served.mem.receive());
            }
        }
        served.mem.set_window(usize::MAX);
        while !queue.is_empty() {
            let lens: Vec<_> = queue.chunks(100).collect();
            let Write::Took(count) = served.write(&lens) else { panic!("it failed") };
            queue.drain(..count);
        }
        served.session.flush_late(&mut served.driver);
        prop_assert!(!served.session.waits_for_room());
        served.session.shut(&mut served.driver);
        wire.extend(served.mem.receive());
        prop_assert!(served.mem.is_ended());
        let all = messages(wire);
        let data: Vec<u8> = all
            .iter()
            .filter_map(|message| match message {
                Message::Binary(bytes) => Some(bytes.to_vec()),
                _ => None,
            })
            .flatten()
            .collect();
        prop_assert!(data == expected, "{} bytes of {}", data.len(), expected.len());
        let pongs = all.iter().filter(|message| matches!(message, Message::Pong(_))).count();
        let sent = pings.min(writes.len());
        prop_assert!((usize::from(sent > 0)..=sent).contains(&pongs), "{} of {}", pongs, sent);
        let closed = matches!(all.last(), Some(Message::Close(Some(close)))
            if close.code == CloseCode::Normal);
        prop_assert!(closed, "{:?}", all.last());
    }
}

#[test]
fn a_client_that_breaks_the_protocol_is_told_so_behind_what_was_right() {
    //= MQTT5-6.0.0-1, MQTT311-6.0.0-1
    let control = |control| OpCode::Control(control);
    let unmasked = frame(OpCode::Data(Data::Binary), true, None, b"x");
    let mut reserved = binary(b"x");
    reserved[0] |= 0x40;
    let mut unknown = binary(b"x");
    unknown[0] = 0x83;
    let mut endless = binary(b"x");
    endless.splice(1..2, [0xFF, 0xFF, 0, 0, 0, 0, 0, 0, 0]);
    let begun = frame(OpCode::Data(Data::Binary), false, MASK, b"");
    for (bytes, code) in [
        (unmasked, CloseCode::Protocol),
        (reserved, CloseCode::Protocol),
        (unknown, CloseCode::Protocol),
        (endless, CloseCode::Protocol),
        (frame(OpCode::Data(Data::Continue), true, MASK, b"x"), CloseCode::Protocol),
        ([begun, binary(b"x")].concat(), CloseCode::Protocol),
        (frame(control(Control::Ping), false, MASK, b"x"), CloseCode::Protocol),
        (frame(control(Control::Ping), true, MASK, &[0; 126]), CloseCode::Protocol),
        (frame(control(Control::Close), true, MASK, &[3]), CloseCode::Protocol),
        (frame(OpCode::Data(Data::Text), true, MASK, b"x"), CloseCode::Unsupported),
    ] {
        let mut served = Served::open();
        served.mem.send(&[binary(b"right"), bytes.clone(), binary(b"behind")].concat());
        let (got, end) = served.read(1000);
        assert_eq!(got, b"right", "{bytes:?}");
        assert!(matches!(end, Read::Refused(ErrorKind::InvalidData)), "{end:?}");
        let told = messages(served.mem.receive());
        let [Message::Close(Some(close))] = told.as_slice() else { panic!("{told:?}") };
        assert_eq!(close.code, code, "{bytes:?}");
        assert!(matches!(served.write(&[b"x"]), Write::Refused(_)));
    }
}

#[test]
fn a_close_is_an_end_and_is_answered_when_the_lane_has_no_more() {
    for (payload, answer) in [
        (vec![], CloseCode::Normal),
        (vec![0x03, 0xE9, b'b', b'y', b'e'], CloseCode::Away),
        // One that is in no frame.
        (vec![0x03, 0xED], CloseCode::Protocol),
    ] {
        let mut served = Served::open();
        let close = frame(OpCode::Control(Control::Close), true, MASK, &payload);
        served.mem.send(&[binary(b"last"), close, binary(b"behind")].concat());
        let (got, end) = served.read(1000);
        assert_eq!(got, b"last");
        assert!(matches!(end, Read::Ended), "{end:?}");
        assert!(matches!(served.write(&[b"an", b"swer"]), Write::Took(6)));
        served.session.shut(&mut served.driver);
        let told = messages(served.mem.receive());
        let [Message::Binary(text), Message::Close(Some(close))] = told.as_slice() else {
            panic!("{told:?}");
        };
        assert_eq!((&text[..], close.code), (&b"answer"[..], answer));
        assert!(served.mem.is_ended());
    }
}

/// A close frame in the middle of another would be part of that.
#[test]
fn an_end_within_a_frame_is_one_without_a_word() {
    let mut served = Served::open();
    served.mem.set_window(10);
    assert!(matches!(served.write(&[&[7; 100]]), Write::Took(8)));
    served.session.shut(&mut served.driver);
    served.mem.set_window(1000);
    served.session.flush_late(&mut served.driver);
    assert_eq!(served.mem.receive().len(), 10);
    assert!(served.mem.is_ended());
}

#[test]
fn what_was_taken_below_goes_along_to_another_lane() {
    let mut served = Served::open();
    let bytes = binary(b"moves");
    served.session.travel(&bytes[..4], b"unsent".to_vec());
    served.mem.send(&bytes[4..]);
    assert_eq!(served.read(100).0, b"moves");
    served.session.flush_late(&mut served.driver);
    assert_eq!(served.mem.receive(), b"unsent");
}

/// The other lane's driver sends first what this one had taken; only then what is left of the frame
/// that the lane had begun, and control frames behind it.
#[test]
fn a_frame_of_which_a_part_was_unsent_goes_on_from_another_lane() {
    let payload: Vec<u8> = (0..100).collect();
    for taken in 1..102 {
        for sent in 0..=taken {
            let mut served = Served::open();
            served.mem.set_window(taken);
            let Write::Took(count) = served.write(&[&payload]) else { panic!("it failed") };
            served.mem.send(&frame(OpCode::Control(Control::Ping), true, MASK, b"there?"));
            assert!(served.read(100).0.is_empty());
            // Of what its driver took it has not sent all.
            let mut wire = served.mem.receive();
            let unsent = wire.split_off(sent);
            served.session.travel(&[], unsent);
            let here = std::mem::replace(&mut served, Served::open());
            served.session = here.session;
            served.session.flush_late(&mut served.driver);
            assert!(matches!(served.write(&[&payload[count..], b"more"]), Write::Took(_)));
            served.session.shut(&mut served.driver);
            wire.extend(served.mem.receive());
            let (mut data, mut pongs, mut closes) = (Vec::new(), 0, 0);
            for message in messages(wire) {
                match message {
                    Message::Binary(piece) => data.extend_from_slice(&piece),
                    Message::Pong(text) => pongs += usize::from(&text[..] == b"there?"),
                    Message::Close(_) => closes += 1,
                    other => panic!("{other:?}"),
                }
            }
            assert!(data == [&payload[..], b"more"].concat(), "{taken} taken, {sent} sent");
            assert_eq!((pongs, closes), (1, 1), "{taken} taken, {sent} sent");
        }
    }
}
