//! Records that were committed before: in the log, and in cold files where the log does not reach
//! back any more.
//!
//! Owns: where a record is read. It may move from the log to a cold file at any moment.

use std::sync::{Arc, PoisonError, RwLock};

use zzq_engine::Record;
use zzq_snapshot::ColdFile;
use zzq_types::Lsn;
use zzq_wal::disk::Disk;
use zzq_wal::{Log, ReadError, ReadRecord, Reader};

type Files<D> = Vec<Arc<ColdFile<<D as Disk>::File>>>;

/// See the file. Clones are the same.
#[derive(Debug)]
pub(crate) struct Past<D: Disk> {
    log: Log<D>,
    /// The newest last.
    cold: Arc<RwLock<Files<D>>>,
}

impl<D: Disk> Clone for Past<D> {
    fn clone(&self) -> Self {
        Self { log: self.log.clone(), cold: Arc::clone(&self.cold) }
    }
}

impl<D: Disk> Past<D> {
    pub(super) fn new(log: Log<D>, cold: Files<D>) -> Self {
        Self { log, cold: Arc::new(RwLock::new(cold)) }
    }

    /// What there is of cold files now.
    pub(super) fn set_cold(&self, files: Files<D>) {
        *self.cold.write().unwrap_or_else(PoisonError::into_inner) = files;
    }

    /// Calls `visit` with each of these records, ascending, and its log time; ends at the first
    /// that cannot be read.
    pub(crate) fn read(
        &self,
        lsns: &[Lsn],
        mut visit: impl FnMut(Lsn, u64, &Record<'_>) -> Result<(), String>,
    ) -> Result<(), String> {
        let mut in_log = Skipping::new(self.log.clone());
        let mut rest = lsns;
        while let Some(&lsn) = rest.first() {
            if lsn >= self.first_in_log() {
                match in_log.read(lsn) {
                    Ok(Some(found)) => {
                        let record = Record::decode(found.kind, found.body);
                        let record = record.map_err(|error| format!("record {lsn}: {error}"))?;
                        visit(lsn, found.time_ms, &record)?;
                        rest = &rest[1..];
                    }
                    Ok(None) => return Err(format!("record {lsn} is not committed")),
                    // It has moved meanwhile.
                    Err(ReadError::Trimmed { .. }) if lsn < self.first_in_log() => {}
                    Err(error) => return Err(error.to_string()),
                }
                continue;
            }
            let Some(file) = self.cold_file(lsn) else {
                return Err(format!("record {lsn} is nowhere"));
            };
            let mut reader = file.reader();
            while let Some(&lsn) = rest.first() {
                let found = reader.read(zzq_wal::Lsn::new(lsn.get()));
                let Some(found) = found.map_err(|error| error.to_string())? else { break };
                let record = Record::decode(found.kind, found.body);
                let record = record.map_err(|error| format!("record {lsn}: {error}"))?;
                visit(lsn, found.time_ms, &record)?;
                rest = &rest[1..];
            }
        }
        Ok(())
    }

    /// The first record that the log holds.
    fn first_in_log(&self) -> Lsn {
        self.log.first_kept().map_or(Lsn::ZERO, |first| Lsn::new(first.get()))
    }

    /// The newest cold file that has this record.
    fn cold_file(&self, lsn: Lsn) -> Option<Arc<ColdFile<D::File>>> {
        let lsn = zzq_wal::Lsn::new(lsn.get());
        let files = self.cold.read().unwrap_or_else(PoisonError::into_inner);
        files.iter().rfind(|file| file.contains(lsn)).cloned()
    }
}

/// Records that are read and thrown away rather than looked for anew.
const SKIP_MAX: u64 = 256;

/// Reads some records of the log, ascending.
pub(super) struct Skipping<D: Disk> {
    log: Log<D>,
    reader: Option<Reader<D>>,
}

impl<D: Disk> Skipping<D> {
    pub(super) const fn new(log: Log<D>) -> Self {
        Self { log, reader: None }
    }

    /// The record; `None` if it is not committed yet.
    pub(super) fn read(&mut self, lsn: Lsn) -> Result<Option<ReadRecord<'_>>, ReadError> {
        let lsn = zzq_wal::Lsn::new(lsn.get());
        let near = |reader: &Reader<D>| {
            let next = reader.next_lsn();
            next <= lsn && lsn.get() - next.get() <= SKIP_MAX
        };
        if !self.reader.as_ref().is_some_and(near) {
            self.reader = Some(self.log.reader(lsn)?);
        }
        let Some(reader) = &mut self.reader else { return Ok(None) };
        while reader.next_lsn() < lsn {
            if reader.next_record()?.is_none() {
                return Ok(None);
            }
        }
        reader.next_record()
    }
}
