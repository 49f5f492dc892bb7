//! A run: one broker after the other, injured in rounds by turns until the time is over.
//!
//! Owns: the flags, the order of what happens, and the verdict. Does not know: how injuries are
//! made, and what they must not break.

mod floor;
mod html;
mod marks;
mod svg;
mod tally;
mod verdict;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use self::floor::Able;
pub use self::marks::{Hit, Mark, Marks};
pub use self::tally::{Recovery, Round, Tally};
pub use self::verdict::{Cause, Failure, Verdict};
use crate::blackout::{Blackout, Times};
use crate::broker;
use crate::injuries::{Deck, Injury};
use crate::place::mount_in;
use crate::scene::Scene;
use crate::sealed::Refused;
use crate::unfit::Unfit;
use zzq_journal::Bar;
use zzq_wal::sim_disk::Random;

/// For how long, where, and with which broker.
#[derive(Clone, Debug, clap::Args)]
pub struct Span {
    /// How long, in minutes; parts of one are allowed. It all ends within two more.
    #[arg(long, value_name = "M")]
    pub minutes: f64,
    /// A directory that is made, on the disk that is to be tried.
    #[arg(long, value_name = "DIR")]
    pub data_dir: PathBuf,
    /// The broker [default: the `zzq_broker` beside this program].
    #[arg(long, value_name = "PATH")]
    pub broker: Option<PathBuf>,
    /// What is done and when follows from it, as far as the machine's own timing allows [default:
    /// another one each time].
    #[arg(long)]
    pub seed: Option<u64>,
}

/// What a [`Span`] comes to.
#[derive(Debug)]
pub(crate) struct Begun {
    pub(crate) program: PathBuf,
    pub(crate) seed: u64,
    /// The directory, which is there and empty.
    pub(crate) directory: PathBuf,
    pub(crate) at: Instant,
    pub(crate) span: Duration,
}

impl Span {
    /// What is done follows from it.
    pub(crate) fn seed(&self) -> u64 {
        self.seed.unwrap_or_else(any_seed)
    }

    /// Checks it, and makes the directory; an error is [`Unfit`].
    pub(crate) fn begin(&self, seed: u64) -> Result<Begun> {
        self.check(seed).context(Unfit)
    }

    fn check(&self, seed: u64) -> Result<Begun> {
        ensure!(self.minutes > 0.0 && self.minutes < 1e6, "--minutes is a time");
        let program = broker::named_or_beside(self.broker.as_deref())?;
        tell(&format!("seed {seed}, {} on {}", program.display(), self.data_dir.display()));
        make_empty(&self.data_dir)?;
        let directory = self.data_dir.canonicalize()?;
        let span = Duration::from_secs_f64(self.minutes * 60.0);
        Ok(Begun { program, seed, directory, at: Instant::now(), span })
    }
}

/// How it is run.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Options {
    /// The verdict as one JSON object.
    #[arg(long)]
    pub json: bool,
    /// Only what works on DIR itself: no file system of the rig's own, no power cuts in memory.
    /// For those who mean to pull the plug.
    #[arg(long)]
    pub plain: bool,
    /// Where the process outside has made place for this one.
    #[arg(long, hide = true)]
    pub inside: Option<PathBuf>,
    /// Flushes do nothing in power cuts: a disk that lies, which has to be found out.
    #[arg(long, hide = true)]
    pub drop_flushes: bool,
    /// Why there is no such place.
    #[arg(skip)]
    pub left_out: Option<String>,
}

/// In tables, what is no [`Injury`] of one data directory.
const POWER_CUTS: &str = "power cuts";

/// Of the whole time, so much is given to one data directory, within bounds in seconds: all kinds
/// have their turn, and a start reads all of a log.
const SLICES: f64 = 12.0;
const SLICE: (f64, f64) = (0.8, 20.0);
/// The log goes on in fresh segments, and images let those before go, all the time: as long as
/// there is a step of these at which no broker was killed.
const BUSY: [&str; 2] = ["--segment-size=1MiB", "--snapshot-every=256KiB"];
/// A log that is longer than this is given up for a fresh one: a start reads all of it.
const LOG_MAX: u64 = 64 << 20;
/// Behind the end, for disks of power cuts that were recorded before it: none is begun later.
const LAST: Duration = Duration::from_secs(30);
/// Time behind the end, for what has begun. It takes a moment more to end it all.
const GRACE: Duration = Duration::from_secs(90);
const _: () = assert!(GRACE.as_secs() < WITHIN.as_secs() && LAST.as_secs() < GRACE.as_secs());
/// A run ends within so much more than its time.
const WITHIN: Duration = Duration::from_mins(2);

/// What is said where there is no run because of this error.
pub fn failed(span: &Span, error: &anyhow::Error) -> Verdict {
    let mut verdict = Verdict::new(span.seed());
    verdict.failure = Some(Failure::in_front_of_a_run(error));
    verdict
}

/// Runs until the time is over or a promise is broken.
pub fn run(span: &Span, options: &Options) -> Verdict {
    let mut verdict = Verdict::new(span.seed());
    let opened = match span.begin(verdict.seed) {
        Ok(opened) => opened,
        Err(error) => {
            verdict.failure = Some(Failure::in_front_of_a_run(&error));
            return verdict;
        }
    };
    let Begun { program, seed, directory, at: began, span } = opened;
    let end = began + span;
    let place = options.inside.clone().filter(|_| !options.plain);
    if options.plain {
        verdict.leave_out("kills at steps, faults of the disk, power cuts: --plain");
    }
    if let Some(reason) = &options.left_out {
        verdict.leave_out(&format!("kills at steps, faults of the disk, power cuts: {reason}"));
    }
    let blackout = place.as_deref().and_then(|place| {
        Blackout::set_up(place, options.drop_flushes)
            .map_err(|reason| verdict.leave_out(&format!("power cuts: {reason:#}")))
            .ok()
    });
    let mut course = Course {
        program,
        place,
        blackout,
        directory,
        slice: slice(span),
        anywhere: Deck::of(Injury::ANYWHERE),
        seen_through: Deck::of(Injury::SEEN_THROUGH),
        random: Random::new(seed),
        tally: Tally::new(began),
        began,
        end,
        bar: Bar::on_stderr(),
    };
    while Instant::now() < end && verdict.failure.is_none() {
        verdict.failure = course.generation(&mut verdict);
    }
    let able = Able { seen_through: course.place.is_some(), cuts_power: course.blackout.is_some() };
    verdict.too_few = floor::too_few(&course.tally, span, able);
    verdict.tally = course.tally;
    drop(course.bar);
    let report = report_path(&course.directory);
    match std::fs::write(&report, html::page(&verdict)) {
        Ok(()) => tell(&format!("report: {}", report.display())),
        // What was found is told all the same; a run without its report has failed.
        Err(error) => {
            let what = format!("the report {}: {error}", report.display());
            tell(&what);
            verdict.failure.get_or_insert_with(|| Failure::of_rig(what, &course.directory));
        }
    }
    verdict
}

/// The report lies beside the directory.
fn report_path(directory: &Path) -> PathBuf {
    let mut name = directory.as_os_str().to_owned();
    name.push(".html");
    name.into()
}

/// What a data directory is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// The broker works on it as on any other.
    Plain,
    /// It sees it through a file system that fails and kills.
    SeenThrough,
    /// It lies on a disk that is recorded.
    PowerCuts,
}

/// By turns; power cuts take most of the time. What the machine does not allow is plain.
const TURNS: [Turn; 4] = [Turn::Plain, Turn::SeenThrough, Turn::PowerCuts, Turn::PowerCuts];

/// A run under way.
struct Course {
    program: PathBuf,
    /// Where file systems of ours can be mounted.
    place: Option<PathBuf>,
    blackout: Option<Blackout>,
    directory: PathBuf,
    slice: Duration,
    /// What comes next, over all data directories that the broker works on as on any other.
    anywhere: Deck,
    /// And over those that it sees through a file system of ours.
    seen_through: Deck,
    random: Random,
    tally: Tally,
    began: Instant,
    end: Instant,
    bar: Bar,
}

impl Course {
    /// One data directory, from its first start to its last, and what has ended the run there.
    fn generation(&mut self, verdict: &mut Verdict) -> Option<Failure> {
        let turn = TURNS[usize::try_from(self.tally.generations).unwrap_or_default() % TURNS.len()];
        self.tally.generations += 1;
        let home = self.directory.join(self.tally.generations.to_string());
        let lived = self.turn(turn, &home, verdict);
        lived.unwrap_or_else(|error| {
            let round = self.tally.last_round();
            Some(Failure { round, ..Failure::of_rig(format!("{error:#}"), &home) })
        })
    }

    fn turn(&mut self, turn: Turn, home: &Path, verdict: &mut Verdict) -> Result<Option<Failure>> {
        if turn == Turn::PowerCuts
            && let Some(mut blackout) = self.blackout.take()
        {
            let failure = self.cut_power(&mut blackout, home);
            // Refused in the middle of a run: by other users of loop devices, for instance.
            match failure {
                Err(error) if error.is::<Refused>() => {
                    self.bar.clear();
                    verdict.leave_out(&format!("power cuts from now on: {error:#}"));
                    std::fs::remove_dir_all(home)?;
                    return Ok(None);
                }
                failure => {
                    self.blackout = Some(blackout);
                    return failure;
                }
            }
        }
        let mut scene = Scene::new(&self.program, home, self.end + GRACE)?;
        scene.draw_arguments(&mut self.random);
        let mut is_seen_through = false;
        if turn == Turn::SeenThrough
            && let Some(place) = self.place.take()
        {
            match scene.see_through(&mount_in(&place)) {
                Ok(()) => {
                    is_seen_through = true;
                    self.place = Some(place);
                }
                // The broker works on the directory itself, then and from then on.
                Err(error) if error.is::<Refused>() => {
                    self.bar.clear();
                    verdict.leave_out(&format!("kills at steps, faults of the disk: {error:#}"));
                }
                Err(error) => return Err(error),
            }
        }
        if is_seen_through && self.tally.steps.points().any(|(_, kills)| kills == 0) {
            scene.launch.set(&BUSY);
        }
        let lived = self.live(is_seen_through, &mut scene);
        self.tally.close(scene.book().accounts());
        if let Some(broken) = scene.broken().first() {
            let (cause, what) = if self.tally.recoveries.is_empty() {
                // It has promised nothing yet.
                (Cause::Rig, format!("on an empty directory {}", broken.what))
            } else if scene.is_late() {
                (Cause::Rig, format!("the time was over when this was looked at: {broken}"))
            } else {
                (Cause::Promise, broken.to_string())
            };
            return Ok(Some(self.failure(cause, &scene, what)));
        }
        if let Err(error) = lived {
            return Ok(Some(self.failure(Cause::Rig, &scene, format!("{error:#}"))));
        }
        scene.remove()?;
        Ok(None)
    }

    fn cut_power(&mut self, blackout: &mut Blackout, home: &Path) -> Result<Option<Failure>> {
        self.tally.begin_round(POWER_CUTS);
        let (last, deadline) = (self.end + LAST, self.end + GRACE);
        let times = Times { until: self.until(), last, deadline };
        let (random, tally) = (&mut self.random, &mut self.tally);
        let (bar, began, end) = (&mut self.bar, self.began, self.end);
        let mut seen = |tally: &Tally| show(bar, began, end, tally);
        let loss = blackout.run(&self.program, home, times, random, tally, &mut seen)?;
        self.tally.end_recording();
        self.show_progress();
        let Some(loss) = loss else {
            std::fs::remove_dir_all(home)?;
            return Ok(None);
        };
        Ok(Some(Failure {
            cause: Cause::Promise,
            what: loss.what,
            round: self.tally.last_round(),
            arguments: loss.arguments.join(" "),
            kept: loss.home,
            data: PathBuf::from("data"),
            disk: Some(loss.disk),
        }))
    }

    fn show_progress(&mut self) {
        show(&mut self.bar, self.began, self.end, &self.tally);
    }

    fn live(&mut self, is_seen_through: bool, scene: &mut Scene) -> Result<()> {
        scene.recover(true, &mut self.tally)?;
        let until = self.until();
        // One at least: on a busy machine the first start takes longer than a short turn.
        while scene.broken().is_empty() && scene.size() < LOG_MAX {
            let deck = if is_seen_through { &mut self.seen_through } else { &mut self.anywhere };
            let injury = deck.draw(&mut self.random);
            self.round(injury, scene)?;
            if Instant::now() >= until {
                break;
            }
        }
        if scene.broken().is_empty() {
            scene.settle(true)?;
            scene.stop()?;
            scene.recover(true, &mut self.tally)?;
            scene.stop()?;
        }
        Ok(())
    }

    /// When the turn of what begins now is over.
    fn until(&self) -> Instant {
        self.end.min(Instant::now() + self.slice)
    }

    fn round(&mut self, injury: Injury, scene: &mut Scene) -> Result<()> {
        self.tally.begin_round(injury.name());
        let injured = injury.inflict(scene, &mut self.random, &mut self.tally);
        self.tally.end_round(scene.book().accounts());
        self.show_progress();
        injured
    }

    fn failure(&self, cause: Cause, scene: &Scene, what: String) -> Failure {
        Failure {
            cause,
            what,
            round: self.tally.last_round(),
            arguments: scene.launch.arguments.join(" "),
            kept: scene.home.clone(),
            data: scene.data.clone(),
            disk: None,
        }
    }
}

/// How far a run is.
fn show(bar: &mut Bar, began: Instant, end: Instant, tally: &Tally) {
    let all = end.saturating_duration_since(began).as_secs_f64();
    bar.show(began.elapsed().as_secs_f64() / all, &tally.progress());
}

/// Makes the directory; one that is there is taken only if nothing is in it.
fn make_empty(directory: &Path) -> Result<()> {
    let made = std::fs::create_dir_all(directory);
    made.with_context(|| format!("--data-dir {} cannot be made", directory.display()))?;
    let is_empty = std::fs::read_dir(directory)?.next().is_none();
    ensure!(is_empty, "--data-dir {}: there is something in it", directory.display());
    // Whoever may list it need not be able to write there.
    tempfile::tempfile_in(directory)
        .and_then(|file| file.sync_all())
        .with_context(|| format!("--data-dir {} cannot be written", directory.display()))
}

fn slice(span: Duration) -> Duration {
    let (least, most) = SLICE;
    Duration::from_secs_f64((span.as_secs_f64() / SLICES).clamp(least, most))
}

fn any_seed() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(1, |now| u64::from(now.subsec_nanos()) ^ now.as_secs() << 20) % 1_000_000_007
}

/// Progress, for whoever waits.
pub(crate) fn tell(what: &str) {
    // There is nobody to tell if this fails.
    let _ = writeln!(std::io::stderr(), "{what}");
}
