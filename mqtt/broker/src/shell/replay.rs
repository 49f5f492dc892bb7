//! Subscriptions that start in the past: history enters their sessions' queues, a stretch at a
//! time, until nothing is left between it and what is published.
//!
//! Owns: for each such subscription of a connected client what is done next. A stretch of the log
//! is asked for while the queue has room; what it brings is a record, which also says how far the
//! subscription has come; the next one follows when that is committed. What is at QoS 0 has no
//! queue: it is sent when the record is committed and all before it was sent.
//! Assumes: the step from history to what is live is `zzq_engine`'s
//! [`Replay`](zzq_engine::session::Replay): it is proposed behind the fence of the subscription
//! only, so every message that history does not bring was decided for it.

use std::collections::{BTreeMap, VecDeque};

use rustc_hash::FxHashMap;
use zzq_engine::record::{History, LateItem, LateItemsBuf};
use zzq_engine::session::Replay;
use zzq_engine::{Handed, QueueNumber, Record, SessionNumber, SubNumber, SubscriptionIdsBuf};
use zzq_lanes::ConnId;
use zzq_types::{Lsn, QoS, ReasonCode, SubscriptionId};
use zzq_wal::disk::Disk;

use super::changes::{News, Tell, Then};
use super::hold::LEAST;
use super::journal::How;
use super::message::Message;
use super::wire::{Content, Ids};
use super::{Io, Shell};
use crate::planted::{self, Bug};
use crate::replay::ask::{Ask, Start, topic_filter};
use crate::replay::{Hold, PastMessage, ReplaySeat, Stretch, Wanted};

/// Messages of one stretch, and bytes in a queue above which no other is asked for.
const STRETCH_MOST: usize = 1024;
const QUEUE_BYTES: u64 = 1 << 20;

/// Bytes of messages of one stretch, where there is room for them.
const STRETCH_BYTES: usize = 512 << 10;

/// The first record of every log.
const FIRST: Lsn = Lsn::new(1);

/// A place is recorded when so many records were read of which none matches.
const SAVE_EVERY: u64 = 1 << 20;

type Key = (SessionNumber, SubNumber);

/// What starts behind a fence: subscriptions of a session, each with the turn in which its fence
/// was asked for. One that was asked for again meanwhile starts behind that one: what was decided
/// before it may have passed the subscription by.
pub(super) type Starts = Vec<(SubNumber, u64)>;

/// See the file.
#[derive(Debug)]
pub(super) struct Replaying {
    seat: Option<ReplaySeat>,
    cursors: BTreeMap<Key, Cursor>,
    /// Subscriptions whose fence is awaited, with the turn in which it was asked for last.
    fences: BTreeMap<Key, u64>,
    last_turn: u64,
    /// Those that have it, to be looked at once it is applied here.
    starting: Vec<(Lsn, ConnId, SessionNumber, Starts)>,
    /// What was read is held until its record is applied, and then by that.
    holds: VecDeque<(Handed, Hold)>,
    /// Messages whose record is handed over.
    messages: FxHashMap<Lsn, Message>,
    /// Bytes of all stretches that are here or asked for, as of the last turn or more.
    memory: usize,
    last_ticket: u64,
}

/// One subscription.
#[derive(Debug)]
struct Cursor {
    conn: ConnId,
    filter: Box<str>,
    qos: QoS,
    retain_as_published: bool,
    id: Option<SubscriptionId>,
    /// All lanes decide for it what lies behind.
    fence: Lsn,
    /// Where its state is.
    base: Lsn,
    /// How far was read.
    next: Lsn,
    /// No number that history got is higher.
    last: QueueNumber,
    ticket: u64,
    /// The next message is so heavy that it waits until it is alone in the queue.
    is_heavy: bool,
    step: Step,
    ahead: Ahead,
    /// Bytes of the stretch that is asked for or here, and of the one behind it.
    memory: usize,
    memory_ahead: usize,
}

/// The stretch behind the one that is being handed over and sent, if it goes out at QoS 0 as that
/// does: no queue has to have room for it.
#[derive(Debug)]
enum Ahead {
    Nothing,
    /// It is under way.
    Asked,
    Found(Stretch),
}

/// Room for history in a queue.
#[derive(Clone, Copy, Debug)]
struct Room {
    messages: usize,
    bytes: u64,
    /// There is nothing else in the queue.
    is_all: bool,
    /// Bytes of messages that are not in the queue yet, or never will be.
    memory: usize,
}

#[derive(Debug)]
enum Step {
    /// The next stretch is to be asked for.
    Due,
    /// It is under way.
    Asked,
    /// It is to be handed over.
    Found(Stretch),
    /// Its record is to be committed; what it brings at QoS 0 is sent then.
    Handed(Handed, VecDeque<PastMessage>),
    /// That is being sent.
    Sending(VecDeque<PastMessage>),
    /// There is nothing to read before this record is committed.
    Waits(Lsn),
}

/// Where the first step is made.
pub(super) fn begin(ask: &Ask<'_>, now_ms: u64) -> Replay {
    match ask.start {
        Start::All => Replay::new(FIRST, 0),
        _ if planted::is(Bug::StartIgnored) => Replay::new(FIRST, 0),
        Start::Offset(offset) => Replay::new(Lsn::new(offset).max(FIRST), 0),
        Start::Time(since_ms) => Replay::new(FIRST, since_ms),
        Start::Ago(ms) => Replay::new(FIRST, now_ms.saturating_sub(ms)),
    }
}

impl Replaying {
    pub(super) fn new(seat: Option<ReplaySeat>) -> Self {
        Self {
            seat,
            cursors: BTreeMap::new(),
            fences: BTreeMap::new(),
            last_turn: 0,
            starting: Vec::new(),
            holds: VecDeque::new(),
            messages: FxHashMap::default(),
            memory: 0,
            last_ticket: 0,
        }
    }

    /// A subscription begins anew, or is another now.
    pub(super) fn forget(&mut self, session: SessionNumber, sub: SubNumber) {
        self.cursors.remove(&(session, sub));
    }

    /// Subscriptions that begin, or begin anew, behind a fence that is about to be asked for.
    pub(super) fn await_fence(
        &mut self,
        session: SessionNumber,
        subs: impl Iterator<Item = SubNumber>,
    ) -> Starts {
        self.last_turn += 1;
        let starts: Starts = subs.map(|sub| (sub, self.last_turn)).collect();
        self.fences.extend(starts.iter().map(|(sub, turn)| ((session, *sub), *turn)));
        starts
    }

    /// Whether a subscription takes history, or will behind its fence.
    pub(super) fn has(&self, session: SessionNumber, sub: SubNumber) -> bool {
        let key = (session, sub);
        self.cursors.contains_key(&key) || self.fences.contains_key(&key)
    }

    /// Those whose fence has come.
    fn fenced(&mut self, session: SessionNumber, starts: &Starts) -> Vec<SubNumber> {
        let mut fenced = Vec::new();
        for &(sub, turn) in starts {
            let key = (session, sub);
            if self.fences.get(&key) == Some(&turn) {
                self.fences.remove(&key);
                fenced.push(sub);
            }
        }
        fenced
    }

    /// No step of history can be recorded any more: what was read for it is of no use.
    fn give_up(&mut self) {
        self.fences.clear();
        self.starting.clear();
        self.cursors.clear();
        self.messages.clear();
        self.memory = 0;
    }

    /// Bytes of messages that are read for clients and not in their outputs.
    pub(super) const fn memory(&self) -> usize {
        self.memory
    }

    /// The same, counted one by one.
    #[cfg(test)]
    pub(super) fn counted(&self) -> usize {
        let bytes = |past: &PastMessage| past.message.content().payload.len();
        let step = |step: &Step| match step {
            Step::Found(stretch) => stretch.messages.iter().map(bytes).sum(),
            Step::Handed(_, fleeting) | Step::Sending(fleeting) => fleeting.iter().map(bytes).sum(),
            Step::Due | Step::Asked | Step::Waits(_) => 0_usize,
        };
        let ahead = |ahead: &Ahead| match ahead {
            Ahead::Found(stretch) => stretch.messages.iter().map(bytes).sum(),
            Ahead::Nothing | Ahead::Asked => 0_usize,
        };
        self.cursors.values().map(|cursor| step(&cursor.step) + ahead(&cursor.ahead)).sum()
    }

    fn take_ticket(&mut self) -> u64 {
        self.last_ticket += 1;
        self.last_ticket
    }
}

impl<D: Disk> Shell<D> {
    /// How far a subscription has come that starts in the past.
    pub(super) fn replay_of(
        &self,
        session: SessionNumber,
        sub: Option<SubNumber>,
    ) -> Option<Replay> {
        // Most have none: nothing is looked up for them.
        let sub = sub?;
        self.state.session(session)?.replay(sub).copied()
    }

    /// One more refers to a message that a late decision or history has brought.
    pub(super) fn refer(&mut self, lsn: Lsn) {
        if self.store.get(lsn).is_some() {
            self.store.refer(lsn);
        } else if let Some(message) = self.replaying.messages.remove(&lsn) {
            self.store.keep(lsn, message, 1);
        }
    }

    /// A client is back: its subscriptions go on with history behind a fence.
    pub(super) fn resume_replays(
        &mut self,
        io: &mut Io<'_, D>,
        conn: ConnId,
        session: SessionNumber,
    ) {
        let Some(known) = self.state.session(session) else { return };
        let replays = known.replays().filter(|(_, replay)| !replay.is_live);
        let starts = self.replaying.await_fence(session, replays.map(|(sub, _)| sub));
        if !starts.is_empty() {
            let then = Then::Replay { conn, session, starts };
            self.begin_change(io, Tell::Now, News::Nothing, then);
        }
    }

    /// Subscriptions of a session have their fence.
    pub(super) fn start_replays(
        &mut self,
        io: &mut Io<'_, D>,
        conn: ConnId,
        session: SessionNumber,
        starts: Starts,
    ) {
        if !starts.is_empty() && self.replaying.seat.is_some() {
            self.replaying.starting.push((self.journal.committed_lsn(), conn, session, starts));
            self.go_on_replaying(io);
        }
    }

    /// Takes what was read.
    pub(super) fn take_stretches(&mut self, io: &mut Io<'_, D>) {
        let Some(seat) = &self.replaying.seat else { return };
        let stretches = seat.take();
        if !stretches.is_empty() {
            io.turn_again();
        }
        for stretch in stretches {
            let key = (stretch.session, stretch.sub);
            if let Some(cursor) = self.replaying.cursors.get_mut(&key)
                && cursor.ticket == stretch.ticket
            {
                if matches!(cursor.step, Step::Asked) {
                    cursor.memory = stretch.bytes;
                    cursor.step = Step::Found(stretch);
                } else {
                    cursor.memory_ahead = stretch.bytes;
                    cursor.ahead = Ahead::Found(stretch);
                }
            }
        }
    }

    /// Goes on with all of them.
    pub(super) fn go_on_replaying(&mut self, io: &mut Io<'_, D>) {
        if self.replaying.seat.is_none() {
            return;
        }
        let applied = self.applied;
        while let Some((_, hold)) = self.replaying.holds.pop_front_if(|(by, _)| *by <= applied) {
            hold.until(self.followed);
        }
        if self.journal.is_read_only() {
            // A step that has its place is taken yet.
            if self.followed >= self.journal.appended_lsn() {
                self.replaying.give_up();
            }
            return;
        }
        for (fence, conn, session, starts) in std::mem::take(&mut self.replaying.starting) {
            if self.followed < fence {
                self.replaying.starting.push((fence, conn, session, starts));
                io.turn_again();
            } else {
                let fenced = self.replaying.fenced(session, &starts);
                self.begin_replays(fence, conn, session, &fenced);
            }
        }
        let keys: Vec<Key> = self.replaying.cursors.keys().copied().collect();
        for key in keys {
            let Some(mut cursor) = self.replaying.cursors.remove(&key) else { continue };
            if self.go_on_with_history(io, key, &mut cursor) {
                self.replaying.cursors.insert(key, cursor);
            }
        }
        let memory = |cursor: &Cursor| cursor.memory + cursor.memory_ahead;
        self.replaying.memory = self.replaying.cursors.values().map(memory).sum();
        let is_handed = |cursor: &Cursor| matches!(cursor.step, Step::Handed(..));
        if !self.replaying.cursors.values().any(is_handed) {
            self.replaying.messages.clear();
        }
    }

    fn begin_replays(
        &mut self,
        fence: Lsn,
        conn: ConnId,
        session: SessionNumber,
        fenced: &[SubNumber],
    ) {
        if self.links.up_mut(conn).is_none_or(|link| link.session != Some(session)) {
            return;
        }
        let Some(known) = self.state.session(session) else { return };
        let replays = known.replays();
        for (sub, replay) in replays.filter(|(sub, one)| !one.is_live && fenced.contains(sub)) {
            let key = (session, sub);
            let begun = self.replaying.cursors.get(&key);
            if begun.is_some_and(|begun| begun.conn == conn) {
                continue;
            }
            let text = known.subscriptions().filter_of(sub);
            let found =
                text.and_then(|text| Some((topic_filter(text)?, known.subscriptions().get(text)?)));
            let Some((filter, subscription)) = found else { continue };
            let cursor = Cursor {
                conn,
                filter: filter.as_str().into(),
                qos: subscription.options.qos,
                retain_as_published: subscription.options.retain_as_published,
                id: subscription.id,
                fence,
                base: replay.next,
                next: replay.next,
                last: QueueNumber::ZERO,
                ticket: self.replaying.take_ticket(),
                is_heavy: false,
                step: Step::Due,
                ahead: Ahead::Nothing,
                memory: 0,
                memory_ahead: 0,
            };
            self.replaying.cursors.insert(key, cursor);
        }
    }

    /// Makes the steps that can be made. False: there is none to come.
    fn go_on_with_history(&mut self, io: &mut Io<'_, D>, key: Key, cursor: &mut Cursor) -> bool {
        let (session, sub) = key;
        let up = self.links.up_mut(cursor.conn);
        if up.is_none_or(|link| link.session != Some(session)) {
            return false;
        }
        loop {
            let Some(replay) = self.replay_of(session, Some(sub)) else { return false };
            cursor.step = match std::mem::replace(&mut cursor.step, Step::Asked) {
                Step::Asked => return true,
                Step::Found(stretch) => match self.hand_over_history(io, key, cursor, stretch) {
                    Ok(step) => {
                        self.look_ahead(io, key, cursor, &step);
                        step
                    }
                    Err(None) => return false,
                    Err(Some(stretch)) => {
                        cursor.step = Step::Found(*stretch);
                        return true;
                    }
                },
                Step::Handed(handed, fleeting) => {
                    if handed > self.applied || !self.journal.is_committed(handed) {
                        cursor.step = Step::Handed(handed, fleeting);
                        return true;
                    }
                    // What was begun anew meanwhile has another cursor.
                    if cursor.next != replay.next {
                        (cursor.ahead, cursor.ticket) =
                            (Ahead::Nothing, self.replaying.take_ticket());
                        cursor.memory_ahead = 0;
                    }
                    (cursor.base, cursor.next) = (replay.next, replay.next);
                    let known = self.state.session(session);
                    cursor.last = known.map_or(cursor.last, |known| known.queue().last());
                    Step::Sending(fleeting)
                }
                Step::Sending(mut fleeting) => {
                    if !self.send_fleeting(io, session, cursor, &mut fleeting) {
                        cursor.step = Step::Sending(fleeting);
                        return true;
                    }
                    cursor.memory = std::mem::take(&mut cursor.memory_ahead);
                    match std::mem::replace(&mut cursor.ahead, Ahead::Nothing) {
                        Ahead::Nothing => Step::Due,
                        // What was read ahead has come as live.
                        _ if replay.is_live => return false,
                        Ahead::Asked => Step::Asked,
                        Ahead::Found(stretch) => Step::Found(stretch),
                    }
                }
                Step::Waits(lsn) if lsn > self.journal.committed_lsn() => {
                    cursor.step = Step::Waits(lsn);
                    return true;
                }
                Step::Due if replay.is_live => return false,
                Step::Waits(_) | Step::Due => {
                    let Some(step) = self.next_step(io, key, cursor, replay) else {
                        cursor.step = Step::Due;
                        return true;
                    };
                    step
                }
            };
        }
    }

    /// What follows a stretch that is done; `None` if the queue has no room.
    fn next_step(
        &mut self,
        io: &mut Io<'_, D>,
        key: Key,
        cursor: &mut Cursor,
        replay: Replay,
    ) -> Option<Step> {
        let session = key.0;
        if cursor.next > self.journal.committed_lsn() {
            if replay.passed_by >= cursor.next {
                self.later.pump(replay.passed_by, session);
                return Some(Step::Waits(replay.passed_by));
            }
            // All that was decided for it so far is taken.
            return self.put_history(io, key, cursor, true, &[]);
        }
        let room = self.room_for_history(io, session, cursor)?;
        self.ask_for_history(key, cursor, replay.since_ms, room)?;
        cursor.memory = room.memory;
        Some(Step::Asked)
    }

    /// Asks for what follows a stretch that is to be sent at QoS 0, so that it is read meanwhile.
    fn look_ahead(&mut self, io: &mut Io<'_, D>, key: Key, cursor: &mut Cursor, step: &Step) {
        let is_fleeting = cursor.qos == QoS::AtMostOnce
            && matches!(step, Step::Handed(_, fleeting) if !fleeting.is_empty());
        if !is_fleeting || cursor.next > self.journal.committed_lsn() {
            return;
        }
        let replay = self.replay_of(key.0, Some(key.1));
        let room = self.room_for_history(io, key.0, cursor);
        if let Some((replay, room)) = replay.zip(room)
            && room.memory == STRETCH_BYTES
            && self.ask_for_history(key, cursor, replay.since_ms, room).is_some()
        {
            (cursor.ahead, cursor.memory_ahead) = (Ahead::Asked, room.memory);
        }
    }

    fn ask_for_history(
        &mut self,
        (session, sub): Key,
        cursor: &mut Cursor,
        since_ms: u64,
        room: Room,
    ) -> Option<()> {
        let wanted = Wanted {
            session,
            sub,
            ticket: self.replaying.take_ticket(),
            from: cursor.next,
            since_ms,
            filter: cursor.filter.clone(),
            qos: cursor.qos,
            retain_as_published: cursor.retain_as_published,
            most: room.messages,
            most_bytes: room.bytes,
            alone: room.is_all,
            most_memory: room.memory,
            now_ms: self.now_ms,
        };
        cursor.ticket = wanted.ticket;
        self.replaying.seat.as_ref()?.request(wanted);
        self.replaying.memory += room.memory;
        Some(())
    }

    /// What a session may be given now, if anything: what its client takes at a time, and as much
    /// again. It leaves room in the queue for what is published. What comes at QoS 0 takes none.
    fn room_for_history(
        &self,
        io: &mut Io<'_, D>,
        session: SessionNumber,
        cursor: &Cursor,
    ) -> Option<Room> {
        let conn = cursor.conn;
        let limits = &self.shared.options.limits;
        if self.clogged.contains(conn) || io.output_held(conn) > self.output_most().now(io) {
            self.notify_drained(io, conn);
            return None;
        }
        let queue = self.state.session(session)?.queue();
        let window = self.links.get(conn)?.window;
        let most = (2 * usize::from(window)).max(16).min(limits.max_queued_messages.div_ceil(2));
        let bytes = QUEUE_BYTES.min(limits.max_queued_bytes.div_ceil(2));
        let left = most.checked_sub(queue.len()).filter(|left| *left > 0)?;
        let free = (limits.max_queued_bytes / 4 * 3).saturating_sub(queue.bytes());
        let (others, comes) = self.others_of(session);
        let is_all = queue.is_empty() && !comes;
        let messages = match cursor.qos {
            QoS::AtMostOnce => STRETCH_MOST,
            _ => (left / (others + 1)).clamp(1, STRETCH_MOST),
        };
        let bytes_left = free / (others as u64 + 1);
        let room = Room { messages, bytes: bytes_left, is_all, memory: self.stretch_bytes(io) };
        (queue.bytes() < bytes && (is_all || !cursor.is_heavy)).then_some(room)
    }

    /// Bytes of messages that one stretch may bring: what waits of history counts as output does.
    fn stretch_bytes(&self, io: &Io<'_, D>) -> usize {
        let waits = io.output_held_of_all() + self.replaying.memory + self.receiving.all_bytes();
        self.shared.output_bytes().saturating_sub(waits).clamp(LEAST, STRETCH_BYTES)
    }

    /// How many others of a session's subscriptions take history, and whether some is on its way
    /// into the queue.
    fn others_of(&self, session: SessionNumber) -> (usize, bool) {
        let all = (session, SubNumber::new(0))..=(session, SubNumber::new(u32::MAX));
        let others = || self.replaying.cursors.range(all.clone()).map(|(_, cursor)| &cursor.step);
        let comes = |step: &Step| matches!(step, Step::Asked | Step::Found(_) | Step::Handed(..));
        (others().count(), others().any(comes))
    }

    /// A stretch becomes a record. `Err` with it: the log has no room; without: its client is cut
    /// off.
    fn hand_over_history(
        &mut self,
        io: &mut Io<'_, D>,
        (session, sub): Key,
        cursor: &mut Cursor,
        stretch: Stretch,
    ) -> Result<Step, Option<Box<Stretch>>> {
        if let Some(error) = &stretch.error {
            tracing::error!(error, session = session.get(), "history cannot be read");
            let why = "its history cannot be read";
            self.dismiss(io, cursor.conn, ReasonCode::UnspecifiedError, why);
            return Err(None);
        }
        if let Some(begins) = stretch.begins.filter(|_| cursor.next > FIRST) {
            tracing::warn!(
                session = session.get(),
                filter = &*cursor.filter,
                wanted = cursor.next.get(),
                begins = begins.get(),
                "history was let go before it was taken: --retain-log keeps more"
            );
        }
        cursor.is_heavy = stretch.has_no_room;
        let all = stretch.is_end && stretch.next > cursor.fence;
        let read = stretch.next.get() - cursor.base.get();
        if stretch.messages.is_empty() && !all && read < SAVE_EVERY {
            (cursor.next, cursor.memory) = (stretch.next, 0);
            return Ok(Step::Due);
        }
        let before = std::mem::replace(&mut cursor.next, stretch.next);
        let step = self.put_history(io, (session, sub), cursor, all, &stretch.messages);
        let Some(Step::Handed(handed, _)) = step else {
            cursor.next = before;
            return Err(Some(Box::new(stretch)));
        };
        if handed > Handed::NONE {
            self.replaying.holds.push_back((handed, stretch.hold));
        }
        let mut messages = VecDeque::from(stretch.messages);
        messages.retain(|past| past.qos == QoS::AtMostOnce);
        Ok(Step::Handed(handed, messages))
    }

    /// Records that history was taken up to where the cursor is. `None`: the log has no room.
    fn put_history(
        &mut self,
        io: &mut Io<'_, D>,
        (session, sub): Key,
        cursor: &mut Cursor,
        may_be_all: bool,
        messages: &[PastMessage],
    ) -> Option<Step> {
        let mut ids = SubscriptionIdsBuf::new();
        if let Some(id) = cursor.id {
            ids.push(id);
        }
        let mut items = LateItemsBuf::new();
        for past in messages.iter().filter(|past| past.qos != QoS::AtMostOnce) {
            items.push(&LateItem {
                lsn: past.lsn,
                qos: past.qos,
                retain: past.retain,
                size: past.size,
                expires_ms: past.expires_ms,
                pick: None,
                orphan: None,
                ids: ids.as_ids(),
            });
            self.replaying.messages.insert(past.lsn, past.message.clone());
        }
        let logged = self.links.get(cursor.conn).is_some_and(|link| link.logged);
        let (from, next) = (cursor.base, cursor.next);
        let items = items.as_list();
        let history = History { session, sub, from, next, may_be_all, items };
        let how = How { waits: true, lanes: self.bit(), frees: false };
        if !self.put(io, &Record::History(history), logged, how) {
            return None;
        }
        let handed = if logged { self.journal.handed() } else { Handed::NONE };
        Some(Step::Handed(handed, VecDeque::new()))
    }

    /// Sends history at QoS 0, behind what was queued of it before. False: not all of it yet.
    fn send_fleeting(
        &mut self,
        io: &mut Io<'_, D>,
        session: SessionNumber,
        cursor: &Cursor,
        fleeting: &mut VecDeque<PastMessage>,
    ) -> bool {
        let conn = cursor.conn;
        let ids: Vec<_> = cursor.id.into_iter().collect();
        while let Some(past) = fleeting.front() {
            let is_sent = self.links.get(conn).is_some_and(|link| link.out.cursor() >= cursor.last);
            if !is_sent || !self.has_room_for_fleeting(io, conn) {
                return false;
            }
            self.wire.begin(1);
            let content = Content { place: Some(past.lsn), ..past.message.content() };
            self.deliver0(io, session, content, past.retain, Ids::List(&ids), false);
            fleeting.pop_front();
        }
        true
    }

    fn has_room_for_fleeting(&self, io: &mut Io<'_, D>, conn: ConnId) -> bool {
        let most = self.output_most().now(io);
        let has_room = !self.clogged.contains(conn) && io.output_held(conn) <= most / 2;
        if !has_room {
            self.notify_drained(io, conn);
        }
        has_room
    }
}
