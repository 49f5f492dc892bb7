//! Bytes that the device cannot read: the start or the reader that needs them fails and names the
//! file. Nothing is taken for torn, nothing is passed over, nothing is changed on disk.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests panic as tests do")]

mod common;

use common::*;
use zzq_wal::disk::Disk;
use zzq_wal::sim_disk::SimDisk;
use zzq_wal::{Log, Lsn, OpenError, Options, ReadError};

const RECORDS: u64 = 30;

fn options(seed: u64) -> Options {
    Options { segment_size: 64 * 1024, ..small(seed) }
}

fn body(lsn: u64) -> Vec<u8> {
    vec![u8::try_from(lsn).unwrap(); if lsn.is_multiple_of(7) { 20_000 } else { 3000 }]
}

/// A log over several segments, closed ones with an index among them.
fn written(disk: &SimDisk) -> Log<SimDisk> {
    let (log, _, _) = open(disk.clone(), options(1)).unwrap();
    let mut lane = producer(&log).0;
    for lsn in 1..=RECORDS {
        put(&log, &mut lane, &body(lsn));
    }
    while log.helper_step(0) {}
    log
}

/// Calls `case` with each block of each file.
fn each_block(disk: &SimDisk, mut case: impl FnMut(&str, u64)) {
    for (name, size) in disk.list().unwrap() {
        for at in (0..size).step_by(4096) {
            case(&name, at);
        }
    }
}

#[test]
fn a_start_that_cannot_read_fails_and_changes_nothing() {
    let whole = SimDisk::new();
    drop(written(&whole));
    let mut failed = 0;
    each_block(&whole, |name, at| {
        let disk = whole.restart();
        disk.break_bytes(name, at..at + 1).unwrap();
        let before = disk.image_hash();
        match open(disk.clone(), options(2)) {
            Err(OpenError::Disk { what, .. }) => {
                failed += 1;
                assert!(what.contains(name), "{what}, not {name}");
                assert_eq!(disk.image_hash(), before, "{name} at {at}");
            }
            Err(error) => panic!("{name} at {at}: {error}"),
            // Nobody had to read it.
            Ok((_, _, seen)) => {
                assert!(seen.len() == 30 && seen.iter().all(|one| one.body == body(one.lsn)));
            }
        }
    });
    assert!(failed > 40, "{failed}");
}

#[test]
fn a_reader_fails_where_it_cannot_read_and_nowhere_else() {
    let whole = SimDisk::new();
    drop(written(&whole));
    let (mut failed, mut others) = (0, 0);
    each_block(&whole, |name, at| {
        let disk = whole.restart();
        let (log, _, _) = open(disk.clone(), options(2)).unwrap();
        if disk.break_bytes(name, at..at + 1).is_err() {
            return;
        }
        let mut broken = Vec::new();
        for lsn in 1..=RECORDS {
            match read_one(&log, lsn) {
                Ok(()) => {}
                Err(ReadError::Disk { file, .. }) if file == name => broken.push(lsn),
                Err(error) => panic!("{lsn} with {name} at {at}: {error}"),
            }
        }
        match broken[..] {
            [] => others += 1,
            [first, .., last] => {
                failed += 1;
                assert_eq!(broken.len() as u64, last - first + 1, "{name} at {at}: {broken:?}");
            }
            [_] => failed += 1,
        }
        // What is read in one piece with it cannot be told apart.
        assert!(broken.len() < 16, "{name} at {at}: {broken:?}");
        let behind_groups = at >= 64 * 1024 - 2 * 4096;
        assert!(!behind_groups || broken.is_empty(), "an index can be done without: {broken:?}");
    });
    assert!(failed > 40 && others > 10, "{failed} {others}");
}

fn read_one(log: &Log<SimDisk>, lsn: u64) -> Result<(), ReadError> {
    let mut reader = log.reader(Lsn::new(lsn))?;
    let read = reader.next_record()?.unwrap();
    assert!(read.lsn.get() == lsn && read.body == body(lsn), "{lsn}");
    Ok(())
}
