//! Power cuts: disks as they may be left at any moment of a recorded history.
//!
//! Owns: what a cut may leave: all that a flush has covered, and of the rest anything, also parts
//! of a write in units of a sector. The first block is written as a whole: it is ext4's superblock,
//! which ext4 reads and checks before it replays its journal, and so takes for granted.
//! Does not know: what else is on the disk.

use std::sync::Arc;

use crate::image::Image;
use crate::recorder::Event;
use zzq_wal::sim_disk::Random;

/// What a device writes as a whole or not at all.
const SECTOR: usize = 512;

/// Writes in front of this never tear.
const SUPERBLOCK_END: u64 = 4096;

/// What becomes of the writes that no flush has covered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Survival {
    /// Nothing of them is there.
    Nothing,
    /// All of them are.
    Everything,
    /// Each is there or not.
    Some,
    /// Each sector of each is there or not.
    Torn,
    /// Only the newest is there.
    Newest,
    /// All but one are there.
    AllButOne,
}

/// All of them, for whoever tries them in turn.
pub const SURVIVALS: [Survival; 6] = [
    Survival::Nothing,
    Survival::Torn,
    Survival::Some,
    Survival::Everything,
    Survival::Newest,
    Survival::AllButOne,
];

/// Walks through a history and makes disks.
#[derive(Debug)]
pub struct Replay<'h> {
    durable: Image,
    events: &'h [Event],
    /// Events before this one have happened.
    at: usize,
    /// Writes that no flush has covered yet, by their event.
    pending: Vec<usize>,
}

impl<'h> Replay<'h> {
    /// At the beginning, when the disk had these bytes, all of them durable.
    pub fn new(before: Image, events: &'h [Event]) -> Self {
        Self { durable: before, events, at: 0, pending: Vec::new() }
    }

    /// Goes on until all events before `to` have happened.
    ///
    /// # Panics
    ///
    /// If that would be going back, or past the end.
    pub fn advance(&mut self, to: usize) {
        assert!(self.at <= to && to <= self.events.len(), "a history goes forward");
        for at in self.at..to {
            match &self.events[at] {
                Event::Write { .. } => self.pending.push(at),
                Event::Flush { covers } => self.flush(*covers),
                Event::Note(_) => {}
            }
        }
        self.at = to;
    }

    fn flush(&mut self, covers: usize) {
        let still = self.pending.partition_point(|write| *write < covers);
        for write in self.pending.drain(..still) {
            apply(&mut self.durable, &self.events[write], |_| true);
        }
    }

    /// How many writes no flush has covered.
    pub fn pending(&self) -> usize {
        self.pending.len()
    }

    /// The disk, if the power goes now.
    pub fn cut(&self, survival: Survival, random: &mut Random) -> Image {
        let mut image = self.durable.clone();
        let lost = random.index(self.pending.len().max(1));
        let newest = self.pending.len().saturating_sub(1);
        for (nth, write) in self.pending.iter().enumerate() {
            let event = &self.events[*write];
            let whole = match survival {
                Survival::Torn if !is_atomic(event) => {
                    apply(&mut image, event, |_| random.one_in(2));
                    continue;
                }
                Survival::Nothing => false,
                Survival::Everything => true,
                Survival::Some | Survival::Torn => random.one_in(2),
                Survival::Newest => nth == newest,
                Survival::AllButOne => nth != lost,
            };
            apply(&mut image, event, |_| whole);
        }
        image
    }
}

fn is_atomic(event: &Event) -> bool {
    matches!(event, Event::Write { offset, .. } if *offset < SUPERBLOCK_END)
}

/// Writes the sectors that `lands` names.
fn apply(image: &mut Image, event: &Event, mut lands: impl FnMut(usize) -> bool) {
    let Event::Write { offset, bytes } = event else { return };
    let bytes = Arc::clone(bytes);
    for (sector, part) in bytes.chunks(SECTOR).enumerate() {
        if lands(sector) {
            image.write(offset + (sector * SECTOR) as u64, part);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(sector: u64, byte: u8) -> Event {
        Event::Write { offset: 8192 + sector * 512, bytes: vec![byte; 1024].into() }
    }

    fn sectors(image: &Image) -> [u8; 6] {
        sectors_from(image, 8192)
    }

    /// The first byte of each of six sectors.
    fn sectors_from(image: &Image, offset: u64) -> [u8; 6] {
        [0, 1, 2, 3, 4, 5].map(|sector| {
            let mut byte = [0];
            image.read(offset + sector * 512, &mut byte);
            byte[0]
        })
    }

    #[test]
    fn what_a_flush_covers_is_there_and_the_rest_may_be() {
        let events =
            [write(0, 1), write(2, 2), Event::Flush { covers: 1 }, write(4, 3), write(1, 4)];
        let mut replay = Replay::new(Image::zeroes(16_384), &events);
        let mut random = Random::new(1);
        replay.advance(2);
        assert_eq!(sectors(&replay.cut(Survival::Nothing, &mut random)), [0; 6]);
        replay.advance(events.len());
        assert_eq!(replay.pending(), 3);
        let mut cut = |survival| sectors(&replay.cut(survival, &mut random));
        assert_eq!(cut(Survival::Nothing), [1, 1, 0, 0, 0, 0]);
        assert_eq!(cut(Survival::Everything), [1, 4, 4, 2, 3, 3]);
        assert_eq!(cut(Survival::Newest), [1, 4, 4, 0, 0, 0]);
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..2000 {
            seen.insert(cut(Survival::Torn));
        }
        assert!(seen.contains(&[1, 1, 4, 2, 0, 3]), "each sector by itself");
        assert_eq!(seen.len(), 2 * 3 * 2 * 2 * 2);
        assert!(cut(Survival::AllButOne) != cut(Survival::Everything));
    }

    #[test]
    fn the_superblock_never_tears() {
        let events = [Event::Write { offset: 0, bytes: vec![1; 4096].into() }];
        let mut replay = Replay::new(Image::zeroes(4096), &events);
        replay.advance(1);
        let mut random = Random::new(1);
        let cuts: Vec<_> =
            (0..50).map(|_| sectors_from(&replay.cut(Survival::Torn, &mut random), 0)).collect();
        assert!(cuts.contains(&[0; 6]) && cuts.contains(&[1; 6]));
        assert!(cuts.iter().all(|cut| *cut == [cut[0]; 6]));
    }
}
