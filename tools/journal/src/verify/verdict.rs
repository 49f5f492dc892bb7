//! The last word about a log: recovery's, with what the reading found behind it.

use zzq_wal::{Damage, End, Recovery};

use super::Tallied;
use crate::Status;
use crate::judge::Judgement;
use crate::place::Place;
use crate::report::{Ends, Index, SegmentLine, VerdictLine};

pub(super) struct Verdict {
    pub(super) status: Status,
    pub(super) line: VerdictLine,
}

/// Joins both, and says how each segment ends.
pub(super) fn reach(place: &Place, judgement: &Judgement, tallied: &mut Tallied) -> Verdict {
    let mut line = sums(tallied);
    let records = span(&line);
    let status = match judgement {
        Judgement::Good(recovery) => {
            let torn = take_ends(recovery, tallied);
            let disagree = (!place.is_live()).then(|| disagreement(recovery, tallied)).flatten();
            if let Some(text) = disagree {
                (line.verdict, line.text) = ("damaged", text);
                Status::Damaged
            } else if let Some(bad) = tallied.bad_indexes.first() {
                line.verdict = "damaged";
                line.text = format!(
                    "{bad}; the broker starts and finds records without it, but bytes on this \
                     device have changed: {records}. {COPY_FIRST}"
                );
                Status::Damaged
            } else {
                end_well(torn, &records, tallied, &mut line)
            }
        }
        Judgement::Damaged(damage) => {
            spoil_ends(&damage.file, damage.offset, tallied);
            (line.file, line.offset) = (Some(damage.file.clone()), Some(damage.offset));
            line.verdict = "damaged";
            line.text = damaged(damage, &line, &records, place);
            Status::Damaged
        }
        Judgement::Unreadable(reason) => {
            line.verdict = "unreadable";
            line.text = format!("{reason}; {records} could be read. {COPY_FIRST}");
            Status::Unreadable
        }
    };
    line.status = status as u8;
    Verdict { status, line }
}

/// Where a write was cut off, and what is wrong there.
struct Torn {
    file: String,
    offset: u64,
    why: String,
}

pub(super) const COPY_FIRST: &str =
    "Before anything else copy the directory, and look at the device's health";

fn sums(tallied: &Tallied) -> VerdictLine {
    let sum = |of: fn(&SegmentLine) -> u64| tallied.segments.iter().map(of).sum();
    VerdictLine {
        verdict: "clean",
        status: 0,
        records: sum(|line| line.records),
        first_lsn: tallied.segments.iter().find_map(|line| line.first_lsn),
        last_lsn: tallied.segments.iter().rev().find_map(|line| line.last_lsn),
        segments: tallied.segments.len(),
        groups_behind: sum(|line| line.groups_behind),
        records_behind: sum(|line| line.records_behind),
        refused: tallied.refused_count,
        file: None,
        offset: None,
        text: String::new(),
    }
}

fn span(line: &VerdictLine) -> String {
    match (line.first_lsn, line.last_lsn) {
        (Some(first), Some(last)) => format!("{} records @{first}..@{last}", line.records),
        _ => "no record".to_owned(),
    }
}

/// A broker starts, unless a record is none of its.
fn end_well(
    torn: Option<Torn>,
    records: &str,
    tallied: &Tallied,
    line: &mut VerdictLine,
) -> Status {
    let text = match torn {
        None => records.to_owned(),
        Some(Torn { file, offset, why }) => {
            let text = format!(
                "{records}; the log ends at {file}, byte {offset}{why}, in a write that a crash \
                 cut off and nobody was told of: nothing that was acknowledged is lost"
            );
            (line.verdict, line.file, line.offset) = ("torn", Some(file), Some(offset));
            text
        }
    };
    if tallied.refused_count == 0 {
        line.text = text;
        return Status::Good;
    }
    let count = tallied.refused_count;
    line.verdict = "refused";
    line.text = format!(
        "{text}; {count} of them have a body that this program does not take, and the broker would \
         refuse to start: a newer broker, or (see --opaque) another program wrote them"
    );
    Status::Refused
}

/// How segments end, as recovery says. Returns where the log is torn, if it is.
fn take_ends(recovery: &Recovery, tallied: &mut Tallied) -> Option<Torn> {
    let mut torn = None;
    for report in &recovery.segments {
        let found = tallied.segments.iter_mut().find(|line| line.number == report.number);
        let Some(line) = found else { continue };
        (line.end, line.offset) = match report.end {
            End::Continued { offset } => (Ends::Continued, Some(offset)),
            End::Clean { offset } => (Ends::Clean, Some(offset)),
            End::Torn { offset } => {
                let why = report.void.as_ref().map(|void| format!(" ({})", void.reason));
                let (file, why) = (report.file.clone(), why.unwrap_or_default());
                torn = Some(Torn { file, offset, why });
                (Ends::Torn, Some(offset))
            }
            End::Skipped => (Ends::Continued, line.offset),
            End::Void => (Ends::Void, None),
        };
    }
    torn
}

/// Two readings of the same bytes must find the same.
fn disagreement(recovery: &Recovery, tallied: &Tallied) -> Option<String> {
    let reports = recovery.segments.iter().filter(|report| report.end != End::Skipped);
    for report in reports {
        let line = tallied.segments.iter().find(|line| line.number == report.number);
        let found = line.map_or((0, 0), |line| (line.groups, line.records));
        if found != (report.groups, report.records) {
            return Some(format!(
                "recovery finds {} groups with {} records in {}, verify {} with {}: that is a \
                 fault of this program, please report it with a copy of the directory",
                report.groups, report.records, report.file, found.0, found.1
            ));
        }
    }
    None
}

/// How segments end around a damaged place.
fn spoil_ends(file: &str, offset: u64, tallied: &mut Tallied) {
    let at = tallied.segments.iter().position(|line| line.file == file);
    let last = tallied.segments.iter().rposition(|line| line.groups > 0);
    for (nth, line) in tallied.segments.iter_mut().enumerate() {
        if line.end == Ends::Trimmed || line.offset.is_none() {
            continue;
        }
        line.end = match at {
            Some(at) if nth == at => Ends::Damaged,
            Some(at) if nth > at && line.groups + line.groups_behind > 0 => Ends::Behind,
            _ if line.groups == 0 && line.groups_behind == 0 => Ends::Void,
            _ if line.groups_behind > 0 => Ends::Behind,
            _ if Some(nth) == last => Ends::Clean,
            _ => Ends::Continued,
        };
        if line.end == Ends::Damaged {
            line.offset = Some(offset);
        }
        if line.end == Ends::Void {
            line.offset = None;
        }
    }
    if let Some(line) = at.map(|at| &mut tallied.segments[at])
        && line.index == Index::Good
        && line.groups_behind > 0
    {
        line.index = Index::None;
    }
}

fn damaged(damage: &Damage, line: &VerdictLine, records: &str, place: &Place) -> String {
    let behind = match (line.groups_behind, line.records_behind) {
        (0, _) => "no intact group lies behind it".to_owned(),
        (groups, records) => {
            format!("{groups} intact groups with {records} records lie behind it")
        }
    };
    let name = place.name();
    format!(
        "{damage}; {behind}; {records} are intact before it. The broker refuses to start. \
         {COPY_FIRST}; `zzq_journal dump {name}` prints what is intact before the damage; then \
         restore the directory from a copy, or start on an empty one"
    )
}
