//! Results as a table for people and as lines of JSON for programs.

use std::fmt;

use serde_json::{Value, json};

use crate::rounds::Measured;

/// The head of the table.
pub(crate) const HEAD: &str = "\
| writers x payload | records/s: bound | log | ratio (spread), target | p50 us: bound | log \
| ratio (spread), target | p99 us: bound | log | CPU us a record: bound | log | bound by table | |
|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|---|";

/// The head of the table of the peer.
pub(crate) const PEER_HEAD: &str = "\
| writers x payload | zzq-disk records/s | by bound | p50 us | by bound | p99 us \
| CPU us a record | the log's rate by its | p50 by its |
|---|--:|--:|--:|--:|--:|--:|--:|--:|";

impl Measured {
    /// One line of JSON.
    pub(crate) fn json(&self) -> Value {
        let cell = &self.cell;
        let mut line = json!({
            "cell": cell.name(),
            "writers": cell.writers,
            "payload": cell.payload,
            "pairs": self.pairs,
            "ratio_rate": self.ratios.rate.median,
            "ratio_p50": self.ratios.p50.median,
            "ratio_rate_spread": [self.ratios.rate.least, self.ratios.rate.most],
            "ratio_p50_spread": [self.ratios.p50.least, self.ratios.p50.most],
            "target_rate": cell.rate_least,
            "target_p50": cell.p50_most,
            "bound": self.bound,
            "log": self.log,
            "table": { "rate": cell.table.0, "p50_us": cell.table.1 },
            "bound_by_table": self.bound.rate / cell.table.0,
            "verdict": self.verdict.name(),
        });
        if let (Some((medians, ratios)), Value::Object(fields)) = (&self.peer, &mut line) {
            fields.insert("peer".to_owned(), json!(medians));
            fields.insert("peer_ratio_rate".to_owned(), json!(ratios.rate.median));
            fields.insert("peer_ratio_p50".to_owned(), json!(ratios.p50.median));
        }
        line
    }

    /// A row of the peer's table, where there is one.
    pub(crate) fn peer_row(&self) -> Option<String> {
        let (peer, ratios) = self.peer?;
        Some(format!(
            "| {} | {} | {} | {:.0} | {} | {:.0} | {:.3} | {:.2} | {:.2} |",
            self.cell.name(),
            count(peer.rate),
            ratios.rate,
            peer.p50_us,
            ratios.p50,
            peer.p99_us,
            peer.cpu_us,
            self.log.rate / peer.rate,
            self.log.p50_us / peer.p50_us,
        ))
    }
}

/// A row of the table.
impl fmt::Display for Measured {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (cell, bound, log) = (&self.cell, &self.bound, &self.log);
        write!(
            formatter,
            "| {} | {} | {} | {}, >= {} | {:.0} | {:.0} | {}, <= {} | {:.0} | {:.0} | {:.3} \
             | {:.3} | {:.2} of {} | {} |",
            cell.name(),
            count(bound.rate),
            count(log.rate),
            self.ratios.rate,
            cell.rate_least,
            bound.p50_us,
            log.p50_us,
            self.ratios.p50,
            cell.p50_most,
            bound.p99_us,
            log.p99_us,
            bound.cpu_us,
            log.cpu_us,
            bound.rate / cell.table.0,
            count(cell.table.0),
            self.verdict.name(),
        )
    }
}

/// A number of records with three digits and a unit.
pub(crate) fn count(value: f64) -> String {
    match value {
        value if value >= 1e7 => format!("{:.1} M", value / 1e6),
        value if value >= 1e6 => format!("{:.2} M", value / 1e6),
        value if value >= 1e5 => format!("{:.0} k", value / 1e3),
        value if value >= 1e4 => format!("{:.1} k", value / 1e3),
        value => format!("{:.2} k", value / 1e3),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::CELLS;
    use crate::rounds::{Figures, Round};

    fn measured(peer: bool) -> Measured {
        let run = |rate, p50| Figures { rate, p50, p99: 900.0, cpu: 0.5 };
        let peer = peer.then(|| run(300e3, 400.0));
        let round = Round { bound: run(600e3, 200.0), log: run(600e3, 210.0), peer };
        Measured::new(CELLS[2], &[round; 9])
    }

    #[test]
    fn a_line_of_json_names_the_cell_and_its_ratios() {
        let line = measured(false).json();
        assert_eq!((&line["cell"], &line["writers"]), (&json!("100 x 100 B"), &json!(100)));
        assert_eq!((&line["payload"], &line["ratio_rate"]), (&json!(100), &json!(1.0)));
        assert_eq!((&line["ratio_p50"], &line["verdict"]), (&json!(1.05), &json!("passed")));
        assert_eq!(line["bound"]["rate"], json!(600e3));
        assert!(line.get("peer").is_none());
        assert!(!line.to_string().contains('\n'));
        assert_eq!(measured(true).json()["peer_ratio_rate"], json!(0.5));
    }

    #[test]
    fn a_row_has_all_columns() {
        let columns = |row: &str| row.lines().last().map_or(0, |row| row.matches('|').count());
        assert_eq!(columns(&measured(false).to_string()), columns(HEAD));
        assert_eq!(columns(&measured(true).peer_row().unwrap()), columns(PEER_HEAD));
        assert!(measured(false).peer_row().is_none());
    }

    #[test]
    fn counts_have_three_digits() {
        let counts = [5_200.0, 88_000.0, 556_000.0, 3_450_000.0, 12_700_000.0].map(count);
        assert_eq!(counts, ["5.20 k", "88.0 k", "556 k", "3.45 M", "12.7 M"]);
    }
}
