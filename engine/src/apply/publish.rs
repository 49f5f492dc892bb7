//! Publish: the identifier, the retained message, and the destinations of a decision.

use zzq_types::{Lsn, QoS, TopicName};

use crate::counters::Ignored;
use crate::deadline::Due;
use crate::decision::Destination;
use crate::effect::{Effect, Effects};
use crate::group::OrphanMessage;
use crate::number::SessionNumber;
use crate::record::Publish;
use crate::retained::Retained;
use crate::session::{Extra, Incoming, Link};
use crate::state::State;

use super::release;

/// What all destinations of one record share.
#[derive(Clone, Copy)]
pub(super) struct Message {
    pub(super) lsn: Lsn,
    pub(super) size: u32,
    pub(super) expires_ms: Option<u64>,
    /// The record of the late decision, if one brings it.
    pub(super) late: Option<Lsn>,
}

impl State {
    //= MQTT5-4.3.3-10
    //= MQTT5-4.5.0-1
    //= MQTT311-4.3.3-2
    //= MQTT311-4.5.0-1
    pub(super) fn publish(
        &mut self,
        lsn: Lsn,
        time_ms: u64,
        publish: &Publish<'_>,
        effects: &mut impl Effects,
    ) {
        if let (Some(publisher), Some(id)) = (publish.publisher, publish.inbound)
            && let Some(session) = self.sessions.get_mut(&publisher)
            && !session.inbound.open(id)
        {
            self.counters.add(Ignored::RepeatedPublish, 1);
            return;
        }
        if let Some(session) = publish.will_of {
            self.will_published(session, effects);
        }
        let expires_ms = publish.expires_ms(time_ms);
        let message = Message { lsn, size: publish.size(), expires_ms, late: None };
        if publish.retain {
            self.retain(lsn, time_ms, publish, effects);
        }
        for to in publish.decision {
            self.deliver(message, to, effects);
        }
    }

    /// A will has been published: it is held no more.
    //= MQTT5-3.1.2-10
    //= MQTT311-3.1.2-10
    fn will_published(&mut self, session: SessionNumber, effects: &mut impl Effects) {
        let oldest = self.detached_wills_of(session).next();
        if let Some(lsn) = oldest
            && let Some(will) = self.wills.remove(&(session, lsn))
        {
            self.deadlines.unset(will.due_ms, Due::Will { session, lsn });
            return release(effects, lsn);
        }
        let taken = self.change(session, |session, counters| {
            if session.will.as_ref().is_some_and(|will| will.due_ms.is_some()) {
                return session.will.take();
            }
            counters.add(Ignored::UnknownWill, 1);
            None
        });
        self.count_unknown(taken.is_some());
        if let Some(Some(will)) = taken {
            release(effects, will.lsn);
        }
    }

    //= MQTT311-3.3.1-10
    //= MQTT311-3.3.1-11
    //= MQTT311-3.3.1-12
    //= MQTT311-3.3.1-5
    //= MQTT5-3.3.1-5
    //= MQTT5-3.3.1-6
    //= MQTT5-3.3.1-7
    //= MQTT5-3.3.1-8
    fn retain(
        &mut self,
        lsn: Lsn,
        time_ms: u64,
        publish: &Publish<'_>,
        effects: &mut impl Effects,
    ) {
        let topic = publish.topic;
        if !self.owns_topic(topic.as_str()) {
            return;
        }
        if publish.payload.is_empty() {
            self.unretain(topic, effects);
            return;
        }
        let expiry = publish.expiry_s();
        let qos = publish.qos;
        let topic_len = u32::try_from(topic.as_str().len()).unwrap_or(u32::MAX);
        let size = publish.size().saturating_sub(topic_len);
        effects.emit(Effect::RetainedSet { topic: topic.as_str(), lsn });
        if let Some(old) = self.set_retained(topic, Retained { lsn, time_ms, expiry, qos, size }) {
            release(effects, old.lsn);
        }
    }

    /// Removes a topic's retained message; `false` if it has none.
    pub(super) fn unretain(&mut self, topic: TopicName<'_>, effects: &mut impl Effects) -> bool {
        let Some(old) = self.remove_retained(topic) else { return false };
        effects.emit(Effect::RetainedRemoved { topic: topic.as_str() });
        release(effects, old.lsn);
        true
    }

    /// Brings a message to one destination of a decision.
    //= MQTT311-3.1.2-5
    pub(super) fn deliver(
        &mut self,
        message: Message,
        to: Destination<'_>,
        effects: &mut impl Effects,
    ) {
        let Message { lsn, size, late, .. } = message;
        let Destination { session, qos, retain, pick, ids } = to;
        let is_late = late.is_some();
        let replay = pick.and_then(|pick| self.sessions.get_mut(&session)?.replay_mut(pick));
        let placed = replay.is_some();
        if let Some(replay) = replay
            && !is_late
        {
            // What the log does not have is no history, and has no place.
            let meets = if lsn == self.applied { replay.meets(lsn) } else { replay.is_live };
            if !meets {
                return;
            }
        }
        // Its queue needs to know that, not by which subscription.
        let to = if placed { Destination { pick: None, ..to } } else { to };
        if qos == QoS::AtMostOnce {
            match self.sessions.get(&session) {
                Some(found) if found.link == Link::Up => {
                    effects.emit(Effect::Deliver0 { session, lsn, size, retain, placed, ids });
                }
                Some(_) => {}
                None => self.count_unknown(false),
            }
            return;
        }
        match self.change_queue(session, |queue, _| queue.push(incoming(message, to, placed))) {
            Some(Some(number)) => {
                effects.emit(Effect::Queued { session, number, lsn, qos, late: is_late });
            }
            Some(None) => self.counters.add(Ignored::OutOfNumbers, 1),
            None => self.deliver_to_ended(message, to, effects),
        }
    }

    /// The session has ended. Its groups keep what was picked for it.
    fn deliver_to_ended(
        &mut self,
        message: Message,
        to: Destination<'_>,
        effects: &mut impl Effects,
    ) {
        let Message { lsn, size, expires_ms, .. } = message;
        let adopted = match (to.pick, self.ended.get_mut(&to.session)) {
            (Some(pick), Some(ended)) => {
                ended.adopt(OrphanMessage { lsn, pick, qos: to.qos, size, expires_ms })
            }
            _ => None,
        };
        match adopted {
            Some(number) => effects.emit(Effect::Orphaned { session: to.session, number, lsn }),
            None => self.count_unknown(false),
        }
    }
}

/// An entry to be: without an extra, and so without an allocation, for most.
pub(super) fn incoming(message: Message, to: Destination<'_>, placed: bool) -> Incoming {
    let Message { lsn, size, expires_ms, late } = message;
    let plain = to.ids.is_empty() && to.pick.is_none() && expires_ms.is_none();
    let extra = || Extra { ids: to.ids.as_bytes().into(), pick: to.pick, expires_ms };
    let extra = (!plain).then(extra);
    Incoming { lsn, qos: to.qos, retain: to.retain, size, late, placed, extra }
}
