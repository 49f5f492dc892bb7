//! What the passing of time asks for: wills, ends of sessions, expired messages.
//!
//! Assumes: what is due stays due in the state until its record is applied, so what was handed
//! over is remembered until then.

use zzq_engine::record::{
    Closing, ExpiredTopic, ExpiredTopics, ExpiredTopicsBuf, RangeSetsBuf, SessionEnd,
};
use zzq_engine::{Due, DueKind, QueueNumber, Record, SessionNumber};
use zzq_types::{Lsn, TopicName};
use zzq_wal::disk::Disk;

use super::journal::How;
use super::publish::{Handed, Outgoing};
use super::{Io, Shell};

/// Things done about time in one turn.
const STEPS: usize = 256;

/// What is due and finds no room, in the log or in a queue, is tried again after this time.
const HELD_UP_MS: u64 = 50;

/// How far a lane is with one kind of what is due, of which some found no room.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rest {
    /// Until when it rests; 0: it does not.
    until_ms: u64,
    /// So many that found none were tried since it began with the first, and the next are looked
    /// at: those behind them are not to wait for them.
    passed_by: usize,
}

impl<D: Disk> Shell<D> {
    /// Hands over what is due, and notes when to look again.
    pub(super) fn look_after_due(&mut self, io: &mut Io<'_, D>) {
        self.give_on_orphans(io);
        self.forget_sessions(io);
        if self.journal.is_read_only() {
            self.due_ms = u64::MAX;
            return;
        }
        let applied = self.applied;
        self.pending.retain(|_, handed| *handed > applied);
        let committed = self.journal.committed();
        self.given_on.retain(|_, given| given.handed > applied.min(committed));
        let goes_on = DueKind::ALL.map(|kind| self.see_to_kind(io, kind));
        self.due_ms = if goes_on.contains(&true) {
            self.now_ms
        } else if self.pending.is_empty() {
            self.next_due_ms()
        } else {
            // The turn that applies them looks again.
            let rests = self.rests.each_ref().map(|rest| rest.until_ms);
            rests.into_iter().filter(|until_ms| *until_ms > 0).min().unwrap_or(u64::MAX)
        };
    }

    /// When something is due next, if nothing is handed over.
    pub(super) fn next_due_ms(&self) -> u64 {
        let next = |kind: DueKind| {
            let next = self.state.next_deadline_of(kind)?;
            Some(next.max(self.rests[kind as usize].until_ms))
        };
        DueKind::ALL.into_iter().filter_map(next).min().unwrap_or(u64::MAX)
    }

    /// Hands over what is due of one kind, unless it rests. True: there may be more of it.
    fn see_to_kind(&mut self, io: &mut Io<'_, D>, kind: DueKind) -> bool {
        let (now_ms, Rest { until_ms, passed_by }) = (self.now_ms, self.rests[kind as usize]);
        if until_ms > now_ms {
            return false;
        }
        let is_free = |due: &&Due| !self.pending.contains_key(due);
        let due = self.state.due_of(kind, now_ms).filter(is_free);
        let due: Vec<Due> = due.skip(passed_by).take(STEPS).cloned().collect();
        let all = due.len() < STEPS;
        let mut held_up = 0;
        for due in due {
            if self.has_older_will(&due) || !self.see_to(io, &due) {
                held_up += 1;
            } else if self.journal.is_log() {
                self.pending.insert(due, self.journal.handed());
            }
        }
        self.rests[kind as usize] = Rest {
            until_ms: if held_up > 0 { now_ms + HELD_UP_MS } else { 0 },
            passed_by: if all { 0 } else { passed_by + held_up },
        };
        held_up == 0 && (!all || passed_by > 0)
    }

    /// The record that publishes a will names its session, not which will: apply takes the oldest.
    /// So they are handed over in their order, also when one of them has to wait.
    fn has_older_will(&self, due: &Due) -> bool {
        let Due::Will { session, lsn } = *due else { return false };
        let mut older = self.state.detached_wills_of(session).take_while(|older| *older < lsn);
        older.any(|lsn| !self.pending.contains_key(&Due::Will { session, lsn }))
    }

    /// False: there was no room, or it is not due any more once what is under way is applied.
    fn see_to(&mut self, io: &mut Io<'_, D>, due: &Due) -> bool {
        match due {
            Due::Will { session, lsn } => self.publish_will(io, *session, *lsn),
            Due::SessionEnd { session } => {
                let known = self.state.session(*session);
                if known.is_some_and(|known| self.opening.contains_key(known.client())) {
                    // Its client has come back in time.
                    return false;
                }
                let ended = self.end_session(io, *session, false);
                self.counts.expired_sessions += u64::from(ended);
                if ended && self.journal.is_log() {
                    // Its client may come back before that is applied: it waits then.
                    self.overlay.noted(*session, self.journal.handed());
                }
                ended
            }
            Due::Messages { session } => {
                if self.is_between(*session) || self.asks_for_queue(*session) {
                    return false;
                }
                let ranges = self.state.expired(*session, self.now_ms, QueueNumber::ZERO);
                let count: u64 = ranges.iter().map(|r| r.last.get() - r.first.get() + 1).sum();
                let mut sets = RangeSetsBuf::new();
                sets.push_ranges(*session, Closing::Expired, ranges);
                let put = self.put_expire(io, &sets, ExpiredTopics::EMPTY, true);
                self.counts.expired += if put { count } else { 0 };
                put
            }
            Due::Retained { topic } => {
                let Ok(name) = TopicName::new(topic) else { return true };
                let Some(retained) = self.state.retained().get(name) else { return true };
                let lsn = retained.lsn;
                self.leaves_nothing(name, lsn);
                let mut topics = ExpiredTopicsBuf::new();
                topics.push(&ExpiredTopic { topic: name, lsn });
                self.put_expire(io, &RangeSetsBuf::new(), topics.as_list(), true)
            }
        }
    }

    /// Publishes a will that is due.
    //= MQTT311-3.1.2-8
    //= MQTT311-3.1.2-16
    //= MQTT311-3.1.2-17
    //= MQTT5-3.1.2-8
    //= MQTT5-3.1.2-14
    //= MQTT5-3.1.2-15
    fn publish_will(&mut self, io: &mut Io<'_, D>, session: SessionNumber, lsn: Lsn) -> bool {
        let Some(will) = self.wills.get(lsn).cloned() else {
            tracing::error!(%session, %lsn, "the message of a will is not there");
            return true;
        };
        let content = will.content();
        let outgoing = Outgoing {
            publisher: None,
            client_hash: 0,
            qos: will.qos(),
            inbound: None,
            will_of: Some(session),
            retain: will.retain(),
            topic: content.topic,
            properties: content.properties,
            payload: content.payload,
            logged: true,
            refusable: false,
        };
        match self.send_off(io, outgoing) {
            Handed::Over { .. } => true,
            Handed::Later | Handed::Hold => false,
            Handed::Full
            | Handed::QueuesFull
            | Handed::NoSpace
            | Handed::NoRetained
            | Handed::LogEnded => {
                // Once, however often it is tried.
                self.counts.refused_quota += u64::from(self.wills.refuse(lsn));
                false
            }
        }
    }

    pub(super) fn end_session(
        &mut self,
        io: &mut Io<'_, D>,
        session: SessionNumber,
        forget: bool,
    ) -> bool {
        let record = Record::SessionEnd(SessionEnd { session, forget });
        let how = How { waits: false, lanes: self.bit(), frees: true };
        self.put(io, &record, true, how)
    }

    /// A session of this lane has ended: nobody routes to it any more.
    pub(super) fn forget_session(&mut self, io: &mut Io<'_, D>, session: SessionNumber) {
        self.index.remove_session(session);
        self.ending.remove(&session);
        self.full.forget(session);
        self.queue_share.forget(session, self.now_ms);
        self.queue_reads.forget(session);
        self.ended_everywhere(io, session);
    }
}
