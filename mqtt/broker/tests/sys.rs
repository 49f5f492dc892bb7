//! `$SYS` over real sockets: the names that tools read, retained values at once and fresh ones as
//! they are renewed.

mod support;

use Version::V5;
use support::{Broker, Client, Connect, Version};

/// A number that has moved.
fn counted(value: &str) -> bool {
    value.parse::<f64>().is_ok_and(|value| value > 0.0)
}

#[test]
fn tools_find_mosquittos_names_and_their_values_move() {
    let broker = Broker::start(true, &["--sys-interval", "50ms"]);
    let mut watcher = Client::connect(&broker, V5, "watcher");
    watcher.subscribe("$SYS/broker/#", 0);
    let mut publisher = Client::connect(&broker, V5, "publisher");
    publisher.say("t", "one", 1);
    for topic in ["load/publish/received/1min", "load/messages/sent/15min", "load/connections/5min"]
    {
        watcher.expect_value(&format!("$SYS/broker/{topic}"), counted);
    }
    let most = |value: &str| value == "2";
    watcher.expect_value("$SYS/broker/clients/maximum", most);
    watcher.expect_value("$SYS/broker/publish/messages/received", |value| value == "1");
    watcher.expect_value("$SYS/broker/store/state", |value| value == "writable");
    for (topic, wanted) in [
        ("groups/count", counted as fn(&str) -> bool),
        ("segments/count", counted),
        ("offset/lag", |value| value == "0"),
        ("acknowledgements/held", |value| value == "0"),
    ] {
        watcher.expect_value(&format!("$SYS/broker/store/{topic}"), wanted);
    }
    // Of the writes since the values before.
    for topic in ["fsync/microseconds", "fsync/microseconds/maximum", "commit/microseconds"] {
        publisher.say("t", "two", 1);
        watcher.expect_value(&format!("$SYS/broker/store/{topic}"), counted);
    }
    publisher.disconnect();
    watcher.expect_value("$SYS/broker/clients/connected", |value| value == "1");
    watcher.expect_value("$SYS/broker/clients/maximum", most);
}

#[test]
fn a_new_subscription_gets_the_present_values_marked_as_retained() {
    let broker = Broker::start(false, &["--sys-interval", "1h"]);
    let mut watcher = Client::connect(&broker, V5, "watcher");
    watcher.subscribe("$SYS/broker/version", 0);
    let message = watcher.expect_message();
    assert!(message.retain && message.payload_text().starts_with("zzq version"));
}

#[test]
fn what_is_stored_and_passes_is_told_in_bytes() {
    for logged in [false, true] {
        let broker = Broker::start(logged, &["--sys-interval", "50ms"]);
        let mut watcher = Client::connect(&broker, V5, "watcher");
        watcher.subscribe("$SYS/broker/#", 0);
        let told = |watcher: &mut Client, name: &str, wanted: &str| {
            watcher.expect_value(&format!("$SYS/broker/{name}"), |value| value == wanted);
        };
        let (mut away, _) = Connect::persistent(V5, "away").open(&broker);
        away.subscribe("$share/group/t", 1);
        away.subscribe("t", 1);
        told(&mut watcher, "shared_subscriptions/count", "1");
        told(&mut watcher, "subscriptions/count", "3");
        away.unsubscribe(&["$share/group/t"]);
        told(&mut watcher, "shared_subscriptions/count", "0");
        away.disconnect();
        let mut publisher = Client::connect(&broker, V5, "publisher");
        publisher.say("t", &"x".repeat(1000), 1);
        publisher.retain("r", &"x".repeat(500), 1);
        told(&mut watcher, "publish/bytes/received", "1500");
        for name in ["store/messages/count", "messages/stored"] {
            told(&mut watcher, name, "2");
        }
        watcher.expect_value("$SYS/broker/store/messages/bytes", |value| {
            value.parse::<u64>().is_ok_and(|bytes| (1500..1600).contains(&bytes))
        });
        let (mut back, _) = Connect::persistent(V5, "away").open(&broker);
        let message = back.expect("t", &"x".repeat(1000));
        back.acknowledge(&message);
        publisher.retain("r", "", 1);
        told(&mut watcher, "store/messages/bytes", "0");
        watcher.expect_value("$SYS/broker/publish/bytes/sent", |value| {
            value.parse::<u64>().is_ok_and(|bytes| bytes > 1000)
        });
    }
}
