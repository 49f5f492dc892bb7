//! Power cuts under a broker on a real file system: its disk is recorded while clients use it, and
//! later, for many moments of the record, a disk is made of all that a flush had covered and of
//! some of the rest. A broker is started on each, and held to the accounts of that moment.
//!
//! Owns: recordings, one on what a cut of the one before has left, and the examinations.
//! Does not know: the broker's insides.

mod examine;

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

pub use self::examine::{Case, Cut, Examined};
use self::examine::{Limits, examine_all};
use crate::accounts::{Accounts, Book, Entry};
use crate::broker::Launch;
use crate::image::Image;
use crate::power_cut::{choose, write_image};
use crate::recorder::{Event, Recorder};
use crate::replay::Replay;
use crate::run::Tally;
use crate::scene::Scene;
use crate::served::{DISK_LEN, ServedDisk};
use zzq_wal::sim_disk::Random;

/// Disks that are examined at the same time. Most of it is waiting.
const STANDS: usize = 6;
/// Power cuts of one recording.
const CUTS: usize = 96;
/// Recordings on one another; then a fresh disk.
const GENERATIONS: u64 = 4;
/// So much of a disk is used at most when a recording begins: it is not to be full at its end.
const USED_MAX: u64 = DISK_LEN / 3;
/// The longest load in one recording.
const LOAD_MS: u64 = 120;

/// Disks for power cuts.
#[derive(Debug)]
pub struct Blackout {
    stands: Vec<ServedDisk>,
    empty: Image,
    /// Flushes are taken for nothing: a disk that lies, which has to be found out.
    liar: bool,
}

/// What is cut: a log over its power cuts.
#[derive(Debug)]
struct History {
    /// The disk before the next recording.
    before: Image,
    accounts: Accounts,
}

/// How long it may take.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// No recording begins after this.
    pub until: Instant,
    /// No examination of a disk begins after this.
    pub last: Instant,
    /// Nothing of either is waited for any longer than this.
    pub deadline: Instant,
}

/// What was found.
#[derive(Debug)]
pub struct Loss {
    /// Which promise was broken.
    pub what: String,
    /// Where everything about it lies.
    pub home: PathBuf,
    /// The disk.
    pub disk: PathBuf,
    /// How the broker ran.
    pub arguments: Vec<String>,
}

impl Blackout {
    /// Serves disks in this place; an error says why the machine does not allow it.
    pub fn set_up(place: &Path, liar: bool) -> Result<Self> {
        let name = place.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let stand = |number: usize| {
            let [disk, mount] =
                ["disk", "mount"].map(|what| place.join(format!("{what}-{number}")));
            std::fs::create_dir(&disk)?;
            std::fs::create_dir(&mount)?;
            ServedDisk::set_up(&disk, &name, mount)
        };
        let stands = (0..STANDS).map(stand).collect::<Result<Vec<_>>>()?;
        let empty = stands[0].make_file_system().context("making an ext4")?;
        stands[0].mount().and_then(crate::served::Mounted::unmount).context("mounting an ext4")?;
        Ok(Self { stands, empty, liar })
    }

    /// Recordings and their cuts, until the end or something is lost; `seen` is told of each.
    pub fn run(
        &mut self,
        program: &Path,
        home: &Path,
        times: Times,
        random: &mut Random,
        tally: &mut Tally,
        seen: &mut dyn FnMut(&Tally),
    ) -> Result<Option<Loss>> {
        let mut history = History { before: self.empty.clone(), accounts: Accounts::default() };
        for generation in 0..GENERATIONS {
            if Instant::now() > times.until || history.before.used() > USED_MAX {
                break;
            }
            let home = home.join(generation.to_string());
            let launch = Launch::new(program, self.stands[0].mount_point().join("data"), &home);
            let book = Book::go_on(&made(&home)?.join("accounts"), history.accounts.clone())?;
            let scene = Scene::on(launch, &home, book, times.deadline);
            let lost = self.generation(&mut history, scene, times, random, tally)?;
            if lost.is_some() {
                return Ok(lost);
            }
            std::fs::remove_dir_all(&home)?;
            seen(tally);
        }
        Ok(None)
    }

    fn generation(
        &self,
        history: &mut History,
        mut scene: Scene,
        times: Times,
        random: &mut Random,
        tally: &mut Tally,
    ) -> Result<Option<Loss>> {
        scene.draw_arguments(random);
        // The disk is small.
        scene.launch.set(&["--segment-size=1MiB"]);
        let recorded = self.record(history, &mut scene, random, tally);
        tally.add(&history.accounts, scene.book().accounts());
        let (launch, home) = (scene.launch.clone(), scene.home.clone());
        let loss = |what: String, disk: &Image| -> Result<Option<Loss>> {
            let path = home.join("disk");
            write_image(&path, disk)?;
            let arguments = launch.arguments.clone();
            Ok(Some(Loss { what, home: home.clone(), disk: path, arguments }))
        };
        if let Some(broken) = scene.broken().first() {
            if scene.is_late() {
                bail!("the time was over when this was looked at: {broken}");
            }
            return loss(
                format!("while it was recorded: {broken}"),
                self.stands[0].recorder().image(),
            );
        }
        let mut events = recorded?;
        drop(scene);
        if self.liar {
            events.retain(|event| !matches!(event, Event::Flush { .. }));
        }
        let cases = cases(history, &events, random)?;
        let heir = random.index(cases.len());
        tally.cut(&cases, &events);
        let next = (cases[heir].image.clone(), cases[heir].accounts.clone());
        let limits = Limits { last: times.last, deadline: times.deadline };
        let on = |data| Launch { data, ..launch.clone() };
        let examined = examine_all(&self.stands, &cases, limits, on)?;
        tally.examined(&examined);
        if let Some((case, broken)) = examined.broken {
            return loss(format!("{}: {broken}", cases[case].label), &cases[case].image);
        }
        (history.before, history.accounts) = next;
        Ok(None)
    }

    /// Lives of a broker under load on the recorded disk: it starts, is killed, starts, and dies.
    fn record(
        &self,
        history: &History,
        scene: &mut Scene,
        random: &mut Random,
        tally: &mut Tally,
    ) -> Result<Vec<Event>> {
        let stand = &self.stands[0];
        stand.insert(history.before.clone());
        let mounted = stand.mount()?;
        let recorder = stand.shared_recorder();
        scene.book().listen(Some(Box::new(move |line| note(&recorder, line))));
        let lived = live(scene, random, tally);
        // Nobody uses the disk any more, whatever came of it.
        scene.bury()?;
        mounted.unmount()?;
        lived?;
        Ok(stand.events())
    }
}

fn live(scene: &mut Scene, random: &mut Random, tally: &mut Tally) -> Result<()> {
    scene.recover(false, tally)?;
    for _ in 0..2 {
        if scene.broken().is_empty() {
            scene.kill_after(Duration::from_millis(20 + random.below(LOAD_MS)), tally)?;
            scene.recover(random.one_in(2), tally)?;
        }
    }
    scene.kill_after(Duration::from_millis(20 + random.below(LOAD_MS)), tally)
}

fn note(recorder: &Mutex<Recorder>, line: &str) {
    recorder.lock().unwrap_or_else(PoisonError::into_inner).note(line);
}

/// The disks and accounts of chosen moments.
fn cases(history: &History, events: &[Event], random: &mut Random) -> Result<Vec<Case>> {
    let mut replay = Replay::new(history.before.clone(), events);
    let mut accounts = history.accounts.clone();
    let mut cases = Vec::new();
    let mut from = 0;
    for (at, survival) in choose(events, CUTS, random) {
        replay.advance(at);
        for event in &events[from..at] {
            if let Event::Note(line) = event {
                accounts.apply(&line.parse::<Entry>()?);
            }
        }
        from = at;
        let label = format!("power cut at event {at} of {}, {survival:?} left", events.len());
        let image = replay.cut(survival, random);
        cases.push(Case { label, image, accounts: accounts.clone(), unflushed: replay.pending() });
    }
    Ok(cases)
}

/// Makes a directory.
fn made(directory: &Path) -> Result<&Path> {
    std::fs::create_dir_all(directory)?;
    Ok(directory)
}
