//! What threads share in the protocols around the rings, behind one name: the standard library's
//! in the product, loom's where its models try all interleavings (`cargo xtask loom`).
//!
//! Owns: the one fence of these protocols. Each stands between something that a thread writes and
//! something that it reads then; another thread does the same the other way round, and one of the
//! two must see what the other has written. A model can leave one out, to show that it is needed.
//!
//! Assumes: accesses acquire and release at most, and an order of all of them is made by the fences
//! alone. Loom takes `SeqCst` accesses beside a lock for more than they are, and would not notice
//! that a fence is missing. Where two threads write the same atomic, the one that waits swaps: loom
//! does not know that its plain store stands behind what another thread has swapped away.

#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64};
#[cfg(not(loom))]
pub(crate) use std::sync::{Mutex, OnceLock, atomic};

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU64};
#[cfg(loom)]
pub(crate) use loom::sync::{Mutex, atomic};

/// Where a fence stands: what was written before it, and what is read after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Between {
    /// There is work, and whether leadership is free.
    CallAndTry,
    /// Leadership is free, and whether there is work.
    ReleaseAndLook,
    /// Somebody waits for something, and whether it has come.
    AskAndLook,
    /// Something has come, and whether somebody waits for it.
    PublishAndLook,
}

/// Orders what was written before it against what is read after it, for all threads that do so.
#[inline]
pub(crate) fn full_fence(between: Between) {
    if is_left_out(between) {
        return;
    }
    atomic::fence(atomic::Ordering::SeqCst);
}

#[cfg(not(loom))]
const fn is_left_out(_: Between) -> bool {
    false
}

#[cfg(loom)]
pub(crate) use self::once::OnceLock;

#[cfg(loom)]
use self::left_out::is_left_out;
#[cfg(all(loom, test))]
pub(crate) use self::left_out::leave_out;

#[cfg(loom)]
mod left_out {
    use std::cell::Cell;

    use super::Between;

    std::thread_local! {
        // All threads of a model run on the one that explores it.
        static LEFT_OUT: Cell<Option<Between>> = const { Cell::new(None) };
    }

    pub(crate) fn is_left_out(between: Between) -> bool {
        LEFT_OUT.get() == Some(between)
    }

    /// This thread's models do without a fence from now on.
    #[cfg(test)]
    pub(crate) fn leave_out(between: Option<Between>) {
        LEFT_OUT.set(between);
    }
}

#[cfg(loom)]
mod once {
    use super::{AtomicBool, atomic::Ordering};

    /// The standard library's, with a flag that loom sees.
    #[derive(Debug)]
    pub(crate) struct OnceLock<T> {
        value: std::sync::OnceLock<T>,
        is_set: AtomicBool,
    }

    impl<T> OnceLock<T> {
        pub(crate) fn set(&self, value: T) -> Result<(), T> {
            let set = self.value.set(value);
            // Also for who comes second: it finds a value from here on.
            self.is_set.store(true, Ordering::Release);
            set
        }

        pub(crate) fn get(&self) -> Option<&T> {
            if self.is_set.load(Ordering::Acquire) { self.value.get() } else { None }
        }
    }

    impl<T> Default for OnceLock<T> {
        fn default() -> Self {
            Self { value: std::sync::OnceLock::new(), is_set: AtomicBool::new(false) }
        }
    }
}
