//! Retained messages for new subscriptions: found where their topics live, sent from where their
//! session lives, a bounded number at a time.
//!
//! Assumes: a wish is granted behind the fence of its subscription. What was sent live before is
//! known and left out: with a log when this lane has followed it as far as what was found, without
//! one when all lanes have said that nothing older is under way.

use std::ops::ControlFlow;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use zzq_engine::record::Publish as PublishRecord;
use zzq_engine::{DecisionBuf, Handed, QueueNumber, Record, RetainedCursor, Routed, SessionNumber};
use zzq_lanes::{Class, ConnId, LaneIndex};
use zzq_types::{Lsn, QoS, SubscriptionId, TopicFilter};
use zzq_wal::disk::Disk;

use super::changes::{News, Tell, Then};
use super::journal::{How, Journal};
use super::live::Heard;
use super::message::Message;
use super::notes::Note;
use super::packet_out::write_packet;
use super::publish::{self, Outgoing};
use super::put::Late;
use super::wire::Ids;
use super::{Io, Shell};
use crate::retained_order::Marks;

/// Topics looked at for one wish in one turn, and messages sent.
const STEPS: usize = 1024;
const SENT: usize = 128;

/// What a subscription is owed.
#[derive(Clone, Debug)]
pub(super) struct Wish {
    session: SessionNumber,
    filter: Box<str>,
    qos: QoS,
    id: Option<SubscriptionId>,
}

/// A wish on its way through the lanes.
#[derive(Debug)]
pub(super) struct Granting {
    conn: ConnId,
    wish: Wish,
    heard: Arc<Heard>,
    /// The SUBACK of its subscription.
    sub_ack: u64,
    /// Its first messages were found, or there are none.
    is_known: bool,
    /// A committed place that is behind all that the subscription missed.
    fence: Lsn,
    /// Without a log: what was on its way to this lane then.
    under_way: Marks,
    /// The lane that is asked now.
    lane: u16,
    cursor: RetainedCursor,
    search: Search,
    /// Without a log: what was found may still come live from another lane.
    in_doubt: bool,
    /// Messages that were found and not sent yet.
    found: Vec<Hit>,
    pace: Pace,
}

/// Retained messages at QoS 1 and 2 take their way through the session's queue: more of them enter
/// it when those before have left for the client. Else the queue would take in all there are.
#[derive(Clone, Copy, Debug)]
enum Pace {
    /// So many bytes entered it since.
    Enters(usize),
    /// Enough did: this is the last of the lane's records for it.
    Handed(Handed),
    /// All up to this number are to be sent first.
    Leaves(QueueNumber),
}

/// Whether more is looked for before what was found is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Search {
    Due,
    /// An answer of other lanes is under way.
    Asked,
    Over,
}

/// SUBACKs that wait for what was retained, so that it comes before what is published behind them.
#[derive(Debug, Default)]
pub(super) struct SubAcks {
    next: u64,
    waiting: FxHashMap<u64, SubAckWait>,
}

#[derive(Debug)]
struct SubAckWait {
    conn: ConnId,
    packet: Vec<u8>,
    /// Its wishes that are not known yet.
    unknown: usize,
}

/// A question to the lane that owns topics.
#[derive(Debug)]
pub(crate) struct Query {
    key: u64,
    filter: Box<str>,
    cursor: RetainedCursor,
    /// Its log is to be followed up to here first.
    fence: Lsn,
    /// Without a log: so much is to have come to it first.
    under_way: Marks,
}

/// The answer.
#[derive(Debug)]
pub(crate) struct Found {
    key: u64,
    cursor: RetainedCursor,
    hits: Vec<Hit>,
    all: bool,
}

/// One retained message.
#[derive(Clone, Debug)]
pub(super) struct Hit {
    lsn: Lsn,
    topic: Box<str>,
    qos: QoS,
    size: u32,
    expires_ms: Option<u64>,
    /// With it, if it is in memory; always where no log has it.
    message: Option<Message>,
}

impl Wish {
    pub(super) fn new(
        session: SessionNumber,
        filter: TopicFilter<'_>,
        qos: QoS,
        id: Option<SubscriptionId>,
    ) -> Self {
        Self { session, filter: filter.as_str().into(), qos, id }
    }
}

impl Granting {
    /// Takes what one lane has found.
    fn take(&mut self, hits: Vec<Hit>, cursor: RetainedCursor, all: bool) {
        self.in_doubt |= !hits.is_empty();
        self.found.extend(hits);
        self.cursor = cursor;
        if all {
            self.lane += 1;
            self.cursor = RetainedCursor::START;
        }
    }
}

impl<D: Disk> Shell<D> {
    /// Whether what a message would add to the retained store has room there; if so it is taken.
    pub(super) fn has_retained_room(&self, record: &PublishRecord<'_>) -> bool {
        let Some(room) = &self.shared.retained_room else { return true };
        if record.payload.is_empty() {
            room.is_now(record.topic.as_str(), None);
            return true;
        }
        room.take(record.topic.as_str(), record.size())
    }

    /// Hands over a message for which the retained store has no room, if its publisher cannot be
    /// told: to those who are there, and what its topic has stays. A client that was cut off for it
    /// would come back with the same message, for ever.
    //= MQTT311-3.3.5-2
    pub(super) fn hand_over_unretained(
        &mut self,
        io: &mut Io<'_, D>,
        record: PublishRecord<'_>,
        routed: &Routed,
        outgoing: Outgoing<'_>,
    ) -> publish::Handed {
        if outgoing.refusable && outgoing.qos != QoS::AtMostOnce {
            self.counts.refused_retained += 1;
            return publish::Handed::NoRetained;
        }
        let record = PublishRecord { retain: false, ..record };
        let handed = self.hand_over_unless_full(io, record, routed, outgoing);
        // One that is offered again counts when it is done with.
        if matches!(handed, publish::Handed::Over { .. }) {
            self.counts.refused_retained += 1;
            if let Some(untold) = self.unretained_told.tell(self.now_ms) {
                let publisher = record.publisher.and_then(|session| self.state.session(session));
                let client = publisher.map_or("", zzq_engine::Session::client);
                tracing::info!(
                    client,
                    untold,
                    "a message is not retained: --max-retained, --max-retained-bytes"
                );
            }
        }
        handed
    }

    /// What this lane's topics have before anything changes.
    pub(super) fn note_retained(&mut self) {
        let Some(room) = &self.shared.retained_room else { return };
        self.gathered.tells_cleared = true;
        for (topic, retained) in self.state.retained().iter_from(&RetainedCursor::START) {
            room.is_now(topic, Some(retained.size));
        }
    }

    /// A record was applied that changes what a topic of this lane has.
    pub(super) fn retained_is_now(&self, topic: &str) {
        let Some(room) = &self.shared.retained_room else { return };
        let Ok(name) = zzq_types::TopicName::new(topic) else { return };
        room.is_now(topic, self.state.retained().get(name).map(|retained| retained.size));
    }

    /// A subscription has its fence: what it wishes is looked for, and answered when the first of
    /// it is found.
    //= MQTT311-3.3.1-6
    //= MQTT5-3.3.1-9
    pub(super) fn grant_wishes(
        &mut self,
        io: &mut Io<'_, D>,
        conn: ConnId,
        session: SessionNumber,
        (wishes, heard): (Vec<Wish>, Heard),
        packet: Vec<u8>,
    ) {
        self.sub_acks.next += 1;
        let sub_ack = self.sub_acks.next;
        let wait = SubAckWait { conn, packet, unknown: wishes.len() };
        self.sub_acks.waiting.insert(sub_ack, wait);
        if wishes.is_empty() {
            self.write_sub_ack(io, sub_ack);
        }
        let fence = if self.journal.is_log() { self.journal.committed_lsn() } else { Lsn::ZERO };
        let heard = Arc::new(heard);
        let keys = self.next_granting + 1..=self.next_granting + wishes.len() as u64;
        for (key, wish) in keys.clone().zip(wishes) {
            self.live.watch(session);
            let granting = Granting {
                conn,
                wish,
                heard: Arc::clone(&heard),
                sub_ack,
                is_known: false,
                fence,
                under_way: self.writes_under_way(self.lane),
                lane: 0,
                cursor: RetainedCursor::START,
                search: Search::Due,
                in_doubt: false,
                found: Vec::new(),
                pace: Pace::Enters(0),
            };
            self.granting.insert(key, granting);
            self.next_granting = key;
        }
        self.live.unwatch(session);
        for key in keys {
            self.go_on_with(io, key);
        }
    }

    fn write_sub_ack(&mut self, io: &mut Io<'_, D>, sub_ack: u64) {
        let Some(wait) = self.sub_acks.waiting.remove(&sub_ack) else { return };
        if self.links.up_mut(wait.conn).is_some() {
            let packet = &wait.packet;
            write_packet(io, &mut self.counts, wait.conn, |out| out.extend_from_slice(packet));
        }
        // The other wishes of its packet go on.
        io.turn_again();
    }

    /// The first messages for a wish were found, or it has ended.
    fn note_known(&mut self, io: &mut Io<'_, D>, granting: &mut Granting) {
        if std::mem::replace(&mut granting.is_known, true) {
            return;
        }
        let Some(wait) = self.sub_acks.waiting.get_mut(&granting.sub_ack) else { return };
        wait.unknown -= 1;
        if wait.unknown == 0 {
            self.write_sub_ack(io, granting.sub_ack);
        }
    }

    /// `$SYS` topics are no messages of the log: their present values are sent.
    fn grant_sys(&mut self, io: &mut Io<'_, D>, conn: ConnId, wish: &Wish) {
        if !wish.filter.starts_with("$SYS") || self.links.up_mut(conn).is_none() {
            return;
        }
        let Ok(filter) = TopicFilter::new(&wish.filter) else { return };
        let ids: Vec<_> = wish.id.into_iter().collect();
        for (topic, value) in self.shared.sys() {
            let Ok(name) = zzq_types::TopicName::new(&topic) else { continue };
            if filter.matches(name) {
                self.wire.begin(1);
                let content = super::sys_topics::content(name, &value);
                self.deliver0(io, wish.session, content, true, Ids::List(&ids), true);
            }
        }
    }

    /// Goes on with the wishes that are being granted.
    pub(super) fn go_on_granting(&mut self, io: &mut Io<'_, D>) {
        self.answer_queries(io);
        let keys: Vec<u64> = self.granting.keys().copied().collect();
        for key in keys {
            self.go_on_with(io, key);
        }
    }

    fn go_on_with(&mut self, io: &mut Io<'_, D>, key: u64) {
        let Some(mut granting) = self.granting.remove(&key) else { return };
        if self.go_on(io, key, &mut granting) {
            // What is left was for a connection that is gone, or is not wished any more.
            for hit in &granting.found {
                self.wanted.remove(&hit.lsn);
                self.fetched.remove(&hit.lsn);
            }
            self.note_known(io, &mut granting);
            self.live.unwatch(granting.wish.session);
        } else {
            self.granting.insert(key, granting);
        }
    }

    /// True: the wish is granted, or there is nobody any more who has it.
    fn go_on(&mut self, io: &mut Io<'_, D>, key: u64, granting: &mut Granting) -> bool {
        if self.links.up_mut(granting.conn).is_none() || !self.is_subscribed(&granting.wish) {
            return true;
        }
        if granting.search != Search::Over {
            if !self.look(io, key, granting) {
                return false;
            }
            granting.search = Search::Over;
        }
        if !granting.is_known {
            self.note_known(io, granting);
            self.grant_sys(io, granting.conn, &granting.wish);
        }
        if self.sub_acks.waiting.contains_key(&granting.sub_ack) {
            return false;
        }
        self.send_found(io, granting);
        let sent = granting.found.is_empty();
        if sent && granting.lane >= self.lanes {
            return true;
        }
        if sent {
            granting.search = Search::Due;
            io.turn_again();
        }
        false
    }

    /// Whether the subscription of a wish still is: what is owed to it can take long to find, and
    /// nothing is added for it behind its UNSUBACK.
    //= MQTT311-3.10.4-2
    //= MQTT5-3.10.4-2
    fn is_subscribed(&self, wish: &Wish) -> bool {
        let known = self.state.session(wish.session);
        let in_state = known.is_some_and(|known| known.subscriptions().get(&wish.filter).is_some());
        self.overlay.has_filter(wish.session, &wish.filter, in_state)
    }

    /// Looks for the next messages, lane by lane. False: there is more to come.
    fn look(&mut self, io: &mut Io<'_, D>, key: u64, granting: &mut Granting) -> bool {
        if granting.search == Search::Asked {
            return false;
        }
        while granting.found.len() < SENT && granting.lane < self.lanes {
            if granting.lane != self.lane.0 {
                let query = Query {
                    key,
                    filter: granting.wish.filter.clone(),
                    cursor: granting.cursor.clone(),
                    fence: granting.fence,
                    under_way: self.writes_under_way(LaneIndex(granting.lane)),
                };
                granting.search = Search::Asked;
                let to = LaneIndex(granting.lane);
                self.send_note(io, to, Note::Query(query), Class::Receipt);
                return false;
            }
            if !self.has_followed(granting.fence) {
                io.turn_again();
                return false;
            }
            if !self.writes.have(&granting.under_way) {
                // The turn in which that comes goes on.
                return false;
            }
            let mut cursor = granting.cursor.clone();
            let (hits, all) = self.look_up(&granting.wish.filter, &mut cursor);
            granting.take(hits, cursor, all);
            if !all && granting.found.len() < SENT {
                io.turn_again();
                return false;
            }
        }
        if !self.journal.is_log() && self.lanes > 1 && granting.in_doubt {
            granting.search = Search::Asked;
            let then = Then::Sighted { granting: key };
            self.begin_change(io, Tell::Now, News::Nothing, then);
            return false;
        }
        true
    }

    /// What every lane had sent live when messages were found has come.
    pub(super) fn sighted(&mut self, io: &mut Io<'_, D>, key: u64) {
        if let Some(granting) = self.granting.get_mut(&key) {
            granting.search = Search::Due;
            granting.in_doubt = false;
            io.turn_again();
        }
    }

    /// Whether a record of the log was applied here, if it concerns this lane.
    fn has_followed(&self, lsn: Lsn) -> bool {
        !self.journal.is_log() || self.followed >= lsn
    }

    /// The next retained messages of this lane's topics that match.
    fn look_up(&self, filter: &str, cursor: &mut RetainedCursor) -> (Vec<Hit>, bool) {
        let Ok(filter) = TopicFilter::new(filter) else { return (Vec::new(), true) };
        let mut hits = Vec::new();
        let all = self.state.retained().matching(filter, cursor, STEPS, |topic, retained| {
            let expires_ms = retained.expires_ms();
            if expires_ms.is_none_or(|expires_ms| expires_ms > self.now_ms) {
                hits.push(Hit {
                    lsn: retained.lsn,
                    topic: topic.into(),
                    qos: retained.qos,
                    size: retained.size,
                    expires_ms,
                    message: self.store.get(retained.lsn).cloned(),
                });
            }
            if hits.len() < SENT { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        (hits, all)
    }

    /// Answers the questions of other lanes whose fence this lane has passed.
    pub(super) fn answer_queries(&mut self, io: &mut Io<'_, D>) {
        for (from, query) in std::mem::take(&mut self.queries) {
            if !self.has_followed(query.fence) || !self.writes.have(&query.under_way) {
                self.queries.push((from, query));
                continue;
            }
            let mut cursor = query.cursor;
            let (hits, all) = self.look_up(&query.filter, &mut cursor);
            let found = Found { key: query.key, cursor, hits, all };
            self.send_note(io, from, Note::Found(found), Class::Receipt);
        }
    }

    pub(super) fn take_found(&mut self, io: &mut Io<'_, D>, found: Found) {
        if let Some(granting) = self.granting.get_mut(&found.key) {
            granting.search = Search::Due;
            granting.take(found.hits, found.cursor, found.all);
            io.turn_again();
        }
    }

    /// Sends what was found, in order, as far as the connection takes it and it is committed.
    //= MQTT311-3.3.1-8
    //= MQTT311-3.8.4-6
    //= MQTT5-3.8.4-8
    fn send_found(&mut self, io: &mut Io<'_, D>, granting: &mut Granting) {
        let (conn, session) = (granting.conn, granting.wish.session);
        let mut sent = 0;
        let found = std::mem::take(&mut granting.found);
        for hit in &found {
            let own = Journal::<D>::is_own(hit.lsn);
            if !own && !self.has_followed(hit.lsn) {
                // It may be on its way to the session as well.
                self.later.pump(hit.lsn, session);
                break;
            }
            if self.live.was_live(session, &hit.topic, hit.lsn, &granting.heard) {
                sent += 1;
                continue;
            }
            let most = self.output_most().now(io);
            if io.output_held(conn) > most || self.clogged.contains(conn) {
                self.notify_drained(io, conn);
                break;
            }
            let qos = hit.qos.min(granting.wish.qos);
            if qos != QoS::AtMostOnce && !self.may_enter(session, &mut granting.pace) {
                break;
            }
            if !self.send_hit(io, conn, &granting.wish, hit) {
                break;
            }
            if let Pace::Enters(bytes) = &mut granting.pace
                && qos != QoS::AtMostOnce
            {
                *bytes += hit.size as usize;
                if *bytes > self.shared.options.limits.max_output_bytes {
                    granting.pace = Pace::Handed(self.journal.handed());
                }
            }
            sent += 1;
        }
        granting.found = found;
        granting.found.drain(..sent);
    }

    /// Whether another retained message may enter a session's queue. What lets it is seen in a
    /// turn: a record is applied, or the client has answered or read.
    fn may_enter(&self, session: SessionNumber, pace: &mut Pace) -> bool {
        let Some(known) = self.state.session(session) else { return true };
        let queue = known.queue();
        if let Pace::Handed(handed) = *pace
            && (!self.journal.is_log() || self.applied >= handed)
        {
            *pace = Pace::Leaves(queue.last());
        }
        if let Pace::Leaves(number) = *pace
            && let Some(link) = self.up.get(&session).and_then(|conn| self.links.get(*conn))
            && !link.out.owes_up_to(queue, number)
        {
            *pace = Pace::Enters(0);
        }
        matches!(pace, Pace::Enters(_))
    }

    /// False: it has to wait for a commit, for memory or for the disk.
    fn send_hit(&mut self, io: &mut Io<'_, D>, conn: ConnId, wish: &Wish, hit: &Hit) -> bool {
        let own = Journal::<D>::is_own(hit.lsn);
        if !own && hit.lsn > self.journal.committed_lsn() {
            self.later.pump(hit.lsn, wish.session);
            return false;
        }
        let qos = hit.qos.min(wish.qos);
        if qos != QoS::AtMostOnce {
            return self.queue_hit(io, wish, hit, qos);
        }
        let message = hit.message.clone().or_else(|| self.store.get(hit.lsn).cloned());
        let message = message.or_else(|| self.fetched.remove(&hit.lsn));
        let Some(message) = message else {
            if self.wanted.insert(hit.lsn) {
                self.request(conn, vec![hit.lsn]);
            }
            return false;
        };
        self.wanted.remove(&hit.lsn);
        let ids: Vec<_> = wish.id.into_iter().collect();
        let mut content = message.content();
        content.expires_ms = hit.expires_ms;
        self.wire.begin(1);
        self.deliver0(io, wish.session, content, true, Ids::List(&ids), false);
        true
    }

    /// Puts a retained message into the session's queue.
    fn queue_hit(&mut self, io: &mut Io<'_, D>, wish: &Wish, hit: &Hit, qos: QoS) -> bool {
        let Some(link) = self.up.get(&wish.session).and_then(|conn| self.links.get(*conn)) else {
            return true;
        };
        let logged = link.logged;
        if let Some(message) = &hit.message
            && Journal::<D>::is_own(hit.lsn)
            && self.store.get(hit.lsn).is_none()
        {
            // It is another lane's: here it gets a number of its own.
            return self.queue_copy(io, wish, message, qos);
        }
        let late = Late {
            lsn: hit.lsn,
            qos,
            retain: true,
            size: hit.size,
            expires_ms: hit.expires_ms,
            moved: None,
            id: wish.id,
        };
        let how = How { waits: true, lanes: self.bit(), frees: false };
        self.put_late(io, wish.session, late, logged, how)
    }

    fn queue_copy(&mut self, io: &mut Io<'_, D>, wish: &Wish, message: &Message, qos: QoS) -> bool {
        let content = message.content();
        let mut decision = DecisionBuf::new();
        decision.push(wish.session, qos, true, None, wish.id);
        let record = content.record(qos, decision.as_decision());
        let (lsn, time_ms) =
            (self.journal.take_own(), self.published_ms(&record, content.expires_ms));
        self.apply(io, lsn, time_ms, &Record::Publish(record));
        true
    }
}
