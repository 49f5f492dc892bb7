//! A process that may lock no memory. Alone in its binary: the limit is the process's.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail loudly")]
mod wire;

use rustix::{
    process::{Resource, Rlimit, getrlimit, setrlimit},
    thread::{CapabilitySet, capabilities, set_capabilities},
};
use wire::{assert_echo, server_over};
use zzq_lanes::{BindOptions, DriverKind, driver::uring::UringDriver};

/// Whether rings count against the limit is the kernel's choice: it was given up and taken up
/// again. The lanes do as it says, and serve either way.
#[test]
fn without_memory_to_lock_lanes_use_what_there_is() {
    let hard = getrlimit(Resource::Memlock).maximum;
    setrlimit(Resource::Memlock, Rlimit { current: Some(0), maximum: hard }).unwrap();
    // With this the limit does not count.
    let mut sets = capabilities(None).unwrap();
    sets.effective.remove(CapabilitySet::IPC_LOCK);
    set_capabilities(None, sets).unwrap();
    let expected = if UringDriver::probe().is_ok() { DriverKind::Uring } else { DriverKind::Epoll };
    let server = server_over(DriverKind::Uring, 2, false, BindOptions::default());
    assert_eq!(server.lanes.driver(), expected);
    let mut clients: Vec<_> = (0..10).map(|_| server.connect()).collect();
    for client in &mut clients {
        assert_echo(client, b"served");
    }
}
