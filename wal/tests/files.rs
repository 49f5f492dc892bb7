//! Files that are gone, exchanged, or back in an earlier state: a start refuses, or shows all that
//! was durable. A log that has stated its end in `meta` never ends before it unseen.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests panic as tests do")]

mod common;

use common::*;
use zzq_wal::disk::Disk;
use zzq_wal::sim_disk::SimDisk;
use zzq_wal::{Log, Lsn, META_NAME, OpenError, Options, Producer, segment_number};

const RECORDS: u8 = 60;
/// Of a record: more than a block.
const LEN: usize = 7000;

fn options(seed: u64) -> Options {
    Options { segment_size: 64 * 1024, ..small(seed) }
}

fn write(log: &Log<SimDisk>, lane: &mut Producer<SimDisk>, records: std::ops::Range<u8>) {
    for n in records {
        put(log, lane, &[n; LEN]);
        if n == 30 {
            log.trim(Lsn::new(25));
        }
    }
    while log.helper_step(0) {}
    log.mark_durable().unwrap();
}

/// A log with closed segments, spare files, one ahead, and the disk as it was in the middle.
fn written() -> (SimDisk, SimDisk) {
    let disk = SimDisk::new();
    let (log, _, _) = open(disk.clone(), options(1)).unwrap();
    let mut lane = producer(&log).0;
    write(&log, &mut lane, 0..45);
    let earlier = disk.restart();
    write(&log, &mut lane, 45..RECORDS);
    (disk, earlier)
}

fn names(disk: &SimDisk) -> Vec<String> {
    disk.list().unwrap().into_iter().map(|(name, _)| name).collect()
}

/// Whether a start shows all records; if not, it was refused.
fn shows_all(disk: &SimDisk, what: &str) -> bool {
    let before = disk.image_hash();
    match open(disk.clone(), options(2)) {
        Err(OpenError::Damage(damage)) => {
            assert_eq!(disk.image_hash(), before, "{what}: {damage}");
            false
        }
        Err(error) => panic!("{what}: {error}"),
        Ok((_, recovery, seen)) => {
            assert_eq!(recovery.last_lsn, Lsn::new(u64::from(RECORDS)), "{what}");
            let first = u8::try_from(seen[0].lsn).unwrap();
            assert!(first <= 25, "{what}");
            assert!(seen.iter().map(|record| &record.body).eq(&bodies_from(first)), "{what}");
            true
        }
    }
}

fn bodies_from(first: u8) -> Vec<Vec<u8>> {
    (first - 1..RECORDS).map(|n| vec![n; LEN]).collect()
}

#[test]
fn a_file_that_is_gone_is_missed_if_it_counts() {
    let (whole, _) = written();
    for name in names(&whole) {
        let disk = whole.restart();
        disk.delete(&name).unwrap();
        let counts = name == META_NAME || segment_number(&name).is_some();
        assert_eq!(shows_all(&disk, &name), !counts, "{name}");
    }
}

#[test]
fn files_that_have_changed_places_are_told_apart() {
    let (whole, _) = written();
    let names = names(&whole);
    let count = |kind: fn(&str) -> bool| names.iter().filter(|name| kind(name)).count();
    assert!(count(|name| segment_number(name).is_some()) > 2);
    for (nth, one) in names.iter().enumerate() {
        for other in &names[nth + 1..] {
            let disk = whole.restart();
            disk.swap(one, other).unwrap();
            let counts = |name: &String| name == META_NAME || segment_number(name).is_some();
            let what = format!("{one} for {other}");
            assert_eq!(shows_all(&disk, &what), !(counts(one) || counts(other)), "{what}");
        }
    }
}

/// A file comes back as it was before: from a backup, or because its writes were lost since.
#[test]
fn a_file_of_an_earlier_moment_never_ends_the_log_there() {
    let (whole, earlier) = written();
    let mut refused = 0;
    for name in names(&earlier) {
        let disk = whole.restart();
        let Ok(now) = disk.bytes(&name) else { continue };
        let old = earlier.bytes(&name).unwrap();
        if old != now {
            disk.insert(&name, old);
            refused += usize::from(!shows_all(&disk, &name));
        }
    }
    assert!(refused > 0);
}

/// The remains of an earlier use of a file, put over each place of each segment in turn.
#[test]
fn blocks_of_another_time_or_place_are_never_taken_for_groups() {
    let (whole, earlier) = written();
    let (mut refused, mut complete) = (0, 0);
    for from in names(&earlier) {
        let source = earlier.bytes(&from).unwrap();
        for to in names(&whole).iter().filter(|name| segment_number(name).is_some()) {
            let blocks = (source.len() / 4096, whole.bytes(to).unwrap().len() / 4096);
            for nth in 0..blocks.1 {
                let at = 4096 * (7 * nth + 1).rem_euclid(blocks.0);
                let disk = whole.restart();
                disk.overwrite(to, 4096 * nth as u64, &source[at..at + 4096]).unwrap();
                if shows_all(&disk, &format!("{from} at {at} over block {nth} of {to}")) {
                    complete += 1;
                } else {
                    refused += 1;
                }
            }
        }
    }
    assert!(refused > 100 && complete > 20, "{refused} {complete}");
}

/// A file ends at any byte, in the middle of a block or a group too.
#[test]
fn a_file_that_ends_too_early_never_ends_the_log_there() {
    let (whole, _) = written();
    let (mut refused, mut complete) = (0, 0);
    for (name, size) in whole.list().unwrap() {
        for len in (0..size).step_by(1361) {
            let disk = whole.restart();
            disk.cut(&name, len).unwrap();
            if shows_all(&disk, &format!("{name} cut to {len}")) {
                complete += 1;
            } else {
                refused += 1;
            }
        }
    }
    assert!(refused > 50 && complete > 50, "{refused} {complete}");
}
