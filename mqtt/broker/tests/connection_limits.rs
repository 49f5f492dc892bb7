//! Limits of connections, by flag: who is turned away or closed, with which word, and where it is
//! counted.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod support;

use std::time::Instant;

use Version::{V3, V4, V5};
use support::{Broker, Client, Connect, PATIENCE, Publish, Received, Version};

/// Calls `test` without a log and with one.
fn with_flags(flags: &[&str], test: impl Fn(&Broker)) {
    for logged in [false, true] {
        test(&Broker::start(logged, &[flags, &["--sys-interval", "50ms"]].concat()));
    }
}

/// A client that reads what the broker counts.
fn watcher(broker: &Broker) -> Client {
    Client::connect(broker, V5, "watcher")
}

/// Waits until these numbers below `$SYS/broker` are so.
fn counted(watcher: &mut Client, wanted: &[(&str, &str)]) {
    for (name, wanted) in wanted {
        watcher.expect_sys(name, |value| value == *wanted);
    }
}

/// Comes again until there is room, and it is in time.
fn comes_in(broker: &Broker, id: &str) -> Client {
    let start = Instant::now();
    loop {
        let mut client = Client::open(broker, V5);
        client.send(&Connect::new(V5, id).encode());
        if let Received::Packet(packet) = client.receive(PATIENCE)
            && packet[..4] == [0x20, packet[1], 0, 0]
        {
            return client;
        }
        assert!(start.elapsed() < PATIENCE, "turned away for ever");
    }
}

/// Somebody comes for whom there is no place.
fn turned_away(broker: &Broker, version: Version) {
    let mut client = Client::open(broker, version);
    client.send(&Connect::new(version, "turned away").encode());
    let packet = client.expect_packet();
    // Quota exceeded, and Server unavailable.
    let (code, flag) = if version == V5 { (0x97, "--max-connections") } else { (3, "") };
    assert_eq!(packet[..4], [0x20, packet[1], 0, code]);
    assert!(String::from_utf8_lossy(&packet).contains(flag));
    client.expect_close();
}

#[test]
fn so_many_connections_are_open_at_once_and_further_ones_are_counted() {
    with_flags(&["--max-connections", "3"], |broker| {
        let mut watcher = watcher(broker);
        let mut inside: Vec<Client> =
            ["a", "b"].map(|id| Client::connect(broker, V4, id)).into_iter().collect();
        for version in [V4, V5] {
            turned_away(broker, version);
        }
        let turned = [("connections/turned-away", "2"), ("connections/turned-away/address", "0")];
        counted(&mut watcher, &turned);
        assert_eq!(broker.log().matches("turns away new connections").count(), 1, "one line");
        inside.iter_mut().for_each(Client::ping);
        inside.pop();
        comes_in(broker, "late").ping();
    });
}

#[test]
fn an_address_has_so_many_connections_and_further_ones_are_counted() {
    with_flags(&["--max-connections-each", "2"], |broker| {
        let mut watcher = watcher(broker);
        let mut inside = Client::connect(broker, V4, "a");
        for version in [V4, V5] {
            turned_away(broker, version);
        }
        let turned = [("connections/turned-away", "2"), ("connections/turned-away/address", "2")];
        counted(&mut watcher, &turned);
        assert_eq!(broker.log().matches("turns away new connections").count(), 1, "one line");
        inside.ping();
        drop(inside);
        comes_in(broker, "late").ping();
    });
}

/// Who says nothing has a place for that, but only one of a few, and not for long.
#[test]
fn a_flood_beyond_the_limit_is_closed_as_it_comes() {
    with_flags(&["--max-connections", "2"], |broker| {
        let mut watcher = watcher(broker);
        let mut inside = Client::connect(broker, V4, "a");
        let silent: Vec<Client> = (0..64).map(|_| Client::open(broker, V4)).collect();
        counted(&mut watcher, &[("connections/turned-away", "64")]);
        Client::open(broker, V5).expect_close();
        drop(silent);
        inside.ping();
        let start = Instant::now();
        let is_told = || {
            let mut late = Client::open(broker, V5);
            late.send(&Connect::new(V5, "late").encode());
            matches!(late.receive(PATIENCE), Received::Packet(packet) if packet[3] == 0x97)
        };
        while !is_told() {
            assert!(start.elapsed() < PATIENCE, "closed for ever");
        }
    });
}

#[test]
fn who_does_not_connect_in_time_is_closed_and_counted() {
    with_flags(&["--connect-timeout", "200ms"], |broker| {
        for digits in ["", "10 0D 00 04 4D 51"] {
            let mut silent = Client::open(broker, V5);
            silent.send_hex(digits);
            silent.expect_close();
        }
        let mut watcher = comes_in(broker, "watcher");
        let timeouts = "$SYS/broker/connections/timeouts/connect";
        watcher.subscribe(timeouts, 0);
        // The watcher itself may have been late.
        watcher.expect_value(timeouts, |value| value.parse::<u32>().unwrap() >= 2);
        counted(&mut watcher, &[("connections/faults", "0")]);
    });
}

/// Whoever floods the port does not flood the broker's log.
#[test]
fn many_who_are_not_let_in_make_one_line_a_second() {
    const MANY: usize = 100;
    let flags = ["--connect-timeout", "200ms", "--max-client-id", "23", "--lanes", "1"];
    with_flags(&flags, |broker| {
        let start = Instant::now();
        let mut silent: Vec<Client> = (0..MANY).map(|_| Client::open(broker, V4)).collect();
        for _ in 0..MANY {
            let mut faulty = Client::open(broker, V4);
            faulty.send(&[0xFF; 8]);
            faulty.expect_refusal();
            let mut refused = Client::open(broker, V5);
            refused.send(&Connect::new(V5, &"a".repeat(24)).encode());
            refused.expect_refusal();
        }
        silent.iter_mut().for_each(Client::expect_close);
        let mut watcher = watcher(broker);
        let many = MANY.to_string();
        counted(&mut watcher, &[("connections/refused", &many)]);
        let lines = usize::try_from(start.elapsed().as_secs()).unwrap() + 2;
        for line in ["no CONNECT or AUTH in time", "CONNECT refused", "zzq_broker::shell::packets"]
        {
            let kinds = if line.starts_with("zzq") { 3 } else { 1 };
            let found = broker.log().matches(line).count();
            assert!((1..=kinds * lines).contains(&found), "{line}: {found} in {lines} s");
        }
    });
}

#[test]
fn who_says_nothing_within_its_keep_alive_is_closed_and_counted() {
    with_flags(&["--max-keep-alive", "1"], |broker| {
        Connect::new(V5, "silent").open(broker).0.expect_end(&[0x8D]);
        Connect::new(V4, "silent").keep_alive(1).open(broker).0.expect_close();
        // MQTT 3 cannot be told, and is not bound.
        let mut watcher = Client::connect(broker, V4, "watcher");
        let silent = [("connections/timeouts/keep-alive", "2"), ("connections/faults", "0")];
        counted(&mut watcher, &silent);
    });
}

#[test]
fn packets_that_are_too_large_end_their_connection_and_are_counted() {
    with_flags(&["--max-packet-size", "1000"], |broker| {
        for (version, words) in [(V3, None), (V4, None), (V5, Some(0x95))] {
            let mut client = Client::connect(broker, version, "a");
            client.publish(&Publish::new("t", vec![b'x'; 1000]));
            match words {
                Some(code) => client.expect_end(&[code]),
                None => client.expect_close(),
            }
        }
        let faults = [("connections/faults/too-large", "3"), ("connections/faults", "3")];
        counted(&mut watcher(broker), &faults);
    });
}

#[test]
fn more_publishes_under_way_than_receive_maximum_are_answered_and_counted() {
    with_flags(&["--receive-maximum", "2"], |broker| {
        for (version, most) in [(V4, None), (V5, Some(2))] {
            let (mut client, accepted) = Connect::new(version, "a").open(broker);
            assert_eq!(accepted.number(0x21), most);
            // MQTT 3 knows no such limit.
            for id in 1..=most.map_or(5, |_| 2) {
                client.publish(&Publish::new("t", "x").qos(2, id));
                client.expect_ack(0x50, id);
            }
            if most.is_some() {
                client.publish(&Publish::new("t", "x").qos(2, 3));
                client.expect_end(&[0x93]);
            }
        }
        let faults = [("connections/faults/receive-maximum", "1"), ("connections/faults", "1")];
        counted(&mut watcher(broker), &faults);
    });
}

/// Publishes with a topic of three thousand bytes that begins with `name`, and this alias for it.
fn define(client: &mut Client, name: &str, alias: u8) {
    let publish = Publish::new(&format!("{name:-<3000}"), "x");
    client.publish(&publish.properties(&format!("23 00 {alias:02X}")));
}

#[test]
fn aliases_of_all_connections_take_so_much_and_who_goes_is_told_why() {
    // For the second of one client, and not for that of two.
    with_flags(&["--max-aliases-total", "2500", "--lanes", "2"], |broker| {
        let mut watcher = watcher(broker);
        let mut client = Client::connect(broker, V5, "a");
        for alias in [1, 2, 1, 2] {
            define(&mut client, &format!("t{alias}"), alias);
        }
        client.ping();
        let two = 2 * (3000 + 48 + 16);
        counted(&mut watcher, &[("connections/aliases/bytes", &two.to_string())]);
        let mut other = Client::connect(broker, V5, "b");
        define(&mut other, "first", 1);
        other.ping();
        define(&mut other, "second", 2);
        other.expect_end(&[0x97]);
        assert!(broker.log().contains("--max-aliases-total"));
        client.ping();
        client.disconnect();
        counted(&mut watcher, &[("connections/aliases/bytes", "0")]);
        let mut late = Client::connect(broker, V5, "late");
        for alias in [1, 2] {
            define(&mut late, &format!("late{alias}"), alias);
        }
        late.ping();
    });
}

#[test]
fn clients_are_given_no_aliases_that_there_is_no_room_for() {
    //= MQTT5-3.3.2-11
    with_flags(&["--max-aliases-total", "300"], |broker| {
        let (mut client, _) = Connect::new(V5, "a").properties("22 00 09").open(broker);
        client.subscribe("#", 0);
        let mut publisher = Client::connect(broker, V4, "publisher");
        let mut given = |name: &str| {
            let topic = format!("{name:-<100}");
            publisher.say(&topic, "x", 0);
            let message = client.expect_message();
            (message.topic.clone(), message.number(0x23))
        };
        let topics = ["one", "two", "three"].map(|name| format!("{name:-<100}"));
        assert_eq!(given("one"), (topics[0].clone(), Some(1)));
        assert_eq!(given("two"), (topics[1].clone(), Some(2)));
        for _ in 0..2 {
            assert_eq!(given("three"), (topics[2].clone(), None));
        }
        assert_eq!(given("one"), (String::new(), Some(1)));
    });
}

#[test]
fn aliases_go_as_far_as_the_flag_says_in_both_directions() {
    let alias = |n: u8| format!("23 00 {n:02X}");
    for (flag, most) in [("0", 0), ("2", 2)] {
        with_flags(&["--max-topic-aliases", flag], |broker| {
            let (mut client, accepted) = Connect::new(V5, "a").properties("22 00 0A").open(broker);
            assert_eq!(accepted.number(0x22), (most > 0).then_some(most.into()));
            client.subscribe("#", 0);
            for n in 1..=most {
                client.publish(&Publish::new("t", "x").properties(&alias(n)));
                client.expect("t", "x");
            }
            for n in 0..20 {
                let topic = format!("u/{}", n % 5);
                client.say(&topic, "y", 0);
                let given = client.expect_message().number(0x23).unwrap_or(0);
                assert!(given <= most.into(), "alias {given}");
            }
            client.publish(&Publish::new("t", "x").properties(&alias(most + 1)));
            client.expect_end(&[0x94]);
            counted(&mut watcher(broker), &[("connections/faults/topic-alias", "1")]);
        });
    }
}

#[test]
fn what_is_not_offered_is_counted_with_its_connections() {
    with_flags(&["--max-qos", "1", "--no-retain"], |broker| {
        let mut client = Client::connect(broker, V5, "a");
        client.publish(&Publish::new("t", "x").qos(2, 7));
        client.expect_end(&[0x9B]);
        let mut client = Client::connect(broker, V5, "a");
        client.publish(&Publish::new("t", "x").retain());
        client.expect_end(&[0x9A]);
        counted(&mut watcher(broker), &[("connections/faults/not-offered", "2")]);
    });
}

#[test]
fn so_many_messages_are_on_their_way_to_a_client_that_takes_more() {
    with_flags(&["--max-inflight", "2"], |broker| {
        for (version, properties) in [(V4, ""), (V5, "21 00 0A")] {
            let (mut client, _) = Connect::new(version, "a").properties(properties).open(broker);
            client.subscribe("t", 2);
            let mut publisher = Client::connect(broker, V5, "publisher");
            for n in 0..4 {
                publisher.say("t", &n.to_string(), 1);
            }
            let next = |client: &mut Client, wanted: &str| {
                let message = client.expect_message();
                assert_eq!(message.payload_text(), wanted);
                message
            };
            let first = next(&mut client, "0");
            next(&mut client, "1");
            client.ping_without_messages();
            client.acknowledge(&first);
            next(&mut client, "2");
            client.ping_without_messages();
        }
    });
}

#[test]
fn sessions_live_as_long_as_the_flag_says_whatever_was_asked_for() {
    with_flags(&["--max-session-expiry", "1s"], |broker| {
        let mut watcher = watcher(broker);
        let (client, accepted) = Connect::persistent(V5, "asks").open(broker);
        assert_eq!(accepted.number(0x11), Some(1));
        client.disconnect();
        // A longer one at its end changes nothing.
        let (mut client, _) = Connect::persistent(V5, "asks at its end").open(broker);
        client.send_hex("E0 07 00 05 11 00 00 0E 10");
        client.finish();
        Connect::persistent(V4, "old").open(broker).0.disconnect();
        counted(&mut watcher, &[("clients/expired", "3"), ("clients/total", "1")]);
        for (version, id) in [(V5, "asks"), (V5, "asks at its end"), (V4, "old")] {
            assert!(!Connect::persistent(version, id).open(broker).1.session_present, "{id}");
        }
    });
}

#[test]
fn what_is_held_for_full_queues_is_bounded_for_all_clients_together() {
    const TOTAL: u64 = 4096;
    let flags = ["--max-queued-messages", "1", "--max-held-total", "4KiB", "--lanes", "1"];
    with_flags(&flags, |broker| {
        let mut away = Connect::persistent(V4, "away").open(broker).0;
        away.subscribe("t", 1);
        away.disconnect();
        let mut publishers = ["a", "b"].map(|id| Client::connect(broker, V4, id));
        let mut publish = |id| {
            for publisher in &mut publishers {
                publisher.publish(&Publish::new("t", vec![b'x'; 1000]).qos(1, id));
            }
        };
        let mut watcher = watcher(broker);
        watcher.subscribe("$SYS/broker/publish/bytes/held", 0);
        let mut held = || watcher.expect_message().payload_text().parse::<u64>().unwrap();
        // Those that come before it is known that the queue is full are taken.
        let (mut id, end) = (0, Instant::now() + PATIENCE);
        while held() < TOTAL - 1100 {
            assert!(Instant::now() < end, "so much is never held");
            id += 1;
            publish(id);
        }
        (id + 1..=id + 40).for_each(&mut publish);
        for _ in 0..10 {
            let held = held();
            assert!(held <= TOTAL, "{held} bytes are held");
        }
    });
}

/// What the system's timer of a connection of the broker is set to, by the peer's port: its kind,
/// and how long it still runs in hundredths of a second.
fn timer(broker: &Broker, peer: u16) -> (u8, u32) {
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let ends = format!(":{:04X} 0100007F:{peer:04X} 01 ", broker.address().port());
    let row = table.lines().find_map(|line| Some(line.split_once(&ends)?.1)).unwrap();
    let (kind, left) = row.split_whitespace().nth(1).unwrap().split_once(':').unwrap();
    (u8::from_str_radix(kind, 16).unwrap(), u32::from_str_radix(left, 16).unwrap())
}

#[test]
fn peers_that_say_nothing_are_looked_after_by_the_system() {
    /// Not that of an answer that is not acknowledged yet.
    const KEEP_ALIVE: u8 = 2;
    for (flag, most) in [("100s", Some(10_000)), ("0s", None)] {
        with_flags(&["--tcp-keep-alive", flag], |broker| {
            let client = Client::connect(broker, V4, "a");
            let peer = client.stream().local_addr().unwrap().port();
            let start = Instant::now();
            loop {
                let (kind, left) = timer(broker, peer);
                match most {
                    Some(most) if kind == KEEP_ALIVE => break assert!(left <= most, "{left}"),
                    None if kind == 0 => break,
                    _ => assert!(start.elapsed() < PATIENCE, "timer {kind}, {left}"),
                }
            }
        });
    }
}
