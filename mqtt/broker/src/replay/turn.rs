//! One request for history while it is served: what of the log matches, and how much of it one
//! stretch takes.
//!
//! Does not know: how records are found and read.

use zzq_engine::Record;
use zzq_types::{Lsn, QoS, TopicFilter};

use super::{PastMessage, Stretch, Wanted};
use crate::shell::{Content, Message};

/// Bytes of the log that are read for one stretch.
pub(super) const READ_MOST: usize = 4 << 20;

/// See the file.
pub(super) struct Turn<'w> {
    pub(super) wanted: &'w Wanted,
    pub(super) filter: TopicFilter<'w>,
    pub(super) stretch: Stretch,
    /// Bytes that were read.
    pub(super) read: usize,
    /// What its messages add to the queue.
    queued: u64,
}

/// A record that was read.
pub(super) struct Seen<'r> {
    pub(super) lsn: Lsn,
    pub(super) time_ms: u64,
    pub(super) record: &'r Record<'r>,
    /// Of its body.
    pub(super) bytes: usize,
}

impl<'w> Turn<'w> {
    pub(super) const fn new(wanted: &'w Wanted, filter: TopicFilter<'w>, stretch: Stretch) -> Self {
        Self { wanted, filter, stretch, read: 0, queued: 0 }
    }

    /// Whether the stretch may go on.
    pub(super) fn has_room(&self) -> bool {
        self.stretch.messages.len() < self.wanted.most
            && self.read < READ_MOST
            && self.stretch.bytes < self.wanted.most_memory
    }

    /// Adds a record's message, if it matches; whether it goes another way than those before, or is
    /// more than the queue has room for, and is to be read again.
    pub(super) fn add(&mut self, seen: &Seen<'_>) -> bool {
        let Some(past) = self.matching(seen) else { return false };
        let is_fleeting = |past: &PastMessage| past.qos == QoS::AtMostOnce;
        let last = self.stretch.messages.last();
        if last.is_some_and(|last| is_fleeting(last) != is_fleeting(&past)) {
            return true;
        }
        self.queued += past.weight();
        if self.queued > self.wanted.most_bytes && !(self.wanted.alone && last.is_none()) {
            self.stretch.has_no_room = last.is_none();
            return true;
        }
        self.stretch.bytes += seen.bytes + size_of::<PastMessage>();
        self.stretch.messages.push(past);
        false
    }

    /// The message of a record, if the subscription gets it.
    fn matching(&self, seen: &Seen<'_>) -> Option<PastMessage> {
        let Record::Publish(publish) = seen.record else { return None };
        let expires_ms = publish.expires_ms(seen.time_ms);
        let is_over = expires_ms.is_some_and(|expires_ms| expires_ms <= self.wanted.now_ms);
        let is_wanted = seen.time_ms >= self.wanted.since_ms && !is_over;
        if !is_wanted || !self.filter.matches(publish.topic) {
            return None;
        }
        Some(PastMessage {
            lsn: seen.lsn,
            qos: publish.qos.min(self.wanted.qos),
            retain: publish.retain && self.wanted.retain_as_published,
            size: publish.size(),
            expires_ms,
            message: Message::copy(Content::of(publish, seen.time_ms)),
        })
    }
}
