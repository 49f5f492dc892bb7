//! Who is about to bring more: whether it is worth a moment to share one write with others.
//!
//! Owns: what a writer says about itself while it stages and waits in turns. Does not know: how
//! long anybody waits for it.
//!
//! It is a hint. Whoever holds its records back for another goes on without after a while of its
//! own, so that nothing depends on what is said here, nor on when it is seen.

use crate::sync::AtomicU64;
use crate::sync::atomic::Ordering;

/// Where a producer's owner is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Where {
    /// Nobody knows. So it is with all who have something else to do.
    Elsewhere,
    /// It stages and waits by turns, and is not waited for: it sleeps between.
    Sleeps,
    /// It watches for what it has handed over.
    Watches,
    /// It has seen that and stages; it was back soon the last time.
    Stages,
}

/// What one producer's owner says.
#[derive(Debug)]
pub(crate) struct Presence(AtomicU64);

impl Presence {
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    pub(crate) fn set(&self, at: Where) {
        self.0.store(number(at), Ordering::Release);
    }

    pub(crate) fn get(&self) -> Where {
        match self.0.load(Ordering::Acquire) {
            1 => Where::Sleeps,
            2 => Where::Watches,
            3 => Where::Stages,
            _ => Where::Elsewhere,
        }
    }

    /// It was waited for in vain: nobody does again before it says that it is back.
    pub(crate) fn give_up(&self) {
        let (from, to) = (number(Where::Stages), number(Where::Elsewhere));
        // What it says meanwhile counts.
        let _ = self.0.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed);
    }
}

fn number(at: Where) -> u64 {
    match at {
        Where::Elsewhere => 0,
        Where::Sleeps => 1,
        Where::Watches => 2,
        Where::Stages => 3,
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn only_who_stages_is_given_up() {
        let presence = Presence::new();
        assert_eq!(presence.get(), Where::Elsewhere);
        for at in [Where::Sleeps, Where::Watches, Where::Elsewhere] {
            presence.set(at);
            presence.give_up();
            assert_eq!(presence.get(), at);
        }
        presence.set(Where::Stages);
        presence.give_up();
        assert_eq!(presence.get(), Where::Elsewhere);
    }
}
