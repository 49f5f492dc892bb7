//! Which records `dump` shows, and that all of them are what the log's own recovery finds.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::ops::ControlFlow;

use common::*;
use zzq_journal::{Event, Survey, walk};
use zzq_wal::sim_disk::SimDisk;
use zzq_wal::{Lsn, Options, inspect, segment_name};

fn lsns(ran: &Ran) -> Vec<u64> {
    let lsn = |line: &str| line.strip_prefix('@')?.split(' ').next()?.parse().ok();
    ran.out.lines().map(|line| lsn(line).unwrap()).collect()
}

#[test]
fn records_are_chosen_by_place_kind_topic_and_count() {
    let disk = SimDisk::new();
    let mut lane = Lane::open(&disk);
    lane.start();
    for n in 0..60 {
        let topic = format!("{}/{n}", if n % 2 == 0 { "even" } else { "odd" });
        lane.publish(&topic, &[b'y'; 3000]);
        // In parts, over several groups.
        if n % 10 == 0 {
            lane.publish("big", &vec![b'z'; 40_000]);
        }
    }
    let directory = directory(&disk.restart());
    let all = lsns(&dump(&directory, &[]));
    assert_eq!(all, (1..=67).collect::<Vec<_>>());
    assert_eq!(lsns(&dump(&directory, &["--from=30", "--to=33"])), [30, 31, 32, 33]);
    for from in 1..=68 {
        let ran = dump(&directory, &["--payload=none", &format!("--from={from}")]);
        assert_eq!(lsns(&ran), (from..=67).collect::<Vec<_>>(), "{ran:?}");
    }
    assert_eq!(lsns(&dump(&directory, &["--kind=start"])), [1]);
    assert_eq!(lsns(&dump(&directory, &["--kind=3", "--limit=2"])), [2, 3]);
    assert_eq!(lsns(&dump(&directory, &["--topic=big"])), [3, 14, 25, 36, 47, 58]);
    assert_eq!(lsns(&dump(&directory, &["--topic=even/+", "--limit=3"])), [2, 5, 7]);
    assert!(lsns(&dump(&directory, &["--topic=none/#"])).is_empty());
    let big = dump(&directory, &["--topic=big", "--payload=full", "--limit=1"]);
    assert!(big.out.contains(&"z".repeat(40_000)) && big.out.contains("waits parts"));
}

#[test]
fn nothing_of_a_payload_acts_upon_a_terminal() {
    let disk = SimDisk::new();
    let mut lane = Lane::open(&disk);
    lane.publish("t", b"\x1b]0;title\x07\x1b[2J\r\x08 \x7f \xc2\x9b31m \xe2\x80\xae");
    lane.publish("t", &[0xff, 0x1b, 0]);
    let directory = directory(&disk.restart());
    for form in ["none", "preview", "hex", "full"] {
        for json in [&["--json"][..], &[]] {
            let payload = format!("--payload={form}");
            let ran = dump(&directory, &[&[payload.as_str()], json].concat());
            let bad = |c: char| c != '\n' && (c.is_control() || c == '\u{202e}');
            assert!(!ran.out.contains(bad), "{ran:?}");
        }
    }
    assert!(dump(&directory, &["--payload=full"]).out.contains(r"\u{1b}]0;title\u{7}"));
    assert!(dump(&directory, &[]).out.contains("payload=3:0xff1b00"));
}

/// Records as this reading finds them, up to the first place that is not intact.
fn walked(disk: &SimDisk) -> Vec<(u64, u8, Vec<u8>)> {
    let mut found = Vec::new();
    let survey = Survey::read(disk).unwrap();
    walk(&survey, Lsn::FIRST, &mut |event| match event {
        Event::Record(record) => {
            found.push((record.lsn.get(), record.kind, record.body.to_vec()));
            ControlFlow::Continue(())
        }
        Event::Stop(_) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    })
    .unwrap();
    found
}

/// The same as recovery finds them.
fn inspected(disk: &SimDisk) -> Vec<(u64, u8, Vec<u8>)> {
    let mut found = Vec::new();
    let options = Options::new(Box::new(zzq_wal::format::Salt::default));
    inspect(disk.clone(), &options, &mut |record| {
        found.push((record.lsn.get(), record.kind, record.body.to_vec()));
        Ok(())
    })
    .unwrap();
    found
}

/// A device that fails to give a few blocks is the most common reason to look.
#[test]
fn what_the_device_does_not_give_is_passed_over() {
    let disk = killed(9, 10);
    disk.break_bytes(&segment_name(1), 16_384..20_480).unwrap();
    let survey = Survey::read(&disk).unwrap();
    let (mut stops, mut records) = (Vec::new(), 0);
    walk(&survey, Lsn::FIRST, &mut |event| {
        match event {
            Event::Stop(stop) => stops.push(stop),
            Event::Record(_) => records += 1,
            _ => {}
        }
        ControlFlow::Continue(())
    })
    .unwrap();
    assert_eq!(records, 9, "all but one");
    assert_eq!((stops.len(), stops[0].offset), (1, 16_384), "{stops:?}");
    assert!(stops[0].reason.contains("does not give"), "{stops:?}");
}

/// Found by a fuzzer: recovery stopped in front of such a group, and this reading went on.
#[test]
fn a_group_whose_term_is_before_that_of_the_group_before_does_not_follow_it() {
    const SEGMENT: &str = "00000000000000000001.log";
    let disk = killed(9, 10);
    assert_eq!(walked(&disk).len(), 10);
    let seal = |at: u64, field: u64, value: &[u8]| {
        disk.overwrite(SEGMENT, at + field, value).unwrap();
        let bytes = disk.bytes(SEGMENT).unwrap();
        let at = usize::try_from(at).unwrap();
        let sum = zzq_wal::format::checksum(&bytes[at + 8..at + 128]).to_le_bytes();
        disk.overwrite(SEGMENT, at as u64 + 4, &sum).unwrap();
        sum
    };
    let ninth = seal(36_864, 48, &5_u64.to_le_bytes());
    seal(40_960, 88, &ninth);
    assert_eq!((walked(&disk).len(), inspected(&disk).len()), (9, 9));
}

/// Starts, crashes and trims in any order: both readings find the same.
#[test]
fn both_readings_agree_on_logs_that_crashed_anywhere() {
    let mut state = 99_u64;
    let mut random = |below: u64| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    for _ in 0..40 {
        let mut disk = SimDisk::new();
        for _ in 0..=random(4) {
            let mut lane = Lane::open(&disk);
            for _ in 0..random(40) {
                let len = if random(8) == 0 { random(60_000) } else { random(4000) };
                lane.put(1, &vec![7; usize::try_from(len).unwrap()]);
                if random(12) == 0 {
                    lane.log.trim(Lsn::new(lane.log.durable().get() / 2));
                }
            }
            // A write that nobody waited for, as far as it comes.
            disk.hold();
            let how = zzq_wal::Staging { kind: 2, waits: true, ..Default::default() };
            lane.producer.stage(&how, |out| out.extend_from_slice(&vec![9; 30_000])).unwrap();
            lane.producer.drive(1_700_000_100_000);
            disk = disk.crash(random(1 << 40));
        }
        assert_eq!(walked(&disk), inspected(&disk));
        let ran = run("verify", directory(&disk).path(), &["--opaque"]);
        assert_eq!(ran.status, 0, "{ran:?}");
    }
}
