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
    /// How many there was no time for, to its end.
    pub left_out: u64,
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

/// How long the examinations of a recording may take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// None begins after this.
    pub(super) last: Instant,
    /// Nothing is waited for any longer than this. What is not there by then might have come.
    pub(super) deadline: Instant,
}

impl Limits {
    /// The end of an examination that begins now, if it may.
    fn end_from(self, now: Instant) -> Option<Instant> {
        (now < self.last).then(|| self.deadline.min(now + PATIENCE))
    }

    /// Whether what was found missing by then says anything: it was waited for as long as
    /// everywhere.
    fn is_judged(self, by: Instant) -> bool {
        by < self.deadline
    }
}

/// Examines all cases that there is time for; ends early where something is broken. `launch`
/// starts a broker on a directory.
pub(super) fn examine_all(
    stands: &[ServedDisk],
    cases: &[Case],
    limits: Limits,
    launch: impl Fn(PathBuf) -> Launch + Sync,
) -> Result<Examined> {
    let next = AtomicUsize::new(0);
    let is_broken = AtomicBool::new(false);
    let work = |stand: &ServedDisk| -> Result<Examined> {
        let mut examined = Examined::default();
        while !is_broken.load(Ordering::Relaxed) {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(case) = cases.get(at) else { break };
            let Some(end) = limits.end_from(Instant::now()) else { break };
            let (broken, cut) = examine(stand, case, end, &launch)?;
            if broken.is_some() && !limits.is_judged(Instant::now()) {
                break;
            }
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
    let mut all = all.into_iter().fold(Examined::default(), |mut sum, one| {
        sum.disks += one.disks;
        sum.cuts.extend(one.cuts);
        sum.broken = sum.broken.or(one.broken);
        sum
    });
    if all.broken.is_none() {
        all.left_out = cases.len() as u64 - all.disks;
    }
    Ok(all)
}

fn examine(
    stand: &ServedDisk,
    case: &Case,
    end: Instant,
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
    let mut scene = Scene::on(launch, &home, book, end);
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A run has said that it ends within two minutes of its time, and examined disks for as long
    /// as it took.
    #[test]
    fn nothing_begins_behind_the_end_nor_is_waited_for_behind_the_deadline() {
        let early = Instant::now();
        let just_before = early + PATIENCE * 2;
        let last = just_before + Duration::from_nanos(1);
        let limits = Limits { last, deadline: last + PATIENCE / 2 };
        assert_eq!(limits.end_from(early), Some(early + PATIENCE));
        assert_eq!(limits.end_from(just_before), Some(limits.deadline));
        assert_eq!(limits.end_from(last), None);
        assert!(limits.is_judged(last) && !limits.is_judged(limits.deadline));
    }

    #[test]
    fn what_there_is_no_time_for_is_counted() {
        let case = || Case {
            label: String::new(),
            image: Image::zeroes(0),
            accounts: Accounts::default(),
            unflushed: 0,
        };
        let now = Instant::now();
        let limits = Limits { last: now, deadline: now };
        let launch = |data| Launch::new(std::path::Path::new("none"), data, "none".as_ref());
        let (cases, stands) = ([case(), case(), case()], []);
        let examined = examine_all(&stands, &cases, limits, launch).unwrap();
        assert_eq!((examined.disks, examined.left_out), (0, 3));
    }
}
