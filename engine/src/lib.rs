//! The truth: records become state, state becomes effects.
//!
//! Owns: the record kinds and their one encoding, `State` and `apply`, the subscription index and
//! routing, retained messages, queues and queue numbers, the overlay, images as sections.
//! Does not know: files, sockets, clocks, threads, randomness, hash-map order. `now` and random
//! numbers are arguments.

#![forbid(unsafe_code)]

mod apply;
mod counters;
mod deadline;
mod decision;
mod effect;
mod facts;
mod gate;
mod group;
mod handed;
pub mod image;
mod index;
pub mod invariant;
mod number;
mod overlay;
#[cfg(not(feature = "planted-bugs"))]
mod planted;
#[cfg(feature = "planted-bugs")]
pub mod planted;
pub mod record;
mod retained;
mod route;
pub mod session;
mod shard;
mod state;
#[cfg(test)]
mod testing;
mod weight;
mod will;
mod wire;

pub use apply::QueuedRun;
pub use counters::{Counters, Ignored};
pub use deadline::{Due, DueKind};
pub use decision::{
    Decision, DecisionBuf, Destination, Destinations, SubscriptionIds, SubscriptionIdsBuf,
};
pub use effect::{Effect, Effects, NoEffects};
pub use gate::Gate;
pub use group::{Ended, OrphanMessage};
pub use handed::Handed;
pub use index::{
    GroupStrategies, GroupStrategy, HashSeed, Index, Inserted, LANES_MAX, Picked, SessionFlags,
    Subscriber,
};
pub use number::{QueueNumber, SessionNumber, SubNumber};
pub use overlay::Overlay;
pub use record::Record;
pub use retained::{Retained, RetainedCursor, RetainedStore};
pub use route::{Publication, Routed, Router};
pub use session::Session;
pub use shard::{Shard, key_hash};
pub use state::State;
pub use will::{DetachedWill, Will};
pub use wire::RecordError;
