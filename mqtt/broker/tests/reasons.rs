//! What clients of MQTT 5 are told beside a code: which rule it was, and which setting to change.

#![allow(clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod support;

use Version::{V3, V4, V5};
use support::{
    Broker, Client, Connect, PATIENCE, Publish, Received, Version, in_both_modes, packet,
    read_block, read_varint, text, values,
};

/// The code of a packet that says how something went, and its Reason String.
fn said(answer: &[u8]) -> (u8, Option<String>) {
    let (_, size) = read_varint(&answer[1..]).expect("a remaining length");
    let body = &answer[1 + size..];
    let (code, head) = match answer[0] {
        0x20 => (body[1], 2),
        0xE0 => (body[0], 1),
        0x90 | 0xB0 => (*body.last().expect("a code"), 2),
        0x40 | 0x50 | 0x62 | 0x70 => (body[2], 3),
        other => panic!("no such answer: {other:02X}"),
    };
    if body.len() == head {
        return (code, None);
    }
    let (properties, _) = read_block(&body[head..]);
    let text = values(&properties, 0x1F).first().map(|text| text.to_vec());
    (code, text.map(|text| String::from_utf8(text).expect("UTF-8")))
}

#[track_caller]
fn expect_said(client: &mut Client, code: u8, part: &str) {
    let (got, text) = said(&client.expect_packet());
    assert_eq!(got, code, "{text:?}");
    let text = text.expect("a Reason String");
    assert!(text.contains(part), "{part:?} is not in {text:?}");
}

/// A broker with a bound that is reached, and what reaches it.
fn small() -> [&'static str; 10] {
    [
        "--max-packet-size=200",
        "--receive-maximum=2",
        "--max-topic-aliases=3",
        "--max-topic-levels=4",
        "--max-topic-length=40",
        "--max-client-id=23",
        "--max-subscriptions=1",
        "--max-retained=0",
        "--check-payload-format",
        "--no-shared",
    ]
}

fn refused_subscribe(id: u8) -> Vec<u8> {
    packet(0x82, &[&[0, id, 0][..], &text("a/b/c/d/e"), &[0]].concat())
}

fn refused_unsubscribe(id: u8) -> Vec<u8> {
    packet(0xA2, &[&[0, id, 0][..], &text("$share/g")].concat())
}

#[test]
fn disconnect_says_what_ended_the_connection() {
    let broker = Broker::start(false, &small());
    let two = |id| Publish::new("t", "").qos(2, id).encode(V5);
    let alias =
        |topic: &str, alias: u8| packet(0x30, &[&text(topic)[..], &[3, 0x23, 0, alias]].concat());
    for (sent, code, part) in [
        (Publish::new("t", "x".repeat(200)).encode(V5), 0x95, "--max-packet-size"),
        (Publish::new("t", "x".repeat(200)).encode(V5), 0x95, "at most 200"),
        (alias("t", 4), 0x94, "at most 3: --max-topic-aliases"),
        (alias("", 4), 0x94, "at most 3: --max-topic-aliases"),
        (alias("", 3), 0x82, "a topic alias that it has not defined"),
        (packet(0x82, &[0, 0, 0, 0, 1, b'a', 0]), 0x82, "packet identifier 0"),
        (vec![0x36, 0], 0x81, "QoS 3"),
    ] {
        let mut client = Client::connect(&broker, V5, "a");
        client.send(&sent);
        expect_said(&mut client, code, part);
        client.expect_close();
    }
    let mut client = Client::connect(&broker, V5, "a");
    client.send(&[two(1), two(2), two(3)].concat());
    client.expect_ack(0x50, 1);
    client.expect_ack(0x50, 2);
    expect_said(&mut client, 0x93, "more than 2 publishes under way: --receive-maximum");
}

#[test]
fn who_took_a_session_over_is_not_said() {
    in_both_modes(|broker| {
        let mut old = Client::connect(broker, V5, "a");
        let _new = Client::connect(broker, V5, "a");
        let (code, text) = said(&old.expect_packet());
        assert_eq!(code, 0x8E);
        assert_eq!(text.as_deref(), Some("its client identifier has connected again"));
    });
}

#[test]
fn connack_says_why_a_client_may_not_connect() {
    let broker = Broker::start(false, &small());
    let long = "a".repeat(24);
    let deep = "a/b/c/d/e";
    for (connect, code, part) in [
        (Connect::new(V5, &long), 0x85, "at most 23 bytes: --max-client-id"),
        (Connect::new(V5, "a").will(deep, "", 0, false), 0x90, "at most 4 levels"),
        (Connect::new(V5, "a").will("$SYS/a", "", 0, false), 0x90, "the broker's own"),
    ] {
        let mut client = Client::open(&broker, V5);
        client.send(&connect.encode());
        expect_said(&mut client, code, part);
        client.expect_close();
    }
    for version in [V3, V4] {
        let mut client = Client::open(&broker, version);
        client.send(&Connect::new(version, &long).encode());
        match client.receive(PATIENCE) {
            Received::Packet(answer) => assert_eq!(answer[..3], [0x20, 2, 0]),
            other => assert_eq!(other, Received::Closed),
        }
    }
}

#[test]
fn who_is_not_let_in_hears_no_more_than_the_code() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("users");
    std::fs::write(&path, "").expect("a file");
    let broker = Broker::start(false, &["--scram-file", path.to_str().expect("UTF-8")]);
    for connect in [Connect::new(V5, "c"), Connect::new(V5, "c").login("anna", "guess")] {
        let mut client = Client::open(&broker, V5);
        client.send(&connect.encode());
        let answer = client.expect_packet();
        assert!(answer[3] >= 0x80, "{answer:02X?}");
        assert_eq!((answer.len(), answer[4]), (5, 0), "{answer:02X?}");
    }
}

#[test]
fn acknowledgements_say_why_a_message_is_not_taken() {
    //= MQTT5-4.3.3-9
    for logged in [false, true] {
        let broker = Broker::start(logged, &small());
        let mut client = Client::connect(&broker, V5, "a");
        let long = "a".repeat(41);
        for (publish, code, part) in [
            (Publish::new("a/b/c/d/e", ""), 0x90, "at most 4 levels: --max-topic-levels"),
            (Publish::new(&long, ""), 0x90, "at most 40 bytes: --max-topic-length"),
            (Publish::new("$SYS/a", ""), 0x87, "the broker's own"),
            (Publish::new("a", [0xFF]).properties("01 01"), 0x99, "--check-payload-format"),
            (Publish::new("a", "x").retain(), 0x97, "--max-retained"),
        ] {
            for qos in [1, 2] {
                client.publish(&publish.clone().qos(qos, 7));
                expect_said(&mut client, code, part);
            }
        }
        // What is taken is answered in four bytes, or five if nobody is there.
        client.publish(&Publish::new("a", "").qos(1, 7));
        client.expect_hex("40 03 00 07 10");
    }
}

#[test]
fn who_publishes_for_a_full_queue_is_told_which_settings_say_so() {
    for logged in [false, true] {
        let broker = Broker::start(logged, &["--max-queued-messages", "1"]);
        let (mut absent, _) = Connect::persistent(V5, "absent").open(&broker);
        absent.subscribe("t", 1);
        absent.disconnect();
        let mut client = Client::connect(&broker, V5, "a");
        client.say("t", "one", 1);
        // What is under way when the queue becomes full comes on top.
        let refused = std::iter::repeat_with(|| {
            client.publish(&Publish::new("t", "more").qos(1, 7));
            said(&client.expect_packet())
        });
        let (code, text) = refused.take(1000).find(|(code, _)| *code != 0).expect("a refusal");
        assert_eq!(code, 0x97);
        let text = text.expect("a Reason String");
        for flag in ["--max-queued-messages", "--max-queued-bytes", "--queue-full"] {
            assert!(text.contains(flag), "{text}");
        }
    }
}

#[test]
fn answers_about_unknown_identifiers_say_so() {
    in_both_modes(|broker| {
        let mut client = Client::connect(broker, V5, "a");
        let part = "no message with this identifier";
        client.send_hex("62 02 00 09");
        expect_said(&mut client, 0x92, part);
        client.send_hex("50 02 00 09");
        expect_said(&mut client, 0x92, part);
        // Of a run the first says it.
        client.send_hex("62 02 00 0A 62 02 00 0B");
        expect_said(&mut client, 0x92, part);
        assert_eq!(said(&client.expect_packet()).0, 0x92);
        client.ping();
    });
}

#[test]
fn suback_and_unsuback_say_each_reason_once() {
    for logged in [false, true] {
        let broker = Broker::start(logged, &small());
        let mut client = Client::connect(&broker, V5, "a");
        let filters = ["ok", "a/b/c/d/e", "f/b/c/d/e", "$share/g/t", "two", "$share/g"];
        let filters: Vec<u8> =
            filters.iter().flat_map(|filter| [&text(filter)[..], &[0]].concat()).collect();
        client.send(&packet(0x82, &[&[0, 1, 0][..], &filters].concat()));
        let answer = client.expect_packet();
        assert!(answer.ends_with(&[0, 0x8F, 0x8F, 0x9E, 0x97, 0x8F]), "{answer:02X?}");
        let text = said(&answer).1.expect("a Reason String");
        for part in ["--max-topic-levels", "--no-shared", "--max-subscriptions"] {
            assert_eq!(text.matches(part).count(), 1, "{part} in {text}");
        }
        client.send(&refused_unsubscribe(2));
        let answer = client.expect_packet();
        assert!(said(&answer).1.is_some_and(|text| !text.is_empty()), "{answer:02X?}");
        // A filter that is not there is no failure.
        assert_eq!(client.unsubscribe(&["x"]), [0x11]);
        client.send_hex("A2 06 00 01 00 00 01 74");
        client.expect_hex("B0 04 00 01 00 11");
    }
}

/// What is refused without an end of the connection.
fn refusals() -> Vec<(u8, Vec<u8>)> {
    vec![
        (0x40, Publish::new("a/b/c/d/e", "").qos(1, 7).encode(V5)),
        (0x50, Publish::new("a/b/c/d/e", "").qos(2, 7).encode(V5)),
        (0x62, vec![0x50, 2, 0, 9]),
        (0x70, vec![0x62, 2, 0, 9]),
        (0x90, refused_subscribe(8)),
        (0xB0, refused_unsubscribe(9)),
    ]
}

#[test]
fn who_wants_no_reasons_gets_those_of_connack_and_disconnect_alone() {
    //= MQTT5-3.1.2-29
    let broker = Broker::start(false, &small());
    let (mut client, _) = Connect::new(V5, "a").properties("17 00").open(&broker);
    for (first, sent) in refusals() {
        client.send(&sent);
        let answer = client.expect_packet();
        assert_eq!(answer[0], first);
        assert_eq!(said(&answer).1, None, "{answer:02X?}");
        assert!(said(&answer).0 >= 0x80, "{answer:02X?}");
    }
    client.send_hex("36 00");
    expect_said(&mut client, 0x81, "QoS 3");
    let mut client = Client::open(&broker, V5);
    client.send(&Connect::new(V5, &"a".repeat(24)).properties("17 00").encode());
    expect_said(&mut client, 0x85, "--max-client-id");
}

#[test]
fn reasons_never_make_a_packet_larger_than_its_client_takes() {
    //= MQTT5-3.1.2-24, MQTT5-3.2.2-19, MQTT5-3.4.2-2, MQTT5-3.5.2-2, MQTT5-3.6.2-2
    //= MQTT5-3.7.2-2, MQTT5-3.9.2-1, MQTT5-3.11.2-1, MQTT5-3.14.2-3
    let broker = Broker::start(false, &small());
    let disconnect = (0xE0, vec![0x36, 0]);
    let (mut with, mut without) = (0, 0);
    // What CONNACK of this broker has to say beside its reason.
    let least = 5 + 3 + 5 + 2;
    for most in (6..100).step_by(3) {
        let properties = format!("27 00 00 00 {most:02X}");
        let mut check = |answer: &[u8], first| {
            assert!(answer.len() <= most, "{most} bytes at most: {answer:02X?}");
            assert_eq!(answer[0], first);
            assert!(said(answer).0 >= 0x80, "{answer:02X?}");
            if said(answer).1.is_some() { with += 1 } else { without += 1 }
        };
        if most >= least {
            let (mut client, _) = Connect::new(V5, "a").properties(&properties).open(&broker);
            for (first, sent) in refusals().into_iter().chain([disconnect.clone()]) {
                client.send(&sent);
                check(&client.expect_packet(), first);
            }
            client.expect_close();
        }
        let mut client = Client::open(&broker, V5);
        let long = Connect::new(V5, &"a".repeat(24)).properties(&properties);
        client.send(&long.encode());
        check(&client.expect_packet(), 0x20);
    }
    assert!(with > 100 && without > 100, "{with} with a reason, {without} without");
}
