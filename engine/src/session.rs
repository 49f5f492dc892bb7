//! One session: what outlives its connection.
//!
//! Owns: the fields and the rules that concern one session alone. Does not know: other sessions,
//! retained messages, effects.

mod inbound;
mod outbound;
mod queue;
mod replay;
mod rested;
mod subscriptions;

use std::sync::Arc;

use zzq_types::Lsn;

pub use inbound::Inbound;
pub use outbound::{Answered, EARLY_MAX, Outbound, Outgoing, Progress, Received};
pub(crate) use queue::{Extra, Incoming};
pub use queue::{JUMP, Load, Queue, Untouched, Waiting};
pub use replay::Replay;
pub(crate) use rested::Rested;
pub use subscriptions::{Subscription, Subscriptions};

use crate::number::{SessionNumber, SubNumber};
use crate::planted::{self, Bug};
use crate::will::Will;

/// The expiry of a session that never expires, in seconds.
pub const NEVER: u32 = u32::MAX;

/// How many shared subscriptions that are no more a session remembers although no message in its
/// queue came by them: for picks that were under way when it unsubscribed.
const LEFT_MAX: usize = 16;

/// Whether a session has a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// It has.
    Up,
    /// It has none.
    Down {
        /// Since when, in log time.
        since_ms: u64,
    },
}

/// A session.
#[derive(Clone, Debug)]
pub struct Session {
    pub(crate) number: SessionNumber,
    pub(crate) client: Arc<str>,
    pub(crate) link: Link,
    pub(crate) expiry_s: u32,
    pub(crate) window: u16,
    pub(crate) subscriptions: Subscriptions,
    /// One above the highest number that a subscription had.
    pub(crate) next_sub: SubNumber,
    pub(crate) queue: Rested,
    pub(crate) inbound: Inbound,
    pub(crate) will: Option<Box<Will>>,
    rare: Option<Box<Rare>>,
}

/// What few sessions have.
#[derive(Clone, Debug, Default)]
struct Rare {
    /// Shared subscriptions that are no more, whose picks may still be here or under way.
    left: Vec<(SubNumber, Box<str>)>,
    /// Subscriptions that start in the past, by number.
    replays: Vec<(SubNumber, Replay)>,
}

const _: () = assert!(size_of::<Session>() <= 144, "what a session takes");

/// When something is to be done about a session that is down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Timers {
    pub(crate) will: Option<(u64, Lsn)>,
    pub(crate) messages: Option<u64>,
    pub(crate) end: Option<u64>,
}

impl Session {
    /// A session that is up, with nothing in it.
    pub(crate) fn new(number: SessionNumber, client: Arc<str>, expiry_s: u32, window: u16) -> Self {
        Self {
            number,
            client,
            link: Link::Up,
            expiry_s,
            window,
            subscriptions: Subscriptions::default(),
            next_sub: SubNumber::default(),
            queue: Rested::default(),
            inbound: Inbound::default(),
            will: None,
            rare: None,
        }
    }

    /// Its number.
    pub const fn number(&self) -> SessionNumber {
        self.number
    }

    /// Whose it is.
    pub fn client(&self) -> &str {
        &self.client
    }

    /// The same, for who keeps it as long.
    pub fn client_shared(&self) -> Arc<str> {
        Arc::clone(&self.client)
    }

    /// Whether it has a connection.
    pub const fn link(&self) -> Link {
        self.link
    }

    /// How long it outlives its connection, in seconds; 0: not at all, [`NEVER`]: for ever.
    pub const fn expiry_s(&self) -> u32 {
        self.expiry_s
    }

    /// Whether it ends with its connection.
    pub const fn is_volatile(&self) -> bool {
        self.expiry_s == 0
    }

    /// How many QoS 1 and 2 messages the client took unacknowledged at the last CONNECT.
    pub const fn window(&self) -> u16 {
        self.window
    }

    /// What it subscribes to.
    pub const fn subscriptions(&self) -> &Subscriptions {
        &self.subscriptions
    }

    /// The lowest number that a new subscription may have: numbers ascend and are never reused.
    pub const fn next_subscription(&self) -> SubNumber {
        self.next_sub
    }

    /// What is owed to it at QoS 1 and 2.
    pub fn queue(&self) -> &Queue {
        &self.queue
    }

    /// The identifiers of QoS 2 messages that it has not released.
    pub const fn inbound(&self) -> &Inbound {
        &self.inbound
    }

    /// Its will.
    pub fn will(&self) -> Option<&Will> {
        self.will.as_deref()
    }

    /// Whether it may leave messages to others when it ends: it is in a group, or has been.
    pub fn leaves_to_groups(&self) -> bool {
        self.shares().next().is_some()
    }

    /// The shared subscriptions that it has, and had: messages that were picked for it by these are
    /// left to their groups.
    pub(crate) fn shares(&self) -> impl Iterator<Item = (SubNumber, &str)> {
        let left = self.left().iter().map(|(number, filter)| (*number, &**filter));
        let shared = self.subscriptions.iter().filter(|(filter, _)| is_shared(filter));
        left.chain(shared.map(|(filter, sub)| (sub.number, filter)))
    }

    /// Shared subscriptions that are no more, whose picks may still be here or under way.
    pub(crate) fn left(&self) -> &[(SubNumber, Box<str>)] {
        self.rare.as_ref().map_or(&[], |rare| &rare.left)
    }

    /// See [`Session::left`].
    pub(crate) fn left_mut(&mut self) -> &mut Vec<(SubNumber, Box<str>)> {
        &mut self.rare.get_or_insert_default().left
    }

    /// How far one of its subscriptions has come that starts in the past.
    pub fn replay(&self, number: SubNumber) -> Option<&Replay> {
        let replays = &self.rare.as_ref()?.replays;
        replays.iter().find(|(known, _)| *known == number).map(|(_, replay)| replay)
    }

    /// All of these.
    pub fn replays(&self) -> impl Iterator<Item = (SubNumber, &Replay)> {
        let replays = self.rare.as_ref().map_or(&[][..], |rare| &rare.replays);
        replays.iter().map(|(number, replay)| (*number, replay))
    }

    pub(crate) fn replay_mut(&mut self, number: SubNumber) -> Option<&mut Replay> {
        let replays = &mut self.rare.as_mut()?.replays;
        replays.iter_mut().find(|(known, _)| *known == number).map(|(_, replay)| replay)
    }

    /// A subscription starts in the past, anew perhaps, or does not.
    pub(crate) fn set_replay(&mut self, number: SubNumber, replay: Option<Replay>) {
        if let Some(rare) = &mut self.rare {
            rare.replays.retain(|(known, _)| *known != number);
        }
        if let Some(replay) = replay {
            let replays = &mut self.rare.get_or_insert_default().replays;
            let at = replays.partition_point(|(known, _)| *known < number);
            replays.insert(at, (number, replay));
        }
    }

    /// When it ends by itself, in log time; `None` while it is up, and for ever.
    //= MQTT5-4.1.0-2
    pub fn ends_ms(&self) -> Option<u64> {
        match self.link {
            Link::Down { since_ms }
                if self.expiry_s != NEVER && !planted::is(Bug::SessionsStay) =>
            {
                Some(since_ms.saturating_add(u64::from(self.expiry_s) * 1000))
            }
            _ => None,
        }
    }

    /// The filter of a shared subscription that it has or had.
    pub fn shared_filter(&self, number: SubNumber) -> Option<&str> {
        let had = || self.left().iter().find(|(left, _)| *left == number).map(|(_, text)| &**text);
        self.subscriptions.filter_of(number).filter(|text| is_shared(text)).or_else(had)
    }

    /// Whether its queue may stay in an image: it is down, outlives its connection, and what waits
    /// for it can come to no other session.
    pub(crate) fn may_leave_queue(&self) -> bool {
        let waits = matches!(self.link, Link::Down { .. }) && !self.is_volatile();
        waits && !self.leaves_to_groups()
    }

    #[inline]
    pub(crate) fn timers(&self) -> Timers {
        if self.link == Link::Up { Timers::default() } else { self.timers_of_down() }
    }

    fn timers_of_down(&self) -> Timers {
        Timers {
            will: self.will.as_ref().and_then(|will| Some((will.due_ms?, will.lsn))),
            messages: self.queue.next_expiry_ms(),
            end: self.ends_ms(),
        }
    }

    /// The connection is gone: the will waits.
    //= MQTT5-3.1.2-8
    pub(crate) fn go_down(&mut self, time_ms: u64) {
        self.link = Link::Down { since_ms: time_ms };
        let ends_ms = self.ends_ms();
        if let Some(will) = &mut self.will {
            let waited = time_ms.saturating_add(u64::from(will.delay_s) * 1000);
            will.due_ms = Some(ends_ms.map_or(waited, |ends_ms| waited.min(ends_ms)));
        }
    }

    /// Remembers a shared subscription that is no more, as long as its picks may need it.
    pub(crate) fn leave(&mut self, number: SubNumber, filter: Box<str>) {
        if !is_shared(&filter) {
            return;
        }
        let left = &mut self.rare.get_or_insert_default().left;
        left.push((number, filter));
        let mut surplus = left.len().saturating_sub(LEFT_MAX);
        let queue = &self.queue;
        left.retain(|(left, _)| {
            let forget = surplus > 0 && !queue.has_pick(*left);
            surplus -= usize::from(forget);
            !forget
        });
    }
}

/// Whether a filter's text names a group.
pub(crate) fn is_shared(filter: &str) -> bool {
    filter.starts_with("$share/")
}
