//! Reading the log back: recovery, by how many threads it reads with, and readers, with and without
//! reading ahead.
//!
//! Owns: the log that is read, and the rounds. Reads are direct: no cache of the kernel's helps.
#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, reason = "a command prints its results")]

mod write;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use clap::Parser;
use zzq_wal::io::{Backend, FileDisk};
use zzq_wal::{Log, Lsn, Options, inspect};

/// Measures recovery and readers of a log that it writes before.
#[derive(Debug, Parser)]
struct Arguments {
    /// A directory on the disk to measure; what is made there is removed.
    #[arg(long)]
    dir: PathBuf,
    /// Length of the log.
    #[arg(long, default_value_t = 1024)]
    mib: u64,
    /// Bytes of a record.
    #[arg(long, default_value_t = 1000)]
    size: usize,
    /// Records that are written at once.
    #[arg(long, default_value_t = 64)]
    batch: usize,
    /// Numbers of threads.
    #[arg(long, value_delimiter = ',', default_value = "0,1,2,4")]
    threads: Vec<usize>,
    /// Runs with each number.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let directory = arguments.dir.join("log");
    std::fs::create_dir_all(&arguments.dir)?;
    let measured = measure(&arguments, &directory);
    std::fs::remove_dir_all(directory)?;
    measured
}

fn measure(arguments: &Arguments, directory: &Path) -> Result<()> {
    let last = write::fill(directory, arguments.mib << 20, arguments.size, arguments.batch)?;
    println!("what       threads  MiB/s of each run");
    for &threads in &arguments.threads {
        tell("recovery", threads, arguments.rounds, || recover(directory, threads, last))?;
    }
    for threads in [0, 2] {
        tell("reader", threads, arguments.rounds, || read(directory, threads, last))?;
    }
    Ok(())
}

fn tell(
    what: &str,
    threads: usize,
    rounds: usize,
    mut run: impl FnMut() -> Result<f64>,
) -> Result<()> {
    let runs = (0..rounds).map(|_| run()).collect::<Result<Vec<_>>>()?;
    let runs: Vec<_> = runs.iter().map(|speed| format!("{speed:6.0}")).collect();
    println!("{what:9}  {threads:7}  {}", runs.join(" "));
    Ok(())
}

/// MiB of records' bytes in a second, by one reader.
fn read(directory: &Path, read_threads: usize, last: Lsn) -> Result<f64> {
    let disk = FileDisk::open(directory, Backend::Auto)?;
    let options = Options { read_threads, visit_from: last, ..Options::from_os()? };
    let (log, _) = Log::open(disk, options, 0, &mut |_| Ok(()))?;
    let mut reader = log.reader(Lsn::FIRST)?;
    let mut bytes = 0_u64;
    let began = Instant::now();
    while let Some(record) = reader.next_record()? {
        bytes += record.body.len() as u64;
    }
    let took = began.elapsed();
    ensure!(reader.next_lsn() == last.next(), "{} of {last}", reader.next_lsn());
    Ok(speed(bytes, took))
}

/// MiB of records' bytes in a second.
fn recover(directory: &Path, recovery_threads: usize, last: Lsn) -> Result<f64> {
    let disk = FileDisk::open(directory, Backend::Auto)?;
    let options = Options { recovery_threads, ..Options::from_os()? };
    let mut bytes = 0_u64;
    let began = Instant::now();
    let recovery = inspect(disk, &options, &mut |record| {
        bytes += record.body.len() as u64;
        Ok(())
    })?;
    let took = began.elapsed();
    ensure!(recovery.last_lsn == last, "{} of {last}", recovery.last_lsn);
    Ok(speed(bytes, took))
}

#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
fn speed(bytes: u64, took: Duration) -> f64 {
    bytes as f64 / f64::from(1 << 20) / took.as_secs_f64()
}
