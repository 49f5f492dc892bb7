//! Topic aliases of a connection, those that the client defined and those that it was given; they
//! die with it.
//!
//! Assumes: what a client may define was announced in CONNACK, what it may be given is bounded by
//! the same limit. A topic has up to 65 535 bytes, so that bounds the memory of a connection to
//! some MiB; what all of them take together has a bound of its own, [`AliasRoom`].

use core::num::NonZeroU16;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustc_hash::FxHashMap;
use zzq_types::{ReasonCode, TopicName};

/// A topic of so many bytes is no longer than the property that would stand for it.
const NO_LONGER: usize = 3;

/// What an alias takes beside the bytes of its topic.
const BESIDE: usize = 48;

/// Memory of the aliases of all connections.
#[derive(Debug)]
pub(crate) struct AliasRoom {
    taken: AtomicUsize,
    most: usize,
}

impl AliasRoom {
    /// For so many bytes.
    pub(crate) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { taken: AtomicUsize::new(0), most })
    }

    /// Bytes that are taken.
    pub(crate) fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }

    /// Whether there is room for an alias of `topic`. Of several that ask at once all may be told
    /// so.
    fn has_for(&self, topic: &str) -> bool {
        self.taken().saturating_add(topic.len() + BESIDE) <= self.most
    }
}

/// What one connection has taken of it, and gives back at its end.
#[derive(Debug)]
struct Taken {
    room: Arc<AliasRoom>,
    bytes: usize,
}

impl Taken {
    const fn nothing(room: Arc<AliasRoom>) -> Self {
        Self { room, bytes: 0 }
    }

    fn take(&mut self, topic: &str) {
        self.bytes += topic.len() + BESIDE;
        self.room.taken.fetch_add(topic.len() + BESIDE, Ordering::Relaxed);
    }

    fn give_back(&mut self, topic: &str) {
        self.bytes -= topic.len() + BESIDE;
        self.room.taken.fetch_sub(topic.len() + BESIDE, Ordering::Relaxed);
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.room.taken.fetch_sub(self.bytes, Ordering::Relaxed);
    }
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
        Self { maximum, topics: Vec::new(), taken: Taken::nothing(room) }
    }

    /// Sets `alias` to `topic`, unless all connections together have no room for it.
    //= MQTT5-3.3.2-8
    //= MQTT5-3.3.2-9
    //= MQTT5-3.3.2-12
    pub(crate) fn define(&mut self, alias: u16, topic: TopicName<'_>) -> Result<(), ReasonCode> {
        let slot = self.slot(alias)?;
        if self.topics.len() <= slot {
            self.topics.resize(slot + 1, None);
        }
        let topic = topic.as_str();
        if self.topics[slot].as_deref() == Some(topic) {
            return Ok(());
        }
        if let Some(before) = self.topics[slot].take() {
            self.taken.give_back(&before);
        }
        if !self.taken.room.has_for(topic) {
            return Err(ReasonCode::QuotaExceeded);
        }
        self.taken.take(topic);
        self.topics[slot] = Some(topic.into());
        Ok(())
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
        let taken = || Taken::nothing(Arc::clone(room));
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
        next.filter(|_| self.taken.room.has_for(topic)).map_or(Naming::Name, Naming::Define)
    }

    /// A message with that name for `topic` is on its way to the client.
    pub(crate) fn went_out(&mut self, topic: TopicName<'_>, naming: Naming) {
        if let Naming::Define(alias) = naming {
            self.taken.take(topic.as_str());
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

    #[test]
    fn all_connections_have_room_for_so_much_and_give_it_back() {
        let room = AliasRoom::new(2 * (BESIDE + 10));
        let [one, two] = ["1234567890", "abcdefghij"];
        let mut aliases = Aliases::new(9, Arc::clone(&room));
        let mut given = Given::new(9, &room).unwrap();
        for _ in 0..5 {
            assert_eq!(aliases.define(1, topic(one)), Ok(()), "in the place of the one before");
        }
        let naming = given.naming(topic(two));
        assert_eq!(naming, Naming::Define(alias(1)));
        given.went_out(topic(two), naming);
        assert_eq!(room.taken(), 2 * (BESIDE + 10));
        assert_eq!(aliases.define(2, topic("xyz")), Err(ReasonCode::QuotaExceeded));
        assert_eq!(given.naming(topic(one)), Naming::Name);
        assert_eq!(given.naming(topic(two)), Naming::Alias(alias(1)), "it has that");
        assert_eq!(aliases.define(1, topic(two)), Ok(()), "it has room for that");
        drop(given);
        assert_eq!(aliases.define(2, topic("xyz")), Ok(()));
        drop(aliases);
        assert_eq!(room.taken(), 0);
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
