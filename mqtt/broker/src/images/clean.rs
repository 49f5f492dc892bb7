//! The cleaner: what is alive of the old part of the log goes to a cold file, so that the log can
//! be let go; what is alive of cold files that are mostly dead goes along.
//!
//! Owns: what moves where. Assumes: each record named is in the log, or in a cold file.

use std::collections::BTreeMap;
use std::sync::Arc;

use zzq_snapshot::{
    ColdFile, ColdReader, ColdRecord, ColdShelf, ColdWriter, Heading, Need, NeededKind, Pace,
};
use zzq_wal::disk::{Disk, DiskFile};
use zzq_wal::{Log, Lsn};

use super::make::MakeError;
use super::needs::{Old, count, empty};
use super::past::Skipping;

/// With more files than this the smallest are joined.
const FILES_MAX: usize = 8;

/// What is alive of a cold file.
#[derive(Clone, Copy, Debug)]
struct Alive {
    need: Need,
    records: u64,
}

/// What the cleaner has done.
#[derive(Debug, Default)]
pub(super) struct Cleaned {
    /// Cold files that are needed.
    pub(super) needs: Vec<Need>,
    /// Records that were moved.
    pub(super) moved: u64,
    /// Records that are named and nowhere.
    pub(super) gone: u64,
}

/// Brings all `old` records into cold files, as far as they are in none. A new file is like
/// `heading`.
pub(super) fn clean<D: Disk>(
    log: &Log<D>,
    cold: &mut ColdShelf<D::File>,
    old: &[Old],
    heading: Heading,
    pace: Pace<'_>,
) -> Result<Cleaned, MakeError> {
    let mut alive = BTreeMap::new();
    let homes: Vec<Option<u64>> = old.iter().map(|old| home(cold, old, &mut alive)).collect();
    let emptied = emptied(cold, &alive);
    alive.retain(|number, _| !emptied.contains(number));
    let moves = |home: &Option<u64>| home.is_none_or(|number| emptied.contains(&number));
    let needs = alive.values().map(|alive| alive.need).collect();
    let mut cleaned = Cleaned { needs, ..Cleaned::default() };
    if !homes.iter().any(moves) {
        return Ok(cleaned);
    }
    let number = cold.take_number();
    let heading = Heading { number, before: None, ..heading };
    let mut writer = ColdWriter::begin(&**log.disk(), heading, pace)?;
    let mut sources = Sources::new(log, cold.files());
    let mut need = empty(NeededKind::Cold, number);
    for (old, home) in old.iter().zip(&homes).filter(|(_, home)| moves(home)) {
        let Some(bytes) = sources.copy(old.lsn, *home, &mut writer)? else {
            cleaned.gone += 1;
            continue;
        };
        cleaned.moved += 1;
        count(&mut need, *old);
        if pace(bytes).is_break() {
            return Err(MakeError::Stopped);
        }
    }
    drop(sources);
    if cleaned.moved > 0 {
        cold.admit(writer.finish()?);
        cleaned.needs.push(need);
    }
    Ok(cleaned)
}

/// The newest cold file with this record, which is alive there.
fn home<F: DiskFile>(
    cold: &ColdShelf<F>,
    old: &Old,
    alive: &mut BTreeMap<u64, Alive>,
) -> Option<u64> {
    let number = cold.find(old.lsn)?.number();
    let need = empty(NeededKind::Cold, number);
    let alive = alive.entry(number).or_insert(Alive { need, records: 0 });
    count(&mut alive.need, *old);
    alive.records += 1;
    Some(number)
}

/// Files that are given up: mostly dead ones, and the smallest of too many.
fn emptied<F: DiskFile>(cold: &ColdShelf<F>, alive: &BTreeMap<u64, Alive>) -> Vec<u64> {
    let records = |number: u64| alive.get(&number).map_or(0, |alive| alive.records);
    let files = cold.files().iter().filter(|file| records(file.number()) > 0);
    let (mut emptied, mut kept): (Vec<_>, Vec<_>) =
        files.partition(|file| records(file.number()) < file.len() / 2);
    if kept.len() >= FILES_MAX {
        kept.sort_by_key(|file| file.len());
        emptied.extend(kept.drain(..=FILES_MAX / 2));
    }
    emptied.into_iter().map(|file| file.number()).collect()
}

/// Where records are copied from.
struct Sources<'s, D: Disk> {
    log: Skipping<D>,
    cold: BTreeMap<u64, ColdReader<'s, D::File>>,
}

impl<'s, D: Disk> Sources<'s, D> {
    fn new(log: &Log<D>, files: &'s [Arc<ColdFile<D::File>>]) -> Self {
        let cold = files.iter().map(|file| (file.number(), file.reader())).collect();
        Self { log: Skipping::new(log.clone()), cold }
    }

    /// Copies a record from the log, or from the cold file of this number; returns its length,
    /// `None` if it is not there.
    fn copy(
        &mut self,
        lsn: Lsn,
        home: Option<u64>,
        writer: &mut ColdWriter<'_, D>,
    ) -> Result<Option<usize>, MakeError> {
        let record = match home.and_then(|number| self.cold.get_mut(&number)) {
            Some(reader) => reader.read(lsn)?,
            None => self.of_log(lsn)?,
        };
        let Some(record) = record else { return Ok(None) };
        writer.record(record)?;
        Ok(Some(record.body.len()))
    }

    fn of_log(&mut self, lsn: Lsn) -> Result<Option<ColdRecord<'_>>, MakeError> {
        match self.log.read(zzq_types::Lsn::new(lsn.get())) {
            Ok(found) => Ok(found.map(|found| ColdRecord {
                lsn,
                time_ms: found.time_ms,
                kind: found.kind,
                body: found.body,
            })),
            Err(zzq_wal::ReadError::Trimmed { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}
