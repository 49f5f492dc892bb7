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
fn end(version: ProtocolVersion) -> &'static [&'static str] {
    if version.is_v5() { &["DISCONNECT", "closed"] } else { &["closed"] }
}

#[track_caller]
fn silent(clients: &mut [Client], what: &str) {
    for client in clients {
        assert_eq!(client.got(), [""; 0], "{what}");
    }
}

/// All writes in flight fail, in both their places if it is called twice.
fn fail_all(world: &mut World) {
    let tokens = world.disk.in_flight();
    assert!(!tokens.is_empty(), "nothing that could fail");
    for token in tokens {
        world.disk.release_with(token, FAIL);
    }
    world.pass(50);
}

/// A message of the first client, with its identifier 1.
fn line(qos: QoS) -> Line<'static> {
    Line::new("t", "a", qos, 1)
}

#[test]
fn puback_waits_for_its_message() {
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

#[test]
fn a_client_that_goes_before_its_connack_leaves_nothing_behind() {
    for version in VERSIONS {
        for (hello, stays) in [(Hello::guest("c"), 1), (Hello::member("c"), 2)] {
            let mut world = Setup::new(version).start();
            // Discarding it is a record, even by a session that ends with its connection.
            world.member("c").disconnect();
            world.pass(100);
            world.disk.hold();
            let mut filler = world.guest("filler");
            for id in 1..=2 {
                filler.publish(Line::new("filler", "x", AtLeastOnce, id));
                world.settle();
            }
            // Two groups are in flight, so the CONNECT is handed over and has no place yet.
            let mut client = world.call(&hello);
            client.reset();
            world.settle();
            world.disk.release_all();
            world.pass(100);
            assert_eq!(client.got(), ["closed"]);
            let state = &world.shell(0).state;
            assert_eq!(state.session_count(), stays, "{version:?}");
            let is_up =
                |name: &str| state.session_of(name).is_some_and(|s| state.is_up(s.number()));
            assert!(is_up("filler") && !is_up("c"));
        }
    }
}

#[test]
fn a_second_connect_of_a_client_waits_for_the_first() {
    //= MQTT311-3.1.4-2
    //= MQTT5-3.1.4-3
    for version in VERSIONS {
        let mut world = Setup::new(version).start();
        world.disk.hold();
        let mut first = world.call(&Hello::member("c"));
        let mut second = world.call(&Hello::member("c"));
        world.pass(50);
        assert_eq!((first.got(), second.got()), (vec![], vec![]));
        while world.disk.release_next().is_some() {
            world.settle();
        }
        let got = first.got();
        assert_eq!(got[0], "CONNACK");
        assert_eq!(got[1..], *end(version), "it was taken over");
        assert_eq!(second.got(), ["CONNACK present"]);
    }
}

/// The way of a message that waits in its queue, not that of one at hand.
#[test]
fn a_window_that_opens_lets_nothing_out_before_its_commit() {
    for version in VERSIONS {
        for lanes in [1, 2] {
            for granted in [AtLeastOnce, ExactlyOnce] {
                let mut setup = Setup { lanes, ..Setup::new(version) };
                setup.options.limits.max_inflight = 1;
                let mut world = setup.start();
                let mut subscriber = world.member("subscriber");
                world.subscribe(&mut subscriber, "t", granted);
                let mut publisher = world.guest("publisher");
                world.publish(&mut publisher, line(AtLeastOnce));
                assert_eq!(subscriber.got(), ["t=a q1 #1"]);
                world.disk.hold();
                publisher.publish(Line { id: 2, text: "b", ..line(ExactlyOnce) });
                world.settle();
                subscriber.ack(AckKind::PubAck, 1);
                world.pass(50);
                assert_eq!(subscriber.got(), [""; 0], "{version:?}, {lanes} lanes");
                world.disk.release_all();
                world.settle();
                assert_eq!(subscriber.got(), [format!("t=b q{} #2", granted.bits())]);
            }
        }
    }
}

/// A retained message that is committed comes by a record of its own into the session's queue.
#[test]
fn a_retained_answer_waits_for_its_place_in_the_queue() {
    for version in VERSIONS {
        for lanes in [1, 2] {
            let mut world = Setup { lanes, ..Setup::new(version) }.start();
            let mut publisher = world.guest("publisher");
            world.publish(&mut publisher, line(AtLeastOnce).retained());
            let mut subscriber = world.member("subscriber");
            world.pass(100);
            world.disk.hold();
            subscriber.subscribe(1, "t", AtLeastOnce);
            world.pass(50);
            assert_eq!(subscriber.got(), [""; 0]);
            world.disk.release_next();
            world.pass(50);
            assert_eq!(subscriber.got(), ["SUBACK 1"], "{version:?}, {lanes} lanes");
            world.disk.release_next();
            world.pass(50);
            assert_eq!(subscriber.got(), ["t=a q1 #1 retain"]);
        }
    }
}

#[test]
fn a_connection_that_takes_over_gets_again_what_the_old_one_did_not_acknowledge() {
    //= MQTT311-4.4.0-1
    //= MQTT5-4.4.0-1
    for version in VERSIONS {
        let mut world = Setup::new(version).start();
        let mut old = world.member("c");
        world.subscribe(&mut old, "t", ExactlyOnce);
        let mut publisher = world.guest("publisher");
        for (id, qos) in [(1, AtLeastOnce), (2, ExactlyOnce), (3, ExactlyOnce), (4, AtLeastOnce)] {
            world.publish(&mut publisher, Line { id, ..line(qos) });
        }
        assert_eq!(old.got(), ["t=a q1 #1", "t=a q2 #2", "t=a q2 #3", "t=a q1 #4"]);
        world.pass(100);
        world.disk.hold();
        old.ack(AckKind::PubRec, 2);
        old.ack(AckKind::PubAck, 4);
        world.settle();
        let mut new = world.call(&Hello::member("c"));
        world.pass(50);
        assert_eq!(
            (old.got(), new.got()),
            (end(version).iter().map(|l| (*l).into()).collect(), vec![])
        );
        while world.disk.release_next().is_some() {
            world.settle();
        }
        let wanted = ["CONNACK present", "t=a q1 #1 dup", "PUBREL 2", "t=a q2 #3 dup"];
        assert_eq!(new.got(), wanted);
    }
}

/// Found by the simulator: what waits behind a message that is not in memory is read ahead with it,
/// also what was not committed yet, which nobody can read. The client was cut off for that.
#[test]
fn a_message_is_not_read_back_before_it_is_committed() {
    for version in VERSIONS {
        for lanes in [1, 2] {
            let what = format!("{version:?}, {lanes} lanes");
            let mut world = Setup { lanes, ..Setup::new(version) }.start();
            let mut away = world.member("away");
            world.subscribe(&mut away, "t", AtLeastOnce);
            away.disconnect();
            let mut publisher = world.guest("publisher");
            world.publish(&mut publisher, line(AtLeastOnce));
            world.pass(100);
            world.disk.hold();
            let mut back = world.call(&Hello::member("away"));
            publisher.publish(Line { text: "b", ..line(AtLeastOnce) });
            world.settle();
            assert_eq!(world.disk.in_flight().len(), 2, "{what}");
            world.disk.release_next();
            world.settle();
            assert_eq!(back.got(), ["CONNACK present", "t=a q1 #1"], "{what}");
            world.disk.release_next();
            world.settle();
            assert_eq!(back.got(), ["t=b q1 #2"], "{what}");
        }
    }
}

/// The end of a connection says that DISCONNECT was taken, also if the log had no room for it when
/// it came.
#[test]
fn a_connection_that_leaves_is_closed_behind_a_record_that_had_no_room() {
    const FILTERS: u16 = 600;
    for version in VERSIONS {
        for lanes in [1, 2] {
            let what = format!("{version:?}, {lanes} lanes");
            let mut world = Setup { lanes, ..Setup::new(version) }.start();
            let mut witness = world.member("witness");
            world.subscribe(&mut witness, "w", AtLeastOnce);
            let filter = |n: u16| format!("{n:01000}");
            // Of each lane one that makes all records that are taken when there is little room.
            let mut busy = ["a", "b", "c", "d"].map(|id| world.member(id));
            for n in 1..=FILTERS {
                for client in &mut busy {
                    client.subscribe(n, &filter(n), AtLeastOnce);
                }
                world.settle();
            }
            let will = Some(("w", AtLeastOnce, false));
            let mut leaver = world.call(&Hello { will, ..Hello::guest("leaver") });
            assert_eq!(leaver.got(), ["CONNACK"], "{what}");
            world.pass(100);
            world.disk.hold();
            for n in 1..=FILTERS {
                for client in &mut busy {
                    client.unsubscribe(n, &filter(n));
                }
            }
            world.settle();
            leaver.disconnect();
            world.settle();
            while leaver.got() != ["closed"] {
                assert!(world.disk.release_next().is_some(), "{what}: it is never closed");
                world.settle();
            }
            let mut world = world.crash_with(zzq_wal::sim_disk::Survival::Nothing);
            world.pass(1000);
            let mut witness = world.member("witness");
            world.settle();
            assert_eq!(witness.got(), [""; 0], "{what}: its will was taken back");
        }
    }
}
