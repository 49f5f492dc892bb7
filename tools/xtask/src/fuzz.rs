//! All fuzz targets in turn, within one budget of seconds.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context as _, Result, bail, ensure};
use clap::Args;

use crate::at_once::{at_once, width};
use crate::run::{capture, program, succeed};

/// How long and what to fuzz.
#[derive(Args)]
pub(crate) struct Options {
    /// Seconds for all targets together, as many at once as there are cores; building them is not
    /// counted.
    #[arg(long, default_value_t = 120)]
    seconds: u64,
    /// Only targets whose name contains this.
    #[arg(long, default_value = "")]
    target: String,
}

/// Builds the targets and runs each for its share, from the committed corpus. New inputs go to
/// the target folder; a crash leaves its input in `fuzz/artifacts`.
pub(crate) fn fuzz(root: &Path, options: &Options) -> Result<()> {
    let manifest = std::fs::read_to_string(root.join("fuzz/Cargo.toml"))?;
    let mut targets = targets(&manifest)?;
    targets.retain(|target| target.contains(&options.target));
    ensure!(!targets.is_empty(), "no target has a name with {:?}", options.target);
    succeed(program(root, &["cargo", "+nightly", "fuzz", "build"]))?;
    let seconds = share(options.seconds, targets.len(), width().min(targets.len()));
    let ended = at_once(targets, |target| {
        let start = Instant::now();
        let outcome = run(root, &target, seconds);
        println!("-- fuzz {target}: {:.1} s", start.elapsed().as_secs_f64());
        outcome.inspect_err(|error| println!("{error:#}")).err().map(|_| target)
    });
    let failed: Vec<String> = ended.into_iter().flatten().collect();
    if !failed.is_empty() {
        bail!("failed: {}", failed.join(", "));
    }
    Ok(())
}

fn run(root: &Path, target: &str, seconds: u64) -> Result<()> {
    let (found, seeds) = (format!("fuzz/target/corpus/{target}"), format!("fuzz/corpus/{target}"));
    std::fs::create_dir_all(root.join(&found))?;
    std::fs::create_dir_all(root.join(&seeds))?;
    let mut command = program(root, &["cargo", "+nightly", "fuzz", "run", target, &found, &seeds]);
    command.arg("--").arg(format!("-max_total_time={seconds}"));
    command.args(["-timeout=60", "-rss_limit_mb=2048", "-print_final_stats=0", "-verbosity=0"]);
    // What several say at once would be unreadable: a target speaks when it has failed.
    capture(command).map(drop)
}

/// The seconds of one target, of which some run at once; zero would mean without end.
fn share(seconds: u64, targets: usize, at_once: usize) -> u64 {
    let [targets, at_once] = [targets, at_once].map(|count| u64::try_from(count).unwrap_or(1));
    (seconds * at_once / targets.max(1)).max(1)
}

/// The names of all binaries of the fuzz crate.
fn targets(manifest: &str) -> Result<Vec<String>> {
    let manifest: toml::Table = manifest.parse().context("fuzz/Cargo.toml")?;
    let binaries = manifest.get("bin").and_then(toml::Value::as_array);
    let names = binaries.into_iter().flatten().filter_map(|binary| binary.get("name"));
    Ok(names.filter_map(|name| name.as_str().map(str::to_owned)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_the_binaries() {
        let manifest = "[package]\nname = \"f\"\n[[bin]]\nname = \"a\"\n[[bin]]\nname = \"b\"\n";
        assert_eq!(targets(manifest).unwrap(), ["a", "b"]);
    }

    #[test]
    fn the_budget_is_shared_and_never_endless() {
        assert_eq!(share(120, 5, 1), 24);
        assert_eq!(share(120, 5, 2), 48);
        assert_eq!(share(3, 5, 1), 1);
        assert_eq!(share(0, 0, 2), 1);
    }
}
