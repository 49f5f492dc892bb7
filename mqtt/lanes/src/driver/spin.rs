//! Whether to look again for a while before blocking. A blocking wait costs a wake-up on the way
//! out; looking costs a core.
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use super::weigh::{Spent, Weigh};

/// Waits shorter than this make looking worth while. A peer that must be woken up first, which
/// takes 20 to 40 us in a virtual machine, and then handles a window of a hundred packets answers
/// within.
const SHORT: Duration = Duration::from_micros(100);
/// Waits shorter than this make it worth while to try whether looking takes less processor time.
/// Where all sleep between the packets of a window a wait takes two wake-ups and the answers.
const WORTH_A_TRIAL: Duration = Duration::from_micros(400);
/// So many short waits in a row before the first look.
const CONVINCED: u8 = 4;

/// When a lane polls its sockets before it blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BusyPoll {
    /// While recent waits were shorter than 100 us; never where lanes may occupy all cores, because
    /// it would take the time of those who wait for them.
    #[default]
    Adaptive,
    /// As `Adaptive`, while that takes less processor time for what is received than sleeping, as
    /// is tried twice a second: where only peers are waited for, who sends the next message has
    /// often to be woken first, so that looking may cost more than the sleep that it saves.
    Weighed,
    /// Never.
    Off,
    /// Always, for so long.
    For(Duration),
}

#[derive(Debug)]
pub(super) struct Spin {
    mode: BusyPoll,
    short_waits: u8,
    /// Of [`BusyPoll::Weighed`].
    weigh: Option<Box<Weigh>>,
    start: Instant,
    /// Bytes received.
    received: u64,
}

impl BusyPoll {
    /// What becomes of it with so many lanes on so many cores.
    pub(crate) fn among(self, lanes: usize, cores: usize) -> Self {
        let learns = matches!(self, Self::Adaptive | Self::Weighed);
        if learns && lanes >= cores { Self::Off } else { self }
    }

    /// What becomes of it where only peers are waited for.
    pub(crate) fn for_peers(self) -> Self {
        if self == Self::Adaptive { Self::Weighed } else { self }
    }
}

impl Spin {
    pub(super) fn new(mode: BusyPoll) -> Self {
        let weigh = (mode == BusyPoll::Weighed).then(|| Box::new(Weigh::new()));
        Self { mode, short_waits: 0, weigh, start: Instant::now(), received: 0 }
    }

    /// How long to look before blocking.
    pub(super) fn budget(&self) -> Duration {
        let looks = match self.mode {
            BusyPoll::Off => false,
            BusyPoll::For(budget) => return budget,
            BusyPoll::Adaptive => true,
            BusyPoll::Weighed => self.weigh.as_ref().is_some_and(|weigh| weigh.looks()),
        };
        if looks && self.is_convinced() { SHORT } else { Duration::ZERO }
    }

    fn is_convinced(&self) -> bool {
        self.short_waits >= CONVINCED
    }

    /// Whether the length of waits matters.
    pub(super) fn is_learning(&self) -> bool {
        matches!(self.mode, BusyPoll::Adaptive | BusyPoll::Weighed)
    }

    /// A wait, looking included, began then.
    pub(super) fn waited(&mut self, since: Instant) {
        let now = Instant::now();
        self.note(now.duration_since(since));
        let is_convinced = self.is_convinced();
        let Some(weigh) = &mut self.weigh else { return };
        let time = now.duration_since(self.start);
        if weigh.is_due(time) {
            weigh.turn(Spent { time, cpu: cpu(), bytes: self.received }, is_convinced);
        }
    }

    fn note(&mut self, wait: Duration) {
        let most = if self.weigh.is_some() { WORTH_A_TRIAL } else { SHORT };
        self.short_waits = if wait < most { self.short_waits.saturating_add(1) } else { 0 };
    }

    pub(super) fn received(&mut self, bytes: usize) {
        self.received += bytes as u64;
    }
}

/// Processor time of this thread.
fn cpu() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
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
            spin.note(Duration::from_micros(20));
        }
        assert_eq!(spin.budget(), SHORT);
        spin.note(Duration::from_micros(101));
        assert_eq!(spin.budget(), Duration::ZERO);
    }

    #[test]
    fn who_waits_for_peers_looks_only_if_that_pays() {
        let mut spin = Spin::new(BusyPoll::Adaptive.for_peers());
        (0..CONVINCED).for_each(|_| spin.note(Duration::from_micros(20)));
        assert_eq!(spin.budget(), Duration::ZERO);
        let turn = |spin: &mut Spin, spent| spin.weigh.as_mut().unwrap().turn(spent, true);
        let first = Spent { time: Duration::from_secs(1), ..Spent::default() };
        turn(&mut spin, first);
        assert_eq!(spin.budget(), Duration::ZERO, "what it does is tried first");
        let half = Duration::from_millis(1);
        turn(&mut spin, Spent { time: first.time + half, cpu: half, bytes: 1000 });
        assert_eq!(spin.budget(), SHORT);
        spin.note(Duration::from_micros(399));
        assert_eq!(spin.budget(), SHORT);
        spin.note(Duration::from_micros(400));
        assert_eq!(spin.budget(), Duration::ZERO, "no trial makes it look for long waits");
    }

    #[test]
    fn lanes_that_occupy_all_cores_never_look_unless_told_to() {
        assert_eq!(BusyPoll::Adaptive.among(1, 1), BusyPoll::Off);
        assert_eq!(BusyPoll::Adaptive.among(4, 2), BusyPoll::Off);
        assert_eq!(BusyPoll::Weighed.among(2, 2), BusyPoll::Off);
        assert_eq!(BusyPoll::Adaptive.among(1, 2), BusyPoll::Adaptive);
        assert_eq!(BusyPoll::For(SHORT).among(2, 2), BusyPoll::For(SHORT));
        assert_eq!(Spin::new(BusyPoll::For(SHORT)).budget(), SHORT);
    }
}
