//! Where a lane's records go: into the log, or nowhere.
//!
//! Owns: the one place where the wal's numbers become the engine's. In memory everything is
//! committed at once, and records are numbered by the lane that makes them.

use std::sync::Arc;

use zzq_engine::{Handed, Record};
use zzq_lanes::LaneIndex;
use zzq_types::Lsn;
use zzq_wal::disk::Disk;
use zzq_wal::{Group, Log, Producer, Space, StageError, Staging, Status, TailCursor, WriteTimes};

/// Numbers that lanes give to records that no log has start here: none of the log gets so far.
const OWN_FIRST: u64 = 1 << 62;

/// Those of retained messages here: whatever lane makes them, a higher number is a later message.
pub(crate) const RETAINED: Lsn = Lsn::new(OWN_FIRST | 1 << 61);

/// The log as one lane sees it.
pub(crate) struct Journal<D: Disk> {
    /// The number before the next of its own.
    own: u64,
    /// Each lane takes every so-manieth, so that a number names the same record on all lanes.
    own_step: u16,
    log: Option<Seat<D>>,
}

/// A lane's place at the log.
pub(crate) struct Seat<D: Disk> {
    pub(crate) log: Arc<Log<D>>,
    pub(crate) producer: Producer<D>,
    pub(crate) tail: TailCursor,
}

/// Whether a number names a record that is in no log.
pub(super) const fn is_own(lsn: Lsn) -> bool {
    lsn.get() >= OWN_FIRST
}

/// How a record is handed over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct How {
    /// Somebody waits for it.
    pub(crate) waits: bool,
    /// The lanes that it concerns.
    pub(crate) lanes: u64,
    /// It frees more than it takes: receipts, unsubscriptions, ends.
    pub(crate) frees: bool,
}

impl<D: Disk> Journal<D> {
    /// From here on are numbers that [`Journal::take_own`] gives.
    pub(super) const UNLOGGED: Lsn = Lsn::new(OWN_FIRST);

    /// No log, or a place at one, for one of `lanes` lanes.
    pub(crate) fn new(lane: LaneIndex, lanes: u16, log: Option<Seat<D>>) -> Self {
        Self { own: OWN_FIRST + u64::from(lane.0), own_step: lanes, log }
    }

    pub(super) const fn is_log(&self) -> bool {
        self.log.is_some()
    }

    /// The next number for a record that is applied here and now.
    pub(super) fn take_own(&mut self) -> Lsn {
        self.own += u64::from(self.own_step);
        Lsn::new(self.own)
    }

    /// The numbers for so many such records: the first, and how far each is from the next.
    pub(super) fn take_own_run(&mut self, count: usize) -> (Lsn, u64) {
        let step = u64::from(self.own_step);
        let first = self.own + step;
        self.own += step * count as u64;
        (Lsn::new(first), step)
    }

    /// Whether a number was given by [`Journal::take_own`].
    pub(super) const fn is_own(lsn: Lsn) -> bool {
        is_own(lsn)
    }

    /// Hands a record to the log.
    ///
    /// # Panics
    /// Without a log: there records are applied at once.
    pub(super) fn stage(&mut self, record: &Record<'_>, how: How) -> Result<Handed, StageError> {
        assert!(self.log.is_some(), "in memory nothing is handed over");
        let Some(seat) = &mut self.log else { return Err(StageError::ReadOnly) };
        let staging = Staging {
            kind: record.kind(),
            waits: how.waits,
            lanes: how.lanes,
            reserved: how.frees,
        };
        let handed = seat.producer.stage(&staging, |out| record.encode_body(out))?;
        Ok(Handed::new(handed.get()))
    }

    /// Whether an ordinary record would be taken; if not, the lane is woken when it is.
    pub(super) fn has_room(&mut self) -> bool {
        self.log.as_mut().is_none_or(|seat| seat.producer.has_room(false))
    }

    /// What this lane has handed over.
    pub(super) fn handed(&self) -> Handed {
        self.log.as_ref().map_or(Handed::NONE, |seat| Handed::new(seat.producer.handed().get()))
    }

    /// How much of it is committed; nothing more on a log that has failed.
    pub(super) fn committed(&self) -> Handed {
        self.log.as_ref().map_or(Handed::NONE, |seat| Handed::new(seat.producer.durable().get()))
    }

    pub(super) fn is_committed(&self, handed: Handed) -> bool {
        handed <= self.committed()
    }

    /// The committed mark; without a log everything is.
    pub(super) fn committed_lsn(&self) -> Lsn {
        self.log.as_ref().map_or(Lsn::new(u64::MAX), |seat| Lsn::new(seat.log.durable().get()))
    }

    /// The newest record that has a place; without a log none has.
    pub(super) fn appended_lsn(&self) -> Lsn {
        self.log.as_ref().map_or(Lsn::ZERO, |seat| Lsn::new(seat.log.appended().get()))
    }

    /// Asks for a wake-up when more of what was handed over is committed; true if it is already.
    pub(super) fn wants_more(&self) -> bool {
        match &self.log {
            Some(seat) => seat.producer.wants(seat.producer.durable().next()),
            None => true,
        }
    }

    /// Asks for a wake-up when a record is committed; true if it is already.
    pub(super) fn wants_lsn(&self, lsn: Option<Lsn>) -> bool {
        match (&self.log, lsn) {
            (Some(seat), Some(lsn)) => seat.producer.wants_lsn(zzq_wal::Lsn::new(lsn.get())),
            _ => true,
        }
    }

    pub(super) fn reap(&mut self, now_ms: u64) {
        if let Some(seat) = &mut self.log {
            seat.producer.reap(now_ms);
        }
    }

    /// Gives what was handed over its place, if the lead is free: the tail shows it, and the next
    /// [`Journal::drive`] submits it. False: somebody else leads, and `drive` costs nothing.
    pub(super) fn seal(&mut self, now_ms: u64) -> bool {
        self.log.as_mut().is_some_and(|seat| seat.producer.seal(now_ms))
    }

    /// Bytes of records of this lane that have no place yet.
    pub(super) fn unplaced_bytes(&self) -> usize {
        self.log.as_ref().map_or(0, |seat| seat.producer.unplaced_bytes())
    }

    /// Submits what was handed over, if the lead is free; returns when to call again.
    pub(super) fn drive(&mut self, now_ms: u64) -> Option<u64> {
        self.log.as_mut().and_then(|seat| seat.producer.drive(now_ms).again_at)
    }

    /// The next group of the tail.
    pub(super) fn next_group(&mut self) -> Option<Arc<Group>> {
        self.log.as_mut().and_then(|seat| seat.tail.next_group())
    }

    /// This lane's number among the producers.
    pub(super) fn producer(&self) -> Option<u16> {
        self.log.as_ref().map(|seat| seat.producer.index())
    }

    pub(super) fn is_read_only(&self) -> bool {
        self.log.as_ref().is_some_and(|seat| seat.log.is_read_only())
    }

    /// Why the log takes nothing more.
    pub(super) fn fault(&self) -> Option<String> {
        match self.log.as_ref()?.log.status() {
            Status::ReadOnly(reason) => Some(reason),
            Status::Running | Status::NoSpace => None,
        }
    }

    /// How much space is left for records; enough without a log.
    pub(super) fn space(&self) -> Space {
        self.log.as_ref().map_or(Space::Ample, |seat| seat.log.space())
    }

    /// Whether there is only what is kept for receipts and ends.
    pub(super) fn is_short_of_space(&self) -> bool {
        self.space() >= Space::Short
    }

    /// Bytes of the disk that were free a moment ago.
    pub(super) fn free_bytes(&self) -> u64 {
        self.log.as_ref().map_or(0, |seat| seat.log.free_bytes())
    }

    /// The first record from which on the log can be read, or the next one to come; zero without a
    /// log.
    pub(super) fn first_whole(&self) -> Lsn {
        self.log.as_ref().map_or(Lsn::ZERO, |seat| Lsn::new(seat.log.first_whole().get()))
    }

    /// How long writes of the log have taken, the longest of them since the last call.
    pub(super) fn write_times(&self) -> WriteTimes {
        self.log.as_ref().map_or_else(WriteTimes::default, |seat| seat.log.write_times())
    }

    /// Microseconds by the clock of the disk; no time at all on one without.
    pub(super) fn now_us(&self) -> u64 {
        self.log.as_ref().map_or(0, |seat| seat.log.now_us())
    }

    /// How many segments the log has.
    pub(super) fn segments(&self) -> u64 {
        self.log.as_ref().map_or(0, |seat| seat.log.segments().len() as u64)
    }

    /// Marks of the log: durable and appended.
    pub(super) fn marks(&self) -> Option<(Lsn, Lsn)> {
        let log = &self.log.as_ref()?.log;
        Some((Lsn::new(log.durable().get()), Lsn::new(log.appended().get())))
    }
}
