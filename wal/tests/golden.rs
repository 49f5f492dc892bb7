//! A whole log of version 1, made by the first program that wrote it, is still read.
//!
//! Its files end where only zeroes would follow. It was stopped by a power cut.

#![allow(clippy::unwrap_used, reason = "helpers of tests panic as tests do")]

mod common;

use common::*;
use zzq_wal::sim_disk::SimDisk;
use zzq_wal::{End, Lsn, META_NAME, Recovery, segment_name};

const META: &[u8] = include_bytes!("golden/log-v1/meta");
const SEGMENTS: [(u64, &[u8]); 4] = [
    (1, include_bytes!("golden/log-v1/00000000000000000001.log")),
    (2, include_bytes!("golden/log-v1/00000000000000000002.log")),
    (4, include_bytes!("golden/log-v1/00000000000000000004.log")),
    (5, include_bytes!("golden/log-v1/00000000000000000005.log")),
];

fn golden() -> SimDisk {
    let disk = SimDisk::new();
    disk.insert(META_NAME, META.to_vec());
    for (number, bytes) in SEGMENTS {
        let mut bytes = bytes.to_vec();
        bytes.resize(64 * 1024, 0);
        disk.insert(&segment_name(number), bytes);
    }
    disk
}

/// Record n of the log: every seventh is in parts.
fn body(n: u64) -> Vec<u8> {
    let len = if n.is_multiple_of(7) { 9000 } else { n * 40 };
    (0..len).map(|at| u8::try_from((at * n) % 251).unwrap()).collect()
}

#[test]
fn a_log_of_version_1_is_read() {
    let disk = golden();
    let (log, recovery, seen) = reopen(&disk, 1);
    assert_eq!(recovery.last_lsn, Lsn::new(RECORDS));
    assert!((1..=RECORDS).zip(&seen).all(|(n, record)| record.lsn == n && record.body == body(n)));
    assert_eq!(ends(&recovery), [true, true, false, false], "the last was made ahead");
    let mut reader = log.reader(Lsn::FIRST).unwrap();
    for n in 1..=RECORDS {
        assert_eq!(reader.next_record().unwrap().unwrap().body, body(n));
    }
    let (mut one, _) = producer(&log);
    assert_eq!(put(&log, &mut one, b"x"), Lsn::new(RECORDS + 1));
}

/// Which segments go on in the next.
fn ends(recovery: &Recovery) -> Vec<bool> {
    let goes_on = |end| matches!(end, End::Continued { .. });
    recovery.segments.iter().map(|segment| goes_on(segment.end)).collect()
}

const RECORDS: u64 = 18;
