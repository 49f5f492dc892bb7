//! What threads that may block have in common: an event that wakes them, and log time.
//!
//! Does not know: what they wait for.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::clock::LogClock;
use crate::io::event;
use crate::log::Wake;

/// The log signals the same event as a completed write.
pub(crate) struct Signal(pub(crate) Arc<OwnedFd>);

impl Wake for Signal {
    fn wake(&self) {
        event::signal(&self.0);
    }
}

/// Log time of one thread that calls a log: it follows the wall clock as a [`LogClock`] does.
#[derive(Debug)]
pub(crate) struct Clock {
    log: LogClock,
    began: Instant,
}

impl Clock {
    /// One that goes on from `last_ms`.
    pub(crate) fn new(last_ms: u64) -> Self {
        Self { log: LogClock::new(last_ms, 0, wall_ms()), began: Instant::now() }
    }

    /// The time, in ms; it never goes back.
    pub(crate) fn now_ms(&mut self) -> u64 {
        let passed = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.log.now(passed, wall_ms())
    }

    /// Sleeps until the event is signalled, or the log is to be called again.
    pub(crate) fn sleep(&mut self, event: &OwnedFd, again_at: Option<u64>) -> io::Result<()> {
        // Whatever ends the wait signals the event; this is only how long one look lasts.
        const LOOK: Duration = Duration::from_mins(1);
        let now_ms = self.now_ms();
        let left = |at: u64| Duration::from_millis(at.saturating_sub(now_ms));
        // Another thread's clock may be far ahead of this one.
        event::wait(event, again_at.map_or(LOOK, left).min(LOOK))?;
        Ok(())
    }
}

/// The wall clock's time in ms.
pub(crate) fn wall_ms() -> u64 {
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(wall.as_millis()).unwrap_or(u64::MAX)
}
