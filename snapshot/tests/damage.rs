//! Bytes that are not what was written: found, named, and never taken for others.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests panic as tests do")]

mod common;

use common::*;
use zzq_snapshot::{
    Damage, Kind, Listing, Mark, ReadError, Shelf, Verdict, Volume, What, at_full_speed, cold_name,
    image_name,
};
use zzq_wal::disk::Disk;
use zzq_wal::format::segment::Identity;
use zzq_wal::sim_disk::{Fault, Op, SimDisk, SimFile};

fn verified(disk: &SimDisk) -> Result<Volume<SimFile>, ReadError> {
    let volume = Volume::open(disk, Kind::Image, 1)?;
    volume.verify(at_full_speed())?;
    Ok(volume)
}

fn damage(outcome: Result<Volume<SimFile>, ReadError>) -> Damage {
    match outcome {
        Err(ReadError::Damage(damage)) => damage,
        // The one field of a block that speaks of another program than this.
        Err(ReadError::Version { file, .. }) => Damage { file, offset: 0, reason: String::new() },
        other => panic!("no damage: {other:?}"),
    }
}

#[test]
fn every_byte_that_changes_is_found_and_named() {
    let (disk, volume) = disk_with(&content(1, 60));
    for (start, end) in units(&disk, volume.name()) {
        for at in start..end {
            let bit = u8::try_from(at % 8).unwrap();
            disk.flip(volume.name(), at, bit).unwrap();
            let damage = damage(verified(&disk));
            assert_eq!(
                (&*damage.file, damage.offset),
                (volume.name(), start),
                "byte {at}: {damage}"
            );
            disk.flip(volume.name(), at, bit).unwrap();
        }
    }
    verified(&disk).unwrap();
}

/// Whatever byte changes, an entry is what was written, or an error.
#[test]
fn no_changed_byte_makes_another_answer() {
    let content = content(2, 40);
    let (disk, volume) = disk_with(&content);
    let (first, last) = (content.iter().next().unwrap(), content.iter().next_back().unwrap());
    let mut wrong = 0;
    for at in 0..volume.size() {
        disk.flip(volume.name(), at, 3).unwrap();
        for ((section, key), value) in [first, last] {
            let opened = Volume::open(&disk, Kind::Image, 1);
            match opened.and_then(|volume| volume.get(*section, key)) {
                Ok(found) => assert_eq!(found.as_ref(), Some(value), "byte {at}"),
                Err(_) => wrong += 1,
            }
            assert_ne!(volume.get(*section, b"absent").ok().flatten(), Some(Vec::new()));
        }
        match Volume::open(&disk, Kind::Image, 1).and_then(|volume| read(&volume)) {
            Ok(found) => assert!(found == content, "byte {at}"),
            Err(_) => wrong += 1,
        }
        disk.flip(volume.name(), at, 3).unwrap();
    }
    assert!(wrong > 1000, "{wrong}");
}

#[test]
fn a_damaged_section_hurts_no_other() {
    let (disk, volume) = disk_with(&content(3, 120));
    let whole = disk.bytes(volume.name()).unwrap();
    let sections: Vec<u16> = volume.sections().map(|section| section.section).collect();
    let of = |at: u64| {
        let at = usize::try_from(at).unwrap();
        u16::from_le_bytes([whole[at + 12], whole[at + 13]])
    };
    for (start, end) in units(&disk, volume.name()) {
        if start == 0 || end - start <= 1 || end == volume.size() {
            continue;
        }
        disk.overwrite(volume.name(), start, &[0; 30]).unwrap();
        for &section in &sections {
            let mut entries = volume.entries(|wanted| wanted == section, at_full_speed());
            let outcome = loop {
                match entries.next_entry() {
                    Ok(Some(_)) => {}
                    Ok(None) => break true,
                    Err(_) => break false,
                }
            };
            assert_eq!(outcome, section != of(start), "section {section}, node at {start}");
        }
        let at = usize::try_from(start).unwrap();
        disk.overwrite(volume.name(), start, &whole[at..at + 30]).unwrap();
    }
}

/// Writes that the device reports as done are found missing before the volume has its name.
#[test]
fn a_write_that_went_astray_is_found_when_it_is_read_back() {
    let big: Content = (0..60_u8).map(|n| ((1, vec![n]), vec![n; 10_000])).collect();
    for fault in [Fault::Lost, Fault::Shifted(65_536), Fault::Short(4096), Fault::InOtherFile] {
        for nth in 1..=3 {
            let (disk, _) = disk_with(&content(8, 20));
            disk.fail(Op::Write, nth, fault);
            let outcome = write(&disk, heading(2, 200), &big, 16_384);
            assert!(outcome.is_err(), "{fault:?} {nth}");
            let names = disk.list().unwrap();
            assert!(names.iter().all(|(name, _)| *name != image_name(2)), "{names:?}");
        }
    }
}

#[test]
fn a_file_of_another_length_is_refused() {
    let (disk, volume) = disk_with(&content(4, 200));
    let whole = disk.bytes(volume.name()).unwrap();
    for len in (0..whole.len()).step_by(512).chain([whole.len() + 4096, whole.len() + 512]) {
        let mut bytes = whole.clone();
        bytes.resize(len, 0);
        disk.insert(volume.name(), bytes);
        let found = damage(verified(&disk));
        assert!(found.offset <= len as u64, "{len}: {found}");
    }
}

/// Each node, as intact as ever, in the place of each other of its length; and of an image before.
#[test]
fn nodes_from_other_places_are_noticed() {
    let (disk, volume) = disk_with(&content(5, 60));
    let other = SimDisk::new();
    write(&other, heading(2, 100), &content(5, 60), SHORT).unwrap();
    let (bytes, others) =
        (disk.bytes(volume.name()).unwrap(), other.bytes(&image_name(2)).unwrap());
    let units = units(&disk, volume.name());
    let range =
        |(start, end): (u64, u64)| usize::try_from(start).unwrap()..usize::try_from(end).unwrap();
    let nodes: Vec<_> = units.iter().copied().filter(|(start, end)| end - start > 1).collect();
    let mut swaps = 0;
    for &to in &nodes {
        let mut made = Vec::new();
        let mut older = bytes.clone();
        older[range(to)].copy_from_slice(&others[range(to)]);
        made.push(older);
        for &from in nodes.iter().filter(|from| **from != to && from.1 - from.0 == to.1 - to.0) {
            let mut swapped = bytes.clone();
            swapped.copy_within(range(from), range(to).start);
            made.push(swapped);
        }
        for bytes in made {
            disk.insert(volume.name(), bytes);
            assert!(damage(verified(&disk)).offset >= to.0 || to.0 > 4096);
            swaps += 1;
        }
    }
    assert!(swaps > 50, "{swaps}");
}

fn shelf_of(
    disk: &SimDisk,
    identity: &Identity,
    mark: Option<Mark>,
) -> (Shelf<SimFile>, Vec<Verdict>) {
    let there = Listing::read(disk).unwrap();
    Shelf::open(disk, &there, identity, mark, at_full_speed()).unwrap()
}

/// A disk with the cold file that the images of these tests need.
fn with_cold_file() -> SimDisk {
    let disk = SimDisk::new();
    disk.insert(&cold_name(COLD), Vec::new());
    disk
}

#[test]
fn a_shelf_falls_back_and_says_so() {
    let disk = with_cold_file();
    let (old, new) = (content(6, 50), content(7, 50));
    write(&disk, heading(1, 50), &old, SHORT).unwrap();
    write(&disk, heading(2, 100), &new, SHORT).unwrap();
    let open = || shelf_of(&disk, &IDENTITY, None);
    assert_eq!(read(open().0.newest().unwrap()).unwrap(), new);
    disk.flip(&image_name(2), 5000, 1).unwrap();
    let (shelf, verdicts) = open();
    assert_eq!(read(shelf.newest().unwrap()).unwrap(), old);
    assert!(matches!(&verdicts[..], [verdict] if matches!(verdict.what, What::Damaged(_))));
    assert!(verdicts[0].to_string().contains("00000000000000000002.image is damaged at byte"));
    assert_eq!(shelf.next_number(), 3);
    disk.break_bytes(&image_name(1), 4096..4097).unwrap();
    let (shelf, verdicts) = open();
    assert!(shelf.newest().is_none());
    assert!(matches!(&verdicts[..], [one, _] if matches!(one.what, What::Unreadable(_))));
}

#[test]
fn what_meta_names_and_is_not_there_is_said() {
    let disk = with_cold_file();
    write(&disk, heading(1, 50), &content(6, 50), SHORT).unwrap();
    let mark = |number, lsn| Some(Mark { number, lsn: zzq_wal::Lsn::new(lsn) });
    let open = |mark| shelf_of(&disk, &IDENTITY, mark);
    assert!(open(mark(1, 50)).1.is_empty());
    let (shelf, verdicts) = open(mark(2, 80));
    assert_eq!(shelf.next_number(), 3);
    assert!(matches!(verdicts[0].what, What::Missing), "{verdicts:?}");
    let (shelf, verdicts) = open(mark(1, 51));
    assert!(shelf.newest().is_none() && verdicts[0].to_string().contains("meta says @51"));
    let stranger = Identity { log: [9; 16], ..IDENTITY };
    let (shelf, verdicts) = shelf_of(&disk, &stranger, None);
    assert!(shelf.newest().is_none() && matches!(verdicts[0].what, What::OtherLog));
}

#[test]
fn an_image_whose_cold_file_is_gone_is_set_aside_and_goes() {
    let disk = with_cold_file();
    write(&disk, heading(1, 50), &content(6, 50), SHORT).unwrap();
    write(&disk, heading(2, 60), &content(7, 50), SHORT).unwrap();
    let (shelf, verdicts) = shelf_of(&disk, &IDENTITY, None);
    assert_eq!((shelf.images().count(), verdicts.len()), (2, 0));
    let name = cold_name(COLD);
    disk.remove(&name).unwrap();
    let (mut shelf, verdicts) = shelf_of(&disk, &IDENTITY, None);
    assert!(verdicts.iter().all(|verdict| matches!(verdict.what, What::Lacks(_))));
    assert_eq!(
        verdicts[1].to_string(),
        format!("{} needs {name}, which is not there", image_name(2))
    );
    assert!(shelf.newest().is_none());
    shelf.retire(&disk).unwrap();
    assert!(disk.list().unwrap().is_empty());
}
