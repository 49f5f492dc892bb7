//! Bounds for all sessions together, as clients see them: how many there are, and what they take.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod support;

use Version::{V3, V4, V5};
use support::{Broker, Client, Connect, Received, Version};

const VERSIONS: [Version; 3] = [V3, V4, V5];
const QUOTA_EXCEEDED: u8 = 0x97;
const REFUSED_FILTERS: &str = "subscriptions/refused/quota";

fn with_flags(flags: &[&str], test: impl Fn(&Broker)) {
    for logged in [false, true] {
        test(&Broker::start(logged, &[flags, &["--sys-interval=50ms"]].concat()));
    }
}

/// The code of CONNACK; a client that is refused is closed.
fn code(broker: &Broker, connect: &Connect, version: Version) -> (Client, u8) {
    let mut client = Client::open(broker, version);
    client.send(&connect.encode());
    let Received::Packet(answer) = client.receive(support::PATIENCE) else { panic!("no CONNACK") };
    assert_eq!(answer[0], 0x20);
    if answer[3] != 0 {
        client.expect_close();
    }
    (client, answer[3])
}

#[track_caller]
fn refused(broker: &Broker, connect: &Connect, version: Version) {
    let wanted = if version == V5 { QUOTA_EXCEEDED } else { 3 };
    assert_eq!(code(broker, connect, version).1, wanted, "{version:?}");
}

/// A client that has all filters by which it will look: at the bound it would get none.
fn watcher(broker: &Broker) -> Client {
    let mut watcher = Client::connect(broker, V5, "watcher");
    for name in ["store/sessions/memory", "connections/refused/sessions", REFUSED_FILTERS] {
        watcher.expect_sys(name, |_| true);
    }
    watcher
}

#[test]
fn there_are_so_many_sessions_and_those_that_are_come_back() {
    with_flags(&["--max-sessions=3", "--lanes=2"], |broker| {
        let mut watcher = Client::connect(broker, V5, "watcher");
        let away = Connect::persistent(V5, "away");
        away.open(broker).0.disconnect();
        let (third, _) = Connect::persistent(V4, "third").open(broker);
        watcher.expect_sys("clients/total", |total| total == "3");
        for version in VERSIONS {
            refused(broker, &Connect::new(version, "fourth"), version);
        }
        watcher.expect_sys("connections/refused/sessions", |count| count == "3");
        watcher.expect_sys("connections/refused", |count| count == "3");
        // Who has one takes it up again, over a connection or after one, or begins it anew.
        assert!(away.open(broker).1.session_present);
        assert!(Connect::persistent(V4, "third").open(broker).1.session_present);
        drop(third);
        let (last, accepted) = Connect::new(V5, "third").open(broker);
        assert!(!accepted.session_present);
        refused(broker, &Connect::new(V5, "fourth"), V5);
        // It ends with its connection.
        last.disconnect();
        watcher.expect_sys("clients/total", |total| total == "2");
        Connect::new(V4, "fourth").open(broker);
    });
}

/// Sessions with long filters until one is not granted.
fn fill(broker: &Broker) -> Client {
    let mut client = Client::connect(broker, V5, "filler");
    for n in 0..1000 {
        let filter = format!("{}/{n}", "f".repeat(1000));
        if client.subscribe_with("", &[(&filter, 0)]) == [QUOTA_EXCEEDED] {
            assert!(n > 10, "{n}");
            return client;
        }
    }
    panic!("nothing is bounded");
}

#[test]
fn sessions_take_so_much_memory_and_those_that_are_come_back() {
    with_flags(&["--max-sessions-total=128KiB", "--lanes=2"], |broker| {
        let mut watcher = watcher(broker);
        let clients = VERSIONS.map(|version| {
            let away = Connect::persistent(version, &format!("{version:?}"));
            let (mut client, _) = away.open(broker);
            client.subscribe("known", 0);
            (version, away, client)
        });
        let mut filler = fill(broker);
        let is_full = |said: &str| said.parse().is_ok_and(|bytes: u64| bytes >= 128 << 10);
        watcher.expect_sys("store/sessions/memory", is_full);
        watcher.expect_sys(REFUSED_FILTERS, |count| count == "1");
        for (version, away, mut client) in clients {
            refused(broker, &Connect::new(version, "another"), version);
            // A filter that it has may change, and no other one comes.
            client.subscribe("known", 1);
            match version {
                V3 => {
                    client.send(&support::packet(0x82, b"\x00\x09\x00\x03new\x00"));
                    client.expect_close();
                }
                V4 => assert_eq!(client.subscribe_with("", &[("new", 0)]), [0x80]),
                V5 => assert_eq!(client.subscribe_with("", &[("new", 0)]), [QUOTA_EXCEEDED]),
            }
            let long = away.clone().will("will", &"w".repeat(1021), 1, false);
            refused(broker, &long, version);
            let short = away.clone().will("will", &"w".repeat(1020), 1, false);
            assert_eq!(code(broker, &short, version).1, 0);
        }
        watcher.expect_sys("connections/refused/sessions", |count| count == "6");
        let gone: Vec<_> = (0..10).map(|n| format!("{}/{n}", "f".repeat(1000))).collect();
        filler.unsubscribe(&gone.iter().map(String::as_str).collect::<Vec<_>>());
        watcher.expect_sys("store/sessions/memory", |said| !is_full(said));
        let mut another = Client::connect(broker, V4, "another");
        assert_eq!(another.subscribe_with("", &[("new", 0)]), [0]);
    });
}

#[test]
fn wills_count_as_long_as_they_wait() {
    with_flags(&["--max-sessions-total=256KiB"], |broker| {
        let mut watcher = watcher(broker);
        let of =
            |n: u8| Connect::new(V5, &n.to_string()).will("will", &"w".repeat(50_000), 1, false);
        let mut clients = Vec::new();
        let is_refused = |n: &u8| {
            let (client, code) = code(broker, &of(*n), V5);
            clients.push(client);
            code != 0
        };
        let first = (0..20).find(is_refused);
        assert!(first.is_some_and(|first| (5..7).contains(&first)), "{first:?}");
        // It is published when its client vanishes, and taken back when it says so.
        clients.remove(0).reset();
        clients.remove(0).disconnect();
        let is_less = |said: &str| said.parse().is_ok_and(|bytes: u64| bytes < 200_000);
        watcher.expect_sys("store/sessions/memory", is_less);
        assert_eq!(code(broker, &of(10), V5).1, 0);
    });
}

#[test]
fn a_start_with_more_opens_none_and_takes_up_all() {
    let mut broker = Broker::start(true, &["--lanes=3"]);
    let all: Vec<_> = (0..20).map(|n| Connect::persistent(V5, &format!("away-{n}"))).collect();
    for away in &all {
        let (mut client, _) = away.clone().will("w", &"w".repeat(900), 0, false).open(&broker);
        client.subscribe("news", 1);
        client.ping();
    }
    broker.kill();
    for bound in ["--max-sessions=7", "--max-sessions-total=8KiB"] {
        broker.start_again_with(&[bound]);
        refused(&broker, &Connect::new(V5, "new"), V5);
        for away in &all {
            assert!(away.open(&broker).1.session_present);
        }
        refused(&broker, &Connect::new(V5, "new"), V5);
        broker.kill();
    }
}
