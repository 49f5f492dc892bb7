//! Linux AIO: writes that the kernel carries out while the caller goes on.
//!
//! Owns: the kernel's AIO context, and every buffer from its submission to its completion.
//! Assumes: files opened for direct I/O (for others `io_submit` blocks), blocks written before
//! (else it blocks as well), offsets and lengths that are multiples of a block.
//!
//! A buffer in flight lies in `flight` alone: nobody else has it, so nobody can touch it. The
//! mutex guards that slab for a few instructions at a time and is never held over a system call:
//! a lane that submits or reaps can wait for another lane's insertion or removal, never for the
//! device. (The kernel serialises its ring itself, so that any thread may submit and reap.)

use std::io;
use std::mem::offset_of;
use std::os::fd::AsRawFd;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use libc::{c_long, c_ulong, timespec};
use slab::Slab;

use crate::disk::{Completion, Write};
use crate::io::OpenFile;

/// Writes in flight on one AIO context.
#[derive(Debug)]
pub(super) struct Aio {
    context: Context,
    depth: usize,
    flight: Mutex<Slab<InFlight>>,
}

impl Aio {
    /// A context for at most `depth` writes in flight.
    pub(super) fn new(depth: usize) -> io::Result<Self> {
        let events = u32::try_from(depth).map_err(io::Error::other)?;
        let flight = Mutex::new(Slab::with_capacity(depth));
        Ok(Self { context: Context::new(events)?, depth, flight })
    }

    /// Hands the write to the kernel, or gives it back: `WouldBlock` when `depth` writes are in
    /// flight or the kernel has no room.
    pub(super) fn submit(
        &self,
        write: Write<OpenFile>,
    ) -> Result<(), (Write<OpenFile>, io::Error)> {
        let (key, mut iocb) = {
            let mut flight = self.flight();
            if flight.len() >= self.depth {
                return Err((write, io::ErrorKind::WouldBlock.into()));
            }
            let entry = flight.vacant_entry();
            let key = entry.key();
            let held = entry.insert(InFlight::new(write));
            (key, Iocb::write(held, key as u64))
        };
        // SAFETY: the iocb names the buffer that `flight` holds under `key`. Only `take` removes
        // it, for a completion or a submission that failed, and dropping `self` waits for both,
        // so the memory stays allocated and untouched for as long as the kernel reads it.
        let submitted = unsafe { self.context.submit(&mut iocb) };
        submitted.map_err(|error| (self.flight().remove(key).write, error))
    }

    /// Appends completions that have arrived. One load when there are none.
    pub(super) fn reap(&self, completions: &mut Vec<Completion>) {
        if self.context.is_empty() {
            return;
        }
        let mut events = [IoEvent::ZERO; 32];
        while self.take(0, &mut events, completions) == events.len() {}
    }

    /// Whether completions have arrived, where the kernel's ring is one that we can read.
    pub(super) fn has_completed(&self) -> Option<bool> {
        self.context.waiting()
    }

    /// Takes at least `least` completions, waiting for them; returns how many there were.
    fn take(
        &self,
        least: usize,
        events: &mut [IoEvent],
        completions: &mut Vec<Completion>,
    ) -> usize {
        let events = self.context.events(least, events);
        let mut flight = self.flight();
        for event in events {
            let key = usize::try_from(event.data).unwrap_or(usize::MAX);
            let held = flight.try_remove(key);
            assert!(held.is_some(), "the kernel completed a write that is not in flight");
            completions.extend(held.map(|held| held.complete(event.result)));
        }
        events.len()
    }

    fn flight(&self) -> MutexGuard<'_, Slab<InFlight>> {
        self.flight.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Aio {
    /// Waits for the writes in flight: no buffer is freed while the kernel reads it.
    fn drop(&mut self) {
        let mut events = [IoEvent::ZERO; 32];
        let mut completions = Vec::new();
        while !self.flight().is_empty() {
            self.take(1, &mut events, &mut completions);
            completions.clear();
        }
    }
}

/// A write that the kernel has, and the address that it was told.
#[derive(Debug)]
struct InFlight {
    write: Write<OpenFile>,
    address: usize,
}

impl InFlight {
    fn new(write: Write<OpenFile>) -> Self {
        let address = write.buffer.as_ptr().addr();
        Self { write, address }
    }

    fn complete(self, result: i64) -> Completion {
        let Write { buffer, token, .. } = self.write;
        assert_eq!(buffer.as_ptr().addr(), self.address, "a buffer in flight stays in its place");
        let result = match usize::try_from(result) {
            Ok(written) => Ok(written),
            Err(_) => Err(io::Error::from_raw_os_error(errno(result))),
        };
        assert!(
            result.as_ref().is_ok_and(|written| *written <= buffer.len()) || result.is_err(),
            "no write writes more than it was given"
        );
        Completion { token, buffer, result }
    }
}

/// The error number in a negative result.
fn errno(result: i64) -> i32 {
    i32::try_from(-result).unwrap_or(libc::EIO)
}

/// An AIO context of the kernel: a ring of completions, mapped into this process.
#[derive(Debug)]
struct Context {
    id: usize,
}

const _: () = assert!(size_of::<usize>() == size_of::<c_ulong>());

impl Context {
    fn new(events: u32) -> io::Result<Self> {
        let mut id: usize = 0;
        // SAFETY: `id` is a valid place for the context id (an unsigned long, asserted above to be
        // of this size), and zero as the call wants it.
        let result = unsafe { libc::syscall(libc::SYS_io_setup, events, &raw mut id) };
        check(result)?;
        Ok(Self { id })
    }

    /// Submits one request.
    ///
    /// # Safety
    /// The buffer that `iocb` names stays allocated and unmodified until its completion was
    /// returned by [`Self::events`], or this call has failed.
    unsafe fn submit(&self, iocb: &mut Iocb) -> io::Result<()> {
        let mut list = [ptr::from_mut(iocb)];
        let one: c_long = 1;
        // SAFETY: `list` holds one pointer to a valid iocb, which the kernel copies within the
        // call; the caller answers for the buffer.
        let result = unsafe { libc::syscall(libc::SYS_io_submit, self.id, one, list.as_mut_ptr()) };
        match check(result)? {
            1 => Ok(()),
            // Nothing was taken: the same as EAGAIN.
            _ => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    /// Whether there is certainly no completion to take: then no system call is needed.
    fn is_empty(&self) -> bool {
        self.waiting() == Some(false)
    }

    /// Whether there are completions to take, if the ring is laid out as we know it.
    fn waiting(&self) -> Option<bool> {
        let ring = ptr::with_exposed_provenance_mut::<Ring>(self.id);
        // SAFETY: a context id is the address of the ring that the kernel mapped, readable until
        // `io_destroy`; the kernel changes these aligned words under us, hence atomics.
        let (head, tail, magic) = unsafe {
            (
                AtomicU32::from_ptr(&raw mut (*ring).head).load(Ordering::Acquire),
                AtomicU32::from_ptr(&raw mut (*ring).tail).load(Ordering::Acquire),
                AtomicU32::from_ptr(&raw mut (*ring).magic).load(Ordering::Relaxed),
            )
        };
        (magic == Ring::MAGIC).then_some(head != tail)
    }

    /// Takes completions, waiting for the first `least`; a signal can cut the wait short.
    fn events<'a>(&self, least: usize, events: &'a mut [IoEvent]) -> &'a [IoEvent] {
        assert!(least <= events.len(), "no more can be waited for than fit");
        let mut zero = timespec { tv_sec: 0, tv_nsec: 0 };
        let timeout = if least == 0 { &raw mut zero } else { ptr::null_mut() };
        // SAFETY: `events` has room for as many events as we say, the timeout is valid or null.
        let result = unsafe {
            libc::syscall(
                libc::SYS_io_getevents,
                self.id,
                least,
                events.len(),
                events.as_mut_ptr(),
                timeout,
            )
        };
        let count = match check(result) {
            Ok(count) => count,
            Err(error) => {
                // A signal is the only thing that can go wrong with a context that exists.
                let interrupted = error.kind() == io::ErrorKind::Interrupted;
                assert!(interrupted, "taking completions of a valid context failed: {error}");
                0
            }
        };
        &events[..count]
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: the context exists and nobody uses it after us. Its owner has waited for all
        // requests; the kernel would wait as well.
        let result = unsafe { libc::syscall(libc::SYS_io_destroy, self.id) };
        assert_eq!(result, 0, "a context is destroyed once");
    }
}

/// The count that a system call returned, or its error.
fn check(result: c_long) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

/// `struct iocb` of the kernel's `linux/aio_abi.h`, little-endian.
#[repr(C)]
struct Iocb {
    data: u64,
    key: u32,
    rw_flags: i32,
    opcode: u16,
    priority: i16,
    fd: u32,
    buffer: u64,
    length: u64,
    offset: i64,
    reserved: u64,
    flags: u32,
    event: u32,
}

const _: () = assert!(size_of::<Iocb>() == 64);
const _: () = assert!(offset_of!(Iocb, rw_flags) == 12 && offset_of!(Iocb, opcode) == 16);
const _: () = assert!(offset_of!(Iocb, buffer) == 24 && offset_of!(Iocb, flags) == 56);
const _: () = assert!(cfg!(target_endian = "little"), "`key` and `rw_flags` change places");

impl Iocb {
    const PWRITE: u16 = 1;
    /// `event` is an eventfd to be signalled.
    const EVENT: u32 = 1;

    fn write(held: &InFlight, data: u64) -> Self {
        let write = &held.write;
        let event = write.notify.as_ref().map(|event| descriptor(event.as_raw_fd()));
        Self {
            data,
            key: 0,
            rw_flags: if write.sync { libc::RWF_DSYNC } else { 0 },
            opcode: Self::PWRITE,
            priority: 0,
            fd: descriptor(write.file.as_raw_fd()),
            buffer: held.address as u64,
            length: write.buffer.len() as u64,
            // An offset past the end of all files is refused by the kernel as a negative one.
            offset: i64::try_from(write.offset).unwrap_or(-1),
            reserved: 0,
            flags: if event.is_some() { Self::EVENT } else { 0 },
            event: event.unwrap_or(0),
        }
    }
}

fn descriptor(fd: i32) -> u32 {
    let descriptor = u32::try_from(fd);
    assert!(descriptor.is_ok(), "an open descriptor is not negative");
    descriptor.unwrap_or(u32::MAX)
}

/// `struct io_event` of the kernel's `linux/aio_abi.h`.
#[derive(Clone, Copy)]
#[repr(C)]
struct IoEvent {
    data: u64,
    iocb: u64,
    result: i64,
    result_more: i64,
}

const _: () = assert!(size_of::<IoEvent>() == 32 && offset_of!(IoEvent, result) == 16);

impl IoEvent {
    const ZERO: Self = Self { data: 0, iocb: 0, result: 0, result_more: 0 };
}

/// The start of the kernel's `struct aio_ring`, which user space may read.
#[repr(C)]
struct Ring {
    id: u32,
    capacity: u32,
    head: u32,
    tail: u32,
    magic: u32,
}

impl Ring {
    const MAGIC: u32 = 0xa10a_10a1;
}

#[cfg(test)]
mod tests;
