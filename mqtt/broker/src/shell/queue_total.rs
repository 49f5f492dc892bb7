//! The memory of all queues together, as a lane sees it: what would go into a queue while that is
//! at its bound, and which sessions end when it stays there.
//!
//! Owns: what this lane has told of its own, which change of the bound it has seen, and which of
//! its sessions that are away hold the most. Does not know: what other lanes have, but for the sum;
//! limits of single queues, see [`full`](super::full).
//!
//! Assumes: a message that is applied here is counted at once, one that is on its way when it is.

use std::cmp::Reverse;

use zzq_engine::session::{Link as SessionLink, Load};
use zzq_engine::{Decision, SessionNumber};
use zzq_lanes::Class;
use zzq_types::QoS;
use zzq_wal::disk::Disk;

use super::full::HELD_UP_MS;
use super::message::Store;
use super::notes::Note;
use super::{Io, Shell};
use crate::queue_total::QueueTotal;
use crate::seldom::Seldom;

/// Why a session ends.
const ENDS: &str = "the queues of all sessions are at --max-queued-total, and it was away for \
                    longer than --queue-grace and holds the most";

/// Sessions that end in one turn, and that are known to be the next.
const STEPS: usize = 64;
const NEXT_MOST: usize = 1024;

/// Sessions to be ended are not looked for more often.
const PAUSE_MS: u64 = 1000;

/// A lane's part of it.
#[derive(Debug, Default)]
pub(super) struct QueueShare {
    told: u64,
    /// The bound was reached or left by what this lane has told, and others do not know.
    changed: bool,
    /// The changes that were seen.
    seen: u64,
    /// When [`Shell::relieve_queue_total`] is due, in log time; only at the bound.
    next_ms: Option<u64>,
    /// What sessions hold that may be ended, the one last that goes first.
    next: Vec<(u64, SessionNumber)>,
    /// Other lanes have had the time to say what theirs hold.
    compared: bool,
    /// Its end is handed over and not applied.
    ending: Option<SessionNumber>,
    told_line: Seldom,
}

impl QueueShare {
    /// See the field.
    pub(super) const fn next_ms(&self) -> Option<u64> {
        self.next_ms
    }

    /// Tells what the queues of this lane take by now.
    fn tell(&mut self, total: &QueueTotal, is: u64) {
        let was = std::mem::replace(&mut self.told, is);
        self.changed |= total.tell(was, is);
    }

    fn is_next(&mut self, now_ms: u64) {
        self.next_ms = self.next_ms.map(|next| next.min(now_ms));
    }

    /// A session of this lane has ended.
    pub(super) fn forget(&mut self, session: SessionNumber, now_ms: u64) {
        if self.ending == Some(session) {
            self.ending = None;
            self.is_next(now_ms);
        }
    }
}

impl<D: Disk> Shell<D> {
    /// What the queues of this lane take in memory: to refer to messages, and for those that are
    /// nowhere else. What is retained besides has a bound of its own.
    pub(super) fn queue_memory(&self) -> u64 {
        let retained = self.state.retained();
        // With a log that has them, too.
        let is_log = self.journal.is_log();
        let each = (retained.len() * Store::BESIDE) as u64;
        let retained = if is_log { 0 } else { retained.bytes() + each };
        let messages = self.store.unlogged_bytes() as u64;
        self.state.queue_memory() + messages.saturating_sub(retained)
    }

    /// Whether a message would go into a queue while all together take what they may.
    pub(super) fn lacks_queue_total(&mut self, qos: QoS, decision: Decision<'_>) -> bool {
        self.is_queue_total_reached()
            && qos != QoS::AtMostOnce
            && decision.iter().any(|to| to.qos.is_acknowledged())
    }

    /// Whether all queues take what they may, with what this lane has taken in this turn.
    fn is_queue_total_reached(&mut self) -> bool {
        let Some(total) = &self.shared.queue_total else { return false };
        if total.is_reached() {
            return true;
        }
        let is = self.queue_memory();
        if total.would_reach(is.wrapping_sub(self.queue_share.told)) {
            self.queue_share.tell(total, is);
        }
        total.is_reached()
    }

    /// Tells what this lane takes, at the end of a turn; who was held for the total is tried again
    /// when there is room.
    pub(super) fn heed_queue_total(&mut self, io: &mut Io<'_, D>) {
        let Some(total) = &self.shared.queue_total else { return };
        let is = self.queue_memory();
        let ends_ms = self.behind_grace(self.now_ms);
        let share = &mut self.queue_share;
        share.tell(total, is);
        let is_news = std::mem::take(&mut share.changed);
        let (changes, is_reached, taken) = (total.changes(), total.is_reached(), total.taken());
        if changes == share.seen {
            return;
        }
        share.seen = changes;
        share.next.clear();
        share.compared = false;
        total.set_first(self.lane, 0);
        share.next_ms = is_reached.then_some(ends_ms);
        if is_news {
            if let Some(untold) = share.told_line.tell(self.now_ms) {
                tell_change(is_reached, taken, untold);
            }
            self.tell_all(io, &|| Note::QueueTotal);
        }
        // There may have been room meanwhile, whatever there is now.
        self.holding.look_again();
        self.unpark(io);
    }

    /// Another lane has changed something: it may be this one's turn to end a session.
    pub(super) fn is_next_for_total(&mut self) {
        let is_next = |total: &QueueTotal| total.has_first(self.lane);
        if self.shared.queue_total.as_ref().is_some_and(is_next) {
            self.queue_share.is_next(self.now_ms);
        }
    }

    /// Ends sessions that are away when the bound was reached for the grace: one at a time of all
    /// lanes, the one that holds the most, until there is room.
    pub(super) fn relieve_queue_total(&mut self, io: &mut Io<'_, D>) {
        let is_due = |next_ms: Option<u64>, now_ms| next_ms.is_some_and(|next| next <= now_ms);
        for _ in 0..STEPS {
            if !is_due(self.queue_share.next_ms, self.now_ms) || self.journal.is_read_only() {
                return;
            }
            // There may be room by now.
            self.heed_queue_total(io);
            if is_due(self.queue_share.next_ms, self.now_ms) {
                self.queue_share.next_ms = self.end_for_total(io);
            }
        }
    }

    /// Ends one of them; returns when to look again.
    fn end_for_total(&mut self, io: &mut Io<'_, D>) -> Option<u64> {
        let held_up = Some(self.now_ms + HELD_UP_MS);
        let pending = |session| self.state.session(session).is_some();
        if self.queue_share.ending.is_some_and(pending) {
            return held_up;
        }
        let first = self.first_to_end();
        let Some(total) = &self.shared.queue_total else { return None };
        let (holds, session) = match first {
            Ok(first) => first,
            Err(next_ms) => {
                total.set_first(self.lane, 0);
                return Some(next_ms);
            }
        };
        total.set_first(self.lane, holds);
        if self.lanes > 1 && !std::mem::replace(&mut self.queue_share.compared, true) {
            return held_up;
        }
        if let Some(other) = total.goes_before(self.lane) {
            self.send_note(io, other, Note::QueueTotal, Class::Receipt);
            return held_up;
        }
        if !total.is_reached() {
            // What another lane has ended has left room.
            return held_up;
        }
        if !self.end_full(io, session, ENDS) {
            return held_up;
        }
        self.queue_share.next.pop();
        self.queue_share.ending = Some(session).filter(|one| self.state.session(*one).is_some());
        Some(self.now_ms)
    }

    /// The session that would be ended first, with what it holds; or when there may be one.
    fn first_to_end(&mut self) -> Result<(u64, SessionNumber), u64> {
        if let Some(known) = self.first_known() {
            return Ok(known);
        }
        let next_ms = self.find_next_to_end();
        self.first_known().ok_or(next_ms)
    }

    /// The first of those that were found, as far as they hold what they did then.
    fn first_known(&mut self) -> Option<(u64, SessionNumber)> {
        while let Some(&(holds, session)) = self.queue_share.next.last() {
            if self.away_since(session).is_some_and(|(_, now)| now == holds) {
                return Some((holds, session));
            }
            // It is found again if it still holds something.
            self.queue_share.next.pop();
        }
        None
    }

    /// Looks through the sessions of this lane; returns when to do so again if none is found.
    fn find_next_to_end(&mut self) -> u64 {
        let mut found = Vec::new();
        // Who goes away from now on may not be ended before.
        let mut next_ms = self.behind_grace(self.now_ms);
        for session in self.state.sessions().map(zzq_engine::Session::number) {
            let Some((since_ms, holds)) = self.away_since(session) else { continue };
            let ends_ms = self.behind_grace(since_ms);
            if ends_ms <= self.now_ms {
                found.push((holds, session));
            } else {
                next_ms = next_ms.min(ends_ms);
            }
        }
        let order = |one: &(u64, SessionNumber)| (one.0, Reverse(one.1));
        if let Some(over) = found.len().checked_sub(NEXT_MOST + 1) {
            found.select_nth_unstable_by_key(over, order);
            found.drain(..=over);
            found.shrink_to_fit();
        }
        found.sort_unstable_by_key(order);
        self.queue_share.next = found;
        next_ms.max(self.now_ms + PAUSE_MS)
    }

    /// Since when a session is away, and what would come free if it ended; `None` unless it holds
    /// something and may be ended.
    fn away_since(&self, session: SessionNumber) -> Option<(u64, u64)> {
        let known = self.state.session(session)?;
        let SessionLink::Down { since_ms } = known.link() else { return None };
        let Load { bytes, memory, .. } = known.queue().load();
        let holds = if self.journal.is_log() { memory } else { memory + bytes };
        let comes_or_ends = self.opening.contains_key(known.client()) || self.full.ends(session);
        (holds > 0 && !comes_or_ends).then_some((since_ms, holds))
    }
}

fn tell_change(is_reached: bool, taken: u64, untold: u64) {
    if is_reached {
        tracing::warn!(
            taken,
            untold,
            "the queues of all sessions take as much memory as they may: --max-queued-total; what \
             would go into one is refused or held until they take less"
        );
    } else {
        tracing::info!(taken, untold, "the queues of all sessions are below --max-queued-total");
    }
}
