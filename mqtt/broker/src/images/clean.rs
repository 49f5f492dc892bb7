//! The cleaner: what is alive of the old part of the log goes to a cold file, so that the log can
//! be let go; what is alive of cold files that are mostly dead goes along.
//!
//! Owns: what moves where, and what stays because there is no room for it elsewhere. Assumes: each
//! record named is in the log, or in a cold file.

use std::collections::BTreeMap;
use std::sync::Arc;

use zzq_snapshot::{
    ColdFile, ColdReader, ColdRecord, ColdShelf, ColdWriter, Heading, Need, NeededKind, Pace,
};
use zzq_wal::disk::{Disk, DiskFile};
use zzq_wal::{KeptSegment, Log, Lsn};

use super::make::MakeError;
use super::needs::{count, empty};
use super::olds::{Old, Run};
use super::past::Skipping;

/// With more files than this the smallest are joined.
const FILES_MAX: usize = 8;

/// What a cold file of it costs, beside the record itself.
const OVERHEAD: u64 = 64;

/// Room for what moves.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    /// Bytes that a new cold file may take.
    pub(super) bytes: u64,
    /// Space is what it is for: files are not joined.
    pub(super) is_scarce: bool,
}

/// What is alive of a cold file.
#[derive(Clone, Copy, Debug)]
struct Alive {
    need: Need,
    records: u64,
}

/// What the cleaner has done.
#[derive(Debug, Default)]
pub(super) struct Cleaned {
    /// Cold files that are needed, and segments for what stays in them.
    pub(super) needs: Vec<Need>,
    /// Records that were moved.
    pub(super) moved: u64,
    /// Records that are named and nowhere.
    pub(super) gone: u64,
}

/// Brings `old` records into cold files that are in none: from the front of the log on, for the log
/// is let go from there, as far as there is room, and as far as it gains at least what it takes. A
/// front of the log that is mostly alive stays: it would be written twice for nothing. A new file
/// is like `heading`.
pub(super) fn clean<D: Disk>(
    log: &Log<D>,
    cold: &mut ColdShelf<D::File>,
    old: &Run,
    heading: Heading,
    room: Room,
    pace: Pace<'_>,
) -> Result<Cleaned, MakeError> {
    // The image will be marked with the numbers that were used.
    cold.clear(&**log.disk())?;
    let mut alive = BTreeMap::new();
    let homes = Homes::of(cold, old, &mut alive);
    let with_homes = || old.iter().zip(homes.iter());
    let segments = log.segments();
    let homeless = with_homes().filter(|(_, home)| home.is_none());
    let Front { end, taken } = front(&segments, homeless.map(|(old, _)| old), room);
    let left = Room { bytes: room.bytes - taken, ..room };
    let emptied = emptied(cold, &alive, left);
    alive.retain(|number, _| !emptied.contains(number));
    let stays = |lsn: Lsn| lsn >= end;
    let moves = |(old, home): &(Old, Option<u64>)| match home {
        Some(number) => emptied.contains(number),
        None => !stays(old.lsn),
    };
    let staying = with_homes().filter(|(old, home)| home.is_none() && stays(old.lsn));
    let mut needs = of_segments(&segments, staying.map(|(old, _)| old));
    needs.extend(alive.values().map(|alive| alive.need));
    let mut cleaned = Cleaned { needs, ..Cleaned::default() };
    if !with_homes().any(|one| moves(&one)) {
        return Ok(cleaned);
    }
    let number = cold.take_number();
    let heading = Heading { number, before: None, ..heading };
    let mut writer = ColdWriter::begin(&**log.disk(), heading, pace)?;
    let mut sources = Sources::new(log, cold.files());
    let mut need = empty(NeededKind::Cold, number);
    for (old, home) in with_homes().filter(moves) {
        let Some(bytes) = sources.copy(old.lsn, home, &mut writer)? else {
            cleaned.gone += 1;
            continue;
        };
        cleaned.moved += 1;
        count(&mut need, old);
        if pace(bytes).is_break() {
            return Err(MakeError::Stopped);
        }
    }
    drop(sources);
    if cleaned.moved > 0 {
        cold.admit(writer.finish()?);
        cleaned.needs.push(need);
    }
    Ok(cleaned)
}

/// What moves of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Front {
    /// Records from here on stay.
    end: Lsn,
    /// Bytes of those that move.
    taken: u64,
}

/// How much of the front of the log moves, a segment at a time. `old` are records of it that
/// nothing else has, ascending.
fn front(segments: &[KeptSegment], old: impl Iterator<Item = Old>, room: Room) -> Front {
    let mut old = old.peekable();
    // Those in front of all segments are nowhere: they are counted, and take nothing.
    let first = segments.first().map_or(Lsn::new(u64::MAX), |segment| segment.first);
    while old.next_if(|old| old.lsn < first).is_some() {}
    let (mut best, mut taken, mut freed) = (Front { end: first, taken: 0 }, 0_u64, 0_u64);
    for (at, segment) in segments.iter().enumerate() {
        let end = segments.get(at + 1).map_or(Lsn::new(u64::MAX), |next| next.first);
        while let Some(one) = old.next_if(|old| old.lsn < end) {
            taken = taken.saturating_add(one.record_bytes() + OVERHEAD);
        }
        freed = freed.saturating_add(segment.bytes);
        if taken > room.bytes {
            break;
        }
        if taken.saturating_mul(2) <= freed {
            best = Front { end, taken };
        }
        if old.peek().is_none() {
            break;
        }
    }
    best
}

/// The segments that hold these records, ascending.
fn of_segments(segments: &[KeptSegment], old: impl Iterator<Item = Old>) -> Vec<Need> {
    let mut needs: Vec<Need> = Vec::new();
    for old in old {
        let behind = segments.partition_point(|segment| segment.first <= old.lsn);
        let Some(segment) = behind.checked_sub(1).map(|at| segments[at]) else { continue };
        if needs.last().is_none_or(|need| need.number != segment.number) {
            needs.push(empty(NeededKind::Segment, segment.number));
        }
        if let Some(need) = needs.last_mut() {
            count(need, old);
        }
    }
    needs
}

/// The newest cold file of each old record, if there is one.
struct Homes {
    /// Of the files, ascending.
    numbers: Vec<u64>,
    /// Where in `numbers`, from 1; 0: nowhere.
    ranks: Vec<u16>,
}

impl Homes {
    fn of<F: DiskFile>(cold: &ColdShelf<F>, old: &Run, alive: &mut BTreeMap<u64, Alive>) -> Self {
        let numbers: Vec<u64> = cold.files().iter().map(|file| file.number()).collect();
        let mut ranks = Vec::with_capacity(old.len());
        for old in old.iter() {
            let number = home(cold, &old, alive);
            let rank = number.and_then(|number| numbers.binary_search(&number).ok());
            let Ok(rank) = u16::try_from(rank.map_or(0, |rank| rank + 1)) else {
                unreachable!("{} cold files: a rank is 16 bits", numbers.len());
            };
            ranks.push(rank);
        }
        Self { numbers, ranks }
    }

    fn iter(&self) -> impl Iterator<Item = Option<u64>> {
        let number = |rank: &u16| Some(self.numbers[usize::from(rank.checked_sub(1)?)]);
        self.ranks.iter().map(number)
    }
}

/// The newest cold file with this record, which is alive there.
fn home<F: DiskFile>(
    cold: &ColdShelf<F>,
    old: &Old,
    alive: &mut BTreeMap<u64, Alive>,
) -> Option<u64> {
    let number = cold.find(old.lsn)?.number();
    let need = empty(NeededKind::Cold, number);
    let alive = alive.entry(number).or_insert(Alive { need, records: 0 });
    count(&mut alive.need, *old);
    alive.records += 1;
    Some(number)
}

/// Files that are given up: mostly dead ones, and the smallest of too many, while there is room for
/// what is alive of them.
fn emptied<F: DiskFile>(cold: &ColdShelf<F>, alive: &BTreeMap<u64, Alive>, room: Room) -> Vec<u64> {
    let records = |number: u64| alive.get(&number).map_or(0, |alive| alive.records);
    let files = cold.files().iter().filter(|file| records(file.number()) > 0);
    let (mut emptied, mut kept): (Vec<_>, Vec<_>) =
        files.partition(|file| records(file.number()) < file.len() / 2);
    if kept.len() >= FILES_MAX && !room.is_scarce {
        kept.sort_by_key(|file| file.len());
        emptied.extend(kept.drain(..=FILES_MAX / 2));
    }
    let mut left = room.bytes;
    let mut numbers: Vec<u64> = emptied.into_iter().map(|file| file.number()).collect();
    numbers.retain(|number| {
        let of_it = alive.get(number);
        let takes = of_it.map_or(0, |alive| alive.need.bytes + OVERHEAD * alive.records);
        let fits = takes <= left;
        left -= if fits { takes } else { 0 };
        fits
    });
    numbers
}

/// Where records are copied from.
struct Sources<'s, D: Disk> {
    log: Skipping<D>,
    cold: BTreeMap<u64, ColdReader<'s, D::File>>,
}

impl<'s, D: Disk> Sources<'s, D> {
    fn new(log: &Log<D>, files: &'s [Arc<ColdFile<D::File>>]) -> Self {
        let cold = files.iter().map(|file| (file.number(), file.reader())).collect();
        Self { log: Skipping::new(log.clone()), cold }
    }

    /// Copies a record from the log, or from the cold file of this number; returns its length,
    /// `None` if it is not there.
    fn copy(
        &mut self,
        lsn: Lsn,
        home: Option<u64>,
        writer: &mut ColdWriter<'_, D>,
    ) -> Result<Option<usize>, MakeError> {
        let record = match home.and_then(|number| self.cold.get_mut(&number)) {
            Some(reader) => reader.read(lsn)?,
            None => self.of_log(lsn)?,
        };
        let Some(record) = record else { return Ok(None) };
        writer.record(record)?;
        Ok(Some(record.body.len()))
    }

    fn of_log(&mut self, lsn: Lsn) -> Result<Option<ColdRecord<'_>>, MakeError> {
        match self.log.read(zzq_types::Lsn::new(lsn.get())) {
            Ok(found) => Ok(found.map(|found| ColdRecord {
                lsn,
                time_ms: found.time_ms,
                kind: found.kind,
                body: found.body,
            })),
            Err(zzq_wal::ReadError::Trimmed { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEGMENT: u64 = 10_000;

    /// Ten segments of ten records.
    fn segments() -> Vec<KeptSegment> {
        let segment = |n: u64| KeptSegment {
            number: n,
            first: Lsn::new(n * 10),
            last: Lsn::new(n * 10 + 9),
            bytes: SEGMENT,
        };
        (1..=10).map(segment).collect()
    }

    /// Each of these records weighs so much, with what it costs.
    fn old(lsns: &[u64], bytes: u64) -> Vec<Old> {
        let bytes = 3 * (bytes - OVERHEAD);
        lsns.iter().map(|lsn| Old { lsn: Lsn::new(*lsn), references: 3, bytes }).collect()
    }

    fn moved(old: &[Old], bytes: u64) -> (u64, u64) {
        let room = Room { bytes, is_scarce: false };
        let Front { end, taken } = front(&segments(), old.iter().copied(), room);
        (end.get(), taken)
    }

    #[test]
    fn what_there_is_room_for_moves_from_the_front_on() {
        let old = old(&[10, 11, 25, 26, 40], 1000);
        assert_eq!(moved(&old, 10_000), (50, 5000), "all, and its segment as a whole");
        assert_eq!(moved(&old, 4999), (40, 4000));
        assert_eq!(moved(&old, 3999), (20, 2000), "not half a segment");
        assert_eq!(moved(&old, 1999), (10, 0));
        assert_eq!(moved(&[], 0), (20, 0), "nothing is in its way");
    }

    #[test]
    fn segments_that_are_mostly_alive_stay() {
        let dense = old(&[10, 11, 12, 13, 14, 15], 1000);
        assert_eq!(moved(&dense, 10_000), (10, 0));
        let behind = old(&[10, 11, 12, 13, 14, 15, 25], 1000);
        assert_eq!(moved(&behind, 10_000), (30, 7000), "over both it gains");
    }

    #[test]
    fn records_that_are_nowhere_take_no_room() {
        assert_eq!(moved(&old(&[3, 4, 12], 1000), 1000), (20, 1000));
    }

    #[test]
    fn what_stays_is_needed_where_it_is() {
        let needs = of_segments(&segments(), old(&[3, 12, 19, 40], 1000).into_iter());
        let seen: Vec<_> =
            needs.iter().map(|n| (n.number, n.first.get(), n.last.get(), n.references)).collect();
        assert_eq!(seen, [(1, 12, 19, 6), (4, 40, 40, 3)]);
    }
}
