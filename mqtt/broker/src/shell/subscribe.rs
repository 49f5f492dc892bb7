//! SUBSCRIBE and UNSUBSCRIBE: each filter has its own outcome, all of them one record, and the
//! answer leaves when no lane misses the change.

use std::borrow::Cow;

use zzq_codec::{ReasonCodes, SubAck, Subscribe, Subscription, UnsubAck, Unsubscribe};
use zzq_engine::record::{
    Connect as ConnectRecord, Subscribe as SubscribeRecord, SubscribeItem, SubscribeItemsBuf,
    Unsubscribe as UnsubscribeRecord,
};
use zzq_engine::session::{JUMP, Replay};
use zzq_engine::{QueueNumber, Record, SessionFlags, SessionNumber, SubNumber, Subscriber};
use zzq_lanes::ConnId;
use zzq_types::{
    Filter, Lsn, Properties, Property, ProtocolVersion, QoS, ReasonCode, RetainHandling,
    SubscriptionId,
};
use zzq_wal::disk::Disk;

use super::changes::{News, Taken, Tell, Then};
use super::journal::How;
use super::live::Heard;
use super::packet_out::write_packet;
use super::replay::{Starts, begin};
use super::retained::Wish;
use super::rights::Permits;
use super::why::{Texts, reason_for};
use super::{Flow, Io, Shell};
use crate::hooks::{Event, Permit};
use crate::planted::{self, Bug};
use crate::replay::ask::Start;
use crate::replay::{self, standing};

/// One filter that is granted.
#[derive(Clone, Copy, Debug)]
struct Granted<'a> {
    text: &'a str,
    filter: Filter<'a>,
    number: SubNumber,
    entry: Subscription<'a>,
    is_new: bool,
    /// It starts in the past.
    replay: Option<Replay>,
}

/// Why a filter is not granted.
struct Refusal {
    code: ReasonCode,
    /// What to change; empty where the code says it all.
    why: Cow<'static, str>,
}

impl Refusal {
    fn new(code: ReasonCode, why: impl Into<Cow<'static, str>>) -> Self {
        Self { code, why: why.into() }
    }
}

impl<D: Disk> Shell<D> {
    //= MQTT311-3.8.4-1
    //= MQTT311-3.8.4-4
    //= MQTT5-3.8.4-1
    //= MQTT5-3.8.4-5
    pub(super) fn subscribe(
        &mut self,
        io: &mut Io<'_, D>,
        conn: ConnId,
        subscribe: &Subscribe<'_>,
    ) -> Flow {
        if self.holds_subscriptions_up() {
            return self.park_for_peers(io, conn);
        }
        let from = replay_from(subscribe.properties);
        let permits = match self.may_subscribe(io, conn, subscribe, from) {
            Ok(permits) => permits,
            Err(flow) => return flow,
        };
        if permits.disconnects() {
            return self.refuse(io, conn, ReasonCode::NotAuthorized, "it may not subscribe so");
        }
        let flow = self.subscribe_as(io, conn, subscribe, &permits);
        if flow == Flow::Again {
            self.keep_permits(conn, permits);
        }
        flow
    }

    fn subscribe_as(
        &mut self,
        io: &mut Io<'_, D>,
        conn: ConnId,
        subscribe: &Subscribe<'_>,
        permits: &Permits,
    ) -> Flow {
        let Some(link) = self.links.up_mut(conn) else { return Flow::End };
        let (Some(session), logged) = (link.session, link.logged) else { return Flow::End };
        let (version, is_bridge) = (link.encoder.version, link.is_bridge);
        let id = subscribe.subscription_id();
        let mut codes = Vec::new();
        let mut granted: Vec<Granted<'_>> = Vec::new();
        let mut next = self.next_sub_number(session);
        let from = replay_from(subscribe.properties);
        let mut texts = Texts::default();
        for (at, mut entry) in subscribe.subscriptions.into_iter().enumerate() {
            if is_bridge {
                bridged(&mut entry);
            }
            let asked = permitted(permits.of(at)).and_then(|()| self.asked_replay(entry, from));
            let one = asked.and_then(|asked| {
                let one = self.grant(session, entry, &granted, &mut next)?;
                Ok(self.with_replay(session, one, asked, &mut texts))
            });
            match one {
                Ok(one) => {
                    codes.push(granted_code(one.entry.options.qos));
                    granted.push(one);
                }
                Err(Refusal { code, why }) => {
                    self.tell_refused(conn, code, &why);
                    codes.push(refusal(version, code));
                    texts.add(why);
                }
            }
        }
        //= MQTT311-3.9.3-2
        if version == ProtocolVersion::V31 && codes.iter().any(|code| code.is_failure()) {
            // MQTT 3.1 has no way to refuse a filter.
            let why = format!("a filter is refused: {}", texts.joined());
            return self.refuse(io, conn, ReasonCode::TopicFilterInvalid, &why);
        }
        let logged = logged || self.is_to_be_held(&granted);
        if logged && !self.hold_in_log(io, session) {
            return self.park(io, conn);
        }
        if !granted.is_empty() && !self.record_subscriptions(io, session, logged, &granted, id) {
            return self.park(io, conn);
        }
        let mut wishes = self.take_subscriptions(session, &granted, id);
        let taken = self.taken(session, &granted, id);
        let said = reason_for(io, conn, &texts.joined());
        let packet = self.sub_ack(conn, subscribe, &codes, said.as_properties());
        if granted.is_empty() {
            write_packet(io, &mut self.counts, conn, |output| output.extend_from_slice(&packet));
            return Flow::Next;
        }
        for one in &granted {
            self.hold_members(io, one.filter, self.flags_of(session));
            let (filter, qos) = (|| one.text.into(), one.entry.options.qos);
            self.tell(conn, |client| Event::Subscribed { client, filter: filter(), qos });
        }
        self.live.watch(session);
        if planted::is(Bug::RetainedBeforeFence) {
            self.live.watch(session);
            let wishes = (std::mem::take(&mut wishes), Heard::default());
            self.grant_wishes(io, conn, session, wishes, Vec::new());
        }
        let starts = self.starts_of(session, &granted);
        let then = Then::Acknowledge { conn, session, packet, wishes, starts };
        let joins = granted.iter().any(|one| one.filter.group().is_some());
        let tell = if logged && joins { Tell::Committed } else { Tell::Now };
        self.begin_change(io, tell, News::Subscribed(taken), then);
        Flow::Next
    }

    /// Counts a filter that is refused; the log has a line of one a second.
    fn tell_refused(&mut self, conn: ConnId, code: ReasonCode, why: &str) {
        self.counts.filter_refused(code);
        let Some(link) = self.links.get(conn) else { return };
        if let Some(untold) = self.refused_filters_told.tell(self.now_ms) {
            let (peer, client) = (link.peer, &link.client);
            tracing::info!(%peer, %client, reason = %code, why, untold, "a filter is refused");
        }
    }

    /// Whether a session joins a group whose messages outlive their members: what is picked for it
    /// has to be found again after a crash.
    fn is_to_be_held(&self, granted: &[Granted<'_>]) -> bool {
        let outlives =
            |(_, _, flags): (_, _, SessionFlags)| flags.contains(SessionFlags::PERSISTENT);
        self.journal.is_log()
            && granted.iter().any(|one| self.index.members(one.filter).any(outlives))
    }

    /// A session has joined a group: if it is a persistent one, the log holds the volatile members
    /// of this lane from now on. Without room they stay as they are.
    pub(super) fn hold_members(
        &mut self,
        io: &mut Io<'_, D>,
        filter: Filter<'_>,
        joined: SessionFlags,
    ) {
        if !self.journal.is_log() || !joined.contains(SessionFlags::PERSISTENT) {
            return;
        }
        let own = self.lane.0;
        let members = self.index.members(filter).filter(|(_, lane, _)| *lane == own);
        for (session, ..) in members.collect::<Vec<_>>() {
            self.hold_in_log(io, session);
        }
    }

    /// The log begins to hold a volatile session that is up. False: it has no room.
    fn hold_in_log(&mut self, io: &mut Io<'_, D>, session: SessionNumber) -> bool {
        let Some(&conn) = self.up.get(&session) else { return true };
        let (Some(link), Some(known)) = (self.links.get(conn), self.state.session(session)) else {
            return true;
        };
        if link.logged {
            return true;
        }
        let client = link.client.clone();
        // Behind all that publishes on their way to it can get.
        let joins = QueueNumber::new(known.queue().last().get() + JUMP);
        let record = Record::Connect(ConnectRecord {
            session,
            client: &client,
            expiry_s: 0,
            window: known.window(),
            joins: Some(joins),
            will: None,
        });
        // The groups it is in already, which its messages are left to, and what decides about
        // messages before they get numbers.
        let mut items = SubscribeItemsBuf::new();
        for (filter, sub) in known.subscriptions().iter() {
            let replay = known.replay(sub.number).copied();
            if filter.starts_with("$share/") || replay.is_some() {
                let (number, options, id) = (sub.number, sub.options, sub.id);
                items.push(&SubscribeItem { number, filter, options, id, replay });
            }
        }
        let groups = Record::Subscribe(SubscribeRecord { session, items: items.as_list() });
        let how = How { waits: true, lanes: self.bit(), frees: true };
        if !self.put(io, &record, true, how) {
            return false;
        }
        if !items.is_empty() && !self.put(io, &groups, true, how) {
            return false;
        }
        self.overlay.noted(session, self.journal.handed());
        if let Some(link) = self.links.get_mut(conn) {
            link.logged = true;
        }
        true
    }

    /// A number for the next subscription of a session that it never used.
    fn next_sub_number(&self, session: SessionNumber) -> u32 {
        let link = self.up.get(&session).and_then(|conn| self.links.get(*conn));
        let known = self.state.session(session);
        let in_state = known.map_or(1, |known| known.next_subscription().get());
        link.map_or(in_state, |link| link.next_sub.max(in_state))
    }

    //= MQTT5-3.2.2-10
    //= MQTT5-3.8.4-6
    //= MQTT5-4.8.2-1
    //= MQTT5-4.8.2-2
    fn grant<'a>(
        &self,
        session: SessionNumber,
        mut entry: Subscription<'a>,
        before: &[Granted<'a>],
        next: &mut u32,
    ) -> Result<Granted<'a>, Refusal> {
        let limits = &self.shared.options.limits;
        let filter = self.offered(entry)?;
        entry.options.qos = entry.options.qos.min(limits.max_qos);
        let unknown = || Refusal::new(ReasonCode::UnspecifiedError, "");
        let known = self.state.session(session).ok_or_else(unknown)?;
        let text = entry.text;
        let in_state = known.subscriptions().get(text).map(|sub| sub.number);
        let in_packet = before.iter().find(|one| one.text == text).map(|one| one.number);
        let under_way = self.staged_sub(session, text);
        let exists = self.overlay.has_filter(session, text, in_state.is_some());
        if let Some(number) =
            in_packet.or(under_way).or(in_state).filter(|_| exists || in_packet.is_some())
        {
            return Ok(Granted { text, filter, number, entry, is_new: false, replay: None });
        }
        if known.subscriptions().len() + before.len() >= limits.max_subscriptions {
            let most = limits.max_subscriptions;
            let why = format!("a session has at most {most} filters: --max-subscriptions");
            return Err(Refusal::new(ReasonCode::QuotaExceeded, why));
        }
        if let Some(lack) = self.lacks_session_memory() {
            return Err(Refusal::new(ReasonCode::QuotaExceeded, lack.why()));
        }
        let number = SubNumber::new(*next);
        *next += 1;
        Ok(Granted { text, filter, number, entry, is_new: true, replay: None })
    }

    /// The filter of an entry, if this broker offers such filters to anybody.
    fn offered<'a>(&self, entry: Subscription<'a>) -> Result<Filter<'a>, Refusal> {
        let limits = &self.shared.options.limits;
        let invalid = ReasonCode::TopicFilterInvalid;
        let filter = entry.filter.map_err(|error| Refusal::new(invalid, error.to_string()))?;
        let plain = filter.topic_filter();
        if plain.levels().count() > limits.max_topic_levels {
            let most = limits.max_topic_levels;
            let why = format!("a filter has at most {most} levels: --max-topic-levels");
            return Err(Refusal::new(invalid, why));
        }
        if plain.as_str().len() > limits.max_topic_length {
            let most = limits.max_topic_length;
            let why = format!("a filter has at most {most} bytes: --max-topic-length");
            return Err(Refusal::new(invalid, why));
        }
        //= MQTT311-3.8.3-2
        if !limits.wildcards && plain.has_wildcard() {
            let code = ReasonCode::WildcardSubscriptionsNotSupported;
            return Err(Refusal::new(code, "no filters with wildcards: --no-wildcards"));
        }
        if !limits.shared_subscriptions && filter.group().is_some() {
            let code = ReasonCode::SharedSubscriptionsNotSupported;
            return Err(Refusal::new(code, "no shared subscriptions: --no-shared"));
        }
        Ok(filter)
    }

    /// Where a subscription starts, if that is in the past, and what its client is to be told.
    fn asked_replay(
        &self,
        entry: Subscription<'_>,
        from: Option<&str>,
    ) -> Result<Option<(Replay, Option<String>)>, Refusal> {
        let unable = ReasonCode::ImplementationSpecificError;
        let refuse = |why| Err(Refusal::new(unable, why));
        let asked = match replay::ask::ask(entry.text, from) {
            Ok(None) => return Ok(None),
            Ok(Some(asked)) => asked,
            Err(error) => {
                return Err(Refusal::new(ReasonCode::TopicFilterInvalid, error.to_string()));
            }
        };
        if !self.journal.is_log() {
            return refuse("without a log there is no past: the broker needs --data-dir");
        }
        if matches!(entry.filter, Ok(Filter::Shared { .. })) {
            return refuse("a shared subscription cannot start in the past");
        }
        if entry.options.no_local {
            return refuse("No Local cannot be had with a start in the past");
        }
        let mut begins = begin(&asked, self.now_ms);
        let mut said = None;
        let (oldest, newest) = (self.journal.first_whole(), self.journal.appended_lsn());
        if let Start::Offset(offset) = asked.start {
            if offset < oldest.get() {
                let oldest = oldest.get();
                said =
                    Some(format!("offset {offset} is gone: it starts with {oldest}, the oldest"));
            } else if offset > newest.next().get() {
                let newest = newest.get();
                said = Some(format!("there is no offset {offset} yet: the last is {newest}"));
                begins.next = Lsn::new(newest).next();
            }
        }
        Ok(Some((begins, said)))
    }

    /// A subscription that is granted, and where it starts: one that is there already goes on
    /// unless it is to be begun anew, as Retain Handling says.
    fn with_replay<'a>(
        &self,
        session: SessionNumber,
        one: Granted<'a>,
        asked: Option<(Replay, Option<String>)>,
        texts: &mut Texts,
    ) -> Granted<'a> {
        let Some((begins, said)) = asked else { return one };
        let anew = one.entry.options.retain_handling == RetainHandling::Always;
        if !anew && !one.is_new && self.replay_of(session, Some(one.number)).is_some() {
            return Granted { replay: Some(Replay::GO_ON), ..one };
        }
        texts.add(said.unwrap_or_default().into());
        Granted { replay: Some(begins), ..one }
    }

    fn record_subscriptions(
        &mut self,
        io: &mut Io<'_, D>,
        session: SessionNumber,
        logged: bool,
        granted: &[Granted<'_>],
        id: Option<SubscriptionId>,
    ) -> bool {
        let mut items = SubscribeItemsBuf::new();
        for one in granted {
            let Granted { number, text: filter, replay, .. } = *one;
            items.push(&SubscribeItem { number, filter, options: one.entry.options, id, replay });
        }
        let record = Record::Subscribe(SubscribeRecord { session, items: items.as_list() });
        let how = How { waits: true, lanes: self.bit(), frees: false };
        if !self.put(io, &record, logged, how) {
            return false;
        }
        let highest = granted.iter().map(|one| one.number.get()).max().unwrap_or(0);
        if let Some(&conn) = self.up.get(&session)
            && let Some(link) = self.links.get_mut(conn)
        {
            link.next_sub = link.next_sub.max(highest + 1);
            for one in granted.iter().filter(|_| logged) {
                link.staged.get_or_insert_default().subs.push((one.text.into(), one.number));
            }
        }
        if logged && self.journal.is_log() {
            for one in granted {
                self.overlay.subscribed(session, one.text, self.journal.handed());
            }
        }
        true
    }

    /// The number of a subscription whose record is handed over and not applied.
    fn staged_sub(&self, session: SessionNumber, text: &str) -> Option<SubNumber> {
        let link = self.links.get(*self.up.get(&session)?)?;
        link.staged
            .as_ref()?
            .subs
            .iter()
            .rev()
            .find(|(staged, _)| **staged == *text)
            .map(|(_, n)| *n)
    }

    /// Takes granted subscriptions into this lane's index; returns what retained messages they are
    /// owed.
    //= MQTT311-3.8.4-3
    //= MQTT5-3.3.1-9
    //= MQTT5-3.3.1-10
    //= MQTT5-3.3.1-11
    //= MQTT5-3.8.4-3
    //= MQTT5-3.8.4-4
    fn take_subscriptions(
        &mut self,
        session: SessionNumber,
        granted: &[Granted<'_>],
        id: Option<SubscriptionId>,
    ) -> Vec<Wish> {
        let mut wishes = Vec::new();
        for one in granted {
            let subscriber = self.subscriber(session, one, id);
            standing::stand(&mut self.index, one.text, subscriber, one.replay.is_some());
            if one.replay.is_none_or(|replay| !replay.goes_on()) {
                self.replaying.forget(session, one.number);
            }
            self.note_member(session, one.filter);
            let wanted = match one.entry.options.retain_handling {
                RetainHandling::Always => true,
                RetainHandling::IfNew => one.is_new,
                RetainHandling::Never => false,
            };
            // A shared subscription is sent no retained messages: they would come to one member.
            // History has them in their places.
            if let (true, Filter::Plain(filter), None) = (wanted, one.filter, one.replay) {
                wishes.push(Wish::new(session, filter, one.entry.options.qos, id));
            }
        }
        wishes
    }

    /// Those that begin to take history behind the fence of this change.
    fn starts_of(&mut self, session: SessionNumber, granted: &[Granted<'_>]) -> Starts {
        let replaying = &self.replaying;
        let begins = |one: &&Granted<'_>| {
            one.replay
                .is_some_and(|replay| !replay.goes_on() || !replaying.has(session, one.number))
        };
        let starts: Vec<_> = granted.iter().filter(begins).map(|one| one.number).collect();
        self.replaying.await_fence(session, starts.into_iter())
    }

    fn subscriber(
        &self,
        session: SessionNumber,
        one: &Granted<'_>,
        id: Option<SubscriptionId>,
    ) -> Subscriber {
        Subscriber {
            session,
            lane: self.lane.0,
            flags: self.flags_of(session),
            since: self.since(session),
            sub: one.number,
            options: one.entry.options,
            id,
        }
    }

    fn taken(
        &self,
        session: SessionNumber,
        granted: &[Granted<'_>],
        id: Option<SubscriptionId>,
    ) -> Vec<Taken> {
        if self.lanes == 1 {
            return Vec::new();
        }
        let one = |one: &Granted<'_>| Taken {
            filter: one.text.into(),
            subscriber: self.subscriber(session, one, id),
            replays: one.replay.is_some(),
        };
        granted.iter().map(one).collect()
    }

    //= MQTT311-2.3.1-7
    //= MQTT311-3.8.4-2
    //= MQTT311-3.8.4-5
    //= MQTT311-3.9.3-1
    //= MQTT5-2.2.1-6
    //= MQTT5-3.8.4-2
    //= MQTT5-3.8.4-6
    //= MQTT5-3.8.4-7
    //= MQTT5-3.9.3-1
    //= MQTT5-3.9.3-2
    fn sub_ack(
        &self,
        conn: ConnId,
        subscribe: &Subscribe<'_>,
        codes: &[ReasonCode],
        properties: Properties<'_>,
    ) -> Vec<u8> {
        let mut packet = Vec::new();
        let Some(link) = self.links.get(conn) else { return packet };
        let (packet_id, codes) = (subscribe.packet_id, ReasonCodes::new(codes));
        let ack = SubAck { packet_id, properties, codes };
        if let Err(error) = link.encoder.sub_ack(&ack, &mut packet) {
            tracing::warn!(client = %link.client, %error, "SUBACK cannot be sent");
        }
        packet
    }

    //= MQTT311-3.10.4-1
    //= MQTT311-3.10.4-2
    //= MQTT311-3.10.4-3
    //= MQTT311-3.10.4-4
    //= MQTT311-3.10.4-5
    //= MQTT311-3.10.4-6
    //= MQTT5-3.10.4-1
    //= MQTT5-3.10.4-2
    //= MQTT5-3.10.4-3
    //= MQTT5-3.10.4-4
    //= MQTT5-3.10.4-5
    //= MQTT5-3.10.4-6
    pub(super) fn unsubscribe(
        &mut self,
        io: &mut Io<'_, D>,
        conn: ConnId,
        unsubscribe: &Unsubscribe<'_>,
    ) -> Flow {
        if self.holds_subscriptions_up() {
            return self.park_for_peers(io, conn);
        }
        let Some(link) = self.links.up_mut(conn) else { return Flow::End };
        let (Some(session), logged) = (link.session, link.logged) else { return Flow::End };
        let (version, encoder) = (link.encoder.version, link.encoder);
        let mut filters = std::mem::take(&mut self.filters);
        filters.clear();
        let (mut codes, mut texts) = (Vec::new(), Texts::default());
        let mut removed: Vec<(&str, Filter<'_>)> = Vec::new();
        for (text, filter) in unsubscribe.filters {
            let in_state = self
                .state
                .session(session)
                .is_some_and(|known| known.subscriptions().get(text).is_some());
            let exists = self.overlay.has_filter(session, text, in_state);
            match filter {
                Ok(filter) if exists && !removed.contains(&(text, filter)) => {
                    filters.push(&text);
                    removed.push((text, filter));
                    codes.push(ReasonCode::Success);
                }
                Ok(_) => codes.push(ReasonCode::NoSubscriptionExisted),
                Err(error) => {
                    codes.push(ReasonCode::TopicFilterInvalid);
                    texts.add(error.to_string().into());
                }
            }
        }
        let record = UnsubscribeRecord { session, filters: filters.as_list() };
        let how = How { waits: true, lanes: self.bit(), frees: true };
        let put = removed.is_empty() || self.put(io, &Record::Unsubscribe(record), logged, how);
        self.filters = filters;
        if !put {
            return self.park(io, conn);
        }
        for &(text, _) in &removed {
            self.tell(conn, |client| Event::Unsubscribed { client, filter: text.into() });
            standing::leave(&mut self.index, text, session);
            if logged && self.journal.is_log() {
                self.overlay.unsubscribed(session, text, self.journal.handed());
            }
        }
        let mut packet = Vec::new();
        let codes = if version.is_v5() { &codes[..] } else { &[] };
        let said = reason_for(io, conn, &texts.joined());
        let ack = UnsubAck {
            packet_id: unsubscribe.packet_id,
            properties: said.as_properties(),
            codes: ReasonCodes::new(codes),
        };
        if let Err(error) = encoder.unsub_ack(&ack, &mut packet) {
            tracing::warn!(session = session.get(), %error, "UNSUBACK cannot be sent");
        }
        let gone: Vec<Box<str>> = removed.iter().map(|&(text, _)| text.into()).collect();
        self.live.watch(session);
        let (wishes, starts) = (Vec::new(), Vec::new());
        let then = Then::Acknowledge { conn, session, packet, wishes, starts };
        let news = News::Unsubscribed { session, filters: gone };
        self.begin_change(io, Tell::Now, news, then);
        Flow::Next
    }
}

const fn granted_code(qos: QoS) -> ReasonCode {
    match qos {
        QoS::AtMostOnce => ReasonCode::Success,
        QoS::AtLeastOnce => ReasonCode::GrantedQoS1,
        QoS::ExactlyOnce => ReasonCode::GrantedQoS2,
    }
}

/// What a bridge takes is published elsewhere: as it was here, and not what came from there.
fn bridged(entry: &mut Subscription<'_>) {
    let is_plain = matches!(entry.filter, Ok(Filter::Plain(_)));
    entry.options.no_local |= is_plain && !entry.text.starts_with("$replay/");
    entry.options.retain_as_published = true;
}

/// What an authoriser says to a filter.
fn permitted(permit: Option<Permit>) -> Result<(), Refusal> {
    match permit {
        Some(Permit::Allow) => Ok(()),
        Some(Permit::Deny | Permit::Disconnect) => Err(Refusal::new(ReasonCode::NotAuthorized, "")),
        None => {
            let why = "nobody says whether it may be had";
            Err(Refusal::new(ReasonCode::UnspecifiedError, why))
        }
    }
}

/// MQTT 3.1.1 knows one failure.
fn refusal(version: ProtocolVersion, reason: ReasonCode) -> ReasonCode {
    if version.is_v5() { reason } else { ReasonCode::UnspecifiedError }
}

/// The user property that says where the filters of a SUBSCRIBE start.
fn replay_from(properties: Properties<'_>) -> Option<&str> {
    properties.into_iter().find_map(|property| match property {
        Property::UserProperty(name, value) if name == replay::ask::PROPERTY => Some(value),
        _ => None,
    })
}
