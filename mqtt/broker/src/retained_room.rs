//! How much may still be retained, where that is bounded: over all lanes, for who publishes does
//! not own the topic.
//!
//! Owns: which topics have a message, by a hash, and how large. Kept only with a bound; nobody
//! takes its lock without one. Assumes: the lane that owns a topic has the last word.

use std::sync::{Mutex, PoisonError};

use rustc_hash::FxHashMap;

use crate::options::Limits;

/// See the file.
#[derive(Debug)]
pub(crate) struct RetainedRoom {
    most: usize,
    most_bytes: u64,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    sizes: FxHashMap<u64, u32>,
    bytes: u64,
}

impl RetainedRoom {
    /// `None` without a bound.
    pub(crate) fn new(limits: &Limits) -> Option<Self> {
        let (most, most_bytes) = (limits.max_retained_messages, limits.max_retained_bytes);
        let bounded = most < usize::MAX || most_bytes < u64::MAX;
        bounded.then(|| Self { most, most_bytes, known: Mutex::default() })
    }

    /// Takes a topic's message in; false, and nothing is changed, if there is no room.
    pub(crate) fn take(&self, topic: &str, size: u32) -> bool {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let key = hash(topic);
        let before = known.sizes.get(&key).copied();
        let count = known.sizes.len() + usize::from(before.is_none());
        let bytes = known.bytes - u64::from(before.unwrap_or(0)) + u64::from(size);
        // What was above a bound may become less.
        let fits = count <= self.most && bytes <= self.most_bytes;
        if !fits && before.is_none_or(|before| size > before) {
            return false;
        }
        known.put(key, Some(size));
        true
    }

    /// The lane that owns a topic has set its message, or removed it.
    pub(crate) fn is_now(&self, topic: &str, size: Option<u32>) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.put(hash(topic), size);
    }
}

impl Known {
    fn put(&mut self, key: u64, size: Option<u32>) {
        let before = match size {
            Some(size) => self.sizes.insert(key, size),
            None => self.sizes.remove(&key),
        };
        self.bytes = self.bytes + u64::from(size.unwrap_or(0)) - u64::from(before.unwrap_or(0));
    }
}

/// Two halves, for one would let topics of a million fall together.
fn hash(topic: &str) -> u64 {
    let (one, other) = topic.as_bytes().split_at(topic.len() / 2);
    let whole = zzq_engine::key_hash(topic.as_bytes());
    let halves = zzq_engine::key_hash(one).rotate_left(7) ^ zzq_engine::key_hash(other);
    u64::from(whole) << 32 | u64::from(halves)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn room(most: usize, most_bytes: u64) -> RetainedRoom {
        let limits = Limits {
            max_retained_messages: most,
            max_retained_bytes: most_bytes,
            ..Limits::default()
        };
        RetainedRoom::new(&limits).unwrap()
    }

    #[test]
    fn what_is_there_may_change_and_what_goes_leaves_room() {
        let room = room(2, u64::MAX);
        assert!(room.take("a", 1) && room.take("b", 1));
        assert!(!room.take("c", 1) && room.take("a", 1000));
        room.is_now("b", None);
        assert!(room.take("c", 1) && !room.take("b", 1));
    }

    #[test]
    fn bytes_are_those_of_the_last_messages() {
        let room = room(usize::MAX, 100);
        assert!(room.take("a", 60) && !room.take("b", 41) && room.take("b", 40));
        assert!(!room.take("a", 61) && room.take("a", 10) && room.take("c", 50));
        // Recovered with a lower bound: nothing grows, all may shrink.
        room.is_now("d", Some(1000));
        assert!(!room.take("a", 11) && room.take("a", 9) && room.take("d", 999));
        assert!(RetainedRoom::new(&Limits::default()).is_none());
    }
}
