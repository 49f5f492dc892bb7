//! Retained messages for new subscriptions: found where their topics live, sent from where their
//! session lives, a bounded number at a time.
//!
//! Assumes: a wish is granted behind the fence of its subscription. What was sent live before is
//! known and left out.

use std::ops::ControlFlow;

use zzq_engine::record::{LateDecision, LateItem, LateItemsBuf, Publish as PublishRecord};
use zzq_engine::{DecisionBuf, Record, RetainedCursor, SessionNumber, SubscriptionIdsBuf};
use zzq_lanes::{Class, ConnId, LaneIndex};
use zzq_types::{Lsn, QoS, SubscriptionId, TopicFilter};
use zzq_wal::disk::Disk;

use super::journal::{How, Journal};
use super::message::Message;
use super::notes::Note;
use super::wire::Ids;
use super::{Io, Shell};

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
    /// The lane that is asked now.
    lane: u16,
    cursor: RetainedCursor,
    /// An answer of another lane is under way.
    asked: bool,
    /// Messages that were found and not sent yet.
    found: Vec<Hit>,
    all_found: bool,
}

/// A question to the lane that owns topics.
#[derive(Debug)]
pub(crate) struct Query {
    key: u64,
    filter: Box<str>,
    cursor: RetainedCursor,
    /// Its log is to be followed up to here first.
    fence: Lsn,
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
    qos: QoS,
    size: u32,
    expires_ms: Option<u64>,
    /// With it, where no log has it.
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

impl<D: Disk> Shell<D> {
    /// A subscription has its fence: what it wishes is looked for.
    //= MQTT311-3.3.1-6
    //= MQTT5-3.3.1-9
    pub(super) fn grant_wishes(
        &mut self,
        io: &mut Io<'_, D>,
        conn: ConnId,
        session: SessionNumber,
        wishes: Vec<Wish>,
    ) {
        for wish in wishes {
            self.changes.watch(session);
            self.grant_sys(io, conn, &wish);
            self.next_granting += 1;
            let granting = Granting {
                conn,
                wish,
                lane: 0,
                cursor: RetainedCursor::START,
                asked: false,
                found: Vec::new(),
                all_found: false,
            };
            self.granting.insert(self.next_granting, granting);
        }
        self.changes.unwatch(session);
        if !self.granting.is_empty() {
            io.turn_again();
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
                self.deliver0(io, wish.session, content, true, Ids::List(&ids));
            }
        }
    }

    /// Goes on with the wishes that are being granted.
    pub(super) fn go_on_granting(&mut self, io: &mut Io<'_, D>) {
        self.answer_queries(io);
        let keys: Vec<u64> = self.granting.keys().copied().collect();
        for key in keys {
            let Some(mut granting) = self.granting.remove(&key) else { continue };
            if self.go_on(io, key, &mut granting) {
                self.changes.unwatch(granting.wish.session);
            } else {
                self.granting.insert(key, granting);
            }
        }
    }

    /// True: the wish is granted, or its connection is gone.
    fn go_on(&mut self, io: &mut Io<'_, D>, key: u64, granting: &mut Granting) -> bool {
        if self.links.up_mut(granting.conn).is_none() {
            return true;
        }
        if granting.found.is_empty() {
            if granting.asked {
                return false;
            }
            if granting.all_found {
                granting.lane += 1;
                granting.all_found = false;
                granting.cursor = RetainedCursor::START;
            }
            if granting.lane >= self.lanes {
                return true;
            }
            let lane = LaneIndex(granting.lane);
            if lane != self.lane {
                let query = Query {
                    key,
                    filter: granting.wish.filter.clone(),
                    cursor: granting.cursor.clone(),
                    fence: self.fence(),
                };
                granting.asked = true;
                self.send_note(io, lane, Note::Query(query), Class::Receipt);
                return false;
            }
            let (hits, all) = self.look_up(&granting.wish.filter, &mut granting.cursor);
            granting.found = hits;
            granting.all_found = all;
        }
        self.send_found(io, granting);
        if granting.found.is_empty() {
            io.turn_again();
        }
        false
    }

    /// A committed place that is behind all that the subscription missed.
    fn fence(&self) -> Lsn {
        if self.journal.is_log() { self.journal.committed_lsn() } else { Lsn::ZERO }
    }

    /// The next retained messages of this lane's topics that match.
    fn look_up(&self, filter: &str, cursor: &mut RetainedCursor) -> (Vec<Hit>, bool) {
        let Ok(filter) = TopicFilter::new(filter) else { return (Vec::new(), true) };
        let mut hits = Vec::new();
        let all = self.state.retained().matching(filter, cursor, STEPS, |_, retained| {
            let expires_ms = retained.expires_ms();
            if expires_ms.is_none_or(|expires_ms| expires_ms > self.now_ms) {
                hits.push(Hit {
                    lsn: retained.lsn,
                    qos: retained.qos,
                    size: retained.size,
                    expires_ms,
                    message: Journal::<D>::is_own(retained.lsn)
                        .then(|| self.store.get(retained.lsn).cloned())
                        .flatten(),
                });
            }
            if hits.len() < SENT { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        (hits, all)
    }

    /// Answers the questions of other lanes whose fence this lane has passed.
    fn answer_queries(&mut self, io: &mut Io<'_, D>) {
        for (from, query) in std::mem::take(&mut self.queries) {
            if self.journal.is_log() && self.followed < query.fence {
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
            granting.asked = false;
            granting.cursor = found.cursor;
            granting.found = found.hits;
            granting.all_found = found.all;
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
        for hit in &granting.found {
            if self.changes.was_live(session, hit.lsn) {
                sent += 1;
                continue;
            }
            if io.queued_bytes(conn) > self.shared.options.limits.max_output_bytes {
                io.notify_drained(conn);
                break;
            }
            if !self.send_hit(io, conn, &granting.wish, hit) {
                break;
            }
            sent += 1;
        }
        granting.found.drain(..sent);
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
        self.deliver0(io, wish.session, content, true, Ids::List(&ids));
        true
    }

    /// Puts a retained message into the session's queue.
    fn queue_hit(&mut self, io: &mut Io<'_, D>, wish: &Wish, hit: &Hit, qos: QoS) -> bool {
        let Some(link) = self.up.get(&wish.session).and_then(|conn| self.links.get(*conn)) else {
            return true;
        };
        let logged = link.logged;
        if let Some(message) = &hit.message
            && self.store.get(hit.lsn).is_none()
        {
            // It is another lane's: here it gets a number of its own.
            return self.queue_copy(io, wish, message, qos);
        }
        let mut ids = SubscriptionIdsBuf::new();
        if let Some(id) = wish.id {
            ids.push(id);
        }
        let mut items = LateItemsBuf::new();
        items.push(&LateItem {
            lsn: hit.lsn,
            qos,
            retain: true,
            size: hit.size,
            expires_ms: hit.expires_ms,
            pick: None,
            orphan: None,
            ids: ids.as_ids(),
        });
        let late = LateDecision { session: wish.session, items: items.as_list() };
        let how = How { waits: true, lanes: self.bit(), frees: false };
        self.put(io, &Record::LateDecision(late), logged, how)
    }

    fn queue_copy(&mut self, io: &mut Io<'_, D>, wish: &Wish, message: &Message, qos: QoS) -> bool {
        let content = message.content();
        let mut decision = DecisionBuf::new();
        decision.push(wish.session, qos, true, None, wish.id);
        let record = PublishRecord {
            publisher: None,
            inbound: None,
            will_of: None,
            qos,
            retain: false,
            decision: decision.as_decision(),
            topic: content.topic,
            properties: content.properties,
            payload: content.payload,
        };
        self.apply_now(io, &Record::Publish(record));
        true
    }
}
