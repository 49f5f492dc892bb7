//! Queues that are full, and what becomes of them by the policy.
//!
//! Owns: which queues of this lane are full, what of them is being dropped, which sessions are
//! being ended for them. Where the policy is to take nothing more, all lanes know it by a flag: a
//! publisher is refused, held, or passes the session by, before anything is handed over. The other
//! policies make room behind the message that was too much: by a record, in the next turn.
//!
//! Assumes: a queue is looked at when a record that adds to it was applied; room is found at the
//! end of each turn. So what is under way when a queue becomes full comes on top of its limit.

use std::collections::VecDeque;

use rustc_hash::{FxHashMap, FxHashSet};
use zzq_engine::record::{Closing, Expire, ExpiredTopics, RangeSetsBuf};
use zzq_engine::session::{Link as SessionLink, Load, Queue, Waiting};
use zzq_engine::{DecisionBuf, Handed, QueueNumber, Record, Routed, SessionFlags, SessionNumber};
use zzq_types::{QoS, ReasonCode};
use zzq_wal::disk::Disk;

use super::journal::How;
use super::link::Link;
use super::ranges::Ranges;
use super::receipts::push_set;
use super::{Io, Shell};
use crate::options::{Limits, QueueFull};
use crate::planted;
use crate::seldom::Seldom;

/// Why a session ends.
const ENDS_AT_ONCE: &str =
    "its queue is full: --max-queued-messages, --max-queued-bytes, --queue-full end-session";

/// What finds no room in the log, or waits for another lane, is tried again after this time.
pub(super) const HELD_UP_MS: u64 = 50;

/// See the file.
#[derive(Debug, Default)]
pub(super) struct Full {
    /// Sessions whose queue takes nothing more, as all lanes know.
    flagged: FxHashSet<SessionNumber>,
    /// Sessions whose queue is above its limit, to be relieved.
    over: Vec<SessionNumber>,
    /// What is handed over to be dropped.
    dropping: FxHashMap<SessionNumber, Dropping>,
    /// Sessions whose end is handed over, or the loss of their connection.
    ending: FxHashSet<SessionNumber>,
    /// When there is something to do next, in log time.
    next_ms: Option<u64>,
    told: Seldom,
    told_ended: Seldom,
    told_dropped: Seldom,
}

/// Messages of a session whose dropping is handed over and not committed, by record: a crash may
/// bring them back.
#[derive(Debug, Default)]
pub(super) struct Dropping(VecDeque<Batch>);

#[derive(Debug)]
struct Batch {
    by: Handed,
    numbers: Ranges,
    messages: usize,
    bytes: u64,
}

impl Full {
    /// Whether a session's queue takes nothing more.
    pub(super) fn has(&self, session: SessionNumber) -> bool {
        self.flagged.contains(&session)
    }

    /// Whether the end of a session, or the loss of its connection, is handed over.
    pub(super) fn ends(&self, session: SessionNumber) -> bool {
        self.ending.contains(&session)
    }

    /// A session of this lane has ended.
    pub(super) fn forget(&mut self, session: SessionNumber) {
        self.flagged.remove(&session);
        self.dropping.remove(&session);
        self.ending.remove(&session);
    }

    /// What of a session's queue is being dropped, if so much is committed.
    pub(super) fn dropping(
        &mut self,
        session: SessionNumber,
        committed: Handed,
    ) -> Option<&Dropping> {
        if self.dropping.is_empty() {
            return None;
        }
        self.dropping.get_mut(&session)?.advance(committed);
        if self.dropping[&session].0.is_empty() {
            self.dropping.remove(&session);
        }
        self.dropping.get(&session)
    }

    /// When [`Shell::relieve_queues`] is due, in log time.
    pub(super) const fn next_ms(&self) -> Option<u64> {
        self.next_ms
    }

    /// Some of what was handed over is committed: what waits for that goes on.
    pub(super) fn log_goes_on(&mut self, now_ms: u64) {
        if !self.over.is_empty() && !self.dropping.is_empty() {
            self.look_at(now_ms);
        }
    }

    fn look_at(&mut self, at_ms: u64) {
        self.next_ms = Some(self.next_ms.map_or(at_ms, |next| next.min(at_ms)));
    }
}

impl Dropping {
    /// Whether this number is being dropped.
    pub(super) fn has(&self, number: QueueNumber) -> bool {
        self.0.iter().any(|batch| batch.numbers.contains(number.get()))
    }

    /// Whether this number, or one before it, is: if that came back with a crash, it would come
    /// behind this one.
    //= MQTT5-4.6.0-5
    //= MQTT311-4.6.0-6
    pub(super) fn holds_back(&self, number: QueueNumber) -> bool {
        let mut firsts = self.0.iter().filter_map(|batch| batch.numbers.iter().next());
        firsts.any(|range| range.first <= number)
    }

    /// Forgets what is committed.
    fn advance(&mut self, committed: Handed) {
        while self.0.pop_front_if(|batch| batch.by <= committed).is_some() {}
    }
}

/// What a queue holds, against what one may hold.
trait Bounded: Copy {
    fn is_at(self, limits: &Limits) -> bool;

    fn is_above(self, limits: &Limits) -> bool;

    /// Room for a tenth at least, so that a flag does not flicker.
    fn has_room(self, limits: &Limits) -> bool;

    fn less(self, messages: usize, bytes: u64) -> Self;
}

impl Bounded for Load {
    fn is_at(self, limits: &Limits) -> bool {
        self.messages >= limits.max_queued_messages || self.bytes >= limits.max_queued_bytes
    }

    fn is_above(self, limits: &Limits) -> bool {
        self.messages > limits.max_queued_messages || self.bytes > limits.max_queued_bytes
    }

    fn has_room(self, limits: &Limits) -> bool {
        self.messages <= limits.max_queued_messages / 10 * 9
            && self.bytes <= limits.max_queued_bytes / 10 * 9
    }

    fn less(self, messages: usize, bytes: u64) -> Self {
        Self {
            messages: self.messages.saturating_sub(messages),
            bytes: self.bytes.saturating_sub(bytes),
            ..self
        }
    }
}

/// Whether a message that this connection was not sent may be dropped: not at QoS 2 if another may
/// have begun with it.
//= MQTT5-4.3.3-7
fn may_be_dropped(queue: &Queue, waiting: &Waiting) -> bool {
    let begun = waiting.qos == QoS::ExactlyOnce && waiting.number <= queue.doubtful();
    !waiting.taken && !begun
}

/// Whether a queue has one message alone, for a subscription that reads history: that is never too
/// much, or what no queue may hold would stop such a subscription for ever.
fn is_history_alone(queue: &Queue) -> bool {
    let mut waiting = queue.held().filter(|waiting| !waiting.taken);
    waiting.next().is_some_and(|first| first.placed) && waiting.next().is_none()
}

/// The oldest messages of a queue that make room in it, with their count and bytes; none that was
/// sent on the present connection, or is being dropped already.
///
/// After a crash the first open messages at QoS 2, as many as the client takes at a time, may have
/// been sent. So are those that were by then, if as many are left at the front: the next leaves
/// when the client has one of these for good, and that is committed behind what is dropped here.
///
/// `applied`: what the queue is without by now.
fn oldest(
    queue: &Queue,
    link: Option<&Link>,
    (dropping, applied): (&Dropping, Handed),
    limits: &Limits,
) -> (Ranges, (usize, u64)) {
    let under_way = dropping
        .0
        .iter()
        .filter(|batch| batch.by > applied)
        .fold((0, 0), |(messages, bytes), batch| (messages + batch.messages, bytes + batch.bytes));
    let before = queue.load().less(under_way.0, under_way.1);
    let (mut load, mut numbers) = (before, Ranges::default());
    let passed = link.map_or(QueueNumber::ZERO, |link| link.out.cursor());
    let mut left = link.filter(|link| link.logged).map_or(0, |link| {
        let begun = link.out.get().map_or(0, |out| out.numbers.begun());
        usize::from(link.window).saturating_sub(begun)
    });
    for one in queue.iter_from(passed.next()) {
        if !load.is_above(limits) {
            break;
        }
        if one.taken || dropping.has(one.number) {
            continue;
        }
        if one.qos == QoS::ExactlyOnce && left > 0 {
            left -= 1;
        } else if may_be_dropped(queue, &one) {
            load = load.less(1, u64::from(one.size));
            numbers.insert(one.number.get());
        }
    }
    (numbers, (before.messages - load.messages, before.bytes - load.bytes))
}

impl<D: Disk> Shell<D> {
    /// Sessions of this lane whose end for their full queue is handed over and not applied.
    pub(crate) fn ending_full(&self) -> Vec<SessionNumber> {
        let mut ending: Vec<_> = self.full.ending.iter().copied().collect();
        ending.sort_unstable();
        ending
    }

    /// Queues that were full before the start are so again.
    pub(super) fn find_full_queues(&mut self, io: &mut Io<'_, D>) {
        if self.state.queued() == 0 {
            return;
        }
        let sessions: Vec<_> = self.state.sessions().map(zzq_engine::Session::number).collect();
        for session in sessions {
            self.check_full(io, session);
        }
    }

    /// At the end of a turn: looks whether queues that were full have room again, since records
    /// that were applied, and those alone, have emptied them; and when their grace ends.
    pub(super) fn check_full_queues(&mut self, io: &mut Io<'_, D>) {
        if self.full.flagged.is_empty() {
            return;
        }
        let mut full: Vec<SessionNumber> = self.full.flagged.iter().copied().collect();
        full.sort_unstable();
        for session in full {
            self.look_at_queue(io, session, false);
            if let Some(at_ms) = self.grace_ends_ms(session) {
                self.full.look_at(at_ms);
            }
        }
    }

    /// Whether the queue of a session takes so many messages, of so many bytes together, and then
    /// neither is full nor has others wait. One that is not here is never full.
    pub(super) fn has_room_for(&self, session: SessionNumber, count: usize, bytes: usize) -> bool {
        let Some(known) = self.state.session(session) else { return true };
        let load = known.queue().load();
        // A queue counts in units of 16 bytes.
        let weight = (bytes + 16 * count) as u64;
        let (messages, bytes) = (load.messages + count, load.bytes + weight);
        let more = Load { messages, bytes, ..load };
        !more.is_at(&self.shared.options.limits) && !self.may_lag(session, more)
    }

    /// Looks at a queue that something was put into.
    pub(super) fn check_full(&mut self, io: &mut Io<'_, D>, session: SessionNumber) {
        self.look_at_queue(io, session, true);
    }

    /// Looks at a queue that may have become full, or have room again. Whether its session has
    /// begun to lag, with something `new` in it, is told with that: a lane that knew of the full
    /// queue alone would refuse who is to wait.
    fn look_at_queue(&mut self, io: &mut Io<'_, D>, session: SessionNumber, new: bool) {
        let Some(known) = self.state.session(session) else { return };
        let limits = &self.shared.options.limits;
        let load = known.queue().load();
        match limits.queue_full {
            QueueFull::Refuse | QueueFull::DropNewest => {
                let was = self.full.has(session);
                let is = if was { !load.has_room(limits) } else { load.is_at(limits) };
                let lags = new && self.begins_to_lag(io, session, load);
                if is != was {
                    self.flag(io, session, is);
                } else if lags {
                    self.announce_flags(io, session);
                }
            }
            QueueFull::EndSession | QueueFull::DropOldest => {
                if load.is_above(limits) && !is_history_alone(known.queue()) {
                    self.full.over.push(session);
                    self.full.look_at(self.now_ms);
                }
            }
        }
    }

    /// Tells the lanes that a queue has become full, or has room.
    fn flag(&mut self, io: &mut Io<'_, D>, session: SessionNumber, is_full: bool) {
        if is_full {
            self.full.flagged.insert(session);
            if let Some(known) = self.state.session(session)
                && let Some(untold) = self.full.told.tell(self.now_ms)
            {
                let Load { messages, bytes, .. } = known.queue().load();
                let client = known.client();
                tracing::warn!(
                    client,
                    messages,
                    bytes,
                    untold,
                    "a queue is full: --max-queued-messages, --max-queued-bytes; --queue-full says \
                     what happens"
                );
            }
        } else {
            self.full.flagged.remove(&session);
        }
        self.announce_flags(io, session);
    }

    /// When a session that refuses others must end, if it does not come back; in log time.
    fn grace_ends_ms(&self, session: SessionNumber) -> Option<u64> {
        let limits = &self.shared.options.limits;
        let refuses = limits.queue_full == QueueFull::Refuse && self.full.has(session);
        if !refuses || self.full.ends(session) {
            return None;
        }
        let SessionLink::Down { since_ms } = self.state.session(session)?.link() else {
            return None;
        };
        Some(self.behind_grace(since_ms))
    }

    /// When the grace for full queues ends that begins at this time.
    pub(super) fn behind_grace(&self, since_ms: u64) -> u64 {
        let grace = self.shared.options.limits.queue_grace.as_millis();
        since_ms.saturating_add(u64::try_from(grace).unwrap_or(u64::MAX))
    }

    /// Makes room where the policy says so.
    pub(super) fn relieve_queues(&mut self, io: &mut Io<'_, D>) {
        if self.full.next_ms.is_none_or(|next| next > self.now_ms) {
            return;
        }
        self.full.next_ms = None;
        if self.journal.is_read_only() {
            // Nothing is applied any more, so nothing comes on top.
            return;
        }
        // Before more is dropped, receivers get what may be sent now that the last is committed.
        self.go_on_crowded(io);
        let mut over = std::mem::take(&mut self.full.over);
        over.sort_unstable();
        over.dedup();
        for session in over {
            let relieved = match self.shared.options.limits.queue_full {
                QueueFull::EndSession => self.end_full(io, session, ENDS_AT_ONCE),
                QueueFull::DropOldest => self.drop_oldest(io, session),
                QueueFull::Refuse | QueueFull::DropNewest => true,
            };
            if !relieved {
                self.full.over.push(session);
                self.full.look_at(self.now_ms + HELD_UP_MS);
            }
        }
        let mut away: Vec<SessionNumber> = self.full.flagged.iter().copied().collect();
        away.sort_unstable();
        for session in away {
            let Some(ends_ms) = self.grace_ends_ms(session) else { continue };
            let why = "its queue is full, and it was away for longer than --queue-grace";
            if ends_ms > self.now_ms {
                self.full.look_at(ends_ms);
            } else if !self.end_full(io, session, why) {
                self.full.look_at(self.now_ms + HELD_UP_MS);
            }
        }
    }

    /// Ends a session for its full queue. False: it is to be tried again.
    pub(super) fn end_full(
        &mut self,
        io: &mut Io<'_, D>,
        session: SessionNumber,
        why: &str,
    ) -> bool {
        let Some(known) = self.state.session(session) else { return true };
        if self.full.ends(session) {
            return true;
        }
        if self.opening.contains_key(known.client()) {
            // Its client is coming back, and is told that it has a session.
            return false;
        }
        let (client, load) = (known.client().to_owned(), known.queue().load());
        let conn = self.up.get(&session).copied();
        if let Some(conn) = conn {
            if let Some(link) = self.links.up_mut(conn) {
                link.expiry_s = 0;
            }
            self.full.ending.insert(session);
            self.dismiss(io, conn, ReasonCode::QuotaExceeded, why);
        } else {
            self.full.ending.insert(session);
            if !self.end_session(io, session, false) {
                self.full.ending.remove(&session);
                return false;
            }
            if self.journal.is_log() {
                // Its client may come back before that is applied: it waits then.
                self.overlay.noted(session, self.journal.handed());
            }
        }
        if let Some(untold) = self.full.told_ended.tell(self.now_ms) {
            let Load { messages, bytes, .. } = load;
            tracing::warn!(client, messages, bytes, untold, why, "a session is ended");
        }
        true
    }

    /// A session is about to end: what is lost with it is counted if a full queue is why. What its
    /// groups may get is given to another member.
    pub(super) fn count_ended(&mut self, session: SessionNumber) {
        if !self.full.ending.contains(&session) {
            return;
        }
        let Some(known) = self.state.session(session) else { return };
        let queue = known.queue();
        let ends = |waiting: &Waiting| !waiting.taken && queue.pick(waiting.number).is_none();
        // None of those that are in an image only came by a group.
        let untouched = queue.untouched().map_or(0, |front| front.len);
        self.counts.dropped_ended += (queue.held().filter(ends).count() + untouched) as u64;
        self.counts.ended_full += 1;
    }

    /// Drops the oldest messages of a queue that is above its limit, but for those that its
    /// connection was sent. False: the log has no room, the queue is being read from its image, the
    /// session's connection comes or goes, or what was dropped under its connection before is not
    /// committed. A receiver waits for that: with one drop behind the other it would for ever.
    fn drop_oldest(&mut self, io: &mut Io<'_, D>, session: SessionNumber) -> bool {
        if self.is_between(session) || self.asks_for_queue(session) {
            return false;
        }
        let Some(known) = self.state.session(session) else { return true };
        let link = self.up.get(&session).and_then(|conn| self.links.get(*conn));
        let logged = link.is_none_or(|link| link.logged);
        let dropping = self.full.dropping.entry(session).or_default();
        dropping.advance(self.journal.committed());
        if link.is_some() && !dropping.0.is_empty() {
            return false;
        }
        let limits = &self.shared.options.limits;
        let (numbers, less) = oldest(known.queue(), link, (dropping, self.applied), limits);
        let (messages, bytes) = less;
        if messages == 0 {
            return true;
        }
        if let Some(untold) = self.full.told_dropped.tell(self.now_ms) {
            let client = known.client();
            tracing::warn!(client, messages, untold, "a queue is full: its oldest are dropped");
        }
        let mut sets = RangeSetsBuf::new();
        push_set(&mut sets, session, Closing::Dropped, &numbers);
        let expire = Expire { sets: sets.as_list(), topics: ExpiredTopics::EMPTY };
        // What is behind them is sent when that is committed.
        let how = How { waits: link.is_some(), lanes: self.bit(), frees: true };
        if !self.put(io, &Record::Expire(expire), logged, how) {
            return false;
        }
        self.counts.dropped_full += planted::counted(messages as u64);
        if logged && self.journal.is_log() {
            let by = self.journal.handed();
            let dropping = self.full.dropping.entry(session).or_default();
            dropping.0.push_back(Batch { by, numbers, messages, bytes });
        }
        true
    }

    /// Whether the connection of a session comes or goes: what the last one was sent is told by
    /// the record of its loss, and by nobody until then; and what is handed over behind CONNECT may
    /// not be committed when the next one is sent something.
    pub(super) fn is_between(&self, session: SessionNumber) -> bool {
        let Some(known) = self.state.session(session) else { return false };
        let is_up = known.link() == SessionLink::Up;
        self.opening.contains_key(known.client()) || is_up && !self.up.contains_key(&session)
    }

    /// Puts a decision without the sessions whose queue is full into `out`; how many they are.
    pub(super) fn pass_by_full(
        &mut self,
        decision: zzq_engine::Decision<'_>,
        routed: &Routed,
        out: &mut DecisionBuf,
    ) -> (Routed, u64) {
        let mut left = Routed { lanes: 0, kept: false, own_full: false, ..*routed };
        left.held = routed.held.without(SessionFlags::FULL);
        for to in decision {
            let flags = self.index.flags(to.session).map_or(SessionFlags::NONE, |known| known.0);
            if to.qos.is_acknowledged() && flags.contains(SessionFlags::FULL) {
                continue;
            }
            left.kept |= to.qos.is_acknowledged() && flags.contains(SessionFlags::PERSISTENT);
            left.lanes |= 1 << self.index.lane(to.session).unwrap_or(self.lane.0);
            let ids: Vec<_> = to.ids.into_iter().collect();
            out.push(to.session, to.qos, to.retain, to.pick, ids);
        }
        left.destinations = out.len();
        (left, (routed.destinations - out.len()) as u64)
    }
}
