//! What all parts of one log share: atomics that lanes read, and the locks that they only try.
//!
//! Does not know: what a leader does.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::disk::Disk;
use crate::format::segment::LastGood;
use crate::log::core::{Core, Leader, Limits, ProducerShared, Stall, Step};
use crate::log::driver::Seat;
use crate::log::fault::Fault;
use crate::log::helper::Helper;
use crate::log::lead::Leadership;
use crate::log::nudge::Nudge;
use crate::log::options::Commits;
use crate::log::share::Pack;
use crate::log::space::{Gauge, Space};
use crate::log::times::Stopwatch;
use crate::log::wanted::Mark;
use crate::lsn::Lsn;
use crate::reader::pool::ReadPool;
use crate::segment::{Cuts, SegmentTable};

/// What one call to lead found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drive {
    /// This call led. If not, somebody else does, and sees what was staged before the call.
    pub led: bool,
    /// Call again at this log time at the latest, in ms.
    pub again_at: Option<u64>,
    /// Why something that is due was not packed. It needs no retry: the call that ends the
    /// cause (reading the tail, the helper) brings the log back, or `again_at` does.
    pub stall: Option<Stall>,
}

pub(crate) struct Shared<D: Disk> {
    pub(crate) disk: Arc<D>,
    pub(crate) limits: Limits,
    pub(crate) leadership: Leadership<Core<D>>,
    pub(crate) helper: Mutex<Helper<D>>,
    pub(crate) table: Arc<SegmentTable<D::File>>,
    appended: AtomicU64,
    durable: Mark,
    durable_group: AtomicU64,
    pub(crate) commits: Commits,
    /// What the caller has said; not looked at where what is durable is committed.
    committed: AtomicU64,
    pub(crate) reads: Arc<ReadPool>,
    pub(crate) cuts: Cuts,
    pub(crate) trim_below: AtomicU64,
    /// What is left of the disk.
    pub(crate) gauge: Gauge,
    /// How long writes take.
    pub(crate) times: Stopwatch,
    no_space: AtomicBool,
    /// Something is to be written, and the next segment is not made yet.
    waits_for_segment: AtomicBool,
    /// So many wait for the helper.
    wait_for_helper: AtomicUsize,
    /// Writers that stage and wait by turns, as whoever led last has seen them.
    company: AtomicUsize,
    /// Set with the fault, if a leader has panicked.
    broken: AtomicBool,
    fault: Fault,
    /// The last failure that the log got over.
    cured: Mutex<Option<String>>,
    pub(crate) producers: Mutex<Vec<Arc<ProducerShared>>>,
    /// Who leads instead of the producers.
    pub(crate) driver: Seat,
    pub(crate) nudge: Nudge,
    /// The helper has a thread, or had one.
    pub(crate) helped: AtomicBool,
}

impl<D: Disk> Shared<D> {
    pub(crate) fn new(
        disk: Arc<D>,
        core: Core<D>,
        helper: Helper<D>,
        table: Arc<SegmentTable<D::File>>,
        commits: Commits,
        read_threads: usize,
        gauge: Gauge,
    ) -> Self {
        let last = core.durable;
        Self {
            disk,
            limits: core.limits,
            leadership: Leadership::new(core),
            helper: Mutex::new(helper),
            table,
            appended: AtomicU64::new(last.lsn.get()),
            durable: Mark::new(last.lsn.get()),
            durable_group: AtomicU64::new(last.group),
            commits,
            committed: AtomicU64::new(0),
            reads: Arc::new(ReadPool::new(read_threads)),
            cuts: Cuts::default(),
            trim_below: AtomicU64::new(0),
            gauge,
            times: Stopwatch::default(),
            no_space: AtomicBool::new(false),
            waits_for_segment: AtomicBool::new(false),
            wait_for_helper: AtomicUsize::new(0),
            company: AtomicUsize::new(0),
            broken: AtomicBool::new(false),
            fault: Fault::default(),
            cured: Mutex::new(None),
            producers: Mutex::new(Vec::new()),
            driver: Seat::new(),
            nudge: Nudge::default(),
            helped: AtomicBool::new(false),
        }
    }

    /// Leads if leadership is free. With [`Pack::Due`] nothing staged before the call is forgotten.
    pub(crate) fn lead(&self, leader: Leader<'_>, now_ms: u64, pack: Pack) -> Drive {
        if !leader.drives && self.driver.is_taken() {
            if pack == Pack::Due {
                self.call_driver();
            }
            return Drive::default();
        }
        let led = self.leadership.lead(pack == Pack::Due, |core, works| {
            core.step(self, leader, now_ms, if works { Pack::Due } else { pack })
        });
        if led.broken {
            self.broken.store(true, Ordering::Release);
            self.poison("an invariant of the log was broken".to_owned());
        }
        let Some(Step { again_at, stall }) = led.last else { return Drive::default() };
        // The work of those who kept calling is not lost: it is looked at again soon.
        let again_at = if led.again { Some(now_ms.saturating_add(1)) } else { again_at };
        Drive { led: true, again_at, stall }
    }

    /// Whoever led has panicked: nobody leads any more. A log that is read-only may still be led.
    pub(crate) fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Acquire)
    }

    /// Leadership for set-up and for questions, not on the message path: it waits. A lane that
    /// found it taken meanwhile is called back.
    pub(crate) fn with_core<R>(&self, ask: impl FnOnce(&mut Core<D>) -> R) -> R {
        let (answer, called) = self.leadership.wait(ask);
        if called {
            self.wake_leaders();
        }
        answer
    }

    /// The thread that drives the log finds work, and is woken if it sleeps.
    pub(crate) fn call_driver(&self) {
        self.leadership.call();
        self.driver.wake();
    }

    /// Somebody is to lead: the driver's thread, or else whichever lane comes first.
    pub(crate) fn wake_leaders(&self) {
        if self.driver.is_taken() {
            self.call_driver();
        } else {
            self.wake_all();
        }
    }

    pub(crate) fn publish_appended(&self, lsn: Lsn) {
        self.appended.store(lsn.get(), Ordering::Release);
    }

    /// For a leader that has looked whether the log is read-only. The helper may make it so
    /// meanwhile: then what was durable before that is told after it, once.
    pub(crate) fn publish_durable(&self, last: &LastGood) {
        self.durable_group.store(last.group, Ordering::Release);
        self.durable.publish(last.lsn.get());
        assert!(last.lsn <= self.appended(), "durable is appended");
    }

    pub(crate) fn appended(&self) -> Lsn {
        Lsn::new(self.appended.load(Ordering::Acquire))
    }

    pub(crate) fn durable(&self) -> Lsn {
        Lsn::new(self.durable.get())
    }

    /// The first LSN from which on every record can be read whole, or the next one.
    pub(crate) fn first_whole(&self) -> Lsn {
        // Before it looks at segments: what becomes durable meanwhile is not passed over.
        let next = self.durable().next();
        self.table.first_whole().unwrap_or(next)
    }

    /// The same when all has gone that was told to.
    pub(crate) fn stays_from(&self) -> Lsn {
        let next = self.durable().next();
        let below = Lsn::new(self.trim_below.load(Ordering::Acquire));
        self.table.first_whole_without(below).unwrap_or(next)
    }

    /// What lies behind `last` is not durable, appended or read any more.
    pub(crate) fn lower(&self, last: &LastGood) {
        assert!(self.committed() <= last.lsn, "what is committed is never truncated");
        self.cuts.note(last.lsn);
        self.durable_group.store(last.group, Ordering::Release);
        self.durable.lower(last.lsn.get());
        self.publish_appended(last.lsn);
    }

    pub(crate) fn durable_mark(&self) -> &Mark {
        &self.durable
    }

    pub(crate) fn committed(&self) -> Lsn {
        match self.commits {
            Commits::WithDurable => self.durable(),
            Commits::ByCaller => Lsn::new(self.committed.load(Ordering::Acquire)),
        }
    }

    pub(crate) fn commit(&self, lsn: Lsn) {
        assert_eq!(self.commits, Commits::ByCaller, "what is durable is committed");
        assert!(lsn <= self.appended(), "committed is appended");
        self.committed.fetch_max(lsn.get(), Ordering::AcqRel);
    }

    pub(crate) fn durable_group(&self) -> u64 {
        self.durable_group.load(Ordering::Acquire)
    }

    /// Nothing that becomes durable from now on is acknowledged. Everybody is woken to see it.
    pub(crate) fn poison(&self, reason: String) {
        self.fault.set(reason, || self.wake_all());
    }

    /// Something failed, and the log goes on: worth a line for whoever runs it.
    pub(crate) fn note_cured(&self, failure: String) {
        *self.cured.lock().unwrap_or_else(PoisonError::into_inner) = Some(failure);
    }

    pub(crate) fn take_cured(&self) -> Option<String> {
        self.cured.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    pub(crate) fn poison_reason(&self) -> Option<&str> {
        self.fault.reason()
    }

    pub(crate) fn is_read_only(&self) -> bool {
        self.fault.is_set()
    }

    pub(crate) fn note_company(&self, company: usize) {
        // It seldom changes: its line is mostly read.
        if self.company() != company {
            self.company.store(company, Ordering::Relaxed);
        }
    }

    pub(crate) fn company(&self) -> usize {
        self.company.load(Ordering::Relaxed)
    }

    pub(crate) fn set_no_space(&self, no_space: bool) {
        if self.no_space.swap(no_space, Ordering::AcqRel) != no_space {
            self.wake_all();
        }
    }

    pub(crate) fn space(&self) -> Space {
        if self.has_no_space() { Space::Out } else { self.gauge.level() }
    }

    pub(crate) fn has_no_space(&self) -> bool {
        self.no_space.load(Ordering::Acquire)
    }

    /// Seldom called: when nothing can be packed without it, and when it is there.
    pub(crate) fn set_waits_for_segment(&self, waits: bool) {
        self.waits_for_segment.store(waits, Ordering::Relaxed);
    }

    pub(crate) fn waits_for_segment(&self) -> bool {
        self.waits_for_segment.load(Ordering::Relaxed)
    }

    pub(crate) fn wake_all(&self) {
        let producers = self.producers.lock().unwrap_or_else(PoisonError::into_inner);
        for producer in &*producers {
            producer.wake.wake();
        }
    }

    pub(crate) fn helper(&self) -> MutexGuard<'_, Helper<D>> {
        self.wait_for_helper.fetch_add(1, Ordering::Relaxed);
        let helper = self.helper.lock().unwrap_or_else(PoisonError::into_inner);
        self.wait_for_helper.fetch_sub(1, Ordering::Relaxed);
        helper
    }

    /// Somebody waits until the helper's step is over.
    pub(crate) fn waits_for_helper(&self) -> bool {
        self.wait_for_helper.load(Ordering::Relaxed) > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::options::tests::counted;
    use crate::log::{Log, Options};
    use crate::sim_disk::SimDisk;

    /// The helper may fail while a lane that has seen no failure publishes what its write made
    /// durable.
    #[test]
    fn a_failure_elsewhere_breaks_nobody_who_is_publishing() {
        let options = Options::new(counted());
        let (log, _) = Log::open(SimDisk::new(), options, 0, &mut |_| Ok(())).unwrap();
        log.shared.publish_appended(Lsn::new(3));
        log.shared.poison("the helper failed".to_owned());
        log.shared.publish_durable(&LastGood { group: 1, lsn: Lsn::new(3), ..LastGood::default() });
        assert_eq!(log.durable(), Lsn::new(3));
    }
}
