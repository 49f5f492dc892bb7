//! What many seeds come to: figures, coverage, the verdict.
//!
//! A seed is the life of one simulated broker: one disk, from its first start until all has healed.
//! It has many starts, for it is killed again and again. What is asked of the life in the middle
//! is asked of lives, not of what lies between a start and the next death.

use std::fmt::Write as _;
use std::time::Duration;

use crate::coverage::Coverage;
use crate::twice::Twice;
use crate::verdict::Verdict;

/// See the file.
#[derive(Debug)]
pub struct Summary {
    /// The first seed that was asked for.
    pub from: u64,
    /// Seeds that were run.
    pub seeds: u64,
    /// Those that broke a promise.
    pub failed: Vec<u64>,
    /// Seeds in which a broker has started.
    pub lives: u64,
    /// Lives in a second of real time.
    pub lives_per_second: f64,
    /// Client operations of the life in the middle.
    pub operations_median: u64,
    /// Crashes of the life in the middle.
    pub crashes_median: u64,
    /// Starts of the life in the middle.
    pub starts_median: u64,
    /// Starts of all lives.
    pub starts: u64,
    /// Starts in a second of real time.
    pub starts_per_second: f64,
    /// Client operations from the start in the middle to its next death.
    pub start_operations_median: u64,
    /// Crashes, each with the start that follows.
    pub crashes: u64,
    /// Crashes in a second of real time.
    pub crashes_per_second: f64,
    /// Of all that happened, seed by seed.
    pub hash: u64,
    /// One of them that was run once more.
    pub twice: Option<Twice>,
    /// Why so many seeds prove less than they should.
    pub gaps: Vec<String>,
    /// What the seeds reached.
    pub coverage: Coverage,
}

impl Summary {
    /// Of these verdicts, which took so long. `free`: nothing that plans draw was fixed, so that
    /// many of them reach everything.
    pub fn of(verdicts: &[Verdict], took: Duration, free: bool) -> Self {
        let mut coverage = Coverage::default();
        for verdict in verdicts {
            coverage.add(&verdict.coverage);
        }
        let operations = verdicts.iter().flat_map(|verdict| &verdict.starts).copied();
        let starts = operations.clone().count() as u64;
        let lives = verdicts.iter().filter(|verdict| !verdict.starts.is_empty()).count() as u64;
        let failed = verdicts.iter().filter(|verdict| !verdict.broken.is_empty());
        let crashes = coverage.crashes();
        let mut summary = Self {
            from: verdicts.first().map_or(0, |first| first.seed),
            seeds: verdicts.len() as u64,
            failed: failed.map(|verdict| verdict.seed).collect(),
            operations_median: median(verdicts.iter().map(|one| one.coverage.operations())),
            crashes_median: median(verdicts.iter().map(|one| one.coverage.crashes())),
            starts_median: median(verdicts.iter().map(|one| one.starts.len() as u64)),
            start_operations_median: median(operations),
            lives,
            lives_per_second: per_second(lives, took),
            starts,
            starts_per_second: per_second(starts, took),
            crashes,
            crashes_per_second: per_second(crashes, took),
            hash: verdicts.iter().fold(0, |hash, one| hash.rotate_left(1) ^ one.hash),
            twice: None,
            gaps: Vec::new(),
            coverage,
        };
        if free && summary.seeds >= MANY {
            summary.gaps = summary.find_gaps();
        }
        summary
    }

    /// The same, and this was run once more.
    #[must_use]
    pub fn with(self, twice: Option<Twice>) -> Self {
        Self { twice, ..self }
    }

    /// A seed that was another run the second time.
    fn differs(&self) -> Option<Twice> {
        self.twice.filter(|twice| !twice.is_same())
    }

    fn find_gaps(&self) -> Vec<String> {
        let mut gaps = Vec::new();
        let missed = self.coverage.missed();
        if !missed.is_empty() {
            gaps.push(format!("hit by no seed: {}", missed.join(", ")));
        }
        if self.operations_median < OPERATIONS_LEAST {
            gaps.push(format!("{} operations in the median", self.operations_median));
        }
        if self.crashes_median == 0 {
            gaps.push("most lives have no crash".into());
        }
        gaps
    }

    /// Every promise was kept, and the seeds were such that this says something.
    pub fn is_clean(&self) -> bool {
        self.failed.is_empty() && self.differs().is_none() && self.gaps.is_empty()
    }

    /// For people: figures, and what no seed hit.
    pub fn text(&self) -> String {
        let mut text = format!(
            "{} simulated broker lives, one for each seed ({:.1} a second); in the median a life \
             has {} client operations, {} crashes and {} starts\n\
             {} starts ({:.0} a second), {} crashes with a restart ({:.0} a second); in the median \
             {} client operations from a start to the next death\n",
            self.lives,
            self.lives_per_second,
            self.operations_median,
            self.crashes_median,
            self.starts_median,
            self.starts,
            self.starts_per_second,
            self.crashes,
            self.crashes_per_second,
            self.start_operations_median
        );
        let missed = self.coverage.missed();
        // Writing to a text does not fail.
        let _ = if missed.is_empty() {
            write!(text, "every kind of fault and operation was hit")
        } else {
            write!(text, "hit by no seed: {}", missed.join(", "))
        };
        if let Some(twice) = &self.twice {
            let _ = write!(text, "\n{twice}");
        }
        let _ = write!(text, "\ntrace hash {:016x}", self.hash);
        text
    }

    /// The last line.
    pub fn verdict(&self) -> String {
        if self.is_clean() {
            return format!(
                "clean: {} seeds kept every promise; a life has {} client operations and {} \
                 crashes in the median",
                self.seeds, self.operations_median, self.crashes_median
            );
        }
        let mut broken = Vec::new();
        if !self.failed.is_empty() {
            let failed: Vec<String> = self.failed.iter().map(u64::to_string).collect();
            broken.push(format!("{} of {} seeds: {}", failed.len(), self.seeds, failed.join(", ")));
        }
        broken.extend(self.differs().map(|twice| twice.to_string()));
        if broken.is_empty() {
            return format!("too little: {}", self.gaps.join("; "));
        }
        format!("broken: {}", broken.join("; "))
    }

    /// For machines, on one line.
    pub fn json(&self) -> String {
        let coverage = crate::coverage::KINDS.map(|kind| (kind, self.coverage.count(kind)));
        let coverage: serde_json::Map<String, serde_json::Value> =
            coverage.into_iter().map(|(kind, count)| (kind.into(), count.into())).collect();
        serde_json::json!({
            "verdict": if self.is_clean() { "clean" } else { "broken" },
            "from": self.from,
            "seeds": self.seeds,
            "failed": self.failed,
            "run_twice": self.twice.map(|twice| twice.seed),
            "differs": self.differs().map(|twice| twice.seed),
            "gaps": self.gaps,
            "hash": format!("{:016x}", self.hash),
            "lives": self.lives,
            "lives_per_second": self.lives_per_second,
            "operations_median": self.operations_median,
            "crashes_median": self.crashes_median,
            "starts_median": self.starts_median,
            "starts": self.starts,
            "starts_per_second": self.starts_per_second,
            "start_operations_median": self.start_operations_median,
            "crashes": self.crashes,
            "crashes_per_second": self.crashes_per_second,
            "missed": self.coverage.missed(),
            "coverage": coverage,
        })
        .to_string()
    }
}

/// Fewer seeds need not reach everything: of 100 one in four runs misses some rare fault.
const MANY: u64 = 1000;
/// Client operations of the life in the middle.
const OPERATIONS_LEAST: u64 = 500;

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

    impl Verdict {
        fn copy(&self) -> Self {
            let (broken, events, coverage) = (Vec::new(), Vec::new(), self.coverage.clone());
            Self {
                seed: self.seed,
                broken,
                events,
                coverage,
                starts: self.starts.clone(),
                hash: self.hash,
            }
        }
    }

    fn verdict(seed: u64, broken: bool) -> Verdict {
        let one = Broken { promise: "order", what: "m2 behind m3".into(), about: Vec::new() };
        Verdict {
            seed,
            broken: if broken { vec![one] } else { Vec::new() },
            events: Vec::new(),
            coverage: Coverage::default(),
            starts: vec![3, 9, 30, 40],
            hash: 1,
        }
    }

    #[test]
    fn one_broken_seed_is_a_broken_run() {
        let took = Duration::from_secs(2);
        let of = |broken| Summary::of(&[verdict(7, false), verdict(8, broken)], took, true);
        let clean = "clean: 2 seeds kept every promise; a life has 0 client operations and 0 \
                     crashes in the median";
        assert_eq!(of(false).verdict(), clean);
        assert_eq!(of(true).verdict(), "broken: 1 of 2 seeds: 8");
        assert!(of(true).json().contains("\"verdict\":\"broken\""));
        assert!(of(true).json().contains("\"from\":7"));
        assert!(of(false).text().contains("2 simulated broker lives, one for each seed (1.0 a"));
        assert!(of(false).text().contains("0 client operations, 0 crashes and 4 starts\n8 starts"));
        assert!(of(false).text().contains("30 client operations from a start to the next death"));
        assert!(of(false).text().contains("hit by no seed: op connect,"));
    }

    #[test]
    fn a_seed_that_is_another_run_the_second_time_is_a_broken_run() {
        let of = |hashes| {
            let verdicts = [verdict(7, false)];
            let summary = Summary::of(&verdicts, Duration::from_secs(1), true);
            summary.with(Some(Twice { seed: 7, hashes }))
        };
        assert!(of([3, 3]).is_clean() && of([3, 3]).text().contains("seed 7 was run twice"));
        let differs = of([3, 4]);
        assert!(!differs.is_clean() && differs.json().contains("\"differs\":7"));
        let why = "broken: seed 7 is not the same run twice: 0000000000000003, 0000000000000004";
        assert_eq!(differs.verdict(), why);
    }

    #[test]
    fn many_seeds_that_miss_a_kind_or_do_too_little_are_not_clean() {
        let mut full = verdict(1, false);
        for kind in crate::coverage::KINDS {
            for _ in 0..30 {
                full.coverage.hit(kind);
            }
        }
        let mut poor = verdict(2, false);
        for kind in crate::coverage::KINDS.into_iter().filter(|kind| *kind != "log read-only") {
            for _ in 0..30 {
                poor.coverage.hit(kind);
            }
        }
        let idle = verdict(3, false);
        let of = |one: &Verdict, count: usize, free| {
            let verdicts: Vec<_> = (0..count).map(|_| one.copy()).collect();
            Summary::of(&verdicts, Duration::from_secs(1), free)
        };
        assert!(of(&full, 1000, true).verdict().starts_with("clean: 1000 seeds kept every"));
        assert!(of(&full, 1000, true).is_clean());
        let missed = of(&poor, 1000, true);
        assert_eq!(missed.verdict(), "too little: hit by no seed: log read-only");
        assert!(!missed.is_clean() && missed.json().contains("\"verdict\":\"broken\""));
        assert!(of(&poor, 999, true).is_clean() && of(&poor, 1000, false).is_clean());
        assert_eq!(of(&idle, 1000, true).gaps.len(), 3);
    }
}
