//! Memory that a burst has needed goes back to the system.
//!
//! Owns: when it does. Looking for it takes milliseconds in which lanes may wait, so it is done
//! when the broker has little to do, and only when there is something to be found.

use std::io;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// Between looks at how much there is.
pub(crate) const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Less than this, more than there was last, is not worth it.
const SLACK_KIB: u64 = 4 << 10;
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
}

impl Memory {
    /// Of this process, from now on.
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self::since(Look::now()?))
    }

    fn since(look: Look) -> Self {
        Self { last: look, least_kib: look.resident_kib }
    }

    /// To be called every [`LOOK_EVERY`]; `None` if the system says nothing any more.
    pub(crate) fn look(mut self) -> Option<Self> {
        if !self.is_worth_it(Look::now().ok()?) {
            return Some(self);
        }
        zzq_wal::io::give_back_free_memory();
        let after = Look::now().ok()?;
        tracing::debug!(
            before_kib = self.last.resident_kib,
            after_kib = after.resident_kib,
            us = u64::try_from((after.at - self.last.at).as_micros()).unwrap_or(u64::MAX),
            "free memory is given back"
        );
        Some(Self::since(after))
    }

    fn is_worth_it(&mut self, now: Look) -> bool {
        let worked = now.worked.saturating_sub(self.last.worked);
        let has_little_to_do = worked * LITTLE < now.at - self.last.at;
        self.last = now;
        self.least_kib = self.least_kib.min(now.resident_kib);
        let has_grown = now.resident_kib > self.least_kib + SLACK_KIB;
        has_grown && has_little_to_do
    }
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

    /// A process that has so many KiB by each second, and works for so much of it.
    fn worth_it(works: Duration, resident: &[u64]) -> Vec<usize> {
        let mut look = Look { at: Instant::now(), resident_kib: 20_000, worked: Duration::ZERO };
        let mut memory = Memory::since(look);
        let mut seconds = Vec::new();
        for (second, resident_kib) in (1..).zip(resident) {
            look.at += SECOND;
            look.worked += works;
            look.resident_kib = *resident_kib;
            if memory.is_worth_it(look) {
                seconds.push(second);
                memory = Memory::since(look);
            }
        }
        seconds
    }

    #[test]
    fn what_has_grown_is_given_back_when_there_is_little_to_do() {
        let little = SECOND / 100;
        assert_eq!(worth_it(little, &[21_000, 24_000, 24_200, 24_200]), [3], "once");
        assert_eq!(worth_it(little, &[12_000, 17_000]), [2], "more than the least");
    }

    #[test]
    fn who_has_much_to_do_is_not_held_up() {
        let resident: Vec<u64> = (1..=35).map(|second| 20_000 + 5_000 * second).collect();
        assert!(worth_it(SECOND, &resident).is_empty());
    }

    #[test]
    fn a_process_can_be_looked_at() {
        let memory = Memory::new().unwrap().look().unwrap();
        assert!(memory.last.resident_kib > 100 && memory.last.worked > Duration::ZERO);
    }
}
