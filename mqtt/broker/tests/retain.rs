//! Retained messages: kept, replaced, removed, and who gets them when.

mod support;

use std::thread::sleep;
use std::time::{Duration, Instant};

use Version::{V3, V4, V5};
use support::{Broker, Client, Connect, Publish, Version, expect_left, in_both_modes};

/// Subscribes and gets nothing retained: a marker comes first.
#[track_caller]
fn gets_nothing(client: &mut Client, filter: &str, options: u8, marker: &str) {
    client.subscribe(filter, options);
    client.say(marker, "marker", 1);
    client.expect(marker, "marker");
}

/// A fresh subscriber.
fn fresh(broker: &Broker, version: Version) -> Client {
    Client::connect(broker, version, "fresh")
}

#[test]
fn a_new_subscription_gets_the_last_message_of_each_topic() {
    //= MQTT311-3.3.1-5, MQTT311-3.3.1-6, MQTT311-3.3.1-8, MQTT5-3.3.1-5, MQTT5-3.3.1-9
    in_both_modes(|broker| {
        for version in [V3, V4, V5] {
            let mut publisher = Client::connect(broker, version, "publisher");
            for qos in 0..3 {
                publisher.retain(&format!("r/{qos}"), "first", qos);
                publisher.retain(&format!("r/{qos}"), "last", qos);
            }
            for qos in 0..3 {
                let mut client = fresh(broker, version);
                client.subscribe(&format!("r/{qos}"), 2);
                let message = client.expect(&format!("r/{qos}"), "last");
                assert_eq!((message.retain, message.qos, message.dup), (true, qos, false));
                client.ping_without_messages();
            }
        }
    });
}

#[test]
fn wildcard_subscriptions_get_retained_messages() {
    //= B29, MQTT311-3.3.1-6, MQTT5-3.3.1-9
    in_both_modes(|broker| {
        let mut publisher = Client::connect(broker, V4, "publisher");
        publisher.retain("/e/t1", "one", 1);
        publisher.retain("/e/t2/x", "two", 1);
        publisher.retain("/f", "three", 1);
        for (filter, wanted) in [
            ("/e/#", &["/e/t1", "/e/t2/x"][..]),
            ("/+/t1", &["/e/t1"]),
            ("/#", &["/e/t1", "/e/t2/x", "/f"]),
            ("#", &["/e/t1", "/e/t2/x", "/f"]),
            ("+/+", &["/f"]),
            ("/e", &[]),
        ] {
            let mut client = fresh(broker, V4);
            client.subscribe(filter, 1);
            let mut got: Vec<String> = wanted
                .iter()
                .map(|_| {
                    let message = client.expect_message();
                    client.acknowledge(&message);
                    assert!(message.retain);
                    message.topic
                })
                .collect();
            got.sort();
            assert_eq!(got, wanted, "{filter}");
            client.ping_without_messages();
        }
    });
}

#[test]
fn wildcards_do_not_get_retained_messages_of_system_topics() {
    //= MQTT5-4.7.2-1, MQTT311-4.7.2-1
    in_both_modes(|broker| {
        let mut client = fresh(broker, V4);
        gets_nothing(&mut client, "#", 1, "marker");
        gets_nothing(&mut client, "+/#", 1, "marker/x");
    });
}

#[test]
fn an_existing_subscription_gets_the_message_as_any_other() {
    //= MQTT311-3.3.1-9, MQTT5-3.3.1-12
    in_both_modes(|broker| {
        for (version, topic) in [(V4, "four"), (V5, "five")] {
            let mut client = fresh(broker, version);
            client.subscribe(topic, 1);
            client.retain(topic, "x", 1);
            assert!(!client.expect(topic, "x").retain);
        }
    });
}

#[test]
fn retain_as_published_keeps_the_flag() {
    //= MQTT5-3.3.1-13, MQTT5-3.3.1-12
    in_both_modes(|broker| {
        let mut client = fresh(broker, V5);
        client.subscribe("t", 0x09);
        client.retain("t", "kept", 1);
        assert!(client.expect("t", "kept").retain);
        client.say("t", "plain", 1);
        assert!(!client.expect("t", "plain").retain);
        client.subscribe("t", 0x19);
        client.retain("t", "", 1);
        assert!(client.expect("t", "").retain);
    });
}

#[test]
fn an_empty_message_removes_and_is_forwarded() {
    //= MQTT5-3.3.1-6, MQTT5-3.3.1-7, MQTT311-3.3.1-10, MQTT311-3.3.1-11
    in_both_modes(|broker| {
        for version in [V4, V5] {
            let mut watcher = Client::connect(broker, version, "watcher");
            watcher.retain("t", "x", 1);
            watcher.subscribe("#", 1);
            watcher.expect("t", "x");
            watcher.retain("t", "", 1);
            assert!(!watcher.expect("t", "").retain);
            gets_nothing(&mut fresh(broker, version), "#", 1, "marker");
        }
    });
}

#[test]
fn a_plain_message_leaves_the_retained_one() {
    //= MQTT5-3.3.1-8, MQTT311-3.3.1-12
    in_both_modes(|broker| {
        for version in [V4, V5] {
            let mut publisher = Client::connect(broker, version, "publisher");
            publisher.retain("t", "retained", 1);
            publisher.say("t", "plain", 1);
            publisher.say("t", "", 1);
            let mut client = fresh(broker, version);
            client.subscribe("t", 1);
            client.expect("t", "retained");
            client.ping_without_messages();
        }
    });
}

#[test]
fn retained_messages_outlive_the_session_that_sent_them() {
    //= MQTT311-3.1.2-7
    in_both_modes(|broker| {
        let mut publisher = Client::connect(broker, V4, "publisher");
        publisher.retain("t", "x", 0);
        publisher.disconnect();
        Client::connect(broker, V4, "publisher").disconnect();
        let mut client = fresh(broker, V4);
        client.subscribe("t", 0);
        client.expect("t", "x");
    });
}

#[test]
fn the_qos_is_the_lesser_of_published_and_granted() {
    //= MQTT311-3.8.4-6, MQTT5-3.8.4-8
    in_both_modes(|broker| {
        let mut publisher = Client::connect(broker, V5, "publisher");
        for published in 0..3 {
            publisher.retain(&format!("r{published}"), "x", published);
            for granted in 0..3 {
                let mut client = fresh(broker, V5);
                client.subscribe(&format!("r{published}"), granted);
                let message = client.expect(&format!("r{published}"), "x");
                assert_eq!(message.qos, published.min(granted));
            }
        }
    });
}

#[test]
fn retain_handling_says_when_they_are_sent() {
    //= B27, MQTT5-3.3.1-9, MQTT5-3.3.1-10, MQTT5-3.3.1-11, MQTT5-3.8.4-4
    in_both_modes(|broker| {
        let mut client = fresh(broker, V5);
        client.retain("t", "x", 0);
        let comes = |client: &mut Client, options| {
            client.subscribe("t", options);
            client.ping();
            client.say("t", "marker", 0);
            let first = client.expect_message();
            if first.payload_text() == "marker" {
                return 0;
            }
            assert_eq!((first.payload_text(), first.retain), ("x", true));
            client.expect("t", "marker");
            1
        };
        let mut counts = Vec::new();
        for options in [0x10, 0x10, 0x00, 0x20] {
            counts.push(comes(&mut client, options));
        }
        client.unsubscribe(&["t"]);
        counts.push(comes(&mut client, 0x10));
        assert_eq!(counts, [1, 0, 1, 0, 1]);
    });
}

#[test]
fn subscribing_again_before_version_5_sends_them_again() {
    //= MQTT311-3.8.4-3
    in_both_modes(|broker| {
        let mut client = fresh(broker, V4);
        client.retain("t", "x", 1);
        for _ in 0..2 {
            client.subscribe("t", 1);
            assert!(client.expect("t", "x").retain);
        }
    });
}

#[test]
fn a_resumed_session_gets_nothing_retained() {
    //= B28
    in_both_modes(|broker| {
        for version in [V4, V5] {
            let connect = Connect::persistent(version, "a");
            let (mut client, _) = connect.open(broker);
            client.retain("t", "x", 1);
            client.subscribe("t", 1);
            client.expect("t", "x");
            client.ping();
            let (mut taken, accepted) = connect.open(broker);
            assert!(accepted.session_present);
            taken.say("t", "marker", 1);
            taken.expect("t", "marker");
            taken.disconnect();
            let (mut back, _) = connect.open(broker);
            back.say("t", "marker", 1);
            back.expect("t", "marker");
            Client::connect(broker, version, "a").disconnect();
        }
    });
}

#[test]
fn shared_subscriptions_get_nothing_retained() {
    in_both_modes(|broker| {
        let mut client = fresh(broker, V5);
        client.retain("t", "x", 1);
        gets_nothing(&mut client, "$share/g/t", 1, "t");
    });
}

#[test]
fn a_retained_message_comes_with_its_properties() {
    //= MQTT5-3.3.2-17, MQTT5-3.3.2-18, MQTT5-3.3.2-20
    in_both_modes(|broker| {
        let mut client = fresh(broker, V5);
        let properties = "03 00 02 63 74 26 00 01 61 00 01 31 26 00 01 61 00 01 30";
        client.publish_all(Publish::new("t", "x").retain().properties(properties), 1);
        client.subscribe_with("0B 07", &[("t", 1)]);
        let message = client.expect("t", "x");
        assert_eq!(message.all(0x03), [b"ct"]);
        assert_eq!(message.all(0x26), [b"\0\x01a\0\x011", b"\0\x01a\0\x010"]);
        assert_eq!(message.subscription_ids(), [7]);
    });
}

#[test]
fn the_expiry_of_a_retained_message_counts_down() {
    //= B14, MQTT5-3.3.2-6
    in_both_modes(|broker| {
        let mut client = fresh(broker, V5);
        let expiring = Publish::new("t", "x").retain().properties("02 00 00 00 64");
        let start = Instant::now();
        client.publish_all(expiring, 1);
        sleep(Duration::from_secs(3));
        client.subscribe("t", 1);
        let left = client.expect("t", "x").number(0x02).unwrap();
        expect_left(left, 100, 2, start);
    });
}

#[test]
fn an_expired_retained_message_is_not_sent() {
    //= MQTT5-3.3.2-5
    in_both_modes(|broker| {
        let mut client = fresh(broker, V5);
        client.publish_all(Publish::new("t", "x").retain().properties("02 00 00 00 01"), 1);
        sleep(Duration::from_millis(2500));
        gets_nothing(&mut client, "t", 1, "t");
    });
}

#[test]
fn many_retained_messages_come_to_one_subscription() {
    //= MQTT311-3.3.1-6
    in_both_modes(|broker| {
        let mut publisher = Client::connect(broker, V4, "publisher");
        for n in 0..2000 {
            publisher.publish(&Publish::new(&format!("many/{n}"), n.to_string()).retain());
        }
        publisher.retain("many/last", "last", 1);
        let mut client = fresh(broker, V4);
        client.subscribe("many/#", 1);
        let mut topics: Vec<String> = (0..=2000)
            .map(|_| {
                let message = client.expect_message();
                client.acknowledge(&message);
                message.topic
            })
            .collect();
        topics.sort();
        topics.dedup();
        assert_eq!(topics.len(), 2001);
        client.ping_without_messages();
    });
}
