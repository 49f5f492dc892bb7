//! What a receiver's answers do: those that fit, those that fit nothing, and those of a client
//! that remembers more of a session than its new connection has seen.

mod support;

use Version::{V3, V4, V5};
use support::{Broker, Client, Connect, Message, Publish, Version, in_both_modes, next};

/// A receiver of "t" at QoS 2, with two messages under way: at QoS 1 and at QoS 2.
fn receiver(broker: &Broker, version: Version) -> (Client, Message, Message) {
    let mut client = Client::connect(broker, version, "receiver");
    client.subscribe("t", 2);
    client.publish(&Publish::new("t", "one").qos(1, 1));
    client.expect_ack(0x40, 1);
    client.publish(&Publish::new("t", "two").qos(2, 2));
    client.expect_ack(0x50, 2);
    let one = next(&mut client, "one");
    let two = next(&mut client, "two");
    (client, one, two)
}

#[test]
fn answers_of_another_qos_or_out_of_turn_end_the_connection() {
    //= MQTT5-4.13.1-1, MQTT311-4.8.0-1
    in_both_modes(|broker| {
        for version in [V3, V4, V5] {
            let (mut client, _, two) = receiver(broker, version);
            client.send_ack(0x40, two.id);
            client.expect_end(&[0x82]);
            let (mut client, one, _) = receiver(broker, version);
            client.send_ack(0x50, one.id);
            client.expect_end(&[0x82]);
            let (mut client, one, _) = receiver(broker, version);
            client.send_ack(0x70, one.id);
            client.expect_end(&[0x82]);
            // PUBCOMP before PUBREL, with PUBREC not sent and sent.
            let (mut client, _, two) = receiver(broker, version);
            client.send_ack(0x70, two.id);
            client.expect_end(&[0x82]);
        }
    });
}

#[test]
fn a_pubrec_repeated_at_once_brings_one_pubrel_and_later_another() {
    //= MQTT5-4.3.3-4, MQTT311-4.3.3-1
    in_both_modes(|broker| {
        for version in [V4, V5] {
            let (mut client, _, two) = receiver(broker, version);
            let [high, low] = two.id.to_be_bytes();
            client.send(&[0x50, 2, high, low, 0x50, 2, high, low]);
            client.expect_ack(0x62, two.id);
            client.ping();
            client.send_ack(0x50, two.id);
            client.expect_ack(0x62, two.id);
            client.send_ack(0x70, two.id);
            client.send_ack(0x70, two.id);
            client.ping_without_messages();
        }
    });
}

/// A client may speak of a message that its new connection has not brought yet. If it were told
/// that nobody knows it, it would forget the identifier and take the message twice.
#[test]
fn a_pubrec_for_what_is_still_to_be_sent_again_is_not_answered_as_unknown() {
    //= MQTT5-4.4.0-1, MQTT311-4.3.3-1
    in_both_modes(|broker| {
        let connect = Connect::persistent(V5, "receiver");
        let (mut client, _) = connect.open(broker);
        client.subscribe("t", 2);
        let mut publisher = Client::connect(broker, V5, "publisher");
        publisher.say("t", "one", 2);
        publisher.say("t", "two", 2);
        let one = next(&mut client, "one");
        let two = next(&mut client, "two");
        client.reset();
        let (mut client, _) = connect.clone().properties("21 00 01").open(broker);
        assert_eq!(next(&mut client, "one").id, one.id);
        client.send_ack(0x50, two.id);
        client.ping_without_messages();
        client.acknowledge(&one);
        let again = next(&mut client, "two");
        assert!(again.dup && again.id == two.id);
        client.acknowledge(&again);
        client.ping_without_messages();
    });
}

#[test]
fn pubrels_that_are_owed_from_before_are_no_part_of_the_window() {
    //= MQTT5-4.9.0-2, MQTT5-4.4.0-1
    in_both_modes(|broker| {
        let connect = Connect::persistent(V5, "receiver").properties("21 00 01");
        let (mut client, _) = connect.open(broker);
        client.subscribe("t", 2);
        let mut publisher = Client::connect(broker, V5, "publisher");
        publisher.say("t", "one", 2);
        let one = next(&mut client, "one");
        client.send_ack(0x50, one.id);
        client.expect_ack(0x62, one.id);
        client.reset();
        publisher.say("t", "two", 2);
        publisher.say("t", "three", 2);
        let (mut client, _) = connect.open(broker);
        let [high, low] = one.id.to_be_bytes();
        client.expect_hex(&format!("62 02 {high:02X} {low:02X}"));
        let two = next(&mut client, "two");
        client.ping_without_messages();
        // Its PUBCOMP gives the window nothing.
        client.send_ack(0x70, one.id);
        client.ping_without_messages();
        client.acknowledge(&two);
        client.expect("t", "three");
    });
}

#[test]
fn a_message_that_has_become_too_large_counts_as_delivered_although_it_was_sent() {
    //= MQTT5-3.1.2-25, MQTT5-4.3.3-4
    in_both_modes(|broker| {
        for qos in [1, 2] {
            let connect = Connect::persistent(V5, "receiver");
            let (mut client, _) = connect.open(broker);
            client.subscribe("t", 2);
            let mut publisher = Client::connect(broker, V5, "publisher");
            publisher.say("t", &"x".repeat(100), qos);
            let sent = next(&mut client, &"x".repeat(100));
            client.reset();
            let (mut client, _) = connect.clone().properties("27 00 00 00 40").open(broker);
            if qos == 2 {
                // It may keep the identifier, and would take another message for a repeat.
                client.expect_ack(0x62, sent.id);
                client.send_ack(0x70, sent.id);
            }
            publisher.say("t", "small", qos);
            client.expect("t", "small");
            client.disconnect();
            let (mut client, _) = connect.open(broker);
            publisher.say("t", "last", qos);
            client.expect("t", "last");
            client.disconnect();
        }
    });
}

/// One message is not acknowledged while all identifiers go round: the next that would have its
/// identifier waits, and goes out when that acknowledgement comes, though nothing else happens.
#[test]
fn the_last_answer_lets_the_next_message_have_its_identifier() {
    //= MQTT5-2.2.1-4, MQTT311-2.3.1-4
    in_both_modes(|broker| {
        let mut client = Client::connect(broker, V4, "receiver");
        client.subscribe("t", 1);
        let mut publisher = Client::connect(broker, V4, "publisher");
        let mut publish = |count: u16| {
            let one = |id| Publish::new("t", "x").qos(1, id).encode(V4);
            publisher.send(&(1..=count).flat_map(one).collect::<Vec<u8>>());
            for id in 1..=count {
                publisher.expect_ack(0x40, id);
            }
        };
        let mut first = None;
        for _ in 0..257 {
            publish(255);
            for _ in 0..255 {
                let message = client.expect_message();
                if first.is_some() {
                    client.acknowledge(&message);
                } else {
                    first = Some(message);
                }
            }
        }
        let first = first.unwrap();
        client.ping_without_messages();
        publish(2);
        client.ping_without_messages();
        client.acknowledge(&first);
        let next = client.expect_message();
        assert_eq!(next.id, first.id, "all others are in turn before it");
        client.acknowledge(&next);
        let next = client.expect_message();
        client.acknowledge(&next);
        client.ping_without_messages();
    });
}

/// The alias that a message defines or uses, and its topic as it is on the wire.
fn named(client: &mut Client, payload: &str) -> (Option<u32>, String) {
    let message = next(client, payload);
    client.acknowledge(&message);
    (message.number(0x23), message.topic)
}

#[test]
fn topics_go_by_alias_to_a_client_that_takes_some_and_only_on_the_connection_that_defined_it() {
    //= MQTT5-3.1.2-26, MQTT5-3.1.2-27, MQTT5-3.3.2-11
    in_both_modes(|broker| {
        // Topic Alias Maximum 2; two receivers beside it, so that forms of a message are shared.
        let connect = Connect::persistent(V5, "aliases").properties("22 00 02");
        let (mut client, _) = connect.open(broker);
        client.subscribe("#", 1);
        let mut plain = Client::connect(broker, V5, "plain");
        plain.subscribe("#", 1);
        let mut old = Client::connect(broker, V4, "old");
        old.subscribe("#", 1);
        let mut publisher = Client::connect(broker, V5, "publisher");
        let sent = [
            ("first", 0, Some(1), "first"),
            ("second", 1, Some(2), "second"),
            ("third", 1, None, "third"),
            ("first", 1, Some(1), ""),
            ("second", 0, Some(2), ""),
        ];
        for (topic, qos, alias, on_the_wire) in sent {
            publisher.say(topic, "p", qos);
            assert_eq!(named(&mut client, "p"), (alias, on_the_wire.into()));
            assert_eq!(named(&mut plain, "p"), (None, topic.into()));
            assert_eq!(named(&mut old, "p"), (None, topic.into()));
        }
        client.reset();
        let (mut client, _) = connect.open(broker);
        publisher.say("second", "p", 1);
        assert_eq!(named(&mut client, "p"), (Some(1), "second".into()));
    });
}

#[test]
fn a_message_that_only_an_alias_would_make_too_large_goes_by_its_name() {
    //= MQTT5-3.1.2-26, MQTT5-3.1.2-25
    in_both_modes(|broker| {
        // Maximum Packet Size 20, Topic Alias Maximum 9.
        let connect = Connect::new(V5, "small").properties("27 00 00 00 14 22 00 09");
        let (mut client, _) = connect.open(broker);
        client.subscribe("topic", 0);
        let mut publisher = Client::connect(broker, V5, "publisher");
        // 2 + 2 + 5 + 1 bytes and the payload are 20; an alias takes 3 more.
        publisher.say("topic", "0123456789", 0);
        assert_eq!(named(&mut client, "0123456789"), (None, "topic".into()));
        publisher.say("topic", "0123456", 0);
        assert_eq!(named(&mut client, "0123456"), (Some(1), "topic".into()));
        publisher.say("topic", "0123456789", 0);
        assert_eq!(named(&mut client, "0123456789"), (Some(1), String::new()));
    });
}
