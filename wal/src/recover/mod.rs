//! Recovery: from files to the last good group, record by record.
//!
//! Owns: the order of reading, the verdict on each segment, the visitor's calls.
//! Does not know: what a record means. Changes nothing on disk.

pub(crate) mod assemble;
pub(crate) mod files;
pub(crate) mod rules;
pub(crate) mod scan;
mod verdict;

use std::sync::Arc;

use crate::disk::{BLOCK, Disk, DiskFile};
use crate::error::{Damage, OpenError};
use crate::format::group::GroupHeader;
use crate::format::record::{self, Flags};
use crate::format::segment::{Beginning, Closing, GROUPS_AT, LastGood};
use crate::io::IoBuffer;
use crate::log::Options;
use crate::lsn::Lsn;
use crate::segment::{META_NAME, Segment, segment_name};
use assemble::{Assembler, PartFault};
use files::{Files, FoundSegment};
use rules::Rule;
use scan::{Found, Scan};
use verdict::{Proof, does_not_follow};

/// A record as recovery finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecoveredRecord<'a> {
    /// Its place in the log.
    pub lsn: Lsn,
    /// Log time of its group in ms.
    pub time_ms: u64,
    /// As staged.
    pub kind: u8,
    /// As staged.
    pub flags: Flags,
    /// As staged, in one piece.
    pub body: &'a [u8],
}

/// Sees each record in LSN order; an error refuses the log.
pub type Visit<'v> =
    dyn FnMut(RecoveredRecord<'_>) -> Result<(), Box<dyn std::error::Error + Send + Sync>> + 'v;

/// What was found when the log was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// Each segment that counts, in order.
    pub segments: Vec<SegmentReport>,
    /// The last LSN.
    pub last_lsn: Lsn,
    /// Log time of the last group in ms.
    pub last_time_ms: u64,
    /// How often the log has been opened, with this time.
    pub epoch: u64,
    /// Big records of which only some parts are there; they are void.
    pub unfinished: usize,
}

/// One segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentReport {
    /// Name of its file.
    pub file: String,
    /// Its number.
    pub number: u64,
    /// Groups read.
    pub groups: u64,
    /// Records that they complete.
    pub records: u64,
    /// Last LSN in it, or before it.
    pub last_lsn: Lsn,
    /// How its groups end.
    pub end: End,
}

/// How the groups of a segment end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Not read: the visitor wanted nothing of it, and its end is known.
    Skipped,
    /// The next segment goes on from here.
    Continued {
        /// Byte offset behind its last group.
        offset: u64,
    },
    /// The log ends here, and nothing was being written.
    Clean {
        /// Byte offset behind its last group.
        offset: u64,
    },
    /// The log ends here in a write that was never acknowledged: it is void.
    Torn {
        /// Byte offset from which on all is void.
        offset: u64,
    },
    /// Nothing in it counts: it follows a torn end, or was made ahead and not yet used.
    Void,
}

/// What the log needs to go on.
pub(crate) struct Recovered<D: Disk> {
    pub(crate) files: Files<D>,
    pub(crate) recovery: Recovery,
    pub(crate) last: LastGood,
    /// Segments with groups, as readers see them.
    pub(crate) segments: Vec<Arc<Segment<D::File>>>,
}

/// Reads a log as opening it would, and changes nothing: for tools.
pub fn inspect<D: Disk>(
    disk: D,
    options: &Options,
    visit: &mut Visit<'_>,
) -> Result<Recovery, OpenError> {
    recover(&Arc::new(disk), options, visit).map(|recovered| recovered.recovery)
}

/// Reads the log of a directory.
pub(crate) fn recover<D: Disk>(
    disk: &Arc<D>,
    options: &Options,
    visit: &mut Visit<'_>,
) -> Result<Recovered<D>, OpenError> {
    let files = Files::load(disk)?;
    let mut fold = Fold {
        options,
        visit,
        proof: Proof::default(),
        assembler: Assembler::default(),
        last: LastGood::default(),
        recovery: Recovery { epoch: files.epoch, ..Recovery::default() },
        segments: Vec::new(),
        cut: false,
    };
    fold.gather_proofs(&files)?;
    let live: Vec<&FoundSegment<D::File>> = files.live.iter().collect();
    let first = fold.skip(&live)?;
    let ended = fold.read(&live[first..])?;
    if let Some(rest) = ended {
        let rest = &live[first + rest..];
        fold.recovery.segments.extend(rest.iter().map(|void| void_report(void)));
    }
    let last = fold.last;
    let mut recovery = fold.recovery;
    recovery.unfinished += fold.assembler.forget();
    recovery.last_lsn = last.lsn;
    recovery.last_time_ms = last.time_ms;
    let segments = fold.segments;
    Ok(Recovered { files, recovery, last, segments })
}

fn void_report<F>(segment: &FoundSegment<F>) -> SegmentReport {
    SegmentReport {
        file: segment.name(),
        number: segment.header.number,
        groups: 0,
        records: 0,
        last_lsn: Lsn::ZERO,
        end: End::Void,
    }
}

struct Fold<'o, 'v, F> {
    options: &'o Options,
    visit: &'o mut Visit<'v>,
    proof: Proof,
    assembler: Assembler,
    last: LastGood,
    recovery: Recovery,
    segments: Vec<Arc<Segment<F>>>,
    /// The log is read from a place where first parts of big records have been trimmed: these
    /// records were not wanted any more, the segment is kept for others.
    cut: bool,
}

impl<F: DiskFile> Fold<'_, '_, F> {
    /// What `meta`, the caller, headers and closings say was durable.
    fn gather_proofs<D: Disk<File = F>>(&mut self, files: &Files<D>) -> Result<(), OpenError> {
        self.proof.add(0, self.options.durable, || "an image".to_owned());
        if let Some(meta) = &files.meta
            && rules::holds(Rule::DurableMark)
        {
            let facts = meta.facts();
            self.proof.add(facts.durable_group, facts.durable, || META_NAME.to_owned());
        }
        for segment in &files.live {
            let good = segment.header.last_good;
            self.proof.add(good.group, good.lsn, || format!("the header of {}", segment.name()));
            // A break behind it has made void what a closing speaks of.
            if segment.limit == segment.header.length
                && let Some(closing) = read_closing(segment)?
            {
                let last = closing.last;
                self.proof.add(last.group, last.lsn, || format!("the end of {}", segment.name()));
            }
        }
        Ok(())
    }

    /// Passes over segments of which the visitor wants nothing; returns where to begin.
    fn skip(&mut self, live: &[&FoundSegment<F>]) -> Result<usize, OpenError> {
        let Some(start) = self.find_start(live)? else { return Ok(0) };
        for (segment, end) in live.iter().zip(&start.skipped) {
            let kept = Segment::new(segment.header, segment.file.clone());
            kept.note_durable(end.first_lsn, end.last.lsn, end.last.end, end.needs);
            if end.indexed {
                kept.set_indexed();
            }
            note_break(segment, &kept);
            self.segments.push(Arc::new(kept));
            let mut report = void_report(segment);
            report.last_lsn = end.last.lsn;
            report.end = End::Skipped;
            self.recovery.segments.push(report);
            self.last = end.last;
        }
        Ok(start.skipped.len())
    }

    /// The longest front of segments that hold nothing the visitor wants, nor parts of it, and
    /// whose ends are known without reading them.
    fn find_start(&self, live: &[&FoundSegment<F>]) -> Result<Option<Start>, OpenError> {
        let mut ends = Vec::new();
        for pair in live.windows(2) {
            let Some(end) = known_end(pair[0], pair[1])? else { break };
            if end.last.lsn >= self.options.visit_from {
                break;
            }
            ends.push(end);
        }
        // What begins in a segment must not need parts from one that was passed over.
        while !ends.is_empty() {
            let first = first_group(live[ends.len()])?;
            let needed = first.and_then(|header| header.open).map(|place| place.segment);
            if needed.is_none_or(|needed| needed >= live[ends.len()].header.number) {
                return Ok(Some(Start { skipped: ends }));
            }
            ends.pop();
        }
        Ok(None)
    }

    /// Reads segments in order. Returns how many count if the log ends before the last.
    fn read(&mut self, live: &[&FoundSegment<F>]) -> Result<Option<usize>, OpenError> {
        if let Some(first) = live.first()
            && self.segments.is_empty()
        {
            self.begin_with(first)?;
        }
        let mut epoch = 0;
        for (nth, segment) in live.iter().enumerate() {
            if segment.header.epoch != epoch {
                self.recovery.unfinished += self.assembler.forget();
                epoch = segment.header.epoch;
            }
            let mut report = self.read_segment(segment)?;
            let next = live.get(nth + 1);
            if self.goes_on(next)? {
                report.end = End::Continued { offset: self.last_end_in(segment) };
                self.recovery.segments.push(report);
                continue;
            }
            let offset = self.last_end_in(segment);
            let torn = self.judge(&live[nth..], offset)?;
            if next.is_some_and(|next| next.header.beginning == Beginning::Break) {
                let reason = "its last group is not the one that the next segment names".to_owned();
                let place = (segment.name(), offset);
                return Err(OpenError::Damage(self.proof.damage(&self.last, place, reason)));
            }
            let torn = torn || report.end == (End::Torn { offset });
            report.end = if torn { End::Torn { offset } } else { End::Clean { offset } };
            self.recovery.segments.push(report);
            return Ok(Some(nth + 1));
        }
        Ok(None)
    }

    fn last_end_in(&self, segment: &FoundSegment<F>) -> u64 {
        if self.last.segment == segment.header.number { self.last.end } else { GROUPS_AT }
    }

    /// Where the log begins: behind the last good group that the first segment names, or, where
    /// the segment before was trimmed and its end is not named, in front of the first group.
    fn begin_with(&mut self, first: &FoundSegment<F>) -> Result<(), OpenError> {
        self.last = first.header.last_good;
        let group = first_group(first)?;
        self.cut = group.is_some_and(|header| header.open.is_some());
        if first.header.beginning == Beginning::Roll
            && let Some(header) = group
        {
            self.last = LastGood {
                segment: first.header.continues,
                end: 0,
                group: header.number - 1,
                lsn: Lsn::new(header.first_lsn.get() - 1),
                time_ms: header.time_ms,
                checksum: header.previous,
            };
        }
        Ok(())
    }

    fn read_segment(&mut self, segment: &FoundSegment<F>) -> Result<SegmentReport, OpenError> {
        let mut report = void_report(segment);
        let kept = Arc::new(Segment::new(segment.header, segment.file.clone()));
        let mut scan = Scan::new(segment.file.clone(), &segment.header, GROUPS_AT, segment.limit);
        let failed = || OpenError::disk(format!("reading {}", segment.name()));
        loop {
            let at = scan.at();
            match scan.next().map_err(failed())? {
                Found::Group(header, group) if does_not_follow(&header, &self.last).is_none() => {
                    self.read_records(segment, at, &header, group)?;
                    report.groups += 1;
                    report.records += u64::from(header.records);
                    self.note_group(segment, &kept, at, &header);
                }
                Found::Group(..) => {
                    report.end = End::Torn { offset: at };
                    break;
                }
                Found::End { torn } => {
                    report.end =
                        if torn { End::Torn { offset: at } } else { End::Clean { offset: at } };
                    break;
                }
            }
        }
        report.last_lsn = self.last.lsn;
        note_break(segment, &kept);
        if kept.first_lsn().is_some() {
            if read_closing(segment)?.is_some_and(|closing| closing.last == self.last) {
                kept.set_indexed();
            }
            self.segments.push(kept);
        }
        Ok(report)
    }

    fn note_group(
        &mut self,
        segment: &FoundSegment<F>,
        kept: &Segment<F>,
        at: u64,
        header: &GroupHeader,
    ) {
        self.proof.add_header(header, || format!("a group in {}", segment.name()));
        self.last = LastGood {
            segment: header.segment,
            end: at + header.length as u64,
            group: header.number,
            lsn: header.last_lsn(),
            time_ms: header.time_ms,
            checksum: header.checksum,
        };
        let needs = header.open.map_or(0, |place| place.segment);
        kept.note_durable(header.first_lsn, self.last.lsn, self.last.end, needs);
    }

    fn read_records(
        &mut self,
        segment: &FoundSegment<F>,
        at: u64,
        group: &GroupHeader,
        bytes: &[u8],
    ) -> Result<(), OpenError> {
        let damaged = |reason: String| Damage {
            file: segment.name(),
            offset: at,
            first: group.first_lsn,
            last: group.last_lsn(),
            reason,
            proof: ": their group is intact".to_owned(),
        };
        let mut rest = group.records(bytes);
        let mut lsn = group.first_lsn;
        while !rest.is_empty() {
            let (record, behind) =
                record::split(rest).map_err(|fault| damaged(fault.to_string()))?;
            rest = behind;
            let body = match self.assembler.take(&record) {
                Ok(None) => continue,
                Ok(body) => body,
                Err(PartFault::NoBeginning) if self.cut && record.flags.takes_lsn() => None,
                Err(PartFault::NoBeginning) if self.cut => continue,
                Err(fault) => return Err(damaged(fault.to_string()).into()),
            };
            if let Some(body) = body
                && lsn >= self.options.visit_from
            {
                let (kind, flags, time_ms) = (record.kind, record.flags, group.time_ms);
                (self.visit)(RecoveredRecord { lsn, time_ms, kind, flags, body })
                    .map_err(|reason| OpenError::Refused { lsn, kind, reason })?;
            }
            lsn = lsn.next();
        }
        if lsn != group.last_lsn().next() {
            return Err(damaged("it does not hold as many records as it says".to_owned()).into());
        }
        Ok(())
    }

    /// Whether the log goes on in `next`.
    fn goes_on(&self, next: Option<&&FoundSegment<F>>) -> Result<bool, OpenError> {
        let Some(next) = next else { return Ok(false) };
        match next.header.beginning {
            Beginning::Break => Ok(next.header.last_good == self.last),
            Beginning::Roll => {
                let first = first_group(next)?;
                Ok(first.is_some_and(|header| does_not_follow(&header, &self.last).is_none()))
            }
        }
    }

    /// The log ends in the first of `rest`: true if it is torn there, an error if damaged.
    fn judge(&mut self, rest: &[&FoundSegment<F>], offset: u64) -> Result<bool, OpenError> {
        let (mut torn, mut ends_in) = (false, None);
        for (nth, segment) in rest.iter().enumerate() {
            let from = if nth == 0 { offset } else { GROUPS_AT };
            let limit = segment.limit;
            let mut scan = Scan::new(segment.file.clone(), &segment.header, from, limit);
            let name = segment.name();
            let last = self.last.group;
            let seen = |header: &GroupHeader| {
                if header.number > last {
                    torn = true;
                    ends_in = ends_in.or(Some(nth));
                    self.proof.add_header(header, || format!("a later group in {name}"));
                }
            };
            scan.remains(seen).map_err(OpenError::disk(format!("reading {name}")))?;
        }
        if !self.proof.contradicts(&self.last) {
            return Ok(torn);
        }
        let reason = "no intact group that follows the one before".to_owned();
        let place = match rest {
            [full, next, ..] if ends_in != Some(0) && self.is_whole(full, next, ends_in)? => {
                (next.name(), GROUPS_AT)
            }
            _ => (rest[0].name(), offset),
        };
        Err(OpenError::Damage(self.proof.damage(&self.last, place, reason)))
    }

    /// Whether no group of `segment` is missing, so that it is the beginning of `next` that is bad.
    /// `ends_in` is the segment, counted from this one, where a later group was seen first.
    fn is_whole(
        &self,
        segment: &FoundSegment<F>,
        next: &FoundSegment<F>,
        ends_in: Option<usize>,
    ) -> Result<bool, OpenError> {
        if next.header.beginning == Beginning::Break {
            return Ok(false);
        }
        if let Some(closing) = read_closing(segment)? {
            return Ok(closing.last.group == self.last.group);
        }
        let mut first = None;
        let mut scan = Scan::new(next.file.clone(), &next.header, GROUPS_AT, 2 * GROUPS_AT);
        let failed = OpenError::disk(format!("reading {}", next.name()));
        scan.remains(|header| first = Some(header.number)).map_err(failed)?;
        Ok(first.map_or(ends_in == Some(1), |number| number == self.last.group + 1))
    }
}

fn note_break<F>(found: &FoundSegment<F>, kept: &Segment<F>) {
    if found.limit < found.header.length {
        kept.set_broken();
    }
}

/// Segments passed over.
struct Start {
    skipped: Vec<KnownEnd>,
}

/// The end of a segment that was not read.
struct KnownEnd {
    first_lsn: Lsn,
    last: LastGood,
    needs: u64,
    indexed: bool,
}

/// The end of `segment` as its closing, or a break behind it, tells.
fn known_end<F: DiskFile>(
    segment: &FoundSegment<F>,
    next: &FoundSegment<F>,
) -> Result<Option<KnownEnd>, OpenError> {
    let closing = read_closing(segment)?;
    let good = next.header.last_good;
    let last = match (&closing, next.header.beginning) {
        (_, Beginning::Break) if good.segment == segment.header.number => good,
        (Some(closing), Beginning::Roll) => closing.last,
        _ => return Ok(None),
    };
    let Some(first) = first_group(segment)? else { return Ok(None) };
    let indexed = closing.is_some_and(|closing| closing.last == last);
    let needs = first.open.map_or(0, |place| place.segment);
    Ok(Some(KnownEnd { first_lsn: first.first_lsn, last, needs, indexed }))
}

/// The header of a segment's first group, if that group is intact.
fn first_group<F: DiskFile>(segment: &FoundSegment<F>) -> Result<Option<GroupHeader>, OpenError> {
    let mut scan = Scan::new(segment.file.clone(), &segment.header, GROUPS_AT, segment.limit);
    let failed = OpenError::disk(format!("reading {}", segment.name()));
    Ok(match scan.next().map_err(failed)? {
        Found::Group(header, _) => Some(header),
        Found::End { .. } => None,
    })
}

fn read_closing<F: DiskFile>(segment: &FoundSegment<F>) -> Result<Option<Closing>, OpenError> {
    let mut buffer = IoBuffer::with_blocks(1);
    let at = segment.header.length - GROUPS_AT;
    let failed = OpenError::disk(format!("reading {}", segment_name(segment.header.number)));
    let read = segment.file.read_at(&mut buffer, at).map_err(failed)?;
    buffer[read..].fill(0);
    let (blocks, _) = buffer.as_chunks::<BLOCK>();
    Ok(segment.header.decode_closing(&blocks[0]))
}
