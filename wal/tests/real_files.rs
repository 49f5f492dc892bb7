//! The log on real files, with the helper's thread, by each backend and each driver.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail the test")]

mod common;

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use common::*;
use zzq_wal::io::{Backend, FileDisk, Issuers, event};
use zzq_wal::{DriverThread, HelperThread, Log, Lsn, Options, Producer, Wake};

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

/// A way to write, and whether a thread of the log's own leads.
type Way = (Backend, Issuers);

const WAYS: [Way; 6] = [
    (Backend::Aio, Issuers::Any),
    (Backend::Uring, Issuers::Any),
    (Backend::Pwrite, Issuers::Any),
    (Backend::Uring, Issuers::One),
    (Backend::Aio, Issuers::One),
    (Backend::Pwrite, Issuers::One),
];

/// Those of them that this machine has.
fn ways() -> Vec<Way> {
    let is_there = |(backend, _): &Way| {
        let directory = tempfile::tempdir().unwrap();
        let disk = FileDisk::open(directory.path(), *backend);
        assert!(disk.is_ok() || *backend == Backend::Uring, "{disk:?}");
        disk.is_ok()
    };
    WAYS.into_iter().filter(is_there).collect()
}

/// The threads of a log.
struct Threads {
    _driver: Option<DriverThread>,
    _helper: HelperThread,
}

fn open_files(path: &Path, (backend, issuers): Way) -> (Log<FileDisk>, Vec<Seen>, Threads) {
    let disk = FileDisk::open_for(path, backend, issuers).unwrap();
    assert_eq!(disk.backend(), backend);
    let (log, _, seen) = open(disk, small(7)).unwrap();
    let helper = log.spawn_helper().unwrap();
    let driver = (issuers == Issuers::One).then(|| log.spawn_driver(|| 1000).unwrap());
    (log, seen, Threads { _driver: driver, _helper: helper })
}

fn wait_until_durable(lane: &mut Producer<FileDisk>, event: &OwnedFd) {
    let mut now = 1000;
    while lane.durable() < lane.handed() {
        let drive = lane.drive(now);
        let patience = drive.again_at.map_or(30_000, |at| at.saturating_sub(now));
        if !lane.wants(lane.handed()) {
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
fn records_on_real_files_are_found_by_every_backend_and_driver() {
    let ways = ways();
    for at in 0..ways.len() {
        let (first, second) = (ways[at], ways[(at + 1) % ways.len()]);
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        let (log, seen, threads) = open_files(path, first);
        assert!(seen.is_empty());
        write(&log, 1..=120);
        assert_eq!(log.durable(), Lsn::new(120));
        drop((threads, log));
        let (log, seen, threads) = open_files(path, second);
        assert_seen(&seen, 120);
        write(&log, 121..=160);
        let mut reader = log.reader(Lsn::new(1)).unwrap();
        for lsn in 1..=160 {
            assert!(reader.next_record().unwrap().unwrap().body == body(lsn), "record {lsn}");
        }
        drop((reader, threads, log));
        let (_, seen, _threads) = open_files(path, first);
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
