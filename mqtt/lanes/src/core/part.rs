//! One part of the room for input: how much there is and how much is taken, who has some, and who
//! waits for it. One kind of connections has it, and stands in the way of no others.
//!
//! Does not know: the connections.
use std::{collections::BTreeMap, time::Duration};

use super::line::Line;
use crate::{id::ConnId, time::Millis};

/// Between looks at who has had room for too long.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// See the file.
#[derive(Debug, Default)]
pub(super) struct Part {
    /// Bytes that there are, and that are taken.
    pub(super) most: usize,
    pub(super) held: usize,
    /// Those whose flag `ROOM` is set. How much each has is what it is charged.
    granted: BTreeMap<ConnId, Granted>,
    /// Those whose flag `SHORT` is set, the first to be served first.
    pub(super) line: Line,
    /// When to look next at who has had room for too long.
    look: Millis,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Granted {
    since: Millis,
    /// Since when it could have been done with it.
    able: Millis,
    /// It has stood in line.
    waited: bool,
}

impl Part {
    pub(super) fn is_short(&self) -> bool {
        self.held >= self.most
    }

    /// How much too little there is for `bytes` more.
    pub(super) fn lacks(&self, bytes: usize) -> usize {
        (self.held + bytes).saturating_sub(self.most)
    }

    /// Whether a connection gets room for `bytes` more. The first always does.
    pub(super) fn has_for(&self, bytes: usize) -> bool {
        self.granted.is_empty() || self.lacks(bytes) == 0
    }

    pub(super) fn grant(&mut self, id: ConnId, since: Millis, waited: bool) {
        self.put(id, Granted { since, able: since, waited });
    }

    pub(super) fn put(&mut self, id: ConnId, granted: Granted) {
        let before = self.granted.insert(id, granted);
        assert!(before.is_none(), "{id} has room already");
    }

    pub(super) fn take(&mut self, id: ConnId) -> Granted {
        let Some(granted) = self.granted.remove(&id) else {
            unreachable!("{id} has no room to give up")
        };
        granted
    }

    /// Since when a connection has room that it has waited for.
    pub(super) fn waited(&self, id: ConnId) -> Option<Millis> {
        self.granted.get(&id).filter(|granted| granted.waited).map(|granted| granted.since)
    }

    /// The connection could do nothing for its packet until now.
    pub(super) fn renew(&mut self, id: ConnId, now: Millis) {
        if let Some(granted) = self.granted.get_mut(&id) {
            granted.able = now;
        }
    }

    /// Stands in line. True: it is the only one.
    pub(super) fn stand(&mut self, id: ConnId, now: Millis) -> bool {
        let is_first = self.line.is_empty();
        if is_first {
            self.look = now;
        }
        self.line.push(id);
        is_first
    }

    /// When somebody may have had room for too long; `None`: nobody waits for it.
    pub(super) fn due(&self) -> Option<Millis> {
        (!self.line.is_empty()).then_some(self.look)
    }

    /// Since when each that has room could have been done with it.
    pub(super) fn able(&self) -> impl Iterator<Item = (Millis, ConnId)> {
        self.granted.iter().map(|(id, granted)| (granted.able, *id))
    }

    /// The next look is at `next`, or in a second.
    pub(super) fn look_again(&mut self, next: Millis, now: Millis) {
        self.look = next.max(now + LOOK_EVERY);
    }
}
