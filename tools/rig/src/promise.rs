//! What the log has promised at a moment, and whether what was found keeps it.
//!
//! Owns: the judgement. Does not know: disks, processes.

use std::collections::BTreeMap;

use crate::body::Body;
use crate::notes::Note;

/// The sum of all notes up to a moment.
#[derive(Clone, Debug, Default)]
pub struct Promise {
    /// All up to this LSN was called durable.
    durable: u64,
    /// The newest owner of each LSN.
    owners: BTreeMap<u64, Body>,
    /// The last number of each lane that was acknowledged.
    acknowledged: BTreeMap<u64, u64>,
    /// What is below may be gone.
    trimmed: u64,
    term: u64,
    term_begun: u64,
}

/// What a start has shown.
#[derive(Clone, Debug, Default)]
pub struct Found {
    last: u64,
    term: u64,
    records: Vec<(u64, Body)>,
    wrong: Vec<String>,
}

impl Promise {
    /// Takes the next note of the workload into account.
    pub fn add(&mut self, note: &Note) {
        match note {
            // What a start finds is durable from then on. LSNs behind it are given again.
            Note::Started { last } => {
                self.durable = self.durable.max(*last);
                self.owners.split_off(&(last + 1));
            }
            Note::Appended { lsn, body } => {
                self.owners.insert(*lsn, *body);
            }
            Note::Durable { lsn } => self.durable = self.durable.max(*lsn),
            Note::Acknowledged { lane, number } => {
                let known = self.acknowledged.entry(*lane).or_default();
                *known = (*known).max(*number);
            }
            Note::Trimming { below } => self.trimmed = self.trimmed.max(*below),
            Note::TermBegun { term } => self.term_begun = self.term_begun.max(*term),
            Note::Term { term } => self.term = self.term.max(*term),
            Note::Found { .. } | Note::Wrong(_) => {}
        }
    }

    /// Last LSN that was called durable.
    pub fn durable(&self) -> u64 {
        self.durable
    }

    /// All that `found` breaks.
    pub fn judge(&self, found: &Found) -> Vec<String> {
        let mut broken = found.wrong.clone();
        if found.last < self.durable {
            let lost = format!("acknowledged up to {}, found up to {}", self.durable, found.last);
            broken.push(lost);
        }
        self.judge_order(found, &mut broken);
        self.judge_owners(found, &mut broken);
        self.judge_lanes(found, &mut broken);
        if !(self.term..=self.term_begun.max(self.term)).contains(&found.term) {
            let terms = (self.term, self.term_begun);
            broken.push(format!("the term is {}, and {terms:?} were stated", found.term));
        }
        broken
    }

    /// LSNs are dense, from a place at or below the trimmed one to the last.
    fn judge_order(&self, found: &Found, broken: &mut Vec<String>) {
        let first = found.records.first().map_or(found.last + 1, |(lsn, _)| *lsn);
        if first > self.trimmed.max(1) {
            broken.push(format!("begins with {first}, though {} was wanted", self.trimmed.max(1)));
        }
        let lsns = found.records.iter().map(|(lsn, _)| *lsn);
        if !lsns.eq(first..=found.last) {
            broken.push(format!("records {first} to {} are not all there once", found.last));
        }
    }

    fn judge_owners(&self, found: &Found, broken: &mut Vec<String>) {
        for (lsn, body) in &found.records {
            let owner = self.owners.get(lsn);
            if *lsn <= self.durable && owner.is_some_and(|owner| owner != body) {
                broken.push(format!("record {lsn} was acknowledged as {owner:?} and is {body:?}"));
            }
        }
    }

    /// A lane's records follow one another, and its acknowledged ones are among them.
    fn judge_lanes(&self, found: &Found, broken: &mut Vec<String>) {
        let mut lanes: BTreeMap<u64, Body> = BTreeMap::new();
        for (lsn, body) in &found.records {
            let follows = lanes
                .get(&body.lane)
                .is_none_or(|before| body.number == before.number + 1 && body.life >= before.life);
            if !follows {
                let before = lanes.get(&body.lane);
                broken.push(format!("record {lsn} is {body:?} and stands behind {before:?}"));
            }
            lanes.insert(body.lane, *body);
        }
        for (lane, number) in &self.acknowledged {
            let last = lanes.get(lane).map_or(0, |body| body.number);
            if last < *number && !self.is_trimmed(*lane, *number) {
                broken.push(format!("lane {lane}: {number} was acknowledged, {last} is the last"));
            }
        }
    }

    fn is_trimmed(&self, lane: u64, number: u64) -> bool {
        let owned = |body: &Body| body.lane == lane && body.number == number;
        let lsn = self.owners.iter().rev().find(|(_, body)| owned(body));
        lsn.is_some_and(|(lsn, _)| *lsn < self.trimmed)
    }
}

impl Found {
    /// Takes the next note of recovery into account.
    pub fn add(&mut self, note: Note) {
        match note {
            Note::Started { last } => self.last = last,
            Note::Term { term } => self.term = term,
            Note::Found { lsn, body } => self.records.push((lsn, body)),
            Note::Wrong(what) => self.wrong.push(what),
            other => self.wrong.push(format!("recovery says {other}")),
        }
    }

    /// How many records there are.
    pub fn records(&self) -> usize {
        self.records.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(number: u64) -> Body {
        Body { life: 1, lane: 0, number }
    }

    /// Three records, two of them durable, the first trimmed.
    fn promise() -> Promise {
        let mut promise = Promise::default();
        for lsn in 1..=3 {
            promise.add(&Note::Appended { lsn, body: body(lsn) });
        }
        promise.add(&Note::Durable { lsn: 2 });
        promise.add(&Note::Acknowledged { lane: 0, number: 2 });
        promise.add(&Note::Trimming { below: 2 });
        promise.add(&Note::TermBegun { term: 5 });
        promise
    }

    fn found(lsns: &[u64]) -> Found {
        let mut found = Found::default();
        for lsn in lsns {
            found.add(Note::Found { lsn: *lsn, body: body(*lsn) });
        }
        found.add(Note::Started { last: lsns.last().copied().unwrap_or(0) });
        found
    }

    #[test]
    fn what_was_promised_and_anything_more_is_good() {
        for lsns in [&[1, 2][..], &[2], &[1, 2, 3], &[2, 3]] {
            assert!(promise().judge(&found(lsns)).is_empty(), "{lsns:?}");
        }
    }

    #[test]
    fn each_broken_promise_is_named() {
        let breaks = |found: &Found, what: &str| {
            let broken = promise().judge(found).join("; ");
            assert!(broken.contains(what), "{what}: {broken}");
        };
        breaks(&found(&[1]), "acknowledged up to 2, found up to 1");
        breaks(&found(&[1]), "lane 0: 2 was acknowledged");
        breaks(&found(&[3]), "begins with 3");
        breaks(&found(&[1, 3]), "not all there once");
        let mut other = found(&[1]);
        other.add(Note::Found { lsn: 2, body: Body { life: 9, ..body(2) } });
        other.add(Note::Started { last: 2 });
        breaks(&other, "record 2 was acknowledged as");
        let mut forged = found(&[1, 2]);
        forged.add(Note::Found { lsn: 3, body: body(1) });
        forged.add(Note::Started { last: 3 });
        breaks(&forged, "stands behind");
        let mut term = found(&[1, 2]);
        term.add(Note::Term { term: 6 });
        breaks(&term, "the term is 6");
        let mut wrong = found(&[1, 2]);
        wrong.add(Note::Wrong("it does not mount".to_owned()));
        breaks(&wrong, "it does not mount");
    }
}
