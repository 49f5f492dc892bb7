//! What receivers acknowledge: receipts, gathered over a turn and handed over at its end.
//!
//! Assumes: a receipt of PUBACK or PUBCOMP has nobody waiting for it, so it rides along with the
//! next write; one of PUBREC is waited for by PUBREL.

use zzq_codec::{Ack, AckKind, AckRun};
use zzq_engine::record::{Closing, ExpiredTopics, NumberRange, RangeSetsBuf, Receipt, Release};
use zzq_engine::session::{Answered, Received};
use zzq_engine::{QueueNumber, Record, SessionNumber};
use zzq_lanes::ConnId;
use zzq_types::{PacketId, Properties, ReasonCode};
use zzq_wal::disk::Disk;

use super::answers::Answer;
use super::journal::How;
use super::link::Outbound;
use super::packet_out::write_acks;
use super::ranges::Ranges;
use super::why::{UNKNOWN, UNKNOWN_PROPERTY, takes_texts};
use super::{Flow, Io, Shell};
use crate::planted::{self, Bug};

impl<D: Disk> Shell<D> {
    /// Takes plain acknowledgements of one kind; returns how many are done with.
    pub(super) fn acks(
        &mut self,
        io: &mut Io<'_, D>,
        conn: ConnId,
        acks: AckRun<'_>,
    ) -> (usize, Flow) {
        if acks.kind() == AckKind::PubRel && !self.journal.is_log() {
            return (acks.len(), self.pub_rels_at_once(io, conn, acks));
        }
        for (done, id) in acks.ids().enumerate() {
            let ack = Ack::success(id);
            let flow = match acks.kind() {
                AckKind::PubAck => self.pub_ack(io, conn, &planted::meant_by(conn, &ack)),
                AckKind::PubRec => self.pub_rec(io, conn, &planted::meant_by(conn, &ack)),
                AckKind::PubRel => self.pub_rel(io, conn, &ack),
                AckKind::PubComp => self.pub_comp(io, conn, &planted::meant_by(conn, &ack)),
            };
            match flow {
                Flow::Next | Flow::Hold => {}
                Flow::Again => return (done, flow),
                Flow::End => return (done + 1, flow),
            }
        }
        (acks.len(), Flow::Next)
    }

    //= MQTT311-4.3.2-1
    //= MQTT5-4.3.2-3
    //= MQTT5-4.4.0-2
    pub(super) fn pub_ack(&mut self, io: &mut Io<'_, D>, conn: ConnId, ack: &Ack<'_>) -> Flow {
        let Some(link) = self.links.up_mut(conn) else { return Flow::End };
        let answered = link.out.make().numbers.acknowledged(ack.packet_id);
        self.answered(io, conn, answered, "PUBACK for QoS 2")
    }

    //= MQTT311-4.3.3-1
    //= MQTT5-4.3.3-3
    //= MQTT5-4.3.3-4
    //= MQTT5-4.4.0-2
    pub(super) fn pub_rec(&mut self, io: &mut Io<'_, D>, conn: ConnId, ack: &Ack<'_>) -> Flow {
        let Some(link) = self.links.up_mut(conn) else { return Flow::End };
        let (id, refused) = (ack.packet_id, ack.reason.is_failure());
        let out = link.out.make();
        match out.numbers.received(id, refused) {
            Received::Taken(number) => {
                let is_new = out.fresh_received.insert(number.get());
                assert!(is_new, "a number is taken once");
                self.owe(conn);
            }
            Received::Again(number) => {
                let numbers = NumberRange::one(number);
                self.answer(io, Answer::Release { conn, numbers });
            }
            //= MQTT5-4.8.2-6
            Received::Refused(number) => self.take(conn, number),
            Received::Unfit => {
                return self.refuse(io, conn, ReasonCode::ProtocolError, "PUBREC for QoS 1");
            }
            Received::Unknown if !refused => self.answer_unknown(io, conn, id),
            Received::Pending | Received::Unknown => {}
        }
        Flow::Next
    }

    //= MQTT311-4.3.3-1
    //= MQTT5-4.3.3-5
    pub(super) fn pub_comp(&mut self, io: &mut Io<'_, D>, conn: ConnId, ack: &Ack<'_>) -> Flow {
        let Some(link) = self.links.up_mut(conn) else { return Flow::End };
        let answered = link.out.make().numbers.completed(ack.packet_id);
        self.answered(io, conn, answered, "PUBCOMP before PUBREL")
    }

    //= MQTT5-4.13.1-1
    fn answered(
        &mut self,
        io: &mut Io<'_, D>,
        conn: ConnId,
        answered: Answered,
        unfit: &'static str,
    ) -> Flow {
        match answered {
            Answered::Closed(number) => self.take(conn, number),
            Answered::Unfit => return self.refuse(io, conn, ReasonCode::ProtocolError, unfit),
            Answered::Unknown => {}
        }
        Flow::Next
    }

    /// PUBREL from a publisher: its identifier is free, and PUBCOMP says so once that is committed.
    //= MQTT311-4.3.3-2
    //= MQTT5-4.3.3-11
    //= MQTT5-4.3.3-12
    pub(super) fn pub_rel(&mut self, io: &mut Io<'_, D>, conn: ConnId, ack: &Ack<'_>) -> Flow {
        let Some(link) = self.links.up_mut(conn) else { return Flow::End };
        let (Some(session), logged) = (link.session, link.logged) else { return Flow::End };
        let id = ack.packet_id;
        if !logged && self.overlay.is_open(session, id, false) {
            // Its Publish is in the log and not applied yet, this record would be: it waits.
            return self.park(io, conn);
        }
        let answer = if self.is_open(session, id) {
            let record = Record::Release(Release { session, id });
            let how = How { waits: true, lanes: self.bit(), frees: true };
            if !self.put(io, &record, logged, how) {
                return self.park(io, conn);
            }
            if self.journal.is_log() && logged {
                self.overlay.released(session, id, self.journal.handed());
            }
            Answer::Ack { conn, kind: AckKind::PubComp, id, reason: ReasonCode::Success }
        } else {
            Answer::Unknown { conn, id }
        };
        self.answer(io, answer);
        Flow::Next
    }

    /// PUBRELs whose releases are in no log: done, and answered at once.
    fn pub_rels_at_once(&mut self, io: &mut Io<'_, D>, conn: ConnId, rels: AckRun<'_>) -> Flow {
        let Some(link) = self.links.up_mut(conn) else { return Flow::End };
        let Some(session) = link.session else { return Flow::End };
        link.inbound = link.inbound.saturating_sub(u32::try_from(rels.len()).unwrap_or(u32::MAX));
        let encoder = link.encoder;
        // The first of them is told why, which is enough for all.
        let mut text = if takes_texts(io, conn) { UNKNOWN_PROPERTY } else { Properties::EMPTY };
        let released = self.state.release_run(session, rels.ids()).map(|(packet_id, was_open)| {
            if was_open {
                return Ack::success(packet_id);
            }
            let (reason, properties) =
                (ReasonCode::PacketIdentifierNotFound, std::mem::take(&mut text));
            Ack { packet_id, reason, properties }
        });
        write_acks(io, &mut self.counts, conn, encoder, AckKind::PubComp, released);
        Flow::Next
    }

    /// Whether a publisher's QoS 2 identifier is under way.
    pub(super) fn is_open(&self, session: SessionNumber, id: PacketId) -> bool {
        let known = self.state.session(session).is_some_and(|known| known.inbound().contains(id));
        self.overlay.is_open(session, id, known)
    }

    /// PUBREL for an identifier that names nothing, unless its message is still to be sent again.
    fn answer_unknown(&mut self, io: &mut Io<'_, D>, conn: ConnId, id: PacketId) {
        let Some(link) = self.links.up_mut(conn) else { return };
        let session = link.session.and_then(|session| self.state.session(session));
        let out = link.out.make();
        if session.is_some_and(|session| out.numbers.comes_again(session.queue(), id)) {
            return;
        }
        // Without its reason, in MQTT 3, it completes the handshake of a lost PUBCOMP.
        let ack = Ack::with_reason(id, ReasonCode::PacketIdentifierNotFound);
        self.write_refusal(io, conn, AckKind::PubRel, ack, UNKNOWN);
    }

    /// The client has a message for good.
    fn take(&mut self, conn: ConnId, number: QueueNumber) {
        let Some(link) = self.links.up_mut(conn) else { return };
        let out = link.out.make();
        let is_new = out.fresh_taken.insert(number.get());
        assert!(is_new, "a number is answered once");
        out.answered = true;
        self.owe(conn);
    }

    /// The pump goes on if answers among what was read have made room.
    pub(super) fn go_on_answered(&mut self, io: &mut Io<'_, D>, conn: ConnId) {
        let Some(link) = self.links.up_mut(conn) else { return };
        if link.out.get_mut().is_some_and(|out| std::mem::take(&mut out.answered)) {
            self.pump_conn(io, conn);
        }
    }

    /// Receipts of this link are handed over at the end of the turn.
    pub(super) fn owe(&mut self, conn: ConnId) {
        let Some(link) = self.links.up_mut(conn) else { return };
        if !std::mem::replace(&mut link.out.make().owes, true) {
            self.owing.push(conn);
        }
    }

    /// Hands over the receipts of this turn, one record for each connection that has some.
    pub(super) fn hand_over_receipts(&mut self, io: &mut Io<'_, D>) {
        let mut owing = std::mem::take(&mut self.owing);
        let mut kept = 0;
        for at in 0..owing.len() {
            let conn = owing[at];
            if !self.hand_over_receipts_of(io, conn) {
                if let Some(link) = self.links.get_mut(conn) {
                    link.out.make().owes = true;
                }
                owing[kept] = conn;
                kept += 1;
            }
        }
        owing.truncate(kept);
        owing.append(&mut self.owing);
        self.owing = owing;
    }

    /// False: the log has no room; they are handed over later.
    pub(super) fn hand_over_receipts_of(&mut self, io: &mut Io<'_, D>, conn: ConnId) -> bool {
        let Some(link) = self.links.get_mut(conn) else { return true };
        let Some(session) = link.session else { return true };
        let Some(out) = link.out.get_mut() else { return true };
        out.owes = false;
        let put = self.hand_over_answered(io, conn, session);
        self.hand_over_expired(io, conn, session) && put
    }

    fn hand_over_answered(
        &mut self,
        io: &mut Io<'_, D>,
        conn: ConnId,
        session: SessionNumber,
    ) -> bool {
        let Some(link) = self.links.get_mut(conn) else { return true };
        let logged = link.logged;
        let Some(out) = link.out.get_mut() else { return true };
        let Outbound { fresh_taken, fresh_received, .. } = out;
        if fresh_taken.is_empty() && fresh_received.is_empty() {
            return true;
        }
        let mut taken = std::mem::take(fresh_taken);
        let mut received = std::mem::take(fresh_received);
        self.sets.clear();
        push_set(&mut self.sets, session, Closing::Closed, &taken);
        push_set(&mut self.sets, session, Closing::Taken, &received);
        let sets = std::mem::take(&mut self.sets);
        let record = Record::Receipt(Receipt { sets: sets.as_list() });
        let how = How { waits: !received.is_empty(), lanes: self.bit(), frees: true };
        let is_lost = planted::is(Bug::ReceiptLost) && !received.is_empty();
        let put = is_lost || self.put(io, &record, logged, how);
        self.sets = sets;
        if put {
            for numbers in received.iter() {
                self.answer(io, Answer::Release { conn, numbers });
            }
            taken.clear();
            received.clear();
        }
        // The memory goes back, and the numbers with it if they were not taken.
        if let Some(link) = self.links.get_mut(conn) {
            let out = link.out.make();
            out.fresh_taken = taken;
            out.fresh_received = received;
        }
        put
    }

    fn hand_over_expired(
        &mut self,
        io: &mut Io<'_, D>,
        conn: ConnId,
        session: SessionNumber,
    ) -> bool {
        let Some(link) = self.links.get_mut(conn) else { return true };
        let logged = link.logged;
        let Some(out) = link.out.get().filter(|out| !out.fresh_expired.is_empty()) else {
            return true;
        };
        let mut sets = RangeSetsBuf::new();
        push_set(&mut sets, session, Closing::Expired, &out.fresh_expired);
        let put = self.put_expire(io, &sets, ExpiredTopics::EMPTY, logged);
        if let Some(link) = self.links.get_mut(conn).filter(|_| put) {
            link.out.make().fresh_expired.clear();
        }
        put
    }
}

pub(super) fn push_set(
    sets: &mut RangeSetsBuf,
    session: SessionNumber,
    closing: Closing,
    ranges: &Ranges,
) {
    sets.push_ranges(session, closing, ranges.iter());
}
