//! Records that are read again by their places: what that costs, and what is said where they are
//! not there any more.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests panic as tests do")]

mod common;

use common::hooked::Counting;
use common::*;
use zzq_wal::sim_disk::SimDisk;
use zzq_wal::{Log, Lsn, ReadError, RecordPlace, segment_name};

/// Every record's place, as a reader finds it; none for those in parts.
fn places<D: zzq_wal::disk::Disk>(log: &Log<D>) -> Vec<(Lsn, Option<RecordPlace>, Vec<u8>)> {
    let mut reader = log.reader(log.first_whole()).unwrap();
    let mut places = Vec::new();
    while let Some(found) = reader.next_record().unwrap() {
        places.push((found.lsn, found.place, found.body.to_vec()));
    }
    places
}

/// A log of groups with many records, big ones among them.
fn filled(disk: &SimDisk) {
    let (log, ..) = open(disk.clone(), small(1)).unwrap();
    let mut lane = producer(&log).0;
    for round in 0..40_u8 {
        for n in 0..30_u8 {
            let len = [20, 300, 5000][usize::from(n) % 3];
            while stage(&mut lane, &vec![round.wrapping_mul(n); len]).is_err() {
                turn(&log, &mut lane);
            }
        }
        put(&log, &mut lane, &vec![round; 20_000]);
    }
}

#[test]
fn a_record_is_found_at_its_place_by_the_blocks_that_it_lies_in() {
    let disk = SimDisk::new();
    filled(&disk);
    let counting = Counting::new(disk.restart());
    let (log, ..) = open(counting.clone(), small(2)).unwrap();
    let all = places(&log);
    let (mut in_parts, mut read) = (0, 0);
    let mut again = log.places();
    counting.take();
    for (lsn, place, body) in all.iter().rev() {
        let Some(place) = place else {
            assert_eq!(body.len(), 20_000);
            in_parts += 1;
            continue;
        };
        let before = again.bytes_read();
        assert_eq!(again.read(*lsn, *place).unwrap().body, &body[..]);
        let end = place.offset + 12 + body.len() as u64;
        let blocks = end.div_ceil(4096) - place.offset / 4096;
        // Once more where the header alone lies in fewer.
        assert!(again.bytes_read() - before <= (blocks + 2) * 4096);
        read += again.bytes_read() - before;
    }
    assert_eq!(in_parts, 40);
    assert_eq!(counting.take().iter().map(|read| read.len as u64).sum::<u64>(), read);
}

#[test]
fn what_is_not_at_its_place_is_never_given_out() {
    let disk = SimDisk::new();
    filled(&disk);
    let (log, ..) = open(disk.clone(), small(2)).unwrap();
    let all = places(&log);
    let (lsn, place, _) =
        all.iter().find(|(_, place, body)| place.is_some() && body.len() == 300).cloned().unwrap();
    let place = place.unwrap();
    let mut again = log.places();
    assert!(again.read(lsn, place).is_ok());
    for offset in [0, 4096, place.offset + 1, place.offset + 12, u64::from(u32::MAX)] {
        let elsewhere = RecordPlace { offset, ..place };
        assert!(matches!(again.read(lsn, elsewhere), Err(ReadError::Damage(_))), "{offset}");
    }
    let (other, far) = (Lsn::new(lsn.get() + 500), RecordPlace { segment: 99, ..place });
    assert!(matches!(again.read(other, place), Err(ReadError::Damage(_))), "of another segment");
    assert!(matches!(again.read(lsn, far), Err(ReadError::Trimmed { .. })));
    disk.flip(&segment_name(place.segment), place.offset + 100, 3).unwrap();
    // What lies in the same block is not read twice: another reader.
    assert!(matches!(log.places().read(lsn, place), Err(ReadError::Damage(_))));
}

#[test]
fn a_segment_stays_while_its_records_are_read_and_goes_then() {
    let disk = SimDisk::new();
    filled(&disk);
    let (log, ..) = open(disk, small(2)).unwrap();
    let all = places(&log);
    let placed = all.iter().find_map(|(lsn, place, body)| Some((*lsn, (*place)?, body.clone())));
    let (lsn, place, body) = placed.unwrap();
    let mut again = log.places();
    assert_eq!(again.read(lsn, place).unwrap().body, &body[..]);
    log.trim(log.durable());
    while log.helper_step(0) {}
    assert_eq!(again.read(lsn, place).unwrap().body, &body[..], "it holds the segment");
    let gone = log.places().read(lsn, place).map(|found| found.kind);
    assert!(matches!(gone, Err(ReadError::Trimmed { .. })), "{gone:?}");
}

#[test]
fn a_place_beyond_all_files_is_none() {
    let (log, ..) = open(SimDisk::new(), small(1)).unwrap();
    put(&log, &mut producer(&log).0, &[7; 100]);
    for offset in [u64::MAX, u64::MAX - 11, u64::MAX - 4095, 1 << 63] {
        let place = RecordPlace { segment: 1, offset };
        let read = log.places().read(Lsn::FIRST, place).map(|found| found.kind);
        assert!(matches!(read, Err(ReadError::Damage(_))), "{offset}");
    }
}
