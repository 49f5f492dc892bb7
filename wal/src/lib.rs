//! The log: bytes that survive.
//!
//! Owns: records, groups and segments on disk, LSNs, durability, recovery, readers.
//! Does not know: MQTT, sessions, what the body of a record means.

pub mod disk;
pub mod format;
pub mod io;
mod lsn;
pub mod sim_disk;

pub use lsn::{Handed, Lsn};
