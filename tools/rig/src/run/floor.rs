//! How many injuries a run has to inflict, and which, before it says anything: one that has hardly
//! injured its broker, or never in some way, has shown nothing, whatever promises were kept.
//!
//! The floors are a third of what a machine of two cores does, so that slow ones pass; what makes
//! the rig itself do less is noticed. Shorter runs have none: their turns are too few. What the
//! machine does not allow is left out, and said.
//! Does not know: how injuries are made.

use std::time::Duration;

use super::Tally;
use crate::injuries::Injury;

/// How many are wanted in so long a run, and in longer ones.
const LEAST: Duration = Duration::from_mins(1);
const KILLS_A_MINUTE: u64 = 24;
const POWER_CUTS_A_MINUTE: u64 = 160;
/// In so long a run, and in longer ones, each kind is wanted.
const EACH_KIND: Duration = Duration::from_mins(10);

/// What the machine allows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Able {
    /// A file system of the rig's own between a broker and its data directory.
    pub(super) seen_through: bool,
    pub(super) cuts_power: bool,
}

/// What a run of this length has done too little of, in words.
pub(super) fn too_few(tally: &Tally, span: Duration, able: Able) -> Option<String> {
    let mut lacks = Vec::new();
    // Elsewhere only a user's own disk is tried, which is as slow as it is.
    if span >= LEAST && able.seen_through {
        lacks.extend(below("kills", tally.kills, KILLS_A_MINUTE, span));
        let cuts = || below("power cuts", tally.power_cuts, POWER_CUTS_A_MINUTE, span);
        lacks.extend(able.cuts_power.then(cuts).flatten());
    }
    if span >= EACH_KIND {
        let wanted = |one: &Injury| able.seen_through || Injury::ANYWHERE.contains(one);
        let missed = Injury::ALL.into_iter().filter(wanted).filter(|one| !tally.has_met(*one));
        lacks.extend(missed.map(|one| format!("not once \"{}\"", one.name())));
        let missed = tally.steps.points().filter(|(_, kills)| able.seen_through && *kills == 0);
        lacks.extend(missed.map(|(point, _)| format!("no kill at \"{}\"", point.name())));
    }
    (!lacks.is_empty()).then(|| lacks.join(", "))
}

fn below(what: &str, count: u64, a_minute: u64, span: Duration) -> Option<String> {
    let floor = a_minute.saturating_mul(span.as_secs()) / 60;
    (count < floor).then(|| format!("{count} {what} of {floor} at least"))
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::accounts::Accounts;
    use crate::faulty::{Kind, Op, Step};
    use crate::injuries::Phase;

    const ALL: Able = Able { seen_through: true, cuts_power: true };

    #[test]
    fn a_run_of_a_minute_and_more_has_to_injure() {
        let enough = (60, 400);
        let (no_cuts, plain) = (Able { cuts_power: false, ..ALL }, PLAIN);
        for (seconds, (kills, power_cuts), able, lacks) in [
            (150, enough, ALL, None),
            (150, (59, 400), ALL, Some("59 kills of 60 at least")),
            (150, (60, 399), ALL, Some("399 power cuts of 400 at least")),
            (150, (0, 0), ALL, Some("0 kills of 60 at least, 0 power cuts of 400 at least")),
            (150, (60, 0), no_cuts, None),
            (150, (0, 0), plain, None),
            (60, (24, 160), ALL, None),
            (60, (23, 160), ALL, Some("23 kills of 24 at least")),
            (59, (0, 0), ALL, None),
        ] {
            let mut tally = Tally::new(Instant::now());
            (tally.kills, tally.power_cuts) = (kills, power_cuts);
            let said = too_few(&tally, Duration::from_secs(seconds), able);
            assert_eq!(said.as_deref(), lacks, "{seconds} {kills} {power_cuts} {able:?}");
        }
    }

    const PLAIN: Able = Able { seen_through: false, cuts_power: false };

    /// With each of these kinds, and with kills at these steps.
    fn met(kinds: &[Injury], steps: &[(Phase, Op, Kind)]) -> Tally {
        let mut tally = Tally::new(Instant::now());
        let accounts = Accounts::default();
        for injury in kinds {
            tally.begin_round(injury.name());
            match injury.hit() {
                crate::run::Hit::Fault => tally.failed(&[Instant::now()], &accounts),
                crate::run::Hit::Damage => tally.damaged("segment: gone".to_owned()),
                crate::run::Hit::Pause => tally.paused(Instant::now(), &accounts),
                _ => tally.killed(&accounts),
            }
        }
        tally.kills_at_steps = u64::from(kinds.contains(&Injury::KillAtStep));
        for (phase, op, file) in steps {
            tally.steps.strike(*phase, Step { op: *op, file: *file });
        }
        (tally.kills, tally.power_cuts) = (10_000, 100_000);
        tally
    }

    const POINTS: [(Phase, Op, Kind); 5] = [
        (Phase::Load, Op::Rename, Kind::Segment),
        (Phase::Load, Op::Rename, Kind::Spare),
        (Phase::Stop, Op::Rename, Kind::Image),
        (Phase::Load, Op::DurableWrite, Kind::Meta),
        (Phase::Start, Op::Read, Kind::Segment),
    ];

    #[test]
    fn a_run_of_some_minutes_has_to_injure_in_every_way() {
        let lacks = |tally: &Tally, able| too_few(tally, EACH_KIND, able);
        assert_eq!(lacks(&met(&Injury::ALL, &POINTS), ALL), None);
        for injury in Injury::ALL {
            let others = Injury::ALL.into_iter().filter(|one| *one != injury);
            let tally = met(&others.collect::<Vec<_>>(), &POINTS);
            let said = format!("not once \"{}\"", injury.name());
            assert_eq!(lacks(&tally, ALL), Some(said.clone()));
            let is_plain = Injury::ANYWHERE.contains(&injury);
            assert_eq!(lacks(&tally, PLAIN), is_plain.then_some(said));
            assert_eq!(too_few(&tally, EACH_KIND / 2, ALL), None);
        }
        for (at, point) in crate::injuries::Point::ALL.into_iter().enumerate() {
            let mut others = POINTS.to_vec();
            others.remove(at);
            let tally = met(&Injury::ALL, &others);
            let said = format!("no kill at \"{}\"", point.name());
            assert_eq!(lacks(&tally, ALL), Some(said));
            assert_eq!(lacks(&tally, PLAIN), None);
        }
    }

    #[test]
    fn a_run_that_only_kills_says_nothing() {
        let tally = met(&[Injury::Kill], &[]);
        let said = too_few(&tally, EACH_KIND, ALL).unwrap();
        for word in ["at a step", "SIGSTOP", "disk full", "reads fail", "damaged", "segment"] {
            assert!(said.contains(word), "{word}: {said}");
        }
    }
}
