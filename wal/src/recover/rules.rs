//! Rules of recovery that a test can switch off, to prove that the tests would notice.
//!
//! Owns: which rule is off. Without the feature `negative-controls` none ever is, and the question
//! costs nothing; with it there is no release build.

/// A rule without which a crash or a broken disk would lose, forge or bring back records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    not(feature = "negative-controls"),
    expect(unreachable_pub, reason = "tests reach it with the feature")
)]
pub enum Rule {
    /// A group names the checksum of the one before it.
    Chain,
    /// What `meta` says was durable is there.
    DurableMark,
    /// A break makes void what lies behind the group that it names.
    Void,
    /// What nothing proves to be durable is written anew before anything is built on it.
    Renewal,
}

#[cfg(all(feature = "negative-controls", not(debug_assertions)))]
compile_error!("the feature negative-controls is for tests: a log built with it can lose records");

#[cfg(not(feature = "negative-controls"))]
pub(crate) const fn holds(_: Rule) -> bool {
    true
}

#[cfg(feature = "negative-controls")]
pub(crate) use self::switch::holds;
#[cfg(feature = "negative-controls")]
pub use self::switch::{SwitchedOff, switch_off};

#[cfg(feature = "negative-controls")]
mod switch {
    use std::sync::atomic::{AtomicU8, Ordering};
    use std::sync::{Mutex, MutexGuard, PoisonError};

    use super::Rule;

    const NONE: u8 = u8::MAX;
    static OFF: AtomicU8 = AtomicU8::new(NONE);
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

    /// As long as it is there, a rule is off in the whole process.
    #[derive(Debug)]
    pub struct SwitchedOff {
        _alone: MutexGuard<'static, ()>,
    }

    /// Switches a rule off, or none; it waits until whoever did so before has ended.
    pub fn switch_off(rule: Option<Rule>) -> SwitchedOff {
        let alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        OFF.store(rule.map_or(NONE, |rule| rule as u8), Ordering::SeqCst);
        SwitchedOff { _alone: alone }
    }

    impl Drop for SwitchedOff {
        fn drop(&mut self) {
            OFF.store(NONE, Ordering::SeqCst);
        }
    }

    pub(crate) fn holds(rule: Rule) -> bool {
        OFF.load(Ordering::Relaxed) != rule as u8
    }
}
