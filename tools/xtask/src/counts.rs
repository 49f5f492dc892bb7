//! Instructions for one operation, counted by callgrind: a figure that a busy machine does not
//! change, so that a rise can be refused.
//!
//! Assumes: the crate `zzq-x` has an example `x_counts` that prints the names of its cases, one a
//! line, when it has no argument, and with a name and a number runs that case so many times. What
//! it is held to stands in `benches/counts`.

mod baseline;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use clap::Args;

use self::baseline::Baseline;
use crate::at_once::at_once;
use crate::run::{capture, program, succeed};

/// What to count.
#[derive(Args)]
pub(crate) struct Options {
    /// The crate, with or without `zzq-`.
    krate: String,
    /// Only cases whose name contains this.
    #[arg(default_value = "")]
    case: String,
    /// Iterations of the longer run; the shorter has a tenth.
    #[arg(long, default_value_t = 10_000)]
    iterations: u64,
    /// Fails if a case takes over 3 % more than its committed count.
    #[arg(long, conflicts_with = "save")]
    check: bool,
    /// Writes the counts to be committed, of all cases.
    #[arg(long, conflicts_with = "case")]
    save: bool,
}

/// Prints a line for each case as it is counted. What both runs have in common (start, set-up)
/// cancels out.
pub(crate) fn counts(root: &Path, options: &Options) -> Result<()> {
    ensure!(options.iterations >= 10, "at least 10 iterations");
    let example = build(root, &options.krate)?;
    let example = example.to_str().context("the target folder is no UTF-8")?;
    let path =
        root.join(format!("benches/counts/{}.tsv", options.krate.trim_start_matches("zzq-")));
    let (rustc, _) = capture(program(root, &["rustc", "--version"]))?;
    let known = if options.check { Some(Baseline::read(&path, rustc.trim())?) } else { None };
    let (cases, _) = capture(program(root, &[example]))?;
    let mut now = Baseline::new(rustc.trim());
    println!("{:<40} {:>16}", "case", "instructions/op");
    let (few, many) = (options.iterations / 10, options.iterations);
    let cases = cases.lines().filter(|case| case.contains(&options.case)).collect();
    // What else the machine does changes no count.
    let counted = at_once(cases, |case| -> Result<(&str, f64)> {
        let runs =
            (instructions(root, example, case, few)?, instructions(root, example, case, many)?);
        let count = per_operation(runs, many - few);
        println!("{case:<40} {count:>16.1}");
        Ok((case, count))
    });
    for answer in counted {
        let (case, count) = answer?;
        now.counts.insert(case.to_owned(), count);
    }
    if options.save {
        now.write(&path)?;
    }
    known.map_or(Ok(()), |known| known.compare(&now, options.case.is_empty()))
}

/// Builds the example and gives back its path.
fn build(root: &Path, krate: &str) -> Result<PathBuf> {
    let name = krate.trim_start_matches("zzq-");
    let example = format!("{name}_counts");
    let mut command = program(root, &["cargo", "build", "--release"]);
    command.args([format!("--package=zzq-{name}"), format!("--example={example}")]);
    succeed(command)?;
    let (json, _) =
        capture(program(root, &["cargo", "metadata", "--no-deps", "--format-version=1"]))?;
    let metadata: serde_json::Value = serde_json::from_str(&json)?;
    let target = metadata["target_directory"].as_str().context("cargo names no target folder")?;
    Ok(Path::new(target).join("release/examples").join(example))
}

fn instructions(root: &Path, example: &str, case: &str, iterations: u64) -> Result<u64> {
    let mut command = program(root, &["valgrind", "--tool=callgrind"]);
    command.args(["--callgrind-out-file=/dev/null", example, case, &iterations.to_string()]);
    let (_, log) = capture(command)?;
    collected(&log).with_context(|| format!("callgrind counted nothing for {case}:\n{log}"))
}

/// The figure of `==1== Collected : 12345`.
fn collected(log: &str) -> Option<u64> {
    let line = log.lines().find_map(|line| line.split_once("Collected :"))?;
    line.1.split_whitespace().next()?.parse().ok()
}

#[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^52")]
fn per_operation((few, many): (u64, u64), operations: u64) -> f64 {
    many.saturating_sub(few) as f64 / operations as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_is_read_from_the_log() {
        let log =
            "==7== Events    : Ir\n==7== Collected : 5204\n==7== \n==7== I   refs:      5,204\n";
        assert_eq!(collected(log), Some(5204));
        assert_eq!(collected("==7== nothing"), None);
    }

    #[test]
    fn what_both_runs_share_cancels_out() {
        assert!((per_operation((1_000 + 50 * 10, 1_000 + 50 * 100), 90) - 50.0).abs() < 1e-9);
    }
}
