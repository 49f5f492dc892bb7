//! Marks that go up, and those who wait for them: each wait ends by one call.
//!
//! Owns: the order of "say what is wanted, look whether it is there" against "publish, look
//! whether it is wanted". Does not know: what is counted, and how somebody is called.

use crate::sync::atomic::Ordering;
use crate::sync::{AtomicBool, AtomicU64, Between, full_fence};

/// A number that only goes up, but for a truncation. Whoever leads publishes it, anybody reads it.
#[derive(Debug)]
pub(crate) struct Mark(AtomicU64);

impl Mark {
    pub(crate) fn new(at: u64) -> Self {
        Self(AtomicU64::new(at))
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    /// # Panics
    /// It was above `to`.
    pub(crate) fn publish(&self, to: u64) {
        let before = self.0.swap(to, Ordering::AcqRel);
        assert!(before <= to, "a mark never goes back");
    }

    /// What it counted is no more: everybody who waited for it has been ended.
    pub(crate) fn lower(&self, to: u64) {
        self.0.store(to, Ordering::SeqCst);
    }
}

/// What one thread waits for: that a mark reaches a number.
#[derive(Debug)]
pub(crate) struct Wanted(AtomicU64);

/// No mark is ever that high.
const NOTHING: u64 = u64::MAX;

impl Wanted {
    /// Nothing.
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(NOTHING))
    }

    /// Asks for one call when `mark` reaches `at`, in place of what was asked for before. True: it
    /// has already, and nobody needs to call; whoever has just published it may do so all the same.
    pub(crate) fn ask(&self, at: u64, mark: &Mark) -> bool {
        self.0.swap(at, Ordering::AcqRel);
        full_fence(Between::AskAndLook);
        if mark.get() < at {
            return false;
        }
        self.0.store(NOTHING, Ordering::Release);
        true
    }

    /// True: who waits is to be called, now that the mark is `at`.
    pub(crate) fn is_met(&self, at: u64, _: &Published) -> bool {
        let wanted = self.0.load(Ordering::Acquire);
        // Who asks for something else meanwhile looks for itself.
        wanted <= at
            && self.0.compare_exchange(wanted, NOTHING, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }
}

/// Whether one thread waits for room.
#[derive(Debug)]
pub(crate) struct Starved(AtomicBool);

impl Starved {
    /// It does not.
    pub(crate) fn new() -> Self {
        Self(AtomicBool::new(false))
    }

    /// Asks for one call when room was made. It looks for room once more after this: what was made
    /// before is not told.
    pub(crate) fn ask(&self) {
        self.0.swap(true, Ordering::AcqRel);
        full_fence(Between::AskAndLook);
    }

    /// Puts by `put` what there is room for, and asks for one call if it says that something is
    /// left, each time anew: the call of the last time is used up.
    pub(crate) fn put_or_ask(&self, mut put: impl FnMut() -> bool) {
        if put() {
            self.ask();
            put();
        }
    }

    /// There is room: nobody needs to call.
    pub(crate) fn take_back(&self) {
        self.0.store(false, Ordering::Release);
    }

    /// True: who waits is to be called, now that there is room.
    pub(crate) fn is_met(&self, _: &Published) -> bool {
        // Most do not wait: their line is only read.
        self.0.load(Ordering::Acquire) && self.0.swap(false, Ordering::AcqRel)
    }
}

/// What this thread has published before: who is not seen waiting from now on sees it.
#[derive(Debug)]
pub(crate) struct Published(());

impl Published {
    pub(crate) fn so_far() -> Self {
        full_fence(Between::PublishAndLook);
        Self(())
    }
}
