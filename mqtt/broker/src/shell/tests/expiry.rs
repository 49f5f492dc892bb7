//! Sessions that come to their end by time, while as much is in flight as can be: what is handed
//! over waits for its place in the log.

use zzq_codec::{Connect, Disconnect, Packet};
use zzq_types::QoS::AtLeastOnce;
use zzq_types::{PropertiesBuf, Property, ProtocolVersion, ReasonCode};

use super::harness::*;

const EXPIRY_MS: u64 = 3000;

/// A session that its client has left, and a log that takes nothing more.
fn left_and_held(setup: Setup) -> (World, Client) {
    let mut setup = setup;
    setup.options.limits.max_session_expiry = 3;
    let mut world = setup.start();
    let mut member = world.member("member");
    world.subscribe(&mut member, "t", AtLeastOnce);
    member.reset();
    world.pass(500);
    let mut publisher = world.guest("publisher");
    world.fill_log(&mut publisher);
    (world, publisher)
}

/// Found by the simulator: the end of a session was handed to the log, and not applied yet, when
/// its client came back. It was told that its session is present, and had none.
#[test]
fn a_session_whose_end_is_under_way_is_not_resumed() {
    for version in VERSIONS {
        for lanes in [1, 2] {
            let (mut world, mut publisher) = left_and_held(Setup { lanes, ..Setup::new(version) });
            world.pass(EXPIRY_MS);
            let mut member = world.call(&Hello::member("member"));
            world.disk.release_all();
            world.pass(20);
            assert_eq!(member.got(), ["CONNACK"], "{version:?}, {lanes} lanes");
            world.subscribe(&mut member, "t", AtLeastOnce);
            publisher.got();
            world.publish(&mut publisher, Line::new("t", "text", AtLeastOnce, 3));
            assert_eq!(member.got(), ["t=text q1 #1"], "{version:?}, {lanes} lanes");
        }
    }
}

/// The other way round: a session must not end behind the CONNECT that resumes it.
#[test]
fn a_session_that_is_being_resumed_does_not_end() {
    for version in VERSIONS {
        for lanes in [1, 2] {
            let (mut world, mut publisher) = left_and_held(Setup { lanes, ..Setup::new(version) });
            world.pass(EXPIRY_MS / 2);
            let mut member = world.call(&Hello::member("member"));
            world.pass(EXPIRY_MS);
            world.disk.release_all();
            world.pass(100);
            assert_eq!(member.got(), ["CONNACK present"], "{version:?}, {lanes} lanes");
            publisher.got();
            world.publish(&mut publisher, Line::new("t", "text", AtLeastOnce, 3));
            assert_eq!(member.got(), ["t=text q1 #1"], "{version:?}, {lanes} lanes");
        }
    }
}

/// Connects with an expiry, and leaves with another if there is one.
fn come_and_go(world: &mut World, at_connect_s: u32, at_disconnect_s: Option<u32>) {
    let expiry = |seconds: u32| {
        let mut properties = PropertiesBuf::new();
        properties.push(Property::SessionExpiry(seconds)).unwrap();
        properties
    };
    let mut client = world.open();
    let properties = expiry(at_connect_s);
    client.send(&Packet::Connect(Connect {
        clean_start: true,
        properties: properties.as_properties(),
        ..Connect::new(ProtocolVersion::V5, "member")
    }));
    world.pass(20);
    assert_eq!(client.got(), ["CONNACK"]);
    let properties = at_disconnect_s.map(expiry).unwrap_or_default();
    let (reason, properties) = (ReasonCode::Success, properties.as_properties());
    client.send(&Packet::Disconnect(Disconnect { reason, properties }));
    world.pass(20);
    assert_eq!(client.got(), ["closed"]);
}

fn is_there_after(world: &mut World, millis: u64) -> bool {
    world.pass(millis);
    let mut client = world.call(&Hello::member("member"));
    world.pass(20);
    let there = client.got() == ["CONNACK present"];
    client.reset();
    world.pass(20);
    there
}

#[test]
fn disconnect_may_lengthen_the_expiry_as_far_as_sessions_may_live() {
    for in_memory in [false, true] {
        let setup = Setup { in_memory, ..Setup::new(ProtocolVersion::V5) };
        let mut world = setup.clone().start();
        come_and_go(&mut world, 1, None);
        assert!(!is_there_after(&mut world, 2000), "as it was asked for at CONNECT");
        come_and_go(&mut world, 1, Some(10));
        assert!(is_there_after(&mut world, 9000), "lengthened");
        come_and_go(&mut world, 1, Some(10));
        assert!(!is_there_after(&mut world, 11_000), "and no more than that");
        come_and_go(&mut world, 10, Some(1));
        assert!(!is_there_after(&mut world, 2000), "shortened");
        let mut setup = setup;
        setup.options.limits.max_session_expiry = 3;
        let mut world = setup.start();
        come_and_go(&mut world, 1, Some(10));
        assert!(is_there_after(&mut world, 2000), "lengthened");
        come_and_go(&mut world, 1, Some(10));
        assert!(!is_there_after(&mut world, 4000), "as far as sessions may live");
    }
}
