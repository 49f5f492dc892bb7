//! Queues become packets: what a session is owed goes out in the order of its numbers, within the
//! client's window, once it may.
//!
//! Assumes: `zzq_engine`'s outbound half of a session knows which number is next and what stops
//! it. A link that waits for more than its client has an event to come: [`Waits`] names it and
//! says what brings it.

use zzq_codec::{Ack, AckKind};
use zzq_engine::session::{Outgoing, Progress, Queue, Waiting};
use zzq_engine::{QueueNumber, SessionNumber};
use zzq_lanes::ConnId;
use zzq_types::{Lsn, PacketId, QoS};
use zzq_wal::disk::Disk;

use rustc_hash::FxHashMap;

use super::journal::Journal;
use super::link::{Link, Waits};
use super::message::{Message, Store};
use super::packet_out::write_ack;
use super::wire::{Content, Ids, Manner, Receiver, Unsent, Wire};
use super::{Io, Shell};
use crate::metrics::Counts;
use crate::planted;

/// Messages that are asked for at once when they are not in memory.
const AHEAD: usize = 128;
/// Bytes that are asked for at once.
const AHEAD_BYTES: u64 = 1 << 20;

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
    /// Another message may have the next identifier.
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
    counts: &'a mut Counts,
    progress: Progress,
    now_ms: u64,
    output_most: usize,
}

impl<D: Disk> Shell<D> {
    pub(super) fn pump_session(&mut self, io: &mut Io<'_, D>, session: SessionNumber) {
        if let Some(&conn) = self.up.get(&session) {
            self.pump_conn(io, conn);
        }
    }

    /// Goes on if what has come is what the link waits for.
    pub(super) fn has_come(&mut self, io: &mut Io<'_, D>, conn: ConnId, awaited: Waits) {
        if let Some(link) = self.links.up_mut(conn)
            && link.out.waits == awaited
        {
            link.out.waits = Waits::Nothing;
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
        if outlet.link.out.has_fresh() {
            self.owe(conn);
        }
        let Some(session) = session else { return };
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
            Stop::Identifier => {
                self.crowded.push(conn);
                Waits::Identifier
            }
        };
        if let Some(link) = self.links.up_mut(conn) {
            link.out.waits = waits;
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

    /// How far the log is, for what goes out: on one that has failed nothing more does.
    pub(super) fn progress(&self) -> Progress {
        let committed =
            if self.journal.is_read_only() { Lsn::ZERO } else { self.journal.committed_lsn() };
        Progress { applied: self.state.applied(), committed, unlogged: Journal::<D>::UNLOGGED }
    }

    /// None if the receiver is not up, or waits for something.
    fn outlet(&mut self, conn: ConnId, progress: Progress) -> Option<Outlet<'_>> {
        let link = self.links.up_mut(conn).filter(|link| link.out.waits == Waits::Nothing)?;
        let queue = self.state.session(link.session?)?.queue();
        Some(Outlet {
            conn,
            link,
            queue,
            store: &self.store,
            fetched: &self.fetched,
            wire: &mut self.wire,
            counts: &mut self.counts,
            progress,
            now_ms: self.now_ms,
            output_most: self.shared.options.limits.max_output_bytes,
        })
    }

    /// Asks for the messages that the pump needs next and that are not in memory.
    fn fetch(&mut self, conn: ConnId, session: SessionNumber, from: QueueNumber) {
        let Some(known) = self.state.session(session) else { return };
        let committed = self.journal.committed_lsn();
        let mut wanted = Vec::new();
        let mut bytes = 0;
        for waiting in known.queue().iter_from(from).take(AHEAD) {
            if !Journal::<D>::is_own(waiting.lsn) && waiting.lsn > committed {
                // It cannot be read yet, and need not be: it is sent when it is committed.
                break;
            }
            if !waiting.taken && self.store.get(waiting.lsn).is_none() {
                assert!(!Journal::<D>::is_own(waiting.lsn), "what no log has is kept in memory");
                wanted.push(waiting.lsn);
                bytes += u64::from(waiting.size);
            }
            if bytes >= AHEAD_BYTES {
                break;
            }
        }
        assert!(!wanted.is_empty(), "the first of them is not in memory");
        self.request(conn, wanted);
    }
}

impl Outlet<'_> {
    /// Sends all that may go out.
    //= MQTT5-3.3.4-9
    //= MQTT5-4.9.0-1
    //= MQTT5-4.9.0-2
    fn pump<D: Disk>(&mut self, io: &mut Io<'_, D>) -> Stop {
        loop {
            let outgoing = self.link.out.numbers.next(self.queue, self.progress);
            let stop = match outgoing {
                Outgoing::Nothing | Outgoing::Window => Some(Stop::Idle),
                Outgoing::Identifier => Some(Stop::Identifier),
                Outgoing::Commit(lsn) => Some(Stop::Commit(lsn)),
                // Whether it was published at QoS 2 is not known here.
                Outgoing::Publish { waiting, committed: false, .. } => {
                    Some(Stop::Commit(waiting.queued_at))
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
        self.link.out.numbers.sent(outgoing);
        None
    }

    fn publish<D: Disk>(
        &mut self,
        io: &mut Io<'_, D>,
        outgoing: &Outgoing,
        waiting: Waiting,
        dup: bool,
    ) -> Option<Stop> {
        let out = &mut self.link.out;
        let expires_ms = self.queue.expires_ms(waiting.number);
        let may_expire = !(dup && waiting.qos == QoS::ExactlyOnce);
        if may_expire && expires_ms.is_some_and(|expires_ms| expires_ms <= self.now_ms) {
            //= MQTT5-3.3.2-5
            //= MQTT5-4.3.3-7
            self.counts.expired += 1;
            out.numbers.pass_over(waiting.number);
            out.fresh_expired.insert(waiting.number.get());
            return None;
        }
        let (store, fetched) = (self.store, self.fetched);
        let message = store.get(waiting.lsn).or_else(|| fetched.get(&waiting.lsn));
        let Some(message) = message else { return Some(Stop::Message(waiting.number)) };
        let content = Content { expires_ms, ..message.content() };
        let manner = manner(self.conn, self.queue, waiting, dup);
        let to = Receiver::of(self.conn, self.link);
        let sent = self.wire.send(io, to, content, manner, self.now_ms);
        self.counts.sent(sent);
        let out = &mut self.link.out;
        match sent {
            Ok(()) => out.numbers.sent(outgoing),
            Err(Unsent::TooLarge) => {
                // As if it had been sent and answered.
                //= MQTT5-3.1.2-25
                out.numbers.pass_over(waiting.number);
                out.fresh_taken.insert(waiting.number.get());
            }
            Err(Unsent::Gone) => return Some(Stop::Idle),
        }
        None
    }

    /// False: it is left to the pump.
    fn send_at_hand<D: Disk>(
        &mut self,
        io: &mut Io<'_, D>,
        number: QueueNumber,
        content: Content<'_>,
    ) -> bool {
        let outgoing = self.link.out.numbers.next(self.queue, self.progress);
        let Outgoing::Publish { waiting, dup: false, .. } = outgoing else { return false };
        let has_expired = content.expires_ms.is_some_and(|expires_ms| expires_ms <= self.now_ms);
        if waiting.number != number || has_expired || self.is_full(io) {
            return false;
        }
        let manner = manner(self.conn, self.queue, waiting, false);
        let to = Receiver::of(self.conn, self.link);
        let sent = self.wire.send_one_of_many(io, to, content, manner, self.now_ms);
        if sent.is_ok() {
            self.counts.sent(sent);
            self.link.out.numbers.sent(&outgoing);
        }
        sent.is_ok()
    }

    fn is_full<D: Disk>(&self, io: &Io<'_, D>) -> bool {
        io.queued_bytes(self.conn) > self.output_most
    }
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
