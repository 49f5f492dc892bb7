//! Appending for programs without an event loop: a call that returns when its records are durable.
//!
//! Owns: the waiting. It is made of what every lane uses: a [`Producer`], a cursor of the tail, and
//! an event that both the log and completed writes signal. Does not know: how the log leads.

use std::fmt;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use crate::disk::Disk;
use crate::error::{AppendError, StageError};
use crate::io::event;
use crate::log::{Log, Producer, Staging, Status};
use crate::lsn::{Handed, Lsn};
use crate::tail::TailCursor;
use crate::waiting::{Clock, Signal};

/// Appends records on a thread that may block, and returns when they survive the loss of power.
///
/// Each thread has its own; records of several threads that wait at the same time go to the device
/// in one write. The log needs its helper meanwhile: see [`Log::spawn_helper`]. Without space on
/// the device ([`Status::NoSpace`]) a call waits for space. Log time follows the wall clock as a
/// [`LogClock`](crate::LogClock) does, from the newest time in the log on.
///
/// ```
/// use zzq_wal::{Appender, Log, Lsn, Options, sim_disk::SimDisk};
///
/// let (log, _) = Log::open(SimDisk::new(), Options::from_os()?, 0, &mut |_| Ok(()))?;
/// let helper = log.spawn_helper()?;
/// let mut appender = Appender::new(&log)?;
/// assert_eq!(appender.append(1, b"one")?, Lsn::new(1));
/// assert_eq!(appender.append_all(1, ["two", "three"])?, [Lsn::new(2), Lsn::new(3)]);
/// assert_eq!(log.durable(), Lsn::new(3));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Appender<D: Disk> {
    log: Log<D>,
    producer: Producer<D>,
    event: Arc<OwnedFd>,
    clock: Clock,
}

impl<D: Disk> Appender<D> {
    /// One more way into the log, for one thread.
    ///
    /// # Errors
    /// [`AppendError::TooMany`] and [`AppendError::System`].
    pub fn new(log: &Log<D>) -> Result<Self, AppendError> {
        let event = event::create().map_err(AppendError::System)?;
        let wake = Arc::new(Signal(Arc::clone(&event)));
        let producer = log.producer(wake, Some(Arc::clone(&event)))?;
        let clock = Clock::new(log.now_ms());
        Ok(Self { log: log.clone(), producer, event, clock })
    }

    /// Appends a record and waits until it is durable; returns its place in the log. The kind is
    /// the caller's own number for what the body is.
    ///
    /// # Errors
    /// See [`AppendError`]; after [`AppendError::ReadOnly`] it is not known whether the record is
    /// kept.
    pub fn append(&mut self, kind: u8, body: &[u8]) -> Result<Lsn, AppendError> {
        let lsns = self.append_all(kind, [body])?;
        let Some(lsn) = lsns.first() else { unreachable!("one record has one place") };
        Ok(*lsn)
    }

    /// Appends records and waits once, until all are durable; returns their places. Records of
    /// other threads may lie between them.
    ///
    /// # Errors
    /// As [`append`](Self::append). What was handed over before a record that is too long may be
    /// kept all the same.
    pub fn append_all<B: AsRef<[u8]>>(
        &mut self,
        kind: u8,
        bodies: impl IntoIterator<Item = B>,
    ) -> Result<Vec<Lsn>, AppendError> {
        // Only while it waits: a cursor that nobody reads holds up everybody's records.
        let mut call = Call { tail: self.producer.tail(), after: self.producer.handed() };
        let appended = self.append_in(&mut call, kind, bodies);
        drop(call);
        self.producer.leave();
        appended
    }

    fn append_in<B: AsRef<[u8]>>(
        &mut self,
        call: &mut Call,
        kind: u8,
        bodies: impl IntoIterator<Item = B>,
    ) -> Result<Vec<Lsn>, AppendError> {
        let mut lsns = Vec::new();
        let lanes = 1 << self.producer.index();
        let how = Staging { kind, waits: true, lanes, reserved: false };
        for body in bodies {
            while !self.stage(&how, body.as_ref())? {
                let again_at = self.turn(call, &mut lsns)?;
                if !self.producer.has_room(false) {
                    self.wait(again_at)?;
                }
            }
        }
        let last = self.producer.handed();
        loop {
            let again_at = self.turn(call, &mut lsns)?;
            if self.producer.wants(last) {
                break;
            }
            self.wait(again_at)?;
        }
        call.read(self.producer.index(), &mut lsns);
        // Then the cursor has ended, too, and places may be missing.
        if self.producer.is_ended() {
            return Err(AppendError::Ended);
        }
        Ok(lsns)
    }

    /// Whether the log took the record; if not, it has no room yet.
    fn stage(&mut self, how: &Staging, body: &[u8]) -> Result<bool, AppendError> {
        match self.producer.stage(how, |out| out.extend_from_slice(body)) {
            Ok(_) => Ok(true),
            Err(StageError::Full) => Ok(false),
            Err(StageError::TooLong(bytes)) => Err(AppendError::TooLong(bytes)),
            Err(StageError::ReadOnly) => Err(self.read_only()),
            Err(StageError::Ended) => Err(AppendError::Ended),
        }
    }

    /// One turn, as a lane would make it. Returns when the next one is due at the latest.
    fn turn(&mut self, call: &mut Call, lsns: &mut Vec<Lsn>) -> Result<Option<u64>, AppendError> {
        event::drain(&self.event);
        if self.producer.is_ended() {
            return Err(AppendError::Ended);
        }
        let mut drive = self.producer.drive(self.clock.now_ms());
        if call.read(self.producer.index(), lsns) {
            // The log may have stopped for this cursor.
            drive = self.producer.drive(self.clock.now_ms());
        }
        if self.log.is_read_only() && self.producer.durable() < self.producer.handed() {
            return Err(self.read_only());
        }
        Ok(drive.again_at)
    }

    fn wait(&mut self, again_at: Option<u64>) -> Result<(), AppendError> {
        self.clock.sleep(&self.event, again_at).map_err(AppendError::System)
    }

    fn read_only(&self) -> AppendError {
        match self.log.status() {
            Status::ReadOnly(reason) => AppendError::ReadOnly(reason),
            Status::Running | Status::NoSpace => unreachable!("it never takes records again"),
        }
    }
}

/// What one call reads of the tail.
struct Call {
    tail: TailCursor,
    /// The producer's count before the call.
    after: Handed,
}

impl Call {
    /// Notes the places of this call's records; true if there was something to read.
    fn read(&mut self, producer: u16, lsns: &mut Vec<Lsn>) -> bool {
        let mut worked = false;
        while let Some(group) = self.tail.next_group() {
            worked = true;
            let mine = group.records_for(1 << producer);
            let mine = mine.filter(|record| record.producer == producer);
            lsns.extend(mine.filter(|record| record.handed > self.after).map(|record| record.lsn));
        }
        worked
    }
}

impl<D: Disk> fmt::Debug for Appender<D> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Appender").field("producer", &self.producer).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::waiting::wall_ms;
    use std::io;

    use crate::log::Options;
    use crate::sim_disk::{Fault, Op, SimDisk};

    fn open(disk: &SimDisk) -> Log<SimDisk> {
        let options = Options {
            segment_size: 128 * 1024,
            group_size: 32 * 1024,
            chunk_size: 4096,
            part_size: 8192,
            ring_chunks: 4,
            tail_groups: 2,
            ..Options::from_os().unwrap()
        };
        Log::open(disk.clone(), options, 0, &mut |_| Ok(())).unwrap().0
    }

    /// More than ring, tail and segment hold, from threads that wait for one another's writes.
    #[test]
    fn threads_learn_the_places_of_their_own_records() {
        let log = open(&SimDisk::new());
        let _helper = log.spawn_helper().unwrap();
        let body = |thread: u8, n: usize| vec![thread; n * 397 % 9000];
        let append = |thread: u8| {
            let mut appender = Appender::new(&log).unwrap();
            let bodies: Vec<_> = (0..60).map(|n| body(thread, n)).collect();
            let mut lsns = appender.append_all(thread, &bodies[..40]).unwrap();
            for body in &bodies[40..] {
                lsns.push(appender.append(thread, body).unwrap());
            }
            lsns
        };
        let found: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> =
                (0..3).map(|thread| scope.spawn(move || append(thread))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(log.durable(), Lsn::new(180));
        for (thread, lsns) in (0..).zip(&found) {
            assert_eq!(lsns.len(), 60);
            for (n, lsn) in lsns.iter().enumerate() {
                let mut reader = log.reader(*lsn).unwrap();
                let record = reader.next_record().unwrap().unwrap();
                assert_eq!((record.kind, record.body), (thread, &body(thread, n)[..]), "{lsn}");
            }
        }
    }

    #[test]
    fn an_appender_that_does_nothing_holds_nobody_up() {
        let log = open(&SimDisk::new());
        let _helper = log.spawn_helper().unwrap();
        let mut idle = Appender::new(&log).unwrap();
        idle.append(1, b"once").unwrap();
        let mut busy = Appender::new(&log).unwrap();
        for n in 2..50 {
            assert_eq!(busy.append(1, b"again").unwrap(), Lsn::new(n));
        }
        assert_eq!(idle.append(1, b"at last").unwrap(), Lsn::new(50));
    }

    #[test]
    fn a_log_that_fails_says_why_and_waits_no_more() {
        let disk = SimDisk::new();
        let log = open(&disk);
        let _helper = log.spawn_helper().unwrap();
        let mut appender = Appender::new(&log).unwrap();
        appender.append(1, b"good").unwrap();
        disk.fail_always(Op::Write, Fault::Fail(io::ErrorKind::Other));
        for _ in 0..2 {
            let refused = appender.append(1, b"bad").unwrap_err();
            assert!(matches!(refused, AppendError::ReadOnly(_)), "{refused}");
        }
        assert_eq!(log.durable(), Lsn::new(1));
    }

    /// The log ended under a wall clock that has been set back since.
    #[test]
    fn a_log_of_the_future_is_waited_for_no_longer() {
        let disk = SimDisk::new();
        let in_200_years = 200 * 365 * 86_400_000_u64 + wall_ms();
        let options = Options::from_os().unwrap();
        let (log, _) = Log::open(disk.clone(), options, in_200_years, &mut |_| Ok(())).unwrap();
        let mut appender = Appender::new(&log).unwrap();
        // Not now, says the device: nobody calls, it is to be asked again.
        disk.fail(Op::Submit, 1, Fault::Fail(io::ErrorKind::WouldBlock));
        assert_eq!(appender.append(1, b"soon").unwrap(), Lsn::FIRST);
        let mut reader = log.reader(Lsn::FIRST).unwrap();
        assert!(reader.next_record().unwrap().unwrap().time_ms >= in_200_years);
    }

    #[test]
    fn a_record_that_is_too_long_is_refused_alone() {
        let log = open(&SimDisk::new());
        let _helper = log.spawn_helper().unwrap();
        let mut appender = Appender::new(&log).unwrap();
        let body = vec![0; crate::format::record::BODY_MAX + 1];
        assert!(matches!(appender.append(1, &body), Err(AppendError::TooLong(_))));
        assert_eq!(appender.append(1, b"short").unwrap(), Lsn::new(1));
    }

    /// Its records may be among those that went; it is told, and does not wait for ever.
    #[test]
    fn an_appender_ends_with_its_term() {
        let disk = SimDisk::new();
        let options = Options { commits: crate::Commits::ByCaller, ..Options::from_os().unwrap() };
        let (log, _) = Log::open(disk.clone(), options, 0, &mut |_| Ok(())).unwrap();
        let mut appender = Appender::new(&log).unwrap();
        assert_eq!(appender.append(1, b"stays").unwrap(), Lsn::FIRST);
        disk.hold();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(move || (appender.append(1, b"goes"), appender));
            while disk.in_flight().is_empty() {
                std::thread::yield_now();
            }
            log.truncate(Lsn::FIRST, 1).unwrap();
            let (outcome, mut appender) = waiting.join().unwrap();
            assert!(matches!(outcome, Err(AppendError::Ended)), "{outcome:?}");
            assert!(matches!(appender.append(1, b"late"), Err(AppendError::Ended)));
        });
        disk.release_all();
        while log.is_truncating() {
            log.drive(1000, None);
            log.helper_step(0);
        }
        assert_eq!(Appender::new(&log).unwrap().append(1, b"next").unwrap(), Lsn::new(2));
    }
}
