//! The log on real files, with the helper's thread, by each backend.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail the test")]

mod common;

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use common::*;
use zzq_wal::io::{Backend, FileDisk, event};
use zzq_wal::{Log, Lsn, Options, Producer, Wake};

/// Makes the writer's event readable, as a lane does.
struct Waker(Arc<OwnedFd>);

impl Wake for Waker {
    fn wake(&self) {
        rustix::io::write(&*self.0, &1_u64.to_ne_bytes()).unwrap();
    }
}

fn body(lsn: u64) -> Vec<u8> {
    let len = if lsn.is_multiple_of(50) { 300_000 } else { usize::try_from(lsn).unwrap() * 20 };
    vec![u8::try_from(lsn % 251).unwrap(); len]
}

fn open_files(path: &Path, backend: Backend) -> (Log<FileDisk>, Vec<Seen>) {
    let disk = FileDisk::open(path, backend).unwrap();
    assert_eq!(disk.backend(), backend);
    let (log, _, seen) = open(disk, small(7)).unwrap();
    (log, seen)
}

fn wait_until_durable(lane: &mut Producer<FileDisk>, event: &OwnedFd) {
    let mut now = 1000;
    while lane.durable() < lane.handed() {
        let drive = lane.drive(now);
        let patience = drive.again_at.map_or(30_000, |at| at.saturating_sub(now));
        if lane.durable() < lane.handed() {
            let woken = event::wait(event, Duration::from_millis(patience)).unwrap();
            assert!(woken || drive.again_at.is_some(), "the log is silent: {drive:?}");
            event::drain(event);
        }
        now = drive.again_at.unwrap_or(now);
    }
}

fn write(log: &Log<FileDisk>, lsns: std::ops::RangeInclusive<u64>) {
    let event = event::create().unwrap();
    let waker = Arc::new(Waker(Arc::clone(&event)));
    let mut lane = log.producer(waker, Some(Arc::clone(&event))).unwrap();
    for lsn in lsns {
        stage(&mut lane, &body(lsn)).unwrap();
        if lsn.is_multiple_of(5) {
            wait_until_durable(&mut lane, &event);
        }
    }
    wait_until_durable(&mut lane, &event);
}

fn assert_seen(seen: &[Seen], last: u64) {
    assert_eq!(seen.len() as u64, last);
    for (record, lsn) in seen.iter().zip(1..) {
        assert_eq!(record.lsn, lsn);
        assert!(record.body == body(lsn), "record {lsn}");
    }
}

#[test]
fn records_on_real_files_are_found_by_every_backend() {
    let backends = [Backend::Aio, Backend::Pwrite];
    for (first, second) in [(0, 1), (1, 0)] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        let (log, seen) = open_files(path, backends[first]);
        assert!(seen.is_empty());
        let helper = log.spawn_helper().unwrap();
        write(&log, 1..=120);
        assert_eq!(log.durable(), Lsn::new(120));
        drop((helper, log));
        let (log, seen) = open_files(path, backends[second]);
        assert_seen(&seen, 120);
        let helper = log.spawn_helper().unwrap();
        write(&log, 121..=160);
        let mut reader = log.reader(Lsn::new(1)).unwrap();
        for lsn in 1..=160 {
            assert!(reader.next_record().unwrap().unwrap().body == body(lsn), "record {lsn}");
        }
        drop((reader, helper, log));
        let (_, seen) = open_files(path, backends[first]);
        assert_seen(&seen, 160);
    }
}

/// Bytes of the files on their device.
fn taken(path: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let files = std::fs::read_dir(path).unwrap();
    files.map(|file| file.unwrap().metadata().unwrap().blocks() * 512).sum()
}

/// Each start writes a record, as a broker does that nobody uses.
#[test]
fn a_log_that_is_only_started_stays_small() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    for start in 1..=24_u64 {
        let disk = FileDisk::open(path, Backend::Auto).unwrap();
        let (log, _, seen) = open(disk, Options::new(entropy(start))).unwrap();
        assert_eq!(seen.len() as u64, start - 1);
        while log.helper_step(0) {}
        write(&log, start..=start);
        while log.helper_step(0) {}
        assert!(taken(path) <= 8 << 20, "{} bytes at start {start}", taken(path));
    }
}
