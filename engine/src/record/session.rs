//! Records of a session's life: start, connect, down, end, its will, and its freed identifiers.

use zzq_types::{PacketId, Properties, QoS, TopicName};

use crate::number::{QueueNumber, SessionNumber};
use crate::wire::{
    Reader, RecordError, put, put_bytes, put_some, read_number, read_packet_id, read_session,
    read_topic,
};

use super::VERSION;

/// The first record of every start of a broker, and of a leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    /// Whether queue numbers jump: after a crash, when numbers above what the log holds may have
    /// been sent. Not for a new leader, and not after a clean stop.
    pub jump: bool,
}

/// A CONNECT: opens a session, or resumes it if its client has one with this number.
///
/// One that ends a session that the log knows is logged, even if what it opens is volatile: else
/// the old one would be back at the next start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connect<'a> {
    /// The session: the client's own to resume it, else one never used before, which ends the one
    /// that the client had.
    pub session: SessionNumber,
    /// The client identifier.
    pub client: &'a str,
    /// How long the session outlives the connection, in seconds; 0: not at all, `u32::MAX`: for
    /// ever.
    pub expiry_s: u32,
    /// How many QoS 1 and 2 messages the client takes unacknowledged, at least 1.
    pub window: u16,
    /// Set if the session is up already, volatile, and the log begins to hold its records, as it
    /// joins a shared group that owns its messages: numbers go on behind this one, which is above
    /// all that it can have given by then. Nothing else changes for a session that is up.
    pub joins: Option<QueueNumber>,
    /// The will, whose message is stored at this record.
    pub will: Option<WillMessage<'a>>,
}

/// The message of a will, and how long it waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WillMessage<'a> {
    /// Where it is published.
    pub topic: TopicName<'a>,
    /// At which QoS.
    pub qos: QoS,
    /// Whether it is retained.
    pub retain: bool,
    /// How long it waits behind the end of the connection, in seconds.
    pub delay_s: u32,
    /// The properties of its PUBLISH, without the delay.
    pub properties: Properties<'a>,
    /// The payload.
    pub payload: &'a [u8],
}

/// A will that is set, replaced or taken back while the session is up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WillSet<'a> {
    /// Whose.
    pub session: SessionNumber,
    /// The will, whose message is stored at this record.
    pub will: Option<WillMessage<'a>>,
}

/// A PUBREL came: the identifier of a QoS 2 message is free again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Release {
    /// The publisher.
    pub session: SessionNumber,
    /// Its identifier.
    pub id: PacketId,
}

/// The connection of a session is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionDown {
    /// Whose.
    pub session: SessionNumber,
    /// The highest queue number that was sent.
    pub sent: QueueNumber,
    /// Whether the client took its will back (a DISCONNECT that is no failure).
    pub drop_will: bool,
    /// A new expiry of the session in seconds, if DISCONNECT named one.
    pub expiry_s: Option<u32>,
}

/// A session is over: expired, deleted, or gone with its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionEnd {
    /// Which.
    pub session: SessionNumber,
    /// Whether it has ended before and only its orphans are left, which nobody takes: no record
    /// that names one of its picks is under way any more.
    pub forget: bool,
}

const START_JUMP: u8 = 1;
const HAS_WILL: u8 = 1;
const JOINS: u8 = 2;
const DROP_WILL: u8 = 1;
const HAS_EXPIRY: u8 = 2;
const FORGET: u8 = 1;
const WILL_RETAIN: u8 = 4;

impl Start {
    pub(super) fn write(self, out: &mut Vec<u8>) {
        put(out, VERSION);
        out.push(if self.jump { START_JUMP } else { 0 });
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, RecordError> {
        let found = reader.int()?;
        if found != VERSION {
            return Err(RecordError::Version { found });
        }
        let flags = reader.flags(START_JUMP)?;
        Ok(Self { jump: flags & START_JUMP != 0 })
    }
}

impl<'a> Connect<'a> {
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        put(out, self.session.get());
        let will = if self.will.is_some() { HAS_WILL } else { 0 };
        out.push(will | if self.joins.is_some() { JOINS } else { 0 });
        put_bytes(out, self.client.as_bytes());
        put(out, u64::from(self.expiry_s));
        put(out, u64::from(self.window));
        put_some(out, self.joins.map(QueueNumber::get));
        if let Some(will) = &self.will {
            will.write(out);
        }
    }

    pub(super) fn read(reader: &mut Reader<'a>) -> Result<Self, RecordError> {
        let session = read_session(reader)?;
        let flags = reader.flags(HAS_WILL | JOINS)?;
        let client = reader.text()?;
        let expiry_s = reader.int32()?;
        let window = reader.int16()?;
        if window == 0 {
            return Err(RecordError::Value("window"));
        }
        let joins = if flags & JOINS == 0 { None } else { Some(read_number(reader)?) };
        let will = WillMessage::read_if(flags & HAS_WILL != 0, reader)?;
        Ok(Self { session, client, expiry_s, window, joins, will })
    }
}

impl<'a> WillMessage<'a> {
    fn write(&self, out: &mut Vec<u8>) {
        out.push(self.qos.bits() | if self.retain { WILL_RETAIN } else { 0 });
        put(out, u64::from(self.delay_s));
        put_bytes(out, self.topic.as_str().as_bytes());
        put_bytes(out, self.properties.as_bytes());
        put_bytes(out, self.payload);
    }

    fn read_if(present: bool, reader: &mut Reader<'a>) -> Result<Option<Self>, RecordError> {
        if !present {
            return Ok(None);
        }
        let flags = reader.flags(3 | WILL_RETAIN)?;
        Ok(Some(Self {
            qos: QoS::from_bits(flags & 3).ok_or(RecordError::Value("QoS"))?,
            retain: flags & WILL_RETAIN != 0,
            delay_s: reader.int32()?,
            topic: read_topic(reader)?,
            properties: Properties::from_checked(reader.bytes()?),
            payload: reader.bytes()?,
        }))
    }
}

impl<'a> WillSet<'a> {
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        put(out, self.session.get());
        out.push(if self.will.is_some() { HAS_WILL } else { 0 });
        if let Some(will) = &self.will {
            will.write(out);
        }
    }

    pub(super) fn read(reader: &mut Reader<'a>) -> Result<Self, RecordError> {
        let session = read_session(reader)?;
        let flags = reader.flags(HAS_WILL)?;
        Ok(Self { session, will: WillMessage::read_if(flags & HAS_WILL != 0, reader)? })
    }
}

impl Release {
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        put(out, self.session.get());
        put(out, u64::from(self.id.get()));
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, RecordError> {
        Ok(Self { session: read_session(reader)?, id: read_packet_id(reader)? })
    }
}

impl SessionDown {
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        put(out, self.session.get());
        put(out, self.sent.get());
        let expiry = if self.expiry_s.is_some() { HAS_EXPIRY } else { 0 };
        out.push(expiry | if self.drop_will { DROP_WILL } else { 0 });
        if let Some(expiry_s) = self.expiry_s {
            put(out, u64::from(expiry_s));
        }
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, RecordError> {
        let session = read_session(reader)?;
        let sent = read_number(reader)?;
        let flags = reader.flags(DROP_WILL | HAS_EXPIRY)?;
        let expiry_s = if flags & HAS_EXPIRY == 0 { None } else { Some(reader.int32()?) };
        Ok(Self { session, sent, drop_will: flags & DROP_WILL != 0, expiry_s })
    }
}

impl SessionEnd {
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        put(out, self.session.get());
        out.push(if self.forget { FORGET } else { 0 });
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, RecordError> {
        let session = read_session(reader)?;
        Ok(Self { session, forget: reader.flags(FORGET)? & FORGET != 0 })
    }
}
