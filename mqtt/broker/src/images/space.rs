//! What images do for space: what is kept free for them, and how often one is made because space is
//! low.
//!
//! Owns: the sizes, by what is known of the state, and the pauses. Does not know: clocks, who is
//! refused meanwhile.

use std::time::Duration;

use zzq_wal::{Reserve, Space};

use super::due::Growth;
use crate::options::DiskLimits;

/// In lengths of the shortest segment: room for the cleaner, and for receipts and ends.
const FOR_THE_CLEANER: u64 = 2;
const FOR_RECEIPTS: u64 = 4;

/// What the log since adds to an image, about: entries name topics and sessions, which take a part
/// of long records, and no payloads; what else is in an entry is most of short ones.
const LOG_PER_IMAGE: u64 = 4;
const IMAGE_PER_RECORD: u64 = 40;

/// What is to stay free: two images as they may be by now, and what the log takes when it takes
/// nothing new.
pub(super) fn reserve(growth: Growth, shortest: u64, limits: DiskLimits) -> Reserve {
    let of_records = growth.records.saturating_mul(IMAGE_PER_RECORD);
    let more = (growth.bytes / LOG_PER_IMAGE).saturating_add(of_records).min(growth.bytes);
    let images = growth.image.saturating_mul(2).saturating_add(more);
    let images = images.saturating_add(FOR_THE_CLEANER * shortest);
    let log = FOR_RECEIPTS * shortest;
    let least = limits.reserve.unwrap_or(0).saturating_sub(log);
    let images = images.max(least);
    Reserve { images, log, low: limits.low.unwrap_or(images.saturating_add(log)) }
}

/// Bytes of history that go, where so much is free: what is left then is clearly not low any more.
pub(super) fn yields(reserve: Reserve, free: u64) -> u64 {
    let wanted = reserve.low.saturating_add(reserve.low / 2);
    let wanted = wanted.saturating_add(reserve.images).saturating_add(reserve.log);
    wanted.saturating_sub(free)
}

/// How long until another image is made for space.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pauses {
    last: Duration,
}

impl Pauses {
    /// An image was made for space, or could not be, in this time: whether it made some, and how it
    /// is now. At most a fifth of the time goes into images, and less where they do not help.
    pub(crate) fn next(&mut self, took: Duration, has_helped: bool, space: Space) -> Duration {
        let most = Duration::from_millis(match space {
            Space::Ample | Space::Low => 10_000,
            Space::Short => 2000,
            Space::Out => 200,
        });
        let least = Duration::from_millis(100);
        let longer = if has_helped { least } else { self.last.saturating_mul(2).max(least) };
        self.last = longer.min(most);
        self.last.max(took.saturating_mul(4))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn growth(bytes: u64, image: u64) -> Growth {
        Growth { records: 0, bytes, image }
    }

    #[test]
    fn two_images_and_a_few_segments_stay_free() {
        let limits = DiskLimits::default();
        let reserve = |bytes, image| reserve(growth(bytes, image), MIB, limits);
        let least = Reserve { images: 2 * MIB, log: 4 * MIB, low: 6 * MIB };
        assert_eq!(reserve(0, 0), least);
        assert_eq!(reserve(40 * MIB, 5 * MIB).images, 22 * MIB);
    }

    /// A million retained messages of some bytes are no less as an image than as a log, nearly.
    #[test]
    fn short_records_make_more_of_an_image_than_long_ones() {
        let of = |records, bytes| {
            let growth = Growth { records, bytes, image: 0 };
            reserve(growth, 0, DiskLimits::default()).images
        };
        assert_eq!(of(1000, 100_000), 65_000);
        assert_eq!(of(1000, 4_000_000), 1_040_000);
        assert_eq!(of(1000, 30_000), 30_000, "never more than the log");
    }

    #[test]
    fn who_runs_it_may_want_more() {
        let limits = DiskLimits { reserve: Some(100 * MIB), low: Some(MIB) };
        let wanted = reserve(growth(0, 0), MIB, limits);
        assert_eq!(wanted, Reserve { images: 96 * MIB, log: 4 * MIB, low: MIB });
        let little = DiskLimits { reserve: Some(1), low: None };
        assert_eq!(reserve(growth(0, 0), MIB, little).images, 2 * MIB, "never less than it takes");
    }

    #[test]
    fn history_goes_until_space_is_clearly_not_low() {
        let reserve = Reserve { images: 2, log: 4, low: 10 };
        assert_eq!(yields(reserve, 21), 0);
        assert_eq!(yields(reserve, 6), 15);
    }

    #[test]
    fn images_that_do_not_help_are_made_less_often() {
        let mut pauses = Pauses::default();
        let ms = Duration::from_millis;
        let mut waits = |helps, space| pauses.next(ms(10), helps, space).as_millis();
        let waited: Vec<_> = (0..8).map(|_| waits(false, Space::Low)).collect();
        assert_eq!(waited, [100, 200, 400, 800, 1600, 3200, 6400, 10_000]);
        assert_eq!(waits(false, Space::Short), 2000);
        assert_eq!(waits(true, Space::Low), 100);
        assert_eq!(waits(false, Space::Out), 200);
        assert_eq!(pauses.next(ms(300), true, Space::Out), ms(1200), "a fifth of the time");
    }
}
