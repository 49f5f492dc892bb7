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
//! Assumes: it begins when the Connect of its connection is committed, or nothing ever is.

use std::collections::VecDeque;

use zzq_types::{Lsn, PacketId, QoS};

use super::queue::{JUMP, Queue, Waiting};
use crate::number::QueueNumber;

/// How many numbers may be sent whose record is not committed: less than a crash skips.
pub const EARLY_MAX: u64 = JUMP - 1;

const IDS: u64 = PacketId::COUNT as u64;

/// The numbers of a session's queue on one connection.
#[derive(Clone, Debug)]
pub struct Outbound {
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
    /// The number 65 535 below is open, or its receipt is not committed.
    Identifier,
    /// The commit of this record comes first.
    Commit(Lsn),
}

/// What a PUBREC means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// The message is taken: a receipt [`Taken`](crate::record::Closing::Taken), and PUBREL once
    /// it is committed.
    Taken(QueueNumber),
    /// It was taken before: PUBREL (again), once that receipt is committed.
    Again(QueueNumber),
    /// The client refused it: a receipt [`Closed`](crate::record::Closing::Closed).
    Refused(QueueNumber),
    /// No message with this identifier is under way at QoS 2.
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

impl Outbound {
    /// For a new connection whose client takes `window` messages unacknowledged.
    pub fn new(queue: &Queue, window: u16) -> Self {
        let first_open = queue.first_open().get();
        Self {
            window,
            used: 0,
            cursor: first_open - 1,
            sent: 0,
            flight: VecDeque::new(),
            early: Early { settled: first_open - 1, ..Early::default() },
            closed: Closed { first_open, pending: None },
        }
    }

    /// The highest number that was sent, for the record of the session's going down.
    pub const fn highest_sent(&self) -> QueueNumber {
        QueueNumber::new(self.sent)
    }

    /// How many messages of the window are not answered.
    pub const fn in_flight(&self) -> u16 {
        self.used
    }

    /// What to send next, `applied` and `committed` being how far the log is.
    //= MQTT5-3.3.1-1
    //= MQTT5-3.3.4-9
    //= MQTT5-4.4.0-1
    //= MQTT5-4.9.0-2
    //= MQTT311-3.3.1-1
    //= MQTT311-4.4.0-1
    pub fn next(&mut self, queue: &Queue, applied: Lsn, committed: Lsn) -> Outgoing {
        self.early.advance(committed);
        self.closed.advance(queue.first_open().get(), applied, committed);
        let Some(waiting) = queue.iter_from(QueueNumber::new(self.cursor + 1)).next() else {
            return Outgoing::Nothing;
        };
        let number = waiting.number;
        let id = PacketId::of_queue_number(number.get());
        if waiting.taken {
            return Outgoing::Release { number, id };
        }
        if self.used >= self.window {
            return Outgoing::Window;
        }
        if self.closed.first_open.saturating_add(IDS) <= number.get() {
            return Outgoing::Identifier;
        }
        let is_final = waiting.queued_at <= committed;
        let is_late = waiting.queued_at != waiting.lsn;
        if !is_final && (is_late || number.get() - self.early.settled > EARLY_MAX) {
            return Outgoing::Commit(waiting.queued_at);
        }
        let dup = number <= queue.dup_through();
        Outgoing::Publish { waiting, id, dup, committed: is_final }
    }

    /// What [`Outbound::next`] gave was sent.
    ///
    /// # Panics
    /// If it was sent or passed over before.
    pub fn sent(&mut self, outgoing: &Outgoing) {
        let (number, step, counts) = match outgoing {
            Outgoing::Publish { waiting, .. } => {
                self.used += 1;
                self.sent = waiting.number.get();
                self.early.sent(waiting.queued_at, waiting.number.get());
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

    /// What [`Outbound::next`] gave is not sent on this connection: the record that gives it up
    /// was handed over.
    ///
    /// # Panics
    /// If it was sent or passed over before.
    pub fn pass_over(&mut self, number: QueueNumber) {
        assert!(number.get() > self.cursor, "numbers are passed over in order");
        self.cursor = number.get();
    }

    /// A PUBACK came: the number whose receipt is due, or none if no such message is under way
    /// at QoS 1.
    //= MQTT5-4.3.2-3
    //= MQTT311-4.3.2-1
    pub fn acknowledged(&mut self, id: PacketId) -> Option<QueueNumber> {
        let at = self.find(id).filter(|&at| self.flight[at].step == Step::Sent1)?;
        Some(self.finish(at))
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
            Step::Sent2 if refused => Received::Refused(self.finish(at)),
            Step::Sent2 => {
                flight.step = Step::Taken;
                Received::Taken(number)
            }
            Step::Taken | Step::Released => Received::Again(number),
            Step::Sent1 | Step::Done => Received::Unknown,
        }
    }

    /// The PUBREL of a message that was taken on this connection was sent.
    pub fn released(&mut self, number: QueueNumber) {
        let at = self.flight.binary_search_by_key(&number.get(), |flight| flight.number);
        let flight = at.ok().and_then(|at| self.flight.get_mut(at));
        if let Some(flight) = flight.filter(|flight| flight.step == Step::Taken) {
            flight.step = Step::Released;
        }
    }

    /// A PUBCOMP came: the number whose receipt is due, or none if no PUBREL was sent for it.
    //= MQTT5-4.3.3-5
    //= MQTT311-4.3.3-1
    pub fn completed(&mut self, id: PacketId) -> Option<QueueNumber> {
        let at = self.find(id).filter(|&at| self.flight[at].step == Step::Released)?;
        Some(self.finish(at))
    }

    /// Where the message with this identifier is: at most one number under way has it.
    fn find(&self, id: PacketId) -> Option<usize> {
        let last = self.flight.back()?.number;
        let last_id = u64::from(PacketId::of_queue_number(last).get());
        let back = (last_id + IDS - u64::from(id.get())) % IDS;
        let number = last.checked_sub(back)?;
        self.flight.binary_search_by_key(&number, |flight| flight.number).ok()
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

impl Early {
    fn sent(&mut self, queued_at: Lsn, number: u64) {
        self.latest = (queued_at, number);
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
    fn advance(&mut self, first_open: u64, applied: Lsn, committed: Lsn) {
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

#[cfg(test)]
mod tests;
