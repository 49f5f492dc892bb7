//! Writes between submission and completion, and who lets them go.
//!
//! Owns: what is in flight, in the order of submission. Completions are told to the write's
//! eventfd and to the disk's hook after the disk's state is unlocked: a hook may call the disk.

use std::os::fd::OwnedFd;
use std::sync::{Arc, PoisonError};

use crate::disk::Write;
use crate::io::event;
use crate::sim_disk::faults::Fault;
use crate::sim_disk::names::FileId;
use crate::sim_disk::{Hook, SimDisk};

#[derive(Debug, Default)]
pub(super) struct Flight {
    held: bool,
    writes: Vec<InFlight>,
}

#[derive(Debug)]
pub(super) struct InFlight {
    /// Names its file by its place: a file that holds its disk would keep a disk with writes in
    /// flight alive for ever.
    pub(super) write: Write<FileId>,
    pub(super) number: u64,
    pub(super) fault: Option<Fault>,
}

/// A completion that can be reaped, to be told.
#[derive(Debug)]
pub(super) struct Completed {
    pub(super) token: u64,
    pub(super) notify: Option<Arc<OwnedFd>>,
}

impl Flight {
    /// Adds a write, which shares neither token nor bytes with another one in flight: the order
    /// in which a device carries out two of them is nobody's to know.
    pub(super) fn add(&mut self, next: InFlight) {
        for other in &self.writes {
            assert_ne!(other.write.token, next.write.token, "tokens in flight are unique");
            assert!(!overlap(&other.write, &next.write), "writes in flight do not overlap");
        }
        self.writes.push(next);
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &InFlight> {
        self.writes.iter()
    }

    /// Takes out the write of this token, or the oldest one.
    pub(super) fn take(&mut self, token: Option<u64>) -> Option<InFlight> {
        let wanted = |flying: &InFlight| token.is_none_or(|token| flying.write.token == token);
        let at = self.writes.iter().position(wanted)?;
        Some(self.writes.remove(at))
    }

    pub(super) fn is_held(&self) -> bool {
        self.held
    }
}

fn overlap(one: &Write<FileId>, other: &Write<FileId>) -> bool {
    one.file == other.file
        && one.offset < other.offset + other.buffer.len() as u64
        && other.offset < one.offset + one.buffer.len() as u64
}

impl SimDisk {
    /// Withholds the completions of writes submitted from now on, until they are released.
    pub fn hold(&self) {
        self.state().flight.held = true;
    }

    /// Tokens of the writes in flight, the oldest first.
    pub fn in_flight(&self) -> Vec<u64> {
        self.state().flight.iter().map(|flying| flying.write.token).collect()
    }

    /// Completes the oldest write in flight; returns its token.
    pub fn release_next(&self) -> Option<u64> {
        let completed = self.state().release(None, None);
        self.tell(completed)
    }

    /// Completes the write of this token; `false` when it is not in flight.
    pub fn release(&self, token: u64) -> bool {
        let completed = self.state().release(Some(token), None);
        self.tell(completed).is_some()
    }

    /// Completes the write of this token with a fault; `false` when it is not in flight.
    pub fn release_with(&self, token: u64, fault: Fault) -> bool {
        let completed = self.state().release(Some(token), Some(fault));
        self.tell(completed).is_some()
    }

    /// Completes all writes in flight, the oldest first, and withholds none from now on.
    pub fn release_all(&self) {
        self.state().flight.held = false;
        while self.release_next().is_some() {}
    }

    /// Calls `hook` with the token of each write that completes from now on, on the thread that
    /// completes it, once it can be reaped.
    pub fn on_completion(&self, hook: impl Fn(u64) + Send + Sync + 'static) {
        let hook = Hook(Arc::new(hook));
        *self.shared.hook.lock().unwrap_or_else(PoisonError::into_inner) = Some(hook);
    }

    /// Wakes whoever waits for a completion; returns its token.
    pub(super) fn tell(&self, completed: Option<Completed>) -> Option<u64> {
        let Completed { token, notify } = completed?;
        if let Some(notify) = notify {
            event::signal(&notify);
        }
        let hook = self.shared.hook.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(Hook(hook)) = hook {
            hook(token);
        }
        Some(token)
    }
}
