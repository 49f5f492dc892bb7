//! Records that bring messages to sessions: a publish with its decision, and late decisions.

use zzq_types::{Lsn, PacketId, Properties, Property, PropertyId, QoS, TopicName};

use crate::decision::{Decision, SubscriptionIds};
use crate::number::{QueueNumber, SessionNumber, SubNumber};
use crate::wire::{
    Reader, RecordError, put, put_bytes, read_number, read_packet_id, read_session, read_topic,
};

use super::list::{List, ListBuf, Listed};

/// A message with the sessions it goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Publish<'a> {
    /// The session it came from; none for the broker's own messages and for wills.
    pub publisher: Option<SessionNumber>,
    /// The publisher's identifier; only at QoS 2, and only with a publisher.
    pub inbound: Option<PacketId>,
    /// The session whose will this is.
    pub will_of: Option<SessionNumber>,
    /// The QoS it was published at.
    pub qos: QoS,
    /// Whether it is retained.
    pub retain: bool,
    /// Where it goes.
    pub decision: Decision<'a>,
    /// The topic.
    pub topic: TopicName<'a>,
    /// The properties to be forwarded: no alias, no subscription identifiers.
    pub properties: Properties<'a>,
    /// The payload.
    pub payload: &'a [u8],
}

/// Messages of earlier records that enter a session's queue: retained ones owed to a new
/// subscription, history, orphans of a shared group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LateDecision<'a> {
    /// Whose queue.
    pub session: SessionNumber,
    /// The messages in the order of their queue numbers to be.
    pub items: LateItems<'a>,
}

/// One message of a late decision. It repeats what apply needs, for the message's own record is
/// not at hand then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LateItem<'a> {
    /// The record that holds the message.
    pub lsn: Lsn,
    /// QoS of this delivery. At QoS 0, which only an orphan may be given on at, it enters no queue:
    /// it goes to a session that is up.
    pub qos: QoS,
    /// The RETAIN flag as it is forwarded.
    pub retain: bool,
    /// [`Publish::size`] of the message.
    pub size: u32,
    /// When the message expires, in log time.
    pub expires_ms: Option<u64>,
    /// The new member's shared subscription, for an orphan that is given on.
    pub pick: Option<SubNumber>,
    /// Where it was waiting, for an orphan that is given on.
    pub orphan: Option<Orphan>,
    /// The subscription identifiers that are sent along.
    pub ids: SubscriptionIds<'a>,
}

/// Names a message that an ended session left to its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Orphan {
    /// The session that has ended.
    pub session: SessionNumber,
    /// The message's number in the queue it had.
    pub number: QueueNumber,
}

/// The list of [`LateItem`]s.
#[derive(Debug, Clone, Copy)]
pub enum LateList {}
/// The messages of a late decision.
pub type LateItems<'a> = List<'a, LateList>;
/// The messages of a late decision under construction.
pub type LateItemsBuf = ListBuf<LateList>;

const RETAIN: u8 = 1 << 2;
const PUBLISHER: u8 = 1 << 3;
const INBOUND: u8 = 1 << 4;
const WILL_OF: u8 = 1 << 5;

impl<'a> Publish<'a> {
    /// What the message weighs: the bytes of topic, properties and payload, at most `u32::MAX`.
    pub fn size(&self) -> u32 {
        let sum = self.topic.as_str().len() + self.properties.as_bytes().len() + self.payload.len();
        u32::try_from(sum).unwrap_or(u32::MAX)
    }

    /// When the message expires if its record has the log time `time_ms`.
    pub fn expires_ms(&self, time_ms: u64) -> Option<u64> {
        Some(time_ms.saturating_add(u64::from(self.expiry_s()?) * 1000))
    }

    /// How long the message is worth something, in seconds.
    pub fn expiry_s(&self) -> Option<u32> {
        match self.properties.find(PropertyId::MessageExpiry) {
            Some(Property::MessageExpiry(expiry_s)) => Some(expiry_s),
            _ => None,
        }
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        debug_assert!(self.inbound.is_none() || self.qos == QoS::ExactlyOnce);
        debug_assert!(self.inbound.is_none() || self.publisher.is_some());
        out.push(
            self.qos.bits()
                | if self.retain { RETAIN } else { 0 }
                | if self.publisher.is_some() { PUBLISHER } else { 0 }
                | if self.inbound.is_some() { INBOUND } else { 0 }
                | if self.will_of.is_some() { WILL_OF } else { 0 },
        );
        let numbers = [
            self.publisher.map(SessionNumber::get),
            self.inbound.map(|id| u64::from(id.get())),
            self.will_of.map(SessionNumber::get),
        ];
        for number in numbers.into_iter().flatten() {
            put(out, number);
        }
        put_bytes(out, self.decision.as_bytes());
        put_bytes(out, self.topic.as_str().as_bytes());
        put_bytes(out, self.properties.as_bytes());
        out.extend_from_slice(self.payload);
    }

    pub(super) fn read(reader: &mut Reader<'a>) -> Result<Self, RecordError> {
        let flags = reader.flags(3 | RETAIN | PUBLISHER | INBOUND | WILL_OF)?;
        let qos = QoS::from_bits(flags & 3).ok_or(RecordError::Value("QoS"))?;
        let has = |bit: u8| flags & bit != 0;
        if has(INBOUND) && (qos != QoS::ExactlyOnce || !has(PUBLISHER)) {
            return Err(RecordError::Value("packet identifier without QoS 2 or publisher"));
        }
        Ok(Self {
            qos,
            retain: has(RETAIN),
            publisher: if has(PUBLISHER) { Some(read_session(reader)?) } else { None },
            inbound: if has(INBOUND) { Some(read_packet_id(reader)?) } else { None },
            will_of: if has(WILL_OF) { Some(read_session(reader)?) } else { None },
            decision: Decision::parse(reader.bytes()?)?,
            topic: read_topic(reader)?,
            properties: Properties::from_checked(reader.bytes()?),
            payload: reader.rest(),
        })
    }
}

impl<'a> LateDecision<'a> {
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        put(out, self.session.get());
        out.extend_from_slice(self.items.as_bytes());
    }

    pub(super) fn read(reader: &mut Reader<'a>) -> Result<Self, RecordError> {
        Ok(Self { session: read_session(reader)?, items: List::parse(reader.rest())? })
    }
}

const PICK: u8 = 1 << 3;
const IDS: u8 = 1 << 4;
const EXPIRES: u8 = 1 << 5;
const ORPHAN: u8 = 1 << 6;

impl Listed for LateList {
    type Item<'a> = LateItem<'a>;

    fn write(item: &LateItem<'_>, out: &mut Vec<u8>) {
        let enters = item.qos.is_acknowledged();
        debug_assert!(enters || item.orphan.is_some(), "QoS 0 enters no queue");
        out.push(
            item.qos.bits()
                | if item.retain { RETAIN } else { 0 }
                | if item.pick.is_some() { PICK } else { 0 }
                | if item.ids.is_empty() { 0 } else { IDS }
                | if item.expires_ms.is_some() { EXPIRES } else { 0 }
                | if item.orphan.is_some() { ORPHAN } else { 0 },
        );
        put(out, item.lsn.get());
        put(out, u64::from(item.size));
        if let Some(expires_ms) = item.expires_ms {
            put(out, expires_ms);
        }
        if let Some(pick) = item.pick {
            put(out, u64::from(pick.get()));
        }
        if let Some(orphan) = item.orphan {
            put(out, orphan.session.get());
            put(out, orphan.number.get());
        }
        if !item.ids.is_empty() {
            item.ids.write(out);
        }
    }

    fn read<'a>(reader: &mut Reader<'a>) -> Result<LateItem<'a>, RecordError> {
        let flags = reader.flags(3 | RETAIN | PICK | IDS | EXPIRES | ORPHAN)?;
        let has = |bit: u8| flags & bit != 0;
        let qos = match QoS::from_bits(flags & 3) {
            Some(qos) if qos.is_acknowledged() || has(ORPHAN) => qos,
            _ => return Err(RecordError::Value("QoS")),
        };
        Ok(LateItem {
            qos,
            retain: has(RETAIN),
            lsn: Lsn::new(reader.int()?),
            size: reader.int32()?,
            expires_ms: if has(EXPIRES) { Some(reader.int()?) } else { None },
            pick: if has(PICK) { Some(SubNumber::new(reader.int32()?)) } else { None },
            orphan: if has(ORPHAN) {
                Some(Orphan { session: read_session(reader)?, number: read_number(reader)? })
            } else {
                None
            },
            ids: if has(IDS) { SubscriptionIds::read(reader)? } else { SubscriptionIds::NONE },
        })
    }
}
