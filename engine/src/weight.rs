//! What sessions and their subscriptions take in memory, about: for bounds, not for accounts.
//!
//! Owns: the parts that a session is counted by. Does not know: what waits in queues, which has
//! counts of its own, or what routes take, see [`Index::memory`](crate::Index::memory).

use crate::number::SessionNumber;
use crate::session::{Queue, Session, Subscription};

/// What an allocation takes beside its bytes: what the allocator notes, and rounds up.
pub(crate) const ALLOCATION: usize = 16;

/// A session with the queue that it has from its first message on, and where it is found by its
/// number and by its client: tables are half full on an average.
const SESSION: usize = size_of::<Session>()
    + size_of::<Queue>()
    + 2 * (size_of::<SessionNumber>() + size_of::<usize>())
    + 2 * (size_of::<Box<str>>() + size_of::<SessionNumber>())
    + 3 * ALLOCATION;

/// A subscription beside its filter; lists and trees are two thirds full on an average.
const SUBSCRIPTION: usize =
    (size_of::<Box<str>>() + size_of::<Subscription>()) * 3 / 2 + ALLOCATION;

/// See the file: a session of this client without subscriptions.
pub(crate) const fn of_session(client: &str) -> u64 {
    (SESSION + client.len()) as u64
}

/// See the file: a subscription, or one that is remembered though it is no more.
pub(crate) const fn of_subscription(filter: &str) -> u64 {
    (SUBSCRIPTION + filter.len()) as u64
}

/// See the file: a session with its subscriptions.
pub(crate) fn of_all(session: &Session) -> u64 {
    let has = session.subscriptions().iter().map(|(filter, _)| of_subscription(filter));
    of_session(session.client()) + has.sum::<u64>() + of_left(session)
}

/// See the file: what a session remembers of subscriptions that are no more.
pub(crate) fn of_left(session: &Session) -> u64 {
    session.left().iter().map(|(_, filter)| of_subscription(filter)).sum()
}
