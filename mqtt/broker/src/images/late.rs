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
#[derive(Debug)]
pub(super) struct Late {
    /// Only these count.
    before: Range<Lsn>,
    lsns: Vec<Lsn>,
    /// Of the first of them, which are there once: whether the image names it.
    is_named: Vec<bool>,
}

impl Late {
    /// Of the log behind an image that goes to the end of this range.
    pub(super) const fn new(before: Range<Lsn>) -> Self {
        Self { before, lsns: Vec::new(), is_named: Vec::new() }
    }

    /// A record behind the image.
    pub(super) fn note(&mut self, record: &Record<'_>) {
        let named = record.late_items().into_iter().flatten();
        let named = named.map(|item| Lsn::new(item.lsn.get()));
        self.lsns.extend(named.filter(|lsn| self.before.contains(lsn)));
        if self.lsns.len() >= FEW + 2 * self.is_named.len() {
            self.settle();
        }
    }

    /// All records have been noted.
    pub(super) fn settle(&mut self) {
        self.lsns.sort_unstable();
        self.lsns.dedup();
        self.is_named = vec![false; self.lsns.len()];
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.lsns.is_empty()
    }

    /// The image names this record itself, so it needs the file that has it.
    pub(super) fn is_of_image(&mut self, lsn: Lsn) {
        if let Ok(at) = self.lsns.binary_search(&lsn) {
            self.is_named[at] = true;
        }
    }

    /// Those that it does not name, ascending.
    pub(super) fn finish(self) -> Vec<Lsn> {
        let all = self.lsns.into_iter().zip(self.is_named);
        all.filter_map(|(lsn, is_named)| (!is_named).then_some(lsn)).collect()
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
        assert!(late.lsns.len() < 2 * FEW, "memory for each once: {}", late.lsns.len());
        late.settle();
        for lsn in [11, 12, 19, 40] {
            late.is_of_image(Lsn::new(lsn));
        }
        let left: Vec<_> = late.finish().into_iter().map(Lsn::get).collect();
        assert_eq!(left, [10, 15]);
    }
}
