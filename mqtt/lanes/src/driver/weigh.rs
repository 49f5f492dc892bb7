//! Whether looking for work takes less processor time than sleeping until it comes.
//!
//! Where peers alone are waited for, neither is always right. Who sleeps is woken for each batch,
//! and has its peers sleep as well; who looks burns what the peers would use. Which of the two is
//! dearer depends on the machine, on the load and on who else runs there. So both are tried now and
//! then for a moment, one after the other, and the one that took less processor time for a byte
//! received is kept until the next trial.
//!
//! Owns: the trials and their verdict. Does not know: sockets, or how long one looks.

use std::time::Duration;

/// Length of one half of a trial.
const HALF: Duration = Duration::from_millis(10);
/// From the end of one trial to the next.
const REST: Duration = Duration::from_millis(480);

/// What a lane has used and done since its start.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Spent {
    pub(super) time: Duration,
    /// Of this thread alone.
    pub(super) cpu: Duration,
    /// Received.
    pub(super) bytes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The verdict is followed.
    Rests,
    First,
    Second,
}

#[derive(Debug)]
pub(super) struct Weigh {
    phase: Phase,
    ends: Duration,
    began: Spent,
    /// What the first half of the trial cost.
    first: Spent,
    looks: bool,
    /// The verdict.
    pays: bool,
}

impl Weigh {
    pub(super) fn new() -> Self {
        let began = Spent::default();
        Self { phase: Phase::Rests, ends: REST, began, first: began, looks: false, pays: false }
    }

    /// Whether to look now.
    pub(super) fn looks(&self) -> bool {
        self.looks
    }

    /// Whether [`turn`](Self::turn) has something to do at this time.
    pub(super) fn is_due(&self, time: Duration) -> bool {
        time >= self.ends
    }

    /// The phase is over. `worth` says whether a trial may begin at all.
    pub(super) fn turn(&mut self, now: Spent, worth: bool) {
        let (phase, length) = match self.phase {
            Phase::Rests if worth => (Phase::First, HALF),
            Phase::Rests => {
                self.pays = false;
                (Phase::Rests, REST)
            }
            Phase::First => {
                self.first = now.since(self.began);
                (Phase::Second, HALF)
            }
            Phase::Second => {
                self.pays = self.judge(now.since(self.began));
                (Phase::Rests, REST)
            }
        };
        // What is done already is tried first: the other way has its effects to its end.
        self.looks = self.pays != (phase == Phase::Second);
        (self.phase, self.ends, self.began) = (phase, now.time + length, now);
    }

    /// The other way must be cheaper by a twentieth: each change costs the peers something.
    fn judge(&self, second: Spent) -> bool {
        let cost = |of: Spent, by: Spent| of.cpu.as_nanos() * u128::from(by.bytes);
        let (kept, other) = (cost(self.first, second), cost(second, self.first));
        let is_known = self.first.bytes > 0 && second.bytes > 0;
        let changes = is_known && other * 20 < kept * 19;
        self.pays != changes
    }
}

impl Spent {
    fn since(self, before: Self) -> Self {
        Self {
            time: self.time.saturating_sub(before.time),
            cpu: self.cpu.saturating_sub(before.cpu),
            bytes: self.bytes.saturating_sub(before.bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A lane whose receiving costs so many microseconds of processor time a kilobyte.
    struct Lane {
        weigh: Weigh,
        spent: Spent,
        looking: u32,
        sleeping: u32,
        received: u64,
    }

    impl Lane {
        fn new(looking: u32, sleeping: u32) -> Self {
            let weigh = Weigh::new();
            Self { weigh, spent: Spent::default(), looking, sleeping, received: 1000 }
        }

        /// So long, with all that is waited for within a short time. Answers how much of it the
        /// lane has looked.
        fn run(&mut self, time: Duration, worth: bool) -> Duration {
            let step = Duration::from_millis(1);
            let until = self.spent.time + time;
            let mut looked = Duration::ZERO;
            while self.spent.time < until {
                let cost = if self.weigh.looks() { self.looking } else { self.sleeping };
                looked += if self.weigh.looks() { step } else { Duration::ZERO };
                self.spent.time += step;
                self.spent.cpu += Duration::from_micros(cost.into());
                self.spent.bytes += self.received;
                if self.weigh.is_due(self.spent.time) {
                    self.weigh.turn(self.spent, worth);
                }
            }
            looked
        }
    }

    const LONG: Duration = Duration::from_secs(10);

    #[test]
    fn it_looks_where_that_costs_less() {
        let mut lane = Lane::new(80, 100);
        let looked = lane.run(LONG, true);
        assert!(looked > LONG * 9 / 10, "{looked:?}");
    }

    #[test]
    fn it_sleeps_where_that_costs_less_or_as_much() {
        for looking in [96, 100, 300] {
            let mut lane = Lane::new(looking, 100);
            let looked = lane.run(LONG, true);
            assert_eq!(looked, HALF * 20, "the trials alone, at {looking}");
        }
    }

    #[test]
    fn a_verdict_is_revised() {
        let mut lane = Lane::new(80, 100);
        lane.run(LONG, true);
        lane.looking = 120;
        lane.run(Duration::from_secs(1), true);
        assert!(!lane.weigh.pays);
        lane.looking = 80;
        lane.run(Duration::from_secs(1), true);
        assert!(lane.weigh.pays);
    }

    #[test]
    fn nothing_is_tried_while_waits_are_long() {
        let mut lane = Lane::new(80, 100);
        assert_eq!(lane.run(LONG, false), Duration::ZERO);
        lane.run(LONG, true);
        assert!(lane.weigh.pays);
        lane.run(Duration::from_secs(1), false);
        assert!(!lane.weigh.pays, "what was found long ago says nothing of the next load");
    }

    #[test]
    fn a_trial_in_which_nothing_came_changes_nothing() {
        let mut lane = Lane::new(80, 100);
        lane.received = 0;
        assert_eq!(lane.run(LONG, true), HALF * 20);
        let half = |bytes| Spent { time: HALF, cpu: HALF, bytes };
        for (first, second) in [(0, 1000), (1000, 0)] {
            let mut weigh = Weigh { first: half(first), ..Weigh::new() };
            assert!(!weigh.judge(half(second)), "{first} and {second} bytes");
            weigh.pays = true;
            assert!(weigh.judge(half(second)), "{first} and {second} bytes");
        }
    }
}
