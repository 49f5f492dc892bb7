//! Packets behind CONNECT that are no messages: PINGREQ, DISCONNECT, what only servers send, and
//! the fixed header of all of them.

mod support;

use Version::{V3, V4, V5};
use support::{Client, Publish, Version, hex, in_both_modes};

#[test]
fn nothing_comes_behind_a_disconnect() {
    //= MQTT5-3.14.4-1
    in_both_modes(|broker| {
        for version in [V3, V4, V5] {
            let mut client = Client::connect(broker, version, "a");
            client.send_hex("E0 00 C0 00");
            client.expect_close();
        }
    });
}

#[test]
fn packets_that_only_servers_send_end_the_connection() {
    //= MQTT5-4.13.1-1, MQTT311-4.8.0-1
    in_both_modes(|broker| {
        for digits in ["20 02 00 00", "90 03 00 01 00", "B0 02 00 01", "D0 00", "00 00"] {
            let mut four = Client::connect(broker, V4, "a");
            four.send_hex(digits);
            four.expect_end(&[]);
            let mut five = Client::connect(broker, V5, "b");
            five.send_hex(digits);
            five.expect_end(&[0x81, 0x82]);
        }
        let mut four = Client::connect(broker, V4, "a");
        four.send_hex("F0 00");
        four.expect_end(&[]);
    });
}

#[test]
fn reserved_flags_of_other_packets_are_checked() {
    //= MQTT5-2.1.3-1, MQTT5-3.6.1-1, MQTT5-3.8.1-1, MQTT5-3.10.1-1, MQTT5-3.14.1-1
    //= MQTT311-2.2.2-1, MQTT311-2.2.2-2, MQTT311-3.6.1-1, MQTT311-3.8.1-1, MQTT311-3.10.1-1
    //= MQTT311-3.14.1-1
    in_both_modes(|broker| {
        let cases = [
            ("E1 00", "E1 00"),
            ("C8 00", "C8 00"),
            ("60 02 00 01", "60 02 00 01"),
            ("6A 02 00 01", "6A 02 00 01"),
            ("41 02 00 01", "41 02 00 01"),
            ("52 02 00 01", "52 02 00 01"),
            ("71 02 00 01", "71 02 00 01"),
            ("80 06 00 01 00 01 74 00", "80 07 00 01 00 00 01 74 00"),
            ("A0 05 00 01 00 01 74", "A0 06 00 01 00 00 01 74"),
        ];
        for (four, five) in cases {
            let mut client = Client::connect(broker, V4, "a");
            client.send_hex(four);
            client.expect_end(&[]);
            let mut client = Client::connect(broker, V5, "b");
            client.send_hex(five);
            client.expect_end(&[0x81]);
        }
    });
}

#[test]
fn the_first_version_may_set_dup_where_later_ones_may_not() {
    in_both_modes(|broker| {
        let mut old = Client::connect(broker, V3, "old");
        old.send_hex("8A 06 00 01 00 01 74 01");
        old.expect_hex("90 03 00 01 01");
        old.send_hex("AA 05 00 02 00 01 74");
        old.expect_hex("B0 02 00 02");
        old.send_hex("34 06 00 01 74 00 03 78");
        old.expect_hex("50 02 00 03");
        old.send_hex("6A 02 00 03");
        old.expect_hex("70 02 00 03");
    });
}

#[test]
fn pingreq_is_answered() {
    //= MQTT5-3.12.4-1, MQTT311-3.12.4-1
    in_both_modes(|broker| {
        for version in [V3, V4, V5] {
            let mut client = Client::connect(broker, version, "a");
            client.send_hex("C0 00 C0 00 C0 00");
            for _ in 0..3 {
                client.expect_hex("D0 00");
            }
        }
    });
}

#[test]
fn disconnect_ends_the_connection_and_what_follows_is_not_read() {
    //= MQTT311-3.14.4-1, MQTT311-3.14.4-2
    //= MQTT5-3.14.4-2
    in_both_modes(|broker| {
        let mut watcher = Client::connect(broker, V5, "watcher");
        watcher.subscribe("t", 0);
        for (version, id) in [(V4, "a"), (V5, "b")] {
            let mut client = Client::connect(broker, version, id);
            let mut all = hex("E0 00");
            all.extend(Publish::new("t", "after").encode(version));
            client.send(&all);
            client.expect_close();
        }
        watcher.say("t", "marker", 0);
        watcher.expect("t", "marker");
    });
}

#[test]
fn disconnect_codes_are_checked() {
    //= MQTT5-3.14.2-1, MQTT5-3.14.2-2
    in_both_modes(|broker| {
        for code in ["00", "04", "80", "83", "99"] {
            let mut client = Client::connect(broker, V5, "a");
            client.send_hex(&format!("E0 01 {code}"));
            client.expect_close();
        }
        for code in ["01", "05", "8E", "9C", "FF"] {
            let mut client = Client::connect(broker, V5, "a");
            client.send_hex(&format!("E0 01 {code}"));
            client.expect_end(&[0x81, 0x82]);
        }
    });
}
