//! From the history to the ledger, one event after the other.

use std::collections::BTreeMap;

use zzq_codec::AckKind;
use zzq_types::{ProtocolVersion, QoS, ReasonCode};

use super::{At, ConnFacts, Ledger, MessageFacts, SessionFacts, SubFacts};
use crate::guard::denies_all;
use crate::history::{ClientId, Conn, Ending, Event, Hello, History};
use crate::log_time::LogTime;

/// What is of use only while the ledger is made.
#[derive(Default)]
struct Open {
    /// The latest session of each client, and the CONNECT that said last that it is there.
    sessions: BTreeMap<ClientId, (usize, At)>,
    /// UNSUBSCRIBEs that were not answered.
    unsubscribes: BTreeMap<(Conn, u16), At>,
    /// The last phase has come to its first message.
    is_probed: bool,
    /// What a log may have of each client that would need it again.
    kept: BTreeMap<ClientId, Kept>,
    /// When the broker ended a session of a client for its full queue.
    ended: BTreeMap<ClientId, At>,
}

/// What a log may have of a client whose next CONNECT wants none.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kept {
    /// A session, or a will.
    Session,
    /// The record of a CONNECT that has ended such a session: that connection's end is one, too.
    End,
}

/// Whether what happens to the session of such a CONNECT is in the log.
const fn is_logged(hello: &Hello) -> bool {
    hello.expiry_s > 0 || hello.will.is_some()
}

impl<'h> Ledger<'h> {
    /// The ledger of a history.
    pub fn of(history: &'h History) -> Self {
        let mut ledger = Self {
            history,
            conns: BTreeMap::new(),
            sessions: Vec::new(),
            messages: vec![MessageFacts::default(); history.messages.len()],
            starts: Vec::new(),
            deaths: Vec::new(),
            stops: Vec::new(),
            failures: Vec::new(),
            space: Vec::new(),
            ended_full: Vec::new(),
            healed: None,
            rests: Vec::new(),
            dropped: 0,
            cut_short: false,
            time: LogTime::of(history),
        };
        let mut open = Open::default();
        for (at, entry) in history.entries.iter().enumerate() {
            ledger.take(at, &entry.event, &mut open);
        }
        ledger
    }

    fn take(&mut self, at: At, event: &Event, open: &mut Open) {
        match event {
            Event::Started { .. } => self.starts.push(at),
            Event::Died { .. } => self.died(at),
            Event::ToldToStop => self.stops.push(at),
            Event::ReadOnly => self.read_only(at),
            Event::Space { full } => self.space.push((at, *full)),
            Event::Dropped { messages } => self.dropped += messages,
            Event::EndedFull { client, .. } => {
                self.ended_full.push((at, *client));
                open.ended.insert(*client, at);
                if let Some((session, _)) = open.sessions.get(client) {
                    self.sessions[*session].doubtful.get_or_insert(at);
                }
            }
            Event::AtRest => self.rests.push(at),
            Event::Healed => self.healed = Some(at),
            Event::NotStarted { .. } | Event::Endless | Event::Unsettled { .. } => {
                self.cut_short = true;
            }
            Event::Dialed { conn, client, hello } => self.dialed(at, *conn, *client, *hello, open),
            Event::Accepted { conn, present } => self.accepted(at, *conn, *present, open),
            Event::Refused { conn, reason } => {
                self.change(*conn, |facts| facts.refused = Some((at, *reason)));
            }
            Event::Dismissed { conn, .. } => {
                self.change(*conn, |facts| _ = facts.dismissed.get_or_insert(at));
            }
            Event::Cut { conn } => self.change(*conn, |facts| _ = facts.cut.get_or_insert(at)),
            Event::Stalled { conn } => self.change(*conn, |facts| facts.stalled = true),
            Event::Ended { conn, how } => self.ended(at, *conn, *how),
            Event::Left { conn, keeps_will } => {
                self.change(*conn, |facts| facts.left = Some((at, *keeps_will)));
            }
            Event::Subscribed { conn, request, filter, options } => {
                let sub = SubFacts {
                    filter: filter.clone(),
                    options: *options,
                    sent: at,
                    conn: *conn,
                    request: *request,
                    acked: None,
                    granted: None,
                    refused: false,
                    leaves: None,
                    left: None,
                    given_up: None,
                };
                self.leave(at, *conn, filter);
                if sub.group().is_some() {
                    // Others of its group may be in the log, and the past is.
                    self.needs_log(at, *conn, open);
                }
                self.session_of(*conn, |session| session.subs.push(sub));
            }
            Event::SubAcked { conn, request, filter, reason } => {
                self.sub_acked(at, *conn, *request, filter, *reason);
            }
            Event::Unsubscribed { conn, request, filter } => {
                self.leave(at, *conn, filter);
                self.give_up(at, *conn, filter);
                open.unsubscribes.insert((*conn, *request), at);
            }
            Event::UnsubAcked { conn, request, filter } => {
                if let Some(asked) = open.unsubscribes.remove(&(*conn, *request)) {
                    self.gone(at, *conn, filter, asked);
                }
            }
            Event::Published { conn, message, .. } => {
                if self.message(*message).is_probe && !open.is_probed {
                    open.is_probed = true;
                    self.rests.push(at);
                }
                let one = self.message(*message);
                let is_record = one.qos.is_acknowledged() || one.retain;
                if is_record || self.history.logs_everything {
                    self.publishes_to_log(at, *conn);
                }
                let facts = &mut self.messages[message.0 as usize];
                facts.sent.get_or_insert(at);
                facts.sent_last = Some(at);
                facts.conn.get_or_insert(*conn);
            }
            Event::Answered {
                message, kind: AckKind::PubAck | AckKind::PubRec, reason, ..
            } => {
                // Nothing is owed of what nobody may have.
                let is_denied = denies_all(&self.message(*message).topic);
                let facts = &mut self.messages[message.0 as usize];
                if reason.is_failure() {
                    facts.refused = Some(at);
                } else if !is_denied {
                    facts.acked.get_or_insert(at);
                }
            }
            Event::Received { conn, received } => {
                let one = (at, *conn, received.clone());
                self.session_of(*conn, |session| session.received.push(one));
            }
            _ => {}
        }
    }

    fn change(&mut self, conn: Conn, change: impl FnOnce(&mut ConnFacts)) {
        if let Some(facts) = self.conns.get_mut(&conn) {
            change(facts);
        }
    }

    fn session_of(&mut self, conn: Conn, change: impl FnOnce(&mut SessionFacts)) {
        if let Some(session) = self.conns.get(&conn).and_then(|facts| facts.session) {
            change(&mut self.sessions[session]);
        }
    }

    /// A session that ends with its connection has ended for certain; what else was promised holds.
    /// Without a log all have.
    fn died(&mut self, at: At) {
        self.deaths.push(at);
        if self.history.in_memory {
            for session in &mut self.sessions {
                session.doubtful.get_or_insert(at);
            }
        }
        let open = self.conns.values_mut().filter(|facts| facts.ended.is_none());
        for facts in open {
            facts.died.get_or_insert(at);
        }
    }

    /// What is told to the broker from here on is found by no later start. Nor is what those tell
    /// it who come later and need the log, for as long as it lives. All else is served.
    fn read_only(&mut self, at: At) {
        self.failures.push(at);
        for facts in self.conns.values_mut().filter(|facts| facts.ended.is_none()) {
            facts.unlogged.get_or_insert(at);
        }
    }

    /// The failure of the log that the broker has not been started again behind.
    fn failed(&self) -> Option<At> {
        self.failures.last().copied().filter(|at| self.deaths.last() < Some(at))
    }

    /// A connection asks for what the log has to hold, and so do those to come of its client.
    fn needs_log(&mut self, at: At, conn: Conn, open: &mut Open) {
        self.publishes_to_log(at, conn);
        if let Some(facts) = self.conns.get(&conn) {
            open.kept.insert(facts.client, Kept::Session);
        }
    }

    /// A connection hands the log something that leaves nothing to it.
    fn publishes_to_log(&mut self, at: At, conn: Conn) {
        if self.failed().is_some() {
            self.change(conn, |facts| _ = facts.unlogged.get_or_insert(at));
        }
    }

    fn dialed(&mut self, at: At, conn: Conn, client: ClientId, hello: Hello, open: &mut Open) {
        let needs_log = is_logged(&hello) || open.kept.contains_key(&client);
        if is_logged(&hello) {
            open.kept.insert(client, Kept::Session);
        }
        let facts = ConnFacts {
            client,
            hello,
            dialed: at,
            accepted: None,
            refused: None,
            cut: None,
            stalled: false,
            ended: None,
            left: None,
            dismissed: None,
            died: None,
            unlogged: self.failed().filter(|_| needs_log).map(|_| at),
            session: None,
        };
        self.conns.insert(conn, facts);
        if let Some((will, _)) = hello.will {
            let facts = &mut self.messages[will.0 as usize];
            (facts.sent, facts.sent_last, facts.conn) = (Some(at), Some(at), Some(conn));
        }
        // It may be carried out from here on: a clean start ends the session, and one that is to
        // end with its connection may do so at any time.
        if (hello.clean || hello.expiry_s != u32::MAX)
            && let Some((session, _)) = open.sessions.get(&client)
        {
            self.sessions[*session].doubtful.get_or_insert(at);
        }
    }

    fn accepted(&mut self, at: At, conn: Conn, present: Option<bool>, open: &mut Open) {
        let Some(facts) = self.conns.get_mut(&conn) else { return };
        let (client, hello, dialed) = (facts.client, facts.hello, facts.dialed);
        facts.accepted = Some((at, present));
        if hello.clean && !is_logged(&hello) {
            match open.kept.remove(&client) {
                Some(Kept::Session) => _ = open.kept.insert(client, Kept::End),
                Some(Kept::End) | None => {}
            }
        }
        let goes_on = match present {
            Some(present) => present,
            None => !hello.clean && hello.version == ProtocolVersion::V31,
        };
        let known = open.sessions.get(&client).filter(|_| goes_on && !hello.clean);
        let known = known.filter(|(_, said)| !self.is_forgotten(*said, dialed));
        let session = if let Some((session, _)) = known {
            *session
        } else {
            self.sessions.push(SessionFacts {
                client,
                began: dialed,
                doubtful: None,
                subs: Vec::new(),
                received: Vec::new(),
            });
            self.sessions.len() - 1
        };
        open.sessions.insert(client, (session, dialed));
        // The client has heard that it is there; from now on it lives as this CONNECT says. What
        // ended it meanwhile came behind that, or was taken back by a crash.
        let is_ended = open.ended.get(&client).is_some_and(|ended| *ended > dialed);
        let may_end = hello.expiry_s != u32::MAX || is_ended || self.is_forgotten(dialed, at);
        self.sessions[session].doubtful = may_end.then_some(at);
        self.change(conn, |facts| facts.session = Some(session));
    }

    fn ended(&mut self, at: At, conn: Conn, how: Ending) {
        self.change(conn, |facts| _ = facts.ended.get_or_insert((at, how)));
    }

    /// Subscriptions of this filter may be gone from here on.
    fn leave(&mut self, at: At, conn: Conn, filter: &str) {
        self.session_of(conn, |session| {
            for sub in session.subs.iter_mut().filter(|sub| sub.filter == filter) {
                sub.leaves.get_or_insert(at);
            }
        });
    }

    fn give_up(&mut self, at: At, conn: Conn, filter: &str) {
        self.session_of(conn, |session| {
            for sub in session.subs.iter_mut().filter(|sub| sub.filter == filter) {
                sub.given_up.get_or_insert(at);
            }
        });
    }

    /// Subscriptions of this filter that were asked for before `asked` are gone for certain.
    fn gone(&mut self, at: At, conn: Conn, filter: &str, asked: At) {
        self.session_of(conn, |session| {
            let gone = session.subs.iter_mut().filter(|sub| sub.filter == filter);
            for sub in gone.filter(|sub| sub.sent < asked && sub.left.is_none()) {
                sub.left = Some(at);
            }
        });
    }

    /// One that is answered before an earlier one of the same filter has replaced it all the same:
    /// requests are carried out in their order.
    fn sub_acked(&mut self, at: At, conn: Conn, request: u16, filter: &str, reason: ReasonCode) {
        let mut replaced = None;
        self.session_of(conn, |session| {
            let mut asked = session.subs.iter_mut().filter(|sub| {
                let is_open = sub.acked.is_none() && !sub.refused;
                is_open && (sub.conn, sub.request) == (conn, request) && sub.filter == *filter
            });
            let Some(sub) = asked.next() else { return };
            if reason.is_failure() {
                sub.refused = true;
                sub.left = Some(at);
            } else {
                sub.acked = Some(at);
                sub.granted = granted(reason);
                replaced = Some(sub.sent);
            }
        });
        if let Some(sent) = replaced {
            self.gone(at, conn, filter, sent);
        }
    }
}

fn granted(reason: ReasonCode) -> Option<QoS> {
    match reason {
        ReasonCode::Success => Some(QoS::AtMostOnce),
        ReasonCode::GrantedQoS1 => Some(QoS::AtLeastOnce),
        ReasonCode::GrantedQoS2 => Some(QoS::ExactlyOnce),
        _ => None,
    }
}
