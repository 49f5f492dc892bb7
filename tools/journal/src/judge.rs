//! The verdict: what the log's own recovery says, as a broker would at its start.
//!
//! Owns: asking it, and asking again where the log moves under its eyes.

use zzq_wal::disk::Disk;
use zzq_wal::{Damage, Lsn, OpenError, Options, Recovery, inspect};

use crate::place::{LOOKS_MAX, Place, Trouble};

/// What recovery says.
#[derive(Debug)]
pub(crate) enum Judgement {
    /// A broker starts on it.
    Good(Recovery),
    /// A broker refuses it.
    Damaged(Damage),
    /// It could not be read.
    Unreadable(String),
}

/// Judges the log; segments without records from `from` on are passed over where their ends are
/// known.
///
/// A log that is written meanwhile can look damaged: a segment is read to its end, and what proves
/// that more was durable is read later. Damage that is real is the same at the next look.
pub(crate) fn judge(place: &Place, from: Lsn) -> Result<Judgement, Trouble> {
    judge_on(&|| place.disk(), place.is_live(), from, Lsn::ZERO)
}

/// As [`judge`], on any disk; `known` was durable, says an image.
pub(crate) fn judge_on<D: Disk>(
    open: &dyn Fn() -> Result<D, Trouble>,
    moves: bool,
    from: Lsn,
    known: Lsn,
) -> Result<Judgement, Trouble> {
    let mut before = None;
    for _ in 1..LOOKS_MAX {
        let judgement = look(open()?, from, known)?;
        let found = match &judgement {
            Judgement::Good(_) => return Ok(judgement),
            Judgement::Damaged(damage) => damage.to_string(),
            Judgement::Unreadable(reason) => reason.clone(),
        };
        if !moves || before.as_ref() == Some(&found) {
            return Ok(judgement);
        }
        before = Some(found);
    }
    look(open()?, from, known)
}

fn look<D: Disk>(disk: D, from: Lsn, known: Lsn) -> Result<Judgement, Trouble> {
    let salts = Box::new(zzq_wal::format::Salt::default);
    let options = Options { visit_from: from, durable: known, ..Options::new(salts) };
    match inspect(disk, &options, &mut |_| Ok(())) {
        Ok(recovery) => Ok(Judgement::Good(recovery)),
        Err(OpenError::Damage(damage)) => Ok(Judgement::Damaged(damage)),
        Err(OpenError::Version { file, fault }) => {
            Err(Trouble::Version { file, reason: fault.to_string() })
        }
        Err(error) => Ok(Judgement::Unreadable(error.to_string())),
    }
}
