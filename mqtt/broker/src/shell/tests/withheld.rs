//! On a disk that withholds its completions nothing leaves that depends on them.

use zzq_codec::AckKind;
use zzq_types::ProtocolVersion;
use zzq_types::QoS::{self, AtLeastOnce, AtMostOnce, ExactlyOnce};

use super::harness::*;
use crate::options::DeliverPolicy;

/// An exchange whose last packet depends on the log.
struct Case {
    /// What goes before, on a disk that answers.
    prepare: fn(&mut World) -> Vec<Client>,
    /// What asks for it.
    act: fn(&mut World, &mut Vec<Client>),
    /// The same again.
    again: fn(&mut World, &mut Vec<Client>),
    /// What the first client gets once the disk has answered.
    expected: &'static [&'static str],
    /// The first client waits for an answer, so that its connection cannot stay when none can
    /// come.
    asks: bool,
}

/// What becomes of the writes that are withheld.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Released,
    /// The second write comes back before the first.
    Reversed,
    /// They fail, and succeed where they are moved to.
    Moved,
    /// They fail there as well.
    Failed,
}

const FATES: [Fate; 4] = [Fate::Released, Fate::Reversed, Fate::Moved, Fate::Failed];

#[track_caller]
fn withheld(case: &Case) {
    for version in VERSIONS {
        for lanes in [1, 2] {
            for fate in FATES {
                let setup = Setup { lanes, ..Setup::new(version) };
                case.run(setup, fate, &format!("{version:?}, {lanes} lanes, {fate:?}"));
            }
        }
    }
}

impl Case {
    #[track_caller]
    fn run(&self, setup: Setup, fate: Fate, what: &str) {
        let mut world = setup.start();
        let mut clients = (self.prepare)(&mut world);
        let mut filler = world.member("filler");
        // What waits for nobody goes to disk before.
        world.pass(100);
        world.disk.hold();
        (self.act)(&mut world, &mut clients);
        world.pass(50);
        assert!(!world.disk.in_flight().is_empty(), "{what}: nothing is withheld");
        silent(&mut clients, what);
        filler.publish(Line::new("filler", "x", AtLeastOnce, 1));
        world.settle();
        (self.again)(&mut world, &mut clients);
        world.pass(50);
        assert_eq!(world.disk.in_flight().len(), 2, "{what}");
        silent(&mut clients, what);
        assert_eq!(filler.got(), [""; 0], "{what}");
        match fate {
            Fate::Released => {}
            Fate::Reversed => {
                let second = world.disk.in_flight()[1];
                assert!(world.disk.release(second));
                world.pass(50);
                silent(&mut clients, what);
            }
            Fate::Moved => {
                fail_all(&mut world);
                silent(&mut clients, what);
            }
            Fate::Failed => {
                fail_all(&mut world);
                fail_all(&mut world);
                return self.never(&mut world, &mut clients, &mut filler, what);
            }
        }
        while world.disk.release_next().is_some() {
            world.settle();
        }
        assert_eq!(clients[0].got(), self.expected, "{what}");
        assert_eq!(filler.got(), ["PUBACK 1"], "{what}");
    }

    /// Nothing comes any more but the end of connections.
    #[track_caller]
    fn never(&self, world: &mut World, clients: &mut [Client], filler: &mut Client, what: &str) {
        assert!(world.is_read_only(), "{what}");
        world.disk.release_all();
        world.pass(60_000);
        for client in clients.iter_mut() {
            let got = client.got();
            let is_end = |line: &String| line == "DISCONNECT" || line == "closed";
            assert!(got.iter().all(is_end), "{what}: {got:?}");
        }
        assert!(clients[0].is_ended() || !self.asks, "{what}: it waits for ever");
        filler.got();
        assert!(filler.is_ended(), "{what}: its PUBACK never comes");
    }
}

/// How a connection ends in these versions.
pub(super) fn end(version: ProtocolVersion) -> &'static [&'static str] {
    if version.is_v5() { &["DISCONNECT", "closed"] } else { &["closed"] }
}

#[track_caller]
fn silent(clients: &mut [Client], what: &str) {
    for client in clients {
        assert_eq!(client.got(), [""; 0], "{what}");
    }
}

/// All writes in flight fail, in both their places if it is called twice.
pub(super) fn fail_all(world: &mut World) {
    let tokens = world.disk.in_flight();
    assert!(!tokens.is_empty(), "nothing that could fail");
    for token in tokens {
        world.disk.release_with(token, FAIL);
    }
    world.pass(50);
}

/// A message of the first client, with its identifier 1.
pub(super) fn line(qos: QoS) -> Line<'static> {
    Line::new("t", "a", qos, 1)
}

#[test]
fn puback_waits_for_its_message() {
    //= MQTT311-4.8.0-2
    //= MQTT311-4.3.2-2
    //= MQTT5-4.3.2-4
    withheld(&Case {
        prepare: |world| vec![world.guest("publisher")],
        act: |_, clients| clients[0].publish(line(AtLeastOnce)),
        again: |_, clients| clients[0].publish(line(AtLeastOnce).again()),
        expected: &["PUBACK 1", "PUBACK 1"],
        asks: true,
    });
}

#[test]
fn pubrec_waits_for_its_message() {
    //= MQTT311-4.3.3-2
    //= MQTT5-4.3.3-8
    withheld(&Case {
        prepare: |world| vec![world.member("publisher")],
        act: |_, clients| clients[0].publish(line(ExactlyOnce)),
        again: |_, clients| clients[0].publish(line(ExactlyOnce).again()),
        expected: &["PUBREC 1", "PUBREC 1"],
        asks: true,
    });
}

#[test]
fn pubrec_of_a_session_that_ends_with_its_connection_waits_too() {
    //= MQTT311-4.3.3-2
    //= MQTT5-4.3.3-8
    withheld(&Case {
        prepare: |world| vec![world.guest("publisher")],
        act: |_, clients| clients[0].publish(line(ExactlyOnce)),
        again: |_, clients| clients[0].publish(line(ExactlyOnce).again()),
        expected: &["PUBREC 1", "PUBREC 1"],
        asks: true,
    });
}

#[test]
fn pubrel_waits_for_the_receipt_of_pubrec() {
    //= MQTT311-4.3.3-1
    //= MQTT5-4.3.3-4
    withheld(&Case {
        prepare: |world| {
            let mut subscriber = world.member("subscriber");
            world.subscribe(&mut subscriber, "t", ExactlyOnce);
            let mut publisher = world.guest("publisher");
            world.publish(&mut publisher, line(ExactlyOnce));
            assert_eq!(subscriber.got(), ["t=a q2 #1"]);
            vec![subscriber]
        },
        act: |_, clients| clients[0].ack(AckKind::PubRec, 1),
        again: |_, clients| clients[0].ack(AckKind::PubRec, 1),
        // It leaves after both and answers both.
        expected: &["PUBREL 1"],
        asks: true,
    });
}

#[test]
fn pubcomp_waits_for_its_release() {
    //= MQTT311-4.3.3-2
    //= MQTT5-4.3.3-11
    withheld(&Case {
        prepare: |world| {
            let mut publisher = world.member("publisher");
            publisher.publish(line(ExactlyOnce));
            world.settle();
            assert_eq!(publisher.got(), ["PUBREC 1"]);
            vec![publisher]
        },
        act: |_, clients| clients[0].ack(AckKind::PubRel, 1),
        again: |_, clients| clients[0].ack(AckKind::PubRel, 1),
        expected: &["PUBCOMP 1", "PUBCOMP 1"],
        asks: true,
    });
}

#[test]
fn suback_waits_for_its_subscription() {
    //= MQTT311-3.8.4-1
    //= MQTT5-3.8.4-1
    withheld(&Case {
        prepare: |world| vec![world.member("subscriber")],
        act: |_, clients| clients[0].subscribe(1, "t", AtLeastOnce),
        again: |_, clients| clients[0].subscribe(2, "t", AtLeastOnce),
        expected: &["SUBACK 1", "SUBACK 2"],
        asks: true,
    });
}

#[test]
fn unsuback_waits_for_the_end_of_its_subscription() {
    //= MQTT311-3.10.4-4
    //= MQTT5-3.10.4-4
    withheld(&Case {
        prepare: |world| {
            let mut subscriber = world.member("subscriber");
            world.subscribe(&mut subscriber, "t", AtLeastOnce);
            vec![subscriber]
        },
        act: |_, clients| clients[0].unsubscribe(1, "t"),
        again: |_, clients| clients[0].unsubscribe(2, "t"),
        expected: &["UNSUBACK 1", "UNSUBACK 2"],
        asks: true,
    });
}

#[test]
fn connack_of_a_session_that_stays_waits_for_it() {
    //= MQTT311-3.1.4-4
    //= MQTT5-3.1.4-5
    withheld(&Case {
        prepare: |_| Vec::new(),
        act: |world, clients| clients.push(world.call(&Hello::member("c"))),
        again: |_, _| {},
        expected: &["CONNACK"],
        asks: true,
    });
}

#[test]
fn connack_of_a_session_with_a_will_waits_for_it() {
    //= MQTT311-3.1.2-8
    //= MQTT5-3.1.2-7
    withheld(&Case {
        prepare: |_| Vec::new(),
        act: |world, clients| {
            let will = Some(("w", AtMostOnce, false));
            clients.push(world.call(&Hello { will, ..Hello::guest("c") }));
        },
        again: |_, _| {},
        expected: &["CONNACK"],
        asks: true,
    });
}

#[test]
fn connack_of_a_session_that_is_resumed_waits_for_it() {
    //= MQTT311-3.2.2-2
    //= MQTT5-3.2.2-3
    withheld(&Case {
        prepare: |world| {
            world.member("c").disconnect();
            Vec::new()
        },
        act: |world, clients| clients.push(world.call(&Hello::member("c"))),
        again: |_, _| {},
        expected: &["CONNACK present"],
        asks: true,
    });
}

#[test]
fn connack_over_a_session_that_is_discarded_waits_for_its_end() {
    //= MQTT311-3.1.2-6
    //= MQTT5-3.1.2-4
    withheld(&Case {
        prepare: |world| {
            world.member("c").disconnect();
            Vec::new()
        },
        act: |world, clients| clients.push(world.call(&Hello::guest("c"))),
        again: |_, _| {},
        expected: &["CONNACK"],
        asks: true,
    });
}

/// A subscriber at some QoS of what a publisher sends at QoS 2.
macro_rules! delivery_of_qos_2 {
    ($name:ident, $qos:expr, $first:literal, $second:literal) => {
        #[test]
        fn $name() {
            //= MQTT311-4.3.3-1
            //= MQTT5-4.3.3-1
            withheld(&Case {
                prepare: |world| {
                    let mut subscriber = world.guest("subscriber");
                    world.subscribe(&mut subscriber, "t", $qos);
                    vec![subscriber, world.member("publisher")]
                },
                act: |_, clients| clients[1].publish(line(ExactlyOnce)),
                again: |_, clients| {
                    clients[1].publish(line(ExactlyOnce).again());
                    clients[1].publish(Line { id: 2, text: "b", ..line(ExactlyOnce) });
                },
                expected: &[$first, $second],
                asks: false,
            });
        }
    };
}

delivery_of_qos_2!(delivery_at_qos_0_of_qos_2_waits, AtMostOnce, "t=a", "t=b");
delivery_of_qos_2!(delivery_at_qos_1_of_qos_2_waits, AtLeastOnce, "t=a q1 #1", "t=b q1 #2");
delivery_of_qos_2!(delivery_at_qos_2_of_qos_2_waits, ExactlyOnce, "t=a q2 #1", "t=b q2 #2");

/// A subscriber at some QoS of the will of a client that is lost.
macro_rules! delivery_of_a_will {
    ($name:ident, $qos:expr, $expected:literal) => {
        #[test]
        fn $name() {
            //= MQTT311-3.1.2-8
            //= MQTT5-3.1.2-8
            withheld(&Case {
                prepare: |world| {
                    let mut subscriber = world.guest("subscriber");
                    world.subscribe(&mut subscriber, "w", $qos);
                    let will = Some(("w", $qos, false));
                    let mut lost = world.call(&Hello { will, ..Hello::guest("lost") });
                    assert_eq!(lost.got(), ["CONNACK"]);
                    vec![subscriber, lost]
                },
                act: |_, clients| {
                    clients[1].reset();
                    clients.truncate(1);
                },
                again: |_, _| {},
                expected: &[$expected],
                asks: false,
            });
        }
    };
}

delivery_of_a_will!(a_will_at_qos_0_waits, AtMostOnce, "w=gone");
delivery_of_a_will!(a_will_at_qos_1_waits, AtLeastOnce, "w=gone q1 #1");
delivery_of_a_will!(a_will_at_qos_2_waits, ExactlyOnce, "w=gone q2 #1");

/// A new subscription to a retained message that is not committed.
macro_rules! a_retained_answer {
    ($name:ident, $qos:expr, $answer:literal) => {
        #[test]
        fn $name() {
            //= MQTT311-3.3.1-6
            //= MQTT5-3.3.1-9
            withheld(&Case {
                prepare: |world| vec![world.member("subscriber"), world.guest("publisher")],
                act: |world, clients| {
                    clients[1].publish(line($qos).retained());
                    world.settle();
                    clients[0].subscribe(1, "t", $qos);
                },
                again: |_, _| {},
                expected: &["SUBACK 1", $answer],
                asks: true,
            });
        }
    };
}

a_retained_answer!(a_retained_answer_at_qos_1_waits, AtLeastOnce, "t=a q1 #1 retain");
a_retained_answer!(a_retained_answer_at_qos_2_waits, ExactlyOnce, "t=a q2 #1 retain");

/// A publish of this QoS while the disk is silent; what the subscriber has got by then, and after.
fn early(setup: Setup, qos: QoS, granted: QoS) -> (Vec<String>, Vec<String>) {
    let mut world = setup.start();
    let mut subscriber = world.guest("subscriber");
    world.subscribe(&mut subscriber, "t", granted);
    let mut publisher = world.guest("publisher");
    world.pass(100);
    world.disk.hold();
    publisher.publish(line(qos));
    world.pass(50);
    assert_eq!(publisher.got(), [""; 0]);
    let before = subscriber.got();
    world.disk.release_all();
    world.pass(50);
    (before, subscriber.got())
}

#[test]
fn a_qos_1_message_goes_to_connected_receivers_before_its_commit() {
    for version in VERSIONS {
        for lanes in [1, 2] {
            let setup = Setup { lanes, ..Setup::new(version) };
            let at_1 = early(setup.clone(), AtLeastOnce, AtLeastOnce);
            assert_eq!(at_1, (vec!["t=a q1 #1".into()], vec![]));
            assert_eq!(early(setup, AtLeastOnce, AtMostOnce), (vec!["t=a".into()], vec![]));
        }
    }
}

#[test]
fn a_qos_1_message_waits_for_its_commit_where_that_is_asked_for() {
    for version in VERSIONS {
        for lanes in [1, 2] {
            let mut setup = Setup { lanes, ..Setup::new(version) };
            setup.options.deliver = DeliverPolicy::Committed;
            let at_1 = early(setup.clone(), AtLeastOnce, AtLeastOnce);
            assert_eq!(at_1, (vec![], vec!["t=a q1 #1".into()]));
            assert_eq!(early(setup, AtLeastOnce, AtMostOnce), (vec![], vec!["t=a".into()]));
        }
    }
}
