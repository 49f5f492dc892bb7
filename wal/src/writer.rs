//! A writer: many records in flight from a thread that does nothing but stage them and wait.
//!
//! Owns: how the thread waits, and whether that is worth the time of a processor. It is made of
//! what every lane uses: a [`Producer`], and an event that both the log and completed writes
//! signal. Does not know: how the log leads.
//!
//! A thread that sleeps until its records are durable is late by its wake-up, and so are the
//! records that it stages then: they miss the write that takes the others'. Writers that watch are
//! there when the write has come back, and all of them share the next one. They give way to every
//! other thread all the time, above all to the kernel's workers that issue the flush: one that does
//! not give way makes each write wait for the scheduler.

use std::fmt;
use std::num::NonZero;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crate::disk::Disk;
use crate::error::{AppendError, StageError};
use crate::io::event;
use crate::log::{Log, Patience, Producer, Staging, Status, Where};
use crate::lsn::Handed;
use crate::waiting::{Clock, Signal};

/// Stages records on a thread that may block, many before the first is durable, and waits.
///
/// Where one record after the other is enough, [`Appender`](crate::Appender) is simpler. The log
/// needs its helper meanwhile: see [`Log::spawn_helper`]. Log time is as with an
/// [`Appender`](crate::Appender).
///
/// Between its calls a writer is expected back soon: a write that it has led may hold records of
/// others. A thread that goes on to something else calls [`leave`](Self::leave), or drops it.
///
/// While several writers stage and wait by turns, and waits are short
/// ([`Options::watch_us`](crate::Options::watch_us)), they do not sleep: they look for their
/// records and yield the processor in between. That costs processor time that nobody else wants; a
/// writer alone sleeps, and so do more of them than there are processors.
///
/// ```
/// use zzq_wal::{Log, Options, Writer, sim_disk::SimDisk};
///
/// let (log, _) = Log::open(SimDisk::new(), Options::from_os()?, 0, &mut |_| Ok(()))?;
/// let helper = log.spawn_helper()?;
/// let mut writer = Writer::new(&log)?;
/// for n in 0..100_u64 {
///     writer.stage(1, |out| out.extend_from_slice(&n.to_le_bytes()))?;
/// }
/// let last = writer.handed();
/// assert!(writer.wait(last)? >= last);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Writer<D: Disk> {
    log: Log<D>,
    producer: Producer<D>,
    event: Arc<OwnedFd>,
    clock: Clock,
    pace: Pace,
}

impl<D: Disk> Writer<D> {
    /// One more way into the log, for one thread.
    ///
    /// # Errors
    /// [`AppendError::TooMany`] and [`AppendError::System`].
    pub fn new(log: &Log<D>) -> Result<Self, AppendError> {
        let event = event::create().map_err(AppendError::System)?;
        let wake = Arc::new(Signal(Arc::clone(&event)));
        let producer = log.producer(wake, Some(Arc::clone(&event)))?;
        let pace = Pace::new(Duration::from_micros(log.watch_us()));
        let clock = Clock::new(log.now_ms());
        Ok(Self { log: log.clone(), producer, event, clock, pace })
    }

    /// Encodes a record: `encode` only appends. The kind is the caller's own number for what the
    /// body is. Long batches begin to be written before [`wait`](Self::wait).
    ///
    /// # Errors
    /// See [`StageError`]; after [`StageError::Full`] it is worth another try when an earlier
    /// record has been waited for.
    pub fn stage(
        &mut self,
        kind: u8,
        encode: impl FnOnce(&mut Vec<u8>),
    ) -> Result<Handed, StageError> {
        let how = Staging { kind, waits: true, ..Staging::default() };
        let before = self.producer.staged_bytes();
        let handed = self.producer.stage(&how, encode)?;
        // The chunk before went into the ring.
        if self.producer.staged_bytes() < before {
            self.producer.pack_long();
        }
        Ok(handed)
    }

    /// Waits until its records up to `handed` are durable; returns up to which they are.
    ///
    /// # Errors
    /// See [`AppendError`]; after [`AppendError::ReadOnly`] it is not known which of the records
    /// that were not durable before are kept.
    ///
    /// # Panics
    /// If it has not staged as many.
    pub fn wait(&mut self, handed: Handed) -> Result<Handed, AppendError> {
        assert!(handed <= self.handed(), "what was not staged never becomes durable");
        let began = Instant::now();
        let looks = self.log.disk().has_completed().is_some();
        let may_watch = self.pace.begin(began, self.log.company()) && looks;
        // Who says that it watches has handed over all that it has.
        self.producer.flush(self.clock.now_ms());
        let watched = self.wait_as(handed, may_watch)?;
        self.producer.say(self.pace.away(watched));
        self.pace.end(began, Instant::now());
        Ok(self.producer.durable())
    }

    /// True: it has watched to the end.
    fn wait_as(&mut self, handed: Handed, mut watches: bool) -> Result<bool, AppendError> {
        let mut watch = self.pace.watch();
        loop {
            self.producer.say(if watches { Where::Watches } else { self.pace.asleep() });
            let patience = if watches { watch.patience } else { Patience::None };
            let drive = self.producer.drive_with(self.clock.now_ms(), patience);
            if self.is_durable(handed)? {
                return Ok(watches);
            }
            if watches {
                watches = self.watch(handed, &mut watch);
            } else if !self.producer.wants(handed) {
                self.clock.sleep(&self.event, drive.again_at).map_err(AppendError::System)?;
                event::drain(&self.event);
                self.producer.reap(self.clock.now_ms());
            }
            if self.is_durable(handed)? {
                return Ok(watches);
            }
        }
    }

    fn is_durable(&self, handed: Handed) -> Result<bool, AppendError> {
        if self.producer.durable() >= handed {
            return Ok(true);
        }
        if self.producer.is_ended() {
            return Err(AppendError::Ended);
        }
        match self.log.status() {
            Status::ReadOnly(reason) => Err(AppendError::ReadOnly(reason)),
            Status::Running | Status::NoSpace => Ok(false),
        }
    }

    /// Looks for its records until the log is to be driven, or they are there. False: that takes
    /// longer than it is used to, and it is to sleep.
    fn watch(&mut self, handed: Handed, watch: &mut Watch) -> bool {
        loop {
            if self.producer.durable() >= handed {
                return true;
            }
            // Who finds another one leading sees soon what comes of it.
            if self.log.disk().has_completed() == Some(true)
                && self.producer.reap_with(self.clock.now_ms(), Patience::Some)
            {
                *watch = self.pace.watch();
                return true;
            }
            let now = Instant::now();
            if watch.is_over(now) {
                return false;
            }
            let held_back = self.producer.appended() < self.producer.handed();
            let in_flight = self.log.durable() < self.log.appended();
            if held_back && !in_flight && watch.is_overdue(now) {
                return true;
            }
            thread::yield_now();
        }
    }

    /// How many records it has staged.
    pub fn handed(&self) -> Handed {
        self.producer.handed()
    }

    /// How many of its records are durable: all up to this count.
    pub fn durable(&self) -> Handed {
        self.producer.durable()
    }

    /// It does not come for a while: others see to what it has led and handed over.
    pub fn leave(&mut self) {
        self.producer.flush(self.clock.now_ms());
        self.producer.say(Where::Elsewhere);
        self.pace.leave();
        self.producer.leave();
    }
}

impl<D: Disk> fmt::Debug for Writer<D> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Writer").field("producer", &self.producer).finish_non_exhaustive()
    }
}

/// How fast things have come lately, and what follows for the next wait.
#[derive(Debug)]
struct Pace {
    /// Longer waits are slept.
    limit: Duration,
    processors: usize,
    /// A mean of what waits have taken.
    recent: Duration,
    /// When the last wait was over.
    released: Option<Instant>,
    /// It was back soon, so that others do well to watch for what they share with it.
    is_regular: bool,
    /// It was back at once, so that they do well to hold records back for it.
    is_prompt: bool,
}

/// One watch, from its beginning or from the last write that has come back.
#[derive(Debug)]
struct Watch {
    began: Instant,
    /// It is given up after so long.
    most: Duration,
    /// Records are held back for so long.
    hold: Duration,
    patience: Patience,
    /// Since when records have been held back with nothing in flight.
    alone: Option<Instant>,
}

/// Who is away for longer than this, and than half a wait, is not about to share the next write.
const PROMPT: Duration = Duration::from_micros(50);
/// Who is away for longer than this, and than a wait, has something else to do.
const REGULAR: Duration = Duration::from_micros(200);
/// As long as waking a thread on another processor takes at worst, and little beside a write.
const HOLD: Duration = Duration::from_micros(20);
/// No wait is watched shorter than this: the first ones, before there is a mean.
const WATCH_LEAST: Duration = Duration::from_micros(100);

impl Pace {
    fn new(limit: Duration) -> Self {
        Self {
            limit,
            processors: thread::available_parallelism().map_or(1, NonZero::get),
            recent: Duration::ZERO,
            released: None,
            is_regular: false,
            is_prompt: false,
        }
    }

    /// A wait begins, of one among `company` writers. True: it is to be watched.
    fn begin(&mut self, now: Instant, company: usize) -> bool {
        let away = self.released.map(|at| now.duration_since(at));
        let within = |soon: Duration| away.is_some_and(|away| away <= soon);
        self.is_prompt = within(PROMPT.max(self.recent / 2));
        self.is_regular = within(REGULAR.max(self.recent));
        self.is_regular && self.recent < self.limit && (2..=self.processors).contains(&company)
    }

    /// What others are to know of a thread that sleeps.
    fn asleep(&self) -> Where {
        if self.is_regular { Where::Sleeps } else { Where::Elsewhere }
    }

    /// What others are to know of a thread that stages what it will wait for next.
    fn away(&self, watched: bool) -> Where {
        if watched && self.is_prompt { Where::Stages } else { self.asleep() }
    }

    fn watch(&self) -> Watch {
        Watch {
            began: Instant::now(),
            most: WATCH_LEAST.max(2 * self.recent),
            hold: HOLD.max(self.recent / 4),
            patience: Patience::Some,
            alone: None,
        }
    }

    /// A wait is over. One that was far longer than usual counts little.
    fn end(&mut self, began: Instant, now: Instant) {
        let took = now.duration_since(began).min(2 * self.recent + WATCH_LEAST);
        self.recent = (7 * self.recent + took) / 8;
        self.released = Some(now);
    }

    fn leave(&mut self) {
        (self.released, self.is_regular, self.is_prompt) = (None, false, false);
    }
}

impl Watch {
    fn is_over(&self, now: Instant) -> bool {
        now.duration_since(self.began) >= self.most
    }

    /// Records are held back, and nothing is in flight that others wait for: true when that has
    /// been so for long enough. It is said once.
    fn is_overdue(&mut self, now: Instant) -> bool {
        let since = *self.alone.get_or_insert(now);
        let overdue = self.patience == Patience::Some && now.duration_since(since) >= self.hold;
        if overdue {
            self.patience = Patience::Over;
        }
        overdue
    }
}
