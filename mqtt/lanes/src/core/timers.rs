//! Deadlines of connections. Each connection has at most one entry in the lane's queue, at the
//! earliest of its deadlines or before it: moving a deadline on, as every packet does to keep
//! alive, writes one field, and the entry is put right when it fires.
use std::collections::BTreeSet;

use crate::{
    id::{ConnId, TimerSlot},
    time::Millis,
};

const SLOTS: usize = 4;
/// The lane's own slot: the end of a connection closed after flush.
pub(crate) const LINGER: usize = 3;

pub(crate) fn slot_index(slot: TimerSlot) -> usize {
    match slot {
        TimerSlot::A => 0,
        TimerSlot::B => 1,
        TimerSlot::C => 2,
    }
}

/// One connection's part.
pub(crate) struct ConnTimers {
    due: [Millis; SLOTS],
    /// Where its entry is in the queue; `NEVER`: it has none.
    queued: Millis,
}

impl Default for ConnTimers {
    fn default() -> Self {
        Self { due: [Millis::NEVER; SLOTS], queued: Millis::NEVER }
    }
}

#[derive(Default)]
pub(crate) struct Timers {
    queue: BTreeSet<(Millis, ConnId)>,
}

impl Timers {
    /// Sets one deadline; `NEVER` clears it.
    pub(crate) fn set(&mut self, id: ConnId, conn: &mut ConnTimers, slot: usize, due: Millis) {
        conn.due[slot] = due;
        if due < conn.queued {
            self.requeue(id, conn, due);
        }
    }

    /// Forgets the connection.
    pub(crate) fn forget(&mut self, id: ConnId, conn: &mut ConnTimers) {
        self.requeue(id, conn, Millis::NEVER);
    }

    fn requeue(&mut self, id: ConnId, conn: &mut ConnTimers, at: Millis) {
        if conn.queued != Millis::NEVER {
            let was = self.queue.remove(&(conn.queued, id));
            assert!(was, "timer entry of {id} is lost");
        }
        conn.queued = at;
        if at != Millis::NEVER {
            self.queue.insert((at, id));
        }
    }

    /// No timer fires before this.
    pub(crate) fn next(&self) -> Option<Millis> {
        self.queue.first().map(|(at, _)| *at)
    }

    /// The next connection whose entry is due.
    pub(crate) fn due(&self, now: Millis) -> Option<ConnId> {
        self.queue.first().filter(|(at, _)| *at <= now).map(|(_, id)| *id)
    }

    /// The deadlines of this connection that have passed, cleared; its entry moves on.
    pub(crate) fn fire(&mut self, id: ConnId, conn: &mut ConnTimers, now: Millis) -> [bool; SLOTS] {
        let fired = conn.due.map(|due| due <= now);
        for (due, fired) in conn.due.iter_mut().zip(fired) {
            if fired {
                *due = Millis::NEVER;
            }
        }
        let next = conn.due.iter().copied().min().unwrap_or(Millis::NEVER);
        self.requeue(id, conn, next);
        fired
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: ConnId = ConnId { index: 7, generation: 1 };

    #[test]
    fn a_deadline_moved_on_fires_once_and_late() {
        let (mut timers, mut conn) = (Timers::default(), ConnTimers::default());
        timers.set(ID, &mut conn, 0, Millis(10));
        timers.set(ID, &mut conn, 0, Millis(30));
        assert_eq!(timers.next(), Some(Millis(10)), "moving on leaves the entry alone");
        assert_eq!(timers.due(Millis(10)), Some(ID));
        assert_eq!(timers.fire(ID, &mut conn, Millis(10)), [false; SLOTS]);
        assert_eq!(timers.due(Millis(29)), None);
        assert_eq!(timers.due(Millis(30)), Some(ID));
        assert!(timers.fire(ID, &mut conn, Millis(30))[0]);
        assert_eq!(timers.next(), None);
    }

    #[test]
    fn an_earlier_deadline_moves_the_entry_and_a_forgotten_connection_leaves_none() {
        let (mut timers, mut conn) = (Timers::default(), ConnTimers::default());
        timers.set(ID, &mut conn, 0, Millis(50));
        timers.set(ID, &mut conn, 1, Millis(20));
        assert_eq!(timers.next(), Some(Millis(20)));
        assert_eq!(timers.fire(ID, &mut conn, Millis(20)), [false, true, false, false]);
        assert_eq!(timers.next(), Some(Millis(50)));
        timers.forget(ID, &mut conn);
        assert_eq!((timers.next(), timers.queue.len()), (None, 0));
    }
}
