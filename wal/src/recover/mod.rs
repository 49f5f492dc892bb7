//! Recovery: from files to the last good group, record by record.
//!
//! Owns: the order of reading, the verdict on each segment, the visitor's calls.
//! Does not know: what a record means. Changes nothing on disk.

mod ahead;
pub(crate) mod assemble;
pub(crate) mod files;
mod report;
mod skip;
mod verdict;
pub(crate) mod walk;
pub(crate) mod window;

use std::collections::VecDeque;
use std::sync::Arc;
use std::thread;

use self::ahead::{Ahead, OfSegment};
use self::assemble::{Assembler, PartFault};
use self::files::{Files, FoundSegment};
use self::report::Meter;
pub use self::report::{
    Cleared, End, OnProgress, PROGRESS_STEP, Progress, RecoveredRecord, Recovery, Renewed,
    SegmentReport, Visit, Void, Why,
};
use self::skip::first_header;
use self::verdict::Proof;
use self::walk::{Step, Walk};
use self::window::Span;
use crate::disk::{Disk, DiskFile};
use crate::error::{Damage, OpenError};
use crate::format::group::GroupHeader;
use crate::format::meta::FirstGroup;
use crate::format::record;
use crate::format::segment::{Beginning, GROUPS_AT, LastGood};
use crate::log::{FLIGHTS_MAX, Options};
use crate::lsn::Lsn;
use crate::reader::reads::Reads;
use crate::rules::{self, Rule};
use crate::segment::{META_NAME, Segment};

/// What the log needs to go on.
pub(crate) struct Recovered<D: Disk> {
    pub(crate) files: Files<D>,
    pub(crate) recovery: Recovery,
    pub(crate) last: LastGood,
    /// That of the newest group; 0 if there is none.
    pub(crate) term: u64,
    /// Segments with groups, as readers see them.
    pub(crate) segments: Vec<Arc<Segment<D::File>>>,
    /// The groups at the end that nothing proves to have been durable, in order.
    pub(crate) unproven: Vec<FoundGroup>,
}

/// A group of which only the bytes are known: they can be read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FoundGroup {
    /// The one that it follows.
    pub(crate) before: LastGood,
    /// Where it lies in its segment.
    pub(crate) at: u64,
    pub(crate) header: GroupHeader,
}

/// Reads a log as opening it would, and changes nothing: for tools.
///
/// ```
/// use zzq_wal::{Appender, Log, OpenError, Options, inspect, segment_name, sim_disk::SimDisk};
///
/// let disk = SimDisk::new(); // of a log that is there: io::ReadOnlyDisk
/// let (log, _) = Log::open(disk.clone(), Options::from_os()?, 0, &mut |_| Ok(()))?;
/// Appender::new(&log)?.append_all(7, ["one", "two"])?;
/// log.mark_durable()?;
/// drop(log);
///
/// let mut bodies = Vec::new();
/// let recovery = inspect(disk.clone(), &Options::from_os()?, &mut |record| {
///     bodies.push(record.body.to_vec());
///     Ok(())
/// })?;
/// assert_eq!((recovery.last_lsn.get(), bodies.len()), (2, 2));
///
/// // A bit of a durable record changes: what is in front of it was shown, the error says the rest.
/// disk.flip(&segment_name(1), 4096 + 200, 0)?;
/// let found = inspect(disk, &Options::from_os()?, &mut |_| Ok(()));
/// let Err(OpenError::Damage(damage)) = found else { panic!("it is noticed") };
/// assert_eq!((damage.file, damage.offset), (segment_name(1), 4096));
/// assert_eq!((damage.first.get(), damage.last.get()), (1, 2));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
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
    let mut files = Files::load(disk)?;
    let foreign = std::mem::take(&mut files.foreign);
    let mut fold = Fold {
        options,
        visit,
        proof: Proof::default(),
        assembler: Assembler::default(),
        last: LastGood::default(),
        term: None,
        first_group: files.meta.as_ref().and_then(|meta| meta.facts().first_group),
        recovery: Recovery { epoch: files.epoch, foreign, ..Recovery::default() },
        segments: Vec::new(),
        newest: VecDeque::new(),
        cut: false,
        meter: Meter::new(None, 0, 0),
    };
    fold.gather_proofs(&files);
    let live: Vec<&FoundSegment<D::File>> = files.live.iter().collect();
    let first = fold.skip(&live)?;
    let live = &live[first..];
    let spans = live.iter().map(|found| span_of(found)).collect::<Result<Vec<_>, _>>()?;
    // Headers may claim any length.
    let bytes = spans.iter().map(Span::bytes).fold(0, u64::saturating_add);
    fold.meter = Meter::new(options.progress.as_ref(), bytes, live.len());
    let ended = thread::scope(|scope| {
        let mut ahead = Ahead::start(scope, options.recovery_threads, &spans);
        fold.read(live, &mut ahead)
    })?;
    if let Some(rest) = ended {
        let void = |void: &&FoundSegment<_>| {
            SegmentReport::new(void.name(), void.header.number, End::Void)
        };
        fold.recovery.segments.extend(live[rest..].iter().map(void));
    }
    fold.meter.finish();
    let (last, term) = (fold.last, fold.term.map_or_else(|| fold.passed_term(), Ok)?);
    let mut recovery = fold.recovery;
    recovery.unfinished += fold.assembler.forget();
    recovery.last_lsn = last.lsn;
    recovery.last_time_ms = last.time_ms;
    let proof = fold.proof;
    let known = |group: &FoundGroup| proof.covers(&group.header) || !rules::holds(Rule::Renewal);
    let unproven = fold.newest.into_iter().skip_while(known);
    let (segments, unproven) = (fold.segments, unproven.collect());
    Ok(Recovered { files, recovery, last, term, segments, unproven })
}

const WRONG_COUNT: &str = "it does not hold as many records as it says";

/// What there is of a segment: its header may claim more than its file has.
fn span_of<F: DiskFile>(found: &FoundSegment<F>) -> Result<Span<F>, OpenError> {
    let size = found.file.size().map_err(OpenError::disk(format!("measuring {}", found.name())))?;
    let limit = found.limit.min(size.next_multiple_of(GROUPS_AT));
    Ok(Span::new(found.file.clone(), &found.header, limit))
}

struct Fold<'o, 'v, F> {
    options: &'o Options,
    visit: &'o mut Visit<'v>,
    proof: Proof,
    assembler: Assembler,
    last: LastGood,
    /// Of the last group that was read.
    term: Option<u64>,
    /// What the log begins with, says `meta`, where the first segment does not say it.
    first_group: Option<FirstGroup>,
    recovery: Recovery,
    segments: Vec<Arc<Segment<F>>>,
    /// The last groups: those before them are proven by the headers of these.
    newest: VecDeque<FoundGroup>,
    /// The log is read from a place where first parts of big records have been trimmed: these
    /// records were not wanted any more, the segment is kept for others.
    cut: bool,
    meter: Meter<'o>,
}

impl<F: DiskFile> Fold<'_, '_, F> {
    /// What `meta`, the caller, headers and closings say was durable.
    fn gather_proofs<D: Disk<File = F>>(&mut self, files: &Files<D>) {
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
            if let Some(closing) = segment.valid_closing() {
                let last = closing.last;
                self.proof.add(last.group, last.lsn, || format!("the end of {}", segment.name()));
            }
        }
    }

    /// Reads segments in order. Returns how many count if the log ends before the last.
    fn read(
        &mut self,
        live: &[&FoundSegment<F>],
        ahead: &mut Ahead<'_, F>,
    ) -> Result<Option<usize>, OpenError> {
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
            self.meter.begin_segment(ahead.span(nth).bytes());
            let (mut report, torn) =
                self.read_segment(segment, Walk::new(ahead.of(nth), GROUPS_AT))?;
            let offset = self.last_end_in(segment);
            let next = live.get(nth + 1);
            if self.goes_on(next)? {
                report.end = End::Continued { offset };
                self.recovery.segments.push(report);
                self.meter.end_segment();
                continue;
            }
            let void = self.judge(&live[nth..], ahead, nth, offset, torn)?;
            if next.is_some_and(|next| next.header.beginning == Beginning::Break) {
                let reason = "its last group is not the one that the next segment names".to_owned();
                let place = (segment.name(), offset);
                return Err(OpenError::Damage(self.proof.damage(&self.last, place, reason)));
            }
            report.end = if void.is_some() { End::Torn { offset } } else { End::Clean { offset } };
            report.void = void;
            self.recovery.segments.push(report);
            return Ok(Some(nth + 1));
        }
        Ok(None)
    }

    fn last_end_in(&self, segment: &FoundSegment<F>) -> u64 {
        if self.last.segment == segment.header.number { self.last.end } else { GROUPS_AT }
    }

    /// Where the log begins: behind the last good group that the first segment names, or, where
    /// the segment before was trimmed and its end is not named, in front of the first group, which
    /// is the one that `meta` names.
    fn begin_with(&mut self, first: &FoundSegment<F>) -> Result<(), OpenError> {
        self.last = first.header.last_good;
        let group = first_group(first)?;
        self.cut = group.is_some_and(|header| header.open.is_some());
        if first.header.beginning == Beginning::Break {
            return Ok(());
        }
        let Some(begins) = self.first_group.or(group.as_ref().map(FirstGroup::of)) else {
            return Ok(());
        };
        self.last = LastGood {
            segment: first.header.continues,
            end: 0,
            group: begins.number - 1,
            lsn: Lsn::new(begins.first_lsn.get() - 1),
            time_ms: group.map_or(0, |header| header.time_ms),
            checksum: group.map_or(0, |header| header.previous),
        };
        if group.is_some_and(|header| FirstGroup::of(&header) == begins) {
            return Ok(());
        }
        // It was durable before it was named.
        self.proof.add(begins.number, self.last.lsn, || META_NAME.to_owned());
        let number = begins.number;
        let reason = match group {
            Some(header) => format!("group {} is where group {number} was", header.number),
            None => format!("group {number}, with which the log begins, is not there"),
        };
        let place = (first.name(), GROUPS_AT);
        Err(OpenError::Damage(self.proof.damage(&self.last, place, reason)))
    }

    /// Visits the groups of one segment; also says what is wrong at their end, if bytes of a group
    /// are there.
    fn read_segment(
        &mut self,
        segment: &FoundSegment<F>,
        mut walk: Walk<OfSegment<'_, '_, F>>,
    ) -> Result<(SegmentReport, Option<&'static str>), OpenError> {
        let mut report = SegmentReport::new(segment.name(), segment.header.number, End::Void);
        let kept = Arc::new(Segment::new(segment.header, segment.file.clone()));
        let torn = loop {
            let at = walk.at();
            let failed = OpenError::disk(format!("reading {} near byte {at}", report.file));
            let (header, bytes, records) = match walk.next().map_err(failed)? {
                Step::Group { header, bytes, records } => (header, bytes, records),
                Step::End(torn) => break torn,
            };
            if let Some(why) = self.why_not_next(&header) {
                break Some(why);
            }
            records.map_err(|fault| damaged_group(segment, at, &header, fault.to_string()))?;
            self.read_records(segment, at, &header, bytes)?;
            report.groups += 1;
            report.records += u64::from(header.records);
            self.note_group(segment, &kept, at, &header);
            self.meter.group(header.length, self.last.lsn);
        };
        report.last_lsn = self.last.lsn;
        note_break(segment, &kept);
        if kept.first_lsn().is_some() {
            let closing = segment.closing.filter(|closing| closing.last == self.last);
            if let Some(closing) = closing {
                kept.set_indexed(closing.groups);
            }
            self.segments.push(kept);
        }
        Ok((report, torn))
    }

    fn note_group(
        &mut self,
        segment: &FoundSegment<F>,
        kept: &Segment<F>,
        at: u64,
        header: &GroupHeader,
    ) {
        self.proof.add_header(header, || format!("a group in {}", segment.name()));
        if self.newest.len() == FLIGHTS_MAX {
            self.newest.pop_front();
        }
        self.newest.push_back(FoundGroup { before: self.last, at, header: *header });
        self.last = LastGood::of(header, at + header.length as u64);
        self.term = Some(header.term);
        kept.note_durable(header, &self.last);
    }

    fn read_records(
        &mut self,
        segment: &FoundSegment<F>,
        at: u64,
        group: &GroupHeader,
        bytes: &[u8],
    ) -> Result<(), OpenError> {
        let damaged = |reason: String| damaged_group(segment, at, group, reason);
        let mut rest = group.records(bytes);
        let mut lsn = group.first_lsn;
        while !rest.is_empty() {
            // Their checksums were looked at when the window was read.
            let (record, _, behind) =
                record::split_unchecked(rest).map_err(|fault| damaged(fault.to_string()))?;
            rest = behind;
            let body = match self.assembler.take(&record) {
                Ok(None) => continue,
                Ok(body) => body,
                Err(PartFault::NoBeginning) if self.cut && record.flags.takes_lsn() => None,
                Err(PartFault::NoBeginning) if self.cut => continue,
                Err(fault) => return Err(damaged(fault.to_string()).into()),
            };
            if lsn > group.last_lsn() {
                return Err(damaged(WRONG_COUNT.to_owned()).into());
            }
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
            return Err(damaged(WRONG_COUNT.to_owned()).into());
        }
        Ok(())
    }

    fn why_not_next(&self, header: &GroupHeader) -> Option<&'static str> {
        self.last.why_not_before(header, self.term.unwrap_or(0))
    }

    /// Whether the log goes on in `next`.
    fn goes_on(&self, next: Option<&&FoundSegment<F>>) -> Result<bool, OpenError> {
        let Some(next) = next else { return Ok(false) };
        match next.header.beginning {
            Beginning::Break => Ok(next.header.last_good == self.last),
            Beginning::Roll => {
                let first = first_group(next)?;
                Ok(first.is_some_and(|header| self.why_not_next(&header).is_none()))
            }
        }
    }

    /// The log ends in the first of `rest`, the segment `nth` of those that are read ahead: what
    /// is void there if it is torn, an error if it is damaged.
    fn judge(
        &mut self,
        rest: &[&FoundSegment<F>],
        ahead: &mut Ahead<'_, F>,
        nth: usize,
        offset: u64,
        torn: Option<&'static str>,
    ) -> Result<Option<Void>, OpenError> {
        let (mut ends_in, mut void_last) = (None, self.last.lsn);
        for (at, segment) in rest.iter().enumerate() {
            let from = if at == 0 { offset } else { GROUPS_AT };
            let name = segment.name();
            let last = self.last.group;
            let seen = |header: &GroupHeader| {
                if header.number > last {
                    ends_in = ends_in.or(Some(at));
                    void_last = void_last.max(header.last_lsn());
                    self.proof.add_header(header, || format!("a later group in {name}"));
                }
            };
            let remains = Walk::new(ahead.of(nth + at), from).remains(seen);
            remains.map_err(OpenError::disk(format!("reading {name} behind byte {from}")))?;
        }
        if !self.proof.contradicts(&self.last) {
            let reason = torn.or(ends_in.is_some().then_some("a later group is there without it"));
            let first = self.last.lsn.next();
            return Ok(reason.map(|reason| Void { offset, first, last: void_last, reason }));
        }
        let why = torn.map_or_else(String::new, |why| format!(": {why}"));
        let reason = format!("no intact group that follows the one before{why}");
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
        if let Some(closing) = segment.closing {
            return Ok(closing.last.group == self.last.group);
        }
        let first = first_header(next)?.map(|header| header.number);
        Ok(first.map_or(ends_in == Some(1), |number| number == self.last.group + 1))
    }
}

/// A group that is intact says what no writer says.
fn damaged_group<F>(
    segment: &FoundSegment<F>,
    offset: u64,
    group: &GroupHeader,
    reason: String,
) -> Damage {
    Damage {
        file: segment.name(),
        offset,
        first: group.first_lsn,
        last: group.last_lsn(),
        reason,
        proof: ": their group is intact".to_owned(),
    }
}

fn note_break<F>(found: &FoundSegment<F>, kept: &Segment<F>) {
    if found.limit < found.header.length {
        kept.set_broken();
    }
}

/// The header of a segment's first group, if that group is intact.
fn first_group<F: DiskFile>(segment: &FoundSegment<F>) -> Result<Option<GroupHeader>, OpenError> {
    let span = Span::new(segment.file.clone(), &segment.header, segment.limit);
    let failed = OpenError::disk(format!("reading {} near byte {GROUPS_AT}", segment.name()));
    Ok(match Walk::new(Reads::alone(span), GROUPS_AT).next().map_err(failed)? {
        Step::Group { header, .. } => Some(header),
        Step::End(_) => None,
    })
}
