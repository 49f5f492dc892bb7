//! Retained messages without a log: a lane that owns a topic hears of them from each lane in that
//! lane's order, and from one before the other. What has the highest number is the last write.
//!
//! Owns: what has come of those that other lanes have sent; the numbers of last writes that have
//! left nothing in the store, as long as an older one may come. With a log, or with one lane, there
//! is nothing of this: records have come in order.

use rustc_hash::FxHashMap;
use zzq_engine::record::Publish as PublishRecord;
use zzq_lanes::LaneIndex;
use zzq_types::{Lsn, TopicName};
use zzq_wal::disk::Disk;

use super::Shell;
use super::live::Made;
use crate::planted::{self, Bug};
use crate::retained_order::Marks;

/// See the file.
#[derive(Debug)]
pub(super) struct Writes {
    come: Marks,
    /// By topic: what took its message away, or was it and has expired.
    traceless: Traceless,
    /// Those before: forgotten when so many have come, for then none is older.
    fading: Traceless,
    until: Marks,
}

type Traceless = FxHashMap<Box<str>, Lsn>;

impl Writes {
    /// For so many lanes.
    pub(super) fn new(lanes: u16) -> Self {
        Self {
            come: Marks::none(lanes),
            traceless: Traceless::default(),
            fading: Traceless::default(),
            until: Marks::default(),
        }
    }

    /// Whether so many have come.
    pub(super) fn have(&self, sent: &Marks) -> bool {
        self.come.have(sent)
    }

    /// Whether a later one of this topic left nothing.
    fn have_later(&self, topic: &str, lsn: Lsn) -> bool {
        let mut known = [&self.traceless, &self.fading].into_iter().filter_map(|of| of.get(topic));
        known.any(|later| *later > lsn)
    }

    /// The last write to a topic leaves nothing; so many were `sent` by now.
    fn leaves_nothing(&mut self, topic: &str, lsn: Lsn, sent: Marks) {
        if self.have(&sent) {
            return;
        }
        if self.fading.is_empty() {
            self.until = sent;
            self.fading.insert(topic.into(), lsn);
        } else {
            self.traceless.insert(topic.into(), lsn);
        }
    }

    /// Forgets those that nothing older can follow.
    fn fade(&mut self, sent: impl FnOnce() -> Marks) {
        if !self.fading.is_empty() && self.have(&self.until) {
            self.fading = std::mem::take(&mut self.traceless);
            self.until = sent();
        }
    }
}

impl<D: Disk> Shell<D> {
    /// Whether retained messages come in another order than they were written in.
    fn writes_cross(&self) -> bool {
        self.lanes > 1 && !self.journal.is_log()
    }

    /// The number of a message that this lane retains and no log has.
    pub(super) fn number_of_write(&self, topic: TopicName<'_>) -> Lsn {
        self.shared.retained_order.take(self.lane, self.home(topic.as_str()))
    }

    /// How much this lane has made by now, for the log, or else to be retained.
    pub(super) fn made_so_far(&self) -> Made {
        if self.journal.is_log() {
            return Made { by: self.lane, handed: self.journal.handed() };
        }
        Made::unlogged(self.lane, self.shared.retained_order.last())
    }

    /// Another lane's message, which no log has, has come here.
    pub(super) fn write_comes(&mut self, from: LaneIndex, topic: TopicName<'_>) {
        if self.home(topic.as_str()) == self.lane {
            self.writes.come.count(from);
        }
    }

    /// What is on its way to a lane by now. Empty where nothing crosses.
    pub(super) fn writes_under_way(&self, to: LaneIndex) -> Marks {
        if !self.writes_cross() {
            return Marks::default();
        }
        self.shared.retained_order.sent_to(to)
    }

    /// Whether a later write to its topic was here before.
    //= MQTT311-3.3.1-5
    //= MQTT5-3.3.1-5
    pub(super) fn is_overtaken(&self, lsn: Lsn, publish: &PublishRecord<'_>) -> bool {
        let held = || self.state.retained().get(publish.topic);
        self.writes_cross()
            && !planted::is(Bug::RetainedAsItComes)
            && (held().is_some_and(|held| held.lsn > lsn)
                || self.writes.have_later(publish.topic.as_str(), lsn))
    }

    /// The last write to a topic of this lane was applied and leaves nothing there.
    pub(super) fn leaves_nothing(&mut self, topic: TopicName<'_>, lsn: Lsn) {
        if self.writes_cross() && self.home(topic.as_str()) == self.lane {
            let sent = self.writes_under_way(self.lane);
            self.writes.leaves_nothing(topic.as_str(), lsn, sent);
        }
    }

    /// At the end of a turn: what has come in it may have been the last older one.
    pub(super) fn forget_traceless(&mut self) {
        let (order, lane) = (&self.shared.retained_order, self.lane);
        self.writes.fade(|| order.sent_to(lane));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::retained_order::RetainedOrder;

    const FROM: LaneIndex = LaneIndex(0);
    const HERE: LaneIndex = LaneIndex(1);

    #[test]
    fn what_left_nothing_is_known_as_long_as_an_older_one_may_come() {
        let order = RetainedOrder::new(2, Lsn::new(1));
        let mut writes = Writes::new(2);
        let before: Vec<Lsn> = (0..3).map(|_| order.take(FROM, HERE)).collect();
        let later = order.take(HERE, HERE);
        writes.leaves_nothing("t", later, order.sent_to(HERE));
        // While this is so another one does, and more is under way.
        let (late, last) = (order.take(FROM, HERE), order.take(HERE, HERE));
        writes.leaves_nothing("u", last, order.sent_to(HERE));
        for lsn in before {
            assert!(writes.have_later("t", lsn) && writes.have_later("u", lsn));
            writes.come.count(FROM);
            writes.fade(|| order.sent_to(HERE));
        }
        assert!(writes.have_later("u", late) && !writes.have_later("t", late));
        assert!(!writes.have_later("u", order.take(FROM, HERE)), "it is behind that");
        writes.come.count(FROM);
        writes.fade(|| order.sent_to(HERE));
        writes.come.count(FROM);
        writes.fade(|| order.sent_to(HERE));
        assert!(writes.traceless.is_empty() && writes.fading.is_empty());
    }

    #[test]
    fn nothing_is_kept_when_nothing_is_under_way() {
        let order = RetainedOrder::new(2, Lsn::new(1));
        let mut writes = Writes::new(2);
        let lsn = order.take(HERE, HERE);
        writes.leaves_nothing("t", lsn, order.sent_to(HERE));
        assert!(writes.traceless.is_empty() && writes.fading.is_empty());
    }
}
