//! How near the log is to the disk: the least that a group commit can do and the log, in turns.
//!
//! Owns: the order of runs, and the exit status: 1 when the bound was too slow for the result to
//! mean anything, 2 when nothing could be measured.

#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command speaks")]

mod bound;
mod cell;
mod outstanding;
mod peer;
mod report;
mod rounds;
mod writers;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Parser;
use zzq_bench::chart::{Bars, Chart};
use zzq_bench::spread::Spread;
use zzq_wal::io::Backend;

use crate::bound::Bound;
use crate::cell::{CELLS, Cell, TABLE_LEAST, Verdict};
use crate::outstanding::Outcome;
use crate::peer::Peer;
use crate::report::{HEAD, PEER_HEAD, count};
use crate::rounds::{Figures, Measured, Ratios, Round};
use crate::writers::Writers;

/// Measures how near the log is to the disk: records a second and p50, beside the least that a
/// group commit can do on the same disk, in turns.
///
/// The exit status is 1 when the bound itself is below 0.7 of what it reached where the targets
/// were set: the machine was disturbed or its disk is another one, and the result is INVALID. A
/// target that is missed is only said.
#[derive(Debug, Parser)]
struct Arguments {
    /// Fewer pairs of runs, and without the peer where it has not been built: ends within 8
    /// minutes.
    #[arg(long)]
    quick: bool,
    /// One JSON object a line, one line a cell, instead of a table.
    #[arg(long)]
    json: bool,
    /// A directory on the disk to measure; what is made there is removed.
    #[arg(long, default_value = "target/wal_bound")]
    dir: PathBuf,
    /// Pairs of runs for each cell [default: 21, or 9 with --quick].
    #[arg(long)]
    pairs: Option<usize>,
    /// Length of one run.
    #[arg(long, default_value_t = 1000)]
    milliseconds: u64,
    /// Only the cells with these numbers of writers.
    #[arg(long, value_delimiter = ',')]
    writers: Vec<u64>,
    /// How the log's writes reach the disk. The bound's go through Linux AIO.
    #[arg(long, default_value = "auto")]
    backend: Backend,
    /// A directory for charts of the ratios, as SVG.
    #[arg(long)]
    charts: Option<PathBuf>,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(Verdict::Invalid) => ExitCode::FAILURE,
        Ok(Verdict::Passed | Verdict::Missed) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("wal_bound: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run(arguments: &Arguments) -> Result<Verdict> {
    std::fs::create_dir_all(&arguments.dir)
        .with_context(|| format!("cannot make {}", arguments.dir.display()))?;
    let place = tempfile::tempdir_in(&arguments.dir)?;
    let measured = measure(arguments, place.path())?;
    if !arguments.json {
        println!("{HEAD}");
        for cell in &measured {
            println!("{cell}");
        }
        let rows: Vec<String> = measured.iter().filter_map(Measured::peer_row).collect();
        if !rows.is_empty() {
            println!("\n{PEER_HEAD}\n{}", rows.join("\n"));
        }
    }
    if let Some(directory) = &arguments.charts {
        draw(&measured, directory)?;
    }
    Ok(verdict(&measured))
}

/// Charts of what all cells have.
fn draw(measured: &[Measured], directory: &Path) -> Result<()> {
    let subjects = ["zzq-wal", "zzq-disk 0.5.0"];
    let with_peer = measured.iter().all(|cell| cell.peer.is_some());
    let subjects = if with_peer { &subjects[..] } else { &subjects[..1] };
    let chart = |title, ratio: fn(&Ratios) -> Spread, target: fn(&Cell) -> f64| {
        let cells = measured.iter().map(|cell| {
            let peer = cell.peer.as_ref().filter(|_| with_peer).map(|(_, ratios)| ratios);
            Bars {
                name: cell.cell.name(),
                ratios: [Some(&cell.ratios), peer].into_iter().flatten().map(ratio).collect(),
                target: Some(target(&cell.cell)),
            }
        });
        Chart { title, subjects, reference: "the bound", cells: cells.collect() }
    };
    std::fs::create_dir_all(directory)?;
    let title = "durable records a second by the bound's: more is better";
    let rate = chart(title, |ratios| ratios.rate, |cell| cell.rate_least);
    std::fs::write(directory.join("wal_rate.svg"), rate.svg())?;
    let title = "p50 to durable by the bound's: less is better";
    let p50 = chart(title, |ratios| ratios.p50, |cell| cell.p50_most);
    std::fs::write(directory.join("wal_p50.svg"), p50.svg())?;
    Ok(())
}

/// The peer, where it has been built; a full comparison needs it.
fn peer(quick: bool, place: &Path) -> Result<Option<Peer>> {
    let program = peer::built();
    if program.exists() {
        return Peer::start(&program, place).map(Some);
    }
    if !quick {
        bail!("the peer is not built (or ask for --quick): {}", peer::BUILD);
    }
    eprintln!("without the peer, which is built by: {}", peer::BUILD);
    Ok(None)
}

/// Everything measured, in the order of the cells.
fn measure(arguments: &Arguments, place: &Path) -> Result<Vec<Measured>> {
    let mut subjects = Subjects {
        bound: Bound::open(&place.join("bound"))?,
        log: Writers::open(&place.join("log"), arguments.backend)?,
        peer: peer(arguments.quick, &place.join("peer"))?,
    };
    eprintln!("writes of the log: {}", subjects.log.choice());
    let pairs = arguments.pairs.unwrap_or(if arguments.quick { 9 } else { 21 });
    let length = Duration::from_millis(arguments.milliseconds);
    // Enough for the log to have grown its segments and to use them again.
    subjects.log.run(1000, &[0; 1024], WARM_UP)?;
    subjects.bound.run(1000, &[0; 1024], WARM_UP)?;
    if let Some(peer) = &mut subjects.peer {
        peer.run(&CELLS[CELLS.len() - 1], WARM_UP)?;
    }
    let wanted =
        |cell: &&Cell| arguments.writers.is_empty() || arguments.writers.contains(&cell.writers);
    let mut measured = Vec::new();
    for cell in CELLS.iter().filter(wanted) {
        let mut rounds = Vec::new();
        for nth in 1..=pairs {
            let round = subjects.round(cell, length)?;
            eprintln!("{}, pair {nth} of {pairs}: {}", cell.name(), progress(&round));
            rounds.push(round);
        }
        let cell = Measured::new(*cell, &rounds);
        if arguments.json {
            println!("{}", cell.json());
        }
        measured.push(cell);
    }
    Ok(measured)
}

const WARM_UP: Duration = Duration::from_secs(1);

struct Subjects {
    bound: Bound,
    log: Writers,
    peer: Option<Peer>,
}

impl Subjects {
    fn round(&mut self, cell: &Cell, length: Duration) -> Result<Round> {
        let body = vec![0x5a; cell.payload];
        let figures = |outcome: Result<Outcome>| Figures::new(&outcome?);
        Ok(Round {
            bound: figures(self.bound.run(cell.writers, &body, length))?,
            log: figures(self.log.run(cell.writers, &body, length))?,
            peer: self.peer.as_mut().map(|peer| peer.run(cell, length)).transpose()?,
        })
    }
}

fn progress(round: &Round) -> String {
    let say = |name, run: &Figures| format!("{name} {}/s {:.0} us", count(run.rate), run.p50);
    let mut all = vec![say("bound", &round.bound), say("log", &round.log)];
    all.extend(round.peer.as_ref().map(|peer| say("zzq-disk", peer)));
    all.join(", ")
}

/// The worst of all, said on stderr with what it was.
fn verdict(measured: &[Measured]) -> Verdict {
    for cell in measured {
        match cell.verdict {
            Verdict::Passed => {}
            Verdict::Missed => eprintln!(
                "{}: missed: {} of the bound's rate, {} of its p50",
                cell.cell.name(),
                cell.ratios.rate,
                cell.ratios.p50
            ),
            Verdict::Invalid => eprintln!(
                "{}: INVALID: the bound made {}/s, below {TABLE_LEAST} of {}/s",
                cell.cell.name(),
                count(cell.bound.rate),
                count(cell.cell.table.0)
            ),
        }
    }
    let has = |verdict| measured.iter().any(|cell| cell.verdict == verdict);
    match () {
        () if has(Verdict::Invalid) => Verdict::Invalid,
        () if has(Verdict::Missed) => Verdict::Missed,
        () => Verdict::Passed,
    }
}
