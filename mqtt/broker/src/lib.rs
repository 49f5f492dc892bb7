//! The durable broker: connections and sessions on lanes, joined to the log and the state.
//!
//! Owns: the protocol machines, the wiring of lanes, engine and wal, the binary.
//! Does not know: unsafe code, what the disk looks like.

#![forbid(unsafe_code)]
