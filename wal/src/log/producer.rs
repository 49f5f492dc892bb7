//! A producer: the end of the log that one lane owns.
//!
//! Owns: staging in place, the hand-over of chunks, the lane's counts.
//! Does not know: how groups are packed and written.

use std::collections::VecDeque;
use std::fmt;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::chunk::Chunk;
use crate::disk::Disk;
use crate::error::StageError;
use crate::format::record::{BODY_MAX, Flags, HEADER_LEN};
use crate::log::core::{Core, Leader, ProducerShared};
use crate::log::presence::Where;
use crate::log::share::{Pack, Patience};
use crate::log::shared::{Drive, Shared};
use crate::log::spares::{Giver, Taker};
use crate::lsn::{Handed, Lsn};
use crate::tail::TailCursor;

/// How a record is staged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Staging {
    /// What the body is, in the caller's words.
    pub kind: u8,
    /// Somebody waits: the record starts a write. Otherwise it rides with the next, or goes
    /// when enough time has passed or enough has gathered.
    pub waits: bool,
    /// The lanes that it concerns, bit n for the lane of producer n: their cursors are woken.
    pub lanes: u64,
    /// It may use the quarter of the ring that is kept for what must not be refused, however many
    /// bytes are in it.
    pub reserved: bool,
}

/// One lane's way into the log: a single owner stages, drives, and learns what is durable.
///
/// Call [`drive`](Self::drive) at the end of a turn in which something was staged, the tail was
/// read, the waker was called, the notify fd was readable, or the time of the last
/// [`Drive::again_at`] has come.
// On cache lines of its own: its counts change with each record, and what lies beside it in its
// owner's memory may well be another lane's.
#[repr(align(128))]
pub struct Producer<D: Disk> {
    pub(crate) log: Arc<Shared<D>>,
    pub(crate) mine: Arc<ProducerShared>,
    pub(crate) index: u16,
    /// How many truncations came before it was made.
    pub(crate) generation: u64,
    pub(crate) notify: Option<Arc<OwnedFd>>,
    pub(crate) ring: rtrb::Producer<Chunk>,
    pub(crate) back: Taker,
    pub(crate) current: Chunk,
    /// Parts of one big record that the ring has no room for yet.
    pub(crate) backlog: VecDeque<Chunk>,
    pub(crate) handed: u64,
    /// The count of the newest record that nobody waits for, and since when there are such.
    pub(crate) lazy_handed: u64,
    pub(crate) lazy_since: Option<u64>,
    /// What was handed over since the driver's thread was called last.
    pub(crate) uncalled: Uncalled,
}

/// Chunks that whoever drives the log has not been called for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Uncalled {
    waits: bool,
    bytes: usize,
}

impl<D: Disk> Producer<D> {
    /// Its number, which is its lane's bit in [`Staging::lanes`].
    pub fn index(&self) -> u16 {
        self.index
    }

    /// Encodes a record into the lane's chunk: `encode` only appends. It is handed over at the end
    /// of the turn, with a checksum that is made then.
    pub fn stage(
        &mut self,
        staging: &Staging,
        encode: impl FnOnce(&mut Vec<u8>),
    ) -> Result<Handed, StageError> {
        if self.log.is_read_only() {
            return Err(StageError::ReadOnly);
        }
        if self.is_ended() {
            return Err(StageError::Ended);
        }
        if !self.has_room(staging.reserved) {
            return Err(StageError::Full);
        }
        if self.current.bytes.len() >= self.log.limits.chunk_size {
            self.hand_over_current();
        }
        if self.current.is_empty() {
            self.current.handed_before = self.handed;
        }
        let start = self.current.encode(encode);
        let body = self.current.bytes.len() - start - HEADER_LEN;
        if body > BODY_MAX {
            self.current.bytes.truncate(start);
            return Err(StageError::TooLong(body));
        }
        let flags = if staging.waits { Flags::WAITS } else { Flags::default() };
        if body <= self.log.limits.part_size {
            self.current.finish(start, staging.kind, flags, staging.lanes);
        } else {
            let whole = self.current.bytes.split_off(start + HEADER_LEN);
            self.current.bytes.truncate(start);
            self.stage_parts(staging, flags, whole);
        }
        self.handed += 1;
        if !staging.waits {
            self.lazy_handed = self.handed;
        }
        Ok(Handed::new(self.handed))
    }

    fn stage_parts(&mut self, staging: &Staging, flags: Flags, whole: Vec<u8>) {
        self.hand_over_current();
        let count = whole.len().div_ceil(self.log.limits.part_size);
        for (nth, body) in whole.chunks(self.log.limits.part_size).enumerate() {
            let mut flags = flags;
            if nth > 0 {
                flags = flags.with(Flags::CONTINUES);
            }
            if nth + 1 < count {
                flags = flags.with(Flags::MORE);
            }
            self.current.handed_before = self.handed;
            self.current.hold_part(staging.kind, flags, staging.lanes, body);
            if nth + 1 < count {
                self.hand_over_current();
            }
        }
        self.current.whole = whole;
        self.hand_over_current();
    }

    /// Whether [`stage`](Self::stage) would take a record now. If not, the waker is called when
    /// it is worth another try, unless it is this producer's own [`drive`](Self::drive) that makes
    /// room: then it is worth one after that call.
    pub fn has_room(&mut self, reserved: bool) -> bool {
        if self.sees_room(reserved) {
            return true;
        }
        self.mine.starved.ask();
        self.flush_backlog();
        let room = self.sees_room(reserved);
        if room {
            self.mine.starved.take_back();
        }
        room
    }

    fn sees_room(&self, reserved: bool) -> bool {
        let kept = if reserved { 0 } else { self.log.limits.ring_chunks / 4 };
        let staged = self.mine.staged_bytes.load(Ordering::Acquire);
        let has_bytes = reserved || staged < self.log.limits.staged();
        self.backlog.is_empty() && self.ring.slots() > kept && has_bytes
    }

    /// Hands over what is staged. Records that nobody waits for stay in the lane while earlier
    /// chunks are still waiting, so that they do not fill the ring with crumbs.
    pub fn flush(&mut self, now_ms: u64) {
        self.note_time(now_ms);
        self.flush_backlog();
        if self.current.is_empty() {
            return;
        }
        let empty = self.ring.slots() == self.log.limits.ring_chunks;
        let overdue = self.current.since_ms.saturating_add(self.log.limits.lazy_ms) <= now_ms;
        if self.current.waits || empty || overdue {
            self.hand_over_current();
        }
    }

    fn note_time(&mut self, now_ms: u64) {
        if self.lazy_handed <= self.appended().get() {
            self.lazy_since = None;
        } else if self.lazy_since.is_none() {
            self.lazy_since = Some(now_ms);
        }
        if !self.current.is_empty() && self.current.since_ms == 0 {
            self.current.since_ms = now_ms.max(1);
        }
    }

    /// The ring takes what waits for it; of what is left somebody calls.
    fn flush_backlog(&mut self) {
        let mine = Arc::clone(&self.mine);
        mine.starved.put_or_ask(|| {
            self.push_backlog();
            !self.backlog.is_empty()
        });
    }

    fn push_backlog(&mut self) {
        while !self.ring.is_full()
            && let Some(chunk) = self.backlog.pop_front()
        {
            self.uncalled.waits |= chunk.waits;
            self.uncalled.bytes += chunk.bytes.len();
            // Before whoever packs can take it.
            self.mine.staged_bytes.fetch_add(chunk.bytes.len(), Ordering::AcqRel);
            let pushed = self.ring.push(chunk);
            assert!(pushed.is_ok(), "the ring had room");
        }
    }

    /// The current chunk goes to the ring, or behind what waits for the ring.
    fn hand_over_current(&mut self) {
        if self.current.is_empty() {
            return;
        }
        let index = self.index;
        let fresh = self.back.take().unwrap_or_else(|| Chunk::new(index));
        let mut chunk = std::mem::replace(&mut self.current, fresh);
        chunk.seal();
        self.backlog.push_back(chunk);
        self.flush_backlog();
    }

    /// Hands over what is staged and leads if leadership is free. Where a thread drives the log it
    /// is called instead, if there is something for it.
    pub fn drive(&mut self, now_ms: u64) -> Drive {
        self.drive_with(now_ms, Patience::None)
    }

    /// The first half of [`drive`](Self::drive): what is staged gets its place, if leadership is
    /// free, and the tail shows it, but nothing is written. So a lane can send what this delivers
    /// before it spends time on the write. The lane still calls `drive` in the same turn; if
    /// another lane leads before that, it writes this, too.
    ///
    /// False: somebody else leads, a lane or the log's thread, so the write would cost this lane
    /// nothing. There is nothing to be gained by putting `drive` off.
    pub fn seal(&mut self, now_ms: u64) -> bool {
        if self.is_ended() {
            return false;
        }
        self.flush(now_ms);
        self.log.lead(self.leader(Patience::None), now_ms, Pack::Seal).led
    }

    /// [`drive`](Self::drive) for who comes again soon in any case: what is due may be left for
    /// then. It is not left if nobody comes of whom others believe that.
    pub(crate) fn drive_with(&mut self, now_ms: u64, patience: Patience) -> Drive {
        if self.is_ended() {
            return Drive::default();
        }
        self.flush(now_ms);
        let mut drive = if self.log.driver.is_taken() {
            self.call_driver(now_ms);
            Drive::default()
        } else {
            self.log.lead(self.leader(patience), now_ms, Pack::Due)
        };
        self.note_time(now_ms);
        if let Some(since) = self.lazy_since
            && !self.log.is_read_only()
        {
            let at = since.saturating_add(self.log.limits.lazy_ms).max(now_ms.saturating_add(1));
            drive.again_at = Some(drive.again_at.map_or(at, |other| other.min(at)));
        }
        drive
    }

    /// Calls the thread that drives the log when a group is due, or it waits for the tail.
    fn call_driver(&mut self, now_ms: u64) {
        let limits = &self.log.limits;
        let overdue = |since: u64| since.saturating_add(limits.lazy_ms) <= now_ms;
        let due = self.uncalled.waits
            || self.uncalled.bytes >= limits.lazy_bytes
            || self.lazy_since.is_some_and(overdue);
        if due || self.log.driver.waits_for_tail() {
            self.uncalled = Uncalled::default();
            self.log.call_driver();
        }
    }

    /// Takes completions if leadership is free, without starting a write: so that a lane can
    /// send what has become durable before it spends time on the next write. The lane still
    /// calls [`drive`](Self::drive) in the same turn.
    pub fn reap(&mut self, now_ms: u64) {
        self.reap_with(now_ms, Patience::None);
    }

    /// [`reap`](Self::reap), and what others call for meanwhile may be left as with
    /// [`drive_with`](Self::drive_with). False: somebody else leads.
    pub(crate) fn reap_with(&mut self, now_ms: u64, patience: Patience) -> bool {
        !self.is_ended() && self.log.lead(self.leader(patience), now_ms, Pack::Nothing).led
    }

    /// Starts a write in the middle of a turn if enough for a long group is there.
    pub(crate) fn pack_long(&mut self) {
        if !self.is_ended() {
            self.log.lead(self.leader(Patience::Some), 0, Pack::Long);
        }
    }

    /// Bytes in the chunk that is being filled; those before it are handed over, or wait for that.
    pub fn staged_bytes(&self) -> usize {
        self.current.bytes.len()
    }

    /// Bytes of records that have no place yet: in the chunk that is being filled, and handed over.
    pub fn unplaced_bytes(&self) -> usize {
        let backlog: usize = self.backlog.iter().map(|chunk| chunk.bytes.len()).sum();
        let staged = self.mine.staged_bytes.load(Ordering::Acquire);
        self.current.bytes.len() + backlog + staged
    }

    /// Says to all who lead where its owner is.
    pub(crate) fn say(&self, at: Where) {
        self.mine.presence.set(at);
    }

    /// Its owner does not come for a while, though writes that it led for others may come back, and
    /// others may have waited for its cursor of the tail, which ends: they see to that.
    pub(crate) fn leave(&self) {
        let index = usize::from(self.index);
        let left = |core: &mut Core<D>| core.generation == self.generation && core.leave(index);
        if self.log.with_core(left) {
            self.log.wake_leaders();
        }
    }

    fn leader(&self, patience: Patience) -> Leader<'_> {
        let producer = Some(usize::from(self.index));
        let (notify, generation) = (self.notify.as_ref(), self.generation);
        Leader { producer, notify, drives: false, generation, patience }
    }

    /// The log was truncated under a newer term: it takes nothing more and its counts stand still.
    /// What has been staged and not [`appended`](Self::appended) was dropped, what has been
    /// appended may have gone. The lane makes another one.
    pub fn is_ended(&self) -> bool {
        self.mine.ended.load(Ordering::Acquire)
    }

    /// How many of its records have been staged.
    pub fn handed(&self) -> Handed {
        Handed::new(self.handed)
    }

    /// How many of its records have an LSN.
    pub fn appended(&self) -> Handed {
        Handed::new(self.mine.appended.load(Ordering::Acquire))
    }

    /// How many of its records are durable: all up to this count.
    pub fn durable(&self) -> Handed {
        Handed::new(self.mine.durable.get())
    }

    /// Asks for one wake-up when `handed` is durable. True if it is already: then none is needed,
    /// though one may be under way. A later call replaces an earlier one.
    pub fn wants(&self, handed: Handed) -> bool {
        self.mine.wanted.ask(handed.get(), &self.mine.durable)
    }

    /// Asks for one wake-up when the record with this LSN is durable, whoever staged it. True if it
    /// is already: then none is needed, though one may be under way. A later call replaces an
    /// earlier one.
    pub fn wants_lsn(&self, lsn: Lsn) -> bool {
        self.mine.wanted_lsn.ask(lsn.get(), self.log.durable_mark())
    }

    /// A cursor that sees every group appended from now on, until this producer is dropped. It
    /// replaces an earlier one.
    pub fn tail(&self) -> TailCursor {
        let (producer, consumer) = rtrb::RingBuffer::new(self.log.limits.tail_groups);
        let index = usize::from(self.index);
        self.log.with_core(|core| {
            if core.generation == self.generation {
                core.lanes[index].tail = Some(producer);
            }
        });
        TailCursor { ring: consumer, producer: Arc::clone(&self.mine) }
    }
}

impl<D: Disk> Drop for Producer<D> {
    /// What it staged is still written, as far as its ring takes it. The others see to that, and
    /// to the writes that it led. Its cursor of the tail, which may be dropped later and calls
    /// nobody, holds them up no more.
    fn drop(&mut self) {
        self.hand_over_current();
        let index = usize::from(self.index);
        self.log.with_core(|core| {
            if core.generation == self.generation {
                core.lanes[index].gone = true;
                core.lanes[index].tail = None;
                // With all that is in it.
                core.lanes[index].back = Giver::to_nobody();
            }
        });
        self.log.wake_leaders();
    }
}

impl<D: Disk> fmt::Debug for Producer<D> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Producer")
            .field("index", &self.index)
            .field("handed", &self.handed)
            .field("durable", &self.durable())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::options::tests::counted;
    use crate::log::{FLIGHTS_MAX, Log, Options, Wake};
    use crate::sim_disk::SimDisk;

    struct Nobody;
    impl Wake for Nobody {
        fn wake(&self) {}
    }

    #[test]
    fn what_has_no_place_is_counted_in_all_chunks() {
        let options = Options::new(counted());
        let chunk = options.chunk_size;
        let (log, _) = Log::open(SimDisk::new(), options, 0, &mut |_| Ok(())).unwrap();
        let mut lane = log.producer(Arc::new(Nobody), None).unwrap();
        let how = Staging { kind: 1, waits: true, ..Staging::default() };
        let (body, mut bytes) = ([7; 10_000], 0);
        for _ in 0..3 * chunk / body.len() {
            lane.stage(&how, |out| out.extend_from_slice(&body)).unwrap();
            bytes += HEADER_LEN + body.len();
            assert_eq!(lane.unplaced_bytes(), bytes);
        }
        assert!(lane.staged_bytes() < bytes, "there are chunks before the one that is filled");
        lane.drive(0);
        assert_eq!(lane.unplaced_bytes(), 0);
    }

    /// However slow the disk: what waits for it is the client's to keep.
    #[test]
    fn a_lane_stages_what_the_next_groups_take_and_no_more() {
        let options = Options::new(counted());
        let (most, chunk) = (FLIGHTS_MAX * options.group_size, options.chunk_size);
        let (log, _) = Log::open(SimDisk::new(), options, 0, &mut |_| Ok(())).unwrap();
        let mut lane = log.producer(Arc::new(Nobody), None).unwrap();
        let how = Staging { kind: 1, waits: true, ..Staging::default() };
        let body = [7; 10_000];
        for round in 0..3 {
            let mut staged = 0;
            let full = loop {
                match lane.stage(&how, |out| out.extend_from_slice(&body)) {
                    Ok(_) => staged += body.len(),
                    Err(error) => break error,
                }
            };
            assert!(matches!(full, StageError::Full), "{full}");
            assert!((most..most + 3 * chunk).contains(&staged), "{staged} in round {round}");
            let reserved = Staging { reserved: true, ..how };
            lane.stage(&reserved, |out| out.extend_from_slice(&body)).unwrap();
            while lane.durable() < lane.handed() {
                lane.drive(0);
                log.helper_step(0);
            }
        }
    }
}
