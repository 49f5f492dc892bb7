//! The end of a connection, and what it means for its session.
//!
//! Assumes: a session is taken down once, by whatever ends its connection first; what comes later
//! for that connection finds it leaving. So a late end of an old connection never touches the one
//! that took its session over.

use zzq_codec::Disconnect;
use zzq_engine::record::{SessionDown, SessionEnd};
use zzq_engine::{QueueNumber, Record, SessionNumber};
use zzq_lanes::{CloseReason, ConnId};
use zzq_types::{PropertiesBuf, Property, ReasonCode};
use zzq_wal::disk::Disk;

use super::answers::Answer;
use super::journal::How;
use super::link::Phase;
use super::{Flow, Io, Shell};
use crate::hooks::{Event, Refusal};
use crate::options::Redirect;

/// What a session's lane has to record when its connection is gone.
#[derive(Clone, Copy, Debug)]
pub(super) struct Farewell {
    session: SessionNumber,
    /// Its connection, if that is closed when all of it is committed.
    closes: Option<ConnId>,
    sent: QueueNumber,
    drop_will: bool,
    expiry_s: Option<u32>,
    logged: bool,
    next: Next,
    /// It ends with its connection.
    ends: bool,
}

/// How a connection ends for its session.
#[derive(Clone, Copy, Debug)]
struct Leave {
    drop_will: bool,
    expiry_s: Option<u32>,
    /// The connection is closed behind it.
    closes: bool,
}

/// What is to be recorded next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Down,
    End,
}

impl<D: Disk> Shell<D> {
    /// DISCONNECT from a client.
    //= MQTT311-3.1.2-10
    //= MQTT311-3.14.4-3
    //= MQTT5-3.1.2-10
    //= MQTT5-3.14.4-1
    //= MQTT5-3.14.4-3
    pub(super) fn disconnect(
        &mut self,
        io: &mut Io<'_, D>,
        conn: ConnId,
        disconnect: &Disconnect<'_>,
    ) -> Flow {
        let Some(link) = self.links.up_mut(conn) else { return Flow::End };
        let mut expiry_s = None;
        for property in disconnect.properties {
            if let Property::SessionExpiry(seconds) = property {
                expiry_s = Some(seconds.min(self.shared.options.limits.max_session_expiry));
            }
        }
        if link.expiry_s == 0 && expiry_s.is_some_and(|seconds| seconds > 0) {
            let why = "a session that ends with its connection cannot be kept at DISCONNECT";
            return self.refuse(io, conn, ReasonCode::ProtocolError, why);
        }
        tracing::info!(
            peer = %link.peer,
            client = %link.client,
            reason = %disconnect.reason,
            "client disconnects"
        );
        let drop_will =
            disconnect.reason != ReasonCode::DisconnectWithWill && !disconnect.reason.is_failure();
        let (reason, why) = (Some(disconnect.reason), "it disconnected".into());
        self.tell(conn, |client| Event::Disconnected { client, reason, why });
        let leave = Leave { drop_will, expiry_s, closes: true };
        self.go_down(io, conn, leave);
        Flow::End
    }

    /// The broker stops: its clients are told, and where to go.
    pub(super) fn send_on(&mut self, io: &mut Io<'_, D>, conn: ConnId) {
        let elsewhere = self.elsewhere();
        let mut properties = PropertiesBuf::new();
        if let Some(elsewhere) = &elsewhere {
            elsewhere.put_server(&mut properties);
        }
        let reason = elsewhere.map_or(ReasonCode::ServerShuttingDown, |other| other.reason());
        let disconnect = Disconnect { reason, properties: properties.as_properties() };
        self.dismiss_with(io, conn, &disconnect, "the broker stops");
    }

    /// The server that clients are to use when this one stops.
    pub(super) fn elsewhere(&self) -> Option<Refusal> {
        let Redirect { server, moved } = self.shared.options.redirect.as_ref()?;
        let server = server.as_str().into();
        Some(if *moved { Refusal::ServerMoved(server) } else { Refusal::UseAnotherServer(server) })
    }

    /// The connection is gone, or will be: its session is down, its will waits.
    //= MQTT311-3.1.2-8
    //= MQTT5-3.1.2-8
    pub(super) fn lost(
        &mut self,
        io: &mut Io<'_, D>,
        conn: ConnId,
        reason: Option<ReasonCode>,
        why: &str,
    ) {
        let Some(link) = self.links.get(conn) else { return };
        match link.phase {
            Phase::Leaving => {}
            Phase::New | Phase::Authenticating => {
                tracing::debug!(peer = %link.peer, why, "connection closed before CONNECT");
                if let Some(link) = self.links.get_mut(conn) {
                    link.phase = Phase::Leaving;
                }
            }
            phase @ (Phase::Opening | Phase::Up) => {
                tracing::info!(peer = %link.peer, client = %link.client, why, "client is gone");
                if phase == Phase::Up {
                    let why = || why.into();
                    self.tell(conn, |client| Event::Disconnected { client, reason, why: why() });
                }
                let leave = Leave { drop_will: false, expiry_s: None, closes: false };
                self.go_down(io, conn, leave);
            }
        }
    }

    fn go_down(&mut self, io: &mut Io<'_, D>, conn: ConnId, leave: Leave) {
        let Leave { drop_will, expiry_s, closes } = leave;
        self.hand_over_receipts_of(io, conn);
        self.drop_held(conn);
        self.receiving.forget(conn);
        let Some(link) = self.links.get_mut(conn) else { return };
        let sent = link.out.get().map_or(QueueNumber::ZERO, |out| out.numbers.highest_sent());
        let was_up = link.phase == Phase::Up;
        link.phase = Phase::Leaving;
        let Some(session) = link.session else { return };
        let farewell = Farewell {
            session,
            closes: closes.then_some(conn),
            sent,
            drop_will,
            expiry_s,
            logged: link.logged,
            next: Next::Down,
            ends: expiry_s.unwrap_or(link.expiry_s) == 0,
        };
        // A new session whose record has no place yet is not in State: as long as that is so, who
        // comes next has to wait for it by its name.
        let is_known = self.state.session(session).is_some();
        if is_known && self.opening.get(&*link.client) == Some(&conn) {
            self.opening.remove(&*link.client);
        }
        if was_up {
            let removed = self.up.remove(&session);
            assert_eq!(removed, Some(conn), "a session that is up has this connection");
            self.lagging.forget(session);
            if self.state.session(session).is_some_and(zzq_engine::Session::is_volatile) {
                self.ending.insert(session);
            }
        }
        self.farewells.push(farewell);
        self.say_farewells(io);
    }

    /// Records what was not recorded yet. They free more than they take, so the log has room for
    /// them when it has for nothing else.
    pub(super) fn say_farewells(&mut self, io: &mut Io<'_, D>) {
        let farewells = std::mem::take(&mut self.farewells);
        for mut farewell in farewells {
            let is_said = self.say(io, &mut farewell);
            if (is_said || self.journal.is_read_only())
                && let Some(conn) = farewell.closes.take()
            {
                // Who waits for the end of the connection can rely on what DISCONNECT said.
                self.answer(io, Answer::Close { conn });
            }
            if !is_said {
                self.farewells.push(farewell);
            }
        }
    }

    fn say(&mut self, io: &mut Io<'_, D>, farewell: &mut Farewell) -> bool {
        let Farewell { session, sent, drop_will, expiry_s, logged, ends, .. } = *farewell;
        let how = How { waits: true, lanes: self.bit(), frees: true };
        if farewell.next == Next::Down {
            let down = SessionDown { session, sent, drop_will, expiry_s };
            if !self.put(io, &Record::SessionDown(down), logged, how) {
                return false;
            }
            self.note_last(session, logged);
            farewell.next = Next::End;
        }
        if ends {
            let end = SessionEnd { session, forget: false };
            if !self.put(io, &Record::SessionEnd(end), logged, how) {
                return false;
            }
            self.note_last(session, logged);
        } else {
            self.forget_cached(session);
            self.announce_flags(io, session);
        }
        true
    }

    /// Another CONNECT of the client waits until this record is committed.
    fn note_last(&mut self, session: SessionNumber, logged: bool) {
        if logged && self.journal.is_log() {
            self.overlay.noted(session, self.journal.handed());
        }
    }
}

/// In words, for the log line of a connection that the lane closed.
pub(super) fn cause(why: CloseReason) -> String {
    match why {
        CloseReason::Local => "closed".into(),
        CloseReason::Ended => "the peer closed it".into(),
        CloseReason::Failed(kind) => format!("the network failed: {kind}"),
        CloseReason::InputOverdue => "others waited for its room: --max-input-total".into(),
        CloseReason::InputTooLarge => "more input than a packet may have".into(),
        CloseReason::LingerExpired => "the peer did not take the last output in time".into(),
        CloseReason::Stopped => "the broker stops".into(),
    }
}
