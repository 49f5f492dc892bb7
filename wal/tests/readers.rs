//! Readers: what a look at one record costs, how far a reader goes, and what it is told.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests panic as tests do")]

mod common;

use common::hooked::{Counting, Read};
use common::*;
use zzq_wal::disk::Disk;
use zzq_wal::sim_disk::SimDisk;
use zzq_wal::{Commits, Limit, Log, Lsn, Options, Producer, ReadError, segment_name};

const BLOCK: usize = 4096;

fn options(seed: u64) -> Options {
    Options { segment_size: 8 << 20, ..Options::new(entropy(seed)) }
}

fn body(lsn: u64) -> Vec<u8> {
    let mut body =
        vec![u8::try_from(lsn % 251).unwrap(); 100 + usize::try_from(lsn % 900).unwrap()];
    body[..8].copy_from_slice(&lsn.to_le_bytes());
    body
}

fn open_counting(disk: &SimDisk, options: Options) -> (Log<Counting>, Counting) {
    let counting = Counting::new(disk.clone());
    let (log, ..) = open(counting.clone(), options).unwrap();
    counting.take();
    (log, counting)
}

/// Writes so many groups; the n-th has as many records as `records` says.
fn write<D: Disk>(log: &Log<D>, lane: &mut Producer<D>, groups: u64, records: impl Fn(u64) -> u64) {
    let mut lsn = log.durable().get();
    for group in 0..groups {
        for _ in 0..records(group) {
            lsn += 1;
            stage(lane, &body(lsn)).unwrap();
        }
        while lane.durable() < lane.handed() {
            turn(log, lane);
        }
    }
    while log.helper_step(0) {}
}

/// A log whose third segment, of 4 MiB, has been closed. Returns its LSNs, too.
fn closed(records: impl Fn(u64) -> u64) -> (SimDisk, std::ops::Range<u64>) {
    let disk = SimDisk::new();
    let (log, ..) = open(disk.clone(), options(1)).unwrap();
    let mut lane = producer(&log).0;
    while log.disk().bytes(&segment_name(5)).is_err() {
        write(&log, &mut lane, 100, &records);
    }
    drop((lane, log));
    let mut lsns = Vec::new();
    for segment in open(disk.restart(), options(2)).unwrap().1.segments {
        lsns.push(segment.last_lsn.get());
    }
    (disk, lsns[1] + 1..lsns[2] + 1)
}

fn blocks(reads: &[Read]) -> usize {
    reads.iter().map(|read| read.len / BLOCK).sum()
}

/// Blocks read for one record, beside its group.
fn look(log: &Log<Counting>, counting: &Counting, lsn: u64) -> usize {
    let mut reader = log.reader(Lsn::new(lsn)).unwrap();
    let record = reader.next_record().unwrap().unwrap();
    assert_eq!((record.lsn.get(), record.body), (lsn, &body(lsn)[..]));
    let reads = counting.take();
    let group = reads.last().unwrap();
    assert!(reads.iter().all(|read| read.file == segment_name(3)), "{reads:?}");
    let length = log.disk().disk.bytes(&segment_name(3)).unwrap().len() as u64;
    assert!(reads.iter().all(|read| read.offset < length - 4096), "the last block is known");
    blocks(&reads) - group.len / BLOCK
}

#[test]
fn one_old_record_costs_a_page_of_the_index_and_its_group() {
    // A group of one block has one to seven records.
    let (disk, lsns) = closed(|group| group % 7 + 1);
    let (log, counting) = open_counting(&disk.restart(), options(2));
    let pages: Vec<_> = lsns.step_by(97).map(|lsn| look(&log, &counting, lsn)).collect();
    assert!(pages.len() > 20, "{pages:?}");
    assert!(pages.iter().all(|pages| *pages <= 2), "{pages:?}");
    assert!(pages.iter().sum::<usize>() <= pages.len() * 3 / 2, "{pages:?}");
}

#[test]
fn one_old_record_costs_few_pages_however_uneven_the_groups_are() {
    // In the middle of the segment, records are seven times as dense as around it.
    let (disk, lsns) = closed(|group| if group % 700 < 300 { 7 } else { 1 });
    let (log, counting) = open_counting(&disk.restart(), options(2));
    let pages: Vec<_> = lsns.step_by(41).map(|lsn| look(&log, &counting, lsn)).collect();
    // Six pages are the whole index: a search by halves looks at three.
    assert!(pages.iter().all(|pages| *pages <= 4), "{pages:?}");
    assert!(pages.iter().sum::<usize>() <= pages.len() * 5 / 2, "{pages:?}");
}

#[test]
fn an_index_that_lies_costs_time_and_no_truth() {
    let (disk, lsns) = closed(|group| group % 7 + 1);
    let length = disk.bytes(&segment_name(3)).unwrap().len() as u64;
    for fill in [0_u8, 1, 0x55, 0xff] {
        let disk = disk.restart();
        disk.overwrite(&segment_name(3), length - 7 * 4096, &vec![fill; 6 * 4096]).unwrap();
        let (log, _) = open_counting(&disk, options(2));
        for lsn in lsns.clone().step_by(397) {
            let mut reader = log.reader(Lsn::new(lsn)).unwrap();
            for lsn in lsn..lsn + 20 {
                assert_eq!(reader.next_record().unwrap().unwrap().body, body(lsn));
            }
        }
    }
}

/// An index full of ones says that the first group is all of the segment.
#[test]
fn an_index_that_lies_does_not_make_a_window_longer() {
    let (disk, lsns) = closed(|group| group % 7 + 1);
    let length = disk.bytes(&segment_name(3)).unwrap().len() as u64;
    disk.overwrite(&segment_name(3), length - 7 * 4096, &vec![0xff; 6 * 4096]).unwrap();
    let (log, counting) = open_counting(&disk.restart(), options(2));
    let mut reader = log.reader(Lsn::new(lsns.start)).unwrap();
    assert_eq!(reader.next_record().unwrap().unwrap().body, body(lsns.start));
    let reads = counting.take();
    assert!(reads.iter().all(|read| read.len <= 512 * 1024), "{reads:?}");
}

#[test]
fn a_record_in_a_segment_without_index_is_near_a_mark() {
    let disk = SimDisk::new();
    let (log, counting) = open_counting(&disk, options(1));
    let mut lane = producer(&log).0;
    // The fourth segment, of 8 MiB, is half full.
    while disk.bytes(&segment_name(5)).is_err() {
        write(&log, &mut lane, 50, |_| 100);
    }
    write(&log, &mut lane, 100, |_| 100);
    let last = log.durable().get();
    counting.take();
    for lsn in (last - 4000..last).step_by(331) {
        let mut reader = log.reader(Lsn::new(lsn)).unwrap();
        assert_eq!(reader.next_record().unwrap().unwrap().body, body(lsn));
        // A mark each 128 KiB; what is read doubles.
        let bytes = blocks(&counting.take()) * BLOCK;
        assert!(bytes <= 600_000, "{bytes} bytes");
    }
}

#[test]
fn who_reads_on_gets_long_windows_and_each_byte_once() {
    let (disk, _) = closed(|_| 3);
    for read_threads in [0, 2] {
        let options = Options { read_threads, ..options(2) };
        let (log, counting) = open_counting(&disk.restart(), options);
        let last = log.durable().get();
        let mut reader = log.reader(Lsn::FIRST).unwrap();
        for lsn in 1..=last {
            assert_eq!(reader.next_record().unwrap().unwrap().body, body(lsn));
        }
        assert!(reader.next_record().unwrap().is_none());
        drop((reader, log));
        let reads = counting.take();
        let bytes: usize = reads.iter().map(|read| read.len).sum();
        let groups = usize::try_from(last).unwrap() / 3 * BLOCK;
        assert!(bytes < groups + groups / 50, "{bytes} for {groups}");
        assert!(reads.len() < 60, "{} reads", reads.len());
        assert!(reads.iter().all(|read| read.len <= 512 * 1024));
    }
}

#[test]
fn many_readers_share_few_threads() {
    let (disk, _) = closed(|group| group % 5 + 1);
    let (log, ..) = open(disk.restart(), Options { read_threads: 2, ..options(2) }).unwrap();
    let last = log.durable().get();
    std::thread::scope(|scope| {
        for nth in 0..8 {
            let log = log.clone();
            scope.spawn(move || {
                let mut reader = log.reader(Lsn::new(1 + nth * last / 9)).unwrap();
                for lsn in 1 + nth * last / 9..=last {
                    assert_eq!(reader.next_record().unwrap().unwrap().body, body(lsn));
                }
            });
        }
    });
}

#[test]
fn a_reader_dropped_in_the_middle_leaves_nothing_leased() {
    let (disk, lsns) = closed(|_| 3);
    let (log, ..) = open(disk.restart(), Options { read_threads: 1, ..options(2) }).unwrap();
    let mut reader = log.reader(Lsn::new(lsns.start)).unwrap();
    for _ in 0..600 {
        reader.next_record().unwrap().unwrap();
    }
    drop(reader);
    log.trim(log.durable());
    // A window that is being read ahead keeps its lease a moment longer.
    while log.disk().bytes(&segment_name(3)).is_ok() {
        log.helper_step(0);
        std::thread::yield_now();
    }
}

#[test]
fn a_reader_stops_at_what_is_committed_unless_it_asks() {
    let disk = SimDisk::new();
    let by_caller = Options { commits: Commits::ByCaller, ..small(1) };
    let (log, ..) = open(disk.clone(), by_caller).unwrap();
    let mut lane = producer(&log).0;
    for n in 0..10 {
        put(&log, &mut lane, &[n]);
    }
    assert_eq!((log.durable(), log.committed()), (Lsn::new(10), Lsn::ZERO));
    let mut committed = log.reader(Lsn::FIRST).unwrap();
    let mut durable = log.reader_to(Lsn::FIRST, Limit::Durable).unwrap();
    assert_eq!(committed.next_record().unwrap(), None);
    for _ in 0..10 {
        assert!(durable.next_record().unwrap().is_some());
    }
    assert_eq!(durable.next_record().unwrap(), None);
    for (commit, seen) in [(3, 3), (2, 0), (10, 7)] {
        log.commit(Lsn::new(commit));
        let found = (0..20).map_while(|_| committed.next_record().unwrap().map(|found| found.lsn));
        assert_eq!(found.count(), seen);
    }
    // Committed by others, and not durable here.
    disk.hold();
    stage(&mut lane, b"x").unwrap();
    lane.drive(1000);
    log.commit(Lsn::new(11));
    assert_eq!(committed.next_record().unwrap(), None);
    disk.release_all();
    lane.drive(1000);
    assert_eq!(committed.next_record().unwrap().unwrap().lsn, Lsn::new(11));
}

#[test]
fn a_node_alone_commits_what_is_durable() {
    let (log, ..) = reopen(&SimDisk::new(), 1);
    let mut lane = producer(&log).0;
    put(&log, &mut lane, b"x");
    assert_eq!((log.committed(), log.durable()), (Lsn::FIRST, Lsn::FIRST));
}

#[test]
#[should_panic(expected = "trimmed below @3")]
fn nothing_is_trimmed_that_is_not_committed() {
    let by_caller = Options { commits: Commits::ByCaller, ..small(1) };
    let (log, ..) = open(SimDisk::new(), by_caller).unwrap();
    let mut lane = producer(&log).0;
    put(&log, &mut lane, b"x");
    put(&log, &mut lane, b"y");
    log.commit(Lsn::new(1));
    log.trim(Lsn::new(2));
    log.trim(Lsn::new(3));
}

#[test]
#[should_panic(expected = "committed is appended")]
fn nothing_is_committed_that_is_not_there() {
    let by_caller = Options { commits: Commits::ByCaller, ..small(1) };
    let (log, ..) = open(SimDisk::new(), by_caller).unwrap();
    log.commit(Lsn::FIRST);
}

#[test]
#[should_panic(expected = "an image holds what is committed")]
fn no_image_is_marked_that_is_not_committed() {
    let (log, ..) = reopen(&SimDisk::new(), 1);
    let _ = log.update_facts(|facts| facts.snapshot = Lsn::FIRST);
}

#[test]
fn bytes_that_cannot_be_read_are_named() {
    let (disk, lsns) = closed(|_| 3);
    let disk = disk.restart();
    let (log, ..) = open(disk.clone(), options(2)).unwrap();
    disk.break_bytes(&segment_name(3), 8192..8704).unwrap();
    let failed = log.reader(Lsn::new(lsns.start + 3)).err().unwrap();
    assert!(matches!(failed, ReadError::Disk { .. }), "{failed}");
    assert!(
        failed.to_string().contains(&format!("{} near byte 8192", segment_name(3))),
        "{failed}"
    );
}
