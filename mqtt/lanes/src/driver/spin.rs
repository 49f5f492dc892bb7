//! Whether to look again for a while before blocking. A blocking wait costs a wake-up on the way
//! out; looking costs a core.
use std::time::Duration;

/// Waits shorter than this make looking worth while.
const SHORT: Duration = Duration::from_micros(50);
/// So many short waits in a row before the first look.
const CONVINCED: u8 = 4;

/// When a lane polls its sockets before it blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BusyPoll {
    /// While recent waits were shorter than 50 us; never on machines with one or two cores, where
    /// it would take the peers' time.
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

impl Spin {
    pub(super) fn new(mode: BusyPoll, cores: usize) -> Self {
        let mode = if mode == BusyPoll::Adaptive && cores <= 2 { BusyPoll::Off } else { mode };
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_looks_only_while_waits_are_short() {
        let mut spin = Spin::new(BusyPoll::Adaptive, 8);
        for _ in 0..CONVINCED {
            assert_eq!(spin.budget(), Duration::ZERO);
            spin.waited(Duration::from_micros(20));
        }
        assert_eq!(spin.budget(), SHORT);
        spin.waited(Duration::from_micros(51));
        assert_eq!(spin.budget(), Duration::ZERO);
    }

    #[test]
    fn it_never_looks_on_two_cores_unless_told_to() {
        let mut spin = Spin::new(BusyPoll::Adaptive, 2);
        for _ in 0..9 {
            spin.waited(Duration::ZERO);
        }
        assert_eq!(spin.budget(), Duration::ZERO);
        assert_eq!(Spin::new(BusyPoll::For(SHORT), 2).budget(), SHORT);
    }
}
