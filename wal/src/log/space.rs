//! How much space is left, and for whom.
//!
//! Owns: what is kept free, the level that everybody sees, how long a segment may be where space
//! ends. Does not know: who asks for space, and what is refused without it.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::format::segment::GROUPS_AT;

/// Free space of the disk that ordinary segments leave alone, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reserve {
    /// For files that the log's owner writes, images of its state above all. No segment takes it
    /// but one without which the log cannot go on at all: that of a start, of a move after a failed
    /// write, and of a truncation, which are as short as they can be then.
    pub images: u64,
    /// For the log when it is to take nothing new any more: segments that somebody waits for.
    pub log: u64,
    /// Where less than this is left beside the two, space is low.
    pub low: u64,
}

/// How much space is left. The later ones are the worse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Space {
    /// Enough.
    Ample,
    /// Less than [`Reserve::low`] beside the reserve: the time to free some.
    Low,
    /// The reserve is all there is: whoever cares for it hands over nothing new.
    Short,
    /// The next segment cannot be made: what is handed over waits.
    Out,
}

impl Reserve {
    const fn sum(self) -> u64 {
        self.images.saturating_add(self.log)
    }

    /// How it is with so much free, if it was like `was` before: what was left becomes better only
    /// when it does so by a margin, or whoever asks would flicker.
    fn level(self, free: u64, shortest: u64, was: Space) -> Space {
        let beside = free.saturating_sub(self.sum());
        let least =
            if was >= Space::Short { shortest.saturating_add(self.low / 2) } else { shortest };
        let most = if was >= Space::Low { self.low.saturating_add(self.low / 4) } else { self.low };
        if beside < least {
            Space::Short
        } else if beside < most {
            Space::Low
        } else {
            Space::Ample
        }
    }
}

/// The reserve, and what is left beside it, for all to see.
#[derive(Debug)]
pub(crate) struct Gauge {
    shortest: u64,
    reserve: Mutex<Reserve>,
    level: AtomicU8,
    free: AtomicU64,
}

const LEVELS: [Space; 4] = [Space::Ample, Space::Low, Space::Short, Space::Out];

impl Gauge {
    /// Nothing is reserved yet; no segment is shorter than this.
    pub(crate) fn new(shortest: u64) -> Self {
        Self {
            shortest,
            reserve: Mutex::default(),
            level: AtomicU8::new(0),
            free: AtomicU64::new(u64::MAX),
        }
    }

    pub(crate) const fn shortest(&self) -> u64 {
        self.shortest
    }

    pub(crate) fn reserve(&self) -> Reserve {
        *self.reserve.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set_reserve(&self, reserve: Reserve) {
        *self.reserve.lock().unwrap_or_else(PoisonError::into_inner) = reserve;
    }

    pub(crate) fn level(&self) -> Space {
        LEVELS[usize::from(self.level.load(Ordering::Acquire))]
    }

    /// What was free at the last look.
    pub(crate) fn free(&self) -> u64 {
        self.free.load(Ordering::Relaxed)
    }

    /// So much is free now. True: the level is another one.
    pub(crate) fn look(&self, free: u64) -> bool {
        let was = self.level();
        let level = self.reserve().level(free, self.shortest, was);
        self.free.store(free, Ordering::Relaxed);
        self.level.store(level as u8, Ordering::Release);
        level != was
    }

    /// How long a segment may be with so much free, `wanted` at most; `None`: there is no space for
    /// one. A needed one takes of the reserve what is the log's, and is as short as it can be.
    pub(crate) fn fitting(&self, wanted: u64, free: u64, is_needed: bool) -> Option<u64> {
        let reserve = self.reserve();
        let kept = if is_needed { reserve.images } else { reserve.sum() };
        fitting(wanted, self.shortest, free.saturating_sub(kept))
    }
}

/// A quarter of what is left at most: near the end of the disk segments are short, so that little
/// of it is in files and not written yet, and what is trimmed comes back soon.
fn fitting(wanted: u64, shortest: u64, left: u64) -> Option<u64> {
    let mut length = wanted;
    while length > shortest && length > left / 4 {
        length = (length / 2 / GROUPS_AT * GROUPS_AT).max(shortest);
    }
    (length <= left).then_some(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn segments_become_shorter_towards_the_end_of_the_disk() {
        let lengths = |left: &[u64]| -> Vec<Option<u64>> {
            left.iter().map(|left| fitting(64 * MIB, MIB, left * MIB)).collect()
        };
        let mib = |n: u64| Some(n * MIB);
        assert_eq!(lengths(&[1000, 256, 255, 20]), [mib(64), mib(64), mib(32), mib(4)]);
        assert_eq!(lengths(&[4, 1, 0]), [mib(1), mib(1), None]);
        assert_eq!(fitting(MIB, MIB, MIB), mib(1));
        assert_eq!(fitting(3 * MIB, MIB, 4 * MIB), mib(1), "no shorter than the shortest");
        assert_eq!(fitting(5 * 4096, 4096, 5 * 4096), Some(4096), "whole blocks");
    }

    #[test]
    fn a_needed_segment_takes_the_part_of_the_log_and_no_more() {
        let gauge = Gauge::new(MIB);
        gauge.set_reserve(Reserve { images: 10 * MIB, log: 5 * MIB, low: 0 });
        assert_eq!(gauge.fitting(MIB, 16 * MIB, false), Some(MIB));
        assert_eq!(gauge.fitting(MIB, 16 * MIB - 1, false), None);
        assert_eq!(gauge.fitting(MIB, 11 * MIB, true), Some(MIB));
        assert_eq!(gauge.fitting(MIB, 11 * MIB - 1, true), None);
    }

    #[test]
    fn a_level_becomes_better_by_a_margin_only() {
        let reserve = Reserve { images: 6, log: 4, low: 20 };
        let level = |free, was| reserve.level(free, 1, was);
        assert_eq!(level(30, Space::Ample), Space::Ample);
        assert_eq!(level(29, Space::Ample), Space::Low);
        assert_eq!(level(34, Space::Low), Space::Low);
        assert_eq!(level(35, Space::Low), Space::Ample);
        assert_eq!(level(11, Space::Low), Space::Low);
        assert_eq!(level(10, Space::Low), Space::Short, "no segment fits beside the reserve");
        assert_eq!(level(20, Space::Short), Space::Short);
        assert_eq!(level(21, Space::Short), Space::Low);
        assert_eq!(level(100, Space::Short), Space::Ample);
    }
}
