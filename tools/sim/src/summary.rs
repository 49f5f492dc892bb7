//! What many seeds come to: figures, coverage, the verdict.

use std::fmt::Write as _;
use std::time::Duration;

use crate::coverage::Coverage;
use crate::verdict::Verdict;

/// See the file.
#[derive(Debug)]
pub struct Summary {
    /// Seeds that were run.
    pub seeds: u64,
    /// Those that broke a promise.
    pub failed: Vec<u64>,
    /// Client operations of the seed in the middle.
    pub operations_median: u64,
    /// Crashes of the seed in the middle.
    pub crashes_median: u64,
    /// Starts of brokers.
    pub lives: u64,
    /// Starts of brokers in a second of real time.
    pub lives_per_second: f64,
    /// What the seeds reached.
    pub coverage: Coverage,
}

impl Summary {
    /// Of these verdicts, which took so long.
    pub fn of(verdicts: &[Verdict], took: Duration) -> Self {
        let mut coverage = Coverage::default();
        for verdict in verdicts {
            coverage.add(&verdict.coverage);
        }
        let lives = verdicts.iter().map(|verdict| verdict.lives).sum();
        let failed = verdicts.iter().filter(|verdict| !verdict.broken.is_empty());
        Self {
            seeds: verdicts.len() as u64,
            failed: failed.map(|verdict| verdict.seed).collect(),
            operations_median: median(verdicts.iter().map(|one| one.coverage.operations())),
            crashes_median: median(verdicts.iter().map(|one| one.coverage.crashes())),
            lives,
            lives_per_second: per_second(lives, took),
            coverage,
        }
    }

    /// For people: figures, and what no seed hit.
    pub fn text(&self) -> String {
        let mut text = format!(
            "{} seeds, {} simulated broker lives ({:.0} a second); in the median a seed has {} \
             client operations and {} crashes\n",
            self.seeds,
            self.lives,
            self.lives_per_second,
            self.operations_median,
            self.crashes_median
        );
        let missed = self.coverage.missed();
        // Writing to a text does not fail.
        let _ = if missed.is_empty() {
            write!(text, "every kind of fault and operation was hit")
        } else {
            write!(text, "hit by no seed: {}", missed.join(", "))
        };
        text
    }

    /// The last line.
    pub fn verdict(&self) -> String {
        if self.failed.is_empty() {
            return format!("clean: {} seeds kept every promise", self.seeds);
        }
        let failed: Vec<String> = self.failed.iter().map(u64::to_string).collect();
        format!("broken: {} of {} seeds: {}", failed.len(), self.seeds, failed.join(", "))
    }

    /// For machines, on one line.
    pub fn json(&self) -> String {
        let coverage = crate::coverage::KINDS.map(|kind| (kind, self.coverage.count(kind)));
        let coverage: serde_json::Map<String, serde_json::Value> =
            coverage.into_iter().map(|(kind, count)| (kind.into(), count.into())).collect();
        serde_json::json!({
            "verdict": if self.failed.is_empty() { "clean" } else { "broken" },
            "seeds": self.seeds,
            "failed": self.failed,
            "lives": self.lives,
            "lives_per_second": self.lives_per_second,
            "operations_median": self.operations_median,
            "crashes_median": self.crashes_median,
            "missed": self.coverage.missed(),
            "coverage": coverage,
        })
        .to_string()
    }
}

fn median(values: impl Iterator<Item = u64>) -> u64 {
    let mut values: Vec<u64> = values.collect();
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or(0)
}

#[expect(clippy::cast_precision_loss, reason = "a rate to be read by people")]
fn per_second(count: u64, took: Duration) -> f64 {
    count as f64 / took.as_secs_f64().max(0.001)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracle::Broken;

    fn verdict(seed: u64, broken: bool) -> Verdict {
        let one = Broken { promise: "order", what: "m2 behind m3".into(), about: Vec::new() };
        Verdict {
            seed,
            broken: if broken { vec![one] } else { Vec::new() },
            events: Vec::new(),
            coverage: Coverage::default(),
            lives: 4,
            hash: 1,
        }
    }

    #[test]
    fn one_broken_seed_is_a_broken_run() {
        let of =
            |broken| Summary::of(&[verdict(7, false), verdict(8, broken)], Duration::from_secs(2));
        assert_eq!(of(false).verdict(), "clean: 2 seeds kept every promise");
        assert_eq!(of(true).verdict(), "broken: 1 of 2 seeds: 8");
        assert!(of(true).json().contains("\"verdict\":\"broken\""));
        assert!(of(false).text().contains("8 simulated broker lives (4 a second)"));
        assert!(of(false).text().contains("hit by no seed: op connect,"));
    }
}
