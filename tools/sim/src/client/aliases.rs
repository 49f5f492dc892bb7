//! The topic aliases of the connection of the moment: those that the broker defined, and those that
//! the client did. None outlives it.

use std::collections::BTreeMap;

use core::num::NonZero;

use zzq_codec::Publish;
use zzq_types::TopicName;

use crate::chance::Chance;

/// See the file.
#[derive(Debug, Default)]
pub(super) struct Aliases(BTreeMap<u16, String>);

impl Aliases {
    /// The topic of a message, which may define an alias up to `maximum`; `Err`: it names none.
    pub(super) fn topic_of(
        &mut self,
        publish: &Publish<'_>,
        maximum: u16,
    ) -> Result<String, String> {
        let alias = publish.topic_alias().map(NonZero::get);
        if let Some(alias) = alias.filter(|alias| *alias > maximum) {
            return Err(format!("topic alias {alias}, {maximum} are taken"));
        }
        let name = publish.topic.map(TopicName::as_str);
        match (name, alias) {
            (Some(name), Some(alias)) => {
                self.0.insert(alias, name.into());
                Ok(name.into())
            }
            (Some(name), None) => Ok(name.into()),
            (None, Some(alias)) => {
                self.0.get(&alias).cloned().ok_or(format!("topic alias {alias} stands for nothing"))
            }
            (None, None) => Err("a message without a topic".into()),
        }
    }
}

/// Those that the client defined.
#[derive(Debug, Default)]
pub(super) struct Own {
    /// How many the broker takes.
    most: u16,
    topics: BTreeMap<NonZero<u16>, String>,
}

/// How a message names its topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Naming {
    /// By its name.
    Plain,
    /// By its name, and this alias stands for it from now on.
    Defines(NonZero<u16>),
    /// By this alias alone.
    By(NonZero<u16>),
}

impl Own {
    /// For a connection on which the broker takes so many.
    pub(super) fn new(most: u16) -> Self {
        Self { most, topics: BTreeMap::new() }
    }

    /// How the next message to a topic names it; once in so many it gives it an alias, which stood
    /// for another one before where there are few.
    pub(super) fn name(&mut self, topic: &str, defines: u64, chance: &mut Chance) -> Naming {
        if self.most == 0 || defines == 0 {
            return Naming::Plain;
        }
        let known = self.topics.iter().find(|(_, known)| *known == topic).map(|(alias, _)| *alias);
        if let Some(alias) = known.filter(|_| !chance.once_in(4)) {
            return Naming::By(alias);
        }
        let alias = NonZero::new(1 + u16::try_from(chance.index(self.most.into())).unwrap_or(0));
        let Some(alias) = alias.filter(|_| chance.once_in(defines)) else { return Naming::Plain };
        self.topics.insert(alias, topic.into());
        Naming::Defines(alias)
    }
}

#[cfg(test)]
mod tests {
    use zzq_codec::Delivery;
    use zzq_types::{PropertiesBuf, Property};

    use super::*;

    #[test]
    fn a_topic_goes_by_an_alias_that_stands_for_it_and_by_no_other() {
        let mut own = Own::new(2);
        let mut chance = Chance::new(1, "aliases");
        let mut means: BTreeMap<NonZero<u16>, &str> = BTreeMap::new();
        let mut by_alias = 0;
        for _ in 0..200 {
            let topic = *chance.pick(&["a", "b", "c"]);
            match own.name(topic, 2, &mut chance) {
                Naming::Plain => {}
                Naming::Defines(alias) => {
                    assert!(alias.get() <= 2);
                    means.insert(alias, topic);
                }
                Naming::By(alias) => {
                    assert_eq!(means.get(&alias), Some(&topic));
                    by_alias += 1;
                }
            }
        }
        assert!(by_alias > 20, "{by_alias}");
        assert_eq!(Own::new(0).name("a", 1, &mut chance), Naming::Plain);
        assert_eq!(Own::new(9).name("a", 0, &mut chance), Naming::Plain);
    }

    #[test]
    fn an_alias_stands_for_its_last_topic_and_others_for_nothing() {
        let mut aliases = Aliases::default();
        let mut take = |topic: Option<&str>, alias: Option<u16>| {
            let mut properties = PropertiesBuf::new();
            alias.map(|alias| properties.push(Property::TopicAlias(alias)));
            let publish = Publish {
                dup: false,
                retain: false,
                delivery: Delivery::AtMostOnce,
                topic: topic.and_then(|topic| TopicName::new(topic).ok()),
                properties: properties.as_properties(),
                payload: b"",
            };
            aliases.topic_of(&publish, 2)
        };
        assert_eq!(take(Some("a"), None), Ok("a".into()));
        assert_eq!(take(Some("a"), Some(2)), Ok("a".into()));
        assert_eq!(take(None, Some(2)), Ok("a".into()));
        assert_eq!(take(Some("b"), Some(2)), Ok("b".into()));
        assert_eq!(take(None, Some(2)), Ok("b".into()));
        assert!(take(None, Some(1)).is_err());
        assert!(take(None, None).is_err());
        assert!(take(Some("a"), Some(3)).is_err());
    }
}
