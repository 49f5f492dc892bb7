//! What can be told to go wrong: operations counted by kind, and a fault for the n-th of a kind.
//!
//! Owns: the list of faults to come. Does not know: what an operation does.

use std::{io, mem};

use crate::sim_disk::SimDisk;

/// A kind of operation that a fault can be put on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Op {
    /// [`Disk::list`](crate::disk::Disk::list).
    List,
    /// [`Disk::create`](crate::disk::Disk::create).
    Create,
    /// [`Disk::open`](crate::disk::Disk::open).
    Open,
    /// [`Disk::rename`](crate::disk::Disk::rename).
    Rename,
    /// [`Disk::remove`](crate::disk::Disk::remove).
    Remove,
    /// [`Disk::sync_dir`](crate::disk::Disk::sync_dir).
    SyncDir,
    /// [`Disk::submit`](crate::disk::Disk::submit) itself: the write is given back.
    Submit,
    /// A write, blocking or asynchronous; the latter are counted when they are submitted.
    Write,
    /// [`DiskFile::sync`](crate::disk::DiskFile::sync).
    Sync,
    /// [`DiskFile::give_back`](crate::disk::DiskFile::give_back).
    GiveBack,
    /// [`DiskFile::read_at`](crate::disk::DiskFile::read_at).
    Read,
}

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The operation fails. Of a write, reads show nothing, but a crash may: any part of it.
    /// A failed sync is the last that heard of what it should have made durable: a later sync
    /// succeeds without it, as kernels do.
    Fail(io::ErrorKind),
    /// A write that is reported as failed although reads show all of it; a crash may leave any part
    /// of it. A rename or remove that is reported as failed and done all the same. Of other
    /// operations: the same as `Fail`.
    FailWritten(io::ErrorKind),
    /// Of names, a sync that succeeds just behind one of somebody else, which has failed and was
    /// the last that heard of what was changed. Other operations are not touched by it.
    ToldOthers,
    /// A write that ends after so many bytes (rounded down to sectors) and says so. A create that
    /// is cut off there, as by the end of the process: it fails, and the name is there with a file
    /// of so many bytes. Other operations are not touched by it.
    Short(usize),
    /// A write that is reported as done, flush and all, and of which nothing is there. Other
    /// operations are not touched by it.
    Lost,
    /// A write that is reported as done, flush and all, and that went to another place: to so many
    /// bytes (rounded down to sectors) behind its own, counted round the end of the file. Other
    /// operations are not touched by it.
    Shifted(u64),
    /// As `Shifted`, but to the same place in another file: the oldest one that is there. What does
    /// not fit in is lost.
    InOtherFile,
}

impl Fault {
    /// The error to report, if it is one.
    pub(super) fn error(self) -> Option<io::Error> {
        match self {
            Self::Fail(kind) | Self::FailWritten(kind) => Some(kind.into()),
            Self::ToldOthers
            | Self::Short(_)
            | Self::Lost
            | Self::Shifted(_)
            | Self::InOtherFile => None,
        }
    }
}

/// A flush that the device reports as done, and does not do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lie {
    /// That of writes with `sync`.
    Writes,
    /// [`DiskFile::sync`](crate::disk::DiskFile::sync).
    Files,
    /// [`Disk::sync_dir`](crate::disk::Disk::sync_dir).
    Names,
}

/// Faults to come.
#[derive(Clone, Debug, Default)]
pub(super) struct Faults {
    next: Vec<(Op, u64, Fault)>,
    always: Vec<(Op, Fault)>,
    met: Vec<(Op, Fault)>,
}

impl Faults {
    /// The `nth` operation of this kind from now (1: the next one) meets `fault`.
    pub(super) fn add(&mut self, op: Op, nth: u64, fault: Fault) {
        assert!(nth > 0, "operations are counted from 1");
        self.next.push((op, nth, fault));
    }

    /// All operations of this kind from now on meet `fault`.
    pub(super) fn add_always(&mut self, op: Op, fault: Fault) {
        self.always.push((op, fault));
    }

    pub(super) fn clear(&mut self) {
        self.next.clear();
        self.always.clear();
    }

    /// Counts one operation; the fault that it meets, the one put first if there are several.
    pub(super) fn meet(&mut self, op: Op) -> Option<Fault> {
        let always = self.always.iter().find(|(kind, _)| *kind == op).map(|(_, fault)| *fault);
        let mut met = None;
        self.next.retain_mut(|(kind, left, fault)| {
            if *kind != op {
                return true;
            }
            *left -= 1;
            if *left == 0 {
                met = met.or(Some(*fault));
            }
            *left > 0
        });
        let met = met.or(always);
        self.met.extend(met.map(|fault| (op, fault)));
        met
    }
}

impl SimDisk {
    /// Lets the `nth` operation of this kind from now on (1: the next one) meet a fault.
    pub fn fail(&self, op: Op, nth: u64, fault: Fault) {
        self.state().faults.add(op, nth, fault);
    }

    /// Lets all operations of this kind from now on meet a fault, until [`Self::heal`].
    pub fn fail_always(&self, op: Op, fault: Fault) {
        self.state().faults.add_always(op, fault);
    }

    /// Lets the device lie from now on, also when it comes back from a crash.
    pub fn lie(&self, lie: Lie) {
        self.state().lie = Some(lie);
    }

    /// The faults that operations have met since this was asked last.
    pub fn take_met(&self) -> Vec<(Op, Fault)> {
        mem::take(&mut self.state().faults.met)
    }

    /// How many operations have found no space since this was asked last.
    pub fn take_full(&self) -> u64 {
        mem::take(&mut self.state().full)
    }

    /// Takes back the faults that no operation has met yet.
    pub fn heal(&self) {
        self.state().faults.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FULL: Fault = Fault::Fail(io::ErrorKind::StorageFull);
    const BUSY: Fault = Fault::Fail(io::ErrorKind::ResourceBusy);

    #[test]
    fn the_nth_operation_of_its_kind_meets_its_fault_once() {
        let mut faults = Faults::default();
        faults.add(Op::Write, 2, FULL);
        faults.add(Op::Sync, 1, BUSY);
        assert_eq!(faults.meet(Op::Write), None);
        assert_eq!(faults.meet(Op::Read), None);
        assert_eq!(faults.meet(Op::Write), Some(FULL));
        assert_eq!(faults.meet(Op::Write), None);
        assert_eq!(faults.meet(Op::Sync), Some(BUSY));
        assert_eq!(faults.meet(Op::Sync), None);
        assert_eq!(faults.met, [(Op::Write, FULL), (Op::Sync, BUSY)]);
    }

    #[test]
    fn a_standing_fault_stays_until_cleared_and_yields_to_a_counted_one() {
        let mut faults = Faults::default();
        faults.add_always(Op::Write, FULL);
        faults.add(Op::Write, 2, BUSY);
        assert_eq!(faults.meet(Op::Write), Some(FULL));
        assert_eq!(faults.meet(Op::Write), Some(BUSY));
        assert_eq!(faults.meet(Op::Write), Some(FULL));
        faults.clear();
        assert_eq!(faults.meet(Op::Write), None);
    }
}
