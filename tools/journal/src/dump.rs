//! `dump`: the records of a log, one a line, up to its end or to the first place that is not
//! intact; what is left of those that were let go first, from cold files.
//!
//! Owns: which records are shown, and how. Does not know: how they are found.

use std::fmt;
use std::io::Write;
use std::ops::ControlFlow;

use serde::Serialize;
use zzq_engine::{Record, RecordError};
use zzq_types::TopicFilter;
use zzq_wal::format::record::Flags;
use zzq_wal::{End, Lsn, Recovery};

use crate::Status;
use crate::cold::Cold;
use crate::describe::{Describe, names_topic};
use crate::judge::{Judgement, judge};
use crate::place::{Place, Trouble};
use crate::report::Out;
use crate::time::Date;
use crate::value::Fields;
pub use crate::value::PayloadForm;
use crate::walk::{Event, Found, walk};

/// What to dump.
#[derive(Clone, Debug)]
pub struct DumpOptions {
    /// The first LSN.
    pub from: Lsn,
    /// The last LSN.
    pub to: Lsn,
    /// Only these kinds; empty: all.
    pub kinds: Vec<u8>,
    /// Only records that name a topic which this filter matches.
    pub topic: Option<String>,
    /// How much of payloads.
    pub payload: PayloadForm,
    /// At most so many records.
    pub limit: Option<u64>,
    /// A JSON object a line instead of text.
    pub json: bool,
    /// Bodies are not the engine's: they are shown as bytes.
    pub opaque: bool,
}

/// Writes records to `out`, and how the log ends to `aside`.
pub fn dump(
    place: &Place,
    options: &DumpOptions,
    out: &mut dyn Write,
    aside: &mut dyn Write,
) -> Result<Status, Trouble> {
    let mut dump = Dump {
        options,
        out: Out { to: out, json: options.json },
        next: options.from,
        left: options.limit.unwrap_or(u64::MAX),
        refused: 0,
        cold: Some(Cold::open(place)?),
        failed: None,
    };
    let stopped = dump.read_all(place)?;
    if let Some(trouble) = dump.failed {
        return Err(trouble);
    }
    let (next, refused) = (dump.next, dump.refused);
    match stopped {
        // What lies behind was not asked for.
        Ended::Enough => Ok(if refused > 0 { Status::Refused } else { Status::Good }),
        Ended::AtEnd | Ended::AtStop(_) => conclude(place, &stopped, next, refused, aside),
    }
}

fn conclude(
    place: &Place,
    ended: &Ended,
    next: Lsn,
    refused: u64,
    aside: &mut dyn Write,
) -> Result<Status, Trouble> {
    // Where all was read to its end, the verdict is about what lies behind that.
    let from = if matches!(ended, Ended::AtEnd) { Lsn::new(u64::MAX) } else { Lsn::FIRST };
    let judgement = judge(place, from)?;
    place.check_unchanged()?;
    let status = match judgement {
        Judgement::Damaged(damage) => {
            writeln!(aside, "damaged: {damage}; all records before {next} were shown; {MORE}")?;
            Status::Damaged
        }
        Judgement::Unreadable(reason) => {
            writeln!(aside, "unreadable: {reason}; all records before {next} were shown; {MORE}")?;
            Status::Unreadable
        }
        Judgement::Good(recovery) => {
            if let Some((file, offset)) = torn(&recovery) {
                writeln!(
                    aside,
                    "torn: a crash cut off the last write at {file}, byte {offset}; nobody was \
                     told of its records"
                )?;
            }
            if refused > 0 { Status::Refused } else { Status::Good }
        }
    };
    if refused > 0 {
        writeln!(aside, "refused: {refused} records have a body that a broker does not take")?;
    }
    Ok(status)
}

const MORE: &str = "`zzq_journal verify` says what lies behind";

fn torn(recovery: &Recovery) -> Option<(&str, u64)> {
    recovery.segments.iter().find_map(|report| match report.end {
        End::Torn { offset } => Some((report.file.as_str(), offset)),
        _ => None,
    })
}

/// Why no more records are shown.
#[derive(Debug, PartialEq, Eq)]
enum Ended {
    /// All that were asked for have been.
    Enough,
    /// The log has no more.
    AtEnd,
    /// Something is not intact before this record.
    AtStop(Lsn),
}

struct Dump<'d> {
    options: &'d DumpOptions,
    out: Out<'d>,
    /// The next record to look at.
    next: Lsn,
    left: u64,
    refused: u64,
    /// Records that the log may not have any more; `None` while they are shown.
    cold: Option<Cold>,
    failed: Option<Trouble>,
}

impl Dump<'_> {
    /// Where a log moves, what was being written when it was read is there at the next reading.
    fn read_all(&mut self, place: &Place) -> Result<Ended, Trouble> {
        loop {
            let next = self.next;
            let ended = self.read(place)?;
            if !matches!(ended, Ended::AtStop(_)) || !place.is_live() || self.next == next {
                return Ok(ended);
            }
        }
    }

    fn read(&mut self, place: &Place) -> Result<Ended, Trouble> {
        let survey = place.survey()?;
        let mut ended = Ended::AtEnd;
        walk(&survey, self.next, &mut |event| {
            let flow = match event {
                Event::Record(found) => {
                    self.cold_below(found.lsn).and_then(|()| self.record(&found, false))
                }
                Event::Stop(_) => Err(Ended::AtStop(self.next)),
                Event::Segment { .. }
                | Event::Group { .. }
                | Event::Headless { .. }
                | Event::End { .. } => Ok(()),
            };
            match flow {
                Ok(()) => ControlFlow::Continue(()),
                Err(reason) => {
                    ended = reason;
                    ControlFlow::Break(())
                }
            }
        })?;
        if ended == Ended::AtEnd {
            // A log may have nothing but a place to go on.
            ended = self.cold_below(Lsn::new(u64::MAX)).err().unwrap_or(ended);
        }
        Ok(ended)
    }

    /// Shows what is left of records that the log does not have before this one.
    fn cold_below(&mut self, below: Lsn) -> Result<(), Ended> {
        if below <= self.next {
            return Ok(());
        }
        let Some(cold) = self.cold.take() else { return Ok(()) };
        let mut ended = Ok(());
        let outcome = cold.each(self.next, below, &mut |found| {
            ended = self.record(found, true);
            if ended.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        self.cold = Some(cold);
        if let Err(trouble) = outcome {
            self.failed = Some(trouble);
            return Err(Ended::Enough);
        }
        ended
    }

    fn record(&mut self, found: &Found<'_>, cold: bool) -> Result<(), Ended> {
        if found.lsn > self.options.to || self.left == 0 {
            return Err(Ended::Enough);
        }
        if found.lsn < self.next {
            return Ok(());
        }
        self.next = Lsn::new(found.lsn.get().saturating_add(1));
        let decoded = || Record::decode(found.kind, found.body);
        let record = (!self.options.opaque).then(decoded);
        if !self.is_wanted(found, record.as_ref()) {
            return Ok(());
        }
        self.left -= 1;
        let line = RecordLine { cold, ..self.line(found, record) };
        if let Err(error) = self.out.say(&line) {
            self.failed = Some(error.into());
            return Err(Ended::Enough);
        }
        Ok(())
    }

    fn is_wanted(
        &self,
        found: &Found<'_>,
        record: Option<&Result<Record<'_>, RecordError>>,
    ) -> bool {
        let kinds = &self.options.kinds;
        if !kinds.is_empty() && !kinds.contains(&found.kind) {
            return false;
        }
        let Some(filter) = &self.options.topic else { return true };
        let Ok(filter) = TopicFilter::new(filter) else { return false };
        record.is_some_and(|record| record.is_ok_and(|record| names_topic(&record, filter)))
    }

    fn line(
        &mut self,
        found: &Found<'_>,
        record: Option<Result<Record<'_>, RecordError>>,
    ) -> RecordLine {
        let describe = Describe { form: self.options.payload };
        let mut unknown = Fields::new();
        let fields = match record {
            Some(Ok(record)) => describe.record(&record),
            Some(Err(error)) => {
                self.refused += 1;
                unknown.text("refused", &error.to_string());
                unknown.add("body", describe.bytes(found.body));
                unknown
            }
            None => {
                unknown.add("body", describe.bytes(found.body));
                unknown
            }
        };
        let name = if self.options.opaque { None } else { Record::kind_name(found.kind) };
        RecordLine {
            lsn: found.lsn.get(),
            time: Date(found.time_ms).to_string(),
            time_ms: found.time_ms,
            kind: found.kind,
            name,
            waits: found.flags.has(Flags::WAITS),
            parts: found.flags.has(Flags::CONTINUES),
            cold: false,
            bytes: found.body.len(),
            fields,
        }
    }
}

/// A record.
#[derive(Debug, Serialize)]
struct RecordLine {
    lsn: u64,
    time: String,
    time_ms: u64,
    kind: u8,
    name: Option<&'static str>,
    /// Somebody waited for it to be durable.
    waits: bool,
    /// It was written in parts.
    parts: bool,
    /// It outlived its segment.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    cold: bool,
    bytes: usize,
    fields: Fields,
}

impl fmt::Display for RecordLine {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "@{} {} ", self.lsn, self.time)?;
        match self.name {
            Some(name) => out.write_str(name)?,
            None => write!(out, "kind-{}", self.kind)?,
        }
        let flags = [("waits", self.waits), ("parts", self.parts), ("cold", self.cold)];
        for (name, _) in flags.into_iter().filter(|(_, set)| *set) {
            write!(out, " {name}")?;
        }
        write!(out, " {} bytes", self.bytes)?;
        if self.fields.is_empty() { Ok(()) } else { write!(out, " {}", self.fields) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::documented::{PAGE, documented, printed};

    #[test]
    fn the_fields_of_a_record_are_those_in_the_documents() {
        let line = RecordLine {
            lsn: 1,
            time: String::new(),
            time_ms: 0,
            kind: 1,
            name: None,
            waits: false,
            parts: false,
            // Else it is left out.
            cold: true,
            bytes: 0,
            fields: Fields::new(),
        };
        assert_eq!(documented(PAGE, "record"), printed(&serde_json::to_value(&line).unwrap()));
    }
}
