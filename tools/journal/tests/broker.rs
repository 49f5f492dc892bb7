//! The log of a real broker: a process of its own that takes publishes and is killed.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;
mod process;

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use common::{run, verify};
use process::{Broker, OnDrop, text_of};

/// What a broker takes before it is killed: of each kind of record something.
fn traffic(broker: &Broker, reader: &str) {
    let mut reader = broker.connect().open(0, reader, &[]);
    reader.send(0x82, &[&[0, 1], &text_of(b"news/#"), &[1]]);
    reader.expect(0x90);
    reader.send(0x82, &[&[0, 2], &text_of(b"$share/g/jobs/+"), &[2]]);
    reader.expect(0x90);
    let mut writer = broker.connect().open(0b0000_0110, "writer", &[b"wills/writer", b"gone"]);
    writer.publish("news/today", b"hello", 1);
    let delivered = reader.expect(0x32);
    reader.send(0x40, &[&delivered[12..14]]);
    writer.publish("news/terminal", b"\x1b[2Jnot \x07cleared", 2);
    writer.publish("news/bytes", &[0xff, 0xfe, 0], 3);
    // Retained, at QoS 2, to the end.
    writer.send(0x35, &[&text_of(b"state"), &[0, 9], b"on"]);
    writer.expect(0x50);
    writer.send(0x62, &[&[0, 9]]);
    writer.expect(0x70);
    reader.send(0xa2, &[&[0, 3], &text_of(b"$share/g/jobs/+")]);
    // Deliveries of the last two come before the answer.
    while reader.expect_any() != 0xb0 {}
}

#[test]
fn what_a_killed_broker_acknowledged_is_there() {
    let data = tempfile::tempdir().unwrap();
    for round in 0..2 {
        let mut broker = Broker::start(data.path());
        traffic(&broker, ["reader", "another"][round]);
        let pid = broker.0.id().to_string();
        let refused = verify(&data);
        if Path::new("/proc/locks").exists() {
            assert_eq!(refused.status, 2, "{refused:?}");
            assert!(refused.err.contains(&format!("process {pid}")), "{refused:?}");
        }
        let live = run("dump", data.path(), &["--live", "--topic=news/today"]);
        assert_eq!(live.status, 0, "{live:?}");
        assert_eq!(live.out.lines().count(), round + 1, "{live:?}");
        assert_eq!(run("verify", data.path(), &["--live"]).status, 0);
        broker.kill();
        let ran = verify(&data);
        assert_eq!(ran.status, 0, "{ran:?}");
        let dumped = run("dump", data.path(), &[]).out;
        for part in [
            "Start waits 2 bytes jump",
            "client=\"reader\"",
            "will={topic=\"wills/writer\"",
            "filter=\"$share/g/jobs/+\"",
            "topic=\"news/today\" qos=1",
            "payload=5:\"hello\"",
            r#"payload=16:"\u{1b}[2Jnot \u{7}cleared""#,
            "payload=3:0xfffe00",
            "topic=\"state\" qos=2 retain",
        ] {
            assert!(dumped.contains(part), "{part} is not in:\n{dumped}");
        }
        keep(data.path());
    }
}

/// The end moves all the time, over the ends of segments, and nothing is taken for damage.
#[test]
fn a_busy_log_is_read_while_it_grows() {
    const LOOKS: usize = 6;
    let data = tempfile::tempdir().unwrap();
    let broker = Broker::start(data.path());
    let acknowledged = AtomicU64::new(0);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for name in ["one", "two"] {
            let (broker, acknowledged, done) = (&broker, &acknowledged, &done);
            scope.spawn(move || {
                let mut writer = broker.connect().open(0b10, name, &[]);
                while !done.load(Ordering::Relaxed) {
                    writer.publish("busy", &[b'x'; 100], 1);
                    acknowledged.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let end = OnDrop(&done);
        for _ in 0..LOOKS {
            let before = acknowledged.load(Ordering::Relaxed);
            let ran = run("dump", data.path(), &["--live", "--topic=busy", "--payload=none"]);
            assert_eq!(ran.status, 0, "{}", ran.err);
            assert!(ran.out.lines().count() as u64 >= before, "{before} were acknowledged");
            let ran = run("verify", data.path(), &["--live"]);
            assert_eq!(ran.status, 0, "{ran:?}");
        }
        drop(end);
    });
    drop(broker);
    assert_eq!(verify(&data).status, 0);
}

/// With `ZZQ_BLESS_BROKER` set to a directory, the files become the golden log there.
fn keep(data: &Path) {
    let Some(golden) = std::env::var_os("ZZQ_BLESS_BROKER") else { return };
    std::fs::create_dir_all(&golden).unwrap();
    for (path, bytes, _) in common::contents(data) {
        let name = path.file_name().unwrap();
        if name != "lock" {
            let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
            let used = used.next_multiple_of(4096).min(bytes.len());
            std::fs::write(Path::new(&golden).join(name), &bytes[..used]).unwrap();
        }
    }
}
