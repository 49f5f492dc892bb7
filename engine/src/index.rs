//! The subscription index: who wants messages of a topic. Each lane holds a full copy.
//!
//! Owns: filters and who subscribes by them, shared groups, what every lane knows of a subscribing
//! session, the match cache. Filters without wildcards are found by one hash of the topic, those
//! with wildcards by a walk of a trie over levels. Does not know: messages, connections, how
//! changes are announced. The same changes in the same order give the same answers.

mod cache;
mod group;
mod hash;
mod sessions;
mod slab;
mod subs;
mod table;
mod trie;

use zzq_types::{Filter, QoS, SubscribeOptions, SubscriptionId, TopicFilter, TopicName};

use self::cache::MatchCache;
use self::group::Groups;
use self::hash::TextHasher;
use self::sessions::Sessions;
use self::slab::Slab;
use self::subs::{Subs, Terms};
use self::table::IdTable;
use self::trie::{Trie, Walk};
use crate::planted::{self, Bug};
use crate::weight::ALLOCATION;
use crate::{SessionNumber, SubNumber};

pub(crate) use self::group::{Draw, Hashes};
pub use self::group::{GroupStrategies, GroupStrategy};
pub use self::hash::HashSeed;
pub(crate) use self::sessions::Head;
pub use self::sessions::SessionFlags;
pub(crate) use self::subs::Sub;

/// Lanes are named in masks of 64 bits.
pub const LANES_MAX: u16 = 64;

/// See the file.
#[derive(Debug)]
pub struct Index {
    hasher: TextHasher,
    entries: Slab<Entry>,
    /// Filters without wildcards, by their text.
    exact: IdTable,
    /// Filters with wildcards.
    trie: Trie,
    walk: Walk,
    sessions: Sessions,
    cache: MatchCache,
    strategies: GroupStrategies,
    /// Whose turn is first in a group that this lane has not picked for.
    first_turn: usize,
    subscriptions: usize,
    /// Of these in groups.
    shared: usize,
    /// Of all filters without wildcards, and of the group of each subscription in one.
    text_bytes: usize,
    generation: u64,
}

/// A filter that has subscriptions.
#[derive(Debug)]
struct Entry {
    key: Key,
    subs: Subs,
    groups: Option<Box<Groups>>,
}

#[derive(Debug)]
enum Key {
    Exact(Box<str>),
    /// Its node in the trie.
    Wildcard(u32),
}

const _: () = assert!(size_of::<Entry>() == 48, "what a filter takes beside its text");

/// What a filter takes beside its text and its node.
const FILTER: usize = size_of::<Entry>() + IdTable::EACH + ALLOCATION;
/// What a subscription takes: where it is listed, and where its session says that it stands. Lists
/// grow by half on an average.
const SUBSCRIPTION: usize = (size_of::<Sub>() + size_of::<u32>()) * 3 / 2;

/// A subscription as it is announced to every lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subscriber {
    /// Who subscribes.
    pub session: SessionNumber,
    /// The session's lane, below [`LANES_MAX`].
    pub lane: u16,
    /// What is now known of the session.
    pub flags: SessionFlags,
    /// When the session's connection came, or zero: the least has been there for longest. Lanes
    /// must mean the same by it.
    pub since: u32,
    /// The subscription within its session.
    pub sub: SubNumber,
    /// QoS is the granted one; retain handling is no matter of the index.
    pub options: SubscribeOptions,
    /// Sent along with each message.
    pub id: Option<SubscriptionId>,
}

/// A member of a group that takes over a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Picked {
    /// The member.
    pub session: SessionNumber,
    /// Its lane.
    pub lane: u16,
    /// Its subscription in the group.
    pub sub: SubNumber,
    /// QoS of the delivery.
    pub qos: QoS,
    /// The identifier that is sent along.
    pub id: Option<SubscriptionId>,
}

/// What an insertion did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inserted {
    /// The session did not subscribe by this filter before.
    New,
    /// It did, with other options perhaps.
    Replaced,
}

impl Index {
    /// An empty index, whose match cache takes at most `cache_bytes`.
    pub fn new(seed: HashSeed, cache_bytes: usize) -> Self {
        Self {
            hasher: TextHasher::new(seed),
            entries: Slab::new(),
            exact: IdTable::new(),
            trie: Trie::new(),
            walk: Walk::default(),
            sessions: Sessions::new(),
            cache: MatchCache::new(cache_bytes),
            strategies: GroupStrategies::default(),
            first_turn: 0,
            subscriptions: 0,
            shared: 0,
            text_bytes: 0,
            generation: 0,
        }
    }

    /// Sets how shared groups choose. Lanes that begin at different turns use members evenly also
    /// where each of them has little to give.
    pub fn set_strategies(&mut self, strategies: GroupStrategies, first_turn: usize) {
        for entry in self.entries.values_mut() {
            if let Some(groups) = &mut entry.groups {
                groups.renew(&strategies, first_turn);
            }
        }
        (self.strategies, self.first_turn) = (strategies, first_turn);
        self.generation += 1;
    }

    /// Adds a subscription, or replaces the one that the session has by this filter (and in this
    /// group).
    ///
    /// # Panics
    /// On a lane that is not below [`LANES_MAX`].
    //= MQTT311-3.8.4-3
    //= MQTT5-3.8.4-3
    pub fn insert(&mut self, filter: Filter<'_>, subscriber: Subscriber) -> Inserted {
        assert!(subscriber.lane < LANES_MAX, "lane {} of at most 64", subscriber.lane);
        self.generation += 1;
        let Subscriber { session, lane, flags, since, sub, options, id } = subscriber;
        let entry = self.make_entry(filter.topic_filter());
        let lane = u8::try_from(lane).unwrap_or(u8::MAX);
        let head = Head { number: session, since, load: 0, lane, flags };
        let known = self.sessions.slot(session).filter(|_| {
            let (entry, heads) = (&self.entries[entry], self.sessions.heads());
            entry.find(heads, filter.group(), session).is_some()
        });
        let slot = match known {
            Some(slot) => {
                self.sessions.refresh(slot, head);
                slot
            }
            None => self.sessions.stand(head, entry),
        };
        let sub = Sub { slot, number: sub, terms: Terms::new(options, id) };
        let heads = self.sessions.heads();
        let entry = &mut self.entries[entry];
        let replaced = match filter.group() {
            None => entry.subs.put(heads, sub),
            Some(name) => {
                let new = || (self.strategies.of(name), self.first_turn);
                entry.groups.get_or_insert_default().put(heads, name, sub, new)
            }
        };
        assert!(replaced.is_some() == known.is_some(), "a session stands where it is listed");
        if replaced.is_some() {
            return Inserted::Replaced;
        }
        self.subscriptions += 1;
        self.shared += usize::from(filter.group().is_some());
        self.text_bytes += filter.group().map_or(0, str::len);
        Inserted::New
    }

    /// Removes a session's subscription by exactly this filter; says whether there was one.
    //= MQTT311-3.10.4-1
    //= MQTT311-3.10.4-2
    //= MQTT5-3.10.4-1
    //= MQTT5-3.10.4-2
    pub fn remove(&mut self, filter: Filter<'_>, session: SessionNumber) -> bool {
        if planted::is(Bug::UnsubscribedStays) {
            return true;
        }
        let Some(slot) = self.sessions.slot(session) else { return false };
        let Some(id) = self.find_entry(filter.topic_filter()) else { return false };
        let heads = self.sessions.heads();
        let entry = &mut self.entries[id];
        let removed = match (filter.group(), &mut entry.groups) {
            (None, _) => entry.subs.remove(heads, session).is_some(),
            (Some(name), Some(groups)) => groups.remove(heads, name, session),
            (Some(_), None) => false,
        };
        if !removed {
            return false;
        }
        self.generation += 1;
        self.subscriptions -= 1;
        self.shared -= usize::from(filter.group().is_some());
        self.text_bytes -= filter.group().map_or(0, str::len);
        self.sessions.leave(slot, id);
        self.drop_if_empty(id);
        true
    }

    /// Removes all subscriptions of a session; says how many there were.
    pub fn remove_session(&mut self, session: SessionNumber) -> usize {
        let Some(slot) = self.sessions.slot(session) else { return 0 };
        self.generation += 1;
        // Its slot stays readable until another session takes it.
        let mut standings = self.sessions.take(slot);
        standings.sort_unstable();
        standings.dedup();
        let before = self.subscriptions;
        for id in standings {
            let (own, from_groups, name_bytes) =
                self.entries[id].remove(self.sessions.heads(), session);
            self.subscriptions -= own + from_groups;
            self.shared -= from_groups;
            self.text_bytes -= name_bytes;
            self.drop_if_empty(id);
        }
        before - self.subscriptions
    }

    /// Picks a member of a shared group for a message at `qos` that another member left; `None` if
    /// the group has no member that could take it, or the filter names no group. Its topic and its
    /// publisher are not known any more: where they would choose, members take turns.
    pub fn pick(&mut self, filter: Filter<'_>, qos: QoS) -> Option<Picked> {
        let name = filter.group()?;
        let draw = Draw { qos, hashes: None };
        let entry = self.find_entry(filter.topic_filter())?;
        let groups = self.entries[entry].groups.as_mut()?;
        let sub = groups.draw_one(self.sessions.heads(), name, draw)?;
        groups.taken_one(self.sessions.heads_mut(), name, qos);
        let head = &self.sessions.heads()[sub.slot as usize];
        let (qos, id) = (qos.min(sub.terms.qos()), sub.terms.id());
        Some(Picked { session: head.number, lane: u16::from(head.lane), sub: sub.number, qos, id })
    }

    /// The members of a shared group: their sessions with their lanes and how they stand.
    pub fn members(
        &self,
        filter: Filter<'_>,
    ) -> impl Iterator<Item = (SessionNumber, u16, SessionFlags)> + use<'_> {
        let entry = self.find_entry(filter.topic_filter()).map(|id| &self.entries[id]);
        let groups = entry.and_then(|entry| entry.groups.as_ref()).zip(filter.group());
        let members = groups.map_or(&[][..], |(groups, name)| groups.members(name));
        let heads = self.sessions.heads();
        members.iter().map(|sub| {
            let head = &heads[sub.slot as usize];
            (head.number, u16::from(head.lane), head.flags)
        })
    }

    /// Whether a shared group has members.
    pub fn has_members(&self, filter: Filter<'_>) -> bool {
        let entry = self.find_entry(filter.topic_filter()).map(|id| &self.entries[id]);
        let groups = entry.and_then(|entry| entry.groups.as_ref());
        let name = filter.group();
        groups.zip(name).is_some_and(|(groups, name)| groups.has_members(name))
    }

    /// Sets what is known of a session, see [`Subscriber`]; false if it has no subscription.
    pub fn set_flags(&mut self, session: SessionNumber, flags: SessionFlags, since: u32) -> bool {
        let Some(head) = self.sessions.head_mut(session) else { return false };
        (head.flags, head.since) = (flags, since);
        self.generation += 1;
        true
    }

    /// Sets how much a session is owed; false if it has no subscription. Until it is set again,
    /// picks that are taken count on.
    pub fn set_load(&mut self, session: SessionNumber, load: u16) -> bool {
        let Some(head) = self.sessions.head_mut(session) else { return false };
        head.load = load;
        true
    }

    /// What is known of a session that has a subscription, and since when.
    pub fn flags(&self, session: SessionNumber) -> Option<(SessionFlags, u32)> {
        let slot = self.sessions.slot(session)?;
        let head = &self.sessions.heads()[slot as usize];
        Some((head.flags, head.since))
    }

    /// The lane of a session that has a subscription.
    pub fn lane(&self, session: SessionNumber) -> Option<u16> {
        let slot = self.sessions.slot(session)?;
        Some(u16::from(self.sessions.heads()[slot as usize].lane))
    }

    /// How many filters there are; those of groups are not counted apart from plain ones.
    pub const fn filters(&self) -> usize {
        self.entries.len()
    }

    /// How many subscriptions there are.
    pub const fn subscriptions(&self) -> usize {
        self.subscriptions
    }

    /// How many of them are in groups.
    pub const fn shared_subscriptions(&self) -> usize {
        self.shared
    }

    /// How many sessions have a subscription.
    pub const fn sessions(&self) -> usize {
        self.sessions.len()
    }

    /// What it takes in memory without the match cache, about: filters once, subscriptions and
    /// sessions. Of what is free in tables and lists the usual part is counted.
    pub const fn memory(&self) -> u64 {
        let filters = self.entries.len() * FILTER + self.text_bytes + self.trie.memory();
        let subscriptions = self.subscriptions * SUBSCRIPTION + self.shared * Groups::EACH;
        (filters + subscriptions + self.sessions.memory()) as u64
    }

    /// How many bytes the match cache takes.
    pub const fn cache_bytes(&self) -> usize {
        self.cache.bytes()
    }

    /// Changes whenever a route may come out differently.
    pub const fn generation(&self) -> u64 {
        self.generation
    }

    /// The session of a subscription.
    pub(crate) fn head(&self, sub: Sub) -> &Head {
        &self.sessions.heads()[sub.slot as usize]
    }

    /// How a group chooses.
    pub fn strategy(&self, group: &str) -> GroupStrategy {
        self.strategies.of(group)
    }

    /// The entries whose filter matches `topic`, each once; gives the topic's hash.
    pub(crate) fn matches(&mut self, topic: TopicName<'_>, found: &mut Vec<u32>) -> u32 {
        let topic = topic.as_str();
        let hash = self.hasher.hash(topic);
        found.clear();
        if self.trie.is_empty() {
            found.extend(self.exact_entry(hash, topic));
            return hash;
        }
        if let Some(entries) = self.cache.find(hash, topic) {
            found.extend_from_slice(entries);
            return hash;
        }
        found.extend(self.exact_entry(hash, topic));
        self.trie.matches(&self.hasher, topic, &mut self.walk, |entry| found.push(entry));
        self.cache.learn(&self.hasher, hash, topic, found);
        hash
    }

    /// Visits the plain subscriptions of an entry, by session number.
    #[inline]
    pub(crate) fn for_each_sub(&self, entry: u32, mut visit: impl FnMut(&Head, Sub)) {
        let heads = self.sessions.heads();
        self.entries[entry].subs.for_each(|sub| visit(&heads[sub.slot as usize], sub));
    }

    pub(crate) fn has_groups(&self, entry: u32) -> bool {
        self.entries[entry].groups.is_some()
    }

    /// Picks members of the groups of an entry.
    pub(crate) fn draw(&mut self, entry: u32, draw: Draw, mut picked: impl FnMut(&Head, Sub)) {
        let heads = self.sessions.heads();
        if let Some(groups) = &mut self.entries[entry].groups {
            groups.draw(heads, draw, |sub| picked(&heads[sub.slot as usize], sub));
        }
    }

    /// What was drawn last of the groups of an entry counts.
    pub(crate) fn taken(&mut self, entry: u32, qos: QoS) {
        if let Some(groups) = &mut self.entries[entry].groups {
            groups.taken(self.sessions.heads_mut(), qos);
        }
    }

    /// Checks what holds at all times.
    #[cfg(test)]
    pub(crate) fn check(&self) {
        let wildcard = |entry: &Entry| matches!(entry.key, Key::Wildcard(_));
        self.trie.check(self.entries.iter().filter(|(_, entry)| wildcard(entry)).count());
        let of_entry = |entry: &Entry| {
            let text = if let Key::Exact(text) = &entry.key { text.len() } else { 0 };
            text + entry.groups.as_ref().map_or(0, |groups| groups.name_bytes())
        };
        let text_bytes: usize = self.entries.iter().map(|(_, entry)| of_entry(entry)).sum();
        assert_eq!(text_bytes, self.text_bytes, "texts are counted");
        assert_eq!(self.memory() == 0, self.subscriptions == 0, "what is gone takes nothing");
        for (id, entry) in self.entries.iter() {
            assert!(!entry.subs.is_empty() || entry.groups.is_some(), "{entry:?} is empty");
            match &entry.key {
                Key::Exact(text) => {
                    assert!(self.exact_entry(self.hasher.hash(text), text) == Some(id));
                }
                Key::Wildcard(node) => assert!(self.trie.entry(*node) == id),
            }
        }
    }

    fn exact_entry(&self, hash: u32, topic: &str) -> Option<u32> {
        let is = |id| matches!(&self.entries[id].key, Key::Exact(text) if **text == *topic);
        self.exact.find(hash, is)
    }

    fn find_entry(&self, filter: TopicFilter<'_>) -> Option<u32> {
        let text = filter.as_str();
        if filter.has_wildcard() {
            return self.trie.find(&self.hasher, text).map(|node| self.trie.entry(node));
        }
        self.exact_entry(self.hasher.hash(text), text)
    }

    fn make_entry(&mut self, filter: TopicFilter<'_>) -> u32 {
        if let Some(id) = self.find_entry(filter) {
            return id;
        }
        let text = filter.as_str();
        let key = Key::Exact("".into());
        let id = self.entries.insert(Entry { key, subs: Subs::None, groups: None });
        self.entries[id].key = if filter.has_wildcard() {
            self.cache.wildcard_changed(&self.hasher, text);
            Key::Wildcard(self.trie.insert(&self.hasher, text, id))
        } else {
            let hash = self.hasher.hash(text);
            self.cache.exact_changed(hash, text);
            self.exact.insert(hash, id);
            self.text_bytes += text.len();
            Key::Exact(text.into())
        };
        id
    }

    fn drop_if_empty(&mut self, id: u32) {
        let entry = &mut self.entries[id];
        if entry.groups.as_ref().is_some_and(|groups| groups.is_empty()) {
            entry.groups = None;
        }
        if !entry.subs.is_empty() || entry.groups.is_some() {
            return;
        }
        match self.entries.remove(id).key {
            Key::Exact(text) => {
                let hash = self.hasher.hash(&text);
                self.cache.exact_changed(hash, &text);
                self.exact.remove(hash, id);
                self.text_bytes -= text.len();
            }
            Key::Wildcard(node) => {
                self.cache.wildcard_changed(&self.hasher, &self.trie.filter(node));
                self.trie.remove(&self.hasher, node);
            }
        }
    }
}

impl Entry {
    /// Removes a session that stands here; says how many subscriptions it had, how many more in
    /// groups, and what the names of these have together.
    fn remove(&mut self, heads: &[Head], session: SessionNumber) -> (usize, usize, usize) {
        let groups = self.groups.as_mut();
        let (from_groups, name_bytes) =
            groups.map_or((0, 0), |all| all.remove_everywhere(heads, session));
        let own = usize::from(self.subs.remove(heads, session).is_some());
        assert!(own + from_groups > 0, "a session stands where it is listed");
        (own, from_groups, name_bytes)
    }

    fn find(&self, heads: &[Head], group: Option<&str>, number: SessionNumber) -> Option<Sub> {
        match group {
            None => self.subs.find(heads, number),
            Some(name) => self.groups.as_ref()?.find(heads, name, number),
        }
    }
}
