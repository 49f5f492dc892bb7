//! What few messages of a queue have beside their entry.
//!
//! Owns: where it is found, by number and by when a message expires, and what it takes in memory.
//! Does not know: which of these messages are open, or may expire.

use std::collections::{BTreeMap, BTreeSet};

use crate::number::SubNumber;

/// What few messages have beside their entry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Extra {
    /// Subscription identifiers, encoded.
    pub(crate) ids: Box<[u8]>,
    /// The session's shared subscription by which the message came.
    pub(crate) pick: Option<SubNumber>,
    /// When the message expires.
    pub(crate) expires_ms: Option<u64>,
}

/// What one message takes in both trees.
const SIZE: usize = size_of::<(u64, Extra)>() + size_of::<(u64, u64)>();

/// Those of a queue.
#[derive(Clone, Debug, Default)]
pub(super) struct Extras {
    pub(super) by_number: BTreeMap<u64, Extra>,
    /// Expiry and number of the messages that may still expire.
    pub(super) by_expiry: BTreeSet<(u64, u64)>,
    /// Of all subscription identifiers.
    ids_bytes: u64,
}

impl Extras {
    /// What they take in memory, without what trees leave free.
    pub(super) fn memory(&self) -> u64 {
        (self.by_number.len() * SIZE) as u64 + self.ids_bytes
    }

    pub(super) fn insert(&mut self, number: u64, extra: Extra) {
        if let Some(expires_ms) = extra.expires_ms {
            self.by_expiry.insert((expires_ms, number));
        }
        self.ids_bytes += extra.ids.len() as u64;
        self.by_number.insert(number, extra);
    }

    pub(super) fn remove(&mut self, number: u64) {
        let Some(extra) = self.by_number.remove(&number) else { return };
        self.ids_bytes -= extra.ids.len() as u64;
        if let Some(expires_ms) = extra.expires_ms {
            self.by_expiry.remove(&(expires_ms, number));
        }
    }

    /// Puts those of a front before these.
    pub(super) fn join(&mut self, front: Self) {
        let rest = std::mem::replace(self, front);
        // The greater part is kept as it is.
        let Self { mut by_number, mut by_expiry, ids_bytes } = rest;
        self.by_number.append(&mut by_number);
        self.by_expiry.append(&mut by_expiry);
        self.ids_bytes += ids_bytes;
    }

    /// Whether what they take is counted right.
    pub(super) fn are_weighed(&self) -> bool {
        let ids = self.by_number.values().map(|extra| extra.ids.len() as u64);
        ids.sum::<u64>() == self.ids_bytes
    }
}
