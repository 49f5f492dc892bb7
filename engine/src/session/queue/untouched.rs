//! The front of a queue that stays in an image until it is touched.
//!
//! Owns: what is known of such a front: how many messages, what they weigh, when the first of them
//! expires. Messages that come since are behind it, in memory. A client that comes back, a receipt
//! and an expiry touch a queue: before one of these the front is read, and joined to the rest. A
//! message that comes and the end of the session do not.
//! Assumes: none of the front came by a shared subscription, and its session is down.
//! Does not know: where images are, who reads them.

use zzq_types::QoS;

use super::{Extra, Queue, SIZE_UNIT, Waiting, units_of};
use crate::number::QueueNumber;

/// What an image holds of a queue and memory does not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Untouched {
    /// The number of its first message.
    pub first: QueueNumber,
    /// The number of its last message.
    pub last: QueueNumber,
    /// How many messages are open in it.
    pub len: usize,
    /// What the messages weigh that are held.
    pub bytes: u64,
    /// When the first message expires of those that may.
    pub next_expiry_ms: Option<u64>,
}

impl Queue {
    /// What has stayed in an image.
    pub fn untouched(&self) -> Option<Untouched> {
        self.untouched.as_deref().copied()
    }

    /// Notes an open message that stays in the image; `false` unless numbers ascend up to the
    /// last, within a span that a queue may have. Called before any message is in memory.
    pub(crate) fn leave(&mut self, waiting: &Waiting, extra: Option<&Extra>) -> bool {
        let before = self.untouched.as_ref().map_or(0, |front| front.last.get());
        if !self.entries.is_empty() || !self.may_follow(before, waiting, extra) {
            return false;
        }
        let weight = if waiting.taken { 0 } else { u64::from(units_of(waiting.size) * SIZE_UNIT) };
        let begun = waiting.qos == QoS::ExactlyOnce && waiting.number <= self.doubtful();
        let expires_ms = extra.and_then(|extra| extra.expires_ms).filter(|_| !begun);
        let front = self.untouched.get_or_insert_default();
        if front.len == 0 {
            front.first = waiting.number;
            self.base = waiting.number.get();
        }
        front.last = waiting.number;
        front.len += 1;
        front.bytes += weight;
        front.next_expiry_ms = [front.next_expiry_ms, expires_ms].into_iter().flatten().min();
        self.open += 1;
        self.bytes += weight;
        true
    }

    /// Joins the front, as an image had it, to the rest; `false`, and nothing is done, if it is not
    /// the front that stayed there.
    pub(crate) fn join(&mut self, mut read: Self) -> bool {
        let Some(front) = self.untouched() else { return false };
        if !read.is_front(&front) {
            return false;
        }
        self.untouched = None;
        read.entries.reserve_exact(self.entries.len());
        read.entries.append(&mut self.entries);
        self.entries = read.entries;
        if let Some(extras) = read.extras {
            self.extras.get_or_insert_default().join(*extras);
        }
        self.settle_expiries();
        true
    }

    /// Whether it holds what this says, and nothing else.
    pub(crate) fn is_front(&self, front: &Untouched) -> bool {
        let ends = (self.entries.front(), self.entries.back());
        let (Some(&first), Some(&last)) = ends else { return false };
        let found = (self.number(first), self.number(last), self.open, self.bytes);
        found == (front.first.get(), front.last.get(), front.len, front.bytes)
    }

    /// An empty queue for as many messages of a front, which [`Queue::restore`] puts in.
    pub(crate) fn for_front(front: &Untouched) -> Self {
        let last = front.last.get();
        let mut queue = Self { last, dup_through: last, ..Self::default() };
        queue.entries.reserve_exact(front.len);
        queue
    }

    /// # Panics
    /// If a part of it is in an image only: whoever touches a queue has it read before.
    pub(super) fn assert_whole(&self) {
        assert!(self.untouched.is_none(), "a queue is read before it is touched");
    }
}
