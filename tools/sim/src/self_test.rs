//! The proof is tested itself: each of these bugs, planted on purpose, must be found by the oracle
//! of the promise that it breaks.
//!
//! Owns: the list of the bugs with their promises. What a bug does is in the room that it is
//! planted in (`planted.rs` of the engine, the broker and the journal tool, `rules.rs` of the log);
//! they compile with the feature `planted-bugs` alone, which no release has.

use crate::oracle::Broken;
use crate::verdict::{INVARIANTS, Verdict};

/// What the panic of a planted bug begins with.
const PLANTED: &str = "planted: ";

/// A bug.
#[derive(Clone, Copy, Debug)]
pub struct Bug {
    /// Its name.
    pub name: &'static str,
    /// The promise that it breaks: a file of [`crate::oracle`], or `invariants`.
    pub promise: &'static str,
    /// A seed below [`SEEDS_MAX`] that has found it, to begin with: any change of what seeds are
    /// like may outdate it.
    pub hint: u64,
    #[cfg(feature = "planted-bugs")]
    plant: fn(),
}

/// A test of the log that proves what no seed can show: it takes a rule away, and sees that.
#[derive(Clone, Copy, Debug)]
pub struct Control {
    /// The bug that it plants.
    pub name: &'static str,
    /// The test in `controls.rs` of the log.
    pub test: &'static str,
}

/// Readers keep their places, but no seed has the log come to a file again between two reads of
/// one: it has to be written over at once.
pub const CONTROLS: &[Control] = &[Control {
    name: "used-again-under-a-reader",
    test: "a_file_that_is_used_again_under_a_reader_is_noticed",
}];

/// Seeds within which each is to be found.
pub const SEEDS_MAX: u64 = 200;

macro_rules! bugs {
    ($($name:literal breaks $promise:literal: $room:ident $bug:ident, $hint:literal;)+) => {
        &[$(Bug {
            name: $name,
            promise: $promise,
            hint: $hint,
            #[cfg(feature = "planted-bugs")]
            plant: || $room::plant(Some($room::Bug::$bug)),
        },)+]
    };
}

#[cfg(feature = "planted-bugs")]
use {
    zzq_broker::planted as broker, zzq_engine::planted as engine, zzq_journal::planted as journal,
};

/// A bug of the log is a rule that is switched off.
#[cfg(feature = "planted-bugs")]
mod wal {
    pub(super) use zzq_wal::negative_controls::Rule as Bug;
    use zzq_wal::negative_controls::switch_off;

    pub(super) fn plant(bug: Option<Bug>) {
        // As long as the thread lives.
        std::mem::forget(switch_off(bug));
    }
}

/// All that seeds find.
pub const BUGS: &[Bug] = bugs! {
    "acknowledge-before-durable" breaks "delivered": broker AcknowledgedEarly, 21;
    "lose-a-receipt" breaks "exactly_once": broker ReceiptLost, 2;
    "pubrel-ungated" breaks "exactly_once": broker PubrelUngated, 5;
    "identifier-at-send" breaks "exactly_once": broker IdentifierAtSend, 7;
    "repeat-answered-at-once" breaks "delivered": broker RepeatAnsweredAtOnce, 66;
    "early-at-qos-0" breaks "exactly_once": broker EarlyAtQos0, 29;
    "overlay-off" breaks "exactly_once": engine OverlayOff, 23;
    "apply-in-arrival-order" breaks "folds": broker ArrivalOrder, 2;
    "panic-in-apply" breaks "invariants": engine ApplyPanics, 2;
    "blocking-push" breaks "healed": broker BlockingPush, 6;
    "error-after-hand-over" breaks "refused": broker ErrorAfterHandOver, 23;
    "apply-twice" breaks "exactly_once": engine ApplyTwice, 1;
    "identifier-reused" breaks "protocol": engine IdentifierReused, 21;
    "history-ends-early" breaks "past": engine HistoryEndsEarly, 69;
    "offset-before-commit" breaks "past": broker OffsetBeforeCommit, 21;
    "wills-at-once" breaks "wills": engine WillsAtOnce, 0;
    "long-wills-at-once" breaks "wills": engine LongWillsAtOnce, 0;
    "sessions-stay" breaks "presence": engine SessionsStay, 0;
    "drops-uncounted" breaks "limits": broker DropsUncounted, 53;
    "drops-acknowledged" breaks "dropped": broker DropsAcknowledged, 18;
    "suback-at-commit" breaks "delivered": broker SubackAtCommit, 20;
    "retained-before-fence" breaks "retained": broker RetainedBeforeFence, 20;
    "retained-as-it-comes" breaks "retained": broker RetainedAsItComes, 20;
    "unsubscribed-stays" breaks "subscriptions": engine UnsubscribedStays, 3;
    "expiry-not-lowered" breaks "expiry": broker ExpiryNotLowered, 10;
    "denied-delivered" breaks "denied": broker DeniedDelivered, 4;
    "alias-forgotten" breaks "cut_off": broker AliasForgotten, 0;
    "connect-size-ignored" breaks "let_in": broker ConnectSizeIgnored, 9;
    "held-last-first" breaks "order": broker HeldLastFirst, 2;
    "start-ignored" breaks "cursors": broker StartIgnored, 186;
    "retention-ignored" breaks "retention": broker RetentionIgnored, 11;
    "trimmed-before-mark" breaks "healed": broker TrimmedBeforeMark, 1;
    "full-for-good" breaks "space": broker FullForGood, 6;
    "nothing-let-go" breaks "let_go": broker NothingLetGo, 1;
    "history-begins-late" breaks "retention": broker HistoryBeginsLate, 4;
    "nobody-let-in" breaks "let_in": broker NobodyLetIn, 23;
    "needs-unnamed" breaks "cut_off": broker NeedsUnnamed, 14;
    "orphans-kept" breaks "groups": broker OrphansKept, 151;
    "copy-without-images" breaks "copies": journal ImagesLeftOut, 14;
    "spares-of-before" breaks "strangers": wal SparesOfBefore, 1;
    "cut-in-place" breaks "presence": wal NotInPlace, 120;
    "recycled-under-a-reader" breaks "cut_off": wal LeaseAtOnce, 32;
};

impl Bug {
    /// Whether this verdict is that its promise was broken.
    pub fn is_found_by(&self, verdict: &Verdict) -> bool {
        verdict.broken.iter().any(|broken| self.is_told_by(broken))
    }

    /// Whether it is its promise that is broken. Of assertions there are many: its own text.
    pub fn is_told_by(&self, broken: &Broken) -> bool {
        let is_own = self.promise != INVARIANTS || broken.what.contains(PLANTED);
        broken.promise == self.promise && is_own
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

    #[test]
    fn each_bug_has_a_name_of_its_own_and_breaks_a_promise_that_there_is() {
        let names: BTreeSet<_> = BUGS.iter().map(|bug| bug.name).collect();
        assert_eq!(names.len(), BUGS.len());
        for bug in BUGS {
            assert!(bug.hint < SEEDS_MAX, "{bug:?}");
            let known = PROMISES.iter().any(|promise| promise.name == bug.promise);
            assert!(known || bug.promise == INVARIANTS, "{bug:?}");
            assert_eq!(Bug::of(bug.name).map(|same| same.promise), Some(bug.promise));
        }
    }

    #[test]
    fn each_control_is_a_test_that_there_is() {
        let tests = include_str!("../../../wal/tests/controls.rs");
        for control in CONTROLS {
            assert!(Bug::of(control.name).is_none());
            assert!(tests.contains(&format!("#[test]\nfn {}()", control.test)), "{control:?}");
        }
    }

    #[test]
    fn only_the_oracle_of_its_promise_finds_a_bug() {
        let bug = Bug::of("acknowledge-before-durable").unwrap();
        let by = |promise| bug.is_found_by(&Verdict::cut_short(1, promise, "something"));
        assert!(by("delivered"));
        assert!(!by("healed") && !by(INVARIANTS));
    }

    #[test]
    fn no_other_assertion_finds_a_planted_panic() {
        let bug = Bug::of("panic-in-apply").unwrap();
        let by = |what| bug.is_found_by(&Verdict::cut_short(1, INVARIANTS, what));
        assert!(by("planted: no such session"));
        assert!(!by("durable is a prefix"));
    }
}
