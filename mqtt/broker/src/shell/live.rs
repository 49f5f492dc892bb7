//! What was sent live, of retained messages, to sessions whose retained answers are owed.
//!
//! Does not know: what is retained, who is sent it.

use rustc_hash::FxHashMap;
use zzq_engine::SessionNumber;
use zzq_types::Lsn;

/// See the file.
#[derive(Debug, Default)]
pub(super) struct Live {
    watched: FxHashMap<SessionNumber, Watched>,
}

/// Retained messages that a session was sent as they were published.
#[derive(Debug, Default)]
struct Watched {
    watchers: u32,
    /// For each topic the newest of each order that there is.
    newest: FxHashMap<Box<str>, Vec<Lsn>>,
}

impl Live {
    /// A session waits for retained messages.
    pub(super) fn watch(&mut self, session: SessionNumber) {
        self.watched.entry(session).or_default().watchers += 1;
    }

    /// It has got those of one change.
    pub(super) fn unwatch(&mut self, session: SessionNumber) {
        if let Some(watched) = self.watched.get_mut(&session) {
            watched.watchers -= 1;
            if watched.watchers == 0 {
                self.watched.remove(&session);
            }
        }
    }

    /// A retained message was routed to a session as it was published. Numbers that are a multiple
    /// of `step` apart are in order: with a log all are, without one those of each lane.
    pub(super) fn saw_live(&mut self, session: SessionNumber, topic: &str, lsn: Lsn, step: u64) {
        let Some(watched) = self.watched.get_mut(&session) else { return };
        let newest = watched.newest.entry(topic.into()).or_default();
        match newest.iter_mut().find(|known| in_order(**known, lsn, step)) {
            Some(known) => *known = lsn.max(*known),
            None => newest.push(lsn),
        }
    }

    /// Whether a retained message reached a session already, or one behind it on its topic.
    pub(super) fn was_live(
        &self,
        session: SessionNumber,
        topic: &str,
        lsn: Lsn,
        step: u64,
    ) -> bool {
        let newest = self.watched.get(&session).and_then(|watched| watched.newest.get(topic));
        newest.is_some_and(|newest| {
            newest.iter().any(|known| *known >= lsn && in_order(*known, lsn, step))
        })
    }
}

fn in_order(a: Lsn, b: Lsn, step: u64) -> bool {
    a.get().abs_diff(b.get()).is_multiple_of(step)
}
