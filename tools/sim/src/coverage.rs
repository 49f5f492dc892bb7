//! What the seeds have reached: every kind of fault and every operation has a name, and the report
//! lists those that no seed hit.

use std::collections::BTreeMap;

/// All names. A fault or operation without one here is a defect.
pub const KINDS: [&str; 170] = [
    "op connect",
    "op connect clean",
    "op connect with will",
    "op connect with delayed will",
    "op authenticate",
    "op authenticate again",
    "op disconnect",
    "op disconnect with will",
    "op drop",
    "op takeover",
    "op publish qos 0",
    "op publish qos 1",
    "op publish qos 2",
    "op publish retained",
    "op publish clears retained",
    "op publish expires",
    "op publish large",
    "op publish bytes of the log",
    "op publish denied",
    "op publish hidden",
    "op subscribe",
    "op subscribe shared",
    "op subscribe replay",
    "op subscribe from an offset",
    "op subscribe from a span ago",
    "op subscribe from a time",
    "op subscribe meanwhile",
    "op subscribe denied",
    "op unsubscribe",
    "op ping",
    "op resend",
    "op repeat",
    "op chat",
    "op define alias",
    "op publish by alias",
    "op late answer",
    "op refuse",
    "op stop reading",
    "version 3.1",
    "version 3.1.1",
    "version 5.0",
    "mode in memory",
    "mode log everything",
    "mode log needed",
    "mode deliver committed",
    "mode log thread",
    "lanes 1",
    "lanes 2",
    "lanes 3",
    "small rings",
    "lane sleeps",
    "lanes held up",
    "lane falls behind",
    "net cut",
    "net half-open for the broker",
    "net half-open for the client",
    "net stalled receiver",
    "net delay",
    "net late piece",
    "net split",
    "disk write fails",
    "disk write fails and is there",
    "disk write ends short",
    "disk fails to create",
    "disk fails to rename",
    "disk fails to remove",
    "disk fails to sync names",
    "disk tells others of lost names",
    "disk fails in a write",
    "disk fails to sync",
    "disk fails to read",
    "disk takes no write",
    "disk fails to list",
    "disk fails to open",
    "disk fails to give back",
    "disk says EIO",
    "disk says ENOSPC",
    "disk says EROFS",
    "disk turns read-only",
    "disk full",
    "disk small",
    "foreign files",
    "foreign file by a trimmed name",
    "disk is full",
    "disk has space again",
    "disk late completion",
    "disk completions out of order",
    "clock step forward",
    "clock step back",
    "clock drift",
    "crash kill",
    "crash power cut",
    "crash at an operation of the disk",
    "crash with writes in flight",
    "crash behind a delivery",
    "crash behind a repeat",
    "crash in recovery",
    "start fails on a fault",
    "recovery clean end",
    "recovery torn end",
    "recovery void segment",
    "recovery skips a segment",
    "recovery over segments",
    "recovery unfinished record",
    "recovery renews groups",
    "recovery takes back what is void",
    "recovery takes back what was trimmed",
    "recovery takes back what was not used",
    "recovery from an image",
    "recovery from the image before",
    "recovery within a record",
    "damage synced write lost",
    "damage synced write shifted",
    "damage synced write in another file",
    "damage remains behind the end",
    "damage segment has a bit changed",
    "damage segment has zeroes",
    "damage segment cut short",
    "damage segment gone",
    "damage segments exchanged",
    "damage meta has a bad page",
    "damage meta gone",
    "damage image changed",
    "damage image gone",
    "damage images exchanged",
    "damage cold file",
    "damage other file",
    "copy of a group within a group",
    "start on damage refused",
    "start on damage has all",
    "start on damage ends early",
    "stop in good order",
    "log read-only",
    "let in without a log",
    "session present",
    "session not present",
    "refused by quota",
    "connect too large",
    "input waits for room",
    "hook answers late",
    "hook does not answer",
    "full queue drops its oldest",
    "full queue drops the newest",
    "full queue ends its session",
    "full queue outlasts its grace",
    "all queues refuse",
    "all queues end a session",
    "expiring message delivered",
    "retained answered",
    "topic alias delivered",
    "will delivered",
    "will with a long delay",
    "fold compared",
    "fold not comparable",
    "queue read back",
    "image made",
    "image made for space",
    "image made amid turns",
    "crash amid an image",
    "image given up",
    "copy made",
    "copy restored to a record",
    "copy not compared",
    "start on a copy",
    "history is over",
    "history gone by size",
    "history gone by age",
    "history read by places",
    "at rest",
    "looked at what stays",
];

/// Counts by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Coverage(BTreeMap<&'static str, u64>);

impl Coverage {
    /// Counts one.
    ///
    /// # Panics
    /// The name is not listed.
    pub fn hit(&mut self, kind: &'static str) {
        assert!(KINDS.contains(&kind), "{kind} is not listed");
        *self.0.entry(kind).or_default() += 1;
    }

    /// How often.
    pub fn count(&self, kind: &str) -> u64 {
        self.0.get(kind).copied().unwrap_or(0)
    }

    /// Adds what another run has reached.
    pub fn add(&mut self, other: &Self) {
        for (kind, count) in &other.0 {
            *self.0.entry(kind).or_default() += count;
        }
    }

    /// Client operations.
    pub fn operations(&self) -> u64 {
        self.sum("op ")
    }

    /// Crashes of the broker, those in recovery among them.
    pub fn crashes(&self) -> u64 {
        ["crash kill", "crash power cut", "crash in recovery"]
            .map(|kind| self.count(kind))
            .iter()
            .sum()
    }

    /// All that begin so.
    pub fn sum(&self, start: &str) -> u64 {
        let begin = self.0.iter().filter(|(kind, _)| kind.starts_with(start));
        begin.map(|(_, count)| count).sum()
    }

    /// Names that nothing has hit.
    pub fn missed(&self) -> Vec<&'static str> {
        KINDS.into_iter().filter(|kind| self.count(kind) == 0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_hit_is_listed() {
        let mut coverage = Coverage::default();
        coverage.hit("op connect");
        let mut other = Coverage::default();
        other.hit("op connect");
        other.hit("crash in recovery");
        coverage.add(&other);
        assert_eq!((coverage.operations(), coverage.crashes()), (2, 1));
        assert_eq!(coverage.missed().len(), KINDS.len() - 2);
    }

    #[test]
    #[should_panic(expected = "is not listed")]
    fn what_has_no_name_cannot_be_hit() {
        Coverage::default().hit("op cook");
    }
}
