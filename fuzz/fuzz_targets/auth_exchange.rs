//! Whole brokers that let in by SCRAM-SHA-256 alone, and clients that say anything at any moment:
//! whatever comes back is packets, nobody is let in or stays without having proved the password,
//! who has proved it is let in, and nobody is served before.

#![no_main]

use std::sync::{Arc, OnceLock};

use arbitrary::Arbitrary;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD as BASE64;
use hmac::{Hmac, KeyInit as _, Mac as _};
use libfuzzer_sys::fuzz_target;
use sha2::{Digest as _, Sha256};
use zzq_broker::clock::{Clock, Reading};
use zzq_broker::hooks::scram::{Keys, METHOD, Scram, entry};
use zzq_broker::stepped::{Stepped, SteppedOptions};
use zzq_broker::{BrokerOptions, Hooks};
use zzq_codec::{Decoder, Limits, Packet};
use zzq_lanes::driver::Rest;
use zzq_lanes::driver::mem::MemPeer;
use zzq_types::{Property, PropertyId, ProtocolVersion, ReasonCode};
use zzq_wal::sim_disk::SimDisk;

const SALT: [u8; 16] = [7; 16];
const ROUNDS: u32 = 4096;
const PASSWORD: &[u8] = b"pencil";
/// Turns that any step takes, and more.
const TURNS: usize = 100;

#[derive(Arbitrary, Debug)]
enum Step {
    Connect(Method, Words),
    Auth(u8, Method, Words),
    /// At QoS 1.
    Publish,
    Any(Vec<u8>),
}

#[derive(Arbitrary, Debug, PartialEq)]
enum Method {
    Scram,
    Other,
    None,
}

#[derive(Arbitrary, Debug)]
enum Words {
    None,
    /// The first message, of a user that has a key or of one that has none.
    First {
        known: bool,
    },
    /// The right answer to the last challenge.
    Last,
    /// The same with a byte changed.
    Spoilt {
        at: u8,
        by: u8,
    },
    Any(Vec<u8>),
}

fuzz_target!(|steps: Vec<Step>| {
    let mut world = World::new();
    for step in &steps {
        world.step(step);
    }
    let mut honest = World::new();
    honest.step(&Step::Connect(Method::Scram, Words::First { known: true }));
    assert!(honest.challenge.is_some(), "no challenge");
    honest.step(&Step::Auth(0x18, Method::Scram, Words::Last));
    assert!(honest.is_in, "who knows the password is let in");
});

/// A broker and one client of it.
struct World {
    broker: Stepped<SimDisk, Still>,
    peer: MemPeer,
    received: Vec<u8>,
    /// What the client has said first, without its header, and the answer to that.
    said: String,
    known: bool,
    challenge: Option<String>,
    /// The last thing sent was a proof.
    has_proved: bool,
    is_in: bool,
}

#[derive(Clone)]
struct Still;

impl Clock for Still {
    fn read(&mut self) -> Reading {
        Reading { boot_ms: 0, wall_ms: 1_700_000_000_000 }
    }
}

impl World {
    fn new() -> Self {
        static LINE: OnceLock<String> = OnceLock::new();
        let line = LINE.get_or_init(|| entry("user", PASSWORD, &SALT, ROUNDS).expect("an entry"));
        let keys = Keys::parse(line).expect("a file of one line");
        let scram = Scram::new(keys, false).expect("random numbers");
        let hooks = Hooks { authenticator: Some(Arc::new(scram)), ..Hooks::default() };
        let options = SteppedOptions {
            lanes: 1,
            broker: BrokerOptions::default(),
            hooks,
            log: None,
            random: 7,
            limits: zzq_lanes::Limits::default(),
            leaves_from: usize::MAX,
        };
        let started = Stepped::start(SimDisk::new(), options, Still, &mut |_| true);
        let mut broker = started.expect("a broker without a log starts");
        let peer = broker.connect(0);
        Self {
            broker,
            peer,
            received: Vec::new(),
            said: String::new(),
            known: false,
            challenge: None,
            has_proved: false,
            is_in: false,
        }
    }

    fn step(&mut self, step: &Step) {
        if self.peer.is_ended() {
            return;
        }
        self.has_proved = false;
        let bytes = match step {
            Step::Connect(method, words) => {
                let properties = self.properties(method, words);
                let head = [0, 4, b'M', b'Q', b'T', b'T', 5, 2, 0, 0];
                packet(0x10, &[&head[..], &properties, &[0, 1, b'c']].concat())
            }
            Step::Auth(reason, method, words) => {
                let properties = self.properties(method, words);
                packet(0xF0, &[&[*reason][..], &properties].concat())
            }
            Step::Publish => packet(0x32, &[0, 1, b't', 0, 1, 0]),
            Step::Any(bytes) => bytes.clone(),
        };
        self.peer.send(&bytes);
        for _ in 0..TURNS {
            self.broker.turn(0);
            if self.broker.rest(0) != Rest::Now {
                break;
            }
        }
        self.received.extend(self.peer.receive());
        while self.take_packet() {}
    }

    /// What came is a packet, and one that may come now.
    fn take_packet(&mut self) -> bool {
        let decoder = Decoder::of_servers(ProtocolVersion::V5, Limits::default());
        let received = std::mem::take(&mut self.received);
        let decoded = decoder.decode(&received).expect("a broker sends packets");
        let Some((packet, size)) = decoded else {
            assert!(received.is_empty() || !self.peer.is_ended(), "half a packet");
            self.received = received;
            return false;
        };
        match packet {
            Packet::ConnAck(ack) if ack.reason == ReasonCode::Success => {
                assert!(self.has_proved && !self.is_in, "let in without a proof");
                self.is_in = true;
            }
            Packet::Auth(auth) if auth.reason == ReasonCode::Success => {
                assert!(self.has_proved && self.is_in, "authenticated without a proof");
            }
            Packet::Auth(auth) => {
                assert_eq!(auth.reason, ReasonCode::ContinueAuthentication);
                // Whoever says nothing is asked, with as little.
                self.challenge = match auth.properties.find(PropertyId::AuthData) {
                    Some(Property::AuthData(data)) => {
                        Some(String::from_utf8(data.to_vec()).expect("SCRAM is text"))
                    }
                    _ => None,
                };
            }
            Packet::ConnAck(_) | Packet::Disconnect(_) => {}
            other => assert!(self.is_in, "{other:?} before CONNACK"),
        }
        self.received = received[size..].to_vec();
        true
    }

    fn properties(&mut self, method: &Method, words: &Words) -> Vec<u8> {
        let mut block = Vec::new();
        let name = match method {
            Method::Scram => METHOD,
            Method::Other => "SCRAM-SHA-1",
            Method::None => "",
        };
        if *method != Method::None {
            block.push(0x15);
            block.extend(field(name.as_bytes()));
        }
        if let Some(data) = self.words(words) {
            block.push(0x16);
            block.extend(field(&data));
        }
        [varint(block.len()), block].concat()
    }

    fn words(&mut self, words: &Words) -> Option<Vec<u8>> {
        match words {
            Words::None => None,
            Words::First { known } => {
                self.known = *known;
                self.said = format!("n={},r=abc", if *known { "user" } else { "nobody" });
                Some(format!("n,,{}", self.said).into_bytes())
            }
            Words::Last => self.proof(),
            Words::Spoilt { at, by } => {
                let mut proof = self.proof()?;
                let at = usize::from(*at) % proof.len();
                proof[at] ^= by;
                self.has_proved &= *by == 0;
                Some(proof)
            }
            Words::Any(bytes) => Some(bytes.iter().copied().take(1000).collect()),
        }
    }

    /// What a client answers that knows the password; once.
    fn proof(&mut self) -> Option<Vec<u8>> {
        let challenge = self.challenge.take()?;
        let nonce = challenge.split(',').next()?;
        let without_proof = format!("c=biws,{nonce}");
        let said = format!("{},{challenge},{without_proof}", self.said);
        let mut client = client_key();
        let signature = mac(&Sha256::digest(client).into(), said.as_bytes());
        client.iter_mut().zip(signature).for_each(|(byte, mask)| *byte ^= mask);
        self.has_proved = self.known;
        Some(format!("{without_proof},p={}", BASE64.encode(client)).into_bytes())
    }
}

fn client_key() -> [u8; 32] {
    static KEY: OnceLock<[u8; 32]> = OnceLock::new();
    *KEY.get_or_init(|| {
        // PBKDF2 of one block.
        let salted = [&SALT[..], &1_u32.to_be_bytes()].concat();
        let password = hmac_of(PASSWORD);
        let round = |bytes: &[u8]| finish(password.clone(), bytes);
        let mut last = round(&salted);
        let mut key = last;
        for _ in 1..ROUNDS {
            last = round(&last);
            key.iter_mut().zip(last).for_each(|(byte, other)| *byte ^= other);
        }
        mac(&key, b"Client Key")
    })
}

fn mac(key: &[u8; 32], bytes: &[u8]) -> [u8; 32] {
    finish(hmac_of(key), bytes)
}

fn hmac_of(key: &[u8]) -> Hmac<Sha256> {
    Hmac::new_from_slice(key).expect("any key will do")
}

fn finish(mut mac: Hmac<Sha256>, bytes: &[u8]) -> [u8; 32] {
    mac.update(bytes);
    mac.finalize().into_bytes().into()
}

fn packet(first: u8, body: &[u8]) -> Vec<u8> {
    [&[first][..], &varint(body.len()), body].concat()
}

fn field(bytes: &[u8]) -> Vec<u8> {
    let len = u16::try_from(bytes.len()).expect("short words");
    [&len.to_be_bytes()[..], bytes].concat()
}

fn varint(mut value: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let low = (value % 128) as u8;
        value /= 128;
        bytes.push(if value > 0 { low | 0x80 } else { low });
        if value == 0 {
            return bytes;
        }
    }
}
