//! Kills the broker at random moments under load, again and again on the same folder: what was
//! acknowledged arrives, what was published at QoS 2 arrives once, and in order.
//!
//! Publishers and subscribers are good clients: their state outlives the broker, and on coming
//! back they send again what MQTT asks for, and nothing else. A round counts only if publishes
//! were unacknowledged when the broker was killed. `ZZQ_CRASH_ROUNDS` and `ZZQ_CRASH_SEED` set
//! the number of rounds and the moments.

#![allow(clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "crash/clients.rs"]
mod clients;
mod support;

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use clients::{Moment, Publisher, Subscriber};
use support::{Broker, Random, on_disk};

const ACKNOWLEDGED: u64 = 1000;

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().map_or(default, |value| value.parse().expect("a number"))
}

/// Everybody runs until the broker is killed.
fn round(
    broker: &mut Broker,
    publishers: &mut [Publisher<'_>],
    subscribers: &mut [Subscriber],
    moment: Moment,
    acknowledged: &AtomicU64,
) {
    let address = broker.address();
    thread::scope(|scope| {
        for subscriber in subscribers {
            scope.spawn(move || subscriber.run(address, |_| false));
        }
        for publisher in publishers {
            scope.spawn(move || publisher.run(address, true));
        }
        moment.wait(acknowledged);
        broker.kill();
    });
}

/// Publishers complete what is open, subscribers take all that is left.
fn finish(broker: &Broker, publishers: &mut [Publisher<'_>], subscribers: &mut [Subscriber]) {
    let address = broker.address();
    thread::scope(|scope| {
        for publisher in &mut *publishers {
            scope.spawn(move || publisher.run(address, false));
        }
    });
    assert!(publishers.iter().all(|publisher| publisher.open() == 0), "all is acknowledged");
    let sent: Vec<u64> = publishers.iter().map(Publisher::sent).collect();
    thread::scope(|scope| {
        for subscriber in subscribers {
            let sent = &sent;
            scope.spawn(move || subscriber.run(address, |got| got.has_all(sent)));
        }
    });
}

#[test]
fn nothing_acknowledged_is_lost_or_doubled_when_the_broker_is_killed() {
    //= MQTT5-4.3.2-4, MQTT5-4.3.3-8, MQTT5-4.3.3-10, MQTT5-4.4.0-1, MQTT5-4.6.0-5, MQTT5-4.5.0-1
    //= MQTT311-4.3.2-2, MQTT311-4.3.3-2, MQTT311-4.4.0-1, MQTT311-4.6.0-6, MQTT311-4.5.0-1
    let rounds = setting("ZZQ_CRASH_ROUNDS", 20);
    let seed = setting("ZZQ_CRASH_SEED", u64::from(std::process::id()));
    println!("ZZQ_CRASH_SEED={seed}");
    let mut random = Random::new(seed);
    let mut broker = on_disk();
    let acknowledged = AtomicU64::new(0);
    let mut publishers: Vec<Publisher<'_>> =
        (0..4).map(|n| Publisher::new(n, 1 + n % 2, &acknowledged)).collect();
    let mut subscribers = [Subscriber::new("always", 2), Subscriber::new("less", 1)];
    let mut away = [Subscriber::new("away", 2)];
    for subscriber in subscribers.iter_mut().chain(&mut away) {
        subscriber.subscribe(&broker);
    }
    let (mut counted, mut tried) = (0, 0);
    while counted < rounds {
        tried += 1;
        assert!(tried <= 3 * rounds, "too few rounds had anything outstanding: {counted}");
        let moment = Moment::random(&mut random, tried % 4 == 0);
        round(&mut broker, &mut publishers, &mut subscribers, moment, &acknowledged);
        counted += u64::from(publishers.iter().any(|publisher| publisher.open() > 0));
        broker.start_again();
    }
    let before = acknowledged.load(Ordering::Relaxed);
    assert!(before >= ACKNOWLEDGED, "only {before} were acknowledged");
    finish(&broker, &mut publishers, &mut subscribers);
    finish(&broker, &mut publishers, &mut away);
    for subscriber in subscribers.iter().chain(&away) {
        subscriber.check(&publishers);
    }
    println!("{counted} rounds, {before} acknowledged before the last");
}
