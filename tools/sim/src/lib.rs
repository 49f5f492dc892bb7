//! Whole brokers in one thread from one seed.
//!
//! Owns: the world around a broker (disk, network, clocks, clients), chance, and the promises that
//! are checked. Does not know: how the broker keeps them.
//!
//! A run has two phases. First everything goes wrong that may: the power goes at any step, writes
//! come back late, in any order, or not at all, connections break without a word, clocks jump. Then
//! nothing does, and everything must heal and be served. What happened is a [`history`] of what the
//! clients saw; each file of [`oracle`] holds one promise against it.

#![forbid(unsafe_code)]

pub mod chance;
pub mod client;
pub mod clock;
pub mod coverage;
pub mod damage;
pub mod device;
pub mod found;
pub mod guard;
pub mod history;
pub mod images;
pub mod ledger;
pub mod log_time;
pub mod network;
pub mod node;
pub mod oracle;
pub mod plan;
pub mod runs;
pub mod self_test;
pub mod summary;
pub mod twice;
pub mod verdict;
pub mod world;
