//! What was sent live, of retained messages, to sessions whose retained answers are owed.
//!
//! At QoS 0 a retained message takes two ways: to its receivers from lane to lane, and to the store
//! by way of the log. Either may be here first, so who has sent it live knows its place in the log
//! only when both are.
//!
//! Assumes: a lane's messages to another arrive in the order of its records. Does not know: what is
//! retained, who is sent it.

use rustc_hash::FxHashMap;
use zzq_engine::{Handed, SessionNumber};
use zzq_lanes::LaneIndex;
use zzq_types::Lsn;

/// A record by the lane that has handed it to the log, as so-manieth of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Made {
    pub(super) by: LaneIndex,
    pub(super) handed: Handed,
}

/// See the file.
#[derive(Debug)]
pub(super) struct Live {
    watched: FxHashMap<SessionNumber, Watched>,
    /// By lane: how far its messages at QoS 0 that are retained as well have come, either way.
    come: Vec<Come>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Come {
    directly: Handed,
    by_log: Handed,
}

/// Retained messages that a session was sent as they were published.
#[derive(Debug, Default)]
struct Watched {
    watchers: u32,
    newest: FxHashMap<Box<str>, Lsn>,
    /// Sent, and their records not applied here: they are newer than all that was.
    ahead: Vec<(Made, Box<str>)>,
}

impl Live {
    /// For so many lanes.
    pub(super) fn new(lanes: u16) -> Self {
        let come = vec![Come::default(); usize::from(lanes)];
        Self { watched: FxHashMap::default(), come }
    }

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

    /// A retained message was routed to a session as it was published.
    pub(super) fn saw_live(&mut self, session: SessionNumber, topic: &str, lsn: Lsn) {
        let Some(watched) = self.watched.get_mut(&session) else { return };
        let newest = watched.newest.entry(topic.into()).or_insert(lsn);
        *newest = lsn.max(*newest);
    }

    /// A message that will be retained by a record comes directly, and goes to `sessions`.
    pub(super) fn came_directly(
        &mut self,
        made: Made,
        topic: &str,
        sessions: impl Iterator<Item = SessionNumber>,
    ) {
        let come = &mut self.come[made.by.index()];
        come.directly = made.handed;
        if made.handed <= come.by_log || self.watched.is_empty() {
            return;
        }
        for session in sessions {
            if let Some(watched) = self.watched.get_mut(&session) {
                watched.ahead.push((made, topic.into()));
            }
        }
    }

    /// The record of a message that goes to `sessions` directly is applied.
    pub(super) fn came_by_log(
        &mut self,
        made: Made,
        topic: &str,
        lsn: Lsn,
        sessions: impl Iterator<Item = SessionNumber>,
    ) {
        let come = &mut self.come[made.by.index()];
        come.by_log = made.handed;
        let will_come = come.directly < made.handed;
        for session in sessions {
            let Some(watched) = self.watched.get_mut(&session) else { continue };
            let before = watched.ahead.len();
            watched.ahead.retain(|(ahead, _)| *ahead != made);
            // If neither, it came before anybody watched.
            if will_come || watched.ahead.len() < before {
                self.saw_live(session, topic, lsn);
            }
        }
    }

    /// Whether a retained message, that was applied here, reached a session already, or one behind
    /// it on its topic.
    pub(super) fn was_live(&self, session: SessionNumber, topic: &str, lsn: Lsn) -> bool {
        let Some(watched) = self.watched.get(&session) else { return false };
        watched.ahead.iter().any(|(_, ahead)| **ahead == *topic)
            || watched.newest.get(topic).is_some_and(|known| *known >= lsn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SESSION: SessionNumber = SessionNumber::FIRST;

    fn made(handed: u64) -> Made {
        Made { by: LaneIndex(1), handed: Handed::new(handed) }
    }

    fn was_live(live: &Live, lsn: u64) -> bool {
        live.was_live(SESSION, "t", Lsn::new(lsn))
    }

    fn watched() -> Live {
        let mut live = Live::new(2);
        live.watch(SESSION);
        live
    }

    #[test]
    fn a_message_that_comes_directly_is_newer_than_all_that_was_applied() {
        let mut live = watched();
        live.came_directly(made(3), "t", [SESSION].into_iter());
        assert!(was_live(&live, 7) && !live.was_live(SESSION, "u", Lsn::new(7)));
        live.came_by_log(made(3), "t", Lsn::new(10), [SESSION].into_iter());
        assert!(was_live(&live, 10));
        assert!(!was_live(&live, 11), "that was not sent live");
    }

    #[test]
    fn a_message_whose_record_is_here_first_counts_as_sent() {
        let mut live = watched();
        live.came_by_log(made(3), "t", Lsn::new(10), [SESSION].into_iter());
        assert!(was_live(&live, 10) && !was_live(&live, 11));
        live.came_directly(made(3), "t", [SESSION].into_iter());
        assert!(was_live(&live, 10) && !was_live(&live, 11));
    }

    #[test]
    fn a_message_that_came_before_anybody_watched_does_not_count() {
        let mut live = Live::new(2);
        live.came_directly(made(3), "t", [SESSION].into_iter());
        live.watch(SESSION);
        live.came_by_log(made(3), "t", Lsn::new(10), [SESSION].into_iter());
        assert!(!was_live(&live, 10));
    }

    #[test]
    fn nothing_is_kept_when_nobody_watches() {
        let mut live = watched();
        live.came_directly(made(3), "t", [SESSION].into_iter());
        live.saw_live(SESSION, "t", Lsn::new(2));
        live.unwatch(SESSION);
        assert!(live.watched.is_empty() && !was_live(&live, 1));
    }
}
