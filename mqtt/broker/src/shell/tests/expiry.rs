//! Sessions that come to their end by time, while as much is in flight as can be: what is handed
//! over waits for its place in the log.

use zzq_types::QoS::AtLeastOnce;

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
    world.disk.hold();
    for id in 1..=2 {
        publisher.publish(Line::new("other", "text", AtLeastOnce, id));
        world.settle();
    }
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
