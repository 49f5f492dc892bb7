//! A broker in one thread: lanes over memory, a log over [`SimDisk`], the helper and the reader
//! stepped by hand, time that stands still until it is told to go on; and clients that speak
//! packets and show what they got as lines.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use zzq_codec::{
    Ack, AckKind, Connect, Decoder, Delivery, Disconnect, Encoder, Limits as PacketLimits, Packet,
    Publish, Subscribe, SubscriptionsBuf, Unsubscribe, Will,
};
use zzq_lanes::driver::Rest;
use zzq_lanes::driver::mem::MemPeer;
use zzq_lanes::{LaneWaker, Limits as LaneLimits};
use zzq_types::{
    PacketId, Properties, PropertiesBuf, Property, PropertyId, ProtocolVersion, QoS, ReasonCode,
    SubscribeOptions, TopicName,
};
use zzq_wal::sim_disk::{Fault, SimDisk, Survival};
use zzq_wal::{Log, Options as LogOptions};

use super::folded::Folded;
use crate::clock::{Clock, Reading};
use crate::hooks::Hooks;
use crate::options::BrokerOptions;
use crate::shell::Shell;
use crate::stepped::{Stepped, SteppedOptions};

/// When wall clocks of these tests begin.
const WALL_MS: u64 = 1_700_000_000_000;

pub(super) const VERSIONS: [ProtocolVersion; 2] = [ProtocolVersion::V311, ProtocolVersion::V5];
pub(super) const FAIL: Fault = Fault::Fail(std::io::ErrorKind::Other);

/// Milliseconds since the test began, which go on over restarts, and by how much the wall clock was
/// set since then.
#[derive(Clone, Debug, Default)]
struct TestClock(Arc<AtomicU64>, Arc<AtomicI64>);

impl TestClock {
    fn now(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Clock for TestClock {
    fn read(&mut self) -> Reading {
        let wall_ms = (WALL_MS + self.now()).saturating_add_signed(self.1.load(Ordering::Relaxed));
        Reading { boot_ms: self.now(), wall_ms }
    }
}

/// What a broker is made with.
#[derive(Clone, Debug)]
pub(super) struct Setup {
    pub(super) version: ProtocolVersion,
    pub(super) lanes: u16,
    /// Groups of the log take at most so many bytes.
    pub(super) group_size: usize,
    /// There is no log.
    pub(super) in_memory: bool,
    pub(super) limits: LaneLimits,
    pub(super) options: BrokerOptions,
}

impl Setup {
    pub(super) fn new(version: ProtocolVersion) -> Self {
        let options = BrokerOptions { sys_interval: Duration::ZERO, ..BrokerOptions::default() };
        let (group_size, limits) = (32 * 1024, LaneLimits::default());
        Self { version, lanes: 1, group_size, in_memory: false, limits, options }
    }

    pub(super) fn start(self) -> World {
        World::start(self, SimDisk::new(), TestClock::default(), Folded::default())
    }
}

/// A broker and its disk.
pub(super) struct World {
    pub(super) disk: SimDisk,
    pub(super) setup: Setup,
    broker: Stepped<SimDisk, TestClock>,
    clock: TestClock,
    folded: Folded,
    /// Images that were compared with it, of this broker.
    compared: usize,
    accepting: usize,
}

impl World {
    fn start(setup: Setup, disk: SimDisk, clock: TestClock, folded: Folded) -> Self {
        let mut wait = |log: &Log<SimDisk>| {
            assert!(log.helper_step(0), "the start waits for nothing");
            true
        };
        let options = stepped_options(&setup, &disk);
        let broker = Stepped::start(disk.clone(), options, clock.clone(), &mut wait).unwrap();
        let wakers = broker.wakers();
        disk.on_completion(move |_| wakers.iter().for_each(LaneWaker::wake));
        let mut world = Self { disk, setup, broker, clock, folded, compared: 0, accepting: 0 };
        world.pass(0);
        world
    }

    /// From now on nothing gets a place in the log: two groups are on their way to the disk, with
    /// messages of this client's, and stay there.
    pub(super) fn fill_log(&mut self, filler: &mut Client) {
        self.disk.hold();
        for id in 1..=2 {
            filler.publish(Line::new("filler", "x", QoS::AtLeastOnce, id));
            self.settle();
        }
    }

    /// Turns until nobody has anything to do.
    pub(super) fn settle(&mut self) {
        settle(&mut self.broker);
    }

    /// One turn of the lane that a client's session is on.
    pub(super) fn turn_of(&mut self, client: &str) {
        let is_there = |lane: &usize| self.broker.state(*lane).session_of(client).is_some();
        let lane = (0..self.broker.lanes()).find(is_there);
        self.broker.turn(lane.expect("a session"));
    }

    /// Time goes on by so many ms, one by one, so that everything due is done in its time.
    pub(super) fn pass(&mut self, millis: u64) {
        self.settle();
        let end = self.clock.now() + millis;
        while self.clock.now() < end {
            let due = (0..self.broker.lanes()).filter_map(|lane| match self.broker.rest(lane) {
                Rest::Until(at) => Some(at.0),
                Rest::Now | Rest::Forever => None,
            });
            let next = due.min().unwrap_or(end).clamp(self.clock.now() + 1, end);
            self.clock.0.store(next, Ordering::Relaxed);
            self.settle();
        }
    }

    /// Somebody sets the wall clock.
    pub(super) fn set_wall(&mut self, by_ms: i64) {
        self.clock.1.fetch_add(by_ms, Ordering::Relaxed);
    }

    /// The power goes, chance deciding what of the disk is left; a broker starts over that.
    pub(super) fn crash(self, seed: u64) -> Self {
        self.crash_with(Survival::Seeded(seed))
    }

    pub(super) fn crash_with(self, survival: Survival) -> Self {
        Self::start_over(self.setup, self.clock, self.disk.crash_with(survival), self.folded)
    }

    /// Another broker, over what would be left of this one's disk if the power went now.
    pub(super) fn crashed(&self, survival: Survival) -> Self {
        self.over(self.disk.crash_with(survival))
    }

    fn over(&self, disk: SimDisk) -> Self {
        let clock = TestClock::default();
        clock.0.store(self.clock.now(), Ordering::Relaxed);
        Self::start_over(self.setup.clone(), clock, disk, self.folded.clone())
    }

    /// The same, over what the power leaves that goes once more, at this operation of the first
    /// start. `None`: a start has no such operation.
    pub(super) fn crashed_in_start(&self, operation: u64, survival: Survival) -> Option<Self> {
        let disk = self.disk.crash_with(Survival::Everything);
        let options = stepped_options(&self.setup, &disk);
        disk.cut_power(operation);
        let mut wait = |log: &Log<SimDisk>| log.helper_step(0);
        let started = Stepped::start(disk.clone(), options, self.clock.clone(), &mut wait);
        let is_off = disk.is_off();
        drop(started);
        is_off.then(|| self.over(disk.crash_with(survival)))
    }

    /// The process ends at once; a broker starts over what it left.
    pub(super) fn kill(self) -> Self {
        Self::start_over(self.setup, self.clock, self.disk.restart(), self.folded)
    }

    /// [`World::crash`] of one that is held by somebody.
    pub(super) fn crash_in_place(&mut self, seed: u64) {
        let (setup, clock) = (self.setup.clone(), self.clock.clone());
        let folded = std::mem::take(&mut self.folded);
        *self = Self::start_over(setup, clock, self.disk.crash(seed), folded);
    }

    /// Makes an image of what is committed.
    #[track_caller]
    pub(super) fn image(&mut self) {
        let before = self.compared;
        assert!(self.try_image().unwrap(), "nothing has happened since the last");
        assert_eq!(self.compared, before + 1, "the image is of another moment than the fold");
    }

    /// The same; `amid` is called whenever a piece of that work is done, and is given what
    /// [`World::settle`] does.
    #[track_caller]
    pub(super) fn image_amid(&mut self, amid: &mut dyn FnMut(&mut dyn FnMut())) {
        self.settle();
        self.follow();
        let made = self.broker.image_amid(&mut |broker| amid(&mut || settle(broker)));
        assert!(made.unwrap().is_some(), "nothing has happened since the last");
        let before = self.compared;
        self.compare();
        assert_eq!(self.compared, before + 1, "the image is of another moment than the fold");
    }

    /// Folds what an image to come will cover, for the log may be let go behind it.
    fn follow(&mut self) {
        if let Some(log) = self.broker.log() {
            self.folded.follow(log);
        }
    }

    /// What images hold is what the log says.
    #[track_caller]
    fn compare(&mut self) {
        if let Some(log) = self.broker.log()
            && !self.disk.is_off()
        {
            self.compared += usize::from(self.folded.compare(&self.disk, log));
        }
    }

    /// Images are made in steps of so many records.
    pub(super) fn step_images(&mut self, records: u64) {
        self.broker.make_images_in_steps_of(records);
    }

    /// The same, or why there is none.
    #[track_caller]
    pub(super) fn try_image(&mut self) -> Result<bool, String> {
        self.settle();
        self.follow();
        let made = self.broker.image_step()?;
        self.compare();
        Ok(made.is_some())
    }

    /// What the thread that makes images does for space, once. It may find none for an image.
    pub(super) fn room(&mut self) {
        self.settle();
        self.follow();
        if let Ok(Some(_)) = self.broker.room_step() {
            self.compare();
        }
        self.settle();
    }

    /// Its log.
    pub(super) fn log(&self) -> &Log<SimDisk> {
        self.broker.log().expect("a log")
    }

    /// The newest record of the log.
    pub(super) fn appended(&self) -> u64 {
        self.broker.log().map_or(0, |log| log.appended().get())
    }

    /// How many messages of a client's queue are in an image only.
    pub(super) fn untouched(&self, client: &str) -> usize {
        let states = (0..self.broker.lanes()).map(|lane| self.broker.state(lane));
        let sessions = states.filter_map(|state| state.session_of(client));
        sessions.filter_map(|session| session.queue().untouched()).map(|front| front.len).sum()
    }

    /// How many messages a client's queue holds.
    pub(super) fn queued(&self, client: &str) -> usize {
        let states = (0..self.broker.lanes()).map(|lane| self.broker.state(lane));
        let sessions = states.filter_map(|state| state.session_of(client));
        sessions.map(|session| session.queue().load().messages).sum()
    }

    /// Whether nothing waits for a client.
    pub(super) fn owes_nothing(&self, client: &str) -> bool {
        let states = (0..self.broker.lanes()).map(|lane| self.broker.state(lane));
        let sessions = states.filter_map(|state| state.session_of(client));
        sessions.map(|session| session.queue().is_empty()).eq([true])
    }

    fn start_over(setup: Setup, clock: TestClock, disk: SimDisk, folded: Folded) -> Self {
        clock.0.fetch_add(1, Ordering::Relaxed);
        let mut world = Self::start(setup, disk, clock, folded);
        world.settle();
        world
    }

    pub(super) fn is_read_only(&self) -> bool {
        self.broker.is_read_only()
    }

    /// The shell of a lane, to look into.
    pub(super) fn shell(&self, lane: usize) -> &Shell<SimDisk> {
        self.broker.shell(lane)
    }

    /// A connection on which nothing was sent; lanes accept in turn.
    pub(super) fn open(&mut self) -> Client {
        let lane = self.accepting % self.broker.lanes();
        self.accepting += 1;
        Client::new(self.broker.connect(lane), self.setup.version)
    }

    /// A connection that has sent its CONNECT.
    pub(super) fn call(&mut self, hello: &Hello<'_>) -> Client {
        let mut client = self.open();
        client.connect(hello);
        self.settle();
        client
    }

    /// A client with a session that outlives its connection.
    pub(super) fn member(&mut self, id: &str) -> Client {
        let mut client = self.call(&Hello::member(id));
        let got = client.got();
        assert!(got == ["CONNACK"] || got == ["CONNACK present"], "{got:?}");
        client
    }

    /// A client whose session ends with its connection.
    pub(super) fn guest(&mut self, id: &str) -> Client {
        let mut client = self.call(&Hello::guest(id));
        assert_eq!(client.got(), ["CONNACK"]);
        client
    }

    /// Subscribes and takes SUBACK.
    #[track_caller]
    pub(super) fn subscribe(&mut self, client: &mut Client, filter: &str, qos: QoS) {
        client.subscribe(9, filter, qos);
        self.settle();
        assert_eq!(client.got(), ["SUBACK 9"]);
    }

    /// Publishes and takes the answers to the end.
    #[track_caller]
    pub(super) fn publish(&mut self, client: &mut Client, line: Line<'_>) {
        client.publish(line);
        self.settle();
        match line.qos {
            QoS::AtMostOnce => {}
            QoS::AtLeastOnce => assert_eq!(client.got(), [format!("PUBACK {}", line.id)]),
            QoS::ExactlyOnce => {
                assert_eq!(client.got(), [format!("PUBREC {}", line.id)]);
                client.ack(AckKind::PubRel, line.id);
                self.settle();
                assert_eq!(client.got(), [format!("PUBCOMP {}", line.id)]);
            }
        }
    }
}

fn settle(broker: &mut Stepped<SimDisk, TestClock>) {
    let lanes = 0..broker.lanes();
    for _ in 0..10_000 {
        for lane in lanes.clone() {
            broker.turn(lane);
        }
        let mut busy = broker.helper_step();
        while broker.reader_step() {
            busy = true;
        }
        if !busy && lanes.clone().all(|lane| broker.rest(lane) != Rest::Now) {
            return;
        }
    }
    panic!("the lanes never come to rest");
}

fn stepped_options(setup: &Setup, disk: &SimDisk) -> SteppedOptions {
    SteppedOptions {
        log: (!setup.in_memory).then(|| small(disk, setup.group_size)),
        limits: setup.limits,
        lanes: setup.lanes,
        broker: setup.options.clone(),
        hooks: Hooks::default(),
        random: 7,
        leaves_from: 0,
    }
}

/// Log sizes at which segments roll soon, and salts that are the same in each run and differ from
/// start to start.
fn small(disk: &SimDisk, group_size: usize) -> LogOptions {
    use zzq_wal::disk::Disk;
    let files = disk.list().unwrap().len();
    let mut state = (files as u128) << 64 | 0x9E37_79B9_7F4A_7C15;
    let salts = move || {
        state = state.wrapping_mul(0xDA94_2042_E4DD_58B5_DA94_2042_E4DD_58B5).wrapping_add(1);
        (state ^ state >> 61).to_le_bytes()
    };
    LogOptions {
        segment_size: 8 * group_size as u64,
        group_size,
        chunk_size: group_size / 8,
        part_size: 8192,
        ..LogOptions::new(Box::new(salts))
    }
}

/// What a CONNECT says.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hello<'a> {
    pub(super) id: &'a str,
    /// The session outlives its connection, and one that is there is resumed.
    pub(super) stays: bool,
    /// Topic, QoS and RETAIN of a will that says `gone`.
    pub(super) will: Option<(&'a str, QoS, bool)>,
    /// Receive Maximum; MQTT 5 alone.
    pub(super) window: Option<u16>,
}

impl<'a> Hello<'a> {
    pub(super) fn member(id: &'a str) -> Self {
        Self { id, stays: true, will: None, window: None }
    }

    pub(super) fn guest(id: &'a str) -> Self {
        Self { stays: false, ..Self::member(id) }
    }
}

/// What a PUBLISH says.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line<'a> {
    pub(super) topic: &'a str,
    pub(super) text: &'a str,
    pub(super) qos: QoS,
    pub(super) id: u16,
    pub(super) dup: bool,
    pub(super) retain: bool,
    /// In seconds; 0: never. MQTT 5 alone.
    pub(super) expiry_s: u32,
}

impl<'a> Line<'a> {
    pub(super) fn new(topic: &'a str, text: &'a str, qos: QoS, id: u16) -> Self {
        Self { topic, text, qos, id, dup: false, retain: false, expiry_s: 0 }
    }

    pub(super) fn again(self) -> Self {
        Self { dup: true, ..self }
    }

    pub(super) fn retained(self) -> Self {
        Self { retain: true, ..self }
    }
}

/// A text of so many bytes, which begins with three digits.
pub(super) fn long(n: usize, bytes: usize) -> String {
    format!("{n:03}{}", ".".repeat(bytes - 3))
}

/// A client's end of a connection.
pub(super) struct Client {
    peer: MemPeer,
    version: ProtocolVersion,
    input: Vec<u8>,
    output: Vec<u8>,
    gathers: bool,
    closed: bool,
    /// What it has sent and seen so far.
    pub(super) traffic: Traffic,
}

/// Packets, messages among them, and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Traffic {
    pub(super) packets_out: u64,
    pub(super) publishes_out: u64,
    pub(super) payload_out: u64,
    pub(super) bytes_out: u64,
    pub(super) packets_in: u64,
    pub(super) publishes_in: u64,
    pub(super) payload_in: u64,
    pub(super) bytes_in: u64,
}

impl Traffic {
    pub(super) fn add(&mut self, other: &Self) {
        self.packets_out += other.packets_out;
        self.publishes_out += other.publishes_out;
        self.payload_out += other.payload_out;
        self.bytes_out += other.bytes_out;
        self.packets_in += other.packets_in;
        self.publishes_in += other.publishes_in;
        self.payload_in += other.payload_in;
        self.bytes_in += other.bytes_in;
    }
}

impl Client {
    fn new(peer: MemPeer, version: ProtocolVersion) -> Self {
        Self {
            peer,
            version,
            input: Vec::new(),
            output: Vec::new(),
            gathers: false,
            closed: false,
            traffic: Traffic::default(),
        }
    }

    pub(super) fn send(&mut self, packet: &Packet<'_>) {
        Encoder::new(self.version).encode(packet, &mut self.output).unwrap();
        self.traffic.packets_out += 1;
        if let Packet::Publish(publish) = packet {
            self.traffic.publishes_out += 1;
            self.traffic.payload_out += publish.payload.len() as u64;
        }
        if !self.gathers {
            self.flush();
        }
    }

    /// Sends what is no packet.
    pub(super) fn send_bytes(&mut self, bytes: &[u8]) {
        self.output.extend_from_slice(bytes);
        self.flush();
    }

    /// What is sent from now on goes together, with [`Client::flush`].
    pub(super) fn gather(&mut self) {
        self.gathers = true;
    }

    pub(super) fn flush(&mut self) {
        self.traffic.bytes_out += self.output.len() as u64;
        self.peer.send(&std::mem::take(&mut self.output));
        self.gathers = false;
    }

    pub(super) fn connect(&mut self, hello: &Hello<'_>) {
        let mut properties = PropertiesBuf::new();
        if self.version.is_v5() {
            if hello.stays {
                properties.push(Property::SessionExpiry(u32::MAX)).unwrap();
            }
            if let Some(window) = hello.window {
                properties.push(Property::ReceiveMaximum(window)).unwrap();
            }
        }
        let will = hello.will.map(|(topic, qos, retain)| Will {
            qos,
            retain,
            properties: Properties::EMPTY,
            topic: TopicName::new(topic).unwrap(),
            payload: b"gone",
        });
        self.send(&Packet::Connect(Connect {
            clean_start: !hello.stays,
            properties: properties.as_properties(),
            will,
            ..Connect::new(self.version, hello.id)
        }));
    }

    pub(super) fn subscribe(&mut self, id: u16, filter: &str, qos: QoS) {
        let mut list = SubscriptionsBuf::new();
        list.push(filter, SubscribeOptions::with_qos(qos)).unwrap();
        self.send(&Packet::Subscribe(Subscribe {
            packet_id: packet_id(id),
            properties: Properties::EMPTY,
            subscriptions: list.subscriptions(),
        }));
    }

    pub(super) fn unsubscribe(&mut self, id: u16, filter: &str) {
        let mut list = SubscriptionsBuf::new();
        list.push(filter, SubscribeOptions::default()).unwrap();
        self.send(&Packet::Unsubscribe(Unsubscribe {
            packet_id: packet_id(id),
            properties: Properties::EMPTY,
            filters: list.filters(),
        }));
    }

    pub(super) fn publish(&mut self, line: Line<'_>) {
        let delivery = match line.qos {
            QoS::AtMostOnce => Delivery::AtMostOnce,
            QoS::AtLeastOnce => Delivery::AtLeastOnce(packet_id(line.id)),
            QoS::ExactlyOnce => Delivery::ExactlyOnce(packet_id(line.id)),
        };
        let topic = TopicName::new(line.topic).unwrap();
        let mut properties = PropertiesBuf::new();
        if line.expiry_s > 0 {
            properties.push(Property::MessageExpiry(line.expiry_s)).unwrap();
        }
        self.send(&Packet::Publish(Publish {
            dup: line.dup,
            retain: line.retain,
            properties: properties.as_properties(),
            ..Publish::new(topic, delivery, line.text.as_bytes())
        }));
    }

    pub(super) fn ack(&mut self, kind: AckKind, id: u16) {
        let ack = Ack::success(packet_id(id));
        self.send(&match kind {
            AckKind::PubAck => Packet::PubAck(ack),
            AckKind::PubRec => Packet::PubRec(ack),
            AckKind::PubRel => Packet::PubRel(ack),
            AckKind::PubComp => Packet::PubComp(ack),
        });
    }

    pub(super) fn disconnect(&mut self) {
        self.send(&Packet::Disconnect(Disconnect::with_reason(ReasonCode::Success)));
    }

    /// How much it takes from now on.
    pub(super) fn takes(&self, bytes: usize) {
        self.peer.set_window(bytes);
    }

    /// Breaks the connection.
    pub(super) fn reset(&self) {
        self.peer.reset();
    }

    /// Its machine is gone, and the system finds that out.
    pub(super) fn vanish(&self) {
        self.peer.vanish();
    }

    /// What has come since the last call, one line for each packet, and `closed` at its end.
    pub(super) fn got(&mut self) -> Vec<String> {
        let received = self.peer.receive();
        self.traffic.bytes_in += received.len() as u64;
        self.input.extend(received);
        let decoder = Decoder::of_servers(self.version, PacketLimits::default());
        let (mut lines, mut used) = (Vec::new(), 0);
        while let Some((packet, size)) = decoder.decode(&self.input[used..]).unwrap() {
            lines.push(show(&packet));
            self.traffic.packets_in += 1;
            if let Packet::Publish(publish) = packet {
                self.traffic.publishes_in += 1;
                self.traffic.payload_in += publish.payload.len() as u64;
            }
            used += size;
        }
        self.input.drain(..used);
        if self.peer.is_ended() && !std::mem::replace(&mut self.closed, true) {
            lines.push("closed".into());
        }
        lines
    }

    /// The broker says that nothing more will come.
    pub(super) fn is_ended(&self) -> bool {
        self.peer.is_ended()
    }
}

fn packet_id(id: u16) -> PacketId {
    PacketId::new(id).unwrap()
}

fn show(packet: &Packet<'_>) -> String {
    let name = packet.packet_type().name();
    match packet {
        Packet::ConnAck(ack) if ack.reason.is_failure() => format!("{name} refused"),
        Packet::ConnAck(ack) if ack.session_present => format!("{name} present"),
        Packet::Publish(publish) => show_publish(publish),
        Packet::PubAck(ack) | Packet::PubRec(ack) | Packet::PubRel(ack) | Packet::PubComp(ack) => {
            // That nothing is there any more is no failure when a packet was repeated.
            let failed =
                ack.reason.is_failure() && ack.reason != ReasonCode::PacketIdentifierNotFound;
            let failed = if failed { " failed" } else { "" };
            format!("{name} {}{failed}", ack.packet_id.get())
        }
        Packet::SubAck(ack) => match ack.properties.find(PropertyId::ReasonString) {
            Some(Property::ReasonString(why)) => format!("{name} {} {why}", ack.packet_id.get()),
            _ => format!("{name} {}", ack.packet_id.get()),
        },
        Packet::UnsubAck(ack) => format!("{name} {}", ack.packet_id.get()),
        _ => name.into(),
    }
}

/// `topic=text` with QoS, identifier and flags.
fn show_publish(publish: &Publish<'_>) -> String {
    let topic = publish.topic.map_or("", TopicName::as_str);
    let mut line = format!("{topic}={}", String::from_utf8_lossy(publish.payload));
    if let Some(id) = publish.delivery.packet_id() {
        write!(line, " q{} #{}", publish.delivery.qos().bits(), id.get()).unwrap();
    }
    if publish.dup {
        line += " dup";
    }
    if publish.retain {
        line += " retain";
    }
    line
}
