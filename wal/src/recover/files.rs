//! Which files there are, what their headers say, and which groups those headers make void.
//!
//! Owns: the list of segments that still count, with the limit of each.
//! Does not know: groups.

use std::sync::Arc;

use crate::disk::{BLOCK, Disk, DiskFile};
use crate::error::{Damage, OpenError};
use crate::format::Fault;
use crate::format::meta::Facts;
use crate::format::segment::{self, Beginning, Closing, GROUPS_AT, SegmentHeader};
use crate::io::IoBuffer;
use crate::lsn::Lsn;
use crate::meta::Meta;
use crate::rules::{self, Rule};
use crate::segment::{META_NAME, segment_name, segment_number, spare_name, spare_number};

/// A segment as found.
#[derive(Debug)]
pub(crate) struct FoundSegment<F> {
    pub(crate) header: SegmentHeader,
    pub(crate) file: F,
    /// What its last block says, if it was closed.
    pub(crate) closing: Option<Closing>,
    /// Groups behind this offset are void.
    pub(crate) limit: u64,
}

impl<F> FoundSegment<F> {
    pub(crate) fn name(&self) -> String {
        segment_name(self.header.number)
    }

    /// What the closing says, unless a break has made that void.
    pub(crate) fn valid_closing(&self) -> Option<Closing> {
        self.closing.filter(|closing| self.limit >= closing.end)
    }
}

/// All files of the log.
pub(crate) struct Files<D: Disk> {
    /// `None`: there is no log yet.
    pub(crate) meta: Option<Meta<D>>,
    /// Those that count, by number.
    pub(crate) live: Vec<FoundSegment<D::File>>,
    /// Number and length of those made void as a whole.
    pub(crate) unneeded: Vec<(u64, u64)>,
    /// Number and length of those trimmed before.
    pub(crate) trimmed: Vec<(u64, u64)>,
    /// Number and length of spare files.
    pub(crate) spares: Vec<(u64, u64)>,
    /// The highest number of any file that is called a spare.
    pub(crate) newest_spare: u64,
    /// Files that are called as those of the log are, and are another log's or none's.
    pub(crate) foreign: Vec<String>,
    /// The highest number of any segment.
    pub(crate) newest: (u64, [u8; 16]),
    /// The highest epoch of any header.
    pub(crate) epoch: u64,
}

impl<D: Disk> Files<D> {
    /// Reads names, `meta` and headers.
    pub(crate) fn load(disk: &Arc<D>) -> Result<Self, OpenError> {
        let list = disk.list().map_err(OpenError::disk("listing the directory"))?;
        let mut numbers = Vec::new();
        let mut files = Self {
            meta: None,
            live: Vec::new(),
            unneeded: Vec::new(),
            trimmed: Vec::new(),
            spares: Vec::new(),
            newest_spare: 0,
            foreign: Vec::new(),
            newest: (0, [0; 16]),
            epoch: 0,
        };
        let (mut has_meta, mut spares) = (false, Vec::new());
        for (name, size) in list {
            has_meta |= name == META_NAME;
            numbers.extend(segment_number(&name).map(|number| (number, size)));
            spares.extend(spare_number(&name).map(|number| (number, size)));
        }
        numbers.sort_unstable();
        if !has_meta {
            if let Some((number, _)) = numbers.first() {
                return Err(lost_meta(*number));
            }
            // It is made before any spare.
            files.newest_spare = spares.iter().map(|(number, _)| *number).max().unwrap_or(0);
            files.foreign = spares.iter().map(|(number, _)| spare_name(*number)).collect();
            return Ok(files);
        }
        let meta = Meta::open(&**disk)?;
        files.read_headers(&**disk, meta.facts(), &numbers)?;
        files.take_spares(&**disk, meta.facts(), spares)?;
        files.apply_breaks();
        files.check_complete(meta.facts())?;
        files.meta = Some(meta);
        Ok(files)
    }

    fn read_headers(
        &mut self,
        disk: &D,
        facts: &Facts,
        numbers: &[(u64, u64)],
    ) -> Result<(), OpenError> {
        let first = facts.segments().map_or(0, |range| range.first);
        let mut before = Lsn::ZERO;
        for (number, size) in numbers {
            if *number < first {
                // `meta` knows, the name was not yet gone.
                let name = segment_name(*number);
                let block = first_block(disk, &name)?;
                let ours = SegmentHeader::decode(&block).is_ok_and(|header| {
                    header.number == *number && header.identity.log == facts.identity.log
                });
                if ours {
                    self.trimmed.push((*number, *size));
                } else {
                    self.foreign.push(name);
                }
                continue;
            }
            let segment = read_segment(disk, *number, facts, before)?;
            before = segment.header.last_good.lsn;
            self.newest = (segment.header.number, segment.header.salt);
            self.epoch = self.epoch.max(segment.header.epoch);
            self.live.push(segment);
        }
        Ok(())
    }

    /// A spare is empty, or was a segment of this log; its header may be torn. What was there
    /// before the log has a lower number.
    fn take_spares(
        &mut self,
        disk: &D,
        facts: &Facts,
        spares: Vec<(u64, u64)>,
    ) -> Result<(), OpenError> {
        self.newest_spare = facts.spares_from.saturating_sub(1);
        for (number, size) in spares {
            self.newest_spare = self.newest_spare.max(number);
            let name = spare_name(number);
            let block = first_block(disk, &name)?;
            let may_be = block[..8] == [0; 8] || segment::has_magic(&block);
            let others = SegmentHeader::decode(&block)
                .is_ok_and(|header| header.identity.log != facts.identity.log);
            let since = number >= facts.spares_from || !rules::holds(Rule::SparesOfBefore);
            if may_be && !others && since {
                self.spares.push((number, size));
            } else {
                self.foreign.push(name);
            }
        }
        Ok(())
    }

    /// The void rule: a break makes void all that lies behind the group that it names.
    fn apply_breaks(&mut self) {
        let mut live: Vec<FoundSegment<D::File>> = Vec::new();
        for segment in self.live.drain(..) {
            if segment.header.beginning == Beginning::Break && rules::holds(Rule::Void) {
                let good = segment.header.last_good;
                while let Some(void) = live.pop_if(|older| older.header.number > good.segment) {
                    self.unneeded.push((void.header.number, void.header.length));
                }
                if let Some(older) = live.last_mut()
                    && older.header.number == good.segment
                {
                    older.limit = older.limit.min(good.end);
                }
            }
            live.push(segment);
        }
        self.live = live;
    }

    /// Each segment continues one that is there, or one that was trimmed.
    fn check_complete(&self, facts: &Facts) -> Result<(), OpenError> {
        let range = facts.segments();
        let mut before: Option<&SegmentHeader> = None;
        for segment in &self.live {
            let header = &segment.header;
            let continues = header.continues;
            let found = match before {
                Some(older) => older.number == continues && older.salt == header.continues_salt,
                None => range.is_none_or(|range| continues < range.first),
            };
            let first = before.map_or(Lsn::FIRST, |older| older.last_good.lsn.next());
            let last = header.last_good.lsn.max(facts.durable);
            if !found {
                return Err(missing(continues, first, last));
            }
            if header.beginning == Beginning::Roll
                && before.is_some_and(|older| older.epoch != header.epoch)
            {
                return Err(of_another_start(segment.name(), first, last));
            }
            before = Some(header);
        }
        match range {
            Some(range) if range.last > self.newest.0 => {
                let first = before.map_or(Lsn::FIRST, |older| older.last_good.lsn.next());
                Err(missing(range.last, first, facts.durable))
            }
            _ => Ok(()),
        }
    }
}

fn read_segment<D: Disk>(
    disk: &D,
    number: u64,
    facts: &Facts,
    before: Lsn,
) -> Result<FoundSegment<D::File>, OpenError> {
    let name = segment_name(number);
    let file = disk.open(&name).map_err(OpenError::disk(format!("opening {name}")))?;
    let first = read_first(&file, &name)?;
    let damaged = |reason: String| {
        OpenError::Damage(Damage {
            file: name.clone(),
            offset: 0,
            first: before.next(),
            last: facts.durable,
            reason,
            proof: ": a segment gets its name only with a durable header".to_owned(),
        })
    };
    let header = match SegmentHeader::decode(&first) {
        Ok(header) => header,
        Err(fault @ Fault::Version { .. }) => {
            return Err(OpenError::Version { file: name, fault });
        }
        Err(fault) => return Err(damaged(fault.to_string())),
    };
    if header.number != number {
        return Err(damaged(format!("its header is that of segment {}", header.number)));
    }
    if header.identity.log != facts.identity.log {
        return Err(damaged("it belongs to another log".to_owned()));
    }
    let failed = OpenError::disk(format!("reading the last block of {name}"));
    let last = read_block(&file, header.length - GROUPS_AT).map_err(failed)?;
    let closing = header.decode_closing(&last);
    Ok(FoundSegment { header, file, closing, limit: header.length })
}

fn first_block<D: Disk>(disk: &D, name: &str) -> Result<Box<[u8; BLOCK]>, OpenError> {
    let file = disk.open(name).map_err(OpenError::disk(format!("opening {name}")))?;
    read_first(&file, name)
}

fn read_first<F: DiskFile>(file: &F, name: &str) -> Result<Box<[u8; BLOCK]>, OpenError> {
    read_block(file, 0).map_err(OpenError::disk(format!("reading the first block of {name}")))
}

/// One block of a file; what the file does not have is zero.
pub(crate) fn read_block<F: DiskFile>(file: &F, at: u64) -> std::io::Result<Box<[u8; BLOCK]>> {
    let mut buffer = IoBuffer::with_blocks(1);
    let read = file.read_at(&mut buffer, at)?;
    buffer[read..].fill(0);
    let mut block = Box::new([0; BLOCK]);
    block.copy_from_slice(&buffer);
    Ok(block)
}

fn missing(number: u64, first: Lsn, last: Lsn) -> OpenError {
    OpenError::Damage(Damage {
        file: segment_name(number),
        offset: 0,
        first,
        last,
        reason: "the file is missing".to_owned(),
        proof: ": other files name it".to_owned(),
    })
}

fn of_another_start(file: String, first: Lsn, last: Lsn) -> OpenError {
    OpenError::Damage(Damage {
        file,
        offset: 0,
        first,
        last,
        reason: "it rolls on from a segment of another start".to_owned(),
        proof: ": each start and each truncation begins with a break".to_owned(),
    })
}

fn lost_meta(number: u64) -> OpenError {
    OpenError::Damage(Damage {
        file: META_NAME.to_owned(),
        offset: 0,
        first: Lsn::FIRST,
        last: Lsn::ZERO,
        reason: "the file is missing".to_owned(),
        proof: format!(": it is made before any segment, and {} is there", segment_name(number)),
    })
}
