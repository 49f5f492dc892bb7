//! Writes for the tests of all backends. Does not know: who carries them out.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use crate::disk::{BLOCK, Write};
use crate::io::{IoBuffer, OpenFile};

/// A block of one byte.
fn block(byte: u8) -> IoBuffer {
    let mut buffer = IoBuffer::with_blocks(1);
    buffer.fill(byte);
    buffer
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
