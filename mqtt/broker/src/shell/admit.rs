//! Who may connect: what the hooks say to a CONNECT, before it changes anything.
//!
//! Assumes: a CONNECT that waits for an answer is offered again as it was.

use std::sync::Arc;

use zzq_codec::{Connect, Encoder};
use zzq_lanes::ConnId;
use zzq_types::{PropertiesBuf, ReasonCode};
use zzq_wal::disk::Disk;

use super::questions::{Publishable, Question};
use super::{Flow, Io, Shell};
use crate::hooks::{
    Client, Identity, Login, NoAnswer, Peer, Permit, Publishing, Refusal, Transport, Verdict,
};

impl<D: Disk> Shell<D> {
    /// Asks whether a client may connect. `Err`: it may not, or its CONNECT waits.
    //= MQTT5-3.1.4-2
    pub(super) fn admit(
        &mut self,
        io: &mut Io<'_, D>,
        conn: ConnId,
        connect: &Connect<'_>,
        client: &str,
    ) -> Result<(), Flow> {
        if !self.shared.hooks.names_clients() {
            return Ok(());
        }
        if self.links.get(conn).is_some_and(|link| link.who.is_none()) {
            let verdict = match self.verdict(io, conn, connect) {
                Ok(Some(verdict)) => verdict,
                Ok(None) => return Err(self.await_answer(io, conn)),
                Err(NoAnswer) => {
                    self.counts.unanswered += 1;
                    Verdict::Refuse(Refusal::Unavailable)
                }
            };
            match verdict {
                Verdict::Admit(identity) => self.name(io, conn, connect, client, identity),
                Verdict::Refuse(refusal) => {
                    return Err(self.turn_away(io, conn, connect, &refusal));
                }
            }
        }
        self.admit_will(io, conn, connect)
    }

    fn verdict(
        &mut self,
        io: &Io<'_, D>,
        conn: ConnId,
        connect: &Connect<'_>,
    ) -> Result<Option<Verdict>, NoAnswer> {
        let Some(authenticator) = self.shared.hooks.authenticator.clone() else {
            return Ok(Some(Verdict::Admit(Identity::default())));
        };
        let Some(link) = self.links.get_mut(conn) else { return Ok(None) };
        let pending = match std::mem::take(&mut link.question) {
            Question::Login(mut pending) => match pending.poll(io.now())? {
                Some(verdict) => return Ok(Some(verdict)),
                None => pending,
            },
            Question::Nothing
            | Question::Step(_)
            | Question::Subscribe(_)
            | Question::MaySubscribe(_) => {
                let peer = self.peer(io, conn);
                let answer = authenticator.authenticate(&login(connect, &peer));
                match self.settle_answer(io, conn, answer) {
                    Ok(verdict) => return Ok(Some(verdict)),
                    Err(pending) => pending,
                }
            }
        };
        if let Some(link) = self.links.get_mut(conn) {
            link.question = Question::Login(pending);
        }
        Ok(None)
    }

    /// A will is a publish that is asked for now: nobody may be there to ask when it is due.
    fn admit_will(
        &mut self,
        io: &mut Io<'_, D>,
        conn: ConnId,
        connect: &Connect<'_>,
    ) -> Result<(), Flow> {
        let Some(will) = connect.will else { return Ok(()) };
        let (topic, qos, retain) = (will.topic.as_str(), will.qos, will.retain);
        let publishing = Publishing { topic, qos, retain, is_will: true };
        let refusal = match self.may_publish(io, conn, &publishing) {
            None => return Err(self.await_answer(io, conn)),
            Some(Ok(Permit::Allow)) => {
                if let Some(link) = self.links.get_mut(conn) {
                    link.publishable = Publishable::Yes;
                }
                return Ok(());
            }
            Some(Ok(Permit::Deny | Permit::Disconnect)) => Refusal::NotAuthorized,
            Some(Err(NoAnswer)) => Refusal::Unavailable,
        };
        Err(self.turn_away(io, conn, connect, &refusal))
    }

    /// From here on the connection has somebody at its other end.
    pub(super) fn name(
        &mut self,
        io: &Io<'_, D>,
        conn: ConnId,
        connect: &Connect<'_>,
        client: &str,
        identity: Identity,
    ) {
        let peer = self.peer(io, conn);
        let user = identity.user.or_else(|| connect.user_name.map(Into::into));
        let (version, data) = (connect.version, identity.data);
        let who = Arc::new(Client { id: client.into(), user, version, peer, data });
        if let Some(link) = self.links.get_mut(conn) {
            link.who = Some(who);
        }
    }

    /// Refuses a CONNECT in the words of a hook.
    pub(super) fn turn_away(
        &mut self,
        io: &mut Io<'_, D>,
        conn: ConnId,
        connect: &Connect<'_>,
        refusal: &Refusal,
    ) -> Flow {
        let encoder = Encoder::for_client(connect);
        let mut properties = PropertiesBuf::new();
        if encoder.version.is_v5() {
            refusal.put_server(&mut properties);
        }
        let reason = match refusal.reason() {
            // MQTT 3 knows of no other server.
            ReasonCode::UseAnotherServer | ReasonCode::ServerMoved if !encoder.version.is_v5() => {
                ReasonCode::ServerUnavailable
            }
            reason => reason,
        };
        let refused = super::packets::Refused {
            encoder,
            client: connect.client_id,
            reason,
            properties: properties.as_properties(),
        };
        self.refuse_connect_with(io, conn, &refused, "by its authenticator or authoriser")
    }

    /// Where a connection comes from.
    pub(super) fn peer(&self, io: &Io<'_, D>, conn: ConnId) -> Peer {
        let info = io.peer(conn);
        let tls = info.and_then(|info| info.tls.as_deref());
        let unspecified = || ([0, 0, 0, 0], 0).into();
        let listener = self.shared.listener(info.map_or(0, |info| info.tag));
        Peer {
            addr: info.map_or_else(unspecified, |info| info.addr),
            transport: transport(&listener, tls.is_some()),
            listener,
            certificate: tls.and_then(|tls| tls.certificates.first()).map(|der| der[..].into()),
            server_name: tls.and_then(|tls| tls.server_name.as_deref()).map(Into::into),
        }
    }
}

/// By what connections come to an endpoint.
fn transport(endpoint: &str, over_tls: bool) -> Transport {
    let scheme = endpoint.split_once("://").map_or("", |(scheme, _)| scheme);
    match (["ws", "wss"].iter().any(|web| scheme.eq_ignore_ascii_case(web)), over_tls) {
        (false, false) => Transport::Tcp,
        (false, true) => Transport::Tls,
        (true, false) => Transport::WebSocket,
        (true, true) => Transport::WebSocketTls,
    }
}

/// What a CONNECT says about its client.
pub(super) fn login<'a>(connect: &Connect<'a>, peer: &'a Peer) -> Login<'a> {
    Login {
        client_id: connect.client_id,
        user: connect.user_name,
        password: connect.password,
        version: connect.version,
        clean_start: connect.clean_start,
        peer,
        again: None,
    }
}
