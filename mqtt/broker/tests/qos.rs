//! Delivery at each quality of service: handshakes, order, repetition.

mod support;

use Version::{V3, V4, V5};
use support::{Client, Connect, Message, Publish, Version, in_both_modes, next, pair};

const VERSIONS: [Version; 3] = [V3, V4, V5];

#[test]
fn each_qos_has_its_handshake_on_both_sides() {
    //= MQTT311-3.3.4-1, MQTT311-4.3.1-1, MQTT311-4.3.2-1, MQTT311-4.3.2-2, MQTT311-4.3.3-1
    //= MQTT311-4.3.3-2, MQTT5-3.3.4-1, MQTT5-4.3.1-1, MQTT5-4.3.2-2, MQTT5-4.3.2-4
    //= MQTT5-4.3.3-2, MQTT5-4.3.3-4, MQTT5-4.3.3-8, MQTT5-4.3.3-11, MQTT5-4.5.0-1
    in_both_modes(|broker| {
        for version in VERSIONS {
            let (mut publisher, mut subscriber) = pair(broker, version);
            subscriber.subscribe("t", 2);
            for qos in 0..3 {
                publisher.say("t", "x", qos);
                let message = subscriber.expect("t", "x");
                assert_eq!((message.qos, message.dup, message.retain), (qos, false, false));
            }
            publisher.ping_without_messages();
            subscriber.ping_without_messages();
        }
    });
}

#[test]
fn the_qos_is_the_lesser_of_published_and_granted() {
    //= MQTT311-3.8.4-6, MQTT5-3.8.4-8
    in_both_modes(|broker| {
        for version in VERSIONS {
            let (mut publisher, mut subscriber) = pair(broker, version);
            for granted in 0..3 {
                let topic = format!("t{granted}");
                subscriber.subscribe(&topic, granted);
                for published in 0..3 {
                    publisher.say(&topic, "x", published);
                    assert_eq!(subscriber.expect(&topic, "x").qos, granted.min(published));
                }
            }
        }
    });
}

#[test]
fn publishes_of_qos_3_end_the_connection() {
    //= MQTT311-3.3.1-4, MQTT5-3.3.1-4
    in_both_modes(|broker| {
        let mut four = Client::connect(broker, V4, "a");
        four.send_hex("36 05 00 01 74 00 01");
        four.expect_end(&[]);
        let mut five = Client::connect(broker, V5, "b");
        five.send_hex("36 06 00 01 74 00 01 00");
        five.expect_end(&[0x81]);
    });
}

#[test]
fn publishes_of_qos_0_with_dup_end_the_connection() {
    //= MQTT5-3.3.1-2, MQTT311-3.3.1-2
    in_both_modes(|broker| {
        let mut four = Client::connect(broker, V4, "a");
        four.send_hex("38 03 00 01 74");
        four.expect_end(&[]);
        let mut five = Client::connect(broker, V5, "b");
        five.send_hex("38 04 00 01 74 00");
        five.expect_end(&[0x81, 0x82]);
    });
}

#[test]
fn dup_of_the_publisher_is_not_passed_on() {
    //= MQTT311-3.3.1-3, MQTT5-3.3.1-3
    in_both_modes(|broker| {
        for version in VERSIONS {
            let (mut publisher, mut subscriber) = pair(broker, version);
            subscriber.subscribe("t", 2);
            publisher.publish(&Publish::new("t", "one").qos(1, 1).dup());
            publisher.expect_ack(0x40, 1);
            publisher.publish(&Publish::new("t", "two").qos(2, 2).dup());
            publisher.expect_ack(0x50, 2);
            publisher.send_ack(0x62, 2);
            publisher.expect_ack(0x70, 2);
            assert!(!subscriber.expect("t", "one").dup);
            assert!(!subscriber.expect("t", "two").dup);
        }
    });
}

#[test]
fn after_puback_an_identifier_names_a_new_message() {
    //= MQTT5-4.3.2-5, MQTT311-4.3.2-2
    in_both_modes(|broker| {
        for version in VERSIONS {
            let (mut publisher, mut subscriber) = pair(broker, version);
            subscriber.subscribe("t", 1);
            for (payload, dup) in [("one", false), ("two", false), ("three", true)] {
                let publish = Publish::new("t", payload).qos(1, 7);
                publisher.publish(&if dup { publish.dup() } else { publish });
                publisher.expect_ack(0x40, 7);
                subscriber.expect("t", payload);
            }
        }
    });
}

#[test]
fn a_repeated_qos_2_publish_is_answered_and_not_passed_on() {
    //= B35, MQTT5-4.3.3-10, MQTT5-4.3.3-12, MQTT311-4.3.3-2
    in_both_modes(|broker| {
        for version in VERSIONS {
            let (mut publisher, mut subscriber) = pair(broker, version);
            subscriber.subscribe("t", 2);
            publisher.publish(&Publish::new("t", "one").qos(2, 5));
            publisher.expect_ack(0x50, 5);
            for _ in 0..3 {
                publisher.publish(&Publish::new("t", "one").qos(2, 5).dup());
                publisher.expect_ack(0x50, 5);
            }
            publisher.send_ack(0x62, 5);
            publisher.expect_ack(0x70, 5);
            publisher.publish(&Publish::new("t", "two").qos(2, 5));
            publisher.expect_ack(0x50, 5);
            publisher.send_ack(0x62, 5);
            publisher.expect_ack(0x70, 5);
            subscriber.expect("t", "one");
            subscriber.expect("t", "two");
            subscriber.ping_without_messages();
        }
    });
}

#[test]
fn a_qos_2_publish_repeated_after_a_reset_is_not_passed_on() {
    //= B35, MQTT5-4.3.3-10, MQTT311-4.3.3-2, MQTT5-4.4.0-1
    in_both_modes(|broker| {
        for version in [V4, V5] {
            let mut subscriber = Client::connect(broker, version, "subscriber");
            subscriber.subscribe("t", 2);
            let connect = Connect::persistent(version, "publisher");
            let (mut publisher, _) = connect.open(broker);
            publisher.publish(&Publish::new("t", "x").qos(2, 5));
            publisher.expect_ack(0x50, 5);
            publisher.reset();
            let (mut publisher, accepted) = connect.open(broker);
            assert!(accepted.session_present);
            publisher.publish(&Publish::new("t", "x").qos(2, 5).dup());
            publisher.expect_ack(0x50, 5);
            publisher.send_ack(0x62, 5);
            publisher.expect_ack(0x70, 5);
            publisher.say("t", "marker", 2);
            subscriber.expect("t", "x");
            subscriber.expect("t", "marker");
            Client::connect(broker, version, "publisher").disconnect();
        }
    });
}

#[test]
fn an_owed_pubrel_is_sent_again_and_the_publish_is_not() {
    //= B35, MQTT5-4.4.0-1, MQTT5-4.3.3-6, MQTT5-4.3.3-5, MQTT311-4.4.0-1, MQTT311-4.3.3-1
    in_both_modes(|broker| {
        for version in [V4, V5] {
            let connect = Connect::persistent(version, "subscriber");
            let (mut subscriber, _) = connect.open(broker);
            subscriber.subscribe("t", 2);
            Client::connect(broker, version, "publisher").say("t", "x", 2);
            let message = next(&mut subscriber, "x");
            subscriber.send_ack(0x50, message.id);
            subscriber.expect_ack(0x62, message.id);
            subscriber.reset();
            for _ in 0..2 {
                let (mut subscriber, accepted) = connect.open(broker);
                assert!(accepted.session_present);
                let [high, low] = message.id.to_be_bytes();
                subscriber.expect_hex(&format!("62 02 {high:02X} {low:02X}"));
                subscriber.reset();
            }
            let (mut subscriber, _) = connect.open(broker);
            subscriber.expect_ack(0x62, message.id);
            subscriber.send_ack(0x70, message.id);
            subscriber.ping_without_messages();
            subscriber.disconnect();
            let (mut subscriber, _) = connect.open(broker);
            subscriber.ping_without_messages();
            subscriber.unsubscribe(&["t"]);
        }
    });
}

#[test]
fn unacknowledged_messages_are_sent_again_in_order_with_dup() {
    //= MQTT5-3.3.1-1, MQTT5-4.3.2-3, MQTT5-4.3.3-3, MQTT5-4.4.0-1, MQTT311-3.3.1-1
    //= MQTT311-4.3.2-1, MQTT311-4.4.0-1, MQTT5-4.6.0-5
    in_both_modes(|broker| {
        for (version, id) in [(V3, "three"), (V4, "four"), (V5, "five")] {
            let connect = Connect::persistent(version, id);
            let (mut subscriber, _) = connect.open(broker);
            subscriber.subscribe("t", 2);
            let mut publisher = Client::connect(broker, version, "publisher");
            for n in 0..8 {
                publisher.say("t", &n.to_string(), 1 + n % 2);
            }
            let sent: Vec<Message> =
                (0..8).map(|n| next(&mut subscriber, &n.to_string())).collect();
            assert!(sent.iter().all(|message| !message.dup));
            subscriber.reset();
            let (mut subscriber, _) = connect.open(broker);
            for message in &sent {
                let again = next(&mut subscriber, message.payload_text());
                assert_eq!((again.id, again.dup, again.qos), (message.id, true, message.qos));
            }
            for message in &sent {
                subscriber.acknowledge(message);
            }
            subscriber.ping_without_messages();
            subscriber.reset();
            let (mut subscriber, _) = connect.open(broker);
            subscriber.ping_without_messages();
            subscriber.unsubscribe(&["t"]);
        }
    });
}

#[test]
fn nothing_is_sent_again_while_the_connection_lasts() {
    //= MQTT5-4.4.0-1
    in_both_modes(|broker| {
        let (mut publisher, mut subscriber) = pair(broker, V5);
        subscriber.subscribe("t", 1);
        publisher.say("t", "one", 1);
        publisher.say("t", "two", 1);
        let one = next(&mut subscriber, "one");
        let two = next(&mut subscriber, "two");
        std::thread::sleep(std::time::Duration::from_millis(1500));
        subscriber.ping_without_messages();
        subscriber.acknowledge(&one);
        subscriber.acknowledge(&two);
    });
}

#[test]
fn messages_for_a_session_that_is_away_wait_in_order() {
    //= MQTT311-3.1.2-5, MQTT5-3.1.2-5, MQTT5-4.5.0-1, MQTT311-4.5.0-1
    in_both_modes(|broker| {
        for (version, id) in [(V3, "three"), (V4, "four"), (V5, "five")] {
            let connect = Connect::persistent(version, id);
            let (mut subscriber, _) = connect.open(broker);
            subscriber.subscribe("t", 1);
            subscriber.disconnect();
            let mut publisher = Client::connect(broker, version, "publisher");
            for n in 0..200 {
                publisher.say("t", &n.to_string(), 1 + n % 2);
            }
            let (mut subscriber, _) = connect.open(broker);
            for n in 0..200 {
                let message = subscriber.expect("t", &n.to_string());
                assert_eq!((message.qos, message.dup), (1, false));
            }
            subscriber.unsubscribe(&["t"]);
        }
    });
}

#[test]
fn order_is_kept_for_each_publisher_and_topic() {
    //= MQTT5-4.6.0-5, MQTT5-4.6.0-6, MQTT311-4.6.0-5, MQTT311-4.6.0-6
    in_both_modes(|broker| {
        for qos in 0..3 {
            let mut subscriber = Client::connect(broker, V4, "subscriber");
            subscriber.subscribe("order/#", 2);
            let mut publishers: Vec<Client> =
                (0..3).map(|n| Client::connect(broker, V4, &format!("p{n}"))).collect();
            for (n, publisher) in publishers.iter_mut().enumerate() {
                let mut all = Vec::new();
                for id in 1..=100 {
                    let publish = Publish::new(&format!("order/{n}"), id.to_string());
                    all.extend(publish.qos(qos, id).encode(V4));
                }
                publisher.send(&all);
            }
            for publisher in &mut publishers {
                for id in 1..=100 {
                    match qos {
                        0 => {}
                        1 => publisher.expect_ack(0x40, id),
                        _ => {
                            publisher.expect_ack(0x50, id);
                            publisher.send_ack(0x62, id);
                        }
                    }
                }
            }
            let mut next = [1; 3];
            for _ in 0..300 {
                let message = subscriber.expect_message();
                subscriber.acknowledge(&message);
                let from: usize = message.topic["order/".len()..].parse().unwrap();
                assert_eq!(message.payload_text(), next[from].to_string(), "from {from}");
                next[from] += 1;
            }
        }
    });
}

#[test]
fn acknowledgements_follow_the_order_of_publishes() {
    in_both_modes(|broker| {
        let mut client = Client::connect(broker, V4, "a");
        let all: Vec<u8> =
            (1..=300).rev().flat_map(|id| Publish::new("t", "x").qos(1, id).encode(V4)).collect();
        client.send(&all);
        for id in (1..=300).rev() {
            client.expect_ack(0x40, id);
        }
    });
}

#[test]
fn acknowledgements_of_nothing_are_answered_or_ignored() {
    //= MQTT5-4.3.3-11
    in_both_modes(|broker| {
        let mut five = Client::connect(broker, V5, "five");
        five.send_hex("40 02 00 09");
        five.send_hex("70 02 00 09");
        five.ping();
        five.send_hex("50 02 00 09");
        assert_eq!(five.expect_ack_code(0x62, 9), 0x92);
        five.send_hex("62 02 00 09");
        assert_eq!(five.expect_ack_code(0x70, 9), 0x92);
        let mut four = Client::connect(broker, V4, "four");
        four.send_hex("40 02 00 09");
        four.send_hex("70 02 00 09");
        four.send_hex("62 02 00 09");
        four.expect_ack(0x70, 9);
        four.ping();
    });
}

#[test]
fn a_refusal_by_the_receiver_ends_the_delivery() {
    //= MQTT5-4.4.0-2, MQTT5-4.3.3-9
    in_both_modes(|broker| {
        let connect = Connect::persistent(V5, "subscriber");
        let (mut subscriber, _) = connect.open(broker);
        subscriber.subscribe("t", 2);
        let mut publisher = Client::connect(broker, V5, "publisher");
        publisher.say("t", "one", 1);
        publisher.say("t", "two", 2);
        let one = next(&mut subscriber, "one");
        let two = next(&mut subscriber, "two");
        let [high, low] = one.id.to_be_bytes();
        subscriber.send(&[0x40, 3, high, low, 0x97]);
        let [high, low] = two.id.to_be_bytes();
        subscriber.send(&[0x50, 3, high, low, 0x80]);
        subscriber.ping_without_messages();
        subscriber.reset();
        let (mut subscriber, _) = connect.open(broker);
        subscriber.say("t", "marker", 2);
        subscriber.expect("t", "marker");
    });
}

#[test]
fn codes_of_acknowledgements_are_checked() {
    //= MQTT5-3.4.2-1, MQTT5-3.5.2-1, MQTT5-3.6.2-1, MQTT5-3.7.2-1
    in_both_modes(|broker| {
        for digits in ["40 03 00 01 01", "50 03 00 01 92", "62 03 00 01 10", "70 03 00 01 80"] {
            let mut client = Client::connect(broker, V5, "a");
            client.send_hex(digits);
            client.expect_end(&[0x81, 0x82]);
        }
    });
}

#[test]
fn acknowledgements_may_carry_properties() {
    in_both_modes(|broker| {
        let (mut publisher, mut subscriber) = pair(broker, V5);
        subscriber.subscribe("t", 2);
        publisher.say("t", "x", 2);
        let message = next(&mut subscriber, "x");
        let [high, low] = message.id.to_be_bytes();
        let tail = [0x00, 0x0B, 0x1F, 0, 1, 0x72, 0x26, 0, 1, 0x61, 0, 1, 0x62];
        let ack = |first| [&[first, 15, high, low], &tail[..]].concat();
        subscriber.send(&ack(0x50));
        subscriber.expect_ack(0x62, message.id);
        subscriber.send(&ack(0x70));
        subscriber.ping_without_messages();
    });
}

#[test]
fn request_problem_information_0_keeps_reasons_away() {
    //= MQTT5-3.1.2-29
    in_both_modes(|broker| {
        let (mut client, _) = Connect::new(V5, "a").properties("17 00").open(broker);
        client.send_hex("62 02 00 09");
        let answer = client.expect_packet();
        assert!(answer.len() <= 6 && answer.get(5).is_none_or(|&len| len == 0), "{answer:02X?}");
        client.send_hex("A2 06 00 01 00 00 01 74");
        let answer = client.expect_packet();
        assert_eq!(answer, [0xB0, 4, 0, 1, 0, 0x11]);
    });
}
