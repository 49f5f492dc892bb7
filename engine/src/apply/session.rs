//! The life of a session: `Start`, `Connect`, `Release`, `SessionDown`, `SessionEnd`, `WillSet`.

use std::collections::BTreeMap;
use std::sync::Arc;

use zzq_types::Lsn;

use crate::counters::Ignored;
use crate::effect::{Effect, Effects};
use crate::group::{Ended, OrphanMessage};
use crate::number::SessionNumber;
use crate::planted::{self, Bug};
use crate::record::{Connect, Release, SessionDown, SessionEnd, Start, WillMessage, WillSet};
use crate::session::{Link, Session, Waiting};
use crate::state::State;
use crate::will::{DetachedWill, Will};

use super::release;

impl State {
    /// Sessions that were up are down from now, volatile ones have ended. Nothing that was handed
    /// over before can come any more, so what remembers ended sessions for that goes, unless it
    /// has orphans: whoever gave these on has ended, too.
    pub(super) fn start(&mut self, time_ms: u64, start: Start, effects: &mut impl Effects) {
        for (&session, _) in self.ended.iter().filter(|(_, ended)| !ended.orphans.is_empty()) {
            effects.emit(Effect::OrphansReady { session });
        }
        for number in self.session_numbers() {
            let Some(session) = self.sessions.get(&number) else { continue };
            if session.is_volatile() {
                self.end_session(number, time_ms, effects);
            } else if session.link == Link::Up {
                self.crash_down(number, time_ms, start.jump, effects);
            }
        }
        self.ended.retain(|_, ended| !ended.orphans.is_empty());
    }

    /// A session that was up lost its connection and nobody says how far it had come.
    fn crash_down(
        &mut self,
        number: SessionNumber,
        time_ms: u64,
        jump: bool,
        effects: &mut impl Effects,
    ) {
        self.change(number, |session, counters| {
            session.queue.went_down(None, session.window);
            if jump && !session.queue.jump() {
                counters.add(Ignored::OutOfNumbers, 1);
            }
            session.go_down(time_ms);
            effects.emit(Effect::SessionDown { session: number });
            announce_will(session, effects);
        });
    }

    /// Opens a session, or resumes the client's own.
    //= MQTT311-3.1.2-12
    //= MQTT311-3.1.2-4
    //= MQTT311-3.1.2-6
    //= MQTT311-3.1.2-8
    //= MQTT311-3.1.3-2
    //= MQTT311-4.1.0-2
    //= MQTT5-3.1.2-4
    //= MQTT5-3.1.2-5
    //= MQTT5-3.1.2-6
    //= MQTT5-3.1.2-7
    //= MQTT5-3.1.3-2
    pub(super) fn connect(
        &mut self,
        lsn: Lsn,
        time_ms: u64,
        connect: &Connect<'_>,
        effects: &mut impl Effects,
    ) {
        if !self.shard.owns(connect.client.as_bytes()) {
            return;
        }
        let number = connect.session;
        let current = self.clients.get(connect.client).copied();
        if current == Some(number) && connect.joins.is_some() && self.is_up(number) {
            return self.join(connect);
        }
        if current == Some(number) {
            self.resume(time_ms, connect, effects);
        } else {
            if self.sessions.contains_key(&number) || self.ended.contains_key(&number) {
                self.counters.add(Ignored::NumberInUse, 1);
                return;
            }
            if let Some(old) = current {
                self.end_session(old, time_ms, effects);
            }
            let client = Arc::from(connect.client);
            effects.emit(Effect::SessionOpened { session: number, client: connect.client });
            self.insert(Session::new(number, client, connect.expiry_s, connect.window));
        }
        self.join(connect);
        if let Some(will) = &connect.will {
            self.hold_will(number, lsn, will, effects);
        }
    }

    /// The log begins to hold a session that is up: whoever knew it and whoever learns of it here
    /// give the same numbers from now on.
    fn join(&mut self, connect: &Connect<'_>) {
        let Some(number) = connect.joins else { return };
        self.change(connect.session, |session, counters| {
            if !session.queue.skip_to(number) {
                counters.add(Ignored::OutOfNumbers, 1);
            }
        });
    }

    /// A new connection to a session. One that is up is taken over: its connection is gone.
    //= MQTT5-3.1.3-9
    fn resume(&mut self, time_ms: u64, connect: &Connect<'_>, effects: &mut impl Effects) {
        let number = connect.session;
        let detached = self.change(number, |session, _| {
            if session.link == Link::Up {
                session.queue.went_down(None, session.window);
                session.go_down(time_ms);
            }
            let will = session.will.take();
            session.link = Link::Up;
            session.expiry_s = connect.expiry_s;
            session.window = connect.window;
            will.and_then(|will| match will.due_ms {
                Some(due_ms) if due_ms <= time_ms => {
                    let client = Arc::clone(&session.client);
                    Some((will.lsn, DetachedWill { client, due_ms }))
                }
                _ => {
                    release(effects, will.lsn);
                    None
                }
            })
        });
        if let Some((lsn, will)) = detached.flatten() {
            effects.emit(Effect::WillDue { session: number, lsn, due_ms: will.due_ms });
            self.detach_will(number, lsn, will);
        }
        effects.emit(Effect::SessionResumed { session: number });
    }

    fn hold_will(
        &mut self,
        number: SessionNumber,
        lsn: Lsn,
        will: &WillMessage<'_>,
        effects: &mut impl Effects,
    ) {
        self.change(number, |session, _| {
            if let Some(old) = session.will.take() {
                release(effects, old.lsn);
            }
            let is_at_once = planted::is(Bug::WillsAtOnce)
                || planted::is(Bug::LongWillsAtOnce) && will.delay_s > 10;
            let delay_s = if is_at_once { 0 } else { will.delay_s };
            session.will = Some(Box::new(Will { lsn, delay_s, due_ms: None }));
            effects.emit(Effect::WillHeld { session: number, lsn });
        });
    }

    //= MQTT311-3.14.4-3
    //= MQTT5-3.1.2-10
    //= MQTT5-3.1.2-23
    //= MQTT5-3.14.4-3
    pub(super) fn session_down(
        &mut self,
        time_ms: u64,
        down: &SessionDown,
        effects: &mut impl Effects,
    ) {
        let known = self.change(down.session, |session, counters| {
            if session.link != Link::Up {
                counters.add(Ignored::WrongLink, 1);
                return;
            }
            session.queue.went_down(Some(down.sent), session.window);
            session.expiry_s = down.expiry_s.unwrap_or(session.expiry_s);
            if down.drop_will
                && let Some(will) = session.will.take()
            {
                release(effects, will.lsn);
            }
            session.go_down(time_ms);
            effects.emit(Effect::SessionDown { session: down.session });
            announce_will(session, effects);
        });
        self.count_unknown(known.is_some());
    }

    //= MQTT311-4.1.0-1
    //= MQTT5-4.1.0-1
    //= MQTT5-4.1.0-2
    pub(super) fn session_end(
        &mut self,
        time_ms: u64,
        end: SessionEnd,
        effects: &mut impl Effects,
    ) {
        if end.forget {
            let ended = self.ended.remove(&end.session);
            self.count_unknown(ended.is_some());
            let orphans = ended.iter().flat_map(|ended| ended.orphans.values());
            orphans.for_each(|orphan| release(effects, orphan.lsn));
        } else {
            let known = self.end_session(end.session, time_ms, effects);
            self.count_unknown(known);
        }
    }

    pub(super) fn will_set(&mut self, lsn: Lsn, set: &WillSet<'_>, effects: &mut impl Effects) {
        let Some(session) = self.sessions.get_mut(&set.session) else {
            return self.count_unknown(false);
        };
        if session.link != Link::Up {
            self.counters.add(Ignored::WrongLink, 1);
        } else if let Some(will) = &set.will {
            self.hold_will(set.session, lsn, will, effects);
        } else if let Some(will) = session.will.take() {
            release(effects, will.lsn);
        }
    }

    //= MQTT5-4.3.3-11
    //= MQTT5-4.3.3-12
    pub(super) fn release(&mut self, record: Release) {
        match self.sessions.get_mut(&record.session) {
            Some(session) => {
                if !session.inbound.release(record.id) {
                    self.counters.add(Ignored::UnknownIdentifier, 1);
                }
            }
            None => self.count_unknown(false),
        }
    }

    /// Ends a session: its will is due now, what its groups may still get becomes orphans, all
    /// else is let go.
    //= MQTT311-3.1.2-7
    //= MQTT5-3.1.2-8
    //= MQTT5-4.8.2-5
    pub(super) fn end_session(
        &mut self,
        number: SessionNumber,
        time_ms: u64,
        effects: &mut impl Effects,
    ) -> bool {
        let Some(mut session) = self.take_out(number) else { return false };
        if session.link == Link::Up {
            session.queue.went_down(None, session.window);
        }
        if let Some(will) = session.will.take() {
            let due_ms = will.due_ms.unwrap_or(time_ms).min(time_ms);
            let client = Arc::clone(&session.client);
            effects.emit(Effect::WillDue { session: number, lsn: will.lsn, due_ms });
            self.detach_will(number, will.lsn, DetachedWill { client, due_ms });
        }
        let ended = leave_to_groups(&session, effects);
        for (filter, sub) in session.subscriptions.iter() {
            effects.emit(Effect::Unsubscribed { session: number, number: sub.number, filter });
        }
        effects.emit(Effect::SessionEnded { session: number, client: &session.client });
        if let Some(ended) = ended {
            if !ended.orphans.is_empty() {
                effects.emit(Effect::OrphansReady { session: number });
            }
            self.ended.insert(number, ended);
        }
        true
    }

    /// Counts a session that is not here, which only the whole can tell.
    pub(super) fn count_unknown(&mut self, known: bool) {
        assert!(known || !planted::is(Bug::ApplyPanics), "planted: no such session");
        if !known && self.shard.is_whole() {
            self.counters.add(Ignored::UnknownSession, 1);
        }
    }
}

fn announce_will(session: &Session, effects: &mut impl Effects) {
    if let Some(&Will { lsn, due_ms: Some(due_ms), .. }) = session.will() {
        effects.emit(Effect::WillDue { session: session.number, lsn, due_ms });
    }
}

/// What its groups may still get is kept, if the session was in any; the rest is let go.
fn leave_to_groups(session: &Session, effects: &mut impl Effects) -> Option<Ended> {
    let shares = session.shares().map(|(number, filter)| (number, filter.into()));
    let shares: BTreeMap<_, Box<str>> = shares.collect();
    let mut orphans = BTreeMap::new();
    for (waiting, extra) in session.queue.estate() {
        match extra.and_then(|extra| Some((extra.pick?, extra.expires_ms))) {
            Some((pick, expires_ms)) if shares.contains_key(&pick) => {
                let Waiting { lsn, qos, size, .. } = waiting;
                let orphan = OrphanMessage { lsn, pick, qos, size, expires_ms };
                orphans.insert(waiting.number.get(), orphan);
            }
            _ => release(effects, waiting.lsn),
        }
    }
    let last = session.queue.last().get();
    let client = Arc::clone(&session.client);
    (!shares.is_empty()).then_some(Ended {
        client,
        volatile: session.is_volatile(),
        last,
        shares,
        orphans,
    })
}
