//! What state costs: memory while messages wait, a start over much of it, images of it, the disk,
//! and history read back.
//!
//! Everything is done to a broker as a process, over sockets and signals, and read from `/proc` and
//! the data directory. Each cell prints its figure beside its bound, and what lies above a bound
//! makes the command fail.

#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, reason = "a command speaks")]

mod cells;
mod replay;
mod server;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, ensure};
use clap::{Parser, ValueEnum};

/// Fills a broker over sockets and measures what its state costs.
#[derive(Debug, Parser)]
#[command(version)]
struct Options {
    /// The program, built with --release.
    #[arg(long, default_value = "target/release/zzq_broker")]
    broker: PathBuf,
    /// Where its data directory is made; otherwise among temporary files.
    #[arg(long)]
    dir: Option<PathBuf>,
    /// What is measured; may be given several times. Without it, all.
    #[arg(long, value_enum)]
    cell: Vec<Cell>,
    /// Messages that wait, and retained messages.
    #[arg(long, default_value_t = 1_000_000)]
    messages: u32,
    /// Sessions.
    #[arg(long, default_value_t = 100_000)]
    sessions: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Cell {
    /// The disk that an empty broker takes, and one with a session and 16 retained messages.
    Footprint,
    /// Messages of 100 bytes wait for a client that is away, over starts, until it is back.
    Queue,
    /// A start over sessions, waiting and retained messages.
    Recovery,
    /// Bytes written for 1 GiB that waits, with ten images.
    Amplification,
    /// The latency of publishes with an image being made, and without.
    Latency,
    /// History for all messages, for one in a thousand, and what of the log is read for it.
    Replay,
}

fn main() -> Result<ExitCode> {
    let options = Options::parse();
    ensure!(options.broker.exists(), "{} is not there", options.broker.display());
    let cells = if options.cell.is_empty() { Cell::value_variants() } else { &options.cell };
    let place = options.dir.as_deref();
    let mut holds = true;
    for cell in cells {
        let server = |flags: &[&str]| server::Server::start(&options.broker, place, flags);
        let figures = match cell {
            Cell::Footprint => cells::footprint(&server)?,
            Cell::Queue => cells::queue(&server, options.messages)?,
            Cell::Recovery => cells::recovery(&server, options.sessions, options.messages)?,
            Cell::Amplification => cells::amplification(&server)?,
            Cell::Latency => cells::latency(&server, options.messages)?,
            Cell::Replay => replay::replay(&server, options.messages)?,
        };
        for figure in figures {
            holds &= figure.holds();
            println!("{figure}");
        }
    }
    Ok(if holds { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
