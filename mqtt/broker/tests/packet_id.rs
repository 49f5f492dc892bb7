//! Packet identifiers: never zero, never two messages under one while either is unacknowledged.

mod support;

use std::collections::HashSet;

use Version::{V4, V5};
use support::{Client, Connect, Publish, Version, ends, in_both_modes};

#[test]
fn zero_is_no_identifier() {
    //= MQTT5-2.2.1-3
    //= MQTT311-2.3.1-1, MQTT5-4.13.1-1
    in_both_modes(|broker| {
        ends(broker, V4, "32 05 00 01 74 00 00", &[]);
        ends(broker, V4, "34 05 00 01 74 00 00", &[]);
        ends(broker, V4, "82 06 00 00 00 01 74 00", &[]);
        ends(broker, V4, "A2 05 00 00 00 01 74", &[]);
        ends(broker, V5, "32 06 00 01 74 00 00 00", &[0x81, 0x82]);
        ends(broker, V5, "34 06 00 01 74 00 00 00", &[0x81, 0x82]);
        ends(broker, V5, "82 07 00 00 00 00 01 74 00", &[0x81, 0x82]);
        ends(broker, V5, "A2 06 00 00 00 00 01 74", &[0x81, 0x82]);
    });
}

#[test]
fn answers_repeat_the_identifier_of_the_question() {
    //= MQTT311-2.3.1-6, MQTT5-2.2.1-5, MQTT5-2.2.1-6
    in_both_modes(|broker| {
        let mut client = Client::connect(broker, V4, "a");
        client.send_hex("32 05 00 01 74 FF FF");
        client.expect_hex("40 02 FF FF");
        client.send_hex("34 05 00 01 74 01 00");
        client.expect_hex("50 02 01 00");
        client.send_hex("62 02 01 00");
        client.expect_hex("70 02 01 00");
    });
}

#[test]
fn a_message_at_qos_0_has_no_identifier() {
    //= MQTT311-2.3.1-5, MQTT5-2.2.1-2, MQTT311-4.3.1-1, MQTT5-4.3.1-1
    in_both_modes(|broker| {
        let mut client = Client::connect(broker, V4, "a");
        client.subscribe("t", 0);
        client.send_hex("34 07 00 01 74 00 05 68 69");
        client.expect_ack(0x50, 5);
        client.send_hex("62 02 00 05");
        client.expect_ack(0x70, 5);
        client.expect_hex("30 05 00 01 74 68 69");
    });
}

#[test]
fn identifiers_are_unique_among_the_unacknowledged() {
    //= B39, MQTT311-2.3.1-4, MQTT5-2.2.1-4, MQTT5-4.3.2-1, MQTT5-4.3.3-1
    in_both_modes(|broker| {
        for version in [V4, V5] {
            let connect = Connect::persistent(version, "a");
            let (mut client, _) = connect.open(broker);
            client.subscribe("t", 2);
            let mut publisher = Client::connect(broker, version, "publisher");
            let say = |publisher: &mut Client, range: std::ops::Range<u8>| {
                for n in range {
                    publisher.say("t", &n.to_string(), 1 + n % 2);
                }
            };
            say(&mut publisher, 0..50);
            let mut first = HashSet::new();
            for n in 0..50 {
                let message = client.expect_message();
                assert_eq!(message.payload_text(), n.to_string());
                assert!(first.insert(message.id), "{} is used twice", message.id);
            }
            client.reset();
            let (mut client, accepted) = connect.open(broker);
            assert!(accepted.session_present);
            say(&mut publisher, 50..100);
            let mut all = HashSet::new();
            for n in 0..100 {
                let message = client.expect_message();
                assert_eq!(message.payload_text(), n.to_string());
                assert!(all.insert(message.id), "{} is used twice", message.id);
                assert_eq!(message.dup, n < 50, "{n}");
                assert_eq!(first.contains(&message.id), n < 50, "{n} has the same identifier");
            }
            client.disconnect();
            Client::connect(broker, version, "a").disconnect();
        }
    });
}

#[test]
fn one_acknowledgement_frees_one_message() {
    //= B39
    in_both_modes(|broker| {
        let connect = Connect::persistent(V4, "a");
        let (mut client, _) = connect.open(broker);
        client.subscribe("t", 1);
        let mut publisher = Client::connect(broker, V4, "publisher");
        for n in 0..10 {
            publisher.say("t", &n.to_string(), 1);
        }
        let messages: Vec<_> = (0..10).map(|_| client.expect_message()).collect();
        client.acknowledge(&messages[3]);
        client.acknowledge(&messages[7]);
        client.ping();
        client.reset();
        let (mut client, _) = connect.open(broker);
        for n in [0, 1, 2, 4, 5, 6, 8, 9] {
            let again = client.expect("t", &n.to_string());
            assert_eq!(again.id, messages[n].id);
        }
        client.ping_without_messages();
    });
}

#[test]
fn identifiers_come_round_again() {
    //= MQTT5-2.2.1-4, MQTT311-2.3.1-4
    in_both_modes(|broker| {
        let mut client = Client::connect(broker, V4, "a");
        client.subscribe("t", 1);
        let mut publisher = Client::connect(broker, V4, "publisher");
        let mut last = 0;
        // 66 000 messages in runs that fit any window.
        for run in 0..1320u16 {
            let all: Vec<u8> =
                (1..=50).flat_map(|id| Publish::new("t", "x").qos(1, id).encode(V4)).collect();
            publisher.send(&all);
            for id in 1..=50 {
                publisher.expect_ack(0x40, id);
            }
            for _ in 0..50 {
                let message = client.expect_message();
                assert_ne!(message.id, last, "in run {run}");
                last = message.id;
                client.acknowledge(&message);
            }
        }
        client.ping_without_messages();
    });
}

#[test]
fn a_client_may_use_any_identifier_in_any_order() {
    in_both_modes(|broker| {
        let mut client = Client::connect(broker, V5, "a");
        client.subscribe("t", 2);
        for id in [65_535, 1, 32_768, 2, 40_000] {
            client.publish(&Publish::new("t", id.to_string()).qos(2, id));
            client.expect_ack(0x50, id);
        }
        for id in [2, 65_535, 40_000, 1, 32_768] {
            client.send_ack(0x62, id);
            client.expect_ack(0x70, id);
        }
        for id in [65_535, 1, 32_768, 2, 40_000] {
            client.expect("t", &id.to_string());
        }
    });
}
