//! Records that were committed before: in the log, and in cold files where the log does not reach
//! back any more; and queues that stayed in an image.
//!
//! Owns: where a record is read. It may move from the log to a cold file at any moment.

use std::collections::VecDeque;
use std::sync::{Arc, PoisonError, RwLock};

use zzq_engine::image::UntouchedReader;
use zzq_engine::session::Untouched;
use zzq_engine::{Record, SessionNumber};
use zzq_snapshot::{ColdFile, Volume};
use zzq_types::Lsn;
use zzq_wal::disk::Disk;
use zzq_wal::{Log, ReadError, ReadRecord, Reader};

use super::untouched;

type Files<D> = Vec<Arc<ColdFile<<D as Disk>::File>>>;
type Volumes<D> = Vec<Volume<<D as Disk>::File>>;

/// See the file. Clones are the same.
#[derive(Debug)]
pub(crate) struct Past<D: Disk> {
    log: Log<D>,
    /// The newest last.
    cold: Arc<RwLock<Files<D>>>,
    /// Those that are kept, the newest last.
    images: Arc<RwLock<Volumes<D>>>,
}

impl<D: Disk> Clone for Past<D> {
    fn clone(&self) -> Self {
        let (cold, images) = (Arc::clone(&self.cold), Arc::clone(&self.images));
        Self { log: self.log.clone(), cold, images }
    }
}

impl<D: Disk> Past<D> {
    pub(super) fn new(log: Log<D>, cold: Files<D>, images: Volumes<D>) -> Self {
        Self { log, cold: Arc::new(RwLock::new(cold)), images: Arc::new(RwLock::new(images)) }
    }

    /// What there is of images now.
    pub(super) fn set_images(&self, images: Volumes<D>) {
        *self.images.write().unwrap_or_else(PoisonError::into_inner) = images;
    }

    /// Reads the part of a session's queue that stayed in an image. Each image since has it.
    pub(crate) fn read_untouched(
        &self,
        session: SessionNumber,
        front: Untouched,
    ) -> Result<UntouchedReader, String> {
        let images = self.images.read().unwrap_or_else(PoisonError::into_inner).clone();
        let mut failed = None;
        for image in images.iter().rev() {
            match untouched::read(image, session, front) {
                Ok(read) => return Ok(read),
                Err(error) => failed = failed.or_else(|| Some(error.to_string())),
            }
        }
        Err(failed.unwrap_or_else(|| "there is no image".to_owned()))
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
        visit: impl FnMut(Lsn, u64, &Record<'_>) -> Result<(), String>,
    ) -> Result<(), String> {
        self.read_with(&mut Places::default(), lsns, visit)
    }

    /// As [`Past::read`], going on from one of these places if the first record is near.
    pub(crate) fn read_with(
        &self,
        places: &mut Places<D>,
        lsns: &[Lsn],
        mut visit: impl FnMut(Lsn, u64, &Record<'_>) -> Result<(), String>,
    ) -> Result<(), String> {
        let mut rest = lsns;
        // What is in cold files takes no place. The log begins later meanwhile, never earlier.
        let begins = self.first_in_log();
        let in_log = lsns.iter().find(|lsn| **lsn >= begins);
        let mut in_log = in_log.map(|lsn| places.near(&self.log, *lsn));
        while let Some(&lsn) = rest.first() {
            if let Some(in_log) = in_log.as_mut().filter(|_| lsn >= self.first_in_log()) {
                match in_log.read(lsn) {
                    Ok(Some(found)) => {
                        let record = Record::decode(found.kind, found.body);
                        let record = record.map_err(|error| format!("record {lsn}: {error}"))?;
                        visit(lsn, found.time_ms, &record)?;
                        rest = &rest[1..];
                        continue;
                    }
                    Ok(None) => return Err(format!("record {lsn} is not committed")),
                    // It has moved meanwhile.
                    Err(ReadError::Trimmed { .. }) if self.cold_file(lsn).is_some() => {}
                    Err(error) => return Err(error.to_string()),
                }
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

    /// The first record that the log holds. What it has in front of records that it has whole was
    /// let go: that segment is there for others that begin in it.
    fn first_in_log(&self) -> Lsn {
        Lsn::new(self.log.first_whole().get())
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

/// Places in the log where reading may go on: whoever reads a queue in parts reads on. While one is
/// kept the segment that it is in is, too.
pub(crate) struct Places<D: Disk>(VecDeque<Skipping<D>>);

/// More would be kept for readers that have long gone elsewhere.
const PLACES: usize = 4;

impl<D: Disk> Default for Places<D> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

impl<D: Disk> Places<D> {
    /// Lets all of them go.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// The place from which this record is near, or a new one instead of the one unused longest.
    fn near(&mut self, log: &Log<D>, lsn: Lsn) -> &mut Skipping<D> {
        let lsn = zzq_wal::Lsn::new(lsn.get());
        let found = self.0.iter().position(|place| place.is_near(lsn));
        let place = found.and_then(|at| self.0.remove(at));
        // The one that was used longest ago makes room.
        self.0.truncate(PLACES - 1);
        let place = place.unwrap_or_else(|| Skipping::new(log.clone()));
        self.0.push_front(place);
        &mut self.0[0]
    }
}

/// Reads some records of the log, ascending.
pub(super) struct Skipping<D: Disk> {
    log: Log<D>,
    reader: Option<Reader<D>>,
}

impl<D: Disk> Skipping<D> {
    pub(super) const fn new(log: Log<D>) -> Self {
        Self { log, reader: None }
    }

    /// Whether reading on is a short way to this record.
    fn is_near(&self, lsn: zzq_wal::Lsn) -> bool {
        self.reader.as_ref().is_some_and(|reader| {
            let next = reader.next_lsn();
            next <= lsn && lsn.get() - next.get() <= SKIP_MAX
        })
    }

    /// The record; `None` if it is not committed yet.
    pub(super) fn read(&mut self, lsn: Lsn) -> Result<Option<ReadRecord<'_>>, ReadError> {
        let lsn = zzq_wal::Lsn::new(lsn.get());
        if !self.is_near(lsn) || !self.reads_on_to(lsn)? {
            self.reader = Some(self.log.reader(lsn)?);
        }
        let Some(reader) = &mut self.reader else { return Ok(None) };
        reader.next_record()
    }

    /// Passes over what lies in front of a record; false if some of that is not there. Nobody asks
    /// for it, so it may have been let go.
    fn reads_on_to(&mut self, lsn: zzq_wal::Lsn) -> Result<bool, ReadError> {
        let Some(reader) = &mut self.reader else { return Ok(false) };
        while reader.next_lsn() < lsn {
            match reader.next_record() {
                Ok(Some(_)) => {}
                Ok(None) | Err(ReadError::Trimmed { .. }) => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }
}
