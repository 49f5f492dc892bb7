//! The thread that makes images: when one is due, and when somebody asks.
//!
//! Owns: how fast it goes, so that lanes and the log have the disk, and what it tells.

use std::cell::Cell;
use std::io;
use std::ops::ControlFlow;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use zzq_wal::disk::Disk;

use super::make::{Images, Made, MakeError};
use crate::shared::Shared;

/// Bytes read and written in a second, together.
const BYTES_PER_SECOND: f64 = 128.0 * 1024.0 * 1024.0;

/// Who is ahead by less than this does not sleep.
const SLEEP_MIN: Duration = Duration::from_millis(2);

/// How often it looks whether an image is due.
const LOOK: Duration = Duration::from_secs(1);

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
    fn wait(&self) -> ControlFlow<(), bool> {
        let waits = |asked: &mut Asked| !asked.stop && !asked.image;
        let waited = self.rung.wait_timeout_while(self.lock(), LOOK, waits);
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

fn run<D: Disk>(mut images: Images<D>, shared: &Shared, bell: &Bell) {
    if let Some(image) = images.newest() {
        shared.images.newest(image.heading().lsn.get(), image.size());
    }
    let mut not_before = Instant::now();
    while let ControlFlow::Continue(asked) = bell.wait() {
        let is_due = Instant::now() >= not_before && images.is_due(shared.options.snapshot_every);
        if !asked && !is_due {
            continue;
        }
        let began = Instant::now();
        let limit = Limit { began, bytes: Cell::new(0.0), bell };
        match images.make(shared.settled(), &|bytes| limit.count(bytes)) {
            Ok(Some(made)) => tell(shared, &made, began.elapsed()),
            Ok(None) => tracing::info!("nothing has happened since the newest image"),
            Err(MakeError::Stopped) => break,
            Err(error) => {
                not_before = Instant::now() + RETRY;
                shared.images.failed();
                tracing::error!(%error, full = error.is_full(), "no image was made");
            }
        }
    }
}

fn tell(shared: &Shared, made: &Made, took: Duration) {
    shared.images.newest(made.lsn.get(), made.bytes);
    shared.images.made();
    if made.gone > 0 {
        tracing::error!(records = made.gone, "messages are owed whose records are nowhere");
    }
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
    bytes: Cell<f64>,
    bell: &'b Bell,
}

impl Limit<'_> {
    fn count(&self, bytes: usize) -> ControlFlow<()> {
        #[expect(clippy::cast_precision_loss, reason = "a rate is no exact number")]
        let bytes = self.bytes.get() + bytes as f64;
        self.bytes.set(bytes);
        let due = Duration::from_secs_f64(bytes / BYTES_PER_SECOND);
        let ahead = due.saturating_sub(self.began.elapsed());
        if ahead < SLEEP_MIN { ControlFlow::Continue(()) } else { self.bell.sleep(ahead) }
    }
}
