//! How far a copy goes.
//!
//! Owns: the record at which it ends. Does not know: how it is copied.

use std::time::{SystemTime, UNIX_EPOCH};

use zzq_types::Moment;
use zzq_wal::Lsn;
use zzq_wal::disk::{Disk, DiskFile};
use zzq_wal::format::segment::GROUPS_AT;

use super::error::BackupError;
use super::source::{Image, Source, opened};
use crate::groups::{Groups, Step};
use crate::judge::{Judgement, judge_on};
use crate::place::Trouble;
use crate::survey::SegmentFile;
use crate::time::Date;

/// How far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// All of it, as it is now.
    End,
    /// To this record.
    Offset(Lsn),
    /// To the last record not younger than this, in ms since 1970.
    Time(u64),
}

impl Wish {
    /// To a moment.
    pub fn until(moment: Moment) -> Self {
        let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        match moment {
            Moment::Offset(offset) => Self::Offset(Lsn::new(offset)),
            Moment::Time(ms) => Self::Time(ms),
            Moment::Ago(ms) => {
                Self::Time(u64::try_from(now()).unwrap_or(u64::MAX).saturating_sub(ms))
            }
        }
    }

    /// What is done then.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::End => "copied",
            Self::Offset(_) | Self::Time(_) => "restored",
        }
    }
}

/// The last record that is wanted.
pub(super) fn last_wanted<S: Disk>(
    wish: Wish,
    open: &dyn Fn() -> Result<S, Trouble>,
    source: &Source<S::File>,
) -> Result<Lsn, BackupError> {
    match wish {
        Wish::End => last_there(open, source),
        Wish::Offset(Lsn::ZERO) => {
            Err(BackupError::Reach(format!("offsets begin with {}", Lsn::FIRST)))
        }
        Wish::Offset(lsn) => Ok(lsn),
        Wish::Time(time_ms) => match last_until(time_ms, source)? {
            Some(lsn) => Ok(lsn),
            None => last_there(open, source),
        },
    }
}

/// The last record of the log, as a broker would find it. What was durable before is not behind it.
pub(super) fn last_there<S: Disk>(
    open: &dyn Fn() -> Result<S, Trouble>,
    source: &Source<S::File>,
) -> Result<Lsn, BackupError> {
    let covered = source.images.last().map_or(Lsn::ZERO, Image::lsn);
    match judge_on(open, true, covered.next(), covered)? {
        Judgement::Good(recovery) => Ok(recovery.last_lsn),
        Judgement::Damaged(damage) => Err(BackupError::Damaged(format!(
            "{damage}; restore --until @OFFSET makes a log of what comes before"
        ))),
        Judgement::Unreadable(reason) => Err(BackupError::Damaged(reason)),
    }
}

/// The last record that is not younger; `None` if none of the log is younger.
fn last_until<F: DiskFile>(time_ms: u64, source: &Source<F>) -> Result<Option<Lsn>, BackupError> {
    let mut next = None;
    let mut live = Vec::new();
    for segment in source.survey.live() {
        let Some(first) = segment.first_header().map_err(opened(&segment.name()))? else {
            continue;
        };
        live.push((segment, first));
    }
    for (segment, first) in live.iter().rev() {
        if first.time_ms <= time_ms {
            return Ok(younger_in(segment, time_ms)?.or(next));
        }
        next = Some(Lsn::new(first.first_lsn.get() - 1));
    }
    let Some((_, first)) = live.first() else { return Ok(None) };
    let hint = if time_ms < NO_DATE_MS { "; an offset is written as @OFFSET" } else { "" };
    let (wanted, lsn) = (Date(time_ms), first.first_lsn);
    Err(BackupError::Reach(format!(
        "nothing is there of {wanted}: the log begins with {lsn}, {}{hint}",
        Date(first.time_ms)
    )))
}

/// Before this no broker ran: 2000-01-01.
const NO_DATE_MS: u64 = 946_684_800_000;

/// The record before the first younger one of a segment, if it has any. What is not intact is
/// passed over: whoever copies it says so.
fn younger_in<F: DiskFile>(
    segment: &SegmentFile<F>,
    time_ms: u64,
) -> Result<Option<Lsn>, BackupError> {
    let Ok(header) = &segment.header else { return Ok(None) };
    let limit = segment.limit().unwrap_or(0);
    let file = segment.file.clone();
    let mut groups = Groups::new(file, segment.number, Some(header.salt), GROUPS_AT, limit);
    loop {
        match groups.next().map_err(opened(&segment.name()))? {
            Step::Group(_, header, _) if header.time_ms > time_ms => {
                return Ok(Some(Lsn::new(header.first_lsn.get() - 1)));
            }
            Step::Group(..) | Step::Gap(_) => {}
            Step::End => return Ok(None),
        }
    }
}
