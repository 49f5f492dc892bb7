//! Records of subscriptions: what one SUBSCRIBE or UNSUBSCRIBE names.

use zzq_types::{Filter, Lsn, SubscribeOptions, SubscriptionId};

use crate::number::{SessionNumber, SubNumber};
use crate::session::Replay;
use crate::wire::{Reader, RecordError, put, put_bytes, read_session};

use super::list::{List, ListBuf, Listed};

/// The subscriptions of one SUBSCRIBE that were granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subscribe<'a> {
    /// Whose.
    pub session: SessionNumber,
    /// The subscriptions in the order of the packet.
    pub items: SubscribeItems<'a>,
}

/// One subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubscribeItem<'a> {
    /// Names the subscription within its session: above all before it, unless it replaces one,
    /// which keeps its number.
    pub number: SubNumber,
    /// The filter as it came, `$share/<group>/` kept.
    pub filter: &'a str,
    /// The options as granted.
    pub options: SubscribeOptions,
    /// The identifier that is sent along.
    pub id: Option<SubscriptionId>,
    /// Where it starts, or how far it has come, if that is in the past.
    pub replay: Option<Replay>,
}

/// The filters of one UNSUBSCRIBE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unsubscribe<'a> {
    /// Whose.
    pub session: SessionNumber,
    /// The filters as they came, `$share/<group>/` kept.
    pub filters: UnsubscribeItems<'a>,
}

/// The list of [`SubscribeItem`]s.
#[derive(Debug, Clone, Copy)]
pub enum SubscribeList {}
/// The subscriptions of a record.
pub type SubscribeItems<'a> = List<'a, SubscribeList>;
/// The subscriptions of a record under construction.
pub type SubscribeItemsBuf = ListBuf<SubscribeList>;

/// The list of filters.
#[derive(Debug, Clone, Copy)]
pub enum FilterList {}
/// The filters of a record.
pub type UnsubscribeItems<'a> = List<'a, FilterList>;
/// The filters of a record under construction.
pub type UnsubscribeItemsBuf = ListBuf<FilterList>;

impl<'a> Subscribe<'a> {
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        put(out, self.session.get());
        out.extend_from_slice(self.items.as_bytes());
    }

    pub(super) fn read(reader: &mut Reader<'a>) -> Result<Self, RecordError> {
        Ok(Self { session: read_session(reader)?, items: List::parse(reader.rest())? })
    }
}

impl<'a> Unsubscribe<'a> {
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        put(out, self.session.get());
        out.extend_from_slice(self.filters.as_bytes());
    }

    pub(super) fn read(reader: &mut Reader<'a>) -> Result<Self, RecordError> {
        Ok(Self { session: read_session(reader)?, filters: List::parse(reader.rest())? })
    }
}

/// These stand in the options byte, in bits that MQTT reserves.
const HAS_ID: u8 = 1 << 6;
const HAS_REPLAY: u8 = 1 << 7;

impl Listed for SubscribeList {
    type Item<'a> = SubscribeItem<'a>;

    fn write(item: &SubscribeItem<'_>, out: &mut Vec<u8>) {
        let has_id = if item.id.is_some() { HAS_ID } else { 0 };
        let has_replay = if item.replay.is_some() { HAS_REPLAY } else { 0 };
        out.push(item.options.to_byte() | has_id | has_replay);
        put(out, u64::from(item.number.get()));
        if let Some(id) = item.id {
            put(out, u64::from(id.get()));
        }
        if let Some(replay) = item.replay {
            put_replay(out, replay);
        }
        put_bytes(out, item.filter.as_bytes());
    }

    fn read<'a>(reader: &mut Reader<'a>) -> Result<SubscribeItem<'a>, RecordError> {
        let flags = reader.byte()?;
        let options = SubscribeOptions::from_byte(flags & !(HAS_ID | HAS_REPLAY))
            .map_err(|_| RecordError::Value("set of subscription options"))?;
        let number = SubNumber::new(reader.int32()?);
        let id = if flags & HAS_ID == 0 { None } else { Some(reader.subscription_id()?) };
        let replay = if flags & HAS_REPLAY == 0 { None } else { Some(read_replay(reader)?) };
        Ok(SubscribeItem { number, filter: FilterList::read(reader)?, options, id, replay })
    }
}

pub(crate) fn put_replay(out: &mut Vec<u8>, replay: Replay) {
    put(out, replay.next.get());
    put(out, replay.since_ms);
    put(out, replay.passed_by.get() << 1 | u64::from(replay.is_live));
}

pub(crate) fn read_replay(reader: &mut Reader<'_>) -> Result<Replay, RecordError> {
    let (next, since_ms, passed_by) = (reader.int()?, reader.int()?, reader.int()?);
    Ok(Replay {
        next: Lsn::new(next),
        since_ms,
        passed_by: Lsn::new(passed_by >> 1),
        is_live: passed_by & 1 != 0,
    })
}

impl Listed for FilterList {
    type Item<'a> = &'a str;

    fn write(filter: &&str, out: &mut Vec<u8>) {
        put_bytes(out, filter.as_bytes());
    }

    fn read<'a>(reader: &mut Reader<'a>) -> Result<&'a str, RecordError> {
        let text = reader.text()?;
        match Filter::new(text) {
            Ok(_) => Ok(text),
            Err(_) => Err(RecordError::Value("filter")),
        }
    }
}
