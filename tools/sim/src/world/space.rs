//! A disk that becomes full, as who runs the broker sees it; and what the broker does about it by a
//! thread of its own.
//!
//! Owns: when that thread looks. Does not know: what it does.

use zzq_wal::{Log, Space};

use super::World;
use crate::history::Event;
use crate::node::Broker;

impl World {
    /// Notes whether the disk is full. While space is low, an image is made for it now and then.
    pub(super) fn look_at_space(&mut self) {
        let broker = self.node.broker.as_ref();
        let log = broker.and_then(Broker::log);
        let space = log.map_or(Space::Ample, Log::space);
        let full = space >= Space::Short;
        if full != self.is_full && self.node.broker.is_some() {
            self.is_full = full;
            self.coverage.hit(if full { "disk is full" } else { "disk has space again" });
            self.note(Event::Space { full });
        }
        // History would go, and what is missing of it would be no loss.
        if space >= Space::Low
            && !self.imaging
            && self.now() >= self.room_at
            && !self.plan.retains()
        {
            self.room_at = self.now() + self.room.within(20, 1500);
            self.make_room();
        }
    }

    /// Notes that some of the log that is kept for readers has gone.
    pub(super) fn look_at_history(&mut self) {
        let log = self.node.broker.as_ref().and_then(Broker::log);
        let Some(log) = log.filter(|_| self.plan.retains()) else { return };
        let (first, before) = (log.first_whole(), self.first_kept);
        if first.get() <= before {
            return;
        }
        let kept = log.segments().into_iter().filter(|segment| segment.first >= first);
        let left = kept.map(|segment| segment.bytes).sum();
        self.first_kept = first.get();
        if before > 0 {
            let by_age = self.plan.options.retain_log.age.is_some();
            self.coverage.hit(if by_age { "history gone by age" } else { "history gone by size" });
            self.note(Event::LetGo { first: first.get(), left });
        }
    }

    /// As with any image, the power may go with any operation of it.
    fn make_room(&mut self) {
        if !self.calm && self.room.once_in(self.faults.in_image) {
            self.node.device.disk.cut_power(self.room.within(1, 25));
            self.power_counts = true;
        }
        self.image(true);
    }
}
