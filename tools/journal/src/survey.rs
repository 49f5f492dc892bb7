//! All files of a log, and which of them still count.
//!
//! Owns: reading `meta`, headers and closings; the rule by which a break makes void what lies
//! behind the group that it names. Does not know: groups.

use std::io;

use zzq_snapshot::{cold_number, image_number, topics_number};
use zzq_wal::disk::{BLOCK, Disk, DiskFile};
use zzq_wal::format::Fault;
use zzq_wal::format::group::GroupHeader;
use zzq_wal::format::meta::{Facts, FirstGroup};
use zzq_wal::format::segment::{Beginning, Closing, GROUPS_AT, SegmentHeader};
use zzq_wal::io::IoBuffer;
use zzq_wal::{META_NAME, segment_name, segment_number};

use crate::place::Trouble;

/// What lies in a log's directory.
#[derive(Debug)]
pub struct Survey<F> {
    pub(crate) meta: Meta,
    /// By number.
    pub(crate) segments: Vec<SegmentFile<F>>,
    pub(crate) others: Vec<OtherFile>,
}

/// The file of node-local facts.
#[derive(Debug)]
pub(crate) struct Meta {
    /// The newer intact page; `None`: there is none.
    pub(crate) facts: Option<Facts>,
    /// What is wrong, of each page that is not intact.
    pub(crate) faults: Vec<String>,
}

/// A segment's file.
#[derive(Debug)]
pub(crate) struct SegmentFile<F> {
    pub(crate) number: u64,
    pub(crate) size: u64,
    pub(crate) file: F,
    /// Or what is wrong with it.
    pub(crate) header: Result<SegmentHeader, String>,
    pub(crate) closing: Option<Closing>,
    pub(crate) standing: Standing,
}

/// Whether a segment counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Up to this offset.
    Live(u64),
    /// The break at the beginning of this segment has made it void.
    Void(u64),
    /// `meta` says that it is not needed any more.
    Trimmed,
}

/// A file that is no segment.
#[derive(Debug)]
pub(crate) struct OtherFile {
    pub(crate) name: String,
    pub(crate) size: u64,
    pub(crate) what: &'static str,
}

impl<F> SegmentFile<F> {
    pub(crate) fn name(&self) -> String {
        segment_name(self.number)
    }

    /// Where its groups end at the latest, if it counts.
    pub(crate) fn limit(&self) -> Option<u64> {
        match self.standing {
            Standing::Live(limit) => Some(limit),
            Standing::Void(_) | Standing::Trimmed => None,
        }
    }
}

impl<F: DiskFile> SegmentFile<F> {
    /// The header of its first group, if there is an intact one; the group's body is not looked at.
    pub(crate) fn first_header(&self) -> io::Result<Option<GroupHeader>> {
        let Ok(segment) = &self.header else { return Ok(None) };
        if self.limit().is_none_or(|limit| limit <= GROUPS_AT) {
            return Ok(None);
        }
        let ours =
            |group: &GroupHeader| group.salt == segment.salt && group.segment == segment.number;
        Ok(GroupHeader::decode(&read_block(&self.file, GROUPS_AT)?).filter(ours))
    }
}

impl<F: DiskFile> Survey<F> {
    /// Reads everything but groups.
    pub fn read<D: Disk<File = F>>(disk: &D) -> Result<Self, Trouble> {
        let mut list = disk.list().map_err(failed("the directory"))?;
        list.sort();
        let mut survey = Self {
            meta: read_meta(disk, list.iter().any(|(name, _)| name == META_NAME))?,
            segments: Vec::new(),
            others: Vec::new(),
        };
        let range = survey.meta.facts.as_ref().and_then(Facts::segments);
        let first = range.map_or(0, |range| range.first);
        let spares_from = survey.meta.facts.as_ref().map_or(0, |facts| facts.spares_from);
        for (name, size) in list {
            if name == META_NAME {
                continue;
            }
            if image_number(&name).or_else(|| cold_number(&name)).is_some() {
                // They are looked at by themselves.
                continue;
            }
            let Some(number) = segment_number(&name) else {
                let what = what_it_is(&name, spares_from);
                survey.others.push(OtherFile { name, size, what });
                continue;
            };
            let segment = read_segment(disk, number, size, survey.meta.facts.as_ref())?;
            survey.segments.push(segment);
        }
        survey.segments.sort_by_key(|segment| segment.number);
        for segment in &mut survey.segments {
            if segment.number < first {
                segment.standing = Standing::Trimmed;
            }
        }
        survey.apply_breaks();
        Ok(survey)
    }

    fn apply_breaks(&mut self) {
        for nth in 0..self.segments.len() {
            let (older, rest) = self.segments.split_at_mut(nth);
            let SegmentFile { header: Ok(header), standing: Standing::Live(_), .. } = &rest[0]
            else {
                continue;
            };
            if header.beginning != Beginning::Break {
                continue;
            }
            let good = header.last_good;
            for segment in older {
                match &mut segment.standing {
                    Standing::Live(_) if segment.number > good.segment => {
                        segment.standing = Standing::Void(header.number);
                    }
                    Standing::Live(limit) if segment.number == good.segment => {
                        *limit = (*limit).min(good.end);
                    }
                    _ => {}
                }
            }
        }
    }

    /// What the first segment that counts begins with, if `meta` says it: its header does not.
    pub(crate) fn begins(&self) -> Option<FirstGroup> {
        let header = self.live().first()?.header.as_ref().ok()?;
        let facts = self.meta.facts.as_ref()?;
        facts.first_group.filter(|_| header.beginning == Beginning::Roll)
    }

    /// Segments that count, by number.
    pub(crate) fn live(&self) -> Vec<&SegmentFile<F>> {
        self.segments.iter().filter(|segment| segment.limit().is_some()).collect()
    }
}

fn failed(file: &str) -> impl Fn(io::Error) -> Trouble {
    let file = file.to_owned();
    move |error| Trouble::File { file: file.clone(), error }
}

/// What a file is that is no segment. Spares below `spares_from` were there before the log.
fn what_it_is(name: &str, spares_from: u64) -> &'static str {
    let spare = name.strip_prefix("spare-").and_then(|number| number.parse::<u64>().ok());
    match name {
        "meta.new" => "an unfinished meta, means nothing",
        "image.new" | "cold.new" | "topics.new" => "unfinished, means nothing",
        _ if topics_number(name).is_some() => "topics of a segment, made again where it is missing",
        _ if spare.is_some_and(|number| number >= spares_from) => "spare, for a later segment",
        _ => "not the log's",
    }
}

fn read_meta<D: Disk>(disk: &D, is_there: bool) -> Result<Meta, Trouble> {
    if !is_there {
        return Ok(Meta { facts: None, faults: vec!["the file is missing".to_owned()] });
    }
    let file = disk.open(META_NAME).map_err(failed(META_NAME))?;
    let mut buffer = IoBuffer::with_blocks(2);
    let read = file.read_at(&mut buffer, 0).map_err(failed(META_NAME))?;
    buffer[read..].fill(0);
    let mut meta = Meta { facts: None, faults: Vec::new() };
    for (page, bytes) in buffer.as_chunks::<BLOCK>().0.iter().enumerate() {
        match Facts::decode(bytes) {
            Ok(facts) => {
                let older = meta.facts.as_ref().is_some_and(|best| best.sequence > facts.sequence);
                if !older {
                    meta.facts = Some(facts);
                }
            }
            Err(fault) => {
                check_version(META_NAME, fault)?;
                meta.faults.push(format!("page {page}: {fault}"));
            }
        }
    }
    Ok(meta)
}

fn check_version(file: &str, fault: Fault) -> Result<(), Trouble> {
    match fault {
        Fault::Version { .. } => {
            Err(Trouble::Version { file: file.to_owned(), reason: fault.to_string() })
        }
        _ => Ok(()),
    }
}

fn read_segment<D: Disk>(
    disk: &D,
    number: u64,
    size: u64,
    facts: Option<&Facts>,
) -> Result<SegmentFile<D::File>, Trouble> {
    let name = segment_name(number);
    let file = disk.open(&name).map_err(failed(&name))?;
    let header = match read_block(&file, 0) {
        Ok(block) => match SegmentHeader::decode(&block) {
            Ok(header) => check_header(header, number, facts),
            Err(fault) => {
                check_version(&name, fault)?;
                Err(fault.to_string())
            }
        },
        Err(error) => Err(format!("its header cannot be read: {error}")),
    };
    let length = header.as_ref().map_or(size, |header| header.length);
    let closing = header.as_ref().ok().and_then(|header| {
        let block = read_block(&file, header.length - GROUPS_AT).ok()?;
        header.decode_closing(&block)
    });
    // Not behind the closing, nor behind the end of the file, whatever the header says.
    let limit = closing.map_or(length, |closing| closing.end);
    let standing = Standing::Live(limit.min(size.next_multiple_of(GROUPS_AT)));
    Ok(SegmentFile { number, size, file, header, closing, standing })
}

fn check_header(
    header: SegmentHeader,
    number: u64,
    facts: Option<&Facts>,
) -> Result<SegmentHeader, String> {
    if header.number != number {
        return Err(format!("its header is that of segment {}", header.number));
    }
    if facts.is_some_and(|facts| facts.identity.log != header.identity.log) {
        return Err("it belongs to another log".to_owned());
    }
    Ok(header)
}

/// A block of a file; what the file does not have is zero.
pub(crate) fn read_block<F: DiskFile>(file: &F, at: u64) -> io::Result<[u8; BLOCK]> {
    let mut buffer = IoBuffer::with_blocks(1);
    let read = file.read_at(&mut buffer, at)?;
    buffer[read..].fill(0);
    Ok(buffer.as_chunks::<BLOCK>().0[0])
}
