//! A broker on a real kernel whose disk becomes full: a small ext4 on a loop device, filled at QoS
//! 1 and 2 by clients of MQTT 3.1.1 and 5.0, most of it alive in a queue; then drained, and filled
//! again. Every acknowledgement is accounted for.
//!
//! It takes a minute and a half and runs by flag, with the broker that was built last:
//! `cargo build -p zzq-broker && cargo test -p zzq-rig --test full_disk -- --ignored`.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "a test panics")]

#[expect(dead_code, reason = "it takes the broker only")]
mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use libtest_mimic::{Arguments, Failed, Trial};
use rustix::mount::{UnmountFlags, unmount};
use support::broker;
use zzq_codec::{
    Ack, AckKind, Connect, Decoder, Delivery, Encoder, Limits, Packet, Publish, Subscribe,
    SubscriptionsBuf,
};
use zzq_rig::broker::{Broker, Launch, Start};
use zzq_rig::loopdev::LoopDevice;
use zzq_rig::recovery::mount_at;
use zzq_rig::sealed;
use zzq_types::ProtocolVersion::{V5, V311};
use zzq_types::{
    PacketId, Properties, PropertiesBuf, Property, ProtocolVersion, QoS, SubscribeOptions,
    TopicName,
};

/// Bytes of the disk: so many that what is kept free of it is a small part, as on any real one.
const DISK: u64 = 512 << 20;
/// Bytes of a message.
const MESSAGE: usize = 48 * 1024;
/// Tells the process in namespaces of its own where its disk is.
const INSIDE: &str = "ZZQ_FULL_DISK";

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let wanted = arguments.ignored || arguments.include_ignored;
    let reason = match (std::env::var_os(INSIDE), sealed::able()) {
        (None, _) if !wanted => {
            Some("it takes a minute, and runs when --ignored is asked for".into())
        }
        (None, Ok(())) if !arguments.list => return inside(),
        (None, Ok(())) => None,
        (None, Err(reason)) => Some(format!("this machine does not allow it: {reason:#}")),
        (Some(place), _) => set_up(Path::new(&place))
            .err()
            .map(|reason| format!("this machine does not allow it: {reason:#}")),
    };
    if let Some(reason) = &reason {
        eprintln!("ignored: {reason}");
    }
    // Whoever asks for what is ignored is shown what was not possible as a failure.
    let test = Trial::test("a_full_disk_loses_nothing_and_is_filled_again", full_disk);
    let trials = vec![test.with_ignored_flag(reason.is_some() || wanted)];
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// This program again, in namespaces that take its mounts and processes with them.
fn inside() -> ExitCode {
    let place = tempfile::tempdir().unwrap();
    let status = Command::new("unshare")
        .args(["--mount", "--pid", "--fork", "--kill-child", "--"])
        .arg(std::env::current_exe().unwrap())
        .args(std::env::args_os().skip(1))
        .env(INSIDE, place.path())
        .status()
        .unwrap();
    if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn mount_point(place: &Path) -> PathBuf {
    place.join("mount")
}

/// An empty file system on a disk of its own, mounted.
fn set_up(place: &Path) -> anyhow::Result<()> {
    let disk = place.join("disk");
    File::create(&disk)?.set_len(DISK)?;
    std::fs::create_dir(mount_point(place))?;
    let device = LoopDevice::attach(&disk)?;
    let small = ["-q", "-F", "-b", "4096", "-N", "256", "-m", "0", "-J", "size=4"];
    let made = Command::new("mkfs.ext4").args(small).arg(device.path()).output()?;
    anyhow::ensure!(made.status.success(), "mkfs.ext4: {}", String::from_utf8_lossy(&made.stderr));
    mount_at(device.path(), &mount_point(place))?;
    Ok(())
}

fn full_disk() -> Result<(), Failed> {
    let place = PathBuf::from(std::env::var_os(INSIDE).ok_or("run it by cargo test")?);
    let mount = mount_point(&place);
    let mut story = Story::begin(&place);
    story.subscribe();
    let (mut first, mut rounds) = (0, Vec::new());
    for round in 0..2 {
        let free = free_bytes(&mount);
        let live = story.fill();
        rounds.push(format!("{live} of {free} bytes acknowledged and waiting"));
        if live * 10 < free * 9 {
            return Err(format!("round {round}: only {rounds:?}").into());
        }
        first = if round == 0 { live } else { first };
        if live * 10 < first * 9 {
            return Err(format!("less is taken the second time: {rounds:?}").into());
        }
        // With its disk full, and what is held by MQTT 3 publishers not answered.
        story.kill();
        story.drain();
        story.space_is_back();
    }
    let told = story.end();
    eprintln!("{rounds:?}; {told}");
    unmount(&mount, UnmountFlags::DETACH)?;
    Ok(())
}

fn free_bytes(directory: &Path) -> u64 {
    let status = rustix::fs::statvfs(directory).unwrap();
    status.f_bavail * status.f_frsize
}

/// A publisher and what it was told.
struct Publisher {
    version: ProtocolVersion,
    qos: QoS,
    line: Option<Line>,
    /// The number of the message that is under way, or comes next.
    next: u32,
    /// It is under way: sent, and neither acknowledged nor refused.
    is_open: bool,
}

struct Story {
    launch: Launch,
    broker: Option<Broker>,
    publishers: Vec<Publisher>,
    /// What was acknowledged, by publisher and number.
    acked: BTreeSet<(u8, u32)>,
    /// How often what came.
    received: BTreeMap<(u8, u32), u32>,
    refused: u64,
}

impl Story {
    fn begin(place: &Path) -> Self {
        let launch = Launch::new(&broker(), mount_point(place).join("data"), place);
        let kinds = [V311, V5]
            .into_iter()
            .flat_map(|version| [QoS::AtLeastOnce, QoS::ExactlyOnce].map(|qos| (version, qos)));
        let publishers = kinds.map(|(version, qos)| Publisher {
            version,
            qos,
            line: None,
            next: 1,
            is_open: false,
        });
        let publishers = publishers.collect();
        let (acked, received) = (BTreeSet::new(), BTreeMap::new());
        let mut story = Self { launch, broker: None, publishers, acked, received, refused: 0 };
        story.start();
        story
    }

    fn start(&mut self) {
        match self.launch.start(|_| {}).unwrap() {
            Start::Up(broker) => self.broker = Some(broker),
            other => panic!("{other:?}: {}", self.launch.last_words()),
        }
    }

    fn kill(&mut self) {
        self.broker.take().unwrap().kill();
        for publisher in &mut self.publishers {
            publisher.line = None;
        }
        self.start();
    }

    fn address(&self) -> SocketAddr {
        self.broker.as_ref().unwrap().address()
    }

    fn reader(&self) -> Line {
        let mut line = Line::dial(self.address(), V5);
        line.connect("reader", false);
        line
    }

    fn subscribe(&self) {
        let mut line = self.reader();
        let mut list = SubscriptionsBuf::new();
        list.push("q/#", SubscribeOptions::with_qos(QoS::ExactlyOnce)).unwrap();
        line.send(&Packet::Subscribe(Subscribe {
            packet_id: PacketId::new(1).unwrap(),
            properties: Properties::EMPTY,
            subscriptions: list.subscriptions(),
        }));
        assert!(matches!(line.receive(PATIENCE), Some(Got::SubAck)));
    }

    /// Publishes until each publisher is refused, or held; how many bytes were taken.
    fn fill(&mut self) -> u64 {
        let before = self.acked.len();
        let mut left: Vec<usize> = (0..self.publishers.len()).collect();
        while !left.is_empty() {
            left.retain(|at| self.publish(*at));
        }
        (self.acked.len() - before) as u64 * MESSAGE as u64
    }

    /// One message, to its end; false: it is refused, or nobody answers.
    fn publish(&mut self, at: usize) -> bool {
        let address = self.address();
        let by = u8::try_from(at).unwrap();
        let one = &mut self.publishers[at];
        let line = one.line.get_or_insert_with(|| {
            let mut line = Line::dial(address, one.version);
            line.connect(&format!("publisher-{at}"), true);
            line
        });
        let number = one.next;
        line.publish(by, number, one.qos, one.is_open);
        one.is_open = true;
        // A disk that works answers sooner; one that is full never does.
        let patience = if one.version == V5 { PATIENCE } else { HELD };
        let Some(Got::Ack(kind, refused)) = line.receive(patience) else {
            let words = self.launch.last_words();
            assert_ne!(one.version, V5, "MQTT 5 is always answered: {at} {number} {words}");
            return false;
        };
        one.is_open = false;
        one.next += 1;
        if refused {
            self.refused += 1;
            return false;
        }
        if kind == AckKind::PubRec {
            line.send(&Packet::PubRel(Ack::success(PacketId::new(ID).unwrap())));
            let done = line.receive(PATIENCE);
            assert!(matches!(done, Some(Got::Ack(AckKind::PubComp, false))), "{done:?}");
        }
        self.acked.insert((by, number));
        true
    }

    /// The reader takes all that waits for it, and answers.
    fn drain(&mut self) {
        let mut line = self.reader();
        let mut open = BTreeSet::new();
        while let Some(got) = line.receive(QUIET) {
            match got {
                Got::Publish(by, number, delivery) => {
                    if let Delivery::ExactlyOnce(id) = delivery {
                        line.send(&Packet::PubRec(Ack::success(id)));
                        if !open.insert(id) {
                            continue;
                        }
                    }
                    *self.received.entry((by, number)).or_default() += 1;
                    if let Delivery::AtLeastOnce(id) = delivery {
                        line.send(&Packet::PubAck(Ack::success(id)));
                    }
                }
                Got::PubRel(id) => {
                    open.remove(&id);
                    line.send(&Packet::PubComp(Ack::success(id)));
                }
                other => panic!("{other:?}"),
            }
        }
        for (by, number) in &self.acked {
            let count = self.received.get(&(*by, *number)).copied().unwrap_or(0);
            assert!(count > 0, "message {number} of publisher {by} was acknowledged and is lost");
            let once = self.publishers[usize::from(*by)].qos == QoS::ExactlyOnce;
            assert!(!once || count == 1, "message {number} of publisher {by} came {count} times");
        }
    }

    /// Whoever was refused or held is served again, without a restart. What it has published then
    /// waits for the next round.
    fn space_is_back(&mut self) {
        let until = Instant::now() + PATIENCE;
        for at in 0..self.publishers.len() {
            while !self.publish(at) {
                assert!(Instant::now() < until, "{}", self.launch.last_words());
                self.publishers[at].line = None;
            }
        }
    }

    fn end(mut self) -> String {
        let ended = self.broker.take().unwrap().stop().unwrap();
        assert!(ended.is_some_and(|status| status.success()), "{}", self.launch.last_words());
        let words = std::fs::read_to_string(&self.launch.log).unwrap_or_default();
        for word in ["is full but for its reserve", "has space again"] {
            assert!(words.contains(word), "it does not say {word:?}");
        }
        format!("{} acknowledged, {} refused", self.acked.len(), self.refused)
    }
}

/// Who is not answered for so long is held.
const HELD: Duration = Duration::from_secs(2);
/// Nothing more comes.
const QUIET: Duration = Duration::from_secs(3);
const PATIENCE: Duration = Duration::from_mins(1);
/// Of each publish: one is under way at a time.
const ID: u16 = 7;

#[derive(Debug)]
enum Got {
    ConnAck,
    SubAck,
    /// And whether it refuses.
    Ack(AckKind, bool),
    PubRel(PacketId),
    Publish(u8, u32, Delivery),
}

/// A connection that waits for what comes.
struct Line {
    stream: TcpStream,
    version: ProtocolVersion,
    input: Vec<u8>,
}

impl Line {
    fn dial(address: SocketAddr, version: ProtocolVersion) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream, version, input: Vec::new() }
    }

    fn send(&mut self, packet: &Packet<'_>) {
        let mut bytes = Vec::new();
        Encoder::new(self.version).encode(packet, &mut bytes).unwrap();
        self.stream.write_all(&bytes).unwrap();
    }

    fn connect(&mut self, client: &str, clean: bool) {
        let mut properties = PropertiesBuf::new();
        if self.version == V5 && !clean {
            properties.push(Property::SessionExpiry(u32::MAX)).unwrap();
            properties.push(Property::ReceiveMaximum(50)).unwrap();
        }
        self.send(&Packet::Connect(Connect {
            clean_start: clean,
            properties: properties.as_properties(),
            ..Connect::new(self.version, client)
        }));
        let got = self.receive(PATIENCE);
        assert!(matches!(got, Some(Got::ConnAck)), "{got:?}");
    }

    fn publish(&mut self, by: u8, number: u32, qos: QoS, dup: bool) {
        let id = PacketId::new(ID).unwrap();
        let delivery = match qos {
            QoS::ExactlyOnce => Delivery::ExactlyOnce(id),
            _ => Delivery::AtLeastOnce(id),
        };
        let mut payload = vec![by; MESSAGE];
        payload[1..5].copy_from_slice(&number.to_be_bytes());
        let publish = Publish::new(TopicName::new("q/1").unwrap(), delivery, &payload);
        self.send(&Packet::Publish(Publish { dup, ..publish }));
    }

    /// The next packet; `None` if none comes for so long.
    fn receive(&mut self, patience: Duration) -> Option<Got> {
        let until = Instant::now() + patience;
        let decoder = Decoder::of_servers(self.version, Limits::default());
        loop {
            if let Some((packet, size)) = decoder.decode(&self.input).unwrap() {
                let got = got(&packet);
                self.input.drain(..size);
                return Some(got);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            self.stream.set_read_timeout(Some(left)).unwrap();
            let mut buffer = [0; 16 * 1024];
            match self.stream.read(&mut buffer) {
                Ok(0) => panic!("the broker has closed the connection"),
                Ok(read) => self.input.extend_from_slice(&buffer[..read]),
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) =>
                {
                    return None;
                }
                Err(error) => panic!("{error}"),
            }
        }
    }
}

fn got(packet: &Packet<'_>) -> Got {
    match packet {
        Packet::ConnAck(ack) if !ack.reason.is_failure() => Got::ConnAck,
        Packet::SubAck(_) => Got::SubAck,
        Packet::PubAck(ack) => Got::Ack(AckKind::PubAck, ack.reason.is_failure()),
        Packet::PubRec(ack) => Got::Ack(AckKind::PubRec, ack.reason.is_failure()),
        Packet::PubComp(ack) => Got::Ack(AckKind::PubComp, ack.reason.is_failure()),
        Packet::PubRel(ack) => Got::PubRel(ack.packet_id),
        Packet::Publish(publish) => {
            let number = publish.payload[1..5].try_into().unwrap();
            Got::Publish(publish.payload[0], u32::from_be_bytes(number), publish.delivery)
        }
        other => panic!("{other:?}"),
    }
}
