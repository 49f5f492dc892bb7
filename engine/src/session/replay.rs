//! How far a subscription that starts in the past has come.
//!
//! Owns: the place up to which history was taken, and the step from history to what is published
//! now. While history is to come, what is decided for the subscription is not taken: it is in the
//! log, and comes from there in its turn. The step is made by a record that says how far history
//! was taken, if nothing behind that place was passed by until then; else it changes nothing but
//! the place, and the next one is tried. So whatever was published meanwhile comes once.
//! Does not know: filters, messages, who reads the log.

use zzq_types::Lsn;

use crate::planted::{self, Bug};

/// See the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Replay {
    /// History in front of this record was taken, or is not wanted.
    pub next: Lsn,
    /// History in front of this log time is not wanted.
    pub since_ms: u64,
    /// The newest record that was decided for the subscription while its history was to come.
    pub passed_by: Lsn,
    /// History is over: what is published comes as to every other subscription.
    pub is_live: bool,
}

impl Replay {
    /// One that begins at a record, and at a log time.
    pub const fn new(next: Lsn, since_ms: u64) -> Self {
        Self { next, since_ms, passed_by: Lsn::ZERO, is_live: false }
    }

    /// For one that goes on where it is, if it is there already; else it begins with the oldest.
    pub const GO_ON: Self = Self::new(Lsn::ZERO, 0);

    /// Whether it is [`Replay::GO_ON`].
    pub const fn goes_on(self) -> bool {
        self.next.get() == 0
    }

    /// A message of this record was decided for the subscription. False: it is passed by.
    ///
    /// The step of a session that the log does not have is made at once, by a lane that need not
    /// have applied all that history was read of: that is passed by as well when it comes.
    pub(crate) fn meets(&mut self, lsn: Lsn) -> bool {
        if !self.is_live {
            self.passed_by = self.passed_by.max(lsn);
        }
        self.is_live && lsn >= self.next
    }

    /// History from one record to another was taken, or held nothing, and it may be all. False:
    /// it does not go on from here.
    pub(crate) fn advance(&mut self, from: Lsn, next: Lsn, may_be_all: bool) -> bool {
        let fits = !self.is_live && from == self.next && next >= from;
        if fits {
            self.next = next;
            let is_all = self.passed_by < next || planted::is(Bug::HistoryEndsEarly);
            self.is_live = may_be_all && is_all;
        }
        fits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lsn(n: u64) -> Lsn {
        Lsn::new(n)
    }

    #[test]
    fn history_ends_where_nothing_was_passed_by_behind_it() {
        let mut replay = Replay::new(lsn(1), 0);
        assert!(!replay.meets(lsn(7)));
        assert!(replay.advance(lsn(1), lsn(7), true));
        assert!(!replay.is_live, "record 7 is to come");
        assert!(replay.advance(lsn(7), lsn(9), true));
        assert!(replay.is_live && replay.meets(lsn(12)));
    }

    #[test]
    fn what_history_has_brought_does_not_come_again() {
        let mut replay = Replay::new(lsn(1), 0);
        assert!(replay.advance(lsn(1), lsn(12), true) && replay.is_live);
        assert!(!replay.meets(lsn(9)) && !replay.meets(lsn(11)));
        assert!(replay.meets(lsn(12)));
    }

    #[test]
    fn a_step_from_another_place_changes_nothing() {
        let mut replay = Replay::new(lsn(5), 0);
        let before = replay;
        assert!(!replay.advance(lsn(1), lsn(9), true) && !replay.advance(lsn(5), lsn(4), false));
        assert_eq!(replay, before);
        assert!(replay.advance(lsn(5), lsn(9), true));
        assert!(!replay.advance(lsn(9), lsn(10), true), "history is over");
    }
}
