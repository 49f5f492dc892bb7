//! Clients that come, do something whole, and go: in any version of the protocol, with a session
//! that stays or without, leaving in order, without a word, or by their own next connection.
//!
//! Owns: what such a client must be told, to the packet: it has its topic to itself.
//! Does not know: the accounts, in which none of this stands.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use zzq_codec::{Ack, Connect, Delivery, Disconnect, Packet, Publish, Subscribe, SubscriptionsBuf};
use zzq_types::{
    PacketId, Properties, PropertiesBuf, Property, ProtocolVersion, QoS, ReasonCode,
    SubscribeOptions, TopicName,
};
use zzq_wal::sim_disk::Random;

use super::line::Line;
use super::member::packet_id;
use crate::gate::Gate;

const VERSIONS: [ProtocolVersion; 3] =
    [ProtocolVersion::V31, ProtocolVersion::V311, ProtocolVersion::V5];
const LEVELS: [QoS; 3] = [QoS::AtMostOnce, QoS::AtLeastOnce, QoS::ExactlyOnce];
/// Client identifiers of one passer.
const NAMES: usize = 8;
/// Messages of one visit, and one less.
const MESSAGES: u64 = 12;
/// The only identifier of its packets: each is answered before the next.
const OWN: u16 = 1;
/// A broker that does not answer for so long does not serve.
const PATIENCE: Duration = Duration::from_secs(30);

/// One visitor after the other, each through `gate`, until `stop`; how many there were.
///
/// # Errors
/// What one of them was not told, or should not have been.
pub fn pass(
    number: usize,
    address: SocketAddr,
    seed: u64,
    gate: &Gate,
    stop: &AtomicBool,
) -> Result<u64> {
    let random = Random::about(seed, number as u64);
    let mut passer = Passer { number, address, random, stays: [Some(false); NAMES], visits: 0 };
    while !stop.load(Ordering::Acquire) {
        let _inside = gate.enter();
        passer.visits += 1;
        let visits = passer.visits;
        passer.visit().with_context(|| format!("visit {visits} of passer {number}"))?;
    }
    Ok(passer.visits)
}

struct Passer {
    number: usize,
    address: SocketAddr,
    random: Random,
    /// Which names have a session; `None`: the broker may not have noticed yet that it is over.
    stays: [Option<bool>; NAMES],
    visits: u64,
}

impl Passer {
    fn visit(&mut self) -> Result<()> {
        let (which, version) = (self.random.index(NAMES), self.random.pick(&VERSIONS));
        let (clean, level) = (self.random.one_in(2), self.random.pick(&LEVELS));
        let name = format!("passer-{}-{which}", self.number);
        let topic = format!("passers/{name}");
        let had_session = if clean { Some(false) } else { self.stays[which] };
        let mut caller = Caller::enter(self.address, version, &name, clean, had_session)?;
        self.stays[which] = Some(!clean);
        caller.subscribe(&topic, level)?;
        for message in 0..=self.random.below(MESSAGES) {
            let payload = format!("{name} {} {message}", self.visits);
            caller.say(&topic, self.random.pick(&LEVELS), level, payload.as_bytes())?;
        }
        caller.ping()?;
        match self.random.below(3) {
            0 => caller.leave(),
            1 => {
                self.stays[which] = (!clean).then_some(true);
                Ok(())
            }
            _ => {
                // Its own next connection, of the same kind, ends this one.
                let again = Caller::enter(self.address, version, &name, clean, Some(!clean))?;
                caller.lose_session()?;
                again.leave()
            }
        }
    }
}

/// What came, of what is looked at.
#[derive(Debug, PartialEq)]
enum Heard {
    Accepted { session: bool },
    Granted(QoS),
    Message { topic: String, payload: Vec<u8>, qos: QoS, id: Option<PacketId> },
    Answer(u8, PacketId),
    Pong,
    Goodbye(ReasonCode),
    Closed,
}

/// A connection that waits for its answers.
struct Caller {
    line: Line,
    version: ProtocolVersion,
    heard: Vec<Heard>,
}

const PUBACK: u8 = 4;
const PUBREC: u8 = 5;
const PUBREL: u8 = 6;
const PUBCOMP: u8 = 7;

impl Caller {
    fn enter(
        address: SocketAddr,
        version: ProtocolVersion,
        name: &str,
        clean_start: bool,
        had_session: Option<bool>,
    ) -> Result<Self> {
        let mut line = Line::dial(address, version)?;
        let mut properties = PropertiesBuf::new();
        if version.is_v5() && !clean_start {
            properties.push(Property::SessionExpiry(u32::MAX))?;
        }
        let connect = Connect {
            clean_start,
            properties: properties.as_properties(),
            ..Connect::new(version, name)
        };
        line.send(&Packet::Connect(connect))?;
        let mut caller = Self { line, version, heard: Vec::new() };
        let heard = caller.hear()?;
        let Heard::Accepted { session } = heard else { bail!("{heard:?} instead of CONNACK") };
        // MQTT 3.1 has no word for it.
        if let Some(had) = had_session
            && version != ProtocolVersion::V31
        {
            ensure!(session == had, "Session Present is {session} with {version:?}");
        }
        Ok(caller)
    }

    fn subscribe(&mut self, filter: &str, qos: QoS) -> Result<()> {
        let mut subscriptions = SubscriptionsBuf::new();
        subscriptions.push(filter, SubscribeOptions::with_qos(qos))?;
        self.line.send(&Packet::Subscribe(Subscribe {
            packet_id: packet_id(OWN)?,
            properties: Properties::EMPTY,
            subscriptions: subscriptions.subscriptions(),
        }))?;
        self.expect(&Heard::Granted(qos))
    }

    /// Publishes, and takes what comes of it, both handshakes to their ends, in whatever order.
    fn say(&mut self, topic: &str, qos: QoS, granted: QoS, payload: &[u8]) -> Result<()> {
        let own = packet_id(OWN)?;
        let delivery = match qos {
            QoS::AtMostOnce => Delivery::AtMostOnce,
            QoS::AtLeastOnce => Delivery::AtLeastOnce(own),
            QoS::ExactlyOnce => Delivery::ExactlyOnce(own),
        };
        let publish = Publish::new(TopicName::new(topic)?, delivery, payload);
        self.line.send(&Packet::Publish(publish))?;
        let mut awaits = match qos {
            QoS::AtMostOnce => vec![],
            QoS::AtLeastOnce => vec![Heard::Answer(PUBACK, own)],
            QoS::ExactlyOnce => vec![Heard::Answer(PUBREC, own)],
        };
        let mut came = false;
        while !came || !awaits.is_empty() {
            let heard = self.hear()?;
            if let Heard::Message { topic: to, payload: bytes, qos: at, id } = &heard {
                ensure!(!came, "it comes twice: {heard:?}");
                let is_it = to == topic && bytes == payload && *at == qos.min(granted);
                ensure!(is_it, "another message: {heard:?}");
                came = true;
                if let (Some(id), QoS::AtLeastOnce) = (*id, at) {
                    self.line.send(&Packet::PubAck(Ack::success(id)))?;
                } else if let Some(id) = *id {
                    self.line.send(&Packet::PubRec(Ack::success(id)))?;
                    awaits.push(Heard::Answer(PUBREL, id));
                }
                continue;
            }
            let place = awaits.iter().position(|awaited| *awaited == heard);
            let place = place.ok_or_else(|| anyhow!("{heard:?} instead of {awaits:?}"))?;
            match awaits.remove(place) {
                Heard::Answer(PUBREC, id) => {
                    self.line.send(&Packet::PubRel(Ack::success(id)))?;
                    awaits.push(Heard::Answer(PUBCOMP, id));
                }
                Heard::Answer(PUBREL, id) => {
                    self.line.send(&Packet::PubComp(Ack::success(id)))?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// All that it has said was taken.
    fn ping(&mut self) -> Result<()> {
        self.line.send(&Packet::PingReq)?;
        self.expect(&Heard::Pong)
    }

    fn lose_session(mut self) -> Result<()> {
        if self.version.is_v5() {
            self.expect(&Heard::Goodbye(ReasonCode::SessionTakenOver))?;
        }
        self.expect(&Heard::Closed)
    }

    fn leave(mut self) -> Result<()> {
        self.line.send(&Packet::Disconnect(Disconnect::with_reason(ReasonCode::Success)))?;
        self.expect(&Heard::Closed)
    }

    fn expect(&mut self, wanted: &Heard) -> Result<()> {
        let heard = self.hear()?;
        ensure!(heard == *wanted, "{heard:?} instead of {wanted:?}");
        Ok(())
    }

    /// The next thing that comes.
    fn hear(&mut self) -> Result<Heard> {
        let until = Instant::now() + PATIENCE;
        loop {
            if !self.heard.is_empty() {
                return Ok(self.heard.remove(0));
            }
            ensure!(Instant::now() < until, "nothing comes");
            // A connection that is over may still have something to be read.
            let _sent = self.line.flush();
            let flags = if self.line.has_output() { PollFlags::OUT } else { PollFlags::IN };
            let fds = &mut [PollFd::new(&self.line, flags | PollFlags::IN)];
            match poll(fds, Some(&Timespec { tv_sec: 1, tv_nsec: 0 })) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            let stands = self.line.fill();
            let heard = &mut self.heard;
            self.line.packets(|_, packet| {
                heard.push(Heard::of(&packet)?);
                Ok(())
            })?;
            if !stands {
                self.heard.push(Heard::Closed);
            }
        }
    }
}

impl Heard {
    fn of(packet: &Packet<'_>) -> Result<Self> {
        Ok(match packet {
            Packet::ConnAck(ack) if ack.reason == ReasonCode::Success => {
                Self::Accepted { session: ack.session_present }
            }
            Packet::SubAck(ack) => match ack.codes.iter().next() {
                Some(ReasonCode::Success) => Self::Granted(QoS::AtMostOnce),
                Some(ReasonCode::GrantedQoS1) => Self::Granted(QoS::AtLeastOnce),
                Some(ReasonCode::GrantedQoS2) => Self::Granted(QoS::ExactlyOnce),
                code => bail!("a subscription is refused: {code:?}"),
            },
            Packet::Publish(publish) => {
                ensure!(!publish.dup && !publish.retain, "nothing is repeated: {publish:?}");
                Self::Message {
                    topic: publish.topic.context("no alias is allowed")?.as_str().to_owned(),
                    payload: publish.payload.to_vec(),
                    qos: publish.delivery.qos(),
                    id: publish.delivery.packet_id(),
                }
            }
            Packet::PubAck(ack) => Self::answer(PUBACK, ack)?,
            Packet::PubRec(ack) => Self::answer(PUBREC, ack)?,
            Packet::PubRel(ack) => Self::answer(PUBREL, ack)?,
            Packet::PubComp(ack) => Self::answer(PUBCOMP, ack)?,
            Packet::PingResp => Self::Pong,
            Packet::Disconnect(disconnect) => Self::Goodbye(disconnect.reason),
            other => bail!("an unexpected packet: {other:?}"),
        })
    }

    fn answer(kind: u8, ack: &Ack<'_>) -> Result<Self> {
        ensure!(!ack.reason.is_failure(), "a refusal: {ack:?}");
        Ok(Self::Answer(kind, ack.packet_id))
    }
}
