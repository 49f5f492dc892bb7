//! Wills that have to wait, and the full queues that they wait for.

use zzq_types::ProtocolVersion::{self, V5};
use zzq_types::QoS::{AtLeastOnce, AtMostOnce};

use super::harness::*;
use crate::metrics;

/// Somebody is away whose queue is full: no more comes of topic `full`.
fn with_a_full_queue(version: ProtocolVersion, lanes: u16) -> (World, Client) {
    let mut setup = Setup { lanes, ..Setup::new(version) };
    setup.options.limits.max_queued_messages = 1;
    let mut world = setup.start();
    let mut away = world.member("away");
    world.subscribe(&mut away, "full", AtLeastOnce);
    away.disconnect();
    world.settle();
    let mut publisher = world.guest("publisher");
    world.publish(&mut publisher, Line::new("full", "first", AtLeastOnce, 1));
    (world, publisher)
}

/// Found by the simulator: a queue was full for the older of two wills of one session. The record
/// of the younger one took the older one away, which was never published, and the younger one came
/// again. Meanwhile its lane never came to rest.
#[test]
fn a_will_that_waits_for_a_full_queue_is_not_taken_for_the_next_one() {
    for version in VERSIONS {
        for lanes in [1, 2] {
            let (mut world, _publisher) = with_a_full_queue(version, lanes);
            let mut witness = world.guest("witness");
            world.subscribe(&mut witness, "w", AtMostOnce);
            for will in [("full", AtLeastOnce, false), ("w", AtMostOnce, false)] {
                let client = world.call(&Hello { will: Some(will), ..Hello::member("lost") });
                client.reset();
                world.pass(20);
            }
            let mut away = world.call(&Hello::member("away"));
            assert_eq!(away.got(), ["CONNACK present", "full=first q1 #1"]);
            away.ack(zzq_codec::AckKind::PubAck, 1);
            world.pass(200);
            assert_eq!(away.got(), ["full=gone q1 #2"], "{version:?}, {lanes} lanes");
            assert_eq!(witness.got(), ["w=gone"], "{version:?}, {lanes} lanes");
        }
    }
}

/// Found by the simulator: the last receipt of a full queue empties it when it is applied, and
/// nobody looked after that. The queue was refused for ever.
#[test]
fn a_queue_that_its_last_receipt_empties_is_not_full_any_more() {
    for version in VERSIONS {
        for lanes in [1, 2] {
            let mut setup = Setup { lanes, ..Setup::new(version) };
            setup.options.limits.max_queued_messages = 1;
            let mut world = setup.start();
            let mut slow = world.member("slow");
            world.subscribe(&mut slow, "t", AtLeastOnce);
            for id in 1..=2 {
                let mut publisher = world.guest("publisher");
                world.publish(&mut publisher, Line::new("t", "text", AtLeastOnce, id));
                assert_eq!(slow.got(), [format!("t=text q1 #{id}")], "{version:?}, {lanes} lanes");
                slow.ack(zzq_codec::AckKind::PubAck, id);
                world.pass(20);
            }
        }
    }
}

/// As many as a lane sees to in a turn were looked at again in each, and nothing behind them ever.
#[test]
fn what_is_due_behind_wills_that_wait_does_not_wait_for_them() {
    const WILLS: usize = 300;
    for lanes in [1, 2] {
        let (mut world, mut publisher) = with_a_full_queue(V5, lanes);
        for n in 0..WILLS * usize::from(lanes) {
            let will = Some(("full", AtLeastOnce, false));
            let client = world.call(&Hello { will, ..Hello::member(&format!("lost {n}")) });
            client.reset();
            world.settle();
        }
        let line = Line { expiry_s: 1, ..Line::new("r", "x", AtLeastOnce, 2).retained() };
        world.publish(&mut publisher, line);
        let mut witness = world.guest("witness");
        world.subscribe(&mut witness, "w", AtMostOnce);
        let will = Some(("w", AtMostOnce, false));
        world.call(&Hello { will, ..Hello::member("last") }).reset();
        world.pass(2000);
        assert_eq!(witness.got(), ["w=gone"], "{lanes} lanes");
        let counts = metrics::total(&world.shell(0).shared.metrics);
        assert_eq!(counts.retained, 0, "{lanes} lanes");
        assert_eq!(counts.refused_quota, (WILLS * usize::from(lanes)) as u64, "{lanes} lanes");
    }
}
