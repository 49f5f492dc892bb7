//! Real storage: aligned memory, and what carries it to a device.
//!
//! Owns: every unsafe block of the crate, system calls, buffers between submission and completion.
//! Does not know: segments, groups, records.
#![allow(
    unsafe_code,
    reason = "aligned memory and asynchronous direct I/O have no safe interface; each block states its proof"
)]

mod buffer;

pub use buffer::IoBuffer;
