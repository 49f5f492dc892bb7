//! One cell on several brokers in turns.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use zzq_bench::load::{Broker, Target, measures, run};
use zzq_types::QoS;

use crate::cells::{Cell, Work};
use crate::peers::{Found, Setting};
use crate::results::{Compared, Went};
use crate::state::Sizes;

/// How much is done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    pub(crate) rounds: u32,
    /// Of publishing, in each.
    pub(crate) seconds: f64,
    pub(crate) sizes: Sizes,
}

impl Effort {
    /// About how long a cell takes.
    pub(crate) fn seconds_of(
        &self,
        cell: &Cell,
        brokers: impl Iterator<Item = &'static Setting>,
    ) -> f64 {
        let floods = cell.qos() == QoS::AtMostOnce;
        let behind = |setting: &Setting| {
            let behind = if floods { setting.behind } else { Duration::ZERO };
            // What is told to several costs less for each.
            if cell.receivers() > 1 { behind * 3 } else { behind }
        };
        let round =
            brokers.map(|setting| self.seconds + (setting.idles + behind(setting)).as_secs_f64());
        f64::from(self.rounds) * round.sum::<f64>()
    }
}

/// What one run of one broker gave.
#[derive(Clone, Debug, Default)]
struct Sample {
    figures: BTreeMap<String, f64>,
    sound: bool,
    went: Went,
}

/// What all rounds gave of ours and one peer.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) measures: BTreeMap<String, Compared>,
    pub(crate) faults: (u32, u32),
    pub(crate) went: (Went, Went),
}

/// Runs a cell on ours, the first, and on peers; says what came of each peer, in their order. A
/// peer that fails has no outcome, and its reason is said.
pub(crate) fn measure(
    cell: &Cell,
    brokers: &[&Found],
    effort: Effort,
    place: &Path,
    say: &mut dyn FnMut(&str),
) -> Result<Vec<Option<Outcome>>> {
    let mut samples: Vec<Option<Vec<Sample>>> = brokers.iter().map(|_| Some(Vec::new())).collect();
    for round in 0..effort.rounds {
        let mut line = format!("{} {}/{}:", cell.name, round + 1, effort.rounds);
        for at in order(brokers.len(), round) {
            let Some(all) = &mut samples[at] else { continue };
            match sample(cell, brokers[at], effort, place) {
                Ok(sample) => {
                    let name = brokers[at].setting.name;
                    // Writing to a string does not fail.
                    let _written = write!(line, "  {name} {}", progress(cell, &sample));
                    all.push(sample);
                }
                Err(error) if at == 0 => return Err(error),
                Err(error) => {
                    say(&format!("{} leaves out {error:#}", cell.name));
                    samples[at] = None;
                }
            }
        }
        say(&line);
    }
    let ours = samples[0].take().context("no samples of ours")?;
    Ok(samples.iter().skip(1).map(|theirs| Some(outcome(&ours, theirs.as_deref()?))).collect())
}

/// Who is first changes, so that nobody always finds the machine as another has left it.
fn order(brokers: usize, round: u32) -> Vec<usize> {
    let mut order: Vec<usize> = (0..brokers).collect();
    if round % 2 == 1 {
        order.reverse();
    }
    let by = usize::try_from(round / 2).unwrap_or(0) % brokers.max(1);
    order.rotate_left(by);
    order
}

fn sample(cell: &Cell, found: &Found, effort: Effort, place: &Path) -> Result<Sample> {
    let name = found.setting.name;
    let (command, start) =
        found.start(cell.stores()).with_context(|| format!("{name}: no storage"))?;
    let mut broker = Broker::start_with(&command, start.files, Some(place))
        .with_context(|| format!("{name}: {command}"))?;
    match &cell.work {
        Work::Stream(stream) => {
            let target = Target { address: broker.address(), pid: Some(broker.pid()) };
            let figures = run(&stream.plan(effort.seconds), target).context(name)?;
            let all = measures(&figures).map(|(name, value)| (name.to_owned(), value)).collect();
            Ok(Sample { figures: all, sound: figures.is_sound(), went: Went::of(&figures) })
        }
        Work::State(state) => {
            let figure = state.figure(&mut broker, effort.sizes).context(name)?;
            let figures = [(state.measure().to_owned(), figure)].into();
            Ok(Sample { figures, sound: true, went: Went::default() })
        }
    }
}

fn progress(cell: &Cell, sample: &Sample) -> String {
    let measure = match &cell.work {
        Work::Stream(_) => crate::cells::RATE,
        Work::State(state) => state.measure(),
    };
    let value = sample.figures.get(measure).copied().unwrap_or_default();
    let fault = if sample.sound { "" } else { " WITH FAULTS" };
    format!("{value:.0}{fault}")
}

fn outcome(ours: &[Sample], theirs: &[Sample]) -> Outcome {
    let faults = |samples: &[Sample]| {
        let unsound = samples.iter().filter(|sample| !sample.sound).count();
        u32::try_from(unsound).unwrap_or(u32::MAX)
    };
    let went = |samples: &[Sample]| {
        samples.iter().fold(Went::default(), |mut all, sample| {
            all += sample.went;
            all
        })
    };
    let names = ours.iter().flat_map(|sample| sample.figures.keys());
    let compare = |name: &String| {
        let pair = |(ours, theirs): (&Sample, &Sample)| {
            Some((*ours.figures.get(name)?, *theirs.figures.get(name)?))
        };
        let pairs: Option<Vec<_>> = ours.iter().zip(theirs).map(pair).collect();
        Some((name.clone(), Compared::of(&pairs?)?))
    };
    Outcome {
        measures: names.filter_map(compare).collect(),
        faults: (faults(ours), faults(theirs)),
        went: (went(ours), went(theirs)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_has_a_turn_in_each_round_and_is_first_in_some() {
        for brokers in 1..5 {
            let mut first = vec![0; brokers];
            for round in 0..12 {
                let mut order = order(brokers, round);
                first[order[0]] += 1;
                order.sort_unstable();
                assert_eq!(order, (0..brokers).collect::<Vec<_>>());
            }
            assert!(first.iter().all(|count| *count >= 2), "{first:?}");
        }
    }

    #[test]
    fn faults_are_counted_and_figures_compared_round_by_round() {
        let sample = |value, sound: bool| {
            let went = Went { lost: u32::from(!sound), repeated: 1, ..Went::default() };
            Sample { figures: [("x".to_owned(), value)].into(), sound, went }
        };
        let ours = [sample(2.0, true), sample(6.0, false)];
        let theirs = [sample(1.0, true), sample(2.0, true)];
        let outcome = outcome(&ours, &theirs);
        assert_eq!(outcome.faults, (1, 0));
        let both = Went { repeated: 2, ..Went::default() };
        assert_eq!(outcome.went, (Went { lost: 1, ..both }, both));
        assert!((outcome.measures["x"].ratio.median - 2.5).abs() < 1e-9);
    }
}
