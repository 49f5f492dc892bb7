//! `zzq_sim`: simulates whole brokers, seed by seed, and says whether they kept their promises.

#![forbid(unsafe_code)]

#[path = "zzq_sim/args.rs"]
mod args;
#[cfg(test)]
#[path = "../../../journal/src/documented.rs"]
mod documented;
#[path = "zzq_sim/proof.rs"]
mod proof;

use std::io::Write;
use std::process::ExitCode;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use clap::Parser;
use zzq_journal::Bar;
use zzq_sim::found;
use zzq_sim::runs::Runs;
use zzq_sim::summary::Summary;
use zzq_sim::twice::Twice;
use zzq_sim::verdict::{self, Verdict};

use self::args::Args;

fn main() -> ExitCode {
    let args = Args::parse();
    run(&args).unwrap_or_else(|error| {
        // Whoever reads may have seen enough.
        let _ = writeln!(std::io::stdout(), "{}", failed(&error, args.json));
        ExitCode::FAILURE
    })
}

/// The verdict of what could not be carried out.
fn failed(error: &anyhow::Error, json: bool) -> String {
    let error = format!("{error:#}");
    if json {
        return serde_json::json!({ "verdict": "failed", "error": error }).to_string();
    }
    format!("FAILED: {}", error.replace('\n', " "))
}

fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if args.self_test {
        return proof::self_test(args);
    }
    #[cfg(feature = "planted-bugs")]
    if let Some(name) = &args.hunt {
        return proof::hunt(args, name);
    }
    let from = if args.fresh { fresh_seed()? } else { args.from };
    if args.fresh {
        // Whatever becomes of the run, it can be replayed. Nobody may be there to read it.
        let _ = writeln!(std::io::stderr().lock(), "seeds from {from} on");
    }
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
    let verdicts = run_all(args, from);
    let summary = Summary::of(&verdicts, began.elapsed(), args.lanes.is_none());
    let summary = summary.with(Twice::of(&args.runs(from, || {}), &verdicts));
    if args.json {
        writeln!(out, "{}", summary.json())?;
    } else {
        for verdict in verdicts.iter().filter(|verdict| !verdict.broken.is_empty()) {
            writeln!(out, "{}", describe(verdict, args.lanes))?;
        }
        writeln!(out, "{}", named(args, from))?;
        writeln!(out, "{}", summary.text())?;
        writeln!(out, "{}", summary.verdict())?;
    }
    Ok(if summary.is_clean() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn fresh_seed() -> anyhow::Result<u64> {
    Ok(SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs() * 1000)
}

/// Runs the seeds, and says on stderr how far it is.
fn run_all(args: &Args, from: u64) -> Vec<Verdict> {
    let (mut bar, mut done, mut failed) = (Bar::on_stderr(), 0_u64, 0_u64);
    let found: Vec<u64> = found_beyond(args, from).collect();
    let all = args.seeds + found.len() as u64;
    let mut note = |verdict: &Verdict| {
        done += 1;
        failed += u64::from(!verdict.broken.is_empty());
        bar.show(share(done, all), &format!("{done} of {all} seeds, {failed} broken"));
        false
    };
    let runs = args.runs(from, || {});
    let mut verdicts = runs.run(&mut note);
    for from in found {
        verdicts.extend(Runs { from, seeds: 1, ..runs }.run(&mut note));
    }
    verdicts
}

#[expect(clippy::cast_precision_loss, reason = "a share to be drawn")]
fn share(done: u64, all: u64) -> f64 {
    done as f64 / all as f64
}

/// Seeds that have once found a defect, with those that begin at 0.
fn found_beyond(args: &Args, from: u64) -> impl Iterator<Item = u64> {
    let is_usual = from == 0 && !args.trace && args.lanes.is_none();
    found::beyond(args.seeds).filter(move |_| is_usual)
}

/// Which seeds were run, in words.
fn named(args: &Args, from: u64) -> String {
    let found: Vec<String> = found_beyond(args, from).map(|seed| seed.to_string()).collect();
    let last = from + (args.seeds - 1);
    if found.is_empty() {
        return format!("seeds {from} to {last}");
    }
    format!("seeds {from} to {last}, and what has once found a defect: {}", found.join(", "))
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
    use std::time::Duration;

    use super::*;
    use crate::documented::{documented, printed};

    #[test]
    fn what_could_not_be_carried_out_has_a_verdict_of_one_line() {
        let error = || anyhow::anyhow!("no cargo\nhere").context("building");
        assert_eq!(failed(&error(), false), "FAILED: building: no cargo here");
        let told: serde_json::Value = serde_json::from_str(&failed(&error(), true)).unwrap();
        assert_eq!(
            (&told["verdict"], &told["error"]),
            (&"failed".into(), &"building: no cargo\nhere".into())
        );
    }

    #[test]
    fn the_fields_of_the_verdict_are_those_in_the_documents() {
        let told = Summary::of(&[], Duration::from_secs(1), true).json();
        let told = serde_json::from_str(&told).unwrap();
        assert_eq!(
            documented(include_str!("../../../../doc/simulator.md"), "seeds"),
            printed(&told)
        );
    }
}
