//! Receivers that fall behind: who publishes to them above QoS 0 waits, on all lanes, before their
//! queues are full.
//!
//! Owns: which connected receivers are over the high-water mark of their queue, and until when
//! others wait for them. What goes to one is set aside before anything is handed over (see
//! [`held`](super::held)) and so not answered; a client that has sent as much as it may without an
//! answer, or as much as is set aside for it, is held itself. A hold ends at the low-water mark, or
//! after `max_hold`: what waits goes on then, and the message that comes next to a queue that is
//! still over the mark begins another.
//!
//! Assumes: all lanes know it by a flag, so what is under way when that is set comes on top of the
//! mark, and what was set aside when it is taken away. Where a full queue costs its session
//! something instead of its publishers ([`QueueFull`]), nobody waits for it.

use std::collections::{BTreeMap, BTreeSet};

use zzq_engine::SessionNumber;
use zzq_engine::session::Load;
use zzq_lanes::Millis;
use zzq_wal::disk::Disk;

use super::{Io, Shell};
use crate::options::{Limits, QueueFull};
use crate::seldom::Seldom;

/// See the file.
#[derive(Debug, Default)]
pub(super) struct Lagging {
    /// Until when others wait for them.
    until: BTreeMap<SessionNumber, Millis>,
    /// While what has waited long enough goes on no hold begins with that: whose will then.
    lets_go: Option<BTreeSet<SessionNumber>>,
    told: Seldom,
}

impl Lagging {
    /// Whether others wait for a session.
    pub(super) fn has(&self, session: SessionNumber) -> bool {
        self.until.contains_key(&session)
    }

    /// The connection of a session of this lane is gone.
    pub(super) fn forget(&mut self, session: SessionNumber) {
        self.until.remove(&session);
    }

    /// When the first hold has lasted long enough.
    pub(super) fn next(&self) -> Option<Millis> {
        self.until.values().min().copied()
    }
}

/// Whether a queue is over its high-water mark, half of what it may hold.
const fn is_over_high_water(load: Load, limits: &Limits) -> bool {
    load.messages > limits.max_queued_messages / 2 || load.bytes > limits.max_queued_bytes / 2
}

/// Whether it is at its low-water mark: a tenth lower, so that the flag does not flicker.
const fn is_at_low_water(load: Load, limits: &Limits) -> bool {
    load.messages <= limits.max_queued_messages / 2 - limits.max_queued_messages / 10
        && load.bytes <= limits.max_queued_bytes / 2 - limits.max_queued_bytes / 10
}

impl<D: Disk> Shell<D> {
    /// Whether others wait for a session whose queue has so much, or could.
    pub(super) fn may_lag(&self, session: SessionNumber, load: Load) -> bool {
        let limits = &self.shared.options.limits;
        is_over_high_water(load, limits)
            && limits.queue_full == QueueFull::Refuse
            && !limits.max_hold.is_zero()
            && self.up.contains_key(&session)
    }

    /// Notes whether others begin to wait for a session with so much in its queue, of which the
    /// lanes are to be told.
    pub(super) fn begins_to_lag(
        &mut self,
        io: &Io<'_, D>,
        session: SessionNumber,
        load: Load,
    ) -> bool {
        if self.lagging.has(session) || !self.may_lag(session, load) {
            return false;
        }
        if let Some(later) = &mut self.lagging.lets_go {
            later.insert(session);
            return false;
        }
        self.lagging.until.insert(session, io.now() + self.shared.options.limits.max_hold);
        if let Some(known) = self.state.session(session)
            && let Some(untold) = self.lagging.told.tell(self.now_ms)
        {
            let (client, Load { messages, bytes, .. }) = (known.client(), load);
            tracing::info!(
                client,
                messages,
                bytes,
                untold,
                "a queue is half full: who publishes to it is held; --max-hold says for how long"
            );
        }
        true
    }

    /// At the end of a turn: ends the holds for those that have caught up, or were waited for long
    /// enough.
    pub(super) fn end_holds_for_lagging(&mut self, io: &mut Io<'_, D>) {
        let now = io.now();
        let limits = &self.shared.options.limits;
        let has_caught_up = |session| {
            let known = self.state.session(session);
            known.is_none_or(|known| is_at_low_water(known.queue().load(), limits))
        };
        let until = self.lagging.until.iter();
        let over = until.filter(|(session, until)| **until <= now || has_caught_up(**session));
        let over: Vec<_> = over.map(|(session, until)| (*session, *until)).collect();
        if over.is_empty() {
            return;
        }
        for (session, _) in &over {
            self.lagging.until.remove(session);
            self.announce_flags(io, *session);
        }
        self.lagging.lets_go = over.iter().any(|(_, until)| *until <= now).then(BTreeSet::new);
        self.let_go(io);
        for session in self.lagging.lets_go.take().unwrap_or_default() {
            self.check_full(io, session);
        }
    }

    /// Others do not wait any more for some session. What waited goes on before anything else that
    /// comes to its queue begins another hold.
    pub(super) fn let_go(&mut self, io: &mut Io<'_, D>) {
        self.go_on_held(io);
        io.turn_again();
    }
}
