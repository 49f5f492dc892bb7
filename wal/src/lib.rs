//! The log: bytes that survive.
//!
//! Owns: records, groups and segments on disk, LSNs, durability, recovery, readers.
//! Does not know: MQTT, sessions, what the body of a record means.

pub mod disk;
pub mod io;
pub mod sim_disk;
