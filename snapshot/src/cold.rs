//! Cold files: records that outlived their segments, by LSN.
//!
//! Owns: what stands in one, which of them hold a record, which may go. What a record's body means
//! is nobody's matter here. A record may be in several: then it is the same in all.
//! Does not know: why a record is kept.

mod set;

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;

use zzq_wal::Lsn;
use zzq_wal::disk::{Disk, DiskFile};
use zzq_wal::format::field::{put, u64_at};
use zzq_wal::format::segment::Identity;

use self::set::{LsnSet, block_from};
use crate::attempts::Attempts;
use crate::error::{ReadError, WriteError};
use crate::format::{Heading, Kind};
use crate::names::Listing;
use crate::pace::{Pace, at_full_speed};
use crate::seek::Cursor;
use crate::volume::Volume;
use crate::writer::Writer;

/// Records by LSN.
const RECORDS: u16 = 1;
/// Which LSNs these are, in blocks: to know without reading records.
const LSNS: u16 = 2;

const HEAD_LEN: usize = 9;

/// A record of a cold file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColdRecord<'a> {
    /// Its place in the log.
    pub lsn: Lsn,
    /// Log time of its group in ms.
    pub time_ms: u64,
    /// As it was staged.
    pub kind: u8,
    /// As it was staged.
    pub body: &'a [u8],
}

/// A cold file that is being written.
pub struct ColdWriter<'w, D: Disk> {
    writer: Writer<'w, D>,
    lsns: LsnSet,
    value: Vec<u8>,
}

impl<'w, D: Disk> ColdWriter<'w, D> {
    /// Begins one, aside.
    ///
    /// # Panics
    /// If the heading is that of something else.
    pub fn begin(disk: &'w D, heading: Heading, pace: Pace<'w>) -> Result<Self, WriteError> {
        assert_eq!(heading.kind, Kind::Cold, "records go to cold files");
        let writer = Writer::begin(disk, heading, pace)?;
        Ok(Self { writer, lsns: LsnSet::default(), value: Vec::new() })
    }

    /// Adds the next record.
    ///
    /// # Panics
    /// If its LSN is not above the last.
    pub fn record(&mut self, record: ColdRecord<'_>) -> Result<(), WriteError> {
        let ColdRecord { lsn, time_ms, kind, body } = record;
        self.value.clear();
        self.value.resize(HEAD_LEN, 0);
        put(&mut self.value, 0, &time_ms.to_le_bytes());
        self.value[8] = kind;
        self.value.extend_from_slice(body);
        self.lsns.push(lsn);
        self.writer.entry(RECORDS, &lsn.get().to_be_bytes(), &self.value)
    }

    /// Ends it, as [`Writer::finish`].
    pub fn finish(mut self) -> Result<ColdFile<D::File>, WriteError> {
        for (first, deltas) in self.lsns.blocks() {
            self.writer.entry(LSNS, &first.to_be_bytes(), deltas)?;
        }
        Ok(ColdFile { volume: self.writer.finish()?, lsns: self.lsns })
    }
}

/// A cold file, and which records it has.
#[derive(Debug)]
pub struct ColdFile<F> {
    volume: Volume<F>,
    lsns: LsnSet,
}

impl<F: DiskFile> ColdFile<F> {
    /// Opens the cold file of this number, and reads which records it has.
    pub fn open<D: Disk<File = F>>(disk: &D, number: u64) -> Result<Self, ReadError> {
        let volume = Volume::open(disk, Kind::Cold, number)?;
        let mut lsns = LsnSet::default();
        let mut entries = volume.entries(|section| section == LSNS, at_full_speed());
        while let Some(entry) = entries.next_entry()? {
            let block = block_from(entry.key, entry.value);
            if !block.is_some_and(|block| lsns.add(block)) {
                let reason = "it names records that no writer names";
                return Err(volume.damage(entries.offset(), reason).into());
            }
        }
        let records = volume.sections().find(|section| section.section == RECORDS);
        if records.map_or(0, |section| section.entries) != lsns.len() {
            let reason = "it names other records than it has";
            return Err(volume.damage(volume.size() - crate::format::OUTER, reason).into());
        }
        Ok(Self { volume, lsns })
    }

    /// The file as a volume.
    pub const fn volume(&self) -> &Volume<F> {
        &self.volume
    }

    /// Its number.
    pub const fn number(&self) -> u64 {
        self.volume.heading().number
    }

    /// How many records it has.
    pub const fn len(&self) -> u64 {
        self.lsns.len()
    }

    /// Whether it has none.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Which records it has, ascending; reads nothing.
    pub fn lsns(&self) -> impl Iterator<Item = Lsn> {
        self.lsns.iter()
    }

    /// Whether it has this record; reads nothing.
    pub fn contains(&self, lsn: Lsn) -> bool {
        self.lsns.contains(lsn)
    }

    /// Reads records, of which ascending LSNs are asked for.
    pub const fn reader(&self) -> ColdReader<'_, F> {
        ColdReader { file: self, cursor: None, next: Lsn::ZERO, found: (0, 0), body: Vec::new() }
    }
}

/// Reads records of one cold file.
pub struct ColdReader<'c, F> {
    file: &'c ColdFile<F>,
    cursor: Option<Cursor<'c, F>>,
    /// The cursor is behind all records below.
    next: Lsn,
    found: (u64, u8),
    body: Vec<u8>,
}

/// Records that are passed over rather than sought anew.
const PASS_MAX: usize = 32;

impl<F: DiskFile> ColdReader<'_, F> {
    /// The record; `None` if the file does not have it.
    pub fn read(&mut self, lsn: Lsn) -> Result<Option<ColdRecord<'_>>, ReadError> {
        if !self.file.contains(lsn) {
            return Ok(None);
        }
        if lsn < self.next || !self.step_to(lsn)? {
            self.cursor = Some(self.file.volume.seek(RECORDS, &lsn.get().to_be_bytes())?);
            if !self.step_to(lsn)? {
                return Err(self.broken(lsn));
            }
        }
        let (time_ms, kind) = self.found;
        Ok(Some(ColdRecord { lsn, time_ms, kind, body: &self.body }))
    }

    /// Goes on to the record, past few others; `false`: it is not so near.
    fn step_to(&mut self, lsn: Lsn) -> Result<bool, ReadError> {
        let Some(cursor) = &mut self.cursor else { return Ok(false) };
        for _ in 0..PASS_MAX {
            let Some(entry) = cursor.next_entry()? else { return Ok(false) };
            let Some((found, time_ms, kind)) = head(entry.key, entry.value) else {
                return Err(self.broken(lsn));
            };
            if found >= lsn {
                self.body.clear();
                self.body.extend_from_slice(&entry.value[HEAD_LEN..]);
                (self.found, self.next) = ((time_ms, kind), found.next());
                return Ok(found == lsn);
            }
        }
        Ok(false)
    }

    /// Its two sections contradict one another, both intact.
    fn broken(&self, lsn: Lsn) -> ReadError {
        self.file.volume.damage(0, format!("it says that it has {lsn}, and has not")).into()
    }
}

fn head(key: &[u8], value: &[u8]) -> Option<(Lsn, u64, u8)> {
    let lsn = u64::from_be_bytes(key.try_into().ok()?);
    let head = value.get(..HEAD_LEN)?;
    Some((Lsn::new(lsn), u64_at(head, 0), head[8]))
}

/// The cold files of a log.
#[derive(Debug)]
pub struct ColdShelf<F> {
    /// The newest last.
    files: Vec<Arc<ColdFile<F>>>,
    /// Names that go with the next [`retire`](Self::retire).
    surplus: Vec<String>,
    attempts: Attempts,
    next: u64,
}

impl<F: DiskFile> ColdShelf<F> {
    /// Opens the cold files that are `there`. Those that are needed, by their numbers, are there
    /// and of this log, or it fails. Others stay until [`retire`](Self::retire) hears that they are
    /// not needed: a late decision behind an image may name what only the state before it had. What
    /// is wrong with others is returned: a damaged one goes with the next `retire`, one that cannot
    /// be read is left alone. `used` is the highest number that any file has had, of those, too,
    /// that are gone.
    pub fn open<D: Disk<File = F>>(
        disk: &D,
        there: &Listing,
        identity: &Identity,
        needed: &[u64],
        used: u64,
    ) -> Result<(Self, Vec<ReadError>), ReadError> {
        let numbers: BTreeSet<u64> = there.cold().iter().chain(needed).copied().collect();
        let newest = numbers.iter().chain(there.unstated_cold()).copied().max();
        let next = newest.unwrap_or(0).max(used).saturating_add(1);
        let attempts = Attempts::of_before(Kind::Cold, there.unstated_cold());
        let mut shelf = Self { files: Vec::new(), surplus: Vec::new(), attempts, next };
        let mut passed = Vec::new();
        for number in numbers {
            match open_own(disk, number, identity) {
                Ok(file) => shelf.files.push(file),
                Err(error) if needed.contains(&number) => return Err(error),
                Err(error @ ReadError::Version { .. }) => return Err(error),
                Err(error) => {
                    if matches!(error, ReadError::Damage(_)) {
                        shelf.surplus.push(Kind::Cold.name(number));
                    }
                    passed.push(error);
                }
            }
        }
        Ok((shelf, passed))
    }

    /// The highest number that was given to any file. It has to be kept where a start finds it
    /// before a file goes: an image that comes back must not find another file under the number of
    /// one that it needs.
    pub const fn last_number(&self) -> u64 {
        self.next - 1
    }

    /// The files, the newest last.
    pub fn files(&self) -> &[Arc<ColdFile<F>>] {
        &self.files
    }

    /// The newest file that has this record.
    pub fn find(&self, lsn: Lsn) -> Option<&Arc<ColdFile<F>>> {
        self.files.iter().rfind(|file| file.contains(lsn))
    }

    /// A number for the next file, used from now on whatever becomes of it.
    pub fn take_number(&mut self) -> u64 {
        let number = self.next;
        self.next += 1;
        self.attempts.begin(Kind::Cold.name(number));
        number
    }

    /// Removes what is left of files that were begun and not taken, durably. It has to be done
    /// before their numbers are stated: a start takes the files up to there.
    pub fn clear<D: Disk<File = F>>(&mut self, disk: &D) -> Result<(), WriteError> {
        self.attempts.clear(disk)
    }

    /// Takes a file that was finished.
    pub fn admit(&mut self, file: ColdFile<F>) {
        self.attempts.take(file.volume.name());
        self.files.push(Arc::new(file));
    }

    /// Removes the files that are not needed, durably; says which. Who reads one still can.
    pub fn retire<D: Disk<File = F>>(
        &mut self,
        disk: &D,
        is_needed: impl Fn(u64) -> bool,
    ) -> io::Result<Vec<String>> {
        let gone = self.files.extract_if(.., |file| !is_needed(file.number()));
        self.surplus.extend(gone.map(|file| file.volume.name().to_owned()));
        remove_all(disk, &mut self.surplus)
    }
}

fn open_own<D: Disk>(
    disk: &D,
    number: u64,
    identity: &Identity,
) -> Result<Arc<ColdFile<D::File>>, ReadError> {
    let file = ColdFile::open(disk, number)?;
    if file.volume.heading().identity.log != identity.log {
        return Err(file.volume.damage(0, "it is of another log").into());
    }
    Ok(Arc::new(file))
}

/// Removes these names, as far as they are there, and makes that durable.
pub(crate) fn remove_all<D: Disk>(disk: &D, names: &mut Vec<String>) -> io::Result<Vec<String>> {
    let mut gone = Vec::new();
    let failed_syncs = disk.failed_syncs();
    while let Some(name) = names.last() {
        match disk.remove(name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => drop(names.pop()),
            removed => {
                removed?;
                gone.extend(names.pop());
            }
        }
    }
    if !gone.is_empty() {
        disk.sync_names(failed_syncs)?;
    }
    Ok(gone)
}
