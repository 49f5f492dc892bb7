//! The thread that makes images: when one is due, and when somebody asks.
//!
//! Owns: how fast it goes, so that lanes and the log have the disk, and what it tells.

use std::cell::Cell;
use std::io;
use std::ops::ControlFlow;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use zzq_types::Lsn;
use zzq_wal::Space;
use zzq_wal::disk::Disk;

use super::Pauses;
use super::make::{Images, Made, MakeError};
use crate::options::BrokerOptions;
use crate::seldom::Seldom;
use crate::shared::Shared;
use crate::standing::Settled;

/// Bytes read and written in a second, together.
const BYTES_PER_SECOND: f64 = 128.0 * 1024.0 * 1024.0;

/// The clock is read once in so many of them: a record by itself would not be worth the look.
const STEP: u64 = 64 * 1024;

/// Who is ahead by less than this does not sleep.
const SLEEP_MIN: Duration = Duration::from_millis(2);

/// How often it looks whether an image is due; where space is low.
const LOOK: Duration = Duration::from_secs(1);
const LOOK_LOW: Duration = Duration::from_millis(100);

/// How often it looks whether the lanes have answered, which they do at the end of a turn, and how
/// long at most.
const ANSWER: Duration = Duration::from_millis(1);
const ANSWERS: Duration = Duration::from_secs(1);

/// After a failure the next attempt waits so long, unless somebody asks.
const RETRY: Duration = Duration::from_mins(1);

/// The thread's handle: dropping it stops the thread, and gives up an image that is being made.
#[derive(Debug)]
pub(crate) struct Keeper {
    bell: Arc<Bell>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Bell {
    asked: Mutex<Asked>,
    rung: Condvar,
}

#[derive(Debug, Default)]
struct Asked {
    stop: bool,
    image: bool,
}

impl Keeper {
    /// Starts the thread.
    pub(crate) fn spawn<D: Disk>(images: Images<D>, shared: Arc<Shared>) -> io::Result<Self> {
        let bell = Arc::new(Bell::default());
        let own = Arc::clone(&bell);
        let run = move || run(images, &shared, &own);
        let thread = thread::Builder::new().name("zzq-images".into()).spawn(run)?;
        Ok(Self { bell, thread: Some(thread) })
    }

    /// Asks for an image now.
    pub(crate) fn ask(&self) {
        self.bell.lock().image = true;
        self.bell.rung.notify_one();
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.bell.lock().stop = true;
        self.bell.rung.notify_one();
        if let Some(thread) = self.thread.take() {
            // A panic there has been reported where it happened.
            let _ = thread.join();
        }
    }
}

impl Bell {
    fn lock(&self) -> MutexGuard<'_, Asked> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until it is time to look; whether somebody has asked, `Break` to stop.
    fn wait(&self, look: Duration) -> ControlFlow<(), bool> {
        let waits = |asked: &mut Asked| !asked.stop && !asked.image;
        let waited = self.rung.wait_timeout_while(self.lock(), look, waits);
        let (mut asked, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if asked.stop {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(std::mem::take(&mut asked.image))
    }

    /// Sleeps; `Break` if it is to stop.
    fn sleep(&self, span: Duration) -> ControlFlow<()> {
        let waited = self.rung.wait_timeout_while(self.lock(), span, |asked| !asked.stop);
        let (asked, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if asked.stop { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

fn run<D: Disk>(images: Images<D>, shared: &Shared, bell: &Bell) {
    if let Some(image) = images.newest() {
        shared.images.newest(image.heading().lsn.get(), image.size());
    }
    let now = Instant::now();
    let (not_before, room_not_before) = (now, now);
    let pauses = Pauses::default();
    let (held, told) = (None, Seldom::default());
    let mut work = Work { images, shared, bell, held, not_before, room_not_before, pauses, told };
    let mut look = LOOK;
    work.look_at_log();
    while let ControlFlow::Continue(asked) = bell.wait(look) {
        work.look_at_log();
        let space = work.images.look_after_space(shared.options.disk_limits);
        look = if space >= Space::Low { LOOK_LOW } else { LOOK };
        let made = if asked || work.is_due() {
            work.make()
        } else if space >= Space::Low && Instant::now() >= work.room_not_before {
            work.make_room(space)
        } else {
            continue;
        };
        if made.is_break() {
            break;
        }
    }
}

/// What the thread does, and when next.
struct Work<'w, D: Disk> {
    images: Images<D>,
    shared: &'w Shared,
    bell: &'w Bell,
    /// The oldest record of the log and its time.
    held: Option<(Lsn, u64)>,
    not_before: Instant,
    room_not_before: Instant,
    pauses: Pauses,
    /// Of failures.
    told: Seldom,
}

impl<D: Disk> Work<'_, D> {
    fn is_due(&self) -> bool {
        let BrokerOptions { snapshot_every, recovery_budget, .. } = self.shared.options;
        Instant::now() >= self.not_before && self.images.is_due(snapshot_every, recovery_budget)
    }

    /// An image that is due, or that somebody has asked for; `Break`: the thread is to stop.
    fn make(&mut self) -> ControlFlow<()> {
        let ControlFlow::Continue(settled) = self.settled() else {
            return ControlFlow::Break(());
        };
        // Nothing is let go where not all have said what they need.
        let settled = settled.unwrap_or_default();
        let limit = Limit::new(self.bell);
        match self.images.make(&settled, &|bytes| limit.count(bytes)) {
            Ok(Some(made)) => tell(self.shared, &made, limit.began.elapsed()),
            Ok(None) => tracing::info!("nothing has happened since the newest image"),
            Err(error) => return self.failed(&error),
        }
        ControlFlow::Continue(())
    }

    /// What the lanes say, unless one does not in time. `Break`: the thread is to stop.
    fn settled(&self) -> ControlFlow<(), Option<Settled>> {
        let (standing, asked) = (&self.shared.standing, Instant::now());
        let question = standing.ask();
        standing.wake();
        loop {
            if let Some(settled) = standing.take(question) {
                return ControlFlow::Continue(Some(settled));
            }
            if asked.elapsed() > ANSWERS {
                tracing::warn!("a lane is busy: the log stays as it is until the next image");
                return ControlFlow::Continue(None);
            }
            self.bell.sleep(ANSWER)?;
        }
    }

    /// One for the space that it brings.
    fn make_room(&mut self, space: Space) -> ControlFlow<()> {
        // Lanes are asked only where what they say may matter.
        if !self.images.may_bring_room() {
            return ControlFlow::Continue(());
        }
        let (began, before) = (Instant::now(), self.images.free_bytes());
        let ControlFlow::Continue(settled) = self.settled() else {
            return ControlFlow::Break(());
        };
        let mut goes_on = ControlFlow::Continue(());
        // A lane that is too busy to say is not asked again at once.
        if let Some(settled) = settled {
            let limit = Limit::new(self.bell);
            match self.images.make_room(&settled, &|bytes| limit.count(bytes)) {
                Ok(Some(made)) => {
                    note(self.shared, &made);
                    tracing::debug!(image = made.number, offset = made.lsn.get(), "made for space");
                }
                // The next look is soon enough.
                Ok(None) => return goes_on,
                Err(error) => goes_on = self.failed(&error),
            }
        }
        // What is trimmed is free a moment later: then it counts for the next one.
        let has_helped = self.images.free_bytes() > before;
        let pause = self.pauses.next(began.elapsed(), has_helped, space);
        self.room_not_before = Instant::now() + pause;
        goes_on
    }

    fn failed(&mut self, error: &MakeError) -> ControlFlow<()> {
        if matches!(error, MakeError::Stopped) {
            return ControlFlow::Break(());
        }
        self.not_before = Instant::now() + RETRY;
        if error.is_made() {
            if let Some(image) = self.images.newest() {
                self.shared.images.newest(image.heading().lsn.get(), image.size());
            }
            self.shared.images.made();
            tracing::error!(%error, "an image was made; what it replaces could not be removed");
        } else {
            self.shared.images.failed();
            let now = u64::try_from(self.shared.started.elapsed().as_millis()).unwrap_or(u64::MAX);
            if let Some(untold) = self.told.tell(now) {
                tracing::error!(%error, full = error.is_full(), untold, "no image was made");
            }
        }
        ControlFlow::Continue(())
    }

    /// Tells what the log holds, and the time of its oldest record, which is read when it is
    /// another.
    fn look_at_log(&mut self) {
        let first = self.images.first_whole();
        if Some(first) != self.held.map(|(first, _)| first) {
            // Who cannot read it hears that from whoever needs it.
            self.held = self.images.oldest().ok().flatten();
        }
        let oldest_ms = self.held.map_or(0, |(_, time_ms)| time_ms);
        self.shared.images.holds(oldest_ms, self.images.log_bytes());
    }
}

/// Notes it where others see it.
fn note(shared: &Shared, made: &Made) {
    shared.images.newest(made.lsn.get(), made.bytes);
    shared.images.made();
    if made.gone > 0 {
        tracing::error!(records = made.gone, "messages are owed whose records are nowhere");
    }
}

fn tell(shared: &Shared, made: &Made, took: Duration) {
    note(shared, made);
    tracing::info!(
        image = made.number,
        offset = made.lsn.get(),
        bytes = made.bytes,
        records = made.records,
        ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
        needs_from = made.first_needed.get(),
        trimmed = made.trims,
        moved = made.moved,
        cold_files = made.cold_files,
        "image made"
    );
}

/// Keeps the work of one image below a rate.
struct Limit<'b> {
    began: Instant,
    bytes: Cell<u64>,
    /// So many of them are needed for the next look at the clock.
    next: Cell<u64>,
    bell: &'b Bell,
}

impl<'b> Limit<'b> {
    fn new(bell: &'b Bell) -> Self {
        Self { began: Instant::now(), bytes: Cell::new(0), next: Cell::new(0), bell }
    }

    fn count(&self, bytes: usize) -> ControlFlow<()> {
        let bytes = self.bytes.get().saturating_add(bytes as u64);
        self.bytes.set(bytes);
        if bytes < self.next.get() {
            return ControlFlow::Continue(());
        }
        self.next.set(bytes.saturating_add(STEP));
        #[expect(clippy::cast_precision_loss, reason = "a rate is no exact number")]
        let rest = rest(bytes as f64, self.began.elapsed());
        rest.map_or(ControlFlow::Continue(()), |rest| self.bell.sleep(rest))
    }
}

/// How long to sleep for so many bytes in this time, if at all.
fn rest(bytes: f64, elapsed: Duration) -> Option<Duration> {
    let due = Duration::from_secs_f64(bytes / BYTES_PER_SECOND);
    let ahead = due.saturating_sub(elapsed);
    (ahead >= SLEEP_MIN).then_some(ahead)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_ahead_of_its_rate_rests_until_it_is_not() {
        const SECOND: Duration = Duration::from_secs(1);
        assert_eq!(rest(BYTES_PER_SECOND, SECOND), None);
        assert_eq!(rest(3.0 * BYTES_PER_SECOND, SECOND), Some(2 * SECOND));
        assert_eq!(rest(BYTES_PER_SECOND, 3 * SECOND), None, "what was slow is slow enough");
        assert_eq!(rest(BYTES_PER_SECOND / 1000.0, Duration::ZERO), None, "not for every piece");
    }

    /// Who is told to stop does not sleep first: an image that is being made is given up.
    #[test]
    fn a_rest_ends_when_the_thread_is_to_stop() {
        let bell = Bell::default();
        bell.lock().stop = true;
        let limit = Limit::new(&bell);
        assert_eq!(limit.count(1 << 40), ControlFlow::Break(()));
    }

    #[test]
    fn who_asks_is_heard_once() {
        let bell = Bell::default();
        bell.lock().image = true;
        assert_eq!(bell.wait(Duration::ZERO), ControlFlow::Continue(true));
        assert_eq!(bell.wait(Duration::ZERO), ControlFlow::Continue(false));
        bell.lock().stop = true;
        assert_eq!(bell.wait(Duration::from_hours(1)), ControlFlow::Break(()));
    }
}
