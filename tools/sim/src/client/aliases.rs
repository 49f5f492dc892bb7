//! The topic aliases that the broker defined on the connection of the moment.

use std::collections::BTreeMap;

use zzq_codec::Publish;
use zzq_types::TopicName;

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
        let alias = publish.topic_alias().map(core::num::NonZero::get);
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

#[cfg(test)]
mod tests {
    use zzq_codec::Delivery;
    use zzq_types::{PropertiesBuf, Property};

    use super::*;

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
