//! What the tests from outside share: a broker process, a client of raw bytes, and the few bytes
//! of MQTT they are made of.
//!
//! Owns: spawning, bounded waits, an encoding of its own, so that a fault of the product's codec
//! cannot hide itself. Does not know: the product's code. `ZZQ_TEST_BROKER='CMD {port} {dir}'`
//! points the same tests at another broker, to check the tests themselves.

#![allow(dead_code, reason = "each test file uses its part")]
#![allow(unused_imports, reason = "each test file uses its part")]
#![allow(clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(clippy::print_stderr, reason = "a failed test shows the broker's log")]

#[path = "../../../../tools/rig/src/at_rest.rs"]
mod at_rest;
mod broker;
mod client;
mod connect;
mod random;
mod wire;

pub(crate) use broker::{Broker, in_both_modes, on_disk, run};
pub(crate) use client::{Client, Received, ends, expect_left, next, pair, payloads_up_to};
pub(crate) use connect::{Accepted, Connect};
pub(crate) use random::Random;
pub(crate) use wire::{
    Message, Property, Publish, Version, block, bytes, hex, packet, read_block, read_varint, show,
    text, values,
};

/// Stops when it is dropped what goes on until then: also where a test fails, whose other threads
/// would never end.
pub(crate) struct Stops<'a>(pub(crate) &'a std::sync::atomic::AtomicBool);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.store(true, std::sync::atomic::Ordering::SeqCst);
    }
}

/// A failure, never a pause: no wait of these tests ends by this in a run that passes.
pub(crate) const PATIENCE: std::time::Duration = std::time::Duration::from_mins(1);
