//! Which segments of the log have a topic index, and what a filter finds in it: so that who wants
//! few messages does not read the others.
//!
//! Owns: the indexes, from the notes of whoever reads all of a closed segment to the removal when
//! the segment is gone. One that cannot be read, or is not its segment's, is none: it goes, and is
//! made anew by the next one who reads that segment.
//! Does not know: how records are read.
//! Assumes: the number of a segment is not used again, and what was read of it is committed: that
//! is never truncated.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use zzq_snapshot::{
    Listing, TopicEntry, TopicPlace, TopicsDraft, TopicsFile, at_full_speed, topics_name,
};
use zzq_types::{Lsn, TopicFilter, TopicName};
use zzq_wal::disk::Disk;
use zzq_wal::{KeptSegment, Log, ReadRecord, RecordPlace, Space};

/// Bytes of memory for the notes on one segment. One that takes more has no index.
const NOTES_MOST: usize = 32 << 20;

/// A filter that matches one in so many records reads all of them: blocks that hold one of them
/// follow one another then.
pub(super) const DENSE: usize = 16;

/// The indexes of a log.
pub(super) struct Topics<D: Disk> {
    log: Log<D>,
    /// Those that are there, by the first record of their segments: the last one, and the number.
    known: BTreeMap<Lsn, (Lsn, u64)>,
    /// Segments that get none: of too many topics, or it could not be written.
    without: BTreeSet<u64>,
}

/// What a filter finds in one segment, or in its front.
#[derive(Debug)]
pub(super) struct Plan {
    first: Lsn,
    last: Lsn,
    /// `None`: so many that reading all is less work.
    few: Option<Vec<Found>>,
}

/// A message that a filter matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Found {
    pub(super) lsn: Lsn,
    /// `None`: it is in parts, of a topic that is to be looked at.
    pub(super) place: Option<RecordPlace>,
    pub(super) time_ms: u64,
}

/// Notes on a segment that is being read from its first record on.
#[derive(Debug)]
pub(super) struct Noting {
    first: Lsn,
    draft: TopicsDraft,
    /// The record that comes next.
    next: Lsn,
    /// Of the record that came last.
    time_ms: u64,
}

impl<D: Disk> Topics<D> {
    /// Those beside a log; what is left of others is removed.
    pub(super) fn new(log: Log<D>) -> Self {
        let mut topics = Self { log, known: BTreeMap::new(), without: BTreeSet::new() };
        let Ok(there) = Listing::read(&**topics.log.disk()) else { return topics };
        let segments = closed(&topics.log);
        for &number in there.topics() {
            match segments.iter().find(|segment| segment.number == number) {
                Some(segment) => topics.learn(segment),
                None => topics.remove(number),
            }
        }
        topics
    }

    fn learn(&mut self, segment: &KeptSegment) {
        let (first, last) = range(segment);
        self.known.insert(first, (last, segment.number));
    }

    /// Whether an index of this segment is wanted.
    pub(super) fn wants(&self, segment: &KeptSegment) -> bool {
        let (first, last) = range(segment);
        first <= last && !self.known.contains_key(&first) && !self.without.contains(&segment.number)
    }

    /// What the filter finds in the segment with this record, if that has an index. It finds many
    /// if one in `dense` records or more is one.
    pub(super) fn plan(&mut self, lsn: Lsn, filter: TopicFilter<'_>, dense: usize) -> Option<Plan> {
        let (&first, &(last, number)) = self.known.range(..=lsn).next_back()?;
        if lsn > last {
            return None;
        }
        match self.look((first, last), number, filter, dense) {
            Ok(few) => Some(Plan { first, last, few }),
            Err(reason) => {
                tracing::warn!(%reason, "a topic index is no good: it is made anew");
                self.known.remove(&first);
                self.remove(number);
                None
            }
        }
    }

    fn look(
        &self,
        (first, last): (Lsn, Lsn),
        number: u64,
        filter: TopicFilter<'_>,
        dense: usize,
    ) -> Result<Option<Vec<Found>>, String> {
        let said = |error: zzq_snapshot::ReadError| error.to_string();
        let file = TopicsFile::open(&**self.log.disk(), number).map_err(said)?;
        let is_its = file.first().get() == first.get() && file.last().get() == last.get();
        let log = self.log.facts().identity.log;
        if !is_its || file.volume().heading().identity.log != log {
            return Err(format!("{} is of another segment", topics_name(number)));
        }
        let mut finding = Finding::new(filter, (first, last), dense);
        let in_parts = file.in_parts().map_err(said)?;
        finding.add_in_parts(&in_parts);
        let mut ranks = Vec::new();
        let visit = |topic: TopicEntry<'_>| {
            if finding.is_wanted(topic.name, topic.messages) {
                ranks.push(topic.rank);
            }
            finding.goes_on()
        };
        let (prefix, _) = literal(filter.as_str());
        file.topics(prefix.as_bytes(), visit).map_err(said)?;
        if finding.is_over() {
            return Ok(None);
        }
        let mut places = Vec::new();
        for rank in ranks {
            file.places(rank, &mut places).map_err(said)?;
        }
        Ok(Some(finding.found(number, places)))
    }

    /// Whether there is space: history needs no index, and others need the space while it is low.
    pub(super) fn have_space(&self) -> bool {
        self.log.space() == Space::Ample
    }

    /// Writes the index of a closed segment, if all of it was noted and there is space.
    pub(super) fn admit(&mut self, noting: &Noting, segment: &KeptSegment) {
        let is_whole = noting.number() == segment.number && noting.next > range(segment).1;
        if !is_whole || !self.wants(segment) || !self.have_space() {
            return;
        }
        let identity = self.log.facts().identity;
        let end = (segment.last, noting.time_ms);
        match noting.draft.write(&**self.log.disk(), identity, end, at_full_speed()) {
            Ok(_) => self.learn(segment),
            Err(error) => {
                tracing::warn!(%error, "no topic index was written: replay reads all instead");
                self.give_up(segment.number);
            }
        }
    }

    /// The segment gets none.
    pub(super) fn give_up(&mut self, number: u64) {
        self.without.insert(number);
    }

    /// Removes the indexes of segments that are gone.
    pub(super) fn tidy(&mut self) {
        let Some(front) = self.log.segments().first().copied() else { return };
        let gone = |number: u64| number < front.number;
        while let Some((_, number)) = self.known.first_key_value().map(|(_, known)| *known)
            && gone(number)
        {
            self.known.pop_first();
            self.remove(number);
        }
        self.without.retain(|number| !gone(*number));
    }

    /// What stays goes at the next start.
    fn remove(&self, number: u64) {
        let name = topics_name(number);
        if let Err(error) = self.log.disk().remove(&name) {
            tracing::debug!(%error, name, "not removed");
        }
    }
}

/// Segments that nothing is added to any more.
pub(super) fn closed<D: Disk>(log: &Log<D>) -> Vec<KeptSegment> {
    let mut segments = log.segments();
    segments.pop();
    segments
}

fn range(segment: &KeptSegment) -> (Lsn, Lsn) {
    (Lsn::new(segment.first.get()), Lsn::new(segment.last.get()))
}

impl Plan {
    /// Whether it says something of this record.
    pub(super) fn covers(&self, lsn: Lsn) -> bool {
        (self.first..=self.last).contains(&lsn)
    }

    /// The last record that it says something of.
    pub(super) const fn last(&self) -> Lsn {
        self.last
    }

    /// The matching messages from this record on, in their order; `None`: many.
    pub(super) fn few(&self, from: Lsn) -> Option<&[Found]> {
        let few = self.few.as_deref()?;
        Some(&few[few.partition_point(|found| found.lsn < from)..])
    }
}

impl Noting {
    /// Begins with the first record of a segment.
    pub(super) const fn new(segment: &KeptSegment) -> Self {
        let first = Lsn::new(segment.first.get());
        let draft = TopicsDraft::new(segment.number, segment.first);
        Self { first, draft, next: first, time_ms: 0 }
    }

    /// The record that comes next.
    pub(super) const fn next(&self) -> Lsn {
        self.next
    }

    /// Of the segment.
    pub(super) const fn number(&self) -> u64 {
        self.draft.segment()
    }

    /// The next record of the segment was read; `topic` is that of its message, if it is one. False
    /// if no index can come of it.
    pub(super) fn note(&mut self, found: &ReadRecord<'_>, topic: Option<&str>) -> bool {
        let lsn = Lsn::new(found.lsn.get());
        if lsn != self.next || self.draft.bytes() > NOTES_MOST {
            return false;
        }
        (self.next, self.time_ms) = (lsn.next(), found.time_ms);
        match (topic, found.place) {
            (None, _) => {}
            (Some(_), None) => self.draft.in_parts(found.lsn),
            (Some(topic), Some(place)) => {
                let (lsn, offset, time_ms) = (found.lsn, place.offset, found.time_ms);
                self.draft.message(topic.as_bytes(), TopicPlace { lsn, offset, time_ms });
            }
        }
        true
    }

    /// What the filter finds in what was noted, if this record was.
    pub(super) fn plan(&self, lsn: Lsn, filter: TopicFilter<'_>, dense: usize) -> Option<Plan> {
        let last = self.next.get().checked_sub(1).map(Lsn::new)?;
        let first = self.first;
        if !(first..=last).contains(&lsn) {
            return None;
        }
        let mut finding = Finding::new(filter, (first, last), dense);
        finding.add_in_parts(self.draft.all_in_parts());
        let (prefix, _) = literal(filter.as_str());
        let mut found = Vec::new();
        for (topic, messages, places) in self.draft.topics(prefix.as_bytes()) {
            let is_wanted = finding.is_wanted(topic, messages);
            if finding.is_over() {
                return Some(Plan { first, last, few: None });
            }
            if is_wanted {
                found.extend(places);
            }
            if finding.goes_on().is_break() {
                break;
            }
        }
        let few = Some(finding.found(self.number(), found));
        Some(Plan { first, last, few })
    }
}

/// What a filter finds, while topics go by.
struct Finding<'f> {
    filter: TopicFilter<'f>,
    /// With more it reads all.
    most: usize,
    count: usize,
    /// No other topic matches.
    is_done: bool,
    in_parts: Vec<Found>,
}

impl<'f> Finding<'f> {
    fn new(filter: TopicFilter<'f>, (first, last): (Lsn, Lsn), dense: usize) -> Self {
        let records = usize::try_from(last.get() - first.get()).unwrap_or(usize::MAX);
        Self { filter, most: records / dense, count: 0, is_done: false, in_parts: Vec::new() }
    }

    fn add_in_parts(&mut self, lsns: &[zzq_wal::Lsn]) {
        self.count += lsns.len();
        let found =
            |lsn: &zzq_wal::Lsn| Found { lsn: Lsn::new(lsn.get()), place: None, time_ms: 0 };
        self.in_parts.extend(lsns.iter().map(found));
    }

    fn is_wanted(&mut self, topic: &[u8], messages: u32) -> bool {
        // Without wildcards it is the first one or none.
        self.is_done = literal(self.filter.as_str()).1;
        let topic = std::str::from_utf8(topic).ok().and_then(|topic| TopicName::new(topic).ok());
        let is_wanted = topic.is_some_and(|topic| self.filter.matches(topic));
        if is_wanted {
            let messages = usize::try_from(messages).unwrap_or(usize::MAX);
            self.count = self.count.saturating_add(messages);
        }
        is_wanted
    }

    const fn is_over(&self) -> bool {
        self.count > self.most
    }

    const fn goes_on(&self) -> ControlFlow<()> {
        if self.is_over() || self.is_done {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }

    /// All of it in order.
    fn found(self, segment: u64, places: Vec<TopicPlace>) -> Vec<Found> {
        let of = |TopicPlace { lsn, offset, time_ms }| Found {
            lsn: Lsn::new(lsn.get()),
            place: Some(RecordPlace { segment, offset }),
            time_ms,
        };
        let mut found = self.in_parts;
        found.extend(places.into_iter().map(of));
        found.sort_unstable();
        found
    }
}

/// What every topic begins with that a filter matches, `a/#` matching `a` as well; whether it
/// matches this one only.
fn literal(filter: &str) -> (&str, bool) {
    match filter.find(['+', '#']) {
        None => (filter, true),
        Some(wildcard) => {
            let front = &filter[..wildcard];
            (front.strip_suffix('/').unwrap_or(front), false)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_topics_begin_with_is_known() {
        assert_eq!(literal("a/b"), ("a/b", true));
        assert_eq!(literal("a/b/#"), ("a/b", false));
        assert_eq!(literal("a/+/b"), ("a", false));
        assert_eq!((literal("#"), literal("+/a")), (("", false), ("", false)));
    }

    #[test]
    fn a_plan_begins_anywhere() {
        let found = |lsn| Found { lsn: Lsn::new(lsn), place: None, time_ms: 0 };
        let few = Some(vec![found(12), found(15)]);
        let plan = Plan { first: Lsn::new(10), last: Lsn::new(20), few };
        let from = |lsn| plan.few(Lsn::new(lsn)).unwrap().len();
        assert_eq!([from(10), from(12), from(13), from(16)], [2, 2, 1, 0]);
        let covers = |lsn| plan.covers(Lsn::new(lsn));
        assert_eq!([covers(9), covers(10), covers(20), covers(21)], [false, true, true, false]);
    }
}
