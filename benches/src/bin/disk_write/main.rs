//! How the backends of the log's disk compare: durable writes to blocks that were written before,
//! in turns.
//!
//! Owns: the rounds and their medians. Two cases: one block at a time, as a log with one writer,
//! and two writes of 256 KiB in flight, as a busy one. With `--hogs` other threads of this process
//! keep processors busy meanwhile.
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
use zzq_wal::disk::{BLOCK, Completion, Disk, Write};
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
}

const KINDS: [(Backend, Issuers); 4] = [
    (Backend::Aio, Issuers::Any),
    (Backend::Uring, Issuers::Any),
    (Backend::Uring, Issuers::One),
    (Backend::Pwrite, Issuers::Any),
];

/// Bytes of a write, and how many are in flight.
const CASES: [(usize, usize); 2] = [(BLOCK, 1), (64 * BLOCK, 2)];

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
    for (bytes, depth) in CASES {
        let mut subjects = Vec::new();
        for kind in KINDS {
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
    fn open(directory: &Path, (backend, issuers): (Backend, Issuers)) -> Result<Self> {
        let name = match issuers {
            Issuers::Any => backend.to_string(),
            Issuers::One => format!("{backend}, one thread"),
        };
        let directory = directory.join(name.replace(", ", "-").replace(' ', "-"));
        let disk = FileDisk::open_for(&directory, backend, issuers)?;
        let file = disk.create(FILE, FILE_SIZE)?;
        Ok(Self { name, directory, disk, file, event: event::create()? })
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
        let write = Write { file: self.file.clone(), buffer, offset, sync: true, token, notify };
        Ok(self.disk.submit(write).map_err(|(_, error)| error)?)
    }

    fn wait(&self, completions: &mut Vec<Completion>) -> Result<()> {
        while completions.is_empty() {
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
