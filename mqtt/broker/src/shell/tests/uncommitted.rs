//! Clients that come, go and take messages while a record is not committed.

use zzq_codec::AckKind;
use zzq_types::QoS::{AtLeastOnce, ExactlyOnce};

use super::harness::*;
use super::withheld::{end, line};

#[test]
fn a_client_that_goes_before_its_connack_leaves_nothing_behind() {
    for version in VERSIONS {
        for (hello, stays) in [(Hello::guest("c"), 1), (Hello::member("c"), 2)] {
            let mut world = Setup::new(version).start();
            // Discarding it is a record, even by a session that ends with its connection.
            world.member("c").disconnect();
            world.pass(100);
            let mut filler = world.guest("filler");
            world.fill_log(&mut filler);
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

/// Its record had no place yet, so State did not know the session that the next one ends.
#[test]
fn a_session_ends_though_its_connect_was_under_way_when_its_connection_broke() {
    //= MQTT311-3.1.2-6
    //= MQTT5-3.1.2-4
    for version in VERSIONS {
        let mut world = Setup::new(version).start();
        let mut filler = world.guest("filler");
        world.fill_log(&mut filler);
        let broken = world.call(&Hello::member("c"));
        broken.reset();
        world.settle();
        let mut clean = world.call(&Hello::guest("c"));
        world.pass(50);
        assert_eq!(clean.got(), [""; 0], "{version:?}: it waits for what it ends");
        while world.disk.release_next().is_some() {
            world.pass(50);
        }
        assert_eq!(clean.got(), ["CONNACK"], "{version:?}");
        assert_eq!(world.shell(0).state.session_count(), 2, "{version:?}");
        clean.reset();
        world.settle();
        let mut next = world.call(&Hello::member("c"));
        world.pass(50);
        while world.disk.release_next().is_some() {
            world.pass(50);
        }
        assert_eq!(next.got(), ["CONNACK"], "{version:?}");
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
