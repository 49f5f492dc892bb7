//! Which segments the entries of an image name, and how much in each.

use std::collections::BTreeMap;

use zzq_engine::image::{ImageError, Section, references};
use zzq_snapshot::{Need, NeededKind};
use zzq_wal::{KeptSegment, Lsn};

/// Gathers needs while entries go by.
#[derive(Debug)]
pub(super) struct Needs {
    /// By the first record of the segment.
    segments: BTreeMap<Lsn, KeptSegment>,
    needs: BTreeMap<u64, Need>,
}

impl Needs {
    /// For entries that name records of these segments.
    pub(super) fn new(segments: Vec<KeptSegment>) -> Self {
        let segments = segments.into_iter().map(|segment| (segment.first, segment)).collect();
        Self { segments, needs: BTreeMap::new() }
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

    /// By number.
    pub(super) fn into_vec(self) -> Vec<Need> {
        self.needs.into_values().collect()
    }

    fn add(&mut self, lsn: Lsn, size: u32) {
        // What was trimmed before, which no state of ours refers to, pins nothing.
        let Some((_, segment)) = self.segments.range(..=lsn).next_back() else { return };
        let number = segment.number;
        let need = self.needs.entry(number).or_insert(Need {
            kind: NeededKind::Segment,
            number,
            first: lsn,
            last: lsn,
            references: 0,
            bytes: 0,
        });
        need.first = need.first.min(lsn);
        need.last = need.last.max(lsn);
        need.references += 1;
        need.bytes += u64::from(size);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_counted_in_their_segments() {
        let segment = |number, first, last| KeptSegment {
            number,
            first: Lsn::new(first),
            last: Lsn::new(last),
            bytes: 0,
        };
        let mut needs = Needs::new(vec![segment(3, 10, 19), segment(5, 20, 29)]);
        for (lsn, size) in [(9, 1), (19, 100), (12, 10), (20, 1000), (25, 1)] {
            needs.add(Lsn::new(lsn), size);
        }
        let found: Vec<_> = needs
            .into_vec()
            .iter()
            .map(|need| {
                (need.number, need.first.get(), need.last.get(), need.references, need.bytes)
            })
            .collect();
        assert_eq!(found, [(3, 12, 19, 2, 110), (5, 20, 25, 2, 1001)]);
    }
}
