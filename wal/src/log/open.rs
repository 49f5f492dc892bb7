//! Opening: recovery, then a new segment, so that nothing found is ever written over.
//!
//! Owns: the order of steps that makes what was found durable before anybody is served.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use crate::disk::{Disk, DiskFile};
use crate::error::OpenError;
use crate::format::meta::Facts;
use crate::format::segment::{Beginning, GROUPS_AT, Identity, LastGood};
use crate::io::IoBuffer;
use crate::log::Log;
use crate::log::core::{Active, Core, FLIGHTS_MAX, Limits, Mode};
use crate::log::helper::{Helper, RING};
use crate::log::maker::{Maker, Name, Purpose, Spare, Zeroes};
use crate::log::options::{Commits, Options};
use crate::log::renew::renew;
use crate::log::shared::Shared;
use crate::log::space::Gauge;
use crate::lsn::Lsn;
use crate::meta::Meta;
use crate::recover::files::Files;
use crate::recover::{Cleared, End, Recovered, Recovery, Visit, Why, recover};
use crate::segment::{Segment, SegmentTable, segment_name, spare_name};

/// A log that was read and is not open: nothing on its disk has been changed.
pub struct Found<D: Disk> {
    disk: Arc<D>,
    options: Options,
    recovered: Recovered<D>,
}

impl<D: Disk> Log<D> {
    /// Opens the log in the directory of `disk`, or makes one. `visit` sees every record from
    /// `options.visit_from` on, in LSN order. What was found is durable when this returns.
    ///
    /// The log does nothing by itself: see [`spawn_helper`](Self::spawn_helper).
    pub fn open(
        disk: D,
        options: Options,
        now_ms: u64,
        visit: &mut Visit<'_>,
    ) -> Result<(Self, Recovery), OpenError> {
        Self::find(disk, options, visit)?.open(now_ms)
    }

    /// The first half of [`open`](Self::open): reads the log, and changes nothing. For a caller
    /// that knows only when it has seen all records whether it takes them.
    pub fn find(disk: D, options: Options, visit: &mut Visit<'_>) -> Result<Found<D>, OpenError> {
        options.check().map_err(OpenError::Options)?;
        let disk = Arc::new(disk);
        let recovered = recover(&disk, &options, visit)?;
        Ok(Found { disk, options, recovered })
    }
}

impl<D: Disk> Found<D> {
    /// The second half of [`Log::open`].
    pub fn open(self, now_ms: u64) -> Result<(Log<D>, Recovery), OpenError> {
        let Self { disk, mut options, recovered } = self;
        let Recovered { mut files, mut recovery, last, term, mut segments, unproven } = recovered;
        let meta = match files.meta.take() {
            // Before the first segment: its name alone may not be certain.
            Some(meta) if meta.facts().segments().is_none() => meta.replace(&*disk, |_| {}),
            Some(meta) => Ok(meta),
            None => create_meta(&*disk, &mut options, files.newest_spare),
        };
        let meta = meta.map_err(OpenError::disk("making meta"))?;
        let identity = meta.facts().identity;
        if (identity.cluster, identity.node) != (options.identity.cluster, options.identity.node) {
            return Err(OpenError::Options("the log belongs to another node or cluster"));
        }
        sync_all(&*disk, &segments)?;

        recovery.epoch = recovery.epoch.max(meta.facts().epoch) + 1;
        let (limits, shortest) = (limits(&options, term), options.first_segment());
        let mut maker = Maker {
            disk: Arc::clone(&disk),
            identity,
            epoch: recovery.epoch,
            newest: files.newest,
            next_spare: files.newest_spare + 1,
            spares: keep_spares(&*disk, &files.spares)?,
            is_thrifty: false,
            entropy: options.entropy,
        };
        let gauge = Gauge::new(shortest);
        let (found_in, length) = (last.segment, next_length(&segments, last, limits.segment_size));
        let (last, renewed) = renew(&mut maker, &mut segments, &unproven, last)?;
        recovery.renewed = renewed;
        // What was kept free for the log is for this, too.
        let fits = maker.free_bytes().ok().and_then(|free| gauge.fitting(length, free, true));
        let length = fits.unwrap_or(length.min(shortest));
        let purpose = continue_behind(&segments, last, length);
        let made = maker.make(&purpose, Zeroes::ALL).map_err(io::Error::from);
        let made = made.map_err(OpenError::disk("making a segment"))?;
        let first = segments.first().unwrap_or(&made);
        let meta = meta.replace(&*disk, |facts| {
            facts.epoch = recovery.epoch;
            facts.durable = facts.durable.max(last.lsn);
            facts.durable_group = facts.durable_group.max(last.group);
            facts.set_segments(first.header.number, made.header.number, first.first_group());
        });
        let meta = meta.map_err(OpenError::disk("writing meta"))?;
        let ended = end_last(&segments, &recovery, found_in);
        recovery.cleared.extend(ended.as_deref().map(unused));
        recycle_unneeded(&mut maker, &files, &segments, &mut recovery.cleared)?;
        let (commits, read_threads) = (options.commits, options.read_threads);
        if let Ok(free) = maker.free_bytes() {
            gauge.look(free);
        }
        let parts = Parts { maker, meta, made, segments, ended, commits, read_threads, gauge };
        Ok((assemble(disk, limits, now_ms, parts), recovery))
    }
}

/// The segment of this start is as long as the groups of the one before suggest.
fn next_length<F>(segments: &[Arc<Segment<F>>], last: LastGood, segment_size: u64) -> u64 {
    let shortest = segment_size.min(FIRST_SEGMENT);
    let older = segments.last().filter(|kept| kept.header.number == last.segment);
    older.map_or(shortest, |kept| {
        (kept.end() - GROUPS_AT).next_power_of_two().clamp(shortest, segment_size)
    })
}

/// The segment of this start: it breaks with all behind the last good group.
fn continue_behind<F>(segments: &[Arc<Segment<F>>], last_good: LastGood, length: u64) -> Purpose {
    let older = segments.last().filter(|kept| kept.header.number == last_good.segment);
    let salt = older.map_or_else(Default::default, |kept| kept.header.salt);
    let continues = (last_good.segment, salt);
    Purpose { beginning: Beginning::Break, continues, last_good, length }
}

/// Nothing is written any more behind the last group. Returns the segment in which it was found,
/// if what is behind it there is of no use: no index, and no remains of a write, which may be
/// looked at as long as this start lasts.
fn end_last<F>(
    segments: &[Arc<Segment<F>>],
    recovery: &Recovery,
    found_in: u64,
) -> Option<Arc<Segment<F>>> {
    segments.last()?.set_broken();
    // Whether the index of one had failed, and its file with it, is not known any more.
    segments.iter().filter(|kept| !kept.is_indexed()).for_each(|kept| kept.set_broken());
    let older = segments.iter().find(|kept| kept.header.number == found_in)?;
    older.set_broken();
    let found = recovery.segments.iter().find(|found| found.number == older.header.number)?;
    let of_use = older.is_indexed() || matches!(found.end, End::Torn { .. });
    (!of_use).then(|| Arc::clone(older))
}

/// Files of segments in which nothing ever counted are used again, now that the new one is in
/// place: before, one of them may have been all that knew where the log ended.
fn recycle_unneeded<D: Disk>(
    maker: &mut Maker<D>,
    files: &Files<D>,
    segments: &[Arc<Segment<D::File>>],
    cleared: &mut Vec<Cleared>,
) -> Result<(), OpenError> {
    let needed = |number: u64| segments.iter().any(|kept| kept.header.number == number);
    let live = files.live.iter().map(|found| (found.header.number, found.header.length));
    let all = files.unneeded.iter().copied().chain(live);
    for (number, length) in all.filter(|(number, _)| !needed(*number)) {
        let file = segment_name(number);
        maker.recycle(number, length).map_err(OpenError::disk(format!("recycling {file}")))?;
        cleared.push(Cleared { file, offset: 0, bytes: length, why: Why::Void });
    }
    for (number, bytes) in files.trimmed.iter().copied() {
        let file = segment_name(number);
        maker.disk.remove(&file).map_err(OpenError::disk(format!("removing {file}")))?;
        cleared.push(Cleared { file, offset: 0, bytes, why: Why::Trimmed });
    }
    Ok(())
}

/// The space behind the groups of a segment, which the helper gives back.
fn unused<F>(ended: &Segment<F>) -> Cleared {
    let (offset, length) = (ended.end(), ended.header.length);
    let bytes = length.saturating_sub(offset);
    Cleared { file: ended.name(), offset, bytes, why: Why::Unused }
}

const FIRST_SEGMENT: u64 = 1024 * 1024;

struct Parts<D: Disk> {
    maker: Maker<D>,
    meta: Meta<D>,
    made: Arc<Segment<D::File>>,
    segments: Vec<Arc<Segment<D::File>>>,
    ended: Option<Arc<Segment<D::File>>>,
    commits: Commits,
    read_threads: usize,
    gauge: Gauge,
}

fn assemble<D: Disk>(disk: Arc<D>, limits: Limits, now_ms: u64, parts: Parts<D>) -> Log<D> {
    let last = parts.made.header.last_good;
    let (task_ring, tasks) = rtrb::RingBuffer::new(RING);
    let (replies, reply_ring) = rtrb::RingBuffer::new(RING);
    let mut table = VecDeque::from(parts.segments);
    table.push_back(Arc::clone(&parts.made));
    let core = Core {
        cut: None,
        generation: 0,
        limits,
        lanes: Vec::new(),
        turn: 0,
        now_ms: now_ms.max(last.time_ms),
        mode: Mode::Running,
        active: Active::new(parts.made),
        was_bulky: false,
        next: None,
        next_asked: false,
        next_is_needed: false,
        ask_at_ms: 0,
        lacks_space: None,
        move_at: None,
        full: VecDeque::new(),
        flights: VecDeque::with_capacity(FLIGHTS_MAX),
        completions: Vec::new(),
        next_token: 1,
        appended: last,
        durable: last,
        buffers: Vec::<IoBuffer>::new(),
        recent: VecDeque::new(),
        recent_bytes: 0,
        free_groups: Vec::new(),
        free_marks: Vec::new(),
        tasks: VecDeque::new(),
        task_ring,
        reply_ring,
    };
    let helper = Helper {
        maker: parts.maker,
        meta: parts.meta,
        tasks,
        replies,
        ended: parts.ended,
        parting: Vec::new(),
        dying: Vec::new(),
        taken_back: None,
        seen: (Lsn::ZERO, 0),
    };
    let table = Arc::new(SegmentTable::new(table));
    let Parts { commits, read_threads, gauge, .. } = parts;
    let shared = Shared::new(disk, core, helper, table, commits, read_threads, gauge);
    Log { shared: Arc::new(shared) }
}

fn limits(options: &Options, newest: u64) -> Limits {
    Limits {
        term: options.term.max(newest),
        segment_size: options.segment_size,
        first_segment: options.first_segment(),
        group_size: options.group_size,
        chunk_size: options.chunk_size,
        part_size: options.part_size,
        ring_chunks: options.ring_chunks,
        tail_groups: options.tail_groups,
        tail_bytes: options.tail_bytes,
        lazy_ms: options.lazy_ms,
        lazy_bytes: options.lazy_bytes,
        watch_us: options.watch_us,
    }
}

/// Spares that are there already, up to this number, are not the log's.
fn create_meta<D: Disk>(disk: &D, options: &mut Options, others: u64) -> io::Result<Meta<D>> {
    let identity = Identity { log: (options.entropy)(), ..options.identity };
    Meta::create(disk, Facts { identity, spares_from: others + 1, ..Facts::default() })
}

/// Bytes may have been written and read back without ever having been durable.
fn sync_all<D: Disk>(disk: &D, segments: &[Arc<Segment<D::File>>]) -> Result<(), OpenError> {
    for segment in segments {
        segment.file.sync().map_err(OpenError::disk(format!("syncing {}", segment.name())))?;
    }
    disk.sync_dir().map_err(OpenError::disk("syncing the directory"))
}

/// Two spare files stay, the others are removed.
fn keep_spares<D: Disk>(disk: &D, found: &[(u64, u64)]) -> Result<Vec<Spare>, OpenError> {
    let (kept, surplus) = found.split_at(found.len().min(2));
    for (number, _) in surplus {
        let name = spare_name(*number);
        disk.remove(&name).map_err(OpenError::disk(format!("removing {name}")))?;
    }
    let spare = |&(number, length): &(u64, u64)| Spare { number, length, name: Name::Found };
    Ok(kept.iter().map(spare).collect())
}
