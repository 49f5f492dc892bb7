//! Changes of subscriptions that every lane has to take before they are answered.
//!
//! A change is told to all other lanes, mostly at once; each takes it into its copy of the index
//! and reports once everything that it had handed over before is committed. When all have reported
//! and the change's own record is committed, no publish of any lane misses it: that is its fence.
//! With its report a lane says how far it was when it took the change.
//!
//! That a session of the log joins a group is told once the log has it: what is picked for a
//! session that a start does not know is lost, and others would have taken it. What comes behind it
//! for the same session waits with it.
//!
//! Assumes: a lane's messages to another arrive in order.

use std::collections::VecDeque;

use slab::Slab;
use zzq_engine::{SessionNumber, Subscriber};
use zzq_lanes::ConnId;
use zzq_wal::disk::Disk;

use super::answers::Answer;
use super::live::{Heard, Made};
use super::notes::Note;
use super::packet_out::write_packet;
use super::replay::Starts;
use super::retained::Wish;
use super::{Io, Shell};
use crate::planted::{self, Bug};

/// What is done when a change has its fence.
#[derive(Debug)]
pub(super) enum Then {
    /// SUBACK or UNSUBACK, already encoded, and the retained messages that are owed.
    Acknowledge {
        conn: ConnId,
        session: SessionNumber,
        packet: Vec<u8>,
        wishes: Vec<Wish>,
        starts: Starts,
    },
    /// An ended session is forgotten.
    Forget { session: SessionNumber },
    /// Subscriptions of a session that is up again go on with history.
    Replay { conn: ConnId, session: SessionNumber, starts: Starts },
    /// Without a log: what was sent live before retained messages were found is here.
    Sighted { granting: u64 },
}

#[derive(Debug)]
struct Change {
    /// Reports that have not come, the own commit among them.
    missing: u32,
    heard: Heard,
    then: Then,
}

/// When other lanes hear of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tell {
    /// At once.
    Now,
    /// When its record is committed.
    Committed,
}

/// What other lanes hear of a change.
#[derive(Clone, Debug)]
pub(crate) enum News {
    /// Subscriptions were made.
    Subscribed(Vec<Taken>),
    /// Subscriptions are gone.
    Unsubscribed { session: SessionNumber, filters: Vec<Box<str>> },
    /// A session has ended.
    Ended(SessionNumber),
    /// Nothing: they only report.
    Nothing,
}

impl News {
    /// The session that it is about.
    fn session(&self) -> Option<SessionNumber> {
        match self {
            Self::Subscribed(taken) => taken.first().map(|one| one.subscriber.session),
            Self::Unsubscribed { session, .. } | Self::Ended(session) => Some(*session),
            Self::Nothing => None,
        }
    }

    /// Memory that it holds beside itself.
    pub(super) fn held_bytes(&self) -> usize {
        match self {
            Self::Subscribed(taken) => taken.iter().map(Taken::held_bytes).sum(),
            Self::Unsubscribed { filters, .. } => {
                filters.iter().map(|filter| size_of::<Box<str>>() + filter.len()).sum()
            }
            Self::Ended(_) | Self::Nothing => 0,
        }
    }
}

/// A subscription that a lane has taken.
#[derive(Clone, Debug)]
pub(crate) struct Taken {
    pub(super) filter: Box<str>,
    pub(super) subscriber: Subscriber,
    /// It starts in the past.
    pub(super) replays: bool,
}

impl Taken {
    fn held_bytes(&self) -> usize {
        size_of::<Self>() + self.filter.len()
    }
}

/// A change that other lanes have not heard of.
#[derive(Debug)]
struct Untold {
    change: u32,
    news: News,
    /// It waits only for those before it.
    is_due: bool,
}

impl Untold {
    fn held_bytes(&self) -> usize {
        size_of::<Self>() + self.news.held_bytes()
    }
}

/// Changes under way.
#[derive(Debug, Default)]
pub(super) struct Changes {
    open: Slab<Change>,
    /// In their order.
    untold: VecDeque<Untold>,
    untold_bytes: usize,
}

/// While so many bytes wait to be told, who subscribes waits.
const UNTOLD_MAX: usize = 64 << 10;

impl Changes {
    /// The client that waits for a change.
    pub(super) fn client(&self, change: u32) -> Option<ConnId> {
        match self.open.get(change as usize)?.then {
            Then::Acknowledge { conn, .. } => Some(conn),
            Then::Replay { .. } | Then::Forget { .. } | Then::Sighted { .. } => None,
        }
    }

    /// Whether much waits to be told.
    pub(super) fn is_much_untold(&self) -> bool {
        self.untold_bytes >= UNTOLD_MAX
    }

    #[cfg(test)]
    pub(super) fn untold_bytes(&self) -> usize {
        self.untold_bytes
    }

    /// Whether other lanes are to hear of something else before this.
    fn has_before(&self, news: &News) -> bool {
        let session = news.session();
        // The fence that asks for nothing may be about any of them.
        self.untold.iter().any(|untold| session.is_none() || untold.news.session() == session)
    }

    fn keep_untold(&mut self, untold: Untold) {
        self.untold_bytes += untold.held_bytes();
        self.untold.push_back(untold);
    }

    /// Its record is committed, though perhaps not given before that of an earlier one.
    fn note_due(&mut self, change: u32) {
        if let Some(untold) = self.untold.iter_mut().find(|untold| untold.change == change) {
            untold.is_due = true;
        }
    }

    fn next_due(&mut self) -> Option<Untold> {
        let untold = self.untold.pop_front_if(|untold| untold.is_due)?;
        self.untold_bytes -= untold.held_bytes();
        Some(untold)
    }
}

impl<D: Disk> Shell<D> {
    /// Tells all lanes of a change that was recorded and taken here.
    pub(super) fn begin_change(&mut self, io: &mut Io<'_, D>, tell: Tell, news: News, then: Then) {
        let missing = u32::from(self.lanes);
        let mut heard = Heard::by_none(self.lanes);
        heard.by(self.made_so_far());
        let key = self.changes.open.insert(Change { missing, heard, then });
        let change = u32::try_from(key).unwrap_or(u32::MAX);
        let is_due = tell == Tell::Now || self.lanes == 1;
        if is_due && !self.changes.has_before(&news) {
            self.tell_change(io, change, &news);
        } else {
            self.changes.keep_untold(Untold { change, news, is_due });
        }
        self.answer(io, Answer::Change { change });
    }

    fn tell_due(&mut self, io: &mut Io<'_, D>) {
        while let Some(Untold { change, mut news, .. }) = self.changes.next_due() {
            self.bring_up_to_date(&mut news);
            self.tell_change(io, change, &news);
        }
    }

    fn tell_change(&mut self, io: &mut Io<'_, D>, change: u32, news: &News) {
        self.tell_all(io, &|| Note::Change { change, news: news.clone() });
    }

    /// What has become of the sessions since their subscriptions were taken.
    fn bring_up_to_date(&mut self, news: &mut News) {
        let News::Subscribed(taken) = news else { return };
        for Taken { subscriber, .. } in taken {
            subscriber.flags = self.flags_of(subscriber.session);
            subscriber.since = self.since(subscriber.session);
            self.owed.tell_again(subscriber.session);
        }
    }

    /// The own record of a change is committed: one of the things that it waits for.
    pub(super) fn record_committed(&mut self, io: &mut Io<'_, D>, change: u32) {
        if planted::is(Bug::SubackAtCommit)
            && let Some(open) = self.changes.open.get_mut(change as usize)
            && let Then::Acknowledge { conn, packet, .. } = &mut open.then
        {
            let (conn, packet) = (*conn, std::mem::take(packet));
            write_packet(io, &mut self.counts, conn, |output| output.extend_from_slice(&packet));
        }
        self.changes.note_due(change);
        self.tell_due(io);
        self.change_committed(io, change);
    }

    /// All that another lane did before it took a change is committed; it had made so much.
    pub(super) fn reported(&mut self, io: &mut Io<'_, D>, change: u32, so_far: Made) {
        if let Some(open) = self.changes.open.get_mut(change as usize) {
            open.heard.by(so_far);
        }
        self.change_committed(io, change);
    }

    /// One of the things that a change waits for has come.
    fn change_committed(&mut self, io: &mut Io<'_, D>, change: u32) {
        let key = change as usize;
        let Some(open) = self.changes.open.get_mut(key) else { return };
        assert!(open.missing > 0, "each lane reports once");
        open.missing -= 1;
        if open.missing > 0 {
            return;
        }
        let Change { heard, then, .. } = self.changes.open.remove(key);
        match then {
            Then::Acknowledge { conn, session, packet, wishes, starts } => {
                if let Some(link) = self.links.up_mut(conn) {
                    link.staged = None;
                }
                self.grant_wishes(io, conn, session, (wishes, heard), packet);
                self.start_replays(io, conn, session, starts);
            }
            Then::Replay { conn, session, starts } => {
                self.start_replays(io, conn, session, starts);
            }
            Then::Sighted { granting } => self.sighted(io, granting),
            Then::Forget { session } => self.forget_ended(io, session),
        }
    }

    /// A session of this lane has ended: when every lane knows, nothing can come for it any more.
    pub(super) fn ended_everywhere(&mut self, io: &mut Io<'_, D>, session: SessionNumber) {
        let then = Then::Forget { session };
        self.begin_change(io, Tell::Now, News::Ended(session), then);
    }

    /// Nothing is under way for an ended session any more.
    fn forget_ended(&mut self, io: &mut Io<'_, D>, session: SessionNumber) {
        if self.state.ended(session).is_some() {
            self.forgettable.push(session);
            io.turn_again();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An answer may be given from within another one, before those that were ready with it. Found
    /// by the simulator (seed 313): who came so was never told, nor was anybody after it.
    #[test]
    fn changes_are_told_in_their_order_whichever_is_committed_first() {
        let mut changes = Changes::default();
        for (change, is_due) in [(1, false), (2, false), (3, true)] {
            changes.keep_untold(Untold { change, news: News::Nothing, is_due });
        }
        assert!(changes.next_due().is_none());
        changes.note_due(2);
        assert!(changes.next_due().is_none(), "the first is not committed");
        changes.note_due(1);
        let told: Vec<u32> =
            std::iter::from_fn(|| changes.next_due()).map(|one| one.change).collect();
        assert_eq!((told, changes.untold_bytes), (vec![1, 2, 3], 0));
    }
}
