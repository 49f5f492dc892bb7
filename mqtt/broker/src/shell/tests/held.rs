//! Publishers that wait for a full queue: MQTT 3 cannot refuse a publish, so it is held, and the
//! rest of what its client sends is not.

use zzq_codec::{AckKind, Delivery, Packet, Publish};
use zzq_types::ProtocolVersion::{V5, V31, V311};
use zzq_types::QoS::{AtLeastOnce, AtMostOnce, ExactlyOnce};
use zzq_types::{PacketId, PropertiesBuf, Property, ProtocolVersion, QoS, TopicName};

use super::harness::*;

/// Queues of two messages.
fn narrow(version: ProtocolVersion, lanes: u16) -> Setup {
    let mut setup = Setup { lanes, ..Setup::new(version) };
    setup.options.limits.max_queued_messages = 2;
    setup
}

/// A session without a connection whose queue is full, with the identifiers 1 and 2.
fn full(world: &mut World, name: &str, topic: &str) {
    let mut away = world.member(name);
    world.subscribe(&mut away, topic, ExactlyOnce);
    away.disconnect();
    world.settle();
    let mut filler = world.guest("filler");
    for id in 1..=2 {
        world.publish(&mut filler, Line::new(topic, "before", AtLeastOnce, id));
    }
    filler.disconnect();
    world.settle();
}

/// Two of these, with little room for what waits for their queues.
fn two_full(lanes: u16) -> World {
    let mut setup = narrow(V311, lanes);
    setup.options.limits.max_held_bytes = 300;
    let mut world = setup.start();
    full(&mut world, "a", "to-a");
    full(&mut world, "b", "to-b");
    world
}

/// Takes all that comes and answers it; returns the messages.
pub(super) fn drain(world: &mut World, clients: &mut [&mut Client]) -> Vec<Vec<String>> {
    let mut got = vec![Vec::new(); clients.len()];
    for _ in 0..50 {
        for (client, got) in clients.iter_mut().zip(&mut got) {
            for line in client.got() {
                answer(client, &line);
                got.push(line);
            }
        }
        world.pass(20);
    }
    got
}

/// The answer that a packet asks for.
pub(super) fn answer(client: &mut Client, line: &str) {
    let words: Vec<&str> = line.split(' ').collect();
    let id = |word: &str| word.trim_start_matches('#').parse().unwrap();
    match words[..] {
        ["PUBREC", n] => client.ack(AckKind::PubRel, id(n)),
        ["PUBREL", n] => client.ack(AckKind::PubComp, id(n)),
        [_, "q1", n, ..] => client.ack(AckKind::PubAck, id(n)),
        [_, "q2", n, ..] => client.ack(AckKind::PubRec, id(n)),
        _ => {}
    }
}

fn each_world(test: impl Fn(World, &str)) {
    for version in [V31, V311] {
        for lanes in [1, 2, 3] {
            test(narrow(version, lanes).start(), &format!("{version:?}, {lanes} lanes"));
        }
    }
}

#[test]
fn a_publish_to_a_full_queue_waits_and_the_rest_of_its_client_does_not() {
    each_world(|mut world, what| {
        full(&mut world, "away", "t");
        let mut publisher = world.member("publisher");
        publisher.publish(Line::new("t", "first", AtLeastOnce, 1));
        // Behind it in its order, though they would find room.
        publisher.publish(Line::new("other", "second", AtLeastOnce, 2));
        publisher.publish(Line::new("other", "third", ExactlyOnce, 3));
        publisher.publish(Line::new("t", "fourth", AtMostOnce, 0));
        publisher.send(&Packet::PingReq);
        world.pass(60_000);
        assert_eq!(publisher.got(), ["PINGRESP"], "{what}");
        world.subscribe(&mut publisher, "other", AtMostOnce);
        let mut away = world.call(&Hello::member("away"));
        let got = drain(&mut world, &mut [&mut away, &mut publisher]);
        let messages = ["t=before q1 #1", "t=before q1 #2", "t=first q1 #3", "t=fourth"];
        assert_eq!(got[0].iter().filter(|line| line.starts_with("t=")).count(), 4, "{what}");
        assert!(
            messages.iter().all(|line| got[0].iter().any(|got| got == line)),
            "{what}: {got:?}"
        );
        let answers: Vec<_> = got[1].iter().filter(|line| line.starts_with("PUB")).collect();
        assert_eq!(answers, ["PUBACK 1", "PUBACK 2", "PUBREC 3", "PUBCOMP 3"], "{what}");
        let messages: Vec<_> = got[1].iter().filter(|line| line.starts_with("other")).collect();
        assert_eq!(messages, ["other=second", "other=third"], "{what}");
    });
}

/// Found by the simulator: each was closed for its publish before its acknowledgements were read,
/// came back and published again, for ever.
#[test]
fn two_that_wait_for_each_other_go_on() {
    each_world(|mut world, what| {
        full(&mut world, "a", "to-a");
        full(&mut world, "b", "to-b");
        let mut clients = ["a", "b"].map(|name| {
            let mut client = world.open();
            client.gather();
            client.connect(&Hello::member(name));
            let topic = if name == "a" { "to-b" } else { "to-a" };
            for id in 1..=5 {
                client.publish(Line::new(topic, &id.to_string(), AtLeastOnce, id));
            }
            client.flush();
            client
        });
        world.pass(1000);
        let [a, b] = &mut clients;
        let got = drain(&mut world, &mut [a, b]);
        for got in got {
            let of = |start: &str| got.iter().filter(|line| line.starts_with(start)).count();
            assert_eq!((of("to-"), of("PUBACK")), (7, 5), "{what}: {got:?}");
        }
        assert!(world.owes_nothing("a") && world.owes_nothing("b"), "{what}");
    });
}

#[test]
fn a_client_is_not_held_for_its_own_queue() {
    each_world(|mut world, what| {
        full(&mut world, "self", "t");
        let mut client = world.call(&Hello::member("self"));
        assert_eq!(client.got()[1..], ["t=before q1 #1", "t=before q1 #2"], "{what}");
        client.publish(Line::new("t", "own", AtLeastOnce, 1));
        world.settle();
        let got = client.got();
        assert!(got.contains(&"PUBACK 1".into()), "{what}: {got:?}");
    });
}

#[test]
fn mqtt_5_says_that_a_queue_is_full() {
    //= MQTT5-4.3.3-9
    for lanes in [1, 2] {
        let mut world = narrow(V5, lanes).start();
        full(&mut world, "away", "t");
        let mut publisher = world.guest("publisher");
        publisher.publish(Line::new("t", "x", AtLeastOnce, 1));
        publisher.publish(Line::new("t", "x", ExactlyOnce, 2));
        world.settle();
        assert_eq!(publisher.got(), ["PUBACK 1 failed", "PUBREC 2 failed"]);
    }
}

/// Publishes a lot to a full queue; what is held stays below the bound.
fn flood(world: &mut World, client: &mut Client, topic: &str, qos: QoS, count: u16) {
    client.gather();
    for id in 1..=count {
        client.publish(Line::new(topic, &format!("{id:0100}"), qos, id));
    }
    client.flush();
    world.settle();
    let lanes = usize::from(world.setup.lanes);
    let held: usize = (0..lanes).map(|lane| world.shell(lane).held_bytes()).sum();
    assert!(held <= world.setup.options.limits.max_held_bytes, "{held}");
}

#[test]
fn a_client_that_has_much_held_is_read_on_when_there_is_room() {
    for lanes in [1, 2] {
        let mut setup = narrow(V311, lanes);
        setup.options.limits.max_held_bytes = 1000;
        let mut world = setup.start();
        full(&mut world, "away", "t");
        let mut publisher = world.guest("publisher");
        flood(&mut world, &mut publisher, "t", AtLeastOnce, 100);
        // Its silence is the broker's: nothing is read, and it is not closed for that.
        world.pass(60_000);
        assert_eq!(publisher.got(), [""; 0]);
        let mut away = world.call(&Hello::member("away"));
        for _ in 0..4 {
            drain(&mut world, &mut [&mut away]);
        }
        let acknowledged: Vec<_> = (1..=100).map(|id| format!("PUBACK {id}")).collect();
        assert_eq!(publisher.got(), acknowledged);
        assert_eq!((0..usize::from(lanes)).map(|l| world.shell(l).held_bytes()).sum::<usize>(), 0);
    }
}

/// More than is held for one client lies before its acknowledgements, and others wait for these.
#[test]
fn two_that_have_more_to_say_than_is_held_go_on_in_the_end() {
    for lanes in [1, 2] {
        let mut world = two_full(lanes);
        let mut open = [1, 1];
        // Clients that come back, and send again what was not answered before they answer.
        for _ in 0..20 {
            let names = ["a", "b"];
            let mut clients = names.map(|name| world.call(&Hello::member(name)));
            for (at, client) in clients.iter_mut().enumerate() {
                client.gather();
                for id in open[at]..=10 {
                    let topic = format!("to-{}", names[1 - at]);
                    client.publish(Line::new(&topic, &format!("{id:0100}"), AtLeastOnce, id));
                }
                client.flush();
            }
            for _ in 0..15 {
                for (at, client) in clients.iter_mut().enumerate() {
                    for line in client.got() {
                        answer(client, &line);
                        open[at] += u16::from(line.starts_with("PUBACK"));
                    }
                }
                world.pass(1000);
            }
            for client in &clients {
                client.reset();
            }
            world.pass(100);
        }
        assert_eq!(open, [11, 11], "{lanes} lanes");
    }
}

/// It was read on, what it published thrown away, and closed after as long again, for the
/// acknowledgements that it had given.
#[test]
fn a_client_that_owes_no_answer_is_not_closed() {
    for lanes in [1, 2] {
        let mut world = two_full(lanes);
        let mut client = world.call(&Hello::member("a"));
        world.pass(1000);
        let mut other = world.guest("other");
        world.fill_log(&mut other);
        for line in client.got() {
            answer(&mut client, &line);
        }
        world.settle();
        flood(&mut world, &mut client, "to-b", AtLeastOnce, 20);
        world.pass(15_000);
        assert_eq!(client.got(), [""; 0], "{lanes} lanes");
        assert!(!world.owes_nothing("a"), "{lanes} lanes: its queue is full all the while");
        assert_eq!(world.shell(0).counts.shed, 0, "{lanes} lanes");
    }
}

#[test]
fn nobody_is_held_on_a_log_that_has_failed() {
    for lanes in [1, 2] {
        let mut world = narrow(V311, lanes).start();
        full(&mut world, "away", "t");
        let mut held = world.guest("held");
        held.publish(Line::new("t", "x", AtLeastOnce, 1));
        world.pass(100);
        world.disk.hold();
        let mut other = world.guest("other");
        other.publish(Line::new("u", "x", AtLeastOnce, 1));
        for _ in 0..2 {
            world.settle();
            for token in world.disk.in_flight() {
                world.disk.release_with(token, FAIL);
            }
        }
        world.pass(100);
        assert!(world.is_read_only());
        assert_eq!(held.got(), ["closed"]);
        let mut late = world.guest("late");
        late.publish(Line::new("t", "x", AtLeastOnce, 1));
        world.settle();
        assert_eq!(late.got(), ["closed"]);
    }
}

#[test]
fn what_is_held_goes_with_its_connection() {
    for lanes in [1, 2] {
        let mut world = narrow(V311, lanes).start();
        full(&mut world, "away", "t");
        for is_lost in [true, false] {
            let mut publisher = world.guest("publisher");
            flood(&mut world, &mut publisher, "t", AtLeastOnce, 20);
            if is_lost {
                publisher.reset();
            } else {
                publisher.disconnect();
            }
            world.settle();
            for lane in 0..usize::from(lanes) {
                assert_eq!(world.shell(lane).held_bytes(), 0);
            }
        }
    }
}

/// Found by the simulator: a client that sends again on the same connection had its repeat held
/// behind, while the first copy was taken and released. Then the repeat was another message.
#[test]
fn a_repeat_of_a_message_at_qos_2_that_is_held_is_no_other_message() {
    //= MQTT311-4.3.3-2
    each_world(|mut world, what| {
        full(&mut world, "away", "t");
        let mut reader = world.guest("reader");
        world.subscribe(&mut reader, "other", ExactlyOnce);
        let mut publisher = world.member("publisher");
        let first = Line::new("other", "taken", ExactlyOnce, 1);
        publisher.publish(first);
        publisher.publish(Line::new("t", "first", AtLeastOnce, 2));
        publisher.publish(Line::new("other", "held", ExactlyOnce, 3));
        publisher.publish(first.again());
        publisher.publish(Line::new("t", "first", AtLeastOnce, 2).again());
        publisher.publish(Line::new("other", "held", ExactlyOnce, 3).again());
        let got = drain(&mut world, &mut [&mut publisher, &mut reader]);
        assert!(got[0].contains(&"PUBCOMP 1".into()), "{what}: {got:?}");
        let mut away = world.call(&Hello::member("away"));
        let later = drain(&mut world, &mut [&mut publisher, &mut reader, &mut away]);
        let all = [got[1].clone(), later[1].clone(), later[2].clone()].concat();
        for text in ["=taken", "=held", "=first"] {
            let count = all.iter().filter(|line| line.contains(text)).count();
            assert_eq!(count, 1, "{what}, {text}: {all:?}");
        }
    });
}

/// Publishes at QoS 2 under an alias, which stands for `topic` from now on if there is one.
fn publish_by(
    client: &mut Client,
    alias: u16,
    topic: Option<&str>,
    text: &str,
    id: u16,
    dup: bool,
) {
    let mut properties = PropertiesBuf::new();
    properties.push(Property::TopicAlias(alias)).unwrap();
    client.send(&Packet::Publish(Publish {
        dup,
        retain: false,
        delivery: Delivery::ExactlyOnce(PacketId::new(id).unwrap()),
        topic: topic.map(|topic| TopicName::new(topic).unwrap()),
        properties: properties.as_properties(),
        payload: text.as_bytes(),
    }));
}

/// Found by the simulator: a repeat at QoS 2 does not wait for what was set aside, and so it used
/// and defined aliases before those that had come first. Its client was cut off for one that it had
/// defined, and what had been set aside could go to another topic.
#[test]
fn aliases_mean_what_they_meant_when_a_publish_came() {
    //= MQTT5-3.3.2-12
    for lanes in [1, 2] {
        let mut setup = Setup { lanes, ..Setup::new(V5) };
        setup.options.limits.max_output_bytes = 1000;
        let mut world = setup.start();
        let mut slow = world.guest("slow");
        world.subscribe(&mut slow, "slow", AtMostOnce);
        let mut reader = world.guest("reader");
        world.subscribe(&mut reader, "to/#", ExactlyOnce);
        let mut publisher = world.member("publisher");
        publish_by(&mut publisher, 1, Some("to/first"), "taken", 1, false);
        world.settle();
        assert_eq!(publisher.got(), ["PUBREC 1"]);
        slow.takes(0);
        for _ in 0..3 {
            // More than a connection has left when it is said to have drained.
            publisher.publish(Line::new("slow", &long(1, 20_000), AtMostOnce, 0));
            world.settle();
        }
        publish_by(&mut publisher, 1, None, "held", 2, false);
        publish_by(&mut publisher, 2, Some("to/second"), "held too", 3, false);
        publish_by(&mut publisher, 2, None, "taken", 1, true);
        publish_by(&mut publisher, 1, Some("to/third"), "taken", 1, true);
        publish_by(&mut publisher, 1, None, "held as well", 4, false);
        publish_by(&mut publisher, 1, Some("to/fourth"), "held", 2, true);
        publish_by(&mut publisher, 1, None, "last", 5, false);
        world.settle();
        let got = publisher.got();
        assert_eq!(got, ["PUBREC 1", "PUBREC 1"], "the others are held");
        slow.takes(1 << 20);
        slow.got();
        let got = drain(&mut world, &mut [&mut publisher, &mut reader, &mut slow]);
        let sent: Vec<_> = got[1].iter().filter(|line| line.starts_with("to/")).collect();
        let texts = [
            "to/first=taken",
            "to/first=held",
            "to/second=held too",
            "to/third=held as well",
            "to/fourth=last",
        ];
        assert_eq!(sent.len(), texts.len(), "{sent:?}");
        for (line, text) in sent.iter().zip(texts) {
            assert!(line.starts_with(text), "{line}, not {text}: {sent:?}");
        }
    }
}

/// What is left of its output when it is said to have drained is more than it may have.
#[test]
fn a_receiver_goes_on_however_little_output_it_may_have() {
    let mut setup = Setup::new(V5);
    setup.options.limits.max_output_bytes = 1000;
    let mut world = setup.start();
    let mut slow = world.guest("slow");
    world.subscribe(&mut slow, "slow", AtMostOnce);
    let mut publisher = world.guest("publisher");
    slow.takes(0);
    publisher.publish(Line::new("slow", &long(1, 3000), AtMostOnce, 0));
    world.settle();
    slow.takes(1 << 20);
    world.settle();
    publisher.publish(Line::new("slow", &long(2, 3000), AtMostOnce, 0));
    world.settle();
    assert_eq!(slow.got().len(), 2);
}
