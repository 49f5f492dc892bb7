//! Whether to look again for a while before blocking. A blocking wait costs a wake-up on the way
//! out; looking costs a core.
use std::time::{Duration, Instant};

/// Waits shorter than this make looking worth while. A peer that must be woken up first, which
/// takes 20 to 40 us in a virtual machine, and then handles a window of a hundred packets answers
/// within.
const SHORT: Duration = Duration::from_micros(100);
/// So many short waits in a row before the first look.
const CONVINCED: u8 = 4;

/// When a lane polls its sockets before it blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BusyPoll {
    /// While recent waits were shorter than 100 us; never where lanes may occupy all cores, because
    /// it would take the time of those who wait for them, and never where only peers are waited
    /// for: who sends the next message has as a rule to be woken first, so that looking costs more
    /// than the sleep that it saves.
    #[default]
    Adaptive,
    /// Never.
    Off,
    /// Always, for so long.
    For(Duration),
}

#[derive(Debug)]
pub(super) struct Spin {
    mode: BusyPoll,
    short_waits: u8,
}

impl BusyPoll {
    /// What becomes of it with so many lanes on so many cores.
    pub(crate) fn among(self, lanes: usize, cores: usize) -> Self {
        if self == Self::Adaptive && lanes >= cores { Self::Off } else { self }
    }

    /// What becomes of it where only peers are waited for.
    pub(crate) fn for_peers(self) -> Self {
        if self == Self::Adaptive { Self::Off } else { self }
    }
}

impl Spin {
    pub(super) fn new(mode: BusyPoll) -> Self {
        Self { mode, short_waits: 0 }
    }

    /// How long to look before blocking.
    pub(super) fn budget(&self) -> Duration {
        match self.mode {
            BusyPoll::Adaptive if self.short_waits >= CONVINCED => SHORT,
            BusyPoll::Adaptive | BusyPoll::Off => Duration::ZERO,
            BusyPoll::For(budget) => budget,
        }
    }

    /// Whether the length of waits matters.
    pub(super) fn is_learning(&self) -> bool {
        self.mode == BusyPoll::Adaptive
    }

    /// A wait, looking included, took this long.
    pub(super) fn waited(&mut self, time: Duration) {
        self.short_waits = if time < SHORT { self.short_waits.saturating_add(1) } else { 0 };
    }
}

/// Looks again and again until the budget is spent, or something is found: then it says true.
pub(super) fn look(budget: Duration, since: Instant, mut finds: impl FnMut() -> bool) -> bool {
    if budget.is_zero() {
        return false;
    }
    while since.elapsed() < budget {
        if finds() {
            return true;
        }
        std::hint::spin_loop();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_looks_only_while_waits_are_short() {
        let mut spin = Spin::new(BusyPoll::Adaptive);
        for _ in 0..CONVINCED {
            assert_eq!(spin.budget(), Duration::ZERO);
            spin.waited(Duration::from_micros(20));
        }
        assert_eq!(spin.budget(), SHORT);
        spin.waited(Duration::from_micros(101));
        assert_eq!(spin.budget(), Duration::ZERO);
    }

    #[test]
    fn lanes_that_occupy_all_cores_never_look_unless_told_to() {
        assert_eq!(BusyPoll::Adaptive.among(1, 1), BusyPoll::Off);
        assert_eq!(BusyPoll::Adaptive.among(4, 2), BusyPoll::Off);
        assert_eq!(BusyPoll::Adaptive.among(1, 2), BusyPoll::Adaptive);
        assert_eq!(BusyPoll::For(SHORT).among(2, 2), BusyPoll::For(SHORT));
        assert_eq!(Spin::new(BusyPoll::For(SHORT)).budget(), SHORT);
    }
}
