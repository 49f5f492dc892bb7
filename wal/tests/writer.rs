//! Writers: many records in flight from threads that wait, asleep and awake.
//!
//! A wake-up that is lost, or records that are held back for ever, are seen as a test that does not
//! end.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests panic as tests do")]

mod common;

use std::io;
use std::sync::Arc;
use std::thread;

use common::*;
use zzq_wal::disk::Disk;
use zzq_wal::io::{Backend, FileDisk};
use zzq_wal::sim_disk::{Fault, Op, SimDisk};
use zzq_wal::{AppendError, Handed, Log, Options, StageError, Wake, Writer};

/// Keeps `window` records in flight until `count` are durable; a record is its writer and number.
fn write<D: Disk>(log: &Log<D>, number: u8, window: u64, count: u64, len: usize) {
    let mut writer = Writer::new(log).unwrap();
    while writer.durable().get() < count {
        while writer.handed().get() < count
            && writer.handed().get() - writer.durable().get() < window
        {
            let nth = writer.handed().get();
            let staged = writer.stage(number, |out| {
                out.extend_from_slice(&nth.to_le_bytes());
                out.resize(out.len() + len, number);
            });
            match staged {
                Ok(handed) => assert_eq!(handed.get(), nth + 1),
                Err(StageError::Full) => break,
                Err(error) => panic!("{error}"),
            }
        }
        let oldest = writer.durable().next();
        assert!(writer.wait(oldest).unwrap() >= oldest);
    }
}

/// Everybody's records are there, each writer's in its order.
fn check<D: Disk>(log: &Log<D>, writers: u8, count: u64) {
    let mut counts = vec![0; usize::from(writers)];
    let mut reader = log.reader(zzq_wal::Lsn::FIRST).unwrap();
    while let Some(record) = reader.next_record().unwrap() {
        let seen = &mut counts[usize::from(record.kind)];
        assert_eq!(record.body[..8], u64::to_le_bytes(*seen));
        *seen += 1;
    }
    assert!(counts.iter().all(|seen| *seen == count), "{counts:?}");
}

fn all_write<D: Disk>(log: &Log<D>, writers: u8, window: u64, count: u64, len: usize) {
    thread::scope(|scope| {
        for number in 0..writers {
            scope.spawn(move || write(log, number, window, count, len));
        }
    });
    check(log, writers, count);
}

#[test]
fn writers_on_a_real_disk_share_it() {
    for backend in [Backend::Aio, Backend::Pwrite] {
        for (writers, window, count, len) in
            [(2, 8, 1500, 100), (3, 1, 200, 10), (2, 3000, 20_000, 100), (2, 400, 1200, 2000)]
        {
            let directory = tempfile::tempdir().unwrap();
            let disk = FileDisk::open(directory.path(), backend).unwrap();
            let options = Options::from_os().unwrap();
            let (log, _) = Log::open(disk, options, 0, &mut |_| Ok(())).unwrap();
            let _helper = log.spawn_helper().unwrap();
            all_write(&log, writers, window, count, len);
        }
    }
}

#[test]
fn writers_that_are_told_to_sleep_do() {
    let directory = tempfile::tempdir().unwrap();
    let disk = FileDisk::open(directory.path(), Backend::Aio).unwrap();
    let options = Options { watch_us: 0, ..Options::from_os().unwrap() };
    let (log, _) = Log::open(disk, options, 0, &mut |_| Ok(())).unwrap();
    let _helper = log.spawn_helper().unwrap();
    all_write(&log, 2, 8, 500, 100);
}

/// Rings of few chunks: `Full` is not the end.
#[test]
fn writers_go_on_when_there_is_room_again() {
    let options = Options { ring_chunks: 4, chunk_size: 4096, ..Options::from_os().unwrap() };
    let (log, _) = Log::open(SimDisk::new(), options, 0, &mut |_| Ok(())).unwrap();
    let _helper = log.spawn_helper().unwrap();
    all_write(&log, 2, u64::MAX, 2000, 500);
}

#[test]
fn a_log_that_fails_says_so_to_who_waits() {
    let disk = SimDisk::new();
    let (log, _, _) = reopen(&disk, 1);
    let _helper = log.spawn_helper().unwrap();
    let mut writer = Writer::new(&log).unwrap();
    let good = writer.stage(1, |out| out.push(1)).unwrap();
    writer.wait(good).unwrap();
    disk.fail_always(Op::Write, Fault::Fail(io::ErrorKind::Other));
    let bad = writer.stage(1, |out| out.push(2)).unwrap();
    let refused = writer.wait(bad).unwrap_err();
    assert!(matches!(refused, AppendError::ReadOnly(_)), "{refused}");
    assert_eq!(writer.wait(good).unwrap(), good, "what was durable before still is");
}

#[test]
#[should_panic(expected = "never becomes durable")]
fn what_was_not_staged_is_not_waited_for() {
    let (log, _, _) = reopen(&SimDisk::new(), 1);
    let mut writer = Writer::new(&log).unwrap();
    writer.wait(Handed::new(1)).unwrap();
}

struct Nobody;

impl Wake for Nobody {
    fn wake(&self) {}
}

/// It leads for whoever has something; then it goes, and the write comes back later.
#[test]
fn what_a_writer_has_led_is_taken_by_others_when_it_has_left() {
    let disk = SimDisk::new();
    let (log, _, _) = reopen(&disk, 1);
    let mut writer = Writer::new(&log).unwrap();
    let mut lane = log.producer(Arc::new(Nobody), None).unwrap();
    let own = writer.stage(1, |out| out.push(1)).unwrap();
    writer.wait(own).unwrap();
    disk.hold();
    let handed = stage(&mut lane, b"another's").unwrap();
    lane.drive(1000);
    writer.stage(1, |out| out.push(2)).unwrap();
    writer.leave();
    disk.release_all();
    while lane.durable() < handed || log.durable().get() < 3 {
        lane.drive(1000);
        disk.release_all();
    }
}
