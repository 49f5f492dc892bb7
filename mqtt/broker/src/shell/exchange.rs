//! Enhanced authentication of MQTT 5: CONNECT and AUTH packets back and forth until the method has
//! an outcome, and once more whenever a client that is connected wants it.
//!
//! Owns: whose turn it is. Does not know: what any method means.
//! Assumes: it runs on the lane of the client's session.

use std::sync::Arc;

use zzq_codec::{Auth, Connect, Decoder, Disconnect, Encoder, Packet};
use zzq_lanes::{Close, ConnId};
use zzq_types::{Properties, PropertiesBuf, Property, PropertyId, ReasonCode};
use zzq_wal::disk::Disk;

use super::admit::login;
use super::link::Phase;
use super::packet_out::write_packet;
use super::packets::{Reading, Refused, Step as Reads};
use super::questions::Question;
use super::why::reason_string;
use super::{Flow, Io, SILENCE, Shell};
use crate::hooks::{Answer, Client, Exchange, Identity, Login, NoAnswer, Refusal, Step};

/// The authentication of a connection whose CONNECT has named a method.
pub(super) struct Exchanging {
    method: Box<str>,
    /// Its CONNECT, until that is accepted, and the client identifier it gets.
    connect: Box<[u8]>,
    client: Box<str>,
    /// Takes what the client sends next, if it is asked for something.
    next: Option<Box<dyn Exchange>>,
    /// For CONNACK.
    last_word: Vec<u8>,
}

impl<D: Disk> Shell<D> {
    /// A CONNECT with an authentication method. `Ok`: its client is known. `Err`: it is not, or not
    /// yet.
    //= MQTT5-4.12.0-1
    pub(super) fn exchange_at_connect(
        &mut self,
        io: &mut Io<'_, D>,
        conn: ConnId,
        connect: &Connect<'_>,
        client: &str,
    ) -> Result<(), Flow> {
        let Some(Property::AuthMethod(method)) = connect.properties.find(PropertyId::AuthMethod)
        else {
            return Ok(());
        };
        if self.links.get(conn).is_none_or(|link| link.who.is_some()) {
            return Ok(());
        }
        let peer = self.peer(io, conn);
        let step = self.next_of_exchange(io, conn, |shell| {
            let authenticator = shell.shared.hooks.authenticator.as_ref()?;
            let exchange = authenticator.exchange(method, &login(connect, &peer))?;
            Some(exchange.step(data_of(connect.properties)))
        });
        let mut exchanging = Exchanging {
            method: method.into(),
            connect: Box::default(),
            client: client.into(),
            next: None,
            last_word: Vec::new(),
        };
        match step {
            None => return Err(self.await_answer(io, conn)),
            Some(Step::Refuse(refusal)) => {
                return Err(self.turn_away(io, conn, connect, &refusal));
            }
            Some(Step::Admit { identity, data }) => {
                exchanging.last_word = data;
                self.name(io, conn, connect, client, identity);
            }
            Some(Step::Challenge { data, next }) => {
                exchanging.next = Some(next);
                let mut bytes = Vec::new();
                let written = Encoder::new(connect.version).connect(connect, &mut bytes);
                assert!(written.is_ok(), "what was decoded can be encoded: {written:?}");
                exchanging.connect = bytes.into();
                if let Some(link) = self.links.get_mut(conn) {
                    link.phase = Phase::Authenticating;
                    link.encoder = Encoder::for_client(connect);
                    link.decoder.connected(connect.version);
                    link.exchanging = Some(Box::new(exchanging));
                }
                return Err(self.challenge(io, conn, &data));
            }
        }
        if let Some(link) = self.links.get_mut(conn) {
            link.exchanging = Some(Box::new(exchanging));
        }
        Ok(())
    }

    /// The next packet of a client that is not let in yet.
    //= MQTT5-3.1.2-30
    pub(super) fn read_authentication(
        &mut self,
        io: &mut Io<'_, D>,
        conn: ConnId,
        decoder: Decoder,
        reading: &mut Reading<'_>,
    ) -> Reads {
        let (packet, size) = match self.next_whole(io, conn, decoder, reading) {
            Ok(next) => next,
            Err(step) => return step,
        };
        let flow = match &packet {
            Packet::Auth(auth) => self.auth_before_connack(io, conn, auth),
            Packet::Disconnect(_) => {
                self.lost(io, conn, None, "it gave its authentication up");
                io.close(conn, Close::AfterFlush);
                Flow::End
            }
            _ => {
                let why = "a packet other than AUTH before CONNACK";
                self.break_off(io, conn, ReasonCode::ProtocolError, why)
            }
        };
        if flow == Flow::Again {
            return Reads::Rest;
        }
        self.counts.packets_in += 1;
        reading.used += size;
        if flow == Flow::End { Reads::End } else { Reads::Further }
    }

    //= MQTT5-4.12.0-3
    //= MQTT5-4.12.0-4
    fn auth_before_connack(&mut self, io: &mut Io<'_, D>, conn: ConnId, auth: &Auth<'_>) -> Flow {
        let Some(link) = self.links.get(conn) else { return Flow::End };
        let Some(exchanging) = &link.exchanging else { return Flow::End };
        if link.who.is_some() {
            // This AUTH has let it in before; its CONNECT has waited.
            return self.connect_behind(io, conn, None);
        }
        let goes_on = auth.reason == ReasonCode::ContinueAuthentication;
        if !goes_on || method_of(auth.properties) != Some(&exchanging.method) {
            let why = "an AUTH that does not go on with the method of its CONNECT";
            return self.break_off(io, conn, ReasonCode::ProtocolError, why);
        }
        match self.next_of_exchange(io, conn, |shell| shell.next_of(conn, auth)) {
            None => self.await_answer(io, conn),
            Some(Step::Challenge { data, next }) => self.challenge_again(io, conn, &data, next),
            Some(outcome) => self.connect_behind(io, conn, Some(outcome)),
        }
    }

    /// The authentication of a CONNECT has an outcome: it goes on as if it had come now.
    fn connect_behind(&mut self, io: &mut Io<'_, D>, conn: ConnId, outcome: Option<Step>) -> Flow {
        let Some(link) = self.links.get_mut(conn) else { return Flow::End };
        let Some(exchanging) = &mut link.exchanging else { return Flow::End };
        let bytes = std::mem::take(&mut exchanging.connect);
        let client = exchanging.client.clone();
        let Ok(Some((Packet::Connect(connect), _))) = self.decoder().decode(&bytes) else {
            return Flow::End;
        };
        match outcome {
            Some(Step::Refuse(refusal)) => {
                return self.turn_away(io, conn, &connect, &refusal);
            }
            Some(Step::Admit { identity, data }) => {
                if let Some(link) = self.links.get_mut(conn)
                    && let Some(exchanging) = &mut link.exchanging
                {
                    exchanging.last_word = data;
                }
                self.name(io, conn, &connect, &client, identity);
            }
            Some(Step::Challenge { .. }) | None => {}
        }
        let flow = self.connect_admitted(io, conn, &connect, &client);
        if flow == Flow::Again
            && let Some(link) = self.links.get_mut(conn)
            && let Some(exchanging) = &mut link.exchanging
        {
            exchanging.connect = bytes;
        }
        flow
    }

    /// AUTH from a client that is connected: it authenticates again.
    //= MQTT5-4.12.0-5
    //= MQTT5-4.12.0-7
    //= MQTT5-4.12.1-1
    pub(super) fn auth(&mut self, io: &mut Io<'_, D>, conn: ConnId, auth: &Auth<'_>) -> Flow {
        let Some(link) = self.links.up_mut(conn) else { return Flow::End };
        let Some(exchanging) = &link.exchanging else {
            return self.refuse(io, conn, ReasonCode::ProtocolError, "AUTH without a method");
        };
        if method_of(auth.properties) != Some(&exchanging.method) {
            let why = "AUTH with another method than its CONNECT";
            return self.refuse(io, conn, ReasonCode::ProtocolError, why);
        }
        let begins = auth.reason == ReasonCode::ReAuthenticate;
        let waits = matches!(link.question, Question::Step(_));
        if !waits && begins == exchanging.next.is_some() {
            let why = "AUTH that begins in the middle, or goes on with nothing";
            return self.refuse(io, conn, ReasonCode::ProtocolError, why);
        }
        let step = self.next_of_exchange(io, conn, |shell| {
            if begins { shell.first_of(conn, auth) } else { shell.next_of(conn, auth) }
        });
        match step {
            None => self.await_answer(io, conn),
            Some(Step::Challenge { data, next }) => self.challenge_again(io, conn, &data, next),
            Some(Step::Admit { identity, data }) => {
                self.name_again(conn, identity);
                self.say_auth(io, conn, ReasonCode::Success, &data)
            }
            Some(Step::Refuse(refusal)) => self.send_away(io, conn, &refusal),
        }
    }

    /// The step that is next; its outcome, unless that comes later.
    fn next_of_exchange(
        &mut self,
        io: &Io<'_, D>,
        conn: ConnId,
        begin: impl FnOnce(&mut Self) -> Option<Answer<Step>>,
    ) -> Option<Step> {
        let link = self.links.get_mut(conn)?;
        let asked = match std::mem::take(&mut link.question) {
            Question::Step(pending) => Err(pending),
            _ => match begin(self) {
                Some(answer) => self.settle_answer(io, conn, answer),
                None => Ok(Step::Refuse(Refusal::BadMethod)),
            },
        };
        let mut pending = match asked {
            Ok(step) => return Some(step),
            Err(pending) => pending,
        };
        match pending.poll(io.now()) {
            Ok(Some(step)) => return Some(step),
            Ok(None) => {}
            Err(NoAnswer) => {
                self.counts.unanswered += 1;
                return Some(Step::Refuse(Refusal::Unavailable));
            }
        }
        if let Some(link) = self.links.get_mut(conn) {
            link.question = Question::Step(pending);
        }
        None
    }

    fn next_of(&mut self, conn: ConnId, auth: &Auth<'_>) -> Option<Answer<Step>> {
        let exchanging = self.links.get_mut(conn)?.exchanging.as_mut()?;
        Some(exchanging.next.take()?.step(data_of(auth.properties)))
    }

    fn first_of(&mut self, conn: ConnId, auth: &Auth<'_>) -> Option<Answer<Step>> {
        let authenticator = self.shared.hooks.authenticator.as_ref()?;
        let link = self.links.get(conn)?;
        let (who, exchanging) = (link.who.as_ref()?, link.exchanging.as_ref()?);
        let login = Login {
            client_id: &who.id,
            user: who.user.as_deref(),
            password: None,
            version: who.version,
            clean_start: false,
            peer: &who.peer,
            again: Some(who),
        };
        let exchange = authenticator.exchange(&exchanging.method, &login)?;
        Some(exchange.step(data_of(auth.properties)))
    }

    fn name_again(&mut self, conn: ConnId, identity: Identity) {
        let Some(link) = self.links.get_mut(conn) else { return };
        let Some(before) = &link.who else { return };
        let user = identity.user.or_else(|| before.user.clone());
        let (version, data) = (before.version, identity.data);
        let (id, peer) = (before.id.clone(), before.peer.clone());
        link.who = Some(Arc::new(Client { id, user, version, peer, data }));
    }

    fn challenge_again(
        &mut self,
        io: &mut Io<'_, D>,
        conn: ConnId,
        data: &[u8],
        next: Box<dyn Exchange>,
    ) -> Flow {
        if let Some(link) = self.links.get_mut(conn)
            && let Some(exchanging) = &mut link.exchanging
        {
            exchanging.next = Some(next);
        }
        self.challenge(io, conn, data)
    }

    //= MQTT5-4.12.0-2
    fn challenge(&mut self, io: &mut Io<'_, D>, conn: ConnId, data: &[u8]) -> Flow {
        if self.links.get(conn).is_some_and(|link| link.phase == Phase::Authenticating) {
            // It has the time of a CONNECT for each answer.
            let due = io.now() + self.shared.options.limits.connect_timeout;
            io.set_timer(conn, SILENCE, due);
        }
        self.say_auth(io, conn, ReasonCode::ContinueAuthentication, data)
    }

    //= MQTT5-4.12.0-5
    fn say_auth(
        &mut self,
        io: &mut Io<'_, D>,
        conn: ConnId,
        reason: ReasonCode,
        data: &[u8],
    ) -> Flow {
        let Some(link) = self.links.get(conn) else { return Flow::End };
        let Some(exchanging) = &link.exchanging else { return Flow::End };
        let mut properties = PropertiesBuf::new();
        let mut fits = exchanging.put_outcome(data, &mut properties);
        let auth = Auth { reason, properties: properties.as_properties() };
        let encoder = link.encoder;
        write_packet(io, &mut self.counts, conn, |output| {
            fits = fits && encoder.auth(&auth, output).is_ok();
        });
        if fits {
            return Flow::Next;
        }
        // What the method has to say exceeds what the client takes.
        self.lost(io, conn, None, "its authentication exceeds its Maximum Packet Size");
        io.close(conn, Close::AfterFlush);
        Flow::End
    }

    /// Ends an authentication before CONNACK.
    fn break_off(
        &mut self,
        io: &mut Io<'_, D>,
        conn: ConnId,
        reason: ReasonCode,
        why: &str,
    ) -> Flow {
        let Some(link) = self.links.get(conn) else { return Flow::End };
        let client = link.exchanging.as_ref().map(|exchanging| exchanging.client.clone());
        let (encoder, client) = (link.encoder, client.unwrap_or_default());
        let properties = reason_string(why);
        let properties = properties.as_properties();
        let refused = Refused { encoder, client: &client, reason, properties };
        self.counts.fault(reason);
        self.refuse_connect_with(io, conn, &refused, why)
    }

    /// A client that is connected has not shown who it is.
    //= MQTT5-4.12.1-2
    fn send_away(&mut self, io: &mut Io<'_, D>, conn: ConnId, refusal: &Refusal) -> Flow {
        let reason = match refusal {
            Refusal::Unavailable => ReasonCode::ServerBusy,
            Refusal::UseAnotherServer(_) | Refusal::ServerMoved(_) => refusal.reason(),
            // DISCONNECT has no other words for these.
            Refusal::BadUserNameOrPassword
            | Refusal::NotAuthorized
            | Refusal::Banned
            | Refusal::BadMethod => ReasonCode::NotAuthorized,
        };
        let mut properties = PropertiesBuf::new();
        refusal.put_server(&mut properties);
        let disconnect = Disconnect { reason, properties: properties.as_properties() };
        self.dismiss_with(io, conn, &disconnect, "it has failed to authenticate again");
        Flow::End
    }
}

impl Exchanging {
    /// Method and data, for AUTH and CONNACK. False: the data is too long for MQTT.
    //= MQTT5-4.12.0-5
    fn put_outcome(&self, data: &[u8], properties: &mut PropertiesBuf) -> bool {
        let named = properties.push(Property::AuthMethod(&self.method)).is_ok();
        named && (data.is_empty() || properties.push(Property::AuthData(data)).is_ok())
    }

    /// What CONNACK says of it.
    pub(super) fn put_last_word(&self, properties: &mut PropertiesBuf) {
        if !self.put_outcome(&self.last_word, properties) {
            tracing::warn!(method = &*self.method, "the last word of a method is too long");
        }
    }
}

impl std::fmt::Debug for Exchanging {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Exchanging").field("method", &self.method).finish_non_exhaustive()
    }
}

fn method_of(properties: Properties<'_>) -> Option<&str> {
    match properties.find(PropertyId::AuthMethod) {
        Some(Property::AuthMethod(method)) => Some(method),
        _ => None,
    }
}

fn data_of(properties: Properties<'_>) -> Option<&[u8]> {
    match properties.find(PropertyId::AuthData) {
        Some(Property::AuthData(data)) => Some(data),
        _ => None,
    }
}
