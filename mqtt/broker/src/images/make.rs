//! Making an image: the one before and the log since, merged, with memory for what the log since
//! has touched.
//!
//! Owns: the order of the steps, from the first read to the last name that goes. Reads what is
//! committed and durable only, so it needs nothing of the lanes but to know how far they are.

use std::cell::RefCell;
use std::io;
use std::ops::ControlFlow;

use thiserror::Error;
use zzq_engine::image::{ImageError, Loader, Select, Touched, write};
use zzq_engine::{NoEffects, Record, RecordError, Shard, State};
use zzq_snapshot::{
    ColdShelf, Entry, Heading, Kind, Merge, MergeError, NeededKind, Pace, ReadError, Shelf,
    ShelfError, Volume, WriteError,
};
use zzq_types::Lsn;
use zzq_wal::disk::Disk;
use zzq_wal::{KeptSegment, Log};

use super::clean::{Cleaned, clean};
use super::needs::Needs;
use super::past::Past;
use super::{CONTENTS, section_of};

/// Why there is no new image. The ones before are as they were.
#[derive(Debug, Error)]
pub(crate) enum MakeError {
    /// The log could not be read.
    #[error(transparent)]
    Log(#[from] zzq_wal::ReadError),
    /// A record that this program wrote or took at its start is none of ours.
    #[error("record {0}: {1}")]
    Record(zzq_wal::Lsn, RecordError),
    /// The entries of the image before make no state.
    #[error("{0}: {1}")]
    State(String, ImageError),
    /// The image before could not be read, or the new one not written.
    #[error(transparent)]
    Volume(MergeError),
    /// `meta` could not be written: the log is read-only.
    #[error("marking the image: {0}")]
    Mark(io::Error),
    /// Older images or cold files could not be removed: nothing was trimmed.
    #[error(transparent)]
    Shelf(ShelfError),
    /// Its [`Pace`] has given it up.
    #[error("making the image was given up")]
    Stopped,
}

impl MakeError {
    /// Whether there was no space for it.
    pub(crate) fn is_full(&self) -> bool {
        matches!(self, Self::Volume(MergeError::Write(error)) if error.is_full())
    }
}

impl From<MergeError> for MakeError {
    fn from(error: MergeError) -> Self {
        match error {
            MergeError::Read(ReadError::Stopped) | MergeError::Write(WriteError::Stopped) => {
                Self::Stopped
            }
            error => Self::Volume(error),
        }
    }
}

impl From<ReadError> for MakeError {
    fn from(error: ReadError) -> Self {
        MergeError::Read(error).into()
    }
}

impl From<WriteError> for MakeError {
    fn from(error: WriteError) -> Self {
        MergeError::Write(error).into()
    }
}

/// An image that was made and marked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Made {
    pub(crate) number: u64,
    /// The last record that it covers.
    pub(crate) lsn: Lsn,
    /// Of its file.
    pub(crate) bytes: u64,
    /// Records since the one before.
    pub(crate) records: u64,
    /// The log has to go back to this record, for the two images that are kept.
    pub(crate) first_needed: Lsn,
    /// What lies before is let go.
    pub(crate) trims: bool,
    /// Records that went to a cold file.
    pub(crate) moved: u64,
    /// Records that are named and nowhere.
    pub(crate) gone: u64,
    /// Cold files that are there.
    pub(crate) cold_files: usize,
}

/// The images of a log.
pub(crate) struct Images<D: Disk> {
    log: Log<D>,
    shelf: Shelf<D::File>,
    cold: ColdShelf<D::File>,
    past: Past<D>,
}

impl<D: Disk> Images<D> {
    pub(crate) fn new(log: Log<D>, shelf: Shelf<D::File>, cold: ColdShelf<D::File>) -> Self {
        let past = Past::new(log.clone(), cold.files().to_vec());
        Self { log, shelf, cold, past }
    }

    /// The records of the log, and of cold files.
    pub(crate) fn past(&self) -> Past<D> {
        self.past.clone()
    }

    /// The newest one.
    pub(crate) fn newest(&self) -> Option<&Volume<D::File>> {
        self.shelf.newest()
    }

    /// Whether the log has grown by so much since the newest image, and by twice its size.
    pub(crate) fn is_due(&self, every: u64) -> bool {
        let size = self.newest().map_or(0, Volume::size);
        self.bytes_since() >= every.max(2 * size)
    }

    /// Makes an image of what is committed and durable, marks it, removes older ones, and lets the
    /// log go as far as nothing needs it. `None`: there is nothing that the newest does not cover.
    ///
    /// `settled`: whatever a lane has decided from a state before this record is committed. A late
    /// decision names records that the state referred to when it was made, so what the image before
    /// refers to has all of them if the lanes have come as far as that image.
    pub(crate) fn make(&mut self, settled: Lsn, pace: Pace<'_>) -> Result<Option<Made>, MakeError> {
        let base = self.shelf.newest().cloned();
        let covered = base.as_ref().map_or(zzq_wal::Lsn::ZERO, |base| base.heading().lsn);
        let trims = base.is_some() && settled.get() >= covered.get();
        let lsn = self.log.committed().min(self.log.durable());
        if lsn <= covered {
            return Ok(None);
        }
        let since = Since { log: &self.log, from: covered.next(), to: lsn, pace };
        let (volume, cleaned) = merge(&mut self.shelf, &mut self.cold, base.as_ref(), &since)?;
        self.past.set_cold(self.cold.files().to_vec());
        let (number, bytes) = (volume.heading().number, volume.size());
        let mark = self.log.update_facts(|facts| {
            facts.snapshot = lsn;
            facts.snapshot_number = number;
        });
        mark.map_err(MakeError::Mark)?;
        self.shelf.admit(volume)?;
        self.shelf.retire(&**self.log.disk()).map_err(MakeError::Shelf)?;
        let first_needed = self.shelf.first_needed();
        if trims {
            self.let_go().map_err(MakeError::Shelf)?;
        }
        let records = lsn.get() - covered.get();
        let (lsn, first_needed) = (Lsn::new(lsn.get()), Lsn::new(first_needed.get()));
        let Cleaned { moved, gone, .. } = cleaned;
        let cold_files = self.cold.files().len();
        let made =
            Made { number, lsn, bytes, records, first_needed, trims, moved, gone, cold_files };
        Ok(Some(made))
    }

    /// Lets go what none of the kept images needs.
    fn let_go(&mut self) -> Result<(), ShelfError> {
        self.log.trim(self.shelf.first_needed());
        let images = &self.shelf;
        let is_needed = |number| {
            images.needs().any(|need| need.kind == NeededKind::Cold && need.number == number)
        };
        let retired = self.cold.retire(&**self.log.disk(), is_needed);
        self.past.set_cold(self.cold.files().to_vec());
        let step = "removing cold files";
        retired.map(drop).map_err(|error| ShelfError::Disk { step, error })
    }

    /// Bytes of the log behind the newest image, about.
    fn bytes_since(&self) -> u64 {
        let covered = self.newest().map_or(0, |image| image.heading().lsn.get());
        let bytes = self.log.segments().into_iter().map(|segment| {
            let (first, last) = (segment.first.get(), segment.last.get());
            let all = (last + 1).saturating_sub(first);
            let behind = last.saturating_sub(covered).min(all);
            if all == 0 {
                0
            } else {
                u128::from(segment.bytes) * u128::from(behind) / u128::from(all)
            }
        });
        u64::try_from(bytes.sum::<u128>()).unwrap_or(u64::MAX)
    }
}

/// The log since the image before.
struct Since<'s, D: Disk> {
    log: &'s Log<D>,
    from: zzq_wal::Lsn,
    to: zzq_wal::Lsn,
    pace: Pace<'s>,
}

impl<D: Disk> Since<'_, D> {
    /// Calls `visit` with each record, its place and its time; returns the last time.
    fn each(&self, mut visit: impl FnMut(Lsn, u64, &Record<'_>)) -> Result<u64, MakeError> {
        let mut reader = self.log.reader(self.from)?;
        let mut last_ms = 0;
        while reader.next_lsn() <= self.to {
            let found = reader.next_record()?;
            let Some(found) = found else { unreachable!("it is committed and durable") };
            let record = Record::decode(found.kind, found.body);
            let record = record.map_err(|error| MakeError::Record(found.lsn, error))?;
            visit(Lsn::new(found.lsn.get()), found.time_ms, &record);
            last_ms = found.time_ms;
            if (self.pace)(found.body.len()).is_break() {
                return Err(MakeError::Stopped);
            }
        }
        Ok(last_ms)
    }
}

fn merge<D: Disk>(
    shelf: &mut Shelf<D::File>,
    cold: &mut ColdShelf<D::File>,
    base: Option<&Volume<D::File>>,
    since: &Since<'_, D>,
) -> Result<(Volume<D::File>, Cleaned), MakeError> {
    let mut touched = Touched::default();
    let time_ms = since.each(|_, _, record| touched.record(record))?;
    let mut state = read_touched(base, &mut touched, since.pace)?;
    since.each(|lsn, time_ms, record| state.apply(lsn, time_ms, record, &mut NoEffects))?;
    let heading = Heading {
        number: shelf.next_number(),
        lsn: since.to,
        time_ms,
        before: base.map(|base| (base.heading().number, base.heading().lsn)),
        contents: CONTENTS,
        ..Heading::new(Kind::Image, since.log.facts().identity)
    };
    let writer = shelf.begin(&**since.log.disk(), heading, since.pace)?;
    let segments = since.log.segments();
    let old_below = old_below(&segments, since.from);
    let needs = RefCell::new(Needs::new(segments, old_below));
    let note = |section, key: &[u8], value: &[u8]| {
        let noted = needs.borrow_mut().note(section, key, value);
        // It was written by a state just now, or by one whose image was verified.
        assert!(noted.is_ok(), "an entry is understood: {noted:?}");
    };
    let keep = |old: Entry<'_>| {
        let Some(section) = section_of(old.section) else { return true };
        let keeps = !touched.covers(section, old.key);
        if keeps {
            note(section, old.key, old.value);
        }
        keeps
    };
    let entries = base.map(|base| base.entries(|_| true, since.pace));
    let mut merge = Merge::new(entries, writer, keep)?;
    let mut outcome = ControlFlow::Continue(());
    write(&state, Select::All, |section, key, value| {
        if outcome.is_continue() {
            note(section, key, value);
            let added = merge.entry(u16::from(section.code()), key, value);
            outcome = added.map_or_else(ControlFlow::Break, ControlFlow::Continue);
        }
    });
    if let ControlFlow::Break(error) = outcome {
        return Err(error.into());
    }
    let (writer, _) = merge.finish()?;
    let (mut needs, old) = needs.into_inner().finish();
    let cold_heading = Heading { kind: Kind::Cold, ..heading };
    let cleaned = clean(since.log, cold, &old, cold_heading, since.pace)?;
    needs.extend(cleaned.needs.iter().copied());
    needs.sort_unstable_by_key(|need| (need.kind, need.number));
    Ok((writer.finish_with(&needs)?, cleaned))
}

/// Records below are old: of segments that the image before covers as a whole.
fn old_below(segments: &[KeptSegment], from: zzq_wal::Lsn) -> zzq_wal::Lsn {
    let covered = |segment: &&KeptSegment| segment.last < from;
    let first = segments.iter().find(|segment| !covered(segment));
    first.map_or(from, |segment| segment.first.min(from))
}

/// A state of those entries of the image before that the log since touches.
fn read_touched<F: zzq_wal::disk::DiskFile>(
    base: Option<&Volume<F>>,
    touched: &mut Touched,
    pace: Pace<'_>,
) -> Result<State, MakeError> {
    let Some(base) = base else { return Ok(State::new(Shard::WHOLE)) };
    let failed = |error| MakeError::State(base.name().to_owned(), error);
    let mut loader = Loader::new(Shard::WHOLE);
    let mut entries = base.entries(|_| true, pace);
    while let Some(Entry { section, key, value }) = entries.next_entry()? {
        // Those of another version were refused at the start.
        let Some(section) = section_of(section) else { continue };
        if touched.entry(section, key, value).map_err(failed)? {
            loader.entry(section, key, value).map_err(failed)?;
        }
    }
    loader.finish().map_err(failed)
}
