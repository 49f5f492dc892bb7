//! How many bytes may be under way from one thread to others.
//!
//! Owns: the count, and the waiting for it. Whoever holds a share is waited for: one that is lost
//! in a panic is given back, too. Does not know: what the bytes are.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// See the file.
#[derive(Debug)]
pub(super) struct Window {
    most: usize,
    taken: Mutex<Taken>,
    given_back: Condvar,
}

#[derive(Debug, Default)]
struct Taken {
    bytes: usize,
    /// Somebody waits for less.
    is_awaited: bool,
}

/// Bytes of a window, until it is dropped.
#[derive(Debug)]
pub(super) struct Share {
    window: Arc<Window>,
    bytes: usize,
}

impl Window {
    pub(super) fn new(most: usize) -> Self {
        Self { most, taken: Mutex::default(), given_back: Condvar::new() }
    }

    /// Takes so many bytes when there is room for them: beside others, or for more than all of it
    /// when there are none.
    pub(super) fn take(window: &Arc<Self>, bytes: usize) -> Share {
        let mut taken = window.lock();
        while taken.bytes > 0 && taken.bytes.saturating_add(bytes) > window.most {
            taken.is_awaited = true;
            let waited = window.given_back.wait(taken);
            taken = waited.unwrap_or_else(PoisonError::into_inner);
        }
        taken.is_awaited = false;
        taken.bytes += bytes;
        Share { window: Arc::clone(window), bytes }
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        // A number is whole whatever has panicked.
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether somebody waits for bytes to be given back.
    #[cfg(test)]
    pub(super) fn is_awaited(&self) -> bool {
        self.lock().is_awaited
    }
}

impl Share {
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut taken = self.window.lock();
        taken.bytes -= self.bytes;
        if taken.is_awaited {
            self.window.given_back.notify_one();
        }
    }
}
