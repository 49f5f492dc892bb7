//! Packets that have come in part: all of them together take bounded memory, nobody who goes on is
//! cut off for it, and who is not let in has little.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod support;

use std::io::Write as _;
use std::sync::Mutex;
use std::thread;

use Version::{V4, V5};
use support::{Broker, Client, Connect, PATIENCE, Publish, Received, Version, packet, text};

const MIB: usize = 1 << 20;
/// What the broker may hold beside what its options allow.
const GROWTH_KIB: u64 = 12 << 10;

/// Waits until a number below `$SYS/broker` is as wanted.
fn counted(watcher: &mut Client, name: &str, is_so: impl Fn(u64) -> bool) {
    watcher.expect_sys(name, |value| is_so(value.parse().unwrap()));
}

/// Far more have begun a packet than there is room for: memory is bounded, small packets pass, and
/// all of it comes in the end.
#[test]
fn packets_that_have_begun_take_bounded_memory_and_all_of_them_come() {
    const TOTAL_KIB: u64 = 8 << 10;
    const SENDERS: usize = 60;
    for (logged, lanes) in [(false, "1"), (true, "2")] {
        let flags = ["--max-input-total", "8MiB", "--lanes", lanes, "--sys-interval", "50ms"];
        let broker = Broker::start(logged, &flags);
        let mut other = Client::connect(&broker, V5, "other");
        other.subscribe("small", 1);
        let mut watcher = Client::connect(&broker, V5, "watcher");
        let senders: Vec<Client> =
            (0..SENDERS).map(|n| Client::connect(&broker, V4, &format!("sender {n}"))).collect();
        let idle_kib = broker.resident_kib();
        let all = Publish::new("large", vec![b'.'; MIB]).qos(1, 1).encode(V4);
        let (begin, end) = all.split_at(all.len() - 10);
        // Nobody goes beyond the last bytes before it is opened.
        let door = Mutex::new(());
        thread::scope(|scope| {
            let closed = door.lock().unwrap();
            for mut sender in senders {
                let door = &door;
                scope.spawn(move || {
                    // Whoever has no room is not read, and writes for as long.
                    sender.stream().write_all(begin).unwrap();
                    drop(door.lock().unwrap());
                    sender.send(end);
                    let received = sender.receive(10 * PATIENCE);
                    assert_eq!(received, Received::Packet(vec![0x40, 2, 0, 1]));
                });
            }
            counted(&mut watcher, "connections/input/waits", |waits| waits > 20);
            for n in 0..20 {
                other.say("small", &n.to_string(), 1);
                other.expect("small", &n.to_string());
                let resident_kib = broker.resident_kib();
                assert!(resident_kib < idle_kib + TOTAL_KIB + GROWTH_KIB, "{resident_kib} KiB");
            }
            drop(closed);
        });
        assert!(broker.log().contains("--max-input-total"), "it is told");
        counted(&mut watcher, "connections/input/bytes", |bytes| bytes == 0);
    }
}

/// A CONNECT with a user name of so many bytes.
fn connect(version: Version, size: usize) -> Vec<u8> {
    Connect::new(version, "long").login(&"u".repeat(size), "p").encode()
}

#[test]
fn who_is_not_let_in_may_send_so_much_and_is_told_and_counted() {
    //= MQTT5-3.1.4-1
    let flags = ["--max-connect-size", "1000", "--sys-interval", "50ms"];
    let broker = Broker::start(false, &flags);
    for version in [V4, V5] {
        let mut client = Client::open(&broker, version);
        client.send(&connect(version, 1000));
        if version == V5 {
            client.expect_hex("20 03 00 95 00");
        }
        client.expect_close();
        assert!(
            broker.log().contains("at most 1000 are accepted: --max-connect-size"),
            "{}",
            broker.log()
        );
        // Its header is enough, and nothing is waited for.
        let mut client = Client::open(&broker, version);
        client.send_hex("10 E8 07");
        client.expect_close();
        // What is let in may send more.
        let mut client = Client::open(&broker, version);
        client.send(&connect(version, 900));
        client.expect_packet();
        client.publish(&Publish::new("t", vec![b'x'; 5000]).qos(1, 7));
        client.expect_answer();
        client.ping();
    }
    let mut watcher = Client::connect(&broker, V5, "watcher");
    counted(&mut watcher, "connections/faults/too-large", |count| count == 4);
}

#[test]
fn the_smaller_of_both_limits_counts_before_connect() {
    let flags = ["--max-connect-size", "1000", "--max-packet-size", "500"];
    let broker = Broker::start(false, &flags);
    let mut client = Client::open(&broker, V4);
    client.send(&connect(V4, 600));
    client.expect_close();
    assert!(
        broker.log().contains("at most 500 are accepted: --max-packet-size"),
        "{}",
        broker.log()
    );
}

/// The driver tells it, though nothing is read; what is told of the end of a client is its will.
#[test]
fn who_hangs_up_while_it_waits_for_room_is_gone_at_once() {
    for io in ["epoll", "uring"] {
        let flags = ["--max-input-total", "1", "--sys-interval", "50ms", "--lanes", "1"];
        let broker = Broker::start(false, &[&flags[..], &["--io", io]].concat());
        let mut watcher = Client::connect(&broker, V5, "watcher");
        let all = Publish::new("t", vec![b'.'; MIB]).qos(1, 1).encode(V5);
        let begin = &all[..10_000];
        let mut keeps = Client::connect(&broker, V5, "keeps");
        keeps.send(begin);
        counted(&mut watcher, "connections/input/bytes", |bytes| bytes > MIB as u64);
        let waits = Connect::new(V5, "waits").will("gone", "gone", 0, false);
        let (mut waits, _) = waits.open(&broker);
        waits.send(begin);
        counted(&mut watcher, "connections/input/waits", |waits| waits == 1);
        let mut heir = Client::connect(&broker, V5, "heir");
        heir.subscribe("gone", 0);
        drop(waits);
        heir.expect("gone", "gone");
        keeps.send(&all[10_000..]);
        keeps.expect_ack(0x40, 1);
    }
}

/// Those who never end their CONNECT have no more together than others, and stop nobody who is in.
#[test]
fn connects_that_have_begun_take_bounded_memory() {
    const TOTAL_KIB: u64 = 2 << 10;
    const CALLERS: usize = 600;
    let flags = ["--max-input-total", "2MiB", "--connect-timeout", "600s", "--lanes", "2"];
    let broker = Broker::start(false, &flags);
    let mut other = Client::connect(&broker, V5, "other");
    other.subscribe("small", 1);
    let idle_kib = broker.resident_kib();
    let long = || "x".repeat(60_000);
    let all = Connect::new(V5, "long").will("w", &long(), 0, false).login(&long(), &long());
    let all = all.encode();
    let begin = &all[..100_000];
    let mut callers: Vec<Client> = (0..CALLERS).map(|_| Client::open(&broker, V5)).collect();
    for caller in &mut callers {
        // It fits into the buffers of the kernel.
        caller.send(begin);
        other.say("small", "x", 1);
        other.expect("small", "x");
    }
    let resident_kib = broker.resident_kib();
    let each_kib = 8 * CALLERS as u64;
    assert!(resident_kib < idle_kib + TOTAL_KIB + each_kib + GROWTH_KIB, "{resident_kib} KiB");
    drop(callers);
    let mut client = Client::open(&broker, V5);
    client.send(&all);
    client.expect_packet();
    let empty = packet(0x30, &[&text("t")[..], &[0]].concat());
    client.send(&empty);
    client.ping();
}
