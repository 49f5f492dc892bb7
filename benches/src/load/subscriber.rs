//! A subscriber: takes what comes, answers as its QoS asks, counts.

use zzq_codec::{AckKind, Delivery, Packet, Publish, encode_ack};

use super::account::{Counts, Tracker};
use super::figures::Recorder;
use super::plan::Plan;
use super::stamp::{STAMP_LEN, Stamp};

/// One subscriber.
#[derive(Debug)]
pub(super) struct Subscriber {
    /// The first publisher it hears.
    first: u32,
    trackers: Vec<Tracker>,
    foreign: u64,
    /// Payloads are too short for a mark.
    bare: bool,
    /// Messages that came, repeated ones once.
    pub(super) delivered: u64,
}

impl Subscriber {
    pub(super) fn new(plan: &Plan, number: u32) -> Self {
        let (first, count) = plan.sources(number);
        let trackers = (0..count).map(|_| Tracker::default()).collect();
        let bare = plan.payload < STAMP_LEN;
        Self { first, trackers, foreign: 0, bare, delivered: 0 }
    }

    /// A message came at `now`.
    #[inline]
    pub(super) fn message(
        &mut self,
        publish: &Publish<'_>,
        now: u64,
        deliveries: &mut Recorder,
        out: &mut Vec<u8>,
    ) {
        match publish.delivery {
            Delivery::AtMostOnce => {}
            Delivery::AtLeastOnce(id) => encode_ack(AckKind::PubAck, id, out),
            Delivery::ExactlyOnce(id) => encode_ack(AckKind::PubRec, id, out),
        }
        if self.bare
            && let [one] = &mut self.trackers[..]
        {
            self.delivered += u64::from(one.arrived(self.delivered + 1));
            return;
        }
        let stamp = Stamp::read(publish.payload);
        let tracker = stamp.and_then(|stamp| {
            let index = usize::try_from(stamp.publisher.checked_sub(self.first)?).ok()?;
            Some((stamp, self.trackers.get_mut(index)?))
        });
        let Some((stamp, tracker)) = tracker else {
            self.foreign += 1;
            return;
        };
        self.delivered += u64::from(tracker.arrived(stamp.sequence));
        deliveries.record(now.saturating_sub(stamp.time));
    }

    /// Another packet came: false if it has no business here.
    pub(super) fn other(packet: &Packet<'_>, out: &mut Vec<u8>) -> bool {
        match packet {
            Packet::PubRel(ack) => {
                encode_ack(AckKind::PubComp, ack.packet_id, out);
                true
            }
            _ => false,
        }
    }

    /// Takes over what another member of its group had.
    pub(super) fn join(&mut self, other: &Self) {
        self.foreign += other.foreign;
        for (tracker, other) in self.trackers.iter_mut().zip(&other.trackers) {
            tracker.join(other);
        }
    }

    /// The counts, given up to which number each publisher was promised delivery.
    pub(super) fn counts(&self, promised: &[u64]) -> Counts {
        let mut counts = Counts { foreign: self.foreign, ..Counts::default() };
        counts.delivered += self.foreign;
        let first = usize::try_from(self.first).unwrap_or(usize::MAX);
        for (tracker, promised) in self.trackers.iter().zip(promised.iter().skip(first)) {
            counts += tracker.counts(*promised);
        }
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::plan::tests::plan;
    use crate::load::{Load, Pattern};
    use zzq_types::{PacketId, TopicName};

    fn deliver(subscriber: &mut Subscriber, publisher: u32, sequence: u64) -> Vec<u8> {
        let mut payload = [0; STAMP_LEN];
        Stamp { publisher, sequence, time: 10 }.write(&mut payload);
        let topic = TopicName::new("load/0").unwrap();
        let delivery = Delivery::ExactlyOnce(PacketId::new(0x0102).unwrap());
        let publish = Publish::new(topic, delivery, &payload);
        let mut out = Vec::new();
        subscriber.message(&publish, 50, &mut Recorder::new(), &mut out);
        out
    }

    #[test]
    fn messages_are_answered_and_counted_by_publisher() {
        let mut subscriber = Subscriber::new(&plan(Pattern::FanIn(2), Load::Closed), 0);
        assert_eq!(deliver(&mut subscriber, 0, 1), [0x50, 2, 1, 2]);
        deliver(&mut subscriber, 1, 1);
        deliver(&mut subscriber, 1, 3);
        deliver(&mut subscriber, 2, 1);
        let counts = subscriber.counts(&[2, 3]);
        let want = Counts { delivered: 4, lost: 2, foreign: 1, ..Counts::default() };
        assert_eq!(counts, want);
    }

    #[test]
    fn messages_without_a_mark_are_counted_as_they_come() {
        let plan = Plan { payload: 0, ..plan(Pattern::Pairs(1), Load::Closed) };
        let mut subscriber = Subscriber::new(&plan, 0);
        let topic = TopicName::new("load/0").unwrap();
        let (mut latencies, mut out) = (Recorder::new(), Vec::new());
        for _ in 0..3 {
            let publish = Publish::new(topic, Delivery::AtMostOnce, b"");
            subscriber.message(&publish, 50, &mut latencies, &mut out);
        }
        let counts = subscriber.counts(&[4]);
        assert_eq!(counts, Counts { delivered: 3, lost: 1, ..Counts::default() });
        assert_eq!(latencies.latency().samples, 0, "nobody knows when they were sent");
    }

    #[test]
    fn a_pair_hears_its_own_publisher_only() {
        let mut subscriber = Subscriber::new(&plan(Pattern::Pairs(3), Load::Closed), 1);
        deliver(&mut subscriber, 1, 1);
        deliver(&mut subscriber, 0, 1);
        let counts = subscriber.counts(&[9, 1, 9]);
        assert_eq!(counts, Counts { delivered: 2, foreign: 1, ..Counts::default() });
    }
}
