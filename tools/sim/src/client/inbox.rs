//! What a client does about the packets that come.

use zzq_codec::{Ack, AckKind, ConnAck, Decoder, Delivery, Limits, Packet, Publish, SubAck};
use zzq_types::{PacketId, Property, PropertyId, ProtocolVersion, QoS, ReasonCode};

use super::aliases::Own;
use super::memory::UnderWay;
use super::packets::{message_of, packet_id};
use super::subscriptions::PAST;
use super::{Client, Desk, Line, Owed, Request};
use crate::history::{Conn, Event, MessageId, Received};

/// When bytes left the broker, and whether they may have waited for their receiver before.
#[derive(Clone, Copy, Debug)]
struct Written {
    at_ms: u64,
    stalled: bool,
}

impl Client {
    /// Bytes have come.
    pub fn arrive(&mut self, desk: &mut Desk<'_>, bytes: &[u8], written_ms: u64, stalled: bool) {
        let Some(conn) = self.conn() else { return };
        self.heard_at = desk.now;
        self.pinged = false;
        self.input.add(bytes, written_ms);
        let decoder = Decoder::of_servers(self.plan.version, Limits::default());
        loop {
            let mut input = std::mem::take(&mut self.input);
            let used = match decoder.decode(input.bytes()) {
                Ok(Some((packet, used))) => {
                    let written = Written { at_ms: input.written_ms(), stalled };
                    self.packet(desk, conn, &packet, written);
                    used
                }
                Ok(None) => 0,
                Err(error) => {
                    desk.note(Event::Unfit { conn, what: format!("bytes: {error}") });
                    input.bytes().len()
                }
            };
            input.consume(used);
            self.input = input;
            if used == 0 {
                return;
            }
        }
    }

    fn packet(&mut self, desk: &mut Desk<'_>, conn: Conn, packet: &Packet<'_>, written: Written) {
        let is_up = matches!(self.line, Line::Up(..));
        let leaves = matches!(self.line, Line::Leaving(_));
        let name = packet.packet_type().name();
        match packet {
            // Who has left looks only for what says that it was not heard.
            _ if leaves && !matches!(packet, Packet::Disconnect(_)) => {}
            Packet::ConnAck(ack) if !is_up => self.conn_ack(desk, conn, ack),
            // A broker that stops may say so before it has answered.
            Packet::Disconnect(said) => {
                desk.note(Event::Dismissed { conn, reason: said.reason });
            }
            Packet::Auth(auth) if self.plan.authenticates => self.auth(desk, conn, auth),
            _ if !is_up => desk.note(Event::Unfit { conn, what: format!("{name} before CONNACK") }),
            Packet::Publish(publish) => self.publish(desk, conn, publish, written),
            Packet::PubAck(ack) => self.answered(desk, conn, AckKind::PubAck, ack),
            Packet::PubRec(ack) => self.answered(desk, conn, AckKind::PubRec, ack),
            Packet::PubComp(ack) => self.answered(desk, conn, AckKind::PubComp, ack),
            Packet::PubRel(ack) => {
                let id = ack.packet_id.get();
                desk.note(Event::Freed { conn, packet_id: id });
                //= MQTT5-4.3.3-4
                if self.refused.contains(&id) {
                    let what = format!("PUBREL {id}, which was refused");
                    desk.note(Event::Unfit { conn, what });
                }
                self.memory.open.remove(&id);
                let owed = Owed { kind: AckKind::PubComp, packet_id: id, refuses: false };
                self.owe(desk, conn, owed);
            }
            Packet::SubAck(ack) => self.sub_ack(desk, conn, ack),
            Packet::UnsubAck(ack) => self.unsub_ack(desk, conn, ack.packet_id),
            Packet::PingResp => {}
            _ => desk.note(Event::Unfit { conn, what: format!("{name} from a broker") }),
        }
    }

    fn conn_ack(&mut self, desk: &mut Desk<'_>, conn: Conn, ack: &ConnAck<'_>) {
        let Line::Opening(_, hello) = self.line else { return };
        if ack.reason.is_failure() {
            if ack.reason == ReasonCode::PacketTooLarge {
                desk.coverage.hit("connect too large");
            }
            desk.note(Event::Refused { conn, reason: ack.reason });
            return;
        }
        let tells = self.plan.version != ProtocolVersion::V31;
        let present = tells.then_some(ack.session_present);
        desk.coverage.hit(match present {
            Some(false) => "session not present",
            _ => "session present",
        });
        desk.note(Event::Accepted { conn, present });
        self.own_aliases = Own::new(match ack.properties.find(PropertyId::TopicAliasMaximum) {
            Some(Property::TopicAliasMaximum(most)) => most,
            _ => 0,
        });
        self.memory.unanswered = std::mem::take(&mut self.left_unanswered);
        self.line = Line::Up(conn, hello);
        (self.must_clean, self.is_unheard) = (false, false);
        // What ended it behind this CONNACK may still be taken back by a crash.
        self.is_unsure = hello.expiry_s != u32::MAX || self.is_ended;
        if present == Some(false) || hello.clean {
            self.forget(desk);
        } else {
            self.resend(desk, conn);
        }
    }

    /// Takes a message, new or not, and owes its answer.
    fn publish(
        &mut self,
        desk: &mut Desk<'_>,
        conn: Conn,
        publish: &Publish<'_>,
        written: Written,
    ) {
        let known = |id| desk.history.message(id).cloned();
        let found = message_of(publish.payload, known);
        let message = found.unwrap_or_else(|what| {
            desk.note(Event::Unfit { conn, what });
            None
        });
        if publish.topic.is_none() {
            desk.coverage.hit("topic alias delivered");
        }
        let topic = self.aliases.topic_of(publish, self.plan.aliases).unwrap_or_else(|what| {
            desk.note(Event::Unfit { conn, what });
            String::new()
        });
        let id = publish.delivery.packet_id().map(PacketId::get);
        let exactly = matches!(publish.delivery, Delivery::ExactlyOnce(_));
        let fresh = !exactly || id.is_none_or(|id| !self.memory.open.contains_key(&id));
        let refuses = fresh && id.is_some() && !desk.calm && self.chance.once_in(self.plan.refuses);
        let expiry_s = match publish.properties.find(PropertyId::MessageExpiry) {
            Some(Property::MessageExpiry(seconds)) => Some(seconds),
            _ => None,
        };
        let received = Received {
            message,
            topic,
            qos: publish.delivery.qos(),
            packet_id: id,
            dup: publish.dup,
            retain: publish.retain,
            fresh,
            refused: refuses,
            written_ms: written.at_ms,
            expiry_s,
            offset: offset_of(publish),
            stalled: written.stalled,
        };
        self.memory.last_offset = self.memory.last_offset.max(received.offset.unwrap_or(0));
        desk.note(Event::Received { conn, received });
        let Some(id) = id else { return };
        self.check_identifier(desk, conn, id, message);
        self.refused.remove(&id);
        if refuses {
            desk.coverage.hit("op refuse");
        } else if exactly {
            self.memory.open.insert(id, message);
        }
        let kind = if exactly { AckKind::PubRec } else { AckKind::PubAck };
        self.owe(desk, conn, Owed { kind, packet_id: id, refuses });
    }

    /// An identifier names one message until it is answered, over one change of the connection too,
    /// and there are not more than the client wants.
    fn check_identifier(
        &mut self,
        desk: &mut Desk<'_>,
        conn: Conn,
        id: u16,
        message: Option<MessageId>,
    ) {
        let named = self.memory.open.get(&id).or_else(|| self.unanswered.get(&id));
        let named = named.or_else(|| self.memory.unanswered.get(&id));
        if let Some(named) = named.filter(|named| **named != message) {
            let what = format!("identifier {id} of {named:?} names {message:?}");
            desk.note(Event::Unfit { conn, what });
        }
        self.unanswered.insert(id, message);
        self.memory.unanswered.remove(&id);
        let most = usize::from(self.plan.window);
        if self.plan.version.is_v5() && self.unanswered.len() > most {
            let what = format!("{} messages at once, {most} are allowed", self.unanswered.len());
            desk.note(Event::Unfit { conn, what });
        }
    }

    /// An answer, now or later; answers keep their order.
    fn owe(&mut self, desk: &mut Desk<'_>, conn: Conn, owed: Owed) {
        self.owed.push_back(owed);
        let late = !desk.calm && self.chance.once_in(self.plan.late_answer);
        if late {
            desk.coverage.hit("op late answer");
        } else if self.owed.len() == 1 || desk.calm {
            self.answer(desk, conn, usize::MAX);
        }
    }

    /// Gives up to so many of the answers that are owed.
    pub(super) fn answer(&mut self, desk: &mut Desk<'_>, conn: Conn, most: usize) {
        for _ in 0..most {
            let Some(owed) = self.owed.pop_front() else { return };
            let Owed { kind, packet_id: id, refuses } = owed;
            let reason =
                if refuses { ReasonCode::ImplementationSpecificError } else { ReasonCode::Success };
            let ack = Ack::with_reason(packet_id(id), reason);
            let packet = match kind {
                AckKind::PubAck => Packet::PubAck(ack),
                AckKind::PubRec => Packet::PubRec(ack),
                AckKind::PubRel => Packet::PubRel(ack),
                AckKind::PubComp => Packet::PubComp(ack),
            };
            self.send(desk, &packet);
            if kind != AckKind::PubRec || refuses {
                self.unanswered.remove(&id);
            }
            if kind == AckKind::PubRec && refuses {
                self.refused.insert(id);
            }
            desk.note(Event::Took { conn, kind, packet_id: id });
        }
    }

    /// PUBACK, PUBREC or PUBCOMP for what it publishes.
    fn answered(&mut self, desk: &mut Desk<'_>, conn: Conn, kind: AckKind, ack: &Ack<'_>) {
        let id = ack.packet_id.get();
        let fits = |one: &UnderWay| match kind {
            AckKind::PubAck => one.qos == QoS::AtLeastOnce,
            AckKind::PubRec => one.qos == QoS::ExactlyOnce && !one.received,
            _ => one.received,
        };
        if kind == AckKind::PubRec
            && let Some(at) = self.memory.at(id)
            && self.memory.under_way[at].received
            && self.memory.under_way[at].repeats > 0
        {
            self.memory.under_way[at].repeats -= 1;
            return;
        }
        let found = self.memory.at(id).filter(|at| fits(&self.memory.under_way[*at]));
        let Some(at) = found else {
            let what = format!("{} {id} for nothing", kind.packet_type().name());
            desk.note(Event::Unfit { conn, what });
            return;
        };
        let message = self.memory.under_way[at].message;
        desk.note(Event::Answered { conn, message, kind, reason: ack.reason });
        if ack.reason == ReasonCode::QuotaExceeded {
            desk.coverage.hit("refused by quota");
        }
        if kind == AckKind::PubRec && !ack.reason.is_failure() {
            self.memory.under_way[at].received = true;
            desk.note(Event::Released { conn, message, again: false });
            self.send(desk, &Packet::PubRel(Ack::success(packet_id(id))));
        } else {
            self.memory.under_way.remove(at);
        }
    }

    fn sub_ack(&mut self, desk: &mut Desk<'_>, conn: Conn, ack: &SubAck<'_>) {
        let id = ack.packet_id.get();
        match self.requests.remove(&id) {
            Some(Request::Subscribe(filters)) if filters.len() == ack.codes.len() => {
                for (filter, reason) in filters.into_iter().zip(ack.codes.iter()) {
                    self.memory.reads_history |= filter.starts_with(PAST) && !reason.is_failure();
                    desk.note(Event::SubAcked { conn, request: id, filter, reason });
                }
            }
            other => {
                let what = format!("SUBACK {id} for {other:?}");
                desk.note(Event::Unfit { conn, what });
            }
        }
    }

    fn unsub_ack(&mut self, desk: &mut Desk<'_>, conn: Conn, id: PacketId) {
        match self.requests.remove(&id.get()) {
            Some(Request::Unsubscribe(filter)) => {
                self.memory.filters.remove(&filter);
                desk.note(Event::UnsubAcked { conn, request: id.get(), filter });
            }
            other => {
                let what = format!("UNSUBACK {} for {other:?}", id.get());
                desk.note(Event::Unfit { conn, what });
            }
        }
    }
}

/// What it says about its place in the log.
fn offset_of(publish: &Publish<'_>) -> Option<u64> {
    publish.properties.into_iter().find_map(|property| match property {
        Property::UserProperty("replay-offset", offset) => offset.parse().ok(),
        _ => None,
    })
}
