//! Overload: receivers that do not keep up slow down who publishes, nothing that keeps to the
//! protocol is lost or cut off, and memory stays within what the options allow. The broker is a
//! process of its own, whose memory is sampled while it is under load.
//!
//! Assumes: a process may have 10 400 files open; where it may not, the test with ten thousand
//! connections says that it was skipped. All that clients wait for here has a deadline, reads and
//! writes.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod support;

use std::io::Write as _;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use Version::{V4, V5};
use rustix::net::sockopt::set_socket_recv_buffer_size;
use support::{Broker, Client, Connect, PATIENCE, Publish, Received, Stops, Version};

/// Small limits, so that what passes them shows.
const LIMITS: [(&str, &str); 6] = [
    ("--lanes", "2"),
    ("--max-output", "64KiB"),
    ("--max-queued-bytes", "1MiB"),
    ("--max-held", "64KiB"),
    ("--max-hold", "1h"),
    ("--sys-interval", "0s"),
];

/// How much the broker's memory may grow beside what its options allow.
const GROWTH_KIB: u64 = 10 << 10;
/// The most that one client may take by [`LIMITS`]: output, queue, messages read ahead, publishes
/// that are held.
const EACH_KIB: u64 = 64 + 1024 + 64 + 64;
/// What a log takes for itself, whatever the load: staging of the lanes, groups in flight, what its
/// tail, its readers and the makers of images hold, and what the allocator keeps of all that until
/// the broker has it given back. A quarter of what any test here sends.
const LOG_KIB: u64 = 16 << 10;

const SIZE: usize = 16 << 10;
/// Small enough to be copied for each receiver.
const SMALL: usize = 1000;
/// Messages of one publisher: 32 MiB, more than any limit here.
const COUNT: u16 = 2000;
const PUBLISHERS: [&str; 2] = ["one", "two"];
/// Some of them are on the lane of each publisher, some on the other.
const RECEIVERS: usize = 4;

/// Calls `test` without a log and with one.
fn in_both_modes(flags: &[(&str, &str)], test: impl Fn(&Broker) + Sync) {
    let others = LIMITS.iter().filter(|(name, _)| flags.iter().all(|(other, _)| other != name));
    let flags: Vec<&str> = others.chain(flags).flat_map(|(name, value)| [*name, *value]).collect();
    for logged in [false, true] {
        test(&Broker::start(logged, &flags));
    }
}

/// Watches the memory of a broker while it lives.
struct Watch<'a> {
    broker: &'a Broker,
    idle_kib: u64,
    allowed_kib: u64,
}

impl<'a> Watch<'a> {
    /// From now on, with so many clients.
    fn new(broker: &'a Broker, clients: usize) -> Self {
        let log_kib = if broker.data().exists() { LOG_KIB } else { 0 };
        let allowed_kib = GROWTH_KIB + EACH_KIB * clients as u64 + log_kib;
        Self { broker, idle_kib: broker.resident_kib(), allowed_kib }
    }

    #[track_caller]
    fn check(&self) {
        let now = self.broker.resident_kib();
        let growth = now.saturating_sub(self.idle_kib);
        assert!(growth <= self.allowed_kib, "{growth} KiB more than idle, {now} in all");
    }

    /// Watches until `count` has stood still for a while, or is `all`; says how far it came. That
    /// it goes on later makes this test weaker, and no more.
    fn until_still(&self, count: &AtomicUsize, all: usize) -> usize {
        let (mut before, mut still) = (0, 0);
        while still < 10 && before < all {
            thread::sleep(Duration::from_millis(50));
            self.check();
            let now = count.load(Ordering::Relaxed);
            still = if now == before { still + 1 } else { 0 };
            before = now;
        }
        before
    }
}

fn payload(publisher: &str, n: u16) -> Vec<u8> {
    let mut payload = format!("{publisher} {n} ").into_bytes();
    payload.resize(SIZE, b'.');
    payload
}

/// Publishes without a pause and without a limit of its own, and takes all answers.
fn flood(broker: &Broker, version: Version, name: &str, qos: u8, written: &AtomicUsize) {
    let mut client = Client::connect(broker, version, name);
    let mut writer = client.stream();
    thread::scope(|scope| {
        scope.spawn(move || {
            for n in 1..=COUNT {
                let publish = Publish::new("t", payload(name, n)).qos(qos, n);
                writer.write_all(&publish.encode(version)).unwrap();
                written.fetch_add(1, Ordering::Relaxed);
            }
        });
        let first = [None, Some(0x40), Some(0x50)][usize::from(qos)];
        if let Some(first) = first {
            (1..=COUNT).for_each(|n| expect_ack(&mut client, first, n));
        }
    });
    if qos == 2 {
        (1..=COUNT).for_each(|n| client.send_ack(0x62, n));
        (1..=COUNT).for_each(|n| expect_ack(&mut client, 0x70, n));
    }
    // It waits behind what is held.
    client.send_hex("E0 00");
    assert_eq!(client.receive(10 * PATIENCE), Received::Closed);
}

/// However long it takes: the receivers have to read first.
fn expect_ack(client: &mut Client, first: u8, id: u16) {
    match client.receive(10 * PATIENCE) {
        Received::Packet(packet) => {
            assert_eq!(packet, [&[first, 2][..], &id.to_be_bytes()].concat());
        }
        other => panic!("{other:?} instead of an answer to {id}"),
    }
}

/// Takes all messages of all publishers, each one's in order.
fn take_all(client: &mut Client, qos: u8) {
    let mut next = [1; PUBLISHERS.len()];
    while next.iter().any(|next| *next <= COUNT) {
        let message = client.expect_message();
        let text = message.payload_text();
        let (name, rest) = text.split_once(' ').unwrap();
        let at = PUBLISHERS.iter().position(|publisher| *publisher == name).unwrap();
        assert!(rest.starts_with(&format!("{} ", next[at])), "{next:?}, and then {text:.20}");
        assert_eq!((message.qos, text.len()), (qos, SIZE));
        next[at] += 1;
        client.acknowledge(&message);
    }
}

/// Receivers that do not read stop two publishers, and get everything when they do.
fn slow_receivers_stop_publishers(version: Version, published: u8, granted: u8) {
    in_both_modes(&[], |broker| {
        let subscribe = |n| {
            let mut client = Client::connect(broker, V5, &format!("receiver {n}"));
            client.subscribe("t", granted);
            client
        };
        let mut receivers: Vec<Client> = (0..RECEIVERS).map(subscribe).collect();
        let watch = Watch::new(broker, RECEIVERS + PUBLISHERS.len());
        let written = AtomicUsize::new(0);
        thread::scope(|scope| {
            let written = &written;
            let flood =
                |name| scope.spawn(move || flood(broker, version, name, published, written));
            let floods = PUBLISHERS.map(flood);
            let all = PUBLISHERS.len() * usize::from(COUNT);
            let came = watch.until_still(written, all);
            assert!(came < all, "nobody was slowed down");
            let mut readers = Vec::new();
            for receiver in &mut receivers {
                readers.push(scope.spawn(move || take_all(receiver, granted)));
            }
            while !readers.iter().all(thread::ScopedJoinHandle::is_finished) {
                thread::sleep(Duration::from_millis(20));
                watch.check();
            }
            for thread in readers.into_iter().chain(floods) {
                thread.join().unwrap();
            }
        });
        watch.check();
        receivers.iter_mut().for_each(Client::ping_without_messages);
    });
}

#[test]
fn slow_receivers_at_qos_0_stop_publishers_and_lose_nothing() {
    for version in [V4, V5] {
        slow_receivers_stop_publishers(version, 0, 0);
    }
}

#[test]
fn slow_receivers_at_qos_0_stop_publishers_at_qos_1() {
    for version in [V4, V5] {
        slow_receivers_stop_publishers(version, 1, 0);
    }
}

#[test]
fn slow_receivers_at_qos_1_stop_publishers_and_lose_nothing() {
    for version in [V4, V5] {
        slow_receivers_stop_publishers(version, 1, 1);
    }
}

#[test]
fn slow_receivers_at_qos_2_stop_publishers_and_lose_nothing() {
    for version in [V4, V5] {
        slow_receivers_stop_publishers(version, 2, 2);
    }
}

#[test]
fn where_the_option_says_so_what_a_slow_receiver_cannot_take_is_dropped_and_counted() {
    //= B45
    let flags = [("--qos0-full", "drop"), ("--sys-interval", "100ms")];
    in_both_modes(&flags, |broker| {
        let mut receivers: Vec<Client> =
            (0..RECEIVERS).map(|n| Client::connect(broker, V5, &format!("r {n}"))).collect();
        for receiver in &mut receivers {
            receiver.subscribe("t", 0);
        }
        let mut watcher = Client::connect(broker, V5, "watcher");
        watcher.subscribe("$SYS/broker/publish/messages/dropped", 0);
        let watch = Watch::new(broker, RECEIVERS + PUBLISHERS.len());
        let written = AtomicUsize::new(0);
        thread::scope(|scope| {
            let written = &written;
            let flood = |name| scope.spawn(move || flood(broker, V4, name, 0, written));
            let floods = PUBLISHERS.map(flood);
            while !floods.iter().all(thread::ScopedJoinHandle::is_finished) {
                thread::sleep(Duration::from_millis(20));
                watch.check();
            }
            for flood in floods {
                flood.join().unwrap();
            }
        });
        let mut marker = Client::connect(broker, V5, "marker");
        let mut got = 0;
        for receiver in &mut receivers {
            receiver.subscribe("marker", 1);
            marker.say("marker", "end", 1);
            loop {
                let message = receiver.expect_message();
                receiver.acknowledge(&message);
                if message.topic == "marker" {
                    break;
                }
                got += 1;
            }
        }
        let dropped = RECEIVERS * PUBLISHERS.len() * usize::from(COUNT) - got;
        assert!(dropped > 0, "all of it fits nowhere");
        let counter = "$SYS/broker/publish/messages/dropped";
        watcher.expect_value(counter, |value| value == dropped.to_string());
        watch.check();
    });
}

#[test]
fn a_receiver_that_reads_nothing_holds_publishers_no_longer_than_the_option_says() {
    //= B45
    in_both_modes(&[("--max-hold", "200ms")], |broker| {
        let mut stuck = Client::connect(broker, V5, "stuck");
        stuck.subscribe("t", 0);
        let watch = Watch::new(broker, 1 + PUBLISHERS.len());
        let written = AtomicUsize::new(0);
        thread::scope(|scope| {
            for name in PUBLISHERS {
                let written = &written;
                scope.spawn(move || flood(broker, V4, name, 0, written));
            }
        });
        watch.check();
        assert!(broker.log().contains("a slow receiver"), "it is told");
    });
}

#[test]
fn a_client_that_does_not_read_its_answers_is_not_read_either() {
    in_both_modes(&[("--max-packet-size", "64KiB")], |broker| {
        let flooder = Client::connect(broker, V5, "flooder");
        let watch = Watch::new(broker, 1);
        let mut writer = flooder.stream();
        writer.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
        // PINGREQ, until nobody takes them any more.
        let pings = [0xC0, 0].repeat(32 << 10);
        let written = AtomicUsize::new(0);
        while written.load(Ordering::Relaxed) < 1 << 30 && writer.write_all(&pings).is_ok() {
            written.fetch_add(pings.len(), Ordering::Relaxed);
            watch.check();
        }
        assert!(written.into_inner() < 1 << 30, "it is read without an end");
        Client::connect(broker, V5, "other").ping_without_messages();
    });
}

/// Messages for a receiver that is away are on disk, and so they are when the broker starts again.
#[test]
fn a_long_absence_takes_disk_and_not_memory_also_at_the_next_start() {
    //= B46, W06
    let limits = [("--max-queued-bytes", "1GiB"), ("--snapshot-every", "8MiB")];
    let flags: Vec<&str> = limits.iter().flat_map(|(name, value)| [*name, *value]).collect();
    let mut broker = Broker::start(true, &flags);
    let connect = Connect::persistent(V5, "bridge");
    let (mut bridge, _) = connect.open(&broker);
    bridge.subscribe("t", 2);
    bridge.disconnect();
    let watch = Watch::new(&broker, PUBLISHERS.len());
    let written = AtomicUsize::new(0);
    thread::scope(|scope| {
        let written = &written;
        let floods = PUBLISHERS.map(|name| {
            let broker = watch.broker;
            scope.spawn(move || flood(broker, V4, name, 2, written))
        });
        while !floods.iter().all(thread::ScopedJoinHandle::is_finished) {
            thread::sleep(Duration::from_millis(20));
            watch.check();
        }
    });
    let (idle_kib, allowed_kib) = (watch.idle_kib, watch.allowed_kib);
    broker.crash();
    let watch = Watch { broker: &broker, idle_kib, allowed_kib };
    watch.check();
    let (mut bridge, accepted) = connect.open(&broker);
    assert!(accepted.session_present);
    take_all(&mut bridge, 2);
    watch.check();
    bridge.ping_without_messages();
}

/// Each of many receivers may have much waiting, and all of them together a little of that.
#[test]
fn all_outputs_together_are_bounded() {
    const MANY: usize = 64;
    /// More than outputs, sockets and what goes from lane to lane take together.
    const MESSAGES: usize = 40_000;
    const TOTAL_KIB: u64 = 8 << 10;
    const LEAST_KIB: u64 = 32;
    let limits = ["--max-output", "2MiB", "--max-output-total", "8MiB", "--max-hold", "1h"];
    let broker = Broker::start(false, &[&limits[..], &["--lanes", "2"]].concat());
    let mut receivers: Vec<Client> = (0..MANY)
        .map(|n| {
            let mut client = Client::connect(&broker, V4, &format!("receiver {n}"));
            // So that little waits in the kernel.
            set_socket_recv_buffer_size(client.stream(), 4096).unwrap();
            client.subscribe("t", 0);
            client
        })
        .collect();
    let mut watch = Watch::new(&broker, 1);
    watch.allowed_kib += TOTAL_KIB + LEAST_KIB * MANY as u64;
    let publisher = Client::connect(&broker, V4, "publisher");
    let written = AtomicUsize::new(0);
    thread::scope(|scope| {
        let mut writer = publisher.stream();
        let written = &written;
        let sends = scope.spawn(move || {
            for n in 0..MESSAGES {
                let publish = Publish::new("t", format!("{n:SMALL$}"));
                writer.write_all(&publish.encode(V4)).unwrap();
                written.fetch_add(1, Ordering::Relaxed);
            }
        });
        let came = watch.until_still(written, MESSAGES);
        assert!(came < MESSAGES, "nobody was slowed down");
        // Those that leave hold up nobody.
        receivers.clear();
        sends.join().unwrap();
    });
}

/// Retained messages of 100 MiB together.
const RETAINED: u16 = 1600;
const RETAINED_SIZE: usize = 64 << 10;

#[test]
fn retained_messages_of_any_number_are_paced_by_their_receiver() {
    in_both_modes(&[], |broker| {
        let mut publisher = Client::connect(broker, V4, "publisher");
        let mut writer = publisher.stream();
        thread::scope(|scope| {
            scope.spawn(move || {
                for n in 1..=RETAINED {
                    let publish = Publish::new(&format!("r/{n}"), vec![b'.'; RETAINED_SIZE]);
                    writer.write_all(&publish.retain().qos(1, n).encode(V4)).unwrap();
                }
            });
            (1..=RETAINED).for_each(|n| expect_ack(&mut publisher, 0x40, n));
        });
        for qos in [0, 1] {
            let mut receiver = Client::connect(broker, V5, &format!("receiver {qos}"));
            let watch = Watch::new(broker, 1);
            // SUBACK waits behind nothing of it, and then the rest waits for the reader.
            receiver.subscribe("r/#", qos);
            watch.until_still(&AtomicUsize::new(0), usize::MAX);
            let mut seen = vec![false; usize::from(RETAINED)];
            for n in 0..RETAINED {
                let message = receiver.expect_message();
                assert_eq!((message.qos, message.payload.len()), (qos, RETAINED_SIZE));
                let topic: usize = message.topic.strip_prefix("r/").unwrap().parse().unwrap();
                assert!(!std::mem::replace(&mut seen[topic - 1], true), "{topic} came twice");
                receiver.acknowledge(&message);
                if n % 50 == 0 {
                    watch.check();
                }
            }
            receiver.ping_without_messages();
        }
    });
}

/// Publishes short messages without a pause until it is told to stop.
fn flood_until(broker: &Broker, name: &str, stop: &AtomicBool, written: &AtomicUsize) {
    const TOGETHER: usize = 64;
    let mut client = Client::connect(broker, V4, name);
    let packets = Publish::new("t", vec![b'.'; SMALL]).encode(V4).repeat(TOGETHER);
    while !stop.load(Ordering::Relaxed) {
        client.send(&packets);
        written.fetch_add(TOGETHER, Ordering::Relaxed);
    }
    client.disconnect();
}

/// Connections that do next to nothing.
const OTHERS: u64 = 10_000;

/// Lets this process, and the brokers that it starts, have files for [`OTHERS`] connections and for
/// all else; or says why it cannot.
fn take_descriptors() -> Result<(), String> {
    const NEEDED: u64 = OTHERS + 500;
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let most = limit.maximum.unwrap_or(u64::MAX);
    if most < NEEDED {
        return Err(format!("{most} open files are allowed and {NEEDED} needed: raise ulimit -Hn"));
    }
    if limit.current.is_some_and(|current| current < NEEDED) {
        let raised = rustix::process::Rlimit { current: Some(NEEDED), maximum: limit.maximum };
        rustix::process::setrlimit(rustix::process::Resource::Nofile, raised).unwrap();
    }
    Ok(())
}

#[test]
fn one_of_ten_thousand_connections_floods_and_the_others_are_served() {
    if let Err(why) = take_descriptors() {
        assert!(std::env::var_os("CI").is_none(), "{why}");
        eprintln!("skipped: {why}");
        return;
    }
    in_both_modes(&[], |broker| {
        let mut others: Vec<Client> =
            (0..OTHERS).map(|n| Client::connect(broker, V4, &format!("other {n}"))).collect();
        for other in &mut others {
            other.subscribe("to/all", 0);
        }
        let mut sink = Client::connect(broker, V4, "sink");
        sink.subscribe("t", 0);
        let mut sender = Client::connect(broker, V4, "sender");
        let mut tell_all = |text: &str| {
            sender.say("to/all", text, 1);
            for other in &mut others {
                other.expect("to/all", text);
            }
            others.iter_mut().step_by(97).for_each(Client::ping_without_messages);
        };
        // Each connection has what it takes to be sent a message at all.
        tell_all("warm");
        let watch = Watch::new(broker, 2 + PUBLISHERS.len());
        let (written, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
        thread::scope(|scope| {
            let (written, stop) = (&written, &stop);
            let stops = Stops(stop);
            let floods = PUBLISHERS
                .map(|name| scope.spawn(move || flood_until(broker, name, stop, written)));
            let reader = scope.spawn(move || {
                while !floods.iter().all(thread::ScopedJoinHandle::is_finished) {
                    sink.receive(Duration::from_millis(100));
                }
                for flood in floods {
                    flood.join().unwrap();
                }
            });
            for round in 0..3 {
                let before = written.load(Ordering::Relaxed);
                tell_all(&round.to_string());
                watch.check();
                assert!(written.load(Ordering::Relaxed) > before, "it is no flood");
            }
            drop(stops);
            reader.join().unwrap();
        });
    });
}

/// What a log takes, it takes once: however much passes, and whatever of it is trimmed meanwhile.
#[test]
fn memory_stays_flat_while_all_that_is_logged_is_read() {
    const WARM: usize = 3;
    const ROUNDS: usize = 7;
    let limits = LIMITS.iter().chain(&[("--snapshot-every", "8MiB")]);
    let flags: Vec<&str> = limits.flat_map(|(name, value)| [*name, *value]).collect();
    let broker = Broker::start(true, &flags);
    let mut receivers: Vec<Client> =
        (0..RECEIVERS).map(|n| Client::connect(&broker, V5, &format!("receiver {n}"))).collect();
    for receiver in &mut receivers {
        receiver.subscribe("t", 1);
    }
    let written = AtomicUsize::new(0);
    let mut at_rest = || {
        thread::scope(|scope| {
            let (broker, written) = (&broker, &written);
            for name in PUBLISHERS {
                scope.spawn(move || flood(broker, V4, name, 1, written));
            }
            for receiver in &mut receivers {
                scope.spawn(move || take_all(receiver, 1));
            }
        });
        broker.resident_at_rest_kib()
    };
    let warm = (0..WARM).map(|_| at_rest()).max().unwrap();
    for round in WARM..ROUNDS {
        let now = at_rest();
        assert!(now <= warm + GROWTH_KIB, "{warm} KiB when it was warm, {now} in round {round}");
    }
}
