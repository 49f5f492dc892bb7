//! Bytes owed to a session or held by a lane, and whether that is too much.
//!
//! Owns: the count and its level, with a distance between going over a mark and coming back, so
//! that a level announced to all lanes does not flicker. Does not know what is done about it.

use crate::SessionFlags;

/// Where levels change, in bytes: `low < high <= full`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marks {
    low: u64,
    high: u64,
    full: u64,
}

/// How much is owed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Little.
    #[default]
    Room,
    /// More than the high mark, and since then not down to the low one.
    OverHighWater,
    /// The full mark is reached, and since then it was not down to the high one.
    Full,
}

/// See the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Budget {
    owed: u64,
    level: Level,
}

impl Marks {
    /// Marks with these values.
    ///
    /// # Panics
    /// Unless `low < high <= full`.
    pub const fn new(low: u64, high: u64, full: u64) -> Self {
        assert!(low < high && high <= full, "marks ascend");
        Self { low, high, full }
    }
}

impl Level {
    /// As the index knows it.
    pub const fn flags(self) -> SessionFlags {
        match self {
            Self::Room => SessionFlags::NONE,
            Self::OverHighWater => SessionFlags::OVER_HIGH_WATER,
            Self::Full => SessionFlags::OVER_HIGH_WATER.with(SessionFlags::FULL),
        }
    }
}

impl Budget {
    /// Nothing owed.
    pub const fn new() -> Self {
        Self { owed: 0, level: Level::Room }
    }

    /// Bytes owed.
    pub const fn owed(&self) -> u64 {
        self.owed
    }

    /// The level as it was last given.
    pub const fn level(&self) -> Level {
        self.level
    }

    /// Owes so many bytes more; gives the new level if it changed.
    ///
    /// # Panics
    /// Above 64 bits, which no memory holds.
    pub fn add(&mut self, bytes: u64, marks: &Marks) -> Option<Level> {
        let owed = self.owed.checked_add(bytes);
        assert!(owed.is_some(), "more bytes owed than can be counted");
        self.owed = owed.unwrap_or(u64::MAX);
        let level = if self.owed >= marks.full {
            Level::Full
        } else if self.owed > marks.high {
            self.level.max(Level::OverHighWater)
        } else {
            self.level
        };
        self.change(level)
    }

    /// Owes so many bytes less; gives the new level if it changed.
    ///
    /// # Panics
    /// If less than that is owed.
    pub fn sub(&mut self, bytes: u64, marks: &Marks) -> Option<Level> {
        assert!(bytes <= self.owed, "what is paid was owed");
        self.owed -= bytes;
        let level = if self.owed <= marks.low {
            Level::Room
        } else if self.owed <= marks.high {
            self.level.min(Level::OverHighWater)
        } else {
            self.level
        };
        self.change(level)
    }

    fn change(&mut self, level: Level) -> Option<Level> {
        let changed = level != self.level;
        self.level = level;
        changed.then_some(level)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MARKS: Marks = Marks::new(10, 20, 30);

    #[test]
    fn levels_rise_above_their_mark_and_fall_at_the_one_below() {
        let mut budget = Budget::new();
        assert_eq!(budget.add(20, &MARKS), None);
        assert_eq!(budget.add(1, &MARKS), Some(Level::OverHighWater));
        assert_eq!(budget.sub(10, &MARKS), None);
        assert_eq!(budget.add(18, &MARKS), None);
        assert_eq!(budget.add(1, &MARKS), Some(Level::Full));
        assert_eq!(budget.sub(9, &MARKS), None);
        assert_eq!((budget.owed(), budget.level()), (21, Level::Full));
        assert_eq!(budget.sub(1, &MARKS), Some(Level::OverHighWater));
        assert_eq!(budget.sub(9, &MARKS), None);
        assert_eq!(budget.sub(1, &MARKS), Some(Level::Room));
    }

    #[test]
    fn one_step_may_pass_two_marks() {
        let mut budget = Budget::new();
        assert_eq!(budget.add(40, &MARKS), Some(Level::Full));
        assert_eq!(budget.sub(40, &MARKS), Some(Level::Room));
        assert_eq!((Level::Full.flags(), Level::Room.flags()), {
            let over = SessionFlags::OVER_HIGH_WATER;
            (over.with(SessionFlags::FULL), SessionFlags::NONE)
        });
    }

    #[test]
    #[should_panic(expected = "what is paid was owed")]
    fn more_than_is_owed_is_not_paid() {
        Budget::new().sub(1, &MARKS);
    }
}
