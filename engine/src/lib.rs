//! The truth: records become state, state becomes effects.
//!
//! Owns: the record kinds and their one encoding, `State` and `apply`, the subscription index and
//! routing, retained messages, queues and queue numbers, the overlay, images as sections.
//! Does not know: files, sockets, clocks, threads, randomness, hash-map order. `now` and random
//! numbers are arguments.

#![forbid(unsafe_code)]

mod budget;
#[allow(dead_code, reason = "queues keep subscription identifiers as these bytes")]
mod decision;
mod gate;
mod handed;
mod index;
mod number;
mod overlay;
pub mod record;
mod retained;
mod route;
#[cfg(test)]
#[allow(dead_code, reason = "apply is tested with the rest")]
mod testing;
#[allow(dead_code, reason = "images use the rest")]
mod wire;

pub use budget::{Budget, Level, Marks};
pub use decision::{Decision, DecisionBuf, Destination, Destinations, SubscriptionIds};
pub use gate::Gate;
pub use handed::Handed;
pub use index::{GroupStrategy, HashSeed, Index, Inserted, LANES_MAX, SessionFlags, Subscriber};
pub use number::{QueueNumber, SessionNumber, SubNumber};
pub use overlay::Overlay;
pub use record::Record;
pub use retained::{Retained, RetainedCursor, RetainedStore};
pub use route::{Publication, Routed, Router};
pub use wire::RecordError;
