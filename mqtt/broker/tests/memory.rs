//! Memory of connections: what many of them hold that do nothing, and what is held for those who do
//! not read.
//!
//! Assumes: one lane is stepped in the thread of the test, where what is allocated is counted. The
//! wires lie in the same memory: little, and it is counted as well.

#![expect(clippy::unwrap_used, reason = "a test")]

mod stepping;

use std::time::Duration;

use allocation_counter::{AllocationInfo, measure};
use zzq_broker::stepped::SteppedOptions;
use zzq_broker::{BrokerOptions, LogPolicy, Qos0Full};
use zzq_codec::{
    Connect, Delivery, Disconnect, Encoder, Packet, Publish, Subscribe, SubscriptionsBuf,
};
use zzq_lanes::driver::Rest;
use zzq_lanes::driver::mem::MemPeer;
use zzq_types::{
    PacketId, Properties, PropertiesBuf, Property, ProtocolVersion, QoS, ReasonCode,
    SubscribeOptions, TopicName,
};
use zzq_wal::Options as LogOptions;

use self::stepping::{Broker, IDLE};

struct Tested(Broker);

impl Tested {
    fn new(change: impl FnOnce(&mut BrokerOptions)) -> Self {
        let mut broker = BrokerOptions {
            sys_interval: Duration::ZERO,
            log: LogPolicy::Needed,
            ..BrokerOptions::default()
        };
        change(&mut broker);
        let log = LogOptions::from_os().unwrap();
        let options = SteppedOptions { broker, random: 7, lanes: 1, ..SteppedOptions::new(log) };
        Self(stepping::start(options))
    }

    /// Turns until there is nothing to do; says what that allocated.
    fn settle(&mut self) -> AllocationInfo {
        let broker = &mut self.0;
        measure(|| {
            let mut idle = 0;
            while idle < IDLE {
                let mut worked = broker.rest(0) == Rest::Now;
                broker.turn(0);
                worked |= broker.helper_step();
                idle = if worked { 0 } else { idle + 1 };
            }
        })
    }

    /// A client that has subscribed at QoS 0.
    fn subscriber(&mut self, client: &str, filter: &str, clean_start: bool) -> MemPeer {
        let connect = Connect { clean_start, ..Connect::new(ProtocolVersion::V311, client) };
        self.subscriber_by(connect, filter)
    }

    fn subscriber_by(&mut self, connect: Connect<'_>, filter: &str) -> MemPeer {
        let peer = self.0.connect(0);
        let version = connect.version;
        let mut list = SubscriptionsBuf::new();
        list.push(filter, SubscribeOptions::with_qos(QoS::AtMostOnce)).unwrap();
        let subscribe = Packet::Subscribe(Subscribe {
            packet_id: PacketId::new(1).unwrap(),
            properties: Properties::EMPTY,
            subscriptions: list.subscriptions(),
        });
        peer.send(&encoded_as(version, &[Packet::Connect(connect), subscribe]));
        peer
    }
}

fn encoded(packets: &[Packet<'_>]) -> Vec<u8> {
    encoded_as(ProtocolVersion::V311, packets)
}

fn encoded_as(version: ProtocolVersion, packets: &[Packet<'_>]) -> Vec<u8> {
    let encoder = Encoder::new(version);
    let mut bytes = Vec::new();
    for packet in packets {
        encoder.encode(packet, &mut bytes).unwrap();
    }
    bytes
}

fn publishes(count: usize, payload: usize) -> Vec<u8> {
    let payload = vec![b'x'; payload];
    let topic = TopicName::new("a/topic").unwrap();
    let one = Packet::Publish(Publish::new(topic, Delivery::AtMostOnce, &payload));
    encoded(&vec![one; count])
}

/// A buffer that grows by doubling holds twice what was counted, and one publisher could have the
/// memory of so many receivers filled before anybody looked.
fn held_for_those_who_do_not_read(payload: usize) {
    const RECEIVERS: usize = 2000;
    const TOTAL: usize = 8 << 20;
    /// As the options say of each where all together have too much.
    const EACH: usize = 32 << 10;
    /// What the publisher has sent beyond that, and the tables of the lane.
    const BESIDE: usize = 1 << 20;
    let mut tested = Tested::new(|options| options.limits.max_output_bytes_total = TOTAL);
    let peers: Vec<MemPeer> =
        (0..RECEIVERS).map(|n| tested.subscriber(&format!("r{n}"), "a/topic", true)).collect();
    tested.settle();
    for peer in &peers {
        assert_eq!(peer.receive().len(), 4 + 5);
        peer.set_window(0);
    }
    let publisher = tested.0.connect(0);
    publisher.send(&encoded(&[Packet::Connect(Connect::new(ProtocolVersion::V311, "p"))]));
    tested.settle();
    let mut held = 0;
    let chunk = publishes((64 << 10) / payload, payload);
    for _ in 0..10 {
        publisher.send(&chunk);
        let counted = tested.settle();
        held += counted.bytes_current;
        let peak = usize::try_from(held.max(0)).unwrap();
        assert!(
            peak <= TOTAL + EACH * RECEIVERS + BESIDE,
            "{} KiB are held for {RECEIVERS} receivers with payloads of {payload} bytes",
            peak >> 10
        );
    }
    // Payloads of 4 KiB and more are shared, so little is held of them.
    assert!(held > 1 << 20, "nothing waits: {held}");
}

/// What one publisher sends at once may be more than all outputs together hold: the rest waits for
/// those who read, and is not dropped as for those who do not.
#[test]
fn more_than_all_outputs_hold_reaches_those_who_read() {
    const RECEIVERS: usize = 1000;
    for qos0_full in [Qos0Full::Slow, Qos0Full::Drop] {
        let mut tested = Tested::new(|options| {
            options.limits.max_output_bytes_total = 8 << 20;
            options.qos0_full = qos0_full;
        });
        let peers: Vec<MemPeer> =
            (0..RECEIVERS).map(|n| tested.subscriber(&format!("r{n}"), "a/topic", true)).collect();
        let publisher = tested.0.connect(0);
        publisher.send(&encoded(&[Packet::Connect(Connect::new(ProtocolVersion::V311, "p"))]));
        tested.settle();
        for peer in &peers {
            assert_eq!(peer.receive().len(), 4 + 5);
        }
        let all = publishes(1024, 64);
        publisher.send(&all);
        tested.settle();
        let received = peers.iter().map(|peer| peer.receive().len());
        assert!(
            received.clone().all(|len| len == all.len()),
            "{qos0_full:?}: {:?}",
            received.min()
        );
    }
}

/// A message that its receiver does not take is not room that its output lacks.
#[test]
fn what_is_too_large_for_its_receiver_takes_no_room() {
    let mut tested = Tested::new(|options| options.qos0_full = Qos0Full::Drop);
    let mut properties = PropertiesBuf::new();
    properties.push(Property::MaximumPacketSize(100)).unwrap();
    let properties = properties.as_properties();
    let connect = Connect { properties, ..Connect::new(ProtocolVersion::V5, "small") };
    let small = tested.subscriber_by(connect, "a/topic");
    let publisher = tested.0.connect(0);
    publisher.send(&encoded(&[Packet::Connect(Connect::new(ProtocolVersion::V311, "p"))]));
    tested.settle();
    small.receive();
    let mut all = publishes(1, 1_200_000);
    all.extend(publishes(1, 1));
    publisher.send(&all);
    tested.settle();
    assert_eq!(small.receive().len(), publishes(1, 1).len() + 1, "with its properties");
}

#[test]
fn small_messages_for_those_who_do_not_read_take_what_the_options_say() {
    held_for_those_who_do_not_read(64);
}

#[test]
fn messages_of_half_a_page_for_those_who_do_not_read_take_what_the_options_say() {
    held_for_those_who_do_not_read(2100);
}

#[test]
fn large_messages_for_those_who_do_not_read_take_what_the_options_say() {
    held_for_those_who_do_not_read(9000);
}

/// Clients with a subscription each, by a filter that so many bytes are added to, `stays` or gone
/// again: what they take in bytes, and what is counted of that as what their sessions take.
fn memory_of_each(clean_start: bool, stays: bool, longer: usize) -> (i64, i64) {
    /// Tables double: so many, and those before them, leave them as full as they usually are.
    const COUNT: u16 = 5000;
    let mut tested = Tested::new(|_| {});
    let mut connect = |name: &str| {
        let peers: Vec<MemPeer> = (0..COUNT)
            .map(|at| {
                let (client, filter) = (format!("{name}-{at}"), format!("{name}/{at}"));
                let filter = filter + &"f".repeat(longer);
                tested.subscriber(&client, &filter, clean_start)
            })
            .collect();
        let mut held = tested.settle().bytes_current;
        for peer in &peers {
            let answered = peer.receive();
            assert_eq!(answered.len(), 4 + 5);
            // Its wire held that.
            held -= i64::try_from(answered.capacity()).unwrap();
            if !stays {
                peer.send(&encoded(&[Packet::Disconnect(GOODBYE)]));
                peer.finish();
            }
        }
        held += tested.settle().bytes_current;
        assert!(peers.iter().all(|peer| peer.is_closed() != stays));
        (held, i64::try_from(tested.0.counts().session_memory).unwrap(), peers)
    };
    let (_, before, _warm) = connect("warm");
    let (held, counted, _idle) = connect("idle");
    (held / i64::from(COUNT), (counted - before) / i64::from(COUNT))
}

const GOODBYE: Disconnect<'_> = Disconnect::with_reason(ReasonCode::Success);

#[test]
fn an_idle_connection_with_a_subscription_takes_little() {
    let (bytes, _) = memory_of_each(true, true, 0);
    assert!(bytes <= 1000, "{bytes} bytes");
}

#[test]
fn a_session_without_a_connection_takes_little() {
    let (bytes, _) = memory_of_each(false, false, 0);
    assert!(bytes <= 600, "{bytes} bytes");
}

#[test]
fn what_sessions_take_is_what_is_counted() {
    for longer in [0, 100, 3000] {
        let (bytes, counted) = memory_of_each(false, false, longer);
        // What the filter took of its wire was given back meanwhile.
        let bytes = bytes + i64::try_from(longer).unwrap();
        assert!((bytes..=bytes * 2).contains(&counted), "{counted} for {bytes} bytes");
    }
}
