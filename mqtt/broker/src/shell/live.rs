//! What was sent live, of retained messages, to sessions whose retained answers are owed.
//!
//! At QoS 0 a retained message takes two ways: to its receivers from lane to lane, and to the store
//! by way of the log. Either may be here first, so who has sent it live knows its place in the log
//! only when both are.
//!
//! A session is watched, and not one of its subscriptions: it may be sent a message for others, by
//! a lane that does not know of a new one yet. That one is owed it nevertheless, so what each lane
//! made before it knew is no answer to it.
//!
//! Assumes: a lane's messages to another arrive in the order of its records. Does not know: what is
//! retained, who is sent it.

use rustc_hash::FxHashMap;
use zzq_engine::{Handed, SessionNumber};
use zzq_lanes::LaneIndex;
use zzq_types::Lsn;

/// A record by the lane that has handed it to the log, as so-manieth of its own. Without a log the
/// number of a message that is retained, which rises as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Made {
    pub(super) by: LaneIndex,
    pub(super) handed: Handed,
}

impl Made {
    /// Of a message that no log has.
    pub(super) const fn unlogged(by: LaneIndex, lsn: Lsn) -> Self {
        Self { by, handed: Handed::new(lsn.get()) }
    }
}

/// How far each lane was when it heard of a change: all that it made later was decided with it.
#[derive(Clone, Debug, Default)]
pub(super) struct Heard(Vec<Handed>);

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
    newest: FxHashMap<Box<str>, (Lsn, Made)>,
    /// Sent, and their records not applied here: they are newer than all that was.
    ahead: Vec<(Made, Box<str>)>,
}

impl Heard {
    /// Of so many lanes none has.
    pub(super) fn by_none(lanes: u16) -> Self {
        Self(vec![Handed::new(u64::MAX); usize::from(lanes)])
    }

    /// A lane has, and had made so much.
    pub(super) fn by(&mut self, so_far: Made) {
        self.0[so_far.by.index()] = so_far.handed;
    }

    fn is_before(&self, made: Made) -> bool {
        self.0.get(made.by.index()).is_none_or(|so_far| made.handed > *so_far)
    }
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
    pub(super) fn saw_live(&mut self, session: SessionNumber, topic: &str, lsn: Lsn, made: Made) {
        let Some(watched) = self.watched.get_mut(&session) else { return };
        let newest = watched.newest.entry(topic.into()).or_insert((lsn, made));
        if lsn > newest.0 {
            *newest = (lsn, made);
        }
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
                self.saw_live(session, topic, lsn, made);
            }
        }
    }

    /// Whether a retained message, that was applied here, has reached a session already for a
    /// subscription that all lanes have `heard` of, or one behind it on its topic.
    pub(super) fn was_live(
        &self,
        session: SessionNumber,
        topic: &str,
        lsn: Lsn,
        heard: &Heard,
    ) -> bool {
        let Some(watched) = self.watched.get(&session) else { return false };
        let is_newer = |(known, made): &(Lsn, Made)| *known >= lsn && heard.is_before(*made);
        watched.ahead.iter().any(|(made, ahead)| **ahead == *topic && heard.is_before(*made))
            || watched.newest.get(topic).is_some_and(is_newer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SESSION: SessionNumber = SessionNumber::FIRST;

    fn made(handed: u64) -> Made {
        Made { by: LaneIndex(1), handed: Handed::new(handed) }
    }

    /// Both lanes have heard of it before they made anything.
    fn was_live(live: &Live, lsn: u64) -> bool {
        live.was_live(SESSION, "t", Lsn::new(lsn), &heard([0, 0]))
    }

    fn heard(so_far: [u64; 2]) -> Heard {
        let mut heard = Heard::by_none(2);
        let so_far = (0..).zip(so_far);
        so_far.for_each(|(lane, n)| heard.by(Made { by: LaneIndex(lane), handed: Handed::new(n) }));
        heard
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
        assert!(was_live(&live, 7) && !live.was_live(SESSION, "u", Lsn::new(7), &heard([0, 0])));
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
    fn what_a_lane_made_before_it_heard_of_a_subscription_was_not_for_it() {
        let mut live = watched();
        live.came_directly(made(3), "t", [SESSION].into_iter());
        let was_live =
            |live: &Live, so_far| live.was_live(SESSION, "t", Lsn::new(10), &heard([9, so_far]));
        assert!(was_live(&live, 2) && !was_live(&live, 3));
        live.came_by_log(made(3), "t", Lsn::new(10), [SESSION].into_iter());
        assert!(was_live(&live, 2) && !was_live(&live, 3));
        live.saw_live(SESSION, "t", Lsn::new(12), made(5));
        assert!(was_live(&live, 4) && !was_live(&live, 5));
        live.saw_live(SESSION, "t", Lsn::new(11), made(4));
        assert!(was_live(&live, 4), "the older one is not looked at");
    }

    #[test]
    fn nothing_is_kept_when_nobody_watches() {
        let mut live = watched();
        live.came_directly(made(3), "t", [SESSION].into_iter());
        live.saw_live(SESSION, "t", Lsn::new(2), made(1));
        live.unwatch(SESSION);
        assert!(live.watched.is_empty() && !was_live(&live, 1));
    }
}
