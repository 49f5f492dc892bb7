//! What a broker whose log has failed still does, and what it refuses.

use zzq_codec::AckKind;
use zzq_types::ProtocolVersion;
use zzq_types::QoS::{AtLeastOnce, AtMostOnce, ExactlyOnce};

use super::harness::*;
use super::withheld::{end, fail_all, line};

/// A broker whose log has failed after a retained message was handed over.
fn failed(version: ProtocolVersion) -> World {
    let mut world = Setup::new(version).start();
    let mut publisher = world.guest("publisher");
    world.publish(&mut publisher, line(AtLeastOnce).retained());
    world.disk.hold();
    publisher.publish(Line { id: 2, text: "b", ..line(AtLeastOnce).retained() });
    world.settle();
    fail_all(&mut world);
    fail_all(&mut world);
    assert!(world.is_read_only());
    assert_eq!(publisher.got(), end(version));
    world
}

#[test]
fn what_needs_no_log_is_served_when_it_has_failed() {
    for version in VERSIONS {
        let mut world = failed(version);
        let mut one = world.guest("one");
        let mut other = world.guest("other");
        world.subscribe(&mut one, "t", AtLeastOnce);
        world.publish(&mut other, line(AtMostOnce));
        assert_eq!(one.got(), ["t=a"], "a live message, and no retained one that may be lost");
        other.disconnect();
        world.settle();
        assert_eq!(other.got(), ["closed"]);
    }
}

#[test]
fn who_cannot_be_let_in_when_it_has_failed_takes_no_connection_over() {
    for version in VERSIONS {
        let mut world = failed(version);
        let mut one = world.guest("one");
        let mut again = world.call(&Hello::member("one"));
        assert_eq!(again.got(), ["CONNACK refused", "closed"]);
        world.subscribe(&mut one, "live", AtMostOnce);
    }
}

/// The lane once turned for ever: what it waited for was committed, and nothing goes out any more.
#[test]
fn a_receiver_that_takes_more_from_a_failed_log_costs_no_turns() {
    for version in VERSIONS {
        let mut setup = Setup::new(version);
        setup.options.limits.max_inflight = 1;
        let mut world = setup.start();
        let mut subscriber = world.member("subscriber");
        world.subscribe(&mut subscriber, "t", AtLeastOnce);
        let mut publisher = world.guest("publisher");
        for id in 1..=2 {
            world.publish(&mut publisher, Line { id, ..line(AtLeastOnce) });
        }
        assert_eq!(subscriber.got(), ["t=a q1 #1"]);
        world.disk.hold();
        publisher.publish(Line { id: 3, ..line(AtLeastOnce) });
        world.settle();
        fail_all(&mut world);
        fail_all(&mut world);
        assert!(world.is_read_only());
        subscriber.ack(AckKind::PubAck, 1);
        world.settle();
        assert_eq!(subscriber.got(), [""; 0]);
    }
}

#[test]
fn what_a_failed_log_would_have_to_hold_is_refused() {
    let mut world = failed(ProtocolVersion::V311);
    let mut member = world.call(&Hello::member("member"));
    assert_eq!(member.got(), ["CONNACK refused", "closed"]);
    for qos in [AtLeastOnce, ExactlyOnce] {
        let mut publisher = world.guest("publisher");
        publisher.publish(line(qos));
        world.settle();
        assert_eq!(publisher.got(), ["closed"], "MQTT 3 has no word for it");
    }
    let mut world = failed(ProtocolVersion::V5);
    let mut member = world.call(&Hello::member("member"));
    assert_eq!(member.got(), ["CONNACK refused", "closed"]);
    let mut publisher = world.guest("publisher");
    for (qos, answer) in [(AtLeastOnce, "PUBACK 1 failed"), (ExactlyOnce, "PUBREC 1 failed")] {
        publisher.publish(line(qos));
        world.settle();
        assert_eq!(publisher.got(), [answer]);
    }
}
