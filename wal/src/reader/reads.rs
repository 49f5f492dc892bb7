//! Windows for one reader: short for a look, long for who reads on.
//!
//! Owns: how much is read at once, and what is read ahead by another thread.
//! Does not know: groups, records.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};

use super::pool::ReadPool;
use crate::disk::{BLOCK, DiskFile};
use crate::io::IoBuffer;
use crate::recover::walk::Windows;
use crate::recover::window::{Span, Window};
use crate::segment::Lease;

/// The longest window. A reader has two at most, and a group that lies in both.
pub(crate) const READ_MAX: usize = 512 * 1024;

/// A reader whose windows have grown to this length reads on: the next one is fetched meanwhile.
const AHEAD_FROM: usize = 64 * 1024;

/// Windows of one segment after the other.
pub(crate) struct Reads<F: DiskFile> {
    span: Span<F>,
    /// Keeps the file while another thread reads it.
    lease: Option<Arc<Lease<F>>>,
    /// Length of the next window.
    size: usize,
    free: Option<IoBuffer>,
    pool: Option<Arc<ReadPool>>,
    ahead: Option<Ticket>,
}

/// A window that another thread reads.
struct Ticket {
    base: u64,
    done: Receiver<io::Result<Window>>,
    unwanted: Arc<AtomicBool>,
}

impl<F: DiskFile> Reads<F> {
    /// Reads by the caller's thread alone.
    pub(crate) fn alone(span: Span<F>) -> Self {
        Self { span, lease: None, size: BLOCK, free: None, pool: None, ahead: None }
    }

    /// Reads with the help of `pool` once the reader reads on.
    pub(crate) fn leased(span: Span<F>, lease: Arc<Lease<F>>, pool: Arc<ReadPool>) -> Self {
        Self { lease: Some(lease), pool: Some(pool), ..Self::alone(span) }
    }

    /// The first window has this length, within bounds: what is said about it may be wrong.
    pub(crate) fn begin_with(&mut self, len: usize) {
        self.size = len.clamp(BLOCK, READ_MAX);
    }

    /// What follows the segment is read as this one was.
    pub(crate) fn like(mut self, other: &mut Self) -> Self {
        self.size = other.size;
        self.free = other.free.take();
        self
    }

    pub(crate) fn limit(&self) -> u64 {
        self.span.limit()
    }

    pub(crate) fn extend(&mut self, limit: u64) {
        self.span.extend(limit);
    }

    /// The window at `at`, if another thread has read it, or does so now.
    fn receive(&mut self, at: u64) -> Option<io::Result<Window>> {
        let ticket = self.ahead.take().filter(|ticket| ticket.base == at)?;
        // A thread that panicked over it has said so; the reader comes to the same place itself.
        ticket.done.recv().ok()
    }

    /// Lets another thread read what follows `window`.
    fn read_ahead(&mut self, window: &Window) {
        let base = window.end();
        let (Some(pool), Some(lease)) = (&self.pool, &self.lease) else { return };
        if self.size < AHEAD_FROM || !window.goes_on(&self.span) {
            return;
        }
        let (finished, done) = sync_channel(1);
        let unwanted = Arc::new(AtomicBool::new(false));
        let (span, lease, size) = (self.span.clone(), Arc::clone(lease), self.size);
        let buffer = self.free.take().unwrap_or_default();
        let skip = Arc::clone(&unwanted);
        let job = move || {
            if !skip.load(Ordering::Acquire) {
                // A reader that has gone meanwhile wants nothing.
                let _ = finished.send(span.read(base, size, buffer));
            }
            drop(lease);
        };
        if pool.submit(Box::new(job)).is_ok() {
            self.ahead = Some(Ticket { base, done, unwanted });
        }
    }
}

impl<F: DiskFile> Windows for Reads<F> {
    type File = F;

    fn span(&self) -> &Span<F> {
        &self.span
    }

    fn take(&mut self, at: u64, least: usize) -> io::Result<Window> {
        let window = if let Some(read) = self.receive(at) {
            read?
        } else {
            let len = self.size.max(least);
            self.span.read(at, len, self.free.take().unwrap_or_default())?
        };
        self.size = self.size.max(least).saturating_mul(2).min(READ_MAX);
        self.read_ahead(&window);
        Ok(window)
    }

    fn give_back(&mut self, window: Window) {
        self.free = Some(window.into_buffer());
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.unwanted.store(true, Ordering::Release);
    }
}
