//! Time passes, and clocks are set.

use zzq_codec::{Connect, Delivery, Packet, Publish};
use zzq_types::{PacketId, PropertiesBuf, Property, ProtocolVersion, QoS, TopicName};

use super::harness::*;

const HOUR_MS: i64 = 3_600_000;

#[test]
fn a_wall_clock_that_is_set_disconnects_nobody() {
    //= B40
    //= MQTT311-3.1.2-24
    //= MQTT5-3.1.2-22
    for version in VERSIONS {
        let mut world = Setup::new(version).start();
        let mut client = world.open();
        client.send(&Packet::Connect(Connect { keep_alive: 10, ..Connect::new(version, "a") }));
        world.settle();
        assert_eq!(client.got().len(), 1, "CONNACK");
        for step in [HOUR_MS, -2 * HOUR_MS, 48 * HOUR_MS] {
            world.set_wall(step);
            world.pass(14_000);
            client.send(&Packet::PingReq);
            world.settle();
            assert_eq!(client.got(), ["PINGRESP"], "{version:?}, {step}");
        }
        world.set_wall(-HOUR_MS);
        world.pass(16_000);
        assert!(client.is_ended(), "and silence is still noticed");
    }
}

#[test]
fn expired_messages_leave_the_queue_of_a_client_that_is_away() {
    //= B15
    //= MQTT5-3.3.2-5
    let mut world = Setup::new(ProtocolVersion::V5).start();
    let mut away = world.member("away");
    world.subscribe(&mut away, "t", QoS::AtLeastOnce);
    away.disconnect();
    let mut publisher = world.guest("publisher");
    let mut properties = PropertiesBuf::new();
    properties.push(Property::MessageExpiry(10)).unwrap();
    for id in 1..=1000 {
        let delivery = Delivery::AtLeastOnce(PacketId::new(id).unwrap());
        let mut publish = Publish::new(TopicName::new("t").unwrap(), delivery, b"x");
        publish.properties = properties.as_properties();
        publisher.send(&Packet::Publish(publish));
    }
    world.settle();
    assert_eq!(publisher.got().len(), 1000, "PUBACKs");
    let waiting = |world: &World| world.shell(0).state.session_of("away").unwrap().queue().len();
    assert_eq!(waiting(&world), 1000);
    world.pass(9_000);
    assert_eq!(waiting(&world), 1000, "nothing expires early");
    world.pass(3_000);
    assert_eq!(waiting(&world), 0);
}
