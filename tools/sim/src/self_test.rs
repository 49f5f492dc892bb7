//! The proof is tested itself: each of these bugs, planted on purpose, must be found by the oracle
//! of the promise that it breaks.
//!
//! Owns: the list of the bugs with their promises. What a bug does is in the room that it is
//! planted in (`planted.rs` of the engine and of the broker); they compile with the feature
//! `planted-bugs` alone, which no release has.

use crate::verdict::Verdict;

/// A bug.
#[derive(Clone, Copy, Debug)]
pub struct Bug {
    /// Its name.
    pub name: &'static str,
    /// The promise that it breaks: a file of [`crate::oracle`], or `invariants`.
    pub promise: &'static str,
    #[cfg(feature = "planted-bugs")]
    plant: fn(),
}

/// Seeds within which each is to be found.
pub const SEEDS_MAX: u64 = 200;

macro_rules! bugs {
    ($($name:literal breaks $promise:literal: $room:ident $bug:ident,)+) => {
        /// All of them.
        pub const BUGS: &[Bug] = &[$(Bug {
            name: $name,
            promise: $promise,
            #[cfg(feature = "planted-bugs")]
            plant: || $room::plant(Some($room::Bug::$bug)),
        },)+];
    };
}

#[cfg(feature = "planted-bugs")]
use {zzq_broker::planted as broker, zzq_engine::planted as engine};

bugs! {
    "acknowledge-before-durable" breaks "delivered": broker AcknowledgedEarly,
    "lose-a-receipt" breaks "exactly_once": broker ReceiptLost,
    "pubrel-ungated" breaks "exactly_once": broker PubrelUngated,
    "identifier-at-send" breaks "exactly_once": broker IdentifierAtSend,
    "repeat-answered-at-once" breaks "delivered": broker RepeatAnsweredAtOnce,
    "early-at-qos-0" breaks "exactly_once": broker EarlyAtQos0,
    "overlay-off" breaks "exactly_once": engine OverlayOff,
    "apply-in-arrival-order" breaks "folds": broker ArrivalOrder,
    "panic-in-apply" breaks "invariants": engine ApplyPanics,
    "blocking-push" breaks "healed": broker BlockingPush,
    "error-after-hand-over" breaks "refused": broker ErrorAfterHandOver,
    "apply-twice" breaks "exactly_once": engine ApplyTwice,
}

impl Bug {
    /// Whether this verdict is that its promise was broken.
    pub fn is_found_by(&self, verdict: &Verdict) -> bool {
        verdict.broken.iter().any(|broken| broken.promise == self.promise)
    }

    /// Plants it on this thread.
    #[cfg(feature = "planted-bugs")]
    pub fn planter(&self) -> fn() {
        self.plant
    }

    /// The one of this name.
    pub fn of(name: &str) -> Option<&'static Self> {
        BUGS.iter().find(|bug| bug.name == name)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::oracle::PROMISES;
    use crate::verdict::INVARIANTS;

    #[test]
    fn each_bug_has_a_name_of_its_own_and_breaks_a_promise_that_there_is() {
        let names: BTreeSet<_> = BUGS.iter().map(|bug| bug.name).collect();
        assert_eq!(names.len(), BUGS.len());
        for bug in BUGS {
            let known = PROMISES.iter().any(|promise| promise.name == bug.promise);
            assert!(known || bug.promise == INVARIANTS, "{bug:?}");
            assert_eq!(Bug::of(bug.name).map(|same| same.promise), Some(bug.promise));
        }
    }

    #[test]
    fn only_the_oracle_of_its_promise_finds_a_bug() {
        let bug = Bug::of("acknowledge-before-durable").unwrap();
        let by = |promise| bug.is_found_by(&Verdict::cut_short(1, promise, "something"));
        assert!(by("delivered"));
        assert!(!by("healed") && !by(INVARIANTS));
    }
}
