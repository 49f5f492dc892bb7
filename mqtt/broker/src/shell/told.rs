//! What the application is told: events of clients, and how much was dropped.

use std::sync::Arc;

use zzq_lanes::ConnId;
use zzq_wal::disk::Disk;

use super::Shell;
use crate::hooks::{Client, Dropped, Event};
use crate::metrics::Counts;

/// How much of what was dropped the application knows.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Told([u64; REASONS.len()]);

const REASONS: [Dropped; 6] = [
    Dropped::SlowReceiver,
    Dropped::TooLarge,
    Dropped::Expired,
    Dropped::QueueFull,
    Dropped::SessionEnded,
    Dropped::Denied,
];

const fn dropped(counts: &Counts) -> [u64; REASONS.len()] {
    [
        counts.dropped_slow,
        counts.dropped_large,
        counts.expired,
        counts.dropped_full,
        counts.dropped_ended,
        counts.dropped_denied,
    ]
}

impl<D: Disk> Shell<D> {
    /// Tells something about the client of a connection.
    pub(super) fn tell(&mut self, conn: ConnId, event: impl FnOnce(Arc<Client>) -> Event) {
        if self.shared.hooks.events.is_none() {
            return;
        }
        let Some(who) = self.links.get(conn).and_then(|link| link.who.clone()) else { return };
        self.tell_event(event(who));
    }

    /// Tells something, unless that would mean to wait: then it is counted.
    pub(super) fn tell_event(&mut self, event: Event) {
        let Some(events) = &self.shared.hooks.events else { return };
        self.counts.events_lost += u64::from(!events.tell(event));
    }

    /// Tells how much was dropped since the last time.
    pub(super) fn tell_dropped(&mut self) {
        if self.shared.hooks.events.is_none() {
            return;
        }
        let now = dropped(&self.counts);
        let before = std::mem::replace(&mut self.told.0, now);
        for ((why, now), before) in REASONS.into_iter().zip(now).zip(before) {
            if now > before {
                self.tell_event(Event::Dropped { why, count: now - before });
            }
        }
    }
}
