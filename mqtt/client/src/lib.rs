//! `Client`: async and blocking, reconnect and session resume.
//!
//! Owns: the client half of the protocol.
//! Does not know: the log, the broker.
//!
//! Filled by the client issue; until then this comment is the whole crate.

#![forbid(unsafe_code)]
