//! What work costs as there is more of it, axis by axis, and the page that tells of it.
//!
//! Owns: what is measured now, and what was measured already. Every point has a broker of its own,
//! as a process, and this one makes the load over loopback.

#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command speaks")]

mod axes;
mod report;
mod results;
mod work;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use clap::Parser;
use zzq_bench::lines::{append, read};
use zzq_bench::load::raise_file_limit;
use zzq_bench::program::{checksum, first_line};
use zzq_bench::{machine, page};

use crate::axes::{AXES, Axis};
use crate::results::{Key, Record};
use crate::work::Bench;

/// Whose marks a page has.
const COMMAND: &str = "zzq_growth";

/// Rounds below which figures are not for the page.
const ROUNDS_LEAST: u32 = 3;

/// Measures what work costs zzq as there is more of it.
///
/// A point that was measured with this build in so many rounds is not measured again: what one run
/// leaves, the next goes on with. Prints the tables of all that is known.
#[derive(Debug, Parser)]
#[command(version)]
struct Options {
    /// The program, built with --release.
    #[arg(long, default_value = "target/release/zzq_broker")]
    broker: PathBuf,
    /// Only these axes, by their names; may be given several times.
    #[arg(long)]
    axis: Vec<String>,
    /// No points beyond this.
    #[arg(long)]
    most: Option<u64>,
    /// One short round of everything; kept apart, and not for the page.
    #[arg(long, conflicts_with = "write")]
    quick: bool,
    /// Begins no point that would end later than this.
    #[arg(long, default_value_t = 20.0)]
    minutes: f64,
    /// Rounds of all points of an axis [default: 3, or 1 with --quick].
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: Option<u32>,
    /// Seconds of each stream of messages [default: 1, or 0.3 with --quick].
    #[arg(long)]
    seconds: Option<f64>,
    /// Where results are kept, and data directories are made.
    #[arg(long, default_value = "target/zzq_growth")]
    dir: PathBuf,
    /// Writes the tables between the marks of this page, and charts into doc/charts beside it.
    #[arg(long, value_name = "PAGE")]
    write: Option<PathBuf>,
    /// Prints the names of all axes, with their points.
    #[arg(long)]
    list: bool,
}

fn main() -> Result<()> {
    let options = Options::parse();
    if options.list {
        for axis in AXES {
            let points: Vec<String> = axis.points.iter().map(|at| axis.label(*at)).collect();
            println!("{:<16}{}", axis.name, points.join(", "));
        }
        return Ok(());
    }
    fs::create_dir_all(&options.dir)
        .with_context(|| format!("cannot make {}", options.dir.display()))?;
    let files = raise_file_limit()?;
    let file = options.dir.join(if options.quick { "quick.jsonl" } else { "results.jsonl" });
    work(&options, files, &file)?;
    let mut records: Vec<Record> = read(&file)?;
    results::keep_newest_builds(&mut records);
    if let Some(page) = &options.write {
        let few = results::drop_below(&mut records, ROUNDS_LEAST);
        if !few.is_empty() {
            eprintln!("too few rounds for a page: {}", few.join(", "));
        }
        let text = report::text(&records);
        page::write_with_charts(page, COMMAND, &text, report::charts(&records))?;
    } else if !records.is_empty() {
        print!("{}", report::text(&records));
    }
    Ok(())
}

/// Measures what is asked for and not known: all points of an axis, upwards in one round and
/// downwards in the next, so that a machine that slows down is no slope.
fn work(options: &Options, files: u64, file: &Path) -> Result<()> {
    let began = Instant::now();
    let limit = Duration::try_from_secs_f64(options.minutes * 60.0).context("--minutes")?;
    if limit.is_zero() {
        return Ok(());
    }
    let program = &options.broker;
    let version = first_line(program, "--version").with_context(|| {
        format!("{} is not there: cargo build --release -p zzq-broker", program.display())
    })?;
    let checksum = checksum(program)?;
    let place = tempfile::tempdir_in(&options.dir)?;
    let seconds = options.seconds.unwrap_or(if options.quick { 0.3 } else { 1.0 });
    let bench = Bench { program, place: place.path(), seconds };
    let rounds = options.rounds.unwrap_or(if options.quick { 1 } else { ROUNDS_LEAST });
    for (axis, round) in
        wanted(options)?.into_iter().flat_map(|axis| (0..rounds).map(move |round| (axis, round)))
    {
        let known: Vec<Record> = read(file)?;
        let key = |point| Key { axis: axis.name, point, round, seconds, program: checksum };
        let due = |point: &u64| {
            options.most.is_none_or(|most| *point <= most)
                && !known.iter().any(|it| it.is(&key(*point)))
        };
        for point in axis.in_turn(round).into_iter().filter(due) {
            if !axis.fits(point, files) {
                let label = axis.label(point);
                eprintln!("{} {label} is left out: {files} files at most", axis.name);
                continue;
            }
            let takes = Duration::from_secs_f64(axis.seconds_of(point, seconds));
            if began.elapsed() + takes > limit {
                eprintln!("{} {} and what follows is left", axis.name, axis.label(point));
                return Ok(());
            }
            let point_began = Instant::now();
            let measures = (axis.work)(&bench, point)
                .with_context(|| format!("{} {}", axis.name, axis.label(point)))?;
            ensure!(
                measures.keys().all(|name| axis.measures.iter().any(|it| it.name == *name)),
                "each measure has a row: {measures:?}"
            );
            let took = point_began.elapsed().as_secs_f64();
            eprintln!("{} {}, round {}: {took:.1} s", axis.name, axis.label(point), round + 1);
            let record = Record {
                axis: axis.name.to_owned(),
                point,
                round,
                seconds,
                took,
                date: machine::today(),
                machine: machine::machine(&options.dir),
                version: version.clone(),
                program: checksum,
                measures: measures.into_iter().map(|(name, at)| (name.to_owned(), at)).collect(),
            };
            append(file, &record)?;
        }
    }
    Ok(())
}

fn wanted(options: &Options) -> Result<Vec<&'static Axis>> {
    for name in &options.axis {
        if !AXES.iter().any(|axis| axis.name == name) {
            bail!("there is no axis {name}: --list names them");
        }
    }
    let named =
        |axis: &&Axis| options.axis.is_empty() || options.axis.iter().any(|name| name == axis.name);
    Ok(AXES.iter().filter(named).collect())
}
