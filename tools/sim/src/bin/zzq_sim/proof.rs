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
use zzq_sim::self_test::{BUGS, Bug, SEEDS_MAX};

use super::args::Args;

/// What a hunt has come to.
struct Hunted {
    bug: &'static Bug,
    /// The first seed that its oracle has refused.
    seed: Option<u64>,
    what: String,
    seconds: f64,
}

pub(crate) fn self_test(args: &Args) -> anyhow::Result<ExitCode> {
    let began = Instant::now();
    let variant = build()?;
    tell(&format!("the variant is built: {:.0} s", began.elapsed().as_secs_f64()));
    let mut hunted = Vec::new();
    for bug in chosen(args) {
        let one = ask(&variant, bug, args.jobs)?;
        tell(&row(&one));
        hunted.push(one);
    }
    let seeds = 1 + hunted.iter().filter_map(|one| one.seed).max().unwrap_or(0);
    let runs = Runs { from: 0, seeds, lanes: None, jobs: args.jobs, before: || {} };
    std::panic::set_hook(Box::new(|_| {}));
    let verdicts = runs.run(|_| false);
    let broken: Vec<u64> = verdicts
        .iter()
        .filter(|verdict| !verdict.broken.is_empty())
        .map(|verdict| verdict.seed)
        .collect();
    let missed: Vec<_> =
        hunted.iter().filter(|one| one.seed.is_none()).map(|one| one.bug.name).collect();
    let verdict = match (&missed[..], &broken[..]) {
        ([], []) => format!(
            "clean: {} bugs are found by the oracles of their promises, and {seeds} seeds without \
             them are clean",
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
        let found = |one: &Hunted| {
            json!({
                "name": one.bug.name,
                "promise": one.bug.promise,
                "seed": one.seed,
                "what": one.what,
                "seconds": one.seconds,
            })
        };
        let bugs: Vec<_> = hunted.iter().map(found).collect();
        let word = if is_clean { "clean" } else { "broken" };
        let told = json!({
            "verdict": word, "bugs": bugs, "seeds": seeds, "failed": broken, "seconds": seconds,
        });
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

fn chosen(args: &Args) -> Vec<&'static Bug> {
    let all = BUGS.iter().enumerate();
    let chosen = all.filter(|(at, bug)| match args.part {
        Some((nth, of)) => at % of == nth - 1,
        None => args.only.is_empty() || args.only.iter().any(|name| name == bug.name),
    });
    chosen.map(|(_, bug)| bug).collect()
}

fn row(one: &Hunted) -> String {
    let seed = one.seed.map_or("none".into(), |seed| seed.to_string());
    let mut row =
        format!("{:<30} {:<14} {:>5} {:>7.1}", one.bug.name, one.bug.promise, seed, one.seconds);
    if one.seed.is_none() {
        // Writing to a text does not fail.
        let _ = write!(row, "  {}", one.what);
    }
    row
}

fn tell(line: &str) {
    // Nobody may be there to read it.
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}

/// Builds the variant beside this build, from the sources that this one was built from.
fn build() -> anyhow::Result<PathBuf> {
    let room = Path::new(env!("CARGO_MANIFEST_DIR"));
    let target = match std::env::var_os("CARGO_TARGET_DIR") {
        Some(target) => PathBuf::from(target),
        None => room.join("../../target"),
    };
    let target = target.join("planted");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.current_dir(room).args(["build", "--quiet", "--profile", "sim", "-p", "zzq-sim"]);
    command.args(["--features", "planted-bugs", "--target-dir"]).arg(&target);
    let status = command.stdout(Stdio::null()).status().context("cargo build")?;
    ensure!(status.success(), "the variant does not build: {status}");
    Ok(target.join("sim/zzq_sim"))
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
    Ok(Hunted {
        bug,
        seed: answer["seed"].as_u64(),
        what: answer["what"].as_str().unwrap_or_default().into(),
        seconds: began.elapsed().as_secs_f64(),
    })
}

/// Looks for a planted bug; one JSON object says what was found.
#[cfg(feature = "planted-bugs")]
pub(crate) fn hunt(args: &Args, name: &str) -> anyhow::Result<ExitCode> {
    let bug = Bug::of(name).context("no such bug")?;
    std::panic::set_hook(Box::new(|_| {}));
    let verdicts = args.runs(0, bug.planter()).run(|verdict| bug.is_found_by(verdict));
    let found = verdicts.iter().find(|verdict| bug.is_found_by(verdict));
    let broken = verdicts.iter().flat_map(|verdict| {
        let other = verdict.broken.iter().filter(|one| one.promise != bug.promise).take(1);
        other.map(|one| (verdict.seed, one))
    });
    let what = match found
        .and_then(|verdict| verdict.broken.iter().find(|broken| broken.promise == bug.promise))
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
