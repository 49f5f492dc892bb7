//! What a client does when its time has come, and what it begins anew.

use zzq_codec::{Ack, Auth, Connect, Delivery, Disconnect, Packet, Publish, Will};
use zzq_types::{
    PropertiesBuf, Property, ProtocolVersion, QoS, ReasonCode, SubscribeOptions, TopicName,
};

use super::aliases::Naming;
use super::memory::UnderWay;
use super::packets::{packet_id, payload};
use super::quote::Quote;
use super::{Client, Desk, Line};
use crate::guard::{FORBIDDEN, HIDDEN, METHOD, WORD};
use crate::history::{Conn, Ending, Event, Hello, Message, MessageId};
use crate::plan::{ClientPlan, Keeps};

/// Topics are few, so that things collide.
pub(crate) const TOPICS: [&str; 5] = ["a/1", "a/two", "b/1", "b/two", "city"];

/// Once in so many ms nobody publishes for so many, where there are pauses.
const PAUSES_MS: u64 = 5000;
const PAUSE_MS: u64 = 1500;

/// Where clients chat. Neighbours differ, so that what follows one another on one topic does not
/// cross lanes in one piece.
const CHAT: &str = "chat/#";
const CHAT_TOPICS: [&str; 2] = ["chat/1", "chat/2"];
const CHAT_MOST: usize = 60;

/// What a client asks of its network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Nothing but to send its output.
    Nothing,
    /// A new connection.
    Dial,
    /// A new connection, while the old one is open.
    TakeOver(Conn),
    /// It sends nothing more, and waits for the broker to close.
    Finish(Conn),
    /// It lets the connection go without a word.
    Abandon(Conn),
    /// It does not read for so many ms.
    Deafen(Conn, u64),
}

/// Longer than any client is away, and than it may take to hear that a connection has ended.
const LONG_DELAY_S: u32 = 20;

/// Once in so many large messages one is bytes of the log.
const QUOTES: u64 = 3;

/// Bytes of a will that makes its CONNECT larger than a broker with a small limit takes.
const LARGE_WILL: usize = 500;

/// Without a word from the broker for so long, a client gives its connection up.
const PATIENCE_MS: u64 = 9000;

impl Client {
    /// Its time has come.
    pub fn act(&mut self, desk: &mut Desk<'_>) -> Act {
        self.next_at = desk.now + 1 + self.chance.within(0, self.plan.pause_ms);
        let (conn, is_up) = match self.line {
            Line::Down => return Act::Dial,
            Line::Waiting(_) => return Act::Nothing,
            Line::Opening(conn, _) | Line::Leaving(conn) => (conn, false),
            Line::Up(conn, _) => (conn, true),
        };
        if desk.now > self.heard_at + PATIENCE_MS + self.chance.below(3000) {
            self.next_at = desk.now;
            self.ended(desk, Ending::GivenUp);
            return Act::Abandon(conn);
        }
        if !is_up {
            return Act::Nothing;
        }
        self.keep_alive(desk);
        if desk.calm {
            let asks = !self.memory.reads_history && self.requests.is_empty();
            if self.plan.reads_history && asks {
                self.subscribe_to_history(desk, conn);
            }
            self.answer(desk, conn, usize::MAX);
            self.next_at = desk.now + 100;
            return Act::Nothing;
        }
        self.act_up(desk, conn)
    }

    fn act_up(&mut self, desk: &mut Desk<'_>, conn: Conn) -> Act {
        if self.plan.authenticates && !self.proves && self.chance.once_in(30) {
            desk.coverage.hit("op authenticate again");
            self.proves = true;
            self.send_auth(desk, ReasonCode::ReAuthenticate, b"it is me");
        }
        if self.plan.chats > 0 && self.chat(desk, conn) {
            return Act::Nothing;
        }
        let rests = self.plan.pauses && desk.now % PAUSES_MS < PAUSE_MS;
        match self.chance.weighted(&self.plan.weights) {
            0 if rests => {}
            0 => self.publish_something(desk, conn),
            1 => self.subscribe_something(desk, conn),
            2 => self.unsubscribe_something(desk, conn),
            3 => return self.leave(desk, conn),
            4 => {
                desk.coverage.hit("op drop");
                self.ended(desk, Ending::GivenUp);
                return Act::Abandon(conn);
            }
            5 => {
                desk.coverage.hit("op takeover");
                self.ended(desk, Ending::GivenUp);
                return Act::TakeOver(conn);
            }
            6 => {
                let most = 1 + self.chance.index(10);
                self.answer(desk, conn, most);
            }
            7 => {
                desk.coverage.hit("op stop reading");
                return Act::Deafen(conn, self.chance.within(10, 3000));
            }
            _ => self.repeat_something(desk, conn),
        }
        Act::Nothing
    }

    /// Much at once, for all who chat: it fills the rings between lanes. False: not now.
    fn chat(&mut self, desk: &mut Desk<'_>, conn: Conn) -> bool {
        if !self.memory.filters.contains(CHAT) {
            self.subscribe(desk, conn, &[(CHAT, SubscribeOptions::with_qos(QoS::AtMostOnce))]);
            return true;
        }
        if !self.chance.once_in(self.plan.chats) {
            return false;
        }
        desk.coverage.hit("op chat");
        for at in 0..self.chance.index(CHAT_MOST) {
            let message = Message {
                client: self.id,
                topic: CHAT_TOPICS[at % CHAT_TOPICS.len()].into(),
                qos: QoS::AtMostOnce,
                retain: false,
                clears: false,
                expiry_s: None,
                is_will: false,
                is_probe: false,
                size: 12,
                quote: None,
            };
            let message = desk.history.add_message(message);
            self.send_publish(desk, conn, message, None, false);
        }
        true
    }

    /// A QoS 2 message whose PUBREC has not come is sent again on the same connection. Its PUBRECs
    /// all come before its PUBCOMP, so none can be taken for one of a later message.
    fn repeat_something(&mut self, desk: &mut Desk<'_>, conn: Conn) {
        let open = |one: &&mut UnderWay| one.qos == QoS::ExactlyOnce && !one.received;
        let mut open: Vec<_> = self.memory.under_way.iter_mut().filter(open).collect();
        if open.is_empty() {
            return;
        }
        let at = self.chance.index(open.len());
        open[at].repeats += 1;
        let (message, id) = (open[at].message, open[at].packet_id);
        desk.coverage.hit("op repeat");
        self.send_publish(desk, conn, message, Some(id), true);
    }

    /// Says something before the broker loses its patience.
    fn keep_alive(&mut self, desk: &mut Desk<'_>) {
        let promised = match self.plan.keep_alive {
            0 => 4000,
            seconds => (u64::from(seconds) * 500).min(4000),
        };
        if desk.now >= self.said_at + promised && !self.pinged {
            desk.coverage.hit("op ping");
            self.pinged = true;
            self.send(desk, &Packet::PingReq);
        }
    }

    /// Sends its CONNECT on a new connection.
    pub fn dial(&mut self, desk: &mut Desk<'_>, conn: Conn) {
        let keeps = desk.calm && self.plan.keeps != Keeps::Never || self.keeps();
        let clean = self.must_clean
            || self.plan.keeps == Keeps::Never
            || (self.plan.keeps == Keeps::Changes && !desk.calm && self.chance.once_in(3));
        let expiry_s = match self.plan.version {
            ProtocolVersion::V5 if !keeps => 0,
            ProtocolVersion::V5 if self.plan.keeps == Keeps::Briefly => 3,
            ProtocolVersion::V5 if self.plan.keeps == Keeps::Changes => {
                *self.chance.pick(&[3, 30, u32::MAX])
            }
            ProtocolVersion::V5 => u32::MAX,
            _ if clean => 0,
            _ => u32::MAX,
        };
        let will = self.draw_will(desk);
        let window = self.plan.window;
        let version = self.plan.version;
        let keep_alive = self.plan.keep_alive;
        let mut hello = Hello { version, clean, expiry_s, will, window, keep_alive, size: 0 };
        hello.size = self.send_connect(desk, hello);
        desk.coverage.hit("op connect");
        desk.coverage.hit(match version {
            ProtocolVersion::V31 => "version 3.1",
            ProtocolVersion::V311 => "version 3.1.1",
            ProtocolVersion::V5 => "version 5.0",
        });
        if clean {
            desk.coverage.hit("op connect clean");
        }
        desk.note(Event::Dialed { conn, client: self.id, hello });
        if clean {
            self.must_clean = true;
            self.forget(desk);
        }
        (self.is_guest, self.is_ended) = (expiry_s == 0, false);
        self.line = Line::Opening(conn, hello);
        (self.heard_at, self.said_at) = (desk.now, desk.now);
    }

    /// How many bytes it has.
    fn send_connect(&mut self, desk: &mut Desk<'_>, hello: Hello) -> usize {
        let mut properties = PropertiesBuf::new();
        if hello.version.is_v5() {
            push(&mut properties, Property::SessionExpiry(hello.expiry_s));
            push(&mut properties, Property::ReceiveMaximum(hello.window));
            push(&mut properties, Property::TopicAliasMaximum(self.plan.aliases));
            if self.plan.authenticates {
                desk.coverage.hit("op authenticate");
                push(&mut properties, Property::AuthMethod(METHOD));
            }
        }
        let will = hello.will.and_then(|(id, delay)| Some((id, desk.history.message(id)?, delay)));
        let will = will.map(|(id, message, delay)| (payload(id, message), message.clone(), delay));
        let mut will_properties = PropertiesBuf::new();
        if let Some((.., delay)) = &will
            && hello.version.is_v5()
        {
            push(&mut will_properties, Property::WillDelay(*delay));
        }
        let name = self.name.clone();
        let will = will.as_ref().and_then(|(payload, message, _)| {
            Some(Will {
                qos: message.qos,
                retain: message.retain,
                properties: will_properties.as_properties(),
                topic: TopicName::new(&message.topic).ok()?,
                payload,
            })
        });
        let connect = Connect {
            clean_start: hello.clean,
            keep_alive: hello.keep_alive,
            properties: properties.as_properties(),
            will,
            ..Connect::new(hello.version, &name)
        };
        let before = self.output.len();
        self.send(desk, &Packet::Connect(connect));
        self.output.len() - before
    }

    /// The next word of its authentication.
    pub(super) fn send_auth(&mut self, desk: &mut Desk<'_>, reason: ReasonCode, data: &[u8]) {
        let mut properties = PropertiesBuf::new();
        push(&mut properties, Property::AuthMethod(METHOD));
        push(&mut properties, Property::AuthData(data));
        self.send(desk, &Packet::Auth(Auth { reason, properties: properties.as_properties() }));
    }

    /// The broker asks, or is content.
    pub(super) fn auth(&mut self, desk: &mut Desk<'_>, conn: Conn, auth: &Auth<'_>) {
        if auth.reason == ReasonCode::ContinueAuthentication {
            return self.send_auth(desk, ReasonCode::ContinueAuthentication, WORD);
        }
        if !std::mem::take(&mut self.proves) {
            let what = "AUTH that nothing was asked for".into();
            desk.note(Event::Unfit { conn, what });
        }
    }

    fn draw_will(&mut self, desk: &mut Desk<'_>) -> Option<(MessageId, u32)> {
        let is_brief = self.plan.keeps == Keeps::Briefly;
        if !is_brief && (desk.calm || self.plan.needs_no_log || !self.chance.once_in(3)) {
            return None;
        }
        let delay = match self.plan.version {
            ProtocolVersion::V5 if is_brief => 2,
            // Where the broker may have ended the connection long before its client hears of that,
            // only a long delay shows whether it was waited for.
            ProtocolVersion::V5 => *self.chance.pick(&[0, 0, 1, 4, LONG_DELAY_S]),
            _ => 0,
        };
        let is_large = !is_brief && self.chance.once_in(self.plan.large_wills);
        desk.coverage.hit("op connect with will");
        if delay > 0 {
            desk.coverage.hit("op connect with delayed will");
        }
        if delay == LONG_DELAY_S {
            desk.coverage.hit("will with a long delay");
        }
        let message = Message {
            client: self.id,
            topic: (*self.chance.pick(&TOPICS)).into(),
            qos: if is_brief { QoS::AtLeastOnce } else { self.draw_qos() },
            retain: !is_brief && self.chance.once_in(5),
            clears: false,
            expiry_s: None,
            is_will: true,
            is_probe: false,
            size: if is_large { LARGE_WILL } else { 20 },
            quote: None,
        };
        Some((desk.history.add_message(message), delay))
    }

    pub(super) fn draw_qos(&mut self) -> QoS {
        *self.chance.pick(&[
            QoS::AtMostOnce,
            QoS::AtLeastOnce,
            QoS::AtLeastOnce,
            QoS::ExactlyOnce,
            QoS::ExactlyOnce,
        ])
    }

    /// It knows nothing any more of what was under way.
    pub(super) fn forget(&mut self, desk: &mut Desk<'_>) {
        let memory = std::mem::take(&mut self.memory);
        for UnderWay { message, .. } in memory.under_way {
            desk.note(Event::Forgotten { message });
        }
    }

    /// Goes on with what is under way, in its order.
    pub(super) fn resend(&mut self, desk: &mut Desk<'_>, conn: Conn) {
        for one in &mut self.memory.under_way {
            one.repeats = 0;
        }
        for one in self.memory.under_way.clone() {
            desk.coverage.hit("op resend");
            if one.received {
                desk.note(Event::Released { conn, message: one.message, again: true });
                self.send(desk, &Packet::PubRel(Ack::success(packet_id(one.packet_id))));
            } else {
                self.send_publish(desk, conn, one.message, Some(one.packet_id), true);
            }
        }
    }

    fn publish_something(&mut self, desk: &mut Desk<'_>, conn: Conn) {
        let retain = self.chance.once_in(8);
        let v5 = self.plan.version.is_v5();
        let trespass = self.plan.trespasses && self.chance.once_in(6);
        let topic = if trespass { self.trespass(desk) } else { self.chance.pick(&TOPICS) };
        let welcomes = self.plan.welcomes && self.chance.once_in(2);
        let retain = if welcomes { self.chance.once_in(self.plan.retains) } else { retain };
        let retain = retain && !self.plan.needs_no_log;
        let message = Message {
            client: self.id,
            topic: if welcomes { joined(&self.plan, desk.now) } else { topic.into() },
            qos: match self.draw_qos() {
                _ if self.plan.needs_no_log => QoS::AtMostOnce,
                drawn => self.plan.publishes_at.unwrap_or(drawn),
            },
            retain,
            clears: retain && !welcomes && self.chance.once_in(4),
            expiry_s: (v5 && !welcomes && self.chance.once_in(6))
                .then(|| *self.chance.pick(&[1, 5, 3600])),
            is_will: false,
            is_probe: false,
            size: match self.chance.below(self.plan.large) {
                0 => self.chance.index(self.plan.largest),
                1..4 => self.chance.index(2000),
                _ => 12,
            },
            quote: None,
        };
        let message = self.quote(desk, message);
        self.publish_message(desk, conn, message);
    }

    /// Some large messages are groups of the log.
    fn quote(&mut self, desk: &mut Desk<'_>, message: Message) -> Message {
        let may = message.size > 2000 && !message.clears;
        if !may || !self.quotes.once_in(QUOTES) {
            return message;
        }
        let quote = desk.disk.and_then(|disk| Quote::of(disk, &mut self.quotes));
        let Some(quote) = quote else { return message };
        desk.coverage.hit("op publish bytes of the log");
        Message { size: quote.at + quote.bytes.len(), quote: Some(quote), ..message }
    }

    /// A topic that nobody hears of.
    fn trespass(&mut self, desk: &mut Desk<'_>) -> &'static str {
        let is_hidden = self.chance.once_in(3);
        desk.coverage.hit(if is_hidden { "op publish hidden" } else { "op publish denied" });
        if is_hidden { HIDDEN } else { FORBIDDEN }
    }

    /// Publishes a message of the last phase; false: it is not connected.
    pub fn probe(&mut self, desk: &mut Desk<'_>, topic: &str, qos: QoS) -> bool {
        let Line::Up(conn, _) = self.line else { return false };
        let message = Message {
            client: self.id,
            topic: topic.into(),
            qos,
            retain: false,
            clears: false,
            expiry_s: None,
            is_will: false,
            is_probe: true,
            size: 12,
            quote: None,
        };
        self.publish_message(desk, conn, message);
        true
    }

    fn publish_message(&mut self, desk: &mut Desk<'_>, conn: Conn, message: Message) {
        let qos = message.qos;
        if qos.is_acknowledged() && self.memory.under_way.len() >= self.plan.under_way {
            return;
        }
        desk.coverage.hit(match qos {
            QoS::AtMostOnce => "op publish qos 0",
            QoS::AtLeastOnce => "op publish qos 1",
            QoS::ExactlyOnce => "op publish qos 2",
        });
        for (is_so, kind) in [
            (message.retain, "op publish retained"),
            (message.clears, "op publish clears retained"),
            (message.expiry_s.is_some(), "op publish expires"),
            (message.size > 8192, "op publish large"),
        ] {
            if is_so {
                desk.coverage.hit(kind);
            }
        }
        let message = desk.history.add_message(message);
        let id = qos.is_acknowledged().then(|| self.free_id());
        if let Some(id) = id {
            let under_way = UnderWay { message, packet_id: id, qos, received: false, repeats: 0 };
            self.memory.under_way.push(under_way);
        }
        self.send_publish(desk, conn, message, id, false);
    }

    fn send_publish(
        &mut self,
        desk: &mut Desk<'_>,
        conn: Conn,
        id: MessageId,
        as_id: Option<u16>,
        dup: bool,
    ) {
        let Some(message) = desk.history.message(id).cloned() else { return };
        let Ok(topic) = TopicName::new(&message.topic) else { return };
        let delivery = match (message.qos, as_id) {
            (QoS::AtLeastOnce, Some(as_id)) => Delivery::AtLeastOnce(packet_id(as_id)),
            (QoS::ExactlyOnce, Some(as_id)) => Delivery::ExactlyOnce(packet_id(as_id)),
            _ => Delivery::AtMostOnce,
        };
        let mut properties = PropertiesBuf::new();
        if let Some(seconds) = message.expiry_s {
            push(&mut properties, Property::MessageExpiry(seconds));
        }
        // A message that is sent again is named as the connection of now has it.
        let naming = self.own_aliases.name(&message.topic, self.plan.names, &mut self.chance);
        if let Naming::Defines(alias) | Naming::By(alias) = naming {
            push(&mut properties, Property::TopicAlias(alias.get()));
        }
        match naming {
            Naming::Plain => {}
            Naming::Defines(_) => desk.coverage.hit("op define alias"),
            Naming::By(_) => desk.coverage.hit("op publish by alias"),
        }
        let bytes = payload(id, &message);
        desk.note(Event::Published { conn, message: id, packet_id: as_id, dup });
        self.send(
            desk,
            &Packet::Publish(Publish {
                dup,
                retain: message.retain,
                properties: properties.as_properties(),
                topic: Some(topic).filter(|_| !matches!(naming, Naming::By(_))),
                ..Publish::new(topic, delivery, &bytes)
            }),
        );
    }

    /// DISCONNECT; it waits for the broker to close, so that it knows what it said was heard.
    fn leave(&mut self, desk: &mut Desk<'_>, conn: Conn) -> Act {
        let keeps_will = self.plan.version.is_v5() && self.chance.once_in(3);
        desk.coverage.hit("op disconnect");
        let reason = if keeps_will {
            desk.coverage.hit("op disconnect with will");
            ReasonCode::DisconnectWithWill
        } else {
            ReasonCode::Success
        };
        desk.note(Event::Left { conn, keeps_will });
        self.send(desk, &Packet::Disconnect(Disconnect::with_reason(reason)));
        self.line = Line::Leaving(conn);
        Act::Finish(conn)
    }
}

/// Where clients join others at a time.
pub(super) fn joined(plan: &ClientPlan, now: u64) -> String {
    format!("new/{}", now / plan.joining_ms)
}

/// # Panics
/// The property is too long: a defect of the client.
fn push(properties: &mut PropertiesBuf, property: Property<'_>) {
    let pushed = properties.push(property);
    assert!(pushed.is_ok(), "{property:?}");
}
