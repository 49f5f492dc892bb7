//! `kill -9` exactly at one step of what a broker does to its data directory: before it, in the
//! midst of it, or behind it without being told.
//!
//! Owns: which steps there are, learnt by watching a start, a while under load and a stop, how
//! often each was struck, and which of them a run may not miss. Does not know: how a broker takes
//! them.

use std::collections::BTreeMap;
use std::fmt;
use std::os::unix::process::ExitStatusExt;
use std::time::{Duration, Instant};

use anyhow::Result;

use super::with_away;
use crate::broker::Start;
use crate::faulty::{Control, Kill, Kind, Moment, Op, Step};
use crate::run::Tally;
use crate::scene::Scene;
use zzq_wal::sim_disk::Random;

/// When a broker takes a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Before it serves.
    Start,
    /// While it serves.
    Load,
    /// From SIGTERM on.
    Stop,
}

/// The steps that were seen, and the kills at each.
#[derive(Clone, Debug, Default)]
pub struct Steps(BTreeMap<(Phase, Step), Struck>);

#[derive(Clone, Copy, Debug, Default)]
struct Struck {
    /// How often the step was taken in one phase.
    seen: u64,
    kills: u64,
}

/// What a run strikes, whatever else it meets: one step at least of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// The log goes on in its next segment.
    Roll,
    /// A segment that is needed no more becomes a spare.
    Recycle,
    /// An image gets its name.
    Image,
    /// Facts of the log are stated.
    Meta,
    /// A start looks at a segment.
    Start,
}

impl Point {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Roll, Self::Recycle, Self::Image, Self::Meta, Self::Start];

    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Self::Roll => "rename to segment",
            Self::Recycle => "rename to spare",
            Self::Image => "rename to image",
            Self::Meta => "change of meta",
            Self::Start => "segment at a start",
        }
    }

    fn covers(self, phase: Phase, step: Step) -> bool {
        let Step { op, file } = step;
        match self {
            Self::Roll => op == Op::Rename && file == Kind::Segment,
            Self::Recycle => op == Op::Rename && file == Kind::Spare,
            Self::Image => op == Op::Rename && file == Kind::Image,
            Self::Meta => CHANGES.contains(&op) && file == Kind::Meta,
            Self::Start => phase == Phase::Start && file == Kind::Segment,
        }
    }
}

const CHANGES: [Op; 4] = [Op::Write, Op::DurableWrite, Op::Sync, Op::Rename];

/// Waited for a step under load.
const UNDER_LOAD: Duration = Duration::from_millis(1500);
/// Starts that are killed in a row, at most.
const STARTS: u64 = 3;
/// Kills more in one round at what a run may not miss, while there is something of it.
const MISSING: u64 = 3;
/// Of the times that a step is taken, these are tried.
const TIMES: u64 = 12;
const MOMENTS: [Moment; 3] = [Moment::Before, Moment::Within, Moment::After];

impl Steps {
    pub(crate) fn learn(&mut self, phase: Phase, seen: BTreeMap<Step, u64>) {
        for (step, times) in seen {
            let known = self.0.entry((phase, step)).or_default();
            known.seen = known.seen.max(times);
        }
    }

    /// A step of the phase among those struck least; of any phase without one.
    fn choose(&self, phase: Option<Phase>, random: &mut Random) -> Option<(Phase, Kill)> {
        let fits = |one: &Phase| phase.is_none_or(|phase| phase == *one);
        let all = || self.0.iter().filter(|((phase, _), _)| fits(phase));
        let least = all().map(|(_, struck)| struck.kills).min()?;
        let least: Vec<_> = all().filter(|(_, struck)| struck.kills <= least + 1).collect();
        let ((phase, step), struck) = least[random.index(least.len())];
        let nth = 1 + random.below(struck.seen.clamp(1, TIMES));
        let moment = MOMENTS[random.index(MOMENTS.len())];
        Some((*phase, Kill { step: *step, nth, moment }))
    }

    /// A step that a run may not miss, at a point that was not struck yet.
    fn choose_missing(&self, random: &mut Random) -> Option<(Phase, Kill)> {
        let missing: Vec<_> =
            self.points().filter(|(_, kills)| *kills == 0).map(|(point, _)| point).collect();
        let is_one =
            |(phase, step): &(Phase, Step)| missing.iter().any(|point| point.covers(*phase, *step));
        let seen: Vec<_> = self.0.keys().copied().filter(is_one).collect();
        let (phase, step) = *seen.get(random.index(seen.len().max(1)))?;
        Some((phase, Kill { step, nth: 1, moment: MOMENTS[random.index(MOMENTS.len())] }))
    }

    pub(crate) fn strike(&mut self, phase: Phase, step: Step) {
        self.0.entry((phase, step)).or_default().kills += 1;
    }

    /// The kills at each of what a run may not miss.
    pub fn points(&self) -> impl Iterator<Item = (Point, u64)> + '_ {
        Point::ALL.into_iter().map(|point| {
            let covered = self.iter().filter(move |(phase, step, _)| point.covers(*phase, *step));
            (point, covered.map(|(_, _, kills)| kills).sum())
        })
    }

    /// The steps that were seen, and not struck.
    pub fn not_struck(&self) -> impl Iterator<Item = (Phase, Step)> + '_ {
        self.iter().filter(|(_, _, kills)| *kills == 0).map(|(phase, step, _)| (phase, step))
    }

    /// How many there are, and how many were struck.
    pub fn count(&self) -> (usize, usize) {
        (self.0.len(), self.0.values().filter(|struck| struck.kills > 0).count())
    }

    /// Each with the kills at it.
    pub fn iter(&self) -> impl Iterator<Item = (Phase, Step, u64)> + '_ {
        self.0.iter().map(|((phase, step), struck)| (*phase, *step, struck.kills))
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Start => "start",
            Self::Load => "load",
            Self::Stop => "stop",
        })
    }
}

pub(super) fn kill(scene: &mut Scene, random: &mut Random, tally: &mut Tally) -> Result<()> {
    let control = scene.control()?;
    match tally.steps.choose(None, random) {
        Some((phase, kill)) => strike(phase, kill, &control, scene, random, tally)?,
        None => watch(&control, scene, tally)?,
    }
    for _ in 0..MISSING {
        let next = tally.steps.choose_missing(random).filter(|_| scene.broken().is_empty());
        let Some((phase, kill)) = next else { break };
        strike(phase, kill, &control, scene, random, tally)?;
    }
    Ok(())
}

fn strike(
    phase: Phase,
    kill: Kill,
    control: &Control,
    scene: &mut Scene,
    random: &mut Random,
    tally: &mut Tally,
) -> Result<()> {
    match phase {
        Phase::Load => under_load(control, kill, scene, tally)?,
        Phase::Stop => in_stop(control, kill, scene, tally)?,
        Phase::Start => {
            scene.kill_after(Duration::from_micros(1000 + random.below(60_000)), tally)?;
            in_start(control, kill, scene, tally)?;
            for _ in 0..random.below(STARTS) {
                if let Some((_, kill)) = tally.steps.choose(Some(Phase::Start), random) {
                    in_start(control, kill, scene, tally)?;
                }
            }
        }
    }
    scene.recover(with_away(random), tally)
}

/// Learns which steps there are.
fn watch(control: &Control, scene: &mut Scene, tally: &mut Tally) -> Result<()> {
    control.take_seen();
    scene.load(UNDER_LOAD)?;
    tally.steps.learn(Phase::Load, control.take_seen());
    scene.stop()?;
    tally.steps.learn(Phase::Stop, control.take_seen());
    if scene.start(tally)? {
        tally.steps.learn(Phase::Start, control.take_seen());
        scene.check_all(true)?;
    }
    Ok(())
}

fn under_load(control: &Control, kill: Kill, scene: &mut Scene, tally: &mut Tally) -> Result<()> {
    control.arm(kill);
    control.set_victim(scene.broker()?.pid());
    let end = Instant::now() + UNDER_LOAD;
    control.take_seen();
    scene.load_while(|| {
        while control.is_armed() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(1));
        }
    })?;
    let is_struck = note(control, Phase::Load, kill, tally);
    scene.bury()?;
    count(is_struck, scene, tally);
    Ok(())
}

fn in_stop(control: &Control, kill: Kill, scene: &mut Scene, tally: &mut Tally) -> Result<()> {
    scene.load(Duration::from_millis(20))?;
    control.arm(kill);
    control.set_victim(scene.broker()?.pid());
    control.take_seen();
    scene.stop_anyhow()?;
    let is_struck = note(control, Phase::Stop, kill, tally);
    count(is_struck, scene, tally);
    Ok(())
}

fn in_start(control: &Control, kill: Kill, scene: &mut Scene, tally: &mut Tally) -> Result<()> {
    control.arm(kill);
    control.take_seen();
    let start = scene.launch.start(|pid| control.set_victim(pid))?;
    let is_struck = note(control, Phase::Start, kill, tally);
    count(is_struck, scene, tally);
    tally.kills_in_starts += 1;
    match start {
        Start::Up(broker) => broker.kill(),
        Start::Ended(status) if is_struck && status.signal() == Some(9) => {}
        Start::Ended(status) => scene.accuse_start(&format!("ends with {status}")),
        Start::Hung => scene.accuse_start("says nothing"),
    }
    Ok(())
}

/// Returns whether the step was reached.
fn note(control: &Control, phase: Phase, kill: Kill, tally: &mut Tally) -> bool {
    let is_struck = control.disarm();
    tally.steps.learn(phase, control.take_seen());
    if is_struck {
        tally.steps.strike(phase, kill.step);
    }
    is_struck
}

/// The broker was killed, at the step or in the end.
fn count(is_struck: bool, scene: &mut Scene, tally: &mut Tally) {
    tally.killed(scene.book().accounts());
    tally.kills_at_steps += u64::from(is_struck);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_steps_struck_least_come_first() {
        let mut steps = Steps::default();
        let mut random = Random::new(1);
        assert!(steps.choose(None, &mut random).is_none());
        let step = |op| Step { op, file: Kind::Other };
        let seen = [(step(Op::Write), 4), (step(Op::Rename), 1)];
        steps.learn(Phase::Load, seen.into());
        steps.learn(Phase::Start, [(step(Op::Open), 2)].into());
        for _ in 0..5 {
            steps.strike(Phase::Load, step(Op::Write));
            steps.strike(Phase::Start, step(Op::Open));
        }
        for _ in 0..50 {
            let (phase, kill) = steps.choose(None, &mut random).unwrap();
            assert_eq!((phase, kill.step, kill.nth), (Phase::Load, step(Op::Rename), 1));
            let (_, kill) = steps.choose(Some(Phase::Start), &mut random).unwrap();
            assert!(kill.step == step(Op::Open) && (1..=2).contains(&kill.nth));
        }
        assert_eq!(steps.count(), (3, 2));
        let left: Vec<_> = steps.not_struck().collect();
        assert_eq!(left, [(Phase::Load, step(Op::Rename))]);
    }

    /// Some steps are taken all the time, and a roll now and then: it was met by chance, or never.
    #[test]
    fn what_a_run_may_not_miss_is_chosen_until_all_of_it_was_struck() {
        let step = |op, file| Step { op, file };
        let needed = [
            (Phase::Load, step(Op::Rename, Kind::Segment)),
            (Phase::Load, step(Op::Rename, Kind::Spare)),
            (Phase::Stop, step(Op::Rename, Kind::Image)),
            (Phase::Load, step(Op::DurableWrite, Kind::Meta)),
            (Phase::Start, step(Op::Read, Kind::Segment)),
        ];
        let mut steps = Steps::default();
        let mut random = Random::new(3);
        for op in [Op::Create, Op::Open, Op::Read, Op::Remove, Op::List, Op::Resize] {
            for file in [Kind::Directory, Kind::Lock, Kind::Segment, Kind::Meta, Kind::Image] {
                steps.learn(Phase::Load, [(step(op, file), 9)].into());
            }
        }
        assert!(steps.choose_missing(&mut random).is_none(), "none was seen");
        for (phase, step) in needed {
            steps.learn(phase, [(step, 9)].into());
        }
        for left in (1..=Point::ALL.len()).rev() {
            assert_eq!(steps.points().filter(|(_, kills)| *kills == 0).count(), left);
            let (phase, kill) = steps.choose_missing(&mut random).unwrap();
            assert!(needed.contains(&(phase, kill.step)) && kill.nth == 1);
            steps.strike(phase, kill.step);
        }
        assert!(steps.choose_missing(&mut random).is_none());
    }
}
