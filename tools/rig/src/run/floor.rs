//! How many injuries a run has to inflict before it says anything: one that has hardly injured its
//! broker has shown nothing, whatever promises were kept.
//!
//! The floors are a third of what a machine of two cores does, so that slow ones pass; what makes
//! the rig itself do less is noticed. Shorter runs have none: their turns are too few.
//! Does not know: which kinds of injuries there were. What the machine does not allow is left out,
//! and said.

use std::time::Duration;

use super::Tally;

/// From so long a run on.
const LEAST: Duration = Duration::from_mins(1);
const KILLS_A_MINUTE: u64 = 24;
const POWER_CUTS_A_MINUTE: u64 = 160;

/// What a run of this length has done too little of, in words; `cuts_power`: it may.
pub(super) fn too_few(tally: &Tally, span: Duration, cuts_power: bool) -> Option<String> {
    if span < LEAST {
        return None;
    }
    let kills = below("kills", tally.kills, KILLS_A_MINUTE, span);
    let cuts = cuts_power.then(|| below("power cuts", tally.power_cuts, POWER_CUTS_A_MINUTE, span));
    let lacks: Vec<_> = kills.into_iter().chain(cuts.flatten()).collect();
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

    #[test]
    fn a_run_of_a_minute_and_more_has_to_injure() {
        let enough = (60, 400);
        for (seconds, (kills, power_cuts), cuts_power, lacks) in [
            (150, enough, true, None),
            (150, (59, 400), true, Some("59 kills of 60 at least")),
            (150, (60, 399), true, Some("399 power cuts of 400 at least")),
            (150, (0, 0), true, Some("0 kills of 60 at least, 0 power cuts of 400 at least")),
            (150, (60, 0), false, None),
            (60, (24, 160), true, None),
            (60, (23, 160), true, Some("23 kills of 24 at least")),
            (59, (0, 0), true, None),
        ] {
            let mut tally = Tally::new(Instant::now());
            (tally.kills, tally.power_cuts) = (kills, power_cuts);
            let said = too_few(&tally, Duration::from_secs(seconds), cuts_power);
            assert_eq!(said.as_deref(), lacks, "{seconds} {kills} {power_cuts} {cuts_power}");
        }
    }
}
