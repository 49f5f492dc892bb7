//! `io_uring`: writes through a ring that is shared with the kernel.
//!
//! Owns: every buffer from its submission to its completion, and what is done where a kernel, a
//! limit or a sandbox refuses a part of `io_uring`: each part is done without by itself.
//! Assumes: as AIO, files opened for direct I/O, and blocks written before.
//!
//! A ring with `SINGLE_ISSUER` and `DEFER_TASKRUN` belongs to one thread, and leadership moves
//! from lane to lane. So who opens the disk says who issues ([`Issuers`]):
//!
//! * *one thread*, the log's own: such a ring, made disabled and bound by its first submission.
//!   Once nothing is in flight another thread may go on, on a ring of the other kind.
//! * *any thread*: a ring without these flags. Each write is linked to one that makes the leader's
//!   eventfd readable. The link is a hard one: it rings whatever became of the write.
//!
//! The mutex guards ring and writes, over the system call of a submission too: the log submits
//! under its own lead, and nobody else comes.

mod ring;

use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

use slab::Slab;

#[cfg(test)]
pub(super) use self::ring::ENTRIES_DEFERRED;
use self::ring::{Bell, Kind, Request, Ring, Submitted};
use crate::disk::{Completion, Write};
use crate::io::buffer::Pool;
use crate::io::{IoBuffer, OpenFile, event};

/// Which threads submit writes to a disk and take their completions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Issuers {
    /// Any thread, at any time, with an eventfd of its own. One that ends before its writes have
    /// come back may not be called for them; others take them all the same. One of them that the
    /// kernel has not begun by then it may cancel (`ECANCELED`): a write that has failed, like any
    /// other, which the log writes again elsewhere.
    #[default]
    Any,
    /// The thread that submits first, with one eventfd for all writes in flight. Another one only
    /// when nothing is in flight any more.
    One,
}

/// Writes in flight on one ring.
pub(super) struct Uring {
    inner: Mutex<Inner>,
    pool: Option<Arc<Pool>>,
    /// What is done without, and why.
    without: Vec<String>,
}

/// Slots of registered memory at most: 4 MiB, which the limit of locked memory that users have by
/// default has room for.
const SLOTS_MAX: u16 = 4;

/// The completion of a bell has this bit in its data, that of its write has not.
const BELL: u64 = 1;

struct Inner {
    ring: Ring,
    depth: usize,
    flight: Slab<InFlight>,
    /// Entries of `flight` whose write has not completed.
    writes: usize,
    /// The thread that a deferred ring is bound to.
    issuer: Option<ThreadId>,
    /// The eventfd that a deferred ring signals.
    event: Arc<OwnedFd>,
    pool: Option<Arc<Pool>>,
    /// Taken before anybody asked.
    early: Vec<Completion>,
    /// The ring has refused a submission, and may still hold it: the next goes to another ring.
    refused: bool,
}

/// What the kernel has of one write.
struct InFlight {
    /// Until it completes.
    write: Option<Write<OpenFile>>,
    address: usize,
    /// Until it was rung: the kernel looks the eventfd up when the write has completed.
    bell: Option<Arc<OwnedFd>>,
}

impl Uring {
    /// A ring for at most `depth` writes in flight.
    pub(super) fn new(depth: usize, issuers: Issuers) -> io::Result<Self> {
        let mut without = Vec::new();
        let entries = u32::try_from(depth).map_err(io::Error::other)?;
        let event = event::create()?;
        let mut ring = match issuers {
            Issuers::Any => Ring::shared(entries)?,
            Issuers::One => match deferred(entries, &event) {
                Ok(ring) => ring,
                Err(error) => {
                    without.push(format!("deferred completions ({error})"));
                    Ring::shared(entries)?
                }
            },
        };
        if !ring.has_files() {
            without.push("registered files".to_owned());
        }
        let pool = match register_some(&mut ring) {
            Ok(pool) => Some(pool),
            Err(error) => {
                without.push(format!("registered buffers ({error})"));
                None
            }
        };
        let inner = Inner {
            ring,
            depth,
            flight: Slab::with_capacity(2 * depth),
            writes: 0,
            issuer: None,
            event,
            pool: pool.clone(),
            early: Vec::new(),
            refused: false,
        };
        Ok(Self { inner: Mutex::new(inner), pool, without })
    }

    /// What it does, and without what, for people.
    pub(super) fn describe(&self) -> String {
        let kind = match self.inner().ring.kind() {
            Kind::Shared => "any thread issues",
            Kind::Deferred => "one thread issues",
        };
        let slots = self.pool.as_ref().map_or(0, |pool| pool.starts().len());
        let memory = format!("{} MiB registered", slots * Pool::SLOT / (1024 * 1024));
        let mut parts = vec![kind.to_owned(), memory];
        parts.extend(self.without.iter().map(|part| format!("without {part}")));
        parts.join(", ")
    }

    /// A buffer in registered memory, while there is some.
    pub(super) fn buffer(&self, bytes: usize) -> IoBuffer {
        let lent = self.pool.as_ref().and_then(|pool| pool.lend(bytes));
        lent.unwrap_or_else(|| IoBuffer::with_capacity(bytes))
    }

    /// Hands the write to the kernel, or gives it back: `WouldBlock` when `depth` writes are in
    /// flight, or those in flight are another thread's or go to another eventfd.
    pub(super) fn submit(
        &self,
        write: Write<OpenFile>,
    ) -> Result<(), (Write<OpenFile>, io::Error)> {
        let mut inner = self.inner();
        match inner.prepare(&write) {
            Ok(()) => inner.submit(write),
            Err(error) => Err((write, error)),
        }
    }

    /// Appends completions that have arrived. No system call when there are none.
    pub(super) fn reap(&self, completions: &mut Vec<Completion>) {
        let mut inner = self.inner();
        completions.append(&mut inner.early);
        inner.reap(completions);
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A deferred ring, if such a ring can be bound to a thread: another one shows that.
fn deferred(entries: u32, event: &OwnedFd) -> io::Result<Ring> {
    Ring::deferred(entries, event)?.enable()?;
    Ring::deferred(entries, event)
}

/// Registers as much memory as the kernel takes, half of it at each further attempt.
fn register_some(ring: &mut Ring) -> io::Result<Arc<Pool>> {
    let mut slots = SLOTS_MAX;
    loop {
        let pool = Pool::new(slots);
        // SAFETY: whoever gets the pool keeps it beside the ring.
        match unsafe { ring.register(&pool) } {
            Ok(()) => return Ok(pool),
            Err(_) if slots > 1 => slots /= 2,
            Err(error) => return Err(error),
        }
    }
}

impl Inner {
    /// Sees to it that the ring takes this write from this thread.
    fn prepare(&mut self, write: &Write<OpenFile>) -> io::Result<()> {
        if self.writes >= self.depth {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        if self.refused {
            return self.go_on_shared();
        }
        if self.ring.kind() == Kind::Shared {
            return Ok(());
        }
        if self.issuer.is_none() && self.ring.enable().is_ok() {
            self.issuer = Some(thread::current().id());
        }
        if !self.is_issuer() {
            return self.go_on_shared();
        }
        match &write.notify {
            Some(event) if !Arc::ptr_eq(event, &self.event) => self.set_event(event),
            _ => Ok(()),
        }
    }

    fn is_issuer(&self) -> bool {
        self.issuer == Some(thread::current().id())
    }

    fn set_event(&mut self, event: &Arc<OwnedFd>) -> io::Result<()> {
        if self.writes > 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        if self.ring.set_event(event).is_err() {
            return self.go_on_shared();
        }
        self.event = Arc::clone(event);
        Ok(())
    }

    /// The thread that the ring is bound to is not the one that submits, or none can be bound, or
    /// the ring has refused a submission. What it still holds goes with it.
    fn go_on_shared(&mut self) -> io::Result<()> {
        // A bell may come behind the last write, and nobody would ask for it.
        self.reap_early();
        if !self.flight.is_empty() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let depth = u32::try_from(self.depth).map_err(io::Error::other)?;
        self.ring = Ring::shared(depth)?;
        if let Some(pool) = &self.pool {
            // SAFETY: `self` keeps the pool as long as the ring. Memory that cannot be registered
            // again is written from like any other.
            let _ = unsafe { self.ring.register(pool) };
        }
        self.refused = false;
        Ok(())
    }

    fn submit(&mut self, write: Write<OpenFile>) -> Result<(), (Write<OpenFile>, io::Error)> {
        let slot = self.pool.as_ref().and_then(|pool| write.buffer.slot_of(pool));
        let shared = self.ring.kind() == Kind::Shared;
        let bell = write.notify.clone().filter(|_| shared);
        let address = write.buffer.as_ptr().addr();
        let key = self.flight.insert(InFlight { write: Some(write), address, bell });
        let held = &self.flight[key];
        let Some(write) = &held.write else { unreachable!("it was just put there") };
        let data = (key as u64) << 1;
        let request = Request {
            file: &write.file,
            start: write.buffer.as_ptr(),
            len: write.buffer.len(),
            slot,
            offset: write.offset,
            sync: write.sync,
            data,
        };
        let bell = held.bell.as_deref().map(|event| Bell { event, data: data | BELL });
        // SAFETY: the request names the buffer, file and event that `flight` holds under `key`.
        // Only `reap` removes them, for their completions, or a line below, for a submission that
        // failed; dropping `self` waits for the completions, or lets go of `flight` for ever.
        match unsafe { self.ring.submit(&request, bell) } {
            Ok(Submitted::WithoutBell) => {
                self.writes += 1;
                self.await_without_bell(key);
                Ok(())
            }
            Ok(Submitted::All) => {
                self.writes += 1;
                // A write that is refused at once takes its link along, and nothing rings.
                if let Some(event) = bell
                    && self.ring.has_completions()
                {
                    event::signal(event.event);
                }
                Ok(())
            }
            Err(error) => {
                self.refused = true;
                let Some(write) = self.flight.remove(key).write else {
                    unreachable!("nothing took it")
                };
                Err((write, error))
            }
        }
    }

    /// The write under `key` is in flight, and its bell is left in the ring, never to be submitted:
    /// behind a later write it would be rung for the wrong one.
    #[cold]
    fn await_without_bell(&mut self, key: usize) {
        self.refused = true;
        let bell = self.flight.get_mut(key).and_then(|held| held.bell.take());
        while self.flight.contains(key) {
            self.ring.wait();
            self.reap_early();
        }
        if let Some(event) = bell {
            event::signal(&event);
        }
    }

    fn reap_early(&mut self) {
        let mut early = std::mem::take(&mut self.early);
        self.reap(&mut early);
        self.early = early;
    }

    fn reap(&mut self, completions: &mut Vec<Completion>) {
        if self.flight.is_empty() || (self.ring.kind() == Kind::Deferred && !self.is_issuer()) {
            return;
        }
        for entry in self.ring.completions() {
            let (data, result) = (entry.user_data(), entry.result());
            let key = usize::try_from(data >> 1).unwrap_or(usize::MAX);
            let Some(held) = self.flight.get_mut(key) else {
                unreachable!("the kernel completed what is not in flight")
            };
            if data & BELL == BELL {
                held.rung(result);
            } else {
                completions.push(held.complete(result));
                self.writes -= 1;
            }
            if held.write.is_none() && held.bell.is_none() {
                self.flight.remove(key);
            }
        }
    }
}

impl InFlight {
    fn complete(&mut self, result: i32) -> Completion {
        let Some(Write { buffer, token, .. }) = self.write.take() else {
            unreachable!("a write completes once")
        };
        assert_eq!(buffer.as_ptr().addr(), self.address, "a buffer in flight stays in its place");
        let result = match usize::try_from(result) {
            Ok(written) => Ok(written),
            Err(_) => Err(io::Error::from_raw_os_error(-result)),
        };
        assert!(
            result.as_ref().is_ok_and(|written| *written <= buffer.len()) || result.is_err(),
            "no write writes more than it was given"
        );
        Completion { token, buffer, result }
    }

    /// A bell that the kernel could not ring is rung here.
    fn rung(&mut self, result: i32) {
        let Some(event) = self.bell.take() else { unreachable!("a bell is rung once") };
        if result < 0 {
            event::signal(&event);
        }
    }
}

impl Drop for Inner {
    /// Waits for the writes in flight: no buffer is freed while the kernel reads it. Those that
    /// another thread left on a ring of its own cannot be waited for: their memory stays taken.
    fn drop(&mut self) {
        let mut completions = Vec::new();
        loop {
            self.reap(&mut completions);
            completions.clear();
            if self.flight.is_empty() {
                return;
            }
            if self.ring.kind() == Kind::Deferred && !self.is_issuer() {
                std::mem::forget(std::mem::take(&mut self.flight));
                return;
            }
            self.ring.wait();
        }
    }
}

impl std::fmt::Debug for Uring {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_tuple("Uring").field(&self.describe()).finish()
    }
}

#[cfg(test)]
mod tests;
