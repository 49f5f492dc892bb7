//! CONNACK for clients that take small packets: they are told all that they have to know, or not
//! let in.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod support;

use Version::V5;
use support::{Accepted, Broker, Client, Connect, Version};

/// A bound that a client has to know, and the one that says nothing of itself.
const PLAIN: [&str; 2] = ["--receive-maximum=65535", "--max-topic-aliases=0"];
/// Header, flags, reason and the length of properties; and Maximum Packet Size, which is always
/// told.
const BARE: usize = 5 + 5;

/// What a client is answered that takes packets of so many bytes.
fn answered(broker: &Broker, connect: &Connect, most: usize) -> Client {
    let mut client = Client::open(broker, V5);
    client.send(&connect.clone().properties(&format!("27 00 00 00 {most:02X}")).encode());
    client
}

/// Refused up to there, and let in from there on, with these properties.
#[track_caller]
fn needs(broker: &Broker, connect: &Connect, size: usize, told: &[u8]) {
    for most in [5, size / 2, size - 1] {
        let mut client = answered(broker, connect, most);
        let answer = client.expect_packet();
        assert!(answer.len() <= most, "{most} bytes at most: {answer:02X?}");
        assert_eq!((answer[0], answer[2], answer[3]), (0x20, 0, 0x95), "{most} bytes at most");
        client.expect_close();
    }
    for most in [size, size + 1] {
        let mut client = answered(broker, connect, most);
        let answer = client.expect_packet();
        assert!(answer.len() <= most, "{most} bytes at most: {answer:02X?}");
        let accepted = Accepted::decode(&answer, V5);
        for id in told.iter().chain(&[0x27]) {
            assert_eq!(accepted.all(*id).len(), 1, "{id:02X} with {most} bytes at most");
        }
        client.ping();
    }
}

#[test]
fn who_does_not_take_what_it_has_to_know_is_refused() {
    //= MQTT5-3.1.2-24, MQTT5-3.2.2-9, MQTT5-3.2.2-16
    let plain = Connect::new(V5, "a");
    // What a CONNACK says and how long that is.
    for (flag, connect, size, id) in [
        ("--max-keep-alive=7", &plain, 3, 0x13),
        ("--max-session-expiry=7s", &plain.clone().properties("11 00 00 00 09"), 5, 0x11),
        ("--max-qos=1", &plain, 2, 0x24),
        ("--no-retain", &plain, 2, 0x25),
        ("--no-wildcards", &plain, 2, 0x28),
        ("--no-shared", &plain, 2, 0x2A),
        ("--max-inflight=9", &Connect::new(V5, ""), 3 + "zzq-0123456789abcdef".len(), 0x12),
    ] {
        let broker = Broker::start(false, &[&PLAIN[..], &[flag]].concat());
        needs(&broker, connect, BARE + size, &[id]);
    }
    // By default, as doc/limits.md says.
    assert_eq!(BARE + 3, 13);
    needs(&Broker::start(false, &[]), &plain, BARE + 3, &[0x21]);
}

#[test]
fn what_is_only_offered_is_left_out() {
    //= MQTT5-3.1.2-24
    let flags = [PLAIN[0], "--max-topic-aliases=5", "--response-information=r/%c"];
    let broker = Broker::start(false, &flags);
    let connect = Connect::new(V5, "a").properties("19 01");
    let told = |most| {
        let answer = answered(&broker, &connect, most).expect_packet();
        let accepted = Accepted::decode(&answer, V5);
        (accepted.number(0x22), accepted.all(0x1A).len())
    };
    let (aliases, responses) = (3, 3 + "r/a".len());
    assert_eq!(told(BARE), (None, 0));
    assert_eq!(told(BARE + aliases), (Some(5), 0));
    assert_eq!(told(BARE + aliases + responses - 1), (Some(5), 0));
    assert_eq!(told(BARE + aliases + responses), (Some(5), 1));
}

#[test]
fn who_is_refused_takes_no_session_over_and_leaves_none() {
    //= MQTT5-3.1.2-24, MQTT5-3.2.2-6
    for logged in [false, true] {
        let broker = Broker::start(logged, &["--max-session-expiry=100s"]);
        let (mut inside, _) = Connect::persistent(V5, "a").open(&broker);
        for (id, stays) in [("a", true), ("b", false)] {
            let connect = Connect::persistent(V5, id);
            let mut client = answered(&broker, &connect, 12);
            assert_eq!(client.expect_packet()[3], 0x95);
            client.expect_close();
            if stays {
                inside.ping();
            } else {
                let (_client, accepted) = connect.open(&broker);
                assert!(!accepted.session_present);
            }
        }
    }
}
