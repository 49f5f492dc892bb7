//! Reading ahead: threads that read and check windows while the visitor has an earlier one.
//!
//! Owns: the threads, the order of windows, the bound on memory. A window is asked for in order;
//! whatever was read ahead in vain, because a segment ended early, is thrown away.
//! Does not know: groups.
//!
//! Memory: one window of [`WINDOW`] bytes for each thread, read or being
//! read, and the one that is being visited. Without threads the caller reads, one window at a
//! time, in an order that never varies.

use std::collections::VecDeque;
use std::io;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{Builder, Scope};

use super::walk::Windows;
use super::window::{Span, WINDOW, Window};
use crate::disk::DiskFile;
use crate::format::segment::GROUPS_AT;
use crate::io::IoBuffer;

/// A window: which segment of the plan, and where it begins.
type Wanted = (usize, u64);

struct Job {
    wanted: Wanted,
    buffer: IoBuffer,
}

/// One thread: it is given a job when its last window has been taken.
struct Worker {
    jobs: SyncSender<Job>,
    done: Receiver<io::Result<Window>>,
}

/// The windows of all segments, in order.
pub(crate) struct Ahead<'s, F> {
    spans: &'s [Span<F>],
    workers: Vec<Worker>,
    /// Windows on their way; the n-th since the start is the n-th worker's, going round.
    pending: VecDeque<Wanted>,
    taken: usize,
    /// What is given to a thread next.
    next: Option<Wanted>,
    free: Vec<IoBuffer>,
    buffers: usize,
}

impl<'s, F: DiskFile> Ahead<'s, F> {
    /// Reads on `threads` threads, or on fewer where the system gives no more.
    pub(crate) fn start<'scope>(
        scope: &'scope Scope<'scope, '_>,
        threads: usize,
        spans: &'s [Span<F>],
    ) -> Self
    where
        's: 'scope,
    {
        let windows = spans.iter().map(|span| span.bytes().div_ceil(WINDOW as u64));
        let windows = windows.fold(0, u64::saturating_add);
        let useful = usize::try_from(windows.saturating_sub(1)).unwrap_or(usize::MAX);
        let spawned = (0..threads.min(useful)).map_while(|_| spawn(scope, spans).ok());
        Self {
            spans,
            workers: spawned.collect(),
            pending: VecDeque::new(),
            taken: 0,
            next: None,
            free: Vec::new(),
            buffers: 0,
        }
    }

    pub(crate) fn span(&self, segment: usize) -> &'s Span<F> {
        &self.spans[segment]
    }

    /// The windows of one segment.
    pub(crate) fn of(&mut self, segment: usize) -> OfSegment<'_, 's, F> {
        OfSegment { ahead: self, segment }
    }

    /// The window of a segment that begins at `base`. What was read ahead of it is thrown away;
    /// what follows it is read meanwhile.
    fn take(&mut self, segment: usize, base: u64) -> io::Result<Window> {
        let wanted = (segment, base);
        if self.workers.is_empty() {
            let buffer = self.buffer();
            let read = self.spans[segment].read(base, WINDOW, buffer);
            self.buffers -= usize::from(read.is_err());
            return read;
        }
        while self.pending.front().is_some_and(|front| *front != wanted) {
            // A failure to read what nobody wants is none.
            if let Ok(window) = self.receive() {
                self.give_back(window);
            }
        }
        if self.pending.is_empty() {
            self.next = Some(wanted);
        }
        self.fill();
        let window = self.receive();
        self.fill();
        window
    }

    /// Its memory is used again.
    fn give_back(&mut self, window: Window) {
        self.free.push(window.into_buffer());
    }

    fn receive(&mut self) -> io::Result<Window> {
        let worker = &self.workers[self.taken % self.workers.len()];
        assert!(self.pending.pop_front().is_some(), "a window was given to a thread");
        self.taken += 1;
        let Ok(read) = worker.done.recv() else {
            unreachable!("a reading thread never ends first")
        };
        if read.is_err() {
            self.buffers -= 1;
        }
        read
    }

    /// Gives each thread that has nothing to do the next window.
    fn fill(&mut self) {
        while self.pending.len() < self.workers.len()
            && let Some(wanted) = self.next
        {
            // The one that is visited may still hold the last buffer.
            if self.free.is_empty() && self.buffers > self.workers.len() {
                return;
            }
            let buffer = self.buffer();
            let at = (self.taken + self.pending.len()) % self.workers.len();
            let sent = self.workers[at].jobs.send(Job { wanted, buffer });
            assert!(sent.is_ok(), "a reading thread never ends first");
            self.pending.push_back(wanted);
            self.next = self.after(wanted);
        }
    }

    fn after(&self, (segment, base): Wanted) -> Option<Wanted> {
        let next = base + WINDOW as u64;
        if next < self.spans[segment].limit() {
            return Some((segment, next));
        }
        let rest = self.spans.iter().enumerate().skip(segment + 1);
        let mut with_groups = rest.filter(|(_, span)| span.bytes() > 0);
        with_groups.next().map(|(segment, _)| (segment, GROUPS_AT))
    }

    fn buffer(&mut self) -> IoBuffer {
        self.free.pop().unwrap_or_else(|| {
            self.buffers += 1;
            assert!(self.buffers <= self.workers.len() + 1, "a window for each thread and one");
            IoBuffer::new()
        })
    }
}

/// One segment of the plan.
pub(crate) struct OfSegment<'a, 's, F> {
    ahead: &'a mut Ahead<'s, F>,
    segment: usize,
}

impl<F: DiskFile> Windows for OfSegment<'_, '_, F> {
    type File = F;

    fn span(&self) -> &Span<F> {
        self.ahead.span(self.segment)
    }

    fn take(&mut self, at: u64, _: usize) -> io::Result<Window> {
        self.ahead.take(self.segment, at)
    }

    fn give_back(&mut self, window: Window) {
        self.ahead.give_back(window);
    }
}

fn spawn<'scope, 's: 'scope, F: DiskFile>(
    scope: &'scope Scope<'scope, '_>,
    spans: &'s [Span<F>],
) -> io::Result<Worker> {
    let (jobs, taken) = sync_channel::<Job>(1);
    let (finished, done) = sync_channel(1);
    let read = move || {
        while let Ok(Job { wanted: (segment, base), buffer }) = taken.recv() {
            if finished.send(spans[segment].read(base, WINDOW, buffer)).is_err() {
                return;
            }
        }
    };
    Builder::new().name("zzq-recovery".to_owned()).spawn_scoped(scope, read)?;
    Ok(Worker { jobs, done })
}
