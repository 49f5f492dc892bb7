//! Memory that a burst has needed goes back to the system.
//!
//! Owns: when it does. Looking for it takes milliseconds in which lanes may wait, and more of them
//! the more memory there is. So it is done when the broker has little to do, only when there is
//! something to be found that is worth it, and for a small part of the time.

use std::io;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// Between looks at how much there is.
pub(crate) const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Less than this, more than there was last, is not worth it ...
const SLACK_KIB: u64 = 4 << 10;
/// ... nor is less than one part in so many of what there was.
const SLACK_PART: u64 = 8;
/// It takes at most one part in so many of the time.
const SELDOM: u32 = 200;
/// What was in use then may be free soon behind it, as when an image was being made: nothing would
/// show that. So it is done again after so long.
const AGAIN: [Duration; 3] =
    [Duration::from_secs(2), Duration::from_secs(8), Duration::from_secs(32)];
/// Who takes one part in so many of a processor's time has little to do.
const LITTLE: u32 = 20;

/// What a process has and has done by some moment.
#[derive(Clone, Copy, Debug)]
struct Look {
    at: Instant,
    resident_kib: u64,
    /// Processor time so far.
    worked: Duration,
}

/// See the file.
#[derive(Debug)]
pub(crate) struct Memory {
    last: Look,
    /// The least that there was since the last time that some was given back.
    least_kib: u64,
    /// It is not done again before.
    rests_until: Instant,
    /// When it is done again for what was in use, and how often that was so.
    again_at: Option<Instant>,
    again: usize,
}

impl Memory {
    /// Of this process, from now on.
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self::since(Look::now()?))
    }

    fn since(look: Look) -> Self {
        let (least_kib, rests_until) = (look.resident_kib, look.at);
        Self { last: look, least_kib, rests_until, again_at: None, again: 0 }
    }

    /// To be called every [`LOOK_EVERY`]; `None` if the system says nothing any more.
    pub(crate) fn look(mut self) -> Option<Self> {
        if !self.is_worth_it(Look::now().ok()?) {
            return Some(self);
        }
        // Its own work counts: what others had it wait for says nothing of the next time.
        let began = own_work()?;
        zzq_wal::io::give_back_free_memory();
        let took = own_work()?.saturating_sub(began);
        let after = Look::now().ok()?;
        let us = |span: Duration| u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
        tracing::debug!(
            before_kib = self.last.resident_kib,
            after_kib = after.resident_kib,
            us = us(after.at - self.last.at),
            work_us = us(took),
            "free memory is given back"
        );
        Some(self.behind(after, took))
    }

    /// Some was given back just now, which has taken so long.
    fn behind(self, look: Look, took: Duration) -> Self {
        let is_new = self.has_grown() || self.last.resident_kib > look.resident_kib + SLACK_KIB;
        let again = if is_new { 0 } else { self.again + 1 };
        let again_at = AGAIN.get(again).map(|after| look.at + *after);
        let rests_until = look.at + took * SELDOM;
        Self { rests_until, again_at, again, ..Self::since(look) }
    }

    fn is_worth_it(&mut self, now: Look) -> bool {
        let worked = now.worked.saturating_sub(self.last.worked);
        let has_little_to_do = worked * LITTLE < now.at - self.last.at;
        self.last = now;
        self.least_kib = self.least_kib.min(now.resident_kib);
        let is_due = self.again_at.is_some_and(|due| now.at >= due);
        (is_due || self.has_grown()) && has_little_to_do && now.at >= self.rests_until
    }

    fn has_grown(&self) -> bool {
        let slack_kib = SLACK_KIB.max(self.least_kib / SLACK_PART);
        self.last.resident_kib > self.least_kib + slack_kib
    }
}

/// Processor time of this thread so far.
fn own_work() -> Option<Duration> {
    clock_gettime(ClockId::ThreadCPUTime).try_into().ok()
}

impl Look {
    fn now() -> io::Result<Self> {
        let status = std::fs::read_to_string("/proc/self/status")?;
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let number = resident.and_then(|text| text.split_whitespace().next()?.parse().ok());
        let resident_kib = number.ok_or(io::ErrorKind::InvalidData)?;
        let worked = clock_gettime(ClockId::ProcessCPUTime);
        let worked = worked.try_into().map_err(|_| io::ErrorKind::InvalidData)?;
        Ok(Self { at: Instant::now(), resident_kib, worked })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// A process that has so many KiB by each second, works for so much of it, and takes so long to
    /// give some back: in which seconds it does.
    fn gives_back(works: Duration, takes: Duration, resident: &[u64]) -> Vec<usize> {
        let mut look = Look { at: Instant::now(), resident_kib: 20_000, worked: Duration::ZERO };
        let mut memory = Memory::since(look);
        let mut seconds = Vec::new();
        for (second, resident_kib) in (1..).zip(resident) {
            look.at += SECOND;
            look.worked += works;
            look.resident_kib = *resident_kib;
            if memory.is_worth_it(look) {
                seconds.push(second);
                memory = memory.behind(look, takes);
            }
        }
        seconds
    }

    const AT_REST: Duration = Duration::from_millis(10);
    const SHORT: Duration = Duration::from_millis(3);

    #[test]
    fn what_has_grown_is_given_back_when_there_is_little_to_do() {
        let gives_back = |resident: &[u64]| gives_back(AT_REST, SHORT, resident);
        assert_eq!(gives_back(&[21_000, 24_000, 24_200, 24_200]), [3], "not at once again");
        assert_eq!(gives_back(&[12_000, 17_000]), [2], "more than the least");
    }

    /// What an image took for a while was given back only when there was as much again.
    #[test]
    fn what_was_in_use_is_given_back_soon_behind_it() {
        assert_eq!(gives_back(AT_REST, SHORT, &[25_000; 120]), [1, 3, 11, 43]);
        assert_eq!(gives_back(AT_REST, SHORT, &[20_000; 120]), [], "it has not grown");
    }

    #[test]
    fn who_has_much_to_do_is_not_held_up() {
        let resident: Vec<u64> = (1..=35).map(|second| 20_000 + 5_000 * second).collect();
        assert!(gives_back(SECOND, SHORT, &resident).is_empty());
    }

    #[test]
    fn who_has_much_looks_for_more() {
        let mut resident = vec![1_000_000; 50];
        resident.extend([1_100_000, 1_124_000, 1_126_000, 1_250_000]);
        let seconds = gives_back(AT_REST, SHORT, &resident);
        assert_eq!(seconds, [1, 3, 11, 43, 53]);
    }

    #[test]
    fn the_longer_it_takes_the_less_often_it_is_done() {
        let grows: Vec<u64> = (1..=10).map(|second| 20_000 << second).collect();
        let every: Vec<_> = (1..=10).collect();
        assert_eq!(gives_back(AT_REST, SHORT, &grows), every);
        assert_eq!(gives_back(AT_REST, 7 * SHORT, &grows), [1, 6]);
    }

    #[test]
    fn a_process_can_be_looked_at() {
        let memory = Memory::new().unwrap().look().unwrap();
        assert!(memory.last.resident_kib > 100 && memory.last.worked > Duration::ZERO);
        assert!(own_work().is_some());
    }
}
