//! A bound for the memory of all queues, as clients and the system see it.

#![allow(clippy::expect_used, reason = "helpers of tests panic as tests do")]

mod support;

use Version::{V4, V5};
use support::{Broker, Client, Connect, Publish, Version};

const QUOTA_EXCEEDED: u8 = 0x97;
const LENGTH: usize = 16 << 10;
const SESSIONS: u16 = 200;

/// A session without a connection that gets what is published to its own name.
fn away(broker: &Broker, version: Version, name: &str) -> Connect {
    let away = Connect::persistent(version, name);
    let (mut client, _) = away.open(broker);
    client.subscribe(name, 1);
    client.ping();
    client.disconnect();
    away
}

/// Waits until a topic below `$SYS/broker` says this.
#[track_caller]
fn until(broker: &Broker, topic: &str, is_so: impl Fn(&str) -> bool) {
    Client::connect(broker, V4, "watcher").expect_sys(topic, is_so);
}

/// Publishes to each of so many sessions in turn until one is refused; returns how many were taken.
fn fill(broker: &Broker, sessions: u16, text: &[u8]) -> u16 {
    let mut publisher = Client::connect(broker, V5, "filler");
    for id in 1..10_000 {
        let topic = format!("away-{}", id % sessions);
        publisher.publish(&Publish::new(&topic, text).qos(1, id));
        if publisher.expect_ack_code(0x40, id) == QUOTA_EXCEEDED {
            return id - 1;
        }
    }
    10_000
}

#[test]
fn memory_of_many_sessions_stays_below_the_bound() {
    let arguments = ["--max-queued-total=16MiB", "--sys-interval=50ms", "--lanes=2"];
    let broker = Broker::start(false, &arguments);
    for n in 0..SESSIONS {
        away(&broker, V5, &format!("away-{n}"));
    }
    let before = broker.resident_kib();
    let taken = fill(&broker, SESSIONS, &[b'.'; LENGTH]);
    assert!(u64::from(taken) * LENGTH as u64 > 15 << 20, "{taken}");
    for _ in 0..3 {
        assert_eq!(fill(&broker, SESSIONS, &[b'.'; LENGTH]), 0);
    }
    let growth = broker.resident_kib().saturating_sub(before);
    assert!(growth < 28 << 10, "{growth} KiB for 16 MiB");
    until(&broker, "publish/messages/refused/queued-total", |said| said == "4");
    until(&broker, "store/queues/memory", |said| said.parse().is_ok_and(|n: u64| n >= 16 << 20));
}

#[test]
fn mqtt_3_is_held_until_the_absent_come_back_or_end() {
    for logged in [false, true] {
        let total = if logged { "--max-queued-total=160" } else { "--max-queued-total=16KiB" };
        let arguments = [total, "--queue-grace=1s", "--sys-interval=50ms", "--lanes=3"];
        let broker = Broker::start(logged, &arguments);
        away(&broker, V4, "away-0");
        let taken = fill(&broker, 1, &[b'.'; 1000]);
        assert!(taken > 5, "{taken}");
        // It waits for a session that never comes back.
        let mut publisher = Client::connect(&broker, V4, "publisher");
        publisher.publish(&Publish::new("away-0", "held").qos(1, 1));
        publisher.ping();
        publisher.expect_ack(0x40, 1);
        until(&broker, "clients/ended/queue-full", |said| said == "1");
        until(&broker, "store/queues/memory", |said| said == "0");
    }
}

#[test]
fn a_start_with_more_refuses_until_it_is_taken() {
    let mut broker = Broker::start(true, &[]);
    let one = away(&broker, V5, "away-0");
    let mut publisher = Client::connect(&broker, V5, "publisher");
    for n in 0..50 {
        publisher.say("away-0", &n.to_string(), 1);
    }
    drop(publisher);
    broker.kill();
    broker.start_again_with(&["--max-queued-total=100", "--sys-interval=50ms"]);
    assert_eq!(fill(&broker, 1, b"refused"), 0);
    let (mut client, accepted) = one.open(&broker);
    assert!(accepted.session_present);
    for n in 0..50 {
        client.expect("away-0", &n.to_string());
    }
    client.ping_without_messages();
    // What it has acknowledged goes when the log has that, which takes its time.
    until(&broker, "store/queues/memory", |said| said == "0");
    let mut publisher = Client::connect(&broker, V5, "publisher");
    publisher.say("away-0", "taken", 1);
    client.expect("away-0", "taken");
}
