//! What waits behind a full window comes in order, each message with its own contents.

use zzq_codec::AckKind;
use zzq_types::QoS::{AtLeastOnce, AtMostOnce, ExactlyOnce};
use zzq_types::{ProtocolVersion, QoS};

use super::harness::*;

const COUNT: u16 = 12;

/// A broker of which a client takes two messages at once.
fn narrow(version: ProtocolVersion, lanes: u16) -> World {
    let mut setup = Setup { lanes, ..Setup::new(version) };
    setup.options.limits.max_inflight = 2;
    setup.start()
}

fn text(n: u16) -> String {
    format!("message {n} {}", "x".repeat(usize::from(n)))
}

fn delivery(n: u16, qos: QoS) -> String {
    format!("t={} q{} #{n}", text(n), qos.bits())
}

/// Answers one message to the end.
fn answer(world: &mut World, client: &mut Client, qos: QoS, id: u16) {
    if qos == ExactlyOnce {
        client.ack(AckKind::PubRec, id);
        world.settle();
        assert_eq!(client.got(), [format!("PUBREL {id}")]);
        client.ack(AckKind::PubComp, id);
    } else {
        client.ack(AckKind::PubAck, id);
    }
}

#[test]
fn what_waits_comes_one_by_one_as_the_window_opens() {
    //= MQTT5-4.9.0-1
    //= MQTT5-4.9.0-2
    //= MQTT5-4.6.0-6
    //= MQTT311-4.6.0-6
    for version in VERSIONS {
        for lanes in [1, 2] {
            for qos in [AtLeastOnce, ExactlyOnce] {
                let mut world = narrow(version, lanes);
                let mut slow = world.member("slow");
                world.subscribe(&mut slow, "t", qos);
                let mut publisher = world.guest("publisher");
                for n in 1..=COUNT {
                    world.publish(&mut publisher, Line::new("t", &text(n), qos, n));
                }
                assert_eq!(slow.got(), [delivery(1, qos), delivery(2, qos)]);
                for n in 1..=COUNT {
                    answer(&mut world, &mut slow, qos, n);
                    world.settle();
                    let next = (n + 2 <= COUNT).then(|| delivery(n + 2, qos));
                    assert_eq!(slow.got(), next.into_iter().collect::<Vec<_>>());
                }
            }
        }
    }
}

/// A receiver that takes one message at hand, and one that is behind and is pumped in the same
/// turn: the form that was made for the one is not the other's.
#[test]
fn a_message_that_is_pumped_behind_another_at_hand_has_its_own_contents() {
    for version in VERSIONS {
        for first in [false, true] {
            let mut world = narrow(version, 1);
            let mut slow = world.member("slow");
            let mut quick = world.member("quick");
            world.subscribe(&mut slow, "t", AtLeastOnce);
            world.subscribe(&mut quick, "t", AtLeastOnce);
            let mut publisher = world.guest("publisher");
            for n in 1..=COUNT {
                if first && n > 2 {
                    slow.ack(AckKind::PubAck, n - 2);
                }
                publisher.publish(Line::new("t", &text(n), AtLeastOnce, n));
                if !first && n > 2 {
                    slow.ack(AckKind::PubAck, n - 2);
                }
                world.settle();
                assert_eq!(publisher.got(), [format!("PUBACK {n}")]);
                assert_eq!(quick.got(), [delivery(n, AtLeastOnce)]);
                quick.ack(AckKind::PubAck, n);
                assert_eq!(slow.got(), [delivery(n, AtLeastOnce)], "message {n}");
            }
        }
    }
}

/// Retained messages at QoS 0 go out between live ones, each by itself.
#[test]
fn retained_answers_between_live_messages_have_their_own_contents() {
    for version in VERSIONS {
        let mut world = narrow(version, 1);
        let mut publisher = world.guest("publisher");
        for (at, topic) in ["r/1", "r/2", "r/3"].into_iter().enumerate() {
            let id = u16::try_from(at + 1).unwrap();
            world.publish(&mut publisher, Line::new(topic, topic, AtLeastOnce, id).retained());
        }
        let mut one = world.guest("one");
        let mut other = world.guest("other");
        world.subscribe(&mut other, "r/4", AtMostOnce);
        let mut last = world.guest("last");
        one.subscribe(1, "r/+", AtMostOnce);
        last.publish(Line::new("r/4", "live", AtLeastOnce, 9));
        world.settle();
        assert_eq!(other.got(), ["r/4=live"]);
        let mut got = one.got();
        got.sort();
        let wanted = ["SUBACK 1", "r/1=r/1 retain", "r/2=r/2 retain", "r/3=r/3 retain", "r/4=live"];
        assert_eq!(got, wanted);
    }
}
