//! Topic aliases of a connection, those that the client defined and those that it was given; they
//! die with it.
//!
//! Assumes: what a client may define was announced in CONNACK, what it may be given is bounded by
//! the same limit. A topic has up to 65 535 bytes, so that bounds the memory of a connection to
//! some MiB; what all of them take together has a bound of its own, [`AliasRoom`]. A client that
//! defines beyond it ends, so each may define a little that does not count: who takes all of it
//! ends nobody who takes no more than that.

use core::num::NonZeroU16;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustc_hash::FxHashMap;
use zzq_types::{ReasonCode, TopicName};

use crate::planted::{self, Bug};

/// A topic of so many bytes is no longer than the property that would stand for it.
const NO_LONGER: usize = 3;

/// What an alias takes beside the bytes of its topic.
const BESIDE: usize = 48;

/// What each number takes, up to the highest that a client has defined.
const SLOT: usize = size_of::<Option<Box<str>>>();

const _: () = assert!(SLOT == 16, "the documents say so");

/// What each client may define without taking of what there is for all.
const FREE: usize = 4 << 10;

/// Memory of the aliases of all connections.
#[derive(Debug)]
pub(crate) struct AliasRoom {
    bytes: AtomicUsize,
    /// Of these beyond what is free.
    taken: AtomicUsize,
    most: usize,
}

impl AliasRoom {
    /// For so many bytes.
    pub(crate) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { bytes: AtomicUsize::new(0), taken: AtomicUsize::new(0), most })
    }

    /// Bytes of all aliases that there are.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Whether there is room for so many bytes more. Of several that ask at once all may be told
    /// so.
    fn has_for(&self, more: usize) -> bool {
        self.taken.load(Ordering::Relaxed).saturating_add(more) <= self.most
    }
}

/// What one connection has taken of it, and gives back at its end.
#[derive(Debug)]
struct Taken {
    room: Arc<AliasRoom>,
    bytes: usize,
    /// So many bytes do not count.
    free: usize,
}

impl Taken {
    const fn nothing(room: Arc<AliasRoom>, free: usize) -> Self {
        Self { room, bytes: 0, free }
    }

    /// Whether it may take `bytes` in the place of what it takes.
    fn may_be(&self, bytes: usize) -> bool {
        let (before, after) = (self.counted(self.bytes), self.counted(bytes));
        after <= before || self.room.has_for(after - before)
    }

    fn set(&mut self, bytes: usize) {
        self.room.taken.fetch_add(self.counted(bytes), Ordering::Relaxed);
        self.room.taken.fetch_sub(self.counted(self.bytes), Ordering::Relaxed);
        self.room.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.room.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        self.bytes = bytes;
    }

    const fn counted(&self, bytes: usize) -> usize {
        bytes.saturating_sub(self.free)
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.set(0);
    }
}

/// What an alias for this topic takes.
const fn weight(topic: &str) -> usize {
    topic.len() + BESIDE
}

/// The aliases of one connection, from the client to the server.
//= MQTT5-3.3.2-7
#[derive(Debug)]
pub(crate) struct Aliases {
    maximum: u16,
    topics: Vec<Option<Box<str>>>,
    taken: Taken,
}

impl Aliases {
    /// Accepts aliases from 1 to `maximum`.
    pub(crate) const fn new(maximum: u16, room: Arc<AliasRoom>) -> Self {
        Self { maximum, topics: Vec::new(), taken: Taken::nothing(room, FREE) }
    }

    /// Sets `alias` to `topic`, unless that is more than is free and all connections together have
    /// no room for it.
    //= MQTT5-3.3.2-8
    //= MQTT5-3.3.2-9
    //= MQTT5-3.3.2-12
    pub(crate) fn define(&mut self, alias: u16, topic: TopicName<'_>) -> Result<(), ReasonCode> {
        let slot = self.slot(alias)?;
        let topic = topic.as_str();
        let before = self.topics.get(slot).and_then(Option::as_deref);
        if before == Some(topic) {
            return Ok(());
        }
        let further = self.further_slots(slot);
        let without = self.taken.bytes - before.map_or(0, weight);
        let bytes = without + weight(topic) + further * SLOT;
        if !self.taken.may_be(bytes) {
            return Err(ReasonCode::QuotaExceeded);
        }
        self.taken.set(bytes);
        self.topics.reserve_exact(further);
        self.topics.resize(self.topics.len() + further, None);
        self.topics[slot] = Some(topic.into()).filter(|_| !planted::is(Bug::AliasForgotten));
        Ok(())
    }

    /// How many slots it takes beyond those that are there: twice as many as before, so that those
    /// that come one after the other are not moved for each.
    fn further_slots(&self, slot: usize) -> usize {
        let there = self.topics.len();
        if slot < there {
            return 0;
        }
        (slot + 1).max(2 * there).min(self.maximum.into()) - there
    }

    /// The topic that `alias` stands for.
    pub(crate) fn resolve(&self, alias: u16) -> Result<&str, ReasonCode> {
        let slot = self.slot(alias)?;
        let topic = self.topics.get(slot).and_then(Option::as_deref);
        topic.ok_or(ReasonCode::ProtocolError)
    }

    fn slot(&self, alias: u16) -> Result<usize, ReasonCode> {
        if alias == 0 || alias > self.maximum {
            return Err(ReasonCode::TopicAliasInvalid);
        }
        Ok(usize::from(alias - 1))
    }
}

/// The aliases of one connection, from the server to the client: the topics that went out first
/// have one as long as there are any, and room for them, all others go by their name.
//= MQTT5-3.1.2-26
//= MQTT5-3.1.2-27
//= MQTT5-3.3.2-11
#[derive(Debug)]
pub(crate) struct Given {
    maximum: u16,
    aliases: FxHashMap<Box<str>, NonZeroU16>,
    taken: Taken,
}

/// How a message names its topic to one client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Naming {
    /// By its name alone.
    Name,
    /// By its name, for which this alias will stand once the message is out.
    Define(NonZeroU16),
    /// By this alias alone.
    Alias(NonZeroU16),
}

impl Given {
    /// For a client that takes aliases from 1 to `maximum`; `None` if it takes none.
    pub(crate) fn new(maximum: u16, room: &Arc<AliasRoom>) -> Option<Box<Self>> {
        // Without room its messages go by their names: nobody ends for it.
        let taken = || Taken::nothing(Arc::clone(room), 0);
        let given = || Self { maximum, aliases: FxHashMap::default(), taken: taken() };
        (maximum > 0).then(|| Box::new(given()))
    }

    /// How the next message names `topic`.
    pub(crate) fn naming(&self, topic: TopicName<'_>) -> Naming {
        let topic = topic.as_str();
        if topic.len() <= NO_LONGER {
            return Naming::Name;
        }
        if let Some(&alias) = self.aliases.get(topic) {
            return Naming::Alias(alias);
        }
        let next = u16::try_from(self.aliases.len() + 1).ok().and_then(NonZeroU16::new);
        let next = next.filter(|next| next.get() <= self.maximum);
        let next = next.filter(|_| self.taken.may_be(self.taken.bytes + weight(topic)));
        next.map_or(Naming::Name, Naming::Define)
    }

    /// A message with that name for `topic` is on its way to the client.
    pub(crate) fn went_out(&mut self, topic: TopicName<'_>, naming: Naming) {
        if let Naming::Define(alias) = naming {
            self.taken.set(self.taken.bytes + weight(topic.as_str()));
            self.aliases.insert(topic.as_str().into(), alias);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alias(number: u16) -> NonZeroU16 {
        NonZeroU16::new(number).unwrap()
    }

    fn topic(text: &str) -> TopicName<'_> {
        TopicName::new(text).unwrap()
    }

    fn much() -> Arc<AliasRoom> {
        AliasRoom::new(1 << 20)
    }

    /// A topic that takes half of what is free, with one slot.
    fn half(name: &str) -> String {
        format!("{name:-<width$}", width = FREE / 2 - BESIDE - SLOT)
    }

    #[test]
    fn who_defines_more_than_is_free_and_there_is_room_for_is_refused_and_no_other() {
        let room = AliasRoom::new(FREE / 2 + SLOT);
        let mut greedy = Aliases::new(9, Arc::clone(&room));
        let mut modest = Aliases::new(9, Arc::clone(&room));
        for number in 1..=3 {
            // In the place of the one before.
            for name in ["a", "b", "a"] {
                let name = half(&format!("{name}{number}"));
                assert_eq!(greedy.define(number, topic(&name)), Ok(()));
            }
        }
        assert_eq!(room.bytes(), FREE + FREE / 2 + SLOT);
        assert_eq!(greedy.define(4, topic("x")), Err(ReasonCode::QuotaExceeded));
        assert_eq!(greedy.resolve(4), Err(ReasonCode::ProtocolError), "nothing has come of it");
        assert_eq!(greedy.resolve(3), Ok(&*half("a3")));
        for number in 1..=2 {
            assert_eq!(modest.define(number, topic(&half("m"))), Ok(()), "that is free");
        }
        assert_eq!(modest.define(3, topic("x")), Err(ReasonCode::QuotaExceeded));
        assert_eq!(modest.define(2, topic("x")), Ok(()), "it takes less than before");
        drop(greedy);
        assert_eq!(modest.define(3, topic("x")), Ok(()));
        drop(modest);
        assert_eq!((room.bytes(), room.taken.load(Ordering::Relaxed)), (0, 0));
    }

    #[test]
    fn a_number_that_is_refused_takes_no_memory() {
        let room = AliasRoom::new(0);
        let mut aliases = Aliases::new(u16::MAX, Arc::clone(&room));
        assert_eq!(aliases.define(u16::MAX, topic("x")), Err(ReasonCode::QuotaExceeded));
        assert_eq!((aliases.topics.capacity(), room.bytes()), (0, 0));
        assert_eq!(aliases.define(9, topic("x")), Ok(()));
        assert_eq!(room.bytes(), 9 * SLOT + BESIDE + 1);
        assert_eq!(aliases.define(10, topic("x")), Ok(()));
        assert_eq!(room.bytes(), 18 * SLOT + 2 * (BESIDE + 1));
        assert_eq!(aliases.topics.capacity(), 18);
    }

    #[test]
    fn clients_are_given_aliases_as_far_as_there_is_room() {
        let room = AliasRoom::new(2 * (BESIDE + 10));
        let mut given = Given::new(9, &room).unwrap();
        for (number, name) in [(1, "1234567890"), (2, "abcdefghij")] {
            let naming = given.naming(topic(name));
            assert_eq!(naming, Naming::Define(alias(number)));
            given.went_out(topic(name), naming);
        }
        assert_eq!(room.bytes(), 2 * (BESIDE + 10));
        assert_eq!(given.naming(topic("0987654321")), Naming::Name);
        assert_eq!(given.naming(topic("abcdefghij")), Naming::Alias(alias(2)), "it has that");
        drop(given);
        assert_eq!(room.bytes(), 0);
    }

    #[test]
    fn aliases_from_one_to_the_maximum_are_taken() {
        //= MQTT5-3.3.2-8
        //= MQTT5-3.3.2-9
        //= MQTT5-3.3.2-12
        let mut aliases = Aliases::new(2, much());
        assert_eq!(aliases.define(2, topic("b")), Ok(()));
        assert_eq!(aliases.resolve(2), Ok("b"));
        assert_eq!(aliases.define(2, topic("c")), Ok(()));
        assert_eq!(aliases.resolve(2), Ok("c"));
        assert_eq!(aliases.define(0, topic("a")), Err(ReasonCode::TopicAliasInvalid));
        assert_eq!(aliases.define(3, topic("a")), Err(ReasonCode::TopicAliasInvalid));
        let mut none = Aliases::new(0, much());
        assert_eq!(none.define(1, topic("a")), Err(ReasonCode::TopicAliasInvalid));
    }

    #[test]
    fn an_alias_that_was_not_defined_is_a_protocol_error() {
        let aliases = Aliases::new(2, much());
        assert_eq!(aliases.resolve(1), Err(ReasonCode::ProtocolError));
        assert_eq!(aliases.resolve(3), Err(ReasonCode::TopicAliasInvalid));
    }

    #[test]
    fn the_first_topics_that_go_out_are_given_aliases_up_to_the_maximum() {
        //= MQTT5-3.1.2-26
        //= MQTT5-3.1.2-27
        //= MQTT5-3.3.2-11
        assert!(Given::new(0, &much()).is_none());
        let mut given = Given::new(2, &much()).unwrap();
        let mut send = |name: &str| {
            let naming = given.naming(topic(name));
            given.went_out(topic(name), naming);
            naming
        };
        assert_eq!(send("first"), Naming::Define(alias(1)));
        assert_eq!(send("t"), Naming::Name);
        assert_eq!(send("second"), Naming::Define(alias(2)));
        assert_eq!(send("third"), Naming::Name);
        assert_eq!(send("first"), Naming::Alias(alias(1)));
        assert_eq!(send("second"), Naming::Alias(alias(2)));
    }

    #[test]
    fn an_alias_stands_for_nothing_before_its_message_is_out() {
        let given = Given::new(2, &much()).unwrap();
        assert_eq!(given.naming(topic("first")), Naming::Define(alias(1)));
        assert_eq!(given.naming(topic("first")), Naming::Define(alias(1)));
        assert_eq!(given.naming(topic("other")), Naming::Define(alias(1)));
    }
}
