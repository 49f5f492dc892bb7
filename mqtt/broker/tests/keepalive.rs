//! Keep alive: how long a silent client is kept. These tests take the seconds they are about.

#![allow(clippy::panic, reason = "a test fails by panicking")]

mod support;

use std::thread::sleep;
use std::time::{Duration, Instant};

use Version::{V3, V4, V5};
use support::{Broker, Client, Connect, PATIENCE, Publish, Received, Version, in_both_modes};

/// Nothing is said and nothing comes for this long.
#[track_caller]
fn stays_open(client: &mut Client, time: Duration) {
    let received = client.receive(time);
    assert!(matches!(received, Received::Nothing), "expected silence: {received:?}");
}

fn closes_when_silent(version: Version) {
    in_both_modes(|broker| {
        // Before its CONNECT: a busy machine only makes it later.
        let start = Instant::now();
        let (mut client, _) = Connect::new(version, "a").keep_alive(2).open(broker);
        match client.receive(PATIENCE) {
            Received::Closed => {}
            // MQTT 5 may be told first.
            Received::Packet(packet) => {
                assert!(version == V5 && packet[0] == 0xE0 && packet[2] == 0x8D, "{packet:02X?}");
                client.expect_close();
            }
            Received::Nothing => panic!("a silent client is kept"),
        }
        let silent = start.elapsed();
        assert!(silent > Duration::from_millis(2900), "closed after {silent:?}");
    });
}

#[test]
fn a_silent_client_is_closed_after_one_and_a_half_times_its_keep_alive() {
    //= MQTT311-3.1.2-23
    //= B41, MQTT5-3.1.2-22, MQTT311-3.1.2-24, MQTT5-3.2.2-22
    closes_when_silent(V4);
}

#[test]
fn a_silent_client_of_version_5_is_closed_as_well() {
    //= MQTT5-3.1.2-20
    //= B41, MQTT5-3.1.2-22, MQTT5-3.2.2-22
    closes_when_silent(V5);
}

#[test]
fn a_silent_client_of_the_first_version_is_closed_as_well() {
    closes_when_silent(V3);
}

#[test]
fn the_will_of_a_silent_client_is_published() {
    //= MQTT311-3.1.2-8, MQTT5-3.1.2-8, MQTT5-3.1.2-22, MQTT311-3.1.2-24
    in_both_modes(|broker| {
        let mut watcher = Client::connect(broker, V4, "watcher");
        watcher.subscribe("will", 1);
        let (_client, _) =
            Connect::new(V4, "a").keep_alive(1).will("will", "silent", 1, false).open(broker);
        watcher.expect("will", "silent");
    });
}

#[test]
fn any_packet_keeps_a_client_alive() {
    //= MQTT5-3.1.2-22, MQTT311-3.1.2-24
    in_both_modes(|broker| {
        // Twelve seconds are allowed, and passed. Of a pause they leave more than ten, so that none
        // becomes silence on a busy machine.
        let connect = |id| Connect::new(V4, id).keep_alive(8).open(broker).0;
        let mut pings = connect("pings");
        let mut talks = connect("talks");
        for _ in 0..13 {
            sleep(Duration::from_secs(1));
            pings.ping();
            talks.publish(&Publish::new("t", "x"));
        }
        pings.ping();
        talks.ping();
    });
}

#[test]
fn deliveries_do_not_keep_a_client_alive() {
    //= MQTT5-3.1.2-22, MQTT311-3.1.2-24
    in_both_modes(|broker| {
        let (mut client, _) = Connect::new(V4, "a").keep_alive(1).open(broker);
        client.subscribe("t", 0);
        let mut publisher = Client::connect(broker, V4, "publisher");
        let start = Instant::now();
        while client.receive(Duration::from_millis(200)) != Received::Closed {
            assert!(start.elapsed() < PATIENCE, "kept alive by what it is sent");
            publisher.say("t", "x", 0);
            sleep(Duration::from_millis(50));
        }
    });
}

#[test]
fn a_keep_alive_of_the_server_is_told_and_holds() {
    //= MQTT5-3.1.2-21
    //= MQTT5-3.2.2-21, MQTT5-3.2.2-22
    let broker = Broker::start(false, &["--max-keep-alive", "1"]);
    for asked in [0, 600] {
        let (mut client, accepted) = Connect::new(V5, "a").keep_alive(asked).open(&broker);
        assert_eq!(accepted.number(0x13), Some(1), "{asked} s asked for");
        client.expect_end(&[0x8D]);
    }
}

#[test]
fn without_keep_alive_silence_is_no_fault() {
    //= MQTT5-3.1.2-22
    in_both_modes(|broker| {
        let (mut client, _) = Connect::new(V4, "a").keep_alive(0).open(broker);
        stays_open(&mut client, Duration::from_millis(3500));
        client.ping();
    });
}

#[test]
fn a_publisher_that_is_held_for_a_slow_receiver_is_not_taken_for_silent() {
    //= MQTT311-3.1.2-24, MQTT5-3.1.2-22
    in_both_modes(|broker| {
        let mut slow = Client::connect(broker, V4, "slow");
        slow.subscribe("t", 0);
        // Long enough for a busy machine to send something within it.
        let (mut publisher, _) = Connect::new(V4, "fast").keep_alive(6).open(broker);
        let payload = "x".repeat(16 << 10);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..1000 {
                    publisher.publish(&Publish::new("t", payload.clone()));
                }
                publisher.ping();
            });
            // Longer than the publisher's keep alive allows; the end of the receiver ends its wait.
            sleep(Duration::from_secs(10));
            slow.reset();
        });
    });
}
