//! Reading a whole log in order, and on behind whatever is not as it should be.
//!
//! Owns: the checks that each segment continues the one before, each group the one before, and
//! that each group holds the records it says. What does not fit is told and passed over.
//! Does not know: what follows from it; torn or damaged is for recovery to judge.

use std::ops::ControlFlow;

use zzq_wal::disk::DiskFile;
use zzq_wal::format::group::GroupHeader;
use zzq_wal::format::meta::{Facts, FirstGroup};
use zzq_wal::format::record::{self, Flags, Record};
use zzq_wal::format::segment::{Beginning, GROUPS_AT, LastGood, SegmentHeader};
use zzq_wal::{Lsn, segment_name};

use crate::groups::{Gap, Groups, Step};
use crate::parts::{Made, Parts};
use crate::place::Trouble;
use crate::survey::{SegmentFile, Survey};

/// What a reading meets, in the log's order.
#[derive(Debug)]
pub enum Event<'a> {
    /// A segment that counts begins.
    Segment {
        /// Its number.
        number: u64,
    },
    /// An intact group; its records follow.
    Group {
        /// Where it begins in the segment.
        at: u64,
        /// Its header.
        header: &'a GroupHeader,
    },
    /// A whole record.
    Record(Found<'a>),
    /// A record whose first parts have been trimmed, or lie where something is not intact.
    Headless {
        /// Its place in the log.
        lsn: Lsn,
    },
    /// Something is not as it should be. Reading goes on behind it, where there is something.
    Stop(Stop),
    /// A segment that counts has been read.
    End {
        /// Its number.
        number: u64,
        /// Where its last intact group ends.
        end: u64,
        /// Remains of a group lie behind that.
        remains: bool,
    },
}

/// A record as it was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found<'a> {
    /// Its place in the log.
    pub lsn: Lsn,
    /// Log time of its group in ms.
    pub time_ms: u64,
    /// Its kind.
    pub kind: u8,
    /// What the log heeds; of its last part, if it was in parts.
    pub flags: Flags,
    /// Its body, in one piece.
    pub body: &'a [u8],
}

/// A place where the log does not go on as it should.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stop {
    /// The file.
    pub file: String,
    /// Byte offset in it.
    pub offset: u64,
    /// What is wrong.
    pub reason: String,
}

/// Who sees the events, and says whether to go on.
pub type Watch<'w> = dyn FnMut(Event<'_>) -> ControlFlow<()> + 'w;

/// Reads all that counts, from the segment on that holds `from`. Returns how many big records have
/// no end.
pub fn walk<F: DiskFile>(
    survey: &Survey<F>,
    from: Lsn,
    watch: &mut Watch<'_>,
) -> Result<usize, Trouble> {
    let live = survey.live();
    let start = first_needed(&live, from)?;
    let mut walk = Walk {
        watch,
        chain: None,
        term: 0,
        begins: None,
        before: None,
        parts: Parts::default(),
        cut: false,
        epoch: 0,
        unfinished: 0,
    };
    let range = survey.meta.facts.as_ref().and_then(Facts::segments);
    if start == 0 {
        walk.before = Some(Before::Nothing(range.map_or(u64::MAX, |range| range.first)));
        walk.begins = survey.begins();
    }
    for segment in &live[start..] {
        if walk.segment(segment)?.is_break() {
            return Ok(walk.unfinished);
        }
    }
    let newest = survey.segments.last().map_or(0, |segment| segment.number);
    if let Some(range) = range
        && range.last > newest
    {
        let _ = walk.stop(segment_name(range.last), 0, "the file is missing".to_owned());
    }
    Ok(walk.unfinished + walk.parts.forget())
}

struct Walk<'w, 'e> {
    watch: &'w mut Watch<'e>,
    /// The last intact group; `None`: whatever comes is believed.
    chain: Option<LastGood>,
    /// Of the last intact group.
    term: u64,
    /// What the next group is, if `meta` says it.
    begins: Option<FirstGroup>,
    before: Option<Before>,
    parts: Parts,
    /// First parts may be out of sight.
    cut: bool,
    epoch: u64,
    unfinished: usize,
}

/// What lies in front of a segment.
enum Before {
    /// Segments below this number have been trimmed, and none was read.
    Nothing(u64),
    /// This one; the salt is not known where its header is lost.
    Segment(u64, Option<[u8; 16]>),
}

type Next = Result<ControlFlow<()>, Trouble>;

impl Walk<'_, '_> {
    fn tell(&mut self, event: Event<'_>) -> ControlFlow<()> {
        (self.watch)(event)
    }

    /// Tells of it, and believes the next group.
    fn stop(&mut self, file: String, offset: u64, reason: String) -> ControlFlow<()> {
        (self.chain, self.begins) = (None, None);
        self.cut = true;
        self.parts.forget();
        self.tell(Event::Stop(Stop { file, offset, reason }))
    }

    fn segment<F: DiskFile>(&mut self, segment: &SegmentFile<F>) -> Next {
        let number = segment.number;
        if self.tell(Event::Segment { number }).is_break() {
            return Ok(ControlFlow::Break(()));
        }
        let joined = match &segment.header {
            Ok(header) => self.join(header),
            Err(reason) => self.stop(segment.name(), 0, reason.clone()),
        };
        if joined.is_break() {
            return Ok(ControlFlow::Break(()));
        }
        let salt = segment.header.as_ref().ok().map(|header| header.salt);
        self.before = Some(Before::Segment(number, salt));
        let limit = segment.limit().unwrap_or(0);
        let mut groups = Groups::new(segment.file.clone(), number, salt, GROUPS_AT, limit);
        let (mut end, mut remains) = (GROUPS_AT, false);
        loop {
            let failed = |error| Trouble::File { file: segment.name(), error };
            let flow = match groups.next().map_err(failed)? {
                Step::Group(at, header, bytes) => {
                    end = at + header.length as u64;
                    self.group(&segment.name(), at, &header, bytes)
                }
                Step::Gap(gap) if gap.to < limit || gap.unreadable => {
                    self.stop(segment.name(), gap.from, why(gap).to_owned())
                }
                Step::Gap(gap) => {
                    remains = gap.remains;
                    ControlFlow::Continue(())
                }
                Step::End => break,
            };
            if flow.is_break() {
                return Ok(flow);
            }
        }
        // The first group is in the first segment, which held none.
        if self.begins.is_some() {
            let stopped = self.stop(segment.name(), GROUPS_AT, NO_FIRST.to_owned());
            if stopped.is_break() {
                return Ok(stopped);
            }
        }
        Ok(self.tell(Event::End { number, end, remains }))
    }

    /// Whether a segment goes on from what came before.
    fn join(&mut self, header: &SegmentHeader) -> ControlFlow<()> {
        if header.epoch != self.epoch {
            self.unfinished += self.parts.forget();
            self.epoch = header.epoch;
        }
        let first = matches!(self.before, None | Some(Before::Nothing(_)));
        let missing = match self.before {
            None => false,
            Some(Before::Nothing(kept)) => header.continues >= kept,
            Some(Before::Segment(number, salt)) => {
                header.continues != number || salt.is_some_and(|salt| salt != header.continues_salt)
            }
        };
        if missing {
            let file = segment_name(header.continues);
            self.stop(file, 0, "the file is missing, or not the one that it was".to_owned())?;
        }
        if header.beginning == Beginning::Break {
            let good = header.last_good;
            if let Some(last) = self.chain
                && last != good
            {
                let reason = "its last group is not the one that the next segment names".to_owned();
                self.stop(segment_name(last.segment), last.end, reason)?;
            }
            self.chain = Some(good);
        }
        self.cut |= first;
        ControlFlow::Continue(())
    }

    fn group(
        &mut self,
        file: &str,
        at: u64,
        header: &GroupHeader,
        bytes: &[u8],
    ) -> ControlFlow<()> {
        let is_first = |begins: FirstGroup| FirstGroup::of(header) == begins;
        if self.begins.take().is_some_and(|begins| !is_first(begins)) {
            self.stop(file.to_owned(), at, NOT_THE_FIRST.to_owned())?;
        }
        if let Some(reason) = self.chain.and_then(|last| last.why_not_before(header, self.term)) {
            self.stop(file.to_owned(), at, reason.to_owned())?;
        }
        self.chain = Some(LastGood::of(header, at + header.length as u64));
        self.term = header.term;
        self.tell(Event::Group { at, header })?;
        let Err(reason) = self.records(header, bytes)? else { return ControlFlow::Continue(()) };
        let chain = self.chain;
        self.stop(file.to_owned(), at, reason)?;
        // It is the group's inside that is wrong, not its place.
        self.chain = chain;
        ControlFlow::Continue(())
    }

    /// The records of a group; the inner error is about their bytes.
    fn records(
        &mut self,
        header: &GroupHeader,
        bytes: &[u8],
    ) -> ControlFlow<(), Result<(), String>> {
        let mut rest = header.records(bytes);
        let mut lsn = header.first_lsn;
        while !rest.is_empty() {
            let (record, behind) = match record::split(rest) {
                Ok(split) => split,
                Err(fault) => return ControlFlow::Continue(Err(fault.to_string())),
            };
            rest = behind;
            if !record.flags.takes_lsn() {
                if let Err(reason) = self.take(&record, lsn, header.time_ms)? {
                    return ControlFlow::Continue(Err(reason));
                }
                continue;
            }
            if lsn > header.last_lsn() {
                return ControlFlow::Continue(Err("it holds more records than it says".to_owned()));
            }
            if let Err(reason) = self.take(&record, lsn, header.time_ms)? {
                return ControlFlow::Continue(Err(reason));
            }
            lsn = Lsn::new(lsn.get().saturating_add(1));
        }
        if lsn.get() - 1 != header.last_lsn().get() {
            return ControlFlow::Continue(Err("it holds fewer records than it says".to_owned()));
        }
        ControlFlow::Continue(Ok(()))
    }

    fn take(
        &mut self,
        record: &Record<'_>,
        lsn: Lsn,
        time_ms: u64,
    ) -> ControlFlow<(), Result<(), String>> {
        let (kind, flags) = (record.kind, record.flags);
        let flow = match self.parts.take(record) {
            Made::Whole(body) => {
                self.tell(Event::Record(Found { lsn, time_ms, kind, flags, body }))
            }
            Made::Last(body) => {
                let body = body.as_slice();
                self.tell(Event::Record(Found { lsn, time_ms, kind, flags, body }))
            }
            Made::More => ControlFlow::Continue(()),
            Made::NoBeginning if self.cut && flags.takes_lsn() => {
                self.tell(Event::Headless { lsn })
            }
            Made::NoBeginning if self.cut => ControlFlow::Continue(()),
            Made::NoBeginning => {
                let reason = "a part of a big record has no part before it".to_owned();
                return ControlFlow::Continue(Err(reason));
            }
            Made::Senseless(reason) => return ControlFlow::Continue(Err(reason.to_owned())),
        };
        flow?;
        ControlFlow::Continue(Ok(()))
    }
}

fn why(gap: Gap) -> &'static str {
    if gap.unreadable {
        "the device does not give these bytes"
    } else if gap.remains {
        "a group is not intact"
    } else {
        "no group is here, although one follows"
    }
}

/// Why a group is not what a trimmed log begins with.
pub(crate) const NOT_THE_FIRST: &str = "it is not the group with which the log begins";

/// What is wrong with the segment that a trimmed log begins with, where it holds no group.
const NO_FIRST: &str = "the group with which the log begins is not there";

/// The first of `live` that has to be read for records from `from` on.
fn first_needed<F: DiskFile>(live: &[&SegmentFile<F>], from: Lsn) -> Result<usize, Trouble> {
    if from <= Lsn::FIRST {
        return Ok(0);
    }
    for (nth, segment) in live.iter().enumerate().rev() {
        let Some(first) = first_group(segment)? else { continue };
        if first.first_lsn > from {
            continue;
        }
        let needed = first.open.map_or(segment.number, |open| open.segment);
        let there = live.iter().position(|segment| segment.number == needed);
        return Ok(there.unwrap_or(nth));
    }
    Ok(0)
}

fn first_group<F: DiskFile>(segment: &SegmentFile<F>) -> Result<Option<GroupHeader>, Trouble> {
    let Ok(header) = &segment.header else { return Ok(None) };
    let limit = segment.limit().unwrap_or(0);
    let file = segment.file.clone();
    let mut groups = Groups::new(file, segment.number, Some(header.salt), GROUPS_AT, limit);
    let failed = |error| Trouble::File { file: segment.name(), error };
    Ok(match groups.next().map_err(failed)? {
        Step::Group(_, header, _) => Some(header),
        Step::Gap(_) | Step::End => None,
    })
}
