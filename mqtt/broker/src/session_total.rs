//! How many sessions there are, and what they take in memory together: `--max-sessions`,
//! `--max-sessions-total`.
//!
//! Owns: the sums of what lanes have told. Does not know: how lanes count, or what they refuse.
//!
//! Assumes: a lane tells at the end of each turn, so the sums are late by what others take in one.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::options::Limits;

/// So many sessions, and so much memory of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sessions {
    pub(crate) count: u64,
    pub(crate) memory: u64,
}

/// What there is no more of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lack {
    /// Sessions.
    Count,
    /// Memory of them.
    Memory,
}

impl Lack {
    /// In words, with the setting to change.
    pub(crate) const fn why(self) -> &'static str {
        match self {
            Self::Count => "there are as many sessions as --max-sessions allows",
            Self::Memory => "sessions take as much memory as --max-sessions-total allows",
        }
    }
}

/// See the file.
#[derive(Debug)]
pub(crate) struct SessionTotal {
    most: Sessions,
    count: AtomicU64,
    memory: AtomicU64,
}

impl SessionTotal {
    pub(crate) fn new(limits: &Limits, lanes: u16) -> Self {
        let count = u64::try_from(limits.max_sessions).unwrap_or(u64::MAX);
        let memory = limits.max_session_bytes_total.unwrap_or(u64::from(lanes) << 30);
        let most = Sessions { count, memory };
        Self { most, count: AtomicU64::new(0), memory: AtomicU64::new(0) }
    }

    /// A lane has so much now, and had so much when it told that last.
    pub(crate) fn tell(&self, was: Sessions, is: Sessions) {
        let tell = |sum: &AtomicU64, was: u64, is: u64| {
            if was != is {
                sum.fetch_add(is.wrapping_sub(was), Ordering::Relaxed);
            }
        };
        tell(&self.count, was.count, is.count);
        tell(&self.memory, was.memory, is.memory);
    }

    /// Whether there may be one more, if a lane has `is` that has told `told`.
    pub(crate) fn lacks_count(&self, told: u64, is: u64) -> bool {
        let more = is.wrapping_sub(told);
        self.count.load(Ordering::Relaxed).wrapping_add(more) >= self.most.count
    }

    /// Whether they may take no more, likewise.
    pub(crate) fn lacks_memory(&self, told: u64, is: u64) -> bool {
        let more = is.wrapping_sub(told);
        self.memory.load(Ordering::Relaxed).wrapping_add(more) >= self.most.memory
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lanes_have_is_summed_and_ends_at_the_bounds() {
        let limits =
            Limits { max_sessions: 5, max_session_bytes_total: Some(100), ..Limits::default() };
        let total = SessionTotal::new(&limits, 2);
        let (one, other) = (Sessions { count: 3, memory: 60 }, Sessions { count: 1, memory: 30 });
        total.tell(Sessions::default(), one);
        total.tell(Sessions::default(), other);
        assert!(!total.lacks_count(3, 3) && total.lacks_count(3, 4));
        assert!(!total.lacks_memory(60, 69) && total.lacks_memory(60, 70));
        total.tell(one, Sessions { count: 4, memory: 70 });
        assert!(total.lacks_count(1, 1) && !total.lacks_count(1, 0));
        assert!(total.lacks_memory(30, 30) && !total.lacks_memory(30, 29));
    }
}
