//! A run: one broker after the other, injured in rounds by turns until the time is over.
//!
//! Owns: the flags, the order of what happens, and the verdict. Does not know: how injuries are
//! made, and what they must not break.

mod tally;
mod verdict;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

pub use self::tally::Tally;
pub use self::verdict::{Failure, Verdict};
use crate::broker;
use crate::injuries::Injury;
use crate::place::mount_in;
use crate::random::Random;
use crate::scene::Scene;

/// What is run.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// How long the broker is injured, in minutes; it all ends within two more.
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
    /// The verdict as one JSON object.
    #[arg(long)]
    pub json: bool,
    /// Where the process outside has made place for this one.
    #[arg(long, hide = true)]
    pub inside: Option<PathBuf>,
    /// Why there is no such place.
    #[arg(skip)]
    pub left_out: Option<String>,
}

/// Rounds with one data directory, at most.
const ROUNDS: u64 = 30;
/// A log that is longer than this is given up for a fresh one: a start reads all of it.
const LOG_MAX: u64 = 64 << 20;
/// Time behind the end, for what has begun.
const GRACE: Duration = Duration::from_secs(90);
/// Between lines about the progress.
const PROGRESS: Duration = Duration::from_secs(5);

/// Runs until the time is over or a promise is broken.
pub fn run(options: &Options) -> Result<Verdict> {
    ensure!(options.minutes > 0.0 && options.minutes < 1e6, "--minutes is a time");
    let program = options.broker.clone().map_or_else(broker::beside, Ok)?;
    let began = Instant::now();
    let end = began + Duration::from_secs_f64(options.minutes * 60.0);
    make_empty(&options.data_dir)?;
    let seed = options.seed.unwrap_or_else(any_seed);
    tell(&format!("seed {seed}, {} on {}", program.display(), options.data_dir.display()));
    let mut verdict = Verdict::new(seed);
    let place = options.inside.clone();
    if let Some(reason) = &options.left_out {
        verdict.left_out.push(format!("kills at steps, faults of the disk: {reason}"));
        tell(&format!("left out: kills at steps, faults of the disk: {reason}"));
    }
    let mut course = Course {
        program,
        place,
        directory: options.data_dir.canonicalize()?,
        random: Random::new(seed),
        tally: Tally::new(began),
        end,
        told: began,
    };
    while Instant::now() < end && verdict.failure.is_none() {
        verdict.failure = course.generation()?;
    }
    verdict.tally = course.tally;
    Ok(verdict)
}

/// A run under way.
struct Course {
    program: PathBuf,
    /// Where file systems of ours can be mounted.
    place: Option<PathBuf>,
    directory: PathBuf,
    random: Random,
    tally: Tally,
    end: Instant,
    told: Instant,
}

impl Course {
    /// One data directory, from its first start to its last.
    fn generation(&mut self) -> Result<Option<Failure>> {
        self.tally.generations += 1;
        let name = format!("{}", self.tally.generations);
        let home = self.directory.join(&name);
        let mut scene = Scene::new(&self.program, &home, self.end + GRACE)?;
        scene.draw_arguments(&mut self.random);
        let mut injuries = &Injury::ANYWHERE;
        if let Some(place) = &self.place
            && self.tally.generations.is_multiple_of(2)
        {
            scene.see_through(&mount_in(place)).context("mounting a file system of ours")?;
            injuries = &Injury::SEEN_THROUGH;
        }
        let lived = self.live(injuries, &mut scene);
        self.tally.close(scene.book().accounts());
        if let Some(broken) = scene.broken().first() {
            return Ok(Some(self.failure(&scene, broken.to_string())));
        }
        if let Err(error) = lived {
            return Ok(Some(self.failure(&scene, format!("the rig fails: {error:#}"))));
        }
        scene.remove()?;
        Ok(None)
    }

    fn live(&mut self, injuries: &[Injury], scene: &mut Scene) -> Result<()> {
        scene.recover(true, &mut self.tally)?;
        for _ in 0..ROUNDS {
            if self.is_over(scene) || scene.size() > LOG_MAX {
                break;
            }
            let injury = injuries[self.random.index(injuries.len())];
            self.round(injury, scene)?;
        }
        if scene.broken().is_empty() {
            scene.settle(true)?;
            scene.stop()?;
            scene.recover(true, &mut self.tally)?;
            scene.stop()?;
        }
        Ok(())
    }

    fn is_over(&self, scene: &Scene) -> bool {
        Instant::now() >= self.end || !scene.broken().is_empty()
    }

    fn round(&mut self, injury: Injury, scene: &mut Scene) -> Result<()> {
        self.tally.begin_round(injury.name());
        let injured = injury.inflict(scene, &mut self.random, &mut self.tally);
        self.tally.end_round(scene.book().accounts());
        if self.told.elapsed() > PROGRESS {
            self.told = Instant::now();
            tell(&self.tally.progress());
        }
        injured
    }

    fn failure(&self, scene: &Scene, what: String) -> Failure {
        Failure {
            what,
            round: self.tally.last_round(),
            arguments: scene.launch.arguments.join(" "),
            kept: scene.home.clone(),
            data: scene.data.clone(),
        }
    }
}

/// Makes the directory; one that is there is taken only if nothing is in it.
fn make_empty(directory: &Path) -> Result<()> {
    let made = std::fs::create_dir_all(directory);
    made.with_context(|| format!("making {}", directory.display()))?;
    let is_empty = std::fs::read_dir(directory)?.next().is_none();
    ensure!(is_empty, "--data-dir {}: there is something in it", directory.display());
    Ok(())
}

fn any_seed() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(1, |now| u64::from(now.subsec_nanos()) ^ now.as_secs() << 20) % 1_000_000_007
}

/// Progress, for whoever waits.
fn tell(what: &str) {
    // There is nobody to tell if this fails.
    let _ = writeln!(std::io::stderr(), "{what}");
}
