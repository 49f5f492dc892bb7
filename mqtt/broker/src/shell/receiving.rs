//! What a client may receive, where its authoriser says so later: its messages wait for that, each
//! kind in its order, and nobody else's do.
//!
//! Owns: the open questions about what goes out, and the messages at QoS 0 behind them. Those of a
//! queue wait there. What waits at QoS 0 counts as output: with too much of it the connection is
//! clogged.
//! Assumes: an authoriser that answers at once leaves nothing here.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;
use zzq_engine::QueueNumber;
use zzq_lanes::{ConnId, Millis};
use zzq_types::{Lsn, QoS, SubscriptionId};
use zzq_wal::disk::Disk;

use super::link::Waits;
use super::message::Message;
use super::questions::Pending;
use super::rights::may_receive;
use super::wire::{Content, Ids, Manner, Receiver};
use super::{Io, Shell};
use crate::hooks::{Answer, NoAnswer};
use crate::metrics::Counts;

/// See the file.
#[derive(Debug, Default)]
pub(super) struct Receiving {
    open: FxHashMap<ConnId, Open>,
    /// What waits at QoS 0, of all connections.
    bytes: usize,
    /// The message that was copied last in this turn: its next receivers may wait for theirs too.
    copied: Option<Message>,
}

#[derive(Debug, Default)]
struct Open {
    /// The message of its queue that was asked about last.
    queued: Option<(QueueNumber, Permission)>,
    /// Messages at QoS 0, and what was asked about the first of them.
    late: VecDeque<Late>,
    asked: Option<Box<Pending<bool>>>,
    /// What these take.
    bytes: usize,
}

#[derive(Debug)]
enum Permission {
    Asked(Box<Pending<bool>>),
    Known(bool),
}

/// A message at QoS 0.
#[derive(Debug)]
struct Late {
    message: Message,
    retain: bool,
    ids: Box<[SubscriptionId]>,
    place: Option<Lsn>,
}

impl Late {
    fn weight(&self) -> usize {
        self.message.weight() + size_of_val(&*self.ids)
    }

    fn content(&self) -> Content<'_> {
        Content { place: self.place, ..self.message.content() }
    }
}

impl Receiving {
    /// A connection is gone.
    pub(super) fn forget(&mut self, conn: ConnId) {
        if let Some(gone) = self.open.remove(&conn) {
            self.bytes -= gone.bytes;
        }
    }

    /// Others are not copied again.
    pub(super) fn end_turn(&mut self) {
        self.copied = None;
    }

    /// Bytes at QoS 0 that wait for answers. What several receivers have together counts for each.
    pub(super) const fn all_bytes(&self) -> usize {
        self.bytes
    }

    fn copy(&mut self, content: Content<'_>) -> Message {
        let copied = self.copied.as_ref().filter(|copied| copied.content().says_the_same(content));
        if let Some(copied) = copied {
            return copied.clone();
        }
        let copy = Message::copy(content);
        self.copied = Some(copy.clone());
        copy
    }

    /// Bytes at QoS 0 that wait for an answer.
    #[inline]
    pub(super) fn bytes(&self, conn: ConnId) -> usize {
        if self.open.is_empty() { 0 } else { self.open.get(&conn).map_or(0, |open| open.bytes) }
    }

    /// What was answered about a message of a queue.
    pub(super) fn permission(&self, conn: ConnId) -> Option<(QueueNumber, bool)> {
        match self.open.get(&conn)?.queued {
            Some((number, Permission::Known(may))) => Some((number, may)),
            _ => None,
        }
    }

    /// Whether something waits for an answer until then.
    pub(super) fn waits_until(&self, conn: ConnId, due: Millis) -> bool {
        let Some(open) = self.open.get(&conn) else { return false };
        let queued = match &open.queued {
            Some((_, Permission::Asked(pending))) => Some(pending.due()),
            _ => None,
        };
        [queued, open.asked.as_ref().map(|pending| pending.due())].contains(&Some(due))
    }
}

/// Whether a message may be received; without an answer it may not.
fn heard(answer: Result<bool, NoAnswer>, counts: &mut Counts) -> bool {
    answer.unwrap_or_else(|NoAnswer| {
        counts.unanswered += 1;
        false
    })
}

impl<D: Disk> Shell<D> {
    /// The next message of a queue waits for this answer.
    pub(super) fn ask_to_send(
        &mut self,
        io: &Io<'_, D>,
        conn: ConnId,
        number: QueueNumber,
        answer: Answer<bool>,
    ) {
        let permission = match self.settle_answer(io, conn, answer) {
            Ok(may) => Permission::Known(may),
            Err(pending) => Permission::Asked(pending),
        };
        self.receiving.open.entry(conn).or_default().queued = Some((number, permission));
    }

    /// A message at QoS 0 that cannot be sent before there is an answer, or behind one. `answer`:
    /// about this one.
    pub(super) fn send0_later(
        &mut self,
        io: &mut Io<'_, D>,
        conn: ConnId,
        (content, retain, ids): (Content<'_>, bool, Ids<'_>),
        answer: Option<Answer<bool>>,
    ) {
        let ids = ids.to_vec().into();
        let (message, place) = (self.receiving.copy(content), content.place);
        let late = Late { message, retain, ids, place };
        let asked = answer.map(|answer| self.settle_answer(io, conn, answer));
        let open = self.receiving.open.entry(conn).or_default();
        open.bytes += late.weight();
        self.receiving.bytes += late.weight();
        open.late.push_back(late);
        match asked {
            Some(Err(pending)) => open.asked = Some(pending),
            Some(Ok(_)) => unreachable!("it was not there"),
            None => {}
        }
        self.note_clogged(io, conn);
    }

    /// Goes on with what may go out where an answer has come, or is overdue.
    pub(super) fn go_on_receiving(&mut self, io: &mut Io<'_, D>, conn: ConnId) {
        let Some(open) = self.receiving.open.get_mut(&conn) else { return };
        if let Some((_, permission)) = &mut open.queued
            && let Permission::Asked(pending) = permission
            && let Some(answer) = pending.poll(io.now()).transpose()
        {
            *permission = Permission::Known(heard(answer, &mut self.counts));
            self.has_come(io, conn, Waits::Answer);
            // This may come behind the parts of a turn that go on with what follows from it.
            io.turn_again();
        }
        self.go_on_late(io, conn);
    }

    /// Sends what waits at QoS 0, up to the next that has to.
    fn go_on_late(&mut self, io: &mut Io<'_, D>, conn: ConnId) {
        let mut has_gone_on = false;
        while let Some(may) = self.may_send_late(io, conn) {
            has_gone_on = true;
            let late = self.receiving.open.get_mut(&conn).and_then(|open| {
                let late = open.late.pop_front()?;
                open.bytes -= late.weight();
                self.receiving.bytes -= late.weight();
                Some(late)
            });
            let Some(late) = late else { return };
            if !may {
                self.counts.dropped_denied += 1;
                continue;
            }
            self.wire.begin(1);
            self.send0(io, conn, late.content(), late.retain, Ids::List(&late.ids));
        }
        if has_gone_on {
            // Others may have waited for these.
            self.notify_drained(io, conn);
        }
    }

    /// Whether the first message that waits at QoS 0 may go. `None`: it waits on, or there is none.
    fn may_send_late(&mut self, io: &Io<'_, D>, conn: ConnId) -> Option<bool> {
        let open = self.receiving.open.get_mut(&conn)?;
        let first = open.late.front()?;
        if let Some(pending) = &mut open.asked {
            let answer = pending.poll(io.now()).transpose()?;
            open.asked = None;
            return Some(heard(answer, &mut self.counts));
        }
        if first.content().expires_ms.is_some_and(|expires_ms| expires_ms <= self.now_ms) {
            // It is counted where it would be sent.
            return Some(true);
        }
        let who = self.links.get(conn).and_then(|link| link.who.as_ref());
        let authoriser = self.shared.hooks.authoriser.as_deref();
        let answer = may_receive(authoriser, who, first.content().topic, QoS::AtMostOnce);
        match self.settle_answer(io, conn, answer) {
            Ok(may) => Some(may),
            Err(pending) => {
                self.receiving.open.entry(conn).or_default().asked = Some(pending);
                None
            }
        }
    }

    /// Sends a message at QoS 0 that its receiver may have.
    pub(super) fn send0(
        &mut self,
        io: &mut Io<'_, D>,
        conn: ConnId,
        content: Content<'_>,
        retain: bool,
        ids: Ids<'_>,
    ) {
        if content.expires_ms.is_some_and(|expires_ms| expires_ms <= self.now_ms) {
            self.counts.expired += 1;
            return;
        }
        let Some(link) = self.links.up_mut(conn) else { return };
        let manner = Manner { qos: QoS::AtMostOnce, retain, dup: false, id: None, ids };
        let to = Receiver::of(conn, link);
        let sent = self.wire.send_one_of_many(io, to, content, manner, self.now_ms);
        self.counts.sent(sent, content.payload.len());
        self.note_clogged(io, conn);
    }
}
