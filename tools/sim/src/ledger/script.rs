//! Histories written by hand, for the tests of the oracles.

use std::collections::BTreeMap;

use zzq_codec::AckKind;
use zzq_types::{ProtocolVersion, QoS, ReasonCode, SubscribeOptions};

use super::Ledger;
use crate::clock::WALL_MS;
use crate::history::{
    ClientId, Conn, Death, Ending, Event, Hello, History, Message, MessageId, Received,
};
use crate::oracle;

/// A history in the making.
pub(crate) struct Script {
    pub(crate) history: History,
    pub(crate) now: u64,
    conns: BTreeMap<ClientId, (Conn, Hello)>,
    next_conn: u32,
    next_request: u16,
}

/// The names of the promises that it breaks.
pub(crate) fn breaks(script: &Script) -> Vec<&'static str> {
    let ledger = Ledger::of(&script.history);
    let mut names: Vec<_> = oracle::check(&ledger).iter().map(|broken| broken.promise).collect();
    names.dedup();
    names
}

pub(crate) const HELLO: Hello = Hello {
    version: ProtocolVersion::V5,
    clean: false,
    expiry_s: u32::MAX,
    will: None,
    window: 100,
    keep_alive: 0,
    size: 0,
};

impl Script {
    pub(crate) fn new() -> Self {
        let mut script = Self {
            history: History::default(),
            now: 0,
            conns: BTreeMap::new(),
            next_conn: 0,
            next_request: 0,
        };
        script.note(Event::Started { wall_ms: WALL_MS });
        script
    }

    pub(crate) fn note(&mut self, event: Event) {
        self.now += 10;
        self.history.note(self.now, event);
    }

    pub(crate) fn pass(&mut self, millis: u64) {
        self.now += millis;
    }

    /// A new client.
    pub(crate) fn client(&mut self) -> ClientId {
        let id = ClientId(u16::try_from(self.history.names.len()).unwrap());
        self.history.names.push(format!("client-{}", id.0));
        id
    }

    /// A new client with a session that stays.
    pub(crate) fn member(&mut self) -> ClientId {
        let client = self.client();
        self.connect(client, HELLO, false);
        client
    }

    pub(crate) fn dial(&mut self, client: ClientId, hello: Hello) -> Conn {
        let conn = Conn(self.next_conn);
        self.next_conn += 1;
        self.conns.insert(client, (conn, hello));
        self.note(Event::Dialed { conn, client, hello });
        conn
    }

    pub(crate) fn connect(&mut self, client: ClientId, hello: Hello, present: bool) -> Conn {
        let conn = self.dial(client, hello);
        self.note(Event::Accepted { conn, present: Some(present) });
        conn
    }

    /// A reader of `a/1`, and a client whose will is for it.
    pub(crate) fn with_will(delay_s: u32, hello: Hello) -> (Self, ClientId, ClientId, MessageId) {
        let mut script = Self::new();
        let reader = script.member();
        script.subscribe(reader, "a/1", QoS::AtLeastOnce);
        let (client, will) = script.client_with_will(delay_s, hello);
        (script, reader, client, will)
    }

    /// A client that connects so, with a will for `a/1` that waits for so many seconds.
    pub(crate) fn client_with_will(&mut self, delay_s: u32, hello: Hello) -> (ClientId, MessageId) {
        let client = self.client();
        let message = Self::message(client, "a/1", QoS::AtLeastOnce);
        let will = self.history.add_message(Message { is_will: true, ..message });
        self.connect(client, Hello { will: Some((will, delay_s)), ..hello }, false);
        (client, will)
    }

    pub(crate) fn end(&mut self, client: ClientId, how: Ending) {
        let conn = self.conn(client);
        self.note(Event::Ended { conn, how });
    }

    /// The session of before goes on.
    pub(crate) fn reconnect(&mut self, client: ClientId) {
        self.connect(client, HELLO, true);
    }

    /// Its session is thrown away, and the new one ends with its connection.
    pub(crate) fn guest_of(&mut self, client: ClientId) {
        self.connect(client, Hello { clean: true, expiry_s: 0, ..HELLO }, false);
    }

    pub(crate) fn conn(&self, client: ClientId) -> Conn {
        self.conns[&client].0
    }

    pub(crate) fn crash(&mut self) {
        self.note(Event::Died { how: Death::Killed });
        for client in self.conns.keys().copied().collect::<Vec<_>>() {
            self.end(client, Ending::Broken);
        }
        let wall_ms = WALL_MS + self.now;
        self.note(Event::Started { wall_ms });
    }

    pub(crate) fn ask(&mut self, client: ClientId, filter: &str, options: SubscribeOptions) -> u16 {
        let conn = self.conn(client);
        self.next_request += 1;
        let request = self.next_request;
        self.note(Event::Subscribed { conn, request, filter: filter.into(), options });
        request
    }

    /// What was asked for last is granted as asked.
    pub(crate) fn granted(&mut self, client: ClientId, filter: &str) {
        let asked = self.history.entries.iter().rev().find_map(|entry| match &entry.event {
            Event::Subscribed { request, filter: asked, options, .. } if asked == filter => {
                Some((*request, options.qos))
            }
            _ => None,
        });
        let (request, qos) = asked.unwrap();
        let reason = match qos {
            QoS::AtMostOnce => ReasonCode::Success,
            QoS::AtLeastOnce => ReasonCode::GrantedQoS1,
            QoS::ExactlyOnce => ReasonCode::GrantedQoS2,
        };
        self.sub_acked(client, request, filter, reason);
    }

    pub(crate) fn sub_acked(
        &mut self,
        client: ClientId,
        request: u16,
        filter: &str,
        reason: ReasonCode,
    ) {
        let conn = self.conn(client);
        self.note(Event::SubAcked { conn, request, filter: filter.into(), reason });
    }

    pub(crate) fn subscribe(&mut self, client: ClientId, filter: &str, qos: QoS) {
        self.ask(client, filter, SubscribeOptions::with_qos(qos));
        self.granted(client, filter);
    }

    pub(crate) fn unsubscribe(&mut self, client: ClientId, filter: &str) {
        self.unsubscribe_with(client, filter, |_| {});
    }

    /// What happens `meanwhile` does so before it is answered.
    pub(crate) fn unsubscribe_with(
        &mut self,
        client: ClientId,
        filter: &str,
        meanwhile: impl FnOnce(&mut Self),
    ) {
        let (conn, filter) = (self.conn(client), filter.to_owned());
        self.next_request += 1;
        let request = self.next_request;
        self.note(Event::Unsubscribed { conn, request, filter: filter.clone() });
        meanwhile(self);
        self.note(Event::UnsubAcked { conn, request, filter });
    }

    pub(crate) fn message(client: ClientId, topic: &str, qos: QoS) -> Message {
        Message {
            client,
            topic: topic.into(),
            qos,
            retain: false,
            clears: false,
            expiry_s: None,
            is_will: false,
            is_probe: false,
            size: 12,
            quote: None,
        }
    }

    pub(crate) fn send(&mut self, message: Message) -> MessageId {
        let conn = self.conn(message.client);
        let packet_id = message.qos.is_acknowledged().then_some(1);
        let message = self.history.add_message(message);
        self.note(Event::Published { conn, message, packet_id, dup: false });
        message
    }

    pub(crate) fn publish(&mut self, client: ClientId, topic: &str, qos: QoS) -> MessageId {
        self.send(Self::message(client, topic, qos))
    }

    pub(crate) fn retain(&mut self, client: ClientId, topic: &str, clears: bool) -> MessageId {
        let message = Self::message(client, topic, QoS::AtLeastOnce);
        self.send(Message { retain: true, clears, ..message })
    }

    fn answer(&mut self, client: ClientId, message: MessageId, kind: AckKind, reason: ReasonCode) {
        let conn = self.conn(client);
        self.note(Event::Answered { conn, message, kind, reason });
    }

    pub(crate) fn acked(&mut self, client: ClientId, message: MessageId) {
        self.answer(client, message, AckKind::PubAck, ReasonCode::Success);
    }

    pub(crate) fn refused(&mut self, client: ClientId, message: MessageId) {
        self.answer(client, message, AckKind::PubAck, ReasonCode::QuotaExceeded);
    }

    pub(crate) fn completed(&mut self, client: ClientId, message: MessageId, reason: ReasonCode) {
        self.answer(client, message, AckKind::PubComp, reason);
    }

    pub(crate) fn received(&self, message: MessageId, qos: QoS) -> Received {
        let sent = &self.history.messages[message.0 as usize];
        Received {
            message: Some(message),
            topic: sent.topic.clone(),
            qos,
            packet_id: qos.is_acknowledged().then_some(1),
            dup: false,
            retain: false,
            fresh: true,
            refused: false,
            written_ms: self.now,
            expiry_s: sent.expiry_s,
            offset: None,
            stalled: false,
        }
    }

    pub(crate) fn take(&mut self, client: ClientId, received: Received) {
        let conn = self.conn(client);
        self.note(Event::Received { conn, received });
    }

    pub(crate) fn receive(&mut self, client: ClientId, message: MessageId, qos: QoS) {
        self.take(client, self.received(message, qos));
    }
}
