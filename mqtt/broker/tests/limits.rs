//! What the options refuse, with its reason and its count; and what they slow down.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod support;

use std::time::{Duration, Instant};

use Version::{V3, V4, V5};
use support::{Broker, Client, Connect, Publish, Version, packet, text};

/// Calls `test` without a log and with one.
fn with_flags(flags: &[&str], test: impl Fn(&Broker)) {
    for logged in [false, true] {
        test(&Broker::start(logged, &[flags, &["--sys-interval", "50ms"]].concat()));
    }
}

/// Waits until a number below `$SYS/broker` is this.
fn counted(broker: &Broker, name: &str, wanted: &str) {
    Client::connect(broker, V5, "watcher").expect_sys(name, |value| value == wanted);
}

/// CONNACK of a CONNECT that is refused, and the close.
fn refused(broker: &Broker, connect: &Connect, version: Version) -> Option<u8> {
    let mut client = Client::open(broker, version);
    client.send(&connect.encode());
    let code = match client.receive(support::PATIENCE) {
        support::Received::Packet(answer) => {
            assert_eq!((answer[0], answer[2]), (0x20, 0));
            Some(answer[3])
        }
        support::Received::Closed => return None,
        support::Received::Nothing => panic!("neither an answer nor a close"),
    };
    client.expect_close();
    code
}

fn property(accepted: &support::Accepted, id: u8) -> Option<Vec<u8>> {
    accepted.properties.iter().find(|(found, _)| *found == id).map(|(_, value)| value.clone())
}

#[test]
fn a_broker_without_qos_2_says_so_and_keeps_to_it() {
    //= MQTT5-3.2.2-9, MQTT5-3.2.2-10, MQTT5-3.2.2-11, MQTT5-3.2.2-12
    with_flags(&["--max-qos", "1"], |broker| {
        let (mut client, accepted) = Connect::new(V5, "a").open(broker);
        assert_eq!(property(&accepted, 0x24), Some(vec![1]));
        assert_eq!(client.subscribe_with("", &[("t", 2), ("u", 0)]), [1, 0]);
        client.say("t", "one", 1);
        assert_eq!(client.expect("t", "one").qos, 1);
        client.publish(&Publish::new("t", "two").qos(2, 7));
        client.expect_end(&[0x9B]);
        let will = Connect::new(V5, "b").will("t", "will", 2, false);
        assert_eq!(refused(broker, &will, V5), Some(0x9B));
        Connect::new(V5, "c").will("t", "will", 1, false).open(broker);
        // MQTT 3 is not told, and cut off.
        for version in [V3, V4] {
            let mut old = Client::connect(broker, version, "old");
            assert_eq!(old.subscribe_with("", &[("v", 2)]), [1]);
            old.publish(&Publish::new("t", "two").qos(2, 7));
            old.expect_close();
            let will = Connect::new(version, "b").will("t", "will", 2, false);
            assert_eq!(refused(broker, &will, version), None);
        }
    });
    with_flags(&["--max-qos", "0"], |broker| {
        let (mut client, accepted) = Connect::new(V5, "a").open(broker);
        assert_eq!(property(&accepted, 0x24), Some(vec![0]));
        assert_eq!(client.subscribe_with("", &[("t", 2), ("u", 1)]), [0, 0]);
    });
}

#[test]
fn a_broker_that_retains_nothing_says_so_and_keeps_to_it() {
    //= MQTT5-3.2.2-13, MQTT5-3.2.2-14
    with_flags(&["--no-retain"], |broker| {
        let (mut client, accepted) = Connect::new(V5, "a").open(broker);
        assert_eq!(property(&accepted, 0x25), Some(vec![0]));
        client.say("t", "not retained", 1);
        client.publish(&Publish::new("t", "retained").retain());
        client.expect_end(&[0x9A]);
        let will = Connect::new(V5, "b").will("t", "will", 0, true);
        assert_eq!(refused(broker, &will, V5), Some(0x9A));
        let mut old = Client::connect(broker, V4, "old");
        old.publish(&Publish::new("t", "retained").retain());
        old.expect_close();
    });
}

#[test]
fn kinds_of_subscriptions_that_are_not_offered_are_refused() {
    //= MQTT311-3.8.3-2, MQTT5-3.8.4-6
    with_flags(&["--no-wildcards", "--no-shared"], |broker| {
        let (mut client, accepted) = Connect::new(V5, "a").open(broker);
        assert_eq!(property(&accepted, 0x28), Some(vec![0]));
        assert_eq!(property(&accepted, 0x2A), Some(vec![0]));
        let filters = [("t", 1), ("t/#", 1), ("+", 1), ("$share/g/t", 1)];
        assert_eq!(client.subscribe_with("", &filters), [1, 0xA2, 0xA2, 0x9E]);
        let mut old = Client::connect(broker, V4, "old");
        assert_eq!(old.subscribe_with("", &[("t", 1), ("t/#", 1)]), [1, 0x80]);
        old.say("t", "x", 0);
        client.expect("t", "x");
        counted(broker, "subscriptions/refused", "4");
    });
}

#[test]
fn a_client_identifier_may_have_so_many_bytes() {
    //= MQTT5-3.1.3-8, MQTT5-3.1.3-5
    with_flags(&["--max-client-id", "23"], |broker| {
        for (version, code) in [(V4, 0x02), (V5, 0x85)] {
            Connect::new(version, &"a".repeat(23)).open(broker);
            let long = Connect::new(version, &"a".repeat(24));
            assert_eq!(refused(broker, &long, version), Some(code));
        }
        counted(broker, "connections/refused", "2");
    });
}

#[test]
fn topics_and_filters_may_have_so_many_levels_and_bytes() {
    //= MQTT311-3.3.5-2
    with_flags(&["--max-topic-levels", "6", "--max-topic-length", "60"], |broker| {
        let long = "a".repeat(61);
        let mut client = Client::connect(broker, V5, "a");
        let filters = [("a/b/c/d/e/f", 1), ("a/b/c/d/e/f/g", 1), (&long, 1), ("#", 0)];
        assert_eq!(client.subscribe_with("", &filters), [1, 0x8F, 0x8F, 0]);
        for topic in ["a/b/c/d/e/f/g", &long] {
            client.publish(&Publish::new(topic, "x").qos(1, 7));
            assert_eq!(client.expect_ack_code(0x40, 7), 0x90);
            client.publish(&Publish::new(topic, "x").qos(2, 7));
            assert_eq!(client.expect_ack_code(0x50, 7), 0x90);
            // MQTT 3 has no word for it: acknowledged as usual, and dropped.
            let mut old = Client::connect(broker, V4, "old");
            old.say(topic, "x", 1);
            old.say(topic, "x", 0);
        }
        client.say("a/b/c/d/e/f", "y", 1);
        client.expect("a/b/c/d/e/f", "y");
        counted(broker, "publish/messages/refused/topic", "8");
    });
}

#[test]
fn so_many_messages_are_retained_and_those_that_are_may_change() {
    let flags = ["--max-retained", "3", "--max-retained-bytes", "100", "--lanes", "2"];
    with_flags(&flags, |broker| {
        let mut client = Client::connect(broker, V5, "a");
        for topic in ["a", "b", "c"] {
            client.retain(topic, "1", 1);
            client.retain(topic, "2", 0);
        }
        let refused = |client: &mut Client, topic: &str, payload: &str| {
            client.publish(&Publish::new(topic, payload).qos(1, 7).retain());
            assert_eq!(client.expect_ack_code(0x40, 7), 0x97);
        };
        refused(&mut client, "d", "1");
        refused(&mut client, "a", &"x".repeat(100));
        // Who cannot be told, at QoS 0 or by MQTT 3, publishes what is not retained. To cut off a
        // client for it would bring it back with the same message, for ever.
        let mut live = Client::connect(broker, V5, "live");
        live.subscribe("d", 2);
        refused(&mut client, "d", "2");
        client.retain("d", "3", 0);
        live.expect("d", "3");
        let mut old = Client::connect(broker, V4, "old");
        for (qos, payload) in [(0, "4"), (1, "5"), (2, "6")] {
            old.retain("d", payload, qos);
            live.expect("d", payload);
        }
        counted(broker, "publish/messages/refused/retained", "7");
        assert!(broker.log().contains("a message is not retained"), "it is told");
        client.retain("b", "", 1);
        client.retain("d", "1", 1);
        let mut reader = Client::connect(broker, V5, "reader");
        reader.subscribe("+", 0);
        let mut got: Vec<_> = (0..3).map(|_| reader.expect_message()).collect();
        got.sort_by(|a, b| a.topic.cmp(&b.topic));
        let got: Vec<_> =
            got.iter().map(|message| (message.topic.as_str(), message.payload_text())).collect();
        assert_eq!(got, [("a", "2"), ("c", "2"), ("d", "1")]);
        reader.ping_without_messages();
    });
}

#[test]
fn a_client_that_sends_too_much_is_slowed_and_not_cut_off() {
    let rates = [["--max-message-rate", "100"], ["--max-byte-rate", "10KiB"]];
    for rate in rates {
        with_flags(&rate, |broker| {
            let mut other = Client::connect(broker, V5, "other");
            other.subscribe("t", 0);
            // A keep alive that is over before its last message is read. All of it is there from
            // the beginning, so that no pause of this client becomes silence.
            let mut all = Connect::new(V4, "fast").keep_alive(1).encode();
            for n in 0..300 {
                all.extend(Publish::new("t", format!("{n:090}")).qos(0, 0).encode(V4));
            }
            all.extend([0xC0, 0]);
            let mut fast = Client::open(broker, V4);
            let start = Instant::now();
            fast.send(&all);
            for n in 0..300 {
                other.expect("t", &format!("{n:090}"));
            }
            // A second's worth may come at once; what comes earlier is a fault, later is none.
            assert!(start.elapsed() > Duration::from_millis(1500), "{:?}", start.elapsed());
            fast.expect_hex("20 02 00 00");
            fast.expect_hex("D0 00");
            let mut watcher = Client::connect(broker, V5, "watcher");
            watcher.subscribe("$SYS/broker/clients/throttled", 0);
            watcher.expect_value("$SYS/broker/clients/throttled", |value| value != "0");
        });
    }
}

#[test]
fn subscriptions_of_a_session_are_bounded_and_refusals_are_counted() {
    with_flags(&["--max-subscriptions", "2"], |broker| {
        let mut client = Client::connect(broker, V5, "a");
        let filters = [("a", 1), ("b", 1), ("c", 1), ("a", 2)];
        assert_eq!(client.subscribe_with("", &filters), [1, 1, 0x97, 2]);
        counted(broker, "subscriptions/refused", "1");
        // One that goes leaves room, one that does not exist none.
        client.unsubscribe(&["a", "x"]);
        assert_eq!(client.subscribe_with("", &[("c", 1), ("d", 1)]), [1, 0x97]);
        let body = [&[0, 9, 0][..], &text("e"), &[1]].concat();
        client.send(&packet(0x82, &body));
        assert_eq!(client.expect_codes(0x90, 9), [0x97]);
    });
}

#[test]
fn payloads_that_say_so_are_held_to_be_text() {
    for (arguments, code) in [(&["--check-payload-format"][..], 0x99), (&[][..], 0x10)] {
        let broker = Broker::start(false, arguments);
        let mut client = Client::connect(&broker, V5, "c");
        let no_text = |says: &str, id| Publish::new("a", [0xFF]).properties(says).qos(1, id);
        client.publish(&no_text("01 01", 1));
        assert_eq!(client.expect_ack_code(0x40, 1), code);
        client.publish(&no_text("01 00", 2));
        client.expect_ack(0x40, 2);
        client.publish(&Publish::new("a", "text").properties("01 01").qos(2, 3));
        client.expect_ack(0x50, 3);
        client.ping();
    }
}
