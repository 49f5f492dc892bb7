//! What `zzq_sim` can be told.

use clap::Parser;
use zzq_sim::runs::Runs;
#[cfg(feature = "planted-bugs")]
use zzq_sim::self_test::Bug;
use zzq_sim::self_test::{BUGS, CONTROLS};

/// Simulates whole brokers in one thread each, seed by seed: every fault of disk, network, clocks
/// and power that chance finds, then none, and every promise is checked. The same seed is the same
/// run. The last line of stdout is the verdict; the exit status is 0 only when it is clean.
#[derive(Debug, Parser)]
#[command(version)]
#[expect(clippy::struct_excessive_bools, reason = "options that are independent")]
pub(crate) struct Args {
    /// How many seeds. 1000 and more are clean only if they have reached every kind of fault.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) seeds: u64,
    /// The first seed. From 0 on, seeds that have once found a defect are run as well.
    #[arg(long, default_value_t = 0)]
    pub(crate) from: u64,
    /// Begins at a seed that the clock gives; it is printed.
    #[arg(long, conflicts_with = "from")]
    pub(crate) fresh: bool,
    /// Lanes of every broker; without it each seed has its own.
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) lanes: Option<u16>,
    /// Seeds at the same time; without it one for each core.
    #[arg(long)]
    pub(crate) jobs: Option<usize>,
    /// One JSON object on stdout, nothing else.
    #[arg(long)]
    pub(crate) json: bool,
    /// Everything that happens in the first seed, a line for each event.
    #[arg(long)]
    pub(crate) trace: bool,
    /// Tests the proof: builds a variant with known bugs, and each must be found within 200 seeds
    /// by the oracle of the promise that it breaks, while this build runs the same seeds clean.
    #[arg(long, conflicts_with_all = ["seeds", "from", "fresh", "lanes", "trace"])]
    pub(crate) self_test: bool,
    /// Only this bug of the self-test; may be given more than once.
    #[arg(long, requires = "self_test", value_parser = known)]
    pub(crate) only: Vec<String>,
    /// The K-th of N parts of the self-test, as K/N.
    #[arg(long, requires = "self_test", conflicts_with = "only", value_parser = part)]
    pub(crate) part: Option<(usize, usize)>,
    /// Plants this bug and looks for it.
    #[cfg(feature = "planted-bugs")]
    #[arg(long, hide = true, value_parser = planted)]
    pub(crate) hunt: Option<String>,
    /// Names all seeds that find the planted bug, not the first alone.
    #[cfg(feature = "planted-bugs")]
    #[arg(long, hide = true, requires = "hunt")]
    pub(crate) every: bool,
}

impl Args {
    /// The seeds that it names, from this one on.
    pub(crate) fn runs(&self, from: u64, before: fn()) -> Runs {
        Runs { from, seeds: self.seeds, lanes: self.lanes, jobs: self.jobs, before }
    }
}

/// What the self-test looks for, by name.
fn known(name: &str) -> Result<String, String> {
    let bugs = BUGS.iter().map(|bug| bug.name);
    let names: Vec<_> = bugs.chain(CONTROLS.iter().map(|control| control.name)).collect();
    if names.contains(&name) {
        return Ok(name.to_owned());
    }
    Err(format!("no such bug; there are {}", names.join(", ")))
}

#[cfg(feature = "planted-bugs")]
fn planted(name: &str) -> Result<String, String> {
    Bug::of(name).map(|bug| bug.name.to_owned()).ok_or_else(|| "no such bug".into())
}

fn part(text: &str) -> Result<(usize, usize), String> {
    let parsed = text.split_once('/').and_then(|(nth, of)| {
        let (nth, of): (usize, usize) = (nth.parse().ok()?, of.parse().ok()?);
        (1..=of).contains(&nth).then_some((nth, of))
    });
    parsed.ok_or_else(|| "K/N, with K from 1 to N".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_seeds_at_all_are_wrong_use_and_not_clean() {
        assert!(Args::try_parse_from(["zzq_sim", "--seeds", "0"]).is_err());
        assert!(Args::try_parse_from(["zzq_sim", "--seeds", "1"]).is_ok());
    }

    #[test]
    fn bugs_and_parts_that_there_are_not_are_wrong_use() {
        for (args, fits) in [
            (&["--only", "apply-twice"][..], true),
            (&["--only", "used-again-under-a-reader"], true),
            (&["--only", "apply-thrice"], false),
            (&["--part", "2/2"], true),
            (&["--part", "0/2"], false),
            (&["--part", "3/2"], false),
            (&["--part", "2"], false),
        ] {
            let args = ["zzq_sim", "--self-test"].iter().chain(args);
            assert_eq!(Args::try_parse_from(args).is_ok(), fits);
        }
    }
}
