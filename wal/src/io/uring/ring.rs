//! One ring of the kernel, and what is registered with it.
//!
//! Owns: the mapping, the order of its system calls, the file that is registered.
//! Does not know: which writes are in flight; its caller keeps their memory.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr;
use std::sync::atomic::{Ordering, fence};

use io_uring::types::{Fd, Fixed};
use io_uring::{EnterFlags, IoUring, cqueue, opcode, squeue};

use crate::io::OpenFile;
use crate::io::buffer::Pool;

/// How completions reach their reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The kernel posts them by itself; any thread submits and takes them. Each write is linked
    /// to one that makes its own eventfd readable.
    Shared,
    /// They wait until the one thread that submits asks for them (`SINGLE_ISSUER`,
    /// `DEFER_TASKRUN`); one eventfd, registered with the ring, becomes readable then.
    Deferred,
}

pub(super) struct Ring {
    mapped: IoUring,
    kind: Kind,
    files: Files,
    /// Slots of the pool with a lower number are registered.
    slots: u16,
}

/// What is written, told to the kernel by number or by address.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request<'a> {
    pub(super) file: &'a OpenFile,
    pub(super) start: *const u8,
    pub(super) len: usize,
    /// The slot of the pool that it lies in.
    pub(super) slot: Option<u16>,
    pub(super) offset: u64,
    pub(super) sync: bool,
    pub(super) data: u64,
}

/// An eventfd to be signalled behind a write, and the data of its completion.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bell<'a> {
    pub(super) event: &'a OwnedFd,
    pub(super) data: u64,
}

/// What the kernel has taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Submitted {
    All,
    WithoutBell,
}

/// Places for submissions. They tell the two kinds of ring apart in a filter of system calls.
pub(in crate::io) const ENTRIES_DEFERRED: u32 = 8;
const ENTRIES_SHARED: u32 = 16;

/// What a write to an eventfd adds to it.
static ONE: u64 = 1;

impl Ring {
    /// A ring for any thread, with room for the completions of `depth` writes.
    pub(super) fn shared(depth: u32) -> io::Result<Self> {
        let ring = IoUring::builder().setup_cqsize(4 * depth).build(ENTRIES_SHARED)?;
        Ok(Self::new(ring, Kind::Shared))
    }

    /// A ring for the thread that enables it.
    pub(super) fn deferred(depth: u32, event: &OwnedFd) -> io::Result<Self> {
        let ring = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_taskrun_flag()
            .setup_r_disabled()
            .setup_cqsize(2 * depth)
            .build(ENTRIES_DEFERRED)?;
        ring.submitter().register_eventfd(event.as_raw_fd())?;
        Ok(Self::new(ring, Kind::Deferred))
    }

    fn new(ring: IoUring, kind: Kind) -> Self {
        let files = Files::register(&ring);
        Self { mapped: ring, kind, files, slots: 0 }
    }

    pub(super) fn kind(&self) -> Kind {
        self.kind
    }

    pub(super) fn has_files(&self) -> bool {
        self.files.registered
    }

    /// What the kernel says of it, for tests: the files that it keeps are named there.
    #[cfg(test)]
    pub(super) fn described(&self) -> String {
        let number = self.mapped.as_raw_fd();
        std::fs::read_to_string(format!("/proc/self/fdinfo/{number}")).unwrap_or_default()
    }

    /// Binds a deferred ring to the calling thread.
    pub(super) fn enable(&self) -> io::Result<()> {
        self.mapped.submitter().register_enable_rings()
    }

    /// Has `event` signalled instead of the one before.
    pub(super) fn set_event(&self, event: &OwnedFd) -> io::Result<()> {
        self.mapped.submitter().unregister_eventfd()?;
        self.mapped.submitter().register_eventfd(event.as_raw_fd())
    }

    /// Tells the kernel about the slots of `pool`, once.
    ///
    /// # Safety
    /// The pool outlives this ring.
    pub(super) unsafe fn register(&mut self, pool: &Pool) -> io::Result<()> {
        assert_eq!(self.slots, 0, "a ring knows one pool");
        let slots: Vec<_> = pool
            .starts()
            .iter()
            .map(|start| libc::iovec {
                // An address is all that the kernel takes: it pins the pages behind it.
                iov_base: ptr::without_provenance_mut(*start),
                iov_len: Pool::SLOT,
            })
            .collect();
        // SAFETY: each slot is memory of this length that stays in its place as long as the pool,
        // for which the caller answers.
        unsafe { self.mapped.submitter().register_buffers(&slots)? };
        self.slots = u16::try_from(slots.len()).map_err(io::Error::other)?;
        Ok(())
    }

    /// Submits one write, with its bell behind it. After an error nothing was submitted, and
    /// nothing is to be submitted to this ring any more. Nor is it when the write went without its
    /// bell, for which the kernel had no memory.
    ///
    /// # Safety
    /// The memory that `request` names stays allocated and unmodified, its file and the bell's
    /// event stay open, until their completions have been taken or this call has failed.
    pub(super) unsafe fn submit(
        &mut self,
        request: &Request<'_>,
        bell: Option<Bell<'_>>,
    ) -> io::Result<Submitted> {
        let mut write = self.write(request);
        let count = if bell.is_some() { 2 } else { 1 };
        if bell.is_some() {
            write = write.flags(squeue::Flags::IO_HARDLINK);
        }
        let entries = [Some(write), bell.as_ref().map(ring_bell)];
        let mut queue = self.mapped.submission();
        for entry in entries.iter().flatten() {
            // SAFETY: the caller answers for what the entry of the write names; the bell's names
            // a static.
            let pushed = unsafe { queue.push(entry) };
            assert!(pushed.is_ok(), "every submission leaves the queue empty");
        }
        drop(queue);
        match self.enter(count, 0, EnterFlags::empty())? {
            taken if taken == count => Ok(Submitted::All),
            0 => Err(io::ErrorKind::WouldBlock.into()),
            _ => Ok(Submitted::WithoutBell),
        }
    }

    fn write(&mut self, request: &Request<'_>) -> squeue::Entry {
        let Request { start, offset, .. } = *request;
        let file = request.file.as_raw_fd();
        let Ok(len) = u32::try_from(request.len) else { unreachable!("groups are shorter") };
        let flags = if request.sync { libc::RWF_DSYNC } else { 0 };
        let place = self.files.place(&self.mapped, request.file);
        let slot = request.slot.filter(|slot| *slot < self.slots);
        let entry = match (place, slot) {
            (Some(place), Some(slot)) => opcode::WriteFixed::new(Fixed(place), start, len, slot)
                .offset(offset)
                .rw_flags(flags)
                .build(),
            (None, Some(slot)) => opcode::WriteFixed::new(Fd(file), start, len, slot)
                .offset(offset)
                .rw_flags(flags)
                .build(),
            (Some(place), None) => {
                opcode::Write::new(Fixed(place), start, len).offset(offset).rw_flags(flags).build()
            }
            (None, None) => {
                opcode::Write::new(Fd(file), start, len).offset(offset).rw_flags(flags).build()
            }
        };
        entry.user_data(request.data)
    }

    /// Completions that have arrived. A deferred ring is asked by the thread that enabled it.
    pub(super) fn completions(&mut self) -> cqueue::CompletionQueue<'_> {
        if self.kind == Kind::Deferred {
            self.run_deferred();
        }
        self.mapped.completion()
    }

    /// Whether there are completions that were not taken.
    pub(super) fn has_completions(&mut self) -> bool {
        !self.mapped.completion().is_empty()
    }

    /// Has the kernel post what it has deferred. What it posts would make the eventfd readable
    /// once more, for the thread that is here already, so it is told not to; whatever is deferred
    /// meanwhile without a signal is seen by the flag.
    fn run_deferred(&mut self) {
        while self.mapped.submission().taskrun() {
            self.mapped.completion().disable_eventfd();
            let ran = self.enter(0, 0, EnterFlags::GETEVENTS);
            self.mapped.completion().enable_eventfd();
            // Orders "signals are on" before "look at the flag", as the kernel orders "set the
            // flag" before "are signals on".
            fence(Ordering::SeqCst);
            assert!(ran.is_ok(), "taking completions of a valid ring failed: {ran:?}");
        }
    }

    /// Waits for a completion that has not been taken.
    pub(super) fn wait(&self) {
        let waited = self.enter(0, 1, EnterFlags::GETEVENTS);
        assert!(waited.is_ok(), "waiting for completions of a valid ring failed: {waited:?}");
    }

    fn enter(&self, submit: usize, wait: u32, flags: EnterFlags) -> io::Result<usize> {
        let Ok(submit) = u32::try_from(submit) else { unreachable!("two at most") };
        loop {
            // SAFETY: no argument is passed, and what is submitted was pushed by `submit`.
            let entered = unsafe {
                self.mapped.submitter().enter::<libc::sigset_t>(submit, wait, flags.bits(), None)
            };
            match entered {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                entered => return entered,
            }
        }
    }
}

fn ring_bell(bell: &Bell<'_>) -> squeue::Entry {
    let one = (&raw const ONE).cast();
    opcode::Write::new(Fd(bell.event.as_raw_fd()), one, 8).build().user_data(bell.data)
}

impl Drop for Ring {
    fn drop(&mut self) {
        if self.slots > 0 {
            // The kernel takes a closed ring apart later; until then its buffers would count
            // against the limit of locked memory. From another thread it refuses: so they do.
            let _ = self.mapped.submitter().unregister_buffers();
        }
    }
}

/// The file that the kernel need not look up: the segment that is written. No other is kept open,
/// since it may have been removed: its space would not come back before.
#[derive(Debug)]
struct Files {
    known: Option<OpenFile>,
    registered: bool,
}

impl Files {
    fn register(ring: &IoUring) -> Self {
        let registered = ring.submitter().register_files(&[-1]).is_ok();
        Self { known: None, registered }
    }

    /// The place of `file`; none where files cannot be registered. Writes to the file before it
    /// that are in flight keep it by themselves.
    fn place(&mut self, ring: &IoUring, file: &OpenFile) -> Option<u32> {
        if !self.registered {
            return None;
        }
        if self.known.as_ref().is_none_or(|known| !known.is_same(file)) {
            if ring.submitter().register_files_update(0, &[file.as_raw_fd()]).is_err() {
                (self.known, self.registered) = (None, false);
                return None;
            }
            self.known = Some(file.clone());
        }
        Some(0)
    }
}
