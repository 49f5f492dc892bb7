//! Messages that are held in memory: one allocation each, shared by all who wait for it.
//!
//! Owns: which messages a lane keeps. In memory mode it keeps what anybody refers to, and lets it
//! go with the last reference. With a log it keeps what will be sent soon, within its budget; the
//! log has all of them.

use bytes::Bytes;
use rustc_hash::FxHashMap;
use zzq_types::{Lsn, Properties, TopicName};

use super::journal::is_own;
use super::wire::Content;

/// What takes the bytes of a message apart, and what is no byte of it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Head {
    topic_len: u16,
    properties_len: u32,
    expires_ms: Option<u64>,
    time_ms: u64,
}

impl Head {
    /// Appends the bytes of a message.
    pub(super) fn write(content: Content<'_>, out: &mut Vec<u8>) -> Self {
        let (topic, properties) = (content.topic.as_str(), content.properties.as_bytes());
        out.reserve(topic.len() + properties.len() + content.payload.len());
        out.extend_from_slice(topic.as_bytes());
        out.extend_from_slice(properties);
        out.extend_from_slice(content.payload);
        // A topic's length is two bytes on the wire, and so are all lengths within properties
        // whose sum a packet bounds.
        let lens = (u16::try_from(topic.len()), u32::try_from(properties.len()));
        assert!(lens.0.is_ok() && lens.1.is_ok(), "a message fits a packet");
        Self {
            topic_len: lens.0.unwrap_or(0),
            properties_len: lens.1.unwrap_or(0),
            expires_ms: content.expires_ms,
            time_ms: content.time_ms,
        }
    }

    /// The message of which these are the bytes.
    pub(super) fn content<'a>(&self, bytes: &'a [u8]) -> Content<'a> {
        let (topic, rest) = bytes.split_at(usize::from(self.topic_len));
        let (properties, payload) = rest.split_at(self.properties_len as usize);
        let topic = core::str::from_utf8(topic).ok().and_then(|text| TopicName::new(text).ok());
        // It was one when it was copied.
        assert!(topic.is_some(), "a message has a topic");
        let Some(topic) = topic else { unreachable!() };
        Content {
            topic,
            properties: Properties::from_checked(properties),
            payload,
            expires_ms: self.expires_ms,
            time_ms: self.time_ms,
            place: None,
        }
    }
}

/// A message by itself. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    head: Head,
    bytes: Bytes,
}

impl Message {
    /// Copies a message.
    pub(crate) fn copy(content: Content<'_>) -> Self {
        let mut bytes = Vec::new();
        let head = Head::write(content, &mut bytes);
        Self { head, bytes: bytes.into() }
    }

    /// The message to be sent.
    pub(super) fn content(&self) -> Content<'_> {
        self.head.content(&self.bytes)
    }

    pub(super) fn weight(&self) -> usize {
        self.bytes.len() + Store::BESIDE
    }
}

#[derive(Debug)]
struct Held {
    message: Message,
    references: u32,
}

/// A table for so many messages stays as it is.
const SPACIOUS: usize = 4096;

/// The messages that a lane holds.
#[derive(Debug)]
pub(crate) struct Store {
    held: FxHashMap<Lsn, Held>,
    bytes: usize,
    /// Of these what no log has.
    unlogged: usize,
    most: usize,
}

impl Store {
    /// What a message takes beside its bytes.
    pub(super) const BESIDE: usize = size_of::<Held>() + size_of::<Lsn>();

    /// One that keeps at most so many bytes of what the log has too.
    pub(crate) fn new(most: usize) -> Self {
        Self { held: FxHashMap::default(), bytes: 0, unlogged: 0, most }
    }

    /// Whether another message of this size is kept although the log has it.
    pub(super) const fn has_room(&self, size: usize) -> bool {
        self.bytes + size <= self.most
    }

    /// What the messages take that no log has.
    pub(super) const fn unlogged_bytes(&self) -> usize {
        self.unlogged
    }

    /// Keeps a message for so many references.
    pub(super) fn keep(&mut self, lsn: Lsn, message: Message, references: u32) {
        assert!(references > 0, "somebody waits for what is kept");
        let weight = message.weight();
        let before = self.held.insert(lsn, Held { message, references });
        let before = before.map_or(0, |before| before.message.weight());
        self.weigh(lsn, before, weight);
    }

    fn weigh(&mut self, lsn: Lsn, before: usize, now: usize) {
        self.bytes = self.bytes - before + now;
        if is_own(lsn) {
            self.unlogged = self.unlogged - before + now;
        }
    }

    /// One more reference, if the message is here.
    pub(super) fn refer(&mut self, lsn: Lsn) {
        if let Some(held) = self.held.get_mut(&lsn) {
            held.references += 1;
        }
    }

    /// One reference less, if the message is here.
    pub(super) fn release(&mut self, lsn: Lsn) {
        let Some(held) = self.held.get_mut(&lsn) else { return };
        held.references -= 1;
        if held.references == 0 {
            self.forget(lsn);
        }
    }

    /// Lets a message go that the log has too.
    pub(super) fn forget(&mut self, lsn: Lsn) {
        if let Some(held) = self.held.remove(&lsn) {
            self.weigh(lsn, held.message.weight(), 0);
            self.shrink();
        }
    }

    /// Keeps no table of a size that was needed once, for a burst. It is copied once in as many
    /// removals as it has messages.
    fn shrink(&mut self) {
        let (len, capacity) = (self.held.len(), self.held.capacity());
        if capacity > SPACIOUS && len < capacity / 8 {
            self.held.shrink_to(capacity / 4);
        }
    }

    /// The message, if it is here.
    pub(super) fn get(&self, lsn: Lsn) -> Option<&Message> {
        self.held.get(&lsn).map(|held| &held.message)
    }
}

#[cfg(test)]
mod tests {
    use zzq_types::{PropertiesBuf, Property};

    use super::*;

    fn message(payload: &[u8]) -> Message {
        let topic = TopicName::new("a/b").unwrap();
        let properties = Properties::EMPTY;
        Message::copy(Content {
            topic,
            properties,
            payload,
            expires_ms: None,
            time_ms: 9,
            place: None,
        })
    }

    #[test]
    fn a_message_gives_back_what_it_was_made_of() {
        let mut properties = PropertiesBuf::new();
        properties.push(Property::ContentType("x")).unwrap();
        let content = Content {
            topic: TopicName::new("\u{FEFF}/t").unwrap(),
            properties: properties.as_properties(),
            payload: b"p",
            expires_ms: Some(7),
            time_ms: 9,
            place: None,
        };
        let copy = Message::copy(content);
        let back = copy.content();
        assert_eq!((back.topic, back.properties), (content.topic, content.properties));
        assert_eq!((back.payload, back.expires_ms), (content.payload, content.expires_ms));
        assert_eq!(back.time_ms, content.time_ms);
    }

    #[test]
    fn a_message_leaves_with_its_last_reference_and_takes_its_bytes_along() {
        let mut store = Store::new(1000);
        let lsn = Lsn::new(5);
        store.keep(lsn, message(b"hello"), 2);
        store.refer(lsn);
        for _ in 0..2 {
            store.release(lsn);
            assert!(store.get(lsn).is_some());
        }
        store.release(lsn);
        assert!(store.get(lsn).is_none());
        assert_eq!(store.bytes, 0);
        store.release(lsn);
    }

    #[test]
    fn a_burst_leaves_no_large_table_behind() {
        let mut store = Store::new(0);
        let lsns = 1..=100_000;
        lsns.clone().map(Lsn::new).for_each(|lsn| store.keep(lsn, message(b"m"), 1));
        assert!(store.held.capacity() >= 100_000);
        for (n, lsn) in (1..).zip(lsns.map(Lsn::new)) {
            store.release(lsn);
            assert!(store.held.capacity() >= store.held.len(), "{n}");
        }
        assert!(store.held.capacity() <= 2 * SPACIOUS, "{}", store.held.capacity());
        assert_eq!(store.bytes, 0);
    }

    #[test]
    fn what_no_log_has_is_counted_by_itself() {
        let mut store = Store::new(1000);
        let (own, logged) = (Lsn::new(1 << 62), Lsn::new(5));
        store.keep(logged, message(b"hello"), 1);
        assert_eq!(store.unlogged_bytes(), 0);
        store.keep(own, message(b"hello"), 2);
        assert_eq!(store.unlogged_bytes(), "a/bhello".len() + Store::BESIDE);
        store.release(own);
        store.release(logged);
        assert_eq!(store.unlogged_bytes(), store.bytes);
        store.release(own);
        assert_eq!((store.unlogged_bytes(), store.bytes), (0, 0));
    }

    #[test]
    fn the_budget_counts_what_is_held() {
        let mut store = Store::new(200);
        assert!(store.has_room(200));
        store.keep(Lsn::new(1), message(&[0; 100]), 1);
        assert!(!store.has_room(100));
        store.keep(Lsn::new(1), message(&[0; 10]), 1);
        assert!(store.has_room(100));
    }
}
