//! What `verify` prints, a line for each thing, for people or as JSON.
//!
//! Owns: the words and the names of fields. Does not know: how it was found out.

use std::fmt;
use std::io::{self, Write};

use serde::Serialize;

use crate::escape::PlainJson;
use crate::time::Date;

/// Where lines go.
pub(crate) struct Out<'o> {
    pub(crate) to: &'o mut dyn Write,
    pub(crate) json: bool,
}

impl Out<'_> {
    /// One line.
    pub(crate) fn say<L: Serialize + fmt::Display>(&mut self, line: &L) -> io::Result<()> {
        if !self.json {
            return writeln!(self.to, "{line}");
        }
        let mut serializer = serde_json::Serializer::with_formatter(&mut *self.to, PlainJson);
        line.serialize(&mut serializer).map_err(io::Error::from)?;
        self.to.write_all(b"\n")
    }
}

/// A line of `verify`.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum Line {
    Log(LogLine),
    Segment(SegmentLine),
    Image(ImageLine),
    Cold(ColdLine),
    File(FileLine),
    Stop(StopLine),
    Refused(RefusedLine),
    Note(NoteLine),
    Verdict(VerdictLine),
}

/// What `meta` says.
#[derive(Debug, Default, Serialize)]
pub(crate) struct LogLine {
    pub(crate) log: String,
    pub(crate) node: u32,
    pub(crate) epoch: u64,
    pub(crate) term: u64,
    pub(crate) sequence: u64,
    pub(crate) durable_lsn: u64,
    pub(crate) durable_group: u64,
    pub(crate) snapshot_lsn: u64,
    pub(crate) first_segment: u64,
    pub(crate) last_segment: u64,
    pub(crate) first_group: Option<u64>,
    pub(crate) first_group_lsn: Option<u64>,
}

/// A segment.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct SegmentLine {
    pub(crate) number: u64,
    pub(crate) file: String,
    pub(crate) bytes: u64,
    pub(crate) epoch: u64,
    /// Groups and records up to the first place where something is wrong.
    pub(crate) groups: u64,
    pub(crate) records: u64,
    /// Intact groups and records behind such a place.
    pub(crate) groups_behind: u64,
    pub(crate) records_behind: u64,
    pub(crate) first_lsn: Option<u64>,
    pub(crate) last_lsn: Option<u64>,
    pub(crate) first_ms: Option<u64>,
    pub(crate) last_ms: Option<u64>,
    pub(crate) index: Index,
    pub(crate) end: Ends,
    pub(crate) offset: Option<u64>,
}

/// The index at the end of a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Index {
    /// The segment was not closed.
    #[default]
    None,
    /// It names the groups that are there.
    Good,
    /// It does not.
    Bad,
    /// A crash has cut its write off.
    CutOff,
}

/// How a segment ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Ends {
    Continued,
    Clean,
    Torn,
    Damaged,
    /// It lies behind the damage.
    Behind,
    /// No group in it counts.
    #[default]
    Void,
    Trimmed,
}

/// An image of the state.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct ImageLine {
    pub(crate) number: u64,
    pub(crate) file: String,
    pub(crate) bytes: u64,
    /// It is the state behind this record.
    pub(crate) lsn: u64,
    pub(crate) time_ms: u64,
    /// The image that it was made from.
    pub(crate) before: Option<u64>,
    pub(crate) sections: Vec<SectionCount>,
    /// The first record that it names.
    pub(crate) needs_from: Option<u64>,
    /// How many files with such records.
    pub(crate) needs: usize,
    /// The cold files among them.
    pub(crate) needs_cold: Vec<u64>,
    /// `meta` names it.
    pub(crate) marked: bool,
    pub(crate) end: ImageEnd,
    pub(crate) offset: Option<u64>,
    pub(crate) reason: Option<String>,
}

/// A cold file.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct ColdLine {
    pub(crate) number: u64,
    pub(crate) file: String,
    pub(crate) bytes: u64,
    pub(crate) records: u64,
    /// An image names records in it.
    pub(crate) needed: bool,
    pub(crate) end: ImageEnd,
    pub(crate) offset: Option<u64>,
    pub(crate) reason: Option<String>,
}

/// The entries of one section.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct SectionCount {
    pub(crate) name: String,
    pub(crate) entries: u64,
}

/// What becomes of an image or a cold file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ImageEnd {
    #[default]
    Good,
    Damaged,
    Unreadable,
    OtherLog,
    Missing,
    /// `meta` says nothing of it: whoever wrote it has ended before. A start leaves it out.
    Unstated,
}

/// A file that is no segment.
#[derive(Debug, Default, Serialize)]
pub(crate) struct FileLine {
    pub(crate) name: String,
    pub(crate) bytes: u64,
    pub(crate) what: &'static str,
}

/// Something that is not as it should be.
#[derive(Debug, Default, Serialize)]
pub(crate) struct StopLine {
    pub(crate) file: String,
    pub(crate) offset: u64,
    pub(crate) reason: String,
}

/// A record whose body is none of the engine's.
#[derive(Debug, Default, Serialize)]
pub(crate) struct RefusedLine {
    pub(crate) lsn: u64,
    pub(crate) kind: u8,
    pub(crate) reason: String,
}

/// Worth knowing, and harmless.
#[derive(Debug, Default, Serialize)]
pub(crate) struct NoteLine {
    pub(crate) text: String,
}

/// The last line.
#[derive(Debug, Default, Serialize)]
pub(crate) struct VerdictLine {
    pub(crate) verdict: &'static str,
    pub(crate) status: u8,
    pub(crate) records: u64,
    pub(crate) first_lsn: Option<u64>,
    pub(crate) last_lsn: Option<u64>,
    pub(crate) segments: usize,
    pub(crate) groups_behind: u64,
    pub(crate) records_behind: u64,
    pub(crate) refused: u64,
    pub(crate) file: Option<String>,
    pub(crate) offset: Option<u64>,
    pub(crate) text: String,
}

impl fmt::Display for Line {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Log(line) => write!(out, "{line}"),
            Self::Segment(line) => write!(out, "{line}"),
            Self::Image(line) => write!(out, "{line}"),
            Self::Cold(line) => write!(out, "{line}"),
            Self::File(FileLine { name, bytes, what }) => {
                write!(out, "file {}: {bytes} bytes, {what}", name.escape_debug())
            }
            Self::Stop(StopLine { file, offset, reason }) => {
                write!(out, "at {file}, byte {offset}: {reason}")
            }
            Self::Refused(RefusedLine { lsn, kind, reason }) => {
                write!(out, "record @{lsn} of kind {kind}: {reason}")
            }
            Self::Note(NoteLine { text }) => write!(out, "note: {text}"),
            Self::Verdict(line) => write!(out, "{}: {}", line.verdict, line.text),
        }
    }
}

impl fmt::Display for LogLine {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { log, epoch, term, sequence, durable_lsn, durable_group, .. } = self;
        write!(out, "log {log}: opened {epoch} times, term {term}, meta {sequence} says ")?;
        write!(out, "@{durable_lsn} and group {durable_group} were durable, ")?;
        write!(out, "segments {} to {}", self.first_segment, self.last_segment)?;
        if let (Some(group), Some(lsn)) = (self.first_group, self.first_group_lsn) {
            write!(out, " from group {group} with @{lsn} on")?;
        }
        match self.snapshot_lsn {
            0 => Ok(()),
            lsn => write!(out, ", image at @{lsn}"),
        }
    }
}

impl fmt::Display for SegmentLine {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "segment {}: {} bytes, start {}", self.number, self.bytes, self.epoch)?;
        write!(out, ", {} groups, {} records", self.groups, self.records)?;
        if let (Some(first), Some(last)) = (self.first_lsn, self.last_lsn) {
            write!(out, " @{first}..@{last}")?;
        }
        if let (Some(first), Some(last)) = (self.first_ms, self.last_ms) {
            write!(out, ", {} to {}", Date(first), Date(last))?;
        }
        if self.groups_behind > 0 {
            let (groups, records) = (self.groups_behind, self.records_behind);
            write!(out, ", behind a bad place {groups} groups, {records} records")?;
        }
        match self.index {
            Index::None => {}
            Index::Good => out.write_str(", index")?,
            Index::Bad => out.write_str(", BAD INDEX")?,
            Index::CutOff => out.write_str(", index cut off")?,
        }
        write!(out, ", {}", self.end)?;
        self.offset.map_or(Ok(()), |offset| write!(out, " at byte {offset}"))
    }
}

impl fmt::Display for ImageLine {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "image {}: ", self.number)?;
        if self.bytes > 0 {
            write!(out, "{} bytes, the state at @{}", self.bytes, self.lsn)?;
            write!(out, ", {}", Date(self.time_ms))?;
            for SectionCount { name, entries } in &self.sections {
                write!(out, ", {name} {entries}")?;
            }
            if let Some(first) = self.needs_from {
                write!(out, ", needs records from @{first} on in {} files", self.needs)?;
            }
            out.write_str(", ")?;
        }
        say_end(out, self.end, self.offset, self.reason.as_deref())?;
        if self.marked { out.write_str(", marked in meta") } else { Ok(()) }
    }
}

impl fmt::Display for ColdLine {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "cold file {}: ", self.number)?;
        if self.bytes > 0 {
            write!(out, "{} bytes, {} records, ", self.bytes, self.records)?;
        }
        say_end(out, self.end, self.offset, self.reason.as_deref())?;
        out.write_str(if self.needed { ", needed" } else { ", not needed any more" })
    }
}

fn say_end(
    out: &mut fmt::Formatter<'_>,
    end: ImageEnd,
    offset: Option<u64>,
    reason: Option<&str>,
) -> fmt::Result {
    out.write_str(match end {
        ImageEnd::Good => "good",
        ImageEnd::Damaged => "DAMAGED",
        ImageEnd::Unreadable => "UNREADABLE",
        ImageEnd::OtherLog => "OF ANOTHER LOG",
        ImageEnd::Unstated => "never marked: a start removes it",
        ImageEnd::Missing => "MISSING",
    })?;
    if let Some(offset) = offset {
        write!(out, " at byte {offset}")?;
    }
    reason.map_or(Ok(()), |reason| write!(out, ": {reason}"))
}

impl fmt::Display for Ends {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Continued => "goes on in the next",
            Self::Clean => "clean end",
            Self::Torn => "torn",
            Self::Damaged => "DAMAGED",
            Self::Behind => "behind the damage",
            Self::Void => "void",
            Self::Trimmed => "trimmed",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::documented::{PAGE, documented, printed};

    #[test]
    fn the_fields_of_each_line_are_those_in_the_documents() {
        let sections = vec![SectionCount::default()];
        let lines = [
            Line::Log(LogLine::default()),
            Line::Segment(SegmentLine::default()),
            Line::Image(ImageLine { sections, ..ImageLine::default() }),
            Line::Cold(ColdLine::default()),
            Line::File(FileLine::default()),
            Line::Stop(StopLine::default()),
            Line::Refused(RefusedLine::default()),
            Line::Note(NoteLine::default()),
            Line::Verdict(VerdictLine::default()),
        ];
        for line in lines {
            let value = serde_json::to_value(&line).unwrap();
            let name = value["type"].as_str().unwrap().to_owned();
            assert_eq!(documented(PAGE, &name), printed(&value), "{name}");
        }
    }
}
