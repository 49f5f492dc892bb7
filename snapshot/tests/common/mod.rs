//! Volumes of random entries on a simulated disk.
#![allow(dead_code, unreachable_pub, reason = "each test file uses its part")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "it is only part of tests")]

pub mod life;

use std::collections::BTreeMap;

use zzq_snapshot::{
    Heading, Kind, Need, NeededKind, ReadError, Volume, WriteError, Writer, at_full_speed,
};
use zzq_wal::Lsn;
use zzq_wal::disk::Disk;
use zzq_wal::format::segment::Identity;
use zzq_wal::sim_disk::{SimDisk, SimFile};

/// What a volume holds.
pub type Content = BTreeMap<(u16, Vec<u8>), Vec<u8>>;

pub const IDENTITY: Identity = Identity { log: [7; 16], cluster: [0; 16], node: 0 };

/// Nodes so short that few entries make a deep tree.
pub const SHORT: usize = 120;

/// The same numbers for the same seed.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) % bound
    }

    pub fn bytes(&mut self, most: u64) -> Vec<u8> {
        (0..self.below(most + 1)).map(|_| u8::try_from(self.below(256)).unwrap()).collect()
    }
}

/// Entries of three sections, some of whose keys have much in common.
pub fn content(seed: u64, count: u64) -> Content {
    let mut random = Random::new(seed);
    (0..count)
        .map(|_| {
            let section = [1, 2, 40][usize::try_from(random.below(3)).unwrap()];
            let mut key = format!("site/{}/device/", random.below(9)).into_bytes();
            key.extend(random.bytes(4));
            ((section, key), random.bytes(20))
        })
        .collect()
}

pub fn heading(number: u64, lsn: u64) -> Heading {
    let (lsn, time_ms) = (Lsn::new(lsn), 1_700_000_000_000 + lsn);
    let before = (number > 1).then(|| (number - 1, Lsn::new(lsn.get() / 2)));
    Heading { number, lsn, time_ms, before, ..Heading::new(Kind::Image, IDENTITY) }
}

/// The cold file that images need here.
pub const COLD: u64 = 1;

pub fn needs() -> Vec<Need> {
    let need = |kind, number| Need {
        kind,
        number,
        first: Lsn::new(number * 10),
        last: Lsn::new(number * 10 + 5),
        references: number,
        bytes: number * 1000,
    };
    vec![need(NeededKind::Segment, 3), need(NeededKind::Segment, 4), need(NeededKind::Cold, COLD)]
}

pub fn write<D: Disk>(
    disk: &D,
    heading: Heading,
    content: &Content,
    node_size: usize,
) -> Result<Volume<D::File>, WriteError> {
    let mut writer = Writer::begin_with(disk, heading, node_size, at_full_speed())?;
    for ((section, key), value) in content {
        writer.entry(*section, key, value)?;
    }
    writer.finish_with(&needs())
}

/// A disk with image 1 of such content.
pub fn disk_with(content: &Content) -> (SimDisk, Volume<SimFile>) {
    let disk = SimDisk::new();
    let volume = write(&disk, heading(1, 100), content, SHORT).unwrap();
    (disk, volume)
}

pub fn read<F: zzq_wal::disk::DiskFile>(volume: &Volume<F>) -> Result<Content, ReadError> {
    let mut content = Content::new();
    let mut entries = volume.entries(|_| true, at_full_speed());
    while let Some(entry) = entries.next_entry()? {
        content.insert((entry.section, entry.key.to_vec()), entry.value.to_vec());
    }
    Ok(content)
}

/// The parts of a volume that are named when they are damaged: where each begins and ends.
pub fn units(disk: &SimDisk, name: &str) -> Vec<(u64, u64)> {
    let bytes = disk.bytes(name).unwrap();
    let field = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let mut units = vec![(0, 4096)];
    let mut at = 4096;
    while bytes[at..].starts_with(b"ZQND") {
        let end = at + usize::try_from(field(at + 8)).unwrap();
        units.push((at as u64, end as u64));
        at = end;
    }
    let last = bytes.len() as u64 - 4096;
    units.extend((at as u64..last).map(|at| (at, at + 1)));
    units.push((last, last + 4096));
    units
}
