//! Windows: how many messages may be on their way at once, to a client and from it.

mod support;

use Version::{V3, V4, V5};
use support::{Broker, Client, Connect, Message, Publish, Version, in_both_modes, next, pair};

const VERSIONS: [Version; 3] = [V3, V4, V5];

#[test]
fn the_receive_maximum_of_the_client_is_the_window() {
    //= MQTT5-3.3.4-9, MQTT5-3.3.4-10, MQTT5-4.9.0-1, MQTT5-4.9.0-2, MQTT5-4.9.0-3
    in_both_modes(|broker| {
        for qos in 1..3 {
            for window in [1, 3] {
                let mut publisher = Client::connect(broker, V5, "publisher");
                let connect = Connect::new(V5, "subscriber");
                let (mut subscriber, _) =
                    connect.properties(&format!("21 00 {window:02X}")).open(broker);
                subscriber.subscribe("t", 2);
                subscriber.subscribe("free", 0);
                for n in 0..10 {
                    publisher.say("t", &n.to_string(), qos);
                }
                let mut open: Vec<Message> =
                    (0..window).map(|n| next(&mut subscriber, &n.to_string())).collect();
                // The window holds nothing back but QoS 1 and 2.
                publisher.say("free", "zero", 0);
                next(&mut subscriber, "zero");
                subscriber.ping_without_messages();
                subscriber.subscribe("more", 1);
                for n in window..10 {
                    let oldest = open.remove(0);
                    subscriber.acknowledge(&oldest);
                    open.push(next(&mut subscriber, &n.to_string()));
                    subscriber.ping_without_messages();
                }
                for message in &open {
                    subscriber.acknowledge(message);
                }
            }
        }
    });
}

#[test]
fn a_window_of_one_is_enough_and_one_of_none_is_refused() {
    //= B19
    for logged in [false, true] {
        let broker = Broker::start(logged, &["--max-inflight", "1"]);
        for version in VERSIONS {
            let (mut publisher, mut subscriber) = pair(&broker, version);
            subscriber.subscribe("t", 2);
            for n in 0..10 {
                publisher.say("t", &n.to_string(), 2);
            }
            for n in 0..10 {
                let message = next(&mut subscriber, &n.to_string());
                subscriber.ping_without_messages();
                subscriber.acknowledge(&message);
            }
        }
    }
    let (status, said) = support::run(&["--bind", "tcp://127.0.0.1:0", "--max-inflight", "0"]);
    assert!(!status.success());
    assert!(said.contains("--max-inflight"), "{said}");
}

#[test]
fn the_window_of_qos_2_opens_at_pubcomp() {
    //= MQTT5-3.3.4-9, MQTT5-4.9.0-2
    in_both_modes(|broker| {
        let mut publisher = Client::connect(broker, V5, "publisher");
        let (mut subscriber, _) =
            Connect::new(V5, "subscriber").properties("21 00 01").open(broker);
        subscriber.subscribe("t", 2);
        publisher.say("t", "one", 2);
        publisher.say("t", "two", 2);
        let one = next(&mut subscriber, "one");
        subscriber.send_ack(0x50, one.id);
        subscriber.expect_ack(0x62, one.id);
        subscriber.ping_without_messages();
        subscriber.send_ack(0x70, one.id);
        next(&mut subscriber, "two");
    });
}

#[test]
fn publishing_beyond_the_receive_maximum_of_the_server_is_answered() {
    //= MQTT5-3.3.4-7
    //= MQTT5-4.13.1-1
    in_both_modes(|broker| {
        let (mut client, accepted) = Connect::new(V5, "a").open(broker);
        let maximum = accepted.number(0x21).unwrap_or(65_535);
        // QoS 2 stays open until PUBREL.
        let mut all = Vec::new();
        for id in 1..=u16::try_from(maximum).unwrap() {
            all.extend(Publish::new("t", "").qos(2, id).encode(V5));
        }
        client.send(&all);
        for id in 1..=u16::try_from(maximum).unwrap() {
            client.expect_ack(0x50, id);
        }
        if let Ok(id) = u16::try_from(maximum + 1) {
            client.publish(&Publish::new("t", "").qos(2, id));
            client.expect_end(&[0x93]);
        }
    });
}
