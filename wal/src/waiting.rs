//! What threads that may block have in common: an event that wakes them, and log time.
//!
//! Does not know: what they wait for.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::io::event;
use crate::log::Wake;

/// The log signals the same event as a completed write.
pub(crate) struct Signal(pub(crate) Arc<OwnedFd>);

impl Wake for Signal {
    fn wake(&self) {
        event::signal(&self.0);
    }
}

/// Sleeps until the event is signalled, or the log is to be called again.
pub(crate) fn sleep(event: &OwnedFd, again_at: Option<u64>) -> io::Result<()> {
    // Whatever ends the wait signals the event; this is only how long one look lasts.
    const LOOK: Duration = Duration::from_mins(1);
    let left = |at: u64| Duration::from_millis(at.saturating_sub(now_ms()));
    event::wait(event, again_at.map_or(LOOK, left))?;
    Ok(())
}

/// The wall clock's time in ms.
pub(crate) fn now_ms() -> u64 {
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(wall.as_millis()).unwrap_or(u64::MAX)
}
