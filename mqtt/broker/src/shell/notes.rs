//! What lanes tell each other.
//!
//! Assumes: a lane's notes to another arrive in order. A ring that is full, of notes or of the
//! memory that they hold, makes its notes wait here, in order; publishes are held before that.

use std::sync::Arc;

use zzq_codec::Run;
use zzq_engine::record::Publish as PublishRecord;
use zzq_engine::{Decision, Record, Routed, SessionFlags, SessionNumber};
use zzq_lanes::{Class, LaneIndex};
use zzq_types::{Filter, QoS};
use zzq_wal::disk::Disk;

use super::answers::Answer;
use super::changes::News;
use super::direct::{Direct, Manner, Number, Sent};
use super::live::Made;
use super::publish::Handed;
use super::retained::{Found, Query};
use super::run::Numbers;
use super::wire::Content;
use super::{Io, Shell};
use crate::planted::{self, Bug};
use crate::replay::standing;

/// What travels with a connection to the lane of its session: nothing, its CONNECT is unread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Carried;

/// From lane to lane.
#[derive(Debug)]
pub(crate) enum Note {
    /// A message, or a run of them, for receivers who do not get it by way of the log.
    Publish(Arc<Direct>),
    /// Take this and report.
    Change { change: u32, news: News },
    /// What was handed over before a change is committed; so much was.
    Report { change: u32, so_far: Made },
    /// How a session stands.
    Flags { session: SessionNumber, flags: SessionFlags, since: u32 },
    /// How many messages a member of a group is owed.
    Owed { session: SessionNumber, owed: u16 },
    /// All queues together have reached their bound or left it, or this lane is to end a session
    /// for it.
    QueueTotal,
    /// Which retained messages match?
    Query(Query),
    /// These.
    Found(Found),
}

impl Note {
    /// Memory that it holds until it is taken, which rings bound. What others hold is short, or
    /// paced by its receiver.
    fn held_bytes(&self) -> usize {
        match self {
            Self::Publish(direct) => direct.held_bytes(),
            Self::Change { news, .. } => news.held_bytes(),
            _ => 0,
        }
    }
}

/// Where a message was published.
#[derive(Clone, Copy, Debug)]
enum Way {
    /// On this lane, for so many receivers on all of them.
    Here(usize),
    /// On another, by a client of its own.
    Across,
}

impl<D: Disk> Shell<D> {
    pub(super) fn note(&mut self, io: &mut Io<'_, D>, from: LaneIndex, note: Note) {
        match note {
            Note::Publish(direct) => {
                self.take_direct(io, from, &direct);
                self.shared.arrivals.add(from, self.lane);
            }
            Note::Change { change, news } => {
                self.take_news(io, news);
                self.report(io, from, change);
            }
            Note::Report { change, so_far } => self.reported(io, change, so_far),
            Note::Flags { session, flags, since } => {
                let was = self.index.flags(session).map_or(SessionFlags::NONE, |known| known.0);
                self.index.set_flags(session, flags, since);
                if was.without(flags).contains(SessionFlags::LAGGING) {
                    self.let_go(io);
                }
            }
            Note::Owed { session, owed } => {
                self.index.set_load(session, owed);
            }
            // It is looked at when the turn ends.
            Note::QueueTotal => self.is_next_for_total(),
            Note::Query(query) => self.queries.push((from, query)),
            Note::Found(found) => self.take_found(io, found),
        }
    }

    fn take_news(&mut self, io: &mut Io<'_, D>, news: News) {
        match news {
            News::Subscribed(taken) => {
                for one in taken {
                    standing::stand(&mut self.index, &one.filter, one.subscriber, one.replays);
                    if let Ok(filter) = Filter::new(&one.filter) {
                        self.hold_members(io, filter, one.subscriber.flags);
                    }
                }
            }
            News::Unsubscribed { session, filters } => {
                for text in filters {
                    standing::leave(&mut self.index, &text, session);
                }
            }
            News::Ended(session) => {
                self.index.remove_session(session);
            }
            News::Nothing => {}
        }
    }

    fn report(&mut self, io: &mut Io<'_, D>, to: LaneIndex, change: u32) {
        let so_far = self.made_so_far();
        self.answer(io, Answer::Report { to, change, so_far });
    }

    /// Sends a note, or keeps it until the ring has room.
    pub(super) fn send_note(
        &mut self,
        io: &mut Io<'_, D>,
        to: LaneIndex,
        note: Note,
        class: Class,
    ) {
        let bytes = note.held_bytes();
        if self.kept_notes.iter().any(|(lane, ..)| *lane == to) {
            self.kept_notes.push_back((to, note, class));
        } else if let Err(note) = io.send_holding(to, note, class, bytes) {
            planted::block_if(Bug::BlockingPush);
            self.kept_notes.push_back((to, note, class));
        }
    }

    /// Sends a note to all other lanes.
    pub(super) fn tell_all(&mut self, io: &mut Io<'_, D>, note: &dyn Fn() -> Note) {
        for lane in self.other_lanes() {
            self.send_note(io, lane, note(), Class::Receipt);
        }
    }

    /// Whether a note has found its ring full: who has more to tell other lanes waits.
    pub(super) fn is_held_up(&self) -> bool {
        !self.kept_notes.is_empty()
    }

    /// Whether so much of subscriptions is to be told that who changes more waits: one has found
    /// its ring full, or many wait for the log. Not for any other note, for who makes those may go
    /// first each time there is room.
    pub(super) fn holds_subscriptions_up(&self) -> bool {
        let is_such = |note: &Note| match note {
            Note::Change { news, .. } => {
                matches!(news, News::Subscribed(_) | News::Unsubscribed { .. })
            }
            _ => false,
        };
        self.changes.is_much_untold() || self.kept_notes.iter().any(|(_, note, _)| is_such(note))
    }

    /// Tries again what found its ring full.
    pub(super) fn retry_notes(&mut self, io: &mut Io<'_, D>) {
        for (to, note, class) in std::mem::take(&mut self.kept_notes) {
            self.send_note(io, to, note, class);
        }
    }

    /// Brings a message that is not logged to its receivers on all lanes.
    pub(super) fn spread(
        &mut self,
        io: &mut Io<'_, D>,
        record: &PublishRecord<'_>,
        routed: &Routed,
    ) -> Handed {
        if self.is_held_up() {
            return Handed::Later;
        }
        let lanes = self.concerned(record, routed);
        let lsn = if record.retain {
            self.number_of_write(record.topic)
        } else {
            self.journal.take_own()
        };
        let content = Content::of(record, self.now_ms);
        self.send_direct(io, record, content, lanes, Number::Own(lsn));
        let plain = record.qos == QoS::AtMostOnce && !record.retain && record.will_of.is_none();
        if plain {
            self.deliver_plain(io, record, content, Way::Here(routed.destinations), false);
        } else if lanes & self.bit() != 0 {
            self.apply(io, lsn, self.now_ms, &Record::Publish(*record));
        }
        Handed::Over { destinations: routed.destinations }
    }

    /// Brings a message at QoS 0 that the log retains to its receivers on all lanes.
    pub(super) fn spread_retained(
        &mut self,
        io: &mut Io<'_, D>,
        record: &PublishRecord<'_>,
        routed: &Routed,
        made: Made,
    ) {
        let content = Content::of(record, self.now_ms);
        self.send_direct(io, record, content, routed.lanes, Number::Record(made));
        self.deliver_retained(io, record, content, made, Way::Here(routed.destinations));
    }

    /// Sends a message to all lanes among `lanes` but this one.
    fn send_direct(
        &mut self,
        io: &mut Io<'_, D>,
        record: &PublishRecord<'_>,
        content: Content<'_>,
        lanes: u64,
        number: Number,
    ) {
        let others = lanes & !self.bit();
        if others == 0 {
            return;
        }
        let manner = Manner { number, qos: record.qos, retain: record.retain };
        let direct = self.directs.message(manner, record.decision, content);
        self.send_to_each(io, others, &direct);
    }

    /// Sends a run to these lanes.
    pub(super) fn send_run_direct(
        &mut self,
        io: &mut Io<'_, D>,
        others: u64,
        decision: Decision<'_>,
        run: (Run<'_>, Numbers),
    ) {
        let direct = self.directs.run(decision, run);
        self.send_to_each(io, others, &direct);
    }

    fn send_to_each(&mut self, io: &mut Io<'_, D>, others: u64, direct: &Arc<Direct>) {
        for lane in (0..self.lanes).filter(|lane| others & 1 << lane != 0) {
            self.send_direct_to(io, LaneIndex(lane), Arc::clone(direct), Class::Bulk);
        }
    }

    /// Sends a message to one lane, and counts it.
    pub(super) fn send_direct_to(
        &mut self,
        io: &mut Io<'_, D>,
        to: LaneIndex,
        direct: Arc<Direct>,
        class: Class,
    ) {
        self.directs.sent_to(to);
        self.send_note(io, to, Note::Publish(direct), class);
    }

    /// A message at QoS 0 that changes no state: straight to its receivers. To a subscription that
    /// starts in the past one comes by way of the log alone, if it is there (`by_log`), and one
    /// that is nowhere when history is over.
    fn deliver_plain(
        &mut self,
        io: &mut Io<'_, D>,
        record: &PublishRecord<'_>,
        content: Content<'_>,
        way: Way,
        by_log: bool,
    ) {
        let Way::Here(receivers) = way else {
            self.wire.begin(2);
            return self.deliver_each(io, record, content, by_log, |_| false);
        };
        self.wire.begin(receivers);
        let by = record.publisher;
        self.deliver_each(io, record, content, by_log, |to| by.is_none_or(|by| by == to));
    }

    fn deliver_each(
        &mut self,
        io: &mut Io<'_, D>,
        record: &PublishRecord<'_>,
        content: Content<'_>,
        by_log: bool,
        is_own: impl Fn(SessionNumber) -> bool,
    ) {
        for to in record.decision {
            let replay = self.replay_of(to.session, to.pick);
            if replay.is_some_and(|replay| by_log || !replay.is_live) {
                continue;
            }
            let ids = super::wire::Ids::Of(to.ids);
            let own = is_own(to.session);
            self.deliver0(io, to.session, content, to.retain, ids, own);
        }
    }

    /// The same of one that changes it elsewhere, by way of the log.
    fn deliver_retained(
        &mut self,
        io: &mut Io<'_, D>,
        record: &PublishRecord<'_>,
        content: Content<'_>,
        made: Made,
        way: Way,
    ) {
        let state = &self.state;
        let placed = |session, pick: Option<_>| {
            pick.is_some_and(|pick| {
                let known = state.session(session);
                known.is_some_and(|known| known.replay(pick).is_some())
            })
        };
        let others = record.decision.iter().filter(|to| !placed(to.session, to.pick));
        self.live.came_directly(made, record.topic.as_str(), others.map(|to| to.session));
        self.deliver_plain(io, record, content, way, true);
    }

    fn take_direct(&mut self, io: &mut Io<'_, D>, from: LaneIndex, direct: &Direct) {
        let decision = direct.decision();
        let (Manner { number, qos, retain }, content) = match direct.sent() {
            Sent::Message(manner, content) => (manner, content),
            Sent::Run(version, numbers, bytes) => {
                return self.take_run_direct(io, decision, (version, numbers), bytes);
            }
        };
        let record = PublishRecord { retain, ..content.record(qos, decision) };
        match number {
            Number::Record(made) => self.deliver_retained(io, &record, content, made, Way::Across),
            Number::Own(_) if qos == QoS::AtMostOnce && !retain => {
                self.deliver_plain(io, &record, content, Way::Across, false);
            }
            Number::Own(lsn) => {
                if retain {
                    self.write_comes(from, content.topic);
                }
                let time_ms = self.published_ms(&record, content.expires_ms);
                let made = Made::unlogged(from, lsn);
                self.apply_made(io, lsn, time_ms, &Record::Publish(record), made);
            }
        }
    }

    /// When a message was published that is applied later, or again: what its expiry counts from.
    pub(super) fn published_ms(&self, record: &PublishRecord<'_>, expires_ms: Option<u64>) -> u64 {
        match (record.expires_ms(0), expires_ms) {
            (Some(interval), Some(expires_ms)) => expires_ms.saturating_sub(interval),
            _ => self.now_ms,
        }
    }
}
