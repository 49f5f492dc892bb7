//! The cells of the comparison: how many records are in flight, of what size, and what is asked.
//!
//! Owns: the targets, and what the same bound reached on the machines that they were set on.

/// Writers with one record outstanding each.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Cell {
    /// Records in flight.
    pub(crate) writers: u64,
    /// Bytes of a record's body.
    pub(crate) payload: usize,
    /// What a bound has reached in this cell on an undisturbed machine: records a second, and
    /// their p50 in microseconds.
    pub(crate) table: (f64, f64),
    /// The log's records a second by the bound's: at least.
    pub(crate) rate_least: f64,
    /// The log's p50 by the bound's: at most.
    pub(crate) p50_most: f64,
}

/// A bound below this part of the table measures something else than the disk.
pub(crate) const TABLE_LEAST: f64 = 0.7;
/// With more writers than this it is memory and checksums that are measured, not the disk.
const TABLE_WRITERS_MAX: u64 = 1000;

pub(crate) const CELLS: [Cell; 6] = [
    Cell { rate_least: 0.9, ..Cell::of(1, 100, (5_200.0, 186.0)) },
    Cell::of(16, 100, (88_000.0, 178.0)),
    Cell::of(100, 100, (556_000.0, 169.0)),
    Cell { p50_most: 1.2, ..Cell::of(1000, 100, (3_450_000.0, 249.0)) },
    Cell { rate_least: 0.75, p50_most: 1.2, ..Cell::of(10_000, 100, (12_700_000.0, 568.0)) },
    Cell { p50_most: 1.2, ..Cell::of(1000, 1024, (1_480_000.0, 535.0)) },
];

/// How a cell came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// All that was asked.
    Passed,
    /// The log is further from the bound than it may be.
    Missed,
    /// The bound itself was too slow to say anything.
    Invalid,
}

impl Cell {
    const fn of(writers: u64, payload: usize, table: (f64, f64)) -> Self {
        Self { writers, payload, table, rate_least: 0.95, p50_most: 1.1 }
    }

    pub(crate) fn name(&self) -> String {
        format!("{} x {} B", self.writers, self.payload)
    }

    /// Judges medians: the bound's records a second, and the two ratios of the log to it.
    pub(crate) fn judge(&self, bound_rate: f64, ratio_rate: f64, ratio_p50: f64) -> Verdict {
        let judged = self.writers <= TABLE_WRITERS_MAX;
        if judged && bound_rate < TABLE_LEAST * self.table.0 {
            return Verdict::Invalid;
        }
        // Not the other way round: nothing that is not a number passes.
        if ratio_rate >= self.rate_least && ratio_p50 <= self.p50_most {
            return Verdict::Passed;
        }
        Verdict::Missed
    }
}

impl Verdict {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Missed => "missed",
            Self::Invalid => "INVALID",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(writers: u64, payload: usize) -> Cell {
        let mut cells = CELLS.into_iter();
        cells.find(|cell| (cell.writers, cell.payload) == (writers, payload)).unwrap()
    }

    #[test]
    fn targets_are_met_at_their_very_edge() {
        let edges = [
            (1, 100, 0.9, 1.1),
            (16, 100, 0.95, 1.1),
            (100, 100, 0.95, 1.1),
            (1000, 100, 0.95, 1.2),
            (10_000, 100, 0.75, 1.2),
            (1000, 1024, 0.95, 1.2),
        ];
        for (writers, payload, rate, p50) in edges {
            let cell = cell(writers, payload);
            let bound = cell.table.0;
            assert_eq!(cell.judge(bound, rate, p50), Verdict::Passed, "{cell:?}");
            assert_eq!(cell.judge(bound, rate - 0.001, p50), Verdict::Missed, "{cell:?}");
            assert_eq!(cell.judge(bound, rate, p50 + 0.001), Verdict::Missed, "{cell:?}");
        }
    }

    #[test]
    fn a_slow_bound_passes_nothing() {
        for cell in CELLS.into_iter().filter(|cell| cell.writers <= 1000) {
            let slow = 0.69 * cell.table.0;
            assert_eq!(cell.judge(slow, 2.0, 0.5), Verdict::Invalid, "{cell:?}");
            assert_eq!(cell.judge(0.71 * cell.table.0, 2.0, 0.5), Verdict::Passed, "{cell:?}");
        }
        assert_eq!(cell(10_000, 100).judge(1.0, 2.0, 0.5), Verdict::Passed);
    }

    #[test]
    fn what_is_no_number_passes_nothing() {
        let cell = cell(16, 100);
        assert_eq!(cell.judge(cell.table.0, f64::NAN, 1.0), Verdict::Missed);
        assert_eq!(cell.judge(cell.table.0, 1.0, f64::NAN), Verdict::Missed);
    }
}
