//! The log object: passive, led by whoever has something to write, or by a thread of its own.
//!
//! Owns: `Log` and its parts. Does not know: what records mean, which threads call it.

mod core;
mod driver;
mod fault;
mod flight;
mod helper;
mod lead;
mod maker;
#[cfg(all(test, loom))]
mod models;
mod moving;
mod nudge;
mod open;
mod options;
mod pack;
mod presence;
mod producer;
mod renew;
mod share;
mod shared;
mod space;
mod spares;
mod times;
mod truncate;
mod wanted;

use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

pub(crate) use self::core::{FLIGHTS_MAX, ProducerShared};
use self::core::{Lane, Leader};
pub use self::core::{Stall, Wake};
pub use self::driver::{DriverSteps, DriverThread};
pub use self::open::Found;
pub use self::options::{Commits, Entropy, Options};
use self::presence::Presence;
pub(crate) use self::presence::Where;
pub use self::producer::{Producer, Staging};
use self::share::Pack;
pub(crate) use self::share::Patience;
pub use self::shared::Drive;
pub(crate) use self::shared::Shared;
pub use self::space::{Reserve, Space};
use self::spares::spares;
pub use self::times::WriteTimes;
use self::truncate::Cut;
use self::wanted::{Mark, Starved, Wanted};
use crate::chunk::Chunk;
use crate::disk::Disk;
use crate::error::{ReadError, TooManyProducers, TruncateError};
use crate::format::meta::Facts;
use crate::lsn::Lsn;
use crate::reader::{Limit, Places, Reader};
use crate::segment::KeptSegment;

/// Bits in [`Staging::lanes`]. A place is not given again before a truncation: its number tells
/// apart the parts of big records in one epoch.
const PRODUCERS_MAX: usize = 64;

/// One append-only log in one directory. Clones are the same log.
pub struct Log<D: Disk> {
    shared: Arc<Shared<D>>,
}

/// Whether the log takes and acknowledges records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Status {
    /// It does.
    Running,
    /// The next segment cannot be made until there is space; what is in place goes on.
    NoSpace,
    /// It never acknowledges anything any more, for this reason.
    ReadOnly(String),
}

impl<D: Disk> Log<D> {
    /// The end of the log for one lane. `wake` is called when the lane should look; `notify`
    /// becomes readable when a write that this producer led has come back.
    pub fn producer(
        &self,
        wake: Arc<dyn Wake>,
        notify: Option<Arc<OwnedFd>>,
    ) -> Result<Producer<D>, TooManyProducers> {
        let limits = self.shared.limits;
        let mine = Arc::new(ProducerShared {
            appended: AtomicU64::new(0),
            durable: Mark::new(0),
            wanted: Wanted::new(),
            wanted_lsn: Wanted::new(),
            starved: Starved::new(),
            staged_bytes: AtomicUsize::new(0),
            wake,
            ended: AtomicBool::new(false),
            presence: Presence::new(),
        });
        let (ring, taken) = rtrb::RingBuffer::new(limits.ring_chunks);
        // As many chunks as can be on their way.
        let (back, recycled) = spares(2 * limits.ring_chunks);
        let shared = Arc::clone(&mine);
        let lane = Lane { ring: taken, back, tail: None, shared, open: None, gone: false };
        let (index, generation) = self.shared.with_core(|core| {
            if core.lanes.len() == PRODUCERS_MAX {
                return Err(TooManyProducers);
            }
            core.lanes.push(lane);
            let index = u16::try_from(core.lanes.len() - 1).map_err(|_| TooManyProducers)?;
            Ok((index, core.generation))
        })?;
        let mut producers = self.shared.producers.lock().unwrap_or_else(PoisonError::into_inner);
        producers.push(Arc::clone(&mine));
        drop(producers);
        Ok(Producer {
            log: Arc::clone(&self.shared),
            mine,
            index,
            generation,
            notify,
            ring,
            back: recycled,
            current: Chunk::new(index),
            backlog: std::collections::VecDeque::new(),
            handed: 0,
            lazy_handed: 0,
            lazy_since: None,
            uncalled: producer::Uncalled::default(),
        })
    }

    /// All records up to this LSN survive the loss of power.
    pub fn durable(&self) -> Lsn {
        self.shared.durable()
    }

    /// The newest record that has an LSN.
    pub fn appended(&self) -> Lsn {
        self.shared.appended()
    }

    /// All records up to this LSN may be acknowledged and are never truncated: what is durable, or
    /// what [`commit`](Self::commit) has said.
    pub fn committed(&self) -> Lsn {
        self.shared.committed()
    }

    /// States that all records up to `lsn` are committed. It never goes back.
    ///
    /// # Panics
    /// If the log's [`Commits`] are not by the caller, or the record has not been appended here.
    pub fn commit(&self, lsn: Lsn) {
        self.shared.commit(lsn);
    }

    /// Begins to truncate the log: `after`, the last record of a group or zero, becomes its last
    /// one, under the leader of a newer `term`, which numbers and writes what follows. What a
    /// follower does when a new leader says that the log ends there. For threads that may block.
    ///
    /// All producers and cursors of the tail end with this call: what they have staged is dropped
    /// ([`StageError::Ended`](crate::StageError::Ended)), their counts stand still. Returns how
    /// many records were handed over and dropped; those that lanes still held are theirs to count.
    /// New producers may be made at once. Nothing of theirs is packed before the truncation has
    /// ended ([`is_truncating`](Self::is_truncating)), which needs calls of [`drive`](Self::drive)
    /// and the helper. Readers that are beyond `after` are told.
    ///
    /// A crash leaves the log either whole, or truncated. If the disk fails before the end the log
    /// is read-only; if it is full ([`Status::NoSpace`]) the log goes on once there is space, and
    /// until then takes no other truncation, of a newer term neither
    /// ([`TruncateError::UnderWay`]). Its segment may take what is reserved for images
    /// ([`Reserve`]).
    ///
    /// ```
    /// use zzq_wal::{Appender, AppendError, Commits, Log, Lsn, Options, sim_disk::SimDisk};
    ///
    /// let options = Options { commits: Commits::ByCaller, ..Options::from_os()? };
    /// let (log, _) = Log::open(SimDisk::new(), options, 0, &mut |_| Ok(()))?;
    /// let mut appender = Appender::new(&log)?;
    /// for body in ["one", "two", "three"] {
    ///     appender.append(7, body.as_bytes())?;
    /// }
    /// log.commit(Lsn::new(1));
    ///
    /// // The leader of term 5 has the first record only.
    /// log.truncate(Lsn::new(1), 5)?;
    /// let mut now_ms = 0;
    /// while log.is_truncating() {
    ///     log.drive(now_ms, None);
    ///     log.helper_step(now_ms); // or `spawn_helper`
    ///     now_ms += 1;
    /// }
    /// assert_eq!((log.durable(), log.facts().term), (Lsn::new(1), 5));
    ///
    /// // Whoever appended under the old term makes a new appender, and the LSN is given again.
    /// assert!(matches!(appender.append(7, b"late"), Err(AppendError::Ended)));
    /// assert_eq!(Appender::new(&log)?.append(7, b"other")?, Lsn::new(2));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Panics
    /// If the log's [`Commits`] are not by the caller.
    pub fn truncate(&self, after: Lsn, term: u64) -> Result<u64, TruncateError> {
        assert_eq!(self.shared.commits, Commits::ByCaller, "what is durable is committed");
        self.shared.truncate(Cut { after, term })
    }

    /// A truncation has begun and not ended.
    pub fn is_truncating(&self) -> bool {
        !self.shared.is_read_only() && self.shared.with_core(|core| core.cut.is_some())
    }

    /// Whether it takes records.
    pub fn status(&self) -> Status {
        match self.shared.poison_reason() {
            Some(reason) => Status::ReadOnly(reason.to_owned()),
            None if self.shared.has_no_space() => Status::NoSpace,
            None => Status::Running,
        }
    }

    /// From now on so much space stays free, as far as that is the log's to say; the helper looks.
    /// Without a reserve the log takes all there is.
    pub fn keep_free(&self, reserve: Reserve) {
        self.shared.gauge.set_reserve(reserve);
        self.shared.nudge.call();
    }

    /// How much space is left, as the helper has seen it last. All producers are woken when that
    /// changes.
    pub fn space(&self) -> Space {
        self.shared.space()
    }

    /// Bytes that were free when the helper looked last, with those of spare files.
    pub fn free_bytes(&self) -> u64 {
        self.shared.gauge.free()
    }

    /// Microseconds by the clock of the disk, as [`Log::write_times`] has them.
    pub fn now_us(&self) -> u64 {
        self.shared.disk.now_us()
    }

    /// How long the writes of groups have taken. One asks, now and then: the longest is the longest
    /// since the last call.
    pub fn write_times(&self) -> WriteTimes {
        self.shared.times.take()
    }

    /// The length of the shortest segments, in bytes.
    pub fn shortest_segment(&self) -> u64 {
        self.shared.gauge.shortest()
    }

    /// It acknowledges nothing any more: [`Status::ReadOnly`], cheaply.
    pub fn is_read_only(&self) -> bool {
        self.shared.is_read_only()
    }

    /// The newest failure of the disk that the log got over, since the last call: a write after
    /// which it moved to another segment, an index that could not be written.
    pub fn take_failure(&self) -> Option<String> {
        self.shared.take_cured()
    }

    /// Writers that stage and wait by turns.
    pub(crate) fn company(&self) -> usize {
        self.shared.company()
    }

    /// See [`Options::watch_us`].
    pub(crate) fn watch_us(&self) -> u64 {
        self.shared.limits.watch_us
    }

    /// The directory that it lives in.
    pub fn disk(&self) -> &Arc<D> {
        &self.shared.disk
    }

    /// Leads for nobody, if leadership is free: the last one to do so when lanes have ended.
    /// `notify` as in [`producer`](Self::producer). Where a thread drives the log
    /// ([`spawn_driver`](Self::spawn_driver)) it is called instead.
    pub fn drive(&self, now_ms: u64, notify: Option<&Arc<OwnedFd>>) -> Drive {
        self.shared.lead(Leader::nobody(notify), now_ms, Pack::Due)
    }

    /// All that was handed over is durable, or never will be.
    pub fn is_settled(&self) -> bool {
        self.shared.is_read_only() || self.shared.with_core(|core| core.is_settled())
    }

    /// The newest time that whoever led has told.
    pub(crate) fn now_ms(&self) -> u64 {
        self.shared.with_core(|core| core.now_ms)
    }

    /// Makes segments, closes and recycles them, and marks an idle log, as far as that is due;
    /// blocks as long as the disk does. `now_ms` is any clock that does not go back. True if
    /// there was something to do.
    pub fn helper_step(&self, now_ms: u64) -> bool {
        self.shared.helper().step(&self.shared, now_ms)
    }

    /// Runs [`helper_step`](Self::helper_step) on a thread until the handle is dropped. A log has
    /// one such thread, once.
    ///
    /// # Errors
    /// `AlreadyExists` if the log has, or had, such a thread; else what the system says.
    pub fn spawn_helper(&self) -> io::Result<HelperThread> {
        if self.shared.helped.swap(true, Ordering::AcqRel) {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, "the log has a helper"));
        }
        self.start_helper().inspect_err(|_| self.shared.helped.store(false, Ordering::Release))
    }

    fn start_helper(&self) -> io::Result<HelperThread> {
        let stop = Arc::new(AtomicBool::new(false));
        let (log, stopped) = (self.clone(), Arc::clone(&stop));
        let thread = thread::Builder::new().name("zzq-wal".to_owned()).spawn(move || {
            let log = PoisonOnPanic { log, who: "helper" };
            let began = Instant::now();
            while !stopped.load(Ordering::Acquire) {
                let now = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
                if !log.log.helper_step(now) {
                    thread::park_timeout(HELPER_TICK);
                }
            }
        })?;
        let helper = thread.thread().clone();
        self.shared.nudge.serve(Box::new(move || helper.unpark()));
        Ok(HelperThread { stop, thread: Some(thread) })
    }

    /// States in `meta` that all which is durable now was: a clean stop ends with this, so that
    /// a later loss of the last records cannot pass for a torn write.
    pub fn mark_durable(&self) -> io::Result<()> {
        let marked = self.shared.helper().mark(&self.shared);
        self.poison_on_error(marked)
    }

    /// The node-local facts.
    pub fn facts(&self) -> Arc<Facts> {
        Arc::clone(self.shared.helper().meta.facts())
    }

    /// Changes node-local facts durably (vote and term, snapshot mark, cold files). The log's
    /// own facts are not to be touched. It blocks; after an error the log is read-only.
    ///
    /// # Panics
    /// If the snapshot mark is beyond what is committed and durable.
    pub fn update_facts(&self, change: impl FnOnce(&mut Facts)) -> io::Result<()> {
        let updated = self.shared.helper().meta.update(|facts| {
            let before = facts.snapshot;
            change(facts);
            let most = self.committed().min(self.durable());
            assert!(
                facts.snapshot == before || facts.snapshot <= most,
                "an image holds what is committed and durable"
            );
        });
        self.poison_on_error(updated)
    }

    fn poison_on_error(&self, outcome: io::Result<()>) -> io::Result<()> {
        if let Err(error) = &outcome {
            self.shared.poison(format!("meta cannot be written: {error}"));
        }
        outcome
    }

    /// Reads records from `from` on, from disk, up to what is committed and durable at each call.
    /// For threads that may block.
    pub fn reader(&self, from: Lsn) -> Result<Reader<D>, ReadError> {
        self.reader_to(from, Limit::Committed)
    }

    /// As [`reader`](Self::reader), to another limit.
    pub fn reader_to(&self, from: Lsn, limit: Limit) -> Result<Reader<D>, ReadError> {
        Reader::new(Arc::clone(&self.shared), from, limit)
    }

    /// Reads records again whose places readers have found.
    pub fn places(&self) -> Places<D> {
        Places::new(Arc::clone(&self.shared))
    }

    /// The first LSN from which on every record can be read whole, up to the last that is durable;
    /// the next one to come if there is none. More may be kept in front of it: segments that only
    /// hold the beginning of a record for a later one ([`segments`](Self::segments)), of whose own
    /// records the beginning may be gone. It never goes back, unless the log is truncated.
    pub fn first_whole(&self) -> Lsn {
        self.shared.first_whole()
    }

    /// The first LSN that can be read whole and will be, whatever [`trim`](Self::trim) was told so
    /// far: segments go as a whole, so it may lie in front of that. It is
    /// [`first_whole`](Self::first_whole) once the helper has let go what may go.
    pub fn stays_from(&self) -> Lsn {
        self.shared.stays_from()
    }

    /// The segments that are kept and hold records, oldest first. Not every record of the first
    /// ones has to be whole: see [`first_whole`](Self::first_whole).
    pub fn segments(&self) -> Vec<KeptSegment> {
        self.shared.table.lock().iter().filter_map(|segment| segment.kept()).collect()
    }

    /// Those of [`segments`](Self::segments) of which every record can be read whole: the first of
    /// them begins with [`first_whole`](Self::first_whole), at the same moment.
    pub fn whole_segments(&self) -> Vec<KeptSegment> {
        self.shared.table.whole_segments()
    }

    /// Segments with nothing from `below` on are not needed any more: the helper recycles them
    /// once nobody reads them. It never goes back.
    ///
    /// ```
    /// use zzq_wal::{Appender, Log, Lsn, Options, ReadError, sim_disk::SimDisk};
    ///
    /// let (log, _) = Log::open(SimDisk::new(), Options::from_os()?, 0, &mut |_| Ok(()))?;
    /// let mut appender = Appender::new(&log)?;
    /// for _ in 0..12 {
    ///     appender.append(7, &[0; 400_000])?;
    ///     while log.helper_step(0) {} // or `spawn_helper`
    /// }
    /// log.trim(Lsn::new(10));
    /// while log.helper_step(0) {}
    ///
    /// // Segments go as a whole: some of what is below may stay, nothing of what is not goes.
    /// let first = log.first_whole();
    /// assert!(first > Lsn::FIRST && first <= Lsn::new(10));
    /// assert!(matches!(log.reader(Lsn::FIRST), Err(ReadError::Trimmed { .. })));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Panics
    /// If a record below it is not committed, or not durable here.
    pub fn trim(&self, below: Lsn) {
        let kept = self.committed().min(self.durable()).next();
        assert!(below <= kept, "trimmed below {below}, but {kept} is the first that may be lost");
        self.shared.trim_below.fetch_max(below.get(), Ordering::AcqRel);
        // Stated together with the next segment it costs groups under way no flush of its own.
        if self.space() > Space::Ample {
            self.shared.nudge.call();
        }
    }
}

/// Lanes that wait for a thread that has gone would wait for ever, and nobody would know why.
struct PoisonOnPanic<D: Disk> {
    log: Log<D>,
    who: &'static str,
}

impl<D: Disk> Drop for PoisonOnPanic<D> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.log.shared.poison(format!("an invariant of the log's {} was broken", self.who));
        }
    }
}

const HELPER_TICK: Duration = Duration::from_millis(50);

impl<D: Disk> Clone for Log<D> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<D: Disk> fmt::Debug for Log<D> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Log")
            .field("appended", &self.appended())
            .field("durable", &self.durable())
            .field("status", &self.status())
            .finish_non_exhaustive()
    }
}

/// The helper's thread; dropping it stops the thread after its current step.
#[derive(Debug)]
pub struct HelperThread {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for HelperThread {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // A panic there has been reported where it happened.
            let _ = thread.join();
        }
    }
}
