//! Seeds side by side, each on a thread of its own that is watched.
//!
//! Owns: how many run at once, and that a step which never returns is a verdict of its seed too.
//! Does not know: what a verdict says.

use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel, sync_channel};
use std::thread;
use std::time::Duration;

use crate::verdict::{self, Verdict};

/// Which seeds, and how.
#[derive(Clone, Copy, Debug)]
pub struct Runs {
    /// The first.
    pub from: u64,
    /// How many.
    pub seeds: u64,
    /// Lanes of every broker; without it each seed has its own.
    pub lanes: Option<u16>,
    /// Seeds at the same time; without it one for each core.
    pub jobs: Option<usize>,
    /// What is done on the thread of a seed before it runs.
    pub before: fn(),
}

/// Real time without a step after which nobody believes in the next one. Seeds take a fraction of a
/// second; the machine may be busy.
const PATIENCE_S: u32 = 60;

impl Runs {
    /// Runs them, until all have run or one of which `enough` says so; in the order of the seeds.
    /// All below one that has run have run, too.
    pub fn run(&self, mut enough: impl FnMut(&Verdict) -> bool) -> Vec<Verdict> {
        let cores = thread::available_parallelism().map_or(1, NonZero::get);
        let jobs = self.jobs.unwrap_or(cores).max(1);
        let (next, over) = (AtomicU64::new(0), AtomicBool::new(false));
        let (sender, results) = channel();
        let mut verdicts = Vec::new();
        thread::scope(|scope| {
            for _ in 0..jobs {
                let (sender, next, over) = (sender.clone(), &next, &over);
                scope.spawn(move || {
                    while !over.load(Ordering::Relaxed) {
                        let at = next.fetch_add(1, Ordering::Relaxed);
                        if at >= self.seeds || sender.send(self.watch(self.from + at)).is_err() {
                            return;
                        }
                    }
                });
            }
            drop(sender);
            for verdict in results {
                if enough(&verdict) {
                    over.store(true, Ordering::Relaxed);
                }
                verdicts.push(verdict);
            }
        });
        verdicts.sort_by_key(|verdict| verdict.seed);
        verdicts
    }

    /// One seed. Its thread is left behind if it never comes back: nobody can end it.
    fn watch(&self, seed: u64) -> Verdict {
        let (lanes, before) = (self.lanes, self.before);
        let pulse = Arc::new(AtomicU64::new(0));
        let beats = Arc::clone(&pulse);
        watched(seed, &pulse, Duration::from_secs(1), move || {
            before();
            verdict::run(seed, lanes, &beats)
        })
    }
}

fn watched(
    seed: u64,
    pulse: &AtomicU64,
    tick: Duration,
    work: impl FnOnce() -> Verdict + Send + 'static,
) -> Verdict {
    let (sender, done) = sync_channel(1);
    // Who does not wait any more wants no verdict.
    thread::spawn(move || _ = sender.send(work()));
    let (mut last, mut still) = (0, 0);
    loop {
        match done.recv_timeout(tick) {
            Ok(verdict) => return verdict,
            Err(RecvTimeoutError::Disconnected) => {
                return Verdict::cut_short(seed, verdict::INVARIANTS, "a panic in its verdict");
            }
            Err(RecvTimeoutError::Timeout) => {
                let beat = pulse.load(Ordering::Relaxed);
                still = if beat == last { still + 1 } else { 0 };
                last = beat;
                if still >= PATIENCE_S {
                    return Verdict::cut_short(seed, "healed", "a step never ends");
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(seed: u64) -> Verdict {
        Verdict::cut_short(seed, "healed", "nothing")
    }

    #[test]
    fn a_step_that_never_ends_is_the_verdict_of_its_seed() {
        let pulse = AtomicU64::new(0);
        let verdict = watched(7, &pulse, Duration::from_millis(1), || {
            loop {
                thread::park();
            }
        });
        assert_eq!((verdict.seed, verdict.broken[0].promise), (7, "healed"));
    }

    #[test]
    fn what_ends_has_its_own_verdict_and_a_panic_is_one() {
        let pulse = AtomicU64::new(0);
        let tick = Duration::from_secs(1);
        let ended = watched(7, &pulse, tick, || verdict(9));
        assert_eq!(ended.seed, 9);
        let broken = watched(7, &pulse, tick, || std::panic::resume_unwind(Box::new(())));
        assert_eq!(broken.broken[0].promise, verdict::INVARIANTS);
    }
}
