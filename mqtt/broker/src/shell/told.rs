//! What the application is told: events of clients, and how much was dropped.

use std::sync::Arc;

use zzq_lanes::ConnId;
use zzq_wal::disk::Disk;

use super::Shell;
use crate::hooks::{Client, Event};

/// How much of what was dropped the application knows.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Told([u64; 6]);

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
        let drops = self.counts.drops();
        let before = std::mem::replace(&mut self.told.0, drops.map(|(_, now)| now));
        for ((why, now), before) in drops.into_iter().zip(before) {
            if now > before {
                self.tell_event(Event::Dropped { why, count: now - before });
            }
        }
    }
}
