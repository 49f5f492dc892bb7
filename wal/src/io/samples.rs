//! Writes for the tests of all backends. Does not know: who carries them out.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use crate::disk::{BLOCK, Completion, Write};
use crate::io::{IoBuffer, OpenFile, event};

/// Longer than any write takes.
pub(super) const LONG: Duration = Duration::from_secs(30);

/// A block of one byte.
fn block(byte: u8) -> IoBuffer {
    let mut buffer = IoBuffer::with_blocks(1);
    buffer.fill(byte);
    buffer
}

/// Takes completions until `count` are there, waiting for the event in between.
pub(super) fn reap(
    event: &OwnedFd,
    count: usize,
    take: impl Fn(&mut Vec<Completion>),
) -> Vec<Completion> {
    let mut completions = Vec::new();
    while completions.len() < count {
        assert!(event::wait(event, LONG).unwrap());
        event::drain(event);
        take(&mut completions);
    }
    completions
}

/// A durable write of block `at`, which is its token, too.
pub(super) fn write(
    file: &OpenFile,
    at: u64,
    byte: u8,
    notify: Option<&Arc<OwnedFd>>,
) -> Write<OpenFile> {
    let notify = notify.cloned();
    let file = file.clone();
    let offset = at * BLOCK as u64;
    Write { file, buffer: block(byte), offset, sync: true, token: at, notify }
}
