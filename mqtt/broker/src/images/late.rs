//! What the log since an image names of the time before it, and that image does not: history that
//! was taken, above all.
//!
//! Owns: which records these are, each once. Does not know: where they are.

use std::ops::Range;

use zzq_engine::Record;
use zzq_wal::Lsn;

/// So many are not looked through for those that are there twice.
const FEW: usize = 1024;

/// See the file.
#[derive(Debug, Default)]
pub(super) struct Late {
    /// Only these count.
    before: Range<Lsn>,
    /// With how much each weighs.
    records: Vec<(Lsn, u32)>,
    /// Of the first of them, which are there once: whether the image names it.
    is_named: Vec<bool>,
}

impl Late {
    /// Of the log behind an image that goes to the end of this range.
    pub(super) const fn new(before: Range<Lsn>) -> Self {
        Self { before, records: Vec::new(), is_named: Vec::new() }
    }

    /// A record behind the image.
    pub(super) fn note(&mut self, record: &Record<'_>) {
        let named = record.late_items().into_iter().flatten();
        let named = named.map(|item| (Lsn::new(item.lsn.get()), item.size));
        self.records.extend(named.filter(|(lsn, _)| self.before.contains(lsn)));
        if self.records.len() >= FEW + 2 * self.is_named.len() {
            self.settle();
        }
    }

    /// All records have been noted.
    pub(super) fn settle(&mut self) {
        self.records.sort_unstable();
        self.records.dedup_by_key(|(lsn, _)| *lsn);
        self.is_named = vec![false; self.records.len()];
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// The image names this record itself, so it needs the file that has it.
    pub(super) fn note_named(&mut self, lsn: Lsn) {
        if let Ok(at) = self.records.binary_search_by_key(&lsn, |(lsn, _)| *lsn) {
            self.is_named[at] = true;
        }
    }

    /// Those that it does not name, ascending, with how much each weighs.
    pub(super) fn finish(self) -> impl Iterator<Item = (Lsn, u32)> {
        let all = self.records.into_iter().zip(self.is_named);
        all.filter_map(|(record, is_named)| (!is_named).then_some(record))
    }
}

#[cfg(test)]
mod tests {
    use zzq_engine::record::{LateDecision, LateItem, LateItemsBuf};
    use zzq_engine::{SessionNumber, SubscriptionIds};
    use zzq_types::QoS;

    use super::*;

    fn note(late: &mut Late, lsns: impl IntoIterator<Item = u64>) {
        let mut items = LateItemsBuf::default();
        for lsn in lsns {
            items.push(&LateItem {
                lsn: zzq_types::Lsn::new(lsn),
                qos: QoS::AtLeastOnce,
                retain: false,
                size: 1,
                expires_ms: None,
                pick: None,
                orphan: None,
                ids: SubscriptionIds::NONE,
            });
        }
        let session = SessionNumber::new(1).unwrap();
        late.note(&Record::LateDecision(LateDecision { session, items: items.as_list() }));
    }

    #[test]
    fn each_of_the_time_before_that_the_image_does_not_name_is_there_once() {
        let mut late = Late::new(Lsn::new(10)..Lsn::new(20));
        for _ in 0..3 * FEW {
            note(&mut late, [9, 10, 19, 15, 20, 12]);
        }
        let kept = late.records.len();
        assert!(kept < 2 * FEW, "memory for each once: {kept}");
        late.settle();
        for lsn in [11, 12, 19, 40] {
            late.note_named(Lsn::new(lsn));
        }
        let left: Vec<_> = late.finish().map(|(lsn, size)| (lsn.get(), size)).collect();
        assert_eq!(left, [(10, 1), (15, 1)]);
    }
}
