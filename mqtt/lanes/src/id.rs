//! The names of what a lane holds. A [`ConnId`] names one connection and is never reused, so that
//! a late event of a closed connection cannot reach its successor in the same place.
use std::fmt;

/// One connection on one lane: its place in the lane's table, and which use of that place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnId {
    pub(crate) index: u32,
    /// Never 0: the drivers use 0 for what is no connection.
    pub(crate) generation: u32,
}

impl ConnId {
    /// Both halves in one word, as a key or for the kernel to hand back.
    pub fn to_u64(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.index)
    }

    /// The place in the lane's table: small and dense, reused after the connection's end.
    pub fn index(self) -> usize {
        // usize has 32 bits or more on every target with epoll.
        self.index as usize
    }
}

impl fmt::Display for ConnId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.index, self.generation)
    }
}

/// Which lane of its group, from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LaneIndex(pub u16);

impl LaneIndex {
    /// As an index into something that each lane has one of.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

impl fmt::Display for LaneIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "lane {}", self.0)
    }
}

/// One bound endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ListenerId(pub u32);

/// One descriptor that a lane watches for its application.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WatchId(pub u32);

/// Which of a connection's timers: each connection has three, set and fired apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimerSlot {
    /// The first.
    A,
    /// The second.
    B,
    /// The third.
    C,
}
