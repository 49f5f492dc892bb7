//! The disk as a device: writes take their time and come back in any order, some fail, space ends.
//!
//! Owns: when each write in flight comes back. Does not know: what is written. It never lies about
//! a flush: of the last groups before a crash nobody could tell whether they were lost or never
//! written. That the log finds such lies is for its own tests.

use std::collections::BTreeMap;
use std::io::ErrorKind;

use zzq_wal::disk::Disk;
use zzq_wal::sim_disk::{Fault, Op, SimDisk};

use crate::chance::Chance;
use crate::coverage::Coverage;

/// Bytes of the disk while it is not full.
const CAPACITY: u64 = 1 << 40;

/// Steps that can be told to fail, with what the coverage calls it when one does.
const STEPS: [(Op, &str); 11] = [
    (Op::List, "disk fails to list"),
    (Op::Open, "disk fails to open"),
    (Op::GiveBack, "disk fails to give back"),
    (Op::Create, "disk fails to create"),
    (Op::Rename, "disk fails to rename"),
    (Op::Remove, "disk fails to remove"),
    (Op::SyncDir, "disk fails to sync names"),
    (Op::Write, "disk fails in a write"),
    (Op::Sync, "disk fails to sync"),
    (Op::Read, "disk fails to read"),
    (Op::Submit, "disk takes no write"),
];

/// What a step that fails says, with what the coverage calls it. EIO has no kind of its own that
/// is stable.
const ERRORS: [(ErrorKind, &str); 3] = [
    (ErrorKind::Other, "disk says EIO"),
    (ErrorKind::StorageFull, "disk says ENOSPC"),
    (ErrorKind::ReadOnlyFilesystem, "disk says EROFS"),
];

/// What changes something on the disk: all of it fails on a file system that has turned read-only.
const CHANGES: [Op; 7] =
    [Op::Create, Op::Rename, Op::Remove, Op::SyncDir, Op::Write, Op::Sync, Op::GiveBack];

/// What each of these meets there.
const READ_ONLY: Fault = Fault::Fail(ErrorKind::ReadOnlyFilesystem);

/// A disk and its writes in flight.
#[derive(Debug)]
pub struct Device {
    /// What is on it.
    pub disk: SimDisk,
    due: BTreeMap<u64, u64>,
    chance: Chance,
    write_ms: u64,
    /// Its size while nothing has filled it.
    capacity: u64,
    /// Its file system takes no changes, whichever process asks.
    is_read_only: bool,
    /// Something else has taken its space.
    is_filled: bool,
}

impl Device {
    /// A new disk, on which a write takes up to so many ms; `bytes` large, or without an end.
    pub fn new(write_ms: u64, bytes: Option<u64>, chance: Chance) -> Self {
        let capacity = bytes.unwrap_or(CAPACITY);
        let disk = SimDisk::with_capacity(capacity);
        disk.hold();
        Self {
            disk,
            due: BTreeMap::new(),
            chance,
            write_ms,
            capacity,
            is_read_only: false,
            is_filled: false,
        }
    }

    /// What was left of it after the end of a process or machine.
    pub fn replace(&mut self, disk: SimDisk) {
        disk.hold();
        self.disk = disk;
        self.due.clear();
        if self.is_read_only {
            self.take_no_changes();
        }
    }

    /// Notes which steps have failed since: not all that are told to are ever made.
    pub fn note_failed(&self, coverage: &mut Coverage) {
        if self.is_filled && self.disk.take_full() > 0 {
            coverage.hit("disk full");
        }
        for (op, fault) in self.disk.take_met() {
            note_error(fault, coverage);
            if self.is_read_only && fault == READ_ONLY {
                coverage.hit("disk turns read-only");
            }
            if fault == Fault::ToldOthers {
                coverage.hit("disk tells others of lost names");
            } else if let Some((_, kind)) = STEPS.iter().find(|(step, _)| *step == op) {
                coverage.hit(kind);
            }
        }
    }

    /// Notes writes that were submitted since.
    pub fn look(&mut self, now: u64, coverage: &mut Coverage) {
        let flying = self.disk.in_flight();
        if flying.len() == self.due.len() && flying.iter().all(|token| self.due.contains_key(token))
        {
            return;
        }
        self.due.retain(|token, _| flying.contains(token));
        for token in flying {
            if !self.due.contains_key(&token) {
                let late = self.chance.once_in(60);
                if late {
                    coverage.hit("disk late completion");
                }
                let most = if late { self.write_ms * 40 } else { self.write_ms };
                self.due.insert(token, now + self.chance.within(0, most));
            }
        }
    }

    /// Writes that come back now, in any order.
    pub fn due(&self, now: u64) -> Vec<u64> {
        if self.disk.is_off() {
            return Vec::new();
        }
        self.due.iter().filter(|(_, due)| **due <= now).map(|(token, _)| *token).collect()
    }

    /// When the next write comes back.
    pub fn next_due(&self) -> Option<u64> {
        if self.disk.is_off() { None } else { self.due.values().min().copied() }
    }

    /// How many writes are in flight.
    pub fn in_flight(&self) -> usize {
        self.due.len()
    }

    /// Lets a write come back; `fails` says how.
    pub fn release(&mut self, token: u64, fails: Option<Fault>, coverage: &mut Coverage) {
        if self.disk.in_flight().first().is_some_and(|first| *first != token) {
            coverage.hit("disk completions out of order");
        }
        self.due.remove(&token);
        let Some(fault) = fails else {
            self.disk.release(token);
            return;
        };
        note_error(fault, coverage);
        coverage.hit(match fault {
            Fault::FailWritten(_) => "disk write fails and is there",
            Fault::Short(_) => "disk write ends short",
            _ => "disk write fails",
        });
        self.disk.release_with(token, fault);
    }

    /// Everything in flight comes back: a start waits for its first record.
    pub fn release_some(&mut self) {
        let flying = self.disk.in_flight();
        if !flying.is_empty() && !self.disk.is_off() {
            let token = *self.chance.pick(&flying);
            self.disk.release(token);
            self.due.remove(&token);
        }
    }

    /// A fault that a write can meet.
    pub fn draw_fault(&mut self) -> Fault {
        let error = self.draw_error(Op::Write);
        match self.chance.below(3) {
            0 => Fault::Fail(error),
            1 => Fault::FailWritten(error),
            _ => Fault::Short(self.chance.index(9000)),
        }
    }

    /// One of the next steps of some kind fails.
    pub fn fail_a_step(&mut self) {
        let (op, _) = *self.chance.pick(&STEPS);
        let error = self.draw_error(op);
        let fault = match self.chance.below(2) {
            0 => Fault::Fail(error),
            _ if op == Op::SyncDir => Fault::ToldOthers,
            _ => Fault::FailWritten(error),
        };
        self.disk.fail(op, self.chance.within(1, 3), fault);
    }

    /// What an operation of some kind says when it fails.
    fn draw_error(&mut self, op: Op) -> ErrorKind {
        if CHANGES.contains(&op) || op == Op::Submit {
            return self.chance.pick(&ERRORS).0;
        }
        ErrorKind::Other
    }

    /// Its file system takes no changes from now on, as kernels have it when one has failed.
    pub fn turn_read_only(&mut self) {
        self.is_read_only = true;
        self.take_no_changes();
    }

    fn take_no_changes(&self) {
        for op in CHANGES {
            self.disk.fail_always(op, READ_ONLY);
        }
    }

    /// Little space is left from now on.
    pub fn fill(&mut self) {
        let used: u64 =
            self.disk.list().map_or(0, |files| files.iter().map(|(_, bytes)| bytes).sum());
        self.disk.set_capacity(used + self.chance.below(600_000));
        self.is_filled = true;
    }

    /// Faults to come are taken back, and it is as large as it was.
    pub fn heal(&mut self, coverage: &mut Coverage) {
        self.note_failed(coverage);
        (self.is_read_only, self.is_filled) = (false, false);
        self.disk.heal();
        self.disk.set_capacity(self.capacity);
    }

    /// Somebody gives it so much more space.
    pub fn grow(&mut self, bytes: u64) {
        self.capacity = self.capacity.saturating_add(bytes).min(CAPACITY);
        self.disk.set_capacity(self.capacity);
    }

    /// It never ends any more.
    pub fn widen(&mut self, coverage: &mut Coverage) {
        self.capacity = CAPACITY;
        self.heal(coverage);
    }

    /// Writes come back at once from now on.
    pub fn hurry(&mut self) {
        self.write_ms = 1;
    }
}

/// Notes what a fault says.
fn note_error(fault: Fault, coverage: &mut Coverage) {
    let (Fault::Fail(error) | Fault::FailWritten(error)) = fault else { return };
    if let Some((_, kind)) = ERRORS.iter().find(|(known, _)| *known == error) {
        coverage.hit(kind);
    }
}
