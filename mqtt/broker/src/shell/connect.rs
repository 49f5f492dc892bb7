//! CONNECT: to the session's lane, past what may refuse it, over the old connection, into the log.
//!
//! Assumes: a client's session and all its connections are on one lane, so that a takeover happens
//! in one place.

use std::borrow::Cow;

use zzq_codec::{Connect, Disconnect, Encoder, Limits as PacketLimits, Will};
use zzq_engine::record::{Connect as ConnectRecord, WillMessage};
use zzq_engine::{Record, Session, SessionNumber, Shard};
use zzq_lanes::{ConnId, Excess, LaneIndex};
use zzq_types::{PropertiesBuf, Property, ProtocolVersion, ReasonCode};
use zzq_wal::disk::Disk;

use super::alias::Given;
use super::answers::Answer;
use super::connack::conn_ack;
use super::journal::How;
use super::link::{Out, Phase};
use super::notes::Carried;
use super::packet_out::write_packet;
use super::questions::Publishable;
use super::rates::Rates;
use super::why::{Denied, reason_string};
use super::{Flow, Io, SILENCE, Shell};
use crate::hooks::Event;
use crate::options::Limits;
use crate::planted::{self, Bug};

/// The shortest CONNACK of MQTT 5, and the longest of what every client has to take: an
/// acknowledgement with a reason.
const LEAST_PACKET: u32 = 5;

/// What a CONNECT asks for, as far as it is granted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms {
    pub(super) expiry_s: u32,
    window: u16,
    pub(super) keep_alive: u16,
    /// Topic aliases that the client may be given.
    aliases: u16,
    /// Named in CONNACK because they differ from what was asked for.
    pub(super) tell_expiry: bool,
    pub(super) tell_keep_alive: bool,
}

impl<D: Disk> Shell<D> {
    //= MQTT311-7.0.0-2
    pub(super) fn connect(
        &mut self,
        io: &mut Io<'_, D>,
        conn: ConnId,
        connect: &Connect<'_>,
    ) -> Flow {
        if self.stopping
            && let Some(elsewhere) = self.elsewhere()
        {
            return self.turn_away(io, conn, connect, &elsewhere);
        }
        let unwanted = io.excess(conn).map(beyond).or_else(|| self.unacceptable(connect));
        if let Some((reason, why)) = unwanted {
            return self.refuse_connect(io, conn, connect, reason, &why);
        }
        if connect.client_id.is_empty() {
            //= MQTT311-3.1.3-6
            //= MQTT5-3.1.3-6
            //= MQTT5-3.1.3-7
            //= MQTT5-3.2.2-16
            let client = self.made_client_id(conn);
            return self.connect_admitted(io, conn, connect, &client);
        }
        let home = self.home(connect.client_id);
        if home == self.lane {
            return self.connect_admitted(io, conn, connect, connect.client_id);
        }
        self.links.remove(conn);
        io.move_to(home, conn, Carried);
        Flow::Again
    }

    pub(super) fn connect_admitted(
        &mut self,
        io: &mut Io<'_, D>,
        conn: ConnId,
        connect: &Connect<'_>,
        client: &str,
    ) -> Flow {
        let known = self
            .exchange_at_connect(io, conn, connect, client)
            .and_then(|()| self.admit(io, conn, connect, client));
        match known {
            Ok(()) => self.connect_as(io, conn, connect, client),
            Err(flow) => flow,
        }
    }

    /// A client identifier that the broker makes: once for a CONNECT that is offered again.
    fn made_client_id(&mut self, conn: ConnId) -> String {
        let who = self.links.get(conn).and_then(|link| link.who.as_ref());
        if let Some(who) = who {
            return who.id.to_string();
        }
        self.new_client_id()
    }

    /// The lane of a client's session, and of a topic's retained message.
    pub(super) fn home(&self, key: &str) -> LaneIndex {
        let index = Shard::index_of(key.as_bytes(), u32::from(self.lanes));
        LaneIndex(u16::try_from(index).unwrap_or(0))
    }

    /// Why a CONNECT is refused whoever sends it.
    fn unacceptable(&self, connect: &Connect<'_>) -> Option<(ReasonCode, Cow<'static, str>)> {
        let limits = &self.shared.options.limits;
        if self.stopping {
            return Some((ReasonCode::ServerUnavailable, "the broker stops".into()));
        }
        if Encoder::for_client(connect).limits.max_packet < LEAST_PACKET {
            return Some((ReasonCode::PacketTooLarge, "its Maximum Packet Size takes none".into()));
        }
        //= MQTT5-3.1.3-8
        if connect.client_id.len() > limits.max_client_id {
            let most = limits.max_client_id;
            let why = format!("a client identifier has at most {most} bytes: --max-client-id");
            return Some((ReasonCode::ClientIdentifierNotValid, why.into()));
        }
        let will = connect.will.as_ref()?;
        if let Some(denied) = self.unwelcome(will.topic) {
            let why = format!("the topic of its will: {}", denied.why(limits));
            return Some((ReasonCode::TopicNameInvalid, why.into()));
        }
        if self.misrepresents(will.properties, will.payload) {
            let why = format!("its will: {}", Denied::NoText.why(limits));
            return Some((ReasonCode::PayloadFormatInvalid, why.into()));
        }
        //= MQTT5-3.2.2-12
        //= MQTT5-3.2.2-13
        self.not_offered(will.qos, will.retain).map(|(reason, why)| (reason, why.into()))
    }

    /// A client identifier that no session has, of this lane.
    fn new_client_id(&mut self) -> String {
        loop {
            // SplitMix64: unique as long as its state does not repeat.
            self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let mut mixed = self.random;
            mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            let client = format!("zzq-{:016x}", mixed ^ (mixed >> 31));
            if self.home(&client) == self.lane
                && self.state.session_of(&client).is_none()
                && !self.opening.contains_key(client.as_str())
            {
                return client;
            }
        }
    }

    //= MQTT311-3.1.4-3
    //= MQTT5-3.1.4-4
    fn connect_as(
        &mut self,
        io: &mut Io<'_, D>,
        conn: ConnId,
        connect: &Connect<'_>,
        client: &str,
    ) -> Flow {
        let was_unreadable = self.queue_reads.has_failed(conn);
        if self.opening.contains_key(client) {
            return self.park(io, conn);
        }
        let terms = Terms::grant(connect, &self.shared.options.limits);
        let encoder = Encoder::for_client(connect);
        let Some(told) = self.told_at_connect(conn, connect, encoder, terms, client) else {
            let (reason, why) = (
                ReasonCode::PacketTooLarge,
                "what CONNACK has to say is longer \
                than its Maximum Packet Size",
            );
            return self.refuse_connect(io, conn, connect, reason, why);
        };
        let known = self.state.session_of(client);
        let known = known
            .map(|session| (session.number(), session.is_volatile(), session.will().is_some()));
        let ends_logged = known.is_some_and(|(_, volatile, will)| !volatile || will);
        let is_new = known.is_none_or(|(_, volatile, _)| volatile);
        let logged = self.is_logged(terms.expiry_s, connect.will.is_some());
        if let Some((reason, why)) = self.unaffordable(logged, ends_logged, is_new) {
            return self.refuse_connect(io, conn, connect, reason, why);
        }
        if let Some(lack) = self.lacks_place(connect, known.is_none()) {
            self.counts.refused_sessions += 1;
            return self.refuse_connect(io, conn, connect, ReasonCode::QuotaExceeded, lack.why());
        }
        if let Some((number, ..)) = known {
            if !self.take_over(io, number, conn) {
                return self.park(io, conn);
            }
            // Its last record decides whether there is a session to resume.
            if self.overlay.last_record(number).is_some() {
                return self.park(io, conn);
            }
        }
        // A volatile session has ended with its connection.
        let known = known.filter(|(number, ..)| self.state.session(*number).is_some());
        let resumed = known.filter(|(_, volatile, _)| !connect.clean_start && !volatile);
        if let Some((number, ..)) = resumed {
            if was_unreadable {
                let reason = ReasonCode::UnspecifiedError;
                let why = "its messages cannot be read";
                return self.refuse_connect(io, conn, connect, reason, why);
            }
            if self.waits_for_queue(number, conn) {
                return self.park(io, conn);
            }
        }
        let present = resumed.is_some();
        let session = match resumed {
            Some((number, ..)) => number,
            None => self.take_number(),
        };
        let ends_logged = known.is_some_and(|(_, volatile, will)| !volatile || will);
        let record_logged = logged || (self.journal.is_log() && ends_logged);
        let mut will_properties = PropertiesBuf::new();
        let record = Record::Connect(ConnectRecord {
            session,
            client,
            expiry_s: terms.expiry_s,
            window: terms.window,
            joins: None,
            will: connect.will.map(|will| will_message(will, &mut will_properties)),
        });
        let how = How { waits: true, lanes: self.bit(), frees: false };
        if !self.put(io, &record, record_logged, how) {
            return self.park(io, conn);
        }
        if record_logged {
            let handed = self.journal.handed();
            self.overlay.began(session, handed);
            if let Some((old, ..)) = known.filter(|(old, ..)| *old != session) {
                self.overlay.ended(old, handed);
            }
            self.opening.insert(client.into(), conn);
        }
        self.agree(conn, connect, encoder, client, session, record_logged, terms);
        let ack = conn_ack(encoder, present, told.as_properties());
        if let Some(link) = self.links.get_mut(conn) {
            link.phase = Phase::Opening;
            link.staged.get_or_insert_default().conn_ack = ack;
        }
        if record_logged {
            self.gate.push(self.journal.handed(), Answer::Opened { conn });
        } else {
            self.opened(io, conn);
        }
        Flow::Next
    }

    /// Why there is nothing to take a CONNECT with, whose session's records are `logged`, which
    /// ends one whose are, or makes a new one. Asked before it takes anything over: whoever is
    /// refused has cost nobody a connection.
    fn unaffordable(
        &self,
        logged: bool,
        ends_logged: bool,
        is_new: bool,
    ) -> Option<(ReasonCode, &'static str)> {
        let needs_log = logged || self.journal.is_log() && ends_logged;
        if (needs_log || planted::is(Bug::NobodyLetIn)) && self.journal.is_read_only() {
            return Some((ReasonCode::ServerUnavailable, "the log is read-only"));
        }
        let why = "the disk of --data-dir is full, and its session could not be kept";
        let lacks_space = logged && is_new && self.lacks_space_for_sessions();
        lacks_space.then_some((ReasonCode::QuotaExceeded, why))
    }

    /// Whether what happens to such a session while it is up is in the log.
    fn is_logged(&self, expiry_s: u32, has_will: bool) -> bool {
        self.journal.is_log() && (expiry_s > 0 || has_will)
    }

    /// Ends the connection that a session has. False: to be tried again.
    //= MQTT311-3.1.4-2
    //= MQTT5-3.1.4-3
    fn take_over(&mut self, io: &mut Io<'_, D>, session: SessionNumber, by: ConnId) -> bool {
        let Some(&old) = self.up.get(&session) else { return true };
        if !self.journal.has_room() {
            return false;
        }
        let by = io.peer(by).map(|peer| peer.addr.to_string()).unwrap_or_default();
        let why = format!("its client connected again from {by}");
        // From where is the broker's to know.
        let properties = reason_string("its client identifier has connected again");
        let (reason, properties) = (ReasonCode::SessionTakenOver, properties.as_properties());
        self.dismiss_with(io, old, &Disconnect { reason, properties }, &why);
        true
    }

    /// Notes on a link what was agreed.
    #[expect(clippy::too_many_arguments, reason = "all that a CONNECT settles, in one place")]
    fn agree(
        &mut self,
        conn: ConnId,
        connect: &Connect<'_>,
        encoder: Encoder,
        client: &str,
        session: SessionNumber,
        record_logged: bool,
        terms: Terms,
    ) {
        let limits = self.shared.options.limits;
        let Some(link) = self.links.get_mut(conn) else { return };
        link.decoder.connected(connect.version);
        link.decoder.set_limits(PacketLimits { max_packet: limits.max_packet_size });
        link.encoder = encoder;
        link.client = client.into();
        link.session = Some(session);
        link.publishable = Publishable::Unknown;
        link.is_bridge = connect.bridge;
        // What ends it before it is open goes the way of its Connect, behind it.
        link.logged = record_logged;
        link.has_will = connect.will.is_some();
        link.expiry_s = terms.expiry_s;
        link.silence_ms = u64::from(terms.keep_alive) * 1500;
        link.rates = Rates::new(&limits, link.heard).map(Box::new);
        link.client_hash = zzq_engine::key_hash(client.as_bytes());
        link.given = Given::new(terms.aliases, &self.shared.alias_room);
        link.inbound_most =
            if connect.version.is_v5() { u32::from(limits.receive_maximum) } else { u32::MAX };
        link.window = terms.window;
        tracing::info!(
            peer = %link.peer,
            client,
            version = ?connect.version,
            clean_start = connect.clean_start,
            keep_alive = terms.keep_alive,
            user = connect.user_name.unwrap_or(""),
            "client connects"
        );
    }

    /// The session is open and committed: CONNACK, then what waits for the client.
    //= MQTT311-3.2.0-1
    //= MQTT311-3.1.4-4
    //= MQTT5-3.1.4-5
    //= MQTT5-3.2.0-1
    //= MQTT5-3.2.0-2
    pub(super) fn opened(&mut self, io: &mut Io<'_, D>, conn: ConnId) {
        let Some(link) = self.links.get(conn).filter(|link| link.phase == Phase::Opening) else {
            return self.opens_no_more(io, conn);
        };
        let Some(session) = link.session else { return };
        // What the log knows to be picked for it, others would get once more at a start.
        let leaves = || self.state.session(session).is_some_and(Session::leaves_to_groups);
        let logged = self.is_logged(link.expiry_s, link.has_will) || link.logged && leaves();
        let Some(link) = self.links.get_mut(conn) else { return };
        self.counts.connects += 1;
        link.phase = Phase::Up;
        link.since = u32::try_from(self.now_ms >> 4 & u64::from(u32::MAX)).unwrap_or(0);
        link.logged = logged;
        let ack = link.staged.take().map_or_else(Vec::new, |staged| staged.conn_ack);
        self.opening.remove(&*link.client);
        if let Some(known) = self.state.session(session) {
            link.out = Out::new(known.queue().first_open(), link.window);
            link.client = known.client_shared();
        }
        if link.silence_ms > 0 {
            let due = link.heard + std::time::Duration::from_millis(link.silence_ms);
            io.set_timer(conn, SILENCE, due);
        } else {
            io.clear_timer(conn, SILENCE);
        }
        let before = self.up.insert(session, conn);
        assert!(before.is_none(), "a session has one connection");
        write_packet(io, &mut self.counts, conn, |output| output.extend_from_slice(&ack));
        if let Some(load) = self.state.session(session).map(|known| known.queue().load()) {
            self.begins_to_lag(io, session, load);
        }
        self.announce_flags(io, session);
        self.tell(conn, |client| Event::Connected { client });
        io.let_in(conn);
        io.resume(conn);
        self.resume_replays(io, conn, session);
        self.pump_conn(io, conn);
    }

    /// The connection was gone before its session was open, which State knows by now, or never
    /// will: who waits for it goes on.
    pub(super) fn opens_no_more(&mut self, io: &mut Io<'_, D>, conn: ConnId) {
        let before = self.opening.len();
        self.opening.retain(|_, opening| *opening != conn);
        if self.opening.len() < before {
            self.unpark(io);
        }
    }

    /// How a session stands as other lanes route to it.
    pub(super) fn announce_flags(&mut self, io: &mut Io<'_, D>, session: SessionNumber) {
        let (flags, since) = (self.flags_of(session), self.since(session));
        if self.index.flags(session).is_some_and(|known| known != (flags, since)) {
            self.index.set_flags(session, flags, since);
            self.tell_all(io, &|| super::Note::Flags { session, flags, since });
        }
    }

    /// When the connection of a session of this lane came, as lanes tell each other: log time in
    /// 16 ms, of which 32 bits last for two years.
    pub(super) fn since(&self, session: SessionNumber) -> u32 {
        let link = self.up.get(&session).and_then(|conn| self.links.get(*conn));
        link.map_or(0, |link| link.since)
    }

    /// What is now known of a session of this lane.
    pub(super) fn flags_of(&self, session: SessionNumber) -> zzq_engine::SessionFlags {
        use zzq_engine::SessionFlags as F;
        let Some(known) = self.state.session(session) else { return F::NONE };
        let mut flags = F::NONE;
        if self.up.contains_key(&session) {
            flags = flags.with(F::CONNECTED);
        }
        if !known.is_volatile() {
            flags = flags.with(F::PERSISTENT);
        }
        if self.full.has(session) {
            flags = flags.with(F::FULL);
        }
        if self.lagging.has(session) {
            flags = flags.with(F::LAGGING);
        }
        let conn = self.up.get(&session).copied();
        if let Some(conn) = conn.filter(|conn| self.clogged.contains(*conn)) {
            flags = flags.with(F::OVER_HIGH_WATER);
            if self.links.get(conn).is_some_and(|link| link.slow) {
                flags = flags.with(F::SLOW);
            }
        }
        flags
    }
}

impl Terms {
    //= MQTT5-3.1.2-21
    //= MQTT5-3.2.2-22
    fn grant(connect: &Connect<'_>, limits: &Limits) -> Self {
        let mut asked = if connect.version == ProtocolVersion::V5 || connect.clean_start {
            0
        } else {
            //= MQTT311-3.1.2-4
            u32::MAX
        };
        let mut window = if connect.version.is_v5() { u16::MAX } else { limits.max_inflight };
        let mut aliases = 0;
        for property in connect.properties {
            match property {
                Property::SessionExpiry(seconds) => asked = seconds,
                Property::TopicAliasMaximum(most) => aliases = most,
                Property::ReceiveMaximum(most) => window = most,
                _ => {}
            }
        }
        let expiry_s = asked.min(limits.max_session_expiry);
        let too_long = connect.keep_alive == 0 || connect.keep_alive > limits.max_keep_alive;
        let bound = limits.max_keep_alive > 0 && connect.version.is_v5() && too_long;
        Self {
            expiry_s,
            window: window.min(limits.max_inflight).max(1),
            keep_alive: if bound { limits.max_keep_alive } else { connect.keep_alive },
            aliases: aliases.min(limits.topic_alias_maximum),
            tell_expiry: expiry_s != asked,
            tell_keep_alive: bound,
        }
    }
}

/// A will as its record holds it: the delay apart from what is forwarded.
//= MQTT5-3.1.3-10
fn will_message<'a>(will: Will<'a>, forwarded: &'a mut PropertiesBuf) -> WillMessage<'a> {
    let mut delay_s = 0;
    for (property, encoded) in will.properties.iter_encoded() {
        match property {
            Property::WillDelay(seconds) => delay_s = seconds,
            _ => forwarded.push_encoded(encoded),
        }
    }
    WillMessage {
        topic: will.topic,
        qos: will.qos,
        retain: will.retain,
        delay_s,
        properties: forwarded.as_properties(),
        payload: will.payload,
    }
}

/// Why nobody is let in who is beyond a limit of connections.
fn beyond(limit: Excess) -> (ReasonCode, Cow<'static, str>) {
    let why = match limit {
        Excess::All => "there are as many connections as --max-connections allows",
        Excess::EachAddress => "its address has as many as --max-connections-each allows",
    };
    (ReasonCode::QuotaExceeded, why.into())
}

#[cfg(test)]
mod tests {
    use zzq_types::QoS;

    use super::*;

    fn terms(connect: &Connect<'_>, change: impl Fn(&mut Limits)) -> Terms {
        let mut limits = Limits::default();
        change(&mut limits);
        Terms::grant(connect, &limits)
    }

    #[test]
    fn sessions_of_version_3_live_with_their_connection_or_for_ever() {
        let mut connect = Connect::new(ProtocolVersion::V311, "c");
        assert_eq!(terms(&connect, |_| {}).expiry_s, 0);
        connect.clean_start = false;
        assert_eq!(terms(&connect, |_| {}).expiry_s, u32::MAX);
        let bounded = terms(&connect, |limits| limits.max_session_expiry = 60);
        assert_eq!(bounded.expiry_s, 60);
    }

    #[test]
    fn what_differs_from_what_was_asked_for_is_told() {
        //= MQTT5-3.2.2-21
        //= MQTT5-3.2.2-22
        //= MQTT5-3.1.2-21
        let mut properties = PropertiesBuf::new();
        properties.push(Property::SessionExpiry(100)).unwrap();
        properties.push(Property::ReceiveMaximum(7)).unwrap();
        let mut connect = Connect::new(ProtocolVersion::V5, "c");
        connect.properties = properties.as_properties();
        connect.keep_alive = 30;
        let plain = terms(&connect, |_| {});
        assert_eq!((plain.expiry_s, plain.window, plain.keep_alive), (100, 7, 30));
        assert!(!plain.tell_expiry && !plain.tell_keep_alive);
        let bounded = terms(&connect, |limits| {
            limits.max_session_expiry = 60;
            limits.max_keep_alive = 10;
        });
        assert_eq!((bounded.expiry_s, bounded.keep_alive), (60, 10));
        assert!(bounded.tell_expiry && bounded.tell_keep_alive);
    }

    #[test]
    fn the_delay_of_a_will_is_not_forwarded() {
        //= MQTT5-3.1.3-10
        let mut properties = PropertiesBuf::new();
        properties.push(Property::UserProperty("b", "1")).unwrap();
        properties.push(Property::WillDelay(5)).unwrap();
        properties.push(Property::UserProperty("a", "2")).unwrap();
        let mut forwarded = PropertiesBuf::new();
        let will = Will {
            qos: QoS::AtLeastOnce,
            retain: true,
            properties: properties.as_properties(),
            topic: zzq_types::TopicName::new("t").unwrap(),
            payload: b"p",
        };
        let message = will_message(will, &mut forwarded);
        assert_eq!((message.delay_s, message.retain), (5, true));
        let kept = [Property::UserProperty("b", "1"), Property::UserProperty("a", "2")];
        assert!(message.properties.iter().eq(kept));
    }
}
