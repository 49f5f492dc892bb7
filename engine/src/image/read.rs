//! Entries to state.

use std::collections::BTreeMap;
use std::sync::Arc;

use thiserror::Error;
use zzq_types::{Filter, Lsn, QoS, SubscribeOptions, TopicName};

use crate::decision::SubscriptionIds;
use crate::group::{Ended, OrphanMessage};
use crate::invariant::{self, Violation};
use crate::number::{QueueNumber, SessionNumber, SubNumber};
use crate::record::read_replay;
use crate::retained::Retained;
use crate::session::{Extra, Link, Rested, Session, Subscription, Waiting};
use crate::shard::Shard;
use crate::state::State;
use crate::weight;
use crate::will::{DetachedWill, Will};
use crate::wire::{Reader, RecordError};

use super::write::unzigzag;
use super::{
    EXPIRES, HAS_EXPIRY, HAS_ID, HAS_WILL, IDS, LATE, LEFT, Marks, PICK, PLACED, QOS2, RETAIN,
    Section, TAKEN, UP, VOLATILE, WILL_DUE,
};

/// Why an image is refused: it is damaged, or none of ours.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ImageError {
    /// The bytes of an entry.
    #[error("an entry of section {0:?}: {1}")]
    Entry(Section, RecordError),
    /// Entries do not ascend.
    #[error("an entry of section {0:?} is out of order")]
    Order(Section),
    /// The entries do not belong together.
    #[error("an image holds no consistent state: {0}")]
    State(#[from] Violation),
}

/// A state that is read from the entries of an image, of which it takes what its shard owns.
#[derive(Debug)]
pub struct Loader {
    state: State,
    /// Queues of sessions that are down stay in the image if their first block has so many bytes.
    leaves_from: Option<usize>,
    /// Where reading is, to refuse what does not ascend.
    last: Option<(Section, Vec<u8>)>,
}

impl Loader {
    /// Begins with nothing.
    pub fn new(shard: Shard) -> Self {
        Self { state: State::new(shard), leaves_from: None, last: None }
    }

    /// Begins with nothing, and leaves in the image the queues of clients that are away, unless
    /// their first entry has less than `least` bytes: see [`State::untouched`]. They are looked at
    /// like all others.
    pub fn leaving_queues(shard: Shard, least: usize) -> Self {
        Self { leaves_from: Some(least), ..Self::new(shard) }
    }

    /// Takes the next entry, in the order of the image.
    pub fn entry(&mut self, section: Section, key: &[u8], value: &[u8]) -> Result<(), ImageError> {
        match &mut self.last {
            Some((last, last_key)) => {
                if (*last, &last_key[..]) >= (section, key) {
                    return Err(ImageError::Order(section));
                }
                *last = section;
                last_key.clear();
                last_key.extend_from_slice(key);
            }
            None => self.last = Some((section, key.to_vec())),
        }
        let value = Reader::new(value);
        self.take(section, key, value).map_err(|error| ImageError::Entry(section, error))
    }

    /// The state, once all entries are in.
    pub fn finish(mut self) -> Result<State, ImageError> {
        for number in self.state.session_numbers() {
            self.state.change(number, |session, _| session.queue.restored());
        }
        invariant::check(&self.state)?;
        Ok(self.state)
    }

    fn take(&mut self, section: Section, key: &[u8], value: Reader<'_>) -> Result<(), RecordError> {
        let mut of = Reader::new(key);
        match section {
            Section::Marks => self.marks(value)?,
            Section::Sessions => self.session(session_of(&mut of)?, value)?,
            Section::Subscriptions => {
                let session = session_of(&mut of)?;
                let number = SubNumber::new(u32::from_be_bytes(array(&mut of)?));
                self.subscription(session, number, value)?;
            }
            Section::Inbound => self.inbound(session_of(&mut of)?, value)?,
            Section::Queues => {
                let (session, first) = key_of(&mut of)?;
                self.queue(session, first, value)?;
            }
            Section::Wills => {
                let (session, lsn) = key_of(&mut of)?;
                self.will(session, Lsn::new(lsn), value)?;
            }
            Section::Ended => self.ended(session_of(&mut of)?, value)?,
            Section::Orphans => {
                let (session, number) = key_of(&mut of)?;
                self.orphan(session, number, value)?;
            }
            Section::Retained => self.retained(of.rest(), value)?,
            Section::Facts => self.fact(of.byte()?, of.rest(), value),
            Section::Replays => {
                let session = session_of(&mut of)?;
                let number = SubNumber::new(u32::from_be_bytes(array(&mut of)?));
                self.replay(session, number, value)?;
            }
        }
        of.end()
    }

    fn marks(&mut self, mut value: Reader<'_>) -> Result<(), RecordError> {
        let marks = Marks::read(value.rest())?;
        self.state.applied = marks.applied;
        self.state.next_session = marks.next_session;
        Ok(())
    }

    fn session(&mut self, number: SessionNumber, value: Reader<'_>) -> Result<(), RecordError> {
        let session = read_session(number, value)?;
        let client = session.client();
        if self.state.owns_session(client) {
            if self.state.clients.contains_key(client) {
                return Err(RecordError::Value("second session of a client"));
            }
            self.state.insert(session);
        }
        Ok(())
    }

    fn subscription(
        &mut self,
        session: SessionNumber,
        number: SubNumber,
        mut value: Reader<'_>,
    ) -> Result<(), RecordError> {
        let flags = value.byte()?;
        let Some(session) = self.state.sessions.get_mut(&session) else { return Ok(()) };
        if flags == LEFT {
            let filter = filter(value.rest())?;
            session.left_mut().push((number, filter.into()));
            self.state.session_memory += weight::of_subscription(filter);
            return Ok(());
        }
        let options = SubscribeOptions::from_byte(flags & !HAS_ID)
            .map_err(|_| RecordError::Value("set of subscription options"))?;
        let id = if flags & HAS_ID == 0 { None } else { Some(value.subscription_id()?) };
        let sub = Subscription { number, options, id };
        let filter = filter(value.rest())?;
        match session.subscriptions.set(filter, sub) {
            None => {
                self.state.session_memory += weight::of_subscription(filter);
                Ok(())
            }
            Some(_) => Err(RecordError::Value("second subscription under a filter")),
        }
    }

    fn replay(
        &mut self,
        session: SessionNumber,
        number: SubNumber,
        mut value: Reader<'_>,
    ) -> Result<(), RecordError> {
        let replay = read_replay(&mut value)?;
        if let Some(session) = self.state.sessions.get_mut(&session) {
            session.set_replay(number, Some(replay));
        }
        value.end()
    }

    fn inbound(
        &mut self,
        session: SessionNumber,
        mut value: Reader<'_>,
    ) -> Result<(), RecordError> {
        const ID: RecordError = RecordError::Value("packet identifier");
        let Some(session) = self.state.sessions.get_mut(&session) else { return Ok(()) };
        let mut id = 0_u16;
        while !value.is_empty() {
            id = id.checked_add(value.int16()?).ok_or(ID)?;
            let opened = zzq_types::PacketId::new(id).is_some_and(|id| session.inbound.open(id));
            if !opened {
                return Err(ID);
            }
        }
        Ok(())
    }

    fn queue(
        &mut self,
        session: SessionNumber,
        first: u64,
        value: Reader<'_>,
    ) -> Result<(), RecordError> {
        let long = self.leaves_from.is_some_and(|least| value.len() >= least);
        let untouched = &mut 0;
        let taken = self.state.change(session, |session, _| {
            let has_left = session.queue.untouched().is_some();
            let begins = session.queue.is_empty() && long && session.may_leave_queue();
            let leaves = has_left || begins;
            each_waiting(first, value, |waiting, late, extra| {
                let taken = if leaves {
                    session.queue.leave(&waiting, extra.as_ref())
                } else {
                    session.queue.restore(&waiting, late, extra)
                };
                if taken { Ok(()) } else { Err(RecordError::Value("message of a queue")) }
            })?;
            *untouched += usize::from(leaves && !has_left);
            Ok(())
        });
        self.state.untouched += *untouched;
        taken.unwrap_or(Ok(()))
    }

    fn will(
        &mut self,
        session: SessionNumber,
        lsn: Lsn,
        mut value: Reader<'_>,
    ) -> Result<(), RecordError> {
        let (client, due_ms) = (value.text()?, value.int()?);
        if self.state.owns_session(client) {
            let client = Arc::from(client);
            self.state.detach_will(session, lsn, DetachedWill { client, due_ms });
        }
        value.end()
    }

    fn ended(&mut self, session: SessionNumber, mut value: Reader<'_>) -> Result<(), RecordError> {
        let volatile = value.flags(VOLATILE)? != 0;
        let client = value.text()?;
        let last = within(value.int()?, QueueNumber::MAX.get())?;
        let mut shares = BTreeMap::new();
        while !value.is_empty() {
            let number = SubNumber::new(value.int32()?);
            shares.insert(number, value.text()?.into());
        }
        if self.state.owns_session(client) {
            let client = Arc::from(client);
            let ended = Ended { client, volatile, last, shares, orphans: BTreeMap::new() };
            self.state.ended.insert(session, ended);
        }
        Ok(())
    }

    fn orphan(
        &mut self,
        session: SessionNumber,
        number: u64,
        value: Reader<'_>,
    ) -> Result<(), RecordError> {
        let orphan = read_orphan(value)?;
        if let Some(ended) = self.state.ended.get_mut(&session) {
            ended.orphans.insert(number, orphan);
        }
        Ok(())
    }

    fn retained(&mut self, topic: &[u8], value: Reader<'_>) -> Result<(), RecordError> {
        let topic = core::str::from_utf8(topic).map_err(|_| RecordError::Text)?;
        let topic = TopicName::new(topic).map_err(|_| RecordError::Value("topic"))?;
        let retained = read_retained(value)?;
        if self.state.owns_topic(topic.as_str()) {
            self.state.set_retained(topic, retained);
        }
        Ok(())
    }

    fn fact(&mut self, kind: u8, key: &[u8], mut value: Reader<'_>) {
        if self.state.owns_fact(kind, key) {
            self.state.facts.set(kind, key.to_vec(), value.rest());
        }
    }
}

/// A session as its entry has it, without what stands in other sections.
pub(super) fn read_session(
    number: SessionNumber,
    mut value: Reader<'_>,
) -> Result<Session, RecordError> {
    let flags = value.flags(UP | HAS_WILL | WILL_DUE)?;
    let client = value.text()?;
    let expiry_s = value.int32()?;
    let mut session = Session::new(number, Arc::from(client), expiry_s, value.int16()?);
    session.next_sub = SubNumber::new(value.int32()?);
    let mut mark = || value.int().and_then(|n| within(n, QueueNumber::MAX.get()));
    let (last, dup_through, doubtful) = (mark()?, mark()?, mark()?);
    session.queue = Rested::with_marks(last, dup_through, doubtful, Lsn::new(value.int()?));
    if flags & UP == 0 {
        session.link = Link::Down { since_ms: value.int()? };
    }
    if flags & HAS_WILL != 0 {
        let (lsn, delay_s) = (Lsn::new(value.int()?), value.int32()?);
        let due_ms = if flags & WILL_DUE == 0 { None } else { Some(value.int()?) };
        session.will = Some(Box::new(Will { lsn, delay_s, due_ms }));
    }
    value.end()?;
    Ok(session)
}

/// What can be told of a session at a glance.
pub(super) struct Glance<'a> {
    pub(super) is_up: bool,
    pub(super) client: &'a str,
    pub(super) expiry_s: u32,
}

/// The beginning of a session's entry.
pub(super) fn glance<'a>(
    key: &[u8],
    value: &'a [u8],
) -> Result<(SessionNumber, Glance<'a>), RecordError> {
    let number = session_of(&mut Reader::new(key))?;
    let mut value = Reader::new(value);
    let is_up = value.flags(UP | HAS_WILL | WILL_DUE)? & UP != 0;
    Ok((number, Glance { is_up, client: value.text()?, expiry_s: value.int32()? }))
}

/// The open messages of a block of a queue, in their order, each with whether a late decision
/// brought it.
pub(super) fn each_waiting(
    first: u64,
    mut value: Reader<'_>,
    mut each: impl FnMut(Waiting, bool, Option<Extra>) -> Result<(), RecordError>,
) -> Result<(), RecordError> {
    let mut number = within(first, QueueNumber::MAX.get())?;
    let mut lsn = 0;
    while !value.is_empty() {
        number = number.saturating_add(value.int()?);
        let (waiting, late, extra) = waiting(&mut value, number, lsn)?;
        lsn = waiting.lsn.get();
        each(waiting, late, extra)?;
    }
    Ok(())
}

pub(super) fn read_orphan(mut value: Reader<'_>) -> Result<OrphanMessage, RecordError> {
    let flags = value.flags(3 | HAS_EXPIRY)?;
    let qos = QoS::from_bits(flags & 3).ok_or(RecordError::Value("QoS"))?;
    let (lsn, size) = (Lsn::new(value.int()?), value.int32()?);
    let pick = SubNumber::new(value.int32()?);
    let expires_ms = if flags & HAS_EXPIRY == 0 { None } else { Some(value.int()?) };
    value.end()?;
    Ok(OrphanMessage { lsn, pick, qos, size, expires_ms })
}

pub(super) fn read_retained(mut value: Reader<'_>) -> Result<Retained, RecordError> {
    let flags = value.flags(3 | HAS_EXPIRY)?;
    let qos = QoS::from_bits(flags & 3).ok_or(RecordError::Value("QoS"))?;
    let (lsn, time_ms, size) = (Lsn::new(value.int()?), value.int()?, value.int32()?);
    let expiry = if flags & HAS_EXPIRY == 0 { None } else { Some(value.int32()?) };
    value.end()?;
    Ok(Retained { lsn, time_ms, expiry, qos, size })
}

fn waiting(
    value: &mut Reader<'_>,
    number: u64,
    lsn_before: u64,
) -> Result<(Waiting, bool, Option<Extra>), RecordError> {
    let flags = value.flags(QOS2 | RETAIN | TAKEN | LATE | PICK | IDS | EXPIRES | PLACED)?;
    let has = |flag: u8| flags & flag != 0;
    let lsn = Lsn::new(lsn_before.wrapping_add(unzigzag(value.int()?)));
    let waiting = Waiting {
        number: QueueNumber::new(number),
        lsn,
        queued_at: lsn,
        qos: if has(QOS2) { QoS::ExactlyOnce } else { QoS::AtLeastOnce },
        retain: has(RETAIN),
        taken: has(TAKEN),
        placed: has(PLACED),
        size: value.int32()?,
    };
    let pick = if has(PICK) { Some(SubNumber::new(value.int32()?)) } else { None };
    let ids = if has(IDS) { SubscriptionIds::read(value)? } else { SubscriptionIds::NONE };
    let expires_ms = if has(EXPIRES) { Some(value.int()?) } else { None };
    let extra = Extra { ids: ids.as_bytes().into(), pick, expires_ms };
    Ok((waiting, has(LATE), (flags & (PICK | IDS | EXPIRES) != 0).then_some(extra)))
}

/// A key of a session and a number.
pub(super) fn key_of(key: &mut Reader<'_>) -> Result<(SessionNumber, u64), RecordError> {
    Ok((session_of(key)?, u64::from_be_bytes(array(key)?)))
}

pub(super) fn session_of(key: &mut Reader<'_>) -> Result<SessionNumber, RecordError> {
    let number = SessionNumber::new(u64::from_be_bytes(array(key)?));
    number.ok_or(RecordError::Value("session number"))
}

fn array<const N: usize>(reader: &mut Reader<'_>) -> Result<[u8; N], RecordError> {
    let bytes = reader.take(N)?;
    bytes.first_chunk::<N>().copied().ok_or(RecordError::Truncated)
}

fn filter(bytes: &[u8]) -> Result<&str, RecordError> {
    let text = core::str::from_utf8(bytes).map_err(|_| RecordError::Text)?;
    match Filter::new(text) {
        Ok(_) => Ok(text),
        Err(_) => Err(RecordError::Value("filter")),
    }
}

fn within(number: u64, max: u64) -> Result<u64, RecordError> {
    if number <= max { Ok(number) } else { Err(RecordError::Value("queue number")) }
}
