//! A thread that leads the log, in place of the lanes.
//!
//! Owns: when it sleeps, who wakes it, and how it ends. Does not know: what leading means.
//!
//! Lanes that lead run into the submit of a write, which takes some tens of microseconds and now
//! and then milliseconds. With a driver they stage, hand over and go on; what is durable they
//! learn by their [`Wake`](crate::Wake), as always.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::disk::Disk;
use crate::io::event;
use crate::log::core::{Leader, Stall};
use crate::log::flight::Flight;
use crate::log::share::Pack;
use crate::log::{Drive, Log, PoisonOnPanic, Shared};
use crate::sync::atomic::Ordering;
use crate::sync::{AtomicBool, Between, full_fence};

/// The place of the thread that drives a log; it may be empty.
#[derive(Debug)]
pub(crate) struct Seat {
    /// Nobody else leads.
    taken: AtomicBool,
    /// The thread sleeps, or is about to: who has something for it clears this and wakes it.
    asleep: AtomicBool,
    /// It has found the tail full: who has read from the tail wakes it.
    waits_for_tail: AtomicBool,
    /// Made with the first driver.
    event: OnceLock<Arc<OwnedFd>>,
}

impl Seat {
    /// Nobody's.
    pub(crate) fn new() -> Self {
        Self {
            taken: AtomicBool::new(false),
            asleep: AtomicBool::new(false),
            waits_for_tail: AtomicBool::new(false),
            event: OnceLock::new(),
        }
    }

    pub(crate) fn is_taken(&self) -> bool {
        self.taken.load(Ordering::Acquire)
    }

    /// For a lane that has read from the tail. It sees that it is waited for, or the thread, which
    /// looks once more, sees what it has read.
    pub(crate) fn waits_for_tail(&self) -> bool {
        full_fence(Between::PublishAndLook);
        self.waits_for_tail.load(Ordering::Acquire)
    }

    /// Wakes the thread if it sleeps, by one signal however many come. What it is to find was
    /// stored before.
    pub(crate) fn wake(&self) {
        if self.is_to_be_woken()
            && let Some(event) = self.event.get()
        {
            event::signal(event);
        }
    }

    /// True: the thread sleeps, or is about to, and it is for the caller to wake it.
    pub(crate) fn is_to_be_woken(&self) -> bool {
        full_fence(Between::PublishAndLook);
        // Mostly it is awake: its line is only read.
        self.asleep.load(Ordering::Acquire) && self.asleep.swap(false, Ordering::AcqRel)
    }

    /// Sleeps until somebody wakes it, a write has come back, or the time is over; not at all if
    /// there is something to find.
    fn sleep(&self, event: &OwnedFd, timeout: Option<Duration>, finds: impl Fn() -> bool) {
        self.sleep_by(finds, || {
            let waited = event::wait_until(event, timeout);
            assert!(waited.is_ok(), "waiting for a live eventfd failed: {waited:?}");
        });
    }

    /// [`sleep`](Self::sleep) by `wait`, which ends when the thread is woken, or was before.
    pub(crate) fn sleep_by(&self, finds: impl Fn() -> bool, wait: impl FnOnce()) {
        self.asleep.swap(true, Ordering::AcqRel);
        full_fence(Between::AskAndLook);
        if !finds() {
            wait();
        }
        self.asleep.store(false, Ordering::Release);
    }

    /// Notes whether it waits for the tail. True when that is news: a lane that has read before it
    /// could know would not wake it.
    pub(crate) fn note_stall(&self, stall: Option<Stall>) -> bool {
        let waits = stall == Some(Stall::Tail);
        let news = self.waits_for_tail.swap(waits, Ordering::AcqRel) != waits && waits;
        full_fence(Between::AskAndLook);
        news
    }
}

/// The thread that drives a log; dropping it ends the thread.
///
/// The thread ends when what was handed over is durable or cannot be written now, and nothing is
/// in flight. From then on whoever drives leads again.
#[derive(Debug)]
pub struct DriverThread {
    stop: Arc<AtomicBool>,
    event: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

/// How long an ending driver tries to write what was handed over.
const SETTLE_WITHIN: Duration = Duration::from_secs(1);

impl<D: Disk> Log<D> {
    /// Starts a thread that leads the log until the handle is dropped; producers then hand over and
    /// wake it. `clock` is the log time in ms. Best called before there are producers: a disk
    /// opened for one issuer ([`Issuers::One`](crate::io::Issuers)) takes the first that leads.
    ///
    /// # Errors
    /// `AlreadyExists` if the log has such a thread; else what the system says.
    pub fn spawn_driver(
        &self,
        clock: impl FnMut() -> u64 + Send + 'static,
    ) -> io::Result<DriverThread> {
        let (seated, event) = self.take_seat()?;
        let stop = Arc::new(AtomicBool::new(false));
        let (rings, stopped) = (Arc::clone(&event), Arc::clone(&stop));
        let thread = thread::Builder::new().name("zzq-wal-log".to_owned()).spawn(move || {
            // It leaves the seat last.
            let seated = seated;
            let log = PoisonOnPanic { log: seated.0.clone(), who: "driver" };
            let mut driver = Driver { shared: &log.log.shared, event: &rings, clock };
            driver.run(&stopped);
            driver.settle();
        })?;
        Ok(DriverThread { stop, event, thread: Some(thread) })
    }

    /// Leads the log by [`DriverSteps::step`] alone until what this returns is dropped: for whoever
    /// decides about the order of everything, as a simulation does.
    ///
    /// # Errors
    /// As [`spawn_driver`](Self::spawn_driver).
    pub fn drive_by_steps(&self) -> io::Result<DriverSteps<D>> {
        let (seated, event) = self.take_seat()?;
        Ok(DriverSteps { seated, event })
    }

    fn take_seat(&self) -> io::Result<(Seated<D>, Arc<OwnedFd>)> {
        let seat = &self.shared.driver;
        if seat.taken.swap(true, Ordering::AcqRel) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let seated = Seated(self.clone());
        let event = match seat.event.get() {
            Some(event) => Arc::clone(event),
            None => Arc::clone(seat.event.get_or_init({
                let event = event::create()?;
                || event
            })),
        };
        Ok((seated, event))
    }
}

/// Drives a log as a [`DriverThread`] does, a step at a time.
#[derive(Debug)]
pub struct DriverSteps<D: Disk> {
    seated: Seated<D>,
    event: Arc<OwnedFd>,
}

impl<D: Disk> DriverSteps<D> {
    /// Leads once, at this log time in ms. True: there is more to do at once. Else there may be
    /// more when somebody has handed over, a write has come back, or some ms are over.
    pub fn step(&mut self, now: u64) -> bool {
        let shared = &self.seated.0.shared;
        event::drain(&self.event);
        let drive = Driver { shared, event: &self.event, clock: || now }.lead(now);
        shared.driver.note_stall(drive.stall) || shared.leadership.is_called()
    }
}

/// The seat is free again when this goes, and the lanes look whether there is something to lead.
#[derive(Debug)]
struct Seated<D: Disk>(Log<D>);

impl<D: Disk> Drop for Seated<D> {
    fn drop(&mut self) {
        self.0.shared.driver.taken.store(false, Ordering::SeqCst);
        self.0.shared.wake_all();
    }
}

struct Driver<'a, D: Disk, C> {
    shared: &'a Shared<D>,
    event: &'a Arc<OwnedFd>,
    clock: C,
}

impl<D: Disk, C: FnMut() -> u64> Driver<'_, D, C> {
    fn run(&mut self, stopped: &AtomicBool) {
        let seat = &self.shared.driver;
        while !stopped.load(Ordering::Acquire) {
            event::drain(self.event);
            let now = (self.clock)();
            let drive = self.lead(now);
            if !drive.led && self.shared.is_broken() {
                // An invariant was broken under its lead, which is never free again.
                return;
            }
            if seat.note_stall(drive.stall) {
                continue;
            }
            let timeout = drive.again_at.map(|at| Duration::from_millis(at.saturating_sub(now)));
            let finds = || self.shared.leadership.is_called() || stopped.load(Ordering::Acquire);
            seat.sleep(self.event, timeout, finds);
        }
    }

    fn lead(&self, now: u64) -> Drive {
        let leader = Leader { drives: true, ..Leader::nobody(Some(self.event)) };
        self.shared.lead(leader, now, Pack::Due)
    }

    /// Writes what was handed over, as far as that can be written, and awaits what is in flight.
    fn settle(&mut self) {
        let end = Instant::now() + SETTLE_WITHIN;
        loop {
            event::drain(self.event);
            let now = (self.clock)();
            let led = self.lead(now).led;
            if !led && self.shared.is_broken() {
                return;
            }
            let (settled, in_flight) = self.shared.with_core(|core| {
                (core.is_settled(), core.flights.iter().any(Flight::is_in_flight))
            });
            let given_up = self.shared.is_read_only() || Instant::now() >= end;
            if settled || given_up && !in_flight {
                return;
            }
            // What nobody waits for is due soon; nobody calls for that any more.
            self.shared.driver.sleep(self.event, Some(Duration::from_millis(1)), || false);
        }
    }
}

impl Drop for DriverThread {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        event::signal(&self.event);
        if let Some(thread) = self.thread.take() {
            // A panic there has been reported where it happened.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seat() -> (Seat, Arc<OwnedFd>) {
        let seat = Seat::new();
        let event = event::create().unwrap();
        seat.event.set(Arc::clone(&event)).unwrap();
        (seat, event)
    }

    #[test]
    fn only_a_thread_that_sleeps_is_woken_and_once() {
        let (seat, event) = seat();
        seat.wake();
        assert_eq!(event::drain(&event), 0, "it is awake");
        seat.asleep.store(true, Ordering::SeqCst);
        seat.wake();
        seat.wake();
        assert_eq!(event::drain(&event), 1);
    }

    #[test]
    fn a_thread_that_finds_something_does_not_sleep() {
        let (seat, event) = seat();
        seat.sleep(&event, None, || {
            assert!(seat.asleep.load(Ordering::SeqCst), "who comes now wakes it");
            true
        });
        assert!(!seat.asleep.load(Ordering::SeqCst));
        seat.sleep(&event, None, || {
            seat.wake();
            false
        });
        assert_eq!(event::drain(&event), 1, "a call on its way to sleep is heard");
    }

    #[test]
    fn a_full_tail_is_looked_at_once_more_before_it_is_waited_for() {
        let (seat, _event) = seat();
        assert!(seat.note_stall(Some(Stall::Tail)));
        assert!(seat.waits_for_tail());
        assert!(!seat.note_stall(Some(Stall::Tail)));
        assert!(!seat.note_stall(Some(Stall::Segment)) && !seat.waits_for_tail());
    }
}
