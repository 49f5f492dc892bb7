//! What was done, and how it went, in numbers.
//!
//! Owns: counts, times, one row for each round. Does not know: what is right.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::POWER_CUTS;
use super::marks::{Hit, Mark, Marks};
use crate::accounts::Accounts;
use crate::blackout::{Case, Examined};
use crate::injuries::{Injury, Steps};
use crate::recorder::Event;

/// See the file.
#[derive(Clone, Debug)]
pub struct Tally {
    began: Instant,
    /// Data directories.
    pub generations: u64,
    /// SIGKILLs.
    pub kills: u64,
    /// Those of them during a start.
    pub kills_in_starts: u64,
    /// Those of them at a step.
    pub kills_at_steps: u64,
    /// The steps.
    pub steps: Steps,
    /// Operations of the file system that failed.
    pub faults: u64,
    /// Full disks on which a publish was refused.
    pub refusals: u64,
    /// Copies of data directories with changed bytes.
    pub damages: u64,
    /// What was done to what file in them, and how often.
    pub damage_kinds: BTreeMap<String, u64>,
    /// Those of them that a broker has refused as damaged, as it must or may.
    pub refused: u64,
    /// Disks as power cuts may have left them, examined.
    pub power_cuts: u64,
    /// More of them that there was no time to examine.
    pub power_cuts_left_out: u64,
    /// Writes and flushes recorded for them.
    pub recorded: (u64, u64),
    /// Writes that no flush had covered, at the cut with the most of them.
    pub unflushed_max: usize,
    /// Rounds, in their order.
    pub rounds: Vec<Round>,
    /// Each start that came to serve, in its order.
    pub recoveries: Vec<Recovery>,
    /// Each moment at which a broker was struck.
    pub marks: Marks,
    /// Of data directories that are gone.
    before: Counts,
    under_way: Counts,
}

/// One round.
#[derive(Clone, Debug)]
pub struct Round {
    /// The injury.
    pub injury: &'static str,
    /// When it began, from the beginning of the run.
    pub from: Duration,
    /// When all accounts were settled.
    pub to: Duration,
    /// What had been acknowledged and received until then.
    pub counts: Counts,
}

/// A start that came to serve.
#[derive(Clone, Copy, Debug)]
pub struct Recovery {
    /// The round behind which it was.
    pub round: usize,
    /// When it served, from the beginning of the run.
    pub at: Duration,
    /// How long it took.
    pub span: Duration,
}

/// Over all clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Publishes acknowledged.
    pub acknowledged: u64,
    /// Messages received, each once for each audience.
    pub received: u64,
    /// Acknowledged messages, each once for each audience that they are owed to.
    pub owed: u64,
    /// Those of them that the audience has.
    pub found: u64,
}

impl Counts {
    fn plus(self, other: Self) -> Self {
        Self {
            acknowledged: self.acknowledged + other.acknowledged,
            received: self.received + other.received,
            owed: self.owed + other.owed,
            found: self.found + other.found,
        }
    }

    fn of(accounts: &Accounts) -> Self {
        let (owed, found) = accounts.owed_and_found();
        let (acknowledged, received) = (accounts.acknowledged(), accounts.received());
        Self { acknowledged, received, owed, found }
    }
}

impl Tally {
    /// Nothing was done yet.
    pub fn new(began: Instant) -> Self {
        Self {
            began,
            generations: 0,
            kills: 0,
            kills_in_starts: 0,
            kills_at_steps: 0,
            steps: Steps::default(),
            faults: 0,
            refusals: 0,
            damages: 0,
            damage_kinds: BTreeMap::new(),
            refused: 0,
            power_cuts: 0,
            power_cuts_left_out: 0,
            recorded: (0, 0),
            unflushed_max: 0,
            rounds: Vec::new(),
            recoveries: Vec::new(),
            marks: Marks::default(),
            before: Counts::default(),
            under_way: Counts::default(),
        }
    }

    /// From the beginning.
    pub fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// An injury begins.
    pub fn begin_round(&mut self, injury: &'static str) {
        let from = self.elapsed();
        let counts = self.counts();
        self.rounds.push(Round { injury, from, to: from, counts });
    }

    /// Its accounts are settled.
    pub fn end_round(&mut self, accounts: &Accounts) {
        self.look(accounts);
        self.end_recording();
    }

    /// These accounts had grown from those before, and are closed.
    pub fn add(&mut self, before: &Accounts, after: &Accounts) {
        let (before, after) = (Counts::of(before), Counts::of(after));
        let grown = Counts {
            acknowledged: after.acknowledged - before.acknowledged,
            received: after.received - before.received,
            owed: after.owed - before.owed,
            found: after.found.saturating_sub(before.found),
        };
        self.before = self.before.plus(grown);
    }

    /// A round that has accounts of its own is over.
    pub fn end_recording(&mut self) {
        let (to, counts) = (self.elapsed(), self.counts());
        if let Some(round) = self.rounds.last_mut() {
            (round.to, round.counts) = (to, counts);
        }
    }

    fn look(&mut self, accounts: &Accounts) {
        self.under_way = Counts::of(accounts);
    }

    /// These accounts are closed.
    pub fn close(&mut self, accounts: &Accounts) {
        self.look(accounts);
        self.before = self.counts();
        self.under_way = Counts::default();
    }

    /// Over all data directories.
    pub fn counts(&self) -> Counts {
        self.before.plus(self.under_way)
    }

    /// A start came to serve in this time.
    pub fn recovered(&mut self, span: Duration) {
        self.recovered_at(Instant::now(), span);
    }

    fn recovered_at(&mut self, at: Instant, span: Duration) {
        let (round, at) = (self.rounds.len(), at.saturating_duration_since(self.began));
        self.recoveries.push(Recovery { round, at, span });
    }

    /// The broker was killed; these are its accounts.
    pub fn killed(&mut self, accounts: &Accounts) {
        self.kills += 1;
        self.struck(Hit::Kill, Instant::now(), Some(accounts.acknowledged()));
    }

    /// It was killed while it started.
    pub fn killed_in_start(&mut self, accounts: &Accounts) {
        self.killed(accounts);
        self.kills_in_starts += 1;
    }

    /// Operations of the file system have failed at these moments.
    pub fn failed(&mut self, moments: &[Instant], accounts: &Accounts) {
        self.faults += moments.len() as u64;
        for at in moments {
            self.struck(Hit::Fault, *at, Some(accounts.acknowledged()));
        }
    }

    /// The disk is full, and a publish was refused.
    pub fn refused_for_space(&mut self, accounts: &Accounts) {
        self.refusals += 1;
        self.struck(Hit::Refusal, Instant::now(), Some(accounts.acknowledged()));
    }

    /// A copy was damaged so.
    pub fn damaged(&mut self, kind: String) {
        self.damages += 1;
        *self.damage_kinds.entry(kind).or_default() += 1;
        self.struck(Hit::Damage, Instant::now(), None);
    }

    /// The broker is stopped.
    pub fn paused(&mut self, at: Instant, accounts: &Accounts) {
        self.struck(Hit::Pause, at, Some(accounts.acknowledged()));
    }

    fn struck(&mut self, hit: Hit, at: Instant, acknowledged: Option<u64>) {
        let (round, at) = (self.rounds.len(), at.saturating_duration_since(self.began));
        self.marks.add(Mark { at, round, hit, acknowledged, recovered: None });
    }

    /// All accounts of a broker were settled.
    pub fn settled(&mut self, accounts: &Accounts, with_away: bool) {
        self.marks.settle(accounts, with_away);
    }

    /// These disks were made of this recording.
    pub fn cut(&mut self, cases: &[Case], events: &[Event]) {
        let most = cases.iter().map(|case| case.unflushed).max();
        self.unflushed_max = self.unflushed_max.max(most.unwrap_or_default());
        for event in events {
            match event {
                Event::Write { .. } => self.recorded.0 += 1,
                Event::Flush { .. } => self.recorded.1 += 1,
                Event::Note(_) => {}
            }
        }
    }

    /// Disks were examined.
    pub fn examined(&mut self, examined: &Examined) {
        self.power_cuts += examined.disks;
        self.power_cuts_left_out += examined.left_out;
        let (round, began) = (self.rounds.len(), self.began);
        for cut in &examined.cuts {
            let at = cut.at.saturating_duration_since(began);
            let (acknowledged, recovered) = (Some(cut.acknowledged), Some(cut.recovered));
            self.marks.add(Mark { at, round, hit: Hit::PowerCut, acknowledged, recovered });
            for span in &cut.recoveries {
                self.recovered_at(cut.at, *span);
            }
        }
    }

    /// How long a start takes: the median of them.
    pub fn usual_recovery_us(&self) -> u64 {
        let usual = self.recovery_times().map_or(Duration::from_millis(50), |(median, _)| median);
        u64::try_from(usual.as_micros()).unwrap_or(u64::MAX)
    }

    /// Median and maximum of the times that starts took.
    pub fn recovery_times(&self) -> Option<(Duration, Duration)> {
        let mut times: Vec<_> = self.recoveries.iter().map(|one| one.span).collect();
        times.sort_unstable();
        Some((*times.get(times.len() / 2)?, *times.last()?))
    }

    /// The last round, in words.
    pub fn last_round(&self) -> String {
        match self.rounds.last() {
            Some(round) => format!("round {}: {}", self.rounds.len(), round.injury),
            None => "the first start".to_owned(),
        }
    }

    /// Where the run is.
    pub fn progress(&self) -> String {
        let acknowledged = self.counts().acknowledged;
        format!(
            "{} s: {} kills, {} power cuts, {acknowledged} acknowledged; {}",
            self.elapsed().as_secs(),
            self.kills,
            self.power_cuts,
            self.last_round()
        )
    }

    /// Whether this injury has come to a broker: what was to fail has failed, for instance.
    pub fn has_met(&self, injury: Injury) -> bool {
        // A broker that heeds a full disk asks nothing of it that would fail.
        let is_heeded = |hit| injury == Injury::Full && hit == Hit::Refusal;
        let of_it = |mark: &Mark| {
            let round = mark.round.checked_sub(1).and_then(|at| self.rounds.get(at));
            let is_hit = mark.hit == injury.hit() || is_heeded(mark.hit);
            is_hit && round.is_some_and(|round| round.injury == injury.name())
        };
        match injury {
            Injury::KillAtStep => self.kills_at_steps > 0,
            _ => self.marks.iter().any(of_it),
        }
    }

    /// All injuries, each with the number of its rounds, those that were not inflicted too.
    pub fn injuries(&self) -> Vec<(&'static str, usize)> {
        let names = Injury::ALL.map(Injury::name).into_iter().chain([POWER_CUTS]);
        let mut kinds: Vec<(&'static str, usize)> = names.map(|name| (name, 0)).collect();
        for round in &self.rounds {
            match kinds.iter_mut().find(|(kind, _)| *kind == round.injury) {
                Some((_, count)) => *count += 1,
                None => kinds.push((round.injury, 1)),
            }
        }
        kinds
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accounts::Entry;

    #[test]
    fn counts_go_on_over_data_directories() {
        let mut tally = Tally::new(Instant::now());
        let mut accounts = Accounts::default();
        accounts.apply(&Entry::Acked { by: 0, seq: 1 });
        for (acknowledged, injury) in [(1, "a"), (2, "b"), (3, "a")] {
            tally.begin_round(injury);
            tally.end_round(&accounts);
            assert_eq!(tally.rounds.last().unwrap().counts.acknowledged, acknowledged);
            tally.close(&accounts);
        }
        let injuries = tally.injuries();
        assert_eq!(injuries[injuries.len() - 2..], [("a", 2), ("b", 1)]);
        assert_eq!(tally.last_round(), "round 3: a");
    }

    #[test]
    fn what_was_tried_and_what_has_come_to_a_broker_are_told_apart() {
        let mut tally = Tally::new(Instant::now());
        let accounts = Accounts::default();
        assert!(tally.injuries().iter().all(|(_, count)| *count == 0));
        assert_eq!(tally.injuries().len(), Injury::ALL.len() + 1);
        tally.begin_round(Injury::Full.name());
        // Nothing took space; the broker was killed in the end.
        tally.failed(&[], &accounts);
        tally.killed(&accounts);
        tally.begin_round(Injury::KillAtStep.name());
        tally.killed(&accounts);
        assert!(Injury::ALL.into_iter().all(|injury| !tally.has_met(injury)));
        tally.kills_at_steps += 1;
        tally.begin_round(Injury::Full.name());
        tally.failed(&[Instant::now()], &accounts);
        tally.begin_round(Injury::Pause.name());
        tally.paused(Instant::now(), &accounts);
        let met: Vec<_> = Injury::ALL.into_iter().filter(|one| tally.has_met(*one)).collect();
        assert_eq!(met, [Injury::Pause, Injury::KillAtStep, Injury::Full]);
        assert!(tally.injuries().contains(&(Injury::Full.name(), 2)));
    }

    #[test]
    fn a_full_disk_has_come_to_a_broker_that_refuses() {
        let mut tally = Tally::new(Instant::now());
        let accounts = Accounts::default();
        tally.begin_round(Injury::WritesFail.name());
        tally.refused_for_space(&accounts);
        tally.begin_round(Injury::Full.name());
        assert!(!tally.has_met(Injury::WritesFail) && !tally.has_met(Injury::Full));
        tally.refused_for_space(&accounts);
        assert!(tally.has_met(Injury::Full));
        assert_eq!(tally.refusals, 2);
    }

    #[test]
    fn the_median_is_the_usual_recovery() {
        let mut tally = Tally::new(Instant::now());
        assert_eq!((tally.recovery_times(), tally.usual_recovery_us()), (None, 50_000));
        for span in [30, 10, 20, 900, 15] {
            tally.recovered(Duration::from_millis(span));
        }
        let (median, most) = tally.recovery_times().unwrap();
        assert_eq!((median.as_millis(), most.as_millis()), (20, 900));
    }
}
