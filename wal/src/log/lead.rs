//! Leadership: one thread at a time does what there is to do, and nobody waits for it.
//!
//! Owns: the lock, and the flag by which a caller that finds it taken leaves its work to whoever
//! holds it. Does not know: what the work is.

use std::sync::{PoisonError, TryLockError};

use crate::sync::atomic::Ordering;
use crate::sync::{AtomicBool, Between, Mutex, full_fence};

/// The state that leading is about.
///
/// A caller puts its work where the leader finds it (a ring), sets `work`, and only then tries the
/// lock. If it fails, somebody held the lock after `work` was set, and looks at `work` after
/// letting go: the two fences order "set work, see the lock taken" against "release the lock, read
/// work", so one of the two sees the other. Whoever clears `work` does so by a swap under the lock
/// and looks for work after it, so it finds that of whoever set it.
#[derive(Debug)]
pub(crate) struct Leadership<T> {
    state: Mutex<T>,
    /// Something may be there for a leader to do.
    work: AtomicBool,
}

/// What came of trying to lead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Led<R> {
    /// What the last step of this call found. None: somebody else leads.
    pub(crate) last: Option<R>,
    /// Others kept calling all the time: it is to be called again soon.
    pub(crate) again: bool,
    /// A leader has panicked: nobody leads any more.
    pub(crate) broken: bool,
}

impl<T> Leadership<T> {
    pub(crate) fn new(state: T) -> Self {
        Self { state: Mutex::new(state), work: AtomicBool::new(false) }
    }

    /// Leads if leadership is free: `step` is called once, and again as long as others have called
    /// meanwhile, told whether it does all the work there is or only what needs no work flag.
    ///
    /// With `works` nothing that was put before the call is forgotten: this call does it, or
    /// whoever leads now does it before it lets leadership rest.
    pub(crate) fn lead<R>(&self, works: bool, mut step: impl FnMut(&mut T, bool) -> R) -> Led<R> {
        let mut led = Led { last: None, again: false, broken: false };
        let mut works = works;
        if works {
            self.call();
        }
        for _ in 0..ROUNDS_MAX {
            full_fence(Between::CallAndTry);
            let mut state = match self.state.try_lock() {
                Ok(state) => state,
                Err(TryLockError::WouldBlock) => return led,
                Err(TryLockError::Poisoned(_)) => return Led { broken: true, ..led },
            };
            if works {
                self.work.swap(false, Ordering::AcqRel);
            }
            led.last = Some(step(&mut state, works));
            drop(state);
            if !self.was_called() {
                return led;
            }
            works = true;
        }
        Led { again: true, ..led }
    }

    /// Leadership for set-up and for questions, not on the message path: it waits. True besides:
    /// somebody has found it taken meanwhile, and is to be called back.
    pub(crate) fn wait<R>(&self, ask: impl FnOnce(&mut T) -> R) -> (R, bool) {
        let answer = ask(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner));
        (answer, self.was_called())
    }

    /// Leaves work to whoever leads next; somebody else sees to it that one does.
    pub(crate) fn call(&self) {
        // By a swap, so that whoever clears it has seen what all that set it have put.
        self.work.swap(true, Ordering::AcqRel);
    }

    /// Whether work was left that nobody has done.
    pub(crate) fn is_called(&self) -> bool {
        self.work.load(Ordering::Acquire)
    }

    /// For who has just let go: whether somebody may have found it taken.
    fn was_called(&self) -> bool {
        full_fence(Between::ReleaseAndLook);
        self.is_called()
    }
}

const ROUNDS_MAX: usize = 16;
