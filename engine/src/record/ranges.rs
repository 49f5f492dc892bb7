//! Records that end the waiting of messages: receipts and expiries, as ranges of queue numbers.

use core::iter::FusedIterator;

use zzq_types::{Lsn, TopicName};

use crate::number::{QueueNumber, SessionNumber};
use crate::wire::{Reader, RecordError, put, put_bytes, read_topic};

use super::list::{List, ListBuf, Listed};

/// Destinations have taken messages: the sets of all sessions of one turn of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receipt<'a> {
    /// Only [`Closing::Taken`] and [`Closing::Closed`].
    pub sets: RangeSets<'a>,
}

/// Messages are given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expire<'a> {
    /// Only [`Closing::Expired`] and [`Closing::Dropped`].
    pub sets: RangeSets<'a>,
    /// Retained messages.
    pub topics: ExpiredTopics<'a>,
}

/// Why messages leave a queue, or stop waiting for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Closing {
    /// PUBREC: the client has the message, PUBREL and PUBCOMP remain.
    Taken,
    /// PUBACK, PUBCOMP or a PUBREC that refuses.
    Closed,
    /// The message expired while it waited.
    Expired,
    /// The broker dropped it by a policy.
    Dropped,
}

/// Queue numbers of one session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RangeSet<'a> {
    /// Whose, also an ended session's whose orphans expire.
    pub session: SessionNumber,
    /// Why.
    pub closing: Closing,
    /// Which numbers, ascending.
    pub ranges: NumberRanges<'a>,
}

/// Queue numbers one behind the other, both ends among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NumberRange {
    /// The first.
    pub first: QueueNumber,
    /// The last, not below the first.
    pub last: QueueNumber,
}

/// A retained message that expired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpiredTopic<'a> {
    /// Its topic.
    pub topic: TopicName<'a>,
    /// Its record: one that replaced it meanwhile stays.
    pub lsn: Lsn,
}

/// The list of [`RangeSet`]s.
#[derive(Debug, Clone, Copy)]
pub enum RangeList {}
/// The sets of a record.
pub type RangeSets<'a> = List<'a, RangeList>;
/// The sets of a record under construction.
pub type RangeSetsBuf = ListBuf<RangeList>;

/// The list of [`ExpiredTopic`]s.
#[derive(Debug, Clone, Copy)]
pub enum TopicList {}
/// The retained messages of a record.
pub type ExpiredTopics<'a> = List<'a, TopicList>;
/// The retained messages of a record under construction.
pub type ExpiredTopicsBuf = ListBuf<TopicList>;

impl NumberRange {
    /// One number alone.
    pub const fn one(number: QueueNumber) -> Self {
        Self { first: number, last: number }
    }
}

impl<'a> Receipt<'a> {
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.sets.as_bytes());
    }

    pub(super) fn read(reader: &mut Reader<'a>) -> Result<Self, RecordError> {
        let sets = RangeSets::parse(reader.rest())?;
        check(sets, |closing| matches!(closing, Closing::Taken | Closing::Closed))?;
        Ok(Self { sets })
    }
}

impl<'a> Expire<'a> {
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        put_bytes(out, self.sets.as_bytes());
        out.extend_from_slice(self.topics.as_bytes());
    }

    pub(super) fn read(reader: &mut Reader<'a>) -> Result<Self, RecordError> {
        let sets = RangeSets::parse(reader.bytes()?)?;
        check(sets, |closing| matches!(closing, Closing::Expired | Closing::Dropped))?;
        Ok(Self { sets, topics: List::parse(reader.rest())? })
    }
}

fn check(sets: RangeSets<'_>, good: impl Fn(Closing) -> bool) -> Result<(), RecordError> {
    if sets.iter().all(|set| good(set.closing)) {
        Ok(())
    } else {
        Err(RecordError::Value("way to close"))
    }
}

impl RangeSetsBuf {
    /// Appends numbers of a session; nothing for none.
    ///
    /// # Panics
    /// If the ranges do not ascend or overlap, or pass [`QueueNumber::MAX`].
    pub fn push_ranges(
        &mut self,
        session: SessionNumber,
        closing: Closing,
        ranges: impl IntoIterator<Item = NumberRange>,
    ) {
        let mut ranges = ranges.into_iter().peekable();
        if ranges.peek().is_none() {
            return;
        }
        let out = self.bytes_mut();
        put_head(out, session, closing);
        let mut end = 0;
        while let Some(range) = ranges.next() {
            assert!(end < range.first.get() && range.first <= range.last, "ranges ascend");
            assert!(range.last <= QueueNumber::MAX, "a number no record may name");
            put(out, range.first.get() - end - 1);
            let more = u64::from(ranges.peek().is_some());
            put(out, (range.last.get() - range.first.get()) << 1 | more);
            end = range.last.get();
        }
    }
}

fn put_head(out: &mut Vec<u8>, session: SessionNumber, closing: Closing) {
    assert!(session.get() <= u64::MAX >> 2, "session numbers end at 62 bits");
    put(out, session.get() << 2 | closing as u64);
}

impl Listed for RangeList {
    type Item<'a> = RangeSet<'a>;

    fn write(item: &RangeSet<'_>, out: &mut Vec<u8>) {
        assert!(!item.ranges.0.is_empty(), "a set names a number");
        put_head(out, item.session, item.closing);
        out.extend_from_slice(item.ranges.0);
    }

    fn read<'a>(reader: &mut Reader<'a>) -> Result<RangeSet<'a>, RecordError> {
        let head = reader.int()?;
        let session = SessionNumber::new(head >> 2).ok_or(RecordError::Value("session number"))?;
        let closing = match head & 3 {
            0 => Closing::Taken,
            1 => Closing::Closed,
            2 => Closing::Expired,
            _ => Closing::Dropped,
        };
        let mut whole = *reader;
        let mut end = 0;
        while next_range(reader, &mut end)?.1 {}
        let ranges = NumberRanges(whole.take(whole.len() - reader.len())?);
        Ok(RangeSet { session, closing, ranges })
    }
}

/// Reads a range that begins behind `end`; returns it and whether another follows.
fn next_range(reader: &mut Reader<'_>, end: &mut u64) -> Result<(NumberRange, bool), RecordError> {
    const RANGE: RecordError = RecordError::Value("range of queue numbers");
    let first = end.checked_add(reader.int()?).and_then(|n| n.checked_add(1)).ok_or(RANGE)?;
    let tail = reader.int()?;
    let last = first.checked_add(tail >> 1).ok_or(RANGE)?;
    if last > QueueNumber::MAX.get() {
        return Err(RANGE);
    }
    *end = last;
    let range = NumberRange { first: QueueNumber::new(first), last: QueueNumber::new(last) };
    Ok((range, tail & 1 != 0))
}

/// Checked ranges of queue numbers, ascending and without overlap.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct NumberRanges<'a>(&'a [u8]);

impl core::fmt::Debug for NumberRanges<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_list().entries(*self).finish()
    }
}

impl<'a> IntoIterator for NumberRanges<'a> {
    type Item = NumberRange;
    type IntoIter = NumberRangesIter<'a>;

    fn into_iter(self) -> NumberRangesIter<'a> {
        NumberRangesIter { reader: Reader::new(self.0), end: 0 }
    }
}

/// The ranges of a set, ascending.
#[derive(Clone, Debug)]
pub struct NumberRangesIter<'a> {
    reader: Reader<'a>,
    end: u64,
}

impl Iterator for NumberRangesIter<'_> {
    type Item = NumberRange;

    fn next(&mut self) -> Option<NumberRange> {
        if self.reader.is_empty() {
            return None;
        }
        next_range(&mut self.reader, &mut self.end).ok().map(|(range, _)| range)
    }
}

impl FusedIterator for NumberRangesIter<'_> {}

impl Listed for TopicList {
    type Item<'a> = ExpiredTopic<'a>;

    fn write(item: &ExpiredTopic<'_>, out: &mut Vec<u8>) {
        put_bytes(out, item.topic.as_str().as_bytes());
        put(out, item.lsn.get());
    }

    fn read<'a>(reader: &mut Reader<'a>) -> Result<ExpiredTopic<'a>, RecordError> {
        Ok(ExpiredTopic { topic: read_topic(reader)?, lsn: Lsn::new(reader.int()?) })
    }
}
