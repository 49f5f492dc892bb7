//! The queue of a session: references to messages, their numbers, and what is still owed.
//!
//! Owns: numbers and what is known of each: waiting, taken by the client (PUBREC), closed.
//! Entries ascend; closed ones leave at once from the front and by and by from the middle, so
//! what is not here and below `next` is closed. A jump leaves a gap, which counts as closed. The
//! front of a queue that an image holds may have stayed there: see [`untouched`].
//! Does not know: the messages, the connection, which numbers are under way on it.

mod extras;
mod untouched;

use std::collections::{BTreeSet, VecDeque};

use zzq_types::{Lsn, QoS};

pub(crate) use self::extras::Extra;
pub use self::untouched::Untouched;

use self::extras::Extras;
use crate::decision::SubscriptionIds;
use crate::number::{QueueNumber, SubNumber};
use crate::planted::{self, Bug};
use crate::record::NumberRange;

/// How far numbers jump over a crash: more than may be sent above what the log holds.
pub const JUMP: u64 = 32_768;

/// The widest distance between the first open number and the next; a jump that would pass it is
/// left out, and a message refused.
const SPAN_MAX: u64 = 1 << 31;

/// Closed entries are swept out when there are more than this, and more than open ones.
const SWEEP_MIN: usize = 64;

/// One message that waits: 16 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    lsn: u64,
    /// The low half of the number; the queue's `base` has the rest.
    low: u32,
    /// Size in units of 16 bytes, times 256, plus the flags.
    size_flags: u32,
}

const _: () = assert!(size_of::<Entry>() == 16);

const QOS2: u32 = 1;
const RETAIN: u32 = 1 << 1;
const TAKEN: u32 = 1 << 2;
const CLOSED: u32 = 1 << 3;
const EXTRA: u32 = 1 << 4;
const LATE: u32 = 1 << 5;
const PLACED: u32 = 1 << 6;
const FLAGS: u32 = 0xFF;
const SIZE_UNIT: u32 = 16;

/// A message to be put into a queue.
#[derive(Clone, Debug)]
pub(crate) struct Incoming {
    pub(crate) lsn: Lsn,
    pub(crate) qos: QoS,
    pub(crate) retain: bool,
    pub(crate) size: u32,
    /// The record of the late decision, if one brought the message.
    pub(crate) late: Option<Lsn>,
    /// It is sent with its place.
    pub(crate) placed: bool,
    pub(crate) extra: Option<Extra>,
}

/// A message of a queue that is not closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Its number.
    pub number: QueueNumber,
    /// The record that holds it.
    pub lsn: Lsn,
    /// The record whose commit makes its number final.
    pub queued_at: Lsn,
    /// QoS of the delivery: 1 or 2.
    pub qos: QoS,
    /// The RETAIN flag of the delivery.
    pub retain: bool,
    /// Whether the client has it (its PUBREC is applied): only PUBREL and PUBCOMP remain, and the
    /// message itself is held no more.
    pub taken: bool,
    /// Whether it is sent with its place in the log and its time: its subscription started in the
    /// past.
    pub placed: bool,
    /// What the message weighs, rounded up to 16 bytes.
    pub size: u32,
}

/// What waits: messages, and what they weigh: sizes rounded up to 16 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Taken ones among them.
    pub messages: usize,
    /// Of those that are held.
    pub bytes: u64,
    /// What the queue takes in memory to refer to them, wherever they are themselves; nothing for
    /// what is in an image only.
    pub memory: u64,
}

impl Load {
    /// A queue that was counted as `before` has changed.
    #[inline]
    pub(crate) fn replace(&mut self, before: Self, now: Self) {
        self.messages = self.messages - before.messages + now.messages;
        self.bytes = self.bytes - before.bytes + now.bytes;
        self.memory = self.memory - before.memory + now.memory;
    }
}

/// A session's messages at QoS 1 and 2.
#[derive(Clone, Debug, Default)]
pub struct Queue {
    entries: VecDeque<Entry>,
    /// A number at or below the first entry, less than 2^32 below every entry.
    base: u64,
    /// One below the number that the next message gets.
    last: u64,
    /// Numbers up to here that are open are sent with DUP.
    dup_through: u64,
    /// QoS 2 numbers up to here that are not taken may have been sent.
    doubtful: u64,
    /// The record of the newest late decision.
    late_at: u64,
    open: usize,
    bytes: u64,
    extras: Option<Box<Extras>>,
    /// The front of the queue, as far as it is in an image only.
    untouched: Option<Box<Untouched>>,
}

impl Queue {
    /// One that nothing was ever in.
    pub(crate) const fn new() -> Self {
        Self {
            entries: VecDeque::new(),
            base: 0,
            last: 0,
            dup_through: 0,
            doubtful: 0,
            late_at: 0,
            open: 0,
            bytes: 0,
            extras: None,
            untouched: None,
        }
    }

    /// The number that the last message got; [`QueueNumber::ZERO`] before all.
    pub const fn last(&self) -> QueueNumber {
        QueueNumber::new(self.last)
    }

    /// The first number that is open; all below are closed. One behind the last if none is open.
    pub fn first_open(&self) -> QueueNumber {
        let held = || self.entries.front().map_or(self.last + 1, |entry| self.number(*entry));
        QueueNumber::new(self.untouched.as_ref().map_or_else(held, |front| front.first.get()))
    }

    /// Open numbers up to this one are sent with DUP.
    //= MQTT5-3.3.1-1
    //= MQTT311-3.3.1-1
    pub const fn dup_through(&self) -> QueueNumber {
        QueueNumber::new(self.dup_through)
    }

    /// QoS 2 messages up to this number that are not taken may have been sent: they neither
    /// expire nor are dropped or given to another session.
    pub const fn doubtful(&self) -> QueueNumber {
        QueueNumber::new(self.doubtful)
    }

    /// How many messages are open, taken ones among them.
    pub const fn len(&self) -> usize {
        self.open
    }

    /// Whether none is open.
    pub const fn is_empty(&self) -> bool {
        self.open == 0
    }

    /// What the messages weigh that are held: sizes rounded up to 16 bytes.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// What it takes in memory to refer to them.
    #[inline]
    fn memory(&self) -> u64 {
        let extras = self.extras.as_ref().map_or(0, |extras| extras.memory());
        size_of::<Entry>() as u64 * self.entries.len() as u64 + extras
    }

    /// These three.
    #[inline]
    pub fn load(&self) -> Load {
        Load { messages: self.open, bytes: self.bytes, memory: self.memory() }
    }

    /// The message with this number, if it is open.
    pub fn get(&self, number: QueueNumber) -> Option<Waiting> {
        self.assert_whole();
        let at = self.find(number.get())?;
        let entry = self.entries[at];
        (entry.size_flags & CLOSED == 0).then(|| self.waiting(entry))
    }

    /// The open messages with this number or a higher one, ascending.
    pub fn iter_from(&self, number: QueueNumber) -> impl Iterator<Item = Waiting> {
        self.assert_whole();
        self.held_from(number.get())
    }

    /// The open messages that are in memory.
    pub fn held(&self) -> impl Iterator<Item = Waiting> {
        self.held_from(0)
    }

    fn held_from(&self, number: u64) -> impl Iterator<Item = Waiting> {
        let from = self.lower_bound(number);
        let open = self.entries.range(from..).filter(|entry| entry.size_flags & CLOSED == 0);
        open.map(|&entry| self.waiting(entry))
    }

    /// The open messages, ascending.
    pub fn iter(&self) -> impl Iterator<Item = Waiting> {
        self.iter_from(QueueNumber::ZERO)
    }

    /// The subscription identifiers that are sent along with this number.
    pub fn ids(&self, number: QueueNumber) -> SubscriptionIds<'_> {
        let extra = self.extra(number);
        extra.map_or(SubscriptionIds::NONE, |extra| SubscriptionIds::from_checked(&extra.ids))
    }

    /// The shared subscription by which this number came.
    pub fn pick(&self, number: QueueNumber) -> Option<SubNumber> {
        self.extra(number).and_then(|extra| extra.pick)
    }

    /// When the message with this number expires, in log time.
    pub fn expires_ms(&self, number: QueueNumber) -> Option<u64> {
        self.extra(number).and_then(|extra| extra.expires_ms)
    }

    /// The numbers that have expired at `now_ms` and may be given up, if `sent` is the highest
    /// number that was sent on the present connection; [`QueueNumber::ZERO`] while it is down.
    //= MQTT5-3.3.2-5
    //= MQTT5-4.3.3-7
    pub fn expired(&self, now_ms: u64, sent: QueueNumber) -> Vec<NumberRange> {
        self.assert_whole();
        let Some(extras) = &self.extras else {
            return Vec::new();
        };
        let due = extras.by_expiry.range(..=(now_ms, u64::MAX)).map(|&(_, number)| number);
        let mut numbers: Vec<u64> = due
            .filter(|&number| {
                let may_have_been_sent = number <= sent.get();
                let entry = self.find(number).map(|at| self.entries[at]);
                entry.is_some_and(|entry| entry.size_flags & QOS2 == 0 || !may_have_been_sent)
            })
            .collect();
        numbers.sort_unstable();
        ranges(&numbers)
    }

    /// When the first message expires of those that may.
    pub(crate) fn next_expiry_ms(&self) -> Option<u64> {
        let held = self.extras.as_ref().and_then(|extras| extras.by_expiry.first());
        let held = held.map(|&(expires_ms, _)| expires_ms);
        let front = self.untouched.as_ref().and_then(|front| front.next_expiry_ms);
        [held, front].into_iter().flatten().min()
    }

    /// Whether a late decision brought this number.
    pub(crate) fn is_late(&self, number: QueueNumber) -> bool {
        let entry = self.find(number.get()).map(|at| self.entries[at]);
        entry.is_some_and(|entry| entry.size_flags & LATE != 0)
    }

    pub(crate) fn extra(&self, number: QueueNumber) -> Option<&Extra> {
        self.extras.as_ref()?.by_number.get(&number.get())
    }

    /// Whether an open message came by this shared subscription.
    pub(crate) fn has_pick(&self, pick: SubNumber) -> bool {
        let mut extras = self.extras.iter().flat_map(|extras| extras.by_number.values());
        extras.any(|extra| extra.pick == Some(pick))
    }

    /// Takes a message; `None` if the queue is out of numbers.
    pub(crate) fn push(&mut self, message: Incoming) -> Option<QueueNumber> {
        let number = self.last + 1;
        if !self.fits(number) {
            return None;
        }
        self.last = number;
        self.put(number, message);
        Some(QueueNumber::new(number))
    }

    /// The client has these: their messages are held no more. Returns how many numbers were no
    /// QoS 2 messages that wait.
    //= MQTT5-4.3.3-6
    pub(crate) fn take(&mut self, range: NumberRange, mut released: impl FnMut(Lsn)) -> u64 {
        self.assert_whole();
        let mut ignored = 0;
        let mut at = self.lower_bound(range.first.get());
        while let Some(&entry) = self.entries.get(at) {
            let number = self.number(entry);
            if number > range.last.get() {
                break;
            }
            if entry.size_flags & (QOS2 | TAKEN | CLOSED) == QOS2 {
                self.entries[at].size_flags |= TAKEN;
                self.bytes -= u64::from(size_of_entry(entry));
                self.forget_extra(entry, number);
                self.entries[at].size_flags &= !EXTRA;
                released(Lsn::new(entry.lsn));
            } else {
                ignored += 1;
            }
            at += 1;
        }
        ignored
    }

    /// These are answered for good.
    pub(crate) fn close(&mut self, range: NumberRange, released: impl FnMut(Lsn)) -> u64 {
        self.close_if(range, |_, _| true, released)
    }

    /// These are given up; not QoS 2 messages that may have been sent. Returns how many stay.
    //= MQTT5-4.3.3-7
    pub(crate) fn give_up(&mut self, range: NumberRange, released: impl FnMut(Lsn)) -> u64 {
        let doubtful = self.doubtful;
        let may = |number: u64, flags: u32| {
            flags & QOS2 == 0 || (flags & TAKEN == 0 && number > doubtful)
        };
        self.close_if(range, may, released)
    }

    /// The connection is gone. `sent` is the highest number that was sent, or unknown: then any
    /// number may have been, at QoS 2 as many of the first as `window` allows.
    pub(crate) fn went_down(&mut self, sent: Option<QueueNumber>, window: u16) {
        if let Some(sent) = sent {
            let sent = sent.get().min(self.last);
            self.dup_through = self.dup_through.max(sent);
            self.doubtful = self.doubtful.max(sent);
        } else {
            self.assert_whole();
            let unanswered = |entry: &&Entry| entry.size_flags & (QOS2 | TAKEN | CLOSED) == QOS2;
            let first = self.entries.iter().filter(unanswered).take(usize::from(window));
            let last = first.last().map_or(0, |&entry| self.number(entry));
            self.dup_through = self.last;
            self.doubtful = self.doubtful.max(last);
        }
        self.settle_expiries();
    }

    /// Skips numbers that may have been sent for messages that a crash took.
    pub(crate) fn jump(&mut self) -> bool {
        if planted::is(Bug::IdentifierReused) {
            return true;
        }
        self.skip_to(QueueNumber::new(self.last + JUMP))
    }

    /// Goes on behind this number, if it is above the last; `false` if that is too far.
    pub(crate) fn skip_to(&mut self, number: QueueNumber) -> bool {
        let last = self.last.max(number.get());
        let fits = self.fits(last);
        if fits {
            self.last = last;
        }
        fits
    }

    /// The messages that are held, each with its extra if it may go to another session: not at
    /// QoS 2 if it may have been sent. What has stayed in an image came by no shared subscription.
    //= MQTT5-4.8.2-5
    pub(crate) fn estate(&self) -> impl Iterator<Item = (Waiting, Option<&Extra>)> {
        self.held().filter(|waiting| !waiting.taken).map(|waiting| {
            let begun = waiting.qos == QoS::ExactlyOnce && waiting.number <= self.doubtful();
            (waiting, self.extra(waiting.number).filter(|_| !begun))
        })
    }

    /// An empty queue with these marks, for an image to be read into by [`Queue::restore`].
    pub(crate) fn with_marks(last: u64, dup_through: u64, doubtful: u64, late_at: Lsn) -> Self {
        Self { last, dup_through, doubtful, late_at: late_at.get(), ..Self::default() }
    }

    /// The record of the newest late decision.
    pub(crate) const fn late_at(&self) -> Lsn {
        Lsn::new(self.late_at)
    }

    /// Puts an open message back, as an image has it; `false` unless numbers ascend up to the
    /// last, within a span that a queue may have.
    pub(crate) fn restore(&mut self, waiting: &Waiting, late: bool, extra: Option<Extra>) -> bool {
        let before = self.entries.back().map_or(0, |&entry| self.number(entry));
        if !self.may_follow(before, waiting, extra.as_ref()) {
            return false;
        }
        let number = waiting.number.get();
        let Waiting { lsn, qos, retain, placed, size, .. } = *waiting;
        let late = late.then(|| self.late_at());
        self.put(number, Incoming { lsn, qos, retain, size, late, placed, extra });
        if waiting.taken
            && let Some(entry) = self.entries.back_mut()
        {
            entry.size_flags |= TAKEN;
            self.bytes -= u64::from(size_of_entry(*entry));
        }
        true
    }

    /// Whether an image may have this message behind number `before`.
    fn may_follow(&self, before: u64, waiting: &Waiting, extra: Option<&Extra>) -> bool {
        let number = waiting.number.get();
        let ascends = before < number && number <= self.last;
        ascends && self.fits(number) && !(waiting.taken && extra.is_some())
    }

    /// Called when all messages are back.
    pub(crate) fn restored(&mut self) {
        self.settle_expiries();
    }

    /// What is wrong with it, if anything is.
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        let numbers: Vec<u64> = self.entries.iter().map(|&entry| self.number(entry)).collect();
        let front = self.untouched().unwrap_or_default();
        let open = front.len + self.held().count();
        let bytes =
            self.held().filter(|one| !one.taken).map(|one| u64::from(one.size)).sum::<u64>();
        let bytes = front.bytes + bytes;
        let holds = [
            (numbers.is_sorted_by(|a, b| a < b), "queue numbers ascend"),
            (
                numbers.first().is_none_or(|&first| front.last.get() < first),
                "an image has the front",
            ),
            (
                front.last.get().max(numbers.last().copied().unwrap_or(0)) <= self.last,
                "no number is above the last",
            ),
            (
                self.doubtful <= self.dup_through && self.dup_through <= self.last,
                "marks of a queue are ordered",
            ),
            (
                self.entries.front().is_none_or(|entry| entry.size_flags & CLOSED == 0),
                "the first entry of a queue is open",
            ),
            (open == self.open, "open messages are counted"),
            (bytes == self.bytes, "bytes of a queue are counted"),
        ];
        match holds.into_iter().find(|(holds, _)| !holds) {
            Some((_, wrong)) => Err(wrong),
            None => self.check_extras(),
        }
    }

    fn check_extras(&self) -> Result<(), &'static str> {
        let none = Extras::default();
        let extras = self.extras.as_deref().unwrap_or(&none);
        let marked =
            self.entries.iter().filter(|entry| entry.size_flags & (EXTRA | CLOSED) == EXTRA);
        if !marked.map(|&entry| self.number(entry)).eq(extras.by_number.keys().copied()) {
            return Err("entries and what they have beside them belong together");
        }
        let expiring = extras.by_number.iter().filter_map(|(&number, extra)| {
            let waiting = self.held_from(number).next()?;
            let begun = waiting.qos == QoS::ExactlyOnce && number <= self.doubtful;
            Some((extra.expires_ms.filter(|_| !begun)?, number))
        });
        if expiring.collect::<BTreeSet<_>>() != extras.by_expiry {
            return Err("what may expire is indexed");
        }
        if !extras.are_weighed() {
            return Err("subscription identifiers are weighed");
        }
        Ok(())
    }

    fn put(&mut self, number: u64, message: Incoming) {
        let mut flags = if message.qos == QoS::ExactlyOnce { QOS2 } else { 0 };
        flags |= if message.retain { RETAIN } else { 0 };
        flags |= if message.placed { PLACED } else { 0 };
        if let Some(late_at) = message.late {
            flags |= LATE;
            self.late_at = self.late_at.max(late_at.get());
        }
        if let Some(extra) = message.extra {
            flags |= EXTRA;
            self.extras.get_or_insert_default().insert(number, extra);
        }
        let units = units_of(message.size);
        self.base = self.base_for(number);
        let entry =
            Entry { lsn: message.lsn.get(), low: low(number), size_flags: units << 8 | flags };
        self.bytes += u64::from(size_of_entry(entry));
        self.open += 1;
        self.entries.push_back(entry);
    }

    fn close_if(
        &mut self,
        range: NumberRange,
        may: impl Fn(u64, u32) -> bool,
        mut released: impl FnMut(Lsn),
    ) -> u64 {
        self.assert_whole();
        let mut ignored = 0;
        let mut at = self.lower_bound(range.first.get());
        while let Some(&entry) = self.entries.get(at) {
            let number = self.number(entry);
            if number > range.last.get() {
                break;
            }
            let flags = entry.size_flags & FLAGS;
            if flags & CLOSED == 0 && may(number, flags) {
                self.entries[at].size_flags |= CLOSED;
                self.open -= 1;
                if flags & TAKEN == 0 {
                    self.bytes -= u64::from(size_of_entry(entry));
                    released(Lsn::new(entry.lsn));
                }
                self.forget_extra(entry, number);
            } else {
                ignored += 1;
            }
            at += 1;
        }
        self.sweep();
        ignored
    }

    /// Lets closed entries go.
    fn sweep(&mut self) {
        while self.entries.front().is_some_and(|entry| entry.size_flags & CLOSED != 0) {
            self.entries.pop_front();
        }
        let closed = self.entries.len() - self.open;
        if closed > SWEEP_MIN && closed > self.open {
            self.entries.retain(|entry| entry.size_flags & CLOSED == 0);
        }
        if let Some(&front) = self.entries.front() {
            self.base = self.number(front);
        } else {
            self.entries.shrink_to(SWEEP_MIN);
        }
        if self.extras.as_ref().is_some_and(|extras| extras.by_number.is_empty()) {
            self.extras = None;
        }
    }

    fn forget_extra(&mut self, entry: Entry, number: u64) {
        if entry.size_flags & EXTRA == 0 {
            return;
        }
        if let Some(extras) = &mut self.extras {
            extras.remove(number);
        }
    }

    /// QoS 2 messages that may have been sent expire no more.
    fn settle_expiries(&mut self) {
        let Some(mut extras) = self.extras.take() else { return };
        extras.by_expiry.retain(|&(_, number)| {
            let entry = self.find(number).map(|at| self.entries[at]);
            number > self.doubtful || entry.is_some_and(|entry| entry.size_flags & QOS2 == 0)
        });
        self.extras = Some(extras);
    }

    /// Whether `number`, at or above the last, may be given.
    fn fits(&self, number: u64) -> bool {
        number <= QueueNumber::MAX.get() && number - self.base_for(number) < SPAN_MAX
    }

    /// The base once `number` is the last: unchanged while any is open.
    fn base_for(&self, number: u64) -> u64 {
        if self.entries.is_empty() && self.untouched.is_none() { number } else { self.base }
    }

    fn number(&self, entry: Entry) -> u64 {
        self.base + u64::from(entry.low.wrapping_sub(low(self.base)))
    }

    fn waiting(&self, entry: Entry) -> Waiting {
        let has = |flag: u32| entry.size_flags & flag != 0;
        Waiting {
            number: QueueNumber::new(self.number(entry)),
            lsn: Lsn::new(entry.lsn),
            queued_at: Lsn::new(if has(LATE) { self.late_at } else { entry.lsn }),
            qos: if has(QOS2) { QoS::ExactlyOnce } else { QoS::AtLeastOnce },
            retain: has(RETAIN),
            taken: has(TAKEN),
            placed: has(PLACED),
            size: size_of_entry(entry),
        }
    }

    /// Where the entry with this number is.
    fn find(&self, number: u64) -> Option<usize> {
        let at = self.lower_bound(number);
        self.entries.get(at).is_some_and(|&entry| self.number(entry) == number).then_some(at)
    }

    /// How many entries have lower numbers. Without a gap the distance to the first tells.
    fn lower_bound(&self, number: u64) -> usize {
        let Some(&front) = self.entries.front() else { return 0 };
        let front = self.number(front);
        if number <= front {
            return 0;
        }
        let guess = usize::try_from(number - front).unwrap_or(usize::MAX);
        if self.entries.get(guess).is_some_and(|&entry| self.number(entry) == number) {
            return guess;
        }
        self.entries.partition_point(|&entry| self.number(entry) < number)
    }
}

/// What a message of this size weighs, in units.
fn units_of(size: u32) -> u32 {
    size.div_ceil(SIZE_UNIT).min(u32::MAX >> 8)
}

fn size_of_entry(entry: Entry) -> u32 {
    (entry.size_flags >> 8).saturating_mul(SIZE_UNIT)
}

#[expect(clippy::cast_possible_truncation, reason = "the low half is what is asked for")]
const fn low(number: u64) -> u32 {
    number as u32
}

/// Joins ascending numbers that follow each other.
pub(crate) fn ranges(numbers: &[u64]) -> Vec<NumberRange> {
    let mut ranges: Vec<NumberRange> = Vec::new();
    for &number in numbers {
        match ranges.last_mut() {
            Some(range) if range.last.get() + 1 == number => range.last = QueueNumber::new(number),
            _ => ranges.push(NumberRange::one(QueueNumber::new(number))),
        }
    }
    ranges
}

#[cfg(test)]
mod tests;
