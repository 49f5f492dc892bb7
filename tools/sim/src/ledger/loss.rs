//! When the broker may have taken a connection for lost at the earliest, and by when it had for
//! certain: what begins with that, the delay of a will or the expiry of a session, begins between.
//!
//! Assumes: who hears nothing of the broker for longer than [`WORD_MS`] has given it up.
//! Does not know: whether the broker had a right to end a connection. Where its client was told, or
//! saw it closed, `cut_off` asks that.

use super::{At, ConnFacts, Ledger};
use crate::history::Ending;

/// A stop may close a connection before DISCONNECT is read.
pub const STOP_MS: u64 = 6000;
/// From the end of a connection at the broker until its client knows: clients stop reading for a
/// while, and give a connection up on which they hear nothing.
const WORD_MS: u64 = 12_000;
/// Until the broker knows of a connection that its client has given up, on a lane that has its
/// turns: the network takes six seconds, and the log some time.
const GIVEN_UP_MS: u64 = 7000;
/// From the record of a connection's end to a clock that is read elsewhere.
pub const SLACK_MS: u64 = 50;
/// What time alone brings is done when a lane has had a turn, and the log room for its record.
const DONE_MS: u64 = 1000;

impl ConnFacts {
    /// The network may be slower than this client promised to be.
    pub fn is_hasty(&self) -> bool {
        (1..10).contains(&self.hello.keep_alive)
    }

    /// The first that its client, or who runs the broker, saw of its end.
    fn first_end(&self) -> Option<At> {
        let (ended, left) = (self.ended.map(|(at, _)| at), self.left.map(|(at, _)| at));
        [self.cut, ended, self.died, left, self.dismissed].into_iter().flatten().min()
    }
}

impl Ledger<'_> {
    /// The next connection of the same client.
    pub fn next_of(&self, facts: &ConnFacts) -> Option<&ConnFacts> {
        self.later_of(facts).min_by_key(|other| other.dialed)
    }

    /// Connections that the same client has dialed later.
    pub fn later_of<'l>(
        &'l self,
        facts: &ConnFacts,
    ) -> impl Iterator<Item = &'l ConnFacts> + use<'l> {
        let (client, dialed) = (facts.client, facts.dialed);
        let others = self.conns.values().filter(move |other| other.client == client);
        others.filter(move |other| other.dialed > dialed)
    }

    /// Whether the broker may have ended the session of a connection for its full queue before it
    /// took another connection of the client.
    pub fn may_be_ended_full(&self, facts: &ConnFacts) -> bool {
        let ends = self.ended_full.iter().filter(|(_, client)| *client == facts.client);
        let Some(first) = ends.map(|(at, _)| *at).find(|at| facts.dialed < *at) else {
            return false;
        };
        let taken = self.later_of(facts).filter_map(|other| other.accepted);
        let taken = taken.map(|(at, _)| at).min();
        taken.is_none_or(|taken| first < taken)
    }

    /// Whether the broker may have ended a connection by itself while its client was there and not
    /// silent, and the broker went on: for the full queue of its session; since it waited for
    /// itself in a circle, which takes twice as long as publishers are held; since nobody said
    /// whether it is still who it was; since what it is owed cannot be read; for the room that
    /// others wait for; or with its log.
    /// Somebody says, and what is owed can be read, where nothing goes wrong any more.
    pub fn may_be_dismissed(&self, facts: &ConnFacts) -> bool {
        let history = self.history;
        self.may_be_ended_full(facts)
            || history.may_refuse && self.lived_ms(facts) >= 2 * history.max_hold_ms
            || self.may_be_crowded_out(facts)
            || history.may_not_answer && facts.hello.version.is_v5() && !self.is_calm(facts)
            || self.may_be_unreadable(facts)
            || facts.unlogged.is_some()
    }

    /// Whether a limit of what all connections take together may have ended one. Where nothing goes
    /// wrong any more no packet comes in part for so long.
    pub fn may_be_crowded_out(&self, facts: &ConnFacts) -> bool {
        let lived = self.lived_ms(facts) >= self.history.input_patience_ms;
        self.history.lacks_input && lived && !self.is_calm(facts)
    }

    /// True time from its CONNECT to its end.
    fn lived_ms(&self, facts: &ConnFacts) -> u64 {
        let end_ms = facts.ended.map_or(self.end_ms(), |(at, _)| self.ms(at));
        end_ms - self.ms(facts.dialed)
    }

    /// Whether the disk may not give what a connection is owed.
    pub fn may_be_unreadable(&self, facts: &ConnFacts) -> bool {
        self.history.disk_may_fail && !self.is_calm(facts)
    }

    /// Whether nothing went wrong any more when a connection began.
    pub fn is_calm(&self, facts: &ConnFacts) -> bool {
        self.healed.is_some_and(|healed| healed < facts.dialed)
    }

    /// True time before which the broker cannot have taken a connection for lost; `u64::MAX` for
    /// one that has no end.
    pub fn lost_from_ms(&self, facts: &ConnFacts) -> u64 {
        let dialed_ms = self.ms(facts.dialed);
        if facts.is_hasty() {
            return dialed_ms;
        }
        let is_closed = matches!(facts.ended, Some((_, Ending::Closed))) && facts.left.is_none();
        let by_broker = facts.dismissed.is_some() || is_closed || self.may_be_dismissed(facts);
        let seen_ms = match facts.first_end() {
            Some(at) => self.ms(at),
            None if by_broker => self.end_ms(),
            None => return u64::MAX,
        };
        let unseen_ms = if by_broker {
            WORD_MS
        } else if self.dies_within(seen_ms, STOP_MS) {
            STOP_MS
        } else {
            0
        };
        seen_ms.saturating_sub(unseen_ms).max(dialed_ms)
    }

    /// True time by which the broker had taken a connection for lost, for certain and for good,
    /// if it had before a place in the history.
    pub fn lost_by_ms(&self, facts: &ConnFacts, before: At) -> Option<u64> {
        let over = facts.ended.map(|(at, _)| at).into_iter().chain(facts.died).min()?;
        // What was up when it died is down from its next start on; another death may take that
        // back, and the start behind it says so again.
        let start = self.starts.iter().rev().find(|start| **start < before);
        let started = start.filter(|start| over < **start).map(|start| self.ms(*start));
        let known = self.known_ms(facts).filter(|known_ms| *known_ms < self.ms(before));
        started.into_iter().chain(known).min()
    }

    /// By when the broker knew that its client has gone, if it lived and had a log to say so.
    fn known_ms(&self, facts: &ConnFacts) -> Option<u64> {
        let (ended, how) = facts.ended?;
        let ended_ms = self.ms(ended);
        let known_ms = match how {
            // It closes behind the record of DISCONNECT, if it has read that.
            Ending::Closed => {
                let (left, _) = facts.left?;
                let may_be_unread = facts.dismissed.is_some()
                    || self.may_be_crowded_out(facts)
                    || facts.stalled
                    || self.dies_within(self.ms(left), ended_ms - self.ms(left) + STOP_MS);
                (!may_be_unread).then_some(ended_ms)?
            }
            // Who waits for room is not read, nor its end.
            Ending::GivenUp if self.history.lacks_input && !self.is_calm(facts) => return None,
            Ending::GivenUp => ended_ms + GIVEN_UP_MS + self.lanes_rest_ms(ended),
            Ending::Broken => return None,
        };
        let fails = |at: &At| (ended_ms..=known_ms).contains(&self.ms(*at));
        let is_logged = facts.unlogged.is_none()
            && !self.failures.iter().any(fails)
            && !self.is_full_within(ended_ms, known_ms);
        let dies = facts.died.is_some() || self.dies_within(ended_ms, known_ms - ended_ms);
        (is_logged && !dies).then_some(known_ms)
    }

    /// Whether what begins to wait when the broker takes a connection for lost has waited for so
    /// long, for certain, and a broker that works has done what was due before the next connection
    /// of its client: published a will, or ended a session.
    pub fn is_done_before(&self, facts: &ConnFacts, next: &ConnFacts, waits_ms: u64) -> bool {
        let rests_ms = facts.ended.map_or(0, |(ended, _)| self.lanes_rest_ms(ended));
        let done_ms = self.ms(next.dialed).saturating_sub(DONE_MS + rests_ms);
        let has_waited = self.lost_by_ms(facts, next.dialed).is_some_and(|by_ms| {
            let (least, _) = self.time.between(by_ms, done_ms.max(by_ms));
            least >= waits_ms + SLACK_MS
        });
        has_waited && self.works_from_ms(next.dialed).is_some_and(|from_ms| from_ms <= done_ms)
    }

    /// For how long a lane may have no turn, from a place in the history on.
    pub fn lanes_rest_ms(&self, from: At) -> u64 {
        let is_calm = self.healed.is_some_and(|healed| healed < from);
        if is_calm { 0 } else { self.history.lanes_rest_ms }
    }

    /// True time from which on the broker has run, with a log and a disk that took what it had to
    /// record by itself, until a place in the history. `None`: it does not.
    pub fn works_from_ms(&self, until: At) -> Option<u64> {
        let start = *self.starts.iter().rev().find(|start| **start < until)?;
        let within = |at: At| start < at && at < until;
        let fails = self.failures.iter().any(|at| within(*at));
        let (from, is_full) =
            self.space.iter().rev().find(|(at, _)| within(*at)).copied().unwrap_or((start, false));
        (!fails && !is_full).then(|| self.ms(from))
    }

    /// Whether the broker has said that its disk is full at some moment of a span of true time.
    fn is_full_within(&self, from_ms: u64, to_ms: u64) -> bool {
        self.space.iter().enumerate().any(|(nth, (at, is_full))| {
            let next = self.space.get(nth + 1).map(|(next, _)| *next);
            let death = self.deaths.iter().copied().find(|death| death > at);
            let over = next.into_iter().chain(death).min();
            let is_over = over.is_some_and(|over| self.ms(over) < from_ms);
            *is_full && self.ms(*at) <= to_ms && !is_over
        })
    }

    /// Whether the broker has ended within some time.
    pub fn dies_within(&self, from_ms: u64, span_ms: u64) -> bool {
        let mut ended = self.deaths.iter().map(|at| self.ms(*at));
        ended.any(|at_ms| from_ms <= at_ms && at_ms < from_ms + span_ms)
    }
}
