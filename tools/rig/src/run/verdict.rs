//! What came of a run, for people and for programs.
//!
//! Owns: the table and the last line. Does not know: how it came.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::{Tally, tell};
use crate::unfit::{Unfit, WRONG_USE};

/// See the file.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// The run's.
    pub seed: u64,
    /// What was done.
    pub tally: Tally,
    /// What was not done, and why.
    pub left_out: Vec<String>,
    /// Of what was done too little to say anything.
    pub too_few: Option<String>,
    /// What was found.
    pub failure: Option<Failure>,
}

/// Who is to blame for a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The broker, or the disk: a promise was broken.
    Promise,
    /// The rig, or what it was given: it could not go on, and nothing is shown.
    Rig,
    /// Its flags: it has not begun.
    Flags,
}

/// What has ended a run before its time.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Who is to blame.
    pub cause: Cause,
    /// Which promise, and by what; or what the rig could not do.
    pub what: String,
    /// Behind which injury.
    pub round: String,
    /// How the broker ran.
    pub arguments: String,
    /// Where everything about it lies.
    pub kept: PathBuf,
    /// The data directory in it.
    pub data: PathBuf,
    /// The disk that it is on, if that is a file.
    pub disk: Option<PathBuf>,
}

impl Failure {
    /// There was no run because of this error.
    pub(super) fn in_front_of_a_run(error: &anyhow::Error) -> Self {
        let cause = if error.is::<Unfit>() { Cause::Flags } else { Cause::Rig };
        Self { cause, ..Self::of_rig(format!("{error:#}"), Path::new("")) }
    }

    fn is_of_a_run(&self) -> bool {
        !self.kept.as_os_str().is_empty()
    }

    /// The rig could not do this, and there is no broker whose arguments say anything.
    pub fn of_rig(what: String, kept: &Path) -> Self {
        Self {
            cause: Cause::Rig,
            what,
            round: "the end".to_owned(),
            arguments: String::new(),
            kept: kept.to_owned(),
            data: kept.to_owned(),
            disk: None,
        }
    }
}

impl Verdict {
    /// Nothing was found yet.
    pub fn new(seed: u64) -> Self {
        let tally = Tally::new(Instant::now());
        Self { seed, tally, left_out: Vec::new(), too_few: None, failure: None }
    }

    /// This is not done.
    pub fn leave_out(&mut self, what: &str) {
        tell(&format!("left out: {what}"));
        self.left_out.push(what.to_owned());
    }

    /// Whether all promises were kept, and enough was done to break them.
    pub fn is_clean(&self) -> bool {
        self.failure.is_none() && self.too_few.is_none()
    }

    /// Of the program: 0 only where the verdict is clean.
    pub fn exit_code(&self) -> u8 {
        match &self.failure {
            Some(failure) if failure.cause == Cause::Flags => WRONG_USE,
            _ => u8::from(!self.is_clean()),
        }
    }

    /// What it all comes to.
    fn word(&self) -> &'static str {
        match (&self.failure, &self.too_few) {
            (Some(failure), _) => failure.cause.word(),
            (None, Some(_)) => "too few injuries",
            (None, None) => "clean",
        }
    }

    /// The last line.
    pub fn line(&self) -> String {
        let word = self.word();
        if let Some(failure) = self.failure.as_ref().filter(|failure| !failure.is_of_a_run()) {
            return format!("{word}: {}", failure.what);
        }
        let end = match word {
            "BROKEN" | "FAILED" => "see above",
            "clean" => "all promises kept",
            _ => "nothing is shown",
        };
        format!(
            "{word}: seed {}, {} rounds, {} kills, {} power cuts, {} acknowledged: {end}",
            self.seed,
            self.tally.rounds.len(),
            self.tally.kills,
            self.tally.power_cuts,
            self.tally.counts().acknowledged,
        )
    }

    /// The last line for programs.
    pub fn json(&self) -> serde_json::Value {
        let (median, most) = self.tally.recovery_times().unwrap_or_default();
        let counts = self.tally.counts();
        let (hits, before, recovered) = self.tally.marks.recovered();
        let injuries: serde_json::Map<_, _> =
            self.tally.injuries().into_iter().map(|(kind, n)| (kind.into(), n.into())).collect();
        let points: serde_json::Map<_, _> =
            self.tally.steps.points().map(|(one, n)| (one.name().into(), n.into())).collect();
        let not_struck = self.tally.steps.not_struck();
        let not_struck: Vec<_> =
            not_struck.map(|(phase, step)| format!("{phase}: {step}")).collect();
        serde_json::json!({
            "type": "verdict",
            "verdict": self.word().to_lowercase(),
            "clean": self.is_clean(),
            "seed": self.seed,
            "seconds": self.tally.elapsed().as_secs(),
            "rounds": self.tally.rounds.len(),
            "injuries": injuries,
            "data_directories": self.tally.generations,
            "kills": self.tally.kills,
            "kills_in_starts": self.tally.kills_in_starts,
            "kills_at_steps": self.tally.kills_at_steps,
            "steps": self.tally.steps.count().0,
            "steps_struck": self.tally.steps.count().1,
            "steps_not_struck": not_struck,
            "kills_wanted": points,
            "faults": self.tally.faults,
            "refusals": self.tally.refusals,
            "damaged_copies": self.tally.damages,
            "damage": self.tally.damage_kinds,
            "damage_refused": self.tally.refused,
            "power_cuts": self.tally.power_cuts,
            "power_cuts_left_out": self.tally.power_cuts_left_out,
            "writes_recorded": self.tally.recorded.0,
            "flushes_recorded": self.tally.recorded.1,
            "unflushed_max": self.tally.unflushed_max,
            "acknowledged": counts.acknowledged,
            "received": counts.received,
            "hits": hits,
            "acknowledged_before": before,
            "recovered": recovered,
            "starts": self.tally.recoveries.len(),
            "recovery_ms_p50": milliseconds(median),
            "recovery_ms_max": milliseconds(most),
            "left_out": self.left_out,
            "too_few": self.too_few,
            "failure": self.failure.as_ref().map(|failure| serde_json::json!({
                "what": failure.what,
                "round": failure.round,
                "broker": failure.arguments,
                "kept": failure.is_of_a_run().then_some(&failure.kept),
            })),
        })
    }
}

fn milliseconds(span: Duration) -> f64 {
    (span.as_secs_f64() * 10_000.0).round() / 10.0
}

/// The table, if there was a run.
impl fmt::Display for Verdict {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.failure.as_ref().is_some_and(|failure| !failure.is_of_a_run()) {
            return Ok(());
        }
        let tally = &self.tally;
        let mut row = |name: &str, value: &dyn fmt::Display| writeln!(out, "{name:<34}{value:>12}");
        row("rounds", &tally.rounds.len())?;
        for (injury, count) in tally.injuries() {
            row(&format!("  {injury}"), &count)?;
        }
        row("data directories", &tally.generations)?;
        row("kills", &tally.kills)?;
        row("  during a start", &tally.kills_in_starts)?;
        let (steps, struck) = tally.steps.count();
        if steps > 0 {
            row("  at a step", &tally.kills_at_steps)?;
            for (point, kills) in tally.steps.points() {
                row(&format!("    {}", point.name()), &kills)?;
            }
            row("    steps seen, and struck", &format!("{steps}, {struck}"))?;
            for (phase, step) in tally.steps.not_struck() {
                row(&format!("      {phase}: {step}"), &0)?;
            }
            row("operations failed", &tally.faults)?;
            row("full disks, a publish refused", &tally.refusals)?;
        }
        row("damaged copies", &tally.damages)?;
        for (kind, count) in &tally.damage_kinds {
            row(&format!("  {kind}"), count)?;
        }
        row("  refused as damaged", &tally.refused)?;
        if tally.power_cuts > 0 || tally.power_cuts_left_out > 0 {
            row("power cuts", &tally.power_cuts)?;
            row("  more, for which no time was left", &tally.power_cuts_left_out)?;
            row("  in writes, flushes", &format!("{}, {}", tally.recorded.0, tally.recorded.1))?;
            row("  most writes unflushed", &tally.unflushed_max)?;
        }
        row("publishes acknowledged", &tally.counts().acknowledged)?;
        row("messages received", &tally.counts().received)?;
        let (hits, before, recovered) = tally.marks.recovered();
        row("hits with accounts", &hits)?;
        row("  acknowledged before them", &before)?;
        row("  recovered of that", &recovered)?;
        row("starts", &tally.recoveries.len())?;
        if let Some((median, most)) = tally.recovery_times() {
            row("  ms until it serves, median", &milliseconds(median))?;
            row("  ms until it serves, longest", &milliseconds(most))?;
        }
        for reason in &self.left_out {
            writeln!(out, "left out: {reason}")?;
        }
        if let Some(what) = self.too_few.as_ref().filter(|_| self.failure.is_none()) {
            writeln!(out, "too few injuries: {what}")?;
        }
        if let Some(failure) = &self.failure {
            write!(out, "{failure}")?;
            if failure.cause == Cause::Promise {
                writeln!(out, "  seed {} draws the same injuries again", self.seed)?;
            }
        }
        Ok(())
    }
}

impl Cause {
    fn word(self) -> &'static str {
        match self {
            Self::Promise => "BROKEN",
            Self::Rig | Self::Flags => "FAILED",
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "{}: {}", self.cause.word(), self.what)?;
        writeln!(out, "  in {}, with zzq_broker {}", self.round, self.arguments)?;
        if self.cause != Cause::Promise {
            return writeln!(out, "  {} is kept; nothing is shown", self.kept.display());
        }
        writeln!(
            out,
            "  {} is kept: `accounts`, `broker.log`, and what lay on the disk",
            self.kept.display()
        )?;
        let data = match &self.disk {
            Some(disk) => {
                writeln!(out, "  look at it: mount -o loop,ro,noload {} /mnt", disk.display())?;
                "/mnt/data".into()
            }
            None => self.data.display().to_string(),
        };
        writeln!(out, "  look at it: zzq_journal verify {data}; zzq_journal dump {data}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blackout::Examined;
    use crate::documented::{documented, printed};
    use crate::faulty::{Kind, Op, Step};
    use crate::injuries::{Injury, Phase};

    fn failure(cause: Cause, what: &str) -> Failure {
        Failure {
            cause,
            what: what.into(),
            round: "round 2: kill -9".into(),
            arguments: "--lanes=1".into(),
            kept: "d/1".into(),
            data: "d/1/data".into(),
            disk: None,
        }
    }

    const PAGE: &str = include_str!("../../../../doc/rig.md");

    #[test]
    fn the_fields_of_the_verdict_are_those_in_the_documents() {
        let mut verdict = Verdict::new(7);
        let without = printed(&verdict.json());
        verdict.failure = Some(failure(Cause::Promise, "nothing lost: 3"));
        let json = verdict.json();
        assert_eq!(printed(&json), without, "what does not apply is null");
        assert_eq!(json["type"], "verdict");
        assert_eq!(documented(PAGE, "verdict"), printed(&json));
        assert_eq!(documented(PAGE, "failure"), printed(&json["failure"]));
    }

    #[test]
    fn the_words_of_the_verdict_are_those_in_the_documents() {
        let mut verdict = Verdict::new(7);
        let mut words = vec![verdict.json()["verdict"].clone()];
        verdict.too_few = Some("2 kills of 60 at least".into());
        words.push(verdict.json()["verdict"].clone());
        for cause in [Cause::Promise, Cause::Rig] {
            verdict.failure = Some(failure(cause, "3"));
            words.push(verdict.json()["verdict"].clone());
        }
        assert_eq!(words, ["clean", "too few injuries", "broken", "failed"]);
        for word in words {
            assert!(PAGE.contains(&format!("`{}`", word.as_str().unwrap())), "{word}");
        }
    }

    /// What the rig could not do is held against nobody, and is not clean either.
    #[test]
    fn a_rig_that_fails_accuses_nobody() {
        let mut verdict = Verdict::new(7);
        verdict.failure = Some(failure(Cause::Rig, "no space for accounts"));
        assert!(!verdict.is_clean());
        assert!(verdict.line().starts_with("FAILED: seed 7"), "{}", verdict.line());
        let text = verdict.to_string();
        assert!(text.contains("FAILED: no space for accounts") && !text.contains("BROKEN"));
        assert_eq!(verdict.json()["verdict"], "failed");
        assert_eq!(verdict.json()["clean"], false);
        assert_eq!(verdict.json()["failure"]["what"], "no space for accounts");
    }

    /// There was nothing on stdout, and the exit status was that of a broken promise.
    #[test]
    fn flags_that_do_not_fit_are_the_verdict_by_themselves() {
        let mut verdict = Verdict::new(7);
        assert_eq!(verdict.exit_code(), 0);
        verdict.too_few = Some("2 kills of 60 at least".into());
        assert_eq!(verdict.exit_code(), 1);
        for (error, code) in [
            (anyhow::anyhow!("--broker x: no file").context(Unfit), WRONG_USE),
            (anyhow::anyhow!("no processes"), 1),
        ] {
            verdict.failure = Some(Failure::in_front_of_a_run(&error));
            assert_eq!(verdict.exit_code(), code);
            let said = format!("{verdict}{}", verdict.line());
            assert_eq!(said, format!("FAILED: {error:#}"));
            assert_eq!((&verdict.json()["verdict"], verdict.is_clean()), (&"failed".into(), false));
            assert!(verdict.json()["failure"]["kept"].is_null());
        }
        for cause in [Cause::Promise, Cause::Rig] {
            verdict.failure = Some(failure(cause, "3"));
            assert_eq!(verdict.exit_code(), 1);
        }
    }

    #[test]
    fn who_has_hardly_injured_has_no_clean_verdict() {
        let mut verdict = Verdict::new(7);
        assert!(verdict.is_clean());
        verdict.too_few = Some("2 kills of 60 at least".into());
        assert!(!verdict.is_clean());
        assert!(verdict.line().starts_with("too few injuries: seed 7"), "{}", verdict.line());
        let text = verdict.to_string();
        assert!(text.contains("too few injuries: 2 kills of 60 at least"), "{text}");
        assert_eq!(verdict.json()["clean"], false);
        assert_eq!(verdict.json()["too_few"], "2 kills of 60 at least");
    }

    /// A kind that never came was missing in the table, and nobody saw it.
    #[test]
    fn what_was_not_done_stands_there_with_zero() {
        let mut verdict = Verdict::new(7);
        let step = |op| Step { op, file: Kind::Image };
        verdict.tally.steps.learn(Phase::Load, [(step(Op::Rename), 1), (step(Op::Sync), 1)].into());
        verdict.tally.steps.strike(Phase::Load, step(Op::Rename));
        let (text, json) = (verdict.to_string(), verdict.json());
        let row = |name: &str| {
            let found = text.lines().find_map(|line| line.trim_start().strip_prefix(name));
            found.unwrap_or_else(|| panic!("{name}: {text}")).trim().to_owned()
        };
        for injury in Injury::ALL {
            assert!(row(injury.name()).ends_with('0'), "{text}");
            assert_eq!(json["injuries"][injury.name()], 0);
        }
        assert_eq!(json["injuries"]["power cuts"], 0);
        assert_eq!((row("rename to image"), row("rename to segment")), ("1".into(), "0".into()));
        assert_eq!(row("load: sync image"), "0");
        assert_eq!(json["steps_not_struck"], serde_json::json!(["load: sync image"]));
        let wanted = serde_json::json!({
            "rename to segment": 0,
            "rename to spare": 0,
            "rename to image": 1,
            "change of meta": 0,
            "segment at a start": 0,
        });
        assert_eq!(json["kills_wanted"], wanted);
        let page = super::super::html::page(&verdict);
        assert!(page.contains("disk full (0)") && page.contains("<td>sync image<td class=\"n\">0"));
    }

    #[test]
    fn disks_that_there_was_no_time_for_are_counted() {
        let mut verdict = Verdict::new(7);
        let examined = Examined { disks: 5, left_out: 3, ..Examined::default() };
        verdict.tally.examined(&examined);
        assert_eq!(verdict.json()["power_cuts"], 5);
        assert_eq!(verdict.json()["power_cuts_left_out"], 3);
        let text = verdict.to_string();
        let row = text.lines().find(|line| line.contains("no time was left")).unwrap();
        assert!(row.ends_with(" 3"), "{row}");
    }

    #[test]
    fn a_failure_names_seed_directory_and_tool() {
        let mut verdict = Verdict::new(7);
        assert!(verdict.line().starts_with("clean: seed 7"));
        verdict.failure = Some(failure(Cause::Promise, "nothing lost: 3"));
        let text = verdict.to_string();
        for part in ["nothing lost: 3", "seed 7", "round 2", "zzq_journal verify d/1/data"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(verdict.line().starts_with("BROKEN"));
        assert_eq!(verdict.json()["clean"], false);
        assert_eq!(verdict.json()["failure"]["kept"], "d/1");
    }
}
