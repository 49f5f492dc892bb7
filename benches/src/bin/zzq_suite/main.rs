//! Our broker beside its peers, cell by cell, and the page that tells of it.
//!
//! Owns: what is measured now, and what was measured already.

#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command speaks")]

mod cells;
mod facts;
mod faults;
mod measure;
mod peers;
mod report;
mod results;
mod state;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use clap::Parser;
use zzq_bench::lines::{append, read};
use zzq_bench::load::raise_file_limit;
use zzq_bench::{machine, page};

use crate::cells::{CELLS, Cell, FIRST};
use crate::measure::{Effort, measure};
use crate::peers::{Found, PEERS, SUBJECT, Setting};
use crate::results::{Record, newest};
use crate::state::Sizes;

/// Whose marks a page has.
const COMMAND: &str = "zzq_suite";

/// Rounds below which figures are not for the page.
const ROUNDS_LEAST: u32 = 9;

/// Measures zzq and its peers in turns, and writes what came out.
///
/// A cell that was measured with a peer, by this build and with so many rounds, is not measured
/// again: what one run leaves, the next goes on with. Prints the tables of all that is known.
#[derive(Debug, Parser)]
#[command(version)]
struct Options {
    /// Our program, built with --release.
    #[arg(long, default_value = SUBJECT_PROGRAM)]
    broker: PathBuf,
    /// Where a peer's program is; otherwise it is looked for on PATH.
    #[arg(long = "at", value_name = "PEER=PATH", value_parser = place_of)]
    places: Vec<(String, PathBuf)>,
    /// Only these peers, by their names; may be given several times.
    #[arg(long)]
    peer: Vec<String>,
    /// Only these cells, by their names; may be given several times.
    #[arg(long)]
    cell: Vec<String>,
    /// Only the cells of the headline.
    #[arg(long)]
    headline: bool,
    /// Few and short rounds of everything, in ten minutes; kept apart, and not for the page. As
    /// with --headline, most peers have two cells only, unless --peer names some.
    #[arg(long, conflicts_with = "write")]
    quick: bool,
    /// Begins no cell that would end later than this.
    #[arg(long, default_value_t = 20.0)]
    minutes: f64,
    /// Rounds of each cell [default: 9, or 3 with --quick].
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: Option<u32>,
    /// Seconds of publishing in each [default: 1, or 0.4 with --quick].
    #[arg(long)]
    seconds: Option<f64>,
    /// Where results are kept, and data directories are made: the disk that is measured.
    #[arg(long, default_value = "target/zzq_suite")]
    dir: PathBuf,
    /// Writes the tables between the marks of this page, and charts into doc/charts beside it.
    #[arg(long, value_name = "PAGE")]
    write: Option<PathBuf>,
    /// Instead of how fast, what brokers do under overload and when killed: written between the
    /// marks of this page.
    #[arg(long, value_name = "PAGE")]
    facts: Option<PathBuf>,
    /// Prints the names of all cells and peers.
    #[arg(long)]
    list: bool,
}

const SUBJECT_PROGRAM: &str = "target/release/zzq_broker";

fn place_of(text: &str) -> Result<(String, PathBuf), String> {
    let (broker, path) = text.split_once('=').ok_or("PEER=PATH")?;
    if PEERS.iter().all(|peer| peer.broker != broker) {
        return Err(format!("no peer is called {broker}"));
    }
    Ok((broker.to_owned(), path.into()))
}

fn main() -> Result<()> {
    let options = Options::parse();
    if options.list {
        for cell in CELLS {
            println!("{:<14}{}", cell.name, cell.title);
        }
        for peer in PEERS {
            println!("{:<20}{}", peer.name, peer.install);
            if !peer.lacks.is_empty() {
                println!("{:<20}  {}", "", peer.lacks);
            }
        }
        return Ok(());
    }
    fs::create_dir_all(&options.dir)
        .with_context(|| format!("cannot make {}", options.dir.display()))?;
    raise_file_limit()?;
    if let Some(page) = &options.facts {
        return facts(&options, page);
    }
    let file = options.dir.join(if options.quick { "quick.jsonl" } else { "results.jsonl" });
    work(&options, &file)?;
    let mut records: Vec<Record> = read(&file)?;
    if let Some(page) = &options.write {
        let all = records.len();
        records.retain(|record| record.rounds >= ROUNDS_LEAST);
        if records.len() < all {
            eprintln!("{} results have too few rounds for a page", all - records.len());
        }
        let text = report::text(&records);
        page::write_with_charts(page, COMMAND, &text, report::charts(&records))?;
    } else if !records.is_empty() {
        print!("{}", report::text(&records));
    }
    Ok(())
}

fn facts(options: &Options, path: &Path) -> Result<()> {
    let mut brokers = vec![subject(options)?];
    brokers.extend(peers(options));
    // Settings of one broker do not differ in this.
    brokers.dedup_by_key(|found| found.setting.family);
    let place = tempfile::tempdir_in(&options.dir)?;
    let table = facts::text(&brokers, place.path(), &mut |line| eprintln!("{line}"));
    let machine = machine::machine(&options.dir);
    page::write(path, COMMAND, &format!("{table}\nSeen on {}, {machine}.\n", machine::today()))
}

/// Measures what is asked for and not known.
fn work(options: &Options, file: &Path) -> Result<()> {
    let began = Instant::now();
    let limit = Duration::try_from_secs_f64(options.minutes * 60.0).context("--minutes")?;
    if limit.is_zero() {
        return Ok(());
    }
    let subject = subject(options)?;
    let peers = peers(options);
    let program = subject.checksum()?;
    let place = tempfile::tempdir_in(&options.dir)?;
    let effort = effort(options);
    for cell in wanted(options)? {
        let known: Vec<Record> = read(file)?;
        let done = |peer: &Found| {
            newest(&known, cell.name, peer.setting.name)
                .is_some_and(|it| it.program == program && it.rounds >= effort.rounds)
        };
        let due: Vec<&Found> =
            peers.iter().filter(|peer| !done(peer) && options.takes(cell, peer.setting)).collect();
        if due.is_empty() {
            continue;
        }
        let brokers: Vec<&Found> = [&subject].into_iter().chain(due.iter().copied()).collect();
        let settings = brokers.iter().map(|found| found.setting);
        let takes = Duration::from_secs_f64(effort.seconds_of(cell, settings));
        if began.elapsed() + takes > limit {
            eprintln!("{} and what follows is left for the next run", cell.name);
            break;
        }
        let outcomes =
            measure(cell, &brokers, effort, place.path(), &mut |line| eprintln!("{line}"))?;
        for (peer, outcome) in due.iter().zip(outcomes) {
            let Some(outcome) = outcome else { continue };
            let record = Record {
                cell: cell.name.to_owned(),
                peer: peer.setting.name.to_owned(),
                rounds: effort.rounds,
                seconds: effort.seconds,
                date: machine::today(),
                machine: machine::machine(&options.dir),
                version: subject.version.clone(),
                program,
                peer_version: peer.version.clone(),
                measures: outcome.measures,
                faults: outcome.faults,
                went: outcome.went,
            };
            append(file, &record)?;
        }
    }
    Ok(())
}

fn subject(options: &Options) -> Result<Found> {
    Found::subject(&options.broker)
        .with_context(|| format!("{} is not there: {}", options.broker.display(), SUBJECT.install))
}

impl Options {
    /// Whether a peer is measured in a cell.
    fn takes(&self, cell: &Cell, peer: &Setting) -> bool {
        let start = if cell.stores() { peer.storage } else { peer.memory };
        let short = self.quick || self.headline;
        let all = !short || !self.peer.is_empty() || FIRST.contains(&cell.name);
        let asked = peer.everywhere || cell.common && all;
        start.is_some() && asked && cell.qos() <= peer.grants
    }
}

fn effort(options: &Options) -> Effort {
    let (rounds, seconds, sizes) =
        if options.quick { (3, 0.4, Sizes::QUICK) } else { (ROUNDS_LEAST, 1.0, Sizes::FULL) };
    Effort {
        rounds: options.rounds.unwrap_or(rounds),
        seconds: options.seconds.unwrap_or(seconds),
        sizes,
    }
}

fn wanted(options: &Options) -> Result<Vec<&'static Cell>> {
    for name in &options.peer {
        ensure!(PEERS.iter().any(|peer| peer.name == name), "there is no peer {name}");
    }
    for name in &options.cell {
        let known = CELLS.iter().any(|cell| cell.name == name);
        ensure!(known, "there is no cell {name}: --list names them");
    }
    let wanted = |cell: &&Cell| {
        let named = options.cell.is_empty() || options.cell.iter().any(|name| name == cell.name);
        named && (cell.headline || !options.headline)
    };
    Ok(CELLS.iter().filter(wanted).collect())
}

/// Those that are here; the others are named.
fn peers(options: &Options) -> Vec<Found> {
    let asked = |name: &str| options.peer.is_empty() || options.peer.iter().any(|one| one == name);
    let mut found = Vec::new();
    for setting in PEERS.iter().filter(|setting| asked(setting.name)) {
        match Found::peer(setting, &options.places) {
            Some(peer) => found.push(peer),
            None => eprintln!(
                "without {}, which is not here: {}, or --at {}=PATH",
                setting.name, setting.install, setting.broker
            ),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How long a run with all peers takes, in minutes.
    fn minutes(arguments: &[&str]) -> f64 {
        let options = Options::parse_from([&["zzq_suite"], arguments].concat());
        let effort = effort(&options);
        let takes = |cell: &&Cell| {
            let peers = PEERS.iter().filter(|peer| options.takes(cell, peer));
            effort.seconds_of(cell, [&SUBJECT].into_iter().chain(peers))
        };
        wanted(&options).unwrap().iter().map(takes).sum::<f64>() / 60.0
    }

    #[test]
    fn runs_take_as_long_as_they_say() {
        let (quick, headline, all) =
            (minutes(&["--quick"]), minutes(&["--headline"]), minutes(&[]));
        assert!(quick <= 10.0 && headline <= 60.0 && all <= 240.0, "{quick} {headline} {all}");
    }

    #[test]
    fn no_cell_takes_longer_than_a_part_may() {
        for cell in CELLS {
            let takes = minutes(&["--cell", cell.name]);
            assert!(takes < 20.0, "{}: {takes}", cell.name);
        }
    }

    #[test]
    fn peers_are_measured_where_they_can_be() {
        let takes = |arguments: &[&str], cell, peer| {
            let options = Options::parse_from([&["zzq_suite"], arguments].concat());
            let cell = CELLS.iter().find(|one| one.name == cell).unwrap();
            options.takes(cell, PEERS.iter().find(|one| one.name == peer).unwrap())
        };
        assert!(takes(&[], "100-100-q0", "mosquitto") && !takes(&[], "100-100-q0", "rabbitmq"));
        assert!(takes(&[], "1-1-q1", "rabbitmq") && !takes(&[], "1-1-q2", "rabbitmq"));
        assert!(takes(&[], "disk-1x16", "rabbitmq") && !takes(&[], "disk-1x16", "rumqttd"));
        assert!(!takes(&["--quick"], "1-10-q1", "rabbitmq"));
        assert!(takes(&["--quick", "--peer", "rabbitmq"], "1-10-q1", "rabbitmq"));
    }
}
