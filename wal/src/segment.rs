//! Segments of a running log: names, what is durable in each, leases.
//!
//! Owns: `Segment`, the table that readers and the helper share, file names.
//! Does not know: who writes a segment, and when it is recycled.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::format::group::GroupHeader;
use crate::format::meta::{FirstGroup, SPARES_END};
use crate::format::segment::{Beginning, GROUPS_AT, LastGood, SegmentHeader};
use crate::lsn::Lsn;

/// Name of the file of node-local facts.
pub const META_NAME: &str = "meta";
/// What a file of node-local facts is called until it is complete.
pub(crate) const META_NEW_NAME: &str = "meta.new";

const SEGMENT_SUFFIX: &str = ".log";
const SPARE_PREFIX: &str = "spare-";

/// Name of the file of segment `number`.
pub fn segment_name(number: u64) -> String {
    format!("{number:020}{SEGMENT_SUFFIX}")
}

/// The number of a segment by its file's name; `None` for other files.
pub fn segment_number(name: &str) -> Option<u64> {
    let number = name.strip_suffix(SEGMENT_SUFFIX)?.parse().ok()?;
    (segment_name(number) == name).then_some(number)
}

pub(crate) fn spare_name(number: u64) -> String {
    format!("{SPARE_PREFIX}{number}")
}

pub(crate) fn spare_number(name: &str) -> Option<u64> {
    let number = name.strip_prefix(SPARE_PREFIX)?.parse().ok()?;
    (number < SPARES_END && spare_name(number) == name).then_some(number)
}

/// A segment that is kept and holds records, at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptSegment {
    /// Its number.
    pub number: u64,
    /// The first record that takes its LSN in it.
    pub first: Lsn,
    /// The last durable one; less than the first if only parts of big records are there.
    pub last: Lsn,
    /// Bytes of its durable groups.
    pub bytes: u64,
}

/// A segment that the log writes, or once wrote and still keeps.
#[derive(Debug)]
pub(crate) struct Segment<F> {
    pub(crate) header: SegmentHeader,
    pub(crate) file: F,
    /// Behind this offset its blocks may never have been written.
    zeroed: u64,
    first_lsn: AtomicU64,
    /// Number of the first durable group.
    first_group: AtomicU64,
    last_lsn: AtomicU64,
    end: AtomicU64,
    /// Segment with the oldest part of a big record that is unfinished where this one begins.
    needs: AtomicU64,
    /// Groups in its index; 0 while it has none.
    indexed: AtomicU64,
    marks: Marks,
    broken: AtomicBool,
    leases: AtomicUsize,
}

impl<F> Segment<F> {
    pub(crate) fn new(header: SegmentHeader, file: F) -> Self {
        Self {
            header,
            file,
            zeroed: header.length,
            first_lsn: AtomicU64::new(0),
            first_group: AtomicU64::new(0),
            last_lsn: AtomicU64::new(0),
            end: AtomicU64::new(GROUPS_AT),
            needs: AtomicU64::new(0),
            indexed: AtomicU64::new(0),
            marks: Marks::new(header.length),
            broken: AtomicBool::new(false),
            leases: AtomicUsize::new(0),
        }
    }

    /// One whose zeroes end there: what lies behind is space, and no more.
    pub(crate) fn zeroed_to(self, zeroed: u64) -> Self {
        Self { zeroed, ..self }
    }

    pub(crate) fn zeroed(&self) -> u64 {
        self.zeroed
    }

    pub(crate) fn name(&self) -> String {
        segment_name(self.header.number)
    }

    /// A group is durable, or all from this one on that reach to `last`.
    pub(crate) fn note_durable(&self, header: &GroupHeader, last: &LastGood) {
        let (first, end) = (header.first_lsn.get(), last.end);
        assert!(end > self.end.load(Ordering::Relaxed), "groups become durable in their order");
        if self.first_lsn.load(Ordering::Relaxed) == 0 {
            let needs = header.open.map_or(0, |place| place.segment);
            self.needs.store(needs, Ordering::Release);
            self.first_group.store(header.number, Ordering::Release);
            self.first_lsn.store(first, Ordering::Release);
        }
        self.marks.note(self.end.load(Ordering::Relaxed), header.first_lsn);
        // Whoever sees the LSN sees an end that is not before it.
        self.end.store(end, Ordering::Release);
        self.last_lsn.store(last.lsn.get(), Ordering::Release);
    }

    /// First LSN, once a group is durable.
    pub(crate) fn first_lsn(&self) -> Option<Lsn> {
        let first = self.first_lsn.load(Ordering::Acquire);
        (first > 0).then(|| Lsn::new(first))
    }

    /// What `meta` has to say of its beginning if it is the first that is kept. If it breaks, its
    /// header says it.
    pub(crate) fn first_group(&self) -> Option<FirstGroup> {
        if self.header.beginning == Beginning::Break {
            return None;
        }
        // Whoever sees the LSN sees the number.
        let first_lsn = self.first_lsn();
        assert!(first_lsn.is_some(), "before it has a group, the segment before is kept");
        let number = self.first_group.load(Ordering::Acquire);
        first_lsn.map(|first_lsn| FirstGroup { number, first_lsn })
    }

    /// Last durable LSN; less than `first_lsn` if there are only parts, zero without groups.
    pub(crate) fn last_lsn(&self) -> Lsn {
        Lsn::new(self.last_lsn.load(Ordering::Acquire))
    }

    /// What is durable in it, if anything is.
    pub(crate) fn kept(&self) -> Option<KeptSegment> {
        let first = self.first_lsn()?;
        let (number, last) = (self.header.number, self.last_lsn());
        Some(KeptSegment { number, first, last, bytes: self.end() - GROUPS_AT })
    }

    /// Offset behind the last durable group.
    pub(crate) fn end(&self) -> u64 {
        self.end.load(Ordering::Acquire)
    }

    /// Number of the oldest segment that reading from this one's beginning needs.
    pub(crate) fn needs(&self) -> u64 {
        match self.needs.load(Ordering::Acquire) {
            0 => self.header.number,
            older => older,
        }
    }

    /// Its index, with so many groups, is in place.
    pub(crate) fn set_indexed(&self, groups: u64) {
        self.indexed.store(groups, Ordering::Release);
    }

    pub(crate) fn is_indexed(&self) -> bool {
        self.indexed_groups() > 0
    }

    /// Groups in its index; 0 if it has none.
    pub(crate) fn indexed_groups(&self) -> u64 {
        self.indexed.load(Ordering::Acquire)
    }

    /// Where a group begins that is at most one stretch in front of the one with `wanted`.
    pub(crate) fn near(&self, wanted: Lsn) -> u64 {
        self.marks.find(wanted)
    }

    /// What lies behind this group is void from now on; its index, if it has one, speaks of it.
    pub(crate) fn cut(&self, last: Lsn, end: u64) {
        assert!(end <= self.end(), "what is cut off was there");
        self.set_broken();
        self.set_indexed(0);
        self.last_lsn.store(last.get(), Ordering::Release);
        self.end.store(end, Ordering::Release);
    }

    /// A break has ended it, or its index failed: its file failed, or gives back what it does not
    /// need.
    pub(crate) fn set_broken(&self) {
        self.broken.store(true, Ordering::Release);
    }

    /// Its file is not used again.
    pub(crate) fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Acquire)
    }

    pub(crate) fn is_leased(&self) -> bool {
        self.leases.load(Ordering::Acquire) > 0
    }
}

/// Where groups begin, coarsely, in memory: for reads in a segment that has no index yet.
#[derive(Debug)]
struct Marks {
    /// Bytes of file for each mark.
    stretch: u64,
    /// In each stretch the first group that begins there. Written once, by who publishes.
    marks: Box<[Mark]>,
}

#[derive(Debug, Default)]
struct Mark {
    /// First LSN of the group.
    lsn: AtomicU64,
    /// Its offset; 0: no group begins in this stretch, or none yet.
    offset: AtomicU64,
}

/// Marks of a segment: a sixty-fourth of a long one is searched, which is a few large reads.
const MARKS: u64 = 64;

impl Marks {
    fn new(length: u64) -> Self {
        let marks = (0..MARKS).map(|_| Mark::default()).collect();
        Self { stretch: length.div_ceil(MARKS).max(GROUPS_AT), marks }
    }

    fn note(&self, offset: u64, first: Lsn) {
        let at = usize::try_from(offset / self.stretch).unwrap_or(usize::MAX);
        if let Some(mark) = self.marks.get(at)
            && mark.offset.load(Ordering::Relaxed) == 0
        {
            mark.lsn.store(first.get(), Ordering::Relaxed);
            // Whoever sees the offset sees the LSN.
            mark.offset.store(offset, Ordering::Release);
        }
    }

    fn find(&self, wanted: Lsn) -> u64 {
        let before = |mark: &Mark| {
            let offset = mark.offset.load(Ordering::Acquire);
            (offset > 0 && mark.lsn.load(Ordering::Relaxed) <= wanted.get()).then_some(offset)
        };
        self.marks.iter().rev().find_map(before).unwrap_or(GROUPS_AT)
    }
}

/// Truncations since the log was opened, for readers.
#[derive(Debug, Default)]
pub(crate) struct Cuts {
    count: AtomicUsize,
    /// The last record that stayed, each time.
    lasts: Mutex<Vec<Lsn>>,
}

impl Cuts {
    pub(crate) fn note(&self, last: Lsn) {
        let mut lasts = self.lasts.lock().unwrap_or_else(PoisonError::into_inner);
        lasts.push(last);
        self.count.store(lasts.len(), Ordering::SeqCst);
    }

    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }

    /// The least that stayed in any but the first `seen` truncations.
    pub(crate) fn least_since(&self, seen: usize) -> Option<Lsn> {
        let lasts = self.lasts.lock().unwrap_or_else(PoisonError::into_inner);
        lasts[seen..].iter().min().copied()
    }
}

/// Keeps a segment's file from being recycled while it is read.
#[derive(Debug)]
pub(crate) struct Lease<F> {
    segment: Arc<Segment<F>>,
}

impl<F> Lease<F> {
    pub(crate) fn segment(&self) -> &Segment<F> {
        &self.segment
    }
}

impl<F> Drop for Lease<F> {
    fn drop(&mut self) {
        let leases = self.segment.leases.fetch_sub(1, Ordering::AcqRel);
        assert!(leases > 0, "a lease is given back once");
    }
}

/// All segments kept, by number. Lanes never lock it.
#[derive(Debug)]
pub(crate) struct SegmentTable<F> {
    segments: Mutex<VecDeque<Arc<Segment<F>>>>,
}

impl<F> SegmentTable<F> {
    pub(crate) fn new(segments: VecDeque<Arc<Segment<F>>>) -> Self {
        Self { segments: Mutex::new(segments) }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, VecDeque<Arc<Segment<F>>>> {
        self.segments.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn find(&self, number: u64) -> Option<Arc<Segment<F>>> {
        self.lock().iter().find(|segment| segment.header.number == number).cloned()
    }

    /// The first LSN from which on every record can be read whole, if any record is there. A
    /// segment in front of it is kept for a later one alone, which has the end of a record that
    /// begins in it; of records that end in it the beginning may be gone.
    pub(crate) fn first_whole(&self) -> Option<Lsn> {
        first_whole(self.lock().make_contiguous())
    }

    /// The same, of what is there when all below an LSN that can go has gone.
    pub(crate) fn first_whole_without(&self, below: Lsn) -> Option<Lsn> {
        let mut segments = self.lock();
        let segments = segments.make_contiguous();
        first_whole(&segments[trimmable(segments, below)..])
    }

    /// The segments from the first whole record on.
    pub(crate) fn whole_segments(&self) -> Vec<KeptSegment> {
        let mut segments = self.lock();
        whole(segments.make_contiguous()).filter_map(|segment| segment.kept()).collect()
    }

    /// A lease on the first kept segment that `pick` accepts.
    pub(crate) fn lease(&self, pick: impl FnMut(&&Arc<Segment<F>>) -> bool) -> Option<Lease<F>> {
        let segments = self.lock();
        let segment = Arc::clone(segments.iter().find(pick)?);
        // Under the lock: whoever recycles has either taken it out, or sees the lease.
        segment.leases.fetch_add(1, Ordering::AcqRel);
        Some(Lease { segment })
    }
}

/// Those that hold records, from the first one on that needs none in front of the table. The oldest
/// open part only moves on, so no segment needs an older one than those before it.
fn whole<F>(segments: &[Arc<Segment<F>>]) -> impl Iterator<Item = &Arc<Segment<F>>> {
    let front = segments.first().map_or(0, |first| first.header.number);
    // Whoever sees the first LSN sees what the segment needs.
    let is_whole =
        move |segment: &Segment<F>| segment.first_lsn().is_some() && segment.needs() >= front;
    segments.iter().skip_while(move |segment| !is_whole(segment))
}

fn first_whole<F>(segments: &[Arc<Segment<F>>]) -> Option<Lsn> {
    whole(segments).find_map(|segment| segment.first_lsn())
}

/// How many segments at the front hold nothing from `below` on, nothing that a later one needs,
/// and are not needed to know where the log continues.
pub(crate) fn trimmable<F>(segments: &[Arc<Segment<F>>], below: Lsn) -> usize {
    let mut count = 0;
    for pair in segments.windows(2) {
        let [segment, after] = pair else { break };
        let knows_the_end =
            after.header.beginning == Beginning::Break || after.first_lsn().is_some();
        if segment.last_lsn() >= below || !knows_the_end {
            break;
        }
        count += 1;
    }
    let needed = segments[count..].iter().map(|segment| segment.needs()).min();
    let needed = needed.unwrap_or(0);
    segments[..count].iter().take_while(|segment| segment.header.number < needed).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back_and_others_are_not() {
        assert_eq!(segment_number(&segment_name(17)), Some(17));
        assert_eq!(segment_number(&segment_name(u64::MAX)), Some(u64::MAX));
        for other in ["17.log", "meta", "0000000000000000001a.log", "", ".log"] {
            assert_eq!(segment_number(other), None, "{other}");
        }
        assert_eq!(spare_number(&spare_name(3)), Some(3));
        for other in ["spare-x", "spare-+3", "spare-03", "spare-18446744073709551615"] {
            assert_eq!(spare_number(other), None, "{other}");
        }
    }
}
