//! A device that reports writes as done which are not there: nowhere, at another place of the file,
//! in another file. Nobody is told, so the log finds out when it reads.
//!
//! What the log makes of it: a start refuses, or all is there, or, if one of the last two groups
//! before a crash was hit and `meta` does not yet state them as durable, it ends in front of what
//! is missing: that is what a write in flight leaves, too. What it shows is always true.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests panic as tests do")]

mod common;
mod life;

use common::*;
use life::body;
use zzq_wal::sim_disk::{Fault, Op, SimDisk};
use zzq_wal::{Log, Lsn, OpenError, Options, ReadError};

const FAULTS: [Fault; 6] = [
    Fault::Lost,
    Fault::Shifted(512),
    Fault::Shifted(4096),
    Fault::Shifted(20_480),
    Fault::Shifted(61_440),
    Fault::InOtherFile,
];

const RECORDS: u64 = 24;

fn options(seed: u64) -> Options {
    Options { segment_size: 64 * 1024, ..small(seed) }
}

/// One record a group, over two segments; the `nth` write of it meets `fault`. Returns the log and
/// the record that was being written, unless the fault was not met.
fn live(disk: &SimDisk, nth: u64, fault: Fault) -> Option<(Log<SimDisk>, u64)> {
    let (log, _, _) = open(disk.clone(), options(1)).unwrap();
    let mut lane = producer(&log).0;
    let until = disk.count(Op::Write) + nth;
    disk.fail(Op::Write, nth, fault);
    let mut hit = None;
    for lsn in 1..=RECORDS {
        put(&log, &mut lane, &body(lsn));
        if hit.is_none() && disk.count(Op::Write) >= until {
            hit = Some(lsn);
        }
    }
    hit.map(|hit| (log, hit))
}

/// A reader of the same process shows what was written, or says that it cannot.
fn assert_reads_truly(log: &Log<SimDisk>) {
    for from in [1, RECORDS / 2, RECORDS] {
        let Ok(mut reader) = log.reader(Lsn::new(from)) else { continue };
        for lsn in from..=RECORDS {
            match reader.next_record() {
                Ok(Some(read)) => assert!(read.lsn.get() == lsn && read.body == body(lsn), "{lsn}"),
                Err(ReadError::Damage(_)) => break,
                other => panic!("{other:?}"),
            }
        }
    }
}

/// Whether a start was refused; if not, it shows the first so many records.
fn start(disk: &SimDisk) -> Option<u64> {
    match open(disk.clone(), options(2)) {
        Err(OpenError::Damage(_)) => None,
        Err(error) => panic!("{error}"),
        Ok((_, recovery, seen)) => {
            assert!(seen.iter().zip(1..).all(|(record, lsn)| record.lsn == lsn));
            assert!(seen.iter().all(|record| record.body == body(record.lsn)));
            assert_eq!(recovery.last_lsn.get(), seen.len() as u64);
            Some(recovery.last_lsn.get())
        }
    }
}

#[test]
fn a_write_that_went_astray_is_found_and_never_forges() {
    let (mut refused, mut complete, mut shorter) = (0, 0, 0);
    for fault in FAULTS {
        for nth in 1.. {
            let disk = SimDisk::new();
            let Some((log, hit)) = live(&disk, nth, fault) else { break };
            assert_reads_truly(&log);
            let marked = log.facts().durable.get();
            match start(&disk.restart()) {
                None => refused += 1,
                Some(RECORDS) => complete += 1,
                Some(end) => {
                    shorter += 1;
                    assert!(hit >= RECORDS - 1, "{fault:?} {nth}: {hit} is proven, not {end}");
                    assert!(end >= marked, "{fault:?} {nth}: {end}, but {marked} are marked");
                }
            }
            // With the mark of an idle log nothing passes for a torn write.
            log.mark_durable().unwrap();
            let found = start(&disk.restart());
            assert!(found.is_none_or(|end| end == RECORDS), "{fault:?} {nth}: {found:?}");
        }
    }
    assert!(refused > 50 && complete > 10 && shorter > 2, "{refused} {complete} {shorter}");
}
