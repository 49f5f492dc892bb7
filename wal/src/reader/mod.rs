//! Cold reads: records by LSN, from disk, on threads that may block.
//!
//! Owns: `Reader`. Checks salt, chain of LSNs and each record's checksum on every read; a lease
//! keeps the segment from being recycled meanwhile. Never passes its limit.

pub(crate) mod lookup;
pub(crate) mod place;
pub(crate) mod pool;
pub(crate) mod reads;

use std::fmt;
use std::io;
use std::sync::Arc;

use self::lookup::Hint;
pub use self::place::{PlacedRecord, Places, RecordPlace};
use self::reads::Reads;
use crate::disk::{Disk, DiskFile};
use crate::error::{Damage, ReadError};
use crate::format::group::{GroupHeader, HEADER_LEN, Place};
use crate::format::record::{self, Flags};
use crate::format::segment::GROUPS_AT;
use crate::log::Shared;
use crate::lsn::Lsn;
use crate::recover::assemble::{Assembler, PartFault};
use crate::recover::walk::{Step, Walk};
use crate::recover::window::Span;
use crate::segment::{Lease, Segment};

/// A record as read from disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadRecord<'a> {
    /// Its place in the log.
    pub lsn: Lsn,
    /// Log time of its group in ms.
    pub time_ms: u64,
    /// As staged.
    pub kind: u8,
    /// As staged.
    pub flags: Flags,
    /// As staged, in one piece.
    pub body: &'a [u8],
    /// Where it lies; `None` if it is in parts.
    pub place: Option<RecordPlace>,
}

/// How far a reader goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Limit {
    /// To what is committed, and durable here.
    #[default]
    Committed,
    /// To what is durable here, though it may yet be truncated. What is not durable yet is shown
    /// by a [`TailCursor`](crate::TailCursor) only.
    Durable,
}

/// Reads the log in LSN order.
///
/// The first read takes the group with the wanted record, and before it a page or two of the
/// index of its segment. Who reads on gets longer windows, up to 512 KiB, and the next one is
/// read by another thread meanwhile. A reader holds nobody up: it keeps the one segment from being
/// recycled that it is in, and is told when what it wants next is gone.
///
/// ```
/// use zzq_wal::{Appender, Log, Lsn, Options, ReadError, sim_disk::SimDisk};
///
/// let disk = SimDisk::new(); // on a machine: io::FileDisk
/// let (log, _) = Log::open(disk, Options::from_os()?, 0, &mut |_| Ok(()))?;
/// let mut appender = Appender::new(&log)?;
/// appender.append_all(7, ["one", "two", "three"])?;
///
/// let mut reader = log.reader(Lsn::new(2))?;
/// let record = reader.next_record()?.expect("it is durable");
/// assert_eq!((record.lsn, record.kind, record.body), (Lsn::new(2), 7, &b"two"[..]));
/// assert_eq!(reader.next_record()?.expect("it is durable").body, b"three");
///
/// // `None` is no end: the same reader goes on once there is more.
/// assert!(reader.next_record()?.is_none());
/// appender.append(7, b"four")?;
/// match reader.next_record() {
///     Ok(Some(record)) => assert_eq!(record.body, b"four"),
///     Ok(None) => unreachable!("it is durable"),
///     // Begin again at `first`, without the records between.
///     Err(ReadError::Trimmed { first, .. }) => reader = log.reader(first)?,
///     Err(error) => return Err(error.into()),
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Reader<D: Disk> {
    log: Arc<Shared<D>>,
    limit: Limit,
    /// The next LSN to give out.
    next: Lsn,
    /// LSN of the next record that lies in front of the walk.
    front: Lsn,
    source: Option<Source<D::File>>,
    /// The records of the current group that are left.
    group: Vec<u8>,
    taken: usize,
    /// Where they begin in their segment.
    group_at: u64,
    /// The record that was taken last.
    place: Option<RecordPlace>,
    time_ms: u64,
    assembler: Assembler,
    epoch: u64,
    /// Truncations that it knows of.
    cuts: usize,
}

struct Source<F: DiskFile> {
    lease: Arc<Lease<F>>,
    walk: Walk<Reads<F>>,
}

impl<D: Disk> Reader<D> {
    pub(crate) fn new(log: Arc<Shared<D>>, from: Lsn, limit: Limit) -> Result<Self, ReadError> {
        let from = from.max(Lsn::FIRST);
        let cuts = log.cuts.count();
        let mut reader = Self {
            cuts,
            log,
            limit,
            next: from,
            front: from,
            source: None,
            group: Vec::new(),
            taken: 0,
            group_at: 0,
            place: None,
            time_ms: 0,
            assembler: Assembler::default(),
            epoch: 0,
        };
        if from <= reader.last() {
            reader.seek()?;
        }
        Ok(reader)
    }

    /// The LSN that the next call gives, once it is within the limit.
    pub fn next_lsn(&self) -> Lsn {
        self.next
    }

    /// The last record within the limit.
    fn last(&self) -> Lsn {
        match self.limit {
            Limit::Committed => self.log.committed().min(self.log.durable()),
            Limit::Durable => self.log.durable(),
        }
    }

    /// The next record, or `None` if it is not within the limit yet.
    pub fn next_record(&mut self) -> Result<Option<ReadRecord<'_>>, ReadError> {
        let (kind, flags) = loop {
            self.heed_cuts()?;
            if self.next > self.last() {
                return Ok(None);
            }
            let read = self.read_next();
            // What was read while the log was truncated, damage too, may be of what went.
            if self.log.cuts.count() == self.cuts {
                if read.is_err() {
                    // Whoever asks again is answered from the bytes, not from half of a record.
                    self.source = None;
                }
                break read?;
            }
        };
        let lsn = self.next;
        self.next = lsn.next();
        let (body, place) = (self.assembler.whole(), self.place);
        Ok(Some(ReadRecord { lsn, time_ms: self.time_ms, kind, flags, body, place }))
    }

    /// After a truncation behind its place it begins anew there; in front of it, it ends.
    fn heed_cuts(&mut self) -> Result<(), ReadError> {
        let count = self.log.cuts.count();
        if count == self.cuts {
            return Ok(());
        }
        let wanted = self.next;
        let least = self.log.cuts.least_since(self.cuts);
        if let Some(last) = least.filter(|last| wanted > last.next()) {
            return Err(ReadError::Truncated { wanted, last });
        }
        self.cuts = count;
        self.source = None;
        Ok(())
    }

    /// Makes the assembler hold the body of `next`.
    fn read_next(&mut self) -> Result<(u8, Flags), ReadError> {
        if self.source.is_none() {
            self.assembler.forget();
            self.seek()?;
        }
        loop {
            while self.taken == self.group.len() {
                self.read_group()?;
            }
            let Some(taken) = self.take_record()? else { continue };
            let lsn = self.front;
            self.front = lsn.next();
            if lsn >= self.next {
                assert_eq!(lsn, self.next, "records follow one another");
                return Ok(taken);
            }
        }
    }

    /// Takes one record or part; its body is in the assembler if it is whole.
    fn take_record(&mut self) -> Result<Option<(u8, Flags)>, ReadError> {
        // Its checksum was looked at when the window was read.
        let (record, _, behind) = match record::split_unchecked(&self.group[self.taken..]) {
            Ok(split) => split,
            Err(fault) => return Err(self.damage(fault.to_string())),
        };
        let taken = (record.kind, record.flags);
        let whole = match self.assembler.gather(&record) {
            Ok(whole) => whole,
            // Reading began behind its first part: it belongs to a record that ends in front of
            // the wanted one, or its beginning has been trimmed.
            Err(PartFault::NoBeginning) if !taken.1.takes_lsn() => false,
            Err(PartFault::NoBeginning) if self.front < self.next => true,
            Err(PartFault::NoBeginning) => return Err(self.trimmed()),
            Err(fault) => return Err(self.damage(fault.to_string())),
        };
        let is_part = taken.1.has(Flags::CONTINUES) || taken.1.has(Flags::MORE);
        let offset = self.group_at + self.taken as u64;
        self.taken = self.group.len() - behind.len();
        let segment = self.read_at().0;
        self.place = (!is_part).then_some(RecordPlace { segment, offset });
        Ok(whole.then_some(taken))
    }

    fn read_group(&mut self) -> Result<(), ReadError> {
        let Some(header) = self.step()? else { return self.next_segment() };
        if header.first_lsn == self.front {
            return Ok(());
        }
        self.group.clear();
        Err(self.damage("a group does not have the next LSN".to_owned()))
    }

    /// Takes the records of the next group; `None` where the groups of the segment end.
    fn step(&mut self) -> Result<Option<GroupHeader>, ReadError> {
        let Some(source) = &mut self.source else { unreachable!("the reader has been placed") };
        let Source { lease, walk } = source;
        walk.windows().extend(lease.segment().end());
        self.group.clear();
        self.taken = 0;
        let at = walk.at();
        let step = walk.next().map_err(|error| disk_error(lease.segment(), at, error))?;
        let Step::Group { header, bytes, records } = step else { return Ok(None) };
        if let Err(fault) = records {
            return Err(damage(lease.segment(), at, self.next, fault.to_string()));
        }
        self.group.extend_from_slice(header.records(bytes));
        self.group_at = at + HEADER_LEN as u64;
        self.time_ms = header.time_ms;
        Ok(Some(header))
    }

    /// The groups of a segment end where the next one goes on, or there is damage.
    fn next_segment(&mut self) -> Result<(), ReadError> {
        let Some(source) = &mut self.source else { unreachable!("the reader has been placed") };
        let segment = source.lease.segment();
        let limit = source.walk.windows().limit();
        if source.walk.at() < limit {
            return Err(self.damage("a group that was durable is not intact".to_owned()));
        }
        if segment.end() > limit {
            return Ok(());
        }
        let number = segment.header.number;
        let after = |next: &&Arc<Segment<D::File>>| {
            next.header.number > number && next.first_lsn().is_some()
        };
        let Some(lease) = self.log.table.lease(after) else {
            return Err(self.damage("the log ends before a durable record".to_owned()));
        };
        if lease.segment().first_lsn().is_some_and(|first| first > self.front) {
            return Err(self.trimmed());
        }
        self.enter(lease, Hint { at: GROUPS_AT, len: None }, true);
        Ok(())
    }

    /// Reads from a place in a segment on; `reads_on` if what lies in front of it was read.
    fn enter(&mut self, lease: Lease<D::File>, place: Hint, reads_on: bool) {
        let lease = Arc::new(lease);
        let segment = lease.segment();
        if segment.header.epoch != self.epoch {
            self.epoch = segment.header.epoch;
            self.assembler.forget();
        }
        let span = Span::new(segment.file.clone(), &segment.header, segment.end());
        let mut reads = Reads::leased(span, Arc::clone(&lease), Arc::clone(&self.log.reads));
        match &mut self.source {
            Some(before) if reads_on => reads = reads.like(before.walk.windows()),
            _ => reads.begin_with(place.len.unwrap_or(0)),
        }
        self.group.clear();
        self.taken = 0;
        self.source = Some(Source { lease, walk: Walk::new(reads, place.at) });
    }

    /// Goes to the group with `next`, or to where its first part may be.
    fn seek(&mut self) -> Result<(), ReadError> {
        let wanted = self.next;
        let holds = |segment: &&Arc<Segment<D::File>>| {
            segment.first_lsn().is_some_and(|first| first <= wanted) && segment.last_lsn() >= wanted
        };
        let Some(lease) = self.log.table.lease(holds) else { return Err(self.trimmed()) };
        let segment = lease.segment();
        let plain = Hint { at: segment.near(wanted), len: None };
        // An index that cannot be read is done without.
        let hint = lookup::find(segment, wanted).unwrap_or(plain);
        self.enter(lease, hint, false);
        let header = match self.step()? {
            Some(header) if header.first_lsn <= wanted => header,
            // The index is not what was written. It is a hint: the groups tell.
            _ => {
                let number = self.read_at().0;
                let same = |segment: &&Arc<Segment<_>>| segment.header.number == number;
                let Some(lease) = self.log.table.lease(same) else { return Err(self.trimmed()) };
                self.enter(lease, plain, false);
                self.step()?.ok_or_else(|| self.not_intact())?
            }
        };
        self.find_from(header)
    }

    /// Reads on to the group with `next`, which is this one or follows it.
    fn find_from(&mut self, mut header: GroupHeader) -> Result<(), ReadError> {
        while header.last_lsn() < self.next {
            header = self.step()?.ok_or_else(|| self.not_intact())?;
        }
        self.begin_at(&header)?;
        header.open.map_or(Ok(()), |open| self.seek_open(open))
    }

    /// The group may be another one, as intact as the right one: a write that went astray has put
    /// it there. Behind the wanted record, it would pass over it.
    fn begin_at(&mut self, header: &GroupHeader) -> Result<(), ReadError> {
        if header.first_lsn > self.next {
            return Err(self.damage("a group that was durable is not there".to_owned()));
        }
        self.front = header.first_lsn;
        Ok(())
    }

    /// Begins in an earlier group: a big record that ends in the wanted one began there.
    fn seek_open(&mut self, open: Place) -> Result<(), ReadError> {
        let there = |segment: &&Arc<Segment<D::File>>| segment.header.number == open.segment;
        let Some(lease) = self.log.table.lease(there) else { return Err(self.trimmed()) };
        self.enter(lease, Hint { at: open.offset, len: None }, false);
        let header = self.step()?.ok_or_else(|| {
            self.damage("a group with a part of a later record is not intact".to_owned())
        })?;
        self.begin_at(&header)
    }

    fn trimmed(&self) -> ReadError {
        ReadError::Trimmed { wanted: self.next, first: self.log.first_whole() }
    }

    fn not_intact(&self) -> ReadError {
        self.damage("a group that was durable is not intact".to_owned())
    }

    fn damage(&self, reason: String) -> ReadError {
        let Some(source) = &self.source else { unreachable!("the reader has been placed") };
        damage(source.lease.segment(), source.walk.at(), self.next, reason)
    }

    /// Segment and offset of what is read next.
    fn read_at(&self) -> (u64, u64) {
        let Some(source) = &self.source else { unreachable!("the reader has been placed") };
        (source.lease.segment().header.number, source.walk.at())
    }
}

impl<D: Disk> fmt::Debug for Reader<D> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Reader").field("next", &self.next).finish_non_exhaustive()
    }
}

fn damage<F>(segment: &Segment<F>, offset: u64, wanted: Lsn, reason: String) -> ReadError {
    ReadError::Damage(Damage {
        file: segment.name(),
        offset,
        first: wanted,
        last: segment.last_lsn().max(wanted),
        reason,
        proof: String::new(),
    })
}

fn disk_error<F>(segment: &Segment<F>, offset: u64, error: io::Error) -> ReadError {
    ReadError::Disk { file: segment.name(), offset, error }
}
