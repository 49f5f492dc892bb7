//! Power that goes at a chosen operation, so that a test can try every place for a crash.
//!
//! Owns: the count to the cut, and what becomes of the operation that it hits. All that comes
//! later fails and does nothing.

use std::io;

use crate::sim_disk::SimDisk;
use crate::sim_disk::faults::{Fault, Op};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Power {
    #[default]
    On,
    /// It goes with the n-th changing operation from now.
    GoesWith(u64),
    Off,
}

impl Power {
    pub(super) fn is_off(self) -> bool {
        self == Self::Off
    }

    /// Counts a changing operation; true if the power goes with it.
    pub(super) fn count(&mut self) -> bool {
        let Self::GoesWith(left) = self else { return false };
        *left -= 1;
        if *left == 0 {
            *self = Self::Off;
        }
        self.is_off()
    }
}

/// Whether the power can go with it: what only looks leaves nothing behind.
pub(super) fn is_change(op: Op) -> bool {
    match op {
        Op::List | Op::Open | Op::Read => false,
        Op::Create
        | Op::Rename
        | Op::Remove
        | Op::SyncDir
        | Op::Submit
        | Op::Write
        | Op::GiveBack
        | Op::Sync => true,
    }
}

/// What the operation meets with which the power goes: it fails, and may be half done. A
/// submitted write is taken, and never completes.
pub(super) fn last_fault(op: Op) -> Option<Fault> {
    let off = no_power().kind();
    match op {
        Op::Submit => None,
        Op::Create => Some(Fault::Short(HALF_A_FILE)),
        Op::Rename | Op::Remove => Some(Fault::FailWritten(off)),
        Op::List | Op::Open | Op::Read | Op::SyncDir | Op::Write | Op::GiveBack | Op::Sync => {
            Some(Fault::Fail(off))
        }
    }
}

/// How far a create gets, unless the file is shorter.
const HALF_A_FILE: usize = 6 * 1024;

pub(super) fn no_power() -> io::Error {
    io::Error::other("the power is off")
}

impl SimDisk {
    /// The power goes while the `nth` operation from now (1: the next) that changes something is
    /// carried out: a create, rename, remove, write, submission or sync. It may be done, or not,
    /// or in part; it fails, except that a submitted write is taken and never completes. All
    /// later operations fail and do nothing. [`Self::crash`] shows what is left.
    ///
    /// # Panics
    /// If `nth` is zero.
    pub fn cut_power(&self, nth: u64) {
        assert!(nth > 0, "operations are counted from 1");
        self.state().power = Power::GoesWith(nth);
    }

    /// Whether the power has gone.
    pub fn is_off(&self) -> bool {
        self.state().power.is_off()
    }
}
