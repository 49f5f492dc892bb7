//! `copy` and `restore` of a real broker's directory: what was acknowledged is in a copy that was
//! made meanwhile, and a restored log is what it was at that moment.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;
mod process;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use common::{COMMAND, Ran, directory, killed, run, verify};
use process::{Broker, Client, IMAGE_MS, OnDrop, RETAINS, text_of};
use zzq_engine::image::{Loader, Section, Sections, Select};
use zzq_engine::{NoEffects, Record, Shard, State};
use zzq_snapshot::{Kind, Volume, at_full_speed};
use zzq_types::Lsn;
use zzq_wal::io::ReadOnlyDisk;
use zzq_wal::sim_disk::Random;
use zzq_wal::{Options, inspect, read_facts};

fn copy(command: &str, from: &Path, new: &Path, arguments: &[&str]) -> Ran {
    let mut process = Command::new(COMMAND);
    process.arg(command).arg(from).arg(new).args(arguments);
    Ran::of(process.output().unwrap())
}

fn subscribe(client: &mut Client, filter: &str, qos: u8) {
    client.send(0x82, &[&[0, 9], &text_of(filter.as_bytes()), &[qos]]);
    while client.expect_any() != 0x90 {}
}

/// The numbers of messages that a log has, by their topic.
fn numbers(data: &Path) -> BTreeMap<String, Vec<u64>> {
    let ran = run("dump", data, &["--topic=busy/#", "--payload=full"]);
    assert_eq!(ran.status, 0, "{}", ran.err);
    let mut numbers = BTreeMap::<_, Vec<u64>>::new();
    for line in ran.out.lines() {
        let topic = line.split("topic=\"").nth(1).unwrap().split('"').next().unwrap();
        let payload = line.split("payload=100:\"").nth(1).unwrap().split('"').next().unwrap();
        numbers.entry(topic.to_owned()).or_default().push(payload.parse().unwrap());
    }
    numbers
}

/// Waits until the broker has made an image.
fn until_image(data: &Path) {
    let end = Instant::now() + Duration::from_mins(1);
    let disk = ReadOnlyDisk::open(data).unwrap();
    while read_facts(&disk).map_or(0, |facts| facts.snapshot_number) == 0 {
        assert!(Instant::now() < end, "no image is made");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A reader who is away is owed all of it: what was let go of the log is in images and cold files.
#[test]
fn a_copy_of_a_busy_broker_has_all_that_was_acknowledged() {
    const NAMES: [&str; 2] = ["busy/one", "busy/two"];
    let (data, copies) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let broker = Broker::start_with(data.path(), &[(IMAGE_MS, "250")]);
    subscribe(&mut broker.connect().open(0, "reader", &[]), "busy/#", 1);
    let acknowledged = [AtomicU64::new(0), AtomicU64::new(0)];
    let done = AtomicBool::new(false);
    let place = |nth: usize| copies.path().join(nth.to_string());
    let mut images = 0;
    std::thread::scope(|scope| {
        for (topic, acknowledged) in NAMES.iter().zip(&acknowledged) {
            let (broker, done) = (&broker, &done);
            scope.spawn(move || {
                let mut writer = broker.connect().open(0b10, topic, &[]);
                for number in 1_u64.. {
                    writer.publish(topic, format!("{number:0100}").as_bytes(), 1);
                    acknowledged.store(number, Ordering::Release);
                    if done.load(Ordering::Relaxed) {
                        break;
                    }
                }
            });
        }
        let _end = OnDrop(&done);
        until_image(data.path());
        for nth in 0..5 {
            let before: Vec<u64> =
                acknowledged.iter().map(|count| count.load(Ordering::Acquire)).collect();
            let ran = copy("copy", data.path(), &place(nth), &[]);
            assert_eq!((ran.status, &*ran.err), (0, ""), "{ran:?}");
            images += usize::from(ran.out.contains("image at @"));
            let found = numbers(&place(nth));
            for (topic, before) in NAMES.iter().zip(before) {
                let there = found.get(*topic).map_or(&[][..], |there| there);
                assert!(there.len() as u64 >= before, "{before} on {topic}: {}", there.len());
                let all = 1..=there.len() as u64;
                assert!(there.iter().copied().eq(all), "{topic}: not each once");
            }
        }
    });
    assert!(images > 0, "no image was made meanwhile");
    drop(broker);
    let expected = numbers(&place(4));
    let broker = Broker::start(&place(4));
    let mut reader = broker.connect().open(0, "reader", &[]);
    let mut got = BTreeMap::<String, Vec<u64>>::new();
    for _ in 0..expected.values().map(Vec::len).sum::<usize>().min(300) {
        let packet = reader.expect(0x32);
        let topic = String::from_utf8(packet[2..10].to_vec()).unwrap();
        let number = std::str::from_utf8(&packet[12..]).unwrap().parse().unwrap();
        got.entry(topic).or_default().push(number);
        reader.send(0x40, &[&packet[10..12]]);
    }
    for (topic, got) in got {
        assert_eq!(got, expected[&topic][..got.len()], "{topic}");
    }
}

/// Sessions that come and go, retained messages, queues and their receipts.
fn live(broker: &Broker, rounds: usize) {
    let mut random = Random::new(7);
    for round in 0..rounds {
        let name = format!("client{}", random.index(6));
        let mut client =
            broker.connect().open(if random.index(3) == 0 { 2 } else { 0 }, &name, &[]);
        subscribe(&mut client, &format!("t/{}", random.index(5)), 1);
        for _ in 0..random.index(6) {
            let head = 0x32 | u8::from(random.index(4) == 0);
            let topic = format!("t/{}", random.index(5));
            client.send(head, &[&text_of(topic.as_bytes()), &[0, 5], &[b'x'; 60]]);
            while client.expect_any() != 0x40 {}
        }
        if random.index(2) == 0 {
            client.send(0xe0, &[]);
        }
        if round % 10 == 0 {
            let mut taker = broker.connect().open(0, "taker", &[]);
            subscribe(&mut taker, "t/#", 1);
            taker.publish_and_take("t/9");
        }
    }
}

impl Client {
    /// Takes one message, of those that come, and acknowledges it.
    fn publish_and_take(&mut self, topic: &str) {
        self.send(0x32, &[&text_of(topic.as_bytes()), &[0, 3], b"y"]);
        let (head, body) = self.next();
        if head & 0xf0 == 0x30 {
            let topic = usize::from(body[1]);
            self.send(0x40, &[&body[2 + topic..4 + topic]]);
        }
    }
}

type Found = (u64, u64, u8, Vec<u8>);

/// The records of a log from one on.
fn records(data: &Path, from: Lsn) -> Vec<Found> {
    let mut records = Vec::new();
    let mut options = Options::from_os().unwrap();
    options.visit_from = zzq_wal::Lsn::new(from.get());
    let disk = ReadOnlyDisk::open(data).unwrap();
    inspect(disk, &options, &mut |found| {
        records.push((found.lsn.get(), found.time_ms, found.kind, found.body.to_vec()));
        Ok(())
    })
    .unwrap();
    records
}

fn apply(state: &mut State, records: &[Found]) {
    for (lsn, time_ms, kind, body) in records {
        let record = Record::decode(*kind, body).unwrap();
        state.apply(Lsn::new(*lsn), *time_ms, &record, &mut NoEffects);
    }
}

/// The state that a broker starts with, and how far its image goes.
fn state_of(data: &Path) -> (State, Lsn) {
    let disk = ReadOnlyDisk::open(data).unwrap();
    let (mut state, mut covered) = (State::new(Shard::WHOLE), Lsn::ZERO);
    let number = read_facts(&disk).unwrap().snapshot_number;
    if number > 0 {
        let image = Volume::open(&disk, Kind::Image, number).unwrap();
        covered = Lsn::new(image.heading().lsn.get());
        let mut loader = Loader::new(Shard::WHOLE);
        let mut entries = image.entries(|_| true, at_full_speed());
        while let Some(entry) = entries.next_entry().unwrap() {
            let section = u8::try_from(entry.section).ok().and_then(Section::from_code).unwrap();
            loader.entry(section, entry.key, entry.value).unwrap();
        }
        state = loader.finish().unwrap();
    }
    apply(&mut state, &records(data, covered.next()));
    (state, covered)
}

#[test]
fn a_restored_log_is_the_fold_up_to_there() {
    let (data, copies) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut broker = Broker::start_with(data.path(), &[(IMAGE_MS, "40"), (RETAINS, "1")]);
    live(&broker, 150);
    until_image(data.path());
    broker.kill();
    assert_eq!(verify(&data).status, 0);
    let all = records(data.path(), Lsn::new(1));
    assert_eq!(all[0].0, 1, "all of it was kept");
    let (_, newest) = state_of(data.path());
    let last = all.len() as u64;
    let mut random = Random::new(last);
    let mut wanted: Vec<u64> = (0..8).map(|_| 1 + random.index(all.len()) as u64).collect();
    wanted.extend([1, newest.get() - 1, newest.get(), newest.get() + 1, last]);
    let mut covered = Vec::new();
    for (nth, until) in wanted.into_iter().filter(|until| *until <= last).enumerate() {
        let new = copies.path().join(nth.to_string());
        let record = &all[usize::try_from(until).unwrap() - 1];
        // The last one of its time, where that is asked for.
        let by_time = nth % 3 == 2;
        let moment = if by_time { record.1.to_string() } else { format!("@{until}") };
        let until = if by_time { last_of(&all, record.1) } else { until };
        let ran = copy("restore", data.path(), &new, &["--until", &moment, "--json"]);
        assert_eq!((ran.status, &*ran.err), (0, ""), "{ran:?}");
        assert!(ran.out.contains(&format!("\"last_lsn\":{until},")), "{ran:?}");
        let mut expected = State::new(Shard::WHOLE);
        apply(&mut expected, &all[..usize::try_from(until).unwrap()]);
        let (state, image) = state_of(&new);
        assert!(image.get() <= until && state.applied().get() == until);
        covered.push(image.get());
        let sections = |state: &State| Sections::of(state, Select::All);
        assert!(sections(&state) == sections(&expected), "another state at {until}");
        assert_eq!(records(&new, Lsn::new(1)), all[..usize::try_from(until).unwrap()]);
    }
    assert!(covered.iter().any(|lsn| *lsn > 0), "no image went along");
    let new = copies.path().join("0");
    drop(Broker::start(&new));
    assert_eq!(run("verify", &new, &[]).status, 0);
}

fn last_of(all: &[Found], time_ms: u64) -> u64 {
    all.iter().filter(|(_, at, ..)| *at <= time_ms).count() as u64
}

#[test]
fn a_copy_goes_to_a_directory_of_its_own() {
    let (data, copies) = (directory(&killed(5, 10)), tempfile::tempdir().unwrap());
    let before = common::contents(data.path());
    let new = copies.path().join("new");
    let ran = copy("copy", data.path(), &new, &[]);
    assert_eq!((ran.status, &*ran.err), (0, ""), "{ran:?}");
    assert!(ran.out.starts_with("copied: @1..@6, 2023-11-14T22:13:20."), "{ran:?}");
    assert_eq!(common::contents(data.path()), before, "copying changes nothing");
    let again = copy("copy", data.path(), &new, &[]);
    assert_eq!(again.status, 2);
    assert!(again.err.contains("is not empty: name a directory that is not there"), "{again:?}");
    assert_eq!(copy("copy", data.path(), data.path(), &[]).status, 2);
    // One that is there and empty will do: it may be where a device is mounted.
    let empty = copies.path().join("empty");
    std::fs::create_dir_all(empty.join("lost+found")).unwrap();
    let ran = copy("restore", &new, &empty, &["--until=@3"]);
    assert_eq!(ran.status, 0, "{ran:?}");
    assert!(ran.out.starts_with("restored: @1..@3"), "{ran:?}");
    assert_eq!(run("dump", &empty, &[]).out.lines().count(), 3);
    // What a crash leaves is no log and not written over.
    std::fs::write(empty.join("meta"), "").unwrap();
    assert_eq!(run("verify", &empty, &[]).status, 1);
    let ran = copy("copy", data.path(), &empty, &[]);
    assert!(ran.status == 2 && ran.err.contains("broken off: remove it"), "{ran:?}");
}

#[test]
fn where_nothing_comes_of_it_nothing_is_left() {
    let (data, copies) = (directory(&killed(5, 10)), tempfile::tempdir().unwrap());
    let new = copies.path().join("new");
    for (until, said) in [
        ("@7", "the log goes from @1 to @6"),
        ("@0", "offsets begin with @1"),
        ("17", "an offset is written as @OFFSET"),
        ("2020-05-01T12:00:00Z", "the log begins with @1"),
        ("soon", "write @OFFSET"),
    ] {
        let ran = copy("restore", data.path(), &new, &["--until", until]);
        assert_eq!(ran.status, 2, "{until}: {ran:?}");
        assert!(ran.err.contains(said), "{until}: {ran:?}");
        assert!(!new.exists());
    }
    assert_eq!(copy("restore", data.path(), &new, &[]).status, 2, "until when?");
    let nowhere = copies.path().join("no/where");
    let ran = copy("copy", data.path(), &nowhere, &[]);
    assert!(ran.status == 2 && ran.err.contains("no/where"), "{ran:?}");
    let ran = copy("copy", copies.path(), &new, &[]);
    assert!(ran.status == 2 && ran.err.contains("no log in"), "{ran:?}");
    // A span ago counts from now: all of this log is older.
    assert_eq!(copy("restore", data.path(), &new, &["--until", "-1h"]).status, 0);
}
