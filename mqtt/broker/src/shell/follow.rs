//! The tail of the log becomes state, and state becomes deliveries. Records that are not logged
//! take the same way, applied where they were made.
//!
//! Assumes: records come in the order of the log. A message goes out early only if the record
//! allows it and nothing is owed to its receiver before; everything else is left to the pump.

use std::collections::VecDeque;

use zzq_engine::record::Publish as PublishRecord;
use zzq_engine::{Effect, Effects, Handed, QueueNumber, Record, SessionNumber};
use zzq_lanes::LaneIndex;
use zzq_types::{Lsn, QoS, SubscriptionId};
use zzq_wal::disk::Disk;

use super::journal::{How, Journal};
use super::link::Waits;
use super::live::Made;
use super::message::Message;
use super::rights::may_receive;
use super::wills::HeldWill;
use super::wire::{Content, Ids};
use super::{Io, Shell};
use crate::hooks::Answer;
use crate::options::DeliverPolicy;
use crate::planted::{self, Bug};

/// Deliveries that wait for a commit, in the order of the log.
#[derive(Debug, Default)]
pub(super) struct Later(VecDeque<(Lsn, Wait)>);

#[derive(Debug)]
enum Wait {
    /// A session's queue goes on.
    Pump(SessionNumber),
    /// A message goes out at QoS 0.
    Deliver0 {
        session: SessionNumber,
        retain: bool,
        ids: Box<[SubscriptionId]>,
        message: Message,
        place: Option<Lsn>,
    },
}

impl Later {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The first record that something waits for.
    pub(super) fn first(&self) -> Option<Lsn> {
        self.0.front().map(|(lsn, _)| *lsn)
    }

    /// A session's queue goes on when `lsn` is committed.
    pub(super) fn pump(&mut self, lsn: Lsn, session: SessionNumber) {
        self.push(lsn, Wait::Pump(session));
    }

    fn push(&mut self, lsn: Lsn, wait: Wait) {
        // A pump may ask for a record that is older than the newest here.
        let at = self.0.partition_point(|(before, _)| *before <= lsn);
        self.0.insert(at, (lsn, wait));
    }

    fn pop(&mut self, committed: Lsn) -> Option<Wait> {
        self.0.pop_front_if(|(lsn, _)| *lsn <= committed).map(|(_, wait)| wait)
    }
}

/// What one record's effects add up to.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    queued: Vec<(SessionNumber, QueueNumber)>,
    deliver0: Vec<Delivery0>,
    released: Vec<Lsn>,
    late: Vec<Lsn>,
    ended: Vec<SessionNumber>,
    orphans: Vec<SessionNumber>,
    /// Messages that ended sessions have: those of a publish or a late decision are new to them.
    orphaned: Vec<Lsn>,
    retained: bool,
    /// Topics that have no retained message any more.
    cleared: Vec<Box<str>>,
    /// These are asked for.
    pub(super) tells_cleared: bool,
    will: bool,
}

/// A message goes out at QoS 0.
#[derive(Debug)]
pub(super) struct Delivery0 {
    pub(super) session: SessionNumber,
    /// The record that holds it.
    pub(super) lsn: Lsn,
    /// How much it weighs.
    pub(super) size: u32,
    pub(super) retain: bool,
    /// It is sent with its place in the log.
    pub(super) placed: bool,
    pub(super) ids: Vec<SubscriptionId>,
}

impl Gathered {
    fn clear(&mut self) {
        self.queued.clear();
        self.deliver0.clear();
        self.released.clear();
        self.late.clear();
        self.ended.clear();
        self.orphans.clear();
        self.orphaned.clear();
        self.retained = false;
        self.cleared.clear();
        self.will = false;
    }
}

impl Effects for Gathered {
    fn emit(&mut self, effect: Effect<'_>) {
        match effect {
            Effect::Queued { session, number, lsn, late, .. } => {
                self.queued.push((session, number));
                if late {
                    self.late.push(lsn);
                }
            }
            Effect::Deliver0 { session, lsn, size, retain, placed, ids } => {
                let ids = ids.into_iter().collect();
                self.deliver0.push(Delivery0 { session, lsn, size, retain, placed, ids });
            }
            Effect::Released { lsn } => self.released.push(lsn),
            Effect::SessionEnded { session, .. } => self.ended.push(session),
            Effect::Orphaned { session, lsn, .. } => {
                self.orphans.push(session);
                self.orphaned.push(lsn);
            }
            Effect::OrphansReady { session } => self.orphans.push(session),
            Effect::RetainedSet { .. } => self.retained = true,
            Effect::RetainedRemoved { topic } if self.tells_cleared => {
                self.cleared.push(topic.into());
            }
            Effect::WillHeld { .. } => self.will = true,
            // What is due is looked up; the rest was known when the record was made.
            Effect::SessionOpened { .. }
            | Effect::SessionResumed { .. }
            | Effect::SessionDown { .. }
            | Effect::Subscribed { .. }
            | Effect::Unsubscribed { .. }
            | Effect::RetainedRemoved { .. }
            | Effect::WillDue { .. } => {}
        }
    }
}

impl<D: Disk> Shell<D> {
    /// Hands a record to the log, or applies it here and now if it is not `logged`. False: the log
    /// has no room or takes nothing more.
    pub(super) fn put(
        &mut self,
        io: &mut Io<'_, D>,
        record: &Record<'_>,
        logged: bool,
        how: How,
    ) -> bool {
        if !logged || !self.journal.is_log() {
            self.apply_now(io, record);
            return true;
        }
        let staged = self.journal.stage(record, how).is_ok();
        self.counts.records += u64::from(staged);
        self.wants_room |= !staged;
        staged
    }

    /// Applies a record that is not in the log.
    pub(super) fn apply_now(&mut self, io: &mut Io<'_, D>, record: &Record<'_>) {
        let lsn = self.journal.take_own();
        self.apply(io, lsn, self.now_ms, record);
    }

    /// Applies the groups of the tail; false if there was none.
    pub(super) fn follow(&mut self, io: &mut Io<'_, D>) -> bool {
        let mut any = false;
        while let Some(group) = self.journal.next_group() {
            any = true;
            let (own, bit) = (self.journal.producer(), self.bit());
            for record in planted::in_order(own, || group.records_for(bit)) {
                if record.lanes & bit == 0 {
                    continue;
                }
                let decoded = Record::decode(record.kind, record.body);
                assert!(decoded.is_ok(), "a record that was encoded here: {decoded:?}");
                let Ok(decoded) = decoded else { continue };
                let handed = Handed::new(record.handed.get());
                // Each lane is a producer, in their order.
                let made = Made { by: LaneIndex(record.producer), handed };
                let lsn = Lsn::new(record.lsn.get());
                self.apply_made(io, lsn, record.time_ms, &decoded, made);
                if own == Some(record.producer) {
                    self.applied = handed;
                    self.overlay.seen_applied(self.applied);
                }
            }
            // Each lane follows all of them: one tells.
            self.counts.groups += u64::from(self.lane.0 == 0);
            self.followed = Lsn::new(group.last_lsn().get());
        }
        any
    }

    pub(super) fn apply(
        &mut self,
        io: &mut Io<'_, D>,
        lsn: Lsn,
        time_ms: u64,
        record: &Record<'_>,
    ) {
        let made = Made::unlogged(self.lane, lsn);
        self.apply_made(io, lsn, time_ms, record, made);
    }

    /// Applies a record of the log, or one that no log has, by the lane that has made it.
    pub(super) fn apply_made(
        &mut self,
        io: &mut Io<'_, D>,
        lsn: Lsn,
        time_ms: u64,
        record: &Record<'_>,
        made: Made,
    ) {
        let mut gathered = std::mem::take(&mut self.gathered);
        gathered.clear();
        if let Record::SessionEnd(end) = record {
            self.count_ended(end.session);
        }
        if Journal::<D>::is_own(lsn) {
            self.apply_own(lsn, time_ms, record, &mut gathered);
        } else {
            self.state.apply(lsn, time_ms, record, &mut gathered);
        }
        if let Record::Publish(publish) = record {
            if !Journal::<D>::is_own(lsn) && self.goes_directly(publish) {
                // To who is told places it comes by way of the log alone.
                let directly = gathered.deliver0.extract_if(.., |to| !to.placed);
                let sessions = directly.map(|to| to.session);
                self.live.came_by_log(made, publish.topic.as_str(), lsn, sessions);
            }
            self.deliver(io, (lsn, made), time_ms, publish, &gathered);
        } else {
            let is_late = matches!(record, Record::LateDecision(_));
            let adopted = gathered.orphaned.iter().filter(|_| is_late);
            for lsn in gathered.late.iter().chain(adopted) {
                self.refer(*lsn);
            }
            if gathered.will
                && let Some(will) = HeldWill::of(record)
            {
                self.wills.insert(lsn, will);
            }
            self.pump_queued(io, &gathered);
            for delivery in gathered.deliver0.drain(..) {
                self.give_at_qos_0(io, lsn, delivery);
            }
        }
        for lsn in &gathered.released {
            self.store.release(*lsn);
            self.wills.remove(*lsn);
        }
        for session in &gathered.ended {
            self.forget_session(io, *session);
        }
        for topic in &gathered.cleared {
            self.retained_is_now(topic);
        }
        if gathered.retained
            && let Record::Publish(publish) = record
        {
            self.retained_is_now(publish.topic.as_str());
        }
        self.orphaned.extend(gathered.orphans.iter().copied());
        if matches!(record, Record::Start(_)) {
            // Nothing that was handed over before the start comes for who had ended by then.
            let before =
                gathered.orphans.iter().filter(|session| !gathered.ended.contains(session));
            self.forgettable.extend(before);
        }
        self.gathered = gathered;
    }

    /// Applies a record that no log has: it does not retain what a later one has replaced.
    fn apply_own(&mut self, lsn: Lsn, time_ms: u64, record: &Record<'_>, gathered: &mut Gathered) {
        match record {
            Record::Publish(publish) if publish.retain && self.is_overtaken(lsn, publish) => {
                let record = Record::Publish(PublishRecord { retain: false, ..*publish });
                self.state.apply_unlogged(lsn, time_ms, &record, gathered);
                self.retained_is_now(publish.topic.as_str());
            }
            Record::Publish(publish) if publish.retain && publish.payload.is_empty() => {
                self.state.apply_unlogged(lsn, time_ms, record, gathered);
                self.leaves_nothing(publish.topic, lsn);
            }
            _ => self.state.apply_unlogged(lsn, time_ms, record, gathered),
        }
    }

    fn pump_queued(&mut self, io: &mut Io<'_, D>, gathered: &Gathered) {
        for (session, _) in &gathered.queued {
            self.check_full(io, *session);
            self.pump_session(io, *session);
        }
    }

    /// Whether receivers may have a message before it is committed.
    fn may_go_early(&self, publish: &PublishRecord<'_>) -> bool {
        !self.journal.is_log()
            || (publish.qos != QoS::ExactlyOnce
                && publish.will_of.is_none()
                && self.shared.options.deliver == DeliverPolicy::Early
                && !self.journal.is_read_only())
    }

    /// Brings a message that was just applied to its receivers on this lane.
    fn deliver(
        &mut self,
        io: &mut Io<'_, D>,
        (lsn, made): (Lsn, Made),
        time_ms: u64,
        publish: &PublishRecord<'_>,
        gathered: &Gathered,
    ) {
        let content = Content::of(publish, time_ms);
        let early = Journal::<D>::is_own(lsn) || self.may_go_early(publish);
        let progress = self.progress();
        let mut copy = None;
        self.wire.begin(gathered.deliver0.len() + gathered.queued.len());
        for Delivery0 { session, retain, placed, ids, .. } in &gathered.deliver0 {
            let place = Some(lsn).filter(|lsn| *placed && !Journal::<D>::is_own(*lsn));
            if publish.retain {
                let topic = publish.topic.as_str();
                self.live.saw_live(*session, topic, lsn, made);
            }
            if place.is_none() && (early || planted::is(Bug::EarlyAtQos0)) {
                let own = publish.publisher == Some(*session);
                self.deliver0(io, *session, content, *retain, Ids::List(ids), own);
            } else {
                let message = copy.get_or_insert_with(|| Message::copy(content)).clone();
                let (session, ids) = (*session, ids.as_slice().into());
                let wait = Wait::Deliver0 { session, retain: *retain, ids, message, place };
                self.later.push(lsn, wait);
            }
        }
        // What no log has is kept as long as anybody refers to it.
        let own = Journal::<D>::is_own(lsn);
        let adopted = gathered.orphaned.len();
        let mut needed = own && (gathered.retained || adopted > 0);
        let mut soon = false;
        for (session, number) in &gathered.queued {
            if publish.retain {
                let topic = publish.topic.as_str();
                self.live.saw_live(*session, topic, lsn, made);
            }
            let conn = self.up.get(session).copied();
            let sent = early
                && conn.is_some_and(|conn| self.send_at_hand(io, conn, *number, content, progress));
            soon |= conn.is_some() && !sent;
            needed |= own && !(sent && self.is_fleeting(*session, *number));
            self.check_full(io, *session);
        }
        let references = gathered.queued.len() + adopted + usize::from(gathered.retained);
        let weight = usize::try_from(publish.size()).unwrap_or(usize::MAX);
        // A log has it too, but memory is nearer.
        let handy = (soon || gathered.retained) && self.store.has_room(weight);
        if references > 0 && (needed || handy) {
            let message = copy.unwrap_or_else(|| Message::copy(content));
            self.store.keep(lsn, message, u32::try_from(references).unwrap_or(u32::MAX));
        }
        if soon {
            for (session, _) in &gathered.queued {
                self.pump_session(io, *session);
            }
        }
    }

    /// Whether a message that was sent is needed no more: nobody else gets it if its receiver goes.
    pub(super) fn is_fleeting(&self, session: SessionNumber, number: QueueNumber) -> bool {
        let known = self.state.session(session);
        known.is_some_and(|known| known.is_volatile() && known.queue().pick(number).is_none())
    }

    /// Sends at QoS 0 to one of many. What comes from the receiver's own client, `own`, or from the
    /// broker holds nobody, so it is dropped as soon as the output is full.
    pub(super) fn deliver0(
        &mut self,
        io: &mut Io<'_, D>,
        session: SessionNumber,
        content: Content<'_>,
        retain: bool,
        ids: Ids<'_>,
        own: bool,
    ) {
        let Some(&conn) = self.up.get(&session) else { return };
        let Some(link) = self.links.up_mut(conn) else { return };
        if (own || link.slow) && self.clogged.contains(conn) {
            self.counts.dropped_slow += 1;
            return;
        }
        if self.receiving.bytes(conn) > 0 {
            return self.send0_later(io, conn, (content, retain, ids), None);
        }
        let authoriser = self.shared.hooks.authoriser.as_deref();
        match may_receive(authoriser, link.who.as_ref(), content.topic, QoS::AtMostOnce) {
            Answer::Now(true) => self.send0(io, conn, content, retain, ids),
            Answer::Now(false) => self.counts.dropped_denied += 1,
            answer => self.send0_later(io, conn, (content, retain, ids), Some(answer)),
        }
    }

    /// Sends what waited for a commit that has come.
    pub(super) fn send_later(&mut self, io: &mut Io<'_, D>) {
        if self.later.is_empty() {
            return;
        }
        let committed = self.journal.committed_lsn();
        // On a log that fails meanwhile the pump waits for the same commit again.
        while !self.journal.is_read_only()
            && let Some(wait) = self.later.pop(committed)
        {
            match wait {
                Wait::Pump(session) => {
                    if let Some(&conn) = self.up.get(&session) {
                        self.has_come(io, conn, Waits::Commit);
                    }
                }
                Wait::Deliver0 { session, retain, ids, message, place } => {
                    self.wire.begin(1);
                    let (ids, content) = (Ids::List(&ids), Content { place, ..message.content() });
                    self.deliver0(io, session, content, retain, ids, false);
                }
            }
        }
    }
}
