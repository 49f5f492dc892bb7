//! Whole brokers in one thread from one seed.
//!
//! Filled by the proof issue; until then this comment is the whole crate.

#![forbid(unsafe_code)]
