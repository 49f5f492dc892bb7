//! A broker that is left alone by everything but its clients, for minutes or days.
//!
//! Owns: the load of all kinds at once, and the judgement about growth: between bursts, when all
//! that was owed has come and nobody says anything, memory and descriptors must be what they were
//! when the broker was warm.
//! Does not know: what clients must see; the accounts do, and each passer by itself.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use std::{fmt, io};

use anyhow::{Result, anyhow};
use rustix::process::Pid;
use zzq_wal::sim_disk::Random;

use crate::at_rest;
use crate::crew::{pass, play};
use crate::gate::Gate;
use crate::run::{Begun, Span, Tally, tell};
use crate::scene::Scene;

/// Clients that come and go at the same time.
const PASSERS: usize = 2;
/// Of load between two looks.
const BURST: Duration = Duration::from_secs(3);
/// A broker is warm when it has acknowledged so much, and its log has been trimmed: by then all
/// that it does was done, by every client, however long that took. It is not looked at before, as
/// that may take long on a busy machine.
const WARM_BURSTS: usize = 4;
const WARM_ACKNOWLEDGED: u64 = 10_000;
/// So many looks say what it has when it is warm.
const LOOKS_FIRST: usize = 2;
/// So many follow, also where that takes so much longer.
const LOOKS_LATER: usize = 2;
const LONGER: Duration = Duration::from_mins(1);
/// How much more it may have later, beside what is kept on purpose.
const GROWTH: Use = Use { memory_kib: 10 << 10, descriptors: 8 };
/// That comes when chance has it that much is under way at once, which may be late: buffers of
/// connections, 2 MiB of each lane, and of the log, 2 MiB of chunks and as much of groups.
const KEPT_KIB: u64 = 8 << 10;
/// Time behind the end, for what has begun.
const GRACE: Duration = Duration::from_mins(2);
/// Images are made and the log goes within seconds: the state of a broker that has run for long.
const FLAGS: [&str; 2] = ["--segment-size=1MiB", "--snapshot-every=1MiB"];

/// For how long, where, and against which broker.
#[derive(Clone, Debug, clap::Args)]
pub struct Flags {
    #[command(flatten)]
    span: Span,
    /// The broker has no data directory; only the accounts are in DIR, and it is not started again.
    #[arg(long)]
    without_log: bool,
}

/// What a process has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Use {
    /// Memory that it holds, but for pages of its program, in KiB.
    pub memory_kib: u64,
    /// Open descriptors, but those of files that are in its data directory: a log is as long as
    /// what has come since the last images, and what is opened of it goes with it.
    pub descriptors: u64,
}

impl Use {
    fn of(pid: Pid, data: &Path) -> io::Result<Self> {
        let id = pid.as_raw_nonzero().get().unsigned_abs();
        let memory_kib = at_rest::resident_kib(id)?;
        // One that has been closed since it was listed is gone.
        let open = std::fs::read_dir(format!("/proc/{id}/fd"))?
            .filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
        let descriptors = open.filter(|file| is_counted(file, data)).count() as u64;
        Ok(Self { memory_kib, descriptors })
    }

    /// What it has at rest.
    fn at_rest(pid: Pid, data: &Path) -> Result<Self> {
        let id = pid.as_raw_nonzero().get().unsigned_abs();
        Ok(at_rest::least(id, || Self::of(pid, data), Self::least)?)
    }

    fn least(self, other: Self) -> Self {
        Self {
            memory_kib: self.memory_kib.min(other.memory_kib),
            descriptors: self.descriptors.min(other.descriptors),
        }
    }

    fn most(self, other: Self) -> Self {
        Self {
            memory_kib: self.memory_kib.max(other.memory_kib),
            descriptors: self.descriptors.max(other.descriptors),
        }
    }

    /// What there is too much of, if anything.
    fn beyond(self, warm: Self) -> Option<String> {
        let memory = self.memory_kib > warm.memory_kib + GROWTH.memory_kib + KEPT_KIB;
        let descriptors = self.descriptors > warm.descriptors + GROWTH.descriptors;
        (memory || descriptors).then(|| format!("grows: {self}, and when it was warm {warm}"))
    }
}

/// See [`Use`]; `file` is what the kernel says of a descriptor.
fn is_counted(file: &Path, data: &Path) -> bool {
    !file.starts_with(data) || !file.exists()
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
    /// How often it was looked at, since it was warm.
    looks: usize,
    /// The most at the first looks, and at the later ones.
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
        if let Some(failure) = &self.failure {
            writeln!(out, "BROKEN: {failure}\n  {} is kept", self.kept.display())?;
            return write!(out, "BROKEN: seed {seed}: see above");
        }
        write!(out, "clean: seed {seed}")
    }
}

/// Runs for so long, or until something is broken.
///
/// # Errors
/// The machine does not do what it should.
pub fn run(flags: &Flags) -> Result<Verdict> {
    let Flags { span, without_log } = flags;
    let Begun { program, seed, directory: home, at: began, span } = span.begin(span.seed())?;
    let mut random = Random::new(seed);
    let mut scene = Scene::new(&program, &home.join("soak"), began + span + GRACE)?;
    scene.draw_arguments(&mut random);
    scene.launch.set(&FLAGS);
    scene.launch.without_log = *without_log;
    let mut tally = Tally::new(began);
    scene.recover(true, &mut tally)?;
    let mut verdict = Verdict {
        seed,
        bursts: 0,
        visits: 0,
        received: 0,
        looks: 0,
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
        if !without_log {
            scene.recover(true, &mut tally)?;
            scene.stop()?;
        }
    }
    if let Some(broken) = scene.broken().first() {
        verdict.failure.get_or_insert(broken.to_string());
    }
    if verdict.failure.is_none() && verdict.looks <= LOOKS_FIRST {
        verdict.failure = Some("the time was too short: it was never warm".to_owned());
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
    let (seed, gate, stop) = (verdict.seed, Gate::default(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let (gate, stop) = (&gate, &stop);
        let passer = |number| scope.spawn(move || pass(number, address, seed, gate, stop));
        let mut passers: Vec<_> = (0..PASSERS).map(passer).collect();
        passers.push(scope.spawn(move || play(address, seed, gate, stop)));
        let mut bursts = 0;
        let mut burst = || {
            scene.load_disturbed(BURST, random)?;
            scene.settle(true)?;
            if !scene.broken().is_empty() {
                return Ok(Burst::Broken);
            }
            if bursts < WARM_BURSTS || !is_warm(scene)? {
                bursts += 1;
                return Ok(Burst::Cold);
            }
            let _nobody_else = gate.shut();
            Ok(Burst::Warm(Use::at_rest(pid, &scene.data)?))
        };
        let mut outcome = Ok(());
        let goes_on = |verdict: &Verdict| {
            let span = if verdict.looks < LOOKS_FIRST + LOOKS_LATER { span + LONGER } else { span };
            began.elapsed() < span && verdict.failure.is_none()
        };
        while goes_on(verdict) {
            match burst() {
                Ok(Burst::Warm(now)) => look(verdict, now),
                Ok(Burst::Cold) => {
                    verdict.bursts += 1;
                    tell(&format!("burst {}: not warm yet", verdict.bursts));
                }
                Ok(Burst::Broken) => break,
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

/// What came of one: all that was owed has come, or something is broken.
enum Burst {
    Broken,
    Cold,
    Warm(Use),
}

/// A burst is over, and the broker was warm.
fn look(verdict: &mut Verdict, now: Use) {
    verdict.bursts += 1;
    verdict.looks += 1;
    if verdict.looks > LOOKS_FIRST {
        verdict.most = verdict.most.most(now);
        verdict.failure = now.beyond(verdict.warm);
    } else {
        verdict.warm = verdict.warm.most(now);
    }
    tell(&format!("burst {}: {now}", verdict.bursts));
}

/// Whether it has done all that it does.
fn is_warm(scene: &mut Scene) -> Result<bool> {
    let has_done_much = scene.book().accounts().acknowledged() >= WARM_ACKNOWLEDGED;
    Ok(has_done_much && (scene.launch.without_log || is_trimmed(&scene.data)?))
}

/// Whether the front of the log has gone: there are images then, and what they do not cover.
fn is_trimmed(data: &Path) -> Result<bool> {
    let first = data.join(zzq_wal::segment_name(1));
    Ok(std::fs::read_dir(data)?.next().is_some() && !first.exists())
}

#[cfg(test)]
mod tests {
    use std::os::fd::{AsFd, AsRawFd};

    use super::*;

    #[test]
    fn what_has_grown_is_told_from_what_comes_and_goes() {
        let warm = Use { memory_kib: 20_000, descriptors: 40 };
        let good = Use { memory_kib: 38_000, descriptors: 48 };
        assert_eq!(good.beyond(warm), None);
        let fat = Use { memory_kib: 39_000, ..good };
        assert!(fat.beyond(warm).is_some());
        assert!(Use { descriptors: 49, ..good }.beyond(warm).is_some());
    }

    #[test]
    fn who_works_is_not_at_rest() {
        assert!(at_rest::is_busy(std::process::id()).unwrap(), "it is asking");
    }

    #[test]
    fn at_rest_is_when_it_becomes_no_less() {
        let mut sleeper = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        let mut seen = [9, 7, 8, 5, 6].into_iter();
        let look = || Ok(seen.next().unwrap_or(6));
        let least = at_rest::least(sleeper.id(), look, u64::min);
        sleeper.kill().unwrap();
        sleeper.wait().unwrap();
        assert_eq!(least.unwrap(), 5);
    }

    #[test]
    fn a_process_has_memory_and_descriptors() {
        let own = Use::of(rustix::process::getpid(), Path::new("/nowhere")).unwrap();
        assert!(own.memory_kib > 100 && own.descriptors > 2, "{own}");
    }

    #[test]
    fn what_is_open_is_counted_unless_it_is_a_file_of_the_log_that_is_there() {
        let home = tempfile::tempdir().unwrap();
        let file = std::fs::File::create(home.path().join("segment")).unwrap();
        let says = || {
            let own = format!("/proc/self/fd/{}", file.as_fd().as_raw_fd());
            std::fs::read_link(own).unwrap()
        };
        assert!(!is_counted(&says(), home.path()));
        assert!(is_counted(&says(), Path::new("/elsewhere")));
        std::fs::remove_file(home.path().join("segment")).unwrap();
        assert!(is_counted(&says(), home.path()), "{}", says().display());
        assert!(is_counted(Path::new("socket:[7]"), home.path()));
    }
}
