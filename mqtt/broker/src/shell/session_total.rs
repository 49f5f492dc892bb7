//! All sessions together, as a lane sees them: what would make more of them, or add to them, while
//! they are at a bound.
//!
//! Owns: what this lane has told of its own. Does not know: what other lanes have, but for the sum;
//! the limits of a single session.
//!
//! Assumes: what is on its way to the log is counted when it is applied; it may come on top.

use zzq_codec::Connect;
use zzq_wal::disk::Disk;

use super::Shell;
use crate::seldom::Seldom;
use crate::session_total::{Lack, Sessions};

/// A session that is there may come back with a will of so many bytes however much memory all of
/// them take: it had one when it went, as a rule.
const WILL_FREE: usize = 1 << 10;

/// A lane's part of it.
#[derive(Debug, Default)]
pub(super) struct SessionShare {
    told: Sessions,
    told_line: Seldom,
}

impl SessionShare {
    /// What the sessions of this lane took when that was told last.
    pub(super) const fn memory(&self) -> u64 {
        self.told.memory
    }
}

impl<D: Disk> Shell<D> {
    /// The sessions of this lane, and what they take in its memory. What routes are found by is
    /// there once for each lane, and counts on each.
    pub(super) fn sessions_here(&self) -> Sessions {
        let index = self.index.memory();
        let memory = self.state.session_memory() + self.wills.memory() + index;
        Sessions { count: self.state.session_count() as u64, memory }
    }

    /// Tells what this lane has, at the end of a turn.
    pub(super) fn tell_sessions(&mut self) {
        let is = self.sessions_here();
        let was = std::mem::replace(&mut self.session_share.told, is);
        self.shared.session_total.tell(was, is);
    }

    /// Why a CONNECT finds no place that opens a session, or comes back to one.
    pub(super) fn lacks_place(&mut self, connect: &Connect<'_>, opens: bool) -> Option<Lack> {
        let lack = if opens && self.lacks_session_count() {
            Lack::Count
        } else {
            let will = connect.will.map_or(0, |will| {
                will.topic.as_str().len() + will.properties.as_bytes().len() + will.payload.len()
            });
            (opens || will > WILL_FREE).then(|| self.lacks_session_memory()).flatten()?
        };
        self.tell_lack(lack);
        Some(lack)
    }

    /// Why there is no memory for what a session would have more.
    pub(super) fn lacks_session_memory(&self) -> Option<Lack> {
        let (told, is) = (self.session_share.told.memory, self.sessions_here().memory);
        self.shared.session_total.lacks_memory(told, is).then_some(Lack::Memory)
    }

    fn lacks_session_count(&self) -> bool {
        let (told, is) = (self.session_share.told.count, self.state.session_count() as u64);
        let lacks = |more: usize| self.shared.session_total.lacks_count(told, is + more as u64);
        // Those that are on their way to the log; of them some come back to what is there.
        let opening = self.opening.keys();
        lacks(opening.len())
            && lacks(opening.filter(|client| self.state.session_of(client).is_none()).count())
    }

    /// A line of one a second: at a bound anybody can cause any number of them.
    fn tell_lack(&mut self, lack: Lack) {
        if let Some(untold) = self.session_share.told_line.tell(self.now_ms) {
            let why = lack.why();
            tracing::warn!(why, untold, "clients are refused what sessions have no room for");
        }
    }
}
