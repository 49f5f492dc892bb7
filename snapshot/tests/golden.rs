//! Volumes of version 1 keep their bytes, and are read for ever.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests panic as tests do")]

mod common;

use common::*;
use zzq_snapshot::{Heading, Kind, Listing, Shelf, Volume, Writer, at_full_speed};
use zzq_wal::Lsn;
use zzq_wal::format::segment::Identity;
use zzq_wal::sim_disk::SimDisk;

const IMAGE: &[u8] = include_bytes!("golden/image-v1.bin");
const COLD: &[u8] = include_bytes!("golden/cold-v1.bin");

/// All fields in use, keys with common beginnings, a tree of several levels, an empty value.
fn entries() -> Vec<(u16, Vec<u8>, Vec<u8>)> {
    let mut entries = vec![(1, Vec::new(), b"marks".to_vec()), (1, vec![0], Vec::new())];
    let many = (0..30_u64).map(|n| {
        let value = vec![u8::try_from(n).unwrap(); usize::try_from(n).unwrap()];
        (2, [&b"site/a/"[..], &(n * 300).to_be_bytes()].concat(), value)
    });
    entries.extend(many);
    entries.push((0xFEFF, b"last".to_vec(), vec![7; 300]));
    entries
}

fn heading(kind: Kind) -> Heading {
    Heading {
        kind,
        identity: Identity { log: [0x11; 16], cluster: [0x22; 16], node: 3 },
        number: 9,
        lsn: Lsn::new(123_456),
        time_ms: 1_700_000_000_000,
        term: 4,
        index: 777,
        before: Some((8, Lsn::new(100_000))),
        contents: 1,
    }
}

fn make(kind: Kind) -> Vec<u8> {
    let disk = SimDisk::new();
    let writer = Writer::begin_with(&disk, heading(kind), 200, at_full_speed());
    let mut writer = writer.unwrap();
    for (section, key, value) in entries() {
        writer.entry(section, &key, &value).unwrap();
    }
    let needs = if kind == Kind::Image { needs() } else { Vec::new() };
    let volume = writer.finish_with(&needs).unwrap();
    disk.bytes(volume.name()).unwrap()
}

#[test]
fn volumes_keep_their_bytes() {
    for (kind, kept) in [(Kind::Image, IMAGE), (Kind::Cold, COLD)] {
        let made = make(kind);
        let first = made.iter().zip(kept).position(|(one, other)| one != other);
        assert_eq!((first, made.len()), (None, kept.len()), "{kind:?}: the format changed");
    }
}

#[test]
fn volumes_of_version_1_are_read() {
    for (kind, bytes) in [(Kind::Image, IMAGE), (Kind::Cold, COLD)] {
        let disk = SimDisk::new();
        let name = if kind == Kind::Image {
            zzq_snapshot::image_name(9)
        } else {
            zzq_snapshot::cold_name(9)
        };
        disk.insert(&name, bytes.to_vec());
        let volume = Volume::open(&disk, kind, 9).unwrap();
        volume.verify(at_full_speed()).unwrap();
        assert_eq!(volume.heading(), &heading(kind));
        let expected = entries().into_iter().map(|(section, key, value)| ((section, key), value));
        assert_eq!(read(&volume).unwrap(), expected.collect());
        for (section, key, value) in entries() {
            assert_eq!(volume.get(section, &key).unwrap(), Some(value));
        }
        let needs = if kind == Kind::Image { needs() } else { Vec::new() };
        assert_eq!(volume.needs().unwrap(), needs);
    }
}

#[test]
fn a_newer_version_is_refused_and_named() {
    let disk = SimDisk::new();
    let mut bytes = IMAGE.to_vec();
    bytes[12] = 2;
    let sum = zzq_wal::format::checksum(&bytes[12..4096]);
    bytes[8..12].copy_from_slice(&sum.to_le_bytes());
    disk.insert(&zzq_snapshot::image_name(9), bytes);
    let error = Volume::open(&disk, Kind::Image, 9).unwrap_err();
    assert!(error.to_string().ends_with("has format version 2, this program knows up to 1"));
    let identity = heading(Kind::Image).identity;
    let there = Listing::read(&disk).unwrap();
    let refused = Shelf::open(&disk, &there, &identity, None, at_full_speed());
    assert!(refused.is_err(), "it is not passed over");
}
