//! Messages of shared groups whose member has gone.

use zzq_codec::{AckKind, Connect, Packet};
use zzq_engine::{GroupStrategy, SessionFlags};
use zzq_types::Filter;
use zzq_types::ProtocolVersion::V5;
use zzq_types::QoS::{AtLeastOnce, AtMostOnce, ExactlyOnce};
use zzq_wal::sim_disk::{Op, Survival};

use super::harness::*;
use crate::options::LogPolicy;
use crate::standing::Needed;

const GROUP: &str = "$share/g/t";

/// Two messages that a member was sent or owed, and never took, and who else is in the group.
fn left_behind(setup: Setup, heir: &str) -> (World, Client, Client) {
    let mut world = setup.start();
    let mut goes = world.guest("goes");
    world.subscribe(&mut goes, GROUP, ExactlyOnce);
    let mut publisher = world.guest("publisher");
    world.publish(&mut publisher, Line::new("t", "one", AtLeastOnce, 1));
    world.publish(&mut publisher, Line::new("t", "two", AtLeastOnce, 2));
    let mut heir = world.member(heir);
    world.subscribe(&mut heir, GROUP, AtMostOnce);
    (world, goes, heir)
}

/// Found by the simulator: it came at QoS 1.
#[test]
fn what_a_member_leaves_comes_at_qos_0_to_one_that_asked_for_that() {
    //= MQTT5-3.8.4-8, MQTT5-4.8.2-3
    for version in VERSIONS {
        for (lanes, heir) in [(1, "a"), (2, "a"), (2, "b"), (2, "c"), (2, "d")] {
            let (mut world, goes, mut heir) =
                left_behind(Setup { lanes, ..Setup::new(version) }, heir);
            goes.reset();
            world.pass(100);
            let mut got = heir.got();
            got.sort();
            assert_eq!(got, ["t=one", "t=two"], "{version:?}, {lanes} lanes");
            // It was taken: no start gives it again.
            let mut world = world.kill();
            let mut heir = world.member("later");
            world.subscribe(&mut heir, GROUP, AtMostOnce);
            world.pass(100);
            assert_eq!(heir.got(), [""; 0], "{version:?}, {lanes} lanes");
        }
    }
}

/// Found by the simulator (seed 842): the end of a session was in the log, what gives on what it
/// leaves was not. No start did.
#[test]
fn whatever_a_crash_takes_what_a_member_leaves_comes_to_another() {
    //= MQTT5-4.8.2-5
    for version in VERSIONS {
        for (lanes, heir) in [(1, "a"), (2, "a"), (2, "b"), (2, "c"), (2, "d")] {
            let mut writes = 0;
            while leave_and_crash(Setup { lanes, ..Setup::new(version) }, heir, writes) {
                writes += 1;
            }
            assert!(writes > 2, "{version:?}, {lanes} lanes: {writes} writes end a session");
        }
    }
}

/// A member goes, and the power does once so many writes have come back; false: there are no more.
fn leave_and_crash(setup: Setup, heir: &str, writes: usize) -> bool {
    let (lanes, version) = (setup.lanes, setup.version);
    let mut world = setup.start();
    let mut stays = world.member(heir);
    world.subscribe(&mut stays, GROUP, AtLeastOnce);
    let mut goes = world.guest("goes");
    world.subscribe(&mut goes, GROUP, ExactlyOnce);
    world.pass(100);
    let mut publisher = world.guest("publisher");
    for (id, text) in (1..).zip(["one", "two", "three", "four"]) {
        world.publish(&mut publisher, Line::new("t", text, AtLeastOnce, id));
    }
    assert_eq!(goes.got().len(), 2, "both have some of them");
    world.disk.hold();
    goes.reset();
    world.pass(100);
    for _ in 0..writes {
        let Some(&oldest) = world.disk.in_flight().first() else { return false };
        assert!(world.disk.release(oldest));
        world.pass(100);
    }
    let mut world = world.crash_with(Survival::Nothing);
    let mut stays = world.call(&Hello::member(heir));
    world.pass(100);
    let got = stays.got();
    let mut texts: Vec<_> = got.iter().filter_map(|line| line.split(" q").next()).collect();
    texts.sort_unstable();
    let all = ["CONNACK present", "t=four", "t=one", "t=three", "t=two"];
    assert_eq!(texts, all, "{version:?}, {lanes} lanes, {writes} writes");
    // The next start knows nothing more of who has gone.
    let world = world.kill();
    let ended = (0..lanes).map(|lane| world.shell(lane.into()).state.all_ended().count());
    assert_eq!(ended.sum::<usize>(), 0, "{version:?}, {lanes} lanes, {writes} writes");
    true
}

/// Found by the simulator (seed 1796289241145): a connection resumed a session of the log that was
/// to end with it. From there on the log heard nothing of it, so the next start had it end once
/// more, and others got again what it had answered or left to them.
#[test]
fn what_a_member_leaves_that_was_resumed_for_one_connection_comes_once() {
    //= MQTT5-4.8.2-5
    for (lanes, heir) in [(1, "a"), (2, "a"), (2, "b"), (2, "c"), (2, "d")] {
        let mut world = Setup { lanes, ..Setup::new(V5) }.start();
        let mut goes = world.member("goes");
        world.subscribe(&mut goes, GROUP, AtLeastOnce);
        goes.disconnect();
        world.pass(100);
        let mut publisher = world.guest("publisher");
        for (id, text) in [(1, "one"), (2, "two")] {
            world.publish(&mut publisher, Line::new("t", text, AtLeastOnce, id));
        }
        let hello = Hello::member(heir);
        let mut heir = world.call(&hello);
        assert_eq!(heir.got(), ["CONNACK"]);
        world.subscribe(&mut heir, GROUP, AtLeastOnce);
        let mut goes = world.open();
        goes.send(&Packet::Connect(Connect { clean_start: false, ..Connect::new(V5, "goes") }));
        world.pass(100);
        assert_eq!(goes.got(), ["CONNACK present", "t=one q1 #1", "t=two q1 #2"]);
        goes.ack(AckKind::PubAck, 1);
        world.pass(100);
        goes.reset();
        world.pass(100);
        assert_eq!(heir.got(), ["t=two q1 #1"], "{lanes} lanes");
        heir.ack(AckKind::PubAck, 1);
        world.pass(100);
        let mut world = world.kill();
        let mut heir = world.call(&hello);
        world.pass(100);
        assert_eq!(heir.got(), ["CONNACK present"], "{lanes} lanes");
    }
}

/// Found by the simulator (seed 955): a message was picked for a member of which the log had
/// nothing yet, and a loss of power took it, though another had long been there.
#[test]
fn nobody_is_picked_on_other_lanes_before_the_log_has_it() {
    for version in VERSIONS {
        for heir in ["a", "b", "c", "d"] {
            let mut world = Setup { lanes: 2, ..Setup::new(version) }.start();
            let mut stays = world.member(heir);
            world.subscribe(&mut stays, GROUP, AtLeastOnce);
            let known = |world: &World| {
                let filter = Filter::new(GROUP).unwrap();
                let mut of = [0, 1].map(|lane| world.shell(lane).index.members(filter).count());
                of.sort_unstable();
                of
            };
            assert_eq!(known(&world), [1, 1]);
            let mut comes = world.guest("comes");
            world.disk.hold();
            comes.subscribe(1, GROUP, AtLeastOnce);
            world.settle();
            assert_eq!(known(&world), [1, 2], "its own lane knows it: {version:?}, {heir}");
            // It goes again, and its lane says nothing that would come before.
            comes.unsubscribe(2, GROUP);
            world.settle();
            assert_eq!(known(&world), [1, 1]);
            world.disk.release_all();
            world.pass(100);
            assert_eq!((comes.got().len(), known(&world)), (2, [1, 1]), "{version:?}, {heir}");
            comes.subscribe(3, GROUP, AtLeastOnce);
            world.pass(100);
            assert_eq!((comes.got().len(), known(&world)), (1, [2, 2]), "{version:?}, {heir}");
        }
    }
}

/// Who goes, or comes to an end, before other lanes have heard of it, is known to them as it is.
#[test]
fn all_lanes_know_what_became_of_a_member_meanwhile() {
    for (version, name) in VERSIONS.into_iter().flat_map(|v| ["a", "b", "c", "d"].map(|n| (v, n))) {
        for ends in [false, true] {
            let mut world = Setup { lanes: 2, ..Setup::new(version) }.start();
            let mut stays = world.member("stays");
            world.subscribe(&mut stays, GROUP, AtLeastOnce);
            let mut joins = if ends { world.guest(name) } else { world.member(name) };
            world.disk.hold();
            joins.subscribe(1, GROUP, AtLeastOnce);
            world.settle();
            joins.reset();
            world.settle();
            world.disk.release_all();
            world.pass(100);
            let known = [0, 1].map(|lane| {
                let members = world.shell(lane).index.members(Filter::new(GROUP).unwrap());
                let mut members: Vec<_> =
                    members.map(|(session, _, flags)| (session, flags)).collect();
                members.sort_unstable_by_key(|(session, _)| *session);
                members
            });
            assert_eq!(known[0], known[1], "{version:?}, {name}, ends: {ends}");
            let connected =
                known[0].iter().filter(|(_, flags)| flags.contains(SessionFlags::CONNECTED));
            assert_eq!((known[0].len(), connected.count()), (2 - usize::from(ends), 1));
        }
    }
}

/// What was said of a member's debts before other lanes heard of the member is said again.
#[test]
fn all_lanes_know_how_much_a_member_is_owed_that_has_just_come() {
    for busy in ["a", "b", "c", "d"] {
        let mut setup = Setup { lanes: 2, ..Setup::new(V5) };
        setup.options.shared.others = GroupStrategy::LeastInflight;
        let mut world = setup.start();
        let mut publisher = world.guest("publisher");
        let owe = |world: &mut World, publisher: &mut Client, name: &str, count: u16| {
            let mut member = world.member(name);
            world.subscribe(&mut member, name, AtLeastOnce);
            for nth in 1..=count {
                world.publish(publisher, Line::new(name, "owed", AtLeastOnce, nth));
            }
            // Other lanes know it no more.
            member.unsubscribe(1, name);
            world.pass(100);
            assert_eq!(member.got().len(), usize::from(count) + 1);
            member
        };
        let mut idle = owe(&mut world, &mut publisher, "idle", 1);
        idle.subscribe(1, GROUP, AtLeastOnce);
        world.pass(100);
        let mut busy = owe(&mut world, &mut publisher, busy, 3);
        world.disk.hold();
        busy.subscribe(1, GROUP, AtLeastOnce);
        world.pass(100);
        world.disk.release_all();
        world.pass(100);
        assert_eq!((idle.got().len(), busy.got().len()), (1, 1), "SUBACK");
        world.publish(&mut publisher, Line::new("t", "one", AtLeastOnce, 9));
        assert_eq!((idle.got().len(), busy.got().len()), (1, 0));
    }
}

/// Whatever the disk does, a client keeps no more than its share of memory by what it asks for.
#[test]
fn who_joins_while_much_waits_to_be_told_waits() {
    let mut world = Setup { lanes: 2, ..Setup::new(V5) }.start();
    let mut joins = world.member("joins");
    world.disk.hold();
    let group = |nth: u16| format!("$share/{nth}/{}", "x".repeat(1000));
    let asked = 1..200;
    for nth in asked.clone() {
        joins.subscribe(nth, &group(nth), AtLeastOnce);
    }
    world.settle();
    let untold = |world: &World| -> usize {
        [0, 1].map(|lane| world.shell(lane).changes.untold_bytes()).iter().sum()
    };
    let bytes = untold(&world);
    assert!((64 << 10..70_000).contains(&bytes), "{bytes} bytes are untold");
    world.disk.release_all();
    world.pass(100);
    assert_eq!((joins.got().len(), untold(&world)), (asked.len(), 0));
}

/// Nobody gets at QoS 0 what a start may give on again.
#[test]
fn what_goes_on_at_qos_0_waits_for_its_record() {
    for (lanes, heir) in [(1, "a"), (2, "a"), (2, "b"), (2, "c"), (2, "d")] {
        let setup = Setup { lanes, ..Setup::new(VERSIONS[1]) };
        let (mut world, goes, mut heir) = left_behind(setup, heir);
        world.disk.hold();
        goes.reset();
        world.pass(100);
        assert_eq!(heir.got(), [""; 0], "{lanes} lanes");
        world.disk.release_all();
        world.pass(100);
        assert_eq!(heir.got().len(), 2, "{lanes} lanes");
    }
}

/// An image that was made meanwhile named neither the old owner nor the new one, and what it was
/// made of was let go.
#[test]
fn what_is_on_its_way_to_another_member_is_needed() {
    for qos in [AtMostOnce, AtLeastOnce, ExactlyOnce] {
        let mut world = Setup::new(V5).start();
        let mut goes = world.guest("goes");
        world.subscribe(&mut goes, GROUP, ExactlyOnce);
        let mut publisher = world.guest("publisher");
        for (id, text) in [(1, "one"), (2, "two")] {
            world.publish(&mut publisher, Line::new("t", text, AtLeastOnce, id));
        }
        let mut heir = world.member("heir");
        world.subscribe(&mut heir, GROUP, qos);
        let waiting = needed(&mut world);
        assert_eq!(waiting.len(), 2, "{qos:?}");
        world.disk.hold();
        goes.reset();
        world.pass(100);
        assert_eq!(needed(&mut world), waiting, "{qos:?}");
        world.disk.release_all();
        world.pass(100);
        assert_eq!(heir.got().len(), 2, "{qos:?}");
        assert_eq!(needed(&mut world), [], "{qos:?}: it is in the log, or has gone");
    }
}

/// What a lane answers to whoever makes an image.
fn needed(world: &mut World) -> Vec<Needed> {
    let question = world.shell(0).shared.standing.ask();
    world.turn_of("heir");
    let settled = world.shell(0).shared.standing.take(question);
    settled.expect("an answer").needed
}

/// A lane that waited for them kept the log from being let go for ever.
#[test]
fn messages_that_are_asked_for_by_who_is_gone_are_waited_for_by_nobody() {
    let mut world = Setup::new(VERSIONS[1]).start();
    let mut publisher = world.guest("publisher");
    world.publish(&mut publisher, Line::new("kept", "x", AtLeastOnce, 1).retained());
    let mut world = world.kill();
    let mut reader = world.guest("reader");
    world.disk.fail(Op::Read, 1, FAIL);
    reader.subscribe(9, "kept", AtMostOnce);
    world.settle();
    assert_eq!(reader.got(), ["SUBACK 9", "DISCONNECT", "closed"]);
    let mut publisher = world.guest("publisher");
    world.publish(&mut publisher, Line::new("t", "x", AtLeastOnce, 1));
    world.pass(100);
    let standing = &world.shell(0).shared.standing;
    let question = standing.ask();
    world.turn_of("publisher");
    let shell = world.shell(0);
    let settled = shell.shared.standing.take(question);
    assert_eq!(settled, Some(shell.followed.into()));
}

/// Found by the simulator: what came to an ended session from another lane was kept by nobody, and
/// the next member's lane panicked.
#[test]
fn in_memory_what_comes_to_a_member_that_has_just_gone_goes_to_the_next() {
    //= MQTT5-4.8.2-5
    for goes in ["a", "b", "c", "d"] {
        let setup = Setup { lanes: 2, in_memory: true, ..Setup::new(VERSIONS[1]) };
        let mut world = setup.start();
        let mut heir = world.member("heir");
        let mut member = world.guest(goes);
        world.subscribe(&mut heir, GROUP, AtLeastOnce);
        world.subscribe(&mut member, GROUP, AtLeastOnce);
        let mut publisher = world.guest("publisher");
        for id in 1..=4 {
            publisher.publish(Line::new("t", &id.to_string(), AtLeastOnce, id));
        }
        world.turn_of("publisher");
        member.reset();
        world.pass(100);
        assert_eq!(texts(&mut heir), ["t=1", "t=2", "t=3", "t=4"], "{goes}");
    }
}

/// Found by the simulator: with `--log needed` the queue of a member that outlives a crash named a
/// message that no log had, and the broker panicked when that member came back.
#[test]
fn what_no_log_has_gets_a_record_when_it_goes_to_a_member_that_stays() {
    for version in VERSIONS {
        for (lanes, heir) in [(1, "a"), (2, "a"), (2, "b"), (2, "c"), (2, "d")] {
            let mut setup = Setup { lanes, ..Setup::new(version) };
            setup.options.log = LogPolicy::Needed;
            let mut world = setup.start();
            let mut goes = world.guest("goes");
            world.subscribe(&mut goes, GROUP, AtLeastOnce);
            let mut publisher = world.guest("publisher");
            for (id, text) in [(1, "one"), (2, "two")] {
                world.publish(&mut publisher, Line::new("t", text, AtLeastOnce, id));
            }
            let mut member = world.member(heir);
            world.subscribe(&mut member, GROUP, AtLeastOnce);
            goes.reset();
            world.pass(100);
            assert_eq!(texts(&mut member), ["t=one", "t=two"], "{version:?}, {lanes} lanes");
            let mut world = world.kill();
            let mut member = world.call(&Hello::member(heir));
            let got = texts(&mut member);
            assert_eq!(got, ["CONNACK", "t=one", "t=two"], "{version:?}, {lanes} lanes");
        }
    }
}

/// The first word of each line that has come, sorted.
fn texts(client: &mut Client) -> Vec<String> {
    let got = client.got();
    let words = got.iter().filter_map(|line| line.split(' ').next());
    let mut words: Vec<_> = words.map(str::to_owned).collect();
    words.sort();
    words
}
