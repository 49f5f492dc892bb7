//! What is under way between lanes is bounded by the memory that it takes, and none of it is lost.

use zzq_types::ProtocolVersion::V5;
use zzq_types::QoS::{AtLeastOnce, AtMostOnce};

use super::harness::*;
use super::runs::{ALL_QOS, names_on};
use super::withheld::fail_all;

/// What may be under way from one lane to another.
const SHARE: usize = 256 << 10;
const LENGTH: usize = 16 << 10;
/// More than a message takes beside its text.
const OVERHEAD: usize = 300;
const MESSAGES: usize = 100;

/// A broker without a log, and the names of a client on each lane.
fn with_lanes(lanes: u16, setup: Setup) -> (World, Vec<String>) {
    let mut setup = Setup { lanes, in_memory: true, ..setup };
    setup.limits.ring_bytes = SHARE * (usize::from(lanes) - 1);
    let world = setup.start();
    let names = (0..lanes).map(|lane| names_on(&world, lane, 1).remove(0)).collect();
    (world, names)
}

fn texts(length: usize) -> Vec<String> {
    (1..=MESSAGES).map(|n| long(n, length)).collect()
}

/// The texts that have come.
fn taken(receiver: &mut Client) -> Vec<String> {
    let text = |line: String| Some(line.strip_prefix("t=")?.split(' ').next()?.to_owned());
    receiver.got().into_iter().filter_map(text).collect()
}

/// Turns of one lane, while all others rest.
fn turn(world: &mut World, name: &str) {
    (0..200).for_each(|_| world.turn_of(name));
}

/// A lane that took nothing for a while was sent 768 messages, however long they were.
#[test]
fn messages_for_a_lane_that_rests_take_no_more_than_their_share() {
    for version in VERSIONS {
        for qos in ALL_QOS {
            for lanes in [2, 3] {
                let (mut world, names) = with_lanes(lanes, Setup::new(version));
                let mut receivers = Vec::new();
                for name in &names[1..] {
                    let mut receiver = world.guest(name);
                    world.subscribe(&mut receiver, "t", qos);
                    receivers.push(receiver);
                }
                let mut publisher = world.guest(&names[0]);
                let texts = texts(LENGTH);
                for (id, text) in (1..).zip(&texts) {
                    publisher.publish(Line::new("t", text, qos, id));
                }
                turn(&mut world, &names[0]);
                let kept = world.shell(0).kept_notes.len();
                assert_eq!(kept, receivers.len(), "the first one for which there is no room");
                let mut got = Vec::new();
                for (receiver, name) in receivers.iter_mut().zip(&names[1..]) {
                    turn(&mut world, name);
                    got.push(taken(receiver));
                    let count = got[got.len() - 1].len();
                    assert!(count * LENGTH <= SHARE, "{count} were under way");
                    assert!((count + 1) * (LENGTH + OVERHEAD) > SHARE, "{count} are too few");
                }
                world.settle();
                for (receiver, mut got) in receivers.iter_mut().zip(got) {
                    got.append(&mut taken(receiver));
                    assert!(got == texts, "{version:?} {qos:?} {lanes}");
                }
            }
        }
    }
}

#[test]
fn a_message_that_is_longer_than_the_share_goes_alone() {
    for qos in ALL_QOS {
        let (mut world, names) = with_lanes(2, Setup::new(V5));
        let mut receiver = world.guest(&names[1]);
        world.subscribe(&mut receiver, "t", qos);
        let mut publisher = world.guest(&names[0]);
        let texts = &texts(SHARE + 1)[..5];
        for (id, text) in (1..).zip(texts) {
            publisher.publish(Line::new("t", text, qos, id));
        }
        for text in &texts[..4] {
            turn(&mut world, &names[0]);
            turn(&mut world, &names[1]);
            assert!(taken(&mut receiver) == [text.as_str()], "one at a time");
        }
        world.settle();
        assert!(taken(&mut receiver) == [texts[4].as_str()]);
    }
}

/// All that an ended session left to a member on another lane was copied at once.
#[test]
fn what_an_ended_session_leaves_goes_on_within_the_share_too() {
    let (mut world, names) = with_lanes(2, Setup::new(V5));
    let mut away = world.member(&names[0]);
    world.subscribe(&mut away, "$share/group/t", AtLeastOnce);
    away.disconnect();
    let publisher_name = names_on(&world, 0, 2).remove(1);
    let mut publisher = world.guest(&publisher_name);
    let texts = texts(LENGTH);
    for (id, text) in (1..).zip(&texts) {
        world.publish(&mut publisher, Line::new("t", text, AtLeastOnce, id));
    }
    let mut other = world.guest(&names[1]);
    world.subscribe(&mut other, "$share/group/t", AtLeastOnce);
    assert!(taken(&mut other).is_empty());
    // One that is accepted on each lane; the session ends on the first.
    let mut again = [world.open(), world.open()];
    for client in &mut again {
        client.connect(&Hello::guest(&names[0]));
    }
    turn(&mut world, &publisher_name);
    assert_eq!(world.shell(0).kept_notes.len(), 1, "it goes on when there is room");
    turn(&mut world, &names[1]);
    let mut got = taken(&mut other);
    assert!(got.len() * LENGTH <= SHARE, "{} were under way", got.len());
    world.settle();
    got.append(&mut taken(&mut other));
    got.sort_unstable();
    assert!(got == texts);
}

/// Notes of subscriptions counted as nothing, and who subscribes had no reason to stop.
#[test]
fn subscriptions_for_a_lane_that_rests_take_no_more_than_their_share() {
    for version in VERSIONS {
        for lanes in [2, 3] {
            let (mut world, names) = with_lanes(lanes, Setup::new(version));
            let others = usize::from(lanes) - 1;
            for name in &names[1..] {
                world.guest(name);
            }
            let mut client = world.guest(&names[0]);
            let filters: Vec<String> = texts(LENGTH);
            for (id, filter) in (1..).zip(&filters) {
                client.subscribe(id, filter, AtLeastOnce);
            }
            client.unsubscribe(200, &filters[0]);
            turn(&mut world, &names[0]);
            assert_eq!(world.shell(0).kept_notes.len(), others, "{version:?}, {lanes} lanes");
            let known = |world: &World, lane: usize| world.shell(lane).index.subscriptions();
            for (lane, name) in names.iter().enumerate().skip(1) {
                turn(&mut world, name);
                let count = known(&world, lane);
                assert!(count > 0 && count * LENGTH <= SHARE, "{count} were under way");
            }
            world.settle();
            let acks = (1..=MESSAGES).map(|id| format!("SUBACK {id}"));
            let mut acks: Vec<String> = acks.chain(["UNSUBACK 200".to_owned()]).collect();
            let mut got = client.got();
            acks.sort_unstable();
            got.sort_unstable();
            assert_eq!(got, acks);
            for lane in 0..usize::from(lanes) {
                assert_eq!(known(&world, lane), MESSAGES - 1);
            }
        }
    }
}

/// Who publishes goes first each time there is room, and fills it: a SUBSCRIBE waited until he had
/// no more to say.
#[test]
fn who_subscribes_does_not_wait_for_all_that_another_publishes() {
    for version in VERSIONS {
        let (mut world, names) = with_lanes(2, Setup::new(version));
        let mut receiver = world.guest(&names[1]);
        world.subscribe(&mut receiver, "t", AtLeastOnce);
        let mut publisher = world.guest(&names[0]);
        let name = names_on(&world, 0, 2).remove(1);
        let mut subscriber = world.guest(&name);
        for (id, text) in (1..).zip(&texts(LENGTH)) {
            publisher.publish(Line::new("t", text, AtLeastOnce, id));
        }
        turn(&mut world, &names[0]);
        assert_eq!(world.shell(0).kept_notes.len(), 1);
        subscriber.subscribe(1, "other", AtLeastOnce);
        let (mut got, mut came) = (Vec::new(), Vec::new());
        while got.is_empty() {
            turn(&mut world, &names[0]);
            turn(&mut world, &names[1]);
            came.append(&mut taken(&mut receiver));
            got = subscriber.got();
            assert!(came.len() < MESSAGES, "{version:?}: it waited for all of them");
        }
        assert_eq!(got, ["SUBACK 1"], "{version:?}");
        world.settle();
        came.append(&mut taken(&mut receiver));
        assert_eq!(came.len(), MESSAGES, "{version:?}");
    }
}

/// A client that needs nothing of a log that has failed waits for a ring, and was closed for the
/// log.
#[test]
fn who_waits_for_another_lane_is_not_closed_for_a_log_that_has_failed() {
    for version in VERSIONS {
        let mut setup = Setup { lanes: 2, ..Setup::new(version) };
        setup.limits.ring_bytes = SHARE;
        let mut world = setup.start();
        let names: Vec<String> = (0..2).map(|lane| names_on(&world, lane, 1).remove(0)).collect();
        let mut receiver = world.guest(&names[1]);
        world.subscribe(&mut receiver, "t", AtMostOnce);
        let mut publisher = world.guest(&names[0]);
        let name = names_on(&world, 0, 2).remove(1);
        let mut subscriber = world.guest(&name);
        let mut member = world.member("member");
        world.subscribe(&mut member, "kept", AtLeastOnce);
        world.disk.hold();
        let mut other = world.guest("other");
        other.publish(Line::new("kept", "x", AtLeastOnce, 1));
        for _ in 0..2 {
            world.settle();
            fail_all(&mut world);
        }
        world.settle();
        assert!(world.is_read_only());
        let texts = texts(LENGTH);
        for text in &texts {
            publisher.publish(Line::new("t", text, AtMostOnce, 0));
        }
        for (id, filter) in (1..).zip(&texts) {
            subscriber.subscribe(id, filter, AtLeastOnce);
        }
        turn(&mut world, &names[0]);
        assert!(!world.shell(0).kept_notes.is_empty());
        world.settle();
        assert_eq!(taken(&mut receiver).len(), MESSAGES, "{version:?}");
        let acks: Vec<String> = (1..=MESSAGES).map(|id| format!("SUBACK {id}")).collect();
        assert_eq!(subscriber.got(), acks, "{version:?}");
        assert_eq!(publisher.got(), [""; 0], "{version:?}: it is open");
    }
}
