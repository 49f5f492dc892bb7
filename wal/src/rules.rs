//! Rules of the log that a test can switch off, to prove that the tests would notice; the
//! simulator plants a bug by it.
//!
//! Owns: which rule is off on this thread: one at most. Without the feature `negative-controls`
//! none ever is, and the question costs nothing; with it there is no release build.

/// A rule without which a crash, a broken disk or the log's own helper would lose, forge or bring
/// back records.
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
    /// It is written to another place: nothing is cut or written over where it stands.
    NotInPlace,
    /// A truncation takes back what `meta` says was durable before it makes that void.
    TakenBack,
    /// A file is not used again while somebody reads it.
    Lease,
    /// The same. Without it the file is written over at once, not when the log comes to it.
    LeaseAtOnce,
    /// What looks like a spare and was there before the log is none.
    SparesOfBefore,
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
    use std::cell::Cell;
    use std::marker::PhantomData;

    use super::Rule;

    thread_local! {
        // Who asks is who opens, leads or helps the log: in tests and in the simulator one thread.
        static OFF: Cell<Option<Rule>> = const { Cell::new(None) };
    }

    /// As long as it is there, a rule is off on the thread that has switched it off.
    #[derive(Debug)]
    pub struct SwitchedOff {
        before: Option<Rule>,
        _of_one_thread: PhantomData<*const ()>,
    }

    /// Switches a rule off on this thread, in place of another, or none.
    pub fn switch_off(rule: Option<Rule>) -> SwitchedOff {
        SwitchedOff { before: OFF.replace(rule), _of_one_thread: PhantomData }
    }

    impl Drop for SwitchedOff {
        fn drop(&mut self) {
            OFF.set(self.before);
        }
    }

    pub(crate) fn holds(rule: Rule) -> bool {
        OFF.get() != Some(rule)
    }
}
