//! `verify`: reads everything that counts in a log, and says what is wrong with it.
//!
//! Owns: what is counted of each segment, and the last word, which is recovery's.
//! Does not know: how groups are found, how lines look.

mod images;
mod index;
mod verdict;

use std::io::Write;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use zzq_engine::Record;
use zzq_wal::Lsn;
use zzq_wal::disk::DiskFile;
use zzq_wal::format::group::GroupHeader;
use zzq_wal::format::index::Entry;
use zzq_wal::io::ReadOnlyFile;

use crate::Status;
use crate::escape::hex;
use crate::judge::judge;
use crate::place::{LOOKS_MAX, Place, Trouble};
use crate::report::{
    Ends, FileLine, Line, LogLine, NoteLine, Out, RefusedLine, SegmentLine, StopLine,
};
use crate::survey::{SegmentFile, Standing, Survey};
use crate::walk::{Event, Found, walk};

/// How to verify.
#[derive(Clone, Copy, Debug, Default)]
pub struct VerifyOptions {
    /// A JSON object a line instead of text.
    pub json: bool,
    /// Bodies are not the engine's: they are not decoded.
    pub opaque: bool,
    /// Tell of progress on the second writer.
    pub progress: bool,
}

/// Verifies the log at `place`: the report goes to `out`, progress for whoever waits to `aside`.
pub fn verify(
    place: &Place,
    options: VerifyOptions,
    out: &mut dyn Write,
    aside: &mut dyn Write,
) -> Result<Status, Trouble> {
    let (survey, mut tallied, unfinished) = read_all(place, options, aside)?;
    progress(options, aside, "recovery's verdict");
    let judgement = judge(place, Lsn::FIRST)?;
    progress(options, aside, "images");
    let volumes = images::look(place, survey.meta.facts.as_ref())?;
    progress(options, aside, "");
    place.check_unchanged()?;
    index::check(&survey, &mut tallied);
    let mut verdict = verdict::reach(place, &judgement, &mut tallied);
    if !options.opaque {
        // Without a state there is nothing that an image could cover.
        images::weigh(&volumes, &mut verdict);
    }

    let mut out = Out { to: out, json: options.json };
    print_log(&survey, &mut out)?;
    for line in &tallied.segments {
        out.say(&Line::Segment(line.clone()))?;
    }
    for line in volumes.images {
        out.say(&Line::Image(line))?;
    }
    for line in volumes.cold {
        out.say(&Line::Cold(line))?;
    }
    for file in &survey.others {
        let (name, bytes, what) = (file.name.clone(), file.size, file.what);
        out.say(&Line::File(FileLine { name, bytes, what }))?;
    }
    for stop in tallied.stops {
        out.say(&Line::Stop(stop))?;
    }
    for refused in tallied.refused {
        out.say(&Line::Refused(refused))?;
    }
    if unfinished > 0 {
        let text = format!("{unfinished} big records have no end, and are void");
        out.say(&Line::Note(NoteLine { text }))?;
    }
    for file in &tallied.cut_indexes {
        let text = format!(
            "the index of {file} was cut off by a crash while it was written: the broker finds the \
             records there without it, and none is lost"
        );
        out.say(&Line::Note(NoteLine { text }))?;
    }
    let status = verdict.status;
    out.say(&Line::Verdict(verdict.line))?;
    Ok(status)
}

/// A log that moves is read again where it seemed not to go on: what was being written then is
/// there now. What is damaged is so at the same place again.
fn read_all(
    place: &Place,
    options: VerifyOptions,
    aside: &mut dyn Write,
) -> Result<(Survey<ReadOnlyFile>, Tallied, usize), Trouble> {
    let mut before = None;
    for looks in 1.. {
        let survey = place.survey()?;
        let mut tally = Tally::new(&survey, options, aside);
        let unfinished = walk(&survey, Lsn::FIRST, &mut |event| {
            tally.take(event);
            ControlFlow::Continue(())
        })?;
        let tallied = tally.done;
        let stop = tallied.stops.first().map(|stop| (stop.file.clone(), stop.offset));
        let again = stop.is_some() && stop == before;
        if !place.is_live() || !tallied.stopped || again || looks == LOOKS_MAX {
            return Ok((survey, tallied, unfinished));
        }
        before = stop;
    }
    unreachable!("the last look is believed")
}

/// Shows what is being done; nothing: that it is done.
fn progress(options: VerifyOptions, aside: &mut dyn Write, what: &str) {
    if options.progress {
        // Whoever waits loses nothing if this cannot be shown.
        let _ = write!(aside, "\r\x1b[K{what}");
        let _ = aside.flush();
    }
}

fn print_log<F>(survey: &Survey<F>, out: &mut Out<'_>) -> Result<(), Trouble> {
    if let Some(facts) = &survey.meta.facts {
        let range = facts.segments();
        out.say(&Line::Log(LogLine {
            log: hex(&facts.identity.log),
            node: facts.identity.node,
            epoch: facts.epoch,
            term: facts.term,
            sequence: facts.sequence,
            durable_lsn: facts.durable.get(),
            durable_group: facts.durable_group,
            snapshot_lsn: facts.snapshot.get(),
            first_segment: range.map_or(0, |range| range.first),
            last_segment: range.map_or(0, |range| range.last),
            first_group: facts.first_group.map(|first| first.number),
            first_group_lsn: facts.first_group.map(|first| first.first_lsn.get()),
        }))?;
        for fault in &survey.meta.faults {
            let text = format!("meta, {fault}; the other page is enough, and the next start mends");
            out.say(&Line::Note(NoteLine { text }))?;
        }
        return Ok(());
    }
    for fault in &survey.meta.faults {
        let (file, offset, reason) = ("meta".to_owned(), 0, fault.clone());
        out.say(&Line::Stop(StopLine { file, offset, reason }))?;
    }
    Ok(())
}

/// Lines of one kind that are printed; the rest is counted.
const LINES_MAX: usize = 100;

/// What was found.
#[derive(Debug, Default)]
pub(crate) struct Tallied {
    pub(crate) segments: Vec<SegmentLine>,
    /// Of each segment, its groups as an index would name them, while all was in order.
    pub(crate) entries: Vec<Vec<Entry>>,
    pub(crate) stops: Vec<StopLine>,
    pub(crate) stopped: bool,
    pub(crate) refused: Vec<RefusedLine>,
    pub(crate) refused_count: u64,
    pub(crate) bad_indexes: Vec<String>,
    /// Segments whose index was not durable yet when the power went.
    pub(crate) cut_indexes: Vec<String>,
}

/// Counts what a reading meets.
struct Tally<'t> {
    options: VerifyOptions,
    aside: &'t mut dyn Write,
    told: Instant,
    /// The segment that is read.
    current: usize,
    done: Tallied,
}

impl<'t> Tally<'t> {
    fn new<F: DiskFile>(
        survey: &Survey<F>,
        options: VerifyOptions,
        aside: &'t mut dyn Write,
    ) -> Self {
        let segments: Vec<_> = survey.segments.iter().map(segment_line).collect();
        let entries = segments.iter().map(|_| Vec::new()).collect();
        let done = Tallied { segments, entries, ..Tallied::default() };
        Self { options, aside, told: Instant::now(), current: 0, done }
    }

    fn take(&mut self, event: Event<'_>) {
        match event {
            Event::Segment { number } => {
                let found = self.done.segments.iter().position(|line| line.number == number);
                self.current = found.unwrap_or(0);
                self.progress(number);
            }
            Event::Group { at, header } => self.group(at, header),
            Event::Record(found) => {
                self.count(found.lsn);
                self.decode(&found);
            }
            Event::Headless { lsn } => self.count(lsn),
            Event::Stop(stop) => {
                self.done.stopped = true;
                if self.done.stops.len() < LINES_MAX {
                    let (file, offset, reason) = (stop.file, stop.offset, stop.reason);
                    self.done.stops.push(StopLine { file, offset, reason });
                }
            }
            Event::End { end, remains, .. } => {
                let line = &mut self.done.segments[self.current];
                line.offset = Some(end);
                line.end = if remains { Ends::Torn } else { Ends::Clean };
            }
        }
    }

    fn group(&mut self, at: u64, header: &GroupHeader) {
        let line = &mut self.done.segments[self.current];
        if self.done.stopped {
            line.groups_behind += 1;
            return;
        }
        line.groups += 1;
        line.first_ms.get_or_insert(header.time_ms);
        line.last_ms = Some(header.time_ms);
        let block = u32::try_from(at / zzq_wal::disk::BLOCK as u64).unwrap_or(u32::MAX);
        let (first_lsn, time_ms, records) = (header.first_lsn, header.time_ms, header.records);
        self.done.entries[self.current].push(Entry { first_lsn, time_ms, block, records });
    }

    fn count(&mut self, lsn: Lsn) {
        let line = &mut self.done.segments[self.current];
        if self.done.stopped {
            line.records_behind += 1;
        } else {
            line.records += 1;
            line.first_lsn.get_or_insert(lsn.get());
            line.last_lsn = Some(lsn.get());
        }
    }

    fn decode(&mut self, found: &Found<'_>) {
        if self.options.opaque {
            return;
        }
        if let Err(error) = Record::decode(found.kind, found.body) {
            self.done.refused_count += 1;
            if self.done.refused.len() < LINES_MAX {
                let (lsn, kind, reason) = (found.lsn.get(), found.kind, error.to_string());
                self.done.refused.push(RefusedLine { lsn, kind, reason });
            }
        }
    }

    fn progress(&mut self, number: u64) {
        const PAUSE: Duration = Duration::from_millis(100);
        if self.told.elapsed() < PAUSE {
            return;
        }
        self.told = Instant::now();
        let (nth, all) = (self.current + 1, self.done.segments.len());
        progress(self.options, self.aside, &format!("reading segment {number}, {nth} of {all}"));
    }
}

fn segment_line<F>(segment: &SegmentFile<F>) -> SegmentLine {
    SegmentLine {
        number: segment.number,
        file: segment.name(),
        bytes: segment.size,
        epoch: segment.header.as_ref().map_or(0, |header| header.epoch),
        end: match segment.standing {
            Standing::Trimmed => Ends::Trimmed,
            Standing::Live(_) | Standing::Void(_) => Ends::Void,
        },
        ..SegmentLine::default()
    }
}
