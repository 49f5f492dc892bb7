//! Images: what they cover is there after every end, and the log before them goes.

#![allow(clippy::expect_used, reason = "helpers of tests panic as tests do")]

mod support;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use Version::{V4, V5};
use rustix::process::{Pid, Signal, kill_process};
use support::{Broker, Client, Connect, PATIENCE, Publish, Version, on_disk};

/// Files of the data directory with this ending, by name, and their sizes.
fn files(broker: &Broker, ending: &str) -> Vec<(PathBuf, u64)> {
    let folder = std::fs::read_dir(broker.data()).expect("a folder");
    let mut files: Vec<_> = folder
        .map(|entry| entry.expect("an entry"))
        .filter(|entry| entry.path().extension().is_some_and(|found| found == ending))
        .map(|entry| (entry.path(), entry.metadata().expect("a file").len()))
        .collect();
    files.sort();
    files
}

fn made(broker: &Broker) -> usize {
    broker.log().matches("image made").count()
}

/// Waits until something is so.
#[track_caller]
fn until(what: &str, is_so: impl Fn() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < end, "in vain: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// SIGUSR1, and the image that it asks for.
#[track_caller]
fn snapshot(broker: &Broker) {
    let before = made(broker);
    let pid = i32::try_from(broker.pid()).ok().and_then(Pid::from_raw).expect("a process");
    kill_process(pid, Signal::USR1).expect("a running broker");
    until("an image is made", || made(broker) > before);
}

/// Inverts a byte of a file.
fn damage(file: &PathBuf, at: usize) {
    let mut bytes = std::fs::read(file).expect("a file");
    bytes[at] ^= 1;
    std::fs::write(file, bytes).expect("a file");
}

#[test]
fn what_an_image_covers_is_there_after_every_end() {
    //= MQTT311-3.1.2-5, MQTT5-3.1.2-23, MQTT5-4.3.3-10, MQTT5-3.3.1-5
    for end in [Broker::crash, Broker::restart] {
        let mut broker = on_disk();
        let away = Connect::persistent(V5, "away");
        let (mut client, _) = away.open(&broker);
        client.subscribe("queue/#", 2);
        client.subscribe("later", 1);
        client.disconnect();
        let mut publisher = Connect::persistent(V4, "publisher").open(&broker).0;
        for n in 0..30 {
            publisher.say("queue/a", &format!("before {n}"), 1 + n % 2);
        }
        publisher.retain("kept", "retained before", 1);
        publisher.retain("kept/changed", "old", 2);
        publisher.retain("kept/gone", "x", 1);
        // PUBREL is owed.
        publisher.publish(&Publish::new("queue/b", "half way").qos(2, 7));
        publisher.expect_ack(0x50, 7);
        snapshot(&broker);
        publisher.say("queue/a", "behind", 1);
        publisher.retain("kept/changed", "new", 1);
        publisher.retain("kept/gone", "", 1);
        snapshot(&broker);
        publisher.say("later", "last", 1);
        drop(publisher);
        end(&mut broker);

        let (mut publisher, accepted) = Connect::persistent(V4, "publisher").open(&broker);
        assert!(accepted.session_present);
        // Sent again: it is the same message, and its release is awaited.
        publisher.publish(&Publish::new("queue/b", "half way").qos(2, 7).dup());
        publisher.expect_ack(0x50, 7);
        publisher.send_ack(0x62, 7);
        publisher.expect_ack(0x70, 7);
        let (mut client, accepted) = away.open(&broker);
        assert!(accepted.session_present);
        for n in 0..30 {
            let message = client.expect("queue/a", &format!("before {n}"));
            assert_eq!(message.qos, 1 + n % 2);
        }
        client.expect("queue/b", "half way");
        client.expect("queue/a", "behind");
        client.expect("later", "last");
        client.ping_without_messages();
        let mut reader = Client::connect(&broker, V5, "reader");
        reader.subscribe("kept/#", 1);
        let mut found = [reader.expect_message(), reader.expect_message()];
        found.sort_by(|one, other| one.topic.cmp(&other.topic));
        let found = found.map(|message| (message.topic.clone(), message.payload_text().to_owned()));
        let expected = [("kept", "retained before"), ("kept/changed", "new")];
        assert_eq!(found, expected.map(|(topic, payload)| (topic.into(), payload.into())));
        reader.ping_without_messages();
    }
}

#[test]
fn a_will_that_an_image_covers_is_published() {
    //= MQTT311-3.1.2-8, MQTT5-3.1.2-8
    let mut broker = on_disk();
    let watcher = Connect::persistent(V4, "watcher");
    let (mut client, _) = watcher.open(&broker);
    client.subscribe("will", 1);
    client.disconnect();
    let dying = Connect::new(V4, "dying").will("will", "farewell", 1, false);
    let dying = dying.open(&broker).0;
    snapshot(&broker);
    broker.crash();
    drop(dying);
    watcher.open(&broker).0.expect("will", "farewell");
}

/// Bytes of all segments.
fn log_bytes(broker: &Broker) -> u64 {
    files(broker, "log").iter().map(|(_, size)| size).sum()
}

/// Rounds of 3 MB that nobody wants, and an image behind each.
fn pass_time(broker: &Broker, rounds: usize) {
    let mut publisher = Client::connect(broker, V5, "nobody's");
    let payload = "x".repeat(100_000);
    for _ in 0..rounds {
        for _ in 0..30 {
            publisher.say("nobody", &payload, 1);
        }
        snapshot(broker);
    }
}

#[test]
fn the_log_before_images_goes() {
    let broker = Broker::start(true, &["--segment-size=1MiB", "--snapshot-every=1GiB"]);
    pass_time(&broker, 5);
    until("five rounds of 3 MB are let go but for three", || log_bytes(&broker) < 12_000_000);
    assert_eq!(files(&broker, "image").len(), 2);
    assert_eq!(files(&broker, "cold").len(), 0, "nothing of it is alive");
}

#[test]
fn what_waits_or_is_retained_outlives_its_segment() {
    let mut broker = Broker::start(true, &["--segment-size=1MiB", "--snapshot-every=1GiB"]);
    let away = Connect::persistent(V5, "away");
    let (mut client, _) = away.open(&broker);
    client.subscribe("queue", 2);
    client.subscribe("will", 1);
    client.disconnect();
    let mut publisher = Client::connect(&broker, V5, "publisher");
    for n in 0..100 {
        publisher.say("queue", &format!("it waits {n}"), 1 + n % 2);
        publisher.retain(&format!("kept/{n}"), &format!("retained {n}"), 1);
    }
    let dying = Connect::new(V4, "dying").keep_alive(0).will("will", "farewell", 1, false);
    let dying = dying.open(&broker).0;
    pass_time(&broker, 5);
    until("the log goes all the same", || log_bytes(&broker) < 12_000_000);
    assert!(!files(&broker, "cold").is_empty());
    publisher.say("queue", "the last", 1);

    // From a cold file while the broker runs, and after a start.
    for end in [None, Some(Broker::crash as fn(&mut Broker))] {
        if let Some(end) = end {
            end(&mut broker);
        }
        let mut reader = Client::connect(&broker, V5, "reader");
        reader.subscribe("kept/#", 1);
        let mut found: Vec<_> = (0..100)
            .map(|_| {
                let message = reader.expect_message();
                (message.topic.clone(), message.payload_text().to_owned())
            })
            .collect();
        found.sort();
        let mut expected: Vec<_> =
            (0..100).map(|n| (format!("kept/{n}"), format!("retained {n}"))).collect();
        expected.sort();
        assert_eq!(found, expected);
    }
    drop(dying);
    let (mut client, accepted) = away.open(&broker);
    assert!(accepted.session_present);
    for n in 0..100 {
        let message = client.expect("queue", &format!("it waits {n}"));
        assert_eq!(message.qos, 1 + n % 2);
    }
    client.expect("queue", "the last");
    client.expect("will", "farewell");
    client.ping_without_messages();

    // What has died goes, and what is alive moves on.
    let mut publisher = Client::connect(&broker, V5, "publisher");
    for n in 1..100 {
        publisher.retain(&format!("kept/{n}"), "", 1);
    }
    pass_time(&broker, 5);
    let cold: u64 = files(&broker, "cold").iter().map(|(_, size)| size).sum();
    assert!(cold <= 3 * 4096, "one record is alive: {cold}");
    broker.crash();
    let mut reader = Client::connect(&broker, V5, "reader");
    reader.subscribe("kept/#", 1);
    reader.expect("kept/0", "retained 0");
    reader.ping_without_messages();
}

#[test]
fn an_image_is_made_when_the_log_has_grown() {
    let broker = Broker::start(true, &["--snapshot-every=200KiB", "--segment-size=1MiB"]);
    let mut publisher = Client::connect(&broker, V4, "publisher");
    let payload = "x".repeat(10_000);
    for _ in 0..3 {
        let before = made(&broker);
        for _ in 0..40 {
            publisher.say("t", &payload, 1);
        }
        until("an image is made", || made(&broker) > before);
    }
}

#[test]
fn a_damaged_image_is_passed_over_and_named() {
    let mut broker = on_disk();
    let mut publisher = Client::connect(&broker, V4, "publisher");
    for n in 0..2 {
        publisher.retain(&format!("t/{n}"), "x", 1);
        snapshot(&broker);
    }
    publisher.retain("t/2", "x", 1);
    drop(publisher);
    broker.kill();
    let images = files(&broker, "image");
    damage(&images[1].0, 5000.min(usize::try_from(images[1].1).unwrap_or(0) - 1));
    broker.start_again();
    let name = images[1].0.file_name().and_then(|name| name.to_str()).expect("a name");
    let log = broker.log();
    assert!(log.contains("not a good image") && log.contains(name), "{log}");
    assert!(log.contains("starting from the image before"), "{log}");
    let mut reader = Client::connect(&broker, V4, "reader");
    reader.subscribe("t/#", 1);
    for _ in 0..3 {
        reader.expect_message();
    }
    drop(reader);
    snapshot(&broker);
    snapshot_of_more(&mut broker);
}

/// It goes on as if nothing had been.
fn snapshot_of_more(broker: &mut Broker) {
    Client::connect(broker, V4, "publisher").retain("t/3", "x", 1);
    snapshot(broker);
    broker.crash();
    let mut reader = Client::connect(broker, V4, "reader");
    reader.subscribe("t/#", 1);
    for _ in 0..4 {
        reader.expect_message();
    }
    assert!(!broker.log().rsplit("recovered").next().expect("the end").contains("not a good"));
}

#[test]
fn without_a_good_image_a_trimmed_log_is_refused() {
    let mut broker = Broker::start(true, &["--segment-size=1MiB"]);
    let mut publisher = Client::connect(&broker, V4, "publisher");
    let payload = "x".repeat(100_000);
    for _ in 0..4 {
        for _ in 0..20 {
            publisher.say("nobody", &payload, 1);
        }
        snapshot(&broker);
    }
    until("the front of the log goes", || {
        let first = files(&broker, "log")[0].0.clone();
        !first.ends_with("00000000000000000001.log")
    });
    drop(publisher);
    broker.kill();
    for (image, _) in files(&broker, "image") {
        damage(&image, 100);
    }
    let (status, said) = broker.rival();
    assert_eq!(status.code(), Some(i32::from(zzq_broker::ExitStatus::Damaged as u8)), "{said}");
    assert!(said.contains("record @1 is gone, and no good image covers it"), "{said}");
}
