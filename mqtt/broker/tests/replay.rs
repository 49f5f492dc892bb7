//! Subscriptions that start in the past: history first, in order, then what is published, each
//! once.

#![allow(clippy::expect_used, reason = "helpers of tests panic as tests do")]

mod support;

use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Instant;

use Version::{V4, V5};
use support::{Broker, Client, Connect, Message, PATIENCE, Publish, Version, on_disk};
use support::{packet, read_block, read_varint, text, values};

/// User property `replay-from`.
const FROM: &str = "replay-from";

/// The value of a user property of a message.
fn user<'m>(message: &'m Message, name: &str) -> Option<&'m str> {
    let named = |pair: &'m [u8]| {
        let (len, rest) = pair.split_first_chunk::<2>()?;
        let (found, value) = rest.split_at(usize::from(u16::from_be_bytes(*len)));
        (found == name.as_bytes()).then(|| str::from_utf8(&value[2..]).expect("text"))
    };
    message.all(0x26).into_iter().find_map(named)
}

fn offset(message: &Message) -> u64 {
    user(message, "replay-offset").expect("an offset").parse().expect("a number")
}

/// Subscribes to one filter at some options, with `replay-from`; the code and the reason string.
#[track_caller]
fn subscribe(client: &mut Client, filter: &str, options: u8, from: Option<&str>) -> (u8, String) {
    let mut properties = Vec::new();
    if let Some(from) = from {
        properties.push(0x26);
        properties.extend(text(FROM));
        properties.extend(text(from));
    }
    let mut body = vec![0, 77];
    body.extend(support::block(&properties));
    body.extend(text(filter));
    body.push(options);
    client.send(&packet(0x82, &body));
    let answer = client.expect_answer();
    let (_, size) = read_varint(&answer[1..]).expect("a remaining length");
    let (said, used) = read_block(&answer[1 + size + 2..]);
    let reason = values(&said, 0x1F).first().map(|reason| String::from_utf8_lossy(reason).into());
    (answer[1 + size + 2 + used], reason.unwrap_or_default())
}

/// Says numbers, with others between that nobody wants.
fn say(publisher: &mut Client, numbers: std::ops::Range<u32>, qos: u8) {
    for n in numbers {
        publisher.say("other", "x", 1);
        publisher.say("news/a", &n.to_string(), qos);
    }
}

#[track_caller]
fn expect_all(client: &mut Client, numbers: std::ops::Range<u32>) -> Vec<Message> {
    numbers.map(|n| client.expect("news/a", &n.to_string())).collect()
}

#[test]
fn history_comes_in_order_then_what_is_published() {
    // A window of four.
    let slow = Connect::new(V5, "slow").properties("21 00 04");
    for connect in [slow, Connect::persistent(V5, "persistent"), Connect::new(V4, "old")] {
        let broker = on_disk();
        let mut publisher = Client::connect(&broker, V5, "publisher");
        say(&mut publisher, 0..40, 1);
        let (mut client, _) = connect.open(&broker);
        client.subscribe("$replay/all/news/#", 1);
        let history = expect_all(&mut client, 0..40);
        if client.version() == V5 {
            assert!(history.iter().map(offset).is_sorted_by(|a, b| a < b));
            let time = user(&history[0], "replay-time").expect("a time");
            assert!(time.starts_with("20") && time.ends_with('Z'), "{time}");
        } else {
            assert!(history.iter().all(|message| message.all(0x26).is_empty()));
        }
        client.ping_without_messages();
        publisher.say("news/b", "live", 1);
        let live = client.expect("news/b", "live");
        assert!(client.version() == V4 || offset(&live) > offset(&history[39]));
        client.unsubscribe(&["$replay/all/news/#"]);
        publisher.say("news/b", "to nobody", 1);
        client.ping_without_messages();
        client.disconnect();
    }
}

/// What the broker adds never makes a message too large for its receiver: then it goes without.
#[test]
fn a_message_that_its_place_would_make_too_large_comes_without_it() {
    let broker = on_disk();
    let mut publisher = Client::connect(&broker, V5, "publisher");
    // At QoS 1 a message without properties has 14 bytes besides its payload; an alias adds 3.
    for fits in [200, 197, 130] {
        publisher.say("news/a", &"x".repeat(fits - 14), 1);
    }
    publisher.say("news/a", &"y".repeat(200), 1);
    publisher.say("news/a", "end", 1);
    for (name, aliases) in [("plain", ""), ("aliased", "22 00 05")] {
        let properties = format!("27 00 00 00 C8 {aliases}");
        let (mut client, _) = Connect::new(V5, name).properties(&properties).open(&broker);
        client.subscribe("$replay/all/news/#", 1);
        for (fits, has_place) in [(200, false), (197, false), (130, true)] {
            let message = client.expect_message();
            assert_eq!(message.payload, "x".repeat(fits - 14).as_bytes());
            client.acknowledge(&message);
            assert_eq!(user(&message, "replay-offset").is_some(), has_place, "{name} {fits}");
            assert_eq!(user(&message, "replay-time").is_some(), has_place, "{name} {fits}");
        }
        // One that is too large by itself is still dropped.
        assert_eq!(client.expect_message().payload, b"end");
    }
}

#[test]
fn history_at_qos_0_comes_in_order_too() {
    let broker = Broker::start(true, &["--log=everything"]);
    let mut publisher = Client::connect(&broker, V5, "publisher");
    for n in 0..300_u32 {
        publisher.say("news/a", &n.to_string(), u8::try_from(n % 2).expect("0 or 1"));
    }
    publisher.ping();
    for (qos, end) in [(0, 300), (1, 301)] {
        let mut client = Client::connect(&broker, V5, "reader");
        client.subscribe("$replay/all/news/a", qos);
        let history = expect_all(&mut client, 0..end);
        assert!(history.iter().map(offset).is_sorted_by(|a, b| a < b));
        publisher.say("news/a", &end.to_string(), 0);
        let live = expect_all(&mut client, end..end + 1);
        assert!(offset(&live[0]) > offset(&history[299]));
    }
}

#[test]
fn a_start_is_an_offset_a_time_or_a_span() {
    let broker = on_disk();
    let mut publisher = Client::connect(&broker, V5, "publisher");
    say(&mut publisher, 0..10, 1);
    let mut client = Client::connect(&broker, V5, "reader");
    assert_eq!(subscribe(&mut client, "news/#", 1, Some("all")), (1, String::new()));
    let history = expect_all(&mut client, 0..10);
    client.unsubscribe(&["news/#"]);
    let fourth = format!("@{}", offset(&history[4]));
    let time = user(&history[0], "replay-time").expect("a time").to_owned();
    for (from, first) in [(&*fourth, 4), (&*time, 0), ("-1h", 0), ("0", 0)] {
        subscribe(&mut client, "news/#", 1, Some(from));
        expect_all(&mut client, first..10);
        client.unsubscribe(&["news/#"]);
        client.subscribe(&format!("$replay/{from}/news/#"), 1);
        expect_all(&mut client, first..10);
        client.unsubscribe(&[&format!("$replay/{from}/news/#")]);
    }
    let (code, reason) = subscribe(&mut client, "news/#", 1, Some("@1000000"));
    assert!(code == 1 && reason.contains("1000000") && reason.contains("the last"), "{reason}");
    client.ping_without_messages();
    say(&mut publisher, 10..11, 1);
    expect_all(&mut client, 10..11);
}

/// What was let go does not come back: whoever asks for it is told so, and what there is comes.
#[test]
fn an_offset_that_was_let_go_is_told_and_the_oldest_comes_first() {
    let broker = Broker::start(true, &["--segment-size=1MiB", "--snapshot-every=200KiB"]);
    let mut publisher = Client::connect(&broker, V5, "publisher");
    let payload = "x".repeat(100_000);
    let end = Instant::now() + PATIENCE;
    let (mut client, oldest) = loop {
        for _ in 0..10 {
            publisher.say("past", &payload, 1);
        }
        let mut client = Client::connect(&broker, V5, "reader");
        let (code, reason) = subscribe(&mut client, "past", 1, Some("@1"));
        assert_eq!(code, 1);
        if let Some(begins) = reason.strip_prefix("offset 1 is gone: it starts with ") {
            let oldest = begins.strip_suffix(", the oldest").expect("the oldest");
            break (client, oldest.parse::<u64>().expect("an offset"));
        }
        assert!(reason.is_empty() && Instant::now() < end, "{reason}");
    };
    publisher.say("past", "last", 1);
    let mut offsets = Vec::new();
    loop {
        let message = client.expect_message();
        client.acknowledge(&message);
        offsets.push(offset(&message));
        if message.payload_text() == "last" {
            break;
        }
    }
    assert!(oldest > 1 && offsets[0] >= oldest, "{oldest} {offsets:?}");
    assert!(offsets.len() > 1 && offsets.is_sorted_by(|a, b| a < b), "{offsets:?}");
    // MQTT 3 has no place for a reason. It gets what there is.
    let mut old = Client::connect(&broker, V4, "old");
    assert_eq!(old.subscribe_with("", &[("$replay/@1/past", 1)]), [1]);
    let first = old.expect_message();
    assert_eq!(first.topic, "past");
}

#[test]
fn what_cannot_be_is_refused_with_its_reason() {
    let broker = on_disk();
    let mut client = Client::connect(&broker, V5, "reader");
    for (filter, from, options, code, word) in [
        ("news/#", Some("yesterday"), 1, 0x8F, "@OFFSET"),
        ("$replay/all", None, 1, 0x8F, "<filter>"),
        ("$share/g/news", Some("all"), 1, 0x83, "shared"),
        ("$replay/all/news", None, 5, 0x83, "No Local"),
    ] {
        let (found, reason) = subscribe(&mut client, filter, options, from);
        assert!(found == code && reason.contains(word), "{filter}: {found:#x} {reason}");
    }
    let broker = Broker::start(false, &[]);
    let mut client = Client::connect(&broker, V5, "reader");
    let (code, reason) = subscribe(&mut client, "$replay/all/news", 1, None);
    assert!(code == 0x83 && reason.contains("--data-dir"), "{reason}");
    let mut old = Client::connect(&broker, V4, "old");
    assert_eq!(old.subscribe_with("", &[("$replay/all/news", 1)]), [0x80]);
}

#[test]
fn a_reconnect_goes_on_and_another_subscription_begins_anew() {
    let broker = on_disk();
    let mut publisher = Client::connect(&broker, V5, "publisher");
    say(&mut publisher, 0..30, 1);
    let reader = Connect::persistent(V5, "reader").properties("21 00 02");
    let (mut client, _) = reader.open(&broker);
    client.subscribe("$replay/all/news/a", 1);
    expect_all(&mut client, 0..10);
    client.disconnect();
    say(&mut publisher, 30..40, 1);
    let (mut client, accepted) = reader.open(&broker);
    assert!(accepted.session_present);
    expect_all(&mut client, 10..40);
    // Retain Handling 1: it is there already.
    client.subscribe("$replay/all/news/a", 1 | 1 << 4);
    client.ping_without_messages();
    client.subscribe("$replay/all/news/a", 1);
    expect_all(&mut client, 0..40);
    client.ping_without_messages();
}

/// The same where a PUBCOMP may have been lost: its PUBREL comes again.
#[track_caller]
fn expect_exactly(client: &mut Client, numbers: std::ops::Range<u32>) -> Vec<Message> {
    let mut next = || {
        loop {
            let packet = client.expect_packet();
            if packet[0] == 0x62 {
                client.send_ack(0x70, u16::from_be_bytes([packet[2], packet[3]]));
                continue;
            }
            let message = Message::decode(&packet, V5);
            client.acknowledge(&message);
            return message;
        }
    };
    let check = |n: u32| {
        let message = next();
        assert_eq!(message.payload_text(), n.to_string());
        message
    };
    numbers.map(check).collect()
}

#[test]
fn history_goes_on_exactly_when_the_broker_is_killed() {
    let mut broker = on_disk();
    let mut publisher = Client::connect(&broker, V5, "publisher");
    say(&mut publisher, 0..60, 2);
    let reader = Connect::persistent(V5, "reader").properties("21 00 05");
    let (mut client, _) = reader.open(&broker);
    client.subscribe("$replay/all/news/a", 2);
    for round in 0..3 {
        expect_exactly(&mut client, round * 15..round * 15 + 15);
        broker.crash();
        client = reader.open(&broker).0;
    }
    let mut publisher = Client::connect(&broker, V5, "publisher");
    say(&mut publisher, 60..70, 2);
    expect_exactly(&mut client, 45..70);
    client.ping_without_messages();
    // What is live now waits for who is away, and has its place.
    client.disconnect();
    say(&mut publisher, 70..75, 2);
    broker.crash();
    let (mut client, _) = reader.open(&broker);
    assert!(expect_exactly(&mut client, 70..75).iter().map(offset).is_sorted_by(|a, b| a < b));
}

/// History takes no more of a queue than there is: it would end its own session, for ever.
#[test]
fn history_fits_the_queue_of_its_session() {
    let limits = ["--queue-full=end-session", "--max-queued-bytes=1000"];
    let broker = Broker::start(true, &limits);
    let mut publisher = Client::connect(&broker, V5, "publisher");
    // One of them is more than a queue may have at all.
    let sizes = [300, 300, 300, 900, 10, 900, 900, 2000, 300, 10, 300, 300];
    for size in sizes {
        publisher.publish_all(Publish::new("news/a", "x".repeat(size)), 1);
    }
    let (mut client, _) = Connect::persistent(V5, "reader").open(&broker);
    client.subscribe("$replay/all/news/a", 1);
    for size in sizes {
        let message = client.expect_message();
        client.acknowledge(&message);
        assert_eq!(message.payload_text().len(), size);
    }
    client.ping_without_messages();
}

/// Readers of the test below.
const READERS: u32 = 6;

/// A reader that is gone, whatever it has seen, keeps no publisher waiting.
struct Gone<'a>(&'a AtomicU32);

impl Drop for Gone<'_> {
    fn drop(&mut self) {
        self.0.store(READERS, Ordering::Relaxed);
    }
}

/// The step from history to what is published, while it is.
#[test]
fn nothing_is_missed_or_doubled_where_history_ends() {
    let broker = Broker::start(true, &["--lanes=2"]);
    // Those that are well on their way.
    let ready = AtomicU32::new(0);
    thread::scope(|scope| {
        let publish = |topic: &'static str| {
            let mut publisher = Client::connect(&broker, V5, topic);
            let ready = &ready;
            move || {
                let mut n = 0;
                while ready.load(Ordering::Relaxed) < READERS {
                    publisher.publish_all(Publish::new(topic, n.to_string()), 1);
                    n += 1;
                }
                publisher.publish_all(Publish::new(topic, "end"), 1);
                n
            }
        };
        let publishers = ["seam/a", "seam/b", "seam/c"].map(|topic| scope.spawn(publish(topic)));
        let readers: Vec<_> = (0..READERS)
            .map(|n| {
                let (mut client, _) = Connect::new(V5, &format!("reader {n}")).open(&broker);
                let ready = &ready;
                scope.spawn(move || {
                    let _gone = Gone(ready);
                    client.subscribe("$replay/all/seam/#", 1);
                    let mut next = [0; 3];
                    let mut last = 0;
                    let mut ends: u32 = 0;
                    while ends < 3 {
                        let message = client.expect_message();
                        client.acknowledge(&message);
                        assert!(offset(&message) > last, "in the order of the log, each once");
                        last = offset(&message);
                        let of = ["seam/a", "seam/b", "seam/c"];
                        let of = of.iter().position(|topic| *topic == message.topic).expect("one");
                        if message.payload_text() == "end" {
                            ends += 1;
                        } else {
                            assert_eq!(message.payload_text(), next[of].to_string());
                            next[of] += 1;
                        }
                        if next.iter().sum::<u32>() == 300 {
                            ready.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                    next
                })
            })
            .collect();
        let said = publishers.map(|publisher| publisher.join().expect("a publisher"));
        for reader in readers {
            assert_eq!(reader.join().expect("a reader"), said);
        }
    });
}
