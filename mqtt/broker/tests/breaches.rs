//! Clients that break what binds them, and what the broker does about it: as far as it can see it,
//! and where no other file is about the same.

mod support;

use Version::{V4, V5};
use support::{
    Broker, Client, Connect, Publish, Version, bytes, ends, in_both_modes, packet, text,
};

/// A CONNECT of fields that its flags may not announce, or do not find.
fn connect(version: Version, flags: u8, fields: &[Vec<u8>]) -> Vec<u8> {
    let level = if version == V5 { 5 } else { 4 };
    let mut body = text("MQTT");
    body.extend([level, flags, 0, 60]);
    if version == V5 {
        body.push(0);
    }
    body.extend(fields.concat());
    packet(0x10, &body)
}

#[track_caller]
fn refused(broker: &Broker, version: Version, packet: &[u8]) {
    let mut client = Client::open(broker, version);
    client.send(packet);
    if version == V5 {
        client.expect_refusal();
    } else {
        client.expect_close();
    }
}

#[test]
fn fields_of_connect_that_its_flags_do_not_announce() {
    //= MQTT5-3.1.2-16, MQTT5-3.1.2-18, MQTT311-3.1.2-18, MQTT311-3.1.2-20
    in_both_modes(|broker| {
        for version in [V4, V5] {
            let (id, user) = (text("a"), text("user"));
            refused(broker, version, &connect(version, 0x02, &[id.clone(), user.clone()]));
            refused(broker, version, &connect(version, 0x82, &[id, user, bytes(b"password")]));
        }
    });
}

#[test]
fn fields_of_connect_that_are_announced_and_missing() {
    //= MQTT5-3.1.2-9, MQTT5-3.1.2-17, MQTT5-3.1.2-19, MQTT5-3.1.3-3
    //= MQTT311-3.1.2-9, MQTT311-3.1.2-19, MQTT311-3.1.2-21, MQTT311-3.1.3-3
    in_both_modes(|broker| {
        for version in [V4, V5] {
            let id = text("a");
            let mut will = if version == V5 { vec![0] } else { Vec::new() };
            refused(broker, version, &connect(version, 0x02, &[]));
            refused(broker, version, &connect(version, 0x06, std::slice::from_ref(&id)));
            refused(broker, version, &connect(version, 0x06, &[id.clone(), will.clone()]));
            will.extend(text("topic"));
            refused(broker, version, &connect(version, 0x06, &[id.clone(), will]));
            refused(broker, version, &connect(version, 0x82, std::slice::from_ref(&id)));
            refused(broker, version, &connect(version, 0xC2, &[id, text("user")]));
        }
    });
}

#[test]
fn strings_of_connect_that_are_no_text() {
    //= MQTT5-3.1.3-4, MQTT5-3.1.3-11, MQTT5-3.1.3-12
    //= MQTT311-3.1.3-4, MQTT311-3.1.3-10, MQTT311-3.1.3-11
    in_both_modes(|broker| {
        let bad = bytes(&[0xED, 0xA0, 0x80]);
        for version in [V4, V5] {
            let properties = if version == V5 { vec![0] } else { Vec::new() };
            let will = [properties, bad.clone(), text("payload")].concat();
            refused(broker, version, &connect(version, 0x02, std::slice::from_ref(&bad)));
            refused(broker, version, &connect(version, 0x06, &[text("a"), will]));
            refused(broker, version, &connect(version, 0x82, &[text("a"), bad.clone()]));
        }
    });
}

#[test]
fn filters_that_are_no_text() {
    //= MQTT5-3.8.3-1, MQTT5-3.10.3-1, MQTT311-3.8.3-1, MQTT311-3.10.3-1
    in_both_modes(|broker| {
        ends(broker, V4, "82 08 00 01 00 03 ED A0 80 00", &[]);
        ends(broker, V4, "A2 07 00 01 00 03 ED A0 80", &[]);
        ends(broker, V5, "82 09 00 01 00 00 03 ED A0 80 00", &[0x81]);
        ends(broker, V5, "A2 08 00 01 00 00 03 ED A0 80", &[0x81]);
    });
}

#[test]
fn a_topic_alias_where_none_is_taken() {
    //= MQTT5-3.2.2-18
    let broker = Broker::start(false, &["--max-topic-aliases", "0"]);
    let (mut client, accepted) = Connect::new(V5, "a").open(&broker);
    assert!(accepted.all(0x22).is_empty(), "no Topic Alias Maximum");
    client.publish(&Publish::new("t", "").properties("23 00 01"));
    client.expect_end(&[0x94]);
}

#[test]
fn a_topic_alias_above_what_is_taken() {
    //= MQTT5-3.2.2-17, MQTT5-3.3.2-9
    let broker = Broker::start(false, &["--max-topic-aliases", "7"]);
    let (mut client, accepted) = Connect::new(V5, "a").open(&broker);
    assert_eq!(accepted.number(0x22), Some(7));
    client.publish(&Publish::new("t", "").properties("23 00 07"));
    client.ping();
    client.publish(&Publish::new("t", "").properties("23 00 08"));
    client.expect_end(&[0x94]);
}

/// The message that has the identifier stays, and the other is taken for its repetition: so says
/// the standard, which lets nobody tell them apart.
#[test]
fn a_message_under_an_identifier_that_is_not_free() {
    //= MQTT5-2.2.1-3, MQTT311-2.3.1-2
    in_both_modes(|broker| {
        for version in [V4, V5] {
            let mut reader = Client::connect(broker, version, "reader");
            reader.subscribe("t", 2);
            let mut client = Client::connect(broker, version, "a");
            for payload in ["one", "another"] {
                client.publish(&Publish::new("t", payload).qos(2, 7));
                client.expect_ack(0x50, 7);
            }
            client.send_ack(0x62, 7);
            client.expect_ack(0x70, 7);
            client.publish(&Publish::new("t", "free again").qos(2, 7));
            client.expect_ack(0x50, 7);
            reader.expect("t", "one");
            reader.expect("t", "free again");
        }
    });
}

/// Each request is answered as if the identifier were free: the answers are of other types, so that
/// a client that keeps numbers of its own for each type is served as well.
#[test]
fn a_request_under_an_identifier_that_is_not_free() {
    //= MQTT5-2.2.1-3, MQTT311-2.3.1-2
    in_both_modes(|broker| {
        for (version, properties) in [(V4, &[][..]), (V5, &[0][..])] {
            let mut client = Client::connect(broker, version, "a");
            client.publish(&Publish::new("t", "one").qos(2, 7));
            client.expect_ack(0x50, 7);
            let filter = [&[0, 7], properties, &text("t")].concat();
            client.send(&packet(0x82, &[&filter[..], &[1]].concat()));
            assert_eq!(client.expect_codes(0x90, 7), [1]);
            client.send(&packet(0xA2, &filter));
            client.expect_codes(0xB0, 7);
            client.publish(&Publish::new("t", "two").qos(1, 7));
            client.expect_ack(0x40, 7);
            client.send_ack(0x62, 7);
            client.expect_ack(0x70, 7);
        }
    });
}

/// Each answer is taken for the message it names, whatever the order.
#[test]
fn answers_in_another_order_than_their_messages() {
    //= MQTT5-4.6.0-2, MQTT5-4.6.0-3, MQTT311-4.6.0-2, MQTT311-4.6.0-3
    in_both_modes(|broker| {
        for version in [V4, V5] {
            let connect = Connect::persistent(version, "reader");
            let (mut reader, _) = connect.open(broker);
            reader.subscribe("t", 2);
            let mut publisher = Client::connect(broker, version, "publisher");
            for (n, qos) in [1, 1, 1, 2, 2, 2].into_iter().enumerate() {
                publisher.say("t", &n.to_string(), qos);
            }
            let messages: Vec<_> = (0..6).map(|_| reader.expect_message()).collect();
            for n in [2, 1] {
                reader.send_ack(0x40, messages[n].id);
            }
            for n in [5, 4] {
                reader.send_ack(0x50, messages[n].id);
                reader.expect_ack(0x62, messages[n].id);
            }
            reader.send_ack(0x70, messages[5].id);
            reader.ping();
            reader.reset();
            let (mut reader, _) = connect.open(broker);
            // What was not answered comes again, and what was received is to be completed.
            let again = ["0", "3"].map(|payload| {
                let message = reader.expect_message();
                assert_eq!(message.payload_text(), payload);
                message.id
            });
            assert_eq!(again, [messages[0].id, messages[3].id]);
            reader.expect_ack(0x62, messages[4].id);
            reader.ping_without_messages();
            reader.disconnect();
            Client::connect(broker, version, "reader").disconnect();
        }
    });
}

/// Each is completed as it comes.
#[test]
fn pubrels_in_another_order_than_their_pubrecs() {
    //= MQTT5-4.6.0-4, MQTT311-4.6.0-4
    in_both_modes(|broker| {
        for version in [V4, V5] {
            let mut client = Client::connect(broker, version, "a");
            for id in [1, 2, 3] {
                client.publish(&Publish::new("t", "").qos(2, id));
                client.expect_ack(0x50, id);
            }
            for id in [3, 1, 2] {
                client.send_ack(0x62, id);
                client.expect_ack(0x70, id);
            }
        }
    });
}
