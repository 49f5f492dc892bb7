//! The history, sorted: what is known of each connection, session, subscription and message.
//!
//! Owns: what is certain and what is only possible. A request that was not answered may have been
//! carried out, at any moment until its connection was over: it is unknown, never absent.
//! Does not know: the promises.

mod build;
mod loss;
#[cfg(test)]
pub(crate) mod script;

use std::collections::{BTreeMap, BTreeSet};

use zzq_types::{QoS, ReasonCode, SubscribeOptions};

use crate::history::{ClientId, Conn, Ending, Hello, History, MessageId, Received};
use crate::log_time::LogTime;

pub use self::loss::{SLACK_MS, STOP_MS};

/// A place in the history.
pub type At = usize;

/// See the file.
#[derive(Debug)]
pub struct Ledger<'h> {
    /// What it was made from.
    pub history: &'h History,
    /// By connection.
    pub conns: BTreeMap<Conn, ConnFacts>,
    /// In the order of their beginnings.
    pub sessions: Vec<SessionFacts>,
    /// By message; wills among them.
    pub messages: Vec<MessageFacts>,
    /// Starts of the broker.
    pub starts: Vec<At>,
    /// Deaths of the broker.
    pub deaths: Vec<At>,
    /// It was told to stop.
    pub stops: Vec<At>,
    /// Its log has failed: it takes nothing more until the next start.
    pub failures: Vec<At>,
    /// Its disk is full, or has space again.
    pub space: Vec<(At, bool)>,
    /// The broker has ended a session for its full queue, or may have.
    pub ended_full: Vec<(At, ClientId)>,
    /// When nothing went wrong any more.
    pub healed: Option<At>,
    /// When all was at rest: now and then, and before the first message of the last phase.
    pub rests: Vec<At>,
    /// Messages that the broker says full queues have lost.
    pub dropped: u64,
    /// It has no end at which everything that is owed must have come: that is said by itself, and
    /// nothing else is asked for.
    pub cut_short: bool,
    /// Log time.
    pub time: LogTime,
}

/// What is known of a connection.
#[derive(Clone, Debug)]
pub struct ConnFacts {
    /// Whose.
    pub client: ClientId,
    /// Its CONNECT.
    pub hello: Hello,
    /// When that was sent.
    pub dialed: At,
    /// CONNACK, and whether it said that a session is present.
    pub accepted: Option<(At, Option<bool>)>,
    /// CONNACK that did not let it in, and why.
    pub refused: Option<(At, ReasonCode)>,
    /// The network carried nothing from here on.
    pub cut: Option<At>,
    /// What the broker said last there may be lost for want of room.
    pub stalled: bool,
    /// The client's end of it.
    pub ended: Option<(At, Ending)>,
    /// DISCONNECT, and whether it kept the will.
    pub left: Option<(At, bool)>,
    /// DISCONNECT came from the broker.
    pub dismissed: Option<At>,
    /// The broker has died under it.
    pub died: Option<At>,
    /// The log has failed under it; or had before, and from here on it needs it.
    pub unlogged: Option<At>,
    /// Its session.
    pub session: Option<usize>,
}

/// What is known of a session.
#[derive(Clone, Debug)]
pub struct SessionFacts {
    /// Whose.
    pub client: ClientId,
    /// When its first CONNECT was sent.
    pub began: At,
    /// From here on it may have ended: what it was promised is not owed any more. Taken back when
    /// the broker says that it is present.
    pub doubtful: Option<At>,
    /// Its subscriptions, those that were replaced or taken away among them.
    pub subs: Vec<SubFacts>,
    /// What it received.
    pub received: Vec<(At, Conn, Received)>,
}

/// What is known of a subscription.
#[derive(Clone, Debug)]
pub struct SubFacts {
    /// With its group.
    pub filter: String,
    /// As asked for.
    pub options: SubscribeOptions,
    /// SUBSCRIBE and the connection it was sent on.
    pub sent: At,
    /// See `sent`.
    pub conn: Conn,
    /// Its packet identifier there.
    pub request: u16,
    /// SUBACK granted it.
    pub acked: Option<At>,
    /// What it said about the QoS.
    pub granted: Option<QoS>,
    /// SUBACK did not.
    pub refused: bool,
    /// A later SUBSCRIBE of the same filter, or an UNSUBSCRIBE, was sent.
    pub leaves: Option<At>,
    /// UNSUBACK came, or SUBACK of a later one of the same filter.
    pub left: Option<At>,
    /// An UNSUBSCRIBE was sent: a later one of the same filter begins anew.
    pub given_up: Option<At>,
}

/// What is known of a message.
#[derive(Clone, Debug, Default)]
pub struct MessageFacts {
    /// First PUBLISH, or the CONNECT that holds the will.
    pub sent: Option<At>,
    /// Last PUBLISH.
    pub sent_last: Option<At>,
    /// PUBACK or PUBREC without a failure.
    pub acked: Option<At>,
    /// PUBACK or PUBREC with one.
    pub refused: Option<At>,
    /// Its first connection.
    pub conn: Option<Conn>,
}

impl Ledger<'_> {
    /// The message of a number.
    pub fn message(&self, id: MessageId) -> &crate::history::Message {
        &self.history.messages[id.0 as usize]
    }

    /// What is known of it.
    pub fn facts(&self, id: MessageId) -> &MessageFacts {
        &self.messages[id.0 as usize]
    }

    /// All messages.
    pub fn ids(&self) -> impl Iterator<Item = MessageId> + use<> {
        (0..u32::try_from(self.messages.len()).unwrap_or(u32::MAX)).map(MessageId)
    }

    /// True time at a place.
    pub fn ms(&self, at: At) -> u64 {
        self.history.entries[at].at_ms
    }

    /// Behind the last event.
    pub fn end(&self) -> At {
        self.history.entries.len()
    }

    /// True time at the end.
    pub fn end_ms(&self) -> u64 {
        self.history.entries.last().map_or(0, |last| last.at_ms)
    }

    /// The name of a client.
    pub fn name(&self, client: ClientId) -> &str {
        self.history.names.get(usize::from(client.0)).map_or("?", |name| name)
    }

    /// Whether what was there at `from` is gone at `to` because a broker without a log has ended.
    pub fn is_forgotten(&self, from: At, to: At) -> bool {
        self.history.in_memory && self.deaths.iter().any(|death| from < *death && *death < to)
    }

    /// Whether all was at rest behind `from`, before a connection had any end.
    pub fn outlives_a_rest(&self, conn: Conn, from: At) -> bool {
        let Some(facts) = self.conns.get(&conn) else { return false };
        let (ended, left) = (facts.ended.map(|(at, _)| at), facts.left.map(|(at, _)| at));
        let ends = [facts.cut, ended, facts.died, left, facts.dismissed];
        let Some(end) = ends.into_iter().flatten().min() else { return true };
        self.rests.iter().any(|rest| from < *rest && *rest < end)
    }

    /// Whether the broker that a connection came to had been told to stop before `at`.
    pub fn has_stopped(&self, facts: &ConnFacts, at: At) -> bool {
        let life = |of: At| self.starts.partition_point(|start| *start < of);
        self.stops.iter().any(|stop| *stop < at && life(*stop) == life(facts.dialed))
    }

    /// Whether a message may have expired between its receipt by the broker and a moment.
    pub fn may_have_expired(&self, id: MessageId, by_ms: u64) -> bool {
        let Some(expiry_s) = self.message(id).expiry_s else { return false };
        let Some(sent) = self.facts(id).sent else { return true };
        let (_, most) = self.time.between(self.ms(sent), by_ms.max(self.ms(sent)));
        most >= u64::from(expiry_s) * 1000
    }

    /// Shared filters by which a message may have come to a session that received it at `at`: each
    /// may bring one of its own. Those that were left before it was sent are none of them.
    pub fn groups_of<'s>(
        &self,
        session: &'s SessionFacts,
        id: MessageId,
        at: At,
    ) -> impl Iterator<Item = &'s str> + use<'s> {
        let topic = self.message(id).topic.clone();
        let sent = self.facts(id).sent.unwrap_or(0);
        let shared = session.subs.iter().filter(|sub| sub.group().is_some());
        let may = shared.filter(move |sub| sub.matches(&topic) && sub.may_hold(sent, at));
        let filters: BTreeSet<&str> = may.map(|sub| sub.filter.as_str()).collect();
        filters.into_iter()
    }

    /// How often a message may come beside all that a session is sent once: by each shared filter,
    /// and by the past, which whoever gives it up and asks for it again gets again.
    pub fn further_ways(&self, session: &SessionFacts, id: MessageId, at: At) -> usize {
        let anew = |sub: &&SubFacts| sub.replays() && sub.given_up.is_some() && sub.sent < at;
        self.groups_of(session, id, at).count() + session.subs.iter().filter(anew).count()
    }

    /// Sessions that are there to the end, for certain.
    pub fn lasting(&self) -> impl Iterator<Item = (usize, &SessionFacts)> {
        let latest: BTreeMap<ClientId, usize> =
            self.sessions.iter().enumerate().map(|(at, one)| (one.client, at)).collect();
        let lasting = self.sessions.iter().enumerate();
        lasting.filter(move |(at, one)| latest[&one.client] == *at && one.doubtful.is_none())
    }
}

impl SubFacts {
    /// Whether it held from before `from` until behind `to`, for certain.
    pub fn holds(&self, from: At, to: At) -> bool {
        self.acked.is_some_and(|acked| acked < from) && self.leaves.is_none_or(|at| at > to)
    }

    /// Whether its filter was subscribed to from before `from` until behind `to`, for certain: by
    /// it, or by what took its place, of which nobody may have been told.
    pub fn holds_filter(&self, from: At, to: At) -> bool {
        self.acked.is_some_and(|acked| acked < from) && self.given_up.is_none_or(|at| at > to)
    }

    /// Whether it may have held at some moment from `from` to `to`.
    pub fn may_hold(&self, from: At, to: At) -> bool {
        self.sent < to && self.left.is_none_or(|left| left > from)
    }

    /// The group of a shared one. One that starts in the past is as one by itself: it is served
    /// apart from others, and gets nothing as retained.
    pub fn group(&self) -> Option<&str> {
        if self.replays() {
            return Some(&self.filter);
        }
        self.filter.strip_prefix("$share/")?.split_once('/').map(|(group, _)| group)
    }

    /// Whether it starts in the past.
    pub fn replays(&self) -> bool {
        self.filter.starts_with("$replay/")
    }

    /// Whether a topic matches it.
    pub fn matches(&self, topic: &str) -> bool {
        let prefixes = ["$share/", "$replay/"];
        let rest = prefixes.iter().find_map(|prefix| self.filter.strip_prefix(prefix));
        let shared = rest.and_then(|rest| rest.split_once('/'));
        matches(shared.map_or(self.filter.as_str(), |(_, filter)| filter), topic)
    }

    /// What of a message's QoS it lets through.
    pub fn qos_of(&self, published: QoS) -> QoS {
        self.options.qos.min(published)
    }
}

/// Written anew, since the broker's own may be wrong.
fn matches(filter: &str, topic: &str) -> bool {
    let mut levels = topic.split('/');
    for part in filter.split('/') {
        match (part, levels.next()) {
            ("#", _) => return true,
            ("+", Some(_)) => {}
            (part, Some(level)) if part == level => {}
            _ => return false,
        }
    }
    levels.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_match_level_by_level() {
        for (filter, topic, is) in [
            ("a/1", "a/1", true),
            ("a/1", "a/2", false),
            ("a/+", "a/2", true),
            ("a/+", "a", false),
            ("a/+", "a/1/x", false),
            ("+/1", "b/1", true),
            ("#", "a/b/c", true),
            ("a/#", "a", true),
            ("a/#", "b", false),
            ("a", "a/1", false),
        ] {
            assert_eq!(matches(filter, topic), is, "{filter} {topic}");
        }
    }
}
