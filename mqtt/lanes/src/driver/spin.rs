//! Whether to look again for a while before blocking. A blocking wait costs a wake-up on the way
//! out; looking costs a core.
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use super::weigh::{Spent, Weigh, Worth};

/// When a lane polls its sockets before it blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BusyPoll {
    /// For 400 us, 100 us or not at all, whichever serves best: each is tried now and then, and
    /// compared by what is received in the time and by the processor time it takes. Never where
    /// lanes may occupy all cores, because it would take the time of those who wait for them.
    #[default]
    Adaptive,
    /// As `Adaptive`, where a tenth more in the same time is worth twice the processor time for it:
    /// what is waited for takes a disk's time, and that of others who wait for it.
    Prompt,
    /// Never.
    Off,
    /// Always, for so long.
    For(Duration),
}

#[derive(Debug)]
pub(super) struct Spin {
    mode: Mode,
    start: Instant,
    /// Bytes received.
    received: u64,
}

#[derive(Debug)]
enum Mode {
    Fixed(Duration),
    Weighed(Box<Weigh>),
}

impl BusyPoll {
    /// What becomes of it with so many lanes on so many cores.
    pub(crate) fn among(self, lanes: usize, cores: usize) -> Self {
        let learns = matches!(self, Self::Adaptive | Self::Prompt);
        if learns && lanes >= cores { Self::Off } else { self }
    }

    /// What becomes of it where acknowledgements wait for a disk.
    pub(crate) fn for_disk(self) -> Self {
        if self == Self::Adaptive { Self::Prompt } else { self }
    }
}

impl Spin {
    pub(super) fn new(busy_poll: BusyPoll) -> Self {
        let mode = match busy_poll {
            BusyPoll::Adaptive => Mode::Weighed(Box::new(Weigh::new(Worth::Alike))),
            BusyPoll::Prompt => Mode::Weighed(Box::new(Weigh::new(Worth::Rate))),
            BusyPoll::Off => Mode::Fixed(Duration::ZERO),
            BusyPoll::For(budget) => Mode::Fixed(budget),
        };
        Self { mode, start: Instant::now(), received: 0 }
    }

    /// How long to look before blocking.
    pub(super) fn budget(&self) -> Duration {
        match &self.mode {
            Mode::Fixed(budget) => *budget,
            Mode::Weighed(weigh) => weigh.budget(),
        }
    }

    /// A wait, looking included, began then and is over.
    pub(super) fn waited(&mut self, since: Instant) {
        let Mode::Weighed(weigh) = &mut self.mode else { return };
        let now = Instant::now();
        weigh.waited(now.duration_since(since));
        let time = now.duration_since(self.start);
        if weigh.is_due(time) {
            weigh.turn(Spent { time, cpu: cpu(), bytes: self.received });
        }
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
    fn lanes_that_occupy_all_cores_never_look_unless_told_to() {
        let told = BusyPoll::For(Duration::from_micros(5));
        assert_eq!(BusyPoll::Adaptive.among(1, 1), BusyPoll::Off);
        assert_eq!(BusyPoll::Adaptive.among(4, 2), BusyPoll::Off);
        assert_eq!(BusyPoll::Adaptive.for_disk().among(2, 2), BusyPoll::Off);
        assert_eq!(BusyPoll::Adaptive.among(1, 2), BusyPoll::Adaptive);
        assert_eq!(told.among(2, 2), told);
    }

    #[test]
    fn who_is_told_for_how_long_to_look_does_so_at_once() {
        let told = Duration::from_micros(5);
        assert_eq!(Spin::new(BusyPoll::For(told)).budget(), told);
        assert_eq!(Spin::new(BusyPoll::Off).budget(), Duration::ZERO);
    }

    #[test]
    fn what_was_received_and_how_long_was_waited_leads_to_a_trial() {
        let mut spin = Spin::new(BusyPoll::Adaptive);
        let is_looking = |spin: &mut Spin| {
            spin.received(100);
            spin.waited(Instant::now());
            !spin.budget().is_zero()
        };
        let until = Instant::now() + Duration::from_secs(10);
        while !is_looking(&mut spin) {
            assert!(Instant::now() < until, "short waits are worth a trial");
        }
    }
}
