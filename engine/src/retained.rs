//! Retained messages by topic: what a new subscription is sent first.
//!
//! Owns: which topics have one, and what a filter finds among them, in byte order of topics, a
//! bounded number of steps at a time. Does not know: payloads (they are found by LSN), expiry of
//! what it holds, whom it is sent to.

mod seek;

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};

use zzq_types::{Lsn, QoS, TopicFilter, TopicName};

use self::seek::{Next, Seeker};

/// The retained message of a topic, without its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retained {
    /// The record that holds it.
    pub lsn: Lsn,
    /// When it was published, log time in milliseconds.
    pub time_ms: u64,
    /// Message expiry from then on, in seconds.
    pub expiry: Option<u32>,
    /// As published.
    pub qos: QoS,
    /// Bytes of payload and properties.
    pub size: u32,
}

impl Retained {
    /// When the message expires, in log time.
    pub fn expires_ms(&self) -> Option<u64> {
        Some(self.time_ms.saturating_add(u64::from(self.expiry?) * 1000))
    }
}

/// See the file.
#[derive(Debug, Default)]
pub struct RetainedStore {
    topics: BTreeMap<Box<str>, Retained>,
    bytes: u64,
}

/// How far a search has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetainedCursor {
    from: Bound<String>,
}

impl RetainedCursor {
    /// Before the first topic.
    pub const START: Self = Self { from: Bound::Unbounded };

    /// Behind this topic.
    pub fn behind(topic: &str) -> Self {
        Self { from: Bound::Excluded(topic.to_owned()) }
    }

    fn bound(&self) -> Bound<&str> {
        self.from.as_ref().map(String::as_str)
    }
}

impl RetainedStore {
    /// Without any.
    pub const fn new() -> Self {
        Self { topics: BTreeMap::new(), bytes: 0 }
    }

    /// Makes `retained` the message of `topic`; gives the one that it replaces.
    //= MQTT311-3.3.1-5
    //= MQTT311-3.3.1-7
    //= MQTT5-3.3.1-5
    pub fn set(&mut self, topic: TopicName<'_>, retained: Retained) -> Option<Retained> {
        let topic = topic.as_str();
        self.bytes += u64::from(retained.size);
        if let Some(held) = self.topics.get_mut(topic) {
            let old = core::mem::replace(held, retained);
            self.bytes -= u64::from(old.size);
            return Some(old);
        }
        self.bytes += topic.len() as u64;
        self.topics.insert(topic.into(), retained)
    }

    /// Removes the message of `topic`, and gives it.
    pub fn remove(&mut self, topic: TopicName<'_>) -> Option<Retained> {
        let old = self.topics.remove(topic.as_str())?;
        self.bytes -= topic.as_str().len() as u64 + u64::from(old.size);
        Some(old)
    }

    /// The message of `topic`.
    pub fn get(&self, topic: TopicName<'_>) -> Option<&Retained> {
        self.topics.get(topic.as_str())
    }

    /// How many topics have one.
    pub fn len(&self) -> usize {
        self.topics.len()
    }

    /// Whether no topic has one.
    pub fn is_empty(&self) -> bool {
        self.topics.is_empty()
    }

    /// Bytes of topics, payloads and properties.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// All topics behind the cursor, in byte order, those that begin with `$` among them.
    pub fn iter_from(&self, cursor: &RetainedCursor) -> impl Iterator<Item = (&str, &Retained)> {
        let range = self.topics.range::<str, _>((cursor.bound(), Bound::Unbounded));
        range.map(|(topic, retained)| (&**topic, retained))
    }

    /// Visits what `filter` matches behind `cursor`, in byte order of topics, until `visit` breaks
    /// or `steps` topics were looked at, and moves the cursor. Says whether that was all.
    ///
    /// Topics that come while a search is paused are found if they are behind its cursor.
    //= MQTT311-3.3.1-6
    //= MQTT5-3.3.1-9
    pub fn matching(
        &self,
        filter: TopicFilter<'_>,
        cursor: &mut RetainedCursor,
        steps: usize,
        mut visit: impl FnMut(&str, &Retained) -> ControlFlow<()>,
    ) -> bool {
        let seeker = Seeker::new(filter);
        let mut target = String::new();
        if seeker.is_before(cursor.bound()) {
            seeker.start(&mut target);
            cursor.from = Bound::Included(core::mem::take(&mut target));
        }
        let mut range = self.topics.range::<str, _>((cursor.bound(), Bound::Unbounded));
        let mut last: Option<(&str, Next)> = None;
        for _ in 0..steps {
            let Some((topic, retained)) = range.next() else { return true };
            let next = seeker.next(topic, &mut target);
            last = Some((topic, next));
            match next {
                Next::Match if visit(topic, retained).is_break() => break,
                Next::Match | Next::Behind => {}
                Next::Target => {
                    let from = Bound::Included(&*target);
                    range = self.topics.range::<str, _>((from, Bound::Unbounded));
                }
                Next::Done => return true,
            }
        }
        match last {
            Some((_, Next::Target)) => cursor.from = Bound::Included(target),
            Some((topic, _)) => *cursor = RetainedCursor::behind(topic),
            None => {}
        }
        false
    }
}

#[cfg(test)]
mod tests;
