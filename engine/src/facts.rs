//! Facts under keys: settings, MQTT-SN topics, identities, members, features.
//!
//! Kept as the bytes of key and value by the record's kind; an empty value is no fact.

use std::collections::BTreeMap;

use crate::record::{Config, Feature, Identity, Membership, Record, SnTopic};
use crate::wire::{Reader, put, put_bytes};

/// The kinds of records that are looked up here.
pub(crate) const CONFIG: u8 = 13;
pub(crate) const SN_TOPIC: u8 = 14;
pub(crate) const IDENTITY: u8 = 15;

/// Facts by the kind of their record and their key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Facts(pub(crate) BTreeMap<FactKey, Box<[u8]>>);

/// The kind of a fact's record and the fact's key, encoded.
pub(crate) type FactKey = (u8, Box<[u8]>);

impl Facts {
    pub(crate) fn get(&self, kind: u8, key: Vec<u8>) -> Option<&[u8]> {
        self.0.get(&(kind, key.into_boxed_slice())).map(|value| &**value)
    }

    pub(crate) fn set(&mut self, kind: u8, key: Vec<u8>, value: &[u8]) {
        let key = (kind, key.into_boxed_slice());
        if value.is_empty() {
            self.0.remove(&key);
        } else {
            self.0.insert(key, value.into());
        }
    }
}

/// A fact's key and value; `None` for records of other kinds.
pub(crate) fn fact_of<'a>(record: &Record<'a>) -> Option<(Vec<u8>, &'a [u8])> {
    Some(match *record {
        Record::Config(Config { key, value }) => (key.to_vec(), value),
        Record::SnTopic(SnTopic { client, topic_id, topic }) => {
            (sn_topic_key(client, topic_id), topic.as_bytes())
        }
        Record::Identity(Identity { client, user }) => {
            (client.as_bytes().to_vec(), user.as_bytes())
        }
        Record::Membership(Membership { id, bytes }) | Record::Feature(Feature { id, bytes }) => {
            (number_key(id), bytes)
        }
        _ => return None,
    })
}

/// What decides which part of the state a fact belongs to: its client, or its kind.
pub(crate) fn owner_of(kind: u8, key: &[u8]) -> Vec<u8> {
    match kind {
        SN_TOPIC => Reader::new(key).bytes().map_or_else(|_| vec![kind], <[u8]>::to_vec),
        IDENTITY => key.to_vec(),
        _ => vec![kind],
    }
}

/// A key that begins with the client, so that a client's topics stand together.
pub(crate) fn sn_topic_key(client: &str, topic_id: u16) -> Vec<u8> {
    let mut key = Vec::with_capacity(client.len() + 4);
    put_bytes(&mut key, client.as_bytes());
    key.extend_from_slice(&topic_id.to_be_bytes());
    key
}

/// The topic number at the end of a key.
pub(crate) fn sn_topic_id(key: &[u8]) -> Option<u16> {
    key.last_chunk::<2>().map(|bytes| u16::from_be_bytes(*bytes))
}

/// A key in the order of its numbers.
pub(crate) fn number_key(id: u64) -> Vec<u8> {
    id.to_be_bytes().to_vec()
}

/// What all keys of a client's MQTT-SN topics begin with.
pub(crate) fn sn_topic_prefix(client: &str) -> Vec<u8> {
    let mut prefix = Vec::with_capacity(client.len() + 2);
    put(&mut prefix, u64::try_from(client.len()).unwrap_or(u64::MAX));
    prefix.extend_from_slice(client.as_bytes());
    prefix
}

#[cfg(test)]
mod tests {
    use zzq_types::Lsn;

    use super::*;
    use crate::effect::NoEffects;
    use crate::shard::Shard;
    use crate::state::State;

    #[test]
    fn facts_are_found_by_their_keys_until_they_are_empty() {
        let mut state = State::new(Shard::WHOLE);
        let mut set = |lsn, record: &Record<'_>| {
            state.apply(Lsn::new(lsn), 0, record, &mut NoEffects);
        };
        let sn = |client, topic_id, topic| Record::SnTopic(SnTopic { client, topic_id, topic });
        set(1, &sn("a", 2, "t/2"));
        set(2, &sn("a", 1, "t/1"));
        set(3, &sn("ab", 1, "t/3"));
        set(4, &sn("a", 256, "t/4"));
        set(5, &sn("a", 2, ""));
        set(6, &Record::Config(Config { key: b"k", value: b"v" }));
        set(7, &Record::Identity(Identity { client: "a", user: "ada" }));
        set(8, &Record::Identity(Identity { client: "b", user: "bob" }));
        set(9, &Record::Identity(Identity { client: "b", user: "" }));
        assert_eq!(state.sn_topic("a", 1), Some("t/1"));
        assert_eq!(state.sn_topic("a", 2), None);
        assert_eq!(state.sn_topics("a").collect::<Vec<_>>(), [(1, "t/1"), (256, "t/4")]);
        assert_eq!(state.config(b"k"), Some(&b"v"[..]));
        assert_eq!((state.identity("a"), state.identity("b")), (Some("ada"), None));
    }

    #[test]
    fn kinds_are_those_of_the_records() {
        let config = Record::Config(Config { key: b"", value: b"" });
        let topic = Record::SnTopic(SnTopic { client: "", topic_id: 1, topic: "" });
        let identity = Record::Identity(Identity { client: "", user: "" });
        assert_eq!([config, topic, identity].map(|r| r.kind()), [CONFIG, SN_TOPIC, IDENTITY]);
    }
}
