//! Wills: when they are published, when not, and how.

mod support;

use std::thread::sleep;
use std::time::{Duration, Instant};

use Version::{V3, V4, V5};
use support::{Broker, Client, Connect, Version, in_both_modes};

/// A subscriber of `will/#` and `marker/#` at QoS 1.
fn watcher(broker: &Broker, version: Version) -> Client {
    let mut watcher = Client::connect(broker, version, "watcher");
    watcher.subscribe("will/#", 1);
    watcher
}

/// Nothing came to the watcher up to now.
fn no_will(broker: &Broker, watcher: &mut Client) {
    Client::connect(broker, V4, "marker").say("will/marker", "marker", 1);
    watcher.expect("will/marker", "marker");
}

#[test]
fn a_lost_connection_publishes_the_will() {
    //= MQTT311-3.1.2-8, MQTT5-3.1.2-7, MQTT5-3.1.2-8
    in_both_modes(|broker| {
        let mut watcher = watcher(broker, V4);
        for version in [V3, V4, V5] {
            let (client, _) =
                Connect::new(version, "a").will("will/a", "closed", 1, false).open(broker);
            drop(client);
            watcher.expect("will/a", "closed");
        }
    });
}

#[test]
fn a_reset_connection_publishes_the_will() {
    //= B13, MQTT5-3.1.2-8
    in_both_modes(|broker| {
        let mut watcher = watcher(broker, V5);
        for version in [V4, V5] {
            let connect = Connect::new(version, "a").will("will/a", "reset", 1, false);
            connect.open(broker).0.reset();
            watcher.expect("will/a", "reset");
        }
    });
}

#[test]
fn disconnect_with_will_publishes_the_will() {
    //= B13, MQTT5-3.1.2-8
    in_both_modes(|broker| {
        let mut watcher = watcher(broker, V5);
        let (mut client, _) = Connect::new(V5, "a").will("will/a", "asked", 1, false).open(broker);
        client.send_hex("E0 01 04");
        client.expect_close();
        watcher.expect("will/a", "asked");
    });
}

#[test]
fn disconnect_drops_the_will() {
    //= MQTT5-3.14.4-3, MQTT5-3.1.2-10, MQTT311-3.14.4-3, MQTT311-3.1.2-10
    in_both_modes(|broker| {
        let mut watcher = watcher(broker, V4);
        for version in [V3, V4, V5] {
            let connect = Connect::new(version, "a").will("will/a", "no", 1, false);
            connect.open(broker).0.disconnect();
        }
        let (mut client, _) = Connect::new(V5, "a").will("will/a", "no", 1, false).open(broker);
        client.send_hex("E0 02 00 00");
        client.expect_close();
        no_will(broker, &mut watcher);
    });
}

#[test]
fn a_protocol_error_publishes_the_will() {
    //= MQTT311-3.1.2-8, MQTT5-3.1.2-8
    in_both_modes(|broker| {
        let mut watcher = watcher(broker, V4);
        for version in [V4, V5] {
            let connect = Connect::new(version, "a").will("will/a", "error", 1, false);
            let (mut client, _) = connect.open(broker);
            client.send(&Connect::new(version, "a").encode());
            watcher.expect("will/a", "error");
        }
    });
}

#[test]
fn a_client_without_a_will_leaves_none() {
    //= MQTT311-3.1.2-12
    in_both_modes(|broker| {
        let mut watcher = watcher(broker, V4);
        let connect = Connect::persistent(V4, "a");
        connect.clone().will("will/a", "of the first", 0, false).open(broker).0.disconnect();
        connect.open(broker).0.reset();
        no_will(broker, &mut watcher);
    });
}

#[test]
fn takeover_publishes_the_will_once() {
    //= B11, MQTT5-3.1.2-8, MQTT5-3.1.4-3
    in_both_modes(|broker| {
        let mut watcher = Client::connect(broker, V5, "watcher");
        watcher.subscribe("t", 1);
        let mut old = Client::open(broker, V5);
        old.send_hex(
            "10 1F 00 04 4D 51 54 54 05 06 00 3C 05 11 00 00 01 00 00 01 73 \
             05 18 00 00 00 00 00 01 74 00 01 77",
        );
        support::Accepted::decode(&old.expect_packet(), V5);
        let mut new = Client::open(broker, V5);
        new.send_hex("10 13 00 04 4D 51 54 54 05 00 00 3C 05 11 00 00 01 00 00 01 73");
        assert!(support::Accepted::decode(&new.expect_packet(), V5).session_present);
        old.expect_end(&[0x8E]);
        watcher.expect("t", "w");
        watcher.say("t", "marker", 0);
        watcher.expect("t", "marker");
    });
}

#[test]
fn takeover_publishes_the_will_of_earlier_versions_too() {
    //= MQTT311-3.1.2-8
    in_both_modes(|broker| {
        let mut watcher = watcher(broker, V4);
        let (_old, _) = Connect::persistent(V4, "a").will("will/a", "w", 1, false).open(broker);
        let (_new, _) = Connect::persistent(V4, "a").open(broker);
        watcher.expect("will/a", "w");
        no_will(broker, &mut watcher);
    });
}

#[test]
fn a_will_carries_its_qos_and_retain_flag() {
    //= MQTT5-3.1.2-14, MQTT5-3.1.2-15, MQTT311-3.1.2-16, MQTT311-3.1.2-17
    in_both_modes(|broker| {
        for version in [V4, V5] {
            for qos in 0..3 {
                for retain in [false, true] {
                    let topic = format!("will/{version:?}/{qos}/{retain}");
                    let mut watcher = Client::connect(broker, version, "watcher");
                    watcher.subscribe(&topic, 2);
                    let connect = Connect::new(version, "a").will(&topic, "w", qos, retain);
                    connect.open(broker).0.reset();
                    let will = watcher.expect(&topic, "w");
                    assert_eq!((will.qos, will.retain), (qos, false));
                    // The marker takes the same way, so that the answer cannot be early.
                    watcher.say(&topic, "", 2);
                    watcher.expect(&topic, "");
                    let mut late = Client::connect(broker, version, "late");
                    late.subscribe(&topic, 2);
                    if retain {
                        assert!(late.expect(&topic, "w").retain);
                    }
                    late.ping_without_messages();
                }
            }
        }
    });
}

#[test]
fn a_will_is_published_with_its_properties() {
    //= MQTT5-3.1.3-10, MQTT5-3.3.2-17, MQTT5-3.3.2-18
    in_both_modes(|broker| {
        let mut watcher = watcher(broker, V5);
        let properties = "01 01 03 00 02 63 74 08 00 01 72 09 00 02 00 FF \
             26 00 01 62 00 01 32 26 00 01 61 00 01 31 26 00 01 62 00 01 30";
        let connect = Connect::new(V5, "a").will_with(properties, "will/a", "w", 1, false);
        connect.open(broker).0.reset();
        let will = watcher.expect("will/a", "w");
        assert_eq!(will.all(0x01), [&[1]]);
        assert_eq!(will.all(0x03), [b"ct"]);
        assert_eq!(will.all(0x08), [b"r"]);
        assert_eq!(will.all(0x09), [&[0, 0xFF]]);
        let pairs = [b"\0\x01b\0\x012", b"\0\x01a\0\x011", b"\0\x01b\0\x010"];
        assert_eq!(will.all(0x26), pairs);
        assert!(will.all(0x18).is_empty(), "the delay is the broker's affair");
    });
}

#[test]
fn a_will_waits_for_its_delay() {
    //= MQTT5-3.1.2-8
    in_both_modes(|broker| {
        let mut watcher = watcher(broker, V5);
        let connect = Connect::persistent(V5, "a");
        let (client, _) =
            connect.will_with("18 00 00 00 02", "will/a", "late", 1, false).open(broker);
        let start = Instant::now();
        client.reset();
        watcher.expect("will/a", "late");
        // A busy machine only makes it later.
        let waited = start.elapsed();
        assert!(waited > Duration::from_millis(1900), "published after {waited:?}");
        no_will(broker, &mut watcher);
    });
}

#[test]
fn coming_back_within_the_delay_cancels_the_will() {
    //= MQTT5-3.1.3-9, MQTT5-3.1.2-8
    in_both_modes(|broker| {
        let mut watcher = watcher(broker, V5);
        let connect = Connect::persistent(V5, "a");
        // Long enough to come back within it on a busy machine.
        let will = connect.clone().will_with("18 00 00 00 0A", "will/a", "no", 1, false);
        will.open(broker).0.reset();
        let (_client, accepted) = connect.open(broker);
        assert!(accepted.session_present);
        sleep(Duration::from_secs(12));
        no_will(broker, &mut watcher);
    });
}

#[test]
fn the_end_of_the_session_does_not_wait_for_the_delay() {
    //= MQTT5-3.1.2-8
    in_both_modes(|broker| {
        let mut watcher = watcher(broker, V5);
        // A session without expiry ends with its connection.
        let connect = Connect::new(V5, "a");
        let delayed = |connect: Connect| {
            connect.will_with("18 00 00 0E 10", "will/a", "ended", 1, false).open(broker).0
        };
        delayed(connect.clone()).reset();
        watcher.expect("will/a", "ended");
        // A clean connect ends the one before.
        delayed(Connect::persistent(V5, "a")).reset();
        no_will(broker, &mut watcher);
        connect.open(broker);
        watcher.expect("will/a", "ended");
        // So does an expiry shorter than the delay.
        delayed(connect.properties("11 00 00 00 01")).reset();
        watcher.expect("will/a", "ended");
    });
}

#[test]
fn a_will_reaches_a_session_that_is_away() {
    //= MQTT311-3.1.2-5, MQTT5-4.5.0-1
    in_both_modes(|broker| {
        let away = Connect::persistent(V4, "away");
        let (mut client, _) = away.open(broker);
        client.subscribe("will/#", 1);
        client.disconnect();
        let mut watcher = watcher(broker, V4);
        Connect::new(V4, "a").will("will/a", "w", 1, false).open(broker).0.reset();
        watcher.expect("will/a", "w");
        let (mut client, _) = away.open(broker);
        client.expect("will/a", "w");
    });
}

#[test]
fn an_empty_will_is_published() {
    in_both_modes(|broker| {
        let mut watcher = watcher(broker, V4);
        Connect::new(V4, "a").will("will/a", "", 1, false).open(broker).0.reset();
        watcher.expect("will/a", "");
    });
}
