//! Topic aliases of a connection, those that the client defined and those that it was given; they
//! die with it.
//!
//! Assumes: what a client may define was announced in CONNACK, what it may be given is bounded by
//! the same limit. That bounds the memory: a topic of at most 65 535 bytes for each alias.

use core::num::NonZeroU16;

use rustc_hash::FxHashMap;
use zzq_types::{ReasonCode, TopicName};

/// A topic of so many bytes is no longer than the property that would stand for it.
const NO_LONGER: usize = 3;

/// The aliases of one connection, from the client to the server.
//= MQTT5-3.3.2-7
#[derive(Debug)]
pub(crate) struct Aliases {
    maximum: u16,
    topics: Vec<Option<Box<str>>>,
}

impl Aliases {
    /// Accepts aliases from 1 to `maximum`.
    pub(crate) const fn new(maximum: u16) -> Self {
        Self { maximum, topics: Vec::new() }
    }

    /// Sets `alias` to `topic`.
    //= MQTT5-3.3.2-8
    //= MQTT5-3.3.2-9
    //= MQTT5-3.3.2-12
    pub(crate) fn define(&mut self, alias: u16, topic: TopicName<'_>) -> Result<(), ReasonCode> {
        let slot = self.slot(alias)?;
        if self.topics.len() <= slot {
            self.topics.resize(slot + 1, None);
        }
        self.topics[slot] = Some(topic.as_str().into());
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
/// have one as long as there are any, all others go by their name.
//= MQTT5-3.1.2-26
//= MQTT5-3.1.2-27
//= MQTT5-3.3.2-11
#[derive(Debug)]
pub(crate) struct Given {
    maximum: u16,
    aliases: FxHashMap<Box<str>, NonZeroU16>,
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
    pub(crate) fn new(maximum: u16) -> Option<Box<Self>> {
        (maximum > 0).then(|| Box::new(Self { maximum, aliases: FxHashMap::default() }))
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
        next.filter(|next| next.get() <= self.maximum).map_or(Naming::Name, Naming::Define)
    }

    /// A message with that name for `topic` is on its way to the client.
    pub(crate) fn went_out(&mut self, topic: TopicName<'_>, naming: Naming) {
        if let Naming::Define(alias) = naming {
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

    #[test]
    fn aliases_from_one_to_the_maximum_are_taken() {
        //= MQTT5-3.3.2-8
        //= MQTT5-3.3.2-9
        //= MQTT5-3.3.2-12
        let mut aliases = Aliases::new(2);
        assert_eq!(aliases.define(2, topic("b")), Ok(()));
        assert_eq!(aliases.resolve(2), Ok("b"));
        assert_eq!(aliases.define(2, topic("c")), Ok(()));
        assert_eq!(aliases.resolve(2), Ok("c"));
        assert_eq!(aliases.define(0, topic("a")), Err(ReasonCode::TopicAliasInvalid));
        assert_eq!(aliases.define(3, topic("a")), Err(ReasonCode::TopicAliasInvalid));
        assert_eq!(Aliases::new(0).define(1, topic("a")), Err(ReasonCode::TopicAliasInvalid));
    }

    #[test]
    fn an_alias_that_was_not_defined_is_a_protocol_error() {
        let aliases = Aliases::new(2);
        assert_eq!(aliases.resolve(1), Err(ReasonCode::ProtocolError));
        assert_eq!(aliases.resolve(3), Err(ReasonCode::TopicAliasInvalid));
    }

    #[test]
    fn the_first_topics_that_go_out_are_given_aliases_up_to_the_maximum() {
        //= MQTT5-3.1.2-26
        //= MQTT5-3.1.2-27
        //= MQTT5-3.3.2-11
        assert!(Given::new(0).is_none());
        let mut given = Given::new(2).unwrap();
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
        let given = Given::new(2).unwrap();
        assert_eq!(given.naming(topic("first")), Naming::Define(alias(1)));
        assert_eq!(given.naming(topic("first")), Naming::Define(alias(1)));
        assert_eq!(given.naming(topic("other")), Naming::Define(alias(1)));
    }
}
