//! For how long to look for work before sleeping, found out by trying.
//!
//! Who sleeps has to be woken for each batch, and lets its peers go to sleep as well; who looks
//! burns what the peers, or the disk's threads, would use. Which of them is better depends on the
//! machine (what a wake-up costs differs a hundredfold between virtual ones), on the load and on
//! who else runs there. So the way that is kept is compared now and then with one of the others,
//! for a moment each, by what was received in the time and by the processor time that it took.
//!
//! Owns: the trials and their verdict. Does not know: sockets, or how one looks.

use std::time::Duration;

/// The ways: not at all, for longer than a peer takes that was woken first, and for longer than a
/// disk takes.
const WAYS: [Duration; 3] =
    [Duration::ZERO, Duration::from_micros(100), Duration::from_micros(400)];
/// Length of one half of a trial,
const HALF: Duration = Duration::from_millis(10);
/// and longer until there were this many waits,
const HALF_WAITS: u32 = 50;
/// but no longer than this.
const HALF_MOST: Duration = Duration::from_millis(50);
/// After this time a way that is far worse than the one that is kept is given up,
const FAR: Duration = Duration::from_millis(2);
/// which means by this factor, of rate and processor time alike.
const FAR_WORSE: f64 = 2.0;
/// How much better another way must be, as each change costs the peers something.
const BETTER: f64 = 1.1;
/// From the end of a trial to the next: after a change, and most. A verdict that stands doubles it.
const REST: Duration = Duration::from_millis(60);
const REST_MOST: Duration = Duration::from_secs(1);
/// Where a wait is longer in the mean, nothing is worth trying: it is an idle lane.
const IDLE: Duration = Duration::from_millis(2);
/// Looks that found nothing, less three times those that did, after which one stops looking at
/// once: the load has gone.
const VAIN: u8 = 12;

/// What a lane has used and done since its start.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Spent {
    pub(super) time: Duration,
    /// Of this thread alone.
    pub(super) cpu: Duration,
    /// Received.
    pub(super) bytes: u64,
}

/// What the rate counts beside the processor time of a byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Worth {
    /// As much: twice the rate is worth twice the processor time for each byte.
    Alike,
    /// More: a tenth of the rate is worth twice the processor time.
    Rate,
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    /// What is kept is followed.
    Rests,
    /// So it is here. What is done already is tried first: so the other way shows all its effects.
    Kept,
    /// What is kept cost this much; the other one is followed. It may still be far worse, or is
    /// known not to be.
    Other { kept: Spent, is_new: bool },
}

#[derive(Debug)]
pub(super) struct Weigh {
    worth: Worth,
    phase: Phase,
    began: Spent,
    /// Since then.
    waits: u32,
    vain: u8,
    /// Of [`WAYS`].
    kept: usize,
    other: usize,
    rest: Duration,
}

impl Weigh {
    pub(super) fn new(worth: Worth) -> Self {
        let (phase, began) = (Phase::Rests, Spent::default());
        Self { worth, phase, began, waits: 0, vain: 0, kept: 0, other: 1, rest: REST }
    }

    /// How long to look before the next sleep.
    pub(super) fn budget(&self) -> Duration {
        let way = if matches!(self.phase, Phase::Other { .. }) { self.other } else { self.kept };
        WAYS[way]
    }

    /// A wait, looking included, was this long.
    pub(super) fn waited(&mut self, wait: Duration) {
        self.waits = self.waits.saturating_add(1);
        let budget = self.budget();
        let is_vain = !budget.is_zero() && wait >= budget;
        self.vain = if is_vain { self.vain + 1 } else { self.vain.saturating_sub(3) };
    }

    /// Whether [`turn`](Self::turn) has something to do at this time.
    pub(super) fn is_due(&self, time: Duration) -> bool {
        let lasts = time.saturating_sub(self.began.time);
        self.is_over(lasts) || self.is_in_vain()
    }

    fn is_over(&self, lasts: Duration) -> bool {
        match self.phase {
            Phase::Rests => lasts >= self.rest,
            Phase::Other { is_new: true, .. } => lasts >= FAR,
            _ => lasts >= HALF && (self.waits >= HALF_WAITS || lasts >= HALF_MOST),
        }
    }

    fn is_in_vain(&self) -> bool {
        self.vain >= VAIN
    }

    /// The phase is over.
    pub(super) fn turn(&mut self, now: Spent) {
        let spent = now.since(self.began);
        self.phase = match self.phase {
            Phase::Other { kept, is_new: true } if self.may_be_better(spent, kept) => {
                self.phase = Phase::Other { kept, is_new: false };
                return;
            }
            Phase::Other { kept, .. } => {
                let changes = !self.is_in_vain() && spent.is_better_than(kept, self.worth, BETTER);
                self.decide(if changes { self.other } else { self.kept });
                Phase::Rests
            }
            _ if self.is_in_vain() => {
                self.decide(0);
                Phase::Rests
            }
            Phase::Kept => Phase::Other { kept: spent, is_new: true },
            Phase::Rests if spent.time <= IDLE * self.waits => Phase::Kept,
            Phase::Rests => {
                self.decide(0);
                self.rest = REST;
                Phase::Rests
            }
        };
        (self.began, self.waits, self.vain) = (now, 0, 0);
    }

    /// A rate is not known so soon: where that counts for more, there is no saying.
    fn may_be_better(&self, other: Spent, kept: Spent) -> bool {
        let is_worse = || kept.is_better_than(other, Worth::Alike, FAR_WORSE);
        !self.is_in_vain() && (self.worth == Worth::Rate || !is_worse())
    }

    fn decide(&mut self, way: usize) {
        self.rest = if way == self.kept { (self.rest * 2).min(REST_MOST) } else { REST };
        self.kept = way;
        let after = |other: usize| (other + 1) % WAYS.len();
        self.other = after(self.other);
        if self.other == self.kept {
            self.other = after(self.other);
        }
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

    /// Whether it costs less than the other by this factor.
    fn is_better_than(self, other: Self, worth: Worth, factor: f64) -> bool {
        let is_known = self.bytes > 0 && other.bytes > 0;
        is_known && self.cost(worth) * factor < other.cost(worth)
    }

    /// Processor time and time for a byte, multiplied.
    fn cost(self, worth: Worth) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "a rate is no exact number")]
        let bytes = self.bytes as f64;
        let (cpu, time) = (self.cpu.as_secs_f64() / bytes, self.time.as_secs_f64() / bytes);
        match worth {
            Worth::Alike => cpu * time,
            // 1.1 to the eighth is 2.1.
            Worth::Rate => cpu * time.powi(8),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What one way gives, in one millisecond.
    #[derive(Clone, Copy)]
    struct Gives {
        cpu_us: u64,
        bytes: u64,
    }

    /// A lane that waits ten times a millisecond, whatever it does.
    struct Lane {
        weigh: Weigh,
        spent: Spent,
        ways: [Gives; WAYS.len()],
        wait: Duration,
        /// Time in each way.
        went: [Duration; WAYS.len()],
    }

    /// Paced load: the same is received in any case.
    fn paced(cpu_us: [u64; WAYS.len()]) -> Lane {
        lane(cpu_us.map(|cpu_us| Gives { cpu_us, bytes: 1000 }))
    }

    fn lane(ways: [Gives; WAYS.len()]) -> Lane {
        let wait = Duration::from_micros(50);
        Lane {
            weigh: Weigh::new(Worth::Alike),
            spent: Spent::default(),
            ways,
            wait,
            went: [Duration::ZERO; WAYS.len()],
        }
    }

    impl Lane {
        fn run(&mut self, time: Duration) {
            let step = Duration::from_micros(100);
            self.went = [Duration::ZERO; WAYS.len()];
            let until = self.spent.time + time;
            while self.spent.time < until {
                let budget = self.weigh.budget();
                let way = WAYS.iter().position(|way| *way == budget).unwrap();
                let Gives { cpu_us, bytes } = self.ways[way];
                self.went[way] += step;
                self.spent.time += step;
                self.spent.cpu += Duration::from_micros(cpu_us) / 10;
                self.spent.bytes += bytes / 10;
                self.weigh.waited(self.wait);
                if self.weigh.is_due(self.spent.time) {
                    self.weigh.turn(self.spent);
                }
            }
        }

        /// The way that took nearly all of ten seconds.
        fn settles(&mut self) -> Option<Duration> {
            let long = Duration::from_secs(10);
            self.run(long);
            let way = self.went.iter().position(|went| *went > long * 9 / 10)?;
            Some(WAYS[way])
        }
    }

    #[test]
    fn a_paced_load_takes_the_way_that_costs_least() {
        for (costs, way) in [([100, 80, 120], 1), ([100, 120, 80], 2), ([100, 130, 300], 0)] {
            assert_eq!(paced(costs).settles(), Some(WAYS[way]), "{costs:?}");
        }
    }

    #[test]
    fn as_good_is_not_good_enough() {
        assert_eq!(paced([100, 92, 100]).settles(), Some(Duration::ZERO));
    }

    #[test]
    fn a_rate_is_worth_as_much_as_the_processor_time_of_a_byte() {
        let of = |cpu_us, bytes| Gives { cpu_us, bytes };
        // Twice the rate, at 1.5 and at 2.5 times the processor time for each byte.
        let mut cheap = lane([of(100, 1000), of(300, 2000), of(500, 1000)]);
        assert_eq!(cheap.settles(), Some(WAYS[1]));
        let mut dear = lane([of(100, 1000), of(500, 2000), of(500, 1000)]);
        assert_eq!(dear.settles(), Some(WAYS[0]));
    }

    #[test]
    fn where_the_rate_counts_for_more_a_tenth_of_it_is_worth_twice_the_processor_time() {
        let of = |cpu_us, bytes| Gives { cpu_us, bytes };
        for (way, bytes) in [(1, 1120), (0, 1080), (0, 1000)] {
            let mut lane = lane([of(100, 1000), of(2 * bytes / 10, bytes), of(900, bytes)]);
            lane.weigh = Weigh::new(Worth::Rate);
            assert_eq!(lane.settles(), Some(WAYS[way]), "{bytes} bytes");
        }
    }

    #[test]
    fn a_verdict_is_found_soon_and_revised() {
        let mut lane = paced([100, 80, 60]);
        lane.run(Duration::from_millis(300));
        assert_eq!(lane.weigh.kept, 2);
        lane.run(Duration::from_secs(10));
        lane.ways[2].cpu_us = 200;
        lane.run(Duration::from_secs(4));
        assert_eq!(lane.weigh.kept, 1);
    }

    #[test]
    fn a_trial_without_bytes_changes_nothing() {
        let half = |bytes| Spent { time: HALF, cpu: HALF, bytes };
        for (one, other) in [(0, 1000), (1000, 0), (0, 0)] {
            assert!(
                !half(one).is_better_than(half(other), Worth::Alike, 1.0),
                "{one} and {other} bytes"
            );
        }
        assert!(half(1001).is_better_than(half(900), Worth::Alike, 1.0));
    }

    #[test]
    fn an_idle_lane_tries_nothing() {
        let mut weigh = Weigh::new(Worth::Alike);
        let mut now = Spent::default();
        for _ in 0..1000 {
            now.time += IDLE * 11 / 10;
            now.bytes += 100;
            weigh.waited(IDLE);
            if weigh.is_due(now.time) {
                weigh.turn(now);
            }
            assert_eq!(weigh.budget(), Duration::ZERO);
        }
    }

    #[test]
    fn a_way_that_is_far_worse_is_given_up_early() {
        for (cpu_us, least, most) in [(300, 0, 50), (150, 100, 200)] {
            let mut lane = paced([100, cpu_us, cpu_us]);
            lane.run(Duration::from_secs(10));
            let looked = (lane.went[1] + lane.went[2]).as_millis();
            assert!((least..most).contains(&looked), "{cpu_us}: {looked} ms");
        }
    }

    #[test]
    fn who_looks_in_vain_stops_before_the_next_trial() {
        let mut lane = paced([100, 80, 60]);
        lane.run(Duration::from_secs(10));
        assert_eq!(lane.weigh.budget(), WAYS[2]);
        lane.wait = WAYS[2];
        lane.run(Duration::from_millis(2));
        assert_eq!(lane.weigh.budget(), Duration::ZERO);
        lane.run(Duration::from_secs(10));
        let looked = lane.went[1] + lane.went[2];
        assert!(looked < Duration::from_millis(100), "{looked:?}: each trial ends at once");
    }

    #[test]
    fn one_long_wait_among_short_ones_says_nothing() {
        let mut lane = paced([100, 80, 60]);
        lane.run(Duration::from_secs(10));
        for wait in (0..200).map(|turn| WAYS[2] * u32::from(turn % 4 == 0)) {
            lane.weigh.waited(wait);
            assert!(!lane.weigh.is_in_vain());
        }
    }
}
