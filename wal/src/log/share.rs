//! One write for several: when a group is worth holding back for those who are about to bring more.
//!
//! Owns: the rule. Does not know: how long who holds its records back does so; that is its own.
//!
//! A device that is flushed takes small groups one after the other, so that two halves of what
//! waits take nearly twice as long as the whole. Long groups gain by two in flight: one is packed
//! while the other is written.

use std::sync::atomic::Ordering::Relaxed;

use crate::disk::Disk;
use crate::log::core::{Core, FLIGHTS_MAX};
use crate::log::presence::Where;

/// Whether who leads leaves what is due for later, because others are about to bring more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    /// It does not: it may not come again soon.
    None,
    /// It does: it comes again soon by itself.
    Some,
    /// It has, and nobody came.
    Over,
}

/// What a leader packs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pack {
    /// Nothing, but for those who call meanwhile.
    Nothing,
    /// As `Nothing`, unless there is enough for a long group.
    Long,
    /// What is due, and leaves it to the next who leads to write it.
    Seal,
    /// What is due.
    Due,
}

impl<D: Disk> Core<D> {
    /// So many bytes are worth a write of their own beside another, as measured
    /// (`doc/decisions/writers-that-watch.md`).
    fn is_long(&self, bytes: usize) -> bool {
        bytes >= self.limits.group_size / 8 * 3
    }

    pub(crate) fn has_long(&mut self) -> bool {
        let bytes = self.staged_bytes();
        self.is_long(bytes)
    }

    /// Bytes that wait in the rings.
    fn staged_bytes(&mut self) -> usize {
        let mut bytes = 0;
        for lane in &mut self.lanes {
            lane.any_staged(|chunk| {
                bytes += chunk.bytes.len();
                false
            });
        }
        bytes
    }

    /// What is staged is better written with what others are about to bring: they stage now, or
    /// they watch for what is in flight and the whole is not too long for one group then.
    ///
    /// Only what watching writers have staged is ever held back: they come again by themselves.
    pub(crate) fn more_comes_soon(&mut self) -> bool {
        let (mut now, mut later) = (false, false);
        for lane in &self.lanes {
            let at = if lane.gone { Where::Elsewhere } else { lane.shared.presence.get() };
            let waits = !lane.ring.is_empty();
            let in_flight = lane.shared.durable.get() < lane.shared.appended.load(Relaxed);
            match at {
                Where::Elsewhere | Where::Sleeps if waits => return false,
                Where::Elsewhere | Where::Sleeps => {}
                Where::Stages => now = true,
                Where::Watches if in_flight => later |= !waits,
                // It is about to see that all of its records are durable.
                Where::Watches => now |= !waits,
            }
        }
        if !now && !later {
            return false;
        }
        let staged = self.staged_bytes();
        let last = self.flights.len() + 1 == FLIGHTS_MAX;
        if last && now {
            // What is staged too late for this write waits for all of it.
            return staged < self.limits.group_size;
        }
        let written: usize = self.flights.iter().map(|flight| flight.header.records_len).sum();
        !self.is_long(staged) && (now || staged + written <= self.limits.group_size / 2)
    }

    /// Those who were waited for in vain are not waited for again.
    pub(crate) fn give_up(&self) {
        self.lanes.iter().for_each(|lane| lane.shared.presence.give_up());
    }

    /// Writers that stage and wait by turns.
    pub(crate) fn company(&self) -> usize {
        let comes = |at| at != Where::Elsewhere;
        self.lanes.iter().filter(|lane| !lane.gone && comes(lane.shared.presence.get())).count()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::log::options::tests::counted;
    use crate::log::{Log, Options, Producer, Staging, Wake};
    use crate::sim_disk::SimDisk;

    struct Nobody;

    impl Wake for Nobody {
        fn wake(&self) {}
    }

    fn open(count: usize) -> (SimDisk, Log<SimDisk>, Vec<Producer<SimDisk>>) {
        open_with(count, Options::new(counted()))
    }

    /// Groups so short that several long ones fit into the first segment.
    fn open_short(count: usize) -> (SimDisk, Log<SimDisk>, Vec<Producer<SimDisk>>) {
        let mut options = Options::new(counted());
        options.group_size = 512 * 1024;
        open_with(count, options)
    }

    fn open_with(
        count: usize,
        options: Options,
    ) -> (SimDisk, Log<SimDisk>, Vec<Producer<SimDisk>>) {
        let disk = SimDisk::new();
        let (log, _) = Log::open(disk.clone(), options, 0, &mut |_| Ok(())).unwrap();
        let lanes = (0..count).map(|_| log.producer(Arc::new(Nobody), None).unwrap()).collect();
        (disk, log, lanes)
    }

    fn stage(lane: &mut Producer<SimDisk>, bytes: usize) {
        let how = Staging { kind: 1, waits: true, ..Staging::default() };
        lane.stage(&how, |out| out.resize(out.len() + bytes, 7)).unwrap();
        lane.flush(0);
    }

    fn drive(lane: &mut Producer<SimDisk>, patience: Patience) -> u64 {
        lane.drive_with(0, patience);
        lane.appended().get()
    }

    #[test]
    fn who_watches_shares_a_group_with_who_stages() {
        let (disk, log, mut lanes) = open(2);
        disk.hold();
        let [first, second] = &mut lanes[..] else { unreachable!() };
        first.say(Where::Watches);
        second.say(Where::Stages);
        stage(first, 100);
        assert_eq!(drive(first, Patience::Some), 0, "the other one is about to bring more");
        stage(second, 100);
        second.say(Where::Watches);
        assert_eq!(drive(second, Patience::Some), 1);
        assert_eq!(log.appended().get(), 2);
        assert_eq!(disk.in_flight().len(), 1, "one write for both");
    }

    #[test]
    fn who_does_not_come_is_waited_for_once() {
        let (_, _, mut lanes) = open(2);
        let [first, second] = &mut lanes[..] else { unreachable!() };
        first.say(Where::Watches);
        second.say(Where::Stages);
        for count in 1..3 {
            stage(first, 100);
            let held = drive(first, Patience::Some) < count;
            assert_eq!(held, count == 1);
            assert_eq!(drive(first, Patience::Over), count);
        }
    }

    #[test]
    fn small_groups_wait_for_the_writers_in_flight_and_long_ones_do_not() {
        for (bytes, is_held) in [(100, true), (200_000, true), (500_000, false)] {
            let (disk, log, mut lanes) = open(2);
            let [first, second] = &mut lanes[..] else { unreachable!() };
            disk.hold();
            second.say(Where::Watches);
            stage(second, 200_000);
            drive(second, Patience::None);
            first.say(Where::Watches);
            stage(first, bytes);
            assert_eq!(drive(first, Patience::Some) == 0, is_held, "{bytes} bytes");
            disk.release_all();
            // Both are expected: the other one has not yet said that it has seen its records.
            assert_eq!(drive(first, Patience::Some) == 0, is_held, "{bytes} bytes");
            assert_eq!(log.durable().get(), if is_held { 1 } else { 2 });
        }
    }

    #[test]
    fn the_last_write_takes_all_that_is_being_staged() {
        let (disk, log, mut lanes) = open_short(3);
        let [first, second, third] = &mut lanes[..] else { unreachable!() };
        disk.hold();
        first.say(Where::Watches);
        second.say(Where::Watches);
        third.say(Where::Stages);
        stage(first, 200_000);
        assert_eq!(drive(first, Patience::Some), 1, "the other write is still to be had");
        stage(second, 200_000);
        assert_eq!(drive(second, Patience::Some), 0, "what is staged now would wait for it");
        third.say(Where::Watches);
        stage(third, 200_000);
        drive(third, Patience::Some);
        assert_eq!(log.appended().get(), 3);
        assert_eq!(disk.in_flight().len(), 2);
    }

    #[test]
    fn the_last_write_waits_for_no_more_than_a_group() {
        let (disk, log, mut lanes) = open_short(3);
        let [first, second, third] = &mut lanes[..] else { unreachable!() };
        disk.hold();
        first.say(Where::Watches);
        second.say(Where::Watches);
        third.say(Where::Stages);
        stage(first, 300_000);
        assert_eq!(drive(first, Patience::Some), 1);
        stage(second, 300_000);
        assert_eq!(drive(second, Patience::Some), 0);
        stage(second, 300_000);
        drive(second, Patience::Some);
        assert_eq!(log.appended().get(), 2, "a whole group goes, whoever stages");
        assert_eq!(disk.in_flight().len(), 2);
    }

    #[test]
    fn nobody_who_has_something_else_to_do_is_held_up() {
        for at in [Where::Elsewhere, Where::Sleeps] {
            let (_, log, mut lanes) = open(3);
            let [first, second, third] = &mut lanes[..] else { unreachable!() };
            first.say(Where::Watches);
            second.say(Where::Stages);
            third.say(at);
            stage(first, 100);
            stage(third, 100);
            drive(first, Patience::Some);
            assert_eq!(log.appended().get(), 2, "{at:?}");
        }
        // Nor does a lane hold back anything itself.
        let (_, _, mut lanes) = open(2);
        lanes[1].say(Where::Stages);
        stage(&mut lanes[0], 100);
        assert_eq!(drive(&mut lanes[0], Patience::None), 1);
    }

    #[test]
    fn a_long_group_begins_in_the_middle_of_a_turn() {
        let (_, log, mut lanes) = open(1);
        stage(&mut lanes[0], 300_000);
        lanes[0].pack_long();
        assert_eq!(log.appended().get(), 0);
        stage(&mut lanes[0], 300_000);
        lanes[0].pack_long();
        assert_eq!(log.appended().get(), 2);
    }

    #[test]
    fn writers_that_have_gone_are_no_company() {
        let (_, log, mut lanes) = open(3);
        lanes[0].say(Where::Sleeps);
        lanes[1].say(Where::Watches);
        lanes[0].drive(0);
        assert_eq!(log.company(), 2);
        drop(lanes.remove(1));
        lanes[0].drive(0);
        assert_eq!(log.company(), 1);
    }
}
