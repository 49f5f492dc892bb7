//! The `zzq` command line.
//!
//! Filled by a later issue; until then this comment is the whole crate.

#![forbid(unsafe_code)]
