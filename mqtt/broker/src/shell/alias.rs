//! Topic aliases that a client defined on this connection; they die with it.
//!
//! Assumes: the maximum was announced in CONNACK, which bounds the memory: a topic of at most
//! 65 535 bytes for each alias.

use zzq_types::{ReasonCode, TopicName};

/// The aliases of one connection, from the client to the server.
//= MQTT5-3.3.2-7
#[derive(Debug, Default)]
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
