//! What one client publishes to one topic at one QoS comes in its order, whichever way it takes.

use zzq_types::QoS::{AtLeastOnce, AtMostOnce};
use zzq_types::{ProtocolVersion, QoS};

use super::harness::*;
use crate::options::{DeliverPolicy, LogPolicy};

fn line(text: &str) -> Line<'_> {
    Line::new("t", text, AtMostOnce, 0)
}

/// Every way that messages take: without lanes to cross and with them, early and late.
fn each_way(test: impl Fn(World, &str)) {
    for version in VERSIONS {
        for lanes in [1, 2, 3] {
            for log in [LogPolicy::All, LogPolicy::Everything, LogPolicy::Needed] {
                for deliver in [DeliverPolicy::Early, DeliverPolicy::Committed] {
                    let mut setup = Setup { lanes, ..Setup::new(version) };
                    setup.options.log = log;
                    setup.options.deliver = deliver;
                    test(setup.start(), &format!("{version:?}, {lanes}, {log:?}, {deliver:?}"));
                }
            }
        }
    }
}

/// Subscribers on all lanes.
fn readers(world: &mut World, filter: &str, qos: QoS) -> Vec<Client> {
    let mut readers: Vec<Client> = (0..6).map(|n| world.guest(&format!("reader{n}"))).collect();
    for reader in &mut readers {
        world.subscribe(reader, filter, qos);
    }
    readers
}

#[test]
fn a_retained_message_keeps_its_place_among_others_at_qos_0() {
    //= MQTT311-4.6.0-6
    //= MQTT5-4.6.0-6
    each_way(|mut world, what| {
        let mut readers = readers(&mut world, "t", AtMostOnce);
        let mut publisher = world.guest("publisher");
        let sent = [line("1"), line("2").retained(), line("3"), line("4").retained()];
        publisher.gather();
        for line in sent {
            publisher.publish(line);
        }
        publisher.flush();
        world.settle();
        // One that is retained, and one that follows in a turn of its own.
        publisher.publish(line("5").retained());
        world.settle();
        publisher.publish(line("6"));
        world.pass(100);
        for reader in &mut readers {
            assert_eq!(reader.got(), ["t=1", "t=2", "t=3", "t=4", "t=5", "t=6"], "{what}");
        }
    });
}

#[test]
fn at_qos_0_nobody_waits_for_the_disk_because_a_message_is_retained() {
    for lanes in [1, 2] {
        let mut world = Setup { lanes, ..Setup::new(ProtocolVersion::V5) }.start();
        let mut readers = readers(&mut world, "#", AtMostOnce);
        let mut publisher = world.guest("publisher");
        world.pass(100);
        world.disk.hold();
        for n in 0..100 {
            publisher.publish(line(&n.to_string()).retained());
            world.settle();
            for reader in &mut readers {
                assert_eq!(reader.got(), [format!("t={n}")]);
            }
        }
    }
}

/// The client of a new subscription has one that matches as well, or has not.
fn new_subscription(world: &mut World, has_another: bool, what: &str) {
    let mut reader = world.guest("reader");
    let live: &[&str] = if has_another { &["t=live"] } else { &[] };
    if has_another {
        world.subscribe(&mut reader, "#", AtMostOnce);
    }
    let mut publisher = world.guest("publisher");
    publisher.publish(line("live").retained());
    world.settle();
    assert_eq!(reader.got(), live, "{what}");
    // What came before SUBSCRIBE comes again, though its record may not be there yet.
    reader.subscribe(1, "t", AtMostOnce);
    world.pass(100);
    assert_eq!(reader.got(), ["SUBACK 1", "t=live retain"], "{what}");
}

#[test]
fn a_new_subscription_gets_what_was_retained_a_moment_ago() {
    //= MQTT311-3.3.1-6
    //= MQTT5-3.3.1-9
    for has_another in [false, true] {
        each_way(|mut world, what| {
            // There a message is live when its record is applied, so that no moment is between.
            if world.setup.options.log != LogPolicy::Everything {
                new_subscription(&mut world, has_another, what);
            }
        });
    }
}

#[test]
fn what_comes_live_while_a_subscription_is_made_is_not_sent_again() {
    //= MQTT5-3.3.1-9
    each_way(|mut world, what| {
        let mut publisher = world.guest("publisher");
        publisher.publish(line("old").retained());
        world.pass(100);
        let mut readers: Vec<Client> = (0..6).map(|n| world.guest(&format!("new{n}"))).collect();
        // With the disk held the lanes take the subscriptions, whose answers are still out.
        world.disk.hold();
        let mut holder = world.guest("holder");
        holder.publish(Line::new("other", "x", AtLeastOnce, 1));
        world.settle();
        for reader in &mut readers {
            reader.subscribe(1, "t", AtMostOnce);
        }
        world.settle();
        publisher.publish(line("new").retained());
        world.settle();
        world.disk.release_all();
        world.pass(100);
        for reader in &mut readers {
            let got = reader.got();
            let of = |text: &str| got.iter().filter(|line| line.contains(text)).count();
            let place = |text: &str| got.iter().position(|line| line.contains(text));
            assert_eq!((of("SUBACK"), of("t=new")), (1, 1), "{what}: {got:?}");
            assert!(of("t=old") == 0 || place("t=old") < place("t=new"), "{what}: {got:?}");
        }
    });
}

/// Found by the simulator: a retained message was looked for, for long, while its subscription
/// went.
#[test]
fn nothing_retained_comes_behind_unsuback() {
    //= MQTT311-3.10.4-2
    //= MQTT5-3.10.4-2
    each_way(|mut world, what| {
        let mut publisher = world.guest("publisher");
        for n in 0..400 {
            world
                .publish(&mut publisher, Line { topic: &format!("r/{n}"), ..line("a") }.retained());
        }
        let mut reader = world.guest("reader");
        reader.gather();
        reader.subscribe(1, "r/#", AtMostOnce);
        reader.unsubscribe(2, "r/#");
        reader.flush();
        world.pass(100);
        let got = reader.got();
        let end = got.iter().position(|line| line.starts_with("UNSUBACK"));
        assert_eq!(end.map(|at| at + 1), Some(got.len()), "{what}: {got:?}");
        assert!(got.iter().any(|line| line.starts_with("SUBACK")), "{what}: {got:?}");
        // It would have come.
        reader.subscribe(3, "r/#", AtMostOnce);
        world.pass(100);
        assert!(reader.got().iter().any(|line| line.ends_with("retain")), "{what}");
    });
}
