//! Offline inspection of a log: it reads and never writes.
//!
//! Filled by the log-engine issue; until then this comment is the whole crate.

#![forbid(unsafe_code)]
