//! CONNECT: what is accepted, what is refused and how, and what its answer holds.

mod support;

use Version::{V3, V4, V5};
use support::{Accepted, Client, Connect, Publish, Random, Version, hex, in_both_modes, packet};
use support::{Broker, text};

/// The broker refuses these bytes as the first packet of a connection.
fn refuses(broker: &Broker, version: Version, digits: &str) {
    let mut client = Client::open(broker, version);
    client.send_hex(digits);
    client.expect_refusal();
}

/// The broker closes upon these bytes as the first packet, without a CONNACK.
fn closes(broker: &Broker, digits: &str) {
    let mut client = Client::open(broker, V4);
    client.send_hex(digits);
    client.expect_close();
}

#[test]
fn a_clean_connect_is_answered_in_each_version() {
    //= MQTT311-3.1.4-4, MQTT311-3.2.0-1, MQTT311-3.2.2-1, MQTT5-3.1.4-5, MQTT5-3.2.0-1
    //= MQTT5-3.2.2-1, MQTT5-3.2.2-2, MQTT311-7.0.0-2
    in_both_modes(|broker| {
        let mut old = Client::open(broker, V3);
        old.send_hex("10 0F 00 06 4D 51 49 73 64 70 03 02 00 3C 00 01 61");
        old.expect_hex("20 02 00 00");
        let mut four = Client::open(broker, V4);
        four.send_hex("10 0D 00 04 4D 51 54 54 04 02 00 3C 00 01 62");
        four.expect_hex("20 02 00 00");
        let mut five = Client::open(broker, V5);
        five.send_hex("10 0E 00 04 4D 51 54 54 05 02 00 3C 00 00 01 63");
        let accepted = Accepted::decode(&five.expect_packet(), V5);
        assert!(!accepted.session_present);
        old.ping();
        four.ping();
        five.ping();
    });
}

#[test]
fn a_connect_may_arrive_byte_by_byte() {
    //= MQTT5-4.2.0-1, MQTT311-7.1.1-1
    in_both_modes(|broker| {
        let mut client = Client::open(broker, V5);
        for byte in Connect::new(V5, "slow").encode() {
            client.send(&[byte]);
        }
        Accepted::decode(&client.expect_packet(), V5);
    });
}

#[test]
fn what_follows_a_connect_at_once_is_handled_behind_it() {
    //= MQTT5-3.2.0-1, MQTT311-3.2.0-1
    in_both_modes(|broker| {
        let mut client = Client::open(broker, V4);
        let mut all = Connect::new(V4, "eager").encode();
        all.extend(hex("82 06 00 01 00 01 74 01"));
        all.extend(Publish::new("t", "first").qos(1, 2).encode(V4));
        client.send(&all);
        client.expect_hex("20 02 00 00");
        // The subscription stands before the publish is handled; which answer is first is free.
        let mut answers = [client.expect_answer(), client.expect_answer()];
        answers.sort();
        assert_eq!(answers, [hex("40 02 00 02"), hex("90 03 00 01 01")]);
        client.expect("t", "first");
    });
}

#[test]
fn client_ids_of_letters_and_digits_are_accepted() {
    //= MQTT311-3.1.3-5, MQTT5-3.1.3-5
    in_both_modes(|broker| {
        for id in ["0123456789ABCDEFGHIJKLM", "NOPQRSTUVWXYZabcdefghij", "klmnopqrstuvwxyz", "7"] {
            for version in [V3, V4, V5] {
                Client::connect(broker, version, id).ping();
            }
        }
    });
}

#[test]
fn long_client_ids_are_refused_by_the_old_version_alone() {
    in_both_modes(|broker| {
        let id = "0123456789ABCDEFGHIJKLMN";
        let mut old = Client::open(broker, V3);
        old.send(&Connect::new(V3, id).encode());
        old.expect_hex("20 02 00 02");
        old.expect_close();
        Client::connect(broker, V4, id).ping();
        Client::connect(broker, V5, &"x".repeat(1000)).ping();
    });
}

#[test]
fn the_old_version_needs_a_client_id() {
    in_both_modes(|broker| {
        let mut old = Client::open(broker, V3);
        old.send(&Connect::new(V3, "").encode());
        old.expect_hex("20 02 00 02");
        old.expect_close();
    });
}

#[test]
fn client_ids_that_are_no_text_are_refused() {
    //= MQTT5-3.1.3-4, MQTT311-3.1.3-4
    //= B01, B03, MQTT311-1.5.3-1, MQTT311-1.5.3-2, MQTT5-1.5.4-1, MQTT5-1.5.4-2
    in_both_modes(|broker| {
        closes(broker, "10 0F 00 04 4D 51 54 54 04 02 00 3C 00 03 61 00 62");
        closes(broker, "10 0E 00 04 4D 51 54 54 04 02 00 3C 00 02 FF FE");
        closes(broker, "10 0F 00 04 4D 51 54 54 04 02 00 3C 00 03 ED A0 80");
        closes(broker, "10 0E 00 04 4D 51 54 54 04 02 00 3C 00 02 C0 80");
        refuses(broker, V5, "10 10 00 04 4D 51 54 54 05 02 00 3C 00 00 03 61 00 62");
        refuses(broker, V5, "10 0F 00 04 4D 51 54 54 05 02 00 3C 00 00 02 FF FE");
        refuses(broker, V5, "10 10 00 04 4D 51 54 54 05 02 00 3C 00 00 03 ED A0 80");
    });
}

#[test]
fn an_empty_client_id_needs_a_clean_session() {
    //= MQTT311-3.1.3-7
    //= B04, MQTT311-3.1.3-8, MQTT311-3.1.3-9, MQTT311-3.2.2-4, MQTT311-3.2.2-5
    in_both_modes(|broker| {
        let mut client = Client::open(broker, V4);
        client.send_hex("10 0C 00 04 4D 51 54 54 04 00 00 3C 00 00");
        client.expect_hex("20 02 00 02");
        client.expect_close();
    });
}

#[test]
fn an_empty_user_name_is_a_user_name() {
    //= B06
    in_both_modes(|broker| {
        let mut client = Client::open(broker, V4);
        client.send_hex("10 12 00 04 4D 51 54 54 04 C2 00 3C 00 01 61 00 00 00 01 70");
        client.expect_hex("20 02 00 00");
    });
}

#[test]
fn a_user_name_that_is_announced_and_missing_is_refused() {
    //= MQTT5-3.1.2-17, MQTT311-3.1.2-19
    //= B06, MQTT311-3.1.4-1, MQTT5-3.1.4-1
    in_both_modes(|broker| {
        closes(broker, "10 0D 00 04 4D 51 54 54 04 82 00 3C 00 01 61");
        refuses(broker, V5, "10 0E 00 04 4D 51 54 54 05 82 00 3C 00 00 01 61");
    });
}

#[test]
fn a_password_needs_a_user_name_before_version_5() {
    //= MQTT311-3.1.2-22
    //= MQTT311-3.1.4-1
    in_both_modes(|broker| {
        closes(broker, "10 10 00 04 4D 51 54 54 04 42 00 3C 00 01 61 00 01 70");
        let mut five = Client::open(broker, V5);
        five.send_hex("10 11 00 04 4D 51 54 54 05 42 00 3C 00 00 01 61 00 01 70");
        Accepted::decode(&five.expect_packet(), V5);
    });
}

#[test]
fn a_connect_that_breaks_the_rules_is_closed_before_any_timeout() {
    //= MQTT311-3.1.4-1
    let broker = Broker::start(false, &["--connect-timeout", "600s"]);
    closes(&broker, "10 0D 00 04 4D 51 54 54 04 82 00 3C 00 01 61");
}

#[test]
fn clients_without_ids_do_not_share_one() {
    //= B08, MQTT5-3.1.3-6, MQTT5-3.1.3-7, MQTT5-3.2.2-16, MQTT311-3.1.3-6
    in_both_modes(|broker| {
        let mut assigned = Vec::new();
        let mut clients = Vec::new();
        for _ in 0..2 {
            let mut client = Client::open(broker, V5);
            client.send_hex("10 0D 00 04 4D 51 54 54 05 02 00 3C 00 00 00");
            let accepted = Accepted::decode(&client.expect_packet(), V5);
            let ids = accepted.all(0x12);
            assert_eq!(ids.len(), 1, "one assigned identifier");
            assert!(!ids[0].is_empty());
            assigned.push(ids[0].to_vec());
            clients.push(client);
        }
        assert_ne!(assigned[0], assigned[1]);
        clients.push(Client::connect(broker, V4, ""));
        clients.push(Client::connect(broker, V4, ""));
        clients.iter_mut().for_each(Client::ping);
    });
}

#[test]
fn an_assigned_id_names_the_session_from_then_on() {
    //= MQTT5-3.1.3-7, MQTT5-3.1.3-2
    in_both_modes(|broker| {
        let (client, accepted) = Connect::new(V5, "").properties("11 00 00 0E 10").open(broker);
        let id = String::from_utf8(accepted.all(0x12)[0].to_vec()).unwrap();
        client.disconnect();
        let (_again, accepted) = Connect::persistent(V5, &id).open(broker);
        assert!(accepted.session_present);
        assert!(accepted.all(0x12).is_empty(), "an id that the client sent is not assigned");
    });
}

#[test]
fn a_second_connect_is_a_protocol_error() {
    //= MQTT5-3.1.0-2, MQTT311-3.1.0-2, MQTT5-3.2.0-2, MQTT5-4.13.1-1
    in_both_modes(|broker| {
        for version in [V3, V4, V5] {
            let mut client = Client::connect(broker, version, "a");
            client.send(&Connect::new(version, "a").encode());
            client.expect_end(&[0x82]);
        }
    });
}

#[test]
fn nothing_but_connect_may_come_first() {
    //= MQTT5-3.1.0-1, MQTT311-3.1.0-1
    //= MQTT5-3.14.0-1
    in_both_modes(|broker| {
        for first in [
            "C0 00",
            "E0 00",
            "30 03 00 01 74",
            "32 05 00 01 74 00 01",
            "82 06 00 01 00 01 74 00",
            "20 02 00 00",
            "F0 00",
        ] {
            closes(broker, first);
        }
    });
}

#[test]
fn other_protocol_names_are_refused() {
    //= MQTT5-3.1.2-1, MQTT311-3.1.2-1
    in_both_modes(|broker| {
        refuses(broker, V4, "10 0D 00 04 4D 51 54 58 04 02 00 3C 00 01 61");
        refuses(broker, V4, "10 0D 00 04 6D 71 74 74 04 02 00 3C 00 01 61");
        refuses(broker, V4, "10 09 00 00 04 02 00 3C 00 01 61");
        refuses(broker, V4, "10 0F 00 06 4D 51 49 73 64 70 04 02 00 3C 00 01 61");
        refuses(broker, V4, "10 0D 00 04 4D 51 54 54 03 02 00 3C 00 01 61");
    });
}

#[test]
fn other_protocol_levels_are_refused() {
    //= MQTT5-3.1.2-2, MQTT311-3.1.2-2
    in_both_modes(|broker| {
        for level in ["00", "02", "06", "FF"] {
            let digits = format!("10 0D 00 04 4D 51 54 54 {level} 02 00 3C 00 01 61");
            refuses(broker, V4, &digits);
        }
    });
}

#[test]
fn the_reserved_connect_flag_is_checked() {
    //= MQTT5-3.1.2-3, MQTT311-3.1.2-3
    in_both_modes(|broker| {
        closes(broker, "10 0D 00 04 4D 51 54 54 04 03 00 3C 00 01 61");
        refuses(broker, V5, "10 0E 00 04 4D 51 54 54 05 03 00 3C 00 00 01 61");
    });
}

#[test]
fn flags_in_the_fixed_header_of_connect_are_checked() {
    //= MQTT311-2.2.2-1, MQTT311-2.2.2-2, MQTT5-2.1.3-1
    in_both_modes(|broker| {
        refuses(broker, V4, "11 0D 00 04 4D 51 54 54 04 02 00 3C 00 01 61");
        refuses(broker, V5, "18 0E 00 04 4D 51 54 54 05 02 00 3C 00 00 01 61");
    });
}

#[test]
fn will_flags_without_a_will_are_refused() {
    //= MQTT311-3.1.2-15
    //= MQTT5-3.1.2-11, MQTT5-3.1.2-13, MQTT311-3.1.2-11, MQTT311-3.1.2-13
    in_both_modes(|broker| {
        for flags in ["0A", "12", "22", "3A"] {
            closes(broker, &format!("10 0D 00 04 4D 51 54 54 04 {flags} 00 3C 00 01 61"));
            let five = format!("10 0E 00 04 4D 51 54 54 05 {flags} 00 3C 00 00 01 61");
            refuses(broker, V5, &five);
        }
    });
}

#[test]
fn a_will_of_qos_3_is_refused() {
    //= MQTT5-3.1.2-12, MQTT311-3.1.2-14
    in_both_modes(|broker| {
        closes(broker, "10 13 00 04 4D 51 54 54 04 1E 00 3C 00 01 61 00 01 74 00 01 77");
        refuses(broker, V5, "10 15 00 04 4D 51 54 54 05 1E 00 3C 00 00 01 61 00 00 01 74 00 01 77");
    });
}

#[test]
fn a_will_topic_with_wildcards_is_refused() {
    //= MQTT5-4.7.0-1, MQTT311-4.7.1-1
    in_both_modes(|broker| {
        refuses(broker, V4, "10 13 00 04 4D 51 54 54 04 06 00 3C 00 01 61 00 01 23 00 01 77");
        refuses(broker, V5, "10 15 00 04 4D 51 54 54 05 06 00 3C 00 00 01 61 00 00 01 2B 00 01 77");
    });
}

#[test]
fn a_connect_with_bytes_left_over_is_refused() {
    //= MQTT311-3.1.4-1, MQTT5-3.1.4-1
    in_both_modes(|broker| {
        closes(broker, "10 0E 00 04 4D 51 54 54 04 02 00 3C 00 01 61 00");
        refuses(broker, V5, "10 0F 00 04 4D 51 54 54 05 02 00 3C 00 00 01 61 00");
    });
}

#[test]
fn nothing_is_processed_behind_a_refused_connect() {
    //= MQTT5-3.1.4-6, MQTT311-3.1.4-5, MQTT5-3.2.2-6, MQTT5-3.2.2-7
    in_both_modes(|broker| {
        let mut watcher = Client::connect(broker, V4, "watcher");
        watcher.subscribe("t", 0);
        let mut refused = Client::open(broker, V4);
        let mut all = hex("10 0C 00 04 4D 51 54 54 04 00 00 3C 00 00");
        all.extend(Publish::new("t", "refused").encode(V4));
        refused.send(&all);
        refused.expect_hex("20 02 00 02");
        refused.expect_close();
        Client::connect(broker, V4, "other").say("t", "accepted", 0);
        watcher.expect("t", "accepted");
    });
}

#[test]
fn connect_properties_with_forbidden_values_are_refused() {
    //= MQTT5-3.1.4-1, MQTT5-4.13.1-1, MQTT5-4.13.2-1, MQTT5-3.2.2-8
    in_both_modes(|broker| {
        for (properties, codes) in [
            ("21 00 00", [0x82, 0x82]),
            ("27 00 00 00 00", [0x82, 0x82]),
            ("17 02", [0x82, 0x82]),
            ("19 02", [0x82, 0x82]),
            ("21 00 01 21 00 01", [0x82, 0x82]),
            ("11 00 00 00 01 11 00 00 00 01", [0x82, 0x82]),
            ("16 00 01 61", [0x82, 0x82]),
            ("01 00", [0x81, 0x82]),
            ("7F 00", [0x81, 0x81]),
            ("26 00 01 61", [0x81, 0x81]),
        ] {
            let mut client = Client::open(broker, V5);
            client.send(&Connect::new(V5, "a").properties(properties).encode());
            match client.receive(support::PATIENCE) {
                support::Received::Closed => continue,
                support::Received::Packet(packet) => {
                    assert_eq!((packet[0], packet[2]), (0x20, 0), "{properties}");
                    assert!(codes.contains(&packet[3]), "{properties}: {:02X}", packet[3]);
                }
                support::Received::Nothing => panic!("no answer to {properties}"),
            }
            client.expect_close();
        }
    });
}

#[test]
fn unknown_ways_to_authenticate_are_refused() {
    //= MQTT5-4.12.0-1, MQTT5-3.1.4-2, MQTT5-4.12.0-4
    in_both_modes(|broker| {
        let mut client = Client::open(broker, V5);
        client.send(&Connect::new(V5, "a").properties("15 00 01 58").encode());
        let answer = client.expect_packet();
        assert_eq!((answer[0], answer[2]), (0x20, 0));
        assert!([0x8C, 0x87].contains(&answer[3]), "{:02X}", answer[3]);
        client.expect_close();
    });
}

#[test]
fn auth_without_a_method_is_a_protocol_error() {
    //= MQTT5-4.12.0-6, MQTT5-4.12.1-2, MQTT5-3.15.1-1, MQTT5-2.1.3-1
    in_both_modes(|broker| {
        for (digits, codes) in [
            ("F0 00", &[0x82][..]),
            ("F0 02 18 00", &[0x82]),
            ("F0 08 19 06 15 00 03 61 62 63", &[0x81, 0x82]),
            ("F1 00", &[0x81, 0x82]),
        ] {
            let mut client = Client::connect(broker, V5, "a");
            client.send_hex(digits);
            client.expect_end(codes);
        }
    });
}

#[test]
fn the_answer_to_connect_holds_what_was_asked_for_alone() {
    //= MQTT5-3.1.2-28, MQTT5-3.2.2-22, MQTT5-4.12.0-6, MQTT5-3.2.2-8
    in_both_modes(|broker| {
        let (_client, accepted) = Connect::new(V5, "a").open(broker);
        for (id, what) in [
            (0x12, "an assigned identifier"),
            (0x13, "a keep alive of the server's"),
            (0x15, "an authentication method"),
            (0x16, "authentication data"),
            (0x1A, "response information"),
            (0x1C, "a server reference"),
            (0x24, "a maximum QoS: all are served"),
        ] {
            assert!(accepted.all(id).is_empty(), "{what}");
        }
        for id in [0x25, 0x28, 0x29, 0x2A] {
            assert!(accepted.all(id).iter().all(|value| value == &[1]), "{id:02X} is served");
        }
    });
}

#[test]
fn many_clients_at_once_each_get_their_own_answer() {
    //= MQTT5-4.5.0-1
    in_both_modes(|broker| {
        let mut random = Random::new(7);
        let mut clients: Vec<Client> = (0..100)
            .map(|n| Client::connect(broker, if n % 2 == 0 { V4 } else { V5 }, &format!("c{n}")))
            .collect();
        for (n, client) in clients.iter_mut().enumerate() {
            client.subscribe(&format!("to/{n}"), 1);
        }
        for _ in 0..200 {
            let from = usize::try_from(random.below(100)).unwrap();
            let to = usize::try_from(random.below(100)).unwrap();
            let payload = format!("from {from}");
            clients[from].say(&format!("to/{to}"), &payload, 1);
            clients[to].expect(&format!("to/{to}"), &payload);
        }
        clients.iter_mut().for_each(Client::ping_without_messages);
    });
}

#[test]
fn a_connect_of_the_largest_strings_is_accepted() {
    //= MQTT5-4.7.3-3, MQTT311-4.7.3-3
    in_both_modes(|broker| {
        let mut body = text("MQTT");
        body.extend([5, 0xC6, 0, 60, 0]);
        body.extend(text("a"));
        body.push(0);
        body.extend(text(&"t".repeat(65_535)));
        for _ in 0..3 {
            body.extend(text(&"u".repeat(65_535)));
        }
        let mut client = Client::open(broker, V5);
        client.send(&packet(0x10, &body));
        Accepted::decode(&client.expect_packet(), V5);
    });
}

#[test]
fn who_asks_is_told_where_to_expect_responses() {
    //= MQTT5-3.1.2-28
    let broker = Broker::start(false, &["--response-information", "response/%c"]);
    for (id, asks, told) in [
        ("c", "19 01", Some("response/c")),
        ("c", "19 00", None),
        ("c", "", None),
        ("c/+", "19 01", None),
    ] {
        let (_, accepted) = Connect::new(V5, id).properties(asks).open(&broker);
        let told: Vec<&[u8]> = told.into_iter().map(str::as_bytes).collect();
        assert_eq!(accepted.all(0x1A), told, "{id} {asks}");
    }
}
