//! Memory on the message path: once buffers have grown, a message allocates nothing.
//!
//! Assumes: lanes are stepped in the thread of the test, where allocations are counted; what the
//! clients and their wires need is left out.

#![expect(clippy::unwrap_used, reason = "a test")]

use std::sync::Arc;
use std::time::Duration;

use allocation_counter::measure;
use zzq_broker::clock::{Clock, Reading};
use zzq_broker::hooks::{Answer, Authoriser, Client, Permit, Publishing, Receiving, Subscribing};
use zzq_broker::stepped::{Stepped, SteppedOptions};
use zzq_broker::{BrokerOptions, Hooks, LogPolicy};
use zzq_codec::{Ack, Connect, Delivery, Encoder, Packet, Publish, Subscribe, SubscriptionsBuf};
use zzq_lanes::driver::Rest;
use zzq_lanes::driver::mem::MemPeer;
use zzq_types::{PacketId, Properties, ProtocolVersion, QoS, SubscribeOptions, TopicName};
use zzq_wal::Options as LogOptions;
use zzq_wal::sim_disk::SimDisk;

/// Messages of a round.
const COUNT: u16 = 50;
/// Rounds until buffers have grown: identifiers come around, tables have been as full as they get.
const WARM_UP: u16 = 300;
const ROUNDS: u16 = 30;

#[derive(Clone, Copy)]
struct Still;

impl Clock for Still {
    fn read(&mut self) -> Reading {
        Reading { boot_ms: 0, wall_ms: 1_700_000_000_000 }
    }
}

/// Allows everything that begins with a letter, at once.
struct Rules;

impl Authoriser for Rules {
    fn publish(&self, _: &Arc<Client>, publish: &Publishing<'_>) -> Answer<Permit> {
        let good = publish.topic.starts_with(char::is_alphabetic);
        if good { Permit::Allow.into() } else { Permit::Deny.into() }
    }

    fn subscribe(&self, _: &Arc<Client>, _: &Subscribing<'_>) -> Answer<Permit> {
        Permit::Allow.into()
    }

    fn receive(&self, _: &Arc<Client>, message: &Receiving<'_>) -> bool {
        message.topic.starts_with(char::is_alphabetic)
    }
}

/// A broker whose log holds nothing of volatile sessions, and a pair of clients.
struct Pair {
    broker: Stepped<SimDisk, Still>,
    publisher: MemPeer,
    receiver: MemPeer,
    qos: QoS,
    /// What goes in one piece: all messages of a round, or each by itself.
    together: bool,
    delivered: u64,
}

impl Pair {
    fn new(qos: QoS, together: bool, hooks: Hooks) -> Self {
        let options = BrokerOptions {
            sys_interval: Duration::ZERO,
            log: LogPolicy::Needed,
            ..BrokerOptions::default()
        };
        let log = LogOptions::from_os().unwrap();
        let options =
            SteppedOptions { broker: options, hooks, random: 7, ..SteppedOptions::new(log) };
        let mut wait = |log: &zzq_wal::Log<SimDisk>| {
            log.helper_step(0);
            true
        };
        let started = Stepped::start(SimDisk::new(), options, Still, &mut wait);
        let mut broker = started.unwrap();
        let (publisher, receiver) = (broker.connect(0), broker.connect(0));
        publisher.send(&encoded(&[Packet::Connect(Connect::new(ProtocolVersion::V311, "p"))]));
        let mut list = SubscriptionsBuf::new();
        list.push("a/topic", SubscribeOptions::with_qos(qos)).unwrap();
        let subscribe = Packet::Subscribe(Subscribe {
            packet_id: PacketId::new(1).unwrap(),
            properties: Properties::EMPTY,
            subscriptions: list.subscriptions(),
        });
        let connect = Packet::Connect(Connect::new(ProtocolVersion::V311, "r"));
        receiver.send(&encoded(&[connect, subscribe]));
        let mut pair = Self { broker, publisher, receiver, qos, together, delivered: 0 };
        pair.settle();
        while pair.broker.helper_step() {
            pair.settle();
        }
        assert_eq!(pair.publisher.receive(), [0x20, 2, 0, 0]);
        let granted = [0x20, 2, 0, 0, 0x90, 3, 0, 1, qos.bits()];
        assert_eq!(pair.receiver.receive(), granted);
        pair
    }

    /// Turns until there is nothing to do; says how often that allocated.
    fn settle(&mut self) -> u64 {
        let broker = &mut self.broker;
        let counted = measure(|| {
            while broker.rest(0) == Rest::Now {
                broker.turn(0);
            }
        });
        counted.count_total
    }

    /// Messages and all that answers them; says how often the broker allocated.
    fn round(&mut self) -> u64 {
        let mut allocated = 0;
        let packets: Vec<_> = (1..=COUNT).map(|id| publish(self.qos, id)).collect();
        allocated += self.send(Side::Publisher, &packets);
        let sent = self.receiver.discard();
        assert!(sent > usize::from(COUNT) * 64, "{sent} bytes came");
        let numbers = self.delivered + 1..=self.delivered + u64::from(COUNT);
        self.delivered += u64::from(COUNT);
        if self.qos == QoS::AtLeastOnce {
            assert_eq!(self.publisher.discard(), 4 * usize::from(COUNT));
            let ids = numbers.map(PacketId::of_queue_number);
            let acks: Vec<_> = ids.map(|id| Packet::PubAck(Ack::success(id))).collect();
            allocated += self.send(Side::Receiver, &acks);
        }
        allocated
    }

    fn send(&mut self, side: Side, packets: &[Packet<'_>]) -> u64 {
        let at_once = if self.together { packets.len() } else { 1 };
        let mut allocated = 0;
        for packets in packets.chunks(at_once) {
            let peer = match side {
                Side::Publisher => &self.publisher,
                Side::Receiver => &self.receiver,
            };
            peer.send(&encoded(packets));
            allocated += self.settle();
        }
        allocated
    }
}

#[derive(Clone, Copy)]
enum Side {
    Publisher,
    Receiver,
}

fn publish(qos: QoS, id: u16) -> Packet<'static> {
    let id = PacketId::new(id).unwrap();
    let delivery = match qos {
        QoS::AtMostOnce => Delivery::AtMostOnce,
        QoS::AtLeastOnce => Delivery::AtLeastOnce(id),
        QoS::ExactlyOnce => Delivery::ExactlyOnce(id),
    };
    let topic = TopicName::new("a/topic").unwrap();
    Packet::Publish(Publish::new(topic, delivery, &[b'x'; 64]))
}

fn encoded(packets: &[Packet<'_>]) -> Vec<u8> {
    let encoder = Encoder::new(ProtocolVersion::V311);
    let mut bytes = Vec::new();
    for packet in packets {
        encoder.encode(packet, &mut bytes).unwrap();
    }
    bytes
}

#[test]
fn a_message_allocates_nothing_in_the_long_run() {
    check(&Hooks::default());
}

#[test]
fn neither_does_one_that_is_allowed_at_once() {
    check(&Hooks { authoriser: Some(Arc::new(Rules)), ..Hooks::default() });
}

fn check(hooks: &Hooks) {
    for qos in [QoS::AtMostOnce, QoS::AtLeastOnce] {
        for together in [true, false] {
            let mut pair = Pair::new(qos, together, hooks.clone());
            for _ in 0..WARM_UP {
                pair.round();
            }
            let rounds: Vec<u64> = (0..ROUNDS).map(|_| pair.round()).collect();
            let allocated: u64 = rounds.iter().sum();
            assert_eq!(allocated, 0, "{qos:?}, together: {together}: {rounds:?}");
        }
    }
}
