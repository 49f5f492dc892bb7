//! The helper: every step that may block, away from the lanes.
//!
//! Owns: making, closing and recycling segments while the log runs, `meta`, the durable mark of
//! an idle log. Runs as a thread, or step by step in a simulator.

use std::io;
use std::sync::Arc;

use crate::disk::{Ahead, BLOCK, Disk, DiskFile};
use crate::format::group::Place;
use crate::format::segment::{Beginning, LastGood};
use crate::io::IoBuffer;
use crate::log::core::Full;
use crate::log::maker::{self, MakeError, Maker, Purpose, Zeroes};
use crate::log::shared::Shared;
use crate::log::space::Space;
use crate::log::truncate::Cut;
use crate::lsn::Lsn;
use crate::meta::Meta;
use crate::rules::{self, Rule};
use crate::segment::{Segment, segment_name, trimmable};

/// What a leader asks for.
pub(crate) enum Task<F> {
    /// The segment that follows the one written now.
    Prepare { last_good: LastGood, length: u64, is_bulky: bool, is_needed: bool },
    /// A segment for what a failed write has left, with room for so many bytes at least.
    Move { last_good: LastGood, length: u64, least: u64 },
    /// A segment that breaks with what a newer term does not have.
    Truncate { cut: Cut, durable: LastGood, length: u64 },
    /// The index of a segment whose groups are all durable.
    Close(Full<F>),
}

pub(crate) enum Reply<F> {
    Prepared(Result<Arc<Segment<F>>, MakeError>),
    Moved(Result<Arc<Segment<F>>, MakeError>),
    Truncated(Result<Arc<Segment<F>>, MakeError>),
}

pub(crate) struct Helper<D: Disk> {
    pub(crate) maker: Maker<D>,
    pub(crate) meta: Meta<D>,
    pub(crate) tasks: rtrb::Consumer<Task<D::File>>,
    pub(crate) replies: rtrb::Producer<Reply<D::File>>,
    /// What this start has broken off: the space behind its groups is not needed any more.
    pub(crate) ended: Option<Arc<Segment<D::File>>>,
    /// Taken out of the table; `meta` does not say so yet.
    pub(crate) parting: Vec<Arc<Segment<D::File>>>,
    /// `meta` does not name them any more; their files wait for the last lease.
    pub(crate) dying: Vec<Arc<Segment<D::File>>>,
    /// A truncation has taken back the durable mark, and its break, behind this group, has found no
    /// space.
    pub(crate) taken_back: Option<LastGood>,
    /// The durable LSN seen at the last step, and since when.
    pub(crate) seen: (Lsn, u64),
}

/// A log without a new durable record for so long gets its durable mark.
const IDLE_MS: u64 = 100;

/// Of a segment for long groups so many parts of these are zeroed: where a write takes long by its
/// length, the first one to a block costs little more, and zeroes take what the device could give.
const BULK_ZEROED: u64 = 3;
const BULK_PARTS: u64 = 4;

/// Room for tasks and replies; more wait with the leader.
pub(crate) const RING: usize = 16;

impl<D: Disk> Helper<D> {
    /// Does all that is to be done; true if there was something.
    pub(crate) fn step(&mut self, shared: &Shared<D>, now_ms: u64) -> bool {
        let mut worked = false;
        if let Some(ended) = self.ended.take() {
            worked = true;
            give_back(shared, &ended);
        }
        while !self.replies.is_full()
            && let Ok(task) = self.tasks.pop()
        {
            worked = true;
            match task {
                Task::Prepare { last_good, length, is_bulky, is_needed } => {
                    self.prepare(shared, last_good, length, (is_bulky, is_needed));
                }
                Task::Move { last_good, length, least } => {
                    self.make_move(shared, last_good, length, least);
                }
                Task::Truncate { cut, durable, length } => {
                    self.truncate(shared, cut, durable, length);
                }
                Task::Close(full) => close(shared, &full),
            }
        }
        let outcome = self.trim(shared).and_then(|trimmed| {
            worked |= trimmed;
            self.look_at_space(shared)?;
            self.mark_if_idle(shared, now_ms)
        });
        match outcome {
            Ok(marked) => worked |= marked,
            Err(error) => shared.poison(format!("the helper's step failed: {error}")),
        }
        worked
    }

    /// A file that fails here is poisoned, and nothing was in it: another one is tried, once.
    fn prepare(
        &mut self,
        shared: &Shared<D>,
        last_good: LastGood,
        wanted: u64,
        (is_bulky, is_needed): (bool, bool),
    ) {
        let Some(length) = self.fitting(shared, wanted, is_needed) else {
            let full = MakeError::NoSpace(io::ErrorKind::StorageFull.into());
            return self.reply(shared, Reply::Prepared(Err(full)));
        };
        // What is not needed any more is left behind in the same statement, or becomes the file.
        self.part(shared);
        if !self.maker.has_spare(length)
            && let Err(error) = self.trim(shared)
        {
            return self.reply(shared, Reply::Prepared(Err(MakeError::Names(error))));
        }
        let purpose =
            Purpose { beginning: Beginning::Roll, continues: self.maker.newest, last_good, length };
        let most = if is_bulky { length / BULK_PARTS * BULK_ZEROED } else { length };
        let pace = |zeroed| pace(shared, zeroed, length);
        let zeroes = Zeroes { most, pace: &pace };
        let mut made = self.make(shared, &purpose, zeroes);
        if let Err(MakeError::File(error)) = &made {
            shared.note_cured(format!("a file for the next segment failed: {error}"));
            made = self.make(shared, &purpose, zeroes);
        }
        self.reply(shared, Reply::Prepared(made));
    }

    /// How long a segment may be. Who cannot be told what is free finds out.
    pub(crate) fn fitting(&self, shared: &Shared<D>, wanted: u64, is_needed: bool) -> Option<u64> {
        match self.maker.free_bytes() {
            Ok(free) => shared.gauge.fitting(wanted, free, is_needed),
            Err(_) => Some(wanted),
        }
    }

    /// Tells everybody how much is left. Where it is little, spare files are given up for it.
    fn look_at_space(&mut self, shared: &Shared<D>) -> io::Result<()> {
        let Ok(free) = self.maker.free_bytes() else { return Ok(()) };
        let has_changed = shared.gauge.look(free);
        self.maker.is_thrifty = shared.gauge.level() >= Space::Low;
        if self.maker.is_thrifty && !shared.is_read_only() {
            self.maker.shed_spares(shared.gauge.shortest())?;
        }
        if has_changed {
            shared.wake_all();
        }
        Ok(())
    }

    fn make_move(&mut self, shared: &Shared<D>, last_good: LastGood, wanted: u64, least: u64) {
        let length = self.fitting(shared, wanted, true).unwrap_or(least).max(least);
        let made = self.make_break(shared, last_good, length);
        self.reply(shared, Reply::Moved(made));
    }

    /// A segment behind `last_good`: what else lies behind it is void.
    pub(crate) fn make_break(
        &mut self,
        shared: &Shared<D>,
        last_good: LastGood,
        length: u64,
    ) -> Result<Arc<Segment<D::File>>, MakeError> {
        // The segment with the last good group may have been trimmed. Before `meta` says so it is
        // still one that must be there, and is what this one must name.
        let is_it = |segment: &&Arc<Segment<_>>| segment.header.number == last_good.segment;
        let parting = || self.parting.iter().find(is_it).cloned();
        let older = shared.table.find(last_good.segment).or_else(parting);
        if let Some(older) = &older {
            older.set_broken();
        }
        let salt = older.map_or_else(Default::default, |segment| segment.header.salt);
        let continues = (last_good.segment, salt);
        let purpose = Purpose { beginning: Beginning::Break, continues, last_good, length };
        let segment = self.make(shared, &purpose, Zeroes::ALL)?;
        let dropped = self.drop_void(shared, last_good.segment, segment.header.number);
        dropped.map_err(MakeError::Names)?;
        Ok(segment)
    }

    fn make(
        &mut self,
        shared: &Shared<D>,
        purpose: &Purpose,
        zeroes: Zeroes<'_>,
    ) -> Result<Arc<Segment<D::File>>, MakeError> {
        let segment = self.maker.make(purpose, zeroes)?;
        shared.table.lock().push_back(Arc::clone(&segment));
        self.state(shared).map_err(MakeError::Names)?;
        Ok(segment)
    }

    /// Removes what lies between a break and the group that it names. One of these files may have
    /// failed: none is used again.
    fn drop_void(&mut self, shared: &Shared<D>, after: u64, before: u64) -> io::Result<()> {
        let mut void = Vec::new();
        shared.table.lock().retain(|segment| {
            let number = segment.header.number;
            let keep = number <= after || number >= before;
            if !keep {
                void.push(number);
            }
            keep
        });
        void.into_iter().try_for_each(|number| self.maker.remove(&segment_name(number)))
    }

    pub(crate) fn reply(&mut self, shared: &Shared<D>, reply: Reply<D::File>) {
        let pushed = self.replies.push(reply);
        assert!(pushed.is_ok(), "room for the reply was seen before the task was taken");
        shared.wake_leaders();
    }

    /// Which segments there are: from now on the files of others may go.
    fn state(&mut self, shared: &Shared<D>) -> io::Result<()> {
        let table = shared.table.lock();
        let ends = table.front().cloned().zip(table.back().cloned());
        drop(table);
        let Some((first, last)) = ends else { unreachable!("the last segment stays") };
        // What goes was durable, and what the log goes on with: once it is gone nothing else may
        // tell where it ended.
        let durable = (shared.durable(), shared.durable_group());
        let (lsn, group) = if self.parting.is_empty() { (Lsn::ZERO, 0) } else { durable };
        self.meta.note_segments(|facts| {
            facts.set_segments(first.header.number, last.header.number, first.first_group());
            facts.durable = facts.durable.max(lsn);
            facts.durable_group = facts.durable_group.max(group);
        })?;
        self.dying.append(&mut self.parting);
        Ok(())
    }

    /// Takes whole segments below the wanted LSN from the front, states in `meta` that they are
    /// gone, and only then recycles their files.
    fn trim(&mut self, shared: &Shared<D>) -> io::Result<bool> {
        self.part(shared);
        if !self.parting.is_empty() {
            self.state(shared)?;
        }
        self.recycle_dying()
    }

    /// Takes whole segments below the wanted LSN out of the front of the table.
    fn part(&mut self, shared: &Shared<D>) {
        self.part_by(shared, || shared.with_core(|core| core.oldest_needed()));
    }

    /// [`part`](Self::part), for tests too, in which the log goes on while this asks.
    fn part_by(&mut self, shared: &Shared<D>, oldest_needed: impl FnOnce() -> Option<Place>) {
        let below = Lsn::new(shared.trim_below.load(std::sync::atomic::Ordering::Acquire));
        if trimmable(shared.table.lock().make_contiguous(), below) == 0 {
            return;
        }
        // A big record that is being written needs its first parts, too. What it needs is asked
        // before the table is: once its end is written, its last segment says so, and not sooner
        // does the core forget it.
        let open = oldest_needed().map_or(u64::MAX, |place| place.segment);
        let mut table = shared.table.lock();
        let count = trimmable(table.make_contiguous(), below);
        let wanted = |segment: &&Arc<Segment<_>>| segment.header.number < open;
        let count = table.iter().take(count).take_while(wanted).count();
        self.parting.extend(table.drain(..count));
    }

    fn recycle_dying(&mut self) -> io::Result<bool> {
        let mut worked = false;
        let at_once = !rules::holds(Rule::LeaseAtOnce);
        let waits = rules::holds(Rule::Lease) && !at_once;
        let is_free = |segment: &Arc<Segment<_>>| !(segment.is_leased() && waits);
        while let Some(at) = self.dying.iter().position(is_free) {
            let segment = self.dying.remove(at);
            if at_once && segment.is_leased() {
                overwrite(&segment);
            }
            if segment.is_broken() {
                self.maker.remove(&segment.name())?;
            } else {
                self.maker.recycle(segment.header.number, segment.header.length)?;
            }
            worked = true;
        }
        Ok(worked)
    }

    fn mark_if_idle(&mut self, shared: &Shared<D>, now_ms: u64) -> io::Result<bool> {
        let durable = shared.durable();
        if self.seen.0 != durable {
            self.seen = (durable, now_ms);
        }
        let idle = now_ms.saturating_sub(self.seen.1) >= IDLE_MS;
        if !idle || self.meta.facts().durable == durable || shared.is_read_only() {
            return Ok(false);
        }
        self.mark(shared).map(|()| true)
    }

    /// States in `meta` what is durable.
    pub(crate) fn mark(&mut self, shared: &Shared<D>) -> io::Result<()> {
        let (lsn, group) = (shared.durable(), shared.durable_group());
        self.meta.update(|facts| {
            facts.durable = facts.durable.max(lsn);
            facts.durable_group = facts.durable_group.max(group);
        })
    }
}

/// Writes over a file that is used again, as its next use does in time. Whether that fails proves
/// nothing.
fn overwrite<F: DiskFile>(segment: &Segment<F>) {
    let blocks = segment.header.length.div_ceil(BLOCK as u64);
    let zeroes = IoBuffer::with_blocks(usize::try_from(blocks).unwrap_or(0));
    let _ = segment.file.write_at(&zeroes, 0);
}

/// How fast the next segment is zeroed. It stays ahead of the log, with twice as much of it done as
/// of the segment before is used; as long as that is so, and nobody waits for this step, others
/// hardly notice.
fn pace<D: Disk>(shared: &Shared<D>, zeroed: u64, length: u64) -> Ahead {
    if shared.waits_for_segment() {
        return Ahead::Enough;
    }
    if shared.waits_for_helper() || shared.gauge.level() >= Space::Low {
        return Ahead::Briskly;
    }
    let used = shared.table.lock().back().map_or((0, 1), |last| (last.end(), last.header.length));
    let [zeroed, length, used, of] = [zeroed, length, used.0, used.1].map(u128::from);
    if zeroed * of < 2 * used * length { Ahead::Briskly } else { Ahead::Gently }
}

/// The unused rest of a segment is void, and its file is not written again.
fn give_back<D: Disk>(shared: &Shared<D>, ended: &Segment<D::File>) {
    assert!(ended.is_broken(), "a file that is written again keeps its blocks");
    let unused = ended.header.length.saturating_sub(ended.end());
    if unused > 0
        && let Err(error) = ended.file.give_back(ended.end(), unused)
    {
        shared.note_cured(format!("{} keeps its unused space: {error}", ended.name()));
    }
}

/// Writes the index of a segment, unless it has been trimmed meanwhile: then its file is a spare,
/// or another segment already.
fn close<D: Disk>(shared: &Shared<D>, full: &Full<D::File>) {
    if shared.table.find(full.segment.header.number).is_none() {
        return;
    }
    // Without its index a segment is read all the same. Its file is poisoned for further writes:
    // it is no spare when it goes.
    if let Err(error) = maker::close(&full.segment, &full.index, full.last) {
        full.segment.set_broken();
        shared.note_cured(format!("{} stays without its index: {error}", full.segment.name()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::index::Entry;
    use crate::log::options::tests::counted;
    use crate::log::{Log, Options, Producer, Staging, Stall, Wake};
    use crate::sim_disk::{Fault, SimDisk, Survival};

    struct Nobody;

    impl Wake for Nobody {
        fn wake(&self) {}
    }

    /// A trim may come between the moment in which a segment's last group is durable and the one
    /// in which the task to close it is there.
    #[test]
    fn a_segment_that_was_trimmed_is_not_closed_any_more() {
        let disk = SimDisk::new();
        let options = || Options {
            segment_size: 64 * 1024,
            group_size: 32 * 1024,
            chunk_size: 4096,
            part_size: 8192,
            ..Options::new(counted())
        };
        let (log, _) = Log::open(disk.clone(), options(), 0, &mut |_| Ok(())).unwrap();
        let shared = &log.shared;
        let first = Arc::clone(&shared.table.lock()[0]);
        let mut lane = log.producer(Arc::new(Nobody), None).unwrap();
        let how = Staging { kind: 1, waits: true, ..Staging::default() };
        while shared.table.lock().iter().filter(|kept| kept.first_lsn().is_some()).count() < 3 {
            lane.stage(&how, |out| out.extend_from_slice(&[7; 4000])).unwrap();
            lane.drive(1000);
            lane.drive(1000);
            log.helper_step(0);
        }
        log.trim(log.durable());
        while log.helper_step(0) {}
        assert!(shared.table.find(first.header.number).is_none());
        let last = LastGood { segment: first.header.number, end: first.end(), ..log_end(shared) };
        let index = vec![Entry { first_lsn: Lsn::new(1), time_ms: 1, block: 1, records: 1 }];
        let hash = disk.image_hash();
        close(shared, &Full { segment: first, index, last });
        assert_eq!(disk.image_hash(), hash, "its file may be another segment's");
    }

    /// Writes groups of so many records of 1000 bytes until `count` segments are there, helped at
    /// each turn.
    fn write_groups(log: &Log<SimDisk>, lane: &mut Producer<SimDisk>, of: usize, count: usize) {
        let how = Staging { kind: 1, waits: true, ..Staging::default() };
        while log.shared.table.lock().len() < count {
            for _ in 0..of {
                lane.stage(&how, |out| out.extend_from_slice(&[7; 1000])).unwrap();
            }
            while lane.durable() < lane.handed() {
                lane.drive(1000);
                log.helper_step(0);
            }
        }
    }

    fn of_segments(disk: &SimDisk) -> (Log<SimDisk>, Producer<SimDisk>) {
        let options = Options {
            segment_size: 256 * 1024,
            group_size: 128 * 1024,
            chunk_size: 4096,
            part_size: 8192,
            ..Options::new(counted())
        };
        let (log, _) = Log::open(disk.clone(), options, 0, &mut |_| Ok(())).unwrap();
        let lane = log.producer(Arc::new(Nobody), None).unwrap();
        (log, lane)
    }

    /// Of each segment that is there, what is zeroed and where its groups end, in KiB.
    fn zeroed(log: &Log<SimDisk>) -> Vec<(u64, u64)> {
        let kib = |segment: &Arc<Segment<_>>| (segment.zeroed() / 1024, segment.end() / 1024);
        log.shared.table.lock().iter().map(kib).collect()
    }

    #[test]
    fn what_follows_short_groups_is_zeroed_to_its_end() {
        let (log, mut lane) = of_segments(&SimDisk::new());
        write_groups(&log, &mut lane, 1, 5);
        assert!(zeroed(&log).iter().all(|(zeroed, _)| *zeroed == 256), "{:?}", zeroed(&log));
    }

    #[test]
    fn a_part_of_what_follows_long_groups_is_space_and_no_more() {
        let disk = SimDisk::new();
        let (log, mut lane) = of_segments(&disk);
        write_groups(&log, &mut lane, 24, 5);
        let of_long = zeroed(&log);
        assert_eq!(of_long[3..].iter().map(|(zeroed, _)| *zeroed).collect::<Vec<_>>(), [192; 2]);
        assert!(of_long[..3].iter().all(|(_, end)| *end > 200), "all of it is used: {of_long:?}");
        // When groups are short again they go where zeroes are, and what follows has all of them.
        write_groups(&log, &mut lane, 1, 8);
        let of_short = zeroed(&log);
        let left = |(zeroed, end): &(u64, u64)| *zeroed == 192 && (192..230).contains(end);
        assert!(of_short[3..5].iter().all(left), "{of_short:?}");
        assert!(of_short[5..].iter().all(|(zeroed, _)| *zeroed == 256), "{of_short:?}");
        let last = log.durable();
        drop((log, lane));
        let mut found = 0;
        let (log, _) = Log::open(disk.restart(), Options::new(counted()), 0, &mut |record| {
            found += u64::from(record.body == [7; 1000]);
            Ok(())
        })
        .unwrap();
        assert_eq!((found, log.durable()), (last.get(), last));
    }

    #[test]
    fn zeroes_are_written_gently_while_they_are_twice_as_far_as_the_log() {
        let (log, mut lane) = of_segments(&SimDisk::new());
        let length = 512 * 1024;
        let of = |zeroed| pace(&log.shared, zeroed, length);
        write_groups(&log, &mut lane, 1, 2);
        let how = Staging { kind: 1, waits: true, ..Staging::default() };
        let used = |log: &Log<SimDisk>| log.shared.table.lock().back().map(|last| last.end());
        while used(&log) < Some(64 * 1024) {
            lane.stage(&how, |out| out.extend_from_slice(&[7; 1000])).unwrap();
            while lane.durable() < lane.handed() {
                lane.drive(1000);
            }
        }
        // A quarter of its segment is used.
        assert_eq!((of(200 * 1024), of(300 * 1024)), (Ahead::Briskly, Ahead::Gently));
        log.shared.set_waits_for_segment(true);
        assert_eq!(of(300 * 1024), Ahead::Enough);
    }

    /// Images state facts and a stop leaves its mark between two steps of the helper.
    #[test]
    fn who_waits_for_the_helper_does_not_wait_for_gentle_zeroes() {
        let (log, _lane) = of_segments(&SimDisk::new());
        let far = u64::MAX / 2;
        let helper = log.shared.helper();
        assert_eq!(pace(&log.shared, far, far), Ahead::Gently);
        std::thread::scope(|scope| {
            scope.spawn(|| log.facts());
            while !log.shared.waits_for_helper() {
                std::thread::yield_now();
            }
            assert_eq!(pace(&log.shared, far, far), Ahead::Briskly);
            drop(helper);
        });
        assert_eq!(pace(&log.shared, far, far), Ahead::Gently);
    }

    /// Who writes faster than zeroes are waits for no more of them.
    #[test]
    fn a_segment_that_is_waited_for_is_zeroed_no_further() {
        let (log, mut lane) = of_segments(&SimDisk::new());
        let how = Staging { kind: 1, waits: true, ..Staging::default() };
        let stall = loop {
            lane.stage(&how, |out| out.extend_from_slice(&[7; 1000])).unwrap();
            let drive = lane.drive(1000);
            if drive.stall.is_some() {
                break drive.stall;
            }
        };
        assert_eq!(stall, Some(Stall::Segment));
        while log.helper_step(0) {}
        assert_eq!(zeroed(&log).last(), Some(&(0, 4)));
        write_groups(&log, &mut lane, 1, 4);
        assert_eq!(zeroed(&log).last().map(|(zeroed, _)| *zeroed), Some(256), "nobody waits");
    }

    /// A record in parts whose first ones are durable in segment 1, behind three others; the write
    /// of the rest has failed, and is under way again behind a break.
    fn end_behind_a_break(disk: &SimDisk) -> (Log<SimDisk>, Producer<SimDisk>) {
        let options = Options {
            segment_size: 128 * 1024,
            group_size: 32 * 1024,
            chunk_size: 4096,
            part_size: 8192,
            ..Options::new(counted())
        };
        let (log, _) = Log::open(disk.clone(), options, 0, &mut |_| Ok(())).unwrap();
        let mut lane = log.producer(Arc::new(Nobody), None).unwrap();
        let how = Staging { kind: 1, waits: true, ..Staging::default() };
        for len in [10, 10, 10, 40_000] {
            if len > 10 {
                disk.hold();
            }
            lane.stage(&how, |out| out.resize(out.len() + len, 7)).unwrap();
            lane.drive(1000);
        }
        let [first, rest] = disk.in_flight()[..] else { panic!("two groups: {disk:?}") };
        disk.release(first);
        disk.release_with(rest, Fault::Fail(io::ErrorKind::Other));
        for _ in 0..3 {
            lane.drive(1000);
            log.helper_step(0);
        }
        lane.drive(1000);
        assert_eq!((disk.in_flight().len(), log.durable()), (1, Lsn::new(3)));
        (log, lane)
    }

    /// Nothing says twice that the beginning is needed: before the end is durable those who write
    /// it do, behind that its segment.
    #[test]
    fn the_beginning_of_a_record_stays_while_its_end_becomes_durable() {
        for asks_first in [true, false] {
            let disk = SimDisk::new();
            let (log, mut lane) = end_behind_a_break(&disk);
            log.trim(Lsn::new(4));
            let shared = &log.shared;
            shared.helper().part_by(shared, || {
                let ask = || shared.with_core(|core| core.oldest_needed());
                let before = asks_first.then(ask);
                disk.release_all();
                lane.drive(1000);
                assert_eq!(log.durable(), Lsn::new(4));
                before.unwrap_or_else(ask)
            });
            while log.helper_step(0) {}
            let mut reader = log.reader(Lsn::new(4)).unwrap();
            let record = reader.next_record().unwrap().unwrap();
            assert!(record.body == vec![7; 40_000], "{asks_first}");
        }
    }

    /// It has left the table, and must be there until `meta` says that it is gone: between the two
    /// the making of a next segment may fail.
    #[test]
    fn a_break_behind_a_segment_that_is_about_to_go_names_it() {
        let start = SimDisk::new();
        let (log, mut lane) = of_segments(&start);
        write_groups(&log, &mut lane, 1, 2);
        let last = log.durable();
        drop((log, lane));
        let mut cuts = 0;
        loop {
            let disk = start.restart();
            let (log, lane) = of_segments(&disk);
            log.trim(last.next());
            let shared = &log.shared;
            let mut helper = shared.helper();
            helper.part(shared);
            assert!(!helper.parting.is_empty());
            disk.cut_power(cuts + 1);
            let made = helper.make_break(shared, log_end(shared), 256 * 1024);
            drop(helper);
            drop((log, lane));
            if !disk.is_off() {
                assert!(made.is_ok() && cuts > 5, "{cuts}");
                break;
            }
            cuts += 1;
            for survival in [Survival::Nothing, Survival::Everything] {
                let (log, _) = of_segments(&disk.crash_with(survival));
                assert_eq!(log.durable(), last, "cut off at {cuts}, {survival:?}");
            }
        }
    }

    fn log_end(shared: &Shared<SimDisk>) -> LastGood {
        shared.with_core(|core| core.durable)
    }
}
