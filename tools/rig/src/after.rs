//! What a run has left that was cut off, for instance by a loss of power: a broker is started
//! once more on its data directory and held to the accounts, which go on: it can be asked again.
//!
//! Owns: finding both, and that nothing of the run is left that goes on. Does not know: what has
//! happened.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use zzq_wal::io::{DirectoryLock, LockError};

use crate::accounts::{Book, Broken};
use crate::broker::Launch;
use crate::run::Tally;
use crate::scene::Scene;
use crate::unfit::Unfit;

/// The longest that it may take.
const PATIENCE: Duration = Duration::from_mins(2);
/// What was killed is gone in this time. The processes of a run that has namespaces of its own end
/// one after the other: when the first one is gone, clients and broker still go on for a moment.
const ENDING: Duration = Duration::from_mins(1);
/// Nothing tells when a lock is free.
const PAUSE: Duration = Duration::from_millis(5);

/// What was found.
#[derive(Debug)]
pub struct Found {
    /// Publishes that had been acknowledged.
    pub acknowledged: u64,
    /// Which data directory it is.
    pub data: PathBuf,
    /// What was broken.
    pub broken: Vec<Broken>,
}

/// Holds what a run has left in `directory` to its accounts.
pub fn check(directory: &Path, program: &Path) -> Result<Found> {
    let until = Instant::now() + ENDING;
    let home = newest(directory).context(Unfit)?;
    let accounts = home.join("accounts");
    let Some(book) = when_free(until, || Book::reopen(&accounts))? else {
        bail!("{}: a run is under way that writes it", accounts.display());
    };
    ensure!(newest(directory)? == home, "{}: a run is under way there", directory.display());
    let data = home.join("data");
    let has_none = || format!("{}: what was under way had no data directory there", home.display());
    ensure!(data.is_dir(), "{}: with --plain it has", has_none());
    // Nobody starts another, but the last one may still be there: whatever a run's clients have
    // sent, it may still write.
    if when_free(until, || take(&data))?.is_none() {
        bail!("{}: the broker of the run still has it", data.display());
    }
    ensure!(data.join(zzq_wal::META_NAME).exists(), "{}, or not yet", has_none());
    let acknowledged = book.accounts().acknowledged();
    let launch = Launch::new(program, data.clone(), &home);
    let mut scene = Scene::on(launch, &home, book, Instant::now() + PATIENCE);
    scene.recover(true, &mut Tally::new(Instant::now()))?;
    scene.stop()?;
    Ok(Found { acknowledged, data, broken: scene.broken().to_vec() })
}

/// What `take` gets as soon as nobody else has it, if that is in time.
fn when_free<T>(until: Instant, take: impl Fn() -> Result<Option<T>>) -> Result<Option<T>> {
    loop {
        let taken = take()?;
        if taken.is_some() || Instant::now() > until {
            return Ok(taken);
        }
        std::thread::sleep(PAUSE);
    }
}

/// The lock of a data directory, unless a broker has it.
fn take(data: &Path) -> Result<Option<DirectoryLock>> {
    match DirectoryLock::acquire(data) {
        Ok(lock) => Ok(Some(lock)),
        Err(LockError::Held { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The data directory that was under way: the one with the highest number.
fn newest(directory: &Path) -> Result<PathBuf> {
    let mut numbers = Vec::new();
    let entries = std::fs::read_dir(directory);
    for entry in entries.with_context(|| directory.display().to_string())? {
        numbers.extend(entry?.file_name().to_string_lossy().parse::<u64>());
    }
    let newest = numbers.into_iter().max();
    let newest = newest.with_context(|| format!("{}: no run was cut off", directory.display()))?;
    Ok(directory.join(newest.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_number_was_under_way() {
        let directory = tempfile::tempdir().unwrap();
        assert!(newest(directory.path()).is_err());
        for name in ["2", "10", "notes"] {
            std::fs::create_dir(directory.path().join(name)).unwrap();
        }
        assert_eq!(newest(directory.path()).unwrap(), directory.path().join("10"));
    }

    #[test]
    fn a_data_directory_is_waited_for_until_its_broker_is_gone() {
        let directory = tempfile::tempdir().unwrap();
        let long_past = Instant::now();
        let broker = DirectoryLock::acquire(directory.path()).unwrap();
        assert!(when_free(long_past, || take(directory.path())).unwrap().is_none());
        let broker = std::cell::Cell::new(Some(broker));
        let tries = std::cell::Cell::new(0);
        let taken = when_free(Instant::now() + ENDING, || {
            tries.set(tries.get() + 1);
            if tries.get() == 3 {
                drop(broker.take());
            }
            take(directory.path())
        });
        assert!(taken.unwrap().is_some());
        assert_eq!(tries.get(), 3);
    }
}
