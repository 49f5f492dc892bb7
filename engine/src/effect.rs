//! What applying a record does to the world outside the state: the lane that owns the shard
//! carries it out.
//!
//! **References.** A message is stored once, at its record, and is let go when nothing refers to
//! it: [`Effect::Queued`], [`Effect::Orphaned`], [`Effect::RetainedSet`] and [`Effect::WillHeld`]
//! each take one reference to it, each [`Effect::Released`] ends one. Between a late decision and
//! its record applied everywhere the lane that made it holds a reference of its own, for the
//! shard that gives the message up may be ahead of the one that takes it.

use zzq_types::{Lsn, QoS, SubscribeOptions, SubscriptionId};

use crate::decision::SubscriptionIds;
use crate::number::{QueueNumber, SessionNumber, SubNumber};

/// What follows from one record, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect<'a> {
    /// A session's queue took a message.
    Queued {
        /// Whose.
        session: SessionNumber,
        /// The number it got.
        number: QueueNumber,
        /// The record that holds the message.
        lsn: Lsn,
        /// QoS of the delivery: 1 or 2.
        qos: QoS,
        /// Whether a late decision brought it: its number is final once that is committed.
        late: bool,
    },
    /// A message goes at QoS 0 to a session that is up.
    Deliver0 {
        /// To whom.
        session: SessionNumber,
        /// The record that holds the message.
        lsn: Lsn,
        /// [`Publish::size`](crate::record::Publish::size) of the message.
        size: u32,
        /// The RETAIN flag of the delivery.
        retain: bool,
        /// Whether it is sent with its place in the log: its subscription started in the past.
        placed: bool,
        /// The subscription identifiers that are sent along.
        ids: SubscriptionIds<'a>,
    },
    /// A reference to the message of this record ended.
    Released {
        /// The record that holds the message.
        lsn: Lsn,
    },
    /// A session was opened; it is up and empty.
    SessionOpened {
        /// Which.
        session: SessionNumber,
        /// Whose.
        client: &'a str,
    },
    /// A session is up again.
    SessionResumed {
        /// Which.
        session: SessionNumber,
    },
    /// A session is down.
    SessionDown {
        /// Which.
        session: SessionNumber,
    },
    /// A session is over; its subscriptions were announced as gone before.
    SessionEnded {
        /// Which.
        session: SessionNumber,
        /// Whose.
        client: &'a str,
    },
    /// A subscription was made or replaced.
    Subscribed {
        /// Whose.
        session: SessionNumber,
        /// Its number.
        number: SubNumber,
        /// Its filter, `$share/<group>/` kept.
        filter: &'a str,
        /// The granted options.
        options: SubscribeOptions,
        /// The identifier that is sent along.
        id: Option<SubscriptionId>,
        /// Whether there was none under this filter.
        new: bool,
    },
    /// A subscription is no more.
    Unsubscribed {
        /// Whose.
        session: SessionNumber,
        /// Its number.
        number: SubNumber,
        /// Its filter, `$share/<group>/` kept.
        filter: &'a str,
    },
    /// A topic has a (new) retained message.
    RetainedSet {
        /// The topic.
        topic: &'a str,
        /// The record that holds the message.
        lsn: Lsn,
    },
    /// A topic has no retained message any more.
    RetainedRemoved {
        /// The topic.
        topic: &'a str,
    },
    /// A will is held.
    WillHeld {
        /// Whose.
        session: SessionNumber,
        /// The record that holds the message.
        lsn: Lsn,
    },
    /// A will is to be published at some time, unless its client is back before.
    WillDue {
        /// Whose.
        session: SessionNumber,
        /// The record that holds the message.
        lsn: Lsn,
        /// When, in log time.
        due_ms: u64,
    },
    /// A message that was picked for a session which had ended waits for another member.
    Orphaned {
        /// The session that had ended.
        session: SessionNumber,
        /// The number that the message got.
        number: QueueNumber,
        /// The record that holds the message.
        lsn: Lsn,
    },
    /// A session has ended and left messages to its groups, now or before a start.
    OrphansReady {
        /// The session that has ended.
        session: SessionNumber,
    },
}

/// Who carries effects out.
pub trait Effects {
    /// Takes the next effect.
    fn emit(&mut self, effect: Effect<'_>);
}

impl<F: FnMut(Effect<'_>)> Effects for F {
    fn emit(&mut self, effect: Effect<'_>) {
        self(effect);
    }
}

/// Nobody: for recovery and tools, which look at the state afterwards.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoEffects;

impl Effects for NoEffects {
    fn emit(&mut self, _: Effect<'_>) {}
}
