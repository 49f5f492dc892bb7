//! Shared subscriptions: who of a group gets a message, and who gets it when that one goes.

mod support;

use std::collections::BTreeSet;

use Version::V5;
use support::{Client, Connect, Version, ends, in_both_modes, packet, payloads_up_to, text};

#[test]
fn no_local_on_a_shared_subscription_is_a_protocol_error() {
    //= B33, MQTT5-3.8.3-4
    in_both_modes(|broker| {
        let digits = "82 10 00 01 00 00 0A 24 73 68 61 72 65 2F 67 2F 61 04";
        ends(broker, V5, digits, &[0x82]);
    });
}

#[test]
fn malformed_shared_filters_are_refused() {
    //= MQTT5-4.8.2-1, MQTT5-4.8.2-2
    in_both_modes(|broker| {
        for filter in ["$share/", "$share/g", "$share/g/", "$share//t", "$share/+/t", "$share/a#/t"]
        {
            let mut client = Client::connect(broker, V5, "faulty");
            let mut body = vec![0, 1, 0];
            body.extend(text(filter));
            body.push(0);
            client.send(&packet(0x82, &body));
            match client.receive(support::PATIENCE) {
                support::Received::Packet(packet) if packet[0] == 0x90 => {
                    assert_eq!(packet.last(), Some(&0x8F), "{filter}");
                }
                support::Received::Packet(packet) => {
                    assert_eq!(packet[0], 0xE0, "{filter}");
                    client.expect_close();
                }
                other => panic!("{filter}: {other:?}"),
            }
        }
    });
}

#[test]
fn a_group_gets_each_message_once() {
    //= MQTT5-4.8.2-3, MQTT5-3.8.4-8
    in_both_modes(|broker| {
        let mut members: Vec<Client> =
            (0..3).map(|n| Client::connect(broker, V5, &format!("member {n}"))).collect();
        let mut other = Client::connect(broker, V5, "other");
        let mut plain = Client::connect(broker, V5, "plain");
        for member in &mut members {
            member.subscribe("$share/g/t/#", 1);
        }
        other.subscribe("$share/h/t/#", 0);
        plain.subscribe("t/+", 2);
        let mut publisher = Client::connect(broker, V5, "publisher");
        for n in 0..100 {
            publisher.say("t/x", &n.to_string(), 1);
        }
        let all: BTreeSet<String> = (0..100).map(|n| n.to_string()).collect();
        for _ in 0..100 {
            assert_eq!(other.expect_message().qos, 0);
            let message = plain.expect_message();
            assert_eq!(message.qos, 1);
            plain.acknowledge(&message);
        }
        // Each message has its acknowledgement, so a marker to each member comes behind them.
        let mut seen = BTreeSet::new();
        for member in &mut members {
            member.subscribe("marker", 1);
            publisher.say("marker", "end", 1);
            let got = payloads_up_to(member, "end");
            member.unsubscribe(&["marker"]);
            for payload in got {
                assert!(seen.insert(payload.clone()), "{payload} came twice");
            }
        }
        assert_eq!(seen, all);
    });
}

#[test]
fn a_message_a_lost_member_did_not_take_goes_to_another() {
    //= B34
    in_both_modes(|broker| {
        let (mut first, _) = Connect::new(V5, "first").open(broker);
        first.subscribe("$share/g/t", 1);
        Client::connect(broker, V5, "publisher").say("t", "x", 1);
        let message = first.expect_message();
        assert_eq!(message.qos, 1);
        let mut second = Client::connect(broker, V5, "second");
        second.subscribe("$share/g/t", 1);
        first.reset();
        second.expect("t", "x");
    });
}

#[test]
fn a_qos_2_message_under_way_ends_with_its_member() {
    //= B34, MQTT5-4.8.2-5
    in_both_modes(|broker| {
        let (mut first, _) = Connect::new(V5, "first").open(broker);
        first.subscribe("$share/g/t", 2);
        let mut publisher = Client::connect(broker, V5, "publisher");
        publisher.say("t", "x", 2);
        assert_eq!(first.expect_message().qos, 2);
        let mut second = Client::connect(broker, V5, "second");
        second.subscribe("$share/g/t", 2);
        // A takeover ends the session before its CONNACK, a reset would have to be waited for.
        Connect::new(V5, "first").open(broker);
        publisher.say("t", "marker", 2);
        second.expect("t", "marker");
    });
}

#[test]
fn a_qos_2_message_under_way_waits_for_its_member() {
    //= MQTT5-4.8.2-4
    in_both_modes(|broker| {
        let connect = Connect::persistent(V5, "first");
        let (mut first, _) = connect.open(broker);
        first.subscribe("$share/g/t", 2);
        let mut publisher = Client::connect(broker, V5, "publisher");
        publisher.say("t", "x", 2);
        let sent = first.expect_message();
        let mut second = Client::connect(broker, V5, "second");
        second.subscribe("$share/g/t", 2);
        first.reset();
        let (mut first, _) = connect.open(broker);
        let again = first.expect("t", "x");
        assert_eq!((again.id, again.dup), (sent.id, true));
        first.unsubscribe(&["$share/g/t"]);
        publisher.say("t", "marker", 2);
        second.expect("t", "marker");
    });
}

#[test]
fn a_refused_message_is_not_offered_to_others() {
    //= MQTT5-4.8.2-6, MQTT5-4.4.0-2
    in_both_modes(|broker| {
        let mut first = Client::connect(broker, V5, "first");
        first.subscribe("$share/g/t", 2);
        let mut publisher = Client::connect(broker, V5, "publisher");
        publisher.say("t", "one", 1);
        publisher.say("t", "two", 2);
        let (one, two) = (first.expect_message(), first.expect_message());
        let mut second = Client::connect(broker, V5, "second");
        second.subscribe("$share/g/t", 2);
        for (kind, message) in [(0x40, one), (0x50, two)] {
            let [high, low] = message.id.to_be_bytes();
            first.send(&[kind, 3, high, low, 0x80]);
        }
        first.ping_without_messages();
        // What it has not answered goes to others when its session ends, which it has before the
        // CONNACK of a takeover.
        Connect::new(V5, "first").open(broker);
        publisher.say("t", "marker", 2);
        second.expect("t", "marker");
    });
}

#[test]
fn groups_are_parted_by_name_and_filter() {
    in_both_modes(|broker| {
        let mut client = Client::connect(broker, V5, "a");
        for filter in ["$share/g/t", "$share/h/t", "$share/g/+", "t"] {
            client.subscribe(filter, 1);
        }
        client.say("t", "x", 1);
        client.subscribe("marker", 1);
        client.say("marker", "end", 1);
        let copies = payloads_up_to(&mut client, "end");
        assert!(copies.len() >= 3, "one for each group: {copies:?}");
    });
}

#[test]
fn leaving_a_group_leaves_the_others_in_it() {
    in_both_modes(|broker| {
        let mut first = Client::connect(broker, V5, "first");
        let mut second = Client::connect(broker, V5, "second");
        first.subscribe("$share/g/t", 1);
        second.subscribe("$share/g/t", 1);
        assert_eq!(first.unsubscribe(&["$share/g/t"]), [0]);
        for n in 0..10 {
            second.say("t", &n.to_string(), 1);
            second.expect("t", &n.to_string());
        }
        first.ping_without_messages();
    });
}
