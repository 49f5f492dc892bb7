//! Queues that are full, by policy: who is refused, what is dropped, which session ends. Each also
//! over a restart, after which what was dropped or ended is not there again.

use std::time::Duration;

use zzq_codec::AckKind;
use zzq_types::ProtocolVersion;
use zzq_types::ProtocolVersion::{V5, V311};
use zzq_types::QoS::{AtLeastOnce, ExactlyOnce};
use zzq_wal::sim_disk::Survival;

use super::harness::*;
use crate::metrics::{self, Counts};
use crate::options::QueueFull;

/// Queues of two messages.
fn narrow(policy: QueueFull, version: ProtocolVersion, lanes: u16) -> World {
    let mut setup = Setup { lanes, ..Setup::new(version) };
    setup.options.limits.max_queued_messages = 2;
    setup.options.limits.queue_full = policy;
    setup.options.limits.queue_grace = Duration::from_mins(1);
    setup.start()
}

fn each(policy: QueueFull, test: impl Fn(World, &str)) {
    for version in VERSIONS {
        for lanes in [1, 2, 3] {
            test(narrow(policy, version, lanes), &format!("{version:?}, {lanes} lanes"));
        }
    }
}

fn counts(world: &World) -> Counts {
    metrics::total(&world.shell(0).shared.metrics)
}

/// A session that is away, with a subscription at QoS 2.
fn away(world: &mut World, name: &str, topic: &str) {
    let mut client = world.member(name);
    world.subscribe(&mut client, topic, ExactlyOnce);
    client.disconnect();
    world.settle();
}

/// Publishes the numbers of a range at QoS 1, each when the one before is answered. What makes
/// room starts no write of its own.
fn fill(world: &mut World, topic: &str, numbers: std::ops::RangeInclusive<u16>) {
    let mut client = world.guest("filler");
    for number in numbers {
        let text = number.to_string();
        client.publish(Line::new(topic, &text, AtLeastOnce, number));
        world.pass(20);
        assert_eq!(client.got(), [format!("PUBACK {number}")]);
    }
    client.disconnect();
    world.settle();
}

/// What the session gets when it comes back.
fn comes_back(world: &mut World, name: &str) -> Vec<String> {
    let mut client = world.call(&Hello::member(name));
    world.pass(100);
    client.got()
}

#[test]
fn a_session_that_is_away_refuses_others_until_its_grace_ends() {
    each(QueueFull::Refuse, |mut world, what| {
        away(&mut world, "away", "t");
        fill(&mut world, "t", 1..=2);
        let mut publisher = world.guest("publisher");
        world.pass(50_000);
        publisher.publish(Line::new("t", "x", AtLeastOnce, 1));
        world.settle();
        if world.setup.version == V5 {
            assert_eq!(publisher.got(), ["PUBACK 1 failed"], "{what}");
        }
        // Over a restart it is away as long, and as full.
        let mut world = world.kill();
        let mut publisher = world.guest("publisher");
        publisher.publish(Line::new("t", "x", AtLeastOnce, 1));
        world.pass(5000);
        let v5 = world.setup.version == V5;
        let early: &[&str] = if v5 { &["PUBACK 1 failed"] } else { &[] };
        assert_eq!(publisher.got(), early, "{what}");
        assert_eq!(counts(&world).ended_full, 0, "{what}");
        world.pass(10_000);
        if v5 {
            publisher.publish(Line::new("t", "x", AtLeastOnce, 1));
            world.settle();
        }
        assert_eq!(publisher.got(), ["PUBACK 1"], "{what}");
        let Counts { ended_full, dropped_ended, dropped_full, .. } = counts(&world);
        assert_eq!((ended_full, dropped_ended, dropped_full), (1, 2, 0), "{what}");
        let mut world = world.kill();
        assert_eq!(comes_back(&mut world, "away"), ["CONNACK"], "{what}");
    });
}

#[test]
fn a_session_that_becomes_full_when_it_is_away_for_long_ends_at_once() {
    each(QueueFull::Refuse, |mut world, what| {
        away(&mut world, "away", "t");
        world.pass(61_000);
        fill(&mut world, "t", 1..=1);
        assert_eq!(counts(&world).ended_full, 0, "it is not full, {what}");
        fill(&mut world, "t", 2..=3);
        world.pass(100);
        assert_eq!(counts(&world).ended_full, 1, "{what}");
    });
}

#[test]
fn a_session_that_is_there_or_comes_back_in_time_does_not_end() {
    each(QueueFull::Refuse, |mut world, what| {
        away(&mut world, "slow", "t");
        fill(&mut world, "t", 1..=2);
        world.pass(55_000);
        let mut slow = world.call(&Hello { window: Some(1), ..Hello::member("slow") });
        world.pass(120_000);
        let first = slow.got();
        assert_eq!(first[..2], ["CONNACK present", "t=1 q1 #1"], "{what}");
        slow.disconnect();
        world.pass(55_000);
        assert_eq!(counts(&world).ended_full, 0, "{what}");
        world.pass(10_000);
        assert_eq!(counts(&world).ended_full, 1, "{what}");
    });
}

#[test]
fn a_full_queue_ends_its_session() {
    each(QueueFull::EndSession, |mut world, what| {
        away(&mut world, "away", "t");
        let mut slow = world.call(&Hello { window: Some(1), ..Hello::member("slow") });
        assert_eq!(slow.got(), ["CONNACK"]);
        world.subscribe(&mut slow, "u", AtLeastOnce);
        fill(&mut world, "t", 1..=2);
        fill(&mut world, "u", 1..=2);
        assert_eq!(counts(&world).ended_full, 0, "a queue may be as long, {what}");
        fill(&mut world, "t", 3..=3);
        fill(&mut world, "u", 3..=3);
        world.pass(100);
        let Counts { ended_full, dropped_ended, .. } = counts(&world);
        assert_eq!((ended_full, dropped_ended), (2, 6), "{what}");
        let got = slow.got();
        assert_eq!(got[0], "u=1 q1 #1", "{what}");
        let ends = ["DISCONNECT", "closed"];
        let told = if world.setup.version == V5 { &ends[..] } else { &ends[1..] };
        assert_eq!(got[got.len() - told.len()..], *told, "{what}: {got:?}");
        let mut world = world.kill();
        assert_eq!(comes_back(&mut world, "away"), ["CONNACK"], "{what}");
        assert_eq!(comes_back(&mut world, "slow"), ["CONNACK"], "{what}");
    });
}

/// Else the flag that all lanes hear of would flicker.
#[test]
fn a_full_queue_has_room_again_when_a_tenth_of_it_is_free() {
    for lanes in [1, 2] {
        let mut setup = Setup { lanes, ..Setup::new(V5) };
        setup.options.limits.max_queued_messages = 20;
        setup.options.limits.max_hold = Duration::ZERO;
        let mut world = setup.start();
        let mut slow = world.member("slow");
        world.subscribe(&mut slow, "t", AtLeastOnce);
        let mut publisher = world.guest("publisher");
        let mut publish = |world: &mut World, id: u16| {
            publisher.publish(Line::new("t", "x", AtLeastOnce, id));
            world.pass(20);
            publisher.got()
        };
        for id in 1..=20 {
            assert_eq!(publish(&mut world, id), [format!("PUBACK {id}")]);
        }
        assert_eq!(publish(&mut world, 21), ["PUBACK 21 failed"], "{lanes}");
        slow.ack(AckKind::PubAck, 1);
        world.pass(20);
        assert_eq!(publish(&mut world, 22), ["PUBACK 22 failed"], "{lanes}");
        slow.ack(AckKind::PubAck, 2);
        world.pass(20);
        assert_eq!(publish(&mut world, 23), ["PUBACK 23"], "{lanes}");
    }
}

#[test]
fn the_oldest_make_room_in_the_queue_of_a_session_that_is_away() {
    each(QueueFull::DropOldest, |mut world, what| {
        away(&mut world, "away", "t");
        fill(&mut world, "t", 1..=5);
        world.pass(100);
        assert_eq!(counts(&world).dropped_full, 3, "{what}");
        let mut world = world.kill();
        let got = comes_back(&mut world, "away");
        assert_eq!(got, ["CONNACK present", "t=4 q1 #4", "t=5 q1 #5"], "{what}");
    });
}

#[test]
fn bytes_are_a_limit_too() {
    for lanes in [1, 2] {
        let mut setup = Setup { lanes, ..Setup::new(V311) };
        setup.options.limits.max_queued_bytes = 100;
        setup.options.limits.queue_full = QueueFull::DropOldest;
        let mut world = setup.start();
        away(&mut world, "away", "t");
        // 16 bytes each, as they are counted.
        fill(&mut world, "t", 1..=10);
        let mut client = world.guest("filler");
        let large = "x".repeat(40);
        world.publish(&mut client, Line::new("t", &large, AtLeastOnce, 1));
        world.pass(100);
        let got = comes_back(&mut world, "away");
        let kept = ["t=8 q1 #8", "t=9 q1 #9", "t=10 q1 #10", &format!("t={large} q1 #11")];
        assert_eq!(got[1..], kept);
        let larger = "x".repeat(200);
        away(&mut world, "other", "u");
        world.publish(&mut client, Line::new("u", &larger, AtLeastOnce, 1));
        world.pass(100);
        assert_eq!(comes_back(&mut world, "other"), ["CONNACK present"], "it fits no queue");
    }
}

#[test]
fn what_a_connection_was_sent_is_not_dropped_under_it() {
    for lanes in [1, 2, 3] {
        let mut world = narrow(QueueFull::DropOldest, V5, lanes);
        let mut slow = world.call(&Hello { window: Some(1), ..Hello::member("slow") });
        assert_eq!(slow.got(), ["CONNACK"]);
        world.subscribe(&mut slow, "t", AtLeastOnce);
        fill(&mut world, "t", 1..=5);
        world.pass(100);
        assert_eq!(slow.got(), ["t=1 q1 #1"]);
        assert_eq!(counts(&world).dropped_full, 3);
        slow.ack(AckKind::PubAck, 1);
        world.pass(100);
        assert_eq!(slow.got(), ["t=5 q1 #5"]);
        slow.ack(AckKind::PubAck, 5);
        world.pass(100);
        assert!(world.owes_nothing("slow"));
    }
}

#[test]
fn what_was_sent_before_others_were_dropped_comes_again_on_the_next_connection() {
    for (qos, first, next) in
        [(AtLeastOnce, "t=1 q1 #1 dup", "t=5 q1 #5"), (ExactlyOnce, "t=1 q2 #1 dup", "t=5 q2 #5")]
    {
        let mut world = narrow(QueueFull::DropOldest, V5, 1);
        let hello = Hello { window: Some(1), ..Hello::member("slow") };
        let mut slow = world.call(&hello);
        assert_eq!(slow.got(), ["CONNACK"]);
        world.subscribe(&mut slow, "t", qos);
        let mut publisher = world.guest("publisher");
        for number in 1..=5_u16 {
            let text = number.to_string();
            publisher.publish(Line::new("t", &text, qos, number));
            world.pass(20);
            publisher.ack(AckKind::PubRel, number);
            world.pass(20);
        }
        assert_eq!(counts(&world).dropped_full, 3);
        slow.reset();
        world.pass(100);
        let mut slow = world.call(&hello);
        world.pass(100);
        assert_eq!(slow.got(), ["CONNACK present", first]);
        if qos == ExactlyOnce {
            slow.ack(AckKind::PubRec, 1);
            world.pass(100);
            assert_eq!(slow.got()[0], "PUBREL 1");
            slow.ack(AckKind::PubComp, 1);
        } else {
            slow.ack(AckKind::PubAck, 1);
        }
        world.pass(100);
        assert_eq!(slow.got(), [next]);
    }
}

#[test]
fn a_message_at_qos_2_that_may_have_been_sent_is_not_dropped() {
    //= MQTT5-4.3.3-7
    for lanes in [1, 2, 3] {
        let mut world = narrow(QueueFull::DropOldest, V5, lanes);
        let mut slow = world.call(&Hello { window: Some(1), ..Hello::member("slow") });
        slow.got();
        world.subscribe(&mut slow, "t", ExactlyOnce);
        let mut publisher = world.guest("publisher");
        world.publish(&mut publisher, Line::new("t", "1", ExactlyOnce, 1));
        world.settle();
        assert_eq!(slow.got(), ["t=1 q2 #1"]);
        slow.reset();
        world.settle();
        for number in 2..=5_u16 {
            let text = number.to_string();
            publisher.publish(Line::new("t", &text, ExactlyOnce, number));
            world.pass(20);
            publisher.ack(AckKind::PubRel, number);
            world.pass(20);
        }
        world.pass(100);
        let mut world = world.crash(u64::from(lanes));
        let got = comes_back(&mut world, "slow");
        assert_eq!(got, ["CONNACK present", "t=1 q2 #1 dup", "t=5 q2 #5"]);
    }
}

/// A crash would bring back what is being dropped, behind what was sent meanwhile. Found by the
/// simulator.
#[test]
fn nothing_is_sent_behind_what_is_being_dropped_until_that_is_committed() {
    //= MQTT5-4.6.0-5
    //= MQTT311-4.6.0-6
    for lanes in [1, 2, 3] {
        let mut world = narrow(QueueFull::DropOldest, V5, lanes);
        let mut slow = world.call(&Hello { window: Some(1), ..Hello::member("slow") });
        slow.got();
        world.subscribe(&mut slow, "t", AtLeastOnce);
        fill(&mut world, "t", 1..=2);
        world.pass(100);
        assert_eq!(slow.got(), ["t=1 q1 #1"]);
        let mut publisher = world.guest("publisher");
        world.disk.hold();
        publisher.publish(Line::new("t", "3", AtLeastOnce, 3));
        world.pass(20);
        assert_eq!(counts(&world).dropped_full, 1);
        // That of the third is done.
        world.disk.release_next();
        slow.ack(AckKind::PubAck, 1);
        world.pass(20);
        assert_eq!(publisher.got(), ["PUBACK 3"], "{lanes}");
        assert_eq!(slow.got(), [""; 0], "{lanes}");
        world.disk.release_all();
        world.pass(100);
        assert_eq!(slow.got(), ["t=3 q1 #3"], "{lanes}");
    }
}

/// Publishers that go on have the next dropped before those before are committed. The receiver
/// waited for each of them, and so for ever.
#[test]
fn a_receiver_that_answers_goes_on_while_its_oldest_are_dropped() {
    for lanes in [1, 2, 3] {
        let mut world = narrow(QueueFull::DropOldest, V5, lanes);
        let mut reader = world.call(&Hello { window: Some(1), ..Hello::member("reader") });
        assert_eq!(reader.got(), ["CONNACK"]);
        world.subscribe(&mut reader, "t", AtLeastOnce);
        let mut publishers = ["one", "two"].map(|name| world.guest(name));
        world.pass(100);
        world.disk.hold();
        let mut got = 0;
        for round in 1..=100 {
            for publisher in &mut publishers {
                publisher.publish(Line::new("t", "x", AtLeastOnce, round));
            }
            world.pass(20);
            for line in reader.got() {
                got += 1;
                let (_, id) = line.split_once(" q1 #").unwrap();
                reader.ack(AckKind::PubAck, id.parse().unwrap());
            }
            // Something is under way at all times.
            if world.disk.in_flight().len() > 1 {
                world.disk.release_next();
            }
            world.settle();
        }
        // It takes two writes until a message that was behind others is answered.
        assert!(got >= 25, "{got} messages in 100 writes, {lanes} lanes");
        world.disk.release_all();
        world.pass(200);
        assert!(world.queued("reader") <= 3, "what it was sent, and two, {lanes} lanes");
    }
}

/// A crash brings back what was dropped and not committed. What was sent behind it then must not
/// be behind what may have been sent.
#[test]
fn what_is_sent_while_others_are_dropped_comes_again_after_a_crash() {
    //= MQTT5-4.3.3-7
    for lanes in [1, 2, 3] {
        let mut setup = Setup { lanes, ..Setup::new(V5) };
        setup.options.limits.max_queued_messages = 3;
        setup.options.limits.queue_full = QueueFull::DropOldest;
        let mut world = setup.start();
        let mut slow = world.call(&Hello { window: Some(1), ..Hello::member("slow") });
        slow.got();
        world.subscribe(&mut slow, "t", ExactlyOnce);
        let mut publisher = world.guest("publisher");
        for (number, text) in (1..).zip(["1", "2", "3"]) {
            world.publish(&mut publisher, Line::new("t", text, ExactlyOnce, number));
        }
        slow.ack(AckKind::PubRec, 1);
        world.pass(100);
        assert_eq!(slow.got(), ["t=1 q2 #1", "PUBREL 1"]);
        world.disk.hold();
        publisher.publish(Line::new("t", "4", AtLeastOnce, 4));
        world.pass(20);
        slow.ack(AckKind::PubComp, 1);
        world.pass(20);
        let sent = slow.got();
        assert_eq!(sent.len(), 1, "{sent:?}");
        let mut world = world.crash_with(Survival::Nothing);
        fill(&mut world, "t", 5..=9);
        world.pass(100);
        let got = comes_back(&mut world, "slow");
        assert!(got.contains(&format!("{} dup", sent[0])), "{sent:?}: {got:?}");
    }
}

#[test]
fn the_newest_pass_a_full_queue_by_and_reach_everybody_else() {
    each(QueueFull::DropNewest, |mut world, what| {
        away(&mut world, "away", "t");
        fill(&mut world, "t", 1..=2);
        let mut reader = world.guest("reader");
        world.subscribe(&mut reader, "t", ExactlyOnce);
        fill(&mut world, "t", 3..=4);
        assert_eq!(reader.got(), ["t=3 q1 #1", "t=4 q1 #2"], "{what}");
        assert_eq!(counts(&world).dropped_full, 2, "{what}");
        let mut world = world.kill();
        // One that nobody else gets is refused where that can be said.
        let mut publisher = world.guest("publisher");
        publisher.publish(Line::new("t", "5", AtLeastOnce, 5));
        publisher.publish(Line::new("t", "6", ExactlyOnce, 6));
        publisher.publish(Line::new("t", "7", AtLeastOnce, 7).retained());
        world.pass(100);
        let got = publisher.got();
        let dropped = counts(&world).dropped_full;
        if world.setup.version == V5 {
            let told = ["PUBACK 5 failed", "PUBREC 6 failed", "PUBACK 7"];
            assert_eq!((&got[..], dropped), (&told.map(String::from)[..], 1), "{what}");
        } else {
            let told = ["PUBACK 5", "PUBREC 6", "PUBACK 7"];
            assert_eq!((&got[..], dropped), (&told.map(String::from)[..], 3), "{what}");
        }
        let got = comes_back(&mut world, "away");
        assert_eq!(got, ["CONNACK present", "t=1 q1 #1", "t=2 q1 #2"], "{what}");
        let mut late = world.guest("late");
        late.subscribe(9, "t", AtLeastOnce);
        world.pass(100);
        assert!(late.got().contains(&"t=7 q1 #1 retain".into()), "{what}");
    });
}

#[test]
fn mqtt_5_is_refused_for_its_own_full_queue_too() {
    for lanes in [1, 2] {
        let mut world = narrow(QueueFull::Refuse, V5, lanes);
        let mut client = world.member("self");
        world.subscribe(&mut client, "t", AtLeastOnce);
        for id in 1..=3 {
            client.publish(Line::new("t", "own", AtLeastOnce, id));
            world.settle();
        }
        let got = client.got();
        assert!(got.contains(&"PUBACK 2".into()), "{got:?}");
        assert!(got.contains(&"PUBACK 3 failed".into()), "{got:?}");
    }
}

#[test]
fn a_queue_that_stayed_in_an_image_is_read_before_its_oldest_are_dropped() {
    each(QueueFull::DropOldest, |mut world, what| {
        away(&mut world, "away", "t");
        fill(&mut world, "t", 1..=2);
        world.image();
        let mut world = world.kill();
        assert_eq!(world.untouched("away"), 2, "{what}");
        fill(&mut world, "t", 3..=3);
        world.pass(200);
        assert_eq!(counts(&world).dropped_full, 1, "{what}");
        let mut world = world.kill();
        let got = comes_back(&mut world, "away");
        assert_eq!(got, ["CONNACK present", "t=2 q1 #2", "t=3 q1 #3"], "{what}");
    });
}

#[test]
fn a_session_whose_queue_stayed_in_an_image_ends_when_its_grace_does() {
    each(QueueFull::Refuse, |mut world, what| {
        away(&mut world, "away", "t");
        fill(&mut world, "t", 1..=2);
        world.image();
        let mut world = world.kill();
        world.pass(61_000);
        let Counts { ended_full, dropped_ended, .. } = counts(&world);
        assert_eq!((ended_full, dropped_ended), (1, 2), "{what}");
    });
}
