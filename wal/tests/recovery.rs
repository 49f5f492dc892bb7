//! Recovery reads ahead on threads, in bounded memory, and says how far it is: what it finds does
//! not depend on how many threads read.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests panic as tests do")]

mod common;

use std::sync::{Arc, Mutex};

use common::hooked::Counting;
use common::*;
use zzq_wal::sim_disk::{SimDisk, Survival};
use zzq_wal::{
    Cleared, End, Log, Lsn, META_NAME, OpenError, Options, PROGRESS_STEP, Progress, Recovery, Why,
    inspect, segment_name,
};

const WINDOW: u64 = 1 << 20;

/// Sizes at which groups lie across windows, and segments are several windows long.
fn large(seed: u64, recovery_threads: usize) -> Options {
    Options { segment_size: 4 << 20, recovery_threads, ..Options::new(entropy(seed)) }
}

fn body(lsn: u64) -> Vec<u8> {
    let len = match lsn % 7 {
        0 => 400_000,
        1 => 3,
        2 => 70_000,
        _ => 9000,
    };
    vec![u8::try_from(lsn % 251).unwrap(); len]
}

/// A log of so many records, whose process was killed.
fn written(records: u64) -> SimDisk {
    let disk = SimDisk::new();
    let (log, ..) = open(disk.clone(), large(1, 0)).unwrap();
    let mut lane = producer(&log).0;
    for lsn in 1..=records {
        put(&log, &mut lane, &body(lsn));
    }
    disk.restart()
}

type Found = Result<(Recovery, Vec<Seen>), String>;

fn found(disk: &SimDisk, threads: usize) -> Found {
    let mut seen = Vec::new();
    let recovery = inspect(disk.clone(), &large(9, threads), &mut |record| {
        seen.push(Seen { lsn: record.lsn.get(), kind: record.kind, body: record.body.to_vec() });
        Ok(())
    });
    recovery.map(|recovery| (recovery, seen)).map_err(|error| error.to_string())
}

/// The same by any number of threads; what the caller's thread alone finds.
fn found_by_all(disk: &SimDisk) -> Found {
    let alone = found(disk, 0);
    for threads in [1, 2, 4, 9] {
        let together = found(disk, threads);
        assert!(together == alone, "{threads} threads: {together:?}\nnone: {alone:?}");
    }
    alone
}

#[test]
fn any_number_of_threads_finds_the_same() {
    let disk = written(200);
    let (recovery, seen) = found_by_all(&disk).unwrap();
    assert!(recovery.segments.len() > 4, "{recovery:?}");
    assert_eq!((recovery.last_lsn, seen.len()), (Lsn::new(200), 200));
    assert!((1..).zip(&seen).all(|(lsn, record)| record.lsn == lsn && record.body == body(lsn)));
}

#[test]
fn any_number_of_threads_comes_to_the_same_verdict() {
    let whole = written(120);
    let (recovery, _) = found_by_all(&whole).unwrap();
    let used: Vec<_> = recovery.segments.iter().filter(|segment| segment.groups > 0).collect();
    for (nth, segment) in used.iter().enumerate() {
        // At the border of two windows, and somewhere in one.
        let length = whole.bytes(&segment.file).unwrap().len() as u64;
        let borders = [4096 + WINDOW - 1, 4096 + WINDOW].into_iter();
        let borders = borders.filter(|offset| offset + WINDOW < length);
        for offset in borders.chain([300_000]) {
            let disk = whole.restart();
            disk.flip(&segment.file, offset, 2).unwrap();
            let verdict = found_by_all(&disk);
            if nth + 1 < used.len() {
                assert!(verdict.unwrap_err().contains(&segment.file));
            }
        }
    }
    // Torn in each of the last groups: what is void is named.
    let last = used.last().unwrap();
    let End::Clean { offset } = last.end else { panic!("{last:?}") };
    let disk = whole.restart();
    disk.overwrite(&last.file, offset - 512, &[0xee; 512]).unwrap();
    let (recovery, seen) = found_by_all(&disk).unwrap();
    assert_eq!(seen.len(), 119);
    let torn = recovery.segments.iter().find(|segment| segment.file == last.file).unwrap();
    let void = torn.void.as_ref().unwrap();
    assert_eq!(torn.end, End::Torn { offset: void.offset });
    assert_eq!((void.first, void.last), (Lsn::new(120), Lsn::new(120)), "{void:?}");
    assert!(void.reason.contains("not those that its header names"), "{void:?}");
}

#[test]
fn memory_is_a_window_for_each_thread_and_one() {
    let disk = written(150);
    for threads in [0, 1, 2, 4] {
        let counting = Counting::new(disk.clone());
        let (mut visited, mut read, mut ahead_max) = (0, 0, 0);
        let visit = |record: zzq_wal::RecoveredRecord<'_>| {
            read += counting.take().iter().map(|read| read.len as u64).sum::<u64>();
            ahead_max = ahead_max.max(read - visited);
            visited += record.body.len() as u64;
            Ok(())
        };
        inspect(counting.clone(), &large(9, threads), &mut { visit }).unwrap();
        // Besides windows: headers, closings, first groups, padding, the ends of segments.
        let others = 4 * WINDOW;
        let most = (threads as u64 + 1) * WINDOW + others;
        assert!(ahead_max <= most, "{ahead_max} with {threads} threads");
        assert!(ahead_max >= threads as u64 * WINDOW, "it does read ahead: {ahead_max}");
    }
}

#[test]
fn progress_is_told_by_bytes_and_ends_with_all() {
    let disk = written(400);
    for threads in [0, 2] {
        let told: Arc<Mutex<Vec<Progress>>> = Arc::default();
        let keep = Arc::clone(&told);
        let progress = move |progress: &Progress| keep.lock().unwrap().push(*progress);
        let options = Options { progress: Some(Box::new(progress)), ..large(9, threads) };
        inspect(disk.clone(), &options, &mut |_| Ok(())).unwrap();
        let told = told.lock().unwrap();
        let last = told.last().unwrap();
        assert_eq!((last.bytes_done, last.segments_done), (last.bytes_all, last.segments_all));
        assert_eq!(last.last_lsn, Lsn::new(400));
        assert!(told.len() > 2, "{told:?}");
        assert!(told.len() as u64 <= last.bytes_all / PROGRESS_STEP + 1, "{told:?}");
        for pair in told.windows(2) {
            assert!(pair[0].bytes_done <= pair[1].bytes_done, "{told:?}");
            assert!(pair[0].last_lsn <= pair[1].last_lsn, "{told:?}");
            assert_eq!(pair[0].bytes_all, pair[1].bytes_all);
        }
    }
}

#[test]
fn an_empty_log_has_its_progress_too() {
    let told: Arc<Mutex<Vec<Progress>>> = Arc::default();
    let keep = Arc::clone(&told);
    let progress = move |progress: &Progress| keep.lock().unwrap().push(*progress);
    let options = Options { progress: Some(Box::new(progress)), ..large(9, 4) };
    drop(open(SimDisk::new(), options).unwrap());
    assert_eq!(*told.lock().unwrap(), [Progress::default()]);
}

#[test]
fn bytes_that_cannot_be_read_are_named_by_file_and_offset() {
    let disk = written(60);
    disk.break_bytes(&segment_name(2), 20_000..20_512).unwrap();
    for threads in [0, 1, 4] {
        let refused = found(&disk, threads).unwrap_err();
        assert!(refused.contains(&segment_name(2)) && refused.contains("byte"), "{refused}");
    }
}

#[test]
fn a_visitor_that_refuses_ends_the_threads() {
    let disk = written(100);
    let refused = Log::open(disk, large(2, 4), 0, &mut |record| {
        if record.lsn == Lsn::new(40) { Err("enough".into()) } else { Ok(()) }
    });
    assert!(matches!(refused, Err(OpenError::Refused { .. })));
}

/// Changes the format version of a block of a file, keeping it intact.
fn make_newer(disk: &SimDisk, file: &str, offset: usize) {
    let bytes = disk.bytes(file).unwrap();
    let mut block = bytes[offset..offset + 4096].to_vec();
    block[12..16].copy_from_slice(&7_u32.to_le_bytes());
    let sum = zzq_wal::format::checksum(&block[12..]);
    block[8..12].copy_from_slice(&sum.to_le_bytes());
    disk.overwrite(file, offset as u64, &block).unwrap();
}

#[test]
fn a_store_of_a_newer_version_is_refused_with_both_versions_and_untouched() {
    let whole = written(30);
    for (file, offset) in
        [(META_NAME.to_owned(), 0), (META_NAME.to_owned(), 4096), (segment_name(1), 0)]
    {
        let disk = whole.restart();
        make_newer(&disk, &file, offset);
        let hash = disk.image_hash();
        match open(disk.clone(), large(2, 0)) {
            Err(error @ OpenError::Version { .. }) => {
                let text = error.to_string();
                assert!(text.contains(&file), "{text}");
                assert!(text.contains("version 7") && text.contains("up to 1"), "{text}");
            }
            other => panic!("{file} {offset}: {:?}", other.map(|(_, recovery, _)| recovery)),
        }
        assert_eq!(disk.image_hash(), hash);
    }
}

#[test]
fn a_start_tells_what_it_takes_back() {
    let disk = SimDisk::new();
    let (log, ..) = reopen(&disk, 1);
    let mut lane = producer(&log).0;
    for n in 0..100_u8 {
        put(&log, &mut lane, &[n; 3000]);
    }
    let before = disk.restart();
    let (log, recovery, _) = reopen(&before, 2);
    let last = recovery.segments.iter().rfind(|segment| segment.groups > 0).unwrap();
    let End::Clean { offset } = last.end else { panic!("{last:?}") };
    let length = before.bytes(&last.file).unwrap().len() as u64;
    // Nothing proves the last group: it is written anew, and gone from its old place.
    let renewed = recovery.renewed.clone().unwrap();
    assert_eq!((renewed.groups, renewed.first, renewed.last), (1, Lsn::new(100), Lsn::new(100)));
    let offset = offset - 4096;
    let unused =
        Cleared { file: last.file.clone(), offset, bytes: length - offset, why: Why::Unused };
    let ahead = recovery.segments.last().unwrap();
    assert_eq!(ahead.end, End::Void);
    let void = Cleared { file: ahead.file.clone(), offset: 0, bytes: 128 * 1024, why: Why::Void };
    assert_eq!(recovery.cleared, [unused, void]);
    while log.helper_step(0) {}
    let rest = before.bytes(&last.file).unwrap();
    assert!(rest[usize::try_from(offset).unwrap()..].iter().all(|byte| *byte == 0));

    // Trimmed, but the power went before their names were gone.
    let mut trimmed = Vec::new();
    for nth in 1..60 {
        let disk = before.restart();
        let (log, ..) = reopen(&disk, 3);
        log.trim(Lsn::new(90));
        disk.cut_power(nth);
        while log.helper_step(0) {}
        let (_, recovery, _) = reopen(&disk.crash_with(Survival::Nothing), 4);
        let why = recovery.cleared.iter().filter(|cleared| cleared.why == Why::Trimmed);
        trimmed.extend(why.map(|cleared| cleared.file.clone()));
    }
    assert!(trimmed.contains(&segment_name(1)), "{trimmed:?}");
}
