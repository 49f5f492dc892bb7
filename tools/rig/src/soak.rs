//! A broker that is left alone by everything but its clients, for minutes or days.
//!
//! Owns: the load of all kinds at once, and the judgement about growth: between bursts, when all
//! that was owed has come, memory and descriptors must be what they were when the broker was warm.
//! Does not know: what clients must see; the accounts do, and each passer by itself.

use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use rustix::process::Pid;
use zzq_wal::sim_disk::Random;

use crate::broker;
use crate::crew::pass;
use crate::run::{Tally, any_seed, make_empty, tell};
use crate::scene::Scene;

/// How long and where.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// How long; parts of a minute are allowed.
    #[arg(long, value_name = "M")]
    pub minutes: f64,
    /// Made here; one that is there has to be empty.
    #[arg(long, value_name = "DIR")]
    pub data_dir: PathBuf,
    /// The broker [default: the `zzq_broker` beside this program].
    #[arg(long, value_name = "PATH")]
    pub broker: Option<PathBuf>,
    /// The same clients again, as far as the machine's own timing allows.
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
}

/// Clients that come and go at the same time.
const PASSERS: usize = 2;
/// Of load between two looks.
const BURST: Duration = Duration::from_secs(3);
/// A broker is warm behind so many bursts, and this part of the time.
const WARM_BURSTS: usize = 4;
const WARM_PART: f64 = 0.3;
/// How much more it may have later: descriptors of passers and of segments come and go, and so do
/// the buffers of images that are being made.
const GROWTH: Use = Use { memory_kib: 10 << 10, descriptors: 24 };
/// Time behind the end, for what has begun.
const GRACE: Duration = Duration::from_secs(90);
/// Images are made and the log goes within seconds: the state of a broker that has run for long.
const FLAGS: [&str; 2] = ["--segment-size=1MiB", "--snapshot-every=1MiB"];

/// What a process has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Use {
    /// Resident, KiB.
    pub memory_kib: u64,
    /// Open descriptors.
    pub descriptors: u64,
}

impl Use {
    fn of(pid: Pid) -> Result<Self> {
        let home = format!("/proc/{}", pid.as_raw_nonzero());
        let status = std::fs::read_to_string(format!("{home}/status"))?;
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let number = resident.and_then(|text| text.split_whitespace().next()?.parse().ok());
        let memory_kib = number.context("a process has a VmRSS")?;
        let descriptors = std::fs::read_dir(format!("{home}/fd"))?.count() as u64;
        Ok(Self { memory_kib, descriptors })
    }

    fn most(self, other: Self) -> Self {
        Self {
            memory_kib: self.memory_kib.max(other.memory_kib),
            descriptors: self.descriptors.max(other.descriptors),
        }
    }

    /// What there is too much of, if anything.
    fn beyond(self, warm: Self) -> Option<String> {
        let memory = self.memory_kib > warm.memory_kib + GROWTH.memory_kib;
        let descriptors = self.descriptors > warm.descriptors + GROWTH.descriptors;
        (memory || descriptors).then(|| format!("grows: {self}, and when it was warm {warm}"))
    }
}

impl fmt::Display for Use {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} KiB, {} descriptors", self.memory_kib, self.descriptors)
    }
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Verdict {
    seed: u64,
    bursts: usize,
    visits: u64,
    received: u64,
    warm: Use,
    most: Use,
    failure: Option<String>,
    kept: PathBuf,
}

impl Verdict {
    /// Whether everybody saw what it must, and nothing grew.
    pub fn is_clean(&self) -> bool {
        self.failure.is_none()
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, bursts, visits, received, warm, most, .. } = self;
        writeln!(out, "seed {seed}: {bursts} bursts, {received} messages, {visits} visits")?;
        writeln!(out, "warm: {warm}; the most later: {most}")?;
        match &self.failure {
            Some(failure) => write!(out, "BROKEN: {failure}\n  {} is kept", self.kept.display()),
            None => write!(out, "clean"),
        }
    }
}

/// Runs for so long, or until something is broken.
///
/// # Errors
/// The machine does not do what it should.
pub fn run(options: &Options) -> Result<Verdict> {
    ensure!(options.minutes > 0.0 && options.minutes < 1e6, "--minutes is a time");
    let program = options.broker.clone().map_or_else(broker::beside, Ok)?;
    let seed = options.seed.unwrap_or_else(any_seed);
    tell(&format!("seed {seed}, {} on {}", program.display(), options.data_dir.display()));
    make_empty(&options.data_dir)?;
    let home = options.data_dir.canonicalize()?;
    let began = Instant::now();
    let span = Duration::from_secs_f64(options.minutes * 60.0);
    let mut random = Random::new(seed);
    let mut scene = Scene::new(&program, &home.join("soak"), began + span + GRACE)?;
    scene.draw_arguments(&mut random);
    scene.launch.arguments.retain(|argument| {
        FLAGS.iter().all(|flag| flag.split('=').next() != argument.split('=').next())
    });
    scene.launch.arguments.extend(FLAGS.map(str::to_owned));
    let mut tally = Tally::new(began);
    scene.recover(true, &mut tally)?;
    let mut verdict = Verdict {
        seed,
        bursts: 0,
        visits: 0,
        received: 0,
        warm: Use::default(),
        most: Use::default(),
        failure: None,
        kept: scene.home.clone(),
    };
    if scene.broken().is_empty() {
        soak(&mut scene, &mut random, began, span, &mut verdict)?;
    }
    if verdict.failure.is_none() && scene.broken().is_empty() {
        scene.stop()?;
        scene.recover(true, &mut tally)?;
        scene.stop()?;
    }
    if let Some(broken) = scene.broken().first() {
        verdict.failure.get_or_insert(broken.to_string());
    }
    verdict.received = scene.book().accounts().received();
    if verdict.is_clean() {
        scene.remove()?;
    }
    Ok(verdict)
}

fn soak(
    scene: &mut Scene,
    random: &mut Random,
    began: Instant,
    span: Duration,
    verdict: &mut Verdict,
) -> Result<()> {
    let (address, pid) = (scene.broker()?.address(), scene.broker()?.pid());
    let (seed, stop) = (verdict.seed, AtomicBool::new(false));
    std::thread::scope(|scope| {
        let stop = &stop;
        let passer = |number| scope.spawn(move || pass(number, address, seed, stop));
        let passers: Vec<_> = (0..PASSERS).map(passer).collect();
        let mut burst = || {
            scene.load_disturbed(BURST, random)?;
            scene.settle(true)?;
            anyhow::Ok(scene.broken().is_empty())
        };
        let mut outcome = Ok(());
        while began.elapsed() < span && verdict.failure.is_none() {
            match burst().and_then(|good| Ok((good, Use::of(pid)?))) {
                Ok((true, now)) => note(verdict, now, began.elapsed().div_duration_f64(span)),
                Ok((false, _)) => break,
                Err(error) => {
                    outcome = Err(error);
                    break;
                }
            }
            // One that has ended before it was told to has something to say.
            if passers.iter().any(std::thread::ScopedJoinHandle::is_finished) {
                break;
            }
        }
        stop.store(true, Ordering::Release);
        for passer in passers {
            let visits = passer.join().map_err(|_| anyhow!("a passer has panicked"))?;
            match visits {
                Ok(visits) => verdict.visits += visits,
                Err(error) => drop(verdict.failure.get_or_insert(format!("{error:#}"))),
            }
        }
        outcome
    })
}

/// A burst is over, and all that was owed has come.
fn note(verdict: &mut Verdict, now: Use, part: f64) {
    verdict.bursts += 1;
    if verdict.bursts <= WARM_BURSTS || part < WARM_PART {
        verdict.warm = verdict.warm.most(now);
    } else {
        verdict.most = verdict.most.most(now);
        verdict.failure = now.beyond(verdict.warm);
    }
    tell(&format!("burst {}: {now}", verdict.bursts));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_grown_is_told_from_what_comes_and_goes() {
        let warm = Use { memory_kib: 20_000, descriptors: 40 };
        let good = Use { memory_kib: 30_000, descriptors: 60 };
        assert_eq!(good.beyond(warm), None);
        let fat = Use { memory_kib: 31_000, ..good };
        assert!(fat.beyond(warm).is_some());
        assert!(Use { descriptors: 70, ..good }.beyond(warm).is_some());
    }

    #[test]
    fn a_process_has_memory_and_descriptors() {
        let own = Use::of(rustix::process::getpid()).unwrap();
        assert!(own.memory_kib > 100 && own.descriptors > 2, "{own}");
    }
}
