//! From append to durable: the log against the least that a group commit can do, in turns.
//!
//! Owns: the rounds. One thread plays all writers, as a lane does.
#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, reason = "a command prints its results")]

mod bound;
mod closed_loop;
mod log;
mod report;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use clap::Parser;
use zzq_wal::io::Backend;

use crate::bound::Bound;
use crate::closed_loop::{Subject, run};
use crate::log::LogSubject;
use crate::report::{Figures, HEAD, Rounds};

/// Measures appending to the log until durable, beside the bound of the same disk.
#[derive(Debug, Parser)]
struct Arguments {
    /// A directory on the disk to measure; what is made there is removed.
    #[arg(long)]
    dir: PathBuf,
    /// Numbers of writers, each with one record outstanding.
    #[arg(long, value_delimiter = ',', default_value = "1,16,100,1000")]
    writers: Vec<u64>,
    /// Bytes of a record.
    #[arg(long, default_value_t = 100)]
    size: usize,
    /// Length of one run.
    #[arg(long, default_value_t = 1000)]
    milliseconds: u64,
    /// Pairs of runs for each number of writers.
    #[arg(long, default_value_t = 9)]
    rounds: usize,
    /// How writes reach the disk: auto, aio or pwrite.
    #[arg(long, default_value = "auto")]
    backend: Backend,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let (bound, log) = (arguments.dir.join("bound"), arguments.dir.join("log"));
    std::fs::create_dir_all(&arguments.dir)?;
    let measured = measure(&arguments, &bound, &log);
    for directory in [bound, log] {
        std::fs::remove_dir_all(directory)?;
    }
    measured
}

fn measure(arguments: &Arguments, bound: &Path, log: &Path) -> Result<()> {
    let mut bound = Bound::open(bound, arguments.backend)?;
    let mut log = LogSubject::open(log, arguments.backend)?;
    warm(&mut bound)?;
    warm(&mut log)?;
    let body = vec![0x5a; arguments.size];
    let length = Duration::from_millis(arguments.milliseconds);
    println!("{HEAD}");
    for &writers in &arguments.writers {
        let mut pairs = Vec::new();
        for _ in 0..arguments.rounds {
            let least = Figures::new(&run(&mut bound, writers, &body, length)?)?;
            let real = Figures::new(&run(&mut log, writers, &body, length)?)?;
            pairs.push((least, real));
        }
        println!("{}", Rounds { writers, pairs });
    }
    Ok(())
}

/// Writes enough for a log to have grown its segments and to use them again.
fn warm(subject: &mut impl Subject) -> Result<()> {
    run(subject, 1000, &[0; 1024], WARM_UP).map(drop)
}

const WARM_UP: Duration = Duration::from_secs(1);
