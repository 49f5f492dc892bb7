//! Several lanes behave as one broker: whatever lanes publishers, subscribers, topics and groups
//! are on. Client identifiers and topics are many, so that every lane has some of each.

#![allow(clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod support;

#[path = "crash/clients.rs"]
mod clients;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use Version::{V4, V5};
use clients::{Moment, Publisher, Subscriber};
use support::{Broker, Client, Connect, PATIENCE, Publish, Random, Received, Stops, Version, show};

const LANES: [&str; 2] = ["--lanes", "3"];
/// Clients of one kind: that all of these are on two lanes of three is unlikely, and the same in
/// every run.
const MANY: u64 = 9;

/// Runs a test over three lanes without a log and with one, side by side.
fn on_lanes(test: impl Fn(&Broker) + Sync) {
    thread::scope(|scope| {
        for logged in [false, true] {
            let test = &test;
            scope.spawn(move || test(&Broker::start(logged, &LANES)));
        }
    });
}

fn many(broker: &Broker, version: Version, kind: &str) -> Vec<Client> {
    (0..MANY).map(|n| Client::connect(broker, version, &format!("{kind} {n}"))).collect()
}

/// A number that a message carries.
fn number(payload: &[u8]) -> u64 {
    let text = std::str::from_utf8(payload).expect("digits");
    text.parse().expect("a number")
}

#[test]
fn a_message_reaches_subscribers_on_all_lanes() {
    on_lanes(|broker| {
        let mut subscribers = many(broker, V5, "subscriber");
        for (n, subscriber) in (0..).zip(&mut subscribers) {
            subscriber.subscribe("t/+", n % 3);
        }
        for (n, mut publisher) in many(broker, V4, "publisher").into_iter().enumerate() {
            for qos in 0..3 {
                publisher.say(&format!("t/{n}"), &qos.to_string(), qos);
                for (granted, subscriber) in (0..).zip(&mut subscribers) {
                    let message = subscriber.expect(&format!("t/{n}"), &qos.to_string());
                    assert_eq!(message.qos, qos.min(granted % 3));
                }
            }
        }
    });
}

#[test]
fn messages_of_a_publisher_on_a_topic_keep_their_order() {
    //= MQTT5-4.6.0-5, MQTT311-4.6.0-6
    const COUNT: u64 = 200;
    on_lanes(|broker| {
        let mut subscribers = many(broker, V4, "subscriber");
        for subscriber in &mut subscribers {
            subscriber.subscribe("o/#", 1);
        }
        thread::scope(|scope| {
            for (n, mut publisher) in many(broker, V4, "publisher").into_iter().enumerate() {
                scope.spawn(move || {
                    let qos = u8::try_from(n % 2).unwrap();
                    for sequence in 1..=COUNT {
                        let id = u16::try_from(sequence).unwrap();
                        let publish = Publish::new(&format!("o/{n}"), sequence.to_string());
                        publisher.publish(&publish.qos(qos, id));
                    }
                    for sequence in (1..=COUNT).filter(|_| qos == 1) {
                        publisher.expect_ack(0x40, u16::try_from(sequence).unwrap());
                    }
                    publisher.ping();
                });
            }
            for mut subscriber in subscribers {
                scope.spawn(move || {
                    let mut seen = vec![0; usize::try_from(MANY).expect("a few")];
                    for _ in 0..COUNT * MANY {
                        let message = subscriber.expect_message();
                        subscriber.acknowledge(&message);
                        let from = usize::try_from(number(&message.topic.as_bytes()[2..])).unwrap();
                        seen[from] += 1;
                        assert_eq!(number(&message.payload), seen[from], "from {from}");
                    }
                });
            }
        });
    });
}

/// Publishes 1, 2, 3 and so on at QoS 1 until told to stop; `begun` is ahead of what was sent.
fn load(mut client: Client, topic: &str, retain: bool, begun: &AtomicU64, stop: &AtomicBool) {
    const WINDOW: u64 = 8;
    let id = |n: u64| u16::try_from(n % 60_000 + 1).expect("an identifier");
    for n in 1.. {
        begun.store(n, Ordering::SeqCst);
        let publish = Publish::new(topic, n.to_string()).qos(1, id(n));
        client.publish(&if retain { publish.retain() } else { publish });
        if n > WINDOW {
            client.expect_ack(0x40, id(n - WINDOW));
        }
        if stop.load(Ordering::SeqCst) {
            return;
        }
    }
}

#[test]
fn subscriptions_change_under_load_without_a_gap() {
    //= MQTT5-3.8.4-1, MQTT5-3.10.4-2, MQTT311-3.8.4-1, MQTT311-3.10.4-2
    const ROUNDS: u64 = 3 * MANY;
    on_lanes(|broker| {
        let begun: [AtomicU64; 3] = std::array::from_fn(|_| AtomicU64::new(0));
        let stop = AtomicBool::new(false);
        let now = || begun.each_ref().map(|begun| begun.load(Ordering::SeqCst));
        thread::scope(|scope| {
            let _stops = Stops(&stop);
            for (n, begun) in begun.iter().enumerate() {
                let client = Client::connect(broker, V4, &format!("load {n}"));
                let stop = &stop;
                scope.spawn(move || load(client, &format!("l/{n}"), false, begun, stop));
            }
            for round in 0..ROUNDS {
                let mut client = Client::connect(broker, V4, &format!("changing {round}"));
                client.subscribe("l/#", u8::try_from(round % 2).unwrap());
                let since = now();
                let mut seen = [0; 3];
                let mut take = |client: &mut Client| {
                    let message = client.expect_message();
                    client.acknowledge(&message);
                    let from = usize::try_from(number(&message.topic.as_bytes()[2..])).unwrap();
                    let n = number(&message.payload);
                    let next =
                        if seen[from] == 0 { n.min(since[from] + 1) } else { seen[from] + 1 };
                    assert_eq!(n, next, "from {from}, subscribed at {since:?}");
                    seen[from] = n;
                    (from, n)
                };
                for _ in 0..60 {
                    take(&mut client);
                }
                client.unsubscribe(&["l/#"]);
                let until = now();
                // What is published behind UNSUBACK would come before the answer to this.
                Client::connect(broker, V4, &format!("marker {round}")).say("l/0", "0", 1);
                client.send_hex("C0 00");
                loop {
                    match client.receive(PATIENCE) {
                        Received::Packet(packet) if packet[0] == 0xD0 => break,
                        Received::Packet(packet) => {
                            let message = support::Message::decode(&packet, V4);
                            let from = number(&message.topic.as_bytes()[2..]);
                            let n = number(&message.payload);
                            let known = until[usize::try_from(from).unwrap()];
                            assert!(n > 0 && n <= known, "{n} from {from}, gone at {until:?}");
                        }
                        other => panic!("{other:?}"),
                    }
                }
            }
        });
    });
}

#[test]
fn a_retained_message_comes_once_beside_live_ones() {
    //= MQTT5-3.3.1-9, MQTT311-3.3.1-6
    const ROUNDS: u64 = 4 * MANY;
    on_lanes(|broker| {
        let begun = AtomicU64::new(0);
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            let _stops = Stops(&stop);
            let client = Client::connect(broker, V4, "load");
            scope.spawn(|| load(client, "r/t", true, &begun, &stop));
            for round in 0..ROUNDS {
                let mut client = Client::connect(broker, V4, &format!("fresh {round}"));
                client.subscribe("r/#", u8::try_from(round % 2).unwrap());
                let mut last = None;
                for _ in 0..20 {
                    let message = client.expect_message();
                    client.acknowledge(&message);
                    let n = number(&message.payload);
                    let next = last.map_or(n, |last| last + 1);
                    assert_eq!(n, next, "round {round}, retain {}", message.retain);
                    last = Some(n);
                }
            }
        });
    });
}

#[test]
fn retained_messages_come_from_the_lanes_of_their_topics() {
    //= MQTT5-3.3.1-9, MQTT5-3.3.1-10
    const TOPICS: u64 = 400;
    on_lanes(|broker| {
        let mut publishers = many(broker, V4, "publisher");
        for n in 0..TOPICS {
            let publisher = &mut publishers[usize::try_from(n % MANY).unwrap()];
            let qos = u8::try_from(n % 3).unwrap();
            publisher.retain(&format!("many/{n}"), &n.to_string(), qos);
        }
        for (n, mut client) in many(broker, V5, "fresh").into_iter().enumerate() {
            client.subscribe("many/#", u8::try_from(n % 3).unwrap());
            let mut got: Vec<u64> = (0..TOPICS)
                .map(|_| {
                    let message = client.expect_message();
                    client.acknowledge(&message);
                    assert_eq!(message.topic, format!("many/{}", number(&message.payload)));
                    assert!(message.retain);
                    number(&message.payload)
                })
                .collect();
            got.sort_unstable();
            assert!(got.into_iter().eq(0..TOPICS));
            client.ping_without_messages();
        }
    });
}

#[test]
fn each_message_goes_to_one_member_of_a_group_over_all_lanes() {
    //= MQTT5-4.8.2-3
    on_lanes(|broker| {
        let mut members = many(broker, V5, "member");
        for member in &mut members {
            member.subscribe("$share/g/s/#", 1);
        }
        let mut sent = Vec::new();
        for (n, mut publisher) in many(broker, V4, "publisher").into_iter().enumerate() {
            for qos in 0..3 {
                let payload = (sent.len() + 1).to_string();
                publisher.say(&format!("s/{n}"), &payload, qos);
                sent.push(number(payload.as_bytes()));
            }
        }
        let mut marker = Client::connect(broker, V4, "marker");
        let mut got = Vec::new();
        for (n, member) in members.iter_mut().enumerate() {
            let topic = format!("marker/{n}");
            member.subscribe(&topic, 0);
            marker.say(&topic, "0", 0);
            loop {
                let message = member.expect_message();
                member.acknowledge(&message);
                if message.topic == topic {
                    break;
                }
                got.push(number(&message.payload));
            }
        }
        got.sort_unstable();
        assert_eq!(got, sent);
    });
}

#[test]
fn what_a_lost_member_did_not_take_goes_to_a_member_on_another_lane() {
    //= B34
    on_lanes(|broker| {
        let mut publisher = Client::connect(broker, V5, "publisher");
        for n in 0..MANY {
            let (topic, filter) = (format!("g/{n}"), format!("$share/g/g/{n}"));
            let mut first = Client::connect(broker, V5, &format!("first {n}"));
            first.subscribe(&filter, 1);
            for payload in ["one", "two"] {
                publisher.say(&topic, payload, 1);
            }
            let mut second = Client::connect(broker, V5, &format!("second {n}"));
            second.subscribe(&filter, 1);
            // One was sent, the other may wait: neither was acknowledged.
            assert_eq!(first.expect_message().payload_text(), "one");
            first.reset();
            let mut got = [second.expect_message(), second.expect_message()];
            for message in &got {
                second.acknowledge(message);
            }
            got.sort_by(|a, b| a.payload.cmp(&b.payload));
            assert_eq!(got.each_ref().map(support::Message::payload_text), ["one", "two"]);
            second.ping_without_messages();
        }
    });
}

/// The members that end with their connections and take nothing are on all lanes; the one that
/// stays gets what was picked for them, once the broker is back.
#[test]
fn what_lost_members_did_not_take_is_left_to_the_group_by_a_crash() {
    //= B34, MQTT5-4.8.2-5
    const COUNT: u64 = 60;
    for first in [false, true] {
        let mut broker = Broker::start(true, &LANES);
        let stays = Connect::persistent(V5, "stays");
        let join = |broker: &Broker| stays.open(broker).0.subscribe("$share/g/g", 1);
        if first {
            join(&broker);
        }
        let mut members = many(&broker, V5, "member");
        for member in &mut members {
            member.subscribe("$share/g/g", 1);
        }
        if !first {
            join(&broker);
        }
        let mut publisher = Client::connect(&broker, V4, "publisher");
        for n in 0..COUNT {
            publisher.say("g", &n.to_string(), 1);
        }
        assert_eq!(members[0].expect_message().qos, 1);
        broker.crash();
        let (mut client, accepted) = stays.open(&broker);
        assert!(accepted.session_present);
        let mut got: Vec<u64> = (0..COUNT)
            .map(|_| {
                let message = client.expect_message();
                client.acknowledge(&message);
                number(&message.payload)
            })
            .collect();
        got.sort_unstable();
        assert!(got.into_iter().eq(0..COUNT));
        client.ping_without_messages();
    }
}

#[test]
fn wills_come_from_all_lanes() {
    //= MQTT5-3.1.2-8, MQTT311-3.1.2-8
    on_lanes(|broker| {
        let mut watchers = many(broker, V5, "watcher");
        for watcher in &mut watchers {
            watcher.subscribe("w/#", 2);
        }
        for n in 0..MANY {
            let qos = u8::try_from(n % 3).unwrap();
            let (topic, id) = (format!("w/{n}"), format!("dying {n}"));
            let connect = Connect::new(V4, &id).will(&topic, "w", qos, n % 2 == 0);
            connect.open(broker).0.reset();
            for watcher in &mut watchers {
                assert_eq!(watcher.expect(&topic, "w").qos, qos);
            }
        }
        let mut late = Client::connect(broker, V5, "late");
        late.subscribe("w/#", 0);
        let mut got: Vec<String> =
            (0..MANY).step_by(2).map(|_| late.expect_message().topic).collect();
        got.sort();
        assert!(got.into_iter().eq((0..MANY).step_by(2).map(|n| format!("w/{n}"))));
    });
}

#[test]
fn one_connection_of_many_at_once_keeps_the_client() {
    //= MQTT5-3.1.4-3, MQTT311-3.1.4-2
    on_lanes(|broker| {
        for round in 0..4 {
            let connect = Connect::persistent(V5, &format!("wanted {round}"));
            let mut clients: Vec<Client> = thread::scope(|scope| {
                let open = || {
                    let mut client = Client::open(broker, V5);
                    client.send(&connect.encode());
                    client
                };
                let opened: Vec<_> = (0..12).map(|_| scope.spawn(open)).collect();
                opened.into_iter().map(|open| open.join().unwrap()).collect()
            });
            for client in &mut clients {
                let answer = client.expect_packet();
                assert_eq!(answer[0], 0x20, "{}", show(&answer));
            }
            // All were accepted, so all but one have been taken over, and hear it in time.
            let end = Instant::now() + PATIENCE;
            while clients.len() > 1 {
                assert!(Instant::now() < end, "{} are left", clients.len());
                clients.retain_mut(|client| match client.receive(Duration::from_millis(1)) {
                    Received::Packet(packet) => {
                        assert_eq!((packet[0], packet[2]), (0xE0, 0x8E), "{}", show(&packet));
                        client.expect_close();
                        false
                    }
                    Received::Closed => false,
                    Received::Nothing => true,
                });
            }
            clients.iter_mut().for_each(Client::ping);
            assert_eq!(clients.len(), 1, "one is left");
        }
    });
}

#[test]
fn nothing_is_lost_or_doubled_over_lanes_when_the_broker_is_killed() {
    //= MQTT5-4.3.2-4, MQTT5-4.3.3-8, MQTT5-4.4.0-1, MQTT311-4.3.2-2, MQTT311-4.4.0-1
    const ROUNDS: u32 = 8;
    let seed = u64::from(std::process::id());
    println!("seed {seed}");
    let mut random = Random::new(seed);
    let mut broker = Broker::start(true, &LANES);
    let acknowledged = AtomicU64::new(0);
    let mut publishers: Vec<Publisher<'_>> =
        (0..4).map(|n| Publisher::new(n, 1 + n % 2, &acknowledged)).collect();
    let ids = ["always", "less", "and", "on", "other", "lanes"];
    let mut subscribers: Vec<Subscriber> =
        (0..).zip(ids).map(|(n, id)| Subscriber::new(id, 1 + n % 2)).collect();
    for subscriber in &mut subscribers {
        subscriber.subscribe(&broker);
    }
    for round in 0..ROUNDS {
        let moment = Moment::random(&mut random, round % 4 == 3);
        let address = broker.address();
        thread::scope(|scope| {
            for subscriber in &mut subscribers {
                scope.spawn(move || subscriber.run(address, |_| false));
            }
            for publisher in &mut publishers {
                scope.spawn(move || publisher.run(address, true));
            }
            moment.wait(&acknowledged);
            broker.kill();
        });
        broker.start_again();
    }
    let address = broker.address();
    thread::scope(|scope| {
        for publisher in &mut publishers {
            scope.spawn(move || publisher.run(address, false));
        }
    });
    assert!(publishers.iter().all(|publisher| publisher.open() == 0), "all is acknowledged");
    let sent: Vec<u64> = publishers.iter().map(Publisher::sent).collect();
    thread::scope(|scope| {
        for subscriber in &mut subscribers {
            let sent = &sent;
            scope.spawn(move || subscriber.run(address, |got| got.has_all(sent)));
        }
    });
    for subscriber in &subscribers {
        subscriber.check(&publishers);
    }
}
