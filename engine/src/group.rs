//! What a session leaves to its shared groups when it ends: orphans, messages that were picked
//! for it and may still be delivered by another member.
//!
//! Owns: ended sessions that had shared subscriptions, until a record says to forget them.
//! Until then a message that was picked for the session before its end, and is applied behind
//! it, still finds the group it belongs to.
//! Does not know: who the other members are, which the index of the lanes knows.

use std::collections::BTreeMap;
use std::sync::Arc;

use zzq_types::{Lsn, QoS};

use crate::number::{QueueNumber, SubNumber};

/// A message that waits for another member of its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrphanMessage {
    /// The record that holds it.
    pub lsn: Lsn,
    /// The ended session's subscription by which it came.
    pub pick: SubNumber,
    /// QoS of the delivery that did not come about: 1 or 2.
    pub qos: QoS,
    /// What it weighs.
    pub size: u32,
    /// When it expires, in log time.
    pub expires_ms: Option<u64>,
}

/// An ended session that had shared subscriptions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    pub(crate) client: Arc<str>,
    /// Whether the session was to end with its connection.
    pub(crate) volatile: bool,
    /// The last queue number that was given.
    pub(crate) last: u64,
    /// The shared subscriptions it had, by number.
    pub(crate) shares: BTreeMap<SubNumber, Box<str>>,
    pub(crate) orphans: BTreeMap<u64, OrphanMessage>,
}

impl Ended {
    /// Whose session it was.
    pub fn client(&self) -> &str {
        &self.client
    }

    /// The filter of a shared subscription it had, `$share/<group>/` kept.
    pub fn filter(&self, pick: SubNumber) -> Option<&str> {
        self.shares.get(&pick).map(|filter| &**filter)
    }

    /// The messages that wait, in their order, each with the group's filter.
    pub fn orphans(&self) -> impl Iterator<Item = (QueueNumber, &OrphanMessage, &str)> {
        self.orphans.iter().filter_map(|(&number, orphan)| {
            Some((QueueNumber::new(number), orphan, self.filter(orphan.pick)?))
        })
    }

    /// Takes a message that was picked before the end; `None` if the session had no such share,
    /// or is out of numbers.
    pub(crate) fn adopt(&mut self, orphan: OrphanMessage) -> Option<QueueNumber> {
        if !self.shares.contains_key(&orphan.pick) || self.last >= QueueNumber::MAX.get() {
            return None;
        }
        self.last += 1;
        self.orphans.insert(self.last, orphan);
        Some(QueueNumber::new(self.last))
    }
}
