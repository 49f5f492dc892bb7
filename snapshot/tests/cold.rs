//! Cold files: records by LSN, in and out, whatever becomes of the bytes.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests panic as tests do")]

mod common;

use std::collections::BTreeMap;
use std::io::ErrorKind;

use common::*;
use proptest::prelude::*;
use zzq_snapshot::{
    ColdFile, ColdRecord, ColdShelf, ColdWriter, Heading, Kind, Listing, ReadError, at_full_speed,
    cold_name,
};
use zzq_wal::Lsn;
use zzq_wal::disk::Disk;
use zzq_wal::format::segment::Identity;
use zzq_wal::sim_disk::{Fault, Op, SimDisk, SimFile};

const GOLDEN: &[u8] = include_bytes!("golden/cold-records-v1.bin");

/// Kind, time and body by LSN.
type Records = BTreeMap<u64, (u8, u64, Vec<u8>)>;

fn records(seed: u64, count: u64) -> Records {
    let mut random = Random::new(seed);
    let mut lsn = 0;
    (0..count)
        .map(|_| {
            lsn += [1, 2, 3, 70_000][usize::try_from(random.below(4)).unwrap()];
            (lsn, (3, 1_700_000_000_000 + lsn, random.bytes(200)))
        })
        .collect()
}

fn write(disk: &SimDisk, number: u64, records: &Records) -> ColdFile<SimFile> {
    let lsn = Lsn::new(records.keys().next_back().copied().unwrap_or(0));
    let heading = Heading { number, lsn, ..Heading::new(Kind::Cold, IDENTITY) };
    let mut writer = ColdWriter::begin(disk, heading, at_full_speed()).unwrap();
    for (&lsn, (kind, time_ms, body)) in records {
        let lsn = Lsn::new(lsn);
        writer.record(ColdRecord { lsn, time_ms: *time_ms, kind: *kind, body }).unwrap();
    }
    writer.finish().unwrap()
}

/// Reads a record, alone or after others.
fn read(
    reader: &mut zzq_snapshot::ColdReader<'_, SimFile>,
    lsn: u64,
) -> Result<Option<(u8, u64, Vec<u8>)>, ReadError> {
    let found = reader.read(Lsn::new(lsn))?;
    Ok(found.map(|found| (found.kind, found.time_ms, found.body.to_vec())))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn every_record_is_found_in_any_order(
        seed in any::<u64>(), count in 1_u64..700, picks in prop::collection::vec(any::<u64>(), 40),
    ) {
        let records = records(seed, count);
        let disk = SimDisk::new();
        write(&disk, 1, &records);
        let file = ColdFile::open(&disk, 1).unwrap();
        prop_assert_eq!(file.len(), count);
        let mut reader = file.reader();
        for (lsn, record) in &records {
            prop_assert_eq!(&read(&mut reader, *lsn).unwrap().unwrap(), record);
        }
        let last = *records.keys().next_back().unwrap();
        for pick in picks {
            let lsn = pick % (last + 3);
            let found = read(&mut reader, lsn).unwrap();
            prop_assert_eq!(found.as_ref(), records.get(&lsn));
            prop_assert_eq!(file.contains(Lsn::new(lsn)), records.contains_key(&lsn));
            let near = records.range(lsn..).next();
            if let Some((lsn, record)) = near {
                prop_assert_eq!(&read(&mut reader, *lsn).unwrap().unwrap(), record);
            }
        }
    }
}

#[test]
fn no_changed_byte_makes_another_record() {
    let records = records(7, 12);
    let disk = SimDisk::new();
    let size = write(&disk, 1, &records).volume().size();
    let mut refused = 0;
    for at in 0..size {
        disk.flip(&cold_name(1), at, 5).unwrap();
        if let Ok(file) = ColdFile::open(&disk, 1) {
            let mut reader = file.reader();
            for (lsn, record) in &records {
                match read(&mut reader, *lsn) {
                    Ok(found) => assert_eq!(found.as_ref(), Some(record), "byte {at}"),
                    Err(_) => refused += 1,
                }
            }
        } else {
            refused += 1;
        }
        disk.flip(&cold_name(1), at, 5).unwrap();
    }
    assert!(refused > 8192, "{refused}");
}

fn shelf_of(disk: &SimDisk, needed: &[u64], used: u64) -> Result<ColdShelf<SimFile>, ReadError> {
    let there = Listing::read(disk).unwrap();
    ColdShelf::open(disk, &there, &IDENTITY, needed, used).map(|(shelf, passed)| {
        assert!(passed.is_empty(), "{passed:?}");
        shelf
    })
}

/// An image that was removed may be back, and needs the files that it had.
#[test]
fn no_file_gets_the_number_of_one_that_is_gone() {
    let disk = SimDisk::new();
    write(&disk, 5, &records(1, 30));
    let mut shelf = shelf_of(&disk, &[5], 5).unwrap();
    let used = shelf.last_number();
    shelf.retire(&disk, |_| false).unwrap();
    assert!(disk.list().unwrap().is_empty());
    let mut shelf = shelf_of(&disk, &[], used).unwrap();
    assert_eq!((shelf.last_number(), shelf.take_number(), shelf.last_number()), (5, 6, 6));
}

#[test]
fn a_shelf_has_what_is_there_and_lets_go_what_is_not_needed() {
    let disk = SimDisk::new();
    let (old, new) = (records(1, 30), records(2, 40));
    for (number, records) in [(1, &old), (2, &old), (3, &new)] {
        write(&disk, number, records);
    }
    let mut shelf = shelf_of(&disk, &[3, 1, 3], 0).unwrap();
    assert_eq!(shelf.files().iter().map(|file| file.number()).collect::<Vec<_>>(), [1, 2, 3]);
    let both = old.keys().find(|lsn| new.contains_key(lsn)).copied().unwrap();
    assert_eq!(shelf.find(Lsn::new(both)).unwrap().number(), 3, "the newest");
    assert!(shelf.find(Lsn::new(u64::MAX)).is_none());
    assert_eq!(shelf.take_number(), 4);
    let held = shelf.files()[0].clone();
    let gone = shelf.retire(&disk, |number| number == 3).unwrap();
    assert_eq!(gone, [cold_name(2), cold_name(1)]);
    assert_eq!(disk.list().unwrap().len(), 1);
    assert!(read(&mut held.reader(), *old.keys().next().unwrap()).unwrap().is_some());
    assert!(shelf_of(&disk, &[1], 0).is_err(), "what is needed is there");
    shelf.admit(write(&disk, 4, &old));
    assert_eq!(shelf.retire(&disk, |_| true).unwrap(), [""; 0]);
}

/// Files of two logs in one directory: their numbers are the same, their records are not.
#[test]
fn a_file_of_another_log_is_named_and_refused_where_it_is_needed() {
    let disk = SimDisk::new();
    write(&disk, 1, &records(1, 30));
    let there = Listing::read(&disk).unwrap();
    let other = Identity { log: [9; 16], ..IDENTITY };
    let open = |needed: &[u64]| ColdShelf::open(&disk, &there, &other, needed, 0);
    let what = format!("{} is damaged at byte 0: it is of another log", cold_name(1));
    assert_eq!(open(&[1]).unwrap_err().to_string(), what);
    let (mut shelf, passed) = open(&[]).unwrap();
    assert_eq!(passed.iter().map(ToString::to_string).collect::<Vec<_>>(), [what]);
    assert_eq!(shelf.retire(&disk, |_| true).unwrap(), [cold_name(1)]);
}

/// A late decision may name what only they have.
#[test]
fn files_that_are_not_needed_stay_until_somebody_says_so() {
    let disk = SimDisk::new();
    let old = records(1, 30);
    for number in 1..=3 {
        write(&disk, number, &old);
    }
    disk.flip(&cold_name(2), 9, 0).unwrap();
    // The first of the file that is read first.
    disk.fail(Op::Read, 1, Fault::Fail(ErrorKind::Other));
    let there = Listing::read(&disk).unwrap();
    let (mut shelf, passed) = ColdShelf::open(&disk, &there, &IDENTITY, &[], 7).unwrap();
    assert!(matches!(passed[..], [ReadError::Disk { .. }, ReadError::Damage(_)]), "{passed:?}");
    assert_eq!(shelf.files().iter().map(|file| file.number()).collect::<Vec<_>>(), [3]);
    assert_eq!(shelf.last_number(), 7);
    assert_eq!(shelf.retire(&disk, |_| true).unwrap(), [cold_name(2)]);
    assert_eq!(shelf.retire(&disk, |_| false).unwrap(), [cold_name(3)]);
    assert!(disk.bytes(&cold_name(1)).is_ok(), "what it has may be readable another time");
}

fn golden() -> Records {
    let mut records = records(9, 20);
    records.insert(1 << 40, (200, 5, Vec::new()));
    records
}

#[test]
fn cold_files_keep_their_bytes() {
    let disk = SimDisk::new();
    write(&disk, 9, &golden());
    let made = disk.bytes(&cold_name(9)).unwrap();

    assert!(made == GOLDEN, "the format changed");
    let disk = SimDisk::new();
    disk.insert(&cold_name(9), GOLDEN.to_vec());
    let file = ColdFile::open(&disk, 9).unwrap();
    for (lsn, record) in golden() {
        assert_eq!(read(&mut file.reader(), lsn).unwrap(), Some(record));
    }
}
