//! Messages that ended members leave to their groups.
//!
//! Assumes: an orphan stays one until a record that gives it on is applied, and no image has its
//! new place before that is committed, so what was handed over is remembered until then. To a
//! member at QoS 0 a message goes once, and only when no start can give it on again: behind the
//! commit of that record.

use std::collections::VecDeque;

use zzq_engine::record::{Closing, Expire, ExpiredTopics, NumberRange, Orphan, RangeSetsBuf};
use zzq_engine::{DecisionBuf, Handed, Picked, Record, SessionNumber};
use zzq_lanes::{Class, LaneIndex};
use zzq_types::{Filter, Lsn, Properties, PropertiesBuf, Property};
use zzq_wal::disk::Disk;

use super::direct::{Manner, Number};
use super::follow::Delivery0;
use super::journal::{How, Journal};
use super::message::Message;
use super::put::Late;
use super::wire::{Content, Ids};
use super::{Io, Shell};
use crate::planted::{self, Bug};
use crate::standing::Needed;

/// A message that is given on by what was handed over.
#[derive(Clone, Copy, Debug)]
pub(super) struct GivenOn {
    pub(super) handed: Handed,
    /// Its record, and its weight.
    pub(super) needed: Needed,
}

/// Messages that go to their new members at QoS 0, in the order of the records that give them.
#[derive(Debug, Default)]
pub(super) struct GoingOn(VecDeque<Going>);

#[derive(Debug)]
struct Going {
    /// The record that gives it.
    given: Lsn,
    delivery: Delivery0,
    /// If it was in memory then.
    message: Option<Message>,
}

/// The properties of a message that has waited: what is left of its time counts from now.
fn with_expiry<'a>(
    from: Properties<'a>,
    expires_ms: u64,
    now_ms: u64,
    out: &'a mut PropertiesBuf,
) -> Properties<'a> {
    for (property, encoded) in from.iter_encoded() {
        if !matches!(property, Property::MessageExpiry(_)) {
            out.push_encoded(encoded);
        }
    }
    let left = u32::try_from(expires_ms.saturating_sub(now_ms) / 1000).unwrap_or(u32::MAX);
    let pushed = out.push(Property::MessageExpiry(left));
    assert!(pushed.is_ok(), "it had as many properties before");
    out.as_properties()
}

impl GoingOn {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The records of all of them, and their weights.
    pub(super) fn needed(&self) -> impl Iterator<Item = Needed> {
        self.0.iter().map(|going| (going.delivery.lsn, going.delivery.size))
    }

    /// The first record that something waits for.
    pub(super) fn first(&self) -> Option<Lsn> {
        self.0.front().map(|going| going.given)
    }
}

impl<D: Disk> Shell<D> {
    /// Gives the messages that ended members left to other members of their groups.
    //= MQTT5-4.8.2-5
    pub(super) fn give_on_orphans(&mut self, io: &mut Io<'_, D>) {
        if self.orphaned.is_empty() || planted::is(Bug::OrphansKept) {
            return;
        }
        let mut orphaned = std::mem::take(&mut self.orphaned);
        orphaned.sort_unstable();
        orphaned.dedup();
        for session in orphaned {
            if !self.give_on(io, session) {
                self.orphaned.push(session);
            }
        }
    }

    /// Forgets ended sessions that nothing is under way for, with what no member is left for.
    pub(super) fn forget_sessions(&mut self, io: &mut Io<'_, D>) {
        for session in std::mem::take(&mut self.forgettable) {
            let Some(ended) = self.state.ended(session) else { continue };
            let index = &self.index;
            let is_wanted =
                |filter: &str| Filter::new(filter).is_ok_and(|filter| index.has_members(filter));
            if ended.orphans().any(|(_, _, filter)| is_wanted(filter)) {
                self.orphaned.push(session);
                self.forgettable.push(session);
            } else if !self.end_session(io, session, true) {
                self.forgettable.push(session);
            }
        }
    }

    /// False: to be tried again.
    fn give_on(&mut self, io: &mut Io<'_, D>, session: SessionNumber) -> bool {
        let Some(ended) = self.state.ended(session) else { return true };
        let orphans: Vec<_> = ended
            .orphans()
            .map(|(number, orphan, filter)| (number, *orphan, filter.to_owned()))
            .collect();
        for (number, orphan, filter) in orphans {
            let orphan_of = Orphan { session, number };
            if self.given_on.contains_key(&orphan_of) {
                continue;
            }
            let Ok(filter) = Filter::new(&filter) else { continue };
            let Some(picked) = self.index.pick(filter, orphan.qos) else {
                // Nobody is left in the group: its messages end with it.
                continue;
            };
            if !self.give_one_on(io, orphan_of, &orphan, &picked) {
                return false;
            }
        }
        true
    }

    fn give_one_on(
        &mut self,
        io: &mut Io<'_, D>,
        from: Orphan,
        orphan: &zzq_engine::OrphanMessage,
        picked: &Picked,
    ) -> bool {
        // In memory the shard of another lane is not reached by a record.
        if !self.journal.is_log() && picked.lane != self.lane.0 {
            return self.give_on_across(io, from, orphan.lsn, picked);
        }
        if self.journal.is_log() && Journal::<D>::is_own(orphan.lsn) {
            return self.log_and_give_on(io, from, orphan.lsn, picked);
        }
        let late = Late {
            lsn: orphan.lsn,
            qos: picked.qos,
            retain: false,
            size: orphan.size,
            expires_ms: orphan.expires_ms,
            moved: Some((picked.sub, from)),
            id: picked.id,
        };
        let how = How { waits: true, lanes: self.bit() | 1 << picked.lane, frees: true };
        // The lane's own reference: the message leaves one queue and enters another.
        self.store.refer(orphan.lsn);
        let put = self.put_late(io, picked.session, late, true, how);
        self.store.release(orphan.lsn);
        if put && self.journal.is_log() {
            let (handed, needed) = (self.journal.handed(), (orphan.lsn, orphan.size));
            self.given_on.insert(from, GivenOn { handed, needed });
        }
        put
    }

    /// With `--log needed`: a message that no log has, since nobody who outlives a crash was to get
    /// it, may go to one who does. So it gets a record of its own.
    fn log_and_give_on(
        &mut self,
        io: &mut Io<'_, D>,
        from: Orphan,
        lsn: Lsn,
        picked: &Picked,
    ) -> bool {
        let Some(message) = self.store.get(lsn).cloned() else { return true };
        let content = message.content();
        let mut decision = DecisionBuf::new();
        decision.push(picked.session, picked.qos, false, Some(picked.sub), picked.id);
        let mut left = PropertiesBuf::new();
        let properties = match content.expires_ms {
            Some(expires_ms) => with_expiry(content.properties, expires_ms, self.now_ms, &mut left),
            None => content.properties,
        };
        let content = Content { properties, ..content };
        let record = Record::Publish(content.record(picked.qos, decision.as_decision()));
        let how = How { waits: true, lanes: self.bit() | 1 << picked.lane, frees: true };
        if !self.put(io, &record, true, how) {
            return false;
        }
        let mut sets = RangeSetsBuf::new();
        sets.push_ranges(from.session, Closing::Dropped, [NumberRange::one(from.number)]);
        let expire = Expire { sets: sets.as_list(), topics: ExpiredTopics::EMPTY };
        self.put(io, &Record::Expire(expire), false, how)
    }

    /// In memory: the message itself goes to the member's lane, and leaves here.
    fn give_on_across(
        &mut self,
        io: &mut Io<'_, D>,
        from: Orphan,
        lsn: Lsn,
        picked: &Picked,
    ) -> bool {
        // Others wait for their rings: all that a session leaves would wait here.
        if self.is_held_up() {
            return false;
        }
        let Some(message) = self.store.get(lsn).cloned() else { return true };
        let qos = picked.qos;
        let mut decision = DecisionBuf::new();
        decision.push(picked.session, qos, false, Some(picked.sub), picked.id);
        // The member's lane may have the message under its own number already, for others.
        let number = Number::Own(self.journal.take_own());
        let (manner, decision) = (Manner { number, qos, retain: false }, decision.as_decision());
        let direct = self.directs.message(manner, decision, message.content());
        let to = LaneIndex(picked.lane);
        self.send_direct_to(io, to, direct, Class::Receipt);
        let mut sets = RangeSetsBuf::new();
        sets.push_ranges(from.session, Closing::Dropped, [NumberRange::one(from.number)]);
        self.put_expire(io, &sets, ExpiredTopics::EMPTY, true)
    }

    /// A record gives a message on to a session of this lane that takes it at QoS 0.
    //= MQTT5-3.8.4-8
    pub(super) fn give_at_qos_0(&mut self, io: &mut Io<'_, D>, given: Lsn, delivery: Delivery0) {
        let message = self.store.get(delivery.lsn).cloned();
        self.going_on.0.push_back(Going { given, delivery, message });
        if Journal::<D>::is_own(given) {
            self.go_on_at_qos_0(io);
        }
    }

    /// Sends what was given on at QoS 0 by records that are committed, and asks for what is not in
    /// memory.
    pub(super) fn go_on_at_qos_0(&mut self, io: &mut Io<'_, D>) {
        let committed = self.journal.committed_lsn();
        while let Some(going) = self.going_on.0.front() {
            let is_own = Journal::<D>::is_own(going.given);
            if !is_own && (going.given > committed || self.journal.is_read_only()) {
                return;
            }
            let lsn = going.delivery.lsn;
            let conn = self.up.get(&going.delivery.session).copied();
            let message = going.message.clone().or_else(|| self.fetched.remove(&lsn));
            match (message, conn) {
                (None, Some(conn)) if self.fetch.is_some() && !Journal::<D>::is_own(lsn) => {
                    if self.wanted.insert(lsn) {
                        self.request(conn, vec![lsn]);
                    }
                    return;
                }
                (Some(message), Some(_)) => {
                    let Delivery0 { session, retain, ref ids, .. } = going.delivery;
                    let ids = ids.clone();
                    self.wire.begin(1);
                    self.deliver0(io, session, message.content(), retain, Ids::List(&ids), false);
                }
                // Its connection is gone: so is what goes at QoS 0.
                _ => {}
            }
            self.wanted.remove(&lsn);
            self.going_on.0.pop_front();
        }
    }
}
