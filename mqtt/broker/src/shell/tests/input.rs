//! Packets that wait for room: who keeps it from others ends, and who waits is not taken for
//! silent.

use zzq_codec::{Connect, Delivery, Encoder, Packet, Publish};
use zzq_types::QoS::AtLeastOnce;
use zzq_types::{PacketId, ProtocolVersion, TopicName};

use super::harness::*;
use crate::metrics;

const LONG: usize = 20_000;

fn long(version: ProtocolVersion) -> Vec<u8> {
    let payload = vec![b'.'; LONG];
    let delivery = Delivery::AtLeastOnce(PacketId::new(1).unwrap());
    let publish = Publish::new(TopicName::new("t").unwrap(), delivery, &payload);
    let mut bytes = Vec::new();
    Encoder::new(version).encode(&Packet::Publish(publish), &mut bytes).unwrap();
    bytes
}

fn long_connect(version: ProtocolVersion, id: &str) -> Vec<u8> {
    let password = vec![b'.'; LONG];
    let hello = Connect { password: Some(&password), ..Connect::new(version, id) };
    let hello = Connect { user_name: Some("u"), ..hello };
    let mut bytes = Vec::new();
    Encoder::new(version).encode(&Packet::Connect(hello), &mut bytes).unwrap();
    bytes
}

/// Room for one packet, and for one of those who are not let in.
fn narrow(version: ProtocolVersion) -> World {
    let mut setup = Setup::new(version);
    setup.options.limits.max_input_bytes_total = 1;
    setup.start()
}

/// Somebody keeps it.
fn kept(version: ProtocolVersion) -> (World, Client, Vec<u8>) {
    let mut world = narrow(version);
    let mut keeps = world.guest("keeps");
    let all = long(version);
    keeps.send_bytes(&all[..5000]);
    world.settle();
    (world, keeps, all)
}

#[test]
fn who_keeps_room_that_others_wait_for_is_told_and_ended() {
    for version in VERSIONS {
        let (mut world, mut keeps, all) = kept(version);
        world.pass(100_000);
        assert_eq!(keeps.got(), [""; 0], "nobody waits");
        let mut waits = world.guest("waits");
        waits.send_bytes(&all[..5000]);
        waits.send_bytes(&all[5000..]);
        world.settle();
        let told: &[&str] = if version.is_v5() { &["DISCONNECT", "closed"] } else { &["closed"] };
        assert_eq!(keeps.got(), told);
        assert_eq!(waits.got(), ["PUBACK 1"]);
        assert_eq!(metrics::total(&world.shell(0).shared.metrics).overdue_inputs, 1);
    }
}

#[test]
fn who_has_room_and_waits_for_the_log_is_not_overdue() {
    for version in VERSIONS {
        let (mut world, mut keeps, all) = kept(version);
        let (mut floods, mut waits) = (world.guest("floods"), world.guest("waits"));
        world.disk.hold();
        for id in 1..=4000 {
            floods.publish(Line::new("u", &"x".repeat(100), AtLeastOnce, id));
        }
        world.settle();
        keeps.send_bytes(&all[5000..]);
        world.settle();
        waits.send_bytes(&all[..5000]);
        world.pass(100_000);
        assert_eq!(keeps.got(), [""; 0], "{version:?}");
        assert_eq!(metrics::total(&world.shell(0).shared.metrics).input_waits, 1);
        world.disk.release_all();
        world.pass(1000);
        assert_eq!(keeps.got(), ["PUBACK 1"], "{version:?}");
        waits.send_bytes(&all[5000..]);
        world.settle();
        assert_eq!(waits.got(), ["PUBACK 1"], "{version:?}");
    }
}

/// Whose queue it is may be the one that waits for room.
#[test]
fn who_has_room_and_waits_for_a_full_queue_has_to_give_it_up() {
    let mut setup = Setup::new(ProtocolVersion::V311);
    let limits = &mut setup.options.limits;
    (limits.max_input_bytes_total, limits.max_queued_messages, limits.max_held_bytes) = (1, 1, 1);
    let mut world = setup.start();
    let mut away = world.member("away");
    world.subscribe(&mut away, "t", AtLeastOnce);
    away.disconnect();
    let (mut keeps, mut waits) = (world.guest("keeps"), world.guest("waits"));
    world.publish(&mut keeps, Line::new("t", "fills", AtLeastOnce, 2));
    let all = long(ProtocolVersion::V311);
    for _ in 0..2 {
        keeps.send_bytes(&all[..5000]);
        world.settle();
        keeps.send_bytes(&all[5000..]);
        world.settle();
    }
    waits.send_bytes(&all[..5000]);
    world.pass(29_000);
    assert_eq!(keeps.got(), [""; 0]);
    world.pass(2_000);
    assert_eq!(keeps.got(), ["closed"]);
}

#[test]
fn who_waits_for_room_is_not_taken_for_silent() {
    //= MQTT311-3.1.2-24
    //= MQTT5-3.1.2-22
    for version in VERSIONS {
        let (mut world, mut keeps, all) = kept(version);
        let mut waits = world.open();
        waits.send(&Packet::Connect(Connect { keep_alive: 4, ..Connect::new(version, "waits") }));
        world.settle();
        assert_eq!(waits.got(), ["CONNACK"]);
        waits.send_bytes(&all[..5000]);
        // Five times its keep alive.
        world.pass(20_500);
        assert_eq!(waits.got(), [""; 0], "{version:?}");
        keeps.send_bytes(&all[5000..]);
        world.settle();
        assert_eq!(keeps.got(), ["PUBACK 1"]);
        // From then on it has as long as anybody.
        world.pass(5_900);
        assert_eq!(waits.got(), [""; 0]);
        world.pass(200);
        assert!(waits.is_ended(), "and silence is still noticed");
    }
}

#[test]
fn a_connect_has_all_of_its_time_from_when_it_was_given_room() {
    for version in VERSIONS {
        let mut world = narrow(version);
        let mut comes = world.open();
        world.pass(1000);
        let mut before = world.open();
        let begun = [(&mut before, "before"), (&mut comes, "comes")].map(|(client, id)| {
            let connect = long_connect(version, id);
            client.send_bytes(&connect[..5000]);
            world.settle();
            connect
        });
        // Beyond the time of the one that waits.
        world.pass(9_900);
        assert_eq!(metrics::total(&world.shell(0).shared.metrics).input_waits, 1);
        before.send_bytes(&begun[0][5000..]);
        world.settle();
        assert_eq!(before.got(), ["CONNACK"]);
        world.pass(9_900);
        comes.send_bytes(&begun[1][5000..]);
        world.settle();
        assert_eq!(comes.got(), ["CONNACK"]);
    }
}

#[test]
fn who_is_not_let_in_and_who_is_do_not_wait_for_each_other() {
    for version in VERSIONS {
        let mut world = narrow(version);
        let (mut comes, mut is_in) = (world.open(), world.guest("in"));
        let (connect, publish) = (long_connect(version, "comes"), long(version));
        comes.send_bytes(&connect[..5000]);
        world.settle();
        is_in.send_bytes(&publish[..5000]);
        world.settle();
        is_in.send_bytes(&publish[5000..]);
        world.settle();
        assert_eq!(is_in.got(), ["PUBACK 1"], "{version:?}");
        is_in.send_bytes(&publish[..5000]);
        world.settle();
        comes.send_bytes(&connect[5000..]);
        world.settle();
        assert_eq!(comes.got(), ["CONNACK"], "{version:?}");
        is_in.send_bytes(&publish[5000..]);
        world.settle();
        assert_eq!(is_in.got(), ["PUBACK 1"], "{version:?}");
        assert_eq!(metrics::total(&world.shell(0).shared.metrics).input_waits, 0);
    }
}
