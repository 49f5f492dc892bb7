//! What a client subscribes to, and what of that it gives up.

use zzq_codec::{Packet, Subscribe, SubscriptionsBuf, Unsubscribe};
use zzq_types::{Properties, ProtocolVersion, QoS, RetainHandling, SubscribeOptions};

use super::acts::joined;
use super::packets::packet_id;
use super::{Client, Desk, Line, Request};
use crate::clock::WALL_MS;
use crate::guard::DENIED_FILTER;
use crate::history::{Conn, Event};

const FILTERS: [&str; 12] = [
    "a/1",
    "a/two",
    "b/1",
    "a/+",
    "+/1",
    "#",
    "b/#",
    "city",
    "$share/g/a/1",
    "$share/g/a/+",
    "$share/h/#",
    "$share/h/b/1",
];

/// What a crew shares.
const CREW: &str = "$share/crew/#";

/// Those before are of no group.
const PLAIN: usize = 8;

/// SUBSCRIBEs and UNSUBSCRIBEs without an answer at most: they share identifiers with messages
/// under way, and a lane that is held up answers none of them.
const REQUESTS_MOST: usize = 30;

/// What a reader of history asks for.
const HISTORY: &str = "$replay/all/#";
/// What all who read it do.
pub(super) const PAST: &str = "$replay/";

impl Client {
    pub(super) fn subscribe_something(&mut self, desk: &mut Desk<'_>, conn: Conn) {
        if self.requests.len() >= REQUESTS_MOST {
            return;
        }
        if self.plan.reads_history {
            return self.subscribe_to_history(desk, conn);
        }
        if self.plan.joins {
            return self.join(desk, conn);
        }
        if self.plan.shares && self.memory.filters.contains(CREW) {
            // To subscribe again would begin anew, and what came before would be asked of nobody.
            return;
        }
        if self.plan.shares {
            desk.coverage.hit("op subscribe shared");
            let qos = *self.chance.pick(&[QoS::AtLeastOnce, QoS::ExactlyOnce]);
            return self.subscribe(desk, conn, &[(CREW, SubscribeOptions::with_qos(qos))]);
        }
        if self.plan.holds {
            let options = SubscribeOptions::with_qos(QoS::AtLeastOnce);
            return self.subscribe(desk, conn, &[("#", options)]);
        }
        if self.plan.trespasses
            && self.plan.version != ProtocolVersion::V31
            && self.chance.once_in(8)
        {
            // MQTT 3.1 would be cut off for it.
            desk.coverage.hit("op subscribe denied");
            let options = SubscribeOptions::with_qos(self.draw_qos());
            return self.subscribe(desk, conn, &[(DENIED_FILTER, options)]);
        }
        let v5 = self.plan.version.is_v5();
        let mut wanted: Vec<(&str, SubscribeOptions)> = Vec::new();
        for _ in 0..self.chance.within(1, 2) {
            let is_plain = self.plan.certain || self.plan.needs_no_log;
            let filters = if is_plain { &FILTERS[..PLAIN] } else { &FILTERS[..] };
            let filter = *self.chance.pick(filters);
            let shared = filter.starts_with("$share/");
            if wanted.iter().any(|(other, _)| *other == filter) {
                continue;
            }
            if shared {
                desk.coverage.hit("op subscribe shared");
            }
            let qos = match self.draw_qos() {
                _ if self.plan.listens => QoS::AtMostOnce,
                QoS::AtMostOnce if self.plan.certain => QoS::AtLeastOnce,
                qos => qos,
            };
            let mut options = SubscribeOptions::with_qos(qos);
            if v5 {
                options.no_local = !shared && self.chance.once_in(6);
                options.retain_as_published = self.chance.once_in(4);
                options.retain_handling = *self.chance.pick(&[
                    RetainHandling::Always,
                    RetainHandling::IfNew,
                    RetainHandling::Never,
                ]);
            }
            wanted.push((filter, options));
        }
        self.subscribe(desk, conn, &wanted);
    }

    /// To what is published to now, unless it has done so. No other subscription of it hides what
    /// this one lacks.
    fn join(&mut self, desk: &mut Desk<'_>, conn: Conn) {
        let filter = joined(&self.plan, desk.now);
        if self.memory.filters.contains(&filter) {
            return;
        }
        desk.coverage.hit("op subscribe meanwhile");
        let qos = *self.chance.pick(&[QoS::AtLeastOnce, QoS::ExactlyOnce]);
        self.subscribe(desk, conn, &[(&filter, SubscribeOptions::with_qos(qos))]);
    }

    /// Where it begins to read history: with a place that it knows about, or a time.
    fn draw_cursor(&mut self, desk: &mut Desk<'_>) -> String {
        let span_ms = *self.chance.pick(&[300, 2000, 10_000, 60_000]);
        match self.chance.below(3) {
            0 => {
                desk.coverage.hit("op subscribe from an offset");
                format!("$replay/@{}/#", self.chance.within(1, self.memory.last_offset + 1))
            }
            1 => {
                desk.coverage.hit("op subscribe from a span ago");
                format!("$replay/-{span_ms}ms/#")
            }
            _ => {
                desk.coverage.hit("op subscribe from a time");
                format!("$replay/{}/#", (WALL_MS + desk.now).saturating_sub(span_ms))
            }
        }
    }

    /// To all that was ever published, or from somewhere on: one that is there goes on.
    pub(super) fn subscribe_to_history(&mut self, desk: &mut Desk<'_>, conn: Conn) {
        desk.coverage.hit("op subscribe replay");
        let mut options = SubscribeOptions::with_qos(QoS::ExactlyOnce);
        options.retain_handling = RetainHandling::IfNew;
        let known = self.memory.filters.iter().find(|filter| filter.starts_with(PAST)).cloned();
        let filter = match known {
            Some(known) => known,
            None if self.plan.has_cursors => self.draw_cursor(desk),
            None => HISTORY.into(),
        };
        self.subscribe(desk, conn, &[(&filter, options)]);
    }

    /// Subscribes in the last phase; false: it is not connected.
    pub fn verify(&mut self, desk: &mut Desk<'_>, filter: &str) -> bool {
        let Line::Up(conn, _) = self.line else { return false };
        self.subscribe(desk, conn, &[(filter, SubscribeOptions::with_qos(QoS::ExactlyOnce))]);
        true
    }

    pub(super) fn subscribe(
        &mut self,
        desk: &mut Desk<'_>,
        conn: Conn,
        wanted: &[(&str, SubscribeOptions)],
    ) {
        desk.coverage.hit("op subscribe");
        let id = self.free_id();
        let mut list = SubscriptionsBuf::new();
        for (filter, options) in wanted {
            let pushed = list.push(filter, *options);
            assert!(pushed.is_ok(), "{filter} is short");
            self.memory.filters.insert((*filter).into());
            let (filter, options) = ((*filter).into(), *options);
            desk.note(Event::Subscribed { conn, request: id, filter, options });
        }
        let filters = wanted.iter().map(|(filter, _)| (*filter).to_owned()).collect();
        self.requests.insert(id, Request::Subscribe(filters));
        self.send(
            desk,
            &Packet::Subscribe(Subscribe {
                packet_id: packet_id(id),
                properties: Properties::EMPTY,
                subscriptions: list.subscriptions(),
            }),
        );
    }

    pub(super) fn unsubscribe_something(&mut self, desk: &mut Desk<'_>, conn: Conn) {
        let known: Vec<String> = self.memory.filters.iter().cloned().collect();
        // Whoever reads history knows whether it does: it waits for what it has asked before.
        let asks_enough = self.requests.len() >= REQUESTS_MOST;
        let reads = self.plan.reads_history && !self.requests.is_empty();
        if known.is_empty() || asks_enough || reads {
            return;
        }
        self.memory.reads_history = false;
        desk.coverage.hit("op unsubscribe");
        let filter = self.chance.pick(&known).clone();
        let id = self.free_id();
        let mut list = SubscriptionsBuf::new();
        let pushed = list.push(&filter, SubscribeOptions::default());
        assert!(pushed.is_ok(), "{filter} is short");
        desk.note(Event::Unsubscribed { conn, request: id, filter: filter.clone() });
        self.requests.insert(id, Request::Unsubscribe(filter));
        self.send(
            desk,
            &Packet::Unsubscribe(Unsubscribe {
                packet_id: packet_id(id),
                properties: Properties::EMPTY,
                filters: list.filters(),
            }),
        );
    }
}
