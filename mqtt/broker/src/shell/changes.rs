//! Changes of subscriptions that every lane has to take before they are answered.
//!
//! A change is told to all other lanes; each takes it into its copy of the index and reports once
//! everything that it had handed over before is committed. When all have reported and the change's
//! own record is committed, no publish of any lane misses it: that is its fence. With its report a
//! lane says how far it was when it took the change.
//!
//! Assumes: a lane's messages to another arrive in order.

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

/// Changes under way.
#[derive(Debug, Default)]
pub(super) struct Changes {
    open: Slab<Change>,
}

impl Changes {
    /// The client that waits for a change.
    pub(super) fn client(&self, change: u32) -> Option<ConnId> {
        match self.open.get(change as usize)?.then {
            Then::Acknowledge { conn, .. } => Some(conn),
            Then::Replay { .. } | Then::Forget { .. } | Then::Sighted { .. } => None,
        }
    }
}

impl<D: Disk> Shell<D> {
    /// Tells all lanes of a change that was recorded and taken here.
    pub(super) fn begin_change(&mut self, io: &mut Io<'_, D>, news: News, then: Then) {
        let missing = u32::from(self.lanes);
        let mut heard = Heard::by_none(self.lanes);
        heard.by(self.made_so_far());
        let key = self.changes.open.insert(Change { missing, heard, then });
        let change = u32::try_from(key).unwrap_or(u32::MAX);
        self.tell_all(io, &|| Note::Change { change, news: news.clone() });
        self.answer(io, Answer::Change { change });
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
        self.begin_change(io, News::Ended(session), then);
    }

    /// Nothing is under way for an ended session any more.
    fn forget_ended(&mut self, io: &mut Io<'_, D>, session: SessionNumber) {
        if self.state.ended(session).is_some() {
            self.forgettable.push(session);
            io.turn_again();
        }
    }
}
