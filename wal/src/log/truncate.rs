//! Truncation: a follower gives up what a new leader does not have.
//!
//! Owns: what may be truncated, the end of the former term's producers, and the order of steps:
//! writes in flight come back, `meta` takes back its durable mark, a new segment breaks behind the
//! last group that stays. Before that segment's name is durable the log is whole, after it what
//! lies behind is void. It is the way of a move after an error, with groups that are dropped.

use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use crate::disk::{Disk, DiskFile};
use crate::error::{Damage, TruncateError};
use crate::format::segment::{GROUPS_AT, LastGood};
use crate::log::core::{Core, Mode};
use crate::log::flight::AwaitedBy;
use crate::log::helper::{Helper, Reply, Task};
use crate::log::maker::MakeError;
use crate::log::shared::Shared;
use crate::lsn::Lsn;
use crate::reader::lookup;
use crate::reader::reads::Reads;
use crate::recover::walk::{Step, Walk};
use crate::recover::window::Span;
use crate::rules::{self, Rule};
use crate::segment::Segment;

/// A truncation that is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cut {
    /// The last record that stays.
    pub(crate) after: Lsn,
    /// The term whose leader demands it.
    pub(crate) term: u64,
}

impl<D: Disk> Shared<D> {
    /// Begins a truncation, if it may be: returns how many staged records were dropped.
    pub(crate) fn truncate(&self, cut: Cut) -> Result<u64, TruncateError> {
        // Under its lock: nothing is trimmed, and no other truncation is asked for meanwhile.
        let helper = self.helper();
        let heard = helper.meta.facts().term;
        self.with_core(|core| core.check(self, cut, heard))?;
        self.check_group_end(cut.after)?;
        let dropped = self.with_core(|core| {
            // What was appended meanwhile is truncated, too.
            core.check(self, cut, heard)?;
            Ok(core.end_term(cut))
        });
        drop(helper);
        if dropped.is_ok() {
            let mut producers = self.producers.lock().unwrap_or_else(PoisonError::into_inner);
            for ended in producers.extract_if(.., |mine| mine.ended.load(Ordering::Acquire)) {
                ended.wake.wake();
            }
            drop(producers);
            self.wake_leaders();
        }
        dropped
    }

    /// What stays ends with a whole group.
    fn check_group_end(&self, after: Lsn) -> Result<(), TruncateError> {
        if after == self.durable() {
            return Ok(());
        }
        if after > self.durable() {
            let ends = self.with_core(|core| {
                core.flights.iter().map(|flight| flight.header.last_lsn()).collect::<Vec<_>>()
            });
            let before = ends.iter().rfind(|end| **end < after);
            return match ends.iter().find(|end| **end >= after) {
                Some(end) if *end == after => Ok(()),
                Some(end) => Err(TruncateError::WithinGroup {
                    after,
                    before: before.map_or(self.durable(), |before| *before),
                    behind: *end,
                }),
                // It has become durable meanwhile.
                None => find_end(self, after).map(drop),
            };
        }
        find_end(self, after).map(drop)
    }
}

impl<D: Disk> Core<D> {
    fn check(&self, shared: &Shared<D>, cut: Cut, heard: u64) -> Result<(), TruncateError> {
        let (appended, committed) = (self.appended.lsn, shared.committed());
        if let Some(reason) = shared.poison_reason() {
            return Err(TruncateError::ReadOnly(reason.to_owned()));
        }
        if self.cut.is_some() {
            return Err(TruncateError::UnderWay);
        }
        if cut.term <= self.limits.term || cut.term < heard {
            let newest = self.limits.term.max(heard);
            return Err(TruncateError::OldTerm { term: cut.term, newest });
        }
        if cut.after < committed {
            return Err(TruncateError::Committed { after: cut.after, committed });
        }
        if cut.after > appended {
            return Err(TruncateError::Beyond { after: cut.after, appended });
        }
        Ok(())
    }

    /// Ends all producers and cursors of the term, drops what they have staged, and lets nothing be
    /// packed until the log ends where it must.
    fn end_term(&mut self, cut: Cut) -> u64 {
        let mut dropped = 0;
        for mut lane in self.lanes.drain(..) {
            // Before its ring is given up: whoever sees the ring full sees this, too.
            lane.shared.ended.store(true, Ordering::SeqCst);
            while let Ok(chunk) = lane.ring.pop() {
                dropped += u64::from(chunk.records());
            }
        }
        self.generation += 1;
        self.turn = 0;
        // Their counts stand still, and nobody of them is told what becomes of their writes.
        for flight in &mut self.flights {
            flight.marks.clear();
            flight.awaited = AwaitedBy::Nobody;
        }
        // Chunks go back to nobody: a new producer may have the number of an old one.
        self.recent.clear();
        self.recent_bytes = 0;
        self.cut = Some(cut);
        dropped
    }

    /// Once nothing is in flight any more, the helper is asked to cut.
    pub(crate) fn go_on_cutting(&mut self) {
        let Some(cut) = self.cut else { return };
        if self.mode == Mode::Running && self.flights.is_empty() {
            self.mode = Mode::Moving;
            self.ask_for_cut(cut);
        }
    }

    pub(crate) fn ask_for_cut(&mut self, cut: Cut) {
        // What a failed write has moved to may be shorter than any other.
        let length = self.active.segment.header.length.max(self.limits.first_segment);
        self.tasks.push_back(Task::Truncate { cut, durable: self.durable, length });
    }

    /// The log goes on behind what stays, in a segment that breaks with the rest.
    pub(crate) fn finish_cut(&mut self, shared: &Shared<D>, segment: Arc<Segment<D::File>>) {
        shared.set_no_space(false);
        let Some(cut) = self.cut.take() else { unreachable!("the helper was asked to cut") };
        assert!(self.flights.is_empty(), "all writes have come back");
        assert_eq!(segment.header.last_good.lsn, cut.after, "it breaks where it was told to");
        self.durable = segment.header.last_good;
        self.limits.term = cut.term;
        self.go_on_in(segment);
    }
}

impl<D: Disk> Helper<D> {
    /// Each step that fails leaves a log that is whole or cut, and is not written any more, unless
    /// it is only space that is missing: then the last step is tried again.
    pub(crate) fn truncate(&mut self, shared: &Shared<D>, cut: Cut, durable: LastGood, len: u64) {
        let made = self.cut(shared, cut, durable, len);
        self.reply(shared, Reply::Truncated(made));
    }

    fn cut(
        &mut self,
        shared: &Shared<D>,
        cut: Cut,
        durable: LastGood,
        length: u64,
    ) -> Result<Arc<Segment<D::File>>, MakeError> {
        let last_good = match self.taken_back.take() {
            Some(last_good) => last_good,
            None => self.take_back(shared, cut, durable).map_err(MakeError::Names)?,
        };
        let length = self.fitting(shared, length, true).unwrap_or(shared.gauge.shortest());
        let made = self.make_break(shared, last_good, length);
        if matches!(made, Err(MakeError::NoSpace(_))) {
            self.taken_back = Some(last_good);
        }
        made
    }

    /// What comes before the break. Returns the last group that stays.
    fn take_back(
        &mut self,
        shared: &Shared<D>,
        cut: Cut,
        durable: LastGood,
    ) -> io::Result<LastGood> {
        let last_good = if cut.after == durable.lsn {
            durable
        } else {
            find_end(shared, cut.after).map_err(io::Error::other)?
        };
        assert_eq!(last_good.lsn, cut.after, "a group that stays ends there");
        // No reader is given from now on what will be void.
        shared.lower(&last_good);
        if let Some(older) = shared.table.find(last_good.segment) {
            older.cut(last_good.lsn, last_good.end);
        }
        // Before the break: a mark beyond it would call what is void damaged.
        self.maker.epoch += 1;
        let epoch = self.maker.epoch;
        let last_marked = if rules::holds(Rule::TakenBack) { last_good } else { durable };
        self.meta.take_back(&last_marked, |facts| {
            facts.term = facts.term.max(cut.term);
            facts.epoch = epoch;
        })?;
        Ok(last_good)
    }
}

/// The group that ends with `after`, as what follows it names it.
fn find_end<D: Disk>(shared: &Shared<D>, after: Lsn) -> Result<LastGood, TruncateError> {
    let holds = |segment: &&Arc<Segment<D::File>>| {
        segment.first_lsn().is_some_and(|first| first <= after) && segment.last_lsn() >= after
    };
    let Some(lease) = shared.table.lease(holds) else { return end_before_all(shared, after) };
    let segment = lease.segment();
    // The index is a hint; without it, or if it cannot be read, the way is longer.
    let hint = lookup::find(segment, after).map_or(GROUPS_AT, |hint| hint.at);
    match find_end_from(segment, hint, after) {
        Err(TruncateError::Damage(_)) => find_end_from(segment, GROUPS_AT, after),
        found => found,
    }
}

/// Goes from the group at `from` to the one with `after`.
fn find_end_from<F: DiskFile>(
    segment: &Segment<F>,
    from: u64,
    after: Lsn,
) -> Result<LastGood, TruncateError> {
    let span = Span::new(segment.file.clone(), &segment.header, segment.end());
    let mut walk = Walk::new(Reads::alone(span), from);
    // Behind the groups that were walked over; what lies in front of `from` is not looked at.
    let mut next = segment.first_lsn().unwrap_or(after);
    let damage = |offset, first, reason: &str| {
        TruncateError::Damage(Damage {
            file: segment.name(),
            offset,
            first,
            last: segment.last_lsn().max(after),
            reason: reason.to_owned(),
            proof: String::new(),
        })
    };
    loop {
        let offset = walk.at();
        let failed = |error| TruncateError::Disk { file: segment.name(), offset, error };
        let step = walk.next().map_err(failed)?;
        let header = match step {
            Step::Group { header, .. } => header,
            Step::End(why) => return Err(damage(offset, next, why.unwrap_or(NO_GROUP))),
        };
        if header.first_lsn > after {
            return Err(damage(offset, next, "a group does not have the next LSN"));
        }
        if header.last_lsn() < after {
            next = header.last_lsn().next();
            continue;
        }
        if header.last_lsn() > after {
            let before = Lsn::new(header.first_lsn.get() - 1);
            let behind = header.last_lsn();
            return Err(TruncateError::WithinGroup { after, before, behind });
        }
        return Ok(LastGood::of(&header, walk.at()));
    }
}

const NO_GROUP: &str = "a group that was durable is not there";

/// All that is there is truncated: the first segment tells what it follows.
fn end_before_all<D: Disk>(shared: &Shared<D>, after: Lsn) -> Result<LastGood, TruncateError> {
    let first = shared.table.lock().iter().find(|kept| kept.first_lsn().is_some()).cloned();
    let Some(first) = first else { return Err(TruncateError::Trimmed { after }) };
    if first.header.last_good.lsn == after && first.first_lsn() == Some(after.next()) {
        return Ok(first.header.last_good);
    }
    Err(TruncateError::Trimmed { after })
}
