//! `--self-test`: the variant with planted bugs is built and hunts each of them, then this build
//! runs the same seeds.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

use anyhow::{Context, ensure};
use serde_json::{Value, json};
use zzq_sim::runs::Runs;
use zzq_sim::self_test::{BUGS, Bug, CONTROLS, Control, SEEDS_MAX};
#[cfg(feature = "planted-bugs")]
use zzq_sim::verdict::Verdict;

use super::args::Args;

/// What a hunt has come to.
struct Hunted {
    name: &'static str,
    /// Whose oracle finds it.
    promise: &'static str,
    is_found: bool,
    /// The first seed that its oracle has refused.
    seed: Option<u64>,
    what: String,
    seconds: f64,
}

pub(crate) fn self_test(args: &Args) -> anyhow::Result<ExitCode> {
    let began = Instant::now();
    let variant = build()?;
    let built = began.elapsed().as_secs_f64();
    tell(&format!("the variant is built: {built:.0} s"));
    let mut hunted = Vec::new();
    for (at, bug) in BUGS.iter().enumerate() {
        if is_chosen(args, at, bug.name) {
            let one = ask(&variant, bug, args.jobs)?;
            tell(&row(&one));
            hunted.push(one);
        }
    }
    for (at, control) in CONTROLS.iter().enumerate() {
        if is_chosen(args, BUGS.len() + at, control.name) {
            let one = prove(control)?;
            tell(&row(&one));
            hunted.push(one);
        }
    }
    let hunts = began.elapsed().as_secs_f64() - built;
    let seeds = 1 + hunted.iter().filter_map(|one| one.seed).max().unwrap_or(0);
    let runs = Runs { from: 0, seeds, lanes: None, jobs: args.jobs, before: || {} };
    std::panic::set_hook(Box::new(|_| {}));
    let verdicts = runs.run(|_| false);
    let broken: Vec<u64> = verdicts
        .iter()
        .filter(|verdict| !verdict.broken.is_empty())
        .map(|verdict| verdict.seed)
        .collect();
    let missed: Vec<_> = hunted.iter().filter(|one| !one.is_found).map(|one| one.name).collect();
    let verdict = match (&missed[..], &broken[..]) {
        ([], []) => format!(
            "clean: {} bugs are found by the oracles of their promises, and {seeds} seeds without \
             them are clean; the build took {built:.0} s, the hunts {hunts:.0} s",
            hunted.len()
        ),
        ([], broken) => format!("broken: without a bug seeds {broken:?} are not clean"),
        (missed, _) => {
            format!("broken: not found within {SEEDS_MAX} seeds: {}", missed.join(", "))
        }
    };
    let is_clean = missed.is_empty() && broken.is_empty();
    let mut out = std::io::stdout().lock();
    let seconds = began.elapsed().as_secs_f64();
    if args.json {
        let told = told(is_clean, &hunted, seeds, &broken, [built, hunts, seconds]);
        writeln!(out, "{told}")?;
    } else {
        writeln!(out, "{:<30} {:<14} {:>5} {:>7}", "bug", "promise", "seed", "seconds")?;
        for one in &hunted {
            writeln!(out, "{}", row(one))?;
        }
        writeln!(out, "{seconds:.0} s")?;
        writeln!(out, "{verdict}")?;
    }
    Ok(if is_clean { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// For machines, on one line.
fn told(
    is_clean: bool,
    hunted: &[Hunted],
    seeds: u64,
    broken: &[u64],
    [built, hunts, seconds]: [f64; 3],
) -> Value {
    let found = |one: &Hunted| {
        json!({
            "name": one.name,
            "promise": one.promise,
            "found": one.is_found,
            "seed": one.seed,
            "what": one.what,
            "seconds": one.seconds,
        })
    };
    json!({
        "verdict": if is_clean { "clean" } else { "broken" },
        "bugs": hunted.iter().map(found).collect::<Vec<_>>(),
        "seeds": seeds,
        "failed": broken,
        "build_seconds": built,
        "hunt_seconds": hunts,
        "seconds": seconds,
    })
}

/// Whether it is this one's turn, or it was asked for.
fn is_chosen(args: &Args, at: usize, name: &str) -> bool {
    match args.part {
        Some((nth, of)) => at % of == nth - 1,
        None => args.only.is_empty() || args.only.iter().any(|only| only == name),
    }
}

fn row(one: &Hunted) -> String {
    let seed = match one.seed {
        Some(seed) => seed.to_string(),
        None => if one.is_found { "-" } else { "none" }.into(),
    };
    let mut row = format!("{:<30} {:<14} {:>5} {:>7.1}", one.name, one.promise, seed, one.seconds);
    if !one.is_found {
        // Writing to a text does not fail.
        let _ = write!(row, "  {}", one.what);
    }
    row
}

fn tell(line: &str) {
    // Nobody may be there to read it.
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}

/// Cargo, for the sources that this build was made from, with a place of its own for what it makes.
fn cargo(what: &str) -> (Command, PathBuf) {
    let room = Path::new(env!("CARGO_MANIFEST_DIR"));
    let target = match std::env::var_os("CARGO_TARGET_DIR") {
        Some(target) => PathBuf::from(target),
        None => room.join("../../target"),
    };
    let target = target.join("planted");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.current_dir(room).args([what, "--quiet", "--profile", "sim", "--target-dir"]);
    command.arg(&target).stdout(Stdio::null());
    (command, target)
}

/// Builds the variant beside this build.
fn build() -> anyhow::Result<PathBuf> {
    let (mut command, target) = cargo("build");
    command.args(["-p", "zzq-sim", "--features", "planted-bugs"]);
    let status = command.status().context("cargo build")?;
    ensure!(status.success(), "the variant does not build: {status}");
    Ok(target.join("sim/zzq_sim"))
}

/// Runs a control of the log.
fn prove(control: &Control) -> anyhow::Result<Hunted> {
    let began = Instant::now();
    let (mut command, _) = cargo("test");
    command.args(["-p", "zzq-wal", "--features", "negative-controls", "--test", "controls"]);
    command.args(["--", "--exact", control.test]).stderr(Stdio::null());
    let status = command.status().context("cargo test")?;
    Ok(Hunted {
        name: control.name,
        promise: "control of wal",
        is_found: status.success(),
        seed: None,
        what: format!("{}: {status}", control.test),
        seconds: began.elapsed().as_secs_f64(),
    })
}

/// Lets the variant look for one bug.
fn ask(variant: &Path, bug: &'static Bug, jobs: Option<usize>) -> anyhow::Result<Hunted> {
    let began = Instant::now();
    let mut command = Command::new(variant);
    command.args(["--hunt", bug.name, "--seeds", &SEEDS_MAX.to_string()]);
    if let Some(jobs) = jobs {
        command.args(["--jobs", &jobs.to_string()]);
    }
    let output = command.stderr(Stdio::null()).output().context("running the variant")?;
    let answer: Value = serde_json::from_slice(&output.stdout)
        .with_context(|| format!("the hunt for {} ends with {}", bug.name, output.status))?;
    let seed = answer["seed"].as_u64();
    Ok(Hunted {
        name: bug.name,
        promise: bug.promise,
        is_found: seed.is_some(),
        seed,
        what: answer["what"].as_str().unwrap_or_default().into(),
        seconds: began.elapsed().as_secs_f64(),
    })
}

/// Looks for a planted bug; one JSON object says what was found.
#[cfg(feature = "planted-bugs")]
pub(crate) fn hunt(args: &Args, name: &str) -> anyhow::Result<ExitCode> {
    let bug = Bug::of(name).context("no such bug")?;
    std::panic::set_hook(Box::new(|_| {}));
    let found = |verdict: &Verdict| bug.is_found_by(verdict);
    if args.every {
        let verdicts = args.runs(args.from, bug.planter()).run(|_| false);
        let seeds: Vec<_> = verdicts.iter().filter(|one| found(one)).map(|one| one.seed).collect();
        let mut out = std::io::stdout().lock();
        writeln!(out, "{}", json!({ "name": name, "found": seeds.len(), "seeds": seeds }))?;
        out.flush()?;
        std::process::exit(0)
    }
    let hinted = Runs { seeds: 1, ..args.runs(bug.hint, bug.planter()) };
    let mut verdicts = hinted.run(found);
    if !verdicts.iter().any(found) {
        verdicts = args.runs(0, bug.planter()).run(found);
    }
    let found = verdicts.iter().find(|verdict| bug.is_found_by(verdict));
    let broken = verdicts.iter().flat_map(|verdict| {
        let other = verdict.broken.iter().filter(|one| one.promise != bug.promise).take(1);
        other.map(|one| (verdict.seed, one))
    });
    let what = match found
        .and_then(|verdict| verdict.broken.iter().find(|broken| bug.is_told_by(broken)))
    {
        Some(broken) => broken.what.clone(),
        None => broken
            .take(3)
            .map(|(seed, one)| format!("{seed}: {}: {}", one.promise, one.what))
            .collect::<Vec<_>>()
            .join("; "),
    };
    let seed = found.map(|verdict| verdict.seed);
    let told = json!({ "name": name, "seed": seed, "seeds": verdicts.len(), "what": what });
    let mut out = std::io::stdout().lock();
    writeln!(out, "{told}")?;
    // Threads that hang in a step are left behind.
    out.flush()?;
    std::process::exit(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::documented::{documented, printed};

    #[test]
    fn the_fields_of_the_self_test_are_those_in_the_documents() {
        let hunted = Hunted {
            name: "apply-twice",
            promise: "at most once",
            is_found: true,
            seed: None,
            what: String::new(),
            seconds: 1.0,
        };
        let told = told(true, &[hunted], 1, &[], [1.0; 3]);
        assert_eq!(
            documented(include_str!("../../../../../doc/simulator.md"), "self-test"),
            printed(&told)
        );
    }
}
