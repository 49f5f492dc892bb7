//! What a message is made of: its properties, its size, and how long it is worth delivering.

mod support;

use std::time::Instant;

use Version::{V4, V5};
use support::{Client, Connect, Publish, Version, expect_left, in_both_modes, next, pair};

#[test]
fn properties_are_passed_on_as_they_came() {
    //= MQTT5-3.3.2-4, MQTT5-3.3.2-15, MQTT5-3.3.2-16, MQTT5-3.3.2-17, MQTT5-3.3.2-18
    //= MQTT5-3.3.2-20, MQTT5-1.5.7-1, MQTT5-2.2.2-1
    in_both_modes(|broker| {
        let (mut publisher, mut subscriber) = pair(broker, V5);
        subscriber.subscribe("t", 2);
        let properties = "01 01 02 00 00 0E 10 03 00 02 63 74 08 00 03 72 2F 74 \
             09 00 03 00 FF 80 26 00 01 62 00 01 32 26 00 01 61 00 01 31 26 00 01 62 00 01 32";
        for qos in 0..3 {
            publisher.publish_all(Publish::new("t", "x").properties(properties), qos);
            let message = subscriber.expect("t", "x");
            assert_eq!(message.all(0x01), [&[1]]);
            assert!((3590..=3600).contains(&message.number(0x02).unwrap()));
            assert_eq!(message.all(0x03), [b"ct"]);
            assert_eq!(message.all(0x08), [b"r/t"]);
            assert_eq!(message.all(0x09), [&[0, 0xFF, 0x80]]);
            let pairs = [b"\0\x01b\0\x012", b"\0\x01a\0\x011", b"\0\x01b\0\x012"];
            assert_eq!(message.all(0x26), pairs);
        }
        // Earlier versions get the message without them.
        let mut four = Client::connect(broker, V4, "four");
        four.subscribe("t", 1);
        publisher.publish_all(Publish::new("t", "x").properties(properties), 1);
        four.expect_hex(&format!("32 06 00 01 74 00 01 {:02X}", b'x'));
    });
}

#[test]
fn bad_properties_of_a_publish_end_the_connection() {
    //= MQTT5-4.13.1-1, MQTT5-3.3.2-13, MQTT5-3.3.2-14, MQTT5-3.3.2-19
    in_both_modes(|broker| {
        for (properties, codes) in [
            ("01 02", &[0x82, 0x81, 0x99][..]),
            ("01 01 01 01", &[0x82]),
            ("08 00 01 23", &[0x82, 0x90]),
            ("08 00 01 00", &[0x81, 0x90]),
            ("03 00 02 C3 28", &[0x81]),
            ("26 00 01 61 00 01 00", &[0x81]),
            ("02 00 00", &[0x81]),
            ("11 00 00 00 00", &[0x81, 0x82]),
            ("7F 00", &[0x81]),
        ] {
            let mut client = Client::connect(broker, V5, "a");
            client.publish(&Publish::new("t", "").properties(properties));
            client.expect_end(codes);
        }
    });
}

#[test]
fn payloads_of_any_size_pass() {
    //= MQTT5-4.2.0-1
    in_both_modes(|broker| {
        for version in [V4, V5] {
            let (mut publisher, mut subscriber) = pair(broker, version);
            subscriber.subscribe("t", 2);
            for size in [0, 1, 119, 120, 121, 16_375, 16_376, 16_380, 70_000, 1_500_000] {
                let payload: Vec<u8> =
                    (0..size).map(|n: usize| u8::try_from(n % 251).unwrap()).collect();
                for qos in 0..3 {
                    publisher.publish_all(Publish::new("t", &payload), qos);
                    let message = subscriber.expect_message();
                    subscriber.acknowledge(&message);
                    assert!(message.payload == payload, "{size} bytes at QoS {qos}");
                }
            }
        }
    });
}

#[test]
fn an_empty_payload_is_a_payload() {
    in_both_modes(|broker| {
        let mut client = Client::connect(broker, V4, "a");
        client.subscribe("t", 0);
        client.send_hex("30 03 00 01 74");
        client.expect_hex("30 03 00 01 74");
    });
}

#[test]
fn messages_too_large_for_the_receiver_count_as_delivered() {
    //= B20, MQTT5-3.1.2-24, MQTT5-3.1.2-25
    in_both_modes(|broker| {
        let mut publisher = Client::connect(broker, V5, "publisher");
        let (mut subscriber, _) =
            Connect::new(V5, "subscriber").properties("27 00 00 00 63").open(broker);
        subscriber.subscribe("a", 2);
        for qos in 0..3 {
            publisher.say("a", &"x".repeat(150), qos);
            publisher.say("a", "ok", qos);
            subscriber.expect("a", "ok");
        }
        // 2 of header, 3 of topic, 2 of identifier, 1 of properties: 100 bytes with 92.
        publisher.say("a", &"x".repeat(92), 2);
        publisher.say("a", &"y".repeat(91), 2);
        subscriber.expect("a", &"y".repeat(91));
    });
}

#[test]
fn packets_up_to_the_size_of_the_server_pass_and_larger_ones_do_not() {
    //= MQTT5-3.2.2-15
    //= B21, MQTT5-4.13.1-1
    in_both_modes(|broker| {
        let (mut client, accepted) = Connect::new(V5, "a").open(broker);
        let Some(maximum) = accepted.number(0x27) else {
            return;
        };
        let maximum = usize::try_from(maximum).unwrap();
        let header = [128, 16_384, 2_097_152].iter().filter(|&&edge| maximum - 5 >= edge).count();
        // First byte, remaining length, topic of one character, properties.
        let payload = |size: usize| vec![b'x'; size - (1 + (header + 1) + 3 + 1)];
        client.subscribe("t", 0);
        client.publish(&Publish::new("t", payload(maximum)));
        assert_eq!(client.expect_message().payload.len(), payload(maximum).len());
        client.publish(&Publish::new("t", payload(maximum + 1)));
        client.expect_end(&[0x95]);
    });
}

#[test]
fn an_expired_message_is_not_delivered_to_a_session_that_was_away() {
    //= MQTT5-3.3.2-5, MQTT5-3.3.2-6
    in_both_modes(|broker| {
        let connect = Connect::persistent(V5, "subscriber");
        let (mut subscriber, _) = connect.open(broker);
        subscriber.subscribe("t", 1);
        subscriber.disconnect();
        let mut publisher = Client::connect(broker, V5, "publisher");
        let expiring = |payload, seconds: u32| {
            Publish::new("t", payload).properties(&format!("02 {seconds:08X}"))
        };
        publisher.publish_all(expiring("short", 1), 1);
        let start = Instant::now();
        publisher.publish_all(expiring("long", 100), 1);
        publisher.publish_all(expiring("short", 1), 2);
        std::thread::sleep(std::time::Duration::from_millis(2500));
        let (mut subscriber, _) = connect.open(broker);
        let left = subscriber.expect("t", "long").number(0x02).unwrap();
        expect_left(left, 100, 2, start);
        subscriber.say("t", "marker", 1);
        subscriber.expect("t", "marker");
    });
}

#[test]
fn a_qos_2_message_that_was_sent_does_not_expire() {
    //= MQTT5-4.3.3-7
    in_both_modes(|broker| {
        let connect = Connect::persistent(V5, "subscriber");
        let (mut subscriber, _) = connect.open(broker);
        subscriber.subscribe("t", 2);
        let mut publisher = Client::connect(broker, V5, "publisher");
        // It has so long to be sent.
        publisher.publish_all(Publish::new("t", "x").properties("02 00 00 00 0A"), 2);
        let sent = next(&mut subscriber, "x");
        subscriber.reset();
        std::thread::sleep(std::time::Duration::from_secs(12));
        let (mut subscriber, _) = connect.open(broker);
        let again = subscriber.expect("t", "x");
        assert_eq!((again.id, again.dup), (sent.id, true));
    });
}

#[test]
fn the_handshake_of_a_qos_2_publish_is_completed_after_its_expiry() {
    //= MQTT5-4.3.3-13
    in_both_modes(|broker| {
        let absent = Connect::persistent(V5, "absent");
        let (mut away, _) = absent.open(broker);
        away.subscribe("t", 2);
        away.disconnect();
        let (mut publisher, mut subscriber) = pair(broker, V5);
        publisher.publish(&Publish::new("t", "x").qos(2, 1).properties("02 00 00 00 01"));
        publisher.expect_ack(0x50, 1);
        std::thread::sleep(std::time::Duration::from_secs(2));
        publisher.send_ack(0x62, 1);
        publisher.expect_ack(0x70, 1);
        // Its identifier is free.
        subscriber.subscribe("t", 2);
        publisher.publish(&Publish::new("t", "y").qos(2, 1));
        publisher.expect_ack(0x50, 1);
        subscriber.expect("t", "y");
        // It had expired: it would come first.
        let (mut back, _) = absent.open(broker);
        back.expect("t", "y");
    });
}
