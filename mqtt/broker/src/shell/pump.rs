//! Queues become packets: what a session is owed goes out in the order of its numbers, within the
//! client's window, once it may.
//!
//! Assumes: `zzq_engine`'s outbound half of a session knows which number is next and what stops
//! it. A link that waits for more than its client has an event to come: [`Waits`] names it and
//! says what brings it.

use zzq_codec::{Ack, AckKind, Run};
use zzq_engine::session::{Outgoing, Progress, Queue, Received, Waiting};
use zzq_engine::{Destination, QueueNumber, SessionNumber};
use zzq_lanes::ConnId;
use zzq_types::{Lsn, PacketId, QoS, TopicName};
use zzq_wal::disk::Disk;

use rustc_hash::FxHashMap;

use super::full::Dropping;
use super::hold::OutputMost;
use super::journal::{Journal, is_own};
use super::link::{Link, Outbound, Waits};
use super::message::{Message, Store};
use super::packet_out::write_ack;
use super::rights::may_receive;
use super::wire::{Content, Ids, Manner, Receiver, Unsent, Wire};
use super::{Io, Shell};
use crate::hooks::{Answer, Authoriser};
use crate::metrics::Counts;
use crate::planted::{self, Bug};

/// Messages that are asked for at once when they are not in memory, and bytes of them. While half
/// of them are on their way to the client the next are read.
const AHEAD: usize = 4096;
const AHEAD_BYTES: usize = 512 * 1024;

/// As many where the lane has no room for more.
const SCARCE: usize = 64;
const SCARCE_BYTES: usize = 16 * 1024;

/// Why the pump has stopped.
enum Stop {
    /// Nothing is owed, or the client's answer comes first.
    Idle,
    /// The connection's output is full.
    Output,
    /// The message with this number is not in memory.
    Message(QueueNumber),
    /// The commit of this record comes first.
    Commit(Lsn),
    /// The answer comes first whether the message with this number may be received.
    Answer(QueueNumber, Answer<bool>),
    /// Another message may have the next identifier, the next message is being dropped, or others
    /// before it are being dropped or given up.
    Identifier,
}

/// What it takes to send to one receiver.
struct Outlet<'a> {
    conn: ConnId,
    link: &'a mut Link,
    queue: &'a Queue,
    store: &'a Store,
    fetched: &'a FxHashMap<Lsn, Message>,
    wire: &'a mut Wire,
    authoriser: Option<&'a dyn Authoriser>,
    /// What it has said later about the message with this number.
    permission: Option<(QueueNumber, bool)>,
    counts: &'a mut Counts,
    progress: Progress,
    now_ms: u64,
    output_most: OutputMost,
    /// What of the queue is being dropped.
    dropping: Option<&'a Dropping>,
}

impl<D: Disk> Shell<D> {
    pub(super) fn pump_session(&mut self, io: &mut Io<'_, D>, session: SessionNumber) {
        if let Some(&conn) = self.up.get(&session) {
            self.pump_conn(io, conn);
        }
    }

    /// Goes on if what has come is what the link waits for.
    pub(super) fn has_come(&mut self, io: &mut Io<'_, D>, conn: ConnId, awaited: Waits) {
        if let Some(out) = self.links.up_mut(conn).and_then(|link| link.out.get_mut())
            && out.waits == awaited
        {
            out.waits = Waits::Nothing;
            self.pump_conn(io, conn);
        }
    }

    /// Looks again at those whose next identifier was in use.
    pub(super) fn go_on_crowded(&mut self, io: &mut Io<'_, D>) {
        for conn in std::mem::take(&mut self.crowded) {
            self.has_come(io, conn, Waits::Identifier);
        }
    }

    /// Sends what may go out now.
    //= MQTT5-3.3.4-10
    //= MQTT5-4.9.0-3
    pub(super) fn pump_conn(&mut self, io: &mut Io<'_, D>, conn: ConnId) {
        let progress = self.progress();
        let Some(mut outlet) = self.outlet(conn, progress) else { return };
        let stop = outlet.pump(io);
        let session = outlet.link.session;
        if outlet.link.out.get().is_some_and(Outbound::has_fresh) {
            self.owe(conn);
        }
        let Some(session) = session else { return };
        if !matches!(stop, Stop::Message(_)) {
            self.read_ahead(conn, session);
        }
        let waits = match stop {
            Stop::Idle => return,
            Stop::Output => {
                io.notify_drained(conn);
                Waits::Output
            }
            Stop::Message(from) => {
                self.fetch(conn, session, from);
                Waits::Message
            }
            Stop::Commit(lsn) => {
                self.later.pump(lsn, session);
                Waits::Commit
            }
            Stop::Answer(number, answer) => {
                self.ask_to_send(io, conn, number, answer);
                Waits::Answer
            }
            Stop::Identifier => {
                self.crowded.push(conn);
                Waits::Identifier
            }
        };
        if let Some(link) = self.links.up_mut(conn) {
            link.out.make().waits = waits;
        }
    }

    /// Sends a message whose record is at hand, if nothing is owed to its receiver before it.
    pub(super) fn send_at_hand(
        &mut self,
        io: &mut Io<'_, D>,
        conn: ConnId,
        number: QueueNumber,
        content: Content<'_>,
        progress: Progress,
    ) -> bool {
        let outlet = self.outlet(conn, progress);
        outlet.is_some_and(|mut outlet| outlet.send_at_hand(io, number, content))
    }

    /// Sends messages of a run that a queue took just now, `first` being the number of the first of
    /// them, if nothing is owed to their receiver before; returns how many.
    pub(super) fn send_run(
        &mut self,
        io: &mut Io<'_, D>,
        conn: ConnId,
        to: Destination<'_>,
        first: QueueNumber,
        run: Run<'_>,
        progress: Progress,
    ) -> usize {
        let outlet = self.outlet(conn, progress);
        outlet.map_or(0, |mut outlet| outlet.send_run(io, to, first, run))
    }

    /// How far the log is, for what goes out: on one that has failed nothing more does.
    pub(super) fn progress(&self) -> Progress {
        let committed =
            if self.journal.is_read_only() { Lsn::ZERO } else { self.journal.committed_lsn() };
        Progress { applied: self.state.applied(), committed, unlogged: Journal::<D>::UNLOGGED }
    }

    /// None if the receiver is not up, or waits for something, or if there was never anything to
    /// be sent.
    fn outlet(&mut self, conn: ConnId, progress: Progress) -> Option<Outlet<'_>> {
        let output_most = self.output_most();
        let committed = self.journal.committed();
        let link = self.links.up_mut(conn).filter(|link| link.out.waits() == Waits::Nothing)?;
        let session = link.session?;
        let queue = self.state.session(session)?.queue();
        if queue.is_empty() && link.out.get().is_none() {
            return None;
        }
        let dropping = self.full.dropping(session, committed);
        Some(Outlet {
            conn,
            link,
            queue,
            store: &self.store,
            fetched: &self.fetched,
            wire: &mut self.wire,
            authoriser: self.shared.hooks.authoriser.as_deref(),
            permission: self.receiving.permission(conn),
            counts: &mut self.counts,
            progress,
            now_ms: self.now_ms,
            output_most,
            dropping,
        })
    }

    /// Asks for the messages that the pump needs next and that are not in memory, unless some are
    /// being read: when they have come it looks again.
    fn fetch(&mut self, conn: ConnId, session: SessionNumber, from: QueueNumber) {
        if self.links.up_mut(conn).is_none_or(|link| link.out.get().is_some_and(|out| out.asks)) {
            return;
        }
        let (wanted, through) = self.missing(session, from);
        assert!(!wanted.is_empty(), "the first of them is not in memory");
        self.ask(conn, wanted, through);
    }

    /// Asks for the messages behind those that were asked for, when half of these are sent. A
    /// client that has caught up gets what comes from memory.
    fn read_ahead(&mut self, conn: ConnId, session: SessionNumber) {
        let Some(out) = self.links.get(conn).and_then(|link| link.out.get()) else { return };
        let (asked, sent) = (out.asked.get(), out.numbers.cursor().get());
        let half = out.asked_from.get().midpoint(asked);
        if asked == 0 || out.asks || sent < half || !self.store.has_room(AHEAD_BYTES) {
            return;
        }
        let (wanted, through) = self.missing(session, QueueNumber::new(asked.max(sent) + 1));
        if wanted.is_empty() {
            if let Some(link) = self.links.up_mut(conn) {
                link.out.make().asked = QueueNumber::ZERO;
            }
        } else {
            self.ask(conn, wanted, through);
        }
    }

    fn ask(&mut self, conn: ConnId, wanted: Vec<Lsn>, through: QueueNumber) {
        if let Some(link) = self.links.up_mut(conn) {
            let out = link.out.make();
            out.asks = true;
            out.asked_from = out.numbers.cursor();
            out.asked = through;
        }
        self.request(conn, wanted);
    }

    /// The next messages of a session that are not in memory, and the last number looked at.
    fn missing(&self, session: SessionNumber, from: QueueNumber) -> (Vec<Lsn>, QueueNumber) {
        let (mut wanted, mut through) = (Vec::new(), from);
        let Some(known) = self.state.session(session) else { return (wanted, through) };
        let committed = self.journal.committed_lsn();
        let has_room = self.store.has_room(AHEAD_BYTES);
        let (most, most_bytes) =
            if has_room { (AHEAD, AHEAD_BYTES) } else { (SCARCE, SCARCE_BYTES) };
        let mut bytes = 0;
        for waiting in known.queue().iter_from(from).take(most) {
            if !Journal::<D>::is_own(waiting.lsn) && waiting.lsn > committed {
                // It cannot be read yet, and need not be: it is sent when it is committed.
                break;
            }
            through = waiting.number;
            if !waiting.taken && self.store.get(waiting.lsn).is_none() {
                assert!(!Journal::<D>::is_own(waiting.lsn), "what no log has is kept in memory");
                wanted.push(waiting.lsn);
                bytes += waiting.size as usize;
            }
            if bytes >= most_bytes {
                break;
            }
        }
        (wanted, through)
    }
}

impl Outlet<'_> {
    /// Sends all that may go out.
    //= MQTT5-3.3.4-9
    //= MQTT5-4.9.0-1
    //= MQTT5-4.9.0-2
    fn pump<D: Disk>(&mut self, io: &mut Io<'_, D>) -> Stop {
        loop {
            let outgoing = self.link.out.make().numbers.next(self.queue, self.progress);
            let stop = match outgoing {
                Outgoing::Nothing | Outgoing::Window => Some(Stop::Idle),
                Outgoing::Identifier => Some(Stop::Identifier),
                Outgoing::Commit(lsn) => Some(Stop::Commit(lsn)),
                // Whether it was published at QoS 2 is not known here.
                Outgoing::Publish { waiting, committed: false, .. } => {
                    Some(Stop::Commit(waiting.queued_at))
                }
                Outgoing::Publish { waiting, .. } if self.is_behind_dropped(&waiting) => {
                    Some(Stop::Identifier)
                }
                _ if self.is_full(io) => Some(Stop::Output),
                Outgoing::Release { id, .. } => self.release(io, &outgoing, id),
                Outgoing::Publish { waiting, dup, .. } => self.publish(io, &outgoing, waiting, dup),
            };
            if let Some(stop) = stop {
                return stop;
            }
        }
    }

    /// PUBREL for a message whose PUBREC an earlier connection brought.
    //= MQTT311-4.4.0-1
    //= MQTT5-4.4.0-1
    fn release<D: Disk>(
        &mut self,
        io: &mut Io<'_, D>,
        outgoing: &Outgoing,
        id: PacketId,
    ) -> Option<Stop> {
        let (encoder, ack) = (self.link.encoder, Ack::success(id));
        if !write_ack(io, self.counts, self.conn, encoder, AckKind::PubRel, ack) {
            return Some(Stop::Idle);
        }
        self.link.out.make().numbers.sent(outgoing);
        None
    }

    fn publish<D: Disk>(
        &mut self,
        io: &mut Io<'_, D>,
        outgoing: &Outgoing,
        waiting: Waiting,
        dup: bool,
    ) -> Option<Stop> {
        let out = self.link.out.make();
        let expires_ms = self.queue.expires_ms(waiting.number);
        let may_expire = !(dup && waiting.qos == QoS::ExactlyOnce);
        if may_expire && expires_ms.is_some_and(|expires_ms| expires_ms <= self.now_ms) {
            //= MQTT5-3.3.2-5
            //= MQTT5-4.3.3-7
            self.counts.expired += 1;
            out.numbers.pass_over(&waiting);
            out.fresh_expired.insert(waiting.number.get());
            return None;
        }
        match out.numbers.waits_for_given_up(self.queue, &waiting, self.progress) {
            Some(Outgoing::Commit(lsn)) => return Some(Stop::Commit(lsn)),
            Some(_) => return Some(Stop::Identifier),
            None => {}
        }
        let (store, fetched) = (self.store, self.fetched);
        let message = store.get(waiting.lsn).or_else(|| fetched.get(&waiting.lsn));
        let Some(message) = message else { return Some(Stop::Message(waiting.number)) };
        let place = place_of(waiting);
        let content = Content { expires_ms, place, ..message.content() };
        let may = match self.permission {
            Some((number, may)) if number == waiting.number => Answer::Now(may),
            _ => self.may_receive(content.topic, waiting.qos),
        };
        match may {
            Answer::Now(true) => {}
            Answer::Now(false) => {
                self.counts.dropped_denied += 1;
                self.keep_back(outgoing, &waiting, dup);
                return None;
            }
            later => return Some(Stop::Answer(waiting.number, later)),
        }
        let manner = manner(self.conn, self.queue, waiting, dup);
        let to = Receiver::of(self.conn, self.link);
        let sent = self.wire.send(io, to, content, manner, self.now_ms);
        self.counts.sent(sent, content.payload.len());
        match sent {
            Ok(()) => self.link.out.make().numbers.sent(outgoing),
            //= MQTT5-3.1.2-25
            Err(Unsent::TooLarge) => self.keep_back(outgoing, &waiting, dup),
            Err(Unsent::Gone) => return Some(Stop::Idle),
        }
        None
    }

    /// A message that its receiver does not get: as if it had been sent and answered. One at QoS 2
    /// that may have been sent, on an earlier connection, may be at the client, which then takes
    /// the next one with that identifier for a repeat, until it is released.
    //= MQTT5-4.3.3-4
    fn keep_back(&mut self, outgoing: &Outgoing, waiting: &Waiting, dup: bool) {
        let out = self.link.out.make();
        let number = waiting.number.get();
        if !dup || waiting.qos != QoS::ExactlyOnce {
            out.numbers.pass_over(waiting);
            out.fresh_taken.insert(number);
            return;
        }
        out.numbers.sent(outgoing);
        let taken = out.numbers.received(PacketId::of_queue_number(number), false);
        assert_eq!(taken, Received::Taken(waiting.number), "it was just sent");
        out.fresh_received.insert(number);
    }

    /// False: it is left to the pump.
    fn send_at_hand<D: Disk>(
        &mut self,
        io: &mut Io<'_, D>,
        number: QueueNumber,
        content: Content<'_>,
    ) -> bool {
        let outgoing = self.link.out.make().numbers.next(self.queue, self.progress);
        let Outgoing::Publish { waiting, dup: false, committed, .. } = outgoing else {
            return false;
        };
        let has_expired = content.expires_ms.is_some_and(|expires_ms| expires_ms <= self.now_ms);
        let early = waiting.placed && !committed && !planted::is(Bug::OffsetBeforeCommit);
        let numbers = &mut self.link.out.make().numbers;
        let waits = numbers.waits_for_given_up(self.queue, &waiting, self.progress).is_some()
            || self.is_behind_dropped(&waiting);
        if waiting.number != number || has_expired || early || waits || self.is_full(io) {
            return false;
        }
        if !matches!(self.may_receive(content.topic, waiting.qos), Answer::Now(true)) {
            return false;
        }
        let content = Content { place: place_of(waiting), ..content };
        let manner = manner(self.conn, self.queue, waiting, false);
        let to = Receiver::of(self.conn, self.link);
        let sent = self.wire.send_one_of_many(io, to, content, manner, self.now_ms);
        if sent.is_ok() {
            self.counts.sent(sent, content.payload.len());
            self.link.out.make().numbers.sent(&outgoing);
        }
        sent.is_ok()
    }

    fn may_receive(&self, topic: TopicName<'_>, qos: QoS) -> Answer<bool> {
        may_receive(self.authoriser, self.link.who.as_ref(), topic, qos)
    }

    fn is_behind_dropped(&self, waiting: &Waiting) -> bool {
        self.dropping.is_some_and(|dropping| dropping.holds_back(waiting.number))
    }

    /// Those that are not sent are left to the pump.
    fn send_run<D: Disk>(
        &mut self,
        io: &mut Io<'_, D>,
        to: Destination<'_>,
        first: QueueNumber,
        run: Run<'_>,
    ) -> usize {
        let conn = self.conn;
        if self.is_full(io) || !Receiver::of(conn, self.link).takes_as_is(&run, &to) {
            return 0;
        }
        if self.dropping.is_some_and(|dropping| dropping.holds_back(first)) {
            return 0;
        }
        if !matches!(self.may_receive(run.topic(), to.qos), Answer::Now(true)) {
            return 0;
        }
        let count =
            self.link.out.make().numbers.next_of_run(self.queue, first, run.len(), self.progress);
        let (run, _) = run.split_at(count);
        let numbers = (first.get()..).map(QueueNumber::new);
        let ids = numbers.filter_map(QueueNumber::packet_id).map(|id| planted::sent_as(conn, id));
        if run.is_empty() || !Receiver::of(conn, self.link).write_run(io, run, ids) {
            return 0;
        }
        self.link.out.make().numbers.run_sent(first, run.len(), to.qos);
        self.counts.sent_run(&run);
        run.len()
    }

    fn is_full<D: Disk>(&self, io: &Io<'_, D>) -> bool {
        io.output_held(self.conn) > self.output_most.now(io)
    }
}

/// What its receiver is told of its place: a record that is in no log has none.
fn place_of(waiting: Waiting) -> Option<Lsn> {
    Some(waiting.lsn).filter(|lsn| waiting.placed && !is_own(*lsn))
}

//= MQTT311-3.3.1-1
//= MQTT311-3.3.1-3
//= MQTT311-3.3.4-1
//= MQTT5-3.3.1-1
//= MQTT5-3.3.1-3
//= MQTT5-4.3.2-2
//= MQTT5-4.3.3-2
fn manner(conn: ConnId, queue: &Queue, waiting: Waiting, dup: bool) -> Manner<'_> {
    Manner {
        qos: waiting.qos,
        retain: waiting.retain,
        dup,
        id: waiting.number.packet_id().map(|id| planted::sent_as(conn, id)),
        ids: Ids::Of(queue.ids(waiting.number)),
    }
}
