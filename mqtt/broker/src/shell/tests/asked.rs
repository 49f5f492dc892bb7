//! What a new subscription is sent of what is retained, while its session is sent the same for
//! others.

use zzq_types::QoS::{self, AtLeastOnce, AtMostOnce};

use super::harness::*;
use super::runs::{ALL_QOS, names_on};
use crate::options::{DeliverPolicy, LogPolicy};

/// Who reads lives on the first of three lanes, whoever writes, and the topic, on any.
struct Scene {
    world: World,
    reader: Client,
    reader_name: String,
    writer: Client,
    writer_name: String,
    topic: String,
    qos: QoS,
    what: String,
}

impl Scene {
    fn new(setup: Setup, writer_lane: u16, home: usize, qos: QoS) -> Self {
        let (options, version) = (&setup.options, setup.version);
        let way = if setup.in_memory {
            "in memory".to_owned()
        } else {
            format!("{:?}, {:?}", options.log, options.deliver)
        };
        let what = format!("{version:?}, {way}, {writer_lane}, {home}, {qos:?}");
        let mut world = setup.start();
        let reader_name = names_on(&world, 0, 1).remove(0);
        let writer_name = names_on(&world, writer_lane, 2).remove(1);
        let (reader, writer) = (world.guest(&reader_name), world.guest(&writer_name));
        let mut topics = (0..).map(|n| format!("t/{n}"));
        let topic = topics.find(|topic| world.shell(0).home(topic).index() == home).unwrap();
        Self { world, reader, reader_name, writer, writer_name, topic, qos, what }
    }

    fn write(&mut self) {
        self.writer.publish(Line::new(&self.topic, "x", self.qos, 1).retained());
    }

    /// All that the reader gets, in any order, when all lanes go on.
    #[track_caller]
    fn gets(&mut self, expected: &[&str]) {
        self.world.pass(100);
        let expected = expected.iter().map(|line| line.replace("topic", &self.topic));
        let (mut expected, mut got) = (expected.collect::<Vec<_>>(), self.reader.got());
        expected.sort();
        got.sort();
        assert_eq!(got, expected, "{}", self.what);
    }
}

/// Each way that retained messages take, but the one that takes time: by way of the log at QoS 0.
fn each_way(test: impl Fn(Scene)) {
    let mut setups = Vec::new();
    for version in VERSIONS {
        let setup = Setup { lanes: 3, ..Setup::new(version) };
        setups.push(Setup { in_memory: true, ..setup.clone() });
        for log in [LogPolicy::All, LogPolicy::Needed] {
            for deliver in [DeliverPolicy::Early, DeliverPolicy::Committed] {
                let mut setup = setup.clone();
                (setup.options.log, setup.options.deliver) = (log, deliver);
                setups.push(setup);
            }
        }
    }
    for setup in setups {
        for (writer_lane, home) in (0..9).map(|n| (n / 3, usize::from(n % 3))) {
            for qos in ALL_QOS {
                test(Scene::new(setup.clone(), writer_lane, home, qos));
            }
        }
    }
}

/// Found by the simulator: a session that waited for one SUBACK was sent a message for that
/// subscription, then asked for another, and was not sent the message as retained for it.
#[test]
fn what_came_before_somebody_subscribed_is_no_answer_to_him() {
    //= MQTT311-3.3.1-6
    //= MQTT5-3.3.1-9
    each_way(|mut scene| {
        // A lane that rests leaves the first one without an answer.
        let turns = |scene: &mut Scene| {
            for name in [&scene.reader_name, &scene.writer_name].repeat(5) {
                scene.world.turn_of(name);
            }
        };
        scene.reader.subscribe(1, "+/+", AtMostOnce);
        turns(&mut scene);
        scene.write();
        turns(&mut scene);
        assert_eq!(scene.reader.got(), [format!("{}=x", scene.topic)], "{}", scene.what);
        scene.reader.subscribe(2, &scene.topic.clone(), AtMostOnce);
        scene.gets(&["SUBACK 1", "SUBACK 2", "topic=x retain"]);
    });
}

/// A lane that does not know of it yet sends a message for another, which asks for less.
#[test]
fn what_was_published_before_a_lane_knew_of_a_subscription_is_no_answer_to_it() {
    //= MQTT311-3.3.1-6
    //= MQTT5-3.3.1-9
    each_way(|mut scene| {
        scene.reader.subscribe(1, "+/+", AtMostOnce);
        scene.gets(&["SUBACK 1"]);
        scene.write();
        scene.world.turn_of(&scene.writer_name);
        scene.reader.subscribe(2, &scene.topic.clone(), AtLeastOnce);
        scene.world.turn_of(&scene.reader_name);
        let retained = match scene.qos {
            AtMostOnce => "topic=x retain",
            _ => "topic=x q1 #1 retain",
        };
        scene.gets(&["topic=x", "SUBACK 2", retained]);
    });
}

/// What it is sent live for that very subscription comes once.
#[test]
fn what_was_published_when_all_lanes_knew_of_a_subscription_comes_once() {
    each_way(|mut scene| {
        scene.reader.subscribe(1, &scene.topic.clone(), AtLeastOnce);
        for _ in 0..3 {
            scene.world.turn_of(&scene.reader_name);
            scene.world.turn_of(&scene.writer_name);
        }
        scene.write();
        let live = match scene.qos {
            AtMostOnce => "topic=x",
            _ => "topic=x q1 #1",
        };
        scene.gets(&["SUBACK 1", live]);
    });
}
