//! Queues of clients that are away stay in the image at a start, and come back when touched.

use zzq_types::QoS::{AtLeastOnce, ExactlyOnce};
use zzq_wal::sim_disk::Op;

use super::harness::*;

/// A broker that has started over an image with three messages for `away` in it.
fn with_a_queue_in_the_image(setup: Setup) -> World {
    let mut world = setup.start();
    let mut away = world.member("away");
    world.subscribe(&mut away, "t", ExactlyOnce);
    away.disconnect();
    let mut publisher = world.guest("publisher");
    for (text, qos, id) in [("a", AtLeastOnce, 1), ("b", ExactlyOnce, 2), ("c", AtLeastOnce, 3)] {
        world.publish(&mut publisher, Line::new("t", text, qos, id));
    }
    world.image();
    let world = world.kill();
    assert_eq!(world.untouched("away"), 3);
    world
}

const ALL: [&str; 5] = ["CONNACK present", "t=a q1 #1", "t=b q2 #2", "t=c q1 #3", "t=d q1 #4"];

#[test]
fn what_stayed_in_an_image_comes_before_what_came_since() {
    //= MQTT311-3.1.2-5
    for version in VERSIONS {
        for lanes in [1, 2] {
            let mut world = with_a_queue_in_the_image(Setup { lanes, ..Setup::new(version) });
            let mut publisher = world.guest("publisher");
            world.publish(&mut publisher, Line::new("t", "d", AtLeastOnce, 1));
            assert_eq!(world.untouched("away"), 3, "a message that comes does not touch it");
            // Later images have it as well, and the first is gone by then.
            for _ in 0..3 {
                world.publish(&mut publisher, Line::new("elsewhere", "x", AtLeastOnce, 1));
                world.image();
            }
            assert_eq!(world.untouched("away"), 3, "nor does an image");
            let mut away = world.call(&Hello::member("away"));
            assert_eq!(away.got(), ALL);
            assert_eq!(world.untouched("away"), 0);
        }
    }
}

/// Much of the log at once is made an image of in steps, each from the one before.
#[test]
fn an_image_that_takes_steps_has_all_that_one_has() {
    for step in [1, 2, 7] {
        let mut world = with_a_queue_in_the_image(Setup::new(VERSIONS[1]));
        world.step_images(step);
        let mut publisher = world.guest("publisher");
        world.publish(&mut publisher, Line::new("t", "d", AtLeastOnce, 1));
        for _ in 0..20 {
            world.publish(&mut publisher, Line::new("elsewhere", "x", AtLeastOnce, 1));
        }
        for _ in 0..2 {
            world.image();
            world.publish(&mut publisher, Line::new("elsewhere", "x", AtLeastOnce, 1));
        }
        let mut world = world.kill();
        assert_eq!(world.untouched("away"), 4, "in steps of {step}");
        assert_eq!(world.call(&Hello::member("away")).got(), ALL, "in steps of {step}");
    }
}

#[test]
fn it_survives_any_number_of_starts_untouched() {
    let mut world = with_a_queue_in_the_image(Setup::new(VERSIONS[1]));
    let mut publisher = world.guest("publisher");
    world.publish(&mut publisher, Line::new("t", "d", AtLeastOnce, 1));
    for seed in 0..4 {
        world = world.crash(seed);
        assert_eq!(world.untouched("away"), 3);
    }
    world.image();
    world = world.crash(9);
    assert_eq!(world.untouched("away"), 4, "a later image has what came since as well");
    assert_eq!(world.call(&Hello::member("away")).got(), ALL);
    // The records that took it are behind the image: the next start reads it for them.
    let world = world.kill();
    assert_eq!(world.untouched("away"), 0);
}

#[test]
fn messages_expire_that_stayed_in_an_image() {
    //= MQTT5-3.3.2-5
    let mut world = Setup::new(VERSIONS[1]).start();
    let mut away = world.member("away");
    world.subscribe(&mut away, "t", ExactlyOnce);
    away.disconnect();
    let mut publisher = world.guest("publisher");
    for (text, qos, id) in [("a", AtLeastOnce, 1), ("b", ExactlyOnce, 2)] {
        let line = Line { expiry_s: 2, ..Line::new("t", text, qos, id) };
        world.publish(&mut publisher, line);
    }
    world.publish(&mut publisher, Line::new("t", "c", AtLeastOnce, 3));
    world.image();
    let mut world = world.kill();
    world.pass(1000);
    assert_eq!(world.untouched("away"), 3, "nothing is due yet");
    world.pass(2000);
    assert_eq!(world.untouched("away"), 0);
    assert_eq!(world.shell(0).state.queued(), 1);
    assert_eq!(world.call(&Hello::member("away")).got(), ["CONNACK present", "t=c q1 #3"]);
}

#[test]
fn a_session_ends_with_what_stayed_in_an_image() {
    let mut world = with_a_queue_in_the_image(Setup::new(VERSIONS[0]));
    let mut away = world.call(&Hello::guest("away"));
    assert_eq!(away.got(), ["CONNACK"]);
    world.settle();
    assert_eq!(world.shell(0).state.queued(), 0);
}

#[test]
fn a_queue_that_cannot_be_read_is_told_and_kept() {
    let mut world = with_a_queue_in_the_image(Setup::new(VERSIONS[1]));
    world.disk.fail(Op::Read, 1, FAIL);
    let mut away = world.call(&Hello::member("away"));
    assert_eq!(away.got(), ["CONNACK refused", "closed"]);
    let mut away = world.call(&Hello::member("away"));
    assert_eq!(away.got(), &ALL[..4]);
}

#[test]
fn one_that_could_not_be_read_while_nobody_waited_for_it_refuses_nobody() {
    let mut world = Setup::new(VERSIONS[1]).start();
    let mut away = world.member("away");
    world.subscribe(&mut away, "t", ExactlyOnce);
    away.disconnect();
    let mut publisher = world.guest("publisher");
    for (text, id) in [("a", 1), ("b", 2)] {
        let line = Line { expiry_s: 2, ..Line::new("t", text, AtLeastOnce, id) };
        world.publish(&mut publisher, line);
    }
    world.publish(&mut publisher, Line::new("t", "c", AtLeastOnce, 3));
    world.image();
    let mut world = world.kill();
    assert_eq!(world.untouched("away"), 3);
    world.disk.fail(Op::Read, 1, FAIL);
    world.pass(2100);
    assert_eq!(world.untouched("away"), 3, "they were due, and could not be read");
    let mut away = world.call(&Hello::member("away"));
    assert_eq!(away.got(), ["CONNACK present", "t=c q1 #3"]);
}

#[test]
fn what_has_expired_in_one_that_could_not_be_read_goes_when_it_can() {
    let mut world = with_a_queue_in_the_image(Setup::new(VERSIONS[1]));
    let mut publisher = world.guest("publisher");
    let line = Line { expiry_s: 2, ..Line::new("t", "d", AtLeastOnce, 1) };
    world.publish(&mut publisher, line);
    world.disk.fail(Op::Read, 1, FAIL);
    world.pass(2100);
    assert_eq!((world.untouched("away"), world.shell(0).state.queued()), (3, 4));
    world.pass(20_000);
    assert_eq!((world.untouched("away"), world.shell(0).state.queued()), (0, 3));
}

#[test]
fn one_that_cannot_be_read_is_told_to_nobody_but_those_who_waited() {
    let mut world = with_a_queue_in_the_image(Setup::new(VERSIONS[1]));
    world.disk.fail(Op::Read, 1, FAIL);
    let mut gone = world.open();
    gone.connect(&Hello::member("away"));
    // It is asked for, and not read yet.
    (0..5).for_each(|_| world.turn_of("away"));
    gone.reset();
    world.settle();
    let mut away = world.call(&Hello::member("away"));
    assert_eq!(away.got(), &ALL[..4]);
}
