//! What a log must show, in the simplest terms: the records in LSN order, and some numbers.
//!
//! Owns: the promise. Does not know: files, groups' bytes, faults.

use std::ops::Range;

use zzq_wal::RecoveredRecord;

/// A record as its producer staged it and the log timed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub kind: u8,
    pub waits: bool,
    pub time_ms: u64,
    pub body: Vec<u8>,
}

#[derive(Clone, Debug, Default)]
pub struct Expected {
    /// In LSN order, from LSN 1: what has an LSN, acknowledged or not.
    pub records: Vec<Record>,
    /// How many of them were acknowledged: they are there after any crash.
    pub durable: usize,
    /// Everything below may be gone.
    pub trimmed: usize,
    /// How many `meta` says were durable: they cannot be lost unseen even on a broken medium.
    pub marked: usize,
    /// The last LSN of each group, by group number from 1.
    pub group_ends: Vec<usize>,
    /// How many are committed, where that is not for the log to say: none of them is truncated.
    pub committed: usize,
    /// The log is being truncated, and so many records stay. Until that has ended a crash leaves
    /// the log whole, or these and no other.
    pub cut: Option<usize>,
    /// Truncations that have ended.
    pub cuts: u64,
}

impl Expected {
    /// How many records bytes on the medium prove to have been durable, whatever becomes of one or
    /// two neighbouring groups: what `meta` says, and all but the last two groups.
    pub fn proven(&self) -> usize {
        let proven = self.last_durable_group().checked_sub(3);
        self.uncut(proven.map_or(0, |at| self.group_ends[at]).max(self.marked))
    }

    /// How many records are there whatever becomes of a truncation.
    pub fn least(&self) -> usize {
        self.uncut(self.durable)
    }

    /// So many records, or those that stay.
    pub fn uncut(&self, count: usize) -> usize {
        self.cut.map_or(count, |cut| count.min(cut))
    }

    /// Places at which the log may be truncated: ends of groups.
    pub fn may_end(&self) -> Vec<usize> {
        let first = self.committed.max(self.trimmed);
        let mut ends: Vec<usize> = [0]
            .into_iter()
            .chain(self.group_ends.iter().copied())
            .filter(|end| *end >= first)
            .collect();
        ends.dedup();
        ends
    }

    /// The truncation has ended: what follows never comes back, other records take its place.
    pub fn finish_cut(&mut self) {
        let Some(cut) = self.cut.take() else { return };
        self.cuts += 1;
        self.records.truncate(cut);
        self.durable = cut;
        self.marked = self.marked.min(cut);
        // Of groups with parts only, behind the one with that end, nothing is known.
        let groups = self.group_ends.partition_point(|end| *end < cut) + usize::from(cut > 0);
        self.group_ends.truncate(groups);
    }

    /// The group with this number ends with the newest record.
    pub fn note_group(&mut self, number: u64, before: usize) {
        self.group_ends.resize(usize::try_from(number - 1).unwrap(), before);
        self.group_ends.push(self.records.len());
    }

    /// The number of the group that completes the last acknowledged record. Of groups of parts
    /// only, behind it, nothing is known.
    pub fn last_durable_group(&self) -> usize {
        match self.durable {
            0 => 0,
            durable => self.group_ends.partition_point(|end| *end < durable) + 1,
        }
    }

    /// A start begins that shows records from `visit_from` (counted from 0) on.
    pub fn visit(&self, visit_from: usize) -> Visited<'_> {
        let from = visit_from.max(self.trimmed);
        Visited { expected: self, visit_from, next: from, fault: None }
    }

    /// A start has found `end` records, and made them durable.
    pub fn settle(&mut self, end: usize, groups: u64) {
        self.cut = None;
        self.records.truncate(end);
        self.durable = end;
        self.marked = end;
        self.group_ends.truncate(usize::try_from(groups).unwrap());
    }
}

/// What one start has shown so far.
pub struct Visited<'e> {
    expected: &'e Expected,
    visit_from: usize,
    /// The next record that must come.
    next: usize,
    fault: Option<String>,
}

impl Visited<'_> {
    /// Of what is trimmed some may be there, of the rest all is, in order.
    pub fn take(&mut self, record: &RecoveredRecord<'_>) {
        let at = usize::try_from(record.lsn.get()).unwrap() - 1;
        let in_order = at == self.next || at < self.expected.trimmed && at >= self.visit_from;
        if at == self.next {
            self.next += 1;
        }
        let same = self.expected.records.get(at).is_some_and(|expected| {
            expected.kind == record.kind
                && expected.time_ms == record.time_ms
                && expected.waits == record.flags.has(zzq_wal::format::record::Flags::WAITS)
                && expected.body == record.body
        });
        if self.fault.is_none() && !(in_order && same) {
            let why = if same { "is not the next" } else { "is not what was written" };
            self.fault = Some(format!("record {} {why}", record.lsn));
        }
    }

    /// The start is over, and says that the log ends with `end` records; `least` must be there, or
    /// just those that a truncation leaves.
    pub fn finish(self, end: usize, least: usize) -> Result<(), String> {
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        if end < least && self.expected.cut != Some(end) {
            return Err(format!("it ends at {end}, {least} records were acknowledged"));
        }
        if end > self.expected.records.len() {
            let appended = self.expected.records.len();
            return Err(format!("it ends at {end}, {appended} records were appended"));
        }
        let left: Range<usize> = self.next..end;
        if !left.is_empty() {
            return Err(format!("records behind {} up to {end} are not shown", left.start));
        }
        Ok(())
    }
}
