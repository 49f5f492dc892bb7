//! Cold reads: records by LSN, from disk, on threads that may block.
//!
//! Owns: `Reader`. Checks salt, chain of LSNs and each record's checksum on every read; a lease
//! keeps the segment from being recycled meanwhile. Never passes what is durable.

use std::fmt;
use std::io;
use std::sync::Arc;

use crate::disk::{BLOCK, Disk, DiskFile};
use crate::error::{Damage, ReadError};
use crate::format::group::{GroupHeader, Place};
use crate::format::record::{self, Flags};
use crate::format::segment::{Closing, GROUPS_AT};
use crate::format::{checksum, index};
use crate::io::IoBuffer;
use crate::log::Shared;
use crate::lsn::Lsn;
use crate::recover::assemble::{Assembler, PartFault};
use crate::recover::scan::{Found, Scan};
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
}

/// Reads the log in LSN order.
pub struct Reader<D: Disk> {
    log: Arc<Shared<D>>,
    /// The next LSN to give out.
    next: Lsn,
    /// LSN of the next record that lies in front of the scan.
    front: Lsn,
    source: Option<Source<D::File>>,
    /// The records of the current group that are left.
    group: Vec<u8>,
    taken: usize,
    time_ms: u64,
    assembler: Assembler,
    epoch: u64,
}

struct Source<F> {
    lease: Lease<F>,
    scan: Scan<F>,
}

impl<D: Disk> Reader<D> {
    pub(crate) fn new(log: Arc<Shared<D>>, from: Lsn) -> Result<Self, ReadError> {
        let from = from.max(Lsn::FIRST);
        let mut reader = Self {
            log,
            next: from,
            front: from,
            source: None,
            group: Vec::new(),
            taken: 0,
            time_ms: 0,
            assembler: Assembler::default(),
            epoch: 0,
        };
        if from <= reader.log.durable() {
            reader.seek()?;
        }
        Ok(reader)
    }

    /// The LSN that the next call gives, once it is durable.
    pub fn next_lsn(&self) -> Lsn {
        self.next
    }

    /// The next record, or `None` if it is not durable yet.
    pub fn next_record(&mut self) -> Result<Option<ReadRecord<'_>>, ReadError> {
        if self.next > self.log.durable() {
            return Ok(None);
        }
        if self.source.is_none() {
            self.seek()?;
        }
        loop {
            while self.taken == self.group.len() {
                self.read_group()?;
            }
            let Some((kind, flags)) = self.take_record()? else { continue };
            let lsn = self.front;
            self.front = lsn.next();
            if lsn < self.next {
                continue;
            }
            self.next = lsn.next();
            let body = self.assembler.whole();
            return Ok(Some(ReadRecord { lsn, time_ms: self.time_ms, kind, flags, body }));
        }
    }

    /// Takes one record or part; its body is in the assembler if it is whole.
    fn take_record(&mut self) -> Result<Option<(u8, Flags)>, ReadError> {
        let (record, behind) = match record::split(&self.group[self.taken..]) {
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
        self.taken = self.group.len() - behind.len();
        Ok(whole.then_some(taken))
    }

    fn read_group(&mut self) -> Result<(), ReadError> {
        let Some(source) = &mut self.source else { unreachable!("the reader has been placed") };
        source.scan.extend(source.lease.segment().end());
        let name = source.lease.segment().name();
        let read = match source.scan.next().map_err(|error| disk_error(&name, error))? {
            Found::Group(header, bytes) => {
                self.group.clear();
                self.group.extend_from_slice(header.records(bytes));
                Some(header)
            }
            Found::End => None,
        };
        self.taken = 0;
        match read {
            Some(header) if header.first_lsn == self.front => {
                self.time_ms = header.time_ms;
                Ok(())
            }
            Some(_) => {
                self.group.clear();
                Err(self.damage("a group does not have the next LSN".to_owned()))
            }
            None => {
                self.group.clear();
                self.next_segment()
            }
        }
    }

    /// The groups of a segment end where the next one goes on, or there is damage.
    fn next_segment(&mut self) -> Result<(), ReadError> {
        let Some(source) = &self.source else { unreachable!("the reader has been placed") };
        let segment = source.lease.segment();
        if source.scan.at() < source.scan.limit() {
            return Err(self.damage("a group that was durable is not intact".to_owned()));
        }
        if segment.end() > source.scan.limit() {
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
        self.enter(lease, GROUPS_AT);
        Ok(())
    }

    fn enter(&mut self, lease: Lease<D::File>, at: u64) {
        let segment = lease.segment();
        if segment.header.epoch != self.epoch {
            self.epoch = segment.header.epoch;
            self.assembler.forget();
        }
        let scan = Scan::new(segment.file.clone(), &segment.header, at, segment.end());
        self.source = Some(Source { lease, scan });
    }

    /// Goes to the group with `next`, or to where its first part may be.
    fn seek(&mut self) -> Result<(), ReadError> {
        let wanted = self.next;
        let holds = |segment: &&Arc<Segment<D::File>>| {
            segment.first_lsn().is_some_and(|first| first <= wanted) && segment.last_lsn() >= wanted
        };
        let Some(lease) = self.log.table.lease(holds) else { return Err(self.trimmed()) };
        let place = find_group(lease.segment(), wanted)?;
        let (at, header) = place;
        self.front = header.first_lsn;
        match header.open {
            None => self.enter(lease, at),
            Some(open) => self.seek_open(open)?,
        }
        Ok(())
    }

    /// Begins in an earlier group: a big record that ends in the wanted one began there.
    fn seek_open(&mut self, open: Place) -> Result<(), ReadError> {
        let there = |segment: &&Arc<Segment<D::File>>| segment.header.number == open.segment;
        let Some(lease) = self.log.table.lease(there) else { return Err(self.trimmed()) };
        let segment = lease.segment();
        let mut scan = Scan::new(segment.file.clone(), &segment.header, open.offset, segment.end());
        let name = segment.name();
        match scan.next().map_err(|error| disk_error(&name, error))? {
            Found::Group(header, _) => {
                self.front = header.first_lsn;
                self.enter(lease, open.offset);
                Ok(())
            }
            Found::End => Err(damage(
                segment,
                open.offset,
                self.next,
                "a group with a part of a later record is not intact".to_owned(),
            )),
        }
    }

    fn trimmed(&self) -> ReadError {
        let first = self.log.table.lock().iter().find_map(|segment| segment.first_lsn());
        ReadError::Trimmed { wanted: self.next, first: first.unwrap_or(self.log.durable().next()) }
    }

    fn damage(&self, reason: String) -> ReadError {
        let Some(source) = &self.source else { unreachable!("the reader has been placed") };
        damage(source.lease.segment(), source.scan.at(), self.next, reason)
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

fn disk_error(file: &str, error: io::Error) -> ReadError {
    ReadError::Disk { file: file.to_owned(), error }
}

/// Place and header of the group with `wanted`, which the segment holds.
fn find_group<F: DiskFile>(
    segment: &Segment<F>,
    wanted: Lsn,
) -> Result<(u64, GroupHeader), ReadError> {
    let from = match index_hint(segment, wanted) {
        Ok(hint) => hint.unwrap_or(GROUPS_AT),
        Err(error) => return Err(disk_error(&segment.name(), error)),
    };
    let mut scan = Scan::new(segment.file.clone(), &segment.header, from, segment.end());
    loop {
        let at = scan.at();
        match scan.next().map_err(|error| disk_error(&segment.name(), error))? {
            Found::Group(header, _) if header.last_lsn() >= wanted => return Ok((at, header)),
            Found::Group(..) => {}
            Found::End => {
                let reason = "a group that was durable is not intact".to_owned();
                return Err(damage(segment, at, wanted, reason));
            }
        }
    }
}

/// The offset of the group with `wanted`, if the segment has an intact index.
fn index_hint<F: DiskFile>(segment: &Segment<F>, wanted: Lsn) -> io::Result<Option<u64>> {
    if !segment.is_indexed() {
        return Ok(None);
    }
    let last_block = segment.header.length - GROUPS_AT;
    let Some(closing) = read_closing(segment, last_block)? else { return Ok(None) };
    let Ok(groups) = usize::try_from(closing.groups) else { return Ok(None) };
    let mut bytes = IoBuffer::new();
    bytes.resize(index::len(groups));
    let Some(at) = last_block.checked_sub(bytes.len() as u64) else { return Ok(None) };
    let read = segment.file.read_at(&mut bytes, at)?;
    if read < bytes.len() || checksum(&bytes) != closing.index_checksum {
        return Ok(None);
    }
    let first = |position| index::decode(&bytes, position).map(|entry| entry.first_lsn);
    let (mut low, mut high) = (0, groups);
    while low < high {
        let middle = low.midpoint(high);
        if first(middle).is_some_and(|first| first <= wanted) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    // Groups of parts only have the same first LSN as the one that completes the record: the
    // last of them is right, as it is the one with the record.
    let entry = low.checked_sub(1).and_then(|position| index::decode(&bytes, position));
    Ok(entry.map(|entry| u64::from(entry.block) * GROUPS_AT).filter(|at| *at >= GROUPS_AT))
}

fn read_closing<F: DiskFile>(segment: &Segment<F>, at: u64) -> io::Result<Option<Closing>> {
    let mut block = IoBuffer::with_blocks(1);
    let read = segment.file.read_at(&mut block, at)?;
    block[read..].fill(0);
    let (blocks, _) = block.as_chunks::<BLOCK>();
    Ok(segment.header.decode_closing(&blocks[0]))
}
