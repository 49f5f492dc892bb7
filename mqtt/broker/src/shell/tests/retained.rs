//! In memory no log gives retained messages an order, and lanes hear of them in their own: the last
//! write is the last all the same.

use zzq_types::QoS::{self, AtLeastOnce, AtMostOnce, ExactlyOnce};

use super::harness::*;

/// Three lanes and no log; of each ring a lane takes so many messages in a turn.
fn in_memory(messages_per_turn: usize) -> World {
    let mut setup = Setup { lanes: 3, in_memory: true, ..Setup::new(VERSIONS[1]) };
    setup.limits.messages_per_turn = messages_per_turn;
    setup.start()
}

/// The first of many names that live on a lane.
fn name_on(world: &World, lane: usize, kind: &str) -> String {
    let mut names = (0..1000).map(|n| format!("{kind}{n}"));
    names.find(|name| world.shell(0).home(name).index() == lane).unwrap()
}

/// A way to write last, and what a new subscription gets then.
type Last = (&'static str, fn(&mut Client, &str), Option<&'static str>);

const LAST: [Last; 5] = [
    ("QoS 0", |client, topic| write(client, topic, "new", AtMostOnce), Some("new")),
    ("QoS 1", |client, topic| write(client, topic, "new", AtLeastOnce), Some("new")),
    ("QoS 2", |client, topic| write(client, topic, "new", ExactlyOnce), Some("new")),
    ("none", |client, topic| write(client, topic, "", AtLeastOnce), None),
    ("will", |client, _| client.reset(), Some("gone")),
];

fn write(client: &mut Client, topic: &str, text: &str, qos: QoS) {
    client.publish(Line::new(topic, text, qos, 7).retained());
}

/// Found by the simulator: the owner of a topic took what came from one lane before what had been
/// acknowledged by another, and kept that.
#[test]
fn in_memory_what_was_acknowledged_replaces_nothing_that_was_written_behind_it() {
    //= MQTT311-3.3.1-5
    //= MQTT5-3.3.1-5
    for (what, write_last, got) in LAST {
        for first_qos in [AtMostOnce, AtLeastOnce, ExactlyOnce] {
            for (first_lane, last_lane, home) in lanes() {
                let what = format!("{what} behind {first_qos:?}, {first_lane} {last_lane} {home}");
                let mut world = in_memory(256);
                let topic = name_on(&world, home, "t");
                let first_name = name_on(&world, first_lane, "first");
                let mut first = world.guest(&first_name);
                let will = Some((topic.as_str(), AtLeastOnce, true));
                let last_name = name_on(&world, last_lane, "last");
                let mut last = world.call(&Hello { will, ..Hello::guest(&last_name) });
                assert_eq!(last.got(), ["CONNACK"]);
                first.gather();
                write(&mut first, &topic, "old", first_qos);
                // Whoever has this knows that what was before it is done.
                first.publish(Line::new("other", "", AtLeastOnce, 8));
                first.flush();
                world.turn_of(&first_name);
                assert!(first.got().contains(&"PUBACK 8".into()), "{what}");
                write_last(&mut last, &topic);
                world.turn_of(&last_name);
                world.settle();
                let mut reader = world.guest("reader");
                reader.subscribe(1, &topic, AtMostOnce);
                world.settle();
                let retained = got.map(|text| format!("{topic}={text} retain"));
                let expected = ["SUBACK 1".into()].into_iter().chain(retained);
                assert_eq!(reader.got(), expected.collect::<Vec<_>>(), "{what}");
            }
        }
    }
}

/// Of two writers and the owner of their topic.
fn lanes() -> impl Iterator<Item = (usize, usize, usize)> {
    let all = (0..27).map(|n| (n / 9, n / 3 % 3, n % 3));
    all.filter(|(first, last, _)| first != last)
}

/// A lane that is behind with what another tells it is ahead with what a third does.
#[test]
fn in_memory_a_new_subscription_gets_all_that_was_acknowledged_before() {
    //= MQTT311-3.3.1-6
    //= MQTT5-3.3.1-9
    for (reader_lane, writer_lane, home) in lanes().filter(|(_, writer, home)| writer != home) {
        let what = format!("{reader_lane} {writer_lane} {home}");
        let mut world = in_memory(1);
        let reader_name = name_on(&world, reader_lane, "reader");
        let writer_name = name_on(&world, writer_lane, "writer");
        let mut reader = world.guest(&reader_name);
        let mut writer = world.guest(&writer_name);
        let topic = name_on(&world, home, "t");
        writer.gather();
        for id in 1..=9 {
            writer.publish(Line::new(&topic, &id.to_string(), AtLeastOnce, id).retained());
        }
        writer.flush();
        world.turn_of(&writer_name);
        let acknowledged: Vec<_> = (1..=9).map(|id| format!("PUBACK {id}")).collect();
        assert_eq!(writer.got(), acknowledged, "{what}");
        reader.subscribe(1, &topic, AtMostOnce);
        world.settle();
        assert_eq!(reader.got(), ["SUBACK 1", &format!("{topic}=9 retain")], "{what}");
    }
}

/// One that is passed by has its receivers as every other, and takes no room.
#[test]
fn in_memory_what_comes_late_is_delivered_and_not_retained() {
    let mut setup = Setup { lanes: 3, in_memory: true, ..Setup::new(VERSIONS[1]) };
    setup.options.limits.max_retained_messages = 1;
    let mut world = setup.start();
    let topic = name_on(&world, 1, "t");
    let (first_name, last_name) = (name_on(&world, 2, "first"), name_on(&world, 0, "last"));
    let (mut first, mut last) = (world.guest(&first_name), world.guest(&last_name));
    let mut reader = world.guest("reader");
    world.subscribe(&mut reader, &topic, AtMostOnce);
    write(&mut first, &topic, "old", AtLeastOnce);
    world.turn_of(&first_name);
    write(&mut last, &topic, "", AtLeastOnce);
    world.turn_of(&last_name);
    world.settle();
    let mut got = reader.got();
    got.sort();
    assert_eq!(got, [format!("{topic}="), format!("{topic}=old")]);
    assert_eq!((first.got(), last.got()), (vec!["PUBACK 7".into()], vec!["PUBACK 7".into()]));
    // There is room for one.
    world.publish(&mut first, Line::new("other", "x", AtLeastOnce, 8).retained());
}
