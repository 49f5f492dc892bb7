//! How the backends of the log's disk compare: durable writes to blocks that were written before,
//! in turns.
//!
//! Owns: the rounds and their medians. Two cases of all backends: one block at a time, as a log of
//! one writer, and two writes of 256 KiB in flight, as a busy one. With `--flushes` instead whether
//! plain writes and one flush for all of them are better than as many durable ones. With `--hogs`
//! other threads of this process keep processors busy meanwhile.
#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, reason = "a command prints its results")]

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use clap::Parser;
use rustix::time::{ClockId, clock_gettime};
use zzq_wal::disk::{BLOCK, Completion, Disk, DiskFile, Write};
use zzq_wal::io::{Backend, FileDisk, IoBuffer, Issuers, OpenFile, event};

/// Measures durable writes by each backend, in turns.
#[derive(Debug, Parser)]
struct Arguments {
    /// A directory on the disk to measure; what is made there is removed.
    #[arg(long)]
    dir: PathBuf,
    /// Rounds of each backend and case.
    #[arg(long, default_value_t = 9)]
    rounds: usize,
    /// Length of one run.
    #[arg(long, default_value_t = 500)]
    milliseconds: u64,
    /// Threads that keep processors busy.
    #[arg(long, default_value_t = 0)]
    hogs: usize,
    /// Compares a flush with each write to one for all that are in flight, by Linux AIO.
    #[arg(long)]
    flushes: bool,
}

/// How writes become durable.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Flush {
    /// Each by itself; the next one follows as soon as one has come back.
    Each,
    /// All that are in flight come back, then one flush covers them.
    Together,
}

/// Who takes turns in a case.
type Kind = (Backend, Issuers, Flush);

const BACKENDS: &[Kind] = &[
    (Backend::Aio, Issuers::Any, Flush::Each),
    (Backend::Uring, Issuers::Any, Flush::Each),
    (Backend::Uring, Issuers::One, Flush::Each),
    (Backend::Pwrite, Issuers::Any, Flush::Each),
];

const FLUSHES: &[Kind] =
    &[(Backend::Aio, Issuers::Any, Flush::Each), (Backend::Aio, Issuers::Any, Flush::Together)];

/// Blocks of a write, and how many are in flight.
const CASES: &[(usize, usize)] = &[(1, 1), (64, 2)];

/// A log has two in flight at most: four show what more would give, and longer ones what longer
/// groups would.
const FLUSHED_CASES: &[(usize, usize)] =
    &[(16, 4), (64, 2), (128, 2), (256, 2), (256, 4), (512, 2), (1024, 2)];

const FILE: &str = "measured";
const FILE_SIZE: u64 = 32 << 20;

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    std::fs::create_dir_all(&arguments.dir)?;
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..arguments.hogs {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let measured = measure(&arguments);
        stop.store(true, Ordering::Relaxed);
        measured
    })
}

fn measure(arguments: &Arguments) -> Result<()> {
    println!("backend            | bytes x depth | p50 us (runs)     | MB/s | CPU us/write");
    let length = Duration::from_millis(arguments.milliseconds);
    let (cases, kinds) =
        if arguments.flushes { (FLUSHED_CASES, FLUSHES) } else { (CASES, BACKENDS) };
    for &(blocks, depth) in cases {
        let bytes = blocks * BLOCK;
        let mut subjects = Vec::new();
        for &kind in kinds {
            subjects.push((Subject::open(&arguments.dir, kind)?, Vec::new()));
        }
        for _ in 0..arguments.rounds {
            for (subject, runs) in &mut subjects {
                runs.push(subject.run(bytes, depth, length)?);
            }
        }
        for (subject, runs) in subjects {
            println!("{}", Row { name: &subject.name, bytes, depth, runs });
            std::fs::remove_dir_all(&subject.directory)?;
        }
    }
    Ok(())
}

struct Subject {
    name: String,
    directory: PathBuf,
    disk: FileDisk,
    file: OpenFile,
    event: Arc<OwnedFd>,
    flush: Flush,
}

/// What one run found.
#[derive(Clone, Copy)]
struct Run {
    p50_us: f64,
    megabytes: f64,
    /// Of this thread alone: what the kernel's workers take is not in it.
    cpu_us: f64,
}

impl Subject {
    fn open(directory: &Path, (backend, issuers, flush): Kind) -> Result<Self> {
        let mut name = match issuers {
            Issuers::Any => backend.to_string(),
            Issuers::One => format!("{backend}, one thread"),
        };
        if flush == Flush::Together {
            name += ", one flush";
        }
        let directory = directory.join(name.replace(", ", "-").replace(' ', "-"));
        let disk = FileDisk::open_for(&directory, backend, issuers)?;
        let file = disk.create(FILE, FILE_SIZE)?;
        Ok(Self { name, directory, disk, file, event: event::create()?, flush })
    }

    fn run(&mut self, bytes: usize, depth: usize, length: Duration) -> Result<Run> {
        let mut times = Vec::new();
        let mut started = Vec::new();
        let mut completions = Vec::new();
        let mut offset = 0;
        let (began, cpu) = (Instant::now(), cpu_time());
        let mut buffers: Vec<_> = (0..depth).map(|_| self.disk.buffer(bytes)).collect();
        for buffer in &mut buffers {
            buffer.resize(bytes);
        }
        while began.elapsed() < length {
            while let Some(buffer) = buffers.pop() {
                let token = started.len() as u64;
                started.push(Instant::now());
                self.submit(buffer, offset, token)?;
                offset = (offset + bytes as u64) % FILE_SIZE;
            }
            self.wait(&mut completions)?;
            if self.flush == Flush::Together {
                while completions.len() < depth {
                    self.wait(&mut completions)?;
                }
                self.file.sync()?;
            }
            for Completion { token, buffer, result } in completions.drain(..) {
                ensure!(result? == bytes, "a short write");
                times.push(started[usize::try_from(token)?].elapsed());
                buffers.push(buffer);
            }
        }
        while buffers.len() < depth {
            self.wait(&mut completions)?;
            buffers.extend(completions.drain(..).map(|done| done.buffer));
        }
        times.sort_unstable();
        let count = times.len();
        let wall = began.elapsed().as_secs_f64();
        let cpu = cpu_time().saturating_sub(cpu).as_secs_f64();
        #[expect(clippy::cast_precision_loss, reason = "far fewer than 2^52")]
        Ok(Run {
            p50_us: times[count / 2].as_secs_f64() * 1e6,
            megabytes: (count * bytes) as f64 / wall / 1e6,
            cpu_us: cpu * 1e6 / count as f64,
        })
    }

    fn submit(&self, buffer: IoBuffer, offset: u64, token: u64) -> Result<()> {
        let notify = Some(Arc::clone(&self.event));
        let sync = self.flush == Flush::Each;
        let write = Write { file: self.file.clone(), buffer, offset, sync, token, notify };
        Ok(self.disk.submit(write).map_err(|(_, error)| error)?)
    }

    fn wait(&self, completions: &mut Vec<Completion>) -> Result<()> {
        let before = completions.len();
        while completions.len() == before {
            ensure!(event::wait(&self.event, Duration::from_secs(10))?, "the disk is silent");
            event::drain(&self.event);
            self.disk.reap(completions);
        }
        Ok(())
    }
}

/// Of this thread.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

struct Row<'a> {
    name: &'a str,
    bytes: usize,
    depth: usize,
    runs: Vec<Run>,
}

impl std::fmt::Display for Row<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let sorted = |of: fn(&Run) -> f64| {
            let mut all: Vec<f64> = self.runs.iter().map(of).collect();
            all.sort_unstable_by(f64::total_cmp);
            all
        };
        let (times, rates) = (sorted(|run| run.p50_us), sorted(|run| run.megabytes));
        let cpu = sorted(|run| run.cpu_us);
        let middle = self.runs.len() / 2;
        let spread =
            format!("{:.0} ({:.0}-{:.0})", times[middle], times[0], times[self.runs.len() - 1]);
        write!(
            f,
            "{:18} | {:>9} x {} | {spread:17} | {:4.0} | {:.1}",
            self.name, self.bytes, self.depth, rates[middle], cpu[middle]
        )
    }
}
