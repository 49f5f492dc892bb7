//! Queues with limits, by policy: who is refused or held, what is dropped, which session ends.

#![allow(clippy::expect_used, reason = "helpers of tests panic as tests do")]

mod support;

use Version::{V4, V5};
use support::{Broker, Client, Connect, Publish, Version};

const QUOTA_EXCEEDED: u8 = 0x97;

/// A broker whose queues take five messages.
fn narrow(policy: &str, grace: &str) -> Broker {
    let policy = format!("--queue-full={policy}");
    let grace = format!("--queue-grace={grace}");
    let arguments = ["--max-queued-messages=5", "--sys-interval=50ms", &policy, &grace];
    Broker::start(true, &arguments)
}

/// A session without a connection that is subscribed to `t`.
fn away(broker: &Broker, version: Version) -> Connect {
    let away = Connect::persistent(version, "away");
    let (mut client, _) = away.open(broker);
    client.subscribe("t", 1);
    client.disconnect();
    away
}

/// Waits until a topic below `$SYS/broker` says this.
#[track_caller]
fn until(broker: &Broker, topic: &str, value: &str) {
    Client::connect(broker, V4, "watcher").expect_sys(topic, |said| said == value);
}

#[test]
fn a_full_queue_refuses_mqtt_5_and_takes_what_is_there_all_the_same() {
    //= MQTT5-4.3.3-9
    let mut broker = narrow("refuse", "1h");
    let away = away(&broker, V5);
    let mut publisher = Client::connect(&broker, V5, "publisher");
    for n in 0..5 {
        publisher.say("t", &n.to_string(), 1);
    }
    publisher.publish(&Publish::new("t", "refused").qos(1, 1));
    assert_eq!(publisher.expect_ack_code(0x40, 1), QUOTA_EXCEEDED);
    broker.crash();
    let mut publisher = Client::connect(&broker, V5, "publisher");
    publisher.publish(&Publish::new("t", "refused").qos(2, 1));
    assert_eq!(publisher.expect_ack_code(0x50, 1), QUOTA_EXCEEDED, "it is full again");
    let (mut client, accepted) = away.open(&broker);
    assert!(accepted.session_present);
    for n in 0..5 {
        client.expect("t", &n.to_string());
    }
    client.ping_without_messages();
}

#[test]
fn a_held_publisher_goes_on_when_the_grace_of_the_absent_ends() {
    let broker = narrow("refuse", "1s");
    let away = away(&broker, V4);
    let mut publisher = Client::connect(&broker, V4, "publisher");
    for n in 0..5 {
        publisher.say("t", &n.to_string(), 1);
    }
    // These wait for a session that never comes back.
    for id in 1..=3 {
        publisher.publish(&Publish::new("t", "held").qos(1, id));
    }
    for id in 1..=3 {
        publisher.expect_ack(0x40, id);
    }
    until(&broker, "clients/ended/queue-full", "1");
    until(&broker, "publish/messages/dropped/session-ended", "5");
    let (_, accepted) = away.open(&broker);
    assert!(!accepted.session_present);
}

#[test]
fn the_oldest_make_room_and_are_counted() {
    for version in [V4, V5] {
        let mut broker = narrow("drop-oldest", "1h");
        let away = away(&broker, version);
        let mut publisher = Client::connect(&broker, version, "publisher");
        for n in 0..12 {
            publisher.say("t", &n.to_string(), 1);
        }
        until(&broker, "publish/messages/dropped/queue-full", "7");
        broker.crash();
        let (mut client, _) = away.open(&broker);
        for n in 7..12 {
            client.expect("t", &n.to_string());
        }
        client.ping_without_messages();
    }
}

#[test]
fn the_newest_are_dropped_and_counted_and_refused_where_that_can_be_said() {
    for version in [V4, V5] {
        let broker = narrow("drop-newest", "1h");
        let away = away(&broker, version);
        let mut publisher = Client::connect(&broker, version, "publisher");
        for n in 0..5 {
            publisher.say("t", &n.to_string(), 1);
        }
        publisher.publish(&Publish::new("t", "too much").qos(1, 1));
        let code = publisher.expect_ack_code(0x40, 1);
        assert_eq!(code, if version == V5 { QUOTA_EXCEEDED } else { 0 });
        let mut reader = Client::connect(&broker, version, "reader");
        reader.subscribe("t", 1);
        publisher.say("t", "for others", 1);
        reader.expect("t", "for others");
        let dropped = if version == V5 { "1" } else { "2" };
        until(&broker, "publish/messages/dropped/queue-full", dropped);
        let (mut client, _) = away.open(&broker);
        for n in 0..5 {
            client.expect("t", &n.to_string());
        }
        client.ping_without_messages();
    }
}

#[test]
fn a_session_ends_with_its_connection_when_its_queue_is_full() {
    for version in [V4, V5] {
        let broker = narrow("end-session", "1h");
        let slow = Connect::persistent(version, "slow");
        let (mut client, _) = slow.open(&broker);
        client.subscribe("t", 1);
        let mut publisher = Client::connect(&broker, version, "publisher");
        for n in 0..6 {
            publisher.say("t", &n.to_string(), 1);
        }
        // It takes them and acknowledges none.
        for n in 0..6 {
            assert_eq!(client.expect_message().payload_text(), n.to_string());
        }
        client.expect_end(&[QUOTA_EXCEEDED]);
        until(&broker, "clients/ended/queue-full", "1");
        let (_, accepted) = slow.open(&broker);
        assert!(!accepted.session_present);
        publisher.say("t", "goes on", 1);
    }
}
