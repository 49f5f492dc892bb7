//! Torn or damaged: what follows from the place where the intact groups end.
//!
//! Owns: the proofs that something was durable, and the rule. Only such a proof makes damage:
//! without one the end is a write that was never acknowledged.

use crate::error::Damage;
use crate::format::group::GroupHeader;
use crate::format::segment::LastGood;
use crate::log::FLIGHTS_MAX;
use crate::lsn::Lsn;

/// What is known to have been durable, and from where.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Proof {
    group: u64,
    lsn: Lsn,
    group_source: String,
    lsn_source: String,
}

impl Proof {
    /// Group and LSN (zero if unknown) were durable, says `source`.
    pub(crate) fn add(&mut self, group: u64, lsn: Lsn, source: impl Fn() -> String) {
        if group > self.group {
            self.group = group;
            self.group_source = source();
        }
        if lsn > self.lsn {
            self.lsn = lsn;
            self.lsn_source = source();
        }
    }

    /// A group was sealed only when the one two before it was durable, and says which LSN was.
    pub(crate) fn add_header(&mut self, header: &GroupHeader, source: impl Fn() -> String) {
        self.add(header.number.saturating_sub(FLIGHTS_MAX as u64), header.durable, source);
    }

    /// Whether something that was durable lies behind `last`, the last intact group.
    pub(crate) fn contradicts(&self, last: &LastGood) -> bool {
        self.group > last.group || self.lsn > last.lsn
    }

    /// Whether it says that the group was durable. Of a group that completes no record an LSN tells
    /// nothing.
    pub(crate) fn covers(&self, header: &GroupHeader) -> bool {
        self.group >= header.number || header.records > 0 && self.lsn >= header.last_lsn()
    }

    /// The report about the place where the groups end although more was durable.
    pub(crate) fn damage(&self, last: &LastGood, at: (String, u64), reason: String) -> Damage {
        let source = if self.lsn > last.lsn { &self.lsn_source } else { &self.group_source };
        Damage {
            file: at.0,
            offset: at.1,
            first: last.lsn.next(),
            last: self.lsn.max(last.lsn),
            reason,
            proof: format!(", says {source}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good(group: u64, lsn: u64) -> LastGood {
        LastGood { segment: 1, end: 8192, group, lsn: Lsn::new(lsn), time_ms: 5, checksum: 9 }
    }

    #[test]
    fn an_end_is_damage_only_where_more_was_durable() {
        let mut proof = Proof::default();
        assert!(!proof.contradicts(&good(0, 0)));
        proof.add(4, Lsn::new(30), || "meta".to_owned());
        assert!(!proof.contradicts(&good(4, 30)));
        assert!(proof.contradicts(&good(3, 30)), "a group with parts only was durable");
        assert!(proof.contradicts(&good(4, 29)));
        let damage = proof.damage(&good(2, 10), ("x.log".to_owned(), 4096), "gone".to_owned());
        assert_eq!((damage.first, damage.last), (Lsn::new(11), Lsn::new(30)));
        assert!(damage.to_string().contains("meta"), "{damage}");
    }

    #[test]
    fn a_second_write_in_flight_proves_nothing_about_the_first() {
        let mut header = crate::format::group::tests::sample();
        (header.number, header.durable) = (6, Lsn::new(20));
        let mut proof = Proof::default();
        proof.add_header(&header, || "a later group".to_owned());
        assert!(!proof.contradicts(&good(4, 20)), "group 5 may be the torn one");
        assert!(proof.contradicts(&good(3, 20)));
    }
}
