//! Images: what they cover is there after every end, and the log before them goes.

#![allow(clippy::expect_used, clippy::panic, reason = "helpers of tests panic as tests do")]

mod support;

use std::io::ErrorKind;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use Version::{V4, V5};
use rustix::process::{Pid, Signal, kill_process};
use support::{Broker, Client, Connect, PATIENCE, Publish, Version, on_disk};

/// Files of the data directory with this ending, by name, and their sizes. The broker may rename
/// or remove what has been listed before its size is asked for: then it is not there.
fn files(broker: &Broker, ending: &str) -> Vec<(PathBuf, u64)> {
    let folder = std::fs::read_dir(broker.data()).expect("a folder");
    let mut files: Vec<_> = folder
        .map(|entry| entry.expect("an entry"))
        .filter(|entry| entry.path().extension().is_some_and(|found| found == ending))
        .filter_map(|entry| match entry.metadata() {
            Ok(facts) => Some((entry.path(), facts.len())),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => panic!("{}: {error}", entry.path().display()),
        })
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
fn history_is_kept_as_far_as_it_is_asked_for() {
    let args = ["--segment-size=1MiB", "--snapshot-every=1GiB"];
    let start = |retain| Broker::start(true, &[args[0], args[1], retain, "--sys-interval=100ms"]);
    let broker = start("--retain-log=16MiB");
    let mut publisher = Client::connect(&broker, V5, "publisher");
    publisher.retain("kept", "retained", 1);
    pass_time(&broker, 4);
    assert!(log_bytes(&broker) > 12_000_000, "nothing needs the four rounds of 3 MB, but it stays");
    assert_eq!(files(&broker, "cold").len(), 0, "what stays anyway is not copied");
    pass_time(&broker, 5);
    until("nine rounds of 3 MB are let go but for 16 MiB", || log_bytes(&broker) < 22_000_000);
    assert!(log_bytes(&broker) > 15_000_000);
    assert!(!files(&broker, "cold").is_empty(), "what is retained outlives it");

    let mut watcher = Client::connect(&broker, V5, "watcher");
    watcher.subscribe("$SYS/broker/store/offset/first/time", 0);
    let time = watcher.expect_message();
    let time = time.payload_text();
    assert!(time.starts_with("20") && time.ends_with('Z') && time.len() == 24, "{time}");

    let broker = start("--retain-log=16MiB,0s");
    pass_time(&broker, 5);
    until("what is too old goes, whatever its size", || log_bytes(&broker) < 12_000_000);
}

/// The log knows nothing of a session that ends with its connection; what waits for it is there.
#[test]
fn what_waits_for_a_session_that_no_image_has_is_read() {
    let limits = ["--segment-size=1MiB", "--snapshot-every=1GiB", "--max-cached-total=1KiB"];
    let broker = Broker::start(true, &limits);
    // It takes one at a time.
    let (mut client, _) = Connect::new(V5, "slow").properties("21 00 01").open(&broker);
    client.subscribe("queue", 1);
    let mut publisher = Client::connect(&broker, V5, "publisher");
    for n in 0..100 {
        publisher.say("queue", &n.to_string(), 1);
    }
    let first = client.expect_message();
    pass_time(&broker, 5);
    client.acknowledge(&first);
    for n in 1..100 {
        client.expect("queue", &n.to_string());
    }
    client.ping_without_messages();
}

/// Its group hears of the log behind its back, with messages that the log did not know it had.
#[test]
fn what_a_member_that_no_image_has_leaves_to_its_group_is_read() {
    //= MQTT5-4.8.2-5
    let limits = ["--segment-size=1MiB", "--snapshot-every=1GiB", "--max-cached-total=1KiB"];
    let broker = Broker::start(true, &limits);
    let (mut member, _) = Connect::new(V5, "member").properties("21 00 01").open(&broker);
    member.subscribe("$share/group/queue", 1);
    let mut publisher = Client::connect(&broker, V5, "publisher");
    for n in 0..100 {
        publisher.say("queue", &n.to_string(), 1);
    }
    member.expect_message();
    let (mut heir, _) = Connect::persistent(V5, "heir").open(&broker);
    heir.subscribe("$share/group/queue", 1);
    pass_time(&broker, 5);
    drop(member);
    for n in 0..100 {
        heir.expect("queue", &n.to_string());
    }
    heir.ping_without_messages();
}

/// What a subscription took of the past is owed, and outlives the log that it was read from. What
/// it has not taken does not.
#[test]
fn history_that_was_taken_outlives_its_segment() {
    let mut broker = Broker::start(true, &["--segment-size=1MiB", "--snapshot-every=1GiB"]);
    let mut publisher = Client::connect(&broker, V5, "publisher");
    for n in 0..100 {
        publisher.say("past", &n.to_string(), 1);
    }
    // It takes two at a time, and is given four: the window, and as much again; sixteen at least.
    let reader = Connect::persistent(V5, "reader").properties("21 00 02");
    let (mut client, _) = reader.open(&broker);
    client.subscribe("$replay/all/past", 1);
    client.expect("past", "0");
    client.disconnect();
    pass_time(&broker, 5);
    until("the log goes all the same", || log_bytes(&broker) < 12_000_000);
    broker.crash();
    let (mut client, accepted) = reader.open(&broker);
    assert!(accepted.session_present);
    // The acknowledgement of the first may have gone with the connection.
    let first = client.expect_message();
    client.acknowledge(&first);
    let from = first.payload_text().parse::<u32>().expect("a number") + 1;
    assert!(from <= 2);
    for n in from..16 {
        client.expect("past", &n.to_string());
    }
    client.ping_without_messages();
    let told = || broker.log().contains("history was let go before it was taken");
    until("it is told what was let go", told);
    publisher = Client::connect(&broker, V5, "publisher");
    publisher.say("past", "live", 1);
    client.expect("past", "live");
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

/// What an image of long ago needs must not be found under the number of another file.
#[test]
fn the_number_of_a_cold_file_that_is_gone_is_not_used_again() {
    let mut broker = Broker::start(true, &["--segment-size=1MiB", "--snapshot-every=1GiB"]);
    let mut names = Vec::new();
    for _ in 0..2 {
        Client::connect(&broker, V5, "publisher").retain("kept", "x", 1);
        pass_time(&broker, 3);
        let cold = files(&broker, "cold");
        assert_eq!(cold.len(), 1, "what is retained has moved");
        names.push(cold[0].0.clone());
        Client::connect(&broker, V5, "publisher").retain("kept", "", 1);
        pass_time(&broker, 3);
        assert!(files(&broker, "cold").is_empty(), "it is dead");
        broker.crash();
    }
    assert!(names[0] < names[1], "{names:?}");
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
    passed_over(|image| {
        let len = usize::try_from(std::fs::metadata(image).expect("a file").len());
        damage(image, 5000.min(len.unwrap_or(0) - 1));
    });
}

/// As a power cut leaves files that were not synced.
#[test]
fn an_image_of_zeros_is_passed_over_and_named() {
    //= W01
    passed_over(|image| {
        let len = std::fs::metadata(image).expect("a file").len();
        let file = std::fs::File::create(image).expect("a file");
        file.set_len(len).expect("a sparse file");
    });
    passed_over(|image| std::fs::write(image, [0; 400]).expect("a file"));
    passed_over(|image| std::fs::write(image, []).expect("a file"));
}

/// The newest image is ruined: a broker starts from the one before.
fn passed_over(ruin: impl Fn(&PathBuf)) {
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
    ruin(&images[1].0);
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

/// The newest image needs a cold file for what the one before still finds in the log, or in another
/// cold file: whichever of them a start takes, all of it is there.
#[test]
fn the_image_before_finds_what_the_newest_has_moved() {
    let mut broker = Broker::start(true, &["--segment-size=1MiB", "--snapshot-every=1GiB"]);
    let away = Connect::persistent(V5, "away");
    let (mut client, _) = away.open(&broker);
    client.subscribe("queue", 1);
    client.disconnect();
    let mut publisher = Client::connect(&broker, V5, "publisher");
    for n in 0..100 {
        publisher.retain(&format!("kept/{n}"), "retained", 1);
    }
    for n in 0..20 {
        publisher.say("queue", &n.to_string(), 1);
    }
    // From the log to a cold file.
    until_moved(&broker);
    start_from_the_image_before(&mut broker);
    expect_retained(&broker, 100);
    // From that one, most of which is dead, to another.
    let mut publisher = Client::connect(&broker, V5, "publisher");
    for n in 10..100 {
        publisher.retain(&format!("kept/{n}"), "", 1);
    }
    until_moved(&broker);
    start_from_the_image_before(&mut broker);
    expect_retained(&broker, 10);
    let (mut client, accepted) = away.open(&broker);
    assert!(accepted.session_present);
    for n in 0..20 {
        client.expect("queue", &n.to_string());
    }
    client.ping_without_messages();
}

/// A session takes history behind the image before, which names none of it. The newest one moved
/// that to a cold file, and the log was let go. Found by the simulator.
#[test]
fn the_image_before_finds_what_was_taken_of_history_since() {
    let mut broker = Broker::start(true, &["--segment-size=1MiB", "--snapshot-every=1GiB"]);
    let mut publisher = Client::connect(&broker, V5, "publisher");
    pass_time(&broker, 1);
    for n in 0..20 {
        publisher.say("past", &n.to_string(), 1);
    }
    pass_time(&broker, 1);
    let away = Connect::persistent(V5, "away");
    let expect_all = |broker: &Broker, is_new: bool| {
        let (mut client, accepted) = away.open(broker);
        assert_eq!(accepted.session_present, !is_new);
        if is_new {
            client.subscribe("$replay/all/past", 1);
        }
        for n in 0..20 {
            assert_eq!(client.expect_message().payload_text(), n.to_string());
        }
    };
    expect_all(&broker, true);
    pass_time(&broker, 1);
    assert_eq!(files(&broker, "cold").len(), 0, "it stays in the log, for both images");
    start_from_the_image_before(&mut broker);
    expect_all(&broker, false);
    // The next one moves it: both name it then.
    until_moved(&broker);
    start_from_the_image_before(&mut broker);
    expect_all(&broker, false);
    pass_time(&broker, 2);
    start_from_the_image_before(&mut broker);
    expect_all(&broker, false);
}

/// A late decision names what is retained, and so does the image before: it keeps nothing in the
/// log.
#[test]
fn what_is_retained_and_often_asked_for_does_not_keep_the_log() {
    let broker = Broker::start(true, &["--segment-size=1MiB", "--snapshot-every=1GiB"]);
    Client::connect(&broker, V5, "publisher").retain("kept", "retained", 1);
    for _ in 0..5 {
        let (mut client, _) = Connect::persistent(V5, "reader").open(&broker);
        client.subscribe("kept", 1);
        client.expect("kept", "retained");
        client.disconnect();
        pass_time(&broker, 1);
    }
    until("five rounds of 3 MB are let go but for three", || log_bytes(&broker) < 12_000_000);
}

/// Rounds, until there is a cold file that was not there.
fn until_moved(broker: &Broker) {
    let cold = || files(broker, "cold").into_iter().map(|(path, _)| path).collect::<Vec<_>>();
    let before = cold();
    for _ in 0..6 {
        pass_time(broker, 1);
        if cold().iter().any(|path| !before.contains(path)) {
            return;
        }
    }
    panic!("nothing has moved from {before:?}");
}

/// A start with the newest image damaged.
fn start_from_the_image_before(broker: &mut Broker) {
    let fell_back =
        |broker: &Broker| broker.log().matches("starting from the image before").count();
    let before = fell_back(broker);
    broker.kill();
    let (newest, _) = files(broker, "image").pop().expect("an image");
    damage(&newest, 4096 + 50);
    broker.start_again();
    assert!(fell_back(broker) > before, "{}", broker.log());
}

fn expect_retained(broker: &Broker, count: usize) {
    let mut reader = Client::connect(broker, V5, "reader");
    reader.subscribe("kept/#", 1);
    for _ in 0..count {
        assert_eq!(reader.expect_message().payload_text(), "retained");
    }
    reader.ping_without_messages();
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
