//! Making an image: the one before and the log since, merged, with memory for what the log since
//! has touched.
//!
//! Owns: the order of the steps, from the first read to the last name that goes. Reads what is
//! committed and durable only, so it needs nothing of the lanes but to know how far they are.

use std::cell::RefCell;
use std::io;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;
use zzq_engine::image::{ImageError, Loader, Select, Touched, references, write};
use zzq_engine::{NoEffects, Record, RecordError, Shard, State};
use zzq_snapshot::{
    ColdShelf, Entry, Heading, Kind, Merge, MergeError, Pace, ReadError, Shelf, ShelfError, Volume,
    WriteError, remove_aside,
};
use zzq_types::Lsn;
use zzq_wal::disk::Disk;
use zzq_wal::format::meta::Facts;
use zzq_wal::{KeptSegment, Log, Reserve, Space};

use super::clean::{Cleaned, Room, clean};
use super::due::{Growth, Replay};
use super::late::Late;
use super::needs::{Needs, join};
use super::past::Past;
use super::retain::Retainer;
use super::space::{reserve, yields};
use super::{CONTENTS, section_of};
use crate::options::{DiskLimits, Retention};
use crate::planted::{self, Bug};
use crate::replay::Holds;
use crate::standing::{Needed, Settled};

/// An image is made of the one before and at most so many records: what these touch is in memory
/// meanwhile, a hundred bytes for each, more or less. Where there are more it takes several; one
/// that is made for space takes all.
const STEP: u64 = 200_000;

/// Why there is no new image, and the ones before are as they were; or why the log behind a new one
/// was not let go.
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
    /// Whether the new image is there and marked all the same.
    pub(crate) fn is_made(&self) -> bool {
        matches!(self, Self::Shelf(_))
    }

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
    retainer: Retainer,
    replay: Replay,
    holds: Arc<Holds>,
    /// What is kept free.
    reserve: Reserve,
    /// See [`STEP`].
    step: u64,
}

/// What an image is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Aim {
    /// A start that is quick.
    Start,
    /// Space.
    Space,
}

impl<D: Disk> Images<D> {
    /// Those of a start that measured how long replaying takes.
    pub(crate) fn new(
        log: Log<D>,
        shelf: Shelf<D::File>,
        cold: ColdShelf<D::File>,
        replay: Replay,
    ) -> Self {
        let images = shelf.images().cloned().collect();
        let past = Past::new(log.clone(), cold.files().to_vec(), images);
        let (retainer, holds) = (Retainer::default(), Arc::default());
        let (reserve, step) = (Reserve::default(), STEP);
        Self { log, shelf, cold, past, retainer, replay, holds, reserve, step }
    }

    /// An image is made of so many records at most.
    pub(crate) fn in_steps_of(&mut self, records: u64) {
        self.step = records.max(1);
    }

    /// From now on so much of the log stays beyond what is needed.
    pub(crate) fn retain(&mut self, retention: Retention) {
        self.retainer = Retainer::new(retention);
    }

    /// What holds history while it is taken.
    pub(crate) fn holds(&self) -> Arc<Holds> {
        Arc::clone(&self.holds)
    }

    /// The oldest record of the log that can be read, or the next one to come.
    pub(crate) fn first_whole(&self) -> Lsn {
        Lsn::new(self.log.first_whole().get())
    }

    /// The oldest record of the log that can be read, and its time.
    pub(crate) fn oldest(&self) -> Result<Option<(Lsn, u64)>, zzq_wal::ReadError> {
        let mut reader = self.log.reader(self.log.first_whole())?;
        let found = reader.next_record()?;
        Ok(found.map(|found| (Lsn::new(found.lsn.get()), found.time_ms)))
    }

    /// Bytes of the log.
    pub(crate) fn log_bytes(&self) -> u64 {
        self.log.segments().iter().map(|segment| segment.bytes).sum()
    }

    /// The records of the log, and of cold files.
    pub(crate) fn past(&self) -> &Past<D> {
        &self.past
    }

    /// The newest one.
    pub(crate) fn newest(&self) -> Option<&Volume<D::File>> {
        self.shelf.newest()
    }

    /// Whether the log has grown by so much since the newest image, and by twice its size, or
    /// would take longer than `budget` to replay.
    pub(crate) fn is_due(&self, every: u64, budget: Duration) -> bool {
        self.growth().is_due(every, budget, self.replay)
    }

    fn growth(&self) -> Growth {
        let covered = self.newest().map_or(0, |image| image.heading().lsn.get());
        Growth {
            records: self.log.committed().get().saturating_sub(covered),
            bytes: self.bytes_since(),
            image: self.newest().map_or(0, Volume::size),
        }
    }

    /// Has as much kept free as images and the log will need; says how it is.
    pub(crate) fn look_after_space(&mut self, limits: DiskLimits) -> Space {
        self.reserve = reserve(self.growth(), self.log.shortest_segment(), limits);
        self.log.keep_free(self.reserve);
        self.log.space()
    }

    /// What was free a moment ago.
    pub(crate) fn free_bytes(&self) -> u64 {
        self.log.free_bytes()
    }

    /// Makes an image of what is committed and durable, marks it, removes older ones, and lets the
    /// log go as far as nothing needs it. `None`: there is nothing that the newest does not cover.
    ///
    /// A late decision names records that the state referred to when it was made, so what the image
    /// before refers to has all of them if the lanes have `settled` as much as that image covers.
    /// What they need besides is kept as if the image named it.
    pub(crate) fn make(
        &mut self,
        settled: &Settled,
        pace: Pace<'_>,
    ) -> Result<Option<Made>, MakeError> {
        let (from, last) = (self.covered(), self.log.committed().min(self.log.durable()));
        let (mut all, mut moved) = (None, 0);
        while self.covered() < last {
            let lsn = zzq_wal::Lsn::new(self.covered().get().saturating_add(self.step)).min(last);
            // Late decisions that are settled may lie behind one that is only a step.
            let nothing = Settled::default();
            let settled = if lsn == last { settled } else { &nothing };
            let made = self.make_at(lsn, settled, Aim::Start, pace)?;
            moved += made.moved;
            all = Some(Made { records: lsn.get() - from.get(), moved, ..made });
        }
        Ok(all)
    }

    /// Makes an image for the space that it may bring: the log is let go behind two, so another one
    /// of the same state is worth it, until the one before covers no less. It covers what lanes
    /// have settled: what is let go behind the next one then reaches as far, though what they have
    /// handed over since waits for space. The oldest history goes, too. `None`: it would bring
    /// nothing.
    pub(crate) fn make_room(
        &mut self,
        settled: &Settled,
        pace: Pace<'_>,
    ) -> Result<Option<Made>, MakeError> {
        let covered = self.covered();
        let lsn = self.log.committed().min(self.log.durable());
        let lsn = lsn.min(zzq_wal::Lsn::new(settled.lsn.get())).max(covered);
        let may_trim = covered == zzq_wal::Lsn::ZERO || settled.lsn.get() >= covered.get();
        if !may_trim || !self.brings_room(lsn) {
            return Ok(None);
        }
        self.make_at(lsn, settled, Aim::Space, pace).map(Some)
    }

    /// Whether [`Images::make_room`] could bring something if lanes have settled all.
    pub(crate) fn may_bring_room(&self) -> bool {
        let lsn = self.log.committed().min(self.log.durable());
        self.brings_room(lsn.max(self.covered()))
    }

    fn brings_room(&self, lsn: zzq_wal::Lsn) -> bool {
        let before = self.shelf.images().next().map(|oldest| oldest.heading().lsn);
        let two = self.shelf.images().count() > 1;
        let is_stale = !two || before.is_some_and(|before| before < lsn);
        lsn > zzq_wal::Lsn::ZERO && (is_stale || self.retainer.is_on() && self.yields() > 0)
    }

    /// What the newest image covers.
    fn covered(&self) -> zzq_wal::Lsn {
        self.newest().map_or(zzq_wal::Lsn::ZERO, |newest| newest.heading().lsn)
    }

    /// Bytes of history that are in the way.
    fn yields(&self) -> u64 {
        yields(self.reserve, self.log.disk().free_bytes().unwrap_or(u64::MAX))
    }

    fn make_at(
        &mut self,
        lsn: zzq_wal::Lsn,
        settled: &Settled,
        aim: Aim,
        pace: Pace<'_>,
    ) -> Result<Made, MakeError> {
        let base = self.shelf.newest().cloned();
        let covered = self.covered();
        let trims = base.is_some() && settled.lsn.get() >= covered.get();
        // Whatever was decided from a state before what lanes have settled is committed by now, and
        // can be read once it is durable.
        let (committed, durable) = (self.log.committed(), self.log.durable());
        let decided = if aim == Aim::Space { committed.max(lsn) } else { lsn };
        let trims = trims && decided <= durable;
        let needed = &settled.needed;
        let (from, settled) = (covered.next(), zzq_wal::Lsn::new(settled.lsn.get()));
        let unsettled = if trims { settled.min(lsn).next() } else { lsn.next() };
        let decided = unsettled..decided.next();
        let since = Since { log: &self.log, from, to: lsn, decided, needed, pace };
        let past = match &base {
            Some(base) if lsn == covered => base.heading().time_ms,
            _ => self.time_of(lsn)?,
        };
        let yields = if aim == Aim::Space { self.yields() } else { 0 };
        let retained = self.retainer.first(&self.log, past, yields)?.unwrap_or(lsn.next());
        if planted::is(Bug::TrimmedBeforeMark) {
            self.log.trim(retained);
        }
        let cold_before = self.cold.last_number();
        let (log, reserve) = (&self.log, self.reserve);
        let room = || room(log, reserve, aim);
        let shelves = (&mut self.shelf, &mut self.cold);
        let kept_from = log.stays_from();
        let merged = merge(shelves, base.as_ref(), &since, (retained, kept_from), room);
        if let Err(error) = &merged
            && error.is_full()
        {
            self.take_back(cold_before);
        }
        let (volume, cleaned) = merged?;
        self.past.set_cold(self.cold.files().to_vec());
        let (number, bytes) = (volume.heading().number, volume.size());
        let (first_cold, last_cold) = self.cold_numbers();
        let mark = self.log.update_facts(|facts| {
            facts.snapshot = lsn;
            facts.snapshot_number = number;
            facts.set_cold_files(first_cold, last_cold);
        });
        mark.map_err(MakeError::Mark)?;
        self.shelf.admit(volume)?;
        let retired = self.shelf.retire(&**self.log.disk());
        self.past.set_images(self.shelf.images().cloned().collect());
        retired.map_err(MakeError::Shelf)?;
        let first_needed = self.shelf.first_needed();
        if trims {
            self.let_go(retained).map_err(MakeError::Shelf)?;
        }
        let records = lsn.get() - covered.get();
        let (lsn, first_needed) = (Lsn::new(lsn.get()), Lsn::new(first_needed.get()));
        let Cleaned { moved, gone, .. } = cleaned;
        let cold_files = self.cold.files().len();
        let made =
            Made { number, lsn, bytes, records, first_needed, trims, moved, gone, cold_files };
        Ok(made)
    }

    /// When a record was written.
    fn time_of(&self, lsn: zzq_wal::Lsn) -> Result<u64, MakeError> {
        let mut reader = self.log.reader(lsn)?;
        Ok(reader.next_record()?.map_or(0, |found| found.time_ms))
    }

    /// Lets go what none of the kept images needs, nobody takes just now or wants to keep.
    fn let_go(&mut self, retained: zzq_wal::Lsn) -> Result<(), ShelfError> {
        if planted::is(Bug::NothingLetGo) {
            return Ok(());
        }
        let below = Lsn::new(self.shelf.first_needed().min(retained).get());
        let covered = self.newest().map_or(Lsn::ZERO, |image| Lsn::new(image.heading().lsn.get()));
        self.holds.trim(below, covered, |below| self.log.trim(zzq_wal::Lsn::new(below.get())));
        let needed = self.shelf.needed_cold();
        self.retire_cold(|number| needed.contains(&number))
    }

    /// Removes cold files that are not needed.
    fn retire_cold(&mut self, is_needed: impl Fn(u64) -> bool) -> Result<(), ShelfError> {
        let retired = self.cold.retire(&**self.log.disk(), is_needed);
        self.past.set_cold(self.cold.files().to_vec());
        let step = "removing cold files";
        retired.map(drop).map_err(|error| ShelfError::Disk { step, error })
    }

    /// The first of the cold files that are there, and the last number that one has had.
    fn cold_numbers(&self) -> (u64, u64) {
        let last = self.cold.last_number();
        (self.cold.files().first().map_or(last + 1, |file| file.number()), last)
    }

    /// There was no space for an image: what was written for it, cold files behind this number,
    /// gives its own back. Those of before go when the log is let go: what no image names, a late
    /// decision may. Numbers are stated first, as ever before a cold file goes.
    fn take_back(&mut self, cold_before: u64) {
        let (first_cold, last_cold) = self.cold_numbers();
        let removed = remove_aside(&**self.log.disk());
        let state = |facts: &mut Facts| facts.set_cold_files(first_cold, last_cold);
        if removed.is_err()
            || self.cold.clear(&**self.log.disk()).is_err()
            || self.log.update_facts(state).is_err()
            || self.retire_cold(|number| number <= cold_before).is_err()
        {
            tracing::warn!("what was written for an image stays until the next one is made");
        }
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

/// How much the cleaner may take.
fn room<D: Disk>(log: &Log<D>, reserve: Reserve, aim: Aim) -> Room {
    let free = log.disk().free_bytes().unwrap_or(u64::MAX);
    let Reserve { images, log: own, .. } = reserve;
    let kept = match aim {
        // Nobody is refused for it.
        Aim::Start => images.saturating_add(own).saturating_add(log.shortest_segment()),
        // Another image, or there would never be one again.
        Aim::Space => own.saturating_add(images / 2),
    };
    Room { bytes: free.saturating_sub(kept), is_scarce: aim == Aim::Space }
}

/// The log since the image before.
struct Since<'s, D: Disk> {
    log: &'s Log<D>,
    from: zzq_wal::Lsn,
    to: zzq_wal::Lsn,
    /// Here may lie what was decided from states before `to`, or before the states from which
    /// lanes have said what they need: one has answered behind it, and another one before it.
    decided: Range<zzq_wal::Lsn>,
    /// What lanes need of the time before, besides.
    needed: &'s [Needed],
    pace: Pace<'s>,
}

impl<D: Disk> Since<'_, D> {
    /// Calls `visit` with each record, its place and its time; returns the last time.
    fn each(&self, visit: impl FnMut(Lsn, u64, &Record<'_>)) -> Result<u64, MakeError> {
        self.read(self.from..self.to.next(), visit)
    }

    /// What such decisions name of the time up to it, each once. As far as these are durable: where
    /// not all are, nothing is let go behind this image.
    fn named_by_decisions(&self) -> Result<Late, MakeError> {
        let mut late = Late::new(zzq_wal::Lsn::FIRST..self.to.next());
        let Range { start, end } = self.decided;
        let end = end.min(self.log.durable().next());
        if start < end {
            self.read(start..end, |_, _, record| late.note(record))?;
        }
        late.settle();
        Ok(late)
    }

    fn read(
        &self,
        records: Range<zzq_wal::Lsn>,
        mut visit: impl FnMut(Lsn, u64, &Record<'_>),
    ) -> Result<u64, MakeError> {
        let mut reader = self.log.reader(records.start)?;
        let mut last_ms = 0;
        while reader.next_lsn() < records.end {
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

/// `retained`: what the log keeps on purpose begins here, and needs no cold file. `kept_from`: what
/// stays of the log so far begins here, and nobody has taken history from before that.
fn merge<D: Disk>(
    (shelf, cold): (&mut Shelf<D::File>, &mut ColdShelf<D::File>),
    base: Option<&Volume<D::File>>,
    since: &Since<'_, D>,
    (retained, kept_from): (zzq_wal::Lsn, zzq_wal::Lsn),
    room: impl Fn() -> Room,
) -> Result<(Volume<D::File>, Cleaned), MakeError> {
    let (mut touched, mut late) = (Touched::default(), Late::new(kept_from..since.from));
    let before_ms = base.map_or(0, |base| base.heading().time_ms);
    let read = since.each(|_, _, record| {
        touched.record(record);
        late.note(record);
    });
    // It may cover no more than the one before.
    let time_ms = read?.max(before_ms);
    late.settle();
    let mut state = read_touched(base, &mut touched, &mut late, since.pace)?;
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
    let old_below = old_below(&segments, since.from).min(retained);
    let late = late.finish().map(|(lsn, _)| lsn).collect();
    let mut needs = Needs::new(segments, old_below, late, since.named_by_decisions()?);
    let needed = since.needed.iter().map(|(lsn, size)| (zzq_wal::Lsn::new(lsn.get()), *size));
    // What lies behind it stays behind it.
    needed.filter(|(lsn, _)| *lsn <= since.to).for_each(|(lsn, size)| needs.add(lsn, size));
    let needs = RefCell::new(needs);
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
    let cleaned = clean(since.log, cold, &old, cold_heading, room(), since.pace)?;
    needs.extend(cleaned.needs.iter().copied());
    join(&mut needs);
    Ok((writer.finish_with(&needs)?, cleaned))
}

/// Records below are old: of segments that the image before covers as a whole.
fn old_below(segments: &[KeptSegment], from: zzq_wal::Lsn) -> zzq_wal::Lsn {
    let covered = |segment: &&KeptSegment| segment.last < from;
    let first = segments.iter().find(|segment| !covered(segment));
    first.map_or(from, |segment| segment.first.min(from))
}

/// A state of those entries of the image before that the log since touches; says which late records
/// it names.
fn read_touched<F: zzq_wal::disk::DiskFile>(
    base: Option<&Volume<F>>,
    touched: &mut Touched,
    late: &mut Late,
    pace: Pace<'_>,
) -> Result<State, MakeError> {
    let Some(base) = base else { return Ok(State::new(Shard::WHOLE)) };
    let failed = |error| MakeError::State(base.name().to_owned(), error);
    let mut loader = Loader::new(Shard::WHOLE);
    let mut entries = base.entries(|_| true, pace);
    while let Some(Entry { section, key, value }) = entries.next_entry()? {
        // Those of another version were refused at the start.
        let Some(section) = section_of(section) else { continue };
        if !late.is_empty() {
            let named = |lsn: Lsn, _| late.note_named(zzq_wal::Lsn::new(lsn.get()));
            references(section, key, value, named).map_err(failed)?;
        }
        if touched.entry(section, key, value).map_err(failed)? {
            loader.entry(section, key, value).map_err(failed)?;
        }
    }
    loader.finish().map_err(failed)
}

#[cfg(test)]
mod tests;
