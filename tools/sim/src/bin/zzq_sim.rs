//! `zzq_sim`: simulates whole brokers, seed by seed, and says whether they kept their promises.

#![forbid(unsafe_code)]

use std::io::Write;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use clap::Parser;
use zzq_sim::summary::Summary;
use zzq_sim::verdict::{self, Verdict};

/// Simulates whole brokers in one thread each, seed by seed: every fault of disk, network, clocks
/// and power that chance finds, then none, and every promise is checked. The same seed is the same
/// run. The last line of stdout is the verdict; the exit status is 0 only when it is clean.
#[derive(Debug, Parser)]
#[command(version)]
struct Args {
    /// How many seeds.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..))]
    seeds: u64,
    /// The first seed.
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Begins at a seed that the clock gives; it is printed.
    #[arg(long, conflicts_with = "from")]
    fresh: bool,
    /// Lanes of every broker; without it each seed has its own.
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=64))]
    lanes: Option<u16>,
    /// Seeds at the same time; without it one for each core.
    #[arg(long)]
    jobs: Option<usize>,
    /// One JSON object on stdout, nothing else.
    #[arg(long)]
    json: bool,
    /// Everything that happens in the first seed, a line for each event.
    #[arg(long)]
    trace: bool,
}

fn main() -> anyhow::Result<ExitCode> {
    let args = Args::parse();
    let from = if args.fresh { fresh_seed()? } else { args.from };
    let mut out = std::io::stdout().lock();
    if args.trace {
        // Where a panic was is told by the usual hook, on stderr.
        let (lines, verdict) = verdict::trace(from, args.lanes);
        for line in lines {
            writeln!(out, "{line}")?;
        }
        writeln!(out, "seed {from}: trace hash {:016x}", verdict.hash)?;
    }
    // A panic in a seed is its verdict, with its text; where it was is in the replay.
    std::panic::set_hook(Box::new(|_| {}));
    let began = Instant::now();
    let verdicts = run_all(&args, from)?;
    let summary = Summary::of(&verdicts, began.elapsed(), args.lanes.is_none());
    if args.json {
        writeln!(out, "{}", summary.json())?;
    } else {
        for verdict in verdicts.iter().filter(|verdict| !verdict.broken.is_empty()) {
            writeln!(out, "{}", describe(verdict, args.lanes))?;
        }
        writeln!(out, "seeds {from} to {}", from + (args.seeds - 1))?;
        writeln!(out, "{}", summary.text())?;
        writeln!(out, "{}", summary.verdict())?;
    }
    Ok(if summary.is_clean() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn fresh_seed() -> anyhow::Result<u64> {
    Ok(SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs() * 1000)
}

/// Runs the seeds on threads, each seed in one; in the order of the seeds.
fn run_all(args: &Args, from: u64) -> anyhow::Result<Vec<Verdict>> {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let jobs = args.jobs.unwrap_or(cores).max(1);
    let next = AtomicU64::new(0);
    let (sender, results) = channel();
    let mut verdicts = Vec::new();
    std::thread::scope(|scope| -> anyhow::Result<()> {
        for _ in 0..jobs {
            let (sender, next) = (sender.clone(), &next);
            scope.spawn(move || {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    if at >= args.seeds || sender.send(verdict::run(from + at, args.lanes)).is_err()
                    {
                        return;
                    }
                }
            });
        }
        drop(sender);
        let mut told = Instant::now();
        for verdict in results {
            verdicts.push(verdict);
            if told.elapsed() > Duration::from_secs(1) {
                told = Instant::now();
                let failed = verdicts.iter().filter(|one| !one.broken.is_empty()).count();
                let mut err = std::io::stderr().lock();
                writeln!(err, "{} of {} seeds, {failed} broken", verdicts.len(), args.seeds)?;
            }
        }
        Ok(())
    })?;
    verdicts.sort_by_key(|verdict| verdict.seed);
    Ok(verdicts)
}

/// Seed, promise, events, and the command that replays it.
fn describe(verdict: &Verdict, lanes: Option<u16>) -> String {
    const SHOWN: usize = 5;
    let mut text = vec![format!("seed {} is broken (hash {:016x}):", verdict.seed, verdict.hash)];
    for broken in verdict.broken.iter().take(SHOWN) {
        text.push(format!("  {}: {}", broken.promise, broken.what));
    }
    if verdict.broken.len() > SHOWN {
        text.push(format!("  and {} more", verdict.broken.len() - SHOWN));
    }
    if !verdict.events.is_empty() {
        text.push("  the last events that concern the first:".into());
        text.extend(verdict.events.iter().map(|event| format!("    {event}")));
    }
    let option = lanes.map(|lanes| format!(" --lanes {lanes}")).unwrap_or_default();
    let from = verdict.seed;
    let replay = "cargo run --profile sim -p zzq-sim -- --trace --seeds 1";
    text.push(format!("  replay it with: {replay} --from {from}{option}"));
    text.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_seeds_at_all_are_wrong_use_and_not_clean() {
        assert!(Args::try_parse_from(["zzq_sim", "--seeds", "0"]).is_err());
        assert!(Args::try_parse_from(["zzq_sim", "--seeds", "1"]).is_ok());
    }
}
