//! PUBLISH from a client: the rules, the decision, the hand-over.

use zzq_codec::{AckKind, Delivery, Publish};
use zzq_engine::record::Publish as PublishRecord;
use zzq_engine::{DecisionBuf, Publication, Record, Routed, SessionFlags, SessionNumber};
use zzq_lanes::ConnId;
use zzq_types::{
    PacketId, Properties, PropertiesBuf, Property, PropertyId, QoS, ReasonCode, TopicName,
};
use zzq_wal::disk::Disk;

use super::answers::Answer;
use super::journal::How;
use super::live::Made;
use super::questions::Publishable;
use super::why::Denied;
use super::{Flow, Io, Shell};
use crate::hooks::{NoAnswer, Permit, Publishing};
use crate::options::{Limits, LogPolicy, QueueFull};
use crate::planted::{self, Bug};

/// A message as it is to be routed and recorded.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outgoing<'a> {
    pub(super) publisher: Option<SessionNumber>,
    /// Of its client: see [`Publication`].
    pub(super) client_hash: u32,
    pub(super) qos: QoS,
    /// The publisher's identifier, at QoS 2.
    pub(super) inbound: Option<PacketId>,
    pub(super) will_of: Option<SessionNumber>,
    pub(super) retain: bool,
    pub(super) topic: TopicName<'a>,
    pub(super) properties: Properties<'a>,
    pub(super) payload: &'a [u8],
    /// The publisher's session is in the log, so what it opens must be.
    pub(super) logged: bool,
    /// Its publisher can be told that nobody takes it.
    pub(super) refusable: bool,
}

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Handed {
    /// It is on its way to so many sessions.
    Over { destinations: usize },
    /// Nothing was done; it is to be tried again.
    Later,
    /// Nothing was done; it is to be tried again when a receiver has room for output, or nobody
    /// waits for it any more.
    Hold,
    /// A queue is full: nothing was done.
    Full,
    /// All queues together take what they may: nothing was done.
    QueuesFull,
    /// The disk is full: nothing was done.
    NoSpace,
    /// No more is retained, and its publisher can be told: nothing was done.
    NoRetained,
    /// The log takes nothing more, or not this.
    LogEnded,
}

impl<D: Disk> Shell<D> {
    pub(super) fn publish(
        &mut self,
        io: &mut Io<'_, D>,
        conn: ConnId,
        publish: &Publish<'_>,
    ) -> Flow {
        self.publish_named(io, conn, publish, None)
    }

    /// The same; `named` is its topic if that was looked up when it came.
    pub(super) fn publish_named(
        &mut self,
        io: &mut Io<'_, D>,
        conn: ConnId,
        publish: &Publish<'_>,
        named: Option<TopicName<'_>>,
    ) -> Flow {
        let mut topic = std::mem::take(&mut self.topic);
        let mut properties = std::mem::take(&mut self.properties);
        let flow = self.publish_as(io, conn, (publish, named), &mut topic, &mut properties);
        self.topic = topic;
        self.properties = properties;
        let is_done = !matches!(flow, Flow::Again | Flow::Hold);
        if is_done
            && self.shared.hooks.authoriser.is_some()
            && let Some(link) = self.links.get_mut(conn)
        {
            link.publishable = Publishable::Unknown;
        }
        // One that is offered again counts when it is done with.
        if is_done {
            self.counts.publishes_in += 1;
            self.counts.payload_in += publish.payload.len() as u64;
        }
        flow
    }

    /// [`Shell::publish_named`] with memory for a topic behind an alias, and for properties without
    /// it.
    fn publish_as(
        &mut self,
        io: &mut Io<'_, D>,
        conn: ConnId,
        (publish, named): (&Publish<'_>, Option<TopicName<'_>>),
        topic: &mut String,
        forwarded: &mut PropertiesBuf,
    ) -> Flow {
        let name = match named {
            Some(name) => name,
            None => match self.topic_of(io, conn, publish, topic) {
                Ok(name) => name,
                Err(flow) => return flow,
            },
        };
        let Some(link) = self.links.up_mut(conn) else { return Flow::End };
        let refusable = link.is_v5();
        let (Some(session), logged) = (link.session, link.logged) else { return Flow::End };
        let client_hash = link.client_hash;
        let properties = forward(publish.properties, forwarded);
        if let Delivery::ExactlyOnce(id) = publish.delivery
            && self.is_open(session, id)
        {
            //= MQTT311-4.3.3-2
            //= MQTT5-4.3.3-10
            let reason = ReasonCode::Success;
            let answer = Answer::Ack { conn, kind: AckKind::PubRec, id, reason };
            if planted::is(Bug::RepeatAnsweredAtOnce) {
                self.give(io, answer);
            } else {
                self.answer(io, answer);
            }
            return Flow::Next;
        }
        //= MQTT5-4.3.2-5
        // At QoS 1 nothing is known of an identifier that was acknowledged.
        if let Some((reason, why)) = self.not_offered(publish.delivery.qos(), publish.retain) {
            return self.refuse(io, conn, reason, why);
        }
        if let Some(flow) = self.count_inbound(io, conn, publish.delivery) {
            return flow;
        }
        if let Some(denied) = self.unwelcome(name) {
            self.counts.refused_topics += 1;
            return self.turn_down(io, conn, publish.delivery, denied);
        }
        if self.misrepresents(publish.properties, publish.payload) {
            self.counts.refused_payloads += 1;
            return self.turn_down(io, conn, publish.delivery, Denied::NoText);
        }
        if let Some(flow) = self.not_permitted(io, conn, publish, name) {
            return flow;
        }
        let outgoing = Outgoing {
            publisher: Some(session),
            client_hash,
            qos: publish.delivery.qos(),
            inbound: match publish.delivery {
                Delivery::ExactlyOnce(id) => Some(id),
                _ => None,
            },
            will_of: None,
            retain: publish.retain,
            topic: name,
            properties,
            payload: publish.payload,
            logged,
            refusable,
        };
        let handed = self.send_off(io, outgoing);
        self.go_on_behind(io, conn, publish.delivery, refusable, handed)
    }

    /// How its connection goes on behind a publish of which this became.
    fn go_on_behind(
        &mut self,
        io: &mut Io<'_, D>,
        conn: ConnId,
        delivery: Delivery,
        refusable: bool,
        handed: Handed,
    ) -> Flow {
        match handed {
            Handed::Over { destinations } => {
                self.acknowledge(io, conn, delivery, destinations);
                Flow::Next
            }
            Handed::Later => {
                self.uncount_inbound(conn, delivery);
                // For the log only where that has not failed: there it is refused.
                self.park_for_peers(io, conn)
            }
            Handed::Hold => {
                self.uncount_inbound(conn, delivery);
                Flow::Hold
            }
            // MQTT 3 has no answer that says so, and at QoS 0 there is none.
            Handed::Full | Handed::QueuesFull if !refusable => {
                self.uncount_inbound(conn, delivery);
                Flow::Hold
            }
            Handed::NoSpace if !refusable || delivery == Delivery::AtMostOnce => {
                self.uncount_inbound(conn, delivery);
                Flow::Hold
            }
            Handed::Full => self.over_quota(io, conn, delivery, Denied::QueueFull),
            Handed::QueuesFull => {
                self.counts.refused_total += 1;
                self.over_quota(io, conn, delivery, Denied::QueuesFull)
            }
            Handed::NoSpace => {
                self.counts.refused_space += 1;
                self.over_quota(io, conn, delivery, Denied::DiskFull)
            }
            Handed::NoRetained => self.over_quota(io, conn, delivery, Denied::RetainedFull),
            Handed::LogEnded => self.over_quota(io, conn, delivery, Denied::LogEnded),
        }
    }

    /// Asks whether a client may publish this. `None`: it may.
    fn not_permitted(
        &mut self,
        io: &mut Io<'_, D>,
        conn: ConnId,
        publish: &Publish<'_>,
        name: TopicName<'_>,
    ) -> Option<Flow> {
        let (qos, retain) = (publish.delivery.qos(), publish.retain);
        let publishing = Publishing { topic: name.as_str(), qos, retain, is_will: false };
        let denied = match self.may_publish(io, conn, &publishing) {
            Some(Ok(Permit::Allow)) => return None,
            Some(Ok(Permit::Deny)) => Denied::NotPermitted,
            Some(Ok(Permit::Disconnect)) => {
                let why = "it may not publish this";
                return Some(self.refuse(io, conn, ReasonCode::NotAuthorized, why));
            }
            Some(Err(NoAnswer)) => Denied::Unanswered,
            None => {
                self.uncount_inbound(conn, publish.delivery);
                return Some(self.await_answer(io, conn));
            }
        };
        Some(self.turn_down(io, conn, publish.delivery, denied))
    }

    /// Counts a message that will be acknowledged; ends a connection that has too many.
    //= MQTT5-3.3.4-7
    fn count_inbound(
        &mut self,
        io: &mut Io<'_, D>,
        conn: ConnId,
        delivery: Delivery,
    ) -> Option<Flow> {
        let link = self.links.up_mut(conn)?;
        if delivery == Delivery::AtMostOnce {
            return None;
        }
        if link.inbound >= link.inbound_most {
            let reason = ReasonCode::ReceiveMaximumExceeded;
            let most = link.inbound_most;
            let why = format!("more than {most} publishes under way: --receive-maximum");
            return Some(self.refuse(io, conn, reason, &why));
        }
        link.inbound += 1;
        None
    }

    fn uncount_inbound(&mut self, conn: ConnId, delivery: Delivery) {
        if let Some(link) = self.links.up_mut(conn)
            && delivery != Delivery::AtMostOnce
        {
            link.inbound -= 1;
        }
    }

    /// Why nobody may publish under this name.
    pub(super) fn unwelcome(&self, name: TopicName<'_>) -> Option<Denied> {
        if name.as_str().starts_with("$SYS/") {
            return Some(Denied::OwnTopic);
        }
        let Limits { max_topic_levels, max_topic_length, .. } = self.shared.options.limits;
        // A short name has few levels: most are not counted.
        let len = name.as_str().len();
        let deep = len >= max_topic_levels && name.levels().count() > max_topic_levels;
        if deep {
            return Some(Denied::TopicLevels);
        }
        (len > max_topic_length).then_some(Denied::TopicLength)
    }

    /// Whether a payload says that it is UTF-8, which is checked, and is not.
    pub(super) fn misrepresents(&self, properties: Properties<'_>, payload: &[u8]) -> bool {
        self.shared.options.limits.check_payload_format
            && properties.find(PropertyId::PayloadFormat) == Some(Property::PayloadFormat(1))
            && std::str::from_utf8(payload).is_err()
    }

    /// Why nobody may publish so. Clients of MQTT 5 were told at CONNECT.
    //= MQTT5-3.2.2-11
    //= MQTT5-3.2.2-14
    pub(super) fn not_offered(&self, qos: QoS, retain: bool) -> Option<(ReasonCode, &'static str)> {
        let limits = &self.shared.options.limits;
        if qos > limits.max_qos {
            return Some((ReasonCode::QoSNotSupported, "its QoS is above --max-qos"));
        }
        let refused = retain && !limits.retain;
        refused.then_some((ReasonCode::RetainNotSupported, "--no-retain: nothing is retained"))
    }

    /// Acknowledges without having taken the message, in the words of the version. MQTT 3 has none:
    /// an acknowledgement would be a lie where the message was to be kept, so the connection ends;
    /// a message that may not be published is acknowledged and dropped.
    //= MQTT311-3.3.5-2
    //= MQTT5-4.3.3-9
    fn turn_down(
        &mut self,
        io: &mut Io<'_, D>,
        conn: ConnId,
        delivery: Delivery,
        denied: Denied,
    ) -> Flow {
        self.tell_turned_down(conn, denied);
        let Some(link) = self.links.up_mut(conn) else { return Flow::End };
        let v5 = link.encoder.version.is_v5();
        let keeps_silent = !v5 && delivery != Delivery::AtMostOnce;
        let reason = denied.code();
        if keeps_silent
            && matches!(reason, ReasonCode::QuotaExceeded | ReasonCode::UnspecifiedError)
        {
            let why = denied.why(&self.shared.options.limits);
            return self.refuse(io, conn, reason, &why);
        }
        let (kind, id) = match delivery {
            Delivery::AtMostOnce => return Flow::Next,
            Delivery::AtLeastOnce(id) => (AckKind::PubAck, id),
            Delivery::ExactlyOnce(id) => (AckKind::PubRec, id),
        };
        self.answer(io, Answer::Denied { conn, kind, id, denied });
        Flow::Next
    }

    fn over_quota(
        &mut self,
        io: &mut Io<'_, D>,
        conn: ConnId,
        delivery: Delivery,
        denied: Denied,
    ) -> Flow {
        self.counts.refused_quota += 1;
        self.turn_down(io, conn, delivery, denied)
    }

    //= MQTT311-4.3.2-2
    //= MQTT5-4.3.2-4
    //= MQTT5-4.3.3-8
    fn acknowledge(
        &mut self,
        io: &mut Io<'_, D>,
        conn: ConnId,
        delivery: Delivery,
        destinations: usize,
    ) {
        let (kind, id) = match delivery {
            Delivery::AtMostOnce => return,
            Delivery::AtLeastOnce(id) => (AckKind::PubAck, id),
            Delivery::ExactlyOnce(id) => (AckKind::PubRec, id),
        };
        let reason = outcome(destinations);
        self.answer(io, Answer::Ack { conn, kind, id, reason });
    }

    /// Decides where a message goes, and records it or applies it at once.
    //= MQTT311-3.3.5-1
    //= MQTT5-3.3.4-2
    pub(super) fn send_off(&mut self, io: &mut Io<'_, D>, outgoing: Outgoing<'_>) -> Handed {
        let qos = outgoing.qos;
        let publication = Publication {
            topic: outgoing.topic,
            publisher: outgoing.publisher,
            client_hash: outgoing.client_hash,
            qos,
            retain: outgoing.retain,
        };
        let mut decision = std::mem::take(&mut self.decision);
        let routed = self.router.route_same(&mut self.index, publication, &mut decision);
        let record = PublishRecord {
            publisher: outgoing.publisher,
            inbound: outgoing.inbound,
            will_of: outgoing.will_of,
            qos,
            retain: outgoing.retain,
            decision: decision.as_decision(),
            topic: outgoing.topic,
            properties: outgoing.properties,
            payload: outgoing.payload,
        };
        let mut handed = self.hand_over_unless_full(io, record, &routed, outgoing);
        if handed == Handed::NoRetained {
            handed = self.hand_over_unretained(io, record, &routed, outgoing);
        }
        if matches!(handed, Handed::Over { .. }) {
            self.router.taken(&mut self.index);
        }
        self.decision = decision;
        handed
    }

    /// Looks first whether queues are full that it would enter. Nobody is held for its own.
    pub(super) fn hand_over_unless_full(
        &mut self,
        io: &mut Io<'_, D>,
        record: PublishRecord<'_>,
        routed: &Routed,
        outgoing: Outgoing<'_>,
    ) -> Handed {
        let Outgoing { logged, refusable, .. } = outgoing;
        if self.lacks_queue_total(record.qos, record.decision) {
            return Handed::QueuesFull;
        }
        if routed.held.contains(SessionFlags::LAGGING) && record.will_of.is_none() {
            return Handed::Hold;
        }
        let others = routed.held.contains(SessionFlags::FULL);
        if !others && !routed.own_full {
            return self.hand_over(io, &record, routed, logged);
        }
        if self.shared.options.limits.queue_full != QueueFull::DropNewest {
            if others || refusable {
                return Handed::Full;
            }
            return self.hand_over(io, &record, routed, logged);
        }
        let mut left = DecisionBuf::new();
        let (routed, passed_by) = self.pass_by_full(record.decision, routed, &mut left);
        let is_refused = left.is_empty() && !record.retain;
        if refusable && is_refused && !planted::is(Bug::DropsAcknowledged) {
            return Handed::Full;
        }
        let record = PublishRecord { decision: left.as_decision(), ..record };
        let handed = self.hand_over(io, &record, &routed, logged);
        if matches!(handed, Handed::Over { .. }) {
            self.counts.dropped_full += planted::counted(passed_by);
        }
        handed
    }

    fn hand_over(
        &mut self,
        io: &mut Io<'_, D>,
        record: &PublishRecord<'_>,
        routed: &Routed,
        publisher_logged: bool,
    ) -> Handed {
        let destinations = routed.destinations;
        let over = Handed::Over { destinations };
        if routed.held.contains(SessionFlags::OVER_HIGH_WATER) && record.will_of.is_none() {
            return Handed::Hold;
        }
        let opens = record.inbound.is_some() && publisher_logged;
        let logged = self.is_to_be_logged(record, routed, opens);
        if logged && self.lacks_space_for(record) {
            return Handed::NoSpace;
        }
        if record.retain && record.will_of.is_none() && !self.has_retained_room(record) {
            return Handed::NoRetained;
        }
        let directly = self.goes_directly(record);
        if !logged {
            return self.spread(io, record, routed);
        }
        if directly && self.is_held_up() {
            return Handed::Later;
        }
        let mut lanes = self.concerned(record, routed);
        if lanes == 0 {
            // Nobody but the log.
            lanes = self.bit();
        }
        let waits = record.qos != QoS::AtMostOnce || record.will_of.is_some();
        let how = How { waits, lanes, frees: false };
        match self.journal.stage(&Record::Publish(*record), how) {
            Ok(handed) => {
                self.counts.records += 1;
                if let (Some(session), Some(id)) = (record.publisher, record.inbound) {
                    self.overlay.opened(session, id, handed);
                }
                if directly {
                    let made = Made { by: self.lane, handed };
                    self.spread_retained(io, record, routed, made);
                }
                over
            }
            Err(zzq_wal::StageError::Full) => {
                self.wants_room = true;
                Handed::Later
            }
            // Nothing was handed over, so an honest refusal is possible.
            Err(
                zzq_wal::StageError::ReadOnly
                | zzq_wal::StageError::Ended
                | zzq_wal::StageError::TooLong(_),
            ) => Handed::LogEnded,
        }
    }

    /// The lanes whose state a message changes or whose sessions it goes to, as a set.
    pub(super) fn concerned(&self, record: &PublishRecord<'_>, routed: &Routed) -> u64 {
        let mut lanes = routed.lanes;
        if record.inbound.is_some() || record.will_of.is_some() {
            lanes |= self.bit();
        }
        if record.retain {
            lanes |= 1 << self.home(record.topic.as_str()).0;
        }
        lanes
    }

    /// Whether a message goes to its receivers from lane to lane although the log has it: at QoS 0
    /// those that are retained, for those that are not go so too, and none may overtake another.
    /// Unless all of them go by way of the log.
    //= MQTT311-4.6.0-6
    //= MQTT5-4.6.0-6
    pub(super) fn goes_directly(&self, record: &PublishRecord<'_>) -> bool {
        record.qos == QoS::AtMostOnce
            && record.retain
            && record.will_of.is_none()
            && self.shared.options.log != LogPolicy::Everything
    }

    /// Whether a publish becomes a record.
    fn is_to_be_logged(&self, record: &PublishRecord<'_>, routed: &Routed, opens: bool) -> bool {
        let needed = routed.kept || record.retain || record.will_of.is_some() || opens;
        self.is_for_the_log(record.qos, needed)
    }

    /// Whether the log takes what is published at a QoS, if a crash must not lose it.
    pub(super) fn is_for_the_log(&self, qos: QoS, needed: bool) -> bool {
        self.journal.is_log()
            && match self.shared.options.log {
                LogPolicy::Everything => true,
                LogPolicy::All => qos != QoS::AtMostOnce || needed,
                LogPolicy::Needed => needed,
            }
    }
}

/// What a publisher is told of a message that goes to so many sessions.
pub(super) const fn outcome(destinations: usize) -> ReasonCode {
    if destinations == 0 { ReasonCode::NoMatchingSubscribers } else { ReasonCode::Success }
}

/// What is forwarded of a publisher's properties: all but the alias, which is this connection's.
//= MQTT5-3.3.2-4
//= MQTT5-3.3.2-15
//= MQTT5-3.3.2-16
//= MQTT5-3.3.2-17
//= MQTT5-3.3.2-18
//= MQTT5-3.3.2-20
fn forward<'a>(from: Properties<'a>, out: &'a mut PropertiesBuf) -> Properties<'a> {
    if from.is_empty() || from.find(PropertyId::TopicAlias).is_none() {
        return from;
    }
    out.clear();
    for (property, encoded) in from.iter_encoded() {
        if !matches!(property, Property::TopicAlias(_)) {
            out.push_encoded(encoded);
        }
    }
    out.as_properties()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_but_the_alias_is_forwarded_in_order() {
        //= MQTT5-3.3.2-4
        //= MQTT5-3.3.2-15
        //= MQTT5-3.3.2-16
        //= MQTT5-3.3.2-17
        //= MQTT5-3.3.2-18
        //= MQTT5-3.3.2-20
        let rest = [
            Property::UserProperty("b", "1"),
            Property::PayloadFormat(1),
            Property::ResponseTopic("r"),
            Property::CorrelationData(b"c"),
            Property::ContentType("t"),
            Property::UserProperty("a", "2"),
        ];
        let mut from = PropertiesBuf::new();
        for (at, property) in rest.into_iter().enumerate() {
            if at == 2 {
                from.push(Property::TopicAlias(7)).unwrap();
            }
            from.push(property).unwrap();
        }
        let mut out = PropertiesBuf::new();
        let forwarded = forward(from.as_properties(), &mut out);
        assert!(forwarded.iter().eq(rest));
    }

    #[test]
    fn properties_without_an_alias_are_not_copied() {
        let mut from = PropertiesBuf::new();
        from.push(Property::ContentType("t")).unwrap();
        let mut out = PropertiesBuf::new();
        let same = forward(from.as_properties(), &mut out);
        assert_eq!(same.as_bytes().as_ptr(), from.as_properties().as_bytes().as_ptr());
    }
}
