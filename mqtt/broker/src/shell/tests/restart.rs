//! What was acknowledged is there after a restart, whatever the end was like.

use zzq_types::QoS::{AtLeastOnce, AtMostOnce, ExactlyOnce};

use super::harness::*;

/// Runs `before`, lets the broker end, and shows `after` what has started again.
#[track_caller]
fn over_a_restart(before: fn(&mut World), after: fn(&mut World, &str)) {
    for version in VERSIONS {
        for lanes in [1, 2] {
            for seed in 0..8 {
                let what = format!("{version:?}, {lanes} lanes, seed {seed}");
                let mut world = Setup { lanes, ..Setup::new(version) }.start();
                before(&mut world);
                // Seed 0: the process is killed; else the power goes.
                let mut world = if seed == 0 { world.kill() } else { world.crash(seed) };
                after(&mut world, &what);
            }
        }
    }
}

#[test]
fn a_session_survives_with_its_subscription_and_what_waits_for_it() {
    //= MQTT311-3.1.2-5
    //= MQTT5-4.1.0-1
    over_a_restart(
        |world| {
            let mut subscriber = world.member("subscriber");
            world.subscribe(&mut subscriber, "t/#", ExactlyOnce);
            subscriber.disconnect();
            let mut publisher = world.guest("publisher");
            world.publish(&mut publisher, Line::new("t/1", "a", AtLeastOnce, 1));
            world.publish(&mut publisher, Line::new("t/2", "b", ExactlyOnce, 2));
        },
        |world, what| {
            let mut subscriber = world.call(&Hello::member("subscriber"));
            let wanted = ["CONNACK present", "t/1=a q1 #1", "t/2=b q2 #2"];
            assert_eq!(subscriber.got(), wanted, "{what}");
            let mut publisher = world.guest("publisher");
            world.publish(&mut publisher, Line::new("t/3", "c", AtMostOnce, 0));
            assert_eq!(subscriber.got(), ["t/3=c"], "{what}");
        },
    );
}

#[test]
fn an_unsubscription_survives() {
    over_a_restart(
        |world| {
            let mut subscriber = world.member("subscriber");
            world.subscribe(&mut subscriber, "t", AtLeastOnce);
            subscriber.unsubscribe(1, "t");
            world.settle();
            assert_eq!(subscriber.got(), ["UNSUBACK 1"]);
        },
        |world, what| {
            let mut subscriber = world.member("subscriber");
            let mut publisher = world.guest("publisher");
            world.publish(&mut publisher, Line::new("t", "a", AtLeastOnce, 1));
            assert_eq!(subscriber.got(), [""; 0], "{what}");
        },
    );
}

#[test]
fn retained_messages_survive_and_so_does_their_removal() {
    over_a_restart(
        |world| {
            let mut publisher = world.guest("publisher");
            world.publish(&mut publisher, Line::new("r/1", "a", AtLeastOnce, 1).retained());
            world.publish(&mut publisher, Line::new("r/2", "b", ExactlyOnce, 2).retained());
            world.publish(&mut publisher, Line::new("r/3", "c", AtLeastOnce, 3).retained());
            world.publish(&mut publisher, Line::new("r/3", "", AtLeastOnce, 4).retained());
        },
        |world, what| {
            let mut subscriber = world.guest("subscriber");
            subscriber.subscribe(1, "r/#", AtMostOnce);
            world.settle();
            let mut got = subscriber.got();
            got.sort();
            assert_eq!(got, ["SUBACK 1", "r/1=a retain", "r/2=b retain"], "{what}");
        },
    );
}

#[test]
fn a_will_is_published_when_its_client_is_lost_with_the_broker() {
    //= MQTT311-3.1.2-8
    //= MQTT5-3.1.2-8
    over_a_restart(
        |world| {
            let mut subscriber = world.member("subscriber");
            world.subscribe(&mut subscriber, "w", ExactlyOnce);
            subscriber.disconnect();
            for (id, hello) in
                [("guest", Hello::guest("guest")), ("member", Hello::member("member"))]
            {
                let mut lost = world.call(&Hello { will: Some(("w", AtLeastOnce, true)), ..hello });
                assert_eq!(lost.got(), ["CONNACK"], "{id}");
            }
            let will = Some(("w", AtLeastOnce, true));
            let mut left = world.call(&Hello { will, ..Hello::guest("left") });
            left.disconnect();
            world.settle();
            assert_eq!(left.got(), ["CONNACK", "closed"]);
        },
        |world, what| {
            let mut subscriber = world.call(&Hello::member("subscriber"));
            let wanted = ["CONNACK present", "w=gone q1 #1", "w=gone q1 #2"];
            assert_eq!(subscriber.got(), wanted, "{what}");
            let mut late = world.guest("late");
            late.subscribe(1, "w", AtMostOnce);
            world.settle();
            assert_eq!(late.got(), ["SUBACK 1", "w=gone retain"], "{what}");
        },
    );
}

#[test]
fn an_identifier_at_qos_2_stays_open() {
    //= MQTT311-4.3.3-2
    //= MQTT5-4.3.3-10
    over_a_restart(
        |world| {
            let mut subscriber = world.member("subscriber");
            world.subscribe(&mut subscriber, "t", AtLeastOnce);
            subscriber.disconnect();
            let mut publisher = world.member("publisher");
            publisher.publish(Line::new("t", "a", ExactlyOnce, 7));
            world.settle();
            assert_eq!(publisher.got(), ["PUBREC 7"]);
        },
        |world, what| {
            let mut publisher = world.member("publisher");
            publisher.publish(Line::new("t", "a", ExactlyOnce, 7).again());
            world.settle();
            assert_eq!(publisher.got(), ["PUBREC 7"], "{what}");
            let mut subscriber = world.call(&Hello::member("subscriber"));
            assert_eq!(subscriber.got(), ["CONNACK present", "t=a q1 #1"], "{what}");
        },
    );
}
