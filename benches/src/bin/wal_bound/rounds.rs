//! Subjects measured in turns, and what is said about them.
//!
//! Owns: medians and ratios. A ratio is the median of the ratios of neighbours, so that
//! a machine that changes its pace changes both sides of each.

use anyhow::Result;
use serde::Serialize;
use zzq_bench::spread::Spread;

use crate::cell::{Cell, Verdict};
use crate::outstanding::Outcome;

/// One run of one subject.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Figures {
    /// Records per second.
    pub(crate) rate: f64,
    /// Latency in microseconds.
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    /// CPU microseconds per record.
    pub(crate) cpu: f64,
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

/// What was measured right after one another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Round {
    pub(crate) bound: Figures,
    pub(crate) log: Figures,
    /// Where a peer has been built.
    pub(crate) peer: Option<Figures>,
}

/// Medians of one subject.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Medians {
    pub(crate) rate: f64,
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
    pub(crate) cpu_us: f64,
}

/// A subject's figures by the bound's.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Ratios {
    pub(crate) rate: Spread,
    pub(crate) p50: Spread,
}

/// A cell that has been measured.
#[derive(Clone, Debug)]
pub(crate) struct Measured {
    pub(crate) cell: Cell,
    pub(crate) pairs: usize,
    pub(crate) bound: Medians,
    pub(crate) log: Medians,
    pub(crate) ratios: Ratios,
    /// The peer's medians and its ratios to the bound.
    pub(crate) peer: Option<(Medians, Ratios)>,
    pub(crate) verdict: Verdict,
}

impl Measured {
    pub(crate) fn new(cell: Cell, rounds: &[Round]) -> Self {
        let bounds: Vec<Figures> = rounds.iter().map(|round| round.bound).collect();
        let logs: Vec<Figures> = rounds.iter().map(|round| round.log).collect();
        let peers: Option<Vec<Figures>> = rounds.iter().map(|round| round.peer).collect();
        let bound = Medians::new(&bounds);
        let ratios = Ratios::new(&logs, &bounds);
        Self {
            cell,
            pairs: rounds.len(),
            bound,
            log: Medians::new(&logs),
            ratios,
            peer: peers.map(|peers| (Medians::new(&peers), Ratios::new(&peers, &bounds))),
            verdict: cell.judge(bound.rate, ratios.rate.median, ratios.p50.median),
        }
    }
}

impl Medians {
    fn new(figures: &[Figures]) -> Self {
        let median = |figure: fn(&Figures) -> f64| Spread::of(figures.iter().map(figure)).median;
        Self {
            rate: median(|run| run.rate),
            p50_us: median(|run| run.p50),
            p99_us: median(|run| run.p99),
            cpu_us: median(|run| run.cpu),
        }
    }
}

impl Ratios {
    fn new(figures: &[Figures], bounds: &[Figures]) -> Self {
        let ratio = |figure: fn(&Figures) -> f64| {
            Spread::of(figures.iter().zip(bounds).map(|(run, bound)| figure(run) / figure(bound)))
        };
        Self { rate: ratio(|run| run.rate), p50: ratio(|run| run.p50) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::CELLS;

    fn run(rate: f64, p50: f64) -> Figures {
        Figures { rate, p50, p99: 3.0 * p50, cpu: 1.0 }
    }

    fn round(bound: Figures, log: Figures) -> Round {
        Round { bound, log, peer: None }
    }

    #[test]
    fn a_ratio_is_taken_between_neighbours() {
        let rounds = [
            round(run(1e6, 100.0), run(0.9e6, 110.0)),
            round(run(0.5e6, 200.0), run(0.4e6, 210.0)),
            round(run(2e6, 50.0), run(2e6, 70.0)),
        ];
        let measured = Measured::new(CELLS[2], &rounds);
        assert_eq!(measured.ratios.rate, Spread { median: 0.9, least: 0.8, most: 1.0 });
        assert_eq!(measured.ratios.p50, Spread { median: 1.1, least: 1.05, most: 1.4 });
        assert_eq!((measured.bound.rate, measured.log.p50_us), (1e6, 110.0));
        assert_eq!(measured.verdict, Verdict::Missed);
    }

    #[test]
    fn the_verdict_is_on_the_medians() {
        let good = round(run(6e5, 100.0), run(6e5, 100.0));
        let bad = round(run(6e5, 100.0), run(1e5, 500.0));
        assert_eq!(Measured::new(CELLS[2], &[good, bad, good]).verdict, Verdict::Passed);
        let slow = round(run(1e5, 100.0), run(1e5, 100.0));
        assert_eq!(Measured::new(CELLS[2], &[slow, good, slow]).verdict, Verdict::Invalid);
    }

    #[test]
    fn a_peer_counts_only_where_it_was_in_each_round() {
        let with = Round { peer: Some(run(3e5, 300.0)), ..round(run(6e5, 100.0), run(6e5, 90.0)) };
        let without = Round { peer: None, ..with };
        let (medians, ratios) = Measured::new(CELLS[2], &[with, with]).peer.unwrap();
        assert_eq!((medians.rate, ratios.rate.median, ratios.p50.median), (3e5, 0.5, 3.0));
        assert!(Measured::new(CELLS[2], &[with, without]).peer.is_none());
    }

    #[test]
    fn figures_are_per_second_and_per_record() {
        use std::time::Duration;
        let mut latency = hdrhistogram::Histogram::new(3).unwrap();
        latency.record_n(1_000_000, 4).unwrap();
        let (elapsed, cpu) = (Duration::from_secs(2), Duration::from_millis(1));
        let figures = Figures::new(&Outcome { records: 4, elapsed, cpu, latency }).unwrap();
        assert_eq!((figures.rate, figures.cpu), (2.0, 250.0));
        assert!((figures.p50 - 1000.0).abs() < 2.0 && (figures.p99 - 1000.0).abs() < 2.0);
    }
}
