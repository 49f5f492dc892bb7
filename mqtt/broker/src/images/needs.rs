//! Which files the entries of an image need, and how much of each.
//!
//! Owns: the records that they name, told apart: old ones, which go to cold files, and others,
//! which stay in their segments. What the log since the image before names of the time before it,
//! and that image does not, is not old yet: whichever of the two a start takes, what the log behind
//! it names is in the log, until there is another one.

use std::collections::BTreeMap;

use zzq_engine::image::{ImageError, Section, references};
use zzq_snapshot::{Need, NeededKind};
use zzq_wal::{KeptSegment, Lsn};

use super::late::Late;
use super::olds::{Old, Olds, Run};

/// Gathers needs while entries go by.
#[derive(Debug)]
pub(super) struct Needs {
    /// By the first record of the segment.
    segments: BTreeMap<Lsn, KeptSegment>,
    by_number: BTreeMap<u64, Need>,
    /// Records below are old.
    old_below: Lsn,
    /// But for these, ascending.
    late: Vec<Lsn>,
    /// What decisions name that may be nowhere else yet: it is as if the image named it.
    decided: Late,
    old: Olds,
}

impl Needs {
    /// For entries that name records of these segments; those below `old_below` are old, but for
    /// `late` ones, ascending, which are in the log. What is `decided` must be there, too.
    pub(super) fn new(
        segments: Vec<KeptSegment>,
        old_below: Lsn,
        late: Vec<Lsn>,
        decided: Late,
    ) -> Self {
        let segments = segments.into_iter().map(|segment| (segment.first, segment)).collect();
        let (by_number, old) = (BTreeMap::new(), Olds::default());
        Self { segments, by_number, old_below, late, decided, old }
    }

    /// An entry goes into the image.
    pub(super) fn note(
        &mut self,
        section: Section,
        key: &[u8],
        value: &[u8],
    ) -> Result<(), ImageError> {
        references(section, key, value, |lsn, size| self.add(Lsn::new(lsn.get()), size))
    }

    /// Segments by number, and old records ascending.
    pub(super) fn finish(mut self) -> (Vec<Need>, Run) {
        for (lsn, size) in std::mem::take(&mut self.decided).finish() {
            self.add(lsn, size);
        }
        (self.by_number.into_values().collect(), self.old.finish())
    }

    /// Something else needs a record.
    pub(super) fn add(&mut self, lsn: Lsn, size: u32) {
        let bytes = u64::from(size);
        self.decided.note_named(lsn);
        if lsn < self.old_below && self.late.binary_search(&lsn).is_err() {
            self.old.add(Old { lsn, references: 1, bytes });
            return;
        }
        let Some((_, segment)) = self.segments.range(..=lsn).next_back() else { return };
        let kind = NeededKind::Segment;
        let need =
            self.by_number.entry(segment.number).or_insert_with(|| empty(kind, segment.number));
        count(need, Old { lsn, references: 1, bytes });
    }
}

/// A need of nothing yet.
pub(super) const fn empty(kind: NeededKind, number: u64) -> Need {
    let (first, last) = (Lsn::new(u64::MAX), Lsn::ZERO);
    Need { kind, number, first, last, references: 0, bytes: 0 }
}

/// Puts needs in order, those of one file together.
pub(super) fn join(needs: &mut Vec<Need>) {
    needs.sort_unstable_by_key(|need| (need.kind, need.number));
    needs.dedup_by(|other, kept| {
        let same = (other.kind, other.number) == (kept.kind, kept.number);
        if same {
            kept.first = kept.first.min(other.first);
            kept.last = kept.last.max(other.last);
            kept.references += other.references;
            kept.bytes += other.bytes;
        }
        same
    });
}

/// The file is needed for this record, too.
pub(super) fn count(need: &mut Need, old: Old) {
    need.first = need.first.min(old.lsn);
    need.last = need.last.max(old.lsn);
    need.references += old.references;
    need.bytes += old.bytes;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_counted_in_their_segments_and_old_ones_by_themselves() {
        let segment = |number, first, last| KeptSegment {
            number,
            first: Lsn::new(first),
            last: Lsn::new(last),
            bytes: 0,
        };
        let segments = vec![segment(3, 10, 19), segment(5, 20, 29), segment(6, 30, 39)];
        let late = vec![Lsn::new(11), Lsn::new(12), Lsn::new(14)];
        let mut needs = Needs::new(segments, Lsn::new(20), late, Late::default());
        let noted = [(19, 100), (9, 1), (19, 10), (20, 1000), (25, 1), (39, 5), (14, 7), (12, 2)];
        for (lsn, size) in noted {
            needs.add(Lsn::new(lsn), size);
        }
        let (needs, old) = needs.finish();
        let old: Vec<_> = old.iter().map(|o| (o.lsn.get(), o.references, o.bytes)).collect();
        assert_eq!(old, [(9, 1, 1), (19, 2, 110)]);
        let found: Vec<_> = needs
            .iter()
            .map(|n| (n.number, n.first.get(), n.last.get(), n.references, n.bytes))
            .collect();
        assert_eq!(found, [(3, 12, 14, 2, 9), (5, 20, 25, 2, 1001), (6, 39, 39, 1, 5)]);
    }
}
