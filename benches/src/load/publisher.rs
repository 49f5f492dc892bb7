//! A publisher: what it may send now, and what its answers mean.

use std::collections::VecDeque;

use zzq_codec::{AckKind, EncodeError, Encoder, Packet, PublishHead, encode_ack};
use zzq_types::{PacketId, Properties, TopicName};

use super::figures::Recorder;
use super::link::{FULL, Link};
use super::plan::{Plan, TOPIC_DIGITS};
use super::stamp::{STAMP_LEN, Stamp};

/// Messages made between two looks at the clock.
const BURST: u32 = 64;

/// One publisher.
#[derive(Debug)]
pub(super) struct Publisher {
    number: u32,
    /// A PUBLISH with its payload, in which identifier and mark are set.
    template: Vec<u8>,
    packet_id_at: Option<usize>,
    /// How many topics, and where the number of one ends.
    topics: (u64, usize),
    stamp_at: usize,
    window: usize,
    /// The most it will send.
    limit: u64,
    pub(super) sent: u64,
    /// Handshakes that are complete.
    pub(super) acknowledged: u64,
    /// Unacknowledged: sequence number and time, oldest first.
    open: VecDeque<(u64, u64)>,
}

impl Publisher {
    pub(super) fn new(plan: &Plan, number: u32) -> Result<Self, EncodeError> {
        let name = plan.topic(number);
        let topic = TopicName::new(&name).map_err(|_| EncodeError::NoTopic)?;
        let mut template = Vec::new();
        let head = PublishHead {
            dup: false,
            qos: plan.qos,
            retain: false,
            topic: Some(topic),
            properties: &[Properties::EMPTY],
        };
        let encoder = Encoder::new(plan.version);
        let place = encoder.publish_header(&head, plan.payload, &mut template)?;
        template.resize(place.total_len, b'.');
        // The topic follows its length, and is the first that is variable about a PUBLISH.
        let header = &template[..place.header_len];
        let topic_at = header.windows(name.len()).position(|part| part == name.as_bytes());
        let topics_end = topic_at.ok_or(EncodeError::NoTopic)? + name.len();
        Ok(Self {
            number,
            template,
            packet_id_at: place.packet_id_at,
            topics: (u64::from(plan.topics), topics_end),
            stamp_at: place.header_len,
            window: usize::from(plan.window),
            limit: plan.count.unwrap_or(u64::MAX),
            sent: 0,
            acknowledged: 0,
            open: VecDeque::new(),
        })
    }

    /// Nothing more will be sent.
    pub(super) fn stop(&mut self) {
        self.limit = self.sent;
    }

    /// All was sent and answered.
    pub(super) fn is_done(&self) -> bool {
        self.sent == self.limit && self.open.is_empty()
    }

    /// When the next message is due; `None` if there is none, or if it need not be waited for.
    pub(super) fn next_due(&self, plan: &Plan) -> Option<u64> {
        if self.sent == self.limit { None } else { plan.due(self.number, self.sent + 1) }
    }

    /// Makes what may be sent now.
    pub(super) fn fill(&mut self, plan: &Plan, mut now: impl FnMut() -> u64, link: &mut Link) {
        while self.may_send(link) {
            let time = now();
            for _ in 0..BURST {
                if !self.may_send(link) {
                    return;
                }
                let due = plan.due(self.number, self.sent + 1);
                if due.is_some_and(|due| due > time) {
                    return;
                }
                self.make(due.unwrap_or(time), &mut link.out);
            }
        }
    }

    fn may_send(&self, link: &Link) -> bool {
        let open = self.packet_id_at.is_none() || self.open.len() < self.window;
        self.sent < self.limit && open && link.waiting() < FULL
    }

    #[inline]
    fn make(&mut self, time: u64, out: &mut Vec<u8>) {
        self.sent += 1;
        let start = out.len();
        out.extend_from_slice(&self.template);
        let packet = &mut out[start..];
        let (topics, end) = self.topics;
        if topics > 1 {
            number_topic((self.sent - 1) % topics, &mut packet[end - TOPIC_DIGITS..end]);
        }
        if let Some(at) = self.packet_id_at {
            let id = PacketId::of_queue_number(self.sent).get();
            packet[at..at + 2].copy_from_slice(&id.to_be_bytes());
            self.open.push_back((self.sent, time));
        }
        if let Some(mark) = packet.get_mut(self.stamp_at..self.stamp_at + STAMP_LEN) {
            Stamp { publisher: self.number, sequence: self.sent, time }.write(mark);
        }
    }

    /// An answer came: notes the time from publish to the end of the handshake.
    pub(super) fn answered(
        &mut self,
        packet: &Packet<'_>,
        last: Option<AckKind>,
        now: u64,
        acks: &mut Recorder,
        out: &mut Vec<u8>,
    ) -> bool {
        let (kind, ack) = match packet {
            Packet::PubAck(ack) => (AckKind::PubAck, ack),
            Packet::PubRec(ack) => (AckKind::PubRec, ack),
            Packet::PubComp(ack) => (AckKind::PubComp, ack),
            _ => return false,
        };
        if ack.reason.is_failure() {
            return false;
        }
        if Some(kind) == last {
            return self.closed(ack.packet_id, now, acks);
        }
        encode_ack(AckKind::PubRel, ack.packet_id, out);
        true
    }

    fn closed(&mut self, id: PacketId, now: u64, acks: &mut Recorder) -> bool {
        // Answers come in order, as a rule: the first is the one.
        let names = |open: &(u64, u64)| PacketId::of_queue_number(open.0) == id;
        let Some(at) = self.open.iter().position(names) else { return false };
        let Some((_, sent)) = self.open.remove(at) else { return false };
        self.acknowledged += 1;
        acks.record(now.saturating_sub(sent));
        true
    }

    /// The number up to which all were acknowledged, or sent at QoS 0.
    pub(super) fn promised(&self) -> u64 {
        self.open.front().map_or(self.sent, |(oldest, _)| oldest - 1)
    }
}

fn number_topic(mut number: u64, digits: &mut [u8]) {
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::plan::tests::plan;
    use crate::load::{Load, Pattern};
    use std::net::{TcpListener, TcpStream};
    use zzq_codec::Ack;

    fn link() -> (Link, TcpListener) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (Link::new(stream).unwrap(), listener)
    }

    fn ack(publisher: &mut Publisher, id: u16, acks: &mut Recorder) -> bool {
        let packet = Packet::PubAck(Ack::success(PacketId::new(id).unwrap()));
        publisher.answered(&packet, Some(AckKind::PubAck), 500, acks, &mut Vec::new())
    }

    #[test]
    fn the_window_bounds_what_is_sent() {
        let plan = plan(Pattern::Pairs(1), Load::Closed);
        let (mut link, _listener) = link();
        let mut publisher = Publisher::new(&plan, 0).unwrap();
        let mut acks = Recorder::new();
        publisher.fill(&plan, || 100, &mut link);
        assert_eq!((publisher.sent, publisher.promised()), (10, 0));
        assert!(ack(&mut publisher, 2, &mut acks) && ack(&mut publisher, 1, &mut acks));
        assert!(!ack(&mut publisher, 2, &mut acks), "nothing of this name is open");
        assert_eq!((publisher.acknowledged, publisher.promised()), (2, 2));
        publisher.fill(&plan, || 100, &mut link);
        assert_eq!(publisher.sent, 12);
        assert_eq!(acks.latency().samples, 2);
        publisher.stop();
        for id in 3..=12 {
            assert!(!publisher.is_done());
            assert!(ack(&mut publisher, id, &mut acks));
        }
        assert!(publisher.is_done());
        assert_eq!(publisher.promised(), 12);
    }

    #[test]
    fn a_paced_message_is_sent_when_due_and_stamped_with_that_time() {
        let plan = Plan { window: 3, ..plan(Pattern::Pairs(1), Load::Paced(1000.0)) };
        let (mut link, _listener) = link();
        let mut publisher = Publisher::new(&plan, 0).unwrap();
        publisher.fill(&plan, || 0, &mut link);
        assert_eq!((publisher.sent, publisher.next_due(&plan)), (1, Some(1_000_000)));
        // The window holds back two that were due: they keep their time.
        publisher.fill(&plan, || 4_500_000, &mut link);
        assert_eq!(publisher.sent, 3);
        let mut acks = Recorder::new();
        assert!(ack(&mut publisher, 1, &mut acks));
        link.out.clear();
        publisher.fill(&plan, || 9_000_000, &mut link);
        let payload = &link.out[link.out.len() - plan.payload..];
        let want = Stamp { publisher: 0, sequence: 4, time: 3_000_000 };
        assert_eq!(Stamp::read(payload), Some(want));
    }

    #[test]
    fn topics_take_turns() {
        let plan = Plan { topics: 3, ..plan(Pattern::Pairs(1), Load::Closed) };
        let (mut link, _listener) = link();
        let mut publisher = Publisher::new(&plan, 0).unwrap();
        publisher.fill(&plan, || 0, &mut link);
        let packet = publisher.template.len();
        let topics: Vec<_> = link.out.chunks(packet).take(4).map(|packet| &packet[4..19]).collect();
        let want = [0, 1, 2, 0].map(|n| format!("load/0/{n:08}"));
        assert_eq!(topics, want.each_ref().map(String::as_bytes));
    }

    #[test]
    fn a_refusal_is_no_acknowledgement() {
        let plan = plan(Pattern::Pairs(1), Load::Closed);
        let (mut link, _listener) = link();
        let mut publisher = Publisher::new(&plan, 0).unwrap();
        publisher.fill(&plan, || 0, &mut link);
        let ack =
            Ack::with_reason(PacketId::of_queue_number(1), zzq_types::ReasonCode::QuotaExceeded);
        let mut acks = Recorder::new();
        let packet = Packet::PubAck(ack);
        let last = plan.last_ack();
        assert!(!publisher.answered(&packet, last, 0, &mut acks, &mut Vec::new()));
        assert_eq!(publisher.acknowledged, 0);
    }
}
