//! What one connection sends of its session's queue: which number next, what answers mean.
//!
//! Owns: the numbers under way on this connection, the client's window, and the rules that keep
//! packet identifiers unique over a crash:
//! a number is sent in its turn, once the number 65 535 below is closed by a committed receipt;
//! at most 32 767 are sent whose record is not committed; what a late decision brought waits for
//! its commit. Numbers left from before come first: PUBREL for those that were taken, PUBLISH
//! with DUP for those that may have been sent.
//! Does not know: messages, bytes, whether a message was published at QoS 2 (then its deliveries
//! wait for the commit, whatever their QoS: the caller's matter, as is when a PUBREL may leave).
//! Waits for nothing: what stops it, it names, and each of these ends by an event of the caller's:
//! a new message, an answer of the client, a receipt that is applied, a commit.
//! Assumes: it begins when the Connect of its connection is committed, or nothing ever is.

use std::collections::VecDeque;

use zzq_types::{Lsn, PacketId, QoS};

use super::queue::{JUMP, Queue, Waiting};
use crate::number::QueueNumber;

/// How many numbers may be sent whose record is not committed: less than a crash skips.
pub const EARLY_MAX: u64 = JUMP - 1;

/// How many packet identifiers there are.
const COUNT: u64 = PacketId::COUNT as u64;

/// The numbers of a session's queue on one connection. Where there are fewer identifiers than MQTT
/// has they come round sooner, and the rules are the same: for tests that try everything.
#[derive(Clone, Debug)]
pub struct Outbound<const IDS: u64 = COUNT> {
    window: u16,
    /// Messages of the window that are not answered for good.
    used: u16,
    /// All up to here were sent or passed over.
    cursor: u64,
    /// The highest number sent as PUBLISH.
    sent: u64,
    /// Ascending; finished ones leave from the front.
    flight: VecDeque<Flight>,
    early: Early,
    closed: Closed,
    given_up: GivenUp,
    /// A number whose identifier was free when this was applied.
    free: Option<(u64, Lsn)>,
}

/// How far the log is.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// What this part of the state has applied.
    pub applied: Lsn,
    /// What may be acted upon for good.
    pub committed: Lsn,
    /// From here on are numbers that no log has: they are final at once.
    pub unlogged: Lsn,
}

/// What to send next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outgoing {
    /// A PUBLISH; [`Outbound::sent`] says that it was.
    Publish {
        /// The message.
        waiting: Waiting,
        /// Its packet identifier.
        id: PacketId,
        /// Whether it may have been sent before.
        dup: bool,
        /// Whether its number is final.
        committed: bool,
    },
    /// A PUBREL for a message that was taken before this connection; [`Outbound::sent`] says that
    /// it was sent.
    Release {
        /// The number.
        number: QueueNumber,
        /// Its packet identifier.
        id: PacketId,
    },
    /// Nothing waits.
    Nothing,
    /// The client's window is full: an answer comes first.
    Window,
    /// The number 65 535 below is open: an answer comes first, and its receipt is applied. Or what
    /// was given up is: that is applied first.
    Identifier,
    /// The commit of this record comes first.
    Commit(Lsn),
}

/// What a PUBACK or a PUBCOMP means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answered {
    /// The message is answered for good: a receipt [`Closed`](crate::record::Closing::Closed).
    Closed(QueueNumber),
    /// The message under way with this identifier awaits another answer.
    Unfit,
    /// No message with this identifier is under way.
    Unknown,
}

/// What a PUBREC means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// The message is taken: a receipt [`Taken`](crate::record::Closing::Taken), and PUBREL once
    /// it is committed.
    Taken(QueueNumber),
    /// It was taken before, and its PUBREL waits for the commit of that.
    Pending,
    /// It was taken before, and its PUBREL was sent: it is sent again.
    Again(QueueNumber),
    /// The client refused it: a receipt [`Closed`](crate::record::Closing::Closed).
    Refused(QueueNumber),
    /// The message under way with this identifier is at QoS 1.
    Unfit,
    /// No message with this identifier is under way.
    Unknown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Flight {
    number: u64,
    step: Step,
    /// Whether it is part of the window: not PUBRELs from before.
    counts: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// PUBLISH at QoS 1 sent.
    Sent1,
    /// PUBLISH at QoS 2 sent.
    Sent2,
    /// PUBREC came.
    Taken,
    /// PUBREL sent.
    Released,
    /// Answered for good.
    Done,
}

/// How far the numbers sent are known to be final. It follows two numbers, not each: what was
/// sent last when the one before had become final.
#[derive(Clone, Copy, Debug, Default)]
struct Early {
    settled: u64,
    pending: Option<(Lsn, u64)>,
    latest: (Lsn, u64),
}

/// The first number that may be open by what is committed.
#[derive(Clone, Copy, Debug, Default)]
struct Closed {
    first_open: u64,
    pending: Option<(Lsn, u64)>,
}

/// Messages at QoS 2 that were given up and whose closing is not known to be committed.
#[derive(Clone, Debug, Default)]
struct GivenUp {
    /// How many there are.
    count: u64,
    /// Those whose closing is not seen to be applied, in ranges, as they were given up.
    open: VecDeque<(u64, u64)>,
    /// When the others were seen to be closed this was applied; and how many they are.
    pending: Option<(Lsn, u64)>,
}

impl Outbound {
    /// For a new connection whose client takes `window` messages unacknowledged.
    pub fn new(queue: &Queue, window: u16) -> Self {
        Self::from(queue.first_open(), window)
    }

    /// The same, when the connection is not as new any more: `first_open` is what was the first
    /// open number of the queue when it was, and nothing was sent since.
    pub const fn from(first_open: QueueNumber, window: u16) -> Self {
        Self::begin(first_open, window)
    }
}

impl<const IDS: u64> Outbound<IDS> {
    const fn begin(first_open: QueueNumber, window: u16) -> Self {
        let first_open = first_open.get();
        Self {
            window,
            used: 0,
            cursor: first_open - 1,
            sent: 0,
            flight: VecDeque::new(),
            early: Early { settled: first_open - 1, pending: None, latest: (Lsn::ZERO, 0) },
            closed: Closed { first_open, pending: None },
            given_up: GivenUp { count: 0, open: VecDeque::new(), pending: None },
            free: None,
        }
    }

    /// The highest number that was sent, for the record of the session's going down.
    pub const fn highest_sent(&self) -> QueueNumber {
        QueueNumber::new(self.sent)
    }

    /// The highest number that was sent, or passed over.
    pub const fn cursor(&self) -> QueueNumber {
        QueueNumber::new(self.cursor)
    }

    /// Whether a number up to this one is still to be sent or passed over.
    pub fn owes_up_to(&self, queue: &Queue, number: QueueNumber) -> bool {
        self.unsent(queue).next().is_some_and(|next| next.number <= number)
    }

    /// What is still to be sent or passed over.
    pub fn unsent<'a>(&self, queue: &'a Queue) -> impl Iterator<Item = Waiting> + use<'a, IDS> {
        queue.iter_from(QueueNumber::new(self.cursor + 1))
    }

    /// How many messages at QoS 2 were sent that the client has not said to have.
    pub fn begun(&self) -> usize {
        self.flight.iter().filter(|flight| flight.step == Step::Sent2).count()
    }

    /// Whether the client has to say something about what it was sent.
    pub fn awaits_client(&self) -> bool {
        let speaks = |step| matches!(step, Step::Sent1 | Step::Sent2 | Step::Released);
        self.flight.iter().any(|flight| speaks(flight.step))
    }

    /// How many messages of the window are not answered.
    pub const fn in_flight(&self) -> u16 {
        self.used
    }

    /// What to send next.
    //= MQTT311-3.3.1-1
    //= MQTT311-4.4.0-1
    //= MQTT5-3.3.1-1
    //= MQTT5-3.3.4-9
    //= MQTT5-4.3.2-1
    //= MQTT5-4.3.3-1
    //= MQTT5-4.4.0-1
    //= MQTT5-4.6.0-5
    //= MQTT311-4.6.0-5
    //= MQTT5-4.8.2-4
    //= MQTT5-4.9.0-2
    pub fn next(&mut self, queue: &Queue, progress: Progress) -> Outgoing {
        self.early.advance(progress.committed);
        self.closed.advance(queue.first_open().get(), progress);
        let Some(waiting) = queue.iter_from(QueueNumber::new(self.cursor + 1)).next() else {
            return Outgoing::Nothing;
        };
        let number = waiting.number;
        let id = id_of::<IDS>(number.get());
        if waiting.taken {
            return Outgoing::Release { number, id };
        }
        if self.used >= self.window {
            return Outgoing::Window;
        }
        if let Some(taken) = self.identifier_is_taken(queue, number, progress) {
            return taken;
        }
        let is_final =
            waiting.queued_at <= progress.committed || waiting.queued_at >= progress.unlogged;
        let is_late = waiting.queued_at != waiting.lsn;
        if !is_final && (is_late || number.get() - self.early.settled > EARLY_MAX) {
            return Outgoing::Commit(waiting.queued_at);
        }
        let dup = number <= queue.dup_through();
        Outgoing::Publish { waiting, id, dup, committed: is_final }
    }

    /// What a number waits for whose identifier another may still have: one that is not closed
    /// for good, or one that was given up while it was under way. Over crashes numbers jump, so
    /// that an open one may be several rounds below.
    //= MQTT5-2.2.1-4
    //= MQTT311-2.3.1-4
    fn identifier_is_taken(
        &mut self,
        queue: &Queue,
        number: QueueNumber,
        progress: Progress,
    ) -> Option<Outgoing> {
        let before = number.get().checked_sub(IDS)?;
        let oldest = self.flight.front().map_or(u64::MAX, |flight| flight.number);
        if self.closed.first_open.min(oldest) > before {
            return None;
        }
        let lowest = queue.first_open().get().min(oldest);
        let mut others = rounds::<IDS>(before, lowest);
        if others.any(|other| {
            self.under_way(other).is_some() || queue.get(QueueNumber::new(other)).is_some()
        }) {
            return Some(Outgoing::Identifier);
        }
        if self.closed.first_open > before {
            return None;
        }
        // Closed, by what is applied: acted upon once that is committed.
        let known = self.free.filter(|(free, _)| *free == number.get());
        let (_, since) = *self.free.insert(known.unwrap_or((number.get(), progress.applied)));
        (since > progress.committed).then_some(Outgoing::Commit(since))
    }

    /// What [`Outbound::next`] gave was sent.
    ///
    /// # Panics
    /// If it was sent or passed over before.
    pub fn sent(&mut self, outgoing: &Outgoing) {
        let (number, step, counts) = match outgoing {
            Outgoing::Publish { waiting, committed, .. } => {
                self.used += 1;
                self.sent = waiting.number.get();
                self.early.sent(waiting.number.get(), waiting.queued_at, *committed);
                let exactly = waiting.qos == QoS::ExactlyOnce;
                (waiting.number, if exactly { Step::Sent2 } else { Step::Sent1 }, true)
            }
            Outgoing::Release { number, .. } => (*number, Step::Released, false),
            _ => return,
        };
        assert!(number.get() > self.cursor, "numbers are sent in order");
        self.cursor = number.get();
        self.flight.push_back(Flight { number: number.get(), step, counts });
    }

    /// How many of the next `count` messages, the first of them `first`, which no log has, may be
    /// sent at once as new ones; 0 if another message comes before them, or [`Outbound::next`]
    /// has to say what stops them. [`Outbound::run_sent`] follows.
    pub fn next_of_run(
        &mut self,
        queue: &Queue,
        first: QueueNumber,
        count: usize,
        progress: Progress,
    ) -> usize {
        self.early.advance(progress.committed);
        self.closed.advance(queue.first_open().get(), progress);
        let next = queue.iter_from(QueueNumber::new(self.cursor + 1)).next();
        let is_next = next.is_some_and(|waiting| {
            waiting.number == first && waiting.queued_at >= progress.unlogged
        });
        let room = usize::from(self.window - self.used.min(self.window));
        let count = count.min(room);
        let last = first.get() + count as u64;
        let oldest = self.flight.front().map_or(u64::MAX, |flight| flight.number);
        let free = self.closed.first_open.min(oldest) + IDS > last;
        if is_next && free && first > queue.dup_through() { count } else { 0 }
    }

    /// The first so many of what [`Outbound::next_of_run`] was asked for were sent.
    ///
    /// # Panics
    /// If they were sent or passed over before, or are more than the window has room for.
    pub fn run_sent(&mut self, first: QueueNumber, count: usize, qos: QoS) {
        assert!(first.get() > self.cursor, "numbers are sent in order");
        let numbers = first.get()..first.get() + count as u64;
        let room = self.window - self.used.min(self.window);
        let count = u16::try_from(count).ok().filter(|count| *count <= room);
        assert!(count.is_some(), "a run fits the window");
        let Some(count) = count else { return };
        let Some(last) = numbers.clone().last() else { return };
        let step = if qos == QoS::ExactlyOnce { Step::Sent2 } else { Step::Sent1 };
        self.used += count;
        (self.cursor, self.sent) = (last, last);
        self.early.sent(last, Lsn::ZERO, true);
        self.flight.extend(numbers.map(|number| Flight { number, step, counts: true }));
    }

    /// What [`Outbound::next`] gave is not sent on this connection: the record that gives it up
    /// is handed over.
    ///
    /// # Panics
    /// If it was sent or passed over before.
    pub fn pass_over(&mut self, waiting: &Waiting) {
        let number = waiting.number.get();
        assert!(number > self.cursor, "numbers are passed over in order");
        self.cursor = number;
        if waiting.qos == QoS::ExactlyOnce {
            self.given_up.add(number);
        }
    }

    /// What a message that [`Outbound::next`] gave waits for before it is sent, if others were
    /// given up before it at QoS 2. A crash takes the first open messages at QoS 2 for those that
    /// may have been sent, as many as the window has: this one must be among them, and those are
    /// too that the crash brings back.
    //= MQTT5-4.3.3-7
    //= MQTT5-4.8.2-5
    pub fn waits_for_given_up(
        &mut self,
        queue: &Queue,
        waiting: &Waiting,
        progress: Progress,
    ) -> Option<Outgoing> {
        let is_kept = waiting.queued_at < progress.unlogged;
        if self.given_up.count == 0 || waiting.qos != QoS::ExactlyOnce || !is_kept {
            return None;
        }
        self.given_up.advance(queue, progress);
        if u64::from(self.used) + self.given_up.count < u64::from(self.window) {
            return None;
        }
        let closed = self.given_up.pending;
        Some(closed.map_or(Outgoing::Identifier, |(lsn, _)| Outgoing::Commit(lsn)))
    }

    /// A PUBACK came.
    //= MQTT5-4.3.2-3
    //= MQTT311-4.3.2-1
    pub fn acknowledged(&mut self, id: PacketId) -> Answered {
        self.answered(id, Step::Sent1)
    }

    /// A PUBREC came, with a reason code of refusal or without.
    //= MQTT5-4.3.3-3
    //= MQTT5-4.3.3-4
    //= MQTT5-4.3.3-6
    //= MQTT5-4.4.0-2
    //= MQTT311-4.3.3-1
    pub fn received(&mut self, id: PacketId, refused: bool) -> Received {
        let Some(at) = self.find(id) else { return Received::Unknown };
        let flight = &mut self.flight[at];
        let number = QueueNumber::new(flight.number);
        match flight.step {
            Step::Sent2 if refused => {
                let number = self.finish(at);
                self.given_up.add(number.get());
                Received::Refused(number)
            }
            Step::Sent2 => {
                flight.step = Step::Taken;
                Received::Taken(number)
            }
            Step::Taken => Received::Pending,
            Step::Released => Received::Again(number),
            Step::Sent1 | Step::Done => Received::Unfit,
        }
    }

    /// The PUBREL of a message that was taken on this connection was sent.
    pub fn released(&mut self, number: QueueNumber) {
        let flight = self.under_way(number.get()).and_then(|at| self.flight.get_mut(at));
        if let Some(flight) = flight.filter(|flight| flight.step == Step::Taken) {
            flight.step = Step::Released;
        }
    }

    /// A PUBCOMP came.
    //= MQTT5-4.3.3-5
    //= MQTT311-4.3.3-1
    pub fn completed(&mut self, id: PacketId) -> Answered {
        self.answered(id, Step::Released)
    }

    /// Whether a QoS 2 message with this identifier, which an earlier connection may have sent, is
    /// still to come on this one. A client that speaks of it before must not be told that the
    /// message is unknown: it would forget the identifier and take the message twice.
    //= MQTT311-4.3.3-1
    pub fn comes_again(&self, queue: &Queue, id: PacketId) -> bool {
        let newest = queue.dup_through().get();
        if newest == 0 {
            return false;
        }
        let back = u64::from(id_of::<IDS>(newest).get()) + IDS - u64::from(id.get());
        let Some(number) = newest.checked_sub(back % IDS) else { return false };
        rounds::<IDS>(number, self.cursor + 1).any(|number| {
            let waiting = queue.get(QueueNumber::new(number));
            waiting.is_some_and(|waiting| waiting.qos == QoS::ExactlyOnce)
        })
    }

    fn answered(&mut self, id: PacketId, due: Step) -> Answered {
        let Some(at) = self.find(id) else { return Answered::Unknown };
        if self.flight[at].step == due {
            Answered::Closed(self.finish(at))
        } else {
            Answered::Unfit
        }
    }

    /// Where the message with this identifier is: at most one number under way has it.
    fn find(&self, id: PacketId) -> Option<usize> {
        let (oldest, newest) = (self.flight.front()?.number, self.flight.back()?.number);
        let newest_id = u64::from(id_of::<IDS>(newest).get());
        let back = (newest_id + IDS - u64::from(id.get())) % IDS;
        rounds::<IDS>(newest.checked_sub(back)?, oldest).find_map(|number| self.under_way(number))
    }

    /// Where this number is, if it is not answered for good.
    fn under_way(&self, number: u64) -> Option<usize> {
        let oldest = self.flight.front()?.number;
        let guess = usize::try_from(number.checked_sub(oldest)?).ok()?;
        let at = match self.flight.get(guess) {
            Some(flight) if flight.number == number => guess,
            _ => self.flight.binary_search_by_key(&number, |flight| flight.number).ok()?,
        };
        (self.flight[at].step != Step::Done).then_some(at)
    }

    fn finish(&mut self, at: usize) -> QueueNumber {
        let flight = &mut self.flight[at];
        let number = QueueNumber::new(flight.number);
        flight.step = Step::Done;
        self.used -= u16::from(flight.counts);
        while self.flight.front().is_some_and(|flight| flight.step == Step::Done) {
            self.flight.pop_front();
        }
        number
    }
}

/// The identifier of this number.
const fn id_of<const IDS: u64>(number: u64) -> PacketId {
    PacketId::of_queue_number(1 + (number - 1) % IDS)
}

/// The numbers down to `lowest` that have the identifier of `number`, itself first.
fn rounds<const IDS: u64>(number: u64, lowest: u64) -> impl Iterator<Item = u64> {
    (0..)
        .map_while(move |round| number.checked_sub(round * IDS))
        .take_while(move |number| *number >= lowest.max(1))
}

impl Early {
    /// A number that is final already is so with those before it.
    fn sent(&mut self, number: u64, queued_at: Lsn, is_final: bool) {
        if is_final && self.pending.is_none() {
            self.settled = number;
            return;
        }
        self.latest = (if is_final { self.latest.0 } else { queued_at }, number);
        self.pending.get_or_insert(self.latest);
    }

    fn advance(&mut self, committed: Lsn) {
        for _ in 0..2 {
            let Some((_, number)) = self.pending.filter(|(lsn, _)| *lsn <= committed) else {
                return;
            };
            self.settled = number;
            self.pending = Some(self.latest).filter(|(_, latest)| *latest > number);
        }
    }
}

impl Closed {
    fn advance(&mut self, first_open: u64, progress: Progress) {
        let Progress { applied, committed, .. } = progress;
        if let Some((_, known)) = self.pending.filter(|(lsn, _)| *lsn <= committed) {
            self.first_open = known;
            self.pending = None;
        }
        if self.pending.is_none() && first_open > self.first_open {
            if applied <= committed {
                self.first_open = first_open;
            } else {
                self.pending = Some((applied, first_open));
            }
        }
    }
}

impl GivenUp {
    fn add(&mut self, number: u64) {
        self.count += 1;
        match self.open.back_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => self.open.push_back((number, number)),
        }
    }

    fn advance(&mut self, queue: &Queue, progress: Progress) {
        let Progress { applied, committed, .. } = progress;
        if let Some((_, count)) = self.pending.take_if(|(lsn, _)| *lsn <= committed) {
            self.count -= count;
        }
        if self.pending.is_some() {
            return;
        }
        let mut closed = 0;
        while let Some(&(first, last)) = self.open.front() {
            let next = queue.iter_from(QueueNumber::new(first)).next();
            if next.is_some_and(|waiting| waiting.number.get() <= last) {
                break;
            }
            closed += last - first + 1;
            self.open.pop_front();
        }
        if applied <= committed {
            self.count -= closed;
        } else if closed > 0 {
            self.pending = Some((applied, closed));
        }
    }
}

#[cfg(test)]
mod tests;
