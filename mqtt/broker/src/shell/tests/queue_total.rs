//! A bound for the memory of all queues: what would go into one is refused or held at it, all goes
//! on when queues have emptied, and sessions that never come back do not stop the others for ever.

use std::time::Duration;

use zzq_types::ProtocolVersion::{self, V5, V311};
use zzq_types::QoS::{AtLeastOnce, AtMostOnce, ExactlyOnce};

use super::harness::*;
use super::held::drain;
use crate::metrics::{self, Counts};

const GRACE_MS: u64 = 10_000;
const LENGTH: usize = 1000;

fn counts(world: &World) -> Counts {
    let mut counts = metrics::total(&world.shell(0).shared.metrics);
    // As it is, and not as it was told.
    counts.queue_memory = lanes(world).map(|lane| world.shell(lane).queue_memory()).sum();
    counts
}

fn lanes(world: &World) -> std::ops::Range<usize> {
    0..usize::from(world.setup.lanes)
}

fn is_reached(world: &World) -> bool {
    world.shell(0).shared.queue_total.as_ref().unwrap().is_reached()
}

/// A broker with a bound that some dozen messages reach.
fn bounded(version: ProtocolVersion, lanes: u16, in_memory: bool) -> World {
    let mut setup = Setup { lanes, in_memory, ..Setup::new(version) };
    setup.options.limits.max_queued_bytes_total = if in_memory { 64 << 10 } else { 1024 };
    setup.options.limits.queue_grace = Duration::from_millis(GRACE_MS);
    setup.start()
}

fn each_world(versions: &[ProtocolVersion], test: impl Fn(World, &str)) {
    for &version in versions {
        for lanes in [1, 2, 3] {
            for in_memory in [false, true] {
                let what = format!("{version:?}, {lanes} lanes, in memory: {in_memory}");
                test(bounded(version, lanes, in_memory), &what);
            }
        }
    }
}

/// A client of this lane.
pub(super) fn name_on(world: &World, lane: usize) -> String {
    let mut names = (0..).map(|n| format!("client-{n}"));
    names.find(|name| world.shell(0).home(name).index() == lane).unwrap()
}

/// A session on this lane, without a connection, that gets what is published to its own name.
fn away(world: &mut World, lane: usize) -> String {
    let name = name_on(world, lane);
    let mut member = world.member(&name);
    world.subscribe(&mut member, &name, ExactlyOnce);
    member.disconnect();
    world.settle();
    name
}

/// Publishes at QoS 1 until one is not taken, or so many are; returns how many.
fn fill(world: &mut World, topic: &str, most: u16) -> u16 {
    let mut publisher = world.guest("filler");
    let mut taken = 0;
    for id in 1..=most {
        publisher.publish(Line::new(topic, &long(usize::from(id), LENGTH), AtLeastOnce, id));
        world.pass(20);
        if publisher.got() != [format!("PUBACK {id}")] {
            break;
        }
        taken = id;
    }
    publisher.disconnect();
    world.settle();
    taken
}

#[test]
fn what_would_go_into_a_queue_is_refused_at_the_bound_and_taken_below() {
    each_world(&[V5], |mut world, what| {
        let last = lanes(&world).end - 1;
        let name = away(&mut world, last);
        let taken = fill(&mut world, &name, 1000);
        assert!((40..70).contains(&taken), "{what}: {taken}");
        let most = world.setup.options.limits.max_queued_bytes_total;
        let memory = counts(&world).queue_memory;
        assert!((most..most + 2 * LENGTH as u64).contains(&memory), "{what}: {memory}");
        let mut publisher = world.guest("publisher");
        publisher.publish(Line::new(&name, "x", ExactlyOnce, 1));
        publisher.publish(Line::new(&name, "x", AtMostOnce, 0));
        publisher.publish(Line::new("nobody", "x", AtLeastOnce, 2));
        publisher.publish(Line::new("kept", "x", AtLeastOnce, 3).retained());
        world.pass(20);
        let got = publisher.got();
        let wanted = ["PUBREC 1 failed", "PUBACK 2", "PUBACK 3"];
        assert!(wanted.iter().all(|line| got.contains(&(*line).to_owned())), "{what}: {got:?}");
        let Counts { refused_total, refused_quota, refused_space, .. } = counts(&world);
        assert_eq!((refused_total, refused_quota, refused_space), (2, 2, 0), "{what}");
        let mut member = world.call(&Hello::member(&name));
        let got = drain(&mut world, &mut [&mut member]).remove(0);
        let messages = got.iter().filter(|line| line.starts_with(&name)).count();
        assert_eq!(messages, usize::from(taken), "{what}");
        assert_eq!((counts(&world).queue_memory, is_reached(&world)), (0, false), "{what}");
        publisher.publish(Line::new(&name, "x", AtLeastOnce, 4));
        world.pass(20);
        assert_eq!(publisher.got(), ["PUBACK 4"], "{what}");
    });
}

#[test]
fn who_cannot_be_told_is_held_until_another_lane_has_sent_what_waits() {
    each_world(&[V311], |mut world, what| {
        let last = lanes(&world).end - 1;
        let name = away(&mut world, last);
        let taken = fill(&mut world, &name, 1000);
        let mut names = (0..).map(|n| format!("publisher-{n}"));
        let first = names.find(|name| world.shell(0).home(name).0 == 0).unwrap();
        let mut publisher = world.guest(&first);
        publisher.publish(Line::new(&name, "held", AtLeastOnce, 1));
        publisher.publish(Line::new(&name, "held too", ExactlyOnce, 2));
        world.pass(GRACE_MS / 2);
        assert_eq!(publisher.got(), [""; 0], "{what}: not a word that is not true");
        let mut member = world.call(&Hello::member(&name));
        let got = drain(&mut world, &mut [&mut member, &mut publisher]);
        let messages = got[0].iter().filter(|line| line.starts_with(&name)).count();
        assert_eq!(messages, usize::from(taken) + 2, "{what}");
        assert_eq!(got[1], ["PUBACK 1", "PUBREC 2", "PUBCOMP 2"], "{what}");
        assert_eq!(counts(&world).refused_total, 0, "{what}");
    });
}

/// All memory is what it owes answers for itself.
#[test]
fn a_client_that_is_held_for_its_own_backlog_goes_on() {
    each_world(&[V311], |mut world, what| {
        let name = away(&mut world, 0);
        fill(&mut world, &name, 1000);
        let mut client = world.call(&Hello::member(&name));
        client.publish(Line::new(&name, "own", AtLeastOnce, 7));
        let got = drain(&mut world, &mut [&mut client]).remove(0);
        assert!(got.contains(&"PUBACK 7".to_owned()), "{what}: {got:?}");
    });
}

#[test]
fn a_bound_of_nothing_takes_one_message_at_a_time() {
    for in_memory in [false, true] {
        for lanes in [1, 2] {
            let mut setup = Setup { lanes, in_memory, ..Setup::new(V5) };
            setup.options.limits.max_queued_bytes_total = 1;
            let mut world = setup.start();
            let name = away(&mut world, usize::from(lanes) - 1);
            for _ in 0..3 {
                assert_eq!(fill(&mut world, &name, 5), 1);
                let mut member = world.call(&Hello::member(&name));
                drain(&mut world, &mut [&mut member]);
                member.disconnect();
                world.pass(20);
            }
        }
    }
}

/// Those that are away, and hold the most, one after the other; nobody who is connected.
#[test]
fn sessions_that_do_not_come_back_end_until_there_is_room() {
    each_world(&[V5, V311], |mut world, what| {
        let last = lanes(&world).end - 1;
        let (small, large) = (away(&mut world, last), format!("{last}-large"));
        let mut member = world.member(&large);
        world.subscribe(&mut member, &large, ExactlyOnce);
        member.disconnect();
        let mut there = world.member("there");
        world.subscribe(&mut there, "there", AtLeastOnce);
        world.settle();
        assert_eq!(fill(&mut world, "there", 20), 20, "{what}");
        assert_eq!(fill(&mut world, &small, 5), 5, "{what}");
        assert!(fill(&mut world, &large, 1000) > 5, "{what}");
        world.pass(GRACE_MS - 1000);
        assert_eq!(counts(&world).ended_full, 0, "{what}");
        world.pass(2000);
        assert_eq!(counts(&world).ended_full, 1, "{what}");
        let is_there = |world: &World, name: &str| {
            lanes(world).any(|lane| world.shell(lane).state.session_of(name).is_some())
        };
        assert!(is_there(&world, &small) && !is_there(&world, &large), "{what}");
        assert!(!is_reached(&world), "{what}");
        assert_eq!(fill(&mut world, &small, 1), 1, "{what}");
        // Of what is left one after the other, down to who is there and does not answer.
        assert!(fill(&mut world, "there", 1000) > 0, "{what}");
        world.pass(2 * GRACE_MS);
        assert!(!is_there(&world, &small) && is_there(&world, "there"), "{what}");
        assert_eq!(counts(&world).ended_full, 2, "{what}");
    });
}

#[test]
fn a_start_with_more_than_the_bound_refuses_until_queues_have_emptied() {
    for lanes in [1, 2] {
        let mut world = bounded(V5, lanes, false);
        let name = away(&mut world, 0);
        let taken = fill(&mut world, &name, 1000);
        world.setup.options.limits.max_queued_bytes_total = 100;
        let mut world = world.kill();
        assert!(is_reached(&world));
        assert_eq!(fill(&mut world, &name, 1000), 0);
        let mut member = world.call(&Hello::member(&name));
        let got = drain(&mut world, &mut [&mut member]).remove(0);
        let messages = got.iter().filter(|line| line.starts_with(&name)).count();
        assert_eq!(messages, usize::from(taken));
        member.disconnect();
        world.pass(20);
        assert!(fill(&mut world, &name, 1000) > 1);
    }
}

/// They have a bound of their own.
#[test]
fn what_is_retained_is_not_counted() {
    for lanes in [1, 2, 3] {
        let mut world = bounded(V5, lanes, true);
        let mut reader = world.member("reader");
        world.subscribe(&mut reader, "kept/#", ExactlyOnce);
        let mut publisher = world.guest("publisher");
        for id in 1..=200 {
            let (topic, text) = (format!("kept/{id}"), long(usize::from(id), LENGTH));
            publisher.publish(Line::new(&topic, &text, AtLeastOnce, id).retained());
            drain(&mut world, &mut [&mut reader]);
            assert_eq!(publisher.got(), [format!("PUBACK {id}")]);
        }
        assert!(counts(&world).retained_bytes > 200_000);
        assert_eq!(counts(&world).queue_memory, 0);
    }
}
