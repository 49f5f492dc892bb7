//! Old records that entries of an image name, in the order of the log: a few bytes for each, since
//! a state may name millions.
//!
//! Owns: how they are kept while they come in any order.

use zzq_wal::Lsn;

/// An old record that is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Old {
    pub(super) lsn: Lsn,
    /// How often.
    pub(super) references: u64,
    /// What these weigh together.
    pub(super) bytes: u64,
}

impl Old {
    /// About what its record takes: the messages of one are as large.
    pub(super) const fn record_bytes(self) -> u64 {
        match self.references {
            0 => self.bytes,
            references => self.bytes.div_ceil(references),
        }
    }
}

/// So many new ones are put in order at once.
const FRESH_MAX: usize = 1 << 16;

/// See the file: each once in the end, with all that was said of it.
#[derive(Debug, Default)]
pub(super) struct Olds {
    fresh: Vec<Old>,
    /// Each less than half as long as the one before.
    runs: Vec<Run>,
}

/// Ascending ones: the distance of each to the one before, references, bytes.
#[derive(Debug, Default)]
pub(super) struct Run {
    bytes: Vec<u8>,
    count: usize,
    last: u64,
}

impl Olds {
    pub(super) fn add(&mut self, old: Old) {
        self.fresh.push(old);
        if self.fresh.len() >= FRESH_MAX {
            self.settle();
        }
    }

    /// All of them.
    pub(super) fn finish(mut self) -> Run {
        self.settle();
        let runs = std::mem::take(&mut self.runs).into_iter().rev();
        runs.reduce(|shorter, longer| Run::merged(&shorter, &longer)).unwrap_or_default()
    }

    fn settle(&mut self) {
        self.fresh.sort_unstable_by_key(|old| old.lsn);
        let mut run = Run::default();
        let mut fresh = self.fresh.drain(..).peekable();
        while let Some(mut old) = fresh.next() {
            while let Some(same) = fresh.next_if(|next| next.lsn == old.lsn) {
                old = both(old, same);
            }
            run.push(old);
        }
        drop(fresh);
        while let Some(before) = self.runs.pop_if(|before| before.count < 2 * run.count) {
            run = Run::merged(&before, &run);
        }
        self.runs.push(run);
    }
}

impl Run {
    pub(super) fn push(&mut self, old: Old) {
        let lsn = old.lsn.get();
        for number in [lsn - self.last, old.references, old.bytes] {
            put(&mut self.bytes, number);
        }
        (self.last, self.count) = (lsn, self.count + 1);
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Old> {
        let (mut rest, mut lsn) = (&self.bytes[..], 0);
        std::iter::from_fn(move || {
            lsn += take(&mut rest)?;
            let (references, bytes) = (take(&mut rest)?, take(&mut rest)?);
            Some(Old { lsn: Lsn::new(lsn), references, bytes })
        })
    }

    pub(super) const fn len(&self) -> usize {
        self.count
    }

    fn merged(one: &Self, other: &Self) -> Self {
        let mut run = Self::default();
        let (mut left, mut right) = (one.iter().peekable(), other.iter().peekable());
        loop {
            let next = match (left.peek(), right.peek()) {
                (Some(one), Some(other)) if one.lsn == other.lsn => {
                    let same = both(*one, *other);
                    left.next();
                    right.next();
                    Some(same)
                }
                (Some(one), Some(other)) if one.lsn > other.lsn => right.next(),
                (Some(_), _) => left.next(),
                (None, _) => right.next(),
            };
            let Some(next) = next else { return run };
            run.push(next);
        }
    }
}

fn both(one: Old, other: Old) -> Old {
    let (references, bytes) = (one.references + other.references, one.bytes + other.bytes);
    Old { lsn: one.lsn, references, bytes }
}

/// LEB128.
fn put(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number.to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    bytes.push(number.to_le_bytes()[0]);
}

fn take(bytes: &mut &[u8]) -> Option<u64> {
    let (mut number, mut shift) = (0, 0);
    loop {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7F) << shift;
        if byte < 0x80 {
            return Some(number);
        }
        shift += 7;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn what_comes_in_any_order_is_there_once_in_the_logs() {
        let mut model: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
        let mut olds = Olds::default();
        let mut random = 1_u64;
        for n in 0..400_000_u64 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(n | 1);
            let (lsn, bytes) = (1 + (random >> 40) % 300_000, random >> 58);
            olds.add(Old { lsn: Lsn::new(lsn), references: 1, bytes });
            let of_it = model.entry(lsn).or_default();
            *of_it = (of_it.0 + 1, of_it.1 + bytes);
        }
        assert!(olds.runs.is_sorted_by(|one, next| one.count > next.count));
        let run = olds.finish();
        assert_eq!(run.len(), model.len());
        assert!(run.bytes.len() < 4 * run.len(), "a few bytes for each");
        let got = run.iter().map(|old| (old.lsn.get(), (old.references, old.bytes)));
        assert!(got.eq(model));
    }

    #[test]
    fn none_are_none() {
        assert_eq!(Olds::default().finish().iter().count(), 0);
    }
}
