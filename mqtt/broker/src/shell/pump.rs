//! Queues become packets: what a session is owed goes out in the order of its numbers, within the
//! client's window, once it may.

use zzq_codec::{Ack, AckKind};
use zzq_engine::record::{Closing, Expire, ExpiredTopics, NumberRange, RangeSetsBuf};
use zzq_engine::session::Waiting;
use zzq_engine::{QueueNumber, Record, SessionNumber};
use zzq_lanes::ConnId;
use zzq_types::{Lsn, PacketId, QoS};
use zzq_wal::disk::Disk;

use super::journal::{How, Journal};
use super::wire::{Content, Ids, Manner, Unsent};
use super::{Io, Shell};

/// Identifiers come round after so many numbers.
const SPAN: u64 = PacketId::COUNT as u64;
/// Messages that are asked for at once when they are not in memory.
const AHEAD: usize = 128;
/// Bytes that are asked for at once.
const AHEAD_BYTES: u64 = 1 << 20;

/// What the pump does with the next message.
enum Step {
    /// On to the one behind it.
    Next,
    /// Nothing more for now.
    Stop,
}

impl<D: Disk> Shell<D> {
    pub(super) fn pump_session(&mut self, io: &mut Io<'_, D>, session: SessionNumber) {
        if let Some(&conn) = self.up.get(&session) {
            self.pump_conn(io, conn);
        }
    }

    /// Sends what may go out now.
    pub(super) fn pump_conn(&mut self, io: &mut Io<'_, D>, conn: ConnId) {
        let mut given_up = RangeSetsBuf::new();
        while let Some(link) = self.links.up_mut(conn) {
            let Some(session) = link.session else { break };
            if link.out.held || link.out.under_way >= link.out.window {
                break;
            }
            let Some(known) = self.state.session(session) else { break };
            let mut open = known.queue().iter_from(QueueNumber::new(link.out.next));
            let Some(waiting) = open.next() else { break };
            drop(open);
            match self.pump_one(io, conn, session, waiting, &mut given_up) {
                Step::Next => {}
                Step::Stop => break,
            }
        }
        self.give_up(io, conn, &given_up);
    }

    fn pump_one(
        &mut self,
        io: &mut Io<'_, D>,
        conn: ConnId,
        session: SessionNumber,
        waiting: Waiting,
        given_up: &mut RangeSetsBuf,
    ) -> Step {
        let number = waiting.number.get();
        let Some(link) = self.links.up_mut(conn) else { return Step::Stop };
        let again = number < link.out.again_below;
        if link.out.taken.contains(number) {
            link.out.next = number + 1;
            return Step::Next;
        }
        if waiting.taken {
            // The client has it from an earlier connection: only PUBREL is owed.
            return self.resume_release(io, conn, number);
        }
        if !self.is_committed(waiting.queued_at) {
            self.later.pump(waiting.queued_at, session);
            return Step::Stop;
        }
        if !self.may_number(conn, session, number) {
            return Step::Stop;
        }
        if io.queued_bytes(conn) > self.shared.options.limits.max_output_bytes {
            if let Some(link) = self.links.up_mut(conn) {
                link.out.held = true;
            }
            io.notify_drained(conn);
            return Step::Stop;
        }
        let expires_ms =
            self.state.session(session).and_then(|known| known.queue().expires_ms(waiting.number));
        let may_expire = !(again && waiting.qos == QoS::ExactlyOnce);
        if may_expire && expires_ms.is_some_and(|expires_ms| expires_ms <= self.now_ms) {
            //= MQTT5-3.3.2-5
            //= MQTT5-4.3.3-7
            self.counts.expired += 1;
            self.pass(conn, waiting.number, Closing::Expired, given_up);
            return Step::Next;
        }
        let Some(message) = self.store.get(waiting.lsn).cloned() else {
            self.fetch(conn, session, waiting.number);
            return Step::Stop;
        };
        let content = Content { expires_ms, ..message.content() };
        match self.send_waiting(io, conn, session, waiting, content, again) {
            Err(Unsent::TooLarge) => {
                //= MQTT5-3.1.2-25
                self.pass(conn, waiting.number, Closing::Dropped, given_up);
                Step::Next
            }
            Err(Unsent::Gone) => Step::Stop,
            Ok(_) => Step::Next,
        }
    }

    fn is_committed(&self, lsn: Lsn) -> bool {
        Journal::<D>::is_own(lsn)
            || (lsn <= self.journal.committed_lsn() && !self.journal.is_read_only())
    }

    /// Leaves a message out for good.
    fn pass(
        &mut self,
        conn: ConnId,
        number: QueueNumber,
        closing: Closing,
        given_up: &mut RangeSetsBuf,
    ) {
        let Some(link) = self.links.up_mut(conn) else { return };
        link.out.next = number.get() + 1;
        if let Some(session) = link.session {
            given_up.push_ranges(session, closing, [NumberRange::one(number)]);
        }
    }

    /// PUBREL for a message whose PUBREC an earlier connection brought.
    //= MQTT311-4.4.0-1
    //= MQTT5-4.4.0-1
    fn resume_release(&mut self, io: &mut Io<'_, D>, conn: ConnId, number: u64) -> Step {
        let Some(link) = self.links.up_mut(conn) else { return Step::Stop };
        let fresh = number >= link.out.again_below;
        link.out.next = number + 1;
        link.out.under_way += 1;
        assert!(!fresh, "what was not sent has no PUBREC");
        let id = PacketId::of_queue_number(number);
        self.write_ack(io, conn, AckKind::PubRel, &Ack::success(id));
        Step::Next
    }

    /// Whether the number 65 535 before this one, which had its identifier, is closed for good.
    //= MQTT311-2.3.1-4
    //= MQTT5-2.2.1-4
    fn may_number(&mut self, conn: ConnId, session: SessionNumber, number: u64) -> bool {
        let applied = self.state.applied();
        let receipts_committed = self.is_committed(applied);
        let Some(link) = self.links.up_mut(conn) else { return false };
        if number < link.out.base + SPAN {
            return true;
        }
        let Some(known) = self.state.session(session) else { return false };
        let queue = known.queue();
        let first_open = queue.first_open().get();
        let mut same_id = (1..).map(|round| number.saturating_sub(round * SPAN));
        let is_free = same_id
            .by_ref()
            .take_while(|before| *before >= first_open)
            .all(|before| queue.get(QueueNumber::new(before)).is_none());
        if is_free && receipts_committed {
            link.out.base = link.out.base.max(first_open);
            return true;
        }
        if is_free {
            // Closed by receipts that are not committed: the commit brings the pump back.
            self.later.pump(applied, session);
        }
        false
    }

    //= MQTT311-3.3.1-1
    //= MQTT311-3.3.1-3
    //= MQTT311-3.3.4-1
    //= MQTT5-3.3.1-1
    //= MQTT5-3.3.1-3
    //= MQTT5-3.3.4-9
    //= MQTT5-4.9.0-1
    //= MQTT5-4.9.0-2
    fn send_waiting(
        &mut self,
        io: &mut Io<'_, D>,
        conn: ConnId,
        session: SessionNumber,
        waiting: Waiting,
        content: Content<'_>,
        dup: bool,
    ) -> Result<usize, Unsent> {
        let Some(known) = self.state.session(session) else { return Err(Unsent::Gone) };
        let manner = Manner {
            qos: waiting.qos,
            retain: waiting.retain,
            dup,
            id: waiting.number.packet_id(),
            ids: Ids::Of(known.queue().ids(waiting.number)),
        };
        let Some(link) = self.links.up_mut(conn) else { return Err(Unsent::Gone) };
        let encoder = link.encoder;
        let sent = self.wire.send(io, conn, encoder, content, manner, self.now_ms);
        self.count_sent(sent);
        if let (Ok(_), Some(link)) = (sent, self.links.up_mut(conn)) {
            link.out.next = waiting.number.get() + 1;
            link.out.under_way += 1;
        }
        sent
    }

    /// Sends a message whose record is at hand, if nothing is owed to its receiver before it.
    pub(super) fn send_at_hand(
        &mut self,
        io: &mut Io<'_, D>,
        session: SessionNumber,
        number: QueueNumber,
        content: Content<'_>,
    ) -> bool {
        let Some(&conn) = self.up.get(&session) else { return false };
        let Some(link) = self.links.up_mut(conn) else { return false };
        let out = &link.out;
        if out.held || out.under_way >= out.window || number.get() >= out.base + SPAN {
            return false;
        }
        let Some(known) = self.state.session(session) else { return false };
        let next = known.queue().iter_from(QueueNumber::new(out.next)).next();
        let Some(waiting) = next.filter(|waiting| waiting.number == number) else { return false };
        if io.queued_bytes(conn) > self.shared.options.limits.max_output_bytes {
            return false;
        }
        let manner = Manner {
            qos: waiting.qos,
            retain: waiting.retain,
            dup: false,
            id: number.packet_id(),
            ids: Ids::Of(known.queue().ids(number)),
        };
        let encoder = link.encoder;
        let sent = self.wire.send_one_of_many(io, conn, encoder, content, manner, self.now_ms);
        if sent.is_err() {
            return false;
        }
        self.count_sent(sent);
        if let Some(link) = self.links.up_mut(conn) {
            link.out.next = number.get() + 1;
            link.out.under_way += 1;
        }
        true
    }

    /// Records that messages are given up.
    fn give_up(&mut self, io: &mut Io<'_, D>, conn: ConnId, given_up: &RangeSetsBuf) {
        if given_up.is_empty() {
            return;
        }
        let Some(link) = self.links.get(conn) else { return };
        let logged = link.logged;
        let expire = Expire { sets: given_up.as_list(), topics: ExpiredTopics::EMPTY };
        let how = How { waits: false, lanes: self.bit(), frees: true };
        // Without room they stay in the queue as passed over, and are given up at the next start
        // of the session.
        self.put(io, &Record::Expire(expire), logged, how);
    }

    /// Asks for the messages that the pump needs next and that are not in memory.
    fn fetch(&mut self, conn: ConnId, session: SessionNumber, from: QueueNumber) {
        let Some(known) = self.state.session(session) else { return };
        let mut wanted = Vec::new();
        let mut bytes = 0;
        for waiting in known.queue().iter_from(from).take(AHEAD) {
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
        if let Some(link) = self.links.up_mut(conn) {
            link.out.held = true;
        }
        self.request(conn, wanted);
    }
}
