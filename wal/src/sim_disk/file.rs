//! The bytes of one simulated file, and which of them a power cut may take back.
//!
//! Owns: what reads show (`live`), and for each sector whose bytes there are not certainly
//! durable, what a crash may leave in it. A sector is written whole or not at all.
//! Does not know: names, requests, completions.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use crate::sim_disk::crash::Survival;

/// What a device writes in one piece.
pub(super) const SECTOR: usize = 512;

type Bytes = Box<[u8; SECTOR]>;

#[derive(Clone, Debug, Default)]
pub(super) struct Contents {
    /// Shared by all disks on which the file has these bytes: a crash leaves most files alone.
    live: Arc<Vec<u8>>,
    /// Length that a crash leaves at least.
    durable_len: usize,
    unsynced: BTreeMap<usize, Sector>,
    /// Bytes that cannot be read any more.
    broken: Vec<Range<usize>>,
}

/// A sector whose content after a crash is open.
#[derive(Clone, Debug)]
struct Sector {
    /// What is there if nothing of `later` survives.
    durable: Bytes,
    /// What was written since, in this order: the last that survives is there.
    later: Vec<Version>,
}

#[derive(Clone, Debug)]
struct Version {
    bytes: Bytes,
    part: Part,
    /// The device reported a failure: no later sync makes it durable.
    doubtful: bool,
}

/// One sector's share of a write.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    /// The write: each has its own number.
    pub(super) write: u64,
    /// This sector, counted from the first of the write.
    pub(super) index: usize,
    /// Sectors of the write.
    pub(super) count: usize,
}

impl Contents {
    /// A file of durable bytes.
    pub(super) fn durable(bytes: Vec<u8>) -> Self {
        Self { durable_len: bytes.len(), live: Arc::new(bytes), ..Self::default() }
    }

    pub(super) fn live(&self) -> &[u8] {
        &self.live
    }

    /// Fills `buffer` from `offset` as far as the file goes.
    pub(super) fn read(&self, buffer: &mut [u8], offset: usize) -> io::Result<usize> {
        let start = offset.min(self.live.len());
        let count = buffer.len().min(self.live.len() - start);
        let wanted = start..start + count;
        if self.broken.iter().any(|bad| bad.start < wanted.end && wanted.start < bad.end) {
            return Err(io::Error::from_raw_os_error(libc::EIO));
        }
        buffer[..count].copy_from_slice(&self.live[wanted]);
        Ok(count)
    }

    /// A write that has reached the device's cache: reads show it, a crash may lose any of it.
    pub(super) fn write(&mut self, write: u64, bytes: &[u8], offset: usize) {
        self.remember(write, bytes, offset, false);
        self.put(bytes, offset);
    }

    /// A write that is durable: what was in its sectors before is gone for good.
    pub(super) fn write_durable(&mut self, bytes: &[u8], offset: usize) {
        self.put(bytes, offset);
        self.durable_len = self.durable_len.max(offset + bytes.len());
        for sector in sectors(bytes.len(), offset) {
            self.unsynced.remove(&sector);
        }
    }

    /// A write that is on its way, or that failed: reads do not show it, a crash may.
    pub(super) fn write_perhaps(&mut self, write: u64, bytes: &[u8], offset: usize) {
        self.remember(write, bytes, offset, true);
    }

    /// A write that reads show, but that was reported as failed: no sync makes it durable.
    pub(super) fn write_doubtful(&mut self, write: u64, bytes: &[u8], offset: usize) {
        self.remember(write, bytes, offset, true);
        self.put(bytes, offset);
    }

    /// Makes all that was written without a failure durable.
    pub(super) fn sync(&mut self) {
        self.durable_len = self.live.len();
        self.unsynced.retain(|_, sector| {
            if let Some(last) = sector.later.iter().rposition(|version| !version.doubtful) {
                let settled = sector.later.drain(..=last).next_back();
                sector.durable = settled.map_or(sector.durable.clone(), |version| version.bytes);
            }
            !sector.later.is_empty()
        });
    }

    /// What was written so far may be lost for good, whatever is synced later.
    pub(super) fn fail_sync(&mut self) {
        for sector in self.unsynced.values_mut() {
            for version in &mut sector.later {
                version.doubtful = true;
            }
        }
    }

    /// Whether a sync would make bytes durable.
    pub(super) fn is_pending(&self) -> bool {
        let pending = |sector: &Sector| sector.later.iter().any(|version| !version.doubtful);
        self.durable_len < self.live.len() || self.unsynced.values().any(pending)
    }

    /// The file after a power cut.
    pub(super) fn after_crash(&self, survival: Survival, file: usize) -> Self {
        let len = if survival.keeps_length(file) { self.live.len() } else { self.durable_len };
        if self.unsynced.is_empty() && len == self.live.len() {
            let (live, broken) = (Arc::clone(&self.live), self.broken.clone());
            return Self { live, durable_len: len, broken, ..Self::default() };
        }
        let mut bytes = Vec::clone(&self.live);
        bytes.resize(len, 0);
        for (at, sector) in &self.unsynced {
            let survivor = sector.later.iter().rfind(|version| survival.keeps(version.part));
            let left = survivor.map_or(&sector.durable, |version| &version.bytes);
            let start = (at * SECTOR).min(bytes.len());
            let end = (start + SECTOR).min(bytes.len());
            bytes[start..end].copy_from_slice(&left[..end - start]);
        }
        Self { broken: self.broken.clone(), ..Self::durable(bytes) }
    }

    fn put(&mut self, bytes: &[u8], offset: usize) {
        let end = offset + bytes.len();
        let live = Arc::make_mut(&mut self.live);
        if end > live.len() {
            live.resize(end, 0);
        }
        live[offset..end].copy_from_slice(bytes);
    }

    /// Adds a version to each sector of a write, before `live` changes.
    fn remember(&mut self, write: u64, bytes: &[u8], offset: usize, doubtful: bool) {
        let touched = sectors(bytes.len(), offset);
        let count = touched.len();
        for ((index, at), piece) in touched.enumerate().zip(bytes.chunks(SECTOR)) {
            let durable = self.sector(at);
            let sector = self.unsynced.entry(at).or_insert_with(|| Sector::new(durable));
            let part = Part { write, index, count };
            sector.later.push(Version { bytes: padded(piece), part, doubtful });
        }
    }

    fn sector(&self, at: usize) -> Bytes {
        let start = (at * SECTOR).min(self.live.len());
        padded(&self.live[start..(start + SECTOR).min(self.live.len())])
    }
}

/// Damage from outside: durable at once, whatever else happens.
impl Contents {
    /// Replaces bytes on the medium, in all that a crash may leave there too.
    pub(super) fn damage(&mut self, offset: usize, change: impl Fn(&mut u8)) {
        change(&mut Arc::make_mut(&mut self.live)[offset]);
        if let Some(sector) = self.unsynced.get_mut(&(offset / SECTOR)) {
            change(&mut sector.durable[offset % SECTOR]);
            for version in &mut sector.later {
                change(&mut version.bytes[offset % SECTOR]);
            }
        }
    }

    pub(super) fn cut(&mut self, len: usize) {
        Arc::make_mut(&mut self.live).truncate(len);
        self.durable_len = self.live.len();
        self.unsynced.retain(|at, _| at * SECTOR < len);
    }

    /// Reads of these bytes fail from now on.
    pub(super) fn break_bytes(&mut self, bytes: Range<usize>) {
        self.broken.push(bytes);
    }
}

impl Sector {
    fn new(durable: Bytes) -> Self {
        Self { durable, later: Vec::new() }
    }
}

/// Sectors that a write of `len` bytes at `offset`, the start of a sector, touches.
fn sectors(len: usize, offset: usize) -> Range<usize> {
    assert!(offset.is_multiple_of(SECTOR), "writes start on a sector");
    offset / SECTOR..(offset + len).div_ceil(SECTOR)
}

fn padded(bytes: &[u8]) -> Bytes {
    let mut sector = Box::new([0; SECTOR]);
    sector[..bytes.len()].copy_from_slice(bytes);
    sector
}
