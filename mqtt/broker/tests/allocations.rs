//! Memory on the message path: once buffers have grown, a message allocates nothing, on one lane
//! and from one to another, with and without the log.
//!
//! Assumes: lanes are stepped in the thread of the test, where allocations are counted; what the
//! clients and their wires need is left out.

#![expect(clippy::unwrap_used, reason = "a test")]

mod stepping;

use std::sync::Arc;
use std::time::Duration;

use allocation_counter::measure;
use zzq_broker::hooks::{Answer, Authoriser, Client, Permit, Publishing, Receiving, Subscribing};
use zzq_broker::stepped::SteppedOptions;
use zzq_broker::{BrokerOptions, Hooks, LogPolicy};
use zzq_codec::{Ack, Connect, Delivery, Encoder, Packet, Publish, Subscribe, SubscriptionsBuf};
use zzq_lanes::driver::Rest;
use zzq_lanes::driver::mem::MemPeer;
use zzq_types::{PacketId, Properties, ProtocolVersion, QoS, SubscribeOptions, TopicName};
use zzq_wal::Options as LogOptions;

use self::stepping::{Broker, IDLE};

/// Messages of a round: no more than a queue that is empty keeps room for.
const COUNT: u16 = 30;
/// Rounds until buffers have grown: identifiers come around, tables have been as full as they get.
const WARM_UP: u16 = 300;
const ROUNDS: u16 = 30;
const LANES: usize = 2;

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

    fn receive(&self, _: &Arc<Client>, message: &Receiving<'_>) -> Answer<bool> {
        message.topic.starts_with(char::is_alphabetic).into()
    }
}

/// What is tried.
#[derive(Clone, Copy, Debug)]
struct Setting {
    qos: QoS,
    /// What goes in one piece: all messages of a round, or each by itself.
    together: bool,
    /// The receiver is on another lane than the publisher.
    across: bool,
    log: Logged,
}

/// What of the messages is in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Logged {
    /// Nothing: the receiver's session ends with its connection, and the log holds what is needed.
    Nothing,
    /// The message above QoS 0, whoever receives it.
    Message,
    /// The message, its place in the queue of a session that stays, and what was received of it.
    Queue,
}

/// A broker, and a pair of clients.
struct Pair {
    broker: Broker,
    publisher: MemPeer,
    receiver: MemPeer,
    setting: Setting,
    delivered: u64,
}

impl Pair {
    fn new(setting: Setting, hooks: Hooks) -> Self {
        let qos = setting.qos;
        let policy = match setting.log {
            Logged::Message => LogPolicy::All,
            Logged::Nothing | Logged::Queue => LogPolicy::Needed,
        };
        let options =
            BrokerOptions { sys_interval: Duration::ZERO, log: policy, ..BrokerOptions::default() };
        let log = LogOptions::from_os().unwrap();
        let options = SteppedOptions {
            broker: options,
            hooks,
            random: 7,
            lanes: 2,
            ..SteppedOptions::new(log)
        };
        let mut broker = stepping::start(options);
        let home = usize::from(setting.across);
        let (p, r) = (client_of(&broker, 0, "p"), client_of(&broker, home, "r"));
        let (publisher, receiver) = (broker.connect(0), broker.connect(home));
        publisher.send(&encoded(&[Packet::Connect(Connect::new(ProtocolVersion::V311, &p))]));
        let mut list = SubscriptionsBuf::new();
        list.push("a/topic", SubscribeOptions::with_qos(qos)).unwrap();
        let subscribe = Packet::Subscribe(Subscribe {
            packet_id: PacketId::new(1).unwrap(),
            properties: Properties::EMPTY,
            subscriptions: list.subscriptions(),
        });
        let clean_start = setting.log != Logged::Queue;
        let connect = Connect { clean_start, ..Connect::new(ProtocolVersion::V311, &r) };
        receiver.send(&encoded(&[Packet::Connect(connect), subscribe]));
        let mut pair = Self { broker, publisher, receiver, setting, delivered: 0 };
        pair.settle();
        assert_eq!(pair.publisher.receive(), [0x20, 2, 0, 0]);
        let granted = [0x20, 2, 0, 0, 0x90, 3, 0, 1, qos.bits()];
        assert_eq!(pair.receiver.receive(), granted);
        pair
    }

    /// Turns until there is nothing to do; says how often that allocated. What a new segment of the
    /// log takes is not counted.
    fn settle(&mut self) -> u64 {
        let broker = &mut self.broker;
        let (mut allocated, mut idle) = (0, 0);
        while idle < IDLE {
            let mut worked = false;
            let counted = measure(|| {
                for lane in 0..LANES {
                    worked |= broker.rest(lane) == Rest::Now;
                    broker.turn(lane);
                }
            });
            // A turn that leaves work to the helper has come to the end of a segment.
            let has_rolled = broker.helper_step();
            allocated += if has_rolled { 0 } else { counted.count_total };
            worked |= has_rolled;
            idle = if worked { 0 } else { idle + 1 };
        }
        allocated
    }

    /// Messages and all that answers them; says how often the broker allocated.
    fn round(&mut self) -> u64 {
        let mut allocated = 0;
        let packets: Vec<_> = (1..=COUNT).map(|id| publish(self.setting.qos, id)).collect();
        allocated += self.send(Side::Publisher, &packets);
        let sent = self.receiver.discard();
        assert!(sent > usize::from(COUNT) * 64, "{:?}: {sent} bytes came", self.setting);
        let numbers = self.delivered + 1..=self.delivered + u64::from(COUNT);
        self.delivered += u64::from(COUNT);
        if self.setting.qos == QoS::AtLeastOnce {
            assert_eq!(self.publisher.discard(), 4 * usize::from(COUNT));
            let ids = numbers.map(PacketId::of_queue_number);
            let acks: Vec<_> = ids.map(|id| Packet::PubAck(Ack::success(id))).collect();
            allocated += self.send(Side::Receiver, &acks);
        }
        allocated
    }

    fn send(&mut self, side: Side, packets: &[Packet<'_>]) -> u64 {
        let at_once = if self.setting.together { packets.len() } else { 1 };
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

/// A client identifier that begins so, whose session this lane has.
fn client_of(broker: &Broker, lane: usize, name: &str) -> String {
    let (state, mut names) = (broker.state(lane), (0..).map(|n| format!("{name}{n}")));
    names.find(|name| state.owns_session(name)).unwrap()
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
    check(&Hooks::default(), Logged::Nothing);
}

#[test]
fn neither_does_one_that_is_logged() {
    check(&Hooks::default(), Logged::Message);
}

#[test]
fn neither_does_one_for_a_session_that_stays() {
    check(&Hooks::default(), Logged::Queue);
}

#[test]
fn neither_does_one_that_is_allowed_at_once() {
    let hooks = Hooks { authoriser: Some(Arc::new(Rules)), ..Hooks::default() };
    check(&hooks, Logged::Nothing);
}

fn check(hooks: &Hooks, log: Logged) {
    for qos in [QoS::AtMostOnce, QoS::AtLeastOnce] {
        for together in [true, false] {
            for across in [false, true] {
                allocates_nothing(Setting { qos, together, across, log }, hooks);
            }
        }
    }
}

fn allocates_nothing(setting: Setting, hooks: &Hooks) {
    // In one piece takes the most room and the least time; what a log keeps grows with its groups.
    let together = setting.together || setting.log == Logged::Nothing;
    let mut pair = Pair::new(Setting { together, ..setting }, hooks.clone());
    for _ in 0..WARM_UP {
        pair.round();
    }
    pair.setting = setting;
    pair.round();
    let rounds: Vec<u64> = (0..ROUNDS).map(|_| pair.round()).collect();
    let allocated: u64 = rounds.iter().sum();
    // The list of the groups in a segment doubles until the segment is full.
    let doublings = u64::from(setting.log != Logged::Nothing);
    assert!(allocated <= doublings, "{setting:?}: {rounds:?}");
}
