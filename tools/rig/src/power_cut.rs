//! Power cuts under a log on a real file system.
//!
//! Owns: the plan: lives of a workload, the moments at which the power goes, what is judged.
//! Does not know: how disks are served and mounted.

mod stand;

use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use zzq_wal::io::Backend;

pub use self::stand::Stand;
use crate::image::Image;
use crate::notes::Note;
use crate::promise::Promise;
use crate::recorder::Event;
use crate::replay::{Replay, SURVIVALS, Survival};
use crate::workload::Life;
use zzq_wal::sim_disk::Random;

/// What is tried.
#[derive(Clone, Debug, clap::Args)]
pub struct Plan {
    /// What the workload does and where the power goes follow from it, as far as the kernel's own
    /// timing allows.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// So many seeds, from that one on.
    #[arg(long, default_value_t = 1)]
    pub seeds: u64,
    /// Turns in each life of the workload.
    #[arg(long, default_value_t = 40)]
    pub turns: u64,
    /// Power cuts for each recording; 0: right behind every flush, and once before the next.
    #[arg(long, default_value_t = 40)]
    pub cuts: usize,
    /// Recordings for each seed, each on what one of the cuts before has left.
    #[arg(long, default_value_t = 2)]
    pub generations: u64,
    /// How the workload's writes reach the device.
    #[arg(long, default_value_t)]
    pub backend: Backend,
    /// The workload tells its log that bytes are durable without asking the disk: losses must show.
    #[arg(long)]
    pub drop_syncs: bool,
    /// A disk on which a promise was broken is kept in this directory.
    #[arg(long)]
    pub keep: Option<PathBuf>,
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Disks that were mounted and read.
    pub images: u64,
    /// Flushes recorded.
    pub flushes: u64,
    /// Writes recorded.
    pub writes: u64,
    /// Writes that no flush had covered, at the cut with the most of them.
    pub unflushed_max: usize,
    /// Records that recovery has shown, over all disks.
    pub records: u64,
    /// Promises that were broken, each with its place.
    pub findings: Vec<String>,
}

impl fmt::Display for Report {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { images, flushes, writes, unflushed_max, records, findings } = self;
        write!(out, "{images} power cuts within {writes} writes and {flushes} flushes, ")?;
        write!(out, "at most {unflushed_max} writes unflushed: ")?;
        write!(out, "{records} records found, {} promises broken", findings.len())
    }
}

/// Carries the plan out.
///
/// `say` is told what begins.
pub fn run(stand: &mut Stand, plan: &Plan, mut say: impl FnMut(&str)) -> Result<Report> {
    let mut report = Report::default();
    for seed in plan.seed..plan.seed + plan.seeds {
        let mut history = History {
            seed,
            random: Random::new(seed),
            before: stand.make_file_system()?,
            promise: Promise::default(),
        };
        for generation in 0..plan.generations {
            say(&format!("seed {seed}, generation {generation}: recording"));
            history.generation(stand, plan, generation, &mut report)?;
        }
    }
    Ok(report)
}

/// One log, over all its power cuts.
struct History {
    seed: u64,
    random: Random,
    /// The disk before the next recording.
    before: Image,
    promise: Promise,
}

impl History {
    /// Two lives, the first of which is killed; then all the cuts of what was recorded.
    fn generation(
        &mut self,
        stand: &mut Stand,
        plan: &Plan,
        generation: u64,
        report: &mut Report,
    ) -> Result<()> {
        stand.insert(self.before.clone());
        let dying = [true, self.random.one_in(2)];
        let lives = dying.iter().zip(2 * generation + 1..).map(|(dies, life)| Life {
            seed: self.seed,
            life,
            turns: plan.turns,
            backend: plan.backend,
            dies: *dies,
            drop_syncs: plan.drop_syncs,
        });
        let failures = stand.record(lives)?;
        let place = |what: &str| format!("seed {}, generation {generation}, {what}", self.seed);
        report.findings.extend(failures.iter().map(|failure| place(failure)));
        let events = stand.events();
        let count = |wanted: fn(&&Event) -> bool| events.iter().filter(wanted).count() as u64;
        report.flushes += count(|event| matches!(event, Event::Flush { .. }));
        report.writes += count(|event| matches!(event, Event::Write { .. }));

        let cuts = choose(&events, plan.cuts, &mut self.random);
        let heir = self.random.index(cuts.len().max(1));
        let mut replay = Replay::new(self.before.clone(), &events);
        let mut promises = Promises::new(self.promise.clone(), &events);
        for (nth, (at, survival)) in cuts.into_iter().enumerate() {
            replay.advance(at);
            report.unflushed_max = report.unflushed_max.max(replay.pending());
            let promise = promises.advance(at)?;
            let image = replay.cut(survival, &mut self.random);
            let found = stand.recover(image.clone())?;
            report.images += 1;
            report.records += found.records() as u64;
            let broken = promise.judge(&found);
            if !broken.is_empty() {
                let what = format!("event {at} of {}, {survival:?} left", events.len());
                report.findings.push(format!("{}: {}", place(&what), broken.join("; ")));
                keep(plan, &image, report.findings.len())?;
            }
            if nth == heir {
                (self.before, self.promise) = (image, promise.clone());
            }
        }
        Ok(())
    }
}

/// What had been promised at each moment.
struct Promises<'h> {
    promise: Promise,
    events: &'h [Event],
    at: usize,
}

impl<'h> Promises<'h> {
    fn new(promise: Promise, events: &'h [Event]) -> Self {
        Self { promise, events, at: 0 }
    }

    fn advance(&mut self, to: usize) -> Result<&Promise> {
        for event in &self.events[self.at..to] {
            if let Event::Note(line) = event {
                let note: Note = line.parse().context("the workload's words")?;
                self.promise.add(&note);
            }
        }
        self.at = to;
        Ok(&self.promise)
    }
}

/// The moments at which the power goes, in their order, and what is left of the rest.
pub(crate) fn choose(
    events: &[Event],
    count: usize,
    random: &mut Random,
) -> Vec<(usize, Survival)> {
    let flushes =
        events.iter().enumerate().filter(|(_, event)| matches!(event, Event::Flush { .. }));
    let mut behind: Vec<usize> = flushes.map(|(at, _)| at + 1).collect();
    behind.push(events.len());
    let survival = |nth: usize| SURVIVALS[nth % SURVIVALS.len()];
    let mut cuts = Vec::new();
    if count == 0 {
        for (nth, pair) in behind.windows(2).enumerate() {
            cuts.push((pair[0], Survival::Nothing));
            let between = pair[0] + random.index(pair[1] - pair[0] + 1);
            cuts.push((between, survival(nth)));
        }
    }
    let at_stake = |pair: &&[usize]| {
        let between = &events[pair[0]..pair[1]];
        between.iter().filter(|event| matches!(event, Event::Write { .. })).count()
    };
    let widest = behind.windows(2).max_by_key(at_stake);
    // Where most of all is at stake nothing is left to chance.
    cuts.extend(widest.filter(|_| count > 0).map(|pair| (pair[1] - 1, Survival::Nothing)));
    for nth in 0..count.saturating_sub(cuts.len()) {
        let place = random.index(behind.len());
        let at = behind[place];
        let next = behind.get(place + 1).copied().unwrap_or(at);
        // Just before the flush that would have covered them, most writes are at stake. Each of
        // the two moments meets each survival.
        let at = if nth.is_multiple_of(2) { at } else { next.saturating_sub(1).max(at) };
        cuts.push((at, survival(nth / 2)));
    }
    cuts.sort_by_key(|(at, _)| *at);
    cuts
}

fn keep(plan: &Plan, image: &Image, number: usize) -> Result<()> {
    let Some(directory) = &plan.keep else { return Ok(()) };
    write_image(&directory.join(format!("disk-{number}")), image)
}

/// Writes a disk into a file that takes little space where it is zero.
pub(crate) fn write_image(path: &Path, image: &Image) -> Result<()> {
    use std::io::{Seek, SeekFrom, Write};
    let mut file = std::fs::File::create(path)?;
    file.set_len(image.len())?;
    let mut page = [0; 4096];
    for offset in (0..image.len()).step_by(page.len()) {
        image.read(offset, &mut page);
        if page.iter().any(|byte| *byte != 0) {
            file.seek(SeekFrom::Start(offset))?;
            file.write_all(&page)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_survival_is_met_behind_a_flush_and_just_before_the_next() {
        let write = Event::Write { offset: 0, bytes: vec![1; 512].into() };
        let flush = Event::Flush { covers: 0 };
        let events: Vec<Event> =
            (0..40).map(|at| if at % 4 == 0 { &flush } else { &write }.clone()).collect();
        let cuts = choose(&events, 1 + 2 * SURVIVALS.len(), &mut Random::new(1));
        let met: BTreeSet<(bool, String)> =
            cuts.iter().map(|(at, survival)| (at % 4 == 1, format!("{survival:?}"))).collect();
        assert_eq!(met.len(), 2 * SURVIVALS.len());
    }

    #[test]
    fn the_power_goes_where_most_is_at_stake() {
        let write = Event::Write { offset: 0, bytes: vec![1; 512].into() };
        let flush = Event::Flush { covers: 0 };
        let mut events = vec![flush.clone(); 200];
        events.splice(100..100, vec![write; 2]);
        events.push(flush);
        for seed in 0..10 {
            let cuts = choose(&events, 2, &mut Random::new(seed));
            assert!(cuts.contains(&(102, Survival::Nothing)), "{cuts:?}");
        }
    }
}
