//! The log in a lane's turn: what was handed over is written, and what is in the tail is applied.
//!
//! Owns: whether the write comes before the output of the turn or behind it. Does not know: what
//! records mean.

use zzq_lanes::Millis;
use zzq_wal::disk::Disk;

use super::{Io, Shell};

/// Connections whose output is sent before the log is written to: that takes no longer than to
/// submit a write.
const FEW: usize = 4;
/// Bytes of records that are applied before they are submitted.
const SEALED_MOST: usize = 8 << 10;

#[derive(Debug, Default)]
pub(super) struct LogTurn {
    /// What was handed over in this turn has its place and is written once output is sent.
    sealed: bool,
    /// The turn before wrote to [`FEW`] connections at most.
    wrote_to_few: bool,
}

/// How the log's part of a turn has ended.
#[derive(Clone, Copy, Debug)]
pub(super) enum Turned {
    /// What was handed over is submitted; the log wants to be driven again at this log time.
    Driven { again: Option<u64> },
    /// It is submitted once output is sent.
    Sealed,
}

impl<D: Disk> Shell<D> {
    /// Submits what was handed over and follows the tail until neither has more to do.
    ///
    /// To submit takes as long as to send to three or four connections. What is delivered to no
    /// more of them is sent first, and little of it is quickly applied: see
    /// [`sent`](zzq_lanes::Handler::sent).
    pub(super) fn turn_the_log(&mut self, io: &mut Io<'_, D>) -> Turned {
        let orphaned = self.orphaned.len();
        let is_little = self.journal.is_log() && self.journal.unplaced_bytes() <= SEALED_MOST;
        let seals = is_little && self.log_turn.wrote_to_few;
        let mut again = self.submit(seals);
        while self.follow(io) {
            self.unpark(io);
            if self.pending.is_empty() {
                self.due_ms = self.next_due_ms();
            }
            // What was applied may have handed over more: wills, messages given on.
            self.hand_over_receipts(io);
            again = self.submit(seals);
        }
        self.log_turn.wrote_to_few = io.writers() <= FEW;
        if self.log_turn.sealed && !self.log_turn.wrote_to_few {
            self.log_turn.sealed = false;
            again = self.drive_at_last(io);
        }
        if self.orphaned.len() > orphaned {
            io.turn_again();
        }
        if self.wants_room && self.journal.has_room() {
            // The log wakes nobody for room that the lane's own call has made.
            self.wants_room = false;
            self.unpark(io);
        }
        if self.journal.is_read_only() && !std::mem::replace(&mut self.told_read_only, true) {
            self.tell_read_only();
            self.give_up_answers(io);
            self.dismiss_held(io);
        }
        if self.log_turn.sealed { Turned::Sealed } else { Turned::Driven { again } }
    }

    /// Gives what was handed over its place, and has it written: at once, unless that may be put
    /// off and it is this lane that would spend its time on it. Returns when the log wants to be
    /// driven again, in log time.
    fn submit(&mut self, may_put_off: bool) -> Option<u64> {
        self.log_turn.sealed = may_put_off && self.journal.seal(self.now_ms);
        if self.log_turn.sealed {
            return None;
        }
        self.journal.drive(self.now_ms)
    }

    /// The write that was put off, once output is sent; and what is due then.
    pub(super) fn drive_behind_output(&mut self, io: &mut Io<'_, D>) -> Option<Millis> {
        if !std::mem::take(&mut self.log_turn.sealed) {
            return None;
        }
        let again = self.drive_at_last(io);
        self.next_turn(io, again)
    }

    /// Has what was sealed written. What this gives a place besides is followed in the next turn.
    fn drive_at_last(&mut self, io: &mut Io<'_, D>) -> Option<u64> {
        let again = self.journal.drive(self.now_ms);
        if self.journal.appended_lsn() > self.followed {
            io.turn_again();
        }
        again
    }
}
