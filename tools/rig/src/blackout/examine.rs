//! Examinations: a broker is started on what a power cut has left, and held to the accounts.
//!
//! Owns: the stands' work, side by side. Does not know: how the disks came to be.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};

use crate::accounts::{Accounts, Book, Broken};
use crate::broker::Launch;
use crate::image::Image;
use crate::run::Tally;
use crate::scene::Scene;
use crate::sealed::Refused;
use crate::served::ServedDisk;

/// A disk as a power cut may have left it, and what had been said until then.
#[derive(Debug)]
pub struct Case {
    /// Which cut.
    pub label: String,
    /// The disk.
    pub image: Image,
    /// What was said.
    pub accounts: Accounts,
    /// Writes that no flush had covered.
    pub unflushed: usize,
}

/// What came of examinations.
#[derive(Debug, Default)]
pub struct Examined {
    /// How many disks.
    pub disks: u64,
    /// Each of them.
    pub cuts: Vec<Cut>,
    /// The first case in which a promise was broken.
    pub broken: Option<(usize, Broken)>,
}

/// What became of one disk.
#[derive(Debug)]
pub struct Cut {
    /// When it was put in.
    pub at: Instant,
    /// Publishes that had been acknowledged before the cut.
    pub acknowledged: u64,
    /// Those of them that were there behind it.
    pub recovered: u64,
    /// How long the broker took until it served.
    pub recoveries: Vec<Duration>,
}

/// The longest that one examination may take.
const PATIENCE: Duration = Duration::from_mins(1);

/// Examines all cases; ends early where something is broken. `launch` starts a broker on a
/// directory.
pub(super) fn examine_all(
    stands: &[ServedDisk],
    cases: &[Case],
    launch: impl Fn(PathBuf) -> Launch + Sync,
) -> Result<Examined> {
    let next = AtomicUsize::new(0);
    let is_broken = AtomicBool::new(false);
    let work = |stand: &ServedDisk| -> Result<Examined> {
        let mut examined = Examined::default();
        while !is_broken.load(Ordering::Relaxed) {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(case) = cases.get(at) else { break };
            let (broken, cut) = examine(stand, case, &launch)?;
            examined.disks += 1;
            examined.cuts.push(cut);
            if let Some(broken) = broken {
                is_broken.store(true, Ordering::Relaxed);
                examined.broken = Some((at, broken));
            }
        }
        Ok(examined)
    };
    let all = std::thread::scope(|scope| {
        let working: Vec<_> = stands.iter().map(|stand| scope.spawn(|| work(stand))).collect();
        let join = |working: std::thread::ScopedJoinHandle<'_, Result<Examined>>| {
            working.join().map_err(|_| anyhow!("an examination has panicked"))?
        };
        working.into_iter().map(join).collect::<Result<Vec<_>>>()
    })?;
    Ok(all.into_iter().fold(Examined::default(), |mut sum, one| {
        sum.disks += one.disks;
        sum.cuts.extend(one.cuts);
        sum.broken = sum.broken.or(one.broken);
        sum
    }))
}

fn examine(
    stand: &ServedDisk,
    case: &Case,
    launch: impl Fn(PathBuf) -> Launch,
) -> Result<(Option<Broken>, Cut)> {
    let acknowledged = case.accounts.acknowledged();
    let mut cut = Cut { at: Instant::now(), acknowledged, recovered: 0, recoveries: Vec::new() };
    stand.insert(case.image.clone());
    let mounted = match stand.mount() {
        Ok(mounted) => mounted,
        // It says nothing about the disk.
        Err(error) if error.is::<Refused>() => return Err(error),
        Err(error) => {
            let what = format!("the file system does not mount: {error:#}");
            return Ok((Some(Broken { promise: "starts again", what }), cut));
        }
    };
    let launch = launch(stand.mount_point().join("data"));
    let book = Book::trial(case.accounts.clone());
    let home = launch.log.parent().map(PathBuf::from).unwrap_or_default();
    let mut scene = Scene::on(launch, &home, book, Instant::now() + PATIENCE);
    let mut tally = Tally::new(Instant::now());
    let recovered = scene.recover(true, &mut tally);
    scene.bury()?;
    mounted.unmount()?;
    recovered?;
    cut.recoveries = tally.recoveries.iter().map(|one| one.span).collect();
    if !cut.recoveries.is_empty() {
        cut.recovered = acknowledged.saturating_sub(scene.book().accounts().absent(true));
    }
    Ok((scene.broken().first().cloned(), cut))
}
