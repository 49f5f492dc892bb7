//! The state, or the part of it that one lane owns: the maps and how to look into them.
//!
//! Owns: sessions, detached wills, orphans, retained references, facts, and the index of what is
//! due. It changes only through `apply`; see the folder of that name.
//! Assumes: a session number names one session, in whatever part it is.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use zzq_types::{Lsn, TopicName};

use crate::counters::Counters;
use crate::deadline::{Deadlines, Due, DueKind};
use crate::facts::{
    CONFIG, Facts, IDENTITY, SN_TOPIC, owner_of, sn_topic_id, sn_topic_key, sn_topic_prefix,
};
use crate::group::Ended;
use crate::number::{QueueNumber, SessionNumber};
use crate::record::NumberRange;
use crate::retained::{Retained, RetainedCursor, RetainedStore};
use crate::session::{Link, Load, Queue, Session, Timers, Untouched};
use crate::shard::Shard;
use crate::weight;
use crate::will::DetachedWill;

/// What the log says, up to a place in it.
#[derive(Debug)]
pub struct State {
    pub(crate) shard: Shard,
    pub(crate) sessions: FxHashMap<SessionNumber, Box<Session>>,
    pub(crate) clients: FxHashMap<Arc<str>, SessionNumber>,
    /// By session and record, so that the oldest will of a session comes first.
    pub(crate) wills: BTreeMap<(SessionNumber, Lsn), DetachedWill>,
    pub(crate) ended: BTreeMap<SessionNumber, Ended>,
    pub(crate) retained: RetainedStore,
    pub(crate) facts: Facts,
    pub(crate) deadlines: Deadlines,
    /// What is in the queues of all sessions.
    pub(crate) queued: Load,
    /// What sessions take with their subscriptions.
    pub(crate) session_memory: u64,
    /// Sessions of whose queue a part is in an image only.
    pub(crate) untouched: usize,
    pub(crate) applied: Lsn,
    /// One above the highest session number that was opened here.
    pub(crate) next_session: u64,
    pub(crate) counters: Counters,
}

impl State {
    /// The state before the first record.
    pub fn new(shard: Shard) -> Self {
        Self {
            shard,
            sessions: FxHashMap::default(),
            clients: FxHashMap::default(),
            wills: BTreeMap::new(),
            ended: BTreeMap::new(),
            retained: RetainedStore::new(),
            facts: Facts::default(),
            deadlines: Deadlines::default(),
            queued: Load::default(),
            session_memory: 0,
            untouched: 0,
            applied: Lsn::ZERO,
            next_session: 1,
            counters: Counters::default(),
        }
    }

    /// Which part it is.
    pub const fn shard(&self) -> Shard {
        self.shard
    }

    /// Whether a client's session belongs here.
    pub fn owns_session(&self, client: &str) -> bool {
        self.shard.owns(client.as_bytes())
    }

    /// Whether a topic's retained message belongs here.
    pub fn owns_topic(&self, topic: &str) -> bool {
        self.shard.owns(topic.as_bytes())
    }

    /// The last record that was applied.
    pub const fn applied(&self) -> Lsn {
        self.applied
    }

    /// One above the highest session number that was ever opened here: the start of what a lane
    /// may choose from, once the highest of all parts is taken.
    pub const fn next_session(&self) -> u64 {
        self.next_session
    }

    /// What was ignored so far.
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The session with this number.
    pub fn session(&self, number: SessionNumber) -> Option<&Session> {
        self.sessions.get(&number).map(|session| &**session)
    }

    /// The session of this client.
    pub fn session_of(&self, client: &str) -> Option<&Session> {
        self.session(*self.clients.get(client)?)
    }

    /// How many sessions there are.
    pub fn session_count(&self) -> usize {
        self.sessions.len()
    }

    /// All sessions by number. Sorts: not for the message path.
    pub fn sessions(&self) -> impl Iterator<Item = &Session> {
        self.session_numbers().into_iter().filter_map(|number| self.session(number))
    }

    /// An ended session that left shared subscriptions, and perhaps orphans.
    pub fn ended(&self, number: SessionNumber) -> Option<&Ended> {
        self.ended.get(&number)
    }

    /// All of these, by number.
    pub fn all_ended(&self) -> impl Iterator<Item = (SessionNumber, &Ended)> {
        self.ended.iter().map(|(&number, ended)| (number, ended))
    }

    /// Wills whose session has ended or was taken over, by session and record.
    pub fn detached_wills(&self) -> impl Iterator<Item = (SessionNumber, Lsn, &DetachedWill)> {
        self.wills.iter().map(|(&(session, lsn), will)| (session, lsn, will))
    }

    /// Those of one session, the oldest first.
    pub fn detached_wills_of(&self, session: SessionNumber) -> impl Iterator<Item = Lsn> {
        let of_session = (session, Lsn::ZERO)..=(session, Lsn::new(u64::MAX));
        self.wills.range(of_session).map(|(&(_, lsn), _)| lsn)
    }

    /// The records that hold the messages of wills, of sessions and without one. Sorts: not for the
    /// message path.
    pub fn will_records(&self) -> impl Iterator<Item = Lsn> {
        let of_sessions = self.sessions().filter_map(Session::will).map(|will| will.lsn);
        of_sessions.chain(self.wills.keys().map(|(_, lsn)| *lsn))
    }

    /// The retained messages, expired ones among them until a record says so.
    pub const fn retained(&self) -> &RetainedStore {
        &self.retained
    }

    /// A setting.
    pub fn config(&self, key: &[u8]) -> Option<&[u8]> {
        self.facts.get(CONFIG, key.to_vec())
    }

    /// The topic that an MQTT-SN client and the gateway name by this number.
    pub fn sn_topic(&self, client: &str, topic_id: u16) -> Option<&str> {
        let value = self.facts.get(SN_TOPIC, sn_topic_key(client, topic_id))?;
        core::str::from_utf8(value).ok()
    }

    /// The topics that an MQTT-SN client registered, by number.
    pub fn sn_topics(&self, client: &str) -> impl Iterator<Item = (u16, &str)> {
        let prefix = sn_topic_prefix(client);
        let from = (SN_TOPIC, prefix.clone().into_boxed_slice());
        self.facts
            .0
            .range(from..)
            .take_while(move |((kind, key), _)| *kind == SN_TOPIC && key.starts_with(&prefix))
            .filter_map(|((_, key), value)| {
                Some((sn_topic_id(key)?, core::str::from_utf8(value).ok()?))
            })
    }

    /// The user name under which a client opened its session.
    pub fn identity(&self, client: &str) -> Option<&str> {
        let value = self.facts.get(IDENTITY, client.as_bytes().to_vec())?;
        core::str::from_utf8(value).ok()
    }

    /// When something is due next, in log time.
    pub fn next_deadline(&self) -> Option<u64> {
        DueKind::ALL.into_iter().filter_map(|kind| self.next_deadline_of(kind)).min()
    }

    /// When something of this kind is.
    pub fn next_deadline_of(&self, kind: DueKind) -> Option<u64> {
        self.deadlines.next_ms(kind)
    }

    /// What is due at `now_ms`, in a fixed order. It stays due until its record is applied: who
    /// hands records over remembers what is under way.
    pub fn due(&self, now_ms: u64) -> impl Iterator<Item = &Due> {
        DueKind::ALL.into_iter().flat_map(move |kind| self.due_of(kind, now_ms))
    }

    /// What of it is of this kind.
    pub fn due_of(&self, kind: DueKind, now_ms: u64) -> impl Iterator<Item = &Due> {
        self.deadlines.due(kind, now_ms)
    }

    /// What an image holds of a session's queue and memory does not. Before the queue is touched it
    /// is read by an [`UntouchedReader`](crate::image::UntouchedReader) and given back by
    /// [`State::give_back`]; [`State::touches`] tells which records touch it.
    pub fn untouched(&self, session: SessionNumber) -> Option<Untouched> {
        if self.untouched == 0 {
            return None;
        }
        self.session(session)?.queue.untouched()
    }

    /// The messages of a session that have expired at `now_ms` and may be given up, if `sent` is
    /// the highest number that was sent on its present connection ([`QueueNumber::ZERO`] while it
    /// is down).
    ///
    /// # Panics
    /// If a part of its queue is in an image only.
    pub fn expired(
        &self,
        session: SessionNumber,
        now_ms: u64,
        sent: QueueNumber,
    ) -> Vec<NumberRange> {
        let session = self.session(session);
        session.map_or_else(Vec::new, |session| session.queue.expired(now_ms, sent))
    }

    /// How many messages the queues of all sessions hold.
    pub const fn queued(&self) -> usize {
        self.queued.messages
    }

    /// What they weigh, as [`Queue::bytes`](crate::session::Queue::bytes) of each says.
    pub const fn queued_bytes(&self) -> u64 {
        self.queued.bytes
    }

    /// What all queues take in memory to refer to them: see [`Load::memory`].
    pub const fn queue_memory(&self) -> u64 {
        self.queued.memory
    }

    /// What all sessions take in memory with their subscriptions, about, without what waits in
    /// their queues and without the copy of their filters that routes are found by
    /// ([`Index::memory`](crate::Index::memory)).
    pub const fn session_memory(&self) -> u64 {
        self.session_memory
    }

    /// How many references the state holds to the messages of each record, without those in queues
    /// that are in an image only. For checks.
    pub fn references(&self) -> BTreeMap<Lsn, u64> {
        let mut references = BTreeMap::new();
        let mut add = |lsn: Lsn| *references.entry(lsn).or_default() += 1;
        for session in self.sessions.values() {
            session.queue.held().filter(|waiting| !waiting.taken).for_each(|one| add(one.lsn));
            session.will.iter().for_each(|will| add(will.lsn));
        }
        self.wills.keys().for_each(|(_, lsn)| add(*lsn));
        let retained = self.retained.iter_from(&RetainedCursor::START);
        retained.for_each(|(_, retained)| add(retained.lsn));
        for ended in self.ended.values() {
            ended.orphans.values().for_each(|orphan| add(orphan.lsn));
        }
        references
    }

    pub(crate) fn session_numbers(&self) -> Vec<SessionNumber> {
        let mut numbers: Vec<_> = self.sessions.keys().copied().collect();
        numbers.sort_unstable();
        numbers
    }

    /// Changes a session and what is due for it.
    pub(crate) fn change<R>(
        &mut self,
        number: SessionNumber,
        change: impl FnOnce(&mut Session, &mut Counters) -> R,
    ) -> Option<R> {
        let session = self.sessions.get_mut(&number)?;
        let (before, load) = (session.timers(), session.queue.load());
        let result = change(session, &mut self.counters);
        self.queued.replace(load, session.queue.load());
        self.deadlines.change(number, before, session.timers());
        Some(result)
    }

    /// The same of its queue alone.
    pub(crate) fn change_queue<R>(
        &mut self,
        number: SessionNumber,
        change: impl FnOnce(&mut Queue, &mut Counters) -> R,
    ) -> Option<R> {
        let session = self.sessions.get_mut(&number)?;
        let before = session.timers();
        let queue = &mut *session.queue;
        let load = queue.load();
        let result = change(queue, &mut self.counters);
        self.queued.replace(load, queue.load());
        self.deadlines.change(number, before, session.timers());
        Some(result)
    }

    /// Puts a session in and counts its number.
    pub(crate) fn insert(&mut self, session: Session) {
        let number = session.number;
        self.queued.replace(Load::default(), session.queue.load());
        self.session_memory += weight::of_all(&session);
        self.next_session = self.next_session.max(number.get().saturating_add(1));
        self.deadlines.change(number, Timers::default(), session.timers());
        self.clients.insert(Arc::clone(&session.client), number);
        self.sessions.insert(number, Box::new(session));
    }

    /// Takes a session out, with what is due for it.
    pub(crate) fn take_out(&mut self, number: SessionNumber) -> Option<Session> {
        let session = *self.sessions.remove(&number)?;
        self.clients.remove(&session.client);
        self.queued.replace(session.queue.load(), Load::default());
        self.session_memory -= weight::of_all(&session);
        self.untouched -= usize::from(session.queue.untouched().is_some());
        self.deadlines.change(number, session.timers(), Timers::default());
        Some(session)
    }

    /// Sets a topic's retained message; returns the one before.
    pub(crate) fn set_retained(
        &mut self,
        topic: TopicName<'_>,
        retained: Retained,
    ) -> Option<Retained> {
        let old = self.retained.set(topic, retained);
        if let Some(at_ms) = old.as_ref().and_then(Retained::expires_ms) {
            self.deadlines.unset(at_ms, Due::Retained { topic: topic.as_str().into() });
        }
        if let Some(at_ms) = retained.expires_ms() {
            self.deadlines.set(at_ms, Due::Retained { topic: topic.as_str().into() });
        }
        old
    }

    /// Removes a topic's retained message.
    pub(crate) fn remove_retained(&mut self, topic: TopicName<'_>) -> Option<Retained> {
        let old = self.retained.remove(topic)?;
        if let Some(at_ms) = old.expires_ms() {
            self.deadlines.unset(at_ms, Due::Retained { topic: topic.as_str().into() });
        }
        Some(old)
    }

    /// Whether a fact belongs here.
    pub(crate) fn owns_fact(&self, kind: u8, key: &[u8]) -> bool {
        self.shard.owns(&owner_of(kind, key))
    }

    /// Keeps a will whose session is no more, or was taken over.
    pub(crate) fn detach_will(&mut self, session: SessionNumber, lsn: Lsn, will: DetachedWill) {
        let at_ms = will.due_ms;
        if let Some(old) = self.wills.insert((session, lsn), will) {
            self.deadlines.unset(old.due_ms, Due::Will { session, lsn });
        }
        self.deadlines.set(at_ms, Due::Will { session, lsn });
    }

    /// Whether a session has a connection.
    pub fn is_up(&self, number: SessionNumber) -> bool {
        self.session(number).is_some_and(|session| session.link == Link::Up)
    }
}
