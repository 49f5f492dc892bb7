//! Topic indexes: where the messages of each topic lie in a closed segment of the log, so that who
//! wants few of them does not read the others.
//!
//! Owns: what stands in one. A topic is a name of some bytes here. An index can be made again from
//! its segment: one that is damaged, or does not fit its segment, may go.
//! Does not know: how records are read, which topics somebody wants.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};

use zzq_wal::Lsn;
use zzq_wal::disk::{Disk, DiskFile};
use zzq_wal::format::segment::Identity;

use crate::error::{ReadError, WriteError};
use crate::format::int::{put, put_long, take, take_long};
use crate::format::{Heading, Kind};
use crate::pace::{Pace, at_full_speed};
use crate::volume::Volume;
use crate::writer::Writer;

/// Topics, with their rank and how many messages are of each.
const TOPICS: u16 = 1;
/// Places of the messages of a topic, by its rank.
const PLACES: u16 = 2;
/// Messages in parts, of any topic, by LSN.
const PARTS: u16 = 3;

/// The version of what stands in these sections.
const CONTENTS: u32 = 1;

/// Bytes that a topic takes in a draft beside its name and its messages, about.
const TOPIC_BYTES: usize = 160;

/// A message, and where its record lies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct TopicPlace {
    /// Its place in the log.
    pub lsn: Lsn,
    /// Of its record in the segment.
    pub offset: u64,
    /// Log time of its group in ms.
    pub time_ms: u64,
}

/// A topic of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopicEntry<'a> {
    /// Its bytes.
    pub name: &'a [u8],
    /// Its place among all of them, from 0.
    pub rank: u32,
    /// How many messages of the segment are of it.
    pub messages: u32,
}

/// An index that is being made in memory, while the records of its segment are read.
#[derive(Debug)]
pub struct TopicsDraft {
    segment: u64,
    first: Lsn,
    topics: BTreeMap<Box<[u8]>, Places>,
    in_parts: Vec<Lsn>,
    bytes: usize,
}

/// Messages of one topic in their order: the first, and the distances of LSN, offset and time from
/// each to the next.
#[derive(Debug)]
struct Places {
    front: TopicPlace,
    last: TopicPlace,
    count: u32,
    rest: Vec<u8>,
}

impl TopicsDraft {
    /// For the segment of this number, whose first record is `first`.
    pub const fn new(segment: u64, first: Lsn) -> Self {
        Self { segment, first, topics: BTreeMap::new(), in_parts: Vec::new(), bytes: 0 }
    }

    /// The number of the segment.
    pub const fn segment(&self) -> u64 {
        self.segment
    }

    /// About how much memory it takes.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// A message of a topic; they ascend in all that is said of them.
    pub fn message(&mut self, topic: &[u8], place: TopicPlace) {
        let Some(places) = self.topics.get_mut(topic) else {
            let places = Places { front: place, last: place, count: 1, rest: Vec::new() };
            self.topics.insert(topic.into(), places);
            self.bytes += topic.len() + TOPIC_BYTES;
            return;
        };
        let before = places.rest.len();
        put_long(&mut places.rest, place.lsn.get().saturating_sub(places.last.lsn.get()));
        put_long(&mut places.rest, place.offset.saturating_sub(places.last.offset));
        put_long(&mut places.rest, place.time_ms.saturating_sub(places.last.time_ms));
        places.last = place;
        places.count += 1;
        self.bytes += places.rest.len() - before;
    }

    /// A message whose record is in parts, so that it lies at no one place.
    pub fn in_parts(&mut self, lsn: Lsn) {
        self.in_parts.push(lsn);
        self.bytes += size_of::<Lsn>();
    }

    /// The topics that begin with `prefix`, in their order, with the number of their messages and
    /// where these lie.
    pub fn topics<'d>(
        &'d self,
        prefix: &'d [u8],
    ) -> impl Iterator<Item = (&'d [u8], u32, impl Iterator<Item = TopicPlace> + 'd)> {
        let from = (Bound::Included(prefix), Bound::Unbounded);
        let near = self.topics.range::<[u8], _>(from);
        let near = near.take_while(move |(topic, _)| topic.starts_with(prefix));
        near.map(|(topic, places)| (&**topic, places.count, places.iter()))
    }

    /// Messages whose records are in parts.
    pub fn all_in_parts(&self) -> &[Lsn] {
        &self.in_parts
    }

    /// Writes it as the index of its segment, all of which was said: the last record and its time.
    pub fn write<D: Disk>(
        &self,
        disk: &D,
        identity: Identity,
        (last, time_ms): (Lsn, u64),
        pace: Pace<'_>,
    ) -> Result<TopicsFile<D::File>, WriteError> {
        let heading = Heading {
            number: self.segment,
            lsn: last,
            time_ms,
            before: Some((self.segment, self.first)),
            contents: CONTENTS,
            ..Heading::new(Kind::Topics, identity)
        };
        let mut writer = Writer::begin(disk, heading, pace)?;
        let mut value = Vec::new();
        for (rank, (topic, places)) in (0..).zip(&self.topics) {
            value.clear();
            put(&mut value, rank);
            put(&mut value, places.count);
            writer.entry(TOPICS, topic, &value)?;
        }
        for (rank, places) in (0_u32..).zip(self.topics.values()) {
            value.clear();
            put_long(&mut value, places.front.lsn.get().saturating_sub(self.first.get()));
            put_long(&mut value, places.front.offset);
            put_long(&mut value, time_ms.saturating_sub(places.front.time_ms));
            value.extend_from_slice(&places.rest);
            writer.entry(PLACES, &rank.to_be_bytes(), &value)?;
        }
        for lsn in &self.in_parts {
            writer.entry(PARTS, &lsn.get().to_be_bytes(), &[])?;
        }
        Ok(TopicsFile { volume: writer.finish()?, first: self.first })
    }
}

impl Places {
    fn iter(&self) -> impl Iterator<Item = TopicPlace> {
        let (mut rest, mut next) = (&self.rest[..], Some(self.front));
        std::iter::from_fn(move || {
            let place = next?;
            next = behind(place, &mut rest);
            Some(place)
        })
    }
}

/// The place behind another one.
fn behind(before: TopicPlace, rest: &mut &[u8]) -> Option<TopicPlace> {
    let (lsn, offset, time_ms) = (take_long(rest)?, take_long(rest)?, take_long(rest)?);
    Some(TopicPlace {
        lsn: Lsn::new(before.lsn.get().checked_add(lsn).filter(|_| lsn > 0)?),
        offset: before.offset.checked_add(offset)?,
        time_ms: before.time_ms.checked_add(time_ms)?,
    })
}

/// The index of a segment.
#[derive(Clone, Debug)]
pub struct TopicsFile<F> {
    volume: Volume<F>,
    first: Lsn,
}

impl<F: DiskFile> TopicsFile<F> {
    /// Opens the index of the segment of this number. What it says of topics is checked when it is
    /// read.
    pub fn open<D: Disk<File = F>>(disk: &D, segment: u64) -> Result<Self, ReadError> {
        let volume = Volume::open(disk, Kind::Topics, segment)?;
        let Heading { before, lsn, contents, .. } = *volume.heading();
        match before {
            _ if contents != CONTENTS => {
                let reason = format!("it is an index of version {contents}, not {CONTENTS}");
                Err(volume.damage(0, reason).into())
            }
            Some((number, first)) if number == segment && first <= lsn => {
                Ok(Self { volume, first })
            }
            _ => Err(volume.damage(0, "it is the index of no segment").into()),
        }
    }

    /// The file as a volume.
    pub const fn volume(&self) -> &Volume<F> {
        &self.volume
    }

    /// The first record of its segment.
    pub const fn first(&self) -> Lsn {
        self.first
    }

    /// The last record of its segment.
    pub const fn last(&self) -> Lsn {
        self.volume.heading().lsn
    }

    /// Calls `visit` with the topics that begin with `prefix`, in their order, until it has enough.
    pub fn topics(
        &self,
        prefix: &[u8],
        mut visit: impl FnMut(TopicEntry<'_>) -> ControlFlow<()>,
    ) -> Result<(), ReadError> {
        let mut cursor = self.volume.seek(TOPICS, prefix)?;
        while let Some(entry) = cursor.next_entry()? {
            if !entry.key.starts_with(prefix) {
                break;
            }
            let mut value = entry.value;
            let (rank, messages) = (take(&mut value), take(&mut value));
            let (Some(rank), Some(messages), true) = (rank, messages, value.is_empty()) else {
                return Err(self.broken("a topic without its number of messages"));
            };
            if visit(TopicEntry { name: entry.key, rank, messages }).is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Adds the places of the messages of the topic of this rank.
    pub fn places(&self, rank: u32, out: &mut Vec<TopicPlace>) -> Result<(), ReadError> {
        let Some(value) = self.volume.get(PLACES, &rank.to_be_bytes())? else {
            return Err(self.broken("a topic without places"));
        };
        let (mut rest, mut before) = (&value[..], None);
        while !rest.is_empty() {
            let Some(place) = self.place(&mut rest, before) else {
                return Err(self.broken("messages that lie nowhere"));
            };
            out.push(place);
            before = Some(place);
        }
        Ok(())
    }

    /// The place behind the one before, if that is one of the segment.
    fn place(&self, rest: &mut &[u8], before: Option<TopicPlace>) -> Option<TopicPlace> {
        let place = match before {
            Some(before) => behind(before, rest)?,
            None => TopicPlace {
                lsn: Lsn::new(self.first.get().checked_add(take_long(rest)?)?),
                offset: take_long(rest)?,
                time_ms: self.volume.heading().time_ms.checked_sub(take_long(rest)?)?,
            },
        };
        (place.lsn <= self.last()).then_some(place)
    }

    /// Messages whose records are in parts, of topics that are not said.
    pub fn in_parts(&self) -> Result<Vec<Lsn>, ReadError> {
        let mut entries = self.volume.entries(|section| section == PARTS, at_full_speed());
        let mut all = Vec::new();
        while let Some(entry) = entries.next_entry()? {
            let lsn = entry.key.try_into().ok().map(|key| Lsn::new(u64::from_be_bytes(key)));
            let Some(lsn) = lsn.filter(|lsn| (self.first..=self.last()).contains(lsn)) else {
                return Err(self.broken("a message in parts that is not of its segment"));
            };
            all.push(lsn);
        }
        Ok(all)
    }

    /// Its bytes are what was written, and no writer writes this.
    fn broken(&self, reason: &str) -> ReadError {
        self.volume.damage(0, reason).into()
    }
}
