//! Packing: chunks of all producers become one group with a place, LSNs and a seal.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::chunk::Part;
use crate::disk::Disk;
use crate::format::Checksum;
use crate::format::group::{GroupHeader, HEADER_LEN, Place};
use crate::format::index::Entry;
use crate::format::segment::{GROUPS_AT, LastGood};
use crate::io::IoBuffer;
use crate::log::core::{Active, Core, Full, Lane, Leader, Stall};
use crate::log::flight::{AwaitedBy, Flight, State};
use crate::log::options::room;
use crate::log::shared::Shared;
use crate::log::wanted::Published;
use crate::lsn::Lsn;
use crate::tail::Group;

/// A group's records in the buffer that is written, with zeroes behind them.
struct Filled {
    buffer: IoBuffer,
    records_len: usize,
    body_checksum: u32,
}

impl<D: Disk> Core<D> {
    /// Makes one group of what is staged and appends it; or says why not.
    pub(crate) fn pack(&mut self, shared: &Shared<D>, leader: Leader<'_>) -> Option<Stall> {
        if self.tail_is_full() {
            return Some(Stall::Tail);
        }
        let Some(room) = self.find_room() else {
            shared.set_waits_for_segment(true);
            return Some(if shared.has_no_space() { Stall::Space } else { Stall::Segment });
        };
        // Before its chunks leave the rings: the last parts of a lane that has gone count, too.
        let open = self.oldest_open();
        let mut group = self.gather(room);
        let flight = self.seal(shared, &mut group, open);
        shared.publish_appended(self.appended.lsn);
        self.flights.push_back(flight);
        self.show(group, leader);
        self.wake_starved(leader);
        None
    }

    fn tail_is_full(&mut self) -> bool {
        for lane in &mut self.lanes {
            if lane.tail.as_ref().is_some_and(rtrb::Producer::is_abandoned) {
                lane.tail = None;
            }
        }
        self.recent_bytes >= self.limits.tail_bytes
            || self.lanes.iter().any(|lane| lane.tail.as_ref().is_some_and(rtrb::Producer::is_full))
    }

    /// Bytes of records that a group may take where the next one goes; rolls if it must.
    fn find_room(&mut self) -> Option<usize> {
        let room = self.room();
        if self.some_chunk_fits(room) && !self.rolls_early() {
            return Some(room);
        }
        let next = self.next.take()?;
        self.was_bulky = self.is_bulky();
        assert_eq!(next.header.number, self.active.segment.header.number + 1, "it rolls on");
        assert!(!self.active.index.is_empty(), "an empty segment has room for any chunk");
        let old = std::mem::replace(&mut self.active, Active::new(next));
        self.full.push_back(Full { segment: old.segment, index: old.index, last: self.appended });
        let room = self.room();
        assert!(self.some_chunk_fits(room), "an empty segment has room for any chunk");
        Some(room)
    }

    /// A group of some bytes is written sooner where blocks were written before: then the rest of a
    /// segment that has none of these is left, once half of it is used.
    fn rolls_early(&self) -> bool {
        let Active { segment, end, .. } = &self.active;
        *end >= segment.zeroed()
            && *end >= segment.header.length / 2
            && self.next.as_ref().is_some_and(|next| next.zeroed() > next.header.length / 2)
            && !self.is_bulky()
    }

    /// Whether groups are long, in the middle: whoever writes such is held by the device's
    /// bandwidth.
    pub(crate) fn is_bulky(&self) -> bool {
        let groups = self.active.index.len() as u64;
        if groups < TELLING {
            return self.was_bulky;
        }
        (self.active.end - GROUPS_AT) / groups > (self.limits.group_size / LONG) as u64
    }

    fn room(&self) -> usize {
        let length = self.active.segment.header.length;
        let groups = self.active.index.len() as u64;
        let room = room(length, self.active.end, groups);
        let room = usize::try_from(room).unwrap_or(usize::MAX).min(self.limits.group_size);
        room.saturating_sub(HEADER_LEN)
    }

    fn some_chunk_fits(&self, room: usize) -> bool {
        let fits = |chunk: &crate::chunk::Chunk| chunk.bytes.len() <= room;
        self.lanes.iter().any(|lane| lane.ring.peek().is_ok_and(fits))
    }

    /// Takes chunks, lane by lane, the first lane another one each time, while they fit.
    fn gather(&mut self, mut room: usize) -> Arc<Group> {
        let mut shell = self.free_groups.pop().unwrap_or_else(|| Arc::new(Group::new()));
        let Some(group) = Arc::get_mut(&mut shell) else {
            unreachable!("nobody reads it any more")
        };
        assert!(group.chunks.is_empty(), "its chunks went back to their producers");
        (group.lanes, group.records, group.bytes) = (0, 0, 0);
        let count = self.lanes.len();
        for nth in 0..count {
            let lane = &mut self.lanes[(self.turn + nth) % count];
            while lane.ring.peek().is_ok_and(|chunk| chunk.bytes.len() <= room) {
                let Ok(chunk) = lane.ring.pop() else { break };
                lane.shared.staged_bytes.fetch_sub(chunk.bytes.len(), Ordering::AcqRel);
                room -= chunk.bytes.len();
                group.bytes += chunk.bytes.len() + chunk.whole.len();
                group.records += chunk.records();
                group.lanes |= chunk.lanes_all;
                group.chunks.push(chunk);
            }
        }
        self.turn = (self.turn + 1) % count;
        assert!(!group.chunks.is_empty(), "something was due and fits");
        shell
    }

    /// Gives the group its number, place and LSNs, and fills the buffer that will be written.
    fn seal(
        &mut self,
        shared: &Shared<D>,
        shell: &mut Arc<Group>,
        open: Option<Place>,
    ) -> Flight<D::File> {
        let Some(group) = Arc::get_mut(shell) else { unreachable!("nobody has seen it yet") };
        group.number = self.appended.group + 1;
        group.first_lsn = self.next_lsn();
        group.time_ms = self.appended.time_ms.max(self.now_ms);
        let place = Place { segment: self.active.segment.header.number, offset: self.active.end };
        let mut header = GroupHeader {
            checksum: 0,
            body_checksum: 0,
            length: 0,
            salt: self.active.segment.header.salt,
            segment: place.segment,
            number: group.number,
            term: self.limits.term,
            first_lsn: group.first_lsn,
            time_ms: group.time_ms,
            durable: self.durable.lsn,
            records: group.records,
            records_len: 0,
            previous: self.appended.checksum,
            open,
        };
        let marks = self.note_chunks(group, place);
        let Filled { mut buffer, records_len, body_checksum } = self.fill(shared, group);
        header.seal(&mut buffer, records_len, body_checksum);
        let flight = Flight {
            header,
            segment: Arc::clone(&self.active.segment),
            offset: place.offset,
            marks,
            moved: false,
            awaited: AwaitedBy::Visitor,
            submitted_us: 0,
            state: State::Ready(buffer),
        };
        self.append(&flight);
        flight
    }

    /// The place of a sealed group is taken: what follows goes behind it.
    pub(crate) fn append<F>(&mut self, flight: &Flight<F>) {
        let header = &flight.header;
        assert_eq!(flight.offset, self.active.end, "groups follow one another");
        assert_eq!(header.number, self.appended.group + 1, "group numbers are dense");
        assert_eq!(header.first_lsn, self.appended.lsn.next(), "LSNs are dense");
        assert!(header.time_ms >= self.appended.time_ms, "log time never goes back");
        let Ok(block) = u32::try_from(flight.offset / GROUPS_AT) else {
            unreachable!("options keep segments shorter")
        };
        self.active.index.push(Entry {
            first_lsn: header.first_lsn,
            time_ms: header.time_ms,
            block,
            records: header.records,
        });
        self.active.end += header.length as u64;
        self.appended = flight.last_good();
    }

    fn oldest_open(&self) -> Option<Place> {
        // Of a producer that has gone nothing comes any more once its ring is empty.
        let goes_on = |lane: &&Lane| !lane.gone || !lane.ring.is_empty();
        self.lanes.iter().filter(goes_on).filter_map(|lane| lane.open).min()
    }

    /// The oldest part of a big record that what is not yet durable needs.
    pub(crate) fn oldest_needed(&self) -> Option<Place> {
        let in_flight = self.flights.iter().filter_map(|flight| flight.header.open).min();
        [self.oldest_open(), in_flight].into_iter().flatten().min()
    }

    /// Counts what each producer gets an LSN for, and follows the parts of big records.
    fn note_chunks(&mut self, group: &Group, place: Place) -> Vec<(usize, u64)> {
        let mut marks: Vec<(usize, u64)> = self.free_marks.pop().unwrap_or_default();
        for chunk in &group.chunks {
            let producer = usize::from(chunk.producer);
            let lane = &mut self.lanes[producer];
            let handed = chunk.handed_after();
            assert_eq!(lane.shared.appended.load(Ordering::Relaxed), chunk.handed_before);
            lane.shared.appended.store(handed, Ordering::Release);
            match chunk.part {
                Part::First => lane.open = Some(place),
                Part::Last => lane.open = None,
                Part::None | Part::Middle => {}
            }
            match marks.last_mut() {
                Some(mark) if mark.0 == producer => mark.1 = handed,
                _ => marks.push((producer, handed)),
            }
        }
        marks
    }

    fn fill(&mut self, shared: &Shared<D>, group: &Group) -> Filled {
        // `group.bytes` counts whole big records, too, of which one part at most is written here.
        let bytes: usize = group.chunks.iter().map(|chunk| chunk.bytes.len()).sum();
        let fresh = || shared.disk.buffer(HEADER_LEN + bytes);
        let mut buffer = self.buffers.pop().unwrap_or_else(fresh);
        buffer.clear();
        buffer.resize(HEADER_LEN);
        let mut sum = Checksum::new();
        for chunk in &group.chunks {
            buffer.extend_from_slice(&chunk.bytes);
            chunk.add_to(&mut sum);
        }
        let records_end = buffer.len();
        buffer.pad_to_block();
        sum.update(&buffer[records_end..]);
        Filled { buffer, records_len: records_end - HEADER_LEN, body_checksum: sum.value() }
    }

    /// Shows an appended group to all cursors, and wakes the lanes that it concerns.
    fn show(&mut self, group: Arc<Group>, leader: Leader<'_>) {
        let half = self.limits.tail_groups / 2;
        for (number, lane) in self.lanes.iter_mut().enumerate() {
            let Some(tail) = &mut lane.tail else { continue };
            let pushed = tail.push(Arc::clone(&group));
            assert!(pushed.is_ok(), "the tail was found to have room");
            let concerned = group.lanes >> number & 1 == 1;
            if (concerned || tail.slots() <= half) && leader.producer != Some(number) {
                lane.shared.wake.wake();
            }
        }
        self.recent_bytes += group.bytes;
        self.recent.push_back(group);
    }

    fn wake_starved(&self, leader: Leader<'_>) {
        let published = Published::so_far();
        for (number, lane) in self.lanes.iter().enumerate() {
            let starved = lane.shared.starved.is_met(&published);
            if starved && leader.producer != Some(number) {
                lane.shared.wake.wake();
            }
        }
    }
}

impl<F> Flight<F> {
    /// The group, as what follows it names it.
    pub(crate) fn last_good(&self) -> LastGood {
        LastGood::of(&self.header, self.offset + self.header.length as u64)
    }

    /// LSN before its first record.
    pub(crate) fn lsn_before(&self) -> Lsn {
        Lsn::new(self.header.first_lsn.get() - 1)
    }
}

/// So many groups of a segment tell how long the next ones will be.
const TELLING: u64 = 4;

/// A group of more than this part of the longest is long.
const LONG: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chunk::Chunk;
    use crate::disk::BLOCK;
    use crate::format::record::Flags;
    use crate::log::options::tests::counted;
    use crate::log::{Log, Options};
    use crate::sim_disk::SimDisk;

    #[test]
    fn a_buffer_is_as_long_as_what_is_written() {
        let options = Options::new(counted());
        let (log, _) = Log::open(SimDisk::new(), options, 0, &mut |_| Ok(())).unwrap();
        let mut last = Chunk::new(0);
        last.hold_part(1, Flags::CONTINUES, 1, b"the end of it");
        last.whole = vec![7; 1 << 20];
        let mut group = Group::new();
        group.bytes = last.bytes.len() + last.whole.len();
        group.chunks.push(last);
        let Filled { buffer, .. } = log.shared.with_core(|core| core.fill(&log.shared, &group));
        assert_eq!(buffer.capacity(), BLOCK);
    }
}
