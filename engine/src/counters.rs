//! What apply ignored, by reason. Diagnostics: no part of the state that images hold.

use core::fmt;

/// Why a record, or a part of it, changed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Ignored {
    /// The record's place is not behind the last that was applied.
    Replayed,
    /// A QoS 2 message whose identifier is open.
    RepeatedPublish,
    /// A session that is not here: ended, or, in a part of the state, of another part.
    UnknownSession,
    /// A Connect with a number that names another session.
    NumberInUse,
    /// A packet identifier that is not open.
    UnknownIdentifier,
    /// Queue numbers that are not open, or not in a way that the record fits.
    UnknownNumber,
    /// Messages that may have been sent at QoS 2 and were to be given up.
    MayHaveBeenSent,
    /// A new subscription whose number is not above all before it in its session.
    StaleSubscription,
    /// A filter that is not subscribed to.
    UnknownFilter,
    /// A published will that was not due.
    UnknownWill,
    /// An orphan that is not here.
    UnknownOrphan,
    /// A record for a session that is up, or down, where the other is meant.
    WrongLink,
    /// A queue that is out of numbers.
    OutOfNumbers,
    /// A retained message that is not the one meant.
    UnknownRetained,
    /// History that does not go on from where its subscription is.
    StaleHistory,
}

const COUNT: usize = Ignored::StaleHistory as usize + 1;

/// How often each reason came.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters([u64; COUNT]);

impl Counters {
    /// How often this reason came.
    pub const fn get(&self, reason: Ignored) -> u64 {
        self.0[reason as usize]
    }

    /// How often any reason came.
    pub fn total(&self) -> u64 {
        self.0.iter().fold(0, |sum, &count| sum.saturating_add(count))
    }

    pub(crate) const fn add(&mut self, reason: Ignored, count: u64) {
        let counter = &mut self.0[reason as usize];
        *counter = counter.saturating_add(count);
    }
}

impl fmt::Debug for Counters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Counters").field(&self.total()).field(&self.0).finish()
    }
}
