//! Images are made beside everything else, and the power may go at any step of that.

use zzq_codec::AckKind;
use zzq_types::ProtocolVersion;
use zzq_types::QoS::{AtLeastOnce, ExactlyOnce};
use zzq_wal::disk::Disk;
use zzq_wal::sim_disk::Survival;

use super::harness::*;

/// Whatever it costs to make one, nobody waits for it: neither lanes nor the log.
#[test]
fn clients_are_served_while_an_image_is_being_made() {
    //= W04
    for version in VERSIONS {
        for lanes in [1, 2] {
            let mut world = Setup { lanes, ..Setup::new(version) }.start();
            let mut away = world.member("away");
            world.subscribe(&mut away, "t", ExactlyOnce);
            away.disconnect();
            let (mut publisher, mut receiver) = (world.guest("publisher"), world.guest("receiver"));
            world.subscribe(&mut receiver, "live", AtLeastOnce);
            for id in 1..=200 {
                world.publish(&mut publisher, Line::new("t", "waits", AtLeastOnce, id));
            }
            let mut served = 0;
            world.image_amid(&mut |settle| {
                publisher.publish(Line::new("live", "now", AtLeastOnce, 1));
                settle();
                assert_eq!(publisher.got(), ["PUBACK 1"], "piece {served}");
                served += 1;
                let id = u16::try_from(served).unwrap();
                assert_eq!(receiver.got(), [format!("live=now q1 #{id}")]);
                receiver.ack(AckKind::PubAck, id);
            });
            assert!(served > 3, "{served} pieces are no image");
        }
    }
}

/// What waits for a session that is in no log is named by no image: the lanes name it, also where
/// an image takes steps, each of which lets the log go behind the one before.
#[test]
fn what_waits_for_a_guest_outlives_its_segment() {
    for (lanes, step) in [(1, u64::MAX), (2, u64::MAX), (1, 25), (2, 25)] {
        let mut setup = Setup { lanes, ..Setup::new(ProtocolVersion::V5) };
        setup.options.limits.max_cached_bytes_total = 0;
        let mut world = setup.start();
        world.step_images(step);
        let mut slow = world.call(&Hello { window: Some(1), ..Hello::guest("slow") });
        assert_eq!(slow.got(), ["CONNACK"]);
        world.subscribe(&mut slow, "t", AtLeastOnce);
        let mut publisher = world.guest("publisher");
        let filler = "x".repeat(20_000);
        for round in 1..=4 {
            world.publish(&mut publisher, Line::new("t", &round.to_string(), AtLeastOnce, 1));
            for id in 1..=60 {
                world.publish(&mut publisher, Line::new("nobody", &filler, AtLeastOnce, id));
            }
            world.image();
        }
        world.pass(100);
        let first = world.log().first_whole().get();
        assert!(first > 100, "{lanes} lanes, {step}: the log begins with {first}");
        for round in 1..=4 {
            world.pass(100);
            assert_eq!(slow.got(), [format!("t={round} q1 #{round}")], "{lanes} lanes, {step}");
            slow.ack(AckKind::PubAck, round);
        }
    }
}

/// Whoever reads a queue back goes on where it was. What lies between was let go meanwhile, more
/// than one segment of it: a client was cut off for messages that were there.
#[test]
fn who_reads_on_passes_over_what_was_let_go() {
    for lanes in [1, 2] {
        let mut setup = Setup { lanes, ..Setup::new(ProtocolVersion::V5) };
        setup.options.limits.max_cached_bytes_total = 0;
        let mut world = setup.start();
        let mut slow = world.call(&Hello { window: Some(1), ..Hello::guest("slow") });
        assert_eq!(slow.got(), ["CONNACK"]);
        world.subscribe(&mut slow, "t", AtLeastOnce);
        let mut publisher = world.guest("publisher");
        for payload in ["1", "2"] {
            world.publish(&mut publisher, Line::new("t", payload, AtLeastOnce, 1));
        }
        world.settle();
        assert_eq!(slow.got(), ["t=1 q1 #1"]);
        slow.ack(AckKind::PubAck, 1);
        world.settle();
        assert_eq!(slow.got(), ["t=2 q1 #2"]);
        let filler = "x".repeat(20_000);
        // As far as it pays to read and throw away.
        for _ in 0..5 {
            for id in 1..=45 {
                world.publish(&mut publisher, Line::new("nobody", &filler, AtLeastOnce, id));
            }
            world.image();
        }
        let first = world.log().first_whole().get();
        assert!(first > 100, "{lanes} lanes: the log begins with {first}");
        world.publish(&mut publisher, Line::new("t", "3", AtLeastOnce, 1));
        slow.ack(AckKind::PubAck, 2);
        world.settle();
        assert_eq!(slow.got(), ["t=3 q1 #3"], "{lanes} lanes");
    }
}

/// A broker with two images and a cold file, and much behind them that another image lets go:
/// messages for a session that is away and retained ones in each part.
fn with_a_past(version: ProtocolVersion) -> World {
    let mut world = Setup { lanes: 2, ..Setup::new(version) }.start();
    let mut away = world.member("away");
    world.subscribe(&mut away, "t", ExactlyOnce);
    away.disconnect();
    let mut publisher = world.guest("publisher");
    let filler = "x".repeat(20_000);
    for round in 0..4 {
        world.publish(&mut publisher, Line::new("t", &format!("{round}.1"), AtLeastOnce, 1));
        world.publish(&mut publisher, Line::new("t", &format!("{round}.2"), ExactlyOnce, 2));
        let topic = format!("r/{round}");
        world.publish(&mut publisher, Line::new(&topic, "kept", AtLeastOnce, 3).retained());
        for id in 1..=30 {
            world.publish(&mut publisher, Line::new("nobody", &filler, AtLeastOnce, id));
        }
        if round < 3 {
            world.image();
        }
    }
    assert!(!names(&world, ".cold").is_empty());
    world
}

fn names(world: &World, ending: &str) -> Vec<String> {
    let files = world.disk.list().unwrap().into_iter().map(|(name, _)| name);
    let mut names: Vec<_> = files.filter(|name| name.ends_with(ending)).collect();
    names.sort();
    names
}

/// Somebody is half way with a message at QoS 2, and somebody has a will.
fn go_half_way(world: &mut World) {
    let mut half_way = world.member("half way");
    half_way.publish(Line::new("t", "half way", ExactlyOnce, 7));
    let will = Some(("t", AtLeastOnce, false));
    let mut lost = world.call(&Hello { will, ..Hello::guest("lost") });
    world.settle();
    assert_eq!((half_way.got(), lost.got()), (vec!["PUBREC 7".into()], vec!["CONNACK".into()]));
}

/// All of it is there, once, in its order, and another image can be made.
fn check(mut world: World, what: &str) {
    let mut half_way = world.call(&Hello::member("half way"));
    half_way.publish(Line::new("t", "half way", ExactlyOnce, 7).again());
    half_way.ack(AckKind::PubRel, 7);
    world.settle();
    assert_eq!(half_way.got(), ["CONNACK present", "PUBREC 7", "PUBCOMP 7"], "{what}");
    let mut away = world.call(&Hello::member("away"));
    let got = away.got();
    let texts: Vec<_> = got[1..].iter().filter_map(|line| line.split(" q").next()).collect();
    let rounds = (0..4).flat_map(|round| [1, 2].map(|nth| format!("t={round}.{nth}")));
    let all: Vec<_> = rounds.chain(["t=half way".into(), "t=gone".into()]).collect();
    assert_eq!(texts, all, "{what}");
    let mut reader = world.guest("reader");
    reader.subscribe(9, "r/#", AtLeastOnce);
    world.settle();
    let mut kept = reader.got();
    kept.sort();
    let kept: Vec<_> = kept.iter().filter_map(|line| line.split(" q").next()).collect();
    assert_eq!(kept, ["SUBACK 9", "r/0=kept", "r/1=kept", "r/2=kept", "r/3=kept"], "{what}");
    assert_eq!(world.try_image(), Ok(true), "{what}");
}

/// What a power cut leaves: nothing that was not synced, all of it, or some.
fn survivals(seed: u64) -> [Survival; 3] {
    [Survival::Nothing, Survival::Everything, Survival::Seeded(seed)]
}

/// Written, synced, read back, renamed, marked, what is alive of the old log in a cold file, older
/// images gone, and the log let go: whatever of that has happened, a start has everything.
#[test]
fn a_power_cut_at_any_step_of_an_image_loses_nothing() {
    for version in VERSIONS {
        let past = with_a_past(version);
        for operation in 1.. {
            let mut world = past.crashed(Survival::Everything);
            go_half_way(&mut world);
            let files = [".cold", ".image", ".log"].map(|ending| names(&world, ending));
            world.disk.cut_power(operation);
            let made = world.try_image();
            world.settle();
            if !world.disk.is_off() {
                assert_eq!(made, Ok(true));
                let now = [".cold", ".image", ".log"].map(|ending| names(&world, ending));
                assert!((0..3).all(|at| now[at] != files[at]), "{files:?} {now:?}");
                assert!(operation > 20, "{operation} operations are all");
                break;
            }
            for survival in survivals(operation) {
                let what = format!("{version:?}, operation {operation}, {survival:?}");
                check(world.crashed(survival), &what);
            }
        }
    }
}

/// The power goes while a start reads an image and the log behind it, and writes its first record.
#[test]
fn a_power_cut_at_any_step_of_a_start_from_an_image_loses_nothing() {
    for version in VERSIONS {
        let mut world = with_a_past(version).crashed(Survival::Everything);
        go_half_way(&mut world);
        assert_eq!(world.try_image(), Ok(true));
        for operation in 1.. {
            let mut is_cut_off = false;
            for survival in survivals(operation) {
                let what = format!("{version:?}, operation {operation}, {survival:?}");
                if let Some(world) = world.crashed_in_start(operation, survival) {
                    is_cut_off = true;
                    check(world, &what);
                }
            }
            if !is_cut_off {
                assert!(operation > 10, "{operation} operations are all");
                break;
            }
        }
    }
}
