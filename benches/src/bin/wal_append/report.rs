//! Rounds of two subjects in turns, and what is said about them.
//!
//! Owns: medians and their table. A ratio is the median of the ratios of neighbours, so that a
//! machine that changes its pace changes both sides of each.

use std::fmt;

use anyhow::Result;

use crate::closed_loop::Outcome;

/// One run in the units of the table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Figures {
    /// Records per second.
    rate: f64,
    /// Latency in microseconds.
    p50: f64,
    p99: f64,
    /// CPU microseconds per record.
    cpu: f64,
}

impl Figures {
    pub(crate) fn new(outcome: &Outcome) -> Result<Self> {
        let records = f64::from(u32::try_from(outcome.records)?);
        let micros = |quantile| -> Result<f64> {
            let nanos = outcome.latency.value_at_quantile(quantile);
            Ok(f64::from(u32::try_from(nanos)?) / 1e3)
        };
        Ok(Self {
            rate: records / outcome.elapsed.as_secs_f64(),
            p50: micros(0.5)?,
            p99: micros(0.99)?,
            cpu: outcome.cpu.as_secs_f64() * 1e6 / records,
        })
    }
}

/// Rounds of one number of writers: the bound and the log, measured right after one another.
#[derive(Debug)]
pub(crate) struct Rounds {
    pub(crate) writers: u64,
    pub(crate) pairs: Vec<(Figures, Figures)>,
}

/// The head of the table.
pub(crate) const HEAD: &str = "\
| writers | records/s bound | log | ratio (spread) | p50 us bound | log | ratio (spread) \
| p99 us bound | log | CPU us/record bound | log |
|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|";

impl fmt::Display for Rounds {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bound = |figure: fn(&Figures) -> f64| median(self.pairs.iter().map(|(b, _)| figure(b)));
        let log = |figure: fn(&Figures) -> f64| median(self.pairs.iter().map(|(_, l)| figure(l)));
        write!(
            formatter,
            "| {} | {:.0} | {:.0} | {} | {:.0} | {:.0} | {} | {:.0} | {:.0} | {:.3} | {:.3} |",
            self.writers,
            bound(|run| run.rate),
            log(|run| run.rate),
            self.ratio(|run| run.rate),
            bound(|run| run.p50),
            log(|run| run.p50),
            self.ratio(|run| run.p50),
            bound(|run| run.p99),
            log(|run| run.p99),
            bound(|run| run.cpu),
            log(|run| run.cpu),
        )
    }
}

impl Rounds {
    /// The log's figure by the bound's: the median, the least and the most.
    fn ratio(&self, figure: fn(&Figures) -> f64) -> String {
        let ratios = || self.pairs.iter().map(|(bound, log)| figure(log) / figure(bound));
        let least = ratios().fold(f64::INFINITY, f64::min);
        let most = ratios().fold(0.0, f64::max);
        format!("{:.2} ({least:.2}-{most:.2})", median(ratios()))
    }
}

/// The upper median; of nothing, not a number.
fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_is_taken_between_neighbours() {
        let run = |rate| Figures { rate, p50: 1.0, p99: 1.0, cpu: 1.0 };
        let pairs =
            vec![(run(100.0), run(90.0)), (run(10.0), run(8.0)), (run(1000.0), run(1000.0))];
        let rounds = Rounds { writers: 1, pairs };
        assert_eq!(rounds.ratio(|run| run.rate), "0.90 (0.80-1.00)");
        assert!(rounds.to_string().starts_with("| 1 | 100 | 90 | 0.90 (0.80-1.00) | 1 |"));
    }
}
