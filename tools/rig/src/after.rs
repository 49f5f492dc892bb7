//! What a run has left that was cut off, for instance by a loss of power: a broker is started
//! once more on its data directory and held to the accounts, which go on: it can be asked again.
//!
//! Owns: finding both. Does not know: what has happened.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::accounts::{Book, Broken};
use crate::broker::Launch;
use crate::run::Tally;
use crate::scene::Scene;

/// The longest that it may take.
const PATIENCE: Duration = Duration::from_mins(2);

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
    let home = newest(directory)?;
    let data = home.join("data");
    ensure!(
        data.join(zzq_wal::META_NAME).exists(),
        "{}: what was under way had no data directory there: with --plain it has",
        home.display()
    );
    let book = Book::reopen(&home.join("accounts"))?;
    let acknowledged = book.accounts().acknowledged();
    let launch = Launch::new(program, data.clone(), &home);
    let mut scene = Scene::on(launch, &home, book, Instant::now() + PATIENCE);
    scene.recover(true, &mut Tally::new(Instant::now()))?;
    scene.stop()?;
    Ok(Found { acknowledged, data, broken: scene.broken().to_vec() })
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
}
