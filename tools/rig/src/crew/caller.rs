//! A client that is told exactly what it must be: it waits for each answer, and takes no other.
//!
//! Owns: its connection, handshakes that are not over, and what has come. Does not know: which
//! messages must come; whoever uses it does.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use zzq_codec::{
    Ack, Connect, Delivery, Disconnect, Packet, Publish, Subscribe, SubscriptionsBuf, Unsubscribe,
};
use zzq_types::{
    PacketId, Properties, PropertiesBuf, Property, ProtocolVersion, QoS, ReasonCode,
    SubscribeOptions, TopicName,
};

use super::line::Line;
use super::member::packet_id;

pub(super) const VERSIONS: [ProtocolVersion; 3] =
    [ProtocolVersion::V31, ProtocolVersion::V311, ProtocolVersion::V5];
pub(super) const LEVELS: [QoS; 3] = [QoS::AtMostOnce, QoS::AtLeastOnce, QoS::ExactlyOnce];
/// The identifier of what is answered before anything else is asked.
pub(super) const OWN: u16 = 1;
/// A broker that does not answer for so long does not serve.
const PATIENCE: Duration = Duration::from_secs(30);

/// What came, of what is looked at.
#[derive(Debug, PartialEq)]
pub(super) enum Heard {
    Accepted { session: bool },
    Granted(QoS),
    Message { topic: String, payload: Vec<u8>, qos: QoS, id: Option<PacketId>, is_repeated: bool },
    Unsubscribed,
    Answer(u8, PacketId),
    Pong,
    Goodbye(ReasonCode),
    Closed,
}

/// A connection that waits for its answers.
#[derive(Debug)]
pub(super) struct Caller {
    line: Line,
    version: ProtocolVersion,
    heard: VecDeque<Heard>,
    /// Answers that are to come, in any order.
    awaits: Vec<Heard>,
}

pub(super) const PUBACK: u8 = 4;
pub(super) const PUBREC: u8 = 5;
pub(super) const PUBREL: u8 = 6;
const PUBCOMP: u8 = 7;

impl Caller {
    pub(super) fn enter(
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
        let mut caller = Self { line, version, heard: VecDeque::new(), awaits: Vec::new() };
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

    pub(super) fn subscribe(&mut self, filter: &str, qos: QoS) -> Result<()> {
        self.ask_for(filter, qos)?;
        self.expect(&Heard::Granted(qos))
    }

    /// Subscribes; the answer may come behind messages.
    pub(super) fn ask_for(&mut self, filter: &str, qos: QoS) -> Result<()> {
        let mut subscriptions = SubscriptionsBuf::new();
        subscriptions.push(filter, SubscribeOptions::with_qos(qos))?;
        self.line.send(&Packet::Subscribe(Subscribe {
            packet_id: packet_id(OWN)?,
            properties: Properties::EMPTY,
            subscriptions: subscriptions.subscriptions(),
        }))
    }

    /// Unsubscribes; the answer may come behind messages.
    pub(super) fn ask_no_more(&mut self, filter: &str) -> Result<()> {
        let mut filters = SubscriptionsBuf::new();
        filters.push(filter, SubscribeOptions::default())?;
        self.line.send(&Packet::Unsubscribe(Unsubscribe {
            packet_id: packet_id(OWN)?,
            properties: Properties::EMPTY,
            filters: filters.filters(),
        }))
    }

    /// Says something of a handshake that somebody else keeps.
    pub(super) fn say(&mut self, packet: &Packet<'_>) -> Result<()> {
        self.line.send(packet)
    }

    /// Publishes by this identifier; its answers are awaited from now on.
    pub(super) fn publish(&mut self, topic: &str, qos: QoS, id: u16, payload: &[u8]) -> Result<()> {
        let id = packet_id(id)?;
        let delivery = match qos {
            QoS::AtMostOnce => Delivery::AtMostOnce,
            QoS::AtLeastOnce => Delivery::AtLeastOnce(id),
            QoS::ExactlyOnce => Delivery::ExactlyOnce(id),
        };
        let publish = Publish::new(TopicName::new(topic)?, delivery, payload);
        self.line.send(&Packet::Publish(publish))?;
        match qos {
            QoS::AtMostOnce => {}
            QoS::AtLeastOnce => self.awaits.push(Heard::Answer(PUBACK, id)),
            QoS::ExactlyOnce => self.awaits.push(Heard::Answer(PUBREC, id)),
        }
        Ok(())
    }

    /// Answers a message that has come.
    pub(super) fn receive(&mut self, qos: QoS, id: Option<PacketId>) -> Result<()> {
        match (id, qos) {
            (Some(id), QoS::AtLeastOnce) => self.line.send(&Packet::PubAck(Ack::success(id))),
            (Some(id), _) => {
                self.awaits.push(Heard::Answer(PUBREL, id));
                self.line.send(&Packet::PubRec(Ack::success(id)))
            }
            (None, _) => Ok(()),
        }
    }

    /// Goes on with the handshake that this belongs to.
    pub(super) fn go_on(&mut self, heard: &Heard) -> Result<()> {
        let place = self.awaits.iter().position(|awaited| awaited == heard);
        let place = place.ok_or_else(|| anyhow!("{heard:?} instead of {:?}", self.awaits))?;
        match self.awaits.remove(place) {
            Heard::Answer(PUBREC, id) => {
                self.awaits.push(Heard::Answer(PUBCOMP, id));
                self.line.send(&Packet::PubRel(Ack::success(id)))
            }
            Heard::Answer(PUBREL, id) => self.line.send(&Packet::PubComp(Ack::success(id))),
            _ => Ok(()),
        }
    }

    /// Whether all handshakes are over.
    pub(super) fn is_done(&self) -> bool {
        self.awaits.is_empty()
    }

    /// All that it has said was taken.
    pub(super) fn ping(&mut self) -> Result<()> {
        self.line.send(&Packet::PingReq)?;
        self.expect(&Heard::Pong)
    }

    pub(super) fn lose_session(mut self) -> Result<()> {
        if self.version.is_v5() {
            self.expect(&Heard::Goodbye(ReasonCode::SessionTakenOver))?;
        }
        self.expect(&Heard::Closed)
    }

    pub(super) fn leave(mut self) -> Result<()> {
        self.say_farewell()?;
        self.expect(&Heard::Closed)
    }

    /// The broker closes behind this, and behind what is under way.
    pub(super) fn say_farewell(&mut self) -> Result<()> {
        self.line.send(&Packet::Disconnect(Disconnect::with_reason(ReasonCode::Success)))
    }

    pub(super) fn expect(&mut self, wanted: &Heard) -> Result<()> {
        let heard = self.hear()?;
        ensure!(heard == *wanted, "{heard:?} instead of {wanted:?}");
        Ok(())
    }

    /// The next thing that comes.
    pub(super) fn hear(&mut self) -> Result<Heard> {
        Ok(hear(&mut [self])?.1)
    }

    /// What has come by now, if anything.
    pub(super) fn heard_now(&mut self) -> Result<Option<Heard>> {
        if self.heard.is_empty() {
            self.take()?;
        }
        Ok(self.heard.pop_front())
    }

    /// Sends what is to be sent, and takes what has come.
    fn take(&mut self) -> Result<()> {
        // A connection that is over may still have something to be read.
        let _sent = self.line.flush();
        let stands = self.line.fill();
        let heard = &mut self.heard;
        self.line.packets(|_, packet| {
            heard.push_back(Heard::of(&packet)?);
            Ok(())
        })?;
        if !stands {
            self.heard.push_back(Heard::Closed);
        }
        Ok(())
    }
}

/// The next thing that comes to any of them, and to which.
pub(super) fn hear(callers: &mut [&mut Caller]) -> Result<(usize, Heard)> {
    let until = Instant::now() + PATIENCE;
    loop {
        for (at, caller) in callers.iter_mut().enumerate() {
            if let Some(heard) = caller.heard.pop_front() {
                return Ok((at, heard));
            }
        }
        ensure!(Instant::now() < until, "nothing comes");
        let mut fds = Vec::new();
        for caller in callers.iter_mut() {
            let _sent = caller.line.flush();
        }
        for caller in callers.iter() {
            let output = if caller.line.has_output() { PollFlags::OUT } else { PollFlags::empty() };
            fds.push(PollFd::new(&caller.line, PollFlags::IN | output));
        }
        match poll(&mut fds, Some(&Timespec { tv_sec: 1, tv_nsec: 0 })) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        callers.iter_mut().try_for_each(|caller| caller.take())?;
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
                ensure!(!publish.retain, "nothing is retained: {publish:?}");
                Self::Message {
                    topic: publish.topic.context("no alias is allowed")?.as_str().to_owned(),
                    payload: publish.payload.to_vec(),
                    qos: publish.delivery.qos(),
                    id: publish.delivery.packet_id(),
                    is_repeated: publish.dup,
                }
            }
            Packet::UnsubAck(_) => Self::Unsubscribed,
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
