//! One attempt to copy a log that may be written meanwhile.
//!
//! Owns: the order of reading, and what is looked at on the way. Images and cold files are open
//! before the segments are looked at, so that what they need was there; then it is settled where
//! the copy ends, and what lies before that place does not change any more: it is as it was
//! found, or its file was let go. Each group is checked as it is copied, so that a file that was
//! used again is noticed.
//! Does not know: whether another attempt would help.

use serde::Serialize;
use zzq_wal::disk::{BLOCK, Disk, DiskFile};
use zzq_wal::format::group::GroupHeader;
use zzq_wal::format::meta::{Facts, FirstGroup};
use zzq_wal::format::segment::{Beginning, Closing, GROUPS_AT, LastGood, SegmentHeader};
use zzq_wal::format::{checksum, index};
use zzq_wal::io::IoBuffer;
use zzq_wal::{Lsn, segment_name};

use super::draft::{Draft, Sheet};
use super::error::BackupError;
use super::source::{Image, Raw, Source, names, opened};
use super::wish::{Wish, last_there, last_wanted};
use crate::groups::{Groups, Step};
use crate::place::Trouble;
use crate::planted::{self, Bug};
use crate::survey::{SegmentFile, read_block};
use crate::time::Date;
use crate::walk::NOT_THE_FIRST;

/// Images that a copy has at most, as a broker has: a late decision names records that the state
/// before may have known, and the newest image does not.
const IMAGES: usize = 2;

/// What was copied.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Taken {
    /// The first record that its log has.
    pub first_lsn: u64,
    /// The last one.
    pub last_lsn: u64,
    /// Log time of the last record in ms.
    pub time_ms: u64,
    /// How many segments.
    pub segments: usize,
    /// The records that its images cover.
    pub images: Vec<u64>,
    /// How many cold files.
    pub cold: usize,
    /// Bytes of all of these.
    pub bytes: u64,
    /// How often it was begun.
    pub tries: usize,
    /// What is wrong in the source, and was not needed.
    pub passed: Vec<String>,
}

/// Copies to `draft` all but `meta`, which it returns.
pub(super) fn attempt<S: Disk, T: Disk>(
    open: &dyn Fn() -> Result<S, Trouble>,
    draft: &mut Draft<'_, T>,
    wish: Wish,
    tell: &mut dyn FnMut(&str),
) -> Result<(Taken, Facts), BackupError> {
    tell("looking at images");
    let mut source = Source::open(&open()?)?;
    tell("looking for the end");
    let last = last_wanted(wish, open, &source)?;
    // Only now it is settled which segments hold it.
    source.survey = crate::survey::Survey::read(&open()?)?;
    let parts = parts(&source)?;
    let (mut images, needed) = choose(&source, &parts, last)?;
    if planted::is(Bug::ImagesLeftOut) {
        images = &[];
    }
    let mut copy = Copy { draft, last, chain: None, term: 0, passed: source.passed.clone() };
    let begins = copy.segments(open, &parts, needed, tell)?;
    let Some(end) = copy.chain.filter(|end| end.lsn == last) else {
        return Err(out_of_reach(open, &source, &parts, last)?);
    };
    let passed = std::mem::take(&mut copy.passed);
    tell("copying images");
    let cold = copy_images(draft, images)?;
    let first = &parts[begins];
    let facts = facts(&source.facts, (first, end), images.last(), &cold);
    let taken = Taken {
        first_lsn: first.first.first_lsn.get(),
        last_lsn: last.get(),
        time_ms: end.time_ms,
        segments: parts[begins..].iter().filter(|part| part.header.number <= end.segment).count(),
        images: images.iter().map(|image| image.lsn().get()).collect(),
        cold: cold.len(),
        bytes: draft.bytes(),
        tries: 0,
        passed,
    };
    Ok((taken, facts))
}

/// Copies images with the cold files that they need, of which it returns the numbers.
fn copy_images<F: DiskFile, T: Disk>(
    draft: &mut Draft<'_, T>,
    images: &[Image<F>],
) -> Result<Vec<u64>, BackupError> {
    let mut cold = Vec::new();
    for image in images {
        raw(draft, &image.raw)?;
        for (number, file) in &image.cold {
            if !cold.contains(number) {
                raw(draft, file)?;
                cold.push(*number);
            }
        }
    }
    Ok(cold)
}

/// A segment with groups.
struct Part<'s, F> {
    segment: &'s SegmentFile<F>,
    header: SegmentHeader,
    first: GroupHeader,
    /// What it begins with, if that is known without the segment before.
    begins: Option<FirstGroup>,
}

impl<F> Part<'_, F> {
    fn name(&self) -> String {
        segment_name(self.header.number)
    }
}

/// The segments that count, but for those at the end that nothing was written to.
fn parts<F: DiskFile>(source: &Source<F>) -> Result<Vec<Part<'_, F>>, BackupError> {
    let mut parts = Vec::new();
    for segment in source.survey.live() {
        let name = segment.name();
        let header = match &segment.header {
            Ok(header) => *header,
            Err(reason) => return Err(BackupError::damage(&name, 0, reason)),
        };
        // Where there is none, the copy ends before, or finds that it cannot.
        let Some(first) = segment.first_header().map_err(opened(&name))? else { break };
        let begins = source.survey.begins().filter(|_| parts.is_empty());
        parts.push(Part { segment, header, first, begins });
    }
    Ok(parts)
}

/// The images that go along, and the first segment that has to.
fn choose<'s, F: DiskFile>(
    source: &'s Source<F>,
    parts: &[Part<'_, F>],
    last: Lsn,
) -> Result<(&'s [Image<F>], usize), BackupError> {
    let count = source.images.iter().take_while(|image| image.lsn() <= last).count();
    let usable = &source.images[..count];
    for from in usable.len().saturating_sub(IMAGES)..=usable.len() {
        let images = &usable[from..];
        let needed = images.iter().map(Image::first_needed).min().unwrap_or(Lsn::FIRST);
        if let Some(first) = first_with(parts, needed.min(last)) {
            return Ok((images, first));
        }
    }
    let spoilt = source.passed.iter().fold(String::new(), |all, passed| all + "; " + passed);
    let text = match (parts.first(), parts.last()) {
        (Some(first), Some(_)) => {
            let covered = source.images.first().map_or(Lsn::ZERO, Image::lsn);
            let oldest = first.first.first_lsn.max(covered);
            format!("{last} is not to be had: what came before {oldest} was let go{spoilt}")
        }
        _ => format!("the log holds no record{spoilt}"),
    };
    // With what is wrong it might be.
    Err(if spoilt.is_empty() { BackupError::Reach(text) } else { BackupError::Damaged(text) })
}

/// The last segment from which on all is there of this record and of those behind it. Parts of
/// them may lie in front of the segment that this record is in; a segment that begins within a
/// record before these is as good as any.
fn first_with<F>(parts: &[Part<'_, F>], needed: Lsn) -> Option<usize> {
    let at = parts.iter().rposition(|part| part.first.first_lsn <= needed)?;
    let open = parts[at].first.open.map_or(u64::MAX, |place| place.segment);
    parts[..=at].iter().rposition(|part| part.header.number <= open)
}

/// The log ends before what was wanted: why.
fn out_of_reach<S: Disk>(
    open: &dyn Fn() -> Result<S, Trouble>,
    source: &Source<S::File>,
    parts: &[Part<'_, S::File>],
    last: Lsn,
) -> Result<BackupError, BackupError> {
    let end = last_there(open, source)?;
    let first = parts.first().map_or(Lsn::FIRST, |part| part.first.first_lsn);
    let time = parts.last().map_or(0, |part| part.first.time_ms);
    Ok(BackupError::Reach(format!(
        "{last} is not there: the log goes from {first} to {end}, after {}",
        Date(time)
    )))
}

struct Copy<'c, 't, T: Disk> {
    draft: &'c mut Draft<'t, T>,
    last: Lsn,
    /// The last group that was copied.
    chain: Option<LastGood>,
    /// Of that.
    term: u64,
    passed: Vec<String>,
}

impl<T: Disk> Copy<'_, '_, T> {
    fn is_done(&self) -> bool {
        self.chain.is_some_and(|chain| chain.lsn >= self.last)
    }

    /// Copies segments up to the last record that is wanted; those before `needed` are history, and
    /// go as far back as they can be read. Returns the first that was copied.
    fn segments<S: Disk>(
        &mut self,
        open: &dyn Fn() -> Result<S, Trouble>,
        parts: &[Part<'_, S::File>],
        needed: usize,
        tell: &mut dyn FnMut(&str),
    ) -> Result<usize, BackupError> {
        let mut begins = 0;
        for (nth, part) in parts.iter().enumerate() {
            let name = part.name();
            tell(&format!("copying {name}, {} of {}", nth + 1, parts.len()));
            match self.segment(part, parts.get(nth + 1)) {
                Ok(()) if self.is_done() => break,
                Ok(()) => {}
                Err(error) if nth < needed && !error.is_of_target() => {
                    // It may have been let go meanwhile.
                    if names(&open()?)?.contains(&name) {
                        self.passed.push(format!("history up to {name} was left out: {error}"));
                    }
                    self.draft.forget()?;
                    (self.chain, begins) = (None, nth + 1);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(begins)
    }

    /// Copies a segment, as far as it is wanted. It has all its bytes on the device where it may be
    /// written again, as another one: where the next one rolls on from it.
    fn segment<F: DiskFile>(
        &mut self,
        part: &Part<'_, F>,
        next: Option<&Part<'_, F>>,
    ) -> Result<(), BackupError> {
        let name = part.name();
        let block = read_block(&part.segment.file, 0).map_err(opened(&name))?;
        if SegmentHeader::decode(&block).ok() != Some(part.header) {
            return Err(BackupError::damage(&name, 0, "its header has changed"));
        }
        if part.begins.is_some_and(|begins| FirstGroup::of(&part.first) != begins) {
            return Err(BackupError::damage(&name, GROUPS_AT, NOT_THE_FIRST));
        }
        let mut sheet = self.draft.sheet(&name)?;
        sheet.append(&block)?;
        let groups = self.groups(part, &mut sheet)?;
        let end = part.header.length - GROUPS_AT;
        let follows = |next: &Part<'_, F>, last: LastGood| {
            last.why_not_before(&next.first, self.term).is_none()
        };
        let next = next.filter(|_| !self.is_done());
        if let Some((next, last)) = next.zip(self.chain)
            && !follows(next, last)
        {
            let reason =
                "no intact group is here that follows the one before, and more was durable";
            return Err(BackupError::damage(&name, last.end, reason));
        }
        let goes_on = next.is_some_and(|next| next.header.beginning == Beginning::Roll);
        let closing = if self.is_done() { None } else { self.closing(part, groups)? };
        // A last block of zeroes gives the file its length.
        let behind = closing.unwrap_or_else(|| vec![0; BLOCK]);
        sheet.zeroes(end - (behind.len() - BLOCK) as u64, goes_on)?;
        sheet.append(&behind)?;
        self.draft.done(sheet)
    }

    /// Copies its groups, up to the last that is wanted, which is cut where it goes on.
    fn groups<F: DiskFile>(
        &mut self,
        part: &Part<'_, F>,
        sheet: &mut Sheet<T::File>,
    ) -> Result<usize, BackupError> {
        let (name, limit) = (part.name(), part.segment.limit().unwrap_or(0));
        let (number, salt) = (part.header.number, Some(part.header.salt));
        let file = part.segment.file.clone();
        let mut groups = Groups::new(file, number, salt, GROUPS_AT, limit);
        let mut count = 0;
        while !self.is_done() {
            // What does not follow is for the next segment to say, or for whoever wants more.
            let Step::Group(at, header, bytes) = groups.next().map_err(opened(&name))? else {
                break;
            };
            if let Some(reason) =
                self.chain.and_then(|last| last.why_not_before(&header, self.term))
            {
                return Err(BackupError::damage(&name, at, reason));
            }
            let (copied, header) = if header.last_lsn() > self.last {
                let mut bytes = bytes.to_vec();
                let cut = header.cut(&mut bytes, self.last);
                let cut =
                    cut.map_err(|fault| BackupError::damage(&name, at, &fault.to_string()))?;
                sheet.append(&bytes)?;
                (bytes.len(), cut)
            } else {
                sheet.append(bytes)?;
                (bytes.len(), header)
            };
            count += 1;
            self.chain = Some(LastGood::of(&header, at + copied as u64));
            self.term = header.term;
        }
        if count == 0 {
            return Err(BackupError::damage(&name, GROUPS_AT, "its first group is not intact"));
        }
        Ok(count)
    }

    /// The index at its end, with the last block, if it was closed behind its last group.
    fn closing<F: DiskFile>(
        &mut self,
        part: &Part<'_, F>,
        groups: usize,
    ) -> Result<Option<Vec<u8>>, BackupError> {
        let (name, file) = (part.name(), &part.segment.file);
        let at = part.header.length - GROUPS_AT;
        let block = read_block(file, at).map_err(opened(&name))?;
        let closing = part.header.decode_closing(&block);
        let is_of_them =
            |closing: &Closing| Some(closing.last) == self.chain && closing.groups == groups as u64;
        let Some(closing) = closing.filter(is_of_them) else { return Ok(None) };
        let mut bytes = IoBuffer::new();
        bytes.resize(index::len(groups));
        let read = match at.checked_sub(bytes.len() as u64) {
            Some(at) => file.read_at(&mut bytes, at).map_err(opened(&name))?,
            None => 0,
        };
        if read < bytes.len() || checksum(&bytes) != closing.index_checksum {
            self.passed.push(format!("the index of {name} has changed, the copy is without it"));
            return Ok(None);
        }
        Ok(Some([&bytes[..], &block].concat()))
    }
}

/// Copies a file as it is.
fn raw<F: DiskFile, T: Disk>(draft: &mut Draft<'_, T>, raw: &Raw<F>) -> Result<(), BackupError> {
    const READ: usize = 256 * BLOCK;
    let mut sheet = draft.sheet(&raw.name)?;
    let mut buffer = IoBuffer::with_blocks(READ / BLOCK);
    let mut at = 0;
    loop {
        let read = raw.file.read_at(&mut buffer, at).map_err(opened(&raw.name))?;
        sheet.append(&buffer[..read])?;
        at += read as u64;
        if read < READ {
            return draft.done(sheet);
        }
    }
}

/// What `meta` of the copy says: what it has, and that this is durable. The vote stays, so that it
/// is not given twice, and so does the highest number of a cold file.
fn facts<F: DiskFile>(
    source: &Facts,
    (first, end): (&Part<'_, F>, LastGood),
    image: Option<&Image<F>>,
    cold: &[u64],
) -> Facts {
    let mut facts = Facts {
        durable: end.lsn,
        durable_group: end.group,
        snapshot: image.map_or(Lsn::ZERO, Image::lsn),
        snapshot_number: image.map_or(0, |image| image.volume.heading().number),
        files: Vec::new(),
        spares_from: 0,
        ..source.clone()
    };
    let rolls_on = first.header.beginning == Beginning::Roll;
    let first_group = rolls_on.then(|| FirstGroup::of(&first.first));
    facts.set_segments(first.header.number, end.segment, first_group);
    // An image may have been there before it was marked.
    let used = source.cold_files().map(|range| range.last);
    if let Some(used) = used.max(cold.iter().max().copied()) {
        facts.set_cold_files(cold.iter().min().copied().unwrap_or(used + 1), used);
    }
    facts
}
