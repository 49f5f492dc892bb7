//! The record of history: older messages for a queue, and how far a subscription has come.

use zzq_types::Lsn;

use crate::number::{SessionNumber, SubNumber};
use crate::wire::{Reader, RecordError, put, read_session};

use super::list::List;
use super::publish::LateItems;

/// History that a subscription takes, and that it has taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct History<'a> {
    /// Whose.
    pub session: SessionNumber,
    /// The subscription within its session.
    pub sub: SubNumber,
    /// The place that it had come to.
    pub from: Lsn,
    /// The place that it has come to with this record, not before the other.
    pub next: Lsn,
    /// That may be all: see [`Replay`](crate::session::Replay).
    pub may_be_all: bool,
    /// What of the history between enters the queue, in order; picks and orphans have no meaning.
    pub items: LateItems<'a>,
}

impl<'a> History<'a> {
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        put(out, self.session.get());
        put(out, u64::from(self.sub.get()));
        put(out, self.from.get());
        let way = self.next.get().saturating_sub(self.from.get());
        put(out, way << 1 | u64::from(self.may_be_all));
        out.extend_from_slice(self.items.as_bytes());
    }

    pub(super) fn read(reader: &mut Reader<'a>) -> Result<Self, RecordError> {
        let (session, sub) = (read_session(reader)?, SubNumber::new(reader.int32()?));
        let (from, way) = (reader.int()?, reader.int()?);
        let next = from.checked_add(way >> 1).ok_or(RecordError::Value("place in the log"))?;
        let (from, next) = (Lsn::new(from), Lsn::new(next));
        let items = List::parse(reader.rest())?;
        Ok(Self { session, sub, from, next, may_be_all: way & 1 != 0, items })
    }
}
