//! Enhanced authentication (MQTT 5, 4.12): the exchange at CONNECT and again afterwards, by a
//! method of the test's own and by SCRAM-SHA-256.

#![allow(clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod embedded;
mod support;

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use embedded::{Door, Embedded};
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use support::{
    Accepted, Client, Connect, Publish, Version, block, bytes, packet, read_block, show, text,
    values,
};
use zzq_broker::Hooks;
use zzq_broker::hooks::scram::{Keys, METHOD, Scram, entry};
use zzq_broker::hooks::{Answer, Authenticator, Exchange, Identity, Login, Refusal, Step, Verdict};

/// Method `pass`: it asks `who?` until it hears `me`; `no` is refused, `late` waits for the door.
#[derive(Clone, Default)]
struct Porter(Door);

impl Authenticator for Porter {
    fn authenticate(&self, _: &Login<'_>) -> Answer<Verdict> {
        Verdict::Admit(Identity::default()).into()
    }

    fn exchange(&self, method: &str, _: &Login<'_>) -> Option<Box<dyn Exchange>> {
        (method == "pass").then(|| Box::new(self.clone()) as Box<dyn Exchange>)
    }
}

impl Exchange for Porter {
    fn step(self: Box<Self>, data: Option<&[u8]>) -> Answer<Step> {
        let admit = || Step::Admit { identity: Identity::default(), data: b"welcome".to_vec() };
        match data {
            Some(b"me") => admit().into(),
            Some(b"late") => Answer::later(self.0.clone().through(()).then(admit)),
            Some(b"no") => Step::Refuse(Refusal::NotAuthorized).into(),
            Some(b"other") => Step::Refuse(Refusal::UseAnotherServer("b:1".into())).into(),
            _ => Step::Challenge { data: b"who?".to_vec(), next: self }.into(),
        }
    }
}

/// What follows a future.
trait Then: Future<Output = ()> + Send + Sized + 'static {
    fn then<T>(self, make: impl FnOnce() -> T + Send + 'static) -> impl Future<Output = T> + Send {
        async move {
            self.await;
            make()
        }
    }
}

impl<F: Future<Output = ()> + Send + 'static> Then for F {}

fn porter() -> (Embedded, Door) {
    let porter = Porter::default();
    let door = porter.0.clone();
    let hooks = Hooks { authenticator: Some(Arc::new(porter)), ..Hooks::default() };
    (Embedded::start(hooks), door)
}

/// CONNECT with a method and, perhaps, data.
fn connect(id: &str, method: &str, data: Option<&str>) -> Connect {
    let mut properties = vec![0x15];
    properties.extend(text(method));
    if let Some(data) = data {
        properties.push(0x16);
        properties.extend(bytes(data.as_bytes()));
    }
    Connect::new(Version::V5, id).property_bytes(&properties)
}

/// AUTH with a method and data.
fn auth(code: u8, method: &str, data: &str) -> Vec<u8> {
    let properties = [&[0x15][..], &text(method), &[0x16], &bytes(data.as_bytes())].concat();
    packet(0xF0, &[&[code][..], &block(&properties)].concat())
}

/// The data of an AUTH from the broker.
#[track_caller]
fn expect_auth(client: &mut Client, code: u8, method: &str) -> String {
    let packet = client.expect_answer();
    assert_eq!((packet[0], packet[2]), (0xF0, code), "{}", show(&packet));
    outcome(&read_block(&packet[3..]).0, method)
}

fn outcome(properties: &[support::Property], method: &str) -> String {
    assert_eq!(values(properties, 0x15), [method.as_bytes()], "the method, once");
    let data = values(properties, 0x16).first().map_or(&[][..], |data| data);
    String::from_utf8_lossy(data).into_owned()
}

#[track_caller]
fn expect_connack(client: &mut Client) -> Accepted {
    Accepted::decode(&client.expect_packet(), Version::V5)
}

/// Through a challenge.
fn let_in(broker: &Embedded, id: &str) -> Client {
    let mut client = broker.dial(Version::V5, &connect(id, "pass", None));
    assert_eq!(expect_auth(&mut client, 0x18, "pass"), "who?");
    client.send(&auth(0x18, "pass", "me"));
    let accepted = expect_connack(&mut client);
    assert_eq!(outcome(&accepted.properties, "pass"), "welcome");
    client
}

#[test]
fn challenges_go_on_until_the_method_is_content() {
    //= MQTT5-4.12.0-2
    //= MQTT5-4.12.0-3
    //= MQTT5-4.12.0-5
    let (broker, _) = porter();
    let mut client = broker.dial(Version::V5, &connect("c", "pass", Some("hello")));
    for _ in 0..3 {
        assert_eq!(expect_auth(&mut client, 0x18, "pass"), "who?");
        client.send(&auth(0x18, "pass", "what?"));
    }
    assert_eq!(expect_auth(&mut client, 0x18, "pass"), "who?");
    // What comes behind its last word waits for CONNACK.
    let mut last = auth(0x18, "pass", "me");
    last.extend([0xC0, 0x00]);
    client.send(&last);
    assert_eq!(outcome(&expect_connack(&mut client).properties, "pass"), "welcome");
    client.expect_hex("D0 00");
}

#[test]
fn a_method_may_be_content_with_connect() {
    let (broker, _) = porter();
    let (mut client, accepted) = broker.accept(&connect("c", "pass", Some("me")));
    assert_eq!(outcome(&accepted.properties, "pass"), "welcome");
    client.ping();
    // On every lane, with a client identifier that the broker makes, and over a session.
    for id in ["", "a", "b", "c", "d"] {
        let_in(&broker, id).ping();
    }
}

#[test]
fn without_a_method_there_is_none_in_connack() {
    //= MQTT5-4.12.0-6
    let (broker, _) = porter();
    let (client, accepted) = broker.accept(&Connect::new(Version::V5, "c"));
    assert!(accepted.all(0x15).is_empty() && accepted.all(0x16).is_empty());
    drop(client);
}

#[test]
fn unknown_methods_and_refusals_end_in_connack() {
    //= MQTT5-4.12.0-1
    //= MQTT5-4.12.0-4
    let (broker, _) = porter();
    for (method, data, told) in [
        ("unheard-of", "me", "20 03 00 8C 00"),
        ("pass", "no", "20 03 00 87 00"),
        ("pass", "other", "20 09 00 9C 06 1C 00 03 62 3A 31"),
    ] {
        let mut client = broker.dial(Version::V5, &connect("c", method, Some(data)));
        client.expect_hex(told);
        client.expect_close();
    }
    let mut client = broker.dial(Version::V5, &connect("c", "pass", None));
    assert_eq!(expect_auth(&mut client, 0x18, "pass"), "who?");
    client.send(&auth(0x18, "pass", "no"));
    client.expect_hex("20 03 00 87 00");
    client.expect_close();
}

#[test]
fn before_connack_only_auth_of_the_same_method_may_come() {
    //= MQTT5-3.1.2-30
    //= MQTT5-4.12.0-3
    //= MQTT5-4.12.0-5
    let (broker, _) = porter();
    for breach in [
        vec![0xC0, 0x00],
        Publish::new("a", "x").encode(Version::V5),
        auth(0x19, "pass", "me"),
        auth(0x18, "other", "me"),
        connect("c", "pass", None).encode(),
    ] {
        let mut client = broker.dial(Version::V5, &connect("c", "pass", None));
        assert_eq!(expect_auth(&mut client, 0x18, "pass"), "who?");
        client.send(&breach);
        match client.receive(support::PATIENCE) {
            support::Received::Packet(packet) => {
                let (head, code) = (packet[0], packet[3]);
                assert_eq!((head, code), (0x20, 0x82), "{}", show(&packet));
                client.expect_close();
            }
            support::Received::Closed => assert_eq!(breach[0], 0x10, "a second CONNECT"),
            support::Received::Nothing => panic!("{} is taken", show(&breach)),
        }
    }
    // It may give up.
    let mut client = broker.dial(Version::V5, &connect("c", "pass", None));
    expect_auth(&mut client, 0x18, "pass");
    client.send_hex("E0 00");
    client.expect_close();
}

#[test]
fn steps_that_take_their_time_hold_up_nobody() {
    let (broker, door) = porter();
    let mut late = broker.dial(Version::V5, &connect("late", "pass", None));
    expect_auth(&mut late, 0x18, "pass");
    late.send(&auth(0x18, "pass", "late"));
    door.await_somebody();
    for id in ["a", "b", "c", "d"] {
        let_in(&broker, id).ping();
    }
    door.open();
    expect_connack(&mut late);
    late.ping();
    let mut early = broker.dial(Version::V5, &connect("early", "pass", Some("late")));
    expect_connack(&mut early);
}

#[test]
fn who_does_not_go_on_is_not_waited_for() {
    let mut options = zzq_broker::BrokerOptions::default();
    // Long enough to be asked on a busy machine.
    options.limits.connect_timeout = Duration::from_secs(5);
    let hooks = Hooks { authenticator: Some(Arc::new(Porter::default())), ..Hooks::default() };
    let broker = Embedded::with(options, hooks, None);
    let mut client = broker.dial(Version::V5, &connect("c", "pass", None));
    expect_auth(&mut client, 0x18, "pass");
    client.expect_close();
}

#[test]
fn a_client_authenticates_again_while_its_messages_go_on() {
    //= MQTT5-4.12.1-1
    let (broker, door) = porter();
    let mut client = let_in(&broker, "c");
    client.subscribe("a", 0);
    client.send(&auth(0x19, "pass", "again"));
    assert_eq!(expect_auth(&mut client, 0x18, "pass"), "who?");
    client.say("a", "meanwhile", 1);
    client.expect("a", "meanwhile");
    client.send(&auth(0x18, "pass", "me"));
    assert_eq!(expect_auth(&mut client, 0x00, "pass"), "welcome");
    client.send(&auth(0x19, "pass", "late"));
    door.await_somebody();
    door.open();
    assert_eq!(expect_auth(&mut client, 0x00, "pass"), "welcome");
    client.ping();
}

#[test]
fn who_fails_to_authenticate_again_is_disconnected() {
    //= MQTT5-4.12.1-1
    //= MQTT5-4.12.1-2
    //= MQTT5-4.12.0-5
    //= MQTT5-4.12.0-7
    let (broker, _) = porter();
    for (breach, code) in [
        (auth(0x19, "pass", "no"), 0x87),
        (auth(0x19, "pass", "other"), 0x9C),
        (auth(0x19, "another", "me"), 0x82),
        (auth(0x18, "pass", "me"), 0x82),
    ] {
        let mut client = let_in(&broker, "c");
        client.send(&breach);
        client.expect_end(&[code]);
    }
    let mut client = broker.connect(Version::V5, "without");
    client.send(&auth(0x19, "pass", "me"));
    client.expect_end(&[0x82]);
}

#[test]
fn a_will_stays_out_until_its_client_is_in() {
    let (broker, _) = porter();
    let mut reader = broker.connect(Version::V5, "reader");
    reader.subscribe("will", 1);
    let with_will = connect("c", "pass", None).will("will", "gone", 1, false);
    let mut client = broker.dial(Version::V5, &with_will);
    expect_auth(&mut client, 0x18, "pass");
    client.reset();
    let mut client = broker.dial(Version::V5, &with_will);
    expect_auth(&mut client, 0x18, "pass");
    client.send(&auth(0x18, "pass", "me"));
    expect_connack(&mut client);
    reader.ping_without_messages();
    client.reset();
    reader.expect("will", "gone");
}

/// The client's half of SCRAM, written anew from RFC 5802.
struct ScramClient {
    first: String,
    said: String,
    password: String,
}

impl ScramClient {
    fn new(user: &str, password: &str) -> Self {
        let first = format!("n={user},r=fyko+d2lbbFgONRv9qkxdawL");
        Self { first, said: String::new(), password: password.into() }
    }

    fn first(&self) -> String {
        format!("n,,{}", self.first)
    }

    fn last(&mut self, challenge: &str) -> String {
        let part = |name: &str| {
            let part = challenge.split(',').find_map(|part| part.strip_prefix(name));
            part.expect("a part of the challenge").to_owned()
        };
        let (nonce, salt, count) = (part("r="), part("s="), part("i="));
        let without_proof = format!("c=biws,r={nonce}");
        self.said = format!("{},{challenge},{without_proof}", self.first);
        let key = hmac(&self.salted(&salt, count.parse().expect("a number")), b"Client Key");
        let stored: [u8; 32] = Sha256::digest(key).into();
        let signature = hmac(&stored, self.said.as_bytes());
        let proof: Vec<u8> = key.iter().zip(signature).map(|(key, mask)| key ^ mask).collect();
        format!("{without_proof},p={}", STANDARD.encode(proof))
    }

    /// PBKDF2 with one block.
    fn salted(&self, salt: &str, count: u32) -> [u8; 32] {
        let salt = STANDARD.decode(salt).expect("Base64");
        let mut round = hmac(self.password.as_bytes(), &[&salt[..], &[0, 0, 0, 1]].concat());
        let mut out = round;
        for _ in 1..count {
            round = hmac(self.password.as_bytes(), &round);
            out.iter_mut().zip(round).for_each(|(out, round)| *out ^= round);
        }
        out
    }
}

fn hmac(key: &[u8], data: &[u8]) -> [u8; 32] {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("any length");
    mac.update(data);
    mac.finalize().into_bytes().into()
}

fn with_users(anonymous: bool) -> Embedded {
    let lines = [("anna", "secret"), ("bo,b", "pw")]
        .map(|(user, password)| entry(user, password.as_bytes(), b"salt", 4096).expect("a line"));
    let keys = Keys::parse(&lines.join("\n")).expect("keys");
    let scram = Scram::new(keys, anonymous).expect("random numbers");
    Embedded::start(Hooks { authenticator: Some(Arc::new(scram)), ..Hooks::default() })
}

/// The answer to the whole exchange.
fn scram(broker: &Embedded, user: &str, password: &str) -> (Client, Vec<u8>) {
    let mut own = ScramClient::new(user, password);
    let mut client = broker.dial(Version::V5, &connect(user, METHOD, Some(&own.first())));
    let challenge = expect_auth(&mut client, 0x18, METHOD);
    client.send(&auth(0x18, METHOD, &own.last(&challenge)));
    let answer = client.expect_packet();
    (client, answer)
}

#[test]
fn scram_lets_in_who_knows_the_password_and_says_who_the_broker_is() {
    let broker = with_users(false);
    for (user, password) in [("anna", "secret"), ("bo=2Cb", "pw")] {
        let (mut client, answer) = scram(&broker, user, password);
        let accepted = Accepted::decode(&answer, Version::V5);
        assert!(outcome(&accepted.properties, METHOD).starts_with("v="));
        client.ping();
    }
    for (user, password) in [("anna", "Secret"), ("nobody", "secret")] {
        let (mut client, answer) = scram(&broker, user, password);
        assert_eq!(show(&answer), "20 03 00 86 00");
        client.expect_close();
    }
}

#[test]
fn scram_authenticates_again_as_the_same_user_only() {
    //= MQTT5-4.12.1-2
    let broker = with_users(false);
    let (mut client, answer) = scram(&broker, "anna", "secret");
    Accepted::decode(&answer, Version::V5);
    let again = |client: &mut Client, user: &str, password: &str| {
        let mut own = ScramClient::new(user, password);
        client.send(&auth(0x19, METHOD, &own.first()));
        let challenge = expect_auth(client, 0x18, METHOD);
        client.send(&auth(0x18, METHOD, &own.last(&challenge)));
    };
    again(&mut client, "anna", "secret");
    assert!(expect_auth(&mut client, 0x00, METHOD).starts_with("v="));
    again(&mut client, "bo=2Cb", "pw");
    client.expect_end(&[0x87]);
}

#[test]
fn plain_passwords_are_checked_against_the_same_keys() {
    for anonymous in [false, true] {
        let broker = with_users(anonymous);
        for (version, wrong) in [(Version::V4, "20 02 00 04"), (Version::V5, "20 03 00 86 00")] {
            let (mut client, _) =
                broker.accept(&Connect::new(version, "c").login("anna", "secret"));
            client.ping();
            for (user, password) in [("anna", "x"), ("nobody", "secret"), ("anna", "")] {
                let connect = Connect::new(version, "d").login(user, password);
                let mut client = broker.dial(version, &connect);
                client.expect_hex(wrong);
                client.expect_close();
            }
            let mut client = broker.dial(version, &Connect::new(version, "e"));
            let answer = client.expect_packet();
            assert_eq!(answer[3] == 0, anonymous, "{}", show(&answer));
        }
    }
}
