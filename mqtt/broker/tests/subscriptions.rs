//! SUBSCRIBE and UNSUBSCRIBE: what is granted, which topics match, who gets which copy.

mod support;

use Version::{V3, V4, V5};
use support::{
    Client, Connect, Publish, Version, ends, in_both_modes, packet, payloads_up_to, text,
};

#[test]
fn each_filter_gets_its_code_in_order() {
    //= MQTT311-3.8.4-1, MQTT311-3.8.4-2, MQTT311-3.8.4-4, MQTT311-3.8.4-5, MQTT311-3.9.3-1
    //= MQTT311-3.9.3-2, MQTT311-2.3.1-7, MQTT5-3.8.4-1, MQTT5-3.8.4-2, MQTT5-3.8.4-5
    //= MQTT5-3.8.4-6, MQTT5-3.8.4-7, MQTT5-3.9.3-1, MQTT5-3.9.3-2, MQTT5-2.2.1-6, MQTT5-3.2.2-10
    in_both_modes(|broker| {
        for version in [V3, V4, V5] {
            let mut client = Client::connect(broker, version, "a");
            let filters = [("a", 2), ("b", 0), ("c", 1), ("d/#", 2), ("a", 1)];
            assert_eq!(client.subscribe_with("", &filters), [2, 0, 1, 2, 1]);
            for topic in ["a", "b", "c", "d/x"] {
                client.say(topic, topic, 1);
                client.expect(topic, topic);
            }
        }
        // The session has them all.
        let (mut client, _) = Connect::persistent(V5, "kept").open(broker);
        client.subscribe_with("", &[("a", 1), ("b", 1)]);
        client.disconnect();
        let (mut client, _) = Connect::persistent(V5, "kept").open(broker);
        assert_eq!(client.unsubscribe(&["a", "b"]), [0, 0]);
        let mut client = Client::connect(broker, V4, "a");
        client.send_hex("82 0A AB CD 00 01 61 01 00 01 62 00");
        client.expect_hex("90 04 AB CD 01 00");
    });
}

#[test]
fn unsubscribe_is_answered_whether_or_not_anything_matched() {
    //= MQTT311-3.10.4-4, MQTT311-3.10.4-5, MQTT311-3.10.4-6, MQTT5-3.10.4-4, MQTT5-3.10.4-5
    //= MQTT5-3.10.4-6, MQTT5-3.11.3-1, MQTT5-3.11.3-2, MQTT5-2.2.1-6, MQTT311-2.3.1-7
    in_both_modes(|broker| {
        let mut five = Client::connect(broker, V5, "five");
        five.subscribe("a", 0);
        five.subscribe("b", 0);
        assert_eq!(five.unsubscribe(&["x", "a", "a", "b"]), [0x11, 0, 0x11, 0]);
        assert_eq!(five.unsubscribe(&["a", "b"]), [0x11, 0x11]);
        let mut four = Client::connect(broker, V4, "four");
        four.subscribe("a", 0);
        four.send_hex("A2 08 00 09 00 01 61 00 01 78");
        four.expect_hex("B0 02 00 09");
    });
}

#[test]
fn unsubscribed_filters_get_nothing_more() {
    //= MQTT311-3.10.4-1, MQTT311-3.10.4-2, MQTT311-3.10.4-6
    //= MQTT5-3.10.4-1, MQTT5-3.10.4-2, MQTT5-3.10.4-6
    in_both_modes(|broker| {
        for version in [V4, V5] {
            let mut client = Client::connect(broker, version, "a");
            client.subscribe("a/+", 1);
            client.subscribe("a/#", 1);
            // Not this filter, though it matches the same topics.
            client.unsubscribe(&["+/b", "a/b"]);
            client.say("a/b", "both", 1);
            client.expect("a/b", "both");
            client.unsubscribe(&["a/#", "a/+"]);
            client.subscribe("marker", 1);
            client.say("a/b", "none", 1);
            client.say("marker", "x", 1);
            let copies = payloads_up_to(&mut client, "x");
            // Before version 5 the first message may have come once for each filter.
            assert!(copies.iter().all(|payload| payload == "both"), "{copies:?}");
        }
    });
}

#[test]
fn a_delivery_under_way_is_completed_after_unsubscribe() {
    //= MQTT5-3.10.4-3, MQTT311-3.10.4-3
    in_both_modes(|broker| {
        for version in [V4, V5] {
            let mut client = Client::connect(broker, version, "a");
            client.subscribe("t", 2);
            client.say("t", "x", 2);
            let message = client.expect_message();
            client.unsubscribe(&["t"]);
            client.acknowledge(&message);
        }
    });
}

#[test]
fn filters_that_are_no_text_end_the_connection() {
    //= B02, B03, MQTT311-1.5.3-1, MQTT311-1.5.3-2, MQTT311-4.7.3-2, MQTT5-1.5.4-1, MQTT5-1.5.4-2
    //= MQTT5-4.7.3-2
    in_both_modes(|broker| {
        ends(broker, V4, "82 08 00 01 00 03 61 00 62 00", &[]);
        ends(broker, V4, "82 08 00 01 00 03 ED A0 80 00", &[]);
        ends(broker, V4, "82 07 00 01 00 02 C3 28 00", &[]);
        ends(broker, V5, "82 09 00 01 00 00 03 61 00 62 00", &[0x81, 0x8F]);
        ends(broker, V5, "82 09 00 01 00 00 03 ED A0 80 00", &[0x81, 0x8F]);
        ends(broker, V4, "A2 07 00 01 00 03 61 00 62", &[]);
        ends(broker, V5, "A2 08 00 01 00 00 03 ED A0 80", &[0x81, 0x8F]);
    });
}

#[test]
fn topics_that_are_no_text_end_the_connection() {
    //= B03, MQTT311-1.5.3-1, MQTT311-1.5.3-2, MQTT5-1.5.4-1, MQTT5-1.5.4-2, MQTT5-3.3.2-1
    //= MQTT311-3.3.2-1
    in_both_modes(|broker| {
        for topic in ["00 03 61 00 62", "00 03 ED A0 80", "00 03 C0 80 61"] {
            ends(broker, V4, &format!("30 05 {topic}"), &[]);
            ends(broker, V5, &format!("30 06 {topic} 00"), &[0x81, 0x90]);
        }
    });
}

#[test]
fn a_byte_order_mark_is_a_character() {
    //= B03, MQTT311-1.5.3-3, MQTT5-1.5.4-3
    in_both_modes(|broker| {
        for version in [V4, V5] {
            let mut client = Client::connect(broker, version, "a");
            client.subscribe("a", 1);
            client.subscribe("\u{FEFF}a", 1);
            client.say("\u{FEFF}a", "marked", 1);
            client.expect("\u{FEFF}a", "marked");
            client.say("a", "plain", 1);
            client.expect("a", "plain");
            client.ping_without_messages();
        }
    });
}

#[test]
fn nothing_is_normalised_while_matching() {
    //= MQTT5-4.7.3-4, MQTT311-4.7.3-4, MQTT5-3.3.2-3, MQTT311-3.3.2-3
    in_both_modes(|broker| {
        let mut client = Client::connect(broker, V5, "a");
        let topics = ["A", "a", "\u{e9}", "e\u{301}", " a", "a ", "a%2Fb", "\u{212b}", "\u{c5}"];
        for topic in topics {
            client.subscribe(topic, 1);
        }
        for topic in topics {
            client.say(topic, topic, 1);
            client.expect(topic, topic);
        }
        client.ping_without_messages();
    });
}

#[test]
fn levels_match_as_they_are_written() {
    //= B31, MQTT5-3.3.2-3, MQTT311-3.3.2-3
    in_both_modes(|broker| {
        let cases: [(&str, &[&str], &[&str]); 10] = [
            ("a/+/b", &["a//b", "a/x/b"], &["a/b", "a/x/y/b", "a/x/b/"]),
            ("a/#", &["a//b", "a", "a/", "a/b/c"], &["ab", "/a", "b/a"]),
            ("+/+", &["/", "a/", "/a", "a/b"], &["a", "a/b/c", "//"]),
            ("+", &["a", "b"], &["/", "a/", "/a", "a/b"]),
            ("#", &["/", "a", "a/b", "//"], &[]),
            ("/+", &["/a", "/"], &["a", "//", "/a/b"]),
            ("/#", &["/", "/a/b", "//"], &["a", "a/"]),
            ("a/+", &["a/b", "a/"], &["a", "a/b/"]),
            ("a/+/#", &["a/b", "a/b/c", "a/", "a//"], &["a"]),
            ("+/b/#", &["/b", "a/b", "a/b/c"], &["b", "a/c/b"]),
        ];
        let mut publisher = Client::connect(broker, V4, "publisher");
        for (filter, matching, others) in cases {
            let mut client = Client::connect(broker, V4, "a");
            client.subscribe(filter, 1);
            for topic in matching {
                publisher.say(topic, topic, 1);
                client.expect(topic, topic);
            }
            for topic in others {
                publisher.say(topic, "no match", 1);
            }
            publisher.say(matching[0], "marker", 1);
            client.expect(matching[0], "marker");
        }
    });
}

#[test]
fn wildcards_do_not_match_system_topics() {
    //= MQTT5-4.7.2-1, MQTT311-4.7.2-1
    in_both_modes(|broker| {
        let mut client = Client::connect(broker, V4, "a");
        for filter in ["#", "+/x", "+/#", "/#"] {
            client.subscribe(filter, 1);
        }
        client.say("$test/x", "hidden", 1);
        client.say("/marker", "x", 1);
        let copies = payloads_up_to(&mut client, "x");
        assert!(copies.is_empty(), "{copies:?}");
    });
}

#[test]
fn system_topics_match_filters_that_name_them() {
    in_both_modes(|broker| {
        let mut client = Client::connect(broker, V4, "a");
        client.subscribe("$test/#", 1);
        client.say("$test/x", "named", 1);
        client.expect("$test/x", "named");
        client.subscribe("$test/+/y", 1);
        client.unsubscribe(&["$test/#"]);
        client.say("$test/x/y", "named", 1);
        client.expect("$test/x/y", "named");
    });
}

#[test]
fn the_longest_topic_is_a_topic() {
    //= MQTT5-4.7.3-3, MQTT311-4.7.3-3
    in_both_modes(|broker| {
        let topic = "t".repeat(65_535);
        let mut client = Client::connect(broker, V4, "a");
        client.subscribe(&topic, 1);
        client.say(&topic, "long", 1);
        client.expect(&topic, "long");
    });
}

#[test]
fn malformed_filters_are_refused() {
    //= MQTT5-4.7.1-1, MQTT5-4.7.1-2, MQTT5-4.7.3-1, MQTT311-4.7.1-2, MQTT311-4.7.1-3
    //= MQTT311-4.7.3-1
    in_both_modes(|broker| {
        for filter in ["a#", "#/a", "a/#/b", "a+", "+a", "a/+b", "a/b+/c", "##", "++", ""] {
            for version in [V4, V5] {
                let mut client = Client::connect(broker, version, "faulty");
                let mut body = vec![0, 1];
                if version == V5 {
                    body.push(0);
                }
                body.extend(text(filter));
                body.push(0);
                client.send(&packet(0x82, &body));
                match client.receive(support::PATIENCE) {
                    support::Received::Closed => {}
                    support::Received::Packet(packet) if packet[0] == 0xE0 => {
                        assert!(version == V5, "a DISCONNECT before version 5");
                        client.expect_close();
                    }
                    support::Received::Packet(packet) => {
                        let code = packet.last().copied().unwrap();
                        assert_eq!(packet[0], 0x90);
                        assert!(code >= 0x80, "{filter} is granted");
                    }
                    support::Received::Nothing => panic!("no answer to {filter}"),
                }
            }
        }
    });
}

#[test]
fn topics_with_wildcards_or_without_characters_end_the_connection() {
    //= MQTT5-3.3.2-2, MQTT5-4.7.0-1, MQTT5-4.7.3-1, MQTT311-3.3.2-2, MQTT311-4.7.1-1
    //= MQTT311-4.7.3-1
    in_both_modes(|broker| {
        for topic in ["00 01 23", "00 01 2B", "00 03 61 2F 23", "00 03 61 2B 62"] {
            let len = topic.split(' ').count();
            ends(broker, V4, &format!("30 {len:02X} {topic}"), &[]);
            ends(broker, V5, &format!("30 {:02X} {topic} 00", len + 1), &[0x81, 0x82, 0x90]);
        }
        ends(broker, V4, "30 02 00 00", &[]);
        ends(broker, V5, "30 03 00 00 00", &[0x82, 0x90]);
    });
}

#[test]
fn empty_lists_of_filters_end_the_connection() {
    //= MQTT5-3.8.3-2, MQTT5-3.10.3-2, MQTT311-3.8.3-3, MQTT311-3.10.3-2
    //= MQTT5-4.13.1-1, MQTT311-4.8.0-1
    in_both_modes(|broker| {
        ends(broker, V4, "82 02 00 01", &[]);
        ends(broker, V4, "A2 02 00 01", &[]);
        ends(broker, V5, "82 03 00 01 00", &[0x82]);
        ends(broker, V5, "A2 03 00 01 00", &[0x82]);
    });
}

#[test]
fn reserved_bits_of_the_options_end_the_connection() {
    //= MQTT5-3.8.3-5, MQTT311-3.8.3-4
    in_both_modes(|broker| {
        for options in ["03", "04", "08", "10", "80"] {
            ends(broker, V4, &format!("82 06 00 01 00 01 74 {options}"), &[]);
        }
        for options in ["03", "30", "40", "80"] {
            ends(broker, V5, &format!("82 07 00 01 00 00 01 74 {options}"), &[0x81, 0x82]);
        }
    });
}

#[test]
fn overlapping_filters_deliver_at_the_highest_qos() {
    //= B23, MQTT5-3.3.4-2, MQTT311-3.3.5-1
    in_both_modes(|broker| {
        for version in [V4, V5] {
            let mut client = Client::connect(broker, version, "a");
            client.subscribe("a/+", 0);
            client.subscribe("a/b", 1);
            client.say("a/b", "x", 1);
            client.say("a/b", "marker", 1);
            let mut best = 0;
            loop {
                let message = client.expect_message();
                client.acknowledge(&message);
                if message.payload_text() == "marker" {
                    break;
                }
                best = best.max(message.qos);
            }
            assert_eq!(best, 1);
        }
    });
}

#[test]
fn a_message_carries_the_identifiers_of_all_matching_subscriptions() {
    //= MQTT5-3.3.4-3, MQTT5-3.3.4-4, MQTT5-3.3.4-5
    in_both_modes(|broker| {
        let mut client = Client::connect(broker, V5, "a");
        client.subscribe_with("0B 01", &[("a/#", 1)]);
        client.subscribe_with("0B FF FF FF 7F", &[("a/+", 1)]);
        client.subscribe_with("0B 80 01", &[("a/b", 0)]);
        client.subscribe("+/b", 1);
        client.subscribe_with("0B 05", &[("other", 1)]);
        client.say("a/b", "x", 1);
        client.say("a/b", "marker", 1);
        let mut ids = Vec::new();
        while let message = client.expect_message()
            && message.payload_text() == "x"
        {
            ids.extend(message.subscription_ids());
            client.acknowledge(&message);
        }
        ids.sort_unstable();
        assert_eq!(ids, [1, 128, 268_435_455]);
    });
}

#[test]
fn subscribing_again_replaces_identifier_and_qos() {
    //= B25, MQTT5-3.8.4-3, MQTT311-3.8.4-3
    in_both_modes(|broker| {
        let mut client = Client::connect(broker, V5, "a");
        client.send_hex("82 09 00 01 02 0B 01 00 01 74 00");
        assert_eq!(client.expect_codes(0x90, 1), [0]);
        client.send_hex("82 09 00 02 02 0B 02 00 01 74 01");
        assert_eq!(client.expect_codes(0x90, 2), [1]);
        client.say("t", "x", 1);
        let message = client.expect("t", "x");
        assert_eq!((message.subscription_ids(), message.qos), (vec![2], 1));
        client.subscribe("t", 0);
        client.say("t", "y", 1);
        let message = client.expect("t", "y");
        assert_eq!((message.subscription_ids(), message.qos), (vec![], 0));
        client.ping_without_messages();
    });
}

#[test]
fn one_bad_filter_does_not_refuse_the_others() {
    //= B26, MQTT5-3.8.4-6, MQTT5-4.8.2-1
    in_both_modes(|broker| {
        let mut client = Client::connect(broker, V5, "a");
        let mut body = vec![0, 1, 0];
        for filter in ["a", "$share//b"] {
            body.extend(text(filter));
            body.push(1);
        }
        client.send(&packet(0x82, &body));
        match client.receive(support::PATIENCE) {
            support::Received::Packet(packet) if packet[0] == 0x90 => {
                assert_eq!(packet[packet.len() - 2..], [1, 0x8F]);
                client.say("a", "good", 1);
                client.expect("a", "good");
            }
            support::Received::Packet(packet) => {
                assert_eq!(packet[0], 0xE0);
                assert!([0x81, 0x82, 0x8F].contains(&packet[2]), "{:02X}", packet[2]);
                client.expect_close();
            }
            other => panic!("{other:?}"),
        }
    });
}

#[test]
fn a_subscription_identifier_of_zero_ends_the_connection() {
    //= MQTT5-4.13.1-1
    in_both_modes(|broker| {
        ends(broker, V5, "82 09 00 01 02 0B 00 00 01 74 00", &[0x81, 0x82]);
        ends(broker, V5, "82 0B 00 01 04 0B 01 0B 02 00 01 74 00", &[0x82]);
    });
}

#[test]
fn a_client_may_not_publish_a_subscription_identifier() {
    //= MQTT5-3.3.4-6
    //= B23
    in_both_modes(|broker| {
        ends(broker, V5, "30 06 00 01 61 02 0B 01", &[0x82]);
    });
}

#[test]
fn no_local_keeps_own_messages_away() {
    //= MQTT5-3.8.3-3
    in_both_modes(|broker| {
        let mut client = Client::connect(broker, V5, "a");
        client.subscribe("t", 0x05);
        client.subscribe("marker", 0x01);
        client.say("t", "own", 1);
        client.say("marker", "x", 1);
        client.expect("marker", "x");
        Client::connect(broker, V5, "b").say("t", "another's", 1);
        client.expect("t", "another's");
    });
}

#[test]
fn no_local_goes_by_client_id_and_lasts_with_the_session() {
    //= MQTT5-3.8.3-3
    in_both_modes(|broker| {
        let connect = Connect::persistent(V5, "a");
        let (mut client, _) = connect.open(broker);
        client.subscribe("t", 0x05);
        client.subscribe("marker", 0x01);
        client.disconnect();
        let (mut client, _) = connect.open(broker);
        client.say("t", "own", 1);
        client.say("marker", "x", 1);
        client.expect("marker", "x");
    });
}

#[test]
fn aliases_stand_for_topics() {
    //= MQTT5-3.3.2-12, MQTT5-3.3.2-7
    in_both_modes(|broker| {
        let (mut client, accepted) = Connect::new(V5, "a").open(broker);
        let max = accepted.number(0x22).expect("the broker takes aliases");
        let alias = |n: u32| format!("23 {:02X} {:02X}", n >> 8, n & 0xFF);
        client.subscribe("#", 0);
        for n in 1..=max {
            let topic = format!("t{n}");
            client.publish(&Publish::new(&topic, "full").properties(&alias(n)));
            let message = client.expect(&topic, "full");
            assert!(message.all(0x23).is_empty(), "an alias nobody asked for");
        }
        for n in 1..=max {
            client.publish(&Publish::new("", "short").properties(&alias(n)));
            client.expect(&format!("t{n}"), "short");
        }
        client.publish(&Publish::new("other", "full").properties(&alias(1)));
        client.expect("other", "full");
        client.publish(&Publish::new("", "short").properties(&alias(1)));
        client.expect("other", "short");
        // The next connection knows none of them.
        client.disconnect();
        ends(broker, V5, "30 06 00 00 03 23 00 01", &[0x82]);
    });
}

#[test]
fn aliases_without_meaning_end_the_connection() {
    //= MQTT5-3.2.2-17, MQTT5-3.3.2-9
    //= B16, MQTT5-4.13.1-1
    in_both_modes(|broker| {
        ends(broker, V5, "30 06 00 00 03 23 00 03", &[0x82, 0x94]);
        ends(broker, V5, "30 07 00 01 74 03 23 00 00", &[0x94]);
        ends(broker, V5, "30 07 00 01 74 03 23 FF FF", &[0x94]);
        ends(broker, V5, "30 0A 00 01 74 06 23 00 01 23 00 01", &[0x82]);
    });
}

#[test]
fn servers_send_aliases_only_within_what_the_client_takes() {
    //= MQTT5-3.1.2-26, MQTT5-3.1.2-27, MQTT5-3.3.2-11, MQTT5-3.3.2-8
    in_both_modes(|broker| {
        for (maximum, digits) in [(0, ""), (2, "22 00 02")] {
            let (mut client, _) = Connect::new(V5, "a").properties(digits).open(broker);
            client.subscribe("#", 0);
            let mut names = vec![String::new(); maximum + 1];
            for n in 0..20 {
                let topic = format!("t{}", n % 5);
                client.say(&topic, "x", 0);
                let message = client.expect_message();
                let mut got = message.topic.clone();
                if let Some(alias) = message.number(0x23) {
                    let alias = usize::try_from(alias).unwrap();
                    assert!((1..=maximum).contains(&alias), "alias {alias}");
                    if got.is_empty() {
                        got.clone_from(&names[alias]);
                    }
                    names[alias].clone_from(&got);
                }
                assert_eq!(got, topic);
            }
        }
    });
}

#[test]
fn ten_thousand_subscriptions_of_one_client() {
    //= MQTT5-4.5.0-1
    in_both_modes(|broker| {
        let mut client = Client::connect(broker, V4, "a");
        for hundred in 0..100 {
            let names: Vec<String> = (0..100).map(|n| format!("s/{hundred}/{n}")).collect();
            let filters: Vec<(&str, u8)> = names.iter().map(|name| (name.as_str(), 1)).collect();
            assert_eq!(client.subscribe_with("", &filters), [1; 100]);
        }
        for (hundred, n) in [(0, 0), (50, 50), (99, 99)] {
            let topic = format!("s/{hundred}/{n}");
            client.say(&topic, "x", 1);
            client.expect(&topic, "x");
        }
    });
}

/// Bit 0x80 of the protocol level, as mosquitto's bridges set it.
#[test]
fn a_bridge_gets_back_nothing_that_it_brought_and_retained_messages_as_such() {
    //= B52
    in_both_modes(|broker| {
        for version in [V3, V4] {
            let mut connect = Connect::new(version, "bridge").encode();
            let level = if version == V3 { 10 } else { 8 };
            connect[level] |= 0x80;
            let mut bridge = Client::open(broker, version);
            bridge.send(&connect);
            bridge.expect_hex("20 02 00 00");
            bridge.subscribe("a/#", 1);
            bridge.say("a/own", "brought", 1);
            let mut other = Client::connect(broker, version, "other");
            other.retain("a/other", "retained", 1);
            assert!(bridge.expect("a/other", "retained").retain);
            other.retain("a/other", "", 1);
        }
    });
}
