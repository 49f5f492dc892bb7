//! What has been measured: a line of JSON for each round of a point.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use zzq_bench::spread::Spread;

/// A round of a point of an axis.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) axis: String,
    pub(crate) point: u64,
    /// Counted from 0.
    pub(crate) round: u32,
    /// Of each stream of messages.
    pub(crate) seconds: f64,
    /// Of all of it.
    pub(crate) took: f64,
    pub(crate) date: String,
    /// Of the machine: processor, kernel, file system.
    pub(crate) machine: String,
    pub(crate) version: String,
    /// A checksum of the program.
    pub(crate) program: u32,
    pub(crate) measures: BTreeMap<String, f64>,
}

/// What a record is of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Key<'a> {
    pub(crate) axis: &'a str,
    pub(crate) point: u64,
    pub(crate) round: u32,
    /// Of each stream of messages.
    pub(crate) seconds: f64,
    pub(crate) program: u32,
}

impl Record {
    /// Whether it need not be measured again.
    pub(crate) fn is(&self, other: &Key<'_>) -> bool {
        let key = Key {
            axis: &self.axis,
            point: self.point,
            round: self.round,
            seconds: self.seconds,
            program: self.program,
        };
        key == *other
    }
}

/// Of each axis what was measured with the build that was measured last.
pub(crate) fn keep_newest_builds(records: &mut Vec<Record>) {
    let newest: BTreeMap<String, u32> =
        records.iter().map(|record| (record.axis.clone(), record.program)).collect();
    records.retain(|record| newest.get(&record.axis) == Some(&record.program));
}

/// Drops points with fewer rounds; says which.
pub(crate) fn drop_below(records: &mut Vec<Record>, rounds: u32) -> Vec<String> {
    let mut counts: BTreeMap<(String, u64), u32> = BTreeMap::new();
    for record in &*records {
        *counts.entry((record.axis.clone(), record.point)).or_default() += 1;
    }
    counts.retain(|_, count| *count < rounds);
    records.retain(|record| !counts.contains_key(&(record.axis.clone(), record.point)));
    counts.into_keys().map(|(axis, point)| format!("{axis} {point}")).collect()
}

/// The points of an axis that were measured, upwards.
pub(crate) fn points(records: &[Record], axis: &str) -> Vec<u64> {
    let of_axis = records.iter().filter(|record| record.axis == axis);
    of_axis.map(|record| record.point).collect::<BTreeSet<_>>().into_iter().collect()
}

/// The median of the rounds.
pub(crate) fn median(records: &[Record], axis: &str, point: u64, measure: &str) -> Option<f64> {
    let of_point = records.iter().filter(|record| record.axis == axis && record.point == point);
    let median = Spread::of(of_point.filter_map(|record| record.measures.get(measure).copied()));
    Some(median.median).filter(|median| median.is_finite())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn record(axis: &str, point: u64, round: u32, measures: &[(&str, f64)]) -> Record {
        Record {
            axis: axis.into(),
            point,
            round,
            seconds: 1.0,
            took: 2.0,
            date: "2026-01-02".into(),
            machine: "a machine".into(),
            version: "ours 1".into(),
            program: 7,
            measures: measures.iter().map(|(name, at)| ((*name).into(), *at)).collect(),
        }
    }

    #[test]
    fn the_median_is_that_of_the_rounds_that_have_it() {
        let records = [
            record("a", 10, 0, &[("x", 3.0)]),
            record("a", 10, 1, &[("x", 1.0)]),
            record("a", 10, 2, &[("x", 9.0), ("y", 5.0)]),
            record("a", 1, 0, &[("x", 100.0)]),
            record("b", 10, 0, &[("x", 200.0)]),
        ];
        assert_eq!(points(&records, "a"), [1, 10]);
        assert_eq!(median(&records, "a", 10, "x"), Some(3.0));
        assert_eq!(median(&records, "a", 10, "y"), Some(5.0));
        assert_eq!(median(&records, "b", 10, "y"), None);
    }

    #[test]
    fn of_each_axis_the_last_build_counts() {
        let old = Record { program: 6, ..record("a", 1, 0, &[]) };
        let other = Record { program: 6, ..record("b", 1, 0, &[]) };
        let new = record("a", 1, 0, &[]);
        let mut records = vec![old, other.clone(), new.clone()];
        keep_newest_builds(&mut records);
        assert_eq!(records, [other, new]);
    }

    #[test]
    fn points_with_too_few_rounds_are_named_and_gone() {
        let mut records: Vec<Record> = (0..3).map(|round| record("a", 1, round, &[])).collect();
        records.push(record("a", 10, 0, &[]));
        assert_eq!(drop_below(&mut records, 3), ["a 10"]);
        assert_eq!(points(&records, "a"), [1]);
        let key = Key { axis: "a", point: 1, round: 1, seconds: 1.0, program: 7 };
        assert!(records[1].is(&key));
        let others = [Key { program: 8, ..key }, Key { seconds: 0.3, ..key }];
        assert!(others.iter().all(|other| !records[1].is(other)));
    }
}
