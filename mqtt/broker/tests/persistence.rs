//! What outlives the process: all that was acknowledged, over a clean stop and over SIGKILL.

mod support;

use std::thread::sleep;
use std::time::{Duration, Instant};

use Version::{V4, V5};
use support::{Broker, Client, Connect, Publish, Version, expect_left, on_disk};

/// Runs a test over a clean stop and over SIGKILL.
fn over_each_end(test: impl Fn(fn(&mut Broker)) + Sync) {
    std::thread::scope(|scope| {
        scope.spawn(|| test(Broker::crash));
        scope.spawn(|| test(Broker::restart));
    });
}

#[test]
fn sigterm_stops_cleanly() {
    for arguments in [true, false] {
        let mut broker = Broker::start(arguments, &[]);
        let mut client = Client::connect(&broker, V5, "a");
        client.say("t", "x", 1);
        assert_eq!(broker.stop().code(), Some(0));
        // It may say 0x8B or 0x98 before.
        client.finish();
    }
}

#[test]
fn a_data_directory_serves_one_broker_at_a_time() {
    let broker = on_disk();
    let mut client = Client::connect(&broker, V4, "a");
    let (status, said) = broker.rival();
    assert_eq!(status.code(), Some(75), "{said}");
    client.say("t", "the first goes on", 1);
}

#[test]
fn a_killed_broker_leaves_its_directory_free() {
    let mut broker = on_disk();
    for _ in 0..3 {
        broker.crash();
        Client::connect(&broker, V4, "a").say("t", "x", 1);
    }
}

#[test]
fn an_acknowledged_publish_is_kept_for_a_session_that_is_away() {
    //= MQTT311-3.1.2-5, MQTT311-4.3.2-2, MQTT5-4.3.2-4, MQTT5-4.3.3-8, MQTT5-3.1.2-23
    over_each_end(|end| {
        let mut broker = on_disk();
        for version in [V4, V5] {
            let connect = Connect::persistent(version, "subscriber");
            let (mut subscriber, _) = connect.open(&broker);
            subscriber.subscribe("t", 2);
            subscriber.disconnect();
            let mut publisher = Client::connect(&broker, version, "publisher");
            for n in 0..20 {
                publisher.say("t", &n.to_string(), 1 + n % 2);
            }
            end(&mut broker);
            let (mut subscriber, accepted) = connect.open(&broker);
            assert!(accepted.session_present);
            for n in 0..20 {
                let message = subscriber.expect("t", &n.to_string());
                assert_eq!((message.qos, message.retain), (1 + n % 2, false));
            }
            subscriber.say("t", "marker", 2);
            subscriber.expect("t", "marker");
        }
    });
}

#[test]
fn publishes_reach_restored_sessions_before_they_are_back() {
    //= W14, MQTT311-3.1.2-5, MQTT5-3.1.2-23
    over_each_end(|end| {
        let mut broker = on_disk();
        let connect = Connect::persistent(V4, "subscriber");
        let (mut subscriber, _) = connect.open(&broker);
        subscriber.subscribe("t", 1);
        subscriber.disconnect();
        end(&mut broker);
        Client::connect(&broker, V4, "publisher").say("t", "after the start", 1);
        let (mut subscriber, accepted) = connect.open(&broker);
        assert!(accepted.session_present);
        subscriber.expect("t", "after the start");
    });
}

#[test]
fn messages_under_way_are_sent_again_with_dup() {
    //= W16, MQTT311-4.4.0-1, MQTT5-4.4.0-1, MQTT5-3.3.1-1, MQTT311-3.3.1-1
    over_each_end(|end| {
        for version in [V4, V5] {
            let mut broker = on_disk();
            let connect = Connect::persistent(version, "subscriber");
            let (mut subscriber, _) = connect.open(&broker);
            subscriber.subscribe("t", 2);
            let mut publisher = Client::connect(&broker, version, "publisher");
            publisher.say("t", "one", 1);
            publisher.say("t", "two", 2);
            let (one, two) = (subscriber.expect_message(), subscriber.expect_message());
            end(&mut broker);
            let (mut subscriber, accepted) = connect.open(&broker);
            assert!(accepted.session_present);
            for sent in [one, two] {
                let again = subscriber.expect_message();
                assert_eq!((again.id, again.dup, &again.payload), (sent.id, true, &sent.payload));
                subscriber.acknowledge(&again);
            }
            subscriber.ping_without_messages();
        }
    });
}

#[test]
fn the_publishers_half_of_qos_2_is_kept() {
    //= MQTT5-4.3.3-10, MQTT311-4.3.3-2, MQTT311-4.1.0-1
    over_each_end(|end| {
        let mut broker = on_disk();
        let away = Connect::persistent(V4, "subscriber");
        let (mut subscriber, _) = away.open(&broker);
        subscriber.subscribe("t", 2);
        subscriber.disconnect();
        let connect = Connect::persistent(V4, "publisher");
        let (mut publisher, _) = connect.open(&broker);
        for id in 1..=3 {
            publisher.publish(&Publish::new("t", id.to_string()).qos(2, id));
            publisher.expect_ack(0x50, id);
        }
        publisher.send_ack(0x62, 1);
        publisher.expect_ack(0x70, 1);
        end(&mut broker);
        let (mut publisher, accepted) = connect.open(&broker);
        assert!(accepted.session_present);
        // 1 is free and names a new message, 2 and 3 are open.
        publisher.publish(&Publish::new("t", "new").qos(2, 1));
        publisher.publish(&Publish::new("t", "2").qos(2, 2).dup());
        for id in [1, 2] {
            publisher.expect_ack(0x50, id);
        }
        for id in 1..=3 {
            publisher.send_ack(0x62, id);
            publisher.expect_ack(0x70, id);
        }
        let (mut subscriber, _) = away.open(&broker);
        for payload in ["1", "2", "3", "new"] {
            subscriber.expect("t", payload);
        }
        subscriber.say("t", "marker", 2);
        subscriber.expect("t", "marker");
    });
}

#[test]
fn the_receivers_half_of_qos_2_is_kept() {
    //= MQTT5-4.4.0-1, MQTT311-4.4.0-1, MQTT5-4.3.3-6
    over_each_end(|end| {
        let mut broker = on_disk();
        let connect = Connect::persistent(V5, "subscriber");
        let (mut subscriber, _) = connect.open(&broker);
        subscriber.subscribe("t", 2);
        Client::connect(&broker, V5, "publisher").say("t", "x", 2);
        let message = subscriber.expect_message();
        subscriber.send_ack(0x50, message.id);
        subscriber.expect_ack(0x62, message.id);
        end(&mut broker);
        let (mut subscriber, _) = connect.open(&broker);
        subscriber.expect_ack(0x62, message.id);
        subscriber.send_ack(0x70, message.id);
        subscriber.say("t", "marker", 2);
        subscriber.expect("t", "marker");
    });
}

#[test]
fn a_receipt_that_was_acted_upon_is_not_forgotten_by_a_clean_stop() {
    let mut broker = on_disk();
    let connect = Connect::persistent(V4, "subscriber");
    let (mut subscriber, _) = connect.open(&broker);
    subscriber.subscribe("t", 1);
    let mut publisher = Client::connect(&broker, V4, "publisher");
    for n in 0..10 {
        publisher.say("t", &n.to_string(), 1);
        subscriber.expect("t", &n.to_string());
    }
    subscriber.ping();
    broker.restart();
    let (mut subscriber, _) = connect.open(&broker);
    subscriber.say("t", "marker", 1);
    subscriber.expect("t", "marker");
}

#[test]
fn retained_messages_are_kept_and_removals_too() {
    //= MQTT311-3.1.2-7, MQTT311-3.3.1-5, MQTT5-3.3.1-5, MQTT5-3.3.1-6
    over_each_end(|end| {
        let mut broker = on_disk();
        let mut publisher = Client::connect(&broker, V5, "publisher");
        let properties = "26 00 01 61 00 01 62 03 00 02 63 74";
        publisher.retain("r/removed", "x", 1);
        publisher.retain("r/replaced", "old", 2);
        publisher.publish_all(Publish::new("r/kept", "k").retain().properties(properties), 1);
        publisher.retain("r/replaced", "new", 1);
        publisher.retain("r/removed", "", 1);
        for _ in 0..2 {
            end(&mut broker);
            let mut subscriber = Client::connect(&broker, V5, "subscriber");
            subscriber.subscribe("r/#", 2);
            let mut got = [subscriber.expect_message(), subscriber.expect_message()];
            got.sort_by(|one, other| one.topic.cmp(&other.topic));
            assert_eq!((got[0].topic.as_str(), got[0].payload_text()), ("r/kept", "k"));
            assert_eq!(got[0].all(0x26), [b"\0\x01a\0\x01b"]);
            assert_eq!(got[0].all(0x03), [b"ct"]);
            assert_eq!((got[1].topic.as_str(), got[1].payload_text()), ("r/replaced", "new"));
            assert!(got.iter().all(|message| message.retain && message.qos == 1));
            subscriber.ping_without_messages();
        }
    });
}

#[test]
fn subscriptions_are_kept_with_their_options_and_removals_too() {
    //= MQTT5-3.1.2-23, MQTT311-3.1.2-4, MQTT311-4.1.0-1
    over_each_end(|end| {
        let mut broker = on_disk();
        let connect = Connect::persistent(V5, "a");
        let (mut client, _) = connect.open(&broker);
        client.subscribe_with("0B 2A", &[("id", 1)]);
        client.subscribe("published/#", 0x0A);
        client.subscribe("local", 0x05);
        client.subscribe("gone", 1);
        client.subscribe("$share/g/shared", 1);
        client.unsubscribe(&["gone"]);
        end(&mut broker);
        let (mut client, accepted) = connect.open(&broker);
        assert!(accepted.session_present);
        client.say("gone", "x", 1);
        client.say("local", "x", 1);
        client.say("id", "x", 2);
        let message = client.expect("id", "x");
        assert_eq!((message.subscription_ids(), message.qos), (vec![42], 1));
        client.retain("published/t", "x", 2);
        let message = client.expect("published/t", "x");
        assert_eq!((message.retain, message.qos), (true, 2));
        client.say("shared", "x", 1);
        client.expect("shared", "x");
    });
}

#[test]
fn system_topics_are_nothing_that_stops_the_next_start() {
    //= W02
    over_each_end(|end| {
        let mut broker = on_disk();
        let connect = Connect::persistent(V4, "a");
        let (mut client, _) = connect.open(&broker);
        client.subscribe("$SYS/#", 2);
        client.subscribe("#", 1);
        client.disconnect();
        Client::connect(&broker, V4, "b").say("$SYS/x", "nobody may say so", 0);
        for _ in 0..2 {
            end(&mut broker);
            let (client, accepted) = connect.open(&broker);
            assert!(accepted.session_present);
            client.disconnect();
        }
    });
}

#[test]
fn each_kind_of_state_survives_with_all_the_others() {
    //= W02
    over_each_end(|end| {
        let mut broker = on_disk();
        let connect = Connect::persistent(V5, "a").will_with(
            "18 00 00 0E 10 02 00 00 0E 10 26 00 01 61 00 01 62",
            "will",
            "w",
            2,
            true,
        );
        let (mut client, _) = connect.open(&broker);
        client.subscribe_with("0B 01", &[("t/#", 2), ("$share/g/t/#", 1), ("+/+", 0x1D)]);
        let all = "01 01 02 00 00 0E 10 03 00 01 63 08 00 01 72 09 00 01 00 26 00 01 61 00 01 62";
        client.publish_all(Publish::new("t/one", "x").retain().properties(all), 2);
        client.publish(&Publish::new("t/two", "x").properties(all).qos(2, 9));
        client.expect_ack(0x50, 9);
        client.unsubscribe(&["$share/g/t/#"]);
        for _ in 0..3 {
            end(&mut broker);
            let (client, accepted) = connect.open(&broker);
            assert!(accepted.session_present);
            drop(client);
        }
    });
}

#[test]
fn sessions_without_a_future_are_gone_after_a_start() {
    //= MQTT5-4.1.0-2, MQTT311-3.1.2-6
    over_each_end(|end| {
        let mut broker = on_disk();
        let clean = Client::connect(&broker, V4, "clean");
        let (ended, _) = Connect::persistent(V5, "ended").open(&broker);
        ended.disconnect();
        Client::connect(&broker, V5, "ended").disconnect();
        end(&mut broker);
        drop(clean);
        for id in ["clean", "ended"] {
            let (client, accepted) = Connect::persistent(V4, id).open(&broker);
            assert!(!accepted.session_present, "{id}");
            client.disconnect();
        }
    });
}

#[test]
fn a_session_expires_over_a_start() {
    //= MQTT5-4.1.0-2
    over_each_end(|end| {
        let mut broker = on_disk();
        let (client, _) = Connect::new(V5, "a").properties("11 00 00 00 02").open(&broker);
        client.disconnect();
        sleep(Duration::from_millis(1500));
        end(&mut broker);
        sleep(Duration::from_secs(2));
        assert!(!Connect::persistent(V5, "a").open(&broker).1.session_present);
    });
}

#[test]
fn a_message_expires_over_a_start() {
    //= MQTT5-3.3.2-5, MQTT5-3.3.2-6
    over_each_end(|end| {
        let mut broker = on_disk();
        let connect = Connect::persistent(V5, "a");
        let (mut client, _) = connect.open(&broker);
        client.subscribe("t", 1);
        client.disconnect();
        let mut publisher = Client::connect(&broker, V5, "publisher");
        publisher.publish_all(Publish::new("t", "gone").properties("02 00 00 00 02"), 1);
        let start = Instant::now();
        publisher.publish_all(Publish::new("t", "there").properties("02 00 00 00 64"), 1);
        sleep(Duration::from_millis(1500));
        end(&mut broker);
        sleep(Duration::from_millis(1500));
        let (mut client, _) = connect.open(&broker);
        let left = client.expect("t", "there").number(0x02).unwrap();
        expect_left(left, 100, 2, start);
    });
}

#[test]
fn the_will_of_a_client_that_the_crash_cut_off_is_published() {
    //= MQTT5-3.1.2-7, MQTT5-3.1.2-8, MQTT311-3.1.2-8
    let mut broker = on_disk();
    let watcher = Connect::persistent(V5, "watcher");
    let (mut client, _) = watcher.open(&broker);
    client.subscribe("will/#", 1);
    client.disconnect();
    let (_five, _) = Connect::persistent(V5, "five").will("will/5", "w", 1, false).open(&broker);
    let (_four, _) = Connect::new(V4, "four").will("will/4", "w", 1, false).open(&broker);
    broker.crash();
    let (mut client, accepted) = watcher.open(&broker);
    assert!(accepted.session_present);
    let mut topics: Vec<String> = (0..2)
        .map(|_| {
            let will = client.expect_message();
            client.acknowledge(&will);
            will.topic
        })
        .collect();
    topics.sort();
    assert_eq!(topics, ["will/4", "will/5"]);
}

#[test]
fn a_will_that_was_withdrawn_is_not_published_after_a_crash() {
    //= MQTT5-3.14.4-3, MQTT5-3.1.2-10, MQTT311-3.14.4-3
    let mut broker = on_disk();
    let watcher = Connect::persistent(V5, "watcher");
    let (mut client, _) = watcher.open(&broker);
    client.subscribe("will/#", 1);
    client.disconnect();
    let (client, _) = Connect::persistent(V5, "five").will("will/5", "w", 1, false).open(&broker);
    client.disconnect();
    broker.crash();
    let (mut client, _) = watcher.open(&broker);
    client.say("will/marker", "marker", 1);
    client.expect("will/marker", "marker");
}

#[test]
fn identifiers_after_a_crash_name_no_other_message() {
    //= MQTT5-2.2.1-4, MQTT311-2.3.1-4
    let mut broker = on_disk();
    let connect = Connect::persistent(V4, "subscriber");
    let (mut subscriber, _) = connect.open(&broker);
    subscriber.subscribe("t", 1);
    let mut sent = std::collections::HashMap::new();
    for round in 0..5 {
        let mut publisher = Client::connect(&broker, V4, "publisher");
        for n in 0..5 {
            publisher.say("t", &format!("{round}/{n}"), 1);
        }
        for _ in 0..5 * (round + 1) {
            let message = subscriber.expect_message();
            let payload = message.payload_text().to_owned();
            let before = sent.insert(message.id, payload.clone());
            assert!(before.is_none_or(|before| before == payload), "{}", message.id);
        }
        broker.crash();
        (subscriber, _) = connect.open(&broker);
    }
    for round in 0..5 {
        for n in 0..5 {
            let message = subscriber.expect("t", &format!("{round}/{n}"));
            assert_eq!(sent[&message.id], message.payload_text());
        }
    }
    subscriber.ping_without_messages();
}

#[test]
fn a_large_message_is_kept_whole() {
    let mut broker = on_disk();
    let connect = Connect::persistent(V4, "subscriber");
    let (mut subscriber, _) = connect.open(&broker);
    subscriber.subscribe("t", 1);
    subscriber.disconnect();
    let payload: Vec<u8> = support::Random::new(1).bytes(1_900_000);
    let mut publisher = Client::connect(&broker, V4, "publisher");
    publisher.publish_all(Publish::new("t", &payload), 1);
    publisher.say("t", "small", 1);
    broker.crash();
    let (mut subscriber, _) = connect.open(&broker);
    let message = subscriber.expect_message();
    subscriber.acknowledge(&message);
    assert!(message.payload == payload);
    subscriber.expect("t", "small");
}
