//! Answers that wait for the log: they leave in order, once what they depend on is committed.

use zzq_codec::{Ack, AckKind};
use zzq_engine::record::NumberRange;
use zzq_engine::{Handed, QueueNumber};
use zzq_lanes::{Class, Close, ConnId, LaneIndex};
use zzq_types::{PacketId, ReasonCode};
use zzq_wal::disk::Disk;

use super::live::Made;
use super::why::Denied;
use super::{Io, Note, Shell};
use crate::planted::{self, Bug};
use crate::sys::StoreState;

/// What is done when the records handed over before it are committed.
#[derive(Clone, Copy, Debug)]
pub(super) enum Answer {
    /// PUBACK, PUBREC or PUBCOMP to a publisher.
    Ack { conn: ConnId, kind: AckKind, id: PacketId, reason: ReasonCode },
    /// PUBACK or PUBREC to a publisher whose message was not taken.
    Denied { conn: ConnId, kind: AckKind, id: PacketId, denied: Denied },
    /// PUBCOMP to a publisher whose PUBREL names nothing.
    Unknown { conn: ConnId, id: PacketId },
    /// PUBREL to a receiver, for the messages with these numbers.
    Release { conn: ConnId, numbers: NumberRange },
    /// The session is open: CONNACK.
    Opened { conn: ConnId },
    /// The client has said DISCONNECT, and its session is down.
    Close { conn: ConnId },
    /// One of the things a SUBACK or UNSUBACK waits for has come.
    Change { change: u32 },
    /// Another lane's change was taken, and what this lane did before it is committed: it had made
    /// so much.
    Report { to: LaneIndex, change: u32, so_far: Made },
}

impl Answer {
    /// A planted bug gives it before its record is committed.
    fn is_given_early(&self) -> bool {
        match self {
            Self::Ack { kind: AckKind::PubAck, .. } => planted::is(Bug::AcknowledgedEarly),
            Self::Release { .. } => planted::is(Bug::PubrelUngated),
            _ => false,
        }
    }
}

impl<D: Disk> Shell<D> {
    /// Gives an answer now if nothing is before it, else when all records of this lane so far are
    /// committed. For answers that made a record, and for those that repeat one.
    pub(super) fn answer(&mut self, io: &mut Io<'_, D>, answer: Answer) {
        if self.gives_at_once() || answer.is_given_early() {
            self.give(io, answer);
        } else if self.journal.is_read_only() {
            self.give_up_answer(io, answer);
        } else {
            self.gate.push(self.journal.handed(), answer);
        }
    }

    /// Whether an answer that makes no record waits for nothing.
    pub(super) fn gives_at_once(&self) -> bool {
        self.gate.is_empty() && self.journal.is_committed(self.journal.handed())
    }

    /// Gives all answers whose records are committed. On a poisoned log nothing ever is.
    ///
    /// What another lane wrote may be committed before this lane has applied it, but no answer
    /// leaves before it is in state.
    pub(super) fn give_committed(&mut self, io: &mut Io<'_, D>) {
        let committed = self.journal.committed();
        if self.journal.is_log() && self.journal.committed_lsn() > self.followed {
            self.follow(io);
            self.unpark(io);
        }
        if committed > self.committed {
            self.committed = committed;
            self.overlay.seen_committed(committed);
            self.full.log_goes_on(self.now_ms);
            self.unpark(io);
        }
        let mut ready = std::mem::take(&mut self.ready_answers);
        self.gate.release(committed, |answer| ready.push(answer));
        for answer in ready.drain(..) {
            self.give(io, answer);
        }
        self.ready_answers = ready;
    }

    /// The log commits nothing any more. What became of the records that were handed over is known
    /// at the next start: who waits for them is cut off without an answer.
    //= MQTT311-4.8.0-2
    pub(super) fn give_up_answers(&mut self, io: &mut Io<'_, D>) {
        self.give_committed(io);
        let mut gate = std::mem::take(&mut self.gate);
        let mut waiting = std::mem::take(&mut self.ready_answers);
        gate.release(Handed::new(u64::MAX), |answer| waiting.push(answer));
        for answer in waiting.drain(..) {
            self.give_up_answer(io, answer);
        }
        self.ready_answers = waiting;
        // They are refused when they are offered again.
        self.unpark(io);
    }

    fn give_up_answer(&mut self, io: &mut Io<'_, D>, answer: Answer) {
        match answer {
            Answer::Ack { conn, kind: kind @ (AckKind::PubAck | AckKind::PubRec), id, .. }
                if planted::is(Bug::ErrorAfterHandOver) =>
            {
                self.give_ack(io, conn, kind, id, ReasonCode::QuotaExceeded);
            }
            Answer::Ack { conn, .. }
            | Answer::Unknown { conn, .. }
            | Answer::Release { conn, .. } => self.cut_off(io, conn),
            Answer::Opened { conn } => {
                self.cut_off(io, conn);
                self.opens_no_more(io, conn);
            }
            Answer::Change { change } => {
                let client = self.changes.client(change);
                let logged = |conn| self.links.get(conn).is_some_and(|link| link.logged);
                if let Some(conn) = client.filter(|conn| logged(*conn)) {
                    self.cut_off(io, conn);
                }
                self.give(io, answer);
            }
            // That a message was denied is true whatever the log holds: nothing was handed over.
            Answer::Denied { .. } | Answer::Close { .. } | Answer::Report { .. } => {
                self.give(io, answer);
            }
        }
    }

    fn cut_off(&mut self, io: &mut Io<'_, D>, conn: ConnId) {
        self.dismiss(io, conn, ReasonCode::UnspecifiedError, "the log is read-only");
    }

    pub(super) fn give(&mut self, io: &mut Io<'_, D>, answer: Answer) {
        match answer {
            Answer::Ack { conn, kind: AckKind::PubAck, id, .. }
                if planted::is(Bug::ErrorAfterHandOver)
                    && self.store_state() != StoreState::Writable =>
            {
                self.give_ack(io, conn, AckKind::PubAck, id, ReasonCode::QuotaExceeded);
            }
            Answer::Ack { conn, kind, id, reason } => self.give_ack(io, conn, kind, id, reason),
            Answer::Denied { conn, kind, id, denied } => {
                self.give_denied(io, conn, kind, id, denied);
            }
            Answer::Unknown { conn, id } => self.give_unknown(io, conn, id),
            Answer::Release { conn, numbers } => self.give_releases(io, conn, numbers),
            Answer::Opened { conn } => self.opened(io, conn),
            Answer::Close { conn } => io.close(conn, Close::AfterFlush),
            Answer::Change { change } => self.record_committed(io, change),
            Answer::Report { to, change, so_far } => {
                self.send_note(io, to, Note::Report { change, so_far }, Class::Receipt);
            }
        }
    }

    //= MQTT311-4.3.3-1
    //= MQTT5-4.3.3-4
    fn give_releases(&mut self, io: &mut Io<'_, D>, conn: ConnId, numbers: NumberRange) {
        let Some(link) = self.links.up_mut(conn) else { return };
        let numbers = (numbers.first.get()..=numbers.last.get()).map(QueueNumber::new);
        let out = link.out.make();
        numbers.clone().for_each(|number| out.numbers.released(number));
        let acks = numbers.filter_map(QueueNumber::packet_id).map(Ack::success);
        self.write_acks(io, conn, AckKind::PubRel, acks);
    }

    //= MQTT311-2.3.1-6
    //= MQTT311-3.3.4-1
    //= MQTT5-2.2.1-5
    //= MQTT5-3.3.4-1
    fn give_ack(
        &mut self,
        io: &mut Io<'_, D>,
        conn: ConnId,
        kind: AckKind,
        id: PacketId,
        reason: ReasonCode,
    ) {
        let Some(link) = self.links.up_mut(conn) else { return };
        if kind == AckKind::PubAck
            || kind == AckKind::PubComp
            || (kind == AckKind::PubRec && reason.is_failure())
        {
            link.inbound = link.inbound.saturating_sub(1);
        }
        self.write_ack(io, conn, kind, Ack::with_reason(id, reason));
    }
}
