//! A full disk: what would take space is refused or held before anything is handed over, what gives
//! some back is taken, and all goes on when there is space. Each over a restart, too.

use std::time::Duration;

use zzq_codec::AckKind;
use zzq_types::ProtocolVersion;
use zzq_types::ProtocolVersion::{V5, V311};
use zzq_types::QoS::{AtLeastOnce, AtMostOnce, ExactlyOnce};
use zzq_wal::Space;
use zzq_wal::disk::Disk;

use super::harness::*;
use crate::metrics::{self, Counts};
use crate::options::Retention;
use crate::sys::StoreState;

const MIB: u64 = 1 << 20;
/// Less than an ordinary segment beside the reserve: images, a start and receipts find their space.
const RESERVE: u64 = 5 * 256 * 1024;

fn counts(world: &World) -> Counts {
    metrics::total(&world.shell(0).shared.metrics)
}

fn state(world: &World) -> StoreState {
    world.shell(0).store_state()
}

/// So much of the disk is free from now on.
fn leave(world: &mut World, bytes: u64) {
    let files = world.disk.list().unwrap();
    let taken: u64 = files.iter().map(|(_, size)| size).sum();
    world.disk.set_capacity(taken + bytes);
    world.room();
}

/// A broker with a member that is away and has messages waiting, on a disk that is full.
fn full(version: ProtocolVersion) -> World {
    let mut world = Setup::new(version).start();
    let mut away = world.member("away");
    world.subscribe(&mut away, "t", ExactlyOnce);
    away.disconnect();
    let mut publisher = world.guest("publisher");
    world.publish(&mut publisher, line("1", AtLeastOnce, 1));
    world.publish(&mut publisher, line("2", ExactlyOnce, 2));
    publisher.ack(AckKind::PubRel, 2);
    world.settle();
    publisher.disconnect();
    world.settle();
    leave(&mut world, RESERVE);
    assert_eq!(state(&world), StoreState::Full);
    world
}

fn line(text: &str, qos: zzq_types::QoS, id: u16) -> Line<'_> {
    Line::new("t", text, qos, id)
}

fn space_comes(world: &mut World) {
    leave(world, 1000 * MIB);
    world.pass(200);
    assert_eq!(state(world), StoreState::Writable);
}

#[test]
fn publishes_are_refused_with_a_reason_and_taken_when_there_is_space() {
    let mut world = full(V5);
    let mut publisher = world.guest("publisher");
    let appended = world.appended();
    for retained in [false, true] {
        for (qos, answer) in [(AtLeastOnce, "PUBACK 1 failed"), (ExactlyOnce, "PUBREC 1 failed")] {
            let line = line("x", qos, 1);
            publisher.publish(if retained { line.retained() } else { line });
            world.pass(1000);
            assert_eq!(publisher.got(), [answer], "{retained}");
        }
    }
    assert_eq!(world.appended(), appended, "nothing was handed over");
    let Counts { refused_space, refused_quota, .. } = counts(&world);
    assert_eq!((refused_space, refused_quota), (4, 4));
    space_comes(&mut world);
    publisher.publish(line("3", AtLeastOnce, 1));
    world.settle();
    assert_eq!(publisher.got(), ["PUBACK 1"]);
}

#[test]
fn publishes_that_nothing_refuses_are_held() {
    for version in VERSIONS {
        let mut world = full(version);
        let mut live = world.guest("live");
        world.subscribe(&mut live, "other", AtMostOnce);
        let mut publisher = world.guest("publisher");
        let appended = world.appended();
        let qos = if version == V5 { AtMostOnce } else { AtLeastOnce };
        publisher.publish(Line { retain: true, ..line("3", qos, 1) });
        world.pass(3_600_000);
        assert_eq!(publisher.got(), [""; 0], "{version:?}: not a word that is not true");
        assert_eq!(world.appended(), appended, "{version:?}");
        space_comes(&mut world);
        let taken: &[&str] = if version == V5 { &[] } else { &["PUBACK 1"] };
        assert_eq!(publisher.got(), taken, "{version:?}");
        let mut world = world.kill();
        let mut reader = world.guest("reader");
        reader.subscribe(9, "t", AtLeastOnce);
        world.settle();
        let got = reader.got();
        assert!(got.iter().any(|line| line.starts_with("t=3 ")), "{version:?}: {got:?}");
    }
}

#[test]
fn what_needs_no_log_passes() {
    for version in VERSIONS {
        let mut world = full(version);
        let mut live = world.guest("live");
        world.subscribe(&mut live, "t", AtMostOnce);
        let mut publisher = world.guest("publisher");
        publisher.publish(Line::new("t", "x", AtMostOnce, 0));
        world.settle();
        assert_eq!(live.got(), ["t=x"], "{version:?}");
        assert_eq!(publisher.got(), [""; 0], "{version:?}");
    }
}

#[test]
fn what_waits_is_delivered_acknowledged_and_ended() {
    for version in VERSIONS {
        let mut world = full(version);
        let mut away = world.call(&Hello::member("away"));
        assert_eq!(away.got()[0], "CONNACK present", "{version:?}: it was there before");
        away.ack(AckKind::PubAck, 1);
        away.ack(AckKind::PubRec, 2);
        world.pass(100);
        assert_eq!(away.got(), ["PUBREL 2"], "{version:?}");
        away.ack(AckKind::PubComp, 2);
        world.pass(100);
        assert!(world.owes_nothing("away"), "{version:?}");
        away.disconnect();
        world.pass(100);
        assert_eq!(state(&world), StoreState::Full, "{version:?}");
        let mut world = world.kill();
        assert!(world.owes_nothing("away"), "{version:?}: that is in the log");
        // It ends its session, and that frees what it had.
        let mut away = world.call(&Hello::guest("away"));
        assert_eq!(away.got(), ["CONNACK"], "{version:?}");
    }
}

#[test]
fn sessions_that_cannot_be_kept_are_refused() {
    for version in VERSIONS {
        let mut world = full(version);
        let mut new = world.call(&Hello::member("new"));
        assert_eq!(new.got(), ["CONNACK refused", "closed"], "{version:?}");
        let mut guest = world.call(&Hello::guest("guest"));
        assert_eq!(guest.got(), ["CONNACK"], "{version:?}: it needs no log");
        space_comes(&mut world);
        let mut new = world.call(&Hello::member("new"));
        assert_eq!(new.got(), ["CONNACK"], "{version:?}");
    }
}

#[test]
fn one_that_is_refused_takes_no_connection_over() {
    //= MQTT311-3.1.4-2
    //= MQTT5-3.1.4-3
    for version in VERSIONS {
        let mut world = full(version);
        let mut guest = world.guest("guest");
        let mut again = world.call(&Hello::member("guest"));
        assert_eq!(again.got(), ["CONNACK refused", "closed"], "{version:?}");
        world.subscribe(&mut guest, "live", AtMostOnce);
        let mut again = world.call(&Hello::guest("guest"));
        assert_eq!(again.got(), ["CONNACK"], "{version:?}: nobody refuses this one");
        assert_eq!(guest.got().last().unwrap(), "closed", "{version:?}");
    }
}

#[test]
fn a_retained_message_can_be_taken_away() {
    for version in VERSIONS {
        let mut world = Setup::new(version).start();
        let mut publisher = world.guest("publisher");
        world.publish(&mut publisher, line("kept", AtLeastOnce, 1).retained());
        leave(&mut world, RESERVE);
        assert_eq!(state(&world), StoreState::Full, "{version:?}");
        publisher.publish(line("", AtLeastOnce, 2).retained());
        world.pass(100);
        assert_eq!(publisher.got(), ["PUBACK 2"], "{version:?}");
    }
}

/// Whoever watches hears of each change when it happens, and not when values are renewed.
#[test]
fn each_change_is_told_once_and_at_once() {
    const TOPIC: &str = "$SYS/broker/store/state";
    let mut setup = Setup::new(V5);
    setup.options.sys_interval = Duration::from_hours(24);
    let mut world = setup.start();
    let mut watcher = world.guest("watcher");
    watcher.subscribe(9, TOPIC, AtMostOnce);
    world.settle();
    assert_eq!(watcher.got(), ["SUBACK 9".to_owned(), format!("{TOPIC}=writable retain")]);
    for _ in 0..2 {
        leave(&mut world, RESERVE);
        assert_eq!(watcher.got(), [format!("{TOPIC}=full")]);
        let mut late = world.guest("late");
        late.subscribe(9, TOPIC, AtMostOnce);
        world.pass(10_000);
        assert_eq!(late.got(), ["SUBACK 9".to_owned(), format!("{TOPIC}=full retain")]);
        assert_eq!(watcher.got(), [""; 0]);
        space_comes(&mut world);
        assert_eq!(watcher.got(), [format!("{TOPIC}=writable")]);
    }
}

/// Publishes until the disk is full; how many were taken.
fn fill(world: &mut World, text: &str) -> u16 {
    let mut publisher = world.guest("filler");
    for number in 1..5000 {
        publisher.publish(line(text, AtLeastOnce, number));
        world.pass(1);
        world.room();
        let got = publisher.got();
        if got != [format!("PUBACK {number}")] {
            let refused = [format!("PUBACK {number} failed")];
            assert!(got == refused || world.setup.version == V311 && got.is_empty(), "{got:?}");
            publisher.disconnect();
            publisher.reset();
            world.settle();
            return number - 1;
        }
    }
    panic!("the disk does not become full");
}

/// Takes what waits for a session, with images made for space meanwhile, as their thread does.
fn drain(world: &mut World, name: &str) -> usize {
    let mut client = world.call(&Hello { window: Some(10), ..Hello::member(name) });
    let mut count = 0;
    loop {
        let got = client.got();
        let ids: Vec<u16> = got
            .iter()
            .filter_map(|line| line.rsplit_once('#').and_then(|(_, id)| id.parse().ok()))
            .collect();
        if ids.is_empty() {
            client.disconnect();
            world.settle();
            return count;
        }
        count += ids.len();
        for id in ids {
            client.ack(AckKind::PubAck, id);
        }
        world.pass(20);
        world.room();
        world.pass(20);
    }
}

/// Most of the disk waits in a queue; it is taken, and the disk is filled again, without anybody
/// who frees some by hand.
#[test]
fn a_disk_that_is_full_of_queues_is_drained_and_filled_again() {
    for version in VERSIONS {
        let mut setup = Setup::new(version);
        setup.options.limits.max_queued_bytes = u64::MAX;
        let mut world = setup.start();
        let mut away = world.member("away");
        world.subscribe(&mut away, "t", AtLeastOnce);
        away.disconnect();
        world.settle();
        leave(&mut world, 16 * MIB);
        let text = "x".repeat(20_000);
        let mut first = 0;
        for round in 0..3 {
            let taken = fill(&mut world, &text);
            first = if round == 0 { taken } else { first };
            // Three quarters of the disk: a sixth of it is reserve, the rest segments' ends.
            assert!(usize::from(taken) * text.len() > 10 << 20, "{version:?} {round}: {taken}");
            assert!(taken + taken / 8 > first, "{version:?} {round}: {taken} of {first}");
            world = world.kill();
            world.room();
            assert_eq!(drain(&mut world, "away"), usize::from(taken), "{version:?} {round}");
            for _ in 0..3 {
                world.room();
                world.pass(200);
            }
            assert_ne!(state(&world), StoreState::Full, "{version:?} {round}");
        }
    }
}

#[test]
fn history_goes_before_anybody_is_refused() {
    let mut setup = Setup::new(V5);
    setup.options.retain_log = Retention { bytes: Some(u64::MAX), age: None };
    let mut world = setup.start();
    leave(&mut world, 8 * MIB);
    let text = "x".repeat(20_000);
    let mut publisher = world.guest("publisher");
    for number in 1..2000 {
        publisher.publish(line(&text, AtLeastOnce, number));
        world.pass(1);
        world.room();
        assert_eq!(publisher.got(), [format!("PUBACK {number}")]);
    }
    assert!(world.shell(0).journal.first_whole().get() > 1000);
    assert_eq!(counts(&world).refused_space, 0);
    assert!(world.shell(0).journal.space() <= Space::Low);
}

/// An image that finds no space leaves none of what it has written behind.
#[test]
fn an_image_that_finds_no_space_gives_its_own_back() {
    let mut world = Setup::new(V5).start();
    let mut publisher = world.guest("publisher");
    for number in 1..=300 {
        // What keys have in common is written once.
        let topic = format!("{number}/{}", "level".repeat(200));
        let retained = Line { topic: &topic, ..line("x", AtLeastOnce, number) };
        world.publish(&mut publisher, retained.retained());
    }
    let names = |world: &World| {
        let mut names: Vec<_> = world.disk.list().unwrap();
        names.retain(|(name, _)| !name.starts_with("spare"));
        names.sort();
        names
    };
    let files = world.disk.list().unwrap();
    let taken: u64 = files.iter().map(|(_, size)| size).sum();
    world.disk.set_capacity(taken + 260 * 1024);
    let before = names(&world);
    assert!(world.try_image().is_err());
    assert_eq!(names(&world), before);
    space_comes(&mut world);
    assert!(world.try_image().is_ok());
}
