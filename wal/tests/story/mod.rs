//! A log whose records are known: whatever is found of it is a prefix of them, or the test fails.
#![allow(dead_code, unreachable_pub, reason = "each test file uses its part")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "it is only part of tests")]

use std::ops::Range;

use zzq_wal::format::checksum;
use zzq_wal::format::group::GroupHeader;
use zzq_wal::format::segment::SegmentHeader;
use zzq_wal::sim_disk::SimDisk;
use zzq_wal::{Damage, Lsn, OpenError, inspect};

use crate::common::*;

/// A disk, and the body of each record from LSN 1 on.
#[derive(Clone)]
pub struct Story {
    pub disk: SimDisk,
    pub bodies: Vec<Vec<u8>>,
}

impl Story {
    /// Records of these lengths, a group each, by a process that was then killed.
    pub fn of(lens: &[usize]) -> Self {
        Self { disk: SimDisk::new(), bodies: Vec::new() }.then(&lens_to_bodies(lens))
    }

    /// The same with these records behind it, a group each; all but a few hundred KiB are trimmed.
    pub fn then(mut self, bodies: &[Vec<u8>]) -> Self {
        let (log, _, _) = reopen(&self.disk, 1);
        let (mut lane, _) = producer(&log);
        for body in bodies {
            let lsn = put(&log, &mut lane, body);
            self.bodies.push(body.clone());
            log.trim(Lsn::new(lsn.get().saturating_sub(60)));
        }
        while log.helper_step(0) {}
        Self { disk: self.disk.restart(), bodies: self.bodies }
    }

    /// The same with another disk.
    pub fn on(&self, disk: SimDisk) -> Self {
        Self { disk, bodies: self.bodies.clone() }
    }

    /// How many of its records a start would find; the disk is not changed.
    pub fn outcome(&self) -> Result<usize, Damage> {
        let mut found = Vec::new();
        let looked = inspect(self.disk.clone(), &small(0), &mut |record| {
            found.push((record.lsn.get(), record.body.to_vec()));
            Ok(())
        });
        let recovery = match looked {
            Ok(recovery) => recovery,
            Err(OpenError::Damage(damage)) => return Err(damage),
            Err(error) => panic!("{error}"),
        };
        let count = usize::try_from(recovery.last_lsn.get()).unwrap();
        let first = found.first().map_or(count + 1, |(lsn, _)| usize::try_from(*lsn).unwrap());
        assert_eq!(found.len(), count + 1 - first, "LSNs are dense");
        for (at, (lsn, body)) in (first..).zip(&found) {
            assert_eq!(*lsn, at as u64);
            assert!(self.bodies.get(at - 1) == Some(body), "record {at} was never staged");
        }
        Ok(count)
    }

    /// A start finds the first `count`, and what is written then is found behind them; nothing of
    /// the rest comes back.
    pub fn assert_goes_on(&self, count: usize, case: &str) {
        assert_eq!(self.outcome(), Ok(count), "{case}");
        let mut bodies = self.bodies[..count].to_vec();
        let mut disk = self.disk.restart();
        for seed in 40..42 {
            let (log, recovery, _) = reopen(&disk, seed);
            assert_eq!(recovery.last_lsn, Lsn::new(bodies.len() as u64), "{case}");
            let (mut lane, _) = producer(&log);
            bodies.push(vec![u8::try_from(seed).unwrap(); 700]);
            put(&log, &mut lane, &bodies[bodies.len() - 1]);
            disk = disk.restart();
            let now = Self { disk: disk.clone(), bodies: bodies.clone() };
            assert_eq!(now.outcome(), Ok(bodies.len()), "{case}");
        }
    }

    /// The start is refused, and names this place.
    pub fn assert_stops(&self, file: &str, offset: usize, case: &str) {
        let damage = match self.outcome() {
            Err(damage) => damage,
            Ok(count) => panic!("{case}: taken for {count} records"),
        };
        assert_eq!((&*damage.file, damage.offset), (file, offset as u64), "{case}: {damage}");
    }

    /// The file with the last group, and where the groups of that file are.
    pub fn last_groups(&self) -> (String, Vec<Range<usize>>) {
        let recovery = inspect(self.disk.clone(), &small(0), &mut |_| Ok(())).unwrap();
        let file = last_file(&recovery);
        let groups = self.groups(&file);
        (file, groups)
    }

    /// Where the groups of a file are that are intact and of this use of it.
    pub fn groups(&self, file: &str) -> Vec<Range<usize>> {
        let bytes = self.disk.bytes(file).unwrap();
        let salt = header(&bytes).salt;
        let mut groups = Vec::new();
        let mut at = 4096;
        while let Some(group) = GroupHeader::decode(bytes.get(at..).unwrap_or_default())
            && group.salt == salt
        {
            groups.push(at..at + group.length);
            at += group.length;
        }
        groups
    }

    /// A copy of the disk, with `bytes` at a place of a file.
    pub fn with(&self, file: &str, at: usize, bytes: &[u8]) -> Self {
        let disk = self.disk.restart();
        disk.overwrite(file, at as u64, bytes).unwrap();
        self.on(disk)
    }
}

/// Bodies that differ from one another.
pub fn lens_to_bodies(lens: &[usize]) -> Vec<Vec<u8>> {
    let byte = |at: usize| u8::try_from(1 + at % 200).unwrap();
    lens.iter().enumerate().map(|(at, len)| vec![byte(at); *len]).collect()
}

/// The header of a segment's bytes.
pub fn header(segment: &[u8]) -> SegmentHeader {
    SegmentHeader::decode(segment.first_chunk().unwrap()).unwrap()
}

/// What a forger changes in a copy of a group; all else stays as it was.
#[derive(Clone, Copy, Debug, Default)]
pub struct Forged {
    pub salt: Option<[u8; 16]>,
    pub segment: Option<u64>,
    pub number: Option<u64>,
    pub first_lsn: Option<u64>,
    pub durable: Option<u64>,
    pub previous: Option<u32>,
}

impl Forged {
    /// The group with these changes and checksums that fit.
    pub fn seal(&self, group: &[u8]) -> Vec<u8> {
        let mut bytes = group.to_vec();
        let mut set = |at: usize, field: Option<&[u8]>| {
            if let Some(field) = field {
                bytes[at..at + field.len()].copy_from_slice(field);
            }
        };
        set(16, self.salt.as_ref().map(|salt| &salt[..]));
        set(32, self.segment.map(u64::to_le_bytes).as_ref().map(|field| &field[..]));
        set(40, self.number.map(u64::to_le_bytes).as_ref().map(|field| &field[..]));
        set(56, self.first_lsn.map(u64::to_le_bytes).as_ref().map(|field| &field[..]));
        set(72, self.durable.map(u64::to_le_bytes).as_ref().map(|field| &field[..]));
        set(88, self.previous.map(u32::to_le_bytes).as_ref().map(|field| &field[..]));
        let sum = checksum(&bytes[128..]);
        bytes[8..12].copy_from_slice(&sum.to_le_bytes());
        let sum = checksum(&bytes[8..128]);
        bytes[4..8].copy_from_slice(&sum.to_le_bytes());
        assert!(GroupHeader::decode(&bytes).is_some_and(|group| group.body_is_intact(&bytes)));
        bytes
    }
}
