//! What receivers acknowledge: receipts, gathered over a turn and handed over at its end.
//!
//! Assumes: a receipt of PUBACK or PUBCOMP has nobody waiting for it, so it rides along with the
//! next write; one of PUBREC is waited for by PUBREL.

use zzq_codec::{Ack, AckKind};
use zzq_engine::record::{Closing, NumberRange, RangeSetsBuf, Receipt, Release};
use zzq_engine::{QueueNumber, Record, SessionNumber};
use zzq_lanes::ConnId;
use zzq_types::{PacketId, QoS, ReasonCode};
use zzq_wal::disk::Disk;

use super::answers::Answer;
use super::journal::How;
use super::link::Outbound;
use super::ranges::Ranges;
use super::{Flow, Io, Shell};

/// Where an identifier of a receiver's acknowledgement stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    /// Sent, and unanswered as far as it goes.
    Number { number: u64, exactly_once: bool },
    /// Nothing that is open.
    Nothing,
}

impl<D: Disk> Shell<D> {
    //= MQTT311-4.3.2-1
    //= MQTT5-4.3.2-3
    //= MQTT5-4.4.0-2
    pub(super) fn pub_ack(&mut self, io: &mut Io<'_, D>, conn: ConnId, ack: &Ack<'_>) -> Flow {
        match self.find(conn, ack.packet_id) {
            Found::Number { number, exactly_once: false } => self.take(io, conn, number),
            Found::Number { .. } => {
                return self.refuse(io, conn, ReasonCode::ProtocolError, "PUBACK for QoS 2");
            }
            Found::Nothing => {}
        }
        Flow::Next
    }

    //= MQTT311-4.3.3-1
    //= MQTT5-4.3.3-3
    //= MQTT5-4.3.3-4
    //= MQTT5-4.4.0-2
    pub(super) fn pub_rec(&mut self, io: &mut Io<'_, D>, conn: ConnId, ack: &Ack<'_>) -> Flow {
        match self.find(conn, ack.packet_id) {
            Found::Number { number, exactly_once: true } if ack.reason.is_failure() => {
                //= MQTT5-4.8.2-6
                self.take(io, conn, number);
            }
            Found::Number { number, exactly_once: true } => self.receive(io, conn, number),
            Found::Number { .. } => {
                return self.refuse(io, conn, ReasonCode::ProtocolError, "PUBREC for QoS 1");
            }
            Found::Nothing if !ack.reason.is_failure() => {
                let unknown = Ack::with_reason(ack.packet_id, ReasonCode::PacketIdentifierNotFound);
                self.answer_unknown(io, conn, AckKind::PubRel, &unknown);
            }
            Found::Nothing => {}
        }
        Flow::Next
    }

    //= MQTT311-4.3.3-1
    //= MQTT5-4.3.3-5
    pub(super) fn pub_comp(&mut self, io: &mut Io<'_, D>, conn: ConnId, ack: &Ack<'_>) -> Flow {
        if let Found::Number { number, exactly_once: true } = self.find(conn, ack.packet_id) {
            self.take(io, conn, number);
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
        let reason = if self.is_open(session, id) {
            let record = Record::Release(Release { session, id });
            let how = How { waits: true, lanes: self.bit(), frees: true };
            if !self.put(io, &record, logged, how) {
                return self.park(io, conn);
            }
            if self.journal.is_log() && logged {
                self.overlay.released(session, id, self.journal.handed());
            }
            ReasonCode::Success
        } else {
            ReasonCode::PacketIdentifierNotFound
        };
        self.answer(io, Answer::Ack { conn, kind: AckKind::PubComp, id, reason });
        Flow::Next
    }

    /// Whether a publisher's QoS 2 identifier is under way.
    pub(super) fn is_open(&self, session: SessionNumber, id: PacketId) -> bool {
        let known = self.state.session(session).is_some_and(|known| known.inbound().contains(id));
        self.overlay.is_open(session, id, known)
    }

    /// An answer to an identifier that names nothing, where the version has one.
    fn answer_unknown(&mut self, io: &mut Io<'_, D>, conn: ConnId, kind: AckKind, ack: &Ack<'_>) {
        let Some(link) = self.links.up_mut(conn) else { return };
        if link.encoder.version.is_v5() {
            self.write_ack(io, conn, kind, ack);
        } else {
            // MQTT 3 has no reason code: PUBREL again completes the handshake of a lost PUBCOMP.
            self.write_ack(io, conn, kind, &Ack::success(ack.packet_id));
        }
    }

    fn find(&self, conn: ConnId, id: PacketId) -> Found {
        let Some(link) = self.links.get(conn) else { return Found::Nothing };
        let Some(session) = link.session.and_then(|session| self.state.session(session)) else {
            return Found::Nothing;
        };
        let queue = session.queue();
        let open = numbers_of(id, queue.first_open().get(), link.out.next)
            .filter(|number| !link.out.taken.contains(*number))
            .find_map(|number| queue.get(QueueNumber::new(number)));
        match open {
            Some(waiting) => Found::Number {
                number: waiting.number.get(),
                exactly_once: waiting.qos == QoS::ExactlyOnce,
            },
            None => Found::Nothing,
        }
    }

    /// The client has a message for good.
    fn take(&mut self, io: &mut Io<'_, D>, conn: ConnId, number: u64) {
        let Some(link) = self.links.up_mut(conn) else { return };
        if !link.out.taken.insert(number) {
            return;
        }
        link.out.under_way = link.out.under_way.saturating_sub(1);
        self.owe(conn);
        let Some(link) = self.links.up_mut(conn) else { return };
        link.out.fresh_taken.insert(number);
        self.pump_conn(io, conn);
    }

    /// The client has a QoS 2 message: PUBREL follows once that is committed.
    fn receive(&mut self, io: &mut Io<'_, D>, conn: ConnId, number: u64) {
        let Some(link) = self.links.up_mut(conn) else { return };
        let session = link.session.and_then(|session| self.state.session(session));
        let waiting = session.and_then(|session| session.queue().get(QueueNumber::new(number)));
        let known = waiting.is_none_or(|waiting| waiting.taken);
        if known || !link.out.received.insert(number) {
            // A PUBREC again: its PUBREL is on its way, or waits for the same commit as this one.
            let id = PacketId::of_queue_number(number);
            let reason = ReasonCode::Success;
            self.answer(io, Answer::Ack { conn, kind: AckKind::PubRel, id, reason });
            return;
        }
        link.out.fresh_received.insert(number);
        self.owe(conn);
    }

    fn owe(&mut self, conn: ConnId) {
        let Some(link) = self.links.up_mut(conn) else { return };
        if !std::mem::replace(&mut link.out.owes, true) {
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
                    link.out.owes = true;
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
        let logged = link.logged;
        link.out.owes = false;
        let mut taken = std::mem::take(&mut link.out.fresh_taken);
        let mut received = std::mem::take(&mut link.out.fresh_received);
        if taken.is_empty() && received.is_empty() {
            return true;
        }
        self.sets.clear();
        push_set(&mut self.sets, session, Closing::Closed, &taken);
        push_set(&mut self.sets, session, Closing::Taken, &received);
        let sets = std::mem::take(&mut self.sets);
        let record = Record::Receipt(Receipt { sets: sets.as_list() });
        let how = How { waits: !received.is_empty(), lanes: self.bit(), frees: true };
        let put = self.put(io, &record, logged, how);
        self.sets = sets;
        if put {
            for &(first, last) in received.as_slice() {
                for number in first..=last {
                    let id = PacketId::of_queue_number(number);
                    let reason = ReasonCode::Success;
                    self.answer(io, Answer::Ack { conn, kind: AckKind::PubRel, id, reason });
                }
            }
            taken.clear();
            received.clear();
        }
        // The memory goes back, and the numbers with it if they were not taken.
        if let Some(link) = self.links.get_mut(conn) {
            link.out.fresh_taken = taken;
            link.out.fresh_received = received;
            self.prune(conn);
        }
        if self.full.contains(&session) {
            self.check_full(io, session);
        }
        put
    }

    /// Forgets what the state knows by now.
    fn prune(&mut self, conn: ConnId) {
        let Some(link) = self.links.get_mut(conn) else { return };
        let Some(session) = link.session.and_then(|session| self.state.session(session)) else {
            return;
        };
        let first_open = session.queue().first_open().get();
        let Outbound { taken, received, .. } = &mut link.out;
        taken.prune(first_open);
        received.prune(first_open);
    }
}

fn push_set(sets: &mut RangeSetsBuf, session: SessionNumber, closing: Closing, ranges: &Ranges) {
    let ranges = ranges.as_slice().iter().map(|&(first, last)| NumberRange {
        first: QueueNumber::new(first),
        last: QueueNumber::new(last),
    });
    sets.push_ranges(session, closing, ranges);
}

/// The numbers in `first_open..next` that have an identifier. One of them is open at most, since
/// a number is sent only when those with its identifier before it are closed.
fn numbers_of(id: PacketId, first_open: u64, next: u64) -> impl Iterator<Item = u64> {
    let count = u64::from(PacketId::COUNT);
    let (wanted, first) = (u64::from(id.get()) - 1, (first_open - 1) % count);
    let number = first_open + (wanted + count - first) % count;
    (0..).map(move |round| number + round * count).take_while(move |number| *number < next)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identifier_names_its_number_within_the_open_ones() {
        for first_open in [1, 2, 65_534, 65_535, 65_536, 1 << 40] {
            for number in [first_open, first_open + 1, first_open + 65_534] {
                let id = PacketId::of_queue_number(number);
                let found = |next| numbers_of(id, first_open, next).collect::<Vec<_>>();
                assert_eq!(found(number + 1), [number]);
                assert!(found(number).is_empty(), "not sent yet");
                assert_eq!(found(number + 65_536), [number, number + 65_535]);
            }
        }
    }
}
